//! Student's t interval of a mean: for comparison with papers, and for few, roughly normal values.

use super::{mean, stddev};

/// 95 % t interval of the mean; `None` below two values.
pub fn t_interval(values: &[f64]) -> Option<[f64; 2]> {
    let n = values.len();
    if n < 2 {
        return None;
    }
    let half = t_quantile(0.975, (n - 1) as f64) * stddev(values) / (n as f64).sqrt();
    Some([mean(values) - half, mean(values) + half])
}

/// Quantile of Student's t with `df` degrees of freedom, 0.5 ≤ `p` < 1.
pub fn t_quantile(p: f64, df: f64) -> f64 {
    // P(T > t) = I_x(df/2, 1/2) / 2 with x = df / (df + t²), rising in x: bisect for x.
    let tail = 2.0 * (1.0 - p);
    let (mut lo, mut hi) = (0.0, 1.0);
    for _ in 0..200 {
        let mid = (lo + hi) / 2.0;
        if incomplete_beta(mid, df / 2.0, 0.5) < tail { lo = mid } else { hi = mid }
    }
    let x = (lo + hi) / 2.0;
    (df * (1.0 - x) / x).sqrt()
}

/// The regularised incomplete beta function I_x(a, b).
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return if x <= 0.0 { 0.0 } else { 1.0 };
    }
    let log_front = libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b) + a * libm::log(x) + b * libm::log1p(-x);
    let front = libm::exp(log_front);
    // The fraction converges fast on this side of the mean only; use the symmetry on the other.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(x, a, b) / a
    } else {
        1.0 - front * fraction(1.0 - x, b, a) / b
    }
}

/// The continued fraction of the incomplete beta function (DLMF 8.17.22), evaluated by Lentz's method.
fn fraction(x: f64, a: f64, b: f64) -> f64 {
    let guard = |v: f64| if v.abs() < 1e-300 { 1e-300 } else { v };
    let (mut c, mut d) = (1.0, 1.0 / guard(1.0 - (a + b) * x / (a + 1.0)));
    let mut f = d;
    for m in 1..300 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let before = f;
        for term in [even, odd] {
            d = 1.0 / guard(1.0 + term * d);
            c = guard(1.0 + term / c);
            f *= c * d;
        }
        if (f - before).abs() <= 1e-16 * f.abs() {
            break;
        }
    }
    f
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_of_t() {
        for (df, t) in [(1.0, 12.7062047364), (4.0, 2.7764451052), (19.0, 2.0930240544), (1000.0, 1.9623390808)] {
            assert!((t_quantile(0.975, df) - t).abs() < 1e-8, "df {df}: {}", t_quantile(0.975, df));
        }
    }

    #[test]
    fn interval() {
        let [lo, hi] = t_interval(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        let half = 2.7764451052 * 2.5f64.sqrt() / 5f64.sqrt();
        assert!((lo - (3.0 - half)).abs() < 1e-9 && (hi - (3.0 + half)).abs() < 1e-9);
        assert_eq!(t_interval(&[1.0]), None);
    }
}
