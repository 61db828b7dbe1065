//! What CFS and EEVDF share: the hierarchy of groups, load tracking at its hooks, accounting, and what the balancer and `core`
//! call (`fair.c` without the picking).
//!
//! Entities are indices `i` into [`Sched::se`], queues are indices `q` into [`Sched::cfs`]; a task's entity is queued on its
//! group's queue of its CPU, a group's entity on the parent group's. Without groups every loop over the hierarchy runs once.
//!
//! FIDELITY(group-propagation): group shares, propagation of load through groups and SCHED_IDLE groups follow the kernel, but
//! no vectors of it exist. Limits of groups are in `bandwidth.rs`.

use super::bandwidth::{self, cfs_rq_pelt_at, throttled_hierarchy};
use super::weight::{WEIGHT_IDLEPRIO, calc_delta_fair, load_weight, scale_load_down, se_weight};
use super::{Dequeue, Enqueue, SchedClass};
use crate::sched::Sched;
use crate::sched::load::pelt::{self, At, Generation, Pelt};
use crate::sched::rq::CfsRq;
use crate::sched::task::{NONE, OnRq, SchedEntity};
use wattif_model::workload::Policy;
use wattif_model::{CpuId, Pid};

/// What the shared parts need of a fair class.
pub trait Fair: SchedClass {
    /// Account the running entity of a queue up to now.
    fn update_curr_entity(&self, s: &mut Sched, q: usize);
    /// Change an entity's weight (scaled).
    fn reweight_entity(&self, s: &mut Sched, i: usize, weight: u64);
    /// An entity that was queued starts to run: class-specific part of `set_next_entity`.
    fn entity_picked(&self, se: &mut SchedEntity);
    /// The running entity of a queue saw a tick: class-specific part of `entity_tick`.
    fn entity_ticked(&self, s: &mut Sched, q: usize, i: usize);
    /// Put an entity into the timeline.
    fn tree_insert(&self, s: &mut Sched, q: usize, i: usize);
    /// Take it out.
    fn tree_remove(&self, s: &mut Sched, q: usize, i: usize);
    /// Queue an entity on one queue, without those above.
    fn enqueue_entity(&self, s: &mut Sched, q: usize, i: usize, flags: Enqueue);
    /// Take an entity off one queue. False when that was delayed.
    fn dequeue_entity(&self, s: &mut Sched, q: usize, i: usize, flags: Dequeue) -> bool;
}

/// The callbacks of [`SchedClass`] in which CFS and EEVDF do not differ.
macro_rules! shared_callbacks {
    () => {
        fn put_prev_task(&self, s: &mut Sched, _cpu: CpuId, pid: Pid) {
            fair::put_prev_task(self, s, pid);
        }

        fn set_next_task(&self, s: &mut Sched, _cpu: CpuId, pid: Pid, _first: bool) {
            fair::set_next_task(self, s, pid);
        }

        fn put_prev_set_next_task(&self, s: &mut Sched, _cpu: CpuId, prev: Pid, next: Pid) {
            fair::put_prev_set_next_task(self, s, prev, next);
        }

        fn task_tick(&self, s: &mut Sched, _cpu: CpuId, pid: Pid) {
            fair::task_tick(self, s, pid);
        }

        fn update_curr(&self, s: &mut Sched, cpu: CpuId) {
            fair::update_curr_task(self, s, cpu);
        }

        fn cfs_period_timer(&self, s: &mut Sched, group: u32, cpu: CpuId) {
            bandwidth::sched_cfs_period_timer(self, s, group, cpu);
        }

        fn cfs_slack_timer(&self, s: &mut Sched, group: u32) {
            bandwidth::sched_cfs_slack_timer(self, s, group);
        }

        fn reweight_task(&self, s: &mut Sched, pid: Pid) {
            fair::reweight_task(self, s, pid);
        }

        fn prio_changed(&self, s: &mut Sched, cpu: CpuId, pid: Pid, old_prio: u8) {
            fair::prio_changed(self, s, cpu, pid, old_prio);
        }
    };
}
pub(super) use shared_callbacks;

/// Flags of [`update_load_avg`].
#[derive(Clone, Copy, Default)]
pub(super) struct Update {
    pub tg: bool,
    pub attach: bool,
    pub detach: bool,
}

impl Update {
    pub(super) const NONE: Update = Update { tg: false, attach: false, detach: false };
    pub(super) const TG: Update = Update { tg: true, attach: false, detach: false };
}

// ---- load tracking -------------------------------------------------------------------------------------------------

/// Ages an entity and its queue to now, and attaches or detaches a migrating task. It stands once: in every place that calls it, it would
/// push other code out of the instruction cache.
#[inline(never)]
pub(super) fn update_load_avg(s: &mut Sched, q: usize, i: usize, flags: Update) {
    let (cfs, se) = (&mut s.cfs[q], &mut s.se[i]);
    let rq = &s.rqs[cfs.cpu.at()];
    let at = cfs_rq_pelt_at(rq, cfs);
    let ages = se.attached || se.avg.last_update_time != 0;
    if ages && update_load_avg_se(&rq.pelt, at, se, cfs.curr == i) && s.features.util_est {
        s.util_est.util_change(&mut se.avg);
    }
    let mut decayed = age_cfs_rq(&rq.pelt, at, cfs);
    decayed |= propagate_entity_load_avg(s, q, i);
    if !s.se[i].attached && flags.attach {
        attach_entity_load_avg(s, q, i);
        update_tg_load_avg(s, q);
    } else if flags.detach {
        detach_entity_load_avg(s, q, i);
        update_tg_load_avg(s, q);
    } else if decayed {
        cfs_rq_util_change(s, q);
        if flags.tg {
            update_tg_load_avg(s, q);
        }
    }
}

