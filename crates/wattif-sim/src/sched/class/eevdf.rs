//! Earliest eligible virtual deadline first: among those who are owed time, run who needs it soonest.
//!
//! # Idea
//! A task asks for slices of run time. Its *lag* is what it is owed: the average virtual time of the queue, V, minus its own.
//! Only *eligible* tasks (lag not negative) may run, which is fairness; among them the one with the earliest virtual deadline
//! (where it started plus slice / weight) runs, which is latency: a short slice means an early deadline and no more CPU time.
//! Lag survives sleep, so sleeping gives no credit and forgives no debt: a task that sleeps while it owes stays queued,
//! *delayed*, until it has paid.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | `clock_task` | ns | the run queue, without interrupts | every clock update |
//! | `weight` | 3 << 10 ..= 88761 << 10 | nice value, policy, group shares | when they change |
//! | `slice` | ns | `base_slice_ns`, or the task's own (`sched_setattr`, 6.12) | at a new request |
//!
//! # Decision
//! Pick:
//! 1. A single entity is picked.
//! 2. A group that a task of it has just left for sleep, while others of it wait, is picked if it is eligible (PICK_BUDDY).
//! 3. The running entity wins while it is eligible and protected: it keeps the CPU until it has used its slice
//!    (RUN_TO_PARITY).
//! 4. Otherwise the eligible entity with the earliest deadline, first come first served among equals; the running one only if
//!    its deadline is strictly earlier.
//! 5. A delayed entity that is picked leaves the queue instead, a positive lag becomes 0, and the pick is repeated.
//!
//! Tick and every other accounting:
//! 6. A reached deadline is a used slice: new deadline, reschedule. So is lost protection together with lost eligibility. A
//!    task that is alone is left alone.
//!
//! Wake-up:
//! 7. Placed at V − lag · (W + w) / W, so that its lag after joining is what it had.
//! 8. SCHED_IDLE loses to all others at once (`generation` `6.6`: not before its slice is used, while it is eligible). SCHED_BATCH
//!    and SCHED_IDLE preempt nobody.
//! 9. An eligible wakee with a shorter slice and an earlier deadline (whatever its deadline if the running entity is not
//!    eligible) cancels that one's protection (PREEMPT_SHORT). Preempt if the pick is then the wakee.
//!
//! `sched_yield`:
//! 10. The virtual time of an eligible entity becomes its deadline, and that moves by a slice: it waits until the others have
//!    run as far. `forfeit_on_yield` off: the deadline alone moves, which takes protection but no time.
//!
//! Worked example, base slice 0.7 ms: A runs with 0.3 ms of its slice left, B wakes with lag 0. B is eligible, and its
//! deadline is V + 0.7 ms, but A is protected and runs 0.3 ms more; with a slice of 0.1 ms B would preempt at once.
//!
//! # State and cost
//! `vruntime`, `deadline`, `vlag` per entity; Σ w and Σ w·(v − zero) per queue. Pick: a scan in deadline order up to the first
//! eligible entity, in practice one of the first few, O(n) at worst. Enqueue O(log n) plus a short move.
//!
//! # Where it fails
//! Protection trades wake-up latency for throughput; a task that wakes often with lag 0 waits for whole slices of others.
//!
//! # Differences from the kernel
//! None known without groups: bit-exact with `eevdf_unit_6.12` (1,000 cases) and `fair_6.12` (8,054 rows). Generation `6.6` is from
//! the patches that changed it, without vectors.
//! FIDELITY(group-propagation). FIDELITY(min-slice): the slice of a group's entity is the true minimum below it; the
//! kernel's cached minimum is stale in about 2 % of cases.
//!
//! # Source
//! Linux 6.12.117 `kernel/sched/fair.c` (behaviour). Stoica, Abdel-Wahab: Earliest Eligible Virtual Deadline First, 1995.

use super::bandwidth::{self, throttled_hierarchy};
use super::fair::{self, Fair, Update, update_load_avg};
use super::timeline::Node;
use super::weight::{calc_delta_fair, scale_load_down, se_weight};
use super::{Dequeue, Enqueue, SchedClass};
use crate::registry::{Tunable, meant};
use crate::sched::Sched;
use crate::sched::rq::CfsRq;
use crate::sched::task::{NONE, OnRq, SchedEntity};
use wattif_model::workload::Policy;
use wattif_model::{CpuId, Pid};

