//! A recording as the events of a run, for the same metrics.

use crate::metrics::RunReport;
use std::borrow::Cow;
use std::collections::BTreeMap;
use wattif_model::platform::{Platform, PowerUnit};
use wattif_model::trace::{Event, Observer, PowerLevel, Record, Recorded, Recording, ThreadInfo};
use wattif_model::{ClusterId, CpuId, DomainId, Ns, Pid};

/// Figures a recording cannot give, or gives from something else.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Missing {
    /// What.
    pub figures: &'static str,
    /// Why, by event.
    pub why: &'static str,
    /// Derived from other events instead; otherwise there are none.
    pub derived: bool,
}

/// What `recording` cannot say on `platform`.
pub fn missing(recording: &Recording, platform: &Platform, platform_known: bool) -> Vec<Missing> {
    let counts = recording.counts();
    let has = |name: &str| counts.contains_key(name);
    let mut all = Vec::new();
    let mut say = |when: bool, figures, why, derived| {
        if when {
            all.push(Missing { figures, why, derived });
        }
    };
    let none = !has("sched_switch");
    say(none, "run times, CPU shares, slices, wake-up latency", "no sched_switch events", false);
    let wakeups = has("sched_wakeup");
    say(!none && !has("sched_waking") && wakeups, "wake-up latency", "no sched_waking events: from sched_wakeup", true);
    say(!none && !has("sched_waking") && !wakeups, "wake-up latency", "no sched_waking events", false);
    say(
        !none && !has("sched_migrate_task"),
        "migrations",
        "no sched_migrate_task events: from where threads run",
        true,
    );
    let idle = has("cpu_idle");
    say(!idle, "residencies of idle states, idle accuracy", "no cpu_idle events", false);
    say(idle && !platform_known, "idle accuracy", "the idle states' target residencies are not known (-p)", false);
    let judged = idle && platform_known && !has("cpu_idle_miss");
    say(judged, "idle accuracy", "no cpu_idle_miss events: from the platform's target residencies", true);
    let frequency = has("cpu_frequency");
    say(!frequency, "frequencies", "no cpu_frequency events", false);
    let power = platform.power.unit != PowerUnit::Unknown;
    say(!power, "energy", "the platform has no powers (-p)", false);
    say(power && !(idle && frequency), "energy", "no cpu_idle or cpu_frequency events", false);
    say(!has("wattif_rtapp_stats"), "wu_lat (rt-app's own log)", "no program events in the trace", false);
    all
}

/// Takes out of a report what the recording cannot say.
pub fn blank(report: &mut RunReport, missing: &[Missing]) {
    for m in missing.iter().filter(|m| !m.derived) {
        match m.figures {
            "energy" => {
                report.metrics.energy = None;
                report.metrics.power_mean = None;
                report.cpus.iter_mut().for_each(|c| c.energy = None);
            }
            "frequencies" => report.domains.clear(),
            "idle accuracy" => {
                report.metrics.idle_accuracy = None;
                report.cpus.iter_mut().flat_map(|c| &mut c.idle).for_each(|s| (s.above, s.below) = (0, 0));
            }
            f if f.starts_with("residencies") => {
                report.metrics.idle_accuracy = None;
                report.metrics.idle_wakeups = None;
                report.metrics.oracle = None;
                report.cpus.clear();
            }
            f if f.starts_with("run times") => {
                (report.metrics.slices, report.metrics.migrations) = (0, 0);
                report.metrics.wakeup_latency_us = Default::default();
                report.tasks.clear();
                report.by_task.clear();
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
            Some(&Event::SchedWakeup { pid, prio, target_cpu }) if waking => {
                let in_irq = r.current == Some(Pid(0));
                add(Event::SchedWaking { pid, prio, target_cpu, in_irq });
            }
            Some(&Event::SchedSwitch { next_pid, next_prio, .. }) if moves && next_pid.0 != 0 => {
                if let Some(orig_cpu) = last.insert(next_pid, r.cpu).filter(|c| *c != r.cpu) {
                    add(Event::SchedMigrateTask { pid: next_pid, prio: next_prio, orig_cpu, dest_cpu: r.cpu });
                }
            }
            _ => {}
        }
        whole.records.push(*r);
    }
    Cow::Owned(whole)
}

/// Kernel threads and recorders, by name; what our own files say counts more.
pub fn housekeeping(recording: &Recording, pid: Pid) -> bool {
    const PREFIXES: [&str; 22] = [
        "kworker",
        "ksoftirqd",
        "migration/",
        "rcu",
        "kswapd",
        "kthreadd",
        "watchdog",
        "cpuhp/",
        "irq/",
        "jbd2",
        "mmcqd",
        "trace-cmd",
        "perf",
        "traced",
        "atrace",
        "kcompactd",
        "khungtaskd",
        "khugepaged",
        "oom_reaper",
        "sugov:",
        "swapper",
        "idle_inject",
    ];
    match recording.threads.get(&pid.0) {
        Some(t) if t.policy.is_some() => t.housekeeping,
        Some(t) => PREFIXES.iter().any(|p| t.comm.starts_with(p)),
        None => false,
    }
}

/// Threads that events name, with a priority they had.
pub(super) fn seen(recording: &Recording) -> BTreeMap<Pid, u8> {
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
    all.remove(&Pid(0));
    all
}

/// The policy that a priority tells of, as far as it does.
fn policy(recording: &Recording, pid: Pid, prio: u8) -> &'static str {
    let told = recording.threads.get(&pid.0).and_then(|t| t.policy);
    told.unwrap_or(if prio < 100 { "SCHED_FIFO" } else { "SCHED_OTHER" })
}

