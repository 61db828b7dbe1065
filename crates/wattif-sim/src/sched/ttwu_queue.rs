//! Wake list: a waker leaves the queueing of the thread it wakes to the CPU that the thread is to run on.
//!
//! # Idea
//! To put a thread on the queue of another CPU the waker needs that queue's lock and its cache lines. Where the two CPUs share no
//! cache this is dear, and where the other one is idle it has nothing better to do than to queue its threads itself. So the waker
//! only hangs the thread into a list and sends an interrupt.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | the CPUs share a last-level cache | yes, no | topology | constant |
//! | `nr_running` of the chosen CPU | tasks | its run queue | every queueing |
//!
//! # Decision
//! After the CPU of a woken thread is chosen, with `TTWU_QUEUE`, unless it is the waker's own:
//! 1. It shares no cache with the waker's: the list.
//! 2. `6.0`: it has no runnable task: the list.
//! 3. Else the waker queues the thread.
//!
//! The interrupt finds the CPU asleep, and then it first has to leave its idle state; or the CPU polls and needs none. What is on the
//! list is queued oldest first (`5.7`: newest first), before the CPU looks for a thread to run. Until then the thread runs nowhere
//! and waits on no queue: it is in no signal of either CPU. The CPU is not idle for placement (`ttwu_pending`), so nobody is placed
//! there for its idleness; but energy-aware placement asks for utilisation alone, and there the thread is not yet seen.
//!
//! Worked example, `6.0`: CPU 4 sleeps in a state with an exit of 200 µs. A decoder on CPU 0 wakes three workers within 20 µs. The
//! first goes to CPU 4; its utilisation is still the cluster's lowest, so that the second and the third are placed there as well. At
//! 202 µs CPU 4 is awake and queues all three: two of them wait. Queued by the waker (`5.7`), the first is seen by the second.
//!
//! # State and cost
//! A list for each CPU and a bit in its run queue. A wake-up of an idle CPU costs no interrupt more than without.
//!
//! # Where it fails
//! Whoever asks what a CPU will have to do does not see the threads on its list, see the example.
//!
//! # Differences from the kernel
//! FIDELITY(ttwu-queue): a thread that blocks leaves its CPU at once here, so nobody is woken while it is still on its way out
//! (`WF_ON_CPU`), the case of 5.8. The waker pays for the whole wake-up, the interrupt costs the CPU that gets it nothing but its
//! jitter. The stopper is queued by who wakes it.
//!
//! # Source
//! Linux 5.6.4, 6.1.192 and 6.12.117 `kernel/sched/core.c` (behaviour): `ttwu_queue_cond`, `sched_ttwu_pending`; idle CPUs since
//! f3dd3f674555 (2022, Linux 6.0), the order since 5.8. Recordings of 6.1 and 6.12: all wake-ups of another, idle CPU have their
//! `sched_wakeup` on that CPU.

use super::class::Enqueue;
use crate::registry::{Tunable, meant};
use crate::simulation::Kernel;
use wattif_model::trace::{Event, IdleCause};
use wattif_model::{CpuId, Pid};

/// Tunables of this policy.
pub const TUNABLES: &[Tunable] = &[Tunable {
    name: "generation",
    default: "6.0",
    allowed: &Generation::NAMES,
    doc: "who queues a woken thread itself: CPUs of another cache than the waker's; or idle ones as well",
}];

/// Eras of the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Generation {
    /// CPUs of other caches; the newest thread comes first.
    V5_7,
    /// Idle CPUs too; the oldest comes first.
    #[default]
    V6_0,
}

