//! Threads that tell another when they are done, and it was busy.
//!
//! Workers that wake a collector at the end of their work leave no event where the collector is busy, or waits for something else.
//! Whether they always wake it shows where it waits for a thread at that time: then a wake-up that is not there was not asked for. If there
//! is hardly ever one missing, those that could not be seen are put in, and the collector takes them before its next wait.

use super::steps::Step;
use super::workload::Thread;
use std::collections::BTreeMap;
use wattif_model::Pid;

/// Fewer wake-ups that are seen tell nothing.
const MIN_SEEN: usize = 8;
/// One in so many is missing at most, where it could have been seen.
const REFUSED_OF: usize = 20;
/// Of so many one is hidden at least; otherwise wake-ups say all.
const HIDDEN_OF: usize = 50;
/// For each that is seen so many may be hidden: who is seen to be woken once in a while hands a lock over, say.
const HIDDEN_MOST: usize = 4;

/// Names of the workers, what they waited for before and after their work, and the collector.
type Join<'a> = (&'a str, Waits, Pid);

/// What was seen of a join.
#[derive(Default)]
struct Seen {
    posted: usize,
    refused: usize,
    /// The worker, the wait before which its wake-up belongs, and when that began.
    hidden: Vec<(Pid, usize, u64)>,
}

/// Puts hidden wake-ups of collectors in. How many.
pub(super) fn join(threads: &mut BTreeMap<Pid, Thread>, kinds: &BTreeMap<Pid, String>) -> usize {
    let mut of_kind: BTreeMap<&str, usize> = BTreeMap::new();
    kinds.values().for_each(|kind| *of_kind.entry(kind).or_default() += 1);
    // Of several collectors nobody could tell which one was meant.
    let waits: BTreeMap<Pid, Vec<(u64, u64)>> = threads
        .iter()
        .filter(|(pid, _)| of_kind[kinds[pid].as_str()] == 1)
        .map(|(pid, t)| (*pid, token_waits(&t.steps)))
        .filter(|(_, waits)| waits.len() >= MIN_SEEN)
        .collect();
    let hidden: Vec<(Pid, Pid, usize, u64)> = seen(threads, kinds, &waits)
        .into_iter()
        .filter(|(_, s)| s.posted >= MIN_SEEN && s.refused * REFUSED_OF <= s.posted)
        .filter(|(_, s)| s.hidden.len() * HIDDEN_OF > s.posted && s.hidden.len() <= HIDDEN_MOST * s.posted)
        .flat_map(|((.., to), s)| s.hidden.into_iter().map(move |(by, before, at)| (by, to, before, at)))
        .collect();
    let mut inserts: BTreeMap<Pid, Vec<(usize, Step)>> = BTreeMap::new();
    let mut blocked: BTreeMap<Pid, Vec<(usize, u64)>> = BTreeMap::new();
    for &(by, to, before, at) in &hidden {
        // The first of its waits that began later.
        let waits = blocked.entry(to).or_insert_with(|| blocks(&threads[&to].steps));
        if let Some(&(next, _)) = waits.get(waits.partition_point(|(_, since)| *since <= at)) {
            inserts.entry(by).or_default().push((before, Step::Post { to, at }));
            inserts.entry(to).or_default().push((next, Step::Token { by, since: at, at }));
        }
    }
    for (pid, of) in inserts {
        insert(&mut threads.get_mut(&pid).expect("it has steps").steps, of);
    }
    hidden.len()
}

/// Puts steps in, each before the one of a number; those of one number in their order.
pub(super) fn insert(steps: &mut Vec<Step>, mut of: Vec<(usize, Step)>) {
    of.sort_by_key(|i| i.0);
    let mut out = Vec::with_capacity(steps.len() + of.len());
    let mut of = of.into_iter().peekable();
    for (i, step) in std::mem::take(steps).into_iter().enumerate() {
        out.extend(std::iter::from_fn(|| of.next_if(|(before, _)| *before == i)).map(|(_, step)| step));
        out.push(step);
    }
    out.extend(of.map(|(_, step)| step));
    *steps = out;
}

/// Which steps block, and the latest time at which one so far has begun to: ascending, whatever the stamps do.
fn blocks(steps: &[Step]) -> Vec<(usize, u64)> {
    let mut latest = 0;
    let mut at = |(i, step): (usize, &Step)| {
        latest = latest.max(step.blocked_since()?);
        Some((i, latest))
    };
    steps.iter().enumerate().filter_map(&mut at).collect()
}

/// From when until when a thread waited for another.
pub(super) fn token_waits(steps: &[Step]) -> Vec<(u64, u64)> {
    steps.iter().filter_map(|s| if let Step::Token { since, at, .. } = *s { Some((since, at)) } else { None }).collect()
}

/// Which of these, in the order of their beginnings, a time is in.
pub(super) fn within<T>(sorted: &[T], at: u64, span: impl Fn(&T) -> (u64, u64)) -> Option<usize> {
    let last = sorted.partition_point(|x| span(x).0 <= at).checked_sub(1)?;
    (at < span(&sorted[last]).1).then_some(last)
}

