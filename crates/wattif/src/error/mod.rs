//! What can go wrong with input, as values: with line, column, snippet and a help line, all findings of a file at once.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;
use wattif_lab::{metrics, table};
use wattif_model::check::Diagnostic;
use wattif_model::run::RunError;

#[cfg(feature = "cli")]
mod render;
#[cfg(feature = "cli")]
pub use render::Look;

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
    /// Whoever asked wants no more of it.
    #[error("stopped before the end")]
    Stopped,
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
    /// Refuses metrics that do not exist.
    pub fn unless_metrics<'a>(names: impl IntoIterator<Item = &'a String>) -> Result<(), Error> {
        match names.into_iter().find(|name| metrics::info(name).is_none()) {
            Some(name) => {
                let known = metrics::offered();
                Err(Error::unknown("metric", name, known.iter().map(String::as_str), "wattif list metrics"))
            }
            None => Ok(()),
        }
    }
}

/// Up to three of `names` that `name` may stand for, the nearest first.
pub fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    wattif_formats::alike(name, names).into_iter().map(String::from).collect()
}

impl Findings {
    /// Is the input refused?
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }
    /// What is said, without where.
    pub fn messages(&self) -> impl Iterator<Item = String> + '_ {
        self.diagnostics.iter().map(|d| d.message.clone())
    }
}

/// A text from outside as a terminal may show it: characters that could steer it stand as escapes.
pub fn printable(text: &str) -> Cow<'_, str> {
    let steers = |c: char| table::steers(c) && !matches!(c, '\n' | '\t');
    if !text.contains(steers) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if steers(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out.into()
}
