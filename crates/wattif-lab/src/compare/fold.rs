//! From the reports of runs to the `wattif.compare/1` object.

use crate::metrics::energy::in_energy;
use crate::metrics::{Better, Deadlock, RunReport, better, info, is_neutral};
use crate::stats::{bca_mean, cohens_dz, holm, mean, paired_ratio};
use serde::Serialize;
use std::collections::BTreeMap;

/// `schema` of a comparison.
pub const SCHEMA: &str = "wattif.compare/1";

/// A comparison, as the contract asks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// What was run; the caller's.
    pub spec: serde_json::Value,
    /// Names; the first is what the others are compared with.
    pub kernels: Vec<String>,
    /// Runs of each kernel.
    pub seeds: usize,
    /// A row per metric.
    pub metrics: Vec<MetricRow>,
    /// Per kernel, in the order of `kernels`: threads blocked for ever; `None`: in no run.
    pub deadlock: Vec<Option<Deadlock>>,
    /// Per kernel: so many of its runs were cut off before their work was done; the caller's, by [`RunReport::is_cut`].
    pub unfinished: Vec<usize>,
}

/// What is said of a difference that chance does not explain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The change is to the good.
    Better,
    /// The change is to the bad.
    Worse,
    /// Higher, of a metric that is good neither way.
    More,
    /// Lower, of a metric that is good neither way.
    Less,
}

impl Verdict {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::More => "more",
            Verdict::Less => "less",
        }
    }
}

impl MetricRow {
    /// What is to be said of kernel `k` beside the first; `None`: chance may explain the difference.
    fn verdict(&self, k: usize) -> Option<Verdict> {
        self.ratio_to_first[k].p_holm.filter(|p| *p < 0.05)?;
        let lower = self.per_kernel[k].mean < self.per_kernel[0].mean;
        Some(match (self.neutral, lower, self.better) {
            (true, true, _) => Verdict::Less,
            (true, false, _) => Verdict::More,
            (_, true, Better::Lower) | (_, false, Better::Higher) => Verdict::Better,
            _ => Verdict::Worse,
        })
    }
}

/// One metric.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MetricRow {
    /// Its name.
    pub name: String,
    /// Its unit; empty for counts.
    pub unit: String,
    /// Which way is good.
    pub better: Better,
    /// Neither way is good in itself.
    pub neutral: bool,
    /// Per kernel, in the order of `kernels`.
    pub per_kernel: Vec<Estimate>,
    /// Per kernel, in the order of `kernels`; the first compares with itself.
    pub ratio_to_first: Vec<RatioRow>,
}

/// A mean over seeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Estimate {
    /// `None`: a run has no such figure.
    pub mean: Option<f64>,
    /// 95 % BCa interval; `None`: too few seeds.
    pub ci95: Option<[f64; 2]>,
}

/// A ratio of means over paired seeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct RatioRow {
    /// This kernel's mean by the first's; `None` where a run has no figure or the first's mean is 0.
    pub value: Option<f64>,
    /// 95 % BCa interval, pairs drawn together.
    pub ci95: Option<[f64; 2]>,
    /// Two-sided, paired sign-flip permutation.
    pub p: Option<f64>,
    /// The same after Holm's correction over all ratios of this comparison.
    pub p_holm: Option<f64>,
    /// Effect size: Cohen's d of the paired differences; `None` below two seeds, or where they do not vary.
    pub effect: Option<f64>,
    /// Where the corrected p is below 0.05; otherwise `None`.
    pub verdict: Option<Verdict>,
}

