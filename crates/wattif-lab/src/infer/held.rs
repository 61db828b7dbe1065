//! Waits of a thread's own under a lock.
//!
//! A thread may sleep while it holds a lock. Who wants the lock then waits through that sleep and is woken by what the owner does after it:
//! such a sleep was under the lock. Others were not: meanwhile another user released the lock, or had a whole turn with it, or the thread
//! waits for it when it has slept and has released it to nobody since. Most sleeps show neither, as nobody else came. If their lengths, the work
//! before or the work after them tells the two sorts apart, each is of the sort that it is like. Else none is taken for one under a lock; nor
//! where the thread has waited for another before each of them and wakes another after each: these hand something to each other.

use super::steps::{STRAY_OF, Step, TIMER, kind_of_wait, median};
use super::thread::Thread;
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::Pid;

/// Fewer of a sort tell nothing.
const MIN_SEEN: usize = 4;
/// Between the sorts there is a gap: its width, as part of how far its two ends together are from what one sort usually is, 1/1000.
const CLEAR: u128 = 100;

/// A wait of a thread's own.
#[derive(Default)]
struct Wait {
    since: u64,
    until: u64,
    /// Its kind, how long it was, and the work since the wait before and until the next.
    like: [u64; 4],
    /// Since the wait before it the thread has waited for the lock; before the next it does, or releases it to another; and it does that.
    had_waited: bool,
    deals: bool,
    releases: bool,
    held: bool,
    free: bool,
}

/// The work after a wait, in [`Wait::like`].
const AFTER: usize = 3;

/// Of each of the threads that wake each other: the waits in which it holds a lock, by when they began.
pub(super) fn waits(threads: &BTreeMap<Pid, Thread>, members: &BTreeSet<Pid>) -> BTreeMap<Pid, BTreeSet<u64>> {
    let (mut began, mut releases): (BTreeMap<(Pid, u64), u64>, BTreeMap<u64, Pid>) = Default::default();
    for pid in members {
        for step in &threads[pid].steps {
            match *step {
                Step::Token { by, since, at } if members.contains(&by) => _ = began.insert((*pid, at), since),
                Step::Post { to, at } if members.contains(&to) => _ = releases.insert(at, *pid),
                _ => {}
            }
        }
    }
    let of = |pid: &Pid| (*pid, own(&threads[pid].steps, members, &began));
    let mut all: BTreeMap<Pid, Vec<Wait>> = members.iter().map(of).collect();
    let turns: BTreeMap<Pid, Vec<(u64, u64)>> = all.iter().map(|(pid, waits)| (*pid, alone(waits))).collect();
    for (pid, waits) in &mut all {
        for wait in waits.iter_mut() {
            let mut meanwhile = releases.range((wait.since + 1).min(wait.until)..wait.until);
            wait.free |= meanwhile.any(|(_, by)| by != pid);
        }
        if waits.iter().filter(|w| w.free).count() < MIN_SEEN {
            let others = turns.iter().filter(|(other, _)| *other != pid).flat_map(|(_, turns)| turns);
            let mut others: Vec<(u64, u64)> = others.copied().collect();
            others.sort_unstable();
            for wait in waits {
                let first = others.partition_point(|turn| turn.0 < wait.since);
                wait.free |= others[first..].iter().take_while(|turn| turn.0 < wait.until).any(|t| t.1 <= wait.until);
            }
        }
    }
    all.into_iter().map(|(pid, waits)| (pid, held(&waits))).collect()
}

/// The waits of a thread's own, and what its releases and its waits for the lock say of them; `began`: since when who is woken had waited.
fn own(steps: &[Step], members: &BTreeSet<Pid>, began: &BTreeMap<(Pid, u64), u64>) -> Vec<Wait> {
    let mut all: Vec<Wait> = Vec::new();
    let (mut work, mut waited) = (0u64, false);
    // The first since its last wait for the lock or its last release.
    let mut first = 0;
    for step in steps {
        match *step {
            Step::Work(units) | Step::Spin(units) => work = work.saturating_add(units),
            Step::Token { by, .. } if members.contains(&by) => {
                if let Some(last) = all[first..].last_mut() {
                    last.free = true;
                }
                if let Some(last) = all.last_mut() {
                    last.deals = true;
                }
                (first, waited) = (all.len(), true);
            }
            Step::Post { to, at } if members.contains(&to) => {
                if let Some(began) = began.get(&(to, at)) {
                    all[first..].iter_mut().filter(|w| w.until > *began).for_each(|w| w.held = true);
                }
                if let Some(last) = all.last_mut() {
                    (last.deals, last.releases) = (true, true);
                }
                first = all.len();
            }
            ref own if own.waits() || matches!(own, Step::Passed { .. }) => {
                let (before, had_waited) = (std::mem::take(&mut work), std::mem::take(&mut waited));
                if let Some(last) = all.last_mut().filter(|last| last.like[AFTER] == u64::MAX) {
                    last.like[AFTER] = before;
                }
                let (Some(since), Some(until), Some(kind)) = (own.blocked_since(), own.woken_at(), kind_of_wait(own))
                else {
                    continue;
                };
                // Which of both it is may depend on the waits for the lock.
                let kind = if matches!(own, Step::Sleep { .. }) { TIMER } else { kind };
                let like = [u64::from(kind), until.saturating_sub(since), before, u64::MAX];
                all.push(Wait { since, until, like, had_waited, ..Wait::default() });
            }
            _ => {}
        }
    }
    all
}

