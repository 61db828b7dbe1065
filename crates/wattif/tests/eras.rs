//! What kernels of several eras do, each as its own: what came when, and what it changes in a run.

mod runs;

use runs::{MIXED, Polls, digest, sleepy, spec, under, walt};
use std::collections::BTreeMap;
use wattif::load;
use wattif::run::{Simulator, run};
use wattif::settings::Settings;
use wattif_model::kernel::Value;
use wattif_model::run::{RunSpec, Runner};
use wattif_model::trace::{
    BalanceChoice, BalanceKind, EnergyCandidate, Event, IdleCause, IdlePeriod, Interest, Observer, Placement,
    PlacementReason, PrevState,
};
use wattif_model::{CpuId, DomainId, Ns, Pid};
use wattif_sim::registry::POLICIES;

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

#[test]
fn each_of_the_vendors_additions_to_walt_is_a_switch() {
    let qti = "schedutil.generation=4.9-qti";
    // CPUs that wake up at once: a late one has no more in its window than was predicted.
    let shallow = "pm_qos.cpu_latency_us=200";
    let base = digest(&walt(MIXED, &[qti, shallow]));
    assert_ne!(base, digest(&walt(MIXED, &[shallow])), "once per window");
    for name in ["per_cpu_windows", "predicted_demand", "new_task_load"] {
        let (on, off) = (format!("walt_qti.{name}=true"), format!("walt_qti.{name}=false"));
        assert_ne!(base, digest(&walt(MIXED, &[qti, shallow, &on])), "{name}");
        assert_eq!(base, digest(&walt(MIXED, &[qti, shallow, &off])), "{name}");
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

/// The most that the big CPUs of an sdm835 were asked for, from then on.
struct Asked {
    from: Ns,
    most: u32,
}

impl Observer for Asked {
    fn interest(&self) -> Interest {
        Interest::ALL
    }
    fn event(&mut self, at: Ns, _: CpuId, event: &Event) {
        if let Event::Frequency(choice) = event
            && at >= self.from
            && choice.domain.0 == 1
        {
            self.most = self.most.max(choice.util);
        }
    }
}

/// It took half of its CPU until 2 s after the start; what is asked for 300 ms later.
#[test]
fn a_real_time_task_that_ended_keeps_the_clock_of_4_9_up_for_about_a_second() {
    let text = r#"{ "tasks": {
        "fifo": { "policy": "SCHED_FIFO", "cpus": [4], "loop": 1, "phases": {
            "half": { "loop": 200, "run": 5000, "timer": { "ref": "f", "period": 10000 } },
            "rest": { "loop": 1, "sleep": 10000000 } } },
        "fair": { "cpus": [4], "loop": -1, "run": 300, "timer": { "ref": "g", "period": 10000 } } } }"#;
    let most = |rt_avg: &str| {
        let mut asked = Asked { from: Ns::from_ms(2_300), most: 0 };
        let mut of = under("sdm835", "android-4.9", text, &[&format!("rt_avg.generation={rt_avg}")]);
        of.duration = Ns::from_ms(2_600);
        run(&of, &mut [&mut asked]).expect("runs");
        asked.most
    };
    let (second, tracked) = (most("4.9"), most("4.19"));
    assert!(second > 180 && tracked < 150, "{second} and {tracked}");
}

