//! Where did the energy go? The integral of `metrics/energy.rs`, split as it is summed: by domain, operating point and
//! level, and by who ran. Both splits sum to the total to the femtojoule.

use crate::metrics::energy;
use crate::metrics::pids::PidTable;
use std::collections::BTreeMap;
use wattif_model::platform::Platform;
use wattif_model::trace::{Event, Interest, Observer, PowerLevel, ThreadInfo};
use wattif_model::{CpuId, Fj, Ns, Pid};

/// Which meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The CPUs of this frequency domain.
    Cpus(u32),
    /// The clusters clocked by this domain.
    Clusters(u32),
    /// Rest of the system.
    Base,
}

/// What it was doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Executing, or on the way into or out of an idle state.
    Busy,
    /// In this idle state; of a cluster, the shallowest of its CPUs.
    Idle(u8),
}

/// A place at an operating point and level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EnergyCell {
    /// Which meter.
    pub place: Place,
    /// Operating point of its domain.
    pub opp: u32,
    /// Level.
    pub level: Level,
}

/// The energy of a run, split in two ways.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EnergySplit {
    /// By domain × operating point × idle state: energy, and time of the CPUs or clusters, ns.
    pub cells: BTreeMap<EnergyCell, (Fj, u64)>,
    /// By task; `idle` is what CPUs used while no thread was on them, `cluster` and `base` what no CPU used.
    pub tasks: BTreeMap<String, Fj>,
}

impl EnergySplit {
    /// Sum of the cells; the sum of the tasks is the same.
    pub fn total(&self) -> Fj {
        self.cells.values().fold(Fj(0), |a, (fj, _)| a + *fj)
    }
}

/// Tasks that every run has.
const IDLE: usize = 0;
const CLUSTER: usize = 1;
const BASE: usize = 2;

#[derive(Clone, Copy, Debug)]
struct Meter {
    domain: usize,
    level: PowerLevel,
    since: Ns,
    /// Index of the task on the CPU.
    task: usize,
}

/// Listens to power levels, frequencies and switches. Everything starts busy at the lowest operating point with nobody on it.
#[derive(Clone, Debug)]
pub struct EnergyBy<'p> {
    platform: &'p Platform,
    opps: Vec<usize>,
    cpus: Vec<Meter>,
    clusters: Vec<Meter>,
    /// Levels per operating point: busy, and the idle states.
    levels: usize,
    /// Per domain, CPUs and then clusters: operating point × level.
    cells: Vec<Vec<(Fj, u64)>>,
    base: (Fj, u64),
    names: Vec<String>,
    tasks: Vec<Fj>,
    threads: PidTable<usize>,
}

