//! Requests that a pool had no thread free for.
//!
//! A thread that asks a pool while all its threads are busy wakes nobody, so there is no event; one of them takes the request when it is done
//! with its own, without a pause. Whoever asks as many times whenever it works shows what is missing: where it woke fewer and no thread of
//! the pool waited, the rest was hidden. The stretches in which threads of the pool were busy then hold the work of more than one request.

use super::joins::{Place, Waits, insert, kind_of_wait, token_waits, within};
use super::steps::{Step, median};
use super::workload::Thread;
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::Pid;

/// Fewer stretches of work in which a thread asks tell nothing.
const MIN_SEEN: usize = 8;
/// In one of so many it asks for less, at most, although somebody waited; and in one of so many at least some requests are hidden.
const REFUSED_OF: usize = 20;
const HIDDEN_OF: usize = 50;
/// A stretch with hidden requests has so much of the work of as many others, percent: else they were not served.
const SERVED_PCT: u64 = 70;
/// One of so many ends sooner after the last request than that takes.
const UNHEARD_OF: usize = 10;

/// A stretch of a thread's work that asked a pool for less than usual.
struct Short {
    by: Pid,
    /// Before which step the rest belongs, when that was, and how many they are.
    before: usize,
    at: u64,
    missing: usize,
}

/// What a thread of a pool did from one wait to the next.
struct Job {
    pid: Pid,
    /// Its work, and from when until when that was.
    step: usize,
    from: u64,
    until: u64,
    units: u64,
    /// Who asked for what is hidden in it, and when.
    hidden: Vec<(Pid, u64)>,
}

/// Puts hidden requests in: where they are asked, and where they are taken. How many.
pub(super) fn ask(threads: &mut BTreeMap<Pid, Thread>, pools: &BTreeMap<Pid, Pid>) -> usize {
    let mut members: BTreeMap<Pid, BTreeSet<Pid>> = BTreeMap::new();
    pools.iter().for_each(|(pid, pool)| members.entry(*pool).or_default().extend([*pid]));
    members.values().map(|pool| ask_pool(threads, pool)).sum()
}

fn ask_pool(threads: &mut BTreeMap<Pid, Thread>, pool: &BTreeSet<Pid>) -> usize {
    let mut jobs: Vec<Vec<Job>> = pool.iter().map(|pid| self::jobs(*pid, &threads[pid].steps)).collect();
    let free: Vec<Vec<(u64, u64)>> = pool.iter().map(|pid| token_waits(&threads[pid].steps)).collect();
    let waits = |now: u64| free.iter().any(|f| within(f, now, |wait| *wait).is_some());
    let askers = threads.iter().filter(|(pid, _)| !pool.contains(pid));
    let short: Vec<Short> = askers.flat_map(|(pid, t)| short(*pid, &t.steps, pool, &waits)).collect();
    let mut asked: Vec<(Pid, usize, u64)> = Vec::new();
    for s in &short {
        // Whose job is longest has more than one in it.
        let busy = jobs.iter().enumerate().filter_map(|(m, of)| Some((m, within(of, s.at, |j| (j.from, j.until))?)));
        let mut busy: Vec<(usize, usize)> = busy.collect();
        busy.sort_by_key(|(m, j)| std::cmp::Reverse(jobs[*m][*j].units_each()));
        for (m, j) in busy.into_iter().take(s.missing) {
            jobs[m][j].hidden.push((s.by, s.at));
            asked.push((s.by, s.before, s.at));
        }
    }
    let jobs: Vec<Job> = jobs.into_iter().flatten().collect();
    if !are_served(&jobs) {
        return 0;
    }
    let first = *pool.first().expect("a pool has threads");
    let mut inserts: BTreeMap<Pid, Vec<(Place, Step)>> = BTreeMap::new();
    for (by, before, at) in &asked {
        inserts.entry(*by).or_default().push(((*before, 0), Step::Post { to: first, at: *at }));
    }
    for job in jobs.iter().filter(|j| !j.hidden.is_empty()) {
        let work = Step::Work(job.units_each().max(1));
        threads.get_mut(&job.pid).expect("it has jobs").steps[job.step] = work.clone();
        let of = inserts.entry(job.pid).or_default();
        for &(by, since) in &job.hidden {
            of.extend([Step::Token { by, since, at: since }, work.clone()].map(|s| ((job.step + 1, 0), s)));
        }
    }
    for (pid, of) in inserts {
        insert(&mut threads.get_mut(&pid).expect("it has steps").steps, of);
    }
    asked.len()
}

impl Job {
    /// Work of each of its requests.
    fn units_each(&self) -> u64 {
        self.units / (self.hidden.len() as u64 + 1)
    }
}

/// Stretches with hidden requests have the work of as many more, and go on for that long after the last of them.
fn are_served(jobs: &[Job]) -> bool {
    let units = |hidden: bool| -> Vec<u64> {
        jobs.iter().filter(|j| j.hidden.is_empty() != hidden).map(Job::units_each).collect()
    };
    let (Some(alone), Some(each)) = (median(&mut units(false)), median(&mut units(true))) else { return false };
    let mut walls: Vec<u64> = jobs.iter().filter(|j| j.hidden.is_empty()).map(|j| j.until - j.from).collect();
    walls.sort_unstable();
    let short = walls[walls.len() / UNHEARD_OF];
    let after: Vec<u64> = jobs.iter().filter_map(|j| Some(j.until - j.hidden.iter().map(|h| h.1).max()?)).collect();
    let unheard = after.iter().filter(|ns| **ns < short).count();
    u128::from(each) * 100 >= u128::from(alone) * u128::from(SERVED_PCT) && unheard * UNHEARD_OF <= after.len()
}

