//! Many durations in little memory: exact count, sum, extremes and standard deviation; percentiles exact while few,
//! then from a log-linear histogram.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Durations in ns.
#[derive(Clone, Debug)]
pub struct Distribution {
    count: u64,
    min: u64,
    max: u64,
    sum: u128,
    squares: u128,
    /// Every value, until there are more than `keep`.
    exact: Vec<u64>,
    histogram: Option<Histogram<u32>>,
    keep: usize,
    digits: u8,
}

impl Distribution {
    /// Percentiles good to 1 ‰, exact up to 1024 values; about 70 kB at most for durations below 100 ms.
    pub fn precise() -> Distribution {
        Distribution::new(1024, 3)
    }
    /// Percentiles good to 1 %, exact up to 128 values; about 10 kB: for one of thousands of threads.
    pub fn coarse() -> Distribution {
        Distribution::new(128, 2)
    }
    fn new(keep: usize, digits: u8) -> Distribution {
        Distribution {
            count: 0,
            min: u64::MAX,
            max: 0,
            sum: 0,
            squares: 0,
            exact: Vec::new(),
            histogram: None,
            keep,
            digits,
        }
    }

    /// Add a duration.
    #[inline(always)]
    pub fn record(&mut self, ns: u64) {
        self.count += 1;
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
        self.sum += u128::from(ns);
        self.squares = self.squares.saturating_add(u128::from(ns) * u128::from(ns));
        self.store(ns);
    }

    #[inline]
    fn store(&mut self, ns: u64) {
        match &mut self.histogram {
            Some(h) => put(h, ns),
            None => {
                self.exact.push(ns);
                if self.exact.len() > self.keep {
                    self.spill();
                }
            }
        }
    }

    /// From a list of values to a histogram.
    fn spill(&mut self) -> &mut Histogram<u32> {
        let digits = self.digits;
        let h = self.histogram.get_or_insert_with(|| Histogram::new(digits).expect("1 to 5 digits are accepted"));
        std::mem::take(&mut self.exact).into_iter().for_each(|v| put(h, v));
        h
    }

