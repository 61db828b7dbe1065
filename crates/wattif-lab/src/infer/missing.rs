//! What a recording cannot say: figures whose events it does not hold. Some of them are derived from other events, the rest is
//! blanked in its report; either is said with its reason.

use super::idling::{First, firsts, unsaid};
use super::play::who_runs_at_first;
use super::ticks;
use super::unlike::{self, LATE, NAMED};
use crate::metrics::RunReport;
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use wattif_model::platform::{Platform, PowerUnit, Scope};
use wattif_model::trace::{Event, Record, Recording};
use wattif_model::{CpuId, CpuSet, Ns, Pid};

/// Runs that no event tells of are spoken of where they take more than one in so many parts of the trace.
const UNSEEN: u64 = 10;

/// Figures that the same events tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figures {
    /// All that only switches tell.
    Runs,
    /// Moves of threads.
    Migrations,
    /// From `sched_waking` to a thread's run.
    WakeupLatency,
    /// How often threads were woken.
    Activations,
    /// How runnable threads were spread.
    Balance,
    /// What threads ran.
    CpuShares,
    /// Those of groups.
    Groups,
    /// All that only `cpu_idle` tells.
    Idle,
    /// Whether sleeps were of the right state.
    IdleAccuracy,
    /// The states that CPUs sleep in.
    Residencies,
    /// Those of idle periods that no tracepoint of the kernel tells enough for.
    IdlePeriods,
    /// The clocks of domains.
    Frequencies,
    /// CPU time by the clock.
    Work,
    /// Clocks and sleeps by their powers.
    Energy,
    /// What rt-app writes into its own log.
    RtappLog,
    /// What the load balancer did: kernels have no tracepoint for its passes.
    Passes,
}

impl Figures {
    /// Their names in reports.
    pub fn label(self) -> &'static str {
        match self {
            Figures::Runs => "run times, CPU shares, slices, balance, wake-up latency",
            Figures::Migrations => "migrations",
            Figures::WakeupLatency => "wake-up latency",
            Figures::Activations => "activations",
            Figures::Balance => "balance",
            Figures::CpuShares => "CPU shares",
            Figures::Groups => "groups",
            Figures::Idle => "residencies of idle states, idle accuracy",
            Figures::IdleAccuracy => "idle accuracy",
            Figures::Residencies => "residencies of idle states",
            Figures::IdlePeriods => "idle_wakeups, oracle",
            Figures::Frequencies => "frequencies",
            Figures::Work => "work",
            Figures::Energy => "energy",
            Figures::RtappLog => "wu_lat (rt-app's own log)",
            Figures::Passes => "balance.passes, moved, cost_s",
        }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

impl Serialize for Figures {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.label())
    }
}

/// Figures a recording cannot give, or gives from something else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// What.
    pub figures: Figures,
    /// Why, by event.
    pub why: Cow<'static, str>,
    /// Derived from other events instead; otherwise there are none.
    pub derived: bool,
    /// Only of these CPUs, of which the trace has no such event at all; empty: of all, or of some at times.
    #[serde(skip)]
    pub cpus: CpuSet,
}

impl Missing {
    fn of_all(figures: Figures, why: impl Into<Cow<'static, str>>, derived: bool) -> Missing {
        Missing { figures, why: why.into(), derived, cpus: CpuSet::default() }
    }
}

