//! Deadline class: earliest deadline first, each task within a budget per period.
//!
//! # Idea
//! A task declares that it needs `runtime` in every `period`, by `deadline` after the period's start. The earliest absolute
//! deadline runs, which meets all deadlines whenever that is possible on one CPU; a budget per period (constant bandwidth
//! server) keeps a task that needs more than it declared from harming the others.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | `dl_runtime`, `dl_deadline`, `dl_period` | ns | `sched_setattr` | when set |
//! | `clock_task`, `clock` | ns | the run queue | every clock update |
//! | `freq_cap`, `cpu_capacity_orig` | 0..=1024 | the machine | when the frequency changes |
//!
//! # Decision
//! 1. A wakee keeps deadline and budget if the deadline is ahead and the budget fits the time left
//!    (`runtime / (deadline − now) ≤ dl_runtime / dl_deadline`); otherwise both start anew: now + `dl_deadline`, `dl_runtime`.
//! 2. Running uses budget at the CPU's speed: a slow CPU uses less per ns.
//! 3. Budget used up, noticed at a tick or a switch: throttled until the next period starts ([`next_replenish`]), then
//!    deadlines advance by periods until the overrun is paid ([`replenish`]).
//! 4. The earliest deadline runs; a wakee with an earlier one preempts. Every task of this class comes before the others.
//!
//! Worked example, 2 ms per 10 ms: a task that spins runs from 0 to 2 ms, is throttled until 10 ms, runs to 12 ms, and so on.
//!
//! # State and cost
//! Two small sorted queues per CPU, runnable and throttled. O(tasks queued) per operation, which are few.
//!
//! # Where it fails
//! On several CPUs even total use below capacity may miss deadlines; tasks are placed at wake-up and not pushed later.
//!
//! # Differences from the kernel
//! FIDELITY(dl-zero-lag): a sleeper's bandwidth leaves `running_bw` when it sleeps, not at its zero-lag time.
//! FIDELITY(dl-admission): no admission test. FIDELITY(dl-reclaim): neither GRUB reclaiming nor the rule for constrained
//! deadlines at wake-up. FIDELITY(dl-push-pull): no push and pull. FIDELITY(dl-server): no fair server. No vectors exist.
//!
//! # Source
//! Linux 6.12 `kernel/sched/deadline.c` (behaviour).

use super::{Dequeue, Enqueue, SchedClass};
use crate::sched::Sched;
use crate::sched::load::pelt;
use crate::sched::task::{DlEntity, OnRq};
use wattif_model::workload::Policy;
use wattif_model::{CpuId, Pid};

/// The class; it has no tunables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deadline;

impl SchedClass for Deadline {
    fn enqueue_task(&self, s: &mut Sched, cpu: CpuId, pid: Pid, flags: Enqueue) {
        let rq = &mut s.rqs[cpu.at()];
        let dl = &mut s.tasks[pid.at()].dl;
        rq.dl.running_bw += dl.dl_bw;
        rq.util_changed = true;
        if dl.throttled {
            return;
        }
        if flags.wakeup || flags.initial || dl.deadline == 0 {
            update_dl_entity(dl, rq.clock);
        }
        enqueue_dl_entity(s, cpu, pid);
    }

    fn dequeue_task(&self, s: &mut Sched, cpu: CpuId, pid: Pid, flags: Dequeue) -> bool {
        self.update_curr(s, cpu);
        dequeue_dl_entity(s, cpu, pid);
        let rq = &mut s.rqs[cpu.at()];
        let dl = &mut s.tasks[pid.at()].dl;
        rq.dl.running_bw -= dl.dl_bw.min(rq.dl.running_bw);
        rq.util_changed = true;
        if flags.sleep && rq.clock > dl.deadline {
            dl.misses += 1;
        }
        true
    }

    /// Gives up the rest of the budget: the task waits for its next period.
    fn yield_task(&self, s: &mut Sched, cpu: CpuId) {
        let curr = s.rqs[cpu.at()].curr;
        s.tasks[curr.at()].dl.yielded = true;
        self.update_curr(s, cpu);
    }

