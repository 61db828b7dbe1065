//! A recording as the events of a run, for the same metrics.

use super::background::background;
use super::idling::{First, Idling, firsts, idling, powers, unsaid};
use super::ticks;
use super::unlike::{self, first_opps, nearest};
use crate::metrics::{IdleAccuracy, RunReport};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::platform::{IdleState, Platform, PowerUnit};
use wattif_model::trace::{Event, Observer, Record, Recorded, Recording, ThreadInfo};
use wattif_model::{CpuId, CpuSet, DomainId, Ns, Pid};

/// Figures a recording cannot give, or gives from something else.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Missing {
    /// What.
    pub figures: &'static str,
    /// Why, by event.
    pub why: Cow<'static, str>,
    /// Derived from other events instead; otherwise there are none.
    pub derived: bool,
    /// Only of these CPUs, of which the trace has no such event at all; empty: of all, or of some at times.
    #[serde(skip)]
    pub cpus: CpuSet,
}

impl Missing {
    fn of_all(figures: &'static str, why: impl Into<Cow<'static, str>>, derived: bool) -> Missing {
        Missing { figures, why: why.into(), derived, cpus: CpuSet::default() }
    }
}

/// Figures of the states that CPUs sleep in.
const RESIDENCIES: &str = "residencies of idle states";
/// Figures of groups.
const GROUPS: &str = "groups";
/// Figures of idle periods that no tracepoint of the kernel tells enough for.
const ENDED: &str = "idle_wakeups, oracle";

