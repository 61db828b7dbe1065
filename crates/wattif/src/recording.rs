//! Recorded traces: loading them, their figures, and what they say of another kernel.

use crate::bug;
use crate::data::Source;
use crate::error::{Error, Findings};
use crate::run::run_until;
use rayon::prelude::*;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use wattif_formats::archive::{self, Archive};
use wattif_formats::trace::{self, Read, Unpacked};
use wattif_lab::compare::Comparison;
use wattif_lab::infer::{self, Figures, Missing};
use wattif_lab::metrics::{CpuReport, GroupReport, Leaving, Metrics, RunReport, unit_on};
use wattif_lab::stats::{bca_mean, mean};
use wattif_model::kernel::why;
use wattif_model::platform::Platform;
use wattif_model::run::RunSpec;
use wattif_model::trace::Recording;
use wattif_model::workload::Workload;
use wattif_model::{CpuId, Ns};

/// A trace from a file, with what its reader had to say.
#[derive(Clone, Debug)]
pub struct LoadedTrace {
    /// The trace.
    pub recording: Recording,
    /// Warnings and notes.
    pub findings: Findings,
    /// Of an archive of `wattif record`: the machine, as a platform file.
    pub platform: Option<Source>,
    /// And its kernel, as a profile.
    pub kernel: Option<Source>,
}

/// Read a trace, or an archive of `wattif record`: a path, or `-` for standard input. The format is sniffed.
pub fn load(name: &str) -> Result<LoadedTrace, Error> {
    let bytes = match name {
        "-" => {
            bug::reads_stdin();
            let mut bytes = Vec::new();
            let limit = trace::MAX_BYTES as u64 + 1;
            std::io::Read::read_to_end(&mut std::io::Read::take(std::io::stdin().lock(), limit), &mut bytes)
                .map_err(|e| Error::file("-", e))?;
            bytes
        }
        path => {
            let path = Path::new(path);
            let size = std::fs::metadata(path).map_err(|e| Error::file(path, e))?.len();
            if size > trace::MAX_BYTES as u64 {
                return Err(Error::file(path, format!("{size} bytes; {} is the limit", trace::MAX_BYTES)));
            }
            std::fs::read(path).map_err(|e| Error::file(path, e))?
        }
    };
    let refused = |d| Error::Input(Findings { name: name.into(), text: "".into(), diagnostics: vec![d] });
    let unpacked = Unpacked::of(&bytes).map_err(refused)?;
    let mut archive = Archive::default();
    let read = if archive::is_archive(&unpacked.bytes) {
        archive = archive::read(&unpacked.bytes).map_err(refused)?;
        let read = trace::read(archive.trace);
        let lost = if read.recording.is_none() { archive.lost(&read.diagnostics) } else { None };
        let said = match lost {
            Some(lost) => vec![lost],
            None => archive.cut.take().into_iter().chain(read.diagnostics).collect(),
        };
        Read { diagnostics: [unpacked.diagnostics, said].concat(), ..read }
    } else {
        unpacked.read()
    };
    let findings = Findings { name: name.into(), text: "".into(), diagnostics: read.diagnostics };
    let member = |of: &str, text: Option<&str>| text.map(|t| Source { name: format!("{name}/{of}"), text: t.into() });
    match read.recording {
        Some(recording) if !recording.records.is_empty() => Ok(LoadedTrace {
            recording,
            findings,
            platform: member("platform.toml", archive.platform),
            kernel: member("kernel.toml", archive.kernel),
        }),
        Some(_) if !findings.has_errors() => {
            let what = findings.diagnostics.iter().map(|d| d.message.as_str()).collect::<Vec<_>>().join("; ");
            Err(Error::file(name, format!("the trace holds no events that wattif knows. {what}")))
        }
        _ => Err(Error::Input(findings)),
    }
}

/// The figures of a recording, from the same metrics as those of a run.
pub fn analyse(recording: &Recording, platform: &Platform, known: bool) -> (RunReport, Vec<Missing>) {
    let missing = infer::missing(recording, platform, known);
    let platform = &*infer::clocked(recording, platform);
    let mut metrics =
        Metrics::for_trace(platform, &marks(recording)).with_groups(platform.nr_cpus(), &recording.groups);
    let untold = infer::play(recording, platform, &mut Leaving::new(recording, &mut metrics));
    let mut report = metrics.into_report();
    untold.take_out(&mut report);
    report.metrics.frames.retain(|_, f| f.duration_us.count > 0);
    report.metrics.throughput.retain(|_, t| t.count > 0);
    infer::blank(&mut report, &missing);
    (report, missing)
}

