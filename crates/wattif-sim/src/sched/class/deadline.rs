//! Deadline class: earliest deadline first, each task within a budget per period.
//!
//! # Idea
//! A task declares that it needs `runtime` in every `period`, by `deadline` after the period's start. The earliest absolute
//! deadline runs, which meets all deadlines whenever that is possible on one CPU; a budget per period (constant bandwidth
//! server) keeps a task that needs more than it declared from harming the others; an admission test keeps the sum of what is
//! declared within the machine.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | `dl_runtime`, `dl_deadline`, `dl_period` | ns | `sched_setattr` | when set |
//! | `clock_task`, `clock` | ns | the run queue | every clock update |
//! | `freq_cap`, `cpu_capacity_orig` | 0..=1024 | the machine | when the frequency changes |
//! | `running_bw`, `this_bw`, `extra_bw` | 2^20 = 1 CPU | the tasks | they sleep, wake up, move, change |
//!
//! # Decision
//! 1. Admission, when a task takes this policy or changes its parameters: Σ `dl_runtime / dl_period` may not exceed
//!    `rt.sched_rt_runtime_us / rt.sched_rt_period_us` (95 %) of the capacity of its CPUs, without `capacity_aware` of their
//!    number, less what their fair servers have (`"6.12"`: 5 % of a CPU each). Refused: `EBUSY`, where rt-app ends; the run ends too, and says which task and how much there is. Budgets
//!    below 1024 ns and periods out of `sched_deadline_period_min_us`..=`_max_us` are `EINVAL`.
//! 2. A wakee keeps deadline and budget if the deadline is ahead and the budget fits the time left
//!    (`runtime / (deadline − now) ≤ dl_runtime / dl_deadline`). Otherwise both start anew: now + `dl_deadline`,
//!    `dl_runtime`. With a deadline shorter than the period, a budget that does not fit is cut to what does (revised rule),
//!    and who wakes up after the deadline but before the next period waits for that. `generation = "4.10"` has neither rule:
//!    `dl_period` stands for `dl_deadline` in the comparison, and a used-up budget is renewed at the deadline.
//! 3. Running uses budget at the CPU's speed: a slow CPU uses less per ns; `"4.10"`: time is time. With `reclaim` it uses budget at the rate of the
//!    bandwidth that is active instead (GRUB): what others do not use may be used, up to the admissible share.
//! 4. Budget used up, noticed at a tick or a switch (with the feature HRTICK_DL at once): throttled until the next period
//!    starts, then deadlines advance by periods until the overrun is paid. `sched_yield` gives up the rest of the budget.
//! 5. The earliest deadline runs; a wakee with an earlier one preempts. Every task of this class comes before the others.
//! 6. A sleeper's bandwidth counts in `running_bw`, which schedutil takes as the least utilisation, until its zero-lag time
//!    `deadline − runtime · dl_period / dl_runtime`.
//! 7. A wakee, and a task that waits behind an earlier deadline, goes to a CPU without deadline work, or to the one with the
//!    latest deadline if its own is earlier; a CPU whose deadline task leaves pulls the earliest that waits elsewhere. With
//!    `capacity_aware` a wakee also leaves a CPU that does `dl_runtime` not within `dl_deadline`, and those that do come first.
//! 8. A thread that holds a mutex a deadline task waits for runs with that task's parameters, and is never throttled.
//! 9. `generation = "6.12"`: fair tasks that real-time or deadline tasks starve get `fair_server_runtime_us` of every
//!    `fair_server_period_us`, as late as possible the first time and as a deadline task from then on ([`super::dl_server`]).
//!
//! Worked example, 2 ms per 10 ms at 1000 Hz: a task that spins runs from 0 to 2 ms, is throttled until 10 ms, runs to
//! 12 ms, and so on. At 250 Hz it runs from 0 to 4 ms and owes 2 ms. At 10 ms it gets two budgets, of which one pays the debt,
//! and with them the deadline 30 ms; it runs until the tick at 12 ms, is throttled until 30 ms and runs until 32 ms.
//! From 40 ms on the same again: 8 ms in 40.
//!
//! # State and cost
//! A small sorted queue per CPU; two timers per task. O(tasks queued) per operation, which are few; O(CPUs) for a push or pull.
//!
//! # Where it fails
//! On several CPUs a sum below capacity may still miss deadlines (global EDF): lateness is bounded, not zero. An overrunning
//! task keeps the CPU until the next tick, which delays the others by up to a tick. A budget is in time at full speed of
//! the fastest CPU; a workload that is slower than thought misses all its deadlines, evenly.
//!
//! # Differences from the kernel
//! FIDELITY(dl-affinity): the kernel refuses a deadline task that may not run everywhere in its root domain; here the CPUs
//! of the task stand for an exclusive cpuset, and the admission test is against them. FIDELITY(dl-server): the fair server
//! starts when fair tasks begin to wait for higher classes, not when they begin to run; its own bandwidth does not count in
//! `running_bw`. FIDELITY(dl-pi-order): of several deadline tasks that wait for a mutex the first come
//! lends its parameters, not the one with the earliest deadline. No vectors exist.
//!
//! # Source
//! Linux 6.1 and 6.12 `kernel/sched/deadline.c`, `cpudeadline.c` (behaviour); what `4.10` lacks came with df8eac8cafce, 5ac69d37784b,
//! 2317d5f1c349 (4.12), 3effcb4247e7 (4.13) and 07881166a892 (4.16, budgets at the CPU's speed); for `capacity_aware` the series of Dietmar
//! Eggemann and Luca Abeni of 2020 ("sched/deadline: Make DL capacity-aware", merged after 5.7).