/// Tunables of this policy.
pub const TUNABLES: &[Tunable] = &[
    Tunable {
        name: "generation",
        default: "6.12",
        allowed: &Generation::NAMES,
        doc: "6.6: a new weight moves the deadline alone, and SCHED_IDLE gives way to all others, but keeps its protected slice; 6.12: what is owed stays the same (6.7), SCHED_IDLE gives way to others of its group alone, and at once (6.15 and its backports)",
    },
    Tunable {
        name: "base_slice_ns",
        default: "auto",
        allowed: &["auto", "1..=1000000000"],
        doc: "slice of a task that asks for none, ns; auto: normalized_base_slice_ns × (1 + log2 of the CPUs, at most 8)",
    },
    Tunable {
        name: "normalized_base_slice_ns",
        default: "700000",
        allowed: &["1..=1000000000"],
        doc: "slice of a machine of one CPU, ns (normalized_sysctl_sched_base_slice; 0.75 ms before 6.15 and its backports)",
    },
    Tunable {
        name: "custom_slice",
        default: "true",
        allowed: &["true", "false"],
        doc: "a fair task may ask for a slice of its own (sched_setattr, 6.12)",
    },
    Tunable {
        name: "forfeit_on_yield",
        default: "true",
        allowed: &["true", "false"],
        doc: "sched_yield gives up the rest of the slice (6.19 and its backports); false: it only moves the deadline",
    },
    Tunable {
        name: "bandwidth_slice_us",
        default: "5000",
        allowed: &["1..=60000000"],
        doc: "run time that a CPU draws at once from the pool of a limited group, us (sched_cfs_bandwidth_slice_us)",
    },
    Tunable {
        name: "tg_load_avg_limit_us",
        default: "1000",
        allowed: &["0..=60000000"],
        doc: "least time between two updates of a group's load from one CPU, us; 0: none, as before 6.7",
    },
];

/// `eevdf.generation`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Generation {
    /// `6.6`: as released.
    V6_6,
    /// `6.12`: with the mended `reweight_entity` (6.7), SCHED_IDLE by group (6.12), and without protection against others (6.15).
    #[default]
    V6_12,
}

impl Generation {
    /// The values of the tunable.
    pub const NAMES: [&'static str; 2] = ["6.6", "6.12"];

    /// From the tunable's value.
    pub fn parse(name: &str) -> Option<Generation> {
        meant(Generation::NAMES, [Generation::V6_6, Generation::V6_12], name)
    }
}

/// The class and its tunables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eevdf {
    /// Era.
    pub generation: Generation,
    /// Slice of a task that did not ask for one, ns.
    pub base_slice_ns: u64,
    /// `sched_yield` gives up the rest of the slice, instead of asking for the next one early.
    pub forfeit_on_yield: bool,
}

impl Eevdf {
    /// The slice of a machine of one CPU times the factor 1 + log2(number of CPUs, at most 8).
    pub fn new(normalized_base_slice_ns: u64, nr_cpus: usize) -> Eevdf {
        let base_slice_ns = normalized_base_slice_ns * u64::from(1 + nr_cpus.clamp(1, 8).ilog2());
        Eevdf { generation: Generation::default(), base_slice_ns, forfeit_on_yield: true }
    }

