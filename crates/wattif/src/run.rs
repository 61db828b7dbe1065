//! Running: one spec or many, and what a run says as `wattif.run/1`.

use crate::bug;
use crate::error::{Error, Findings};
use crate::text;
use rayon::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use wattif_lab::metrics::{
    CgroupReport, CpuReport, DomainReport, GroupReport, Metrics, RunMetrics, RunReport, TaskReport,
};
use wattif_model::check::Diagnostic;
use wattif_model::run::{Blocked, RunError, RunSpec, RunSummary, Runner};
use wattif_model::trace::{Event, Interest, Observer};
use wattif_model::workload::Workload;
use wattif_model::{CpuId, Ns};
use wattif_sim::engine::digest::Digest;
use wattif_sim::simulation::{Injected, simulate, simulate_with};

/// Runs on this machine, in this thread. A panic of the simulator is noted with what reproduces it, and goes on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Simulator;

impl Runner for Simulator {
    fn run(&self, spec: &RunSpec, observers: &mut [&mut dyn Observer]) -> Result<RunSummary, RunError> {
        panic::catch_unwind(AssertUnwindSafe(|| simulate(spec, observers))).unwrap_or_else(|cause| {
            bug::remember(last_words(spec));
            panic::resume_unwind(cause)
        })
    }
}

/// Seed, hash, time and digest of a run that panicked; the last two by running it again, which ends the same way.
fn last_words(spec: &RunSpec) -> String {
    let mut record = Record { at: Ns::ZERO, digest: Digest::new() };
    let _ = panic::catch_unwind(AssertUnwindSafe(|| simulate(spec, &mut [&mut record])));
    format!(
        "  platform {} · kernel {} · workload {} · seed {} · simulated time {}\n  spec {}\n  digest so far {}",
        spec.platform.name,
        spec.kernel.name,
        spec.workload.name,
        spec.seed,
        record.at,
        spec.hash(),
        record.digest.finish()
    )
}

/// Remembers the time of the last event, and the digest of all.
struct Record {
    at: Ns,
    digest: Digest,
}

impl Observer for Record {
    fn interest(&self) -> Interest {
        Interest::ALL
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        self.at = at;
        self.digest.feed(at, cpu, event);
    }
}

/// So many seeds, from `first` on.
pub fn seeds(first: u64, count: u64) -> Result<Vec<u64>, Error> {
    let Some(more) = count.checked_sub(1) else { return Ok(Vec::new()) };
    match first.checked_add(more) {
        Some(last) => Ok((first..=last).collect()),
        None => Err(Error::Usage(format!(
            "{count} seeds from {first} on go beyond the last one, {}: take a lower --seed",
            u64::MAX
        ))),
    }
}

/// A finished run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What the simulator reports.
    pub summary: RunSummary,
    /// What the metrics say.
    pub report: RunReport,
    /// Real time it took, s.
    pub wall_s: f64,
}

impl Outcome {
    fn new(summary: RunSummary, metrics: Metrics, clock: &Stopwatch) -> Outcome {
        let report = RunReport { deadlock: summary.deadlock.clone(), ..metrics.into_report() };
        Outcome { summary, report, wall_s: clock.seconds() }
    }
}

/// How long something takes; where there is no clock (wasm32), no time.
struct Stopwatch(#[cfg(not(target_arch = "wasm32"))] std::time::Instant);

impl Stopwatch {
    #[cfg(not(target_arch = "wasm32"))]
    fn start() -> Stopwatch {
        Stopwatch(std::time::Instant::now())
    }
    #[cfg(not(target_arch = "wasm32"))]
    fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
    #[cfg(target_arch = "wasm32")]
    fn start() -> Stopwatch {
        Stopwatch()
    }
    #[cfg(target_arch = "wasm32")]
    fn seconds(&self) -> f64 {
        0.0
    }
}

/// A spec from a file may describe no machine, and no workload: nothing can be measured of it.
fn metrics_of(spec: &RunSpec) -> Result<Metrics, Error> {
    spec.check()?;
    Ok(Metrics::new(spec))
}

/// Run `spec` with all metrics and `others` listening.
pub fn run(spec: &RunSpec, others: &mut [&mut dyn Observer]) -> Result<Outcome, Error> {
    let clock = Stopwatch::start();
    let mut metrics = metrics_of(spec)?;
    let mut observers: Vec<&mut dyn Observer> = vec![&mut metrics];
    for other in others {
        observers.push(&mut **other);
    }
    let summary = Simulator.run(spec, &mut observers)?;
    Ok(Outcome::new(summary, metrics, &clock))
}

/// Run `spec` with policies that no registry has, until the end or until `stop` is set. Policies set it themselves when they
/// cannot go on.
pub fn run_with(
    spec: &RunSpec,
    injected: Injected<'_>,
    others: &mut [&mut dyn Observer],
    stop: &AtomicBool,
) -> Result<Outcome, Error> {
    let clock = Stopwatch::start();
    let (mut metrics, mut watch) = (metrics_of(spec)?, Watch { stop, events: 0 });
    let mut observers: Vec<&mut dyn Observer> = vec![&mut metrics, &mut watch];
    for other in others {
        observers.push(&mut **other);
    }
    let ended = panic::catch_unwind(AssertUnwindSafe(|| simulate_with(spec, injected, &mut observers)));
    let summary = match ended {
        Ok(summary) => summary?,
        Err(cause) if cause.is::<Stopped>() => return Err(Error::Stopped),
        Err(cause) => panic::resume_unwind(cause),
    };
    Ok(Outcome::new(summary, metrics, &clock))
}

/// Run `spec` until the end or until `stop` is set.
pub fn run_until(spec: &RunSpec, stop: &AtomicBool) -> Result<Outcome, Error> {
    if stop.load(Ordering::Relaxed) {
        return Err(Error::Stopped);
    }
    run_with(spec, Injected::default(), &mut [], stop)
}

/// Ends a run from inside: the simulator itself knows nothing of a world in which somebody waits.
struct Watch<'s> {
    stop: &'s AtomicBool,
    events: u32,
}

