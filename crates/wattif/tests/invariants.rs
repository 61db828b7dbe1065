//! The invariants of a run, on the built-in platforms and kernels and on random workloads.

mod laws;
mod runs;

use laws::Laws;
use proptest::prelude::*;
use runs::{MIXED, digest, interrupts_take_no_time, policies, spec};
use std::collections::BTreeSet;
use wattif::data::Collection;
use wattif::run::{Simulator, run, run_all};
use wattif_lab::metrics::Cpus;
use wattif_model::kernel::{Slot, Value};
use wattif_model::platform::{Driver, DtClock, Housekeeping, Interrupts, PowerUnit};
use wattif_model::run::{RunSpec, Runner};
use wattif_model::trace::{Event, Interest, Observer, PrevState, ThreadInfo};
use wattif_model::workload::{Policy, SchedAttr};
use wattif_model::{CpuId, CpuSet, Ns, Pid};

#[test]
fn same_spec_same_digest_on_any_number_of_threads() {
    let specs: Vec<RunSpec> =
        (1..=4).flat_map(|seed| ["linux-5.3", "linux-5.6"].map(|k| spec("hikey620", k, MIXED, seed))).collect();
    let on = |threads: usize| -> Vec<String> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| run_all(&specs, &|| true)).unwrap().into_iter().map(|o| o.summary.digest).collect()
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

/// The frequencies that a run was at.
#[derive(Default)]
struct Clocks(BTreeSet<(u32, u32)>);

impl Observer for Clocks {
    fn interest(&self) -> Interest {
        Interest::FREQ
    }
    fn event(&mut self, _: Ns, _: CpuId, event: &Event) {
        if let Event::CpuFrequency { domain, khz, .. } = *event {
            self.0.insert((domain.0, khz));
        }
    }
}

/// A point at which a faster one costs no more is left out by the estimate of energy-aware placement, and by cpufreq since 5.16.
#[test]
fn schedutil_chooses_what_placement_by_energy_expects() {
    let clocks = |kernel: &str, set: &[(&str, &str)]| {
        let mut spec = spec("mt6897", kernel, MIXED, 1);
        spec.kernel.tunables.extend(set.iter().map(|&(k, v)| (k.into(), Value::Text(v.into()))));
        let (mut seen, domains) = (Clocks::default(), spec.platform.domains.clone());
        Simulator.run(&spec, &mut [&mut seen]).expect("runs");
        let inefficient = |&&(domain, khz): &&(u32, u32)| {
            let d = &domains[domain as usize];
            let cost = |i: usize| d.power.busy(i) as f64 / f64::from(d.opps[i].khz);
            let at = d.opps.iter().position(|o| o.khz == khz).expect("a point of the table");
            (at + 1..d.opps.len()).any(|faster| cost(faster) < cost(at) * 0.999)
        };
        // The first clock is the firmware's.
        let lowest: Vec<u32> = domains.iter().map(|d| d.opps[0].khz).collect();
        seen.0.iter().filter(inefficient).filter(|(d, khz)| *khz != lowest[*d as usize]).count()
    };
    assert_eq!(clocks("android-6.6", &[]), 0);
    assert!(clocks("android-6.6", &[("eas.generation", "5.6")]) > 0, "before 5.16 cpufreq had no marks");
}

