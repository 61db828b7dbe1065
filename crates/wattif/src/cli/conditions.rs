//! `compare --fail-if 'energy.total > +2%'` and `--until ci=1%`: what they say, and whether it holds.

use crate::error::{Error, Findings, nearest};
use crate::text;
use wattif_lab::compare::{Comparison, MetricRow};
use wattif_lab::metrics;
use wattif_model::check::Diagnostic;

/// A condition on a metric's ratio to the first kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct FailIf {
    /// As written.
    pub text: String,
    /// Which metric.
    pub metric: String,
    rises: bool,
    /// The ratio it is about, 1.02 for `+2%`.
    limit: f64,
}

impl FailIf {
    /// From `METRIC > +P%` or `METRIC < -P%`.
    pub fn parse(text: &str) -> Result<FailIf, Error> {
        let refuse = |from: usize, len: usize, why: String, help: String| {
            Err(refused("--fail-if", text, from..(from + len).min(text.len()), why, help))
        };
        let form = || "write a metric, > or <, and a change, such as 'energy.total > +2%'".to_string();
        let Some(at) = text.find(['<', '>']) else {
            return refuse(0, text.len(), "there is neither > nor <".into(), form());
        };
        let metric = text[..at].trim().to_string();
        if metrics::info(&metric).is_none() {
            return refuse(0, text[..at].trim_end().len().max(1), unknown_metric(&metric), near_metrics(&metric));
        }
        let change = &text[at + 1..];
        let from = at + 1 + (change.len() - change.trim_start().len());
        match percent(change) {
            Some(pct) if pct > -100.0 => {
                let rises = text[at..].starts_with('>');
                Ok(FailIf { text: text.into(), metric, rises, limit: 1.0 + pct / 100.0 })
            }
            _ => refuse(
                from,
                change.trim().len().max(1),
                format!("`{}` is no change in per cent", change.trim()),
                form(),
            ),
        }
    }

    /// Does it hold for a kernel? The whole 95 % interval of the ratio lies beyond the limit; with too few seeds, which have no
    /// interval, the ratio does. Names of the kernels, with what was found.
    pub fn holds(&self, comparison: &Comparison) -> Result<Vec<String>, Error> {
        let row = comparison.metrics.iter().find(|m| m.name == self.metric);
        let lacks = |k: &usize| row.is_none_or(|r| r.per_kernel[*k].mean.is_none());
        let lacking: Vec<&str> =
            (0..comparison.kernels.len()).filter(lacks).map(|k| comparison.kernels[k].as_str()).collect();
        let refuse = |why, help| Err(refused("--fail-if", &self.text, 0..self.metric.len(), why, help));
        let row = match (row, lacking.as_slice()) {
            (Some(row), []) => row,
            (Some(_), some) if some.len() < comparison.kernels.len() => {
                let (why, help) =
                    (text::lack(some, &self.metric), "without the figure in each of its runs no change can be told");
                return refuse(why, help.to_string());
            }
            _ => {
                let power = metrics::info(&self.metric).is_some_and(|m| ["J", "W"].contains(&m.unit));
                let platform = comparison.spec["platform"].as_str().unwrap_or_default();
                let help = match power || self.metric.contains("energy") {
                    true => format!("nothing is known of the powers of platform {platform}: it has no energies"),
                    false => "metrics of marks, deadlines and tasks need a workload that has them".to_string(),
                };
                return refuse(format!("no kernel has the metric `{}` in each of its runs", self.metric), help);
            }
        };
        let found = (1..comparison.kernels.len()).filter_map(|k| {
            let [lo, hi] = interval(row, k);
            let beyond = if self.rises { lo > self.limit } else { hi < self.limit };
            let pct = |ratio: f64| format!("{:+.2} %", (ratio - 1.0) * 100.0);
            beyond.then(|| format!("{}: {} {} to {}", comparison.kernels[k], self.metric, pct(lo), pct(hi)))
        });
        Ok(found.collect())
    }
}

/// Of the ratio of kernel `k` to the first. From nothing to something is an endless rise, from nothing to nothing no change.
fn interval(row: &MetricRow, k: usize) -> [f64; 2] {
    let ratio = &row.ratio_to_first[k];
    match (ratio.value, ratio.ci95) {
        (Some(_), Some(ci)) => ci,
        (Some(value), None) => [value; 2],
        (None, _) if row.per_kernel[k].mean == Some(0.0) => [1.0; 2],
        (None, _) => [f64::INFINITY; 2],
    }
}

/// How sure a comparison shall be.
#[derive(Clone, Debug, PartialEq)]
pub struct Until {
    /// One metric; `None`: the primary ones.
    pub metric: Option<String>,
    /// Half of the 95 % interval of each kernel's mean, by that mean.
    limit: f64,
}

impl Until {
    /// From `ci=P%` or `METRIC=P%`.
    pub fn parse(text: &str) -> Result<Until, Error> {
        let form = "write ci=1%, or one metric, such as energy.total=0.5%".to_string();
        let Some((what, pct)) = text.split_once('=') else {
            return Err(refused("--until", text, 0..text.len(), "there is no =".into(), form));
        };
        let metric = (what.trim() != "ci").then(|| what.trim().to_string());
        if let Some(name) = metric.as_deref().filter(|name| metrics::info(name).is_none()) {
            let span = 0..what.trim_end().len().max(1).min(text.len());
            return Err(refused("--until", text, span, unknown_metric(name), near_metrics(name)));
        }
        match percent(pct) {
            Some(pct) if pct > 0.0 => Ok(Until { metric, limit: pct / 100.0 }),
            _ => {
                let why = format!("`{}` is no width in per cent above 0", pct.trim());
                Err(refused("--until", text, what.len() + 1..text.len(), why, form))
            }
        }
    }

