//! Devicetree blobs, as boards ship them, into platform files: CPUs and their map, capacities with the kernel's
//! normalisation, operating points (v1, v2), powers by the kernel's integer formula, idle states of CPUs and of PSCI
//! domains, caches.
//!
//! What a board leaves to its firmware (operating points of many) comes from an overlay: `[[domain]]` entries with `cpus` and
//! `opps`, as in a platform file. What is wrong with it is told apart, with the codes of platform files.
//!
//! | code | about |
//! |---|---|
//! | `dtb::E01` | not a devicetree blob, or damaged |
//! | `dtb::E02` | no CPUs |
//! | `dtb::E03` | operating points are missing: the message has the overlay that would supply them |
//! | `dtb::E04` | what it says contradicts itself: no platform can be made of it |
//! | `dtb::W01` | something is missing that can be done without |
//! | `dtb::W02` | a platform file has no word for it: the message says what was made of it |
//! | `dtb::W03` | it is there and is not read |
//! | `dtb::N01` | the devicetree leaves a choice, and one was made |

mod capacities;
mod fdt;
mod idle;

use crate::machine::{Domain, Machine, Opp, alike, between, list};
use crate::platform_toml::{MAX_KHZ, MAX_OPPS, MAX_UV, Overlay};
use crate::words::quoted;
use fdt::Node;
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::check::Diagnostic;

/// What came of a blob.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    /// The platform file, when there is no error.
    pub toml: Option<String>,
    /// All findings.
    pub diagnostics: Vec<Diagnostic>,
    /// Mistakes of the overlay, by their place in its text; all are errors.
    pub overlay: Vec<Diagnostic>,
}

struct Cpu<'a> {
    node: &'a Node,
    core: String,
    dmips: Option<u32>,
}

type Handles<'a> = BTreeMap<u32, &'a Node>;

/// Import a blob. `name` becomes the platform's; `overlay` is TOML.
pub fn import(bytes: &[u8], name: &str, overlay: Option<&str>) -> Imported {
    let mut out = Imported::default();
    let root = match fdt::parse(bytes) {
        Ok(root) => root,
        Err(why) => {
            out.diagnostics
                .push(Diagnostic::error("dtb::E01", 0..0, why).help("a .dtb of /boot, or /sys/firmware/fdt"));
            return out;
        }
    };
    let mut handles = Handles::new();
    root.index(&mut handles);
    let cpus = cpus(&root);
    if cpus.is_empty() {
        out.diagnostics.push(Diagnostic::error("dtb::E02", 0..0, "the devicetree has no enabled CPUs under /cpus"));
        return out;
    }
    out.diagnostics.extend(started(&root));
    let unread = Unread::of(&root);
    unread.tell(&mut out.diagnostics);
    let (overlay, mistakes) = overlay.map(Overlay::read).unwrap_or_default();
    out.overlay = mistakes;
    let mut machine = Machine {
        name: name.into(),
        title: root.text("model").unwrap_or_else(|| name.into()),
        source: format!("its devicetree ({name}.dtb)"),
        ..Machine::default()
    };
    let map = Map::read(&root, &cpus, &handles, &mut out.diagnostics);
    let clocks = clocks(&cpus, &handles);
    out.overlay.extend(overlay.misplaced(&clocks));
    machine.domains = domains(&cpus, &clocks, &handles, &overlay, &unread, &mut out.diagnostics);
    capacities::capacities(&root, &cpus, &handles, &mut machine.domains, &mut out.diagnostics);
    machine.clusters = idle::clusters(&cpus, &map.cluster, &handles, &mut out.diagnostics);
    topology(&mut machine, &root, &cpus, map, &handles, &mut out.diagnostics);
    powers(&mut machine, &unread, &mut out.diagnostics);
    if machine.clusters.iter().all(|c| c.idle.len() == 1) {
        let why = match unread.idle_tables.is_empty() {
            true => "idle: the devicetree names no idle states but WFI".into(),
            false => format!("idle: WFI alone, {} is not read", unread.idle_tables.join(", ")),
        };
        machine.trust.push(why);
    } else {
        machine.trust.push("idle: entry and exit as the devicetree states them, not measured".into());
    }
    if machine.domains.iter().any(|d| d.transition_assumed) {
        machine.trust.push("transition_us: assumed where the devicetree has no clock-latency".into());
    }
    machine.trust.push("costs and noise estimated".into());
    if !out.diagnostics.iter().any(Diagnostic::is_error) && out.overlay.is_empty() {
        out.toml = machine.checked("dtb::E04", &mut out.diagnostics);
    }
    out
}