/// Specs may come from anywhere: what no platform file can describe is refused.
#[test]
fn machines_that_are_none_are_refused() {
    type Change = fn(&mut RunSpec);
    let changes: &[(Change, &str)] = &[
        (|s| s.platform.cpus.clear(), "number of CPUs 0 is not in 1..=4096"),
        (|s| s.platform.cpus[1].cluster = wattif_model::ClusterId(7), "cluster 0 has CPU 1, which names cluster 7"),
        (|s| s.platform.cpus[1].domain = wattif_model::DomainId(7), "domain 0 has CPU 1, which names domain 7"),
        (|s| assert!(s.platform.clusters[0].cpus.remove(CpuId(1))), "CPU 1 names cluster 0, which has CPUs 0,2-3"),
        (|s| s.platform.clusters.truncate(1), "CPU 4 names cluster 1, and there are 1"),
        (|s| s.platform.clusters[0].cpus = CpuSet::default(), "cluster 0 has no CPUs"),
        (|s| s.platform.domains[0].cpus.insert(CpuId(9)), "domain 0 has CPU 9, and there are 8"),
        (|s| s.platform.cpus[1].capacity = 0, "CPU 1: capacity 0 is not in 1..=1024"),
        (|s| s.platform.cpus[1].priority = u32::MAX, "CPU 1: priority 4294967295 is not in 0..=65535"),
        (
            |s| (s.platform.cpus[1].core, s.platform.cpus[1].node) = (0, 1),
            "CPUs 0 and 1 are of one core and of two nodes",
        ),
        (|s| s.platform.cpus[1].package = 1, "CPUs 0 and 1 are of one last-level cache and of two packages"),
        (|s| s.platform.domains[0].opps.clear(), "domain 0: it has no operating point"),
        (|s| s.platform.domains[0].opps[1].khz = u32::MAX, "operating point 1: khz 4294967295 is not in 1..=100000000"),
        (|s| s.platform.domains[0].opps[1].capacity = 0, "operating point 1: capacity 0 is not in 1..=1024"),
        (|s| s.platform.domains[0].opps[1].uv = Some(0), "operating point 1: uv 0 is not in 1..=10000000"),
        (|s| s.platform.domains[0].opps.swap(0, 1), "operating point 1 is not above the one before it"),
        (|s| s.platform.domains[0].opps.truncate(1), "its highest operating point has capacity"),
        (
            |s| s.platform.domains[0].transition_latency_ns = u64::MAX,
            "domain 0: transition_latency_ns 18446744073709551615 is not in 0..=1000000000000",
        ),
        (|s| s.platform.domains[0].transition_delay_ns = Some(u64::MAX), "domain 0: transition_delay_ns"),
        (
            |s| s.platform.domains[0].dt_clock = Some(DtClock { hz: 1_048_999, efficiency: 1 }),
            "domain 0: dt_clock.hz 1048999 is not in 1049000..=100000000000",
        ),
        (
            |s| s.platform.domains[0].dt_clock = Some(DtClock { hz: 1_049_000, efficiency: 0 }),
            "domain 0: dt_clock.efficiency 0 is not in 1..=1000000",
        ),
        (
            |s| s.platform.domains[0].power.busy_uw[0] = u64::MAX,
            "domain 0: power 18446744073709551615 is not in 0..=1000000000",
        ),
        (|s| s.platform.power.base_uw = u64::MAX, "base_uw 18446744073709551615 is not in 0..=1000000000"),
        (|s| s.platform.clusters[0].idle.clear(), "cluster 0: number of idle states 0 is not in 1..=10"),
        (|s| s.platform.clusters[0].idle[0].actual.exit_ns = u64::MAX, "cluster 0: idle state 0: actual.exit_ns"),
        (
            |s| s.platform.clusters[0].idle[0].advertised.residency_ns = u64::MAX,
            "cluster 0: idle state 0: advertised.residency_ns",
        ),
        (|s| s.platform.calibration_cpu = CpuId(8), "calibration_cpu 8 is not in 0..=7"),
        (|s| s.platform.hz = 0, "hz 0 is not in 24..=10000"),
        (|s| s.platform.smt_share.clear(), "number of smt_share 0 is not in 1..=4096"),
        (|s| s.platform.kernel_cpus = CpuSet::one(CpuId(3)), "kernel_cpus are 3, and there are 8 CPUs"),
        (
            |s| s.platform.drivers = vec![Driver { device: "gpu".into(), cpu_latency_ns: None, hold_ns: u64::MAX }],
            "driver 0: hold_ns 18446744073709551615 is not in 0..=1000000000000",
        ),
        (|s| s.platform.smt_share[0] = 0, "smt_share 0: value 0 is not in 1..=1024"),
        (|s| s.platform.costs.tick_ns = u64::MAX, "costs: tick_ns 18446744073709551615 is not in 0..=1000000000000"),
        (|s| s.platform.noise.irq_jitter_ns = u64::MAX, "noise: irq_jitter_ns"),
        (|s| s.platform.noise.work_ppm = 500_001, "noise: work_ppm 500001 is not in 0..=500000"),
        (
            |s| s.platform.noise.housekeeping[0].interval_ns = 0,
            "noise: background thread 0: interval_ns 0 is not in 100000..=1000000000000",
        ),
        (
            |s| {
                s.platform.noise.interrupts =
                    Some(Interrupts { interval_ns: 100_000, work_ns: 0, burst: 1, burst_gap_ns: 0, wakes_ppm: 0 })
            },
            "noise: interrupts: burst_gap_ns 0 is not in 1..=1000000000000",
        ),
        (|s| s.platform.timer_slack_ns = u64::MAX, "timer_slack_ns"),
        (|s| s.platform.page_kib = 8, "page_kib is 8, not one of [4, 16, 64]"),
        (|s| s.kernel.hz = Some(4_000_000_000), "4000000000 Hz; 24 to 10000 are possible"),
        (
            |s| drop(s.kernel.tunables.insert("ondemand.up_threshold".into(), Value::Text("1..=100".into()))),
            "`ondemand.up_threshold` takes one of 1 to 100, not `1..=100`",
        ),
        (|s| s.workload.tasks[0].instances = u32::MAX, "65536 is the limit"),
        (|s| s.workload.tasks[0].group = 3, "group 3 does not exist"),
        (
            |s| {
                let (runtime, period) = (Ns::from_ms(1), Ns::from_ms(10));
                let attr = &mut s.workload.tasks[0].attr;
                *attr = SchedAttr { policy: Policy::Deadline, runtime, deadline: Ns::MAX, period, ..*attr };
            },
            "dl-runtime <= dl-deadline <= dl-period, not 1000 <= 18446744073709551 <= 10000 µs",
        ),
    ];
    for (change, says) in changes {
        let mut spec = spec("hikey620", "linux-5.6", MIXED, 1);
        change(&mut spec);
        let why = Simulator.run(&spec, &mut []).expect_err(says).to_string();
        assert!(why.contains(says), "{why}");
    }
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
    for platform in ["hikey620", "power9_2s16c"] {
        let spec = spec(platform, "linux-6.12", MIXED, 7);
        let alone = Simulator.run(&spec, &mut []).unwrap();
        assert_eq!(Simulator.run(&spec, &mut [&mut Everything]).unwrap(), alone);
        assert_eq!(run(&spec, &mut []).unwrap().summary, alone, "with all metrics");
    }
}

