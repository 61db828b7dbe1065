//! Threads that meet at a barrier.
//!
//! Whoever comes last wakes all others, one after the other, and does not wait itself. Taken as it was recorded, the last would always be
//! the last, and wait for nobody. So where three threads or more wake each other in such rounds, now this one all others, now that one,
//! each of them comes to a barrier in each round, and who comes last is for the replay to say.

use super::steps::Step;
use super::workload::Thread;
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::Pid;

/// Fewer rounds tell nothing.
const MIN_ROUNDS: usize = 8;
/// One wake-up in so many, of those among such threads, belongs to no round at most.
const STRAY_OF: usize = 20;
/// Wake-ups of one round follow each other so soon, ns.
const NEXT_NS: u64 = 50_000;

/// The steps of a thread with which it wakes all others, and when.
struct Round {
    by: Pid,
    posts: Vec<usize>,
    wakes: BTreeMap<Pid, u64>,
}

/// Puts barriers in. How many threads meet at each, by the first of them.
pub(super) fn meet(threads: &mut BTreeMap<Pid, Thread>) -> BTreeMap<Pid, u32> {
    let mut groups: BTreeMap<BTreeSet<Pid>, Vec<Round>> = BTreeMap::new();
    for (pid, t) in threads.iter() {
        for round in rounds(*pid, &t.steps) {
            let members = round.wakes.keys().chain([pid]).copied().collect();
            groups.entry(members).or_default().push(round);
        }
    }
    let mut parties = BTreeMap::new();
    for (members, rounds) in groups {
        let Some(first) = members.first().filter(|first| !parties.contains_key(*first)) else { continue };
        if is_barrier(threads, &members, &rounds) {
            parties.insert(*first, members.len() as u32);
            rounds.into_iter().for_each(|round| round.comes_to(*first, threads));
        }
    }
    for t in threads.values_mut() {
        t.steps.retain(|s| !matches!(s, Step::Work(0)));
    }
    parties
}

/// Wake-ups that follow each other closely, of different threads.
fn rounds(by: Pid, steps: &[Step]) -> Vec<Round> {
    let mut all: Vec<Round> = Vec::new();
    let mut last = None;
    for (i, step) in steps.iter().enumerate() {
        match *step {
            Step::Post { to, at } => {
                let next = last.is_some_and(|last| at <= last + NEXT_NS);
                match all.last_mut().filter(|round| next && !round.wakes.contains_key(&to)) {
                    Some(round) => {
                        round.posts.push(i);
                        round.wakes.insert(to, at);
                    }
                    None => all.push(Round { by, posts: vec![i], wakes: BTreeMap::from([(to, at)]) }),
                }
                last = Some(at);
            }
            Step::Work(_) => {}
            _ => last = None,
        }
    }
    all
}

/// Do these threads wake each other in such rounds alone?
fn is_barrier(threads: &BTreeMap<Pid, Thread>, members: &BTreeSet<Pid>, rounds: &[Round]) -> bool {
    let last: BTreeSet<Pid> = rounds.iter().map(|r| r.by).collect();
    let posts = members.iter().flat_map(|m| &threads[m].steps);
    let among = posts.filter(|s| matches!(s, Step::Post { to, .. } if members.contains(to))).count();
    let of_rounds = rounds.len() * (members.len() - 1);
    let enough = rounds.len() >= MIN_ROUNDS && (among - of_rounds) * STRAY_OF <= among;
    members.len() > 2 && last.len() > 1 && enough
}

impl Round {
    /// Its wake-ups, and the waits they end, become a barrier.
    fn comes_to(self, barrier: Pid, threads: &mut BTreeMap<Pid, Thread>) {
        for (n, post) in self.posts.into_iter().enumerate() {
            let steps = &mut threads.get_mut(&self.by).expect("it wakes others").steps;
            steps[post] = if n == 0 { Step::Barrier(barrier) } else { Step::Work(0) };
        }
        for (pid, woken) in self.wakes {
            let waits = |s: &&mut Step| matches!(**s, Step::Token { by, at, .. } if (by, at) == (self.by, woken));
            let steps = threads.get_mut(&pid).into_iter().flat_map(|t| &mut t.steps);
            steps.filter(waits).for_each(|s| *s = Step::Barrier(barrier));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Three threads; `last` of them is the last in a round.
    fn meeting(rounds: u64, last: impl Fn(u64) -> u32) -> BTreeMap<Pid, Thread> {
        let mut threads: BTreeMap<Pid, Thread> = (1..4).map(|p| (Pid(p), Thread::new(120))).collect();
        for round in 1..=rounds {
            let by = Pid(last(round));
            let others: Vec<Pid> = threads.keys().filter(|p| **p != by).copied().collect();
            for (to, at) in others.into_iter().zip(round * MS..) {
                threads.get_mut(&to).unwrap().steps.extend([Step::Work(7), Step::Token { by, since: at - 9, at }]);
                threads.get_mut(&by).unwrap().steps.extend([Step::Work(4), Step::Post { to, at }]);
            }
        }
        threads
    }
    fn barriers(threads: &BTreeMap<Pid, Thread>) -> Vec<usize> {
        threads.values().map(|t| t.steps.iter().filter(|s| **s == Step::Barrier(Pid(1))).count()).collect()
    }

    #[test]
    fn each_round_all_come() {
        let mut threads = meeting(20, |round| 1 + (round * round % 3) as u32);
        assert_eq!(meet(&mut threads), BTreeMap::from([(Pid(1), 3)]));
        assert_eq!(barriers(&threads), [20; 3]);
        let steps = || threads.values().flat_map(|t| &t.steps);
        assert!(!steps().any(|s| matches!(s, Step::Post { .. } | Step::Token { .. })));
        let work: u64 = steps().map(|s| if let Step::Work(units) = s { *units } else { 0 }).sum();
        assert_eq!(work, 20 * (7 + 7 + 4 + 4), "work is kept");
    }

    #[test]
    fn who_always_wakes_the_others_does_not_wait() {
        let mut threads = meeting(20, |_| 2);
        assert!(meet(&mut threads).is_empty());
        assert_eq!(barriers(&threads), [0; 3]);
        assert!(meet(&mut meeting(4, |round| 1 + round as u32 % 3)).is_empty(), "too few");
    }

    #[test]
    fn wake_ups_between_rounds() {
        let mut threads = meeting(20, |round| 1 + round as u32 % 3);
        for at in (0..10).map(|i| (30 + i) * MS) {
            threads.get_mut(&Pid(1)).unwrap().steps.push(Step::Post { to: Pid(2), at });
            threads.get_mut(&Pid(2)).unwrap().steps.push(Step::Token { by: Pid(1), since: at - 9, at });
        }
        assert!(meet(&mut threads).is_empty());
    }
}
