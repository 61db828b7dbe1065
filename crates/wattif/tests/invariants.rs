//! The invariants of a run, on the built-in platforms and kernels and on random workloads.

use proptest::prelude::*;
use wattif::data::{Collection, Source};
use wattif::load;
use wattif::run::{Simulator, run, run_all};
use wattif::settings::Settings;
use wattif_formats::rtapp::Dialect;
use wattif_lab::metrics::Cpus;
use wattif_model::run::{RunSpec, Runner};
use wattif_model::trace::{Event, Interest, Observer, ThreadInfo};
use wattif_model::{CpuId, Ns, Pid};

/// Two busy groups, a background hog, a sleeper, and two threads that share a lock.
const MIXED: &str = r#"{ "tasks": {
    "periodic": { "instance": 5, "run": 1500, "timer": { "ref": "unique", "period": 4000 } },
    "hog":      { "instance": 3, "policy": "SCHED_IDLE", "run": 3000 },
    "nap":      { "instance": 4, "run": 300, "sleep": 900 },
    "locker":   { "instance": 2, "lock": "m", "run": 200, "unlock": "m", "sleep": 500 }
}, "global": { "duration": 1 } }"#;

fn spec(platform: &str, kernel: &str, text: &str, seed: u64) -> RunSpec {
    let none = Settings::default();
    let platform = load::platform(platform, &none).expect("built in").value;
    let source = Source { name: "test.json".into(), text: text.into() };
    let workload = load::parse_workload(source, platform.nr_cpus(), Dialect::Workgen, &none).expect("valid");
    let kernel = load::kernel(kernel, &none).expect("built in").value;
    RunSpec { platform, workload: workload.value.workload, kernel, seed, duration: Ns::from_ms(400) }
}

fn digest(spec: &RunSpec) -> String {
    Simulator.run(spec, &mut []).expect("runs").digest
}

#[test]
fn same_spec_same_digest_on_any_number_of_threads() {
    let specs: Vec<RunSpec> =
        (1..=4).flat_map(|seed| ["linux-5.3", "linux-5.6"].map(|k| spec("hikey620", k, MIXED, seed))).collect();
    let on = |threads: usize| -> Vec<String> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| run_all(&specs, &|| {})).unwrap().into_iter().map(|o| o.summary.digest).collect()
    };
    let one = on(1);
    assert_eq!(one, on(3));
    assert_eq!(one, specs.iter().map(digest).collect::<Vec<_>>());
    assert_ne!(one[0], one[2], "the seed matters");
}

#[test]
fn spec_hash_covers_everything() {
    let a = spec("hikey620", "linux-5.6", MIXED, 1);
    let mut others = vec![RunSpec { seed: 2, ..a.clone() }, RunSpec { duration: Ns(1), ..a.clone() }];
    others.push(spec("hikey620", "linux-5.4", MIXED, 1));
    let mut slower = a.clone();
    slower.platform.costs.wakeup_ns += 1;
    others.push(slower);
    assert!(others.iter().all(|o| o.hash() != a.hash()));
    let back: RunSpec = serde_json::from_str(&a.canonical()).expect("the canonical text is enough to reproduce");
    assert_eq!(back, a);
    assert_eq!(digest(&back), digest(&a));
}

/// Wants everything, keeps nothing.
struct Everything;

impl Observer for Everything {
    fn interest(&self) -> Interest {
        Interest::ALL
    }
    fn event(&mut self, _: Ns, _: CpuId, _: &Event) {}
}

#[test]
fn who_observes_changes_nothing() {
    let spec = spec("hikey620", "linux-5.6", MIXED, 7);
    let observed = Simulator.run(&spec, &mut [&mut Everything]).unwrap();
    assert_eq!(observed, Simulator.run(&spec, &mut []).unwrap());
}

/// Every residency sums to the length of the run; the energy of the metric is that of the machine, to the femtojoule.
fn accounts_balance(spec: &RunSpec) {
    let mut cpus = Cpus::new(&spec.platform);
    let outcome = run(spec, &mut [&mut cpus]).unwrap();
    let end = outcome.summary.end.0;
    for cpu in 0..spec.platform.nr_cpus() as u32 {
        let (busy, idle) = cpus.residencies_ns(CpuId(cpu));
        assert_eq!(busy + idle.iter().sum::<u64>(), end, "CPU {cpu} of {}", spec.platform.name);
    }
    assert_eq!(outcome.report.energy_fj, outcome.summary.energy, "{} under {}", spec.platform.name, spec.kernel.name);
    for domain in &outcome.report.domains {
        let total: f64 = domain.freq_residency.iter().map(|f| f.s).sum();
        assert!((total - outcome.summary.end.as_s_f64()).abs() < 1e-9);
    }
}

