//! Programs without an end.
//!
//! Under another kernel or clock a thread may get farther than it did, and then it needs more steps than the trace shows. Who waits for
//! nothing that comes at a given time goes round: it sleeps so long, or for others that go round as well. What it did first may
//! belong to its beginning: until it had forked its children, was woken by the thread that started it, or slept for a time. So
//! a thread does all that was recorded, and then again what it did from a time on, since when nothing of that kind has happened to it or to
//! those it deals with. The time is the same for all of them: each token that was put from then on was taken from then on, so that
//! rounds leave no token behind and lack none.
//!
//! A priority that a thread comes back to is no beginning: its rounds begin where it comes back to its first one.
//!
//! Threads that had ended or stopped before the trace did, and those with timers, do what was recorded. Whoever waits for such a thread until
//! late is as bound to it; unless that thread wakes it now and then only, when it had hardly begun to wait: then it goes round without. Who
//! forgets what wakes it while it is busy (`joins.rs`) is woken as often as it can be: it goes round with whoever wakes it.

use super::steps::{Queue, STRAY_OF, Step};
use super::thread::{State, Thread};
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::Pid;

/// A thread that has set its first priority so often comes back to it.
const MIN_RETURNS: usize = 2;
/// Who never waits goes round if it wakes others, or yields, so often.
const MIN_POSTS: usize = 8;
/// Whoever is there in the first part of a trace of so many was there from the beginning.
const EARLY_OF: u64 = 20;
/// Of waits without a time it is known that they are shorter than one part in so many of the trace, or the thread has stopped.
const QUIET_OF: u64 = 10;

/// What a thread waited for another one: how often, how long at most, and until when.
#[derive(Clone, Copy, Default)]
struct Waits {
    n: usize,
    longest: u64,
    last: u64,
}

/// A thread's waits by who ended them.
type WaitsOf = BTreeMap<Option<Pid>, Waits>;

/// From which of its steps on each thread that goes round does so. Wake-ups by timers that its rounds do without are left out of `threads`.
/// `asleep` tells which timers are relative sleeps; the trace ends at `end`.
pub(super) fn rounds(
    threads: &mut BTreeMap<Pid, Thread>,
    asleep: impl Fn(Pid, &[Step]) -> Vec<bool>,
    forgetful: &BTreeSet<Pid>,
    end: u64,
) -> BTreeMap<Pid, usize> {
    let own = |(pid, t): (&Pid, &Thread)| Some((*pid, steady(t, &asleep(*pid, &t.steps), threads, end)?));
    let mut since: BTreeMap<Pid, u64> = threads.iter().filter_map(own).collect();
    let waits: BTreeMap<Pid, WaitsOf> = threads.iter().map(|(pid, t)| (*pid, waits(t))).collect();
    let meetings = meetings(threads);
    bind(&mut since, &waits, &meetings, (forgetful, end));
    // What those did for it once belongs to its beginning.
    let going: BTreeSet<Pid> = since.keys().copied().collect();
    for (pid, since) in &mut since {
        let others = waits[pid].iter().filter(|(by, w)| by.is_some_and(|by| !going.contains(&by)) && w.last <= end / 2);
        *since = others.map(|(_, w)| w.last).fold(*since, u64::max);
    }
    let pairs = |pid: &Pid| waits[pid].keys().flatten().map(|by| (*pid, *by)).collect::<Vec<_>>();
    let met = meetings.iter().flat_map(|all| all.iter().map(|pid| (*all.first().expect("not empty"), *pid)));
    let links: BTreeSet<(Pid, Pid)> = going.iter().flat_map(pairs).chain(met).collect();
    together(&mut since, &links);
    // Where steps do not say when they were, all of them are done again or none.
    for (pid, since) in &mut since {
        let t = &threads[pid];
        let timeless =
            |s: &Step| matches!(s, Step::Get(_) | Step::Put(_) | Step::Drain { .. } | Step::Take(_) | Step::Free(_));
        if *since > 0 && (t.steps.iter().any(timeless) || begin(t, *since).is_none()) {
            *since = u64::MAX;
        }
    }
    together(&mut since, &links);
    since.retain(|_, since| *since < u64::MAX);
    leave_out(threads, &since, forgetful);
    let first = |(pid, since): (&Pid, &u64)| {
        let t = &threads[pid];
        let begin = begin(t, *since)?;
        has_turns(&t.steps[begin..]).then_some((*pid, begin))
    };
    since.iter().filter_map(first).collect()
}

