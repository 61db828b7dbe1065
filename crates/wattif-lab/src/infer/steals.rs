//! Pools whose threads take what woke another of them.
//!
//! Where threads share a semaphore, one that is done takes the next request before the thread that was woken for it has a CPU. That one finds
//! nothing to do and sleeps at once: a wake-up in vain, while one of its like has the work of several requests in one stretch. Each of
//! such stretches is cut into its requests, and wake-ups in vain are left out: who takes which is for the replay to say.
//!
//! Whoever alone asks such a pool, and never again before all is done, waits for as many replies as it asked for, one of each request.
//! Replies that nobody slept for are put in. Of another pool whose work comes back to those that ask it, it is not told who takes what,
//! and it is left as it is.

use super::kin::Families;
use super::pools::{only_asked, seldom};
use super::steps::{Step, median, within, work};
use super::thread::Thread;
use super::units::{requests, stretches, taking, unit};
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::Pid;

/// Fewer wake-ups in vain tell nothing.
const MIN_VAIN: usize = 8;
/// One in so many of them at most comes while none of the others does the work of several requests.
const UNTAKEN_OF: usize = 10;
/// So many requests tell whether as many were asked for: to one in so many. In one of so many rounds it may look otherwise.
const MIN_ROUNDS: usize = 20;
const AGREE_OF: usize = 50;
const ODD_OF: usize = 20;

/// From when until when a thread was awake for one wake-up, and how many requests are in that.
type Stretch = (u64, u64, u64);

/// The first thread of its pool, for each thread of such pools, by what threads of a pool share. Their steps are cut.
pub(super) fn steal(threads: &mut BTreeMap<Pid, Thread>, families: &Families) -> BTreeMap<Pid, Pid> {
    let mut by_name: BTreeMap<&(String, u32), BTreeSet<Pid>> = BTreeMap::new();
    for (pid, _) in threads.iter().filter(|(_, t)| only_asked(&t.steps)) {
        by_name.entry(&families[pid]).or_default().insert(*pid);
    }
    let mut all = BTreeMap::new();
    for pool in by_name.into_values().filter(|pool| pool.len() > 1) {
        let Some(unit) = steals(threads, &pool) else { continue };
        let seldom = seldom(threads, &pool);
        let by_pool = |s: &Step| s.woken_by().is_some_and(|by| pool.contains(&by));
        let waits = threads.iter().filter(|(pid, t)| !seldom.contains(pid) && t.steps.iter().any(by_pool));
        let collectors: Vec<Pid> = waits.map(|t| *t.0).collect();
        let rounds = match collectors[..] {
            [] => None,
            [collector] => match rounds(threads, &pool, unit, collector) {
                Some(rounds) => Some((collector, rounds)),
                None => continue,
            },
            _ => continue,
        };
        for pid in &pool {
            let steps = &mut threads.get_mut(pid).expect("it is in the pool").steps;
            *steps = taking(steps, unit, true);
            if let Some((collector, _)) = &rounds {
                *steps = replying(steps, *collector);
            }
        }
        if let Some((collector, rounds)) = rounds {
            let steps = &mut threads.get_mut(&collector).expect("it waits").steps;
            *steps = collecting(steps, &pool, &rounds);
        }
        let first = pool.first().copied();
        all.extend(pool.iter().copied().zip(first.into_iter().cycle()));
    }
    all
}

/// What a collector does from asking a pool until it asks again.
struct Round {
    /// From its first request until the next round's, by step.
    from: usize,
    until: usize,
    at: u64,
    asked: usize,
    /// Requests that were seen, and replies.
    seen: usize,
    taken: usize,
}

/// The rounds of whoever alone asks a pool, if it does not ask again before all is done.
fn rounds(threads: &BTreeMap<Pid, Thread>, pool: &BTreeSet<Pid>, unit: u64, collector: Pid) -> Option<Vec<Round>> {
    let asks = |t: &Thread| t.steps.iter().filter_map(Step::wakes).any(|to| pool.contains(&to));
    if threads.iter().any(|(pid, t)| *pid != collector && asks(t)) {
        return None;
    }
    let steps = &threads[&collector].steps;
    let mut all: Vec<Round> = Vec::new();
    let mut is_over = true;
    for (i, step) in steps.iter().enumerate() {
        match *step {
            Step::Post { to, at } if pool.contains(&to) => {
                if std::mem::take(&mut is_over) {
                    all.push(Round { from: i, until: steps.len(), at, asked: 0, seen: 0, taken: 0 });
                    if let [.., before, _] = &mut all[..] {
                        before.until = i;
                    }
                }
                all.last_mut().expect("it has begun").seen += 1;
            }
            Step::Token { by, .. } if pool.contains(&by) => {
                all.last_mut()?.taken += 1;
                is_over = true;
            }
            _ => is_over |= step.waits(),
        }
    }
    // A request is hidden where all of them are busy.
    let mut counts: Vec<usize> = all.iter().map(|r| r.seen).collect();
    let usual = median(&mut counts)?;
    let is_usual = counts.iter().filter(|n| **n != usual).count() * ODD_OF <= all.len();
    all.iter_mut().for_each(|r| r.asked = if is_usual { usual } else { r.seen });
    let busy: Vec<Vec<Stretch>> = pool.iter().map(|pid| timed(&threads[pid].steps, unit)).collect();
    let works = |at: u64| busy.iter().any(|of| within(of, at, |s| (s.0, s.1)).is_some_and(|i| of[i].2 > 0));
    // Whom it wakes works from then on.
    let odd = all.iter().filter(|r| works(r.at.saturating_sub(1)) || r.taken > r.asked).count();
    let asked: usize = all.iter().map(|r| r.asked).sum();
    let served: u64 = busy.iter().flatten().map(|s| s.2).sum();
    let agree = asked.abs_diff(served as usize) <= 2 * pool.len().max(asked / AGREE_OF);
    (all.len() >= MIN_ROUNDS && odd * ODD_OF <= all.len() && agree).then_some(all)
}

