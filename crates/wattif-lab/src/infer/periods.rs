//! Activations that a trace does not show.
//!
//! A periodic thread that is late does not sleep: its trace shows one long stretch of work where its program has two jobs, with a
//! timer between them that had passed. Under another kernel it might have been in time, so the timer has to be there. Jobs of
//! equal length in equal distances give it away: a stretch of `k` times the usual work holds `k` jobs, unless so much work was one job
//! another time, when the thread slept before the timers between them would have passed.
//!
//! What happens after a late job differs between programs: some catch up (the next expiry stays on the grid: rt-app's `absolute`,
//! `clock_nanosleep` with the sum of periods), some start again from now (rt-app's default). The first expiry after a
//! revealed job tells which.

use super::steps::{self, Step, densest, median, timers, work};
use std::collections::BTreeSet;

/// How a thread's timer goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Beat {
    /// Period, ns; 0 where it has none.
    pub period: u64,
    /// Work of a job, units; 0 where jobs are not alike or do more than work.
    pub work: u64,
    /// Revealed jobs after which the next expiry was on the grid, and after which it was not.
    pub caught_up: u32,
    pub started_again: u32,
}

/// Fewer intervals of one length make no period.
const MIN_INTERVALS: usize = 5;
/// Sleeps of a constant length have it to so many ns, where nothing hides when they end.
const EXACT_NS: u64 = 1_000;
/// Less than one in so many is no length of its own.
const RARE: usize = 20;
/// More than so many times as many sleeps as distances are of such lengths, or as many distances as sleeps of none.
const MORE: usize = 4;
/// Part of all intervals that must have that length, 1/100.
const MIN_SHARE: usize = 30;
/// Jobs of equal work: so many of 100, within so many percent of their median.
const EQUAL_OF_100: usize = 70;
const EQUAL_PCT: u64 = 20;
/// More sizes are none.
const SIZES: usize = 3;
/// Threads with fewer tellable sleeps are taken as timed absolutely.
pub(super) const MIN_SLEEPS: usize = 8;
/// Lengths of the sleeps of a program; so many of 100 sleeps tell them, and others are farther than this part from them.
const CONSTANTS: usize = 3;
const OF_100: usize = 80;
pub(super) const FAR: f64 = 0.02;
/// Distances of so many lengths, half of all there are and more, tell a period to one part in so many of a ns.
const LAGS: usize = 4;
const ONE: f64 = 1024.0;
/// One expiry in so many has to tell of the usual time; and other times are about as frequent, if they lack one in so many.
const AGREE_OF: usize = 3;
const ABOUT_OF: usize = 4;
/// Lengths are alike within one part in so many of what still counts as the same.
const ALIKE_PART: u64 = 4;
/// A thread is born less than one part in so many of its period after the common start.
const BORN_OF: u64 = 10;
/// More jobs at once are not believed.
const MAX_JOBS: u64 = 64;
/// Work tells the number of jobs to one part in so many.
const AHEAD_OF: u64 = 20;

impl Beat {
    /// Together with what was revealed later in the same steps.
    pub(super) fn and(self, later: Beat) -> Beat {
        Beat {
            period: if self.period > 0 { self.period } else { later.period },
            work: self.work,
            caught_up: self.caught_up + later.caught_up,
            started_again: self.started_again + later.started_again,
        }
    }
}

/// When a timer expired is told from when its CPU had woken up, by what that took; how long exactly is not in a trace. A periodic thread's
/// expiries that are one or more periods apart, but for at most `uncertain_ns`, are where most of them say.
pub(super) fn even_expiries(steps: &mut [Step], uncertain_ns: u64, waits: impl Fn(&Step) -> bool) {
    let Some(period) = period(&intervals(steps, waits)) else { return };
    let uncertain_ns = uncertain_ns.min(period / 4);
    let timers: Vec<(usize, u64, u64)> = timers(steps).collect();
    // It sleeps for its next timer after it has woken up for this one.
    let woken_by: Vec<u64> = timers.iter().skip(1).map(|t| t.2).chain([u64::MAX]).collect();
    let near = |ns: u64| (ns % period).min(period - ns % period) <= uncertain_ns;
    // Who is still busy when the next timer expires may start again from then.
    let is_late = |a: &(usize, u64, u64), b: &(usize, u64, u64)| b.2.saturating_sub(a.1) > period;
    let together = |a: &(usize, u64, u64), b: &(usize, u64, u64)| b.1 > a.1 && near(b.1 - a.1) && !is_late(a, b);
    let mut done = 0;
    for run in timers.chunk_by(together) {
        let expiries: Vec<u64> = run.iter().map(|t| t.1).collect();
        let woken_by = &woken_by[done..][..run.len()];
        done += run.len();
        let Some(late) = lateness(&expiries, period) else { continue };
        for ((&(i, until, since), late), woken_by) in run.iter().zip(late).zip(woken_by) {
            let even = until.saturating_add_signed(-late);
            if late.unsigned_abs() <= uncertain_ns && since < even && even <= *woken_by {
                steps[i] = Step::Timer { until: even, since };
            }
        }
    }
}

