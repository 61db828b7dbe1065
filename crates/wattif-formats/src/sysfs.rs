//! A live machine, or a capture of its `/sys` and `/proc`, into a platform file and a kernel profile. Reading files is the
//! caller's: here a closure gives the content of a path below the root.
//!
//! Codes: `sysfs::E01` no CPUs there · `sysfs::E02` nothing of a kernel is recognised · `sysfs::W01` something is missing ·
//! `sysfs::W02` a profile is of another version · `sysfs::W03` the kernel does what is not simulated · `sysfs::W04` CPUs are set
//! differently, and a profile has one value · `sysfs::N01` a scheduler feature is not simulated · `sysfs::N02` frequencies of a
//! boost that is off · `sysfs::N03` limits of frequencies, which are no part of a platform · `sysfs::N04` distances of NUMA nodes.

use crate::machine::{self, Cluster, Domain, Idle, Machine, Opp, list, scope_by_name, wfi};
use crate::platform_toml::MAX_US;
use crate::words::quoted;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{self, Read};
use wattif_model::check::Diagnostic;
use wattif_model::kernel::version;
use wattif_model::platform::CPUIDLE_STATE_MAX;

/// Content of a file below the root, such as `sys/devices/system/cpu/online`, by [`text_of`]; `None` where it is not.
pub type Files<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Most bytes of a file, unpacked.
const MAX_TEXT: u64 = 64 << 20;

/// The text in the bytes of a file; gzip, as around `/proc/config.gz`, is taken off. An error where it is damaged or no text.
pub fn text_of(bytes: &[u8]) -> io::Result<String> {
    let mut text = String::new();
    match bytes.starts_with(&[0x1f, 0x8b]) {
        true => flate2::read::GzDecoder::new(bytes).take(MAX_TEXT).read_to_string(&mut text),
        false => bytes.take(MAX_TEXT).read_to_string(&mut text),
    }?;
    Ok(text)
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    /// The file, when there is no error.
    pub toml: Option<String>,
    /// All findings.
    pub diagnostics: Vec<Diagnostic>,
}

const CPU: &str = "sys/devices/system/cpu";
const NODE: &str = "sys/devices/system/node";
fn number(files: Files<'_>, path: &str) -> Option<u64> {
    files(path)?.trim().parse().ok()
}

fn cpus_in(files: Files<'_>, path: &str) -> Option<Vec<u32>> {
    crate::platform_toml::cpus_of(files(path)?.trim())
}

/// CPUs that are online: an offline one tells neither its clock nor its place.
fn online(files: Files<'_>) -> Option<Vec<u32>> {
    let told = ["online", "present", "possible"].iter().find_map(|f| cpus_in(files, &format!("{CPU}/{f}")));
    told.filter(|cpus| !cpus.is_empty())
}

/// A platform of the machine below the root.
pub fn platform(files: Files<'_>, name: &str) -> Imported {
    let mut out = Imported::default();
    let Some(cpus) = online(files) else {
        let message = format!("no CPU list in {CPU}/online or present");
        out.diagnostics.push(
            Diagnostic::error("sysfs::E01", 0..0, message)
                .help("name the root of a machine or of a capture that holds sys/devices/system/cpu"),
        );
        return out;
    };
    // Logical CPUs are numbered from 0 without gaps in a platform.
    let place: BTreeMap<u32, u32> = cpus.iter().copied().zip(0..).collect();
    out.diagnostics.extend(offline(files, &cpus));
    let placed = |of: Vec<u32>| -> Vec<u32> { of.iter().filter_map(|c| place.get(c).copied()).collect() };
    let model = files("sys/firmware/devicetree/base/model").or(files("sys/class/dmi/id/product_name"));
    let mut machine = Machine {
        name: name.into(),
        title: model.map_or_else(|| name.into(), |m| m.trim_matches(['\0', '\n', ' ']).to_string()),
        source: "its /sys".into(),
        hz: config(files, release(files).as_deref()).and_then(|config| ticks(&config)),
        ..Machine::default()
    };
    let group = |file: &str| {
        let of = |cpu: u32| cpus_in(files, &format!("{CPU}/cpu{cpu}/{file}")).map(placed).unwrap_or_default();
        grouped(&cpus, &place, of)
    };
    machine.cores = group("topology/thread_siblings_list");
    machine.packages = group("topology/package_cpus_list");
    if machine.packages.iter().all(|p| p.len() == 1) {
        machine.packages = group("topology/core_siblings_list");
    }
    if machine.packages.iter().all(|p| p.len() == 1) && cpus.len() > 1 {
        machine.packages = Vec::new();
    }
    machine.nodes = nodes(files, &place, &mut out.diagnostics);
    if machine.nodes.len() == 1 && machine.packages.len() <= 1 {
        machine.nodes = Vec::new();
    }
    machine.llc = last_caches(files, &cpus, &place);
    machine.l2 = group("topology/cluster_cpus_list");
    // Kernels before 5.16 call the clusters of cpu-map packages.
    let told = machine.l2.iter().any(|c| c.len() > 1);
    let sleepers = if told { machine.l2.clone() } else { machine.packages.clone() };
    if !between(&machine.cores, &machine.l2, &machine.llc) {
        machine.l2 = Vec::new();
    }
    let clocks = clocks(files, &cpus);
    machine.domains = domains(files, &clocks, &place, &mut out.diagnostics);
    out.diagnostics.extend(limits(files, &clocks, &place));
    machine.clusters = clusters(files, &cpus, &place, &sleepers);
    if !machine.domains.iter().all(|d| d.opps.iter().all(|o| o.uw.is_some())) {
        let message = "no energy model (sys/kernel/debug/energy_model): no energy is reported";
        out.diagnostics.push(Diagnostic::warning("sysfs::W01", 0..0, message));
        machine.trust.push("power: the machine gave none".into());
    } else {
        machine.trust.push("power: the machine's own energy model, dynamic power of busy CPUs only".into());
    }
    machine.trust.push("idle: latencies as advertised; what the hardware does is not known".into());
    machine.trust.push("costs and noise estimated".into());
    if !out.diagnostics.iter().any(Diagnostic::is_error) {
        out.toml = Some(machine.to_toml());
    }
    out
}

/// CPUs that are there and switched off are no part of the platform.
fn offline(files: Files<'_>, online: &[u32]) -> Option<Diagnostic> {
    let off: Vec<u32> = cpus_in(files, &format!("{CPU}/present"))?;
    let off: Vec<u32> = off.into_iter().filter(|c| online.binary_search(c).is_err()).collect();
    if off.is_empty() {
        return None;
    }
    let renumbered = online.iter().zip(0..).find(|(cpu, place)| *cpu != place);
    let renumbered = renumbered.map(|(cpu, place)| {
        format!("; CPU {cpu} becomes CPU {place} and so on: traces of this machine have the old numbers")
    });
    let message = format!("CPUs {} are offline and left out{}", list(&off), renumbered.unwrap_or_default());
    let help = "to have all of them: echo 1 > /sys/devices/system/cpu/cpuN/online for each, then import again";
    Some(Diagnostic::warning("sysfs::W01", 0..0, message).help(help))
}

/// Is every part of `middle` within one of `large`, one of them larger than its part of `small` and smaller than that?
fn between(small: &[Vec<u32>], middle: &[Vec<u32>], large: &[Vec<u32>]) -> bool {
    let around = |part: &Vec<u32>| large.iter().find(|l| part.iter().all(|c| l.contains(c)));
    let of = |cpu: u32| small.iter().find(|s| s.contains(&cpu)).map_or(1, Vec::len);
    let real = |part: &Vec<u32>| part.len() > of(part[0]) && around(part).is_some_and(|l| l.len() > part.len());
    middle.iter().all(|part| around(part).is_some()) && middle.iter().any(real)
}

