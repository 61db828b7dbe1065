//! Where do threads leave a CPU by a switch that the recorder lost?
//!
//! A thread is on one CPU at a time. It has left the CPU that it was switched in on when it is switched in or out on another one, when its
//! CPU begins to sleep, or when somebody else writes an event there, unless that CPU switches it out after all: clocks of CPUs may be
//! apart. It left before it was woken, if that was seen. The CPU was busy until then, and that time is the thread's. Without this it would
//! have all the time to the end of the trace, and that of the other CPU too.
//!
//! A CPU that shows nothing of that, and switches out another than it has switched in, tells by that switch whose its time was.
//!
//! [`Leaving`] stands between a recording and its observers, who hear of a switch to idle then. Simulated runs lose nothing.

use super::pids::PidTable;
use wattif_model::platform::Platform;
use wattif_model::trace::{Event, Interest, Observer, PrevState, Recording, ThreadInfo};
use wattif_model::{CpuId, Ns, Pid};

/// Whom the last switch of a CPU brought.
#[derive(Clone, Copy)]
struct Runs {
    pid: Pid,
    prio: u8,
    since: Ns,
    /// Somebody woke it since: while it was still there, or not any more.
    woken: Option<Ns>,
    /// By then it had left.
    gone: Option<Ns>,
}

/// Somebody leaves: when, where, who, with what priority.
type Leave = (Ns, CpuId, Pid, u8);

impl Runs {
    fn leave(&self, cpu: CpuId) -> Option<Leave> {
        Some((self.gone?, cpu, self.pid, self.prio))
    }
}

/// All that no switch tells of, in order of time.
fn leaves(recording: &Recording) -> Vec<Leave> {
    let nr_cpus = recording.records.iter().map(|r| r.cpu.at() + 1).max().unwrap_or(0);
    let mut cpus: Vec<Option<Runs>> = vec![None; nr_cpus];
    let mut on: PidTable<CpuId> = PidTable::default();
    let mut leaves = Vec::new();
    for r in &recording.records {
        match r.event() {
            Some(&Event::SchedSwitch { prev_pid, next_pid, next_prio, .. }) => {
                for pid in [prev_pid, next_pid].into_iter().filter(|pid| pid.0 != 0) {
                    let before = std::mem::replace(on.entry(pid, || r.cpu), r.cpu);
                    let elsewhere = cpus[before.at()].as_mut().filter(|runs| before != r.cpu && runs.pid == pid);
                    if let Some(runs) = elsewhere {
                        // A switch is not before the one that brought it.
                        let at = runs.woken.unwrap_or(r.at).max(Ns(runs.since.0 + 1));
                        runs.gone.get_or_insert(at);
                    }
                }
                let comes = Runs { pid: next_pid, prio: next_prio, since: r.at, woken: None, gone: None };
                let before = std::mem::replace(&mut cpus[r.cpu.at()], Some(comes).filter(|runs| runs.pid.0 != 0));
                leaves.extend(before.filter(|runs| runs.pid != prev_pid).and_then(|runs| runs.leave(r.cpu)));
                continue;
            }
            Some(event @ (Event::SchedWaking { pid, .. } | Event::SchedWakeup { pid, .. })) => {
                let there = on.get(*pid).and_then(|cpu| cpus[cpu.at()].as_mut()).filter(|runs| runs.pid == *pid);
                if let Some(runs) = there {
                    // What comes second tells of the same wake-up.
                    let first = matches!(event, Event::SchedWaking { .. }) || runs.woken.is_none();
                    runs.woken = if first { Some(r.at) } else { runs.woken };
                }
            }
            _ => {}
        }
        let Some(runs) = &mut cpus[r.cpu.at()] else { continue };
        // Of one stamp, events may stand in any order. Those of idle are of the CPU that they name, whoever writes them.
        match r.event() {
            Some(Event::CpuIdle { state: Event::IDLE_EXIT } | Event::CpuIdleMiss { .. }) => {}
            Some(Event::CpuIdle { .. }) if r.at > runs.since => _ = runs.gone.get_or_insert(r.at),
            Some(Event::CpuIdle { .. }) => {}
            _ if r.current == Some(runs.pid) => runs.gone = None,
            _ if r.current.is_some() && r.at > runs.since => _ = runs.gone.get_or_insert(r.at),
            _ => {}
        }
    }
    leaves.extend((0..).map(CpuId).zip(&cpus).filter_map(|(cpu, runs)| runs.as_ref()?.leave(cpu)));
    leaves.sort_by_key(|leave| leave.0);
    leaves
}

/// Tells an observer of a recording where threads leave unseen.
pub struct Leaving<'a> {
    out: &'a mut dyn Observer,
    leaves: std::iter::Peekable<std::vec::IntoIter<Leave>>,
    nr_cpus: usize,
}

