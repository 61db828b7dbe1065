//! Diagnostics: what a parser or validator has to say about its input. Errors are values; ten mistakes show at once.

use std::fmt;
use std::ops::Range;

/// How bad a [`Diagnostic`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Accepted and without effect; listed so that nothing is silently skipped.
    Note,
    /// Probably not what the author meant.
    Warning,
    /// The input is refused.
    Error,
}

/// One finding about an input text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad.
    pub severity: Severity,
    /// Stable code of the lint or error, such as `rtapp::W03`.
    pub code: &'static str,
    /// What is wrong, with the offending text.
    pub message: String,
    /// Bytes of the input it is about; empty at 0 when it is about the whole.
    pub span: Range<usize>,
    /// What to do about it.
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error at `span`.
    pub fn error(code: &'static str, span: Range<usize>, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Error, code, message: message.into(), span, help: None }
    }
    /// A warning at `span`.
    pub fn warning(code: &'static str, span: Range<usize>, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, span, message) }
    }
    /// A note at `span`.
    pub fn note(code: &'static str, span: Range<usize>, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Note, ..Diagnostic::error(code, span, message) }
    }
    /// With a help line.
    pub fn help(self, help: impl Into<String>) -> Diagnostic {
        Diagnostic { help: Some(help.into()), ..self }
    }
    /// Does it refuse the input?
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
    /// 1-based line and column (in characters) of the start of the span in `text`.
    pub fn line_column(&self, text: &str) -> (usize, usize) {
        let mut end = self.span.start.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let upto = &text[..end];
        let line = upto.matches('\n').count() + 1;
        (line, upto.rsplit('\n').next().unwrap_or("").chars().count() + 1)
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}
