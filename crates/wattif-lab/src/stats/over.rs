//! One figure of many seeds.

use super::{bca, bca_mean, mean, stddev};
use serde::{Deserialize, Serialize};

/// Which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Over {
    /// Arithmetic mean.
    #[default]
    Mean,
    /// Standard deviation of the sample.
    Stddev,
    /// The smallest value.
    Min,
    /// The largest.
    Max,
}

impl Over {
    /// Of these values; NaN of nothing.
    pub fn of(self, values: &[f64]) -> f64 {
        match self {
            Over::Mean => mean(values),
            Over::Stddev => stddev(values),
            Over::Min => values.iter().copied().fold(f64::NAN, f64::min),
            Over::Max => values.iter().copied().fold(f64::NAN, f64::max),
        }
    }

    /// Its 95 % BCa interval; none for extremes, of which a sample tells only that they lie beyond.
    pub fn ci95(self, values: &[f64]) -> Option<[f64; 2]> {
        match self {
            Over::Mean => bca_mean(values),
            Over::Stddev => bca(values.len(), "bootstrap.stddev", |rows| {
                stddev(&rows.iter().map(|&i| values[i]).collect::<Vec<_>>())
            }),
            Over::Min | Over::Max => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_seeds() {
        let v = [3.0, 1.0, 2.0];
        assert_eq!([Over::Mean, Over::Stddev, Over::Min, Over::Max].map(|o| o.of(&v)), [2.0, 1.0, 1.0, 3.0]);
        assert!(Over::Max.of(&[]).is_nan());
        assert_eq!(Over::Min.ci95(&v), None);
        let [lo, hi] = Over::Stddev.ci95(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert!(lo < 1.58 && 1.58 < hi, "{lo} {hi}");
    }
}