/// CPUs of each NUMA node that has some; none where the kernel does not give every CPU its node.
fn nodes(files: Files<'_>, place: &BTreeMap<u32, u32>, findings: &mut Vec<Diagnostic>) -> Vec<Vec<u32>> {
    let known = ["online", "possible"].iter().find_map(|f| cpus_in(files, &format!("{NODE}/{f}"))).unwrap_or_default();
    let mut nodes = Vec::new();
    let mut distances = BTreeSet::new();
    for node in known {
        let cpus = cpus_in(files, &format!("{NODE}/node{node}/cpulist")).unwrap_or_default();
        let cpus: Vec<u32> = cpus.iter().filter_map(|c| place.get(c).copied()).collect();
        if !cpus.is_empty() {
            let told = files(&format!("{NODE}/node{node}/distance")).unwrap_or_default();
            distances.extend(told.split_whitespace().filter_map(|d| d.parse::<u32>().ok()));
            nodes.push(cpus);
        }
    }
    let all: BTreeSet<u32> = nodes.iter().flatten().copied().collect();
    if all.len() != place.len() || nodes.iter().map(Vec::len).sum::<usize>() != all.len() {
        return Vec::new();
    }
    // The least is that of a node to itself.
    if distances.len() > 2 {
        let told: Vec<String> = distances.iter().skip(1).map(u32::to_string).collect();
        let message = format!("NUMA nodes are {} apart: here all are equally far from each other", told.join(", "));
        findings.push(Diagnostic::note("sysfs::N04", 0..0, message));
    }
    nodes
}

fn last_caches(files: Files<'_>, cpus: &[u32], place: &BTreeMap<u32, u32>) -> Vec<Vec<u32>> {
    grouped(cpus, place, |cpu| {
        let caches = (0..8).filter_map(|i| {
            let dir = format!("{CPU}/cpu{cpu}/cache/index{i}");
            let level = number(files, &format!("{dir}/level"))?;
            Some((level, cpus_in(files, &format!("{dir}/shared_cpu_list"))?))
        });
        let shared = caches.max_by_key(|c| c.0).map_or_else(|| cpus.to_vec(), |c| c.1);
        shared.iter().filter_map(|c| place.get(c).copied()).collect()
    })
}

/// Groups of CPUs by what each says of its own; asked once a group, and no CPU is in two, whatever the files say.
fn grouped(cpus: &[u32], place: &BTreeMap<u32, u32>, of: impl Fn(u32) -> Vec<u32>) -> Vec<Vec<u32>> {
    let mut groups = Vec::new();
    let mut seen = vec![false; cpus.len()];
    for cpu in cpus {
        let own = place[cpu];
        if seen[own as usize] {
            continue;
        }
        let mut group: Vec<u32> = of(*cpu).into_iter().filter(|c| !seen[*c as usize]).collect();
        if !group.contains(&own) {
            group.push(own);
        }
        group.iter().for_each(|c| seen[*c as usize] = true);
        groups.push(group);
    }
    groups
}

/// CPUs of one clock, and the folder that tells of it.
struct Clock {
    dir: String,
    cpus: Vec<u32>,
    /// All that the folder names, also those that are offline.
    related: Vec<u32>,
}

/// The clocks of `cpus`, by their first CPU. No CPU has two, whatever the files say.
fn clocks(files: Files<'_>, cpus: &[u32]) -> Vec<Clock> {
    let mut left: BTreeSet<u32> = cpus.iter().copied().collect();
    let mut out = Vec::new();
    while let Some(cpu) = left.pop_first() {
        let policy = format!("{CPU}/cpufreq/policy{cpu}");
        let own = format!("{CPU}/cpu{cpu}/cpufreq");
        let told = ["related_cpus", "scaling_governor"].iter().any(|f| files(&format!("{policy}/{f}")).is_some());
        let dir = if told { policy } else { own };
        let related = files(&format!("{dir}/related_cpus")).unwrap_or_default();
        let related: Vec<u32> = related.split_whitespace().filter_map(|c| c.parse().ok()).collect();
        let mut of: Vec<u32> = related.iter().copied().filter(|c| left.remove(c)).collect();
        of.push(cpu);
        of.sort_unstable();
        out.push(Clock { dir, cpus: of, related });
    }
    out
}

fn domains(
    files: Files<'_>,
    clocks: &[Clock],
    place: &BTreeMap<u32, u32>,
    findings: &mut Vec<Diagnostic>,
) -> Vec<Domain> {
    let mut out: Vec<Domain> = Vec::new();
    for Clock { dir, cpus, related } in clocks {
        let (cpu, of) = (cpus[0], cpus.iter().map(|c| place[c]).collect::<Vec<u32>>());
        let khz = frequencies(files, dir, &list(&of), findings);
        // An energy model bears the name of the CPU that was its clock's first, which may be offline since.
        let power = |khz| cpus.iter().chain(related).find_map(|cpu| power(files, *cpu, khz));
        let opps = khz.into_iter().map(|khz| Opp { khz, uv: None, uw: power(khz) }).collect();
        let capacity = number(files, &format!("{CPU}/cpu{cpu}/cpu_capacity")).unwrap_or(1024).clamp(1, 1024);
        let ns = number(files, &format!("{dir}/cpuinfo_transition_latency")).filter(|n| *n < 1_000_000_000);
        out.push(Domain {
            cpus: of,
            core: "unknown".into(),
            capacity: capacity as u32,
            transition_us: (ns.unwrap_or(50_000) / 1_000).clamp(1, 100_000),
            transition_assumed: ns.is_none(),
            opps,
        });
    }
    microwatts(files, &mut out, findings);
    findings.extend(out.iter_mut().filter_map(|d| d.drop_absurd_powers("sysfs::W01")));
    out
}

/// What CPUs `of` one clock can run at, ascending, kHz; at least one.
fn frequencies(files: Files<'_>, dir: &str, of: &str, findings: &mut Vec<Diagnostic>) -> Vec<u64> {
    let mut warn = |message: String| findings.push(Diagnostic::warning("sysfs::W01", 0..0, message));
    let words = |text: String| text.split_whitespace().filter_map(|k| k.parse().ok()).collect::<Vec<u64>>();
    let listed = |file: &str| files(&format!("{dir}/{file}")).map(words).unwrap_or_default();
    let mut khz = listed("scaling_available_frequencies");
    if khz.is_empty() {
        let stats = files(&format!("{dir}/stats/time_in_state")).unwrap_or_default();
        khz.extend(stats.lines().filter_map(|l| l.split_whitespace().next()?.parse::<u64>().ok()));
    }
    let end = |file: &str| number(files, &format!("{dir}/{file}"));
    if khz.is_empty() {
        khz.extend(["cpuinfo_min_freq", "cpuinfo_max_freq"].into_iter().filter_map(end));
        if !khz.is_empty() {
            warn(format!("CPUs {of}: no list of frequencies; only the lowest and the highest are used"));
        }
    }
    // The kernel's own maximum counts boost frequencies when boost is on.
    let boost = number(files, &format!("{dir}/boost")).or(number(files, &format!("{CPU}/cpufreq/boost")));
    let top = end("cpuinfo_max_freq").unwrap_or(0);
    let (on, off): (Vec<u64>, Vec<u64>) =
        listed("scaling_boost_frequencies").into_iter().partition(|k| boost == Some(1) || *k <= top);
    khz.extend(on);
    khz.retain(|k| (1..=u64::from(u32::MAX)).contains(k));
    khz.sort_unstable();
    khz.dedup();
    if khz.is_empty() {
        warn(format!("CPUs {of}: no frequencies in {dir}; taken as one of 1 GHz"));
        khz.push(1_000_000);
    }
    if !off.is_empty() {
        let off: Vec<String> = off.iter().take(5).map(u64::to_string).collect();
        let message = format!("CPUs {of}: boost is off; {} kHz left out", off.join(", "));
        findings.push(Diagnostic::note("sysfs::N02", 0..0, message));
    }
    khz
}

/// Clocks that are kept below their highest frequency, or above their lowest: settings, which are no part of a platform.
fn limits(files: Files<'_>, clocks: &[Clock], place: &BTreeMap<u32, u32>) -> Vec<Diagnostic> {
    let mut kept: BTreeMap<(&str, u64), Vec<u32>> = BTreeMap::new();
    for Clock { dir, cpus, .. } in clocks {
        for (limit, end) in [("scaling_max_freq", "cpuinfo_max_freq"), ("scaling_min_freq", "cpuinfo_min_freq")] {
            let [set, free] = [limit, end].map(|file| number(files, &format!("{dir}/{file}")));
            if let (Some(set), true) = (set, free.is_some() && set != free) {
                kept.entry((limit, set)).or_default().extend(cpus.iter().map(|c| place[c]));
            }
        }
    }
    let told = |((limit, khz), cpus): (&(&str, u64), &Vec<u32>)| {
        let message =
            format!("CPUs {}: {limit} is {khz} kHz, a setting: the platform keeps all operating points", list(cpus));
        let help = "to have the limit, take the others out of the platform file";
        Diagnostic::note("sysfs::N03", 0..0, message).help(help)
    };
    kept.iter().map(told).collect()
}

