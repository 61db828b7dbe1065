//! Plans of sweeps, and the runs of a plan one by one, for whoever has machines to make them.

use crate::interrupt::{Stop, flags, interruptible};
use crate::{Inputs, json, refused, told};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wattif::Dialect;
use wattif::sweep::{Finished, Question, Store, Sweep, run_local};
use wattif_lab::sweep::{Axis, Sampling};

/// The points of a sweep, and the runs of each.
#[pyclass(frozen, module = "wattif", name = "Plan")]
pub struct Plan(Arc<Sweep>);

fn store(path: &str) -> PyResult<Store> {
    Store::open(Path::new(path)).map_err(told)
}

#[pymethods]
impl Plan {
    #[new]
    fn new(
        py: Python<'_>,
        inputs: Inputs,
        kernel: String,
        axes: Vec<String>,
        seeds: Vec<u64>,
        sample: &str,
        samples: usize,
    ) -> PyResult<Plan> {
        let duration = inputs.asked(&kernel)?.duration;
        let axes: Result<Vec<Axis>, String> = axes.iter().map(|text| Axis::parse(text)).collect();
        let question = Question {
            set: inputs.set.iter().map(|(path, value)| format!("{path}={value}")).collect(),
            workload: inputs.workload,
            platform: inputs.platform,
            kernel,
            axes: axes.map_err(refused)?,
            sampling: Sampling::named(sample, samples).map_err(refused)?,
            seeds,
            duration,
            dialect: Dialect::Workgen,
        };
        py.detach(|| question.plan()).map(|plan| Plan(Arc::new(plan))).map_err(told)
    }

    /// (hash, canonical text) of every run that the store does not have.
    fn missing(&self, py: Python<'_>, path: &str) -> PyResult<Vec<(String, String)>> {
        let store = store(path)?;
        let jobs = py.detach(|| self.0.missing(&store)).map_err(told)?;
        Ok(jobs.into_iter().map(|j| (j.hash, j.spec.canonical())).collect())
    }

    /// Make them, on the cores of this machine; says how many.
    fn run_local(&self, py: Python<'_>, path: String) -> PyResult<usize> {
        let plan = self.0.clone();
        let (stop, flag) = flags();
        let made = interruptible(py, &stop, move || {
            let store = Store::open(Path::new(&path))?;
            let missing = plan.missing(&store)?;
            run_local(&missing, &store, &|| !flag.load(Ordering::Relaxed)).map(|()| missing.len())
        });
        made?.map_err(told)
    }

    /// `wattif.sweep/1`.
    fn table(&self, py: Python<'_>, path: &str, metrics: Vec<String>, pareto: Option<[String; 2]>) -> PyResult<String> {
        let store = store(path)?;
        let table = py.detach(|| self.0.table(&store, &metrics, pareto.as_ref())).map_err(told)?;
        Ok(json(&table))
    }
}

/// Run a canonical text: hash, digest and packed report, for the store.
#[pyfunction]
pub fn execute(py: Python<'_>, canonical: String) -> PyResult<(String, String, Py<PyBytes>)> {
    let done = interruptible(py, &Stop::default(), move || wattif::sweep::execute(&canonical))?.map_err(told)?;
    Ok((done.hash, done.digest, PyBytes::new(py, &done.report).unbind()))
}

/// Keep a result; a second one of the same run changes nothing.
#[pyfunction]
pub fn insert(path: &str, hash: String, digest: String, report: Vec<u8>) -> PyResult<()> {
    store(path)?.insert(&Finished { hash, digest, report }).map_err(told)
}

/// Results in a store, of this version of the model.
#[pyfunction]
pub fn stored(path: &str) -> PyResult<u64> {
    store(path)?.len().map_err(told)
}
