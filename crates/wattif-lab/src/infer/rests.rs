//! Jobs of a timer, a rest, and jobs again.
//!
//! A program in phases, as rt-app's are, has some jobs by a timer, computes for a while, sleeps for a time, and begins again. By then its timer
//! has long passed, and starts again when the first job is done; that one shows as two. As they were recorded, the rests would end at
//! those times under any kernel, whenever they begin, and what is late once would skip jobs for ever. A rest is
//!
//! - of one length, longer than it is from other timers of the thread to the next: no timer is late by as much;
//! - of lengths that are more alike than the distances to the expiries before them.
//!
//! Where jobs of equal work at equal distances come between, each rest becomes a sleep, and the jobs whose timers had passed are told apart: two or
//! more before the first wait after a rest, and those before the work that ends a phase where that is longer than it is at its shortest. Other
//! programs count their timer from the end of the rest (`relative_sleeps.rs`).

use super::grids::{keep_time, width};
use super::periods::{Beat, MIN_SLEEPS, frequent, is_about, most_frequent, pass, slop, split};
use super::steps::{Step, median, timers, work};
use std::collections::BTreeSet;

/// Less than one sleep in so many is no rest.
const RARE: usize = 20;
/// Lengths that are tried; their ends are blurred so many times as much.
const LENGTHS: usize = 3;
const MORE: f64 = 4.0;
/// So many of 100 distances within phases are of one length; and jobs at those of equal work.
const MIN_SHARE: usize = 30;
const EQUAL_OF_100: usize = 70;
/// Work tells the number of jobs to one part in so many of one.
const OFF_OF: u64 = 4;
/// More jobs at once are not believed.
const MAX_JOBS: u64 = 16;

/// Which steps are rests, of timers that nothing else is `known` of.
pub(super) fn rests(steps: &[Step], known: impl Fn(usize) -> bool) -> Vec<usize> {
    let timers: Vec<(usize, u64, u64)> = timers(steps).filter(|t| t.2 > 0 && t.2 <= t.1).collect();
    let lengths = timers.iter().filter(|t| !known(t.0)).map(|t| t.1 - t.2).collect();
    for (least, ns, most) in frequent(lengths, LENGTHS, MIN_SLEEPS.max(timers.len() / RARE)) {
        let is_rest = |t: &(usize, u64, u64)| !known(t.0) && (least..=most).contains(&(t.1 - t.2));
        let pairs = timers.windows(2).map(|w| (is_rest(&w[1]), w[1].1.saturating_sub(w[0].1), w[1].1 - w[1].2));
        let (rests, others): (Vec<_>, Vec<_>) = pairs.partition(|pair| pair.0);
        let Some(usual) = median(&mut others.iter().map(|pair| pair.1).collect::<Vec<u64>>()) else { break };
        let (distances, asleep) = rests.iter().map(|pair| (pair.1 as f64, pair.2 as f64)).unzip();
        if ns / 3 > usual / 2 && rests.len() >= MIN_SLEEPS && MORE * width(asleep) <= width(distances) {
            return timers.iter().filter(|t| is_rest(t)).map(|t| t.0).collect();
        }
    }
    Vec::new()
}

/// From a timer to the next, with no other wait between: the steps, and how long it was awake.
struct Stretch {
    from: usize,
    end: usize,
    /// It comes after a rest, or before one.
    after: bool,
    before: bool,
    /// From an expiry to the next, and from one until it sleeps.
    ns: u64,
    awake_ns: u64,
}

