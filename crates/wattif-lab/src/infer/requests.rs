//! Requests that a pool had no thread free for.
//!
//! A thread that asks a pool while all its threads are busy wakes nobody, so there is no event; one of them takes the request when it is done
//! with its own, without a pause. The stretches in which threads of the pool were busy then hold the work of more than one request.
//!
//! Where requests are all the same work, stretches are whole multiples of it, and tell how many there were. If these are as many as when
//! each asker had always asked for as much as it once did, or all for the same number, what is missing is put in, and each request has
//! its part of a stretch. Else whoever asks as many times whenever it works shows what is missing: where it woke fewer and no thread of the
//! pool waited, the rest was hidden.
//!
//! A stretch with next to no work is a wake-up in vain: another thread, which was running, had taken the request. Where there are some, they
//! share a semaphore: a wake-up does not say who has the request. Else it does.

use super::steps::{Place, Step, Waits, insert, kind_of_wait, median, token_waits, within};
use super::thread::Thread;
use super::units::{requests, stretches, taking, units};
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::Pid;

/// Fewer stretches of work in which a thread asks tell nothing.
const MIN_SEEN: usize = 8;
/// It usually asks for as much as in one of so many, at least.
const USUAL_OF: usize = 4;
/// In one of so many it asks for less, at most, although somebody waited; and in one of so many at least some requests are hidden.
const REFUSED_OF: usize = 20;
const HIDDEN_OF: usize = 50;
/// Threads of the smallest pools.
const PAIR: usize = 2;
/// A stretch with hidden requests has so much of the work of as many others, percent: else they were not served.
const SERVED_PCT: u64 = 70;
/// One of so many ends sooner after the last request than that takes.
const UNHEARD_OF: usize = 10;
/// So many requests tell whether they are as many as were asked for: to one in so many.
const MIN_SERVED: usize = 50;
const AGREE_OF: usize = 50;

/// What was put in.
#[derive(Default)]
pub(super) struct Asked {
    pub hidden: usize,
    /// Pools, by their first threads, that take requests from a semaphore.
    pub semaphores: BTreeSet<Pid>,
}

/// A stretch of a thread's work in which it asks a pool, or could have done.
struct Asks {
    by: Pid,
    /// Kinds of the waits around it.
    between: Waits,
    /// How often it asks.
    count: usize,
    /// Before which step more requests belong, and from when until when that may have been.
    before: usize,
    at: u64,
    until: u64,
    work: u64,
}

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

/// Puts hidden requests in: where they are asked, and where they are taken. Two threads that do not show by their work that they share
/// requests are no pool after all. Of those that are `known` (`steals.rs`) wake-ups in vain are left out already.
pub(super) fn ask(
    threads: &mut BTreeMap<Pid, Thread>,
    pools: &mut BTreeMap<Pid, Pid>,
    known: &BTreeMap<Pid, Pid>,
) -> Asked {
    let mut members: BTreeMap<Pid, BTreeSet<Pid>> = BTreeMap::new();
    pools.iter().for_each(|(pid, pool)| members.entry(*pool).or_default().extend([*pid]));
    let mut all = Asked::default();
    for (first, pool) in members {
        let steals = known.contains_key(&first);
        all.semaphores.extend(steals.then_some(first));
        match ask_alike(threads, &pool) {
            Some((hidden, semaphore)) => {
                all.hidden += hidden;
                all.semaphores.extend(semaphore.then_some(first));
            }
            None if steals || pool.len() > PAIR => all.hidden += ask_pool(threads, &pool),
            None => pools.retain(|_, of| *of != first),
        }
    }
    all
}

