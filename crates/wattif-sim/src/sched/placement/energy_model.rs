//! The energy model: what running at an operating point costs, as the kernel estimates it.
//!
//! Three eras. Up to 5.x and in 6.1 a state's `cost` is power at full speed's pace (`f_max·P/f`), the margin of schedutil
//! is added inside the estimate, and a state is found by frequency. Since 6.8 a state has a `performance`, `cost` is power per
//! performance (times 10 for resolution), and the margin is already in the asked performance. A state is inefficient when a
//! faster one costs no more; it is skipped where cpufreq skips it too. The model assumes that performance is proportional to
//! frequency, whatever the platform's real speeds are: that is the kernel's assumption.
//!
//! Bit-exact with `em_6.1` and `em_6.12` (150 domains each, 2,400 estimates each) and, for 5.6, with `feec_5.6`.
//! Source: Linux 6.12.117, 6.1.192, 5.6.4: `include/linux/energy_model.h`, `kernel/power/energy_model.c` (behaviour).

use super::cpu_util::map_util_perf;
use crate::registry::meant;
use wattif_model::ids::DomainId;
use wattif_model::platform::Platform;

/// Eras of the energy model and of the decision built on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Generation {
    /// 5.0 to 5.2: as `5.6`, but the frequency that a domain would run at follows from busy time: no real-time task raises it.
    V5_0,
    /// 5.3 to 5.13.
    V5_6,
    /// 6.1 to 6.7.
    V6_1,
    /// 6.8 and later.
    #[default]
    V6_12,
}

impl Generation {
    /// The values of the tunable `eas.generation`.
    pub const NAMES: [&'static str; 4] = ["5.0", "5.6", "6.1", "6.12"];

    /// From the tunable's value.
    pub fn parse(name: &str) -> Option<Generation> {
        use Generation::{V5_0, V5_6, V6_1, V6_12};
        meant(Generation::NAMES, [V5_0, V5_6, V6_1, V6_12], name)
    }
}

/// A performance state (`struct em_perf_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmPerfState {
    /// Frequency, kHz.
    pub khz: u64,
    /// Power of one CPU in the unit the model was given (5.6: mW; later µW).
    pub power: u64,
    /// Performance, 1024ths of the biggest CPU.
    pub performance: u64,
    /// Cost coefficient; its scale depends on the generation.
    pub cost: u64,
    /// A faster state costs no more.
    pub inefficient: bool,
}

/// The model of one performance domain (`struct em_perf_domain`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EmPerfDomain {
    generation: Generation,
    capacity: u64,
    skip_inefficiencies: bool,
    states: Vec<EmPerfState>,
}

impl EmPerfDomain {
    /// From (kHz, power) by ascending frequency, at least one, frequencies above 0. `capacity` is `capacity_orig` of a CPU.
    ///
    /// # Panics
    /// Without states, or with a frequency of 0.
    pub fn new(generation: Generation, capacity: u64, table: &[(u64, u64)], skip_inefficiencies: bool) -> EmPerfDomain {
        assert!(!table.is_empty() && table.iter().all(|s| s.0 > 0), "an energy model needs states with a frequency");
        let fmax = table[table.len() - 1].0;
        let mut states: Vec<EmPerfState> = table.iter().map(|&s| state(generation, capacity, fmax, s)).collect();
        let mut least = u64::MAX;
        for s in states.iter_mut().rev() {
            s.inefficient = s.cost >= least;
            least = least.min(s.cost);
        }
        EmPerfDomain { generation, capacity, skip_inefficiencies, states }
    }

    /// The model a kernel would build from a platform's busy powers; inefficient states are skipped, so the frequency
    /// table should mark them too ([`FreqTable::mark_inefficient`](crate::cpufreq::freq_table::FreqTable::mark_inefficient)).
    /// `None` where a power is not known: the kernel refuses such a model.
    pub fn of_domain(generation: Generation, platform: &Platform, domain: DomainId) -> Option<EmPerfDomain> {
        let d = &platform.domains[domain.at()];
        let unit = if generation <= Generation::V5_6 { 1000 } else { 1 };
        let row = |(i, o): (usize, &wattif_model::platform::Opp)| (u64::from(o.khz), d.power.busy(i) / unit);
        let table: Vec<_> = d.opps.iter().enumerate().map(row).collect();
        let capacity = d.cpus.min().map_or(1, |c| u64::from(platform.cpus[c.at()].capacity));
        let known = !table.is_empty() && table.iter().all(|s| s.0 > 0 && s.1 > 0);
        known.then(|| EmPerfDomain::new(generation, capacity, &table, true))
    }

