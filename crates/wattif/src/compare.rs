//! Running a comparison: every kernel on every seed, and what makes it reproducible.

use crate::error::Error;
use crate::run::{Done, run_all};
use std::collections::BTreeMap;
use wattif_lab::compare::{Comparison, fold, headline_metrics};
use wattif_lab::metrics::RunReport;
use wattif_model::run::RunSpec;

/// Reports and digests, a list per kernel, a seed each.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    reports: Vec<Vec<RunReport>>,
    digests: Vec<Vec<String>>,
}

impl Runs {
    /// Runs of these seeds under every kernel, on all cores; `done` is called after each.
    pub fn simulate(specs: &[RunSpec], seeds: &[u64], done: Done<'_>) -> Result<Runs, Error> {
        let all: Vec<RunSpec> =
            specs.iter().flat_map(|s| seeds.iter().map(|&seed| RunSpec { seed, ..s.clone() })).collect();
        let mut outcomes = run_all(&all, done)?.into_iter();
        let mut runs = Runs::default();
        for _ in specs {
            let of = outcomes.by_ref().take(seeds.len()).map(|o| (o.report, o.summary.digest));
            let (reports, digests) = of.unzip();
            runs.reports.push(reports);
            runs.digests.push(digests);
        }
        Ok(runs)
    }

    /// More seeds of the same kernels.
    pub fn add(&mut self, more: Runs) {
        if self.reports.is_empty() {
            *self = more;
            return;
        }
        self.reports.iter_mut().zip(more.reports).for_each(|(all, more)| all.extend(more));
        self.digests.iter_mut().zip(more.digests).for_each(|(all, more)| all.extend(more));
    }

    /// Runs of each kernel.
    pub fn seeds(&self) -> usize {
        self.reports.first().map_or(0, Vec::len)
    }

    /// The headline metrics, and those that are `named`.
    pub fn compared(
        &self,
        specs: &[RunSpec],
        set: BTreeMap<String, String>,
        seeds: &[u64],
        named: &[String],
    ) -> Comparison {
        let kernels: Vec<String> = specs.iter().map(|s| s.kernel.name.clone()).collect();
        let mut names = headline_metrics(&self.reports);
        for name in named {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        fold(self.spec_json(specs, set, seeds), &kernels, &names, &self.reports)
    }

    fn spec_json(&self, specs: &[RunSpec], set: BTreeMap<String, String>, seeds: &[u64]) -> serde_json::Value {
        let spec = &specs[0];
        let hashes: Vec<String> = specs.iter().map(RunSpec::hash).collect();
        // One digest per kernel: of the digests of its runs, in the order of the seeds.
        let one = |of: &Vec<String>| blake3::hash(of.join("\n").as_bytes()).to_hex()[..16].to_string();
        serde_json::json!({
            "version": env!("CARGO_PKG_VERSION"),
            "platform": spec.platform.name,
            "workload": spec.workload.name,
            "duration_s": spec.duration.as_s_f64(),
            "seeds": seeds,
            "set": set,
            "hashes_of_first_seed": hashes,
            "digests": self.digests.iter().map(one).collect::<Vec<_>>(),
            "content": specs,
            "trust": spec.platform.trust,
        })
    }
}
