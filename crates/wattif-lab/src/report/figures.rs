//! The figures of one run that are more than numbers: distributions, frames over time, energy by place and level, idle states
//! beside an oracle's.

use crate::explain::{EnergyBy, Level, Place};
use crate::metrics::energy::unit;
use crate::metrics::{Distribution, Oracle, RunReport};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wattif_model::platform::Platform;
use wattif_model::run::RunSpec;
use wattif_model::trace::{Event, Interest, Observer, ThreadInfo};
use wattif_model::{CpuId, Ns, Pid};

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Wake-up latency of all threads of the workload: value, µs, and share of values not above.
    pub latency_all: Vec<(f64, f64)>,
    /// Wake-up latency: a curve per task of the workload that was woken.
    pub latency: Vec<Curve>,
    /// The longest wake-up latency of a thread of the workload.
    pub worst: Option<Instant>,
    /// By mark: empty where the workload marks nothing.
    pub frames: Vec<FrameFigure>,
    /// `None` where the platform has no powers.
    pub energy: Option<EnergyFigure>,
    /// By idle state, all CPUs of a kind together.
    pub idle: Vec<IdleStateFigure>,
}

/// A cumulative distribution.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Of which task.
    pub task: String,
    /// Value, µs, and share of values not above, ascending.
    pub points: Vec<(f64, f64)>,
}

/// Something at a time on a CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Instant {
    /// When it ended, ns.
    pub at_ns: u64,
    /// Where.
    pub cpu: u32,
    /// Name of the thread.
    pub thread: String,
    /// Its id.
    pub pid: u32,
    /// How long, µs.
    pub us: f64,
}

/// Units of work of one mark.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FrameFigure {
    /// Name of the mark.
    pub mark: String,
    /// Period of its deadlines (the vsync's), ms.
    pub deadline_ms: Option<f64>,
    /// How many there were; fewer points mean that only each n-th, and the longest, are shown.
    pub count: u64,
    /// When it ended, s, and how long it took, ms.
    pub points: Vec<(f64, f64)>,
}

/// Energy by place and level.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EnergyFigure {
    /// As in `metrics.energy`.
    pub unit: String,
    /// Sums to `metrics.energy.total`.
    pub rows: Vec<EnergyRow>,
}

/// One place at one level.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EnergyRow {
    /// Such as `cpu0-3`, `cluster of cpu0-3`, `base`.
    pub place: String,
    /// Operating point, kHz; 0 for `base`.
    pub khz: u32,
    /// `busy`, or the name of an idle state.
    pub level: String,
    /// Position among the levels of the place: 0 is busy.
    pub depth: u32,
    /// In the figure's unit.
    pub energy: f64,
    /// Time of all its CPUs or clusters, s.
    pub seconds: f64,
}

/// How well an idle state was chosen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IdleStateFigure {
    /// Index.
    pub state: u32,
    /// Names of it on the machine's CPUs.
    pub name: String,
    /// Sleeps that ended.
    pub usage: u64,
    /// Right.
    pub correct: u64,
    /// Too deep.
    pub above: u64,
    /// Too shallow.
    pub below: u64,
    /// Time in it, s, all CPUs.
    pub residency_s: f64,
    /// Sleeps that an oracle would have spent in it; `None` where no powers are known.
    pub oracle: Option<u64>,
}

/// Points of a mark that are kept.
const FRAMES: usize = 4000;

/// Frames of a mark: when they ended and how long they took, ns. Bounded: then only each n-th, and of those left out between
/// two the longest.
#[derive(Clone, Debug, Default)]
struct Kept {
    all: Vec<(u64, u64)>,
    every: u64,
    count: u64,
    longest: Option<(u64, u64)>,
}

impl Kept {
    fn push(&mut self, at: u64, ns: u64) {
        let every = self.every.max(1);
        self.count += 1;
        if self.longest.is_none_or(|l| ns > l.1) {
            self.longest = Some((at, ns));
        }
        if !self.count.is_multiple_of(every) {
            return;
        }
        self.all.extend(self.longest.take());
        if self.all.len() >= 2 * FRAMES {
            self.every = every * 2;
            let pairs = std::mem::take(&mut self.all);
            self.all = pairs.chunks(2).filter_map(|two| two.iter().copied().max_by_key(|p| p.1)).collect();
        }
    }
}

