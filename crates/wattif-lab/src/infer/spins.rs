//! Threads that are busy until a time has passed.
//!
//! A loop that looks at the clock takes as much of a CPU as it gets: where it is preempted or its CPU is slow, it works less, and ends when
//! it would have ended. So its pieces of work are of one wall time, whatever CPU time is in them. Where nothing disturbs it, work and loop
//! look alike, and it is taken for work.

use super::steps::{Step, median};

/// A step of work: from its beginning to its end, and on CPUs, ns.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    pub step: usize,
    pub wall: u64,
    pub on_cpu: u64,
}

/// Shorter pieces are not judged, ns.
const MIN_NS: u64 = 200_000;
/// So many pieces at least; so many of 100 end in time, and so many of 100 not before; so many of 100 of those in time have unlike CPU
/// time.
const MIN_PIECES: usize = 8;
const IN_TIME: usize = 30;
const NOT_BEFORE: usize = 90;
const UNLIKE: usize = 10;
/// In time: within one part in so many, and a look at the clock and an interrupt or two: a hundredth, but so long, ns; unlike: one part in
/// so many.
const IN_TIME_PART: u64 = 500;
const LOOK_PART: u64 = 100;
const LOOK_NS: std::ops::RangeInclusive<u64> = 10_000..=30_000;
const UNLIKE_PART: u64 = 30;
/// One piece of so many is among the shorter ones.
const SHORTER: usize = 10;

/// Makes loops of pieces of work, if they are.
pub fn spin(steps: &mut [Step], pieces: &[Piece]) {
    let long: Vec<Piece> = pieces.iter().copied().filter(|p| p.wall >= MIN_NS).collect();
    let Some(wall) = usual(long.iter().map(|p| p.wall).collect()) else { return };
    let slop = slop(wall);
    // Whoever does not run when the time has passed is late, but does not compute then; what a wait for something else cuts off is
    // shorter, and other work.
    let by_clock = |p: &&Piece| p.wall + slop >= wall && p.on_cpu <= wall + slop.max(wall / UNLIKE_PART);
    let pieces: Vec<Piece> = long.iter().filter(by_clock).copied().collect();
    let units = |at: usize| if let Step::Work(units) = steps[at] { units } else { 0 };
    let mut in_time: Vec<u64> = pieces.iter().filter(|p| p.wall <= wall + slop).map(|p| units(p.step)).collect();
    let Some(work) = median(&mut in_time) else { return };
    let unlike = in_time.iter().filter(|u| u.abs_diff(work) > work / UNLIKE_PART).count();
    if pieces.len() * 100 >= long.len() * NOT_BEFORE && unlike * 100 >= in_time.len() * UNLIKE {
        pieces.iter().for_each(|p| steps[p.step] = Step::Spin(p.wall.min(wall)));
        // The end of the trace cuts the last one off.
        if let Some(last @ Step::Work(_)) = steps.last_mut() {
            *last = Step::Spin(wall);
        }
    }
}

/// How far from its wall time a piece is in time.
fn slop(wall: u64) -> u64 {
    wall / IN_TIME_PART + (wall / LOOK_PART).clamp(*LOOK_NS.start(), *LOOK_NS.end())
}

/// The wall time that most pieces have, if many do: that of the shorter ones, since interrupts and looks come on top of what was asked for.
fn usual(mut walls: Vec<u64>) -> Option<u64> {
    walls.sort_unstable();
    let (mut best, mut end) = (0..0, 0);
    for begin in 0..walls.len() {
        while end < walls.len() && walls[end] - walls[begin] <= slop(walls[begin]) {
            end += 1;
        }
        if end - begin > best.len() {
            best = begin..end;
        }
    }
    let many = best.len() * 100 >= walls.len() * IN_TIME && walls.len() >= MIN_PIECES;
    many.then(|| walls[best.start + best.len() / SHORTER])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces of so much wall time and work.
    fn check(pieces: &[(u64, u64)], spins: usize) {
        let mut steps: Vec<Step> = pieces.iter().map(|p| Step::Work(p.1)).collect();
        let piece = |(step, &(wall, on_cpu)): (usize, &(u64, u64))| Piece { step, wall, on_cpu };
        spin(&mut steps, &pieces.iter().enumerate().map(piece).collect::<Vec<_>>());
        assert_eq!(steps.iter().filter(|s| matches!(s, Step::Spin(_))).count(), spins, "{pieces:?}");
    }

    #[test]
    fn by_the_clock_or_not() {
        const MS: u64 = 1_000_000;
        let disturbed = |i: u64| if i.is_multiple_of(3) { 20 * MS } else { 30 * MS };
        let by_clock: Vec<(u64, u64)> = (0..20).map(|i| (30 * MS + i * 300, disturbed(i))).collect();
        check(&by_clock, 20);
        check(&[vec![(9 * MS, 9 * MS)], by_clock.clone()].concat(), 20);
        check(&[by_clock.clone(), vec![(9 * MS, 9 * MS)]].concat(), 21);
        let late = by_clock.iter().enumerate().map(|(i, p)| (p.0 + if i % 5 > 2 { MS * i as u64 } else { 0 }, p.1));
        check(&late.collect::<Vec<_>>(), 20);
        check(&[by_clock.clone(), vec![(50 * MS, 45 * MS), (9 * MS, 9 * MS)]].concat(), 21);
        let computes = by_clock.iter().enumerate().map(|(i, p)| if i % 5 > 2 { (50 * MS, 45 * MS) } else { *p });
        check(&computes.collect::<Vec<_>>(), 0);
        let interrupted =
            by_clock.iter().enumerate().map(|(i, p)| (4_008_000 + if i % 5 > 1 { 20_000 } else { 0 }, p.1 / 8));
        check(&interrupted.collect::<Vec<_>>(), 20);
        check(&by_clock[..7], 0);
        check(&(0..20).map(|i| (30 * MS + i * 300, 30 * MS)).collect::<Vec<_>>(), 0);
        check(&(0..20).map(|i| (60 * MS - disturbed(i), 30 * MS)).collect::<Vec<_>>(), 0);
    }
}
