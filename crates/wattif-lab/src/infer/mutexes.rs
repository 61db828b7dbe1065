//! Threads that exclude each other: a mutex.
//!
//! Whoever takes a free lock leaves no event. What a trace shows is the thread that found it taken, and was woken when it was released. Taken
//! as it was recorded, a thread would wait for this other one for ever, also where another kernel lets it come first. So where threads wake
//! each other both ways, each at most once between two waits of its own, and after it was woken itself, and who waits began to
//! while the other was busy (a client would wait for a server that sleeps), all of them take a lock, and who waits is for the replay to
//! say. Where one got it without waiting, it takes it after so much of its work as it does when it waits, and holds it for as long.

use super::joins::{TIMER, Waits, kind_of_wait};
use super::steps::{Step, median};
use super::workload::Thread;
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::Pid;

/// Fewer waits of a thread, or fewer releases, tell nothing.
const MIN_SEEN: usize = 4;
/// One in so many does not look like a lock's at most.
const STRAY_OF: usize = 20;
/// A thread that is woken and finds that another was faster waits again, after less work than this: 20 µs of the largest CPU, units.
const RETRY: u64 = 20_000 << 10;
/// Threads wait for the lock at least once where so many times are expected, if each took it every time.
const EXPECTED_OF: u128 = 2;

/// What a thread does between two waits of its own.
struct Turn {
    /// Kinds of the wait before and after; of the first and the last turn one is unknown.
    between: Option<Waits>,
    /// Its steps.
    steps: std::ops::Range<usize>,
    began: u64,
    /// Its waits for others of the group: the steps. They are for one lock.
    waits: Vec<usize>,
    /// When the last of them ended.
    woken: Option<u64>,
    /// The step with which it wakes another of the group, and when.
    wakes: Option<(usize, u64)>,
    /// It wakes more of them, or waits for more than one lock.
    stray: bool,
}

/// Work in the turns of one kind, units: before the lock where they waited for it; under it where that is seen, too; until its release
/// where they had not waited.
#[derive(Default)]
struct Usual {
    before: Vec<u64>,
    under: Vec<u64>,
    until: Vec<u64>,
}

impl Usual {
    /// Before the lock, and under it.
    fn place(mut self) -> Option<(u64, u64)> {
        let seen = |of: &mut Vec<u64>| if of.len() >= MIN_SEEN { median(of) } else { None };
        let until = seen(&mut self.until);
        // More work than a turn has up to the release: a late thread did another turn's before.
        self.before.retain(|before| until.is_none_or(|until| *before <= until));
        let before = seen(&mut self.before)?;
        let under = seen(&mut self.under).or(until.map(|until| until - before))?;
        Some((before, under))
    }
}

/// Puts locks in. The first of the threads that share each.
pub(super) fn exclude(threads: &mut BTreeMap<Pid, Thread>) -> BTreeSet<Pid> {
    let mut locks = BTreeSet::new();
    for members in groups(threads) {
        let turns: BTreeMap<Pid, Vec<Turn>> =
            members.iter().map(|pid| (*pid, turns(&threads[pid].steps, &members))).collect();
        if !is_mutex(threads, &turns) {
            continue;
        }
        let lock = *members.first().expect("two at least");
        locks.insert(lock);
        for (pid, turns) in turns {
            let steps = &mut threads.get_mut(&pid).expect("a member").steps;
            *steps = locking(std::mem::take(steps), &turns, lock);
        }
    }
    locks
}

/// Threads that wake each other both ways, directly or by way of others of them.
fn groups(threads: &BTreeMap<Pid, Thread>) -> Vec<BTreeSet<Pid>> {
    let posts = |(pid, t): (&Pid, &Thread)| {
        let pid = *pid;
        let to =
            t.steps.iter().filter_map(move |s| if let Step::Post { to, .. } = *s { Some((pid, to)) } else { None });
        to.collect::<Vec<_>>()
    };
    let wakes: BTreeSet<(Pid, Pid)> = threads.iter().flat_map(posts).collect();
    let mut left: BTreeSet<Pid> = threads.keys().copied().collect();
    let mut all = Vec::new();
    while let Some(first) = left.pop_first() {
        let (mut members, mut new) = (BTreeSet::from([first]), vec![first]);
        while let Some(pid) = new.pop() {
            let both_ways = |other: &Pid| wakes.contains(&(pid, *other)) && wakes.contains(&(*other, pid));
            let found: Vec<Pid> = left.iter().copied().filter(both_ways).collect();
            left.retain(|other| !found.contains(other));
            members.extend(&found);
            new.extend(found);
        }
        if members.len() > 1 {
            all.push(members);
        }
    }
    all
}

