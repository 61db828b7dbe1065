//! Completely fair scheduler: run who had least.
//!
//! # Idea
//! Every task has a clock, `vruntime`, that advances by its run time divided by its weight. The task whose clock is furthest
//! behind runs. Latency is bought by splitting a period (`sched_latency_ns`) among the runnable tasks; a task that slept is
//! placed a little before the others, so that it preempts, but keeps no more than half a period of credit.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | `clock_task` | ns | the run queue, without interrupts | every clock update |
//! | `weight` | 3 << 10 ..= 88761 << 10 | nice value, policy, group shares | when they change |
//! | `nr_queued` | entities | this class | every enqueue and dequeue |
//!
//! # Decision
//! Pick:
//! 1. The leftmost of the timeline, or the running one if it is further behind.
//! 2. If that is the skip buddy (it yielded), the second, unless that is unfair.
//! 3. The next buddy (it preempted), else the last buddy (it was preempted), unless that is unfair. *Unfair* is: ahead of the
//!    leftmost by more than `wakeup_granularity_ns` of its own virtual time.
//!
//! Tick:
//! 4. The slice is the entity's part by weight of `sched_latency_ns` (`nr_latency` runnable or fewer) or of
//!    `n · min_granularity_ns`; since 5.13 at least `min_granularity_ns` (BASE_SLICE), and `n` is the CPU's tasks, not the queue's entities (ALT_PERIOD).
//! 5. Preempt when it is used up, or, after `min_granularity_ns`, when the leftmost is a whole slice behind.
//!
//! Wake-up:
//! 6. Placed at `min_vruntime − sched_latency_ns / 2` at the earliest (a new task: one virtual slice after `min_vruntime`);
//!    SCHED_IDLE at `min_vruntime − min_granularity_ns / 2` since 5.15.
//! 7. SCHED_IDLE is preempted by all others and preempts nobody; SCHED_BATCH preempts nobody either. Otherwise preempt when
//!    the running task is ahead by more than `wakeup_granularity_ns`.
//!
//! Worked example, one CPU (latency 6 ms): two nice-0 spinners alternate every 3 ms at 1000 Hz, every 4 ms, at the tick after
//! their slice, at 250 Hz. A task that wakes after a long sleep is placed 3 ms before `min_vruntime`, more than the 1 ms of
//! granularity, and preempts.
//!
//! # State and cost
//! `vruntime` per entity, a sorted timeline and three buddies per queue. Pick O(1), enqueue O(log n) plus a short move.
//!
//! # Where it fails
//! It has no notion of a deadline: latency is a by-product of weight, so a light task that needs little but needs it soon
//! waits like any other; heavy use of wake-ups gives preemptions to those who sleep most.
//!
//! # Differences from the kernel
//! None known without groups: bit-exact with `cfs_unit_6.1` and `fair_6.1` (8,063 rows). FIDELITY(group-propagation). What
//! kernels before 5.13 and 5.15 do is known from the patches that changed it; there are no vectors of theirs.
//!
//! # Source
//! Linux 6.1.192 `kernel/sched/fair.c` (behaviour; vectors of that code).

use super::bandwidth::{self, throttled_hierarchy};
use super::fair::{self, Fair, Update, update_load_avg};
use super::timeline::Node;
use super::weight::{calc_delta, calc_delta_fair};
use super::{Dequeue, Enqueue, SchedClass};
use crate::registry::Tunable;
use crate::sched::Sched;
use crate::sched::task::{NONE, OnRq, SchedEntity, State};
use wattif_model::workload::Policy;
use wattif_model::{CpuId, Pid};

