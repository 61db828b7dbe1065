//! Balancing by load, 5.4 and before ("generation load"): what differs from classes of groups.
//!
//! A group's load over its capacity is its `avg_load`; the group with the largest is busiest, overloaded ones before
//! imbalanced, misfit and others. Moved is what brings both groups to the domain's average, but not so much that the
//! busiest gets idle CPUs; less than one task's mean load is rounded up to one task if the two groups would not just
//! swap roles, or if more capacity gets used (`fix_small_imbalance`).
//!
//! By load a few tasks on small CPUs outweigh more on big ones, so that a small CPU would stay idle while tasks wait on the big
//! ones. One that has become idle pulls all the same where its group has room and the other has none; since 4.15
//! (583ffd99d765) any idle one does (`fills_room`). How much is still counted by load, which may say nothing.
//!
//! The phones' energy-aware 4.9 knows unequal CPUs better: there it takes a task where the loads say nothing; an idle CPU pulls from
//! a group of smaller CPUs that is not full, and none without room from one that is not overloaded; a misfit task is one that does not
//! fit with its boost, counts where its CPU is overutilised, is looked for at every tick, and is pushed, running, to a larger CPU that
//! is not. What is to move of it is the capacity of its CPU, the CPU taken for the busiest is that of most load, and smaller is a group
//! by a quarter of 1024.

use super::asym_packing::picks_by_load;
use super::busiest::SdStats;
use super::group_stats::{GroupStats, GroupType};
use super::load_balance::Env;
use super::{IdleType, Migration};
use crate::sched::View;
use crate::sched::load::cpu_load::cpu_runnable_load;
use crate::sched::topology::Group;

/// Load of a nice-0 task.
const NICE_0_LOAD: u64 = 1024;

/// `group_has_capacity`.
fn has_capacity(imbalance_pct: u32, sgs: &GroupStats) -> bool {
    sgs.sum_h_nr_running < sgs.group_weight || sgs.group_capacity * 100 > sgs.group_util * u64::from(imbalance_pct)
}

fn is_overloaded(imbalance_pct: u32, sgs: &GroupStats) -> bool {
    sgs.sum_h_nr_running > sgs.group_weight && sgs.group_capacity * 100 < sgs.group_util * u64::from(imbalance_pct)
}

fn classify(group: &Group, sgs: &GroupStats) -> GroupType {
    match sgs {
        _ if sgs.group_no_capacity => GroupType::Overloaded,
        _ if group.imbalance => GroupType::Imbalanced,
        _ if sgs.group_misfit_task_load > 0 => GroupType::MisfitTask,
        _ => GroupType::HasSpare,
    }
}

/// The derived fields of a group's statistics.
#[inline(never)]
pub(super) fn finish(s: &View, env: &Env, group: &Group, sgs: &mut GroupStats) {
    sgs.avg_load = sgs.group_load * 1024 / sgs.group_capacity.max(1);
    sgs.load_per_task = sgs.group_load.checked_div(u64::from(sgs.sum_h_nr_running)).unwrap_or(0);
    sgs.group_no_capacity = is_overloaded(env.sd(s).imbalance_pct, sgs);
    sgs.group_type = classify(group, sgs);
}

/// `group_smaller_max_cpu_capacity`, `group_smaller_min_cpu_capacity`: smaller by a fifth.
pub(super) const fn smaller(a: u64, b: u64) -> bool {
    a * 1280 < b * 1024
}

/// `group_smaller_cpu_capacity` of the energy-aware 4.9: the largest CPUs of the two groups differ by a quarter of 1024.
fn smaller_4_9(a: &Group, b: &Group) -> bool {
    a.max_capacity + 256 < b.max_capacity
}

/// `update_sd_pick_busiest`, after the capacity of a group whose child domain spreads was lowered.
#[inline(never)]
pub(super) fn update_sd_pick_busiest(
    s: &View,
    env: &Env,
    sds: &SdStats,
    g: usize,
    sgs: &mut GroupStats,
    any_pair: bool,
) -> bool {
    let sd = env.sd(s);
    let (group, local) = (&sd.groups[g], &sd.groups[env.local_group]);
    let has_room = has_capacity(sd.imbalance_pct, &sds.local);
    let most_left = if any_pair { 1 } else { sds.local.sum_h_nr_running + 1 };
    if sds.prefer_sibling && has_room && sgs.sum_h_nr_running > most_left {
        sgs.group_no_capacity = true;
        sgs.group_type = classify(group, sgs);
    }
    let mut misfit = sgs.group_type == GroupType::MisfitTask;
    let energy_aware = s.rd.energy_aware_4_9;
    let helps = if energy_aware { smaller_4_9(group, local) } else { smaller(group.max_capacity, local.max_capacity) };
    if misfit && !(helps && has_room) {
        if !energy_aware {
            return false;
        }
        // We cannot help it; its group may have more load than ours all the same.
        (sgs.group_type, misfit) = (GroupType::HasSpare, false);
    }
    let busiest = &sds.busiest;
    if sgs.group_type != busiest.group_type {
        return sgs.group_type > busiest.group_type;
    }
    let full = energy_aware && sgs.group_type == GroupType::HasSpare && !has_room;
    if full || sgs.avg_load <= busiest.avg_load {
        return false;
    }
    if let Some(picked) = picks_by_load(s, env, sds, g, sgs) {
        return picked;
    }
    let stronger =
        if energy_aware { smaller_4_9(local, group) } else { smaller(local.min_capacity, group.min_capacity) };
    let fine_there = sgs.sum_h_nr_running <= sgs.group_weight && stronger;
    let lesser_misfit = !energy_aware && misfit && sgs.group_misfit_task_load < busiest.group_misfit_task_load;
    !(sd.asym_cpucapacity && (fine_there || lesser_misfit))
}

