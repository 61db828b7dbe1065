//! What placement and balancing read off the load signals: loads of CPUs and tasks, and whether a task fits.
//!
//! Everything here only reads; the signals themselves are the tracker's ([`super::pelt`]).

use super::walt::WaltSystem;
use crate::sched::rq::{CfsRq, Rq};
use crate::sched::task::{NONE, OnRq};
use crate::sched::uclamp::Fits;
use crate::sched::{Sched, View};
use wattif_model::units::CAPACITY_SCALE;
use wattif_model::{CpuId, Pid};

/// `cpu_load`: load average of the fair queue, blocked tasks included (1024 = one nice-0 task always runnable).
#[inline]
#[doc(alias = "weighted_cpuload")]
pub fn cpu_load(s: &View, cpu: CpuId) -> u64 {
    s.cfs[cpu.at()].avg.load_avg
}

/// `cpu_runnable_load` of kernels up to 5.4: the same without blocked tasks.
///
/// FIDELITY(runnable-load): the kernel keeps an average of its own for it, whose rounding differs; here it is the sum
/// over the queued entities of the root queue.
#[inline(never)]
pub fn cpu_runnable_load(s: &View, cpu: CpuId) -> u64 {
    queued_entities(s, cpu.at()).map(|se| s.se[se].avg.load_avg).sum()
}

/// The entities queued on a fair queue: the tree in its order, then the running one.
pub fn queued_entities(s: &View, cfs: usize) -> impl Iterator<Item = usize> + '_ {
    let q = &s.cfs[cfs];
    let curr = (q.curr != NONE && s.se[q.curr].on_rq).then_some(q.curr);
    q.tree.iter().map(|n| n.se).filter(move |se| Some(*se) != curr).chain(curr)
}

/// `task_h_load`: the part of its CPU's load that a task is, through the groups above it.
///
/// FIDELITY(h-load): the kernel computes a queue's share once per tick; here it is always current.
pub fn task_h_load(s: &View, pid: Pid) -> u64 {
    let se = &s.se[s.se_of(pid)];
    let cfs = &s.cfs[se.cfs_rq];
    se.avg.load_avg * h_load(s, se.cfs_rq) / (cfs.avg.load_avg + 1)
}

/// `cfs_rq->h_load`: what a queue contributes to the load of its CPU.
fn h_load(s: &View, cfs: usize) -> u64 {
    let q = &s.cfs[cfs];
    if q.se == NONE {
        return q.avg.load_avg;
    }
    let se = &s.se[q.se];
    h_load(s, se.cfs_rq) * se.avg.load_avg / (s.cfs[se.cfs_rq].avg.load_avg + 1)
}

/// `task_util`: running average of a task, or its demand under WALT; 0..=1024.
#[inline]
pub fn task_util(s: &View, pid: Pid) -> u64 {
    if let Some(w) = &s.walt {
        return w.walt.task_util(&w.tasks[pid.at()]);
    }
    s.se[s.se_of(pid)].avg.util_avg
}

/// `_task_util_est`: the stored estimate.
#[inline]
#[doc(alias = "_task_util_est")]
pub fn stored_util_est(s: &View, pid: Pid) -> u64 {
    if s.walt.is_some() {
        return 0;
    }
    u64::from(s.util_est.estimate(&s.se[s.se_of(pid)].avg))
}

/// `task_util_est`: the larger of its average and its estimate.
#[inline]
pub fn task_util_est(s: &View, pid: Pid) -> u64 {
    task_util(s, pid).max(stored_util_est(s, pid))
}

/// `cpu_util_cfs`: utilisation of a CPU by fair tasks, at most its capacity.
pub fn cpu_util_cfs(s: &View, cpu: CpuId) -> u64 {
    cpu_util_of(s, &s.rqs[cpu.at()], &s.cfs[cpu.at()])
}

/// [`cpu_util_cfs`] of the CPU of this run queue and its root fair queue.
#[inline]
pub fn cpu_util_of(s: &View, rq: &Rq, cfs: &CfsRq) -> u64 {
    match &s.walt {
        None => capped(s, rq, cfs.avg.util_avg, u64::from(cfs.avg.util_est)),
        Some(w) => walt_cpu_util(w, rq),
    }
}

// Not inlined: loops over CPUs are tighter without it.
#[inline(never)]
fn walt_cpu_util(w: &WaltSystem, rq: &Rq) -> u64 {
    w.walt.cpu_util(&w.rqs[rq.cpu.at()]).min(u64::from(rq.cpu_capacity_orig))
}