    fn wakeup_preempt(&self, s: &mut Sched, cpu: CpuId, pid: Pid, _fork: bool) {
        if s.tasks[pid.at()].dl.throttled {
            return;
        }
        let curr = s.rqs[cpu.at()].curr;
        let (p, c) = (&s.tasks[pid.at()], &s.tasks[curr.at()]);
        let other_class = curr == Pid(0) || c.policy != Policy::Deadline;
        let earlier = c.policy == Policy::Deadline && p.dl.deadline < c.dl.deadline;
        s.rqs[cpu.at()].need_resched |= other_class || earlier;
    }

    fn pick_task(&self, s: &mut Sched, cpu: CpuId) -> Option<Pid> {
        s.rqs[cpu.at()].dl.queue.first().map(|e| e.1)
    }

    fn put_prev_task(&self, s: &mut Sched, cpu: CpuId, _pid: Pid) {
        self.update_curr(s, cpu);
        pelt::update_dl_rq_load_avg(&mut s.rqs[cpu.at()], true);
    }

    fn set_next_task(&self, s: &mut Sched, cpu: CpuId, pid: Pid, _first: bool) {
        let rq = &mut s.rqs[cpu.at()];
        s.tasks[pid.at()].dl.exec_start = rq.clock_task;
        pelt::update_dl_rq_load_avg(rq, false);
    }

    fn task_tick(&self, s: &mut Sched, cpu: CpuId, _pid: Pid) {
        self.update_curr(s, cpu);
        let rq = &mut s.rqs[cpu.at()];
        rq.util_changed |= pelt::update_dl_rq_load_avg(rq, true);
    }

    fn update_curr(&self, s: &mut Sched, cpu: CpuId) {
        let rq = &s.rqs[cpu.at()];
        let (curr, now, freq, cap) = (rq.curr, rq.clock_task, rq.freq_cap, rq.cpu_capacity_orig);
        let task = &mut s.tasks[curr.at()];
        if curr == Pid(0) || task.policy != Policy::Deadline || task.dl.throttled {
            return;
        }
        let dl = &mut task.dl;
        let delta = now.wrapping_sub(dl.exec_start);
        if delta as i64 > 0 {
            dl.exec_start = now;
            dl.sum_exec_runtime += delta;
            let scaled = (((delta * u64::from(freq)) >> 10) * u64::from(cap)) >> 10;
            dl.runtime -= scaled as i64;
        }
        if dl.runtime <= 0 || dl.yielded {
            throttle(s, cpu, curr);
        }
    }

    fn prio_changed(&self, s: &mut Sched, cpu: CpuId, pid: Pid, _old_prio: u8) {
        if s.rqs[cpu.at()].curr == pid {
            let first = s.rqs[cpu.at()].dl.queue.first();
            let later = first.is_some_and(|e| e.1 != pid);
            s.rqs[cpu.at()].need_resched |= later;
        } else {
            self.wakeup_preempt(s, cpu, pid, false);
        }
    }

    fn switched_to(&self, s: &mut Sched, cpu: CpuId, pid: Pid) {
        if s.rqs[cpu.at()].curr != pid && s.tasks[pid.at()].on_rq == OnRq::Queued {
            self.wakeup_preempt(s, cpu, pid, false);
        }
    }

    fn switched_from(&self, s: &mut Sched, _cpu: CpuId, pid: Pid) {
        forget_timer(s, pid);
        let dl = &mut s.tasks[pid.at()].dl;
        (dl.throttled, dl.yielded, dl.deadline) = (false, false, 0);
    }
}

/// The next time a throttled task of this CPU gets its budget back, rq clock ns, and which task.
pub fn next_replenish(s: &Sched, cpu: CpuId) -> Option<(u64, Pid)> {
    s.rqs[cpu.at()].dl.throttled.first().copied()
}

