//! The bias-corrected and accelerated bootstrap (Efron 1987): an interval for any statistic without a distribution.

use super::{mean, normal_cdf, normal_quantile, stream};
use rand_pcg::rand_core::Rng;

/// Resamples per interval. The ends of a 95 % interval then rest on about 100 resamples each.
pub const RESAMPLES: usize = 3999;

/// Fewer values have no interval. Of n values, a resample is n times the same one with probability n⁻ⁿ; while that is more than
/// the 2.5 % beyond an end (n = 3: 3.7 %), the ends are the extremes themselves and say nothing that these do not.
pub const FEWEST: usize = 4;

/// 95 % BCa interval of the mean; `None` below [`FEWEST`] values.
pub fn bca_mean(values: &[f64]) -> Option<[f64; 2]> {
    bca(values.len(), "bootstrap.mean", |rows| rows.iter().map(|&i| values[i]).sum::<f64>() / rows.len() as f64)
}

/// 95 % BCa interval of a statistic of `n` rows. `statistic` gets row numbers, with repetition, so that paired samples
/// are drawn together. `None` below [`FEWEST`] rows or when the statistic is not finite.
pub fn bca(n: usize, stream_name: &str, statistic: impl Fn(&[usize]) -> f64) -> Option<[f64; 2]> {
    if n < FEWEST {
        return None;
    }
    let all: Vec<usize> = (0..n).collect();
    let whole = statistic(&all);
    let mut draws = resample(n, stream_name, &statistic);
    if !whole.is_finite() || draws.iter().any(|d| !d.is_finite()) {
        return None;
    }
    draws.sort_by(f64::total_cmp);
    let z0 = bias(&draws, whole);
    let a = acceleration(n, &statistic);
    let end = |alpha: f64| pick(&draws, adjusted(alpha, z0, a));
    Some([end(0.025), end(0.975)])
}

fn resample(n: usize, stream_name: &str, statistic: &impl Fn(&[usize]) -> f64) -> Vec<f64> {
    let mut rng = stream(stream_name);
    let mut rows = vec![0; n];
    (0..RESAMPLES)
        .map(|_| {
            // Multiply-shift: the bias of at most n/2^32 is far below the resampling error.
            rows.iter_mut().for_each(|r| *r = ((u64::from(rng.next_u32()) * n as u64) >> 32) as usize);
            statistic(&rows)
        })
        .collect()
}

/// z₀: how far the statistic lies from the median of its resamples. Ties count half. Of few rows many resamples are equal to the
/// whole, and the order of their sums is not: what differs by rounding alone is a tie too.
fn bias(sorted: &[f64], whole: f64) -> f64 {
    let rounding = 1e-9 * (sorted[sorted.len() - 1] - sorted[0]);
    let below = sorted.partition_point(|d| *d < whole - rounding);
    let up_to = sorted.partition_point(|d| *d <= whole + rounding);
    let share = (below + up_to) as f64 / (2 * sorted.len()) as f64;
    // All resamples on one side leave no finite correction; half a resample is the smallest share that can be told.
    let least = 0.5 / sorted.len() as f64;
    normal_quantile(share.clamp(least, 1.0 - least))
}

/// a: the skewness of the statistic, from leaving one row out at a time.
fn acceleration(n: usize, statistic: &impl Fn(&[usize]) -> f64) -> f64 {
    let without: Vec<f64> =
        (0..n).map(|left_out| statistic(&(0..n).filter(|&i| i != left_out).collect::<Vec<_>>())).collect();
    let centre = mean(&without);
    let (mut squares, mut cubes) = (0.0, 0.0);
    for d in without.iter().map(|w| centre - w) {
        squares += d * d;
        cubes += d * d * d;
    }
    let scale = 6.0 * squares * squares.sqrt();
    if scale > 0.0 && cubes.is_finite() { cubes / scale } else { 0.0 }
}

fn adjusted(alpha: f64, z0: f64, a: f64) -> f64 {
    let z = z0 + normal_quantile(alpha);
    normal_cdf(z0 + z / (1.0 - a * z))
}

/// Quantile with linear interpolation between order statistics.
fn pick(sorted: &[f64], q: f64) -> f64 {
    let at = q.clamp(0.0, 1.0) * (sorted.len() - 1) as f64;
    let (lo, part) = (at.floor() as usize, at.fract());
    let hi = (lo + 1).min(sorted.len() - 1);
    // Equal neighbours are returned as they are: interpolation would round them.
    if sorted[lo] == sorted[hi] { sorted[lo] } else { sorted[lo] * (1.0 - part) + sorted[hi] * part }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Efron's law school data, LSAT and GPA of 15 schools: interval of the correlation. Expected figures of this test
    /// and the next: `scipy.stats.bootstrap(…, method='BCa')` of SciPy 1.17 with 200,000 and
    /// 100,000 resamples.
    #[test]
    fn law_school() {
        let lsat = [576., 635., 558., 578., 666., 580., 555., 661., 651., 605., 653., 575., 545., 572., 594.];
        let gpa = [3.39, 3.30, 2.81, 3.03, 3.44, 3.07, 3.00, 3.43, 3.36, 3.13, 3.12, 2.74, 2.76, 2.88, 2.96];
        let [lo, hi] = bca(15, "law", |rows| correlation(rows, &lsat, &gpa)).unwrap();
        assert!((lo - 0.335).abs() < 0.02, "{lo}");
        assert!((hi - 0.942).abs() < 0.005, "{hi}");
    }

    #[test]
    fn skewed_mean() {
        let v = [1116., 980., 1203., 1410., 1011., 1090., 1300., 2100., 1050., 1111.];
        let [lo, hi] = bca_mean(&v).unwrap();
        assert!((lo - 1107.1).abs() < 8.0 && (hi - 1559.5).abs() < 30.0, "[{lo}, {hi}]");
    }

    fn correlation(rows: &[usize], x: &[f64], y: &[f64]) -> f64 {
        let n = rows.len() as f64;
        let (mx, my) = rows.iter().fold((0.0, 0.0), |(a, b), &i| (a + x[i] / n, b + y[i] / n));
        let (mut xy, mut xx, mut yy) = (0.0, 0.0, 0.0);
        for &i in rows {
            let (dx, dy) = (x[i] - mx, y[i] - my);
            (xy, xx, yy) = (xy + dx * dy, xx + dx * dx, yy + dy * dy);
        }
        xy / (xx * yy).sqrt()
    }

    #[test]
    fn deterministic_and_degenerate() {
        let v = [1.0, 2.0, 4.0, 8.0, 16.0];
        assert_eq!(bca_mean(&v), bca_mean(&v));
        assert_eq!(bca_mean(&[3.0; 6]), Some([3.0, 3.0]));
        assert_eq!((bca_mean(&[3.0]), bca_mean(&[1.0, 2.0, 3.0])), (None, None), "too few: no number is invented");
        assert_eq!(bca_mean(&[1.0, f64::NAN]), None);
    }

    /// Of 200 samples of a skewed distribution, about 95 % of the intervals hold the true mean.
    #[test]
    fn coverage() {
        let mut rng = stream("coverage");
        let hits = (0..200)
            .filter(|_| {
                let v: Vec<f64> =
                    (0..30).map(|_| -libm::log((f64::from(rng.next_u32()) + 0.5) / 4294967296.0)).collect();
                let [lo, hi] = bca_mean(&v).unwrap();
                lo <= 1.0 && 1.0 <= hi
            })
            .count();
        assert!((176..=198).contains(&hits), "{hits} of 200");
    }
}