/// From the energy model in debugfs, in the kernel's unit.
fn power(files: Files<'_>, cpu: u32, khz: u64) -> Option<u64> {
    number(files, &format!("sys/kernel/debug/energy_model/cpu{cpu}/ps:{khz}/power")).filter(|p| *p > 0)
}

/// Energy models are in milliwatts before Linux 5.19, in microwatts since: all of a kernel in one of them. Without a release
/// the greatest power tells: no CPU that has an energy model draws less than 10 mW at its top, none 10 W.
fn microwatts(files: Files<'_>, domains: &mut [Domain], findings: &mut Vec<Diagnostic>) {
    let powers = || domains.iter().flat_map(|d| &d.opps).filter_map(|o| o.uw);
    let Some(greatest) = powers().max() else { return };
    let release = release(files);
    let told = release.as_deref().and_then(version);
    let milli = told.map_or(greatest < 10_000, |version| version < (5, 19));
    if told.is_none() {
        let unit = if milli { "milliwatts, as before Linux 5.19" } else { "microwatts, as since Linux 5.19" };
        let message = format!("no kernel release is told: the energy model is taken for {unit}");
        let help = "add proc/sys/kernel/osrelease or proc/version to the capture";
        findings.push(Diagnostic::warning("sysfs::W01", 0..0, message).help(help));
    }
    if milli {
        domains.iter_mut().flat_map(|d| &mut d.opps).for_each(|o| o.uw = o.uw.map(|mw| mw.saturating_mul(1_000)));
    }
}

/// CPUs of the same states; where one is of the whole cluster, also of the same list of `sleepers`.
fn clusters(files: Files<'_>, cpus: &[u32], place: &BTreeMap<u32, u32>, sleepers: &[Vec<u32>]) -> Vec<Cluster> {
    machine::clusters(cpus.iter().map(|&cpu| {
        let mut idle: Vec<Idle> = (0..CPUIDLE_STATE_MAX as u32).map_while(|s| state(files, cpu, s)).collect();
        if idle.is_empty() {
            idle.push(wfi());
        }
        let together = idle.iter().any(|s| s.scope == "cluster");
        let of = sleepers.iter().position(|l| l.contains(&place[&cpu])).filter(|_| together);
        (place[&cpu], of, idle)
    }))
}

fn state(files: Files<'_>, cpu: u32, index: u32) -> Option<Idle> {
    let dir = format!("{CPU}/cpu{cpu}/cpuidle/state{index}");
    let name = files(&format!("{dir}/name"))?;
    // CPUIDLE_NAME_LEN, with the zero at its end.
    let name = match name.trim().chars().take(15).collect::<String>() {
        empty if empty.is_empty() => format!("state{index}"),
        name => name,
    };
    let us = |file: &str| number(files, &format!("{dir}/{file}")).map(|us| us.min(MAX_US));
    let exit_us = us("latency").unwrap_or(1);
    let residency_us = us("residency").unwrap_or(exit_us.saturating_mul(2).min(MAX_US));
    let disabled = number(files, &format!("{dir}/disable")).is_some_and(|d| d != 0);
    // What `cpuidle_poll_state_init` and the POWER drivers call the state that spins.
    let polling = index == 0 && matches!(name.as_str(), "POLL" | "snooze");
    Some(Idle {
        scope: scope_by_name(&name),
        name,
        exit_us,
        residency_us,
        actual_entry_us: 0,
        actual_exit_us: exit_us,
        polling,
        disabled,
    })
}

// ---- kernels -----------------------------------------------------------------------------------------------------------

/// What a kernel says of itself: any of its configuration, its scheduler features, its release.
#[derive(Clone, Debug, Default)]
pub struct KernelFacts {
    /// `.config`, `/proc/config.gz` unpacked or `/boot/config-*`.
    pub config: Option<String>,
    /// `/sys/kernel/debug/sched/features`.
    pub features: Option<String>,
    /// `uname -r`.
    pub release: Option<String>,
    /// Governors in use, where they were captured.
    pub cpufreq: Option<String>,
    /// See `cpufreq`.
    pub cpuidle: Option<String>,
    /// Tunables that were captured: slot and policy, name in a profile, value as TOML.
    pub tunables: Vec<(&'static str, &'static str, String)>,
    /// `proc/sys/kernel/sched_energy_aware`.
    pub energy_aware: Option<bool>,
    /// `proc/sys/kernel/sched_autogroup_enabled`.
    pub autogroup: Option<bool>,
    /// Of what was captured: what a profile cannot say.
    pub findings: Vec<Diagnostic>,
}

/// Where kernels keep their tunables, and what they are called in a profile. Of two places the first that exists counts.
const TUNABLES: &[(&str, &str, &[&str])] = &[
    ("class.eevdf", "base_slice_ns", &["sys/kernel/debug/sched/base_slice_ns"]),
    ("class.eevdf", "bandwidth_slice_us", &["proc/sys/kernel/sched_cfs_bandwidth_slice_us"]),
    ("class.cfs", "sched_latency_ns", &["sys/kernel/debug/sched/latency_ns", "proc/sys/kernel/sched_latency_ns"]),
    (
        "class.cfs",
        "min_granularity_ns",
        &["sys/kernel/debug/sched/min_granularity_ns", "proc/sys/kernel/sched_min_granularity_ns"],
    ),
    ("class.cfs", "idle_min_granularity_ns", &["sys/kernel/debug/sched/idle_min_granularity_ns"]),
    (
        "class.cfs",
        "wakeup_granularity_ns",
        &["sys/kernel/debug/sched/wakeup_granularity_ns", "proc/sys/kernel/sched_wakeup_granularity_ns"],
    ),
    ("class.cfs", "bandwidth_slice_us", &["proc/sys/kernel/sched_cfs_bandwidth_slice_us"]),
    ("class.rt", "sched_rt_runtime_us", &["proc/sys/kernel/sched_rt_runtime_us"]),
    ("class.rt", "sched_rt_period_us", &["proc/sys/kernel/sched_rt_period_us"]),
    ("class.rt", "sched_rr_timeslice_ms", &["proc/sys/kernel/sched_rr_timeslice_ms"]),
    (
        "balance.load_balance",
        "migration_cost_ns",
        &["sys/kernel/debug/sched/migration_cost_ns", "proc/sys/kernel/sched_migration_cost_ns"],
    ),
    ("balance.load_balance", "nr_migrate", &["sys/kernel/debug/sched/nr_migrate", "proc/sys/kernel/sched_nr_migrate"]),
    ("class.deadline", "sched_deadline_period_min_us", &["proc/sys/kernel/sched_deadline_period_min_us"]),
    ("class.deadline", "sched_deadline_period_max_us", &["proc/sys/kernel/sched_deadline_period_max_us"]),
];

/// Tunables of governors: the governor, name in a profile, name of the file. They are in one folder for all clocks, or in one
/// of each.
const OF_GOVERNORS: &[(&str, &str, &str)] = &[
    ("cpufreq.schedutil", "rate_limit_us", "schedutil/rate_limit_us"),
    ("cpufreq.schedutil", "up_rate_limit_us", "schedutil/up_rate_limit_us"),
    ("cpufreq.schedutil", "down_rate_limit_us", "schedutil/down_rate_limit_us"),
    ("cpufreq.schedutil", "hispeed_freq_khz", "schedutil/hispeed_freq"),
    ("cpufreq.ondemand", "sampling_rate_us", "ondemand/sampling_rate"),
    ("cpufreq.ondemand", "up_threshold", "ondemand/up_threshold"),
    ("cpufreq.ondemand", "sampling_down_factor", "ondemand/sampling_down_factor"),
    ("cpufreq.conservative", "sampling_rate_us", "conservative/sampling_rate"),
    ("cpufreq.conservative", "up_threshold", "conservative/up_threshold"),
    ("cpufreq.conservative", "down_threshold", "conservative/down_threshold"),
    ("cpufreq.conservative", "freq_step_pct", "conservative/freq_step"),
    ("cpufreq.conservative", "sampling_down_factor", "conservative/sampling_down_factor"),
    ("cpufreq.interactive", "hispeed_freq_khz", "interactive/hispeed_freq"),
    ("cpufreq.interactive", "go_hispeed_load", "interactive/go_hispeed_load"),
    ("cpufreq.interactive", "above_hispeed_delay_us", "interactive/above_hispeed_delay"),
    ("cpufreq.interactive", "target_loads", "interactive/target_loads"),
    ("cpufreq.interactive", "min_sample_time_us", "interactive/min_sample_time"),
    ("cpufreq.interactive", "timer_rate_us", "interactive/timer_rate"),
    ("cpufreq.interactive", "boost", "interactive/boost"),
    ("cpufreq.interactive", "boostpulse_duration_us", "interactive/boostpulse_duration"),
    ("cpufreq.userspace", "setspeed_khz", "scaling_setspeed"),
];

