//! Where the events of window-assisted load tracking come from: `core`'s side of [`super::load::walt`]. Without it in the
//! kernel profile nothing here does anything.

use super::balance::list_queue;
use super::core::IDLE;
use super::load::walt::{Event, WaltSystem, Who};
use super::load::walt_qti::Detection;
use super::task::State;
use crate::simulation::Kernel;
use wattif_model::{CpuId, Pid};

impl Kernel<'_, '_> {
    /// Accounts a task's time up to now on a CPU (`walt_update_task_ravg`).
    #[inline]
    pub(crate) fn walt_update(&mut self, cpu: CpuId, pid: Pid, event: Event) {
        if self.s.walt.is_some() {
            self.walt_event(cpu, pid, event);
        }
    }

    #[inline(never)]
    fn walt_event(&mut self, cpu: CpuId, pid: Pid, event: Event) {
        let rq = &self.s.rqs[cpu.at()];
        let who = Who {
            idle: pid == IDLE,
            exiting: pid != IDLE && self.s.tasks[pid.at()].state == State::Dead,
            current: rq.curr == pid,
            iowait: rq.nr_iowait > 0,
        };
        let capacity_curr = rq.capacity_curr();
        let w = self.s.walt.as_mut().expect("looked at");
        let p = if pid == IDLE { &mut w.idle[cpu.at()] } else { &mut w.tasks[pid.at()] };
        let rq = &mut w.rqs[cpu.at()];
        let (before, start) = (*p, rq.window_start);
        w.walt.update(p, rq, who, event, self.s.now, capacity_curr);
        if let Some(qti) = &mut w.qti {
            qti.roll(cpu, (rq.window_start - start) / w.walt.window_ns);
            if pid != IDLE {
                qti.account(&w.walt, cpu, pid, (&before, p), rq.window_start, self.s.now);
            }
        }
        self.s.signal_versions[cpu.at()] += 1;
    }

    /// The current task of a CPU, up to now.
    pub(crate) fn walt_update_curr(&mut self, cpu: CpuId) {
        if self.s.walt.is_some() {
            self.walt_event(cpu, self.s.rqs[cpu.at()].curr, Event::TaskUpdate);
        }
    }

    /// One task follows another.
    pub(crate) fn walt_switch(&mut self, cpu: CpuId, prev: Pid, next: Pid) {
        if self.s.walt.is_some() {
            self.walt_event(cpu, prev, Event::PutPrevTask);
            self.walt_event(cpu, next, Event::PickNextTask);
        }
    }

    /// A task that slept is about to be placed.
    #[inline]
    pub(crate) fn walt_wake(&mut self, pid: Pid) {
        if self.s.walt.is_some() {
            self.walt_wakes(pid);
        }
    }

    #[inline(never)]
    fn walt_wakes(&mut self, pid: Pid) {
        let cpu = self.s.tasks[pid.at()].cpu;
        self.walt_update_curr(cpu);
        self.walt_update(cpu, pid, Event::TaskWake);
        if let Some(qti) = self.s.walt.as_mut().and_then(|w| w.qti.as_mut()) {
            qti.wake(pid, self.s.now);
        }
    }

    /// A task that is on no queue changes its CPU.
    #[inline]
    pub(crate) fn walt_migrate(&mut self, pid: Pid, src: CpuId, dst: CpuId) {
        if self.s.walt.is_some() && src != dst {
            self.walt_move(pid, src, dst);
        }
    }

    #[inline(never)]
    fn walt_move(&mut self, pid: Pid, src: CpuId, dst: CpuId) {
        self.walt_update_curr(src);
        self.walt_update_curr(dst);
        // Balancing moves one whose dequeue is delayed with the others: it sleeps and does not wait.
        let delayed = self.s.se[self.s.se_of(pid)].sched_delayed;
        self.walt_update(src, pid, if delayed { Event::TaskWake } else { Event::TaskMigrate });
        let waking = delayed || self.s.tasks[pid.at()].on_rq == super::task::OnRq::No;
        if !self.walt_qti_migrate(pid, src, dst) {
            return;
        }
        let w = self.s.walt.as_mut().expect("looked at");
        let mut from = w.rqs[src.at()];
        w.walt.fixup_busy_time(&w.tasks[pid.at()], &mut from, &mut w.rqs[dst.at()], waking);
        w.rqs[src.at()] = from;
        self.s.signal_versions[src.at()] += 1;
        self.s.signal_versions[dst.at()] += 1;
    }

