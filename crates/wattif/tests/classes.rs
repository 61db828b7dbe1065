//! What the scheduling classes do to threads, seen from outside: sleeps, ends, budgets, nice values.

mod runs;

use runs::NO_COSTS;
use std::collections::{BTreeMap, BTreeSet};
use wattif::data::Source;
use wattif::load;
use wattif::run::Simulator;
use wattif::settings::Settings;
use wattif_formats::rtapp::Dialect;
use wattif_model::run::{RunSpec, Runner};
use wattif_model::trace::{Event, Interest, Observer, PrevState, ThreadInfo};
use wattif_model::{CpuId, Ns, Pid};

const MS: u64 = 1_000_000;

/// One CPU of one frequency at 250 Hz, on which nothing but work takes time.
const ONE: &str = r#"
name = "one"
title = "one CPU"
hz = 250
timer_slack_us = 0
trust = ["test"]
[power]
unit = "unknown"
[topology]
llc = ["0-0"]
[[domain]]
cpus = "0"
core = "x"
capacity = 1024
transition_us = 0
opps = [{ khz = 1_000_000 }]
[[cluster]]
cpus = ["0"]
idle = [{ name = "C1", scope = "cpu", advertised = { exit_us = 0, residency_us = 1 }, actual = { entry_us = 0, exit_us = 0 } }]
"#;

/// Switches of a run, and what else the tests ask for.
#[derive(Default)]
struct Seen {
    names: BTreeMap<Pid, String>,
    /// When, who left and why, and who came.
    switches: Vec<(u64, Pid, PrevState, Pid)>,
    ended: BTreeSet<Pid>,
    migrations_of_the_dead: u32,
    /// When, and the load of CPU 0.
    loads: Vec<(u64, u64)>,
}

impl Observer for Seen {
    fn interest(&self) -> Interest {
        Interest::ALL
    }
    fn thread(&mut self, info: &ThreadInfo) {
        self.names.insert(info.pid, info.comm.clone());
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        match *event {
            Event::SchedSwitch { prev_pid, prev_state, next_pid, .. } => {
                self.switches.push((at.0, prev_pid, prev_state, next_pid));
            }
            Event::SchedProcessExit { pid, .. } => drop(self.ended.insert(pid)),
            Event::SchedMigrateTask { pid, .. } => self.migrations_of_the_dead += u32::from(self.ended.contains(&pid)),
            Event::PeltCfs { load_avg, .. } if cpu == CpuId(0) => self.loads.push((at.0, load_avg.into())),
            _ => {}
        }
    }
}

impl Seen {
    fn pid(&self, task: &str) -> Pid {
        let of = |n: &str| n.rsplit_once('-').map_or(n, |(t, _)| t) == task;
        *self.names.iter().find(|(_, n)| of(n)).expect("such a thread").0
    }

    /// How long the shortest sleep of a thread was, until it ran again.
    fn shortest_sleep(&self, task: &str) -> u64 {
        let (pid, mut since, mut shortest) = (self.pid(task), None, u64::MAX);
        for &(at, prev, why, next) in &self.switches {
            if prev == pid {
                since = (why == PrevState::Sleeping).then_some(at);
            }
            if let Some(since) = since.filter(|_| next == pid) {
                shortest = shortest.min(at - since);
            }
        }
        shortest
    }

    /// From when to when a thread ran.
    fn spans(&self, task: &str) -> Vec<(u64, u64)> {
        let (pid, mut began, mut spans) = (self.pid(task), 0, Vec::new());
        for &(at, prev, _, next) in &self.switches {
            if prev == pid {
                spans.push((began, at));
            }
            if next == pid {
                began = at;
            }
        }
        spans
    }
}

/// A run on a built-in platform, or on [`ONE`].
fn seen(platform: Option<&str>, kernel: &str, text: &str, ms: u64) -> Seen {
    let none = Settings::default();
    let one = || load::platform_of(Source { name: "one.toml".into(), text: [ONE, NO_COSTS].concat().into() }, &none);
    let platform = platform.map_or_else(one, |p| load::platform(p, &none)).expect("valid").value;
    let source = Source { name: "test.json".into(), text: text.into() };
    let workload = load::parse_workload(source, platform.nr_cpus(), Dialect::RtApp, &none).expect("valid");
    let kernel = load::kernel(kernel, &none).expect("built in").value;
    let duration = Ns::from_ms(ms);
    let spec = RunSpec { platform, workload: workload.value.workload, kernel, seed: 1, duration };
    let mut seen = Seen::default();
    Simulator.run(&spec, &mut [&mut seen]).expect("runs");
    seen
}

