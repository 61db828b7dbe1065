//! When real-time tasks are pushed and pulled (`balance_rt`, `task_woken_rt`, `switched_from_rt` …). Which task and where to
//! is decided in `class/rt.rs`.

use super::class::rt;
use super::core::ClassId;
use super::task::OnRq;
use crate::simulation::Kernel;
use wattif_model::{CpuId, Pid};

impl Kernel<'_, '_> {
    /// A woken real-time task that has to wait where it was put: somewhere else it may run at once.
    pub(crate) fn task_woken_rt(&mut self, pid: Pid, cpu: CpuId, from: CpuId) {
        let rq = &self.s.rqs[cpu.at()];
        if rq.rt.rt_nr_running > 0 && self.class_id(pid) == ClassId::Rt && !rq.need_resched {
            self.push_rt_tasks(cpu, from);
        }
    }

    /// Every task that waits behind a more urgent one on `cpu` goes where it can run (`push_rt_tasks`).
    pub(crate) fn push_rt_tasks(&mut self, cpu: CpuId, from: CpuId) {
        while self.s.rqs[cpu.at()].rt.rt_nr_running > 0 && self.s.nr_cpus() > 1 {
            let Some((pid, to)) = rt::push_rt_task(&self.s, cpu) else { return };
            self.move_queued_task(pid, to, from);
        }
    }

    /// Before a pick: a CPU whose real-time task leaves looks for one that waits elsewhere and is more urgent than what the
    /// CPU has left.
    pub(crate) fn balance_rt(&mut self, cpu: CpuId, prev: Pid) {
        let leaves = match self.class_id(prev) {
            ClassId::Rt | ClassId::Stop => self.s.tasks[prev.at()].on_rq != OnRq::Queued,
            // Throttled ones stay queued; `beats` looks at those that are not.
            ClassId::Deadline => true,
            ClassId::Fair | ClassId::Idle => false,
        };
        if leaves {
            self.pull_rt_task(cpu);
        }
    }

    /// A task's class or priority changed on `cpu`, from `before`: it may have to wait now, or others may go first.
    pub(crate) fn balance_rt_change(&mut self, pid: Pid, cpu: CpuId, from: CpuId, before: (ClassId, u8)) {
        let now = (self.class_id(pid), self.prio(pid));
        if before.0 == ClassId::Rt && (now.0 < ClassId::Rt || now.1 > before.1) {
            self.pull_rt_task(cpu);
        }
        if now.0 == ClassId::Rt && before.0 != ClassId::Rt && self.s.rqs[cpu.at()].curr != pid {
            self.push_rt_tasks(cpu, from);
        }
    }

    fn pull_rt_task(&mut self, cpu: CpuId) {
        if let Some((pid, _)) = rt::pull_rt_task(&self.s, cpu) {
            self.move_queued_task(pid, cpu, cpu);
        }
    }
}
