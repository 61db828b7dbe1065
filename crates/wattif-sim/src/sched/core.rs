//! The spine: `try_to_wake_up`, `schedule`, `sched_tick`, migration. Read this file first.
//!
//! Time passes only between events. A handler does everything that the kernel does at that point at once, and adds up
//! what it costs in [`CpuContext::cost_ns`]; the cost delays whatever the CPU does next: the interrupted thread, the
//! next one, or `schedule()` itself. So a wake-up by a timer shows as: interrupt, `sched_waking`, cost of interrupt and
//! wake-up, `sched_switch`, cost of the switch, and then the thread reads its clock.
//!
//! ```text
//!   timer ──► timer_interrupt ──► try_to_wake_up ──► kick ──► schedule ──► step (program) ──┐
//!                                   │  select_task_rq        pick, switch     │ sleeps, ends  │
//!                                   └─ resched: IPI, idle exit ◄──────────────┴───────────────┘
//! ```
//! `idle.rs` is what a CPU does without a thread, `syscalls.rs` what threads ask for, `stop.rs` the stopper.

use super::balance::{cpu_overutilized, update_misfit_status};
use super::class::{Dequeue, Enqueue, dl_placement, dl_server, fair, rt};
use super::load::{pelt, walt};
use super::placement::{Kind, Request};
use super::task::{OnRq, State};
use super::ttwu_queue::Wakeup;
use super::uclamp;
use crate::cpufreq::UpdateFlags;
use crate::engine::rng::{Jitter, Rng};
use crate::machine::cpu::Segment;
use crate::machine::timer::TimerKind;
use crate::simulation::{Kernel, Source};
use wattif_model::trace::{Event, IdleCause, Interest, Placement, PlacementReason, PrevState};
use wattif_model::{CpuId, DomainId, Ns, Pid};

/// The idle task.
pub const IDLE: Pid = Pid(0);

/// The class of a task that is neither the idle task nor a stopper. A macro, so that the borrow is of the class alone.
macro_rules! class {
    ($kernel:expr, $pid:expr) => {
        match $kernel.class_id($pid) {
            $crate::sched::core::ClassId::Deadline => &*$kernel.dl,
            $crate::sched::core::ClassId::Rt => &*$kernel.rt,
            _ => &*$kernel.fair,
        }
    };
}
pub(crate) use class;

/// What a CPU is doing in the kernel, beyond its run queue.
#[derive(Debug)]
pub struct CpuContext {
    /// Kernel time of the handler that is executing, ns.
    pub cost_ns: u64,
    /// That handler is of an interrupt.
    pub in_irq: bool,
    /// A tick came while the CPU was asleep and is to be handled on the way out.
    pub tick_pending: bool,
    /// Devices have served requests and are to be handled on the way out.
    pub device_pending: bool,
    /// The interrupt that ended its sleep, or gave it a thread to run while it polled.
    pub woken_by: Option<IdleCause>,
    /// Threads that others have woken and this CPU is to queue (`rq->wake_list`).
    pub wake_list: Vec<Wakeup>,
    /// Asked to balance for CPUs whose tick is stopped (`nohz_flags`).
    pub nohz_balance: Option<super::balance::Kick>,
    /// Its tick found that it is time to balance: it does when the tick's handler is done.
    pub softirq_pending: bool,
    /// The stopper of this CPU.
    pub stop: super::stop::Stopper,
    /// Jitter of interrupts.
    pub irq_jitter: Jitter,
    /// Random numbers of the idle governor.
    pub idle_rng: Rng,
    /// Random numbers of the balancer (`sched_rng`).
    pub balance_rng: Rng,
    /// A tick came in the sleep before this turn of the idle loop (`got_idle_tick`).
    pub got_idle_tick: bool,
    /// Idle states that are switched off, a bit each.
    pub disable_mask: u32,
    /// For how long its polling state polls, if the governor does not say otherwise, ns; `u64::MAX`: without end.
    pub poll_time_ns: u64,
    /// Idle time so far, ns.
    pub idle_ns: u64,
    /// Since when it is idle, ns.
    pub idle_since: u64,
    /// When it last came to the idle loop, or an interrupt that left it there ended, ns: what the time to the next timer is
    /// counted from (`idle_entrytime`).
    pub idle_entry: u64,
}

/// Classes in order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClassId {
    /// Nothing to run.
    Idle,
    /// CFS or EEVDF.
    Fair,
    /// FIFO and RR, and whoever inherits such a priority.
    Rt,
    /// Deadline.
    Deadline,
    /// The stopper.
    Stop,
}

impl CpuContext {
    /// A CPU that does nothing.
    pub fn new(irq_jitter: Jitter, idle_rng: Rng, balance_rng: Rng) -> CpuContext {
        CpuContext {
            cost_ns: 0,
            in_irq: false,
            tick_pending: false,
            device_pending: false,
            woken_by: None,
            wake_list: Vec::new(),
            nohz_balance: None,
            softirq_pending: false,
            stop: super::stop::Stopper::default(),
            irq_jitter,
            idle_rng,
            balance_rng,
            // It has been idle for long.
            got_idle_tick: true,
            disable_mask: 0,
            poll_time_ns: 0,
            idle_ns: 0,
            idle_since: 0,
            idle_entry: 0,
        }
    }
}

impl Kernel<'_, '_> {
    // ---- events --------------------------------------------------------------------------------------------------