/// Ages an entity; `curr`: it is what its queue runs. True if its averages changed.
#[doc(alias = "__update_load_avg_se")]
#[inline(always)]
fn update_load_avg_se(pelt: &Pelt, at: At, se: &mut SchedEntity, curr: bool) -> bool {
    let runnable = if se.my_q != NONE { se.runnable_weight } else { u64::from(se.on_rq && !se.sched_delayed) };
    let decayed = pelt.update_load_sum(at, &mut se.avg, u64::from(se.on_rq), runnable, curr);
    if decayed {
        pelt.update_load_avg(&mut se.avg, scale_load_down(se.weight));
    }
    decayed
}

/// Ages a queue to now and folds in what left it. True if averages changed.
pub fn update_cfs_rq_load_avg(s: &mut Sched, q: usize) -> bool {
    let cfs = &mut s.cfs[q];
    let rq = &s.rqs[cfs.cpu.at()];
    age_cfs_rq(&rq.pelt, cfs_rq_pelt_at(rq, cfs), cfs)
}

#[inline(always)]
fn age_cfs_rq(pelt: &Pelt, at: At, cfs: &mut CfsRq) -> bool {
    let decayed = cfs.removed.nr != 0;
    if decayed {
        let runnable = cfs.removed.runnable_avg * u64::from(pelt.divider(&cfs.avg));
        pelt.fold_removed(&mut cfs.avg, &mut cfs.removed);
        // The unweighted runnable time stands in for the unweighted load that left.
        add_tg_cfs_propagate(cfs, -(runnable as i64) >> 10);
    }
    let load = scale_load_down(cfs.load_weight);
    let runnable = u64::from(cfs.h_nr_running - cfs.h_nr_delayed);
    pelt.update(at, &mut cfs.avg, load, runnable, cfs.curr != NONE) | decayed
}

/// The root queue's utilisation changed: the frequency governor should look.
#[inline]
fn cfs_rq_util_change(s: &mut Sched, q: usize) {
    let cfs = &s.cfs[q];
    if cfs.group == 0 {
        let rq = &mut s.rqs[cfs.cpu.at()];
        (rq.util_changed, rq.changed_by_deadline) = (true, false);
        s.signal_versions[cfs.cpu.at()] += 1;
    }
}

#[inline(never)]
fn attach_entity_load_avg(s: &mut Sched, q: usize, i: usize) {
    let (cfs, se) = (&mut s.cfs[q], &mut s.se[i]);
    let weight = se_weight(se);
    s.rqs[cfs.cpu.at()].pelt.attach_entity_load_avg(&mut cfs.avg, &mut se.avg, weight);
    se.attached = true;
    add_tg_cfs_propagate(cfs, se.avg.load_sum as i64);
    cfs_rq_util_change(s, q);
}

#[inline(never)]
fn detach_entity_load_avg(s: &mut Sched, q: usize, i: usize) {
    let (cfs, se) = (&mut s.cfs[q], &s.se[i]);
    s.rqs[cfs.cpu.at()].pelt.detach_entity_load_avg(&mut cfs.avg, &se.avg, se_weight(se));
    add_tg_cfs_propagate(cfs, -(se.avg.load_sum as i64));
    cfs_rq_util_change(s, q);
}

/// Ages everything of a CPU that may be asleep. True if averages changed.
pub fn update_blocked_averages(s: &mut Sched, cpu: CpuId) -> bool {
    let rq = &mut s.rqs[cpu.at()];
    let curr = &s.tasks[rq.curr.at()];
    let (dl, rt) = (curr.is_dl(), curr.pid != Pid(0) && curr.is_rt());
    let mut others = pelt::update_rt_rq_load_avg(rq, rt) | pelt::update_dl_rq_load_avg(rq, dl);
    others |= pelt::update_irq_load_avg(rq, 0) != 0;
    let mut decayed = false;
    // Children before parents; group 0 is the root.
    for group in (0..s.groups.len() as u32).rev() {
        let q = s.cfs_of(group, cpu);
        // cfs_rq_is_decayed: a part of the group's load that the limit of one update a ms left behind is still to be taken back.
        let cfs = &s.cfs[q];
        let settled = cfs.avg.is_decayed() && cfs.tg_load_avg_contrib == 0;
        let nothing_to_do = cfs.nr_queued == 0 && cfs.removed.nr == 0 && settled;
        if group != 0 && (nothing_to_do || throttled_hierarchy(s, q)) {
            continue;
        }
        if update_cfs_rq_load_avg(s, q) {
            update_tg_load_avg(s, q);
            decayed |= group == 0;
        }
        let i = s.cfs[q].se;
        if i != NONE && !skip_blocked_update(s, i) {
            let parent = s.se[i].cfs_rq;
            update_load_avg(s, parent, i, Update::TG);
        }
    }
    let rq = &mut s.rqs[cpu.at()];
    let cfs = &s.cfs[cpu.at()].avg;
    let others_have_blocked = rq.avg_rt.util_avg != 0 || rq.avg_dl.util_avg != 0 || rq.avg_irq.util_avg != 0;
    rq.has_blocked_load = cfs.load_avg != 0 || cfs.util_avg != 0 || others_have_blocked;
    rq.changed_by_deadline &= !decayed;
    // Those that tell a governor of 4.9 nothing are not in that kernel's averages.
    rq.util_changed |= decayed || others && !s.cpufreq_hears_own;
    s.signal_versions[cpu.at()] += u64::from(decayed || others);
    decayed || others
}

