//! Idle states: entering takes its time, and a wake-up during it has to wait for its end; leaving takes its own. A state of
//! the core or the cluster is reached only when all its CPUs have asked for that or a deeper one; until then the CPU is in
//! the deepest that all have asked for, or its own deepest of narrower scope, and leaves at that state's price. Once
//! reached, it is left by the first of them; who follows has power when that one has.

use super::Machine;
use wattif_model::platform::{IdleState, Scope};
use wattif_model::{CpuId, Pid};

/// A CPU's sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sleep {
    /// State asked for.
    pub state: usize,
    /// In that state it polls: it sees new work without an interrupt.
    pub polls: bool,
    /// Where on the way it is.
    pub phase: Phase,
    /// When it began, ns.
    pub began: u64,
    /// When an interrupt asked for its end, ns; until then the latest time there is.
    pub woken: u64,
}

impl Sleep {
    /// Has an interrupt asked for its end?
    pub fn is_over(&self) -> bool {
        self.woken != u64::MAX
    }
}

/// Stages of a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// On the way in, until then.
    Entering(u64),
    /// In.
    Asleep,
    /// On the way out, until then, of a state of that scope.
    Leaving(u64, Scope),
}

impl Machine {
    /// Begins to enter `state`; returns when it will be reached.
    pub fn enter_idle(&mut self, cpu: CpuId, state: usize, now: u64) -> u64 {
        self.execute(cpu, Pid(0), now);
        let entry_ns = self.states(cpu)[self.reachable(cpu, state)].actual.entry_ns;
        let reached = now + entry_ns;
        let phase = if reached > now { Phase::Entering(reached) } else { Phase::Asleep };
        let polls = self.states(cpu)[state].polling && !self.prescient;
        self.cpus[cpu.at()].sleep = Some(Sleep { state, polls, phase, began: now, woken: u64::MAX });
        reached
    }

    /// The way in is done.
    pub fn reached_idle(&mut self, cpu: CpuId) {
        let sleep = self.cpus[cpu.at()].sleep.as_mut().expect("the CPU was on its way in");
        sleep.phase = Phase::Asleep;
    }

    /// An interrupt for a sleeping CPU: when it will execute again; `None` if another has asked for that already.
    pub fn wake(&mut self, cpu: CpuId, now: u64) -> Option<u64> {
        let sleep = self.cpus[cpu.at()].sleep.filter(|s| !s.is_over())?;
        let from = match sleep.phase {
            Phase::Entering(until) => until,
            Phase::Asleep | Phase::Leaving(..) => now,
        };
        let (exit_ns, scope) = self.way_out(cpu, sleep.state);
        let ready = if self.prescient { now } else { (from + exit_ns).max(self.powered_up(cpu)) };
        self.cpus[cpu.at()].sleep = Some(Sleep { phase: Phase::Leaving(ready, scope), woken: now, ..sleep });
        Some(ready)
    }

    /// What leaving a state would take now, ns, and the scope of what is left.
    fn way_out(&self, cpu: CpuId, state: usize) -> (u64, Scope) {
        let left = &self.states(cpu)[self.reachable(cpu, state)];
        (left.actual.exit_ns, left.scope)
    }

    /// The CPU knows that its sleep ends at `end`: when it has to leave, or `None` if that is now; then it is on its way out.
    pub fn leave_in_time(&mut self, cpu: CpuId, end: u64, now: u64) -> Option<u64> {
        let sleep = self.cpus[cpu.at()].sleep.expect("the CPU is asleep");
        let (exit_ns, scope) = self.way_out(cpu, sleep.state);
        let out = end.saturating_sub(exit_ns);
        if out > now {
            return Some(out);
        }
        self.cpus[cpu.at()].sleep = Some(Sleep { phase: Phase::Leaving(end, scope), ..sleep });
        None
    }

    /// When the core and the cluster of a CPU have power again that another CPU's wake-up gives them; 0 if that is not under way.
    fn powered_up(&self, cpu: CpuId) -> u64 {
        let until = |of: Scope| {
            move |c: CpuId| match self.cpus[c.at()].sleep?.phase {
                Phase::Leaving(until, scope) if scope == of => Some(until),
                _ => None,
            }
        };
        // Few machines have states of a cluster, and its CPUs may be many.
        let shared = self.states(cpu).iter().any(|s| s.scope == Scope::Cluster);
        let cluster = &self.platform.clusters[self.platform.cpus[cpu.at()].cluster.at()].cpus;
        let cluster = if shared { cluster.iter().filter_map(until(Scope::Cluster)).max() } else { None };
        let core = self.threads_of(cpu).iter().copied().filter_map(until(Scope::Core)).max();
        cluster.max(core).unwrap_or(0)
    }

    /// The way out is done: the sleep that ended.
    pub fn left_idle(&mut self, cpu: CpuId, now: u64) -> Sleep {
        let c = &mut self.cpus[cpu.at()];
        c.since = now;
        c.sleep.take().expect("the CPU was asleep")
    }

    /// Is the CPU asleep in a polling state, where it sees new work without an interrupt?
    pub fn is_polling(&self, cpu: CpuId) -> bool {
        self.cpus[cpu.at()].sleep.is_some_and(|s| s.polls)
    }

    /// Is the CPU asleep in a state that an interrupt has to end before it is handled? One that polls executes, handles it, and goes
    /// on polling unless a thread is to run (`poll_idle`).
    pub fn must_wake(&self, cpu: CpuId) -> bool {
        self.cpus[cpu.at()].sleep.is_some_and(|s| s.phase != Phase::Asleep || !s.polls)
    }

    /// The state whose power a CPU draws that has asked for `state`: a state of the core needs all its hardware threads.
    /// States of a cluster count for the cluster's own power.
    pub fn powered(&self, cpu: CpuId, state: usize) -> usize {
        if self.states(cpu)[state].scope == Scope::Core { self.reachable(cpu, state) } else { state }
    }

    /// The state the hardware can be in now: `state`, or the deepest one that all others of its scope have asked for as
    /// well, or for a deeper one.
    fn reachable(&self, cpu: CpuId, state: usize) -> usize {
        let states = &self.states(cpu)[..=state];
        if states[state].scope == Scope::Cpu {
            return state;
        }
        let core = self.shallowest(cpu, self.threads_of(cpu).iter().copied());
        let cluster = &self.platform.clusters[self.platform.cpus[cpu.at()].cluster.at()].cpus;
        let cluster = states.iter().any(|s| s.scope == Scope::Cluster).then(|| self.shallowest(cpu, cluster.iter()));
        let within_reach = |s: &usize| match states[*s].scope {
            Scope::Cpu => true,
            Scope::Core => *s <= core,
            Scope::Cluster => cluster.is_some_and(|shallowest| *s <= shallowest),
        };
        (0..=state).rev().find(within_reach).unwrap_or(0)
    }

    /// The shallowest state that one of the others is in; 0 where one is in none.
    fn shallowest(&self, cpu: CpuId, all: impl Iterator<Item = CpuId>) -> usize {
        let asleep = |c: CpuId| self.cpus[c.at()].sleep.filter(|s| s.phase == Phase::Asleep).map_or(0, |s| s.state);
        all.filter(|&c| c != cpu).map(asleep).min().unwrap_or(usize::MAX)
    }

    fn states(&self, cpu: CpuId) -> &[IdleState] {
        self.platform.idle_states(cpu)
    }
}
