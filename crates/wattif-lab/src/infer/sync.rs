//! Wake-ups that are sync: the waker says that it is about to sleep.
//!
//! No event says so. Under Android's kernels of 4.x it shows where the thread goes: unless some CPU is overutilised it is taken to that of
//! its waker, whatever is idle elsewhere. Without the hint a thread stays on its last CPU if that is idle, or is taken to another idle one; or, to
//! save energy, to one that is busy anyway: that with the most room. Which may be the waker's, but hardly where another one like it has been
//! busy for less. So a thread is woken sync if, where its last CPU was idle and there was such another one, it mostly came to its waker's all
//! the same. Under the other wake-ups of models that was so for one in three at most, of few, and for one in twenty of many.
//!
//! Under mainline a sync wake-up goes to an idle CPU that shares a cache with the waker's, as others mostly do: there it does not show.

use super::offline::{is_offline, offline};
use super::wakers::Wakers;
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::platform::Platform;
use wattif_model::trace::{Event, Recording};
use wattif_model::{CpuId, Pid};

/// Fewer wake-ups tell nothing.
const MIN_SEEN: usize = 16;

/// A thread: where it was last, by a waker of which CPU it is being woken, and how often it came to its waker or not.
#[derive(Default)]
struct Woken {
    last: Option<CpuId>,
    by: Option<CpuId>,
    taken: usize,
    left: usize,
}

/// What a CPU runs, and since when it is busy.
#[derive(Clone, Copy, Default)]
struct Cpu {
    /// Unknown at first.
    running: Option<Pid>,
    busy_since: u64,
}

impl Cpu {
    fn is_idle(self) -> bool {
        self.running == Some(Pid(0))
    }
}

/// Threads that are woken sync, of a recording under such a kernel.
pub(super) fn threads(recording: &Recording, platform: &Platform) -> BTreeSet<Pid> {
    let (wakers, offline, nr_cpus) = (Wakers::of(recording), offline(recording), platform.nr_cpus());
    let kind = |cpu: CpuId| platform.told_capacity(cpu);
    let mut threads: BTreeMap<Pid, Woken> = BTreeMap::new();
    let mut cpus = vec![Cpu::default(); nr_cpus];
    for r in recording.records.iter().filter(|r| r.cpu.at() < nr_cpus) {
        let here = cpus[r.cpu.at()];
        match r.event() {
            Some(&Event::SchedSwitch { prev_pid, next_pid, .. }) => {
                let busy_since = if prev_pid.0 == 0 { r.at.0 } else { here.busy_since };
                cpus[r.cpu.at()] = Cpu { running: Some(next_pid), busy_since };
                [prev_pid, next_pid].iter().for_each(|pid| threads.entry(*pid).or_default().last = Some(r.cpu));
            }
            Some(&Event::SchedWaking { pid, in_irq, .. }) => {
                let t = threads.entry(pid).or_default();
                let waker = r.current.or(here.running).filter(|waker| !in_irq && wakers.wakes(*waker, pid));
                let last = t.last.filter(|last| *last != r.cpu && cpus[last.at()].is_idle());
                let is_free = last.is_some_and(|last| !is_offline(&offline, last, r.at.0));
                let busy_for_less = |(c, other): (CpuId, &Cpu)| {
                    kind(c) == kind(r.cpu) && !other.is_idle() && other.busy_since > here.busy_since
                };
                let tells = waker.is_some() && is_free && (0..).map(CpuId).zip(&cpus).any(busy_for_less);
                t.by = tells.then_some(r.cpu);
            }
            Some(&Event::SchedWakeup { pid, target_cpu, .. }) => {
                if let Some(t) = threads.get_mut(&pid)
                    && let Some(by) = t.by.take()
                {
                    *(if target_cpu == by { &mut t.taken } else { &mut t.left }) += 1;
                }
            }
            _ => {}
        }
    }
    let is_sync = |t: &Woken| t.taken >= MIN_SEEN && t.taken > t.left;
    threads.into_iter().filter(|(_, t)| is_sync(t)).map(|(pid, _)| pid).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::metrics::testbed::{self, switch};
    use super::*;
    use wattif_model::Ns;
    use wattif_model::trace::{PrevState, Record, Recorded};

    const US: u64 = 1_000;

    /// Thread 1 wakes 2 on CPU 3 again and again, while another one is busy on CPU 2, since before or later; CPU 0 is idle, or busy as well.
    /// Where does it go?
    fn is_sync(to: impl Fn(u64) -> u32, last: u32, other_since: u64) -> bool {
        let turn = |n: u64| {
            let (at, to) = (1_000 * US * n, to(n));
            let (next, comes) = if to == 3 { (2, [2, 0]) } else { (0, [0, 2]) };
            let woken = |us: u64, event| (at + us * US, 3, event);
            [
                (at + other_since * US, 2, switch(0, 9, PrevState::Running)),
                woken(100, switch(0, 1, PrevState::Running)),
                woken(300, Event::SchedWaking { pid: Pid(2), prio: 120, target_cpu: CpuId(last), in_irq: false }),
                woken(300, Event::SchedWakeup { pid: Pid(2), prio: 120, target_cpu: CpuId(to), in_irq: false }),
                woken(310, switch(1, next, PrevState::Sleeping)),
                (at + 320 * US, to, switch(comes[0], comes[1], PrevState::Sleeping)),
                (at + 400 * US, 2, switch(9, 0, PrevState::Sleeping)),
                // It is back where it was.
                (at + 500 * US, last, switch(0, 2, PrevState::Running)),
                (at + 600 * US, last, switch(2, 0, PrevState::Sleeping)),
            ]
        };
        let record =
            |(at, cpu, event)| Record { at: Ns(at), cpu: CpuId(cpu), current: None, event: Recorded::Event(event) };
        let mut records: Vec<Record> = (1..50).flat_map(turn).map(record).collect();
        records.sort_by_key(|r| r.at);
        let recording = Recording { nr_cpus: 4, records, has_irq_flags: true, ..Recording::default() };
        threads(&recording, &testbed::platform()).contains(&Pid(2))
    }

    #[test]
    fn who_comes_to_its_waker() {
        assert!(is_sync(|_| 3, 0, 200));
        assert!(!is_sync(|_| 0, 0, 200), "it stays");
        assert!(!is_sync(|n| if n % 3 == 0 { 3 } else { 0 }, 0, 200), "by chance");
        assert!(!is_sync(|_| 3, 0, 50), "the other one is busier");
        assert!(!is_sync(|_| 3, 3, 200), "it was there before");
    }
}
