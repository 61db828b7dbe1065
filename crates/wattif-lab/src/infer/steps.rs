//! What a thread did, step by step, and how it goes on beyond the end of the trace.

use std::collections::BTreeMap;
use wattif_model::Pid;

/// One step of a thread.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Units: ns × capacity.
    Work(u64),
    /// Busy until so much wall time has passed, ns.
    Spin(u64),
    /// Until an absolute time; blocked since.
    Timer {
        until: u64,
        since: u64,
    },
    /// A timer that had passed already: the thread was late.
    Passed {
        period: u64,
    },
    /// A device, so long; blocked since.
    Device {
        ns: u64,
        since: u64,
    },
    /// The same of a device that let it wait for so long before (`devices.rs`), by its number.
    Served {
        device: u32,
        ns: u64,
        queued: u64,
        since: u64,
    },
    /// The same as for a device, for those whose users sleep like any other (`S`).
    Interrupt {
        ns: u64,
        since: u64,
    },
    /// So long.
    Sleep {
        ns: u64,
        since: u64,
    },
    /// For a token, which that thread put at that time; blocked since.
    Token {
        by: Pid,
        since: u64,
        at: u64,
    },
    /// A token for another thread, put at that time.
    Post {
        to: Pid,
        at: u64,
    },
    /// A token of such a queue, one for it, and all of one for the other (`servers.rs`).
    Get(Queue),
    Put(Queue),
    /// Takes and frees space for a message in the buffer of a reader (`channels.rs`).
    Take(Pid),
    Free(Pid),
    Drain {
        from: Queue,
        to: Queue,
    },
    /// Comes to a barrier, by the first thread that does (`barriers.rs`).
    Barrier(Pid),
    /// Takes and releases a lock, by the first of the threads that share it (`mutexes.rs`).
    Lock(Pid),
    Unlock(Pid),
    /// Takes iterations of a loop until none is left, of which all threads of that team do so many units; waits until all others are done;
    /// fills the next loop and wakes them; is done, for the first thread to know; waits for the next loop (`teams.rs`).
    Part {
        team: Pid,
        units: u64,
    },
    Gather(Pid),
    Release(Pid),
    Arrive(Pid),
    Await(Pid),
    Fork(Pid),
    /// Gives up its CPU (`yields.rs`).
    Yield,
    /// Of the screen.
    Touch,
    Attr(u8),
    /// Its priority is this one from now on, as another thread lends it its own, or not any more (`mutexes.rs`).
    Lent {
        prio: u8,
        by: Pid,
    },
    /// It sets its affinity, for the so-manyth time.
    Bind(usize),
    Exit,
}

/// A queue of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Queue {
    /// Wake-ups of a thread.
    Wakes(Pid),
    /// What the clients of a server, of which this is the first, ask, those of them that it has begun with, and its answers.
    Requests(Pid, Pid),
    Batch(Pid, Pid),
    Replies(Pid, Pid),
    /// Threads of a team that are done with a loop, and what wakes them for the next one, by the first of them.
    Arrived(Pid),
    Go(Pid),
}

impl Step {
    /// Does the thread compute there?
    pub(super) fn is_busy(&self) -> bool {
        matches!(self, Step::Work(_) | Step::Spin(_))
    }
    /// Its work, where it is one.
    pub(super) fn units(&self) -> u64 {
        if let Step::Work(units) = *self { units } else { 0 }
    }
    /// Does the thread block there?
    pub(super) fn waits(&self) -> bool {
        self.blocked_since().is_some()
            || matches!(
                self,
                Step::Get(_) | Step::Take(_) | Step::Barrier(_) | Step::Lock(_) | Step::Gather(_) | Step::Await(_)
            )
    }
    /// Who ends its wait, where that is a thread.
    pub(super) fn woken_by(&self) -> Option<Pid> {
        if let Step::Token { by, .. } = *self { Some(by) } else { None }
    }
    /// Whom it wakes.
    pub(super) fn wakes(&self) -> Option<Pid> {
        if let Step::Post { to, .. } = *self { Some(to) } else { None }
    }
    /// The other thread of a wake-up, on either side.
    pub(super) fn with(&self) -> Option<Pid> {
        self.woken_by().or(self.wakes())
    }
    /// When it was woken in the recording, or somewhat earlier.
    pub(super) fn woken_at(&self) -> Option<u64> {
        match *self {
            Step::Timer { until, .. } => Some(until),
            Step::Device { ns, since } | Step::Interrupt { ns, since } | Step::Sleep { ns, since } => Some(since + ns),
            Step::Served { ns, queued, since, .. } => Some(since + queued + ns),
            Step::Token { at, .. } => Some(at),
            _ => None,
        }
    }
    /// Since when it was blocked in the recording.
    pub(super) fn blocked_since(&self) -> Option<u64> {
        match *self {
            Step::Timer { since, .. }
            | Step::Device { since, .. }
            | Step::Served { since, .. }
            | Step::Interrupt { since, .. }
            | Step::Sleep { since, .. }
            | Step::Token { since, .. } => Some(since),
            _ => None,
        }
    }
}

