//! Interrupts that wake no thread: of devices, of firmware, of other CPUs that want a function called.
//!
//! They cost the running thread time, or end a sleep that no timer announced. Whether and how often they come is the platform's
//! ([`Interrupts`]); each CPU draws from a stream of its own.

use crate::engine::rng::Rng;
use crate::simulation::{Kernel, Source};
use wattif_model::CpuId;
use wattif_model::platform::Interrupts;

/// Those of one CPU.
#[derive(Debug)]
pub struct Stray {
    rng: Rng,
    /// So many more of this burst.
    burst_left: u32,
    /// They came while the CPU was asleep, and take so long on the way out, ns.
    pub pending_ns: u64,
}

impl Stray {
    /// None has come yet.
    pub fn new(rng: Rng) -> Stray {
        Stray { rng, burst_left: 0, pending_ns: 0 }
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
}

impl Kernel<'_, '_> {
    pub(crate) fn start_interrupts(&mut self) {
        for cpu in 0..self.strays.len() {
            self.arm_stray(CpuId(cpu as u32));
        }
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
        self.arm_stray(cpu);
        if self.m.cpus[cpu.at()].sleep.is_some() {
            self.strays[cpu.at()].pending_ns += work_ns;
            return self.wake_cpu(cpu);
        }
        self.irq_enter(cpu, work_ns);
        self.irq_exit(cpu);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_follows_each() {
        let of = Interrupts { interval_ns: 1_000_000_000, work_ns: 1000, burst: 2, burst_gap_ns: 10 };
        let mut stray = Stray::new(Rng::stream(1, "interrupts/0"));
        let gaps: Vec<bool> = (0..7).map(|_| stray.gap_ns(&of) > 10_000).collect();
        assert_eq!(gaps, [true, false, false, true, false, false, true]);
    }
}
