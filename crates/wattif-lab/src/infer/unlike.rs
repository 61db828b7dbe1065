//! Where a recording and the machine it is read for do not fit: frequencies that no event tells, frequencies and idle states that the
//! machine does not have. Something is taken in their place; what, is said.
//!
//! A domain without any `cpu_frequency` event has a fixed clock, or one that needs no change under the load it has: its highest
//! frequency is taken, whatever other domains do. One whose clock changes is taken at its lowest until it first does.

use std::collections::BTreeMap;
use wattif_model::platform::{Opp, Platform};
use wattif_model::trace::{Event, Recorded, Recording};
use wattif_model::{CpuSet, Ns};

/// A frequency that is off by more is not one of the machine's, in so many parts of itself.
const SAME_KHZ: u32 = 50;
/// What is without events for more than one in so many parts of the trace is spoken of.
pub(super) const LATE: u64 = 100;
/// Of a list so many are named.
pub(super) const NAMED: usize = 4;

/// The operating point next to a frequency.
pub(super) fn nearest(opps: &[Opp], khz: u32) -> usize {
    (0..opps.len()).min_by_key(|&i| opps[i].khz.abs_diff(khz)).unwrap_or(0)
}

/// When each domain's first `cpu_frequency` event is.
fn told_since(recording: &Recording, platform: &Platform) -> Vec<Option<Ns>> {
    let mut since = vec![None; platform.domains.len()];
    for r in &recording.records {
        if let Recorded::CpuFrequency { cpu, .. } = r.event
            && let Some(c) = platform.cpus.get(cpu.at())
        {
            since[c.domain.at()].get_or_insert(r.at);
        }
    }
    since
}

/// CPUs of the domains without any event.
pub(super) fn untold(recording: &Recording, platform: &Platform) -> impl Iterator<Item = CpuSet> {
    let since = told_since(recording, platform).into_iter().zip(&platform.domains);
    since.filter(|(since, _)| since.is_none()).map(|(_, d)| d.cpus.clone())
}

/// The operating point each domain is taken to have before its first event.
pub(super) fn first_opps(recording: &Recording, platform: &Platform) -> Vec<usize> {
    let first = |(d, since): (usize, Option<Ns>)| match since {
        Some(_) => 0,
        None => platform.domains[d].opps.len().saturating_sub(1),
    };
    told_since(recording, platform).into_iter().enumerate().map(first).collect()
}

/// What frequencies are taken for; of domains without any event, with their CPUs.
pub(super) fn frequencies(recording: &Recording, platform: &Platform) -> Vec<(CpuSet, String)> {
    let mut all = unknown(recording, platform);
    all.extend(foreign(recording, platform).into_iter().map(|why| (CpuSet::default(), why)));
    all
}

/// Those that no event tells, of all the trace or of its beginning.
fn unknown(recording: &Recording, platform: &Platform) -> Vec<(CpuSet, String)> {
    let mut all: Vec<(CpuSet, String)> = Vec::new();
    let since = told_since(recording, platform);
    for (d, since) in platform.domains.iter().zip(&since).filter(|(d, _)| d.opps.len() > 1) {
        let (low, high) = (d.opps[0].khz / 1000, d.opps[d.opps.len() - 1].khz / 1000);
        match since {
            None => {
                let why = format!("no cpu_frequency events of CPUs {}: taken as at {high} MHz, their highest", d.cpus);
                all.push((d.cpus.clone(), why));
            }
            Some(at) if at.0 > recording.end.0 / LATE => {
                let why = format!(
                    "CPUs {} are taken as at {low} MHz, their lowest, until their first cpu_frequency event at {:.3} s",
                    d.cpus,
                    at.as_s_f64()
                );
                all.push((CpuSet::default(), why));
            }
            Some(_) => {}
        }
    }
    all
}