impl Generation {
    /// The values of the tunable `generation`.
    pub const NAMES: [&'static str; 2] = ["5.7", "6.0"];

    /// From the tunable's value.
    pub fn parse(name: &str) -> Option<Generation> {
        meant(Generation::NAMES, [Generation::V5_7, Generation::V6_0], name)
    }
}

/// A thread that wakes up: `select_task_rq` has found its CPU.
#[derive(Clone, Copy, Debug)]
pub struct Wakeup {
    /// Which.
    pub pid: Pid,
    /// It ran on another CPU before (`WF_MIGRATED`).
    pub migrated: bool,
    /// It waited for a device.
    pub iowait: bool,
}

impl Kernel<'_, '_> {
    /// `ttwu_queue`: the waker queues the thread, or leaves it to `cpu`.
    pub(crate) fn ttwu_queue(&mut self, wakeup: Wakeup, cpu: CpuId, this_cpu: CpuId) {
        if cpu != this_cpu && self.s.features.ttwu_queue && self.ttwu_queue_cond(cpu, this_cpu) {
            return self.ttwu_queue_wakelist(wakeup, cpu, this_cpu);
        }
        self.ttwu_do_activate(wakeup, cpu, this_cpu);
    }

    fn ttwu_queue_cond(&self, cpu: CpuId, this_cpu: CpuId) -> bool {
        let idle = self.s.ttwu_queue == Generation::V6_0 && self.s.rqs[cpu.at()].nr_running == 0;
        idle || !self.s.topology.cpus_share_cache(this_cpu, cpu)
    }

    fn ttwu_queue_wakelist(&mut self, wakeup: Wakeup, cpu: CpuId, this_cpu: CpuId) {
        self.cpus[cpu.at()].wake_list.push(wakeup);
        self.s.rqs[cpu.at()].ttwu_pending = true;
        self.s.mark_touched(cpu);
        self.send_ipi(cpu, this_cpu);
    }

    /// An interrupt from another CPU.
    pub(crate) fn ipi(&mut self, cpu: CpuId) {
        if self.m.cpus[cpu.at()].sleep.is_some() {
            return self.wake_cpu(cpu, IdleCause::Ipi);
        }
        let pushes = self.s.rd.rto_cpu == Some(cpu);
        if self.s.rqs[cpu.at()].ttwu_pending || self.cpus[cpu.at()].nohz_balance.is_some() || pushes {
            self.irq_enter(cpu, 0);
            self.sched_ttwu_pending(cpu);
            self.rto_push(cpu);
            self.nohz_idle_balance(cpu);
            self.irq_exit(cpu);
        }
    }

    /// `sched_ttwu_pending`: the CPU queues what is on its list.
    #[inline]
    pub(crate) fn sched_ttwu_pending(&mut self, cpu: CpuId) {
        if std::mem::take(&mut self.s.rqs[cpu.at()].ttwu_pending) {
            self.queue_wake_list(cpu);
        }
    }

    #[inline(never)]
    fn queue_wake_list(&mut self, cpu: CpuId) {
        // Lent out meanwhile: nobody else wakes a thread.
        let mut list = std::mem::take(&mut self.cpus[cpu.at()].wake_list);
        if self.s.ttwu_queue == Generation::V5_7 {
            list.reverse();
        }
        for wakeup in list.drain(..) {
            self.ttwu_do_activate(wakeup, cpu, cpu);
        }
        self.cpus[cpu.at()].wake_list = list;
    }

    /// `ttwu_do_activate`: `from` puts the thread on the queue of `cpu`.
    fn ttwu_do_activate(&mut self, wakeup: Wakeup, cpu: CpuId, from: CpuId) {
        let Wakeup { pid, migrated, iowait } = wakeup;
        self.activate(pid, cpu, from, Enqueue { wakeup: true, migrated, ..Enqueue::default() }, iowait);
        self.update_avg_idle(cpu);
        self.check_preempt(pid, cpu, from, false);
        let (prio, in_irq) = (self.prio(pid), self.cpus[from.at()].in_irq);
        self.trace_sched(from, Event::SchedWakeup { pid, prio, target_cpu: cpu, in_irq });
        self.task_woken(pid, cpu, from);
    }
}