/// Tunables of this policy.
pub const TUNABLES: &[Tunable] = &[
    Tunable {
        name: "sched_latency_ns",
        default: "auto",
        allowed: &["auto", "1..=1000000000"],
        doc: "period in which every runnable task should run, ns; auto: 6 ms × (1 + log2 of the CPUs, at most 8)",
    },
    Tunable {
        name: "min_granularity_ns",
        default: "auto",
        allowed: &["auto", "1..=1000000000"],
        doc: "shortest slice, ns; auto: 0.75 ms × the same factor",
    },
    Tunable {
        name: "nr_latency",
        default: "8",
        allowed: &["ratio", "1..=1000000000"],
        doc: "runnable entities above which the period grows; ratio: sched_latency_ns / min_granularity_ns rounded up, as the sysctls set it up to 5.12",
    },
    Tunable {
        name: "idle_min_granularity_ns",
        default: "auto",
        allowed: &["auto", "0..=1000000000"],
        doc: "shortest slice of a SCHED_IDLE entity among others, ns; auto: 0.75 ms",
    },
    Tunable {
        name: "wakeup_granularity_ns",
        default: "auto",
        allowed: &["auto", "0..=1000000000"],
        doc: "virtual time by which a wakee must be behind to preempt, ns; auto: 1 ms × the same factor",
    },
    Tunable {
        name: "bandwidth_slice_us",
        default: "5000",
        allowed: &["1..=60000000"],
        doc: "run time that a CPU draws at once from the pool of a limited group, us (sched_cfs_bandwidth_slice_us)",
    },
    Tunable {
        name: "slice_expires",
        default: "false",
        allowed: &["true", "false"],
        doc: "what a CPU drew from the pool of a limited group is void after the period, as in 4.18 to 5.3",
    },
    Tunable {
        name: "tg_load_avg_limit_us",
        default: "0",
        allowed: &["0..=60000000"],
        doc: "least time between two updates of a group's load from one CPU, us; none before 6.7",
    },
    Tunable {
        name: "group_idle",
        default: "true",
        allowed: &["true", "false"],
        doc: "SCHED_IDLE is known of entities (5.15): a group may be idle as a whole (cpu.idle), idle ones have a shorter least slice, and less credit after a sleep",
    },
    Tunable {
        name: "group_burst",
        default: "true",
        allowed: &["true", "false"],
        doc: "a limited group may save up what it does not use: cpu.max.burst (5.14)",
    },
];

/// The class and its tunables, scaled by the number of CPUs already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cfs {
    /// Period in which every runnable task should run, ns: 6 ms × factor.
    pub sched_latency_ns: u64,
    /// Shortest slice, ns: 0.75 ms × factor.
    pub min_granularity_ns: u64,
    /// Runnable entities above which the period grows (`sched_nr_latency`).
    pub nr_latency: u64,
    /// Shortest slice of a SCHED_IDLE entity among others, ns: 0.75 ms.
    pub idle_min_granularity_ns: u64,
    /// Virtual time by which a wakee must be behind to preempt, ns: 1 ms × factor.
    pub wakeup_granularity_ns: u64,
    /// Idle entities have a least slice of their own, and less credit after a sleep (5.15).
    pub idle_entities: bool,
}

impl Cfs {
    /// Defaults times the factor 1 + log2(number of CPUs, at most 8).
    pub fn new(nr_cpus: usize) -> Cfs {
        Cfs::scaled(u64::from(1 + nr_cpus.clamp(1, 8).ilog2()))
    }

    /// Defaults times a factor.
    pub fn scaled(factor: u64) -> Cfs {
        Cfs {
            sched_latency_ns: 6_000_000 * factor,
            min_granularity_ns: 750_000 * factor,
            nr_latency: 8,
            idle_min_granularity_ns: 750_000,
            wakeup_granularity_ns: 1_000_000 * factor,
            idle_entities: true,
        }
    }

    /// Wall time an entity gets per period, ns.
    pub fn sched_slice(&self, s: &Sched, q: usize, i: usize) -> u64 {
        let queued = if s.features.alt_period { s.cfs[s.cfs[q].cpu.at()].h_nr_running } else { s.cfs[q].nr_queued };
        let nr = u64::from(queued + u32::from(!s.se[i].on_rq));
        let mut slice = if nr > self.nr_latency { nr * self.min_granularity_ns } else { self.sched_latency_ns };
        let mut at = i;
        while at != NONE {
            let se = &s.se[at];
            let load = s.cfs[se.cfs_rq].load_weight + if se.on_rq { 0 } else { se.weight };
            slice = calc_delta(slice, se.weight, load, 0);
            at = se.parent;
        }
        if !s.features.base_slice {
            return slice;
        }
        let only_idle = s.cfs[q].nr_queued > 0 && s.cfs[q].nr_queued == s.cfs[q].idle_nr_running;
        let idle_among_others = self.idle_entities && s.se[i].idle && !only_idle;
        slice.max(if idle_among_others { self.idle_min_granularity_ns } else { self.min_granularity_ns })
    }

