//! Jobs: from a wake-up to the next sleep.

use super::history::{Stint, Thread, Wake};
use std::collections::BTreeMap;

/// A job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// `sched_waking` (`sched_wakeup` where that is missing), ns.
    pub at: u64,
    /// Switch-out into sleep, ns.
    pub end: u64,
    /// CPU time, ns.
    pub cpu_ns: u64,
    /// CPU time by cluster, ns, of those it ran on.
    pub by_cluster: BTreeMap<String, u64>,
    /// From its beginning to the first stint on a big CPU, ns.
    pub to_big_ns: Option<u64>,
}

/// The jobs of a thread; those that end with the thread or with the trace do not count.
pub fn jobs(thread: &Thread, wakes: &[Wake], clusters: &BTreeMap<String, Vec<u32>>) -> Vec<Job> {
    let mut found = Vec::new();
    let mut first = 0;
    for wake in wakes {
        let Some(at) = wake.waking.or(wake.wakeup) else { continue };
        while thread.stints.get(first).is_some_and(|s| s.start < wake.ran) {
            first += 1;
        }
        found.extend(job(at, &thread.stints[first..], clusters));
    }
    found
}

fn job(at: u64, stints: &[Stint], clusters: &BTreeMap<String, Vec<u32>>) -> Option<Job> {
    let last = stints.iter().position(|s| !s.preempted())?;
    let end = stints[last];
    if matches!(end.out, 'X' | 'Z' | '?') {
        return None;
    }
    let stints = &stints[..=last];
    let mut by_cluster = BTreeMap::new();
    for s in stints {
        for (name, _) in clusters.iter().filter(|(_, cpus)| cpus.contains(&s.cpu)) {
            *by_cluster.entry(name.clone()).or_insert(0) += s.end - s.start;
        }
    }
    let big = |s: &&Stint| clusters.get("big").is_some_and(|cpus| cpus.contains(&s.cpu));
    let to_big_ns = stints.iter().find(big).map(|s| s.start.saturating_sub(at));
    let cpu_ns = stints.iter().map(|s| s.end - s.start).sum();
    Some(Job { at, end: end.end, cpu_ns, by_cluster, to_big_ns })
}
