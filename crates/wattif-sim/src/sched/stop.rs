//! The stop class: one thread per CPU (`migration/N`) that comes before every other and is never preempted. It pushes
//! running tasks away: for active balance, and when a running task may no longer be where it is.

use super::core::IDLE;
use super::task::{OnRq, State};
use crate::machine::cpu::Segment;
use crate::simulation::Kernel;
use std::collections::VecDeque;
use wattif_model::trace::Event;
use wattif_model::units::CAPACITY_SCALE;
use wattif_model::{CpuId, Pid};

/// The stopper of a CPU.
#[derive(Debug, Default)]
pub struct Stopper {
    /// Its thread.
    pub pid: Pid,
    /// It has work.
    pub runnable: bool,
    work: VecDeque<Work>,
}

/// What a stopper is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Push one task to `rq.push_cpu` (`active_load_balance_cpu_stop`).
    ActiveBalance,
    /// Move this task to that CPU (`migration_cpu_stop`).
    Migrate(Pid, CpuId),
}

impl Kernel<'_, '_> {
    /// Gives the stopper of `cpu` work (`stop_one_cpu_nowait`).
    pub(crate) fn stop_one_cpu(&mut self, cpu: CpuId, work: Work, from: CpuId) {
        self.cpus[cpu.at()].stop.work.push_back(work);
        if !self.cpus[cpu.at()].stop.runnable {
            self.cpus[cpu.at()].stop.runnable = true;
            let pid = self.cpus[cpu.at()].stop.pid;
            self.update_rq_clock(cpu);
            self.s.rqs[cpu.at()].nr_running += 1;
            self.s.signal_versions[cpu.at()] += 1;
            let task = &mut self.s.tasks[pid.at()];
            (task.state, task.on_rq) = (State::Running, OnRq::Queued);
            // One path of the kernel's migration code; it does not depend on the clock of the CPU.
            let path = self.m.platform.costs.wakeup_ns;
            // At least something: a segment of nothing would never be done.
            self.m.give(pid, Segment::Insensitive((path * CAPACITY_SCALE).max(1)));
            let (prio, in_irq) = (self.prio(pid), self.cpus[from.at()].in_irq);
            self.trace_sched(from, Event::SchedWaking { pid, prio, target_cpu: cpu, in_irq });
            self.resched(cpu, from);
            self.trace_sched(from, Event::SchedWakeup { pid, prio, target_cpu: cpu, in_irq });
        }
    }

    /// The stopper thread of a CPU, if it runs.
    pub(crate) fn stopper_of(&self, cpu: CpuId) -> Option<Pid> {
        let stop = &self.cpus[cpu.at()].stop;
        (stop.pid != IDLE).then_some(stop.pid)
    }

    /// The stopper has the CPU and spent its path length: do the work, then sleep.
    #[inline(never)]
    pub(crate) fn stopper_step(&mut self, cpu: CpuId) {
        while let Some(work) = self.cpus[cpu.at()].stop.work.pop_front() {
            match work {
                Work::ActiveBalance => self.active_balance(cpu),
                Work::Migrate(pid, dest) => self.migration_cpu_stop(cpu, pid, dest),
            }
        }
        let pid = self.cpus[cpu.at()].stop.pid;
        self.cpus[cpu.at()].stop.runnable = false;
        self.s.rqs[cpu.at()].nr_running -= 1;
        self.s.signal_versions[cpu.at()] += 1;
        let task = &mut self.s.tasks[pid.at()];
        (task.state, task.on_rq) = (State::Sleeping, OnRq::No);
        self.schedule(cpu);
    }
}