/// A group's entity that has nothing to decay and nothing to carry upwards.
fn skip_blocked_update(s: &Sched, i: usize) -> bool {
    let se = &s.se[i];
    se.avg.load_avg == 0 && se.avg.util_avg == 0 && !s.cfs[se.my_q].propagate
}

// ---- groups --------------------------------------------------------------------------------------------------------

fn add_tg_cfs_propagate(cfs: &mut CfsRq, runnable_sum: i64) {
    if cfs.se != NONE {
        cfs.propagate = true;
        cfs.prop_runnable_sum += runnable_sum;
    }
}

/// Carries changes of a group's queue into its entity and the queue above. True if there were any.
#[inline]
fn propagate_entity_load_avg(s: &mut Sched, q: usize, i: usize) -> bool {
    let my_q = s.se[i].my_q;
    my_q != NONE && s.cfs[my_q].propagate && carry_entity_load_avg(s, q, i, my_q)
}

#[inline(never)]
fn carry_entity_load_avg(s: &mut Sched, q: usize, i: usize, my_q: usize) -> bool {
    let runnable_sum = s.cfs[my_q].prop_runnable_sum;
    s.cfs[my_q].propagate = false;
    s.cfs[my_q].prop_runnable_sum = 0;
    add_tg_cfs_propagate(&mut s.cfs[q], runnable_sum);
    update_tg_cfs_util(s, q, i, my_q);
    update_tg_cfs_runnable(s, q, i, my_q);
    update_tg_cfs_load(s, q, i, my_q, runnable_sum);
    true
}

/// `add_positive`.
fn add_positive(v: u64, delta: i64) -> u64 {
    v.saturating_add_signed(delta)
}

#[inline(never)]
fn update_tg_cfs_util(s: &mut Sched, q: usize, i: usize, my_q: usize) {
    let util = s.cfs[my_q].avg.util_avg;
    let (cfs, se) = (&mut s.cfs[q], &mut s.se[i]);
    let pelt = &s.rqs[cfs.cpu.at()].pelt;
    let delta_avg = util as i64 - se.avg.util_avg as i64;
    if delta_avg == 0 {
        return;
    }
    let new_sum = (util as u32).wrapping_mul(pelt.divider(&cfs.avg));
    let delta_sum = i64::from(new_sum) - i64::from(se.avg.util_sum);
    (se.avg.util_avg, se.avg.util_sum) = (util, new_sum);
    cfs.avg.util_avg = add_positive(cfs.avg.util_avg, delta_avg);
    let sum = add_positive(u64::from(cfs.avg.util_sum), delta_sum);
    cfs.avg.util_sum = pelt.floor_sum(sum, cfs.avg.util_avg);
}

#[inline(never)]
fn update_tg_cfs_runnable(s: &mut Sched, q: usize, i: usize, my_q: usize) {
    let runnable = s.cfs[my_q].avg.runnable_avg;
    let (cfs, se) = (&mut s.cfs[q], &mut s.se[i]);
    let pelt = &s.rqs[cfs.cpu.at()].pelt;
    let delta_avg = runnable as i64 - se.avg.runnable_avg as i64;
    if delta_avg == 0 {
        return;
    }
    let new_sum = runnable * u64::from(pelt.divider(&cfs.avg));
    let delta_sum = new_sum as i64 - se.avg.runnable_sum as i64;
    (se.avg.runnable_avg, se.avg.runnable_sum) = (runnable, new_sum);
    cfs.avg.runnable_avg = add_positive(cfs.avg.runnable_avg, delta_avg);
    let sum = add_positive(cfs.avg.runnable_sum, delta_sum);
    cfs.avg.runnable_sum = u64::from(pelt.floor_sum(sum, cfs.avg.runnable_avg));
}

#[inline(never)]
fn update_tg_cfs_load(s: &mut Sched, q: usize, i: usize, my_q: usize, runnable_sum: i64) {
    if runnable_sum == 0 {
        return;
    }
    let divider = u64::from(s.rqs[s.cfs[q].cpu.at()].pelt.divider(&s.cfs[q].avg));
    let avg = &s.se[i].avg;
    let mut sum = if runnable_sum >= 0 {
        // Until the CPU is saturated, running and runnable are the same: add, up to the maximum.
        (runnable_sum as u64 + avg.load_sum).min(divider)
    } else {
        // All tasks that are left are taken to be equally runnable; what remains cannot be more than there was.
        let weight = scale_load_down(s.cfs[my_q].load_weight);
        avg.load_sum.min(s.cfs[my_q].avg.load_sum.checked_div(weight).unwrap_or(0))
    };
    sum = sum.max(u64::from(avg.util_sum >> 10));
    let weight = se_weight(&s.se[i]);
    let (cfs, se) = (&mut s.cfs[q], &mut s.se[i]);
    let load_sum = weight * sum;
    let load_avg = load_sum / divider;
    let delta_avg = load_avg as i64 - se.avg.load_avg as i64;
    if delta_avg == 0 {
        return;
    }
    let delta_sum = load_sum as i64 - (weight * se.avg.load_sum) as i64;
    (se.avg.load_sum, se.avg.load_avg) = (sum, load_avg);
    cfs.avg.load_avg = add_positive(cfs.avg.load_avg, delta_avg);
    let sum = add_positive(cfs.avg.load_sum, delta_sum);
    cfs.avg.load_sum = u64::from(s.rqs[cfs.cpu.at()].pelt.floor_sum(sum, cfs.avg.load_avg));
}

