//! What an experiment shows without a condition, as data: the tables and the correlations of `wattif.repro/1`.

use super::correlation::centred;
use super::{Correlation, CorrelationSpec, Experiment, Overrides, Results, TableSpec};
use crate::compare::unit_of;
use crate::metrics::info;
use crate::stats::{bca_mean, mean};
use serde::Serialize;

/// Tables and correlations of experiments.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Shown {
    /// A table of each platform it is shown for.
    pub tables: Vec<TableFigures>,
    /// A correlation of each platform it is shown for.
    pub correlations: Vec<CorrelationFigure>,
}

/// A table of one platform.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TableFigures {
    /// Folder of the gallery.
    pub experiment: String,
    /// Platform it was simulated on.
    pub platform: String,
    /// Above it.
    pub title: String,
    /// Task whose threads count.
    pub threads: Option<String>,
    /// Metric by metric, arm by arm.
    pub cells: Vec<CellFigure>,
}

/// A metric of an arm.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellFigure {
    /// Name of the metric.
    pub metric: String,
    /// Its unit; empty for counts.
    pub unit: String,
    /// The arm's name: a kernel, or a kernel with a variant.
    pub kernel: String,
    /// As published.
    pub published: Option<f64>,
    /// Mean over seeds.
    pub simulated: Option<f64>,
    /// Its 95 % BCa interval.
    pub ci95: Option<[f64; 2]>,
}

/// How two metrics go together on one platform.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CorrelationFigure {
    /// Folder of the gallery.
    pub experiment: String,
    /// Platform it was simulated on.
    pub platform: String,
    /// Over the runs of what.
    pub title: String,
    /// One metric.
    pub x: String,
    /// The other.
    pub y: String,
    /// Runs that have both.
    pub runs: usize,
    /// Pearson's r; `null` below three runs or where a metric does not vary.
    pub correlation: Option<f64>,
    /// Its 95 % BCa interval over runs.
    pub ci95: Option<[f64; 2]>,
}

impl Shown {
    /// Those of one more experiment.
    pub fn add(&mut self, e: &Experiment, results: &Results) {
        for platform in &e.platforms {
            let tables = e.tables.iter().filter(|t| t.platforms.contains(platform));
            self.tables.extend(tables.map(|t| e.table_figures(t, platform, results)));
            let correlations = e.correlations.iter().filter(|c| c.platforms.contains(platform));
            self.correlations.extend(correlations.map(|c| e.correlation_figure(c, platform, results)));
        }
    }
}

impl Experiment {
    pub(super) fn table_figures(&self, spec: &TableSpec, platform: &str, results: &Results) -> TableFigures {
        let cells = spec.metrics.iter().enumerate().flat_map(|(i, metric)| {
            let unit = self.unit(spec, metric, platform, results);
            spec.arms.iter().map(move |arm| {
                let values = self.values(arm, platform, results, metric, spec.threads.as_deref());
                CellFigure {
                    metric: metric.clone(),
                    unit: unit.clone(),
                    kernel: arm.clone(),
                    published: spec.published.get(arm).map(|v| v[i]).filter(|v| v.is_finite()),
                    simulated: values.as_deref().map(mean),
                    ci95: values.as_deref().and_then(bca_mean),
                }
            })
        });
        TableFigures {
            experiment: self.name.clone(),
            platform: platform.to_owned(),
            title: spec.title.clone(),
            threads: spec.threads.clone(),
            cells: cells.collect(),
        }
    }

    fn unit(&self, spec: &TableSpec, metric: &str, platform: &str, results: &Results) -> String {
        let runs = spec.arms.iter().filter_map(|arm| self.resolve(arm, platform, &Overrides::new()).ok());
        let runs: Vec<_> = runs.flat_map(|arm| results.reports(&arm)).collect();
        unit_of(info(metric).map_or("", |m| m.unit), runs.into_iter())
    }

    pub(super) fn correlation_figure(
        &self,
        spec: &CorrelationSpec,
        platform: &str,
        results: &Results,
    ) -> CorrelationFigure {
        let pairs = |arms: &Vec<String>| -> Vec<(f64, f64)> {
            arms.iter().flat_map(|arm| self.pairs(arm, platform, results, [&spec.x, &spec.y])).collect()
        };
        let centred: Vec<(f64, f64)> = spec.loads.iter().flat_map(|arms| centred(pairs(arms))).collect();
        let Correlation { runs, r, ci95 } = Correlation::of(&centred);
        CorrelationFigure {
            experiment: self.name.clone(),
            platform: platform.to_owned(),
            title: spec.title.clone(),
            x: spec.x.clone(),
            y: spec.y.clone(),
            runs,
            correlation: r,
            ci95,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::*;
    use super::*;

    #[test]
    fn cell_by_cell() {
        let e = experiment();
        let mut shown = Shown::default();
        shown.add(&e, &results(&e));
        let [table, ..] = shown.tables.as_slice() else { panic!("no tables") };
        assert_eq!(table.title, "Wake-up latency as rt-app logs it");
        let cell = |metric: &str, kernel: &str| {
            table.cells.iter().find(|c| c.metric == metric && c.kernel == kernel).expect("a cell")
        };
        let most = cell("wu_lat_us.max", "linux-5.3");
        assert_eq!((most.published, most.unit.as_str()), (Some(4321.0), "µs"));
        assert!((most.simulated.unwrap() - 3060.0).abs() < 1e-6 && most.ci95.is_some(), "{most:?}");
        assert_eq!(cell("wu_lat_us.max", "linux-5.4").published, None, "nan: nothing was published");
    }

    #[test]
    fn what_goes_together() {
        let text = format!(
            "{EXPERIMENT}\n[[correlation]]\ntitle = \"all\"\nx = \"wu_lat_us.mean\"\ny = \"wu_lat_us.max\"\narms = [\"linux-5.3\", \"linux-5.4\"]\n"
        );
        let e = Experiment::parse("sched_idle_placement", &text).unwrap();
        let mut shown = Shown::default();
        shown.add(&e, &results(&e));
        let here = &shown.correlations[0];
        assert_eq!((here.title.as_str(), here.runs), ("all", 40));
        assert!((here.correlation.unwrap() - 1.0).abs() < 1e-9, "{here:?}");
        // Within a kernel the testbed's figures do not go up together; between the kernels they do.
        let text = text.replace("[\"linux-5.3\", \"linux-5.4\"]\n", "[[\"linux-5.3\"], [\"linux-5.4\"]]\n");
        let e = Experiment::parse("sched_idle_placement", &text).unwrap();
        assert_eq!(e.correlations[0].loads.len(), 2);
    }
}
