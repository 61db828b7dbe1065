//! A small machine and short-hand events for the tests of this folder.

use wattif_model::platform::*;
use wattif_model::trace::{Event, Observer, PowerLevel, PrevState, ThreadInfo};
use wattif_model::{ClusterId, CpuId, CpuSet, DomainId, Ns, Pid};

/// Two clusters of two CPUs, a frequency domain each, two operating points and two idle states.
pub fn platform() -> Platform {
    Platform {
        name: "bed".into(),
        title: "test".into(),
        hz: 250,
        cpus: (0..4).map(cpu).collect(),
        domains: vec![domain(0, 512), domain(2, 1024)],
        clusters: vec![cluster(0), cluster(2)],
        smt_share: vec![1024],
        costs: Costs {
            context_switch_ns: 0,
            wakeup_ns: 0,
            ipi_ns: 0,
            timer_irq_ns: 0,
            tick_ns: 0,
            migration_ns: 0,
            migration_llc_ns: 0,
            source: "test".into(),
        },
        noise: Noise {
            irq_jitter_ns: 0,
            work_ppm: 0,
            start_spread_ns: 0,
            housekeeping: vec![],
            interrupts: None,
            source: "test".into(),
        },
        power: PowerModel { unit: PowerUnit::Measured, base_uw: 7, sourced: true },
        timer_slack_ns: 50_000,
        page_kib: 4,
        calibration_cpu: CpuId(0),
        trust: vec![],
        capacity_untold: false,
        far_nodes: false,
        kernel_cpus: CpuSet::default(),
        cpuidle_governor: None,
        drivers: Vec::new(),
    }
}

fn cpu(id: u32) -> Cpu {
    let half = id / 2;
    Cpu {
        core_type: "test".into(),
        core: id,
        cluster: ClusterId(half),
        domain: DomainId(half),
        llc: half,
        package: 0,
        node: 0,
        capacity: if half == 0 { 512 } else { 1024 },
        l2: None,
        priority: 0,
    }
}

fn pair(first: u32) -> CpuSet {
    [CpuId(first), CpuId(first + 1)].into_iter().collect()
}

fn domain(first: u32, capacity: u32) -> FreqDomain {
    let opp = |khz, capacity| Opp { khz, capacity, uv: None };
    FreqDomain {
        cpus: pair(first),
        opps: vec![opp(500_000, capacity / 2), opp(1_000_000, capacity)],
        transition_latency_ns: 0,
        transition_delay_ns: None,
        power: PowerTable {
            busy_uw: vec![100, 300],
            idle_uw: vec![vec![11, 13], vec![2]],
            cluster_busy_uw: vec![40, 60],
            cluster_idle_uw: vec![vec![17], vec![1]],
        },
        dt_clock: None,
    }
}

fn cluster(first: u32) -> Cluster {
    let state = |name: &str| IdleState {
        name: name.into(),
        scope: Scope::Cpu,
        polling: false,
        disabled: false,
        advertised: Advertised { exit_ns: 1, residency_ns: 1 },
        actual: Actual { entry_ns: 0, exit_ns: 0 },
    };
    Cluster { cpus: pair(first), idle: vec![state("WFI"), state("off")] }
}

pub fn thread(pid: u32, task: &str) -> ThreadInfo {
    ThreadInfo {
        pid: Pid(pid),
        comm: format!("{task}-{pid}"),
        task: task.into(),
        policy: "SCHED_OTHER",
        workload: true,
        ..ThreadInfo::default()
    }
}

pub fn housekeeping(pid: u32, task: &str) -> ThreadInfo {
    ThreadInfo { workload: false, ..thread(pid, task) }
}

pub fn waking(pid: u32) -> Event {
    Event::SchedWaking { pid: Pid(pid), prio: 120, target_cpu: CpuId(0), in_irq: true }
}

pub fn wakeup(pid: u32) -> Event {
    Event::SchedWakeup { pid: Pid(pid), prio: 120, target_cpu: CpuId(0), in_irq: true }
}

pub fn switch(prev: u32, next: u32, prev_state: PrevState) -> Event {
    Event::SchedSwitch { prev_pid: Pid(prev), prev_prio: 120, prev_state, next_pid: Pid(next), next_prio: 120 }
}

pub fn timer_wake(pid: u32, wu_lat_ns: u64) -> Event {
    Event::TimerWake { pid: Pid(pid), wu_lat_ns, missed: false }
}

pub fn rtapp(pid: u32, wu_lat_ns: u64) -> Event {
    Event::RtappStats { pid: Pid(pid), wu_lat_ns, run_ns: 0, period_ns: 0, slack_ns: 0 }
}

pub fn frequency(domain: u32, opp: u32) -> Event {
    Event::CpuFrequency { domain: DomainId(domain), khz: 500_000 * (opp + 1), opp }
}

pub fn cpu_power(level: PowerLevel) -> Event {
    Event::CpuPower { level }
}

pub fn cluster_power(cluster: u32, level: PowerLevel) -> Event {
    Event::ClusterPower { cluster: ClusterId(cluster), level }
}

pub fn idle(state: u32) -> Event {
    Event::CpuIdle { state }
}

/// Feed (time in ns, CPU, event).
pub fn play(to: &mut impl Observer, events: &[(u64, u32, Event)]) {
    for (at, cpu, event) in events {
        to.event(Ns(*at), CpuId(*cpu), event);
    }
}
