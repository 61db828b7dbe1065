//! Threads that wait for the next beat of a display.
//!
//! A compositor has a frame handed to it, and waits for the next vsync: one that it missed is gone, and whenever it asks it waits for less than
//! a period. Who counts its timer on would find the missed one passed and go on at once, and who starts again from then would leave the beat.
//! A thread waits so if nearly all of its timers expire on one beat, those too before which another thread kept it waiting past at least one of
//! them, and it never sleeps through one.

use super::periods::slop;
use super::steps::{STRAY_OF, Step, median};

/// Fewer beats that were missed tell nothing.
const MIN_MISSED: usize = 4;
/// One in so many distances between expiries is shorter than one period at most.
const SHORT_OF: usize = 10;

/// The period of the beat, ns.
pub(super) fn period(steps: &[Step]) -> Option<u64> {
    // From an expiry to the next: how long, after how much of it the thread waited for that one, and whether it waited for another in between.
    let (mut all, mut last, mut asked) = (Vec::new(), None, false);
    for step in steps {
        match *step {
            Step::Timer { until, since } => {
                if let Some(last) = last.filter(|last| *last < until) {
                    all.push((until - last, since.saturating_sub(last), asked));
                }
                (last, asked) = (Some(until), false);
            }
            Step::Passed { .. } => return None,
            Step::Token { .. } | Step::Get(_) => asked = true,
            _ => {}
        }
    }
    // Most may be two beats or more apart.
    let mut distances: Vec<u64> = all.iter().map(|a| a.0).collect();
    distances.sort_unstable();
    let least = *distances.get(distances.len() / SHORT_OF)?;
    distances.retain(|ns| ns.abs_diff(least) <= slop(least));
    let period = median(&mut distances).filter(|ns| *ns > 0)?;
    let near = slop(period);
    let beats = |ns: u64| ns.saturating_add(period / 2) / period;
    let on_beat = |a: &&(u64, u64, bool)| a.0.abs_diff(beats(a.0).saturating_mul(period)) <= near;
    let missed = |a: &(u64, u64, bool)| {
        beats(a.0) > 1 && a.2 && a.1.saturating_add(period).saturating_add(near) / period >= beats(a.0)
    };
    let through =
        |a: &(u64, u64, bool)| beats(a.0) > 1 && a.1.saturating_add(period).saturating_add(near) / period < beats(a.0);
    let n = all.iter().filter(on_beat).filter(|a| missed(a)).count();
    let strays = all.iter().filter(|a| through(a)).count() + all.len() - all.iter().filter(on_beat).count();
    (n >= MIN_MISSED && strays * STRAY_OF <= all.len()).then_some(period)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattif_model::Pid;

    const MS: u64 = 1_000_000;

    /// Frames of unlike work handed to a thread that then waits until `expiry`, of when it asks and the last expiry.
    fn frames(expiry: fn(u64, u64) -> u64) -> Vec<Step> {
        let mut last = 16 * MS;
        let frame = |i: u64| {
            let since = last + (3 + i * 7_919 % 29) * MS;
            last = expiry(since, last);
            [
                Step::Token { by: Pid(9), since: since - MS, at: since },
                Step::Timer { until: last, since },
                Step::Work(MS),
            ]
        };
        (0..60).flat_map(frame).collect()
    }

    #[test]
    fn the_next_beat() {
        let next = |since: u64, _| (since / (16 * MS) + 1) * 16 * MS;
        assert_eq!(period(&frames(next)), Some(16 * MS));
        assert_eq!(period(&frames(|since, last| since.max(last + 16 * MS))), None, "a timer that may have passed");
        assert_eq!(period(&frames(|since, _| since + 5 * MS)), None, "a sleep");
        let through = |since: u64, _| (since / (16 * MS) + 2) * 16 * MS;
        assert_eq!(period(&frames(through)), None, "it sleeps through one");
        let alone = frames(next).into_iter().filter(|s| !matches!(s, Step::Token { .. }));
        assert_eq!(period(&alone.collect::<Vec<_>>()), None, "nobody kept it waiting");
    }
}