/// The work of all of them.
pub(super) fn work(steps: &[Step]) -> u64 {
    steps.iter().map(Step::units).sum()
}

/// A place among steps: before the one of a number, or after so much of its work.
pub(super) type Place = (usize, u64);

/// After so much work of the steps from `begin` on, or before `end`.
pub(super) fn place_after(steps: &[Step], begin: usize, end: usize, mut units: u64) -> Place {
    for (i, step) in steps.iter().enumerate().take(end).skip(begin) {
        match *step {
            Step::Work(more) if units < more => return (i, units),
            Step::Work(more) => units -= more,
            _ => {}
        }
    }
    (end, 0)
}

/// Puts steps in; those of one place in their order.
pub(super) fn insert(steps: &mut Vec<Step>, mut of: Vec<(Place, Step)>) {
    of.sort_by_key(|i| i.0);
    let mut out = Vec::with_capacity(steps.len() + of.len());
    let mut of = of.into_iter().peekable();
    for (i, step) in std::mem::take(steps).into_iter().enumerate() {
        let mut done = 0;
        while let Some(((_, at), put)) = of.next_if(|((before, _), _)| *before == i) {
            if at > done {
                out.push(Step::Work(at - done));
                done = at;
            }
            out.push(put);
        }
        out.push(if let Step::Work(units) = step { Step::Work(units - done) } else { step });
    }
    out.extend(of.map(|(_, step)| step));
    *steps = out;
}

/// Waits and units of work.
pub(super) type Distance = (usize, u64);

/// As many waits as there are most often, and as much work as there is with so many.
pub(super) fn usual_distance(seen: &[Distance]) -> Distance {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    seen.iter().for_each(|s| *counts.entry(s.0).or_default() += 1);
    let waits = counts.into_iter().max_by_key(|c| c.1).map_or(0, |c| c.0);
    let mut units: Vec<u64> = seen.iter().filter(|s| s.0 == waits).map(|s| s.1).collect();
    (waits, median(&mut units).unwrap_or(0))
}

/// The kind of a wait for a timer.
pub(super) const TIMER: u8 = 0;
/// That of a wait for another thread.
pub(super) const TOKEN: u8 = 3;

/// Kinds of waits, one before and one after a stretch of work.
pub(super) type Waits = [u8; 2];

pub(super) fn kind_of_wait(step: &Step) -> Option<u8> {
    match step {
        Step::Timer { .. } => Some(TIMER),
        Step::Device { .. } | Step::Served { .. } | Step::Interrupt { .. } => Some(1),
        Step::Sleep { .. } => Some(2),
        Step::Token { .. } => Some(TOKEN),
        Step::Get(_) => Some(4),
        Step::Barrier(_) => Some(5),
        _ => None,
    }
}

/// Place, expiry and since when the thread slept, of each timer.
pub(super) fn timers(steps: &[Step]) -> impl Iterator<Item = (usize, u64, u64)> {
    let timer =
        |(i, s): (usize, &Step)| if let Step::Timer { until, since } = *s { Some((i, until, since)) } else { None };
    steps.iter().enumerate().filter_map(timer)
}