    /// The slice in virtual time.
    pub fn sched_vslice(&self, s: &Sched, q: usize, i: usize) -> u64 {
        calc_delta_fair(self.sched_slice(s, q, i), &s.se[i])
    }

    /// Should `se` preempt `curr`? 1 yes, 0 it is behind but not by enough, −1 it is ahead.
    pub fn wakeup_preempt_entity(&self, curr: &SchedEntity, se: &SchedEntity) -> i32 {
        let vdiff = curr.vruntime.wrapping_sub(se.vruntime) as i64;
        if vdiff <= 0 { -1 } else { i32::from(vdiff > calc_delta_fair(self.wakeup_granularity_ns, se) as i64) }
    }

    /// Where a new or waking entity joins: never ahead of its own past.
    pub fn place_entity(&self, s: &mut Sched, q: usize, i: usize, initial: bool) {
        let mut vruntime = s.cfs[q].min_vruntime;
        if initial && s.features.start_debit {
            vruntime = vruntime.wrapping_add(self.sched_vslice(s, q, i));
        }
        if !initial {
            let thresh =
                if self.idle_entities && s.se[i].idle { self.min_granularity_ns } else { self.sched_latency_ns };
            vruntime = vruntime.wrapping_sub(if s.features.gentle_fair_sleepers { thresh >> 1 } else { thresh });
        }
        let clock_task = s.rqs[s.cfs[q].cpu.at()].clock_task;
        let se = &mut s.se[i];
        se.vruntime = if is_long_sleeper(se, clock_task) { vruntime } else { max_vruntime(se.vruntime, vruntime) };
    }

    /// The entity that should run now.
    pub fn pick_next_entity(&self, s: &Sched, q: usize, curr: usize) -> usize {
        let cfs = &s.cfs[q];
        let before = |a: usize, b: usize| entity_before(&s.se[a], &s.se[b]);
        let first = cfs.tree.first().map_or(NONE, |n| n.se);
        let left = if first == NONE || (curr != NONE && before(curr, first)) { curr } else { first };
        let mut se = left;
        if cfs.skip != NONE && cfs.skip == se {
            let mut second = if se == curr { first } else { cfs.tree.second().map_or(NONE, |n| n.se) };
            if se != curr && (second == NONE || (curr != NONE && before(curr, second))) {
                second = curr;
            }
            if second != NONE && self.is_fair(s, second, left) {
                se = second;
            }
        }
        if cfs.next != NONE && self.is_fair(s, cfs.next, left) {
            se = cfs.next;
        } else if cfs.last != NONE && self.is_fair(s, cfs.last, left) {
            se = cfs.last;
        }
        se
    }

    fn is_fair(&self, s: &Sched, buddy: usize, left: usize) -> bool {
        self.wakeup_preempt_entity(&s.se[buddy], &s.se[left]) < 1
    }

    /// Has the running entity used its slice, or fallen too far ahead?
    fn check_preempt_tick(&self, s: &mut Sched, q: usize, i: usize) {
        let cpu = s.cfs[q].cpu.at();
        let ideal = self.sched_slice(s, q, i);
        let se = &s.se[i];
        let delta_exec = se.sum_exec_runtime - se.prev_sum_exec_runtime;
        if delta_exec > ideal {
            s.rqs[cpu].need_resched = true;
            // It ran long enough: no buddy favours.
            fair::clear_buddies(s, i);
            return;
        }
        if delta_exec < self.min_granularity_ns {
            return;
        }
        if let Some(first) = s.cfs[q].tree.first() {
            let delta = se.vruntime.wrapping_sub(first.vruntime) as i64;
            s.rqs[cpu].need_resched |= delta > ideal as i64;
        }
    }
}

/// It slept so long that the difference of virtual times may have wrapped: its own says nothing.
fn is_long_sleeper(se: &SchedEntity, clock_task: u64) -> bool {
    se.exec_start != 0 && clock_task > se.exec_start && clock_task - se.exec_start > (1 << 63) / 1024
}

fn max_vruntime(a: u64, b: u64) -> u64 {
    if (b.wrapping_sub(a) as i64) > 0 { b } else { a }
}

fn entity_before(a: &SchedEntity, b: &SchedEntity) -> bool {
    (a.vruntime.wrapping_sub(b.vruntime) as i64) < 0
}