use super::dl_bandwidth::{self, Reclaim};
use super::{Dequeue, Enqueue, SchedClass, util_ran};
use crate::registry::{Tunable, meant};
use crate::sched::load::pelt;
use crate::sched::task::{DlEntity, OnRq};
use crate::sched::{Hrtimer, Sched};
use wattif_model::{CpuId, Pid};

/// Tunables of this policy.
pub const TUNABLES: &[Tunable] = &[
    Tunable {
        name: "generation",
        default: "6.12",
        allowed: &Generation::NAMES,
        doc: "4.10: budgets are wall time (until 4.15), and deadlines shorter than the period have no rules of their own (4.12, 4.13); 6.1: the reclaiming equation until 6.4; 6.6: that of 6.5 and later; 6.12: with a fair server",
    },
    Tunable {
        name: "known",
        default: "true",
        allowed: &["true", "false"],
        doc: "the kernel has the class; where it has none (before 3.14) the class is simulated all the same, and a note says so",
    },
    Tunable {
        name: "reclaim",
        default: "false",
        allowed: &["false", "true"],
        doc: "every deadline task has SCHED_FLAG_RECLAIM: it may use bandwidth that others do not use (GRUB)",
    },
    Tunable {
        name: "capacity_aware",
        default: "true",
        allowed: &["true", "false"],
        doc: "admission is to the capacity of the CPUs, and a wakee looks for one that is fast enough; false (5.7 and before): every CPU counts as a whole one",
    },
    Tunable {
        name: "fair_server_runtime_us",
        default: "50000",
        allowed: &["0..=4194304"],
        doc: "generation 6.12: what starving fair tasks get per period, µs; 0: no fair server",
    },
    Tunable {
        name: "fair_server_period_us",
        default: "1000000",
        allowed: &["100..=4194304"],
        doc: "generation 6.12: period of the fair server, µs",
    },
    Tunable {
        name: "sched_deadline_period_min_us",
        default: "100",
        allowed: &["0..=4294967295"],
        doc: "shortest period a task may ask for, µs",
    },
    Tunable {
        name: "sched_deadline_period_max_us",
        default: "4194304",
        allowed: &["0..=4294967295"],
        doc: "longest period a task may ask for, µs",
    },
];

