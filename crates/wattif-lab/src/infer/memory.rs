//! Work that waits for memory.
//!
//! A part of what a thread does may take as long at any clock. Its pieces then hold more units where the CPU is fast: `w + m × speed`, with
//! `m` the time for memory, not `w` alone. That pieces on fast CPUs are larger does not say so by itself, since governors raise the clock for
//! large pieces, and placement takes them to large CPUs. So pieces are compared by the speed **at which they began**, which what came
//! before them has decided; and each with the next, the one after that, and so on: programs that do different things by turns do the same
//! again after some pieces, and where a program goes over to something else the speed follows later. The memory's part is the one with which
//! the faster of two is as often the larger as the smaller. It has to be there at every distance, and to be why pieces are unlike: else, and
//! where all run at one speed, work is taken to follow the clock.
//!
//! Work of such a thread is counted by what it takes at full speed, so that jobs that are alike look alike.

use super::kin::Kinds;
use super::spins::Piece;
use super::steps::Step;
use super::thread::Thread;
use std::collections::BTreeMap;
use wattif_model::Pid;
use wattif_model::workload::{Amount, Op};

/// Shorter pieces are not compared, ns at full speed: too much of them is the kernel's own work, of which only the usual cost is known. It is
/// units that are too few, not time that is too short: else the slow ones that are kept were the small ones.
const MIN_NS: u64 = 20_000;
/// Pieces are compared with so many next ones.
const DISTANCES: usize = 8;
/// Of a pair the faster one began at so many percent of the other's speed at least.
const FASTER_PCT: u64 = 125;
/// Fewer pairs of a distance tell nothing; more faster ones are larger than by chance, by so many standard deviations.
const MIN_PAIRS: usize = 30;
const DEVIATIONS: usize = 3;
/// More pairs of a distance tell no more, and would only take room.
const MAX_PAIRS: usize = 10_000;
/// A thread that only waited would be one that looks at the clock; shares are of 1000.
const MOST: u64 = 900;
const ALL: u64 = 1000;
/// What is found at a distance is this part of what is found at all of them, at least.
const ALIKE_OF: u64 = 2;
/// So much of how unlike pieces are is left at most.
const LEFT: f64 = 0.7;

/// A piece: its units, the speed at which it began, and its mean speed.
#[derive(Clone, Copy, Debug)]
struct Sample {
    units: u64,
    first: u64,
    mean: u64,
}

/// The faster piece of a pair, and the slower one.
type Pair = (Sample, Sample);

/// Finds the threads that wait for memory, and counts their work by what it takes at full speed. Threads of one kind run one program.
pub(super) fn wait(threads: &mut BTreeMap<Pid, Thread>, kinds: &Kinds, full: u64) {
    let mut of_kind: BTreeMap<&str, Vec<Vec<Pair>>> = BTreeMap::new();
    for (pid, t) in threads.iter() {
        let pairs = of_kind.entry(&kinds[pid]).or_insert_with(|| vec![Vec::new(); DISTANCES]);
        let samples = samples(t, full);
        for (distance, pairs) in (1..).zip(pairs) {
            let room = MAX_PAIRS - pairs.len();
            pairs.extend(self::pairs(&samples, distance).take(room));
        }
    }
    let shares: BTreeMap<&str, u64> =
        of_kind.iter().filter_map(|(kind, pairs)| Some((*kind, share(pairs, full)?))).collect();
    for (pid, t) in threads {
        if let Some(share) = shares.get(kinds[pid].as_str()) {
            t.memory = *share;
            count(t, full);
        }
    }
}

fn samples(t: &Thread, full: u64) -> Vec<Sample> {
    let sample = |p: &Piece| match t.steps.get(p.step) {
        Some(&Step::Work(units)) if p.on_cpu > 0 && units >= MIN_NS * full => {
            Some(Sample { units, first: p.speed.max(1), mean: (units / p.on_cpu).max(1) })
        }
        _ => None,
    };
    t.pieces.iter().filter_map(sample).collect()
}