/// Listens to a run beside its metrics.
pub struct Collector<'p> {
    platform: &'p Platform,
    energy: EnergyBy<'p>,
    oracle: Oracle,
    marks: Vec<(String, Option<Ns>, Kept)>,
    threads: BTreeMap<Pid, String>,
    woken: BTreeMap<Pid, Ns>,
    running: Vec<Pid>,
    worst: Option<(Ns, CpuId, Pid, u64)>,
    latencies: Distribution,
}

impl<'p> Collector<'p> {
    /// For a run of `spec`.
    pub fn new(spec: &'p RunSpec) -> Collector<'p> {
        let periods = spec.workload.mark_periods.iter().copied().chain(std::iter::repeat(None));
        let marks = spec.workload.marks.iter().cloned().zip(periods);
        Collector {
            platform: &spec.platform,
            energy: EnergyBy::new(&spec.platform),
            oracle: Oracle::new(&spec.platform),
            marks: marks.map(|(name, period)| (name, period, Kept::default())).collect(),
            threads: BTreeMap::new(),
            woken: BTreeMap::new(),
            running: vec![Pid(0); spec.platform.nr_cpus()],
            worst: None,
            latencies: Distribution::precise(),
        }
    }

    /// After the run; the curves are those of its report.
    pub fn figures(&self, report: &RunReport) -> Figures {
        let curves = report.by_task.iter().filter(|g| g.workload && !g.wakeup_latency_cdf.is_empty());
        let worst = self.worst.map(|(at, cpu, pid, ns)| Instant {
            at_ns: at.0,
            cpu: cpu.0,
            thread: self.threads[&pid].clone(),
            pid: pid.0,
            us: ns as f64 / 1e3,
        });
        Figures {
            latency_all: self.latencies.cdf_us(),
            latency: curves.map(|g| Curve { task: g.task.clone(), points: g.wakeup_latency_cdf.clone() }).collect(),
            worst,
            frames: self.marks.iter().filter(|m| m.2.count > 0).map(frame_figure).collect(),
            energy: self.energy(),
            idle: self.idle(report),
        }
    }

    fn energy(&self) -> Option<EnergyFigure> {
        let (unit, one) = unit(self.platform.power.unit, self.platform.power.sourced)?;
        let split = self.energy.split();
        let row = |(cell, (fj, ns)): (&crate::explain::EnergyCell, &(wattif_model::Fj, u64))| {
            let (domain, what) = match cell.place {
                Place::Base => (None, "base"),
                Place::Cpus(d) => (Some(d), ""),
                Place::Clusters(d) => (Some(d), "cluster of "),
            };
            let domain = domain.map(|d| &self.platform.domains[d as usize]);
            let (level, depth) = match cell.level {
                Level::Busy => ("busy".to_string(), 0),
                Level::Idle(state) => {
                    let cpu = domain.and_then(|d| d.cpus.min()).unwrap_or_default();
                    let states = self.platform.idle_states(cpu);
                    let name = states.get(usize::from(state)).map_or(format!("idle {state}"), |s| s.name.clone());
                    (name, u32::from(state) + 1)
                }
            };
            EnergyRow {
                place: domain.map_or(what.to_string(), |d| format!("{what}cpu{}", d.cpus)),
                khz: domain.map_or(0, |d| d.opps[cell.opp as usize].khz),
                level,
                depth,
                energy: fj.0 as f64 / one,
                seconds: *ns as f64 / 1e9,
            }
        };
        Some(EnergyFigure { unit: unit.into(), rows: split.cells.iter().map(row).collect() })
    }

    /// States of the same index together; where kinds of CPU name it differently, all names.
    fn idle(&self, report: &RunReport) -> Vec<IdleStateFigure> {
        let best = self.oracle.best_by_state();
        let mut rows: BTreeMap<u32, IdleStateFigure> = BTreeMap::new();
        for state in report.cpus.iter().flat_map(|c| &c.idle) {
            let row = rows.entry(state.state).or_insert_with(|| IdleStateFigure {
                state: state.state,
                oracle: (!best.is_empty()).then(|| best.get(state.state as usize).copied().unwrap_or(0)),
                ..IdleStateFigure::default()
            });
            if !row.name.split(" / ").any(|n| n == state.name) {
                row.name += if row.name.is_empty() { "" } else { " / " };
                row.name += &state.name;
            }
            row.usage += state.usage;
            row.above += state.above;
            row.below += state.below;
            row.residency_s += state.residency_s;
        }
        rows.into_values()
            .map(|r| IdleStateFigure { correct: r.usage.saturating_sub(r.above + r.below), ..r })
            .collect()
    }
}

fn frame_figure((mark, period, kept): &(String, Option<Ns>, Kept)) -> FrameFigure {
    let points = kept.all.iter().chain(&kept.longest);
    FrameFigure {
        mark: mark.clone(),
        deadline_ms: period.map(|p| p.0 as f64 / 1e6),
        count: kept.count,
        points: points.map(|&(at, ns)| (at as f64 / 1e9, ns as f64 / 1e6)).collect(),
    }
}

impl Observer for Collector<'_> {
    fn interest(&self) -> Interest {
        self.energy.interest().and(self.oracle.interest()).and(Interest::PROGRAM).and(Interest::SCHED)
    }
    fn start(&mut self, platform: &Platform) {
        self.energy.start(platform);
        self.oracle.start(platform);
    }
    fn thread(&mut self, thread: &ThreadInfo) {
        self.energy.thread(thread);
        if thread.workload {
            self.threads.insert(thread.pid, thread.comm.clone());
        }
    }
    fn ran_before(&mut self, cpu: CpuId, pid: Pid) {
        self.energy.ran_before(cpu, pid);
        if let Some(running) = self.running.get_mut(cpu.at()) {
            *running = pid;
        }
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        match *event {
            Event::SchedWaking { pid, .. } if self.threads.contains_key(&pid) && !self.running.contains(&pid) => {
                self.woken.entry(pid).or_insert(at);
            }
            Event::SchedSwitch { next_pid, .. } => {
                self.energy.event(at, cpu, event);
                if let Some(running) = self.running.get_mut(cpu.at()) {
                    *running = next_pid;
                }
                if let Some(since) = self.woken.remove(&next_pid) {
                    let ns = at.since(since);
                    self.latencies.record(ns);
                    if self.worst.is_none_or(|w| ns > w.3) {
                        self.worst = Some((at, cpu, next_pid, ns));
                    }
                }
            }
            Event::CpuPower { .. } | Event::ClusterPower { .. } | Event::CpuFrequency { .. } => {
                self.energy.event(at, cpu, event);
                self.oracle.event(at, cpu, event);
            }
            Event::CpuIdle { .. } | Event::IdlePeriod(_) => self.oracle.event(at, cpu, event),
            Event::Mark { mark, began_ns, .. } => {
                if let Some((_, _, kept)) = self.marks.get_mut(mark as usize) {
                    kept.push(at.0, at.since(Ns(began_ns)));
                }
            }
            _ => {}
        }
    }
    fn finish(&mut self, end: Ns) {
        self.energy.finish(end);
        self.oracle.finish(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_bounded_and_keep_the_longest() {
        let mut kept = Kept::default();
        (0..100_000u64).for_each(|i| kept.push(i * 10, if i == 77_777 { 9_999 } else { 5 }));
        assert_eq!(kept.count, 100_000);
        assert!(kept.all.len() < 2 * FRAMES && kept.all.len() > FRAMES / 2, "{}", kept.all.len());
        assert!(kept.all.contains(&(777_770, 9_999)));
        let mut few = Kept::default();
        (0..10u64).for_each(|i| few.push(i, i));
        assert_eq!(few.all.len(), 10);
    }
}
