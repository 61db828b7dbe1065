//! `wattif replay TRACE -k A -k B`: how well the recording is reproduced, then what the kernels change.

use super::inputs::{Loaded, whole};
use super::plots::{self, PlotArg};
use super::report::{self, ReportArg};
use super::{Exit, output};
use crate::error::{Error, Look};
use crate::files::Files;
use crate::replay::{self, Looked, Question, Replayed, policy_of_thread, replay, warnings};
use crate::report::Report;
use crate::run::seeds;
use crate::settings::Settings;
use crate::text;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use wattif_lab::compare::Comparison;
use wattif_lab::infer;
use wattif_lab::report::{never, ratios};
use wattif_lab::table::{Align, Table, cell, interval};
use wattif_model::check::Severity;
use wattif_model::kernel::KernelSpec;
use wattif_model::run::RunSpec;
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
    /// Profile of the kernel that was recorded; by default the one that the release in the trace is taken for, or the first -k.
    /// Named here, it is taken without what --set says.
    #[arg(long, value_name = "KERNEL")]
    recorded_kernel: Option<String>,
    /// Only the figures of the recording itself.
    #[arg(long, conflicts_with_all = ["kernel", "recorded_kernel", "seeds", "policy"])]
    as_recorded: bool,
    /// Runs per kernel; their noise differs, the recorded work does not.
    #[arg(long, default_value_t = 10, value_parser = whole(1..=10_000))]
    seeds: u64,
    /// Seed of the first run.
    #[arg(long, default_value_t = 1, value_parser = whole(0..=u64::MAX))]
    seed: u64,
    /// Override: policy.tunable=V, slot=policy, features.NAME=true, platform.PATH=V; repeatable. For every -k, and for the recorded
    /// kernel where that is the first -k; name it by --recorded-kernel to leave it as it is.
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Policy of a thread that a trace cannot show, such as background=SCHED_IDLE; repeatable.
    #[arg(long, value_name = "NAME=POLICY", value_parser = policy_of_thread)]
    policy: Vec<(String, Policy)>,
    /// Print one JSON object (wattif.replay/1; with --as-recorded, wattif.recorded/1).
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    plots: PlotArg,
    #[command(flatten)]
    page: ReportArg,
}

impl Args {
    fn files(&self) -> Files {
        let read = Files::default().read(&self.trace).kernels(self.kernel.iter().chain(&self.recorded_kernel));
        let read = self.platform.iter().fold(read, |files, name| files.platform(name));
        self.page.files(self.plots.files(read))
    }
}

/// A trace, with what its reader has to say on stderr.
pub(super) fn look_at(name: &str, platform: Option<&str>, settings: &Settings, look: Look) -> Result<Looked, Error> {
    let looked = replay::look_at(name, platform, settings)?;
    output::note(&looked.findings().render(look, Severity::Note));
    Ok(looked)
}

pub fn run(args: &Args, look: Look) -> Result<Exit, Error> {
    args.files().check()?;
    let settings = Settings::parse(&args.set)?;
    check_settings(args, &settings)?;
    let looked = look_at(&args.trace, args.platform.as_deref(), &settings, look)?;
    let compared = !args.as_recorded && !args.kernel.is_empty();
    args.plots.check(compared.then_some("ratios"), |figure| not_in(&looked, args.kernel.len(), figure))?;
    if args.as_recorded || args.kernel.is_empty() && args.recorded_kernel.is_none() {
        if !args.as_recorded {
            output::note("no kernel was named (-k): only the figures of the recording itself");
        }
        as_recorded(&looked, args.json)?;
        if args.page.report.is_some() || args.plots.any() {
            let spec = RunSpec {
                platform: looked.platform.clone(),
                workload: Workload { name: args.trace.clone(), ..Workload::default() },
                kernel: KernelSpec::default(),
                seed: args.seed,
                duration: looked.loaded.recording.end,
            };
            picture(args, &looked, spec, &[], looked.to_json(), None)?;
        }
        return Ok(Exit::Done);
    }
    warnings(&looked).iter().for_each(|w| output::note(&format!("warning: {w}")));
    let replayed = replay(&question(args, settings)?, looked, &AtomicBool::new(false))?;
    replayed.inferred.notes.iter().for_each(|n| output::note(&format!("note: {n}")));
    let told = replayed.to_json();
    match args.json {
        true => output::json(&told)?,
        false => output::page(&page(&replayed))?,
    }
    if args.page.report.is_some() || args.plots.any() {
        let Replayed { looked, own, specs, comparison, .. } = &replayed;
        picture(args, looked, own.clone(), specs, told, comparison.as_ref())?;
    }
    Ok(Exit::Done)
}

