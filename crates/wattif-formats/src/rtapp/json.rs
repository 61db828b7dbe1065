//! JSON as rt-app files use it: comments, trailing commas, repeated keys kept, and the historical `"suspend",`.
//!
//! The text is scanned once before `jsonc-parser` sees it: depth and number of values are bounded there, and keys
//! without a value are found. The result is an owned tree with the span of every value, which `--set` can patch.

use super::lints::Report;
use super::{json_c, syntax};
use crate::words::quoted;
use jsonc_parser::ast;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use std::borrow::Cow;
use std::ops::Range;

pub(super) type Span = Range<usize>;

/// Largest text accepted, bytes.
pub const MAX_BYTES: usize = 64 << 20;
/// Deepest nesting of objects and arrays; rt-app's grammar needs six.
pub const MAX_DEPTH: usize = 64;
/// Most values in one file.
pub const MAX_VALUES: usize = 1_000_000;

/// Who reads a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    /// rt-app's json-c, and nothing before it.
    RtApp,
    /// rt-app after its pre-processor, which completes a `suspend` without a value.
    Workgen,
    /// An override.
    Value,
}

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub span: Span,
    pub value: Json,
}

/// What kind of value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    Array(Vec<Node>),
    Object(Vec<Member>),
}

/// A key with its value; an object keeps repeated keys.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Member {
    pub name: String,
    pub name_span: Span,
    pub value: Node,
}

impl Json {
    /// For "expected …, found …".
    pub fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "a boolean",
            Json::Number(n) if n.contains(['.', 'e', 'E', 'N', 'I']) => "a float",
            Json::Number(_) => "an integer",
            Json::Text(_) => "a string",
            Json::Array(_) => "an array",
            Json::Object(_) => "an object",
        }
    }
}

const BYTE_ORDER_MARK: char = '\u{feff}';

/// The smallest workload, for help lines.
pub(super) const EXAMPLE: &str = r#"the smallest workload: { "tasks": { "a": { "run": 1000, "sleep": 9000 } } }"#;

/// Parse `text`; `None` when it is not JSON, with the reason in `report`.
pub(super) fn parse(text: &str, reader: Reader, report: &mut Report) -> Option<Node> {
    if text.len() > MAX_BYTES {
        report.error(
            "rtapp::E02",
            0..0,
            format!("the file has {} bytes; the limit is {MAX_BYTES} (64 MiB)", text.len()),
        );
        return None;
    }
    let mark = 0..BYTE_ORDER_MARK.len_utf8();
    if reader == Reader::RtApp && text.starts_with(BYTE_ORDER_MARK) {
        let message = "a byte order mark, which rt-app takes for a mistake";
        report.error("rtapp::E01", mark, message).help("save the file without it; the other dialects skip it");
        return None;
    }
    if let Some(rest) = text.strip_prefix(BYTE_ORDER_MARK) {
        report.note("rtapp::N03", mark, "a byte order mark: rt-app takes it for a mistake");
        // Blanks in its place: every span stays where it is.
        return parse(&format!("{:1$}{rest}", "", BYTE_ORDER_MARK.len_utf8()), reader, report);
    }
    let adapted = match reader {
        Reader::RtApp => json_c::adapt(text, report)?,
        _ => Cow::Borrowed(text),
    };
    let text = &*adapted;
    let options = lenient(reader);
    let bare = scan(text, report)?;
    for key in &bare {
        bare_key(text, key, reader == Reader::Workgen, report);
    }
    let (patched, inserted) = complete(text, &bare);
    match parse_to_ast(&patched, &CollectOptions::default(), &options) {
        Ok(parsed) => match parsed.value {
            Some(value) => Some(convert(value, &inserted)),
            None => {
                report.error("rtapp::E01", 0..0, "the file is empty").help(EXAMPLE);
                None
            }
        },
        Err(_) => {
            for m in syntax::mistakes(patched, &options) {
                let span = unshift(m.span.start, &inserted)..unshift(m.span.end, &inserted);
                report.error("rtapp::E01", span, m.message).help(m.next);
            }
            None
        }
    }
}

/// A value on its own: JSON, or a bare word taken as a string.
pub(super) fn parse_value(text: &str, span: Span) -> Node {
    let mut ignored = Report::default();
    let node = parse(text, Reader::Value, &mut ignored).unwrap_or(Node { span: 0..0, value: Json::Text(text.into()) });
    respan(node, &span)
}

fn respan(node: Node, span: &Span) -> Node {
    let value = match node.value {
        Json::Array(items) => Json::Array(items.into_iter().map(|n| respan(n, span)).collect()),
        Json::Object(members) => Json::Object(
            members
                .into_iter()
                .map(|m| Member { name: m.name, name_span: span.clone(), value: respan(m.value, span) })
                .collect(),
        ),
        other => other,
    };
    Node { span: span.clone(), value }
}