/// By how much each of some expiries, in order and about whole periods apart, is later than most of them say; `None` if they do not agree.
fn lateness(expiries: &[u64], period: u64) -> Option<Vec<i64>> {
    // Which beat each is; over many of them the period shows more exactly.
    let mut nth = vec![0];
    for w in expiries.windows(2) {
        let beats = (w[1] - w[0]) / period + u64::from((w[1] - w[0]) % period > period / 2);
        nth.push(nth[nth.len() - 1] + beats);
    }
    let (n, half) = (expiries.len(), expiries.len() / 2);
    let pairs = (half..n.min(half + LAGS)).flat_map(|lag| (lag..n).map(move |i| (i - lag, i)));
    let pairs = pairs.map(|(a, b)| (expiries[b] - expiries[a], nth[b] - nth[a])).filter(|p| p.1 > 0);
    let mut exact: Vec<u64> = pairs.map(|(ns, n)| (ns as f64 * ONE / n as f64) as u64).collect();
    exact.sort_unstable();
    let agree = &exact[densest(&exact, |_| slop(period) * ONE as u64 / (half as u64).max(1) / 4)];
    let exact = *agree.get(agree.len() / 2)? as f64 / ONE;
    // Later than the first says, and a quarter of a period.
    let later = |(at, n): (&u64, &u64)| ((at - expiries[0]) as f64 - *n as f64 * exact + exact / 4.0).max(0.0) as u64;
    let later: Vec<u64> = expiries.iter().zip(&nth).map(later).collect();
    let mut all = later.clone();
    all.sort_unstable();
    // A CPU that slept deeper than it seems to have done tells of a later time, again and again: the first of times that are about as frequent.
    let most = densest(&all, |_| slop(period)).len();
    let from = |begin: usize| &all[begin..all.partition_point(|ns| *ns <= all[begin].saturating_add(slop(period)))];
    let alike = (0..all.len()).map(from).find(|alike| ABOUT_OF * alike.len() >= (ABOUT_OF - 1) * most)?;
    if alike.len() < MIN_INTERVALS || AGREE_OF * alike.len() < all.len() {
        return None;
    }
    // Timers with slack expire together with others that are due, never before their time: it is where the latest are.
    let usual = alike[alike.len() * 7 / 8];
    Some(later.iter().map(|ns| ns.wrapping_sub(usual) as i64).collect())
}

/// Are the sleeps of a few constant lengths, to the microsecond, and far more of them than of the distances between expiries, or far fewer
/// not? Then the thread sleeps relatively, however regular the expiries are, and a sleep that is at most `uncertain_ns` off is of the nearest
/// of those lengths. Says whether it was so.
pub(super) fn even_relative_sleeps(steps: &mut [Step], uncertain_ns: u64) -> bool {
    let timers: Vec<(usize, u64, u64)> = timers(steps).filter(|t| t.2 > 0).collect();
    let (constants, off) = exact(timers.iter().map(|t| t.1.saturating_sub(t.2)).collect());
    let (_, beats_off) = exact(timers.windows(2).map(|w| w[1].1.saturating_sub(w[0].1)).collect());
    let (even, beats_even) = (timers.len() - off, timers.len().saturating_sub(1 + beats_off));
    let told = beats_off > MORE * off || 2 * even >= timers.len() && even > MORE * beats_even;
    if constants.is_empty() || !told {
        return false;
    }
    let next = timers.iter().skip(1).map(|t| t.2).chain([u64::MAX]);
    for (&(i, until, since), next) in timers.iter().zip(next) {
        let expiries = constants.iter().map(|constant| (since + constant, constant / 2));
        let (even, half) = expiries.min_by_key(|e| e.0.abs_diff(until)).expect("not empty");
        if until.abs_diff(even) <= uncertain_ns.min(half) && even <= next {
            steps[i] = Step::Timer { until: even, since };
        }
    }
    true
}

