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
//! | `time_slice` | ticks | `sched_rr_timeslice_ms` at a turn's start | every tick |
//! | `rt_time` | ns | time that the class ran on a CPU | every tick and switch |
//! | tick | `tick_ns` | `core` | every tick |
//!
//! # Decision
//! 1. Pick the first of the most urgent priority that is queued; a preempted task stays first. A task whose priority was
//!    raised queues behind its new equals, one whose priority was lowered before them.
//! 2. A wakee of a strictly more urgent priority preempts. One of the same priority does if it may run nowhere else and the
//!    running task may.
//! 3. SCHED_RR: at the tick that ends the quantum (100 ms of ticks), to the end of its priority, if it is not alone there. A
//!    preempted or sleeping task keeps the rest of its quantum.
//! 4. Placement of a wakee: the CPU it was on, unless a real-time task runs there that it does not preempt or that may not
//!    move; then one of the CPUs with the least urgent work (`find_lowest_rq`). With `capacity_aware` (5.6) a CPU smaller than
//!    the task's `uclamp_min` is left too, and one that is not is preferred. In `5.6` it goes nowhere if all that it could have are
//!    smaller, no smaller one pulls it, and a wakee on a smaller one has its CPU push; since `5.7` size is a wish. Deadline work
//!    is the most urgent with `cpupri_higher` (5.11); before, a CPU that has no other is taken for one without real-time work.
//! 5. A CPU where a real-time task has to wait pushes it, after each wake-up and switch, to a CPU where it may run at once
//!    ([`push_rt_task`]); a CPU whose real-time task leaves, or becomes less urgent, pulls the most urgent one that waits
//!    elsewhere ([`pull_rt_task`]). With the feature RT_PUSH_IPI (4.1) it goes on with what it has, and sends an interrupt that goes
//!    from one CPU where such tasks wait to the next; each pushes what it can, not necessarily to the CPU that asked. `sched/rt_balance.rs` says when. Until 6.6 only where two real-time tasks are queued on the
//!    CPU it comes from; since 6.7 (`generation = "6.12"`) also one that waits behind a deadline task. Of CPUs that are equally
//!    near it takes the first, since 5.11 each in turn (`select_task_rq_fair.affinity`).
//! 6. `generation = "6.1"`: of every `sched_rt_period_us` the class gets `sched_rt_runtime_us` on a CPU, even if nobody else
//!    wants the rest; deadline tasks use it up too. What it ran too long, up to a tick, is taken off the next period. With
//!    the feature RT_RUNTIME_SHARE (on until 5.9) a CPU borrows from the others first. `"6.12"`: no such limit; fair tasks that
//!    starve are served by the deadline class instead, see `deadline`.
//!
//! Worked example: priorities 10 (running) and 50 (wakes up) on one CPU: 50 runs at once, 10 goes on where it was. Both spin
//! from 0 on under 6.1 at 250 Hz: 50 runs until the tick at 952 ms, nobody until 1 s, 50 from then until 1.952 s,
//! and from 2 s until 2.948 s, as 4 ms of overrun are taken off.
//!
//! # State and cost
//! One sorted queue per CPU. O(tasks queued) per operation, which are few; O(CPUs) for a push or pull.
//!
//! # Where it fails
//! A spinning task of high priority starves everything below on its CPU for nearly a second. Pushing looks at priorities
//! only: a task goes to a CPU in a deep idle state as gladly as to one that is awake.
//!
//! # Differences from the kernel
//! FIDELITY(rt-push-ipi): one interrupt goes round for all CPUs that ask, as since 4.15; before, each had its own. No vectors exist.
//!
//! # Source
//! Linux 6.1 and 6.12 `kernel/sched/rt.c`, `cpupri.c` (behaviour); commits 804d402fb6f6 (5.6) for `capacity_aware` and those of
//! 5.7 that soften it (d9cb236b9429, 98ca645f8243, d94a9df49069), 612f769edd06 (6.7) for what is pulled,
//! 14e292f8d453 (5.11) for taking turns, b13772f81356 (5.11) for `cpupri_higher`.

