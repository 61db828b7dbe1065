//! What a profile-guided build counts (`cargo xtask pgo`): models of phones, servers and the gallery on several platforms and
//! kernels, none of which is a case of `cargo xtask bench`.

use crate::cases::named;
use wattif_model::Ns;
use wattif_sim::simulation::simulate;

/// Workload, platform, kernel, simulated ms.
const RUNS: &[(&str, &str, &str, u64)] = &[
    ("phone", "pixel6", "android-6.6", 4_000),
    ("video", "pixel6", "android-6.6", 8_000),
    ("game", "pixel6", "android-6.6", 4_000),
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
    for &(workload, platform, kernel, ms) in RUNS {
        let spec = named(workload, platform, kernel, Ns::from_ms(ms))?;
        simulate(&spec, &mut []).map_err(|e| e.to_string())?;
        wattif::run::run_all(&[spec], &|| true).map_err(|e| e.to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_is_well_formed() {
        for &(workload, platform, kernel, ms) in RUNS {
            let spec = named(workload, platform, kernel, Ns::from_ms(ms)).expect(workload);
            assert!(!spec.workload.tasks.is_empty());
        }
    }
}
