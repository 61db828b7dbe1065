//! `wattif run WORKLOAD`.

use super::inputs::Inputs;
use super::plots::PlotArg;
use super::report::{self, ReportArg};
use super::{Exit, output};
use crate::error::{Error, Look, printable};
use crate::files::Files;
use crate::new_file::named;
use crate::report::side;
use crate::rtapp_log::RtappLogs;
use crate::run::{RunJson, run as simulate, unfinished};
use crate::text;
use crate::trace_file::{TraceFile, TraceFormat};
use clap::ValueEnum;
use std::path::PathBuf;
use wattif_formats::trace;
use wattif_formats::trace::markers::Markers;
use wattif_lab::report::never;
use wattif_model::check::Severity;
use wattif_model::trace::Observer;

/// Simulate one workload on one platform under one kernel.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  wattif run app.json
  wattif run app.json -p hikey620 -k linux-5.6 --duration 5s
  wattif run app.json --set cpuidle=teo --set teo.generation=5.6
  wattif run openmp:schedule=static,workers=4 -p tc2
  wattif run app.json --trace trace.txt --trace-detail decisions
  wattif run app.json --trace run.pftrace --trace-detail full      for ui.perfetto.dev
  wattif run app.json --trace trace.dat                            for trace-cmd and KernelShark
  wattif run app.json --trace run.parquet                          for pandas, Polars, DuckDB
  wattif run app.json --logs logs                                  rt-app's own log files
  wattif run app.json --json | jq .metrics.wakeup_latency_us.p99")]
pub struct Args {
    /// An rt-app JSON file, - for stdin, a workload of the gallery, or a model.
    #[arg(value_name = "WORKLOAD")]
    workload: String,
    #[command(flatten)]
    inputs: Inputs,
    /// Kernel profile: a name (`wattif list kernels`) or a TOML file.
    #[arg(short, long, value_name = "KERNEL", default_value = "linux-6.12")]
    kernel: String,
    /// Print one JSON object (wattif.run/1).
    #[arg(long)]
    json: bool,
    /// Write the events: ftrace text, Perfetto (.pftrace, .perfetto-trace), trace.dat (.dat) or a table for data frames
    /// (.parquet, .arrow), by the name; .gz packs it.
    #[arg(long, value_name = "FILE", value_parser = named())]
    trace: Option<PathBuf>,
    /// Format of the trace, whatever its name.
    #[arg(long, value_enum, value_name = "FORMAT", requires = "trace")]
    trace_format: Option<TraceFormat>,
    /// What goes into the trace.
    #[arg(long, value_enum, value_name = "DETAIL", default_value = "tracepoints", requires = "trace")]
    trace_detail: Detail,
    /// Write the log files that rt-app would have written, one per thread, into this folder; the file's log_basename,
    /// calibration and cumulative_slack count, and with log_size "disable" there are none. A file without `global` has logs
    /// here, where rt-app would write none.
    #[arg(long, value_name = "DIR", value_parser = named())]
    logs: Option<PathBuf>,
    #[command(flatten)]
    plots: PlotArg,
    #[command(flatten)]
    page: ReportArg,
}

/// What goes into a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Detail {
    /// The kernel's tracepoints and the marks of programs.
    Tracepoints,
    /// Also what each policy decided, with the inputs it saw.
    Decisions,
    /// Also counters of signals, capacity, power and energy (Perfetto).
    Full,
}

impl From<Detail> for trace::Detail {
    fn from(detail: Detail) -> trace::Detail {
        match detail {
            Detail::Tracepoints => trace::Detail::Tracepoints,
            Detail::Decisions => trace::Detail::Decisions,
            Detail::Full => trace::Detail::Full,
        }
    }
}

impl Args {
    fn files(&self) -> Files {
        let read = self.inputs.files(&self.workload).kernels([&self.kernel]);
        let written = read.each_written("--trace", &self.trace).each_written("--logs", &self.logs);
        self.page.files(self.plots.files(written))
    }
}

pub fn run(args: &Args, look: Look) -> Result<Exit, Error> {
    args.files().check()?;
    let named = |path: &PathBuf| TraceFormat::named(path, "--trace-format");
    let format = args.trace.as_ref().map(|path| args.trace_format.map_or_else(|| named(path), Ok)).transpose()?;
    let loaded = args.inputs.load(&args.workload, std::slice::from_ref(&args.kernel), look)?;
    let spec = &loaded.specs[0];
    args.plots.check(None, |figure| never(figure, &spec.platform, !spec.workload.marks.is_empty(), 1))?;
    let create = |(path, format): (&PathBuf, TraceFormat)| {
        let markers = Markers::of(&spec.workload, &loaded.logs);
        let about = trace::About { markers, ..trace::About::simulated(spec) };
        TraceFile::with(path, format, args.trace_detail.into(), about)
    };
    let mut trace = args.trace.as_ref().zip(format).map(create).transpose()?;
    let folder = args.logs.as_ref().filter(|_| !loaded.logs.disabled);
    let mut logs = folder.map(|folder| RtappLogs::create(folder, spec, &loaded.logs)).transpose()?;
    let mut observers: Vec<&mut dyn Observer> = Vec::new();
    if let Some(logs) = &mut logs {
        observers.push(logs);
    }
    if let Some(trace) = &mut trace {
        observers.push(trace);
    }
    // With a page more is listened to; the run is the same.
    let (outcome, side) = match args.page.report.is_some() || args.plots.of_runs(None) {
        false => (simulate(spec, &mut observers)?, None),
        true => {
            let side = side(spec, &mut observers)?;
            (side.outcome.clone(), Some(side))
        }
    };
    if let Some(trace) = trace {
        trace.finish()?;
    }
    if let Some(logs) = logs {
        logs.finish()?;
    }
    let set = loaded.settings.to_map();
    let unfinished = unfinished(spec, &outcome.report);
    match args.json {
        true => {
            let findings: Vec<_> = loaded.findings.iter().chain(&unfinished).cloned().collect();
            output::json(&RunJson::new(spec, set, &findings, &outcome))?;
        }
        false => output::page(&text::run(spec, &set, &outcome))?,
    }
    if !outcome.summary.deadlock.is_empty() {
        output::note(&printable(&text::deadlock_warning(&outcome.summary.deadlock)));
    }
    if let Some(f) = unfinished {
        output::note(&f.render(look, Severity::Note));
    }
    output::note(&text::speed(spec, &outcome));
    args.plots.write(side.as_slice(), None)?;
    if let (Some(path), Some(side)) = (&args.page.report, side) {
        let inputs = report::inputs(&args.inputs, std::slice::from_ref(&args.kernel), &loaded, 1);
        report::write(path, report::of_run(&side, &loaded, inputs), vec![side])?;
    }
    Ok(Exit::Done)
}
