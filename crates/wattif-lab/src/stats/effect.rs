//! How big is a difference, apart from how sure it is?

use super::{mean, stddev};

/// Cohen's d of paired samples: mean difference over the standard deviation of the differences. 0 when all are 0.
pub fn cohens_dz(variant: &[f64], baseline: &[f64]) -> f64 {
    let d: Vec<f64> = variant.iter().zip(baseline).map(|(v, b)| v - b).collect();
    if d.iter().all(|x| *x == 0.0) { 0.0 } else { mean(&d) / stddev(&d) }
}

/// Cliff's delta: P(variant > baseline) − P(variant < baseline) over all pairs; −1..=1.
pub fn cliffs_delta(variant: &[f64], baseline: &[f64]) -> f64 {
    let side = |v: f64, b: f64| f64::from(i8::from(v > b) - i8::from(v < b));
    let sum: f64 = variant.iter().flat_map(|&v| baseline.iter().map(move |&b| side(v, b))).sum();
    sum / (variant.len() * baseline.len()) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        assert!((cohens_dz(&[3.0, 5.0, 7.0], &[2.0, 3.0, 4.0]) - 2.0).abs() < 1e-15);
        assert_eq!(cohens_dz(&[1.0, 1.0], &[1.0, 1.0]), 0.0);
        assert_eq!(cliffs_delta(&[2.0, 3.0], &[1.0, 2.0]), 0.75);
        assert_eq!(cliffs_delta(&[0.0], &[1.0]), -1.0);
    }
}