/// In 4.9 a queue that another CPU of its cache changed tells the governor nothing; since 4.14 it does.
#[test]
fn schedutil_of_4_9_hears_of_a_wake_up_by_a_cpu_of_the_same_cache_later() {
    let at_once = |kernel: &str, waker: u32| {
        let waker = format!(
            r#""waker": {{ "cpus": [{waker}], "loop": -1, "resume": "wakee", "run": 3000, "timer": {{ "ref": "t", "period": 61500 }} }}"#
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

/// Changes of the big cluster's clock to its lowest frequency, after the first tenth of a second.
#[derive(Default)]
struct Falls(usize);

impl Observer for Falls {
    fn interest(&self) -> Interest {
        Interest::FREQ
    }
    fn event(&mut self, at: Ns, _: CpuId, event: &Event) {
        if let Event::CpuFrequency { domain: DomainId(1), opp: 0, .. } = event {
            self.0 += usize::from(at > Ns::from_ms(100));
        }
    }
}

/// A hog is left and comes back 0.3 ms before a tick, which is no update if no PELT period ends in between. Before the next one
/// another CPU of the cluster wakes up, to which the busy one is asleep.
#[test]
fn schedutil_of_4_9_takes_a_cpu_for_asleep_whose_tick_came_right_after_a_switch() {
    let text = r#"{ "tasks": {
        "hog": { "cpus": [4], "loop": -1, "run": 1000000 },
        "blip": { "delay": 9700, "cpus": [4], "loop": -1, "run": 20, "timer": { "ref": "b", "period": 10000 } },
        "other": { "delay": 13200, "cpus": [5], "loop": -1, "run": 20, "timer": { "ref": "o", "period": 10000 } } } }"#;
    let falls = |kernel: &str, set: &[&str]| {
        let mut falls = Falls::default();
        let spec = RunSpec { duration: Ns::from_ms(1_000), ..under("sdm835", kernel, text, set) };
        Simulator.run(&spec, &mut [&mut falls]).expect("runs");
        falls.0
    };
    let no_limits = [
        "schedutil.up_rate_limit_us=0",
        "schedutil.down_rate_limit_us=0",
        "schedtune.boost_pct=0",
        "pm_qos.cpu_latency_us=200",
    ];
    assert!(falls("android-4.9", &no_limits) > 10);
    assert_eq!(falls("linux-5.3", &["schedutil.rate_limit_us=0"]), 0);
}

/// For what utilisation a clock was asked when a thread had been queued, and when it had gone to sleep.
#[derive(Default)]
struct Requests {
    last: (Ns, u32),
    queued: Vec<u32>,
    asleep: Vec<u32>,
}

impl Observer for Requests {
    fn interest(&self) -> Interest {
        Interest::ALL
    }
    fn event(&mut self, at: Ns, _: CpuId, event: &Event) {
        match event {
            Event::Frequency(choice) => self.last = (at, choice.util),
            Event::SchedWakeup { pid: Pid(1), .. } if self.last.0 == at => self.queued.push(self.last.1),
            Event::SchedSwitch { prev_pid: Pid(1), prev_state: PrevState::Sleeping, .. } if self.last.0 == at => {
                self.asleep.push(self.last.1);
            }
            _ => {}
        }
    }
}

/// The governor hears of a task before schedtune does, both when it wakes up and when it goes to sleep.
#[test]
fn a_boost_of_4_9_counts_from_the_next_update_on() {
    let text =
        r#"{ "tasks": { "ui": { "cpus": [4], "loop": -1, "run": 1000, "timer": { "ref": "v", "period": 40000 } } } }"#;
    for kernel in ["android-4.9", "android-4.9-walt"] {
        let spec =
            RunSpec { duration: Ns::from_ms(2_000), ..under("sdm835", kernel, text, &["schedtune.boost_pct=50"]) };
        let mut asked = Requests::default();
        Simulator.run(&spec, &mut [&mut asked]).expect("runs");
        assert!(asked.queued.len() > 2 && asked.queued.iter().all(|util| *util < 400), "{kernel}: {:?}", asked.queued);
        // It is heard of where a PELT period has passed, and tells where it changes the clock.
        let still = asked.asleep.iter().filter(|util| **util > 500).count();
        assert!(still > 1, "{kernel}: {:?}", asked.asleep);
    }
}

/// A CPU without tick keeps what new tasks left there, more than fits, until another one that becomes idle looks at it.
#[test]
fn energy_aware_placement_of_4_9_is_not_off_for_ever() {
    struct Weighed {
        last: Option<PlacementReason>,
    }
    impl Observer for Weighed {
        fn interest(&self) -> Interest {
            Interest::ALL
        }
        fn event(&mut self, _: Ns, _: CpuId, event: &Event) {
            if let Event::Placement(p) = event
                && p.pid.0 <= 2
            {
                self.last = Some(p.reason);
            }
        }
    }
    let text = r#"{ "tasks": {
        "small": { "instance": 2, "taskgroup": "/background", "loop": -1, "run": 300, "timer": { "ref": "unique", "period": 16000 } } } }"#;
    let spec = under("sdm835", "android-4.9", text, &["platform.noise.housekeeping=[]"]);
    let mut seen = Weighed { last: None };
    Simulator.run(&RunSpec { duration: Ns::from_ms(2_000), ..spec }, &mut [&mut seen]).expect("runs");
    use PlacementReason::{BestTarget, Energy, Unweighed};
    assert!(matches!(seen.last, Some(BestTarget | Energy | Unweighed)), "{:?}", seen.last);
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
fn sampling_governors_sample_as_often_as_the_kernel_did() {
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
        "a": { "cpus": [7], "loop": -1, "run": 7000, "timer": { "ref": "t1", "period": 24000 } },
        "b": { "cpus": [7], "loop": -1, "run": 7000, "timer": { "ref": "t2", "period": 24000 } },
        "s": { "delay": 500, "loop": -1, "run": 100, "timer": { "ref": "t3", "period": 24000 } } } }"#;
    let seen = of_thread(3, "sdm835", "linux-6.12", text, &["pm_qos.cpu_latency_us=200"]).reasons;
    let by_energy = seen.iter().filter(|r| **r == PlacementReason::Energy).count();
    assert!(seen.len() > 50 && by_energy * 10 < seen.len(), "{by_energy} of {}", seen.len());
}