#[test]
fn accounts_balance_on_every_platform_and_kernel() {
    for platform in Collection::Platforms.names() {
        accounts_balance(&spec(platform, "linux-6.12", MIXED, 3));
    }
    for kernel in Collection::Kernels.names() {
        accounts_balance(&spec("hikey620", kernel, MIXED, 3));
    }
}

/// `wu_lat` of every log line of the threads of one task.
#[derive(Default)]
struct Log {
    task: &'static str,
    pids: Vec<Pid>,
    lines: Vec<(Ns, String, u64)>,
    names: Vec<String>,
}

impl Observer for Log {
    fn interest(&self) -> Interest {
        Interest::PROGRAM
    }
    fn thread(&mut self, thread: &ThreadInfo) {
        if thread.task == self.task {
            self.pids.push(thread.pid);
            self.names.push(thread.comm.clone());
        }
    }
    fn event(&mut self, at: Ns, _: CpuId, event: &Event) {
        if let Event::RtappStats { pid, wu_lat_ns, .. } = event
            && let Some(i) = self.pids.iter().position(|p| p == pid)
        {
            self.lines.push((at, self.names[i].clone(), *wu_lat_ns));
        }
    }
}

#[test]
fn another_task_shifts_no_random_stream() {
    let periodic = r#""periodic": { "instance": 5, "run": 1500, "timer": { "ref": "unique", "period": 4000 } }"#;
    let alone = format!(r#"{{ "tasks": {{ {periodic} }} }}"#);
    let never = format!(
        r#"{{ "tasks": {{ {periodic}, "later": {{ "instance": 3, "delay": 9000000, "run": 10, "sleep": 10 }} }} }}"#
    );
    let log = |text: &str| {
        let mut log = Log { task: "periodic", ..Log::default() };
        Simulator.run(&spec("hikey620", "linux-5.6", text, 11), &mut [&mut log]).unwrap();
        assert!(log.lines.len() > 100, "{} lines", log.lines.len());
        log.lines
    };
    assert_eq!(log(&alone), log(&never));
}

fn random_workload() -> impl Strategy<Value = String> {
    let task = (1u32..6, 0u32..4, 50u32..4000, 100u32..6000, 0u32..3, -10i32..15);
    prop::collection::vec(task, 1..5).prop_map(|tasks| {
        let body: Vec<String> = tasks
            .iter()
            .enumerate()
            .map(|(i, (n, kind, run, rest, policy, nice))| {
                let policy = ["SCHED_OTHER", "SCHED_BATCH", "SCHED_IDLE"][*policy as usize];
                let wait = match kind {
                    0 => format!(r#""sleep": {rest}"#),
                    1 => format!(r#""timer": {{ "ref": "unique", "period": {rest} }}"#),
                    2 => format!(r#""timer": {{ "ref": "shared", "period": {rest}, "mode": "absolute" }}"#),
                    _ => r#""lock": "m", "run9": 5, "unlock": "m", "sleep": 50"#.to_string(),
                };
                format!(
                    r#""t{i}": {{ "instance": {n}, "policy": "{policy}", "priority": {nice}, "run": {run}, {wait} }}"#
                )
            })
            .collect();
        format!(r#"{{ "tasks": {{ {} }} }}"#, body.join(", "))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn accounts_balance_on_random_runs(
        text in random_workload(), seed in any::<u64>(), platform in 0usize..1000, kernel in 0usize..1000, ms in 1u64..300,
    ) {
        let (platforms, kernels) = (Collection::Platforms.names(), Collection::Kernels.names());
        let mut spec = spec(platforms[platform % platforms.len()], kernels[kernel % kernels.len()], &text, seed);
        spec.duration = Ns::from_ms(ms);
        accounts_balance(&spec);
        prop_assert_eq!(digest(&spec), digest(&spec));
    }
}
