//! What traces come wrapped in: gzip, zstd, HTML pages, atrace's zlib. Bounded: a bomb is refused.

use super::Refused;
use super::build::Builder;
use super::text::{self, trim};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::borrow::Cow;
use std::io::Read;
use wattif_model::check::Diagnostic;

/// Most bytes a trace may have, decompressed.
pub const MAX_BYTES: usize = 2 << 30;
/// Traces, text or binary, become some 5 to 60 times smaller; zeros a thousand times with gzip, and ten thousand with zstd.
const MAX_RATIO: usize = 250;
/// Below this the ratio does not matter.
const SMALL: usize = 64 << 20;

/// Most bytes that so many compressed ones may become.
pub(super) fn limit(compressed: usize) -> usize {
    compressed.saturating_mul(MAX_RATIO).clamp(SMALL, MAX_BYTES)
}

/// Takes gzip and zstd off.
pub(super) fn unwrap<'a>(bytes: &'a [u8], builder: &mut Builder) -> Result<Cow<'a, [u8]>, Refused> {
    if bytes.len() > MAX_BYTES {
        return Err(refused("trace::E02", format!("{} bytes; {MAX_BYTES} is the limit", bytes.len())));
    }
    let whole = match bytes {
        [0x1f, 0x8b, ..] => inflate(flate2::read::MultiGzDecoder::new(bytes), bytes.len()),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => unzstd(bytes, limit(bytes.len())),
        _ => return Ok(Cow::Borrowed(bytes)),
    }?;
    if let Some(why) = whole.damage.as_ref().filter(|_| whole.bytes.is_empty()) {
        let help = "the file is truncated or damaged in the first part of it that can be decompressed";
        let message = format!("compressed data ends before any of it is whole ({why})");
        return Err(Box::new(Diagnostic::error("trace::E01", 0..0, message).help(help)));
    }
    note_damage(&whole, builder);
    Ok(Cow::Owned(whole.bytes))
}

/// What was decompressed, and why no more.
pub(super) struct Inflated {
    pub bytes: Vec<u8>,
    pub damage: Option<String>,
}

fn note_damage(whole: &Inflated, builder: &mut Builder) {
    if let Some(why) = &whole.damage {
        let message = format!("compressed data ends early ({why}); {} bytes were read", whole.bytes.len());
        builder.say(Diagnostic::warning("trace::W04", 0..0, message));
    }
}

/// Everything a decoder yields, up to the limit.
pub(super) fn inflate(decoder: impl Read, compressed: usize) -> Result<Inflated, Refused> {
    take(decoder, limit(compressed))
}

pub(super) fn take(decoder: impl Read, limit: usize) -> Result<Inflated, Refused> {
    let mut bytes = Vec::new();
    let damage = decoder.take(limit as u64 + 1).read_to_end(&mut bytes).err().map(|e| e.to_string());
    if bytes.len() > limit {
        return Err(bomb("compressed data", limit));
    }
    Ok(Inflated { bytes, damage })
}

/// An empty block that is the last of its frame, and room for a checksum.
const LAST_BLOCK: [u8; 7] = [1, 0, 0, 0, 0, 0, 0];

/// zstd frames, one after the other. Of one that is cut or damaged, every whole block.
pub(super) fn unzstd(bytes: &[u8], limit: usize) -> Result<Inflated, Refused> {
    let mut rest = bytes;
    let mut whole = Inflated { bytes: Vec::new(), damage: None };
    let mut decoder = FrameDecoder::new();
    while !rest.is_empty() && whole.damage.is_none() {
        // The decoder keeps a window in memory, and bounds what the frame may ask for.
        let mut decoded = decoder.reset(&mut rest);
        while decoded.is_ok() && !decoder.is_finished() {
            decoded = decoder.decode_blocks(&mut rest, BlockDecodingStrategy::UptoBlocks(1)).map(|_| ());
            if decoded.is_err() {
                // It gives away the bytes of its window only at the end of the frame: this is one.
                let _ = decoder.decode_blocks(&LAST_BLOCK[..], BlockDecodingStrategy::UptoBlocks(1));
            }
            whole.bytes.extend(decoder.collect().unwrap_or_default());
            if whole.bytes.len() > limit {
                return Err(bomb("compressed data", limit));
            }
        }
        whole.damage = decoded.err().map(|e| e.to_string());
    }
    Ok(whole)
}

