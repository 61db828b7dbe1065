//! The machine as data: CPUs, frequency domains, clusters with idle states, costs, noise and power.
//!
//! A platform states *physics and firmware facts*; it knows nothing of policies. Every number in `platforms/*.toml`
//! carries its source or is marked estimated.

mod flaw;

use crate::ids::{ClusterId, CpuId, CpuSet, DomainId};
use crate::units::CAPACITY_SCALE;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Longest time in a machine, ns: a thousand seconds.
pub const MAX_NS: u64 = 1_000_000_000_000;
/// Highest clock, kHz.
pub const MAX_KHZ: u32 = 100_000_000;
/// Highest voltage, µV.
pub const MAX_UV: u32 = 10_000_000;
/// Largest power, µW (or abstract units): a kilowatt.
pub const MAX_UW: u64 = 1_000_000_000;
/// Most idle states of a CPU.
pub const CPUIDLE_STATE_MAX: usize = 10;
/// Ticks a second (`CONFIG_HZ`).
pub const HZ: RangeInclusive<u32> = 24..=10_000;
/// Sizes of a page, KiB; the first is that of most machines.
pub const PAGE_KIB: [u32; 3] = [4, 16, 64];
/// Highest preference of a CPU.
pub const MAX_PRIORITY: u32 = 65_535;
/// Clocks of a devicetree that `cpu_power` can be computed from, kHz.
pub const DT_CLOCK_KHZ: RangeInclusive<u64> = 1_049..=100_000_000;
/// Largest efficiency of a core type.
pub const MAX_EFFICIENCY: u32 = 1_000_000;
/// Shortest mean time between activations of a background thread, or between interrupts, ns.
pub const MIN_INTERVAL_NS: u64 = 100_000;
/// Interrupts that may follow one.
pub const MAX_BURST: u32 = 1000;
/// Largest variation of work.
pub const MAX_WORK_PPM: u32 = 500_000;

/// A machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Platform {
    /// Such as `hikey620`.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// Tick rate where the kernel profile does not set one.
    pub hz: u32,
    /// All CPUs, in order of their id.
    pub cpus: Vec<Cpu>,
    /// Frequency domains: CPUs that share a clock.
    pub domains: Vec<FreqDomain>,
    /// Power clusters: CPUs that share idle states of cluster scope.
    pub clusters: Vec<Cluster>,
    /// Throughput of each of `n` busy hardware threads of a core, in 1024ths of the core alone, for n = 1, 2, …
    /// Without SMT: `[1024]`.
    pub smt_share: Vec<u32>,
    /// Kernel path lengths and hardware delays.
    pub costs: Costs,
    /// Explicit randomness.
    pub noise: Noise,
    /// How powers are to be read.
    pub power: PowerModel,
    /// Slack of timers of fair tasks, ns (the kernel's default is 50 µs).
    pub timer_slack_ns: u64,
    /// Size of a page of memory, KiB: what a model of pipes asks. A run does not look here.
    #[serde(default = "page_kib", skip_serializing_if = "is_page_kib")]
    pub page_kib: u32,
    /// rt-app's `run` is in µs at this CPU's full speed.
    pub calibration_cpu: CpuId,
    /// What is measured, estimated or calibrated; shown with every result.
    pub trust: Vec<String>,
    /// The kernel is not told that capacities differ and takes every CPU for 1024, as on hybrid x86 machines.
    #[serde(default, skip_serializing_if = "is_default")]
    pub capacity_untold: bool,
    /// NUMA nodes are farther from each other than the kernel's `node_reclaim_distance` (30 by default, 32 on EPYC since 5.4, 10 on
    /// POWER, where every other node is too far): new and woken tasks stay on their node until balancing moves them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub far_nodes: bool,
    /// The kernel's numbers of its CPUs, in order, where they are not 0, 1, …: others are offline. Traces of the machine have these,
    /// and nothing else reads them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub kernel_cpus: CpuSet,
    /// The governor that its idle driver prefers (`cpuidle_driver.governor`). Who puts a kernel on the platform names that one in the
    /// kernel where nobody names another; a run does not look here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpuidle_governor: Option<String>,
    /// Drivers of devices that ask CPUs to wake up fast while the device works.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drivers: Vec<Driver>,
}