    /// Add all values of another one.
    pub fn merge(&mut self, other: &Distribution) {
        self.count += other.count;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
        self.squares = self.squares.saturating_add(other.squares);
        match &other.histogram {
            Some(theirs) => self.spill().add(theirs).expect("a resizing histogram takes every value"),
            None => other.exact.iter().for_each(|&v| self.store(v)),
        }
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The smallest value such that a share `q` (0..=1) of all are not above it ("nearest rank"); 0 of nothing.
    pub fn quantile(&self, q: f64) -> u64 {
        self.quantiles(&[q])[0]
    }

    /// Of shares in ascending order.
    fn quantiles(&self, qs: &[f64]) -> Vec<u64> {
        if let Some(h) = &self.histogram {
            return h.value_at_quantiles(qs.iter().copied()).map(|v| v.clamp(self.min, self.max)).collect();
        }
        let mut sorted = self.exact.clone();
        sorted.sort_unstable();
        qs.iter().map(|&q| nearest_rank(&sorted, q)).collect()
    }

    /// Shares of values not more than `part` above the smallest, and not more than that below the largest; `None` of nothing.
    pub fn near_extremes(&self, part: f64) -> Option<(f64, f64)> {
        if self.count == 0 {
            return None;
        }
        let (low, high) = (self.min as f64 * (1.0 + part), self.max as f64 * (1.0 - part));
        let share = |lo: f64, hi: f64| {
            let inside = |v: u64| (lo..=hi).contains(&(v as f64));
            let n = match &self.histogram {
                Some(h) => h
                    .iter_recorded()
                    .filter(|b| inside(b.value_iterated_to()))
                    .map(|b| u64::from(b.count_at_value()))
                    .sum(),
                None => self.exact.iter().filter(|v| inside(**v)).count() as u64,
            };
            n as f64 / self.count as f64
        };
        // A bucket of the histogram may reach past the largest value.
        Some((share(0.0, low), share(high, f64::INFINITY)))
    }

    /// Count, moments and percentiles in µs.
    pub fn summary_us(&self) -> Summary {
        if self.count == 0 {
            return Summary::default();
        }
        let us = |ns: f64| ns / 1e3;
        let p = self.quantiles(&[0.5, 0.9, 0.95, 0.99, 0.999]);
        Summary {
            count: self.count,
            min: us(self.min as f64),
            max: us(self.max as f64),
            sum: us(self.sum as f64),
            mean: us(self.sum as f64 / self.count as f64),
            stddev: us(self.stddev_ns()),
            p50: us(p[0] as f64),
            p90: us(p[1] as f64),
            p95: us(p[2] as f64),
            p99: us(p[3] as f64),
            p999: us(p[4] as f64),
        }
    }

    /// Sample standard deviation (n − 1), from integers as long as they hold it.
    fn stddev_ns(&self) -> f64 {
        if self.count < 2 {
            return f64::NAN;
        }
        let n = u128::from(self.count);
        let exact = n.checked_mul(self.squares).zip(self.sum.checked_mul(self.sum));
        let spread = exact.map_or_else(
            || (n as f64 * self.squares as f64 - self.sum as f64 * self.sum as f64).max(0.0),
            |(a, b)| a.saturating_sub(b) as f64,
        );
        (spread / n as f64 / (n - 1) as f64).sqrt()
    }

    /// Points (µs, share of values not above) of the cumulative distribution, at most 200; for plots.
    pub fn cdf_us(&self) -> Vec<(f64, f64)> {
        if self.count == 0 {
            return Vec::new();
        }
        // Half of the points share out the last tenth, where the interest is.
        let shares: Vec<f64> = (0..100)
            .map(|i| f64::from(i) * 0.009)
            .chain((0..100).map(|i| 1.0 - 0.1 * libm::pow(10.0, -f64::from(i) * 0.03)))
            .chain([1.0])
            .collect();
        let mut points: Vec<(f64, f64)> =
            self.quantiles(&shares).into_iter().zip(&shares).map(|(ns, &q)| (ns as f64 / 1e3, q)).collect();
        points.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            kept.1 = if same { later.1 } else { kept.1 };
            same
        });
        points
    }
}

fn put(h: &mut Histogram<u32>, ns: u64) {
    // Growing fails only where `usize` cannot count the buckets; the nearest bucket is then right enough.
    if h.record(ns).is_err() {
        h.saturating_record(ns);
    }
}

fn nearest_rank(sorted: &[u64], q: f64) -> u64 {
    let rank = (q * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or(0)
}

/// A distribution in figures, µs. All but `count` are NaN (`null` in JSON) when there is nothing to say: everything
/// without a value, `stddev` below two. `stddev` is that of the sample (divisor n − 1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Summary {
    pub count: u64,
    #[serde(with = "nullable")]
    pub min: f64,
    #[serde(with = "nullable")]
    pub max: f64,
    #[serde(with = "nullable")]
    pub sum: f64,
    #[serde(with = "nullable")]
    pub mean: f64,
    #[serde(with = "nullable")]
    pub stddev: f64,
    #[serde(with = "nullable")]
    pub p50: f64,
    #[serde(with = "nullable")]
    pub p90: f64,
    #[serde(with = "nullable")]
    pub p95: f64,
    #[serde(with = "nullable")]
    pub p99: f64,
    #[serde(with = "nullable")]
    pub p999: f64,
}

impl Default for Summary {
    fn default() -> Summary {
        let none = f64::NAN;
        Summary {
            count: 0,
            min: none,
            max: none,
            sum: none,
            mean: none,
            stddev: none,
            p50: none,
            p90: none,
            p95: none,
            p99: none,
            p999: none,
        }
    }
}