    /// Is the state of this frequency inefficient? Kernels before 5.16 did not ask.
    pub fn is_inefficient(&self, khz: u32) -> bool {
        self.generation > Generation::V5_6 && self.states.iter().any(|s| s.khz == u64::from(khz) && s.inefficient)
    }

    /// The states by ascending frequency.
    pub fn states(&self) -> &[EmPerfState] {
        &self.states
    }

    /// `capacity_orig` of its CPUs.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The state that the frequency governor would choose for `max_util`, where `allowed_cap` is the capacity that
    /// pressure leaves (`em_pd_get_efficient_state`).
    #[doc(alias = "em_pd_get_efficient_state")]
    pub fn state_for(&self, max_util: u64, allowed_cap: u64) -> usize {
        let fmax = self.states[self.states.len() - 1].khz;
        match self.generation {
            Generation::V6_12 => self.first(|s| s.performance >= max_util.min(allowed_cap)),
            Generation::V6_1 => {
                let khz = fmax * map_util_perf(max_util).min(allowed_cap) / self.capacity;
                self.first(|s| s.khz >= khz)
            }
            Generation::V5_0 | Generation::V5_6 => {
                let khz = (fmax + (fmax >> 2)) * max_util / self.capacity;
                self.first(|s| s.khz >= khz)
            }
        }
    }

    /// Estimated energy of the domain when its busiest CPU asks for `max_util` and all together are busy for `sum_util`
    /// (`em_cpu_energy`; `em_pd_energy` before 5.11). Comparable only within a generation.
    #[doc(alias = "em_pd_energy")]
    pub fn em_cpu_energy(&self, max_util: u64, sum_util: u64, allowed_cap: u64) -> u64 {
        if sum_util == 0 {
            return 0;
        }
        let cost = self.states[self.state_for(max_util, allowed_cap)].cost;
        match self.generation {
            Generation::V6_12 => cost * sum_util,
            _ => cost * sum_util / self.capacity,
        }
    }

    /// The first state that will do, or the last of all.
    fn first(&self, enough: impl Fn(&EmPerfState) -> bool) -> usize {
        let skip = self.skip_inefficiencies && self.generation > Generation::V5_6;
        let usable = |s: &EmPerfState| enough(s) && !(skip && s.inefficient);
        self.states.iter().position(usable).unwrap_or(self.states.len() - 1)
    }
}

fn state(generation: Generation, capacity: u64, fmax: u64, (khz, power): (u64, u64)) -> EmPerfState {
    let performance = capacity * khz / fmax;
    let cost = match generation {
        // A state slower than 1/1024 has performance 0; dearer than everything rather than a division by zero.
        Generation::V6_12 => (power * 10).checked_div(performance).unwrap_or(u64::MAX / (1 << 32)),
        _ => fmax * power / khz,
    };
    EmPerfState { khz, power, performance, cost, inefficient: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: [(u64, u64); 3] = [(500_000, 100), (800_000, 300), (1_000_000, 350)];

    #[test]
    fn a_state_that_costs_more_than_a_faster_one_is_skipped() {
        let costs = |g| EmPerfDomain::new(g, 1000, &TABLE, true).states().iter().map(|s| s.cost).collect::<Vec<_>>();
        assert_eq!(costs(Generation::V6_1), [200, 375, 350]);
        assert_eq!(costs(Generation::V6_12), [2, 3, 3]);
        let skipping = EmPerfDomain::new(Generation::V6_1, 1000, &TABLE, true);
        let plain = EmPerfDomain::new(Generation::V6_1, 1000, &TABLE, false);
        assert_eq!((skipping.state_for(500, 1000), plain.state_for(500, 1000)), (2, 1));
    }

    #[test]
    fn margin_and_pressure() {
        let at = |g, max_util, allowed| EmPerfDomain::new(g, 1000, &TABLE, false).state_for(max_util, allowed);
        assert_eq!(
            [at(Generation::V6_12, 500, 1000), at(Generation::V6_1, 500, 1000)],
            [0, 1],
            "6.1 adds the margin itself"
        );
        assert_eq!(
            [at(Generation::V6_12, 900, 600), at(Generation::V6_1, 900, 400)],
            [1, 0],
            "pressure takes the top away"
        );
        assert_eq!(at(Generation::V5_6, 900, 400), 2, "5.6 knows no pressure");
    }
}
