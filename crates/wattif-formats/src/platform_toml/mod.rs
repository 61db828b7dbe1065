//! Platform files: TOML with the facts of a machine, read into a [`Platform`].
//!
//! ```toml
//! name = "board"                    # title, hz (250), timer_slack_us (50), page_kib (4), calibration_cpu (0), trust: optional
//! capacity_untold = false           # true: the kernel takes every CPU for 1024 (hybrid x86)
//! far_nodes = false                 # true: NUMA nodes are farther apart than the kernel's node_reclaim_distance (POWER: always)
//! kernel_cpus = "0-3,6-9"           # the kernel's numbers of CPUs 0, 1, … here, as traces have them; default: the same
//! cpuidle = { governor = "haltpoll" } # the governor that the idle driver prefers; default: none
//! driver.gpu = { cpu_latency_us = 501, hold_ms = 80 } # no slower idle state while this device of a workload works, and so long after; or "none"
//! smt_share = [1024, 640]           # throughput of each of 1, 2, … busy threads of a core, 1024ths; default [1024]
//!
//! [power]                           # absent: unknown, no energy is reported
//! unit    = "energy_model"          # which of the three vocabularies the powers below are in
//! sourced = true                    # absolute watts may be printed
//! base_uw = 0                       # rest of the system (eas_costs: `base`, abstract units)
//!
//! [topology]                        # lists of CPU lists; { every = 4 }: 0-3, 4-7, …; { stride = 32 }: 0 and 32, 1 and 33, …
//! llc = ["0-3", "4-7"]              # also core (SMT siblings), package, node; default: one llc, package and node
//! l2 = { every = 4 }                # cores that share a cache below that, the kernel's SD_CLUSTER; default: none
//!
//! [[domain]]                        # one clock
//! cpus = "0-3"                      # or several domains with the same facts: ["0", "1"], { of = 64, every = 2 }
//! core = "cortex-a53"
//! capacity = 462                    # at the highest operating point, 1..=1024
//! priority = 0                      # preference that the firmware states (ITMT, SD_ASYM_PACKING): higher is better
//! transition_us = 300               # request to effect; transition_delay_us: the driver's rate limit, where it has one
//! efficiency = 2048                 # with dt_clock_khz = 800_000: what kernels before 4.13 compute cpu_power from; optional
//! opps = [ { khz = 533_000, uv = 700_000, uw = 28_728 }, … ]   # capacity: default capacity·khz/max, rounded down
//!
//! [[cluster]]                       # CPUs that sleep together; several with the same states in one entry
//! cpus = ["0-3", "4-7"]
//! idle = [ { name = "WFI", scope = "cpu", advertised = { exit_us = 1, residency_us = 1 }, actual = { entry_us = 0, exit_us = 1 } } ]
//!
//! [costs]                           # context_switch, wakeup, ipi, timer_irq, tick, migration, migration_llc, each _ns or _us; source
//! [noise]                           # irq_jitter_us, work_ppm, start_spread_us, source; [[noise.housekeeping]], [noise.interrupts]
//! ```
//! Powers by vocabulary: `energy_model`: `uw` in an operating point (one busy CPU, dynamic). `eas_costs`: `core`, `cluster` in
//! an operating point, `idle_core = [..]`, `idle_cluster = [..]` by idle state in the domain, all abstract. `measured`:
//! `active_uw`, `static_uw`, `idle_uw = [..]` in an operating point, `static_states` in the domain: how many of the
//! shallowest idle states leave the static power on (1). A key of another vocabulary is an unknown key.
//!
//! Every time may be written with `_ns`, `_us` or `_ms`. Codes: `platform::E01` syntax · `E02` limit · `E03` missing key ·
//! `E04` wrong type · `E05` range · `E06` unknown key · `E07` contradiction · `E08` override · `W01` to `W10` unusual.

mod clusters;
mod cpulist;
mod domains;
mod machine;
mod overlay;
#[cfg(test)]
mod tests;

pub(crate) use domains::{MAX_KHZ, MAX_OPPS, MAX_UV, MAX_UW};
pub(crate) use machine::MAX_US;
pub(crate) use overlay::Overlay;

use crate::kernel_toml::HZ;
use crate::toml_tree::{self, Codes, Node, Report, Table, Value};
use crate::words::quoted;
use wattif_model::check::Diagnostic;
use wattif_model::platform::{PAGE_KIB, Platform, PowerModel, PowerUnit};
use wattif_model::{CpuId, CpuSet};

const CODES: Codes = Codes {
    syntax: "platform::E01",
    limit: "platform::E02",
    missing: "platform::E03",
    wrong_type: "platform::E04",
    range: "platform::E05",
    unknown: "platform::E06",
    overriding: "platform::E08",
};
/// Begins the complaint about a unit that is none.
const UNKNOWN_UNIT: &str = "unknown power unit";
/// The file contradicts itself.
const CONTRADICTION: &str = "platform::E07";