/// Puts sleeps in for rests, and the timers that had passed since. The timer's beat, if there are some.
pub(super) fn rest(steps: &mut Vec<Step>, uncertain_ns: u64) -> Option<Beat> {
    let (_, on_grid) = keep_time(steps, uncertain_ns, |_| false);
    let mut rests: BTreeSet<usize> = rests(steps, |i| on_grid[i]).into_iter().collect();
    let units = |s: &Stretch| work(&steps[s.from..s.end]);
    let all = stretches(steps, &rests);
    let within = || all.iter().filter(|s| !s.after && !s.before);
    let period = most_frequent(within().map(|s| s.ns).collect(), MIN_SHARE)?;
    let mut jobs: Vec<u64> = within().filter(|s| s.ns.abs_diff(period) <= slop(period)).map(units).collect();
    let job = median(&mut jobs).filter(|job| *job > 0)?;
    let equal = jobs.iter().filter(|units| is_about(**units, job)).count();
    if jobs.len() < MIN_SLEEPS || equal * 100 < jobs.len() * EQUAL_OF_100 {
        return None;
    }
    // How many jobs so much work is; each but the first lasts for a period, or its timer would not have passed.
    let several = |units: u64, awake_ns: u64| {
        let n = units.saturating_add(job / 2) / job;
        let passed =
            n <= MAX_JOBS && n.saturating_sub(1).saturating_mul(period) <= awake_ns.saturating_add(slop(period));
        (passed && units.abs_diff(n * job) <= job / OFF_OF).then_some(n)
    };
    // The timer of the first job after a rest has passed.
    let first = |s: &Stretch| several(units(s), s.awake_ns.saturating_add(period));
    let began = || all.iter().filter(|s| s.after && !s.before);
    let again = began().filter(|s| first(s) >= Some(2)).count();
    if 2 * again <= began().count() || again < MIN_SLEEPS {
        return None;
    }
    // The work that ends a phase, where all timers of it were waited for.
    let mut ends: Vec<u64> = all.iter().filter(|s| s.before).map(units).collect();
    ends.sort_unstable();
    let least = *ends.get(ends.len() / RARE)?;
    ends.retain(|units| units.abs_diff(least) <= job / OFF_OF);
    let end = median(&mut ends)?;
    // Jobs before it whose timers had passed.
    let late = |s: &Stretch| {
        let ends = units(s).saturating_add(job / OFF_OF) >= end;
        several(units(s).saturating_sub(end), s.awake_ns.saturating_add(period)).filter(|_| ends)
    };
    // Some rests seem to be longer, since their CPUs took long to wake up.
    if end / 2 > job {
        rests.extend(within().filter(|s| late(s).is_some() && s.ns / 2 > period).map(|s| s.end));
    }
    let all = stretches(steps, &rests);
    let mut out = Vec::with_capacity(steps.len() + all.len());
    let copied = |i: usize| match steps[i] {
        Step::Timer { until, since } if rests.contains(&i) => Step::Sleep { ns: until.saturating_sub(since), since },
        ref step => step.clone(),
    };
    let mut done = 0;
    for s in &all {
        out.extend((done..s.from).map(copied));
        done = s.end;
        let stretch = &steps[s.from..s.end];
        if s.before {
            pass(stretch, late(s).unwrap_or(0), job, period, &mut out);
        } else {
            let jobs = if s.after { first(s) } else { several(units(s), s.awake_ns) };
            split(stretch, jobs.unwrap_or(1), period, &mut out);
        }
    }
    out.extend((done..steps.len()).map(copied));
    *steps = out;
    Some(Beat { period, work: 0, caught_up: 0, started_again: again as u32 })
}