impl Summary {
    /// Names of the figures, in the order of the contract.
    pub const FIELDS: [&'static str; 11] =
        ["count", "min", "max", "sum", "mean", "stddev", "p50", "p90", "p95", "p99", "p999"];

    /// A figure by its name; `None` when unknown or not a number.
    pub fn field(&self, name: &str) -> Option<f64> {
        let value = match name {
            "count" => self.count as f64,
            "min" => self.min,
            "max" => self.max,
            "sum" => self.sum,
            "mean" => self.mean,
            "stddev" => self.stddev,
            "p50" => self.p50,
            "p90" => self.p90,
            "p95" => self.p95,
            "p99" => self.p99,
            "p999" => self.p999,
            _ => return None,
        };
        (!value.is_nan()).then_some(value)
    }
}

/// NaN is `null` in JSON, and back.
mod nullable {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(value: &f64, s: S) -> Result<S::Ok, S::Error> {
        if value.is_finite() { s.serialize_f64(*value) } else { s.serialize_none() }
    }
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<f64, D::Error> {
        Ok(Option::<f64>::deserialize(d)?.unwrap_or(f64::NAN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Distribution {
        let mut d = Distribution::precise();
        values.into_iter().for_each(|v| d.record(v));
        d
    }

    #[test]
    fn few_are_exact() {
        let s = of([2_000, 4_000, 4_000, 4_000, 5_000, 5_000, 7_000, 9_000]).summary_us();
        assert_eq!((s.count, s.min, s.max, s.sum, s.mean), (8, 2.0, 9.0, 40.0, 5.0));
        assert!((s.stddev - (32.0f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!((s.p50, s.p90, s.p999), (4.0, 9.0, 9.0));
    }

    #[test]
    fn nothing_is_null() {
        let json = serde_json::to_string(&Distribution::coarse().summary_us()).unwrap();
        assert!(json.starts_with(r#"{"count":0,"min":null"#), "{json}");
        let back: Summary = serde_json::from_str(&json).unwrap();
        assert_eq!((back.field("count"), back.field("mean"), back.field("nonsense")), (Some(0.0), None, None));
    }

    #[test]
    fn many_within_a_thousandth() {
        let d = of((1..=100_000).map(|i| i * 1_000));
        for (q, want) in [(0.5, 50_000_000.0), (0.99, 99_000_000.0), (0.999, 99_900_000.0)] {
            assert!((d.quantile(q) as f64 / want - 1.0).abs() < 1e-3, "{q}: {}", d.quantile(q));
        }
        let cdf = d.cdf_us();
        assert!(cdf.len() <= 201 && cdf.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 < w[1].1));
        assert_eq!(*cdf.last().unwrap(), (100_000.0, 1.0));
    }

    proptest! {
        #[test]
        fn merged_is_as_recorded_in_one(a in prop::collection::vec(0u64..1 << 40, 0..1500), b in prop::collection::vec(0u64..5_000, 0..1500)) {
            let mut merged = of(a.iter().copied());
            merged.merge(&of(b.iter().copied()));
            let whole = of(a.into_iter().chain(b));
            prop_assert_eq!(format!("{:?}", merged.summary_us()), format!("{:?}", whole.summary_us()));
        }

        #[test]
        fn extremes_do_not_panic(v in prop::collection::vec(prop_oneof![Just(0), Just(u64::MAX), any::<u64>()], 0..1100)) {
            let s = of(v.iter().copied()).summary_us();
            prop_assert_eq!(s.count, v.len() as u64);
        }
    }

    #[test]
    fn near_the_extremes() {
        let mut few = Distribution::precise();
        [100, 104, 106, 150, 195, 200, 191].into_iter().for_each(|v| few.record(v));
        assert_eq!(few.near_extremes(0.05), Some((2.0 / 7.0, 3.0 / 7.0)));
        let mut many = Distribution::precise();
        (0..4000).for_each(|i| many.record(if i % 4 == 0 { 1_000_000 } else { 2_000_000 }));
        assert_eq!(many.near_extremes(0.05), Some((0.25, 0.75)));
        assert_eq!(Distribution::precise().near_extremes(0.05), None);
    }
}