/// What governors and placement remember of a CPU is asked for again when its signals change: debug builds compare.
#[test]
fn signals_change_with_their_version() {
    let clamps_later = r#"{ "global": { "duration": 1 }, "tasks": {
        "t": { "instance": 2, "loop": -1, "util_min": 18, "delay": 109592, "run": 200, "sleep": 800 } } }"#;
    let throttled = r#"{ "global": { "duration": 1 }, "groups": { "/a": { "cpu.max": "8000 20000" } }, "tasks": {
        "g": { "instance": 4, "taskgroup": "/a/b", "loop": -1, "run": 700, "sleep": 900 },
        "u": { "instance": 5, "loop": -1, "run": 300, "sleep": 1300 } } }"#;
    for (platform, kernel) in [("hikey960", "linux-6.12"), ("pixel6", "linux-6.1"), ("pixel6", "android-6.6")] {
        for workload in [clamps_later, throttled] {
            let spec = RunSpec { duration: Ns::from_ms(1000), ..spec(platform, kernel, workload, 2) };
            Simulator.run(&spec, &mut []).unwrap();
        }
    }
}

/// Threads that wake one another without end while no time passes, each far from its own limit.
#[test]
fn many_threads_cannot_stop_the_time() {
    let round =
        r#"{ "global": { "duration": 1 }, "tasks": { "t": { "instance": 1000, "loop": -1, "barrier": "b" } } }"#;
    let mut spec = spec("hikey620", "linux-6.12", round, 1);
    interrupts_take_no_time(&mut spec);
    let costs = &mut spec.platform.costs;
    (costs.context_switch_ns, costs.migration_ns, costs.migration_llc_ns) = (0, 0, 0);
    let states = spec.platform.clusters.iter_mut().flat_map(|c| &mut c.idle);
    states.for_each(|s| (s.actual.entry_ns, s.actual.exit_ns) = (0, 0));
    let why = Simulator.run(&spec, &mut []).unwrap_err();
    assert!(matches!(why, wattif_model::run::RunError::NoProgress { .. }), "{why}");
}

/// The digest of an observed run. Every residency sums to the length of the run; the energy of the metric is that of the machine, to the femtojoule; the
/// trace obeys the laws of a scheduler.
fn accounts_balance(spec: &RunSpec) -> String {
    let (mut cpus, mut laws) = (Cpus::new(&spec.platform), Laws::new(spec));
    let outcome = run(spec, &mut [&mut cpus, &mut laws]).unwrap();
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
    outcome.summary.digest
}

