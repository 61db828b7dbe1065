//! What can go wrong with input, as values, and how it is shown: with line, column, snippet and a help line, all findings
//! of a file at once.

use miette::{
    GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteDiagnostic, MietteError, MietteSpanContents, Report,
    SourceCode, SourceSpan, SpanContents,
};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use wattif_model::check::{Diagnostic, Severity};
use wattif_model::run::RunError;

/// An input text with what its parser has to say about it.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// File name, or the name of the embedded file.
    pub name: String,
    /// The text the spans point into.
    pub text: Arc<str>,
    /// Errors, warnings and notes, in the order of the text.
    pub diagnostics: Vec<Diagnostic>,
}

/// Why nothing was run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Refused input, with every finding.
    #[error("{} has errors", .0.name)]
    Input(Findings),
    /// A name that stands for nothing.
    #[error("there is no {what} `{name}`")]
    Unknown {
        /// `platform`, `kernel` …
        what: &'static str,
        /// What was asked for.
        name: String,
        /// Names like it, the nearest first.
        near: Vec<String>,
        /// The command that lists all names.
        list: &'static str,
    },
    /// A file that cannot be read or written.
    #[error("{}: {why}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The system's words, or ours.
        why: String,
    },
    /// Options that do not fit together.
    #[error("{0}")]
    Usage(String),
    /// The simulator could not complete the run.
    #[error("{0}")]
    Run(#[from] RunError),
}

impl Error {
    /// A file error.
    pub fn file(path: impl Into<PathBuf>, why: impl ToString) -> Error {
        Error::File { path: path.into(), why: why.to_string() }
    }
    /// An unknown name; `names` are those that exist.
    pub fn unknown<'a>(
        what: &'static str,
        name: &str,
        names: impl IntoIterator<Item = &'a str>,
        list: &'static str,
    ) -> Error {
        Error::Unknown { what, name: name.to_string(), near: nearest(name, names), list }
    }
    /// As shown on the terminal.
    pub fn render(&self, look: Look) -> String {
        match self {
            Error::Input(findings) => findings.render(look, Severity::Note),
            Error::Unknown { near, list, .. } => {
                let near = near.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ");
                let near = if near.is_empty() { String::new() } else { format!("  did you mean {near}?\n") };
                format!("error: {self}\n{near}  all names: {list}\n")
            }
            _ => format!("error: {self}\n"),
        }
    }
}

/// Up to three of `names` that resemble `name`, the nearest first.
pub fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut scored: Vec<(f64, &str)> = names
        .into_iter()
        .map(|n| (strsim::jaro_winkler(&name.to_lowercase(), &n.to_lowercase()), n))
        .filter(|(score, _)| *score > 0.75)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    scored.into_iter().take(3).map(|(_, n)| n.to_string()).collect()
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
    /// Is the input refused?
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }
    /// Every finding of at least `least`, as shown on the terminal.
    pub fn render(&self, look: Look, least: Severity) -> String {
        let mut wanted: Vec<&Diagnostic> = self.diagnostics.iter().filter(|d| d.severity >= least).collect();
        wanted.sort_by_key(|d| (std::cmp::Reverse(d.severity), d.span.start));
        let mut out = String::new();
        for d in wanted.iter().take(SHOWN) {
            self.render_one(d, look, &mut out);
        }
        if wanted.len() > SHOWN {
            let _ = writeln!(out, "… and {} more in {}", wanted.len() - SHOWN, self.name);
        }
        out
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
            let len = d.span.end.min(lines.end) - d.span.start;
            shown = shown.with_label(LabeledSpan::underline(SourceSpan::new(d.span.start.into(), len)));
        }
        let excerpt = Excerpt { name: self.name.clone(), text: self.text.clone() };
        let report = Report::from(shown).with_source_code(excerpt);
        let theme = if look.color { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
        let handler = GraphicalReportHandler::new_themed(theme).with_width(look.width).with_context_lines(1);
        let _ = handler.render_report(out, report.as_ref());
    }
}

/// Bytes of the line that holds `at`.
fn line_bounds(text: &str, at: usize) -> std::ops::Range<usize> {
    let at = text.floor_char_boundary(at.min(text.len()));
    let from = text[..at].rfind('\n').map_or(0, |i| i + 1);
    let to = text[at..].find('\n').map_or(text.len(), |i| at + i);
    from..to
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
    fn long_lines_and_many_findings_are_bounded() {
        let text = format!("{{{}}}", " ".repeat(1_000_000));
        let diagnostics = (0..500).map(|i| Diagnostic::error("x::E1", i * 9..i * 9 + 1, "bad")).collect();
        let findings = Findings { name: "a.json".into(), text: text.into(), diagnostics };
        let shown = findings.render(Look::PLAIN, Severity::Note);
        assert!(shown.len() < 10_000 && shown.contains("a.json:1:10: bad") && shown.contains("460 more"), "{shown}");
    }

    #[test]
    fn nearest_first() {
        assert_eq!(nearest("linux-5.5", ["hikey620", "linux-5.4", "linux-6.12"])[0], "linux-5.4");
        assert!(nearest("zzz", ["hikey620"]).is_empty());
    }
}
