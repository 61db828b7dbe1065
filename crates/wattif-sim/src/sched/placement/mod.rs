//! Where a task goes when it wakes up, is created or executes a new program: `select_task_rq_fair`.
//!
//! # Idea
//! A wake-up has two candidates, the CPU the task ran on and the one that wakes it; `wake_affine` takes one, and
//! `select_idle_sibling` looks for something idle near it. A new program has no cache to lose: fork and exec walk all
//! domains for the idlest CPU (`find_idlest_cpu`). Energy-aware placement, where there is one, is asked first.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | `wakee_flips` | count | task | a task wakes another one than last time; halved per second |
//! | `sd_llc_size` | CPUs | topology | never |
//! | what the steps read | | see `wake_affine`, `find_idlest_cpu`, `select_idle_sibling` | |
//!
//! # Decision
//! 1. Only one CPU is allowed: that one.
//! 2. Wake-up: record who woke whom; if energy-aware placement is there and the system is not overutilised, and it
//!    answers, take that. An affine wake-up is wanted unless `wake_wide`, or this CPU is not allowed (before 5.7 also
//!    unless the task's need, from 5.6 on within its clamps, is too far from the capacity of both CPUs, `wake_cap`).
//! 3. Walk the domains of this CPU upward. The first that holds the previous CPU, if an affine wake-up is wanted:
//!    `wake_affine` names the target. Otherwise the highest domain that balances this kind of placement is remembered. Nodes
//!    that are far from each other (`far_nodes`) do neither: a wakee goes by its previous CPU, a new task stays on its node.
//! 4. A domain was remembered: `find_idlest_cpu` from it. Else, for a wake-up: `select_idle_sibling` of the target.
//! 5. Fork and exec without a domain: the previous CPU.
//!
//! Worked example, 8 CPUs with one cache: CPU 2 wakes a task that last ran on CPU 5. CPU 2 is busy with one task, so
//! `wake_affine` compares loads and, say, keeps CPU 5; it is busy, so the scan starts at CPU 6 and takes the first idle one.
//!
//! # State and cost
//! `wakee_flips`, `last_wakee` and `recent_used_cpu` of the tasks; those of the idle tasks, which are one per CPU in
//! the kernel, are kept here. O(CPUs of the cache) for a wake-up, O(CPUs) for fork and exec.
//!
//! # Where it fails
//! It looks at one moment only: two wake-ups in the same microsecond see the same idle CPU. Wake-ups from timers run on
//! the CPU of the timer, so "the waker" is whoever it interrupted.
//!
//! # Differences from the kernel
//! FIDELITY(numa-wakeup): no NUMA balancing, so `wake_affine` and `find_idlest_group` have no preferred node.
//! The steps agree with the kernel's on every row of the vectors `wakeup_5.6`, `wakeup_5.6_no_sched_idle`, `wakeup_6.12`.
//!
//! # Source
//! Linux 6.12.117 and 5.6.4 `kernel/sched/fair.c`: `select_task_rq_fair`, `wake_cap` (behaviour).

pub mod cpu_util;
pub mod eas;
pub mod energy_model;
pub mod find_best_target;
pub mod find_idlest_cpu;
pub mod select_idle_sibling;
pub mod wake_affine;

use super::load::cpu_load::{fits_capacity, uclamp_task_util};
use super::rq::Distribute;
use super::{Sched, View};
use crate::registry::Tunable;
use find_idlest_cpu::FindIdlestCpu;
use select_idle_sibling::SelectIdleSibling;
use wake_affine::{TaskLoads, WakeAffine};
use wattif_model::trace::{EnergyCandidate, PlacementReason};
use wattif_model::{CpuId, Pid};

/// Tunables of this policy.
pub const TUNABLES: &[Tunable] = &[
    Tunable {
        name: "before_5_7",
        default: "false",
        allowed: &["true", "false"],
        doc: "rule before 5.7: a task that is too big for both CPUs takes the slow path (wake_cap)",
    },
    Tunable {
        name: "affinity",
        default: "5.11",
        allowed: &Distribute::NAMES,
        doc: "where a thread goes whose CPUs change under it: off: to the first of the new ones; 5.7: to the next after the last choice; 5.11: and so does a real-time or deadline thread that is pushed",
    },
];

/// Why a CPU is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `WF_TTWU`.
    Wakeup {
        /// `WF_SYNC`: the waker says it is about to sleep.
        sync: bool,
    },
    /// `WF_FORK`: a new task.
    Fork,
    /// `WF_EXEC`: a new program.
    Exec,
}

