//! Threads that give up their CPU: `sched_yield`.
//!
//! A trace shows a thread that is switched out although it could go on. That is a preemption, as a rule: somebody was woken there a moment
//! before, or a tick ended its slice. Who yields is left without either, at all phases of a tick, and for one that had to wait its turn,
//! always after the same piece of work: since its last wait, or since it yielded last. Where nobody else waits for its CPU a yield does not
//! show, so that some pieces are a multiple of the others; and where somebody was woken shortly before it may have been a preemption. So all
//! are put where the pieces end.
//!
//! Who yields before it waits is switched out when its work is all done: when it comes back it waits at once. No tick hits that moment again
//! and again. If it did so nearly each time that another thread was waiting for its CPU then, it does so before each wait.
//!
//! Threads of one kind run one program: they are looked at together, and each for itself where that tells nothing.

use super::kin::Kinds;
use super::steps::{Step, median};
use super::thread::Thread;
use std::collections::BTreeMap;
use wattif_model::Pid;
use wattif_model::units::CAPACITY_SCALE;

/// It was switched out although it could go on, and nobody was woken there before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gave {
    /// How far it had come: the step it was in, and its units of work.
    pub step: usize,
    pub units: u64,
    pub at: u64,
    /// Who came had not been woken since it had the CPU last.
    pub in_turn: bool,
}

/// So many are looked at, at least. Of so many parts of a tick those with the most hold less than so many of 100: ticks of an unlike
/// length are at several phases, each of them in two parts at most.
const MIN_SEEN: usize = 32;
const PARTS: u64 = 50;
const FULLEST: usize = 20;
const SPREAD: usize = 75;
/// So many pieces tell a length; it is that of one in so many, and so many of 100 are that or a small multiple.
const MIN_PIECES: usize = 16;
const ONES: usize = 10;
const MULTIPLES: usize = 80;
const MOST: u64 = 16;
/// Pieces are alike within one part in so many and what an interrupt and cold caches take, units; but within a third part of one.
const LIKE_PART: u64 = 25;
const LIKE: u64 = 4_000 * CAPACITY_SCALE;
const LIKE_MOST: u64 = 3;
/// Of so many times that another waited, a thread blocks once at most without a yield, if it yields before each wait.
const REFUSED_OF: usize = 20;

/// Its work from a wait to the first yield, and from each to the next, where these are always the same; and does it yield before each wait?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pieces {
    first: Option<u64>,
    again: Option<u64>,
    last: bool,
}

/// What a thread did from one wait to the next: its steps, all its work, what of that it had done when it was switched out, and whether another
/// waited for its CPU when it blocked.
struct Stretch {
    steps: std::ops::Range<usize>,
    work: u64,
    gave: Vec<u64>,
    beside: bool,
}

impl Stretch {
    /// It was switched out when all its work was done.
    fn gave_at_the_end(&self) -> bool {
        self.gave.last().is_some_and(|units| self.work > LIKE && units + LIKE >= self.work)
    }
}

/// Puts in the yields of all threads that do so.
pub(super) fn cut(threads: &mut BTreeMap<Pid, Thread>, kinds: &Kinds, tick_ns: u64) {
    let mut by_kind: BTreeMap<&str, Vec<Pid>> = BTreeMap::new();
    threads.keys().for_each(|pid| by_kind.entry(&kinds[pid]).or_default().push(*pid));
    for pids in by_kind.into_values() {
        let all: Vec<&Thread> = pids.iter().map(|pid| &threads[pid]).collect();
        let alike = pieces(&all, tick_ns);
        let own: Vec<Option<Pieces>> = all.iter().map(|t| alike.or_else(|| pieces(&[t], tick_ns))).collect();
        for (pid, pieces) in pids.iter().zip(own) {
            if let (Some(pieces), Some(t)) = (pieces, threads.get_mut(pid)) {
                put(t, pieces);
            }
        }
    }
}

