//! How often was the chosen idle state the right one?

use super::cpus::{CpuReport, IdleReport};
use serde::{Deserialize, Serialize};

/// Shares of all sleeps that ended, %. The first three sum to 100.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IdleAccuracy {
    /// Neither too deep nor too shallow.
    pub correct_pct: f64,
    /// Too deep.
    pub above_pct: f64,
    /// Too shallow.
    pub below_pct: f64,
    /// Shorter than the state needs: too deep, also where no shallower state was to be had.
    #[serde(default)]
    pub undershoot_pct: f64,
}

impl IdleAccuracy {
    /// Over all states of these CPUs; `None` when nobody slept.
    pub fn of(cpus: &[CpuReport]) -> Option<IdleAccuracy> {
        let states = || cpus.iter().flat_map(|c| &c.idle);
        let sum = |of: fn(&IdleReport) -> u64| states().map(of).sum::<u64>();
        let (usage, above, below) = (sum(|s| s.usage), sum(|s| s.above), sum(|s| s.below));
        let pct = |n: u64| 100.0 * n as f64 / usage as f64;
        (usage > 0).then(|| IdleAccuracy {
            correct_pct: pct(usage.saturating_sub(above + below)),
            above_pct: pct(above),
            below_pct: pct(below),
            undershoot_pct: pct(sum(|s| s.short)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares() {
        let state = |usage, above, below| IdleReport { usage, above, below, ..IdleReport::default() };
        let deep = IdleReport { short: 2, ..state(4, 1, 0) };
        let cpu = CpuReport { idle: vec![state(6, 0, 3), deep], ..CpuReport::default() };
        let a = IdleAccuracy::of(&[cpu]).unwrap();
        assert_eq!((a.correct_pct, a.above_pct, a.below_pct, a.undershoot_pct), (60.0, 10.0, 30.0, 20.0));
        assert_eq!(IdleAccuracy::of(&[CpuReport::default()]), None);
    }
}