/// A task that needs a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Who.
    pub pid: Pid,
    /// Where it last ran; for a new task the parent's CPU.
    pub prev_cpu: CpuId,
    /// The CPU that executes the wake-up; `current` is what runs there.
    pub this_cpu: CpuId,
    /// Why.
    pub kind: Kind,
    /// The wake-up comes from an interrupt handler, not from `current` itself.
    pub in_irq: bool,
}

/// The answer, with what `trace::Placement` wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Chosen CPU.
    pub cpu: CpuId,
    /// By which rule.
    pub reason: PlacementReason,
    /// Target after `wake_affine`.
    pub target: CpuId,
    /// CPUs looked at by a scan.
    pub scanned: u16,
}

/// Ages a blocked task's averages to its last queue's clock (`sync_entity_load_avg`); the load tracker's, called at the
/// points where the kernel does.
pub type SyncLoad<'a> = &'a dyn Fn(&mut Sched, Pid);

/// Chooses CPUs.
///
/// It may write what the kernel's own placement writes and nothing else: `wakee_flips`, `wakee_flip_decay_ts`,
/// `last_wakee`, `recent_used_cpu` of tasks, `avg_scan_cost` of run queues, `has_idle_cores` of caches.
pub trait WakeupPlacement {
    /// The CPU for a fair task.
    fn select_task_rq(&mut self, s: &mut Sched, req: &Request, sync_entity_load_avg: SyncLoad<'_>) -> Choice;
    /// What energy-aware placement weighed, where that was the reason of the last choice.
    fn weighed(&self) -> &[EnergyCandidate] {
        &[]
    }
    /// `update_idle_core`: the idle task was just picked on this CPU.
    fn update_idle_core(&mut self, s: &mut Sched, cpu: CpuId) {
        select_idle_sibling::update_idle_core(s, cpu);
    }
}

/// Energy-aware placement, asked before everything else on a wake-up.
pub trait EnergyAware {
    /// Is it asked for tasks that fork or exec as well?
    fn places_new_tasks(&self) -> bool {
        false
    }
    /// `find_energy_efficient_cpu`: the CPU and by which rule; `None` when it has no opinion. The task's load is not yet synced.
    fn find_energy_efficient_cpu(
        &mut self,
        s: &mut Sched,
        req: &Request,
        sync_entity_load_avg: SyncLoad<'_>,
    ) -> Option<(CpuId, PlacementReason)>;
    /// The CPUs whose energy the last decision compared.
    fn weighed(&self) -> &[EnergyCandidate] {
        &[]
    }
}

/// `select_task_rq_fair`.
#[derive(Default)]
pub struct SelectTaskRqFair {
    /// Waker's or previous CPU.
    pub wake_affine: WakeAffine,
    /// Fork and exec.
    pub find_idlest_cpu: FindIdlestCpu,
    /// Something idle nearby.
    pub select_idle_sibling: SelectIdleSibling,
    /// Kernels before 5.7: a task too big for both CPUs takes the slow path (`wake_cap`, `SD_BALANCE_WAKE`).
    pub before_5_7: bool,
    /// Energy-aware placement (`eas`), if the kernel has it.
    pub eas: Option<Box<dyn EnergyAware>>,
}

impl WakeupPlacement for SelectTaskRqFair {
    fn select_task_rq(&mut self, s: &mut Sched, req: &Request, sync_entity_load_avg: SyncLoad<'_>) -> Choice {
        let p = &s.tasks[req.pid.at()];
        if p.nr_cpus_allowed == 1 {
            let cpu = p.cpus.min().expect("a task may run somewhere");
            return Choice { cpu, reason: PlacementReason::Pinned, target: cpu, scanned: 0 };
        }
        let wakes = matches!(req.kind, Kind::Wakeup { .. });
        if wakes {
            self.wake_affine.record_wakee(s, req.this_cpu, req.pid);
        }
        if let Some((cpu, reason)) = self.energy_aware(s, req, sync_entity_load_avg) {
            return Choice { cpu, reason, target: req.prev_cpu, scanned: 0 };
        }
        let want_affine = wakes && self.want_affine(s, req, sync_entity_load_avg);
        let (target, domain) = self.walk(s, req, want_affine);
        let choice = match (domain, req.kind) {
            (Some(level), _) => self.find_idlest_cpu.find(s, req, level, sync_entity_load_avg),
            (None, Kind::Wakeup { .. }) => self.select_idle_sibling.select(s, req, target, sync_entity_load_avg),
            (None, _) => Choice { cpu: target, reason: PlacementReason::Target, target, scanned: 0 },
        };
        if self.select_idle_sibling.marks_waker() && want_affine && domain.is_none() {
            let curr = s.rqs[req.this_cpu.at()].curr;
            s.tasks[curr.at()].recent_used_cpu = req.this_cpu;
        }
        choice
    }