#[test]
fn accounts_balance_on_every_platform() {
    let mut units = Vec::new();
    for platform in Collection::Platforms.names() {
        let spec = RunSpec { duration: Ns::from_ms(100), ..spec(platform, "linux-6.12", MIXED, 3) };
        assert_eq!(accounts_balance(&spec), digest(&spec), "{platform}");
        units.push(spec.platform.power.unit);
    }
    for unit in [PowerUnit::EnergyModel, PowerUnit::EasCosts, PowerUnit::Measured] {
        assert!(units.contains(&unit), "a platform speaks {unit:?}");
    }
}

#[test]
fn accounts_balance_under_every_kernel_and_governor() {
    for platform in ["hikey620", "vm_8vcpu"] {
        for kernel in Collection::Kernels.names() {
            let spec = spec(platform, kernel, MIXED, 3);
            assert_eq!(accounts_balance(&spec), digest(&spec), "{kernel}");
        }
        for slot in [Slot::Cpufreq, Slot::Cpuidle] {
            for policy in policies(slot) {
                let mut spec = spec(platform, "linux-6.12", MIXED, 3);
                spec.kernel.policies.insert(slot, policy.into());
                assert_eq!(accounts_balance(&spec), digest(&spec), "{policy}");
            }
        }
    }
}

/// The laws can be broken: a good trace of one thread, and what becomes of it without one of its events, or too early.
#[test]
fn laws_notice() {
    let (spec, pid, cpu) = (spec("hikey620", "linux-6.12", MIXED, 1), Pid(1), CpuId(2));
    let switch = |prev_pid, prev_state, next_pid| Event::SchedSwitch {
        prev_pid,
        prev_prio: 120,
        prev_state,
        next_pid,
        next_prio: 120,
    };
    let good = [
        Event::SchedWakeupNew { pid, prio: 120, target_cpu: cpu },
        switch(Pid(0), PrevState::Running, pid),
        switch(pid, PrevState::Sleeping, Pid(0)),
        Event::CpuIdle { state: 0 },
        Event::SchedWaking { pid, prio: 120, target_cpu: cpu, in_irq: true },
        Event::SchedWakeup { pid, prio: 120, target_cpu: cpu, in_irq: true },
        Event::CpuIdle { state: Event::IDLE_EXIT },
        switch(Pid(0), PrevState::Running, pid),
    ];
    let lawful = |events: &[Event], end: Ns| {
        let mut laws = Laws::new(&spec);
        let (comm, task) = ("a-0".into(), "a".into());
        laws.thread(&ThreadInfo { pid, comm, task, policy: "SCHED_OTHER", workload: true, ..ThreadInfo::default() });
        let play = || {
            events.iter().enumerate().for_each(|(at, event)| laws.event(Ns(at as u64), cpu, event));
            laws.finish(end);
        };
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(play)).is_ok()
    };
    assert!(lawful(&good, Ns::from_s(1)));
    for missing in 0..good.len() - 1 {
        let rest = [&good[..missing], &good[missing + 1..]].concat();
        assert!(!lawful(&rest, Ns::from_s(1)), "without {:?}", good[missing]);
    }
    assert!(!lawful(&good[..7], Ns::from_s(1)), "it waits for an idle CPU");
    assert!(lawful(&good[..7], Ns::from_ms(1)), "but not for long");
}

/// Tasks that end: threads × loops × work, a lock, a fork. Together 240.4 ms at full speed.
const FINITE: [&str; 3] = [
    r#""naps": { "instance": 6, "loop": 20, "run": 700, "sleep": 300 }"#,
    r#""locks": { "instance": 3, "loop": 5, "lock": "m", "run": 400, "unlock": "m", "run1": 10000, "sleep": 10 }"#,
    r#""forks": { "loop": 2, "run": 100, "fork": "child" }, "child": { "instance": 0, "loop": 1, "run": 100 }"#,
];

const FINITE_MS: u128 = 84 + 156;

