//! Idle states of CPUs and of PSCI power domains, and which CPUs sleep together.
//!
//! Power domains are a tree: a CPU's own, that of its cluster, that of the system. A platform has one level of it: the CPUs of a
//! `[[cluster]]`, whose states are alike. It is made of the innermost power domain that has states and several CPUs, whatever
//! `cpu-map` calls a cluster; states that need more CPUs asleep than that, or unlike ones, are left out by name.
//!
//! FIDELITY(domain-states): the states of that power domain become states that a CPU's governor chooses.

use super::fdt::Node;
use super::{Cpu, Handles, power_domain};
use crate::machine::{self, Cluster, Idle, list, scope_by_name, wfi};
use crate::platform_toml::MAX_US;
use crate::words::quoted;
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::check::Diagnostic;
use wattif_model::platform::CPUIDLE_STATE_MAX;

/// More levels of power domains than any machine has.
const MAX_LEVELS: usize = 16;

/// `map` has the cluster of each CPU by `cpu-map`: it counts for CPUs that share no power domain.
pub(super) fn clusters(
    cpus: &[Cpu<'_>],
    map: &[usize],
    handles: &Handles<'_>,
    findings: &mut Vec<Diagnostic>,
) -> Vec<Cluster> {
    let mut odd = Odd::default();
    let chains: Vec<Vec<u32>> = cpus.iter().map(|c| chain(c.node, handles, &mut odd)).collect();
    let mut members: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (chain, cpu) in chains.iter().zip(0..) {
        chain.iter().for_each(|handle| members.entry(*handle).or_default().push(cpu));
    }
    let mut tables: Vec<Table> =
        cpus.iter().zip(&chains).map(|(c, chain)| Table::read(c, chain, &members, handles, &mut odd)).collect();
    let alike = |of: &[u32]| of.iter().all(|&c| tables[c as usize].same_sleep(&tables[of[0] as usize]));
    let unlike: BTreeSet<u32> = tables.iter().filter_map(|t| t.domain).filter(|d| !alike(&members[d])).collect();
    let mut left_out = LeftOut::new();
    for table in &mut tables {
        table.leave_out(&unlike, &mut left_out);
    }
    odd.tell(findings);
    let chosen: BTreeMap<u32, &[Idle]> = tables.iter().filter_map(|t| Some((t.domain?, &t.shared[..]))).collect();
    for (handle, states) in chosen {
        let names: Vec<String> = states.iter().map(|s| quoted(&s.name)).collect();
        let (domain, of) = (quoted(&handles[&handle].name), list(&members[&handle]));
        let message = format!(
            "power domain {domain} of CPUs {of}: {} become states that the idle governor of each CPU chooses",
            names.join(", ")
        );
        let help = "in the kernel the domain's own governor does when the last CPU enters its deepest state, and cpu_idle events do not \
                    have their numbers (FIDELITY.md, domain-states)";
        findings.push(Diagnostic::warning("dtb::W02", 0..0, message).help(help));
    }
    for (handle, (names, why)) in left_out {
        let names: Vec<String> = names.iter().take(5).map(|n| quoted(n)).collect();
        let (domain, of) = (quoted(&handles[&handle].name), list(&members[&handle]));
        let message = format!("power domain {domain} of CPUs {of}: {} left out, as {why}", names.join(", "));
        let help = "in the platform file, a [[cluster]] may have it that sleeps deeply on its own";
        findings.push(Diagnostic::warning("dtb::W02", 0..0, message).help(help));
    }
    let of = |((table, &of_map), cpu): ((Table, &usize), u32)| {
        (cpu, table.domain.map_or(Sleepers::Map(of_map), Sleepers::Domain), table.states())
    };
    machine::clusters(tables.into_iter().zip(map).zip(0..).map(of))
}

/// What makes CPUs a cluster.
#[derive(PartialEq)]
enum Sleepers {
    /// A power domain, by its phandle.
    Domain(u32),
    /// `cpu-map`.
    Map(usize),
}

/// Names of states and why, by the power domain they belong to.
type LeftOut = BTreeMap<u32, (Vec<String>, &'static str)>;

/// What one CPU can do.
#[derive(Default)]
struct Table {
    /// WFI, states of the CPU and of power domains that are its own.
    own: Vec<Idle>,
    /// The power domain whose CPUs are its cluster.
    domain: Option<u32>,
    /// States of that one, and of those around it that have no other CPUs.
    shared: Vec<Idle>,
    /// Power domains beyond, and their states.
    beyond: Vec<(u32, Vec<Idle>)>,
}

impl Table {
    fn read<'a>(
        cpu: &Cpu<'_>,
        chain: &[u32],
        members: &BTreeMap<u32, Vec<u32>>,
        handles: &Handles<'a>,
        odd: &mut Odd<'a>,
    ) -> Table {
        let mut table = Table { own: vec![wfi()], ..Table::default() };
        // `of_get_cpu_state_node`: of one index the state of the CPU's own power domain goes first.
        let mut chain = chain.iter().peekable();
        let of_domain = match chain.next_if(|own| members[own].len() == 1) {
            Some(own) => named(handles[own], "domain-idle-states"),
            None => Vec::new(),
        };
        let of_cpu: Vec<u32> = named(cpu.node, "cpu-idle-states").into_iter().skip(of_domain.len()).collect();
        table.own.extend(states(&of_domain, "domain-idle-states", handles, odd));
        let of_cpu = states(&of_cpu, "cpu-idle-states", handles, odd).into_iter();
        table.own.extend(of_cpu.map(|s| Idle { scope: scope_by_name(&s.name), ..s }));
        for &handle in chain {
            let states = states(&named(handles[&handle], "domain-idle-states"), "domain-idle-states", handles, odd);
            match table.domain {
                _ if states.is_empty() => {}
                _ if members[&handle].len() == 1 => table.own.extend(states),
                Some(inner) if members[&inner] != members[&handle] => table.beyond.push((handle, states)),
                inner => {
                    table.domain = inner.or(Some(handle));
                    table.shared.extend(states.into_iter().map(|s| Idle { scope: "cluster", ..s }));
                }
            }
        }
        if !is_sorted(&table.own) {
            odd.unsorted.insert(table.own.iter().skip(1).map(|s| quoted(&s.name)).collect());
        }
        table
    }

    fn same_sleep(&self, other: &Table) -> bool {
        self.domain == other.domain && self.own == other.own && self.shared == other.shared
    }

    /// Without what a platform cannot say.
    fn leave_out(&mut self, unlike: &BTreeSet<u32>, out: &mut LeftOut) {
        let mut note = |handle: u32, states: &[Idle], why| {
            let names = states.iter().map(|s| s.name.clone()).collect();
            out.entry(handle).or_insert((names, why));
        };
        for (handle, states) in self.beyond.drain(..) {
            note(handle, &states, "a platform has no level above its clusters");
        }
        if let Some(handle) = self.domain.filter(|d| unlike.contains(d)) {
            note(handle, &self.shared, "the states of these CPUs differ, and those of a cluster do not");
            (self.domain, self.shared) = (None, Vec::new());
        }
    }

    /// Deeper states have longer residencies. Where those of the CPU have not, they stay as the kernel counts them.
    fn states(self) -> Vec<Idle> {
        let sorted = is_sorted(&self.own);
        let mut states = [self.own, self.shared].concat();
        if sorted {
            states.sort_by_key(|s| s.residency_us);
        }
        states.truncate(CPUIDLE_STATE_MAX);
        states
    }
}

fn is_sorted(states: &[Idle]) -> bool {
    states.is_sorted_by_key(|s| s.residency_us)
}

/// What is wrong with idle states.
#[derive(Default)]
struct Odd<'a> {
    /// Names of those that say too little.
    short: BTreeSet<&'a str>,
    /// Names of those with a time that no state has.
    absurd: BTreeSet<&'a str>,
    /// Names of the states of a CPU, one of which has a shorter residency than the one before.
    unsorted: BTreeSet<Vec<String>>,
    /// Phandles of nodes that are not there, by the property that names them.
    dangling: BTreeMap<&'static str, BTreeSet<u32>>,
}

