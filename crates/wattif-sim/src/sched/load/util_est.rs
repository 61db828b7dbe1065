//! Estimated utilisation: what a task used when it last slept, kept for its next activation.
//!
//! # Idea
//! `util_avg` of a task that slept long has decayed, and rises slowly when the task is back. Its value at the end of an
//! activation is a better estimate of what the next one needs. It is taken when the task goes to sleep, smoothed downwards
//! and not upwards, and the sum over queued tasks is the CPU's estimate.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | `util_avg`, `runnable_avg` | 0..=1024 | PELT of the task | to 6.11: the update of the dequeue; 6.12: the last before it |
//! | `capacity_orig` | 1..=1024 | platform | never |
//!
//! # Decision
//! At a dequeue to sleep, unless PELT has not moved since the last estimate (the flag). Kernels before 6.12 take the sample when
//! the task has left the queue, with what it ran until now in `util_avg`; 6.12 takes it first, up to a tick older:
//! 1. An increase counts at once (5.5 and later; 4.17 and 5.1 average it too).
//! 2. A decrease of less than 10 (1 %) changes nothing.
//! 3. More than the CPU's capacity (5.1 and later): the CPU had no idle time, the sample says nothing.
//! 4. 6.12: `util_avg + 10 < runnable_avg`: the task waited for others; keep the estimate.
//! 5. Otherwise the estimate moves by a quarter of the difference.
//!
//! Worked example: estimate 400, `util_avg` 200, `runnable_avg` 205 → 350. With `runnable_avg` 300 it stays 400.
//!
//! # State and cost
//! One word per task (two before 6.8), one per CPU; O(1).
//!
//! # Where it fails
//! One long activation sets the estimate for all short ones that follow, for several sleeps.
//!
//! # Differences from the kernel
//! None known: bit-exact with `util_est_6.1` and `util_est_6.12` (1,500 rows each). Generations 4.17, 5.1 and 5.5 follow the
//! description. `generation` 6.12 stands for the rules of 6.8 and later; 6.8 to 6.11, which have these rules and sample as
//! kernels before, have no name. `util_est` is the word with the flag; 6.1 and earlier have `util_est_ewma` beside it.
//!
//! # Source
//! Linux 6.1.192, 6.12.117 `kernel/sched/fair.c` (`util_est_enqueue`, `util_est_dequeue`, `util_est_update`). Commit 10a35e6812aa
//! (5.1) for samples above the capacity.

use super::pelt::SchedAvg;
use crate::registry::Tunable;

/// Tunables of this policy.
pub const TUNABLES: &[Tunable] = &[Tunable {
    name: "generation",
    default: "6.12",
    allowed: &["4.17", "5.1", "5.5", "6.1", "6.12"],
    doc: "rules of this kernel; 6.12: those of 6.8 and later",
}];

/// Which rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Generation {
    /// First version: increases are averaged like decreases.
    V4_17,
    /// A sample above the CPU's capacity says nothing.
    V5_1,
    /// FASTUP: increases count at once. The flag is bit 0.
    V5_5,
    /// 5.13 to 6.7: the flag is bit 31; a stale `enqueued` is rewritten.
    V6_1,
    /// 6.8 and later: one value, and a contended task keeps it.
    #[default]
    V6_12,
}

/// A change of less than this is noise (1 %).
const UTIL_EST_MARGIN: i64 = 1024 / 100;

impl Generation {
    /// By name: `4.17`, `5.1`, `5.5`, `6.1`, `6.12`.
    pub fn by_name(name: &str) -> Option<Generation> {
        Some(match name {
            "4.17" => Generation::V4_17,
            "5.1" => Generation::V5_1,
            "5.5" => Generation::V5_5,
            "6.1" => Generation::V6_1,
            "6.12" => Generation::V6_12,
            _ => return None,
        })
    }

    /// `UTIL_AVG_UNCHANGED`: PELT has not moved since the estimate.
    #[inline]
    pub fn flag(self) -> u32 {
        match self {
            Generation::V4_17 | Generation::V5_1 | Generation::V5_5 => 1,
            Generation::V6_1 | Generation::V6_12 => 1 << 31,
        }
    }

    /// Is the sample that of the last update before the dequeue (6.12), not that of the dequeue's own?
    #[inline]
    pub fn samples_before_the_dequeue(self) -> bool {
        self == Generation::V6_12
    }

    /// Does an estimate leave its CPU only after the dequeue, and after the governor has heard of it? Until "sched/fair: Avoid stale CPU
    /// util_est value for schedutil in task dequeue" (5.12).
    #[inline]
    pub fn leaves_late(self) -> bool {
        matches!(self, Generation::V4_17 | Generation::V5_1 | Generation::V5_5)
    }

    /// PELT of the task moved: the next sleep gives a new sample.
    #[doc(alias = "cfs_se_util_change")]
    #[inline]
    pub fn util_change(self, avg: &mut SchedAvg) {
        avg.util_est &= !self.flag();
    }

