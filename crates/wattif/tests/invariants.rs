//! The invariants of a run, on the built-in platforms and kernels and on random workloads.

mod laws;

use laws::Laws;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use wattif::data::{Collection, Source};
use wattif::load;
use wattif::run::{Simulator, run, run_all};
use wattif::settings::Settings;
use wattif_formats::rtapp::Dialect;
use wattif_lab::metrics::Cpus;
use wattif_model::kernel::{Slot, Value};
use wattif_model::platform::{DtClock, Housekeeping, Interrupts, PowerUnit};
use wattif_model::run::{RunSpec, Runner};
use wattif_model::trace::{
    Asked, BalanceKind, Event, IdleCause, IdlePeriod, Interest, Observer, PlacementReason, PowerLevel, PrevState,
    ThreadInfo,
};
use wattif_model::workload::{Policy, SchedAttr};
use wattif_model::{CpuId, CpuSet, Ns, Pid};
use wattif_sim::registry::POLICIES;

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

/// Names of the policies that can fill a slot.
fn policies(slot: Slot) -> Vec<&'static str> {
    POLICIES.iter().filter(|p| p.slot == slot && p.selectable).map(|p| p.name).collect()
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

/// Newly-idle passes on a CPU whose idle task was running already.
#[derive(Default)]
struct IdleLookers {
    current: Vec<Pid>,
    passes: usize,
    while_idle: Vec<(Ns, CpuId)>,
}

impl Observer for IdleLookers {
    fn interest(&self) -> Interest {
        Interest::SCHED.and(Interest::DECISIONS)
    }
    fn start(&mut self, platform: &wattif_model::platform::Platform) {
        self.current = vec![Pid(0); platform.nr_cpus()];
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        match event {
            Event::SchedSwitch { next_pid, .. } => self.current[cpu.at()] = *next_pid,
            Event::Balance(b) if b.kind == BalanceKind::NewIdle => {
                self.passes += 1;
                if self.current[b.dst_cpu.at()] == Pid(0) {
                    self.while_idle.push((at, b.dst_cpu));
                }
            }
            _ => {}
        }
    }
}

#[test]
fn only_a_cpu_whose_thread_left_balances_as_newly_idle() {
    let sched_idle = r#"{ "tasks": {
        "cfs":  { "instance": 8, "run": 5333, "timer": { "ref": "unique", "period": 7777 } },
        "idle": { "instance": 5, "run": 3000, "policy": "SCHED_IDLE" }
    }, "global": { "duration": 5 } }"#;
    let mut seen = IdleLookers::default();
    let spec = RunSpec { duration: Ns::from_ms(5000), ..spec("hikey620", "linux-5.3", sched_idle, 1) };
    Simulator.run(&spec, &mut [&mut seen]).unwrap();
    assert!(seen.passes > 100, "{} passes", seen.passes);
    assert_eq!(seen.while_idle, [], "an interrupt of an idle CPU is no reason to look for work elsewhere");
}

/// The time of the last event, and how long polling lasted where it gave up.
#[derive(Default)]
struct Polls {
    last: Ns,
    lasted_ns: BTreeSet<u64>,
}

impl Observer for Polls {
    fn interest(&self) -> Interest {
        Interest::ALL
    }
    fn event(&mut self, at: Ns, _: CpuId, event: &Event) {
        assert!(at >= self.last, "{event:?} is told at {at}, after {}", self.last);
        self.last = at;
        if let Event::IdlePeriod(IdlePeriod { cause: IdleCause::PollLimit, length_ns, .. }) = event {
            self.lasted_ns.insert(*length_ns);
        }
    }
}

/// The shipped ones take no time to enter.
#[test]
fn a_polling_state_is_entered_before_it_polls() {
    let lasted = |entry_ns: u64| {
        let mut spec = spec("core_i7_2600k", "linux-6.12", MIXED, 1);
        let states = spec.platform.clusters.iter_mut().flat_map(|c| &mut c.idle);
        states.filter(|s| s.polling).for_each(|s| s.actual.entry_ns = entry_ns);
        // So none but the polling state is entered.
        spec.kernel.tunables.insert("pm_qos.cpu_latency_us".into(), Value::Int(0));
        let mut polls = Polls::default();
        Simulator.run(&spec, &mut [&mut polls]).unwrap();
        polls.lasted_ns
    };
    let limit = lasted(0);
    assert_eq!(limit.len(), 1, "{limit:?}");
    assert_eq!(lasted(1000), limit.iter().map(|ns| ns + 1000).collect());
}

/// How often the idle loop turned again because of the tick, and because of the limit of polling; and what kept the tick.
#[derive(Default)]
struct Turns {
    ticks: usize,
    limits: usize,
    kept: usize,
}

impl Observer for Turns {
    fn interest(&self) -> Interest {
        Interest::ALL
    }
    fn event(&mut self, _: Ns, _: CpuId, event: &Event) {
        match event {
            Event::IdlePeriod(IdlePeriod { cause: IdleCause::Tick, .. }) => self.ticks += 1,
            Event::IdlePeriod(IdlePeriod { cause: IdleCause::PollLimit, .. }) => self.limits += 1,
            Event::Idle(choice) => self.kept += usize::from(!choice.stop_tick),
            _ => {}
        }
    }
}

/// Up to 4.16 it was stopped before anybody was asked, and polling had no limit.
#[test]
fn no_tick_ends_a_sleep_of_old_kernels_and_polling_has_no_limit() {
    let turns = |platform: &str, kernel: &str| {
        let mut spec = spec(platform, kernel, MIXED, 1);
        if platform == "core_i7_2600k" {
            // So none but the polling state is entered.
            spec.kernel.tunables.insert("pm_qos.cpu_latency_us".into(), Value::Int(0));
        }
        let mut turns = Turns::default();
        Simulator.run(&spec, &mut [&mut turns]).unwrap();
        turns
    };
    for kernel in ["linux-3.13", "linux-4.10", "android-4.9", "android-4.9-walt"] {
        let turns = turns("sdm835", kernel);
        assert_eq!((turns.ticks, turns.kept), (0, 0), "{kernel}");
    }
    for kernel in ["linux-4.20", "linux-5.3"] {
        let turns = turns("sdm835", kernel);
        assert!(turns.ticks > 10 && turns.kept > 10, "{kernel}: {} ticks, {} kept", turns.ticks, turns.kept);
    }
    let limits = ["linux-3.13", "linux-4.10", "linux-4.20"].map(|kernel| turns("core_i7_2600k", kernel).limits > 0);
    assert_eq!(limits, [false, false, true]);
}

