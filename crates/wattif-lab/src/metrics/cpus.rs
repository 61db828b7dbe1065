//! How did each CPU spend its time? As `/sys/devices/system/cpu/cpuN/cpuidle` tells it.

use serde::{Deserialize, Serialize};
use wattif_model::platform::Platform;
use wattif_model::trace::{Event, Interest, Observer};
use wattif_model::{CpuId, Ns};

/// One idle state of one CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IdleReport {
    /// Index.
    pub state: u32,
    /// Such as `WFI`.
    pub name: String,
    /// Time from `cpu_idle` of the state to `cpu_idle` of the exit, s.
    pub residency_s: f64,
    /// Sleeps that ended.
    pub usage: u64,
    /// Of these, too deep: a shallower state would have been right.
    pub above: u64,
    /// Of these, too shallow: a deeper state would have been right.
    pub below: u64,
    /// Of these, shorter than the state needs, also where no shallower state was to be had.
    #[serde(default)]
    pub short: u64,
}

/// One CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuReport {
    /// Its id.
    pub cpu: u32,
    /// Time not in an idle state, s: threads, interrupts and the idle loop itself.
    pub busy_s: f64,
    /// Its idle states, shallowest first.
    pub idle: Vec<IdleReport>,
    /// Its energy in the unit of `metrics.energy`; `None` where the platform has no powers.
    pub energy: Option<f64>,
}

#[derive(Clone, Debug, Default)]
struct State {
    name: String,
    residency_ns: u64,
    usage: u64,
    above: u64,
    below: u64,
    short: u64,
    /// What the governor is told that a sleep in it has to last, ns.
    needs_ns: u64,
}

#[derive(Clone, Debug, Default)]
struct Cpu {
    states: Vec<State>,
    busy_ns: u64,
    since: Ns,
    now: Option<usize>,
}

impl Cpu {
    /// Close the span that ends at `at`; the residencies of a CPU sum to its time by construction.
    fn account(&mut self, at: Ns) {
        let ns = at.since(self.since);
        self.since = at;
        match self.now {
            Some(state) => self.states[state].residency_ns += ns,
            None => self.busy_ns += ns,
        }
    }
    fn enter(&mut self, at: Ns, state: u32) {
        let slept_ns = at.since(self.since);
        self.account(at);
        if let Some(left) = self.now {
            let left = &mut self.states[left];
            left.usage += 1;
            left.short += u64::from(slept_ns < left.needs_ns);
        }
        // A state the platform does not have counts as busy.
        self.now = Some(state as usize).filter(|&s| s < self.states.len());
    }
    fn missed(&mut self, state: u32, below: bool) {
        if let Some(s) = self.states.get_mut(state as usize) {
            *(if below { &mut s.below } else { &mut s.above }) += 1;
        }
    }
}

/// Listens to `cpu_idle` and `cpu_idle_miss`.
#[derive(Clone, Debug)]
pub struct Cpus(Vec<Cpu>);

impl Cpus {
    /// For this machine.
    pub fn new(platform: &Platform) -> Cpus {
        let states = |cpu| {
            let of = |s: &wattif_model::platform::IdleState| State {
                name: s.name.clone(),
                needs_ns: s.advertised.residency_ns,
                ..State::default()
            };
            platform.idle_states(CpuId(cpu)).iter().map(of).collect()
        };
        Cpus((0..platform.nr_cpus() as u32).map(|c| Cpu { states: states(c), ..Cpu::default() }).collect())
    }
    /// A row per CPU, energy still empty; after `finish`.
    pub fn rows(&self) -> Vec<CpuReport> {
        self.0.iter().enumerate().map(|(cpu, c)| row(cpu as u32, c)).collect()
    }
    /// Busy and idle times of a CPU, ns.
    pub fn residencies_ns(&self, cpu: CpuId) -> (u64, Vec<u64>) {
        let c = &self.0[cpu.at()];
        (c.busy_ns, c.states.iter().map(|s| s.residency_ns).collect())
    }
}

fn row(cpu: u32, c: &Cpu) -> CpuReport {
    let idle = |(state, s): (usize, &State)| IdleReport {
        state: state as u32,
        name: s.name.clone(),
        residency_s: s.residency_ns as f64 / 1e9,
        usage: s.usage,
        above: s.above,
        below: s.below,
        short: s.short,
    };
    let busy_s = c.busy_ns as f64 / 1e9;
    CpuReport { cpu, busy_s, idle: c.states.iter().enumerate().map(idle).collect(), energy: None }
}

impl Observer for Cpus {
    fn interest(&self) -> Interest {
        Interest::IDLE
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        let Some(c) = self.0.get_mut(cpu.at()) else { return };
        match *event {
            Event::CpuIdle { state } => c.enter(at, state),
            Event::CpuIdleMiss { state, below } => c.missed(state, below),
            _ => {}
        }
    }
    fn finish(&mut self, end: Ns) {
        self.0.iter_mut().for_each(|c| c.account(end));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::*;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sysfs_counters() {
        let mut c = Cpus::new(&platform());
        let miss = |below| Event::CpuIdleMiss { state: 1, below };
        play(
            &mut c,
            &[
                (0, 0, idle(1)),
                (100, 0, idle(Event::IDLE_EXIT)),
                (100, 0, miss(false)),
                (130, 0, idle(0)),
                (150, 0, idle(Event::IDLE_EXIT)),
                (160, 0, idle(1)),
            ],
        );
        c.finish(Ns(200));
        assert_eq!(c.residencies_ns(CpuId(0)), (40, vec![20, 140]));
        let off = &c.rows()[0].idle[1];
        assert_eq!((off.name.as_str(), off.usage, off.above, off.below), ("off", 1, 1, 0), "the last sleep goes on");
        assert_eq!(c.residencies_ns(CpuId(3)), (200, vec![0, 0]));
    }

    proptest! {
        /// Whatever the events, a CPU's residencies sum to the run's length to the nanosecond.
        #[test]
        fn residencies_sum_to_the_run(steps in prop::collection::vec((0u64..1000, prop_oneof![0u32..4, Just(u32::MAX)]), 0..60)) {
            let mut c = Cpus::new(&platform());
            let mut now = 0;
            for (dt, state) in steps {
                now += dt;
                c.event(Ns(now), CpuId(1), &idle(state));
            }
            c.finish(Ns(now + 17));
            let (busy, idle) = c.residencies_ns(CpuId(1));
            prop_assert_eq!(busy + idle.iter().sum::<u64>(), now + 17);
        }
    }
}
