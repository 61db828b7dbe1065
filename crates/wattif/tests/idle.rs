//! Idle CPUs: polling, the ways into states and out of them, and the interrupts that end a sleep.

mod runs;

use runs::{MIXED, Polls, sleepy, spec, under};
use std::collections::{BTreeMap, BTreeSet};
use wattif::run::{Simulator, run};
use wattif_model::kernel::Value;
use wattif_model::platform::{Housekeeping, Interrupts};
use wattif_model::run::{RunSpec, Runner};
use wattif_model::trace::{BalanceKind, Event, IdleCause, Interest, Observer, PowerLevel};
use wattif_model::workload::models::model;
use wattif_model::{CpuId, Ns, Pid};

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

/// How far away the next timer was said to be after a poll that gave up, beside what was said before it: as far (nothing but
/// the idle loop itself has turned), less by the whole poll, or something between.
#[derive(Default)]
struct AfterPolls {
    /// By CPU: when the governor was last asked, what the timer was said to be, and whether a poll has given up since.
    last: BTreeMap<CpuId, (u64, u64, bool)>,
    as_far: usize,
    less: usize,
    between: usize,
}

impl Observer for AfterPolls {
    fn interest(&self) -> Interest {
        Interest::IDLE.and(Interest::DECISIONS)
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        match event {
            Event::IdlePeriod(p) => {
                let gave_up = p.cause == IdleCause::PollLimit;
                self.last.entry(cpu).and_modify(|last| last.2 = gave_up);
            }
            Event::Idle(choice) => {
                let told_ns = choice.sleep_length_ns;
                if let Some((asked, before_ns, true)) = self.last.insert(cpu, (at.0, told_ns, false)) {
                    let passed = before_ns.saturating_sub(told_ns);
                    match passed {
                        0 => self.as_far += 1,
                        ns if ns == at.0 - asked => self.less += 1,
                        _ => self.between += 1,
                    }
                }
            }
            _ => {}
        }
    }
}

/// The kernel takes the time at which the CPU came to the idle loop for the present one.
#[test]
fn polling_in_vain_brings_no_timer_nearer() {
    let after = |interval_ns: u64| {
        // A governor that always asks, on CPUs that may only poll.
        let set = ["cpuidle=teo", "teo.generation=6.1", "pm_qos.cpu_latency_us=0"];
        let mut spec = under("core_i7_2600k", "linux-6.12", MIXED, &set);
        spec.duration = Ns::from_ms(100);
        spec.platform.noise.interrupts = (interval_ns > 0).then_some(Interrupts {
            interval_ns,
            work_ns: 1_000,
            burst: 0,
            burst_gap_ns: 0,
            wakes_ppm: 0,
        });
        let mut seen = AfterPolls::default();
        Simulator.run(&spec, &mut [&mut seen]).unwrap();
        (seen.as_far, seen.less, seen.between)
    };
    let (as_far, less, _) = after(0);
    assert!(as_far > 100 && less == 0, "{as_far} as far, {less} nearer by the poll");
    let (_, less, between) = after(100_000);
    assert!(between > 20 && less == 0, "{between} nearer since an interrupt, {less} by the whole poll");
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

/// A CPU that is kicked while it handles an interrupt that woke nobody, here one of 0.3 ms of a deadline thread's zero-lag time.
#[test]
fn a_kick_reaches_an_idle_cpu_that_is_awake() {
    for kernel in ["linux-5.6", "linux-6.1", "linux-6.12"] {
        for delay_us in (33_600..34_600).step_by(100) {
            let text = format!(
                r#"{{ "tasks": {{
                    "dl":  {{ "policy": "SCHED_DEADLINE", "dl-runtime": 1000, "dl-period": 10000, "cpus": [0],
                              "delay": {delay_us}, "loop": 1, "run": 100 }},
                    "hog": {{ "instance": 2, "phases": {{
                        "a": {{ "loop": 1, "cpus": [7], "run": 30000 }},
                        "b": {{ "loop": 1, "cpus": [0, 1, 2, 3, 4, 5, 6, 7], "run": 2000000 }} }} }} }} }}"#
            );
            let mut spec = under("hikey620", kernel, &text, &["cpufreq=performance"]);
            // Nothing else may wake the CPU.
            let noise = &mut spec.platform.noise;
            (noise.irq_jitter_ns, noise.work_ppm, noise.start_spread_ns) = (0, 0, 0);
            noise.housekeeping.clear();
            spec.platform.costs.timer_irq_ns = 300_000;
            let report = run(&spec, &mut []).expect("runs").report;
            let busy_s: f64 = report.cpus.iter().map(|c| c.busy_s).sum();
            assert!(busy_s > 0.65, "{kernel}, {delay_us} µs: the hogs had {busy_s} s in 0.4");
        }
    }
}

