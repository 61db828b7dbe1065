//! `wattif replay TRACE -k A -k B`: how well the recording is reproduced, then what the kernels change.

use super::inputs::Loaded;
use super::report::{self, ReportArg};
use super::{Exit, output};
use crate::data::Collection;
use crate::error::{Error, Look};
use crate::recording::{self, Check, LoadedTrace, profile_of, replay_seeds, self_check, without_background};
use crate::report::Report;
use crate::settings::Settings;
use crate::{load, text};
use std::path::Path;
use wattif_lab::compare::{Comparison, fold, headline_metrics};
use wattif_lab::infer::{self, Inferred, Missing};
use wattif_lab::metrics::RunReport;
use wattif_lab::table::{Align, Table, cell, interval};
use wattif_model::Ns;
use wattif_model::check::Severity;
use wattif_model::kernel::KernelSpec;
use wattif_model::platform::Platform;
use wattif_model::run::RunSpec;
use wattif_model::trace::Recording;
use wattif_model::workload::{Policy, Workload};

/// Ask what other kernels would have made of a recorded trace: first how well the recording is reproduced, then the
/// comparison.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  wattif replay recording.tar -k linux-6.6                    of wattif record: the machine is in it
  wattif replay trace.dat --as-recorded -p hikey960
  wattif replay trace.perfetto-trace -p hikey960 -k linux-6.6 -k linux-6.12
  wattif replay trace.txt -k linux-6.12 --set cpuidle=menu --policy background=SCHED_IDLE")]
pub struct Args {
    /// A recorded trace in any format, an archive of `wattif record`, or - for stdin.
    #[arg(value_name = "TRACE")]
    trace: String,
    /// Machine it was recorded on; without it, CPUs are taken as equal and no energy is reported.
    #[arg(short, long, value_name = "PLATFORM")]
    platform: Option<String>,
    /// Kernel profile; with several, the first is what the others are compared with.
    #[arg(short, long, value_name = "KERNEL")]
    kernel: Vec<String>,
    /// Profile of the kernel that was recorded; by default the nearest to the release in the trace, or the first -k.
    #[arg(long, value_name = "KERNEL")]
    recorded_kernel: Option<String>,
    /// Only the figures of the recording itself.
    #[arg(long, conflicts_with = "kernel")]
    as_recorded: bool,
    /// Runs per kernel; their noise differs, the recorded work does not.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: u64,
    /// Seed of the first run.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Override: policy.tunable=V, slot=policy, features.NAME=true, platform.PATH=V; repeatable.
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Policy of a thread that a trace cannot show, such as background=SCHED_IDLE; repeatable.
    #[arg(long, value_name = "NAME=POLICY", value_parser = policy)]
    policy: Vec<(String, Policy)>,
    /// Print one JSON object (wattif.replay/1; with --as-recorded, wattif.recorded/1).
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    page: ReportArg,
}

pub(super) fn policy(text: &str) -> Result<(String, Policy), String> {
    let all = [Policy::Normal, Policy::Batch, Policy::Idle, Policy::Rr, Policy::Fifo];
    let (name, policy) = text.split_once('=').ok_or("write NAME=SCHED_IDLE")?;
    let found = all.into_iter().find(|p| p.name() == policy);
    let names = || all.map(Policy::name).join(", ");
    found.map(|p| (name.to_string(), p)).ok_or_else(|| format!("`{policy}` is none of {}", names()))
}

/// A trace and the machine it is looked at on.
pub(super) struct Looked {
    pub loaded: LoadedTrace,
    pub platform: Platform,
    pub known: bool,
    pub report: RunReport,
    pub missing: Vec<Missing>,
}

