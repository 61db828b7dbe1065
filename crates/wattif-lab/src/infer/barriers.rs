//! Threads that meet at a barrier.
//!
//! Whoever comes last wakes all others, one after the other, and does not wait itself. Taken as it was recorded, the last would always be
//! the last, and wait for nobody. So where three threads or more wake each other in such rounds, now this one all others, now that one,
//! each of them comes to a barrier in each round, and who comes last is for the replay to say.
//!
//! Two threads that share a lock wake each other like that, too. But there most turns meet nobody, or one is woken and wakes the other in
//! the same turn; and who waited for a lock works under it after that, while who comes to a barrier does the same afterwards, last or
//! not. So two threads meet at a barrier where between two waits of its own each either waits for the other once or wakes it once.

use super::steps::{LITTLE, STRAY_OF, Step, median, work};
use super::thread::Thread;
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::Pid;

/// Fewer rounds tell nothing.
const MIN_ROUNDS: usize = 8;
/// Wake-ups of one round follow each other so soon, ns.
const NEXT_NS: u64 = 50_000;
/// After a barrier one does as much work as another but for one part in so many, or a little.
const ALIKE_OF: u64 = 20;

/// The steps of a thread with which it wakes all others, and when.
struct Round {
    by: Pid,
    posts: Vec<usize>,
    wakes: BTreeMap<Pid, u64>,
}

/// How often each thread wakes each other.
type Posts = BTreeMap<Pid, BTreeMap<Pid, usize>>;
/// Where a thread waits for another's wake-up at a time.
type Tokens = BTreeMap<(Pid, Pid, u64), usize>;