/// More than [`limit`] allows.
pub(super) fn bomb(what: &str, limit: usize) -> Refused {
    let why = format!("{what} becomes more than {limit} bytes: refused");
    let help = format!(
        "traces do not shrink to less than 1/{MAX_RATIO} of their size; decompress it yourself if you trust it, up to {MAX_BYTES} bytes"
    );
    Box::new(Diagnostic::error("trace::E02", 0..0, why).help(help))
}

pub(super) fn refused(code: &'static str, why: String) -> Refused {
    Box::new(Diagnostic::error(code, 0..0, why))
}

// ---- HTML and atrace ---------------------------------------------------------------------------------------------------

pub(super) fn is_html(head: &[u8]) -> bool {
    let head = String::from_utf8_lossy(&head[..head.len().min(1024)]).to_ascii_lowercase();
    let mut start = head.trim_start();
    // A comment may stand before it.
    while let Some((_, after)) = start.strip_prefix("<!--").and_then(|comment| comment.split_once("-->")) {
        start = after.trim_start();
    }
    start.starts_with("<!doctype html") || start.starts_with("<html")
}

/// The scripts with class `trace-data` or id `viewer-data`, or the string `linuxPerfData`.
pub(super) fn html(page: &[u8], builder: &mut Builder) -> Result<(), Refused> {
    let mut found = 0;
    let mut from = 0;
    let mut place = Place { page, at: 0, line: 1 };
    while let Some(at) = tag(page, b"<script", from) {
        let Some(open) = find(page, b">", at) else { break };
        from = open;
        // Pages also look for these scripts by their class.
        if ["trace-data", "viewer-data"].iter().all(|name| find(&page[at..open], name.as_bytes(), 0).is_none()) {
            continue;
        }
        from = tag(page, b"</script", open).unwrap_or(page.len());
        found += usize::from(section(&page[open + 1..from], place.line(open + 1), builder)?);
    }
    let mut from = 0;
    let mut place = Place { page, at: 0, line: 1 };
    while let Some(at) = find(page, b"linuxPerfData", from) {
        from = at + 1;
        let Some(quote) = page[at..].iter().take(40).position(|&b| b == b'"').map(|i| at + i + 1) else { continue };
        let script = &page[quote..tag(page, b"</script", quote).unwrap_or(page.len())];
        let body = &script[..end_of_string(script)];
        let first = place.line(quote);
        from = quote + body.len();
        if !section(&without_escapes(body), first, builder)? {
            continue;
        }
        found += 1;
        if text::probe(&script[body.len()..]) {
            let last = first + memchr::memchr_iter(b'\n', body).count();
            let message = format!("the text of the trace ends in line {last}; events that follow it are not read");
            builder.say(Diagnostic::warning("trace::W04", 0..0, message));
        }
    }
    if found == 0 {
        return Err(refused("trace::E01", "an HTML page without a trace in it".into()));
    }
    Ok(())
}

/// Where this tag begins, in letters of any case.
fn tag(page: &[u8], what: &[u8], from: usize) -> Option<usize> {
    let is_it = |at: &usize| page[*at..].get(..what.len()).is_some_and(|tag| tag.eq_ignore_ascii_case(what));
    memchr::memchr_iter(b'<', page.get(from..)?).map(|at| from + at).find(is_it)
}

/// Length of a JavaScript string that goes on from line to line, if its first one does. Some pages escape no quotes in it, and some no ends of lines: its last
/// line is the first one that ends in a quote, and in no backslash; without such a line it is all of the script.
fn end_of_string(script: &[u8]) -> usize {
    let first = script.split(|&b| b == b'\n').next().unwrap_or_default();
    if !first.trim_ascii_end().ends_with(b"\\") {
        return memchr::memchr(b'"', first).unwrap_or(first.len()); // it is not one of several lines
    }
    let mut begin = 0;
    for line in script.split_inclusive(|&b| b == b'\n') {
        let statement = line.trim_ascii_end();
        let text = statement.strip_suffix(b";").unwrap_or(statement).trim_ascii_end();
        if let Some(text) = text.strip_suffix(b"\"") {
            return begin + text.len();
        }
        begin += line.len();
    }
    script.len()
}