    /// The interrupt of a CPU's high-resolution timers.
    pub(crate) fn timer_interrupt(&mut self, cpu: CpuId) {
        if self.m.must_wake(cpu) {
            return self.wake_cpu(cpu, IdleCause::Timer);
        }
        self.irq_enter(cpu, self.m.platform.costs.timer_irq_ns);
        self.expire_timers(cpu);
        self.note_polled(cpu, IdleCause::Timer);
        self.irq_exit(cpu);
    }

    /// The tick (`tick_nohz_handler`, `sched_tick`).
    pub(crate) fn tick(&mut self, cpu: CpuId) {
        // While the tick is stopped this is the timer for which it was put off.
        if !self.s.rqs[cpu.at()].tick_stopped {
            self.arm(Source::Tick(cpu), self.next_tick(self.s.now));
        }
        if self.m.must_wake(cpu) {
            self.cpus[cpu.at()].tick_pending = true;
            return self.wake_cpu(cpu, IdleCause::Tick);
        }
        self.irq_enter(cpu, self.m.platform.costs.timer_irq_ns);
        self.cpus[cpu.at()].got_idle_tick |= self.m.is_polling(cpu);
        self.sched_tick(cpu);
        self.note_polled(cpu, IdleCause::Tick);
        self.expire_timers(cpu);
        self.note_polled(cpu, IdleCause::Timer);
        self.irq_exit(cpu);
    }

    /// Awake: `schedule()` is due. Asleep: the way in or out is done.
    pub(crate) fn kick(&mut self, cpu: CpuId) {
        if self.m.cpus[cpu.at()].sleep.is_some() {
            return self.idle_phase_done(cpu);
        }
        if self.cpus[cpu.at()].softirq_pending {
            return self.softirq(cpu); // and then schedule()
        }
        self.m.account(cpu, self.s.now);
        if self.s.rqs[cpu.at()].curr == IDLE {
            self.sched_ttwu_pending(cpu);
        }
        self.schedule(cpu);
    }

    /// The running thread's step is done, or its switch: the program goes on.
    pub(crate) fn step(&mut self, cpu: CpuId) {
        if self.cpus[cpu.at()].softirq_pending {
            return self.softirq(cpu);
        }
        self.m.account(cpu, self.s.now);
        let pid = self.s.rqs[cpu.at()].curr;
        debug_assert_ne!(pid, IDLE, "the idle task has no steps");
        if self.m.segments[pid.at()] != Segment::Done || self.m.cpus[cpu.at()].stall_ns > 0 {
            return self.arm_step(cpu);
        }
        if self.stopper_of(cpu) == Some(pid) {
            return self.stopper_step(cpu);
        }
        if self.is_worker(cpu, pid) {
            return self.worker_step(cpu);
        }
        self.run_program(cpu, pid);
    }

    /// A clock has reached its new frequency.
    pub(crate) fn clock_changed(&mut self, domain: DomainId) {
        let now = self.s.now;
        for i in 0..self.cpufreq_cpus(domain).len() {
            let cpu = self.cpufreq_cpus(domain)[i];
            self.m.account(cpu, now);
        }
        let (opp, next) = self.m.finish_transition(domain, now);
        if let Some(at) = next {
            self.arm(Source::Clock(domain), at);
        }
        self.set_clock(domain, opp);
    }

    // ---- interrupts ----------------------------------------------------------------------------------------------

    /// An interrupt begins on a CPU that is awake, or polls.
    pub(crate) fn irq_enter(&mut self, cpu: CpuId, cost_ns: u64) {
        self.m.account(cpu, self.s.now);
        let context = &mut self.cpus[cpu.at()];
        (context.cost_ns, context.in_irq) = (cost_ns + context.irq_jitter.draw(), true);
    }

    /// It ends: the interrupted thread goes on later by what the interrupt took, or `schedule()` follows.
    pub(crate) fn irq_exit(&mut self, cpu: CpuId) {
        if self.workers.raised() {
            self.run_irq_work(cpu);
        }
        let cost = std::mem::take(&mut self.cpus[cpu.at()].cost_ns);
        self.cpus[cpu.at()].in_irq = false;
        self.s.rqs[cpu.at()].irq_pending_ns += cost;
        self.walt_irq(cpu, cost);
        self.finish_handler(cpu, cost);
        self.program_timer(cpu);
    }

    /// Fires every timer of the CPU whose time has come.
    pub(crate) fn expire_timers(&mut self, cpu: CpuId) {
        while let Some((pid, kind)) = self.m.timers.pop_expired(cpu, self.s.now) {
            match kind {
                TimerKind::Inactive => self.inactive_task_timer(pid),
                TimerKind::Cpu if pid == IDLE => self.sched_rt_period_timer(cpu),
                TimerKind::Cpu => self.hrtick(cpu),
                TimerKind::Sleep if self.s.tasks[pid.at()].state == State::New => {
                    match self.prev_cpu(self.programs.task(pid)) {
                        Some(there) => self.wake_up_there(pid, there, cpu),
                        None => self.wake_up_new_task(pid, cpu),
                    }
                }
                TimerKind::Sleep => self.try_to_wake_up(pid, cpu, false),
                TimerKind::Replenish => self.replenish(pid, cpu),
                TimerKind::CfsPeriod => self.fair.cfs_period_timer(&mut self.s, pid.0, cpu),
                TimerKind::CfsSlack => self.fair.cfs_slack_timer(&mut self.s, pid.0),
            }
        }
    }

    /// Programs the CPU's interrupt for its first timer.
    pub(crate) fn program_timer(&mut self, cpu: CpuId) {
        let at = self.m.timers.next(cpu).map(|at| Ns(at.max(self.s.now)));
        let slot = self.slots.of(Source::Timer(cpu));
        if at == self.queue.time_of(slot) {
            return;
        }
        match at {
            Some(at) => self.queue.schedule(slot, at),
            None => drop(self.queue.cancel(slot)),
        }
    }

