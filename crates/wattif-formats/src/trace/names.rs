//! Names of threads by pid, for the writers.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use wattif_model::Pid;
use wattif_model::trace::ThreadInfo;

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
    /// Threads of SCHED_DEADLINE.
    deadline: HashSet<Pid>,
}

impl Names {
    pub fn insert(&mut self, thread: &ThreadInfo) {
        let pid = thread.pid;
        if thread.policy == DEADLINE {
            self.deadline.insert(pid);
        }
        let comm = thread.comm.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
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
            0 if self.deadline.contains(&pid) => -1,
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
