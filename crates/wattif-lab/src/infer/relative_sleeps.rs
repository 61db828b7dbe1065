//! Threads that sleep for a time, and not until one.
//!
//! A trace shows when a sleep began and when it ended. Under another kernel, which lets the thread sleep earlier or later, the end moves along
//! if the program sleeps for so long, and stays where it is if it waits for a time. Sleeps of one length, or of a few, between wake-ups
//! at unlike distances are of the first kind. So are sleeps that are as long as ever where the thread did not come to them as early or as late as
//! it mostly does, however evenly they come else. A thread may sleep so all along or in phases, or rest between some jobs of a timer and the
//! next ones, and those that sleep too seldom to tell do as others of their kind do.

use super::grids::keep_time;
use super::kin::Kinds;
use super::periods::{FAR, MIN_SLEEPS, missed};
use super::rests::rests;
use super::steps::{Step, median, timers};
use super::thread::Thread;
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::Pid;

/// So many relative sleeps make one more that is of another length relative, too.
const SLEEPS_OF: usize = 20;

/// The steps that are relative sleeps: all timers of a thread, as others of its kind tell or it does itself, or those of a phase of it. Not
/// where most keep time to `uncertain_ns`.
pub(super) fn sleeps(steps: &[Step], alike: bool, uncertain_ns: u64) -> Vec<bool> {
    let timer = |s: &Step| matches!(s, Step::Timer { since: 1.., .. });
    let (_, on_grid) = keep_time(steps, uncertain_ns, |_| false);
    let keep_time = |of: &[usize]| 2 * of.iter().filter(|i| on_grid[**i]).count() > of.len();
    let timers: Vec<usize> = (0..steps.len()).filter(|i| timer(&steps[*i])).collect();
    let by_itself = || !keep_time(&timers) && sleeps_relatively(steps) || sleeps_as_ever(steps);
    if alike || !is_late(steps) && by_itself() {
        return steps.iter().map(timer).collect();
    }
    let mut asleep = vec![false; steps.len()];
    let waits: Vec<usize> = (0..steps.len()).filter(|i| steps[*i].waits()).collect();
    let length = |s: &Step| s.woken_at().zip(s.blocked_since()).map_or(0, |(until, since)| until.saturating_sub(since));
    let alike = |a: &usize, b: &usize| {
        let lengths = [a, b].map(|i| length(&steps[*i]) as f64);
        [a, b].iter().all(|i| timer(&steps[**i])) && (lengths[0] - lengths[1]).abs() <= FAR * lengths[0]
    };
    for phase in waits.chunk_by(alike).filter(|phase| phase.len() >= MIN_SLEEPS) {
        let woken: Vec<u64> = phase.iter().filter_map(|i| steps[*i].woken_at()).collect();
        let intervals: Vec<f64> = woken.windows(2).map(|w| w[1].saturating_sub(w[0]) as f64).collect();
        let of_phase = &steps[phase[0]..=phase[phase.len() - 1]];
        if !is_late(of_phase) && !keep_time(phase) && spread(&intervals) > FAR && sleeps_relatively(of_phase) {
            phase.iter().for_each(|i| asleep[*i] = true);
        }
    }
    for i in rests(steps, |i| asleep[i] || on_grid[i]) {
        asleep[i] = true;
    }
    // Of a program that sleeps relatively, a few that are longer than the others are no timers.
    let few = asleep.iter().filter(|asleep| **asleep).count() / SLEEPS_OF;
    if few > 0 && steps.iter().zip(&asleep).filter(|(s, asleep)| timer(s) && !**asleep).count() <= few {
        asleep = steps.iter().map(timer).collect();
    }
    asleep
}

/// Have timers passed while it was busy? Who starts again from then is as far from the next each time, as if it slept for so long.
fn is_late(steps: &[Step]) -> bool {
    let passed = steps.iter().filter(|s| matches!(s, Step::Passed { .. })).count();
    passed * SLEEPS_OF > timers(steps).count()
}

/// Sleeps of equal length, or of a few lengths, between wake-ups at unequal distances: relative sleeps.
fn sleeps_relatively(steps: &[Step]) -> bool {
    let (lengths, intervals) = lengths_and_intervals(steps, None);
    are_relative(&lengths, &intervals)
}