    /// Where an entity joins: with the lag it left with, and a deadline one slice later.
    pub fn place_entity(&self, s: &mut Sched, q: usize, i: usize, initial: bool) {
        let vruntime = avg_vruntime(s, q);
        let (cfs, features) = (&s.cfs[q], s.features);
        let mut lag = 0;
        let se = &s.se[i];
        if features.place_lag && cfs.nr_queued > 0 && se.vlag != 0 {
            let load = cfs.sum_w as i64 + running_weight(s, q) as i64;
            // C: wrapping product, truncated division.
            lag = se.vlag.wrapping_mul(load + se_weight(se) as i64) / load.max(1);
        }
        let se = &mut s.se[i];
        if !se.custom_slice {
            se.slice = self.base_slice_ns;
        }
        let mut vslice = calc_delta_fair(se.slice, se);
        se.vruntime = vruntime.wrapping_sub(lag as u64);
        if features.place_rel_deadline && se.rel_deadline {
            se.deadline = se.deadline.wrapping_add(se.vruntime);
            se.rel_deadline = false;
            return;
        }
        // The others are half-way through their slices on average: so is a new one.
        if features.place_deadline_initial && initial {
            vslice /= 2;
        }
        se.deadline = se.vruntime.wrapping_add(vslice);
    }

    /// The slice is used: a new request. True if so.
    fn update_deadline(&self, s: &mut Sched, q: usize, i: usize) -> bool {
        let se = &mut s.se[i];
        if (se.vruntime.wrapping_sub(se.deadline) as i64) < 0 {
            return false;
        }
        if !se.custom_slice {
            se.slice = self.base_slice_ns;
        }
        se.deadline = se.vruntime.wrapping_add(calc_delta_fair(se.slice, se));
        // The reference point follows even a task that is never switched, so that keys stay small.
        avg_vruntime(s, q);
        true
    }

    /// Takes an entity and the groups it leaves empty off their queues. False when its own dequeue was delayed.
    fn dequeue_entities(&self, s: &mut Sched, cpu: CpuId, entity: usize, mut flags: Dequeue) -> bool {
        let was_sched_idle = s.sched_idle_cpu(cpu);
        let (task_sleep, task_delayed) = (flags.sleep, flags.delayed);
        let task = s.task_of(entity);
        let mut count = Count::default();
        if let Some(pid) = task {
            count.queued = 1;
            count.idle = u32::from(s.tasks[pid.at()].policy == Policy::Idle);
            // A delayed task does not count as runnable; its mark is cleared by a completed dequeue.
            count.delayed = u32::from(!task_sleep && !task_delayed && s.se[entity].sched_delayed);
        }
        let (mut i, mut counting_only, mut slice, mut throttled) = (entity, false, 0, false);
        while i != NONE {
            let q = s.se[i].cfs_rq;
            if !counting_only && !self.dequeue_entity(s, q, i, flags) {
                if task.is_some() && i == entity {
                    return false;
                }
                counting_only = true;
                slice = self.min_slice(s, q);
                // Delayed group: it stays queued, with the least slice there; the task below it left.
            }
            if counting_only {
                fair::update_above(self, s, q, i);
                s.se[i].slice = slice;
                slice = self.slice_above(s, q);
            }
            count.leave(s, q);
            if s.cfs[q].runtime.throttled {
                // The queues above do not count its tasks.
                throttled = true;
                break;
            }
            i = s.se[i].parent;
            if !counting_only && s.cfs[q].load_weight != 0 {
                counting_only = true;
                slice = self.slice_above(s, q);
                if task_sleep && !throttled_hierarchy(s, q) {
                    fair::set_buddy(s, i, |c| &mut c.next);
                }
            }
            flags.sleep = true;
            (flags.delayed, flags.special) = (false, false);
        }
        if !throttled {
            s.rqs[cpu.at()].nr_running -= count.queued;
            s.signal_versions[cpu.at()] += 1; // also where a sleeper that was left in the queue goes
            fair::balance_early(s, cpu, was_sched_idle);
        }
        if let Some(pid) = task.filter(|_| task_delayed) {
            s.tasks[pid.at()].on_rq = OnRq::No;
        }
        true
    }

    /// A delayed task is wanted again before it left: it starts afresh if it has paid, and stays where it is otherwise.
    fn requeue_delayed_entity(&self, s: &mut Sched, i: usize) {
        let q = s.se[i].cfs_rq;
        if s.features.delay_zero {
            self.update_entity_lag(s, q, i);
            if s.se[i].vlag > 0 {
                let curr = s.cfs[q].curr == i;
                s.cfs[q].nr_queued -= 1;
                if !curr {
                    self.tree_remove(s, q, i);
                }
                s.se[i].vlag = 0;
                self.place_entity(s, q, i, false);
                if !curr {
                    self.tree_insert(s, q, i);
                }
                s.cfs[q].nr_queued += 1;
            }
        }
        update_load_avg(s, q, i, Update::NONE);
        clear_delayed(s, i);
    }

