//! The idle loop (`kernel/sched/idle.c`, `tick-sched.c`): what a CPU does without a thread.
//!
//! Ask the idle governor, stop or keep the tick as it says (up to 4.16: stop it, then ask), let the machine sleep. An interrupt wakes the machine, after the
//! state's actual exit latency; then the pending interrupts are handled and `schedule()` looks for work; if there is
//! none, the loop turns again.

use super::view::IdleQuery;
use crate::cpufreq::UpdateFlags;
use crate::cpuidle::default_idle::DefaultIdle;
use crate::cpuidle::{IdleSelection, IdleSleep};
use crate::machine::idle::Phase;
use crate::simulation::{Kernel, Source};
use wattif_model::platform::IdleState;
use wattif_model::trace::{Event, IdleCause, IdleChoice, IdlePeriod, Interest, PowerLevel};
use wattif_model::{CpuId, Ns};

impl Kernel<'_, '_> {
    /// The CPU comes to the idle loop, from a thread or from an interrupt.
    pub(crate) fn do_idle(&mut self, cpu: CpuId) {
        self.cpus[cpu.at()].idle_entry = self.s.now;
        self.cpuidle_idle_call(cpu);
    }

    /// One turn of the idle loop.
    fn cpuidle_idle_call(&mut self, cpu: CpuId) {
        let now = self.s.now;
        if self.s.default_idle == DefaultIdle::Upfront {
            self.tick_nohz(cpu, true);
        }
        let selection = self.cpuidle_select(cpu);
        self.tick_nohz(cpu, selection.stop_tick);
        let states = self.m.platform.idle_states(cpu);
        let state = selection.state.min(states.len() - 1);
        // Leaving costs one who knows the future nothing; for placement every state is the same.
        let seen = if self.m.prescient { (0, 0) } else { (state as u8, states[state].advertised.exit_ns) };
        let rq = &mut self.s.rqs[cpu.at()];
        (rq.idle_state, rq.idle_exit_latency_ns) = (Some(seen.0), seen.1);
        self.out.tracepoint(now, cpu, Interest::IDLE, Event::CpuIdle { state: state as u32 });
        let reached = self.m.enter_idle(cpu, state, now);
        if reached > now {
            // On the way in it is busy; whose polling state gave up was not.
            self.draws_busy(cpu);
            self.arm(Source::Kick(cpu), reached);
        } else {
            self.in_state(cpu, state);
        }
        self.program_timer(cpu);
    }

    /// The state is reached; a polling one polls from now on, until its limit.
    fn in_state(&mut self, cpu: CpuId, state: usize) {
        self.set_power(cpu, PowerLevel::Idle(state as u8));
        if self.m.prescient {
            self.leave_in_time(cpu);
        } else if self.m.platform.idle_states(cpu)[state].polling {
            let limit = self.poll_limit(cpu);
            if limit < u64::MAX {
                self.arm(Source::Kick(cpu), self.s.now + limit);
            }
        }
    }

    /// The way out of a sleep whose length is known begins before its end: now, or later, when it may take less, because another
    /// CPU of the core or the cluster has woken up by then.
    #[inline(never)]
    fn leave_in_time(&mut self, cpu: CpuId) {
        let began = self.m.cpus[cpu.at()].sleep.map_or(0, |s| s.began);
        let end = self.foresight.as_ref().and_then(|f| f.now(cpu)).map_or(u64::MAX, |nap| began + nap.length_ns);
        match self.m.leave_in_time(cpu, end, self.s.now) {
            Some(at) if at < end => self.arm(Source::Kick(cpu), at),
            Some(_) => {}
            None => self.set_power(cpu, PowerLevel::Busy),
        }
    }

    /// How long the polling state polls before the idle loop looks again, ns; `u64::MAX`: until a thread is to run.
    fn poll_limit(&mut self, cpu: CpuId) -> u64 {
        self.cpuidle.poll_limit_ns(cpu, self.cpus[cpu.at()].poll_time_ns).max(1)
    }

