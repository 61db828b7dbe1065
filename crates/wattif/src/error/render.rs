//! How errors and findings are shown on a terminal.

use super::{Error, Findings, printable};
use miette::{
    GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteDiagnostic, MietteError, MietteSpanContents, Report,
    SourceCode, SourceSpan, SpanContents,
};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use wattif_lab::table;
use wattif_model::check::{Diagnostic, Severity};

impl Error {
    /// As shown on the terminal.
    pub fn render(&self, look: Look) -> String {
        match self {
            Error::Input(findings) => findings.render(look, Severity::Note),
            Error::Unknown { near, list, .. } => {
                let near = near.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ");
                let near = if near.is_empty() { String::new() } else { format!("  did you mean {near}?\n") };
                format!("error: {self}\n{near}  all names: {list}\n")
            }
            _ => printable(&format!("error: {self}\n")).into_owned(),
        }
    }
}

/// How text is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// With ANSI colours.
    pub color: bool,
    /// Columns of the terminal.
    pub width: usize,
}

impl Look {
    /// No colours, 100 columns: for files and tests.
    pub const PLAIN: Look = Look { color: false, width: 100 };
}

/// More findings than this are counted, not shown.
const SHOWN: usize = 40;
/// A longer line (minified JSON) is not quoted.
const QUOTED_BYTES: usize = 400;

impl Findings {
    /// Every finding of at least `least` in the order of the text, as shown on the terminal; of too many the gravest.
    pub fn render(&self, look: Look, least: Severity) -> String {
        let mut wanted: Vec<&Diagnostic> = self.diagnostics.iter().filter(|d| d.severity >= least).collect();
        wanted.sort_by_key(|d| (std::cmp::Reverse(d.severity), d.span.start));
        let mut shown = gathered(&wanted);
        let rest = shown.split_off(shown.len().min(SHOWN));
        shown.sort_by_key(|same| same[0].span.start);
        let mut out = String::new();
        for same in &shown {
            self.render_one(&self.with_places(same), look, &mut out);
        }
        if !rest.is_empty() {
            let more: usize = rest.iter().map(Vec::len).sum();
            let _ = writeln!(out, "… and {more} more in {}", self.name);
        }
        out
    }

    /// The first of findings that are alike; its help says where the others are.
    fn with_places(&self, same: &[&Diagnostic]) -> Diagnostic {
        const PLACES: usize = 8;
        let first = same[0].clone();
        let lines: Vec<String> =
            same[1..].iter().take(PLACES).map(|d| d.line_column(&self.text).0.to_string()).collect();
        let dots = if same.len() - 1 > PLACES { ", …" } else { "" };
        let more = match same.len() - 1 {
            0 => return first,
            1 => format!("the same once more, in line {}", lines[0]),
            n => format!("the same {n} times more, in lines {}{dots}", lines.join(", ")),
        };
        let help = first.help.iter().fold(more, |more, help| format!("{help}\n{more}"));
        first.help(help)
    }

