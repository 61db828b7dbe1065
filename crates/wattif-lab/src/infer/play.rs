//! A recording as the events of a run, for the same metrics.

use super::background::background;
use super::idling::{Idling, idling, powers};
use super::unlike::{first_opps, nearest};
use crate::metrics::{IdleAccuracy, RunReport};
use std::borrow::Cow;
use std::collections::BTreeMap;
use wattif_model::platform::{IdleState, Platform};
use wattif_model::trace::{Event, Observer, Record, Recorded, Recording, ThreadInfo};
use wattif_model::{CpuId, DomainId, Ns, Pid};

/// The priority of a thread that no event tells of: nice 0.
const UNTOLD_PRIO: u8 = 120;

/// With a `sched_waking` for every wake-up and a `sched_migrate_task` for every move, where the recorder left them out, and causes first.
pub fn normalised(recording: &Recording) -> Cow<'_, Recording> {
    let recording = match causes_first(&recording.records) {
        Some(records) => Cow::Owned(Recording { records, ..recording.clone() }),
        None => Cow::Borrowed(recording),
    };
    let counts = recording.counts();
    let waking = !counts.contains_key("sched_waking") && counts.contains_key("sched_wakeup");
    let moves = !counts.contains_key("sched_migrate_task") && counts.contains_key("sched_switch");
    if !waking && !moves {
        return recording;
    }
    let mut whole = recording.clone().into_owned();
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

/// Events of one time stand in the order of their CPUs, so that a thread may be switched in before it is woken on another one. Then what
/// happens on its CPU from there on goes behind all others of that time. `None`: nothing is to be moved.
fn causes_first(records: &[Record]) -> Option<Vec<Record>> {
    let mut moved: Option<Vec<Record>> = None;
    let mut begin = 0;
    for of_one_time in records.chunk_by(|a, b| a.at == b.at) {
        let end = begin + of_one_time.len();
        for i in 0..of_one_time.len() {
            let now = moved.as_deref().map_or(of_one_time, |all| &all[begin..end]);
            let (here, Some(&Event::SchedSwitch { next_pid, .. })) = (now[i].cpu, now[i].event()) else { continue };
            let wakes = |r: &Record| matches!(r.event(), Some(Event::SchedWaking { pid, .. } | Event::SchedWakeup { pid, .. }) if *pid == next_pid);
            if now[i + 1..].iter().any(|r| r.cpu != here && wakes(r)) {
                let all = moved.get_or_insert_with(|| records.to_vec());
                all[begin + i..end].sort_by_key(|r| r.cpu == here);
            }
        }
        begin = end;
    }
    moved
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
    let moves = recording.counts().contains_key("sched_migrate_task");
    let recording = normalised(recording);
    out.start(platform);
    let (background, task) = (background(&recording), rows(&recording));
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
    let sleeps = idling(&recording.records, moves, platform, recording.end);
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

/// What its figures are counted under: in our own files the kernel's threads of all CPUs, `migration/3` and `kworker/3:1`, are one task as well.
fn rows(recording: &Recording) -> impl Fn(Pid) -> String {
    let (ours, task) = (recording.tells_policies(), tasks(recording));
    move |pid| {
        let (comm, task) = (recording.comm(pid), task(pid));
        match comm.split_once('/') {
            Some((name, cpu)) if ours && comm == task && is_of_cpu(cpu) => name.into(),
            _ => task,
        }
    }
}

/// `3`, or `3:1`: the first worker of CPU 3.
fn is_of_cpu(text: &str) -> bool {
    text.split(':').all(|n| n.parse::<u32>().is_ok())
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
pub(super) mod tests {
    use super::super::super::metrics::{Metrics, testbed};
    use super::*;
    use wattif_model::trace::PrevState;

    pub fn recording(events: &[(u64, u32, Event)]) -> Recording {
        let record = |&(at, cpu, event): &(u64, u32, Event)| Record {
            at: Ns(at),
            cpu: CpuId(cpu),
            current: None,
            event: Recorded::Event(event),
        };
        let end = events.last().map_or(Ns::ZERO, |e| Ns(e.0));
        Recording { nr_cpus: 4, end, records: events.iter().map(record).collect(), ..Recording::default() }
    }
    pub fn report(recording: &Recording) -> RunReport {
        let mut metrics = Metrics::for_trace(&testbed::platform(), &[]);
        let untold = play(recording, &testbed::platform(), &mut metrics);
        let mut report = metrics.into_report();
        untold.take_out(&mut report);
        report
    }

    /// Thread 9 on CPU 1 wakes 7, which comes to CPU 0 at once.
    #[test]
    fn causes_come_first() {
        let waking = Event::SchedWaking { pid: Pid(7), prio: 120, target_cpu: CpuId(0), in_irq: false };
        let events = [
            (500, 1, testbed::switch(0, 9, PrevState::Running)),
            (900, 0, testbed::switch(8, 7, PrevState::Running)),
            (900, 0, testbed::idle(Event::IDLE_EXIT)),
            (900, 1, waking),
            (900, 1, testbed::wakeup(7)),
            (900, 2, testbed::switch(0, 6, PrevState::Running)),
            (950, 0, testbed::switch(7, 8, PrevState::Sleeping)),
        ];
        let cpus = |r: &Recording| normalised(r).records.iter().map(|r| r.cpu.0).collect::<Vec<_>>();
        assert_eq!(cpus(&recording(&events)), [1, 1, 1, 2, 0, 0, 0]);
        let mut later = events;
        (later[3].0, later[4].0, later[5].0) = (901, 901, 901);
        assert_eq!(cpus(&recording(&later)), [1, 0, 0, 1, 1, 2, 0], "stamps are what they are");
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

    /// As the simulator counts them; what a workload calls so keeps its name, and so do all threads of others' traces.
    #[test]
    fn threads_of_the_kernel_that_each_cpu_has() {
        let names = ["migration/0", "migration/17", "kworker/3:1", "kworker/2-16", "app-0", "ksoftirqd/1-rx", "a/b"];
        let of = |policy: Option<&'static str>| {
            let thread =
                |comm: &str| wattif_model::trace::RecordedThread { comm: comm.into(), policy, ..Default::default() };
            let r = Recording { threads: (1..).zip(names.map(thread)).collect(), ..Recording::default() };
            (1..).map(Pid).take(names.len()).map(rows(&r)).collect::<Vec<_>>()
        };
        assert_eq!(
            of(Some("SCHED_FIFO")),
            ["migration", "migration", "kworker", "kworker/2", "app", "ksoftirqd/1-rx", "a/b"]
        );
        assert_eq!(of(None), names);
    }
}
