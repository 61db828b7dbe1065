//! Did deadline tasks finish their jobs in time, and how late were those that did not?

use super::distribution::{Distribution, Summary};
use super::pids::PidTable;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wattif_model::trace::{Event, Interest, Observer, ThreadInfo};
use wattif_model::{CpuId, Ns, Pid};

/// Jobs of deadline tasks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeadlineReport {
    /// Jobs that ended, and those that were late at the end of the run.
    pub jobs: u64,
    /// Of these, late ones.
    pub misses: u64,
    /// In per cent of the jobs.
    pub miss_pct: f64,
    /// How late jobs were, µs; 0 for those in time.
    pub lateness_us: Summary,
}

/// Jobs so far.
#[derive(Clone, Debug)]
struct Jobs {
    misses: u64,
    lateness: Distribution,
}

impl Jobs {
    fn new() -> Jobs {
        Jobs { misses: 0, lateness: Distribution::coarse() }
    }
    fn record(&mut self, lateness_ns: i64) {
        self.misses += u64::from(lateness_ns > 0);
        self.lateness.record(lateness_ns.max(0) as u64);
    }
    fn merge(&mut self, other: &Jobs) {
        self.misses += other.misses;
        self.lateness.merge(&other.lateness);
    }
    fn report(&self) -> Option<DeadlineReport> {
        let (jobs, misses) = (self.lateness.count(), self.misses);
        let miss_pct = misses as f64 / jobs.max(1) as f64 * 100.0;
        (jobs > 0).then(|| DeadlineReport { jobs, misses, miss_pct, lateness_us: self.lateness.summary_us() })
    }
}

/// Listens to the ends of jobs.
#[derive(Clone, Debug, Default)]
pub struct Deadlines(PidTable<(ThreadInfoOf, Option<Jobs>)>);

/// The task a thread is an instance of.
type ThreadInfoOf = String;

impl Deadlines {
    /// Of one thread; `None` if it had no job.
    pub fn of_thread(&self, pid: Pid) -> Option<DeadlineReport> {
        self.0.get(pid)?.1.as_ref()?.report()
    }
    /// Of all threads of each task that had a job.
    pub fn by_task(&self) -> BTreeMap<&str, DeadlineReport> {
        let mut tasks: BTreeMap<&str, Jobs> = BTreeMap::new();
        for (task, jobs) in self.jobs() {
            tasks.entry(task).or_insert_with(Jobs::new).merge(jobs);
        }
        tasks.into_iter().filter_map(|(task, jobs)| Some((task, jobs.report()?))).collect()
    }
    /// Of all threads.
    pub fn overall(&self) -> Option<DeadlineReport> {
        let mut all = Jobs::new();
        self.jobs().for_each(|(_, jobs)| all.merge(jobs));
        all.report()
    }
    /// Threads that had a job, with their task.
    fn jobs(&self) -> impl Iterator<Item = (&str, &Jobs)> {
        self.0.iter().filter_map(|(_, (task, jobs))| Some((task.as_str(), jobs.as_ref()?)))
    }
}

impl Observer for Deadlines {
    fn interest(&self) -> Interest {
        Interest::PROGRAM
    }
    fn thread(&mut self, thread: &ThreadInfo) {
        self.0.entry(thread.pid, || (thread.task.clone(), None)).0.clone_from(&thread.task);
    }
    fn event(&mut self, _at: Ns, _cpu: CpuId, event: &Event) {
        if let Event::DeadlineJob { pid, lateness_ns } = *event
            && let Some((_, jobs)) = self.0.get_mut(pid)
        {
            jobs.get_or_insert_with(Jobs::new).record(lateness_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::*;
    use super::*;

    #[test]
    fn late_jobs_by_thread_task_and_run() {
        let mut d = Deadlines::default();
        for t in [thread(1, "a"), thread(2, "a"), thread(3, "b"), thread(4, "c")] {
            d.thread(&t);
        }
        for (pid, late) in [(1, -500), (1, 2_000), (2, 6_000), (3, 0), (9, 5)] {
            d.event(Ns(1), CpuId(0), &Event::DeadlineJob { pid: Pid(pid), lateness_ns: late });
        }
        let of = |r: Option<DeadlineReport>| r.map(|r| (r.jobs, r.misses, r.lateness_us.max));
        let of_task = |task| of(d.by_task().get(task).cloned());
        assert_eq!(of(d.of_thread(Pid(1))), Some((2, 1, 2.0)));
        assert_eq!(of_task("a"), Some((3, 2, 6.0)));
        assert_eq!(of_task("b"), Some((1, 0, 0.0)), "just in time is in time");
        assert_eq!(of_task("c"), None);
        assert_eq!((of(d.overall()), d.overall().unwrap().miss_pct), (Some((4, 2, 6.0)), 50.0));
    }
}