/// Utilisation that a CPU's frequency will have to serve, without a task that wakes: under WALT the demand of all that ran
/// or will run there in this window.
pub fn cpu_util_cum(s: &Sched, cpu: CpuId, pid: Pid) -> u64 {
    let plain = cpu_util_without(s, cpu, pid);
    let Some(w) = &s.walt else { return plain };
    let asleep = (s.tasks[pid.at()].cpu == cpu).then(|| &w.tasks[pid.at()]);
    let util = w.walt.cpu_util_cum(&w.rqs[cpu.at()], s.now, asleep);
    plain.max(util.min(u64::from(s.rqs[cpu.at()].cpu_capacity_orig)))
}

/// `cpu_util_without`: the same as if the task had never run there.
pub fn cpu_util_without(s: &View, cpu: CpuId, pid: Pid) -> u64 {
    let avg = &s.cfs[cpu.at()].avg;
    // Under WALT a task that sleeps has no part in the sum.
    if s.walt.is_some() || !contributes(s, cpu, pid) {
        return cpu_util_cfs(s, cpu);
    }
    let util = avg.util_avg.saturating_sub(task_util(s, pid));
    let mut util_est = u64::from(avg.util_est);
    if task_running_on_cpu(s, cpu, pid) {
        util_est = util_est.saturating_sub(stored_util_est(s, pid));
    }
    capped(s, &s.rqs[cpu.at()], util, util_est)
}

#[inline]
fn capped(s: &View, rq: &Rq, util: u64, util_est: u64) -> u64 {
    let util = if s.features.util_est { util.max(util_est) } else { util };
    util.min(u64::from(rq.cpu_capacity_orig))
}

/// `cpu_load_without`: load of a CPU as if the task had never run there.
pub fn cpu_load_without(s: &View, cpu: CpuId, pid: Pid) -> u64 {
    let without = if contributes(s, cpu, pid) { task_h_load(s, pid) } else { 0 };
    cpu_load(s, cpu).saturating_sub(without)
}

/// `cpu_runnable_without`: `runnable_avg` of a CPU as if the task had never run there.
pub fn cpu_runnable_without(s: &View, cpu: CpuId, pid: Pid) -> u64 {
    let without = if contributes(s, cpu, pid) { s.se[s.se_of(pid)].avg.runnable_avg } else { 0 };
    s.cfs[cpu.at()].avg.runnable_avg.saturating_sub(without)
}

/// Are the task's averages part of the CPU's? Not those of a new or just migrated one.
fn contributes(s: &View, cpu: CpuId, pid: Pid) -> bool {
    s.tasks[pid.at()].cpu == cpu && s.se[s.se_of(pid)].attached
}

/// `task_running_on_cpu`: is the task queued on this CPU?
#[inline]
pub fn task_running_on_cpu(s: &View, cpu: CpuId, pid: Pid) -> bool {
    let p = &s.tasks[pid.at()];
    p.cpu == cpu && p.on_rq == OnRq::Queued
}

/// `fits_capacity`: with a quarter of headroom.
#[inline]
pub const fn fits_capacity(util: u64, capacity: u64) -> bool {
    util * 1280 < capacity * 1024
}

/// `get_actual_cpu_capacity`: the capacity under the present cap on frequency.
#[inline]
pub fn get_actual_cpu_capacity(s: &View, cpu: CpuId) -> u64 {
    let rq = &s.rqs[cpu.at()];
    u64::from(rq.cpu_capacity_orig.saturating_sub(rq.hw_pressure))
}

/// Does a task fit a CPU?
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    /// Yes (the kernel's 1).
    Yes,
    /// Only its `uclamp_min` is not met (−1).
    NotUclampMin,
    /// No (0).
    No,
}

impl From<bool> for Fit {
    fn from(fits: bool) -> Fit {
        if fits { Fit::Yes } else { Fit::No }
    }
}

