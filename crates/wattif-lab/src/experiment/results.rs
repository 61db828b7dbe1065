//! The reports of the runs a plan asked for.

use super::Arm;
use crate::metrics::RunReport;
use std::collections::BTreeMap;

/// Reports by arm, in the order of the plan's seeds.
#[derive(Clone, Debug, Default)]
pub struct Results(BTreeMap<Arm, Vec<RunReport>>);

impl Results {
    /// Add the reports of an arm, one per seed of the plan, in its order.
    pub fn insert(&mut self, arm: Arm, reports: Vec<RunReport>) {
        self.0.insert(arm, reports);
    }
    /// The reports of an arm; none when it did not run.
    pub fn reports(&self, arm: &Arm) -> &[RunReport] {
        self.0.get(arm).map_or(&[], Vec::as_slice)
    }
    /// The reports of all arms.
    pub fn all(&self) -> impl Iterator<Item = &RunReport> {
        self.0.values().flatten()
    }
    /// A figure of each seed; `None` when a run lacks it or there is no run.
    pub fn values(&self, arm: &Arm, metric: &str, threads: Option<&str>) -> Option<Vec<f64>> {
        let values: Option<Vec<f64>> = self.reports(arm).iter().map(|r| r.metric(metric, threads)).collect();
        values.filter(|v| !v.is_empty())
    }
}