    /// After a handler that took `cost` on an awake CPU.
    fn finish_handler(&mut self, cpu: CpuId, cost: u64) {
        let now = self.s.now;
        let softirq = self.cpus[cpu.at()].softirq_pending;
        if softirq {
            // Before anything else runs, and a moment after other CPUs whose handlers take as long have switched.
            self.arm_first(Source::Softirq(cpu), now + cost + cost.min(1));
        }
        if self.m.is_polling(cpu) {
            self.cpus[cpu.at()].idle_entry = now;
            return;
        }
        let rq = &self.s.rqs[cpu.at()];
        if rq.curr != IDLE {
            self.m.cpus[cpu.at()].stall_ns += cost;
        }
        if !softirq && (rq.need_resched || rq.curr == IDLE) {
            self.kick_at(cpu, now + cost);
        }
        if self.s.rqs[cpu.at()].curr != IDLE {
            self.arm_step(cpu);
        }
    }

    /// `schedule()` on `cpu` not later than `at`.
    pub(crate) fn kick_at(&mut self, cpu: CpuId, at: u64) {
        self.arm_first(Source::Kick(cpu), at);
    }

    /// Arms an event that is not due earlier already.
    pub(crate) fn arm_first(&mut self, source: Source, at: u64) {
        let slot = self.slots.of(source);
        if self.queue.time_of(slot).is_none_or(|t| t.0 > at) {
            self.queue.schedule(slot, Ns(at));
        }
    }

    /// `resched_curr()` seen from `from`: a CPU other than its own needs an interrupt, a sleeping one has to wake up first.
    pub(crate) fn resched(&mut self, cpu: CpuId, from: CpuId) {
        self.s.rqs[cpu.at()].need_resched = true;
        // The own CPU looks at the flag when its handler ends.
        if cpu == from && self.m.cpus[cpu.at()].sleep.is_none() {
            return;
        }
        self.send_ipi(cpu, from);
    }

    /// `from` interrupts another CPU; one that polls needs no interrupt.
    pub(crate) fn send_ipi(&mut self, cpu: CpuId, from: CpuId) {
        let sent = self.s.now + self.cpus[from.at()].cost_ns;
        let polling = self.m.is_polling(cpu);
        self.interrupt_at(cpu, if polling { sent } else { sent + self.m.platform.costs.ipi_ns });
    }

    // ---- waking --------------------------------------------------------------------------------------------------

    /// `try_to_wake_up`: `pid` is to run again; the waker executes on `this_cpu`; `sync`: it is about to sleep (`WF_SYNC`).
    pub(crate) fn try_to_wake_up(&mut self, pid: Pid, this_cpu: CpuId, sync: bool) {
        let task = &self.s.tasks[pid.at()];
        if !matches!(task.state, State::Sleeping | State::DiskSleep) {
            return;
        }
        let (prev_cpu, prio, iowait) = (task.cpu, task.prio, task.in_iowait);
        let in_irq = self.cpus[this_cpu.at()].in_irq;
        self.trace_sched(this_cpu, Event::SchedWaking { pid, prio, target_cpu: prev_cpu, in_irq });
        self.cpus[this_cpu.at()].cost_ns += self.m.platform.costs.wakeup_ns;
        self.s.tasks[pid.at()].state = State::Running;
        let queued = self.s.tasks[pid.at()].on_rq == OnRq::Queued;
        // It still waits for the device as far as its CPU's idle time up to now goes. One whose dequeue was delayed slept as
        // well.
        self.walt_wake(pid);
        if iowait {
            self.s.tasks[pid.at()].in_iowait = false;
            let cpu = self.s.tasks[pid.at()].iowait_cpu;
            self.s.rqs[cpu.at()].nr_iowait -= 1;
        }
        if queued {
            return self.ttwu_runnable(pid, this_cpu);
        }
        let cpu = self.select_task_rq(pid, this_cpu, Kind::Wakeup { sync });
        if cpu != prev_cpu {
            class!(self, pid).migrate_task_rq(&mut self.s, pid, cpu);
            self.set_task_cpu(pid, this_cpu, cpu);
        }
        self.ttwu_queue(Wakeup { pid, migrated: cpu != prev_cpu, iowait }, cpu, this_cpu);
    }

    /// Still queued: EEVDF delayed its dequeue.
    #[inline(never)]
    fn ttwu_runnable(&mut self, pid: Pid, this_cpu: CpuId) {
        let (cpu, prio) = (self.s.tasks[pid.at()].cpu, self.prio(pid));
        self.activate(pid, cpu, this_cpu, Enqueue { wakeup: true, delayed: true, ..Enqueue::default() }, false);
        self.check_preempt(pid, cpu, this_cpu, false);
        let in_irq = self.cpus[this_cpu.at()].in_irq;
        self.trace_sched(this_cpu, Event::SchedWakeup { pid, prio, target_cpu: cpu, in_irq });
    }

    /// The first wake-up of a thread that a recording found on this CPU.
    #[inline(never)]
    fn wake_up_there(&mut self, pid: Pid, cpu: CpuId, this_cpu: CpuId) {
        let (prio, in_irq) = (self.prio(pid), self.cpus[this_cpu.at()].in_irq);
        self.trace_sched(this_cpu, Event::SchedWaking { pid, prio, target_cpu: cpu, in_irq });
        self.cpus[this_cpu.at()].cost_ns += self.m.platform.costs.wakeup_ns;
        self.s.tasks[pid.at()].state = State::Running;
        self.walt_wake(pid);
        self.ttwu_queue(Wakeup { pid, migrated: false, iowait: false }, cpu, this_cpu);
    }

