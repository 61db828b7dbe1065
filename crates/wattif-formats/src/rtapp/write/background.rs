//! The background of the machine that was recorded.
//!
//! A file is for another machine, real or simulated, and that has kernel threads and daemons of its own. So they are left out, but for
//! those that a thread of the workload waits for: without them it would wait for ever.

use std::collections::{BTreeMap, BTreeSet};
use wattif_model::workload::{Op, TaskSpec, Workload};

/// What a thread can wait for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Resource {
    Cond(u32),
    Barrier(u32),
    Semaphore(u32),
    Queue(u32),
    /// To be created.
    Fork(u32),
    /// The task that is forked.
    Forked(u32),
}

/// Leaves it out. What to say of that.
pub(super) fn left_out(workload: &mut Workload) -> Option<String> {
    if !workload.is_recorded() {
        return None;
    }
    let kept = needed(&workload.tasks);
    if !kept.contains(&true) {
        return None; // a file of no tasks is none
    }
    let threads =
        |of: &mut dyn Iterator<Item = (&TaskSpec, &bool)>| of.map(|(t, _)| u64::from(t.instances)).sum::<u64>();
    let all = || workload.tasks.iter().zip(&kept).filter(|(task, _)| task.background);
    let (out, stay) = (threads(&mut all().filter(|(_, kept)| !**kept)), threads(&mut all().filter(|(_, kept)| **kept)));
    retain(workload, &kept);
    let threads = |n: u64| if n == 1 { "1 thread".to_string() } else { format!("{n} threads") };
    let mut said =
        format!("the background of the recorded machine is left out, as every machine has its own: {}", threads(out));
    if stay > 0 {
        said += &format!("; {} of it that others wait for became as all others", threads(stay));
    }
    Some(said)
}

/// Is each task of the workload's own, or does such a one wait for it?
fn needed(tasks: &[TaskSpec]) -> Vec<bool> {
    let mut givers: BTreeMap<Resource, Vec<usize>> = BTreeMap::new();
    for (at, task) in tasks.iter().enumerate() {
        gives(at, task).into_iter().for_each(|of| givers.entry(of).or_default().push(at));
    }
    let mut kept: Vec<bool> = tasks.iter().map(|t| !t.background).collect();
    let mut open: Vec<usize> = (0..tasks.len()).filter(|at| kept[*at]).collect();
    while let Some(at) = open.pop() {
        for giver in takes(at, &tasks[at]).iter().filter_map(|of| givers.remove(of)).flatten() {
            if !std::mem::replace(&mut kept[giver], true) {
                open.push(giver);
            }
        }
    }
    kept
}

fn gives(at: usize, task: &TaskSpec) -> BTreeSet<Resource> {
    let of = |op: &Op| match *op {
        Op::Signal(c) | Op::Broadcast(c) => Some(Resource::Cond(c)),
        Op::Barrier(b) => Some(Resource::Barrier(b)),
        Op::SemPost(s) => Some(Resource::Semaphore(s)),
        Op::Put { queue, .. } | Op::Drain { to: queue, .. } => Some(Resource::Queue(queue)),
        Op::Fork(task) => Some(Resource::Fork(task)),
        _ => None,
    };
    task.program.ops.iter().filter_map(of).chain([Resource::Forked(at as u32)]).collect()
}

fn takes(at: usize, task: &TaskSpec) -> BTreeSet<Resource> {
    let of = |op: &Op| match *op {
        Op::Wait { cond, .. } => Some(Resource::Cond(cond)),
        Op::Barrier(b) => Some(Resource::Barrier(b)),
        Op::SemWait(s) => Some(Resource::Semaphore(s)),
        Op::Get(queue) | Op::SpinThenBlock { queue, .. } | Op::Drain { from: queue, .. } => {
            Some(Resource::Queue(queue))
        }
        Op::Fork(task) => Some(Resource::Forked(task)),
        _ => None,
    };
    task.program.ops.iter().filter_map(of).chain([Resource::Fork(at as u32)]).collect()
}

/// Forks name tasks by their place.
fn retain(workload: &mut Workload, kept: &[bool]) {
    let mut next = 0;
    let place = |kept: &bool| {
        next += u32::from(*kept);
        next.saturating_sub(1)
    };
    let places: Vec<u32> = kept.iter().map(place).collect();
    let mut each = kept.iter();
    workload.tasks.retain(|_| *each.next().expect("one for each task"));
    for op in workload.tasks.iter_mut().flat_map(|t| &mut t.program.ops) {
        if let Op::Fork(task) = op {
            *task = places[*task as usize];
        }
    }
}