use super::{Dequeue, Enqueue, SchedClass, util_change, util_ran};
use crate::registry::{Tunable, meant};
use crate::sched::load::pelt;
use crate::sched::placement::{Choice, Request};
use crate::sched::rq::{Distribute, Rq, cpumask_any};
use crate::sched::task::OnRq;
use crate::sched::{Hrtimer, Sched};
use wattif_model::trace::PlacementReason;
use wattif_model::workload::Policy;
use wattif_model::{CpuId, CpuSet, Pid};

/// Tunables of this policy.
pub const TUNABLES: &[Tunable] = &[
    Tunable {
        name: "generation",
        default: "6.12",
        allowed: &["6.1", "6.12"],
        doc: "6.1: limited to sched_rt_runtime_us per period; 6.12: not limited, starving fair tasks have a server, and a task alone behind a deadline task is pulled (6.7)",
    },
    Tunable {
        name: "capacity_aware",
        default: "5.7",
        allowed: &CapacityAware::NAMES,
        doc: "a wakee looks for a CPU of at least its uclamp_min, all of it unless it asks for less (5.6); 5.6: if there is none, no other will do; 5.7: one that is too small will",
    },
    Tunable {
        name: "cpupri_higher",
        default: "true",
        allowed: &["true", "false"],
        doc: "no real-time task goes to a CPU with deadline work (5.11); false: without real-time work it is as good as any (CPUPRI_NORMAL)",
    },
    Tunable {
        name: "sched_rt_runtime_us",
        default: "950000",
        allowed: &["-1", "0..=1000000000000"],
        doc: "real-time budget per period and CPU, µs; -1: no limit. Also the share that deadline tasks are admitted to",
    },
    Tunable {
        name: "sched_rt_period_us",
        default: "1000000",
        allowed: &["1..=2147483647"],
        doc: "the period of that budget, µs",
    },
    Tunable {
        name: "sched_rr_timeslice_ms",
        default: "100",
        allowed: &["0..=2147483647"],
        doc: "quantum of SCHED_RR, ms; 0: 100 ms, as in the kernel",
    },
];

/// `rt.capacity_aware`: what the size of CPUs is to real-time tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CapacityAware {
    /// `false`: nothing, until 5.5.
    Off,
    /// `5.6`: a CPU that is smaller than the task's `uclamp_min` is out of the question.
    V5_6,
    /// `5.7`: one that is not is preferred.
    #[default]
    V5_7,
}

impl CapacityAware {
    /// The values of the tunable.
    pub const NAMES: [&'static str; 3] = ["false", "5.6", "5.7"];

    /// From the tunable's value.
    pub fn parse(name: &str) -> Option<CapacityAware> {
        meant(CapacityAware::NAMES, [CapacityAware::Off, CapacityAware::V5_6, CapacityAware::V5_7], name)
    }
}

/// The class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rt {
    /// A turn of SCHED_RR, ms (`sched_rr_timeslice_ms`).
    pub rr_timeslice_ms: u64,
}

/// `struct rt_bandwidth`: so much of every period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtBandwidth {
    /// Budget, ns.
    pub runtime_ns: u64,
    /// Period, ns.
    pub period_ns: u64,
}

impl Default for Rt {
    fn default() -> Rt {
        Rt { rr_timeslice_ms: 100 }
    }
}

impl SchedClass for Rt {
    fn enqueue_task(&self, s: &mut Sched, cpu: CpuId, pid: Pid, flags: Enqueue) {
        let task = &mut s.tasks[pid.at()];
        let (prio, kept) = (task.prio, task.rt.saved.take());
        let rt = &mut s.rqs[cpu.at()].rt;
        let order = match kept {
            Some((old, order)) if flags.restore && old == prio => order,
            _ if flags.head => rt.next_head(),
            _ => rt.next_tail(),
        };
        rt.queue.insert((prio, order, pid));
        rt.rt_nr_running += 1;
        s.rd.rto_count += u32::from(rt.rt_nr_running == s.rt_overload);
        let rq = &mut s.rqs[cpu.at()];
        rq.nr_running += u32::from(!rq.rt.throttled);
        util_change(s, cpu);
        if s.rd.rt_bandwidth.is_some() && s.rd.rt_period_expires.is_none() {
            // The timer fires at once and starts the first period.
            let now = s.now;
            s.rd.rt_period_expires = Some(now);
            s.start_hrtimer(cpu, Hrtimer::RtPeriod, now);
        }
    }