/// The nodes of all CPUs, also of those that are disabled.
fn cpu_nodes(root: &Node) -> impl Iterator<Item = &Node> {
    let is_cpu = |n: &&Node| n.text("device_type").as_deref() == Some("cpu") || n.name.starts_with("cpu@");
    root.child("cpus").into_iter().flat_map(|all| &all.children).filter(is_cpu)
}

/// Does the kernel start a CPU? On Arm and elsewhere `disabled` only means that it is not yet running, and CPUs that failed are
/// left out (`of_get_next_cpu_node`); RISC-V and POWER want them available.
fn starts(cpu: &Node) -> bool {
    if cpu.texts("compatible").iter().any(|c| c == "riscv") || cpu.has(THREADS) {
        return cpu.enabled();
    }
    cpu.text("status").is_none_or(|status| status != "fail" && !status.starts_with("fail-"))
}

/// What is made of CPUs whose status is another than `okay`.
fn started(root: &Node) -> Vec<Diagnostic> {
    let told = |of: &dyn Fn(&Node) -> bool, what: &str| {
        let names: Vec<String> = cpu_nodes(root).filter(|n| !n.enabled() && of(n)).map(|n| quoted(&n.name)).collect();
        let more = if names.len() > 5 { ", …" } else { "" };
        let message = format!("CPUs {what}: {}{more}", names[..names.len().min(5)].join(", "));
        (!names.is_empty()).then(|| Diagnostic::note("dtb::N01", 0..0, message))
    };
    let out = "that the kernel does not start, by their status, are left out, and the numbers of others go on";
    let taken = "without the status `okay` are taken, as the kernel starts them";
    told(&|n| !starts(n), out).into_iter().chain(told(&|n| starts(n), taken)).collect()
}

fn cpus(root: &Node) -> Vec<Cpu<'_>> {
    let core = |n: &Node| {
        let compatible = n.text("compatible").unwrap_or_else(|| "unknown".into());
        compatible.split(',').next_back().unwrap_or("unknown").to_string()
    };
    let started = cpu_nodes(root).filter(|n| starts(n));
    let threads = started.flat_map(|node| std::iter::repeat_n(node, hardware_threads(node))).take(4096);
    threads.map(|node| Cpu { node, core: core(node), dmips: node.u32("capacity-dmips-mhz") }).collect()
}

/// Threads of a core of POWER.
const THREADS: &str = "ibm,ppc-interrupt-server#s";

/// Of POWER one node is a core, which lists its threads.
fn hardware_threads(core: &Node) -> usize {
    core.cells(THREADS).map_or(1, |threads| threads.len().clamp(1, MAX_THREADS))
}

/// More hardware threads than a core has.
const MAX_THREADS: usize = 16;

/// What a devicetree has and nobody here reads, by the names of its properties.
#[derive(Default)]
struct Unread {
    /// Energy model of Android's kernels before 4.20.
    energy_costs: Vec<&'static str>,
    /// Operating points, and idle states, of POWER's firmware.
    pstates: Vec<&'static str>,
    idle_tables: Vec<&'static str>,
}

impl Unread {
    fn of(root: &Node) -> Unread {
        const TABLES: [&str; 3] = ["ibm,cpu-idle-state-names", "ibm,cpu-idle-state-latencies-ns", "idle-states"];
        let mut unread = Unread::default();
        let on_cpu = |prop: &&str| cpu_nodes(root).any(|n| n.has(prop));
        let anywhere = |prop: &&str| any(root, &|n| n.has(prop));
        unread.energy_costs.extend(Some("sched-energy-costs").filter(on_cpu));
        unread.energy_costs.extend(["busy-cost-data", "idle-cost-data"].into_iter().filter(anywhere));
        if let Some(power) = root.child("ibm,opal").and_then(|opal| opal.child("power-mgt")) {
            unread.pstates.extend(Some("ibm,pstate-frequencies-mhz").filter(|prop| power.has(prop)));
            unread.idle_tables.extend(TABLES.into_iter().filter(|name| power.has(name) || power.child(name).is_some()));
        }
        unread
    }

