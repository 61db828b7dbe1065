//! run, compare, explain.

use crate::governors::{Failed, PyFreq, PyIdle, made};
use crate::interrupt::{Stop, flags, interruptible};
use crate::table::Table;
use crate::{Inputs, json, length, refused, told};
use arrow_array::RecordBatch;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use wattif::compare::{Runs, cover_letter};
use wattif::explain::{Reruns, explain as explain_runs, same_inputs};
use wattif::load::with_parameters;
use wattif::replay::{Question, look_at, policy_of_thread};
use wattif::run::{Outcome, RunJson, run_with};
use wattif::tables::{self, RunTables, with_views};
use wattif::{Error, RunSpec};
use wattif_model::kernel::Slot;
use wattif_sim::cpufreq::FreqGovernor;
use wattif_sim::cpuidle::IdleGovernor;
use wattif_sim::simulation::Injected;

/// A finished run.
#[pyclass(frozen, module = "wattif", name = "RawRun")]
pub struct RawRun {
    #[pyo3(get)]
    json: String,
    tables: BTreeMap<&'static str, RecordBatch>,
}

#[pymethods]
impl RawRun {
    /// One of the tables of the run, if it was kept.
    fn table(&self, name: &str) -> Option<Table> {
        self.tables.get(name).map(|batch| Table::new(batch.clone()))
    }
    /// Names of all that were.
    fn names(&self) -> Vec<&'static str> {
        self.tables.keys().copied().collect()
    }
}

/// A policy of the user: its name with the hash of its source, and the class that makes it.
type Own = (String, Py<PyAny>);

/// One run.
#[pyfunction]
#[pyo3(signature = (inputs, kernel, events, idle = None, freq = None))]
pub fn run(
    py: Python<'_>,
    inputs: Inputs,
    kernel: &str,
    events: Vec<String>,
    idle: Option<Own>,
    freq: Option<Own>,
) -> PyResult<RawRun> {
    let asked = inputs.asked(kernel)?;
    let (spec, findings) = py.detach(|| asked.spec()).map_err(told)?;
    let tables = RunTables::new(&events, &spec).map_err(told)?;
    let mut named = spec.clone();
    for (slot, own) in [(Slot::Cpuidle, &idle), (Slot::Cpufreq, &freq)] {
        if let Some((name, _)) = own {
            named.kernel.policies.insert(slot, name.clone());
        }
    }
    let stop = Stop::default();
    let failed = Failed::new(&stop);
    let (seen, flag) = (failed.clone(), stop.clone());
    // A thread that stays known to the interpreter calls into it at a fraction of the price.
    let played = interruptible(py, &stop, move || {
        Python::attach(|py| py.detach(|| play(&spec, tables, [idle, freq], &seen, &flag)))
    })?;
    if let Some(error) = failed.take() {
        return Err(error);
    }
    let (outcome, tables) = played.map_err(told)?;
    Ok(RawRun {
        json: json(&RunJson::new(
            &named,
            with_parameters(&asked.workload, asked.settings.clone()).to_map(),
            &findings,
            &outcome,
        )),
        tables,
    })
}

fn play(
    spec: &RunSpec,
    mut tables: RunTables,
    [idle, freq]: [Option<Own>; 2],
    failed: &Failed,
    stop: &AtomicBool,
) -> Result<(Outcome, BTreeMap<&'static str, RecordBatch>), Error> {
    let cpuidle = idle.and_then(|(_, class)| PyIdle::new(&made(&class, failed)?, failed.clone()));
    let cpuidle = cpuidle.map(|governor| Box::new(governor) as Box<dyn IdleGovernor>);
    let make = || -> Box<dyn FreqGovernor> {
        let object = freq.as_ref().and_then(|(_, class)| made(class, failed));
        Box::new(PyFreq::new(object, failed.clone()))
    };
    let injected = Injected { cpuidle, cpufreq: freq.is_some().then_some(&make) };
    let outcome = run_with(spec, injected, &mut [&mut tables], stop)?;
    let batches = tables.into_batches(&outcome.report);
    Ok((outcome, batches.iter().map(|(name, batch)| (*name, with_views(batch))).collect()))
}

