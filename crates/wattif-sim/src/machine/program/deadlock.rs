//! Who is blocked for ever at the end of a run, and who could have prevented it.

use super::{Code, Pending, Programs, Thread, WaitReason};
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::run::{Blocked, MAX_GIVERS};
use wattif_model::workload::Op;

/// What a thread can wait for and others give: kind and index.
type Given = (Kind, u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Cond,
    Barrier,
    Semaphore,
    Queue,
}

impl Programs {
    /// Threads that can never go on: all, when every thread of the first `tasks` tasks that is left waits for another; else
    /// those whose mutex is held by a thread that has ended or waits, over other mutexes, for itself. In order of creation.
    pub fn deadlocked(&self, tasks: u32) -> Vec<Blocked> {
        let of_interest = |t: &&Thread| t.task < tasks && t.pending != Pending::Dead;
        let mut left = self.threads.iter().flatten().filter(of_interest).peekable();
        let all = left.peek().is_some() && left.all(|t| t.waiting.is_some_and(|on| !on.ends_by_itself()));
        let stuck = |t: &Thread| t.waiting.is_some_and(|on| all || self.never_released(on));
        let stuck = self.threads.iter().flatten().filter(|t| t.task < tasks && stuck(t));
        let mut stuck = stuck.peekable();
        let givers = if stuck.peek().is_some() { self.givers() } else { BTreeMap::new() };
        stuck.filter_map(|t| Some(self.blocked(t, t.waiting?, &givers))).collect()
    }

    /// Does the chain of owners lead to a thread that has ended, or round in a circle?
    fn never_released(&self, on: WaitReason) -> bool {
        let mut on = on;
        for _ in 0..self.threads.len() {
            let WaitReason::Mutex(m) = on else { return false };
            let Some(owner) = self.resources.mutexes[m as usize].owner else { return false };
            let owner = self.thread_ref(owner);
            match owner.waiting {
                Some(next) => on = next,
                None => return owner.pending == Pending::Dead,
            }
        }
        true
    }

    fn blocked(&self, thread: &Thread, on: WaitReason, givers: &BTreeMap<Given, Vec<&Thread>>) -> Blocked {
        let w = &self.workload;
        let (kind, name, given) = match on {
            WaitReason::Mutex(i) => ("mutex", &w.mutexes[i as usize].name, None),
            WaitReason::Cond(i) => ("condition", &w.conds[i as usize].name, Some((Kind::Cond, i))),
            WaitReason::Barrier(i) => ("barrier", &w.barriers[i as usize].name, Some((Kind::Barrier, i))),
            WaitReason::Semaphore(i) => ("semaphore", &w.semaphores[i as usize].name, Some((Kind::Semaphore, i))),
            WaitReason::Queue(i) => ("queue", &w.queues[i as usize].name, Some((Kind::Queue, i))),
            WaitReason::Device(i) | WaitReason::Completion(i) => ("device", &w.devices[i as usize].name, None),
        };
        let holder = match on {
            WaitReason::Mutex(i) => self.resources.mutexes[i as usize].owner,
            _ => None,
        };
        // Who waits at a barrier has come to it.
        let of_use = |t: &&&Thread| !matches!(on, WaitReason::Barrier(_)) || t.waiting != Some(on);
        let givers = given.and_then(|g| givers.get(&g)).into_iter().flatten().filter(of_use);
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

/// What a thread could still give from its place in its program on. A branch may be taken or not; a loop goes back while it
/// has rounds left, and an endless one is left only by a jump.
fn rest(code: &Code, thread: &Thread) -> BTreeSet<Given> {
    let mut given = BTreeSet::new();
    let mut seen = vec![false; code.instrs.len()];
    let mut todo = vec![thread.pc];
    while let Some(pc) = todo.pop() {
        let at = pc as usize;
        if seen.get(at).is_none_or(|seen| *seen) {
            continue;
        }
        seen[at] = true;
        let instr = &code.instrs[at];
        let next = pc + 1;
        match instr.op {
            Op::Signal(c) | Op::Broadcast(c) => given.insert((Kind::Cond, c)),
            Op::Barrier(b) => given.insert((Kind::Barrier, b)),
            Op::SemPost(s) => given.insert((Kind::Semaphore, s)),
            Op::Put { queue, .. } | Op::Drain { to: queue, .. } => given.insert((Kind::Queue, queue)),
            _ => false,
        };
        match instr.op {
            Op::Exit => {}
            Op::Jump(to) => todo.push(to),
            Op::TakeWork { done, .. } => todo.extend([next, done]),
            Op::Loop { count: Some(0), end } => todo.push(end + 1),
            Op::LoopEnd { begin } => {
                let endless = matches!(code.instrs[begin as usize].op, Op::Loop { count: None, .. });
                if thread.loops[instr.local as usize] > 1 {
                    todo.push(begin + 1);
                }
                if !endless {
                    todo.push(next);
                }
            }
            _ => todo.push(next),
        }
    }
    given
}