/// The same for a pool whose requests are all the same work, as many as were asked for: how many, and are there wake-ups in vain? `None` where
/// that is not so.
fn ask_alike(threads: &mut BTreeMap<Pid, Thread>, pool: &BTreeSet<Pid>) -> Option<(usize, bool)> {
    let stretches: Vec<u64> = pool.iter().flat_map(|pid| self::stretches(&threads[pid].steps)).collect();
    let all = asked(threads, pool);
    let served = |unit: u64| stretches.iter().map(|work| requests(*work, unit)).sum::<u64>() as usize;
    let (unit, usual) = units(&stretches).find_map(|unit| Some((unit, usual(&all, served(unit), pool.len())?)))?;
    let waits = waits(threads, pool);
    let usual = |a: &Asks| usual.get(&(a.by, a.between)).copied().unwrap_or(0);
    let missing = |a: &Asks| usual(a).saturating_sub(a.count);
    let short: Vec<&Asks> = all.iter().filter(|a| missing(a) > 0).collect();
    let refused = short.iter().filter(|a| waits(a.at) && waits(a.until)).count();
    // Of two threads, hidden requests alone tell that they share them.
    let of = if pool.len() > PAIR { all.iter().filter(|a| usual(a) > 0).count() } else { short.len() };
    if refused * REFUSED_OF > of || pool.len() <= PAIR && short.len() < MIN_SEEN {
        return None;
    }
    let vain = stretches.iter().filter(|work| requests(**work, unit) == 0).count();
    let semaphore = vain >= MIN_SEEN;
    let first = *pool.first().expect("a pool has threads");
    let hidden = short.iter().map(|a| missing(a)).sum();
    let mut inserts: BTreeMap<Pid, Vec<(Place, Step)>> = BTreeMap::new();
    for a in short {
        let post = ((a.before, 0), Step::Post { to: first, at: a.at });
        inserts.entry(a.by).or_default().extend(vec![post; missing(a)]);
    }
    for (pid, of) in inserts {
        insert(&mut threads.get_mut(&pid).expect("it has steps").steps, of);
    }
    for pid in pool {
        let steps = &mut threads.get_mut(pid).expect("it has steps").steps;
        *steps = taking(steps, unit, semaphore);
    }
    Some((hidden, semaphore))
}

/// Does a thread of the pool wait at a time?
fn waits(threads: &BTreeMap<Pid, Thread>, pool: &BTreeSet<Pid>) -> impl Fn(u64) -> bool + use<> {
    let free: Vec<Vec<(u64, u64)>> = pool.iter().map(|pid| token_waits(&threads[pid].steps)).collect();
    move |now| free.iter().any(|f| within(f, now, |wait| *wait).is_some())
}

/// How often each asker asks in a stretch between such waits, if that makes as many requests as were served, but for those that are `open` at
/// the end: as often as it did, or all of them as often.
fn usual(all: &[Asks], served: usize, open: usize) -> Option<BTreeMap<(Pid, Waits), usize>> {
    let mut counts: BTreeMap<(Pid, Waits), Vec<usize>> = BTreeMap::new();
    all.iter().for_each(|a| counts.entry((a.by, a.between)).or_default().push(a.count));
    let most = |(class, mut counts): (_, Vec<usize>)| {
        counts.sort_unstable();
        // Who is late may have several turns in one.
        let most = counts[counts.len() - 1 - counts.len() / AGREE_OF];
        (*counts.last()? > 0).then_some((class, (counts.len(), most.max(1))))
    };
    let most: BTreeMap<(Pid, Waits), (usize, usize)> = counts.into_iter().filter_map(most).collect();
    let n: usize = most.values().map(|of| of.0).sum();
    let agree = |asked: usize| asked >= MIN_SERVED && asked.abs_diff(served) <= open.max(asked / AGREE_OF);
    if agree(most.values().map(|(n, count)| n * count).sum()) {
        return Some(most.into_iter().map(|(class, (_, count))| (class, count)).collect());
    }
    let each = (served + n / 2).checked_div(n)?;
    let all_alike = agree(n * each) && most.values().all(|of| of.1 <= each);
    all_alike.then(|| most.into_keys().map(|class| (class, each)).collect())
}

