//! Real-time class: the highest priority runs.
//!
//! # Idea
//! SCHED_FIFO and SCHED_RR tasks have a fixed priority. The most urgent runs until it sleeps or a more urgent one wakes up;
//! among equals the first come runs, and SCHED_RR tasks take turns.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | `prio` | 0 (highest) ..= 98 | 99 − `rt_priority`, or inherited | when attributes change |
//! | `time_slice` | ticks | 100 ms at a turn's start | every tick |
//! | tick | `tick_ns` | `core` | every tick |
//!
//! # Decision
//! 1. Pick the first of the most urgent priority that is queued; a preempted task stays first.
//! 2. A wakee of a strictly more urgent priority preempts.
//! 3. SCHED_RR: at the tick that ends 100 ms of running, to the end of its priority, if it is not alone there.
//! 4. Placement of a wakee: the CPU it was on, unless a real-time task runs there that it does not preempt or that may not
//!    move; then a CPU with the least urgent work: the previous one, the waker's, the nearest.
//! 5. A CPU where a real-time task has to wait pushes it, after each wake-up and switch, to a CPU where it may run at once
//!    ([`push_rt_task`]); a CPU whose real-time task leaves pulls the most urgent one that waits elsewhere
//!    ([`pull_rt_task`]). `sched/rt_balance.rs` says when.
//!
//! Worked example: priorities 10 (running) and 50 (wakes up) on one CPU: 50 runs at once, 10 goes on where it was.
//!
//! # State and cost
//! One sorted queue per CPU. O(tasks queued) per operation, which are few.
//!
//! # Where it fails
//! A spinning task of high priority starves everything below on its CPU.
//!
//! # Differences from the kernel
//! FIDELITY(rt-throttling): the limit of 95 % per second is not modelled. FIDELITY(rt-distribute):
//! among equal CPUs the lowest number is taken, the kernel rotates. No vectors exist.
//!
//! # Source
//! Linux 6.12 `kernel/sched/rt.c`, `cpupri.c` (behaviour).

use super::{Dequeue, Enqueue, SchedClass};
use crate::sched::Sched;
use crate::sched::load::pelt;
use crate::sched::placement::{Choice, Request};
use crate::sched::task::OnRq;
use wattif_model::trace::PlacementReason;
use wattif_model::workload::Policy;
use wattif_model::{CpuId, Pid};

/// A turn of SCHED_RR, ns (`RR_TIMESLICE`).
pub const RR_TIMESLICE_NS: u64 = 100_000_000;

/// The class; it has no tunables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rt;

impl SchedClass for Rt {
    fn enqueue_task(&self, s: &mut Sched, cpu: CpuId, pid: Pid, _flags: Enqueue) {
        let prio = s.tasks[pid.at()].prio;
        let rq = &mut s.rqs[cpu.at()];
        rq.rt.tail += 1;
        rq.rt.queue.insert((prio, rq.rt.tail, pid));
        rq.rt.rt_nr_running += 1;
        rq.nr_running += 1;
        rq.util_changed = true;
    }

    fn dequeue_task(&self, s: &mut Sched, cpu: CpuId, pid: Pid, _flags: Dequeue) -> bool {
        self.update_curr(s, cpu);
        let rq = &mut s.rqs[cpu.at()];
        rq.rt.queue.take(|e| e.2 == pid).expect("a queued real-time task is in the queue");
        rq.rt.rt_nr_running -= 1;
        rq.nr_running -= 1;
        rq.util_changed = true;
        true
    }

    fn yield_task(&self, s: &mut Sched, cpu: CpuId) {
        requeue_task_rt(s, cpu, s.rqs[cpu.at()].curr);
    }

    fn wakeup_preempt(&self, s: &mut Sched, cpu: CpuId, pid: Pid, _fork: bool) {
        let curr = s.rqs[cpu.at()].curr;
        let preempts = curr == Pid(0) || preempts(s, pid, curr);
        s.rqs[cpu.at()].need_resched |= preempts;
    }

    fn pick_task(&self, s: &mut Sched, cpu: CpuId) -> Option<Pid> {
        s.rqs[cpu.at()].rt.queue.first().map(|e| e.2)
    }

    fn put_prev_task(&self, s: &mut Sched, cpu: CpuId, _pid: Pid) {
        self.update_curr(s, cpu);
        pelt::update_rt_rq_load_avg(&mut s.rqs[cpu.at()], true);
    }