    fn weighed(&self) -> &[EnergyCandidate] {
        self.eas.as_ref().map_or(&[], |eas| eas.weighed())
    }
}

impl SelectTaskRqFair {
    fn energy_aware(
        &mut self,
        s: &mut Sched,
        req: &Request,
        sync_entity_load_avg: SyncLoad<'_>,
    ) -> Option<(CpuId, PlacementReason)> {
        let eas = self.eas.as_mut()?;
        let asked = matches!(req.kind, Kind::Wakeup { .. }) || eas.places_new_tasks();
        if s.rd.overutilized || !asked {
            return None;
        }
        eas.find_energy_efficient_cpu(s, req, sync_entity_load_avg)
    }

    fn want_affine(&self, s: &mut Sched, req: &Request, sync_entity_load_avg: SyncLoad<'_>) -> bool {
        let wide = self.wake_affine.wake_wide(s, req.this_cpu, req.pid);
        if wide || (self.before_5_7 && wake_cap(s, req, sync_entity_load_avg)) {
            return false;
        }
        s.tasks[req.pid.at()].cpus.contains(req.this_cpu)
    }

    /// Up the domains of this CPU: the target of a wake-up, or the level from which to search for the idlest CPU.
    fn walk(&self, s: &View, req: &Request, want_affine: bool) -> (CpuId, Option<usize>) {
        let sync = req.kind == Kind::Wakeup { sync: true };
        let mut found = None;
        for (level, &domain) in s.topology.of_cpu[req.this_cpu.at()].iter().enumerate() {
            let sd = &s.topology.domains[domain];
            if want_affine && !sd.far && sd.span.contains(req.prev_cpu) {
                if req.this_cpu == req.prev_cpu {
                    return (req.prev_cpu, None);
                }
                let loads = || match self.wake_affine.generation {
                    wake_affine::Generation::V3_13 => TaskLoads::weights_of(s, req.pid, req.this_cpu),
                    wake_affine::Generation::V4_10 => TaskLoads::averages_of(s, req.pid, req.this_cpu),
                    _ => TaskLoads::of(s, req.pid, req.this_cpu),
                };
                let (this, prev) = (req.this_cpu, req.prev_cpu);
                let target = self.wake_affine.wake_affine(s, sd.imbalance_pct, loads, this, prev, sync);
                return (target, None);
            }
            if self.balances(s, req, level) {
                found = Some(level);
            } else if !want_affine {
                break;
            }
        }
        (req.prev_cpu, found)
    }

    /// Does the domain search for the idlest CPU in this kind of placement (`SD_BALANCE_FORK`, `_EXEC`, `_WAKE`)?
    fn balances(&self, s: &View, req: &Request, level: usize) -> bool {
        if let Kind::Fork | Kind::Exec = req.kind {
            return !s.topology.domains[s.topology.of_cpu[req.this_cpu.at()][level]].far;
        }
        // SD_BALANCE_WAKE: a domain of different capacities, and those below it.
        let above = s.topology.of_cpu[req.this_cpu.at()][level..].iter();
        self.before_5_7 && above.map(|&d| &s.topology.domains[d]).any(|d| d.asym_cpucapacity)
    }
}

/// `wake_cap`: CPUs differ in capacity, and the task may not fit the smaller of waker's and previous.
fn wake_cap(s: &mut Sched, req: &Request, sync_entity_load_avg: SyncLoad<'_>) -> bool {
    if !s.topology.has_asym {
        return false;
    }
    let orig = |cpu: CpuId| s.rqs[cpu.at()].cpu_capacity_orig;
    let (min_cap, max_cap) = (orig(req.prev_cpu).min(orig(req.this_cpu)), s.topology.max_cpu_capacity);
    if max_cap - min_cap < max_cap >> 3 {
        return false;
    }
    sync_entity_load_avg(s, req.pid);
    !fits_capacity(uclamp_task_util(s, req.pid), u64::from(min_cap))
}

#[cfg(test)]
mod tests;
