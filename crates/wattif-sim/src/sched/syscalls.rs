//! What threads ask for: to sleep, to wait, to wake others, to change their attributes, to create threads, to end.

use super::boot::{OTHER_CPUS, is_elsewhere, normal_prio};
use super::class::{Dequeue, Enqueue, dl_bandwidth, fair};
use super::core::{ClassId, IDLE, class};
use super::rq::{Distribute, cpumask_any};
use super::stop::Work;
use super::task::{OnRq, State, Task};
use crate::machine::cpu::Segment;
use crate::machine::program::{Boost, Effects, Fork, Step};
use crate::machine::timer::TimerKind;
use crate::simulation::{Kernel, Source};
use wattif_model::run::RunError;
use wattif_model::trace::{Event, IdleCause, Interest};
use wattif_model::workload::Policy;
use wattif_model::{CpuId, CpuSet, Ns, Pid};

impl Kernel<'_, '_> {
    /// The program of the running thread goes on until it needs time, waits, or ends.
    pub(crate) fn run_program(&mut self, cpu: CpuId, pid: Pid) {
        self.cpus[cpu.at()].cost_ns = 0;
        loop {
            let step = self.programs.resume(pid, Ns(self.s.now), &mut self.effects);
            self.apply_effects(cpu);
            match step {
                Step::Execute(segment) => return self.go_on(cpu, pid, segment),
                Step::Sleep { until } => {
                    self.arm_sleep(cpu, pid, until.0);
                    return self.block(cpu, pid, State::Sleeping);
                }
                Step::Block { on } => {
                    let state = if on.is_io() { State::DiskSleep } else { State::Sleeping };
                    return self.block(cpu, pid, state);
                }
                Step::Yield => return self.sched_yield(cpu, pid),
                Step::Called => {}
                Step::SetAttr => self.sched_setattr(cpu, pid),
                Step::SetGroup => self.sched_move_task(pid),
                Step::SetAffinity => self.sched_setaffinity(cpu, pid),
                Step::Exit => return self.exit(cpu, pid),
                Step::Fail => self.error = self.programs.failure().cloned(),
            }
            if self.error.is_some() {
                return;
            }
            // Back to user space: whoever is to have the CPU has it before the next op, and that begins when this one is paid for. After
            // a change of affinity the program goes on where the stopper puts the thread.
            let away = !self.s.tasks[pid.at()].cpus.contains(cpu);
            if away || self.s.rqs[cpu.at()].need_resched || self.cpus[cpu.at()].cost_ns > 0 {
                return self.go_on(cpu, pid, Segment::Done);
            }
        }
    }

    /// The thread executes, or whoever is to have the CPU instead; what its calls cost comes first.
    fn go_on(&mut self, cpu: CpuId, pid: Pid, segment: Segment) {
        self.m.give(pid, segment);
        if self.s.rqs[cpu.at()].need_resched {
            self.m.account(cpu, self.s.now);
            return self.schedule(cpu);
        }
        let cost = std::mem::take(&mut self.cpus[cpu.at()].cost_ns);
        self.m.cpus[cpu.at()].stall_ns += cost;
        self.arm_step(cpu);
    }

    /// A timer on this CPU ends the sleep; fair tasks allow it some slack.
    pub(crate) fn arm_sleep(&mut self, cpu: CpuId, pid: Pid, until: u64) {
        let slack = if self.class_id(pid) == ClassId::Fair { self.m.platform.timer_slack_ns } else { 0 };
        self.s.tasks[pid.at()].dl.next_release = Some(until);
        self.m.timers.arm(cpu, pid, TimerKind::Sleep, until, until.saturating_add(slack));
        self.program_timer(cpu);
    }

    /// Requests have been served: the devices' interrupt comes to the first CPU.
    #[inline(never)]
    pub(crate) fn device_interrupt(&mut self) {
        let cpu = CpuId(0);
        if self.m.must_wake(cpu) {
            self.cpus[cpu.at()].device_pending = true;
            return self.wake_cpu(cpu, IdleCause::Device);
        }
        self.irq_enter(cpu, self.m.platform.costs.timer_irq_ns);
        self.devices_done(cpu);
        self.note_polled(cpu, IdleCause::Device);
        self.irq_exit(cpu);
    }

    /// The handler of that interrupt.
    #[inline(never)]
    pub(crate) fn devices_done(&mut self, cpu: CpuId) {
        self.programs.devices_done(Ns(self.s.now), &mut self.effects);
        self.apply_effects(cpu);
    }

    #[inline]
    pub(crate) fn apply_effects(&mut self, cpu: CpuId) {
        if !self.effects.is_empty() {
            self.apply_some_effects(cpu);
        }
    }