pub(super) fn look_at(name: &str, platform: Option<&str>, settings: &Settings, look: Look) -> Result<Looked, Error> {
    let loaded = recording::load(name)?;
    output::note(&loaded.findings.render(look, Severity::Note));
    let known = platform.is_some() || loaded.platform.is_some();
    let platform = match (platform, &loaded.platform) {
        (Some(name), _) => load::platform(name, settings)?.value,
        (None, Some(own)) => load::platform_of(own.clone(), settings)?.value,
        (None, None) => infer::platform(&loaded.recording),
    };
    if loaded.recording.nr_cpus > platform.nr_cpus() {
        return Err(Error::Usage(format!(
            "{name} has events of {} CPUs, platform {} has {}: name the machine it was recorded on (-p)",
            loaded.recording.nr_cpus,
            platform.name,
            platform.nr_cpus()
        )));
    }
    let (report, missing) = recording::analyse(&loaded.recording, &platform, known);
    Ok(Looked { loaded, platform, known, report, missing })
}

pub fn run(args: &Args, look: Look) -> Result<Exit, Error> {
    let settings = Settings::parse(&args.set)?;
    let looked = look_at(&args.trace, args.platform.as_deref(), &settings, look)?;
    if args.as_recorded || args.kernel.is_empty() && args.recorded_kernel.is_none() {
        if !args.as_recorded {
            output::note("no kernel was named (-k): only the figures of the recording itself");
        }
        if let Some(path) = &args.page.report {
            let spec = RunSpec {
                platform: looked.platform.clone(),
                workload: Workload { name: args.trace.clone(), ..Workload::default() },
                kernel: KernelSpec::default(),
                seed: args.seed,
                duration: looked.loaded.recording.end,
            };
            let json = recorded_json(&looked);
            picture(path, args, &looked, spec, &[], json, None)?;
        }
        return as_recorded(&looked, args.json);
    }
    warnings(&looked).iter().for_each(|w| output::note(&format!("warning: {w}")));
    let options = infer::Options { policies: args.policy.clone() };
    let platform = without_background(&looked.platform);
    let inferred = infer::workload(&looked.loaded.recording, &platform, &args.trace, &options);
    inferred.notes.iter().for_each(|n| output::note(&format!("note: {n}")));
    let seeds: Vec<u64> = (args.seed..args.seed.saturating_add(args.seeds)).collect();
    let of_kernel = |kernel: KernelSpec| -> Result<(RunSpec, Vec<RunReport>), Error> {
        let spec = RunSpec {
            platform: platform.clone(),
            workload: inferred.workload.clone(),
            kernel,
            seed: args.seed,
            duration: Ns(looked.loaded.recording.end.0.max(1)),
        };
        let reports = replay_seeds(&spec, &inferred, &seeds)?;
        Ok((spec, reports))
    };
    let (recorded, kernel) = recorded_kernel(args, &looked.loaded)?;
    let (own_spec, own) = of_kernel(kernel)?;
    let checks = self_check(&looked.report, &own, &looked.missing);
    let mut runs = Vec::new();
    for name in &args.kernel {
        runs.push(of_kernel(load::kernel(name, &settings)?.value)?);
    }
    let comparison = (!runs.is_empty()).then(|| compare(&runs, &looked));
    let told = json(args, &looked, &inferred, &own_spec, &checks, comparison.as_ref());
    if let Some(path) = &args.page.report {
        let specs: Vec<RunSpec> = runs.iter().map(|(spec, _)| spec.clone()).collect();
        picture(path, args, &looked, own_spec, &specs, told.clone(), comparison.as_ref())?;
    }
    match args.json {
        true => output::json(&told)?,
        false => output::page(&page(args, &looked, &recorded, &checks, comparison.as_ref()))?,
    }
    Ok(Exit::Done)
}