/// A few lengths that are frequent to the microsecond, and how many are of none of them.
fn exact(mut lengths: Vec<u64>) -> (Vec<u64>, usize) {
    lengths.sort_unstable();
    let (mut constants, least) = (Vec::new(), MIN_SLEEPS.max(lengths.len() / RARE));
    while constants.len() < CONSTANTS {
        let alike = densest(&lengths, |_| EXACT_NS);
        if alike.len() < least {
            break;
        }
        constants.push(lengths[alike.start + alike.len() / 2]);
        lengths.drain(alike);
    }
    (constants, lengths.len())
}

/// Puts the passed timers into `steps`. The first timer counts from the thread's birth, where that was seen: clocks are low then,
/// and first jobs late. Only what `waits` says is a wait of its own; other waits come in the midst of a job. Where timers were revealed before,
/// they stay.
pub(super) fn reveal(steps: &mut Vec<Step>, born: Option<u64>, waits: impl Fn(&Step) -> bool) -> Beat {
    let intervals = intervals(steps, &waits);
    let Some(period) = period(&intervals) else { return Beat::default() };
    let mut beat = Beat { period, ..Beat::default() };
    let usual = usual_work(&intervals, period);
    if let Some(usual) = usual.filter(|_| steps.iter().all(|s| matches!(s, Step::Work(_) | Step::Timer { .. }))) {
        beat.work = usual;
    }
    let sizes = match usual {
        Some(usual) => vec![usual],
        None => sizes(&intervals, period),
    };
    let around = around(&intervals, period, &sizes);
    cut(steps, born, &mut beat, |i, steps, ns| {
        let jobs = |size| multiple(steps, ns, period, size, &sizes, &waits);
        match around(i)? {
            (before, after) if before == after => jobs(before),
            // More jobs than have become due are none.
            (before, after) => [before, after].into_iter().filter_map(jobs).filter(|n| (n - 1) * period <= ns).min(),
        }
    });
    beat
}

/// The same for a thread of this beat that was late nearly always, from its beginning until the end of the trace. Who did more jobs than there
/// were periods is none.
pub(super) fn late_all_along(steps: &mut Vec<Step>, birth: Option<u64>, from_to: (u64, u64), mut beat: Beat) -> Beat {
    let (usual, period) = (beat.work, beat.period);
    let jobs = |work: u64| ((work + usual / 2) / usual).max(1);
    let (mut work, mut last) = (0u64, from_to.0);
    let mut late = |until: u64, work: u64| {
        let ns = until.saturating_sub(std::mem::replace(&mut last, until));
        jobs(work).saturating_mul(period) <= ns + ns / AHEAD_OF + period
    };
    for step in steps.iter() {
        match *step {
            Step::Work(units) => work += units,
            Step::Timer { until, .. } if late(until, std::mem::take(&mut work)) => {}
            _ => return Beat::default(),
        }
    }
    if !late(from_to.1, work) {
        return Beat::default();
    }
    let last = steps.iter().rposition(|s| !s.is_busy()).map_or(0, |last| last + 1);
    let unfinished = steps.split_off(last);
    cut(steps, birth, &mut beat, |_, job, _| Some(jobs(steps::work(job))));
    split(&unfinished, jobs(steps::work(&unfinished)), period, steps);
    beat
}