/// What a device's driver asks of CPUs: no idle state that takes longer to leave, from when the device begins to work until it has done
/// nothing for a while (a CPU latency request of PM QoS). Of workloads without this device nothing is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Driver {
    /// Name of the workload's device, such as `gpu`.
    pub device: String,
    /// Longest exit latency that idle states may advertise, ns; `None`: it asks for nothing.
    pub cpu_latency_ns: Option<u64>,
    /// The request ends this long after the last work, ns.
    pub hold_ns: u64,
}

/// A logical CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// Core type, such as `cortex-a53`.
    pub core_type: String,
    /// Physical core: SMT siblings have the same number.
    pub core: u32,
    /// Power cluster.
    pub cluster: ClusterId,
    /// Frequency domain.
    pub domain: DomainId,
    /// Last-level cache it shares.
    pub llc: u32,
    /// Package (die).
    pub package: u32,
    /// NUMA node.
    pub node: u32,
    /// `capacity_orig`: speed at the highest frequency, 1..=1024.
    pub capacity: u32,
    /// A cache below the last-level one, or its tag, that a few cores share: the kernel's *cluster* (`topology/cluster_id`,
    /// `SD_CLUSTER`). `None`: nothing is shared but the last level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l2: Option<u32>,
    /// Order of preference that the firmware states (`arch_asym_cpu_priority`, Intel's ITMT): higher is better, equal for all
    /// where there is none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub priority: u32,
}

/// That of most machines.
const fn page_kib() -> u32 {
    PAGE_KIB[0]
}

fn is_page_kib(kib: &u32) -> bool {
    *kib == page_kib()
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// CPUs that share a clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FreqDomain {
    /// Its CPUs.
    pub cpus: CpuSet,
    /// Operating points by ascending frequency; at least one.
    pub opps: Vec<Opp>,
    /// From the request until the CPUs run at the new frequency, ns.
    pub transition_latency_ns: u64,
    /// The driver's own rate limit, ns, where it sets one (`transition_delay_us`).
    pub transition_delay_ns: Option<u64>,
    /// Power by operating point and idle state.
    pub power: PowerTable,
    /// What the devicetree said of these CPUs before capacities, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dt_clock: Option<DtClock>,
}

/// Clock and efficiency of a CPU as ARM kernels before 4.13 read them, to compute `cpu_power`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DtClock {
    /// `clock-frequency` of the devicetree, Hz.
    pub hz: u64,
    /// Work per clock, relative to other core types (`table_efficiency`).
    pub efficiency: u32,
}

/// An operating point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Opp {
    /// Frequency, kHz.
    pub khz: u32,
    /// Speed at this frequency: 1..=1024, the CPU's `capacity` at the highest.
    pub capacity: u32,
    /// Voltage where known, µV.
    pub uv: Option<u32>,
}

/// CPUs that sleep together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    /// Its CPUs.
    pub cpus: CpuSet,
    /// Idle states, shallowest first; at least one.
    pub idle: Vec<IdleState>,
}

/// Who must be idle for a state to be entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// The CPU alone.
    Cpu,
    /// All hardware threads of the core.
    Core,
    /// All CPUs of the cluster.
    Cluster,
}

/// An idle state. Governors see `advertised`; the machine does `actual`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IdleState {
    /// Such as `WFI`.
    pub name: String,
    /// Who must be idle.
    pub scope: Scope,
    /// The CPU spins and looks for work: no interrupt is needed to wake it.
    pub polling: bool,
    /// Switched off by default (`disable` in sysfs).
    pub disabled: bool,
    /// What the firmware says.
    pub advertised: Advertised,
    /// What the hardware does.
    pub actual: Actual,
}

impl IdleState {
    /// The kernel's own verdict on a sleep of so many ns in one of a CPU's states: `Some(false)` (`above`) when it was too deep, as it ended
    /// before its target residency and something shallower is enabled; `Some(true)` (`below`) when the next deeper enabled state had fitted
    /// into it after its exit latency.
    pub fn missed(states: &[IdleState], entered: usize, residency_ns: u64) -> Option<bool> {
        let enabled = |i: &usize| !states[*i].disabled;
        let told = states.get(entered)?.advertised;
        if residency_ns < told.residency_ns {
            return (0..entered).any(|i| enabled(&i)).then_some(false);
        }
        let left = residency_ns.checked_sub(told.exit_ns).filter(|left| *left > 0)?;
        let deeper = (entered + 1..states.len()).find(enabled)?;
        (left >= states[deeper].advertised.residency_ns).then_some(true)
    }
}