/// Those that the machine does not have.
fn foreign(recording: &Recording, platform: &Platform) -> Vec<String> {
    let mut all = Vec::new();
    let mut foreign: BTreeMap<(usize, u32), u64> = BTreeMap::new();
    for r in &recording.records {
        if let Recorded::CpuFrequency { cpu, khz } = r.event
            && let Some(c) = platform.cpus.get(cpu.at())
        {
            let opps = &platform.domains[c.domain.at()].opps;
            if opps.get(nearest(opps, khz)).is_some_and(|o| o.khz.abs_diff(khz) > khz / SAME_KHZ) {
                *foreign.entry((c.domain.at(), khz)).or_default() += 1;
            }
        }
    }
    for (id, d) in platform.domains.iter().enumerate() {
        let own: Vec<(u32, u64)> = foreign.range((id, 0)..=(id, u32::MAX)).map(|(key, n)| (key.1, *n)).collect();
        if own.is_empty() {
            continue;
        }
        let taken = |khz: u32| d.opps[nearest(&d.opps, khz)].khz / 1000;
        let mut named: Vec<String> = own
            .iter()
            .take(NAMED)
            .map(|&(khz, n)| format!("{} MHz ({}) as {}", khz / 1000, events(n), taken(khz)))
            .collect();
        if let Some(more @ 1..) = own.len().checked_sub(NAMED) {
            named.push(format!("{more} more"));
        }
        all.push(format!("{} has other frequencies for CPUs {}: taken {}", platform.name, d.cpus, named.join(", ")));
    }
    all
}

/// What idle states are taken for.
pub(super) fn states(recording: &Recording, platform: &Platform) -> Vec<String> {
    let mut foreign: BTreeMap<(u32, &str), (CpuSet, u64)> = BTreeMap::new();
    for r in recording.records.iter().filter(|r| r.cpu.at() < platform.nr_cpus()) {
        let states = platform.idle_states(r.cpu);
        if let Some(&Event::CpuIdle { state }) = r.event()
            && state != Event::IDLE_EXIT
            && let Some(deepest) = states.last().filter(|_| state as usize >= states.len())
        {
            let (cpus, n) = foreign.entry((state, &deepest.name)).or_default();
            cpus.insert(r.cpu);
            *n += 1;
        }
    }
    let say = |((state, name), (cpus, n)): ((u32, &str), (CpuSet, u64))| {
        format!("{} has no idle state {state} for CPUs {cpus}: {} taken as {name}", platform.name, events(n))
    };
    foreign.into_iter().map(say).collect()
}

fn events(n: u64) -> String {
    format!("{n} event{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::super::super::metrics::testbed;
    use super::*;
    use wattif_model::CpuId;
    use wattif_model::trace::Record;

    fn recording(events: &[(u64, u32, Recorded)]) -> Recording {
        let record = |&(at, cpu, event)| Record { at: Ns(at), cpu: CpuId(cpu), current: None, event };
        Recording { records: events.iter().map(record).collect(), nr_cpus: 4, end: Ns(1_000), ..Recording::default() }
    }
    fn frequency(cpu: u32, khz: u32) -> Recorded {
        Recorded::CpuFrequency { cpu: CpuId(cpu), khz }
    }

    #[test]
    fn a_domain_without_events_does_not_depend_on_others() {
        let platform = testbed::platform();
        let khz = platform.domains[0].opps[0].khz;
        assert_eq!(first_opps(&recording(&[]), &platform), [1, 1]);
        let r = recording(&[(500, 3, frequency(0, khz))]);
        assert_eq!(first_opps(&r, &platform), [0, 1]);
        let said = frequencies(&r, &platform);
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].1.contains("CPUs 0-1") && said[0].1.contains("lowest, until"), "{said:?}");
        assert!(said[1].1.contains("of CPUs 2-3") && said[1].1.contains("highest"), "{said:?}");
        let cpus: Vec<String> = said.iter().map(|(cpus, _)| cpus.to_string()).collect();
        assert_eq!(cpus, ["", "2-3"]);
    }

    #[test]
    fn what_the_machine_does_not_have_is_said() {
        let platform = testbed::platform();
        let khz = platform.domains[0].opps[0].khz;
        let idle = |state| Recorded::Event(Event::CpuIdle { state });
        let events = [(0, 0, frequency(0, khz * 99 / 100)), (0, 0, frequency(2, 9_000_000)), (1, 3, idle(7))];
        let r = recording(&[&events[..], &[(2, 3, idle(Event::IDLE_EXIT)), (3, 3, idle(1))]].concat());
        let said = frequencies(&r, &platform);
        assert_eq!(said.len(), 1, "a rounded frequency is the machine's: {said:?}");
        assert!(said[0].1.contains("CPUs 2-3: taken 9000 MHz (1 event) as"), "{said:?}");
        assert_eq!(states(&r, &platform), ["bed has no idle state 7 for CPUs 3: 1 event taken as off"]);
    }
}
