//! Holm's step-down correction for many tests at once (Holm 1979).

/// Adjusted p values in the order of the input. NaN stays NaN and is not counted as a test.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).filter(|&i| !p[i].is_nan()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut adjusted = vec![f64::NAN; p.len()];
    let mut least: f64 = 0.0;
    for (rank, &i) in order.iter().enumerate() {
        least = least.max(p[i] * (order.len() - rank) as f64).min(1.0);
        adjusted[i] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R: `p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")` is 0.03 0.06 0.06 0.02.
    #[test]
    fn as_r() {
        let got = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (g, want) in got.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((g - want).abs() < 1e-15, "{got:?}");
        }
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
        assert_eq!(holm(&[0.04, f64::NAN])[0], 0.04);
    }
}
