//! Threads that a limit keeps from running.
//!
//! A fair thread that could go on makes room for another one. Where the CPU goes idle instead, or does so before the thread
//! comes back there, there was nobody to make room for: its group has used up what `cpu.max` gives it for this period. No event of the
//! kernel's tells of limits, so a replay has those alone that the file tells (ours do), and runs the thread at once. That other CPUs
//! were idle as well says nothing of where it may run, nor does its own CPU once it was moved to another's queue. Of a trace that lacks
//! CPUs nothing is known: the thread may run on one of them.
//!
//! Real-time and deadline threads are throttled too; how their classes do that is a simulation's own.

use super::silent;
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::trace::{Event, PrevState, Recording};
use wattif_model::{CpuId, Ns, Pid};

/// The shortest period that `cpu.max` takes.
const SHORT_NS: u64 = 1_000_000;

/// A thread that could go on waited until then, its CPU idle for so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    pub pid: Pid,
    pub until: Ns,
    idle_ns: u64,
}

/// A thread left this CPU although it could go on. How long had that been idle by then, and was it idle at once?
struct Left {
    cpu: CpuId,
    idle_ns: u64,
    at_once: bool,
}

/// All such waits that are long enough.
pub(super) fn waits(recording: &Recording) -> Vec<Wait> {
    if silent::is_partial(recording) {
        return Vec::new();
    }
    let mut left: BTreeMap<Pid, Left> = BTreeMap::new();
    // How long each CPU was idle, and since when it is.
    let mut cpus: BTreeMap<CpuId, (u64, Option<Ns>)> = BTreeMap::new();
    let idle_until = |(ns, since): (u64, Option<Ns>), at: Ns| ns + since.map_or(0, |since| at - since);
    let mut all = Vec::new();
    for r in &recording.records {
        let Some(&Event::SchedSwitch { prev_pid, prev_prio, prev_state, next_pid, .. }) = r.event() else {
            // From now on it is another CPU that has no room.
            if let Some(Event::SchedMigrateTask { pid, .. }) = r.event()
                && left.get(pid).is_some_and(|l| idle_until(cpus[&l.cpu], r.at) - l.idle_ns <= SHORT_NS)
            {
                left.remove(pid);
            }
            continue;
        };
        let here = cpus.entry(r.cpu).or_default();
        let idle_ns = idle_until(*here, r.at);
        *here = (idle_ns, (next_pid.0 == 0).then_some(r.at));
        if let Some(l) = left.remove(&next_pid).filter(|l| l.at_once || l.cpu == r.cpu) {
            all.push(Wait { pid: next_pid, until: r.at, idle_ns: idle_until(cpus[&l.cpu], r.at) - l.idle_ns });
        }
        if prev_state == PrevState::Running && prev_prio >= 100 && prev_pid.0 != 0 {
            left.insert(prev_pid, Left { cpu: r.cpu, idle_ns, at_once: next_pid.0 == 0 });
        }
    }
    let until = recording.end;
    let wait = |(pid, l): (Pid, Left)| Wait { pid, until, idle_ns: idle_until(cpus[&l.cpu], until) - l.idle_ns };
    all.extend(left.into_iter().filter(|(_, l)| l.at_once).map(wait));
    all.retain(|wait| wait.idle_ns > SHORT_NS);
    all
}

/// What to say of those by limits that are not known. A CPU without events may be one that the trace lacks.
pub(super) fn told(recording: &Recording) -> Option<String> {
    if !silent::silent(recording).is_empty() {
        return None;
    }
    let mut waits = waits(recording);
    waits.retain(|wait| !is_limited(recording, wait.pid));
    let threads: BTreeSet<Pid> = waits.iter().map(|wait| wait.pid).collect();
    let idle: u64 = waits.iter().map(|wait| wait.idle_ns).sum();
    (!waits.is_empty()).then(|| {
        format!(
            "{} threads waited while their CPU was idle although they could go on ({} times, {:.1} ms in all): throttled by a limit \
             of their group (cpu.max), which the trace does not tell and a replay does not have",
            threads.len(),
            waits.len(),
            idle as f64 / 1e6
        )
    })
}

/// Does the file tell a limit of its group, or of one above?
fn is_limited(recording: &Recording, pid: Pid) -> bool {
    let group = recording.threads.get(&pid.0).and_then(|t| recording.groups.get(t.group as usize));
    let above = |path: &str, of: &str| {
        path == "/" || of == path || of.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'))
    };
    group.is_some_and(|own| recording.groups.iter().any(|g| g.quota.is_some() && above(&g.path, &own.path)))
}

#[cfg(test)]
mod tests {
    use super::super::super::metrics::testbed;
    use super::super::workload::{Options, workload};
    use super::*;
    use wattif_model::trace::{Record, Recorded, RecordedThread};
    use wattif_model::workload::GroupSpec;