    /// `wake_up_new_task`: the first activation of a thread created on `this_cpu`.
    #[inline(never)]
    pub(crate) fn wake_up_new_task(&mut self, pid: Pid, this_cpu: CpuId) {
        self.s.tasks[pid.at()].state = State::Running;
        // sched_fork: on the queue of its parent.
        fair::set_task_rq(&mut self.s, pid, this_cpu);
        self.update_rq_clock(this_cpu);
        class!(self, pid).task_fork(&mut self.s, pid);
        let cpu = self.select_task_rq(pid, this_cpu, Kind::Fork);
        self.s.tasks[pid.at()].cpu = cpu;
        fair::set_task_rq(&mut self.s, pid, cpu);
        self.update_rq_clock(cpu);
        self.activate(pid, cpu, this_cpu, Enqueue { initial: true, ..Enqueue::default() }, false);
        self.walt_update(cpu, pid, walt::Event::TaskWake);
        self.cpus[this_cpu.at()].cost_ns += self.m.platform.costs.wakeup_ns;
        self.check_preempt(pid, cpu, this_cpu, true);
        let prio = self.prio(pid);
        self.trace_sched(this_cpu, Event::SchedWakeupNew { pid, prio, target_cpu: cpu });
        self.task_woken(pid, cpu, this_cpu);
    }

    /// `select_task_rq`: where shall it run?
    fn select_task_rq(&mut self, pid: Pid, this_cpu: CpuId, kind: Kind) -> CpuId {
        let prev_cpu = self.s.tasks[pid.at()].cpu;
        self.update_rq_clock(this_cpu);
        let in_irq = self.cpus[this_cpu.at()].in_irq;
        let request = Request { pid, prev_cpu, this_cpu, kind, in_irq };
        let mut choice = match self.class_id(pid) {
            ClassId::Fair => self.placement.select_task_rq(&mut self.s, &request, &fair::sync_entity_load_avg),
            ClassId::Deadline => dl_placement::select_task_rq(&mut self.s, &request),
            _ => rt::select_task_rq(&mut self.s, &request),
        };
        if !self.s.tasks[pid.at()].cpus.contains(choice.cpu) {
            choice.cpu = self.select_fallback_rq(pid, prev_cpu);
        }
        if self.out.wants(Interest::DECISIONS) {
            let nr_running = self.s.rqs[choice.cpu.at()].nr_running.min(u16::MAX.into()) as u16;
            let placement = Placement {
                pid,
                prev_cpu,
                this_cpu,
                target: choice.target,
                cpu: choice.cpu,
                reason: choice.reason,
                scanned: choice.scanned,
                nr_running,
            };
            if choice.reason == PlacementReason::Energy {
                for &candidate in self.placement.weighed() {
                    let event = Event::EnergyCandidate { pid, candidate };
                    self.out.tell(self.s.now, this_cpu, Interest::DECISIONS, event);
                }
            }
            self.out.tell(self.s.now, this_cpu, Interest::DECISIONS, Event::Placement(placement));
        }
        choice.cpu
    }

    /// `select_fallback_rq`: the policy has no CPU that the task may use, such as the previous one after a change of affinity;
    /// the first allowed one of that CPU's node, else of all.
    #[inline(never)]
    fn select_fallback_rq(&self, pid: Pid, prev_cpu: CpuId) -> CpuId {
        let node = |cpu: CpuId| self.m.platform.cpus[cpu.at()].node;
        let allowed = &self.s.tasks[pid.at()].cpus;
        let near = allowed.iter().find(|&c| node(c) == node(prev_cpu));
        near.or(allowed.min()).expect("a task may run somewhere")
    }

    /// Puts a task on the queue of `cpu` (`activate_task`, `ttwu_do_activate`); `from` executes that.
    pub(crate) fn activate(&mut self, pid: Pid, cpu: CpuId, from: CpuId, mut flags: Enqueue, iowait: bool) {
        self.update_rq_clock(cpu);
        // Of what another CPU does some do not hear, see `FreqGovernor::hears_own_updates_only`.
        let hears = cpu == from || !self.s.cpufreq_hears_own;
        if iowait && hears && self.class_id(pid) == ClassId::Fair {
            // enqueue_task_fair asks for the boost by a call of its own; the queue's update asks again, without it.
            flags.estimated = true;
            fair::util_est_enqueue(&mut self.s, cpu, pid);
            self.cpufreq_update_util(cpu, UpdateFlags { iowait, deadline: false });
        }
        self.enqueue_task(cpu, pid, flags);
        self.s.tasks[pid.at()].on_rq = OnRq::Queued;
        self.s.list_move(pid);
        // add_nr_running: somebody has a task to give away.
        self.s.rd.overloaded |= self.s.rqs[cpu.at()].nr_running >= 2;
        if hears {
            self.cpufreq_update(cpu);
        } else {
            self.s.rqs[cpu.at()].util_changed = false;
        }
        // After the governor has heard of it.
        self.s.schedtune_queued(cpu, pid, true);
        self.tell_signals(cpu, pid);
    }