/// A captured value as TOML: a number, -1 where there is no limit, or steps such as `85 1000000:90`.
fn value(text: &str) -> Option<String> {
    let text = text.trim();
    if text == "-1" || text.parse::<u64>().is_ok_and(|n| n <= i64::MAX as u64) {
        return Some(text.into());
    }
    let steps = text.contains(':') && text.chars().all(|c| c.is_ascii_digit() || ": ".contains(c));
    steps.then(|| format!("\"{text}\""))
}

/// Of what clocks say each for its CPUs, that of most CPUs, of as many that of the first; that they differ is told.
fn of_most(what: &str, told: &[(String, &[u32])], findings: &mut Vec<Diagnostic>) -> Option<String> {
    let mut values: Vec<(&str, Vec<u32>)> = Vec::new();
    for (value, cpus) in told {
        match values.iter_mut().find(|(v, _)| v == value) {
            Some((_, of)) => of.extend_from_slice(cpus),
            None => values.push((value, cpus.to_vec())),
        }
    }
    let most = values.iter().rev().max_by_key(|(_, cpus)| cpus.len())?.0;
    if values.len() > 1 {
        let one =
            |(value, cpus): &(&str, Vec<u32>)| format!("{} on CPUs {}", quoted(value.trim_matches('"')), list(cpus));
        let all = values.iter().map(one).collect::<Vec<_>>().join(", ");
        let message =
            format!("{what} differs: {all}; a profile has one: {}, that of most CPUs", quoted(most.trim_matches('"')));
        findings.push(Diagnostic::warning("sysfs::W04", 0..0, message));
    }
    Some(most.into())
}

/// What can be read of the tunables, those of a governor from clocks that are `used` with it.
fn tunables(
    files: Files<'_>,
    clocks: &[Clock],
    used: &[Option<String>],
    findings: &mut Vec<Diagnostic>,
) -> Vec<(&'static str, &'static str, String)> {
    let mut out = Vec::new();
    let read = |path: &str, findings: &mut Vec<Diagnostic>| {
        let text = files(path).filter(|text| !text.starts_with('<'))?; // <unsupported>
        let value = value(&text);
        if value.is_none() {
            let message = format!("{path}: {} is left out", quoted(text.trim()));
            findings.push(Diagnostic::warning("sysfs::W01", 0..0, message));
        }
        value
    };
    for (slot, name, paths) in TUNABLES {
        let value = paths.iter().find_map(|path| read(path, findings));
        out.extend(value.map(|value| (*slot, *name, value)));
    }
    for (name, file) in [("fair_server_runtime_us", "runtime"), ("fair_server_period_us", "period")] {
        let ns = number(files, &format!("sys/kernel/debug/sched/fair_server/cpu0/{file}"));
        out.extend(ns.map(|ns| ("class.deadline", name, (ns / 1_000).to_string())));
    }
    for (slot, name, file) in OF_GOVERNORS {
        let governor = slot.trim_start_matches("cpufreq.");
        let mut told = Vec::new();
        let with = |used: &&Option<String>| used.as_deref().is_none_or(|used| used == governor);
        for (clock, _) in clocks.iter().zip(used).filter(|(_, used)| with(used)) {
            let value = read(&format!("{}/{file}", clock.dir), findings);
            told.extend(value.map(|value| (value, &clock.cpus[..])));
        }
        let of_all = read(&format!("{CPU}/cpufreq/{file}"), findings);
        let value = of_all.or_else(|| of_most(file, &told, findings));
        out.extend(value.map(|value| (*slot, *name, value)));
    }
    out
}

/// `uname -r`.
fn release(files: Files<'_>) -> Option<String> {
    let version = || files("proc/version")?.strip_prefix("Linux version ")?.split(' ').next().map(String::from);
    files("proc/sys/kernel/osrelease").map(|r| r.trim().to_string()).or_else(version)
}

/// The configuration of a kernel of this release.
fn config(files: Files<'_>, release: Option<&str>) -> Option<String> {
    let places = ["proc/config.gz", "boot/config-*", "lib/modules/*/config", "proc/config"];
    places.iter().find_map(|path| match release {
        Some(r) if !r.contains('/') => files(&path.replace('*', r)),
        _ => files(path),
    })
}

fn switched_on(config: &str, option: &str) -> bool {
    config.lines().any(|l| l.trim().strip_suffix("=y") == Some(option))
}

/// Ticks a second. Of 250 a configuration says both HZ_250=y and HZ=250; a part of one, either.
fn ticks(config: &str) -> Option<i64> {
    let hz = config.lines().find_map(|l| l.trim().strip_prefix("CONFIG_HZ=")?.parse().ok());
    let hz = hz.or([100, 250, 300, 1000].into_iter().find(|hz| switched_on(config, &format!("CONFIG_HZ_{hz}"))));
    hz.filter(|hz| crate::kernel_toml::HZ.contains(hz))
}

/// Limits of utilisation clamps for the whole system, and what holds here. Kernels begin with 1024 in each.
const CLAMPS: [(&str, &str); 3] = [
    ("sched_util_clamp_min", "a thread may ask for any `util_min`"),
    ("sched_util_clamp_max", "a thread may ask for any `util_max`"),
    ("sched_util_clamp_min_rt_default", "real-time threads run at full speed unless they ask for less"),
];

/// Those of them that a capture sets, which no profile can say.
fn clamps(files: Files<'_>) -> impl Iterator<Item = Diagnostic> {
    let set = move |name: &str| number(files, &format!("proc/sys/kernel/{name}")).filter(|value| *value != 1024);
    CLAMPS.iter().filter_map(move |(name, instead)| {
        let message = format!("{name} = {}: not simulated; {instead}, as with 1024", set(name)?);
        Some(Diagnostic::warning("sysfs::W03", 0..0, message))
    })
}

impl KernelFacts {
    /// From a live machine or a capture.
    pub fn of(files: Files<'_>) -> KernelFacts {
        let release = release(files);
        let line = |path: &str| files(path).map(|t| t.trim().to_string());
        let governor = |clock: &Clock| line(&format!("{}/scaling_governor", clock.dir));
        let clocks = clocks(files, &online(files).unwrap_or(vec![0]));
        let used: Vec<Option<String>> = clocks.iter().map(governor).collect();
        let told: Vec<_> = clocks.iter().zip(&used).filter_map(|(c, g)| Some((g.clone()?, &c.cpus[..]))).collect();
        let mut findings: Vec<Diagnostic> = clamps(files).collect();
        KernelFacts {
            config: config(files, release.as_deref()),
            features: files("sys/kernel/debug/sched/features").or(files("sys/kernel/debug/sched_features")),
            release,
            cpufreq: of_most("the cpufreq governor", &told, &mut findings),
            cpuidle: line(&format!("{CPU}/cpuidle/current_governor")),
            tunables: tunables(files, &clocks, &used, &mut findings),
            energy_aware: number(files, "proc/sys/kernel/sched_energy_aware").map(|n| n != 0),
            autogroup: number(files, "proc/sys/kernel/sched_autogroup_enabled").map(|n| n != 0),
            findings,
        }
    }
    /// From one file: a configuration or a list of features.
    pub fn from_text(text: &str) -> KernelFacts {
        let features = !text.contains("CONFIG_")
            && text.split_whitespace().take(3).all(|w| w.chars().all(|c| c.is_ascii_uppercase() || c == '_'));
        match features {
            true => KernelFacts { features: Some(text.into()), ..KernelFacts::default() },
            false => KernelFacts { config: Some(text.into()), ..KernelFacts::default() },
        }
    }
    /// Version, by the release or the configuration's first lines.
    pub fn version(&self) -> Option<String> {
        let of_config = || {
            let head = self.config.as_ref()?.lines().take(5).find(|l| l.contains("Kernel Configuration"))?;
            head.split_whitespace().find(|w| w.starts_with(|c: char| c.is_ascii_digit())).map(String::from)
        };
        self.release.clone().or_else(of_config)
    }
    /// Is an option built in?
    fn has(&self, option: &str) -> bool {
        self.config.as_ref().is_some_and(|c| switched_on(c, option))
    }
    /// Energy-aware placement is switched off, or left out when the kernel was built.
    fn without_eas(&self) -> bool {
        let left_out = "# CONFIG_ENERGY_MODEL is not set";
        self.energy_aware == Some(false)
            || self.config.as_ref().is_some_and(|c| c.lines().any(|l| l.trim() == left_out))
    }
}

