//! What other kernels would have made of a recorded trace: how well the recording is reproduced, then the comparison.

use crate::data::Collection;
use crate::error::{Error, Findings};
use crate::load;
use crate::recording::{
    self, Check, LoadedTrace, below_error, length, other_release, replay_seeds, self_check, stands_still,
};
use crate::settings::Settings;
use crate::text;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use wattif_lab::compare::{Comparison, fold, headline_metrics};
use wattif_lab::infer::{self, Inferred, Missing};
use wattif_lab::metrics::RunReport;
use wattif_model::Pid;
use wattif_model::check::Diagnostic;
use wattif_model::kernel::{KernelSpec, profile_of};
use wattif_model::platform::Platform;
use wattif_model::run::RunSpec;
use wattif_model::trace::{Event, Recording};
use wattif_model::workload::{Policy, Workload};

/// What is asked of a trace.
#[derive(Clone, Debug)]
pub struct Question {
    /// A file in any format, or `-`.
    pub trace: String,
    /// Profiles; the first is what the others are compared with.
    pub kernels: Vec<String>,
    /// Profile of the kernel that was recorded; by default the one that its release is taken for, or the first.
    pub recorded_kernel: Option<String>,
    /// Of runs of each kernel: their noise differs, the recorded work does not.
    pub seeds: Vec<u64>,
    /// Of the kernels; also of the recorded one where that is the first of them and nobody named it apart.
    pub settings: Settings,
    /// Policies of threads that a trace cannot show.
    pub policies: Vec<(String, Policy)>,
}

/// What a trace cannot show of a thread: `background=SCHED_IDLE`.
pub fn policy_of_thread(text: &str) -> Result<(String, Policy), String> {
    // Budgets and deadlines it would need besides.
    let known = |p: &Policy| *p != Policy::Deadline;
    let (name, policy) = text.split_once('=').ok_or("write NAME=SCHED_IDLE")?;
    let found = Policy::by_name(policy).filter(known);
    let names = || Policy::ALL.into_iter().filter(known).map(Policy::name).collect::<Vec<_>>().join(", ");
    found.map(|p| (name.to_string(), p)).ok_or_else(|| format!("`{policy}` is none of {}", names()))
}

/// A trace and the machine it is looked at on.
#[derive(Clone, Debug)]
pub struct Looked {
    /// The trace.
    pub loaded: LoadedTrace,
    /// The machine.
    pub platform: Platform,
    /// It was named, not made up from the trace.
    pub known: bool,
    /// Figures of the recording itself.
    pub report: RunReport,
    /// Figures that it lacks.
    pub missing: Vec<Missing>,
}

/// Read a trace and its figures; without a platform, CPUs are taken as equal.
pub fn look_at(name: &str, platform: Option<&str>, settings: &Settings) -> Result<Looked, Error> {
    let mut loaded = recording::load(name)?;
    let known = platform.is_some() || loaded.platform.is_some();
    let own = platform.is_none() && loaded.platform.is_some();
    let platform = match (platform, &loaded.platform) {
        (Some(name), _) => load::platform(name, settings)?.value,
        (None, Some(own)) => load::platform_of(own.clone(), settings)?.value,
        (None, None) => match settings.platform.first() {
            None => infer::platform(&loaded.recording),
            Some((path, value)) => {
                let why = "the trace does not say what machine it is of: name it (-p)";
                return Err(Error::Usage(format!("--set platform.{path}={value}: {why}")));
            }
        },
    };
    let unrecorded = infer::unrecorded(&loaded.recording);
    let placed = loaded.recording.renumber(&platform.kernel_cpus);
    if own && !placed && !platform.kernel_cpus.is_empty() {
        let (cpus, kernel_cpus) = (loaded.recording.cpus(), &platform.kernel_cpus);
        return Err(Error::Usage(format!(
            "the events of {name} are of CPUs {cpus}, or name others; its platform has CPUs {kernel_cpus} of that kernel: some came \
             or went while it was recorded"
        )));
    }
    let cpus = cpus_of(&loaded.recording);
    if cpus > platform.nr_cpus() {
        return Err(Error::Usage(format!(
            "{name} has events of {cpus} CPUs, platform {} has {}: name the machine it was recorded on (-p)",
            platform.name,
            platform.nr_cpus()
        )));
    }
    loaded.findings.diagnostics.extend(fewer_cpus(&loaded.recording, &platform));
    let unrecorded = unrecorded.map(|message| {
        Diagnostic::warning("trace::W09", 0..0, message)
            .help("read the trace of all CPUs: trace-cmd report without --cpu")
    });
    loaded.findings.diagnostics.extend(unrecorded);
    let (report, missing) = recording::analyse(&loaded.recording, &platform, known);
    Ok(Looked { loaded, platform, known, report, missing })
}