fn stretches(steps: &[Step], rests: &BTreeSet<usize>) -> Vec<Stretch> {
    let (mut all, mut last) = (Vec::new(), None);
    for (i, step) in steps.iter().enumerate() {
        if let Step::Timer { until, since } = *step {
            if let Some((begin, expiry)) = last {
                let (after, before) = (rests.contains(&begin), rests.contains(&i));
                let [ns, awake_ns] = [until, since].map(|at| at.saturating_sub(expiry));
                all.push(Stretch { from: begin + 1, end: i, after, before, ns, awake_ns });
            }
            last = Some((i, until));
        } else if step.waits() || matches!(step, Step::Passed { .. }) {
            last = None;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000;

    /// Rounds of three jobs of 500 µs by a timer of 1500 µs, 6 ms of work and a rest of 9 ms. How long the third job is kept from its CPU, and the
    /// rest is too long, by round.
    fn phases(rounds: u64, kept_us: fn(u64) -> u64, exit_us: fn(u64) -> u64) -> Vec<Step> {
        let (mut at, mut expiry, mut steps) = (1_000 * US, 0, Vec::new());
        for i in 0..rounds {
            for job in 0..3 {
                steps.push(Step::Work(500 * US));
                at += 500 * US + if job == 2 { kept_us(i) * US } else { 0 };
                expiry += 1_500 * US;
                if expiry > at {
                    steps.push(Step::Timer { until: expiry, since: at });
                }
                (at, expiry) = (at.max(expiry), at.max(expiry));
            }
            steps.push(Step::Work(6_000 * US));
            let since = at + (6_000 + i * i * 7_919 % 900) * US;
            at = since + (9_000 + exit_us(i)) * US;
            steps.push(Step::Timer { until: at, since });
        }
        // Pieces of work are one in a trace.
        let mut merged: Vec<Step> = Vec::new();
        for step in steps {
            match (merged.last_mut(), &step) {
                (Some(Step::Work(units)), Step::Work(more)) => *units += more,
                _ => merged.push(step),
            }
        }
        merged
    }

    fn count(steps: &[Step], is: impl Fn(&Step) -> bool) -> usize {
        steps.iter().filter(|s| is(s)).count()
    }
    #[test]
    fn jobs_and_rests() {
        for (kept, exit) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
            let kept: fn(u64) -> u64 = if kept == 0 { |_| 0 } else { |i| if i % 4 == 3 { 1_200 } else { 0 } };
            let exit: fn(u64) -> u64 = if exit == 0 { |i| i * 7 % 11 } else { |i| if i % 7 == 3 { 700 } else { 0 } };
            let mut steps = phases(60, kept, exit);
            let before = work(&steps);
            let beat = rest(&mut steps, 200 * US).expect("rests");
            assert_eq!(beat.period, 1_500 * US);
            assert!(beat.started_again > 50 && beat.caught_up == 0, "{beat:?}");
            assert_eq!(work(&steps), before, "work is kept");
            assert_eq!(count(&steps, |s| matches!(s, Step::Sleep { .. })), 60);
            // Three timers a round, whether they had passed or not; what was before the first of all is not known.
            let timers = count(&steps, |s| matches!(s, Step::Timer { .. } | Step::Passed { .. }));
            assert_eq!(timers, 3 * 60 - 1, "kept {}, exits {}", kept(3), exit(3));
            let ends = count(&steps, |s| *s == Step::Work(6_000 * US));
            assert_eq!(ends, 60);
        }
    }

    #[test]
    fn what_is_none() {
        let none = |mut steps: Vec<Step>, why: &str| {
            let before = steps.clone();
            assert_eq!(rest(&mut steps, 200 * US), None, "{why}");
            assert!(steps == before, "{why}");
        };
        none(phases(6, |_| 0, |_| 0), "too few");
        none(phases(60, |_| 0, |i| i * i * 5_557 % 4_000), "rests of any length");
        // Before each rest it waits for another.
        let mut asked = phases(60, |_| 0, |_| 0);
        for i in (0..asked.len()).rev().filter(|i| asked[*i] == Step::Work(6_000 * US)).collect::<Vec<_>>() {
            asked.insert(i, Step::Token { by: wattif_model::Pid(9), since: 1, at: 2 });
        }
        none(asked, "who knows what it waits for");
        // A timer that counts from the end of the rest: no job shows as two.
        let mut at = 0;
        let from_then = (0..60u64).flat_map(|i| {
            let jobs = [1, 2, 3]
                .map(|job| Step::Timer { until: at + job * 1_500 * US, since: at + (job * 1_500 - 1_000) * US });
            let since = at + (10_500 + i * i * 7_919 % 900) * US;
            at = since + 9_000 * US;
            let [a, b, c] = jobs;
            let job = || Step::Work(500 * US);
            [job(), a, job(), b, job(), c, Step::Work(6_000 * US), Step::Timer { until: at, since }]
        });
        none(from_then.collect(), "a timer that counts from the end of the rest");
        // Who is late and starts again from then sleeps as long as ever.
        let late = super::super::relative_sleeps::tests::asleep((0..60).map(|i| (4_500 * (1 + i % 3), 4_500)));
        none(late, "a late thread");
    }
}
