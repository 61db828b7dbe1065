//! Barriers, each named once by a thread.
//!
//! rt-app takes every place of the file that names a barrier for as many threads that must come as the task has instances. A program
//! that comes to one barrier in several places would wait for more threads than there are. So the places get barriers of their own: the
//! first of each task one, the second the next. That is the same wherever all tasks come to theirs in one rhythm.
//!
//! Tasks that go round at different lengths, such as one and two places to a round, are repeated up to a common one.

use super::{MOST, Node};
use crate::words::quoted;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::workload::BarrierSpec;

/// A task of the file.
pub(super) type Task = (String, Node);

/// Gives barriers that are named more than once to a thread a name for each time. What could not be said.
pub(super) fn apart(tasks: &mut [Task], barriers: &[BarrierSpec]) -> Option<String> {
    let counts = counts(tasks);
    // A barrier waits for one thread at least.
    let counted = |b: &BarrierSpec| counts.get(&b.name).map_or(1, |n| (*n).max(1)) == u64::from(b.parties);
    let miscounted: Vec<&BarrierSpec> = barriers.iter().filter(|b| !counted(b)).collect();
    // A task that is repeated for one barrier is repeated for all of them.
    const PASSES: usize = 4;
    for _ in 0..PASSES {
        if !miscounted.iter().any(|b| in_step(tasks, &b.name)) {
            break;
        }
    }
    let mut taken: BTreeSet<String> = barriers.iter().map(|b| b.name.clone()).collect();
    let mut lost = Vec::new();
    for barrier in miscounted {
        let users = users(tasks, &barrier.name);
        if users.is_empty() {
            continue; // nobody comes to it
        }
        let rhythms: Vec<Rhythm> = users.iter().map(|at| rhythm(&tasks[*at].1, &barrier.name)).collect();
        let threads: u64 = users.iter().map(|at| number(&tasks[*at].1, "instance") as u64).sum();
        match rhythms.windows(2).all(|w| w[0] == w[1]) && threads == u64::from(barrier.parties) {
            true => number_places(tasks, &barrier.name, &mut taken),
            false => {
                tasks.iter_mut().for_each(|task| leave_out(&mut task.1, &barrier.name));
                lost.push(quoted(&barrier.name));
            }
        }
    }
    let why = "barriers have no word in rt-app where threads come in different rhythms, are made by fork, or are not all \
               waited for: left out";
    (!lost.is_empty()).then(|| format!("{why}: {}", lost.join(", ")))
}

/// The threads that rt-app waits for, by barrier.
fn counts(tasks: &[Task]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for (_, task) in tasks {
        let instances = number(task, "instance") as u64;
        for (key, value) in phases(task).flat_map(|(_, phase)| entries(phase)) {
            if let (true, Node::Value(Value::String(name))) = (key.starts_with("barrier"), value) {
                *counts.entry(name.clone()).or_default() += instances;
            }
        }
    }
    counts
}

/// Repeats the rounds of tasks that come to a barrier in rounds of different lengths. Did it change any?
fn in_step(tasks: &mut [Task], barrier: &str) -> bool {
    let users = users(tasks, barrier);
    let places = |at: &usize| places(&tasks[*at].1, barrier);
    let Some(common) = users.iter().map(places).try_fold(1, common_multiple) else { return false };
    let times: Vec<usize> = users.iter().map(|at| common / places(at)).collect();
    let fits = |(at, times): (&usize, &usize)| {
        let task = &tasks[*at].1;
        is_one_round(task) && phases(task).map(|(_, phase)| len(phase)).sum::<usize>().saturating_mul(*times) <= MOST
    };
    if times.iter().all(|n| *n == 1) || !users.iter().zip(&times).all(fits) {
        return false;
    }
    users.iter().zip(times).for_each(|(at, times)| repeat(&mut tasks[*at].1, times));
    true
}

/// Up to what a phase may hold.
fn common_multiple(a: usize, b: usize) -> Option<usize> {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    (a / x.max(1)).checked_mul(b).filter(|n| *n <= MOST)
}

/// Does the task go round for ever, and come to each of its events once a round?
fn is_one_round(task: &Node) -> bool {
    number(task, "loop") < 0 && phases(task).all(|(_, phase)| number(phase, "loop") == 1)
}

fn repeat(task: &mut Node, times: usize) {
    let Some(Node::Map(phases)) = get_mut(task, "phases") else { return };
    let round = std::mem::take(phases);
    let all = (0..times).flat_map(|_| round.iter().cloned());
    *phases = all.enumerate().map(|(i, (_, phase))| (format!("p{i}"), phase)).collect();
}