    /// `enqueue_task`: the class queues it, and its clamps count, unless it sleeps and was only moved.
    pub(crate) fn enqueue_task(&mut self, cpu: CpuId, pid: Pid, flags: Enqueue) {
        class!(self, pid).enqueue_task(&mut self.s, cpu, pid, flags);
        let sleeps = self.s.se[self.s.se_of(pid)].sched_delayed;
        if !sleeps {
            self.walt_enqueue(cpu, pid, !flags.wakeup);
        }
        self.s.signal_versions[cpu.at()] += 1;
        if self.s.rd.energy_aware && !self.s.rd.overutilized && self.shows_overutilized(pid, flags) {
            self.s.rd.overutilized = cpu_overutilized(&self.s, cpu);
        }
        if self.s.rd.uclamp_used && !sleeps && !self.s.tasks[pid.at()].uclamp_active {
            self.s.tasks[pid.at()].uclamp_active = true;
            uclamp::uclamp_rq_inc(&mut self.s, cpu, pid);
        }
        let rq = &self.s.rqs[cpu.at()];
        if rq.rt.rt_nr_running + rq.dl.dl_nr_running > 0 && self.s.cfs[cpu.at()].h_nr_running > 0 {
            // Also where the running task is of the fair class: it may not be for long.
            let serves = dl_server::dl_server_start(&mut self.s, cpu);
            self.s.rqs[cpu.at()].need_resched |= serves;
        }
    }

    /// `check_update_overutilized_status`: not when a task is new, which begins with half of what the CPU has to spare, and since
    /// 5.0 only when one wakes that is not still queued.
    fn shows_overutilized(&self, pid: Pid, flags: Enqueue) -> bool {
        let counts = if self.s.rd.energy_aware_4_9 { !flags.initial } else { flags.wakeup && !flags.delayed };
        counts && self.class_id(pid) == ClassId::Fair
    }

    /// `dequeue_task`: its clamps no longer count, even where the class delays the rest; false in that case.
    pub(crate) fn dequeue_task(&mut self, cpu: CpuId, pid: Pid, flags: Dequeue) -> bool {
        if std::mem::take(&mut self.s.tasks[pid.at()].uclamp_active) {
            uclamp::uclamp_rq_dec(&mut self.s, cpu, pid);
        }
        self.s.signal_versions[cpu.at()] += 1;
        self.walt_dequeue(cpu, pid, flags.sleep && !flags.delayed);
        let gone = class!(self, pid).dequeue_task(&mut self.s, cpu, pid, flags);
        if self.s.rqs[cpu.at()].dl.server.active && self.s.cfs[cpu.at()].h_nr_running == 0 {
            dl_server::dl_server_stop(&mut self.s, cpu);
        }
        gone
    }

    /// `wakeup_preempt`: does the newcomer take the CPU from who runs there?
    pub(crate) fn check_preempt(&mut self, pid: Pid, cpu: CpuId, from: CpuId, fork: bool) {
        let curr = self.s.rqs[cpu.at()].curr;
        let (new, old) = (self.class_id(pid), self.class_id(curr));
        if new > old {
            self.resched(cpu, from);
        } else if new == old && curr != pid {
            class!(self, pid).wakeup_preempt(&mut self.s, cpu, pid, fork);
            if self.s.rqs[cpu.at()].need_resched {
                self.resched(cpu, from);
            }
        }
        // The clock has just been read: who leaves is not charged for the way to the switch, who comes is, be it out of an idle state.
        let queued = curr == IDLE || self.s.tasks[curr.at()].on_rq == OnRq::Queued;
        self.s.rqs[cpu.at()].clock_skip_update |= queued && self.s.rqs[cpu.at()].need_resched;
    }

    /// A wake-up ends an idle period, which counts into the CPU's mean idle time. A task that balancing pulls does not:
    /// its CPU has not been idle, and would soon look too busy to balance at all.
    pub(crate) fn update_avg_idle(&mut self, cpu: CpuId) {
        let rq = &mut self.s.rqs[cpu.at()];
        if rq.idle_stamp != 0 {
            let delta = rq.clock - rq.idle_stamp;
            let diff = delta as i64 - rq.avg_idle as i64;
            rq.avg_idle = (rq.avg_idle as i64 + diff / 8) as u64;
            rq.avg_idle = rq.avg_idle.min(2 * rq.max_idle_balance_cost);
            rq.idle_stamp = 0;
        }
    }

    // ---- switching -----------------------------------------------------------------------------------------------

    /// `__schedule`: the CPU takes the best task it has. The machine is accounted up to now; the previous task, if it
    /// blocked, is already off its queue.
    pub(crate) fn schedule(&mut self, cpu: CpuId) {
        self.disarm(Source::Kick(cpu));
        if std::mem::take(&mut self.s.rqs[cpu.at()].clock_skip_update) {
            self.s.mark_touched(cpu);
        } else {
            self.update_rq_clock(cpu);
        }
        let prev = self.s.rqs[cpu.at()].curr;
        let rq = &self.s.rqs[cpu.at()];
        if prev == IDLE && !rq.need_resched && rq.nr_running == 0 {
            // An interrupt that woke nobody: the idle loop turns again without looking for work elsewhere.
            self.cpus[cpu.at()].cost_ns = 0;
            return self.do_idle(cpu);
        }
        let next = self.pick_next_task(cpu);
        self.s.rqs[cpu.at()].need_resched = false;
        self.program_hrtimers();
        let carried = std::mem::take(&mut self.cpus[cpu.at()].cost_ns);
        if next == prev {
            if next == IDLE {
                self.cpus[cpu.at()].got_idle_tick = false;
                return self.do_idle(cpu);
            }
            self.m.cpus[cpu.at()].stall_ns += carried;
            return self.arm_step(cpu);
        }
        self.context_switch(cpu, prev, next, carried);
        match self.class_id(next) {
            ClassId::Rt => self.push_rt_tasks(cpu, cpu),
            ClassId::Deadline => self.push_dl_tasks(cpu, cpu),
            _ => {}
        }
    }