/// Quotes and backslashes as they are, where the page has escaped all of them. Ends of lines stay.
fn without_escapes(body: &[u8]) -> Cow<'_, [u8]> {
    let (mut out, mut rest) = (Vec::new(), body);
    while let Some(at) = memchr::memchr2(b'"', b'\\', rest) {
        let kept = match rest[at..] {
            [b'\\', b'"' | b'\\', ..] => at,
            [b'\\', b'n' | b'\r' | b'\n', ..] | [b'\\'] => at + 1,
            _ => return Cow::Borrowed(body),
        };
        out.extend_from_slice(&rest[..kept]);
        out.extend(rest.get(at + 1));
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    Cow::Owned(out)
}

/// Counts the lines of a page once.
struct Place<'a> {
    page: &'a [u8],
    at: usize,
    line: usize,
}

impl Place<'_> {
    /// Number of the line of byte `at`, which is behind the one asked for before.
    fn line(&mut self, at: usize) -> usize {
        self.line += memchr::memchr_iter(b'\n', &self.page[self.at..at]).count();
        self.at = at;
        self.line
    }
}

/// Text, or base64 of zlib or gzip of text; its first line is line `first` of the page.
fn section(body: &[u8], first: usize, builder: &mut Builder) -> Result<bool, Refused> {
    if text::probe(body) {
        text::read(body, first, builder);
        return Ok(true);
    }
    let packed = base64(body);
    let whole = match packed[..] {
        [0x1f, 0x8b, ..] => inflate(flate2::read::MultiGzDecoder::new(&packed[..]), packed.len()),
        [method, _, ..] if method & 0x0f == 8 => inflate(flate2::read::ZlibDecoder::new(&packed[..]), packed.len()),
        _ => return Ok(false),
    }?;
    note_damage(&whole, builder);
    let events = text::probe(&whole.bytes);
    if events {
        text::read(&whole.bytes, 1, builder);
    }
    Ok(events)
}

/// `TRACE:` and zlib: what `atrace -z` writes.
pub(super) fn is_atrace(head: &[u8]) -> bool {
    find(&head[..head.len().min(4096)], b"TRACE:\n", 0).is_some_and(|at| matches!(head.get(at + 7), Some(0x78)))
}

pub(super) fn atrace(bytes: &[u8], builder: &mut Builder) -> Result<(), Refused> {
    let at = find(bytes, b"TRACE:\n", 0).map_or(0, |at| at + 7);
    let whole = inflate(flate2::read::ZlibDecoder::new(&bytes[at..]), bytes.len())?;
    note_damage(&whole, builder);
    text::read(&whole.bytes, 1, builder);
    Ok(())
}

/// A trace in JSON, as Chrome writes it: the text in `systemTraceEvents`.
const JSON_KEY: &[u8] = b"\"systemTraceEvents\"";

pub(super) fn is_json(bytes: &[u8]) -> bool {
    trim(&bytes[..bytes.len().min(256)]).starts_with(b"{") && find(bytes, JSON_KEY, 0).is_some()
}

pub(super) fn json(bytes: &[u8], builder: &mut Builder) -> Result<(), Refused> {
    let begin = find(bytes, JSON_KEY, 0).map_or(0, |at| at + JSON_KEY.len());
    let value = trim(&bytes[begin..]).strip_prefix(b":").map(trim).and_then(|v| v.strip_prefix(b"\""));
    let Some(value) = value else {
        return Err(refused("trace::E01", "systemTraceEvents in this JSON is no text".into()));
    };
    let (text, whole) = unescaped(value);
    if !whole {
        builder.say(Diagnostic::warning("trace::W04", 0..0, "the JSON around the trace ends early"));
    }
    let message = "of this JSON, systemTraceEvents alone is read; lines are counted in it";
    builder.say(Diagnostic::note("trace::N02", 0..0, message));
    text::read(&text, 1, builder);
    Ok(())
}