/// The governors in use, or else those that the configuration makes the default.
fn governors(facts: &KernelFacts, findings: &mut Vec<Diagnostic>) -> String {
    let default = |prefix: &str, of: &[&str]| {
        let found = of.iter().find(|g| facts.has(&format!("{prefix}_{}", g.to_uppercase())));
        found.map(|g| g.to_string())
    };
    let cpufreq = ["schedutil", "ondemand", "conservative", "performance", "powersave", "userspace", "interactive"];
    // By rating, as the kernel picks among those built in: menu 20, teo 19, ladder 10 (25 where ticks never stop), haltpoll 9.
    let mut cpuidle = ["menu", "teo", "ladder", "haltpoll"];
    if facts.has("CONFIG_HZ_PERIODIC") {
        cpuidle = ["ladder", "menu", "teo", "haltpoll"];
    }
    let in_use = [
        ("cpufreq", facts.cpufreq.clone().or_else(|| default("CONFIG_CPU_FREQ_DEFAULT_GOV", &cpufreq)), &cpufreq[..]),
        ("cpuidle", facts.cpuidle.clone().or_else(|| default("CONFIG_CPU_IDLE_GOV", &cpuidle)), &cpuidle[..]),
    ];
    let mut policies = String::new();
    for (slot, governor, known) in in_use {
        match governor {
            Some(g) if known.contains(&g.as_str()) => drop(writeln!(policies, "{slot} = \"{g}\"")),
            Some(g) => {
                let message = format!("{slot} governor {}: not simulated; the parent's is used", quoted(&g));
                findings.push(Diagnostic::warning("sysfs::W01", 0..0, message));
            }
            None => {}
        }
    }
    policies
}

/// What kernels are built with that changes figures and that no profile can ask for.
const NOT_SIMULATED: [(&str, &str); 4] = [
    ("CONFIG_PREEMPT_RT", "interrupts are no threads here, and locks of the kernel do not sleep"),
    ("CONFIG_HZ_PERIODIC", "ticks of idle CPUs stop here"),
    ("CONFIG_NO_HZ_FULL", "ticks of busy CPUs never stop here, as without `nohz_full=` on the command line"),
    (AUTOGROUP, "threads of a session are no group here, as with sched_autogroup_enabled = 0"),
];
const AUTOGROUP: &str = "CONFIG_SCHED_AUTOGROUP";

fn not_simulated(facts: &KernelFacts) -> impl Iterator<Item = Diagnostic> {
    NOT_SIMULATED
        .iter()
        .filter(|(option, _)| facts.has(option) && !(*option == AUTOGROUP && facts.autogroup == Some(false)))
        .map(|(option, instead)| Diagnostic::warning("sysfs::W03", 0..0, format!("{option}: not simulated; {instead}")))
}

/// A kernel profile that inherits from `parent` and sets what is known. `features` are those the simulator has.
pub fn kernel(facts: &KernelFacts, name: &str, parent: &str, features: &[&str]) -> Imported {
    let mut out = Imported::default();
    out.diagnostics.extend(not_known(facts, parent));
    let policies = governors(facts, &mut out.diagnostics);
    out.diagnostics.extend(facts.findings.iter().cloned());
    out.diagnostics.extend(not_simulated(facts));
    let mut set = String::new();
    for word in facts.features.as_deref().unwrap_or_default().split_whitespace().take(200) {
        let (name, on) = word.strip_prefix("NO_").map_or((word, true), |n| (n, false));
        match features.contains(&name) {
            true => drop(writeln!(set, "{name} = {on}")),
            false => out.diagnostics.push(Diagnostic::note(
                "sysfs::N01",
                0..0,
                format!("scheduler feature {}: not simulated", quoted(name)),
            )),
        }
    }
    let hz = facts.config.as_deref().and_then(ticks);
    let eas = facts.energy_aware.is_some() || facts.without_eas();
    let told = facts.version().is_some() || hz.is_some() || !facts.tunables.is_empty() || eas;
    if !told && policies.is_empty() && set.is_empty() {
        let message = "nothing of a kernel is recognised here: no version, no option and no feature that is simulated";
        let help = "name a configuration (/proc/config.gz, /boot/config-RELEASE), a list of scheduler features \
            (/sys/kernel/debug/sched/features), or --sysfs / or a capture of it";
        out.diagnostics = vec![Diagnostic::error("sysfs::E02", 0..0, message).help(help)];
        return out;
    }
    let version = facts.version().unwrap_or_else(|| "unknown".into());
    let version: String =
        version.chars().filter(|c| c.is_ascii_alphanumeric() || ".-_+".contains(*c)).take(64).collect();
    let mut text = format!("# Linux {version}, as captured; what is not set here is as in {parent}.\n");
    let _ =
        writeln!(text, "name     = \"{name}\"\ntitle    = \"Linux {version}, as captured\"\ninherits = \"{parent}\"");
    if let Some(hz) = hz {
        let _ = writeln!(text, "hz       = {hz}");
    }
    if !policies.is_empty() {
        let _ = write!(text, "\n[policies]\n{policies}");
    }
    if !set.is_empty() {
        let _ = write!(text, "\n[features]\n{set}");
    }
    if facts.without_eas() {
        let _ = writeln!(text, "\n[placement.eas]\ngeneration = \"off\"");
    }
    let mut last = "";
    for (slot, name, value) in &facts.tunables {
        if *slot != last {
            let _ = writeln!(text, "\n[{slot}]");
            last = slot;
        }
        let _ = writeln!(text, "{name} = {value}");
    }
    out.toml = Some(text);
    out
}