/// Settings that nothing would read.
fn check_settings(args: &Args, settings: &Settings) -> Result<(), Error> {
    let refuse = |prefix: &str, (path, value): &(String, String), why: &str| {
        Err(Error::Usage(format!("--set {prefix}{path}={value}: {why}")))
    };
    match (settings.workload.first(), settings.kernel.first()) {
        (Some(set), _) => refuse("workload.", set, "what is replayed is made from the trace, no file is read"),
        (_, Some(set)) if args.kernel.is_empty() => {
            refuse("", set, "it is for the kernels to compare with, and none is named (-k)")
        }
        _ => Ok(()),
    }
}

/// Why a figure of this recording beside `kernels` of its replays has nothing to draw.
fn not_in(looked: &Looked, kernels: usize, figure: &str) -> Option<&'static str> {
    match figure {
        "frames" if looked.report.metrics.frames.is_empty() => {
            Some("the trace has no marks of frames, requests or stages, and neither has what is replayed of it")
        }
        _ => never(figure, &looked.platform, true, kernels),
    }
}

/// Drawings and the page: the recording above the kernels' runs of what was inferred from it.
fn picture(
    args: &Args,
    looked: &Looked,
    own: RunSpec,
    specs: &[RunSpec],
    mut replay: serde_json::Value,
    comparison: Option<&Comparison>,
) -> Result<(), Error> {
    let recording = &looked.loaded.recording;
    let mut all = vec![crate::report::recorded(&own, recording, &looked.report)];
    all.extend(plots::sides_if(args.page.report.is_some() || args.plots.of_runs(comparison.map(|_| "ratios")), specs)?);
    all.iter_mut().skip(1).for_each(|side| looked.leave_out(&mut side.outcome.report));
    let title = plots::title(&own);
    let compared = comparison.map(|c| |_: &str| ratios(&title, c));
    args.plots.write(&all, compared.as_ref().map(|draw| ("ratios", draw as _)))?;
    let Some(path) = &args.page.report else { return Ok(()) };
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

fn question(args: &Args, settings: Settings) -> Result<Question, Error> {
    Ok(Question {
        trace: args.trace.clone(),
        kernels: args.kernel.clone(),
        recorded_kernel: args.recorded_kernel.clone(),
        seeds: seeds(args.seed, args.seeds)?,
        settings,
        policies: args.policy.clone(),
    })
}

fn page(replayed: &Replayed) -> String {
    let Replayed { looked, recorded, recorded_set, set, checks, .. } = replayed;
    let mut out = head(&replayed.trace, looked);
    let good = checks.iter().filter(|c| c.ok).count();
    out += &format!("\nSelf-check: the recording beside its simulation under {recorded}{}\n", with(recorded_set));
    let mut table = Table::new([
        ("", Align::Left),
        ("unit", Align::Left),
        ("recorded", Align::Right),
        ("simulated", Align::Right),
        ("95 % interval", Align::Right),
        ("may differ by", Align::Right),
        ("", Align::Left),
    ]);
    for c in checks {
        let verdict = if c.ok { "" } else { "differs" };
        let (recorded, simulated, most) = (cell(c.recorded), cell(c.simulated), cell(c.tolerance));
        table.row([c.figure.as_str(), c.unit, &recorded, &simulated, &interval(c.ci95), &most, verdict]);
    }
    out += &text::indented(&table.to_text());
    out += &format!("  {good} of {} figures are reproduced; trust the comparison accordingly\n", checks.len());
    if let Some(comparison) = &replayed.comparison {
        out += &format!("\nWhat if{}\n{}", with(set), text::indented(&comparison.to_text()));
    }
    out + &text::trust_section("it", &looked.platform)
}

/// ` with cpufreq=performance`; nothing where nothing is set.
fn with(set: &BTreeMap<String, String>) -> String {
    let all: Vec<String> = set.iter().map(|(path, value)| format!("{path}={value}")).collect();
    if all.is_empty() { String::new() } else { format!(" with {}", all.join(", ")) }
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
    if let Some(background) = infer::background_told(r) {
        out += &format!("note      {background}\n");
    }
    out
}

/// The figures of the recording itself.
pub(super) fn as_recorded(looked: &Looked, json: bool) -> Result<Exit, Error> {
    if json {
        output::json(&looked.to_json())?;
    } else {
        let head = head(&looked.findings().name, looked);
        output::page(&format!("{head}{}", text::tables(&looked.platform, &looked.report)))?;
    }
    Ok(Exit::Done)
}