/// Feed a recording to `out` as if `platform` ran it. CPUs beyond the platform are left out.
pub fn play(recording: &Recording, platform: &Platform, out: &mut dyn Observer) {
    let recording = normalised(recording);
    out.start(platform);
    for (pid, prio) in seen(&recording) {
        let comm = recording.comm(pid).to_string();
        out.thread(&ThreadInfo {
            pid,
            task: task(&recording, &comm),
            comm,
            policy: policy(&recording, pid, prio),
            workload: !housekeeping(&recording, pid),
        });
    }
    let mut player = Player::new(platform, !recording.counts().contains_key("cpu_idle_miss"));
    for r in recording.records.iter().filter(|r| r.cpu.at() < platform.nr_cpus()) {
        player.record(r, out);
    }
    out.finish(recording.end);
}

/// Our own files call the threads of a task `task-index`, a forked one `task-index-` and four digits; other files keep their names.
pub(super) fn task(recording: &Recording, comm: &str) -> String {
    let ours = recording.threads.values().any(|t| t.policy.is_some());
    if !ours {
        return comm.into();
    }
    let numbered = |name: &'_ str| {
        name.rsplit_once('-').filter(|(_, n)| n.parse::<u32>().is_ok()).map(|(task, n)| (task.to_string(), n.len()))
    };
    match numbered(comm) {
        Some((forked, 4)) => numbered(&forked).map_or(forked, |(task, _)| task),
        Some((task, _)) => task,
        None => comm.into(),
    }
}

/// What has to be kept to tell frequencies by domain and power levels by cluster.
struct Player<'a> {
    platform: &'a Platform,
    opp: Vec<Option<usize>>,
    idle: Vec<Option<(u32, Ns)>>,
    clusters: Vec<PowerLevel>,
    /// Sleeps are judged here, since the trace does not.
    judge: bool,
}

impl<'a> Player<'a> {
    fn new(platform: &'a Platform, judge: bool) -> Player<'a> {
        Player {
            platform,
            opp: vec![None; platform.domains.len()],
            idle: vec![None; platform.nr_cpus()],
            clusters: vec![PowerLevel::Busy; platform.clusters.len()],
            judge,
        }
    }

    fn record(&mut self, r: &Record, out: &mut dyn Observer) {
        match r.event {
            Recorded::CpuFrequency { cpu, khz } => self.frequency(r.at, cpu, khz, out),
            Recorded::Event(Event::CpuIdle { state }) => self.idle(r, state, out),
            // These name groups and marks of a workload, which a recording does not have.
            Recorded::Event(
                Event::CgroupAttachTask { .. }
                | Event::CfsThrottle { .. }
                | Event::CfsUnthrottle { .. }
                | Event::CfsPeriod { .. },
            ) => {}
            Recorded::Event(event) => out.event(r.at, r.cpu, &event),
            Recorded::Irq { .. } => {}
        }
    }

    fn frequency(&mut self, at: Ns, cpu: CpuId, khz: u32, out: &mut dyn Observer) {
        let Some(c) = self.platform.cpus.get(cpu.at()) else { return };
        let opps = &self.platform.domains[c.domain.at()].opps;
        let nearest = (0..opps.len()).min_by_key(|&i| opps[i].khz.abs_diff(khz)).unwrap_or(0);
        if self.opp[c.domain.at()].replace(nearest) != Some(nearest) {
            let event = Event::CpuFrequency { domain: DomainId(c.domain.0), khz, opp: nearest as u32 };
            out.event(at, cpu, &event);
        }
    }

    fn idle(&mut self, r: &Record, state: u32, out: &mut dyn Observer) {
        // A state the platform does not have is taken as its deepest.
        let deepest = (self.platform.idle_states(r.cpu).len() as u32).saturating_sub(1);
        let state = if state == Event::IDLE_EXIT { state } else { state.min(deepest) };
        out.event(r.at, r.cpu, &Event::CpuIdle { state });
        let before = self.idle[r.cpu.at()].take();
        if state == Event::IDLE_EXIT {
            if let Some((left, since)) = before.filter(|_| self.judge) {
                self.judge(r, left, r.at.since(since), out);
            }
            out.event(r.at, r.cpu, &Event::CpuPower { level: PowerLevel::Busy });
        } else {
            self.idle[r.cpu.at()] = Some((state, r.at));
            out.event(r.at, r.cpu, &Event::CpuPower { level: PowerLevel::Idle(state as u8) });
        }
        self.cluster(r, out);
    }

    /// Too deep when shorter than its target residency; too shallow when long enough for the next state.
    fn judge(&self, r: &Record, state: u32, slept: u64, out: &mut dyn Observer) {
        let states = self.platform.idle_states(r.cpu);
        let residency = |s: u32| states.get(s as usize).map(|s| s.advertised.residency_ns);
        let above = state > 0 && residency(state).is_some_and(|t| slept < t);
        let below = residency(state + 1).is_some_and(|t| slept >= t);
        if above || below {
            out.event(r.at, r.cpu, &Event::CpuIdleMiss { state, below: !above });
        }
    }

    /// A cluster is as awake as the most awake of its CPUs.
    fn cluster(&mut self, r: &Record, out: &mut dyn Observer) {
        let cluster = self.platform.cpus[r.cpu.at()].cluster;
        let shallowest = self.platform.clusters[cluster.at()].cpus.iter().map(|c| self.idle[c.at()].map(|i| i.0)).min();
        let level = match shallowest.flatten() {
            Some(state) => PowerLevel::Idle(state as u8),
            None => PowerLevel::Busy,
        };
        if std::mem::replace(&mut self.clusters[cluster.at()], level) != level {
            out.event(r.at, r.cpu, &Event::ClusterPower { cluster: ClusterId(cluster.0), level });
        }
    }
}
