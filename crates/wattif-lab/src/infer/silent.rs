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

/// How often threads are sent to CPUs without events. Those that a wake-up begins at (`sched_waking`) are where they were, maybe before the trace.
fn sent(recording: &Recording, silent: &CpuSet) -> usize {
    let shown = |r: &&wattif_model::trace::Record| r.at.0.saturating_add(SHOWS_NS) <= recording.end.0;
    let to = recording.records.iter().take_while(shown).filter_map(|r| match r.event()? {
        Event::SchedWakeup { target_cpu, .. } => Some(*target_cpu),
        Event::SchedMigrateTask { dest_cpu, .. } => Some(*dest_cpu),
        _ => None,
    });
    to.filter(|cpu| silent.contains(*cpu)).count()
}

/// Does a thread run where the trace shows nothing? Without switches no CPU shows who runs.
pub(super) fn is_partial(recording: &Recording) -> bool {
    let switches = recording.records.iter().any(|r| matches!(r.event(), Some(Event::SchedSwitch { .. })));
    switches && sent(recording, &silent(recording)) > 0
}

/// What to say of a trace that is of some CPUs alone.
pub fn unrecorded(recording: &Recording) -> Option<String> {
    is_partial(recording).then(|| {
        let silent = silent(recording);
        format!(
            "no events of CPUs {silent}, and threads were sent there ({} times): the trace is of some CPUs of its machine; what threads \
             do there is missing, and is counted as waits and latencies",
            sent(recording, &silent)
        )
    })
}
