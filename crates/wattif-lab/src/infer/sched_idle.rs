//! Threads that give way to all others: `SCHED_IDLE`.
//!
//! A trace shows priorities, and that of a `SCHED_IDLE` thread is 120 like any other's. What it shows besides is who gets the CPU where two
//! want it. Threads of nice 0 share: one that wants more than the other waits for it, too. Beside a weight of 3 hardly anybody waits. So a thread
//! of priority 120 is `SCHED_IDLE` if others of no more weight ran for long while it waited, had more of the time than it on the whole,
//! and waited far less while it ran.
//!
//! Short pieces of work tell nothing (a fair scheduler also lets these go first), which is why the others must have had more than it.

use std::collections::{BTreeMap, BTreeSet};
use wattif_model::trace::{Event, PrevState, Recorded, Recording};
use wattif_model::{CpuId, Pid};

/// So long it waited for others that had more, ns.
const WAITED_NS: u64 = 100_000_000;
/// They had so many quarters of its part of the time.
const MORE_QUARTERS: u128 = 5;
/// So much of that, percent, it ran while they waited; who waits with others for one thread shares the time with them. Recorded were 67 and
/// more of threads that are equal, or whose groups have a third of the weight, and 0.1 to 14 of `SCHED_IDLE` threads.
const RAN_PCT: u64 = 20;
/// Of more threads that wait for one CPU, nothing is learnt.
const MAX_WAITING: usize = 16;
/// So many pairs of threads are kept.
const MAX_PAIRS: usize = 1 << 16;
const NICE_0: u8 = 120;

struct Thread {
    prio: u8,
    always_nice_0: bool,
    /// From when it was seen first to when it ended, and its run time, ns.
    first: Option<u64>,
    ended: Option<u64>,
    ran: u64,
    waits_on: Option<CpuId>,
}

impl Default for Thread {
    fn default() -> Thread {
        Thread { prio: NICE_0, always_nice_0: true, first: None, ended: None, ran: 0, waits_on: None }
    }
}

#[derive(Default)]
struct Cpu {
    running: Pid,
    since: u64,
    waiting: Vec<Pid>,
}

/// One of two ran while the other waited, ns.
#[derive(Default)]
struct Pair {
    waited: u64,
    ran: u64,
}

/// The threads of a recording of `nr_cpus` that are `SCHED_IDLE`.
pub(super) fn threads(recording: &Recording, nr_cpus: usize) -> BTreeSet<Pid> {
    let mut watch = Watch::default();
    watch.cpus.resize_with(nr_cpus, Cpu::default);
    for r in recording.records.iter().filter(|r| r.cpu.at() < nr_cpus) {
        if let Recorded::Event(event) = r.event {
            watch.event(r.at.0, r.cpu, event);
        }
    }
    (0..nr_cpus as u32).for_each(|cpu| watch.until(CpuId(cpu), recording.end.0));
    watch.found(recording.end.0)
}

#[derive(Default)]
struct Watch {
    cpus: Vec<Cpu>,
    threads: BTreeMap<Pid, Thread>,
    /// By who waited first, then by who ran.
    pairs: BTreeMap<(Pid, Pid), Pair>,
}

impl Watch {
    fn event(&mut self, at: u64, cpu: CpuId, event: Event) {
        match event {
            Event::SchedSwitch { prev_pid, prev_prio, prev_state, next_pid, next_prio } => {
                self.see(prev_pid, prev_prio, at);
                self.until(cpu, at);
                self.leaves(next_pid, at);
                self.cpus[cpu.at()].running = next_pid;
                self.see(next_pid, next_prio, at);
                match prev_state {
                    PrevState::Running => self.waits(prev_pid, cpu, at),
                    PrevState::Dead => self.threads.entry(prev_pid).or_default().ended = Some(at),
                    _ => {}
                }
            }
            Event::SchedWakeup { pid, prio, target_cpu, .. } | Event::SchedWakeupNew { pid, prio, target_cpu } => {
                self.see(pid, prio, at);
                if target_cpu.at() < self.cpus.len() && self.cpus[target_cpu.at()].running != pid {
                    self.waits(pid, target_cpu, at);
                }
            }
            Event::SchedMigrateTask { pid, dest_cpu, .. }
                if dest_cpu.at() < self.cpus.len() && self.threads.get(&pid).is_some_and(|t| t.waits_on.is_some()) =>
            {
                self.waits(pid, dest_cpu, at);
            }
            _ => {}
        }
    }

    fn see(&mut self, pid: Pid, prio: u8, at: u64) {
        if pid.0 != 0 {
            let t = self.threads.entry(pid).or_default();
            t.always_nice_0 &= prio == NICE_0;
            t.prio = prio;
            t.first.get_or_insert(at);
        }
    }

