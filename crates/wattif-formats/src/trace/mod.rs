//! Traces of real machines and of simulations: bytes in, a [`Recording`] and findings out; and back.
//!
//! The format is sniffed from the content, never guessed from a name. A truncated file yields what it holds.
//!
//! | code | about |
//! |---|---|
//! | `trace::E01` | the content is in no known format |
//! | `trace::E02` | a limit is exceeded |
//! | `trace::E03` | the file is damaged where nothing can be read without it |
//! | `trace::W01` | the recorder lost events |
//! | `trace::W02` | stamps go backwards, or are days from all others |
//! | `trace::W03` | events of impossible CPUs |
//! | `trace::W04` | the file is truncated or damaged: what follows is lost |
//! | `trace::N01` | events of other kinds were skipped |
//! | `trace::N02` | lines that are no events |

#[cfg(feature = "tables")]
pub mod arrow;
mod build;
pub mod dat;
mod kinds;
mod names;
pub mod perfetto;
mod text;
pub mod text_write;
mod wrap;
mod writer;

use build::Builder;
use wattif_model::check::Diagnostic;
use wattif_model::trace::Recording;

pub use wrap::MAX_BYTES;
pub use writer::{About, Detail, Scratch, TraceWriter};

/// What came of reading a trace.
#[derive(Clone, Debug, Default)]
pub struct Read {
    /// The trace, when there is no error.
    pub recording: Option<Recording>,
    /// All findings.
    pub diagnostics: Vec<Diagnostic>,
}

/// Formats that are read, as sniffed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Text,
    Html,
    Atrace,
    Dat,
    Perfetto,
}

/// Read a trace in whatever format; gzip and zstd around it are taken off.
pub fn read(bytes: &[u8]) -> Read {
    let mut builder = Builder::default();
    let done = wrap::unwrap(bytes, &mut builder).and_then(|bytes| dispatch(&bytes, &mut builder));
    match done {
        Ok(format) => {
            let (recording, diagnostics) = builder.finish(format);
            Read { recording: Some(recording), diagnostics }
        }
        Err(error) => {
            let mut diagnostics = std::mem::take(&mut builder.findings);
            diagnostics.insert(0, *error);
            Read { recording: None, diagnostics }
        }
    }
}

/// A finding that ends the reading.
type Refused = Box<Diagnostic>;

fn dispatch(bytes: &[u8], builder: &mut Builder) -> Result<String, Refused> {
    match sniff(bytes) {
        Some(Format::Text) => {
            text::read(bytes, builder);
            Ok("ftrace text".into())
        }
        Some(Format::Html) => wrap::html(bytes, builder).map(|()| "systrace html".into()),
        Some(Format::Atrace) => wrap::atrace(bytes, builder).map(|()| "atrace".into()),
        Some(Format::Dat) => dat::read(bytes, builder),
        Some(Format::Perfetto) => perfetto::read(bytes, builder),
        None => Err(unknown(bytes)),
    }
}

fn sniff(bytes: &[u8]) -> Option<Format> {
    let head = &bytes[..bytes.len().min(1 << 16)];
    if head.starts_with(b"\x17\x08\x44tracing") {
        return Some(Format::Dat);
    }
    if wrap::is_html(head) {
        return Some(Format::Html);
    }
    if wrap::is_atrace(head) {
        return Some(Format::Atrace);
    }
    if perfetto::probe(head, bytes.len()) {
        return Some(Format::Perfetto);
    }
    let (events, lines) = text::probe(head);
    let headed = [&b"# tracer:"[..], b"cpus=", b"version = "].iter().any(|h| head.starts_with(h));
    if headed || events > 0 && events * 20 >= lines {
        return Some(Format::Text);
    }
    None
}

fn unknown(bytes: &[u8]) -> Refused {
    let message = match bytes.len() {
        0 => "the file is empty".into(),
        n => format!("{n} bytes in no known trace format"),
    };
    if bytes.starts_with(b"PAR1") || bytes.starts_with(b"ARROW1") {
        let message = "a Parquet or Arrow table: they are written for data frames and not read back";
        let help = "use the trace that it was made from, or write the run as .pftrace or .dat as well";
        return Box::new(Diagnostic::error("trace::E01", 0..0, message).help(help));
    }
    let help = "wattif reads trace.dat (trace-cmd), ftrace text, systrace html, perf script text and Perfetto traces; \
        turn others into text first: `perf script -F comm,tid,cpu,time,event,trace`";
    Box::new(Diagnostic::error("trace::E01", 0..0, message).help(help))
}
