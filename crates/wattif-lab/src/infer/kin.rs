//! Threads that are alike, and what they tell of each other.
//!
//! Threads of one *kind* run one program: their names differ in numbers at their ends alone. A kind is asked what one of them does, where others
//! show it: how long its pieces of work are, what it waits for, whom it answers. Threads of one *family* may stand in for each other:
//! they have one name, or number the threads of their process behind one. A family is asked whether any of its threads may take what one of them
//! got: a request, an interrupt, a CPU.
//!
//! A thread that never sleeps shows no period, and one that is late nearly always no job. Where others of its kind have one beat, it has that
//! one, too.

use super::periods::{self, Beat, slop};
use super::play::tasks;
use super::steps::Step;
use super::thread::Thread;
use std::collections::BTreeMap;
use wattif_model::Pid;
use wattif_model::trace::Recording;

/// Fewer wake-ups among threads of a kind make no stages of them.
const MIN_STAGED: usize = 5;
/// Fewer that have the same beat do not tell that of others.
const MIN_KIN: usize = 2;

/// The kind of each thread.
pub(super) type Kinds = BTreeMap<Pid, String>;
/// The family of each thread: a name, and the process where others may have that.
pub(super) type Families = BTreeMap<Pid, (String, u32)>;

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

/// Names of threads, but for numbers at their ends.
pub(super) fn kinds(threads: &BTreeMap<Pid, Thread>, task: impl Fn(Pid) -> String) -> Kinds {
    let kind = |pid: &Pid| (*pid, task(*pid).trim_end_matches(|c: char| c.is_ascii_digit()).to_string());
    threads.keys().map(kind).collect()
}

/// The same, but that threads of a kind are of one each, by their whole names, where those of other numbers are woken by them: stages of a pipeline.
pub(super) fn apart(threads: &BTreeMap<Pid, Thread>, kinds: &Kinds, task: impl Fn(Pid) -> String) -> Kinds {
    let names: BTreeMap<Pid, String> = threads.keys().map(|pid| (*pid, task(*pid))).collect();
    let mut wakes: BTreeMap<&str, usize> = BTreeMap::new();
    for (pid, t) in threads {
        let alike = |to: &Pid| kinds.get(to) == Some(&kinds[pid]) && names[to] != names[pid];
        let posts = t.steps.iter().filter_map(Step::wakes).filter(alike);
        *wakes.entry(&kinds[pid]).or_default() += posts.count();
    }
    let name = |(pid, kind): (&Pid, &String)| {
        let is_apart = wakes[kind.as_str()] >= MIN_STAGED;
        (*pid, if is_apart { &names[pid] } else { kind }.clone())
    };
    kinds.iter().filter(|(pid, _)| threads.contains_key(pid)).map(name).collect()
}

/// What threads of a pool share: their name, where others have it too; else the name without its number, and the process where it
/// is known. Of `python3` and `python3` the number is no thread's.
pub(super) fn families(recording: &Recording, threads: &BTreeMap<Pid, Thread>) -> Families {
    let task = tasks(recording);
    let names: Vec<(Pid, String)> = threads.keys().map(|pid| (*pid, task(*pid))).collect();
    let mut many: BTreeMap<&str, u32> = BTreeMap::new();
    names.iter().for_each(|(_, name)| *many.entry(name).or_default() += 1);
    let family = |(pid, name): &(Pid, String)| match stem(name).filter(|_| many[name.as_str()] == 1) {
        Some(stem) => (*pid, (stem.into(), recording.threads.get(&pid.0).map_or(0, |t| t.tgid))),
        None => (*pid, (name.clone(), 0)),
    };
    names.iter().map(family).collect()
}

/// Families of these names.
#[cfg(test)]
pub(super) fn of_names(threads: &BTreeMap<Pid, Thread>, name: impl Fn(Pid) -> &'static str) -> Families {
    threads.keys().map(|pid| (*pid, (name(*pid).into(), 0))).collect()
}

/// A name without its last number and what joins it.
fn stem(name: &str) -> Option<&str> {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let joined = stem.trim_end_matches(['-', '_', '/', ':', '#', ' ', '.']);
    (stem != name && !joined.is_empty()).then_some(joined)
}

/// Cuts the work of threads without a beat into jobs, where others of their kind agree on one.
pub(super) fn always_late(threads: &mut BTreeMap<Pid, Thread>, kinds: &Kinds, end: u64) {
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
    fn threads() -> (BTreeMap<Pid, Thread>, Kinds) {
        let thread = |pid: u32| {
            let job = |i: u64| [Step::Timer { until: i * PERIOD, since: i * PERIOD - 6 * MS }, Step::Work(4 * MS)];
            let mut t = Thread::new(120);
            t.steps = (1..60).flat_map(job).collect();
            (Pid(pid), t)
        };
        ((1..4).map(thread).collect(), (1..4).map(|pid| (Pid(pid), "job".to_string())).collect())
    }

    #[test]
    fn names_without_their_number() {
        let names = ["worker-12", "Binder:594_3", "pool-1-thread-3", "httpd", "42", "a 2"];
        assert_eq!(names.map(stem), [Some("worker"), Some("Binder:594"), Some("pool-1-thread"), None, None, Some("a")]);
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
