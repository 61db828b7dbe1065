//! Real-time and deadline tasks that wait go where they can run, and the timers of both classes (`balance_rt`,
//! `task_woken_rt`, `switched_from_rt`, `sched_rt_period_timer`, `dl_task_timer` …). Which task and where to is decided in
//! `class/rt.rs` and `class/dl_placement.rs`.

use super::Hrtimer;
use super::class::rt::{self, CapacityAware, Push};
use super::class::{deadline, dl_bandwidth, dl_placement, dl_server};
use super::core::{ClassId, IDLE};
use super::task::OnRq;
use crate::machine::timer::TimerKind;
use crate::simulation::{Kernel, Source};
use wattif_model::trace::{Event, Interest};
use wattif_model::workload::Policy;
use wattif_model::{CpuId, Pid};

impl Kernel<'_, '_> {
    // ---- push and pull -------------------------------------------------------------------------------------------

    /// A woken task that has to wait where it was put: somewhere else it may run at once (`task_woken_rt`, `task_woken_dl`).
    pub(crate) fn task_woken(&mut self, pid: Pid, cpu: CpuId, from: CpuId) {
        let class = self.class_id(pid);
        if class <= ClassId::Fair || self.s.rqs[cpu.at()].need_resched {
            return;
        }
        // 5.6 pushes for a task that is too large as well, not only for one that has to wait.
        let strict = self.s.rt_capacity_aware == CapacityAware::V5_6;
        if class == ClassId::Rt && strict && !rt::rt_task_fits_capacity(&self.s, pid, cpu) {
            return self.push_rt_tasks(cpu, from);
        }
        let (task, curr) = (&self.s.tasks[pid.at()], &self.s.tasks[self.s.rqs[cpu.at()].curr.at()]);
        if task.nr_cpus_allowed < 2 || curr.pid == IDLE || curr.pid == pid {
            return;
        }
        let stays = curr.nr_cpus_allowed < 2;
        if class == ClassId::Rt && curr.prio < 100 && (stays || curr.prio <= task.prio) {
            self.push_rt_tasks(cpu, from);
        } else if class == ClassId::Deadline && curr.is_dl() && (stays || task.dl.deadline >= curr.dl.deadline) {
            self.push_dl_tasks(cpu, from);
        }
    }

    /// Every real-time task that waits on `cpu` goes where it can run, until one cannot (`push_rt_tasks`).
    #[inline(never)]
    pub(crate) fn push_rt_tasks(&mut self, cpu: CpuId, from: CpuId) {
        while self.s.rqs[cpu.at()].rt.rt_nr_running >= self.s.rt_overload {
            let push = rt::push_rt_task(&mut self.s, cpu, from);
            if !self.push(push, cpu, from) {
                return;
            }
        }
    }

    /// The same for deadline tasks.
    #[inline(never)]
    pub(crate) fn push_dl_tasks(&mut self, cpu: CpuId, from: CpuId) {
        while self.s.rqs[cpu.at()].dl.dl_nr_running > 1 {
            let push = dl_placement::push_dl_task(&mut self.s, cpu, from);
            if !self.push(push, cpu, from) {
                return;
            }
        }
    }

    /// True if a task was moved.
    fn push(&mut self, push: Push, cpu: CpuId, from: CpuId) -> bool {
        match push {
            Push::Nothing => {}
            Push::Resched => self.resched(cpu, from),
            Push::Move(pid, to) => self.move_queued_task(pid, to, from),
        }
        matches!(push, Push::Move(..))
    }

    /// Before a pick: a CPU whose real-time or deadline task leaves looks for one that waits elsewhere and is more urgent
    /// than what the CPU has left.
    pub(crate) fn balance_dl_rt(&mut self, cpu: CpuId, prev: Pid) {
        let class = self.class_id(prev);
        if class <= ClassId::Fair {
            return;
        }
        let sleeps = self.s.tasks[prev.at()].on_rq != OnRq::Queued;
        if class == ClassId::Deadline && (sleeps || self.s.tasks[prev.at()].dl.throttled) {
            self.pull_dl_task(cpu);
        }
        // need_pull_rt_task: the CPU has nothing left that is as urgent.
        let less_urgent = rt::highest_prio(&self.s.rqs[cpu.at()]) > self.s.tasks[prev.at()].prio;
        if class == ClassId::Deadline || (sleeps && less_urgent) {
            self.pull_rt_task(cpu);
        }
    }