/// What json-c accepts beyond the standard when not strict. Numbers that only it takes are those of rt-app alone, where
/// [`json_c`] has looked at them.
pub(super) fn lenient(reader: Reader) -> ParseOptions {
    let json_c = reader == Reader::RtApp;
    ParseOptions {
        allow_comments: true,
        allow_loose_object_property_names: false,
        allow_trailing_commas: true,
        allow_missing_commas: false,
        allow_single_quoted_strings: true,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: json_c,
        allow_non_finite_numbers: json_c,
        allow_extended_string_escapes: false,
    }
}

fn bare_key(text: &str, key: &Span, bare_suspend: bool, report: &mut Report) {
    let name = text[key.clone()].trim_matches(['"', '\'']);
    if !name.starts_with("suspend") {
        report.error("rtapp::E16", key.clone(), format!("the key {} has no value", quoted(name)));
    } else if !bare_suspend {
        report.error("rtapp::E16", key.clone(), "`suspend` without a value is not JSON: rt-app exits with 2").help(
            "write \"suspend\": \"\", or use the workgen dialect, which completes it as the old pre-processor did",
        );
    }
}

/// Keys without a value, in order. `None` when a limit is exceeded.
fn scan(text: &str, report: &mut Report) -> Option<Vec<Span>> {
    let bytes = text.as_bytes();
    let mut open: Vec<u8> = Vec::new();
    let mut key: Option<Span> = None; // a string where a key is due, its colon not yet seen
    let mut key_due = false;
    let mut values = 0usize;
    let mut bare = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        at = token_end(bytes, at);
        match bytes[start] {
            b'"' | b'\'' if key_due => (key, key_due) = (Some(start..at), false),
            b'{' | b'[' => {
                open.push(bytes[start]);
                key_due = bytes[start] == b'{';
                values += 1;
            }
            b':' => key = None,
            b',' => {
                bare.extend(key.take());
                key_due = open.last() == Some(&b'{');
                values += 1;
            }
            b'}' | b']' => {
                bare.extend(key.take());
                open.pop();
                key_due = false;
            }
            _ => {}
        }
        if open.len() > MAX_DEPTH {
            report
                .error("rtapp::E02", start..at, format!("nested deeper than {MAX_DEPTH} levels"))
                .help("rt-app's grammar needs six: has a `}` been forgotten?");
            return None;
        }
        if values > MAX_VALUES {
            report.error("rtapp::E02", start..at, format!("more than {MAX_VALUES} values"));
            return None;
        }
    }
    Some(bare)
}

/// End of the string, comment or single byte that begins at `at`.
pub(super) fn token_end(bytes: &[u8], at: usize) -> usize {
    let find = |from: usize, end: &[u8]| {
        let rest = bytes.get(from..).unwrap_or(&[]);
        rest.windows(end.len()).position(|w| w == end).map_or(bytes.len(), |p| from + p + end.len())
    };
    match bytes[at] {
        quote @ (b'"' | b'\'') => string_end(bytes, at + 1, quote),
        b'/' if bytes.get(at + 1) == Some(&b'/') => find(at + 2, b"\n"),
        b'/' if bytes.get(at + 1) == Some(&b'*') => find(at + 2, b"*/"),
        _ => at + 1,
    }
}

