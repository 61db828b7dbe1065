//! Pools of threads that take requests from one queue.
//!
//! Threads of a pool have one name, or number the threads of their process behind one: `worker-3`, `Binder:594_3`.
//! Whoever waits takes the next request: to which thread of the pool a wake-up went was chance, and a replay in which that thread is
//! still busy would have given it to another. A pool shows by its wake-ups: threads of one name that only others wake, now this, now
//! that one.

use super::play::tasks;
use super::steps::Step;
use super::workload::Thread;
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::Pid;
use wattif_model::trace::Recording;

/// Fewer threads, or fewer wake-ups of each in the mean, are no pool.
const MIN_THREADS: usize = 3;
const MIN_WAKEUPS: usize = 8;
/// A waker that prefers a thread so many times above its share has a reason to.
const PREFERENCE: usize = 2;

/// What threads of a pool share: their name, where others have it too; else the name without its number, and the process where it
/// is known. Of `python3` and `python3` the number is no thread's.
pub(super) fn families(recording: &Recording, threads: &BTreeMap<Pid, Thread>) -> BTreeMap<Pid, (String, u32)> {
    let task = tasks(recording);
    let names: Vec<(Pid, String)> = threads.keys().map(|pid| (*pid, task(*pid))).collect();
    let mut many: BTreeMap<&str, u32> = BTreeMap::new();
    names.iter().for_each(|(_, name)| *many.entry(name).or_default() += 1);
    let family = |(pid, name): &(Pid, String)| match stem(name).filter(|_| many[name.as_str()] == 1) {
        Some(stem) => (*pid, (stem.into(), recording.threads.get(&pid.0).map_or(0, |t| t.tgid))),
        None => (*pid, (name.clone(), 0)),
    };
    names.iter().map(family).collect()
}

/// A name without its last number and what joins it.
fn stem(name: &str) -> Option<&str> {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let joined = stem.trim_end_matches(['-', '_', '/', ':', '#', ' ', '.']);
    (stem != name && !joined.is_empty()).then_some(joined)
}

/// The first thread of its pool, for each thread that is in one, by what threads of a pool share.
pub(super) fn pools<F: Ord>(threads: &BTreeMap<Pid, Thread>, family: impl Fn(Pid) -> F) -> BTreeMap<Pid, Pid> {
    let mut by_name: BTreeMap<F, Vec<Pid>> = BTreeMap::new();
    for (pid, t) in threads {
        if only_asked(&t.steps) {
            by_name.entry(family(*pid)).or_default().push(*pid);
        }
    }
    let mut all = BTreeMap::new();
    for members in by_name.into_values().filter(|m| m.len() >= MIN_THREADS) {
        let set: BTreeSet<Pid> = members.iter().copied().collect();
        if threads.iter().all(|(pid, t)| wakes_any(&t.steps, &set, set.contains(pid)))
            && posts_to(threads, &set) >= MIN_WAKEUPS * set.len()
            && !closes_a_cycle(threads, &set)
        {
            all.extend(members.iter().map(|m| (*m, members[0])));
        }
    }
    all
}

/// It works when another thread wakes it, and never for another reason.
fn only_asked(steps: &[Step]) -> bool {
    let waits = steps.iter().filter(|s| s.waits()).count();
    let tokens = steps.iter().filter(|s| matches!(s, Step::Token { .. })).count();
    tokens > 0
        && tokens == waits
        && steps.iter().all(|s| matches!(s, Step::Work(_) | Step::Spin(_) | Step::Token { .. } | Step::Post { .. }))
}

/// A thread's wake-ups of a pool prefer none of its members; members do not wake each other.
fn wakes_any(steps: &[Step], pool: &BTreeSet<Pid>, is_member: bool) -> bool {
    let mut counts: BTreeMap<Pid, usize> = BTreeMap::new();
    for step in steps {
        if let Step::Post { to, .. } = step
            && pool.contains(to)
        {
            *counts.entry(*to).or_default() += 1;
        }
    }
    let all: usize = counts.values().sum();
    let most = counts.values().max().copied().unwrap_or(0);
    all == 0 || !is_member && counts.len() >= MIN_THREADS && most * pool.len() <= PREFERENCE * all.max(pool.len())
}

/// Does what the members wake come back to them?
fn closes_a_cycle(threads: &BTreeMap<Pid, Thread>, pool: &BTreeSet<Pid>) -> bool {
    let wakes = |pid: Pid| {
        threads[&pid].steps.iter().filter_map(|s| if let Step::Post { to, .. } = *s { Some(to) } else { None })
    };
    let mut new: Vec<Pid> = pool.iter().copied().collect();
    let mut seen = BTreeSet::new();
    while let Some(pid) = new.pop() {
        for to in wakes(pid) {
            if pool.contains(&to) {
                return true;
            }
            if threads.contains_key(&to) && seen.insert(to) {
                new.push(to);
            }
        }
    }
    false
}

fn posts_to(threads: &BTreeMap<Pid, Thread>, pool: &BTreeSet<Pid>) -> usize {
    let to_it = |s: &&Step| matches!(s, Step::Post { to, .. } if pool.contains(to));
    threads.values().map(|t| t.steps.iter().filter(to_it).count()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that wakes workers 2, 3 and 4 by `order`.
    fn found(order: &[u32], extra: Option<Step>) -> usize {
        let thread = |steps: Vec<Step>| {
            let mut t = Thread::new(120);
            t.steps = steps;
            t
        };
        let mut threads =
            BTreeMap::from([(Pid(1), thread(order.iter().map(|p| Step::Post { to: Pid(*p), at: 0 }).collect()))]);
        for pid in 2..5 {
            let n = order.iter().filter(|p| **p == pid).count();
            threads.insert(
                Pid(pid),
                thread((0..n).flat_map(|_| [Step::Token { by: Pid(1), since: 1, at: 2 }, Step::Work(9)]).collect()),
            );
        }
        threads.get_mut(&Pid(2)).unwrap().steps.extend(extra);
        pools(&threads, |pid| if pid.0 == 1 { "net" } else { "worker" }).len()
    }

    #[test]
    fn names_without_their_number() {
        let names = ["worker-12", "Binder:594_3", "pool-1-thread-3", "httpd", "42", "a 2"];
        assert_eq!(names.map(stem), [Some("worker"), Some("Binder:594"), Some("pool-1-thread"), None, None, Some("a")]);
    }

    #[test]
    fn whoever_waits_takes_it() {
        let in_turn: Vec<u32> = (0..60).map(|i| 2 + i % 3).collect();
        assert_eq!(found(&in_turn, None), 3);
        assert_eq!(found(&in_turn, Some(Step::Timer { until: 5, since: 3 })), 0, "only two are left");
        assert_eq!(found(&in_turn, Some(Step::Post { to: Pid(3), at: 0 })), 0, "they wake each other");
        assert_eq!(found(&in_turn[..15], None), 0, "too few to tell");
        let one_client_each: Vec<u32> = (0..60).map(|i| if i < 58 { 2 } else { 1 + i % 3 }).collect();
        assert_eq!(found(&one_client_each, None), 0, "one is preferred");
        assert_eq!(found(&in_turn, Some(Step::Post { to: Pid(1), at: 0 })), 0, "what they wake wakes them");
    }
}