/// The page: the recording above the kernels' runs of what was inferred from it.
fn picture(
    path: &Path,
    args: &Args,
    looked: &Looked,
    own: RunSpec,
    specs: &[RunSpec],
    mut replay: serde_json::Value,
    comparison: Option<&Comparison>,
) -> Result<(), Error> {
    let recording = &looked.loaded.recording;
    let mut page = Report::new("replay", format!("{} on {}", args.trace, looked.platform.name));
    page.question = match args.kernel.as_slice() {
        [] => format!("What does {} show?", args.trace),
        kernels => format!("What would {} have made of {}?", kernels.join(" and "), args.trace),
    };
    if let Some(checks) = replay["self_check"]["figures"].as_array() {
        let good = checks.iter().filter(|c| c["ok"] == true).count();
        page.answer.push(format!(
            "{good} of {} figures of the recording are reproduced; trust the rest accordingly.",
            checks.len()
        ));
    }
    let mut all = vec![crate::report::recorded(&own, recording, &looked.report)];
    all.extend(report::sides(specs)?);
    let loaded = Loaded { specs: if specs.is_empty() { vec![own] } else { specs.to_vec() }, ..Loaded::default() };
    report::add_sides(&mut page, &all, &loaded)?;
    if let Some(comparison) = comparison {
        page.set_comparison(comparison);
    }
    page.answer.extend(crate::report::sentences(&all[0]).into_iter().map(|s| format!("As recorded: {s}")));
    replay["comparison"] = serde_json::Value::Null;
    page.replay = Some(replay);
    page.inputs = report::inputs_of(&loaded, args.seeds);
    page.trust = report::trust(&looked.platform);
    report::write(path, page, all)
}

/// What the replay would need and the trace lacks.
fn warnings(looked: &Looked) -> Vec<String> {
    let recording = &looked.loaded.recording;
    let counts = recording.counts();
    let mut all = Vec::new();
    for (event, why) in [
        ("sched_switch", "there is no work to replay"),
        ("sched_waking", "who wakes whom is taken from sched_wakeup, or unknown"),
        ("cpu_frequency", "work is counted as if every CPU ran at its highest frequency"),
    ] {
        if !counts.contains_key(event) {
            all.push(format!("the trace has no {event} events: {why}"));
        }
    }
    if recording.lost_gaps > 0 {
        all.push(format!("events were lost in {} places: work and wake-ups in them are missing", recording.lost_gaps));
    }
    if !looked.known {
        all.push("no platform was named (-p): all CPUs count as equal".into());
    }
    all
}

/// The kernel that was recorded: as told, as an archive says, as the release in the trace says, or else the first of the others.
fn recorded_kernel(args: &Args, loaded: &LoadedTrace) -> Result<(String, KernelSpec), Error> {
    if let (None, Some(own)) = (&args.recorded_kernel, &loaded.kernel) {
        let kernel = load::kernel_of(own.clone(), &Settings::default())?.value;
        return Ok((kernel.name.clone(), kernel));
    }
    let name = match &args.recorded_kernel {
        Some(name) => name.clone(),
        None => nearest_profile(args, &loaded.recording)?,
    };
    let kernel = load::kernel(&name, &Settings::default())?.value;
    Ok((name, kernel))
}

fn nearest_profile(args: &Args, recording: &Recording) -> Result<String, Error> {
    let names: Vec<String> = Collection::Kernels.names().into_iter().map(String::from).collect();
    let of_release = recording.release.as_deref().and_then(|r| profile_of(r, &names));
    let first = args.kernel.first().map(String::as_str);
    of_release.or(first).map(String::from).ok_or_else(|| Error::Usage("name a kernel: -k linux-6.12".into()))
}

fn compare(runs: &[(RunSpec, Vec<RunReport>)], looked: &Looked) -> Comparison {
    let kernels: Vec<String> = runs.iter().map(|r| r.0.kernel.name.clone()).collect();
    let reports: Vec<Vec<RunReport>> = runs.iter().map(|r| r.1.clone()).collect();
    let spec = serde_json::json!({
        "version": env!("CARGO_PKG_VERSION"),
        "platform": looked.platform.name,
        "workload": runs[0].0.workload.name,
        "duration_s": runs[0].0.duration.as_s_f64(),
        "trust": looked.platform.trust,
    });
    fold(spec, &kernels, &headline_metrics(&reports), &reports)
}