    /// What the entity is owed, clamped to a few slices.
    #[inline(always)]
    pub fn entity_lag(&self, s: &Sched, avruntime: u64, i: usize) -> i64 {
        let se = &s.se[i];
        let limit = calc_delta_fair((2 * se.slice).max(s.tick_ns), se) as i64;
        (avruntime.wrapping_sub(se.vruntime) as i64).clamp(-limit, limit)
    }

    fn update_entity_lag(&self, s: &mut Sched, q: usize, i: usize) {
        let v = avg_vruntime(s, q);
        s.se[i].vlag = self.entity_lag(s, v, i);
    }

    /// Scales lag and deadline of a queued entity to a new weight, so that what it is owed stays the same.
    pub fn reweight_eevdf(&self, s: &mut Sched, i: usize, avruntime: u64, weight: u64) {
        let old = s.se[i].weight as i64;
        if avruntime != s.se[i].vruntime {
            let vlag = self.entity_lag(s, avruntime, i).wrapping_mul(old) / weight as i64;
            s.se[i].vruntime = avruntime.wrapping_sub(vlag as u64);
        }
        let vslice = (s.se[i].deadline.wrapping_sub(avruntime) as i64).wrapping_mul(old) / weight as i64;
        s.se[i].deadline = avruntime.wrapping_add(vslice as u64);
    }

    /// The eligible entity with the earliest deadline; the running one is not in the tree. [`NONE`] if nothing is queued.
    #[inline(always)]
    pub fn pick_eevdf(&self, s: &Sched, q: usize) -> usize {
        let cfs = &s.cfs[q];
        let queued_curr = if cfs.curr != NONE && s.se[cfs.curr].on_rq { cfs.curr } else { NONE };
        if cfs.nr_queued == 1 {
            return if queued_curr != NONE { queued_curr } else { cfs.tree.first().map_or(NONE, |n| n.se) };
        }
        let sums = Sums::of(s, q);
        let curr = (queued_curr != NONE && sums.eligible(s.se[queued_curr].vruntime)).then(|| &s.se[queued_curr]);
        if s.features.run_to_parity && curr.is_some_and(is_protected) {
            return queued_curr;
        }
        let best = cfs.tree.iter().find(|n| sums.eligible(n.vruntime));
        match (best, curr) {
            (Some(b), Some(c)) if (c.deadline.wrapping_sub(b.key) as i64) < 0 => queued_curr,
            (Some(b), _) => b.se,
            (None, Some(_)) => queued_curr,
            (None, None) => NONE,
        }
    }

    /// Smallest slice on a queue, for its group's entity; a root queue has none.
    fn slice_above(&self, s: &Sched, q: usize) -> u64 {
        if s.cfs[q].se == NONE { 0 } else { self.min_slice(s, q) }
    }

    /// Smallest slice on a queue (`cfs_rq_min_slice`).
    fn min_slice(&self, s: &Sched, q: usize) -> u64 {
        let cfs = &s.cfs[q];
        let curr = (cfs.curr != NONE && s.se[cfs.curr].on_rq).then_some(cfs.curr);
        let queued = cfs.tree.iter().map(|n| n.se).chain(curr);
        queued.map(|i| s.se[i].slice).min().unwrap_or(self.base_slice_ns)
    }

    /// May a shorter slice override the protection of the running entity?
    fn do_preempt_short(&self, s: &Sched, q: usize, pse: usize, se: usize) -> bool {
        let (p, c) = (&s.se[pse], &s.se[se]);
        s.features.preempt_short
            && p.slice < c.slice
            && entity_eligible(s, q, pse)
            && ((p.deadline.wrapping_sub(c.deadline) as i64) < 0 || !entity_eligible(s, q, se))
    }
}

/// What a task adds to the counts of the queues above it.
#[derive(Default)]
struct Count {
    queued: u32,
    delayed: u32,
    idle: u32,
}