/// The checks of `find_busiest_group`.
#[inline(never)]
pub(super) fn is_imbalanced(s: &View, env: &Env, sds: &mut SdStats, idle_fill_room: bool) -> bool {
    let (local, busiest) = (&sds.local, &sds.busiest);
    let pct = env.sd(s).imbalance_pct;
    if busiest.sum_h_nr_running == 0 {
        return false;
    }
    sds.avg_load = sds.total_load * 1024 / sds.total_capacity.max(1);
    let may_fill = env.idle == IdleType::NewlyIdle || env.idle == IdleType::Idle && idle_fill_room;
    let fills_room = may_fill && has_capacity(pct, local) && busiest.group_no_capacity;
    if fills_room || matches!(busiest.group_type, GroupType::Imbalanced | GroupType::MisfitTask) {
        return true;
    }
    if local.avg_load >= busiest.avg_load || local.avg_load >= sds.avg_load {
        return false;
    }
    if env.idle == IdleType::Idle {
        let groups = &env.sd(s).groups;
        let is_smaller = |g: usize| smaller_4_9(&groups[g], &groups[env.local_group]);
        let upward = s.rd.energy_aware_4_9 && sds.busiest_group.is_some_and(is_smaller);
        let overloaded = busiest.group_type == GroupType::Overloaded;
        return overloaded || local.idle_cpus > busiest.idle_cpus + 1 || upward;
    }
    100 * busiest.avg_load > u64::from(pct) * local.avg_load
}

/// `calculate_imbalance`.
#[inline(never)]
pub(super) fn calculate_imbalance(s: &View, env: &mut Env, sds: &mut SdStats) {
    let avg = sds.avg_load;
    let misfit = sds.busiest.group_type == GroupType::MisfitTask;
    env.migration = if misfit { Migration::Misfit } else { Migration::Load };
    if sds.busiest.group_type == GroupType::Imbalanced {
        sds.busiest.load_per_task = sds.busiest.load_per_task.min(avg);
    }
    let (local, busiest) = (&sds.local, &sds.busiest);
    let energy_aware = s.rd.energy_aware_4_9;
    if (!misfit || energy_aware) && (busiest.avg_load <= avg || local.avg_load >= avg) {
        let has_spare = busiest.group_type == GroupType::Overloaded && local.group_type <= GroupType::MisfitTask;
        if energy_aware && (misfit || has_spare) {
            let amount = if misfit { busiest.group_misfit_task_load } else { busiest.load_per_task };
            env.imbalance = amount as i64;
            return;
        }
        env.imbalance = fix_small_imbalance(s, env, sds, 0) as i64;
        return;
    }
    // Unsigned in the kernel: a misfit group below the average gives an enormous pull.
    let max_pull = busiest.avg_load.wrapping_sub(avg).min(load_above_capacity(sds));
    let give = max_pull.wrapping_mul(busiest.group_capacity);
    let take = avg.wrapping_sub(local.avg_load).wrapping_mul(local.group_capacity);
    let mut imbalance = give.min(take) / 1024;
    if misfit {
        imbalance = imbalance.max(busiest.group_misfit_task_load);
    }
    if imbalance < busiest.load_per_task {
        imbalance = fix_small_imbalance(s, env, sds, imbalance);
    }
    env.imbalance = imbalance as i64;
}

/// Where no CPU is idle none should become so: the load beyond one task per capacity of the busiest group.
fn load_above_capacity(sds: &SdStats) -> u64 {
    let busiest = &sds.busiest;
    if busiest.group_type != GroupType::Overloaded || sds.local.group_type != GroupType::Overloaded {
        return u64::MAX;
    }
    let tasks = u64::from(busiest.sum_h_nr_running) * 1024;
    if tasks > busiest.group_capacity {
        (tasks - busiest.group_capacity) * NICE_0_LOAD / busiest.group_capacity
    } else {
        u64::MAX
    }
}

/// `fix_small_imbalance`: less than a task; should one move all the same?
pub(super) fn fix_small_imbalance(s: &View, env: &Env, sds: &SdStats, imbalance: u64) -> u64 {
    let (local, busiest) = (&sds.local, &sds.busiest);
    let per_task = busiest.load_per_task;
    let (mut local_per_task, mut imbn) = (local.load_per_task, 2);
    if local.sum_h_nr_running == 0 {
        let nr = u64::from(s.cfs[env.dst_cpu.at()].h_nr_running);
        local_per_task = cpu_runnable_load(s, env.dst_cpu).checked_div(nr).unwrap_or(0);
    } else if per_task > local_per_task {
        imbn = 1;
    }
    let scaled = per_task * 1024 / busiest.group_capacity.max(1);
    if busiest.avg_load + scaled >= local.avg_load + scaled * imbn {
        return per_task;
    }
    // Would more capacity be used after the move?
    let used = |capacity: u64, per_task: u64, load: u64| capacity * per_task.min(load);
    let now = used(busiest.group_capacity, per_task, busiest.avg_load)
        + used(local.group_capacity, local_per_task, local.avg_load);
    let mut moved = 0;
    if busiest.avg_load > scaled {
        moved += used(busiest.group_capacity, per_task, busiest.avg_load - scaled);
    }
    let added = (busiest.avg_load * busiest.group_capacity).min(per_task * 1024) / local.group_capacity.max(1);
    moved += used(local.group_capacity, local_per_task, local.avg_load + added);
    if moved / 1024 > now / 1024 { per_task } else { imbalance }
}