/// When, after the tick, periodic passes moved tasks.
#[derive(Default)]
struct Moves {
    tick_ns: u64,
    after_ns: Vec<u64>,
}

impl Observer for Moves {
    fn interest(&self) -> Interest {
        Interest::DECISIONS
    }
    fn event(&mut self, at: Ns, _: CpuId, event: &Event) {
        if let Event::Balance(BalanceChoice { kind: BalanceKind::Periodic, moved: 1.., .. }) = event {
            self.after_ns.push(at.0 % self.tick_ns);
        }
    }
}

/// All CPUs tick at once. Who must give way at that tick has when another CPU comes to pull.
#[test]
fn periodic_passes_come_after_the_handlers_of_the_tick() {
    let text = r#"{ "global": { "duration": 2 }, "tasks": {
        "cfs": { "instance": 8, "run": 5333, "timer": { "ref": "unique", "period": 7777 } },
        "idle": { "instance": 5, "policy": "SCHED_IDLE", "run": 3000 } } }"#;
    for kernel in ["linux-5.3", "linux-6.12"] {
        let spec = RunSpec { duration: Ns::from_s(2), ..spec("hikey620", kernel, text, 1) };
        let costs = &spec.platform.costs;
        let handler = costs.timer_irq_ns + costs.tick_ns;
        let mut moves = Moves { tick_ns: 1_000_000_000 / u64::from(spec.platform.hz), ..Moves::default() };
        Simulator.run(&spec, &mut [&mut moves]).expect("runs");
        assert!(moves.after_ns.len() > 10, "{kernel}: {}", moves.after_ns.len());
        assert!(moves.after_ns.iter().all(|&ns| ns > handler), "{kernel} {:?}", moves.after_ns);
    }
}

/// Placements, each with what was told of it before.
#[derive(Default)]
struct Weighed {
    told: Vec<(Pid, EnergyCandidate)>,
    placed: Vec<(Placement, Vec<EnergyCandidate>)>,
}

impl Observer for Weighed {
    fn interest(&self) -> Interest {
        Interest::DECISIONS
    }
    fn event(&mut self, _: Ns, _: CpuId, event: &Event) {
        match event {
            Event::EnergyCandidate { pid, candidate } => self.told.push((*pid, *candidate)),
            Event::Placement(p) => {
                assert!(self.told.iter().all(|(pid, _)| *pid == p.pid));
                self.placed.push((*p, self.told.drain(..).map(|(_, c)| c).collect()));
            }
            _ => {}
        }
    }
}