impl Count {
    fn leave(&mut self, s: &mut Sched, q: usize) {
        let cfs = &mut s.cfs[q];
        cfs.h_nr_running -= self.queued;
        cfs.h_nr_delayed -= self.delayed;
        cfs.idle_h_nr_running -= self.idle;
        if s.groups[cfs.group as usize].idle {
            self.idle = self.queued;
        }
    }

    fn join(&mut self, s: &mut Sched, q: usize) {
        let cfs = &mut s.cfs[q];
        cfs.h_nr_running += self.queued;
        cfs.h_nr_delayed += self.delayed;
        cfs.idle_h_nr_running += self.idle;
        if s.groups[cfs.group as usize].idle {
            self.idle = 1;
        }
    }
}

/// Σ weight and Σ weight · key over tree and running entity: what eligibility compares with.
struct Sums {
    zero: u64,
    avg: i64,
    load: i64,
}

impl Sums {
    #[inline]
    fn of(s: &Sched, q: usize) -> Sums {
        let cfs = &s.cfs[q];
        let (mut avg, mut load) = (cfs.sum_wkey, cfs.sum_w as i64);
        if cfs.curr != NONE && s.se[cfs.curr].on_rq {
            let curr = &s.se[cfs.curr];
            let weight = se_weight(curr) as i64;
            avg = avg.wrapping_add(entity_key(cfs, curr.vruntime).wrapping_mul(weight));
            load += weight;
        }
        Sums { zero: cfs.zero_vruntime, avg, load }
    }

    /// Its lag is not negative. A product instead of a division: exact.
    #[doc(alias = "vruntime_eligible")]
    #[inline]
    fn eligible(&self, vruntime: u64) -> bool {
        self.avg >= (vruntime.wrapping_sub(self.zero) as i64).wrapping_mul(self.load)
    }
}

/// Weight of the running entity if it is queued, 0 otherwise.
fn running_weight(s: &Sched, q: usize) -> u64 {
    let curr = s.cfs[q].curr;
    if curr != NONE && s.se[curr].on_rq { se_weight(&s.se[curr]) } else { 0 }
}

#[inline]
fn entity_key(cfs: &CfsRq, vruntime: u64) -> i64 {
    vruntime.wrapping_sub(cfs.zero_vruntime) as i64
}

/// Is the entity owed time?
pub fn entity_eligible(s: &Sched, q: usize, i: usize) -> bool {
    Sums::of(s, q).eligible(s.se[i].vruntime)
}

/// V, the weighted average of virtual times; moves the reference point of the sums there.
#[inline(always)]
pub fn avg_vruntime(s: &mut Sched, q: usize) -> u64 {
    let cfs = &s.cfs[q];
    let delta = if cfs.sum_w != 0 {
        let sums = Sums::of(s, q);
        // Towards minus infinity, not zero.
        let sum = if sums.avg < 0 { sums.avg.wrapping_sub(sums.load - 1) } else { sums.avg };
        sum / sums.load
    } else if running_weight(s, q) != 0 {
        entity_key(cfs, s.se[cfs.curr].vruntime)
    } else {
        0
    };
    let cfs = &mut s.cfs[q];
    cfs.sum_wkey = cfs.sum_wkey.wrapping_sub((cfs.sum_w as i64).wrapping_mul(delta));
    cfs.zero_vruntime = cfs.zero_vruntime.wrapping_add(delta as u64);
    cfs.zero_vruntime
}

/// While `vlag` repeats the deadline it was picked with, the running entity's slice is protected.
#[inline]
fn is_protected(se: &SchedEntity) -> bool {
    se.vlag as u64 == se.deadline
}

fn cancel_protect_slice(se: &mut SchedEntity) {
    if is_protected(se) {
        se.vlag = se.deadline.wrapping_add(1) as i64;
    }
}

fn set_delayed(s: &mut Sched, i: usize) {
    s.se[i].sched_delayed = true;
    count_delayed(s, i, 1);
}

fn clear_delayed(s: &mut Sched, i: usize) {
    s.se[i].sched_delayed = false;
    count_delayed(s, i, u32::MAX);
}

