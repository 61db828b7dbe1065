//! Which blocked threads can still go on: what every live thread may yet do, followed to a fixpoint.
//!
//! A live thread that does not wait walks on through the rest of its program; a branch may be taken or not. At an op that
//! would block (a mutex that is held, a semaphore at 0, a condition …) the walk stops, until another walk passes an op that
//! gives what it waits for: from there on both go on. A blocked thread sets out when somebody gives what it waits for.
//! Whoever has not set out when no walk can go further is stuck: each thread that could help waits itself, or has ended.
//!
//! A walk does more than a thread will (it takes both branches, and what was given once stays given), so that a thread called
//! stuck is. The reverse does not hold: who would be helped only in an order that never comes is not found.

use super::deadlock::{Given, Kind, successors};
use super::{Code, Pending, Programs, Thread, WaitReason};
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::workload::Op;

/// Ops that all walks together may have before them; with more, no thread is called stuck.
const MAX_OPS: usize = 1 << 24;

/// The rest of a program on its way.
struct Walk<'a> {
    code: &'a Code,
    /// `None`: of a thread that has yet to be forked.
    thread: Option<&'a Thread>,
    seen: Vec<bool>,
}

/// All walks, and what they have given so far.
struct Outlook<'a> {
    programs: &'a Programs,
    walks: Vec<Walk<'a>>,
    /// Where to go on: walk and place.
    todo: Vec<(usize, u32)>,
    /// Blocked threads that have not set out.
    blocked: BTreeMap<Given, Vec<&'a Thread>>,
    /// Walks that wait, and where they would go on.
    halted: BTreeMap<Given, Vec<(usize, u32)>>,
    given: BTreeSet<Given>,
    /// Walks that have come to a barrier.
    arrived: BTreeMap<u32, BTreeSet<usize>>,
    forked: BTreeSet<u32>,
    ops: usize,
}

impl Programs {
    /// Blocked threads, by what they wait for, that no thread will ever let go on.
    pub(super) fn stuck(&self) -> BTreeMap<Given, Vec<&Thread>> {
        let mut outlook = Outlook {
            programs: self,
            walks: Vec::new(),
            todo: Vec::new(),
            blocked: BTreeMap::new(),
            halted: BTreeMap::new(),
            given: BTreeSet::new(),
            arrived: BTreeMap::new(),
            forked: BTreeSet::new(),
            ops: 0,
        };
        self.threads.iter().flatten().filter(|t| t.pending != Pending::Dead).for_each(|t| outlook.add(t));
        outlook.follow();
        if outlook.ops > MAX_OPS { BTreeMap::new() } else { outlook.blocked }
    }
}

impl<'a> Outlook<'a> {
    /// A blocked thread is kept; any other sets out, or competes first for what it was woken for.
    fn add(&mut self, thread: &'a Thread) {
        let about_to =
            if let Pending::Wait { cond, .. } = thread.pending { Some(WaitReason::Cond(cond)) } else { None };
        match thread.waiting.or(about_to).and_then(Given::of) {
            Some(on) => self.blocked.entry(on).or_default().push(thread),
            None => match thread.pending {
                Pending::Mutex(m) | Pending::Cond(Some(m)) => self.set_out(thread, Some((Kind::Mutex, m).into())),
                Pending::Semaphore(s) => self.set_out(thread, Some((Kind::Semaphore, s).into())),
                Pending::Poll { queue, got: false } => self.set_out(thread, Some((Kind::Queue, queue).into())),
                _ => self.set_out(thread, None),
            },
        }
    }

    fn set_out(&mut self, thread: &'a Thread, competes_for: Option<Given>) {
        let code = &self.programs.code[thread.task as usize];
        let walk = self.walk(code, Some(thread));
        match competes_for {
            Some(on) => self.pass(on, walk, thread.pc),
            None => self.todo.push((walk, thread.pc)),
        }
    }

    fn walk(&mut self, code: &'a Code, thread: Option<&'a Thread>) -> usize {
        self.ops += code.instrs.len();
        let seen = if self.ops > MAX_OPS { Vec::new() } else { vec![false; code.instrs.len()] };
        self.walks.push(Walk { code, thread, seen });
        self.walks.len() - 1
    }

