//! How two metrics go together over all runs: Pearson's correlation with its interval.

use super::{Experiment, Results};
use crate::stats::{bca, mean};
use crate::table::{Align, Table, number};

/// A correlation and how sure it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Correlation {
    /// Runs that have both metrics.
    pub runs: usize,
    /// Pearson's r, -1..=1; `None` below three runs or where a metric does not vary.
    pub r: Option<f64>,
    /// 95 % BCa interval over runs.
    pub ci95: Option<[f64; 2]>,
}

impl Correlation {
    /// Of pairs.
    pub fn of(pairs: &[(f64, f64)]) -> Correlation {
        let whole = pearson(&mut pairs.iter().copied());
        let r = Some(whole).filter(|r| pairs.len() >= 3 && r.is_finite());
        let over = |rows: &[usize]| {
            let r = pearson(&mut rows.iter().map(|&i| pairs[i]));
            // A resample in which one metric does not vary says nothing.
            if r.is_finite() { r } else { whole }
        };
        let ci95 = r.and_then(|_| bca(pairs.len(), "bootstrap.correlation", over));
        Correlation { runs: pairs.len(), r, ci95 }
    }
}

/// Pairs of one load without its means: what differs between loads is left out.
pub(super) fn centred(pairs: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let (x, y): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
    let (mx, my) = (mean(&x), mean(&y));
    x.into_iter().zip(y).map(|(x, y)| (x - mx, y - my)).collect()
}

/// Σ (x − x̄)(y − ȳ) / √(Σ (x − x̄)² · Σ (y − ȳ)²); NaN where one does not vary.
fn pearson(pairs: &mut dyn Iterator<Item = (f64, f64)>) -> f64 {
    let (x, y): (Vec<f64>, Vec<f64>) = pairs.unzip();
    let (mx, my) = (mean(&x), mean(&y));
    let sum = |f: &dyn Fn(f64, f64) -> f64| x.iter().zip(&y).map(|(x, y)| f(x - mx, y - my)).sum::<f64>();
    sum(&|x, y| x * y) / (sum(&|x, _| x * x) * sum(&|_, y| y * y)).sqrt()
}

impl Experiment {
    /// All correlations on a platform, as a table; `None` where there are none.
    pub(super) fn correlations_table(&self, platform: &str, results: &Results) -> Option<Table> {
        let here: Vec<_> = self.correlations.iter().filter(|c| c.platforms.iter().any(|p| p == platform)).collect();
        let mut table = Table::new([
            ("over all runs of", Align::Left),
            ("metrics", Align::Left),
            ("runs", Align::Right),
            ("correlation", Align::Right),
            ("95 % interval", Align::Right),
        ]);
        for spec in &here {
            let c = self.correlation_figure(spec, platform, results);
            let ci = c.ci95.map_or("–".into(), |[lo, hi]| format!("[{}, {}]", number(lo, 2), number(hi, 2)));
            let r = c.correlation.map_or("–".into(), |r| number(r, 2));
            table.row([spec.title.clone(), format!("{} and {}", spec.x, spec.y), c.runs.to_string(), r, ci]);
        }
        (!here.is_empty()).then_some(table)
    }

    pub(super) fn pairs(&self, arm: &str, platform: &str, results: &Results, metrics: [&String; 2]) -> Vec<(f64, f64)> {
        let [x, y] = metrics.map(|m| self.values(arm, platform, results, m, None));
        x.zip(y).map_or(Vec::new(), |(x, y)| x.into_iter().zip(y).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        let line = Correlation::of(&[(1.0, 2.0), (2.0, 4.0), (3.0, 6.0), (4.0, 8.0)]);
        assert!((line.r.unwrap() - 1.0).abs() < 1e-12, "{line:?}");
        // x̄ = 2, ȳ = 2: Σ xy = -1·1 + 0·-1 + 1·0 = -1; √(2 · 2) = 2.
        let bent = Correlation::of(&[(1.0, 3.0), (2.0, 1.0), (3.0, 2.0)]);
        assert!((bent.r.unwrap() + 0.5).abs() < 1e-12, "{bent:?}");
    }

    #[test]
    fn a_heavier_load_is_no_correlation() {
        let (light, heavy) = (vec![(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)], vec![(11.0, 23.0), (12.0, 22.0), (13.0, 21.0)]);
        let pooled = Correlation::of(&[light.clone(), heavy.clone()].concat()).r.unwrap();
        assert!(pooled > 0.9, "{pooled}");
        let within = Correlation::of(&[centred(light), centred(heavy)].concat()).r.unwrap();
        assert!((within + 1.0).abs() < 1e-12, "{within}");
    }

    #[test]
    fn nothing_is_invented() {
        assert_eq!(Correlation::of(&[(1.0, 1.0), (2.0, 2.0)]), Correlation { runs: 2, r: None, ci95: None });
        assert_eq!(Correlation::of(&[(1.0, 1.0), (1.0, 2.0), (1.0, 5.0)]).r, None, "x does not vary");
        assert_eq!(Correlation::of(&[]).r, None);
    }
}
