//! The oracle of idle states: it is as good as it says, and no governor is better.

mod runs;

use runs::{NO_COSTS, interrupts_take_no_time, policies, sleepy, spec};
use wattif::data::Source;
use wattif::load;
use wattif::run::run;
use wattif::settings::Settings;
use wattif_model::kernel::Slot;
use wattif_model::run::RunSpec;

/// The bound of every run lies below what its idle periods took, whatever the governor, the states and the workload.
#[test]
fn no_governor_beats_the_oracle() {
    let platforms = ["hikey620", "power9_2s16c", "core_i7_2600k", "pixel6", "juno_r0", "xeon_icx"];
    let mut compared = 0;
    for (i, governor) in policies(Slot::Cpuidle).into_iter().enumerate() {
        for (j, platform) in platforms.into_iter().enumerate() {
            let model = ["schbench", "pgbench", "ebizzy", "server"][(i + j) % 4];
            // Also where governors enter what is disabled, or have nothing to choose from.
            let off = format!("platform.clusters.*.idle.{}.disabled", ["0", "1", "*"][(i + j) % 3]);
            let settings = [("cpuidle", governor), (off.as_str(), if i % 2 == 0 { "false" } else { "true" })];
            let spec = sleepy(platform, model, &settings, (i + 7 * j) as u64);
            let report = run(&spec, &mut []).expect("runs").report;
            let oracle = report.metrics.oracle.expect("somebody slept");
            let (least, actual) = (oracle.energy.expect("powers"), oracle.idle_energy.expect("powers"));
            assert!(0.0 < least && least <= actual, "{governor} on {platform}, {model}: {actual} below {least}");
            compared += 1;
        }
    }
    assert!(compared >= 30, "{compared} runs");
}

/// Neither does its own run, where hardware threads share the states that it chooses.
#[test]
fn nor_does_the_oracle_where_threads_share_states() {
    for (i, platform) in ["power9_2s16c", "xeon_icx", "core_i7_2600k"].into_iter().enumerate() {
        for (j, model) in ["schbench", "pgbench", "ebizzy", "server"].into_iter().enumerate() {
            let spec = sleepy(platform, model, &[("cpuidle", "oracle")], (i + 5 * j) as u64);
            let oracle = run(&spec, &mut []).expect("runs").report.metrics.oracle.expect("somebody slept");
            let (least, actual) = (oracle.energy.expect("powers"), oracle.idle_energy.expect("powers"));
            assert!(least <= actual, "{platform}, {model}: {actual} below {least}");
        }
    }
}

/// One core of two threads: 100 mW busy, 50 mW in WFI, 1 mW in a state of the core that takes 100 µs in and 100 µs out.
const ONE_CORE: &str = r#"
name = "one_core"
title = "one core of two threads"
hz = 100
timer_slack_us = 0
smt_share = [1024, 640]
[power]
unit = "measured"
sourced = false
[topology]
core = ["0-1"]
llc = ["0-1"]
[[domain]]
cpus = "0-1"
core = "x"
capacity = 1024
transition_us = 10
opps = [{ khz = 1_000_000, uv = 720_000, active_uw = 100_000, static_uw = 0, idle_uw = [50_000, 1_000] }]
[[cluster]]
cpus = "0-1"
idle = [
  { name = "WFI", scope = "cpu", advertised = { exit_us = 1, residency_us = 1 }, actual = { entry_us = 0, exit_us = 0 } },
  { name = "deep", scope = "core", advertised = { exit_us = 100, residency_us = 300 }, actual = { entry_us = 100, exit_us = 100 } },
]
"#;

/// A core draws its deep power only while both of its threads sleep, and whoever knew that needs the least.
#[test]
fn the_oracle_shares_a_core() {
    let source = Source { name: "one_core.toml".into(), text: [ONE_CORE, NO_COSTS].concat().into() };
    let platform = load::platform_of(source, &Settings::default()).expect("valid").value;
    for delay in [0, 300, 2500] {
        let text = format!(
            r#"{{ "tasks": {{ "a": {{ "cpus": [0], "run": 1000, "timer": {{ "ref": "unique", "period": 5000 }} }},
                "b": {{ "cpus": [1], "delay": {delay}, "run": 1000, "timer": {{ "ref": "unique", "period": 5000 }} }} }} }}"#
        );
        let energy = |governor: &str| {
            let mut spec = RunSpec { platform: platform.clone(), ..spec("hikey620", "linux-6.12", &text, 1) };
            spec.kernel.policies.insert(Slot::Cpuidle, governor.into());
            interrupts_take_no_time(&mut spec);
            let report = run(&spec, &mut []).expect("runs").report;
            (report.metrics.energy.expect("powers").cpus.iter().sum::<f64>(), report.metrics.oracle.expect("slept"))
        };
        let (best, own) = energy("oracle");
        assert!(own.energy_excess_pct.is_some_and(|pct| pct > -1e-9), "{delay}: {own:?}");
        for governor in policies(Slot::Cpuidle).into_iter().filter(|g| *g != "oracle") {
            let (needed, of) = energy(governor);
            assert!(best <= needed * 1.0001, "{delay}: {governor} needs {needed}, the oracle {best}");
            assert!(of.energy_excess_pct.is_some_and(|pct| pct > -1e-9), "{delay}, {governor}: {of:?}");
        }
    }
}