    /// Every walk as far as it can go. There is nothing to find out once no thread is left blocked.
    fn follow(&mut self) {
        while !self.blocked.is_empty() && self.ops <= MAX_OPS {
            let Some((walk, pc)) = self.todo.pop() else { return };
            let Walk { code, seen, .. } = &mut self.walks[walk];
            let code: &'a Code = code;
            let Some(instr) = code.instrs.get(pc as usize) else { continue };
            if !std::mem::replace(&mut seen[pc as usize], true) {
                self.op(&instr.op, walk, pc);
            }
        }
    }

    fn op(&mut self, op: &'a Op, walk: usize, pc: u32) {
        match *op {
            Op::Lock(m) => return self.pass((Kind::Mutex, m).into(), walk, pc + 1),
            Op::SemWait(s) => return self.pass((Kind::Semaphore, s).into(), walk, pc + 1),
            Op::Get(q) | Op::SpinThenBlock { queue: q, .. } => {
                return self.pass((Kind::Queue, q).into(), walk, pc + 1);
            }
            Op::Wait { cond, mutex } => {
                mutex.into_iter().for_each(|m| self.unlock(m, walk));
                return self.pass((Kind::Cond, cond).into(), walk, pc + 1);
            }
            Op::Barrier(b) => {
                self.arrive(b, walk);
                return self.pass((Kind::Barrier, b).into(), walk, pc + 1);
            }
            Op::Unlock(m) => self.unlock(m, walk),
            Op::Fork(task) if self.forked.insert(task) => {
                let child = self.walk(&self.programs.code[task as usize], None);
                self.todo.push((child, 0));
            }
            _ => Given::by(op).into_iter().for_each(|given| self.give(given)),
        }
        let Walk { code, thread, .. } = &self.walks[walk];
        self.todo.extend(successors(code, *thread, pc).map(|next| (walk, next)));
    }

    /// Go on at `pc` where that need not be waited for; else when it is given.
    fn pass(&mut self, on: Given, walk: usize, pc: u32) {
        if self.given.contains(&on) || self.is_there(on) {
            self.todo.push((walk, pc));
        } else {
            self.halted.entry(on).or_default().push((walk, pc));
        }
    }

    /// Is it to be had as the run ends?
    fn is_there(&self, on: Given) -> bool {
        let (resources, at) = (&self.programs.resources, on.index as usize);
        match on.kind {
            Kind::Mutex => resources.mutexes[at].owner.is_none(),
            Kind::Semaphore => resources.semaphores[at].count > 0,
            Kind::Queue => !resources.queues[at].tokens.is_empty(),
            Kind::Cond | Kind::Barrier => false,
        }
    }

    /// A mutex that lends priority is released by its owner alone.
    fn unlock(&mut self, mutex: u32, walk: usize) {
        let owner = self.programs.resources.mutexes[mutex as usize].owner;
        let owner = owner.map(|pid| self.programs.thread_ref(pid));
        let same = |a: Option<&Thread>, b: Option<&Thread>| a.zip(b).is_some_and(|(a, b)| std::ptr::eq(a, b));
        if !self.programs.workload.pi_enabled || same(owner, self.walks[walk].thread) {
            self.give((Kind::Mutex, mutex).into());
        }
    }

    /// The last of the parties that are missing lets all go. How many threads a task will be forked into is not known.
    fn arrive(&mut self, barrier: u32, walk: usize) {
        let b = &self.programs.resources.barriers[barrier as usize];
        let missing = b.parties.saturating_sub(b.arrived) as usize;
        let arrived = self.arrived.entry(barrier).or_default();
        arrived.insert(walk);
        if arrived.len() >= missing || self.walks[walk].thread.is_none() {
            self.give((Kind::Barrier, barrier).into());
        }
    }

    fn give(&mut self, given: Given) {
        if self.given.insert(given) {
            self.todo.extend(self.halted.remove(&given).into_iter().flatten());
            self.blocked.remove(&given).into_iter().flatten().for_each(|t| self.set_out(t, None));
        }
    }
}

impl Given {
    /// What ends this wait; `None`: it ends by itself.
    pub(super) fn of(on: WaitReason) -> Option<Given> {
        let (kind, index) = match on {
            WaitReason::Mutex(i) => (Kind::Mutex, i),
            WaitReason::Cond(i) => (Kind::Cond, i),
            WaitReason::Barrier(i) => (Kind::Barrier, i),
            WaitReason::Semaphore(i) => (Kind::Semaphore, i),
            WaitReason::Queue(i) => (Kind::Queue, i),
            WaitReason::Device(_) | WaitReason::Completion(_) => return None,
        };
        Some(Given { kind, index })
    }
}