/// The first state's residency until 5.10, the last's in 5.4, the first of 10 µs since; the driver of POWER has a rule of its own,
/// and so has haltpoll.
#[test]
fn how_long_a_cpu_polls_is_the_kernels() {
    use wattif_sim::registry::{without_effect, without_effect_here};
    let lasted_us = |platform: &str, kernel: &str| {
        let polls = &mut Polls::default();
        let spec = under(platform, kernel, MIXED, &["cpuidle=menu", "pm_qos.cpu_latency_us=0"]);
        let spec = RunSpec { duration: Ns::from_ms(20), ..spec };
        Simulator.run(&spec, &mut [polls]).unwrap();
        polls.lasted_ns.iter().map(|ns| ns / 1000).collect::<Vec<_>>()
    };
    let kernels = ["linux-5.3", "linux-5.4", "linux-5.6", "linux-5.7", "linux-6.1", "linux-6.12"];
    let polls = |platform| kernels.map(|kernel| lasted_us(platform, kernel));
    assert_eq!(polls("core_i7_2600k"), [2, 345, 2, 2, 20, 20].map(|us| vec![us]));
    assert_eq!(polls("power9_2s16c"), [10; 6].map(|us| vec![us]));
    let path = "poll_state.generation";
    let here = |platform| without_effect_here(&under(platform, "linux-6.12", MIXED, &[]), path).is_some();
    assert_eq!(["xeon_icx", "power9_2s16c", "hikey960"].map(here), [false, true, true]);
    let idle = |set: &[&str]| without_effect(&under("xeon_icx", "linux-6.12", MIXED, set).kernel, path).is_some();
    assert_eq!(["menu", "haltpoll", "oracle"].map(|g| idle(&[&format!("cpuidle={g}")])), [false, true, true]);
    assert!(!idle(&["cpuidle=haltpoll", "pm_qos.cpu_latency_us=0"]));
}

/// Polls that an interrupt of the CPU itself ended, and those of them for which no thread came (it may run elsewhere by now),
/// nor ran.
#[derive(Default)]
struct Interrupted {
    came: BTreeSet<CpuId>,
    ended: BTreeSet<CpuId>,
    polls: usize,
    for_nobody: usize,
}

impl Observer for Interrupted {
    fn interest(&self) -> Interest {
        Interest::ALL
    }
    fn event(&mut self, _: Ns, cpu: CpuId, event: &Event) {
        match event {
            Event::SchedWakeup { target_cpu, .. } => _ = self.came.insert(*target_cpu),
            Event::SchedMigrateTask { dest_cpu, .. } => _ = self.came.insert(*dest_cpu),
            Event::IdlePeriod(p) if matches!(p.cause, IdleCause::Timer | IdleCause::Tick | IdleCause::Device) => {
                self.polls += 1;
                self.ended.insert(cpu);
            }
            Event::SchedSwitch { .. } => _ = self.ended.remove(&cpu),
            Event::CpuIdle { state } if *state != Event::IDLE_EXIT => {
                let (came, ended) = (self.came.remove(&cpu), self.ended.remove(&cpu));
                self.for_nobody += usize::from(ended && !came);
            }
            _ => {}
        }
    }
}

#[test]
fn polling_outlasts_interrupts_that_wake_nobody() {
    let mut spec = spec("core_i7_2600k", "linux-6.12", MIXED, 1);
    // So none but the polling state is entered.
    spec.kernel.tunables.insert("pm_qos.cpu_latency_us".into(), Value::Int(0));
    spec.platform.noise.interrupts =
        Some(Interrupts { interval_ns: 200_000, work_ns: 2_000, burst: 0, burst_gap_ns: 0, wakes_ppm: 0 });
    let mut seen = Interrupted::default();
    Simulator.run(&spec, &mut [&mut seen]).unwrap();
    assert!(seen.polls > 20 && seen.for_nobody == 0, "{} of {} polls", seen.for_nobody, seen.polls);
}

