//! `find_idlest_cpu`: the slow path of placement, for new tasks and new programs.
//!
//! # Idea
//! A task that begins has no cache to lose, so the whole machine is open: at every level of the topology take the group
//! with most room, in it the CPU that can start soonest, and go on below until single CPUs are left.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | `cpu_load`, `runnable_avg`, utilisation | load; 0..=1024 per CPU | load tracker, without the task itself | PELT updates |
//! | `nr_running`, idle CPUs | count | run queues | – |
//! | `exit_latency` | µs | idle state that the CPU is in, as advertised | idle entry and exit |
//! | `idle_stamp` | ns | run queue | when the CPU became idle |
//! | group capacity | Σ `capacity_of` | domains | load balance |
//!
//! # Decision
//! From the highest domain down, seen from `cpu` (at first the forking CPU):
//! 1. `find_idlest_group`, generations `5.6`, `5.7` and `group` (6.1+): classify every group with an allowed CPU; a group of
//!    a lower class than the local one wins; within a class: has_spare → more idle CPUs, then (`group`) less utilisation;
//!    fully busy, overloaded → smaller average load, by more than `imbalance_pct`; misfit → larger capacity. Nothing better:
//!    stay, one level down. Between nodes with spare room, `group`: stay while few tasks run here (`imb_numa_nr`) and the
//!    difference is small; before: while a CPU is idle here. In `5.6` runnable time does not count in the class, and the
//!    average load of a busy group stays 0: of two busy groups the task keeps its own, of others it takes the first.
//!    Of a group only those CPUs count that the task may use (`counts`; all of them before 6.19).
//! 2. Generation `load` (5.4 and before): spare capacity first (except for fork): stay if this group has more than half
//!    of the task's utilisation to spare and about as much as the best; else the group with most spare capacity if that
//!    suffices; else the group with the least runnable load, or, where those are close, the least load average.
//!    Generation `3.13`: the other group with the least runnable load over power, unless 100 · ours < (100 + (imbalance_pct −
//!    100)/2) · its load: on an idle machine, where both are 0, the task leaves. Single CPUs' capacities do not count.
//! 3. In the group, CPUs in ascending order (`3.13`: the least runnable load; of equals the first, or `cpu`). `sched_idle =
//!    5.6`: the first CPU that runs only SCHED_IDLE tasks ends the search. An idle CPU: smallest exit latency, then (or with
//!    the state unknown) the latest idle stamp. No idle CPU: `sched_idle = 5.4`: the first sched-idle one; else the least
//!    load, at first that of `cpu`.
//! 4. It is another CPU: go on from there, in the largest of its domains that is smaller than the present one.
//!
//! Worked example: two clusters of four, CPU 0 forks, CPU 1 and all of cluster 1 idle. Both groups have spare room,
//! cluster 1 has more idle CPUs: among 4..7 CPU 6, in WFI (1 µs), beats CPU 4 in a deeper state (600 µs).
//!
//! # State and cost
//! None; O(CPUs), at each level.
//!
//! # Where it fails
//! `sched_idle = 5.6` takes a CPU that runs background work although an idle one is there: right for latency (the CPU
//! is awake), wrong for energy and for the background work. The choice of the group does not know of it: where the
//! lowest groups are single CPUs, the descent ends on a really idle one. `load`: with no load anywhere the search still
//! leaves the CPU it has, for the next one.
//!
//! # Differences from the kernel
//! None known: `find_idlest_group_cpu` agrees on every row of `wakeup_5.6` (400), `wakeup_5.6_no_sched_idle` (400) and
//! `wakeup_6.12` (500). The search for the group is from knowledge of the kernel's behaviour, without vectors.
//!
//! # Source
//! Linux 3.13, 5.4, 5.6.4, 5.7, 6.1, 6.12.117 `kernel/sched/fair.c` (behaviour): `find_idlest_cpu` (`sched_balance_find_dst_cpu`),
//! `find_idlest_group`, `find_idlest_group_cpu`, `update_sg_wakeup_stats`, `update_pick_idlest`. The `sched_idle` steps:
//! commits 3c29e651e16d (5.4), 17346452b25b (5.6), fd54d81c2c0e (2026). The load of busy groups: 6c8116c914b6 (5.7).
//! `counts`: 82d6e01a0699 (6.19).