/// `deadline.generation`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Generation {
    /// `4.10`: budgets are wall time; a deadline shorter than the period is treated as if it were the period.
    V4_10,
    /// `6.1`: budgets are work, reclaiming as until 6.4.
    V6_1,
    /// `6.6`: reclaiming as since 6.5.
    V6_6,
    /// `6.12`: with a fair server.
    #[default]
    V6_12,
}

impl Generation {
    /// The values of the tunable.
    pub const NAMES: [&'static str; 4] = ["4.10", "6.1", "6.6", "6.12"];

    /// From the tunable's value.
    pub fn parse(name: &str) -> Option<Generation> {
        use Generation::{V4_10, V6_1, V6_6, V6_12};
        meant(Generation::NAMES, [V4_10, V6_1, V6_6, V6_12], name)
    }
}

/// The class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deadline {
    /// Every task reclaims.
    pub reclaim: Option<Reclaim>,
}

/// What a task or the server runs with: its own parameters, or those of the task that lends it its own.
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// Budget per period, ns.
    pub runtime: u64,
    /// Relative deadline, ns.
    pub deadline: u64,
    /// Period, ns.
    pub period: u64,
}

impl DlEntity {
    /// Its own parameters.
    pub fn params(&self) -> Params {
        Params { runtime: self.dl_runtime.max(1), deadline: self.dl_deadline, period: self.dl_period }
    }
    fn is_boosted(&self) -> bool {
        self.boosted_by != Pid(0)
    }
}

impl SchedClass for Deadline {
    fn enqueue_task(&self, s: &mut Sched, cpu: CpuId, pid: Pid, flags: Enqueue) {
        let dl = &mut s.tasks[pid.at()].dl;
        let boosted = dl.is_boosted();
        if boosted && dl.throttled {
            dl.throttled = false;
            s.cancel_hrtimer(cpu, Hrtimer::Replenish(pid));
        }
        enqueue_dl_entity(s, cpu, pid, Enqueue { replenish: flags.replenish || boosted, ..flags });
    }