/// Puts passed timers where a stretch, from one expiry to another so long after, at that step, has several jobs.
fn cut(
    steps: &mut Vec<Step>,
    born: Option<u64>,
    beat: &mut Beat,
    several: impl Fn(usize, &[Step], u64) -> Option<u64>,
) {
    let period = beat.period;
    let mut stretches: Vec<(usize, u64, Option<Stretch>)> = Vec::new();
    let (mut begin, mut last) = (0, born);
    for i in 0..steps.len() {
        let Step::Timer { until, since } = steps[i] else { continue };
        let found = last.and_then(|last: u64| {
            let jobs = several(i, &steps[begin..i], until.saturating_sub(last))?;
            Some(Stretch { jobs, awake_ns: since.saturating_sub(last) })
        });
        stretches.push((i, until, found));
        (begin, last) = (i + 1, Some(until));
    }
    // So much work was one job at least once.
    let found = stretches.iter().filter_map(|s| s.2);
    let one_job: BTreeSet<u64> = found.filter(|f| !f.may_be_several(period)).map(|f| f.jobs).collect();
    let mut out: Vec<Step> = Vec::with_capacity(steps.len());
    let (mut begin, mut last) = (0, born);
    for (i, until, found) in stretches {
        let jobs = found.map(|f| f.jobs).filter(|n| !one_job.contains(n)).unwrap_or(1);
        split(&steps[begin..i], jobs, period, &mut out);
        if jobs > 1 {
            // A thread's timers may count from the common start, before it was born.
            let before = if begin == 0 { last.unwrap_or(0).min(period / BORN_OF) } else { 0 };
            let on_grid = is_multiple(until - last.unwrap_or(0), period, slop(period) + before);
            *(if on_grid { &mut beat.caught_up } else { &mut beat.started_again }) += 1;
        }
        out.push(steps[i].clone());
        (begin, last) = (i + 1, Some(until));
    }
    out.extend_from_slice(&steps[begin..]);
    *steps = out;
}

/// How far from a multiple of the period still counts as one.
pub(super) fn slop(period: u64) -> u64 {
    (period / 100).max(60_000).min(period / 4)
}

fn is_multiple(ns: u64, period: u64, uncertain: u64) -> bool {
    let rest = ns % period;
    rest.min(period - rest) <= uncertain
}

/// From an expiry to the next, where nothing but a timer ended a wait in between: how long, the work, and the step that ends it.
fn intervals(steps: &[Step], waits: impl Fn(&Step) -> bool) -> Vec<(u64, u64, usize)> {
    let mut all = Vec::new();
    let (mut last, mut work) = (None, 0u64);
    for (i, step) in steps.iter().enumerate() {
        match *step {
            Step::Timer { until, .. } => {
                if let Some(last) = last {
                    all.push((until - last, work, i));
                }
                (last, work) = (Some(until), 0);
            }
            Step::Work(units) => work += units,
            _ if waits(step) => last = None,
            _ => {}
        }
    }
    all
}

/// Do interrupts come at equal distances, whatever else ends waits in between? Not if that is only since sleeps are of equal length.
pub(super) fn has_grid(steps: &[Step]) -> bool {
    let timers: Vec<(u64, u64)> = timers(steps).map(|(_, until, since)| (until, until.saturating_sub(since))).collect();
    let beats: Vec<(u64, u64)> = timers.windows(2).map(|w| (w[1].0.saturating_sub(w[0].0), w[1].1)).collect();
    let Some(period) = most_frequent(beats.iter().map(|b| b.0).collect(), MIN_SHARE) else { return false };
    let on_it = |b: &&(u64, u64)| b.0.abs_diff(period) <= slop(period);
    let (distances, sleeps) = beats.iter().filter(on_it).map(|b| (b.0 as f64, b.1 as f64)).unzip();
    2.0 * missed(distances) <= missed(sleeps)
}

/// How far values are from the nearest of a few constants, as part of it; those that are farthest left out.
pub(super) fn missed(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let (n, mut off) = (values.len(), Vec::new());
    for _ in 0..CONSTANTS {
        let near = |begin: usize| values[begin..].partition_point(|v| *v <= values[begin] * (1.0 + FAR));
        let Some((n, begin)) = (0..values.len()).map(|begin| (near(begin), begin)).max() else { break };
        if n < MIN_SLEEPS {
            break;
        }
        let constant = values[begin + n / 2];
        off.extend(values.drain(begin..begin + n).map(|v| (v - constant).abs() / constant.max(1.0)));
    }
    off.sort_unstable_by(f64::total_cmp);
    off.resize(n, 1.0);
    off.truncate(n * OF_100 / 100);
    off.iter().sum::<f64>() / off.len().max(1) as f64
}

/// The interval that is most frequent.
fn period(intervals: &[(u64, u64, usize)]) -> Option<u64> {
    most_frequent(intervals.iter().map(|i| i.0).collect(), MIN_SHARE)
}

/// The length that at least `share` of 100 have, more or less.
pub(super) fn most_frequent(mut lengths: Vec<u64>, share: usize) -> Option<u64> {
    lengths.retain(|ns| *ns > 0);
    lengths.sort_unstable();
    let most = &lengths[densest(&lengths, |least| 2 * slop(least))];
    (most.len() >= MIN_INTERVALS && most.len() * 100 >= lengths.len() * share).then(|| middle(most))
}