    /// A task's estimate alone (`_task_util_est`).
    #[inline]
    pub fn estimate(self, avg: &SchedAvg) -> u32 {
        match self {
            // Bit 0 is part of the value in these kernels: never 0, always odd.
            Generation::V4_17 | Generation::V5_1 | Generation::V5_5 => avg.util_est.max(avg.util_est_ewma) | 1,
            Generation::V6_1 => avg.util_est_ewma.max(avg.util_est & !self.flag()),
            Generation::V6_12 => avg.util_est & !self.flag(),
        }
    }

    /// `task_util_est()`: the larger of utilisation and estimate, 0..=1024.
    #[inline]
    pub fn task_util_est(self, avg: &SchedAvg) -> u64 {
        avg.util_avg.max(u64::from(self.estimate(avg)))
    }

    /// The task is queued: its estimate counts for the CPU.
    #[inline]
    pub fn enqueue(self, cfs: &mut SchedAvg, task: &SchedAvg) {
        cfs.util_est = cfs.util_est.wrapping_add(self.estimate(task));
    }

    /// The task leaves the queue.
    #[inline]
    pub fn dequeue(self, cfs: &mut SchedAvg, task: &SchedAvg) {
        cfs.util_est = cfs.util_est.saturating_sub(self.estimate(task));
    }

    /// Takes a sample of a task that goes to sleep on a CPU of capacity `cap`.
    #[doc(alias = "util_est_update")]
    pub fn update(self, avg: &mut SchedAvg, task_sleep: bool, cap: u32) {
        if !task_sleep || avg.util_est & self.flag() != 0 {
            return;
        }
        match self {
            Generation::V6_12 => self.update_single(avg, cap),
            _ => self.update_pair(avg, cap),
        }
    }

    fn update_single(self, avg: &mut SchedAvg, cap: u32) {
        let (est, util) = (avg.util_est, avg.util_avg as u32);
        let diff = i64::from(est) - i64::from(util);
        let est = if diff <= 0 {
            util
        } else if diff < UTIL_EST_MARGIN {
            est
        } else if util > cap {
            return;
        } else if u64::from(util) + (UTIL_EST_MARGIN as u64) < avg.runnable_avg {
            est
        } else {
            ((est << 2) - diff as u32) >> 2
        };
        avg.util_est = est | self.flag();
    }

    fn update_pair(self, avg: &mut SchedAvg, cap: u32) {
        let old = i64::from(avg.util_est);
        let legacy = self.flag() == 1;
        let sample = if legacy { avg.util_avg as u32 | 1 } else { avg.util_avg as u32 };
        let mut ewma = avg.util_est_ewma;
        if !matches!(self, Generation::V4_17 | Generation::V5_1) && ewma < sample {
            ewma = sample;
        } else {
            let diff = i64::from(sample) - i64::from(ewma);
            if diff.abs() < UTIL_EST_MARGIN {
                if legacy || (old - i64::from(sample)).abs() < UTIL_EST_MARGIN {
                    return;
                }
            } else if self != Generation::V4_17 && avg.util_avg as u32 > cap {
                return;
            } else {
                // C: unsigned, the sum cannot be negative since |diff| <= ewma.
                ewma = ((i64::from(ewma) << 2) + diff) as u32 >> 2;
            }
        }
        avg.util_est = sample | self.flag();
        avg.util_est_ewma = ewma;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(generation: Generation, est: u32, util: u64, runnable: u64, expect: u32) {
        let mut a = SchedAvg {
            util_est: est,
            util_est_ewma: est,
            util_avg: util,
            runnable_avg: runnable,
            ..SchedAvg::default()
        };
        generation.update(&mut a, true, 1024);
        assert_eq!(generation.estimate(&a), expect, "{generation:?}");
    }

    #[test]
    fn rises_at_once_and_falls_by_a_quarter() {
        check(Generation::V6_12, 100, 400, 400, 400);
        check(Generation::V6_12, 400, 200, 205, 350);
        check(Generation::V6_12, 400, 200, 300, 400);
        check(Generation::V6_1, 400, 200, 300, 350);
        // The first version averages a rise too, but the last sample itself counts as well.
        check(Generation::V4_17, 100, 400, 400, 401);
    }

    #[test]
    fn a_sample_above_the_capacity_says_nothing_since_5_1() {
        for (generation, expect) in [(Generation::V4_17, 501), (Generation::V5_1, 401), (Generation::V5_5, 501)] {
            let mut a = SchedAvg { util_est: 400, util_est_ewma: 400, util_avg: 500, ..SchedAvg::default() };
            generation.update(&mut a, true, 462);
            assert_eq!(generation.estimate(&a), expect, "{generation:?}");
        }
    }

    #[test]
    fn flag_blocks_a_second_sample() {
        let g = Generation::V6_12;
        let mut a = SchedAvg { util_avg: 400, ..SchedAvg::default() };
        g.update(&mut a, true, 1024);
        a.util_avg = 900;
        g.update(&mut a, true, 1024);
        assert_eq!(g.estimate(&a), 400);
        g.util_change(&mut a);
        g.update(&mut a, true, 1024);
        assert_eq!(g.estimate(&a), 900);
    }
}