    fn context_switch(&mut self, cpu: CpuId, prev: Pid, next: Pid, carried_ns: u64) {
        let now = self.s.now;
        let prev_state = self.prev_state(prev);
        let event = Event::SchedSwitch {
            prev_pid: prev,
            prev_prio: self.prio(prev),
            prev_state,
            next_pid: next,
            next_prio: self.prio(next),
        };
        self.s.rqs[cpu.at()].curr = next;
        // The idle time is whole before a governor asks for it.
        if prev == IDLE {
            self.idle_exit(cpu);
        }
        // What others put on the queue is heard of here at the earliest, and if a period has passed since.
        if self.s.cpufreq_hears_own && next != IDLE && self.s.rqs[cpu.at()].util_changed {
            self.cpufreq_update(cpu);
        }
        self.trace_sched(cpu, event);
        self.tell_signals(cpu, prev);
        self.set_busy(cpu, next);
        if next == IDLE {
            self.disarm(Source::Step(cpu));
            self.s.rqs[cpu.at()].idle_stamp = self.s.rqs[cpu.at()].clock;
            self.cpus[cpu.at()].idle_since = now;
            return self.do_idle(cpu);
        }
        self.slices += 1;
        let refill = self.refill_cost(next, cpu);
        self.m.cpus[cpu.at()].stall_ns = carried_ns + self.m.platform.costs.context_switch_ns + refill;
        self.arm_step(cpu);
    }

    /// Hands the hardware thread over; SMT siblings change speed with it.
    fn set_busy(&mut self, cpu: CpuId, next: Pid) {
        let now = self.s.now;
        let was = self.m.cpus[cpu.at()].running != IDLE;
        self.m.execute(cpu, next, now);
        if was != (next != IDLE) && self.s.topology.has_smt {
            // Lent out for the loop.
            let threads = std::mem::take(&mut self.s.topology.smt[cpu.at()]);
            for sibling in threads.iter() {
                self.m.account(sibling, now);
                self.m.update_speed(sibling);
                if sibling != cpu {
                    self.arm_step(sibling);
                }
            }
            self.s.topology.smt[cpu.at()] = threads;
        }
    }

    /// Caches to fill again when a thread comes to a CPU it did not run on last.
    fn refill_cost(&mut self, pid: Pid, cpu: CpuId) -> u64 {
        let last = self.s.tasks[pid.at()].cache_cpu.replace(cpu);
        match last {
            Some(last) if last == cpu => 0,
            Some(last) if self.s.topology.cpus_share_cache(last, cpu) => self.m.platform.costs.migration_ns,
            Some(_) => self.m.platform.costs.migration_llc_ns,
            None => 0,
        }
    }

    /// `pick_next_task`: by class; a CPU with nothing left tries to pull from others first.
    fn pick_next_task(&mut self, cpu: CpuId) -> Pid {
        let prev = self.s.rqs[cpu.at()].curr;
        self.balance_dl_rt(cpu, prev);
        if self.s.rd.rt_bandwidth.is_some() && self.class_id(prev) == ClassId::Rt {
            // It is put before the pick: what it ran may have used up the budget of all.
            self.rt.update_curr(&mut self.s, cpu);
        }
        if self.s.rqs[cpu.at()].dl.server.active && self.class_id(prev) == ClassId::Fair {
            dl_server::dl_server_update(&mut self.s, cpu);
        }
        let mut next = self.pick_task(cpu);
        if next == IDLE && self.newidle_balance(cpu) {
            next = self.pick_task(cpu);
        }
        if next != prev {
            self.put_prev_set_next_task(cpu, prev, next);
        }
        next
    }

    #[inline(always)]
    fn pick_task(&mut self, cpu: CpuId) -> Pid {
        let rq = &self.s.rqs[cpu.at()];
        // A group whose dequeue was delayed counts no tasks; the pick takes it off.
        if rq.nr_running == 0 && self.s.cfs[cpu.at()].nr_queued == 0 {
            return IDLE;
        }
        if self.cpus[cpu.at()].stop.runnable {
            return self.cpus[cpu.at()].stop.pid;
        }
        let (dl, rt) = (rq.dl.dl_nr_running > 0, rq.rt.rt_nr_running > 0);
        let mut next = None;
        if dl {
            next = self.dl.pick_task(&mut self.s, cpu);
            if next == Some(IDLE) {
                next = self.pick_served_task(cpu);
            }
        }
        if next.is_none() && rt {
            next = self.rt.pick_task(&mut self.s, cpu);
        }
        next.or_else(|| self.fair.pick_task(&mut self.s, cpu)).unwrap_or(IDLE)
    }

    /// The fair server's turn: a fair task runs before real-time ones.
    #[inline(never)]
    fn pick_served_task(&mut self, cpu: CpuId) -> Option<Pid> {
        let fair = self.fair.pick_task(&mut self.s, cpu);
        fair.or_else(|| {
            dl_server::dl_server_stop(&mut self.s, cpu);
            self.dl.pick_task(&mut self.s, cpu)
        })
    }

