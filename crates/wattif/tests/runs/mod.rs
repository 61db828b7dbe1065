//! Runs that several tests look at, and how they are asked for.

#![allow(dead_code, reason = "each of the tests uses a part")]

use std::collections::BTreeSet;
use wattif::data::Source;
use wattif::load;
use wattif::run::Simulator;
use wattif::settings::Settings;
use wattif_formats::rtapp::Dialect;
use wattif_model::kernel::Slot;
use wattif_model::run::{RunSpec, Runner};
use wattif_model::trace::{Event, IdleCause, IdlePeriod, Interest, Observer};
use wattif_model::{CpuId, Ns};
use wattif_sim::registry::POLICIES;

/// Two busy groups, a background hog, a sleeper, and two threads that share a lock.
pub const MIXED: &str = r#"{ "tasks": {
    "periodic": { "instance": 5, "run": 1500, "timer": { "ref": "unique", "period": 4000 } },
    "hog":      { "instance": 3, "policy": "SCHED_IDLE", "run": 3000 },
    "nap":      { "instance": 4, "run": 300, "sleep": 900 },
    "locker":   { "instance": 2, "lock": "m", "run": 200, "unlock": "m", "sleep": 500 }
}, "global": { "duration": 1 } }"#;

/// The end of a platform on which nothing but work takes time.
pub const NO_COSTS: &str = r#"
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

pub fn spec(platform: &str, kernel: &str, text: &str, seed: u64) -> RunSpec {
    let none = Settings::default();
    let platform = load::platform(platform, &none).expect("built in").value;
    let source = Source { name: "test.json".into(), text: text.into() };
    let workload = load::parse_workload(source, platform.nr_cpus(), Dialect::Workgen, &none).expect("valid");
    let kernel = load::kernel(kernel, &none).expect("built in").value;
    RunSpec { platform, workload: workload.value.workload, kernel, seed, duration: Ns::from_ms(400) }
}

/// Names of the policies that can fill a slot.
pub fn policies(slot: Slot) -> Vec<&'static str> {
    POLICIES.iter().filter(|p| p.slot == slot && p.selectable).map(|p| p.name).collect()
}

pub fn digest(spec: &RunSpec) -> String {
    Simulator.run(spec, &mut []).expect("runs").digest
}

/// The time of the last event, and how long polling lasted where it gave up.
#[derive(Default)]
pub struct Polls {
    pub last: Ns,
    pub lasted_ns: BTreeSet<u64>,
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

/// A run of a model under an idle governor.
pub fn sleepy(platform: &str, model: &str, settings: &[(&str, &str)], seed: u64) -> RunSpec {
    let mut all = Settings::default();
    settings.iter().for_each(|(path, value)| all.add(path, value));
    let platform = load::platform(platform, &all).expect("built in").value;
    let workload = load::workload(model, &platform, Dialect::Workgen, &all).expect("a model").value.workload;
    let kernel = load::kernel("linux-5.6", &all).expect("built in").value;
    RunSpec { platform, workload, kernel, seed, duration: Ns::from_ms(150) }
}

/// An interrupt on its way is no part of what the oracle is judged by: here none takes time.
pub fn interrupts_take_no_time(spec: &mut RunSpec) {
    let costs = &mut spec.platform.costs;
    (costs.wakeup_ns, costs.ipi_ns, costs.timer_irq_ns, costs.tick_ns) = (0, 0, 0, 0);
    spec.platform.noise.irq_jitter_ns = 0;
}

/// `android-4.9-walt` on sdm835 under settings.
pub fn walt(text: &str, set: &[&str]) -> RunSpec {
    RunSpec { duration: Ns::from_ms(1_500), ..under("sdm835", "android-4.9-walt", text, set) }
}

/// A run of `kernel` under settings.
pub fn under(platform: &str, kernel: &str, text: &str, set: &[&str]) -> RunSpec {
    let kernel_spec = load::kernel(kernel, &Settings::parse(set).unwrap()).unwrap().value;
    RunSpec { kernel: kernel_spec, ..spec(platform, kernel, text, 1) }
}
