//! Conservative frequency governor: one step up when busy, one step down when idle.
//!
//! # Idea
//! Like ondemand, but without jumps: the wanted frequency moves by a fixed step per sample, so that short bursts do not
//! reach the expensive frequencies.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | idle time | µs | the CPU's idle loop | continuously |
//! | `min`, `max` | kHz | the domain | limits |
//!
//! # Decision
//! A utilisation update at least `sampling_rate_us` after the last sample; step := `freq_step_pct` of `max` (5 kHz if that
//! is 0; a `freq_step_pct` of 0 stops the governor):
//! 1. Load as in ondemand.
//! 2. Wanted frequency outside the limits: start again from the current frequency.
//! 3. After long sleeps, and if no load measured since the last sample reached `down_threshold`: down one step for each
//!    sampling period slept, at most to `min`.
//! 4. Load > `up_threshold`: up one step, at most to `max`; the highest frequency at or below it.
//! 5. Else, at every `sampling_down_factor`-th sample, load < `down_threshold`: down one step; the lowest frequency at or above.
//!
//! 4.10: step 3 whatever the loads, for each sampling period that has passed. 4.9 and before: without step 3. Long sleeps in step 1: as in
//! ondemand.
//!
//! `sampling_rate_us` where nobody sets it: as in ondemand, but at least 20 ticks until 4.13.
//!
//! Worked example, 500, 800 and 1000 MHz, step 50 MHz, at 500: loads of 90, 90, … % raise the wish to 550, 600, …; the sixth
//! makes it 800 and the frequency changes. Then 10 %: the wish is 750, still 800 MHz.
//!
//! # State and cost
//! The wish and a counter per domain, three words per CPU. An update that is not due costs one comparison.
//!
//! # Where it fails
//! From half speed to full speed it takes ten samples with the default step of 5 % of `max`: bursts end before it gets there.
//!
//! # Differences from the kernel
//! Bit-exact with the rows of `dbs_governors_6.12` for this governor, which set `sampling_rate_us`. The decision is
//! taken by a worker thread of the CPU that found the sample due (`kworker/N:1`), when it gets that CPU. `ignore_nice_load`
//! is 0. The condition on load in step 3 is of 2026 and its stable backports.
//!
//! # Source
//! Linux 6.12.117 `drivers/cpufreq/cpufreq_conservative.c`, `cpufreq_governor.c` (behaviour). Commit 00bfe05889e9 "cpufreq: conservative:
//! Decrease frequency faster when the update deferred" (4.10).

use super::cpufreq_governor::{Dbs, DbsTunables, GENERATION, Generation, NO_IDLE_PERIODS, SAMPLING_RATE_US};
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
        default: "80",
        allowed: &["1..=100"],
        doc: "load above which the frequency rises, per cent",
    },
    Tunable {
        name: "down_threshold",
        default: "20",
        allowed: &["1..=100"],
        doc: "load below which it falls, per cent; below up_threshold",
    },
    Tunable {
        name: "freq_step_pct",
        default: "5",
        allowed: &["0..=100"],
        doc: "step, per cent of the highest frequency",
    },
    Tunable {
        name: "sampling_down_factor",
        default: "1",
        allowed: &["1..=10"],
        doc: "samples from one step down to the next",
    },
];

/// Least time between samples until 4.13, ticks: twice (`MIN_SAMPLING_RATE_RATIO`) the ten that a load needs.
const MIN_SAMPLING_TICKS: u64 = 20;

/// Tunables; the default is the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunables {
    /// Sampling, `up_threshold` (80), `sampling_down_factor` (1): samples from one step down to the next.
    pub dbs: DbsTunables,
    /// Load below which the frequency falls, per cent (20).
    pub down_threshold: u32,
    /// Step in per cent of the upper limit (5).
    pub freq_step_pct: u32,
}

impl Default for Tunables {
    fn default() -> Tunables {
        let dbs = DbsTunables {
            generation: Generation::V6_12,
            sampling_rate_us: None,
            up_threshold: 80,
            sampling_down_factor: 1,
        };
        Tunables { dbs, down_threshold: 20, freq_step_pct: 5 }
    }
}

/// The governor of one domain.
#[derive(Clone, Debug, Default)]
pub struct Conservative {
    tunables: Tunables,
    dbs: Dbs,
    requested_freq: u32,
    down_skip: u32,
    prev_khz: u32,
    load: u32,
}

impl Conservative {
    /// A governor without a domain yet.
    pub fn new(tunables: Tunables) -> Conservative {
        Conservative { tunables, ..Conservative::default() }
    }
    /// Sampling state.
    pub fn dbs(&self) -> &Dbs {
        &self.dbs
    }
    /// Load at the last sample, per cent.
    pub fn load(&self) -> u32 {
        self.load
    }
    /// The wish, kHz.
    pub fn requested_freq(&self) -> u32 {
        self.requested_freq
    }
    /// Samples since the last step down was considered.
    pub fn down_skip(&self) -> u32 {
        self.down_skip
    }

    fn freq_step(&self) -> u32 {
        let step = self.tunables.freq_step_pct.wrapping_mul(self.dbs.policy.max) / 100; // u32 as in the kernel
        if step == 0 { 5 } else { step }
    }