    #[inline(never)]
    fn apply_some_effects(&mut self, cpu: CpuId) {
        // Lent out while it is applied.
        let mut effects = std::mem::take(&mut self.effects);
        self.apply(cpu, &mut effects);
        self.effects = effects;
    }

    fn apply(&mut self, cpu: CpuId, effects: &mut Effects) {
        for event in effects.events.drain(..) {
            let step = matches!(event, Event::ProgramStep { .. });
            self.out.tell(self.s.now, cpu, if step { Interest::STEPS } else { Interest::PROGRAM }, event);
            if let Event::TimerWake { pid, missed: true, .. } = event {
                // It did not sleep: the next job begins where this one ends.
                self.end_dl_job(cpu, pid);
                self.s.tasks[pid.at()].dl.release = Some(self.s.now);
            }
        }
        for boost in effects.boosts.drain(..) {
            self.rt_mutex_setprio(boost, cpu);
        }
        for wake in effects.wakes.drain(..) {
            self.try_to_wake_up(wake.pid, cpu, wake.sync);
        }
        for pid in effects.polled.drain(..) {
            self.end_spin(pid);
        }
        for fork in effects.forks.drain(..) {
            if !is_elsewhere(self.programs.spec(fork.task), self.s.nr_cpus()) {
                self.fork(cpu, fork);
            }
        }
        if std::mem::take(&mut effects.touched) {
            self.s.touch();
        }
        if std::mem::take(&mut effects.devices_changed) {
            match self.programs.next_completion() {
                // One that was due before waits for its CPU, which is on its way out of a sleep.
                Some(at) => self.arm(Source::Devices, at.0.max(self.s.now)),
                None => self.disarm(Source::Devices),
            }
            if self.s.cpu_latency.has_drivers() {
                self.update_cpu_latency();
            }
        }
    }

    /// A spinning thread has got what it spun for.
    fn end_spin(&mut self, pid: Pid) {
        let cpu = self.s.tasks[pid.at()].cpu;
        let running = self.m.cpus[cpu.at()].running == pid;
        if running {
            self.m.account(cpu, self.s.now);
        }
        self.m.give(pid, Segment::Done);
        if running {
            self.arm_step(cpu);
        }
    }

    fn fork(&mut self, cpu: CpuId, fork: Fork) {
        let parent = fork.parent;
        match self.create_thread(fork.task, Some(fork)) {
            Ok(child) => {
                self.trace_sched(cpu, Event::SchedProcessFork { pid: parent, child_pid: child });
                self.wake_up_new_task(child, cpu);
            }
            Err(error) => self.error = Some(error),
        }
    }

    #[inline(never)]
    fn sched_yield(&mut self, cpu: CpuId, pid: Pid) {
        self.update_rq_clock(cpu);
        self.end_dl_job(cpu, pid);
        class!(self, pid).yield_task(&mut self.s, cpu);
        self.schedule(cpu);
    }

    fn exit(&mut self, cpu: CpuId, pid: Pid) {
        let prio = self.prio(pid);
        self.trace_sched(cpu, Event::SchedProcessExit { pid, prio });
        self.block(cpu, pid, State::Dead);
    }

    // ---- attributes ----------------------------------------------------------------------------------------------

    /// `__sched_setscheduler` of the running thread.
    fn sched_setattr(&mut self, cpu: CpuId, pid: Pid) {
        let attr = *self.programs.attr(pid);
        if let Err(refused) = self.check_attr(pid, &attr) {
            self.error = Some(refused);
            return;
        }
        // What was asked for is nothing to this kernel, a slice before 6.12: it returns early.
        let task = &self.s.tasks[pid.at()];
        let clamps = (attr.util_min.map(u32::from), attr.util_max.map(u32::from));
        let same = (attr.policy, attr.nice, clamps) == (task.policy, task.nice, task.uclamp_req);
        if same && attr.policy.is_fair() && !self.s.custom_slice {
            return;
        }
        // What is lent to it stays.
        let donor = self.programs.donor(pid);
        let moved = self.rt_effective_prio(normal_prio(&attr), donor) != self.s.tasks[pid.at()].prio;
        self.change(pid, cpu, OnRq::Queued, moved, |kernel| {
            kernel.apply_attr(pid, &attr);
            kernel.inherit(pid, donor);
            kernel.fair.reweight_task(&mut kernel.s, pid);
        });
    }