    fn put_prev_set_next_task(&mut self, cpu: CpuId, prev: Pid, next: Pid) {
        self.walt_switch(cpu, prev, next);
        self.s.tasks[prev.at()].last_ran = self.s.rqs[cpu.at()].clock_task;
        self.s.list_picked(next);
        let (from, to) = (self.class_id(prev), self.class_id(next));
        if from >= ClassId::Rt || to >= ClassId::Rt {
            // These classes age their averages here, perhaps after a governor has looked.
            self.s.signal_versions[cpu.at()] += 1;
        }
        if to == ClassId::Fair && self.s.rqs[cpu.at()].dl.server.active {
            dl_server::dl_server_set_next(&mut self.s, cpu);
        }
        if (from, to) == (ClassId::Fair, ClassId::Fair) {
            self.fair.put_prev_set_next_task(&mut self.s, cpu, prev, next);
            return update_misfit_status(&mut self.s, cpu, Some(next));
        }
        if from != ClassId::Idle && from != ClassId::Stop {
            class!(self, prev).put_prev_task(&mut self.s, cpu, prev);
        }
        match to {
            ClassId::Stop => {}
            ClassId::Idle => {
                pelt::update_idle_rq_clock_pelt(&mut self.s.rqs[cpu.at()], &self.s.cfs[cpu.at()]);
                self.placement.update_idle_core(&mut self.s, cpu);
            }
            _ => class!(self, next).set_next_task(&mut self.s, cpu, next, true),
        }
        if to == ClassId::Fair {
            update_misfit_status(&mut self.s, cpu, Some(next));
        }
    }

    fn prev_state(&self, prev: Pid) -> PrevState {
        match self.s.tasks[prev.at()].state {
            State::Sleeping => PrevState::Sleeping,
            State::DiskSleep => PrevState::DiskSleep,
            State::Dead => PrevState::Dead,
            State::Running | State::New => PrevState::Running,
        }
    }

    /// The running task goes to sleep: off its queue (unless the class delays that), then `schedule()`.
    pub(crate) fn block(&mut self, cpu: CpuId, pid: Pid, state: State) {
        self.update_rq_clock(cpu);
        self.end_dl_job(cpu, pid);
        self.s.tasks[pid.at()].state = state;
        if state == State::DiskSleep {
            let task = &mut self.s.tasks[pid.at()];
            (task.in_iowait, task.iowait_cpu) = (true, cpu);
            self.s.rqs[cpu.at()].nr_iowait += 1;
        }
        // is_special_task_state: nobody will wake it.
        let special = state == State::Dead;
        if self.dequeue_task(cpu, pid, Dequeue { sleep: true, special, ..Dequeue::default() }) {
            self.s.tasks[pid.at()].on_rq = OnRq::No;
        }
        self.cpufreq_update(cpu);
        if self.class_id(pid) == ClassId::Fair {
            fair::util_est_left(&mut self.s, cpu, pid);
        }
        self.s.schedtune_queued(cpu, pid, false);
        self.schedule(cpu);
        if special {
            fair::task_dead(&mut self.s, pid);
        }
    }

    /// When the running thread's step ends.
    pub(crate) fn arm_step(&mut self, cpu: CpuId) {
        match self.m.step_end(cpu) {
            Some(at) => self.arm(Source::Step(cpu), at),
            None => self.disarm(Source::Step(cpu)),
        }
    }

    // ---- the tick ------------------------------------------------------------------------------------------------

    /// `sched_tick`.
    pub(crate) fn sched_tick(&mut self, cpu: CpuId) {
        self.cpus[cpu.at()].cost_ns += self.m.platform.costs.tick_ns;
        self.update_rq_clock(cpu);
        self.s.signal_versions[cpu.at()] += 1;
        self.walt_tick(cpu);
        let curr = self.s.rqs[cpu.at()].curr;
        match self.class_id(curr) {
            ClassId::Fair => {
                self.fair.task_tick(&mut self.s, cpu, curr);
                if self.s.rqs[cpu.at()].dl.server.active {
                    dl_server::dl_server_update(&mut self.s, cpu);
                }
                update_misfit_status(&mut self.s, cpu, Some(curr));
            }
            ClassId::Rt => self.rt.task_tick(&mut self.s, cpu, curr),
            ClassId::Deadline => self.dl.task_tick(&mut self.s, cpu, curr),
            ClassId::Stop | ClassId::Idle => {}
        }
        self.tell_signals(cpu, curr);
        self.tell_cpu_signals(cpu);
        self.cpufreq_update(cpu);
        self.trigger_load_balance(cpu);
    }

    /// The tick after `now`: all CPUs tick at the same instants.
    pub(crate) fn next_tick(&self, now: u64) -> u64 {
        (self.s.jiffies(now) + 1) * self.s.tick_ns
    }

    // ---- frequency -----------------------------------------------------------------------------------------------

    /// `cpufreq_update_util`, where the utilisation of a CPU changed.
    #[inline(always)]
    pub(crate) fn cpufreq_update(&mut self, cpu: CpuId) {
        let rq = &mut self.s.rqs[cpu.at()];
        let changed = std::mem::take(&mut rq.util_changed);
        if changed || self.cpufreq_hears_all && rq.curr != IDLE {
            let deadline = rq.changed_by_deadline;
            self.cpufreq_update_util(cpu, UpdateFlags { iowait: false, deadline });
        }
    }

    #[inline(never)]
    pub(crate) fn cpufreq_update_util(&mut self, cpu: CpuId, flags: UpdateFlags) {
        let domain = self.m.platform.cpus[cpu.at()].domain;
        if self.workers.exist() {
            return self.sample_when_due(domain);
        }
        let view = super::view::Signals { s: &self.s, cpus: &self.cpus };
        let now = self.s.now;
        if let Some(khz) = self.cpufreq[domain.at()].update_util(now, cpu, flags, &view) {
            self.request_khz(domain, cpu, khz);
        }
    }

