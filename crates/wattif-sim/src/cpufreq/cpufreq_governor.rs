//! What the sampling governors share: when to sample, and the load since the last sample.
//!
//! Kernels since 4.6 sample from the utilisation updates of the scheduler, so a domain whose CPUs all sleep without a
//! tick is not sampled; the load of a CPU that slept long is therefore taken from before the sleep, once.
//! Who finds a sample due does not take it: a worker thread of the executing CPU does ([`crate::sched::worker`]).

use super::{CpufreqPolicy, FreqView, choice_without_inputs};
use wattif_model::ids::CpuId;
use wattif_model::trace::FrequencyChoice;

/// `idle_periods` when no CPU was idle for long.
pub const NO_IDLE_PERIODS: u32 = u32::MAX;

/// Tunables of both governors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DbsTunables {
    /// Time between samples, µs, at least 1; `None`: the driver's rate limit, at least two ticks.
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
    /// Sampling periods that the CPU with the shortest long sleep has slept, or [`NO_IDLE_PERIODS`].
    pub idle_periods: u32,
    /// The highest load of the last sample itself, per cent: without loads from before a long sleep.
    pub max_sample_load: u32,
    sampling_rate_us: u32,
    sample_delay_ns: u64,
    last_sample_time: u64,
    cpus: Vec<CpuDbs>,
}

impl Dbs {
    /// `cpufreq_dbs_governor_start`: load counts from now.
    #[doc(alias = "cpufreq_dbs_governor_start")]
    pub fn start(policy: CpufreqPolicy, tunables: &DbsTunables, now_ns: u64, view: &dyn FreqView) -> Dbs {
        let default_rate = || policy.transition_delay_us().max(2 * policy.tick_ns / 1000) as u32;
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
            let slept_long = period_us.wrapping_mul(2);
            let (load, sample_load, idle_us) = c.sample(now_ns / 1000, view.idle_time_us(c.cpu), slept_long);
            if idle_us > slept_long {
                self.idle_periods = self.idle_periods.min(idle_us / period_us);
            }
            self.max_sample_load = sample_load.max(self.max_sample_load);
            max_load = load.max(max_load);
        }
        max_load
    }
}

impl CpuDbs {
    /// Load to decide by, load since the last sample, and how long the CPU was idle; u32 µs as in the kernel.
    fn sample(&mut self, now_us: u64, idle_us: u64, slept_long: u32) -> (u32, u32, u32) {
        let elapsed = now_us.wrapping_sub(self.prev_update_us) as u32;
        let idle = idle_us.wrapping_sub(self.prev_cpu_idle_us) as u32;
        self.prev_update_us = now_us;
        self.prev_cpu_idle_us = idle_us;
        let busy = u64::from(elapsed.saturating_sub(idle));
        let Some(load) = (100 * busy).checked_div(u64::from(elapsed)) else {
            return (self.prev_load, self.prev_load, idle);
        };
        let load = load as u32;
        if idle > slept_long && self.prev_load != 0 {
            // It has just woken from a long sleep: what it did before says more than the sleep, but only once.
            return (std::mem::take(&mut self.prev_load), load, idle);
        }
        self.prev_load = load;
        (load, load, idle)
    }
}