/// From when until when a thread waited for another.
pub(super) fn token_waits(steps: &[Step]) -> Vec<(u64, u64)> {
    steps.iter().filter_map(|s| if let Step::Token { since, at, .. } = *s { Some((since, at)) } else { None }).collect()
}

/// Which of these, in the order of their beginnings, a time is in.
pub(super) fn within<T>(sorted: &[T], at: u64, span: impl Fn(&T) -> (u64, u64)) -> Option<usize> {
    let last = sorted.partition_point(|x| span(x).0 <= at).checked_sub(1)?;
    (at < span(&sorted[last]).1).then_some(last)
}

/// Interrupts on other CPUs than the thread's, which its own timers never are, come from a device: they have no slack, and idle governors do
/// not see them coming. `is_its`: may this one be the device's, by the time when a timer would have been due?
pub(super) fn wait_for_devices(steps: &mut [Step], slack: u64, is_its: impl Fn(u64) -> bool) {
    for step in steps {
        if let Step::Timer { until, since: since @ 1.. } = *step
            && is_its(until)
        {
            *step = Step::Interrupt { ns: until - since + slack, since };
        }
    }
}

/// Whoever is woken by another thread, or a device, and then by an interrupt asked for that one, or sleeps from then on: under another kernel
/// the wait moves with the work before it. Not so where interrupts come at equal distances, whatever happens in between
/// ([`super::periods::has_grid`]). All waits of one who has a `device` do, also those before the first for it.
pub(super) fn follow_causes(steps: &mut [Step], device: bool) {
    let mut caused = device;
    for step in steps {
        match *step {
            Step::Token { .. } | Step::Interrupt { .. } => caused = true,
            Step::Timer { until, since } if caused && since > 0 => *step = Step::Sleep { ns: until - since, since },
            Step::Timer { .. } | Step::Passed { .. } => caused = device,
            _ => {}
        }
    }
}

/// The middle one of all, which are sorted for it; of an even number the later.
pub(super) fn median<T: Copy + Ord>(values: &mut [T]) -> Option<T> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

/// One in so many may be a stray: by chance, told wrongly, or cut off by an end of the trace. More are a habit.
pub(super) const STRAY_OF: usize = 20;
/// So many of 100 jobs of a thread, or places in its turns, are alike: within one part in so many of their median. One of twice the work is
/// two.
const ALIKE_OF_100: usize = 80;
pub(super) const ALIKE_PART: u64 = 4;
/// As little work is the same as none: 20 µs of the largest CPU, units. Who is woken, finds nothing to do, or that another was faster, and
/// waits again does as much.
pub(super) const LITTLE: u64 = 20_000 << 10;

/// Are most of these as usual, but for so much?
pub(super) fn are_within(work: &[u64], usual: u64, off: u64) -> bool {
    let alike = work.iter().filter(|work| work.abs_diff(usual) <= off).count();
    alike * 100 >= work.len() * ALIKE_OF_100
}

/// Where most values lie within a width of the least of them, which depends on it; of equally many the largest. They are sorted.
pub(super) fn densest(sorted: &[u64], width: impl Fn(u64) -> u64) -> std::ops::Range<usize> {
    let (mut best, mut end) = (0..0, 0);
    for begin in 0..sorted.len() {
        while end < sorted.len() && sorted[end] - sorted[begin] <= width(sorted[begin]) {
            end += 1;
        }
        if end - begin >= best.len() {
            best = begin..end;
        }
    }
    best
}

/// Fewer sleeps tell of no constant; so many of 100 have to be within one part in so many of one of a few.
const MIN_EVEN: usize = 16;
const EVEN: usize = 80;
const EVEN_PART: u64 = 50;
const CONSTANTS: usize = 4;