fn json(
    args: &Args,
    looked: &Looked,
    inferred: &Inferred,
    own: &RunSpec,
    checks: &[Check],
    comparison: Option<&Comparison>,
) -> serde_json::Value {
    serde_json::json!({
        "schema": "wattif.replay/1",
        "version": env!("CARGO_PKG_VERSION"),
        "trace": args.trace,
        "recording": about(looked),
        "warnings": warnings(looked),
        "notes": inferred.notes,
        "threads": inferred.workload.tasks.len(),
        "self_check": { "kernel": own.kernel.name, "figures": checks },
        "comparison": comparison,
    })
}

fn page(args: &Args, looked: &Looked, recorded: &str, checks: &[Check], comparison: Option<&Comparison>) -> String {
    let mut out = head(&args.trace, looked);
    let good = checks.iter().filter(|c| c.ok).count();
    out += &format!("\nSelf-check: the recording beside its simulation under {recorded}\n");
    let mut table = Table::new([
        ("", Align::Left),
        ("unit", Align::Left),
        ("recorded", Align::Right),
        ("simulated", Align::Right),
        ("95 % interval", Align::Right),
        ("", Align::Left),
    ]);
    for c in checks {
        let verdict = if c.ok { "" } else { "differs" };
        table.row([c.figure.as_str(), c.unit, &cell(c.recorded), &cell(c.simulated), &interval(c.ci95), verdict]);
    }
    out += &text::indented(&table.to_text());
    out += &format!("  {good} of {} figures are reproduced; trust the comparison accordingly\n", checks.len());
    if let Some(comparison) = comparison {
        out += &format!("\nWhat if\n{}", text::indented(&comparison.to_text()));
    }
    out + &format!("\nHow far to trust it\n{}", text::indented(&text::trust(&looked.platform)))
}

/// What the trace is.
fn head(name: &str, looked: &Looked) -> String {
    let r = &looked.loaded.recording;
    let release = r.release.as_deref().map_or(String::new(), |r| format!(", Linux {r}"));
    let mut out = format!(
        "trace     {name}: {}, {} events of {} CPUs and {} threads, {} s{release}\n",
        r.format,
        r.records.len(),
        r.nr_cpus,
        looked.report.tasks.len(),
        cell(r.end.as_s_f64())
    );
    out += &format!("platform  {}: {}\n", looked.platform.name, looked.platform.title);
    for m in &looked.missing {
        out += &format!("{}   {}: {}\n", if m.derived { "derived" } else { "missing" }, m.figures, m.why);
    }
    out
}

fn about(looked: &Looked) -> serde_json::Value {
    let r = &looked.loaded.recording;
    serde_json::json!({
        "format": r.format,
        "cpus": r.nr_cpus,
        "duration_s": r.end.as_s_f64(),
        "events": r.counts(),
        "unknown": r.unknown,
        "lost": { "events": r.lost_events, "gaps": r.lost_gaps },
        "release": r.release,
        "clock": r.clock,
        "platform": looked.platform.name,
        "missing": looked.missing,
    })
}

/// The figures of the recording itself.
pub(super) fn as_recorded(looked: &Looked, json: bool) -> Result<Exit, Error> {
    if json {
        output::json(&recorded_json(looked))?;
    } else {
        let head = head(&looked.loaded.findings.name, looked);
        output::page(&format!("{head}{}", text::tables(&looked.platform, &looked.report)))?;
    }
    Ok(Exit::Done)
}

/// `wattif.recorded/1`.
fn recorded_json(looked: &Looked) -> serde_json::Value {
    let report = &looked.report;
    serde_json::json!({
        "schema": "wattif.recorded/1",
        "version": env!("CARGO_PKG_VERSION"),
        "recording": about(looked),
        "metrics": report.metrics,
        "tasks": report.tasks,
        "by_task": report.by_task,
        "cpus": report.cpus,
        "domains": report.domains,
        "trust": looked.platform.trust,
    })
}
