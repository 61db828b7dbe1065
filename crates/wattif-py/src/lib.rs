//! The Python package: a thin layer over the facade, without logic of its own. What it gives back are the JSON objects of the
//! command line, and Arrow tables. `python/wattif` makes it pleasant.

mod governors;
mod interrupt;
mod runs;
mod sweeps;
mod table;

use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use wattif::load::Asked;
use wattif::{Dialect, Look, Ns, Settings};

create_exception!(wattif, WattifError, PyValueError, "Bad input: the message says what and where.");

/// The command line's words as an exception.
fn told(error: wattif::Error) -> PyErr {
    let text = error.render(Look::PLAIN);
    WattifError::new_err(text.trim_end().trim_start_matches("error: ").to_string())
}

fn refused(why: String) -> PyErr {
    WattifError::new_err(why)
}

/// What to run, as Python says it: all but the kernel.
#[derive(Clone, FromPyObject)]
#[pyo3(from_item_all)]
struct Inputs {
    workload: String,
    platform: String,
    seed: u64,
    duration: Option<String>,
    set: BTreeMap<String, String>,
    dialect: String,
}

impl Inputs {
    fn asked(&self, kernel: &str) -> PyResult<Asked> {
        Ok(Asked {
            workload: self.workload.clone(),
            platform: self.platform.clone(),
            kernel: kernel.to_string(),
            settings: self.settings(),
            seed: self.seed,
            duration: length(self.duration.as_deref())?,
            dialect: dialect(&self.dialect)?,
        })
    }
    fn settings(&self) -> Settings {
        let mut settings = Settings::default();
        self.set.iter().for_each(|(path, value)| settings.add(path, value));
        settings
    }
}

fn length(text: Option<&str>) -> PyResult<Option<Ns>> {
    text.map(wattif::settings::duration_ns).transpose().map(|ns| ns.map(Ns)).map_err(refused)
}

/// As `--dialect` of the command line.
fn dialect(name: &str) -> PyResult<Dialect> {
    Dialect::parse(name).ok_or_else(|| unknown("dialect", name, &Dialect::ALL.map(Dialect::name)))
}

fn unknown(what: &'static str, name: &str, known: &[&str]) -> PyErr {
    told(wattif::Error::unknown(what, name, known.iter().copied(), "help(wattif)"))
}

/// As text for Python's `json`.
fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("reports are string-keyed")
}

/// Names of platforms, kernels or workloads.
#[pyfunction]
fn names(kind: &str) -> PyResult<Vec<String>> {
    use wattif::data::{Collection, workload_names};
    use wattif_sim::registry::POLICIES;
    let owned = |names: Vec<&str>| names.into_iter().map(String::from).collect();
    match kind {
        "platforms" => Ok(owned(Collection::Platforms.names())),
        "kernels" => Ok(owned(Collection::Kernels.names())),
        "workloads" => Ok(workload_names()),
        "policies" => Ok(owned(POLICIES.iter().map(|p| p.name).collect())),
        _ => Err(unknown("collection", kind, &["platforms", "kernels", "workloads", "policies"])),
    }
}

/// Refuses metrics that do not exist.
#[pyfunction]
fn check_metrics(names: Vec<String>) -> PyResult<()> {
    wattif::Error::unless_metrics(&names).map_err(told)
}

/// Statistics, to be held against scipy: (BCa interval of the mean, sign-flip p, Holm's p of the values).
#[pyfunction]
fn statistics(values: Vec<f64>) -> (Option<[f64; 2]>, f64, Vec<f64>) {
    use wattif_lab::stats::{bca_mean, holm, sign_flip_p};
    (bca_mean(&values), sign_flip_p(&values), holm(&values))
}

/// Ratio of two paired samples, to be held against scipy: (value, BCa interval, p, Cohen's d of the differences).
#[pyfunction]
fn ratio(variant: Vec<f64>, baseline: Vec<f64>) -> (f64, Option<[f64; 2]>, f64, f64) {
    use wattif_lab::stats::{cohens_dz, paired_ratio};
    let found = paired_ratio(&variant, &baseline);
    (found.value, found.ci95, found.p, cohens_dz(&variant, &baseline))
}

/// The first 64 bits of the BLAKE3 of a text: 16 hexadecimal digits.
#[pyfunction]
fn hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..16].to_string()
}

#[pymodule]
fn _wattif(py: Python<'_>, m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add("MODEL", wattif::sweep::MODEL)?;
    m.add("WattifError", py.get_type::<WattifError>())?;
    m.add_class::<table::Table>()?;
    m.add_class::<runs::RawRun>()?;
    m.add_class::<sweeps::Plan>()?;
    m.add_class::<governors::State>()?;
    m.add_class::<governors::Signals>()?;
    m.add_function(wrap_pyfunction!(runs::run, m)?)?;
    m.add_function(wrap_pyfunction!(runs::spec, m)?)?;
    m.add_function(wrap_pyfunction!(runs::compare, m)?)?;
    m.add_function(wrap_pyfunction!(runs::explain, m)?)?;
    m.add_function(wrap_pyfunction!(runs::replay, m)?)?;
    m.add_function(wrap_pyfunction!(sweeps::tune, m)?)?;
    m.add_function(wrap_pyfunction!(sweeps::execute, m)?)?;
    m.add_function(wrap_pyfunction!(sweeps::insert, m)?)?;
    m.add_function(wrap_pyfunction!(sweeps::stored, m)?)?;
    m.add_function(wrap_pyfunction!(names, m)?)?;
    m.add_function(wrap_pyfunction!(check_metrics, m)?)?;
    m.add_function(wrap_pyfunction!(statistics, m)?)?;
    m.add_function(wrap_pyfunction!(ratio, m)?)?;
    m.add_function(wrap_pyfunction!(hash, m)?)
}
