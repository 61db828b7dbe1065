//! Names of threads by pid, for the writers.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use wattif_model::Pid;
use wattif_model::trace::ThreadInfo;
use wattif_model::workload::Policy;

pub(super) const DEADLINE: &str = "SCHED_DEADLINE";
/// Priority of the idle task (`init_idle` leaves it).
const SWAPPER: i64 = 120;
/// Pids below this are looked up in a list.
const DENSE: usize = 1 << 16;

/// Names without control characters, which would break lines apart.
#[derive(Default)]
pub(super) struct Names {
    dense: Vec<Option<String>>,
    /// A recording may hold any pid.
    sparse: HashMap<u32, String>,
    /// Threads that have priority 0 only from SCHED_DEADLINE, whose own it is or that lends it to the holder of a mutex.
    deadline: HashSet<Pid>,
    /// Real-time threads, and those of them that were seen with another priority: what is lent to these is more than theirs.
    /// FIDELITY(boost-of-99): a change of a program to real-time priority 99, which is 0 too, is taken for a loan.
    real_time: HashSet<Pid>,
    lesser: RefCell<HashSet<Pid>>,
}

impl Names {
    pub fn insert(&mut self, thread: &ThreadInfo) {
        let pid = thread.pid;
        self.deadline.remove(&pid);
        self.real_time.remove(&pid);
        self.lesser.get_mut().remove(&pid);
        match Policy::by_name(thread.policy) {
            Some(policy) if policy.is_rt() => self.real_time.insert(pid),
            Some(_) => self.deadline.insert(pid),
            None => false, // of a recording, where -1 was seen by the reader
        };
        let comm = clean(&thread.comm);
        if pid.at() >= DENSE {
            self.sparse.insert(pid.0, comm);
            return;
        }
        if self.dense.len() <= pid.at() {
            self.dense.resize(pid.at() + 1, None);
        }
        self.dense[pid.at()] = Some(comm);
    }
    /// Its name, where it was told.
    pub fn get(&self, pid: Pid) -> Option<&str> {
        match pid.at() {
            at if at < DENSE => self.dense.get(at)?.as_deref(),
            _ => self.sparse.get(&pid.0).map(String::as_str),
        }
    }
    /// A priority as the kernel's events have it: that of SCHED_DEADLINE is before all others, the idle task's is of its birth.
    pub fn prio(&self, pid: Pid, prio: u8) -> i64 {
        match prio {
            0 if pid.0 == 0 => SWAPPER,
            0 if self.deadline.contains(&pid) || self.lesser.borrow().contains(&pid) => -1,
            1..100 if self.real_time.contains(&pid) => {
                self.lesser.borrow_mut().insert(pid);
                prio.into()
            }
            _ => prio.into(),
        }
    }
    /// As the kernel's events have it: the idle task is `swapper/CPU`.
    pub fn comm(&self, pid: Pid, cpu: u32) -> Cow<'_, str> {
        match pid.0 {
            0 => Cow::Owned(format!("swapper/{cpu}")),
            _ => Cow::Borrowed(self.get(pid).unwrap_or("<...>")),
        }
    }
}

/// A name without control characters.
pub(super) fn clean(comm: &str) -> String {
    comm.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattif_model::trace::Asked;

    #[test]
    fn a_deadline_tasks_priority_is_lent() {
        let mut names = Names::default();
        for (pid, policy) in [(1, DEADLINE), (2, "SCHED_OTHER"), (3, "SCHED_FIFO"), (4, "SCHED_FIFO"), (5, "")] {
            let comm = format!("t{pid}");
            let (task, group, dl) = (comm.clone(), 0, None);
            names.insert(&ThreadInfo {
                pid: Pid(pid),
                task,
                comm,
                policy,
                workload: true,
                group,
                dl,
                asked: Asked::default(),
                cpus: None,
            });
        }
        let prio = |pid, prio| names.prio(Pid(pid), prio);
        assert_eq!([prio(0, 0), prio(1, 0), prio(2, 120), prio(2, 0)], [120, -1, 120, -1]);
        assert_eq!([prio(3, 0), prio(3, 0), prio(5, 0)], [0; 3], "a stopper, and who is untold");
        assert_eq!([prio(4, 49), prio(4, 0), prio(4, 49)], [49, -1, 49]);
    }
}