    fn set_next_task(&self, s: &mut Sched, cpu: CpuId, pid: Pid, _first: bool) {
        let rq = &mut s.rqs[cpu.at()];
        s.tasks[pid.at()].rt.exec_start = rq.clock_task;
        // What ran before was no real-time task; if it was, its time is accounted and this changes nothing.
        pelt::update_rt_rq_load_avg(rq, false);
    }

    fn task_tick(&self, s: &mut Sched, cpu: CpuId, pid: Pid) {
        self.update_curr(s, cpu);
        let slice = (RR_TIMESLICE_NS / s.tick_ns).max(1) as u32;
        let rq = &mut s.rqs[cpu.at()];
        rq.util_changed |= pelt::update_rt_rq_load_avg(rq, true);
        let task = &mut s.tasks[pid.at()];
        if task.policy != Policy::Rr {
            return;
        }
        // 0: it never had a turn.
        let left = if task.rt.time_slice == 0 { slice } else { task.rt.time_slice } - 1;
        task.rt.time_slice = if left == 0 { slice } else { left };
        let prio = task.prio;
        if left == 0 && rq.rt.queue.iter().any(|e| e.0 == prio && e.2 != pid) {
            requeue_task_rt(s, cpu, pid);
            s.rqs[cpu.at()].need_resched = true;
        }
    }

    fn update_curr(&self, s: &mut Sched, cpu: CpuId) {
        let rq = &s.rqs[cpu.at()];
        let task = &mut s.tasks[rq.curr.at()];
        if rq.curr == Pid(0) || !is_rt(task) {
            return;
        }
        let delta = rq.clock_task.wrapping_sub(task.rt.exec_start);
        if delta as i64 > 0 {
            task.rt.exec_start = rq.clock_task;
            task.rt.sum_exec_runtime += delta;
        }
    }

    fn prio_changed(&self, s: &mut Sched, cpu: CpuId, pid: Pid, _old_prio: u8) {
        let curr = s.rqs[cpu.at()].curr;
        let resched = if curr == pid {
            s.rqs[cpu.at()].rt.queue.first().is_some_and(|e| e.0 < s.tasks[pid.at()].prio)
        } else {
            preempts(s, pid, curr)
        };
        s.rqs[cpu.at()].need_resched |= resched;
    }

    fn switched_to(&self, s: &mut Sched, cpu: CpuId, pid: Pid) {
        let curr = s.rqs[cpu.at()].curr;
        if curr == pid {
            s.tasks[pid.at()].rt.exec_start = s.rqs[cpu.at()].clock_task;
        } else if s.tasks[pid.at()].on_rq == OnRq::Queued {
            self.wakeup_preempt(s, cpu, pid, false);
        }
    }
}

/// Is it of this class now, by its effective priority?
fn is_rt(task: &crate::sched::task::Task) -> bool {
    task.prio < 100 && task.policy != Policy::Deadline
}

fn preempts(s: &Sched, pid: Pid, curr: Pid) -> bool {
    let (p, c) = (&s.tasks[pid.at()], &s.tasks[curr.at()]);
    curr == Pid(0) || (c.policy != Policy::Deadline && p.prio < c.prio)
}

/// Behind the others of its priority.
fn requeue_task_rt(s: &mut Sched, cpu: CpuId, pid: Pid) {
    let rt = &mut s.rqs[cpu.at()].rt;
    if let Some((prio, _, pid)) = rt.queue.take(|e| e.2 == pid) {
        rt.tail += 1;
        rt.queue.insert((prio, rt.tail, pid));
    }
}

// ---- placement -----------------------------------------------------------------------------------------------------

/// Where a real-time or deadline task goes.
pub fn select_task_rq(s: &Sched, req: &Request) -> Choice {
    let task = &s.tasks[req.pid.at()];
    let mut cpu = req.prev_cpu;
    if !task.cpus.contains(cpu) {
        cpu = task.cpus.min().expect("a task may run somewhere");
    }
    if task.nr_cpus_allowed > 1 {
        let curr = &s.tasks[s.rqs[cpu.at()].curr.at()];
        let blocked =
            urgency(s, cpu) >= 1 && curr.pid != Pid(0) && (curr.nr_cpus_allowed < 2 || !beats(s, req.pid, cpu));
        if blocked || !fits(s, req.pid, cpu) {
            let lowest = find_lowest_rq(s, req.pid, cpu, req.this_cpu);
            cpu = lowest.filter(|&c| blocked || fits(s, req.pid, c)).unwrap_or(cpu);
        }
    }
    Choice { cpu, reason: PlacementReason::Priority, target: cpu, scanned: 0 }
}