/// Compare kernels by the metrics of `names`. `runs[kernel][i]` is the report of the i-th seed; every kernel has the
/// same seeds in the same order. Panics when the shapes do not agree.
pub fn fold(
    spec: serde_json::Value,
    kernels: &[String],
    names: &[impl AsRef<str>],
    runs: &[Vec<RunReport>],
) -> Comparison {
    assert_eq!(kernels.len(), runs.len(), "one list of runs per kernel");
    let seeds = runs.first().map_or(0, Vec::len);
    assert!(runs.iter().all(|r| r.len() == seeds), "every kernel has the same seeds");
    let mut metrics: Vec<MetricRow> = names.iter().map(|name| row(name.as_ref(), runs)).collect();
    correct(&mut metrics);
    let deadlock = runs.iter().map(|of| Deadlock::of(of)).collect();
    let unfinished = vec![0; runs.len()];
    Comparison { schema: SCHEMA, spec, kernels: kernels.to_vec(), seeds, metrics, deadlock, unfinished }
}

fn row(name: &str, runs: &[Vec<RunReport>]) -> MetricRow {
    let values: Vec<Option<Vec<f64>>> =
        runs.iter().map(|of| of.iter().map(|r| r.metric(name, None)).collect()).collect();
    let first = values.first().cloned().flatten();
    let about = info(name);
    MetricRow {
        name: name.to_owned(),
        unit: unit_of(about.map_or("", |m| m.unit), runs.iter().flatten()),
        better: better(name),
        neutral: is_neutral(name),
        per_kernel: values.iter().map(|v| estimate(v.as_deref())).collect(),
        ratio_to_first: values.iter().map(|v| ratio(v.as_deref(), first.as_deref())).collect(),
    }
}

/// The unit of a metric listed with one: energies have that of the platform.
pub(crate) fn unit_of<'a>(listed: &str, mut runs: impl Iterator<Item = &'a RunReport>) -> String {
    let energy = runs.find_map(|r| r.metrics.energy.as_ref()).map_or("J", |e| e.unit.as_str());
    in_energy(listed, energy).to_owned()
}

fn estimate(values: Option<&[f64]>) -> Estimate {
    let values = values.filter(|v| !v.is_empty());
    Estimate { mean: values.map(mean), ci95: values.and_then(bca_mean) }
}

fn ratio(variant: Option<&[f64]>, first: Option<&[f64]>) -> RatioRow {
    let Some((variant, first)) = variant.zip(first).filter(|(v, _)| !v.is_empty()) else {
        return RatioRow::default();
    };
    let r = paired_ratio(variant, first);
    let effect = Some(cohens_dz(variant, first)).filter(|d| d.is_finite());
    let value = Some(r.value).filter(|v| v.is_finite());
    RatioRow { value, ci95: r.ci95, p: Some(r.p), effect, ..RatioRow::default() }
}

/// Holm over all comparisons made, and what that lets say; those of the first kernel with itself are none.
fn correct(metrics: &mut [MetricRow]) {
    let mut made: Vec<&mut RatioRow> = metrics.iter_mut().flat_map(|m| m.ratio_to_first.iter_mut().skip(1)).collect();
    let p: Vec<f64> = made.iter().map(|r| r.p.unwrap_or(f64::NAN)).collect();
    made.iter_mut().zip(holm(&p)).for_each(|(r, p)| r.p_holm = Some(p).filter(|p| !p.is_nan()));
    for m in metrics {
        (1..m.ratio_to_first.len()).for_each(|k| m.ratio_to_first[k].verdict = m.verdict(k));
    }
}