/// Entries into idle states, and when the GPU worked.
#[derive(Default)]
struct Gpu {
    device: Option<u32>,
    entered: Vec<(u64, u32)>,
    worked: Vec<(u64, u64)>,
}

impl Observer for Gpu {
    fn interest(&self) -> Interest {
        Interest::IDLE.and(Interest::PROGRAM)
    }
    fn event(&mut self, at: Ns, _: CpuId, event: &Event) {
        match *event {
            Event::CpuIdle { state } if state != Event::IDLE_EXIT => self.entered.push((at.0, state)),
            Event::DeviceDone { device, service_ns, .. } if self.device == Some(device) => {
                self.worked.push((at.0 - service_ns, at.0));
            }
            _ => {}
        }
    }
}

/// Lists are flung, two seconds each; the driver of the GPU of this platform asks, if anybody lets it, for 501 µs until 80 ms after the last frame.
fn flung(governor: &[&str], set: impl Fn(&mut RunSpec)) -> Gpu {
    let mut spec = under("sdm835", "android-4.9", MIXED, governor);
    spec.workload = model("jankbench").unwrap().workload(&[]).unwrap();
    spec.duration = Ns::from_ms(10_000);
    spec.platform.drivers[0].cpu_latency_ns = Some(501_000);
    set(&mut spec);
    let device = spec.workload.devices.iter().position(|d| d.name == "gpu").map(|i| i as u32);
    let mut seen = Gpu { device, ..Gpu::default() };
    Simulator.run(&spec, &mut [&mut seen]).unwrap();
    assert!(seen.worked.len() > 100, "{} frames", seen.worked.len());
    seen
}

const DEEP: u32 = 2;
const HOLD: u64 = 80_000_000;

impl Gpu {
    fn is_held(&self, at: u64) -> bool {
        // An interrupt of the device is late when its CPU sleeps.
        self.worked.iter().any(|&(begin, end)| at > begin + 6_000_000 && at < end + HOLD)
    }
    fn deep(&self) -> [usize; 2] {
        let deep = || self.entered.iter().filter(|e| e.1 == DEEP);
        let held = deep().filter(|e| self.is_held(e.0)).count();
        [held, deep().count() - held]
    }
}

#[test]
fn no_deep_state_is_entered_while_the_gpu_works_nor_soon_after() {
    // The teo of 5.6 takes the first state beyond a limit for one within it.
    for governor in [&["cpuidle=menu"][..], &["cpuidle=teo", "teo.generation=6.12"], &["cpuidle=ladder"]] {
        let [held, free] = flung(governor, |_| {}).deep();
        assert!(held == 0 && free > 10, "{governor:?}: {held} and {free}");
    }
    let [held, _] = flung(&["cpuidle=menu"], |s| s.platform.drivers.clear()).deep();
    assert!(held > 100, "{held}");
    let [held, _] = flung(&["cpuidle=menu"], |s| s.platform.drivers[0].cpu_latency_ns = None).deep();
    assert!(held > 100, "{held}");
    // What knows the future is never late, so that nothing has to be asked of it.
    let [held, _] = flung(&["cpuidle=oracle"], |_| {}).deep();
    assert!(held > 100, "{held}");
}

/// They slept in a shallow state, and nothing else would have woken them.
#[test]
fn idle_cpus_choose_anew_when_the_limit_changes() {
    let at_the_end = |set: &dyn Fn(&mut RunSpec)| {
        let seen = flung(&["cpuidle=menu"], |s| {
            s.platform.noise.housekeeping.clear();
            set(s);
        });
        let ends = seen.worked.windows(2).filter(|w| w[1].0 > w[0].1 + HOLD).map(|w| w[0].1 + HOLD);
        let ends: Vec<u64> = ends.collect();
        assert!(ends.len() >= 2, "{ends:?}");
        let soon =
            |end: &u64| seen.entered.iter().filter(|e| e.1 == DEEP && (*end..end + 1_000_000).contains(&e.0)).count();
        ends.iter().map(soon).collect::<Vec<_>>()
    };
    assert!(at_the_end(&|_| {}).iter().all(|n| *n >= 4), "{:?}", at_the_end(&|_| {}));
    // Of a limit that forbids nothing nobody hears but by a way out and back in.
    let wide = at_the_end(&|s| s.platform.drivers[0].cpu_latency_ns = Some(10_000_000));
    assert!(wide.iter().all(|n| *n >= 4), "{wide:?}");
    let none = at_the_end(&|s| s.platform.drivers.clear());
    assert!(none.iter().all(|n| *n <= 2), "{none:?}");
}
