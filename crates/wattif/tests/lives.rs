//! What a thread brings along and leaves behind: when it is born, when it wakes up, when it sleeps and when it dies.

mod runs;

use runs::under;
use std::collections::BTreeMap;
use wattif::load;
use wattif::run::{Simulator, run};
use wattif::settings::Settings;
use wattif_formats::rtapp::Dialect;
use wattif_model::run::{RunSpec, Runner};
use wattif_model::trace::{Event, Interest, Observer, Placement, PlacementReason};
use wattif_model::{CpuId, Ns, Pid};

/// What a run shows, as far as the tests here ask.
#[derive(Default)]
struct Seen {
    died: Option<Ns>,
    /// `util_avg` of CPU 1 from 20 ms after the first death on.
    left: Option<u32>,
    born: BTreeMap<Pid, Ns>,
    /// From birth until a CPU, ns.
    waited: Vec<u64>,
    placed: Vec<Placement>,
    /// The last decision of a clock and what it counted, and what those counted at which thread 1 had gone to sleep.
    decided: (Ns, u32),
    at_sleep: Vec<u32>,
}

impl Observer for Seen {
    fn interest(&self) -> Interest {
        Interest::ALL
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        match *event {
            Event::SchedProcessExit { .. } => self.died = self.died.or(Some(at)),
            Event::PeltCfs { util_avg, .. }
                if cpu == CpuId(1) && self.died.is_some_and(|died| at.0 >= died.0 + 20_000_000) =>
            {
                self.left = self.left.or(Some(util_avg));
            }
            Event::SchedWakeupNew { pid, .. } => {
                self.born.insert(pid, at);
            }
            Event::SchedSwitch { prev_pid, next_pid, .. } => {
                self.waited.extend(self.born.remove(&next_pid).map(|born| at.0 - born.0));
                if prev_pid == Pid(1) && self.decided.0 == at {
                    self.at_sleep.push(self.decided.1);
                }
            }
            Event::Placement(p) => self.placed.push(p),
            Event::Frequency(choice) => self.decided = (at, choice.util_est),
            _ => {}
        }
    }
}

fn seen(platform: &str, kernel: &str, ms: u64, text: &str) -> Seen {
    let spec = RunSpec { duration: Ns::from_ms(ms), ..under(platform, kernel, text, &[]) };
    let mut seen = Seen::default();
    Simulator.run(&spec, &mut [&mut seen]).expect("runs");
    seen
}

/// `task_dead_fair`, since 4.3.
#[test]
fn a_dead_thread_leaves_no_load_on_its_cpu() {
    let text = r#"{ "tasks": {
        "hog":   { "cpus": [1], "loop": 1, "run": 300000 },
        "small": { "cpus": [1], "loop": -1, "run": 300, "timer": { "ref": "t", "period": 5000 } } } }"#;
    let left = |kernel: &str| seen("rpi5", kernel, 600, text).left.expect("a utilisation");
    for kernel in ["linux-6.12", "linux-6.1"] {
        assert!(left(kernel) < 200, "{kernel}: {}", left(kernel));
    }
}

/// CFS places it on the queue of its parent, here an empty one; EEVDF of 6.6 places it again where it goes, with a whole slice.
#[test]
fn a_new_thread_waits_by_the_rules_of_its_kernel() {
    let text = r#"{ "tasks": {
        "hog":    { "instance": 4, "cpus": [0], "loop": -1, "run": 1000 },
        "parent": { "cpus": [1], "loop": 1, "phases": {
            "first": { "sleep": 300000 }, "forks": { "loop": 20, "run": 200, "fork": "kid", "sleep": 31000 } } },
        "kid":    { "instance": 0, "cpus": [0], "loop": 1, "run": 500 } } }"#;
    let mean_ms = |kernel: &str| {
        let waited = seen("guest_x86_8cpu", kernel, 1_000, text).waited;
        let of_kids = &waited[waited.len() - 15..];
        of_kids.iter().sum::<u64>() as f64 / 15e6
    };
    for kernel in ["linux-5.3", "linux-6.1"] {
        assert!((40.0..65.0).contains(&mean_ms(kernel)), "{kernel}: {} ms", mean_ms(kernel));
    }
    let (before, since) = (mean_ms("linux-6.6"), mean_ms("linux-6.12"));
    assert!(before > 1.5 * since, "{before} ms in 6.6, {since} in 6.12");
}

/// Where its parent ran is where it ran recently.
#[test]
fn a_new_thread_remembers_the_cpu_of_its_parent() {
    let text = r#"{ "tasks": {
        "hog1":   { "cpus": [1], "loop": 1, "run": 60000 },
        "hog2":   { "cpus": [2], "loop": 1, "run": 60000 },
        "parent": { "cpus": [3], "loop": 1, "phases": {
            "first": { "sleep": 30000 }, "forks": { "run": 300, "fork": "kid", "run2": 300 }, "rests": { "sleep": 500000 } } },
        "kid":    { "instance": 0, "cpus": [0, 1, 2, 3], "loop": 1, "phases": {
            "first": { "run": 500, "sleep": 150000 }, "then": { "run": 1000, "sleep": 50000 } } },
        "late":   { "cpus": [0], "loop": 1, "phases": { "first": { "sleep": 120000 }, "then": { "run": 300000 } } } } }"#;
    for kernel in ["linux-6.1", "linux-6.12"] {
        let seen = seen("rpi5", kernel, 400, text);
        let kid = seen.placed.iter().filter(|p| p.reason == PlacementReason::RecentIdle && p.cpu == CpuId(3));
        assert_eq!(kid.count(), 1, "{kernel}");
    }
}

/// The first call of a wake-up from I/O brings the boost, the second, of the queue's update, halves it, where sleeps are long enough.
#[test]
fn a_boost_for_io_does_not_build_up_over_long_sleeps() {
    let khz = |kernel: &str| {
        let none = Settings::default();
        let platform = load::platform("rpi5", &none).expect("built in").value;
        let model =
            load::workload("androbench:test=sequential_write", &platform, Dialect::Workgen, &none).expect("a model");
        let kernel = load::kernel(kernel, &none).expect("built in").value;
        let duration = Ns::from_ms(1_000);
        let spec = RunSpec { platform, workload: model.value.workload, kernel, seed: 1, duration };
        run(&spec, &mut []).expect("runs").report.metric("domains.0.khz_mean", None).expect("a domain")
    };
    for kernel in ["linux-6.1", "linux-6.12"] {
        assert!(khz(kernel) < 1_600_000.0, "{kernel}: {}", khz(kernel));
    }
}

/// The governor hears of a dequeue while the estimate of who leaves still counts, until 5.12.
#[test]
fn an_estimate_holds_the_clock_when_its_task_goes_to_sleep() {
    let text = r#"{ "tasks": { "t": { "cpus": [5], "loop": -1, "phases": {
        "long": { "loop": 3, "run": 40000, "sleep": 60000 }, "short": { "loop": 4, "run": 9000, "sleep": 60000 } } } } }"#;
    let estimates = |kernel: &str| seen("hikey960", kernel, 3_000, text).at_sleep;
    let [since, before] = ["linux-6.1", "linux-5.6"].map(estimates);
    assert!(since.len() > 1 && since.iter().all(|est| *est == 0), "{since:?}");
    assert!(before.len() < since.len() && before.iter().all(|est| *est > 100), "{before:?}");
}