/// What `recording` cannot say on `platform`.
pub fn missing(recording: &Recording, platform: &Platform, platform_known: bool) -> Vec<Missing> {
    let counts = recording.counts();
    let has = |name: &str| counts.contains_key(name);
    let mut all = Vec::new();
    let mut say = |when: bool, figures, why: &'static str, derived| {
        if when {
            all.push(Missing::of_all(figures, why, derived));
        }
    };
    let none = !has("sched_switch");
    say(none, "run times, CPU shares, slices, balance, wake-up latency", "no sched_switch events", false);
    let moves = has("sched_migrate_task");
    say(none && !moves, "migrations", "no sched_migrate_task or sched_switch events", false);
    let wakeups = has("sched_wakeup");
    say(!none && !has("sched_waking") && wakeups, "wake-up latency", "no sched_waking events: from sched_wakeup", true);
    say(!none && !has("sched_waking") && !wakeups, "wake-up latency", "no sched_waking events", false);
    say(!wakeups && has("sched_waking"), "activations", "no sched_wakeup events: from sched_waking", true);
    say(!none && !has("sched_waking") && !wakeups, "activations", "no sched_wakeup events", false);
    let woken = has("sched_waking") || wakeups;
    say(!none && !woken, "balance", "no sched_waking or sched_wakeup events: threads count when they run", true);
    say(!none && !moves, "migrations", "no sched_migrate_task events: from where threads run", true);
    let of_groups = ["cgroup_attach_task", "wattif_cfs_throttle", "wattif_cfs_unthrottle", "wattif_cfs_period"];
    let groups = recording.groups.is_empty() && of_groups.iter().any(|event| has(event));
    say(groups, GROUPS, "groups are in events by their numbers alone, the file does not tell of them", false);
    let limited = recording.groups.iter().any(|g| g.quota.is_some());
    say(limited && !has("wattif_cfs_period"), GROUPS, "groups have limits, and no event tells of their periods", false);
    let idle = has("cpu_idle");
    say(!idle, "residencies of idle states, idle accuracy", "no cpu_idle events", false);
    say(idle && !platform_known, "idle accuracy", "the idle states' target residencies are not known (-p)", false);
    let judged = idle && platform_known && !has("cpu_idle_miss");
    say(judged, "idle accuracy", "no cpu_idle_miss events: from the platform's target residencies", true);
    let frequency = has("cpu_frequency");
    say(!frequency, "frequencies", "no cpu_frequency events", false);
    say(!none && !frequency, "work", "no cpu_frequency events: as if at the highest frequency", true);
    let power = platform.power.unit != PowerUnit::Unknown;
    say(!power, "energy", "the platform has no powers (-p)", false);
    let absent = match (idle, frequency) {
        (false, false) => "no cpu_idle and no cpu_frequency events",
        (false, true) => "no cpu_idle events",
        (true, _) => "no cpu_frequency events",
    };
    say(power && !(idle && frequency), "energy", absent, false);
    let periods = recording.records.iter().any(|r| matches!(r.event(), Some(Event::IdlePeriod(_))));
    say(!periods, ENDED, "no events of what ended idle periods, and when", false);
    say(!has("wattif_rtapp_stats"), "wu_lat (rt-app's own log)", "no program events in the trace", false);
    if frequency && !platform_known {
        for cpus in unlike::untold(recording, platform) {
            let why = format!("no cpu_frequency events of CPUs {cpus}");
            if !none {
                all.push(Missing::of_all("work", format!("{why}: as if at their highest frequency"), true));
            }
            all.push(Missing { cpus, ..Missing::of_all("frequencies", why, false) });
        }
    }
    all.extend(run_unseen(recording).into_iter().map(|why| Missing::of_all("CPU shares", why, true)));
    if frequency {
        let mut of = |(cpus, why)| all.push(Missing { cpus, ..Missing::of_all("frequencies", why, true) });
        unlike::frequencies(recording, platform).into_iter().for_each(&mut of);
    }
    let mut taken = |cpus, why: String| all.push(Missing { cpus, ..Missing::of_all(RESIDENCIES, why, true) });
    let some = CpuSet::default;
    if idle {
        unlike::states(recording, platform).into_iter().for_each(|why| taken(some(), why));
        let firsts = firsts(&recording.records, platform);
        let cpus = |of: &dyn Fn(&First) -> bool| {
            (0..).map(CpuId).zip(&firsts).filter(|(_, f)| of(f)).map(|(cpu, _)| cpu).collect::<CpuSet>()
        };
        let silent = cpus(&|f| f.asleep.is_none());
        if !silent.is_empty() {
            let why =
                format!("no events of CPUs {silent}: taken as asleep in the state that fits, they may be offline");
            taken(silent, why);
        }
        let before = cpus(&|f| f.asleep == Some(true) && f.until.0 > recording.end.0 / LATE);
        if !before.is_empty() {
            let why = format!(
                "how CPUs {before} slept before their first event is not in the trace: as in the state that fits that time"
            );
            taken(some(), why);
        }
        let unsaid = unsaid(&recording.records, &firsts, ticks::length(platform), recording.end);
        let mut quiet: BTreeMap<CpuId, (u64, u64)> = BTreeMap::new();
        for u in &unsaid {
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
            taken(some(), why);
        }
        let idles = runs_idle(recording);
        let untold: CpuSet = cpus(&|f| f.asleep.is_some() && !f.told).iter_and(&idles).collect();
        if !untold.is_empty() {
            let why = format!(
                "no cpu_idle events of CPUs {untold}: taken as asleep while they run nothing, in the state that fits each time"
            );
            taken(some(), why);
        }
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

/// Names of threads that are told.
const NAMED: usize = 4;
/// Runs that no event tells of are spoken of where they take more than one in so many parts of the trace.
const UNSEEN: u64 = 10;

/// CPUs that switch to or from idle.
fn runs_idle(recording: &Recording) -> CpuSet {
    let idle = |r: &&Record| match r.event() {
        Some(Event::SchedSwitch { prev_pid, next_pid, .. }) => prev_pid.0 == 0 || next_pid.0 == 0,
        _ => false,
    };
    recording.records.iter().filter(idle).map(|r| r.cpu).collect()
}

/// Sleeps before the first event that take more than one in so many parts of the trace are spoken of.
const LATE: u64 = 100;

/// Takes out of a report what the recording cannot say.
pub fn blank(report: &mut RunReport, missing: &[Missing]) {
    for m in missing.iter().filter(|m| !m.derived) {
        match m.figures {
            "energy" => {
                report.metrics.energy = None;
                report.metrics.power_mean = None;
                report.cpus.iter_mut().for_each(|c| c.energy = None);
            }
            "frequencies" if m.cpus.is_empty() => report.domains.clear(),
            "frequencies" => {
                let cpus = m.cpus.to_string();
                report.domains.iter_mut().filter(|d| d.cpus == cpus).for_each(|d| d.freq_residency.clear());
            }
            "idle accuracy" => {
                report.metrics.idle_accuracy = None;
                report.cpus.iter_mut().flat_map(|c| &mut c.idle).for_each(|s| (s.above, s.below) = (0, 0));
            }
            f if f.starts_with("residencies") => {
                report.metrics.idle_accuracy = None;
                report.cpus.clear();
            }
            ENDED => (report.metrics.idle_wakeups, report.metrics.oracle) = (None, None),
            "migrations" => report.metrics.migrations = None,
            GROUPS => report.groups.clear(),
            f if f.starts_with("run times") => {
                (report.metrics.slices, report.metrics.balance) = (None, None);
                report.metrics.wakeup_latency_us = Default::default();
                report.tasks.clear();
                report.by_task.clear();
                report.groups.clear();
            }
            "wake-up latency" => report.metrics.wakeup_latency_us = Default::default(),
            _ => {}
        }
    }
}

/// With a `sched_waking` for every wake-up and a `sched_migrate_task` for every move, where the recorder left them out.
pub fn normalised(recording: &Recording) -> Cow<'_, Recording> {
    let counts = recording.counts();
    let waking = !counts.contains_key("sched_waking") && counts.contains_key("sched_wakeup");
    let moves = !counts.contains_key("sched_migrate_task") && counts.contains_key("sched_switch");
    if !waking && !moves {
        return Cow::Borrowed(recording);
    }
    let mut whole = recording.clone();
    whole.records = Vec::with_capacity(recording.records.len() * 5 / 4);
    let mut last: BTreeMap<Pid, CpuId> = BTreeMap::new();
    for r in &recording.records {
        let mut add = |event| whole.records.push(Record { event: Recorded::Event(event), ..*r });
        match r.event() {
            Some(&Event::SchedWakeup { pid, prio, target_cpu, in_irq }) if waking => {
                // The flag may be of the target CPU's interrupt, which only queues what a thread elsewhere woke. That thread is not
                // named, and whoever runs here is not it.
                let in_irq = in_irq || r.current == Some(Pid(0));
                add(Event::SchedWaking { pid, prio, target_cpu, in_irq });
            }
            Some(&Event::SchedSwitch { prev_pid, next_pid, next_prio, .. }) if moves => {
                // Who leaves was here, though the trace may not have seen it come.
                last.insert(prev_pid, r.cpu);
                if let Some(orig_cpu) = last.insert(next_pid, r.cpu).filter(|c| *c != r.cpu && next_pid.0 != 0) {
                    add(Event::SchedMigrateTask { pid: next_pid, prio: next_prio, orig_cpu, dest_cpu: r.cpu });
                }
            }
            _ => {}
        }
        whole.records.push(*r);
    }
    Cow::Owned(whole)
}