/// The same where whoever asks does it as often as it usually does. How many.
fn ask_pool(threads: &mut BTreeMap<Pid, Thread>, pool: &BTreeSet<Pid>) -> usize {
    let mut jobs: Vec<Vec<Job>> = pool.iter().map(|pid| self::jobs(*pid, &threads[pid].steps)).collect();
    let waits = waits(threads, pool);
    let short = short(&self::asked(threads, pool), &waits);
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
    let tokens: Vec<usize> = (0..steps.len()).filter(|i| steps[*i].woken_by().is_some()).collect();
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

/// All stretches in which a thread works as those in which it asks the pool.
fn asked(threads: &BTreeMap<Pid, Thread>, pool: &BTreeSet<Pid>) -> Vec<Asks> {
    let askers = threads.iter().filter(|(pid, _)| !pool.contains(pid));
    askers.flat_map(|(pid, t)| asks(*pid, &t.steps, pool)).collect()
}

fn asks(by: Pid, steps: &[Step], pool: &BTreeSet<Pid>) -> Vec<Asks> {
    let mut all = Vec::new();
    // Does it work before it asks?
    let (mut late, mut asks) = (0, 0);
    let mut begun: Option<(u8, usize, u64)> = None;
    let (mut count, mut last, mut work) = (0, None, 0u64);
    for (i, step) in steps.iter().enumerate() {
        match *step {
            Step::Post { to, at } if pool.contains(&to) => {
                (asks, late) = (asks + usize::from(count == 0), late + usize::from(count == 0 && work > 0));
                (count, last) = (count + 1, Some((i + 1, at)));
            }
            Step::Work(units) | Step::Spin(units) => work += units,
            _ => {}
        }
        if let Some(kind) = kind_of_wait(step) {
            if let (Some((kind_before, begin, from)), Some(since)) = (begun, step.blocked_since()) {
                let (before, at) = last.take().unwrap_or(if 2 * late > asks { (i, since) } else { (begin, from) });
                all.push(Asks { by, between: [kind_before, kind], count, before, at, until: since, work });
            }
            begun = step.woken_at().map(|at| (kind, i + 1, at));
            (count, work, last) = (0, 0, None);
        }
    }
    // Who has hardly worked has nothing to ask.
    let mut asking: Vec<u64> = all.iter().filter(|a| a.count > 0).map(|a| a.work).collect();
    let usual = median(&mut asking).unwrap_or(0);
    all.retain(|a| a.count > 0 || 2 * a.work >= usual);
    all
}

/// Where a thread asked the pool for less than it does else, and nobody of the pool waited. Who is late may have several turns in one.
fn short(all: &[Asks], waits: &impl Fn(u64) -> bool) -> Vec<Short> {
    let mut out = Vec::new();
    let kinds: BTreeSet<(Pid, Waits)> = all.iter().map(|a| (a.by, a.between)).collect();
    for kind in kinds {
        let of: Vec<&Asks> = all.iter().filter(|a| (a.by, a.between) == kind).collect();
        let mut whole: BTreeMap<usize, usize> = BTreeMap::new();
        of.iter().for_each(|a| *whole.entry(a.count).or_default() += 1);
        let often = |count: &usize| whole[count] >= MIN_SEEN && whole[count] * USUAL_OF >= of.len();
        let Some(usual) = whole.keys().copied().filter(often).max().filter(|usual| *usual > 0) else { continue };
        if of.iter().filter(|a| a.count > usual).count() * REFUSED_OF > of.len() {
            continue;
        }
        let missing = |a: &Asks| a.count.max(1).next_multiple_of(usual) - a.count;
        let less = || of.iter().filter(|a| missing(a) > 0);
        let refused = less().filter(|a| waits(a.at)).count();
        if refused * REFUSED_OF <= of.len() && less().count() * HIDDEN_OF > of.len() {
            let hidden = less().filter(|a| !waits(a.at));
            out.extend(hidden.map(|a| Short { by: a.by, before: a.before, at: a.at, missing: missing(a) }));
        }
    }
    out
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
        let hidden = ask(&mut threads, &mut POOL.map(|pid| (pid, POOL[0])).into(), &BTreeMap::new()).hidden;
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

    #[test]
    fn several_turns_in_one() {
        let missing = |counts: &[(usize, usize)], waited: bool| -> usize {
            let counts = counts.iter().flat_map(|(count, times)| vec![*count; *times]);
            let asks = |count| Asks { by: ASKER, between: [0, 0], count, before: 0, at: 0, until: 0, work: 1 };
            short(&counts.map(asks).collect::<Vec<_>>(), &|_: u64| waited).iter().map(|s| s.missing).sum()
        };
        let late = |times| [(6, 40), (5, 30), (4, 20), (12, times), (11, 1)];
        assert_eq!(missing(&late(2), false), 30 + 2 * 20 + 1, "less than half of the turns are whole");
        assert_eq!(missing(&late(20), false), 0, "it asks for more than six");
        assert_eq!(missing(&late(2), true), 0, "somebody waited");
        assert_eq!(missing(&[(6, 15), (5, 30), (4, 30)], false), 0, "it asks for less");
    }

    /// Threads that take requests of 30 µs of work each from a semaphore: an asker puts `n` there every 100 µs. Of each ten, the last is
    /// taken by a thread that is busy with another, though one has been woken for it.
    fn shared(n: u64, pool: &[Pid]) -> BTreeMap<Pid, Thread> {
        let mut all: BTreeMap<Pid, Thread> = [ASKER].iter().chain(pool).map(|p| (*p, Thread::new(120))).collect();
        // When each is done.
        let mut done: BTreeMap<Pid, u64> = pool.iter().map(|pid| (*pid, 0)).collect();
        let mut nth = 0;
        for at in (1..200u64).map(|r| r * 100_000) {
            let steps = &mut all.get_mut(&ASKER).unwrap().steps;
            steps.extend([Step::Timer { until: at, since: at - 50_000 }, Step::Work(20)]);
            let mut posts = Vec::new();
            for _ in 0..n {
                nth += 1;
                let (pid, idle) = done.iter().map(|d| (*d.0, *d.1)).min_by_key(|d| d.1).unwrap();
                // Who is busy with a request, and done with it first.
                let of = done.iter().map(|d| (*d.0, *d.1)).filter(|d| d.1 > at + 1_000).min_by_key(|d| d.1);
                let wakes = idle <= at;
                posts.extend(wakes.then_some(Step::Post { to: pid, at }));
                let vain = wakes && of.is_some() && nth % 10 == 0;
                if wakes {
                    let token = Step::Token { by: ASKER, since: idle, at };
                    all.get_mut(&pid).unwrap().steps.extend([token, Step::Work(if vain { 1 } else { 30 })]);
                    done.insert(pid, at + if vain { 1_000 } else { 30_000 });
                }
                if !wakes || vain {
                    let taker = of.expect("it is busy").0;
                    let Some(Step::Work(units)) = all.get_mut(&taker).unwrap().steps.last_mut() else { panic!("busy") };
                    *units += 30;
                    *done.get_mut(&taker).unwrap() += 30_000;
                }
            }
            all.get_mut(&ASKER).unwrap().steps.extend(posts);
        }
        all
    }

    fn count(threads: &BTreeMap<Pid, Thread>, is: impl Fn(&Step) -> bool) -> usize {
        threads.values().flat_map(|t| &t.steps).filter(|s| is(s)).count()
    }

    #[test]
    fn requests_of_the_same_work() {
        for n in [4, 7] {
            let mut threads = shared(n, &POOL);
            let posts = |threads: &_| count(threads, |s| matches!(s, Step::Post { .. }));
            let seen = posts(&threads);
            let asked = ask(&mut threads, &mut POOL.map(|pid| (pid, POOL[0])).into(), &BTreeMap::new());
            assert_eq!(asked.hidden, posts(&threads) - seen, "{n}");
            assert!(posts(&threads) > 198 * n as usize, "{n}: but for what the end cuts off, {}", posts(&threads));
            assert_eq!(asked.semaphores.len(), 1, "some are woken in vain");
            let takes = count(&threads, |s| matches!(s, Step::Token { .. }));
            assert_eq!((takes, count(&threads, |s| *s == Step::Work(1))), (199 * n as usize, 0), "{n}");
        }
    }

    #[test]
    fn two_threads_that_share_requests() {
        let two = &POOL[..2];
        let pools = || two.iter().map(|pid| (*pid, POOL[0])).collect::<BTreeMap<Pid, Pid>>();
        let (mut busy, mut of_busy) = (shared(5, two), pools());
        assert!(ask(&mut busy, &mut of_busy, &BTreeMap::new()).hidden > 100);
        assert_eq!(of_busy.len(), 2);
        let (mut idle, mut of_idle) = (shared(1, two), pools());
        assert_eq!(
            (ask(&mut idle, &mut of_idle, &BTreeMap::new()).hidden, of_idle.len()),
            (0, 0),
            "each may have its own"
        );
    }
}