    #[doc(alias = "cs_dbs_update")]
    fn decide(&mut self) -> Option<u32> {
        if self.tunables.freq_step_pct == 0 {
            return None;
        }
        let (min, max, step) = (self.dbs.policy.min, self.dbs.policy.max, self.freq_step());
        let mut wish = self.requested_freq;
        if !(min..=max).contains(&wish) {
            wish = self.dbs.policy.cur;
            self.requested_freq = wish;
        }
        wish = self.after_sleep(wish, step);
        if self.load > self.tunables.dbs.up_threshold {
            self.down_skip = 0;
            return self.request(wish, max, wish.saturating_add(step).min(max), Relation::HE);
        }
        self.down_skip += 1;
        if self.down_skip < self.tunables.dbs.sampling_down_factor {
            return None;
        }
        self.down_skip = 0;
        if self.load >= self.tunables.down_threshold {
            return None;
        }
        let lower = if wish > step { wish - step } else { min };
        // What the sleep took off counts even if that alone reached the end of the range.
        self.request(self.requested_freq, min, lower.max(min), Relation::LE)
    }

    /// The steps down that the sampling periods slept through would have made. They are made once.
    fn after_sleep(&mut self, wish: u32, step: u32) -> u32 {
        let periods = self.dbs.idle_periods;
        let deaf = match self.dbs.generation {
            Generation::V3_13 | Generation::V4_9 => true,
            Generation::V4_10 => false,
            Generation::V4_14 | Generation::V6_12 => self.dbs.max_sample_load >= self.tunables.down_threshold,
        };
        if deaf || periods == NO_IDLE_PERIODS {
            return wish;
        }
        self.dbs.idle_periods = NO_IDLE_PERIODS;
        let min = self.dbs.policy.min;
        let steps = periods.wrapping_mul(step); // u32 as in the kernel
        if wish > min.wrapping_add(steps) { wish.saturating_sub(steps) } else { min }
    }

    /// Nothing happens, and the wish is not stored, at the `end` of the range.
    fn request(&mut self, wish: u32, end: u32, next: u32, relation: Relation) -> Option<u32> {
        if wish == end {
            return None;
        }
        self.requested_freq = next;
        self.dbs.policy.driver_target(next, relation)
    }
}

impl FreqGovernor for Conservative {
    fn start(&mut self, policy: CpufreqPolicy, now_ns: u64, view: &dyn FreqView) -> Option<u32> {
        self.requested_freq = policy.cur;
        self.down_skip = 0;
        let min_us = MIN_SAMPLING_TICKS * policy.tick_ns / 1000;
        self.dbs = Dbs::start(policy, &self.tunables.dbs, min_us, now_ns, view);
        None
    }

    fn limits(&mut self, min_khz: u32, max_khz: u32) -> Option<u32> {
        self.prev_khz = self.dbs.policy.cur;
        let next = self.dbs.limits(min_khz, max_khz);
        self.requested_freq = self.dbs.policy.cur;
        next
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

    fn sample(&mut self, now_ns: u64, view: &dyn FreqView) -> Option<u32> {
        self.prev_khz = self.dbs.policy.cur;
        self.load = self.dbs.update(now_ns, view);
        let next = self.decide();
        self.dbs.next_sample_after(1);
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
        let mut g = Conservative::new(Tunables::default());
        let idle = |idle_time_us| Fixed { idle_time_us, ..Fixed::default() };
        g.start(policy(1), 0, &idle(0));
        let mut at = |ms: u64, idle_us| {
            let next = g.update_util(ms * 1_000_000, CpuId(0), UpdateFlags::default(), &idle(idle_us));
            (next, g.requested_freq())
        };
        assert_eq!(at(10, 1_000), (None, 550_000));
        for sample in 2..6 {
            assert_eq!(at(sample * 10, sample * 1_000), (None, 500_000 + sample as u32 * 50_000));
        }
        assert_eq!(at(60, 6_000), (Some(800_000), 800_000));
        assert_eq!(at(70, 15_000), (None, 750_000));
    }

    /// From 1000 MHz: 50 % busy, then asleep for seven periods of 10 ms, then busy for one.
    #[test]
    fn samples_not_taken_by_era() {
        let after = |generation| {
            let mut tunables = Tunables::default();
            (tunables.dbs.generation, tunables.dbs.sampling_rate_us) = (generation, Some(10_000));
            let mut g = Conservative::new(tunables);
            let mut view = Fixed::default();
            g.start(CpufreqPolicy { cur: 1_000_000, ..policy(1) }, 0, &view);
            for (ms, idle_time_us) in [(10, 5_000), (20, 14_500), (100, 84_500)] {
                view.idle_time_us = idle_time_us;
                g.update_util(ms * 1_000_000, CpuId(0), UpdateFlags::default(), &view);
            }
            g.requested_freq()
        };
        assert_eq!(after(Generation::V4_9), 900_000, "one step for each sample of low load");
        assert_eq!(after(Generation::V4_10), 500_000, "80 ms have passed");
        assert_eq!(after(Generation::V4_14), 550_000, "70 ms of sleep");
    }
}
