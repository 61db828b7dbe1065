//! Switches that a recorder lost.
//!
//! A CPU switches out a thread that it did not run, as far as the trace shows. So whoever it did run has left it in what is lost, at some
//! time after the last event that names that thread there. It is taken as asleep since that event, until somebody wakes it or it is
//! switched in; what its CPU did up to the switch is nobody's work, and no idle time either. The same of a CPU that switches no more, but
//! goes to sleep, has events of another thread or has its thread run elsewhere. Otherwise such a thread would compute to the end of the
//! trace, and in a replay for ever.

use std::collections::HashMap;
use wattif_model::trace::{Event, Recording};
use wattif_model::{CpuId, Pid};

/// Whom the last switch of a CPU brought.
struct Runs {
    pid: Pid,
    /// The last record that may be of that thread.
    last: usize,
    /// Something has shown since that it runs there no more.
    gone: bool,
}

/// Places among the records: whoever runs on the CPU of such a one leaves after it, by a switch that is lost. In order.
pub(super) fn ends(recording: &Recording) -> Vec<usize> {
    let records = &recording.records;
    let mut cpus: HashMap<CpuId, Runs> = HashMap::new();
    let mut on: HashMap<Pid, CpuId> = HashMap::new();
    let mut ends = Vec::new();
    for (i, r) in records.iter().enumerate() {
        let later = |last: usize| r.at > records[last].at;
        match (r.event(), r.current) {
            (Some(&Event::SchedSwitch { prev_pid, next_pid, .. }), _) => {
                for pid in [prev_pid, next_pid].into_iter().filter(|pid| pid.0 != 0) {
                    let elsewhere = on.insert(pid, r.cpu).filter(|cpu| *cpu != r.cpu);
                    if let Some(runs) = elsewhere.and_then(|cpu| cpus.get_mut(&cpu)).filter(|runs| runs.pid == pid) {
                        runs.gone = true;
                    }
                }
                let before = cpus.insert(r.cpu, Runs { pid: next_pid, last: i, gone: false });
                ends.extend(before.filter(|runs| runs.pid.0 != 0 && runs.pid != prev_pid).map(|runs| runs.last));
            }
            (event, current) => {
                let Some(runs) = cpus.get_mut(&r.cpu) else { continue };
                match (event, current) {
                    // These are of the CPU that they name, whoever writes them; the end of a sleep may come after the switch.
                    (Some(Event::CpuIdle { state: Event::IDLE_EXIT } | Event::CpuIdleMiss { .. }), _) => {}
                    (Some(Event::CpuIdle { .. }), _) => runs.gone |= later(runs.last),
                    (_, Some(pid)) if pid == runs.pid => (runs.last, runs.gone) = (i, false),
                    (_, Some(_)) => runs.gone |= later(runs.last),
                    (_, None) if runs.gone => {}
                    (_, None) => runs.last = i,
                }
            }
        }
    }
    ends.extend(cpus.into_values().filter(|runs| runs.pid.0 != 0 && runs.gone).map(|runs| runs.last));
    ends.sort();
    ends
}

#[cfg(test)]
mod tests {
    use super::super::super::metrics::testbed::{idle, switch, waking};
    use super::*;
    use wattif_model::Ns;
    use wattif_model::trace::{PrevState, Record, Recorded};

    /// Of time, CPU, who runs as the record says, event.
    fn lost(events: &[(u64, u32, Option<u32>, Event)]) -> Vec<usize> {
        let record = |&(at, cpu, current, event): &(u64, u32, Option<u32>, Event)| Record {
            at: Ns(at),
            cpu: CpuId(cpu),
            current: current.map(Pid),
            event: Recorded::Event(event),
        };
        ends(&Recording { nr_cpus: 2, records: events.iter().map(record).collect(), ..Recording::default() })
    }

    #[test]
    fn how_it_left_is_lost() {
        let (comes, sleeps) = (switch(0, 7, PrevState::Running), switch(7, 0, PrevState::Sleeping));
        let other = switch(0, 8, PrevState::Running);
        const NONE: [usize; 0] = [];
        let (irq, it) = ((50, 1, Some(0), waking(8)), (30, 1, Some(7), waking(8)));
        let begin = [(9, 1, Some(0), switch(0, 9, PrevState::Running)), (9, 1, Some(9), switch(9, 0, PrevState::Dead))];
        let with =
            |rest: &[(u64, u32, Option<u32>, Event)]| lost(&[&begin[..], &[(10, 1, Some(0), comes)], rest].concat());
        assert!(with(&[it, (40, 1, Some(7), sleeps), irq, (50, 1, Some(0), other)]).is_empty());
        assert_eq!(with(&[it, irq, (50, 1, Some(0), other)]), [3], "the interrupt is not of its time");
        assert_eq!(with(&[it, irq]), [3], "no switch to the end");
        assert_eq!(with(&[it]), NONE, "it may run to the end");
        assert_eq!(with(&[it, (40, 1, None, waking(8)), (50, 1, None, other)]), [4], "as far as anyone knows");
        assert_eq!(with(&[(40, 1, None, idle(1)), (60, 1, None, waking(8))]), [2]);
        assert_eq!(with(&[(40, 1, None, idle(Event::IDLE_EXIT))]), NONE, "which may come after the switch");
        assert_eq!(with(&[(10, 1, Some(0), waking(8))]), NONE, "of one stamp, they may stand in any order");
        assert_eq!(with(&[irq, (60, 1, Some(7), waking(8))]), NONE, "it is there again");
        let moves = [(40, 0, Some(0), comes), (60, 0, Some(7), sleeps)];
        assert_eq!(with(&[&[it], &moves[..]].concat()), [3], "it leaves another CPU");
        let back = [(70, 1, Some(0), comes), (80, 1, Some(7), sleeps)];
        assert_eq!(with(&[&[it], &moves[..], &back].concat()), [3]);
        assert_eq!(
            lost(&[(40, 1, Some(7), sleeps), (50, 1, Some(9), switch(9, 0, PrevState::Sleeping))]),
            NONE,
            "idle"
        );
    }
}