impl Odd<'_> {
    fn tell(self, findings: &mut Vec<Diagnostic>) {
        if !self.short.is_empty() {
            let names: Vec<String> = self.short.iter().take(5).map(|name| quoted(name)).collect();
            let message = format!(
                "{} idle states without min-residency-us, or without latencies, were left out: {}",
                self.short.len(),
                names.join(", ")
            );
            findings.push(Diagnostic::warning("dtb::W01", 0..0, message));
        }
        if !self.absurd.is_empty() {
            let names: Vec<String> = self.absurd.iter().take(5).map(|name| quoted(name)).collect();
            let message = format!(
                "{} idle states with latencies of more than {} s were left out: {}",
                self.absurd.len(),
                MAX_US / 1_000_000,
                names.join(", ")
            );
            findings.push(Diagnostic::warning("dtb::W01", 0..0, message));
        }
        for names in self.unsorted {
            let message = format!(
                "idle states {} are not in the order of min-residency-us: kept as the kernel counts them in traces",
                names.join(", ")
            );
            findings.push(Diagnostic::note("dtb::N01", 0..0, message));
        }
        for (prop, handles) in self.dangling {
            let shown: Vec<String> = handles.iter().take(5).map(|h| format!("{h:#x}")).collect();
            let message = format!("{prop}: no node has phandle {}; left out", shown.join(", "));
            findings.push(Diagnostic::warning("dtb::W01", 0..0, message));
        }
    }
}