/// Publishes a queue's load to its group, when it changed by more than 1/64, and not too often (since 6.7).
fn update_tg_load_avg(s: &mut Sched, q: usize) {
    let cfs = &mut s.cfs[q];
    if cfs.group == 0 || s.now - cfs.last_update_tg_load_avg < s.tg_load_avg_limit_ns {
        return;
    }
    let delta = cfs.avg.load_avg as i64 - cfs.tg_load_avg_contrib as i64;
    if delta.unsigned_abs() > cfs.tg_load_avg_contrib / 64 {
        let group = &mut s.groups[cfs.group as usize];
        group.load_avg = group.load_avg.saturating_add_signed(delta);
        cfs.tg_load_avg_contrib = cfs.avg.load_avg;
        cfs.last_update_tg_load_avg = s.now;
    }
}

/// A group's weight on a CPU: its shares, by the part of its load that is there (scaled).
#[inline(never)]
fn calc_group_shares(s: &Sched, q: usize) -> u64 {
    let cfs = &s.cfs[q];
    let group = &s.groups[cfs.group as usize];
    let tg_shares = if group.idle { u64::from(WEIGHT_IDLEPRIO) } else { group.shares } << 10;
    let load = scale_load_down(cfs.load_weight).max(cfs.avg.load_avg);
    let tg_weight = (group.load_avg + load).saturating_sub(cfs.tg_load_avg_contrib);
    let shares = (tg_shares * load).checked_div(tg_weight).unwrap_or(tg_shares * load);
    shares.clamp(2, tg_shares.max(2))
}

/// Gives a group's entity the weight its part of the group deserves.
#[inline]
pub(super) fn update_cfs_group<F: Fair + ?Sized>(f: &F, s: &mut Sched, i: usize) {
    let my_q = s.se[i].my_q;
    if my_q == NONE || s.cfs[my_q].load_weight == 0 || throttled_hierarchy(s, my_q) {
        return;
    }
    let shares = calc_group_shares(s, my_q);
    if s.se[i].weight != shares {
        f.reweight_entity(s, i, shares);
    }
}

#[inline]
pub(super) fn se_update_runnable(s: &mut Sched, i: usize) {
    let se = &mut s.se[i];
    if se.my_q != NONE {
        let my_q = &s.cfs[se.my_q];
        se.runnable_weight = u64::from(my_q.h_nr_running - my_q.h_nr_delayed);
    }
}

/// A task joined or left below an entity that stays queued.
#[inline]
pub(super) fn update_above<F: Fair + ?Sized>(f: &F, s: &mut Sched, q: usize, i: usize) {
    update_load_avg(s, q, i, Update::TG);
    se_update_runnable(s, i);
    update_cfs_group(f, s, i);
}

/// An entity's loads as it leaves its queue; those of a task that migrates leave with it.
#[inline(always)]
pub(super) fn dequeue_loads(s: &mut Sched, q: usize, i: usize) {
    let migrating = s.task_of(i).is_some_and(|p| s.tasks[p.at()].on_rq == OnRq::Migrating);
    update_load_avg(s, q, i, Update { tg: true, attach: false, detach: migrating });
    if migrating {
        s.se[i].attached = false;
    }
    se_update_runnable(s, i);
}

/// How deep an entity is below the root.
fn depth(s: &Sched, mut i: usize) -> u32 {
    let mut depth = 0;
    while s.se[i].parent != NONE {
        i = s.se[i].parent;
        depth += 1;
    }
    depth
}

/// The ancestors of two entities (or themselves) that are queued on the same queue.
#[inline(never)]
pub(super) fn find_matching_se(s: &Sched, mut a: usize, mut b: usize) -> (usize, usize) {
    if s.se[a].cfs_rq == s.se[b].cfs_rq {
        return (a, b);
    }
    let (mut da, mut db) = (depth(s, a), depth(s, b));
    while s.se[a].cfs_rq != s.se[b].cfs_rq {
        let (up_a, up_b) = (da >= db, db >= da);
        if up_a {
            (a, da) = (s.se[a].parent, da - 1);
        }
        if up_b {
            (b, db) = (s.se[b].parent, db - 1);
        }
    }
    (a, b)
}

/// Sets up queues and entities of all groups; call once, after `groups` and `cfs` have their final size.
pub fn init_groups(s: &mut Sched) {
    for group in 0..s.groups.len() as u32 {
        for cpu in (0..s.nr_cpus() as u32).map(CpuId) {
            let q = s.cfs_of(group, cpu);
            (s.cfs[q].cpu, s.cfs[q].group) = (cpu, group);
            if group == 0 {
                continue;
            }
            // A group's entity has the number of its queue.
            let parent = s.cfs_of(s.groups[group as usize].parent, cpu);
            assert!(parent < q, "groups are listed after their parents");
            s.cfs[q].se = q;
            s.cfs[q].runtime.enabled = s.groups[group as usize].bandwidth.is_some();
            let idle = s.groups[group as usize].idle;
            let parent_se = s.cfs[parent].se;
            s.se[q] = SchedEntity {
                my_q: q,
                cfs_rq: parent,
                parent: parent_se,
                attached: true,
                idle,
                ..SchedEntity::default()
            };
        }
    }
}

