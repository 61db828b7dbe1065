//! Plans of sweeps, and the runs of a plan one by one, for whoever has machines to make them.

use crate::interrupt::{Progress, flags, interruptible, progressing};
use crate::table::Table;
use crate::{Inputs, json, refused, told};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use wattif::load::Asked;
use wattif::sweep::{Finished, Question, Store, Sweep, run_local};
use wattif::tables::{self, with_views};
use wattif::tune::{Search, Tuning};
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
        kernel: &str,
        axes: Vec<String>,
        seeds: Vec<u64>,
        sample: &str,
        samples: usize,
    ) -> PyResult<Plan> {
        let sampling = Sampling::named(sample, samples).map_err(refused)?;
        let question = question(inputs, kernel, &axes, sampling, seeds)?;
        py.detach(|| question.plan()).map(|plan| Plan(Arc::new(plan))).map_err(told)
    }

    /// Refuses a front of figures that cannot be compared.
    fn check_front(&self, front: [String; 2]) -> PyResult<()> {
        self.0.check_front(&front).map_err(told)
    }

    /// (hash, canonical text) of every run that the store does not have.
    fn missing(&self, py: Python<'_>, path: &str) -> PyResult<Vec<(String, String)>> {
        let store = store(path)?;
        let jobs = py.detach(|| self.0.missing(&store)).map_err(told)?;
        Ok(jobs.into_iter().map(|j| (j.hash, j.spec.canonical())).collect())
    }

    /// Make them, on the cores of this machine; says how many. `tell(done, total)` is called meanwhile.
    fn run_local(&self, py: Python<'_>, path: String, tell: Option<Py<PyAny>>) -> PyResult<usize> {
        let (plan, store) = (self.0.clone(), store(&path)?);
        let missing = py.detach(|| plan.missing(&store)).map_err(told)?;
        let (total, (stop, flag)) = (missing.len(), flags());
        let progress = Progress::new(tell, total);
        let steps = progress.clone();
        let made = progressing(py, &stop, &progress, move || {
            run_local(&missing, &store, &|| {
                steps.step();
                !flag.load(Ordering::Relaxed)
            })
        });
        made?.map_err(told).map(|()| total)
    }

    /// `wattif.sweep/1`, and the same as a table.
    fn table(
        &self,
        py: Python<'_>,
        path: &str,
        metrics: Vec<String>,
        pareto: Option<[String; 2]>,
    ) -> PyResult<(String, Table)> {
        let store = store(path)?;
        let found = py.detach(|| self.0.table(&store, &metrics, pareto.as_ref())).map_err(told)?;
        Ok((json(&found), Table::new(with_views(&tables::sweep(&found)))))
    }
}

/// A search in Python: a function that takes the first line and gives a generator of answers.
struct Conversation {
    begin: Py<PyAny>,
    generator: Option<Py<PyAny>>,
    raised: Arc<Mutex<Option<PyErr>>>,
}

impl Search for Conversation {
    fn say(&mut self, line: &str) -> Result<String, wattif::Error> {
        let said = Python::attach(|py| match &self.generator {
            Some(generator) => generator.call_method1(py, "send", (line,))?.extract(py),
            None => {
                let generator = self.begin.call1(py, (line,))?;
                let first = generator.call_method0(py, "__next__")?.extract(py);
                self.generator = Some(generator);
                first
            }
        });
        said.map_err(|e: PyErr| {
            let why = wattif::Error::Usage(format!("the search has ended: {e}"));
            if let Ok(mut raised) = self.raised.lock() {
                *raised = Some(e);
            }
            why
        })
    }
}

/// `wattif.tune/1`; `held_out` is how many seeds beyond those of the trials.
#[pyfunction]
#[pyo3(signature = (inputs, kernel, axes, objectives, *, trials, population, search_seed, seeds, held_out, path, search, tell))]
pub fn tune(
    py: Python<'_>,
    inputs: Inputs,
    kernel: &str,
    axes: Vec<String>,
    objectives: Vec<String>,
    trials: u64,
    population: u64,
    search_seed: u64,
    seeds: Vec<u64>,
    held_out: u64,
    path: String,
    search: Py<PyAny>,
    tell: Option<Py<PyAny>>,
) -> PyResult<String> {
    let held_out = Tuning::held_out(&seeds, held_out).map_err(told)?;
    let question = question(inputs, kernel, &axes, Sampling::Grid, seeds)?;
    let tuning = Tuning { question, objectives, trials, population, search_seed, held_out };
    let raised: Arc<Mutex<Option<PyErr>>> = Arc::default();
    let mut search = Conversation { begin: search, generator: None, raised: raised.clone() };
    let (stop, flag) = flags();
    let progress = Progress::new(tell, tuning.runs());
    let steps = progress.clone();
    let tuned = progressing(py, &stop, &progress, move || {
        tuning.question.plan_one()?;
        let store = Store::open(Path::new(&path))?;
        tuning.run(&store, &mut search, &|| {
            steps.step();
            !flag.load(Ordering::Relaxed)
        })
    })?;
    if let Some(raised) = raised.lock().ok().and_then(|mut raised| raised.take()) {
        return Err(raised);
    }
    Ok(json(&tuned.map_err(told)?))
}

fn question(inputs: Inputs, kernel: &str, axes: &[String], sampling: Sampling, seeds: Vec<u64>) -> PyResult<Question> {
    let Asked { duration, dialect, .. } = inputs.asked(kernel)?;
    let axes: Result<Vec<Axis>, String> = axes.iter().map(|text| Axis::parse(text)).collect();
    Ok(Question {
        set: inputs.set.iter().map(|(path, value)| format!("{path}={value}")).collect(),
        workload: inputs.workload,
        platform: inputs.platform,
        kernel: kernel.to_string(),
        axes: axes.map_err(refused)?,
        sampling,
        seeds,
        duration,
        dialect,
    })
}

/// Run a canonical text: hash, digest and packed report, for the store.
#[pyfunction]
pub fn execute(py: Python<'_>, canonical: String) -> PyResult<(String, String, Py<PyBytes>)> {
    let (stop, flag) = flags();
    let done = interruptible(py, &stop, move || wattif::sweep::execute(&canonical, &flag))?.map_err(told)?;
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
