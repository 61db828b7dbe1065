//! Timers that keep time.
//!
//! The expiries of a periodic timer are on a grid: whatever makes one of them seem late, the next is none the later for it. A thread that
//! sleeps for a time goes on from where it is: what its sleeps are too long or too short adds up, so its phase walks, and after many rounds
//! it is farther off than any single sleep. So expiries that stay together over many periods are a timer's, however far the slack of timers and
//! CPUs that are slow to wake up blur the distances from one to the next.

use super::periods::{most_frequent, slop};
use super::steps::Step;

/// Part of all distances that must be of one length, 1/100.
const MIN_SHARE: usize = 30;
/// Fewer expiries in a row do not tell a walk from a blur.
const MIN_BEATS: usize = 24;
/// So many others may come in between, or be left out.
const BETWEEN: usize = 4;
/// Whatever a timer seems late by, it is less than one part in so many of its period: sleeps that differ by more are of two lengths.
const BLUR_OF: u64 = 25;
/// A walk of n rounds, as far as it is not a change of the period, has a variance of n / 15 times that of one round. So the first and the
/// last tenth of its phases are as far apart as those of its sleeps, times the root of that. Less than half of it is no walk.
const NO_WALK: f64 = 60.0;

/// A timer: its step, when it expired and how long the thread slept for it.
type Beat = (usize, u64, u64);

/// The period that most timers have, 0 if none; and which steps keep it to `uncertain_ns`. Those that are `apart` are left out of it, and end no row.
pub(super) fn keep_time(steps: &[Step], uncertain_ns: u64, apart: impl Fn(usize) -> bool) -> (u64, Vec<bool>) {
    let mut on_grid = vec![false; steps.len()];
    let rows = rows(steps, apart);
    let distances = rows.iter().flat_map(|row| row.windows(2).map(|w| w[1].1.saturating_sub(w[0].1))).collect();
    let Some(period) = most_frequent(distances, MIN_SHARE) else { return (0, on_grid) };
    let uncertain_ns = uncertain_ns.min(period / BLUR_OF).max(slop(period));
    for row in &rows {
        for run in runs(row, period, uncertain_ns).iter().filter(|run| run.len() >= MIN_BEATS) {
            if let Some(phases) = phases(run, period, uncertain_ns as f64) {
                let near = phases.iter().zip(run).filter(|(phase, _)| phase.abs() <= uncertain_ns as f64);
                near.for_each(|(_, beat)| on_grid[beat.0] = true);
            }
        }
    }
    (period, on_grid)
}

/// Those that are whole periods apart, but for so much, also with a few others in between.
fn runs(row: &[Beat], period: u64, uncertain_ns: u64) -> Vec<Vec<Beat>> {
    let together = |a: &Beat, b: &Beat| {
        let rest = b.1.saturating_sub(a.1) % period;
        b.1 > a.1 && b.1 - a.1 < (BETWEEN as u64 + 1) * period && rest.min(period - rest) <= uncertain_ns
    };
    let (mut runs, mut taken) = (Vec::new(), vec![false; row.len()]);
    for first in 0..row.len() {
        if taken[first] {
            continue;
        }
        let (mut run, mut between) = (vec![row[first]], 0);
        for i in first + 1..row.len() {
            if taken[i] {
                continue;
            }
            if together(run.last().expect("never empty"), &row[i]) {
                (taken[i], between) = (true, 0);
                run.push(row[i]);
            } else {
                between += 1;
            }
            if between > BETWEEN {
                break;
            }
        }
        runs.push(run);
    }
    runs
}

/// Timers one after another, between which nothing else ends a wait. Who waits for a lock is as late for the next timer as one who works.
fn rows(steps: &[Step], apart: impl Fn(usize) -> bool) -> Vec<Vec<Beat>> {
    let mut rows = vec![Vec::new()];
    for (i, step) in steps.iter().enumerate().filter(|(i, _)| !apart(*i)) {
        match *step {
            Step::Timer { until, since } if since > 0 => {
                rows.last_mut().expect("never empty").push((i, until, until.saturating_sub(since)));
            }
            Step::Lock(_) => {}
            _ if step.waits() => rows.push(Vec::new()),
            _ => {}
        }
    }
    rows
}

