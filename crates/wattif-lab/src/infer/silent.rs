//! CPUs that show no event at all.
//!
//! They may be idle all along, or offline: no thread is sent there then. One that is sent to such a CPU runs where the trace does not show
//! it, and comes back as if it had waited: the trace is of some CPUs of its machine (`trace-cmd report --cpu`, one file of several).

use wattif_model::trace::{Event, Recording};
use wattif_model::{CpuId, CpuSet};

/// So long before the end of a trace, a CPU that a thread is sent to shows something of it.
const SHOWS_NS: u64 = 10_000_000;

/// CPUs without events.
pub(super) fn silent(recording: &Recording) -> CpuSet {
    let seen: CpuSet = recording.records.iter().map(|r| r.cpu).collect();
    (0..recording.nr_cpus as u32).map(CpuId).filter(|cpu| !seen.contains(*cpu)).collect()
}

/// CPUs without events, and how often threads are sent there: `None` where none is, or no CPU shows who runs (no switches). Those that a
/// wake-up begins at (`sched_waking`) are where they were, maybe before the trace.
fn sent(recording: &Recording) -> Option<(CpuSet, usize)> {
    if !recording.records.iter().any(|r| matches!(r.event(), Some(Event::SchedSwitch { .. }))) {
        return None;
    }
    let silent = silent(recording);
    let shown = |r: &&wattif_model::trace::Record| r.at.0.saturating_add(SHOWS_NS) <= recording.end.0;
    let to = recording.records.iter().take_while(shown).filter_map(|r| match r.event()? {
        Event::SchedWakeup { target_cpu, .. } => Some(*target_cpu),
        Event::SchedMigrateTask { dest_cpu, .. } => Some(*dest_cpu),
        _ => None,
    });
    let times = to.filter(|cpu| silent.contains(*cpu)).count();
    (times > 0).then_some((silent, times))
}

/// Does a thread run where the trace shows nothing?
pub(super) fn is_partial(recording: &Recording) -> bool {
    sent(recording).is_some()
}

/// What to say of a trace that is of some CPUs alone.
pub fn unrecorded(recording: &Recording) -> Option<String> {
    sent(recording).map(|(silent, times)| {
        format!(
            "no events of CPUs {silent}, and threads were sent there ({times} times): the trace is of some CPUs of its machine; what \
             threads do there is missing, and is counted as waits and latencies"
        )
    })
}