    /// From now on it waits for this CPU, and for no other.
    fn waits(&mut self, pid: Pid, cpu: CpuId, at: u64) {
        self.leaves(pid, at);
        self.until(cpu, at);
        if let Some(t) = self.threads.get_mut(&pid) {
            t.waits_on = Some(cpu);
            self.cpus[cpu.at()].waiting.push(pid);
        }
    }

    /// It waits no more where it did.
    fn leaves(&mut self, pid: Pid, at: u64) {
        if let Some(cpu) = self.threads.get_mut(&pid).and_then(|t| t.waits_on.take()) {
            self.until(cpu, at);
            self.cpus[cpu.at()].waiting.retain(|w| *w != pid);
        }
    }

    /// Until now one thread has run on a CPU, and others have waited for it.
    fn until(&mut self, cpu: CpuId, at: u64) {
        let cpu = &mut self.cpus[cpu.at()];
        let ns = at.saturating_sub(std::mem::replace(&mut cpu.since, at));
        let running = cpu.running;
        let Some(prio) = self.threads.get_mut(&running).map(|t| {
            t.ran += ns;
            t.prio
        }) else {
            return;
        };
        if cpu.waiting.len() > MAX_WAITING || prio < NICE_0 {
            return;
        }
        // Several that wait share what one of them would have had.
        let ns = ns / cpu.waiting.len().max(1) as u64;
        for waits in &cpu.waiting {
            let other = self.threads[waits].prio;
            if other == NICE_0
                && let Some(pair) = pair(&mut self.pairs, (*waits, running))
            {
                pair.waited += ns;
            }
            if prio == NICE_0
                && other >= NICE_0
                && let Some(pair) = pair(&mut self.pairs, (running, *waits))
            {
                pair.ran += ns;
            }
        }
    }

    fn found(&self, end: u64) -> BTreeSet<Pid> {
        let mut sums: BTreeMap<Pid, Pair> = BTreeMap::new();
        for ((pid, other), pair) in &self.pairs {
            let (a, b) = (&self.threads[pid], &self.threads[other]);
            if a.always_nice_0 && b.had_more_than(a, end) {
                let sum = sums.entry(*pid).or_default();
                (sum.waited, sum.ran) = (sum.waited + pair.waited, sum.ran + pair.ran);
            }
        }
        let gives_way = |p: &Pair| p.waited >= WAITED_NS && 100 * p.ran <= RAN_PCT * p.waited;
        sums.into_iter().filter(|(_, sum)| gives_way(sum)).map(|(pid, _)| pid).collect()
    }
}

impl Thread {
    /// Did it have more of its time than the other of its?
    fn had_more_than(&self, other: &Thread, end: u64) -> bool {
        let time = |t: &Thread| u128::from(t.ended.unwrap_or(end).saturating_sub(t.first.unwrap_or(end)).max(1));
        4 * u128::from(self.ran) * time(other) >= MORE_QUARTERS * u128::from(other.ran) * time(self)
    }
}

fn pair(pairs: &mut BTreeMap<(Pid, Pid), Pair>, key: (Pid, Pid)) -> Option<&mut Pair> {
    (pairs.len() < MAX_PAIRS || pairs.contains_key(&key)).then(|| pairs.entry(key).or_default())
}

#[cfg(test)]
mod tests {
    use super::super::super::metrics::testbed::{switch, waking};
    use super::*;
    use wattif_model::Ns;
    use wattif_model::trace::Record;

    const MS: u64 = 1_000_000;

    /// Thread 7 computes without end; thread 8 has a piece of work every 10 ms, which preempts the other so often.
    fn found(busy_ms: u64, preempts: impl Fn(u64) -> bool) -> BTreeSet<Pid> {
        let mut events = vec![(0, switch(0, 7, PrevState::Running))];
        let woken = Event::SchedWakeup { pid: Pid(8), prio: 120, target_cpu: CpuId(0), in_irq: true };
        for i in 1..40 {
            let at = if preempts(i) { i * 10 * MS } else { i * 10 * MS + 4 * MS };
            events.extend([(i * 10 * MS, waking(8)), (i * 10 * MS, woken)]);
            events.push((at, switch(7, 8, PrevState::Running)));
            events.push((at + busy_ms * MS, switch(8, 7, PrevState::Sleeping)));
        }
        let record = |(at, event)| Record { at: Ns(at), cpu: CpuId(0), current: None, event: Recorded::Event(event) };
        let records = events.into_iter().map(record).collect();
        threads(&Recording { nr_cpus: 1, end: Ns(400 * MS), records, ..Recording::default() }, 1)
    }

    #[test]
    fn who_always_gives_way() {
        assert_eq!(found(7, |_| true), BTreeSet::from([Pid(7)]));
        assert_eq!(found(4, |_| true), BTreeSet::new(), "it had more than the other");
        assert_eq!(found(6, |i| i % 2 == 0), BTreeSet::new(), "the other waited, too");
    }
}
