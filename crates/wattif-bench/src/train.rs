//! What a profile-guided build counts (`cargo xtask pgo`): models of phones, servers and the gallery on several platforms and
//! kernels, none of which is a case of `cargo xtask bench`.

use wattif::load;
use wattif::settings::Settings;
use wattif_formats::rtapp::Dialect;
use wattif_model::Ns;
use wattif_model::run::RunSpec;
use wattif_sim::simulation::simulate;

/// Workload, platform, kernel, simulated ms.
const RUNS: &[(&str, &str, &str, u64)] = &[
    ("phone", "pixel6", "android-6.6", 4_000),
    ("video", "pixel6", "android-6.6", 8_000),
    ("game", "mt6897", "android-6.6", 4_000),
    ("jankbench", "sdm835", "android-4.9", 4_000),
    ("jankbench", "sdm835", "android-4.9-walt", 4_000),
    ("phone", "hikey620", "linux-5.6", 8_000),
    ("phone", "hikey620", "linux-6.12", 4_000),
    ("server", "hikey960", "linux-6.1", 4_000),
    ("pgbench", "power9_2s16c", "linux-5.6", 500),
    ("schbench", "xeon_icx", "linux-6.12", 500),
    ("hackbench", "epyc_milan", "linux-6.12", 500),
];

/// Every run twice: by itself, and with all metrics.
pub fn all() -> Result<(), String> {
    for run in RUNS {
        let spec = spec(run)?;
        simulate(&spec, &mut []).map_err(|e| e.to_string())?;
        wattif::run::run_all(&[spec], &|| true).map_err(|e| e.to_string())?;
    }
    Ok(())
}

fn spec(&(workload, platform, kernel, ms): &(&str, &str, &str, u64)) -> Result<RunSpec, String> {
    let none = Settings::default();
    let platform = load::platform(platform, &none).map_err(|e| e.to_string())?.value;
    let workload = load::workload(workload, platform.nr_cpus(), Dialect::Workgen, &none).map_err(|e| e.to_string())?;
    Ok(RunSpec {
        platform,
        workload: workload.value.workload,
        kernel: load::kernel(kernel, &none).map_err(|e| e.to_string())?.value,
        seed: 1,
        duration: Ns::from_ms(ms),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_is_well_formed() {
        for run in RUNS {
            let spec = spec(run).expect(run.0);
            assert!(!spec.workload.tasks.is_empty());
        }
    }
}
