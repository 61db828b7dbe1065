//! Sums over the CPUs of each last-level cache, kept from one pass to the next on machines with many of them.
//!
//! A pass over a thousand CPUs finds that few have changed since the last: [`Sched::signal_versions`] says which. What is
//! kept is exactly what walking over the CPUs gives; debug builds compare. The cache of the CPU that balances is walked
//! over every time: that CPU may be between two tasks.

use super::capacity::check_cpu_capacity;
use super::load_balance::Env;
use super::{FairBalancer, Generation};
use crate::sched::core::IDLE;
use crate::sched::load::cpu_load::{cpu_runnable_load, cpu_util_of};
use crate::sched::topology::Level;
use crate::sched::{Sched, View};
use std::ops::Range;
use wattif_model::CpuId;

/// Machines with fewer last-level caches just walk.
const LEAST_LLCS: usize = 4;
/// The smallest `imbalance_pct` of any domain: what it does not call reduced, none does.
const LEAST_PCT: u32 = 110;

/// What one CPU, or several, add to the statistics of their group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    /// Σ load, of the generation's kind.
    pub load: u64,
    /// Σ utilisation.
    pub util: u64,
    /// Σ `runnable_avg`.
    pub runnable: u64,
    /// Runnable tasks of all classes.
    pub nr_running: u32,
    /// Runnable fair tasks.
    pub h_nr_running: u32,
    /// Idle CPUs.
    pub idle_cpus: u32,
    /// CPUs with more than one runnable task.
    pub crowded: u32,
    /// CPUs that may count as misfits: such a cache is walked over.
    pub misfits: u32,
}

impl Sums {
    fn of_cpu(s: &View, cpu: CpuId, generation: Generation) -> Sums {
        let (rq, cfs) = (&s.rqs[cpu.at()], &s.cfs[cpu.at()]);
        let reduced = cfs.h_nr_running == 1 && check_cpu_capacity(s, cpu, LEAST_PCT);
        Sums {
            load: if generation.is_by_load() { cpu_runnable_load(s, cpu) } else { cfs.avg.load_avg },
            util: cpu_util_of(s, rq, cfs),
            // Runnable time counts since 5.7.
            runnable: if generation >= Generation::V6_1 { cfs.avg.runnable_avg } else { 0 },
            nr_running: rq.nr_running,
            h_nr_running: cfs.h_nr_running,
            idle_cpus: u32::from(rq.nr_running == 0 && rq.curr == IDLE),
            crowded: u32::from(rq.nr_running > 1),
            misfits: u32::from(rq.misfit_task_load > 0 || reduced),
        }
    }

    /// `self` + `new` − `old`, where `old` is a part of `self`.
    fn replace(&mut self, old: Sums, new: Sums) {
        self.load = self.load + new.load - old.load;
        self.util = self.util + new.util - old.util;
        self.runnable = self.runnable + new.runnable - old.runnable;
        self.nr_running = self.nr_running + new.nr_running - old.nr_running;
        self.h_nr_running = self.h_nr_running + new.h_nr_running - old.h_nr_running;
        self.idle_cpus = self.idle_cpus + new.idle_cpus - old.idle_cpus;
        self.crowded = self.crowded + new.crowded - old.crowded;
        self.misfits = self.misfits + new.misfits - old.misfits;
    }
}

/// What is kept.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    /// By CPU: as of which version, and what it adds.
    cpus: Vec<(u64, Sums)>,
    /// By last-level cache: Σ of the versions, and of the CPUs.
    llcs: Vec<(u64, Sums)>,
}

impl FairBalancer {
    /// Does this pass use what is kept? Only where groups consist of whole caches and every CPU counts.
    pub(super) fn keeps_sums(&self, s: &View, env: &Env) -> bool {
        let many = s.topology.llc_range.len() >= LEAST_LLCS;
        many && env.sd(s).level >= Level::Pkg && env.looks_at_all() && !self.eas && s.walt.is_none()
    }

    /// Brings what is kept of a domain's caches up to date, but for that of the balancing CPU.
    pub(super) fn refresh_sums(&mut self, s: &Sched, env: &Env) {
        if self.sums.llcs.is_empty() {
            self.sums.cpus.resize(s.nr_cpus(), (0, Sums::default()));
            self.sums.llcs.resize(s.topology.llc_range.len(), (0, Sums::default()));
        }
        for g in &env.sd(s).groups {
            for llc in g.llcs.clone().filter(|&llc| llc != s.topology.llc_id[env.sd_cpu.at()]) {
                self.refresh_llc(s, llc as usize);
            }
        }
    }

    fn refresh_llc(&mut self, s: &Sched, llc: usize) {
        let Range { start, end } = s.topology.llc_range[llc].clone();
        // Versions only grow: equal sums are equal versions.
        let version = s.signal_versions[start..end].iter().sum();
        let Kept { cpus, llcs } = &mut self.sums;
        let (seen, sums) = &mut llcs[llc];
        if *seen != version {
            *seen = version;
            for (at, (seen, old)) in (start..end).zip(&mut cpus[start..end]) {
                if *seen != s.signal_versions[at] {
                    let new = Sums::of_cpu(s, CpuId(at as u32), self.generation);
                    sums.replace(*old, new);
                    (*seen, *old) = (s.signal_versions[at], new);
                }
            }
        }
        debug_assert_eq!(*sums, walked(s, start..end, self.generation), "cache {llc} changed behind our back");
    }

    /// What is kept of a cache; `None`: walk over it.
    pub(super) fn kept(&self, s: &View, env: &Env, llc: u32) -> Option<&Sums> {
        let own = llc == s.topology.llc_id[env.sd_cpu.at()];
        Some(&self.sums.llcs[llc as usize].1).filter(|sums| !own && sums.misfits == 0)
    }
}

fn walked(s: &View, cpus: Range<usize>, generation: Generation) -> Sums {
    let mut sums = Sums::default();
    cpus.for_each(|at| sums.replace(Sums::default(), Sums::of_cpu(s, CpuId(at as u32), generation)));
    sums
}