/// The power domains of a CPU, outwards.
fn chain(cpu: &Node, handles: &Handles<'_>, odd: &mut Odd<'_>) -> Vec<u32> {
    let mut chain = Vec::new();
    let mut domain = power_domain(cpu, "psci", handles).map(|cells| cells[0]);
    while let Some(handle) = domain.filter(|h| !chain.contains(h) && chain.len() < MAX_LEVELS) {
        let Some(node) = handles.get(&handle) else {
            odd.dangling.entry("power-domains").or_default().insert(handle);
            break;
        };
        chain.push(handle);
        domain = node.u32("power-domains");
    }
    chain
}

/// The phandles of a property.
fn named(node: &Node, prop: &str) -> Vec<u32> {
    node.cells(prop).unwrap_or_default().into_iter().take(CPUIDLE_STATE_MAX).collect()
}

/// The states that a property names; of a CPU alone, where nobody says more.
fn states<'a>(named: &[u32], prop: &'static str, handles: &Handles<'a>, odd: &mut Odd<'a>) -> Vec<Idle> {
    let mut found = Vec::new();
    for handle in named {
        let Some(node) = handles.get(handle).copied() else {
            odd.dangling.entry(prop).or_default().insert(*handle);
            continue;
        };
        match state(node) {
            _ if !node.enabled() => {}
            Some(state) if longest_us(&state) > MAX_US => drop(odd.absurd.insert(&node.name)),
            Some(state) => found.push(state),
            None => drop(odd.short.insert(&node.name)),
        }
    }
    found
}

fn longest_us(state: &Idle) -> u64 {
    [state.exit_us, state.residency_us, state.actual_entry_us, state.actual_exit_us].into_iter().max().unwrap_or(0)
}

fn state(node: &Node) -> Option<Idle> {
    let (entry, exit) = (node.u32("entry-latency-us"), node.u32("exit-latency-us"));
    let wakeup = node.u32("wakeup-latency-us");
    let exit_latency = match wakeup {
        Some(wakeup) => wakeup,
        None => entry?.saturating_add(exit?),
    };
    Some(Idle {
        name: node.text("idle-state-name").unwrap_or_else(|| node.name.clone()),
        scope: "cpu",
        exit_us: exit_latency.into(),
        residency_us: node.u32("min-residency-us")?.into(),
        actual_entry_us: entry.unwrap_or(0).into(),
        actual_exit_us: exit.or(wakeup).unwrap_or(0).into(),
        polling: false,
        disabled: false,
    })
}
