//! A program, checked and prepared: every index is in range, every loop matched, and the state an op keeps per thread has its
//! place.

use std::rc::Rc;
use wattif_model::workload::dist::Dist;
use wattif_model::workload::{Amount, Op, TaskSpec, Workload};

/// A prepared program.
#[derive(Clone, Debug, Default)]
pub(super) struct Code {
    /// Shared, so that who executes them can borrow everything else.
    pub instrs: Rc<[Instr]>,
    /// Loop counters a thread needs.
    pub loops: usize,
    /// Timers of its own a thread needs.
    pub timers: usize,
    /// Places in sequences a thread needs; at least one, which all other distributions share.
    pub sequences: usize,
}

/// An op, and where a thread keeps what belongs to it.
#[derive(Clone, Debug)]
pub(super) struct Instr {
    pub op: Op,
    /// Loop counter of `Loop` and `LoopEnd`, or the thread's own timer of `Timer`.
    pub local: u32,
    /// Place in the op's sequence.
    pub sequence: u32,
}

impl Code {
    /// Checks the program of `task`; the error is for people.
    pub fn new(task: &TaskSpec, workload: &Workload) -> Result<Code, String> {
        let ops = &task.program.ops;
        let mut code = Code { sequences: 1, ..Code::default() };
        let mut instrs: Vec<Instr> = Vec::with_capacity(ops.len());
        let mut own_timers: Vec<u32> = Vec::new();
        if task.group as usize >= workload.groups.len().max(1) {
            return Err(format!("task `{}`: group {} does not exist", task.name, task.group));
        }
        for (pc, op) in ops.iter().enumerate() {
            check(op, pc, ops, workload).map_err(|why| format!("task `{}`, op {pc}: {why}", task.name))?;
            let local = match *op {
                Op::Loop { .. } => next(&mut code.loops),
                Op::LoopEnd { begin } => instrs[begin as usize].local,
                Op::Timer { timer, .. } | Op::Anchor { timer, .. } => own(&mut own_timers, timer),
                _ => 0,
            };
            let sequence = if has_sequence(op) { next(&mut code.sequences) } else { 0 };
            instrs.push(Instr { op: op.clone(), local, sequence });
        }
        (code.instrs, code.timers) = (instrs.into(), own_timers.len());
        Ok(code)
    }
}

fn next(n: &mut usize) -> u32 {
    *n += 1;
    *n as u32 - 1
}

fn own(timers: &mut Vec<u32>, timer: u32) -> u32 {
    let at = timers.iter().position(|&t| t == timer).unwrap_or_else(|| {
        timers.push(timer);
        timers.len() - 1
    });
    at as u32
}

fn amount(op: &Op) -> Option<&Amount> {
    match op {
        Op::Run(a) | Op::RunInsensitive(a) | Op::Sleep(a) => Some(a),
        Op::Spin { wall: a, .. }
        | Op::SpinThenBlock { spin: a, .. }
        | Op::Timer { period: a, .. }
        | Op::Device { service: a, .. }
        | Op::TakeWork { per_iteration: a, .. } => Some(a),
        _ => None,
    }
}

fn has_sequence(op: &Op) -> bool {
    matches!(amount(op), Some(Amount::Random(Dist::Sequence { .. })))
}

fn check(op: &Op, pc: usize, ops: &[Op], w: &Workload) -> Result<(), String> {
    let index = |what: &str, i: u32, len: usize| {
        if (i as usize) < len { Ok(()) } else { Err(format!("{what} {i} does not exist")) }
    };
    match *op {
        Op::SpinThenBlock { queue, .. } | Op::Put { queue, .. } | Op::Get(queue) => {
            index("queue", queue, w.queues.len())
        }
        Op::Drain { from, to, .. } => {
            index("queue", from, w.queues.len())?;
            index("queue", to, w.queues.len())?;
            if from == to { Err("a queue cannot be drained into itself".into()) } else { Ok(()) }
        }
        Op::Timer { timer, .. } => index("timer", timer, w.timers.len()),
        Op::Anchor { timer, period, .. } => {
            index("timer", timer, w.timers.len())?;
            if (1..=u64::MAX / 2).contains(&period) { Ok(()) } else { Err(format!("an anchor every {period} ns")) }
        }
        // Twice the period is added up in u64.
        Op::Vsync { period, .. } if !(1..=u64::MAX / 2).contains(&period) => Err(format!("a vsync every {period} ns")),
        Op::Lock(m) | Op::Unlock(m) => index("mutex", m, w.mutexes.len()),
        Op::Wait { cond, mutex } => {
            index("condition", cond, w.conds.len())?;
            mutex.map_or(Ok(()), |m| index("mutex", m, w.mutexes.len()))
        }
        Op::Signal(c) | Op::Broadcast(c) => index("condition", c, w.conds.len()),
        Op::Barrier(b) => index("barrier", b, w.barriers.len()),
        Op::SemPost(s) | Op::SemWait(s) => index("semaphore", s, w.semaphores.len()),
        Op::Device { device, .. } => {
            index("device", device, w.devices.len())?;
            let served = w.devices[device as usize].servers > 0;
            if served { Ok(()) } else { Err(format!("device {device} has no servers")) }
        }
        Op::TakeWork { counter, done, .. } => {
            index("counter", counter, w.counters.len())?;
            index("jump target", done, ops.len() + 1)
        }
        Op::ResetWork(c) => index("counter", c, w.counters.len()),
        Op::Loop { end, .. } => match ops.get(end as usize) {
            Some(Op::LoopEnd { begin }) if *begin as usize == pc && end as usize > pc => Ok(()),
            _ => Err(format!("its end is not at {end}")),
        },
        Op::LoopEnd { begin } => match ops.get(begin as usize) {
            Some(Op::Loop { end, .. }) if *end as usize == pc && (begin as usize) < pc => Ok(()),
            _ => Err(format!("its loop is not at {begin}")),
        },
        Op::Jump(to) => index("jump target", to, ops.len() + 1),
        Op::Fork(task) => index("task", task, w.tasks.len()),
        Op::SetGroup(group) => index("group", group, w.groups.len().max(1)),
        Op::Mark(mark) => index("mark", mark, w.marks.len()),
        Op::Run(_)
        | Op::RunInsensitive(_)
        | Op::Spin { .. }
        | Op::Sleep(_)
        | Op::Vsync { .. }
        | Op::Yield
        | Op::Touch
        | Op::Exit
        | Op::SetAttr(_)
        | Op::SetAffinity(_)
        | Op::PhaseBegin
        | Op::PhaseEnd { .. }
        | Op::MarkBegin => Ok(()),
    }
}
