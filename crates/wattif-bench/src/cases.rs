//! What is run.

use wattif::data::Source;
use wattif::load;
use wattif::settings::Settings;
use wattif_formats::rtapp::Dialect;
use wattif_model::platform::{Cluster, Cpu, FreqDomain, Platform};
use wattif_model::run::RunSpec;
use wattif_model::{ClusterId, CpuId, DomainId, Ns};

/// A fixed case.
pub struct Case {
    /// As printed.
    pub name: &'static str,
    /// What to run; more than one for an experiment.
    pub specs: fn() -> Result<Vec<RunSpec>, String>,
}

/// All cases.
pub static CASES: &[Case] = &[
    Case { name: "eight_cpus", specs: || eight_cpus(8, 60) },
    Case { name: "cpus_64", specs: || eight_cpus(64, 10) },
    Case { name: "cpus_256", specs: || eight_cpus(256, 3) },
    Case { name: "cpus_1024", specs: || eight_cpus(1024, 1) },
    Case { name: "numa_1024", specs: numa_1024 },
    Case { name: "numa_1024_hogs", specs: || on_numa_1024(HOGS, &[]) },
    Case { name: "numa_1024_periodic", specs: || on_numa_1024(PERIODIC, &[]) },
    Case { name: "sched_idle_20x4", specs: sched_idle },
    Case { name: "phone_jankbench", specs: || phone("jankbench") },
    Case { name: "phone_scroll", specs: || phone("scroll") },
    Case { name: "phone_video", specs: || phone("video") },
    Case { name: "phone_game", specs: || phone("game") },
    Case { name: "phone_compile", specs: || phone("phone") },
];

/// A minute of a phone whose tasks are placed by energy.
fn phone(workload: &str) -> Result<Vec<RunSpec>, String> {
    Ok(vec![named(workload, "mt6897", "android-6.6", Ns::from_s(60))?])
}

const EIGHT_CPUS: &str = include_str!("../data/eight_cpus.json");

/// Three threads per CPU: two of 2 ms every 8 ms or so, one in the background.
fn eight_cpus(nr_cpus: usize, seconds: u64) -> Result<Vec<RunSpec>, String> {
    let mut settings = Settings::default();
    settings.add("workload.tasks.fg.instance", &(nr_cpus * 2).to_string());
    settings.add("workload.tasks.bg.instance", &nr_cpus.to_string());
    let mut platform = load::platform("hikey620", &settings).map_err(|e| e.to_string())?.value;
    platform.hz = 250;
    let source = Source { name: "eight_cpus.json".into(), text: EIGHT_CPUS.into() };
    let workload = load::parse_workload(source, nr_cpus, Dialect::Workgen, &settings).map_err(|e| e.to_string())?;
    Ok(vec![RunSpec {
        platform: widened(&platform, nr_cpus),
        workload: workload.value.workload,
        kernel: load::kernel("linux-5.6", &settings).map_err(|e| e.to_string())?.value,
        seed: 1,
        duration: Ns::from_s(seconds),
    }])
}

/// 4096 threads that always want to run.
const HOGS: &str = r#"{ "tasks": { "hog": { "instance": 4096, "run": 100000 } } }"#;
/// 4096 threads of 10 ms every 100 ms.
const PERIODIC: &str =
    r#"{ "tasks": { "job": { "instance": 4096, "run": 10000, "timer": { "ref": "unique", "period": 100000 } } } }"#;

/// The three threads per CPU of [`eight_cpus`] and one more of the first kind, on 1024 CPUs of 16 NUMA nodes.
fn numa_1024() -> Result<Vec<RunSpec>, String> {
    on_numa_1024(EIGHT_CPUS, &[("workload.tasks.fg.instance", "3072"), ("workload.tasks.bg.instance", "1024")])
}

/// A second of a workload on 1024 CPUs of 16 NUMA nodes.
fn on_numa_1024(text: &str, set: &[(&str, &str)]) -> Result<Vec<RunSpec>, String> {
    let mut settings = Settings::default();
    set.iter().for_each(|(path, value)| settings.add(path, value));
    let platform = load::platform("numa_1024", &settings).map_err(|e| e.to_string())?.value;
    let source = Source { name: "workload.json".into(), text: text.into() };
    let workload = load::parse_workload(source, platform.nr_cpus(), Dialect::Workgen, &settings);
    Ok(vec![RunSpec {
        platform,
        workload: workload.map_err(|e| e.to_string())?.value.workload,
        kernel: load::kernel("linux-6.12", &settings).map_err(|e| e.to_string())?.value,
        seed: 1,
        duration: Ns::from_s(1),
    }])
}

/// The experiment of 20 seeds on four kernels.
fn sched_idle() -> Result<Vec<RunSpec>, String> {
    let mut specs = Vec::new();
    for kernel in ["linux-5.3", "linux-5.4", "linux-5.6", "linux-6.12"] {
        let spec = named("sched_idle", "hikey620", kernel, Ns::from_s(5))?;
        specs.extend((1..=20).map(|seed| RunSpec { seed, ..spec.clone() }));
    }
    Ok(specs)
}

/// A run of what the names say.
pub fn named(workload: &str, platform: &str, kernel: &str, duration: Ns) -> Result<RunSpec, String> {
    let none = Settings::default();
    let platform = load::platform(platform, &none).map_err(|e| e.to_string())?.value;
    let workload = load::workload(workload, platform.nr_cpus(), Dialect::Workgen, &none).map_err(|e| e.to_string())?;
    Ok(RunSpec {
        platform,
        workload: workload.value.workload,
        kernel: load::kernel(kernel, &none).map_err(|e| e.to_string())?.value,
        seed: 1,
        duration,
    })
}

/// The platform repeated: a clock and a cache per eight CPUs, 64 to a package, 256 to a node.
fn widened(base: &Platform, nr_cpus: usize) -> Platform {
    let per_domain = base.nr_cpus();
    if nr_cpus == per_domain {
        return base.clone();
    }
    let clusters = base.clusters.len();
    let cpus = (0..nr_cpus).map(|i| {
        let (copy, model) = (i / per_domain, &base.cpus[i % per_domain]);
        Cpu {
            core: i as u32,
            cluster: ClusterId((copy * clusters) as u32 + model.cluster.0),
            domain: DomainId(copy as u32),
            llc: copy as u32,
            package: i as u32 / 64,
            node: i as u32 / 256,
            ..model.clone()
        }
    });
    let copies = nr_cpus / per_domain;
    let shifted =
        |set: &wattif_model::CpuSet, copy: usize| set.iter().map(|c| CpuId(c.0 + (copy * per_domain) as u32)).collect();
    let domain = |copy| FreqDomain { cpus: shifted(&base.domains[0].cpus, copy), ..base.domains[0].clone() };
    let cluster = |i: usize| {
        let model = &base.clusters[i % clusters];
        Cluster { cpus: shifted(&model.cpus, i / clusters), ..model.clone() }
    };
    Platform {
        name: format!("{}-{nr_cpus}", base.name),
        cpus: cpus.collect(),
        domains: (0..copies).map(domain).collect(),
        clusters: (0..copies * clusters).map(cluster).collect(),
        ..base.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_well_formed() {
        for case in CASES {
            for spec in (case.specs)().expect(case.name) {
                assert_eq!(spec.check(), Ok(()), "{}", case.name);
            }
        }
    }
}