/// The stretches of one piece of work after a request each.
fn jobs(pid: Pid, steps: &[Step]) -> Vec<Job> {
    let mut all = Vec::new();
    let tokens: Vec<usize> = (0..steps.len()).filter(|i| matches!(steps[*i], Step::Token { .. })).collect();
    for w in tokens.windows(2) {
        let (Step::Token { at: from, .. }, Step::Token { since: until, .. }) = (&steps[w[0]], &steps[w[1]]) else {
            continue;
        };
        if let [Step::Work(units)] = steps[w[0] + 1..w[1]] {
            let (from, until) = (*from, (*until).max(*from));
            all.push(Job { pid, step: w[0] + 1, from, until, units, hidden: Vec::new() });
        }
    }
    all
}

/// Where a thread asked the pool for less than it does else, and nobody of the pool waited.
fn short(by: Pid, steps: &[Step], pool: &BTreeSet<Pid>, waits: &impl Fn(u64) -> bool) -> Vec<Short> {
    // Kinds of the waits around it; how often it asks, and where and when the last time.
    let mut stretches: Vec<(Waits, usize, usize, u64)> = Vec::new();
    // Does it work before it asks?
    let (mut late, mut asks) = (0, 0);
    let mut begun: Option<(u8, usize, u64)> = None;
    let (mut count, mut last) = (0, None);
    let mut worked = false;
    for (i, step) in steps.iter().enumerate() {
        match step {
            Step::Post { to, at } if pool.contains(to) => {
                (asks, late) = (asks + usize::from(count == 0), late + usize::from(count == 0 && worked));
                (count, last) = (count + 1, Some((i + 1, *at)));
            }
            Step::Work(_) | Step::Spin(_) => worked = true,
            _ => {}
        }
        if let Some(kind) = kind_of_wait(step) {
            if let (Some((before, begin, from)), Some(at)) = (begun, step.blocked_since()) {
                let (place, at) = last.take().unwrap_or(if 2 * late > asks { (i, at) } else { (begin, from) });
                stretches.push(([before, kind], count, place, at));
            }
            begun = step.woken_at().map(|at| (kind, i + 1, at));
            (count, worked, last) = (0, false, None);
        }
    }
    let mut all = Vec::new();
    let kinds: BTreeSet<Waits> = stretches.iter().map(|s| s.0).collect();
    for kind in kinds {
        let of: Vec<_> = stretches.iter().filter(|s| s.0 == kind).collect();
        let usual = of.iter().map(|s| s.1).max().unwrap_or(0);
        let whole = of.iter().filter(|s| s.1 == usual).count();
        if usual == 0 || whole < MIN_SEEN || whole * 2 < of.len() {
            continue;
        }
        let less = || of.iter().filter(|s| s.1 < usual);
        let refused = less().filter(|s| waits(s.3)).count();
        if refused * REFUSED_OF <= of.len() && less().count() * HIDDEN_OF > of.len() {
            let hidden = less().filter(|s| !waits(s.3));
            all.extend(hidden.map(|s| Short { by, before: s.2, at: s.3, missing: usual - s.1 }));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKER: Pid = Pid(1);
    const POOL: [Pid; 3] = [Pid(2), Pid(3), Pid(4)];

    /// A thread that asks three others every 100 µs, whose requests take `long` µs each time in ten, else 30. `lost`: who is
    /// busy when it is asked does not hear it.
    fn threads(long: u64, lost: bool) -> BTreeMap<Pid, Thread> {
        let mut all: BTreeMap<Pid, Thread> = [ASKER].into_iter().chain(POOL).map(|p| (p, Thread::new(120))).collect();
        let mut idle = [0; 3];
        for r in 1..100u64 {
            let at = r * 100_000;
            all.get_mut(&ASKER).unwrap().steps.push(Step::Timer { until: at, since: at - 50_000 });
            for (i, pid) in POOL.into_iter().enumerate() {
                let us = if (r + i as u64).is_multiple_of(10) { long } else { 30 };
                if idle[i] > at {
                    if let (false, Some(Step::Work(units))) = (lost, all.get_mut(&pid).unwrap().steps.last_mut()) {
                        *units += us;
                        idle[i] += us * 1000;
                    }
                    continue;
                }
                all.get_mut(&ASKER).unwrap().steps.push(Step::Post { to: pid, at });
                let taken = [Step::Token { by: ASKER, since: idle[i], at }, Step::Work(us)];
                all.get_mut(&pid).unwrap().steps.extend(taken);
                idle[i] = at + us * 1000;
            }
            all.get_mut(&ASKER).unwrap().steps.push(Step::Work(20));
        }
        all
    }

    fn asked(long: u64, lost: bool) -> (usize, usize, usize) {
        let mut threads = threads(long, lost);
        let hidden = ask(&mut threads, &POOL.map(|pid| (pid, POOL[0])).into());
        let posts = threads[&ASKER].steps.iter().filter(|s| matches!(s, Step::Post { .. })).count();
        let takes = |pid: &Pid| threads[pid].steps.iter().filter(|s| matches!(s, Step::Token { .. })).count();
        (hidden, posts, POOL.iter().map(takes).sum())
    }

    #[test]
    fn what_nobody_was_free_for() {
        let (hidden, posts, takes) = asked(120, false);
        assert!(hidden > 20, "{hidden}");
        assert!(posts == takes && posts > 290, "{posts} of 297 asked, {takes} taken");
        assert_eq!(asked(80, false).0, 0, "nobody is busy");
    }

    #[test]
    fn what_was_lost() {
        assert_eq!(asked(120, true).0, 0, "who is busy does the work of one");
    }
}