    fn dequeue_task(&self, s: &mut Sched, cpu: CpuId, pid: Pid, flags: Dequeue) -> bool {
        self.update_curr(s, cpu);
        let rq = &mut s.rqs[cpu.at()];
        let (prio, order, _) = rq.rt.queue.take(|e| e.2 == pid).expect("a queued real-time task is in the queue");
        s.tasks[pid.at()].rt.saved = flags.save.then_some((prio, order));
        rq.rt.rt_nr_running -= 1;
        s.rd.rto_count -= u32::from(rq.rt.rt_nr_running + 1 == s.rt_overload);
        rq.nr_running -= u32::from(!rq.rt.throttled);
        util_change(s, cpu);
        true
    }

    fn yield_task(&self, s: &mut Sched, cpu: CpuId) {
        requeue_task_rt(s, cpu, s.rqs[cpu.at()].curr, false);
    }

    fn wakeup_preempt(&self, s: &mut Sched, cpu: CpuId, pid: Pid, _fork: bool) {
        let curr = s.rqs[cpu.at()].curr;
        if curr == Pid(0) || preempts(s, pid, curr) {
            s.rqs[cpu.at()].need_resched = true;
        } else if s.tasks[pid.at()].prio == s.tasks[curr.at()].prio && !s.rqs[cpu.at()].need_resched {
            check_preempt_equal_prio(s, cpu, pid);
        }
    }

    fn pick_task(&self, s: &mut Sched, cpu: CpuId) -> Option<Pid> {
        let rt = &s.rqs[cpu.at()].rt;
        rt.queue.first().filter(|_| !rt.throttled).map(|e| e.2)
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
        // `msecs_to_jiffies` rounds up.
        let slice = (self.rr_timeslice_ms * s.hz).div_ceil(1000) as u32;
        let rq = &mut s.rqs[cpu.at()];
        // No call of the frequency governor: it hears when such a task comes and goes.
        pelt::update_rt_rq_load_avg(rq, true);
        let task = &mut s.tasks[pid.at()];
        if task.policy != Policy::Rr {
            return;
        }
        // 0: it never had a turn.
        let left = if task.rt.time_slice == 0 { slice } else { task.rt.time_slice } - 1;
        task.rt.time_slice = if left == 0 { slice } else { left };
        let prio = task.prio;
        if left == 0 && rq.rt.queue.iter().any(|e| e.0 == prio && e.2 != pid) {
            requeue_task_rt(s, cpu, pid, false);
            s.rqs[cpu.at()].need_resched = true;
        }
    }

    fn update_curr(&self, s: &mut Sched, cpu: CpuId) {
        let rq = &s.rqs[cpu.at()];
        let task = &mut s.tasks[rq.curr.at()];
        if rq.curr == Pid(0) || !task.is_rt() {
            return;
        }
        let delta = rq.clock_task.wrapping_sub(task.rt.exec_start);
        if delta as i64 <= 0 {
            return;
        }
        task.rt.exec_start = rq.clock_task;
        task.rt.sum_exec_runtime += delta;
        util_ran(s, cpu, false);
        s.rqs[cpu.at()].add_rt_avg(delta);
        if let Some(bandwidth) = s.rd.rt_bandwidth {
            s.rqs[cpu.at()].rt.rt_time += delta;
            sched_rt_runtime_exceeded(s, cpu, bandwidth);
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
            s.rqs[cpu.at()].need_resched |= preempts(s, pid, curr);
        }
    }
}

fn preempts(s: &Sched, pid: Pid, curr: Pid) -> bool {
    let (p, c) = (&s.tasks[pid.at()], &s.tasks[curr.at()]);
    curr == Pid(0) || (!c.is_dl() && p.prio < c.prio)
}

/// Equal priorities: the one that can run nowhere else goes first, if the running one can.
fn check_preempt_equal_prio(s: &mut Sched, cpu: CpuId, pid: Pid) {
    let curr = s.rqs[cpu.at()].curr;
    if cpupri_find(s, curr, |_| true).is_empty() || !cpupri_find(s, pid, |_| true).is_empty() {
        return;
    }
    requeue_task_rt(s, cpu, pid, true);
    s.rqs[cpu.at()].need_resched = true;
}

