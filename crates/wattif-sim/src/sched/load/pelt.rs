//! Per-entity load tracking.

/// Running averages of an entity or run queue (`struct sched_avg`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedAvg {
    /// Time of the last update on the PELT clock, ns, a multiple of 1024 after the first.
    pub last_update_time: u64,
    /// Σ decayed load contribution.
    pub load_sum: u64,
    /// Σ decayed runnable contribution × 1024.
    pub runnable_sum: u64,
    /// Σ decayed running contribution × 1024.
    pub util_sum: u32,
    /// Part of the current period already accounted, in 1024 ns.
    pub period_contrib: u32,
    /// Weighted runnable average.
    pub load_avg: u64,
    /// Runnable average, 0..=1024 for a task.
    pub runnable_avg: u64,
    /// Running average, 0..=1024.
    pub util_avg: u64,
    /// `util_est` word: 6.8+: one value with bit 31 as "unchanged" flag; before: `enqueued` with the flag.
    pub util_est: u32,
    /// `util_est.ewma` of kernels before 6.8.
    pub util_est_ewma: u32,
}