fn finite(platform: &str, kernel: &str, tasks: &[&str], work_ppm: u32) -> RunSpec {
    let text = format!(r#"{{ "tasks": {{ {} }} }}"#, tasks.join(", "));
    let mut spec = RunSpec { duration: Ns::from_s(20), ..spec(platform, kernel, &text, 5) };
    spec.platform.noise.work_ppm = work_ppm;
    spec
}

/// Work of a run in which every thread comes to its end.
fn work(spec: &RunSpec) -> u128 {
    let mut laws = Laws::new(spec);
    let summary = Simulator.run(spec, &mut [&mut laws]).unwrap();
    assert!(summary.end < spec.duration, "it ended");
    assert_eq!(summary.deadlock, []);
    summary.work
}

#[test]
fn work_is_conserved() {
    for platform in ["hikey620", "juno_r2", "vm_8vcpu", "power9_2s16c"] {
        for kernel in Collection::Kernels.names() {
            let spec = finite(platform, kernel, &FINITE, 0);
            let unit = u128::from(spec.platform.cpus[spec.platform.calibration_cpu.at()].capacity);
            let expected = FINITE_MS * 1_000_000 + 400_000;
            assert_eq!(work(&spec), expected * unit, "{platform} under {kernel}");
        }
    }
}

/// The work of each thread is drawn from its own stream. So the sum over tasks run alone is the sum of a run of all, in
/// whatever order, with whatever else, under whatever kernel.
#[test]
fn nothing_shifts_a_random_stream() {
    let run = |kernel: &str, tasks: &[&str]| finite("hikey620", kernel, tasks, 200_000);
    let alone: u128 = FINITE.iter().map(|task| work(&run("linux-6.12", &[task]))).sum();
    let fixed = work(&finite("hikey620", "linux-6.12", &FINITE, 0));
    assert_ne!(alone, fixed, "there is noise");
    for kernel in Collection::Kernels.names() {
        assert_eq!(work(&run(kernel, &FINITE)), alone, "{kernel}");
    }
    assert_eq!(work(&run("linux-6.12", &[FINITE[2], FINITE[0], FINITE[1]])), alone, "in another order");
    let mut noisy = run("linux-6.12", &FINITE);
    let name = "another".into();
    let kind = Housekeeping { name, per_cpu: true, interval_ns: 900_000, work_ns: 90_000 };
    noisy.platform.noise.housekeeping.push(kind);
    noisy.platform.noise.interrupts =
        Some(Interrupts { interval_ns: 1_000_000, work_ns: 5_000, burst: 2, burst_gap_ns: 20_000, wakes_ppm: 0 });
    noisy.platform.noise.irq_jitter_ns += 1000;
    assert_eq!(work(&noisy), alone, "with more in the background");
}

/// New threads, and the largest utilisation of any but the first.
#[derive(Default)]
struct Newcomers {
    new: Vec<Pid>,
    others: u32,
}

impl Observer for Newcomers {
    fn interest(&self) -> Interest {
        Interest::SCHED.and(Interest::SIGNALS)
    }
    fn event(&mut self, _: Ns, _: CpuId, event: &Event) {
        match *event {
            Event::SchedWakeupNew { pid, .. } => self.new.push(pid),
            Event::PeltSe { pid, util_avg, .. } if pid != Pid(1) => self.others = self.others.max(util_avg),
            _ => {}
        }
    }
}

/// What runs on a machine beside the workload was there before: it wakes with averages that have decayed, and nobody places it as new.
#[test]
fn background_threads_are_not_new() {
    for kernel in ["android-4.9", "linux-5.4", "linux-6.12"] {
        let mut seen = Newcomers::default();
        let spec = spec("sdm835", kernel, r#"{ "tasks": { "t": { "sleep": 300000 } } }"#, 1);
        Simulator.run(&spec, &mut [&mut seen]).unwrap();
        assert_eq!(seen.new, [Pid(1)], "{kernel}");
        assert!((1..50).contains(&seen.others), "{kernel}: {}", seen.others);
    }
}

/// Random runs. A case that fails is printed as a RunSpec.
struct Case(RunSpec);

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let RunSpec { platform, kernel, seed, duration, .. } = &self.0;
        writeln!(f, "{} under {} {:?}, seed {seed}, {duration}", platform.name, kernel.name, kernel.policies)?;
        f.write_str(&self.0.canonical())
    }
}