fn pairs(samples: &[Sample], distance: usize) -> impl Iterator<Item = Pair> {
    let sorted = |(a, b): (&Sample, &Sample)| if a.first > b.first { (*a, *b) } else { (*b, *a) };
    let unlike = |(fast, slow): &Pair| fast.first * 100 >= slow.first * FASTER_PCT;
    samples.iter().zip(samples.iter().skip(distance)).map(sorted).filter(unlike)
}

/// What `units` at a mean speed are at full speed, if memory has so much: some wait while others compute.
fn at_full_speed(units: u64, mean: u64, share: u64, full: u64) -> f64 {
    let all = ALL as f64 * full as f64;
    units as f64 * all / (all + share as f64 * (mean as f64 - full as f64))
}

/// How the faster one of a pair would compare with the other at full speed, if memory has so much.
fn ratio((fast, slow): &Pair, share: u64, full: u64) -> f64 {
    at_full_speed(fast.units, fast.mean, share, full) / at_full_speed(slow.units, slow.mean, share, full)
}

/// In how many pairs the faster one is larger, if memory has so much.
fn larger(pairs: &[Pair], share: u64, full: u64) -> usize {
    pairs.iter().filter(|p| ratio(p, share, full) > 1.0).count()
}

/// With which part of the memory's the faster ones are as often larger as smaller.
fn even(pairs: &[Pair], full: u64) -> u64 {
    let (mut low, mut high) = (0, ALL);
    while low < high {
        let share = (low + high) / 2;
        if 2 * larger(pairs, share, full) > pairs.len() { low = share + 1 } else { high = share }
    }
    low
}

/// How unlike the pieces of a pair usually are, beyond what is alike.
fn unlike(pairs: &[Pair], share: u64, full: u64) -> f64 {
    let mut all: Vec<f64> = pairs.iter().map(|p| ratio(p, share, full)).map(|r| r.max(1.0 / r) - 1.0).collect();
    all.sort_unstable_by(f64::total_cmp);
    all[all.len() / 2]
}

/// The part of the memory's that pairs of pieces tell of, by their distance.
fn share(pairs: &[Vec<Pair>], full: u64) -> Option<u64> {
    let by_chance = |of: &Vec<Pair>| {
        let more = (2 * larger(of, 0, full)).saturating_sub(of.len());
        of.len() < MIN_PAIRS || more * more < DEVIATIONS * DEVIATIONS * of.len()
    };
    if pairs.iter().any(by_chance) {
        return None;
    }
    let all = pairs.concat();
    let share = even(&all, full);
    let alike = pairs.iter().all(|of| even(of, full) * ALIKE_OF >= share);
    let tells = unlike(&all, share, full) <= LEFT * unlike(&all, 0, full);
    (alike && tells && (1..=MOST).contains(&share)).then_some(share)
}

/// Counts the work of a thread by what it takes at full speed.
fn count(t: &mut Thread, full: u64) {
    // The end of the trace cuts the last piece off.
    let (known, last) = (t.pieces.last().map(|p| p.step), t.steps.len().saturating_sub(1));
    let cut_off = Some((last, t.on_cpu)).filter(|_| known < Some(last));
    for (step, on_cpu) in t.pieces.iter().map(|p| (p.step, p.on_cpu)).chain(cut_off) {
        if let Some(Step::Work(units)) = t.steps.get_mut(step) {
            *units = at_full_speed(*units, *units / on_cpu.max(1), t.memory, full) as u64;
        }
    }
}

/// Who waits for memory, and how long.
pub(super) fn told(threads: &BTreeMap<Pid, Thread>) -> Option<String> {
    let shares: Vec<u64> = threads.values().map(|t| t.memory).filter(|share| *share > 0).collect();
    let (least, most) = (shares.iter().min()? / 10, shares.iter().max()? / 10);
    let percent = if least == most { format!("{most}") } else { format!("{least} to {most}") };
    Some(format!(
        "{} threads taken as waiting for memory for {percent} % of their time at full speed: no clock changes that",
        shares.len()
    ))
}

