//! Pools of threads that take requests from one queue.
//!
//! Threads of a pool have one name, or number the threads of their process behind one: `worker-3`, `Binder:594_3`.
//! Whoever waits takes the next request: to which thread of the pool a wake-up went was chance, and a replay in which that thread is
//! still busy would have given it to another. A pool shows by its wake-ups: threads of one name that only others wake, now this, now
//! that one. If what they wake comes back to them, by way of others, each could have a part of its own instead, as at a join. It is a pool
//! if those are woken first that have waited longest, and these are now this, now that one, too. What comes back to a thread that hardly ever
//! waits for it is left out: space in a queue that is seldom full, say. Two threads are taken for a pool until their work is looked at
//! (`requests.rs`). Whose work is less than another's whenever they are woken has a part of its own.

use super::kin::Families;
use super::steps::{Step, token_waits};
use super::thread::Thread;
use super::units::stretches;
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::Pid;

/// Fewer threads, or fewer wake-ups of each in the mean, are no pool.
const MIN_THREADS: usize = 2;
const MIN_WAKEUPS: usize = 8;
/// A waker wakes so many of them, if there are as many.
const ANY: usize = 3;
/// A waker that prefers a thread so many times above its share, or for more than three quarters of all, has a reason to.
const PREFERENCE: usize = 2;
/// One in so many of a thread's waits is ended by a pool that it hardly waits for, at most.
const SELDOM_OF: usize = 20;
/// One in so many is woken out of turn at most, where several wait.
const OUT_OF_TURN_OF: usize = 20;
/// What a thread does in one of so many wake-ups is left out when its work is compared with that of others.
const RARELY_OF: usize = 10;
/// So many of 100 wake-ups are followed by that of the same thread at most: more are an order.
const SAME_NEXT_PCT: usize = 67;

/// The first thread of its pool, for each thread that is in one, by what threads of a pool share.
/// Their wake-ups of threads that hardly ever wait for them are left out of `threads`. Pools that are `known` (`steals.rs`) are pools.
pub(super) fn pools(
    threads: &mut BTreeMap<Pid, Thread>,
    families: &Families,
    known: &BTreeMap<Pid, Pid>,
) -> BTreeMap<Pid, Pid> {
    let mut by_name: BTreeMap<&(String, u32), Vec<Pid>> = BTreeMap::new();
    for (pid, t) in threads.iter() {
        if only_asked(&t.steps) && !known.contains_key(pid) {
            by_name.entry(&families[pid]).or_default().push(*pid);
        }
    }
    let mut all = known.clone();
    for first in known.values().collect::<BTreeSet<_>>() {
        let set: BTreeSet<Pid> = known.iter().filter(|(_, of)| *of == first).map(|(pid, _)| *pid).collect();
        let seldom = seldom(threads, &set);
        leave_out(threads, &set, &seldom);
    }
    for members in by_name.into_values().filter(|m| m.len() >= MIN_THREADS) {
        let set: BTreeSet<Pid> = members.iter().copied().collect();
        if !threads.iter().all(|(pid, t)| wakes_any(&t.steps, &set, set.contains(pid)))
            || posts_to(threads, &set) < MIN_WAKEUPS * set.len()
            || have_own_work(threads, &set)
        {
            continue;
        }
        let seldom = if set.len() > MIN_THREADS { seldom(threads, &set) } else { BTreeSet::new() };
        if !closes_a_cycle(threads, &set, &seldom) || !answers(threads, &set) && takes_turns(threads, &set) {
            leave_out(threads, &set, &seldom);
            all.extend(members.iter().map(|m| (*m, members[0])));
        }
    }
    all
}

/// It works when another thread wakes it, and never for another reason. What it sets for itself, it sets once.
pub(super) fn only_asked(steps: &[Step]) -> bool {
    let of_itself = steps.iter().filter(|s| matches!(s, Step::Attr(_) | Step::Bind(_))).count();
    let waits = steps.iter().filter(|s| s.waits()).count();
    let tokens = steps.iter().filter(|s| s.woken_by().is_some()).count();
    tokens > 0
        && tokens == waits
        && of_itself <= 2
        && steps.iter().all(|s| s.is_busy() || s.with().is_some() || matches!(s, Step::Attr(_) | Step::Bind(_)))
}

