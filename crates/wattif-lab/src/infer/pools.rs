//! Pools of threads that take requests from one queue.
//!
//! Whoever waits takes the next request: to which thread of the pool a wake-up went was chance, and a replay in which that thread is
//! still busy would have given it to another. A pool shows by its wake-ups: threads of one name that only others wake, now this, now
//! that one.

use super::steps::Step;
use super::workload::Thread;
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::Pid;

/// Fewer threads, or fewer wake-ups of each in the mean, are no pool.
const MIN_THREADS: usize = 3;
const MIN_WAKEUPS: usize = 8;
/// A waker that prefers a thread so many times above its share has a reason to.
const PREFERENCE: usize = 2;

/// The first thread of its pool, for each thread that is in one. `task`: the name threads of a pool share.
pub(super) fn pools(threads: &BTreeMap<Pid, Thread>, task: impl Fn(Pid) -> String) -> BTreeMap<Pid, Pid> {
    let mut by_name: BTreeMap<String, Vec<Pid>> = BTreeMap::new();
    for (pid, t) in threads {
        if only_asked(&t.steps) {
            by_name.entry(task(*pid)).or_default().push(*pid);
        }
    }
    let mut all = BTreeMap::new();
    for members in by_name.into_values().filter(|m| m.len() >= MIN_THREADS) {
        let set: BTreeSet<Pid> = members.iter().copied().collect();
        if threads.iter().all(|(pid, t)| wakes_any(&t.steps, &set, set.contains(pid)))
            && posts_to(threads, &set) >= MIN_WAKEUPS * set.len()
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
        pools(&threads, |pid| if pid.0 == 1 { "net".into() } else { "worker".into() }).len()
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
    }
}