    /// Priority inheritance: the owner of a mutex runs at the better of its own priority and that of its first waiter.
    fn rt_mutex_setprio(&mut self, boost: Boost, from: CpuId) {
        let (pid, donor) = (boost.pid, boost.donor);
        let task = &self.s.tasks[pid.at()];
        let (cpu, old_prio) = (task.cpu, task.prio);
        let (prio, boosted_by) = self.inherited(pid, donor);
        if (prio, boosted_by) == (old_prio, task.dl.boosted_by) {
            return;
        }
        // One whose dequeue is delayed sleeps. It is on no queue of its next class; until then it is of the fair one.
        if prio < 100 && self.s.se[self.s.se_of(pid)].sched_delayed {
            self.update_rq_clock(cpu);
            self.dequeue_task(cpu, pid, Dequeue { sleep: true, delayed: true, ..Dequeue::default() });
        }
        self.change(pid, from, OnRq::Queued, prio != old_prio, |kernel| kernel.inherit(pid, donor));
    }

    fn inherit(&mut self, pid: Pid, donor: Option<Pid>) {
        let (prio, boosted_by) = self.inherited(pid, donor);
        let task = &mut self.s.tasks[pid.at()];
        (task.prio, task.dl.boosted_by) = (prio, boosted_by);
    }

    /// Priority of a thread with this donor, and the deadline task whose parameters it runs with: not where it is a deadline
    /// task itself and its deadline is the earlier one.
    fn inherited(&self, pid: Pid, donor: Option<Pid>) -> (u8, Pid) {
        let task = &self.s.tasks[pid.at()];
        let prio = self.rt_effective_prio(task.normal_prio, donor);
        let lends = |donor: &&Task| {
            donor.policy == Policy::Deadline
                && (task.policy != Policy::Deadline || donor.dl.deadline < task.dl.deadline)
        };
        let lender = donor.map(|d| &self.s.tasks[d.at()]).filter(lends);
        (prio, lender.map_or(IDLE, |donor| donor.pid))
    }

    fn rt_effective_prio(&self, normal_prio: u8, donor: Option<Pid>) -> u8 {
        donor.map_or(normal_prio, |d| normal_prio.min(self.s.tasks[d.at()].prio))
    }

    /// Takes a task off its queue, lets `change` change what decides about its place, and puts it back
    /// (`sched_change_begin` … `sched_change_end`).
    ///
    /// `meanwhile` is what the task's load tracking sees: `Queued` keeps it where it is, `Migrating` takes it off too. `moved`: its
    /// priority or group is what changes.
    fn change(&mut self, pid: Pid, from: CpuId, meanwhile: OnRq, moved: bool, change: impl FnOnce(&mut Self)) {
        let cpu = self.s.tasks[pid.at()].cpu;
        self.update_rq_clock(cpu);
        let queued = self.s.tasks[pid.at()].on_rq == OnRq::Queued;
        let running = self.s.rqs[cpu.at()].curr == pid;
        let (old_class, old_prio) = (self.class_id(pid), self.prio(pid));
        if queued {
            self.s.tasks[pid.at()].on_rq = meanwhile;
            self.dequeue_task(cpu, pid, Dequeue { save: true, moved, ..Dequeue::default() });
            self.s.schedtune_queued(cpu, pid, false);
        }
        if running {
            class!(self, pid).put_prev_task(&mut self.s, cpu, pid);
        }
        change(self);
        let (class, prio) = (self.class_id(pid), self.prio(pid));
        let head = old_class == ClassId::Deadline || old_prio < prio;
        if queued {
            self.enqueue_task(cpu, pid, Enqueue { restore: true, head, ..Enqueue::default() });
            self.s.schedtune_queued(cpu, pid, true);
            self.s.tasks[pid.at()].on_rq = OnRq::Queued;
        }
        if running {
            class!(self, pid).set_next_task(&mut self.s, cpu, pid, false);
        }
        if class != old_class {
            match old_class {
                ClassId::Deadline => self.dl.switched_from(&mut self.s, cpu, pid),
                ClassId::Rt => self.rt.switched_from(&mut self.s, cpu, pid),
                _ => self.fair.switched_from(&mut self.s, cpu, pid),
            }
            if queued {
                self.check_preempt(pid, cpu, from, false);
            }
            if queued || class == ClassId::Deadline {
                class!(self, pid).switched_to(&mut self.s, cpu, pid);
            }
        } else if queued && (old_prio != prio || class == ClassId::Deadline) {
            class!(self, pid).prio_changed(&mut self.s, cpu, pid, old_prio);
        }
        if running && self.class_id(pid) < old_class {
            self.s.rqs[cpu.at()].need_resched = true;
        }
        self.balance_rt_change(pid, cpu, from, (old_class, old_prio));
        if self.s.rqs[cpu.at()].need_resched && self.s.rqs[cpu.at()].curr != IDLE {
            self.resched(cpu, from);
        }
        self.cpufreq_update(cpu);
    }