/// Of threads of one program, if they yield.
fn pieces(threads: &[&Thread], tick_ns: u64) -> Option<Pieces> {
    let stretches: Vec<Stretch> = threads.iter().flat_map(|t| stretches(t)).collect();
    let last = yields_last(&stretches);
    let in_turn = threads.iter().flat_map(|t| &t.gave).filter(|gave| gave.in_turn);
    if !is_spread(in_turn.map(|gave| gave.at % tick_ns), tick_ns) {
        return last.then_some(Pieces { first: None, again: None, last });
    }
    // The first one is cut off.
    let after_a_wait = stretches.iter().filter(|s| s.steps.start > 0);
    let first = unit(after_a_wait.filter_map(|s| s.gave.first().copied()).collect());
    let again = unit(stretches.iter().flat_map(|s| s.gave.windows(2).map(|w| w[1] - w[0])).collect());
    (last || first.or(again).is_some()).then_some(Pieces { first, again, last })
}

/// Do these yield before they wait, where it shows?
fn yields_last(stretches: &[Stretch]) -> bool {
    let seen = stretches.iter().filter(|s| s.gave_at_the_end()).count();
    let refused = stretches.iter().filter(|s| s.work > LIKE && s.beside && !s.gave_at_the_end()).count();
    seen >= MIN_SEEN && refused * REFUSED_OF <= seen
}

/// Are these times spread over a tick?
fn is_spread(phases: impl Iterator<Item = u64>, tick_ns: u64) -> bool {
    let mut parts = [0; PARTS as usize];
    phases.for_each(|phase| parts[(phase * PARTS / tick_ns) as usize] += 1);
    parts.sort_unstable();
    let n: usize = parts.iter().sum();
    n >= MIN_SEEN && parts.iter().rev().take(FULLEST).sum::<usize>() * 100 < n * SPREAD
}

/// How far pieces of this length are apart that are alike.
fn slop(units: u64) -> u64 {
    (units / LIKE_PART + LIKE).min(units / LIKE_MOST)
}

/// The shortest piece that many have and of which nearly all are a multiple.
fn unit(mut pieces: Vec<u64>) -> Option<u64> {
    pieces.sort_unstable();
    let n = pieces.len();
    if n < MIN_PIECES {
        return None;
    }
    let is_multiple = |units: u64, one: u64| {
        let times = (units + one / 2) / one;
        (1..=MOST).contains(&times) && units.abs_diff(times * one) <= slop(times * one).min(slop(one) * 2)
    };
    let mut begin = 0;
    while begin < n {
        let least = pieces[begin];
        let end = begin + pieces[begin..].partition_point(|units| *units <= least + 2 * slop(least));
        if (end - begin) * ONES >= n {
            let one = median(&mut pieces[begin..end])?;
            let multiples = pieces.iter().filter(|units| one > 0 && is_multiple(**units, one)).count();
            return (multiples * 100 >= n * MULTIPLES).then_some(one);
        }
        begin += 1;
    }
    None
}

fn stretches(t: &Thread) -> Vec<Stretch> {
    let new = |begin| Stretch { steps: begin..begin, work: 0, gave: Vec::new(), beside: false };
    let (mut all, mut now) = (Vec::new(), new(0));
    let (mut gave, mut beside) = (t.gave.iter().peekable(), t.beside.iter().peekable());
    // Beyond the last step it was about to wait.
    for i in 0..=t.steps.len() {
        let step = t.steps.get(i);
        while let Some(gave) = gave.next_if(|gave| gave.step <= i) {
            now.gave.push(now.work + gave.units);
        }
        while beside.next_if(|step| **step <= i).is_some() {
            now.beside = true;
        }
        now.steps.end = i;
        match step {
            Some(Step::Work(units)) => now.work += units,
            Some(s) if s.waits() => all.push(std::mem::replace(&mut now, new(i + 1))),
            _ => {}
        }
    }
    all.push(now);
    all
}

