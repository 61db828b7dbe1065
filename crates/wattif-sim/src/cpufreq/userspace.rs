//! Userspace frequency governor: the frequency someone set.
//!
//! # Idea
//! No decision at all: the tunable `setspeed_khz` is the frequency, so that an experiment can hold a speed.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | `setspeed_khz` | kHz, 0 = as found | tunable (`scaling_setspeed`) | at the start |
//! | `min`, `max` | kHz | the domain's limits | when they change |
//!
//! # Decision
//! 1. When it starts and whenever the limits change: the lowest frequency of the table at or above `setspeed_khz`, which is
//!    first brought within the limits.
//!
//! Worked example, 500, 800 and 1000 MHz: `setspeed_khz` 900000 → 1000 MHz; limits 500..=800 MHz → 800 MHz; limits
//! lifted → 1000 MHz again.
//!
//! # State and cost
//! None; nothing per utilisation update.
//!
//! # Where it fails
//! It does not follow load.
//!
//! # Differences from the kernel
//! Bit-exact in the search of the table (`freq_table`, 1,000 rows). The speed is set once, by the tunable.
//!
//! # Source
//! Linux 6.12 `drivers/cpufreq/cpufreq_userspace.c` (behaviour).

use super::freq_table::Relation;
use super::{CpufreqPolicy, FreqGovernor, FreqView, choice_without_inputs};
use crate::registry::Tunable;
use wattif_model::trace::FrequencyChoice;

/// Tunables of this policy.
pub const TUNABLES: &[Tunable] = &[Tunable {
    name: "setspeed_khz",
    default: "0",
    allowed: &["0..=4294967295"],
    doc: "frequency to hold, kHz; 0: the lowest",
}];

/// The governor of one domain.
#[derive(Clone, Debug, Default)]
pub struct Userspace {
    setspeed_khz: u32,
    policy: CpufreqPolicy,
    prev_khz: u32,
}

impl Userspace {
    /// A governor without a domain yet. `setspeed_khz` 0: the frequency found at the start.
    pub fn new(setspeed_khz: u32) -> Userspace {
        Userspace { setspeed_khz, ..Userspace::default() }
    }
}

impl FreqGovernor for Userspace {
    fn start(&mut self, policy: CpufreqPolicy, _now_ns: u64, _view: &dyn FreqView) -> Option<u32> {
        if self.setspeed_khz == 0 {
            self.setspeed_khz = policy.cur;
        }
        let (min, max) = (policy.min, policy.max);
        self.policy = policy;
        self.limits(min, max)
    }

    fn limits(&mut self, min_khz: u32, max_khz: u32) -> Option<u32> {
        (self.policy.min, self.policy.max) = (min_khz, max_khz);
        self.prev_khz = self.policy.cur;
        if max_khz < self.setspeed_khz {
            self.policy.driver_target(max_khz, Relation::H)
        } else {
            self.policy.driver_target(self.setspeed_khz.max(min_khz), Relation::L)
        }
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
    fn worked_example() {
        let mut g = Userspace::new(900_000);
        assert_eq!(g.start(policy(1), 0, &Fixed::default()), Some(1_000_000));
        assert_eq!(g.limits(500_000, 800_000), Some(800_000));
        assert_eq!(g.limits(500_000, 1_000_000), Some(1_000_000));
    }
}
