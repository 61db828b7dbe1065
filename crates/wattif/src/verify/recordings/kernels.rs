//! `kernels.json`: what the recorded kernels had set, laid over our profiles of the same names.

use super::case::Case;
use crate::load;
use crate::settings::Settings;
use serde::Deserialize;
use std::collections::BTreeMap;
use wattif_model::kernel::{KernelSpec, Slot, Value};
use wattif_sim::registry::{self, Refusal};
use wattif_sim::sched::features::Features;

/// Kernels by name.
pub type Kernels = BTreeMap<String, Entry>;

/// `kernels.json` as it is.
#[derive(Debug, Deserialize)]
pub struct File {
    /// Not a kernel: how the guests were booted. It documents the recording; nothing in it is simulated.
    #[serde(default, rename = "boot_parameters")]
    _boot_parameters: serde::de::IgnoredAny,
    /// The kernels.
    #[serde(flatten)]
    pub kernels: Kernels,
}

/// A recorded kernel.
#[derive(Debug, Deserialize)]
pub struct Entry {
    /// Such as `6.12.117`.
    pub version: String,
    hz: u32,
    sched_features: Vec<String>,
    migration_cost_ns: i64,
    #[serde(default)]
    nr_migrate: Option<i64>,
    #[serde(default)]
    x86: Option<Arch>,
    #[serde(default)]
    arm64: Option<Arch>,
}

/// What differs by machine.
#[derive(Debug, Deserialize)]
struct Arch {
    /// By `N CPUs`.
    #[serde(default)]
    base_slice_ns: BTreeMap<String, i64>,
    /// CFS, by `N CPUs`.
    #[serde(flatten)]
    by_cpus: BTreeMap<String, serde_json::Value>,
}

/// The profile a case runs under, and the features that the recorded kernel had on and no policy of ours has.
pub fn profile(case: &Case, kernels: &Kernels, nr_cpus: usize, hz: u32) -> Result<(KernelSpec, Vec<String>), String> {
    let entry = kernels.get(&case.kernel).ok_or_else(|| format!("kernels.json has no `{}`", case.kernel))?;
    if entry.hz != hz {
        return Err(format!("kernel `{}` ticks at {} Hz, the platform at {hz}", case.kernel, entry.hz));
    }
    let loaded = load::kernel(&case.kernel, &Settings::default()).map_err(|e| e.to_string())?;
    let mut kernel = loaded.value;
    let left = features(&mut kernel, entry);
    let mut set = |path: &str, value: i64| kernel.tunables.insert(path.to_string(), Value::Int(value));
    set("load_balance.migration_cost_ns", entry.migration_cost_ns);
    if let Some(n) = entry.nr_migrate {
        set("load_balance.nr_migrate", n);
    }
    let arch = if case.platform.contains("arm64") { &entry.arm64 } else { &entry.x86 };
    let cpus = format!("{nr_cpus} CPUs");
    if let Some(arch) = arch {
        if let Some(ns) = arch.base_slice_ns.get(&cpus) {
            set("eevdf.base_slice_ns", *ns);
        }
        let cfs = arch.by_cpus.get(&cpus).and_then(serde_json::Value::as_object).into_iter().flatten();
        for (name, value) in cfs.filter_map(|(name, v)| Some((name, v.as_i64()?))) {
            set(&format!("cfs.{name}"), value);
        }
    }
    governors(&mut kernel, case)?;
    let wrong = registry::check(&kernel);
    if wrong.is_empty() { Ok((kernel, left)) } else { Err(Refusal::join(&wrong, "; ")) }
}

/// Switches on and off what the kernel's list says (`NO_X`: off).
fn features(kernel: &mut KernelSpec, entry: &Entry) -> Vec<String> {
    let mut left = Vec::new();
    for word in &entry.sched_features {
        let (name, on) = word.strip_prefix("NO_").map_or((word.as_str(), true), |name| (name, false));
        if Features::ALL.iter().any(|(known, _)| *known == name) {
            kernel.features.insert(name.to_string(), on);
        } else if on {
            left.push(name.to_string());
        }
    }
    left
}

fn governors(kernel: &mut KernelSpec, case: &Case) -> Result<(), String> {
    if let Some(governor) = &case.governor {
        kernel.policies.insert(Slot::Cpufreq, governor.clone());
    }
    if let Some(governor) = &case.idle_governor {
        kernel.policies.insert(Slot::Cpuidle, governor.clone());
    }
    match (case.eas, case.governor.as_deref()) {
        (Some(true), Some("schedutil")) | (None, _) => Ok(()),
        (Some(true), _) => Err("energy-aware scheduling needs schedutil".into()),
        (Some(false), _) => {
            kernel.tunables.insert("eas.generation".into(), Value::Text("off".into()));
            Ok(())
        }
    }
}
