//! What the sampling governors share: when to sample, and the load since the last sample.
//!
//! Kernels since 4.6 sample from the utilisation updates of the scheduler, so a domain whose CPUs all sleep without a
//! tick is not sampled; the load of a CPU that slept long is therefore taken from before the sleep, once.
//! Who finds a sample due does not take it: a worker thread of the executing CPU does ([`crate::sched::worker`]).

use super::{CpufreqPolicy, FreqView, choice_without_inputs};
use crate::registry::{Tunable, meant};
use wattif_model::ids::CpuId;
use wattif_model::trace::FrequencyChoice;

/// `idle_periods` when no CPU was idle for long.
pub const NO_IDLE_PERIODS: u32 = u32::MAX;

/// What changed from kernel to kernel: the time between samples where nobody sets it, and what a long sleep counts for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Generation {
    /// Until 3.15: a thousand times the transition latency, however long that is, and at least what the governor says. A sleep
    /// counts like any other time.
    V3_13,
    /// Until 4.9: the load from before the last sample stands for one after which more than two periods have passed, whether the CPU
    /// slept or not.
    V4_9,
    /// Until 4.13: and conservative makes up for the samples that were not taken.
    V4_10,
    /// To 6.8: the driver's rate limit as it was then, at least two ticks. What counts is that the CPU slept (since 4.18).
    V4_14,
    /// Since 6.12: the driver's rate limit, at least two ticks.
    #[default]
    V6_12,
}

impl Generation {
    /// The values of the tunable.
    pub const NAMES: [&'static str; 5] = ["3.13", "4.9", "4.10", "4.14", "6.12"];

    /// From the tunable's value.
    pub fn parse(name: &str) -> Option<Generation> {
        use Generation::{V3_13, V4_9, V4_10, V4_14, V6_12};
        meant(Generation::NAMES, [V3_13, V4_9, V4_10, V4_14, V6_12], name)
    }

    /// The default time between samples, µs; `min_us`: the least that the governor took until 4.13 (`min_sampling_rate`).
    fn sampling_rate_us(self, policy: &CpufreqPolicy, min_us: u64) -> u64 {
        let two_ticks = 2 * policy.tick_ns / 1000;
        match self {
            Generation::V3_13 | Generation::V4_9 | Generation::V4_10 => {
                min_us.max(1000 * (policy.transition_latency_ns / 1000).max(1))
            }
            Generation::V4_14 => two_ticks.max(policy.transition_delay_us_6_1()),
            Generation::V6_12 => two_ticks.max(policy.transition_delay_us()),
        }
    }
}

/// `generation` of both governors.
pub const GENERATION: Tunable = Tunable {
    name: "generation",
    default: "6.12",
    allowed: &Generation::NAMES,
    doc: "auto of sampling_rate_us: 1000 × the transition latency (3.13 to 4.10), at most 10 ms (4.14), or 1.5 × (6.12); what a long sleep counts for (3.13, 4.9, 4.10)",
};

/// `sampling_rate_us` of both governors.
pub const SAMPLING_RATE_US: Tunable = Tunable {
    name: "sampling_rate_us",
    default: "auto",
    allowed: &["auto", "1..=4294967295"],
    doc: "time between samples, µs; auto: by the driver's transition latency, as generation says",
};

/// Tunables of both governors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DbsTunables {
    /// Whose time between samples.
    pub generation: Generation,
    /// Time between samples, µs, at least 1; `None`: as the generation says.
    pub sampling_rate_us: Option<u32>,
    /// Load above which the frequency rises, per cent.
    pub up_threshold: u32,
    /// How many samples a high frequency is kept at least (see the governors).
    pub sampling_down_factor: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CpuDbs {
    cpu: CpuId,
    prev_cpu_idle_us: u64,
    prev_update_us: u64,
    prev_load: u32,
}

/// Sampling state of a domain (`struct policy_dbs_info`).
#[derive(Clone, Debug, Default)]
pub struct Dbs {
    /// The domain.
    pub policy: CpufreqPolicy,
    /// The next sample comes this many sampling periods after the last.
    pub rate_mult: u32,
    /// Sampling periods that the CPU with the shortest long sleep has slept, or [`NO_IDLE_PERIODS`]; in 4.10 that have passed.
    pub idle_periods: u32,
    /// The highest load of the last sample itself, per cent: without loads from before a long sleep.
    pub max_sample_load: u32,
    /// Whose rules.
    pub generation: Generation,
    sampling_rate_us: u32,
    sample_delay_ns: u64,
    last_sample_time: u64,
    cpus: Vec<CpuDbs>,
}

impl Dbs {
    /// `cpufreq_dbs_governor_start`: load counts from now. `min_us`: see [`Generation`].
    #[doc(alias = "cpufreq_dbs_governor_start")]
    pub fn start(policy: CpufreqPolicy, tunables: &DbsTunables, min_us: u64, now_ns: u64, view: &dyn FreqView) -> Dbs {
        let default_rate = || tunables.generation.sampling_rate_us(&policy, min_us) as u32;
        let sampling_rate_us = tunables.sampling_rate_us.unwrap_or_else(default_rate);
        let fresh = |&cpu: &CpuId| CpuDbs {
            cpu,
            prev_cpu_idle_us: view.idle_time_us(cpu),
            prev_update_us: now_ns / 1000,
            prev_load: 0,
        };
        Dbs {
            rate_mult: 1,
            idle_periods: NO_IDLE_PERIODS,
            max_sample_load: 0,
            generation: tunables.generation,
            sampling_rate_us,
            sample_delay_ns: u64::from(sampling_rate_us) * 1000,
            last_sample_time: 0,
            cpus: policy.cpus.iter().map(fresh).collect(),
            policy,
        }
    }