/// What a cpuidle governor is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advertised {
    /// `exit_latency_ns`.
    pub exit_ns: u64,
    /// `target_residency_ns`.
    pub residency_ns: u64,
}

/// What entering and leaving really takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actual {
    /// From the decision until the state is reached; a wake-up during it has to wait for its end.
    pub entry_ns: u64,
    /// From the wake-up until the CPU executes.
    pub exit_ns: u64,
}

/// Kernel path lengths on this machine, ns at full speed of the fastest CPU, and hardware delays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Costs {
    /// From `schedule()` of one thread to user code of the next.
    pub context_switch_ns: u64,
    /// `try_to_wake_up` of one thread.
    pub wakeup_ns: u64,
    /// Sending an inter-processor interrupt until the other CPU takes it.
    pub ipi_ns: u64,
    /// Entry, handler and exit of a timer interrupt.
    pub timer_irq_ns: u64,
    /// The tick's work on top of its timer interrupt.
    pub tick_ns: u64,
    /// Refilling caches after a move within the last-level cache.
    pub migration_ns: u64,
    /// Refilling caches after a move to another last-level cache.
    pub migration_llc_ns: u64,
    /// Which of these come from a measurement; the others are estimated.
    pub source: String,
}

/// Randomness of the machine; each source is a stream of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Noise {
    /// Interrupt handling takes this much longer, exponential, mean ns (0: none).
    pub irq_jitter_ns: u64,
    /// Each piece of work is longer or shorter by this much, uniform, in 1/1,000,000.
    pub work_ppm: u32,
    /// Threads start this late, uniform, ns.
    pub start_spread_ns: u64,
    /// Background threads.
    pub housekeeping: Vec<Housekeeping>,
    /// Interrupts that no thread of a workload waits for, on every CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupts: Option<Interrupts>,
    /// Where the figures come from.
    pub source: String,
}

/// A background thread, on every CPU or one for all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Housekeeping {
    /// Its name, such as `kworker`.
    pub name: String,
    /// One pinned to each CPU.
    pub per_cpu: bool,
    /// Mean time between activations, exponential, ns.
    pub interval_ns: u64,
    /// Mean work per activation at full speed, exponential, ns.
    pub work_ns: u64,
}

/// Interrupts of devices, of firmware and of other CPUs that no thread of a workload waits for. No timer announces them, so no idle
/// governor sees them coming.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interrupts {
    /// Mean time between them on a CPU, exponential, ns.
    pub interval_ns: u64,
    /// Mean time that a handler takes, exponential, ns.
    pub work_ns: u64,
    /// So many more follow each shortly.
    pub burst: u32,
    /// Mean time between these, exponential, ns.
    pub burst_gap_ns: u64,
    /// So many of a million leave work to the first background thread that is pinned to the CPU: it does what it would have done
    /// when its timer is due at once.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub wakes_ppm: u32,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// How powers are to be read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PowerModel {
    /// The unit of every power of this platform.
    pub unit: PowerUnit,
    /// Rest of the system, always on: µW, or abstract units × 1000.
    pub base_uw: u64,
    /// May absolute watts be printed? Only when the powers are sourced, not estimated.
    pub sourced: bool,
}

/// The three power vocabularies found in the wild; never mixed within a platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PowerUnit {
    /// The kernel's energy model: µW per busy CPU, dynamic power only.
    EnergyModel,
    /// Legacy EAS tables: abstract core and cluster costs (one unit is kept as 1000).
    EasCosts,
    /// Measured curves: active per CPU, static per domain, idle per CPU; µW.
    Measured,
    /// Nothing known: no energy is reported.
    Unknown,
}

impl PowerUnit {
    /// Does it say what idle states draw? Where it does not, they count as nothing.
    pub fn has_idle(self) -> bool {
        matches!(self, PowerUnit::EasCosts | PowerUnit::Measured)
    }
}