/// Behind, or before, the others of its priority.
fn requeue_task_rt(s: &mut Sched, cpu: CpuId, pid: Pid, head: bool) {
    let rt = &mut s.rqs[cpu.at()].rt;
    if let Some((prio, _, pid)) = rt.queue.take(|e| e.2 == pid) {
        let order = if head { rt.next_head() } else { rt.next_tail() };
        rt.queue.insert((prio, order, pid));
    }
}

// ---- bandwidth -----------------------------------------------------------------------------------------------------

/// Throttles the class on a CPU that used up its budget of this period.
fn sched_rt_runtime_exceeded(s: &mut Sched, cpu: CpuId, b: RtBandwidth) {
    let rq = &mut s.rqs[cpu.at()];
    if rq.rt.throttled {
        rq.need_resched = true;
        return;
    }
    if rq.rt.rt_runtime >= b.period_ns {
        return;
    }
    balance_runtime(s, cpu, b.period_ns);
    let rq = &mut s.rqs[cpu.at()];
    if rq.rt.rt_time <= rq.rt.rt_runtime {
        return;
    }
    if b.runtime_ns == 0 {
        // It would never be replenished: none are throttled.
        rq.rt.rt_time = 0;
        return;
    }
    rq.rt.throttled = true;
    rq.nr_running -= rq.rt.rt_nr_running;
    rq.need_resched = true;
    util_change(s, cpu);
}

/// RT_RUNTIME_SHARE: a CPU in need takes its part of what each other one has left, up to the whole period.
fn balance_runtime(s: &mut Sched, cpu: CpuId, period_ns: u64) {
    let (need, nr_cpus) = (&s.rqs[cpu.at()].rt, s.nr_cpus());
    if !s.features.rt_runtime_share || need.rt_time <= need.rt_runtime {
        return;
    }
    for other in (0..nr_cpus).filter(|&c| c != cpu.at()) {
        let spare = s.rqs[other].rt.rt_runtime.saturating_sub(s.rqs[other].rt.rt_time) / nr_cpus as u64;
        let taken = spare.min(period_ns - s.rqs[cpu.at()].rt.rt_runtime);
        s.rqs[other].rt.rt_runtime -= taken;
        s.rqs[cpu.at()].rt.rt_runtime += taken;
        if s.rqs[cpu.at()].rt.rt_runtime == period_ns {
            return;
        }
    }
}

/// A period has ended: what a CPU used of it is forgiven. True if its real-time tasks may need the CPU now. The caller
/// updated its clock.
pub fn do_sched_rt_period_timer(s: &mut Sched, cpu: CpuId, b: RtBandwidth) -> bool {
    let share = s.features.rt_runtime_share;
    if !share {
        s.rqs[cpu.at()].rt.rt_runtime = b.runtime_ns;
    } else if s.rqs[cpu.at()].rt.throttled {
        balance_runtime(s, cpu, b.period_ns);
    }
    let rq = &mut s.rqs[cpu.at()];
    let rt = &mut rq.rt;
    rt.rt_time = rt.rt_time.saturating_sub(rt.rt_runtime);
    if rt.throttled && rt.rt_time < rt.rt_runtime {
        rt.throttled = false;
        let waiting = rt.rt_nr_running;
        rq.nr_running += waiting;
        util_change(s, cpu);
        return waiting > 0;
    }
    false
}

// ---- placement -----------------------------------------------------------------------------------------------------

/// `select_task_rq_rt`: where a woken or new real-time task goes.
pub fn select_task_rq(s: &mut Sched, req: &Request) -> Choice {
    let (pid, prev) = (req.pid, allowed(s, req));
    let curr = &s.tasks[s.rqs[prev.at()].curr.at()];
    let task = &s.tasks[pid.at()];
    let runs_rt = curr.pid != Pid(0) && curr.prio < 100;
    let blocked = runs_rt && (curr.nr_cpus_allowed < 2 || curr.prio <= task.prio);
    let mut cpu = prev;
    if task.nr_cpus_allowed > 1 && (blocked || !rt_task_fits_capacity(s, pid, prev)) {
        let target = find_lowest_rq(s, pid, req.this_cpu);
        let better = |c: &CpuId| highest_prio(&s.rqs[c.at()]) > s.tasks[pid.at()].prio;
        let suits = |c: &CpuId| blocked || rt_task_fits_capacity(s, pid, *c);
        cpu = target.filter(suits).filter(better).unwrap_or(prev);
    }
    Choice { cpu, reason: PlacementReason::Priority, target: cpu, scanned: 0 }
}

