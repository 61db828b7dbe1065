//! Names of threads by pid, for the writers.

use std::borrow::Cow;
use std::collections::HashMap;
use wattif_model::Pid;

/// Pids below this are looked up in a list.
const DENSE: usize = 1 << 16;

/// Names without control characters, which would break lines apart.
#[derive(Default)]
pub(super) struct Names {
    dense: Vec<Option<String>>,
    /// A recording may hold any pid.
    sparse: HashMap<u32, String>,
}

impl Names {
    pub fn insert(&mut self, pid: Pid, comm: &str) {
        let comm = comm.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
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
    /// As the kernel's events have it: the idle task is `swapper/CPU`.
    pub fn comm(&self, pid: Pid, cpu: u32) -> Cow<'_, str> {
        match pid.0 {
            0 => Cow::Owned(format!("swapper/{cpu}")),
            _ => Cow::Borrowed(self.get(pid).unwrap_or("<...>")),
        }
    }
}
