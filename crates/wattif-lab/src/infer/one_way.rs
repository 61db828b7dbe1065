//! Locks for which one thread only ever waits, and which another only ever has.
//!
//! A thread that is always faster, as one of real-time that shares a CPU with a fair one, may wait for a lock now and then and never hold
//! the other up; that the other takes a lock, too, no event shows. That looks like messages. A lock it is, if all of this holds but for strays:
//!
//! - whenever the one began to wait, the other was busy: it has not slept since (who waits for a message mostly does while the other sleeps);
//! - else it did not wait, and in some of those turns the other slept all the while, so that nothing was handed over;
//! - it is not so that each, or every so-manyth, turn of the one meets each, or every so-manyth, of the other: messages go in step;
//! - the one waits after so much work of its turn, and the other wakes it after so much.
//!
//! Where the other had a priority that was lent by the one, the first and the last are enough: only who holds a mutex has another's.

use super::kin::wakes;
use super::steps::{ALIKE_PART, LITTLE, STRAY_OF, Step, are_within, median};
use super::thread::Thread;
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::Pid;

/// Fewer waits, turns without one, or priorities that are lent tell nothing.
const MIN_SEEN: usize = 8;
/// For each that goes the other way there are so many.
const MORE: usize = 8;
/// Turns are whole multiples of those that meet if they are off by one part in so many of these at most.
const OFF_OF: usize = 16;

/// From the end of a wait of its own to the beginning of the next.
struct Turn {
    from: u64,
    until: u64,
    /// It waited for the other, or woke it.
    deals: bool,
}

/// Who has a lock, and who waits for it.
pub(super) fn pairs(threads: &BTreeMap<Pid, Thread>) -> BTreeSet<(Pid, Pid)> {
    let wakes = wakes(threads);
    let back = |(has, waits): (Pid, Pid)| wakes.get(&(waits, has)).copied().unwrap_or(0);
    let many = wakes.iter().filter(|(pair, n)| **n >= MIN_SEEN && back(**pair) * MORE <= **n).map(|(pair, _)| *pair);
    many.filter(|(has, waits)| threads.contains_key(waits) && share_a_lock(threads, *has, *waits)).collect()
}

fn share_a_lock(threads: &BTreeMap<Pid, Thread>, has: Pid, waits: Pid) -> bool {
    let mut under = super::held::waits(threads, &[has, waits].into());
    let mut under = |pid: Pid| under.remove(&pid).unwrap_or_default();
    let (of_has, of_waits) = (&threads[&has].steps, &threads[&waits].steps);
    let (turns, releases) = turns(of_has, waits, &under(has));
    let (others, places) = self::turns(of_waits, has, &under(waits));
    let turn_at = |at: u64| turns[..turns.partition_point(|t| t.from <= at)].last();
    let is_busy = |at: u64| turn_at(at).is_some_and(|t| at <= t.until);
    let began = |s: &Step| if let Step::Token { by, since, .. } = *s { (by == has).then_some(since) } else { None };
    let seen: Vec<u64> = of_waits.iter().filter_map(began).collect();
    let strays = seen.iter().filter(|since| !is_busy(**since)).count();
    if seen.is_empty() || strays * STRAY_OF > seen.len() || !are_alike(releases) || !are_alike(places) {
        return false;
    }
    let lent = |s: &&Step| matches!(s, Step::Lent { by, .. } if *by == waits);
    if of_has.iter().filter(lent).count() >= MIN_SEEN {
        return true;
    }
    let begun_by = |at: u64| turns.partition_point(|t| t.from <= at);
    let slept = |t: &&Turn| !t.deals && !is_busy(t.from) && begun_by(t.from) == begun_by(t.until);
    let is_multiple = |n: usize| n.abs_diff((n + seen.len() / 2) / seen.len() * seen.len()) * OFF_OF <= seen.len();
    let in_step = [&turns, &others].iter().all(|turns| is_multiple(turns.len()));
    others.iter().filter(slept).count() >= MIN_SEEN && !in_step
}

/// The turns of a thread, and after how much work of them it deals with the other. Its waits `under` the lock are in their midst.
fn turns(steps: &[Step], other: Pid, under: &BTreeSet<u64>) -> (Vec<Turn>, Vec<u64>) {
    let (mut all, mut places) = (Vec::new(), Vec::new());
    let (mut from, mut work, mut deals) = (None, 0u64, false);
    for step in steps {
        match *step {
            Step::Work(units) | Step::Spin(units) => work += units,
            _ if step.with() == Some(other) => {
                places.push(work);
                deals = true;
            }
            ref own => {
                let Some((since, until)) = own.blocked_since().zip(own.woken_at()) else { continue };
                if under.contains(&since) {
                    continue;
                }
                all.extend(from.map(|from| Turn { from, until: since.max(from), deals }));
                (from, work, deals) = (Some(until), 0, false);
            }
        }
    }
    (all, places)
}

