//! What the topology asks of balancing: favoured cores and clusters, seen from outside, with each switch on and off.

use std::path::Path;
use wattif::load;
use wattif::run::run;
use wattif::settings::Settings;
use wattif_formats::rtapp::Dialect;
use wattif_model::platform::Platform;
use wattif_model::run::RunSpec;
use wattif_model::trace::{Event, Interest, Observer};
use wattif_model::{CpuId, Ns, Pid};

/// Busy time by CPU, s.
struct Busy {
    since: Vec<Option<u64>>,
    s: Vec<f64>,
}

impl Observer for Busy {
    fn interest(&self) -> Interest {
        Interest::ALL
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        if let Event::SchedSwitch { next_pid, .. } = *event {
            if let Some(since) = self.since[cpu.at()].take() {
                self.s[cpu.at()] += (at.0 - since) as f64 / 1e9;
            }
            self.since[cpu.at()] = (next_pid != Pid(0)).then_some(at.0);
        }
    }
}

fn busy(workload: &str, platform: &str, kernel: &str, set: &str, seed: u64) -> Vec<f64> {
    let none = Settings::default();
    let changed = Settings::parse(&[set]).expect("path=value");
    let platform = load::platform(platform, &none).expect("built in").value;
    let n = platform.nr_cpus();
    let workload = load::workload(workload, n, Dialect::Workgen, &none).expect("a model").value.workload;
    let kernel = load::kernel(kernel, &changed).expect("built in").value;
    let spec = RunSpec { platform, workload, kernel, seed, duration: Ns::from_s(2) };
    let mut busy = Busy { since: vec![None; n], s: vec![0.0; n] };
    run(&spec, &mut [&mut busy]).expect("it runs");
    busy.s
}

/// Of the time of two hogs, what the two favoured cores got.
fn favoured_share(kernel: &str, set: &str, seed: u64) -> f64 {
    let busy = busy("hogs:tasks=2,runs=1,work_ms=4000", "core_i9_12900k", kernel, set, seed);
    busy[8..12].iter().sum::<f64>() / busy.iter().sum::<f64>()
}

#[test]
fn work_goes_to_favoured_cores() {
    for kernel in ["linux-5.4", "linux-5.7", "linux-6.1", "linux-6.12"] {
        let mean = |set| (1..=3).map(|seed| favoured_share(kernel, set, seed)).sum::<f64>() / 3.0;
        let (with, without) = (mean("load_balance.asym_packing=true"), mean("load_balance.asym_packing=false"));
        assert!(with > 0.8, "{kernel}: {with} of the time on the favoured cores");
        // A hog that begins there by chance stays there.
        assert!(without < 0.6, "{kernel}: {without} without the flag");
    }
}

/// Busy time of each cluster of four, s.
fn by_cluster(kernel: &str, set: &str, seed: u64) -> Vec<f64> {
    let busy = busy("hogs:tasks=12,runs=1,work_ms=4000", "kunpeng_920", kernel, set, seed);
    busy.chunks(4).map(|c| c.iter().sum()).collect()
}

#[test]
fn twelve_hogs_share_twelve_clusters() {
    for kernel in ["linux-6.1", "linux-6.6", "linux-6.12"] {
        for seed in 1..=3 {
            let with = by_cluster(kernel, "load_balance.nr_migrate=32", seed);
            assert!(with.iter().all(|s| (1.5..2.2).contains(s)), "{kernel}, seed {seed}: {with:?}");
            let without = by_cluster(kernel, "load_balance.cluster=off", seed);
            assert!(without.iter().any(|s| *s < 0.5), "{kernel}, seed {seed}: {without:?}");
        }
    }
}

#[test]
fn kernels_before_clusters_do_not_know_them() {
    let without = by_cluster("linux-5.7", "load_balance.nr_migrate=32", 1);
    assert!(without.iter().any(|s| *s < 0.5), "{without:?}");
}

#[test]
fn hybrid_machines_have_clusters_since_6_6() {
    let busy = |kernel, set| busy("hogs:tasks=20,runs=1,work_ms=4000", "core_i9_12900k", kernel, set, 1);
    for (kernel, has) in [("linux-6.1", false), ("linux-6.6", true), ("linux-6.12", true)] {
        let same = busy(kernel, "load_balance.nr_migrate=32") == busy(kernel, "load_balance.cluster=off");
        assert_eq!(same, !has, "{kernel}");
    }
}

/// On which of two nodes of 64 CPUs new threads are placed.
#[derive(Default)]
struct Nodes([u32; 2]);

impl Observer for Nodes {
    fn interest(&self) -> Interest {
        Interest::ALL
    }
    fn event(&mut self, _: Ns, _: CpuId, event: &Event) {
        if let Event::SchedWakeupNew { target_cpu, .. } = event {
            self.0[target_cpu.at() / 64] += 1;
        }
    }
}

#[test]
fn new_threads_stay_on_their_node_where_nodes_are_far() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("children.json");
    let parent = r#""parent": {"cpus": [0], "loop": 1, "phases": {"a": {"loop": 80, "run": 100, "fork": "child"}}}"#;
    // Else it has its parent's CPU.
    let anywhere = (0..128).collect::<Vec<u32>>();
    let child = format!(r#""child": {{"cpus": {anywhere:?}, "instance": 0, "loop": 1, "run": 600000}}"#);
    std::fs::write(&file, format!("{{\"tasks\": {{{parent}, {child}}}}}")).expect("a file");
    let none = Settings::default();
    let nodes = |far_nodes| {
        let platform = load::platform("power9_2s16c", &none).expect("built in").value;
        assert!(platform.far_nodes, "POWER has RECLAIM_DISTANCE 10");
        let platform = Platform { far_nodes, ..platform };
        let name = file.to_str().expect("a plain path");
        let workload = load::workload(name, 128, Dialect::Workgen, &none).expect("it reads").value.workload;
        let kernel = load::kernel("linux-6.1", &none).expect("built in").value;
        let spec = RunSpec { platform, workload, kernel, seed: 1, duration: Ns::from_ms(100) };
        let mut nodes = Nodes::default();
        run(&spec, &mut [&mut nodes]).expect("it runs");
        nodes.0
    };
    let ([near, far], [stay, leave]) = (nodes(false), nodes(true));
    assert!(near > 20 && far > 20, "{near} and {far}");
    assert!(stay >= 80 && leave == 0, "{stay} and {leave}");
}