    /// What the vendor's additions make of a move: does the busy time go along?
    fn walt_qti_migrate(&mut self, pid: Pid, src: CpuId, dst: CpuId) -> bool {
        let Some(qti) = self.s.walt.as_ref().and_then(|w| w.qti.as_ref()) else { return true };
        if qti.switches.per_cpu_windows && qti.leaves_cluster(src, dst) {
            // All of the old cluster up to the present window first.
            for cpu in (0..self.s.rqs.len() as u32).map(CpuId) {
                if self.s.walt.as_ref().and_then(|w| w.qti.as_ref()).is_some_and(|q| !q.leaves_cluster(src, cpu)) {
                    self.walt_update_curr(cpu);
                }
            }
        }
        let WaltSystem { walt, tasks, rqs, qti, .. } = self.s.walt.as_mut().expect("looked at");
        qti.as_mut().expect("looked at").migrate(walt, &tasks[pid.at()], pid, [src, dst], rqs)
    }

    /// The tick: early detection looks at the queue.
    #[inline]
    pub(crate) fn walt_tick(&mut self, cpu: CpuId) {
        if self.s.walt.is_some() {
            self.walt_update_curr(cpu);
            self.walt_detect(cpu);
        }
    }

    #[inline(never)]
    fn walt_detect(&mut self, cpu: CpuId) {
        let Some(mut qti) = self.s.walt.as_mut().and_then(|w| w.qti.take()) else { return };
        if qti.switches.early_detection != Detection::Off {
            qti.queued.clear();
            list_queue(&self.s, cpu.at(), &mut qti.queued);
            qti.queued.retain(|p| !self.s.se[self.s.se_of(*p)].sched_delayed);
            qti.queued.sort_unstable_by_key(|p| std::cmp::Reverse(self.s.tasks[p.at()].group_node));
            qti.detect(cpu, self.s.now);
        }
        self.s.walt.as_mut().expect("looked at").qti = Some(qti);
    }

    /// An interrupt that took `ns` ends.
    pub(crate) fn walt_irq(&mut self, cpu: CpuId, ns: u64) {
        if self.s.walt.is_none() {
            return;
        }
        let tick = self.s.jiffies(self.s.now);
        let w = self.s.walt.as_mut().expect("looked at");
        w.walt.account_irqtime(&mut w.rqs[cpu.at()], ns, tick);
        if self.s.rqs[cpu.at()].curr == IDLE {
            self.walt_update(cpu, IDLE, Event::IrqUpdate(ns));
        }
    }

    /// A task joins a queue; `moved`: not because it woke.
    pub(crate) fn walt_enqueue(&mut self, cpu: CpuId, pid: Pid, moved: bool) {
        if let Some(w) = &mut self.s.walt {
            let p = &mut w.tasks[pid.at()];
            let joins = !p.queued;
            w.walt.enqueue(p, &mut w.rqs[cpu.at()], moved);
            if let (true, Some(qti)) = (joins, &mut w.qti) {
                qti.queue(cpu, pid, true);
            }
        }
    }

    /// A task leaves a queue; `sleeps`: because it blocks.
    pub(crate) fn walt_dequeue(&mut self, cpu: CpuId, pid: Pid, sleeps: bool) {
        if let Some(w) = &mut self.s.walt {
            let p = &mut w.tasks[pid.at()];
            if let (true, Some(qti)) = (p.queued, &mut w.qti) {
                qti.queue(cpu, pid, false);
            }
            w.walt.dequeue(p, &mut w.rqs[cpu.at()], sleeps);
            if sleeps {
                p.last_sleep_ts = self.s.now;
            }
        }
    }

    /// A thread was created.
    pub(crate) fn walt_new_task(&mut self) {
        if let Some(w) = &mut self.s.walt {
            let new = w.walt.new_task();
            w.tasks.push(new);
            if let Some(qti) = &mut w.qti {
                qti.new_task(self.s.now);
            }
        }
    }
}