    /// The governor asked for a frequency.
    pub(crate) fn request_khz(&mut self, domain: DomainId, cpu: CpuId, khz: u32) {
        if self.out.wants(Interest::DECISIONS) {
            let choice = self.cpufreq[domain.at()].choice();
            self.out.tell(self.s.now, cpu, Interest::DECISIONS, Event::Frequency(choice));
        }
        let opps = &self.m.platform.domains[domain.at()].opps;
        let opp = opps.iter().position(|o| o.khz >= khz).unwrap_or(opps.len() - 1);
        if let Some(at) = self.m.request_opp(domain, opp, self.s.now) {
            self.arm(Source::Clock(domain), at);
        }
    }

    /// The clock of a domain runs at `opp`: speeds, PELT scale, power. Its CPUs are accounted up to now.
    pub(crate) fn set_clock(&mut self, domain: DomainId, opp: usize) {
        let (now, cpus) = (self.s.now, self.cpufreq_cpus(domain).len());
        let opps = &self.m.platform.domains[domain.at()].opps;
        let khz = opps[opp].khz;
        let freq_cap = (u64::from(khz) << 10) / u64::from(opps[opps.len() - 1].khz);
        self.m.energy.set_opp(&self.m.platform, domain, opp, now);
        if let Some(foresight) = &mut self.foresight {
            foresight.clock(domain, opp, Ns(now));
        }
        for i in 0..cpus {
            self.walt_update_curr(self.cpufreq_cpus(domain)[i]);
        }
        let first = self.cpufreq_cpus(domain)[0];
        let event = Event::CpuFrequency { domain, khz, opp: opp as u32 };
        self.out.tracepoint(now, first, Interest::FREQ, event);
        for i in 0..cpus {
            let cpu = self.cpufreq_cpus(domain)[i];
            self.s.rqs[cpu.at()].freq_cap = freq_cap as u32;
            self.m.update_speed(cpu);
            if self.s.rqs[cpu.at()].curr != IDLE {
                self.arm_step(cpu);
            }
        }
    }

    /// The CPUs of a frequency domain.
    fn cpufreq_cpus(&self, domain: DomainId) -> &[CpuId] {
        &self.cpufreq[domain.at()].policy().cpus
    }

    // ---- small things --------------------------------------------------------------------------------------------

    /// `update_rq_clock`.
    #[inline]
    pub(crate) fn update_rq_clock(&mut self, cpu: CpuId) {
        self.s.mark_touched(cpu);
        if pelt::update_rq_clock(&mut self.s.rqs[cpu.at()], self.s.now) {
            self.s.signal_versions[cpu.at()] += 1;
        }
    }

    /// `set_task_cpu`: the task belongs to another CPU from now on; it is on no queue.
    #[inline(always)]
    pub(crate) fn set_task_cpu(&mut self, pid: Pid, this_cpu: CpuId, dest_cpu: CpuId) {
        let (orig_cpu, prio) = (self.s.tasks[pid.at()].cpu, self.prio(pid));
        self.trace_sched(this_cpu, Event::SchedMigrateTask { pid, prio, orig_cpu, dest_cpu });
        self.walt_migrate(pid, orig_cpu, dest_cpu);
        self.s.tasks[pid.at()].cpu = dest_cpu;
        super::class::fair::set_task_rq(&mut self.s, pid, dest_cpu);
    }

    /// `pelt_se` of a fair task, for those who listen.
    #[inline]
    fn tell_signals(&mut self, cpu: CpuId, pid: Pid) {
        if self.out.wants(Interest::SIGNALS) {
            self.tell_task_signals(cpu, pid);
        }
    }

    fn tell_task_signals(&mut self, cpu: CpuId, pid: Pid) {
        if self.class_id(pid) == ClassId::Fair {
            let avg = &self.s.se[self.s.se_of(pid)].avg;
            let (util_avg, runnable_avg, load_avg) =
                (avg.util_avg as u32, avg.runnable_avg as u32, avg.load_avg as u32);
            let event = Event::PeltSe { pid, util_avg, runnable_avg, load_avg };
            self.out.tell(self.s.now, cpu, Interest::SIGNALS, event);
            if let Some(w) = &self.s.walt {
                let demand = w.walt.task_util(&w.tasks[pid.at()]) as u32;
                let cpu_demand = w.walt.cpu_util(&w.rqs[cpu.at()]) as u32;
                let event = Event::WaltDemand { pid, demand, cpu_demand };
                self.out.tell(self.s.now, cpu, Interest::SIGNALS, event);
            }
        }
    }

    /// `pelt_cfs` of a CPU, on its tick.
    #[inline]
    fn tell_cpu_signals(&mut self, cpu: CpuId) {
        if self.out.wants(Interest::SIGNALS) {
            let avg = &self.s.cfs[cpu.at()].avg;
            let event = Event::PeltCfs {
                util_avg: avg.util_avg as u32,
                runnable_avg: avg.runnable_avg as u32,
                load_avg: avg.load_avg as u32,
                util_est: avg.util_est,
            };
            self.out.tell(self.s.now, cpu, Interest::SIGNALS, event);
        }
    }

    /// The class a task is in now, by its effective priority.
    pub(crate) fn class_id(&self, pid: Pid) -> ClassId {
        let task = &self.s.tasks[pid.at()];
        match task.prio {
            _ if pid == IDLE => ClassId::Idle,
            100.. => ClassId::Fair,
            _ if task.stopper => ClassId::Stop,
            _ if task.is_dl() => ClassId::Deadline,
            _ => ClassId::Rt,
        }
    }
}