/// Ties a task's entity to the queue of its group on a CPU.
pub fn set_task_rq(s: &mut Sched, pid: Pid, cpu: CpuId) {
    let (i, q) = (s.se_of(pid), s.task_cfs_of(s.tasks[pid.at()].group, cpu));
    (s.se[i].cfs_rq, s.se[i].parent) = (q, s.cfs[q].se);
}

// ---- tasks ---------------------------------------------------------------------------------------------------------

/// First state of a task's entity: weight by policy and nice value, full load, no utilisation; on the queue of its CPU.
#[doc(alias = "__sched_fork")]
pub fn init_task(s: &mut Sched, pid: Pid) {
    let i = s.se_of(pid);
    let task = &s.tasks[pid.at()];
    let (cpu, idle) = (task.cpu, task.policy == Policy::Idle);
    let (weight, inv_weight) = load_weight(task.nice, idle);
    let avg = s.rqs[cpu.at()].pelt.init_entity_runnable_average(scale_load_down(weight));
    // A slice that was asked for before the task starts is kept.
    let (slice, custom_slice) = (s.se[i].slice, s.se[i].custom_slice);
    s.se[i] = SchedEntity { weight, inv_weight, idle, avg, slice, custom_slice, ..SchedEntity::default() };
    set_task_rq(s, pid, cpu);
}

/// First utilisation of a new task, just before its first enqueue.
pub fn post_init_entity_util_avg(s: &mut Sched, pid: Pid) {
    let i = s.se_of(pid);
    let (se, cpu) = (&mut s.se[i], s.tasks[pid.at()].cpu);
    let weight = se_weight(se);
    let rq = &s.rqs[cpu.at()];
    rq.pelt.post_init_util(&mut se.avg, weight, &s.cfs[se.cfs_rq].avg, rq.cpu_capacity_orig);
}

/// Ages a blocked task's averages to the last update of the queue it slept on.
pub fn sync_entity_load_avg(s: &mut Sched, pid: Pid) {
    let i = s.se_of(pid);
    if s.se[i].attached && !s.se[i].on_rq {
        sync_entity(s, i);
    }
}

#[inline(always)]
fn sync_entity(s: &mut Sched, i: usize) {
    let se = &mut s.se[i];
    let cfs = &s.cfs[se.cfs_rq];
    let rq = &s.rqs[cfs.cpu.at()];
    let weight = se_weight(se);
    rq.pelt.update_blocked_se(At { now: cfs.avg.last_update_time, ..rq.pelt_at() }, &mut se.avg, weight);
}

/// A blocked task leaves its CPU: its averages are aged to its queue's last update and are taken off there later.
fn remove_entity_load_avg(s: &mut Sched, i: usize) {
    sync_entity(s, i);
    let se = &s.se[i];
    let cfs = &mut s.cfs[se.cfs_rq];
    let rq = &s.rqs[cfs.cpu.at()];
    cfs.removed.nr += 1;
    cfs.removed.util_avg += se.avg.util_avg;
    cfs.removed.load_avg += se.avg.load_avg;
    cfs.removed.runnable_avg += se.avg.runnable_avg;
    if rq.pelt.migrate_lag && rq.curr == Pid(0) {
        migrate_se_pelt_lag(s, i);
    }
}

/// `task_dead_fair`: what a thread that ended has left on its CPU. 3.13 leaves it there (until "sched/fair: Remove task and group entity
/// load when they are dead", 4.3).
pub fn task_dead(s: &mut Sched, pid: Pid) {
    let i = s.se_of(pid);
    if s.se[i].attached && s.rqs[0].pelt.generation != Generation::Unscaled {
        remove_entity_load_avg(s, i);
        s.se[i].attached = false;
    }
}

/// The idle CPU a task leaves has an old clock: estimate what it missed, so that the task does not arrive too heavy.
#[inline(never)]
fn migrate_se_pelt_lag(s: &mut Sched, i: usize) {
    let se = &mut s.se[i];
    if se.avg.is_decayed() {
        return;
    }
    let cfs = &s.cfs[se.cfs_rq];
    let rq = &s.rqs[cfs.cpu.at()];
    // The clock stood still: nothing was missed.
    let Some(throttled) = cfs.runtime.throttled_pelt_idle else { return };
    let idle_since = rq.clock_pelt_idle - throttled;
    let now = if idle_since < cfs.avg.last_update_time {
        cfs.avg.last_update_time
    } else {
        idle_since + (s.now.wrapping_sub(rq.clock_idle))
    };
    let weight = se_weight(se);
    rq.pelt.update_blocked_se(At { now, ..rq.pelt_at() }, &mut se.avg, weight);
}

/// The common part of `migrate_task_rq_fair`.
pub(super) fn migrate_task_rq(s: &mut Sched, pid: Pid) {
    let i = s.se_of(pid);
    if s.tasks[pid.at()].on_rq != OnRq::Migrating && s.se[i].attached {
        remove_entity_load_avg(s, i);
    }
    s.se[i].attached = false;
    s.se[i].avg.last_update_time = 0;
}

/// `set_task_cpu()` of a fair or other task: tells its class, then moves it. The task is not queued.
pub fn set_task_cpu<C: SchedClass + ?Sized>(class: &C, s: &mut Sched, pid: Pid, cpu: CpuId) {
    if s.tasks[pid.at()].cpu != cpu {
        class.migrate_task_rq(s, pid, cpu);
    }
    s.tasks[pid.at()].cpu = cpu;
    set_task_rq(s, pid, cpu);
}