/// A sleeper's virtual time is absolute; that of a queued task in the middle of a change, or of a new one, is relative.
#[doc(alias = "vruntime_normalized")]
fn has_absolute_vruntime(s: &Sched, pid: Pid) -> bool {
    s.tasks[pid.at()].on_rq == OnRq::No && s.se[s.se_of(pid)].sum_exec_runtime != 0
}

/// The queue's virtual clock follows the entity that is furthest behind, and never goes back.
#[inline]
fn update_min_vruntime(s: &mut Sched, q: usize) {
    let cfs = &mut s.cfs[q];
    let curr = (cfs.curr != NONE && s.se[cfs.curr].on_rq).then(|| s.se[cfs.curr].vruntime);
    let vruntime = match (curr, cfs.tree.first()) {
        (Some(c), Some(n)) if (c.wrapping_sub(n.vruntime) as i64) < 0 => c,
        (_, Some(n)) => n.vruntime,
        (Some(c), None) => c,
        (None, None) => cfs.min_vruntime,
    };
    cfs.min_vruntime = max_vruntime(cfs.min_vruntime, vruntime);
}

impl Fair for Cfs {
    #[inline]
    fn update_curr_entity(&self, s: &mut Sched, q: usize) {
        if fair::update_curr_se(s, q).is_some() {
            update_min_vruntime(s, q);
        }
    }

    fn reweight_entity(&self, s: &mut Sched, i: usize, weight: u64) {
        let q = s.se[i].cfs_rq;
        if s.se[i].on_rq {
            if s.cfs[q].curr == i {
                self.update_curr_entity(s, q);
            }
            s.cfs[q].load_weight -= s.se[i].weight;
        }
        fair::change_weight(s, q, i, weight);
        if s.se[i].on_rq {
            s.cfs[q].load_weight += weight;
        }
    }

    #[inline]
    fn entity_picked(&self, _se: &mut SchedEntity) {}

    #[inline]
    fn entity_ticked(&self, s: &mut Sched, q: usize, i: usize) {
        if s.cfs[q].nr_queued > 1 {
            self.check_preempt_tick(s, q, i);
        }
    }

    #[inline]
    fn tree_insert(&self, s: &mut Sched, q: usize, i: usize) {
        let key = s.se[i].vruntime;
        s.cfs[q].tree.insert(Node { key, vruntime: key, se: i });
    }

    #[inline]
    fn tree_remove(&self, s: &mut Sched, q: usize, i: usize) {
        s.cfs[q].tree.remove(s.se[i].vruntime, i);
    }

    #[inline(always)]
    fn enqueue_entity(&self, s: &mut Sched, q: usize, i: usize, flags: Enqueue) {
        let renorm = !flags.wakeup || flags.migrated;
        let curr = s.cfs[q].curr == i;
        // The running entity is renormalised before the queue's clock moves, others after.
        if renorm && curr {
            s.se[i].vruntime = s.se[i].vruntime.wrapping_add(s.cfs[q].min_vruntime);
        }
        self.update_curr_entity(s, q);
        if renorm && !curr {
            s.se[i].vruntime = s.se[i].vruntime.wrapping_add(s.cfs[q].min_vruntime);
        }
        update_load_avg(s, q, i, Update { tg: true, attach: true, detach: false });
        fair::se_update_runnable(s, i);
        fair::update_cfs_group(self, s, i);
        fair::account_entity_enqueue(s, q, i);
        if flags.wakeup {
            self.place_entity(s, q, i, false);
        }
        if flags.migrated {
            s.se[i].exec_start = 0;
        }
        if !curr {
            self.tree_insert(s, q, i);
        }
        s.se[i].on_rq = true;
        fair::joined(self, s, q);
    }

    #[inline(always)]
    fn dequeue_entity(&self, s: &mut Sched, q: usize, i: usize, flags: Dequeue) -> bool {
        self.update_curr_entity(s, q);
        fair::dequeue_loads(s, q, i);
        fair::clear_buddies(s, i);
        if s.cfs[q].curr != i {
            self.tree_remove(s, q, i);
        }
        s.se[i].on_rq = false;
        fair::account_entity_dequeue(s, q, i);
        // After update_curr, which moved min_vruntime if this entity held it back; before it may move without it.
        if !flags.sleep {
            s.se[i].vruntime = s.se[i].vruntime.wrapping_sub(s.cfs[q].min_vruntime);
        }
        fair::left(s, q);
        fair::update_cfs_group(self, s, i);
        if !flags.save || flags.moved {
            update_min_vruntime(s, q);
        }
        true
    }
}