#[test]
fn interrupts_leave_work_to_the_first_thread_of_their_cpu() {
    let activations = |wakes_ppm: u32| {
        let mut spec = spec("hikey620", "linux-6.12", r#"{ "tasks": { "t": { "sleep": 100000 } } }"#, 1);
        let name = |name: &str, per_cpu| Housekeeping {
            name: name.into(),
            per_cpu,
            interval_ns: 1_000_000_000_000,
            work_ns: 9_000,
        };
        spec.platform.noise.housekeeping = vec![name("daemon", false), name("kworker", true), name("second", true)];
        spec.platform.noise.interrupts =
            Some(Interrupts { interval_ns: 10_000_000, work_ns: 2_000, burst: 0, burst_gap_ns: 0, wakes_ppm });
        let spec = RunSpec { duration: Ns::from_ms(1000), ..spec };
        let tasks = run(&spec, &mut []).unwrap().report.tasks;
        let of = |name: &str| {
            let own = tasks.iter().filter(|t| t.task.split('/').next() == Some(name));
            own.map(|t| t.activations).sum::<u64>()
        };
        (of("daemon"), of("kworker"), of("second"))
    };
    let (none, half) = (activations(0), activations(500_000));
    assert_eq!((none.0, none.2), (half.0, half.2), "no other thread");
    // Half of 800, each for a thread that hardly ever runs.
    let more = half.1 - none.1;
    assert!((340..=460).contains(&more), "{more}");
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

/// When a thread got a CPU, µs.
#[derive(Default)]
struct Ran(Vec<(CpuId, u64)>);

impl Observer for Ran {
    fn interest(&self) -> Interest {
        Interest::ALL
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        if matches!(*event, Event::SchedSwitch { next_pid, .. } if next_pid != Pid(0)) {
            self.0.push((cpu, at.0 / 1000));
        }
    }
}

/// The first CPU that wakes gives its cluster power; one that wakes while that lasts runs no sooner.
#[test]
fn who_follows_out_of_a_cluster_state_waits_for_its_power() {
    let task = |cpu: u32, us: u32| {
        let phases = format!(r#""p": {{ "loop": 1, "sleep": {us} }}, "q": {{ "loop": 1, "run": 100 }}"#);
        format!(r#""t{cpu}": {{ "loop": 1, "cpus": [{cpu}], "phases": {{ {phases} }} }}"#)
    };
    let ran = |other: u32| {
        // The other begins 950 us later, out of a sleep of its CPU: 100 us between the timers.
        let text = format!(r#"{{ "tasks": {{ {}, {} }} }}"#, task(0, 50_000), task(other, 49_150));
        let mut spec = spec("hikey620", "linux-6.12", &text, 1);
        let (noise, costs) = (&mut spec.platform.noise, &mut spec.platform.costs);
        (noise.irq_jitter_ns, noise.work_ppm, noise.start_spread_ns) = (0, 0, 0);
        noise.housekeeping.clear();
        (costs.context_switch_ns, costs.wakeup_ns, costs.ipi_ns, costs.timer_irq_ns) = (0, 0, 0, 0);
        spec.platform.timer_slack_ns = 0;
        let mut ran = Ran::default();
        run(&spec, &mut [&mut ran]).expect("runs");
        ran.0.retain(|(_, us)| *us > 1_000);
        ran.0.sort_unstable();
        ran.0
    };
    // The first thread begins after 1 us in WFI; cluster-sleep takes 700 us to leave.
    assert_eq!(ran(1), [(CpuId(0), 50_701), (CpuId(1), 50_701)]);
    assert_eq!(ran(4), [(CpuId(0), 50_701), (CpuId(4), 50_800)], "another cluster");
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
        laws.thread(&ThreadInfo {
            pid,
            comm,
            task,
            policy: "SCHED_OTHER",
            workload: true,
            group: 0,
            dl: None,
            asked: Asked::default(),
        });
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

/// A run of a model under an idle governor.
fn sleepy(platform: &str, model: &str, settings: &[(&str, &str)], seed: u64) -> RunSpec {
    let mut all = Settings::default();
    settings.iter().for_each(|(path, value)| all.add(path, value));
    let platform = load::platform(platform, &all).expect("built in").value;
    let workload = load::workload(model, &platform, Dialect::Workgen, &all).expect("a model").value.workload;
    let kernel = load::kernel("linux-5.6", &all).expect("built in").value;
    RunSpec { platform, workload, kernel, seed, duration: Ns::from_ms(150) }
}

/// An interrupt on its way is no part of what the oracle is judged by: here none takes time.
fn interrupts_take_no_time(spec: &mut RunSpec) {
    let costs = &mut spec.platform.costs;
    (costs.wakeup_ns, costs.ipi_ns, costs.timer_irq_ns, costs.tick_ns) = (0, 0, 0, 0);
    spec.platform.noise.irq_jitter_ns = 0;
}

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

/// What each CPU draws, and when it asked for which state.
#[derive(Default)]
struct WaysIn {
    levels: Vec<(Ns, CpuId, PowerLevel)>,
    asked: Vec<(Ns, CpuId, u32)>,
}

impl Observer for WaysIn {
    fn interest(&self) -> Interest {
        Interest::IDLE.and(Interest::POWER)
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        match event {
            Event::CpuPower { level } => self.levels.push((at, cpu, *level)),
            Event::CpuIdle { state } if *state != Event::IDLE_EXIT => self.asked.push((at, cpu, *state)),
            _ => {}
        }
    }
}

/// When CPU 1 drew power again after each interrupt from another CPU, and how late its thread 1 logged its timers.
#[derive(Default)]
struct Arrivals {
    sent: Option<Ns>,
    on_the_way: Vec<u64>,
    late_ns: Vec<u64>,
}

impl Observer for Arrivals {
    fn interest(&self) -> Interest {
        Interest::ALL
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        match event {
            Event::Placement(p) if p.cpu == CpuId(1) && cpu != CpuId(1) => self.sent = Some(at),
            Event::CpuPower { level: PowerLevel::Busy } if cpu == CpuId(1) => {
                self.on_the_way.extend(self.sent.take().map(|sent| at.since(sent)));
            }
            Event::RtappStats { pid: Pid(1), wu_lat_ns, .. } => self.late_ns.push(*wu_lat_ns),
            _ => {}
        }
    }
}

/// A sleeping CPU draws nothing more while an interrupt is on its way, and hears of its own timers meanwhile.
#[test]
fn an_interrupt_that_is_on_its_way_wakes_nobody_yet() {
    // `b` frees the barrier: 30 wake-ups on CPU 0 before the one on CPU 1, where `t` has a timer of the same time.
    let text = r#"{ "tasks": {
        "t": { "cpus": [1], "loop": -1, "run": 10, "timer": { "ref": "a", "period": 20000, "mode": "absolute" } },
        "w": { "instance": 30, "cpus": [0], "loop": -1, "barrier": "all", "run": 1 },
        "x": { "delay": 1000, "cpus": [1], "loop": -1, "barrier": "all", "run": 1 },
        "b": { "delay": 19990, "cpus": [2], "loop": -1, "run": 1, "barrier": "all",
            "timer": { "ref": "b", "period": 20000, "mode": "absolute" } } } }"#;
    let mut spec = RunSpec { duration: Ns::from_ms(400), ..spec("hikey620", "linux-6.12", text, 1) };
    spec.platform.noise.housekeeping.clear();
    let costs = &mut spec.platform.costs;
    (costs.wakeup_ns, costs.ipi_ns) = (3_000, 6_000);
    spec.platform.timer_slack_ns = 0;
    for state in spec.platform.clusters.iter_mut().flat_map(|c| &mut c.idle) {
        (state.actual.entry_ns, state.actual.exit_ns) = (0, 0);
    }
    let mut seen = Arrivals::default();
    run(&spec, &mut [&mut seen]).expect("runs");
    assert!(seen.on_the_way.len() > 10, "{:?}", seen.on_the_way);
    let late = seen.late_ns.iter().max().unwrap();
    assert!(*late < 30_000, "{late}: it waited for 30 wake-ups of 3 us");
    // Its own timer may come first; no interrupt comes earlier than it takes.
    let earliest = seen.on_the_way.iter().min().unwrap();
    assert!(*earliest >= 6_000, "{:?}", seen.on_the_way);
}

/// Who gave up polling is busy on its way into the next state, as everybody is.
#[test]
fn the_way_into_a_state_is_busy() {
    for governor in ["haltpoll", "menu", "teo"] {
        let mut spec = sleepy("hikey620", "schbench", &[("cpuidle", governor)], 2);
        for cluster in &mut spec.platform.clusters {
            cluster.idle.truncate(2);
            (cluster.idle[0].polling, cluster.idle[1].actual.entry_ns) = (true, 20_000);
        }
        let mut ways = WaysIn::default();
        run(&spec, &mut [&mut ways]).expect("runs");
        let mut deep = 0;
        for (at, cpu, _) in ways.asked.iter().filter(|(_, _, state)| *state > 0) {
            let level =
                ways.levels.iter().rfind(|(when, of, _)| of == cpu && when <= at).map_or(PowerLevel::Busy, |l| l.2);
            assert_eq!(level, PowerLevel::Busy, "{governor}: {cpu:?} at {at}");
            deep += 1;
        }
        assert!(deep > 0, "{governor}: {deep}");
    }
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
[costs]
context_switch_ns = 0
wakeup_ns = 0
ipi_ns = 0
timer_irq_ns = 0
tick_ns = 0
migration_ns = 0
migration_llc_ns = 0
source = "none"
[noise]
irq_jitter_us = 0
work_ppm = 0
start_spread_us = 0
source = "none"
"#;

/// A core draws its deep power only while both of its threads sleep, and whoever knew that needs the least.
#[test]
fn the_oracle_shares_a_core() {
    let source = Source { name: "one_core.toml".into(), text: ONE_CORE.into() };
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

/// Where no state is shared with other CPUs the run that knows the future meets the bound, and is never late.
#[test]
fn the_oracle_meets_its_bound() {
    for (platform, model) in [("juno_r0", "server"), ("hikey620", "pgbench"), ("pixel6", "schbench")] {
        let settings = [("cpuidle", "oracle"), ("cpufreq", "performance")];
        let mut spec = sleepy(platform, model, &settings, 3);
        for state in spec.platform.clusters.iter_mut().flat_map(|c| &mut c.idle) {
            state.disabled |= state.scope != wattif_model::platform::Scope::Cpu;
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

/// `android-4.9-walt` on sdm835 under settings.
fn walt(text: &str, set: &[&str]) -> RunSpec {
    let set: Vec<String> = set.iter().map(|s| s.to_string()).collect();
    let settings = Settings::parse(&set).unwrap();
    let kernel = load::kernel("android-4.9-walt", &settings).unwrap().value;
    RunSpec { kernel, duration: Ns::from_ms(1_500), ..spec("sdm835", "android-4.9-walt", text, 1) }
}

#[test]
fn each_of_the_vendors_additions_to_walt_is_a_switch() {
    let qti = "schedutil.generation=4.9-qti";
    let base = digest(&walt(MIXED, &[qti]));
    assert_ne!(base, digest(&walt(MIXED, &[])), "once per window");
    for name in ["per_cpu_windows", "predicted_demand", "new_task_load"] {
        let (on, off) = (format!("walt_qti.{name}=true"), format!("walt_qti.{name}=false"));
        assert_ne!(base, digest(&walt(MIXED, &[qti, &on])), "{name}");
        assert_eq!(base, digest(&walt(MIXED, &[qti, &off])), "{name}");
    }
    // Work that changes its CPU in mid-window looks like two halves, unless the heaviest task is looked at.
    let roamer = r#"{ "tasks": { "roamer": { "loop": -1, "phases": {
        "here": { "cpus": [4], "runtime": 5000 }, "there": { "cpus": [5], "runtime": 5000 } } } } }"#;
    let khz = |set: &[&str]| {
        let outcome = run(&walt(roamer, &[&["schedtune.boost_pct=0"], set].concat()), &mut []).unwrap();
        outcome.report.metric("domains.1.khz_mean", None).expect("a domain")
    };
    let left = "walt_qti.per_cpu_windows=true";
    let (whole, halves, top) = (khz(&[]), khz(&[left]), khz(&[left, "walt_qti.top_tasks=true"]));
    assert!(halves < 0.8 * whole && top > 0.95 * whole, "{whole} kHz, {halves} in halves, {top} by the top task");
    // A hog without pause: seen before its window closes.
    let hog = r#"{ "tasks": { "hog": { "cpus": [4], "phases": { "p": { "sleep": 303000 }, "b": { "runtime": 700000 } } } } }"#;
    let plain = ["schedtune.boost_pct=0", "schedutil.up_rate_limit_us=0"];
    let ramp_ms = |set: &[&str]| {
        let outcome = run(&walt(hog, &[&plain, set].concat()), &mut []).unwrap();
        outcome.report.metric("domains.1.ramp_up_ms", None).expect("it gets to the highest frequency")
    };
    let (windows, detected) = (ramp_ms(&[]), ramp_ms(&["walt_qti.early_detection=on"]));
    assert!(detected < 0.5 * windows, "{detected} ms against {windows}");
    assert_eq!(windows, ramp_ms(&["walt_qti.early_detection=boosted"]), "nothing boosts");
}

#[test]
fn a_busy_cpu_of_4_9_is_heard_of_at_every_tick() {
    let text = r#"{ "tasks": {
        "hog":  { "cpus": [4], "loop": -1, "runtime": 100000 },
        "near": { "cpus": [4], "loop": -1, "run": 50, "timer": { "ref": "v", "period": 5300 } },
        "far":  { "cpus": [5], "loop": -1, "run": 50, "timer": { "ref": "u", "period": 7100 } } } }"#;
    for kernel in ["android-4.9", "android-4.9-walt"] {
        let spec = RunSpec { duration: Ns::from_ms(4_000), ..spec("sdm835", kernel, text, 1) };
        let steps = spec.platform.domains[1].opps.len() as u64 - 1;
        let report = run(&spec, &mut []).expect("runs").report;
        assert!(report.domains[1].transitions <= steps, "{kernel}: {} changes", report.domains[1].transitions);
    }
}

#[test]
fn what_a_governor_does_not_hear_is_told() {
    let notes = |set: &[(&str, &str)]| wattif_sim::registry::notes(&sleepy("hikey960", "server", set, 1));
    let speed = |khz| notes(&[("cpufreq", "userspace"), ("userspace.setspeed_khz", khz)]);
    assert_eq!(speed("1421000"), [""; 0]);
    let told = |cpus, khz| format!("userspace.setspeed_khz = 99999999: CPUs {cpus} hold {khz}, their highest");
    assert_eq!(speed("99999999"), [told("0-3", 1_844_000), told("4-7", 2_362_000)]);
    let told = |governor: &str, state: &str| {
        let off = format!("platform.clusters.*.idle.{state}.disabled");
        notes(&[("cpuidle", governor), (off.as_str(), "true")])
    };
    let line =
        |governor| vec![format!("{governor} does not look whether WFI is disabled, and enters it, as in the kernel")];
    assert_eq!((told("haltpoll", "WFI"), told("ladder", "WFI")), (line("haltpoll"), line("ladder")));
    assert_eq!((told("menu", "WFI"), told("haltpoll", "2")), (vec![], vec![]));
    let weighted = told("teo_weighted", "WFI");
    assert!(weighted[0].ends_with("it may enter a disabled one") && weighted.len() == 1, "{weighted:?}");
    assert_eq!((told("teo_weighted", "*"), told("teo", "WFI")), (vec![], vec![]));
    // Before 6.2 ladder is not told that `snooze` polls, and begins with it.
    let told = |snooze, off: &str| {
        let off = format!("platform.clusters.*.idle.{off}.disabled");
        let set = [("cpuidle", "ladder"), ("powernv.snooze", snooze), (off.as_str(), "true")];
        wattif_sim::registry::notes(&sleepy("power9_2s16c", "server", &set, 1)).len()
    };
    assert_eq!([told("sleep", "snooze"), told("sleep", "stop0_lite")], [1, 0]);
    assert_eq!([told("polling", "snooze"), told("polling", "stop0_lite")], [0, 1]);
}

/// What a machine of eight CPUs did, on one of two.
#[test]
fn background_of_cpus_that_are_not_there_is_left_out() {
    let all = spec("guest_x86_2cpu", "linux-6.1", MIXED, 1);
    let with = |task: usize, background| {
        let mut spec = all.clone();
        let task = &mut spec.workload.tasks[task];
        (task.cpus, task.background) = (Some([CpuId(5), CpuId(6)].into_iter().collect()), background);
        spec
    };
    let mut without = all.clone();
    without.workload.tasks.remove(1);
    let left_out = with(1, true);
    assert_eq!(digest(&left_out), digest(&without));
    let told = "background of the recorded machine, bound to CPUs that the platform does not have, left out: hog";
    assert_eq!(wattif_sim::registry::notes(&left_out), [told]);
    let refused = Simulator.run(&with(0, false), &mut []).expect_err("it is work").to_string();
    assert!(refused.contains("may run on no CPU of this platform, which has 2\n  give it CPUs"), "{refused}");
}

/// How long after a thread was queued the clock was first decided upon by an update of its CPU, ns.
struct HeardAfter {
    pid: Pid,
    cpu: CpuId,
    decided: Ns,
    queued: Option<Ns>,
    after_ns: Vec<u64>,
}

impl Observer for HeardAfter {
    fn interest(&self) -> Interest {
        Interest::ALL
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        match event {
            // The decision comes first where the queueing is heard of.
            Event::SchedWakeup { pid, .. } if *pid == self.pid && self.decided == at => self.after_ns.push(0),
            Event::SchedWakeup { pid, .. } if *pid == self.pid => self.queued = Some(at),
            Event::Frequency(_) if cpu == self.cpu => {
                self.decided = at;
                self.after_ns.extend(self.queued.take().map(|queued| at.0 - queued.0));
            }
            _ => {}
        }
    }
}

/// In 4.9 a queue that another CPU of its cache changed tells the governor nothing; since 4.14 it does.
#[test]
fn schedutil_of_4_9_hears_of_a_wake_up_by_a_cpu_of_the_same_cache_later() {
    let at_once = |kernel: &str, waker: u32| {
        let waker = format!(
            r#""waker": {{ "cpus": [{waker}], "loop": -1, "run": 50, "resume": "wakee", "timer": {{ "ref": "t", "period": 60000 }} }}"#
        );
        let wakee = r#""wakee": { "cpus": [5], "loop": -1, "suspend": "wakee", "run": 30000 }"#;
        // Slows the cluster down while that sleeps.
        let other = r#""other": { "cpus": [6], "loop": -1, "run": 50, "timer": { "ref": "o", "period": 5000 } }"#;
        let spec = spec("sdm835", kernel, &format!(r#"{{ "tasks": {{ {waker}, {wakee}, {other} }} }}"#), 1);
        let spec = RunSpec { duration: Ns::from_ms(3_000), ..spec };
        let mut heard = HeardAfter { pid: Pid(2), cpu: CpuId(5), decided: Ns(0), queued: None, after_ns: Vec::new() };
        Simulator.run(&spec, &mut [&mut heard]).expect("runs");
        assert!(heard.after_ns.len() > 30, "{kernel}: {} decisions", heard.after_ns.len());
        heard.after_ns.iter().filter(|ns| **ns == 0).count()
    };
    assert_eq!(at_once("android-4.9", 4), 0, "the tick tells");
    assert!(at_once("android-4.9", 0) > 20, "a thread woken from another cluster is queued by the CPU itself");
    assert!(at_once("linux-5.3", 4) > 10);
}

/// The first utilisation of each thread that is told, with its CPU, and the least of a CPU from a time on.
#[derive(Default)]
struct Utilisation {
    first: BTreeMap<Pid, (CpuId, u32)>,
    from: Ns,
    least: BTreeMap<CpuId, u32>,
}

impl Observer for Utilisation {
    fn interest(&self) -> Interest {
        Interest::ALL
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        match *event {
            Event::PeltSe { pid, util_avg, .. } => {
                self.first.entry(pid).or_insert((cpu, util_avg));
            }
            Event::PeltCfs { util_avg, .. } if at >= self.from => {
                let least = self.least.entry(cpu).or_insert(util_avg);
                *least = util_avg.min(*least);
            }
            _ => {}
        }
    }
}

fn utilisation(kernel: &str, text: &str, set: &[&str]) -> Utilisation {
    let spec = RunSpec { duration: Ns::from_ms(1_000), ..under("sdm835", kernel, text, set) };
    let mut seen = Utilisation { from: Ns::from_ms(800), ..Utilisation::default() };
    Simulator.run(&spec, &mut [&mut seen]).expect("runs");
    seen
}

#[test]
fn a_new_task_on_a_little_cpu_begins_with_more_before_4_19() {
    let first = |kernel: &str| {
        let seen = utilisation(kernel, MIXED, &[]).first;
        seen.values().filter(|(cpu, _)| cpu.0 < 4).map(|(_, util)| *util).max().expect("some begin there")
    };
    for kernel in ["linux-4.10", "android-4.9", "android-4.9-walt"] {
        assert!(first(kernel) > 450, "{kernel}: {}", first(kernel));
    }
    for kernel in ["linux-4.20", "linux-5.3"] {
        assert!(first(kernel) < 300, "{kernel}: {}", first(kernel));
    }
}

#[test]
fn the_utilisation_of_a_busy_cpu_wavers_before_4_13() {
    let text = r#"{ "tasks": { "hog": { "cpus": [5], "loop": -1, "run": 10000 } } }"#;
    let least = |kernel: &str| utilisation(kernel, text, &["cpufreq=performance"]).least[&CpuId(5)];
    for kernel in ["linux-4.10", "android-4.9"] {
        assert!((990..1015).contains(&least(kernel)), "{kernel}: {}", least(kernel));
    }
    for kernel in ["linux-4.20", "linux-5.0"] {
        assert!(least(kernel) > 1015, "{kernel}: {}", least(kernel));
    }
}

/// By which rules wake-ups were placed, and how many went from a big CPU (4 to 7) to the waker's little one.
#[derive(Default)]
struct Placements {
    recent: usize,
    pulled: usize,
    total: usize,
}

impl Observer for Placements {
    fn interest(&self) -> Interest {
        Interest::ALL
    }
    fn event(&mut self, _: Ns, _: CpuId, event: &Event) {
        if let Event::Placement(p) = event {
            self.total += 1;
            self.recent += usize::from(p.reason == PlacementReason::RecentIdle);
            self.pulled += usize::from(p.prev_cpu.0 >= 4 && p.target == p.this_cpu && p.this_cpu.0 < 4);
        }
    }
}

/// In 4.10 a task weighs what it needs, in 3.13 what it may take; and no task goes where it was before.
#[test]
fn a_light_task_leaves_a_busy_big_cpu_since_4_3() {
    let text = r#"{ "tasks": {
        "waker": { "cpus": [0], "loop": -1, "run": 20, "resume": "wakee", "timer": { "ref": "t", "period": 1000 } },
        "wakee": { "loop": 1, "phases": {
            "big": { "cpus": [4], "loop": 100, "suspend": "wakee", "run": 50 },
            "any": { "cpus": [0, 4], "loop": 1000, "suspend": "wakee", "run": 50 } } },
        "hog": { "cpus": [4], "loop": -1, "run": 1000000 } } }"#;
    let placed = |set: &[&str]| {
        let set = [&["eas.generation=off", "select_task_rq_fair.before_5_7=false"], set].concat();
        let mut seen = Placements::default();
        Simulator.run(&under("sdm835", "linux-4.10", text, &set), &mut [&mut seen]).expect("runs");
        seen
    };
    let (old, new) = (placed(&["wake_affine.generation=3.13"]), placed(&[]));
    assert!(old.pulled == 0 && new.pulled > 0, "{} and {} of {}", old.pulled, new.pulled, new.total);
    let recent = |kernel: &str| {
        let mut seen = Placements::default();
        Simulator.run(&spec("hikey620", kernel, MIXED, 1), &mut [&mut seen]).expect("runs");
        seen.recent > 0
    };
    let kernels = ["linux-4.10", "android-4.9", "linux-4.20", "linux-5.3"];
    assert_eq!(kernels.map(recent), [false, false, true, true]);
}

#[test]
fn windows_that_are_not_whole_ticks_are_told() {
    let notes = |ms: &str| wattif_sim::registry::notes(&walt(MIXED, &[&format!("walt.window_ms={ms}")]));
    assert_eq!(notes("10"), [""; 0]);
    assert_eq!(notes("12"), ["walt.window_ms = 12: windows are whole ticks, 10000 µs here (3 ticks at 300 Hz)"]);
    assert_eq!(wattif_sim::registry::notes(&spec("sdm835", "linux-6.12", MIXED, 1)), [""; 0]);
    let told = "walt.window_ms = display: only a kernel of 250 Hz follows the display, 20 ms here";
    assert_eq!(notes("display"), [told]);
    let at_250_hz = |text: &str| {
        let mut spec = walt(text, &["walt.window_ms=display"]);
        spec.kernel.hz = Some(250);
        wattif_sim::registry::notes(&spec)
    };
    assert_eq!(at_250_hz(MIXED), ["walt.window_ms = display: the workload draws for none, 20 ms here"]);
}

#[test]
fn settings_about_what_is_not_there_are_told() {
    use wattif_sim::registry::without_effect_here;
    let vendor = "schedutil.generation=4.9-qti";
    let here = |set: &str| without_effect_here(&walt(MIXED, &[vendor, set]), set.split_once('=').unwrap().0);
    let has =
        |set: &str, why: &str| assert!(here(set).is_some_and(|told| told.contains(why)), "{set}: {:?}", here(set));
    has("schedtune.top_app_boost_pct=50", "no group /top-app");
    has("schedtune.touch_ms=9", "nobody touches");
    has("schedutil.hispeed_freq_khz=10000000", "is as the highest frequency");
    has("pm_qos.cpu_latency_us=0", "is below every idle state of cpu0, which enters WFI all the same");
    for set in ["schedtune.boost_pct=5", "walt.window_ms=20", "schedutil.hispeed_freq_khz=1000000"] {
        assert_eq!(here(set), None, "{set}");
    }
    let deadline =
        r#"{ "tasks": { "d": { "policy": "SCHED_DEADLINE", "dl-runtime": 900, "dl-period": 10000, "run": 100 } } }"#;
    for (kernel, text, told) in
        [("linux-6.12", MIXED, true), ("linux-6.12", deadline, false), ("linux-6.6", MIXED, false)]
    {
        let spec = under("hikey960", kernel, text, &["rt.sched_rt_runtime_us=0"]);
        assert_eq!(without_effect_here(&spec, "rt.sched_rt_runtime_us").is_some(), told, "{kernel}");
    }
}

/// A run of `kernel` under settings.
fn under(platform: &str, kernel: &str, text: &str, set: &[&str]) -> RunSpec {
    let set: Vec<String> = set.iter().map(|s| s.to_string()).collect();
    let kernel_spec = load::kernel(kernel, &Settings::parse(&set).unwrap()).unwrap().value;
    RunSpec { kernel: kernel_spec, ..spec(platform, kernel, text, 1) }
}

#[test]
fn idle_settings_that_nobody_heeds_are_told() {
    use wattif_sim::registry::{without_effect, without_effect_here};
    let limit = |governor: &str, us: &str| {
        let set = [format!("cpuidle={governor}"), format!("pm_qos.cpu_latency_us={us}")];
        let spec = under("power9_2s16c", "linux-6.12", MIXED, &[&set[0], &set[1]]);
        without_effect(&spec.kernel, "pm_qos.cpu_latency_us").is_some()
    };
    assert_eq!([limit("oracle", "0"), limit("oracle", "50"), limit("oracle", "none")], [true, true, false]);
    assert_eq!([limit("haltpoll", "0"), limit("haltpoll", "50"), limit("haltpoll", "none")], [false, true, false]);
    assert_eq!([limit("menu", "50"), limit("ladder", "50")], [false, false]);
    let tick = |states: usize| {
        let mut spec = under("power9_2s16c", "linux-6.12", MIXED, &["default_idle.tick=after-tick"]);
        spec.platform.clusters.iter_mut().for_each(|c| c.idle.truncate(states));
        without_effect_here(&spec, "default_idle.tick").is_some()
    };
    assert_eq!([tick(7), tick(2), tick(1)], [true, true, false]);
    let old = |platform: &str, tunable: &str| {
        let set = ["default_idle.tick=upfront", "poll_state.generation=3.13"];
        without_effect_here(&under(platform, "linux-6.12", MIXED, &set), tunable).is_some()
    };
    assert!(!old("sdm835", "default_idle.tick"), "it is stopped whatever the governor says");
    let polls = ["sdm835", "power9_2s16c", "core_i7_2600k"].map(|p| old(p, "poll_state.generation"));
    assert_eq!(polls, [true, true, false], "nothing polls, or the driver has its own limit");
}

#[test]
fn what_clamps_do_needs_clamps_and_capacities_that_differ() {
    use wattif_sim::registry::without_effect_here;
    let told = |platform, task: &str, group: &str, uclamp: &str| {
        let text = format!(
            r#"{{ "tasks": {{ "a": {{ "taskgroup": "/g", {task} "run": 2000, "sleep": 9000 }} }},
                "groups": {{ "/g": {{ {group} }} }} }}"#
        );
        let spec = under(platform, "linux-6.12", &text, &["cpu_util.uclamp_fits=5.3", uclamp]);
        without_effect_here(&spec, "cpu_util.uclamp_fits").is_some()
    };
    let (thread, group) = (r#""util_min": 900,"#, r#""cpu.uclamp.min": 90"#);
    let all = "cpu_util.uclamp=5.4";
    assert!(told("hikey960", "", "", all) && told("hikey620", thread, "", all));
    assert!(!told("hikey960", thread, "", all) && !told("hikey960", "", group, all));
    let threads = "cpu_util.uclamp=5.3";
    assert!(!told("hikey960", thread, group, threads) && told("hikey960", "", group, threads));
}

#[test]
fn the_placement_of_4_9_needs_powers_and_mainlines_needs_capacities_that_differ() {
    use wattif_sim::registry::{notes, without_effect_here};
    // Little enough that no CPU is overutilized.
    let light = r#"{ "tasks": { "a": { "instance": 6, "run": 500, "timer": { "ref": "unique", "period": 7000 } } } }"#;
    let run =
        |platform, kernel, generation: &str| under(platform, kernel, light, &[&format!("eas.generation={generation}")]);
    let here = |platform, kernel, generation| without_effect_here(&run(platform, kernel, generation), "eas.generation");
    assert_ne!(digest(&run("hikey620", "android-4.9", "4.9")), digest(&run("hikey620", "android-4.9", "off")));
    assert_eq!(notes(&run("hikey620", "android-4.9", "4.9")), [""; 0]);
    let mut powerless = run("hikey620", "android-4.9", "4.9");
    powerless.platform.domains[0].power.busy_uw.clear();
    assert!(notes(&powerless)[0].contains("power"), "{:?}", notes(&powerless));
    for kernel in ["linux-6.12", "android-6.6"] {
        let mut powerless = under("hikey960", kernel, light, &[]);
        assert_eq!(notes(&powerless), [""; 0]);
        powerless.platform.domains[1].power.busy_uw.clear();
        let why = "no energy-aware placement here: the platform does not state the power of every operating point";
        assert_eq!(notes(&powerless), [why], "{kernel}");
    }
    // Mainline's is silently absent where capacities are equal and it is not asked for by name.
    assert_eq!(digest(&run("hikey620", "linux-6.12", "6.12")), digest(&run("hikey620", "linux-6.12", "off")));
    assert_eq!(notes(&run("hikey620", "linux-6.12", "6.12")), [""; 0]);
    assert!(here("hikey620", "linux-6.12", "6.12").unwrap().contains("same capacity"));
    assert_eq!((here("hikey620", "linux-6.12", "off"), here("hikey960", "linux-6.12", "6.12")), (None, None));
}

#[test]
fn slices_that_threads_ask_for_are_heard_since_6_12() {
    let text = |slice: u32| {
        format!(
            r#"{{ "tasks": {{
                "short": {{ "instance": 2, "cpus": [0], "dl-runtime": {slice}, "run": 2000, "sleep": 3000 }},
                "hog":   {{ "instance": 2, "cpus": [0], "run": 9000 }}
            }}, "global": {{ "duration": 1 }} }}"#
        )
    };
    for kernel in ["linux-6.1", "linux-6.6", "android-6.6", "linux-6.12"] {
        let run = |slice| under("hikey960", kernel, &text(slice), &[]);
        let heard = kernel == "linux-6.12";
        assert_eq!(digest(&run(100)) != digest(&run(0)), heard, "{kernel}");
        let told = wattif_sim::registry::notes(&run(100)).iter().any(|n| n.contains("dl-runtime"));
        assert_eq!((told, wattif_sim::registry::notes(&run(0)).len()), (!heard, 0), "{kernel}");
    }
}

