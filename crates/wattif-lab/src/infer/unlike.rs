//! Where a recording and the machine it is read for do not fit: frequencies that no event tells, frequencies and idle states that the
//! machine does not have. Something is taken in their place; what, is said.
//!
//! A frequency that the machine does not have is read as it was recorded, since the work done in it goes by the clock: the machine it is
//! read for has it too, with a power between those of its neighbours. The machine that is simulated does not.
//!
//! A domain without any `cpu_frequency` event has a fixed clock, or one that needs no change under the load it has: its highest
//! frequency is taken, whatever other domains do. One whose clock changes is taken at its lowest until it first does.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::platform::{FreqDomain, MAX_KHZ, Opp, Platform};
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

fn is_foreign(opps: &[Opp], khz: u32) -> bool {
    opps.get(nearest(opps, khz)).is_some_and(|o| o.khz.abs_diff(khz) > khz / SAME_KHZ)
}

/// The machine with all clocks that the recording has; of those next to each other one.
pub fn clocked<'a>(recording: &Recording, platform: &'a Platform) -> Cow<'a, Platform> {
    let foreign: BTreeSet<(usize, u32)> = told(recording, platform)
        // No clock is faster: the field is damaged.
        .filter(|&(d, khz)| (1..=MAX_KHZ).contains(&khz) && is_foreign(&platform.domains[d].opps, khz))
        .collect();
    let mut own = Cow::Borrowed(platform);
    for (d, khz) in foreign {
        if is_foreign(&own.domains[d].opps, khz) {
            insert(&mut own.to_mut().domains[d], khz);
        }
    }
    own
}

/// An operating point as fast as its clock; it draws what is between its neighbours, beyond all others what the next one does.
fn insert(d: &mut FreqDomain, khz: u32) {
    let (all, i) = (d.opps.len(), d.opps.partition_point(|o| o.khz < khz));
    let (below, above) = (i.saturating_sub(1), i.min(all - 1));
    let [low, high] = [below, above].map(|i| u64::from(d.opps[i].khz));
    let draws = |row: &mut Vec<u64>| {
        if row.len() == all {
            let [from, to] = [below, above].map(|i| i128::from(row[i]));
            let part = i128::from(u64::from(khz).clamp(low, high) - low);
            row.insert(i, (from + (to - from) * part / i128::from((high - low).max(1))) as u64);
        }
    };
    let power = &mut d.power;
    [&mut power.busy_uw, &mut power.cluster_busy_uw].into_iter().for_each(draws);
    power.idle_uw.iter_mut().chain(&mut power.cluster_idle_uw).for_each(draws);
    let top = &d.opps[all - 1];
    let capacity = u64::from(top.capacity) * u64::from(khz) / u64::from(top.khz.max(1));
    d.opps.insert(i, Opp { khz, capacity: capacity.clamp(1, u32::MAX.into()) as u32, uv: None });
}

/// Frequencies as events tell them, with their domains.
fn told(recording: &Recording, platform: &Platform) -> impl Iterator<Item = (usize, u32)> {
    recording.records.iter().filter_map(|r| match r.event {
        Recorded::CpuFrequency { cpu, khz } => Some((platform.cpus.get(cpu.at())?.domain.at(), khz)),
        _ => None,
    })
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
    let platform = &*clocked(recording, platform);
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
    for (d, khz) in told(recording, platform).filter(|&(d, khz)| is_foreign(&platform.domains[d].opps, khz)) {
        *foreign.entry((d, khz)).or_default() += 1;
    }
    for (id, d) in platform.domains.iter().enumerate() {
        let own: Vec<(u32, u64)> = foreign.range((id, 0)..=(id, u32::MAX)).map(|(key, n)| (key.1, *n)).collect();
        if own.is_empty() {
            continue;
        }
        let mut named: Vec<String> =
            own.iter().take(NAMED).map(|&(khz, n)| format!("{} MHz ({})", khz / 1000, events(n))).collect();
        if let Some(more @ 1..) = own.len().checked_sub(NAMED) {
            named.push(format!("{more} more"));
        }
        all.push(format!(
            "{} has no such frequencies of CPUs {}: {}; read as recorded, with powers between those it has, and not simulated",
            platform.name,
            d.cpus,
            named.join(", ")
        ));
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
        assert!(said[0].1.contains("CPUs 2-3: 9000 MHz (1 event); read as recorded"), "{said:?}");
        assert_eq!(states(&r, &platform), ["bed has no idle state 7 for CPUs 3: 1 event taken as off"]);
    }

    /// Of one between and of one above the machine's; those next to each other are one, and what no clock has is left out.
    #[test]
    fn frequencies_are_read_as_recorded() {
        let mut platform = testbed::platform();
        let d = &mut platform.domains[1];
        (d.opps[0].khz, d.opps[1].khz, d.opps[1].capacity) = (400_000, 5_000_000, 1_000);
        (d.power.busy_uw, d.power.idle_uw) = (vec![100, 2_400], vec![vec![7], vec![8, 31]]);
        let khz = [2_400_000, 2_420_000, 5_500_000, 5_000_000, 0, MAX_KHZ + 1];
        let events: Vec<_> = (0..).zip(khz).map(|(at, khz)| (at, 2, frequency(2, khz))).collect();
        let own = clocked(&recording(&events), &platform);
        let d = &own.domains[1];
        assert_eq!(d.opps.iter().map(|o| o.khz).collect::<Vec<_>>(), [400_000, 2_400_000, 5_000_000, 5_500_000]);
        assert_eq!(d.opps[1..].iter().map(|o| o.capacity).collect::<Vec<_>>(), [480, 1_000, 1_100]);
        assert_eq!(d.power.busy_uw, [100, 1_100, 2_400, 2_400]);
        assert_eq!(d.power.idle_uw, [vec![7], vec![8, 18, 31, 31]]);
        assert_eq!(own.domains[0], platform.domains[0]);
        assert!(matches!(clocked(&recording(&events[3..4]), &platform), Cow::Borrowed(_)));
    }
}
