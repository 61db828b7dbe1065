//! Sleeps within a period.
//!
//! A periodic thread may also sleep for a time in the midst of its job, as one that waits for a bus does. All its waits together are of
//! no one kind then: neither are they of a few lengths nor at equal distances. But without those of one length the others keep time, and those
//! of that length are more alike than the times at which they end, since these also move with the work that is done before.

use super::grids::{keep_time, width};
use super::periods::{frequent, slop};
use super::steps::{Step, timers};

/// Fewer sleeps are no kind of their own, nor is less than one of so many.
const MIN_NAPS: usize = 16;
const RARE: usize = 20;
/// Lengths that are tried.
const LENGTHS: usize = 3;
/// Of what is left, one in so many keeps time at least.
const IN_TIME: usize = 2;
/// The ends of sleeps are blurred so many times as much as their lengths.
const MORE: f64 = 2.0;

/// Timers of one length that end between those of a grid become sleeps. Says whether there were some.
pub(super) fn within_periods(steps: &mut [Step], uncertain_ns: u64) -> bool {
    let timers: Vec<(usize, u64, u64)> = timers(steps).filter(|t| t.2 > 0 && t.2 <= t.1).collect();
    // Of a timer every other expiry makes a grid as well.
    let keep_time = || keep_time(steps, uncertain_ns, |_| false).1.iter().filter(|on| **on).count();
    if timers.len() < 2 * MIN_NAPS || 2 * keep_time() > timers.len() {
        return false;
    }
    let lengths = timers.iter().map(|t| t.1 - t.2).collect();
    for (least, ns, most) in frequent(lengths, LENGTHS, MIN_NAPS.max(timers.len() / RARE)) {
        if let Some(naps) = naps(steps, &timers, (least, ns, most), uncertain_ns) {
            for i in naps {
                if let Step::Timer { since, .. } = steps[i] {
                    steps[i] = Step::Sleep { ns, since };
                }
            }
            return true;
        }
    }
    false
}

/// Which of the timers are sleeps of about `ns`, if they are.
fn naps(
    steps: &[Step],
    timers: &[(usize, u64, u64)],
    (least, ns, most): (u64, u64, u64),
    uncertain_ns: u64,
) -> Option<Vec<usize>> {
    let is_alike =
        |i: usize| matches!(steps[i], Step::Timer { until, since } if (least..=most).contains(&(until - since)));
    let (period, on_grid) = keep_time(steps, uncertain_ns, is_alike);
    let beats = on_grid.iter().filter(|on| **on).count();
    let others = timers.iter().filter(|t| !is_alike(t.0)).count();
    if beats < MIN_NAPS || beats * IN_TIME < others {
        return None;
    }
    let grid: Vec<u64> = timers.iter().filter(|t| on_grid[t.0]).map(|t| t.1).collect();
    let (mut naps, mut lengths, mut ends, mut within) = (Vec::new(), Vec::new(), Vec::new(), 0);
    let mut last = None;
    for &(i, until, since) in timers.iter().filter(|t| t.1 > grid[0]) {
        let next = grid.partition_point(|beat| *beat < until);
        let beat = grid[next.saturating_sub(1)];
        let rest = until.saturating_sub(beat) % period;
        // Else it is one more of the grid.
        let is_between = rest.min(period - rest) > slop(period);
        if !on_grid[i] && is_between && (is_alike(i) || (until - since).abs_diff(ns) <= uncertain_ns.min(ns / 2)) {
            naps.push(i);
            if let Some(last) = last.filter(|_| is_alike(i)) {
                lengths.push((until - since) as f64);
                ends.push((until - last) as f64);
                within +=
                    usize::from(grid.get(next).is_some_and(|next| next.saturating_sub(beat) < period + period / 2));
            }
        }
        last = Some(until);
    }
    // Those that would be a beat themselves leave a gap in the grid.
    let are_within = 2 * within > lengths.len() && lengths.len() >= MIN_NAPS.max(timers.len() / RARE);
    (are_within && MORE * width(lengths) <= width(ends)).then_some(naps)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Jobs that work, sleep within, work again and sleep for the next.
    fn jobs(n: u64, work: fn(u64) -> u64, nap: fn(u64, u64) -> u64, next: fn(u64, u64) -> u64) -> Vec<Step> {
        let (mut at, mut steps) = (MS, Vec::new());
        for i in 0..n {
            for (part, sleep) in [(2, nap), (1, next)] {
                let since = at + part * work(i + part);
                at = sleep(i, since);
                steps.extend([Step::Work(part * work(i + part)), Step::Timer { until: at, since }]);
            }
        }
        steps
    }
    fn works(i: u64) -> u64 {
        800_000 + i * i * 7_919 % 300_000
    }
    fn blur(i: u64) -> u64 {
        i * 7_919 % 50_000
    }
    fn found(mut steps: Vec<Step>) -> Vec<bool> {
        within_periods(&mut steps, 250_000);
        let waits = steps.iter().filter(|s| s.waits());
        waits.map(|s| matches!(s, Step::Sleep { .. })).collect()
    }

    #[test]
    fn a_sleep_within_a_job() {
        let grid = |i: u64, _| (i + 1) * 16 * MS + blur(i * i);
        let every_other: Vec<bool> = (0..240).map(|i| i > 1 && i % 2 == 0).collect();
        assert_eq!(found(jobs(120, works, |_, since| since + MS, grid)), every_other);
        assert_eq!(
            found(jobs(120, works, |i, since| since + MS + blur(i), grid)),
            every_other,
            "not to the microsecond"
        );
        let exit = |i: u64, since: u64| since + MS + if i == 12 { 200_000 } else { 0 };
        let mut steps = jobs(120, works, exit, grid);
        within_periods(&mut steps, 250_000);
        assert!(matches!(steps[2 * 24 + 1], Step::Sleep { ns: MS, .. }), "a CPU that took long to wake up");
    }

    #[test]
    fn what_is_none() {
        let none = |steps: Vec<Step>, why: &str| assert!(!found(steps).contains(&true), "{why}");
        let grid = |i: u64, _| (i + 1) * 16 * MS;
        none(jobs(120, works, |i, _| i * 16 * MS + 6 * MS, grid), "two timers");
        none(jobs(120, works, |_, since| since + MS, |_, since| since + 9 * MS), "two sleeps and no timer");
        none(jobs(120, works, |i, since| since + MS + i * 5_557 % (3 * MS), grid), "sleeps of any length");
        // Two lengths by turns, of which slack blurs the ends more.
        let beat = |i: u64| i * 8 * MS + if i % 8 < 2 { 50_000 } else { 0 };
        let steps = (1..240).flat_map(|i| {
            let since = if i % 2 == 0 { beat(i) - 4 * MS } else { beat(i) - 3 * MS - blur(i * i) };
            [Step::Work(MS), Step::Timer { until: beat(i), since }]
        });
        none(steps.collect(), "one timer, long work and short work by turns");
        let single = |i: u64| (i + 1) * 16 * MS + if i.is_multiple_of(3) { 400_000 + blur(i) } else { 0 };
        let steps = (0..240).flat_map(|i| {
            let since = single(i) - if i % 3 == 0 { 10 * MS } else { 12 * MS - blur(i * i) };
            [Step::Work(MS), Step::Timer { until: single(i), since }]
        });
        none(steps.collect(), "one timer, now and then late and for long work");
        none(jobs(9, works, |_, since| since + MS, grid), "too few");
    }
}
