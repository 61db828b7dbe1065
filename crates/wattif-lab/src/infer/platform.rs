//! The machine that a trace shows: its CPUs, the frequencies and idle states it used. What a trace cannot show (capacities,
//! latencies, powers) is not invented: all CPUs are equal and no energy is reported.

use std::collections::{BTreeMap, BTreeSet};
use wattif_model::platform::*;
use wattif_model::trace::{Event, Recorded, Recording};
use wattif_model::{ClusterId, CpuId, CpuSet, DomainId};

/// The kernel writes one event a CPU when a clock changes: those of two CPUs that follow each other are not farther apart.
const SAME_CHANGE_NS: u64 = 50_000;

/// A machine of as many CPUs as the trace has.
pub fn platform(recording: &Recording) -> Platform {
    let n = recording.nr_cpus.max(1);
    let groups = clocks(recording, n);
    let mut domain_of = vec![0; n];
    for (d, (cpus, _)) in groups.iter().enumerate() {
        cpus.iter().for_each(|c| domain_of[c.at()] = d as u32);
    }
    let states = states(recording);
    let cpu = |i: usize| Cpu {
        core_type: "unknown".into(),
        core: i as u32,
        cluster: ClusterId(0),
        domain: DomainId(domain_of[i]),
        llc: 0,
        package: 0,
        node: 0,
        capacity: 1024,
        l2: None,
        priority: 0,
    };
    Platform {
        name: "recorded".into(),
        title: format!("as a trace of {n} CPUs shows it"),
        hz: 250,
        cpus: (0..n).map(cpu).collect(),
        domains: groups.into_iter().map(|(cpus, khz)| domain(cpus, &khz)).collect(),
        clusters: vec![Cluster { cpus: CpuSet::first(n), idle: states }],
        smt_share: vec![1024],
        costs: Costs {
            context_switch_ns: 2_000,
            wakeup_ns: 1_500,
            ipi_ns: 2_000,
            timer_irq_ns: 2_000,
            tick_ns: 1_500,
            migration_ns: 5_000,
            migration_llc_ns: 20_000,
            source: "estimated, not of this machine".into(),
        },
        noise: Noise {
            irq_jitter_ns: 1_000,
            work_ppm: 2_000,
            start_spread_ns: 0,
            housekeeping: Vec::new(),
            interrupts: None,
            source: "estimated; background threads are those of the trace".into(),
        },
        power: PowerModel { unit: PowerUnit::Unknown, base_uw: 0, sourced: false },
        timer_slack_ns: 50_000,
        page_kib: 4,
        calibration_cpu: CpuId(0),
        capacity_untold: false,
        far_nodes: false,
        kernel_cpus: CpuSet::default(),
        cpuidle_governor: None,
        drivers: Vec::new(),
        trust: vec![
            "made from the trace: CPUs taken as equal, one cluster, frequencies and idle states as seen".into(),
            "a platform of the machine (-p) is needed for capacities, latencies of idle states and energy".into(),
        ],
    }
}

fn domain(cpus: CpuSet, khz: &BTreeSet<u32>) -> FreqDomain {
    let max = u64::from(khz.last().copied().unwrap_or(1_000_000));
    let capacity = |khz: u32| (1024 * u64::from(khz) / max).max(1) as u32;
    let mut opps: Vec<Opp> = khz.iter().map(|&khz| Opp { khz, capacity: capacity(khz), uv: None }).collect();
    opps.dedup_by_key(|o| o.capacity);
    if let Some(top) = opps.last_mut() {
        (top.khz, top.capacity) = (max as u32, 1024);
    } else {
        opps.push(Opp { khz: 1_000_000, capacity: 1024, uv: None });
    }
    FreqDomain {
        cpus,
        opps,
        transition_latency_ns: 50_000,
        transition_delay_ns: None,
        dt_clock: Default::default(),
        power: PowerTable::default(),
    }
}

/// CPUs whose frequencies always change together, with the frequencies they had.
fn clocks(recording: &Recording, n: usize) -> Vec<(CpuSet, BTreeSet<u32>)> {
    // A CPU's history of changes, stamps rounded: equal histories, one clock.
    let mut history: BTreeMap<usize, Vec<(u64, u32)>> = BTreeMap::new();
    for r in &recording.records {
        if let Recorded::CpuFrequency { cpu, khz } = r.event
            && cpu.at() < n
            // No clock is faster: the field is damaged.
            && (1..=MAX_KHZ).contains(&khz)
        {
            history.entry(cpu.at()).or_default().push((r.at.0, khz));
        }
    }
    let together = |a: &[(u64, u32)], b: &[(u64, u32)]| {
        a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x.1 == y.1 && x.0.abs_diff(y.0) < SAME_CHANGE_NS)
    };
    // The last CPU of each, since the events of a change come one after the other.
    let mut groups: Vec<(usize, CpuSet)> = Vec::new();
    for cpu in 0..n {
        let own = history.get(&cpu);
        let known = groups.iter_mut().find(|(last, _)| match (own, history.get(last)) {
            (Some(a), Some(b)) => together(a, b),
            (None, None) => true,
            _ => false,
        });
        match known {
            Some((last, cpus)) => {
                *last = cpu;
                cpus.insert(CpuId(cpu as u32));
            }
            None => groups.push((cpu, CpuSet::one(CpuId(cpu as u32)))),
        }
    }
    let khz = |cpu: usize| history.get(&cpu).map(|h| h.iter().map(|c| c.1).collect()).unwrap_or_default();
    groups.into_iter().map(|(last, cpus)| (cpus, khz(last))).collect()
}

/// States 0 to the deepest seen, at most ten; latencies as little as there can be.
fn states(recording: &Recording) -> Vec<IdleState> {
    let seen = recording.records.iter().filter_map(|r| match r.event() {
        Some(Event::CpuIdle { state }) if *state < 10 => Some(*state),
        _ => None,
    });
    let deepest = seen.max().unwrap_or(0);
    let state = |i: u32| IdleState {
        name: format!("state{i}"),
        scope: Scope::Cpu,
        polling: false,
        disabled: false,
        advertised: Advertised { exit_ns: 1_000 * u64::from(i + 1), residency_ns: 1_000 * u64::from(i + 1) },
        actual: Actual { entry_ns: 0, exit_ns: 1_000 },
    };
    (0..=deepest).map(state).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattif_model::Ns;
    use wattif_model::trace::Record;

    #[test]
    fn events_of_one_change_come_one_after_the_other() {
        let event = |at, cpu, khz| Record {
            at: Ns(at),
            cpu: CpuId(0),
            current: None,
            event: Recorded::CpuFrequency { cpu: CpuId(cpu), khz },
        };
        let burst = |at: u64, cpus: [u32; 2], khz| cpus.map(|cpu| event(at + 25_000 * u64::from(cpu), cpu, khz));
        let mut records = [burst(0, [0, 1], 900), burst(0, [2, 3], 900)].concat();
        records.extend([burst(1_000_000, [0, 1], 1800), burst(1_500_000, [4, 5], 1800)].concat());
        records.extend(burst(1_000_000, [2, 3], 1800));
        let recording = Recording { nr_cpus: 6, records, ..Recording::default() };
        let cpus: Vec<String> = clocks(&recording, 6).iter().map(|c| c.0.to_string()).collect();
        assert_eq!(cpus, ["0-3", "4-5"]);
    }
}