#[test]
fn clamps_are_heard_since_5_3_and_those_of_groups_since_5_4() {
    let text = |task: &str, group: &str| {
        format!(
            r#"{{ "tasks": {{ "a": {{ "taskgroup": "/g", {task} "run": 2000, "timer": {{ "ref": "t", "period": 16000 }} }} }},
                "groups": {{ "/g": {{ {group} }} }}, "global": {{ "duration": 1 }} }}"#
        )
    };
    let since = [
        ("linux-3.13", [false, false]),
        ("linux-5.0", [false, false]),
        ("android-4.9", [false, false]),
        ("linux-5.3", [true, false]),
        ("linux-5.4", [true, true]),
        ("linux-6.12", [true, true]),
    ];
    for (kernel, heard) in since {
        let run = |task, group| spec("hikey960", kernel, &text(task, group), 1);
        let plain = run("", "");
        let asked = [run(r#""util_min": 1024,"#, ""), run("", r#""cpu.uclamp.min": 100"#)];
        for ((asked, heard), what) in asked.iter().zip(heard).zip(["util_min", "cpu.uclamp"]) {
            assert_eq!(digest(asked) != digest(&plain), heard, "{kernel} {what}");
            let told = wattif_sim::registry::notes(asked).iter().any(|n| n.contains(what));
            assert_eq!(told, !heard, "{kernel} {what}");
        }
    }
}

#[test]
fn what_came_later_than_the_kernel_is_told() {
    // 5 ms each 100 ms, and 35 ms in every fourth period: a burst saves up for it.
    let text = |group: &str| {
        format!(
            r#"{{ "tasks": {{
                "a": {{ "taskgroup": "/g", "phases": {{
                    "quiet": {{ "loop": 3, "run": 5000, "timer": {{ "ref": "t", "period": 100000 }} }},
                    "busy": {{ "run": 35000, "timer": {{ "ref": "t", "period": 100000 }} }} }} }},
                "b": {{ "instance": 9, "run": 9000 }}
            }}, "groups": {{ "/g": {{ {group} }} }}, "global": {{ "duration": 1 }} }}"#
        )
    };
    let idle = r#""cpu.idle": 1"#;
    let limit = r#""cpu.max": "20000 100000""#;
    let burst = r#""cpu.max": "20000 100000", "cpu.max.burst": 20000"#;
    for (kernel, heard) in [("linux-5.6", false), ("linux-6.1", true)] {
        for (without, with, what) in [("", idle, "cpu.idle"), (limit, burst, "cpu.max.burst")] {
            let run = |group| spec("hikey960", kernel, &text(group), 1);
            assert_eq!(digest(&run(with)) != digest(&run(without)), heard, "{kernel} {what}");
            let told = wattif_sim::registry::notes(&run(with)).iter().any(|n| n.contains(what));
            assert_eq!(told, !heard, "{kernel} {what}");
        }
    }
    let deadline = r#"{ "tasks": { "d": { "policy": "SCHED_DEADLINE", "dl-runtime": 900, "dl-period": 10000, "run": 100, "loop": 1 } } }"#;
    for (kernel, known) in [("linux-3.13", false), ("linux-4.10", true), ("android-4.9", true)] {
        let told = wattif_sim::registry::notes(&spec("hikey960", kernel, deadline, 1));
        assert_eq!(told.iter().any(|n| n.contains("no such class")), !known, "{kernel}: {told:?}");
    }
}

