//! Ondemand frequency governor: full speed at once when busy, otherwise in proportion to load.
//!
//! # Idea
//! Look every few milliseconds at how busy the CPUs were. Nearly always busy: nobody knows how much more they need, so
//! give them everything. Otherwise the frequency is proportional to the load.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | idle time | µs | the CPU's idle loop | continuously |
//! | `min`, `max`, `cpuinfo_min`, `cpuinfo_max` | kHz | the domain | limits |
//!
//! # Decision
//! A utilisation update at least `sampling_rate_us` × `rate_mult` after the last sample:
//! 1. Load of a CPU := 100 × (elapsed − idle) / elapsed. A CPU that slept more than two periods counts with its load before
//!    the sleep, once. Load of the domain: the highest.
//! 2. Load > `up_threshold`: `max`; if it was below, the next sample comes only after `sampling_down_factor` periods.
//! 3. Otherwise `cpuinfo_min` + load × (`cpuinfo_max` − `cpuinfo_min`) / 100, the closest frequency of the table.
//!
//! 3.13 (to 3.16): in step 3 load × `cpuinfo_max` / 100, the lowest frequency at or above it; in step 1 a long sleep counts like any
//! other time (to 3.15). 4.9, 4.10 (to 4.17): long is when more than two periods have passed since the last sample, though the CPU slept
//! for less.
//!
//! `sampling_rate_us` where nobody sets it: until 4.13 1000 × the transition latency, at least 10 ms. From 4.14 on what the
//! driver sets, else 1000 × the latency, at most 10 ms (until 6.8), or 1.5 × the latency (since 6.12); at least two ticks.
//!
//! Worked example, 500, 800 and 1000 MHz, 10 ms: 9.7 ms busy → 97 % → 1000 MHz. Then 4.5 ms busy → 45 % → 725 → 800 MHz.
//! Then 12 ms later, 1 ms busy → 8 % → 540 → 500 MHz.
//!
//! # State and cost
//! Three words per CPU. An update that is not due costs one comparison, a sample O(CPUs of the domain + frequencies).
//!
//! # Where it fails
//! Load does not know the frequency it was measured at: 80 % at a low speed asks for 80 % of full speed, and a load that
//! alternates with the sampling period makes the frequency alternate one period late.
//!
//! # Differences from the kernel
//! Bit-exact with the rows of `dbs_governors_6.12` for this governor, which set `sampling_rate_us`. The decision is
//! taken by a worker thread of the CPU that found the sample due (`kworker/N:1`), when it gets that CPU. `powersave_bias`,
//! `ignore_nice_load` and `io_is_busy` are 0.
//!
//! # Source
//! Linux 6.12.117 `drivers/cpufreq/cpufreq_ondemand.c`, `cpufreq_governor.c` (behaviour). Commits "cpufreq: governor: Be friendly
//! towards latency-sensitive bursty workloads" (3.16), "cpufreq: ondemand: Eliminate the deadband effect" (3.17), "cpufreq: governors:
//! Fix long idle detection logic in load calculation" (4.18).

use super::cpufreq_governor::{Dbs, DbsTunables, GENERATION, Generation, SAMPLING_RATE_US};
use super::freq_table::Relation;
use super::{CpufreqPolicy, FreqGovernor, FreqView};
use crate::registry::Tunable;
use wattif_model::trace::FrequencyChoice;

/// Tunables of this policy.
pub const TUNABLES: &[Tunable] = &[
    GENERATION,
    SAMPLING_RATE_US,
    Tunable {
        name: "up_threshold",
        default: "95",
        allowed: &["1..=100"],
        doc: "load above which the highest frequency follows, per cent",
    },
    Tunable {
        name: "sampling_down_factor",
        default: "1",
        allowed: &["1..=100000"],
        doc: "periods to stay at the highest frequency",
    },
];

/// Least time between samples until 4.13, µs, of a kernel whose idle CPUs have no tick.
#[doc(alias = "MICRO_FREQUENCY_MIN_SAMPLE_RATE")]
const MIN_SAMPLING_RATE_US: u64 = 10_000;

/// Tunables; the default is the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunables {
    /// Sampling, `up_threshold` (95), `sampling_down_factor` (1): periods to stay at full speed.
    pub dbs: DbsTunables,
}

impl Default for Tunables {
    fn default() -> Tunables {
        Tunables {
            dbs: DbsTunables {
                generation: Generation::V6_12,
                sampling_rate_us: None,
                up_threshold: 95,
                sampling_down_factor: 1,
            },
        }
    }
}

/// The governor of one domain.
#[derive(Clone, Debug, Default)]
pub struct Ondemand {
    tunables: Tunables,
    dbs: Dbs,
    prev_khz: u32,
    load: u32,
}

