//! Where text goes: stdout for data, stderr for notes, bars only on a terminal, files under their final name only when complete.

use crate::error::{Error, printable};
use crate::new_file::{NewFile, is_stdout};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use std::io::{ErrorKind, Write};
use std::path::Path;

/// Data: to stdout. A reader that goes away (`| head`) ends the output quietly.
pub fn data(text: &str) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(Error::file("stdout", e)),
        _ => Ok(()),
    }
}

/// A page for people, with names from files: to stdout, nothing in it steers the terminal.
pub fn page(text: &str) -> Result<(), Error> {
    data(&printable(text))
}

/// Data as one JSON object on stdout.
pub fn json(value: &impl Serialize) -> Result<(), Error> {
    let mut text = serde_json::to_string_pretty(value).expect("reports are string-keyed");
    text.push('\n');
    data(&text)
}

/// A note: to stderr.
pub fn note(text: &str) {
    let mut err = std::io::stderr().lock();
    let _ = err.write_all(text.as_bytes());
    if !text.is_empty() && !text.ends_with('\n') {
        let _ = err.write_all(b"\n");
    }
}

/// Write a file under a temporary name, then rename it; `-` is stdout.
pub fn file(path: &Path, text: &str) -> Result<(), Error> {
    if is_stdout(path) {
        return data(text);
    }
    let mut file = NewFile::create(path)?;
    file.write_all(text.as_bytes()).map_err(|e| Error::file(path, e))?;
    file.finish()
}

/// Moves a bar on after a run; always to go on.
pub fn step(bar: &ProgressBar) -> impl Fn() -> bool + Sync + '_ {
    || {
        bar.inc(1);
        true
    }
}

/// A progress bar on stderr; invisible when that is not a terminal.
pub fn bar(total: u64, what: &'static str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{msg} {bar:30} {pos}/{len} {eta}").expect("a constant template");
    bar.with_style(style).with_message(what)
}