/// What a stopped run unwinds with.
struct Stopped;

impl Observer for Watch<'_> {
    fn interest(&self) -> Interest {
        Interest::SCHED.and(Interest::IDLE)
    }
    fn event(&mut self, _: Ns, _: CpuId, _: &Event) {
        self.events = self.events.wrapping_add(1);
        if self.events.is_multiple_of(64) && self.stop.load(Ordering::Relaxed) {
            panic::resume_unwind(Box::new(Stopped));
        }
    }
}

/// Called after each of many runs; whether to go on.
pub type Done<'d> = &'d (dyn Fn() -> bool + Sync);

/// Run many on all cores; results in the order of `specs`, whatever the number of threads.
pub fn run_all(specs: &[RunSpec], done: Done<'_>) -> Result<Vec<Outcome>, Error> {
    let gate = Gate::new(done);
    specs.par_iter().map(|spec| gate.pass(|| run(spec, &mut []))).collect()
}

/// Lets runs begin until somebody has had enough.
pub(crate) struct Gate<'d> {
    done: Done<'d>,
    shut: AtomicBool,
}

impl<'d> Gate<'d> {
    pub(crate) fn new(done: Done<'d>) -> Gate<'d> {
        Gate { done, shut: AtomicBool::new(false) }
    }
    /// One of the runs, unless it is too late for it.
    pub(crate) fn pass<T>(&self, one: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        if self.shut.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        let result = one();
        self.shut.fetch_or(!(self.done)(), Ordering::Relaxed);
        result
    }
}

/// `wattif.run/1`.
#[derive(Clone, Debug, Serialize)]
pub struct RunJson<'a> {
    schema: &'static str,
    version: &'static str,
    spec: SpecJson<'a>,
    digest: &'a str,
    wall_s: f64,
    events: u64,
    slices: u64,
    end_s: f64,
    metrics: &'a RunMetrics,
    tasks: &'a [TaskReport],
    by_task: &'a [GroupReport],
    cpus: &'a [CpuReport],
    domains: &'a [DomainReport],
    #[serde(skip_serializing_if = "<[CgroupReport]>::is_empty")]
    groups: &'a [CgroupReport],
    deadlock: &'a [Blocked],
    notes: Vec<NoteJson>,
    trust: Vec<String>,
}

/// What was run, in names and in full.
#[derive(Clone, Debug, Serialize)]
pub struct SpecJson<'a> {
    platform: &'a str,
    kernel: &'a str,
    workload: &'a str,
    seed: u64,
    duration_s: f64,
    set: BTreeMap<String, String>,
    hash: String,
    content: &'a RunSpec,
}

/// Something the input says that has no effect, or another effect than it seems.
#[derive(Clone, Debug, Serialize)]
pub struct NoteJson {
    file: String,
    line: usize,
    column: usize,
    code: &'static str,
    message: String,
}