/// Sleeps of one length, also after stretches that were longer or shorter than usual: a timer would have ended the wait when it mostly does.
fn sleeps_as_ever(steps: &[Step]) -> bool {
    let timers: Vec<_> = timers(steps).filter(|t| t.2 > 0).collect();
    // From the end of one to the begin of the next, and how long that is.
    let of_pair = |w: &[(usize, u64, u64)]| (w[1].2.saturating_sub(w[0].1), w[1].1.saturating_sub(w[1].2));
    let seen: Vec<(u64, u64)> = timers.windows(2).map(of_pair).collect();
    let (mut stretches, mut lengths): (Vec<u64>, Vec<u64>) = seen.iter().copied().unzip();
    let Some((stretch, length)) = median(&mut stretches).zip(median(&mut lengths)) else { return false };
    let period = stretch.saturating_add(length);
    // One that lasts longer than a period leaves a timer late, after which it may start again from then.
    let unusual = |(of, _): &&(u64, u64)| of.abs_diff(stretch) as f64 > 4.0 * FAR * period as f64 && *of < period;
    let are_as_ever = |lengths: &[u64]| {
        let as_ever = lengths.iter().filter(|ns| ns.abs_diff(length) as f64 <= FAR * length as f64).count();
        as_ever >= MIN_SLEEPS && (lengths.len() - as_ever) * SLEEPS_OF <= as_ever
    };
    let after_unusual: Vec<u64> = seen.iter().filter(unusual).map(|(_, asleep)| *asleep).collect();
    are_as_ever(&after_unusual) && are_as_ever(&lengths)
}

/// Threads of one kind that sleep too seldom to tell anything alone: together they sleep relatively. The timer of one that sleeps once
/// would count from its birth.
pub(super) fn sleep_alike(threads: &BTreeMap<Pid, Thread>, kinds: &Kinds) -> BTreeSet<Pid> {
    let mut all: BTreeMap<&String, Vec<Pid>> = BTreeMap::new();
    let seldom = |t: &Thread| lengths_and_intervals(&t.steps, None).0.len() < MIN_SLEEPS;
    threads.iter().filter(|(_, t)| seldom(t)).for_each(|(pid, _)| all.entry(&kinds[pid]).or_default().push(*pid));
    let together = |pids: &Vec<Pid>| {
        let of = |pid: &Pid| lengths_and_intervals(&threads[pid].steps, threads[pid].birth());
        let (lengths, intervals): (Vec<_>, Vec<_>) = pids.iter().map(of).unzip();
        are_relative(&lengths.concat(), &intervals.concat())
    };
    all.into_values().filter(together).flatten().collect()
}

/// How long it slept for each of its timers, and from each expiry to the next, or from its birth to the only one, ns.
fn lengths_and_intervals(steps: &[Step], born: Option<u64>) -> (Vec<f64>, Vec<f64>) {
    let sleeps = timers(steps).filter(|t| t.2 > 0).map(|(_, until, since)| ((until - since) as f64, until as f64));
    let (lengths, mut expiries): (Vec<f64>, Vec<f64>) = sleeps.unzip();
    if let ([_], Some(born)) = (&expiries[..], born) {
        expiries.insert(0, born as f64);
    }
    (lengths, expiries.windows(2).map(|w| w[1] - w[0]).collect())
}

fn are_relative(lengths: &[f64], intervals: &[f64]) -> bool {
    if lengths.len() < MIN_SLEEPS {
        return false;
    }
    if spread(lengths) < 0.02 && spread(lengths) * 2.0 < spread(intervals) {
        return true;
    }
    // Some may have ended while their CPU took long to wake up. That moves both distances to the wake-up, but one length only: intervals that
    // are so little farther apart may be those of a timer.
    let off = missed(lengths.to_vec());
    intervals.len() >= MIN_SLEEPS && off < FAR && off * 4.0 < missed(intervals.to_vec())
}

