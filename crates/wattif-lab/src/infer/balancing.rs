//! What a recording says of the load balancer: kernels have no tracepoint for its passes.

use super::play::Missing;
use wattif_model::CpuSet;
use wattif_model::trace::{Event, Recorded, Recording};

/// Passes of the balancer are missing where the recording has none.
pub fn no_passes(recording: &Recording) -> Option<Missing> {
    let told: fn(&Recorded) -> bool =
        |e| matches!(e, Recorded::Event(Event::BalancePass(_) | Event::BalanceMoved { .. }));
    let any = |of: fn(&Recorded) -> bool| recording.records.iter().any(|r| of(&r.event));
    let why = match any(|e| matches!(e, Recorded::Event(Event::Balance(_)))) {
        true => "of the load balancer's passes a trace has only those that found something (wattif_balance)",
        false => "no events of the load balancer's passes",
    };
    (!any(told)).then(|| Missing {
        figures: "balance.passes, moved, cost_s",
        why: why.into(),
        derived: false,
        cpus: CpuSet::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Metrics, testbed};
    use wattif_model::trace::{BalanceChoice, BalanceKind, Record};
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

    #[test]
    fn passes_that_found_something_are_told_from_none() {
        let why = |event: Event| {
            let record = Record { at: Ns(1), cpu: CpuId(0), current: None, event: Recorded::Event(event) };
            no_passes(&Recording { records: vec![record], ..Recording::default() }).unwrap().why
        };
        let choice =
            BalanceChoice { kind: BalanceKind::NewIdle, dst_cpu: CpuId(0), src_cpu: CpuId(1), moved: 1, imbalance: 1 };
        assert!(why(Event::Balance(choice)).contains("only those that found something (wattif_balance)"));
        assert_eq!(why(testbed::waking(7)), "no events of the load balancer's passes");
    }
}