/// Adds 1 or −1 (as a wrapping number) to the delayed tasks of all queues above. A group's tasks were counted off already.
fn count_delayed(s: &mut Sched, mut i: usize, by: u32) {
    if s.se[i].my_q != NONE {
        return;
    }
    while i != NONE {
        let cfs = &mut s.cfs[s.se[i].cfs_rq];
        cfs.h_nr_delayed = cfs.h_nr_delayed.wrapping_add(by);
        if cfs.runtime.throttled {
            return;
        }
        i = s.se[i].parent;
    }
}

impl Fair for Eevdf {
    #[inline]
    fn update_curr_entity(&self, s: &mut Sched, q: usize) {
        let Some((i, _)) = fair::update_curr_se(s, q) else { return };
        let resched = self.update_deadline(s, q, i);
        if s.cfs[q].nr_queued == 1 {
            return;
        }
        let lost = |s: &Sched| s.features.preempt_short && !is_protected(&s.se[i]) && !entity_eligible(s, q, i);
        if resched || lost(s) {
            s.rqs[s.cfs[q].cpu.at()].need_resched = true;
            fair::clear_buddies(s, i);
        }
    }

    fn reweight_entity(&self, s: &mut Sched, i: usize, weight: u64) {
        let q = s.se[i].cfs_rq;
        let curr = s.cfs[q].curr == i;
        if s.se[i].on_rq {
            self.update_curr_entity(s, q);
            let v = avg_vruntime(s, q);
            if !curr {
                self.tree_remove(s, q, i);
            }
            s.cfs[q].load_weight -= s.se[i].weight;
            // In 6.6 its virtual time stays, and with it another lag: what it is owed changes with its weight.
            let around = if self.generation == Generation::V6_6 { s.se[i].vruntime } else { v };
            self.reweight_eevdf(s, i, around, weight);
        } else {
            let se = &mut s.se[i];
            se.vlag = se.vlag.wrapping_mul(se.weight as i64) / weight as i64;
        }
        fair::change_weight(s, q, i, weight);
        if s.se[i].on_rq {
            s.cfs[q].load_weight += weight;
            if !curr {
                self.tree_insert(s, q, i);
            }
        }
    }

    #[inline]
    fn entity_picked(&self, se: &mut SchedEntity) {
        se.vlag = se.deadline as i64;
    }

    #[inline]
    fn entity_ticked(&self, _s: &mut Sched, _q: usize, _i: usize) {}

    #[inline(always)]
    fn tree_insert(&self, s: &mut Sched, q: usize, i: usize) {
        let (cfs, se) = (&mut s.cfs[q], &s.se[i]);
        let weight = scale_load_down(se.weight);
        cfs.sum_wkey = cfs.sum_wkey.wrapping_add(entity_key(cfs, se.vruntime).wrapping_mul(weight as i64));
        cfs.sum_w += weight;
        cfs.tree.insert(Node { key: se.deadline, vruntime: se.vruntime, se: i });
    }

    #[inline(always)]
    fn tree_remove(&self, s: &mut Sched, q: usize, i: usize) {
        let (cfs, se) = (&mut s.cfs[q], &s.se[i]);
        let weight = scale_load_down(se.weight);
        cfs.sum_wkey = cfs.sum_wkey.wrapping_sub(entity_key(cfs, se.vruntime).wrapping_mul(weight as i64));
        cfs.sum_w -= weight;
        cfs.tree.remove(se.deadline, i);
    }

    fn enqueue_entity(&self, s: &mut Sched, q: usize, i: usize, flags: Enqueue) {
        let curr = s.cfs[q].curr == i;
        // The running entity is placed before the accounting moves it.
        if curr {
            self.place_entity(s, q, i, flags.initial);
        }
        self.update_curr_entity(s, q);
        update_load_avg(s, q, i, Update { tg: true, attach: true, detach: false });
        fair::se_update_runnable(s, i);
        fair::update_cfs_group(self, s, i);
        if !curr {
            self.place_entity(s, q, i, flags.initial);
        }
        fair::account_entity_enqueue(s, q, i);
        if flags.migrated {
            s.se[i].exec_start = 0;
        }
        if !curr {
            self.tree_insert(s, q, i);
        }
        s.se[i].on_rq = true;
        fair::joined(self, s, q);
    }