/// A throttled task's period began (`dl_task_timer`): budget and deadline advance, and it is queued if it is runnable. The
/// caller updated the clock of its CPU, and checks for preemption afterwards.
pub fn replenish(s: &mut Sched, cpu: CpuId, pid: Pid) {
    forget_timer(s, pid);
    let task = &mut s.tasks[pid.at()];
    if !task.dl.throttled {
        return;
    }
    replenish_dl_entity(&mut task.dl, s.rqs[cpu.at()].clock);
    if task.on_rq == OnRq::Queued {
        enqueue_dl_entity(s, cpu, pid);
    }
}

fn enqueue_dl_entity(s: &mut Sched, cpu: CpuId, pid: Pid) {
    let rq = &mut s.rqs[cpu.at()];
    rq.dl.queue.insert((s.tasks[pid.at()].dl.deadline, pid));
    rq.dl.dl_nr_running += 1;
    rq.nr_running += 1;
}

/// Nothing happens to a task that is not queued because it is throttled.
fn dequeue_dl_entity(s: &mut Sched, cpu: CpuId, pid: Pid) {
    let rq = &mut s.rqs[cpu.at()];
    if rq.dl.queue.take(|e| e.1 == pid).is_some() {
        rq.dl.dl_nr_running -= 1;
        rq.nr_running -= 1;
    }
}

/// Budget used up: off the queue until the next period; at once a new period if that has begun already.
fn throttle(s: &mut Sched, cpu: CpuId, pid: Pid) {
    dequeue_dl_entity(s, cpu, pid);
    let rq = &mut s.rqs[cpu.at()];
    let dl = &mut s.tasks[pid.at()].dl;
    dl.throttled = true;
    let next_period = (dl.deadline - dl.dl_deadline).wrapping_add(dl.dl_period);
    if next_period <= rq.clock {
        replenish_dl_entity(dl, rq.clock);
        enqueue_dl_entity(s, cpu, pid);
    } else {
        rq.dl.throttled.insert((next_period, pid));
    }
    let rq = &mut s.rqs[cpu.at()];
    rq.need_resched |= rq.dl.queue.first().is_none_or(|e| e.1 != pid);
}

fn forget_timer(s: &mut Sched, pid: Pid) {
    for rq in &mut s.rqs {
        if rq.dl.throttled.take(|e| e.1 == pid).is_some() {
            return;
        }
    }
}

/// A wakee goes on with what it has, if that harms nobody; else it starts a new period.
fn update_dl_entity(dl: &mut DlEntity, now: u64) {
    if dl.deadline == 0 || dl.deadline < now || dl_entity_overflow(dl, now) {
        replenish_dl_new_period(dl, now);
    }
}

/// Would the rest of the budget until the deadline be more than its bandwidth?
fn dl_entity_overflow(dl: &DlEntity, now: u64) -> bool {
    // The kernel cuts to µs to stay within 64 bits.
    let left = (dl.dl_deadline >> 10).wrapping_mul((dl.runtime >> 10) as u64);
    let right = ((dl.deadline - now) >> 10).wrapping_mul(dl.dl_runtime >> 10);
    (right.wrapping_sub(left) as i64) < 0
}

fn replenish_dl_new_period(dl: &mut DlEntity, now: u64) {
    dl.deadline = now + dl.dl_deadline;
    dl.runtime = dl.dl_runtime as i64;
}

