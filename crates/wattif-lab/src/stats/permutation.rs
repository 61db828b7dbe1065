//! The paired sign-flip permutation test: under "no difference" each difference could as well have the other sign.

use super::stream;
use rand_pcg::rand_core::Rng;

/// All sign patterns are tried up to this many differences.
pub const EXACT_UP_TO: usize = 12;
/// Random patterns tried beyond.
pub const DRAWS: u64 = 10_000;

/// Two-sided p of a mean difference of zero. 1 for no differences; NaN when one is not finite.
pub fn sign_flip_p(differences: &[f64]) -> f64 {
    if differences.iter().any(|d| !d.is_finite()) {
        return f64::NAN;
    }
    let observed = differences.iter().sum::<f64>().abs();
    // A pattern that ties but for rounding must count.
    let bar = observed - 1e-12 * differences.iter().map(|d| d.abs()).sum::<f64>();
    if differences.len() <= EXACT_UP_TO { exact(differences, bar) } else { sampled(differences, bar) }
}

fn exact(differences: &[f64], bar: f64) -> f64 {
    let patterns = 1u64 << differences.len();
    let extreme = (0..patterns).filter(|&signs| flipped(differences, signs) >= bar).count();
    extreme as f64 / patterns as f64
}

/// The observed pattern is one of those tried, hence the `+ 1`: p is never 0.
fn sampled(differences: &[f64], bar: f64) -> f64 {
    let mut rng = stream("permutation.sign");
    let mut extreme = 0;
    for _ in 0..DRAWS {
        let sum: f64 = differences.chunks(64).map(|chunk| signed_sum(chunk, rng.next_u64())).sum();
        extreme += u64::from(sum.abs() >= bar);
    }
    (extreme + 1) as f64 / (DRAWS + 1) as f64
}

fn flipped(differences: &[f64], signs: u64) -> f64 {
    signed_sum(differences, signs).abs()
}

fn signed_sum(differences: &[f64], signs: u64) -> f64 {
    differences.iter().enumerate().map(|(i, d)| if signs >> i & 1 == 1 { -d } else { *d }).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Darwin's maize, 15 pairs in eighths of an inch; Fisher's exact randomisation p is 0.0526 (1726 of 32768).
    #[test]
    fn darwins_maize() {
        let d = [49., -67., 8., 16., 6., 23., 28., 41., 14., 29., 56., 24., 75., 60., -48.];
        assert!((sign_flip_p(&d) - 0.0526).abs() < 0.008, "{}", sign_flip_p(&d));
    }

    #[test]
    fn exact_small() {
        assert_eq!(sign_flip_p(&[1.0, 2.0, 3.0]), 0.25);
        assert_eq!(sign_flip_p(&[]), 1.0);
        assert_eq!(sign_flip_p(&[0.0; 5]), 1.0);
        assert_eq!(sign_flip_p(&[1.0; 12]), 2.0 / 4096.0);
        assert!(sign_flip_p(&[1.0; 20]) < 0.001);
        assert!(sign_flip_p(&[f64::NAN]).is_nan());
    }
}
