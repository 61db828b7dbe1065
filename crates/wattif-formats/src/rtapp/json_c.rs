//! What json-c, by which rt-app reads its files, takes besides JSON, and what it refuses that our parser takes.
//!
//! The text is rewritten in place, byte for byte: words and numbers become those of JSON (with the decimal points and the values
//! that `Reader::RtApp` allows), so that every span stays where it is. As of json-c 0.16, the default (not strict) mode.

use super::json::token_end;
use super::lints::Report;
use crate::words::quoted;
use std::borrow::Cow;

/// `text` as JSON, up to the end of its root; `None` where json-c refuses it, with the reason in `report`.
pub(super) fn adapt<'t>(text: &'t str, report: &mut Report) -> Option<Cow<'t, str>> {
    let bytes = text.as_bytes();
    let mut out = Cow::Borrowed(bytes);
    let (mut at, mut open, mut refused) = (0, 0usize, false);
    while at < bytes.len() {
        let start = at;
        at = token_end(bytes, at);
        match bytes[start] {
            b'"' | b'\'' => surrogates(bytes, start..at, &mut out),
            b'{' | b'[' => open += 1,
            b'}' | b']' if open == 1 => break,
            b'}' | b']' => open = open.saturating_sub(1),
            b if is_word(b) => {
                at += bytes[at..].iter().take_while(|b| is_word(**b)).count();
                let word = &text[start..at];
                match read(word) {
                    Some(json) => write(&mut out, start, word, &json),
                    None => refused |= refuse(report, start..at, format!("{} is no value", quoted(word)), NUMBERS),
                }
            }
            0x0b | 0x0c | 0x80.. => {
                let c = text[start..].chars().next().expect("begins with a character, not within one");
                at = start + c.len_utf8();
                let blank = || format!("{} is no white space", quoted(&c.escape_default().to_string()));
                refused |= c.is_whitespace() && refuse(report, start..at, blank(), BLANKS);
            }
            _ => {}
        }
    }
    refused |= open == 1 && !end(text, at, &mut out, report);
    let text = match out {
        Cow::Borrowed(kept) => Cow::Borrowed(&text[..kept.len()]),
        Cow::Owned(bytes) => Cow::Owned(String::from_utf8(bytes).expect("ASCII in the place of ASCII")),
    };
    (!refused).then_some(text)
}

const NUMBERS: &str = "numbers are written like -12 or 0.5, texts in double quotes";
const BLANKS: &str = "rt-app's parser knows blanks, tabs and ends of lines; the other dialects also take this one";

fn refuse(report: &mut Report, span: std::ops::Range<usize>, message: String, help: &str) -> bool {
    report.error("rtapp::E01", span, format!("not JSON for rt-app: {message}")).help(help);
    true
}

/// Of numbers and of words without quotes.
fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.' | b'_')
}

/// Puts `json`, which is no longer, at the end of the place of `word`, behind blanks.
fn write(out: &mut Cow<'_, [u8]>, start: usize, word: &str, json: &str) {
    if json != word {
        let place = &mut out.to_mut()[start..start + word.len()];
        place.fill(b' ');
        place[word.len() - json.len()..].copy_from_slice(json.as_bytes());
    }
}

/// A word as JSON; as it is where no parser takes it; `None` where only json-c does not.
fn read(word: &str) -> Option<Cow<'_, str>> {
    const WORDS: [&str; 6] = ["true", "false", "null", "NaN", "Infinity", "-Infinity"];
    if let Some(known) = WORDS.iter().find(|known| known.eq_ignore_ascii_case(word)) {
        return Some((*known).into());
    }
    match word.as_bytes() {
        [b'.', b'0'..=b'9', ..] | [b'-', b'N', ..] => None,
        [b'-' | b'0'..=b'9', ..] => Some(number(word).map_or(word.into(), Cow::Owned)),
        _ => Some(word.into()),
    }
}

/// Zeros in front go, and so does an exponent without digits; the point that may then be put behind says that it is a float.
fn number(word: &str) -> Option<String> {
    let (sign, body) = word.strip_prefix('-').map_or(("", word), |body| ("-", body));
    let marker = body.find(['e', 'E']);
    let (mantissa, exponent) = marker.map_or((body, ""), |at| (&body[..at], &body[at + 1..]));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    let numeric = [whole, fraction, digits].iter().all(|part| part.bytes().all(|b| b.is_ascii_digit()));
    if !numeric || whole.len() + fraction.len() == 0 {
        return None;
    }
    let whole = match whole.trim_start_matches('0') {
        "" if !whole.is_empty() => "0",
        rest => rest,
    };
    let point = if mantissa.contains('.') || (marker.is_some() && digits.is_empty()) { "." } else { "" };
    let exponent = if digits.is_empty() { String::new() } else { format!("e{exponent}") };
    Some(format!("{sign}{whole}{point}{fraction}{exponent}"))
}