use super::select_idle_sibling::SchedIdle;
use super::{Choice, Kind, Request, SyncLoad};
use crate::registry::{Tunable, meant};
use crate::sched::balance::group_stats::{GroupStats, GroupType, group_classify};
use crate::sched::load::cpu_load::{
    cpu_load, cpu_load_without, cpu_runnable_load, cpu_runnable_without, cpu_util_of, cpu_util_without, task_fits_cpu,
    task_running_on_cpu, task_util,
};
use crate::sched::topology::{Domain, Group};
use crate::sched::{Sched, View};
use wattif_model::trace::PlacementReason;
use wattif_model::{CpuId, Pid};

/// Tunables of this policy.
pub const TUNABLES: &[Tunable] = &[
    Tunable {
        name: "generation",
        default: "group",
        allowed: &Generation::NAMES,
        doc: "choice of the group: by load alone (3.13), by spare capacity and load (4.10, and load: 4.16 to 5.4) or by class, as in 5.6, 5.7, or 6.1 and later (group)",
    },
    Tunable {
        name: "sched_idle",
        default: "5.6",
        allowed: &SchedIdle::NAMES,
        doc: "what a CPU that runs only SCHED_IDLE tasks counts as",
    },
    Tunable {
        name: "counts",
        default: "allowed",
        allowed: &["all", "allowed"],
        doc: "by class: of which CPUs of a group load and tasks count: all; or those that the task may use (6.19, and stable releases since)",
    },
];

/// `find_idlest_cpu.generation`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Generation {
    /// `3.13`: load alone, and a CPU's idle state does not matter.
    V3_13,
    /// `4.10`: as `load`, but what other classes take of a CPU is not missing from its spare capacity.
    V4_10,
    /// `load`: 4.16 to 5.4.
    Load,
    /// `5.6`: by class of group, all busy groups alike; with an idle CPU the task stays on its node.
    V5_6,
    /// `5.7`: runnable time counts in the classes.
    V5_7,
    /// `group`: 6.1 and later; of groups with as many idle CPUs the less used one, and nodes may differ a little.
    #[default]
    Group,
}

impl Generation {
    /// The values of the tunable.
    pub const NAMES: [&'static str; 6] = ["3.13", "4.10", "load", "5.6", "5.7", "group"];

    /// From the tunable's value.
    pub fn parse(name: &str) -> Option<Generation> {
        use Generation::{Group, Load, V3_13, V4_10, V5_6, V5_7};
        meant(Generation::NAMES, [V3_13, V4_10, Load, V5_6, V5_7, Group], name)
    }
}

/// The slow path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FindIdlestCpu {
    /// How the group is chosen.
    pub generation: Generation,
    /// What a CPU that runs only SCHED_IDLE tasks is worth.
    pub sched_idle: SchedIdle,
    /// CPUs that the task may not use count all the same (before 6.19).
    pub counts_all: bool,
}

/// A CPU of a group, and why.
pub type Idlest = (CpuId, PlacementReason);

impl FindIdlestCpu {
    /// `find_idlest_cpu`, from the domain at `level` of the request's CPU.
    #[doc(alias = "sched_balance_find_dst_cpu")]
    #[inline(never)]
    pub fn find(&self, s: &mut Sched, req: &Request, level: usize, sync_entity_load_avg: SyncLoad<'_>) -> Choice {
        let choice = |(cpu, reason)| Choice { cpu, reason, target: req.this_cpu, scanned: 0 };
        let top = &s.topology.domains[s.topology.of_cpu[req.this_cpu.at()][level]];
        if !top.span.intersects(&s.tasks[req.pid.at()].cpus) {
            return choice((req.prev_cpu, PlacementReason::Target));
        }
        if req.kind != Kind::Fork {
            sync_entity_load_avg(s, req.pid);
        }
        choice(self.descend(s, req, level))
    }