/// The file says that its machine has fewer CPUs than the platform: it may be another, or some are offline.
fn fewer_cpus(recording: &Recording, platform: &Platform) -> Option<Diagnostic> {
    let (here, there) = (recording.nr_cpus, platform.nr_cpus());
    (recording.cpus_told && here < there).then(|| {
        let message = format!(
            "the trace is of a machine of {here} CPUs, platform {} has {there}: CPUs {here}-{} are taken as asleep all along",
            platform.name,
            there - 1
        );
        Diagnostic::warning("trace::W07", 0..0, message).help("name the machine it was recorded on (-p)")
    })
}

/// One more than the highest CPU with events.
pub(crate) fn cpus_of(recording: &Recording) -> usize {
    recording.cpus().iter().last().map_or(0, |cpu| cpu.at() + 1)
}

/// A trace under other kernels.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// As asked.
    pub trace: String,
    /// The trace.
    pub looked: Looked,
    /// What was made of it.
    pub inferred: Inferred,
    /// Profile of the recorded kernel.
    pub recorded: String,
    /// What was set for it, by path; empty: the profile as it is.
    pub recorded_set: BTreeMap<String, String>,
    /// What was set for the others.
    pub set: BTreeMap<String, String>,
    /// What was run under it.
    pub own: RunSpec,
    /// What was run under the others.
    pub specs: Vec<RunSpec>,
    /// The recording beside its own simulation.
    pub checks: Vec<Check>,
    /// `None`: no kernel was named.
    pub comparison: Option<Comparison>,
}

/// Policies are given to threads that the trace has, and go with their priorities.
pub fn check_policies(policies: &[(String, Policy)], recording: &Recording) -> Result<(), Error> {
    let names: BTreeSet<&str> = recording.threads.values().map(|t| t.comm.as_str()).collect();
    let known = |name: &str| names.iter().any(|comm| infer::is_named(comm, name));
    if let Some((name, _)) = policies.iter().find(|(name, _)| !known(name)) {
        return Err(Error::unknown("thread of this trace", name, names, "wattif import TRACE lists them"));
    }
    policies.iter().try_for_each(|(name, policy)| check_priority(name, *policy, recording))
}

/// A policy that none of the threads can have is refused; of threads of one name, it is for those that can.
fn check_priority(name: &str, policy: Policy, recording: &Recording) -> Result<(), Error> {
    let prios = infer::priorities(recording);
    let named: BTreeMap<Pid, u8> =
        prios.into_iter().filter(|(pid, _)| infer::is_named(recording.comm(*pid), name)).collect();
    let mut own: BTreeSet<u8> = named.values().copied().collect();
    // Also those that a thread got later on.
    own.extend(recording.records.iter().filter_map(|r| match r.event() {
        Some(Event::SchedSwitch { next_pid, next_prio, .. }) if named.contains_key(next_pid) => Some(*next_prio),
        _ => None,
    }));
    let (Some(prio), false) = (own.first(), own.iter().any(|prio| infer::has_policy(*prio, policy))) else {
        return Ok(());
    };
    let kind = if *prio < 100 { "real-time" } else { "fair" };
    Err(Error::Usage(format!(
        "--policy {name}={}: {name} has priority {prio}, which is that of a {kind} thread (0 to 99 are real-time)",
        policy.name()
    )))
}