/// Load balancing, first step: takes a queued task off `src`. Its clock must be up to date.
pub fn detach_task<C: SchedClass + ?Sized>(class: &C, s: &mut Sched, pid: Pid, dst: CpuId) {
    let src = s.tasks[pid.at()].cpu;
    s.tasks[pid.at()].on_rq = OnRq::Migrating;
    class.dequeue_task(s, src, pid, Dequeue::default());
    set_task_cpu(class, s, pid, dst);
}

/// Load balancing, second step: queues it on its new CPU, whose clock must be up to date; then call `wakeup_preempt`.
pub fn attach_task<C: SchedClass + ?Sized>(class: &C, s: &mut Sched, pid: Pid) {
    let dst = s.tasks[pid.at()].cpu;
    class.enqueue_task(s, dst, pid, Enqueue { migrated: true, ..Enqueue::default() });
    s.tasks[pid.at()].on_rq = OnRq::Queued;
}

/// New nice value or policy of a fair task: dequeue, put, reweight, enqueue, set next, in the kernel's order.
pub fn set_user_nice<C: SchedClass + ?Sized>(class: &C, s: &mut Sched, pid: Pid, nice: i8) {
    let task = &mut s.tasks[pid.at()];
    let (cpu, old_prio, queued) = (task.cpu, task.prio, task.on_rq == OnRq::Queued);
    let running = s.rqs[cpu.at()].curr == pid;
    if queued {
        class.dequeue_task(s, cpu, pid, Dequeue { save: true, ..Dequeue::default() });
    }
    if running {
        class.put_prev_task(s, cpu, pid);
    }
    let task = &mut s.tasks[pid.at()];
    task.nice = nice;
    (task.prio, task.normal_prio) = ((120 + i32::from(nice)) as u8, (120 + i32::from(nice)) as u8);
    class.reweight_task(s, pid);
    if queued {
        class.enqueue_task(s, cpu, pid, Enqueue { restore: true, ..Enqueue::default() });
    }
    if running {
        class.set_next_task(s, cpu, pid, false);
    }
    if queued {
        class.prio_changed(s, cpu, pid, old_prio);
    }
}

/// The task's weight by its policy and nice value (`reweight_task_fair`).
pub(super) fn reweight_task<F: Fair + ?Sized>(f: &F, s: &mut Sched, pid: Pid) {
    let i = s.se_of(pid);
    let task = &s.tasks[pid.at()];
    let idle = task.policy == Policy::Idle;
    let (weight, inv_weight) = load_weight(task.nice, idle);
    f.reweight_entity(s, i, weight);
    (s.se[i].inv_weight, s.se[i].idle) = (inv_weight, idle);
}

/// The last normal task left and SCHED_IDLE ones remain: balance at once.
#[inline]
pub(super) fn balance_early(s: &mut Sched, cpu: CpuId, was_sched_idle: bool) {
    if !was_sched_idle && s.sched_idle_cpu(cpu) {
        let rq = &mut s.rqs[cpu.at()];
        rq.next_balance = rq.clock;
    }
}

// ---- accounting ----------------------------------------------------------------------------------------------------

#[inline]
pub(super) fn account_entity_enqueue(s: &mut Sched, q: usize, i: usize) {
    let (cfs, se) = (&mut s.cfs[q], &s.se[i]);
    cfs.load_weight += se.weight;
    cfs.nr_queued += 1;
    cfs.idle_nr_running += u32::from(se.idle);
}

#[inline]
pub(super) fn account_entity_dequeue(s: &mut Sched, q: usize, i: usize) {
    let (cfs, se) = (&mut s.cfs[q], &s.se[i]);
    cfs.load_weight -= se.weight;
    cfs.nr_queued -= 1;
    cfs.idle_nr_running -= u32::from(se.idle);
}

/// Time the running entity of a queue used since the last call, and the entity; `None` if there is nothing to account.
#[inline(always)]
pub(super) fn update_curr_se(s: &mut Sched, q: usize) -> Option<(usize, u64)> {
    let cfs = &s.cfs[q];
    let i = cfs.curr;
    if i == NONE {
        return None;
    }
    let now = s.rqs[cfs.cpu.at()].clock_task;
    let se = &mut s.se[i];
    let delta = now.wrapping_sub(se.exec_start);
    if delta as i64 <= 0 {
        return None;
    }
    se.exec_start = now;
    se.sum_exec_runtime += delta;
    se.vruntime = se.vruntime.wrapping_add(calc_delta_fair(delta, se));
    if cfs.runtime.enabled {
        bandwidth::account_cfs_rq_runtime(s, q, delta);
    }
    Some((i, delta))
}

/// New weight of an entity, and the load averages that follow from it; the common part of `reweight_entity`.
pub(super) fn change_weight(s: &mut Sched, q: usize, i: usize, weight: u64) {
    let (cfs, se) = (&mut s.cfs[q], &mut s.se[i]);
    let pelt = &s.rqs[cfs.cpu.at()].pelt;
    pelt.dequeue_load_avg(&mut cfs.avg, &se.avg, se_weight(se));
    (se.weight, se.inv_weight) = (weight, 0);
    let new = se_weight(se);
    se.avg.load_avg = new * se.avg.load_sum / u64::from(pelt.divider(&se.avg));
    pelt.enqueue_load_avg(&mut cfs.avg, &se.avg, new);
}