    /// A task's class or priority changed on `cpu`, from `before`: it may have to wait now, or others may go first.
    pub(crate) fn balance_rt_change(&mut self, pid: Pid, cpu: CpuId, from: CpuId, before: (ClassId, u8)) {
        let now = (self.class_id(pid), self.prio(pid));
        let waits = self.s.tasks[pid.at()].on_rq == OnRq::Queued && self.s.rqs[cpu.at()].curr != pid;
        if before.0 == ClassId::Deadline && now.0 < before.0 && self.s.rqs[cpu.at()].dl.dl_nr_running == 0 {
            self.pull_dl_task(cpu);
        }
        if before.0 == ClassId::Rt && (now.0 < ClassId::Rt || (now.0 == ClassId::Rt && now.1 > before.1)) {
            self.pull_rt_task(cpu);
        }
        match now.0 {
            ClassId::Rt if before.0 != ClassId::Rt && waits => self.push_rt_tasks(cpu, from),
            ClassId::Deadline if before.0 != ClassId::Deadline && waits => self.push_dl_tasks(cpu, from),
            _ => {}
        }
    }

    #[inline(never)]
    fn pull_rt_task(&mut self, cpu: CpuId) {
        if self.s.rd.rto_count == 0 {
            return;
        }
        if self.s.features.rt_push_ipi {
            return self.tell_cpu_to_push(cpu);
        }
        for src in 0..self.s.nr_cpus() as u32 {
            if let Some(pid) = rt::pull_rt_task(&self.s, cpu, CpuId(src)) {
                self.move_queued_task(pid, cpu, cpu);
            }
        }
    }

    /// With `RT_PUSH_IPI` (4.1): somebody else has real-time tasks that wait. One interrupt goes round twice, from the first such CPU upwards;
    /// who asks meanwhile makes it go round once more.
    fn tell_cpu_to_push(&mut self, cpu: CpuId) {
        let mut all = (0..self.s.nr_cpus() as u32).map(CpuId);
        if !all.any(|c| c != cpu && rt::is_overloaded(&self.s, c)) {
            return;
        }
        self.s.rd.rto_again = true;
        if self.s.rd.rto_cpu.is_none() {
            self.rto_next_cpu(CpuId(0), cpu);
        }
    }

    /// `rto_next_cpu`: the interrupt goes on to the next overloaded CPU from `first` on, or round again, or ends.
    fn rto_next_cpu(&mut self, first: CpuId, from: CpuId) {
        let s = &self.s;
        let next = |first: CpuId| (first.0..s.nr_cpus() as u32).map(CpuId).find(|&c| rt::is_overloaded(s, c));
        let mut target = next(first);
        if target.is_none() && s.rd.rto_again {
            target = next(CpuId(0));
            self.s.rd.rto_again = false;
        }
        self.s.rd.rto_cpu = target;
        let Some(target) = target else { return };
        let at = self.s.now + self.cpus[from.at()].cost_ns + self.m.platform.costs.ipi_ns;
        match self.m.cpus[target.at()].sleep {
            Some(_) => self.interrupt_at(target, at),
            None => self.arm_first(Source::Ipi(target), at),
        }
    }

    /// `rto_push_irq_work_func`: that interrupt has come to this CPU, which pushes what it can.
    #[inline]
    pub(crate) fn rto_push(&mut self, cpu: CpuId) {
        if self.s.rd.rto_cpu == Some(cpu) {
            self.push_rt_tasks(cpu, cpu);
            self.rto_next_cpu(CpuId(cpu.0 + 1), cpu);
        }
    }

    #[inline(never)]
    fn pull_dl_task(&mut self, cpu: CpuId) {
        for src in 0..self.s.nr_cpus() as u32 {
            if let Some(pid) = dl_placement::pull_dl_task(&self.s, cpu, CpuId(src)) {
                self.move_queued_task(pid, cpu, cpu);
            }
        }
    }

    // ---- timers --------------------------------------------------------------------------------------------------

    /// Arms and cancels what the classes asked for.
    #[inline]
    pub(crate) fn program_hrtimers(&mut self) {
        if !self.s.hrtimers.is_empty() {
            self.program_requested_hrtimers();
        }
    }

    #[cold]
    fn program_requested_hrtimers(&mut self) {
        let mut requests = std::mem::take(&mut self.s.hrtimers);
        for request in requests.drain(..) {
            let stopper = self.cpus[request.cpu.at()].stop.pid;
            let (pid, kind) = match request.timer {
                Hrtimer::Replenish(pid) => (pid, TimerKind::Replenish),
                Hrtimer::Inactive(pid) => (pid, TimerKind::Inactive),
                Hrtimer::Server => (stopper, TimerKind::Replenish),
                Hrtimer::Hrtick => (stopper, TimerKind::Cpu),
                Hrtimer::RtPeriod => (IDLE, TimerKind::Cpu),
            };
            let was_on = self.m.timers.cpu_of(pid, kind);
            let cancelled = self.m.timers.cancel(pid, kind);
            if let Some(at) = request.at {
                self.m.timers.arm(request.cpu, pid, kind, at, at);
                self.program_timer(request.cpu);
            }
            if cancelled && (request.at.is_none() || was_on != request.cpu) {
                self.program_timer(was_on);
            }
        }
        self.s.hrtimers = requests;
    }