/// Replay a trace that was looked at, until `stop` is set.
pub fn replay(question: &Question, looked: Looked, stop: &AtomicBool) -> Result<Replayed, Error> {
    if !looked.loaded.recording.counts().contains_key("sched_switch") {
        return Err(Error::Usage(format!(
            "{}: without sched_switch events there is no work to replay: record sched_switch, sched_waking, cpu_frequency and cpu_idle",
            question.trace
        )));
    }
    check_policies(&question.policies, &looked.loaded.recording)?;
    let options = infer::Options { policies: question.policies.clone(), counted: false };
    let platform = looked.platform.without_background();
    let mut inferred = infer::workload(&looked.loaded.recording, &platform, &question.trace, &options);
    let Own { name: recorded, kernel, settings } = recorded_kernel(question, &looked)?;
    if question.recorded_kernel.is_none() && looked.loaded.kernel.is_none() {
        let release = looked.loaded.recording.release.as_deref();
        inferred.notes.extend(release.and_then(|release| other_release(release, &recorded)));
    }
    let others = question.kernels.iter().map(|k| load::kernel_for(k, Some(&platform), &question.settings));
    let kernels: Vec<KernelSpec> =
        std::iter::once(Ok(kernel)).chain(others.map(|k| Ok(k?.value))).collect::<Result<_, Error>>()?;
    let of_kernel = |kernel: &KernelSpec, workload: &Workload| {
        let spec = RunSpec {
            platform: platform.clone(),
            workload: workload.clone(),
            kernel: kernel.clone(),
            seed: question.seeds.first().copied().unwrap_or(1),
            duration: length(workload, &looked.loaded.recording),
        };
        let mut reports = replay_seeds(&spec, &question.seeds, stop)?;
        reports.iter_mut().for_each(|r| looked.leave_out(r));
        Ok((spec, reports))
    };
    let all = |workload: &Workload| kernels.iter().map(|k| of_kernel(k, workload)).collect::<Result<Vec<_>, Error>>();
    let mut runs = all(&inferred.workload)?;
    if inferred.workload.ends_by_itself() && !runs.iter().all(come_to_their_end) {
        inferred.workload.duration = Some(looked.loaded.recording.end);
        inferred.notes.push(NO_END.into());
        runs = all(&inferred.workload)?;
    }
    let ends_by_itself = inferred.workload.ends_by_itself();
    let (own, reports) = runs.remove(0);
    let checks = self_check(&looked.report, &reports, &looked.missing, &platform, ends_by_itself);
    inferred.notes.extend(stands_still(&looked.report, &reports));
    let comparison = (!runs.is_empty()).then(|| compare(&runs, &looked));
    inferred.notes.extend(comparison.iter().flat_map(|c| below_error(&checks, c)));
    let trace = question.trace.clone();
    let specs = runs.into_iter().map(|(spec, _)| spec).collect();
    let [recorded_set, set] = [&settings, &question.settings].map(of_kernel_only);
    Ok(Replayed { trace, looked, inferred, recorded, recorded_set, set, own, specs, checks, comparison })
}

const NO_END: &str =
    "the program ends in the trace, and does not in each of its simulations: all are as long as the trace";

/// Is each of these runs over before its time is up?
fn come_to_their_end((spec, reports): &(RunSpec, Vec<RunReport>)) -> bool {
    reports.iter().all(|r| r.metrics.duration_s < spec.duration.as_s_f64())
}

/// What the replay would need and the trace lacks.
pub fn warnings(looked: &Looked) -> Vec<String> {
    let recording = &looked.loaded.recording;
    let counts = recording.counts();
    let mut all = Vec::new();
    let no_waking = match counts.contains_key("sched_wakeup") {
        true => "who wakes whom is taken from sched_wakeup",
        false => "all sleeps are taken as timers, and nobody waits for a CPU after one",
    };
    for (event, why) in [
        ("sched_switch", "there is no work to replay"),
        ("sched_waking", no_waking),
        ("cpu_frequency", "work is counted as if every CPU ran at its highest frequency"),
    ] {
        if !counts.contains_key(event) {
            all.push(format!("the trace has no {event} events: {why}"));
        }
    }
    for m in looked.missing.iter().filter(|m| !m.derived && !m.cpus.is_empty()) {
        all.push(format!("{}: work is counted as if they ran at their highest frequency", m.why));
    }
    if recording.lost_gaps > 0 {
        all.push(format!("events were lost in {} places: work and wake-ups in them are missing", recording.lost_gaps));
    }
    all.extend(infer::skewed(recording));
    all.extend(other_kernel(&looked.loaded));
    if !looked.known {
        all.push("no platform was named (-p): all CPUs count as equal".into());
    }
    all
}

/// The kernel in an archive is not the one that the trace is of: somebody packed a trace of another machine.
fn other_kernel(loaded: &LoadedTrace) -> Option<String> {
    let release = loaded.recording.release.as_deref()?;
    let kernel = load::kernel_of(loaded.kernel.clone()?, None, &Settings::default()).ok()?.value;
    let captured = kernel.title.strip_prefix("Linux ")?.strip_suffix(", as captured")?;
    (captured != release && captured != "unknown").then(|| {
        format!(
            "the archive's kernel is Linux {captured}, the trace is of Linux {release}: machine and kernel in the archive \
             may be another's (-p, --recorded-kernel)"
        )
    })
}

