//! run, compare, explain.

use crate::events::Events;
use crate::governors::{Failed, PyFreq, PyIdle, made};
use crate::interrupt::{Stop, flags, interruptible};
use crate::table::Table;
use crate::{Inputs, json, length, told};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use wattif::compare::Runs;
use wattif::explain::{Reruns, explain as explain_runs};
use wattif::load::Asked;
use wattif::run::{Outcome, RunJson, run_with};
use wattif::{Ns, RunSpec};
use wattif_model::kernel::Slot;
use wattif_sim::cpufreq::FreqGovernor;
use wattif_sim::cpuidle::IdleGovernor;
use wattif_sim::simulation::Injected;

/// A finished run.
#[pyclass(frozen, module = "wattif", name = "RawRun")]
pub struct RawRun {
    #[pyo3(get)]
    json: String,
    events: Events,
}

#[pymethods]
impl RawRun {
    /// One of the tables of a run.
    fn table(&self, name: &str) -> PyResult<Table> {
        self.events.table(name)
    }
}

/// A policy of the user: its name with the hash of its source, and the class that makes it.
type Own = (String, Py<PyAny>);

/// One run.
#[pyfunction]
#[pyo3(signature = (inputs, kernel, idle = None, freq = None))]
pub fn run(py: Python<'_>, inputs: Inputs, kernel: &str, idle: Option<Own>, freq: Option<Own>) -> PyResult<RawRun> {
    let asked = inputs.asked(kernel)?;
    let (spec, findings) = py.detach(|| asked.spec()).map_err(told)?;
    let mut named = spec.clone();
    for (slot, own) in [(Slot::Cpuidle, &idle), (Slot::Cpufreq, &freq)] {
        if let Some((name, _)) = own {
            named.kernel.policies.insert(slot, name.clone());
        }
    }
    let stop = Stop::default();
    let failed = Failed::new(&stop);
    let (seen, flag) = (failed.clone(), stop.clone());
    let played = interruptible(py, &stop, move || play(&spec, idle, freq, &seen, &flag))?;
    if let Some(error) = failed.take() {
        return Err(error);
    }
    let (outcome, events) = played.map_err(told)?;
    Ok(RawRun { json: json(&RunJson::new(&named, asked.settings.to_map(), &findings, &outcome)), events })
}

fn play(
    spec: &RunSpec,
    idle: Option<Own>,
    freq: Option<Own>,
    failed: &Failed,
    stop: &AtomicBool,
) -> Result<(Outcome, Events), wattif::Error> {
    let mut events = Events::default();
    let cpuidle = idle.and_then(|(_, class)| made(&class, failed));
    let cpuidle = cpuidle.map(|object| Box::new(PyIdle::new(object, failed.clone())) as Box<dyn IdleGovernor>);
    let make = || -> Box<dyn FreqGovernor> {
        let object = freq.as_ref().and_then(|(_, class)| made(class, failed));
        Box::new(PyFreq::new(object, failed.clone()))
    };
    let injected = Injected { cpuidle, cpufreq: freq.is_some().then_some(&make) };
    run_with(spec, injected, &mut [&mut events], stop).map(|outcome| (outcome, events))
}

fn specs(asked: &[Asked]) -> Result<Vec<RunSpec>, wattif::Error> {
    asked.iter().map(|a| a.spec().map(|(spec, _)| spec)).collect()
}

/// `wattif.compare/1`, and the same as text and Markdown.
#[pyfunction]
pub fn compare(
    py: Python<'_>,
    inputs: Inputs,
    kernels: Vec<String>,
    seeds: Vec<u64>,
    metrics: Vec<String>,
) -> PyResult<(String, String, String)> {
    let asked = kernels.iter().map(|k| inputs.asked(k)).collect::<PyResult<Vec<_>>>()?;
    let (stop, flag) = flags();
    let found = interruptible(py, &stop, move || {
        let specs = specs(&asked)?;
        let runs = Runs::simulate(&specs, &seeds, &|| !flag.load(Ordering::Relaxed))?;
        Ok(runs.compared(&specs, inputs.settings().to_map(), &seeds, &metrics))
    });
    let found = found?.map_err(told)?;
    Ok((json(&found), found.to_text(), found.to_markdown()))
}

/// `wattif.explain/1`, and the same as text.
#[pyfunction]
pub fn explain(
    py: Python<'_>,
    inputs: Inputs,
    kernels: [String; 2],
    seeds: u64,
    rerun: &str,
    metrics: Vec<String>,
) -> PyResult<(String, String)> {
    let asked = [inputs.asked(&kernels[0])?, inputs.asked(&kernels[1])?];
    let reruns = Reruns { seeds, duration: length(Some(rerun))?.unwrap_or(Ns::ZERO), metrics };
    let (stop, flag) = flags();
    let found = interruptible(py, &stop, move || {
        let specs = specs(&asked)?;
        explain_runs([&specs[0], &specs[1]], &reruns, &|| !flag.load(Ordering::Relaxed))
    });
    let found = found?.map_err(told)?;
    Ok((json(&found), found.to_text()))
}