    /// `sched_setaffinity`: a task that is where it may no longer be is moved by the stopper.
    #[inline(never)]
    fn sched_setaffinity(&mut self, cpu: CpuId, pid: Pid) {
        let all = CpuSet::first(self.s.nr_cpus());
        let allowed = self.programs.affinity(pid).map_or(all.clone(), |c| c.and(&all));
        if allowed.is_empty() {
            let thread = self.programs.name(pid);
            let why = format!("thread `{thread}` asks for CPUs this platform does not have\n{OTHER_CPUS}");
            self.error = Some(RunError::Workload(why));
            return;
        }
        let changed = self.s.tasks[pid.at()].cpus != allowed;
        let dest = if changed { self.cpumask_any_and(cpu, &allowed) } else { cpu };
        let task = &mut self.s.tasks[pid.at()];
        task.nr_cpus_allowed = allowed.len() as u32;
        task.cpus = allowed;
        if let Err(refused) = self.check_dl_bw(pid) {
            self.error = Some(refused);
            return;
        }
        if self.s.tasks[pid.at()].policy == Policy::Deadline {
            dl_bandwidth::admit(&mut self.s, pid);
        }
        let task = &self.s.tasks[pid.at()];
        if !task.cpus.contains(task.cpu) && task.on_rq == OnRq::Queued {
            let on = task.cpu;
            self.stop_one_cpu(on, Work::Migrate(pid, dest), cpu);
        }
    }

    /// Where a task goes that may run on these CPUs from now on, however busy they are.
    fn cpumask_any_and(&mut self, cpu: CpuId, allowed: &CpuSet) -> CpuId {
        let any = cpumask_any(&mut self.s, cpu, allowed, Distribute::Affinity);
        any.expect("a task may run somewhere")
    }

    /// `migration_cpu_stop`: the stopper of `cpu` moves a queued task where it was told to, if the task may be there.
    pub(crate) fn migration_cpu_stop(&mut self, cpu: CpuId, pid: Pid, dest: CpuId) {
        let task = &self.s.tasks[pid.at()];
        if task.on_rq != OnRq::Queued || task.cpu != cpu || !task.cpus.contains(dest) {
            return;
        }
        self.move_queued_task(pid, dest, cpu);
    }

    /// `move_queued_task`: from the queue of its CPU to that of `dest`.
    pub(crate) fn move_queued_task(&mut self, pid: Pid, dest: CpuId, from: CpuId) {
        self.detach_task(pid, dest, from);
        self.attach_task(pid, dest, from);
    }

    /// `detach_task`: off its queue, on its way to `dest`.
    pub(crate) fn detach_task(&mut self, pid: Pid, dest: CpuId, from: CpuId) {
        let src = self.s.tasks[pid.at()].cpu;
        self.update_rq_clock(src);
        self.s.tasks[pid.at()].on_rq = OnRq::Migrating;
        self.dequeue_task(src, pid, Dequeue::default());
        self.s.schedtune_queued(src, pid, false);
        if src == from || !self.s.cpufreq_hears_own {
            self.cpufreq_update(src);
        } else {
            self.s.rqs[src.at()].util_changed = false;
        }
        class!(self, pid).migrate_task_rq(&mut self.s, pid, dest);
        self.set_task_cpu(pid, from, dest);
    }

    /// `attach_task`: onto the queue of the CPU it is on its way to.
    pub(crate) fn attach_task(&mut self, pid: Pid, dest: CpuId, from: CpuId) {
        self.activate(pid, dest, from, Enqueue::default(), false);
        self.check_preempt(pid, dest, from, false);
    }

    /// `sched_move_task`: to another group. The task's load leaves the queue of the old one and joins that of the new.
    fn sched_move_task(&mut self, pid: Pid) {
        let (group, cpu) = (self.programs.group(pid), self.s.tasks[pid.at()].cpu);
        if self.s.tasks[pid.at()].group == group {
            return;
        }
        self.change(pid, cpu, OnRq::Migrating, true, |kernel| {
            kernel.fair.migrate_task_rq(&mut kernel.s, pid, cpu);
            kernel.s.tasks[pid.at()].group = group;
            super::uclamp::uclamp_update(&mut kernel.s, pid);
            fair::set_task_rq(&mut kernel.s, pid, cpu);
        });
        // Its new group may be throttled here.
        self.s.rqs[cpu.at()].need_resched |= self.s.rqs[cpu.at()].curr == pid;
        self.tell_attached(pid, cpu);
    }
}