/// Where a thread yields, by its work since the last wait: where it was switched out about then, or where it may not have shown.
fn places(stretch: &Stretch, waits: bool, pieces: Pieces) -> Vec<u64> {
    let (mut all, mut last, mut next) = (Vec::new(), 0, pieces.first.or(pieces.again));
    while let Some(units) = next.filter(|units| *units > 0) {
        let (place, slop) = (last + units, slop(units));
        let near = stretch.gave.partition_point(|gave| gave + slop < place);
        let near = stretch.gave[near..].iter().take_while(|gave| **gave <= place + slop);
        let seen = near.min_by_key(|gave| gave.abs_diff(place));
        last = match seen {
            Some(seen) => *seen,
            None if place + slop < stretch.work => place,
            None => break,
        };
        all.push(last);
        next = pieces.again;
    }
    if pieces.last && waits && stretch.work > LIKE && all.last().is_none_or(|last| last + LIKE < stretch.work) {
        all.push(stretch.work);
    }
    all
}

/// Puts in the yields of a thread.
fn put(t: &mut Thread, pieces: Pieces) {
    let stretches = stretches(t);
    let mut steps = Vec::with_capacity(t.steps.len() + t.gave.len());
    for stretch in &stretches {
        let waits = t.steps.get(stretch.steps.end).is_some_and(Step::waits);
        let (mut done, mut places) = (0, places(stretch, waits, pieces).into_iter().peekable());
        for step in &t.steps[stretch.steps.clone()] {
            let Step::Work(units) = *step else {
                steps.push(step.clone());
                continue;
            };
            let end = done + units;
            while let Some(place) = places.next_if(|place| *place <= end) {
                steps.extend((place > done).then(|| Step::Work(place - done)));
                steps.push(Step::Yield);
                done = place.max(done);
            }
            steps.extend((end > done).then(|| Step::Work(end - done)));
            done = end;
        }
        steps.extend(t.steps.get(stretch.steps.end).cloned());
    }
    t.steps = steps;
    t.first_wait = t.steps.iter().position(Step::waits);
    // Its pieces are those of work, whatever clock there was.
    t.pieces.clear();
    // SCHED_RR is not what it made room for.
    t.takes_turns = false;
}

#[cfg(test)]
mod tests {
    use super::super::steps::work;
    use super::*;

    const US: u64 = 1_000 * CAPACITY_SCALE;
    const TICK_NS: u64 = 4_000_000;

    /// Pieces of work, µs, each of which ends where it makes room or does not show it; after every so manyth it sleeps. It does so at
    /// times `distance` ns from each other.
    fn thread(pieces: &[(u64, bool)], sleeps_after: usize, distance: u64) -> Thread {
        let mut t = Thread::new(120);
        let (mut units, mut at) = (0, 0);
        for (i, (us, shows)) in pieces.iter().enumerate() {
            units += us * US;
            at += distance;
            if (i + 1) % sleeps_after == 0 {
                t.steps.extend([Step::Work(units), Step::Sleep { ns: 1, since: 1 }]);
                units = 0;
            } else if *shows {
                t.gave.push(Gave { step: t.steps.len(), units, at, in_turn: true });
            }
        }
        t.steps.extend((units > 0).then_some(Step::Work(units)));
        t
    }

    fn found(threads: Vec<Thread>) -> Vec<Vec<Step>> {
        let mut threads: BTreeMap<Pid, Thread> = (1..).map(Pid).zip(threads).collect();
        let kinds = threads.keys().map(|pid| (*pid, "a".to_string())).collect();
        cut(&mut threads, &kinds, TICK_NS);
        threads.into_values().map(|t| t.steps).collect()
    }

    fn yields(steps: &[Step]) -> usize {
        steps.iter().filter(|s| **s == Step::Yield).count()
    }