/// The kernel that was recorded.
struct Own {
    name: String,
    kernel: KernelSpec,
    /// What of `--set` it has.
    settings: Settings,
}

/// The kernel that was recorded: as told, as an archive says, as the release in the trace says, or else the first of the others.
/// Settings change a kernel that is called by its name wherever the name stands: where the recorded one is what the others are
/// compared with, it has them too. One that was named as the recorded one, and that of an archive, is taken as it is.
fn recorded_kernel(question: &Question, looked: &Looked) -> Result<Own, Error> {
    let (loaded, platform) = (&looked.loaded, Some(&looked.platform));
    if let (None, Some(own)) = (&question.recorded_kernel, &loaded.kernel) {
        let kernel = load::kernel_of(own.clone(), platform, &Settings::default())?.value;
        return Ok(Own { name: kernel.name.clone(), kernel, settings: Settings::default() });
    }
    let (name, settings) = match &question.recorded_kernel {
        Some(name) => (name.clone(), Settings::default()),
        None => {
            let name = profile_of_release(question, &loaded.recording)?;
            let first = question.kernels.first() == Some(&name);
            (name, if first { question.settings.clone() } else { Settings::default() })
        }
    };
    let kernel = load::kernel_for(&name, platform, &settings)?.value;
    Ok(Own { name, kernel, settings })
}

/// Of the kernel alone: what is set of the platform is the machine's, under whichever kernel.
fn of_kernel_only(settings: &Settings) -> BTreeMap<String, String> {
    settings.kernel.iter().cloned().collect()
}

fn profile_of_release(question: &Question, recording: &Recording) -> Result<String, Error> {
    let names: Vec<String> = Collection::Kernels.names().into_iter().map(String::from).collect();
    // No phone is an x86: where it is one, a 4.9 is not Android's.
    let machine = recording.machine.as_deref().unwrap_or_default();
    let mainline = |release: &str| machine.starts_with("x86") && !release.contains("android");
    let of_release = recording.release.as_deref().and_then(|r| profile_of(r, mainline(r).then_some(false), &names));
    let first = question.kernels.first().map(String::as_str);
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
        "trust": text::trust_lines(&looked.platform),
    });
    fold(spec, &kernels, &headline_metrics(&reports, runs[0].0.workload.ends_by_itself()), &reports)
}

impl Replayed {
    /// `wattif.replay/1`.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "schema": "wattif.replay/1",
            "version": env!("CARGO_PKG_VERSION"),
            "trace": self.trace,
            "recording": self.looked.about(),
            "warnings": warnings(&self.looked),
            "notes": self.inferred.notes,
            "threads": self.inferred.workload.tasks.len(),
            "set": self.set,
            "self_check": { "kernel": self.recorded, "set": self.recorded_set, "figures": self.checks },
            "comparison": self.comparison,
        })
    }
}

impl Looked {
    /// Takes out of the report of a run what a machine that was made up cannot answer.
    pub fn leave_out(&self, report: &mut RunReport) {
        if !self.known {
            // Target residencies of its idle states are not known.
            (report.metrics.idle_accuracy, report.metrics.oracle) = (None, None);
        }
    }

    /// What the trace is.
    fn about(&self) -> serde_json::Value {
        let r = &self.loaded.recording;
        serde_json::json!({
            "format": r.format,
            "cpus": r.nr_cpus,
            "duration_s": r.end.as_s_f64(),
            "events": r.counts(),
            "unknown": r.unknown,
            "lost": { "events": r.lost_events, "gaps": r.lost_gaps },
            "release": r.release,
            "clock": r.clock,
            "platform": self.platform.name,
            "background": infer::background_told(r),
            "missing": self.missing,
        })
    }

    /// `wattif.recorded/1`: the figures of the recording itself.
    pub fn to_json(&self) -> serde_json::Value {
        let report = &self.report;
        let mut all = serde_json::json!({
            "schema": "wattif.recorded/1",
            "version": env!("CARGO_PKG_VERSION"),
            "recording": self.about(),
            "metrics": report.metrics,
            "tasks": report.tasks,
            "by_task": report.by_task,
            "cpus": report.cpus,
            "domains": report.domains,
            "trust": text::trust_lines(&self.platform),
        });
        // As of a run: none where there are none.
        if !report.groups.is_empty() {
            all["groups"] = serde_json::json!(report.groups);
        }
        all
    }

