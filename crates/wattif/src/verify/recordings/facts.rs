//! Platform facts (`wattif-platform-facts/1`, JSON) of the machines that were recorded, as a [`Platform`].
//!
//! The facts say everything but how long the kernel's own paths take. Those are `guest_costs`.

use serde::Deserialize;
use std::collections::BTreeMap;
use wattif_model::platform::{
    Actual, Advertised, Cluster, Costs, Cpu, FreqDomain, IdleState, Noise, Opp, Platform, PowerModel, PowerTable,
    PowerUnit, Scope,
};
use wattif_model::{ClusterId, CpuId, CpuSet, DomainId};

const SCHEMA: &str = "wattif-platform-facts/1";
/// More CPUs than this are not a recorded machine.
const MAX_CPUS: usize = 1024;

#[derive(Debug, Deserialize)]
struct Facts {
    schema: String,
    name: String,
    title: String,
    nr_cpus: usize,
    #[serde(default)]
    smt: Option<u32>,
    cpus: Vec<CpuFacts>,
    #[serde(default)]
    clusters: Vec<ClusterFacts>,
    llc: Vec<Vec<u32>>,
    numa: Vec<Vec<u32>>,
    freq_domains: Vec<DomainFacts>,
    #[serde(default)]
    schedutil: Option<SchedutilFacts>,
    idle: BTreeMap<String, Vec<IdleFacts>>,
    timer_slack_us: u64,
    #[serde(default)]
    time_quantum_us: u64,
    #[serde(default)]
    scheduler: Option<SchedulerFacts>,
}

#[derive(Debug, Deserialize)]
struct CpuFacts {
    id: usize,
    core: String,
    freq_domain: String,
}

#[derive(Debug, Deserialize)]
struct ClusterFacts {
    cpus: Vec<u32>,
}

#[derive(Debug, Deserialize)]
struct DomainFacts {
    id: String,
    cpus: Vec<u32>,
    cpu_capacity: u32,
    #[serde(default)]
    transition_latency_ns: u64,
    opps: Vec<OppFacts>,
}

