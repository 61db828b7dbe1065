//! Traces to answers: metrics, statistics, comparisons and experiments. Cannot see the simulator.
//!
//! Read in this order: [`metrics`] listens to one run and makes a [`metrics::RunReport`]; [`stats`] says how sure a figure
//! is; [`compare`] folds the reports of several kernels and seeds into a [`compare::Comparison`]; [`explain`] says why two runs
//! differ; [`sweep`] which settings to try; [`experiment`] holds a gallery entry (a question, its published numbers, what must
//! hold) beside simulated figures. [`infer`] reads real traces. [`report`] collects what the report's page draws. [`table`] and [`plot`]
//! draw text and SVG; both are pure string functions.

pub mod compare;
pub mod experiment;
pub mod explain;
pub mod fnv;
pub mod infer;
pub mod metrics;
pub mod plot;
pub mod report;
pub mod stats;
pub mod sweep;
pub mod table;
