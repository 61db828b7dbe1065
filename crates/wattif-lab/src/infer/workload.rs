//! From a trace to programs: its records are read, the steps of each thread are made even, and programs are made of them.

use super::devices::{self, Devices};
use super::kin::{self, Families, Kinds};
use super::periods;
use super::play::normalised;
use super::programs::{self, programs};
use super::reader::Reader;
use super::steps::{self, Step};
use super::teams::{self, Teams};
use super::thread::Thread;
use super::ticks;
use super::unlike;
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::platform::Platform;
use wattif_model::trace::Recording;
use wattif_model::workload::*;
use wattif_model::{CpuId, Pid};

/// What the inference is told.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Policies of threads that a trace cannot show, by name: `SCHED_IDLE`, `SCHED_BATCH`, `SCHED_RR`.
    pub policies: Vec<(String, Policy)>,
    /// Servers answer as many requests at once as they did, for languages that cannot say "all" (rt-app).
    pub counted: bool,
}

/// A workload made from a trace.
#[derive(Clone, Debug, Default)]
pub struct Inferred {
    /// What ran.
    pub workload: Workload,
    /// What was assumed, and what could not be told.
    pub notes: Vec<String>,
}

/// One interrupt in so many on another CPU than the thread's is a device's.
const DEVICE_OF: usize = 5;
/// Or so many, on one CPU but for one in so many, where that is also true of all that found the thread on another CPU than that: one that
/// serves the device is where its thread often is.
const MIN_ELSEWHERE: usize = 8;

/// What wakes the threads of a family in interrupts.
#[derive(Clone, Debug, Default)]
struct Interrupts {
    /// How often on which CPU: where that was another than the thread's, and where it was the thread's.
    elsewhere: BTreeMap<CpuId, usize>,
    own: BTreeMap<CpuId, usize>,
    threads: u32,
    /// Of these, interrupts come at equal distances.
    even: u32,
}

impl Interrupts {
    fn add(&mut self, t: &Thread, even: bool) {
        for (cpu, elsewhere) in t.irqs.values() {
            *if *elsewhere { &mut self.elsewhere } else { &mut self.own }.entry(*cpu).or_default() += 1;
        }
        self.threads += 1;
        self.even += u32::from(even);
    }

    fn are_a_devices(&self) -> bool {
        let elsewhere: usize = self.elsewhere.values().sum();
        let all = elsewhere + self.own.values().sum::<usize>();
        DEVICE_OF * elsewhere > all || elsewhere >= MIN_ELSEWHERE && self.have_a_cpu(all)
    }

    /// Do they come on one CPU, wherever their threads are, but for one of those in so many that found the thread on another than that?
    fn have_a_cpu(&self, all: usize) -> bool {
        let Some((cpu, n)) = self.elsewhere.iter().max_by_key(|(_, n)| **n) else { return false };
        let apart = all - self.own.get(cpu).copied().unwrap_or(0);
        DEVICE_OF * (apart - n) < apart
    }

    /// May this one be the device's? A thread's own timers end on its CPU, which may be one that serves no device.
    fn may_be_a_devices(&self, irq: Option<&(CpuId, bool)>) -> bool {
        irq.is_none_or(|(cpu, _)| self.elsewhere.contains_key(cpu))
    }

    /// Do they come at equal distances to most of the threads?
    fn keep_time(&self) -> bool {
        2 * self.even > self.threads
    }
}

/// The workload behind a recording on a machine.
pub fn workload(recording: &Recording, platform: &Platform, name: &str, options: &Options) -> Inferred {
    let recording = normalised(recording);
    let given = platform;
    let platform = &*unlike::clocked(&recording, given);
    let mut reader = Reader::read(&recording, platform);
    let kinds = kin::kinds(&reader.threads, super::play::tasks(&recording));
    let families = kin::families(&recording, &reader.threads);
    let found = finish(&mut reader.threads, &recording, platform, &kinds, &families);
    let offline = super::offline::notes(&reader.offline, recording.end);
    let samplers = super::samplers::told(&recording, &reader.samplers);
    let lends = reader.threads.values().any(|t| t.borrows);
    let mut inferred = programs(reader, &recording, (&kinds, &families), found, name, options);
    inferred.workload.pi_enabled = lends && !inferred.workload.mutexes.is_empty();
    inferred.notes.extend(offline);
    inferred.notes.extend(samplers);
    inferred.notes.extend(unlike::frequencies(&recording, given).into_iter().map(|(_, why)| why));
    inferred.notes.extend(unlike::states(&recording, platform));
    inferred
}

