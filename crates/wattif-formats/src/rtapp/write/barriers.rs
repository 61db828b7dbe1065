//! Barriers, each named once by a thread.
//!
//! rt-app takes every place of the file that names a barrier for as many threads that must come as the task has instances. A program
//! that comes to one barrier in several places would wait for more threads than there are. So the places get barriers of their own: the
//! first of each task one, the second the next. That is the same wherever all tasks come to theirs in one rhythm.
//!
//! Tasks that go round at different lengths, such as one and two places to a round, are repeated up to a common one.
//!
//! Threads made by fork are none of those that rt-app counts. Where one thread is there from the beginning, it gathers the others at each
//! place: they post a semaphore and wait for another, it waits for as many posts as they are and then posts for each. With a
//! single place to a round nobody could tell the posts of two rounds apart, and a fast thread might take those of a slow one.

use super::{MOST, Node};
use crate::words::quoted;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::workload::BarrierSpec;

/// A task of the file.
pub(super) type Task = (String, Node);

/// Gives barriers that are named more than once to a thread a name for each time, and makes semaphores of those of forked threads.
/// What could not be said.
pub(super) fn apart(tasks: &mut [Task], barriers: &[BarrierSpec]) -> Vec<String> {
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
    let (mut gathered, mut lost) = (Vec::new(), Vec::new());
    for barrier in miscounted {
        let users = users(tasks, &barrier.name);
        if users.is_empty() {
            continue; // nobody comes to it
        }
        let rhythms: Vec<Rhythm> = users.iter().map(|at| rhythm(&tasks[*at].1, &barrier.name)).collect();
        let threads: u64 = users.iter().map(|at| number(&tasks[*at].1, "instance") as u64).sum();
        let same = rhythms.windows(2).all(|w| w[0] == w[1]);
        match gatherer(tasks, &users, barrier) {
            _ if same && threads == u64::from(barrier.parties) => number_places(tasks, &barrier.name, &mut taken),
            Some(one) if same => {
                gather(tasks, barrier, &users, one);
                gathered.push(quoted(&barrier.name));
            }
            _ => {
                tasks.iter_mut().for_each(|task| leave_out(&mut task.1, &barrier.name));
                lost.push(quoted(&barrier.name));
            }
        }
    }
    let told = [
        ("rt-app's barriers do not count threads made by fork: one thread gathers them by semaphores", gathered),
        (
            "barriers have no word in rt-app where threads come in different rhythms, are made by fork and cannot be gathered, \
             or are not all waited for: left out",
            lost,
        ),
    ];
    let told = told.into_iter().filter(|(_, of)| !of.is_empty());
    told.map(|(what, of)| format!("{what}: {}", of.join(", "))).collect()
}

/// Of the tasks that come to a barrier the one that can gather the others: a single thread that nobody forks. `None` too where
/// they come once a round, or more or fewer than the barrier waits for.
fn gatherer(tasks: &[Task], users: &[usize], barrier: &BarrierSpec) -> Option<usize> {
    let mut threads = 0;
    let mut one = None;
    for &at in users {
        let (instances, forked) = (number(&tasks[at].1, "instance") as u64, forks(tasks, &tasks[at].0)?);
        threads += instances + forked;
        one = one.or((instances == 1 && forked == 0).then_some(at));
    }
    one.filter(|at| threads == u64::from(barrier.parties) && rhythm(&tasks[*at].1, &barrier.name).tells_rounds_apart())
}

/// How many threads of a task are forked; `None` where some are by threads that fork again and again, or are many or forked.
fn forks(tasks: &[Task], forked: &str) -> Option<u64> {
    let named = |node: &Node, task: &str| {
        let all = phases(node).flat_map(|(_, phase)| entries(phase));
        all.filter(|(key, value)| key.starts_with("fork") && matches!(value, Node::Value(v) if v == task)).count()
            as u64
    };
    let once = |node: &Node| {
        let again = |(_, phase): &(String, Node)| {
            number(phase, "loop") != 1 && entries(phase).iter().any(|(key, _)| key.starts_with("fork"))
        };
        number(node, "instance") == 1 && number(node, "loop") == 1 && !phases(node).any(again)
    };
    let mut all = 0;
    for (name, node) in tasks {
        match named(node, forked) {
            0 => {}
            n if once(node) && tasks.iter().all(|(_, other)| named(other, name) == 0) => all += n,
            _ => return None,
        }
    }
    Some(all)
}

/// The places of a barrier as semaphores, two for each place of a round.
fn gather(tasks: &mut [Task], barrier: &BarrierSpec, users: &[usize], gatherer: usize) {
    let mut taken: BTreeSet<String> =
        tasks.iter().flat_map(|(_, task)| phases(task)).flat_map(|(_, phase)| semaphores(phase)).collect();
    let pairs: Vec<[String; 2]> = (1..=places(&tasks[gatherer].1, &barrier.name))
        .map(|place| ["arrived", "go"].map(|what| free_name(&format!("{} {what}", barrier.name), place, &mut taken)))
        .collect();
    let others = barrier.parties as usize - 1;
    for &at in users {
        let mut left = pairs.iter();
        let Some(Node::Map(phases)) = get_mut(&mut tasks[at].1, "phases") else { continue };
        for (_, phase) in phases {
            let Node::Map(keys) = phase else { continue };
            let mut events = 0;
            for (key, value) in std::mem::take(keys) {
                let place = if names(&key, &value, &barrier.name) { left.next() } else { None };
                let told: Vec<(&str, Value)> = match place {
                    Some([arrived, go]) if at == gatherer => {
                        let wait = vec![("sem_wait", arrived.as_str().into()); others];
                        [wait, vec![("sem_post", go.as_str().into()); others]].concat()
                    }
                    Some([arrived, go]) => {
                        vec![("sem_post", arrived.as_str().into()), ("sem_wait", go.as_str().into())]
                    }
                    None if super::super::keys::event(&key).is_none() => {
                        keys.push((key, value));
                        continue;
                    }
                    None => {
                        let word = key.trim_end_matches(|c: char| c.is_ascii_digit());
                        keys.push((format!("{word}{events}"), value));
                        events += 1;
                        continue;
                    }
                };
                for (word, name) in told {
                    keys.push((format!("{word}{events}"), Node::Value(name)));
                    events += 1;
                }
            }
        }
    }
}

fn semaphores(phase: &Node) -> impl Iterator<Item = String> + '_ {
    let of = entries(phase).iter().filter(|(key, _)| key.starts_with("sem_"));
    of.filter_map(|(_, value)| if let Node::Value(Value::String(name)) = value { Some(name.clone()) } else { None })
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

impl Rhythm {
    /// Does nobody come to a place twice without another in between?
    fn tells_rounds_apart(&self) -> bool {
        let places: usize = self.parts.iter().map(|(_, places)| places).sum();
        let several = |(repeats, places): &(i64, usize)| *repeats == 1 || *places > 1;
        self.parts.iter().all(several) && (self.rounds == 1 || places > 1)
    }
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