    fn render_one(&self, d: &Diagnostic, look: Look, out: &mut String) {
        let whole = d.span.is_empty() && d.span.start == 0;
        let lines = line_bounds(&self.text, d.span.start);
        let quotable = !whole && lines.len() <= QUOTED_BYTES && !self.text[lines.clone()].trim().is_empty();
        let (line, column) = d.line_column(&self.text);
        let place = if whole { self.name.clone() } else { format!("{}:{line}:{column}", self.name) };
        let message = if quotable { d.message.clone() } else { format!("{place}: {}", d.message) };
        let mut shown = MietteDiagnostic::new(message).with_code(d.code).with_severity(match d.severity {
            Severity::Error => miette::Severity::Error,
            Severity::Warning => miette::Severity::Warning,
            Severity::Note => miette::Severity::Advice,
        });
        if let Some(help) = &d.help {
            shown = shown.with_help(help.clone());
        }
        if quotable {
            let from = d.span.start.min(lines.end);
            let len = d.span.end.min(lines.end) - from;
            shown = shown.with_label(LabeledSpan::underline(SourceSpan::new(from.into(), len)));
        }
        let excerpt = Excerpt { name: self.name.clone(), text: tame(&self.text) };
        let report = Report::from(shown).with_source_code(excerpt);
        let theme = if look.color { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
        let handler = GraphicalReportHandler::new_themed(theme).with_width(look.width).with_context_lines(1);
        let _ = handler.render_report(out, report.as_ref());
    }
}

/// Warnings and notes that say the same, together; every error stands for itself.
fn gathered<'a>(findings: &[&'a Diagnostic]) -> Vec<Vec<&'a Diagnostic>> {
    let mut alike: Vec<Vec<&Diagnostic>> = Vec::new();
    let mut places: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for &d in findings {
        match places.get(&(d.code, d.message.as_str())) {
            Some(&at) if !d.is_error() => alike[at].push(d),
            _ => {
                places.insert((d.code, &d.message), alike.len());
                alike.push(vec![d]);
            }
        }
    }
    alike
}

/// Bytes of the line that holds `at`, without its end.
fn line_bounds(text: &str, at: usize) -> std::ops::Range<usize> {
    let at = text.floor_char_boundary(at.min(text.len()));
    let from = text[..at].rfind('\n').map_or(0, |i| i + 1);
    let to = text[at..].find('\n').map_or(text.len(), |i| at + i);
    // To miette a carriage return ends a line too, and it counts the lines it has seen.
    from..from + text[from..to].trim_end_matches('\r').len()
}

/// The text with a `?` for every byte of a character that could steer the terminal: all others stay in their place.
fn tame(text: &Arc<str>) -> Arc<str> {
    let steers = |c: char| table::steers(c) && !matches!(c, '\n' | '\r' | '\t');
    if !text.contains(steers) {
        return text.clone();
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if steers(c) { out.extend(std::iter::repeat_n('?', c.len_utf8())) } else { out.push(c) }
    }
    out.into()
}

/// A text that is quoted a line at a time, however long it is.
#[derive(Debug)]
struct Excerpt {
    name: String,
    text: Arc<str>,
}