/// Whoever waits for a thread that does not go round, or meets one, does not either: these are taken out of `since`.
fn bind(
    since: &mut BTreeMap<Pid, u64>,
    waits: &BTreeMap<Pid, WaitsOf>,
    meetings: &[BTreeSet<Pid>],
    (forgetful, end): (&BTreeSet<Pid>, u64),
) {
    loop {
        let goes = |pid: &Pid| since.contains_key(pid);
        let is_bound = |pid: &Pid| {
            let (of, late) = (&waits[pid], |w: &Waits| w.last > end / 2);
            let by = |(by, w): (&Option<Pid>, &Waits)| by.is_some_and(|by| !goes(&by)) && late(w) && !is_stray(w, of);
            of.iter().any(by) && !forgetful.contains(pid)
        };
        let mut bound: BTreeSet<Pid> = since.keys().filter(|pid| is_bound(pid)).copied().collect();
        bound.extend(meetings.iter().filter(|all| !all.iter().all(goes)).flatten().filter(|pid| goes(pid)));
        if bound.is_empty() {
            return;
        }
        since.retain(|pid, _| !bound.contains(pid));
    }
}

/// Since when nothing has happened to a thread that happens once or at a given time; `None` if it may not go round.
fn steady(t: &Thread, asleep: &[bool], threads: &BTreeMap<Pid, Thread>, end: u64) -> Option<u64> {
    let sleeps = matches!(t.state, State::Sleeping { .. });
    if matches!(t.state, State::Dead { .. }) || stopped(t, end) || !has_turns(&t.steps) {
        return None;
    }
    if sleeps && !t.steps.iter().any(Step::waits) {
        return None;
    }
    let mut since = if t.born > end / EARLY_OF { t.born } else { 0 };
    let mut now = 1;
    let returns = returns(t);
    if returns {
        let first = t.steps.iter().position(|s| *s == Step::Attr(t.first_prio)).unwrap_or(0);
        since = t.steps[..first].iter().filter_map(time).fold(since.max(1), u64::max);
    }
    for (step, asleep) in t.steps.iter().zip(asleep) {
        now = time(step).map_or(now, |at| now.max(at));
        match step {
            Step::Timer { .. } if !asleep => since = now,
            Step::Attr(_) if returns => {}
            Step::Passed { .. } | Step::Attr(_) => since = now,
            Step::Fork(child) => since = now.max(threads.get(child).map_or(0, |child| child.born)),
            Step::Exit | Step::Gather(_) | Step::Arrive(_) => return None,
            _ => {}
        }
    }
    (since <= end / 2).then_some(since)
}

/// Does it set its first priority again and again?
fn returns(t: &Thread) -> bool {
    t.steps.iter().filter(|s| **s == Step::Attr(t.first_prio)).count() >= MIN_RETURNS
}

/// Does it work and wait, or wake others or yield while it works?
fn has_turns(steps: &[Step]) -> bool {
    let posts = steps.iter().filter(|s| matches!(s, Step::Post { .. } | Step::Yield)).count();
    steps.iter().any(Step::is_busy) && (steps.iter().any(Step::waits) || posts >= MIN_POSTS)
}

/// It has slept at the end for twice as long as ever before.
fn stopped(t: &Thread, end: u64) -> bool {
    let State::Sleeping { since, .. } = t.state else { return false };
    let length = |s: &Step| s.woken_at().zip(s.blocked_since()).map(|(until, since)| until.saturating_sub(since));
    let waits = t.steps.iter().filter(|s| s.waits());
    let longest = waits.map(|s| length(s).unwrap_or(end / QUIET_OF)).max().unwrap_or(0);
    end.saturating_sub(since) > 2 * longest
}