/// The choice follows from what is told: the previous CPU unless another one costs less.
#[test]
fn energy_aware_placement_tells_what_it_weighed() {
    use PlacementReason::{BestTarget, Energy};
    for kernel in ["android-4.9", "android-4.9-walt", "linux-5.6", "linux-6.1", "linux-6.12"] {
        let mut spec = sleepy("sdm835", "video", &[], 1);
        (spec.kernel, spec.duration) = (load::kernel(kernel, &Settings::default()).unwrap().value, Ns::from_s(1));
        let mut seen = Weighed::default();
        Simulator.run(&spec, &mut [&mut seen]).expect("runs");
        let by = |reason| seen.placed.iter().filter(|(p, _)| p.reason == reason).count();
        let old = kernel.starts_with("android-4.9");
        assert!(by(Energy) > 50, "{kernel}: {}", by(Energy));
        assert_eq!(by(BestTarget) > 0, old, "{kernel}");
        for (p, weighed) in &seen.placed {
            assert_eq!(weighed.is_empty(), p.reason != Energy, "{kernel} {p:?}");
            let stays = p.cpu == p.prev_cpu;
            let Some(chosen) = weighed.iter().find(|c| c.cpu == p.cpu) else {
                assert!(stays || p.reason != Energy, "{kernel} {p:?} {weighed:?}");
                continue;
            };
            // Less energy with the task than without: 5.6 takes it for very much, later kernels give up.
            let least = weighed.iter().map(|c| c.delta as u64).min();
            let gives_up = stays && weighed.iter().any(|c| c.delta < 0);
            match kernel {
                // It stays unless it saves, and a boost pays for some.
                _ if old => assert!(!stays && weighed.last() == Some(chosen), "{kernel} {p:?} {weighed:?}"),
                // Nor for less than 1/16.
                "linux-5.6" => assert!(stays || Some(chosen.delta as u64) == least, "{kernel} {p:?} {weighed:?}"),
                _ => assert!(gives_up || Some(chosen.delta as u64) == least, "{kernel} {p:?} {weighed:?}"),
            }
        }
    }
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
    let rules: [(&str, &[(&str, &str)]); 19] = [
        (
            "schedutil.generation",
            &[("4.10", "5.3"), ("4.20", "4.20"), ("5.3", "5.3"), ("6.1", "6.1"), ("6.12", "6.12")],
        ),
        ("eas.generation", &[("4.10", "off"), ("5.0", "5.0"), ("5.3", "5.6"), ("6.1", "6.1"), ("6.12", "6.12")]),
        ("rt_avg.generation", &[("4.10", "4.1"), ("4.20", "4.19")]),
        ("load_balance.asym_kick", &[("4.10", "4.10"), ("5.3", "5.2")]),
        ("load_balance.fills_room", &[("4.10", "newly_idle"), ("4.20", "idle")]),
        ("load_balance.takes_from", &[("4.10", "head"), ("4.20", "tail")]),
        ("load_balance.stronger", &[("4.10", "last"), ("6.1", "first"), ("6.6", "last"), ("6.12", "first")]),
        ("find_idlest_cpu.counts", &[("4.10", "all"), ("6.1", "allowed"), ("6.6", "all"), ("6.12", "allowed")]),
        ("eevdf.generation", &[("6.6", "6.6"), ("6.12", "6.12")]),
        ("load_balance.back_off", &[("4.10", "newly_idle"), ("5.0", "always"), ("5.3", "tired"), ("6.1", "never")]),
        ("load_balance.spread", &[("4.10", "4.10"), ("4.20", "4.12")]),
        ("deadline.generation", &[("4.10", "4.10"), ("4.20", "6.1"), ("6.6", "6.6"), ("6.12", "6.12")]),
        (
            "find_idlest_cpu.generation",
            &[("4.10", "4.10"), ("4.20", "load"), ("5.6", "5.6"), ("5.7", "5.7"), ("6.1", "group")],
        ),
        ("util_est.generation", &[("4.20", "4.17"), ("5.3", "5.1"), ("5.6", "5.5"), ("6.1", "6.1"), ("6.12", "6.12")]),
        ("rt.cpupri_higher", &[("4.10", "false"), ("6.1", "true")]),
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
    let last_second = ["linux-3.13", "android-4.9", "android-4.9-walt"].map(|k| value(k, "rt_avg.generation"));
    assert_eq!(last_second, ["3.13", "4.9", "4.9"]);
    assert_eq!(value("android-4.9", "load_balance.asym_kick"), "4.10");
    assert_eq!(value("android-4.9-walt", "load_balance.back_off"), "newly_idle");
    assert_eq!(value("android-4.9", "load_balance.spread"), "4.10");
    assert_eq!(["android-4.9", "linux-3.13"].map(|k| value(k, "deadline.generation")), ["4.10"; 2]);
}

/// The clock of one domain: what it last was, how often it fell, and when it was asked to change.
struct Clock {
    domain: u32,
    khz: u32,
    falls: usize,
    asked: Vec<Ns>,
    migrated: Vec<Ns>,
}

impl Clock {
    fn of(domain: u32) -> Clock {
        Clock { domain, khz: 0, falls: 0, asked: Vec::new(), migrated: Vec::new() }
    }
}

impl Observer for Clock {
    fn interest(&self) -> Interest {
        Interest::ALL
    }
    fn event(&mut self, at: Ns, _: CpuId, event: &Event) {
        match event {
            Event::CpuFrequency { domain, khz, .. } if domain.0 == self.domain => {
                self.falls += usize::from(*khz < self.khz);
                self.khz = *khz;
            }
            Event::Frequency(choice) if choice.domain.0 == self.domain => self.asked.push(at),
            Event::SchedMigrateTask { .. } => self.migrated.push(at),
            _ => {}
        }
    }
}

/// Since 4.17 the idle governor keeps the tick for them, and a CPU that is alone in its domain is busy as long as its tick goes on.
#[test]
fn short_pauses_do_not_slow_a_cpu_down_that_is_alone_in_its_domain() {
    let falls = |kernel: &str, run_us: u32, sleep_us: u32| {
        let text = format!(
            r#"{{ "tasks": {{ "t": {{ "cpus": [7], "phases": {{
                "a": {{ "run": 200000 }}, "b": {{ "loop": -1, "run": {run_us}, "sleep": {sleep_us} }} }} }} }} }}"#
        );
        let mut spec = spec("sm8550", kernel, &text, 1);
        // Where no state but the first is within reach of the timer, the tick is stopped as well.
        let second = &mut spec.platform.clusters[2].idle[1].advertised;
        (second.residency_ns, second.exit_ns) = (200_000, 50_000);
        let mut clock = Clock::of(2);
        Simulator.run(&spec, &mut [&mut clock]).unwrap();
        clock.falls
    };
    // The governor does not always foresee that a pause is short.
    for kernel in ["linux-5.4", "linux-6.1", "linux-6.12"] {
        let (short, long) = (falls(kernel, 300, 700), falls(kernel, 9_000, 21_000));
        assert!(short < 2 && long > 2, "{kernel}: {short} and {long}");
    }
    let (short, long) = (falls("linux-4.10", 300, 700), falls("linux-4.10", 9_000, 21_000));
    assert!(short > 2 && long > 2, "{short} and {long}");
}

