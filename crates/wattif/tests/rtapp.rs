//! Every event and every key of rt-app acts: a small file is read, simulated and observed.
//!
//! The machine is quiet (no noise, no costs) unless a test asks for something else, so times are exact to the µs.

use std::collections::BTreeMap;
use wattif::data::Source;
use wattif::load;
use wattif::run::run;
use wattif::settings::Settings;
use wattif_formats::rtapp::Dialect;
use wattif_model::platform::Platform;
use wattif_model::run::{Blocked, RunSpec};
use wattif_model::trace::{Event, Interest, Observer, PlacementReason, PrevState, ThreadInfo};
use wattif_model::{CpuId, Ns, Pid};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// What a thread did.
#[derive(Clone, Debug, Default)]
struct Thread {
    name: String,
    task: String,
    /// Begin and end on each CPU, in order.
    slices: Vec<(u64, u64, u32)>,
    /// Times of its log lines, with `run`, `period`, `wu_lat` and `slack`, ns.
    log: Vec<Line>,
    /// Priorities shown when it was switched in.
    prios: Vec<u8>,
    /// Why it was placed where it was.
    placed: Vec<PlacementReason>,
    woken: u32,
    end: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Line {
    at: u64,
    run: u64,
    period: u64,
    wu_lat: u64,
    slack: i64,
}

impl Thread {
    fn ran(&self) -> u64 {
        self.ran_in(0, u64::MAX)
    }
    fn ran_in(&self, from: u64, to: u64) -> u64 {
        self.slices.iter().map(|s| s.1.min(to).saturating_sub(s.0.max(from))).sum()
    }
    fn cpus(&self) -> Vec<u32> {
        let mut cpus: Vec<u32> = self.slices.iter().map(|s| s.2).collect();
        cpus.dedup();
        cpus
    }
    fn longest(&self) -> u64 {
        // Slices that follow each other on one CPU are one.
        let mut longest = 0;
        let mut current = (0, 0);
        for s in &self.slices {
            current = if s.0 == current.1 { (current.0, s.1) } else { (s.0, s.1) };
            longest = longest.max(current.1 - current.0);
        }
        longest
    }
}

#[derive(Default)]
struct Watch {
    threads: BTreeMap<Pid, Thread>,
    running: BTreeMap<u32, (Pid, u64)>,
    /// Frequencies each domain was set to, with the time.
    khz: Vec<(u64, u32)>,
}

impl Observer for Watch {
    fn interest(&self) -> Interest {
        Interest::ALL
    }
    fn thread(&mut self, t: &ThreadInfo) {
        let thread = Thread { name: t.comm.clone(), task: t.task.clone(), ..Thread::default() };
        self.threads.insert(t.pid, thread);
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        match *event {
            Event::SchedSwitch { prev_pid, prev_state, next_pid, next_prio, .. } => {
                if let Some((pid, since)) = self.running.remove(&cpu.0) {
                    self.thread_of(pid).slices.push((since, at.0, cpu.0));
                }
                if prev_state == PrevState::Dead {
                    self.thread_of(prev_pid).end = Some(at.0);
                }
                if next_pid != Pid(0) {
                    self.running.insert(cpu.0, (next_pid, at.0));
                    self.thread_of(next_pid).prios.push(next_prio);
                }
            }
            Event::SchedWakeup { pid, .. } => self.thread_of(pid).woken += 1,
            Event::Placement(p) => self.thread_of(p.pid).placed.push(p.reason),
            Event::CpuFrequency { khz, .. } => self.khz.push((at.0, khz)),
            Event::RtappStats { pid, wu_lat_ns, run_ns, period_ns, slack_ns } => {
                let line = Line { at: at.0, run: run_ns, period: period_ns, wu_lat: wu_lat_ns, slack: slack_ns };
                self.thread_of(pid).log.push(line);
            }
            _ => {}
        }
    }
    fn finish(&mut self, end: Ns) {
        for (cpu, (pid, since)) in std::mem::take(&mut self.running) {
            self.thread_of(pid).slices.push((since, end.0, cpu));
        }
    }
}

impl Watch {
    fn thread_of(&mut self, pid: Pid) -> &mut Thread {
        self.threads.get_mut(&pid).expect("announced")
    }
}

/// What a run shows.
struct Seen {
    watch: Watch,
    deadlock: Vec<Blocked>,
    end: u64,
}

impl Seen {
    /// The only thread of a task, or the first.
    fn of(&self, task: &str) -> &Thread {
        self.all(task).into_iter().next().unwrap_or_else(|| panic!("no thread of `{task}`"))
    }
    fn all(&self, task: &str) -> Vec<&Thread> {
        self.watch.threads.values().filter(|t| t.task == task).collect()
    }
    fn ran(&self, task: &str) -> u64 {
        self.all(task).iter().map(|t| t.ran()).sum()
    }
}

/// A case: tasks and what is unusual about the rest.
#[derive(Clone)]
struct Case {
    tasks: String,
    global: &'static str,
    platform: &'static str,
    kernel: &'static str,
    set: Vec<&'static str>,
    dialect: Dialect,
    ms: u64,
}

fn case(tasks: &str) -> Case {
    Case {
        tasks: tasks.into(),
        global: "",
        platform: "hikey620",
        kernel: "linux-6.12",
        set: vec!["cpufreq=performance"],
        dialect: Dialect::Workgen,
        ms: 100,
    }
}

impl Case {
    fn global(self, global: &'static str) -> Case {
        Case { global, ..self }
    }
    fn platform(self, platform: &'static str) -> Case {
        Case { platform, ..self }
    }
    fn kernel(self, kernel: &'static str) -> Case {
        Case { kernel, ..self }
    }
    fn set(mut self, set: &'static str) -> Case {
        self.set.push(set);
        self
    }
    fn dialect(self, dialect: Dialect) -> Case {
        Case { dialect, ..self }
    }
    fn ms(self, ms: u64) -> Case {
        Case { ms, ..self }
    }

    fn spec(&self) -> (RunSpec, Vec<&'static str>) {
        let settings = Settings::parse(&self.set).expect("settings");
        let mut platform = load::platform(self.platform, &settings).expect("built in").value;
        quiet(&mut platform);
        let text = format!("{{ \"tasks\": {{ {} }}, \"global\": {{ {} }} }}", self.tasks, self.global);
        let source = Source { name: "case.json".into(), text: text.into() };
        let loaded = load::parse_workload(source, platform.nr_cpus(), self.dialect, &settings)
            .unwrap_or_else(|e| panic!("{}", e.render(wattif::Look { color: false, width: 120 })));
        platform.calibration_cpu = loaded.value.calibration_cpu.unwrap_or(platform.calibration_cpu);
        let codes = loaded.findings.diagnostics.iter().map(|d| d.code).collect();
        let kernel = load::kernel(self.kernel, &settings).expect("built in").value;
        let workload = loaded.value.workload;
        (RunSpec { platform, workload, kernel, seed: 1, duration: Ns::from_ms(self.ms) }, codes)
    }