/// Every stretch of work between two waits: did it wake a collector, and could that have been seen?
fn seen<'a>(
    threads: &BTreeMap<Pid, Thread>,
    kinds: &'a BTreeMap<Pid, String>,
    waits: &BTreeMap<Pid, Vec<(u64, u64)>>,
) -> BTreeMap<Join<'a>, Seen> {
    let mut all: BTreeMap<Join<'a>, Seen> = BTreeMap::new();
    each_stretch(threads, |pid, between, _, posts| {
        for to in posts.iter().filter(|to| waits.contains_key(to)) {
            all.entry((kinds[&pid].as_str(), between, *to)).or_default().posted += 1;
        }
    });
    let mut collectors: BTreeMap<(&str, Waits), Vec<Pid>> = BTreeMap::new();
    for (kind, between, to) in all.keys() {
        collectors.entry((*kind, *between)).or_default().push(*to);
    }
    each_stretch(threads, |pid, between, (end, at), posts| {
        let kind = kinds[&pid].as_str();
        for to in collectors.get(&(kind, between)).into_iter().flatten().filter(|to| !posts.contains(to)) {
            let seen = all.get_mut(&(kind, between, *to)).expect("it has collectors");
            match within(&waits[to], at, |wait| *wait).is_some() {
                true => seen.refused += 1,
                false => seen.hidden.push((pid, end, at)),
            }
        }
    });
    all
}

/// The kind of a wait for a timer.
pub(super) const TIMER: u8 = 0;

/// Kinds of waits, one before and one after a stretch of work.
pub(super) type Waits = [u8; 2];

pub(super) fn kind_of_wait(step: &Step) -> Option<u8> {
    match step {
        Step::Timer { .. } => Some(TIMER),
        Step::Device { .. } | Step::Interrupt { .. } => Some(1),
        Step::Sleep { .. } => Some(2),
        Step::Token { .. } => Some(3),
        Step::Get(_) => Some(4),
        Step::Barrier(_) => Some(5),
        _ => None,
    }
}

/// Calls `f` for each stretch between two waits: the thread, their kinds, which step the second is and when it began, and whom it woke.
fn each_stretch(threads: &BTreeMap<Pid, Thread>, mut f: impl FnMut(Pid, Waits, (usize, u64), &[Pid])) {
    for (pid, t) in threads {
        let (mut began, mut posts) = (None, Vec::new());
        for (i, step) in t.steps.iter().enumerate() {
            if let Step::Post { to, .. } = step {
                posts.push(*to);
            }
            if let Some(next) = kind_of_wait(step) {
                if let (Some(began), Some(at)) = (began, step.blocked_since()) {
                    f(*pid, [began, next], (i, at), &posts);
                }
                posts.clear();
                began = Some(next);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker that is done every 100 µs, and a collector that works for 40 µs each time; every `late`-th time it is still busy then,
    /// and every `never`-th time it is not woken although it waits.
    fn threads(late: u64, never: u64) -> BTreeMap<Pid, Thread> {
        let (worker, collector) = (Pid(2), Pid(3));
        let mut all: BTreeMap<Pid, Thread> = [worker, collector].map(|pid| (pid, Thread::new(120))).into();
        let mut idle = 0;
        for r in 1..100u64 {
            let (begin, done) = (r * 100_000, r * 100_000 + 30_000);
            let (is_late, is_never) = (r % late == 0, r % never == 0);
            let mut steps = vec![Step::Timer { until: begin, since: begin - 69_000 }, Step::Work(30)];
            steps.extend((!is_late && !is_never).then_some(Step::Post { to: collector, at: done }));
            all.get_mut(&worker).unwrap().steps.extend(steps);
            let collects = &mut all.get_mut(&collector).unwrap().steps;
            if is_late {
                // Something else kept it busy.
                collects.extend([Step::Device { ns: 20_000, since: done - 10_000 }, Step::Work(40)]);
                idle = done + 50_000;
            } else if !is_never {
                collects.extend([Step::Token { by: worker, since: idle, at: done }, Step::Work(40)]);
                idle = done + 40_000;
            }
        }
        all
    }

    fn joined(late: u64, never: u64) -> (usize, BTreeMap<Pid, Thread>) {
        let mut threads = threads(late, never);
        let kinds = BTreeMap::from([(Pid(2), "worker".to_string()), (Pid(3), "collector".to_string())]);
        (join(&mut threads, &kinds), threads)
    }

    #[test]
    fn a_wake_up_that_could_not_be_seen() {
        let (hidden, threads) = joined(10, 1000);
        assert_eq!(hidden, 9);
        let posts = threads[&Pid(2)].steps.iter().filter(|s| matches!(s, Step::Post { .. })).count();
        let tokens = threads[&Pid(3)].steps.iter().filter(|s| matches!(s, Step::Token { .. })).count();
        assert_eq!((posts, tokens), (99, 99));
    }

    #[test]
    fn one_that_was_not_asked_for() {
        assert_eq!(joined(10, 7).0, 0, "it is often not woken where it waits");
        assert_eq!(joined(1000, 1000).0, 0, "nothing is hidden");
    }
}