fn string_end(bytes: &[u8], mut at: usize, quote: u8) -> usize {
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b if b == quote => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

const VALUE: &str = ":null";

/// `text` with a value after each bare key, and the places (in the new text) where one was put.
fn complete(text: &str, bare: &[Span]) -> (String, Vec<usize>) {
    let mut out = String::with_capacity(text.len() + bare.len() * VALUE.len());
    let mut inserted = Vec::with_capacity(bare.len());
    let mut done = 0;
    for key in bare {
        out.push_str(&text[done..key.end]);
        inserted.push(out.len());
        out.push_str(VALUE);
        done = key.end;
    }
    out.push_str(&text[done..]);
    (out, inserted)
}

/// A place in the completed text as a place in the original.
fn unshift(at: usize, inserted: &[usize]) -> usize {
    let before = inserted.partition_point(|&i| i < at);
    match before.checked_sub(1).map(|last| inserted[last]) {
        Some(last) if at < last + VALUE.len() => last - (before - 1) * VALUE.len(), // inside the inserted value
        _ => at - before * VALUE.len(),
    }
}

fn convert(value: ast::Value<'_>, inserted: &[usize]) -> Node {
    let span = |r: jsonc_parser::common::Range| unshift(r.start, inserted)..unshift(r.end, inserted);
    match value {
        ast::Value::StringLit(s) => Node { span: span(s.range), value: Json::Text(s.value.into_owned()) },
        ast::Value::NumberLit(n) => Node { span: span(n.range), value: Json::Number(n.value.into()) },
        ast::Value::BooleanLit(b) => Node { span: span(b.range), value: Json::Bool(b.value) },
        ast::Value::NullKeyword(n) => Node { span: span(n.range), value: Json::Null },
        ast::Value::Array(a) => {
            let items = a.elements.into_iter().map(|v| convert(v, inserted)).collect();
            Node { span: span(a.range), value: Json::Array(items) }
        }
        ast::Value::Object(o) => {
            let members = o.properties.into_iter().map(|p| member(p, inserted)).collect();
            Node { span: span(o.range), value: Json::Object(members) }
        }
    }
}

fn member(property: ast::ObjectProp<'_>, inserted: &[usize]) -> Member {
    use jsonc_parser::common::Ranged;
    let range = property.name.range();
    Member {
        name_span: unshift(range.start, inserted)..unshift(range.end, inserted),
        name: property.name.into_string(),
        value: convert(property.value, inserted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &str) {
        let mut report = Report::default();
        let parsed = parse(text, Reader::Workgen, &mut report);
        let shown = match &parsed {
            Some(node) => show(node),
            None => report.into_diagnostics().iter().map(|d| d.code).collect::<Vec<_>>().join(" "),
        };
        assert_eq!(shown, expect);
    }

    fn show(node: &Node) -> String {
        match &node.value {
            Json::Object(members) => {
                let inner: Vec<_> = members.iter().map(|m| format!("{}={}", m.name, show(&m.value))).collect();
                format!("{{{}}}", inner.join(" "))
            }
            Json::Array(items) => format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(" ")),
            Json::Null => "null".into(),
            Json::Bool(b) => b.to_string(),
            Json::Number(n) => n.clone(),
            Json::Text(t) => format!("{t:?}"),
        }
    }

    #[test]
    fn lexical_level() {
        check(r#"{"a": 1, "a": 2,}"#, "{a=1 a=2}");
        check("/* x */ {\"a\": [1, -2,], // y\n 'b': true}", "{a=[1 -2] b=true}");
        check(r#"{"suspend", "run": 5}"#, "{suspend=null run=5}");
        check(r#"{"run": 5, "suspend"}"#, "{run=5 suspend=null}");
        check(r#"{"a": 0x10}"#, "rtapp::E01");
        check("", "rtapp::E01");
        check("\u{feff}{\"a\": 1}", "{a=1}");
        check(&"[".repeat(100_000), "rtapp::E02");
        check(&"[1,".repeat(63), "rtapp::E01");
        check(&format!("[{}1]", "1,".repeat(MAX_VALUES + 1)), "rtapp::E02");
    }

    /// As json-c reads it, and the others do not.
    #[test]
    fn rt_app_alone() {
        let read = |text: &str, reader| {
            let mut report = Report::default();
            let node = parse(text, reader, &mut report);
            node.map_or_else(|| report.into_diagnostics()[0].code.to_string(), |node| show(&node))
        };
        for (text, expect) in [
            ("{'a': TRUE, 'b': 007, 'c': 1e, 'd': -infinity} x", "{a=true b=7 c=1. d=-Infinity}"),
            (r#"{"\ud800": 1000.}"#, "{\u{fffd}=1000.}"),
        ] {
            assert_eq!(read(text, Reader::RtApp), expect);
            assert_eq!(read(text, Reader::Workgen), "rtapp::E01");
        }
        for text in ["\u{feff}{}", "{}\u{b}//", "{\u{c}}"] {
            assert_eq!(read(text, Reader::Workgen), "{}");
        }
        assert_eq!(read("\u{feff}{}", Reader::RtApp), "rtapp::E01");
        assert_eq!(read("{\u{c}}", Reader::RtApp), "rtapp::E01");
        let nan = parse("[nan]", Reader::RtApp, &mut Report::default()).unwrap();
        assert!(matches!(&nan.value, Json::Array(items) if items[0].value.kind() == "a float"));
    }

    #[test]
    fn spans_are_those_of_the_original() {
        let text = r#"{"suspend", "suspend" , "run": 5}"#;
        let node = parse(text, Reader::Workgen, &mut Report::default()).unwrap();
        let Json::Object(members) = node.value else { panic!("an object") };
        assert_eq!(&text[members[1].name_span.clone()], "\"suspend\"");
        assert_eq!(&text[members[2].value.span.clone()], "5");
        assert_eq!(members[0].value.span, 10..10);
    }
}
