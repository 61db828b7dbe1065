//! What one run says. Each file answers one question and is an observer of its own; [`Metrics`] runs them all in
//! constant memory and makes the [`RunReport`].

mod balance;
mod cpus;
mod deadlines;
mod distribution;
pub(crate) mod energy;
mod frames;
mod frequency;
mod groups;
mod idle;
mod latency;
mod leaving;
mod lookup;
mod loops;
mod names;
mod oracle;
pub(crate) mod pids;
mod policies;
mod report;
mod signals;
mod tasks;
#[cfg(test)]
pub(crate) mod testbed;
mod throughput;

pub use balance::{Balance, BalanceReport};
pub use cpus::{CpuReport, Cpus, IdleReport};
pub use deadlines::{DeadlineReport, Deadlines};
pub use distribution::{Distribution, Summary};
pub use energy::{Energy, EnergyReport, unit_on};
pub use frames::{Frames, Mark, MarkReport, PaceReport, StageReport};
pub use frequency::{DomainReport, FreqResidency, Frequency};
pub use groups::{CgroupReport, Groups};
pub use idle::IdleAccuracy;
pub use latency::{BINS, Histogram, Latency, WakeupLatency, WuLat};
pub use leaving::Leaving;
pub use loops::RtappLoops;
pub use names::{Better, MetricInfo, better, info, is_neutral, list, offered};
pub use oracle::{IdleWakeups, Oracle, OracleReport};
pub use report::{Deadlock, GroupReport, MarkRate, RunMetrics, RunReport, TaskReport};
pub use signals::{FollowReport, Signals, SignalsReport};
pub use tasks::{TaskTotals, Tasks};
pub use throughput::Throughput;

use policies::Policies;
use wattif_model::platform::Platform;
use wattif_model::run::RunSpec;
use wattif_model::trace::{Event, Interest, Observer, ThreadInfo};
use wattif_model::workload::GroupSpec;
use wattif_model::{CpuId, Ns, Pid};

/// All metrics of a run. Give it to the runner as an observer, then ask for the report.
pub struct Metrics {
    wakeup: WakeupLatency,
    wu_lat: WuLat,
    tasks: Tasks,
    cpus: Cpus,
    frequency: Frequency,
    energy: Energy,
    frames: Frames,
    deadlines: Deadlines,
    throughput: Throughput,
    balance: Balance,
    oracle: Oracle,
    groups: Groups,
    signals: Signals,
    policies: Policies,
    end: Ns,
}

impl Metrics {
    /// For a run of `spec`, which [`RunSpec::check`] accepts: of another it may panic, and there is nothing to measure.
    pub fn new(spec: &RunSpec) -> Metrics {
        let groups = Groups::new(spec.platform.nr_cpus(), &spec.workload.groups);
        let devices: Vec<_> = spec.workload.devices.iter().map(|d| d.name.clone()).collect();
        let frames = Frames::new(&spec.workload.marks, &spec.workload.mark_periods, &devices);
        let signals = Signals::new(spec.workload.follow_signals);
        let policies = Policies::new(&spec.workload.tasks);
        let balance = Balance::of_run(&spec.platform);
        let of_platform = Metrics::for_trace(&spec.platform, &spec.workload.marks);
        Metrics { balance, groups, frames, signals, policies, ..of_platform }
    }
    /// For events of `platform` whose marks are called `marks`.
    pub fn for_trace(platform: &Platform, marks: &[String]) -> Metrics {
        Metrics {
            wakeup: WakeupLatency::default(),
            wu_lat: WuLat::default(),
            tasks: Tasks::new(platform.nr_cpus()),
            cpus: Cpus::new(platform),
            frequency: Frequency::new(platform),
            energy: Energy::new(platform),
            frames: Frames::new(marks, &[], &[]),
            deadlines: Deadlines::default(),
            throughput: Throughput::new(platform),
            balance: Balance::new(platform),
            oracle: Oracle::new(platform),
            groups: Groups::default(),
            signals: Signals::default(),
            policies: Policies::default(),
            end: Ns::ZERO,
        }
    }
    /// Of these groups as well, the root first.
    pub fn with_groups(mut self, nr_cpus: usize, groups: &[GroupSpec]) -> Metrics {
        self.groups = Groups::new(nr_cpus, groups);
        self
    }
}

