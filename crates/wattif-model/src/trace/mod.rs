//! What a run says: tracepoints with the kernel's names and fields, our decision events, and who listens.

pub mod columns;
mod events;
mod recording;

pub use events::*;
pub use recording::*;

use crate::ids::{CpuId, CpuSet, Pid};
use crate::platform::Platform;
use crate::units::{Fj, Ns};
use crate::workload::{Policy, SchedAttr};

/// Which families of events an observer wants; a record nobody wants is never built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest(pub u32);

impl Interest {
    /// `sched_*` tracepoints.
    pub const SCHED: Interest = Interest(1);
    /// `cpu_idle` and actual entry and exit.
    pub const IDLE: Interest = Interest(2);
    /// `cpu_frequency`.
    pub const FREQ: Interest = Interest(4);
    /// Power levels of CPUs and clusters, for energy.
    pub const POWER: Interest = Interest(8);
    /// Log lines, marks and timer wake-ups of programs.
    pub const PROGRAM: Interest = Interest(16);
    /// Placement, frequency and idle decisions with their inputs.
    pub const DECISIONS: Interest = Interest(32);
    /// Load-tracking signals.
    pub const SIGNALS: Interest = Interest(64);
    /// Groups: who is in which, throttling.
    pub const GROUPS: Interest = Interest(128);
    /// Balance passes with their cost.
    pub const BALANCE: Interest = Interest(256);
    /// Every step of every program.
    pub const STEPS: Interest = Interest(512);
    /// Everything.
    pub const ALL: Interest = Interest(1023);

    /// Both.
    pub const fn and(self, other: Interest) -> Interest {
        Interest(self.0 | other.0)
    }
    /// Is any family of `other` wanted?
    pub const fn wants(self, other: Interest) -> bool {
        self.0 & other.0 != 0
    }
    /// The family that events of a name, such as `cpu_idle`, are in.
    pub fn of(event: &str) -> Interest {
        match event {
            "cpu_idle" | "cpu_idle_miss" | "tick_stop" => Interest::IDLE,
            "cpu_frequency" => Interest::FREQ,
            "wattif_energy_candidate"
            | "wattif_placement"
            | "wattif_frequency"
            | "wattif_idle"
            | "wattif_idle_weights"
            | "wattif_balance" => Interest::DECISIONS,
            "pelt_cfs" | "pelt_se" | "wattif_walt_demand" => Interest::SIGNALS,
            "wattif_cfs_throttle" | "wattif_cfs_unthrottle" | "wattif_cfs_period" | "cgroup_attach_task" => {
                Interest::GROUPS
            }
            name if name.starts_with("wattif") => Interest::PROGRAM,
            _ => Interest::SCHED,
        }
    }
}

/// A thread, as observers learn of it before its first event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadInfo {
    /// Its id.
    pub pid: Pid,
    /// Name as in a trace, such as `cfs_thread-0`.
    pub comm: String,
    /// The task of the workload it is an instance of, such as `cfs_thread`; housekeeping threads have their own.
    pub task: String,
    /// `SCHED_OTHER` …
    pub policy: &'static str,
    /// Part of the workload (false: housekeeping).
    pub workload: bool,
    /// Group it begins in, by its place among those of the workload; 0: the root.
    pub group: u32,
    /// Of SCHED_DEADLINE.
    pub dl: Option<DlParams>,
    /// Of any policy.
    pub asked: Asked,
    /// CPUs that it may use when it begins, of the workload's threads; `None`: all.
    pub cpus: Option<CpuSet>,
}

/// What a thread asked for with `sched_setattr` beside policy and priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Custom slice of a fair thread, 0 for the default.
    pub slice: Ns,
    /// `uclamp_min`, 0..=1024; `None`: the default.
    pub util_min: Option<u16>,
    /// `uclamp_max`, 0..=1024; `None`: the default.
    pub util_max: Option<u16>,
}

impl Asked {
    /// Of these attributes.
    pub fn of(attr: &SchedAttr) -> Asked {
        let SchedAttr { policy, runtime, util_min, util_max, .. } = *attr;
        Asked { slice: if policy.is_fair() { runtime } else { Ns::ZERO }, util_min, util_max }
    }
}

/// What a thread of SCHED_DEADLINE asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DlParams {
    /// Budget.
    pub runtime: Ns,
    /// Relative deadline.
    pub deadline: Ns,
    /// Period.
    pub period: Ns,
}

impl DlParams {
    /// Of these attributes, if they are of SCHED_DEADLINE.
    pub fn of(attr: &SchedAttr) -> Option<DlParams> {
        let SchedAttr { runtime, deadline, period, .. } = *attr;
        (attr.policy == Policy::Deadline).then_some(DlParams { runtime, deadline, period })
    }
}

/// Listens to a run. All methods but [`Observer::event`] have empty defaults.
pub trait Observer {
    /// Families wanted; asked once before the run.
    fn interest(&self) -> Interest;
    /// The run begins at time 0 with every CPU idle at its lowest operating point unless events say otherwise.
    fn start(&mut self, _platform: &Platform) {}
    /// A thread exists from now on.
    fn thread(&mut self, _thread: &ThreadInfo) {}
    /// A thread has been on `cpu` since before time 0, where a recording begins: no event says that it was switched in.
    fn ran_before(&mut self, _cpu: CpuId, _pid: Pid) {}
    /// Something happened at `at` on `cpu`.
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event);
    /// The run ended.
    fn finish(&mut self, _end: Ns) {}
}

/// Energy by place; sums exactly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnergyTotals {
    /// Per CPU.
    pub cpus: Vec<Fj>,
    /// Per cluster.
    pub clusters: Vec<Fj>,
    /// Rest of the system.
    pub base: Fj,
}

impl EnergyTotals {
    /// Everything.
    pub fn total(&self) -> Fj {
        self.cpus.iter().chain(&self.clusters).fold(self.base, |a, &b| a + b)
    }
}
