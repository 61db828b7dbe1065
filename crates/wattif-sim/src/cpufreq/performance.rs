//! Performance frequency governor: always the fastest frequency.
//!
//! # Idea
//! The fastest frequency the limits allow, whatever the load. A fixed point to measure everything else against.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | `max` | kHz | the domain's limits | when they change |
//!
//! # Decision
//! 1. When it starts and whenever the limits change: `max`, or the frequency of the table that is closest within the limits
//!    (relation H).
//!
//! Worked example, 500, 800 and 1000 MHz: limits 600..=900 MHz → 800 MHz.
//!
//! # State and cost
//! None; nothing per utilisation update.
//!
//! # Where it fails
//! It does not follow load: energy is spent on speed that nobody needs, also by a core that waits for memory.
//!
//! # Differences from the kernel
//! None known. The table search is bit-exact with `freq_table` (1,000 rows).
//!
//! # Source
//! Linux 6.12 `drivers/cpufreq/cpufreq_performance.c` (behaviour).

use super::freq_table::Relation;
use super::{CpufreqPolicy, FreqGovernor, FreqView, choice_without_inputs};
use wattif_model::trace::FrequencyChoice;

/// The governor of one domain.
#[derive(Clone, Debug, Default)]
pub struct Performance {
    policy: CpufreqPolicy,
    prev_khz: u32,
}

impl Performance {
    /// A governor without a domain yet. It has no tunables.
    pub fn new() -> Performance {
        Performance::default()
    }
}

impl FreqGovernor for Performance {
    fn start(&mut self, policy: CpufreqPolicy, _now_ns: u64, _view: &dyn FreqView) -> Option<u32> {
        let (min, max) = (policy.min, policy.max);
        self.policy = policy;
        self.limits(min, max)
    }

    fn limits(&mut self, min_khz: u32, max_khz: u32) -> Option<u32> {
        (self.policy.min, self.policy.max) = (min_khz, max_khz);
        self.prev_khz = self.policy.cur;
        self.policy.driver_target(max_khz, Relation::H)
    }

    fn policy(&self) -> &CpufreqPolicy {
        &self.policy
    }

    fn choice(&self) -> FrequencyChoice {
        choice_without_inputs(self.policy.domain, self.prev_khz, self.policy.cur)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Fixed, policy};
    use super::*;

    #[test]
    fn follows_the_limits() {
        let mut g = Performance::new();
        let cur = 800_000;
        let at_start = g.start(CpufreqPolicy { cur, ..policy(1) }, 0, &Fixed::default());
        assert_eq!(at_start, Some(1_000_000));
        assert_eq!(g.limits(600_000, 900_000), Some(800_000));
        assert_eq!(g.limits(600_000, 900_000), None);
    }
}