/// When a task comes to a barrier: rounds of the whole, and of each of its parts how often it repeats and the places in it.
#[derive(PartialEq)]
struct Rhythm {
    rounds: i64,
    parts: Vec<(i64, usize)>,
}

fn rhythm(task: &Node, barrier: &str) -> Rhythm {
    let mut parts: Vec<(i64, usize)> = Vec::new();
    for (_, phase) in phases(task) {
        let (repeats, places) = (number(phase, "loop"), named_in(phase, barrier).count());
        match parts.last_mut() {
            _ if places == 0 => {}
            Some((1, before)) if repeats == 1 => *before += places,
            _ => parts.push((repeats, places)),
        }
    }
    let rounds = number(task, "loop");
    match parts[..] {
        // A loop of the task is that of its only part.
        [(1, places)] => Rhythm { rounds: 1, parts: vec![(rounds, places)] },
        _ => Rhythm { rounds, parts },
    }
}

/// The n-th place of each task names the n-th barrier.
fn number_places(tasks: &mut [Task], barrier: &str, taken: &mut BTreeSet<String>) {
    let mut names: Vec<String> = Vec::new();
    for (_, task) in tasks {
        for (at, place) in places_mut(task, barrier).enumerate() {
            if at == names.len() {
                names.push(free_name(barrier, at + 1, taken));
            }
            *place = names[at].as_str().into();
        }
    }
}

fn free_name(barrier: &str, number: usize, taken: &mut BTreeSet<String>) -> String {
    let mut name = format!("{barrier} {number}");
    while !taken.insert(name.clone()) {
        name.push('_');
    }
    name
}

/// Phases that hold nothing else go too.
fn leave_out(task: &mut Node, barrier: &str) {
    let Some(Node::Map(phases)) = get_mut(task, "phases") else { return };
    phases.retain_mut(|(_, phase)| {
        let Node::Map(keys) = phase else { return true };
        let before = keys.len();
        keys.retain(|(key, value)| !names(key, value, barrier));
        keys.len() == before || keys.iter().any(|(key, _)| super::super::keys::event(key).is_some())
    });
}

// ---- what a task of the file holds -----------------------------------------------------------------------------------

fn names(key: &str, value: &Node, barrier: &str) -> bool {
    key.starts_with("barrier") && matches!(value, Node::Value(value) if value == barrier)
}

fn named_in<'a>(phase: &'a Node, barrier: &'a str) -> impl Iterator<Item = &'a Node> {
    entries(phase).iter().filter(move |(key, value)| names(key, value, barrier)).map(|(_, value)| value)
}

fn places(task: &Node, barrier: &str) -> usize {
    phases(task).map(|(_, phase)| named_in(phase, barrier).count()).sum()
}

fn places_mut<'a>(task: &'a mut Node, barrier: &'a str) -> impl Iterator<Item = &'a mut Value> {
    let phases = match get_mut(task, "phases") {
        Some(Node::Map(phases)) => phases.as_mut_slice(),
        _ => &mut [],
    };
    let keys = phases.iter_mut().flat_map(|(_, phase)| match phase {
        Node::Map(keys) => keys.as_mut_slice(),
        Node::Value(_) => &mut [],
    });
    keys.filter(move |(key, value)| names(key, value, barrier)).filter_map(|(_, value)| match value {
        Node::Value(value) => Some(value),
        Node::Map(_) => None,
    })
}

/// The tasks that name it.
fn users(tasks: &[Task], barrier: &str) -> Vec<usize> {
    (0..tasks.len()).filter(|at| places(&tasks[*at].1, barrier) > 0).collect()
}

fn entries(node: &Node) -> &[(String, Node)] {
    match node {
        Node::Map(map) => map,
        Node::Value(_) => &[],
    }
}

fn get_mut<'a>(node: &'a mut Node, name: &str) -> Option<&'a mut Node> {
    match node {
        Node::Map(map) => map.iter_mut().find(|(key, _)| key == name).map(|(_, value)| value),
        Node::Value(_) => None,
    }
}

fn get<'a>(node: &'a Node, name: &str) -> Option<&'a Node> {
    entries(node).iter().find(|(key, _)| key == name).map(|(_, value)| value)
}

fn phases(task: &Node) -> impl Iterator<Item = &(String, Node)> {
    get(task, "phases").map_or(&[][..], entries).iter()
}

fn len(phase: &Node) -> usize {
    entries(phase).len()
}

fn number(node: &Node, name: &str) -> i64 {
    match get(node, name) {
        Some(Node::Value(value)) => value.as_i64().unwrap_or(1),
        _ => 1,
    }
}
