//! How often was the chosen idle state the right one?

use super::cpus::CpuReport;
use serde::{Deserialize, Serialize};

/// Shares of all sleeps that ended, %. They sum to 100.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IdleAccuracy {
    /// Neither too deep nor too shallow.
    pub correct_pct: f64,
    /// Too deep.
    pub above_pct: f64,
    /// Too shallow.
    pub below_pct: f64,
}

impl IdleAccuracy {
    /// Over all states of these CPUs; `None` when nobody slept.
    pub fn of(cpus: &[CpuReport]) -> Option<IdleAccuracy> {
        let states = || cpus.iter().flat_map(|c| &c.idle);
        let (usage, above, below) = states().fold((0, 0, 0), |(u, a, b), s| (u + s.usage, a + s.above, b + s.below));
        let pct = |n: u64| 100.0 * n as f64 / usage as f64;
        (usage > 0).then(|| IdleAccuracy {
            correct_pct: pct(usage.saturating_sub(above + below)),
            above_pct: pct(above),
            below_pct: pct(below),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::cpus::IdleReport;
    use super::*;

    #[test]
    fn shares() {
        let state = |usage, above, below| IdleReport { usage, above, below, ..IdleReport::default() };
        let cpu = CpuReport { idle: vec![state(6, 0, 3), state(4, 1, 0)], ..CpuReport::default() };
        let a = IdleAccuracy::of(&[cpu]).unwrap();
        assert_eq!((a.correct_pct, a.above_pct, a.below_pct), (60.0, 10.0, 30.0));
        assert_eq!(IdleAccuracy::of(&[CpuReport::default()]), None);
    }
}
