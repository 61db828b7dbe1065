//! What is done with the spec of a run (`spec.content` of `wattif run --json`), which `explain`, `compare` and the report's page take from
//! files; the tests replay its corpus with the same call.

use wattif_lab::metrics::Metrics;
use wattif_model::Ns;
use wattif_model::run::RunSpec;
use wattif_sim::simulation::simulate;

/// Longer runs find nothing else.
const LONGEST: Ns = Ns::from_ms(2);
/// Larger machines and more threads are slow, not wrong.
const MOST: u64 = 256;

/// A run or an error, and a spec is what it says of itself. `true`: it ran.
pub fn run(bytes: &[u8]) -> bool {
    let Ok(mut spec) = serde_json::from_slice::<RunSpec>(bytes) else { return false };
    let again: RunSpec = serde_json::from_str(&spec.canonical()).expect("a spec reads what it writes");
    assert_eq!(spec.hash(), again.hash());
    if spec.check().is_err() {
        assert!(simulate(&spec, &mut []).is_err());
        return false;
    }
    let threads = spec.workload.tasks.iter().map(|t| u64::from(t.instances)).sum::<u64>();
    if threads.max(spec.platform.nr_cpus() as u64) > MOST {
        return false;
    }
    spec.duration = spec.duration.min(LONGEST);
    let mut metrics = Metrics::new(&spec);
    let ran = simulate(&spec, &mut [&mut metrics]).is_ok();
    if ran {
        metrics.into_report();
    }
    ran
}