/// The previous CPU, or one that is allowed.
pub(super) fn allowed(s: &Sched, req: &Request) -> CpuId {
    let cpus = &s.tasks[req.pid.at()].cpus;
    if cpus.contains(req.prev_cpu) { req.prev_cpu } else { cpus.min().expect("a task may run somewhere") }
}

/// `rt_rq->highest_prio.curr`; 99 when there is none.
pub fn highest_prio(rq: &Rq) -> u8 {
    rq.rt.queue.first().map_or(99, |e| e.0)
}

/// `cpupri`'s level of a CPU: 0 no real-time work, 1..=99 its highest priority, 100 deadline work (`CPUPRI_HIGHER`).
fn cpupri(s: &Sched, cpu: CpuId) -> u8 {
    let rq = &s.rqs[cpu.at()];
    if s.cpupri_higher && rq.dl.dl_nr_running > 0 { 100 } else { 99 - highest_prio(rq) }
}

/// `rt_task_fits_capacity`; before 5.6 nobody asked.
pub fn rt_task_fits_capacity(s: &Sched, pid: Pid, cpu: CpuId) -> bool {
    let task = &s.tasks[pid.at()];
    s.rt_capacity_aware == CapacityAware::Off
        || s.rqs[cpu.at()].cpu_capacity_orig >= task.uclamp_min.min(task.uclamp_max)
}

/// `cpupri_find_fitness`: the CPUs of the lowest level at which some CPU is below the task and large enough for it; since 5.7 large
/// enough or not if there is none. Empty: it would have to wait everywhere.
fn cpupri_find(s: &Sched, pid: Pid, fits: impl Fn(CpuId) -> bool) -> CpuSet {
    let task = &s.tasks[pid.at()];
    let mut found = CpuSet::default();
    if task.nr_cpus_allowed == 1 {
        return found;
    }
    let below = || task.cpus.iter().filter(|&c| c.at() < s.rqs.len() && cpupri(s, c) < 99 - task.prio);
    let key = |c: CpuId| (!fits(c), cpupri(s, c));
    let strict = s.rt_capacity_aware == CapacityAware::V5_6;
    if let Some(best) = below().map(key).min().filter(|best| !best.0 || !strict) {
        // Without one that fits, the level alone counts.
        let same = |c: &CpuId| if best.0 { key(*c).1 == best.1 } else { key(*c) == best };
        below().filter(same).for_each(|c| found.insert(c));
    }
    found
}

/// `find_lowest_rq`: of the CPUs with the least urgent work the one the task is on, else the one that asks, else one that
/// is near; since 5.11 in turn.
fn find_lowest_rq(s: &mut Sched, pid: Pid, this_cpu: CpuId) -> Option<CpuId> {
    let lowest = cpupri_find(s, pid, |c| rt_task_fits_capacity(s, pid, c));
    nearest(s, pid, this_cpu, &lowest)
}

/// The task's own CPU, else level by level upwards from there: this CPU, or one of the level, see [`cpumask_any`].
pub(super) fn nearest(s: &mut Sched, pid: Pid, this_cpu: CpuId, mask: &CpuSet) -> Option<CpuId> {
    let cpu = s.tasks[pid.at()].cpu;
    if mask.is_empty() || mask.contains(cpu) {
        return (!mask.is_empty()).then_some(cpu);
    }
    let levels = s.topology.of_cpu.get(cpu.at()).map_or(0, Vec::len);
    for level in 0..levels {
        let domain = s.topology.of_cpu[cpu.at()][level];
        let span = &s.topology.domains[domain].span;
        if mask.contains(this_cpu) && span.contains(this_cpu) {
            return Some(this_cpu);
        }
        let near = mask.and(span);
        if let Some(best) = cpumask_any(s, this_cpu, &near, Distribute::Pushes) {
            return Some(best);
        }
    }
    if mask.contains(this_cpu) { Some(this_cpu) } else { cpumask_any(s, this_cpu, mask, Distribute::Pushes) }
}