/// The owner of a lock sleeps with it; the dequeue is delayed where it has run too much. A waiter of the real-time class then lends it
/// its priority.
#[test]
fn a_boost_does_not_wake_a_sleeping_owner() {
    let text = r#"{ "global": { "pi_enabled": true }, "tasks": {
        "hog": { "run": 100000 },
        "own": { "lock": "m", "run": 3000, "sleep": 40000, "run2": 1000, "unlock": "m", "sleep2": 10000 },
        "rt":  { "policy": "SCHED_FIFO", "priority": 20, "delay": 3100, "loop": 1000, "lock": "m", "run": 200,
                 "unlock": "m", "timer": { "ref": "unique", "period": 5000 } } } }"#;
    for kernel in ["linux-6.1", "linux-6.6", "linux-6.12"] {
        let sleep = seen(None, kernel, text, 2000).shortest_sleep("own");
        assert!(sleep >= 10 * MS, "{kernel}: {sleep} ns");
    }
}

/// Threads that end when they have run too much leave their queue at once all the same.
#[test]
fn who_has_ended_is_not_balanced() {
    let text = r#"{ "tasks": {
        "hog": { "instance": 10, "run": 100000 },
        "par": { "loop": 100000, "fork": "kid", "run": 500, "sleep": 4000 },
        "kid": { "instance": 0, "loop": 1, "run": 2300 } } }"#;
    for kernel in ["linux-6.6", "linux-6.12"] {
        let seen = seen(Some("hikey620"), kernel, text, 2000);
        assert!(seen.ended.len() > 100, "{kernel}: {}", seen.ended.len());
        assert_eq!(seen.migrations_of_the_dead, 0, "{kernel}");
    }
}

/// Two groups fall asleep one after the other, and nothing is left that runs: what the last one delayed is dequeued all the same.
#[test]
fn the_load_of_groups_that_sleep_decays() {
    let text = r#"{ "tasks": {
        "x": { "taskgroup": "/a", "loop": 1, "run": 5000, "sleep": 10000000 },
        "y": { "taskgroup": "/b", "loop": 1, "run": 5300, "sleep": 10000000 },
        "z": { "loop": 1, "delay": 3000000, "run": 15000 } } }"#;
    for kernel in ["linux-6.6", "linux-6.12"] {
        let seen = seen(None, kernel, text, 3100);
        let (_, load) = *seen.loads.iter().find(|(at, _)| *at > 3000 * MS).expect("a tick");
        assert!(load < 500, "{kernel}: {load}");
    }
}

/// The more urgent of two real-time threads begins just before the budget is used up, which is then noticed where it goes to sleep.
#[test]
fn real_time_threads_are_throttled_at_a_switch_too() {
    let text = r#"{ "tasks": {
        "lo": { "policy": "SCHED_FIFO", "priority": 10, "run": 1000000 },
        "hi": { "policy": "SCHED_FIFO", "priority": 20, "loop": 1, "phases": {
            "p0": { "run": 100, "timer": { "ref": "unique", "period": 950700 } },
            "p1": { "loop": 10000, "run": 60000, "timer": { "ref": "unique", "period": 1000000 } } } },
        "h": { "run": 1000000 } } }"#;
    for kernel in ["linux-5.6", "linux-6.1", "linux-6.6"] {
        let spans = seen(None, kernel, text, 1100).spans("h");
        // 950.7 ms + 0.1 ms of the first job of `hi`: `lo` has run the rest.
        assert_eq!(spans.first(), Some(&(950_700_000, 1000 * MS)), "{kernel}: {spans:?}");
    }
}

/// A thread that changes its nice value while it is behind the others is behind no more: `sched_setattr` takes it off its queue, and
/// the queue's clock goes on without it.
#[test]
fn a_new_nice_value_costs_what_a_thread_was_behind() {
    let text = r#"{ "tasks": {
        "hog": { "run": 100000 },
        "t":   { "phases": {
            "a": { "priority": 0, "run": 4100 },
            "b": { "priority": -5, "run": 100000 } } } } }"#;
    for kernel in ["linux-5.6", "linux-6.1"] {
        let spans = seen(None, kernel, text, 50).spans("t");
        // It changes at 8.1 ms and runs to the first tick after its slice of 4.5 ms; it would still be behind there.
        assert_eq!(spans[1], (8 * MS, 16 * MS), "{kernel}: {spans:?}");
    }
}