    fn descend(&self, s: &View, req: &Request, level: usize) -> Idlest {
        let (mut cpu, mut level) = (req.this_cpu, Some(level));
        let mut found = (cpu, PlacementReason::LeastLoaded);
        while let Some(l) = level {
            let sd = &s.topology.domains[s.topology.of_cpu[cpu.at()][l]];
            level = l.checked_sub(1);
            let local = s.topology.local_group[cpu.at()][l];
            let group = match self.generation {
                Generation::V3_13 => find_idlest_group_3_13(s, sd, local, req.pid),
                Generation::V4_10 | Generation::Load => {
                    let original = self.generation == Generation::V4_10;
                    find_idlest_group_by_load(s, sd, local, req.pid, req.kind == Kind::Fork, original)
                }
                generation => find_idlest_group(s, sd, local, req.pid, generation, self.counts_all),
            };
            let Some(group) = group else { continue };
            found = self.find_idlest_group_cpu(s, &sd.groups[group], req.pid, cpu);
            if found.0 != cpu {
                cpu = found.0;
                let of_cpu = s.topology.of_cpu[cpu.at()].iter();
                let smaller = of_cpu.take_while(|d| s.topology.domains[**d].weight < sd.weight).count();
                level = smaller.checked_sub(1);
            }
        }
        found
    }

    /// `find_idlest_group_cpu`: the CPU of a group that can start the task soonest.
    #[doc(alias = "sched_balance_find_dst_group_cpu")]
    pub fn find_idlest_group_cpu(&self, s: &View, group: &Group, pid: Pid, this_cpu: CpuId) -> Idlest {
        if self.generation == Generation::V3_13 {
            return find_idlest_cpu_3_13(s, group, pid, this_cpu);
        }
        if group.weight == 1 {
            let cpu = group.cpus.min().expect("a group is not empty");
            let idle = s.available_idle_cpu(cpu);
            return (cpu, if idle { PlacementReason::Idlest } else { PlacementReason::LeastLoaded });
        }
        let (mut shallowest, mut sched_idle, mut least_loaded) = (Shallowest::default(), None, (u64::MAX, this_cpu));
        for cpu in group.cpus.iter_and(&s.tasks[pid.at()].cpus) {
            if self.sched_idle >= SchedIdle::V5_6 && self.sched_idle.counts(s, cpu, pid) {
                return (cpu, PlacementReason::SchedIdle);
            }
            if s.available_idle_cpu(cpu) {
                shallowest.consider(s, cpu);
            } else if shallowest.cpu.is_none() && sched_idle.is_none() {
                if self.sched_idle == SchedIdle::V5_4 && self.sched_idle.counts(s, cpu, pid) {
                    sched_idle = Some(cpu);
                    continue;
                }
                let load = self.load(s, cpu);
                if load < least_loaded.0 {
                    least_loaded = (load, cpu);
                }
            }
        }
        let shallowest = shallowest.cpu.map(|c| (c, PlacementReason::Idlest));
        let sched_idle = sched_idle.map(|c| (c, PlacementReason::SchedIdle));
        shallowest.or(sched_idle).unwrap_or((least_loaded.1, PlacementReason::LeastLoaded))
    }

    fn load(&self, s: &View, cpu: CpuId) -> u64 {
        match self.generation {
            Generation::V3_13 | Generation::V4_10 | Generation::Load => cpu_runnable_load(s, cpu),
            Generation::V5_6 | Generation::V5_7 | Generation::Group => cpu_load(s, cpu),
        }
    }
}

/// The idle CPU that wakes fastest; of equals the one that went idle last, its cache is the warmest.
struct Shallowest {
    cpu: Option<CpuId>,
    exit_latency_us: u64,
    idle_stamp: u64,
}

impl Default for Shallowest {
    fn default() -> Shallowest {
        Shallowest { cpu: None, exit_latency_us: u64::from(u32::MAX), idle_stamp: 0 }
    }
}

impl Shallowest {
    fn consider(&mut self, s: &View, cpu: CpuId) {
        let rq = &s.rqs[cpu.at()];
        match rq.idle_state.map(|_| rq.idle_exit_latency_ns / 1000) {
            Some(us) if us < self.exit_latency_us => self.exit_latency_us = us,
            Some(us) if us > self.exit_latency_us => return,
            _ if rq.idle_stamp <= self.idle_stamp => return,
            _ => {}
        }
        self.idle_stamp = rq.idle_stamp;
        self.cpu = Some(cpu);
    }
}