/// What the steps of each thread tell of themselves, and of each other. Which of them are teams, and what devices they wait for.
fn finish(
    threads: &mut BTreeMap<Pid, Thread>,
    recording: &Recording,
    platform: &Platform,
    kinds: &Kinds,
    families: &Families,
) -> (Teams, Devices) {
    // Threads that yield to each other look like loops of a clock.
    super::yields::cut(threads, kinds, ticks::length(platform));
    // So do those that share out their work: each does what it can until all are done.
    let teams = teams::share_out(threads, kinds, recording.end.0, || super::ran::ran(recording, platform));
    // Messages of the same work look like rounds of a clock where they are long, and like waits for memory in between.
    let passing = super::channels::members(threads, kinds, recording, platform);
    let mut aside: BTreeMap<Pid, Thread> = passing.iter().filter_map(|pid| threads.remove_entry(pid)).collect();
    super::spins::spin(threads, kinds);
    super::memory::wait(threads, kinds, programs::full_speed(platform));
    threads.append(&mut aside);
    // A thread on the CPU that serves its device looks like one with timers: others of its kind tell. So do they where its interrupts keep
    // time with another's, because they came together.
    let grids: BTreeSet<Pid> =
        threads.iter().filter(|(_, t)| periods::has_grid(&t.steps)).map(|(pid, _)| *pid).collect();
    let mut of_family: BTreeMap<_, Interrupts> = BTreeMap::new();
    for (pid, t) in threads.iter().filter(|(_, t)| !t.irqs.is_empty()) {
        of_family.entry(&families[pid]).or_default().add(t, grids.contains(pid));
    }
    // Waits of one length do not show it any more once they are longer for a queue.
    let devices = devices::share(threads, kinds);
    let longest_ns = super::exits::longest(platform);
    for (pid, t) in threads.iter_mut() {
        let slack = if t.prio >= 100 { platform.timer_slack_ns } else { 0 };
        let irqs = of_family.get(&families[pid]).filter(|irqs| irqs.are_a_devices());
        let mut keeps_time = irqs.map_or(grids.contains(pid), Interrupts::keep_time);
        if let Some(irqs) = irqs.filter(|_| !keeps_time) {
            steps::wait_for_devices(&mut t.steps, slack, |due| irqs.may_be_a_devices(t.irqs.get(&due)));
            keeps_time = periods::has_grid(&t.steps);
        }
        if !keeps_time {
            steps::follow_causes(&mut t.steps, irqs.is_some());
        }
        // Sleeps in the midst of a job are part of it.
        let naps = super::naps::within_periods(&mut t.steps, longest_ns + slack);
        let waits = |s: &Step| s.waits() && !(naps && matches!(s, Step::Sleep { .. }));
        let rests = if naps { None } else { super::rests::rest(&mut t.steps, longest_ns + slack) };
        steps::even_sleeps(&mut t.steps);
        if !naps && rests.is_none() && periods::even_relative_sleeps(&mut t.steps, longest_ns + slack) {
            continue;
        }
        periods::even_expiries(&mut t.steps, longest_ns, waits);
        let birth = t.birth();
        let revealed = periods::reveal(&mut t.steps, birth, waits);
        t.beat = rests.map_or(revealed, |beat| beat.and(revealed));
    }
    kin::always_late(threads, kinds, recording.end.0);
    (teams, devices)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::super::metrics::testbed::{self, switch};
    use super::*;
    use wattif_model::trace::{Event, PrevState, Record, Recorded};
    use wattif_model::{CpuSet, Ns};

    /// Tasks of what happens on one of four CPUs, the last two of double capacity.
    pub(in crate::infer) fn tasks(cpu: u32, events: Vec<(u64, Event)>) -> Vec<TaskSpec> {
        let end = Ns(events.last().map_or(0, |e| e.0) + 1);
        let record = |(at, event)| Record { at: Ns(at), cpu: CpuId(cpu), current: None, event: Recorded::Event(event) };
        let records = events.into_iter().map(record).collect();
        let recording = Recording { nr_cpus: 4, end, records, has_irq_flags: true, ..Recording::default() };
        workload(&recording, &testbed::platform(), "a", &Options::default()).workload.tasks
    }

    #[test]
    fn interrupts_that_come_with_anothers_keep_no_time_of_their_own() {
        let irqs = |elsewhere| (0..10).map(move |n| (n, (CpuId(0), n < elsewhere))).collect();
        let wake = |elsewhere| Thread { irqs: irqs(elsewhere), ..Thread::default() };
        let family = |even: &[bool]| {
            let mut of = Interrupts::default();
            even.iter().for_each(|&even| of.add(&wake(3), even));
            of
        };
        assert!(family(&[false]).are_a_devices());
        assert_eq!(
            [&[true, false][..], &[true], &[true, true, false]].map(|e| family(e).keep_time()),
            [false, true, true]
        );
        let mut timers = Interrupts::default();
        timers.add(&wake(2), true);
        assert!(!timers.are_a_devices());
    }

    #[test]
    fn one_cpu_serves_a_device() {
        // 100 on the thread's own CPU, 0, and 10 that find it on CPU 1, of which so many come there.
        let family = |own: u64| {
            let apart = |n: u64| if n < own { (CpuId(1), false) } else { (CpuId(0), true) };
            let all = (0..100).map(|n| (n, (CpuId(0), false))).chain((0..10).map(|n| (100 + n, apart(n))));
            let mut of = Interrupts::default();
            of.add(&Thread { irqs: all.collect(), ..Thread::default() }, false);
            of.are_a_devices()
        };
        assert_eq!([0, 1, 2, 5].map(family), [true, true, false, false]);
    }

    /// A thread on CPU 2 waits now for what comes on CPU 0, now for what comes on its own; and one that is always on CPU 0 for both.
    #[test]
    fn timers_of_one_who_has_a_device() {
        const MS: u64 = 1_000_000;
        let waits = |own: u32| {
            let turn = |n: u64| {
                let (at, irq) = (10 * MS * n + n * n * 70_000, [0, own][n as usize % 2]);
                [
                    (at, irq, testbed::waking(7)),
                    (at, own, switch(0, 7, PrevState::Running)),
                    (at + MS, own, switch(7, 0, PrevState::Sleeping)),
                    // Another one of its family.
                    (at + 2 * MS, 0, testbed::waking(8)),
                    (at + 2 * MS, 3, switch(0, 8, PrevState::Running)),
                    (at + 3 * MS, 3, switch(8, 0, PrevState::Sleeping)),
                ]
            };
            let record =
                |(at, cpu, event)| Record { at: Ns(at), cpu: CpuId(cpu), current: None, event: Recorded::Event(event) };
            let named = || wattif_model::trace::RecordedThread { comm: "a".into(), ..Default::default() };
            let recording = Recording {
                nr_cpus: 4,
                end: Ns(900 * MS),
                records: (1..40).flat_map(turn).map(record).collect(),
                threads: [(7, named()), (8, named())].into(),
                has_irq_flags: true,
                ..Recording::default()
            };
            let ops = workload(&recording, &testbed::platform(), "a", &Options::default()).workload.tasks.remove(0);
            let n = |f: fn(&Op) -> bool| ops.program.ops.iter().filter(|op| f(op)).count();
            [n(|op| matches!(op, Op::Device { .. })), n(|op| matches!(op, Op::Sleep(_)))]
        };
        let [devices, sleeps] = waits(2);
        assert!(devices.abs_diff(sleeps) <= 2 && sleeps > 15, "{devices}, {sleeps}");
        let [devices, sleeps] = waits(0);
        assert!(devices > 35 && sleeps <= 1, "{devices}, {sleeps}: on the CPU that serves the device it does not show");
    }

    #[test]
    fn cpus_that_are_told() {
        const MS: u64 = 1_000_000;
        // It runs on each of these CPUs for so long, and somewhat more each time, 10 ms apart.
        let runs_unlike = |cpus: &[u32], us: u64, more: u64, told: Option<CpuSet>| {
            let cycle = |(i, cpu): (u64, &u32)| {
                let (at, cpu) = (10 * i * MS, *cpu);
                [
                    (at, cpu, testbed::waking(7)),
                    (at, cpu, switch(0, 7, PrevState::Running)),
                    (at + (us + i * more) * 1_000, cpu, switch(7, 0, PrevState::Sleeping)),
                ]
            };
            let record =
                |(at, cpu, event)| Record { at: Ns(at), cpu: CpuId(cpu), current: None, event: Recorded::Event(event) };
            let records: Vec<Record> = (1..).zip(cpus).flat_map(cycle).map(record).collect();
            let end = Ns(records.last().map_or(0, |r| r.at.0) + MS);
            let thread = wattif_model::trace::RecordedThread { cpus: told, ..Default::default() };
            let recording =
                Recording { nr_cpus: 4, end, records, threads: [(7, thread)].into(), ..Recording::default() };
            let task = workload(&recording, &testbed::platform(), "a", &Options::default()).workload.tasks.remove(0);
            let binds = task.program.ops.iter().position(|op| matches!(op, Op::SetAffinity(_)));
            (task.cpus, binds.map(|at| (at, task.program.ops[at].clone())))
        };
        let runs = |cpus: &[u32], us: u64, told: Option<CpuSet>| runs_unlike(cpus, us, 0, told);
        let (one, all) = (|cpu| CpuSet::one(CpuId(cpu)), CpuSet::first(4));
        assert_eq!(runs(&[1; 9], 900, None), (None, None));
        assert_eq!(runs(&[1; 9], 900, Some(one(1))), (Some(one(1)), None));
        assert_eq!(runs(&[1; 9], 900, Some(CpuSet::first(3))), (Some(CpuSet::first(3)), None), "it need not use all");
        assert_eq!(runs(&[1; 9], 900, Some(all.clone())), (None, None));
        assert_eq!(runs(&[1; 9], 900, Some(one(70))), (None, None), "of a larger machine");
        // It computes on a small CPU, which tells of both small ones where nothing is told.
        assert_eq!(runs(&[0], 400_000, None), (Some(CpuSet::first(2)), None));
        assert_eq!(runs(&[0], 400_000, Some(one(0))), (Some(one(0)), None));
        // It comes to another CPU: somebody gave it more. Who goes round has those that it has in the end.
        assert_eq!(runs(&[1, 1, 1, 2, 1, 2], 900, Some(one(1))), (Some(all.clone()), None));
        let moves = [[1; 10], [2, 1, 2, 1, 2, 1, 2, 1, 2, 1]].concat();
        let (cpus, binds) = runs_unlike(&moves, 900, 200, Some(one(1)));
        let (at, op) = binds.expect("it has more CPUs later");
        assert_eq!((cpus, op), (Some(one(1)), Op::SetAffinity(Some(all))));
        assert!(at > 10, "not before its eleventh job: {at}");
    }

    #[test]
    fn who_is_bound_to_another_cpu_was_launched() {
        const MS: u64 = 1_000_000;
        let begins = |cpus: &[u32], by: u32, at: u64| {
            let waking = Event::SchedWaking { pid: Pid(7), prio: 120, target_cpu: CpuId(2), in_irq: true };
            let events = [
                (at, by, waking),
                (at, 2, switch(0, 7, PrevState::Running)),
                (7 * MS, 2, switch(7, 0, PrevState::Sleeping)),
            ];
            let record =
                |(at, cpu, event)| Record { at: Ns(at), cpu: CpuId(cpu), current: None, event: Recorded::Event(event) };
            let cpus = Some(cpus.iter().map(|cpu| CpuId(*cpu)).collect());
            let thread = wattif_model::trace::RecordedThread { comm: "daemon".into(), cpus, ..Default::default() };
            let recording = Recording {
                nr_cpus: 4,
                end: Ns(8 * MS),
                records: events.map(record).into(),
                threads: [(7, thread)].into(),
                has_irq_flags: true,
                ..Recording::default()
            };
            workload(&recording, &testbed::platform(), "a", &Options::default()).workload.tasks[0].start
        };
        assert_eq!(begins(&[2], 0, MS / 8), Ns(MS / 8));
        assert_eq!(begins(&[2], 2, MS / 8), Ns(0), "a timer of its own");
        assert_eq!(begins(&[0, 1, 2, 3], 0, MS / 8), Ns(0), "it may have been there");
        assert_eq!(begins(&[2], 0, 5 * MS), Ns(0), "a machine starts its threads together");
    }

    #[test]
    fn a_whole_program_ends_by_itself() {
        const MS: u64 = 1_000_000;
        let length = |dies: PrevState, other: bool, tail: u64| {
            let new = |pid| Event::SchedWakeupNew { pid: Pid(pid), prio: 120, target_cpu: CpuId(0) };
            let mut events = vec![
                (MS, new(7)),
                (MS, switch(0, 7, PrevState::Running)),
                (3 * MS, new(8)),
                (40 * MS, switch(7, if other { 8 } else { 0 }, dies)),
            ];
            events.extend(other.then_some((41 * MS, switch(8, 0, PrevState::Sleeping))));
            let record =
                |(at, event)| Record { at: Ns(at), cpu: CpuId(0), current: None, event: Recorded::Event(event) };
            let (end, records) = (Ns(41 * MS + tail), events.into_iter().map(record).collect());
            let mut recording = Recording { nr_cpus: 4, end, records, has_irq_flags: true, ..Recording::default() };
            if !other {
                recording.records.retain(|r| !matches!(r.event(), Some(Event::SchedWakeupNew { pid: Pid(8), .. })));
            }
            workload(&recording, &testbed::platform(), "a", &Options::default()).workload.duration
        };
        assert_eq!(length(PrevState::Dead, false, 0), None);
        assert_eq!(length(PrevState::Sleeping, false, 0), Some(Ns(41 * MS)), "it is not dead");
        assert_eq!(length(PrevState::Dead, true, 0), Some(Ns(41 * MS)), "another one lives on");
        assert_eq!(length(PrevState::Dead, false, 9 * MS), Some(Ns(50 * MS)), "the recording goes on");
    }

    #[test]
    fn who_is_new_is_placed_anew() {
        const MS: u64 = 1_000_000;
        let begins = |first: Event| {
            let events = [
                (MS, first),
                (MS, switch(0, 7, PrevState::Running)),
                (2 * MS, switch(7, 0, PrevState::Sleeping)),
                (3 * MS, testbed::waking(7)),
                (3 * MS, switch(0, 7, PrevState::Running)),
                (4 * MS, switch(7, 0, PrevState::Sleeping)),
            ];
            let task = &tasks(2, events.into())[0];
            (task.prev_cpu, task.prev_util > 0, task.start.0 >= MS)
        };
        let new = Event::SchedWakeupNew { pid: Pid(7), prio: 120, target_cpu: CpuId(2) };
        assert_eq!(begins(new), (None, false, true), "another kernel may take another CPU");
        assert_eq!(begins(testbed::waking(7)), (Some(CpuId(2)), true, false), "it was there before");
    }

    /// A thread with a period of 10 ms, which is preempted for two periods once and then catches up, or never was late.
    #[test]
    fn who_is_late_at_the_end_goes_on() {
        const MS: u64 = 1_000_000;
        let goes_on = |was_late: bool, last: u64| {
            let job = |i: u64, ms: u64| {
                let at = 10 * i * MS;
                [
                    (at, testbed::waking(7)),
                    (at, switch(0, 7, PrevState::Running)),
                    (at + ms * MS, switch(7, 0, PrevState::Sleeping)),
                ]
            };
            let preempted = [
                (150 * MS, testbed::waking(7)),
                (150 * MS, switch(0, 7, PrevState::Running)),
                (152 * MS, switch(7, 8, PrevState::Running)),
                (162 * MS, switch(8, 7, PrevState::Sleeping)),
                (164 * MS, switch(7, 0, PrevState::Sleeping)),
            ];
            let in_time = (1..30).filter(|i| !was_late || !matches!(i, 15 | 16)).flat_map(|i| job(i, 2));
            let late = preempted.into_iter().filter(|_| was_late);
            let mut events: Vec<(u64, Event)> = in_time.chain(late).chain(job(30, last)).collect();
            events.retain(|e| e.0 < 315 * MS);
            events.push((315 * MS, testbed::waking(8)));
            events.sort_by_key(|e| e.0);
            let ops = tasks(0, events).swap_remove(0).program.ops;
            let timer = |op: &Op| if let Op::Timer { absolute, .. } = op { Some(*absolute) } else { None };
            let kinds: BTreeSet<bool> = ops.iter().filter_map(timer).collect();
            assert_eq!(kinds, BTreeSet::from([true]), "who is not named by rt-app catches up");
            let [.., Op::Loop { .. }, Op::Timer { ref period, .. }, Op::Run(_), Op::LoopEnd { .. }, Op::Sleep(_)] =
                ops[..]
            else {
                return None;
            };
            Some(period.clone())
        };
        let beat = Some(Amount::Fixed(10 * MS));
        assert_eq!((goes_on(true, 2), goes_on(true, 20)), (None, beat.clone()));
        assert_eq!((goes_on(false, 2), goes_on(false, 20)), (None, beat));
    }
}