impl SourceCode for Excerpt {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        before: usize,
        _after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let bounds = line_bounds(&self.text, span.offset());
        let line = self.text.as_bytes()[..bounds.start].iter().filter(|b| **b == b'\n').count();
        // Asked without context, miette wants the place of the label itself, for the head of the snippet.
        let at = self.text.floor_char_boundary(span.offset().clamp(bounds.start, bounds.end));
        let column = if before == 0 { self.text[bounds.start..at].chars().count() } else { 0 };
        let data = &self.text.as_bytes()[bounds.clone()];
        let whole = SourceSpan::new(bounds.start.into(), bounds.len());
        Ok(Box::new(MietteSpanContents::new_named(self.name.clone(), data, whole, line, column, 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_snippet_and_help() {
        let text = "{\n  \"rnu\": 5 }";
        let at = text.find("rnu").unwrap();
        let diagnostics = vec![Diagnostic::error("x::E1", at..at + 3, "unknown key `rnu`").help("did you mean `run`?")];
        let findings = Findings { name: "a.json".into(), text: text.into(), diagnostics };
        let shown = findings.render(Look::PLAIN, Severity::Note);
        for part in ["[a.json:2:4]", "\"rnu\": 5 }", "unknown key `rnu`", "did you mean `run`?", "x::E1"] {
            assert!(shown.contains(part), "{part} is missing in\n{shown}");
        }
    }

    #[test]
    fn lines_of_other_systems_are_counted_once() {
        for text in ["{\n\"rnu\": 5\n}", "{\r\n\"rnu\": 5\r\n}", "{\r\n\"rnu\": 5"] {
            let at = |part: &str| text.find(part).map(|at| at..at + 1).unwrap();
            for span in [at("rnu"), at("5"), text.len()..text.len()] {
                let diagnostics = vec![Diagnostic::error("x::E1", span.clone(), "bad")];
                let findings = Findings { name: "a.json".into(), text: text.into(), diagnostics };
                let line = 1 + text[..span.start].matches('\n').count();
                let shown = findings.render(Look::PLAIN, Severity::Note);
                assert!(shown.contains(&format!("[a.json:{line}:")), "{text:?}: {shown}");
                assert!(shown.contains(&format!(" {line} │ ")), "{text:?}: {shown}");
            }
            let end = text.len() - 1..text.len();
            let diagnostics = vec![Diagnostic::error("x::E1", at("\n"), "bad"), Diagnostic::error("x::E1", end, "bad")];
            let findings = Findings { name: "a.json".into(), text: text.into(), diagnostics };
            assert!(findings.render(Look::PLAIN, Severity::Note).contains("[a.json:1:2]"), "{text:?}");
        }
    }

    #[test]
    fn long_lines_and_many_findings_are_bounded() {
        let text = format!("{{{}}}", " ".repeat(1_000_000));
        let diagnostics = (0..500).map(|i| Diagnostic::error("x::E1", i * 9..i * 9 + 1, "bad")).collect();
        let findings = Findings { name: "a.json".into(), text: text.into(), diagnostics };
        let shown = findings.render(Look::PLAIN, Severity::Note);
        assert!(shown.len() < 10_000 && shown.contains("a.json:1:10: bad") && shown.contains("460 more"), "{shown}");
    }

    #[test]
    fn findings_stand_in_the_order_of_the_text() {
        let note = |i: usize| Diagnostic::note("x::N1", i..i + 1, format!("note {i}"));
        let mut diagnostics: Vec<_> = (0..100).map(note).collect();
        diagnostics.insert(10, Diagnostic::error("x::E1", 50..51, "bad"));
        let findings = Findings { name: "a.json".into(), text: "ab\n".repeat(40).into(), diagnostics };
        let shown = findings.render(Look::PLAIN, Severity::Note);
        let places = ["note 0", "note 30", "bad"].map(|part| shown.find(part).unwrap());
        assert!(places.is_sorted() && !shown.contains("note 40") && shown.contains("61 more"), "{shown}");
    }

    #[test]
    fn what_is_said_again_is_counted() {
        let text = "a\nb\nc\nd\n";
        let at = |i: usize| 2 * i..2 * i + 1;
        let mut diagnostics: Vec<_> = (0..3).map(|i| Diagnostic::note("x::N1", at(i), "ignored")).collect();
        diagnostics.extend((0..2).map(|i| Diagnostic::error("x::E1", at(i), "bad")));
        diagnostics.push(Diagnostic::note("x::N1", at(3), "another"));
        let findings = Findings { name: "a.json".into(), text: text.into(), diagnostics };
        let shown = findings.render(Look::PLAIN, Severity::Note);
        assert_eq!(shown.matches("ignored").count(), 1, "{shown}");
        assert!(shown.contains("the same 2 times more, in lines 2, 3"), "{shown}");
        assert_eq!((shown.matches("bad").count(), shown.matches("another").count()), (2, 1), "{shown}");
    }

    #[test]
    fn names_do_not_steer_the_terminal() {
        assert_eq!(printable("a\u{1b}[31m\tb\u{9b}\n\u{202e}"), "a\\u{1b}[31m\tb\\u{9b}\n\\u{202e}");
        assert_eq!(&*tame(&"a\u{202e}\u{9b}é\r\n".into()), "a?????é\r\n");
        let diagnostics = vec![Diagnostic::error("x::E1", 1..2, "bad")];
        let findings = Findings { name: "a.json".into(), text: "a\u{1b}[2J\0".into(), diagnostics };
        let shown = findings.render(Look::PLAIN, Severity::Note);
        assert!(shown.contains("a?[2J?") && !shown.contains('\u{1b}'), "{shown}");
    }
}