/// Where no state and no power is shared with other CPUs the run that knows the future meets the bound, and is never late.
#[test]
fn the_oracle_meets_its_bound() {
    for (platform, model) in [("juno_r0", "server"), ("hikey620", "pgbench"), ("pixel6", "schbench")] {
        let settings = [("cpuidle", "oracle"), ("cpufreq", "performance")];
        let mut spec = sleepy(platform, model, &settings, 3);
        for state in spec.platform.clusters.iter_mut().flat_map(|c| &mut c.idle) {
            state.disabled |= state.scope != wattif_model::platform::Scope::Cpu;
        }
        for domain in &mut spec.platform.domains {
            domain.power.cluster_busy_uw.clear();
            domain.power.cluster_idle_uw.clear();
        }
        interrupts_take_no_time(&mut spec);
        let report = run(&spec, &mut []).expect("runs").report;
        let oracle = report.metrics.oracle.expect("somebody slept");
        assert_eq!(oracle.late_us.max, 0.0, "{platform}");
        let (least, actual) = (oracle.energy.expect("powers"), oracle.idle_energy.expect("powers"));
        assert!((actual / least - 1.0).abs() < 1e-9, "{platform}, {model}: {actual} instead of {least}");
        assert!(report.metrics.idle_accuracy.is_some_and(|a| a.correct_pct > 0.0));
    }
}

/// Placement by idle states (`find_best_target`, `find_idlest_cpu`) does not see what the oracle chooses: its second pass is the
/// first again, and no wake-up is late.
#[test]
fn the_oracle_is_never_late_under_placement_by_idle_states() {
    for (platform, model, kernel) in [
        ("sdm835", "video", "android-4.9"),
        ("sm8750", "server", "android-4.9"),
        ("hikey620", "hackbench", "linux-5.6"),
    ] {
        let mut spec = sleepy(platform, model, &[("cpuidle", "oracle")], 5);
        spec.kernel = load::kernel(kernel, &Settings::parse(&["cpuidle=oracle".to_string()]).unwrap()).unwrap().value;
        interrupts_take_no_time(&mut spec);
        let oracle = run(&spec, &mut []).expect("runs").report.metrics.oracle.expect("somebody slept");
        assert_eq!(oracle.late_us.max, 0.0, "{platform} {kernel}");
    }
}

/// A workload of timers does the same work whatever the governor: then knowing the future needs the least energy in all.
#[test]
fn on_timers_alone_the_oracle_needs_the_least_energy() {
    let text = r#"{ "tasks": { "t": { "instance": 6, "run": 400, "timer": { "ref": "unique", "period": 5000 } } },
        "global": { "duration": 1 } }"#;
    let energy = |governor: &str| {
        let mut spec = spec("hikey620", "linux-5.6", text, 2);
        spec.kernel.policies.insert(Slot::Cpuidle, governor.into());
        spec.kernel.policies.insert(Slot::Cpufreq, "performance".into());
        spec.platform.clusters.iter_mut().for_each(|c| c.idle.truncate(2));
        run(&spec, &mut []).expect("runs").report.metrics.energy.expect("powers").cpus.iter().sum::<f64>()
    };
    let best = energy("oracle");
    for governor in policies(Slot::Cpuidle) {
        assert!(best <= energy(governor) * 1.0001, "{governor} needs less");
    }
}

/// And where clusters sleep together, or a clock domain draws power while one of its CPUs is in a shallow state: then in all, the
/// clusters included.
#[test]
fn on_timers_alone_the_oracle_needs_the_least_energy_of_clusters() {
    // Bound: where wake-ups find other CPUs, those are others' sleeps, and on larger CPUs other work.
    let task = |(cpu, period): (u32, u32)| {
        format!(r#""t{cpu}": {{ "cpus": [{cpu}], "run": 400, "timer": {{ "ref": "unique", "period": {period} }} }}"#)
    };
    let tasks = [(0, 5000), (1, 5000), (2, 17000), (4, 5000), (5, 17000)].map(task).join(", ");
    let text = &format!(r#"{{ "tasks": {{ {tasks} }}, "global": {{ "duration": 1 }} }}"#);
    for platform in ["hikey620", "juno_r0", "sdm835", "mt6897", "tensor_g5"] {
        let run = |governor: &str| {
            let mut spec = spec(platform, "linux-6.12", text, 2);
            spec.kernel.policies.insert(Slot::Cpuidle, governor.into());
            spec.kernel.policies.insert(Slot::Cpufreq, "performance".into());
            run(&spec, &mut []).expect("runs").report.metrics.energy.expect("powers").total
        };
        let best = run("oracle");
        for governor in policies(Slot::Cpuidle).into_iter().filter(|g| *g != "oracle") {
            let needed = run(governor);
            assert!(best <= needed, "{platform}: {governor} needs {needed}, the oracle {best}");
        }
    }
}