/// Names of a recording's marks; those that have none are numbered.
pub fn marks(recording: &Recording) -> Vec<String> {
    let told = recording.marks.iter().cloned();
    told.chain((0..64).map(|i| format!("mark{i}")).skip(recording.marks.len())).collect()
}

/// How long the workload of a recording is run: as long as that was, or, where it ends by itself, at most several times longer.
pub fn length(workload: &Workload, recording: &Recording) -> Ns {
    const SLOWER: u64 = 10;
    let recorded = recording.end.0.max(1);
    Ns(if workload.ends_by_itself() { recorded.saturating_mul(SLOWER) } else { recorded })
}

/// Reports of a spec with each of the seeds, on all cores, until `stop` is set.
pub fn replay_seeds(spec: &RunSpec, seeds: &[u64], stop: &AtomicBool) -> Result<Vec<RunReport>, Error> {
    let one = |&seed: &u64| Ok(run_until(&RunSpec { seed, ..spec.clone() }, stop)?.report);
    seeds.par_iter().map(one).collect()
}

/// One figure of the self-check.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// Which.
    pub figure: String,
    /// Its unit.
    pub unit: &'static str,
    /// In the recording.
    pub recorded: f64,
    /// Simulated under the recorded kernel's profile: mean over seeds.
    pub simulated: f64,
    /// 95 % interval of it.
    pub ci95: Option<[f64; 2]>,
    /// How far apart two such figures may be and still count as reproduced.
    pub tolerance: f64,
    /// They are not farther apart.
    pub ok: bool,
}

/// Compares what can be compared.
pub fn self_check(
    recorded: &RunReport,
    simulated: &[RunReport],
    missing: &[Missing],
    platform: &Platform,
    ends_by_itself: bool,
) -> Vec<Check> {
    let mut checks = Vec::new();
    let none = |of: &[Figures]| missing.iter().any(|m| !m.derived && m.cpus.is_empty() && of.contains(&m.figures));
    let mut add = |figure: String, unit, tolerance: fn(f64) -> f64, of: &dyn Fn(&RunReport) -> Option<f64>| {
        let values: Vec<f64> = simulated.iter().filter_map(of).collect();
        let Some(recorded) = of(recorded).filter(|_| !values.is_empty()) else { return };
        let (simulated, tolerance) = (mean(&values), tolerance(recorded));
        let ok = (simulated - recorded).abs() <= tolerance;
        checks.push(Check { figure, unit, recorded, simulated, ci95: bca_mean(&values), tolerance, ok });
    };
    if !none(&[Figures::Runs, Figures::WakeupLatency]) {
        for name in ["mean", "p50", "p90", "p99"] {
            let metric = format!("wakeup_latency_us.{name}");
            add(metric.clone(), "µs", |r| (0.15 * r).max(2.0), &|r| r.metric(&metric, None));
        }
    }
    if !none(&[Figures::Runs, Figures::CpuShares]) {
        let mut tasks: Vec<_> = recorded.by_task.iter().filter(|g| g.workload && g.cpu_share > 0.005).collect();
        tasks.sort_by(|a, b| b.cpu_share.total_cmp(&a.cpu_share).then(a.task.cmp(&b.task)));
        for g in tasks.iter().take(8) {
            let share =
                |r: &RunReport| r.by_task.iter().find(|x| x.task == g.task && x.workload).map(|x| 100.0 * x.cpu_share);
            add(format!("CPU share of {}", g.task), "%", |r| (0.05 * r).max(1.0), &share);
        }
    }
    if ends_by_itself {
        add("duration_s".into(), "s", |r| 0.05 * r, &|r| Some(r.metrics.duration_s));
    }
    // What is taken in place of events says nothing of the simulation.
    let without = |of: Figures| missing.iter().filter(move |m| !m.cpus.is_empty() && m.figures == of);
    if !none(&[Figures::Frequencies]) {
        let told = |d: &usize| without(Figures::Frequencies).all(|m| m.cpus.to_string() != recorded.domains[*d].cpus);
        for d in (0..recorded.domains.len()).filter(told) {
            let mhz = |r: &RunReport| {
                let d = r.domains.get(d)?;
                let total: f64 = d.freq_residency.iter().map(|f| f.s).sum();
                let sum: f64 = d.freq_residency.iter().map(|f| f.s * f64::from(f.khz) / 1e3).sum();
                (total > 0.0).then_some(sum / total)
            };
            add(format!("mean frequency of CPUs {}", recorded.domains[d].cpus), "MHz", |r| 0.1 * r, &mhz);
        }
    }
    if !none(&[Figures::Idle, Figures::Residencies]) {
        let told = |c: &&CpuReport| without(Figures::Residencies).all(|m| !m.cpus.contains(CpuId(c.cpu)));
        let cpus = recorded.cpus.iter().filter(told);
        let names: BTreeSet<&str> = cpus.flat_map(|c| &c.idle).map(|i| i.name.as_str()).collect();
        for name in names {
            let share = |r: &RunReport| {
                let all = r.cpus.len() as f64 * r.metrics.duration_s;
                let s: f64 =
                    r.cpus.iter().flat_map(|c| &c.idle).filter(|i| i.name == name).map(|i| i.residency_s).sum();
                (all > 0.0).then_some(100.0 * s / all)
            };
            add(format!("residency of {name}"), "%", |r| (0.15 * r).clamp(1.0, 5.0), &share);
        }
    }
    // Energy is what clocks and residencies add up to; without the events of some CPU there is none to compare with.
    if !missing.iter().any(|m| matches!(m.figures, Figures::Frequencies | Figures::Idle | Figures::Residencies)) {
        add("energy.total".into(), unit_on("energy.total", platform), |r| 0.1 * r, &|r| r.metric("energy.total", None));
    }
    checks
}

