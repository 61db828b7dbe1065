//! `wattif export`: a trace in any format that is read, in any that is written; a workload as rt-app JSON.

use super::inputs::dialects;
use super::{Exit, output};
use crate::Dialect;
use crate::error::{Error, Look};
use crate::files::Files;
use crate::load::LoadedWorkload;
use crate::new_file::is_stdout;
use crate::settings::Settings;
use crate::trace_file::{self, TraceFile, TraceFormat};
use crate::{load, recording};
use std::path::{Path, PathBuf};
use wattif_formats::trace::{About, Detail};
use wattif_formats::{rtapp, workload_json};
use wattif_model::check::Severity;
use wattif_model::trace::{Interest, Recorded, Recording};

/// Write a trace in another format, what the old one holds and the new one has room for; or a workload as rt-app JSON.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  wattif export trace.dat trace.pftrace              for ui.perfetto.dev
  wattif export systrace.html trace.dat              for trace-cmd and KernelShark
  wattif export phone.perfetto-trace events.parquet  for pandas, Polars, DuckDB
  wattif export trace.dat trace.txt.gz
  wattif export video:fps=60,workers=3 video.json    a model for rt-app; says what rt-app has no word for
  wattif export server - -p rk3588 --ours            exactly, in wattif's own JSON")]
pub struct Args {
    /// A trace in any format that is read; or a workload: a model, rt-app JSON or wattif's own; or - for stdin.
    #[arg(value_name = "WHAT")]
    what: String,
    /// The file to write: ftrace text, Perfetto (.pftrace, .perfetto-trace), trace.dat (.dat), Parquet (.parquet) or
    /// Arrow (.arrow), by the name; .gz packs it. A workload: .json, or - for standard output.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Machine whose number of CPUs a model is made for.
    #[arg(short, long, value_name = "PLATFORM", default_value = "hikey960")]
    platform: String,
    /// Parameter of a model, or value in a workload file: workload.PATH=V; repeatable.
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// A workload in wattif's own JSON, which holds everything, instead of rt-app's.
    #[arg(long)]
    ours: bool,
    /// How rt-app files are read.
    #[arg(long, value_parser = dialects(), default_value = "workgen")]
    dialect: Dialect,
    /// Format, whatever the name.
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<TraceFormat>,
}

pub fn run(args: &Args, look: Look) -> Result<Exit, Error> {
    let read = Files::default().workload(&args.what).platform(&args.platform);
    read.written("", &args.file).check()?;
    let json = args.file.extension().is_some_and(|e| e.eq_ignore_ascii_case("json"));
    match json || is_stdout(&args.file) {
        true if args.format.is_some() => Err(needs_a_file(args)),
        true => workload(args, look).map_err(|e| if is_trace(&args.what) { needs_a_file(args) } else { e }),
        false => trace(args, look),
    }
}

/// Formats of traces have their room in files alone.
fn needs_a_file(args: &Args) -> Error {
    let (what, to) = (&args.what, args.file.display());
    Error::Usage(format!(
        "{to} is for workloads; a trace needs a file of its own, such as: wattif export {what} trace.txt"
    ))
}

/// A file that is read as a trace. Standard input has been read by now.
fn is_trace(name: &str) -> bool {
    Path::new(name).is_file() && recording::load(name).is_ok()
}

fn workload(args: &Args, look: Look) -> Result<Exit, Error> {
    let settings = Settings::parse(&args.set)?;
    let platform = load::platform(&args.platform, &settings)?.value;
    let loaded = load::workload(&args.what, &platform, args.dialect, &settings)?;
    output::note(&loaded.findings.render(look, Severity::Note));
    let LoadedWorkload { workload, calibration_cpu, logs } = &loaded.value;
    let calibration_cpu = calibration_cpu.map(|cpu| cpu.0);
    let (text, lost) = match args.ours {
        true => (workload_json::write(workload, calibration_cpu, logs), Vec::new()),
        false => rtapp::write(workload, calibration_cpu, logs),
    };
    lost.iter().for_each(|l| output::note(&format!("note: {l}")));
    output::file(&args.file, &text)?;
    Ok(Exit::Done)
}

fn trace(args: &Args, look: Look) -> Result<Exit, Error> {
    let loaded = recording::load(&args.what)?;
    output::note(&loaded.findings.render(look, Severity::Note));
    let recording = &loaded.recording;
    let about = About {
        kernel: recording.release.clone().unwrap_or_default(),
        spec: String::new(),
        marks: recording.marks.clone(),
        groups: recording.groups.clone(),
        devices: Vec::new(),
        recorded: true,
        told: recording.tells_policies(),
        markers: None,
    };
    let format = args.format.map_or_else(|| TraceFormat::named(&args.file, "--format"), Ok)?;
    // A run's Perfetto trace of tracepoints leaves out sched_wakeup to be small; what was recorded is kept.
    let least = if format == TraceFormat::Perfetto { Detail::Decisions } else { Detail::Tracepoints };
    let mut file = TraceFile::with(&args.file, format, detail(recording).max(least), about)?;
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
    let events = || recording.records.iter().filter_map(|r| r.event());
    let has = |interest: Interest| events().any(|e| Interest::of(e.name()) == interest);
    if has(Interest::SIGNALS) {
        Detail::Full
    } else if has(Interest::DECISIONS) {
        Detail::Decisions
    } else {
        Detail::Tracepoints
    }
}
