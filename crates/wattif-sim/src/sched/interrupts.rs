//! Interrupts that no thread of a workload waits for: of devices, of firmware, of other CPUs that want a function called.
//!
//! They cost the running thread time, or end a sleep that no timer announced; some leave work to a background thread of the CPU.
//! Whether and how often they come is the platform's ([`Interrupts`]); each CPU draws from a stream of its own.

use crate::engine::rng::Rng;
use crate::machine::timer::TimerKind;
use crate::sched::task::State;
use crate::simulation::{Kernel, Source};
use wattif_model::platform::Interrupts;
use wattif_model::trace::IdleCause;
use wattif_model::{CpuId, Pid};

/// Those of one CPU.
#[derive(Debug)]
pub struct Stray {
    rng: Rng,
    /// So many more of this burst.
    burst_left: u32,
    /// They came while the CPU was asleep, and take so long on the way out, ns.
    pub pending_ns: u64,
    /// One of those leaves work.
    leaves_work: bool,
    /// To this thread.
    thread: Option<Pid>,
}

impl Stray {
    /// None has come yet.
    pub fn new(rng: Rng) -> Stray {
        Stray { rng, burst_left: 0, pending_ns: 0, leaves_work: false, thread: None }
    }

    /// From an interrupt to the next, ns.
    fn gap_ns(&mut self, of: &Interrupts) -> u64 {
        match self.burst_left.checked_sub(1) {
            Some(left) => {
                self.burst_left = left;
                self.rng.exponential(of.burst_gap_ns)
            }
            None => {
                self.burst_left = of.burst;
                self.rng.exponential(of.interval_ns)
            }
        }
    }

    /// Does this one leave work?
    fn draw_work(&mut self, of: &Interrupts) {
        if of.wakes_ppm > 0 {
            self.leaves_work |= self.rng.uniform(0, 999_999) < u64::from(of.wakes_ppm);
        }
    }
}

impl Kernel<'_, '_> {
    pub(crate) fn start_interrupts(&mut self) {
        for pid in (1..self.s.tasks.len() as u32).map(Pid) {
            let background = self.programs.contains(pid) && !self.programs.is_own(self.programs.task(pid));
            let cpus = &self.s.tasks[pid.at()].cpus;
            let home = cpus.min().filter(|_| background && cpus.len() == 1);
            if let Some(stray) = home.and_then(|cpu| self.strays.get_mut(cpu.at())) {
                stray.thread.get_or_insert(pid);
            }
        }
        (0..self.strays.len() as u32).for_each(|cpu| self.arm_stray(CpuId(cpu)));
    }

    fn arm_stray(&mut self, cpu: CpuId) {
        let Some(of) = self.m.platform.noise.interrupts else { return };
        let gap_ns = self.strays[cpu.at()].gap_ns(&of);
        self.arm(Source::Stray(cpu), self.s.now + gap_ns.max(1));
    }

    /// One has come.
    #[inline(never)]
    pub(crate) fn stray_interrupt(&mut self, cpu: CpuId) {
        let Some(of) = self.m.platform.noise.interrupts else { return };
        let work_ns = self.strays[cpu.at()].rng.exponential(of.work_ns).max(1);
        self.strays[cpu.at()].draw_work(&of);
        self.arm_stray(cpu);
        if self.m.must_wake(cpu) {
            self.strays[cpu.at()].pending_ns += work_ns;
            return self.wake_cpu(cpu, IdleCause::Device);
        }
        self.irq_enter(cpu, work_ns);
        self.stray_handled(cpu);
        self.note_polled(cpu, IdleCause::Device);
        self.irq_exit(cpu);
    }

    /// Its handler wakes the thread that it leaves work to, if that sleeps.
    pub(crate) fn stray_handled(&mut self, cpu: CpuId) {
        let Some(stray) = self.strays.get_mut(cpu.at()) else { return };
        let Some(pid) = stray.thread.filter(|_| std::mem::take(&mut stray.leaves_work)) else { return };
        if self.s.tasks[pid.at()].state == State::Sleeping && self.m.timers.cancel(pid, TimerKind::Sleep) {
            self.try_to_wake_up(pid, cpu, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_follows_each() {
        let of = Interrupts { interval_ns: 1_000_000_000, work_ns: 1000, burst: 2, burst_gap_ns: 10, wakes_ppm: 0 };
        let mut stray = Stray::new(Rng::stream(1, "interrupts/0"));
        let gaps: Vec<bool> = (0..7).map(|_| stray.gap_ns(&of) > 10_000).collect();
        assert_eq!(gaps, [true, false, false, true, false, false, true]);
    }
}