/// Who is on each CPU before the first event: whom its first switch switches out. A CPU without any switch runs all along whom its
/// records name, where switches are recorded at all and these do not contradict each other.
pub(super) fn who_runs_at_first(recording: &Recording) -> BTreeMap<CpuId, Pid> {
    let mut switched: BTreeMap<CpuId, Pid> = BTreeMap::new();
    let mut current: BTreeMap<CpuId, Option<Pid>> = BTreeMap::new();
    for r in &recording.records {
        match (r.event(), r.current) {
            (Some(Event::SchedSwitch { prev_pid, .. }), _) => _ = switched.entry(r.cpu).or_insert(*prev_pid),
            // These are of the CPU that they name, whoever writes them.
            (Some(Event::CpuIdle { .. } | Event::CpuIdleMiss { .. }), _) | (_, None) => {}
            (_, Some(pid)) => {
                let one = current.entry(r.cpu).or_insert(Some(pid));
                *one = one.filter(|other| *other == pid);
            }
        }
    }
    if !switched.is_empty() {
        for (cpu, pid) in current.into_iter().filter_map(|(cpu, pid)| Some((cpu, pid?))) {
            switched.entry(cpu).or_insert(pid);
        }
    }
    switched.retain(|_, pid| pid.0 != 0);
    switched
}

/// The priority of a thread that no event tells of: nice 0.
const UNTOLD_PRIO: u8 = 120;