/// How urgent a CPU's most urgent task is: 0 none of these classes, 1..=99 real-time (99 the stopper too), 100 deadline.
fn urgency(s: &Sched, cpu: CpuId) -> u32 {
    let rq = &s.rqs[cpu.at()];
    if rq.dl.dl_nr_running > 0 {
        return 100;
    }
    // The stopper runs without being in this class's queue.
    let curr = &s.tasks[rq.curr.at()];
    let runs_on = rq.curr != Pid(0) && curr.on_rq == OnRq::Queued;
    let running = (runs_on && is_rt(curr)).then_some(curr.prio);
    let first = rq.rt.queue.first().map(|e| e.0);
    running.into_iter().chain(first).min().map_or(0, |prio| 99 - u32::from(prio.min(98)))
}

/// Would the task run at once on this CPU?
fn beats(s: &Sched, pid: Pid, cpu: CpuId) -> bool {
    let task = &s.tasks[pid.at()];
    if task.policy == Policy::Deadline {
        let first = s.rqs[cpu.at()].dl.queue.first();
        return first.is_none_or(|e| task.dl.deadline < e.0);
    }
    99 - u32::from(task.prio.min(98)) > urgency(s, cpu)
}

/// `rt_task_fits_capacity`.
fn fits(s: &Sched, pid: Pid, cpu: CpuId) -> bool {
    s.rqs[cpu.at()].cpu_capacity_orig >= s.tasks[pid.at()].uclamp_min
}

/// A CPU with the least urgent work on which the task would run at once: `near` if it is one, else `this_cpu`, else by
/// distance from `near`. Large enough ones first.
fn find_lowest_rq(s: &Sched, pid: Pid, near: CpuId, this_cpu: CpuId) -> Option<CpuId> {
    let task = &s.tasks[pid.at()];
    let distance = |c: CpuId| match c {
        c if c == near => 0,
        c if c == this_cpu => 1,
        c => 2 + levels_apart(s, near, c),
    };
    let candidates = task.cpus.iter().filter(|&c| c.at() < s.rqs.len() && beats(s, pid, c));
    candidates.min_by_key(|&c| (!fits(s, pid, c), urgency(s, c), distance(c), c))
}

/// How many domains one has to go up from `a` to reach `b`.
fn levels_apart(s: &Sched, a: CpuId, b: CpuId) -> usize {
    let Some(domains) = s.topology.of_cpu.get(a.at()) else { return 0 };
    let reached = domains.iter().position(|&d| s.topology.domains[d].span.contains(b));
    reached.unwrap_or(domains.len())
}

/// A queued task that waits behind a more urgent one on `cpu`, and a CPU where it would run at once.
pub fn push_rt_task(s: &Sched, cpu: CpuId) -> Option<(Pid, CpuId)> {
    let rq = &s.rqs[cpu.at()];
    let pid = rq.rt.queue.iter().map(|e| e.2).find(|&p| is_pushable(s, cpu, p))?;
    let to = find_lowest_rq(s, pid, cpu, cpu).filter(|&c| c != cpu)?;
    Some((pid, to))
}

/// A task that waits on another CPU and would run at once on `cpu`, the most urgent such; and where it waits.
pub fn pull_rt_task(s: &Sched, cpu: CpuId) -> Option<(Pid, CpuId)> {
    let waiting = s.rqs.iter().filter(|rq| rq.cpu != cpu && rq.rt.rt_nr_running > 1);
    let tasks = waiting.flat_map(|rq| rq.rt.queue.iter().map(move |e| (e.0, e.2, rq.cpu)));
    let mine = tasks.filter(|&(_, pid, from)| {
        is_pushable(s, from, pid) && s.tasks[pid.at()].cpus.contains(cpu) && beats(s, pid, cpu)
    });
    mine.min_by_key(|&(prio, pid, from)| (prio, from, pid)).map(|(_, pid, from)| (pid, from))
}