    fn cpuidle_select(&mut self, cpu: CpuId) -> IdleSelection {
        let next_tick = self.queue.time_of(self.slots.of(Source::Tick(cpu))).map(|t| t.0);
        let next_timer = [self.m.timers.next(cpu), self.wake_idle_at(cpu)].into_iter().flatten().min();
        let rq = &self.s.rqs[cpu.at()];
        let (rule, stopped) = (self.s.default_idle, rq.tick_stopped);
        // Governors of that age never hear of the tick, and meet none.
        let upfront = rule == DefaultIdle::Upfront;
        let mut view = IdleQuery {
            now: self.s.now,
            idle_entry: self.cpus[cpu.at()].idle_entry,
            next_tick: (!upfront).then(|| next_tick.unwrap_or_else(|| self.next_tick(self.s.now))),
            tick_stopped: stopped && !upfront,
            next_timer,
            nr_iowait: rq.nr_iowait,
            disable_mask: self.cpus[cpu.at()].disable_mask,
            latency_req_ns: self.s.cpu_latency.target_ns,
            rq,
            util_avg: self.s.cfs[cpu.at()].avg.util_avg,
            foreseen: self.foresight.as_mut().and_then(|f| f.begins(cpu, Ns(self.s.now))),
            rng: &mut self.cpus[cpu.at()].idle_rng,
            asked: None,
        };
        let mut selection = self.cpuidle.select(cpu, &mut view);
        let asked = view.asked;
        let got_idle_tick = std::mem::take(&mut self.cpus[cpu.at()].got_idle_tick);
        let nr_states = self.m.platform.idle_states(cpu).len();
        selection.stop_tick = rule.stop_tick(selection.stop_tick, nr_states, got_idle_tick, stopped);
        if self.out.wants(Interest::DECISIONS) {
            let choice = IdleChoice {
                state: selection.state as u8,
                stop_tick: selection.stop_tick,
                predicted_ns: u64::try_from(selection.predicted_ns).unwrap_or(0),
                sleep_length_ns: asked.map_or(u64::MAX, |ns| u64::try_from(ns).unwrap_or(0)),
            };
            if let Some(weights) = self.cpuidle.learned(cpu) {
                self.out.tell(self.s.now, cpu, Interest::DECISIONS, Event::IdleWeights(weights));
            }
            self.out.tell(self.s.now, cpu, Interest::DECISIONS, Event::Idle(choice));
        }
        selection
    }

    /// `tick_nohz_idle_stop_tick` or `_retain_tick`: the governor decides. A high-resolution timer that is due before the
    /// tick does not keep it; only one of the timer wheel would (`tick_nohz_next_event`), which no thread of ours has.
    /// Only turns that stop it, or find it stopped, are counted.
    fn tick_nohz(&mut self, cpu: CpuId, stop: bool) {
        if !stop {
            return;
        }
        self.s.rqs[cpu.at()].idle_calls += 1;
        let stopped = self.s.rqs[cpu.at()].tick_stopped;
        match self.wake_idle_at(cpu) {
            Some(at) => self.arm(Source::Tick(cpu), at),
            None if stopped => {}
            None => self.disarm(Source::Tick(cpu)),
        }
        if stopped {
            return;
        }
        self.s.rqs[cpu.at()].tick_stopped = true;
        self.out.tell(self.s.now, cpu, Interest::IDLE, Event::TickStop);
        self.nohz_balance_enter_idle(cpu);
    }

    /// When a frequency governor's timer wakes the idle CPU.
    fn wake_idle_at(&self, cpu: CpuId) -> Option<u64> {
        if !self.cpufreq_wakes_idle {
            return None;
        }
        let at = self.cpufreq[self.m.platform.cpus[cpu.at()].domain.at()].wake_idle_at(cpu)?;
        Some(at.max(self.next_tick(self.s.now)))
    }

    /// Another CPU's interrupt reaches this one at `at`: it wakes a sleeping one, and `schedule()` is due on one that is awake.
    pub(crate) fn interrupt_at(&mut self, cpu: CpuId, at: u64) {
        match self.m.cpus[cpu.at()].sleep {
            None if self.s.rqs[cpu.at()].ttwu_pending => self.arm_first(Source::Ipi(cpu), at),
            None => self.kick_at(cpu, at),
            // It is on its way out and will see what there is.
            Some(sleep) if sleep.is_over() => {}
            Some(_) if at <= self.s.now => self.wake_cpu(cpu, IdleCause::Ipi),
            Some(_) => self.arm_first(Source::Ipi(cpu), at),
        }
    }

    /// `cpu_latency_qos_update_request` of drivers, as their devices work or not: if the limit changes, idle CPUs choose anew. One that is
    /// never late has no limit.
    #[inline(never)]
    pub(crate) fn update_cpu_latency(&mut self) {
        let (now, programs) = (self.s.now, &self.programs);
        let changed = self.s.cpu_latency.update(now, |device| programs.device_works(device));
        match self.s.cpu_latency.next_end() {
            Some(end) => self.arm(Source::Latency, end),
            None => self.disarm(Source::Latency),
        }
        if changed && !self.m.prescient {
            self.wake_up_all_idle_cpus();
        }
    }