/// The median of some lengths, if two thirds of them are as long; else their mean: timers with slack expire now early, now late.
fn middle(sorted: &[u64]) -> u64 {
    let median = sorted[sorted.len() / 2];
    let alike = sorted.iter().filter(|ns| ns.abs_diff(median) <= slop(median) / ALIKE_PART).count();
    let mean = || sorted.iter().map(|ns| u128::from(*ns)).sum::<u128>() / sorted.len() as u128;
    if alike * 3 > sorted.len() * 2 { median } else { mean() as u64 }
}

/// Work of a job that was in time, where such jobs are alike.
fn usual_work(intervals: &[(u64, u64, usize)], period: u64) -> Option<u64> {
    let mut work: Vec<u64> = in_time(intervals, period).map(|i| i.1).collect();
    let median = median(&mut work).filter(|w| *w > 0)?;
    let alike = work.iter().filter(|w| is_about(**w, median)).count();
    (alike * 100 >= work.len() * EQUAL_OF_100).then_some(median)
}

fn in_time(intervals: &[(u64, u64, usize)], period: u64) -> impl DoubleEndedIterator<Item = &(u64, u64, usize)> {
    intervals.iter().filter(move |i| i.0.abs_diff(period) <= slop(period))
}

/// Works of jobs that were in time, where most of them are of a few sizes.
fn sizes(intervals: &[(u64, u64, usize)], period: u64) -> Vec<u64> {
    let mut work: Vec<u64> = in_time(intervals, period).map(|i| i.1).filter(|work| *work > 0).collect();
    work.sort_unstable();
    let (all, mut sizes) = (work.len(), Vec::new());
    while sizes.len() < SIZES {
        let alike = densest(&work, |least| least / 100 * 2 * EQUAL_PCT);
        if alike.len() < MIN_INTERVALS.max(all / RARE) {
            break;
        }
        sizes.push(work[alike.start + alike.len() / 2]);
        work.drain(alike);
    }
    if (all - work.len()) * 100 < all * EQUAL_OF_100 {
        sizes.clear();
    }
    sizes
}

/// The sizes of the jobs at a step: of phases each has its own. So they are those of the last job in time before it and of the next after
/// it; at the ends of the trace that of the one there is.
fn around(intervals: &[(u64, u64, usize)], period: u64, sizes: &[u64]) -> impl Fn(usize) -> Option<(u64, u64)> {
    let size = |work: u64| sizes.iter().copied().filter(|size| is_about(work, *size)).min_by_key(|s| s.abs_diff(work));
    let seen: Vec<(usize, Option<u64>)> = in_time(intervals, period).map(|i| (i.2, size(i.1))).collect();
    let only = if let [size] = *sizes { Some(size) } else { None };
    move |i| {
        if let Some(size) = only {
            return Some((size, size));
        }
        let next = seen.partition_point(|s| s.0 < i);
        let near = &seen[next.saturating_sub(1)..seen.len().min(next + 1)];
        Some((near.first()?.1?, near.last()?.1?))
    }
}

/// Is this about as much work?
pub(super) fn is_about(work: u64, expected: u64) -> bool {
    work.abs_diff(expected) <= expected / 100 * EQUAL_PCT
}

/// The work of so many jobs, from one expiry until the thread slept for the next.
#[derive(Clone, Copy)]
struct Stretch {
    jobs: u64,
    awake_ns: u64,
}

impl Stretch {
    /// Had the timer of the last job passed before the thread slept?
    fn may_be_several(&self, period: u64) -> bool {
        (self.jobs - 1).saturating_mul(period) <= self.awake_ns.saturating_add(slop(period))
    }
}

/// How many usual jobs make the work of a stretch of steps between two expiries, if it is several and clear, and not that of one of another
/// size.
fn multiple(
    steps: &[Step],
    ns: u64,
    period: u64,
    usual: u64,
    sizes: &[u64],
    waits: impl Fn(&Step) -> bool,
) -> Option<u64> {
    let is_told = |s: &Step| waits(s) || matches!(s, Step::Passed { .. });
    let work = work(steps);
    if ns <= period + slop(period) || steps.iter().any(is_told) || sizes.iter().any(|size| is_about(work, *size)) {
        return None;
    }
    let jobs = (work + usual / 2) / usual;
    ((2..=MAX_JOBS).contains(&jobs) && work.abs_diff(jobs * usual) <= usual / 4).then_some(jobs)
}