fn turns(steps: &[Step], members: &BTreeSet<Pid>) -> Vec<Turn> {
    let mut all = Vec::new();
    let new = |first: usize, began| Turn {
        between: None,
        steps: first..first,
        began,
        waits: Vec::new(),
        woken: None,
        wakes: None,
        stray: false,
    };
    let (mut turn, mut before, mut since_wait) = (new(0, 0), None, u64::MAX);
    for (i, step) in steps.iter().enumerate() {
        match *step {
            Step::Token { by, at, .. } if members.contains(&by) => {
                turn.stray |= turn.wakes.is_some() || turn.woken.is_some() && since_wait > RETRY;
                turn.waits.push(i);
                (turn.woken, since_wait) = (Some(at), 0);
            }
            Step::Post { to, at } if members.contains(&to) => {
                turn.stray |= turn.wakes.replace((i, at)).is_some();
            }
            Step::Work(units) => since_wait = since_wait.saturating_add(units),
            // A timer that has passed begins a new turn, too; when, is not known.
            _ if step.waits() || matches!(step, Step::Passed { .. }) => {
                let kind = kind_of_wait(step).unwrap_or(TIMER);
                turn.steps.end = i;
                turn.between = before.map(|before| [before, kind]);
                let began = step.woken_at().unwrap_or(turn.began);
                all.push(std::mem::replace(&mut turn, new(i + 1, began)));
                (before, since_wait) = (Some(kind), u64::MAX);
            }
            _ => {}
        }
    }
    turn.steps.end = steps.len();
    all.push(turn);
    all
}

/// Does all that these threads wake each other for look like a lock?
fn is_mutex(threads: &BTreeMap<Pid, Thread>, turns: &BTreeMap<Pid, Vec<Turn>>) -> bool {
    let enough = |turns: &Vec<Turn>| {
        let waits = turns.iter().filter(|t| t.woken.is_some()).count();
        let wakes = turns.iter().filter(|t| t.wakes.is_some()).count();
        waits >= MIN_SEEN && wakes >= MIN_SEEN
    };
    if !turns.values().all(enough) {
        return false;
    }
    // Who wakes another had begun before that one began to wait, or got the lock itself in between.
    let woke: BTreeMap<(Pid, u64), &Turn> =
        turns.iter().flat_map(|(pid, all)| all.iter().filter_map(|t| Some(((*pid, t.wakes?.1), t)))).collect();
    let held = |step: &Step| match *step {
        Step::Token { by, since, at } => woke.get(&(by, at)).is_some_and(|t| t.woken.is_some() || t.began <= since),
        _ => false,
    };
    let (mut seen, mut stray) = (0, 0);
    for (pid, all) in turns {
        for turn in all.iter().filter(|t| t.woken.is_some() || t.wakes.is_some()) {
            seen += 1;
            stray += usize::from(turn.stray || !turn.waits.iter().all(|i| held(&threads[pid].steps[*i])));
        }
    }
    stray * STRAY_OF <= seen && waits_are_as_many(threads, turns)
}

/// Threads that take the lock now and then meet more rarely than threads that always do.
fn waits_are_as_many(threads: &BTreeMap<Pid, Thread>, turns: &BTreeMap<Pid, Vec<Turn>>) -> bool {
    let all = || turns.iter().flat_map(|(pid, all)| all.iter().map(|t| (&threads[pid].steps, t)));
    // Who comes at any time waits for half of the time that the lock is held: this is less than how long it is.
    let mut lengths: Vec<u64> = all()
        .filter_map(|(steps, t)| Some(t.woken?.saturating_sub(steps[*t.waits.last()?].blocked_since()?)))
        .collect();
    let Some(held_ns) = median(&mut lengths) else { return false };
    let span = all().map(|(_, t)| t.began).max().unwrap_or(0).max(1);
    let locking = |turns: &Vec<Turn>| {
        let kinds: BTreeSet<Waits> = turns.iter().filter(|t| t.woken.is_some()).filter_map(|t| t.between).collect();
        turns.iter().filter(|t| t.between.is_some_and(|b| kinds.contains(&b))).count() as u128
    };
    let of: Vec<u128> = turns.values().map(locking).collect();
    let sum: u128 = of.iter().sum();
    // A turn finds the lock taken as often as others hold it.
    let expected: u128 = of.iter().map(|n| n * (sum - n)).sum::<u128>().saturating_mul(u128::from(held_ns));
    (lengths.len() as u128 * EXPECTED_OF).saturating_mul(u128::from(span)) >= expected
}