/// The CPU's estimate gains a task's.
#[inline]
pub fn util_est_enqueue(s: &mut Sched, cpu: CpuId, pid: Pid) {
    if s.features.util_est {
        let i = s.se_of(pid);
        s.util_est.enqueue(&mut s.cfs[cpu.at()].avg, &s.se[i].avg);
        s.signal_versions[cpu.at()] += 1;
    }
}

/// The CPU's estimate loses a task's.
#[inline]
pub(super) fn util_est_dequeue(s: &mut Sched, cpu: CpuId, i: usize) {
    if s.features.util_est {
        s.util_est.dequeue(&mut s.cfs[cpu.at()].avg, &s.se[i].avg);
    }
}

/// Until 5.11: the estimate of a task that went to sleep, after the governor has heard of its dequeue.
#[inline]
pub fn util_est_left(s: &mut Sched, cpu: CpuId, pid: Pid) {
    if s.util_est.leaves_late() {
        let i = s.se_of(pid);
        util_est_dequeue(s, cpu, i);
        util_est_update(s, cpu, i, true);
        s.signal_versions[cpu.at()] += 1;
    }
}

/// A sample, if the task goes to sleep.
#[inline]
pub(super) fn util_est_update(s: &mut Sched, cpu: CpuId, i: usize, task_sleep: bool) {
    if s.features.util_est {
        s.util_est.update(&mut s.se[i].avg, task_sleep, s.rqs[cpu.at()].cpu_capacity_orig);
    }
}

/// Clears buddies that are this entity, on the way up as long as they are the only reason.
#[inline]
pub(super) fn clear_buddies(s: &mut Sched, i: usize) {
    let cfs = &s.cfs[s.se[i].cfs_rq];
    if cfs.last == i || cfs.next == i || cfs.skip == i {
        clear_buddies_upwards(s, i);
    }
}

#[inline(never)]
fn clear_buddies_upwards(s: &mut Sched, i: usize) {
    fn clear(s: &mut Sched, mut i: usize, buddy: fn(&mut CfsRq) -> &mut usize) {
        while i != NONE {
            let slot = buddy(&mut s.cfs[s.se[i].cfs_rq]);
            if *slot != i {
                break;
            }
            *slot = NONE;
            i = s.se[i].parent;
        }
    }
    clear(s, i, |c| &mut c.last);
    clear(s, i, |c| &mut c.next);
    clear(s, i, |c| &mut c.skip);
}

/// The entities of the running task and of a wakee, if it is a question whether that one preempts. An idle CPU always looks for
/// work; a wakee whose group is throttled cannot run.
#[inline]
pub(super) fn contenders(s: &mut Sched, cpu: CpuId, wakee: Pid) -> Option<(usize, usize)> {
    let curr = s.rqs[cpu.at()].curr;
    if curr == Pid(0) {
        s.rqs[cpu.at()].need_resched = true;
        return None;
    }
    let (se, pse) = (s.se_of(curr), s.se_of(wakee));
    (se != pse && !throttled_hierarchy(s, s.se[pse].cfs_rq)).then_some((se, pse))
}

/// Prefer this entity at the next pick, at every level that is queued and not SCHED_IDLE.
#[inline(never)]
pub(super) fn set_buddy(s: &mut Sched, mut i: usize, buddy: fn(&mut CfsRq) -> &mut usize) {
    while i != NONE && s.se[i].on_rq && !s.se[i].idle {
        *buddy(&mut s.cfs[s.se[i].cfs_rq]) = i;
        i = s.se[i].parent;
    }
}

// ---- the hierarchy loops of the class callbacks --------------------------------------------------------------------

/// A queued entity leaves the timeline and runs.
fn set_next_entity<F: Fair + ?Sized>(f: &F, s: &mut Sched, q: usize, i: usize) {
    clear_buddies(s, i);
    if s.se[i].on_rq {
        f.tree_remove(s, q, i);
        update_load_avg(s, q, i, Update::TG);
        f.entity_picked(&mut s.se[i]);
    }
    let cfs = &mut s.cfs[q];
    let se = &mut s.se[i];
    se.exec_start = s.rqs[cfs.cpu.at()].clock_task;
    cfs.curr = i;
    se.prev_sum_exec_runtime = se.sum_exec_runtime;
}

/// The running entity goes back to the timeline if it is still queued.
fn put_prev_entity<F: Fair + ?Sized>(f: &F, s: &mut Sched, q: usize, i: usize) {
    if s.se[i].on_rq {
        f.update_curr_entity(s, q);
    }
    bandwidth::check_cfs_rq_runtime(f, s, q);
    if s.se[i].on_rq {
        f.tree_insert(s, q, i);
        update_load_avg(s, q, i, Update::NONE);
    }
    s.cfs[q].curr = NONE;
}

pub(super) fn put_prev_task<F: Fair + ?Sized>(f: &F, s: &mut Sched, pid: Pid) {
    let mut i = s.se_of(pid);
    while i != NONE {
        let q = s.se[i].cfs_rq;
        put_prev_entity(f, s, q, i);
        i = s.se[i].parent;
    }
}

pub(super) fn set_next_task<F: Fair + ?Sized>(f: &F, s: &mut Sched, pid: Pid) {
    let mut i = s.se_of(pid);
    while i != NONE {
        let q = s.se[i].cfs_rq;
        set_next_entity(f, s, q, i);
        i = s.se[i].parent;
    }
}