impl Observer for Metrics {
    fn interest(&self) -> Interest {
        let all = Interest::SCHED
            .and(Interest::IDLE)
            .and(Interest::FREQ)
            .and(Interest::POWER)
            .and(Interest::PROGRAM)
            .and(Interest::BALANCE)
            .and(Interest::GROUPS);
        let all = if self.signals.any() { all.and(Interest::SIGNALS) } else { all };
        if self.policies.any() { all.and(Interest::STEPS) } else { all }
    }
    fn thread(&mut self, thread: &ThreadInfo) {
        self.wakeup.thread(thread);
        self.wu_lat.thread(thread);
        self.tasks.thread(thread);
        self.deadlines.thread(thread);
        self.throughput.thread(thread);
        self.balance.thread(thread);
        self.policies.thread(thread);
        self.groups.thread(thread);
        if self.signals.any() {
            self.signals.thread(thread);
        }
    }
    fn ran_before(&mut self, cpu: CpuId, pid: Pid) {
        self.wakeup.ran_before(cpu, pid);
        self.tasks.ran_before(cpu, pid);
        self.throughput.ran_before(cpu, pid);
        self.groups.ran_before(cpu, pid);
        self.balance.ran_before(cpu, pid);
    }
    /// Events go only to those who look at them.
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        match event {
            Event::SchedSwitch { .. } => {
                self.wakeup.event(at, cpu, event);
                self.tasks.event(at, cpu, event);
                self.throughput.event(at, cpu, event);
                self.balance.event(at, cpu, event);
                if self.groups.any() {
                    self.groups.event(at, cpu, event);
                }
                if self.signals.any() {
                    self.signals.event(at, cpu, event);
                }
            }
            Event::SchedWaking { .. } => {
                self.wakeup.event(at, cpu, event);
                if self.signals.any() {
                    self.signals.event(at, cpu, event);
                }
            }
            Event::PeltSe { .. } | Event::WaltDemand { .. } => self.signals.event(at, cpu, event),
            Event::SchedWakeup { .. } | Event::SchedWakeupNew { .. } | Event::SchedMigrateTask { .. } => {
                self.tasks.event(at, cpu, event);
                self.balance.event(at, cpu, event);
            }
            Event::BalancePass(_) | Event::BalanceMoved { .. } => self.balance.event(at, cpu, event),
            Event::CpuIdle { .. } => {
                self.cpus.event(at, cpu, event);
                self.frequency.event(at, cpu, event);
                self.oracle.event(at, cpu, event);
            }
            Event::CpuIdleMiss { .. } => self.cpus.event(at, cpu, event),
            Event::IdlePeriod(_) => self.oracle.event(at, cpu, event),
            Event::CpuFrequency { .. } => {
                self.frequency.event(at, cpu, event);
                self.energy.event(at, cpu, event);
                self.throughput.event(at, cpu, event);
                self.oracle.event(at, cpu, event);
            }
            Event::CpuPower { .. } => {
                self.energy.event(at, cpu, event);
                self.oracle.event(at, cpu, event);
            }
            Event::ClusterPower { .. } => self.energy.event(at, cpu, event),
            Event::RtappStats { .. } | Event::TimerWake { .. } => self.wu_lat.event(at, cpu, event),
            Event::CgroupAttachTask { .. } | Event::CfsUnthrottle { .. } | Event::CfsPeriod { .. } => {
                self.groups.event(at, cpu, event);
            }
            Event::ProgramStep { .. } => self.policies.event(event),
            Event::DeadlineJob { .. } => self.deadlines.event(at, cpu, event),
            Event::Mark { .. } | Event::DeviceDone { .. } => self.frames.event(at, cpu, event),
            _ => {}
        }
    }
    fn finish(&mut self, end: Ns) {
        self.end = end;
        self.tasks.finish(end);
        self.cpus.finish(end);
        self.frequency.finish(end);
        self.frames.finish(end);
        self.energy.finish(end);
        self.throughput.finish(end);
        self.balance.finish(end);
        self.groups.finish(end);
    }
}
