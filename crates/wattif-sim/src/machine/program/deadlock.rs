//! Who is blocked for ever at the end of a run, and who could have prevented it.

use super::{Code, Pending, Programs, Thread, WaitReason};
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::run::{Blocked, MAX_GIVERS};
use wattif_model::workload::Op;

/// What a thread can wait for and others give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Given {
    pub kind: Kind,
    pub index: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Mutex,
    Cond,
    Barrier,
    Semaphore,
    Queue,
}

impl From<(Kind, u32)> for Given {
    fn from((kind, index): (Kind, u32)) -> Given {
        Given { kind, index }
    }
}

impl Given {
    /// What an op gives, whoever executes it. Not a mutex: whether that is given depends on who holds it.
    pub fn by(op: &Op) -> Option<Given> {
        let (kind, index) = match *op {
            Op::Signal(c) | Op::Broadcast(c) => (Kind::Cond, c),
            Op::Barrier(b) => (Kind::Barrier, b),
            Op::SemPost(s) => (Kind::Semaphore, s),
            Op::Put { queue, .. } | Op::Drain { to: queue, .. } => (Kind::Queue, queue),
            _ => return None,
        };
        Some(Given { kind, index })
    }
}

impl Programs {
    /// Threads of the workload that can never go on, in order of creation.
    pub fn deadlocked(&self) -> Vec<Blocked> {
        let waits = |t: &&Thread| self.is_own(t.task) && t.waiting.is_some();
        if !self.threads.iter().flatten().any(|t| waits(&t)) {
            return Vec::new();
        }
        let stuck: BTreeSet<Given> = self.stuck().into_keys().collect();
        let is_stuck = |t: &&Thread| t.waiting.and_then(Given::of).is_some_and(|on| stuck.contains(&on));
        let mut stuck = self.threads.iter().flatten().filter(waits).filter(is_stuck).peekable();
        let givers = if stuck.peek().is_some() { self.givers() } else { BTreeMap::new() };
        stuck.filter_map(|t| Some(self.blocked(t, t.waiting?, &givers))).collect()
    }

    fn blocked(&self, thread: &Thread, on: WaitReason, givers: &BTreeMap<Given, Vec<&Thread>>) -> Blocked {
        let w = &self.workload;
        let (kind, name) = match on {
            WaitReason::Mutex(i) => ("mutex", &w.mutexes[i as usize].name),
            WaitReason::Cond(i) => ("condition", &w.conds[i as usize].name),
            WaitReason::Barrier(i) => ("barrier", &w.barriers[i as usize].name),
            WaitReason::Semaphore(i) => ("semaphore", &w.semaphores[i as usize].name),
            WaitReason::Queue(i) => ("queue", &w.queues[i as usize].name),
            WaitReason::Device(i) | WaitReason::Completion(i) => ("device", &w.devices[i as usize].name),
        };
        let holder = match on {
            WaitReason::Mutex(i) => self.resources.mutexes[i as usize].owner,
            _ => None,
        };
        // Who waits at a barrier has come to it.
        let of_use = |t: &&&Thread| !matches!(on, WaitReason::Barrier(_)) || t.waiting != Some(on);
        let givers = Given::of(on).and_then(|g| givers.get(&g)).into_iter().flatten().filter(of_use);
        Blocked {
            thread: thread.name.clone(),
            waits_for: format!("{kind} `{name}`"),
            held_by: holder.map(|pid| self.name(pid).to_string()).into_iter().collect(),
            given_by: givers.take(MAX_GIVERS).map(|t| t.name.clone()).collect(),
        }
    }

    /// Live threads by what the rest of their programs gives.
    fn givers(&self) -> BTreeMap<Given, Vec<&Thread>> {
        let mut givers: BTreeMap<Given, Vec<&Thread>> = BTreeMap::new();
        for thread in self.threads.iter().flatten().filter(|t| t.pending != Pending::Dead) {
            for given in rest(&self.code[thread.task as usize], thread) {
                givers.entry(given).or_default().push(thread);
            }
        }
        givers
    }
}

/// What a thread could still give from its place in its program on, mutexes aside.
fn rest(code: &Code, thread: &Thread) -> BTreeSet<Given> {
    let mut given = BTreeSet::new();
    let mut seen = vec![false; code.instrs.len()];
    let mut todo = vec![thread.pc];
    while let Some(pc) = todo.pop() {
        if seen.get(pc as usize).is_none_or(|seen| *seen) {
            continue;
        }
        seen[pc as usize] = true;
        given.extend(Given::by(&code.instrs[pc as usize].op));
        todo.extend(successors(code, Some(thread), pc));
    }
    given
}

/// Where a program can go on behind the op at `pc`. A branch may be taken or not; a loop goes back while it has rounds left, and
/// an endless one is left only by a jump. Without a thread, all rounds are left.
pub(super) fn successors(code: &Code, thread: Option<&Thread>, pc: u32) -> impl Iterator<Item = u32> + use<> {
    let instr = &code.instrs[pc as usize];
    let next = Some(pc + 1);
    let both = match instr.op {
        Op::Exit => [None, None],
        Op::Jump(to) => [Some(to), None],
        Op::TakeWork { done, .. } => [next, Some(done)],
        Op::Loop { count: Some(0), end } => [Some(end + 1), None],
        Op::LoopEnd { begin } => {
            let endless = matches!(code.instrs[begin as usize].op, Op::Loop { count: None, .. });
            let again = thread.is_none_or(|t| t.loops[instr.local as usize] > 1);
            [again.then_some(begin + 1), if endless { None } else { next }]
        }
        _ => [next, None],
    };
    both.into_iter().flatten()
}