/// Groups of a domain in the kernel's order: the local one first, then by CPU, wrapping.
fn groups_from(sd: &Domain, local: usize) -> impl Iterator<Item = (usize, &Group)> {
    let n = sd.groups.len();
    (0..n).map(move |i| (local + i) % n).map(|g| (g, &sd.groups[g]))
}

/// `find_idlest_group` since 5.5: a group with more room than the local one, if there is one.
#[doc(alias = "sched_balance_find_dst_group")]
fn find_idlest_group(
    s: &View,
    sd: &Domain,
    local: usize,
    pid: Pid,
    generation: Generation,
    counts_all: bool,
) -> Option<usize> {
    let mut here: Option<GroupStats> = None;
    let mut idlest: Option<(usize, GroupStats)> = None;
    for (g, group) in groups_from(sd, local) {
        if !group.cpus.intersects(&s.tasks[pid.at()].cpus) {
            continue;
        }
        let sgs = update_sg_wakeup_stats(s, sd, group, pid, generation, counts_all);
        if g == local {
            here = Some(sgs);
        } else if update_pick_idlest(sd, idlest.as_ref(), group, &sgs, generation) {
            idlest = Some((g, sgs));
        }
    }
    let (g, there) = idlest?;
    let Some(here) = here else { return Some(g) };
    let better = match here.group_type.cmp(&there.group_type) {
        std::cmp::Ordering::Less => false,
        std::cmp::Ordering::Greater => true,
        std::cmp::Ordering::Equal => {
            let (local, idlest) = ((&here, &sd.groups[local]), (&there, &sd.groups[g]));
            worth_leaving(s, sd, local, idlest, pid, generation)
        }
    };
    better.then_some(g)
}

/// Of two groups of the same class: is the other one better by enough?
fn worth_leaving(
    s: &View,
    sd: &Domain,
    local: (&GroupStats, &Group),
    idlest: (&GroupStats, &Group),
    pid: Pid,
    generation: Generation,
) -> bool {
    let (here, there) = (local.0, idlest.0);
    match here.group_type {
        GroupType::Overloaded | GroupType::FullyBusy => {
            let pct = u64::from(sd.imbalance_pct);
            let imbalance = 1024 * (pct - 100) / 100;
            let near = sd.numa && there.avg_load + imbalance >= here.avg_load;
            !near && there.avg_load < here.avg_load + imbalance && 100 * here.avg_load > pct * there.avg_load
        }
        GroupType::Imbalanced | GroupType::AsymPacking | GroupType::SmtBalance => false,
        GroupType::MisfitTask => local.1.max_capacity < idlest.1.max_capacity,
        GroupType::HasSpare => {
            let stays = || match generation {
                Generation::Group => {
                    let allowed = local.1.cpus.iter_and(&s.tasks[pid.at()].cpus).count() as u32;
                    let difference = here.idle_cpus.abs_diff(there.idle_cpus);
                    adjust_numa_imbalance(difference, here.sum_nr_running + 1, sd.imb_numa_nr.min(allowed)) == 0
                }
                // Close to its waker as long as there is an idle CPU; periodic balancing sees to the rest.
                _ => here.idle_cpus > 0,
            };
            here.idle_cpus < there.idle_cpus && !(sd.numa && stays())
        }
    }
}

/// `adjust_numa_imbalance`: a small imbalance between lightly loaded nodes is left alone.
pub(crate) fn adjust_numa_imbalance(imbalance: u32, dst_running: u32, imb_numa_nr: u32) -> u32 {
    // Two tasks may communicate: keep a pair together.
    if dst_running > imb_numa_nr || imbalance > 2 { imbalance } else { 0 }
}