/// Work that takes so long at full speed, with the memory's part of it.
pub(super) fn ops(ns: u64, share: u64) -> impl Iterator<Item = Op> {
    let memory = (u128::from(ns) * u128::from(share) / u128::from(ALL)) as u64;
    let of_memory = (memory > 0).then_some(Op::RunInsensitive(Amount::Fixed(memory)));
    [Op::Run(Amount::Fixed((ns - memory).max(1)))].into_iter().chain(of_memory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattif_model::units::CAPACITY_SCALE;

    const FULL: u64 = CAPACITY_SCALE;

    /// A thread whose pieces have so much work and take so long for memory, µs; at speeds that what it did before decides, as a governor
    /// has it, or chance.
    fn thread(pieces: u64, governed: bool, piece: impl Fn(u64) -> (u64, u64)) -> Thread {
        let mut t = Thread::new(120);
        let mut before = 0;
        for step in 0..pieces as usize {
            let (work, memory) = piece(step as u64);
            let chance = 200 + step as u64 * 7_919 % 800;
            let speed = if governed { before.clamp(200, FULL) } else { chance };
            let on_cpu = work * 1_000 * FULL / speed + memory * 1_000;
            t.steps.push(Step::Work(on_cpu * speed));
            t.pieces.push(Piece { step, wall: on_cpu, on_cpu, speed, back: 0 });
            before = (before + work) / 2;
        }
        t
    }

    /// What is found of a thread, and its steps then.
    fn found(t: Thread) -> (u64, Vec<Step>) {
        let mut threads = BTreeMap::from([(Pid(1), t)]);
        wait(&mut threads, &BTreeMap::from([(Pid(1), "a".into())]), FULL);
        (threads[&Pid(1)].memory, threads[&Pid(1)].steps.clone())
    }

    #[test]
    fn a_quarter_is_memory() {
        let (share, steps) = found(thread(300, false, |i| (600 + i * 31 % 60, 210)));
        assert!((240..=260).contains(&share), "{share}");
        let alike = |s: &Step| matches!(s, Step::Work(units) if (780..=900).contains(&(units / 1_000 / FULL)));
        assert!(steps.iter().all(alike), "{steps:?}");
        let ops: Vec<Op> = ops(840_000, share).collect();
        let [Op::Run(Amount::Fixed(work)), Op::RunInsensitive(Amount::Fixed(memory))] = ops[..] else {
            panic!("{ops:?}")
        };
        assert_eq!(work + memory, 840_000);
        assert!((200_000..=220_000).contains(&memory), "{memory}");
    }

    #[test]
    fn what_follows_the_clock_stays() {
        let check = |governed, why: &str, piece: &dyn Fn(u64) -> (u64, u64)| {
            let t = thread(400, governed, piece);
            let before = t.steps.clone();
            assert_eq!(found(t), (0, before), "{why}");
        };
        check(false, "always the same", &|_| (600, 0));
        check(false, "any work", &|i| (300 + i * i * 7_907 % 900, 0));
        check(true, "a clock that follows any work", &|i| (300 + i * i * 7_907 % 900, 0));
        check(true, "a ramp", &|i| (200 + i * 2, 0));
        check(true, "phases", &|i| (if i / 40 % 2 == 0 { 250 } else { 900 }, 0));
        check(true, "turns", &|i| ([300, 500, 700, 700, 500][i as usize % 5], 0));
        check(true, "two of each", &|i| (if i / 2 % 2 == 0 { 500 } else { 700 }, 0));
        check(false, "short pieces", &|_| (12, 4));
        check(false, "memory that hardly tells", &|i| (100 + i * i * 7_907 % 2_900, 100));
        assert_eq!(found(thread(30, false, |_| (600, 200))).0, 0, "too few");
        assert_eq!(found(thread(300, false, |_| (0, 200))).0, 0, "nothing but a clock");
    }
}