/// When a step was, if it says so.
fn time(step: &Step) -> Option<u64> {
    if let Step::Post { at, .. } = *step { Some(at) } else { step.woken_at() }
}

fn waits(t: &Thread) -> WaitsOf {
    let mut all = WaitsOf::new();
    for step in t.steps.iter().filter(|s| s.waits()) {
        let (until, since) = (step.woken_at().unwrap_or(0), step.blocked_since().unwrap_or(0));
        let w = all.entry(step.woken_by()).or_default();
        *w = Waits { n: w.n + 1, longest: w.longest.max(until.saturating_sub(since)), last: w.last.max(until) };
    }
    all
}

/// Few of a thread's waits, and none of them long: it would have been woken anyway.
fn is_stray(of_one: &Waits, all: &WaitsOf) -> bool {
    let n: usize = all.values().map(|w| w.n).sum();
    // Each length but those by it; another thread of the same number of waits and length changes nothing.
    let others = all.values().filter(|w| w.n > of_one.n).map(|w| w.longest).max().unwrap_or(0);
    of_one.n * STRAY_OF <= n && of_one.longest <= others
}

/// Threads that meet at a barrier, share a lock or serve each other.
fn meetings(threads: &BTreeMap<Pid, Thread>) -> Vec<BTreeSet<Pid>> {
    let mut all: BTreeMap<(u8, Pid), BTreeSet<Pid>> = BTreeMap::new();
    for (pid, t) in threads {
        for step in &t.steps {
            let (kind, of) = match *step {
                Step::Barrier(of) => (0, of),
                Step::Lock(of) => (1, of),
                Step::Take(of) | Step::Free(of) => (2, of),
                Step::Get(queue) | Step::Put(queue) | Step::Drain { from: queue, .. } => match queue {
                    Queue::Wakes(of)
                    | Queue::Requests(of, _)
                    | Queue::Batch(of, _)
                    | Queue::Replies(of, _)
                    | Queue::Arrived(of)
                    | Queue::Go(of) => (2, of),
                },
                _ => continue,
            };
            all.entry((kind, of)).or_insert_with(|| [of].into()).insert(*pid);
        }
    }
    all.into_values().collect()
}

/// Those who deal with each other are steady since the same time.
fn together(since: &mut BTreeMap<Pid, u64>, links: &BTreeSet<(Pid, Pid)>) {
    let mut changed = true;
    while std::mem::take(&mut changed) {
        for (a, b) in links {
            let (Some(of_a), Some(of_b)) = (since.get(a).copied(), since.get(b).copied()) else { continue };
            if of_a != of_b {
                changed = true;
                [a, b].iter().for_each(|pid| _ = since.insert(**pid, of_a.max(of_b)));
            }
        }
    }
}

/// The first step after a time, at which the thread holds no lock, or comes back to its first priority; `None` where it wakes others or is
/// woken until then.
fn begin(t: &Thread, since: u64) -> Option<usize> {
    if since == 0 {
        return Some(0);
    }
    let (steps, returns) = (&t.steps, returns(t));
    let sets = |s: &Step| matches!(s, Step::Attr(_)) && !returns;
    let once = |s: &Step| time(s).is_some_and(|at| at <= since) || matches!(s, Step::Fork(_)) || sets(s);
    let mut begin = steps.iter().rposition(once).map_or(0, |last| last + 1);
    let held = |n: i64, s: &Step| n + i64::from(matches!(s, Step::Lock(_))) - i64::from(matches!(s, Step::Unlock(_)));
    let mut locks = steps[..begin].iter().fold(0, held);
    while locks > 0 || returns && steps.get(begin) != Some(&Step::Attr(t.first_prio)) {
        let step = steps.get(begin).filter(|s| s.with().is_none())?;
        (locks, begin) = (held(locks, step), begin + 1);
    }
    Some(begin)
}

