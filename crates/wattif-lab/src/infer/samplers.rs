//! Workers of governors that sample.
//!
//! `ondemand` and `conservative` take their samples in the kernel's workers, one per CPU (`kworker/N:M`), and change clocks from there. A
//! simulation under such a governor has workers of its own, and under another one there are none: they belong to the kernel, not to the
//! workload. A trace is of such a governor if clocks mostly change where a worker runs, or as long after one has run as a change takes. Its
//! workers are those that hardly ever do more than a sample takes.

use super::steps::STRAY_OF;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wattif_model::Pid;
use wattif_model::platform::Platform;
use wattif_model::trace::{Event, Recorded, Recording};

/// Fewer changes of clocks tell nothing; so many of 100 are by workers.
const MIN_CHANGES: usize = 2;
const BY_WORKERS: usize = 80;
/// A change is seen as long after a worker has run as it takes, to so much, ns.
const SEEN_NS: u64 = 5_000;
/// A sample takes less, also on a virtual machine that writes its trace, ns.
const SAMPLE_NS: u64 = 100_000;

/// Since when a worker runs, for how long since it was woken, how often it was, and how often it did more than a sample takes.
#[derive(Default)]
struct Worker {
    since: u64,
    ran: u64,
    woken: usize,
    longer: usize,
}

/// Such workers of a recording.
pub(super) fn workers(recording: &Recording, platform: &Platform) -> BTreeSet<Pid> {
    let pids = recording.threads.keys().map(|pid| Pid(*pid)).filter(|pid| is_worker(recording.comm(*pid)));
    let mut workers: BTreeMap<Pid, Worker> = pids.map(|pid| (pid, Worker::default())).collect();
    if workers.is_empty() {
        return BTreeSet::new();
    }
    let takes_ns = |domain: usize| platform.domains[domain].transition_latency_ns;
    let longest_ns = (0..platform.domains.len()).map(takes_ns).max().unwrap_or(0) + SEEN_NS;
    let mut khz: Vec<Option<u32>> = vec![None; platform.domains.len()];
    let mut by_worker = vec![false; platform.nr_cpus()];
    // When workers have run.
    let mut ran: VecDeque<u64> = VecDeque::new();
    let (mut changes, mut by_workers) = (0, 0);
    for r in &recording.records {
        let Some(here) = by_worker.get_mut(r.cpu.at()) else { continue };
        match r.event {
            Recorded::CpuFrequency { cpu, khz: new } => {
                let Some(domain) = platform.cpus.get(cpu.at()).map(|c| c.domain.at()) else { continue };
                if khz[domain].replace(new).is_some_and(|before| before != new) {
                    let began = r.at.0.saturating_sub(takes_ns(domain));
                    changes += 1;
                    by_workers += usize::from(*here || ran.iter().any(|at| at.abs_diff(began) <= SEEN_NS));
                }
            }
            Recorded::Event(Event::SchedSwitch { prev_pid, prev_state, next_pid, .. }) => {
                if let Some(w) = workers.get_mut(&prev_pid) {
                    w.ran += r.at.0.saturating_sub(w.since);
                    if prev_state.sleeps() {
                        w.woken += 1;
                        w.longer += usize::from(std::mem::take(&mut w.ran) > SAMPLE_NS);
                    }
                    ran.push_back(r.at.0);
                    while ran.front().is_some_and(|at| at + longest_ns < r.at.0) {
                        ran.pop_front();
                    }
                }
                *here = workers.get_mut(&next_pid).map(|w| w.since = r.at.0).is_some();
            }
            _ => {}
        }
    }
    if changes < MIN_CHANGES || by_workers * 100 < changes * BY_WORKERS {
        return BTreeSet::new();
    }
    workers.retain(|_, w| w.longer * STRAY_OF <= w.woken);
    workers.into_keys().collect()
}

/// Is this the name of a worker of one CPU, `kworker/N:M`? Those of high priority (`H`) take no samples.
fn is_worker(comm: &str) -> bool {
    let of = comm.strip_prefix("kworker/").and_then(|rest| rest.split_once(':'));
    of.is_some_and(|(cpu, nth)| {
        let after = nth.trim_start_matches(|c: char| c.is_ascii_digit());
        cpu.parse::<u32>().is_ok() && after.len() < nth.len() && !after.starts_with('H')
    })
}

/// What to say of them.
pub(super) fn told(recording: &Recording, workers: &BTreeSet<Pid>) -> Option<String> {
    super::background::told(
        recording,
        workers,
        "a sampling governor's, of which a replay has its own where it needs them",
    )
}

#[cfg(test)]
mod tests {
    use super::super::super::metrics::testbed::{self, switch};
    use super::*;
    use wattif_model::trace::{PrevState, Record, RecordedThread};
    use wattif_model::{CpuId, Ns};

    const US: u64 = 1_000;

    /// Every 10 ms each of two workers runs for so long, and the clock changes so long after that; who is a governor's?
    fn found(runs_us: [u64; 2], later_us: u64) -> BTreeSet<Pid> {
        let sample = |n: u64| {
            let at = 10_000 * US * n;
            let run = |cpu: u32, us: u64| {
                [
                    (at, cpu, switch(0, 10 + cpu, PrevState::Running)),
                    (at + us * US, cpu, switch(10 + cpu, 0, PrevState::Sleeping)),
                ]
                .map(|(at, cpu, event)| (at, cpu, Recorded::Event(event)))
            };
            let khz = [500_000, 1_000_000][n as usize % 2];
            let changed = (at + (runs_us[0] + later_us) * US, 0, Recorded::CpuFrequency { cpu: CpuId(1), khz });
            [run(0, runs_us[0]), run(1, runs_us[1])].into_iter().flatten().chain([changed]).collect::<Vec<_>>()
        };
        let record = |(at, cpu, event)| Record { at: Ns(at), cpu: CpuId(cpu), current: None, event };
        let mut records: Vec<Record> = (1..40).flat_map(sample).map(record).collect();
        records.sort_by_key(|r| r.at);
        let named = |comm: &str| RecordedThread { comm: comm.into(), ..RecordedThread::default() };
        let threads = [(10, named("kworker/0:1-events")), (11, named("kworker/1:2"))].into();
        let recording = Recording { nr_cpus: 4, end: Ns(1_000_000 * US), records, threads, ..Recording::default() };
        workers(&recording, &testbed::platform())
    }

    #[test]
    fn who_changes_the_clock() {
        let all = BTreeSet::from([Pid(10), Pid(11)]);
        assert_eq!(found([3, 3], 5), all);
        assert_eq!(found([3, 300], 5), BTreeSet::from([Pid(10)]), "it does something else");
        assert_eq!(found([3, 3], 4_000), BTreeSet::new(), "somebody else does");
    }

    #[test]
    fn names_of_workers() {
        let is: Vec<bool> =
            ["kworker/3:1", "kworker/12:0-ev", "kworker/u8:1", "kworker/3:1H", "kworker/3-40", "worker/3:1"]
                .map(is_worker)
                .into();
        assert_eq!(is, [true, true, false, false, false, false]);
    }
}