#[test]
fn sampling_governors_sample_as_often_as_the_kernel_did() {
    use wattif_sim::registry::without_effect;
    let text = r#"{ "global": { "duration": 2 }, "tasks": { "b": { "run": 3000, "timer": { "ref": "t", "period": 10000 } } } }"#;
    // A transition takes 300 µs.
    for (kernel, period_us) in [
        ("linux-3.13", 300_000),
        ("android-4.9", 300_000),
        ("linux-4.10", 300_000),
        ("linux-4.20", 10_000),
        ("linux-5.6", 10_000),
        ("linux-6.6", 10_000),
        ("linux-6.12", 2_000),
    ] {
        for governor in ["ondemand", "conservative"] {
            let run = |rate: &str| {
                let rate = format!("{governor}.sampling_rate_us={rate}");
                under("hikey960", kernel, text, &[&format!("cpufreq={governor}"), &rate, "hz=1000"])
            };
            let (own, told) = (run("auto"), run(&period_us.to_string()));
            assert_eq!(digest(&own), digest(&told), "{kernel} {governor}");
            assert_ne!(digest(&own), digest(&run("5000")), "{kernel} {governor}");
            let generation = format!("{governor}.generation");
            let unread = [&own, &told].map(|run| without_effect(&run.kernel, &generation).is_some());
            assert_eq!(unread, [false, true], "{kernel} {governor}");
        }
    }
}