/// What a reading needs besides the text.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Overrides, such as (`clusters.*.idle.*.actual.exit_us`, `0`): `*` stands for all, an idle state may be named. Any key
    /// of a platform file, there or not; clusters and domains are counted as the machine has them.
    pub set: Vec<(String, String)>,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Parsed {
    /// The platform, when there is no error.
    pub platform: Option<Platform>,
    /// All findings, in the order of the text.
    pub diagnostics: Vec<Diagnostic>,
}

/// CPUs of a list such as `0-3,6`.
pub(crate) fn cpus_of(list: &str) -> Option<Vec<u32>> {
    Some(cpuset(list)?.iter().map(|c| c.0).collect())
}

/// The same as a set.
pub(crate) fn cpuset(list: &str) -> Option<CpuSet> {
    cpulist::parse(list)
}

/// Read a platform file.
pub fn parse(text: &str, options: &Options) -> Parsed {
    let mut parsed = read(text, &options.set);
    if parsed.diagnostics.is_empty() {
        return parsed;
    }
    // What the text alone is not to blame for is said behind the first override that brings it about.
    let found: Vec<Parsed> = (0..options.set.len()).map(|n| read(text, &options.set[..n])).collect();
    for d in &mut parsed.diagnostics {
        let without = found.iter().rposition(|f| !f.diagnostics.contains(d));
        if let Some((path, value)) = without.map(|n| &options.set[n]) {
            d.message = format!("--set platform.{path}={value}: {}", d.message);
            d.span = 0..0;
        }
    }
    parsed
}

fn read(text: &str, set: &[(String, String)]) -> Parsed {
    let mut report = Report::new(CODES);
    let mut root = toml_tree::parse(text, &mut report);
    for (path, value) in set {
        overriding(&mut root, path, value, &mut report);
    }
    let platform = platform(root, &mut report);
    Parsed { platform: platform.filter(|_| !report.has_errors()), diagnostics: report.into_diagnostics() }
}

const ROOT: &[&str] = &[
    "name",
    "title",
    "hz",
    "timer_slack_us",
    "page_kib",
    "calibration_cpu",
    "smt_share",
    "capacity_untold",
    "far_nodes",
    "kernel_cpus",
    "cpuidle",
    "driver",
    "trust",
    "power",
    "topology",
    "domain",
    "cluster",
    "costs",
    "noise",
];

fn overriding(root: &mut Table, path: &str, value: &str, report: &mut Report) {
    let mut names: Vec<&str> = path.split('.').collect();
    names[0] = match names[0] {
        "clusters" => "cluster",
        "domains" => "domain",
        other => other,
    };
    // One of several that share an entry becomes an entry of its own.
    if names.get(1).is_some_and(|n| *n != "*") {
        one_by_one(root, names[0]);
    }
    let mut missed = None;
    if toml_tree::set(root, &names, &toml_tree::parse_value(value), &mut missed) == 0 {
        let nothing =
            || Diagnostic::error(CODES.overriding, 0..0, format!("override {} changes nothing", quoted(path)));
        report.push(missed.map_or_else(nothing, |m| m.diagnostic(CODES.overriding)));
    }
}

/// Entries for several clusters or domains as one for each. What cannot be read stays, for the reader to complain about.
fn one_by_one(root: &mut Table, key: &str) {
    let Some((_, Node { value: Value::Array(entries), .. })) = root.entries.get_mut(key) else { return };
    let split = |entry: Node| {
        let mut unread = Report::new(CODES);
        let cpus = match &entry.value {
            Value::Table(table) => table.entries.get("cpus").map(|(_, cpus)| cpus.clone()),
            _ => None,
        };
        let sets = cpus.map(|cpus| cpulist::parts(cpus, "cpus", None, &mut unread)).unwrap_or_default();
        if sets.len() < 2 || unread.has_errors() {
            return vec![entry];
        }
        sets.iter().map(|set| for_cpus(&entry, set)).collect()
    };
    *entries = std::mem::take(entries).into_iter().flat_map(split).collect();
}

/// The same entry for other CPUs.
fn for_cpus(entry: &Node, set: &CpuSet) -> Node {
    let mut entry = entry.clone();
    if let Value::Table(table) = &mut entry.value
        && let Some((_, cpus)) = table.entries.get_mut("cpus")
    {
        cpus.value = Value::Text(set.to_string());
    }
    entry
}