/// Power of one frequency domain, in the platform's unit (µW, or abstract × 1000). Index `o` is the operating point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PowerTable {
    /// One busy CPU at `o` (EM `power_uw`, EAS core busy cost, measured active).
    pub busy_uw: Vec<u64>,
    /// One CPU in idle state `s` (outer index) at `o`; a state list of length 1 in the inner index holds for all `o`.
    pub idle_uw: Vec<Vec<u64>>,
    /// The cluster or domain while at least one of its CPUs is busy, at `o` (EAS cluster busy cost, measured static).
    pub cluster_busy_uw: Vec<u64>,
    /// The cluster while all its CPUs are idle, by the shallowest idle state among them (EAS cluster idle cost).
    /// Measured curves put the static power here for states that keep the cluster on.
    pub cluster_idle_uw: Vec<Vec<u64>>,
}

impl PowerTable {
    /// Power of a busy CPU at operating point `opp`.
    pub fn busy(&self, opp: usize) -> u64 {
        self.busy_uw.get(opp).copied().unwrap_or(0)
    }
    /// Power of a CPU in idle state `state` while its domain is at `opp`.
    pub fn idle(&self, state: usize, opp: usize) -> u64 {
        pick(&self.idle_uw, state, opp)
    }
    /// Power of a cluster with a busy CPU.
    pub fn cluster_busy(&self, opp: usize) -> u64 {
        self.cluster_busy_uw.get(opp).copied().unwrap_or(0)
    }
    /// Power of a cluster whose shallowest CPU is in `state`.
    pub fn cluster_idle(&self, state: usize, opp: usize) -> u64 {
        pick(&self.cluster_idle_uw, state, opp)
    }
}

fn pick(table: &[Vec<u64>], state: usize, opp: usize) -> u64 {
    let row = table.get(state).map_or(&[][..], Vec::as_slice);
    row.get(opp).or(row.last()).copied().unwrap_or(0)
}

impl Platform {
    /// Number of CPUs.
    pub fn nr_cpus(&self) -> usize {
        self.cpus.len()
    }
    /// By CPU: the hardware threads of its core, itself included, in order.
    pub fn core_threads(&self) -> Vec<Vec<CpuId>> {
        let core = |c: &Cpu| (c.package, c.core);
        let mut cores: BTreeMap<_, Vec<CpuId>> = BTreeMap::new();
        self.cpus.iter().zip(0..).for_each(|(c, id)| cores.entry(core(c)).or_default().push(CpuId(id)));
        self.cpus.iter().map(|c| cores[&core(c)].clone()).collect()
    }
    /// What each of so many busy hardware threads of a core gets of its speed, 1024ths.
    pub fn share_of_core(&self, busy: usize) -> u64 {
        self.smt_share.get(busy.max(1) - 1).or(self.smt_share.last()).map_or(CAPACITY_SCALE, |share| u64::from(*share))
    }
    /// The machine for a recorded workload, which brings its background threads and its variation of work itself.
    pub fn without_background(&self) -> Platform {
        let noise = Noise { housekeeping: Vec::new(), start_spread_ns: 0, work_ppm: 0, ..self.noise.clone() };
        Platform { noise, ..self.clone() }
    }
    /// The frequency domain of a CPU.
    pub fn domain_of(&self, cpu: CpuId) -> &FreqDomain {
        &self.domains[self.cpus[cpu.at()].domain.at()]
    }
    /// The idle states of a CPU.
    pub fn idle_states(&self, cpu: CpuId) -> &[IdleState] {
        &self.clusters[self.cpus[cpu.at()].cluster.at()].idle
    }
    /// The capacity of a CPU that the kernel knows (`arch_scale_cpu_capacity`).
    pub fn told_capacity(&self, cpu: CpuId) -> u32 {
        if self.capacity_untold { 1024 } else { self.cpus[cpu.at()].capacity }
    }
    /// Do CPUs differ in `capacity`?
    pub fn is_asymmetric(&self) -> bool {
        self.cpus.iter().any(|c| c.capacity != self.cpus[0].capacity)
    }
    /// Can placement reckon energy: is the power of a busy CPU known at each operating point, and has a core one thread?
    pub fn has_energy_model(&self) -> bool {
        let known = |d: &FreqDomain| (0..d.opps.len()).all(|o| d.power.busy(o) > 0);
        self.smt_share.len() <= 1 && self.domains.iter().all(known)
    }
}