fn update_sg_wakeup_stats(
    s: &View,
    sd: &Domain,
    group: &Group,
    pid: Pid,
    generation: Generation,
    counts_all: bool,
) -> GroupStats {
    let mut sgs = GroupStats { group_capacity: group.capacity, group_weight: group.weight, ..GroupStats::default() };
    let mut fits = false;
    let own_cpu = s.tasks[pid.at()].cpu;
    for cpu in group.cpus.iter().filter(|&cpu| counts_all || s.tasks[pid.at()].cpus.contains(cpu)) {
        let (rq, cfs) = (&s.rqs[cpu.at()], &s.cfs[cpu.at()]);
        let mut own = 0;
        if cpu == own_cpu {
            own = u32::from(task_running_on_cpu(s, cpu, pid));
            sgs.group_load += cpu_load_without(s, cpu, pid);
            sgs.group_util += cpu_util_without(s, cpu, pid);
            sgs.group_runnable += cpu_runnable_without(s, cpu, pid);
        } else {
            sgs.group_load += cfs.avg.load_avg;
            sgs.group_util += cpu_util_of(s, rq, cfs);
            sgs.group_runnable += cfs.avg.runnable_avg;
        }
        sgs.sum_h_nr_running += cfs.h_nr_running.saturating_sub(own);
        let nr_running = rq.nr_running.saturating_sub(own);
        sgs.sum_nr_running += nr_running;
        let idle = nr_running == 0 && !rq.ttwu_pending && (rq.curr == Pid(0) || rq.curr == pid);
        sgs.idle_cpus += u32::from(idle);
        fits = fits || sd.asym_cpucapacity && task_fits_cpu(s, pid, cpu);
    }
    if generation < Generation::V5_7 {
        sgs.group_runnable = 0;
    }
    sgs.group_misfit_task_load = u64::from(sd.asym_cpucapacity && !fits);
    sgs.group_type = group_classify(sd.imbalance_pct, group, &sgs);
    // Until 6c8116c914b6 (5.7) groups with spare room got an average load, and those that are compared by it none.
    let averaged = generation >= Generation::V5_7;
    if averaged && matches!(sgs.group_type, GroupType::FullyBusy | GroupType::Overloaded) {
        sgs.avg_load = sgs.group_load * 1024 / sgs.group_capacity.max(1);
    }
    sgs
}

/// `update_pick_idlest`: does this group replace the idlest so far?
fn update_pick_idlest(
    sd: &Domain,
    idlest: Option<&(usize, GroupStats)>,
    group: &Group,
    sgs: &GroupStats,
    generation: Generation,
) -> bool {
    // The search starts from an overloaded group of unbounded load.
    let start =
        GroupStats { avg_load: u64::from(u32::MAX), group_type: GroupType::Overloaded, ..GroupStats::default() };
    let best = idlest.map_or(&start, |i| &i.1);
    if sgs.group_type != best.group_type {
        return sgs.group_type < best.group_type;
    }
    match sgs.group_type {
        GroupType::Overloaded | GroupType::FullyBusy => best.avg_load > sgs.avg_load,
        GroupType::Imbalanced | GroupType::AsymPacking | GroupType::SmtBalance => false,
        GroupType::MisfitTask => idlest.is_none_or(|i| sd.groups[i.0].max_capacity < group.max_capacity),
        GroupType::HasSpare => {
            // Of groups with as many idle CPUs the less used one, since 5.9; before, the first.
            let less_used = generation == Generation::Group && best.group_util > sgs.group_util;
            sgs.idle_cpus > best.idle_cpus || (sgs.idle_cpus == best.idle_cpus && less_used)
        }
    }
}

