//! A platform of what a machine says of its CPUs, clocks and idle states.

use super::boot::Boot;
use super::kernel::{config, release, ticks};
use super::{CPU, Files, Imported, NODE, cpus_in, number, online};
use crate::machine::{self, Cluster, Domain, Idle, Machine, Opp, between, list, scope_by_name, wfi};
use crate::platform_toml::{MAX_OPPS, MAX_US};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::check::Diagnostic;
use wattif_model::kernel::version;
use wattif_model::platform::CPUIDLE_STATE_MAX;

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
    out.diagnostics.extend(Boot::of(files).of_cpus());
    let placed = |of: Vec<u32>| -> Vec<u32> { of.iter().filter_map(|c| place.get(c).copied()).collect() };
    let model = files("sys/firmware/devicetree/base/model").or(files("sys/class/dmi/id/product_name"));
    let mut machine = Machine {
        name: name.into(),
        title: model.map_or_else(|| name.into(), |m| m.trim_matches(['\0', '\n', ' ']).to_string()),
        source: "its /sys".into(),
        kernel_cpus: if place.iter().any(|(cpu, place)| cpu != place) { cpus.clone() } else { Vec::new() },
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
    machine.llc = last_caches(files, &cpus, &place, &machine, &mut out.diagnostics);
    machine.l2 = group("topology/cluster_cpus_list");
    // Kernels before 5.16 call the clusters of cpu-map packages.
    let told = machine.l2.iter().any(|c| c.len() > 1);
    let sleepers = if told { machine.l2.clone() } else { machine.packages.clone() };
    if !between(&machine.cores, &machine.l2, &machine.llc) {
        machine.l2 = Vec::new();
    }
    let clocks = clocks(files, &cpus);
    machine.domains = domains(files, &clocks, &place, &mut out.diagnostics);
    machine.capacity_untold = capacities(files, &clocks, &mut machine.domains, &mut out.diagnostics);
    out.diagnostics.extend(limits(files, &clocks));
    let without;
    (machine.clusters, without) = clusters(files, &cpus, &place, &sleepers);
    if !without.is_empty() {
        let message =
            format!("CPUs {}: no idle states (cpuidle); one is assumed, which they leave in 1 µs", list(&without));
        out.diagnostics.push(Diagnostic::warning("sysfs::W01", 0..0, message));
    }
    if !machine.domains.iter().all(|d| d.opps.iter().all(|o| o.uw.is_some())) {
        let message = "no energy model (sys/kernel/debug/energy_model): no energy is reported";
        out.diagnostics.push(Diagnostic::warning("sysfs::W01", 0..0, message));
        machine.trust.push("power: the machine gave none".into());
    } else {
        machine.trust.push("power: the machine's own energy model, dynamic power of busy CPUs only".into());
    }
    if machine.domains.iter().any(|d| d.estimated_by.is_some()) {
        machine
            .trust
            .push("operating points estimated between the lowest and the highest: the machine lists none".into());
    }
    let advertised = "latencies as advertised; what the hardware does is not known";
    machine.trust.push(match without.len() {
        0 => format!("idle: {advertised}"),
        n if n == cpus.len() => "idle: one state of 1 µs assumed: the machine told of none".into(),
        _ => format!("idle: {advertised}; of CPUs {} one state of 1 µs assumed", list(&placed(without))),
    });
    machine.trust.push("costs and noise estimated".into());
    if !out.diagnostics.iter().any(Diagnostic::is_error) {
        out.toml = machine.checked("sysfs::E03", &mut out.diagnostics);
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

/// Last-level caches as the scheduler's domains have them: what a CPU shares, if all of it is of its package and its node; else,
/// and where it says nothing, all CPUs that are.
#[doc(alias = "cpu_coregroup_mask")]
fn last_caches(
    files: Files<'_>,
    cpus: &[u32],
    place: &BTreeMap<u32, u32>,
    machine: &Machine,
    findings: &mut Vec<Diagnostic>,
) -> Vec<Vec<u32>> {
    let numbers = |parts: &[Vec<u32>]| {
        let mut of = vec![0; cpus.len()];
        parts.iter().zip(0..).for_each(|(part, n)| part.iter().for_each(|cpu| of[*cpu as usize] = n));
        of
    };
    let (package, node): (Vec<u32>, Vec<u32>) = (numbers(&machine.packages), numbers(&machine.nodes));
    let beyond = Cell::new(None);
    let caches = grouped(cpus, place, |cpu| {
        let of = |c: &u32| (package[*c as usize], node[*c as usize]);
        let own = of(&place[&cpu]);
        let caches = (0..8).filter_map(|i| {
            let dir = format!("{CPU}/cpu{cpu}/cache/index{i}");
            let level = number(files, &format!("{dir}/level"))?;
            Some((level, cpus_in(files, &format!("{dir}/shared_cpu_list"))?))
        });
        let shared = caches.max_by_key(|c| c.0).map(|c| c.1).unwrap_or_default();
        let shared: Vec<u32> = shared.iter().filter_map(|c| place.get(c).copied()).collect();
        let within = shared.iter().all(|c| of(c) == own);
        match shared.is_empty() || !within {
            false => shared,
            true => {
                beyond.set(beyond.take().or(Some(cpu).filter(|_| !within)));
                (0..cpus.len() as u32).filter(|c| of(c) == own).collect()
            }
        }
    });
    if let Some(cpu) = beyond.take() {
        let message = format!(
            "CPU {cpu} shares its last cache with CPUs of another package or node: domains end where these do, as the kernel's"
        );
        findings.push(Diagnostic::note("sysfs::N05", 0..0, message));
    }
    caches
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

/// CPUs of one clock by the kernel's numbers, which are those of all that is told of them, and the folder that tells of it.
pub(super) struct Clock {
    pub(super) dir: String,
    pub(super) cpus: Vec<u32>,
    /// All that the folder names, also those that are offline.
    related: Vec<u32>,
}

/// The clocks of `cpus`, by their first CPU. No CPU has two, whatever the files say.
pub(super) fn clocks(files: Files<'_>, cpus: &[u32]) -> Vec<Clock> {
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
        let (mut khz, estimated_by) = frequencies(files, dir, &list(cpus), findings);
        if khz.is_empty() {
            let message = format!("CPUs {}: no frequencies in {dir}; taken as one of 1 GHz", list(cpus));
            findings.push(Diagnostic::warning("sysfs::W01", 0..0, message));
            khz.push(NO_KHZ);
        }
        // An energy model bears the name of the CPU that was its clock's first, which may be offline since.
        let power = |khz| cpus.iter().chain(related).find_map(|cpu| power(files, *cpu, khz));
        let opps = khz.into_iter().map(|khz| Opp { khz, uv: None, uw: power(khz) }).collect();
        // CPUFREQ_ETERNAL is 4 s: the driver does not know. Less than 1 µs is 0, and the kernel goes by its own delay then.
        let ns = number(files, &format!("{dir}/cpuinfo_transition_latency")).filter(|n| *n < 1_000_000_000);
        out.push(Domain {
            cpus: cpus.iter().map(|c| place[c]).collect(),
            core: "unknown".into(),
            capacity: 1024,
            transition_us: (ns.unwrap_or(50_000) / 1_000).min(100_000),
            transition_assumed: ns.is_none(),
            estimated_by,
            opps,
        });
    }
    microwatts(files, &mut out, findings);
    findings.extend(out.iter_mut().zip(clocks).filter_map(|(d, of)| d.drop_absurd_powers("sysfs::W01", &of.cpus)));
    out
}

/// Of a clock that tells no frequency.
const NO_KHZ: u64 = 1_000_000;

fn capacity(files: Files<'_>, cpu: u32) -> Option<u64> {
    number(files, &format!("{CPU}/cpu{cpu}/cpu_capacity"))
}

/// Capacities of CPUs. Where the kernel has none, CPUs are as fast as their highest frequencies: whether they differ.
fn capacities(files: Files<'_>, clocks: &[Clock], domains: &mut [Domain], findings: &mut Vec<Diagnostic>) -> bool {
    let top = |d: &Domain| d.opps.last().map_or(0, |o| o.khz);
    let clear = |d: &Domain| d.opps.len() > 1 || top(d) != NO_KHZ;
    let told = |clock: &Clock| clock.cpus.iter().find_map(|cpu| capacity(files, *cpu));
    let known: Vec<(u64, u64, bool)> = clocks
        .iter()
        .zip(&*domains)
        .filter_map(|(clock, d)| Some((told(clock)?.clamp(1, 1024), top(d), clear(d))))
        .collect();
    if !known.is_empty() {
        // The kernel tells them of all CPUs or of none: what lacks some has lost them.
        for (clock, d) in clocks.iter().zip(domains) {
            let own = told(clock);
            let like = known.iter().min_by_key(|(_, khz, _)| khz.abs_diff(top(d)));
            let guess = like.map_or(1024, |&(capacity, khz, is_clear)| match is_clear && clear(d) {
                true => (capacity * top(d) / khz.max(1)).clamp(1, 1024),
                false => capacity,
            });
            d.capacity = own.map_or(guess, |c| c.clamp(1, 1024)) as u32;
            let without: Vec<u32> = clock.cpus.iter().copied().filter(|c| capacity(files, *c).is_none()).collect();
            if !without.is_empty() {
                let by = if own.is_some() { "as others of their clock" } else { "by their highest frequency" };
                let message = format!(
                    "CPUs {} have no cpu_capacity, other CPUs have: taken for {}, {by}",
                    list(&without),
                    d.capacity
                );
                let help = "the capture is not complete: set `capacity` in the platform file if you know it";
                findings.push(Diagnostic::warning("sysfs::W01", 0..0, message).help(help));
            } else if own != Some(d.capacity.into()) {
                let message = format!(
                    "CPUs {}: cpu_capacity is {}, taken for {}: it is 1 to 1024",
                    list(&clock.cpus),
                    own.unwrap_or(0),
                    d.capacity
                );
                findings.push(Diagnostic::warning("sysfs::W01", 0..0, message));
            }
        }
        return false;
    }
    let clear_tops = || domains.iter().filter(|d| clear(d)).map(top);
    let most = clear_tops().max().unwrap_or(0);
    if clear_tops().all(|khz| khz == most) {
        return false;
    }
    let mut by_capacity: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut untold: Vec<u32> = Vec::new();
    for (clock, d) in clocks.iter().zip(domains) {
        if !clear(d) {
            untold.extend(&clock.cpus);
            continue;
        }
        d.capacity = (top(d) * 1024 / most).clamp(1, 1024) as u32;
        by_capacity.entry(d.capacity).or_default().extend(&clock.cpus);
    }
    let mut each: Vec<String> =
        by_capacity.iter().map(|(capacity, cpus)| format!("{capacity} of CPUs {}", list(cpus))).collect();
    if !untold.is_empty() {
        each.push(format!("1024 of CPUs {}, which tell none", list(&untold)));
    }
    let message = format!(
        "no cpu_capacity: the kernel takes all CPUs for 1024, here they are as fast as their highest frequency ({})",
        each.join(", ")
    );
    let help =
        "cores may also differ in what they do in a cycle: set `capacity` in the platform file to what was measured";
    findings.push(Diagnostic::warning("sysfs::W01", 0..0, message).help(help));
    true
}

/// Clocks of drivers that have no list of frequencies move by so much: `intel_pstate` sets multiples of it, and those that ask the
/// firmware for a performance (`amd-pstate`, `cppc_cpufreq`) have finer steps.
const STEP_KHZ: u64 = 100_000;

/// From the lowest frequency to the highest, by steps, which are larger where there would be too many; and by how much.
fn between_ends(low: u64, high: u64) -> (Vec<u64>, u64) {
    let step = STEP_KHZ * (high.saturating_sub(low) / STEP_KHZ / (MAX_OPPS as u64 - 2) + 1);
    (std::iter::successors(Some(low), |khz| khz.checked_add(step)).take_while(|khz| *khz < high).collect(), step)
}

/// What CPUs `of` one clock can run at, ascending, kHz; where those between the ends are estimated, by how much apart.
fn frequencies(files: Files<'_>, dir: &str, of: &str, findings: &mut Vec<Diagnostic>) -> (Vec<u64>, Option<u64>) {
    let mut warn = |message: String| findings.push(Diagnostic::warning("sysfs::W01", 0..0, message));
    let words = |text: String| text.split_whitespace().filter_map(|k| k.parse().ok()).collect::<Vec<u64>>();
    let listed = |file: &str| files(&format!("{dir}/{file}")).map(words).unwrap_or_default();
    let mut khz = listed("scaling_available_frequencies");
    if khz.is_empty() {
        let stats = files(&format!("{dir}/stats/time_in_state")).unwrap_or_default();
        khz.extend(stats.lines().filter_map(|l| l.split_whitespace().next()?.parse::<u64>().ok()));
    }
    let end = |file: &str| number(files, &format!("{dir}/{file}"));
    let mut estimated_by = None;
    if khz.is_empty() {
        khz.extend(["cpuinfo_min_freq", "cpuinfo_max_freq"].into_iter().filter_map(end));
        if let [low, high] = khz[..]
            && low < high
        {
            let (all, step) = between_ends(low, high);
            khz.extend(all);
            estimated_by = Some(step);
            let [low, high, step] = [low, high, step].map(|khz| khz / 1000);
            warn(format!(
                "CPUs {of}: no list of frequencies: estimated, every {step} MHz from the lowest to the highest ({low} to {high} MHz)"
            ));
        } else if !khz.is_empty() {
            warn(format!("CPUs {of}: no list of frequencies, and no range of them: one alone is used"));
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
    if khz.len() > MAX_OPPS {
        let message = format!("CPUs {of}: {} frequencies in {dir}; a clock has {MAX_OPPS} at most", khz.len());
        findings.push(Diagnostic::error("sysfs::E03", 0..0, message));
        khz.truncate(1);
    }
    if !off.is_empty() {
        let off: Vec<String> = off.iter().take(5).map(u64::to_string).collect();
        let message = format!("CPUs {of}: boost is off; {} kHz left out", off.join(", "));
        findings.push(Diagnostic::note("sysfs::N02", 0..0, message));
    }
    (khz, estimated_by)
}

/// Clocks that are kept below their highest frequency, or above their lowest: settings, which are no part of a platform.
fn limits(files: Files<'_>, clocks: &[Clock]) -> Vec<Diagnostic> {
    let mut kept: BTreeMap<(&str, u64), Vec<u32>> = BTreeMap::new();
    for Clock { dir, cpus, .. } in clocks {
        for (limit, end) in [("scaling_max_freq", "cpuinfo_max_freq"), ("scaling_min_freq", "cpuinfo_min_freq")] {
            let [set, free] = [limit, end].map(|file| number(files, &format!("{dir}/{file}")));
            if let (Some(set), true) = (set, free.is_some() && set != free) {
                kept.entry((limit, set)).or_default().extend(cpus);
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

/// From the energy model in debugfs, in the kernel's unit. Domains and their points were called `pd0` and `cs:` until Linux 5.8.
fn power(files: Files<'_>, cpu: u32, khz: u64) -> Option<u64> {
    let places = [format!("cpu{cpu}/ps:{khz}"), format!("pd{cpu}/cs:{khz}")];
    let of = |place: &String| number(files, &format!("sys/kernel/debug/energy_model/{place}/power"));
    places.iter().find_map(of).filter(|p| *p > 0)
}

/// Energy models are in milliwatts before Linux 6.0, in microwatts since: all of a kernel in one of them. Without a release
/// the greatest power tells: no CPU that has an energy model draws less than 10 mW at its top, none 10 W.
fn microwatts(files: Files<'_>, domains: &mut [Domain], findings: &mut Vec<Diagnostic>) {
    let powers = || domains.iter().flat_map(|d| &d.opps).filter_map(|o| o.uw);
    let Some(greatest) = powers().max() else { return };
    let release = release(files);
    let told = release.as_deref().and_then(version);
    let milli = told.map_or(greatest < 10_000, |version| version < (6, 0));
    if told.is_none() {
        let unit = if milli { "milliwatts, as before Linux 6.0" } else { "microwatts, as since Linux 6.0" };
        let message = format!("no kernel release is told: the energy model is taken for {unit}");
        let help = "add proc/sys/kernel/osrelease or proc/version to the capture";
        findings.push(Diagnostic::warning("sysfs::W01", 0..0, message).help(help));
    }
    if milli {
        domains.iter_mut().flat_map(|d| &mut d.opps).for_each(|o| o.uw = o.uw.map(|mw| mw.saturating_mul(1_000)));
    }
}

/// CPUs of the same states; where one is of the whole cluster, also of the same list of `sleepers`. Which CPUs tell of none, by the
/// kernel's numbers.
fn clusters(
    files: Files<'_>,
    cpus: &[u32],
    place: &BTreeMap<u32, u32>,
    sleepers: &[Vec<u32>],
) -> (Vec<Cluster>, Vec<u32>) {
    let mut without = Vec::new();
    let all = machine::clusters(cpus.iter().map(|&cpu| {
        let mut idle: Vec<Idle> = (0..CPUIDLE_STATE_MAX as u32).map_while(|s| state(files, cpu, s)).collect();
        if idle.is_empty() {
            without.push(cpu);
            idle.push(wfi());
        }
        let together = idle.iter().any(|s| s.scope == "cluster");
        let of = sleepers.iter().position(|l| l.contains(&place[&cpu])).filter(|_| together);
        (place[&cpu], of, idle)
    }));
    (all, without)
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

#[cfg(test)]
mod tests {
    use super::*;
    use wattif_model::platform::Platform;

    /// A machine, as its platform file is read, and what is said of it.
    fn import(files: Files<'_>) -> (Platform, Vec<Diagnostic>) {
        let Imported { toml, diagnostics } = platform(files, "board");
        let toml = toml.unwrap_or_else(|| panic!("{diagnostics:?}"));
        let parsed = crate::platform_toml::parse(&toml, &Default::default());
        (parsed.platform.unwrap_or_else(|| panic!("{:?}\n{toml}", parsed.diagnostics)), diagnostics)
    }

    #[test]
    fn a_small_machine() {
        let files = |path: &str| -> Option<String> {
            let text = match path.strip_prefix("sys/devices/system/cpu/")? {
                "present" => "0-3",
                "cpu0/cpu_capacity" | "cpu1/cpu_capacity" => "400",
                "cpu2/cpu_capacity" | "cpu3/cpu_capacity" => "1024",
                "cpufreq/policy0/related_cpus" => "0 1",
                "cpufreq/policy2/related_cpus" => "2 3",
                "cpufreq/policy0/scaling_available_frequencies" => "500000 1000000 ",
                "cpufreq/policy2/scaling_available_frequencies" => "800000 2000000 ",
                "cpu0/cpuidle/state0/name" | "cpu1/cpuidle/state0/name" => "WFI\n",
                _ => return None,
            };
            Some(text.into())
        };
        let (p, _) = import(&files);
        assert_eq!((p.nr_cpus(), p.cpus[0].capacity, p.cpus[2].capacity, p.domains.len()), (4, 400, 1024, 2));
        assert_eq!(p.domains[1].opps[1].khz, 2_000_000);
        assert!(platform(&|_| None, "x").toml.is_none());
    }

    /// Without cpu_capacity the kernel takes unlike CPUs for equals; they are not.
    #[test]
    fn capacities_that_the_kernel_does_not_know() {
        let with = |tops: &[&'static str]| {
            let files = move |path: &str| -> Option<String> {
                let text = match path.strip_prefix("sys/devices/system/cpu/")? {
                    "present" => ["0-3", "0-4"][tops.len() - 2],
                    "cpufreq/policy0/related_cpus" => "0 1",
                    "cpufreq/policy2/related_cpus" => "2 3",
                    "cpufreq/policy0/scaling_available_frequencies" => tops[0],
                    "cpufreq/policy2/scaling_available_frequencies" => tops[1],
                    _ => return None,
                };
                Some(text.into())
            };
            let (p, told) = import(&files);
            let told = told.iter().find(|d| d.message.contains("cpu_capacity"));
            let told = told.map(|d| format!("{} {}", d.code, d.message));
            (p.cpus.iter().map(|c| c.capacity).collect::<Vec<_>>(), p.capacity_untold, told)
        };
        let message = "sysfs::W01 no cpu_capacity: the kernel takes all CPUs for 1024, here they are as fast as their \
            highest frequency (585 of CPUs 0-1, 1024 of CPUs 2-3)";
        let unlike = ["800000 2000000", "800000 3500000"];
        assert_eq!(with(&unlike), (vec![585, 585, 1024, 1024], true, Some(message.into())));
        assert_eq!(with(&[unlike[1]; 2]), (vec![1024; 4], false, None));
        assert_eq!(with(&["", unlike[1]]), (vec![1024; 4], false, None), "what a clock reaches is not known");
        let (capacities, untold, said) = with(&["800000 2000000", "800000 3500000", ""]);
        assert_eq!(
            (capacities, untold),
            (vec![585, 585, 1024, 1024, 1024], true),
            "the others are scaled all the same"
        );
        assert!(said.unwrap().contains("1024 of CPUs 2-3, 1024 of CPUs 4, which tell none)"));
    }

    /// Some CPUs lack a capacity: told, and in the kernel's numbers, as all that is said of CPUs.
    #[test]
    fn capacities_of_some_cpus() {
        let with = |capacities: [&'static str; 4]| {
            let files = move |path: &str| -> Option<String> {
                let text = match path.strip_prefix("sys/devices/system/cpu/")? {
                    "present" => "0-9",
                    "online" => "0,3,6,9",
                    "cpu0/cpu_capacity" => capacities[0],
                    "cpu3/cpu_capacity" => capacities[1],
                    "cpu6/cpu_capacity" => capacities[2],
                    "cpu9/cpu_capacity" => capacities[3],
                    "cpufreq/policy0/related_cpus" => "0 3",
                    "cpufreq/policy0/scaling_available_frequencies" => "2000000",
                    "cpufreq/policy6/related_cpus" => "6",
                    "cpufreq/policy6/scaling_available_frequencies" => "3000000",
                    "cpufreq/policy9/related_cpus" => "9",
                    "cpufreq/policy9/cpuinfo_max_freq" => "2500000",
                    "cpufreq/policy9/cpuinfo_min_freq" | "cpufreq/policy9/scaling_max_freq" => "500000",
                    _ => return None,
                };
                Some(text.to_string()).filter(|text| !text.is_empty())
            };
            let (p, said) = import(&files);
            let told = |d: &Diagnostic| (!d.message.contains("offline")).then(|| d.message.clone());
            let told: Vec<String> = said.iter().filter_map(told).collect();
            assert!(!p.capacity_untold);
            (p.cpus.iter().map(|c| c.capacity).collect::<Vec<_>>(), told)
        };
        let rest = [
            "CPUs 9: scaling_max_freq is 500000 kHz, a setting: the platform keeps all operating points",
            "CPUs 0,3,6,9: no idle states (cpuidle); one is assumed, which they leave in 1 µs",
            "no energy model (sys/kernel/debug/energy_model): no energy is reported",
        ];
        let first =
            "CPUs 9: no list of frequencies: estimated, every 100 MHz from the lowest to the highest (500 to 2500 MHz)";
        let said = |what: &[&str]| [&[first], what, &rest].concat().iter().map(|s| s.to_string()).collect::<Vec<_>>();
        assert_eq!(with(["400", "400", "1024", "500"]), (vec![400, 400, 1024, 500], said(&[])));
        let without = "CPUs 9 have no cpu_capacity, other CPUs have: taken for 500, by their highest frequency";
        assert_eq!(with(["400", "400", "1024", ""]), (vec![400, 400, 1024, 500], said(&[without])));
        let without = "CPUs 0 have no cpu_capacity, other CPUs have: taken for 400, as others of their clock";
        assert_eq!(with(["", "400", "1024", "500"]), (vec![400, 400, 1024, 500], said(&[without])));
        let wrong = "CPUs 9: cpu_capacity is 0, taken for 1: it is 1 to 1024";
        assert_eq!(with(["400", "400", "1024", "0"]), (vec![400, 400, 1024, 1], said(&[wrong])));
    }

    /// Drivers without a table of frequencies tell its ends alone.
    #[test]
    fn frequencies_between_the_lowest_and_the_highest() {
        let with = |low: &'static str, high: &'static str| {
            let files = move |path: &str| -> Option<String> {
                let text = match path.strip_prefix("sys/devices/system/cpu/")? {
                    "present" => "0",
                    "cpu0/cpufreq/cpuinfo_min_freq" => low,
                    "cpu0/cpufreq/cpuinfo_max_freq" => high,
                    _ => return None,
                };
                Some(text.to_string())
            };
            let toml = platform(&files, "board").toml.unwrap();
            let said = [toml.contains("opps = [  # estimated: "), toml.contains("operating points estimated")];
            (import(&files).0.domains[0].opps.iter().map(|o| o.khz).collect::<Vec<_>>(), said)
        };
        let (khz, said) = with("400000", "5000000");
        assert_eq!((khz.len(), khz[20], said), (47, 2_400_000, [true; 2]));
        assert_eq!(with("412000", "650000"), (vec![412_000, 512_000, 612_000, 650_000], [true; 2]));
        assert_eq!(with("800000", "800000"), (vec![800_000], [false; 2]));
        assert_eq!(with("", "800000"), (vec![800_000], [false; 2]));
        for high in [25_600_000, 25_900_000, 60_000_000, 99_999_999, u64::MAX] {
            let (khz, step) = between_ends(400_000, high);
            assert!(khz.len() < MAX_OPPS, "{high}: {}", khz.len());
            assert!(step % STEP_KHZ == 0 && khz.len() > MAX_OPPS / 3, "{high}: {step}");
        }
    }

    #[test]
    fn the_latency_of_a_change_of_frequency() {
        let with = |ns: &'static str| {
            let files = move |path: &str| {
                let text = match path.strip_prefix("sys/devices/system/cpu/")? {
                    "present" => "0",
                    "cpu0/cpufreq/scaling_available_frequencies" => "300000",
                    "cpu0/cpufreq/cpuinfo_transition_latency" => ns,
                    _ => return None,
                };
                Some(text.to_string())
            };
            let toml = platform(&files, "board").toml.unwrap();
            let told = !toml.contains("  # assumed: nothing tells it\nopps");
            (import(&files).0.domains[0].transition_latency_ns, told)
        };
        assert_eq!(with("0\n"), (0, true), "not 1 µs, which would be a limit of 1 µs for governors");
        assert_eq!(with("999"), (0, true));
        assert_eq!(with("61999"), (61_000, true));
        assert_eq!(with("4294967295"), (50_000, false), "CPUFREQ_ETERNAL: not known");
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
            let (p, said) = import(&files);
            let guessed = said.iter().any(|d| d.message.contains("no kernel release"));
            (p.domains[0].power.busy_uw.clone(), guessed)
        };
        let micro = ["5250", "12600", "61000"];
        assert_eq!(with(Some("6.6.30-android15"), micro), (vec![5_250, 12_600, 61_000], false));
        assert_eq!(with(Some("6.0.0"), micro), (vec![5_250, 12_600, 61_000], false));
        assert_eq!(with(Some("5.19.17"), ["5", "12", "61"]), (vec![5_000, 12_000, 61_000], false));
        assert_eq!(with(Some("5.15.1\n"), ["5", "12", "12000"]), (vec![5_000, 12_000, 12_000_000], false));
        assert_eq!(with(None, micro), (vec![5_250, 12_600, 61_000], true));
        assert_eq!(with(None, ["5", "12", "61"]), (vec![5_000, 12_000, 61_000], true));
    }

    #[test]
    fn the_energy_model_of_old_kernels() {
        let files = |path: &str| -> Option<String> {
            let text = match path {
                "proc/sys/kernel/osrelease" => "5.4.86-android12",
                "sys/devices/system/cpu/present" => "0-1",
                "sys/devices/system/cpu/cpu0/cpufreq/related_cpus" => "0 1",
                "sys/devices/system/cpu/cpu0/cpufreq/scaling_available_frequencies" => "300000 600000",
                "sys/kernel/debug/energy_model/pd0/cs:300000/power" => "5",
                "sys/kernel/debug/energy_model/pd0/cs:600000/power" => "12",
                _ => return None,
            };
            Some(text.into())
        };
        let (p, said) = import(&files);
        assert!(said.iter().all(|d| !d.message.contains("no energy model")), "{said:?}");
        assert_eq!(p.domains[0].power.busy_uw, [5_000, 12_000]);
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
        assert_eq!(import(&files).0.domains[0].power.busy_uw, [5_250]);
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
        let (_, said) = import(&files);
        assert!(said.iter().any(|d| d.message.contains("5250000000 µW at an operating point is no power")), "{said:?}");
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
        let idle = &import(&files).0.clusters[0].idle;
        assert_eq!(idle.iter().map(|s| s.polling).collect::<Vec<_>>(), [true, false]);
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

    /// Eight CPUs of two packages, with what `more` says of them.
    fn two_packages(more: impl Fn(u32, &str) -> Option<String>) -> Imported {
        let files = |path: &str| -> Option<String> {
            let path = path.strip_prefix("sys/devices/system/cpu/")?;
            let (cpu, file) = path.split_once('/').unwrap_or(("", path));
            let cpu = cpu.strip_prefix("cpu").and_then(|n| n.parse().ok()).unwrap_or(0);
            more(cpu, file).or(match file {
                "present" => Some("0-7".into()),
                "topology/core_siblings_list" => Some(if cpu < 4 { "0-3" } else { "4-7" }.into()),
                _ => None,
            })
        };
        platform(&files, "board")
    }

    /// A domain of the scheduler ends where a package does, whatever is told of caches.
    #[test]
    fn the_last_cache_is_of_one_package() {
        let with = |caches: [Option<&'static str>; 2]| {
            let imported = two_packages(|cpu, file| match file {
                "cache/index0/level" => Some("3".into()),
                "cache/index0/shared_cpu_list" => Some(caches[cpu as usize / 4]?.into()),
                _ => None,
            });
            let noted = imported.diagnostics.iter().any(|d| d.code == "sysfs::N05");
            let toml = imported.toml.unwrap_or_else(|| panic!("{:?}", imported.diagnostics));
            let line = toml.lines().find(|l| l.starts_with("llc")).unwrap();
            (line.to_string(), noted)
        };
        let packages = "llc = [\"0-3\", \"4-7\"]";
        assert_eq!(with([None, None]), (packages.into(), false));
        assert_eq!(with([Some("0-3"), None]), (packages.into(), false));
        assert_eq!(with([None, Some("4-7")]), (packages.into(), false));
        assert_eq!(with([Some("0-7"), Some("0-7")]), (packages.into(), true));
    }

    /// What would be no platform is not written, and it is said why.
    #[test]
    fn a_machine_that_contradicts_itself_is_no_platform() {
        let why = |imported: Imported| {
            assert!(imported.toml.is_none());
            let errors = imported.diagnostics.iter().filter(|d| d.is_error());
            errors.map(|d| format!("{} {}", d.code, d.message)).collect::<Vec<_>>()
        };
        let siblings = |cpu: u32, file: &str| {
            (file == "topology/thread_siblings_list").then(|| format!("{},{}", cpu % 4, cpu % 4 + 4))
        };
        let message = "sysfs::E03 this would be no platform: a core lies in two of the last-level caches \
            (`core = [\"0,4\", \"1,5\", \"2,6\", \"3,7\"]`)";
        assert_eq!(why(two_packages(siblings))[0], message);
        let clocks = |steps: u32| {
            two_packages(move |_, file| {
                let khz = || (0..steps).map(|n| format!("{} ", 500_000 + n)).collect();
                (file == "cpufreq/scaling_available_frequencies").then(khz)
            })
        };
        assert!(clocks(256).toml.is_some());
        let message =
            "sysfs::E03 CPUs 0: 257 frequencies in sys/devices/system/cpu/cpu0/cpufreq; a clock has 256 at most";
        assert_eq!(why(clocks(257))[0], message);
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
            let (p, said) = import(&files);
            let limit = "CPUs 3: scaling_max_freq is 2000000 kHz";
            assert!(said.iter().any(|d| d.message.starts_with(limit)), "{said:?}");
            let tops = p.domains.iter().filter(|d| d.opps.last().is_some_and(|o| o.khz == 3_500_000));
            assert_eq!(tops.count(), 4, "a limit takes no operating point away");
            (p.cpus.iter().map(|c| c.node).collect::<Vec<_>>(), said.iter().any(|d| d.code == "sysfs::N04"))
        };
        let (one, two) = (["0-3"; 2], ["0-1", "2-3"]);
        assert_eq!(with(two, one), (vec![0, 0, 1, 1], true), "several nodes of a package");
        assert_eq!(with(two, two).0, [0, 0, 1, 1]);
        assert_eq!(with(["0-3", ""], two).0, [0; 4], "one node of several packages");
        assert_eq!(with(["0-1", ""], two).0, [0, 0, 1, 1], "without all CPUs it is not believed: by package");
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
            import(&files).0
        };
        for list in ["topology/cluster_cpus_list", "topology/core_siblings_list"] {
            let p = with(list);
            assert_eq!(p.clusters.iter().map(|c| c.cpus.to_string()).collect::<Vec<_>>(), ["0-1", "2-3"], "{list}");
            assert_eq!(p.clusters[0].idle[1].scope, wattif_model::platform::Scope::Cluster);
        }
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
        let (p, _) = import(&files);
        let names: Vec<&str> = p.clusters[0].idle.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["state0", "x".repeat(15).as_str()]);
    }

    /// What nobody advertised is not called so.
    #[test]
    fn cpus_that_tell_of_no_idle_states() {
        let with = |told: &'static [&'static str]| {
            let out = platform(
                &move |path| match path.strip_prefix("sys/devices/system/cpu/")? {
                    "present" => Some("0-1".into()),
                    file => told.contains(&file.strip_suffix("/cpuidle/state0/name")?).then(|| "WFI".into()),
                },
                "board",
            );
            let said = out.diagnostics.iter().find(|d| d.message.contains("no idle states"));
            let said = said.map(|d| d.message.split(':').next().unwrap().to_string());
            let toml = out.toml.unwrap();
            let trust = toml.lines().find_map(|l| l.trim().strip_prefix("\"idle: ")?.strip_suffix("\",")).unwrap();
            (said, trust.to_string())
        };
        let advertised = "latencies as advertised; what the hardware does is not known";
        assert_eq!(with(&["cpu0", "cpu1"]), (None, advertised.into()));
        let none = "one state of 1 µs assumed: the machine told of none";
        assert_eq!(with(&[]), (Some("CPUs 0-1".into()), none.into()));
        let one = format!("{advertised}; of CPUs 1 one state of 1 µs assumed");
        assert_eq!(with(&["cpu0"]), (Some("CPUs 1".into()), one));
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
        let (p, said) = import(&files);
        let off = &said[0].message;
        assert!(off.starts_with("CPUs 1,3 are offline and left out; CPU 2 becomes CPU 1"), "{off}");
        assert_eq!(p.cpus.iter().map(|c| c.capacity).collect::<Vec<_>>(), [400, 400]);
        assert_eq!(p.kernel_cpus.to_string(), "0,2");
        let disabled: Vec<Vec<bool>> = p.clusters.iter().map(|c| c.idle.iter().map(|s| s.disabled).collect()).collect();
        assert_eq!(disabled, [[false, true], [false, false]]);
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
}