#[test]
fn waiting_for_a_disk_keeps_the_clock_up_where_io_is_busy() {
    let transitions = |set: &[&str]| {
        let mut spec = sleepy("sdm835", "androbench:test=sequential_write", &[], 1);
        (spec.kernel, spec.duration) = (walt(MIXED, set).kernel, Ns::from_s(1));
        run(&spec, &mut []).unwrap().report.metric("domains.0.transitions", None).expect("it has a clock")
    };
    let (idle, busy) = (transitions(&[]), transitions(&["walt.io_is_busy=true"]));
    assert!(4.0 * busy < idle, "{busy} changes of frequency against {idle}");
}

/// Placements and demands of one thread, and for how long it did not sleep.
#[derive(Default)]
struct OfThread {
    pid: Pid,
    reasons: Vec<PlacementReason>,
    demands: Vec<u64>,
    woken: Ns,
    awake_ns: u64,
}

impl Observer for OfThread {
    fn interest(&self) -> Interest {
        Interest::ALL
    }
    fn event(&mut self, at: Ns, _: CpuId, event: &Event) {
        match event {
            Event::Placement(p) if p.pid == self.pid => self.reasons.push(p.reason),
            Event::WaltDemand { pid, demand, .. } if *pid == self.pid => self.demands.push(u64::from(*demand)),
            Event::SchedWaking { pid, .. } if *pid == self.pid => self.woken = at,
            Event::SchedSwitch { prev_pid, prev_state: PrevState::Sleeping, .. } if *prev_pid == self.pid => {
                self.awake_ns += at.since(self.woken);
            }
            _ => {}
        }
    }
}