#[derive(Debug, Deserialize)]
struct OppFacts {
    khz: u32,
    capacity: u32,
    #[serde(default)]
    power_uw: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct SchedutilFacts {
    rate_limit_us: u64,
}

#[derive(Debug, Deserialize)]
struct SchedulerFacts {
    hz: u32,
}

#[derive(Debug, Deserialize)]
struct IdleFacts {
    name: String,
    scope: Scope,
    #[serde(default)]
    kernel_exit_latency_us: u64,
    #[serde(default)]
    kernel_target_residency_us: u64,
    #[serde(default)]
    entry_us: u64,
    #[serde(default)]
    exit_us: u64,
}

/// Reads facts; an error names line and column, or what contradicts itself.
pub fn parse(text: &str) -> Result<Platform, String> {
    let facts: Facts = serde_json::from_str(text).map_err(|e| e.to_string())?;
    if facts.schema != SCHEMA {
        return Err(format!("schema is `{}`, not `{SCHEMA}`", facts.schema));
    }
    if facts.nr_cpus == 0 || facts.nr_cpus > MAX_CPUS || facts.cpus.len() != facts.nr_cpus {
        return Err(format!("nr_cpus is {}, but {} CPUs are listed", facts.nr_cpus, facts.cpus.len()));
    }
    platform(&facts)
}

fn platform(facts: &Facts) -> Result<Platform, String> {
    let domains: Vec<FreqDomain> = facts.freq_domains.iter().map(|d| domain(facts, d)).collect::<Result<_, _>>()?;
    let spans = cluster_spans(facts);
    let clusters = spans.iter().map(|cpus| cluster(facts, cpus)).collect::<Result<Vec<_>, _>>()?;
    let cpus = (0..facts.nr_cpus).map(|c| cpu(facts, &spans, c)).collect::<Result<Vec<_>, _>>()?;
    let fastest = (0..cpus.len()).max_by_key(|&c| (cpus[c].capacity, std::cmp::Reverse(c))).unwrap_or(0);
    Ok(Platform {
        name: facts.name.clone(),
        title: facts.title.clone(),
        hz: facts.scheduler.as_ref().map_or(250, |s| s.hz),
        domains,
        clusters,
        smt_share: vec![1024; facts.smt.unwrap_or(1).max(1) as usize],
        costs: guest_costs(facts.time_quantum_us),
        noise: Noise {
            irq_jitter_ns: 0,
            work_ppm: 0,
            start_spread_ns: 0,
            housekeeping: Vec::new(),
            interrupts: None,
            source: "deterministic virtual time".into(),
        },
        power: PowerModel { unit: power_unit(facts), base_uw: 0, sourced: false },
        timer_slack_ns: facts.timer_slack_us * 1000,
        page_kib: 4,
        calibration_cpu: CpuId(fastest as u32),
        trust: vec!["the machine is defined, not measured; path lengths are means of the recordings".into()],
        capacity_untold: false,
        far_nodes: false,
        kernel_cpus: CpuSet::default(),
        cpuidle_governor: None,
        drivers: Vec::new(),
        cpus,
    })
}

/// Path lengths of a guest of 1 GIPS with tracing on, as its recordings show them: a switch takes 2 to 3 µs, the way from
/// a timer's expiry to its thread about 8. Another CPU sees an interrupt half a quantum later on average.
fn guest_costs(quantum_us: u64) -> Costs {
    Costs {
        context_switch_ns: 2_500,
        wakeup_ns: 2_000,
        ipi_ns: quantum_us * 500,
        timer_irq_ns: 3_000,
        tick_ns: 2_000,
        migration_ns: 0,
        migration_llc_ns: 0,
        source: "path lengths seen in the recordings; no cache model".into(),
    }
}

fn power_unit(facts: &Facts) -> PowerUnit {
    let known = facts.freq_domains.iter().all(|d| d.opps.iter().all(|o| o.power_uw.is_some()));
    if known { PowerUnit::EnergyModel } else { PowerUnit::Unknown }
}

fn set(facts: &Facts, cpus: &[u32]) -> Result<CpuSet, String> {
    match cpus.iter().find(|c| **c as usize >= facts.nr_cpus) {
        Some(cpu) => Err(format!("CPU {cpu} is named, but there are only {}", facts.nr_cpus)),
        None => Ok(cpus.iter().map(|c| CpuId(*c)).collect()),
    }
}

fn domain(facts: &Facts, d: &DomainFacts) -> Result<FreqDomain, String> {
    let ascending = d.opps.windows(2).all(|w| w[0].khz < w[1].khz && w[0].capacity <= w[1].capacity);
    if d.opps.is_empty() || !ascending || d.cpus.is_empty() {
        return Err(format!("frequency domain `{}` needs CPUs, and operating points in ascending order", d.id));
    }
    if d.cpu_capacity == 0 || d.cpu_capacity > 1024 || d.opps.iter().any(|o| o.capacity == 0 || o.capacity > 1024) {
        return Err(format!("frequency domain `{}`: capacities are 1 to 1024", d.id));
    }
    let states = facts.idle.values().map(Vec::len).max().unwrap_or(1);
    Ok(FreqDomain {
        cpus: set(facts, &d.cpus)?,
        opps: d.opps.iter().map(|o| Opp { khz: o.khz, capacity: o.capacity, uv: None }).collect(),
        dt_clock: None,
        // A change takes effect at once; what the driver states only sets the governor's rate limit.
        transition_latency_ns: 0,
        transition_delay_ns: facts.schedutil.as_ref().map(|s| s.rate_limit_us * 1000).or(rate_limit(d)),
        power: PowerTable {
            busy_uw: d.opps.iter().filter_map(|o| o.power_uw).collect(),
            idle_uw: vec![vec![0]; states],
            ..PowerTable::default()
        },
    })
}

/// schedutil's limit: one and a half times what the driver states.
fn rate_limit(d: &DomainFacts) -> Option<u64> {
    (d.transition_latency_ns > 0).then_some(d.transition_latency_ns * 3 / 2)
}

/// CPUs that sleep together: as stated, else all.
fn cluster_spans(facts: &Facts) -> Vec<Vec<u32>> {
    match facts.clusters.is_empty() {
        true => vec![(0..facts.nr_cpus as u32).collect()],
        false => facts.clusters.iter().map(|c| c.cpus.clone()).collect(),
    }
}

fn cluster(facts: &Facts, cpus: &[u32]) -> Result<Cluster, String> {
    let core = cpus.first().and_then(|c| facts.cpus.get(*c as usize)).map_or("", |c| c.core.as_str());
    let states = facts.idle.get(core).or_else(|| facts.idle.get("default"));
    let states = states.filter(|s| !s.is_empty()).ok_or("there is no idle state (`idle.default`)")?;
    let ns = |us: u64| us * 1000;
    let state = |s: &IdleFacts| IdleState {
        name: s.name.clone(),
        scope: s.scope,
        polling: false,
        disabled: false,
        advertised: Advertised {
            exit_ns: ns(s.kernel_exit_latency_us),
            residency_ns: ns(s.kernel_target_residency_us),
        },
        actual: Actual { entry_ns: ns(s.entry_us), exit_ns: ns(s.exit_us) },
    };
    Ok(Cluster { cpus: set(facts, cpus)?, idle: states.iter().map(state).collect() })
}

fn cpu(facts: &Facts, clusters: &[Vec<u32>], at: usize) -> Result<Cpu, String> {
    let id = at as u32;
    let known = facts.cpus.iter().find(|c| c.id == at).ok_or_else(|| format!("CPU {at} is not described"))?;
    let position = |lists: &[Vec<u32>]| lists.iter().position(|l| l.contains(&id)).unwrap_or(0) as u32;
    let domain = facts.freq_domains.iter().position(|d| d.id == known.freq_domain && d.cpus.contains(&id));
    let domain =
        domain.ok_or_else(|| format!("CPU {at}: frequency domain `{}` does not hold it", known.freq_domain))?;
    Ok(Cpu {
        core_type: known.core.clone(),
        core: id,
        cluster: ClusterId(position(clusters)),
        domain: DomainId(domain as u32),
        llc: position(&facts.llc),
        package: 0,
        node: position(&facts.numa),
        capacity: facts.freq_domains[domain].cpu_capacity,
        l2: None,
        priority: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_facts_are_refused() {
        let good = r#"{"schema": "wattif-platform-facts/1", "name": "a", "title": "b", "nr_cpus": 1,
            "cpus": [{"id": 0, "core": "x", "freq_domain": "d"}], "llc": [[0]], "numa": [[0]],
            "freq_domains": [{"id": "d", "cpus": [0], "cpu_capacity": 1024, "opps": [{"khz": 1000, "capacity": 1024}]}],
            "idle": {"default": [{"name": "WFI", "scope": "cpu"}]}, "timer_slack_us": 50}"#;
        let platform = parse(good).unwrap();
        assert_eq!((platform.nr_cpus(), platform.timer_slack_ns, platform.hz), (1, 50_000, 250));
        for (old, new) in [
            ("facts/1", "facts/2"),
            ("\"nr_cpus\": 1", "\"nr_cpus\": 2"),
            ("\"cpus\": [0]", "\"cpus\": [7]"),
            ("\"khz\": 1000", "\"khz\": -1"),
            ("\"default\"", "\"other\""),
            ("1024, \"opps\"", "0, \"opps\""),
        ] {
            assert!(parse(&good.replace(old, new)).is_err(), "{new}");
        }
        assert!(parse(&good[..100]).unwrap_err().contains("line"));
    }
}