/// A thread's wake-ups of a pool prefer none of its members; members do not wake each other.
pub(super) fn wakes_any(steps: &[Step], pool: &BTreeSet<Pid>, is_member: bool) -> bool {
    let mut counts: BTreeMap<Pid, usize> = BTreeMap::new();
    for to in steps.iter().filter_map(Step::wakes).filter(|to| pool.contains(to)) {
        *counts.entry(to).or_default() += 1;
    }
    let all: usize = counts.values().sum();
    let most = counts.values().max().copied().unwrap_or(0);
    let prefers = |times: usize, of: usize| most * of > times * all.max(pool.len());
    let none = !prefers(PREFERENCE, pool.len()) && !prefers(3, 4);
    all == 0 || !is_member && counts.len() >= pool.len().min(ANY) && none
}

/// Threads that wake a pool and hardly ever wait for it.
pub(super) fn seldom(threads: &BTreeMap<Pid, Thread>, pool: &BTreeSet<Pid>) -> BTreeSet<Pid> {
    let by_pool = |s: &&Step| s.woken_by().is_some_and(|by| pool.contains(&by));
    let hardly = |pid: &Pid| {
        let steps = &threads[pid].steps;
        let ended = steps.iter().filter(by_pool).count();
        ended > 0 && ended * SELDOM_OF < steps.iter().filter(|s| s.waits()).count()
    };
    wakers(threads, pool).into_iter().filter(|pid| threads.contains_key(pid)).filter(hardly).collect()
}

/// Wake-ups of these by the pool, and their waits for it.
fn leave_out(threads: &mut BTreeMap<Pid, Thread>, pool: &BTreeSet<Pid>, seldom: &BTreeSet<Pid>) {
    for (pid, t) in threads {
        let is_seldom = seldom.contains(pid);
        let in_pool = pool.contains(pid);
        let wakes = |s: &Step| in_pool && s.wakes().is_some_and(|to| seldom.contains(&to));
        let waits = |s: &Step| is_seldom && s.woken_by().is_some_and(|by| pool.contains(&by));
        t.steps.retain(|s| !wakes(s) && !waits(s));
    }
}

