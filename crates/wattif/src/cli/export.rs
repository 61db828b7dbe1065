//! `wattif export`: a trace in any format that is read, in any that is written.

use super::{Exit, output};
use crate::error::{Error, Look};
use crate::recording;
use crate::trace_file::{self, TraceFile, TraceFormat};
use std::path::PathBuf;
use wattif_formats::trace::{About, Detail};
use wattif_model::check::Severity;
use wattif_model::trace::{Interest, Recorded, Recording};

/// Write a trace in another format: what the old one holds and the new one has room for.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  wattif export trace.dat trace.pftrace              for ui.perfetto.dev
  wattif export systrace.html trace.dat              for trace-cmd and KernelShark
  wattif export phone.perfetto-trace events.parquet  for pandas, Polars, DuckDB
  wattif export trace.dat trace.txt.gz")]
pub struct Args {
    /// A trace in any format that is read, or - for stdin.
    #[arg(value_name = "TRACE")]
    trace: String,
    /// The file to write: ftrace text, Perfetto (.pftrace, .perfetto-trace), trace.dat (.dat), Parquet (.parquet) or
    /// Arrow (.arrow), by the name; .gz packs it.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Format, whatever the name.
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<TraceFormat>,
}

pub fn run(args: &Args, look: Look) -> Result<Exit, Error> {
    let loaded = recording::load(&args.trace)?;
    output::note(&loaded.findings.render(look, Severity::Note));
    let recording = &loaded.recording;
    let about = About {
        generator: format!("wattif {}", env!("CARGO_PKG_VERSION")),
        kernel: recording.release.clone().unwrap_or_default(),
        spec: String::new(),
        marks: recording.marks.clone(),
        recorded: true,
    };
    let format = args.format.unwrap_or_else(|| TraceFormat::of(&args.file));
    // A run's Perfetto trace of tracepoints leaves out sched_wakeup to be small; what was recorded is kept.
    let least = if format == TraceFormat::Perfetto { Detail::Decisions } else { Detail::Tracepoints };
    let mut file = TraceFile::with(&args.file, Some(format), detail(recording).max(least), about)?;
    trace_file::play(recording, &mut file);
    file.finish()?;
    let irqs = recording.records.iter().filter(|r| matches!(r.event, Recorded::Irq { .. })).count();
    let lost = match irqs {
        0 => String::new(),
        n => format!("; {n} entries and exits of interrupts are only kept as the context of wake-ups"),
    };
    output::note(&format!("{}: {} events{lost}", args.file.display(), recording.records.len() - irqs));
    Ok(Exit::Done)
}

/// As much as the recording holds.
fn detail(recording: &Recording) -> Detail {
    let has =
        |interest: Interest| recording.records.iter().any(|r| r.event().is_some_and(|e| family(e.name()) == interest));
    if has(Interest::SIGNALS) {
        Detail::Full
    } else if has(Interest::DECISIONS) {
        Detail::Decisions
    } else {
        Detail::Tracepoints
    }
}

/// As far as details differ.
fn family(event: &str) -> Interest {
    match event {
        "pelt_cfs" | "pelt_se" | "wattif_walt_demand" => Interest::SIGNALS,
        "wattif_placement" | "wattif_frequency" | "wattif_idle" | "wattif_balance" => Interest::DECISIONS,
        _ => Interest::SCHED,
    }
}