/// What to say where a difference between kernels is smaller than that between the recording and its own simulation.
pub fn below_error(checks: &[Check], comparison: &Comparison) -> Vec<String> {
    let error = |c: &Check| (c.simulated / c.recorded - 1.0).abs();
    let told = |c: &Check| {
        let row = comparison.metrics.iter().find(|row| row.name == c.figure)?;
        let error = Some(error(c)).filter(|e| !c.ok && e.is_finite())?;
        let largest = row.ratio_to_first.iter().filter_map(|r| Some((r.value? - 1.0).abs())).fold(0.0, f64::max);
        let [error, largest] = [error, largest].map(|x| 100.0 * x);
        (largest > 0.0 && largest < error).then(|| {
            format!(
                "{}: the kernels differ by {largest:.1} %, the recording and its own simulation by {error:.1} %; its interval does not hold that",
                c.figure
            )
        })
    };
    checks.iter().filter_map(told).collect()
}

/// What to say where the simulation of a recording leaves out much of its work: a thread whose wake-up never comes, and whoever
/// waits for it, stands still until the end, and every figure beside it is of an idler machine.
pub fn stands_still(recorded: &RunReport, simulated: &[RunReport]) -> Option<String> {
    /// Less of all work is told.
    const ENOUGH: f64 = 0.8;
    /// Who does less of its own work stands still.
    const HALF: f64 = 0.5;
    /// A task with so much of all work is told although the others do theirs.
    const LARGE: f64 = 0.05;
    const TOLD: usize = 8;
    let work = |r: &RunReport, task: Option<&str>| -> f64 {
        let of = r.by_task.iter().filter(|g| g.workload && task.is_none_or(|task| g.task == task));
        of.map(|g| g.work_s).sum()
    };
    let share = |task: Option<&str>| {
        let again: Vec<f64> = simulated.iter().map(|r| work(r, task)).collect();
        mean(&again) / work(recorded, task)
    };
    let all = work(recorded, None);
    if simulated.is_empty() || all <= 0.0 {
        return None;
    }
    let of_all = |g: &GroupReport| g.work_s / all;
    let mut still: Vec<_> = recorded.by_task.iter().filter(|g| g.workload && g.work_s > 0.0).collect();
    still.retain(|g| share(Some(&g.task)) < HALF);
    still.sort_by(|a, b| b.work_s.total_cmp(&a.work_s).then(a.task.cmp(&b.task)));
    let whole = share(None);
    if whole >= ENOUGH && still.iter().all(|g| of_all(g) < LARGE) {
        return None;
    }
    let pct = |x: f64| format!("{:.0} %", 100.0 * x);
    let names = still.iter().take(TOLD).map(|g| format!("{} ({} of its work)", g.task, pct(share(Some(&g.task)))));
    let names = names.chain((still.len() > TOLD).then(|| format!("{} more", still.len() - TOLD)));
    let who = match names.collect::<Vec<_>>().join(", ") {
        names if names.is_empty() => String::new(),
        names => format!(": some stood still, waiting for what the trace does not show: {names}"),
    };
    Some(format!("the simulation does {} of the recorded work, so trust what follows only as far{who}", pct(whole)))
}