/// Threads that events name, and those that run all along, with the priority they had first.
pub fn seen(recording: &Recording) -> BTreeMap<Pid, u8> {
    let mut all = BTreeMap::new();
    for r in &recording.records {
        let mut see = |pid: Pid, prio: u8| {
            all.entry(pid).or_insert(prio);
        };
        match r.event() {
            Some(&Event::SchedSwitch { prev_pid, prev_prio, next_pid, next_prio, .. }) => {
                see(prev_pid, prev_prio);
                see(next_pid, next_prio);
            }
            Some(
                &(Event::SchedWaking { pid, prio, .. }
                | Event::SchedWakeup { pid, prio, .. }
                | Event::SchedWakeupNew { pid, prio, .. }),
            ) => see(pid, prio),
            _ => {}
        }
    }
    who_runs_at_first(recording).into_values().for_each(|pid| _ = all.entry(pid).or_insert(UNTOLD_PRIO));
    all.remove(&Pid(0));
    all
}

/// The policy that a priority tells of, as far as it does.
fn policy(recording: &Recording, pid: Pid, prio: u8) -> &'static str {
    let told = recording.threads.get(&pid.0).and_then(|t| t.policy);
    told.unwrap_or(if prio < 100 { "SCHED_FIFO" } else { "SCHED_OTHER" })
}

/// Sleeps that ended and whose state no event tells, by CPU and by the state they were taken for. Observers hear of them as of others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Untold(BTreeMap<(CpuId, u32), u64>);

impl Untold {
    /// Takes them out of the counts of sleeps: nobody knows whether they were right.
    pub fn take_out(&self, report: &mut RunReport) {
        for (&(cpu, state), n) in &self.0 {
            if let Some(state) = report.cpus.get_mut(cpu.at()).and_then(|c| c.idle.get_mut(state as usize)) {
                state.usage = state.usage.saturating_sub(*n);
            }
        }
        report.metrics.idle_accuracy = IdleAccuracy::of(&report.cpus);
    }
}

/// Feed a recording to `out` as if `platform` ran it. CPUs beyond the platform are left out.
pub fn play(recording: &Recording, platform: &Platform, out: &mut dyn Observer) -> Untold {
    let recording = normalised(recording);
    out.start(platform);
    let (background, task) = (background(&recording), tasks(&recording));
    for (pid, prio) in seen(&recording) {
        let comm = recording.comm(pid).to_string();
        out.thread(&ThreadInfo {
            pid,
            task: task(pid),
            comm,
            policy: policy(&recording, pid, prio),
            workload: !background.contains(&pid),
            group: recording.threads.get(&pid.0).map_or(0, |t| t.group),
            dl: recording.threads.get(&pid.0).and_then(|t| t.dl),
            asked: recording.threads.get(&pid.0).map(|t| t.asked).unwrap_or_default(),
            cpus: recording.threads.get(&pid.0).and_then(|t| t.cpus.clone()),
        });
    }
    let counts = recording.counts();
    let mut player = Player::new(platform, &counts);
    player.groups = !recording.groups.is_empty();
    player.clocks(&recording, out);
    for (cpu, pid) in who_runs_at_first(&recording).into_iter().filter(|(cpu, _)| cpu.at() < platform.nr_cpus()) {
        out.ran_before(cpu, pid);
    }
    let sleeps = idling(&recording.records, platform, recording.end);
    let mut powers = powers(&sleeps, platform).into_iter().peekable();
    let mut sleeps = sleeps.into_iter().peekable();
    while let Some(sleep) = sleeps.next_if(|s| s.record.is_none()) {
        player.idle(&sleep, out);
    }
    for (i, r) in recording.records.iter().enumerate().filter(|(_, r)| r.cpu.at() < platform.nr_cpus()) {
        while let Some((at, cpu, event)) = powers.next_if(|p| p.0 <= r.at) {
            out.event(at, cpu, &event);
        }
        // Idle ends before a thread comes, and begins when the last one has gone.
        let mut begins = None;
        while let Some(change) = sleeps.next_if(|s| s.record == Some(i)) {
            match change.state {
                Event::IDLE_EXIT => player.idle(&change, out),
                _ => begins = Some(change),
            }
        }
        player.record(r, out);
        begins.iter().for_each(|s| player.idle(s, out));
    }
    powers.filter(|p| p.0 <= recording.end).for_each(|(at, cpu, event)| out.event(at, cpu, &event));
    out.finish(recording.end);
    player.untold
}