/// It does not wait for the next update of the CPU that is left.
#[test]
fn a_thread_that_leaves_for_another_domain_is_heard_of_at_once() {
    let text = r#"{ "tasks": { "t": { "phases": {
        "a": { "cpus": [3], "run": 101500 }, "b": { "cpus": [0], "run": 20000 } } } } }"#;
    for kernel in ["linux-5.4", "linux-6.12"] {
        let mut clock = Clock::of(1);
        let spec = under("sm8550", kernel, text, &["schedutil.rate_limit_us=0"]);
        Simulator.run(&spec, &mut [&mut clock]).unwrap();
        let left = *clock.migrated.last().expect("it moves");
        assert!(clock.asked.contains(&left), "{kernel}: {left}, {:?}", clock.asked);
    }
}

/// Three real-time threads of different urgency, two of which may run on one CPU only; the third waits behind the first until the second
/// ends: whom it follows on the second's CPU, and how long after the second left.
#[test]
fn who_waits_is_pushed_by_an_interrupt_of_a_cpu_that_asks_since_4_1() {
    let text = r#"{ "tasks": {
        "first":  { "cpus": [0], "policy": "SCHED_FIFO", "priority": 60, "delay": 3000, "run": 40000 },
        "second": { "cpus": [1], "policy": "SCHED_FIFO", "priority": 50, "delay": 3000, "loop": 1, "run": 20000 },
        "waits":  { "policy": "SCHED_FIFO", "loop": 1, "phases": {
            "a": { "cpus": [0], "priority": 70, "sleep": 6000 }, "b": { "cpus": [0, 1], "priority": 10, "run": 5000 } } } } }"#;
    let platform = "core_i7_2600k";
    let came = |kernel: &str, set: &[&str]| {
        let mut seen = Arrival::default();
        Simulator.run(&under(platform, kernel, text, set), &mut [&mut seen]).unwrap();
        let (idle, at) = seen.came.expect("it gets there");
        (idle, at.0 - seen.left.0)
    };
    let ipi_ns = spec(platform, "linux-6.12", text, 1).platform.costs.ipi_ns;
    assert!(ipi_ns > 0);
    for kernel in ["linux-4.10", "linux-5.6", "linux-6.1", "linux-6.12"] {
        let (idle, after_ns) = came(kernel, &[]);
        assert!(idle && after_ns >= 2 * ipi_ns, "{kernel}: {after_ns}");
        assert_eq!(came(kernel, &["features.RT_PUSH_IPI=false"]), (false, 0), "{kernel}");
    }
    assert_eq!(came("linux-3.13", &[]), (false, 0));
}