impl<'a> SpecJson<'a> {
    /// Of a run.
    pub fn new(spec: &'a RunSpec, set: BTreeMap<String, String>) -> SpecJson<'a> {
        SpecJson {
            platform: &spec.platform.name,
            kernel: &spec.kernel.name,
            workload: &spec.workload.name,
            seed: spec.seed,
            duration_s: spec.duration.as_s_f64(),
            set,
            hash: spec.hash(),
            content: spec,
        }
    }
}

/// That the end of the run came before that of a workload that ends by itself, whose figures are then those of a part.
pub fn unfinished(spec: &RunSpec, report: &RunReport) -> Option<Findings> {
    report.is_cut(spec).then(|| notes_of(&spec.workload, vec![not_finished(spec.duration)]))
}

/// The same of kernels, or of points of a sweep: name, how many of so many runs were cut off, and after how long.
pub fn all_unfinished(
    workload: &Workload,
    of: impl IntoIterator<Item = (String, usize, Ns)>,
    runs: usize,
) -> Option<Findings> {
    const SHOWN: usize = 8;
    let cut: Vec<(String, usize, Ns)> = of.into_iter().filter(|(_, cut, _)| *cut > 0).collect();
    let share = |cut: usize| if runs > 1 { format!(" ({cut} of {runs} runs)") } else { String::new() };
    let told = |(name, cut, length): &(String, usize, Ns)| format!("{name}{}: {}", share(*cut), not_finished(*length));
    let mut all: Vec<String> = cut.iter().take(SHOWN).map(told).collect();
    if cut.len() > SHOWN {
        all.push(format!("not finished: runs of {} more", cut.len() - SHOWN));
    }
    (!all.is_empty()).then(|| notes_of(workload, all))
}

fn not_finished(length: Ns) -> String {
    let length_s = wattif_lab::table::cell(length.as_s_f64());
    format!("not finished: threads were still running after {length_s} s (--duration)")
}

fn notes_of(workload: &Workload, messages: Vec<String>) -> Findings {
    let diagnostics = messages.into_iter().map(|m| Diagnostic::note("run::N01", 0..0, m)).collect();
    Findings { name: workload.name.clone(), text: "".into(), diagnostics }
}

/// Findings of the inputs as JSON.
pub fn notes(findings: &[Findings]) -> Vec<NoteJson> {
    let of = |f: &Findings| {
        let note = |d: &Diagnostic| {
            let (line, column) = d.line_column(&f.text);
            NoteJson { file: f.name.clone(), line, column, code: d.code, message: d.message.clone() }
        };
        f.diagnostics.iter().map(note).collect::<Vec<_>>()
    };
    findings.iter().flat_map(of).collect()
}

impl<'a> RunJson<'a> {
    /// Everything about one run.
    pub fn new(
        spec: &'a RunSpec,
        set: BTreeMap<String, String>,
        findings: &[Findings],
        outcome: &'a Outcome,
    ) -> RunJson<'a> {
        let Outcome { summary, report, wall_s } = outcome;
        RunJson {
            schema: "wattif.run/1",
            version: env!("CARGO_PKG_VERSION"),
            spec: SpecJson::new(spec, set),
            digest: &summary.digest,
            wall_s: *wall_s,
            events: summary.events,
            slices: summary.slices,
            end_s: summary.end.as_s_f64(),
            metrics: &report.metrics,
            tasks: &report.tasks,
            by_task: &report.by_task,
            cpus: &report.cpus,
            domains: &report.domains,
            groups: &report.groups,
            deadlock: &summary.deadlock,
            notes: notes(findings),
            trust: text::trust_lines(&spec.platform),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load;
    use crate::settings::Settings;
    use wattif_formats::rtapp::Dialect;
    use wattif_sim::cpuidle;

    /// What stands in a report of a bug is what a run says of itself.
    #[test]
    fn last_words_have_the_digest() {
        let platform = load::platform("hikey620", &Settings::default()).unwrap().value;
        let kernel = load::kernel("linux-5.6", &Settings::default()).unwrap().value;
        let read = load::workload("server", &platform, Dialect::Workgen, &Settings::default()).unwrap();
        let spec = RunSpec { platform, workload: read.value.workload, kernel, seed: 7, duration: Ns::from_ms(50) };
        let digest = simulate(&spec, &mut []).unwrap().digest;
        let said = last_words(&spec);
        assert!(said.contains("seed 7 ") && said.ends_with(&format!("digest so far {digest}")), "{said}");
    }

    /// A policy that is handed in does what the same policy does when it is named.
    #[test]
    fn injected_and_named_policies_agree() {
        let of = |set: &str| {
            let settings = Settings::parse(&[set]).unwrap();
            let platform = load::platform("hikey620", &settings).unwrap().value;
            let kernel = load::kernel("linux-5.6", &settings).unwrap().value;
            let read = load::workload("server", &platform, Dialect::Workgen, &settings).unwrap();
            let duration = Ns::from_ms(100);
            RunSpec { platform, workload: read.value.workload, kernel, seed: 1, duration }
        };
        let (menu, ladder) = (of("cpuidle=menu"), of("cpuidle=ladder"));
        let tick_ns = cpuidle::tick_nsec(ladder.platform.hz);
        let governor = cpuidle::build("ladder", "", 8, ladder.platform.nr_cpus(), tick_ns);
        let injected = Injected { cpuidle: governor, cpufreq: None };
        let digest = |spec: &RunSpec| simulate(spec, &mut []).unwrap().digest;
        let given = simulate_with(&menu, injected, &mut []).unwrap().digest;
        assert_eq!(given, digest(&ladder));
        assert_ne!(given, digest(&menu));
    }
}