/// The task of a thread. Our own files call the threads of a task `task-index`, a forked one `task-index-` and four digits; other files
/// keep their names.
pub(super) fn tasks(recording: &Recording) -> impl Fn(Pid) -> String {
    let ours = recording.tells_policies();
    move |pid| if ours { unnumbered(recording.comm(pid)) } else { recording.comm(pid).into() }
}

fn unnumbered(comm: &str) -> String {
    let numbered = |name: &'_ str| {
        name.rsplit_once('-').filter(|(_, n)| n.parse::<u32>().is_ok()).map(|(task, n)| (task.to_string(), n.len()))
    };
    match numbered(comm) {
        Some((forked, 4)) => numbered(&forked).map_or(forked, |(task, _)| task),
        Some((task, _)) => task,
        None => comm.into(),
    }
}

/// What has to be kept to tell frequencies by domain and to judge sleeps.
struct Player<'a> {
    platform: &'a Platform,
    opp: Vec<Option<usize>>,
    /// The sleep of each CPU: its state, since when, is it told?
    idle: Vec<Option<(u32, Ns, bool)>>,
    /// The last sleep of each CPU was one of these.
    unknown: Vec<bool>,
    untold: Untold,
    /// Sleeps are judged here, since the trace does not.
    judge: bool,
    /// Threads that are being woken have been woken: the trace says no more.
    wakes: bool,
    /// The numbers of groups mean something.
    groups: bool,
}