/// A task `i`: how many, what it does, how long, how long not, under which policy and priority.
fn task(i: usize, (n, kind, run, rest, policy, nice): (u32, u32, u32, u32, u32, i32)) -> String {
    // A group holds fair tasks only.
    let kind = if matches!(kind, 6 | 11) && (2..=4).contains(&policy) { 10 } else { kind };
    // Nor does a deadline task fork.
    let kind = if kind == 5 && policy == 4 { 10 } else { kind };
    let policy = match policy {
        0 => format!(r#""policy": "SCHED_BATCH", "priority": {nice}"#),
        1 => r#""policy": "SCHED_IDLE""#.to_string(),
        2 => format!(r#""policy": "SCHED_FIFO", "priority": {}"#, nice + 40),
        3 => format!(r#""policy": "SCHED_RR", "priority": {}"#, nice + 40),
        4 => format!(
            r#""policy": "SCHED_DEADLINE", "dl-runtime": 140, "dl-deadline": {0}, "dl-period": {0}"#,
            4000 + rest
        ),
        5 => format!(r#""util_min": {}, "util_max": 700, "delay": {run}"#, (nice + 10) * 20),
        _ => format!(r#""priority": {nice}"#),
    };
    let body = match kind {
        0 => format!(r#""run": {run}, "timer": {{ "ref": "unique", "period": {rest} }}"#),
        1 => format!(r#""run": {run}, "timer": {{ "ref": "shared", "period": {rest}, "mode": "absolute" }}"#),
        2 => format!(r#""run": {run}, "lock": "m", "run9": {rest}, "unlock": "m", "sleep": 50"#),
        3 => format!(r#""run": {run}, "barrier": "b{i}", "sleep": {rest}"#),
        4 => format!(r#""run": {run}, "yield": "", "run1": 10, "sleep": {rest}"#),
        5 => format!(r#""loop": 4, "run": {run}, "fork": "child", "sleep": {rest}"#),
        6 => format!(r#""taskgroup": "/g{}", "run": {run}, "sleep": {rest}"#, i % 2),
        11 => format!(
            r#""phases": {{ "a": {{ "taskgroup": "/g0/h", "run": {run}, "sleep": {rest} }}, "b": {{ "taskgroup": "/", "run": {run} }} }}"#
        ),
        7 => format!(r#""run": {run}, "iorun": 3000"#),
        8 => format!(r#""runtime": {run}, "sleep": {rest}"#),
        9 => format!(
            r#""phases": {{ "a": {{ "cpus": [0], "run": {run}, "sleep": {rest} }}, "b": {{ "cpus": [1], "run": {run} }} }}"#
        ),
        _ => format!(r#""run": {run}, "sleep": {rest}"#),
    };
    format!(r#""t{i}": {{ "instance": {n}, {policy}, {body} }}"#)
}

fn cases() -> impl Strategy<Value = Case> {
    let pick = any::<prop::sample::Index>;
    let tasks = prop::collection::vec((1u32..6, 0u32..12, 50u32..4000, 100u32..6000, 0u32..9, -10i32..15), 1..6);
    let kernel = (pick(), pick(), pick());
    (tasks, any::<bool>(), pick(), any::<bool>(), kernel, any::<u64>(), 1u64..50).prop_map(
        |(tasks, pi, platform, smt, (kernel, freq, idle), seed, ms)| {
            let tasks: Vec<String> = tasks.into_iter().enumerate().map(|(i, t)| task(i, t)).collect();
            let child = r#""child": { "instance": 0, "loop": 1, "run": 300 }"#;
            let groups = r#""/g0": { "cpu.weight": 37 }, "/g0/h": { "cpu.max": "2000 5000" }, "/g1": { "cpu.max": "9000 10000" }"#;
            let text = format!(
                r#"{{ "tasks": {{ {}, {child} }}, "groups": {{ {groups} }}, "global": {{ "pi_enabled": {pi} }} }}"#,
                tasks.join(", ")
            );
            let threads = ["vm_8vcpu", "xeon_icx", "power9_2s16c", "epyc_milan"];
            let platforms = if smt { threads.to_vec() } else { Collection::Platforms.names() };
            let mut spec = spec(
                platform.get::<&str>(&platforms[..]),
                kernel.get::<&str>(&Collection::Kernels.names()[..]),
                &text,
                seed,
            );
            for (slot, choice) in [(Slot::Cpufreq, freq), (Slot::Cpuidle, idle)] {
                spec.kernel.policies.insert(slot, choice.get::<&str>(&policies(slot)[..]).to_string());
            }
            Case(RunSpec { duration: Ns::from_ms(ms), ..spec })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn accounts_balance_on_random_runs(case in cases()) {
        let observed = accounts_balance(&case.0);
        prop_assert_eq!(observed, digest(&case.0));
    }
}