    /// Is a sample due? If so it counts as taken (`dbs_update_util_handler`).
    #[doc(alias = "dbs_update_util_handler")]
    pub fn due(&mut self, now_ns: u64) -> bool {
        // s64: a clock behind the last sample is not due.
        let due = now_ns.wrapping_sub(self.last_sample_time) as i64 >= self.sample_delay_ns as i64;
        if due {
            self.last_sample_time = now_ns;
        }
        due
    }

    /// `cpufreq_dbs_governor_limits`: the frequency follows the limits, and the next update samples.
    #[doc(alias = "cpufreq_dbs_governor_limits")]
    pub fn limits(&mut self, min_khz: u32, max_khz: u32) -> Option<u32> {
        self.sample_delay_ns = 0;
        self.policy.apply_limits(min_khz, max_khz)
    }

    /// Time from the last sample to the next, ns.
    pub fn interval_ns(&self) -> u64 {
        self.sample_delay_ns
    }

    /// The next sample is due `periods` sampling periods after this one.
    pub fn next_sample_after(&mut self, periods: u32) {
        self.sample_delay_ns = u64::from(self.sampling_rate_us) * u64::from(periods) * 1000;
    }

    /// The last request; `util` is the load in 1024ths.
    pub fn choice(&self, prev_khz: u32, load_pct: u32) -> FrequencyChoice {
        let choice = choice_without_inputs(self.policy.domain, prev_khz, self.policy.cur);
        FrequencyChoice { util: load_pct * 1024 / 100, ..choice }
    }

    /// Loads of the CPUs at their last samples, per cent; 0 where a long sleep used it up.
    pub fn prev_loads(&self) -> impl Iterator<Item = u32> + '_ {
        self.cpus.iter().map(|c| c.prev_load)
    }

    /// `dbs_update`: the highest load of a CPU since the last sample, per cent; of one that slept long, before that sleep.
    #[doc(alias = "dbs_update")]
    pub fn update(&mut self, now_ns: u64, view: &dyn FreqView) -> u32 {
        let period_us = self.sampling_rate_us.wrapping_mul(self.rate_mult).max(1);
        let mut max_load = 0;
        self.idle_periods = NO_IDLE_PERIODS;
        self.max_sample_load = 0;
        for c in &mut self.cpus {
            let long = period_us.wrapping_mul(2);
            let sample = c.sample(now_ns / 1000, view.idle_time_us(c.cpu), long, self.generation);
            if sample.slept_us > long {
                self.idle_periods = self.idle_periods.min(sample.slept_us / period_us);
            }
            self.max_sample_load = sample.measured.max(self.max_sample_load);
            max_load = sample.load.max(max_load);
        }
        max_load
    }
}