    /// The metric that is least sure, with its relative half-width, if that is too wide.
    pub fn widest(&self, comparison: &Comparison) -> Option<(String, f64)> {
        let asked = |row: &&MetricRow| match &self.metric {
            Some(name) => row.name == *name,
            None => is_primary(&row.name),
        };
        let rows = comparison.metrics.iter().filter(asked);
        let widths = rows.map(|row| {
            let of = |e: &wattif_lab::compare::Estimate| match (e.mean, e.ci95) {
                (Some(mean), Some([lo, hi])) if mean != 0.0 => (hi - lo) / 2.0 / mean.abs(),
                (Some(_), Some([lo, hi])) if lo == hi => 0.0,
                _ => f64::INFINITY,
            };
            (row.name.clone(), row.per_kernel.iter().map(of).fold(0.0, f64::max))
        });
        widths.filter(|(_, width)| *width > self.limit).max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

/// Means and sums; tails and extremes would take thousands of seeds.
fn is_primary(name: &str) -> bool {
    let mean = name.ends_with(".mean") || name.starts_with("throughput.");
    mean || name == "energy.total"
}

fn unknown_metric(name: &str) -> String {
    format!("there is no metric `{name}`")
}

fn near_metrics(name: &str) -> String {
    match nearest(name, metrics::offered().iter().map(String::as_str)) {
        near if near.is_empty() => "`wattif list metrics` prints all".into(),
        near => format!("did you mean {}? `wattif list metrics` prints all", near.join(", ")),
    }
}

/// `+2%`, `-0.5 %`.
fn percent(text: &str) -> Option<f64> {
    let number = text.trim().strip_suffix('%')?.trim_end();
    number.parse().ok().filter(|n: &f64| n.is_finite())
}

fn refused(option: &str, text: &str, span: std::ops::Range<usize>, why: String, help: String) -> Error {
    let diagnostic = Diagnostic::error("cli::E01", span, why).help(help);
    Error::Input(Findings { name: option.into(), text: text.into(), diagnostics: vec![diagnostic] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Look;
    use wattif_lab::compare::fold;
    use wattif_lab::metrics::{RunReport, Summary};

    /// Parts of what a bad expression is answered with.
    #[track_caller]
    fn refuses(result: Result<(), Error>, parts: &[&str]) {
        let shown = result.expect_err("is refused").render(Look { color: false, width: 100 });
        parts.iter().for_each(|p| assert!(shown.contains(p), "{p} is missing in\n{shown}"));
    }

    /// Under each kernel so many wake-ups of this mean, in each of four runs.
    fn comparison(kernels: [(&str, u64); 3]) -> Comparison {
        let report = |i: u64, count: u64| {
            let mut r = RunReport::default();
            if count > 0 {
                r.metrics.wakeup_latency_us = Summary { count, mean: 100.0 + i as f64, ..Summary::default() };
            }
            r
        };
        let runs = kernels.map(|(_, count)| (0..4).map(|i| report(i, count)).collect::<Vec<_>>());
        let names = kernels.map(|(name, _)| name.to_string());
        fold(serde_json::Value::Null, &names, &["wakeup_latency_us.mean"], &runs)
    }

    #[test]
    fn a_kernel_without_the_figure_is_named() {
        let holds = |kernels| FailIf::parse("wakeup_latency_us.mean > +2%").unwrap().holds(&comparison(kernels));
        assert_eq!(holds([("a", 9), ("b", 9), ("c", 9)]).unwrap(), [""; 0]);
        let refused = |kernels| holds(kernels).map(|_| ());
        refuses(refused([("a", 9), ("b", 0), ("c", 9)]), &["b has no `wakeup_latency_us.mean`"]);
        refuses(refused([("a", 0), ("b", 9), ("c", 0)]), &["a and c have no `wakeup_latency_us.mean`"]);
        refuses(refused([("a", 0), ("b", 0), ("c", 0)]), &["no kernel has the metric `wakeup_latency_us.mean`"]);
    }

    #[test]
    fn what_is_missing_is_not_sure() {
        let until = |text: &str| Until::parse(text).unwrap();
        let (all, some) = (comparison([("a", 9), ("b", 9), ("c", 9)]), comparison([("a", 9), ("b", 0), ("c", 9)]));
        for text in ["ci=50%", "wakeup_latency_us.mean=50%"] {
            assert_eq!(until(text).widest(&all), None);
            assert_eq!(until(text).widest(&some), Some(("wakeup_latency_us.mean".into(), f64::INFINITY)));
        }
    }

    #[test]
    fn expressions() {
        let c = FailIf::parse("energy.total > +2%").unwrap();
        assert_eq!((c.metric.as_str(), c.rises, c.limit), ("energy.total", true, 1.02));
        assert_eq!(FailIf::parse("wu_lat_us.p99<-10 %").unwrap().limit, 0.9);
        let fails = |text: &str| FailIf::parse(text).map(|_| ());
        refuses(fails("energy.total"), &["--fail-if", "neither > nor <"]);
        refuses(fails("energy.totl > 2%"), &["no metric `energy.totl`", "did you mean energy.total"]);
        refuses(fails("wu_lat_us.meen > 2%"), &["no metric `wu_lat_us.meen`", "did you mean wu_lat_us.mean"]);
        refuses(fails("energy.total > 2"), &["`2` is no change in per cent", "[--fail-if:1:16]"]);
        assert_eq!(Until::parse("ci=1%").unwrap(), Until { metric: None, limit: 0.01 });
        let until = |text: &str| Until::parse(text).map(|_| ());
        refuses(until("ci=0%"), &["--until", "above 0"]);
        refuses(until("x=1%"), &["no metric `x`"]);
        refuses(until("1%"), &["there is no ="]);
    }
}