    /// False when the dequeue was delayed.
    fn dequeue_entity(&self, s: &mut Sched, q: usize, i: usize, flags: Dequeue) -> bool {
        self.update_curr_entity(s, q);
        fair::clear_buddies(s, i);
        let delay = s.features.delay_dequeue && flags.sleep && !flags.delayed && !flags.special;
        if delay && !entity_eligible(s, q, i) {
            update_load_avg(s, q, i, Update::NONE);
            set_delayed(s, i);
            return false;
        }
        fair::dequeue_loads(s, q, i);
        self.update_entity_lag(s, q, i);
        if s.cfs[q].curr != i {
            self.tree_remove(s, q, i);
        }
        let se = &mut s.se[i];
        if s.features.place_rel_deadline && !flags.sleep {
            se.deadline = se.deadline.wrapping_sub(se.vruntime);
            se.rel_deadline = true;
        }
        se.on_rq = false;
        fair::account_entity_dequeue(s, q, i);
        fair::left(s, q);
        fair::update_cfs_group(self, s, i);
        if flags.delayed {
            clear_delayed(s, i);
            let se = &mut s.se[i];
            if s.features.delay_zero && se.vlag > 0 {
                se.vlag = 0;
            }
        }
        true
    }
}

impl SchedClass for Eevdf {
    fn enqueue_task(&self, s: &mut Sched, cpu: CpuId, pid: Pid, mut flags: Enqueue) {
        let mut i = s.se_of(pid);
        flags.migrated |= s.tasks[pid.at()].on_rq == OnRq::Migrating;
        if flags.initial {
            fair::post_init_entity_util_avg(s, pid);
        }
        let still_delayed = s.se[i].sched_delayed;
        if !flags.estimated && (!still_delayed || flags.delayed) {
            fair::util_est_enqueue(s, cpu, pid);
        }
        if flags.delayed {
            self.requeue_delayed_entity(s, i);
            return;
        }
        let mut count = Count {
            queued: 1,
            delayed: u32::from(!flags.wakeup && still_delayed),
            idle: u32::from(s.tasks[pid.at()].policy == Policy::Idle),
        };
        let (mut counting_only, mut slice) = (false, 0);
        while i != NONE {
            let q = s.se[i].cfs_rq;
            if !counting_only && s.se[i].on_rq {
                if s.se[i].sched_delayed {
                    self.requeue_delayed_entity(s, i);
                }
                counting_only = true;
            }
            if counting_only {
                fair::update_above(self, s, q, i);
                s.se[i].slice = slice;
            } else {
                if slice != 0 {
                    (s.se[i].slice, s.se[i].custom_slice) = (slice, true);
                }
                self.enqueue_entity(s, q, i, flags);
                flags = Enqueue { wakeup: true, ..Enqueue::default() };
            }
            slice = self.slice_above(s, q);
            count.join(s, q);
            if s.cfs[q].runtime.throttled {
                return;
            }
            i = s.se[i].parent;
        }
        s.rqs[cpu.at()].nr_running += 1;
    }

    fn dequeue_task(&self, s: &mut Sched, cpu: CpuId, pid: Pid, flags: Dequeue) -> bool {
        let i = s.se_of(pid);
        if !s.se[i].sched_delayed {
            fair::util_est_dequeue(s, cpu, i);
        }
        let at_once = s.util_est.samples_before_the_dequeue();
        if at_once {
            fair::util_est_update(s, cpu, i, flags.sleep);
        }
        let left = self.dequeue_entities(s, cpu, i, flags);
        if !at_once {
            fair::util_est_update(s, cpu, i, flags.sleep);
        }
        left
    }