/// The metrics a comparison shows when none are named: the time it took, of a workload that ends by itself; those of the
/// workload's own marks, then those of a fixed selection, then the work of each task. Each that some run has: that a kernel has
/// no such figure is a finding.
pub fn headline_metrics(runs: &[Vec<RunReport>], ends_by_itself: bool) -> Vec<String> {
    const FIXED: [&str; 17] = [
        "wu_lat_us.count",
        "wu_lat_us.mean",
        "wu_lat_us.p99",
        "wu_lat_us.max",
        "wakeup_latency_us.mean",
        "wakeup_latency_us.p50",
        "wakeup_latency_us.p99",
        "wakeup_latency_us.max",
        "deadline.misses",
        "deadline.lateness_us.max",
        "energy.total",
        "idle_accuracy.correct_pct",
        "idle_accuracy.above_pct",
        "idle_accuracy.below_pct",
        "migrations",
        "slices",
        "domains.transitions",
    ];
    let all = || runs.iter().flatten();
    let mut names: Vec<String> = Vec::from_iter(ends_by_itself.then(|| "duration_s".into()));
    // A mark that some runs do not reach, or a pace that some do not have, is one all the same.
    let mut marks: BTreeMap<&String, bool> = BTreeMap::new();
    for (mark, report) in all().flat_map(|r| &r.metrics.frames) {
        *marks.entry(mark).or_default() |= report.pace.is_some();
    }
    for (mark, paced) in marks {
        let paced: &[&str] = if paced { &["fps", "jank_pct", "energy"] } else { &[] };
        names.extend(["mean", "p50", "p99"].iter().chain(paced).map(|stat| format!("frames.{mark}.{stat}")));
        names.push(format!("throughput.{mark}"));
    }
    names.extend(FIXED.map(String::from));
    let mut tasks: Vec<&String> = Vec::new();
    for group in all().flat_map(|r| &r.by_task).filter(|g| g.workload) {
        if !tasks.contains(&&group.task) {
            tasks.push(&group.task);
        }
    }
    names.extend(tasks.iter().map(|task| format!("tasks.{task}.work_s")));
    // A log that is empty everywhere has a count of 0 that says nothing.
    let said = |name: &str, r: &RunReport| r.metric(name, None).filter(|v| !(name == "wu_lat_us.count" && *v == 0.0));
    names.retain(|name| all().any(|r| said(name, r).is_some()));
    names
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::metrics::Summary;

    pub fn report(mean: f64) -> RunReport {
        let mut r = RunReport::default();
        r.metrics.wu_lat_us = Summary { count: 10, mean, p99: 2.0 * mean, max: 3.0 * mean, ..Summary::default() };
        (r.metrics.migrations, r.metrics.slices) = (Some(7), Some(0));
        r
    }

    pub fn comparison() -> Comparison {
        let slow: Vec<RunReport> = [1000., 1100., 900., 1050., 1150., 980.].map(report).into();
        let fast: Vec<RunReport> = [100., 112., 91., 103., 117., 99.].map(report).into();
        let runs = [slow, fast];
        let names = headline_metrics(&runs, false);
        fold(serde_json::json!({"platform": "bed"}), &["linux-5.3".into(), "linux-5.4".into()], &names, &runs)
    }

    #[test]
    fn means_and_ratios() {
        let c = comparison();
        let names: Vec<&str> = c.metrics.iter().map(|m| m.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "wu_lat_us.count",
                "wu_lat_us.mean",
                "wu_lat_us.p99",
                "wu_lat_us.max",
                "migrations",
                "slices",
                "domains.transitions"
            ]
        );
        let mean = &c.metrics[1];
        assert_eq!((mean.unit.as_str(), mean.per_kernel[0].mean), ("µs", Some(1030.0)));
        let r = &mean.ratio_to_first[1];
        let [lo, hi] = r.ci95.unwrap();
        assert!(lo < r.value.unwrap() && r.value.unwrap() < hi && hi - lo < 0.01, "pairs cancel the noise of the seed");
        assert_eq!(r.p, Some(2.0 / 64.0));
        assert!(r.p_holm >= r.p);
        assert!(r.effect.unwrap() < -5.0, "{:?}", r.effect);
        assert_eq!(mean.ratio_to_first[0].value, Some(1.0));
        assert_eq!(c.metrics[4].ratio_to_first[1].p, Some(1.0));
    }

    #[test]
    fn contract() {
        let json = serde_json::to_value(comparison()).unwrap();
        assert_eq!(json["schema"], "wattif.compare/1");
        assert_eq!((&json["metrics"][1]["better"], &json["metrics"][1]["neutral"]), (&"lower".into(), &false.into()));
        assert_eq!((&json["metrics"][5]["name"], &json["metrics"][5]["neutral"]), (&"slices".into(), &true.into()));
        assert_eq!(json["metrics"][1]["per_kernel"][0]["ci95"].as_array().unwrap().len(), 2);
        assert!(json["metrics"][1]["ratio_to_first"][1]["p"].is_f64());
        // Six pairs: an interval far from 1, and a p that the correction over seven rows lifts above 0.05.
        assert!(json["metrics"][1]["ratio_to_first"][1]["verdict"].is_null());
        assert_eq!(json["spec"]["platform"], "bed");
    }

    #[test]
    fn verdicts() {
        let of = |mean: f64, slices| {
            let mut r = report(mean);
            r.metrics.slices = Some(slices);
            r
        };
        let runs: [Vec<RunReport>; 2] = [100, 200].map(|slices| {
            (0..10).map(|i| of(if slices == 100 { 100.0 + f64::from(i) } else { 5.0 }, slices)).collect()
        });
        let back = [runs[1].clone(), runs[0].clone()];
        let names = ["wu_lat_us.mean", "migrations", "slices"];
        for (runs, said) in [(runs, ["better", "", "more"]), (back, ["worse", "", "less"])] {
            let c = fold(serde_json::Value::Null, &["a".into(), "b".into()], &names, &runs);
            let json = serde_json::to_value(&c).unwrap();
            for (m, said) in json["metrics"].as_array().unwrap().iter().zip(said) {
                assert!(m["ratio_to_first"][0]["verdict"].is_null());
                assert_eq!(m["ratio_to_first"][1]["verdict"].as_str().unwrap_or(""), said, "{m}");
            }
            let text = c.to_text();
            assert!(text.lines().filter(|l| l.ends_with(said[0])).count() == 1 && text.contains(said[2]), "{text}");
        }
    }

    /// Of a kernel under which nobody woke up, the rows of waking up say so; its length comes first where that is the question.
    #[test]
    fn a_figure_that_one_kernel_lacks_is_a_row() {
        let woke: Vec<RunReport> = (0..6).map(|i| report(100.0 + f64::from(i))).collect();
        let silent = vec![RunReport { metrics: Default::default(), ..report(1.0) }; 6];
        let runs = [woke, silent];
        let names = headline_metrics(&runs, true);
        assert_eq!(names[..3], ["duration_s", "wu_lat_us.count", "wu_lat_us.mean"]);
        assert_eq!(headline_metrics(&runs, false)[0], "wu_lat_us.count");
        let c = fold(serde_json::Value::Null, &["a".into(), "b".into()], &names, &runs);
        let mean = c.metrics.iter().find(|m| m.name == "wu_lat_us.mean").unwrap();
        assert_eq!(mean.per_kernel[0].mean, Some(102.5));
        assert_eq!((mean.per_kernel[1], mean.ratio_to_first[1]), (Estimate::default(), RatioRow::default()));
        let row = c.to_text().lines().skip_while(|l| !l.starts_with("wu_lat_us.mean")).nth(1).map(String::from);
        assert_eq!(row.unwrap().split_whitespace().collect::<Vec<_>>(), ["b", "–", "–", "–", "–", "–", "–"]);
        assert!(serde_json::to_value(&c).unwrap()["metrics"][2]["per_kernel"][1]["mean"].is_null());
    }

    #[test]
    fn missing_figures_and_one_seed() {
        let one = [vec![report(5.0)], vec![report(6.0)]];
        let c = fold(serde_json::Value::Null, &["a".into(), "b".into()], &["energy.total", "wu_lat_us.mean"], &one);
        assert_eq!(
            (c.metrics[0].per_kernel[0], c.metrics[0].ratio_to_first[1]),
            (Estimate::default(), RatioRow::default())
        );
        assert_eq!((c.metrics[1].per_kernel[1].mean, c.metrics[1].per_kernel[1].ci95), (Some(6.0), None));
    }
}