impl CpuDbs {
    /// u32 µs as in the kernel. What is longer than `long` is a long sleep.
    fn sample(&mut self, now_us: u64, idle_us: u64, long: u32, generation: Generation) -> Sample {
        let elapsed = now_us.wrapping_sub(self.prev_update_us) as u32;
        let idle = idle_us.wrapping_sub(self.prev_cpu_idle_us) as u32;
        self.prev_update_us = now_us;
        self.prev_cpu_idle_us = idle_us;
        let slept_us = match generation {
            Generation::V3_13 => 0,
            Generation::V4_9 | Generation::V4_10 => elapsed,
            Generation::V4_14 | Generation::V6_12 => idle,
        };
        let busy = u64::from(elapsed.saturating_sub(idle));
        let Some(measured) = (100 * busy).checked_div(u64::from(elapsed)) else {
            return Sample { load: self.prev_load, measured: self.prev_load, slept_us };
        };
        let measured = measured as u32;
        if slept_us > long && self.prev_load != 0 {
            // It has just woken from a long sleep: what it did before says more than the sleep, but only once.
            return Sample { load: std::mem::take(&mut self.prev_load), measured, slept_us };
        }
        self.prev_load = measured;
        Sample { load: measured, measured, slept_us }
    }
}

/// A look at a CPU: the load to decide by and that since the last sample, per cent, and how long it slept, as its kernel sees it.
struct Sample {
    load: u32,
    measured: u32,
    slept_us: u32,
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Fixed, policy};
    use super::super::{FreqGovernor, conservative, ondemand};
    use super::*;

    /// Time between samples of ondemand and conservative, ms, with a transition latency and a tick.
    fn periods(generation: Generation, latency_us: u64, tick_ns: u64) -> [f64; 2] {
        let policy = CpufreqPolicy { transition_latency_ns: latency_us * 1000, tick_ns, ..policy(1) };
        let mut ondemand = ondemand::Tunables::default();
        let mut conservative = conservative::Tunables::default();
        (ondemand.dbs.generation, conservative.dbs.generation) = (generation, generation);
        let governors: [Box<dyn FreqGovernor>; 2] =
            [Box::new(ondemand::Ondemand::new(ondemand)), Box::new(conservative::Conservative::new(conservative))];
        governors.map(|mut g| {
            g.start(policy.clone(), 0, &Fixed::default());
            g.sampling_interval_ns().expect("they sample") as f64 / 1e6
        })
    }

    #[test]
    fn time_between_samples_by_era() {
        let (fast, slow) = (1_000_000, 4_000_000);
        for (latency_us, tick_ns, v3_13, v4_14, v6_12) in [
            (300, fast, [300.0, 300.0], 10.0, 2.0),
            (300, slow, [300.0, 300.0], 10.0, 8.0),
            (5, fast, [10.0, 20.0], 5.0, 2.0),
            (20, slow, [20.0, 80.0], 10.0, 8.0),
            (20_000, slow, [20_000.0, 20_000.0], 10.0, 30.0),
            (0, slow, [10.0, 80.0], 8.0, 8.0),
        ] {
            for generation in [Generation::V3_13, Generation::V4_9, Generation::V4_10] {
                assert_eq!(periods(generation, latency_us, tick_ns), v3_13, "{generation:?}, {latency_us} µs");
            }
            assert_eq!(periods(Generation::V4_14, latency_us, tick_ns), [v4_14; 2], "4.14, {latency_us} µs");
            assert_eq!(periods(Generation::V6_12, latency_us, tick_ns), [v6_12; 2], "6.12, {latency_us} µs");
        }
    }

    /// Load of a CPU that is 80 % busy for 10 ms and sampled again after 25 ms of which it slept for 18, and after 10 more, in which it
    /// was busy for 2.
    #[test]
    fn a_long_sleep_by_era() {
        let loads = |generation| {
            let mut cpu = CpuDbs::default();
            [(10_000, 2_000), (35_000, 20_000), (45_000, 28_000)]
                .map(|(now, idle)| cpu.sample(now, idle, 20_000, generation).load)
        };
        assert_eq!(loads(Generation::V3_13), [80, 28, 20]);
        assert_eq!(loads(Generation::V4_9), [80, 80, 20]);
        assert_eq!(loads(Generation::V4_10), [80, 80, 20]);
        assert_eq!(loads(Generation::V4_14), [80, 28, 20], "18 ms are no long sleep");
    }
}
