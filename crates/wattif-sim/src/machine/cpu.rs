//! Execution: work at the present speed, kernel overhead before it, siblings that share a core.
//!
//! Work is exact. A CPU of speed `c` (capacity at its operating point × its share of the core) consumes `c` units per ns;
//! a step of `left` units ends after ⌈left / c⌉ ns.

use super::Machine;
use super::idle::Sleep;
use wattif_model::units::CAPACITY_SCALE;
use wattif_model::{CpuId, Pid};

/// A CPU: whose step it executes, and how fast.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu {
    /// Who executes; 0: nobody.
    pub running: Pid,
    /// Asleep, or on the way in or out.
    pub sleep: Option<Sleep>,
    /// Everything up to here is accounted, ns.
    pub since: u64,
    /// Kernel work still to do before the thread goes on, ns.
    pub stall_ns: u64,
    /// Units per ns of work that scales with frequency.
    pub speed: u64,
    /// Units per ns of work that does not.
    pub insensitive_speed: u64,
}

/// What is left of a thread's step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Segment {
    /// Nothing: the program goes on.
    #[default]
    Done,
    /// Work that scales with capacity and frequency, units.
    Scaled(u64),
    /// Work that does not, units.
    Insensitive(u64),
    /// Spin in chunks of `chunk` units until the clock shows `until`.
    Spin {
        /// Wall time at which it ends, ns.
        until: u64,
        /// Units between two looks at the clock.
        chunk: u64,
        /// Units left of the present chunk.
        left: u64,
    },
}

impl Segment {
    /// Time it takes from `now` on at the given speeds, ns.
    fn time_left(self, now: u64, speed: u64, insensitive: u64) -> u64 {
        match self {
            Segment::Done => 0,
            Segment::Scaled(units) => units.div_ceil(speed),
            Segment::Insensitive(units) => units.div_ceil(insensitive),
            Segment::Spin { until, chunk, left } => {
                let first = left.div_ceil(speed);
                let each = chunk.div_ceil(speed).max(1);
                first + until.saturating_sub(now + first).div_ceil(each) * each
            }
        }
    }

    /// After `ns` of execution that ended at `now`.
    fn after(self, ns: u64, now: u64, speed: u64, insensitive: u64) -> Segment {
        match self {
            Segment::Done => Segment::Done,
            Segment::Scaled(units) => Segment::scaled(units.saturating_sub(ns * speed)),
            Segment::Insensitive(units) => match units.saturating_sub(ns * insensitive) {
                0 => Segment::Done,
                left => Segment::Insensitive(left),
            },
            Segment::Spin { until, chunk, left } => {
                let done = ns * speed;
                if done < left {
                    return Segment::Spin { until, chunk, left: left - done };
                }
                // The chunk in which the clock passed `until` is the last.
                let into = (done - left) % chunk;
                let at_boundary = now - into / speed;
                if at_boundary >= until { Segment::Done } else { Segment::Spin { until, chunk, left: chunk - into } }
            }
        }
    }

    fn scaled(units: u64) -> Segment {
        if units == 0 { Segment::Done } else { Segment::Scaled(units) }
    }

    /// Work that has to be done whatever the clock shows, units.
    fn work(self) -> u64 {
        match self {
            Segment::Scaled(units) | Segment::Insensitive(units) => units,
            Segment::Done | Segment::Spin { .. } => 0,
        }
    }
}

impl Machine {
    /// Gives a thread its next step. Work is conserved: the last step is done, or was a spin that has become void.
    #[inline(always)]
    pub fn give(&mut self, pid: Pid, segment: Segment) {
        let old = std::mem::replace(&mut self.segments[pid.at()], segment);
        assert_eq!(old.work(), 0, "thread {} gets a new step before the last is done", pid.0);
        self.given[pid.at()] += u128::from(segment.work());
    }

    /// Work a thread has executed so far, units: what it was given less what is left of it.
    pub fn executed(&self, pid: Pid) -> u128 {
        self.given[pid.at()] - u128::from(self.segments[pid.at()].work())
    }

    /// Accounts what a CPU has executed up to `now`.
    #[inline]
    pub fn account(&mut self, cpu: CpuId, now: u64) {
        let c = &mut self.cpus[cpu.at()];
        let ns = now - c.since;
        c.since = now;
        if c.running != Pid(0) && ns != 0 {
            self.account_running(cpu, ns, now);
        }
    }

    fn account_running(&mut self, cpu: CpuId, ns: u64, now: u64) {
        let c = &mut self.cpus[cpu.at()];
        let stalled = ns.min(c.stall_ns);
        c.stall_ns -= stalled;
        if ns > stalled {
            let segment = &mut self.segments[c.running.at()];
            *segment = segment.after(ns - stalled, now, c.speed, c.insensitive_speed);
        }
    }

    /// When the present step of the running thread ends, kernel overhead included; the CPU is accounted up to now.
    #[inline(always)]
    pub fn step_end(&self, cpu: CpuId) -> Option<u64> {
        let c = &self.cpus[cpu.at()];
        (c.running != Pid(0)).then(|| {
            let start = c.since + c.stall_ns;
            start + self.segments[c.running.at()].time_left(start, c.speed, c.insensitive_speed)
        })
    }

    /// From now on the CPU executes `pid` (0: nobody) after the overhead it already has.
    pub fn execute(&mut self, cpu: CpuId, pid: Pid, now: u64) {
        self.account(cpu, now);
        self.cpus[cpu.at()].running = pid;
        if pid == Pid(0) {
            self.cpus[cpu.at()].stall_ns = 0;
        }
    }

    /// Recomputes the speed of a CPU from its clock and its busy siblings. The CPU must be accounted up to now.
    pub fn update_speed(&mut self, cpu: CpuId) {
        let info = &self.platform.cpus[cpu.at()];
        let opp = self.clocks[info.domain.at()].opp;
        let capacity = u64::from(self.platform.domains[info.domain.at()].opps[opp].capacity);
        let share = if self.platform.smt_share.len() > 1 { self.smt_share(cpu) } else { CAPACITY_SCALE };
        let c = &mut self.cpus[cpu.at()];
        // Never zero: a CPU that executes makes progress.
        c.speed = (capacity * share / CAPACITY_SCALE).max(1);
        c.insensitive_speed = share.max(1);
    }

    /// A CPU's share of its core in 1024ths, by the number of busy hardware threads.
    fn smt_share(&self, cpu: CpuId) -> u64 {
        let threads = self.threads_of(cpu).iter();
        let busy = threads.filter(|c| **c == cpu || self.cpus[c.at()].running != Pid(0)).count();
        self.platform.share_of_core(busy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_ends_at_the_ceiling() {
        assert_eq!(Segment::Scaled(1000).time_left(0, 3, 1024), 334);
        assert_eq!(Segment::Scaled(1000).after(333, 333, 3, 1024), Segment::Scaled(1));
        assert_eq!(Segment::Scaled(1000).after(334, 334, 3, 1024), Segment::Done);
    }

    #[test]
    fn a_spin_ends_with_the_chunk_in_which_the_clock_passes() {
        let spin = Segment::Spin { until: 100, chunk: 30, left: 30 };
        assert_eq!(spin.time_left(0, 1, 1024), 120);
        assert_eq!(spin.after(120, 120, 1, 1024), Segment::Done);
        // Preempted for long after the first 10 ns: one more chunk end, then it is over.
        let preempted = spin.after(10, 10, 1, 1024);
        assert_eq!(preempted.time_left(500, 1, 1024), 20);
    }
}