fn is_pushable(s: &Sched, cpu: CpuId, pid: Pid) -> bool {
    let task = &s.tasks[pid.at()];
    s.rqs[cpu.at()].curr != pid && task.nr_cpus_allowed > 1 && task.on_rq == OnRq::Queued
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::class::fair::tests::spawn;
    use crate::sched::placement::Kind;
    use wattif_model::CpuSet;

    fn rt_task(s: &mut Sched, policy: Policy, rt_priority: u8, cpu: u32) -> Pid {
        let pid = spawn(s, 0);
        let task = &mut s.tasks[pid.at()];
        (task.policy, task.rt_priority, task.prio, task.cpu) = (policy, rt_priority, 99 - rt_priority, CpuId(cpu));
        (task.cpus, task.nr_cpus_allowed) = (CpuSet::first(s.rqs.len()), s.rqs.len() as u32);
        Rt.enqueue_task(s, CpuId(cpu), pid, Enqueue { wakeup: true, ..Enqueue::default() });
        s.tasks[pid.at()].on_rq = OnRq::Queued;
        pid
    }

    fn run(s: &mut Sched, cpu: u32) -> Pid {
        let cpu = CpuId(cpu);
        let next = Rt.pick_task(s, cpu).expect("something is queued");
        let prev = s.rqs[cpu.at()].curr;
        if prev != Pid(0) {
            Rt.put_prev_task(s, cpu, prev);
        }
        Rt.set_next_task(s, cpu, next, true);
        s.rqs[cpu.at()].curr = next;
        s.rqs[cpu.at()].need_resched = false;
        next
    }

    #[test]
    fn fifo_by_priority_and_the_preempted_goes_on_first() {
        let mut s = Sched::bare(1, 4_000_000);
        let (a, b) = (rt_task(&mut s, Policy::Fifo, 10, 0), rt_task(&mut s, Policy::Fifo, 10, 0));
        assert_eq!(run(&mut s, 0), a);
        let c = rt_task(&mut s, Policy::Fifo, 50, 0);
        Rt.wakeup_preempt(&mut s, CpuId(0), b, false);
        assert!(!s.rqs[0].need_resched, "an equal priority does not preempt");
        Rt.wakeup_preempt(&mut s, CpuId(0), c, false);
        assert!(s.rqs[0].need_resched);
        assert_eq!(run(&mut s, 0), c);
        Rt.dequeue_task(&mut s, CpuId(0), c, Dequeue { sleep: true, ..Dequeue::default() });
        s.rqs[0].curr = Pid(0);
        assert_eq!(run(&mut s, 0), a);
    }

    #[test]
    fn round_robin_rotates_after_100_ms() {
        let mut s = Sched::bare(1, 4_000_000);
        let (a, b) = (rt_task(&mut s, Policy::Rr, 10, 0), rt_task(&mut s, Policy::Rr, 10, 0));
        assert_eq!(run(&mut s, 0), a);
        for tick in 1..=25u64 {
            assert!(!s.rqs[0].need_resched, "tick {tick}");
            pelt::update_rq_clock(&mut s.rqs[0], tick * 4_000_000);
            Rt.task_tick(&mut s, CpuId(0), a);
        }
        assert!(s.rqs[0].need_resched);
        assert_eq!(run(&mut s, 0), b);
        assert_eq!(s.tasks[a.at()].rt.sum_exec_runtime, 100_000_000);
        assert!(s.rqs[0].avg_rt.util_avg > 800);
    }

    #[test]
    fn a_wakee_avoids_a_cpu_with_more_urgent_work_and_waiters_are_moved() {
        let mut s = Sched::bare(2, 4_000_000);
        rt_task(&mut s, Policy::Fifo, 50, 0);
        run(&mut s, 0);
        let waiter = rt_task(&mut s, Policy::Fifo, 10, 0);
        let req = Request { pid: waiter, prev_cpu: CpuId(0), this_cpu: CpuId(0), kind: Kind::Fork, in_irq: false };
        assert_eq!(select_task_rq(&s, &req).cpu, CpuId(1));
        assert_eq!(push_rt_task(&s, CpuId(0)), Some((waiter, CpuId(1))));
        assert_eq!(pull_rt_task(&s, CpuId(1)), Some((waiter, CpuId(0))));
        assert_eq!(pull_rt_task(&s, CpuId(0)), None);
    }
}