impl<'p> EnergyBy<'p> {
    /// For this machine.
    pub fn new(platform: &'p Platform) -> EnergyBy<'p> {
        let meter = |domain, task| Meter { domain, level: PowerLevel::Busy, since: Ns::ZERO, task };
        let of_cluster = |c: &wattif_model::platform::Cluster| {
            meter(platform.cpus[c.cpus.min().unwrap_or_default().at()].domain.at(), CLUSTER)
        };
        let levels = 1 + platform.clusters.iter().map(|c| c.idle.len()).max().unwrap_or(0);
        let cells = |d: &wattif_model::platform::FreqDomain| vec![(Fj(0), 0); d.opps.len() * levels];
        EnergyBy {
            platform,
            opps: vec![0; platform.domains.len()],
            cpus: platform.cpus.iter().map(|c| meter(c.domain.at(), IDLE)).collect(),
            clusters: platform.clusters.iter().map(of_cluster).collect(),
            levels,
            cells: platform.domains.iter().flat_map(|d| [cells(d), cells(d)]).collect(),
            base: (Fj(0), 0),
            names: ["idle", "cluster", "base"].map(String::from).into(),
            tasks: vec![Fj(0); 3],
            threads: PidTable::default(),
        }
    }

    /// After `finish`.
    pub fn split(&self) -> EnergySplit {
        let mut cells = BTreeMap::new();
        for (i, list) in self.cells.iter().enumerate() {
            let domain = i as u32 / 2;
            let place = if i % 2 == 0 { Place::Cpus(domain) } else { Place::Clusters(domain) };
            for (at, cell) in list.iter().enumerate().filter(|(_, cell)| cell.1 > 0) {
                let (opp, level) = ((at / self.levels) as u32, at % self.levels);
                let level = if level == 0 { Level::Busy } else { Level::Idle(level as u8 - 1) };
                cells.insert(EnergyCell { place, opp, level }, *cell);
            }
        }
        cells.insert(EnergyCell { place: Place::Base, opp: 0, level: Level::Busy }, self.base);
        let tasks = self.names.iter().cloned().zip(self.tasks.iter().copied()).collect();
        EnergySplit { cells, tasks }
    }

    /// Charges a meter's time since it last changed.
    fn flush(&mut self, at: Ns, which: usize, is_cluster: bool) {
        let meter = if is_cluster { &mut self.clusters[which] } else { &mut self.cpus[which] };
        let (ns, opp) = (at.since(meter.since), self.opps[meter.domain]);
        meter.since = at;
        let table = &self.platform.domains[meter.domain].power;
        let power = if is_cluster { energy::cluster_power } else { energy::cpu_power }(table, meter.level, opp);
        let fj = wattif_model::Uw(power).over(ns);
        let level = match meter.level {
            PowerLevel::Busy => 0,
            PowerLevel::Idle(state) => 1 + usize::from(state),
        };
        let cell = &mut self.cells[meter.domain * 2 + usize::from(is_cluster)][opp * self.levels + level];
        *cell = (cell.0 + fj, cell.1 + ns);
        self.tasks[meter.task] += fj;
    }

    fn switch(&mut self, at: Ns, cpu: usize, next: Pid) {
        self.flush(at, cpu, false);
        self.cpus[cpu].task = self.threads.get(next).copied().unwrap_or(IDLE);
    }

    fn set_opp(&mut self, at: Ns, domain: usize, opp: usize) {
        for c in 0..self.cpus.len() {
            if self.cpus[c].domain == domain {
                self.flush(at, c, false);
            }
        }
        for c in 0..self.clusters.len() {
            if self.clusters[c].domain == domain {
                self.flush(at, c, true);
            }
        }
        self.opps[domain] = opp;
    }
}

impl Observer for EnergyBy<'_> {
    fn interest(&self) -> Interest {
        Interest::POWER.and(Interest::FREQ).and(Interest::SCHED)
    }
    fn thread(&mut self, thread: &ThreadInfo) {
        // A task may be called as one of those that every run has.
        let is_taken = self.names[..=BASE].contains(&thread.task);
        let name = if is_taken { format!("task {}", thread.task) } else { thread.task.clone() };
        let index = self.names.iter().position(|n| *n == name).unwrap_or_else(|| {
            self.names.push(name);
            self.tasks.push(Fj(0));
            self.names.len() - 1
        });
        *self.threads.entry(thread.pid, || index) = index;
    }
    fn ran_before(&mut self, cpu: CpuId, pid: Pid) {
        if cpu.at() < self.cpus.len() {
            self.switch(Ns::ZERO, cpu.at(), pid);
        }
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        match *event {
            Event::CpuPower { level } if cpu.at() < self.cpus.len() => {
                self.flush(at, cpu.at(), false);
                self.cpus[cpu.at()].level = level;
            }
            Event::ClusterPower { cluster, level } if cluster.at() < self.clusters.len() => {
                self.flush(at, cluster.at(), true);
                self.clusters[cluster.at()].level = level;
            }
            Event::CpuFrequency { domain, opp, .. } if domain.at() < self.opps.len() => {
                self.set_opp(at, domain.at(), opp as usize);
            }
            Event::SchedSwitch { next_pid, .. } if cpu.at() < self.cpus.len() => self.switch(at, cpu.at(), next_pid),
            _ => {}
        }
    }
    fn finish(&mut self, end: Ns) {
        (0..self.cpus.len()).for_each(|c| self.flush(end, c, false));
        (0..self.clusters.len()).for_each(|c| self.flush(end, c, true));
        let base = wattif_model::Uw(self.platform.power.base_uw).over(end.0);
        (self.base, self.tasks[BASE]) = ((base, end.0), base);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Energy;
    use crate::metrics::testbed::*;
    use proptest::prelude::*;
    use wattif_model::trace::PrevState::Running;

    #[test]
    fn by_hand() {
        let p = platform();
        let mut e = EnergyBy::new(&p);
        e.thread(&thread(1, "a"));
        e.thread(&thread(2, "idle"));
        play(
            &mut e,
            &[
                (0, 0, cpu_power(PowerLevel::Idle(0))),
                (10, 0, frequency(0, 1)),
                (20, 0, cpu_power(PowerLevel::Busy)),
                (25, 0, switch(0, 1, Running)),
                (40, 0, switch(1, 2, Running)),
            ],
        );
        e.finish(Ns(50));
        let split = e.split();
        let cell = |place, opp, level| split.cells[&EnergyCell { place, opp, level }];
        assert_eq!(cell(Place::Cpus(0), 0, Level::Idle(0)), (Fj(10 * 11), 10));
        assert_eq!(cell(Place::Cpus(0), 1, Level::Idle(0)), (Fj(10 * 13), 10));
        // CPU 0 for 30 ns, CPU 1 for 40.
        assert_eq!(cell(Place::Cpus(0), 1, Level::Busy), (Fj(70 * 300), 70));
        assert_eq!(cell(Place::Clusters(0), 1, Level::Busy), (Fj(40 * 60), 40));
        assert_eq!(split.tasks["a"], Fj(15 * 300));
        assert_eq!((split.tasks["task idle"], split.tasks["base"]), (Fj(10 * 300), Fj(350)));
        assert_eq!(split.total(), split.tasks.values().fold(Fj(0), |a, &b| a + b));
    }

    proptest! {
        /// Whatever the events, both splits sum to the integral of the metric.
        #[test]
        fn sums_to_the_metric(steps in prop::collection::vec((0u64..50, 0u8..4, 0u32..4, 0u8..3), 0..60)) {
            let p = platform();
            let (mut by, mut whole) = (EnergyBy::new(&p), Energy::new(&p));
            by.thread(&thread(1, "a"));
            by.thread(&thread(2, "b"));
            let mut now = 0;
            for (dt, kind, which, value) in steps {
                now += dt;
                let level = if value == 0 { PowerLevel::Busy } else { PowerLevel::Idle(value - 1) };
                let event = match kind {
                    0 => cpu_power(level),
                    1 => cluster_power(which % 2, level),
                    2 => frequency(which % 2, u32::from(value % 2)),
                    _ => switch(0, u32::from(value), Running),
                };
                by.event(Ns(now), CpuId(which), &event);
                whole.event(Ns(now), CpuId(which), &event);
            }
            by.finish(Ns(now + 3));
            whole.finish(Ns(now + 3));
            let split = by.split();
            prop_assert_eq!(split.total(), whole.totals().total());
            prop_assert_eq!(split.tasks.values().fold(Fj(0), |a, &b| a + b), split.total());
        }
    }
}