fn platform(mut root: Table, report: &mut Report) -> Option<Platform> {
    let name = root.need("name", report).and_then(|n| n.text("name", report).map(String::from)).unwrap_or_default();
    let title = root.text("title", report).unwrap_or_else(|| name.clone());
    let hz = root.int("hz", HZ, report).unwrap_or(250) as u32;
    let power = power(root.table("power", report), report);
    let domains = domains::read(&mut root, power.unit, report);
    let clusters = clusters::read(&mut root, report);
    clusters::check_powers(&domains, &clusters, power.unit, report);
    let cpus = machine::cpus(&domains, &clusters, root.table("topology", report), report)?;
    let calibration = root.int("calibration_cpu", 0..=cpus.len() as i64 - 1, report).unwrap_or(0);
    let capacity_untold = root.boolean("capacity_untold", report).unwrap_or(false);
    let far_nodes = root.boolean("far_nodes", report).unwrap_or(false);
    let kernel_cpus = kernel_cpus(&mut root, cpus.len(), report);
    let timer_slack_ns = machine::time(&mut root, "timer_slack", report).unwrap_or(50_000);
    let page_kib = page_kib(&mut root, report);
    let platform = Platform {
        name,
        title,
        hz,
        smt_share: machine::smt_share(&mut root, &cpus, report),
        costs: machine::costs(&mut root, report),
        noise: machine::noise(root.table("noise", report), report),
        power,
        timer_slack_ns,
        page_kib,
        calibration_cpu: CpuId(calibration as u32),
        trust: machine::texts(&mut root, "trust", report),
        capacity_untold,
        far_nodes,
        kernel_cpus,
        cpuidle_governor: cpuidle_governor(root.table("cpuidle", report), report),
        drivers: machine::drivers(root.table("driver", report), report),
        domains: domains.into_iter().map(|d| d.domain).collect(),
        clusters: clusters.into_iter().map(|c| c.cluster).collect(),
        cpus,
    };
    root.finish(ROOT, report);
    Some(platform)
}

/// A size that some kernel has; 4 KiB where none is told.
fn page_kib(root: &mut Table, report: &mut Report) -> u32 {
    let Some(node) = root.take("page_kib") else { return PAGE_KIB[0] };
    let kib = node.int("page_kib", 1..=64, report).unwrap_or(PAGE_KIB[0].into()) as u32;
    if !PAGE_KIB.contains(&kib) {
        let sizes = PAGE_KIB.map(|kib| kib.to_string()).join(", ");
        report.error(CODES.range, node.span, format!("page_kib is one of {sizes}, not {kib}"));
    }
    kib
}

/// A number for each CPU; none where all are the same.
fn kernel_cpus(root: &mut Table, nr_cpus: usize, report: &mut Report) -> CpuSet {
    let Some(node) = root.take("kernel_cpus") else { return CpuSet::default() };
    let Some(numbers) = cpulist::read(&node, report) else { return CpuSet::default() };
    if numbers.len() != nr_cpus {
        let message = format!("kernel_cpus are {numbers}, which is {}: the platform has {nr_cpus} CPUs", numbers.len());
        report.error(CONTRADICTION, node.span, message);
    }
    if numbers == CpuSet::first(nr_cpus) { CpuSet::default() } else { numbers }
}

/// What an idle driver prefers is a governor of the kernel's.
fn cpuidle_governor(mut table: Table, report: &mut Report) -> Option<String> {
    const GOVERNORS: [&str; 4] = ["menu", "teo", "ladder", "haltpoll"];
    let governor = table.text("governor", report);
    if let Some(unknown) = governor.as_deref().filter(|g| !GOVERNORS.contains(g)) {
        let message = format!("unknown idle governor {}: {}", quoted(unknown), GOVERNORS.join(", "));
        report.error(CODES.range, table.span.clone(), message);
    }
    table.finish(&["governor"], report);
    governor
}

fn power(mut table: Table, report: &mut Report) -> PowerModel {
    let unit = match table.text("unit", report).as_deref() {
        Some("energy_model") => PowerUnit::EnergyModel,
        Some("eas_costs") => PowerUnit::EasCosts,
        Some("measured") => PowerUnit::Measured,
        None | Some("unknown") => PowerUnit::Unknown,
        Some(other) => {
            let d = Diagnostic::error(CODES.range, table.span.clone(), format!("{UNKNOWN_UNIT} {}", quoted(other)));
            report.push(d.help("energy_model, eas_costs, measured or unknown"));
            drop(table.take("base")); // may be right in the unit that was meant
            PowerUnit::Unknown
        }
    };
    let (key, scale) = if unit == PowerUnit::EasCosts { ("base", 1000) } else { ("base_uw", 1) };
    let base_uw = table.int(key, 0..=MAX_UW, report).unwrap_or(0) as u64 * scale;
    let sourced = table.boolean("sourced", report).unwrap_or(false);
    table.finish(&["unit", key, "sourced"], report);
    PowerModel { unit, base_uw, sourced }
}
