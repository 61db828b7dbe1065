//! What a recording says of the load balancer: kernels have no tracepoint for its passes.

use super::play::Missing;
use wattif_model::CpuSet;
use wattif_model::trace::{Event, Recorded, Recording};

/// Passes of the balancer are missing where the recording has none.
pub fn no_passes(recording: &Recording) -> Option<Missing> {
    let told = |e: &Recorded| matches!(e, Recorded::Event(Event::BalancePass(_) | Event::BalanceMoved { .. }));
    let none = !recording.records.iter().any(|r| told(&r.event));
    none.then(|| Missing {
        figures: "balance.passes, moved, cost_s",
        why: "no events of the load balancer's passes".into(),
        derived: false,
        cpus: CpuSet::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Metrics, testbed};
    use wattif_model::trace::Record;
    use wattif_model::{CpuId, Ns};

    #[test]
    fn passes_that_no_event_tells_are_not_zero() {
        let figures = |events: &[Event]| {
            let record = |e: &Event| Record { at: Ns(1), cpu: CpuId(0), current: None, event: Recorded::Event(*e) };
            let recording = Recording { records: events.iter().map(record).collect(), ..Recording::default() };
            let mut metrics = Metrics::for_trace(&testbed::platform(), &[]);
            super::super::play(&recording, &testbed::platform(), &mut metrics);
            let b = metrics.into_report().metrics.balance.expect("it is there");
            (b.passes, b.moved, b.cost_s.is_some(), no_passes(&recording).is_some())
        };
        assert_eq!(figures(&[testbed::waking(7)]), (None, None, false, true));
        assert_eq!(figures(&[Event::BalanceMoved { tasks: 2 }]), (Some(0), Some(2), true, false));
    }
}