    fn tell(&self, findings: &mut Vec<Diagnostic>) {
        let mut warn = |names: &[&str], what: &str, help: &str| {
            if !names.is_empty() {
                let message = format!("{} {what} and not used", names.join(", "));
                findings.push(Diagnostic::warning("dtb::W03", 0..0, message).help(help));
            }
        };
        let costs =
            "in the platform file, operating points of the vocabulary `eas_costs` take them as `core` and `cluster`";
        warn(&self.energy_costs, "(energy costs of Android's kernels) are present", costs);
        warn(&self.pstates, "of ibm,opal/power-mgt is present", "an overlay supplies operating points");
        warn(
            &self.idle_tables,
            "of ibm,opal/power-mgt are present",
            "in the platform file, a [[cluster]] takes them as `idle`",
        );
    }
}

fn any(node: &Node, is: &dyn Fn(&Node) -> bool) -> bool {
    is(node) || node.children.iter().any(|child| any(child, is))
}

// ---- the CPU map -------------------------------------------------------------------------------------------------------

/// Sockets, clusters and cores by `cpu-map`; without one, each CPU is a core.
#[derive(Default)]
struct Map {
    /// Cluster of each CPU.
    cluster: Vec<usize>,
    /// Socket of each CPU, from 1; 0: in none.
    socket: Vec<usize>,
    cores: Vec<Vec<u32>>,
    mapped: BTreeSet<u32>,
    twice: BTreeSet<u32>,
    clusters: usize,
    sockets: usize,
}

