//! Named distributions of durations and amounts. Parameters are integers so that a [`crate::run::RunSpec`] hashes exactly;
//! drawing is the simulator's (`engine/rng.rs`), with bit-reproducible arithmetic.

use serde::{Deserialize, Serialize};

/// A distribution over non-negative integers (ns, work ns, counts: by use).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "dist")]
pub enum Dist {
    /// `lo..=hi`, every value equally likely.
    Uniform {
        /// Smallest.
        lo: u64,
        /// Largest.
        hi: u64,
    },
    /// Exponential with this mean, cut at 50 × the mean.
    Exponential {
        /// Mean.
        mean: u64,
    },
    /// Log-normal by its median and the standard deviation of the logarithm in 1/1000; cut at 1000 × the median.
    LogNormal {
        /// Median.
        median: u64,
        /// σ of ln, × 1000.
        sigma_milli: u32,
    },
    /// Pareto with scale and shape × 1000; cut at 1000 × the scale.
    Pareto {
        /// Smallest value.
        scale: u64,
        /// Shape α, × 1000.
        shape_milli: u32,
    },
    /// The values in turn, over and over.
    Sequence {
        /// Values.
        values: Vec<u64>,
    },
    /// One of the values, equally likely.
    Choice {
        /// Values.
        values: Vec<u64>,
    },
}