    /// An interrupt for each CPU that is idle, or on its way there: the idle loop turns again.
    fn wake_up_all_idle_cpus(&mut self) {
        let at = self.s.now + self.m.platform.costs.ipi_ns;
        for cpu in (0..self.s.nr_cpus() as u32).map(CpuId) {
            if self.m.cpus[cpu.at()].sleep.is_some() {
                self.interrupt_at(cpu, at);
            }
        }
    }

    /// An interrupt for a sleeping CPU; what comes while it is on its way out did not wake it.
    pub(crate) fn wake_cpu(&mut self, cpu: CpuId, cause: IdleCause) {
        self.cpus[cpu.at()].woken_by.get_or_insert(cause);
        if let Some(ready) = self.m.wake(cpu, self.s.now) {
            self.arm(Source::Kick(cpu), ready);
            self.draws_busy(cpu);
        }
    }

    /// On the way in or out of an idle state.
    fn draws_busy(&mut self, cpu: CpuId) {
        if self.m.energy.level(cpu) != PowerLevel::Busy {
            self.set_power(cpu, PowerLevel::Busy);
        }
    }

    /// The CPU is asleep, or awake again.
    pub(crate) fn idle_phase_done(&mut self, cpu: CpuId) {
        let sleep = self.m.cpus[cpu.at()].sleep.expect("only a sleeping CPU has phases");
        match sleep.phase {
            Phase::Entering(_) => {
                self.m.reached_idle(cpu);
                self.in_state(cpu, sleep.state);
            }
            Phase::Asleep if self.m.prescient => self.leave_in_time(cpu),
            Phase::Asleep => self.poll_time_limit(cpu),
            Phase::Leaving(..) => self.wakes_up(cpu),
        }
    }

    /// What an interrupt of this kind did to a CPU that polls: polling ends if a thread is to run.
    pub(crate) fn note_polled(&mut self, cpu: CpuId, kind: IdleCause) {
        if self.m.is_polling(cpu) && self.s.rqs[cpu.at()].need_resched {
            self.cpus[cpu.at()].woken_by.get_or_insert(kind);
        }
    }

    /// The polling state gives up: the idle loop turns again, and takes it for the time it was when it began
    /// (`tick_nohz_get_sleep_length`).
    fn poll_time_limit(&mut self, cpu: CpuId) {
        if let Some(cause) = self.cpus[cpu.at()].woken_by {
            return self.wake_cpu(cpu, cause);
        }
        self.end_sleep(cpu, true, false);
        self.cpuidle_idle_call(cpu);
    }

    /// Accounts a sleep, and tells the governor.
    fn end_sleep(&mut self, cpu: CpuId, poll_time_limit: bool, got_tick: bool) {
        let now = self.s.now;
        let sleep = self.m.left_idle(cpu, now);
        self.out.tracepoint(now, cpu, Interest::IDLE, Event::CpuIdle { state: Event::IDLE_EXIT });
        let rq = &mut self.s.rqs[cpu.at()];
        (rq.idle_state, rq.idle_exit_latency_ns) = (None, 0);
        let woken = sleep.woken.min(now);
        let woken_by = self.cpus[cpu.at()].woken_by.take();
        if self.out.wants(Interest::IDLE) {
            let cause = self.wake_cause(cpu, poll_time_limit, woken_by, woken);
            let (length_ns, late_ns) = (woken - sleep.began, now - woken);
            let period = IdlePeriod { state: sleep.state as u8, cause, length_ns, late_ns };
            self.out.tell(now, cpu, Interest::IDLE, Event::IdlePeriod(period));
        }
        if let Some(foresight) = &mut self.foresight {
            foresight.ended(cpu, now - sleep.began);
        }
        let residency_ns = now - sleep.began;
        self.judge_sleep(cpu, sleep.state, residency_ns);
        let entered = Some(sleep.state);
        let poll_time_limit = poll_time_limit && self.s.polling_is_told;
        self.cpus[cpu.at()].got_idle_tick |= got_tick;
        let got_tick = self.cpus[cpu.at()].got_idle_tick;
        self.cpuidle.reflect(cpu, &IdleSleep { entered, residency_ns, poll_time_limit, got_tick, clock_ns: now });
    }

