//! Two or more kernels on the same seeds: what changes, and is the difference real?
//!
//! [`Plan`] says which runs are needed, [`fold`] makes a [`Comparison`] of their reports, [`Comparison::to_text`] and
//! [`Comparison::to_markdown`] draw it.

mod fold;
mod plan;
mod render;
mod unlike;

pub(crate) use fold::unit_of;
pub use fold::{Comparison, Estimate, MetricRow, RatioRow, SCHEMA, Verdict, fold, headline_metrics};
pub use plan::{Plan, PlannedRun};
pub use unlike::unlike;
