//! Clocks of CPUs that are apart.
//!
//! A tracer stamps each event by the clock of the CPU that it is on. Where these are apart, effects come before their causes: a thread
//! that slept is switched in on one CPU, and only then, by the stamps, woken on another. A thread that was woken while it ran needs no
//! other wake-up: it was on its way to sleep. Clocks that are apart the other way make wake-ups early, which does not show.

use std::collections::BTreeMap;
use wattif_model::trace::{Event, Recording};
use wattif_model::{CpuId, Ns, Pid};

/// A thread that is woken twice within the time that clocks are apart may count for one that was woken much later: of 100, so many tell
/// how far they are.
const MOST: usize = 90;

/// What is known of a thread.
#[derive(Clone, Copy, Default)]
struct Seen {
    asleep: bool,
    /// Since it was switched in last.
    woken: bool,
    /// It runs since then, there, and nobody had woken it.
    unwoken: Option<(Ns, CpuId)>,
}

/// What to say of wake-ups that come late.
pub fn skewed(recording: &Recording) -> Option<String> {
    let has_waking = recording.counts().contains_key("sched_waking");
    let mut threads: BTreeMap<Pid, Seen> = BTreeMap::new();
    let (mut wakings, mut late) = (0u64, Vec::new());
    for r in &recording.records {
        match r.event() {
            Some(&Event::SchedSwitch { prev_pid, prev_state, next_pid, .. }) => {
                let prev = threads.entry(prev_pid).or_default();
                (prev.asleep, prev.unwoken) = (prev_state.sleeps(), None);
                let next = threads.entry(next_pid).or_default();
                let unwoken = next.asleep && !next.woken && next_pid.0 != 0;
                *next = Seen { unwoken: unwoken.then_some((r.at, r.cpu)), ..Seen::default() };
            }
            Some(Event::SchedWaking { pid, .. }) | Some(Event::SchedWakeup { pid, .. })
                if has_waking == matches!(r.event(), Some(Event::SchedWaking { .. })) =>
            {
                wakings += 1;
                let woken = threads.entry(*pid).or_default();
                match woken.unwoken.take() {
                    Some((at, cpu)) if cpu != r.cpu && at < r.at => late.push(r.at - at),
                    _ => woken.woken = true,
                }
            }
            _ => {}
        }
    }
    late.sort_unstable();
    let most = *late.get((late.len() * MOST).div_ceil(100).checked_sub(1)?)?;
    Some(format!(
        "{} of {wakings} wake-ups are stamped after their thread began to run on another CPU, {MOST} % of them by {:.1} µs at most: the \
         clocks of the CPUs are apart, and those threads count as woken by nobody (trace-cmd record -C mono)",
        late.len(),
        most as f64 / 1e3
    ))
}

#[cfg(test)]
mod tests {
    use super::super::super::metrics::testbed;
    use super::*;
    use wattif_model::trace::{PrevState, Record, Recorded};

    fn told(events: &[(u64, u32, Event)]) -> Option<String> {
        let record = |&(us, cpu, event): &(u64, u32, Event)| Record {
            at: Ns::from_us(us),
            cpu: CpuId(cpu),
            current: None,
            event: Recorded::Event(event),
        };
        skewed(&Recording { records: events.iter().map(record).collect(), nr_cpus: 2, ..Recording::default() })
    }

    /// Thread 7 sleeps on CPU 1 and comes back there at 100 µs.
    fn sleeper(wakings: &[(u64, u32, Event)]) -> Vec<(u64, u32, Event)> {
        let mut all = vec![
            (1, 1, testbed::switch(0, 7, PrevState::Running)),
            (9, 1, testbed::switch(7, 0, PrevState::Sleeping)),
            (100, 1, testbed::switch(0, 7, PrevState::Running)),
            (150, 1, testbed::switch(7, 0, PrevState::Sleeping)),
        ];
        all.extend_from_slice(wakings);
        all.sort_by_key(|e| e.0);
        all
    }

    #[test]
    fn wake_ups_after_the_fact() {
        for wake in [testbed::waking, testbed::wakeup] {
            let said = told(&sleeper(&[(103, 0, wake(7)), (160, 0, wake(8))])).unwrap();
            assert!(
                said.starts_with("1 of 2 wake-ups are stamped after") && said.contains("by 3.0 µs at most"),
                "{said}"
            );
        }
        let both = [(104, 0, testbed::waking(7)), (105, 1, testbed::wakeup(7))];
        assert!(told(&sleeper(&both)).unwrap().starts_with("1 of 1 "), "each wake-up once");
    }

    #[test]
    fn wake_ups_that_are_as_they_should_be() {
        let none = |wakings: &[(u64, u32, Event)]| assert_eq!(told(&sleeper(wakings)), None, "{wakings:?}");
        none(&[(99, 0, testbed::waking(7))]);
        none(&[(99, 0, testbed::waking(7)), (103, 0, testbed::waking(7))]);
        none(&[(8, 0, testbed::waking(7)), (103, 0, testbed::waking(7))]);
        none(&[(103, 1, testbed::waking(7))]);
        none(&[(170, 0, testbed::waking(7))]);
    }
}