/// Escapes of half a character stand for U+FFFD, each.
fn surrogates(bytes: &[u8], string: std::ops::Range<usize>, out: &mut Cow<'_, [u8]>) {
    let unit = |at: usize| {
        let hex = bytes.get(at..at + 6).filter(|u| u.starts_with(b"\\u"))?;
        u16::from_str_radix(std::str::from_utf8(&hex[2..]).ok()?, 16).ok()
    };
    let mut at = string.start;
    while at < string.end {
        at += match (bytes[at], unit(at)) {
            (b'\\', Some(0xd800..=0xdbff)) if matches!(unit(at + 6), Some(0xdc00..=0xdfff)) => 12,
            (b'\\', Some(0xd800..=0xdfff)) => {
                out.to_mut()[at..at + 6].copy_from_slice(b"\\ufffd");
                6
            }
            (b'\\', _) => 2,
            _ => 1,
        };
    }
}

/// Behind the root comments must be whole, and the first other text ends the file. False where the file is refused.
fn end(text: &str, mut at: usize, out: &mut Cow<'_, [u8]>, report: &mut Report) -> bool {
    let bytes = text.as_bytes();
    while let Some(b) = bytes.get(at) {
        let (start, rest) = (at, &text[at..]);
        match b {
            b' ' | b'\t' | b'\n' | b'\r' => at += 1,
            b'/' if rest.starts_with("//") && !rest.contains('\n') => {
                let message = "the file ends within a comment";
                return !refuse(report, start..text.len(), message.into(), "end its last line with a line feed");
            }
            b'/' if rest.starts_with("//") || rest.starts_with("/*") => at = token_end(bytes, at),
            b'/' => return true, // refused later, as a word that is none
            _ => {
                let message = "text behind the end of the root object: rt-app never reads it";
                let first = rest.chars().next().map_or(0, char::len_utf8);
                let end = text.trim_end().len().max(at + first);
                report.warning("rtapp::W24", at..end, message).help("one closing bracket too many?");
                match out {
                    Cow::Borrowed(bytes) => *bytes = &bytes[..at],
                    Cow::Owned(bytes) => bytes.truncate(at),
                }
                return true;
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &str) {
        let mut report = Report::default();
        let adapted = adapt(text, &mut report).map(Cow::into_owned);
        let codes = || report.into_diagnostics().iter().map(|d| d.code).collect::<Vec<_>>().join(" ");
        assert_eq!(adapted.unwrap_or_else(codes), expect);
    }

    #[test]
    fn words_in_any_case() {
        check("[TRUE, fAlse, Null, nan, INFINITY, -infinity]", "[true, false, null, NaN, Infinity, -Infinity]");
        check("[truex, 'TRUE', Tru]", "[truex, 'TRUE', Tru]");
        check("[-nan, -NaN]", "rtapp::E01");
    }

    /// As json-c 0.16 takes and refuses them.
    #[test]
    fn numbers() {
        check("[007, -05, 00, 01.5, 1000., 1.e5]", "[  7,  -5,  0,  1.5, 1000., 1.e5]");
        check("[1e, 1e+, 1.5e, 00e5, -.5, 0e]", "[1.,  1.,  1.5,  0e5, -.5, 0.]");
        check("[.5]", "rtapp::E01");
        check("[0x10, +1, 1-2, 1e5e, -, -., 1.2.3, 1_0]", "[0x10, +1, 1-2, 1e5e, -, -., 1.2.3, 1_0]");
    }

    #[test]
    fn halves_of_characters() {
        check(
            r#"["\ud800", "\udc00x", "\ud83d\ude00", "\\ud800"]"#,
            r#"["\ufffd", "\ufffdx", "\ud83d\ude00", "\\ud800"]"#,
        );
        check(r#"["\ud800\ud800", '\uD800\n', "\ud8"]"#, r#"["\ufffd\ufffd", '\ufffd\n', "\ud8"]"#);
    }

    #[test]
    fn the_end_of_the_root_is_that_of_the_file() {
        for behind in ["}", "\n{\"x\": 1}", " x/*", "\u{b}", "/**/é"] {
            let mut report = Report::default();
            let text = format!("{{\"a\": [{{}}]}}{behind}");
            let adapted = adapt(&text, &mut report).unwrap();
            assert_eq!(adapted.trim_end_matches("/**/").trim_end(), "{\"a\": [{}]}");
            assert_eq!(report.into_diagnostics()[0].code, "rtapp::W24");
        }
        check("{} /* c */ // d\n\n", "{} /* c */ // d\n\n");
        check("{} // no end of line", "rtapp::E01");
        check("{}/x", "{}/x");
    }

    #[test]
    fn blanks_of_others() {
        for blank in ["\u{b}", "\u{c}", "\u{a0}", "\u{2028}"] {
            check(&format!("{{\"a\":{blank}1}}"), "rtapp::E01");
            check(&format!("{{\"a{blank}\":1/*{blank}*/}}"), &format!("{{\"a{blank}\":1/*{blank}*/}}"));
        }
    }
}