    fn dequeue_task(&self, s: &mut Sched, cpu: CpuId, pid: Pid, flags: Dequeue) -> bool {
        self.update_curr(s, cpu);
        dequeue_dl_entity(s, cpu, pid);
        if flags.save || s.tasks[pid.at()].on_rq == OnRq::Migrating {
            dl_bandwidth::sub_running_bw(s, cpu, pid);
            dl_bandwidth::sub_rq_bw(s, cpu, pid);
        }
        if flags.sleep {
            dl_bandwidth::task_non_contending(s, cpu, pid);
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
        let resched = if curr == Pid(0) || !c.is_dl() || p.dl.deadline < c.dl.deadline {
            true
        } else {
            // Equal deadlines: the one that can run nowhere else goes first, if the running one can.
            let tie = p.dl.deadline == c.dl.deadline && !s.rqs[cpu.at()].need_resched;
            tie && super::dl_placement::can_move(s, curr) && !super::dl_placement::can_move(s, pid)
        };
        s.rqs[cpu.at()].need_resched |= resched;
    }

    /// The earliest deadline; the idle task's pid is the fair server.
    fn pick_task(&self, s: &mut Sched, cpu: CpuId) -> Option<Pid> {
        s.rqs[cpu.at()].dl.queue.first().map(|e| e.2)
    }

    fn put_prev_task(&self, s: &mut Sched, cpu: CpuId, _pid: Pid) {
        self.update_curr(s, cpu);
        pelt::update_dl_rq_load_avg(&mut s.rqs[cpu.at()], true);
    }

    fn set_next_task(&self, s: &mut Sched, cpu: CpuId, pid: Pid, _first: bool) {
        let rq = &mut s.rqs[cpu.at()];
        s.tasks[pid.at()].dl.exec_start = rq.clock_task;
        pelt::update_dl_rq_load_avg(rq, false);
        start_hrtick_dl(s, cpu, pid);
    }

    fn task_tick(&self, s: &mut Sched, cpu: CpuId, pid: Pid) {
        self.update_curr(s, cpu);
        // The frequency governor hears of changes of active bandwidth, and of nothing else.
        pelt::update_dl_rq_load_avg(&mut s.rqs[cpu.at()], true);
        start_hrtick_dl(s, cpu, pid);
    }

    fn update_curr(&self, s: &mut Sched, cpu: CpuId) {
        let rq = &s.rqs[cpu.at()];
        let (curr, now) = (rq.curr, rq.clock_task);
        let task = &mut s.tasks[curr.at()];
        if curr == Pid(0) || !task.is_dl() {
            return;
        }
        let delta = (now.wrapping_sub(task.dl.exec_start) as i64).max(0) as u64;
        if delta == 0 && !task.dl.yielded {
            return;
        }
        task.dl.exec_start = now;
        task.dl.sum_exec_runtime += delta;
        if delta > 0 {
            util_ran(s, cpu, true);
        }
        s.rqs[cpu.at()].add_dl_avg(delta);
        s.tasks[curr.at()].dl.runtime -= self.scaled_delta_exec(s, cpu, curr, delta) as i64;
        let dl = &s.tasks[curr.at()].dl;
        if (dl.runtime <= 0 || dl.yielded) && !dl.throttled {
            throttle(s, cpu, curr);
        }
        if let Some(b) = s.rd.rt_bandwidth {
            // The limit of the real-time class counts this too.
            let rt = &mut s.rqs[cpu.at()].rt;
            rt.rt_time += if s.rd.rt_period_expires.is_some() || rt.rt_time < b.runtime_ns { delta } else { 0 };
        }
    }

    fn prio_changed(&self, s: &mut Sched, cpu: CpuId, pid: Pid, _old_prio: u8) {
        if s.rqs[cpu.at()].curr == pid {
            let first = s.rqs[cpu.at()].dl.queue.first();
            let later = first.is_some_and(|e| e.2 != pid);
            s.rqs[cpu.at()].need_resched |= later;
        } else {
            self.wakeup_preempt(s, cpu, pid, false);
        }
    }

    fn switched_to(&self, s: &mut Sched, cpu: CpuId, pid: Pid) {
        if s.tasks[pid.at()].on_rq != OnRq::Queued {
            return dl_bandwidth::add_rq_bw(s, cpu, pid);
        }
        if s.rqs[cpu.at()].curr != pid {
            self.wakeup_preempt(s, cpu, pid, false);
        }
    }

    fn switched_from(&self, s: &mut Sched, cpu: CpuId, pid: Pid) {
        s.cancel_hrtimer(cpu, Hrtimer::Replenish(pid));
        let dl = &mut s.tasks[pid.at()].dl;
        (dl.throttled, dl.yielded) = (false, false);
        dl_bandwidth::switched_from(s, cpu, pid);
    }

    fn migrate_task_rq(&self, s: &mut Sched, pid: Pid, _new_cpu: CpuId) {
        dl_bandwidth::migrate_task_rq(s, pid);
    }
}

impl Deadline {
    /// Budget that `delta` ns of running cost.
    fn scaled_delta_exec(&self, s: &Sched, cpu: CpuId, pid: Pid, delta: u64) -> u64 {
        let rq = &s.rqs[cpu.at()];
        match self.reclaim {
            Some(reclaim) => dl_bandwidth::grub_reclaim(&rq.dl, s.tasks[pid.at()].dl.dl_bw, reclaim, delta),
            None if s.dl_generation == Generation::V4_10 => delta,
            // cap_scale, twice
            None => (((delta * u64::from(rq.freq_cap)) >> 10) * u64::from(rq.cpu_capacity_orig)) >> 10,
        }
    }
}

/// `HRTICK_DL`: a look at the budget when it ends at full speed, not before 10 µs.
fn start_hrtick_dl(s: &mut Sched, cpu: CpuId, pid: Pid) {
    let dl = &s.tasks[pid.at()].dl;
    if s.features.hrtick_dl && !dl.throttled && dl.runtime > 0 {
        let at = s.rqs[cpu.at()].clock + (dl.runtime as u64).max(10_000);
        s.start_hrtimer(cpu, Hrtimer::Hrtick, at);
    }
}

/// A throttled task's next period began (`dl_task_timer`): budget and deadline advance, and it is queued if it is runnable.
/// The caller updated the clock of its CPU, and checks for preemption if this says so.
pub fn dl_task_timer(s: &mut Sched, cpu: CpuId, pid: Pid) -> bool {
    let task = &s.tasks[pid.at()];
    if !task.is_dl() || task.dl.is_boosted() || !task.dl.throttled {
        return false;
    }
    let now = s.rqs[cpu.at()].clock;
    if task.on_rq != OnRq::Queued {
        let params = task.dl.params();
        replenish_dl_entity(&mut s.tasks[pid.at()].dl, params, now);
        return false;
    }
    let yielded = task.dl.yielded;
    enqueue_dl_entity(s, cpu, pid, Enqueue { replenish: true, ..Enqueue::default() });
    if yielded {
        s.tasks[pid.at()].dl.release = Some(now);
    }
    true
}

fn enqueue_dl_entity(s: &mut Sched, cpu: CpuId, pid: Pid, flags: Enqueue) {
    let now = s.rqs[cpu.at()].clock;
    check_constrained_dl(s, cpu, pid, now);
    if flags.restore || flags.initial || s.tasks[pid.at()].on_rq == OnRq::Migrating {
        dl_bandwidth::add_rq_bw(s, cpu, pid);
        dl_bandwidth::add_running_bw(s, cpu, pid);
    }
    if flags.wakeup {
        dl_bandwidth::task_contending(s, cpu, pid, flags.migrated);
    }
    if flags.wakeup || flags.initial {
        begin_job(&mut s.tasks[pid.at()].dl, now);
    }
    let (params, generation) = (pi_of(s, pid), s.dl_generation);
    let dl = &mut s.tasks[pid.at()].dl;
    if dl.throttled && !flags.replenish {
        return; // the timer will queue it
    }
    if flags.wakeup {
        update_dl_entity(dl, params, now, generation);
    } else if flags.replenish {
        replenish_dl_entity(dl, params, now);
    } else if (flags.restore || flags.initial) && (dl.deadline < now || dl.deadline == 0) {
        replenish_dl_new_period(dl, params, now);
    }
    let deadline = dl.deadline;
    insert(s, cpu, deadline, pid);
    s.rqs[cpu.at()].nr_running += 1;
}

/// A job is released when its timer was due, or now.
fn begin_job(dl: &mut DlEntity, now: u64) {
    dl.release = Some(dl.next_release.take().map_or(now, |due| due.min(now)));
}

/// Behind those of the same deadline.
pub(super) fn insert(s: &mut Sched, cpu: CpuId, deadline: u64, pid: Pid) {
    let dl = &mut s.rqs[cpu.at()].dl;
    dl.order += 1;
    dl.queue.insert((deadline, dl.order, pid));
    dl.dl_nr_running += 1;
}

/// Nothing happens to a task that is not queued because it is throttled.
fn dequeue_dl_entity(s: &mut Sched, cpu: CpuId, pid: Pid) {
    let rq = &mut s.rqs[cpu.at()];
    if rq.dl.queue.take(|e| e.2 == pid).is_some() {
        rq.dl.dl_nr_running -= 1;
        rq.nr_running -= 1;
    }
}

/// Budget used up: off the queue until the next period; at once a new budget if that has begun already.
fn throttle(s: &mut Sched, cpu: CpuId, pid: Pid) {
    dequeue_dl_entity(s, cpu, pid);
    s.tasks[pid.at()].dl.throttled = true;
    if s.tasks[pid.at()].dl.is_boosted() || !start_dl_timer(s, cpu, pid) {
        enqueue_dl_entity(s, cpu, pid, Enqueue { replenish: true, ..Enqueue::default() });
    }
    let rq = &mut s.rqs[cpu.at()];
    rq.need_resched |= rq.dl.queue.first().is_none_or(|e| e.2 != pid);
}

/// `dl_next_period`.
fn next_period(dl: &DlEntity) -> u64 {
    (dl.deadline - dl.dl_deadline) + dl.dl_period
}

/// A timer for the next period, in 4.10 for the deadline; false if that has begun, or is over.
fn start_dl_timer(s: &mut Sched, cpu: CpuId, pid: Pid) -> bool {
    let (dl, now) = (&s.tasks[pid.at()].dl, s.rqs[cpu.at()].clock);
    let at = if s.dl_generation == Generation::V4_10 { dl.deadline } else { next_period(dl) };
    if at < now {
        return false;
    }
    s.start_hrtimer(cpu, Hrtimer::Replenish(pid), at);
    true
}

/// Deadline shorter than the period: who comes after the one and before the other has had its turn (4.12).
fn check_constrained_dl(s: &mut Sched, cpu: CpuId, pid: Pid, now: u64) {
    let dl = &s.tasks[pid.at()].dl;
    let implicit = dl.dl_deadline == dl.dl_period || s.dl_generation == Generation::V4_10;
    if dl.throttled || implicit || dl.is_boosted() || dl.deadline >= now || dl.deadline == 0 || next_period(dl) <= now {
        return;
    }
    if start_dl_timer(s, cpu, pid) {
        let dl = &mut s.tasks[pid.at()].dl;
        dl.throttled = true;
        dl.runtime = dl.runtime.min(0);
    }
}

/// `pi_of`: the parameters that count now.
fn pi_of(s: &Sched, pid: Pid) -> Params {
    let dl = &s.tasks[pid.at()].dl;
    let from = if dl.is_boosted() { &s.tasks[dl.boosted_by.at()].dl } else { dl };
    from.params()
}

/// A wakee goes on with what it has, if that harms nobody; else it starts a new period, or takes what does no harm.
fn update_dl_entity(dl: &mut DlEntity, params: Params, now: u64, generation: Generation) {
    let late = dl.deadline < now || dl.deadline == 0;
    let old = generation == Generation::V4_10;
    // 2317d5f1c349 (4.12): of the deadline, no longer of the period.
    let share_of = if old { Params { deadline: params.period, ..params } } else { params };
    if !late && !dl_entity_overflow(dl, share_of, now) {
        return;
    }
    let implicit = dl.dl_deadline == dl.dl_period || old;
    if !implicit && !late && !dl.is_boosted() {
        // update_dl_revised_wakeup
        let laxity = dl.deadline - now;
        dl.runtime = ((u128::from(dl.dl_density) * u128::from(laxity)) >> 20) as i64;
        return;
    }
    replenish_dl_new_period(dl, params, now);
}

/// Would the rest of the budget until the deadline be more than its bandwidth?
pub(super) fn dl_entity_overflow(dl: &DlEntity, params: Params, now: u64) -> bool {
    // The kernel cuts to µs to stay within 64 bits.
    let left = (params.deadline >> 10).wrapping_mul((dl.runtime >> 10) as u64);
    let right = ((dl.deadline - now) >> 10).wrapping_mul(params.runtime >> 10);
    (right.wrapping_sub(left) as i64) < 0
}

pub(super) fn replenish_dl_new_period(dl: &mut DlEntity, params: Params, now: u64) {
    dl.deadline = now + params.deadline;
    dl.runtime = params.runtime as i64;
}

/// Periods go by until the overrun is paid; if that leaves the deadline in the past, a new period starts now.
pub(super) fn replenish_dl_entity(dl: &mut DlEntity, params: Params, now: u64) {
    if dl.dl_deadline == 0 {
        // Not of this class by itself: it goes on with the parameters that are lent to it.
        replenish_dl_new_period(dl, params, now);
    }
    if dl.yielded && dl.runtime > 0 {
        dl.runtime = 0;
    }
    if dl.runtime <= 0 {
        let periods = dl.runtime.unsigned_abs() / params.runtime + 1;
        dl.deadline += periods * params.period;
        dl.runtime += (periods * params.runtime) as i64;
    }
    if dl.deadline < now {
        replenish_dl_new_period(dl, params, now);
    }
    (dl.throttled, dl.yielded) = (false, false);
}

#[cfg(test)]
#[path = "deadline_tests.rs"]
mod tests;