/// The first thread that moves to CPU 1 after 10 ms: whether it follows the idle task there, and when; and when a thread left before.
#[derive(Default)]
struct Arrival {
    pid: Option<Pid>,
    left: Ns,
    came: Option<(bool, Ns)>,
}

impl Observer for Arrival {
    fn interest(&self) -> Interest {
        Interest::ALL
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        match *event {
            Event::SchedMigrateTask { pid, dest_cpu: CpuId(1), .. } if at > Ns::from_ms(10) => {
                self.pid.get_or_insert(pid);
            }
            Event::SchedSwitch { prev_pid, next_pid, .. } if cpu == CpuId(1) && self.came.is_none() => {
                self.left = if prev_pid == Pid(0) { self.left } else { at };
                self.came = (self.pid == Some(next_pid)).then_some((prev_pid == Pid(0), at));
            }
            _ => {}
        }
    }
}

/// A thread is busy on one big CPU for the first 50 ms; another needs a tenth of the next one. The first CPU keeps its wish as long as it
/// sleeps, and with it the clock of both: interactive has a timer that wakes it.
#[test]
fn interactive_wakes_an_idle_cpu_that_holds_the_clock() {
    let text = r#"{ "tasks": {
        "once":  { "cpus": [4], "loop": 1, "run": 50000, "sleep": 2000000 },
        "often": { "cpus": [5], "loop": -1, "run": 200, "timer": { "ref": "o", "period": 2000 } } } }"#;
    let falls = |slack: &str| {
        let mut falls = Falls::default();
        let mut spec = under("sdm835", "android-4.9", text, &["cpufreq=interactive", slack]);
        spec.duration = Ns::from_ms(1_000);
        spec.platform.noise.housekeeping.clear();
        Simulator.run(&spec, &mut [&mut falls]).expect("runs");
        falls.0
    };
    assert_eq!(falls("interactive.timer_slack_us=80000"), 1);
    assert_eq!(falls("interactive.timer_slack_us=0"), 0);
}

/// The highest utilisation of a thread in the second half of a second.
#[derive(Default)]
struct Util(u32);

impl Observer for Util {
    fn interest(&self) -> Interest {
        Interest::SIGNALS
    }
    fn event(&mut self, at: Ns, _: CpuId, event: &Event) {
        if let Event::PeltSe { pid: Pid(2), util_avg, .. } = *event {
            self.0 = if at > Ns::from_ms(500) { self.0.max(util_avg) } else { 0 };
        }
    }
}

/// Who is woken by another CPU of its cache and runs for 0.1 ms of every 20 pays for the way out of the idle state, as the switch goes by
/// the clock of the wake-up; since 6.0 an idle CPU queues it itself, when it is out.
#[test]
fn a_wakee_pays_for_the_way_out_of_idleness_until_5_19() {
    let text = r#"{ "tasks": {
        "waker": { "cpus": [6], "loop": -1, "run": 100, "resume": "wakee", "timer": { "ref": "t", "period": 20000 } },
        "wakee": { "cpus": [5], "loop": -1, "suspend": "wakee", "run": 100 } } }"#;
    let util = |kernel| {
        let mut util = Util::default();
        let mut spec = under("sdm835", kernel, text, &["cpufreq=performance"]);
        (spec.duration, spec.platform.noise.housekeeping) = (Ns::from_s(1), Vec::new());
        Simulator.run(&spec, &mut [&mut util]).expect("runs");
        util.0
    };
    let utils = ["android-4.9", "linux-5.3", "linux-6.6"].map(util);
    assert!(utils[0] > 3 * utils[2] && utils[1] > 3 * utils[2], "{utils:?}");
}