    /// The first request that came; a timer where it and others came at once.
    fn wake_cause(&self, cpu: CpuId, poll_time_limit: bool, woken_by: Option<IdleCause>, woken: u64) -> IdleCause {
        if poll_time_limit {
            IdleCause::PollLimit
        } else if self.m.timers.next(cpu).is_some_and(|at| at <= woken) {
            IdleCause::Timer
        } else {
            woken_by.unwrap_or(IdleCause::Ipi)
        }
    }

    /// The CPU executes again: account the sleep, handle what is pending, look for work.
    fn wakes_up(&mut self, cpu: CpuId) {
        let now = self.s.now;
        // One on its way finds the CPU awake, which has seen what it was for.
        self.disarm(Source::Ipi(cpu));
        let pending_tick = std::mem::take(&mut self.cpus[cpu.at()].tick_pending);
        self.end_sleep(cpu, false, pending_tick);
        let irq = pending_tick || self.m.timers.next(cpu).is_some_and(|t| t <= now);
        let cost = if irq { self.m.platform.costs.timer_irq_ns } else { 0 };
        let stray = self.strays.get_mut(cpu.at()).map_or(0, |stray| std::mem::take(&mut stray.pending_ns));
        self.irq_enter(cpu, cost + stray);
        self.sched_ttwu_pending(cpu);
        self.rto_push(cpu);
        self.stray_handled(cpu);
        if pending_tick {
            self.sched_tick(cpu);
        }
        // No other interrupt looks at the timers; those within their slack wait for theirs.
        if irq {
            self.expire_timers(cpu);
        }
        if std::mem::take(&mut self.cpus[cpu.at()].device_pending) {
            self.devices_done(cpu);
        }
        self.nohz_idle_balance(cpu);
        if self.cpufreq_wakes_idle {
            self.cpufreq_update_util(cpu, UpdateFlags::default());
        }
        self.irq_exit(cpu);
    }

    /// Tells of a sleep in the wrong state.
    fn judge_sleep(&mut self, cpu: CpuId, entered: usize, residency_ns: u64) {
        if let Some(below) = IdleState::missed(self.m.platform.idle_states(cpu), entered, residency_ns) {
            let event = Event::CpuIdleMiss { state: entered as u32, below };
            self.out.tracepoint(self.s.now, cpu, Interest::IDLE, event);
        }
    }

    /// `tick_nohz_idle_exit`: a thread follows, so the tick goes on.
    pub(crate) fn idle_exit(&mut self, cpu: CpuId) {
        let now = self.s.now;
        let context = &mut self.cpus[cpu.at()];
        context.idle_ns += now - context.idle_since;
        context.got_idle_tick = false;
        if std::mem::take(&mut self.s.rqs[cpu.at()].tick_stopped) {
            self.arm(Source::Tick(cpu), self.next_tick(now));
        }
    }

    /// The power level of a CPU, and perhaps of its cluster.
    ///
    /// A state of the core is drawn by all its hardware threads or none, so those that sleep change with it.
    pub(crate) fn set_power(&mut self, cpu: CpuId, level: PowerLevel) {
        if !self.m.core_states {
            return self.meter(cpu, level);
        }
        self.meter(cpu, self.powered(cpu, level));
        for i in 0..self.m.threads_of(cpu).len() {
            let mate = self.m.threads_of(cpu)[i];
            let level = self.m.energy.level(mate);
            if mate == cpu || level == PowerLevel::Busy {
                continue;
            }
            let Some(sleep) = self.m.cpus[mate.at()].sleep else { continue };
            let new = self.powered(mate, PowerLevel::Idle(sleep.state as u8));
            if new != level {
                self.meter(mate, new);
            }
        }
    }

    fn powered(&self, cpu: CpuId, level: PowerLevel) -> PowerLevel {
        match level {
            PowerLevel::Busy => PowerLevel::Busy,
            PowerLevel::Idle(state) => PowerLevel::Idle(self.m.powered(cpu, state as usize) as u8),
        }
    }

    #[inline(always)]
    fn meter(&mut self, cpu: CpuId, level: PowerLevel) {
        let now = self.s.now;
        let cluster_level = self.m.energy.set_level(&self.m.platform, cpu, level, now);
        self.out.tell(now, cpu, Interest::POWER, Event::CpuPower { level });
        if let Some(level) = cluster_level {
            let cluster = self.m.platform.cpus[cpu.at()].cluster;
            self.out.tell(now, cpu, Interest::POWER, Event::ClusterPower { cluster, level });
        }
    }
}
