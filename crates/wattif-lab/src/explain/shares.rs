//! Which part carries a difference? Every combination of parts is run; a part's Shapley share is what it adds on average over
//! all orders in which parts could be exchanged. Shares sum to the difference exactly, whatever the interactions.

use super::parts::Part;
use crate::stats::{bca_mean, mean};
use serde::Serialize;

/// What one part adds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Share {
    /// [`Part::name`].
    pub part: &'static str,
    /// Mean over seeds, in the metric's unit.
    pub value: f64,
    /// 95 % BCa interval over seeds; `None`: too few.
    pub ci95: Option<[f64; 2]>,
    /// Of the whole difference; `None` where that is 0.
    pub share: Option<f64>,
}

/// The shares of one metric's difference.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shares {
    /// Which metric.
    pub metric: String,
    /// Mean of B less mean of A.
    pub difference: f64,
    /// Its 95 % interval over seeds.
    pub ci95: Option<[f64; 2]>,
    /// Mean of A.
    pub baseline: f64,
    /// A part each.
    pub shares: Vec<Share>,
}

/// Shapley values of a game of `n` players: `values[s]` is worth of the players whose bits are set in `s`.
pub fn shapley(n: usize, values: &[f64]) -> Vec<f64> {
    assert_eq!(values.len(), 1 << n, "a value for every combination");
    let factorial = |k: usize| (1..=k).product::<usize>() as f64;
    let share = |player: usize| {
        let without = (0..1usize << n).filter(|s| s >> player & 1 == 0);
        let gain = |s: usize| {
            let size = s.count_ones() as usize;
            let weight = factorial(size) * factorial(n - size - 1) / factorial(n);
            weight * (values[s | 1 << player] - values[s])
        };
        without.map(gain).sum()
    };
    (0..n).map(share).collect()
}

impl Shares {
    /// From the metric of every combination (bit i: `parts[i]` is taken from B), by seed: `values[seed][combination]`.
    pub fn of(metric: &str, parts: &[Part], values: &[Vec<f64>]) -> Shares {
        let by_seed: Vec<Vec<f64>> = values.iter().map(|v| shapley(parts.len(), v)).collect();
        let last = (1 << parts.len()) - 1;
        let differences: Vec<f64> = values.iter().map(|v| v[last] - v[0]).collect();
        let difference = mean(&differences);
        let share = |(i, part): (usize, &Part)| {
            let of_seeds: Vec<f64> = by_seed.iter().map(|s| s[i]).collect();
            let value = mean(&of_seeds);
            let share = (difference != 0.0).then(|| value / difference);
            Share { part: part.name(), value, ci95: bca_mean(&of_seeds), share }
        };
        Shares {
            metric: metric.to_string(),
            difference,
            ci95: bca_mean(&differences),
            baseline: mean(&values.iter().map(|v| v[0]).collect::<Vec<_>>()),
            shares: parts.iter().enumerate().map(share).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The gloves game: players 0 and 1 have a left glove each, 2 has a right one; a pair is worth 1. Shares 1/6, 1/6, 2/3.
    #[test]
    fn gloves() {
        let worth: Vec<f64> = (0..8).map(|s| f64::from(u8::from(s & 4 != 0 && s & 3 != 0))).collect();
        let got = shapley(3, &worth);
        for (g, want) in got.iter().zip([1.0 / 6.0, 1.0 / 6.0, 2.0 / 3.0]) {
            assert!((g - want).abs() < 1e-15, "{got:?}");
        }
    }

    proptest! {
        #[test]
        fn shares_sum_to_the_difference(values in prop::collection::vec(-1e3f64..1e3, 16)) {
            let sum: f64 = shapley(4, &values).iter().sum();
            prop_assert!((sum - (values[15] - values[0])).abs() < 1e-9);
        }
    }

    #[test]
    fn over_seeds() {
        let parts = [Part::Placement, Part::Idle];
        let values: Vec<Vec<f64>> = (0..6).map(|i| vec![10.0, 12.0, 10.0, 12.0 + f64::from(i) * 0.1]).collect();
        let s = Shares::of("energy.total", &parts, &values);
        assert!((s.difference - 2.25).abs() < 1e-12 && s.baseline == 10.0);
        assert!((s.shares[0].value + s.shares[1].value - s.difference).abs() < 1e-12);
        assert!(s.shares[0].share.unwrap() > 0.9 && s.shares[1].ci95.is_some());
        assert_eq!(Shares::of("m", &parts, &values[..1]).shares[0].ci95, None);
    }

    /// A part that is the whole difference has its interval.
    #[test]
    fn one_part_alone() {
        let parts = [Part::Placement, Part::Frequency, Part::Idle];
        let seeds = [(1723.4, 1464.5), (1688.7, 1760.1), (1801.9, 1880.96), (1745.3, 1549.8)];
        let values: Vec<Vec<f64>> =
            seeds.iter().map(|&(a, b)| (0..8).map(|s| if s & 2 == 0 { a } else { b }).collect()).collect();
        let s = Shares::of("energy.total", &parts, &values);
        let [whole, part] = [s.ci95.unwrap(), s.shares[1].ci95.unwrap()];
        assert!(whole.iter().zip(part).all(|(w, p)| (w - p).abs() < 1e-6), "{whole:?} {part:?}");
    }
}
