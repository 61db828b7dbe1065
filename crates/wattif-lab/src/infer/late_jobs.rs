//! What threads do that are late.
//!
//! A periodic thread that is late at times catches up, as who waits for absolute times, or starts again from then on, as who asks for the next period
//! when a job is done. `periods.rs` counts how often each did which; threads of a task do the same. Those that were never late, as who shows
//! nothing, do what more of the workload's tasks do.

use super::play::tasks;
use super::thread::Thread;
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::Pid;
use wattif_model::trace::Recording;

pub(super) struct LateJobs {
    /// Names of tasks whose late threads start again from now.
    pub starting_again: BTreeSet<String>,
    /// Those that were never late catch up.
    pub others_catch_up: bool,
    /// Threads of the workload with a period whose task was late in no job.
    pub never_late: usize,
}

impl LateJobs {
    /// `ours`: the threads of the workload itself.
    pub(super) fn of(threads: &BTreeMap<Pid, Thread>, ours: &[Pid], recording: &Recording) -> LateJobs {
        let task_of = tasks(recording);
        let late = late_jobs(threads, &task_of);
        let is_never_late = |pid: &Pid| threads[pid].beat.period > 0 && late[&task_of(*pid)] == (0, 0);
        let never_late: Vec<Pid> = ours.iter().copied().filter(is_never_late).collect();
        let mut starting_again = starting_again(&late);
        let workload: BTreeSet<String> = ours.iter().map(|pid| task_of(*pid)).collect();
        let default = !ours.iter().all(|pid| is_named_by_rt_app(recording.comm(*pid)));
        let others_catch_up = others_catch_up(&late, |task| workload.contains(task), default);
        if !others_catch_up {
            starting_again.extend(never_late.iter().map(|pid| task_of(*pid)));
        }
        LateJobs { starting_again, others_catch_up, never_late: never_late.len() }
    }
}

/// Tasks whose late threads start again from now: more often than they catch up.
fn starting_again(late: &BTreeMap<String, (u32, u32)>) -> BTreeSet<String> {
    late.iter().filter(|(_, (caught_up, again))| again > caught_up).map(|(task, _)| task.clone()).collect()
}

/// rt-app calls its threads `task-index`.
fn is_named_by_rt_app(comm: &str) -> bool {
    comm.rsplit_once('-').is_some_and(|(_, index)| index.parse::<u32>().is_ok())
}

/// Do more of the workload's tasks that were late catch up than start again? So do those that never were. Where nobody tells: rt-app's threads
/// start again unless they are told otherwise; others wait for absolute times, as who keeps a beat does.
fn others_catch_up(late: &BTreeMap<String, (u32, u32)>, is_workload: impl Fn(&str) -> bool, default: bool) -> bool {
    let of = late.iter().filter(|(task, _)| is_workload(task)).map(|(_, seen)| seen);
    let (mut catch_up, mut again) = (0, 0);
    for (caught_up, started_again) in of {
        catch_up += u32::from(caught_up > started_again);
        again += u32::from(started_again > caught_up);
    }
    if catch_up == again { default } else { catch_up > again }
}

/// By task, after how many late jobs its threads caught up, and started again.
fn late_jobs(threads: &BTreeMap<Pid, Thread>, task_of: impl Fn(Pid) -> String) -> BTreeMap<String, (u32, u32)> {
    let mut seen: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    for (pid, t) in threads {
        let counts = seen.entry(task_of(*pid)).or_default();
        counts.0 += t.beat.caught_up;
        counts.1 += t.beat.started_again;
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_never_late_does_as_the_others() {
        let catch_up = |seen: &[(&str, (u32, u32))]| {
            let late = seen.iter().map(|(task, seen)| (task.to_string(), *seen)).collect();
            [false, true].map(|default| others_catch_up(&late, |task| task != "daemon", default))
        };
        assert_eq!(catch_up(&[("a", (0, 0))]), [false, true], "nobody tells");
        assert_eq!(catch_up(&[("a", (0, 0)), ("b", (3, 1))]), [true; 2]);
        assert_eq!(catch_up(&[("a", (0, 0)), ("b", (1, 3))]), [false; 2]);
        assert_eq!(catch_up(&[("a", (0, 0)), ("b", (9, 1)), ("c", (0, 1))]), [false, true], "one each");
        assert_eq!(catch_up(&[("a", (0, 0)), ("daemon", (3, 1))]), [false, true], "a daemon is another program");
    }

    #[test]
    fn names_of_rt_app() {
        let names = ["ui-0", "a-b-12", "ui-0-0003", "per1_5", "kworker/0:1", "-x", "7"];
        assert_eq!(names.map(is_named_by_rt_app), [true, true, true, false, false, false, false]);
    }
}