/// What `recording` cannot say on `platform`.
pub fn missing(recording: &Recording, platform: &Platform, platform_known: bool) -> Vec<Missing> {
    let counts = recording.counts();
    let has = |name: &str| counts.contains_key(name);
    let (idle, frequency) = (has("cpu_idle"), has("cpu_frequency"));
    let absent = match (idle, frequency) {
        (false, false) => "no cpu_idle and no cpu_frequency events",
        (false, true) => "no cpu_idle events",
        (true, _) => "no cpu_frequency events",
    };
    let power = platform.power.unit != PowerUnit::Unknown;
    let shared = platform.clusters.iter().flat_map(|c| &c.idle).any(|state| state.scope != Scope::Cpu);
    let periods = recording.records.iter().any(|r| matches!(r.event(), Some(Event::IdlePeriod(_))));
    let mut all = of_scheduling(recording, has);
    all.extend(of_idle(platform_known, has));
    all.extend(of_frequency(has));
    all.extend(those([
        (!power, Figures::Energy, "the platform has no powers (-p)", false),
        (power && !(idle && frequency), Figures::Energy, absent, false),
        (
            power && idle && frequency && shared,
            Figures::Energy,
            if has("sched_waking") { SHARED } else { UNSURE_WHO },
            true,
        ),
        (!periods, Figures::IdlePeriods, "no events of what ended idle periods, and when", false),
        (!has("wattif_rtapp_stats"), Figures::RtappLog, "no program events in the trace", false),
    ]));
    if frequency && !platform_known {
        all.extend(of_untold_clocks(recording, platform, has("sched_switch")));
    }
    all.extend(run_unseen(recording).map(|why| Missing::of_all(Figures::CpuShares, why, true)));
    if frequency {
        let of = |(cpus, why)| Missing { cpus, ..Missing::of_all(Figures::Frequencies, why, true) };
        all.extend(unlike::frequencies(recording, platform).into_iter().map(of));
    }
    if idle {
        let of = |(cpus, why)| Missing { cpus, ..Missing::of_all(Figures::Residencies, why, true) };
        all.extend(untold_sleeps(recording, platform).into_iter().map(of));
    }
    all.extend(no_passes(recording).map(|why| Missing::of_all(Figures::Passes, why, false)));
    all
}

/// Of CPUs that leave a state together.
const UNSURE_WHO: &str = "no sched_waking events: who woke up first of CPUs that leave a state they share is a guess";

/// Of CPUs that sleep together.
const SHARED: &str =
    "when a CPU reaches and leaves a state it shares is inferred: of one CPU it is some percent off, of all much less";