/// Standard deviation as part of the mean.
fn spread(v: &[f64]) -> f64 {
    let mean = v.iter().sum::<f64>() / v.len() as f64;
    (v.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / v.len() as f64).sqrt() / mean.max(1.0)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Work and sleeps by turns, in µs.
    pub(in crate::infer) fn asleep(pieces: impl Iterator<Item = (u64, u64)>) -> Vec<Step> {
        let mut at = MS;
        let mut turn = |(work, sleep): (u64, u64)| {
            let since = at + work * 1_000;
            at = since + sleep * 1_000;
            [Step::Work(work), Step::Timer { until: at, since }]
        };
        pieces.flat_map(&mut turn).collect()
    }

    /// A program that starts again when its timer has passed sleeps for as long each time, if it is late again and again.
    #[test]
    fn timers_of_late_threads_are_no_sleeps() {
        let steps = asleep((0..60).map(|i| (4_500 * (1 + i % 3), 4_500)));
        let count = |steps: &[Step]| sleeps(steps, false, 100_000).iter().filter(|asleep| **asleep).count();
        assert_eq!(count(&steps), timers(&steps).count());
        let late = steps.into_iter().flat_map(|step| match step {
            Step::Timer { .. } => vec![Step::Passed { period: 9_000_000 }, Step::Work(1), step],
            _ => vec![step],
        });
        assert_eq!(count(&late.collect::<Vec<_>>()), 0);
    }

    #[test]
    fn sleeps_of_a_few_lengths() {
        let unlike = |i: u64| 1_000 + i * 7_919 % 1_500;
        let drifts = |i| (unlike(i), if i % 30 == 7 { 10_900 } else { 8_000 });
        assert!(sleeps_relatively(&asleep((0..60).map(drifts))), "some long exits");
        let phases = |i| if i / 10 % 2 == 0 { (unlike(i), 5_000) } else { (unlike(i) / 10, 2_000) };
        assert!(sleeps_relatively(&asleep((0..60).map(phases))), "two lengths");
        assert!(!sleeps_relatively(&asleep((0..60).map(|i| (1_000, unlike(i * i))))), "any length");
    }

    /// Children that sleep three times, or once, between work of any length; and some that wait for a beat since their births.
    #[test]
    fn sleeps_of_children_together() {
        let threads = |times: u64, sleep: &dyn Fn(u64) -> u64| -> BTreeMap<Pid, Thread> {
            let child = |pid: u64| {
                let turn = |i: u64| {
                    let work = 500 + (pid * 7 + i) * 7_919 % 1_500;
                    (work, sleep(work))
                };
                let mut t = Thread::new(120);
                (t.steps, t.parent, t.born) = (asleep((0..times).map(turn)), Some(Pid(1)), MS);
                (Pid(pid as u32), t)
            };
            (2..12).map(child).collect()
        };
        let kinds: BTreeMap<Pid, String> = (2..12).map(|pid| (Pid(pid), "child".into())).collect();
        for times in [1, 3] {
            assert_eq!(sleep_alike(&threads(times, &|_| 2_500), &kinds).len(), 10, "{times}");
            assert!(sleep_alike(&threads(times, &|work| 4_000 - work), &kinds).is_empty(), "{times}");
        }
        let old = |times| {
            let mut all = threads(times, &|_| 2_500);
            all.values_mut().for_each(|t| t.parent = None);
            sleep_alike(&all, &kinds).len()
        };
        assert_eq!([1, 3].map(old), [0, 10], "of those whose birth was not seen, one sleep tells nothing");
        let few = threads(3, &|work| 300_000 - work).into_iter().take(3).collect();
        assert!(sleep_alike(&few, &kinds).is_empty(), "nine lengths, but six distances");
        let mut two = threads(3, &|_| 2_500);
        two.retain(|pid, _| pid.0 < 4);
        assert!(sleep_alike(&two, &kinds).is_empty(), "six tell nothing");
    }

    #[test]
    fn phases_of_sleeps() {
        let unlike = |i: u64| 1_000 + i * 7_919 % 1_500;
        let turn = |i: u64| {
            if (i / 20).is_multiple_of(2) { (5 * unlike(i), 20_000 - 5 * unlike(i)) } else { (unlike(i), 500) }
        };
        let steps = asleep((0..80).map(turn));
        assert!(!sleeps_relatively(&steps));
        let timers = steps.iter().zip(sleeps(&steps, false, 100_000)).filter(|(s, _)| matches!(s, Step::Timer { .. }));
        let which: Vec<bool> = timers.map(|(_, asleep)| asleep).collect();
        assert_eq!(which, (0..80).map(|i| i / 20 % 2 == 1).collect::<Vec<_>>());
    }

    #[test]
    fn a_period_is_no_sleep() {
        let check = |work: &dyn Fn(u64) -> u64, why: &str| {
            let exit = |i: u64| if i % 20 == 9 { 950 } else { 0 };
            let turn = |i: u64| (work(i), 10_000 + exit(i + 1) - exit(i) - work(i));
            assert!(!sleeps_relatively(&asleep((0..80).map(turn))), "{why}");
        };
        check(&|i| if (i / 20).is_multiple_of(2) { 500 } else { 7_000 }, "two kinds of work");
        check(&|i| 500 + i % 3 + if (i / 20).is_multiple_of(2) { 0 } else { 6_500 }, "not to the microsecond");
        check(&|i| 500 + i * 7_919 % 5_000, "any work");
        check(&|_| 500, "always the same");
    }

    /// Mostly as even as a timer, but a wait for a lock now and then moves all that comes.
    #[test]
    fn even_sleeps_that_move_along() {
        let found = |steps: &[Step]| {
            let asleep = sleeps(steps, false, 100_000);
            (asleep.iter().filter(|a| **a).count(), timers(steps).count())
        };
        let work = |i: u64| if i % 20 == 7 { 4_000 } else { 3_000 };
        let (asleep_of, all) = found(&asleep((0..200).map(|i| (work(i), 7_000))));
        assert_eq!(asleep_of, all);
        // A timer that is met, and one that starts again where it is late.
        assert_eq!(found(&asleep((0..200).map(|i| (work(i), 10_000 - work(i))))).0, 0);
        let late = |i: u64| if i % 20 == 7 { 14_000 } else { 3_000 };
        assert!(!sleeps_as_ever(&asleep((0..200).map(|i| (late(i), 7_000)))));
    }

    /// Slack that comes by turns leaves two lengths of sleeps to the microsecond, and three distances.
    #[test]
    fn a_blurred_period_is_no_sleep() {
        let late = |i: u64| i % 2 * 50;
        let turn = |i: u64| (1_500 + i % 3, 4_500 + late(i + 1) - late(i) - i % 3);
        let steps = asleep((0..200).map(turn));
        assert!(sleeps_relatively(&steps));
        assert!(!sleeps(&steps, false, 100_000).contains(&true));
    }
}