/// A program that sleeps, or waits for a device, for one of a few constant times shows other lengths where its CPU, or that which serves the
/// device, took long to wake up, by the state that an estimate says it was in: those near a constant are the constant.
pub(super) fn even_sleeps(steps: &mut [Step]) {
    fn sleep(s: &mut Step) -> Option<&mut u64> {
        if let Step::Sleep { ns, .. } = s { Some(ns) } else { None }
    }
    fn device(s: &mut Step) -> Option<&mut u64> {
        if let Step::Device { ns, .. } | Step::Served { ns, .. } | Step::Interrupt { ns, .. } = s {
            Some(ns)
        } else {
            None
        }
    }
    for length in [sleep, device] {
        let mut all: Vec<u64> = steps.iter_mut().filter_map(|s| length(s).copied()).collect();
        all.sort_unstable();
        let constants = constants(all);
        for ns in steps.iter_mut().filter_map(length) {
            if let Some(constant) = constants.iter().min_by_key(|c| ns.abs_diff(**c))
                && ns.abs_diff(*constant) <= constant / 2
            {
                *ns = *constant;
            }
        }
    }
}

/// The few constants that most of these are; none if they are not.
fn constants(mut sorted: Vec<u64>) -> Vec<u64> {
    let (n, mut constants) = (sorted.len(), Vec::new());
    for _ in 0..CONSTANTS {
        let at = densest(&sorted, |least| 2 * least / EVEN_PART);
        if at.len() < MIN_EVEN {
            break;
        }
        constants.extend(median(&mut sorted.drain(at).collect::<Vec<_>>()));
    }
    if sorted.len() * 100 > n * (100 - EVEN) { Vec::new() } else { constants }
}

/// Mean distance of the timers of a thread that mostly waits for those.
pub(super) fn usual_interval(steps: &[Step]) -> Option<u64> {
    let timed = |s: &&Step| matches!(s, Step::Timer { .. } | Step::Sleep { .. });
    let (n, all) = (steps.iter().filter(timed).count(), steps.iter().filter(|s| s.waits()).count());
    let mut expiries = steps.iter().filter(timed).filter_map(Step::woken_at);
    let (first, last) = (expiries.next()?, expiries.next_back()?);
    (2 * n > all).then(|| (last.saturating_sub(first) / (n as u64 - 1)).max(1))
}

/// What is left to do of the work that the end of a trace cuts off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// So many units: it was in the middle of a stretch as it usually has.
    Units(u64),
    /// It computes on and on.
    Endless,
}

/// A stretch of work so many times as long as the longest before it has no end in sight, if it is a part of the trace in so many at least:
/// a burst that a trace happens to cut off tells nothing of that, and is taken as half over. Under a kernel that gives it less than
/// twice as much of a CPU, one that was endless after all is the same.
const ENDLESS: u64 = 4;
const LONG_PART: u64 = 10;

