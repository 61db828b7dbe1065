//! Sums over the CPUs of each last-level cache, kept from one pass to the next on machines with many of them.
//!
//! A pass over a thousand CPUs finds that few have changed since the last: [`Sched::touched`] says which. What is kept is
//! exactly what walking over the CPUs gives; debug builds compare. The cache of the CPU that balances is walked over every
//! time, and stays marked: that CPU may be between two tasks.

use super::capacity::check_cpu_capacity;
use super::group_stats::GroupStats;
use super::load_balance::Env;
use super::{FairBalancer, Generation};
use crate::sched::load::cpu_load::{cpu_runnable_load, cpu_util_of};
use crate::sched::topology::{Group, Level};
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
    /// Of one CPU, for passes that look at its misfits themselves.
    #[inline(always)]
    pub(super) fn of_cpu<const BY_LOAD: bool>(s: &View, cpu: CpuId, generation: Generation) -> Sums {
        let (rq, cfs) = (&s.rqs[cpu.at()], &s.cfs[cpu.at()]);
        Sums {
            load: if BY_LOAD { cpu_runnable_load(s, cpu) } else { cfs.avg.load_avg },
            util: cpu_util_of(s, rq, cfs),
            // Runnable time counts since 5.7.
            runnable: if generation >= Generation::V5_7 { cfs.avg.runnable_avg } else { 0 },
            nr_running: rq.nr_running,
            h_nr_running: cfs.h_nr_running,
            idle_cpus: u32::from(rq.idle()),
            crowded: u32::from(rq.nr_running > 1),
            misfits: 0,
        }
    }

    /// The same, to be kept: with misfits.
    fn kept_of_cpu(s: &View, cpu: CpuId, generation: Generation) -> Sums {
        let of = match generation.is_by_load() {
            true => Sums::of_cpu::<true>(s, cpu, generation),
            false => Sums::of_cpu::<false>(s, cpu, generation),
        };
        let reduced = of.h_nr_running == 1 && check_cpu_capacity(s, cpu, LEAST_PCT);
        Sums { misfits: u32::from(s.rqs[cpu.at()].misfit_task_load > 0 || reduced), ..of }
    }

    #[inline(always)]
    pub(super) fn add(&mut self, of: &Sums) {
        self.load += of.load;
        self.util += of.util;
        self.runnable += of.runnable;
        self.nr_running += of.nr_running;
        self.h_nr_running += of.h_nr_running;
        self.idle_cpus += of.idle_cpus;
        self.crowded += of.crowded;
        self.misfits += of.misfits;
    }

    /// `self` + `new` − `old`, where `old` is a part of `self`.
    fn replace(&mut self, old: Sums, new: Sums) {
        self.add(&new);
        self.load -= old.load;
        self.util -= old.util;
        self.runnable -= old.runnable;
        self.nr_running -= old.nr_running;
        self.h_nr_running -= old.h_nr_running;
        self.idle_cpus -= old.idle_cpus;
        self.crowded -= old.crowded;
        self.misfits -= old.misfits;
    }
}

/// What is kept.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    /// By CPU: what it adds.
    cpus: Vec<Sums>,
    /// By last-level cache: Σ of its CPUs.
    llcs: Vec<Sums>,
}

/// Does the machine have enough caches to keep sums of? Only then [`Sched::touched`] counts.
pub(crate) fn has_many_llcs(s: &View) -> bool {
    s.topology.llc_range.len() >= LEAST_LLCS
}

impl FairBalancer {
    /// Does this pass use what is kept? Only where groups consist of whole caches and every CPU counts.
    pub(super) fn keeps_sums(&self, s: &View, env: &Env) -> bool {
        has_many_llcs(s) && env.sd(s).level >= Level::Pkg && env.looks_at_all() && !self.eas && s.walt.is_none()
    }

    /// Brings what is kept up to date, but for the cache of the balancing CPU.
    #[inline(never)]
    pub(super) fn refresh_sums(&mut self, s: &mut Sched, env: &Env) {
        if self.sums.llcs.is_empty() {
            self.sums.cpus.resize(s.nr_cpus(), Sums::default());
            self.sums.llcs.resize(s.topology.llc_range.len(), Sums::default());
        }
        let own = s.topology.llc_range[s.topology.llc_id[env.sd_cpu.at()] as usize].clone();
        for word in 0..s.touched.len() {
            let below =
                |cpu: usize| 1u64.checked_shl(cpu.saturating_sub(word * 64) as u32).map_or(u64::MAX, |bit| bit - 1);
            let stays = below(own.end) & !below(own.start);
            let mut changed = s.touched[word] & !stays;
            s.touched[word] &= stays;
            while changed != 0 {
                let at = word * 64 + changed.trailing_zeros() as usize;
                changed &= changed - 1;
                let new = Sums::kept_of_cpu(s, CpuId(at as u32), self.generation);
                let old = std::mem::replace(&mut self.sums.cpus[at], new);
                self.sums.llcs[s.topology.llc_id[at] as usize].replace(old, new);
            }
        }
        if cfg!(debug_assertions) {
            for (llc, cpus) in s.topology.llc_range.iter().enumerate().filter(|(_, cpus)| **cpus != own) {
                let walked = walked(s, cpus.clone(), self.generation);
                assert_eq!(self.sums.llcs[llc], walked, "cache {llc} changed behind our back");
            }
        }
    }

    /// Adds the group's CPUs to its statistics; is one overloaded?
    #[inline(never)]
    pub(super) fn add_kept<const BY_LOAD: bool>(
        &self,
        s: &View,
        env: &Env,
        group: &Group,
        local: bool,
        sgs: &mut GroupStats,
    ) -> bool {
        let (mut crowded, own) = (false, s.topology.llc_id[env.sd_cpu.at()]);
        for (llc, kept) in group.llcs.clone().zip(&self.sums.llcs[group.llcs.start as usize..group.llcs.end as usize]) {
            if llc != own && kept.misfits == 0 {
                sgs.add(kept);
                crowded |= kept.crowded > 0;
                continue;
            }
            for cpu in s.topology.llc_range[llc as usize].clone().map(|cpu| CpuId(cpu as u32)) {
                let of = Sums::of_cpu::<BY_LOAD>(s, cpu, self.generation);
                self.add_cpu::<BY_LOAD>(s, env, cpu, local, &of, sgs);
                crowded |= of.crowded > 0;
            }
        }
        crowded
    }
}

fn walked(s: &View, cpus: Range<usize>, generation: Generation) -> Sums {
    let mut sums = Sums::default();
    cpus.for_each(|at| sums.add(&Sums::kept_of_cpu(s, CpuId(at as u32), generation)));
    sums
}