/// What a push is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Push {
    /// Nobody waits, or there is nowhere to go.
    Nothing,
    /// The waiter goes before the running task: look again here.
    Resched,
    /// Move it.
    Move(Pid, CpuId),
}

/// The most urgent task that waits on `cpu` and may move, and where it would run at once.
pub fn push_rt_task(s: &mut Sched, cpu: CpuId, this_cpu: CpuId) -> Push {
    let rq = &s.rqs[cpu.at()];
    let Some(pid) = rq.rt.queue.iter().map(|e| e.2).find(|&p| is_pushable(s, cpu, p)) else { return Push::Nothing };
    let curr = &s.tasks[rq.curr.at()];
    if curr.pid == Pid(0) || (!curr.is_dl() && s.tasks[pid.at()].prio < curr.prio) {
        return Push::Resched;
    }
    match find_lowest_rq(s, pid, this_cpu) {
        Some(to) if to != cpu && highest_prio(&s.rqs[to.at()]) > s.tasks[pid.at()].prio => Push::Move(pid, to),
        _ => Push::Nothing,
    }
}

/// A task that waits on `from` and would run at once on `cpu`: the most urgent, unless it is about to run where it is.
pub fn pull_rt_task(s: &Sched, cpu: CpuId, from: CpuId) -> Option<Pid> {
    let src = &s.rqs[from.at()];
    if from == cpu || src.rt.rt_nr_running < s.rt_overload {
        return None;
    }
    let fits = |p| s.rt_capacity_aware != CapacityAware::V5_6 || rt_task_fits_capacity(s, p, cpu);
    let mine = |p: Pid| is_pushable(s, from, p) && s.tasks[p.at()].cpus.contains(cpu) && fits(p);
    let (prio, _, pid) = src.rt.queue.iter().copied().find(|e| mine(e.2))?;
    let runs_next = src.curr == Pid(0) || prio < s.tasks[src.curr.at()].prio;
    (prio < highest_prio(&s.rqs[cpu.at()]) && !runs_next).then_some(pid)
}

/// `rt_rq->overloaded`: until 6.6 two real-time tasks, one of which may move; since then one that waits and may.
pub fn is_overloaded(s: &Sched, cpu: CpuId) -> bool {
    let mut queued = s.rqs[cpu.at()].rt.queue.iter().map(|e| e.2);
    match s.rt_overload {
        1 => queued.any(|p| is_pushable(s, cpu, p)),
        _ => queued.len() > 1 && queued.any(|p| s.tasks[p.at()].nr_cpus_allowed > 1),
    }
}

