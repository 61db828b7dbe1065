//! High-resolution timers: one base per CPU, ordered by the latest time a timer may fire. The interrupt is programmed for
//! the first of these; when it comes, every timer whose nominal time has passed fires with it (slack).

use crate::engine::queue::{IndexedHeap, Positions};
use wattif_model::{CpuId, Pid};

/// What a timer is for. A thread has one of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerKind {
    /// End of a sleep.
    Sleep,
    /// Replenishment of a deadline task; of a stopper: of its CPU's fair server.
    Replenish,
    /// Zero-lag time of a deadline task.
    Inactive,
    /// Of a stopper: the hrtick of its CPU; of the idle task: real-time periods.
    Cpu,
    /// Of a group, named by its number in place of a pid: its bandwidth period ends.
    CfsPeriod,
    /// Of a group: run time that was given back is handed on.
    CfsSlack,
}

impl TimerKind {
    const OF_THREADS: [TimerKind; 4] = [TimerKind::Sleep, TimerKind::Replenish, TimerKind::Inactive, TimerKind::Cpu];
}

/// Timers of a thread.
const PER_THREAD: u32 = TimerKind::OF_THREADS.len() as u32;
/// Timers of a group.
const PER_GROUP: u32 = 2;

/// All timers of the machine.
#[derive(Debug)]
pub struct Timers {
    bases: Vec<IndexedHeap>,
    positions: Positions,
    soft: Vec<u64>,
    cpu: Vec<CpuId>,
    /// Timers of groups; they stand between those of the idle task and those of threads.
    of_groups: u32,
}

impl Timers {
    /// One base per CPU; timers come with threads.
    pub fn new(nr_cpus: usize) -> Timers {
        let mut timers = Timers {
            bases: (0..nr_cpus).map(|_| IndexedHeap::with_capacity(16)).collect(),
            positions: Positions::new(0),
            soft: Vec::new(),
            cpu: Vec::new(),
            of_groups: 0,
        };
        timers.add_thread(); // the idle task has none, but pids index the tables
        timers
    }

    /// Room for the timers of one more thread.
    pub fn add_thread(&mut self) {
        self.add(PER_THREAD);
    }

    /// Room for the timers of all groups; before the first thread.
    pub fn add_groups(&mut self, groups: usize) {
        assert_eq!(self.soft.len(), PER_THREAD as usize, "groups come before threads");
        self.of_groups = groups as u32 * PER_GROUP;
        self.add(self.of_groups);
    }

    fn add(&mut self, timers: u32) {
        for _ in 0..timers {
            self.positions.add();
            self.soft.push(0);
            self.cpu.push(CpuId(0));
        }
    }

    /// Arms a timer on a CPU: not before `soft`, not after `hard`.
    pub fn arm(&mut self, cpu: CpuId, pid: Pid, kind: TimerKind, soft: u64, hard: u64) {
        let id = self.id(pid, kind);
        self.cancel(pid, kind);
        self.soft[id as usize] = soft;
        self.cpu[id as usize] = cpu;
        self.bases[cpu.at()].arm(&mut self.positions, id, hard.max(soft));
    }

    /// Disarms a timer; true if it was armed.
    pub fn cancel(&mut self, pid: Pid, kind: TimerKind) -> bool {
        let id = self.id(pid, kind);
        self.positions.is_armed(id) && self.bases[self.cpu[id as usize].at()].cancel(&mut self.positions, id)
    }

    /// The CPU on which a timer was last armed.
    pub fn cpu_of(&self, pid: Pid, kind: TimerKind) -> CpuId {
        self.cpu[self.id(pid, kind) as usize]
    }

    /// When the interrupt of a CPU's base is due.
    pub fn next(&self, cpu: CpuId) -> Option<u64> {
        self.bases[cpu.at()].peek().map(|(hard, _)| hard)
    }

    /// Takes the next timer whose nominal time has come.
    pub fn pop_expired(&mut self, cpu: CpuId, now: u64) -> Option<(Pid, TimerKind)> {
        let (_, id) = self.bases[cpu.at()].peek()?;
        if self.soft[id as usize] > now {
            return None;
        }
        self.bases[cpu.at()].pop(&mut self.positions);
        Some(self.owner(id))
    }

    fn id(&self, pid: Pid, kind: TimerKind) -> u32 {
        match kind {
            TimerKind::CfsPeriod | TimerKind::CfsSlack => {
                PER_THREAD + pid.0 * PER_GROUP + u32::from(kind == TimerKind::CfsSlack)
            }
            _ => {
                let others = if pid.0 == 0 { 0 } else { self.of_groups };
                others + pid.0 * PER_THREAD + kind as u32
            }
        }
    }

    fn owner(&self, id: u32) -> (Pid, TimerKind) {
        let group = id.checked_sub(PER_THREAD).filter(|at| *at < self.of_groups);
        if let Some(at) = group {
            let kind = if at % PER_GROUP == 0 { TimerKind::CfsPeriod } else { TimerKind::CfsSlack };
            return (Pid(at / PER_GROUP), kind);
        }
        let at = if id < PER_THREAD { id } else { id - self.of_groups };
        let kind = TimerKind::OF_THREADS[(at % PER_THREAD) as usize];
        (Pid(at / PER_THREAD), kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_of_groups_and_threads_are_apart() {
        let mut timers = Timers::new(1);
        timers.add_groups(2);
        timers.add_thread();
        let all = [
            (Pid(1), TimerKind::Sleep),
            (Pid(1), TimerKind::Replenish),
            (Pid(0), TimerKind::CfsPeriod),
            (Pid(1), TimerKind::CfsPeriod),
            (Pid(1), TimerKind::CfsSlack),
            (Pid(0), TimerKind::Sleep),
        ];
        for (at, (pid, kind)) in all.into_iter().enumerate() {
            timers.arm(CpuId(0), pid, kind, at as u64, at as u64);
        }
        let fired: Vec<_> = std::iter::from_fn(|| timers.pop_expired(CpuId(0), 100)).collect();
        assert_eq!(fired, all);
    }
}