    fn yield_task(&self, s: &mut Sched, cpu: CpuId) {
        let rq = &s.rqs[cpu.at()];
        let i = s.se_of(rq.curr);
        if rq.nr_running == 1 {
            return;
        }
        fair::clear_buddies(s, i);
        let q = s.se[i].cfs_rq;
        self.update_curr_entity(s, q);
        if !self.forfeit_on_yield {
            // Its turn comes a slice later, but its virtual time is its own: among the eligible it may soon be first again.
            let se = &mut s.se[i];
            se.deadline = se.deadline.wrapping_add(calc_delta_fair(se.slice, se));
        } else if entity_eligible(s, q, i) {
            // It forfeits the rest of its slice, if it is one it may use.
            s.se[i].vruntime = s.se[i].deadline;
            self.update_deadline(s, q, i);
        }
    }

    fn wakeup_preempt(&self, s: &mut Sched, cpu: CpuId, pid: Pid, fork: bool) {
        let Some((se, pse)) = fair::contenders(s, cpu, pid) else { return };
        if s.features.next_buddy && !fork && !s.se[pse].sched_delayed {
            fair::set_buddy(s, pse, |c| &mut c.next);
        }
        if s.rqs[cpu.at()].need_resched || !s.features.wakeup_preemption {
            return;
        }
        if self.preempts(s, pid, se, pse) {
            s.rqs[cpu.at()].need_resched = true;
        }
    }

    fn pick_task(&self, s: &mut Sched, cpu: CpuId) -> Option<Pid> {
        let root = cpu.at();
        let mut q = root;
        loop {
            if s.cfs[root].nr_queued == 0 {
                return None;
            }
            if s.cfs[q].curr != NONE && s.se[s.cfs[q].curr].on_rq {
                self.update_curr_entity(s, q);
            }
            if bandwidth::check_cfs_rq_runtime(self, s, q) {
                q = root;
                continue;
            }
            let i = self.pick_next_entity(s, q);
            if s.se[i].sched_delayed {
                self.dequeue_entities(s, cpu, i, Dequeue { sleep: true, delayed: true, ..Dequeue::default() });
                q = root;
                continue;
            }
            match s.se[i].my_q {
                NONE => return s.task_of(i),
                below => q = below,
            }
        }
    }

    fair::shared_callbacks!();

    fn migrate_task_rq(&self, s: &mut Sched, pid: Pid, _new_cpu: CpuId) {
        fair::migrate_task_rq(s, pid);
    }

    fn switched_to(&self, s: &mut Sched, cpu: CpuId, pid: Pid) {
        fair::attach_task_cfs_rq(s, pid);
        fair::switched_to(self, s, cpu, pid);
    }

    fn switched_from(&self, s: &mut Sched, _cpu: CpuId, pid: Pid) {
        fair::detach_task_cfs_rq(s, pid);
    }
}

impl Eevdf {
    fn pick_next_entity(&self, s: &Sched, q: usize) -> usize {
        let next = s.cfs[q].next;
        let prefers = s.features.pick_buddy || s.features.next_buddy;
        if prefers && next != NONE && entity_eligible(s, q, next) {
            return next;
        }
        let i = self.pick_eevdf(s, q);
        assert!(i != NONE, "the entity with the least virtual time is always eligible");
        i
    }

    /// Does the wakee preempt the running entity at the level where they meet?
    fn preempts(&self, s: &mut Sched, pid: Pid, se: usize, pse: usize) -> bool {
        // Until "sched/fair: Make SCHED_IDLE entity be preempted in strict hierarchy" (6.12) threads are compared before their groups.
        if self.generation == Generation::V6_6 && s.se[se].idle && !s.se[pse].idle {
            return true;
        }
        let (se, pse) = fair::find_matching_se(s, se, pse);
        if s.se[se].idle != s.se[pse].idle {
            if s.se[se].idle && self.generation > Generation::V6_6 {
                cancel_protect_slice(&mut s.se[se]);
            }
            return s.se[se].idle;
        }
        if s.tasks[pid.at()].policy != Policy::Normal {
            return false;
        }
        let q = s.se[se].cfs_rq;
        self.update_curr_entity(s, q);
        if self.do_preempt_short(s, q, pse, se) {
            cancel_protect_slice(&mut s.se[se]);
        }
        self.pick_eevdf(s, q) == pse
    }
}