/// The thread `pid` of a run under settings; work counts at CPU 7's full speed.
fn of_thread(pid: u32, platform: &str, kernel: &str, text: &str, set: &[&str]) -> OfThread {
    let set: Vec<String> = set.iter().map(|s| s.to_string()).collect();
    let mut spec = RunSpec { duration: Ns::from_s(2), ..spec(platform, kernel, text, 1) };
    spec.kernel = load::kernel(kernel, &Settings::parse(&set).unwrap()).unwrap().value;
    spec.platform.calibration_cpu = CpuId(7);
    let mut seen = OfThread { pid: Pid(pid), ..OfThread::default() };
    Simulator.run(&spec, &mut [&mut seen]).expect("runs");
    seen
}

/// Two threads that fit CPU 7 alone and not together wake with a third, whose timer was armed last.
#[test]
fn a_wake_up_shows_at_once_that_a_cpu_is_overutilized() {
    let text = r#"{ "tasks": {
        "a": { "cpus": [7], "loop": -1, "run": 7000, "timer": { "ref": "t1", "period": 20000 } },
        "b": { "cpus": [7], "loop": -1, "run": 7000, "timer": { "ref": "t2", "period": 20000 } },
        "s": { "delay": 500, "loop": -1, "run": 100, "timer": { "ref": "t3", "period": 20000 } } } }"#;
    let seen = of_thread(3, "sdm835", "linux-6.12", text, &[]).reasons;
    let by_energy = seen.iter().filter(|r| **r == PlacementReason::Energy).count();
    assert!(seen.len() > 50 && by_energy * 10 < seen.len(), "{by_energy} of {}", seen.len());
}