    /// One CPU: at each of these times, ms, one thread makes room for another.
    fn recording(switches: &[(u64, u32, u32, PrevState)]) -> Recording {
        let record = |&(ms, prev, next, state)| Record {
            at: Ns::from_ms(ms),
            cpu: CpuId(0),
            current: None,
            event: Recorded::Event(testbed::switch(prev, next, state)),
        };
        let threads = [7, 8].map(|pid| (pid, RecordedThread::default())).into();
        Recording {
            nr_cpus: 1,
            records: switches.iter().map(record).collect(),
            threads,
            end: Ns::from_ms(200),
            ..Recording::default()
        }
    }
    const LIMITED: &[(u64, u32, u32, PrevState)] = &[
        (1, 0, 7, PrevState::Running),
        (21, 7, 0, PrevState::Running),
        (100, 0, 7, PrevState::Running),
        (120, 7, 0, PrevState::Running),
    ];

    #[test]
    fn a_cpu_that_goes_idle_beside_a_runnable_thread() {
        let said = told(&recording(LIMITED)).unwrap();
        assert!(
            said.starts_with(
                "1 threads waited while their CPU was idle although they could go on (2 times, 159.0 ms in all)"
            ),
            "{said}"
        );
        let inferred = workload(&recording(LIMITED), &testbed::platform(), "limited", &Options::default());
        assert!(inferred.notes.contains(&said), "{:?}", inferred.notes);
        let sleeps = LIMITED.iter().map(|&(ms, prev, next, _)| (ms, prev, next, PrevState::Sleeping));
        assert_eq!(told(&recording(&sleeps.collect::<Vec<_>>())), None);
        let at_once = [LIMITED[0], LIMITED[1], (22, 0, 7, PrevState::Running), (120, 7, 0, PrevState::Sleeping)];
        assert_eq!(told(&recording(&at_once)), None, "not for longer than the shortest period");
        let preempted = [LIMITED[0], (21, 7, 8, PrevState::Running), (100, 8, 7, PrevState::Sleeping)];
        assert_eq!(told(&recording(&preempted)), None);
        // Another CPU's queue is where it waits.
        let mut moved =
            recording(&[LIMITED[0], (21, 7, 8, PrevState::Running), (22, 8, 0, PrevState::Sleeping), LIMITED[2]]);
        assert_eq!(waits(&moved).len(), 1);
        let migrate = Event::SchedMigrateTask { pid: Pid(7), prio: 120, orig_cpu: CpuId(0), dest_cpu: CpuId(1) };
        let at = Ns::from_us(21_500);
        moved.records.insert(2, Record { at, cpu: CpuId(0), current: None, event: Recorded::Event(migrate) });
        assert_eq!(waits(&moved), []);
        // Of two that take turns, one stands for both when the time is used up.
        let turns = [&preempted[..2], &[(25, 8, 0, PrevState::Running), (100, 0, 8, PrevState::Running)]].concat();
        let until =
            |switches: &[_]| waits(&recording(switches)).iter().map(|w| (w.pid.0, w.until.0)).collect::<Vec<_>>();
        assert_eq!(until(&turns), [(8, 100_000_000)]);
        let both = [&turns[..], &[(104, 8, 7, PrevState::Running)]].concat();
        assert_eq!(until(&both), [(8, 100_000_000), (7, 104_000_000)]);
    }

    /// One CPU of several: its threads may run on the others.
    #[test]
    fn a_trace_of_some_cpus() {
        let mut r = recording(LIMITED);
        r.nr_cpus = 3;
        assert_eq!((told(&r), waits(&r).len(), silent::unrecorded(&r)), (None, 2, None), "the others may be offline");
        let migrate = |ms| Record {
            at: Ns::from_ms(ms),
            cpu: CpuId(0),
            current: None,
            event: Recorded::Event(Event::SchedMigrateTask {
                pid: Pid(7),
                prio: 120,
                orig_cpu: CpuId(0),
                dest_cpu: CpuId(2),
            }),
        };
        r.records.push(migrate(195));
        assert_eq!(silent::unrecorded(&r), None, "it has not come there yet");
        r.records.insert(2, migrate(22));
        let said = silent::unrecorded(&r).unwrap();
        assert!(
            said.starts_with("no events of CPUs 1-2, and threads were sent there (1 times): the trace is of some"),
            "{said}"
        );
        assert_eq!((told(&r), waits(&r).len()), (None, 0));
    }

    #[test]
    fn limits_that_are_known_and_other_classes() {
        let mut r = recording(LIMITED);
        r.groups = ["/", "/app", "/app/one", "/apple"].map(GroupSpec::named).into();
        r.threads.get_mut(&7).unwrap().group = 2;
        assert!(told(&r).is_some());
        for (limited, known) in [(1, true), (2, true), (3, false)] {
            let mut r = r.clone();
            r.groups[limited].quota = Some(Ns::from_ms(20));
            assert_eq!(told(&r).is_none(), known, "{limited}");
        }
        let mut r = recording(LIMITED);
        for record in &mut r.records {
            if let Recorded::Event(Event::SchedSwitch { prev_prio, .. }) = &mut record.event {
                *prev_prio = 50;
            }
        }
        assert_eq!(told(&r), None, "the class's own limit");
    }
}