/// How much later than most each expiry is, if all are on one grid, about whole periods apart.
fn phases(run: &[Beat], period: u64, uncertain: f64) -> Option<Vec<f64>> {
    // Which beat each is, and the straight line through all of them: over many of them the period shows more exactly.
    let nth = run.windows(2).scan(0.0, |nth, w| {
        *nth += ((w[1].1 - w[0].1 + period / 2) / period) as f64;
        Some(*nth)
    });
    let nth: Vec<f64> = std::iter::once(0.0).chain(nth).collect();
    let at: Vec<f64> = run.iter().map(|beat| (beat.1 - run[0].1) as f64).collect();
    let n = run.len() as f64;
    let mean = |v: &[f64]| v.iter().sum::<f64>() / n;
    let (x, y) = (mean(&nth), mean(&at));
    let square: f64 = nth.iter().map(|i| (i - x).powi(2)).sum();
    let exact = nth.iter().zip(&at).map(|(i, at)| (i - x) * (at - y)).sum::<f64>() / square.max(1.0);
    let mut phases: Vec<f64> = nth.iter().zip(&at).map(|(i, at)| at - y - (i - x) * exact).collect();
    let usual = quantile(&sorted(phases.clone()), 50);
    phases.iter_mut().for_each(|phase| *phase -= usual);
    let (far, sleeps) = (width(phases.clone()), width(run.iter().map(|beat| beat.2 as f64).collect()));
    (far <= uncertain && NO_WALK * far * far <= n * sleeps * sleeps).then_some(phases)
}

/// From the first tenth of some values to the last.
pub(super) fn width(values: Vec<f64>) -> f64 {
    let values = sorted(values);
    quantile(&values, 90) - quantile(&values, 10)
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// So many of 100 values are no greater; 0 of none.
fn quantile(sorted: &[f64], of_100: usize) -> f64 {
    sorted.get(sorted.len().saturating_sub(1) * of_100 / 100).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: u64 = 6_000_000;

    /// How many of so many jobs keep time, which work for `work` and sleep until the next beat, or for a time, as `next` tells.
    fn keep(n: u64, work: &dyn Fn(u64) -> u64, next: &dyn Fn(u64, u64) -> u64) -> usize {
        let (mut at, mut steps) = (PERIOD, Vec::new());
        for i in 0..n {
            let since = at + work(i);
            at = next(i, since);
            steps.extend([Step::Work(since), Step::Timer { until: at, since }]);
        }
        keep_time(&steps, 250_000, |_| false).1.iter().filter(|on| **on).count()
    }
    fn noise(i: u64) -> u64 {
        i * i * 7_919 % 50_000
    }

    #[test]
    fn what_is_late_once_is_not_late_ever_after() {
        let grid = |blur: fn(u64) -> u64| move |i: u64, _| (i + 2) * PERIOD + blur(i);
        let work = |_| 1_500_000;
        assert_eq!(keep(200, &work, &grid(|i| i % 2 * 50_000)), 200, "slack by turns");
        assert_eq!(keep(200, &work, &grid(|i| if i % 7 == 3 { 170_000 } else { 0 })), 200, "idle states");
        assert_eq!(keep(200, &|i| 1_500_000 + noise(i), &grid(noise)), 200);
        assert_eq!(keep(200, &|i| 1_500_000 + noise(i), &|_, since| since + 4_475_000), 0, "a sleep");
        assert_eq!(
            keep(200, &|i| 1_500_000 + noise(i), &|i, since| since + 4_450_000 + noise(i + 99)),
            0,
            "a blurred one"
        );
        assert_eq!(keep(20, &work, &grid(noise)), 0, "too few");
    }

    /// Work that takes now this long, now that long, leads back to the grid; sleeps of one length tell.
    #[test]
    fn work_by_turns() {
        assert_eq!(keep(200, &|i| 1_450_000 + i % 2 * 100_000, &|_, since| since + 4_500_000), 0);
    }

    #[test]
    fn whoever_is_woken_by_another_keeps_that_ones_time() {
        let steps: Vec<Step> = (1..100u64)
            .flat_map(|i| {
                let (at, since) = (i * PERIOD, i * PERIOD + 1_000_000 + noise(i));
                let token = Step::Token { by: wattif_model::Pid(1), since: at - 9, at };
                [token, Step::Work(1), Step::Timer { until: since + 500_000 + noise(i + 7) / 5, since }]
            })
            .collect();
        assert!(!keep_time(&steps, 250_000, |_| false).1.contains(&true));
    }
}
