//! How sure is a figure? Means, intervals, tests; deterministic and with no more assumptions than each function names.
//!
//! Resampling draws come from a generator seeded with a *name*, so the same samples always give the same interval.

mod bootstrap;
mod effect;
mod holm;
mod interval;
mod moments;
mod normal;
mod over;
mod permutation;
mod ratio;

pub use bootstrap::{FEWEST, RESAMPLES, bca, bca_mean};
pub use effect::{cliffs_delta, cohens_dz};
pub use holm::holm;
pub use interval::{t_interval, t_quantile};
pub use moments::{mean, stddev};
pub use normal::{normal_cdf, normal_quantile};
pub use over::Over;
pub use permutation::{DRAWS, EXACT_UP_TO, sign_flip_p};
pub use ratio::{Ratio, paired_ratio};

use crate::fnv;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng;

/// The generator of a named stream.
pub(crate) fn stream(name: &str) -> Pcg64Mcg {
    Pcg64Mcg::seed_from_u64(fnv::add(fnv::EMPTY, name.bytes()))
}