/// What to say where the profile that a release is taken for is of another one.
pub(crate) fn other_release(release: &str, profile: &str) -> Option<String> {
    let why = match why(release, profile) {
        Some(why) => format!(", as {why}"),
        None if release.contains("android") == profile.starts_with("android-") => return None,
        None => String::new(),
    };
    Some(format!("there is no profile of the recorded kernel, {release}: {profile} is taken{why} (--recorded-kernel)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_have_their_names() {
        use wattif_model::trace::{Event, Record, Recorded};
        use wattif_model::{CpuId, Ns, Pid};
        let event = Recorded::Event(Event::Mark { pid: Pid(1), mark: 0, began_ns: 0 });
        let records = vec![Record { at: Ns(5_000), cpu: CpuId(0), current: Some(Pid(1)), event }];
        let recording =
            Recording { nr_cpus: 1, marks: vec!["request".into()], records, end: Ns(9_000), ..Recording::default() };
        let (report, _) = analyse(&recording, &infer::platform(&recording), false);
        assert_eq!(Vec::from_iter(report.metrics.frames.keys()), ["request"]);
    }

    /// A clock that the platform does not have is read as it was recorded, and so is the work done at it; the self-check shows both.
    #[test]
    fn a_frequency_that_the_platform_does_not_have() {
        use wattif_model::platform::Opp;
        use wattif_model::trace::{Event, PrevState, Record, Recorded};
        use wattif_model::{CpuId, Ns, Pid};
        let switch = |prev, next| {
            let (prev_pid, next_pid, prev_state) = (Pid(prev), Pid(next), PrevState::Sleeping);
            Recorded::Event(Event::SchedSwitch { prev_pid, prev_prio: 120, prev_state, next_pid, next_prio: 120 })
        };
        let events = [
            (0, Recorded::CpuFrequency { cpu: CpuId(0), khz: 2_400_000 }),
            (0, switch(0, 7)),
            (100, switch(7, 0)),
            (200, switch(0, 7)),
        ];
        let record = |(ms, event)| Record { at: Ns::from_ms(ms), cpu: CpuId(0), current: None, event };
        let records = events.into_iter().map(record).collect();
        let recording = Recording { nr_cpus: 1, records, end: Ns::from_ms(200), ..Recording::default() };
        let mut platform = infer::platform(&recording);
        let opp = |khz, capacity| Opp { khz, capacity, uv: None };
        platform.domains[0].opps = vec![opp(400_000, 81), opp(5_000_000, 1024)];
        let (report, missing) = analyse(&recording, &platform, true);
        let work = report.by_task[0].work_s;
        assert!((work - 0.1 * 2.4 / 5.0).abs() < 0.001, "{work}");
        let said = missing.iter().filter(|m| m.figures == Figures::Frequencies).map(|m| m.why.as_ref());
        let no_such = "recorded has no such frequencies of CPUs 0: 2400 MHz (1 event); read as recorded, with powers between those it \
            has, and not simulated";
        assert_eq!(said.collect::<Vec<_>>(), [no_such]);
        let mut slower = report.clone();
        slower.domains[0].freq_residency.iter_mut().for_each(|f| f.khz = 400_000);
        let checks = self_check(&report, &[slower], &missing, &platform, false);
        let mhz = checks.iter().find(|c| c.unit == "MHz").unwrap();
        assert_eq!((mhz.recorded, mhz.simulated, mhz.ok), (2_400.0, 400.0, false));
    }

    /// Figures of groups that the file tells of, as of a run; of numbers alone there are none, which is said.
    #[test]
    fn groups_have_their_figures() {
        use wattif_model::trace::{Event, PrevState, Record, Recorded, RecordedThread};
        use wattif_model::workload::GroupSpec;
        use wattif_model::{CpuId, Ns, Pid};
        let switch = |prev, next| Event::SchedSwitch {
            prev_pid: Pid(prev),
            prev_prio: 120,
            prev_state: PrevState::Sleeping,
            next_pid: Pid(next),
            next_prio: 120,
        };
        let events = [
            (1, switch(0, 7)),
            (3, Event::CfsPeriod { group: 1, periods: 2, throttled: true, burst_ns: 0 }),
            (5, switch(7, 0)),
        ];
        let record = |(ms, event)| {
            let (at, event) = (Ns::from_ms(ms), Recorded::Event(event));
            Record { at, cpu: CpuId(0), current: None, event }
        };
        let mut recording = Recording {
            nr_cpus: 1,
            records: events.map(record).into(),
            end: Ns::from_ms(10),
            groups: ["/", "/app"].map(GroupSpec::named).into(),
            ..Recording::default()
        };
        recording.threads.insert(7, RecordedThread { group: 1, ..RecordedThread::default() });
        let of = |recording: &Recording| {
            let (report, missing) = analyse(recording, &infer::platform(recording), false);
            (report.groups, missing.iter().any(|m| m.figures == Figures::Groups))
        };
        let (groups, missing) = of(&recording);
        assert_eq!((groups.len(), groups[0].path.as_str(), groups[0].nr_throttled, missing), (1, "/app", 2, false));
        assert!((groups[0].cpu_share - 0.4).abs() < 1e-9, "{groups:?}");
        let mut limited = recording.clone();
        limited.groups[1].quota = Some(Ns::from_ms(5));
        assert!(!of(&limited).1);
        limited.records.remove(1);
        assert_eq!(of(&limited), (vec![], true), "Perfetto has no such event");
        recording.groups.clear();
        assert_eq!(of(&recording), (vec![], true));
    }

    /// CPUs 2 and 3 are of a domain of their own, sleep in a state of their own, and have no event.
    #[test]
    fn what_no_event_tells_is_not_judged() {
        use wattif_lab::metrics::{DomainReport, FreqResidency, IdleReport};
        let state =
            |cpu: u32, name: &str| IdleReport { name: name.into(), residency_s: f64::from(cpu), ..Default::default() };
        let cpu = |cpu| CpuReport {
            cpu,
            idle: vec![state(cpu, "wfi"), state(cpu, if cpu < 2 { "off" } else { "big" })],
            ..Default::default()
        };
        let domain = |cpus: &str| DomainReport {
            cpus: cpus.into(),
            freq_residency: vec![FreqResidency { khz: 1_000, s: 1.0 }],
            transitions: 0,
            ramp_up_ms: None,
            ramp_down_ms: None,
        };
        let mut report = RunReport {
            cpus: (0..4).map(cpu).collect(),
            domains: ["0-1", "2-3"].map(domain).into(),
            ..Default::default()
        };
        report.metrics.duration_s = 10.0;
        let missing = |figures, why: &str, cpus: &[u32]| Missing {
            figures,
            why: String::from(why).into(),
            derived: true,
            cpus: cpus.iter().map(|c| CpuId(*c)).collect(),
        };
        let judged = |missing: &[Missing]| {
            let platform = infer::platform(&Recording::default());
            let all = self_check(&report, std::slice::from_ref(&report), missing, &platform, false)
                .into_iter()
                .map(|c| c.figure);
            all.filter(|f| f.contains("frequency") || f.contains("residency")).collect::<Vec<_>>()
        };
        let all = [
            "mean frequency of CPUs 0-1",
            "mean frequency of CPUs 2-3",
            "residency of big",
            "residency of off",
            "residency of wfi",
        ];
        let some = [missing(Figures::Frequencies, "of some", &[]), missing(Figures::Residencies, "of some", &[])];
        assert_eq!(judged(&some), all);
        let silent = [missing(Figures::Frequencies, "none", &[2, 3]), missing(Figures::Residencies, "none", &[2, 3])];
        assert_eq!(judged(&silent), [all[0], all[3], all[4]]);
        assert_eq!(judged(&[missing(Figures::Residencies, "none", &[3])]), all, "CPU 2 has events");
    }

    /// 2 ms on CPU 0 until that sleeps, 1 ms on CPU 1.
    #[test]
    fn a_thread_whose_switch_out_is_lost_is_on_one_cpu() {
        let text = "<idle>-0 [000] 1.000000: sched_switch: swapper/0:0 [120] R ==> a:5 [120]\n\
            CPU:0 [LOST 3 EVENTS]\n\
            <idle>-0 [000] 1.002000: cpu_idle: state=1 cpu_id=0\n\
            <idle>-0 [001] 1.010000: sched_switch: swapper/1:0 [120] R ==> a:5 [120]\n\
            a-5 [001] 1.011000: sched_switch: a:5 [120] S ==> swapper/1:0 [120]\n\
            <idle>-0 [001] 1.100000: cpu_idle: state=4294967295 cpu_id=1\n";
        let recording = trace::read(text.as_bytes()).recording.expect("a trace");
        let (report, _) = analyse(&recording, &infer::platform(&recording), false);
        let ran: Vec<_> = report.by_task.iter().map(|g| (g.task.as_str(), g.runtime_s)).collect();
        assert_eq!(ran, [("a", 0.003)]);
    }

    #[test]
    fn what_is_below_the_error_of_the_replay_is_told() {
        use wattif_lab::compare::{Estimate, MetricRow, RatioRow, SCHEMA};
        use wattif_lab::metrics::Better;
        let check = |simulated: f64| Check {
            figure: "energy.total".into(),
            unit: "J",
            recorded: 100.0,
            simulated,
            ci95: None,
            tolerance: 10.0,
            ok: simulated <= 110.0,
        };
        let told = |simulated, value| {
            let ratio_to_first = [Some(1.0), value].map(|value| RatioRow { value, ..RatioRow::default() }).into();
            let row = MetricRow {
                name: "energy.total".into(),
                unit: "J".into(),
                better: Better::Lower,
                neutral: false,
                per_kernel: vec![Estimate::default(); 2],
                ratio_to_first,
            };
            let comparison = Comparison {
                schema: SCHEMA,
                spec: serde_json::Value::Null,
                kernels: ["a", "b"].map(String::from).into(),
                seeds: 1,
                metrics: vec![row],
                deadlock: Vec::new(),
                unfinished: Vec::new(),
            };
            below_error(&[check(simulated)], &comparison).len()
        };
        assert_eq!([told(116.0, Some(1.05)), told(116.0, Some(0.8)), told(109.0, Some(1.05))], [1, 0, 0]);
        assert_eq!([told(116.0, Some(1.0)), told(116.0, None)], [0, 0], "no difference is claimed");
    }

    #[test]
    fn who_stands_still_is_told() {
        let report = |work: [f64; 3]| {
            let group = |(task, work_s): (&str, f64)| GroupReport {
                task: task.into(),
                workload: task != "kworker",
                work_s,
                ..GroupReport::default()
            };
            RunReport {
                by_task: ["app", "helper", "kworker"].into_iter().zip(work).map(group).collect(),
                ..Default::default()
            }
        };
        let recorded = report([8.0, 2.0, 5.0]);
        let told = |app, helper| stands_still(&recorded, &[report([app, helper, 0.0]), report([app, helper, 0.0])]);
        assert_eq!(told(7.9, 1.9), None);
        assert_eq!(told(7.0, 1.2), None, "a tenth less is what the self-check says");
        let both = told(0.8, 0.5).unwrap();
        assert!(both.starts_with("the simulation does 13 % of the recorded work"), "{both}");
        assert!(both.ends_with("app (10 % of its work), helper (25 % of its work)"), "{both}");
        let one = told(8.0, 0.0).unwrap();
        assert!(one.contains("80 %") && one.ends_with(": helper (0 % of its work)"), "{one}");
        assert!(!told(5.0, 1.5).unwrap().contains("stood still"));
        assert_eq!(stands_still(&recorded, &[]), None);
    }

    #[test]
    fn a_profile_of_another_release() {
        assert_eq!(other_release("6.6.30-android15", "android-6.6"), None);
        assert_eq!(other_release("linux-6.6", "linux-6.6"), None);
        let told = |release, profile| other_release(release, profile).unwrap();
        assert!(
            told("4.9.0-19-amd64", "linux-4.10")
                .contains("4.9.0-19-amd64: linux-4.10 is taken, as it holds from 4.4 (--")
        );
        assert!(told("4.14.190", "linux-4.10").contains("linux-4.10 is taken, as it is the last one before it (--"));
        assert!(told("2.6.32", "linux-3.13").contains("linux-3.13 is taken, as there is none before it (--"));
        assert!(told("6.6.30-android15", "linux-6.6").contains("linux-6.6 is taken (--"));
    }
}