impl SchedClass for Cfs {
    fn enqueue_task(&self, s: &mut Sched, cpu: CpuId, pid: Pid, mut flags: Enqueue) {
        let mut i = s.se_of(pid);
        flags.migrated |= s.tasks[pid.at()].on_rq == OnRq::Migrating;
        if flags.initial {
            fair::post_init_entity_util_avg(s, pid);
        }
        if !flags.estimated {
            fair::util_est_enqueue(s, cpu, pid);
        }
        let mut idle = u32::from(s.tasks[pid.at()].policy == Policy::Idle);
        let mut counting_only = false;
        while i != NONE {
            let q = s.se[i].cfs_rq;
            counting_only |= s.se[i].on_rq;
            if counting_only {
                fair::update_above(self, s, q, i);
            } else {
                self.enqueue_entity(s, q, i, flags);
                flags = Enqueue { wakeup: true, ..Enqueue::default() };
            }
            let cfs = &mut s.cfs[q];
            cfs.h_nr_running += 1;
            cfs.idle_h_nr_running += idle;
            if cfs.runtime.throttled {
                return;
            }
            if s.groups[cfs.group as usize].idle {
                idle = 1;
            }
            i = s.se[i].parent;
        }
        s.rqs[cpu.at()].nr_running += 1;
    }

    fn dequeue_task(&self, s: &mut Sched, cpu: CpuId, pid: Pid, mut flags: Dequeue) -> bool {
        let task_se = s.se_of(pid);
        let was_sched_idle = s.sched_idle_cpu(cpu);
        let task_sleep = flags.sleep;
        // Until 5.11 the governor hears of the dequeue before the estimate is gone, see `util_est_left`.
        let is_late = task_sleep && s.util_est.leaves_late();
        if !is_late {
            fair::util_est_dequeue(s, cpu, task_se);
        }
        let sampled = task_sleep && !is_late;
        let mut idle = u32::from(s.tasks[pid.at()].policy == Policy::Idle);
        let (mut i, mut counting_only) = (task_se, false);
        while i != NONE {
            let q = s.se[i].cfs_rq;
            if counting_only {
                fair::update_above(self, s, q, i);
            } else {
                self.dequeue_entity(s, q, i, flags);
            }
            let cfs = &mut s.cfs[q];
            cfs.h_nr_running -= 1;
            cfs.idle_h_nr_running -= idle;
            if cfs.runtime.throttled {
                fair::util_est_update(s, cpu, task_se, sampled);
                return true;
            }
            if s.groups[cfs.group as usize].idle {
                idle = 1;
            }
            i = s.se[i].parent;
            if !counting_only && s.cfs[q].load_weight != 0 {
                // The queue has others: its group stays queued, and is preferred, since it was within its slice.
                counting_only = true;
                if task_sleep && !throttled_hierarchy(s, q) {
                    fair::set_buddy(s, i, |c| &mut c.next);
                }
            }
            flags.sleep = true;
        }
        s.rqs[cpu.at()].nr_running -= 1;
        fair::balance_early(s, cpu, was_sched_idle);
        fair::util_est_update(s, cpu, task_se, sampled);
        true
    }

    fn yield_task(&self, s: &mut Sched, cpu: CpuId) {
        let rq = &s.rqs[cpu.at()];
        let pid = rq.curr;
        if rq.nr_running == 1 {
            return;
        }
        let mut i = s.se_of(pid);
        fair::clear_buddies(s, i);
        if s.tasks[pid.at()].policy != Policy::Batch {
            let q = s.se[i].cfs_rq;
            self.update_curr_entity(s, q);
        }
        while i != NONE {
            let q = s.se[i].cfs_rq;
            s.cfs[q].skip = i;
            i = s.se[i].parent;
        }
    }

    fn wakeup_preempt(&self, s: &mut Sched, cpu: CpuId, pid: Pid, fork: bool) {
        let Some((se, pse)) = fair::contenders(s, cpu, pid) else { return };
        let scale = u64::from(s.cfs[s.se[se].cfs_rq].nr_queued) >= self.nr_latency;
        let next_buddy_marked = s.features.next_buddy && scale && !fork;
        if next_buddy_marked {
            fair::set_buddy(s, pse, |c| &mut c.next);
        }
        if s.rqs[cpu.at()].need_resched {
            return;
        }
        let curr = s.rqs[cpu.at()].curr;
        let Some(se) = self.preempts(s, curr, pid, se, pse, next_buddy_marked) else { return };
        s.rqs[cpu.at()].need_resched = true;
        // A last buddy makes sense only for a task that is still queued.
        if s.se[se].on_rq && s.features.last_buddy && scale && s.se[se].my_q == NONE {
            fair::set_buddy(s, se, |c| &mut c.last);
        }
    }

