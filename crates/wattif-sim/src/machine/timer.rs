//! High-resolution timers: one base per CPU, ordered by the latest time a timer may fire. The interrupt is programmed for
//! the first of these; when it comes, every timer whose nominal time has passed fires with it (slack).

use crate::engine::queue::{IndexedHeap, Positions};
use wattif_model::{CpuId, Pid};

/// What a timer is for. A thread has one of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerKind {
    /// End of a sleep.
    Sleep,
    /// Replenishment of a deadline task.
    Replenish,
}

/// All timers of the machine.
#[derive(Debug)]
pub struct Timers {
    bases: Vec<IndexedHeap>,
    positions: Positions,
    soft: Vec<u64>,
    cpu: Vec<CpuId>,
}

impl Timers {
    /// One base per CPU; timers come with threads.
    pub fn new(nr_cpus: usize) -> Timers {
        let mut timers = Timers {
            bases: (0..nr_cpus).map(|_| IndexedHeap::with_capacity(16)).collect(),
            positions: Positions::new(0),
            soft: Vec::new(),
            cpu: Vec::new(),
        };
        timers.add_thread(); // the idle task has none, but pids index the tables
        timers
    }

    /// Room for the timers of one more thread.
    pub fn add_thread(&mut self) {
        for _ in 0..2 {
            self.positions.add();
            self.soft.push(0);
            self.cpu.push(CpuId(0));
        }
    }

    /// Arms a timer on a CPU: not before `soft`, not after `hard`.
    pub fn arm(&mut self, cpu: CpuId, pid: Pid, kind: TimerKind, soft: u64, hard: u64) {
        let id = Self::id(pid, kind);
        self.cancel(pid, kind);
        self.soft[id as usize] = soft;
        self.cpu[id as usize] = cpu;
        self.bases[cpu.at()].arm(&mut self.positions, id, hard.max(soft));
    }

    /// Disarms a timer; true if it was armed.
    pub fn cancel(&mut self, pid: Pid, kind: TimerKind) -> bool {
        let id = Self::id(pid, kind);
        self.positions.is_armed(id) && self.bases[self.cpu[id as usize].at()].cancel(&mut self.positions, id)
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
        let kind = if id % 2 == 0 { TimerKind::Sleep } else { TimerKind::Replenish };
        Some((Pid(id / 2), kind))
    }

    fn id(pid: Pid, kind: TimerKind) -> u32 {
        pid.0 * 2 + u32::from(kind == TimerKind::Replenish)
    }
}
