//! How much to move, since 5.5: `calculate_imbalance`.
//!
//! Misfit, imbalanced and SMT groups give one task. Our group has room: an overloaded group beyond the cache (before 5.10
//! any) gives utilisation up to our spare capacity; otherwise half the difference in running tasks (single CPUs, or when the
//! level below asks to spread) or in idle CPUs; between nodes none while few tasks run here (until 5.10: two there). Our
//! group is full too: load, as much as brings both to the domain's average.

use super::Generation;
use super::Migration;
use super::busiest::SdStats;
use super::group_stats::GroupType;
use super::load_balance::Env;
use crate::sched::View;
use crate::sched::placement::find_idlest_cpu::adjust_numa_imbalance;

/// `calculate_imbalance`: sets `env.imbalance` and `env.migration`; 0 when nothing should move after all.
#[inline(never)]
pub(super) fn calculate_imbalance(s: &View, env: &mut Env, sds: &mut SdStats, generation: Generation) {
    (env.migration, env.imbalance) = match sds.busiest.group_type {
        GroupType::MisfitTask if env.sd(s).asym_cpucapacity => (Migration::Misfit, 1),
        GroupType::MisfitTask => (Migration::Load, sds.busiest.group_misfit_task_load as i64),
        GroupType::AsymPacking => (Migration::Task, i64::from(sds.busiest.sum_h_nr_running)),
        GroupType::SmtBalance | GroupType::Imbalanced => (Migration::Task, 1),
        _ if sds.local.group_type == GroupType::HasSpare => spare(s, env, sds, generation),
        _ => (Migration::Load, load(sds, generation)),
    };
}

/// Use the room of our group without filling it and without emptying the other.
fn spare(s: &View, env: &Env, sds: &SdStats, generation: Generation) -> (Migration, i64) {
    let (sd, local, busiest) = (env.sd(s), &sds.local, &sds.busiest);
    // Since 5.10 tasks are counted within a cache: there utilisation would leave a CPU idle beside a waiting task.
    if busiest.group_type > GroupType::FullyBusy && (generation < Generation::V6_1 || !sd.share_llc) {
        let room = local.group_capacity.saturating_sub(local.group_util);
        // No room by utilisation, but this CPU is idle and somebody waits there.
        return if env.is_idle() && room == 0 { (Migration::Task, 1) } else { (Migration::Util, room as i64) };
    }
    let mut difference = if busiest.group_weight == 1 || sds.prefer_sibling {
        sibling_imbalance(s, env, sds, generation)
    } else {
        local.idle_cpus.saturating_sub(busiest.idle_cpus)
    };
    if sd.numa {
        difference = if generation >= Generation::V6_1 {
            adjust_numa_imbalance(difference, local.sum_nr_running + 1, sd.imb_numa_nr)
        } else if busiest.sum_nr_running <= 2 {
            0 // A pair may communicate (until 5.10).
        } else {
            difference
        };
    }
    (Migration::Task, i64::from(difference >> 1))
}

/// Both are, or will be, overloaded: towards the average, for neither beyond it. A local group with more load than the busiest takes
/// nothing since 5.7 (111688ca1c4a), one above the average since 6.3 (91dcf1e8068e, in 6.1.192 as well).
fn load(sds: &mut SdStats, generation: Generation) -> i64 {
    let local = &mut sds.local;
    if local.group_type < GroupType::Overloaded {
        local.avg_load = local.group_load * 1024 / local.group_capacity.max(1);
        sds.avg_load = sds.total_load * 1024 / sds.total_capacity.max(1);
        let more_than_busiest = generation >= Generation::V5_7 && local.avg_load >= sds.busiest.avg_load;
        if more_than_busiest || (generation >= Generation::V6_1 && local.avg_load >= sds.avg_load) {
            return 0;
        }
    }
    // Unsigned in the kernel: a busiest group below the average, or a local one above it, gives an enormous term.
    let above = sds.busiest.avg_load.wrapping_sub(sds.avg_load).wrapping_mul(sds.busiest.group_capacity);
    let below = sds.avg_load.wrapping_sub(local.avg_load).wrapping_mul(local.group_capacity);
    (above.min(below) / 1024) as i64
}

/// `sibling_imbalance`: tasks that the busiest group has more, per core (6.6+).
pub(super) fn sibling_imbalance(s: &View, env: &Env, sds: &SdStats, generation: Generation) -> u32 {
    let (local, busiest) = (&sds.local, &sds.busiest);
    if generation < Generation::V6_6 {
        return busiest.sum_nr_running.saturating_sub(local.sum_nr_running);
    }
    if !env.is_idle() || busiest.sum_nr_running == 0 {
        return 0;
    }
    let groups = &env.sd(s).groups;
    let (here, there) = (groups[env.local_group].cores, sds.busiest_group.map_or(1, |g| groups[g].cores));
    if here == there {
        return busiest.sum_nr_running.saturating_sub(local.sum_nr_running);
    }
    let difference = (here * busiest.sum_nr_running).saturating_sub(there * local.sum_nr_running);
    let imbalance = (2 * difference + here + there) / (here + there);
    let empty_here = imbalance <= 1 && local.sum_nr_running == 0 && busiest.sum_nr_running > 1;
    if empty_here { 2 } else { imbalance }
}