/// How the last stretch of a thread that was about to run at the end of its trace goes on. It takes part of that trace already.
pub(super) fn rest(steps: &[Step], stretch: u64, trace: u64) -> Rest {
    if let Some(Step::Spin(_)) = steps.last() {
        return Rest::Units(0);
    }
    let mut stretches = vec![0u64];
    for step in steps {
        match step {
            Step::Work(units) => *stretches.last_mut().expect("never empty") += units,
            s if s.waits() || matches!(s, Step::Passed { .. }) => stretches.push(0),
            _ => {}
        }
    }
    let last = stretches.pop().unwrap_or(0);
    // The first one is cut off as well.
    let whole = stretches.get(1..).unwrap_or(&[]);
    let longest = whole.iter().max().copied().unwrap_or(0);
    match (longest == 0 || last > longest.saturating_mul(ENDLESS), stretch.saturating_mul(LONG_PART) >= trace) {
        (true, true) => Rest::Endless,
        (true, false) => Rest::Units(last),
        _ => Rest::Units(median(&mut whole.to_vec()).unwrap_or(0).saturating_sub(last)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_that_was_asked_for() {
        let timer = |until, since| Step::Timer { until, since };
        let interrupt = |ns, since| Step::Interrupt { ns, since };
        let sleep = |ns, since| Step::Sleep { ns, since };
        let token = Step::Token { by: Pid(1), since: 1, at: 2 };
        let mut steps =
            vec![timer(100, 50), token.clone(), Step::Work(5), timer(300, 260), Step::Work(1), timer(400, 310)];
        let mut some = steps.clone();
        wait_for_devices(&mut some, 7, |due| due == 300);
        follow_causes(&mut some, true);
        assert_eq!((&some[0], &some[3], &some[5]), (&sleep(50, 50), &interrupt(47, 260), &sleep(90, 310)));
        let mut asked = steps.clone();
        wait_for_devices(&mut asked, 7, |_| true);
        assert_eq!((&asked[0], &asked[1..3]), (&interrupt(57, 50), &steps[1..3]), "no timer of its own either");
        assert_eq!((&asked[3], &asked[5]), (&interrupt(47, 260), &interrupt(97, 310)));
        let first = steps[0].clone();
        follow_causes(&mut steps, false);
        assert_eq!(steps[0], first);
        assert_eq!((&steps[3], &steps[5]), (&sleep(40, 260), &sleep(90, 310)));
        let vsync = |n: u64| [token.clone(), timer(n * 16_666_667, n * 16_666_667 - 5_000_000 - n * n * 900)];
        let beats: Vec<Step> = (1..20).flat_map(vsync).collect();
        assert!(super::super::periods::has_grid(&beats));
    }

    #[test]
    fn a_constant() {
        let sleep = |ns| Step::Sleep { ns, since: 1 };
        let mut steps: Vec<Step> = (0..20).map(|i| sleep(if i % 9 == 8 { 63_000 } else { 100_000 + i })).collect();
        steps.push(sleep(400_000));
        even_sleeps(&mut steps);
        // The middle one of the 18 near 100 µs.
        assert!(steps[..20].iter().all(|s| *s == sleep(100_010)), "{steps:?}");
        assert_eq!(steps[20], sleep(400_000), "another sleep");
        let mut random: Vec<Step> = (0..20).map(|i| sleep(100_000 + 9_000 * i)).collect();
        let before = random.clone();
        even_sleeps(&mut random);
        assert_eq!(random, before);
        // A device that takes 60 µs or 20 ms, of which some waits began, or ended, while a CPU woke up.
        let device = |ns| Step::Interrupt { ns, since: 1 };
        let constant = |i: usize| [60_000, 20_000_000][i / 20 % 2];
        let off = |i: usize| if i % 12 == 5 { constant(i) * 9 / 10 } else { constant(i) };
        let mut two: Vec<Step> = (0..80).map(|i| device(off(i))).collect();
        even_sleeps(&mut two);
        let is = |i: usize| two[i] == device(constant(i));
        assert!((0..80).all(is), "{two:?}");
    }

    #[test]
    fn the_next_timer() {
        let timer = |until| Step::Timer { until, since: until - 1 };
        let token = Step::Token { by: Pid(1), since: 1, at: 2 };
        assert_eq!(usual_interval(&[timer(10), Step::Work(1), timer(20), token.clone(), timer(60)]), Some(25));
        assert_eq!(usual_interval(&[timer(10), token.clone(), token, timer(60)]), None, "others wake it");
        assert_eq!(usual_interval(&[timer(10)]), None);
    }

    #[test]
    fn beyond_the_end() {
        let timer = |until| Step::Timer { until, since: until - 1 };
        let check = |steps: &[Step], expect| assert_eq!(rest(steps, 100, 1_000), expect, "{steps:?}");
        check(&[Step::Work(900)], Rest::Endless);
        check(&[Step::Work(900), timer(5), Step::Spin(70)], Rest::Units(0));
        check(&[timer(1), Step::Work(10), timer(2), Step::Work(10), timer(3), Step::Work(4)], Rest::Units(6));
        check(&[timer(1), Step::Work(10), timer(2), Step::Work(10), timer(3), Step::Work(30)], Rest::Units(0));
        check(&[timer(1), Step::Work(10), timer(2), Step::Work(10), timer(3), Step::Work(50)], Rest::Endless);
        let passed = Step::Passed { period: 1 };
        check(&[timer(1), Step::Work(10), passed.clone(), Step::Work(10), passed, Step::Work(4)], Rest::Units(6));
        let burst = [timer(1), Step::Work(10), timer(2), Step::Work(10), timer(3), Step::Work(50)];
        assert_eq!(rest(&[timer(1), Step::Work(900)], 99, 1_000), Rest::Units(900), "it had just begun");
        assert_eq!(rest(&burst, 99, 1_000), Rest::Units(50));
    }
}
