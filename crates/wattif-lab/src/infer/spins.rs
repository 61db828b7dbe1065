//! Threads that are busy until a time has passed.
//!
//! A loop that looks at the clock takes as much of a CPU as it gets: where it is preempted or its CPU is slow, it works less, and ends when
//! it would have ended. So its pieces of work are of one wall time, whatever CPU time is in them. A few that were disturbed tell enough: work
//! would have ended later, for as much CPU time as ever. Where nothing disturbs it, work and loop look alike, and it is taken for work.

use super::kin::Kinds;
use super::steps::{Step, median};
use super::thread::Thread;
use std::collections::BTreeMap;
use wattif_model::Pid;

/// A step of work: from its beginning to its end, and on CPUs, ns; the speed of the CPU on which it began, units per ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub step: usize,
    pub wall: u64,
    pub on_cpu: u64,
    pub speed: u64,
    /// From its beginning until it got a CPU for the last time, ns.
    pub back: u64,
}

/// Shorter pieces are not judged, ns.
const MIN_NS: u64 = 200_000;
/// So many pieces at least; so many of 100 end in time, and so many of 100 not before; so many of 100 of those in time have unlike CPU
/// time, or of those that were disturbed, in time with less.
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
/// From one look at the clock to the next at full speed at most, ns.
const ROUND_NS: u64 = 32_000;
const FULL_SPEED: u64 = 1 << 10;
/// So many threads speak for others of their kind.
const KIN: usize = 2;
/// One piece of so many is among the shorter ones.
const SHORTER: usize = 10;

/// Makes loops of pieces of work, where they are. Threads of one kind run one program: where some of them look at the clock, so do those
/// that hardly ever had a CPU when their time was over.
pub(super) fn spin(threads: &mut BTreeMap<Pid, Thread>, kinds: &Kinds) {
    let mut walls: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    let mut others: Vec<Pid> = Vec::new();
    for (pid, t) in threads.iter_mut() {
        match by_the_clock(&mut t.steps, &t.pieces) {
            Some(wall) => walls.entry(&kinds[pid]).or_default().push(wall),
            None => others.push(*pid),
        }
    }
    for pid in others {
        let wall = walls.get_mut(kinds[&pid].as_str()).filter(|walls| walls.len() >= KIN).and_then(|w| median(w));
        if let (Some(wall), Some(t)) = (wall, threads.get_mut(&pid)) {
            loops(&mut t.steps, &t.pieces, wall);
        }
    }
}

/// Of one thread, by its own pieces: how long they last.
fn by_the_clock(steps: &mut [Step], pieces: &[Piece]) -> Option<u64> {
    let wall = usual(pieces.iter().map(|p| p.wall).filter(|wall| *wall >= MIN_NS).collect())?;
    let in_time = |p: &&Piece| (MIN_NS.max(wall.saturating_sub(slop(wall)))..=wall + slop(wall)).contains(&p.wall);
    let units = |p: &Piece| steps[p.step].units();
    let mut in_time: Vec<u64> = pieces.iter().filter(in_time).map(units).collect();
    let work = median(&mut in_time)?;
    let unlike = in_time.iter().filter(|u| u.abs_diff(work) > work / UNLIKE_PART).count();
    let unlike = unlike * 100 >= in_time.len() * UNLIKE || cut_short(steps, pieces, wall);
    (unlike && loops(steps, pieces, wall)).then_some(wall)
}

/// Have those pieces that did not have a CPU all the while less CPU time than the others, and worked less in it, though some of them end in
/// time? Work that is disturbed is as much as ever, and ends later.
fn cut_short(steps: &[Step], pieces: &[Piece], wall: u64) -> bool {
    let slop = slop(wall);
    let (disturbed, calm): (Vec<&Piece>, Vec<&Piece>) =
        pieces.iter().filter(|p| p.wall >= MIN_NS).partition(|p| p.wall.saturating_sub(p.on_cpu) > slop);
    let units = |p: &&Piece| steps[p.step].units();
    let usual = |of: &dyn Fn(&&Piece) -> u64| median(&mut calm.iter().map(of).collect::<Vec<u64>>());
    let (Some(usual), Some(work)) = (usual(&|p| p.on_cpu), usual(&units)) else { return false };
    // On a faster CPU as much work takes less of it.
    let is_less = |p: &&&Piece| p.on_cpu + slop <= usual && units(p) + work / UNLIKE_PART <= work;
    let less: Vec<&&Piece> = disturbed.iter().filter(is_less).collect();
    // Who gets a CPU back after its time has passed ends at its next look.
    let at_once = |p: &Piece| p.back + slop >= wall && p.wall <= p.back + look(p, wall) + slop;
    let in_time = less.iter().filter(|p| p.wall.abs_diff(wall) <= slop || at_once(p)).count();
    in_time >= MIN_PIECES && in_time * 100 >= disturbed.len() * UNLIKE && less.len() * 2 > disturbed.len()
}

