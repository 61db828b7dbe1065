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

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng;

/// The generator of a named stream.
pub(crate) fn stream(name: &str) -> Pcg64Mcg {
    // FNV-1a: any fixed map from a name to 64 bits does.
    let seed = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    Pcg64Mcg::seed_from_u64(seed)
}