/// Periods go by until the overrun is paid; if that leaves the deadline in the past, a new period starts now.
fn replenish_dl_entity(dl: &mut DlEntity, now: u64) {
    if dl.yielded && dl.runtime > 0 {
        dl.runtime = 0;
    }
    if dl.runtime <= 0 {
        let periods = dl.runtime.unsigned_abs() / dl.dl_runtime.max(1) + 1;
        dl.deadline += periods * dl.dl_period;
        dl.runtime += (periods * dl.dl_runtime.max(1)) as i64;
    }
    if dl.deadline < now {
        replenish_dl_new_period(dl, now);
    }
    (dl.throttled, dl.yielded) = (false, false);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::class::fair::tests::spawn;

    const MS: u64 = 1_000_000;

    fn dl_task(s: &mut Sched, runtime: u64, period: u64) -> Pid {
        let pid = spawn(s, 0);
        let task = &mut s.tasks[pid.at()];
        (task.policy, task.prio) = (Policy::Deadline, 0);
        (task.dl.dl_runtime, task.dl.dl_deadline, task.dl.dl_period) = (runtime, period, period);
        task.dl.dl_bw = (runtime << 20) / period;
        Deadline.enqueue_task(s, CpuId(0), pid, Enqueue { wakeup: true, ..Enqueue::default() });
        s.tasks[pid.at()].on_rq = OnRq::Queued;
        pid
    }

    fn schedule(s: &mut Sched) -> Pid {
        let prev = s.rqs[0].curr;
        if prev != Pid(0) {
            Deadline.put_prev_task(s, CpuId(0), prev);
        }
        let next = Deadline.pick_task(s, CpuId(0));
        if let Some(next) = next {
            Deadline.set_next_task(s, CpuId(0), next, true);
        }
        s.rqs[0].curr = next.unwrap_or_default();
        s.rqs[0].need_resched = false;
        s.rqs[0].curr
    }

    #[test]
    fn a_spinner_gets_its_budget_in_every_period() {
        let mut s = Sched::bare(1, MS);
        pelt::update_rq_clock(&mut s.rqs[0], 100 * MS);
        let p = dl_task(&mut s, 2 * MS, 10 * MS);
        assert_eq!(schedule(&mut s), p);
        for ms in 101..=200 {
            pelt::update_rq_clock(&mut s.rqs[0], ms * MS);
            if next_replenish(&s, CpuId(0)).is_some_and(|(at, _)| at <= ms * MS) {
                replenish(&mut s, CpuId(0), p);
                Deadline.wakeup_preempt(&mut s, CpuId(0), p, false);
            }
            if s.rqs[0].curr != Pid(0) {
                Deadline.task_tick(&mut s, CpuId(0), p);
            }
            if s.rqs[0].need_resched {
                schedule(&mut s);
            }
        }
        assert_eq!(s.tasks[p.at()].dl.sum_exec_runtime, 20 * MS);
        assert_eq!((s.rqs[0].nr_running, s.rqs[0].dl.dl_nr_running), (1, 1));
    }

    #[test]
    fn the_earlier_deadline_preempts_and_late_jobs_count() {
        let mut s = Sched::bare(1, MS);
        pelt::update_rq_clock(&mut s.rqs[0], 100 * MS);
        let slow = dl_task(&mut s, 5 * MS, 20 * MS);
        assert_eq!(schedule(&mut s), slow);
        let fast = dl_task(&mut s, MS, 5 * MS);
        Deadline.wakeup_preempt(&mut s, CpuId(0), fast, false);
        assert!(s.rqs[0].need_resched);
        assert_eq!(schedule(&mut s), fast);
        s.rqs[0].clock = 106 * MS;
        Deadline.dequeue_task(&mut s, CpuId(0), fast, Dequeue { sleep: true, ..Dequeue::default() });
        assert_eq!(s.tasks[fast.at()].dl.misses, 1);
        assert_eq!(s.rqs[0].dl.running_bw, s.tasks[slow.at()].dl.dl_bw);
    }

    #[test]
    fn a_wakee_with_too_much_budget_for_the_time_left_starts_anew() {
        let mut dl = DlEntity { dl_runtime: 2 * MS, dl_deadline: 10 * MS, dl_period: 10 * MS, ..DlEntity::default() };
        update_dl_entity(&mut dl, 100 * MS);
        assert_eq!((dl.deadline, dl.runtime), (110 * MS, 2 * MS as i64));
        dl.runtime = MS as i64;
        update_dl_entity(&mut dl, 104 * MS);
        assert_eq!((dl.deadline, dl.runtime), (110 * MS, MS as i64), "1 ms of 6 fits 2 of 10");
        update_dl_entity(&mut dl, 107 * MS);
        assert_eq!((dl.deadline, dl.runtime), (117 * MS, 2 * MS as i64), "1 ms of 3 does not");
    }
}