fn is_pushable(s: &Sched, cpu: CpuId, pid: Pid) -> bool {
    let task = &s.tasks[pid.at()];
    s.rqs[cpu.at()].curr != pid && task.nr_cpus_allowed > 1 && task.on_rq == OnRq::Queued
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::class::fair::tests::spawn;
    use crate::sched::load::rt_avg;
    use crate::sched::placement::Kind;
    use wattif_model::CpuSet;

    const RT: Rt = Rt { rr_timeslice_ms: 100 };

    fn rt_task(s: &mut Sched, policy: Policy, rt_priority: u8, cpu: u32) -> Pid {
        let pid = spawn(s, 0);
        let task = &mut s.tasks[pid.at()];
        (task.policy, task.rt_priority, task.prio, task.cpu) = (policy, rt_priority, 99 - rt_priority, CpuId(cpu));
        (task.cpus, task.nr_cpus_allowed) = (CpuSet::first(s.rqs.len()), s.rqs.len() as u32);
        RT.enqueue_task(s, CpuId(cpu), pid, Enqueue { wakeup: true, ..Enqueue::default() });
        s.tasks[pid.at()].on_rq = OnRq::Queued;
        pid
    }

    fn run(s: &mut Sched, cpu: u32) -> Pid {
        let cpu = CpuId(cpu);
        let next = RT.pick_task(s, cpu).expect("something is queued");
        let prev = s.rqs[cpu.at()].curr;
        if prev != Pid(0) {
            RT.put_prev_task(s, cpu, prev);
        }
        RT.set_next_task(s, cpu, next, true);
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
        RT.wakeup_preempt(&mut s, CpuId(0), b, false);
        assert!(!s.rqs[0].need_resched, "an equal priority does not preempt");
        RT.wakeup_preempt(&mut s, CpuId(0), c, false);
        assert!(s.rqs[0].need_resched);
        assert_eq!(run(&mut s, 0), c);
        RT.dequeue_task(&mut s, CpuId(0), c, Dequeue { sleep: true, ..Dequeue::default() });
        s.rqs[0].curr = Pid(0);
        assert_eq!(run(&mut s, 0), a);
    }

    #[test]
    fn round_robin_rotates_after_100_ms() {
        let mut s = Sched::bare(1, 4_000_000);
        s.rqs[0].rt_avg.generation = rt_avg::Generation::V4_1;
        let (a, b) = (rt_task(&mut s, Policy::Rr, 10, 0), rt_task(&mut s, Policy::Rr, 10, 0));
        assert_eq!(run(&mut s, 0), a);
        s.rqs[0].util_changed = false;
        for tick in 1..=25u64 {
            assert!(!s.rqs[0].need_resched, "tick {tick}");
            pelt::update_rq_clock(&mut s.rqs[0], tick * 4_000_000);
            RT.task_tick(&mut s, CpuId(0), a);
        }
        assert!(s.rqs[0].need_resched && !s.rqs[0].util_changed, "ticks tell the frequency governor nothing");
        assert_eq!(run(&mut s, 0), b);
        assert_eq!(s.tasks[a.at()].rt.sum_exec_runtime, 100_000_000);
        assert!(s.rqs[0].avg_rt.util_avg > 800);
        assert_eq!(s.rqs[0].rt_avg_util(), Some(1024 * 100 / 600));
    }

    #[test]
    fn the_stopper_uses_no_real_time_budget_and_no_real_time_utilisation() {
        let mut s = Sched::bare(2, 4_000_000);
        s.rd.rt_bandwidth = Some(RtBandwidth { runtime_ns: 950_000_000, period_ns: 1_000_000_000 });
        s.rqs[0].rt_avg.generation = rt_avg::Generation::V4_1;
        let moved = rt_task(&mut s, Policy::Fifo, 10, 0);
        let stopper = spawn(&mut s, 0);
        (s.tasks[stopper.at()].stopper, s.tasks[stopper.at()].prio) = (true, 0);
        s.rqs[0].curr = stopper;
        pelt::update_rq_clock(&mut s.rqs[0], 3_000_000_000);
        RT.dequeue_task(&mut s, CpuId(0), moved, Dequeue::default());
        crate::sched::class::fair::update_blocked_averages(&mut s, CpuId(0));
        assert_eq!((s.rqs[0].rt.rt_time, s.rqs[0].rt.throttled, s.rqs[0].avg_rt.util_avg), (0, false, 0));
        assert_eq!(s.rqs[0].rt_avg_util(), Some(0));
    }

    #[test]
    fn a_lone_task_behind_a_deadline_task_is_pulled_since_6_7() {
        for (overload, count) in [(2, 0), (1, 1)] {
            let mut s = Sched::bare(2, 4_000_000);
            s.rt_overload = overload;
            let waiter = rt_task(&mut s, Policy::Fifo, 10, 0);
            let deadline = spawn(&mut s, 0);
            (s.tasks[deadline.at()].policy, s.tasks[deadline.at()].prio) = (Policy::Deadline, 0);
            s.rqs[0].curr = deadline;
            assert_eq!(s.rd.rto_count, count);
            assert_eq!(pull_rt_task(&s, CpuId(1), CpuId(0)), (overload == 1).then_some(waiter));
            RT.dequeue_task(&mut s, CpuId(0), waiter, Dequeue { sleep: true, ..Dequeue::default() });
            assert_eq!(s.rd.rto_count, 0);
        }
    }

    #[test]
    fn a_waiting_task_goes_to_a_cpu_with_deadline_work_until_5_10() {
        for (higher, expect) in [(false, Some(CpuId(1))), (true, None)] {
            let mut s = Sched::bare(2, 4_000_000);
            s.cpupri_higher = higher;
            rt_task(&mut s, Policy::Fifo, 50, 0);
            run(&mut s, 0);
            let waiter = rt_task(&mut s, Policy::Fifo, 10, 0);
            s.rqs[1].dl.dl_nr_running = 1;
            assert_eq!(find_lowest_rq(&mut s, waiter, CpuId(0)), expect);
        }
    }

    #[test]
    fn a_wakee_leaves_a_small_cpu_since_5_6() {
        use CapacityAware::{Off, V5_6, V5_7};
        for (aware, expect) in [(Off, 0), (V5_6, 1), (V5_7, 1)] {
            let mut s = Sched::bare(2, 4_000_000);
            (s.rt_capacity_aware, s.rqs[0].cpu_capacity_orig) = (aware, 462);
            let pid = rt_task(&mut s, Policy::Fifo, 50, 0);
            RT.dequeue_task(&mut s, CpuId(0), pid, Dequeue { sleep: true, ..Dequeue::default() });
            (s.tasks[pid.at()].uclamp_min, s.tasks[pid.at()].uclamp_max) = (1024, 1024);
            let kind = Kind::Wakeup { sync: false };
            let req = Request { pid, prev_cpu: CpuId(0), this_cpu: CpuId(0), kind, in_irq: false };
            assert_eq!(select_task_rq(&mut s, &req).cpu, CpuId(expect), "{aware:?}");
        }
    }

    #[test]
    fn pushes_take_turns_since_5_11_and_share_them_with_changes_of_affinity() {
        use Distribute::{Affinity, Off, Pushes};
        for (distribute, expect) in [(Off, [1, 1, 1]), (Affinity, [1, 1, 2]), (Pushes, [2, 3, 1])] {
            let mut s = Sched::bare(4, 4_000_000);
            s.distribute = distribute;
            rt_task(&mut s, Policy::Fifo, 50, 0);
            run(&mut s, 0);
            let waiter = rt_task(&mut s, Policy::Fifo, 10, 0);
            s.rqs[0].distribute_cpu_mask_prev = 1;
            let found = [0; 2].map(|_| find_lowest_rq(&mut s, waiter, CpuId(0)));
            let others = [1, 2, 3].map(CpuId).into_iter().collect();
            let moved = cpumask_any(&mut s, CpuId(0), &others, Affinity);
            assert_eq!([found[0], found[1], moved], expect.map(|c| Some(CpuId(c))), "{distribute:?}");
        }
    }

    #[test]
    fn in_5_6_a_cpu_that_is_too_small_is_no_way_out() {
        use CapacityAware::{Off, V5_6, V5_7};
        for (aware, moves) in [(Off, true), (V5_6, false), (V5_7, true)] {
            let mut s = Sched::bare(2, 4_000_000);
            s.rt_capacity_aware = aware;
            rt_task(&mut s, Policy::Fifo, 50, 0);
            run(&mut s, 0);
            let waiter = rt_task(&mut s, Policy::Fifo, 10, 0);
            s.rqs[1].cpu_capacity_orig = 462;
            (s.tasks[waiter.at()].uclamp_min, s.tasks[waiter.at()].uclamp_max) = (1024, 1024);
            assert_eq!(push_rt_task(&mut s, CpuId(0), CpuId(0)) != Push::Nothing, moves, "{aware:?}");
            assert_eq!(pull_rt_task(&s, CpuId(1), CpuId(0)).is_some(), moves, "{aware:?}");
        }
    }

    #[test]
    fn a_wakee_avoids_a_cpu_with_more_urgent_work_and_waiters_are_moved() {
        let mut s = Sched::bare(2, 4_000_000);
        rt_task(&mut s, Policy::Fifo, 50, 0);
        run(&mut s, 0);
        let waiter = rt_task(&mut s, Policy::Fifo, 10, 0);
        let req = Request { pid: waiter, prev_cpu: CpuId(0), this_cpu: CpuId(0), kind: Kind::Fork, in_irq: false };
        assert_eq!(select_task_rq(&mut s, &req).cpu, CpuId(1));
        assert_eq!(push_rt_task(&mut s, CpuId(0), CpuId(0)), Push::Move(waiter, CpuId(1)));
        assert_eq!(pull_rt_task(&s, CpuId(1), CpuId(0)), Some(waiter));
        assert_eq!(pull_rt_task(&s, CpuId(0), CpuId(1)), None);
    }
}