    /// The budget of a deadline task is full again (`dl_task_timer`), or it is the turn of a CPU's fair server.
    #[inline(never)]
    pub(crate) fn replenish(&mut self, pid: Pid, from: CpuId) {
        let cpu = self.s.tasks[pid.at()].cpu;
        self.update_rq_clock(cpu);
        self.s.signal_versions[cpu.at()] += 1;
        if self.s.tasks[pid.at()].stopper {
            return self.dl_server_timer(cpu, from);
        }
        if deadline::dl_task_timer(&mut self.s, cpu, pid) {
            self.check_preempt(pid, cpu, from, false);
            self.push_dl_tasks(cpu, from);
        }
    }

    fn dl_server_timer(&mut self, cpu: CpuId, from: CpuId) {
        let curr = self.class_id(self.s.rqs[cpu.at()].curr);
        if curr == ClassId::Fair {
            dl_server::dl_server_update(&mut self.s, cpu);
        }
        let rq = &self.s.rqs[cpu.at()];
        let starved = rq.rt.rt_nr_running + rq.dl.dl_nr_running > 0 || curr == ClassId::Deadline;
        let has_tasks = self.s.cfs[cpu.at()].h_nr_running > 0;
        if dl_server::dl_server_timer(&mut self.s, cpu, has_tasks, starved) {
            self.resched(cpu, from);
        }
    }

    /// The zero-lag time of a deadline task.
    #[inline(never)]
    pub(crate) fn inactive_task_timer(&mut self, pid: Pid) {
        let cpu = self.s.tasks[pid.at()].cpu;
        self.update_rq_clock(cpu);
        self.s.signal_versions[cpu.at()] += 1;
        dl_bandwidth::inactive_task_timer(&mut self.s, cpu, pid);
        self.cpufreq_update(cpu);
    }

    /// `HRTICK_DL`: the running task is looked at as by a tick.
    #[inline(never)]
    pub(crate) fn hrtick(&mut self, cpu: CpuId) {
        self.update_rq_clock(cpu);
        let curr = self.s.rqs[cpu.at()].curr;
        if self.class_id(curr) == ClassId::Deadline {
            self.dl.task_tick(&mut self.s, cpu, curr);
        }
    }

    /// `sched_rt_period_timer`: real-time periods have ended on all CPUs. Stops where nobody used any.
    #[inline(never)]
    pub(crate) fn sched_rt_period_timer(&mut self, from: CpuId) {
        let Some((bandwidth, expires)) = self.s.rd.rt_bandwidth.zip(self.s.rd.rt_period_expires) else { return };
        let mut idle = true;
        for cpu in (0..self.s.nr_cpus() as u32).map(CpuId) {
            if self.class_id(self.s.rqs[cpu.at()].curr) == ClassId::Rt {
                self.update_rq_clock(cpu);
            }
            let rt = &self.s.rqs[cpu.at()].rt;
            if rt.rt_time == 0 && rt.rt_nr_running == 0 {
                continue;
            }
            if rt::do_sched_rt_period_timer(&mut self.s, cpu, bandwidth) {
                self.s.signal_versions[cpu.at()] += 1;
                self.cpufreq_update(cpu);
                self.resched(cpu, from);
            }
            let rt = &self.s.rqs[cpu.at()].rt;
            idle &= rt.rt_time == 0 && rt.rt_nr_running == 0;
        }
        self.s.rd.rt_period_expires = (!idle).then_some(expires + bandwidth.period_ns);
        if let Some(at) = self.s.rd.rt_period_expires {
            self.s.start_hrtimer(from, Hrtimer::RtPeriod, at);
        }
    }

    // ---- jobs ----------------------------------------------------------------------------------------------------

    /// The running deadline task is done with a job: it sleeps, ends or yields. Says how late.
    #[inline]
    pub(crate) fn end_dl_job(&mut self, cpu: CpuId, pid: Pid) {
        if self.s.tasks[pid.at()].policy == Policy::Deadline {
            self.end_job(cpu, pid);
        }
    }

    fn end_job(&mut self, cpu: CpuId, pid: Pid) {
        let dl = &mut self.s.tasks[pid.at()].dl;
        if let Some(release) = dl.release.take() {
            let lateness_ns = self.s.now as i64 - (release + dl.dl_deadline) as i64;
            self.out.tell(self.s.now, cpu, Interest::PROGRAM, Event::DeadlineJob { pid, lateness_ns });
        }
    }

    /// The run ends: a job that is late by now has missed its deadline.
    pub(crate) fn late_jobs(&mut self) {
        for i in 0..self.s.tasks.len() {
            let (task, now) = (&self.s.tasks[i], self.s.now);
            let late = task.dl.release.is_some_and(|release| release + task.dl.dl_deadline < now);
            if late && task.policy == Policy::Deadline {
                self.end_job(task.cpu, task.pid);
            }
        }
    }
}