impl Map {
    fn read(root: &Node, cpus: &[Cpu<'_>], handles: &Handles<'_>, findings: &mut Vec<Diagnostic>) -> Map {
        let mut map = Map { cluster: vec![0; cpus.len()], socket: vec![0; cpus.len()], ..Map::default() };
        let by_node: BTreeMap<*const Node, u32> =
            cpus.iter().zip(0..).map(|(c, i)| (std::ptr::from_ref(c.node), i)).collect();
        let top = root.child("cpus").and_then(|c| c.child("cpu-map"));
        if let Some(top) = top {
            map.walk(top, 0, handles, &by_node);
        }
        let twice = Vec::from_iter(std::mem::take(&mut map.twice));
        let left: Vec<u32> = (0..cpus.len() as u32).filter(|c| !map.mapped.contains(c)).collect();
        let more = "more than once in cpu-map: the first place counts";
        for (of, what) in [(&twice, more), (&left, "not in cpu-map: taken as cores of the first cluster")] {
            if top.is_some() && !of.is_empty() {
                let message = format!("CPUs {} are {what}", list(of));
                findings.push(Diagnostic::warning("dtb::W01", 0..0, message));
            }
        }
        if map.sockets > 0 {
            map.socket.iter_mut().for_each(|socket| *socket = (*socket).max(1));
        }
        // Threads of one node are one core.
        let same = |a: &u32, b: &u32| std::ptr::eq(cpus[*a as usize].node, cpus[*b as usize].node);
        map.cores.extend(left.chunk_by(same).map(<[u32]>::to_vec));
        map
    }

    /// Nested clusters count as their innermost.
    fn walk(&mut self, node: &Node, socket: usize, handles: &Handles<'_>, by_node: &BTreeMap<*const Node, u32>) {
        let cores: Vec<&Node> = node.children.iter().filter(|c| c.name.starts_with("core")).collect();
        if !cores.is_empty() {
            let cluster = self.clusters;
            self.clusters += 1;
            for core in cores {
                let cpu_of = |n: &Node| {
                    let cpu = n.u32("cpu").and_then(|h| handles.get(&h))?;
                    by_node.get(&std::ptr::from_ref(*cpu)).copied()
                };
                let threads = core.children.iter().filter(|t| t.name.starts_with("thread"));
                let mut threads: Vec<u32> = cpu_of(core).into_iter().chain(threads.filter_map(cpu_of)).collect();
                self.twice.extend(threads.extract_if(.., |t| !self.mapped.insert(*t)));
                for &thread in &threads {
                    (self.cluster[thread as usize], self.socket[thread as usize]) = (cluster, socket);
                }
                if !threads.is_empty() {
                    self.cores.push(threads);
                }
            }
        }
        for inner in &node.children {
            if inner.name.starts_with("socket") {
                self.sockets += 1;
                self.walk(inner, self.sockets, handles, by_node);
            } else if inner.name.starts_with("cluster") {
                self.walk(inner, socket, handles, by_node);
            }
        }
    }
}

/// Cores, sockets, nodes, caches and clusters of the scheduler, each within the next larger one.
fn topology(
    machine: &mut Machine,
    root: &Node,
    cpus: &[Cpu<'_>],
    map: Map,
    handles: &Handles<'_>,
    findings: &mut Vec<Diagnostic>,
) {
    let split = |core: &Vec<u32>, of: &dyn Fn(u32) -> Option<u32>| core.iter().any(|c| of(*c) != of(core[0]));
    let mut node = nodes(root, cpus, findings);
    if map.cores.iter().any(|core| split(core, &|c| node[c as usize])) {
        findings.push(Diagnostic::warning(
            "dtb::W01",
            0..0,
            "threads of a core are of several NUMA nodes: nodes left out",
        ));
        node.fill(None);
    }
    let mut cache: Vec<Option<u32>> = cpus.iter().map(|c| last_cache(c, handles)).collect();
    // Threads of a core share their cache.
    if map.cores.iter().any(|core| split(core, &|c| cache[c as usize])) {
        cache.fill(None);
    }
    // No cache is of two sockets; what the devicetree says nothing of is all that a socket has, and a node.
    machine.llc = alike(cache.iter().zip(&map.socket).zip(&node));
    let several = |groups: Vec<Vec<u32>>| if groups.len() > 1 { groups } else { Vec::new() };
    machine.packages = several(alike(map.socket.iter()));
    machine.nodes = several(alike(node.iter()));
    machine.cores = map.cores;
    let clusters = alike(map.cluster.iter());
    if between(&machine.cores, &clusters, &machine.llc) {
        machine.l2 = clusters;
    }
}

/// The NUMA node of each CPU; none of any where it is not told of all.
fn nodes(root: &Node, cpus: &[Cpu<'_>], findings: &mut Vec<Diagnostic>) -> Vec<Option<u32>> {
    // As `of_node_to_nid` looks for it.
    let outer = root.child("cpus").and_then(|c| c.u32(NODE)).or(root.u32(NODE));
    let nodes: Vec<Option<u32>> = cpus.iter().map(|c| c.node.u32(NODE).or(outer)).collect();
    let without: Vec<u32> = (0..).zip(&nodes).filter(|(_, node)| node.is_none()).map(|(cpu, _)| cpu).collect();
    if without.len() == nodes.len() {
        return nodes;
    }
    if !without.is_empty() {
        let message = format!("CPUs {} have no {NODE}: NUMA nodes left out", list(&without));
        findings.push(Diagnostic::warning("dtb::W01", 0..0, message));
        return vec![None; cpus.len()];
    }
    let matrix = root.child("distance-map").and_then(|map| map.cells("distance-matrix")).unwrap_or_default();
    let apart: BTreeSet<u32> = matrix.chunks_exact(3).filter(|d| d[0] != d[1]).map(|d| d[2]).collect();
    if apart.len() > 1 {
        let told: Vec<String> = apart.iter().take(8).map(u32::to_string).collect();
        let message = format!("NUMA nodes are {} apart: here all are equally far from each other", told.join(", "));
        findings.push(Diagnostic::warning("dtb::W02", 0..0, message));
    }
    nodes
}

const NODE: &str = "numa-node-id";

// ---- clocks ------------------------------------------------------------------------------------------------------------

/// What tells which CPUs share a clock.
fn clock_key(cpu: &Cpu<'_>, index: usize, handles: &Handles<'_>) -> String {
    if let Some(handle) = cpu.node.u32("operating-points-v2") {
        let shared = handles.get(&handle).is_some_and(|t| t.has("opp-shared"));
        return if shared { format!("opp {handle}") } else { format!("own {index}") };
    }
    for prop in ["qcom,freq-domain", "performance-domains", "clocks"] {
        if let Some(cells) = cpu.node.cells(prop) {
            return format!("{prop} {cells:?}");
        }
    }
    // As SCMI has it; its driver asks for `clocks` first as well.
    match power_domain(cpu.node, "perf", handles) {
        Some(cells) => format!("perf {cells:?}"),
        None => format!("core {}", cpu.core),
    }
}

/// The power domain that a CPU calls so: a phandle and as many cells as its node says.
fn power_domain(cpu: &Node, name: &str, handles: &Handles<'_>) -> Option<Vec<u32>> {
    let place = cpu.texts("power-domain-names").iter().position(|n| n == name)?;
    let cells = cpu.cells("power-domains")?;
    let mut rest = &cells[..];
    let mut next = || {
        let args = handles.get(rest.first()?).and_then(|n| n.u32("#power-domain-cells")).unwrap_or(0);
        let (domain, behind) = rest.split_at(rest.len().min((args as usize).saturating_add(1)));
        rest = behind;
        Some(domain.to_vec())
    };
    (0..place).try_for_each(|_| next().map(drop))?;
    next()
}

/// CPUs by clock.
fn clocks(cpus: &[Cpu<'_>], handles: &Handles<'_>) -> Vec<Vec<u32>> {
    let mut groups: Vec<(String, Vec<u32>)> = Vec::new();
    // Version 2 goes first; cpufreq-dt takes CPUs as one clock where only tables of version 1 exist.
    let v2 = |c: &Cpu<'_>| c.node.has("operating-points-v2");
    let v1 = cpus.iter().any(|c| c.node.has("operating-points") && !v2(c));
    for (i, cpu) in cpus.iter().enumerate() {
        let key = if v1 && !v2(cpu) { "v1".into() } else { clock_key(cpu, i, handles) };
        match groups.iter_mut().find(|(k, _)| *k == key) {
            Some((_, of)) => of.push(i as u32),
            None => groups.push((key, vec![i as u32])),
        }
    }
    groups.into_iter().map(|(_, of)| of).collect()
}

/// A change of frequency where the devicetree tells no latency, µs.
const TRANSITION_US: u64 = 300;

fn domains(
    cpus: &[Cpu<'_>],
    clocks: &[Vec<u32>],
    handles: &Handles<'_>,
    overlay: &Overlay,
    unread: &Unread,
    findings: &mut Vec<Diagnostic>,
) -> Vec<Domain> {
    let domain = |(of, own): (Vec<u32>, Option<&[Opp]>)| {
        let first = &cpus[of[0] as usize];
        let coefficient = first.node.u32("dynamic-power-coefficient");
        let table = of
            .iter()
            .find_map(|&c| cpus[c as usize].node.u32("operating-points-v2"))
            .and_then(|h| handles.get(&h).copied());
        let node = table.or_else(|| of.iter().map(|&c| cpus[c as usize].node).find(|n| n.has("operating-points")));
        let (mut told, latency_ns) = match (table, node) {
            (Some(table), _) => opps_v2(table),
            (None, Some(cpu)) => (opps_v1(cpu), 0),
            (None, None) => (Vec::new(), 0),
        };
        let mut opps = match (own, table) {
            (Some(own), _) => own.to_vec(),
            (None, table) => {
                table.iter().for_each(|t| choices(&of, t, findings));
                findings.extend(node.and_then(|node| cut_to_limit(&of, node, &mut told)));
                without_frequency(&of, told, findings)
            }
        };
        opps.sort_by_key(|o| o.khz);
        opps.dedup_by_key(|o| o.khz);
        energy_model(&of, &mut opps, coefficient, findings);
        if opps.is_empty() {
            findings.push(without_opps(&of, first, unread));
        }
        let latency_ns = v1_latency(first.node).max(latency_ns);
        let transition_us = if latency_ns == 0 { TRANSITION_US } else { (latency_ns / 1_000).min(100_000) };
        let core = first.core.clone();
        let mut domain = Domain {
            cpus: of,
            core,
            capacity: 1024,
            transition_us,
            transition_assumed: latency_ns == 0,
            opps,
            ..Domain::default()
        };
        let told = |d: Diagnostic| match coefficient {
            Some(c) => {
                d.help(format!("dynamic-power-coefficient is {c} µW/MHz/V²; those of real CPUs are below 10000"))
            }
            None => d,
        };
        findings.extend(domain.drop_absurd_powers("dtb::W01", &domain.cpus.clone()).map(told));
        domain
    };
    clocks.iter().flat_map(|clock| overlay.split(clock)).map(domain).collect()
}

fn without_frequency(cpus: &[u32], mut opps: Vec<Opp>, findings: &mut Vec<Diagnostic>) -> Vec<Opp> {
    let told = opps.len();
    opps.retain(|o| (1..=MAX_KHZ as u64).contains(&o.khz));
    let absurd = |o: &&mut Opp| o.uv.is_some_and(|uv| !(1..=MAX_UV as u64).contains(&uv));
    let dropped = opps.iter_mut().filter(absurd).map(|o| o.uv = None).count();
    if dropped > 0 {
        let message =
            format!("CPUs {}: {dropped} operating points with voltages that are none; these were left out", list(cpus));
        findings.push(Diagnostic::warning("dtb::W01", 0..0, message));
    }
    if opps.len() < told && !opps.is_empty() {
        let message = format!("CPUs {}: {} operating points without a frequency", list(cpus), told - opps.len());
        findings.push(Diagnostic::warning("dtb::W01", 0..0, format!("{message} were left out")));
    }
    opps
}

/// `dev_pm_opp_of_register_em`: powers are as told if the lowest operating point has one, all computed if not, never mixed.
fn energy_model(cpus: &[u32], opps: &mut [Opp], coefficient: Option<u32>, findings: &mut Vec<Diagnostic>) {
    if opps.first().is_some_and(|o| o.uw.is_some()) {
        return;
    }
    let ignored = opps.iter().filter(|o| o.uw.is_some()).count();
    if ignored > 0 {
        let message = format!(
            "CPUs {}: opp-microwatt of {ignored} operating points is not used, as the lowest has none: so does the kernel",
            list(cpus)
        );
        findings.push(Diagnostic::note("dtb::N01", 0..0, message));
    }
    for o in opps {
        o.uw = coefficient.zip(o.uv).and_then(|(coefficient, uv)| dev_pm_opp_calc_power(coefficient, uv, o.khz));
    }
}

/// Which of its speed bins a chip is, and which revision, its driver finds out; boost is somebody's choice.
fn choices(cpus: &[u32], table: &Node, findings: &mut Vec<Diagnostic>) {
    let enabled = || table.children.iter().filter(|n| n.enabled());
    let points = || points(table).take(MAX_OPPS);
    let mut note = |message: String| {
        findings.push(Diagnostic::note("dtb::N01", 0..0, format!("CPUs {}: {message}", list(cpus))));
    };
    let hardware = points().filter(|n| n.has("opp-supported-hw")).count();
    if hardware > 0 {
        note(format!("{hardware} operating points are for some revisions only (opp-supported-hw); all were taken"));
    }
    let turbo = enabled().filter(|n| n.has("turbo-mode")).count();
    if turbo > 0 {
        note(format!("{turbo} operating points are for boost, which is off (turbo-mode); they were left out"));
    }
    let bins: BTreeSet<&str> = points().filter_map(speed_bin).collect();
    if !bins.is_empty() {
        let bins: Vec<String> = bins.iter().map(|b| quoted(b)).collect();
        note(format!("voltages depend on the speed bin; those of {} were taken", bins.join(", ")));
    }
}

/// The first of the voltages by speed bin, where there is no other.
fn speed_bin(point: &Node) -> Option<&str> {
    let named = || point.props.keys().find(|k| k.starts_with("opp-microvolt-")).map(String::as_str);
    if point.has("opp-microvolt") { None } else { named() }
}

fn without_opps(cpus: &[u32], first: &Cpu<'_>, unread: &Unread) -> Diagnostic {
    let list = list(cpus);
    let why = match unread.pstates.first() {
        Some(table) => format!("no operating points but those of {table}, which is not read"),
        None => "no operating points in the devicetree (the firmware gives them)".into(),
    };
    let message = format!("CPUs {list} ({}): {why}", first.core);
    let help = format!(
        "name a TOML overlay (--overlay FILE):\n[[domain]]\ncpus = \"{list}\"\nopps = [ {{ khz = 600_000, uv = 700_000 }}, {{ khz = 1_800_000, uv = 1_000_000 }} ]"
    );
    Diagnostic::error("dtb::E03", 0..0, message).help(help)
}

/// `dev_pm_opp_calc_power`: mV and MHz are whole, so is the quotient.
fn dev_pm_opp_calc_power(coefficient: u32, uv: u64, khz: u64) -> Option<u64> {
    let (mv, mhz) = (uv / 1_000, khz / 1_000);
    let uw = u128::from(coefficient) * u128::from(mv) * u128::from(mv) * u128::from(mhz) / 1_000_000;
    u64::try_from(uw).ok().filter(|&p| p > 0)
}

/// A platform file has so many operating points at most; further ones of a table are left out, and that is told.
fn cut_to_limit(cpus: &[u32], table: &Node, opps: &mut Vec<Opp>) -> Option<Diagnostic> {
    let left_out = opps.len().checked_sub(MAX_OPPS).filter(|n| *n > 0)?;
    opps.truncate(MAX_OPPS);
    let message = format!(
        "CPUs {}: {} has {} operating points; a platform has {MAX_OPPS} at most, the last {left_out} were left out",
        list(cpus),
        quoted(&table.name),
        MAX_OPPS + left_out
    );
    Some(Diagnostic::warning("dtb::W02", 0..0, message))
}

/// Those of a v2 table that are used.
fn points(table: &Node) -> impl Iterator<Item = &Node> {
    table.children.iter().filter(|n| n.enabled() && !n.has("turbo-mode"))
}

/// Points of a v2 table, of 0 kHz where it tells no frequency, and the longest latency, ns. Turbo points are the kernel's
/// boost, which is off.
fn opps_v2(table: &Node) -> (Vec<Opp>, u64) {
    let mut latency = 0;
    let mut opps = Vec::new();
    for n in points(table) {
        latency = latency.max(n.u32("clock-latency-ns").unwrap_or(0).into());
        let khz = n.u64("opp-hz").unwrap_or(0) / 1_000;
        // <target>, or <target min max>; speed bins have a name behind.
        let volts = n.cells(speed_bin(n).unwrap_or("opp-microvolt"));
        let uv = volts.and_then(|v| v.first().copied()).map(u64::from);
        // One of each supply; a voltage is the first one's.
        let uw = n.cells("opp-microwatt").filter(|w| !w.is_empty()).map(|w| w.iter().copied().map(u64::from).sum());
        opps.push(Opp { khz, uv, uw });
    }
    (opps, latency)
}

/// Pairs of kHz and µV.
fn opps_v1(node: &Node) -> Vec<Opp> {
    let pair = |p: &[u32]| Opp { khz: p[0].into(), uv: Some(p[1].into()), uw: None };
    node.cells("operating-points").unwrap_or_default().chunks_exact(2).map(pair).collect()
}

fn v1_latency(node: &Node) -> u64 {
    node.u32("clock-latency").unwrap_or(0).into()
}

fn powers(machine: &mut Machine, unread: &Unread, findings: &mut Vec<Diagnostic>) {
    // By the lowest operating point the kernel decides where all powers come from.
    let lacking = machine.domains.iter().filter(|d| d.opps.iter().any(|o| o.uw.is_none()));
    let (partly, without): (Vec<_>, Vec<_>) = lacking.partition(|d| d.opps.first().is_some_and(|o| o.uw.is_some()));
    if partly.is_empty() && without.is_empty() {
        machine.trust.push("power: energy model of the kernel, dynamic power of busy CPUs only".into());
        return;
    }
    let none = "no power (opp-microwatt, or opp-microvolt with dynamic-power-coefficient)";
    let some = "the lowest operating point has a power, others have none, and the kernel then computes nothing";
    for (domains, what) in [(without, none), (partly, some)].into_iter().filter(|(domains, _)| !domains.is_empty()) {
        let cpus: Vec<String> = domains.iter().map(|d| list(&d.cpus)).collect();
        let message = format!("CPUs {}: {what}: no energy is reported", cpus.join(" and "));
        let help = "an overlay with `uw` in its operating points supplies it: opps = [ { khz = …, uw = … } ]";
        findings.push(Diagnostic::warning("dtb::W01", 0..0, message).help(help));
    }
    machine.trust.push(match unread.energy_costs.first() {
        Some(costs) => format!("power: none, {costs} of the devicetree is not read"),
        None => "power: the devicetree gives none".into(),
    });
}

// ---- caches ------------------------------------------------------------------------------------------------------------

/// The last cache of a CPU, by its phandle.
fn last_cache(cpu: &Cpu<'_>, handles: &Handles<'_>) -> Option<u32> {
    let mut handle = cpu.node.u32("next-level-cache").or(cpu.node.u32("l2-cache"))?;
    for _ in 0..8 {
        let next = handles.get(&handle).and_then(|n| n.u32("next-level-cache").or(n.u32("l3-cache")));
        handle = next.unwrap_or(handle);
    }
    Some(handle)
}
