//! Kernel workers (`kworker/N:1`), one per CPU: they do what an update of utilisation, with its queue locked, may not.
//!
//! Only the governors that sample need them. An update that finds a sample due raises `irq_work` on the CPU that executes
//! it; its interrupt queues work to the worker of that CPU (`schedule_work_on`), a fair thread like any other, which takes
//! the sample when it gets the CPU. Until it has, nobody else asks for one. Without such a governor there are no workers,
//! and nothing is checked.

use super::task::State;
use crate::machine::cpu::Segment;
use crate::simulation::Kernel;
use std::collections::VecDeque;
use wattif_model::run::RunError;
use wattif_model::trace::ThreadInfo;
use wattif_model::units::CAPACITY_SCALE;
use wattif_model::workload::SchedAttr;
use wattif_model::{CpuId, CpuSet, DomainId, Pid};

/// The workers' side of sampling governors.
#[derive(Debug, Default)]
pub struct Workers {
    /// By domain: a sample is asked for and not yet taken (`work_in_progress`). Empty: no governor samples.
    in_progress: Vec<bool>,
    /// `irq_work` raised and not yet run: on which CPU, for which domain.
    raised: Vec<(CpuId, DomainId)>,
    /// By CPU.
    workers: Vec<Worker>,
}

/// One worker.
#[derive(Debug, Default)]
struct Worker {
    pid: Pid,
    work: VecDeque<DomainId>,
}

impl Workers {
    /// Do the governors sample in workers?
    #[inline]
    pub(crate) fn exist(&self) -> bool {
        !self.in_progress.is_empty()
    }
    /// Is `irq_work` raised?
    #[inline]
    pub(crate) fn raised(&self) -> bool {
        !self.raised.is_empty()
    }
}

impl Kernel<'_, '_> {
    /// The workers, if the governors need them.
    pub(crate) fn create_workers(&mut self) -> Result<(), RunError> {
        if !self.cpufreq.iter().all(|g| g.sampling_interval_ns().is_some()) {
            return Ok(());
        }
        self.workers.in_progress = vec![false; self.cpufreq.len()];
        for cpu in 0..self.s.nr_cpus() as u32 {
            let (pid, attr) = (Pid(self.s.tasks.len() as u32), SchedAttr::default());
            self.add_task(pid, &attr, CpuSet::one(CpuId(cpu)), 0, CpuId(cpu))?;
            let task = &mut self.s.tasks[pid.at()];
            (task.per_cpu_kthread, task.state) = (true, State::Sleeping);
            self.workers.workers.push(Worker { pid, work: VecDeque::new() });
            let (comm, task) = (format!("kworker/{cpu}:1"), "kworker".to_string());
            let policy = attr.policy.name();
            // Its name tells its CPU.
            self.out.thread(&ThreadInfo { pid, comm, task, policy, ..ThreadInfo::default() });
        }
        Ok(())
    }

    /// `dbs_update_util_handler`: the utilisation of `cpu` changed; a sample that is due is asked for on the CPU that executes.
    #[doc(alias = "dbs_update_util_handler")]
    pub(crate) fn sample_when_due(&mut self, domain: DomainId) {
        let here = self.executing();
        // The queue's clock is read where the handler has come to: so a tick on a busy CPU and one on an idle CPU differ.
        let clock = self.s.now + self.cpus[here.at()].cost_ns;
        if self.workers.in_progress[domain.at()] || !self.cpufreq[domain.at()].sample_due(clock) {
            return;
        }
        self.workers.in_progress[domain.at()] = true;
        self.workers.raised.push((here, domain));
    }

    /// `dbs_irq_work`: what was raised is queued to the workers, woken on `from`.
    #[doc(alias = "dbs_irq_work")]
    pub(crate) fn run_irq_work(&mut self, from: CpuId) {
        while let Some((cpu, domain)) = self.workers.raised.pop() {
            let worker = &mut self.workers.workers[cpu.at()];
            let (pid, sleeps) = (worker.pid, worker.work.is_empty());
            worker.work.push_back(domain);
            if sleeps {
                // One path of the kernel's code, and at least something: a segment of nothing would never be done.
                let path = self.m.platform.costs.wakeup_ns;
                self.m.give(pid, Segment::Insensitive((path * CAPACITY_SCALE).max(1)));
                self.try_to_wake_up(pid, from, false);
            }
        }
    }

    /// `irq_work` that was raised outside interrupts is one of its own, now: on the thread that came next, or on a CPU that has
    /// gone idle. FIDELITY(ondemand-worker): in the kernel such a CPU does not get as far as its idle state.
    pub(crate) fn irq_work_interrupt(&mut self) {
        let (cpu, _) = self.workers.raised[0];
        if self.m.cpus[cpu.at()].sleep.is_some() {
            return self.run_irq_work(cpu);
        }
        self.irq_enter(cpu, 0);
        self.irq_exit(cpu);
    }

    /// Is this thread the worker of the CPU?
    #[inline]
    pub(crate) fn is_worker(&self, cpu: CpuId, pid: Pid) -> bool {
        self.workers.workers.get(cpu.at()).is_some_and(|w| w.pid == pid)
    }

    /// `dbs_work_handler`: the worker has the CPU and spent its path length; it takes the samples and sleeps.
    #[doc(alias = "dbs_work_handler")]
    #[inline(never)]
    pub(crate) fn worker_step(&mut self, cpu: CpuId) {
        while let Some(domain) = self.workers.workers[cpu.at()].work.pop_front() {
            let view = super::view::Signals { s: &self.s, cpus: &self.cpus };
            if let Some(khz) = self.cpufreq[domain.at()].sample(self.s.now, &view) {
                self.request_khz(domain, cpu, khz);
            }
            self.workers.in_progress[domain.at()] = false;
        }
        let pid = self.workers.workers[cpu.at()].pid;
        self.block(cpu, pid, State::Sleeping);
    }
}