/// Does what the members wake come back to them, but for those that seldom wait?
fn closes_a_cycle(threads: &BTreeMap<Pid, Thread>, pool: &BTreeSet<Pid>, seldom: &BTreeSet<Pid>) -> bool {
    let wakes = |pid: Pid| {
        let in_pool = pool.contains(&pid);
        threads[&pid].steps.iter().filter_map(Step::wakes).filter(move |to| !(in_pool && seldom.contains(to)))
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

/// Do the members wake who wakes them?
fn answers(threads: &BTreeMap<Pid, Thread>, pool: &BTreeSet<Pid>) -> bool {
    let wakers = wakers(threads, pool);
    pool.iter().flat_map(|pid| &threads[pid].steps).filter_map(Step::wakes).any(|to| wakers.contains(&to))
}

fn wakers(threads: &BTreeMap<Pid, Thread>, pool: &BTreeSet<Pid>) -> BTreeSet<Pid> {
    pool.iter().flat_map(|pid| &threads[pid].steps).filter_map(Step::woken_by).collect()
}

/// Are those woken that have waited longest, and are these not always in the same order?
pub(super) fn takes_turns(threads: &BTreeMap<Pid, Thread>, pool: &BTreeSet<Pid>) -> bool {
    // When each wait began and ended, in the order in which they ended.
    let of = |pid: Pid| token_waits(&threads[&pid].steps).into_iter().map(move |(since, at)| (at, since, pid));
    let mut waits: Vec<(u64, u64, Pid)> = pool.iter().copied().flat_map(of).collect();
    waits.sort_unstable();
    // Whom a wake-up is before, and how often, by who it is of.
    let mut before: BTreeMap<Pid, BTreeMap<Pid, usize>> = BTreeMap::new();
    let (mut of_several, mut out_of_turn) = (0, 0);
    for pair in waits.windows(2) {
        let ((at, since, pid), (_, next_since, next)) = (pair[0], pair[1]);
        *before.entry(pid).or_default().entry(next).or_default() += 1;
        // Both waited then.
        if next_since < at {
            of_several += 1;
            out_of_turn += usize::from(next_since < since);
        }
    }
    let same: usize = before.values().filter_map(|next| next.values().max()).sum();
    of_several >= MIN_WAKEUPS * pool.len()
        && out_of_turn * OUT_OF_TURN_OF <= of_several
        && same * 100 <= SAME_NEXT_PCT * waits.len()
}

/// Does one of them nearly always do less when it is woken than another ever does? Then it matters who is woken.
fn have_own_work(threads: &BTreeMap<Pid, Thread>, pool: &BTreeSet<Pid>) -> bool {
    let deciles = |pid: &Pid| {
        let mut work = stretches(&threads[pid].steps);
        work.sort_unstable();
        let rare = work.len() / RARELY_OF;
        (work.len() >= MIN_WAKEUPS).then(|| (work[rare], work[work.len() - 1 - rare]))
    };
    let of: Vec<(u64, u64)> = pool.iter().filter_map(deciles).collect();
    let (least, most) = (of.iter().map(|(_, most)| most).min(), of.iter().map(|(least, _)| least).max());
    least < most
}

fn posts_to(threads: &BTreeMap<Pid, Thread>, pool: &BTreeSet<Pid>) -> usize {
    let posts = threads.values().flat_map(|t| &t.steps).filter_map(Step::wakes);
    posts.filter(|to| pool.contains(to)).count()
}

#[cfg(test)]
mod tests {
    use super::super::kin::of_names;
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
        let families = of_names(&threads, |pid| if pid.0 == 1 { "net" } else { "worker" });
        pools(&mut threads, &families, &BTreeMap::new()).len()
    }

    /// A thread wakes 2, 3 and 4 at once, again and again; they wake a collector, which wakes that thread. Each waits anew after 1 ms, in the
    /// order `waits`; `wakes` is the order in which they are woken.
    fn at_a_join(waits: impl Fn(u64) -> [u32; 3], wakes: impl Fn(u64) -> [u32; 3]) -> usize {
        let mut threads: BTreeMap<Pid, Thread> = (1..6).map(|pid| (Pid(pid), Thread::new(120))).collect();
        for round in 1..40u64 {
            let at = round * 10_000_000;
            let posts = wakes(round).map(|to| Step::Post { to: Pid(to), at });
            threads.get_mut(&Pid(1)).unwrap().steps.extend(posts);
            for (place, pid) in (0..).zip(wakes(round)) {
                let since = at - 9_000_000 + 1000 * waits(round - 1).iter().position(|w| *w == pid).unwrap() as u64;
                let token = Step::Token { by: Pid(1), since, at: at + place };
                let job = [token, Step::Work(9), Step::Post { to: Pid(5), at: at + 1_000_000 }];
                threads.get_mut(&Pid(pid)).unwrap().steps.extend(job);
            }
            threads.get_mut(&Pid(5)).unwrap().steps.push(Step::Post { to: Pid(1), at: at + 2_000_000 });
        }
        let families = of_names(&threads, |pid| if pid.0 == 1 || pid.0 == 5 { "other" } else { "worker" });
        pools(&mut threads, &families, &BTreeMap::new()).len()
    }

    #[test]
    fn at_a_join_the_order_of_wake_ups_tells() {
        let orders = [[2, 3, 4], [2, 4, 3], [3, 2, 4], [3, 4, 2], [4, 2, 3], [4, 3, 2]];
        let by_chance = |round: u64| orders[((round * 0x9e37_79b9) >> 16) as usize % 6];
        assert_eq!(at_a_join(by_chance, |round| by_chance(round - 1)), 3, "who has waited longest is first");
        assert_eq!(at_a_join(|_| [2, 3, 4], |_| [2, 3, 4]), 0, "always the same order may be that of their parts");
        assert_eq!(at_a_join(by_chance, by_chance), 0, "others are first");
    }

    /// Who asks three workers in turn, and waits for one of them each so many times.
    fn waits_now_and_then(each: u64) -> (usize, Vec<Step>, Vec<Step>) {
        let mut threads: BTreeMap<Pid, Thread> = (1..5).map(|pid| (Pid(pid), Thread::new(120))).collect();
        for i in 1..100u64 {
            let (at, worker) = (i * 1_000, Pid(2 + (i % 3) as u32));
            let waits = i.is_multiple_of(each);
            let asker = &mut threads.get_mut(&Pid(1)).unwrap().steps;
            asker.push(Step::Sleep { ns: 500, since: at - 600 });
            asker.extend(waits.then_some(Step::Token { by: worker, since: at - 90, at: at - 50 }));
            asker.push(Step::Post { to: worker, at });
            let job = [Step::Token { by: Pid(1), since: at - 900, at }, Step::Work(9)];
            let of = &mut threads.get_mut(&worker).unwrap().steps;
            of.extend(waits.then_some(Step::Post { to: Pid(1), at: at - 50 }));
            of.extend(job);
        }
        let families = of_names(&threads, |pid| if pid.0 == 1 { "other" } else { "worker" });
        let found = pools(&mut threads, &families, &BTreeMap::new()).len();
        let of = |pid: u32| threads[&Pid(pid)].steps.clone();
        (found, of(1), [of(2), of(3), of(4)].concat())
    }

    #[test]
    fn who_hardly_waits_for_its_pool() {
        let (found, asker, pool) = waits_now_and_then(40);
        assert_eq!(found, 3);
        assert!(!asker.iter().any(|s| matches!(s, Step::Token { .. })));
        assert!(!pool.iter().any(|s| matches!(s, Step::Post { .. })));
        let (found, asker, pool) = waits_now_and_then(9);
        assert_eq!(found, 0);
        assert!(asker.iter().any(|s| matches!(s, Step::Token { .. })));
        assert!(pool.iter().any(|s| matches!(s, Step::Post { .. })));
    }

    /// Workers 2, 3 and 4 are woken at once, again and again, for `work`.
    fn woken_for(work: impl Fn(u64, u32) -> u64) -> usize {
        let mut threads: BTreeMap<Pid, Thread> = (1..5).map(|pid| (Pid(pid), Thread::new(120))).collect();
        for (at, pid) in (1..40).flat_map(|round| (2..5).map(move |pid| (round * 1_000, pid))) {
            threads.get_mut(&Pid(1)).unwrap().steps.push(Step::Post { to: Pid(pid), at });
            let job = [Step::Token { by: Pid(1), since: at - 500, at }, Step::Work(work(at / 1_000, pid))];
            threads.get_mut(&Pid(pid)).unwrap().steps.extend(job);
        }
        let families = of_names(&threads, |pid| if pid.0 == 1 { "net" } else { "worker" });
        pools(&mut threads, &families, &BTreeMap::new()).len()
    }

    #[test]
    fn who_has_work_of_its_own_is_no_pool() {
        assert_eq!(woken_for(|_, _| 900), 3);
        assert_eq!(woken_for(|round, pid| 300 * ((round + u64::from(pid)) % 3 + 1)), 3, "now much, now little");
        assert_eq!(woken_for(|_, pid| 300 * u64::from(pid)), 0);
        assert_eq!(woken_for(|round, pid| if pid == 2 && round > 1 { 300 } else { 900 }), 0, "but for once");
    }

    #[test]
    fn whoever_waits_takes_it() {
        let in_turn: Vec<u32> = (0..60).map(|i| 2 + i % 3).collect();
        assert_eq!(found(&in_turn, None), 3);
        assert_eq!(found(&in_turn, Some(Step::Timer { until: 5, since: 3 })), 2, "only two are left");
        assert_eq!(found(&in_turn, Some(Step::Post { to: Pid(3), at: 0 })), 0, "they wake each other");
        assert_eq!(found(&in_turn[..15], None), 0, "too few to tell");
        let one_client_each: Vec<u32> = (0..60).map(|i| if i < 58 { 2 } else { 1 + i % 3 }).collect();
        assert_eq!(found(&one_client_each, None), 0, "one is preferred");
        assert_eq!(found(&in_turn, Some(Step::Post { to: Pid(1), at: 0 })), 0, "what they wake wakes them");
    }
}