/// What a profile takes from its parent because the kernel did not tell.
fn not_known(facts: &KernelFacts, parent: &str) -> Vec<Diagnostic> {
    let warning = |code, message| Diagnostic::warning(code, 0..0, message);
    let mut out = Vec::new();
    let of_parent = parent.strip_prefix("linux-").and_then(version);
    match facts.version().as_deref().map(version) {
        Some(Some((major, minor))) if of_parent.is_some_and(|p| p != (major, minor)) => {
            let why =
                if of_parent > Some((major, minor)) { "there is none before it" } else { "the last one before it" };
            let message = format!(
                "no profile of Linux {major}.{minor}: {parent} is taken ({why}), and what changed between them is as there"
            );
            out.push(warning("sysfs::W02", message));
        }
        Some(Some(_)) => {}
        _ => out.push(warning("sysfs::W02", format!("no kernel version is told: taken as {parent}"))),
    }
    if facts.config.is_none() {
        let message = format!(
            "no configuration (proc/config.gz, boot/config-RELEASE): HZ and what is built in are as in {parent}"
        );
        out.push(warning("sysfs::W01", message));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_machine() {
        let files = |path: &str| -> Option<String> {
            let text = match path.strip_prefix("sys/devices/system/cpu/")? {
                "present" => "0-3",
                "cpu0/cpu_capacity" => "400",
                "cpufreq/policy0/related_cpus" => "0 1",
                "cpufreq/policy2/related_cpus" => "2 3",
                "cpufreq/policy0/scaling_available_frequencies" => "500000 1000000 ",
                "cpufreq/policy2/scaling_available_frequencies" => "800000 2000000 ",
                "cpu0/cpuidle/state0/name" | "cpu1/cpuidle/state0/name" => "WFI\n",
                _ => return None,
            };
            Some(text.into())
        };
        let imported = platform(&files, "board");
        let toml = imported.toml.expect("a platform");
        let parsed = crate::platform_toml::parse(&toml, &Default::default());
        let p = parsed.platform.unwrap_or_else(|| panic!("{:?}\n{toml}", parsed.diagnostics));
        assert_eq!((p.nr_cpus(), p.cpus[0].capacity, p.cpus[2].capacity, p.domains.len()), (4, 400, 1024, 2));
        assert_eq!(p.domains[1].opps[1].khz, 2_000_000);
        assert!(platform(&|_| None, "x").toml.is_none());
    }

    #[test]
    fn one_unit_for_an_energy_model() {
        let with = |release: Option<&'static str>, powers: [&'static str; 3]| {
            let files = move |path: &str| -> Option<String> {
                let text = match path {
                    "proc/sys/kernel/osrelease" => release?,
                    "sys/devices/system/cpu/present" => "0",
                    "sys/devices/system/cpu/cpu0/cpufreq/scaling_available_frequencies" => "300000 600000 1800000",
                    "sys/kernel/debug/energy_model/cpu0/ps:300000/power" => powers[0],
                    "sys/kernel/debug/energy_model/cpu0/ps:600000/power" => powers[1],
                    "sys/kernel/debug/energy_model/cpu0/ps:1800000/power" => powers[2],
                    _ => return None,
                };
                Some(text.into())
            };
            let imported = platform(&files, "board");
            let guessed = imported.diagnostics.iter().any(|d| d.message.contains("no kernel release"));
            let parsed = crate::platform_toml::parse(&imported.toml.expect("a platform"), &Default::default());
            (parsed.platform.expect("it is valid").domains[0].power.busy_uw.clone(), guessed)
        };
        let micro = ["5250", "12600", "61000"];
        assert_eq!(with(Some("6.6.30-android15"), micro), (vec![5_250, 12_600, 61_000], false));
        assert_eq!(with(Some("5.19.0"), micro), (vec![5_250, 12_600, 61_000], false));
        assert_eq!(with(Some("5.15.1\n"), ["5", "12", "12000"]), (vec![5_000, 12_000, 12_000_000], false));
        assert_eq!(with(None, micro), (vec![5_250, 12_600, 61_000], true));
        assert_eq!(with(None, ["5", "12", "61"]), (vec![5_000, 12_000, 61_000], true));
    }

    #[test]
    fn the_energy_model_of_a_clock_whose_first_cpu_is_offline() {
        let files = |path: &str| -> Option<String> {
            let text = match path {
                "proc/sys/kernel/osrelease" => "6.6.30",
                "sys/devices/system/cpu/present" => "0-1",
                "sys/devices/system/cpu/online" => "1",
                "sys/devices/system/cpu/cpu1/cpufreq/related_cpus" => "0 1",
                "sys/devices/system/cpu/cpu1/cpufreq/scaling_available_frequencies" => "300000",
                "sys/kernel/debug/energy_model/cpu0/ps:300000/power" => "5250",
                _ => return None,
            };
            Some(text.into())
        };
        let parsed = crate::platform_toml::parse(&platform(&files, "board").toml.unwrap(), &Default::default());
        assert_eq!(parsed.platform.expect("it is valid").domains[0].power.busy_uw, [5_250]);
    }

    #[test]
    fn a_power_that_no_cpu_has() {
        let files = |path: &str| -> Option<String> {
            let text = match path {
                "proc/sys/kernel/osrelease" => "6.6.30",
                "sys/devices/system/cpu/present" => "0",
                "sys/devices/system/cpu/cpu0/cpufreq/scaling_available_frequencies" => "300000",
                "sys/kernel/debug/energy_model/cpu0/ps:300000/power" => "5250000000",
                _ => return None,
            };
            Some(text.into())
        };
        let imported = platform(&files, "board");
        assert!(
            imported.diagnostics.iter().any(|d| d.message.contains("5250000000 µW at an operating point is no power"))
        );
        let parsed = crate::platform_toml::parse(&imported.toml.unwrap(), &Default::default());
        assert!(parsed.platform.is_some(), "{:?}", parsed.diagnostics);
    }

    #[test]
    fn a_state_that_polls() {
        let files = |path: &str| -> Option<String> {
            let text = match path.strip_prefix("sys/devices/system/cpu/")? {
                "present" => "0",
                "cpu0/cpuidle/state0/name" => "POLL\n",
                "cpu0/cpuidle/state0/latency" | "cpu0/cpuidle/state0/residency" => "0\n",
                "cpu0/cpuidle/state1/name" => "C1\n",
                _ => return None,
            };
            Some(text.into())
        };
        let parsed = crate::platform_toml::parse(&platform(&files, "pc").toml.unwrap(), &Default::default());
        let idle = &parsed.platform.unwrap_or_else(|| panic!("{:?}", parsed.diagnostics)).clusters[0].idle;
        assert_eq!(idle.iter().map(|s| s.polling).collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn lists_that_disagree() {
        let place: BTreeMap<u32, u32> = (0..4).map(|c| (c, c)).collect();
        let all = [0, 1, 2, 3];
        assert_eq!(grouped(&all, &place, |_| vec![0, 1]), [vec![0, 1], vec![2], vec![3]]);
        assert_eq!(grouped(&all, &place, |c| vec![c, 3]), [vec![0, 3], vec![1], vec![2]]);
        // Thousands of CPUs that all name all others: each is asked once at most.
        let many: Vec<u32> = (0..4000).collect();
        let place: BTreeMap<u32, u32> = many.iter().map(|c| (*c, *c)).collect();
        assert_eq!(grouped(&many, &place, |_| many.clone()).len(), 1);
    }

    #[test]
    fn clusters_of_the_scheduler() {
        // Eight CPUs of one last-level cache; the kernel says who shares the level below.
        let machine = |low: &'static str, high: &'static str| {
            let files = move |path: &str| -> Option<String> {
                let path = path.strip_prefix("sys/devices/system/cpu/")?;
                let (cpu, file) = path.split_once('/').unwrap_or(("", path));
                let low_half = cpu.strip_prefix("cpu").and_then(|n| n.parse::<u32>().ok()).is_some_and(|n| n < 4);
                let text = match file {
                    "present" => "0-7",
                    "topology/cluster_cpus_list" => {
                        if low_half {
                            low
                        } else {
                            high
                        }
                    }
                    "cache/index0/level" => "3",
                    "cache/index0/shared_cpu_list" => "0-7",
                    "related_cpus" => "0-7",
                    "scaling_available_frequencies" => "1000000 2000000",
                    _ => return None,
                };
                Some(text.into())
            };
            platform(&files, "board").toml.expect("a platform")
        };
        assert!(machine("0-3", "4-7").contains("l2 = [\"0-3\", \"4-7\"]"), "{}", machine("0-3", "4-7"));
        let parsed = crate::platform_toml::parse(&machine("0-3", "4-7"), &Default::default());
        assert_eq!(parsed.platform.expect("it is valid").cpus[5].l2, Some(1));
        assert!(!machine("0-7", "0-7").contains("l2 ="), "a cluster as large as its cache is none");
    }

    #[test]
    fn a_kernel_without_a_profile() {
        let told = |release: &str, parent| {
            let facts = KernelFacts { release: Some(release.into()), ..KernelFacts::default() };
            kernel(&facts, "k", parent, &[]).diagnostics.swap_remove(0).message
        };
        let check = |release, parent, what: &str| assert!(told(release, parent).contains(what), "{release}");
        check("4.19.113", "linux-4.10", "no profile of Linux 4.19: linux-4.10 is taken (the last one before it)");
        check("2.6.32", "linux-3.13", "linux-3.13 is taken (there is none before it)");
    }

    #[test]
    fn a_kernel() {
        let facts = KernelFacts {
            config: Some(
                "# Linux/arm64 6.1.0 Kernel Configuration\nCONFIG_CPU_IDLE_GOV_TEO=y\nCONFIG_HZ_1000=y\n".into(),
            ),
            features: Some("GENTLE_FAIR_SLEEPERS NO_SIS_PROP WHATEVER".into()),
            ..KernelFacts::of(&|path| match path {
                "proc/sys/kernel/sched_latency_ns" => Some("18000000\n".into()),
                "sys/kernel/debug/sched/wakeup_granularity_ns" => Some("3000000\n".into()),
                "sys/devices/system/cpu/cpufreq/schedutil/rate_limit_us" => Some("2000\n".into()),
                "sys/kernel/debug/sched/nr_migrate" => Some("many\n".into()),
                _ => None,
            })
        };
        assert_eq!(facts.version().as_deref(), Some("6.1.0"));
        let out = kernel(&facts, "mine", "linux-6.1", &["GENTLE_FAIR_SLEEPERS", "SIS_PROP"]);
        let text = out.toml.unwrap();
        let class = "[class.cfs]\nsched_latency_ns = 18000000\nwakeup_granularity_ns = 3000000\n";
        let cpufreq = "[cpufreq.schedutil]\nrate_limit_us = 2000\n";
        for part in
            ["inherits = \"linux-6.1\"", "hz       = 1000", "cpuidle = \"teo\"", "SIS_PROP = false", class, cpufreq]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("nr_migrate"));
        assert_eq!(out.diagnostics.len(), 2);
        assert!(out.diagnostics[0].message.ends_with("nr_migrate: `many` is left out"), "{:?}", out.diagnostics);
    }

    /// Ticks of the platform are those of the configuration; a guess is marked.
    #[test]
    fn ticks_of_a_platform() {
        let hz = |config: Option<&'static str>| {
            let out = platform(
                &|path| match path {
                    "sys/devices/system/cpu/online" => Some("0\n".into()),
                    "proc/config" => config.map(String::from),
                    _ => None,
                },
                "m",
            );
            let text = out.toml.unwrap();
            text.lines().find(|l| l.starts_with("hz ")).unwrap().to_string()
        };
        assert_eq!(hz(Some("CONFIG_HZ_1000=y\n")), "hz    = 1000");
        assert_eq!(hz(Some("CONFIG_HZ=300\n")), "hz    = 300");
        for none in [None, Some("CONFIG_SMP=y\n"), Some("CONFIG_HZ=0\n")] {
            assert_eq!(hz(none), "hz    = 250  # assumed: nothing tells it");
        }
    }

    #[test]
    fn clamps_of_the_system_are_told() {
        let said = |values: [&'static str; 3]| {
            let at = |path: &str| CLAMPS.iter().position(|(name, _)| path == format!("proc/sys/kernel/{name}"));
            let facts = KernelFacts::of(&|path| at(path).map(|i| values[i].into()));
            facts.findings.into_iter().map(|d| (d.code, d.message)).collect::<Vec<_>>()
        };
        assert_eq!(said(["1024\n"; 3]), []);
        let told = said(["1024", "512\n", "0"]);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told.iter().all(|(code, _)| *code == "sysfs::W03"));
        assert!(told[0].1.starts_with("sched_util_clamp_max = 512: not simulated; "), "{told:?}");
        assert!(told[1].1.starts_with("sched_util_clamp_min_rt_default = 0: not simulated; real-time"), "{told:?}");
    }

    /// Two clocks of two and four CPUs, each set in its own way.
    #[test]
    fn clocks_that_are_set_differently() {
        let with = |governors: [&'static str; 2]| {
            let files = move |path: &str| -> Option<String> {
                let text = match path {
                    "proc/sys/kernel/osrelease" => "6.1.0",
                    "proc/sys/kernel/sched_rt_runtime_us" => "-1\n",
                    "proc/sys/kernel/sched_autogroup_enabled" => "1",
                    "proc/config" => "CONFIG_HZ=250\nCONFIG_SCHED_AUTOGROUP=y\n",
                    "sys/kernel/debug/sched/fair_server/cpu0/runtime" => "50000000",
                    _ => match path.strip_prefix("sys/devices/system/cpu/")? {
                        "online" => "0-5",
                        "cpufreq/policy0/related_cpus" => "0 1",
                        "cpufreq/policy2/related_cpus" => "2 3 4 5",
                        "cpufreq/policy0/scaling_governor" => governors[0],
                        "cpufreq/policy2/scaling_governor" => governors[1],
                        "cpufreq/policy0/interactive/target_loads" => "80",
                        "cpufreq/policy2/interactive/target_loads" => "85 1000000:90\n",
                        // Of the hardware, not of the governor.
                        "cpufreq/policy0/boost" => "1",
                        "cpufreq/policy0/schedutil/rate_limit_us" => "500",
                        "cpufreq/conservative/freq_step" => "10",
                        "cpufreq/policy0/scaling_setspeed" => "<unsupported>",
                        _ => return None,
                    },
                };
                Some(text.into())
            };
            let out = kernel(&KernelFacts::of(&files), "mine", "linux-6.1", &[]);
            (out.toml.unwrap(), out.diagnostics.iter().map(|d| d.message.clone()).collect::<Vec<_>>())
        };
        let (text, said) = with(["interactive", "interactive"]);
        for part in [
            "cpufreq = \"interactive\"",
            "[class.rt]\nsched_rt_runtime_us = -1\n",
            "[class.deadline]\nfair_server_runtime_us = 50000\n",
            "[cpufreq.conservative]\nfreq_step_pct = 10\n",
            "[cpufreq.interactive]\ntarget_loads = \"85 1000000:90\"\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("boost") && !text.contains("setspeed"), "{text}");
        assert!(said[0].starts_with("interactive/target_loads differs: `80` on CPUs 0-1, "), "{said:?}");
        assert!(said[1].starts_with("CONFIG_SCHED_AUTOGROUP: not simulated") && said.len() == 2, "{said:?}");
        let (text, said) = with(["schedutil", "performance"]);
        assert!(text.contains("cpufreq = \"performance\"") && text.contains("rate_limit_us = 500"), "{text}");
        let differs = "the cpufreq governor differs: `schedutil` on CPUs 0-1, `performance` on CPUs 2-5; a profile has \
            one: `performance`, that of most CPUs";
        assert_eq!(said[0], differs);
    }

    #[test]
    fn nodes_and_limits() {
        let with = |nodes: [&'static str; 2], packages: [&'static str; 2]| {
            let files = move |path: &str| -> Option<String> {
                if let Some(path) = path.strip_prefix("sys/devices/system/node/") {
                    let text = match path {
                        "online" => "0-2",
                        "node0/cpulist" => nodes[0],
                        "node1/cpulist" => nodes[1],
                        "node2/cpulist" => "\n", // memory alone
                        "node0/distance" | "node1/distance" => "10 21 12",
                        _ => return None,
                    };
                    return Some(text.into());
                }
                let path = path.strip_prefix("sys/devices/system/cpu/")?;
                let (cpu, file) = path.split_once('/').unwrap_or(("", path));
                Some(match (cpu, file) {
                    (_, "online") => "0-3".into(),
                    ("cpu0" | "cpu1", "topology/package_cpus_list") => packages[0].into(),
                    (_, "topology/package_cpus_list") => packages[1].into(),
                    ("cpu0" | "cpu1", "cache/index0/shared_cpu_list") => "0-1".into(),
                    (_, "cache/index0/shared_cpu_list") => "2-3".into(),
                    (_, "cache/index0/level") => "3".into(),
                    (_, "cpufreq/cpuinfo_min_freq" | "cpufreq/scaling_min_freq") => "800000".into(),
                    (_, "cpufreq/cpuinfo_max_freq") => "3500000".into(),
                    ("cpu3", "cpufreq/scaling_max_freq") => "2000000".into(),
                    (_, "cpufreq/scaling_max_freq") => "3500000".into(),
                    _ => return None,
                })
            };
            let imported = platform(&files, "server");
            let toml = imported.toml.unwrap();
            let parsed = crate::platform_toml::parse(&toml, &Default::default());
            let p = parsed.platform.unwrap_or_else(|| panic!("{:?}\n{toml}", parsed.diagnostics));
            let notes: Vec<&str> = imported.diagnostics.iter().map(|d| d.code).collect();
            let limit = "CPUs 3: scaling_max_freq is 2000000 kHz";
            assert!(imported.diagnostics.iter().any(|d| d.message.starts_with(limit)), "{:?}", imported.diagnostics);
            assert!(toml.matches("khz = 3500000").count() == 4, "a limit takes no operating point away");
            (p.cpus.iter().map(|c| c.node).collect::<Vec<_>>(), notes.contains(&"sysfs::N04"))
        };
        let (one, two) = (["0-3"; 2], ["0-1", "2-3"]);
        assert_eq!(with(two, one), (vec![0, 0, 1, 1], true), "several nodes of a package");
        assert_eq!(with(two, two).0, [0, 0, 1, 1]);
        assert_eq!(with(["0-3", ""], two).0, [0; 4], "one node of several packages");
        assert_eq!(with(["0-1", ""], two).0, [0, 0, 1, 1], "without all CPUs it is not believed: by package");
    }

    #[test]
    fn what_is_no_kernel() {
        for text in ["", "x\n", "# wattif\n\nWhat-if analysis of Linux.", "CONFIG_FOO=y\n", "ONE TWO"] {
            let out = kernel(&KernelFacts::from_text(text), "mine", "linux-6.12", &["PLACE_LAG"]);
            assert!(out.toml.is_none() && out.diagnostics.len() == 1, "{text}: {:?}", out.diagnostics);
            assert_eq!(out.diagnostics[0].code, "sysfs::E02", "{text}");
        }
        let told = |text: &str| {
            let out = kernel(&KernelFacts::from_text(text), "mine", "linux-6.12", &["PLACE_LAG"]);
            assert!(out.toml.is_some(), "{text}: {:?}", out.diagnostics);
            out.diagnostics.iter().map(|d| format!("{} {}", d.code, d.message)).collect::<Vec<_>>().join("\n")
        };
        assert!(told("# Linux/x86 6.18.44 Kernel Configuration\n").contains("no profile of Linux 6.18: linux-6.12"));
        assert_eq!(told("# Linux/x86 6.12.1 Kernel Configuration\n"), "");
        let of_200 = kernel(&KernelFacts::from_text("CONFIG_HZ_200=y\nCONFIG_HZ=200\n"), "mine", "linux-6.12", &[]);
        assert!(of_200.toml.unwrap().contains("hz       = 200\n"));
        assert!(told("CONFIG_HZ_250=y\n").contains("no kernel version is told: taken as linux-6.12"));
        assert!(told("NO_PLACE_LAG").contains("no configuration"));
    }

    #[test]
    fn boost_frequencies() {
        let with = |boost: Option<&'static str>, top: Option<&'static str>| {
            let imported = platform(
                &move |path| match path.strip_prefix("sys/devices/system/cpu/")? {
                    "present" => Some("0".into()),
                    "cpu0/cpufreq/scaling_available_frequencies" => Some("600000 1800000".into()),
                    "cpu0/cpufreq/scaling_boost_frequencies" => Some("2000000 ".into()),
                    "cpu0/cpufreq/cpuinfo_max_freq" => top.map(String::from),
                    "cpufreq/boost" => boost.map(String::from),
                    _ => None,
                },
                "board",
            );
            let off = imported.diagnostics.iter().any(|d| d.message == "CPUs 0: boost is off; 2000000 kHz left out");
            (imported.toml.unwrap().contains("khz = 2000000"), off)
        };
        assert_eq!(with(Some("1"), None), (true, false));
        assert_eq!(with(None, Some("2000000")), (true, false));
        assert_eq!(with(Some("0"), Some("1800000")), (false, true));
    }

    #[test]
    fn states_of_clusters() {
        let with = |list: &'static str| {
            let files = move |path: &str| -> Option<String> {
                let (cpu, file) =
                    path.strip_prefix("sys/devices/system/cpu/")?.split_once('/').unwrap_or(("", "present"));
                Some(match (cpu, file) {
                    ("", _) => "0-3".into(),
                    ("cpu0" | "cpu1", of) if of == list || of == "cache/index0/shared_cpu_list" => "0-1".into(),
                    (_, of) if of == list || of == "cache/index0/shared_cpu_list" => "2-3".into(),
                    (_, "cache/index0/level") => "2".into(),
                    (_, "cpuidle/state0/name") => "WFI".into(),
                    (_, "cpuidle/state1/name") => "cluster-sleep-0".into(),
                    _ => return None,
                })
            };
            platform(&files, "board").toml.unwrap()
        };
        for list in ["topology/cluster_cpus_list", "topology/core_siblings_list"] {
            let parsed = crate::platform_toml::parse(&with(list), &Default::default());
            let p = parsed.platform.unwrap_or_else(|| panic!("{:?}", parsed.diagnostics));
            assert_eq!(p.clusters.iter().map(|c| c.cpus.to_string()).collect::<Vec<_>>(), ["0-1", "2-3"], "{list}");
            assert_eq!(p.clusters[0].idle[1].scope, wattif_model::platform::Scope::Cluster);
        }
    }

    #[test]
    fn facts_of_a_kernel_that_a_profile_lacks_words_for() {
        let options = "CONFIG_PREEMPT_RT=y\nCONFIG_HZ_PERIODIC=y\nCONFIG_NO_HZ_FULL=y\nCONFIG_CPU_IDLE_GOV_MENU=y\n\
            CONFIG_CPU_IDLE_GOV_LADDER=y\n";
        let files = |idle: Option<&'static str>| {
            KernelFacts::of(&move |path| match path {
                "proc/sys/kernel/osrelease" => Some("6.12.1\n".into()),
                "proc/sys/kernel/sched_energy_aware" => Some("0\n".into()),
                "proc/config" => Some(options.into()),
                "sys/devices/system/cpu/cpuidle/current_governor" => idle.map(String::from),
                _ => None,
            })
        };
        let out = kernel(&files(Some("qcom-lpm\n")), "mine", "linux-6.12", &[]);
        let said: Vec<&str> = out.diagnostics.iter().filter_map(|d| d.message.split([':', ';']).next()).collect();
        let options = ["CONFIG_PREEMPT_RT", "CONFIG_HZ_PERIODIC", "CONFIG_NO_HZ_FULL"];
        assert_eq!(said, [&["cpuidle governor `qcom-lpm`"][..], &options].concat());
        let text = out.toml.unwrap();
        assert!(text.contains("[placement.eas]\ngeneration = \"off\"\n") && !text.contains("cpuidle"), "{text}");
        let text = kernel(&files(None), "mine", "linux-6.12", &[]).toml.unwrap();
        assert!(text.contains("cpuidle = \"ladder\""), "{text}");
    }

    #[test]
    fn a_configuration_in_proc() {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        io::Write::write_all(&mut packed, b"CONFIG_HZ_300=y\n").unwrap();
        let packed = packed.finish().unwrap();
        let with = |at: &'static str| {
            let packed = packed.clone();
            KernelFacts::of(&move |path| match path {
                "proc/sys/kernel/osrelease" => Some("6.12.1\n".into()),
                _ => (path == at).then(|| text_of(&packed).unwrap()),
            })
        };
        for at in ["proc/config.gz", "boot/config-6.12.1", "lib/modules/6.12.1/config", "proc/config"] {
            let out = kernel(&with(at), "mine", "linux-6.12", &[]);
            assert!(out.toml.unwrap().contains("hz       = 300") && out.diagnostics.is_empty(), "{at}");
        }
        let out = kernel(&with("elsewhere"), "mine", "linux-6.12", &[]);
        assert!(out.diagnostics[0].message.contains("HZ"), "{:?}", out.diagnostics);
        assert!(text_of(&packed[..packed.len() - 9]).is_err() && text_of(b"\xff").is_err());
    }

    #[test]
    fn states_without_sense_give_a_platform_all_the_same() {
        let files = |path: &str| -> Option<String> {
            let text = match path.strip_prefix("sys/devices/system/cpu/")? {
                "present" => "0".into(),
                "cpu0/cpuidle/state0/name" => "\n".into(),
                "cpu0/cpuidle/state1/name" => "x".repeat(300),
                "cpu0/cpuidle/state1/latency" => "99999999999".into(),
                _ => return None,
            };
            Some(text)
        };
        let parsed = crate::platform_toml::parse(&platform(&files, "board").toml.unwrap(), &Default::default());
        let p = parsed.platform.unwrap_or_else(|| panic!("{:?}", parsed.diagnostics));
        let names: Vec<&str> = p.clusters[0].idle.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["state0", "x".repeat(15).as_str()]);
    }

    #[test]
    fn cpus_and_states_that_are_switched_off() {
        let files = |path: &str| -> Option<String> {
            let text = match path.strip_prefix("sys/devices/system/cpu/")? {
                "present" => "0-3",
                "online" => "0,2",
                "cpu0/cpu_capacity" | "cpu2/cpu_capacity" => "400",
                "cpu0/cpuidle/state0/name" | "cpu2/cpuidle/state0/name" => "WFI",
                "cpu0/cpuidle/state1/name" | "cpu2/cpuidle/state1/name" => "deep",
                "cpu0/cpuidle/state1/disable" => "1\n",
                _ => return None,
            };
            Some(text.into())
        };
        let imported = platform(&files, "board");
        let off = &imported.diagnostics[0].message;
        assert!(off.starts_with("CPUs 1,3 are offline and left out; CPU 2 becomes CPU 1"), "{off}");
        let parsed = crate::platform_toml::parse(&imported.toml.unwrap(), &Default::default());
        let p = parsed.platform.unwrap_or_else(|| panic!("{:?}", parsed.diagnostics));
        assert_eq!(p.cpus.iter().map(|c| c.capacity).collect::<Vec<_>>(), [400, 400]);
        let disabled: Vec<Vec<bool>> = p.clusters.iter().map(|c| c.idle.iter().map(|s| s.disabled).collect()).collect();
        assert_eq!(disabled, [[false, true], [false, false]]);
    }
}
