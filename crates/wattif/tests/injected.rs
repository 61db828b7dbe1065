//! A policy that is handed in does what the same policy does when it is named: nothing of the one that it replaces is left.

use wattif::load;
use wattif::{RunSpec, Settings};
use wattif_formats::rtapp::Dialect;
use wattif_model::Ns;
use wattif_sim::cpufreq::FreqGovernor;
use wattif_sim::cpufreq::powersave::Powersave;
use wattif_sim::cpuidle;
use wattif_sim::simulation::{Injected, simulate, simulate_with};

fn powersave() -> Box<dyn FreqGovernor> {
    Box::new(Powersave::new())
}

/// A tenth of a second of sleepers on `platform`.
fn spec(platform: &str, kernel: &str, set: &[&str]) -> RunSpec {
    let settings = Settings::parse(set).unwrap();
    let platform = load::platform(platform, &settings).unwrap().value;
    let kernel = load::kernel(kernel, &settings).unwrap().value;
    let read = load::workload("sleepers", &platform, Dialect::Workgen, &settings).unwrap();
    RunSpec { platform, workload: read.value.workload, kernel, seed: 1, duration: Ns::from_ms(100) }
}

fn named(spec: &RunSpec) -> String {
    simulate(spec, &mut []).unwrap().digest.to_string()
}

fn with_powersave(spec: &RunSpec) -> String {
    let injected = Injected { cpuidle: None, cpufreq: Some(&powersave) };
    simulate_with(spec, injected, &mut []).unwrap().digest.to_string()
}

/// Under schedutil there is energy-aware placement on big.LITTLE since 5.0, and the governor hears what it hears.
#[test]
fn a_frequency_governor_brings_its_own_kernel() {
    for platform in ["hikey620", "hikey960"] {
        for kernel in ["linux-6.12", "linux-5.3", "android-4.9", "android-4.9-walt"] {
            let expected = named(&spec(platform, kernel, &["cpufreq=powersave"]));
            for replaced in ["schedutil", "performance", "ondemand"] {
                let given = with_powersave(&spec(platform, kernel, &[&format!("cpufreq={replaced}")]));
                assert_eq!(given, expected, "{platform} {kernel} {replaced}");
            }
        }
    }
}

/// The pass that finds out the future is of the same kernel.
#[test]
fn the_oracle_looks_ahead_under_the_governor_that_runs() {
    for platform in ["hikey620", "hikey960"] {
        let expected = named(&spec(platform, "linux-6.12", &["cpuidle=oracle", "cpufreq=powersave"]));
        for replaced in ["schedutil", "performance"] {
            let set = ["cpuidle=oracle", &format!("cpufreq={replaced}")];
            assert_eq!(with_powersave(&spec(platform, "linux-6.12", &set)), expected, "{platform} {replaced}");
        }
    }
}

/// No sleep is free because an oracle stood where another governor runs.
#[test]
fn an_idle_governor_replaces_the_oracle_whole() {
    for replaced in ["oracle", "menu", "teo"] {
        let spec = |idle: &str| spec("hikey960", "linux-6.12", &[&format!("cpuidle={idle}")]);
        let (replaced, ladder) = (spec(replaced), spec("ladder"));
        let tick_ns = cpuidle::tick_nsec(ladder.platform.hz);
        let governor = cpuidle::build("ladder", "", 8, ladder.platform.nr_cpus(), tick_ns);
        let injected = Injected { cpuidle: governor, cpufreq: None };
        let given = simulate_with(&replaced, injected, &mut []).unwrap().digest;
        assert_eq!(given.to_string(), named(&ladder));
    }
}