/// Turns in which a thread did the work of those in which it deals with others, and did not have to.
fn alone(waits: &[Wait]) -> Vec<(u64, u64)> {
    let mut of: Vec<u64> = waits.iter().filter(|w| w.deals).map(|w| w.like[AFTER]).collect();
    let Some(usual) = median(&mut of) else { return Vec::new() };
    let is_alike = |w: &[Wait]| !w[0].deals && w[0].like[AFTER].abs_diff(usual) <= usual / STRAY_OF as u64;
    waits.windows(2).filter(|w| is_alike(w)).map(|w| (w[0].until, w[1].since)).collect()
}

/// Those that are like the waits that are seen to be under the lock, and unlike those that are seen not to be.
fn held(all: &[Wait]) -> BTreeSet<u64> {
    let shown = |held: bool| all.iter().filter(move |w| (w.held, w.free) == (held, !held));
    let [of_held, of_free] = [true, false].map(|held| shown(held).count());
    let both = all.iter().filter(|w| w.held && w.free).count();
    if of_held.min(of_free) < MIN_SEEN || both * STRAY_OF > of_held.min(of_free) {
        return BTreeSet::new();
    }
    // Either sort may be the one that is always alike.
    let ways = (0..=AFTER).flat_map(|nth| [true, false].map(|sort| (nth, sort)));
    let told = ways.filter_map(|(nth, sort)| {
        let usual = median(&mut shown(sort).map(|w| w.like[nth]).collect::<Vec<u64>>())?;
        let off = move |w: &Wait| w.like[nth].abs_diff(usual);
        let sorted = |of: bool| {
            let mut all: Vec<u64> = shown(of).map(off).collect();
            all.sort_unstable();
            all
        };
        let (own, others) = (sorted(sort), sorted(!sort));
        let (far, near) = (own[own.len() - 1 - own.len() / STRAY_OF], others[others.len() / STRAY_OF]);
        let gap = near.checked_sub(far).filter(|gap| *gap > 0)?;
        let clear = u128::from(gap) * 1_000 / (u128::from(near) + u128::from(far));
        let is_held = move |w: &&Wait| w.like[nth] < u64::MAX && (off(w) <= far + gap / 2) == sort;
        (clear >= CLEAR).then(|| (clear, all.iter().filter(is_held).collect::<Vec<&Wait>>()))
    });
    // Of equally clear ones the first.
    let told = told.min_by_key(|(clear, _)| std::cmp::Reverse(*clear)).map_or_else(Vec::new, |(_, held)| held);
    // Two that hand something to each other, and each sleeps before it hands it back, meet each time.
    let meet = told.iter().filter(|w| w.had_waited && w.releases).count();
    if told.len() - meet < MIN_SEEN || (told.len() - meet) * STRAY_OF < told.len() {
        return BTreeSet::new();
    }
    told.into_iter().map(|w| w.since).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Pid = Pid(1);
    const B: Pid = Pid(2);
    const US: u64 = 1_000;

    /// Turns of 10 ms of a thread that sleeps twice, so long the first time; in one of three another comes in that sleep, waits until the thread
    /// has worked after it and wakes it; in the next the thread finds that the other has the lock. Where it wakes nobody, what is it?
    fn sleeps(first: impl Fn(u64) -> u64, work: [u64; 3]) -> Vec<bool> {
        let mut threads: BTreeMap<Pid, Thread> = [A, B].map(|pid| (pid, Thread::new(120))).into();
        for i in 0..90u64 {
            let mut at = i * 10_000 * US;
            let mut of: [Vec<Step>; 2] = Default::default();
            if i % 3 == 1 {
                of[0].push(Step::Token { by: B, since: at, at: at + 100 * US });
                of[1].push(Step::Post { to: A, at: at + 100 * US });
                at += 100 * US;
            }
            at += work[0] * US;
            let ns = first(i) * US;
            of[0].extend([Step::Work(work[0] * US), Step::Sleep { ns, since: at }, Step::Work(work[1] * US)]);
            let came = at + ns / 2;
            at += ns + work[1] * US;
            if i % 3 == 0 {
                of[0].push(Step::Post { to: B, at });
                of[1].push(Step::Token { by: A, since: came, at });
            }
            of[1].extend([Step::Work(100 * US), Step::Sleep { ns: 1, since: at + 100 * US }]);
            at += work[2] * US;
            of[0].extend([Step::Work(work[2] * US), Step::Timer { until: (i + 1) * 10_000 * US, since: at }]);
            for (pid, steps) in [A, B].into_iter().zip(of) {
                threads.get_mut(&pid).unwrap().steps.extend(steps);
            }
        }
        let held = &waits(&threads, &[A, B].into())[&A];
        let own = threads[&A].steps.iter().filter(|s| matches!(s, Step::Sleep { .. } | Step::Timer { .. }));
        own.map(|s| held.contains(&s.blocked_since().unwrap())).collect()
    }

    #[test]
    fn a_sleep_under_a_lock() {
        let by_turns = [true, false].repeat(90);
        assert_eq!(sleeps(|_| 1_000, [200, 300, 100]), by_turns, "it is shorter");
        assert_eq!(
            sleeps(|i| 4_000 + i * 7919 % 1501, [200, 300, 100]),
            by_turns,
            "of any length, but after less work"
        );
        // Both are of about the same lengths, after as much work and before as much.
        let alike = sleeps(|i| 4_600 + i * 7919 % 401, [200, 200, 0]);
        assert!(!alike.contains(&true), "{alike:?}");
    }
}