    /// What its reader had to say.
    pub fn findings(&self) -> &Findings {
        &self.loaded.findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattif_model::trace::{Event, Record, Recorded, RecordedThread};
    use wattif_model::{CpuId, Ns, Pid};

    #[test]
    fn policies_go_with_priorities() {
        let woken = |pid, prio| Event::SchedWaking { pid: Pid(pid), prio, target_cpu: CpuId(0), in_irq: false };
        let record = |event| Record { at: Ns(1), cpu: CpuId(0), current: None, event: Recorded::Event(event) };
        let records = [woken(1, 120), woken(2, 89), woken(3, 120), woken(4, 89)].map(record).into();
        let thread = |comm: &str| RecordedThread { comm: comm.into(), ..Default::default() };
        let threads = (1..).zip(["app", "rt", "both-0", "both-1"].map(thread)).collect();
        let trace = Recording { records, threads, ..Recording::default() };
        let check = |text: &str| check_policies(&[policy_of_thread(text).unwrap()], &trace).map_err(|e| e.to_string());
        for fits in ["app=SCHED_IDLE", "rt=SCHED_RR", "both=SCHED_RR", "both=SCHED_BATCH"] {
            assert_eq!(check(fits), Ok(()), "{fits}");
        }
        assert!(check("app=SCHED_FIFO").unwrap_err().contains("app has priority 120, which is that of a fair thread"));
        assert!(check("rt=SCHED_IDLE").unwrap_err().contains("priority 89, which is that of a real-time thread"));
        assert!(check("nobody=SCHED_IDLE").is_err());
    }

    /// A thread runs on CPU 1 before CPU 0 wakes it.
    #[test]
    fn clocks_that_are_apart_are_told() {
        use wattif_model::trace::PrevState;
        let switch = |prev, next, prev_state| {
            let (prev_pid, next_pid) = (Pid(prev), Pid(next));
            Event::SchedSwitch { prev_pid, prev_prio: 120, prev_state, next_pid, next_prio: 120 }
        };
        let waking = Event::SchedWaking { pid: Pid(7), prio: 120, target_cpu: CpuId(1), in_irq: false };
        let told = |woken_us| {
            let mut records = vec![
                (1, 1, switch(7, 0, PrevState::Sleeping)),
                (50, 1, switch(0, 7, PrevState::Running)),
                (woken_us, 0, waking),
            ];
            records.sort_by_key(|r| r.0);
            let record = |(us, cpu, event)| Record {
                at: Ns::from_us(us),
                cpu: CpuId(cpu),
                current: None,
                event: Recorded::Event(event),
            };
            let recording =
                Recording { nr_cpus: 2, records: records.into_iter().map(record).collect(), ..Recording::default() };
            let platform = infer::platform(&recording);
            let findings = Findings { name: "t".into(), text: "".into(), diagnostics: Vec::new() };
            let loaded = LoadedTrace { recording, findings, platform: None, kernel: None };
            let looked = Looked { loaded, platform, known: true, report: RunReport::default(), missing: Vec::new() };
            warnings(&looked).iter().any(|w| w.contains("the clocks of the CPUs are apart"))
        };
        assert!(told(52) && !told(48));
    }

    #[test]
    fn a_platform_of_more_cpus() {
        let platform = load::platform("hikey620", &Settings::default()).unwrap().value;
        let told = |nr_cpus, cpus_told| {
            let recording = Recording { nr_cpus, cpus_told, ..Recording::default() };
            fewer_cpus(&recording, &platform).map(|d| d.message)
        };
        let message =
            "the trace is of a machine of 4 CPUs, platform hikey620 has 8: CPUs 4-7 are taken as asleep all along";
        assert_eq!(told(4, true).as_deref(), Some(message));
        assert_eq!((told(8, true), told(4, false)), (None, None), "silent CPUs are none that are not there");
    }

    #[test]
    fn cpus_with_events() {
        let at = |cpu, event| Record { at: Ns(1), cpu: CpuId(cpu), current: None, event };
        let idle = at(3, Recorded::Event(Event::CpuIdle { state: 0 }));
        let mut trace = Recording { nr_cpus: 16, records: vec![idle], ..Recording::default() };
        assert_eq!(cpus_of(&trace), 4);
        trace.records.push(at(0, Recorded::CpuFrequency { cpu: CpuId(7), khz: 1 }));
        assert_eq!((cpus_of(&trace), cpus_of(&Recording::default())), (8, 0));
    }
}