/// A JSON string up to the quote that ends it, and whether there is one.
fn unescaped(value: &[u8]) -> (Vec<u8>, bool) {
    let mut out = Vec::new();
    let mut rest = value;
    while let Some(at) = memchr::memchr2(b'"', b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        if rest[at] == b'"' {
            return (out, true);
        }
        let code = || u32::from_str_radix(std::str::from_utf8(rest.get(at + 2..at + 6)?).ok()?, 16).ok();
        let (ch, len) = match rest.get(at + 1) {
            Some(b'n') => ('\n', 2),
            Some(b't') => ('\t', 2),
            Some(b'r') => ('\r', 2),
            // Halves of pairs are in no name of a thread.
            Some(b'u') => (code().and_then(char::from_u32).unwrap_or('?'), 6),
            Some(&b) => (char::from(b), 2),
            None => return (out, false),
        };
        out.extend_from_slice(ch.encode_utf8(&mut [0; 4]).as_bytes());
        rest = rest.get(at + len..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    (out, false)
}

/// UTF-8 of text that some shells write as UTF-16, or with a mark before it.
pub(super) fn utf8(bytes: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    let units: fn([u8; 2]) -> u16 = match *bytes {
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        [0xef, 0xbb, 0xbf, ..] => return Cow::Owned(bytes[3..].to_vec()),
        _ => return bytes,
    };
    let units = bytes[2..].chunks_exact(2).map(|u| units([u[0], u[1]]));
    let chars = char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER));
    Cow::Owned(chars.collect::<String>().into_bytes())
}

fn find(bytes: &[u8], what: &[u8], from: usize) -> Option<usize> {
    memchr::memmem::find(bytes.get(from..)?, what).map(|i| from + i)
}

/// Decodes what is base64 and leaves the rest out.
fn base64(text: &[u8]) -> Vec<u8> {
    let (mut out, mut bits, mut n) = (Vec::with_capacity(text.len() / 4 * 3), 0u32, 0);
    for &b in text {
        let v = match b {
            b'A'..=b'Z' => b - b'A',
            b'a'..=b'z' => b - b'a' + 26,
            b'0'..=b'9' => b - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => break,
            _ => continue,
        };
        bits = bits << 6 | u32::from(v);
        n += 6;
        if n >= 8 {
            n -= 8;
            out.push((bits >> n) as u8);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    /// Blocks of a frame that is cut are read though they all fit the decoder's window; those of the frame before it too.
    #[test]
    fn cut_zstd() {
        let block = 128 << 10;
        let text: Vec<u8> =
            (0..60_000u32).flat_map(|i| format!("{}\n", i.wrapping_mul(2_654_435_761)).into_bytes()).collect();
        assert!(text.len() > 4 * block);
        let frame = compress_to_vec(&text[..], CompressionLevel::Fastest);
        let read = |bytes: &[u8]| unzstd(bytes, text.len() * 2).unwrap();
        let whole = read(&frame);
        assert_eq!((whole.bytes == text, whole.damage), (true, None));
        let mut before = usize::MAX;
        for cut in (1..frame.len()).rev().step_by(997) {
            let part = read(&frame[..cut]);
            assert!(part.damage.is_some() && text.starts_with(&part.bytes), "{cut}");
            assert!(
                part.bytes.len() * frame.len() + frame.len() * block >= cut * text.len(),
                "{cut}: {}",
                part.bytes.len()
            );
            assert!(part.bytes.len() <= before);
            before = part.bytes.len();
        }
        let two = read(&[&frame[..], &frame[..frame.len() / 2]].concat());
        assert!(two.damage.is_some() && two.bytes.starts_with(&text) && two.bytes.len() >= text.len() + block);
        // Bombs are bombs to their last byte.
        assert!(unzstd(&frame, text.len() - 1).is_err());
        assert!(unzstd(&frame[..frame.len() / 2], block).is_err());
        // Nothing whole: not an empty file.
        for packed in [&frame[..100], &[0x1f, 0x8b, 8]] {
            let why = unwrap(packed, &mut Builder::default()).unwrap_err();
            assert!(why.message.starts_with("compressed data ends before any of it is whole"), "{}", why.message);
        }
    }
}
