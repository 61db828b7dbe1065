//! The normal distribution.

/// Φ(x).
pub fn normal_cdf(x: f64) -> f64 {
    0.5 * libm::erfc(-x / std::f64::consts::SQRT_2)
}

/// Φ⁻¹(p); ±∞ at 1 and 0, NaN outside.
pub fn normal_quantile(p: f64) -> f64 {
    if !(0.0..=1.0).contains(&p) {
        return f64::NAN;
    }
    if p == 0.0 || p == 1.0 {
        return if p == 0.0 { f64::NEG_INFINITY } else { f64::INFINITY };
    }
    if p > 0.5 {
        return -normal_quantile(1.0 - p);
    }
    refine(first_guess(p), p)
}

/// Abramowitz and Stegun 26.2.23, absolute error below 4.5e-4; for p ≤ 1/2.
fn first_guess(p: f64) -> f64 {
    let t = (-2.0 * libm::log(p)).sqrt();
    let top = 2.515517 + t * (0.802853 + t * 0.010328);
    let bottom = 1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308));
    top / bottom - t
}

/// Halley's steps on Φ(x) − p: the error is cubed each time.
fn refine(mut x: f64, p: f64) -> f64 {
    for _ in 0..3 {
        let density = libm::exp(-x * x / 2.0) / (2.0 * std::f64::consts::PI).sqrt();
        let u = (normal_cdf(x) - p) / density;
        x -= u / (1.0 + x * u / 2.0);
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_quantiles() {
        for (p, z) in [(0.5, 0.0), (0.975, 1.959963984540054), (0.05, -1.6448536269514722), (1e-9, -5.997807015007687)]
        {
            assert!((normal_quantile(p) - z).abs() < 1e-9, "{p}: {}", normal_quantile(p));
        }
        assert!((normal_cdf(1.0) - 0.8413447460685429).abs() < 1e-14);
        assert!(normal_quantile(0.0).is_infinite() && normal_quantile(1.5).is_nan());
    }
}