impl<'a> Player<'a> {
    fn new(platform: &'a Platform, counts: &BTreeMap<&str, u64>) -> Player<'a> {
        Player {
            platform,
            opp: vec![None; platform.domains.len()],
            idle: vec![None; platform.nr_cpus()],
            unknown: vec![false; platform.nr_cpus()],
            untold: Untold::default(),
            judge: !counts.contains_key("cpu_idle_miss"),
            wakes: !counts.contains_key("sched_wakeup"),
            groups: false,
        }
    }

    /// The clocks that no event tells.
    fn clocks(&mut self, recording: &Recording, out: &mut dyn Observer) {
        for (d, opp) in
            self.platform.domains.iter().zip(first_opps(recording, self.platform)).filter(|(_, opp)| *opp > 0)
        {
            if let Some(cpu) = d.cpus.min() {
                self.frequency(Ns::ZERO, cpu, d.opps[opp].khz, out);
            }
        }
    }

    fn record(&mut self, r: &Record, out: &mut dyn Observer) {
        match r.event {
            Recorded::CpuFrequency { cpu, khz } => self.frequency(r.at, cpu, khz, out),
            // Told from `Idling`.
            Recorded::Event(Event::CpuIdle { .. }) => {}
            Recorded::Event(Event::CpuIdleMiss { .. }) if self.unknown.get(r.cpu.at()) == Some(&true) => {}
            Recorded::Event(
                Event::CgroupAttachTask { .. }
                | Event::CfsThrottle { .. }
                | Event::CfsUnthrottle { .. }
                | Event::CfsPeriod { .. },
            ) if !self.groups => {}
            Recorded::Event(event) => {
                out.event(r.at, r.cpu, &event);
                if let (Event::SchedWaking { pid, prio, target_cpu, in_irq }, true) = (event, self.wakes) {
                    out.event(r.at, r.cpu, &Event::SchedWakeup { pid, prio, target_cpu, in_irq });
                }
            }
            Recorded::Irq { .. } => {}
        }
    }

    fn frequency(&mut self, at: Ns, cpu: CpuId, khz: u32, out: &mut dyn Observer) {
        let Some(c) = self.platform.cpus.get(cpu.at()) else { return };
        let nearest = nearest(&self.platform.domains[c.domain.at()].opps, khz);
        if self.opp[c.domain.at()].replace(nearest) != Some(nearest) {
            let event = Event::CpuFrequency { domain: DomainId(c.domain.0), khz, opp: nearest as u32 };
            out.event(at, cpu, &event);
        }
    }

    fn idle(&mut self, sleep: &Idling, out: &mut dyn Observer) {
        let &Idling { at, cpu, state, told, .. } = sleep;
        out.event(at, cpu, &Event::CpuIdle { state });
        let before = self.idle[cpu.at()].take();
        self.unknown[cpu.at()] = before.is_some_and(|(.., told)| !told);
        if let Some((left, ..)) = before.filter(|(.., told)| !told) {
            *self.untold.0.entry((cpu, left)).or_default() += 1;
        }
        if state != Event::IDLE_EXIT {
            self.idle[cpu.at()] = Some((state, at, told));
        } else if let Some((left, since, _)) = before.filter(|(.., told)| *told && self.judge) {
            self.judge(sleep, left, at.since(since), out);
        }
    }

    /// As the kernel would have.
    fn judge(&self, end: &Idling, state: u32, slept: u64, out: &mut dyn Observer) {
        if let Some(below) = IdleState::missed(self.platform.idle_states(end.cpu), state as usize, slept) {
            out.event(end.at, end.cpu, &Event::CpuIdleMiss { state, below });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::metrics::{Metrics, testbed};
    use super::*;
    use wattif_model::trace::PrevState;

    fn recording(events: &[(u64, u32, Event)]) -> Recording {
        let record = |&(at, cpu, event): &(u64, u32, Event)| Record {
            at: Ns(at),
            cpu: CpuId(cpu),
            current: None,
            event: Recorded::Event(event),
        };
        let end = events.last().map_or(Ns::ZERO, |e| Ns(e.0));
        Recording { nr_cpus: 4, end, records: events.iter().map(record).collect(), ..Recording::default() }
    }
    fn report(recording: &Recording) -> RunReport {
        let mut metrics = Metrics::for_trace(&testbed::platform(), &[]);
        let untold = play(recording, &testbed::platform(), &mut metrics);
        let mut report = metrics.into_report();
        untold.take_out(&mut report);
        report
    }
    fn why(recording: &Recording, figures: &str) -> Vec<String> {
        let all = missing(recording, &testbed::platform(), true).into_iter();
        all.filter(|m| m.figures == figures).map(|m| m.why.into_owned()).collect()
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
        let why = why(&r, "residencies of idle states");
        assert!(why[0].contains("no events of CPUs 2-3") && why[1].contains("CPUs 0 slept before"), "{why:?}");
    }

    /// A sleep whose state nobody told is neither right nor wrong, whatever the trace says of it afterwards.
    #[test]
    fn sleeps_of_unknown_states_are_not_counted() {
        let with = |told: bool| {
            let mut events = vec![
                (500, 0, testbed::idle(Event::IDLE_EXIT)),
                (500, 0, testbed::switch(0, 7, PrevState::Running)),
                (600, 0, testbed::switch(7, 0, PrevState::Sleeping)),
                (600, 1, testbed::switch(0, 8, PrevState::Running)),
                (700, 1, testbed::switch(8, 0, PrevState::Sleeping)),
                (800, 1, testbed::switch(0, 8, PrevState::Running)),
            ];
            if told {
                events.insert(1, (500, 0, Event::CpuIdleMiss { state: 1, below: false }));
                events.extend([(800, 0, testbed::idle(0)), (801, 0, testbed::idle(Event::IDLE_EXIT))]);
                events.push((802, 0, Event::CpuIdleMiss { state: 0, below: true }));
            }
            let report = report(&recording(&events));
            let of = |cpu: usize| report.cpus[cpu].idle.iter().map(|s| (s.usage, s.above, s.below)).collect::<Vec<_>>();
            let accuracy = report.metrics.idle_accuracy.map(|a| (a.correct_pct, a.below_pct));
            (of(0), of(1), accuracy)
        };
        let none = vec![(0, 0, 0); 2];
        assert_eq!(with(false), (none.clone(), none.clone(), None));
        assert_eq!(with(true), (vec![(1, 0, 1), (0, 0, 0)], none, Some((0.0, 100.0))));
    }

    /// Its CPU has no switch, but all records there name it.
    #[test]
    fn a_thread_that_runs_all_along() {
        let waking = |pid| Event::SchedWaking { pid: Pid(pid), prio: 120, target_cpu: CpuId(1), in_irq: false };
        let mut r = recording(&[
            (10, 0, waking(7)),
            (20, 1, testbed::switch(0, 7, PrevState::Running)),
            (50, 1, testbed::switch(7, 0, PrevState::Sleeping)),
            (90, 0, waking(7)),
            (100, 0, waking(9)),
        ]);
        let hog = |r: &Recording| report(r).tasks.iter().find(|t| t.pid == 5).map(|t| (t.cpu_share, t.work_s > 0.0));
        assert_eq!(hog(&r), None, "nothing says who wrote it");
        r.records.iter_mut().filter(|r| r.cpu == CpuId(0)).for_each(|r| r.current = Some(Pid(5)));
        r.has_irq_flags = true;
        assert_eq!(hog(&r), Some((1.0, true)));
        let inferred = crate::infer::workload(&r, &testbed::platform(), "a", &Default::default());
        assert_eq!(inferred.workload.tasks.len(), 3);
        assert!(
            inferred.notes[0].contains(" 0 waits end by timers and devices, 3 by another thread"),
            "{:?}",
            inferred.notes
        );
        let balance = report(&r).metrics.balance.unwrap();
        assert!(balance.runnable[0] > 1.0, "{balance:?}");
        r.records[3].current = Some(Pid(6));
        assert_eq!(hog(&r), None, "whom to believe?");
        (r.records[3].current, r.records[1].event) = (Some(Pid(5)), Recorded::Irq { enter: true });
        r.records[2].event = Recorded::Irq { enter: true };
        assert_eq!(hog(&r), None, "switches are not recorded");
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
        let work: Vec<_> = all.iter().filter(|m| m.figures == "work").collect();
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

    #[test]
    fn interrupts_without_sched_waking() {
        let mut r = recording(&[(10, 0, testbed::wakeup(7)), (20, 0, testbed::wakeup(7)), (30, 0, testbed::wakeup(7))]);
        for (r, (current, flag)) in r.records.iter_mut().zip([(5, true), (5, false), (0, false)]) {
            let wakeup = Event::SchedWakeup { pid: Pid(7), prio: 120, target_cpu: CpuId(0), in_irq: flag };
            (r.current, r.event) = (Some(Pid(current)), Recorded::Event(wakeup));
        }
        let all = normalised(&r);
        let wakings = all.records.iter().filter(|r| r.event.name() == "sched_waking");
        assert_eq!(wakings.filter_map(|r| Some(r.event()?.in_irq())).collect::<Vec<_>>(), [true, false, true]);
    }

    #[test]
    fn moves_without_sched_migrate_task() {
        let r = recording(&[
            (10, 0, testbed::switch(7, 0, PrevState::Running)),
            (20, 1, testbed::switch(0, 7, PrevState::Running)),
            (30, 1, testbed::switch(7, 0, PrevState::Sleeping)),
            (40, 1, testbed::switch(0, 7, PrevState::Running)),
            (50, 1, testbed::switch(7, 0, PrevState::Sleeping)),
        ]);
        let all = normalised(&r);
        let moves: Vec<Event> = all.records.iter().filter_map(|r| r.event().copied()).collect();
        let moves: Vec<_> = moves.into_iter().filter(|e| e.name() == "sched_migrate_task").collect();
        let first = Event::SchedMigrateTask { pid: Pid(7), prio: 120, orig_cpu: CpuId(0), dest_cpu: CpuId(1) };
        assert_eq!(moves, [first], "it ran when the trace began");
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
                    .filter(|m| m.figures.split(", ").any(|f| f == name))
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
            let why = why(figures, "idle_wakeups, oracle");
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
            let work = missing(r, platform, known).into_iter().filter(|m| m.figures == "work");
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
            why(&r, "energy")
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
        assert_eq!(why(&r, "CPU shares"), [told]);
        r.records.remove(2);
        assert_eq!(why(&r, "CPU shares"), [""; 0]);
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
        let why = why(&r, "residencies of idle states");
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
        let why = why(&r, "residencies of idle states");
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
        assert_eq!(why(&r, "activations"), ["no sched_wakeup events: from sched_waking"]);
        events.insert(1, (15, 0, testbed::wakeup(7)));
        let r = recording(&events);
        assert_eq!((report(&r).tasks[0].activations, why(&r, "activations").len()), (1, 0));
        let r = recording(&events[2..]);
        assert_eq!(why(&r, "activations"), ["no sched_wakeup events"]);
    }
}