fn are_alike(mut places: Vec<u64>) -> bool {
    median(&mut places).is_some_and(|usual| are_within(&places, usual, (usual / ALIKE_PART).max(LITTLE)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HAS: Pid = Pid(1);
    const WAITS: Pid = Pid(2);
    const US: u64 = 1_000;

    /// Two threads on a CPU each: one works for 700 µs of each 1 to 2 ms; the other comes every `period` µs and works. Does it wait, where the
    /// first has worked for so long, or sleeps?
    fn threads(period: u64, waits: impl Fn(Option<u64>) -> bool) -> BTreeMap<Pid, Thread> {
        let mut all: BTreeMap<Pid, Thread> = [HAS, WAITS].map(|pid| (pid, Thread::new(120))).into();
        let mut steps: [Vec<(u64, Vec<Step>)>; 2] = Default::default();
        // When it begins to work.
        let begins: Vec<u64> = (1..400u64)
            .scan(0, |at, i| {
                *at += (1_000 + i * 7919 % 1_001) * US;
                Some(*at)
            })
            .collect();
        let mut wakes: BTreeMap<usize, u64> = BTreeMap::new();
        let mut free = 0;
        for at in (1..).map(|i| i * period * US).take_while(|at| *at < begins[begins.len() - 2]) {
            let turn = begins.partition_point(|begin| *begin <= at);
            let busy = turn.checked_sub(1).map(|i| at - begins[i]).filter(|ns| *ns < 700 * US);
            let mut of = vec![Step::Timer { until: at, since: free }];
            let mut now = at;
            if waits(busy) {
                let nth = if busy.is_some() { turn - 1 } else { turn };
                if wakes.contains_key(&nth) {
                    continue;
                }
                now = begins[nth] + 700 * US;
                wakes.insert(nth, now);
                of.push(Step::Token { by: HAS, since: at, at: now });
            }
            of.push(Step::Work(50 * US));
            free = now + 50 * US;
            steps[1].push((at, of));
        }
        for (i, begin) in begins.iter().enumerate() {
            let end = begin + 700 * US;
            let mut of = vec![Step::Sleep { ns: 300 * US, since: begin - 300 * US }, Step::Work(700 * US)];
            of.extend(wakes.get(&i).map(|at| Step::Post { to: WAITS, at: *at }));
            steps[0].push((end, of));
        }
        for (pid, steps) in [HAS, WAITS].into_iter().zip(steps) {
            all.get_mut(&pid).unwrap().steps = steps.into_iter().flat_map(|(_, steps)| steps).collect();
        }
        all
    }

    #[test]
    fn who_only_waits_while_the_other_is_busy() {
        let under = |busy: Option<u64>| busy.is_some_and(|ns| ns > 200 * US);
        assert_eq!(pairs(&threads(2_300, under)), [(HAS, WAITS)].into());
        // For a message it waits as well while the other sleeps; or it always waits.
        let mut n = 0;
        let message = |busy: Option<u64>| busy.is_none_or(|ns| ns > 200 * US);
        assert!(pairs(&threads(2_300, message)).is_empty());
        let threads = threads(2_300, under);
        let posts = threads[&HAS].steps.iter().filter(|s| matches!(s, Step::Post { .. })).count();
        let mut without = threads;
        let steps = &mut without.get_mut(&WAITS).unwrap().steps;
        let turns: Vec<&[Step]> =
            steps.split_inclusive(|s| matches!(s, Step::Work(_))).filter(|t| t.len() > 2).collect();
        n += turns.len();
        *steps = turns.concat();
        assert!(posts == n && pairs(&without).is_empty(), "it waits in each of its turns");
    }

    #[test]
    fn a_priority_that_is_lent_tells_it() {
        let mut threads = threads(2_300, |busy: Option<u64>| busy.is_some_and(|ns| ns > 200 * US));
        let steps = &mut threads.get_mut(&WAITS).unwrap().steps;
        let turns: Vec<&[Step]> =
            steps.split_inclusive(|s| matches!(s, Step::Work(_))).filter(|t| t.len() > 2).collect();
        *steps = turns.concat();
        assert!(pairs(&threads).is_empty());
        let steps = &mut threads.get_mut(&HAS).unwrap().steps;
        steps.extend(vec![Step::Lent { prio: 69, by: WAITS }; MIN_SEEN]);
        assert_eq!(pairs(&threads), [(HAS, WAITS)].into());
    }
}