/// `util_fits_cpu`: a utilisation with clamps on a CPU.
pub fn util_fits_cpu(s: &View, util: u64, uclamp_min: u64, uclamp_max: u64, cpu: CpuId) -> Fit {
    let rq = &s.rqs[cpu.at()];
    let capacity_orig = u64::from(rq.cpu_capacity_orig);
    let mut fits = fits_capacity(util, u64::from(rq.cpu_capacity));
    if !s.rd.uclamp_used {
        return fits.into();
    }
    // A task that is held down by its maximum fits where the maximum does; on the biggest CPU 1024 holds nothing down.
    let unlimited = capacity_orig == CAPACITY_SCALE && uclamp_max == CAPACITY_SCALE;
    fits |= !unlimited && uclamp_max <= capacity_orig;
    let uclamp_min = uclamp_min.min(uclamp_max);
    match fits {
        true if util < uclamp_min && uclamp_min > get_actual_cpu_capacity(s, cpu) => Fit::NotUclampMin,
        true => Fit::Yes,
        false => Fit::No,
    }
}

/// `uclamp_task_util`: a task's utilisation within its clamps; `5.3`: as it is.
pub fn uclamp_task_util(s: &View, pid: Pid) -> u64 {
    let (util, p) = (task_util_est(s, pid), &s.tasks[pid.at()]);
    if !s.rd.uclamp_used || s.uclamp_fits == Fits::V5_3 {
        return util;
    }
    util.max(u64::from(p.uclamp_min)).min(u64::from(p.uclamp_max))
}

/// Does a task with its clamps fit a CPU, by the rule of the kernel ([`Fits`])?
pub fn task_fit(s: &View, pid: Pid, cpu: CpuId) -> Fit {
    if s.uclamp_fits < Fits::V6_2 {
        return fits_capacity(uclamp_task_util(s, pid), u64::from(s.rqs[cpu.at()].cpu_capacity)).into();
    }
    let p = &s.tasks[pid.at()];
    util_fits_cpu(s, task_util_est(s, pid), u64::from(p.uclamp_min), u64::from(p.uclamp_max), cpu)
}

/// `task_fits_cpu`: [`task_fit`] in every respect.
#[inline]
#[doc(alias = "task_fits_capacity")]
pub fn task_fits_cpu(s: &View, pid: Pid, cpu: CpuId) -> bool {
    task_fit(s, pid, cpu) == Fit::Yes
}

impl Sched {
    /// A task of SCHED_IDLE (`task_has_idle_policy`).
    #[inline]
    pub fn task_has_idle_policy(&self, pid: Pid) -> bool {
        self.tasks[pid.at()].policy == wattif_model::workload::Policy::Idle
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::topology::tests::cpus;
    use crate::sched::toy::Toy;

    /// How a task of this utilisation and these clamps fits CPUs of 462 and of 1024, by era.
    fn fits(util: u64, clamps: (u32, u32), used: bool) -> [[Fit; 2]; 3] {
        let mut toy = Toy::new(&cpus(2, |c| (c, 0, 0, [462, 1024][c as usize])));
        let pid = toy.sleeper(0);
        let se = toy.s.se_of(pid);
        toy.s.se[se].avg.util_avg = util;
        (toy.s.tasks[pid.at()].uclamp_min, toy.s.tasks[pid.at()].uclamp_max) = clamps;
        toy.s.rd.uclamp_used = used;
        [Fits::V5_3, Fits::V5_6, Fits::V6_2].map(|era| {
            toy.s.uclamp_fits = era;
            [0, 1].map(|cpu| task_fit(&toy.s, pid, CpuId(cpu)))
        })
    }

    #[test]
    fn what_clamps_do_to_whether_a_task_fits_depends_on_the_era() {
        use Fit::{No, NotUclampMin, Yes};
        const LITTLE: [Fit; 2] = [Yes, Yes];
        const BIG: [Fit; 2] = [No, Yes];
        const NONE: (u32, u32) = (0, 1024);
        for (util, clamps, expect) in [
            (60, NONE, [LITTLE, LITTLE, LITTLE]),
            (440, NONE, [BIG, BIG, BIG]),
            (60, (700, 1024), [LITTLE, BIG, [NotUclampMin, Yes]]),
            // With the headroom nothing satisfies it; since 6.2 it has none.
            (60, (1024, 1024), [LITTLE, [No, No], [NotUclampMin, Yes]]),
            (440, (0, 200), [BIG, LITTLE, LITTLE]),
            (440, (0, 400), [BIG, BIG, LITTLE]),
            (1000, NONE, [[No, No], [No, No], [No, No]]),
        ] {
            assert_eq!(fits(util, clamps, true), expect, "{util} {clamps:?}");
            let unused = fits(util, clamps, false);
            assert_eq!(unused, [expect[0]; 3], "{util} {clamps:?}, nobody uses clamps");
        }
    }
}
