//! What threads of one name, which run one program, tell of each other.
//!
//! A thread that never sleeps shows no period, and one that is late nearly always no job. Where others of its name have one beat, it has that
//! one, too.

use super::periods::{self, Beat, slop};
use super::steps::Step;
use super::workload::Thread;
use std::collections::BTreeMap;
use wattif_model::Pid;

/// Who wakes whom, how often.
pub(super) type Wakes = BTreeMap<(Pid, Pid), usize>;

pub(super) fn wakes(threads: &BTreeMap<Pid, Thread>) -> Wakes {
    let mut all = Wakes::new();
    for (pid, t) in threads {
        for to in t.steps.iter().filter_map(Step::wakes) {
            *all.entry((*pid, to)).or_default() += 1;
        }
    }
    all
}

/// Fewer that have the same beat do not tell that of others.
const MIN_KIN: usize = 2;

/// Cuts the work of threads without a beat into jobs, where others of their kind agree on one.
pub(super) fn always_late(threads: &mut BTreeMap<Pid, Thread>, kinds: &BTreeMap<Pid, String>, end: u64) {
    let mut beats: BTreeMap<&str, Vec<Beat>> = BTreeMap::new();
    let known = threads.iter().filter(|(_, t)| t.beat.work > 0);
    known.for_each(|(pid, t)| beats.entry(&kinds[pid]).or_default().push(t.beat));
    for (pid, t) in threads.iter_mut().filter(|(_, t)| t.beat.period == 0) {
        let Some(beat) = beats.get(kinds[pid].as_str()).and_then(|of| agreed(of)) else { continue };
        let birth = t.birth();
        t.beat = periods::late_all_along(&mut t.steps, birth, (t.born, end), beat);
    }
}

/// The beat of all of these, if they are enough.
fn agreed(beats: &[Beat]) -> Option<Beat> {
    let first = *beats.first()?;
    let same =
        |b: &Beat| b.period.abs_diff(first.period) <= slop(first.period) && periods::is_about(b.work, first.work);
    (beats.len() >= MIN_KIN && beats.iter().all(same)).then_some(Beat { caught_up: 0, started_again: 0, ..first })
}

#[cfg(test)]
mod tests {
    use super::super::steps::work;
    use super::*;

    const MS: u64 = 1_000_000;
    const PERIOD: u64 = 10 * MS;

    /// Threads of one name that work for 4 of 10 ms.
    fn threads() -> (BTreeMap<Pid, Thread>, BTreeMap<Pid, String>) {
        let thread = |pid: u32| {
            let job = |i: u64| [Step::Timer { until: i * PERIOD, since: i * PERIOD - 6 * MS }, Step::Work(4 * MS)];
            let mut t = Thread::new(120);
            t.steps = (1..60).flat_map(job).collect();
            (Pid(pid), t)
        };
        ((1..4).map(thread).collect(), (1..4).map(|pid| (Pid(pid), "job".to_string())).collect())
    }

    #[test]
    fn who_is_always_late_has_the_job_of_its_kind() {
        let (mut threads, kinds) = threads();
        let late = threads.get_mut(&Pid(3)).expect("it is there");
        late.steps = vec![Step::Work(81 * MS), Step::Timer { until: 200 * MS, since: 194 * MS }, Step::Work(401 * MS)];
        let is_passed = |s: &&Step| matches!(s, Step::Passed { period: PERIOD });
        for t in threads.values_mut() {
            t.beat = periods::reveal(&mut t.steps, None, Step::waits);
        }
        assert_eq!(threads[&Pid(3)].beat, Beat::default());
        let before = threads[&Pid(1)].steps.clone();
        always_late(&mut threads, &kinds, 1210 * MS);
        let late = &threads[&Pid(3)];
        assert_eq!((late.beat.period, late.beat.work), (PERIOD, 4 * MS));
        assert_eq!(late.steps.iter().filter(is_passed).count(), 99, "of a hundred jobs after the first timer");
        assert_eq!(work(&late.steps), 482 * MS, "work is neither made nor lost");
        assert_eq!(threads[&Pid(1)].steps, before);

        let check = |others: u64, work: u64, cut: bool, why: &str| {
            let (mut threads, kinds) = self::threads();
            for (pid, period) in [(Pid(1), PERIOD), (Pid(2), others)] {
                threads.get_mut(&pid).expect("it is there").beat = Beat { period, work: 4 * MS, ..Beat::default() };
            }
            let hog = vec![Step::Work(work)];
            threads.get_mut(&Pid(3)).expect("it is there").steps = hog.clone();
            always_late(&mut threads, &kinds, 1000 * MS);
            assert_eq!(threads[&Pid(3)].steps != hog, cut, "{why}");
        };
        check(PERIOD, 380 * MS, true, "95 jobs in 100 periods");
        check(PERIOD, 440 * MS, false, "110 jobs in 100 periods");
        check(7 * MS, 380 * MS, false, "the others do not agree");
    }
}