    #[test]
    fn pieces_of_one_length() {
        let pieces: Vec<(u64, bool)> = (0..100).map(|i| (700 + i % 5, i % 4 != 1)).collect();
        let t = thread(&pieces, usize::MAX, 1_317_007);
        let before = work(&t.steps);
        let steps = found(vec![t]).swap_remove(0);
        assert_eq!(yields(&steps), 100, "also those that do not show");
        assert_eq!(work(&steps), before);
        let even = |s: &Step| if let Step::Work(units) = s { (690 * US..715 * US).contains(units) } else { true };
        assert!(steps.iter().all(even), "{steps:?}");
    }

    #[test]
    fn one_before_each_sleep() {
        let pieces: Vec<(u64, bool)> = (0..100).map(|i| (if i % 2 == 0 { 800 } else { 300 }, i % 10 != 4)).collect();
        let steps = found(vec![thread(&pieces, 2, 1_317_007)]).swap_remove(0);
        let lap = [Step::Work(800 * US), Step::Yield, Step::Work(300 * US), Step::Sleep { ns: 1, since: 1 }];
        assert_eq!(steps, vec![lap; 50].concat());
    }

    /// Work of 500 µs, a yield and a sleep, over and over, each time at the same phase of a tick; in one of three another waits for the CPU.
    #[test]
    fn who_yields_before_it_sleeps() {
        let thread = |yields: &dyn Fn(usize) -> bool| {
            let mut t = Thread::new(120);
            for i in 0..150 {
                let (step, units) = (t.steps.len(), 500 * US);
                if i % 3 == 0 {
                    let gave = Gave { step, units, at: i as u64 * TICK_NS, in_turn: i % 2 == 0 };
                    t.gave.extend(yields(i).then_some(gave));
                    t.beside.push(step);
                }
                t.steps.extend([Step::Work(units), Step::Sleep { ns: 1, since: 1 }]);
            }
            t
        };
        let lap = [Step::Work(500 * US), Step::Yield, Step::Sleep { ns: 1, since: 1 }];
        assert_eq!(found(vec![thread(&|_| true)]), [vec![lap; 150].concat()], "also where nobody waited");
        let chance = thread(&|i| i % 5 > 0);
        let before = chance.steps.clone();
        assert_eq!(found(vec![chance]), [before], "another waited, and it blocked at once");
    }

    #[test]
    fn who_is_preempted_does_not_yield() {
        let check = |pieces: &dyn Fn(u64) -> u64, distance: u64, why: &str| {
            let pieces: Vec<(u64, bool)> = (0..100).map(|i| (pieces(i), true)).collect();
            let t = thread(&pieces, usize::MAX, distance);
            let before = t.steps.clone();
            assert_eq!(found(vec![t]), [before], "{why}");
        };
        check(&|_| 700, TICK_NS, "at ticks");
        check(&|_| 700, 10 * TICK_NS / 12, "at ticks of another length");
        check(&|i| 100 + i * 7_919 % 1_500, 1_317_007, "any work");
        let mut t = thread(&[(700, true); 100], usize::MAX, 1_317_007);
        t.gave.iter_mut().for_each(|gave| gave.in_turn = false);
        let before = t.steps.clone();
        assert_eq!(found(vec![t]), [before], "who came was woken");
    }

    #[test]
    fn together_they_tell() {
        let few = |i: u64| thread(&[(700, true); 12], usize::MAX, 1_317_007 + i * 930_007);
        assert!(found(vec![few(0)]).iter().all(|steps| yields(steps) == 0));
        assert!(found((0..4).map(few).collect()).iter().all(|steps| yields(steps) == 12));
        let other =
            || thread(&(0..100).map(|i| (100 + i * 7_919 % 1_500, true)).collect::<Vec<_>>(), usize::MAX, 900_007);
        let mixed = found(vec![thread(&[(700, true); 100], usize::MAX, 1_317_007), other()]);
        assert_eq!(mixed.iter().map(|steps| yields(steps)).collect::<Vec<_>>(), [100, 0], "each for itself");
    }
}