impl<'a> Leaving<'a> {
    /// Of `recording`, which is played to it.
    pub fn new(recording: &Recording, out: &'a mut dyn Observer) -> Leaving<'a> {
        Leaving { out, leaves: leaves(recording).into_iter().peekable(), nr_cpus: 0 }
    }

    fn until(&mut self, at: Ns) {
        while let Some((at, cpu, prev_pid, prev_prio)) = self.leaves.next_if(|leave| leave.0 <= at) {
            let (prev_state, next_pid, next_prio) = (PrevState::Sleeping, Pid(0), 120);
            let event = Event::SchedSwitch { prev_pid, prev_prio, prev_state, next_pid, next_prio };
            if cpu.at() < self.nr_cpus {
                self.out.event(at, cpu, &event);
            }
        }
    }
}

impl Observer for Leaving<'_> {
    fn interest(&self) -> Interest {
        self.out.interest()
    }
    fn start(&mut self, platform: &Platform) {
        self.nr_cpus = platform.nr_cpus();
        self.out.start(platform);
    }
    fn thread(&mut self, thread: &ThreadInfo) {
        self.out.thread(thread);
    }
    fn ran_before(&mut self, cpu: CpuId, pid: Pid) {
        self.out.ran_before(cpu, pid);
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        self.until(at);
        self.out.event(at, cpu, event);
    }
    fn finish(&mut self, end: Ns) {
        self.until(end);
        self.out.finish(end);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::*;
    use super::super::{Metrics, RunReport};
    use super::*;
    use crate::infer;
    use PrevState::{Dead, Running, Sleeping};
    use wattif_model::trace::{Record, Recorded};

    /// Time in ms, CPU, who runs as the record says, event.
    type Line = (u64, u32, Option<u32>, Event);

    fn recording(lines: &[Line]) -> Recording {
        let record = |&(at, cpu, current, event): &Line| Record {
            at: Ns(at * 1_000_000),
            cpu: CpuId(cpu),
            current: current.map(Pid),
            event: Recorded::Event(event),
        };
        Recording {
            nr_cpus: 2,
            end: Ns(100_000_000),
            records: lines.iter().map(record).collect(),
            ..Recording::default()
        }
    }
    fn report(lines: &[Line]) -> RunReport {
        let recording = recording(lines);
        let mut metrics = Metrics::for_trace(&platform(), &[]);
        infer::play(&recording, &platform(), &mut Leaving::new(&recording, &mut metrics));
        metrics.into_report()
    }
    /// Thread 5 is switched in on CPU 0 at 10 ms, then this.
    fn left(rest: &[Line]) -> Vec<(u64, u32)> {
        let lines = [&[(10, 0, Some(0), switch(0, 5, Running))], rest].concat();
        leaves(&recording(&lines)).into_iter().map(|(at, cpu, ..)| (at.0 / 1_000_000, cpu.0)).collect()
    }

    #[test]
    fn what_tells_of_it() {
        let elsewhere = [(40, 1, Some(0), switch(0, 5, Running)), (50, 1, Some(5), switch(5, 0, Sleeping))];
        assert_eq!(left(&elsewhere), [(40, 0)]);
        assert_eq!(left(&elsewhere[1..]), [(50, 0)], "it has come there");
        let woken = (30, 1, Some(0), waking(5));
        assert_eq!(left(&[&[woken], &elsewhere[..]].concat()), [(30, 0)]);
        assert_eq!(left(&[(30, 1, None, waking(5)), (31, 1, None, wakeup(5)), elsewhere[0]]), [(30, 0)], "one wake-up");
        assert_eq!(left(&[(30, 1, None, wakeup(5)), elsewhere[0]]), [(30, 0)]);
        assert_eq!(left(&[woken]), [], "it may run on");
        assert_eq!(left(&[woken, (40, 0, Some(5), switch(5, 0, Sleeping)), (60, 1, None, elsewhere[0].3)]), []);
        assert_eq!(left(&[(20, 0, Some(0), idle(1))]), [(20, 0)]);
        assert_eq!(left(&[(20, 0, Some(0), idle(Event::IDLE_EXIT))]), [], "which may come after the switch");
        assert_eq!(left(&[(10, 0, Some(0), idle(1))]), [], "of one stamp");
        assert_eq!(left(&[(20, 0, Some(0), waking(8))]), [(20, 0)], "an interrupt of idle");
        assert_eq!(left(&[(20, 0, Some(5), waking(8)), (21, 0, None, waking(8))]), []);
        assert_eq!(left(&[(20, 0, Some(8), switch(8, 0, Dead))]), [], "whose time it was is told");
        assert_eq!(left(&[(10, 1, Some(0), switch(0, 5, Running))]), [(10, 0)]);
        let late = (41, 0, Some(5), switch(5, 0, Sleeping));
        assert_eq!(left(&[elsewhere[0], late, elsewhere[1]]), [], "clocks are apart");
        assert_eq!(left(&[(20, 0, Some(0), waking(8)), (21, 0, Some(5), waking(8))]), [], "it is there again");
        assert_eq!(left(&[(20, 0, Some(0), idle(1)), (30, 0, Some(8), switch(8, 0, Dead))]), [(20, 0)]);
    }

    /// 2 ms on CPU 0 until that sleeps, 1 ms on CPU 1.
    #[test]
    fn no_thread_is_on_two_cpus() {
        let lines = [
            (0, 0, Some(0), switch(0, 5, Running)),
            (2, 0, Some(0), idle(1)),
            (9, 1, Some(0), waking(5)),
            (10, 1, Some(0), switch(0, 5, Running)),
            (11, 1, Some(5), switch(5, 0, Sleeping)),
            (11, 1, Some(0), idle(1)),
        ];
        let r = report(&lines);
        let [task] = &r.tasks[..] else { panic!("{:?}", r.tasks) };
        assert_eq!((task.runtime_s, task.cpu_share), (0.003, 0.03));
        assert_eq!(r.cpus[0].busy_s, 0.002, "it is the time that its CPU is busy");
        assert_eq!(task.work_s, 0.0015, "these CPUs have half the largest capacity");
        let balance = r.metrics.balance.expect("there are switches");
        assert_eq!(balance.spread, 0.04, "it waits nowhere in between");
        assert_eq!((r.metrics.wakeup_latency_us.count, r.metrics.wakeup_latency_us.max), (1, 1_000.0));
    }
}
