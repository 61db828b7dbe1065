//! Capacities of CPUs, as `arch_topology` makes them: dmips × top frequency, the greatest is 1024.
//!
//! The kernel reads `capacity-dmips-mhz` of the CPUs that it comes by in `cpu-map`; 32-bit Arm goes through `/cpus`. Sockets, clusters,
//! cores and threads are numbered from 0 up to the first gap, and each core is in a cluster. A CPU without the property makes all
//! CPUs equal. A map that does not lead to all CPUs leaves the kernel without the capacities of some, and such a machine is of no use:
//! here all CPUs are equal then as well, and it is told.

use super::fdt::Node;
use super::{Cpu, Domain, Handles};
use crate::machine::list;
use crate::words::quoted;
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::check::Diagnostic;

/// `topology_normalize_cpu_scale`; one CPU of which it is not known, and all are 1024.
pub(super) fn capacities(
    root: &Node,
    cpus: &[Cpu<'_>],
    handles: &Handles<'_>,
    domains: &mut [Domain],
    findings: &mut Vec<Diagnostic>,
) {
    let mut warn = |message: String| findings.push(Diagnostic::warning("dtb::W01", 0..0, message));
    if let Some(without) = cpus.iter().position(|c| c.dmips.is_none()) {
        if cpus.iter().any(|c| c.dmips.is_some()) || domains.len() > 1 {
            warn(format!("CPU {without} has no capacity-dmips-mhz: the kernel takes all CPUs as equal (1024)"));
        }
        return;
    }
    let nought: Vec<u32> = (0..).zip(cpus).filter(|(_, c)| c.dmips == Some(0)).map(|(i, _)| i).collect();
    if !nought.is_empty() {
        let of = list(&nought);
        warn(format!(
            "CPUs {of}: capacity-dmips-mhz is 0; the kernel takes it as it is, and its scheduler for a capacity of 1"
        ));
    }
    let top = |d: &Domain| d.opps.last().map_or(0, |o| o.khz);
    let raw = |d: &Domain, cpu: u32| u64::from(cpus[cpu as usize].dmips.unwrap_or(0)) * top(d);
    let max = domains.iter().flat_map(|d| d.cpus.iter().map(|&c| raw(d, c))).max().unwrap_or(0).max(1);
    let scaled = |d: &Domain, cpu: u32| (raw(d, cpu) * 1024 / max).clamp(1, 1024) as u32;
    let unlike = domains.iter().any(|d| d.cpus.iter().any(|&c| scaled(d, c) != 1024));
    if unlike && let Some(why) = unreached(root, cpus, handles) {
        return warn(format!("{why}: all CPUs are taken as equal (1024), capacity-dmips-mhz is not used"));
    }
    for d in domains {
        d.capacity = scaled(d, d.cpus[0]);
        let Some(&other) = d.cpus.iter().find(|&&c| scaled(d, c) != d.capacity) else { continue };
        let message = format!(
            "CPUs {} share a clock and differ in capacity: CPU {} has {}, CPU {other} has {}; all were taken for {}",
            list(&d.cpus),
            d.cpus[0],
            d.capacity,
            scaled(d, other),
            d.capacity
        );
        let help =
            "CPUs of one [[domain]] have one capacity; the kernel refuses an energy model of unlike CPUs as well";
        findings.push(Diagnostic::warning("dtb::W02", 0..0, message).help(help));
    }
}

/// Cores of 32-bit Arm that were paired with other ones, or are of the same boards.
const ARM32: [&str; 8] = [
    "arm,cortex-a5",
    "arm,cortex-a7",
    "arm,cortex-a8",
    "arm,cortex-a9",
    "arm,cortex-a12",
    "arm,cortex-a15",
    "arm,cortex-a17",
    "qcom,krait",
];

/// Why the kernel does not know the capacity of some CPU.
fn unreached(root: &Node, cpus: &[Cpu<'_>], handles: &Handles<'_>) -> Option<String> {
    let is_arm32 = |c: &Cpu<'_>| c.node.texts("compatible").iter().any(|name| ARM32.contains(&name.as_str()));
    if cpus.iter().all(is_arm32) {
        return None;
    }
    let Some(map) = root.child("cpus").and_then(|c| c.child("cpu-map")) else {
        return Some("there is no cpu-map, and the kernel reads the capacities of CPUs in it alone".into());
    };
    let mut walk = Walk { handles, nodes: BTreeSet::new() };
    if let Err(why) = walk.map(map) {
        return Some(format!("the kernel does not accept this cpu-map, as {why}"));
    }
    let left = (0..).zip(cpus).filter(|(_, c)| !walk.nodes.contains(&std::ptr::from_ref(c.node))).map(|(i, _)| i);
    let left = Vec::from_iter(left);
    (!left.is_empty()).then(|| {
        format!("in cpu-map, where names are numbered without gaps, the kernel does not come by CPUs {}", list(&left))
    })
}

/// Nodes that the kernel comes by in `cpu-map`, until it meets something that it does not accept.
struct Walk<'h> {
    handles: &'h Handles<'h>,
    nodes: BTreeSet<*const Node>,
}

impl Walk<'_> {
    /// `parse_socket`: a map without sockets is one.
    fn map(&mut self, map: &Node) -> Result<(), String> {
        let sockets = numbered(map, "socket");
        let sockets = if sockets.is_empty() { vec![map] } else { sockets };
        sockets.into_iter().try_for_each(|socket| self.cluster(socket, 0))
    }

    fn cluster(&mut self, cluster: &Node, depth: usize) -> Result<(), String> {
        let inner = numbered(cluster, "cluster");
        inner.iter().try_for_each(|c| self.cluster(c, depth + 1))?;
        for core in numbered(cluster, "core") {
            if depth == 0 {
                return Err(format!("{} is in no cluster", quoted(&core.name)));
            }
            if !inner.is_empty() {
                return Err(format!("{} has cores and clusters", quoted(&cluster.name)));
            }
            self.core(core)?;
        }
        Ok(())
    }

    fn core(&mut self, core: &Node) -> Result<(), String> {
        let threads = numbered(core, "thread");
        for thread in &threads {
            if !self.cpu(thread) {
                return Err(format!("{} of {} names no CPU", quoted(&thread.name), quoted(&core.name)));
            }
        }
        match (self.cpu(core), threads.is_empty()) {
            (true, false) => Err(format!("{} has a CPU and threads", quoted(&core.name))),
            (false, true) => Err(format!("{} names no CPU", quoted(&core.name))),
            _ => Ok(()),
        }
    }

    /// Does it name a node? One that is not started is accepted.
    fn cpu(&mut self, node: &Node) -> bool {
        let cpu = node.u32("cpu").and_then(|handle| self.handles.get(&handle));
        self.nodes.extend(cpu.map(|cpu| std::ptr::from_ref(*cpu)));
        cpu.is_some()
    }
}

/// Children `name0`, `name1`, … up to the first that is not there.
fn numbered<'n>(node: &'n Node, name: &str) -> Vec<&'n Node> {
    let by_name: BTreeMap<&str, &Node> = node.children.iter().rev().map(|c| (c.name.as_str(), c)).collect();
    (0..).map_while(|i| by_name.get(format!("{name}{i}").as_str()).copied()).collect()
}
