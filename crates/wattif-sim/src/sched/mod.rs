//! The scheduler, in the shape of the kernel's `kernel/sched`.
//!
//! [`Sched`] is the kernel's state: tasks, run queues, domains. Policies read it (they call it [`View`]); scheduling classes
//! change their own queues in it; only `core` moves tasks between CPUs and switches them.

pub mod balance;
pub mod class;
pub mod features;
pub mod load;
pub mod placement;
pub mod rq;
pub mod task;
pub mod topology;

use features::Features;
use rq::{CfsRq, Rq};
use task::{SchedEntity, Task};
use topology::Topology;
use wattif_model::{CpuId, Pid};

/// The state of the kernel under test.
#[derive(Debug)]
pub struct Sched {
    /// `sched_clock()`, ns since the start of the run.
    pub now: u64,
    /// Every thread, by pid; 0 is the idle task.
    pub tasks: Vec<Task>,
    /// Scheduling entities: those of groups first (`group * nr_cpus + cpu`), then one per task from [`Sched::se_of`].
    pub se: Vec<SchedEntity>,
    /// One run queue per CPU.
    pub rqs: Vec<Rq>,
    /// Fair queues, `group * nr_cpus + cpu`; the first `nr_cpus` are the root queues, so that a CPU's is `cfs[cpu]`.
    pub cfs: Vec<CfsRq>,
    /// Groups; 0 is the root.
    pub groups: Vec<task::TaskGroup>,
    /// Scheduling domains and groups of CPUs.
    pub topology: Topology,
    /// Scheduler features (`/sys/kernel/debug/sched/features`).
    pub features: Features,
    /// Length of a tick, ns.
    pub tick_ns: u64,
    /// System-wide overload and energy state (`struct root_domain`).
    pub rd: rq::RootDomain,
}

/// What a policy sees: everything, to read.
pub type View = Sched;

impl Sched {
    /// Number of CPUs.
    #[inline]
    pub fn nr_cpus(&self) -> usize {
        self.rqs.len()
    }
    /// The entity of a task.
    #[inline]
    pub fn se_of(&self, pid: Pid) -> usize {
        self.groups.len() * self.rqs.len() + pid.at()
    }
    /// The task of a task entity.
    #[inline]
    pub fn task_of(&self, se: usize) -> Option<Pid> {
        se.checked_sub(self.groups.len() * self.rqs.len()).map(|p| Pid(p as u32))
    }
    /// The fair queue of a group on a CPU.
    #[inline]
    pub fn cfs_of(&self, group: u32, cpu: CpuId) -> usize {
        group as usize * self.rqs.len() + cpu.at()
    }
    /// `idle_cpu()`: the idle task runs, nothing is queued.
    #[inline]
    pub fn idle_cpu(&self, cpu: CpuId) -> bool {
        let rq = &self.rqs[cpu.at()];
        rq.curr == Pid(0) && rq.nr_running == 0
    }
    /// `available_idle_cpu()`: idle (no vCPU preemption is modelled).
    #[inline]
    pub fn available_idle_cpu(&self, cpu: CpuId) -> bool {
        self.idle_cpu(cpu)
    }
    /// `sched_idle_cpu()`: at least one task, and every runnable task is of SCHED_IDLE.
    #[inline]
    pub fn sched_idle_cpu(&self, cpu: CpuId) -> bool {
        let rq = &self.rqs[cpu.at()];
        rq.nr_running > 0 && rq.nr_running == self.cfs[cpu.at()].idle_h_nr_running
    }
}