/// The steps of the collector, which takes a reply for each request. Those that are not there come behind the last one of a round that is, or
/// before it waits for anything else; requests that are not there, behind the last that is.
fn collecting(steps: &[Step], pool: &BTreeSet<Pid>, rounds: &[Round]) -> Vec<Step> {
    let is_reply = |s: &Step| s.woken_by().is_some_and(|by| pool.contains(&by));
    let mut out = steps[..rounds.first().map_or(0, |r| r.from)].to_vec();
    for (nth, round) in rounds.iter().enumerate() {
        let of = &steps[round.from..round.until];
        let place = of.iter().rposition(is_reply).map(|i| i + 1).or_else(|| of.iter().position(Step::waits));
        let place = place.unwrap_or(of.len());
        let is_request = |s: &Step| s.wakes().is_some_and(|to| pool.contains(&to));
        let asks = of.iter().rposition(is_request).map_or(0, |i| i + 1);
        let first = pool.first().copied().expect("a pool has threads");
        // The last round may be cut off by the end of the trace.
        let is_whole = nth + 1 < rounds.len();
        let mut left = round.asked;
        for (i, step) in of.iter().enumerate().map(|(i, s)| (i, Some(s))).chain([(of.len(), None)]) {
            if i == asks && is_whole {
                let missing = round.asked.saturating_sub(round.seen);
                out.extend(std::iter::repeat_n(Step::Post { to: first, at: round.at }, missing));
            }
            if i == place && is_whole {
                let at = step.and_then(Step::blocked_since).unwrap_or(round.at);
                out.extend(std::iter::repeat_n(Step::Token { by: first, since: at, at }, std::mem::take(&mut left)));
            }
            match step {
                Some(step) if is_reply(step) && left == 0 => {}
                Some(step) => {
                    left -= usize::from(is_reply(step));
                    out.push(step.clone());
                }
                None => {}
            }
        }
    }
    out
}

/// The steps of a pool's thread, which replies to each request.
fn replying(steps: &[Step], to: Pid) -> Vec<Step> {
    let mut out = Vec::with_capacity(steps.len() + 8);
    let mut replied = true;
    for step in steps {
        match *step {
            Step::Token { at, .. } => {
                out.extend((!replied).then_some(Step::Post { to, at }));
                replied = false;
            }
            Step::Post { to: other, .. } if other == to && replied => continue,
            Step::Post { to: other, .. } if other == to => replied = true,
            _ => {}
        }
        out.push(step.clone());
    }
    out
}

/// The work of a request, if these threads take each other's.
fn steals(threads: &BTreeMap<Pid, Thread>, pool: &BTreeSet<Pid>) -> Option<u64> {
    let is_own = |s: &Step| s.with().is_some_and(|other| pool.contains(&other));
    if pool.iter().any(|pid| threads[pid].steps.iter().any(is_own)) {
        return None;
    }
    let works: Vec<u64> = pool.iter().flat_map(|pid| stretches(&threads[pid].steps)).collect();
    let unit = unit(&works)?;
    let of: BTreeMap<Pid, Vec<Stretch>> = pool.iter().map(|pid| (*pid, timed(&threads[pid].steps, unit))).collect();
    let vain = of.iter().flat_map(|(pid, of)| of.iter().filter(|s| s.2 == 0).map(|s| (*pid, s.0, s.1)));
    let vain: Vec<(Pid, u64, u64)> = vain.collect();
    let more: u64 = of.values().flatten().map(|s| s.2.saturating_sub(1)).sum();
    let several: BTreeMap<Pid, Vec<Stretch>> =
        of.into_iter().map(|(pid, of)| (pid, of.into_iter().filter(|s| s.2 > 1).collect())).collect();
    // Between the wake-up and the sleep after it somebody took the request.
    let meanwhile = |of: &[Stretch], from: u64, until: u64| {
        of[..of.partition_point(|s| s.0 < until)].last().is_some_and(|s| s.1 >= from)
    };
    let taken = |(pid, from, until): &&(Pid, u64, u64)| {
        several.iter().any(|(other, of)| other != pid && meanwhile(of, *from, *until))
    };
    let untaken = vain.len() - vain.iter().filter(taken).count();
    let few = vain.len() / UNTAKEN_OF;
    (vain.len() >= MIN_VAIN && untaken <= few && more + few as u64 >= vain.len() as u64).then_some(unit)
}