/// Switches between two fair tasks; entities of groups they share keep running.
pub(super) fn put_prev_set_next_task<F: Fair + ?Sized>(f: &F, s: &mut Sched, prev: Pid, next: Pid) {
    if prev == next {
        return;
    }
    let (mut pse, mut se) = (s.se_of(prev), s.se_of(next));
    let (mut pse_depth, mut se_depth) = (0, 0);
    if s.se[pse].cfs_rq != s.se[se].cfs_rq {
        (pse_depth, se_depth) = (depth(s, pse), depth(s, se));
    }
    while s.se[pse].cfs_rq != s.se[se].cfs_rq {
        let (put, set) = (se_depth <= pse_depth, se_depth >= pse_depth);
        if put {
            put_prev_entity(f, s, s.se[pse].cfs_rq, pse);
            (pse, pse_depth) = (s.se[pse].parent, pse_depth - 1);
        }
        if set {
            set_next_entity(f, s, s.se[se].cfs_rq, se);
            (se, se_depth) = (s.se[se].parent, se_depth - 1);
        }
    }
    let q = s.se[pse].cfs_rq;
    put_prev_entity(f, s, q, pse);
    set_next_entity(f, s, q, se);
}

pub(super) fn task_tick<F: Fair + ?Sized>(f: &F, s: &mut Sched, pid: Pid) {
    let mut i = s.se_of(pid);
    while i != NONE {
        let q = s.se[i].cfs_rq;
        f.update_curr_entity(s, q);
        update_load_avg(s, q, i, Update::TG);
        update_cfs_group(f, s, i);
        f.entity_ticked(s, q, i);
        i = s.se[i].parent;
    }
}

pub(super) fn update_curr_task<F: Fair + ?Sized>(f: &F, s: &mut Sched, cpu: CpuId) {
    let curr = s.rqs[cpu.at()].curr;
    if curr != Pid(0) {
        let q = s.se[s.se_of(curr)].cfs_rq;
        f.update_curr_entity(s, q);
    }
}

/// A queued task's priority changed: the running one may have to yield, another one may preempt.
pub(super) fn prio_changed<F: Fair + ?Sized>(f: &F, s: &mut Sched, cpu: CpuId, pid: Pid, old_prio: u8) {
    if s.tasks[pid.at()].on_rq != OnRq::Queued || s.cfs[cpu.at()].nr_queued == 1 {
        return;
    }
    if s.rqs[cpu.at()].curr == pid {
        s.rqs[cpu.at()].need_resched |= s.tasks[pid.at()].prio > old_prio;
    } else {
        f.wakeup_preempt(s, cpu, pid, false);
    }
}

/// The task left the class: its load leaves the queue.
#[doc(alias = "detach_entity_cfs_rq")]
pub(super) fn detach_task_cfs_rq(s: &mut Sched, pid: Pid) {
    let i = s.se_of(pid);
    if !s.se[i].attached {
        return;
    }
    let q = s.se[i].cfs_rq;
    update_load_avg(s, q, i, Update::NONE);
    detach_entity_load_avg(s, q, i);
    // It is aged over the time it spends elsewhere when it comes back: `last_update_time` stays.
    s.se[i].attached = false;
    update_tg_load_avg(s, q);
    propagate_entity_cfs_rq(s, i);
}

/// The task came to the class: its load joins the queue.
#[doc(alias = "attach_entity_cfs_rq")]
pub(super) fn attach_task_cfs_rq(s: &mut Sched, pid: Pid) {
    let i = s.se_of(pid);
    if s.se[i].attached {
        return;
    }
    let q = s.se[i].cfs_rq;
    update_load_avg(s, q, i, Update { attach: true, ..Update::NONE });
    propagate_entity_cfs_rq(s, i);
}

fn propagate_entity_cfs_rq(s: &mut Sched, i: usize) {
    let (mut q, mut i) = (s.se[i].cfs_rq, s.se[i].parent);
    while i != NONE && !s.cfs[q].runtime.throttled {
        q = s.se[i].cfs_rq;
        update_load_avg(s, q, i, Update::TG);
        i = s.se[i].parent;
    }
}

/// What becomes of a limited queue that an entity joined: it may have nothing left.
#[inline]
pub(super) fn joined<F: Fair + ?Sized>(f: &F, s: &mut Sched, q: usize) {
    if s.cfs[q].group == 0 || s.cfs[q].nr_queued != 1 {
        return;
    }
    if s.cfs[q].runtime.enabled {
        bandwidth::check_enqueue_throttle(f, s, q);
    }
    bandwidth::note_waiting(s, q);
}

/// What becomes of a group's queue that an entity left: it gives run time back, and remembers whether its clock stands still.
#[inline]
pub(super) fn left(s: &mut Sched, q: usize) {
    if s.cfs[q].group == 0 || s.cfs[q].nr_queued != 0 {
        return;
    }
    if s.cfs[q].runtime.enabled {
        bandwidth::return_cfs_rq_runtime(s, q);
    }
    let runtime = &mut s.cfs[q].runtime;
    runtime.throttled_pelt_idle = (runtime.throttle_count == 0).then_some(runtime.throttled_clock_pelt_time);
}

/// It is queued now: preempt, or be checked again if it runs.
pub(super) fn switched_to<F: Fair + ?Sized>(f: &F, s: &mut Sched, cpu: CpuId, pid: Pid) {
    if s.tasks[pid.at()].on_rq != OnRq::Queued {
        return;
    }
    if s.rqs[cpu.at()].curr == pid {
        s.rqs[cpu.at()].need_resched = true;
    } else {
        f.wakeup_preempt(s, cpu, pid, false);
    }
}

#[cfg(test)]
#[path = "fair_tests.rs"]
pub(crate) mod tests;