/// Those of these that are: when, which, why, and are they derived?
fn those<const N: usize>(rows: [(bool, Figures, &'static str, bool); N]) -> impl Iterator<Item = Missing> {
    let rows = rows.into_iter().filter(|(when, ..)| *when);
    rows.map(|(_, figures, why, derived)| Missing::of_all(figures, why, derived))
}

/// What there is no event of, for the figures of threads and their groups.
fn of_scheduling(recording: &Recording, has: impl Fn(&str) -> bool) -> Vec<Missing> {
    use Figures::*;
    let (ran, moves) = (has("sched_switch"), has("sched_migrate_task"));
    let (waking, wakeup) = (has("sched_waking"), has("sched_wakeup"));
    let neither = ran && !waking && !wakeup;
    let of_groups = ["cgroup_attach_task", "wattif_cfs_throttle", "wattif_cfs_unthrottle", "wattif_cfs_period"];
    let numbered = recording.groups.is_empty() && of_groups.iter().any(|event| has(event));
    let limited = recording.groups.iter().any(|g| g.quota.is_some());
    let periods = has("wattif_cfs_period");
    those([
        (!ran, Runs, "no sched_switch events", false),
        (!ran && !moves, Migrations, "no sched_migrate_task or sched_switch events", false),
        (ran && !waking && wakeup, WakeupLatency, "no sched_waking events: from sched_wakeup", true),
        (neither, WakeupLatency, "no sched_waking events", false),
        (waking && !wakeup, Activations, "no sched_wakeup events: from sched_waking", true),
        (neither, Activations, "no sched_wakeup events", false),
        (neither, Balance, "no sched_waking or sched_wakeup events: threads count when they run", true),
        (ran && !moves, Migrations, "no sched_migrate_task events: from where threads run", true),
        (numbered, Groups, "groups are in events by their numbers alone, the file does not tell of them", false),
        (limited && !periods, Groups, "groups have limits, and no event tells of their periods", false),
    ])
    .collect()
}

/// What there is no event of, for the figures of idle states.
fn of_idle(platform_known: bool, has: impl Fn(&str) -> bool) -> impl Iterator<Item = Missing> {
    use Figures::*;
    let idle = has("cpu_idle");
    let judged = idle && platform_known && !has("cpu_idle_miss");
    let unknown = idle && !platform_known;
    those([
        (!idle, Idle, "no cpu_idle events", false),
        (unknown, IdleAccuracy, "the idle states' target residencies are not known (-p)", false),
        (judged, IdleAccuracy, "no cpu_idle_miss events: from the platform's target residencies", true),
    ])
}

/// What there is no event of, for the figures of clocks.
fn of_frequency(has: impl Fn(&str) -> bool) -> impl Iterator<Item = Missing> {
    use Figures::*;
    let (ran, frequency) = (has("sched_switch"), has("cpu_frequency"));
    those([
        (!frequency, Frequencies, "no cpu_frequency events", false),
        (ran && !frequency, Work, "no cpu_frequency events: as if at the highest frequency", true),
    ])
}

/// Domains whose clock no event tells, though others' are told.
fn of_untold_clocks(recording: &Recording, platform: &Platform, ran: bool) -> Vec<Missing> {
    let mut all = Vec::new();
    for cpus in unlike::untold(recording, platform) {
        let why = format!("no cpu_frequency events of CPUs {cpus}");
        if ran {
            all.push(Missing::of_all(Figures::Work, format!("{why}: as if at their highest frequency"), true));
        }
        all.push(Missing { cpus, ..Missing::of_all(Figures::Frequencies, why, false) });
    }
    all
}

/// Sleeps that are taken for those of some state, though no event says so; of CPUs without any event, with these.
fn untold_sleeps(recording: &Recording, platform: &Platform) -> Vec<(CpuSet, String)> {
    let some = CpuSet::default;
    let mut all: Vec<(CpuSet, String)> =
        unlike::states(recording, platform).into_iter().map(|why| (some(), why)).collect();
    let firsts = firsts(&recording.records, platform);
    let cpus = |of: &dyn Fn(&First) -> bool| {
        (0..).map(CpuId).zip(&firsts).filter(|(_, f)| of(f)).map(|(cpu, _)| cpu).collect::<CpuSet>()
    };
    let silent = cpus(&|f| f.asleep.is_none());
    if !silent.is_empty() {
        let why = format!("no events of CPUs {silent}: taken as asleep in the state that fits, they may be offline");
        all.push((silent, why));
    }
    let before = cpus(&|f| f.asleep == Some(true) && f.until.0 > recording.end.0 / LATE);
    if !before.is_empty() {
        let why = format!(
            "how CPUs {before} slept before their first event is not in the trace: as in the state that fits that time"
        );
        all.push((some(), why));
    }
    let mut quiet: BTreeMap<CpuId, (u64, u64)> = BTreeMap::new();
    for u in unsaid(&recording.records, &firsts, ticks::length(platform), recording.end) {
        let (all, longest) = quiet.entry(u.cpu).or_default();
        (*all, *longest) = (*all + u.ns(), u.ns().max(*longest));
    }
    quiet.retain(|_, (all, _)| *all > recording.end.0 / LATE);
    if let Some(longest) = quiet.values().map(|(_, longest)| *longest).max() {
        let cpus: CpuSet = quiet.into_keys().collect();
        let why = format!(
            "no events of CPUs {cpus} while they run nothing, for up to {:.3} s: taken as asleep in the state that fits each time, they may be offline",
            Ns(longest).as_s_f64()
        );
        all.push((some(), why));
    }
    let idles = runs_idle(recording);
    let untold: CpuSet = cpus(&|f| f.asleep.is_some() && !f.told).iter_and(&idles).collect();
    if !untold.is_empty() {
        let why = format!(
            "no cpu_idle events of CPUs {untold}: taken as asleep while they run nothing, in the state that fits each time"
        );
        all.push((some(), why));
    }
    all
}

/// CPUs that are taken as running one thread until their first event, where that is late: the trace may just not tell of them before.
fn run_unseen(recording: &Recording) -> Option<String> {
    let mut firsts: BTreeMap<CpuId, Ns> = BTreeMap::new();
    for r in &recording.records {
        firsts.entry(r.cpu).or_insert(r.at);
    }
    let late = |cpu: &CpuId| firsts.get(cpu).filter(|at| at.0 > recording.end.0 / UNSEEN);
    let run: BTreeMap<CpuId, Pid> =
        who_runs_at_first(recording).into_iter().filter(|(cpu, _)| late(cpu).is_some()).collect();
    let last = run.keys().filter_map(late).max()?.as_s_f64();
    let cpus: CpuSet = run.keys().copied().collect();
    let names: BTreeSet<&str> = run.values().map(|pid| recording.comm(*pid)).collect();
    let mut names: Vec<&str> = names.into_iter().collect();
    if names.len() > NAMED {
        names.splice(NAMED.., ["…"]);
    }
    let names = names.join(", ");
    Some(format!("CPUs {cpus} are taken as running {names} until their first events, the last of them at {last:.3} s"))
}

/// CPUs that switch to or from idle.
fn runs_idle(recording: &Recording) -> CpuSet {
    let idle = |r: &&Record| match r.event() {
        Some(Event::SchedSwitch { prev_pid, next_pid, .. }) => prev_pid.0 == 0 || next_pid.0 == 0,
        _ => false,
    };
    recording.records.iter().filter(idle).map(|r| r.cpu).collect()
}

/// Why passes of the balancer are missing, where the recording has none.
fn no_passes(recording: &Recording) -> Option<&'static str> {
    let any = |of: fn(&Event) -> bool| recording.records.iter().filter_map(Record::event).any(of);
    let why = match any(|e| matches!(e, Event::Balance(_))) {
        true => "of the load balancer's passes a trace has only those that found something (wattif_balance)",
        false => "no events of the load balancer's passes",
    };
    (!any(|e| matches!(e, Event::BalancePass(_) | Event::BalanceMoved { .. }))).then_some(why)
}

/// Takes out of a report what the recording cannot say.
pub fn blank(report: &mut RunReport, missing: &[Missing]) {
    for m in missing.iter().filter(|m| !m.derived) {
        match m.figures {
            Figures::Energy => {
                report.metrics.energy = None;
                report.metrics.power_mean = None;
                report.cpus.iter_mut().for_each(|c| c.energy = None);
            }
            Figures::Frequencies if m.cpus.is_empty() => report.domains.clear(),
            Figures::Frequencies => {
                let cpus = m.cpus.to_string();
                report.domains.iter_mut().filter(|d| d.cpus == cpus).for_each(|d| d.freq_residency.clear());
            }
            Figures::IdleAccuracy => {
                report.metrics.idle_accuracy = None;
                report.cpus.iter_mut().flat_map(|c| &mut c.idle).for_each(|s| (s.above, s.below) = (0, 0));
            }
            Figures::Idle | Figures::Residencies => {
                report.metrics.idle_accuracy = None;
                report.cpus.clear();
            }
            Figures::IdlePeriods => (report.metrics.idle_wakeups, report.metrics.oracle) = (None, None),
            Figures::Migrations => report.metrics.migrations = None,
            Figures::Groups => report.groups.clear(),
            Figures::Runs => {
                (report.metrics.slices, report.metrics.balance) = (None, None);
                report.metrics.wakeup_latency_us = Default::default();
                report.tasks.clear();
                report.by_task.clear();
                report.groups.clear();
            }
            Figures::WakeupLatency => report.metrics.wakeup_latency_us = Default::default(),
            Figures::Activations
            | Figures::Balance
            | Figures::CpuShares
            | Figures::Work
            | Figures::RtappLog
            | Figures::Passes => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::metrics::{Metrics, testbed};
    use super::super::play::play;
    use super::super::play::tests::{recording, report};
    use super::*;
    use wattif_model::trace::{BalanceChoice, BalanceKind, PrevState, Recorded};

    fn why(recording: &Recording, figures: Figures) -> Vec<String> {
        let all = missing(recording, &testbed::platform(), true).into_iter();
        all.filter(|m| m.figures == figures).map(|m| m.why.into_owned()).collect()
    }

    #[test]
    fn a_clock_that_nothing_tells_is_not_made_up() {
        let mut r = recording(&[(10, 0, testbed::waking(7)), (90, 3, testbed::idle(0))]);
        r.records[0].event = Recorded::CpuFrequency { cpu: CpuId(3), khz: 1_500_000 };
        let platform = crate::infer::platform(&r);
        let mut metrics = Metrics::for_trace(&platform, &[]);
        play(&r, &platform, &mut metrics);
        let (mut report, all) = (metrics.into_report(), missing(&r, &platform, false));
        let own = |m: &&Missing| !m.derived && !m.cpus.is_empty();
        let said: Vec<&str> = all.iter().filter(own).map(|m| m.why.as_ref()).collect();
        assert_eq!(said, ["no cpu_frequency events of CPUs 0-2"]);
        let work: Vec<_> = all.iter().filter(|m| m.figures == Figures::Work).collect();
        assert!(work.is_empty(), "no thread ran: {work:?}");
        blank(&mut report, &all);
        let told: Vec<(&str, bool)> =
            report.domains.iter().map(|d| (d.cpus.as_str(), !d.freq_residency.is_empty())).collect();
        assert_eq!(told, [("0-2", false), ("3", true)]);
        assert!(
            missing(&r, &testbed::platform(), true).iter().all(|m| m.derived || m.cpus.is_empty()),
            "its clocks are known"
        );
    }

    /// What a recording cannot say is not a number, and is named.
    #[test]
    fn figures_without_their_events() {
        let figures = |r: &Recording| {
            let platform = testbed::platform();
            let (mut report, all) = (report(r), missing(r, &platform, true));
            blank(&mut report, &all);
            let named = |name: &str| {
                all.iter()
                    .filter(|m| m.figures.label().split(", ").any(|f| f == name))
                    .map(|m| m.derived)
                    .collect::<Vec<bool>>()
            };
            let m = report.metrics;
            (m.slices, m.migrations, m.balance.is_some(), ["slices", "migrations", "balance"].map(named))
        };
        let switches =
            [(10, 0, testbed::switch(0, 7, PrevState::Running)), (50, 0, testbed::switch(7, 0, PrevState::Sleeping))];
        let (waking, moved) = (
            (5, 0, testbed::waking(7)),
            (7, 0, Event::SchedMigrateTask { pid: Pid(7), prio: 120, orig_cpu: CpuId(1), dest_cpu: CpuId(0) }),
        );
        let none = Vec::<bool>::new;
        let told = |all: &[(u64, u32, Event)]| figures(&recording(all));
        assert_eq!(told(&[waking]), (None, None, false, [vec![false], vec![false], vec![false]]));
        assert_eq!(told(&[waking, moved]), (None, Some(1), false, [vec![false], none(), vec![false]]));
        assert_eq!(told(&switches), (Some(1), Some(0), true, [none(), vec![true], vec![true]]));
        let all = [waking, moved, switches[0], switches[1]];
        assert_eq!(told(&all), (Some(1), Some(1), true, [none(), none(), none()]));
        for figures in [&recording(&all), &recording(&switches)] {
            let why = why(figures, Figures::IdlePeriods);
            assert_eq!(why, ["no events of what ended idle periods, and when"]);
        }
    }

    /// Work is CPU time weighted by speed: without frequencies it is of another kind, and that is said.
    #[test]
    fn work_without_frequencies() {
        let mut r = recording(&[
            (10, 0, testbed::switch(0, 7, PrevState::Running)),
            (50, 0, testbed::switch(7, 0, PrevState::Sleeping)),
            (60, 0, testbed::waking(7)),
        ]);
        let told = |r: &Recording, platform: &Platform, known| {
            let work = missing(r, platform, known).into_iter().filter(|m| m.figures == Figures::Work);
            work.map(|m| (m.why.into_owned(), m.derived)).collect::<Vec<_>>()
        };
        let platform = testbed::platform();
        assert_eq!(
            told(&r, &platform, true),
            [("no cpu_frequency events: as if at the highest frequency".into(), true)]
        );
        r.records[2].event = Recorded::CpuFrequency { cpu: CpuId(3), khz: 1_500_000 };
        assert!(told(&r, &platform, true).is_empty());
        let some = "no cpu_frequency events of CPUs 0-2: as if at their highest frequency";
        assert_eq!(told(&r, &crate::infer::platform(&r), false), [(some.into(), true)]);
    }

    #[test]
    fn energy_names_the_events_that_are_absent() {
        let with = |idle: bool, frequency: bool| {
            let mut r =
                recording(&[(5, 0, testbed::waking(7)), (6, 0, testbed::waking(7)), (7, 0, testbed::waking(7))]);
            if idle {
                r.records[1].event = Recorded::Event(testbed::idle(0));
            }
            if frequency {
                r.records[2].event = Recorded::CpuFrequency { cpu: CpuId(0), khz: 1_500_000 };
            }
            why(&r, Figures::Energy)
        };
        assert_eq!(with(false, false), ["no cpu_idle and no cpu_frequency events"]);
        assert_eq!(with(false, true), ["no cpu_idle events"]);
        assert_eq!(with(true, false), ["no cpu_frequency events"]);
        assert!(with(true, true).is_empty());
    }

    #[test]
    fn a_cpu_that_runs_unseen() {
        let mut r = recording(&[
            (0, 0, testbed::switch(0, 8, PrevState::Running)),
            (10, 1, testbed::switch(7, 0, PrevState::Sleeping)),
            (500, 2, testbed::switch(7, 0, PrevState::Sleeping)),
            (500, 3, testbed::switch(0, 8, PrevState::Running)),
            (1_000, 1, testbed::switch(0, 7, PrevState::Running)),
        ]);
        r.threads.entry(7).or_default().comm = "app".into();
        let told = "CPUs 2 are taken as running app until their first events, the last of them at 0.000 s";
        assert_eq!(why(&r, Figures::CpuShares), [told]);
        r.records.remove(2);
        assert_eq!(why(&r, Figures::CpuShares), [""; 0]);
    }

    #[test]
    fn cpus_that_are_silent_while_idle() {
        const S: u64 = 1_000_000_000;
        let r = recording(&[
            (0, 0, testbed::switch(7, 0, PrevState::Sleeping)),
            (1, 0, testbed::idle(1)),
            (5, 1, testbed::switch(8, 0, PrevState::Sleeping)),
            (S, 1, testbed::switch(0, 8, PrevState::Running)),
            (S + 1, 1, testbed::switch(8, 0, PrevState::Sleeping)),
            (S + 2, 1, testbed::idle(0)),
        ]);
        let why = why(&r, Figures::Residencies);
        let told = "no events of CPUs 1 while they run nothing, for up to 1.000 s: taken as asleep in the state that fits each time, they may be offline";
        assert!(why.iter().any(|w| w == told), "{why:?}");
        let report = report(&r);
        let cpu = &report.cpus[1];
        assert!(cpu.busy_s < 1e-6 && cpu.idle.iter().all(|s| s.usage == 0), "{cpu:?}");
    }

    #[test]
    fn cpus_without_cpu_idle() {
        let r = recording(&[
            (5, 0, testbed::idle(0)),
            (5, 1, testbed::switch(0, 8, PrevState::Running)),
            (5, 2, testbed::switch(9, 10, PrevState::Running)),
            (9, 1, testbed::switch(8, 0, PrevState::Sleeping)),
            (10, 2, testbed::switch(10, 9, PrevState::Running)),
        ]);
        let why = why(&r, Figures::Residencies);
        let told =
            "no cpu_idle events of CPUs 1: taken as asleep while they run nothing, in the state that fits each time";
        assert!(why.iter().any(|w| w == told) && why.iter().any(|w| w.contains("no events of CPUs 3")), "{why:?}");
    }

    #[test]
    fn activations_without_sched_wakeup() {
        let mut events = vec![
            (10, 0, testbed::waking(7)),
            (20, 0, testbed::switch(0, 7, PrevState::Running)),
            (50, 0, testbed::switch(7, 0, PrevState::Sleeping)),
        ];
        let r = recording(&events);
        assert_eq!(report(&r).tasks[0].activations, 1);
        assert_eq!(why(&r, Figures::Activations), ["no sched_wakeup events: from sched_waking"]);
        events.insert(1, (15, 0, testbed::wakeup(7)));
        let r = recording(&events);
        assert_eq!((report(&r).tasks[0].activations, why(&r, Figures::Activations).len()), (1, 0));
        let r = recording(&events[2..]);
        assert_eq!(why(&r, Figures::Activations), ["no sched_wakeup events"]);
    }

    #[test]
    fn a_cpu_that_slept_before_its_first_event_is_not_busy() {
        let r = recording(&[
            (900, 0, testbed::idle(Event::IDLE_EXIT)),
            (900, 0, testbed::switch(0, 7, PrevState::Running)),
            (950, 0, testbed::switch(7, 0, PrevState::Sleeping)),
            (950, 0, testbed::idle(1)),
            (1_000, 1, testbed::switch(8, 0, PrevState::Sleeping)),
        ]);
        let busy: Vec<u64> = report(&r).cpus.iter().map(|c| (c.busy_s * 1e9).round() as u64).collect();
        assert_eq!(busy, [50, 1_000, 0, 0]);
        let why = why(&r, Figures::Residencies);
        assert!(why[0].contains("no events of CPUs 2-3") && why[1].contains("CPUs 0 slept before"), "{why:?}");
    }

    #[test]
    fn passes_that_no_event_tells_are_not_zero() {
        let figures = |event: Event| {
            let recording = recording(&[(1, 0, event)]);
            let b = report(&recording).metrics.balance.expect("it is there");
            (b.passes, b.moved, b.cost_s.is_some(), why(&recording, Figures::Passes).len())
        };
        assert_eq!(figures(testbed::waking(7)), (None, None, false, 1));
        assert_eq!(figures(Event::BalanceMoved { tasks: 2 }), (Some(0), Some(2), true, 0));
    }

    #[test]
    fn passes_that_found_something_are_told_from_none() {
        let why = |event: Event| why(&recording(&[(1, 0, event)]), Figures::Passes).remove(0);
        let choice =
            BalanceChoice { kind: BalanceKind::NewIdle, dst_cpu: CpuId(0), src_cpu: CpuId(1), moved: 1, imbalance: 1 };
        assert!(why(Event::Balance(choice)).contains("only those that found something (wattif_balance)"));
        assert_eq!(why(testbed::waking(7)), "no events of the load balancer's passes");
    }

    /// It matters where states are shared, and energy is known.
    #[test]
    fn who_woke_up_first_without_sched_waking() {
        let told = |scope, events: &[(u64, u32, Event)]| {
            let mut r = recording(events);
            r.records[0].event = Recorded::CpuFrequency { cpu: CpuId(0), khz: 1_000_000 };
            let mut platform = testbed::platform();
            platform.clusters[0].idle[1].scope = scope;
            platform.power.unit = PowerUnit::Measured;
            let energy = missing(&r, &platform, true).into_iter().find(|m| m.derived && m.figures == Figures::Energy);
            energy.map(|m| m.why.to_string())
        };
        let events = [(5, 0, testbed::idle(0)), (9, 0, testbed::idle(0)), (20, 0, testbed::waking(7))];
        assert_eq!(told(Scope::Cluster, &events[..2]).as_deref(), Some(UNSURE_WHO));
        assert_eq!(told(Scope::Cluster, &events).as_deref(), Some(SHARED), "of one CPU");
        assert_eq!([&events[..2], &events].map(|events| told(Scope::Cpu, events)), [None, None]);
    }
}