/// The canonical text of a run.
#[pyfunction]
pub fn spec(py: Python<'_>, inputs: Inputs, kernel: &str) -> PyResult<String> {
    let asked = inputs.asked(kernel)?;
    py.detach(|| asked.spec()).map(|(spec, _)| spec.canonical()).map_err(told)
}

/// Runs from their canonical texts, which must differ in nothing but the kernel.
fn alike(texts: &[String]) -> PyResult<Vec<RunSpec>> {
    let read = |text: &String| serde_json::from_str(text).map_err(|e| refused(format!("no RunSpec: {e}")));
    let specs: Vec<RunSpec> = texts.iter().map(read).collect::<PyResult<_>>()?;
    for spec in &specs {
        if let Some(own) = spec.kernel.policies.values().find(|name| name.starts_with("python:")) {
            let why = format!("a run used the governor {own}, which is written in Python: only wattif.run can use it");
            return Err(refused(why));
        }
    }
    specs[1..].iter().try_for_each(|other| same_inputs(&specs[0], other)).map_err(told)?;
    Ok(specs)
}

/// `wattif.compare/1`, the same as text, as Markdown and as a table.
#[pyfunction]
pub fn compare(
    py: Python<'_>,
    specs: Vec<String>,
    set: BTreeMap<String, String>,
    seeds: Vec<u64>,
    metrics: Vec<String>,
    command: &str,
) -> PyResult<(String, String, String, Table)> {
    let specs = alike(&specs)?;
    let (stop, flag) = flags();
    let command = command.to_string();
    let found = interruptible(py, &stop, move || {
        let runs = Runs::simulate(&specs, &seeds, &|| !flag.load(Ordering::Relaxed))?;
        let found = runs.compared(&specs, set, &seeds, &metrics);
        let letter = cover_letter(&found, &specs, &seeds, &command);
        Ok((found, letter))
    });
    let (found, letter) = found?.map_err(told)?;
    let table = Table::new(with_views(&tables::comparison(&found)));
    Ok((json(&found), found.to_text(), letter, table))
}

/// `wattif.explain/1`, and the same as text.
#[pyfunction]
#[pyo3(signature = (specs, seeds, rerun, metrics))]
pub fn explain(
    py: Python<'_>,
    specs: [String; 2],
    seeds: u64,
    rerun: Option<&str>,
    metrics: Vec<String>,
) -> PyResult<(String, String)> {
    let specs = alike(&specs)?;
    let reruns = Reruns { seeds, duration: length(rerun)?, metrics };
    let (stop, flag) = flags();
    let found = interruptible(py, &stop, move || {
        explain_runs([&specs[0], &specs[1]], &reruns, &|| !flag.load(Ordering::Relaxed))
    });
    let found = found?.map_err(told)?;
    Ok((json(&found), found.to_text()))
}

/// `wattif.replay/1`, or `wattif.recorded/1` where no kernel is named; and the comparison as text.
#[pyfunction]
#[pyo3(signature = (trace, kernels, platform, recorded_kernel, seeds, set, policies))]
pub fn replay(
    py: Python<'_>,
    trace: String,
    kernels: Vec<String>,
    platform: Option<String>,
    recorded_kernel: Option<String>,
    seeds: Vec<u64>,
    set: BTreeMap<String, String>,
    policies: Vec<String>,
) -> PyResult<(String, Option<String>)> {
    let mut settings = wattif::Settings::default();
    set.iter().for_each(|(path, value)| settings.add(path, value));
    let policies = policies.iter().map(|p| policy_of_thread(p)).collect::<Result<_, String>>().map_err(refused)?;
    let question = Question { trace, kernels, recorded_kernel, seeds, settings, policies };
    let (stop, flag) = flags();
    let found = interruptible(py, &stop, move || {
        let looked = look_at(&question.trace, platform.as_deref(), &question.settings)?;
        if question.kernels.is_empty() && question.recorded_kernel.is_none() {
            return Ok((looked.to_json(), None));
        }
        let replayed = wattif::replay::replay(&question, looked, &flag)?;
        Ok((replayed.to_json(), replayed.comparison.as_ref().map(|c| c.to_text())))
    });
    let (object, text) = found?.map_err(told)?;
    Ok((json(&object), text))
}
