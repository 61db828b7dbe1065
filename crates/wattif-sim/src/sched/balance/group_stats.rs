//! What a scheduling group looks like to balancing and to the placement of new tasks (`struct sg_lb_stats`).

use super::sums::Sums;
use crate::sched::topology::Group;

/// How much a group needs help; the larger, the busier (`enum group_type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupType {
    /// It could do more.
    #[default]
    HasSpare,
    /// Its CPUs are used, but nobody waits long.
    FullyBusy,
    /// A task does not fit its CPU's capacity.
    MisfitTask,
    /// A core runs more than one task while others could take them (6.6+).
    SmtBalance,
    /// A CPU of higher priority is idle.
    AsymPacking,
    /// Affinity kept an imbalance alive at a lower level.
    Imbalanced,
    /// More tasks than the group can serve.
    Overloaded,
}

/// Sums over a group's CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupStats {
    /// Load over capacity, × 1024; only for fully busy and overloaded groups (always in the load-based generation).
    pub avg_load: u64,
    /// Σ `cpu_load`.
    pub group_load: u64,
    /// Σ `capacity_of`.
    pub group_capacity: u64,
    /// Σ utilisation.
    pub group_util: u64,
    /// Σ `runnable_avg`.
    pub group_runnable: u64,
    /// Runnable tasks of all classes.
    pub sum_nr_running: u32,
    /// Runnable fair tasks.
    pub sum_h_nr_running: u32,
    /// Idle CPUs.
    pub idle_cpus: u32,
    /// CPUs.
    pub group_weight: u32,
    /// Its class.
    pub group_type: GroupType,
    /// A core of the group has a second task that another core could take.
    pub group_smt_balance: bool,
    /// The destination is idle and of higher priority than every CPU of the group, which runs something.
    pub group_asym_packing: bool,
    /// Largest load of a task that does not fit.
    pub group_misfit_task_load: u64,
    /// Load-based generation: tasks that the capacity serves, and whether there is room for one more.
    pub group_no_capacity: bool,
    /// Load-based generation: mean load per runnable task.
    pub load_per_task: u64,
    /// 3.13 (`group_capacity` there): tasks that the group's power serves.
    pub serves: u32,
}

impl GroupStats {
    /// One CPU of the group, or several.
    #[inline(always)]
    pub(super) fn add(&mut self, of: &Sums) {
        self.group_load += of.load;
        self.group_util += of.util;
        self.group_runnable += of.runnable;
        self.sum_nr_running += of.nr_running;
        self.sum_h_nr_running += of.h_nr_running;
        self.idle_cpus += of.idle_cpus;
    }
}

/// `group_has_capacity`: is there room, by number of tasks or else by runnable time and utilisation?
pub fn group_has_capacity(imbalance_pct: u32, sgs: &GroupStats) -> bool {
    let pct = u64::from(imbalance_pct);
    if sgs.sum_nr_running < sgs.group_weight {
        return true;
    }
    sgs.group_capacity * pct >= sgs.group_runnable * 100 && sgs.group_capacity * 100 > sgs.group_util * pct
}

/// `group_is_overloaded`: more tasks than CPUs, and they use more or wait longer than the tolerated imbalance.
fn group_is_overloaded(imbalance_pct: u32, sgs: &GroupStats) -> bool {
    let pct = u64::from(imbalance_pct);
    sgs.sum_nr_running > sgs.group_weight
        && (sgs.group_capacity * 100 < sgs.group_util * pct || sgs.group_capacity * pct < sgs.group_runnable * 100)
}

/// `group_classify` since 5.5.
pub fn group_classify(imbalance_pct: u32, group: &Group, sgs: &GroupStats) -> GroupType {
    if group_is_overloaded(imbalance_pct, sgs) {
        GroupType::Overloaded
    } else if group.imbalance {
        GroupType::Imbalanced
    } else if sgs.group_asym_packing {
        GroupType::AsymPacking
    } else if sgs.group_smt_balance {
        GroupType::SmtBalance
    } else if sgs.group_misfit_task_load > 0 {
        GroupType::MisfitTask
    } else if !group_has_capacity(imbalance_pct, sgs) {
        GroupType::FullyBusy
    } else {
        GroupType::HasSpare
    }
}