    fn run(&self) -> Seen {
        self.run_on(|_| ())
    }
    /// On a platform that is not quite as quiet.
    fn run_on(&self, change: impl Fn(&mut Platform)) -> Seen {
        let (mut spec, _) = self.spec();
        change(&mut spec.platform);
        let mut watch = Watch::default();
        let outcome = run(&spec, &mut [&mut watch]).expect("runs");
        Seen { watch, deadlock: outcome.summary.deadlock, end: outcome.summary.end.0 }
    }
    /// What the run ends with.
    fn error(&self) -> String {
        run(&self.spec().0, &mut []).map(|_| ()).expect_err("is refused").to_string()
    }
}

/// No noise, no costs, no transition of clocks, no timer slack.
fn quiet(platform: &mut Platform) {
    let (noise, costs) = (&mut platform.noise, &mut platform.costs);
    (noise.irq_jitter_ns, noise.work_ppm, noise.start_spread_ns) = (0, 0, 0);
    noise.housekeeping.clear();
    (costs.context_switch_ns, costs.wakeup_ns, costs.ipi_ns, costs.timer_irq_ns) = (0, 0, 0, 0);
    (costs.tick_ns, costs.migration_ns, costs.migration_llc_ns) = (0, 0, 0);
    platform.timer_slack_ns = 0;
    for state in platform.clusters.iter_mut().flat_map(|c| &mut c.idle) {
        (state.actual.entry_ns, state.actual.exit_ns) = (0, 0);
    }
}

#[track_caller]
fn near(value: u64, expect: u64, tolerance: u64) {
    assert!(value.abs_diff(expect) <= tolerance, "{value} is not {expect} ± {tolerance}");
}

/// `a` is `expect` of `a + b`, to two hundredths: a turn or two of the length of a tick.
#[track_caller]
fn share(a: u64, b: u64, expect: f64) {
    let share = a as f64 / (a + b).max(1) as f64;
    assert!((share - expect).abs() < 0.02, "{a} and {b}: {share:.4}, expected {expect:.4}");
}

// ---- executing -------------------------------------------------------------------------------------------------------

#[test]
fn run_scales_with_frequency_and_capacity() {
    let tasks = r#""a": { "cpus": [0], "loop": 1, "run": 1000 }"#;
    assert_eq!(case(tasks).run().of("a").log[0].run, MS);
    let slow = case(tasks).set("cpufreq=powersave");
    let opp = slow.spec().0.platform.domains[0].opps[0].capacity;
    near(slow.run().of("a").log[0].run, MS * 1024 / u64::from(opp), US);
    // On a little CPU, counted at a big one, and the other way round.
    let little = case(tasks).platform("hikey960").global(r#""calibration": "CPU4""#);
    let capacity = u64::from(little.spec().0.platform.cpus[0].capacity);
    assert!(capacity < 700);
    near(little.run().of("a").log[0].run, MS * 1024 / capacity, US);
    let counted_little = case(tasks).platform("hikey960").global(r#""calibration": "CPU0""#);
    near(counted_little.run().of("a").log[0].run, MS, US);
}

#[test]
fn runtime_is_wall_clock_and_counts_preemption() {
    let tasks = r#""a": { "cpus": [0], "loop": 1, "runtime0": 10000 },
        "urgent": { "cpus": [0], "policy": "SCHED_FIFO", "phases": { "p": { "sleep": 3000, "run": 4000 } }, "loop": 1 }"#;
    for freq in ["cpufreq=performance", "cpufreq=powersave"] {
        let seen =
            case(&tasks.replace("4000", if freq.ends_with("performance") { "4000" } else { "692" })).set(freq).run();
        let a = seen.of("a");
        near(a.log[0].run, 10 * MS, 250 * US); // a chunk of 32 µs at full speed
        near(a.ran(), a.log[0].run - seen.ran("urgent"), US);
        near(seen.ran("urgent"), 4 * MS, 50 * US);
    }
}

#[test]
fn memory_and_io_take_the_same_time_at_any_frequency() {
    for event in [
        r#""mem": 4000000"#,
        r#""iorun": 4000000"#,
        r#""memrun": { "type": "read", "size": 65536, "count": 100000 }"#,
        r#""memrun": { "type": "write", "size": 65536, "count": 100000 }"#,
        r#""memrun": { "type": "chase", "size": 16777216, "count": 10000 }"#,
    ] {
        let tasks = format!(r#""a": {{ "cpus": [0], "loop": 1, {event} }}"#);
        let ran = |freq| case(&tasks).set(freq).run().of("a").ran();
        assert!(ran("cpufreq=performance") >= 500, "{event}");
        assert_eq!(ran("cpufreq=performance"), ran("cpufreq=powersave"), "{event}");
    }
    let twice = |n| case(&format!(r#""a": {{ "cpus": [0], "loop": 1, "mem": {n} }}"#)).run().of("a").ran();
    near(twice(8_000_000), 2 * twice(4_000_000), 10 * US);
    // Positions in a cache, and positions in memory.
    let chase = |size| {
        case(&format!(
            r#""a": {{ "cpus": [0], "loop": 1, "memrun": {{ "type": "chase", "size": {size}, "count": 10000 }} }}"#
        ))
        .run()
        .of("a")
        .ran()
    };
    assert!(chase(64 << 20) > 5 * chase(4096));
}

// ---- time ------------------------------------------------------------------------------------------------------------

fn times(thread: &Thread) -> Vec<u64> {
    thread.log.iter().map(|l| (l.at + 500) / US).collect()
}

#[test]
fn sleep_is_relative() {
    let seen = case(r#""a": { "run": 1000, "sleep": 3000, "loop": 3 }"#).run();
    assert_eq!(times(seen.of("a")), [4000, 8000, 12000]);
    assert_eq!((seen.of("a").ran(), seen.end), (3 * MS, 12 * MS), "the run ends with its threads");
    let mut slack = case(r#""a": { "run": 1000, "sleep": 3300, "loop": 3 }"#);
    let seen = slack.run_on(|p| p.timer_slack_ns = 50 * US);
    assert_eq!(times(seen.watch.threads.values().next().unwrap()), [4350, 8700, 13050], "fair threads allow slack");
    slack.tasks = slack.tasks.replace("\"run\"", "\"policy\": \"SCHED_FIFO\", \"run\"");
    let seen = slack.run_on(|p| p.timer_slack_ns = 50 * US);
    assert_eq!(times(seen.watch.threads.values().next().unwrap()), [4300, 8600, 12900], "others do not");
}

/// A short phase, one that overruns, and three short ones.
fn overrun(mode: &str) -> Vec<Line> {
    let timer = format!(r#""timer": {{ "ref": "unique", "period": 10000, "mode": "{mode}" }}"#);
    let tasks = format!(
        r#""a": {{ "loop": 1, "phases": {{ "p": {{ "run": 1000, {timer} }}, "q": {{ "run": 25000, {timer} }},
        "r": {{ "loop": 3, "run": 1000, {timer} }} }} }}"#
    );
    case(&tasks).run().of("a").log.clone()
}

#[test]
fn timer_relative_and_absolute() {
    let us = |lines: &[Line]| lines.iter().map(|l| l.at / US).collect::<Vec<_>>();
    let slack = |lines: &[Line]| lines.iter().map(|l| l.slack / US as i64).collect::<Vec<_>>();
    let relative = overrun("relative");
    assert_eq!(us(&relative), [10_000, 35_000, 45_000, 55_000, 65_000], "goes on from the overrun");
    assert_eq!(slack(&relative), [9_000, -15_000, 9_000, 9_000, 9_000]);
    let absolute = overrun("absolute");
    assert_eq!(us(&absolute), [10_000, 35_000, 36_000, 40_000, 50_000], "catches up");
    assert_eq!(slack(&absolute), [9_000, -15_000, -6_000, 3_000, 9_000]);
    assert!(relative.iter().chain(&absolute).all(|l| l.wu_lat == 0), "a quiet machine is never late");
}

#[test]
fn timer_unique_and_shared() {
    let periods = |name: &str| {
        let timer = format!(r#""timer": {{ "ref": "{name}", "period": 10000 }}"#);
        let seen = case(&format!(
            r#""a": {{ "cpus": [0], "run": 1000, {timer} }}, "b": {{ "cpus": [1], "run": 1000, {timer} }}"#
        ))
        .run();
        let period = |t: &Thread| t.log.iter().skip(1).map(|l| l.period / US).collect::<Vec<_>>();
        [period(seen.of("a")), period(seen.of("b"))]
    };
    assert!(periods("unique_tick").iter().all(|p| p.len() >= 8 && p.iter().all(|&us| us == 10_000)));
    let shared = periods("tick");
    assert!(
        shared.iter().all(|p| p.len() >= 3 && p.iter().all(|&us| us == 20_000)),
        "each use moves it on: {shared:?}"
    );
}

#[test]
fn timer_latency_is_logged() {
    // A FIFO hog occupies the CPU when the timer expires, for 3 ms.
    let seen = case(
        r#""a": { "cpus": [0], "run": 100, "timer": { "ref": "unique", "period": 10000 }, "loop": 1 },
        "hog": { "cpus": [0], "policy": "SCHED_FIFO", "sleep": 8000, "run": 5000, "loop": 1 }"#,
    )
    .run();
    near(seen.of("a").log[0].wu_lat, 3 * MS, US);
}

#[test]
fn delay_comes_first_and_attributes_after_it() {
    let seen = case(
        r#""a": { "delay": 20000, "policy": "SCHED_FIFO", "priority": 30, "cpus": [3], "run": 1000,
                  "timer": { "ref": "unique", "period": 10000 }, "loop": 2 }"#,
    )
    .run();
    let a = seen.of("a");
    assert_eq!(times(a), [30_000, 40_000], "timers count from the end of the delay");
    assert_eq!(a.ran_in(0, 20 * MS), 0);
    assert_eq!((a.prios[0], *a.prios.last().unwrap()), (120, 69), "born as SCHED_OTHER, then FIFO 30: {:?}", a.prios);
    assert_eq!(*a.cpus().last().unwrap(), 3);
}

// ---- waiting for each other ----------------------------------------------------------------------------------------

#[test]
fn lock_and_unlock_exclude() {
    let seen = case(
        r#""a": { "cpus": [0], "loop": 1, "lock": "m", "run": 10000, "unlock": "m" },
        "b": { "cpus": [1], "loop": 1, "lock": "m", "run": 10000, "unlock": "m" },
        "free": { "cpus": [2], "loop": 1, "lock": "n", "run": 10000, "unlock": "n" }"#,
    )
    .run();
    assert_eq!((times(seen.of("a")), times(seen.of("b"))), (vec![10_000], vec![20_000]));
    assert_eq!(times(seen.of("free")), [10_000], "another mutex");
    assert!(seen.deadlock.is_empty());
}

/// The classic inversion on one CPU: the low task holds what the high one wants while the middle one runs.
fn inversion(global: &'static str) -> Seen {
    case(
        r#""low": { "cpus": [0], "policy": "SCHED_FIFO", "priority": 1, "loop": 1, "lock": "m", "run": 20000, "unlock": "m" },
        "high": { "delay": 5000, "cpus": [0], "policy": "SCHED_FIFO", "priority": 30, "loop": 1, "lock": "m", "run": 1000, "unlock": "m" },
        "mid": { "delay": 6000, "cpus": [0], "policy": "SCHED_FIFO", "priority": 10, "loop": 1, "run": 50000 }"#,
    )
    .global(global)
    .run()
}

#[test]
fn priority_inheritance() {
    let without = inversion("");
    assert_eq!([times(without.of("high")), times(without.of("mid"))], [[71_000], [56_000]], "high waits for mid");
    let with = inversion(r#""pi_enabled": true"#);
    assert_eq!([times(with.of("high")), times(with.of("mid"))], [[21_000], [71_000]]);
    assert!(with.of("low").prios.contains(&69), "it ran with the priority of high: {:?}", with.of("low").prios);
    assert!(!without.of("low").prios.contains(&69));
}

#[test]
fn wait_signal_broad() {
    let waiters = |event: &str| {
        let tasks = format!(
            r#""w": {{ "instance": 2, "loop": 1, "lock": "m", "wait": {{ "ref": "c", "mutex": "m" }}, "unlock": "m", "run": 1000 }},
            "s": {{ "delay": 10000, "loop": 1, "run": 5, {event} }}"#
        );
        let seen = case(&tasks).run();
        let ended = seen.all("w").iter().filter(|t| t.log.len() == 1 && t.log[0].at > 10 * MS).count();
        (ended, seen.deadlock.len())
    };
    assert_eq!(waiters(r#""signal": "c""#), (1, 1), "one is woken");
    assert_eq!(waiters(r#""broad": "c""#), (2, 0));
    assert_eq!(waiters(r#""signal1": "c", "signal2": "c""#), (2, 0));
    assert_eq!(waiters(r#""signal": "d""#), (0, 2));
    let lost = case(
        r#""s": { "loop": 1, "run": 5, "signal": "c" }, "w": { "delay": 5000, "loop": 1, "lock": "m",
            "wait": { "ref": "c", "mutex": "m" }, "unlock": "m", "run": 1000 }"#,
    )
    .run();
    assert!(lost.of("w").log.is_empty(), "a signal nobody waits for is lost");
    assert_eq!((lost.deadlock[0].thread.as_str(), lost.deadlock[0].waits_for.as_str()), ("w-1", "condition `c`"));
}

#[test]
fn sync_signals_and_waits() {
    let seen = case(
        r#""a": { "cpus": [0], "run": 1000, "lock": "m", "sync": { "ref": "c", "mutex": "m" }, "unlock": "m" },
        "b": { "cpus": [1], "delay": 500, "run": 1000, "lock": "m", "sync": { "ref": "c", "mutex": "m" }, "unlock": "m" }"#,
    )
    .run();
    let (a, b) = (seen.of("a"), seen.of("b"));
    share(a.ran(), b.ran(), 0.5);
    let overlap: u64 = a.slices.iter().map(|s| b.ran_in(s.0, s.1)).sum();
    near(overlap, 500 * US, US); // before the first sync; then they take turns
    near(a.ran() + b.ran(), 100 * MS, MS);
}

#[test]
fn suspend_and_resume() {
    let seen = case(
        r#""s": { "instance": 2, "suspend": "", "run": 1000 }, "other": { "suspend": "", "run": 1000 },
        "r": { "sleep": 10000, "resume": "s", "loop": 5 }"#,
    )
    .run();
    for s in seen.all("s") {
        assert_eq!(times(s), [11_000, 21_000, 31_000, 41_000, 51_000], "all instances are woken");
    }
    assert_eq!(seen.ran("other"), 0, "it waits on its own name");
}

#[test]
fn barrier_waits_for_all() {
    let seen = case(
        r#""a": { "instance": 2, "run": 1000, "barrier": "b", "loop": 4 }, "z": { "run": 5000, "barrier": "b", "loop": 4 }"#,
    )
    .run();
    for t in seen.watch.threads.values().filter(|t| ["a", "z"].contains(&t.task.as_str())) {
        assert_eq!(times(t), [5_000, 10_000, 15_000, 20_000], "{}", t.name);
    }
}

#[test]
fn semaphores_remember() {
    let seen = case(
        r#""p": { "loop": 3, "run": 10, "sem_post": "s" },
        "w": { "delay": 10000, "sem_wait": "s", "run": 1000 }, "late": { "delay": 50000, "loop": 1, "run": 5, "sem_post": "s" }"#,
    )
    .run();
    let w = times(seen.of("w"));
    assert_eq!(w[..3], [11_000, 12_000, 13_000], "three posts before anybody waited");
    assert_eq!((w.len(), w[3]), (4, 51_005), "then it waits");
}

/// `low` and `high` of SCHED_FIFO share a CPU: whoever is woken has it before the waker's next event.
#[test]
fn a_wake_up_preempts_before_the_next_event() {
    let pair = |low: &str, high: &str| {
        let fifo = |name: &str, prio: u32, events: &str| {
            format!(r#""{name}": {{ "policy": "SCHED_FIFO", "priority": {prio}, "cpus": [0], {events} }}"#)
        };
        case(&format!("{}, {}", fifo("low", 10, low), fifo("high", 20, high))).run()
    };
    let ends = |seen: &Seen| ["low", "high"].map(|task| seen.of(task).log.last().map(|line| line.at / US));
    let post = |then: &str| pair(&format!(r#""loop": 1, "run": 100, "sem_post": "s", {then}"#), WAITS);
    const WAITS: &str = r#""loop": 1, "sem_wait": "s", "run": 3000"#;
    assert_eq!(ends(&post(r#""sleep": 1000, "run": 500"#)), [Some(4_600), Some(3_100)], "it sleeps when it is back");
    assert_eq!(post(r#""timer": { "ref": "t", "period": 1000 }"#).of("low").log[0].slack, -2_100 * US as i64);
    near(post(r#""runtime": 2000"#).of("low").end.unwrap(), 5_100 * US, 40 * US);
    let lock = r#""lock": "m", "run": 2000, "unlock": "m""#;
    let seen = pair(
        &format!(r#""loop": 1, "run": 100, "sem_post": "s", {lock}"#),
        &format!(r#""loop": 1, "sem_wait": "s", {lock}"#),
    );
    assert_eq!(ends(&seen), [Some(4_100), Some(2_100)], "the mutex is free for the one woken");
    let seen = pair(
        r#""loop": 3, "run": 1000, "resume": "high", "suspend": """#,
        r#""loop": 3, "suspend": "", "run": 1000, "resume": "low""#,
    );
    assert_eq!(
        (ends(&seen), seen.deadlock.len()),
        ([None, Some(2_000)], 2),
        "nobody is suspended yet: the resume is lost"
    );
    let phases = r#""loop": 1, "phases": { "a": { "loop": 1, "priority": 20, "run": 5000 },
        "b": { "loop": 1, "priority": 5, "sleep": 1000, "run": 500 } }"#;
    let seen = pair(phases, r#""loop": 1, "sleep": 1000, "run": 3000"#);
    assert_eq!(ends(&seen), [Some(9_500), Some(8_000)], "so does a lower priority");
}

#[test]
fn a_wake_up_is_paid_for_before_the_waker_sleeps() {
    let end = |wakeup_us: u64, then: &str| {
        let tasks = format!(
            r#""a": {{ "cpus": [0], "loop": 1, "run": 1000, "sem_post": "s", {then} }},
            "b": {{ "cpus": [1], "loop": 1, "sem_wait": "s", "run": 10 }}"#
        );
        let seen = case(&tasks).run_on(|p| p.costs.wakeup_ns = wakeup_us * US);
        (seen.of("a").end.unwrap() / US, seen.ran("a") / US)
    };
    assert_eq!(end(0, r#""sleep": 10000"#), (11_000, 1_000));
    // Two threads are started first, and its own wake-up costs the idle CPU.
    assert_eq!(end(500, r#""sleep": 10000"#), (1_000 + 1_500 + 10_000 + 500, 1_500), "the sleep begins after the call");
    assert_eq!(end(500, r#""run": 10"#), (1_000 + 1_510, 1_510));
    // Whoever is woken on the same CPU and preempts begins after the call as well.
    let tasks = r#""low": { "policy": "SCHED_FIFO", "priority": 10, "cpus": [0], "loop": 1, "run": 100, "sem_post": "s" },
        "high": { "policy": "SCHED_FIFO", "priority": 20, "cpus": [0], "loop": 1, "sem_wait": "s", "run": 3000 }"#;
    let seen = case(tasks).run_on(|p| p.costs.wakeup_ns = 500 * US);
    assert_eq!(seen.of("high").end.unwrap() / US, 1_000 + 100 + 500 + 3_000);
}

#[test]
fn yield_lets_equals_run() {
    let slices = |more: &str| {
        let tasks = format!(
            r#""a": {{ "instance": 2, "cpus": [0], "policy": "SCHED_FIFO", "priority": 5, "run": 1000 {more} }}"#
        );
        case(&tasks).run().all("a").iter().map(|t| t.longest()).collect::<Vec<_>>()
    };
    assert_eq!(slices(r#", "yield": """#), [MS, MS]);
    assert_eq!(slices(""), [100 * MS, 0], "FIFO without yield");
    let fair = |more: &str| {
        case(&format!(r#""a": {{ "instance": 2, "cpus": [0], "run": 100 {more} }}"#)).run().of("a").longest()
    };
    assert!(fair(r#", "yield": """#) < MS && fair("") > 2 * MS, "{} {}", fair(r#", "yield": """#), fair(""));
}

/// Before 6.19 and its backports a yield moves the deadline and nothing else: the virtual time stays, and with it the share.
#[test]
fn yield_forfeits_the_slice_in_todays_kernels_only() {
    let tasks = r#""yielder": { "cpus": [0], "run": 100, "yield": "" }, "hog": { "cpus": [0], "run": 10000 }"#;
    let share_pct = |of: Case| of.ms(2000).run().of("yielder").ran() / (20 * MS);
    for kernel in ["linux-6.6", "android-6.6"] {
        let share = share_pct(case(tasks).kernel(kernel));
        assert!((48..=52).contains(&share), "{kernel}: {share} %");
        let forfeits = share_pct(case(tasks).kernel(kernel).set("eevdf.forfeit_on_yield=true"));
        assert!(forfeits < 15, "{kernel}: {forfeits} %");
    }
    assert!(share_pct(case(tasks)) < 15, "linux-6.12");
}

#[test]
fn fork_creates_threads() {
    let seen = case(
        r#""parent": { "loop": 2, "run": 1000, "fork": "child" }, "child": { "instance": 0, "loop": 1, "run": 500 }"#,
    )
    .run();
    let names: Vec<&str> = seen.all("child").iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["child-1-0000", "child-2-0001"]);
    assert_eq!(seen.all("child").iter().map(|t| times(t)[0]).collect::<Vec<_>>(), [1_500, 2_500]);
    assert_eq!(seen.all("child").iter().map(|t| t.ran()).collect::<Vec<_>>(), [500 * US, 500 * US]);
    let of_deadline = r#""parent": { "policy": "SCHED_DEADLINE", "dl-runtime": 3000, "dl-period": 10000, "run": 2000, "fork": "child" },
        "child": { "instance": 0, "loop": 1, "run": 500 }"#;
    assert!(case(of_deadline).error().contains("EAGAIN"), "the kernel lets no deadline thread fork");
}

// ---- structure -------------------------------------------------------------------------------------------------------

#[test]
fn phases_loops_instances() {
    let seen = case(
        r#""a": { "instance": 3, "loop": 2, "phases": { "p": { "loop": 2, "run": 1000 }, "q": { "loop": 3, "run": 2000 } } },
        "none": { "loop": 0, "phases": { "p": { "run": 1000 } } }"#,
    )
    .run();
    assert_eq!(seen.all("a").iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["a-0", "a-1", "a-2"]);
    for t in seen.all("a") {
        let runs: Vec<u64> = t.log.iter().map(|l| l.run / MS).collect();
        assert_eq!(runs, [1, 1, 2, 2, 2, 1, 1, 2, 2, 2]);
        assert_eq!(t.ran(), 16 * MS);
    }
    assert_eq!(seen.ran("none"), 0);
    let seen = case(r#""a": { "phases": { "p": { "run": 1000 }, "q": { "loop": 0, "run": 2000 } } }"#).run();
    let a = &seen.of("a").log;
    assert!(a[0].run == MS && a[1..].iter().all(|l| l.run == 2 * MS) && a.len() > 40, "loop 0 of a phase is for ever");
}

// ---- scheduling keys ------------------------------------------------------------------------------------------------

#[test]
fn fifo_preempts_other_and_runs_to_its_end() {
    let seen = case(
        r#""hog": { "cpus": [0], "run": 1000 }, "f": { "cpus": [0], "policy": "SCHED_FIFO", "sleep": 10000, "run": 7000, "loop": 1 }"#,
    )
    .run();
    assert_eq!(seen.of("f").slices.iter().map(|s| (s.0 / MS, s.1 / MS)).next_back(), Some((10, 17)));
    assert_eq!(seen.of("hog").ran_in(10 * MS, 17 * MS), 0);
}

#[test]
fn a_thread_is_of_sched_other_when_it_ends() {
    let seen = case(
        r#""a": {"policy": "SCHED_FIFO", "priority": 20, "cpus": [0], "loop": 1, "run": 3000},
           "b": {"policy": "SCHED_FIFO", "priority": 10, "cpus": [0], "loop": 1, "run": 5000}"#,
    )
    .run();
    // It has done its work, and lets the other finish before it is gone.
    let done = seen.of("b").log[0].at;
    assert!(done >= 8 * MS && seen.of("a").end >= Some(done), "{:?}", seen.of("a"));
}

#[test]
fn rr_takes_turns_of_100_ms() {
    let seen = case(r#""r": { "instance": 2, "cpus": [0], "policy": "SCHED_RR", "run": 1000 }"#).ms(600).run();
    for r in seen.all("r") {
        near(r.longest(), 100 * MS, 4 * MS);
        near(r.ran(), 300 * MS, 8 * MS);
    }
}

#[test]
fn deadline_is_edf_within_a_budget() {
    let seen = case(
        r#""late": { "cpus": [0], "policy": "SCHED_DEADLINE", "dl-runtime": 3000, "dl-deadline": 20000, "dl-period": 20000,
                     "run": 2000, "timer": { "ref": "unique1", "period": 20000 } },
        "soon": { "cpus": [0], "policy": "SCHED_DEADLINE", "dl-runtime": 3000, "dl-deadline": 5000, "dl-period": 20000,
                  "run": 2000, "timer": { "ref": "unique2", "period": 20000 } },
        "fifo": { "cpus": [0], "policy": "SCHED_FIFO", "priority": 99, "run": 1000 }"#,
    )
    .set("platform.hz=1000")
    .run();
    for period in 1..4 {
        let at = period * 20 * MS;
        assert_eq!(seen.of("soon").ran_in(at, at + 2 * MS), 2 * MS, "the earlier deadline first");
        assert_eq!(seen.of("late").ran_in(at + 2 * MS, at + 4 * MS), 2 * MS);
    }
    assert_eq!(seen.of("fifo").ran_in(24 * MS, 40 * MS), 16 * MS, "below every deadline task");
    for period in [10, 25] {
        let tasks = format!(
            r#""d": {{ "cpus": [0], "policy": "SCHED_DEADLINE", "dl-runtime": 2000, "dl-period": {period}000, "run": 1000 }},
            "rest": {{ "cpus": [0], "run": 1000 }}"#
        );
        let seen = case(&tasks).set("platform.hz=1000").ms(500).run();
        share(seen.ran("d"), seen.ran("rest"), 2.0 / period as f64);
    }
}

/// How long a sleeper of this policy waits behind a hog.
fn waits_behind_hog(policy: &str, kernel: &'static str) -> u64 {
    let tasks = format!(
        r#""hog": {{ "cpus": [0], "run": 1000 }}, "s": {{ "cpus": [0], "policy": "{policy}", "sleep": 25500, "run": 100, "loop": 1 }}"#
    );
    case(&tasks).kernel(kernel).run().of("s").slices.last().unwrap().0 - 25_500 * US
}

#[test]
fn batch_does_not_preempt() {
    for kernel in ["linux-6.1", "linux-6.12"] {
        assert!(waits_behind_hog("SCHED_BATCH", kernel) >= 400 * US, "{kernel}");
    }
    assert_eq!(waits_behind_hog("SCHED_OTHER", "linux-6.1"), 0);
}

#[test]
fn sched_idle_is_preempted_and_gets_crumbs() {
    for kernel in ["linux-6.1", "linux-6.12"] {
        let seen = case(
            r#""i": { "cpus": [0], "policy": "SCHED_IDLE", "run": 1000 }, "n": { "cpus": [0], "phases": { "w": { "run": 10, "sleep": 50290 }, "p": { "loop": -1, "run": 1000 } } }"#,
        )
        .kernel(kernel)
        .ms(4000)
        .run();
        assert!(seen.of("i").ran_in(0, 50 * MS) > 49 * MS);
        // It came when the other one was not of SCHED_IDLE yet.
        let at = seen.of("n").slices[0].1 + 50_290 * US;
        assert!(seen.of("n").ran_in(at, at + MS) > 900 * US, "{kernel}: it is preempted at once");
        let crumbs = seen.of("i").ran_in(at, u64::MAX) as f64 / ((4000 * MS - at) as f64);
        assert!(crumbs > 0.0 && crumbs < 0.01, "{kernel}: weight 3 of 1027, not {crumbs}");
    }
}

/// A thread is born with its parent's weight: the slice that CFS makes a new one wait is not that of SCHED_IDLE, which is seconds.
#[test]
fn the_weight_is_set_after_birth() {
    for kernel in ["linux-3.13", "linux-5.3", "linux-6.1", "linux-6.12"] {
        let tasks = r#""i": { "cpus": [0], "policy": "SCHED_IDLE", "run": 100 }, "n": { "cpus": [0], "run": 1000 }"#;
        let idle = case(tasks).kernel(kernel).ms(100).run();
        assert!(idle.of("i").ran_in(0, 50 * MS) > 0, "{kernel}: SCHED_IDLE");
        let tasks = r#""p": { "cpus": [0], "loop": 1, "run": 100, "fork": "i", "run1": 200000 },
            "i": { "instance": 0, "policy": "SCHED_IDLE", "run": 100 }"#;
        let forked = case(tasks).kernel(kernel).ms(100).run();
        assert!(forked.all("i")[0].ran_in(0, 50 * MS) > 0, "{kernel}: forked");
    }
}

/// `BASE_SLICE` (5.13): before, a light task beside a heavy one had the CPU from one tick to the next, as its slice was over at once.
#[test]
fn a_light_slice_has_a_lower_bound_since_5_13() {
    let tasks = r#""n": { "cpus": [0], "run": 1000 }, "l": { "cpus": [0], "priority": 15, "run": 1000 }"#;
    let stretch = |kernel, set| {
        let seen = case(tasks).kernel(kernel).set("platform.hz=1000").set(set).ms(2000).run();
        seen.of("l").slices.iter().skip(2).map(|(since, end, _)| end - since).max().expect("it runs")
    };
    let (old, new) =
        (stretch("linux-5.3", "features.ALT_PERIOD=false"), stretch("linux-6.1", "features.ALT_PERIOD=true"));
    assert!(old < 1_100 * US && new > 2_900 * US, "{old} {new}");
    assert_eq!(stretch("linux-6.1", "features.BASE_SLICE=false"), old);
}

/// Threads that must leave their CPU go to the first of their new ones, each of them; since 5.7 to one after the other.
#[test]
fn a_new_affinity_distributes_since_5_7() {
    let tasks = r#""a": { "instance": 3, "loop": 1, "phases": {
        "here": { "run": 1000, "cpus": [0] }, "there": { "run": 10, "cpus": [2, 3, 4] } } }"#;
    let went = |kernel| {
        let seen = case(tasks).kernel(kernel).set("platform.hz=1000").run();
        let leaves = |t: &&Thread| {
            let slices = t.slices.iter().skip_while(|s| s.2 != 0).find(|s| s.2 != 0);
            slices.map(|s| (s.0, s.2)).expect("it leaves")
        };
        let mut first: Vec<_> = seen.all("a").iter().map(leaves).collect();
        first.sort();
        first.into_iter().map(|(_, cpu)| cpu).collect::<Vec<_>>()
    };
    assert_eq!((went("linux-5.6"), went("linux-5.7")), (vec![2, 2, 2], vec![2, 3, 4]));
    assert_eq!(went("linux-6.12"), [2, 3, 4]);
}

#[test]
fn priority_is_nice_of_fair_tasks() {
    for kernel in ["linux-6.1", "linux-6.12"] {
        for (nice, weight) in [(5, 335.0), (-3, 1991.0)] {
            let tasks = format!(
                r#""a": {{ "cpus": [0], "run": 1000 }}, "b": {{ "cpus": [0], "priority": {nice}, "run": 1000 }}"#
            );
            let seen = case(&tasks).kernel(kernel).set("platform.hz=1000").ms(1000).run();
            share(seen.ran("a"), seen.ran("b"), 1024.0 / (1024.0 + weight));
        }
    }
    let seen = case(
        r#""low": { "cpus": [0], "policy": "SCHED_FIFO", "priority": 5, "run": 1000 },
        "high": { "cpus": [0], "policy": "SCHED_FIFO", "priority": 6, "sleep": 10000, "run": 1000, "loop": 1 }"#,
    )
    .run();
    assert_eq!(times(seen.of("high")), [11_000], "real-time: the higher number wins");
}

#[test]
fn attributes_of_phases() {
    let seen = case(
        r#""a": { "cpus": [0], "loop": 1, "phases": { "p": { "run": 10000 }, "q": { "policy": "SCHED_FIFO", "run": 10000 },
            "r": { "policy": "SCHED_OTHER", "priority": 19, "run": 5000 } } }, "hog": { "cpus": [0], "run": 1000 }"#,
    )
    .ms(400)
    .run();
    let log = &seen.of("a").log;
    near(log[0].run, 20 * MS, 5 * MS); // shares
    near(log[1].run, 10 * MS, US); // has the CPU to itself
    assert!(log.get(2).is_none_or(|l| l.run > 100 * MS), "weight 15 of 1039");
}

#[test]
fn cpus_of_task_and_phase() {
    let seen = case(
        r#""a": { "cpus": [2], "loop": 2, "phases": { "p": { "cpus": [1], "run": 3000 }, "q": { "cpus": [3], "run": 3000 }, "r": { "run": 3000 } } },
        "b": { "cpus": [5, 6], "instance": 3, "run": 500, "sleep": 100 }"#,
    )
    .run();
    let a = seen.of("a");
    let on = |from: u64, to: u64| {
        a.slices.iter().filter(|s| s.1.min(to) > s.0.max(from)).map(|s| s.2).collect::<std::collections::BTreeSet<_>>()
    };
    for pass in [0, 9 * MS] {
        let of =
            |at: u64| on(pass + at * MS + 100 * US, pass + (at + 3) * MS - 100 * US).into_iter().collect::<Vec<_>>();
        assert_eq!([of(0), of(3), of(6)], [[1], [3], [2]], "a running thread is moved: {:?}", a.slices);
    }
    near(a.ran(), 18 * MS, 100 * US);
    assert!(seen.all("b").iter().all(|t| t.cpus().iter().all(|c| [5, 6].contains(c))));
}

#[test]
fn a_fair_slice_of_ones_own() {
    let longest = |more: &str| {
        let tasks =
            format!(r#""a": {{ "cpus": [0], {more} "run": 1000 }}, "b": {{ "cpus": [0], {more} "run": 1000 }}"#);
        let seen = case(&tasks).set("platform.hz=1000").ms(300).run();
        share(seen.ran("a"), seen.ran("b"), 0.5 + (seen.ran("a") as f64 - seen.ran("b") as f64) / 6e8);
        seen.of("a").longest()
    };
    assert!(
        longest(r#""dl-runtime": 20000,"#) > 3 * longest(""),
        "{} {}",
        longest(r#""dl-runtime": 20000,"#),
        longest("")
    );
}

// ---- clamps and groups ----------------------------------------------------------------------------------------------

/// Mean frequency of domain 0's first CPU while the run lasts, kHz.
fn mean_khz(seen: &Seen) -> u64 {
    let mut sum = 0;
    for (i, (at, khz)) in seen.watch.khz.iter().enumerate() {
        let until = seen.watch.khz.get(i + 1).map_or(seen.end, |next| next.0);
        sum += (until - at) * u64::from(*khz);
    }
    sum / seen.end
}

#[test]
fn util_clamps_act_on_frequency() {
    let khz = |task: &str| {
        let case = case(&format!(r#""a": {{ "cpus": [0], {task} }}"#)).set("cpufreq=schedutil").ms(400);
        mean_khz(&case.run())
    };
    let (light, boosted) = (khz(r#""run": 100, "sleep": 2000"#), khz(r#""util_min": 1024, "run": 100, "sleep": 2000"#));
    assert!(light < 450_000 && boosted > 800_000, "{light} {boosted}");
    let (hog, capped) = (khz(r#""run": 1000"#), khz(r#""util_max": 200, "run": 1000"#));
    assert!(hog > 1_000_000 && capped < 500_000, "{hog} {capped}");
    let unclamped = khz(r#""util_min": -1, "util_max": -1, "run": 1000"#);
    assert_eq!(unclamped, hog, "-1 leaves the clamps as they are");
}

#[test]
fn util_clamps_act_on_placement() {
    let on_big = |more: &str| {
        let tasks = format!(r#""a": {{ {more} "run": 300, "timer": {{ "ref": "unique", "period": 8000 }} }}"#);
        let seen = case(&tasks).platform("hikey960").set("cpufreq=schedutil").ms(500).run();
        let a = seen.of("a");
        let big: u64 = a.slices.iter().filter(|s| s.2 >= 4).map(|s| s.1 - s.0).sum();
        big as f64 / a.ran() as f64
    };
    assert!(on_big("") < 0.2, "a small task stays little: {}", on_big(""));
    assert!(on_big(r#""util_min": 1024,"#) > 0.9, "a boosted one does not: {}", on_big(r#""util_min": 1024,"#));
}

/// Kernels that have clamps.
const CLAMPING: [&str; 7] =
    ["linux-5.3", "linux-5.4", "linux-5.6", "linux-5.7", "linux-6.1", "linux-6.6", "linux-6.12"];

/// The part of a task's time from `from_ms` on that it spent on CPU `first` and those after it.
fn from_cpu(seen: &Seen, task: &str, first: u32, from_ms: u64) -> f64 {
    let t = seen.of(task);
    let from = from_ms * MS;
    let big: u64 = t.slices.iter().filter(|s| s.2 >= first).map(|s| s.1.saturating_sub(s.0.max(from))).sum();
    big as f64 / t.ran_in(from, u64::MAX) as f64
}

#[test]
fn a_boosted_task_stays_on_a_little_cpu_until_5_5() {
    let boosted = r#""a": { "util_min": 700, "run": 1000, "timer": { "ref": "unique", "period": 16000 } }"#;
    for kernel in CLAMPING {
        let seen = case(boosted).platform("hikey960").kernel(kernel).set("cpufreq=schedutil").ms(1000).run();
        let (big, since) = (from_cpu(&seen, "a", 4, 100), kernel >= "linux-5.6");
        assert!(if since { big > 0.9 } else { big < 0.1 }, "{kernel}: {big}");
    }
}

#[test]
fn a_hog_that_is_held_down_is_a_misfit_until_5_5() {
    let hog = r#""a": { "util_max": 200, "phases": {
        "begin": { "cpus": [1], "loop": 1, "run": 50000 },
        "free": { "cpus": [0, 1, 2, 3, 4, 5, 6, 7], "loop": 1, "run": 10000000 } } }"#;
    for kernel in CLAMPING {
        let seen = case(hog).platform("hikey960").kernel(kernel).set("cpufreq=schedutil").ms(1000).run();
        let (big, since) = (from_cpu(&seen, "a", 4, 300), kernel >= "linux-5.6");
        assert!(if since { big < 0.1 } else { big > 0.9 }, "{kernel}: {big}");
    }
}

#[test]
fn a_hog_that_is_held_down_overutilises_its_cpu_until_6_1() {
    let tasks = r#""a": { "util_max": 200, "cpus": [0], "run": 1000000 },
        "b": { "instance": 4, "run": 3000, "timer": { "ref": "unique", "period": 16000 } }"#;
    for kernel in CLAMPING {
        let seen = case(tasks).platform("hikey960").kernel(kernel).set("cpufreq=schedutil").ms(1000).run();
        let b = seen.all("b");
        let by_energy = b.iter().flat_map(|t| &t.placed).filter(|&&r| r == PlacementReason::Energy).count();
        let all: usize = b.iter().map(|t| t.placed.len()).sum();
        // The first wake-ups come before the hog's utilisation has grown. Stable 6.1 has the rule of 6.2.
        let since = kernel >= "linux-6.1";
        let share = by_energy as f64 / all as f64;
        assert!(if since { share > 0.6 } else { share < 0.4 }, "{kernel}: {by_energy} of {all}");
    }
}

#[test]
fn without_energy_awareness_a_boosted_task_finds_a_big_cpu_since_5_6() {
    let boosted = r#""a": { "util_min": 700, "phases": {
        "begin": { "cpus": [1], "loop": 30, "run": 1000, "timer": { "ref": "unique", "period": 16000 } },
        "free": { "cpus": [0, 1, 2, 3, 4, 5, 6, 7], "loop": 90, "run": 1000, "timer": { "ref": "unique", "period": 16000 } } } }"#;
    for (platform, first) in [("hikey960", 4), ("pixel6", 6)] {
        for kernel in CLAMPING {
            let seen = case(boosted).platform(platform).kernel(kernel).ms(1500).run();
            let (big, since) = (from_cpu(&seen, "a", first, 600), kernel >= "linux-5.6");
            assert!(if since { big > 0.9 } else { big < 0.1 }, "{platform} {kernel}: {big}");
        }
    }
}

#[test]
fn taskgroups_share_by_group() {
    for kernel in ["linux-6.1", "linux-6.12"] {
        let tasks = |a: &str, b: &str| {
            format!(
                r#""one": {{ "cpus": [0], {a} "run": 1000 }}, "many": {{ "instance": 3, "cpus": [0], {b} "run": 1000 }}"#
            )
        };
        let of = |a, b| {
            let seen = case(&tasks(a, b)).kernel(kernel).set("platform.hz=1000").ms(900).run();
            (seen.ran("one"), seen.ran("many"))
        };
        let (one, many) = of(r#""taskgroup": "/a","#, r#""taskgroup": "/b","#);
        share(one, many, 0.5);
        let (one, many) = of("", "");
        share(one, many, 0.25);
        let (one, many) = of(r#""taskgroup": "/a","#, r#""taskgroup": "/a","#);
        share(one, many, 0.25);
    }
    // A thread that changes its group in the middle.
    let seen = case(
        r#""mover": { "cpus": [0], "loop": 1, "phases": { "p": { "taskgroup": "/a", "loop": 200, "run": 1000 }, "q": { "taskgroup": "/b", "loop": 200, "run": 1000 } } },
        "b": { "instance": 3, "cpus": [0], "taskgroup": "/b", "run": 1000 }"#,
    )
    .set("platform.hz=1000")
    .ms(1000)
    .run();
    let moved = seen.of("mover").log[199].at;
    near(moved, 400 * MS, 8 * MS);
    near(seen.of("mover").ran_in(moved, 1000 * MS), (1000 * MS - moved) / 4, 10 * MS);
}

// ---- real-time balancing ---------------------------------------------------------------------------------------------

#[test]
fn real_time_tasks_are_pushed_and_pulled() {
    // Three FIFO threads on two CPUs: two always run, and the two are the most urgent that want to.
    let seen = case(
        r#""low": { "cpus": [0, 1], "policy": "SCHED_FIFO", "priority": 1, "run": 1000 },
        "mid": { "cpus": [0, 1], "policy": "SCHED_FIFO", "priority": 2, "sleep": 10000, "run": 5000 },
        "high": { "cpus": [0, 1], "policy": "SCHED_FIFO", "priority": 3, "sleep": 7000, "run": 9000 }"#,
    )
    .ms(300)
    .run();
    for t in ["mid", "high"] {
        let period = if t == "mid" { 15_000 } else { 16_000 };
        assert!(seen.of(t).log.iter().all(|l| l.period / US == period), "{t} never waits");
    }
    // low waits only while both others run.
    let both: u64 = seen.of("mid").slices.iter().map(|s| seen.of("high").ran_in(s.0, s.1)).sum();
    near(seen.of("low").ran(), 300 * MS - both, 300 * US);
}

#[test]
fn a_real_time_task_that_becomes_fair_lets_others_in() {
    let seen = case(
        r#""a": { "cpus": [0], "loop": 1, "phases": { "p": { "policy": "SCHED_FIFO", "priority": 50, "run": 20000 }, "q": { "policy": "SCHED_OTHER", "run": 20000 } } },
        "b": { "cpus": [1], "policy": "SCHED_FIFO", "priority": 50, "run": 90000, "loop": 1 },
        "w": { "cpus": [0, 1], "policy": "SCHED_FIFO", "priority": 5, "delay": 5000, "run": 10000, "loop": 1 }"#,
    )
    .run();
    near(seen.of("w").log[0].at, 30 * MS, 10 * US);
}

// ---- global keys and dialects ------------------------------------------------------------------------------------------

#[test]
fn global_keys_act_or_are_listed() {
    let hog = r#""a": { "cpus": [0], "run": 1000 }, "b": { "cpus": [0], "run": 1000 }"#;
    assert_eq!(case(hog).global(r#""duration": 3"#).spec().0.workload.duration, Some(Ns::from_s(3)));
    assert_eq!(case(hog).global(r#""duration": -1"#).spec().0.workload.duration, None);
    let fifo = case(hog).global(r#""default_policy": "SCHED_FIFO""#).run();
    assert_eq!((fifo.ran("a"), fifo.ran("b")), (100 * MS, 0));
    // Buffers of 4 KiB need more calls than one of 4 MiB; another device costs more than none.
    let io = |global| case(r#""a": { "cpus": [0], "loop": 1, "iorun": 4000000 }"#).global(global).run().of("a").ran();
    assert!(io(r#""mem_buffer_size": 4096"#) > io(""));
    assert!(io(r#""io_device": "/dev/sda""#) > io(""));
    for listed in [
        r#""lock_pages": true"#,
        r#""logdir": "./""#,
        r#""log_basename": "x""#,
        r#""log_size": "auto""#,
        r#""log_size": 2"#,
        r#""ftrace": true"#,
        r#""gnuplot": true"#,
        r#""calibration": 120"#,
    ] {
        let (_, codes) = case(hog).global(listed).spec();
        assert_eq!(codes, ["rtapp::N01"], "{listed}");
        assert_eq!(case(hog).global(listed).run().ran("a"), case(hog).run().ran("a"), "{listed}");
    }
    let marked = case(hog).global(r#""ftrace": "main,task,loop,event,stats""#);
    assert_eq!((marked.spec().1.len(), marked.run().ran("a")), (0, case(hog).run().ran("a")), "it acts on traces");
}

#[test]
fn three_dialects() {
    let twice = case(r#""a": { "cpus": [0], "loop": 1, "run": 275, "sleep": 1000, "run": 4725 }"#);
    assert_eq!(twice.run().of("a").log[0].run, 5_000 * US, "workgen: two events");
    let collapsed = twice.clone().dialect(Dialect::RtApp);
    assert_eq!(collapsed.run().of("a").log[0].run, 4_725 * US, "rt-app: the last value");
    assert!(collapsed.spec().1.contains(&"rtapp::W02"));
    let named = case(
        r#""s": { "suspend": "bell", "run": 1000, "loop": 1 }, "r": { "sleep": 5000, "resume": "bell", "loop": 1 }"#,
    );
    assert_eq!(named.clone().run().ran("s"), 0, "since 2025 it waits on its own name");
    assert_eq!(named.dialect(Dialect::LegacySuspend).run().ran("s"), MS);
    // A bare `"suspend",` and a CPU list in a string.
    let lenient = case(r#""s": { "cpus": ["0-1"], "suspend", "run": 1000 }"#);
    assert_eq!(lenient.spec().1, ["rtapp::N03", "rtapp::W11"], "accepted, and nobody resumes it");
}

// ---- real-time and deadline classes: limits ---------------------------------------------------------------------------

#[test]
fn real_time_tasks_are_limited_until_6_6_and_fair_ones_served_since_6_12() {
    let hog = r#""hog": { "cpus": [0], "policy": "SCHED_FIFO", "run": 1000 }"#;
    let fair = r#", "fair": { "cpus": [0], "run": 1000 }"#;
    let with = |kernel, tasks: &str| case(tasks).kernel(kernel).ms(3000).run();
    // 6.1: 950 ms of each second, up to the tick after that, whether anybody wants the rest or not.
    let alone = with("linux-6.1", hog);
    near(alone.of("hog").ran_in(0, 1000 * MS), 950 * MS, 4 * MS);
    near(alone.ran("hog"), 2850 * MS, 4 * MS);
    let both = with("linux-6.1", &format!("{hog}{fair}"));
    near(both.ran("hog"), 2850 * MS, 8 * MS);
    near(both.ran("fair"), 150 * MS, 8 * MS);
    // 6.12: only for the sake of fair tasks; late in the first second, at the start of the next ones.
    assert_eq!(with("linux-6.12", hog).ran("hog"), 3000 * MS);
    let both = with("linux-6.12", &format!("{hog}{fair}"));
    near(both.ran("fair"), 150 * MS, 12 * MS);
    assert_eq!(both.of("fair").ran_in(0, 940 * MS), 0);
    // Tunables.
    let less = case(&format!("{hog}{fair}")).kernel("linux-6.1").ms(1000);
    near(less.set("rt.sched_rt_runtime_us=300000").run().ran("hog"), 300 * MS, 4 * MS);
    let free = case(&format!("{hog}{fair}")).kernel("linux-6.1").ms(2000);
    assert_eq!(free.set("rt.sched_rt_runtime_us=-1").run().ran("fair"), 0);
}

#[test]
fn rr_quantum_is_a_tunable_and_is_kept_when_preempted() {
    let tasks = r#""r": { "instance": 2, "cpus": [0], "policy": "SCHED_RR", "priority": 5, "run": 1000 },
        "high": { "cpus": [0], "policy": "SCHED_FIFO", "priority": 50, "loop": 1, "sleep": 10000, "run": 20000 }"#;
    let seen = case(tasks).set("rt.sched_rr_timeslice_ms=40").ms(120).run();
    let (a, b) = (&seen.all("r")[0], &seen.all("r")[1]);
    // 10 ms, 20 ms of the other, and then the 30 ms that are left of its 40.
    assert_eq!((a.ran_in(0, 60 * MS), b.ran_in(0, 60 * MS)), (40 * MS, 0));
    assert_eq!(b.ran_in(60 * MS, 100 * MS), 40 * MS);
}

#[test]
fn deadline_tasks_are_admitted_up_to_95_percent() {
    let task = |name: &str, runtime: u32, cpus: &str| {
        format!(
            r#""{name}": {{ {cpus} "policy": "SCHED_DEADLINE", "dl-runtime": {runtime}, "dl-period": 10000, "run": 1000,
            "timer": {{ "ref": "unique_{name}", "period": 10000 }} }}"#
        )
    };
    let one = r#""cpus": [2],"#;
    let fits = format!("{}, {}", task("a", 4500, one), task("b", 4900, one));
    case(&fits).set("deadline.fair_server_runtime_us=0").ms(50).run();
    // 5 % are the fair server's.
    assert!(case(&fits).ms(50).error().contains("EBUSY"));
    case(&format!("{}, {}", task("a", 4500, one), task("b", 4400, one))).ms(50).run();
    let too_much = format!("{}, {}", task("a", 4500, one), task("b", 5100, one));
    let refused = case(&too_much).ms(50).error();
    for part in ["b-1", "EBUSY", "0.500", "0.510", "0.950", "sched_rt_runtime_us=-1"] {
        assert!(refused.contains(part), "{part} is missing in {refused}");
    }
    case(&too_much).set("rt.sched_rt_runtime_us=-1").ms(50).run();
    // Two CPUs have room for both.
    let two = r#""cpus": [2, 3],"#;
    case(&format!("{}, {}", task("a", 4500, two), task("b", 5100, two))).ms(50).run();
    // What a task declared is free again after it has left the class.
    let phases = r#""a": { "cpus": [2], "loop": 1, "phases": {
            "d": { "policy": "SCHED_DEADLINE", "dl-runtime": 9000, "dl-period": 10000, "run": 7000 },
            "o": { "policy": "SCHED_OTHER", "sleep": 90000 } } }"#;
    let late = task("b", 5000, one).replacen('{', r#"{ "delay": 50000,"#, 1);
    case(&format!("{phases}, {late}")).ms(80).run();
    let early = task("b", 5000, one).replacen('{', r#"{ "delay": 7300,"#, 1);
    assert!(case(&format!("{phases}, {early}")).ms(80).error().contains("EBUSY"), "not before its zero-lag time");
    // A period out of range.
    let long = r#""a": { "policy": "SCHED_DEADLINE", "dl-runtime": 9000, "dl-period": 9000000, "run": 1 }"#;
    assert!(case(long).error().contains("EINVAL"));
}

#[test]
fn deadline_tasks_spread_and_reclaim() {
    // Three tasks of 60 % on three CPUs: pushed apart, each has one for itself.
    let tasks = r#""d": { "instance": 3, "cpus": [0, 1, 2], "policy": "SCHED_DEADLINE", "dl-runtime": 6000, "dl-period": 10000,
        "run": 5500, "timer": { "ref": "unique", "period": 10000 } }"#;
    let seen = case(tasks).ms(200).run();
    for d in seen.all("d") {
        assert!(d.log.iter().all(|l| l.slack > 0), "{:?}", d.log);
    }
    // A hog gets its bandwidth, and with reclaiming what nobody else uses.
    let hog =
        r#""d": { "cpus": [0], "policy": "SCHED_DEADLINE", "dl-runtime": 2000, "dl-period": 10000, "run": 1000 }"#;
    let share = |set| {
        let seen = case(hog).set("platform.hz=1000").set(set).ms(1000).run();
        seen.ran("d") as f64 / (1000 * MS) as f64
    };
    assert!((share("deadline.reclaim=false") - 0.2).abs() < 0.01);
    assert!((share("deadline.reclaim=true") - 0.95).abs() < 0.02);
}

#[test]
fn hrtick_ends_a_budget_between_ticks() {
    let tasks =
        r#""d": { "cpus": [0], "policy": "SCHED_DEADLINE", "dl-runtime": 1500, "dl-period": 10000, "run": 1000 }"#;
    let longest = |hrtick| case(tasks).set(hrtick).ms(200).run().of("d").longest();
    near(longest("features.HRTICK_DL=false"), 4 * MS, US);
    near(longest("features.HRTICK_DL=true"), 1500 * US, US);
}

#[test]
fn a_deadline_task_that_yields_is_done_for_this_period() {
    let tasks = r#""d": { "cpus": [0], "policy": "SCHED_DEADLINE", "dl-runtime": 5000, "dl-period": 20000, "run": 1000, "yield": "" },
        "rest": { "cpus": [0], "run": 1000 }"#;
    let seen = case(tasks).ms(200).run();
    near(seen.ran("d"), 10 * MS, MS);
    let rr = r#""r": { "instance": 2, "cpus": [0], "policy": "SCHED_RR", "run": 1000, "yield": "" }"#;
    let seen = case(rr).ms(100).run();
    assert!(seen.all("r").iter().all(|r| r.longest() == MS), "to the end of its priority");
}

#[test]
fn a_holder_inherits_what_a_deadline_task_declared() {
    // A fair thread holds the mutex a deadline task wants, on a CPU with a real-time hog and an earlier deadline task.
    let tasks = r#""low": { "cpus": [0], "loop": 1, "lock": "m", "run": 20000, "unlock": "m", "run1": 1 },
        "d": { "cpus": [0], "delay": 5000, "policy": "SCHED_DEADLINE", "dl-runtime": 2000, "dl-period": 10000, "loop": 1,
               "lock": "m", "run": 1000, "unlock": "m" },
        "hog": { "cpus": [0], "delay": 4000, "policy": "SCHED_FIFO", "priority": 99, "run": 1000 }"#;
    let seen = case(tasks).global(r#""pi_enabled": true"#).ms(100).run();
    // 4 ms before the hog; then 16 ms as a deadline task that is never throttled.
    near(seen.of("low").ran_in(4 * MS, 5 * MS), 0, US);
    near(seen.of("low").ran_in(5 * MS, 21 * MS), 16 * MS, US);
    assert_eq!(seen.of("d").slices.last().map(|s| (s.0 / MS, s.1 / MS)), Some((21, 22)));
    let plain = case(tasks).ms(100).run();
    near(plain.of("low").ran_in(5 * MS, 100 * MS), 0, US); // without inheritance the hog keeps it out
}

#[test]
fn lowered_and_raised_priorities_queue_where_the_kernel_puts_them() {
    // From 20 down to 10: before those that are at 10 already. From 5 up to 10: behind them.
    let tasks = |first: u32| {
        format!(
            r#""a": {{ "cpus": [0], "loop": 1, "phases": {{ "p": {{ "policy": "SCHED_FIFO", "priority": {first}, "run": 5000 }},
                "q": {{ "priority": 10, "run": 5000 }} }} }},
            "b": {{ "cpus": [0], "delay": 1000, "policy": "SCHED_FIFO", "priority": 10, "run": 3000, "loop": 1 }}"#
        )
    };
    let down = case(&tasks(20)).ms(50).run();
    near(down.of("a").ran_in(0, 10 * MS), 10 * MS, US);
    let up = case(&tasks(5)).ms(50).run();
    near(up.of("b").ran_in(MS, 4 * MS), 3 * MS, US);
}

#[test]
fn missed_deadlines_are_counted() {
    let figures = |tasks: &str| {
        let report = run(&case(tasks).set("platform.hz=1000").ms(200).spec().0, &mut []).expect("runs").report;
        let of = |name| report.metric(name, Some("d")).unwrap_or(-1.0);
        (of("deadline.jobs"), of("deadline.misses"), of("deadline.lateness_us.max"))
    };
    let task = |run: u32| {
        format!(
            r#""d": {{ "cpus": [0], "policy": "SCHED_DEADLINE", "dl-runtime": 2000, "dl-period": 10000, "run": {run},
            "timer": {{ "ref": "unique", "period": 10000 }} }}"#
        )
    };
    assert_eq!(figures(&task(1500)), (20.0, 0.0, 0.0));
    // 3 ms of work with 2 ms per 10 ms: from 0 to 2 and from 10 to 11, 1 ms late; the next from there on.
    let (jobs, misses, worst) = figures(&task(3000));
    assert!(jobs > 10.0 && misses == jobs && worst >= 1000.0, "{jobs} {misses} {worst}");
    assert_eq!(figures(r#""d": { "run": 10, "sleep": 1000 }"#), (-1.0, -1.0, -1.0), "no deadline task, no figure");
}