impl Ondemand {
    /// A governor without a domain yet.
    pub fn new(tunables: Tunables) -> Ondemand {
        Ondemand { tunables, ..Ondemand::default() }
    }
    /// Sampling state.
    pub fn dbs(&self) -> &Dbs {
        &self.dbs
    }
    /// Load at the last sample, per cent.
    pub fn load(&self) -> u32 {
        self.load
    }

    fn decide(&mut self) -> Option<u32> {
        let p = &mut self.dbs.policy;
        if self.load > self.tunables.dbs.up_threshold {
            if p.cur < p.max {
                self.dbs.rate_mult = self.tunables.dbs.sampling_down_factor;
            }
            return if p.cur == p.max { None } else { p.driver_target(p.max, Relation::HE) };
        }
        self.dbs.rate_mult = 1;
        if self.dbs.generation == Generation::V3_13 {
            return p.driver_target(self.load.wrapping_mul(p.cpuinfo_max) / 100, Relation::LE);
        }
        // u32 as in the kernel: a load of 100 % of 42 GHz would wrap.
        let span = p.cpuinfo_max - p.cpuinfo_min;
        p.driver_target(p.cpuinfo_min + self.load.wrapping_mul(span) / 100, Relation::CE)
    }
}

impl FreqGovernor for Ondemand {
    fn start(&mut self, policy: CpufreqPolicy, now_ns: u64, view: &dyn FreqView) -> Option<u32> {
        self.dbs = Dbs::start(policy, &self.tunables.dbs, MIN_SAMPLING_RATE_US, now_ns, view);
        None
    }

    fn limits(&mut self, min_khz: u32, max_khz: u32) -> Option<u32> {
        self.prev_khz = self.dbs.policy.cur;
        self.dbs.limits(min_khz, max_khz)
    }

    fn hears_own_updates_only(&self) -> bool {
        self.tunables.dbs.generation < Generation::V4_14
    }

    fn sampling_interval_ns(&self) -> Option<u64> {
        Some(self.dbs.interval_ns())
    }

    fn sample_due(&mut self, now_ns: u64) -> bool {
        self.dbs.due(now_ns)
    }

    #[doc(alias = "od_update")]
    fn sample(&mut self, now_ns: u64, view: &dyn FreqView) -> Option<u32> {
        self.prev_khz = self.dbs.policy.cur;
        self.load = self.dbs.update(now_ns, view);
        let next = self.decide();
        self.dbs.next_sample_after(self.dbs.rate_mult);
        next
    }

    fn policy(&self) -> &CpufreqPolicy {
        &self.dbs.policy
    }

    fn choice(&self) -> FrequencyChoice {
        self.dbs.choice(self.prev_khz, self.load)
    }
}

#[cfg(test)]
mod tests {
    use super::super::UpdateFlags;
    use super::super::tests::{Fixed, policy};
    use super::*;
    use wattif_model::ids::CpuId;

    #[test]
    fn worked_example() {
        let mut g = Ondemand::new(Tunables::default());
        let idle = |idle_time_us| Fixed { idle_time_us, ..Fixed::default() };
        g.start(policy(1), 0, &idle(0));
        let mut at = |us: u64, idle_us| g.update_util(us * 1000, CpuId(0), UpdateFlags::default(), &idle(idle_us));
        assert_eq!(at(5_000, 5_000), None, "not due");
        assert_eq!(at(10_000, 300), Some(1_000_000));
        assert_eq!(at(20_000, 5_800), Some(800_000));
        assert_eq!(at(32_000, 16_800), Some(500_000));
    }

    /// 45 % of a second: between 500 and 1000 MHz since 3.17, before that between 0 and 1000.
    #[test]
    fn the_scale_begins_at_zero_until_3_17() {
        for (generation, load, mhz) in [
            (Generation::V3_13, 45, 500),
            (Generation::V4_9, 45, 800),
            (Generation::V3_13, 55, 800),
            (Generation::V3_13, 81, 1000),
            (Generation::V4_9, 81, 1000),
        ] {
            let mut tunables = Tunables::default();
            (tunables.dbs.generation, tunables.dbs.sampling_rate_us) = (generation, Some(10_000));
            let mut g = Ondemand::new(tunables);
            g.start(policy(1), 0, &Fixed::default());
            let view = Fixed { idle_time_us: 10_000 - load * 100, ..Fixed::default() };
            g.update_util(10_000_000, CpuId(0), UpdateFlags::default(), &view);
            assert_eq!(g.policy().cur, mhz * 1000, "{generation:?}, {load} %");
        }
    }
}