/// Wake-ups of threads that go round by others, which do not, after their beginning.
fn leave_out(threads: &mut BTreeMap<Pid, Thread>, since: &BTreeMap<Pid, u64>, forgetful: &BTreeSet<Pid>) {
    let later = |by: Pid, to: Pid, at: u64| {
        !since.contains_key(&by) && !forgetful.contains(&to) && since.get(&to).is_some_and(|since| at > *since)
    };
    for (pid, t) in threads {
        t.steps.retain(|s| match *s {
            Step::Token { by, at, .. } => !later(by, *pid, at),
            Step::Post { to, at } => !later(*pid, to, at),
            _ => true,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const END: u64 = 1_000 * MS;
    const PING: Pid = Pid(1);
    const PONG: Pid = Pid(2);
    const OTHER: Pid = Pid(3);

    fn token(by: Pid, at: u64) -> Step {
        Step::Token { by, since: at - MS, at }
    }
    fn thread(steps: Vec<Step>, state: State) -> Thread {
        let mut t = Thread::new(120);
        (t.steps, t.state) = (steps, state);
        t
    }
    /// Two threads that wake each other in turn, each every 10 ms; the third wakes the second at some times and then ends or sleeps on.
    fn threads(at: &[u64], other: State) -> BTreeMap<Pid, Thread> {
        let (mut ping, mut pong, mut third) = (Vec::new(), Vec::new(), Vec::new());
        for now in (1..100).map(|i| i * 10 * MS) {
            for at in at.iter().map(|ms| ms * MS).filter(|at| (now..now + 10 * MS).contains(at)) {
                third.extend([Step::Work(1), Step::Post { to: PONG, at }]);
                pong.extend([token(OTHER, at), Step::Work(1)]);
            }
            ping.extend([Step::Work(3), Step::Post { to: PONG, at: now + 5 * MS }, token(PONG, now + 9 * MS)]);
            pong.extend([token(PING, now + 5 * MS), Step::Work(4), Step::Post { to: PING, at: now + 9 * MS }]);
        }
        [(PING, ping, State::Running), (PONG, pong, State::Running), (OTHER, third, other)]
            .map(|(pid, steps, state)| (pid, thread(steps, state)))
            .into()
    }
    fn found(threads: &mut BTreeMap<Pid, Thread>) -> Vec<(Pid, usize)> {
        let asleep = |_: Pid, steps: &[Step]| vec![false; steps.len()];
        rounds(threads, asleep, &BTreeSet::new(), END).into_iter().collect()
    }
    const DEAD: State = State::Dead { since: 300 * MS };

    #[test]
    fn who_wait_for_each_other() {
        assert_eq!(found(&mut threads(&[], DEAD)), [(PING, 0), (PONG, 0)]);
        let mut forked = threads(&[], DEAD);
        for pid in [PING, PONG] {
            forked.get_mut(&pid).unwrap().parent = Some(OTHER);
        }
        assert_eq!(found(&mut forked), [(PING, 0), (PONG, 0)]);
        forked.get_mut(&PONG).unwrap().state = DEAD;
        assert_eq!(found(&mut forked), [], "one has ended, the other waits for it");
    }

    #[test]
    fn who_forgets_what_wakes_it() {
        let times = || (1..100).map(|i| i * 10 * MS);
        let by = times().flat_map(|at| {
            [Step::Timer { until: at - 3 * MS, since: at - 9 * MS }, Step::Work(3), Step::Post { to: PONG, at }]
        });
        let of = times().flat_map(|at| [token(OTHER, at), Step::Work(4)]);
        let timer = State::Sleeping { since: END - MS, disk: false };
        let all = || [(OTHER, thread(by.clone().collect(), timer)), (PONG, thread(of.clone().collect(), timer))].into();
        let asleep = |_: Pid, steps: &[Step]| vec![false; steps.len()];
        let found = |forgetful: &BTreeSet<Pid>, all: &mut BTreeMap<Pid, Thread>| rounds(all, asleep, forgetful, END);
        assert!(found(&BTreeSet::new(), &mut all()).is_empty(), "bound to it");
        let mut forgets = all();
        assert_eq!(found(&[PONG].into(), &mut forgets), [(PONG, 0)].into());
        assert!(forgets[&PONG].steps == all()[&PONG].steps && forgets[&OTHER].steps == all()[&OTHER].steps);
    }

    #[test]
    fn a_beginning() {
        let mut all = threads(&[13], DEAD);
        let begins = found(&mut all);
        assert_eq!(begins.iter().map(|(pid, _)| *pid).collect::<Vec<_>>(), [PING, PONG]);
        // Tokens of the rounds are put as often as they are taken.
        let counts = |pid: Pid, from: usize| {
            let steps = &all[&pid].steps[from..];
            let posts = steps.iter().filter(|s| matches!(s, Step::Post { .. })).count();
            (posts, steps.iter().filter(|s| s.waits()).count())
        };
        let [(ping, a), (pong, b)] = begins[..] else { panic!("{begins:?}") };
        assert_eq!((counts(ping, a), counts(pong, b)), ((99, 99), (99, 99)));
        assert_eq!(b, 1, "it is started once");
        let late: Vec<u64> = (1..99).map(|i| i * 10).collect();
        assert_eq!(found(&mut threads(&late, DEAD)), [], "that was no beginning");
    }

    #[test]
    fn now_and_then() {
        let (timer, often) = (State::Sleeping { since: 900 * MS, disk: false }, [113, 413, 813]);
        let mut all = threads(&often, timer);
        let timers = [Step::Timer { until: 900 * MS, since: 899 * MS }, Step::Work(1)];
        all.get_mut(&OTHER).unwrap().steps.extend(timers);
        let mut bound = threads(&often, timer);
        if let Some(Step::Token { since, .. }) =
            bound.get_mut(&PONG).unwrap().steps.iter_mut().find(|s| **s == token(OTHER, 413 * MS))
        {
            *since = 300 * MS;
        }
        assert_eq!(found(&mut all), [(PING, 0), (PONG, 0)]);
        let of_other = |s: &Step| matches!(s, Step::Token { by: OTHER, .. });
        assert!(!all[&PONG].steps.iter().any(of_other), "they do without");
        assert!(!all[&OTHER].steps.iter().any(|s| matches!(s, Step::Post { .. })));
        assert_eq!(found(&mut bound), [], "it waited for that one");
        assert!(bound[&PONG].steps.iter().any(of_other));
    }

    #[test]
    fn who_stopped() {
        let turns =
            || (1..50u64).flat_map(|i| [Step::Work(1), Step::Sleep { ns: 9 * MS, since: i * 10 * MS }]).collect();
        let sleeper = |since: u64| BTreeMap::from([(PING, thread(turns(), State::Sleeping { since, disk: false }))]);
        assert_eq!(found(&mut sleeper(END - 5 * MS)), [(PING, 0)]);
        assert_eq!(found(&mut sleeper(500 * MS)), []);
    }

    #[test]
    fn a_priority_that_comes_back() {
        let turn = |i: u64| [Step::Work(1), Step::Sleep { ns: MS, since: i * 5 * MS }];
        let attr = |i: u64| {
            (i > 0 && i.is_multiple_of(20)).then_some(Step::Attr(if i.is_multiple_of(40) { 120 } else { 135 }))
        };
        let begins = |from: u64| {
            let steps = (from..199).flat_map(|i| attr(i).into_iter().chain(turn(i))).collect();
            found(&mut BTreeMap::from([(PING, thread(steps, State::Running))]))
        };
        assert_eq!(begins(0), [(PING, 81)], "with the first return to what it began with");
        assert_eq!(begins(150), [], "once in the second half is a change");
    }

    #[test]
    fn no_round_begins_with_a_lock() {
        let turn = |i: u64| {
            let sleep = Step::Sleep { ns: MS, since: i * 10 * MS };
            [sleep, Step::Lock(PING), Step::Work(1), Step::Unlock(PING), Step::Work(2)]
        };
        let mut steps: Vec<Step> = (1..100).flat_map(turn).collect();
        steps[2] = Step::Fork(OTHER);
        steps.insert(3, Step::Work(1));
        let mut all = BTreeMap::from([(PING, thread(steps, State::Running))]);
        assert_eq!(found(&mut all), [(PING, 5)]);
    }
}