/// `find_idlest_group` up to 5.4: by spare capacity, else by load. `original`: what other classes take counts as spare.
fn find_idlest_group_by_load(
    s: &View,
    sd: &Domain,
    local: usize,
    pid: Pid,
    fork: bool,
    original: bool,
) -> Option<usize> {
    let pct = u64::from(sd.imbalance_pct);
    let (scale, imbalance) = (100 + (pct - 100) / 2, 1024 * (pct - 100) / 100);
    let mut here = Loads { runnable: u64::MAX, avg: u64::MAX, spare: 0 };
    let (mut idlest, mut min_runnable, mut min_avg) = (None, u64::MAX, u64::MAX);
    let (mut most_spare_group, mut most_spare) = (None, 0);
    for (g, group) in groups_from(sd, local) {
        if !group.cpus.intersects(&s.tasks[pid.at()].cpus) {
            continue;
        }
        let loads = Loads::of(s, group, pid, original);
        if g == local {
            here = loads;
            continue;
        }
        if min_runnable > loads.runnable + imbalance {
            (min_runnable, min_avg, idlest) = (loads.runnable, loads.avg, Some(g));
        } else if loads.runnable < min_runnable.wrapping_add(imbalance) && 100 * min_avg > scale * loads.avg {
            // The runnable loads are close: look at the blocked load too.
            (min_avg, idlest) = (loads.avg, Some(g));
        }
        if most_spare < loads.spare {
            (most_spare, most_spare_group) = (loads.spare, Some(g));
        }
    }
    // A new task has no utilisation yet.
    if !fork {
        let half = task_util(s, pid) / 2;
        if here.spare > half && scale * here.spare > 100 * most_spare {
            return None;
        }
        if most_spare > half {
            return most_spare_group;
        }
    }
    let idlest = idlest?;
    let far = sd.numa && min_runnable.wrapping_add(imbalance) >= here.runnable;
    let lighter_here = min_runnable > here.runnable.wrapping_add(imbalance);
    let close = here.runnable < min_runnable.wrapping_add(imbalance) && 100 * here.avg < scale * min_avg;
    (!far && !lighter_here && !close).then_some(idlest)
}

/// `find_idlest_group` of 3.13: the other group with the least load over power, unless ours has hardly more. On an idle
/// machine neither has any, and the task leaves.
fn find_idlest_group_3_13(s: &View, sd: &Domain, local: usize, pid: Pid) -> Option<usize> {
    let scale = 100 + (u64::from(sd.imbalance_pct) - 100) / 2;
    let load =
        |group: &Group| group.cpus.iter().map(|c| cpu_runnable_load(s, c)).sum::<u64>() * 1024 / group.capacity.max(1);
    let (mut here, mut idlest) = (0, None);
    for (g, group) in groups_from(sd, local).filter(|(_, g)| g.cpus.intersects(&s.tasks[pid.at()].cpus)) {
        let load = load(group);
        if g == local {
            here = load;
        } else if idlest.is_none_or(|(_, least)| load < least) {
            idlest = Some((g, load));
        }
    }
    idlest.filter(|(_, least)| 100 * here >= scale * least).map(|(g, _)| g)
}

/// `find_idlest_cpu` of 3.13: the least load; of equals the first, or the CPU we are on.
fn find_idlest_cpu_3_13(s: &View, group: &Group, pid: Pid, this_cpu: CpuId) -> Idlest {
    let mut least: Option<(u64, CpuId)> = None;
    for cpu in group.cpus.iter_and(&s.tasks[pid.at()].cpus) {
        let load = cpu_runnable_load(s, cpu);
        if least.is_none_or(|(l, _)| load < l || (load == l && cpu == this_cpu)) {
            least = Some((load, cpu));
        }
    }
    let cpu = least.map_or(this_cpu, |l| l.1);
    (cpu, if s.available_idle_cpu(cpu) { PlacementReason::Idlest } else { PlacementReason::LeastLoaded })
}

/// Loads of a group over its capacity, × 1024, and the most room one of its CPUs has.
#[derive(Clone, Copy)]
struct Loads {
    runnable: u64,
    avg: u64,
    spare: u64,
}

impl Loads {
    fn of(s: &View, group: &Group, pid: Pid, original: bool) -> Loads {
        let capacity = group.capacity.max(1);
        // capacity_spare_wake
        let spare = |cpu: CpuId| {
            let rq = &s.rqs[cpu.at()];
            let all = u64::from(if original { rq.cpu_capacity_orig } else { rq.cpu_capacity });
            all.saturating_sub(cpu_util_without(s, cpu, pid))
        };
        Loads {
            runnable: group.cpus.iter().map(|c| cpu_runnable_load(s, c)).sum::<u64>() * 1024 / capacity,
            avg: group.cpus.iter().map(|c| cpu_load(s, c)).sum::<u64>() * 1024 / capacity,
            spare: group.cpus.iter().map(spare).max().unwrap_or(0),
        }
    }
}