/// Are they loops of this wall time?
fn loops(steps: &mut [Step], pieces: &[Piece], wall: u64) -> bool {
    let slop = slop(wall);
    // What is only a little shorter than the shortest that are judged tells that these are no more than the longer ones.
    let long: Vec<&Piece> = pieces.iter().filter(|p| p.wall >= MIN_NS.min(wall / 2)).collect();
    // Whoever does not run when the time has passed is late, but does not compute then; what a wait for something else cuts off is
    // shorter, and other work.
    let by_clock =
        |p: &&&Piece| p.wall + slop >= wall && p.on_cpu <= wall + look(p, wall) + slop.max(wall / UNLIKE_PART);
    let looped: Vec<&Piece> = long.iter().filter(by_clock).copied().collect();
    if looped.len() * 100 < long.len() * NOT_BEFORE || looped.len() < MIN_PIECES {
        return false;
    }
    looped.iter().for_each(|p| steps[p.step] = Step::Spin(p.wall.min(wall)));
    // The end of the trace cuts the last one off.
    if let Some(last @ Step::Work(_)) = steps.last_mut() {
        *last = Step::Spin(wall);
    }
    true
}

/// A loop ends after the look at which the time has passed, and a look takes the longer the slower its CPU is.
fn look(p: &Piece, wall: u64) -> u64 {
    (ROUND_NS * FULL_SPEED / p.speed.max(1)).min(wall / 4)
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
        let piece =
            |(step, &(wall, on_cpu)): (usize, &(u64, u64))| Piece { step, wall, on_cpu, speed: FULL_SPEED, back: 0 };
        by_the_clock(&mut steps, &pieces.iter().enumerate().map(piece).collect::<Vec<_>>());
        assert_eq!(steps.iter().filter(|s| matches!(s, Step::Spin(_))).count(), spins, "{pieces:?}");
    }

    /// Of a thread that is preempted whenever its time is over, others of its name tell.
    #[test]
    fn kin() {
        const MS: u64 = 1_000_000;
        let thread = |pieces: &mut dyn Iterator<Item = (u64, u64)>| {
            let mut t = Thread::new(120);
            for (step, (wall, on_cpu)) in pieces.enumerate() {
                t.steps.push(Step::Work(on_cpu));
                t.pieces.push(Piece { step, wall, on_cpu, speed: FULL_SPEED, back: 0 });
            }
            t
        };
        let spins = |names: [&str; 3], late_ms: u64| {
            let in_time = || thread(&mut (0..20).map(|i| (30 * MS, if i % 3 == 0 { 20 * MS } else { 25 * MS })));
            let late = thread(&mut (0..20).map(|i| ((late_ms + 3 * i) * MS, 7 * MS)));
            let mut threads = BTreeMap::from([(Pid(1), in_time()), (Pid(2), in_time()), (Pid(3), late)]);
            let kinds = names.iter().zip(1..).map(|(name, pid)| (Pid(pid), name.to_string())).collect();
            spin(&mut threads, &kinds);
            threads[&Pid(3)].steps.iter().filter(|s| **s == Step::Spin(30 * MS)).count()
        };
        assert_eq!(spins(["worker"; 3], 31), 20);
        assert_eq!(spins(["worker", "other", "worker"], 31), 0, "one is not enough");
        assert_eq!(spins(["worker"; 3], 9), 0, "it also ends before");
    }

    /// Of hundreds of pieces a few were disturbed.
    #[test]
    fn seldom_disturbed() {
        const MS: u64 = 1_000_000;
        let pieces = |disturbed: &dyn Fn(u64) -> (u64, u64), many: u64| -> Vec<(u64, u64)> {
            (0..500).map(|i| if i % 50 == 7 && i < 50 * many { disturbed(i) } else { (2 * MS, 2 * MS) }).collect()
        };
        check(&pieces(&|_| (2 * MS, MS), 8), 500);
        check(&pieces(&|_| (2 * MS, MS), 7), 0);
        check(&pieces(&|_| (3 * MS, 2 * MS), 10), 0);
        let late = |i| if i < 100 { (2 * MS, MS) } else { (2 * MS + i * 1_000, MS) };
        check(&pieces(&late, 10), 0);
        // The clock rose with those that disturbed it.
        check(&pieces(&|i| (3 * MS + i * 1_000, 2 * MS - 100_000), 10), 0);
    }

    /// Whoever preempts it runs for longer than its time: it ends when it gets its CPU back. Work goes on then.
    #[test]
    fn preempted_beyond_its_time() {
        const MS: u64 = 1_000_000;
        let spins = |left: &dyn Fn(u64) -> u64| {
            let piece = |i: u64| {
                let (wall, on_cpu, back) = match i % 5 {
                    0 => (4 * MS + i * 9_000 + left(i), 500_000 + i * 1_000 + left(i), 4 * MS + i * 9_000),
                    _ => (2 * MS, 2 * MS, 0),
                };
                Piece { step: i as usize, wall, on_cpu, speed: FULL_SPEED, back }
            };
            let pieces: Vec<Piece> = (0..200).map(piece).collect();
            let mut steps: Vec<Step> = pieces.iter().map(|p| Step::Work(p.on_cpu)).collect();
            by_the_clock(&mut steps, &pieces);
            steps.iter().filter(|s| matches!(s, Step::Spin(_))).count()
        };
        assert_eq!(spins(&|i| 1_000 + i * 100), 200);
        assert_eq!(spins(&|i| 1_000 + i * 5_000), 0, "it works on");
    }

    /// As much work as ever, on a CPU that is twice as fast when others preempt it, each time for as long.
    #[test]
    fn disturbed_in_step() {
        const MS: u64 = 1_000_000;
        let piece = |i: u64| match i % 10 {
            0 => (2 * MS, 2 * MS, FULL_SPEED / 2),
            _ => (2 * MS, MS, FULL_SPEED),
        };
        let spins = |work: &dyn Fn((u64, u64, u64)) -> u64| {
            let of: Vec<(u64, u64, u64)> = (0..200).map(piece).collect();
            let mut steps: Vec<Step> = of.iter().map(|p| Step::Work(work(*p))).collect();
            let pieces = of.iter().enumerate();
            let pieces = pieces.map(|(step, &(wall, on_cpu, speed))| Piece { step, wall, on_cpu, speed, back: 0 });
            by_the_clock(&mut steps, &pieces.collect::<Vec<_>>());
            steps.iter().filter(|s| matches!(s, Step::Spin(_))).count()
        };
        assert_eq!(spins(&|(_, on_cpu, speed)| on_cpu * speed), 0);
        assert_eq!(spins(&|(_, on_cpu, _)| on_cpu), 200, "it works less");
    }

    /// On a slow CPU some loops end at a late look.
    #[test]
    fn a_look_takes_long_where_the_clock_is_low() {
        const MS: u64 = 1_000_000;
        let spins = |speed: u64| {
            let walls = (0..40).map(|i| match i % 5 {
                0 | 1 => (2 * MS, MS),
                4 => (2_240_000, 2_240_000),
                _ => (2 * MS, 2 * MS),
            });
            let pieces: Vec<Piece> =
                walls.enumerate().map(|(step, (wall, on_cpu))| Piece { step, wall, on_cpu, speed, back: 0 }).collect();
            let mut steps: Vec<Step> = pieces.iter().map(|p| Step::Work(p.on_cpu * speed)).collect();
            by_the_clock(&mut steps, &pieces);
            steps.iter().filter(|s| matches!(s, Step::Spin(_))).count()
        };
        assert_eq!((spins(133), spins(FULL_SPEED)), (40, 0));
    }

    /// The longer ones of pieces that mostly are shorter than what is judged.
    #[test]
    fn a_tail() {
        let pieces = |shorter: &dyn Fn(u64) -> u64| -> Vec<(u64, u64)> {
            let wall = |i| if i % 4 == 0 { 205_000 + i * 40 } else { shorter(i) };
            (0..61).map(|i| (wall(i), wall(i) * if i % 8 == 0 { 3 } else { 4 } / 4)).collect()
        };
        check(&pieces(&|i| 110_000 + i * 1_000), 0);
        check(&pieces(&|i| 40_000 + i * 1_000), 16);
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
