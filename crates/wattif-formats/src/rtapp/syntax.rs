//! What is wrong with a text that is not JSON: every mistake whose repair is obvious is repaired, so that the next one shows
//! in the same run. A repair changes no byte's place, and nothing of a repaired text is ever interpreted.

use crate::words::quoted;
use jsonc_parser::common::Range;
use jsonc_parser::errors::ParseErrorKind as Kind;
use jsonc_parser::{CollectOptions, ParseOptions, ParseStringErrorKind, parse_to_ast};

/// Most mistakes shown of one text.
const MOST: usize = 10;
/// A longer text is read once only; its first mistake is shown.
const LONGEST: usize = 4 << 20;

/// A mistake.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mistake {
    pub span: std::ops::Range<usize>,
    pub message: String,
    pub next: &'static str,
}

/// The mistakes of `text`, which the parser refuses under `options`.
pub(super) fn mistakes(mut text: String, options: &ParseOptions) -> Vec<Mistake> {
    let mut found = Vec::new();
    while let Err(e) = parse_to_ast(&text, &CollectOptions::default(), options) {
        found.push(mistake(&text, e.range(), e.kind()));
        if found.len() == MOST || text.len() > LONGEST || !repair(&mut text, e.range(), e.kind()) {
            break;
        }
    }
    found
}

fn mistake(text: &str, range: Range, kind: &Kind) -> Mistake {
    let unterminated = |what: &str| format!("the {what} that begins here never ends");
    let (message, next) = match kind {
        Kind::UnterminatedObject => (unterminated("object"), "the file ends before its `}`: is it cut off?"),
        Kind::UnterminatedArray => (unterminated("array"), "the file ends before its `]`: is it cut off?"),
        Kind::UnterminatedCommentBlock => (unterminated("comment"), "end it with `*/`"),
        Kind::String(ParseStringErrorKind::UnterminatedStringLiteral) => {
            (unterminated("string"), "end it with a quote on the same line")
        }
        Kind::String(_) => (kind.to_string(), "JSON knows \\\" \\\\ \\/ \\b \\f \\n \\r \\t and \\uXXXX"),
        Kind::ExpectedComma if leading_zero(text, range) => {
            ("a number begins with a zero".into(), "write it without; the file is not read as octal")
        }
        Kind::ExpectedComma => ("a comma is missing".into(), "put a comma between two entries"),
        Kind::ExpectedStringObjectProperty => (kind.to_string(), "write the key in double quotes"),
        Kind::ExpectedColonAfterObjectKey | Kind::ExpectedObjectValue => (kind.to_string(), "write \"key\": value"),
        Kind::UnexpectedWord | Kind::UnexpectedToken => {
            let word = &text[range.start..range.start + word(text, range.start)];
            (
                format!("{} is no value", quoted(word)),
                "write texts in double quotes; true, false and null stand without",
            )
        }
        Kind::MultipleRootJsonValues => (kind.to_string(), "a file holds one object: one closing bracket too many?"),
        Kind::UnexpectedCloseBrace | Kind::UnexpectedCloseBracket => {
            (kind.to_string(), "which bracket was opened last?")
        }
        Kind::UnexpectedComma => (kind.to_string(), "a value is missing before it, or there is one comma too many"),
        _ => (kind.to_string(), "numbers are written like -12, texts in double quotes"),
    };
    // A comma is missed after the last value: the place of the whole is the rest of its line.
    let end = if range.end > range.start { range.end } else { text.len().min(range.start + 1) };
    Mistake { span: range.start..end, message: format!("not JSON: {message}"), next }
}

/// Put something harmless where the mistake is; false when it is not obvious what.
fn repair(text: &mut String, range: Range, kind: &Kind) -> bool {
    match kind {
        Kind::ExpectedComma if leading_zero(text, range) => overwrite(text, range.start, word(text, range.start), ""),
        Kind::ExpectedComma => match text.as_bytes().get(range.start) {
            Some(b' ' | b'\t' | b'\n' | b'\r') => overwrite(text, range.start, 1, ","),
            _ => false,
        },
        Kind::ExpectedStringObjectProperty => {
            let len = word(text, range.start);
            len >= 2 && overwrite(text, range.start, len, &format!("\"{}\"", "k".repeat(len - 2)))
        }
        Kind::UnexpectedWord
        | Kind::UnexpectedToken
        | Kind::ExpectedDigit
        | Kind::ExpectedDigitFollowingNegativeSign
        | Kind::ExpectedPlusMinusOrDigitInNumberLiteral
        | Kind::HexadecimalNumbersNotAllowed
        | Kind::BareDecimalPointNumbersNotAllowed
        | Kind::NonFiniteNumbersNotAllowed
        | Kind::UnaryPlusNumbersNotAllowed => {
            let len = word(text, range.start);
            len >= 1 && overwrite(text, range.start, len, "0")
        }
        _ => false,
    }
}

/// Two numbers without anything between are one that begins with a zero.
fn leading_zero(text: &str, range: Range) -> bool {
    text.as_bytes().get(range.start).is_some_and(u8::is_ascii_digit)
}

/// Bytes from `at` up to white space, a comma, colon, quote or bracket.
fn word(text: &str, at: usize) -> usize {
    let rest = text.get(at..).unwrap_or("");
    rest.find(|c: char| c.is_whitespace() || ",:\"'{}[]".contains(c)).unwrap_or(rest.len())
}

/// Replace `len` bytes at `at` by `by` and blanks.
fn overwrite(text: &mut String, at: usize, len: usize, by: &str) -> bool {
    text.replace_range(at..at + len, &format!("{by:len$}"));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &[(usize, &str)]) {
        let options = super::super::json::lenient(super::super::json::Reader::Workgen);
        let found = mistakes(text.to_string(), &options);
        let places: Vec<(usize, &str)> =
            found.iter().map(|m| (m.span.start, m.message.strip_prefix("not JSON: ").unwrap())).collect();
        assert_eq!(places, expect);
    }

    #[test]
    fn several_at_once() {
        check(
            "{\"a\": 1 \"b\": tru, c0: 0x1F, \"d\": [1 2], \"e\": 007}",
            &[
                (7, "a comma is missing"),
                (13, "`tru` is no value"),
                (18, "Expected string for object property"),
                (22, "Hexadecimal numbers are not allowed"),
                (35, "a comma is missing"),
                (46, "a number begins with a zero"),
            ],
        );
    }

    #[test]
    fn ends_where_nothing_is_obvious() {
        check("{\"a\": [1, 2", &[(6, "the array that begins here never ends")]);
        check("{\"a\": \"x}", &[(6, "the string that begins here never ends")]);
        check("{\"a\":, }", &[(5, "Unexpected comma")]);
        check("{a: 1}", &[(1, "Expected string for object property")]);
    }

    #[test]
    fn many_are_bounded() {
        let found = mistakes(
            format!("[{}]", "x, ".repeat(100)),
            &super::super::json::lenient(super::super::json::Reader::Workgen),
        );
        assert_eq!(found.len(), MOST);
    }
}