#[test]
fn energy_aware_placement_under_walt_leaves_a_big_cpu_as_under_pelt() {
    let text = r#"{ "tasks": { "t": { "phases": {
        "a": { "cpus": [7], "loop": 20, "run": 500, "timer": { "ref": "t1", "period": 10000 } },
        "b": { "cpus": [0,1,2,3,4,5,6,7], "loop": 150, "run": 500, "timer": { "ref": "t1", "period": 10000 } } } } } }"#;
    for kernel in ["linux-5.6", "linux-6.1", "linux-6.12"] {
        for set in [&[][..], &["load=walt"]] {
            let set: Vec<String> = set.iter().map(|s: &&str| s.to_string()).collect();
            let kernel = load::kernel(kernel, &Settings::parse(&set).unwrap()).unwrap().value;
            let spec = RunSpec { kernel, duration: Ns::from_s(2), ..spec("sdm835", "linux-6.12", text, 1) };
            let report = run(&spec, &mut []).unwrap().report;
            let little: f64 = report.cpus[..4].iter().map(|c| c.busy_s).sum();
            assert!(little > 0.1, "{} {set:?}: {little} s on little CPUs", spec.kernel.name);
        }
    }
}

#[test]
fn sleep_is_no_demand_where_the_dequeue_is_delayed() {
    let text = r#"{ "tasks": {
        "hog":  { "cpus": [4], "loop": -1, "run": 1000000 },
        "lite": { "cpus": [4], "loop": -1, "run": 3000, "sleep": 2000 } } }"#;
    for delayed in ["features.DELAY_DEQUEUE=true", "features.DELAY_DEQUEUE=false"] {
        let set = ["load=walt", "walt.policy=recent", "cpufreq=performance", delayed];
        let seen = of_thread(2, "sdm835", "linux-6.12", text, &set);
        let demand = seen.demands.iter().sum::<u64>() / seen.demands.len() as u64;
        let awake = seen.awake_ns * 1024 / 2_000_000_000;
        assert!(demand.abs_diff(awake) * 10 < awake, "{delayed}: {demand}, runnable for {awake}");
    }
}

/// When each sleep that the tick ended had been ended.
#[derive(Default)]
struct Ticked {
    at: Vec<u64>,
    others: usize,
}

impl Observer for Ticked {
    fn interest(&self) -> Interest {
        Interest::IDLE
    }
    fn event(&mut self, at: Ns, _: CpuId, event: &Event) {
        match event {
            Event::IdlePeriod(p) if p.cause == IdleCause::Tick => self.at.push(at.0 - p.late_ns),
            Event::IdlePeriod(_) => self.others += 1,
            _ => {}
        }
    }
}

/// What comes while a CPU is on its way out of its sleep, such as a tick, has not woken it.
#[test]
fn the_first_request_ends_a_sleep() {
    let text = r#"{ "tasks": {
        "a": { "cpus": [0], "loop": -1, "run": 70, "resume": "b", "timer": { "ref": "t", "period": 1700 } },
        "b": { "cpus": [1], "loop": -1, "suspend": "b", "run": 30 } } }"#;
    let mut spec = under("hikey960", "linux-6.12", text, &["cpuidle=teo"]);
    // The way out takes half a tick.
    for cluster in &mut spec.platform.clusters {
        for state in cluster.idle.iter_mut().skip(1) {
            state.actual.exit_ns = 2_000_000;
        }
    }
    spec.duration = Ns::from_ms(4000);
    let mut ticked = Ticked::default();
    Simulator.run(&spec, &mut [&mut ticked]).expect("runs");
    let tick_ns = 1_000_000_000 / u64::from(spec.platform.hz);
    assert!(ticked.at.len() > 50 && ticked.others > 500, "{} {}", ticked.at.len(), ticked.others);
    let off = ticked.at.iter().filter(|at| *at % tick_ns != ticked.at[0] % tick_ns).count();
    assert_eq!(off, 0, "of {}", ticked.at.len());
}

#[test]
fn profiles_have_the_rules_of_their_releases() {
    let value = |kernel: &str, path: &str| {
        let spec = load::kernel(kernel, &Settings::default()).unwrap().value;
        let (policy, tunable) = path.split_once('.').unwrap();
        let policy = POLICIES.iter().find(|p| p.name == policy).expect("a policy");
        let default = policy.tunable(tunable).expect("its tunable").default;
        spec.tunables.get(path).map_or(default.to_string(), Value::to_string)
    };
    // From each profile on, in the order of releases: 4.10, 4.20, 5.0, 5.3, 5.4, 5.6, 5.7, 6.1, 6.6, 6.12.
    let releases = ["4.10", "4.20", "5.0", "5.3", "5.4", "5.6", "5.7", "6.1", "6.6", "6.12"];
    let rules: [(&str, &[(&str, &str)]); 8] = [
        (
            "schedutil.generation",
            &[("4.10", "5.3"), ("4.20", "4.20"), ("5.3", "5.3"), ("6.1", "6.1"), ("6.12", "6.12")],
        ),
        ("load_balance.asym_kick", &[("4.10", "4.10"), ("5.3", "5.2")]),
        (
            "find_idlest_cpu.generation",
            &[("4.10", "4.10"), ("4.20", "load"), ("5.6", "5.6"), ("5.7", "5.7"), ("6.1", "group")],
        ),
        ("util_est.generation", &[("4.20", "4.17"), ("5.3", "5.1"), ("5.6", "5.5"), ("6.1", "6.1"), ("6.12", "6.12")]),
        ("rt.capacity_aware", &[("4.10", "false"), ("5.6", "5.6"), ("5.7", "5.7")]),
        ("select_task_rq_fair.affinity", &[("4.10", "off"), ("5.7", "5.7"), ("6.1", "5.11")]),
        ("select_task_rq_fair.before_5_7", &[("4.10", "true"), ("5.7", "false")]),
        ("select_idle_sibling.recent", &[("4.10", "false"), ("4.20", "true")]),
    ];
    for (path, since) in rules {
        let mut expect = None;
        for release in releases {
            expect = since.iter().find(|(first, _)| *first == release).map(|(_, value)| *value).or(expect);
            let got = value(&format!("linux-{release}"), path);
            assert!(expect.is_none_or(|expect| expect == got), "{path} of {release}: {got}, expected {expect:?}");
        }
    }
    assert_eq!(value("linux-3.13", "select_idle_sibling.recent"), "false");
    assert_eq!(value("android-4.9", "load_balance.asym_kick"), "4.10");
}