    fn pick_task(&self, s: &mut Sched, cpu: CpuId) -> Option<Pid> {
        let mut q = cpu.at();
        loop {
            if s.cfs[q].nr_queued == 0 {
                return None;
            }
            let mut curr = s.cfs[q].curr;
            if curr != NONE {
                if s.se[curr].on_rq {
                    self.update_curr_entity(s, q);
                } else {
                    curr = NONE;
                }
                if bandwidth::check_cfs_rq_runtime(self, s, q) {
                    q = cpu.at();
                    continue;
                }
            }
            let i = self.pick_next_entity(s, q, curr);
            match s.se[i].my_q {
                NONE => return s.task_of(i),
                below => q = below,
            }
        }
    }

    fair::shared_callbacks!();

    /// A new task starts from the running task's virtual time, one virtual slice behind `min_vruntime`; relative to the queue
    /// until its first enqueue.
    fn task_fork(&self, s: &mut Sched, pid: Pid) {
        let i = s.se_of(pid);
        let q = s.se[i].cfs_rq;
        let curr = s.cfs[q].curr;
        if curr != NONE {
            self.update_curr_entity(s, q);
            s.se[i].vruntime = s.se[curr].vruntime;
        }
        self.place_entity(s, q, i, true);
        s.se[i].vruntime = s.se[i].vruntime.wrapping_sub(s.cfs[q].min_vruntime);
    }

    /// A waking task takes its virtual time along relative to the queue it leaves.
    fn migrate_task_rq(&self, s: &mut Sched, pid: Pid, _new_cpu: CpuId) {
        let i = s.se_of(pid);
        if s.tasks[pid.at()].on_rq == OnRq::No && s.tasks[pid.at()].state != State::New {
            s.se[i].vruntime = s.se[i].vruntime.wrapping_sub(s.cfs[s.se[i].cfs_rq].min_vruntime);
        }
        fair::migrate_task_rq(s, pid);
    }

    fn switched_to(&self, s: &mut Sched, cpu: CpuId, pid: Pid) {
        if has_absolute_vruntime(s, pid) {
            let i = s.se_of(pid);
            s.se[i].vruntime = s.se[i].vruntime.wrapping_add(s.cfs[s.se[i].cfs_rq].min_vruntime);
        }
        fair::attach_task_cfs_rq(s, pid);
        fair::switched_to(self, s, cpu, pid);
    }

    fn switched_from(&self, s: &mut Sched, _cpu: CpuId, pid: Pid) {
        if has_absolute_vruntime(s, pid) {
            let i = s.se_of(pid);
            let q = s.se[i].cfs_rq;
            self.place_entity(s, q, i, false);
            s.se[i].vruntime = s.se[i].vruntime.wrapping_sub(s.cfs[q].min_vruntime);
        }
        fair::detach_task_cfs_rq(s, pid);
    }
}

impl Cfs {
    /// Does the wakee preempt? Then the running entity at the level where they meet.
    fn preempts(
        &self,
        s: &mut Sched,
        curr: Pid,
        pid: Pid,
        se: usize,
        pse: usize,
        next_buddy_marked: bool,
    ) -> Option<usize> {
        let policy = |p: Pid| s.tasks[p.at()].policy;
        if policy(curr) == Policy::Idle && policy(pid) != Policy::Idle {
            return Some(se);
        }
        if policy(pid) != Policy::Normal || !s.features.wakeup_preemption {
            return None;
        }
        let (se, pse) = fair::find_matching_se(s, se, pse);
        if s.se[se].idle != s.se[pse].idle {
            return s.se[se].idle.then_some(se);
        }
        self.update_curr_entity(s, s.se[se].cfs_rq);
        if self.wakeup_preempt_entity(&s.se[se], &s.se[pse]) < 1 {
            return None;
        }
        if !next_buddy_marked {
            fair::set_buddy(s, pse, |c| &mut c.next);
        }
        Some(se)
    }
}