/// Copies steps with `jobs - 1` passed timers at equal distances of work.
pub(super) fn split(steps: &[Step], jobs: u64, period: u64, out: &mut Vec<Step>) {
    pass(steps, jobs.saturating_sub(1), work(steps) / jobs.max(1), period, out);
}

/// Copies steps with so many passed timers, each after so much work.
pub(super) fn pass(steps: &[Step], mut timers: u64, each: u64, period: u64, out: &mut Vec<Step>) {
    let mut left = each;
    for step in steps {
        let Step::Work(mut units) = *step else {
            out.push(step.clone());
            continue;
        };
        while timers > 0 && units > left {
            if left > 0 {
                out.push(Step::Work(left));
            }
            out.push(Step::Passed { period });
            units -= left;
            (left, timers) = (each, timers - 1);
        }
        left = left.saturating_sub(units);
        out.push(Step::Work(units));
    }
}

/// A few lengths, each of at least so many that are alike, the most frequent first: the least of these, the one in the middle, and the most.
pub(super) fn frequent(mut lengths: Vec<u64>, few: usize, at_least: usize) -> Vec<(u64, u64, u64)> {
    lengths.sort_unstable();
    let mut all = Vec::new();
    while all.len() < few {
        let alike = densest(&lengths, |least| 2 * slop(least));
        if alike.len() < at_least {
            break;
        }
        all.push((lengths[alike.start], lengths[alike.start + alike.len() / 2], lengths[alike.end - 1]));
        lengths.drain(alike);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn reveal(steps: &mut Vec<Step>, born: Option<u64>) -> Beat {
        super::reveal(steps, born, Step::waits)
    }
    fn timer(ms: u64) -> Step {
        Step::Timer { until: ms * MS, since: ms * MS - 1 }
    }
    fn regular(ms: &[u64]) -> Vec<Step> {
        ms.iter().flat_map(|ms| [timer(*ms), Step::Work(2 * MS)]).collect()
    }

    #[test]
    fn a_late_job_that_catches_up() {
        let mut steps = regular(&[10, 20, 30, 40, 50, 60, 70]);
        steps.extend([timer(80), Step::Work(4 * MS), timer(100), Step::Work(2 * MS)]);
        let beat = reveal(&mut steps, None);
        assert_eq!(beat, Beat { period: 10 * MS, work: 2 * MS, caught_up: 1, started_again: 0 });
        let late = [timer(80), Step::Work(2 * MS), Step::Passed { period: 10 * MS }, Step::Work(2 * MS), timer(100)];
        assert_eq!(&steps[14..19], late);
    }

    /// Short timers that expire now in time, now as late as their slack lets them.
    #[test]
    fn slack_is_no_part_of_the_period() {
        let mut steps: Vec<Step> = Vec::new();
        let expiry = |i: u64| i * 2 * MS + i % 2 * 50_000;
        for i in (1..=40).filter(|i| i % 10 != 5) {
            steps.push(Step::Timer { until: expiry(i), since: expiry(i) - 1 });
            steps.push(Step::Work(if i % 10 == 4 { 3_600_000 } else { 1_800_000 }));
        }
        let beat = reveal(&mut steps, None);
        assert!(beat.period.abs_diff(2 * MS) <= 5_000, "{beat:?}");
        assert_eq!((beat.caught_up, beat.started_again), (4, 0));
    }

    /// Phases of a lighter and a heavier job, of which now and then one is late, also the first of a phase.
    #[test]
    fn jobs_of_two_sizes() {
        let work = |i: u64| if (i / 20).is_multiple_of(2) { 2 * MS } else { 3 * MS };
        let late = |i: u64| matches!(i, 7 | 20 | 33 | 52);
        let mut steps = vec![timer(10)];
        for i in 1..80u64 {
            steps.push(Step::Work(work(i)));
            steps.extend((!late(i)).then(|| timer(10 * (i + 1))));
        }
        assert_eq!(reveal(&mut steps, None).caught_up, 4);
        let passed = |(i, s): (usize, &Step)| matches!(s, Step::Passed { .. }).then(|| steps[i - 1].clone());
        let before: Vec<Step> = steps.iter().enumerate().filter_map(passed).collect();
        assert_eq!(before, [2, 3, 3, 2].map(|ms| Step::Work(ms * MS)));
        // One of the other size is none of two jobs.
        let mut steps = regular(&(1..40).map(|i| 10 * i).collect::<Vec<u64>>());
        steps.iter_mut().skip(41).for_each(|s| {
            if let Step::Work(units) = s {
                *units = 4 * MS;
            }
        });
        steps[11] = Step::Work(4 * MS);
        steps.drain(12..14);
        let n = steps.len();
        reveal(&mut steps, None);
        assert_eq!(steps.len(), n);
    }

    #[test]
    fn one_that_starts_again() {
        let mut steps = regular(&[10, 20, 30, 40, 50, 60, 70]);
        steps.extend([timer(80), Step::Work(6 * MS), timer(124), Step::Work(2 * MS)]);
        assert_eq!(reveal(&mut steps, None), Beat { period: 10 * MS, work: 2 * MS, caught_up: 0, started_again: 1 });
        assert_eq!(steps.iter().filter(|s| matches!(s, Step::Passed { .. })).count(), 2);
        let work = work(&steps);
        assert_eq!(work, (7 * 2 + 6 + 2) * MS, "work is neither made nor lost");
    }

    #[test]
    fn expiries_that_are_not_known_exactly() {
        let even = |us: &[u64], uncertain: u64| -> Vec<u64> {
            let timer = |us: &u64| Step::Timer { until: us * 1_000, since: us * 1_000 - 2 * MS };
            let mut steps: Vec<Step> = us.iter().flat_map(|us| [timer(us), Step::Work(2 * MS)]).collect();
            super::even_expiries(&mut steps, uncertain, Step::waits);
            steps.iter().filter_map(Step::woken_at).map(|ns| ns / 1_000).collect()
        };
        let regular: Vec<u64> = (1..20).filter(|i| *i != 9).map(|i| 10_000 * i).collect();
        let off = |us: &u64| (us + [365, 40, 40, 40, 40, 0, 40, 40][(us / 10_000 % 8) as usize]) - 40;
        let some: Vec<u64> = regular.iter().map(off).collect();
        let near = |got: &[u64], expected: &[u64]| got.iter().zip(expected).all(|(a, b)| a.abs_diff(*b) <= 15);
        assert!(near(&even(&some, 650_000), &regular), "{:?}", even(&some, 650_000));
        assert_eq!(even(&some, 9_000), some, "no CPU takes as long");
        let again: Vec<u64> = (0..9).map(|i| 203_456 + 10_000 * i).collect();
        assert!(
            near(&even(&[some.clone(), again.clone()].concat(), 650_000), &[regular, again].concat()),
            "another beat"
        );
        let jitter: Vec<u64> = (1..40).map(|i| 10_000 * i + i * i * 7_919 % 1_300).collect();
        assert_eq!(even(&jitter, 650_000), jitter, "they do not agree");
    }

    /// Who was late and started again has another beat from then on, however near the two are.
    #[test]
    fn a_beat_that_begins_again() {
        let beat = |from: u64, n: u64| (0..n).map(move |i| (from + 11_000 * i, from + 11_000 * i - 8_000));
        let of = |late_since: u64| {
            let again = [(22_230 + 11_000 * 20, late_since)].into_iter().chain(beat(33_230 + 11_000 * 20, 40));
            let timers: Vec<(u64, u64)> = beat(11_000, 20).chain(again).collect();
            let timer = |(until, since): &(u64, u64)| Step::Timer { until: until * 1_000, since: since * 1_000 };
            let mut steps: Vec<Step> = timers.iter().flat_map(|t| [timer(t), Step::Work(2 * MS)]).collect();
            super::even_expiries(&mut steps, 650_000, Step::waits);
            steps
                .iter()
                .zip(timers.iter().flat_map(|t| [t, t]))
                .filter(|(s, t)| s.woken_at().is_some_and(|at| at != t.0 * 1_000))
                .count()
        };
        assert_eq!(of(11_240 + 11_000 * 20), 0);
        assert!(of(10_000 + 11_000 * 20) >= 20, "it slept, so the first ones seem early");
    }

    #[test]
    fn sleeps_of_a_few_lengths() {
        // Work that takes 2 or 3 ms, mostly 2; then it sleeps for 8 ms, or for 5.
        let program = |off: &[(usize, i64)], work: &dyn Fn(u64) -> u64| -> Vec<Step> {
            let (mut at, mut steps) = (MS, Vec::new());
            for i in 0..60u64 {
                let since = at + work(i);
                let exact = since + if i % 5 == 4 { 5 * MS } else { 8 * MS };
                let late = off.iter().find(|o| o.0 as u64 == i).map_or(0, |o| o.1);
                steps.extend([Step::Work(since - at), Step::Timer { until: exact.saturating_add_signed(late), since }]);
                at = exact;
            }
            steps
        };
        let mostly = |i: u64| if i % 6 == 5 { 3 * MS + i * 10_000 } else { 2 * MS };
        let (told, mut steps) = (program(&[], &mostly), program(&[(7, -200_000), (14, 90_000)], &mostly));
        assert!(even_relative_sleeps(&mut steps, 250_000) && steps == told);
        let mut steps = program(&[(7, -200_000), (14, 90_000)], &mostly);
        assert!(
            even_relative_sleeps(&mut steps, 100_000) && steps[15] != told[15] && steps[29] == told[29],
            "it is not so uncertain"
        );
        let mut same = program(&[], &|_| 2 * MS);
        assert!(!even_relative_sleeps(&mut same, 250_000), "the work is always the same: either may be constant");
        let mut timed: Vec<Step> =
            (0..60).map(|i| Step::Timer { until: 10 * MS * i, since: 10 * MS * i - i * i % 7 * 100_000 }).collect();
        assert!(!even_relative_sleeps(&mut timed, 250_000));
    }

    #[test]
    fn expiries_stay_in_order() {
        let mut seed = 1u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for _ in 0..200 {
            let (mut at, mut steps) = (random(2) * (u64::MAX / 2), Vec::new());
            for _ in 0..40 {
                let since = at + 1 + random(300_000);
                let until = if random(3) > 0 {
                    (since / MS + 1) * MS + random(2) * 325_000
                } else {
                    since + 1 + random(50_000)
                };
                at = until + random(400_000);
                steps.extend([Step::Timer { until, since }, Step::Work(1 + random(2) * MS)]);
            }
            even_expiries(&mut steps, 650_000, Step::waits);
            let order: Vec<u64> = steps
                .iter()
                .filter_map(|s| if let Step::Timer { until, since } = *s { Some([since, until]) } else { None })
                .flatten()
                .collect();
            assert!(order.is_sorted(), "{order:?}");
            reveal(&mut steps, Some(0));
        }
    }

    #[test]
    fn a_first_job_that_is_late() {
        let first = |until: u64| [&[Step::Work(6 * MS), timer(until)][..], &regular(&[])].concat();
        let mut steps = first(34);
        steps.push(Step::Work(2 * MS));
        steps.extend(regular(&[44, 54, 64, 74, 84, 94]));
        let mut unseen = steps.clone();
        let again = Beat { period: 10 * MS, work: 2 * MS, caught_up: 0, started_again: 1 };
        assert_eq!(reveal(&mut steps, Some(0)), again);
        let three = [Step::Work(2 * MS), Step::Passed { period: 10 * MS }];
        assert_eq!(steps[..5], [&three[..], &three, &[Step::Work(2 * MS)]].concat());
        assert_eq!(
            reveal(&mut unseen, None),
            Beat { started_again: 0, ..again },
            "it may have worked before the trace"
        );
    }

    #[test]
    fn what_is_not_clear_stays() {
        let check = |mut steps: Vec<Step>, period: u64, why: &str| {
            let before = steps.clone();
            assert_eq!(reveal(&mut steps, None).period, period * MS, "{why}");
            assert_eq!(steps, before, "{why}");
        };
        let with = |more: &[Step]| [regular(&[10, 20, 30, 40, 50, 60, 70]), more.to_vec()].concat();
        check(with(&[timer(80), Step::Work(3 * MS), timer(100)]), 10, "one and a half jobs");
        check(with(&[timer(80), Step::Work(2 * MS), timer(100)]), 10, "a period left out");
        check(
            with(&[
                timer(80),
                Step::Work(4 * MS),
                Step::Token { by: wattif_model::Pid(1), since: 1, at: 2 },
                timer(100),
            ]),
            10,
            "it waited for another thread",
        );
        let early = Step::Timer { until: 100 * MS, since: 84 * MS };
        let late = [timer(110), Step::Work(4 * MS), timer(130)];
        check(
            with(&[&[timer(80), Step::Work(4 * MS), early][..], &late].concat()),
            10,
            "it slept before the timer had passed, once",
        );
        check(regular(&[10, 21, 35, 41, 60, 66, 90, 99]), 0, "no period");
    }
}
