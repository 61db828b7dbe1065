//! Threads that go from one lock to the next.
//!
//! A thread that waits for nothing but a lock, or does so many times before it waits for something else, shows only some of the times that it
//! takes it: between those it may have got it without waiting and released it to nobody. If its work is that of whole laps (so much before the lock,
//! and so much under it), its steps are cut where laps end.

use super::steps::{STRAY_OF, Step, insert, place_after};

/// Work that is off by one part in so many of a lap is whole laps.
const OFF_OF: u64 = 10;
/// Fewer stretches tell no lap.
const MIN_SEEN: usize = 8;
/// A thread waits for a lock as often as it makes others wait, but for how long each has it: so many times as often at most, and the other
/// way round. Who takes what another makes waits for each of them, and hardly ever makes it wait.
const UNEVEN: usize = 4;

/// What there is at the ends of stretches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// A wait for something else than the lock, or an end of the trace.
    Other,
    /// It waits for the lock, and has it then.
    Wait,
    Release,
}

/// From one mark to the next: their steps, and the work between them.
struct Stretch {
    marks: [Mark; 2],
    steps: std::ops::Range<usize>,
    work: u64,
}

impl Stretch {
    fn is(&self, first: Mark, second: Mark) -> bool {
        self.marks == [first, second]
    }
}

/// Work before the lock and under it.
#[derive(Clone, Copy)]
struct Lap {
    before: u64,
    under: u64,
}

impl Lap {
    fn of(stretches: &[Stretch]) -> Option<Lap> {
        let least = |first, second| {
            let mut work: Vec<u64> = stretches.iter().filter(|s| s.is(first, second)).map(|s| s.work).collect();
            work.sort_unstable();
            // Shorter ones are strays.
            (work.len() >= MIN_SEEN).then(|| work[work.len() / STRAY_OF])
        };
        let lap = Lap { before: least(Mark::Release, Mark::Wait)?, under: least(Mark::Wait, Mark::Release)? };
        // Who does nothing else between them hands work over to another and waits for it to come back.
        if lap.before <= lap.work() / OFF_OF {
            return None;
        }
        let told = stretches.iter().filter(|s| !s.marks.contains(&Mark::Other));
        let (whole, others): (Vec<_>, Vec<_>) = told.partition(|s| lap.laps(s).1 <= lap.work() / OFF_OF);
        let waits = whole.iter().filter(|s| s.marks[1] == Mark::Wait && !lap.waits_on(s)).count();
        let releases = whole.iter().filter(|s| s.marks[1] == Mark::Release).count();
        let are_even = waits <= UNEVEN * releases && releases <= UNEVEN * waits;
        (are_even && others.len() * STRAY_OF <= whole.len()).then_some(lap)
    }

    fn work(&self) -> u64 {
        self.before + self.under
    }

    /// How much of a lap is done at a mark.
    fn done(&self, mark: Mark) -> u64 {
        if mark == Mark::Wait { self.before } else { 0 }
    }

    /// How many laps end in a stretch, with a release that it ends with; and by how much work that is wrong.
    fn laps(&self, s: &Stretch) -> (u64, u64) {
        let [first, last] = s.marks.map(|m| self.done(m));
        let all = first + s.work;
        let n = match s.marks[1] {
            Mark::Other => return ((all + self.work() / OFF_OF) / self.work(), 0),
            _ => (all.saturating_sub(last) + self.work() / 2) / self.work(),
        };
        (n, all.abs_diff(n * self.work() + last))
    }

    /// Was it woken, and found that another was faster?
    fn waits_on(&self, s: &Stretch) -> bool {
        s.is(Mark::Wait, Mark::Wait) && self.laps(s).0 == 0
    }

    /// After how much work laps end.
    fn ends(&self, s: &Stretch) -> impl Iterator<Item = u64> + use<> {
        let ([first, last], (n, _)) = (s.marks.map(|m| self.done(m)), self.laps(s));
        let inner = n - u64::from(s.marks[1] == Mark::Release).min(n);
        let (lap, work) = (self.work(), u128::from(s.work));
        // What there is is shared out evenly.
        let usual = if s.marks[1] == Mark::Other { 0 } else { (n * lap + last).saturating_sub(first) };
        let scaled =
            move |units: u64| if usual == 0 { units } else { (u128::from(units) * work / u128::from(usual)) as u64 };
        (1..=inner).map(move |i| scaled((i * lap).saturating_sub(first)))
    }
}

/// Puts `end` where laps end, if they are more than `most` between two other waits on the average.
pub(super) fn cut(
    steps: &mut Vec<Step>,
    end: &Step,
    most: usize,
    waits: impl Fn(&Step) -> bool,
    releases: impl Fn(&Step) -> bool,
) {
    let stretches = stretches(steps, waits, releases);
    let of = |mark| stretches.iter().filter(|s| s.marks[1] == mark).count();
    if of(Mark::Release) <= most * of(Mark::Other) {
        return;
    }
    let Some(lap) = Lap::of(&stretches) else { return };
    let mut ends = Vec::new();
    for s in &stretches {
        let place = |units| place_after(steps, s.steps.start, s.steps.end, units);
        ends.extend(lap.ends(s).map(|units| (place(units), end.clone())));
        ends.extend((s.marks[1] == Mark::Release).then(|| ((s.steps.end + 1, 0), end.clone())));
    }
    insert(steps, ends);
}

fn stretches(steps: &[Step], waits: impl Fn(&Step) -> bool, releases: impl Fn(&Step) -> bool) -> Vec<Stretch> {
    let (mut all, mut last, mut begin, mut work) = (Vec::new(), Mark::Other, 0, 0u64);
    for (i, step) in steps.iter().enumerate() {
        let mark = match step {
            Step::Work(units) => {
                work += units;
                continue;
            }
            s if waits(s) => Mark::Wait,
            s if releases(s) => Mark::Release,
            s if s.waits() || matches!(s, Step::Passed { .. }) => Mark::Other,
            _ => continue,
        };
        all.push(Stretch { marks: [last, mark], steps: begin..i, work });
        (last, begin, work) = (mark, i + 1, 0);
    }
    all.push(Stretch { marks: [last, Mark::Other], steps: begin..steps.len(), work });
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattif_model::Pid;

    #[test]
    fn who_takes_what_another_makes_is_no_user_of_a_lock() {
        // It waits in each lap, and wakes another in one of so many.
        let is_cut = |of: u64| {
            let lap = |i: u64| {
                let at = i * 1_000;
                let release = i.is_multiple_of(of).then_some(Step::Post { to: Pid(2), at: at + 40 });
                let waits = [Step::Token { by: Pid(2), since: at - 60, at }, Step::Work(4_000)];
                waits.into_iter().chain(release).chain([Step::Work(90_000)])
            };
            let mut steps: Vec<Step> = (1..200).flat_map(lap).collect();
            let end = Step::Passed { period: 0 };
            cut(&mut steps, &end, 4, |s| matches!(s, Step::Token { .. }), |s| matches!(s, Step::Post { .. }));
            steps.contains(&end)
        };
        assert!(is_cut(1) && is_cut(3), "a lock");
        assert!(!is_cut(8), "a consumer");
    }
}
