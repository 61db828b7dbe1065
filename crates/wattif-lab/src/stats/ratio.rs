//! The ratio of two paired samples.

use super::{bca, mean, sign_flip_p};

/// A ratio of means with its uncertainty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// mean(variant) / mean(baseline).
    pub value: f64,
    /// 95 % BCa interval, pairs drawn together; `None`: too few pairs.
    pub ci95: Option<[f64; 2]>,
    /// Two-sided p of "no difference" by flipping the signs of the paired differences.
    pub p: f64,
}

/// Compare `variant` with `baseline`; index `i` of both is the same seed. Panics when the lengths differ.
pub fn paired_ratio(variant: &[f64], baseline: &[f64]) -> Ratio {
    assert_eq!(variant.len(), baseline.len(), "paired samples have one value per seed each");
    let of = |rows: &[usize]| {
        let sum = |v: &[f64]| rows.iter().map(|&i| v[i]).sum::<f64>();
        quotient(sum(variant), sum(baseline))
    };
    let differences: Vec<f64> = variant.iter().zip(baseline).map(|(v, b)| v - b).collect();
    Ratio {
        value: quotient(mean(variant), mean(baseline)),
        ci95: bca(variant.len(), "bootstrap.ratio", of),
        p: sign_flip_p(&differences),
    }
}

/// Nothing over nothing is "the same": two kernels that never migrate have a ratio of 1.
fn quotient(variant: f64, baseline: f64) -> f64 {
    if variant == baseline { 1.0 } else { variant / baseline }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_factor_has_no_width() {
        let base = [10.0, 20.0, 40.0, 30.0];
        let half: Vec<f64> = base.iter().map(|b| b / 2.0).collect();
        let r = paired_ratio(&half, &base);
        assert_eq!((r.value, r.ci95), (0.5, Some([0.5, 0.5])));
        assert_eq!(r.p, 2.0 / 16.0);
    }

    #[test]
    fn zeros_and_equals() {
        let same = paired_ratio(&[0.0; 4], &[0.0; 4]);
        assert_eq!((same.value, same.ci95, same.p), (1.0, Some([1.0, 1.0]), 1.0));
        assert!(paired_ratio(&[1.0], &[0.0]).value.is_infinite());
    }
}