/// Puts barriers in. How many threads meet at each, by the first of them.
pub(super) fn meet(threads: &mut BTreeMap<Pid, Thread>) -> BTreeMap<Pid, u32> {
    let mut groups: BTreeMap<BTreeSet<Pid>, Vec<Round>> = BTreeMap::new();
    let (mut posts, mut tokens) = (Posts::new(), Tokens::new());
    for (pid, t) in threads.iter() {
        for round in rounds(*pid, &t.steps) {
            let members = round.wakes.keys().chain([pid]).copied().collect();
            groups.entry(members).or_default().push(round);
        }
        for (i, step) in t.steps.iter().enumerate() {
            match *step {
                Step::Post { to, .. } => *posts.entry(*pid).or_default().entry(to).or_default() += 1,
                Step::Token { by, at, .. } => _ = tokens.insert((*pid, by, at), i),
                _ => {}
            }
        }
    }
    let (mut parties, mut taken) = (BTreeMap::new(), BTreeSet::new());
    for (members, rounds) in groups {
        let is_one = is_barrier(&posts, &members, &rounds) && (members.len() > 2 || one_waits(threads, &members));
        if is_one && members.is_disjoint(&taken) {
            let first = *members.first().expect("two or more");
            parties.insert(first, members.len() as u32);
            rounds.into_iter().for_each(|round| round.comes_to(first, threads, &tokens));
            taken.extend(members);
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
fn is_barrier(posts: &Posts, members: &BTreeSet<Pid>, rounds: &[Round]) -> bool {
    if rounds.len() < MIN_ROUNDS || rounds.iter().all(|r| r.by == rounds[0].by) {
        return false;
    }
    let among_of =
        |to: &BTreeMap<Pid, usize>| to.iter().filter(|(pid, _)| members.contains(pid)).map(|(_, n)| n).sum::<usize>();
    let among: usize = members.iter().filter_map(|m| posts.get(m)).map(among_of).sum::<usize>();
    let of_rounds = rounds.len() * (members.len() - 1);
    // The others belong to no round.
    among.saturating_sub(of_rounds) * STRAY_OF <= among
}

/// Does one of the two wait for the other in each turn of both, and do they go on alike then?
fn one_waits(threads: &BTreeMap<Pid, Thread>, members: &BTreeSet<Pid>) -> bool {
    let fits = |pid: &Pid| {
        let is_event = |s: &Step| s.with().is_some_and(|other| members.contains(&other));
        let ends = |s: &Step| !is_event(s) && (s.waits() || matches!(s, Step::Passed { .. }));
        let turns: Vec<&[Step]> = threads[pid].steps.split(ends).collect();
        // The first and the last are no whole ones.
        let turns = turns.get(1..turns.len() - 1).unwrap_or_default();
        let (mut once, mut after) = (0, [Vec::new(), Vec::new()]);
        for turn in turns {
            let mut events = turn.iter().enumerate().filter(|(_, s)| is_event(s));
            if let (Some((at, event)), None) = (events.next(), events.next()) {
                after[usize::from(event.waits())].push(work(&turn[at..]));
                once += 1;
            }
        }
        let [first, last] = after.each_mut().map(|works| median(works));
        let alike = first.zip(last).is_some_and(|(a, b)| a.abs_diff(b) <= (a.max(b) / ALIKE_OF).max(LITTLE));
        once >= MIN_ROUNDS && (turns.len() - once) * STRAY_OF <= turns.len() && alike
    };
    members.iter().all(fits)
}

impl Round {
    /// Its wake-ups, and the waits they end, become a barrier.
    fn comes_to(self, barrier: Pid, threads: &mut BTreeMap<Pid, Thread>, tokens: &Tokens) {
        for (n, post) in self.posts.into_iter().enumerate() {
            let steps = &mut threads.get_mut(&self.by).expect("it wakes others").steps;
            steps[post] = if n == 0 { Step::Barrier(barrier) } else { Step::Work(0) };
        }
        for (pid, woken) in self.wakes {
            let waits = tokens.get(&(pid, self.by, woken));
            if let (Some(t), Some(at)) = (threads.get_mut(&pid), waits) {
                t.steps[*at] = Step::Barrier(barrier);
            }
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
        let work: u64 = steps().map(Step::units).sum();
        assert_eq!(work, 20 * (7 + 7 + 4 + 4), "work is kept");
    }

    #[test]
    fn who_always_wakes_the_others_does_not_wait() {
        let mut threads = meeting(20, |_| 2);
        assert!(meet(&mut threads).is_empty());
        assert_eq!(barriers(&threads), [0; 3]);
        assert!(meet(&mut meeting(4, |round| 1 + round as u32 % 3)).is_empty(), "too few");
    }

    /// Two threads that sleep, work, meet, and work: who comes last does so `more`, as who has to take a lock then.
    fn pair(rounds: u64, more: u64, stray: u64) -> BTreeMap<Pid, Thread> {
        let mut threads: BTreeMap<Pid, Thread> = (1..3).map(|p| (Pid(p), Thread::new(120))).collect();
        for round in 1..=rounds {
            let (at, by) = (round * MS, Pid(1 + (round * round % 3 % 2) as u32));
            let to = Pid(3 - by.0);
            let sleep = Step::Sleep { ns: 9, since: at - 900 };
            let wakes = [sleep.clone(), Step::Work(70 * LITTLE), Step::Post { to, at }, Step::Work(30 * LITTLE)];
            let work = Step::Work(30 * LITTLE + more);
            let woken = [sleep.clone(), Step::Work(70 * LITTLE), Step::Token { by, since: at - 9, at }, work];
            threads.get_mut(&by).unwrap().steps.extend(wakes);
            threads.get_mut(&to).unwrap().steps.extend(woken);
            if round <= stray {
                threads.get_mut(&to).unwrap().steps.extend([sleep, Step::Work(100 * LITTLE)]);
            }
        }
        threads
    }

    #[test]
    fn one_of_two_waits_each_time() {
        let mut threads = pair(40, 0, 1);
        assert_eq!(meet(&mut threads), BTreeMap::from([(Pid(1), 2)]));
        assert_eq!(barriers(&threads), [40; 2]);
        assert!(meet(&mut pair(40, 0, 9)).is_empty(), "in some turns nobody does, as with a lock");
        assert!(meet(&mut pair(40, 3 * LITTLE, 0)).is_empty(), "the lock's section comes after the wait");
        // A request and its answer.
        let mut threads = pair(40, 0, 0);
        for t in threads.values_mut() {
            let turns: Vec<Step> = t.steps.iter().filter(|s| !matches!(s, Step::Sleep { .. })).cloned().collect();
            t.steps = turns;
        }
        assert!(meet(&mut threads).is_empty(), "no turn of its own");
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