/// From each wake-up to the next sleep, and the requests in between; what the end of the trace cuts off tells nothing.
fn timed(steps: &[Step], unit: u64) -> Vec<Stretch> {
    let tokens: Vec<(usize, u64, u64)> = steps.iter().enumerate().filter_map(token).collect();
    let of = tokens.windows(2).map(|w| (w[0].2, w[1].1, &steps[w[0].0 + 1..w[1].0]));
    of.map(|(from, until, job)| (from, until.max(from), requests(work(job), unit))).collect()
}

fn token((i, step): (usize, &Step)) -> Option<(usize, u64, u64)> {
    if let Step::Token { since, at, .. } = *step { Some((i, since, at)) } else { None }
}

#[cfg(test)]
mod tests {
    use super::super::kin::of_names;
    use super::*;

    const ASKER: Pid = Pid(1);
    const POOL: [Pid; 2] = [Pid(2), Pid(3)];

    /// A thread asks two others each 100 µs and waits for both, but sleeps for the reply of the first one alone in each fifth round, and
    /// one request of the first round is hidden. In each fifth round the first one does the work of both, and the second one is woken in vain,
    /// in that round or so many later.
    fn threads(later: u64) -> BTreeMap<Pid, Thread> {
        let mut all: BTreeMap<Pid, Thread> = [ASKER].into_iter().chain(POOL).map(|p| (p, Thread::new(120))).collect();
        for r in 1..100u64 {
            let at = r * 100_000;
            for (pid, which) in POOL.into_iter().zip(0..) {
                let (does_both, is_vain) = (r % 5 == 0 && which == 0, r % 5 == later && which == 1);
                let jobs = if does_both { 2 } else { u64::from(!is_vain) };
                let of = &mut all.get_mut(&pid).unwrap().steps;
                of.push(Step::Token { by: ASKER, since: at - 50_000, at });
                for n in 1..=jobs {
                    let replies = n == 1 || r % 10 == 0;
                    let reply = Step::Post { to: ASKER, at: at + 20_000 * n + which };
                    of.extend([Some(Step::Work(9_000)), replies.then_some(reply)].into_iter().flatten());
                }
                let is_hidden = r == 1 && which == 1;
                all.get_mut(&ASKER).unwrap().steps.extend((!is_hidden).then_some(Step::Post { to: pid, at }));
            }
            let replies = POOL.iter().take(if r % 5 == 0 { 1 } else { 2 }).zip(0..);
            let token = |(by, which): (&Pid, u64)| Step::Token { by: *by, since: at + 1, at: at + 20_000 + which };
            let of = &mut all.get_mut(&ASKER).unwrap().steps;
            of.extend(replies.map(token));
            of.extend([Step::Work(500), Step::Sleep { ns: 30_000, since: at + 60_000 }, Step::Work(700)]);
        }
        all
    }

    fn families(threads: &BTreeMap<Pid, Thread>) -> Families {
        of_names(threads, |pid| if pid == ASKER { "asker" } else { "worker" })
    }

    #[test]
    fn one_does_the_work_of_both() {
        let mut all = threads(0);
        let families = families(&all);
        let found = steal(&mut all, &families);
        assert_eq!(found, POOL.map(|pid| (pid, POOL[0])).into());
        let jobs = POOL.map(|pid| {
            let steps = &all[&pid].steps;
            let is_job = |c: &[Step]| {
                c[1] == Step::Work(9_000)
                    && matches!((&c[0], &c[2]), (Step::Token { .. }, Step::Post { to: ASKER, .. }))
            };
            assert!(steps.chunks_exact(3).all(is_job), "one for each request: {steps:?}");
            steps.len() / 3
        });
        assert_eq!(jobs, [118, 80]);
        let steps = &all[&ASKER].steps;
        let round = |w: &&[Step]| {
            w[..2].iter().all(|s| matches!(s, Step::Post { .. }))
                && w[2..4].iter().all(|s| matches!(s, Step::Token { .. }))
                && w[4] == Step::Work(500)
        };
        assert_eq!(steps.windows(5).filter(round).count(), 99, "two requests and two replies: {steps:?}");
    }

    #[test]
    fn nobody_took_it() {
        let (mut all, before) = (threads(2), threads(2));
        assert_eq!(steal(&mut all, &families(&before)), BTreeMap::new());
        assert!([ASKER, POOL[0], POOL[1]].iter().all(|pid| all[pid].steps == before[pid].steps));
    }
}
