//! A gallery entry: a question, its published numbers, and what must hold for us to say that we reproduce them.
//!
//! [`Experiment::parse`] reads `experiment.toml`, [`Experiment::plan`] lists the runs it needs,
//! [`Experiment::evaluate`] puts published beside simulated, [`Experiment::to_text`] draws that, and
//! [`Experiment::plots`] draws what its `[[plot]]`s ask for.

mod correlation;
mod duration;
mod evaluate;
mod expr;
mod parse;
mod plan;
mod plots;
mod render;
mod results;
mod shown;
#[cfg(test)]
mod testbed;

pub use correlation::Correlation;
pub use duration::parse_duration;
pub use evaluate::{ArmFigure, CounterFigure, RatioFigure, Repro, ResultRow, SCHEMA};
pub use expr::{Expr, ExprError, Figures, Missing};
pub use plan::{Arm, Plan};
pub use plots::{Plot, metric_label};
pub use results::Results;
pub use shown::{CellFigure, CorrelationFigure, Shown, TableFigures};

use crate::stats::Over;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wattif_model::Ns;
use wattif_model::kernel::Value;

/// Settings that differ from the files named, such as `workload.tasks.idle_thread.instance` → 0.
pub type Overrides = BTreeMap<String, Value>;

/// A parsed `experiment.toml`. Every arm it names exists and every condition is well formed.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// Folder of the gallery.
    pub name: String,
    /// What is asked, one line.
    pub question: String,
    /// Where the published numbers come from.
    pub source: String,
    /// The main platform, then those it is repeated on.
    pub platforms: Vec<String>,
    /// File or name of the workload.
    pub workload: String,
    /// Dialect of a workload file, where it is not the default.
    pub dialect: Option<String>,
    /// How long to simulate; `None`: the workload's own.
    pub duration: Option<Ns>,
    /// Runs per arm: seeds `1..=seeds`.
    pub seeds: u64,
    /// Kernels; the first is the baseline unless a row says otherwise.
    pub kernels: Vec<String>,
    /// Settings of every arm, which variants and counter-tests may change.
    pub set: Overrides,
    /// Named deviations that act as further arms.
    pub variants: BTreeMap<String, Variant>,
    /// Published results with their conditions.
    pub rows: Vec<RowSpec>,
    /// Published tables, shown without a condition.
    pub tables: Vec<TableSpec>,
    /// Published histograms, shown without a condition.
    pub histograms: Vec<HistogramSpec>,
    /// Drawings.
    pub plots: Vec<PlotSpec>,
    /// How two metrics go together over all runs of some arms.
    pub correlations: Vec<CorrelationSpec>,
    /// What takes too long for every day; [`Experiment::into_full`] puts it in.
    pub full: FullSpec,
}

/// A named deviation. As an arm, `NAME` means this on its kernel or the first one, `KERNEL+NAME` on that kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variant {
    /// Kernel of the bare name.
    pub kernel: Option<String>,
    /// Another workload.
    pub workload: Option<String>,
    /// Another length.
    pub duration: Option<Ns>,
    /// Settings.
    pub set: Overrides,
}

/// Quantitative target, direction only, or a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the line above says it")]
pub enum Class {
    Q,
    D,
    S,
}

/// A published result.
#[derive(Clone, Debug, PartialEq)]
pub struct RowSpec {
    /// As in the list of published results, such as `3.1`.
    pub id: String,
    /// Name of the metric.
    pub metric: String,
    /// Task whose threads count; `None`: all of the workload.
    pub threads: Option<String>,
    /// What is shown of the values of all seeds.
    pub over: Over,
    /// By arm.
    pub published: BTreeMap<String, f64>,
    /// Published ratio, where it is not the quotient of published values.
    pub published_ratio: Option<f64>,
    /// What it claims.
    pub class: Class,
    /// [variant, baseline]; `None`: fewer than two arms.
    pub ratio: Option<[String; 2]>,
    /// The tolerance; `None` only for statements.
    pub holds: Option<Expr>,
    /// Remove the mechanism, and the effect must vanish.
    pub counters: Vec<CounterSpec>,
    /// Arms shown, in order: those named in the file, or all kernels and whatever else the row names.
    pub arms: Vec<String>,
    /// Platforms it holds on.
    pub platforms: Vec<String>,
    /// One line for people.
    pub note: Option<String>,
}

/// A counter-test.
#[derive(Clone, Debug, PartialEq)]
pub struct CounterSpec {
    /// What is taken away, for people.
    pub what: String,
    /// The settings that take it away, on top of each arm's own.
    pub set: Overrides,
    /// What must then hold.
    pub holds: Expr,
    /// Another metric than the row's.
    pub metric: Option<String>,
    /// Another ratio than the row's.
    pub ratio: Option<[String; 2]>,
}

/// A published table: metrics by arm.
#[derive(Clone, Debug, PartialEq)]
pub struct TableSpec {
    /// Above it.
    pub title: String,
    /// Its rows.
    pub metrics: Vec<String>,
    /// Platforms it is shown for.
    pub platforms: Vec<String>,
    /// Task whose threads count.
    pub threads: Option<String>,
    /// By arm, a value per metric (`nan` where nothing was published).
    pub published: BTreeMap<String, Vec<f64>>,
    /// Arms shown, in order.
    pub arms: Vec<String>,
}

/// A published histogram of `wu_lat_us` by 100 µs.
#[derive(Clone, Debug, PartialEq)]
pub struct HistogramSpec {
    /// Above it.
    pub title: String,
    /// Task whose threads count.
    pub threads: Option<String>,
    /// By arm, 11 counts (`nan` where a bin was not published).
    pub published: BTreeMap<String, Vec<f64>>,
    /// Arms shown, in order.
    pub arms: Vec<String>,
}

/// How two metrics go together over all runs of some arms.
#[derive(Clone, Debug, PartialEq)]
pub struct CorrelationSpec {
    /// Above it.
    pub title: String,
    /// One metric.
    pub x: String,
    /// The other.
    pub y: String,
    /// Arms whose runs count, by load: each load's means are taken off first, so that a heavier load is no correlation.
    pub loads: Vec<Vec<String>>,
    /// Platforms it is shown for.
    pub platforms: Vec<String>,
}

/// More seeds, longer runs, further rows and tables.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FullSpec {
    /// Runs per arm instead of the usual.
    pub seeds: Option<u64>,
    /// Length instead of the usual.
    pub duration: Option<Ns>,
    /// Further rows.
    pub rows: Vec<RowSpec>,
    /// Further tables.
    pub tables: Vec<TableSpec>,
}

/// A drawing: a point per arm.
#[derive(Clone, Debug, PartialEq)]
pub struct PlotSpec {
    /// File name without ending.
    pub name: String,
    /// Above it.
    pub title: String,
    /// Metric across, and the task whose threads count.
    pub x: (String, Option<String>),
    /// Metric upwards, and the task whose threads count.
    pub y: (String, Option<String>),
    /// Logarithmic upwards.
    pub log_y: bool,
    /// Mark the Pareto front: the points that no other beats in both metrics.
    pub front: bool,
    /// Arms shown, in order.
    pub arms: Vec<String>,
    /// Platforms it is drawn for.
    pub platforms: Vec<String>,
}

impl Experiment {
    /// With everything that takes too long for every day.
    pub fn into_full(mut self) -> Experiment {
        let full = std::mem::take(&mut self.full);
        self.seeds = full.seeds.unwrap_or(self.seeds);
        self.duration = full.duration.or(self.duration);
        self.rows.extend(full.rows);
        self.tables.extend(full.tables);
        self
    }
}