/// The same steps with the lock in all turns of the kinds that take it.
fn locking(steps: Vec<Step>, turns: &[Turn], lock: Pid) -> Vec<Step> {
    let work = |range: std::ops::Range<usize>| -> u64 {
        steps[range].iter().map(|s| if let Step::Work(units) = *s { units } else { 0 }).sum()
    };
    let seen = |turn: &Turn| {
        let taken = turn.waits.last().map(|i| work(turn.steps.start..*i));
        (taken, turn.wakes.map(|(i, _)| work(turn.steps.start..i)))
    };
    let mut usual: BTreeMap<Waits, Usual> = BTreeMap::new();
    for (between, turn) in turns.iter().filter_map(|t| Some((t.between?, t))) {
        let usual = usual.entry(between).or_default();
        let (taken, given) = seen(turn);
        usual.before.extend(taken);
        match taken {
            Some(taken) => usual.under.extend(given.map(|given| given.saturating_sub(taken))),
            None => usual.until.extend(given),
        }
    }
    let places: BTreeMap<Waits, (u64, u64)> = usual.into_iter().filter_map(|(b, u)| Some((b, u.place()?))).collect();
    // For the first and the last turn, and those of rare kinds.
    let any = places.values().next().map_or(0, |(_, under)| *under);
    let mut out = Vec::with_capacity(steps.len() + 2 * turns.len());
    for turn in turns {
        let all = work(turn.steps.clone());
        let usual = turn.between.and_then(|b| places.get(&b)).copied();
        let held = usual.map_or(any, |(_, under)| under);
        let (taken, given) = seen(turn);
        let place = match (taken, given) {
            (Some(taken), Some(given)) => Some((taken, given)),
            (Some(taken), None) => Some((taken, taken + held)),
            (None, Some(given)) => Some((given.saturating_sub(held), given)),
            (None, None) => usual.filter(|(before, _)| *before < all).map(|(before, under)| (before, before + under)),
        };
        let mut marks = place.into_iter().flat_map(|(taken, given)| {
            [(taken.min(all), Step::Lock(lock)), (given.clamp(taken, all.max(taken)), Step::Unlock(lock))]
        });
        let (mut mark, mut done) = (marks.next(), 0);
        for (i, step) in turn.steps.clone().zip(&steps[turn.steps.clone()]) {
            if turn.waits.contains(&i) || turn.wakes.is_some_and(|(post, _)| post == i) {
                continue;
            }
            let Step::Work(units) = *step else {
                out.push(step.clone());
                continue;
            };
            let mut left = units;
            while let Some((at, place)) = mark.clone().filter(|(at, _)| *at < done + left) {
                let first = at - done;
                out.extend((first > 0).then_some(Step::Work(first)));
                (done, left) = (at, left - first);
                out.push(place);
                mark = marks.next();
            }
            out.extend((left > 0).then_some(Step::Work(left)));
            done += left;
        }
        out.extend(mark.into_iter().chain(marks).map(|(_, step)| step));
        out.extend(steps.get(turn.steps.end).cloned());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000_000;

    /// Two threads of periods of their own that take a lock of their work, as simulated by hand: `before` and `under` in µs of work
    /// at one unit a ns, sleeping `sleep` µs and somewhat more.
    fn exclusive(turns: u64, of: [[u64; 3]; 2]) -> BTreeMap<Pid, Thread> {
        let mut steps: [Vec<Step>; 2] = Default::default();
        // By thread: when it wants the lock; when the lock is free, and who had it last.
        let mut wants = of.map(|[before, _, sleep]| sleep + before);
        let mut slept = of.map(|[.., sleep]| (0, sleep));
        let (mut free, mut holder) = (0, 0);
        for turn in 0..turns {
            let i = usize::from(wants[1] < wants[0]);
            let [before, under, sleep] = of[i];
            // Uneven, or one would come late for ever.
            let sleep = sleep + turn * turn * 7919 % 1501;
            steps[i].push(Step::Sleep { ns: slept[i].1 * 1000, since: slept[i].0 * 1000 });
            steps[i].push(Step::Work(before * US));
            if wants[i] < free {
                // The holder's steps so far end with what it does under the lock and after it.
                let last = steps[holder].iter().rposition(|s| matches!(s, Step::Work(_))).expect("it worked");
                let to = Pid(i as u32 + 1);
                steps[holder].insert(last + 1, Step::Post { to, at: free * 1000 });
                let by = Pid(holder as u32 + 1);
                steps[i].push(Step::Token { by, since: wants[i] * 1000, at: free * 1000 });
            }
            steps[i].push(Step::Work(under * US));
            free = free.max(wants[i]) + under;
            slept[i] = (free, sleep);
            wants[i] = free + sleep + before;
            holder = i;
        }
        let mut threads = BTreeMap::new();
        for (pid, steps) in (1..).map(Pid).zip(steps) {
            let mut t = Thread::new(120);
            t.steps = steps;
            threads.insert(pid, t);
        }
        threads
    }

    fn work(threads: &BTreeMap<Pid, Thread>) -> u64 {
        threads.values().flat_map(|t| &t.steps).map(|s| if let Step::Work(units) = s { *units } else { 0 }).sum()
    }

    #[test]
    fn each_turn_takes_the_lock() {
        let mut threads = exclusive(400, [[300, 500, 700], [450, 400, 530]]);
        let (before, turns) = (work(&threads), threads.values().flat_map(|t| &t.steps).filter(|s| s.waits()));
        let turns = turns.filter(|s| matches!(s, Step::Sleep { .. })).count();
        assert!(threads.values().flat_map(|t| &t.steps).filter(|s| matches!(s, Step::Token { .. })).count() > 40);
        assert_eq!(exclude(&mut threads), BTreeSet::from([Pid(1)]));
        assert_eq!(work(&threads), before, "work is kept");
        let steps = || threads.values().flat_map(|t| &t.steps);
        assert!(!steps().any(|s| matches!(s, Step::Post { .. } | Step::Token { .. })));
        for kind in [Step::Lock(Pid(1)), Step::Unlock(Pid(1))] {
            let n = steps().filter(|s| **s == kind).count();
            // Of the last turn of each nobody knows how it ends.
            assert!((turns - 2..=turns).contains(&n), "{n} of {turns}");
        }
        // Where nothing was seen, the lock is where it is else.
        let uncontended = [Step::Work(300 * US), Step::Lock(Pid(1)), Step::Work(500 * US), Step::Unlock(Pid(1))];
        let all = threads[&Pid(1)].steps.windows(4).filter(|w| *w == uncontended).count();
        assert!(all * 10 > turns * 4, "{all} of {turns}");
    }

    #[test]
    fn a_server_is_no_lock() {
        // The client asks, works on, and waits for the answer; the server sleeps until it is asked.
        let mut threads: BTreeMap<Pid, Thread> = (1..3).map(|p| (Pid(p), Thread::new(120))).collect();
        for at in (1..40).map(|i| i * US) {
            let ask = [Step::Sleep { ns: 9, since: at - 9 }, Step::Work(7), Step::Post { to: Pid(2), at }];
            threads.get_mut(&Pid(1)).unwrap().steps.extend(ask);
            threads.get_mut(&Pid(1)).unwrap().steps.push(Step::Token { by: Pid(2), since: at + 1, at: at + 500 });
            let answer = [Step::Token { by: Pid(1), since: at - 90, at }, Step::Work(5)];
            threads.get_mut(&Pid(2)).unwrap().steps.extend(answer);
            threads.get_mut(&Pid(2)).unwrap().steps.push(Step::Post { to: Pid(1), at: at + 500 });
        }
        assert!(exclude(&mut threads).is_empty());
    }

    #[test]
    fn a_signal_to_who_waits_already_is_no_lock() {
        // Both sleep for themselves, and each waits now and then for the other, who has not yet begun.
        let mut threads: BTreeMap<Pid, Thread> = (1..3).map(|p| (Pid(p), Thread::new(120))).collect();
        for i in 1..40 {
            let (at, by) = (i * 10 * US, Pid(1 + (i % 2) as u32));
            let to = Pid(3 - by.0);
            let wakes = [Step::Sleep { ns: 9, since: at - 9 }, Step::Work(7), Step::Post { to, at: at + 5 }];
            threads.get_mut(&by).unwrap().steps.extend(wakes);
            let woken = [Step::Sleep { ns: 9, since: at - 900 }, Step::Token { by, since: at - 800, at: at + 5 }];
            threads.get_mut(&to).unwrap().steps.extend(woken);
        }
        assert!(exclude(&mut threads).is_empty());
    }

    #[test]
    fn who_rarely_takes_it_is_left_as_recorded() {
        let mut threads = exclusive(60, [[300, 500, 700], [450, 400, 530]]);
        for t in threads.values_mut() {
            let end = 60 * 2_000_000;
            t.steps.extend((0..4000).flat_map(|i| [Step::Sleep { ns: 9, since: end + i * 9 }, Step::Work(900 * US)]));
        }
        assert!(exclude(&mut threads).is_empty());
    }
}
