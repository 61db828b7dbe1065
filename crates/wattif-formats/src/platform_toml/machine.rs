//! CPUs and their topology, costs, noise, and the keys with a unit of time.

use super::clusters::{self, Placed};
use super::domains::{self, Domain};
use super::{CODES, CONTRADICTION, cpulist};
use crate::toml_tree::{Node, Report, Span, Table, Value};
use crate::words::quoted;
use std::collections::BTreeMap;
use wattif_model::check::Diagnostic;
use wattif_model::platform::{self, Costs, Cpu, Driver, Housekeeping, Interrupts, Noise};
use wattif_model::{ClusterId, CpuId, DomainId};

/// Longest time in a platform file, ns.
const MAX_NS: i64 = platform::MAX_NS as i64;
/// The same in µs.
pub(crate) const MAX_US: u64 = MAX_NS as u64 / 1000;
const COSTS: [&str; 7] = ["context_switch", "wakeup", "ipi", "timer_irq", "tick", "migration", "migration_llc"];

/// A time written as `stem_ns`, `stem_us` or `stem_ms`, in ns.
pub(super) fn time(table: &mut Table, stem: &str, report: &mut Report) -> Option<u64> {
    let mut found = None;
    for (unit, ns) in [("ns", 1), ("us", 1_000), ("ms", 1_000_000)] {
        let key = format!("{stem}_{unit}");
        if let Some(node) = table.take(&key) {
            if found.is_some() {
                let message = format!("{} is given twice, in two units", quoted(stem));
                report.error(CONTRADICTION, node.span.clone(), message);
            }
            found = node.int(&key, 0..=MAX_NS / ns, report).map(|v| (v * ns) as u64).or(Some(0));
        }
    }
    found
}

/// A mandatory time; 0 when it is missing and the mistake was reported.
pub(super) fn need_time(table: &mut Table, stem: &str, report: &mut Report) -> u64 {
    time(table, stem, report).unwrap_or_else(|| {
        report.error(CODES.missing, table.span.clone(), format!("the key `{stem}_us` (or `_ns`) is missing"));
        0
    })
}

/// A list of strings.
pub(super) fn texts(table: &mut Table, key: &str, report: &mut Report) -> Vec<String> {
    let items = table.take(key).map(|n| n.array(key, report)).unwrap_or_default();
    items.iter().filter_map(|n| n.text(key, report).map(String::from)).collect()
}

/// All CPUs; `None` when there are none.
pub(super) fn cpus(
    domains: &[Domain],
    clusters: &[Placed],
    mut topology: Table,
    report: &mut Report,
) -> Option<Vec<Cpu>> {
    // CPUs of a list that could not be read are not missing elsewhere.
    let told = !report.has_errors();
    let nr = domains::check(domains, report);
    clusters::check(clusters, nr, report);
    let each: Vec<u32> = (0..nr as u32).collect();
    let topology_span = topology.span.clone();
    let places: BTreeMap<String, Span> =
        topology.entries.iter().map(|(key, (_, node))| (key.clone(), node.span.clone())).collect();
    // Of two parts that contradict each other, the inner one is the mistake, where it is written.
    let at = |inner: &str, outer: &str| {
        places.get(inner).or(places.get(outer)).cloned().unwrap_or_else(|| topology_span.clone())
    };
    let mut partition = |key, report: &mut Report| partition(&mut topology, key, (nr, told), report);
    let core = partition("core", report).unwrap_or(each);
    let llc = partition("llc", report).unwrap_or_else(|| vec![0; nr]);
    let package = partition("package", report).unwrap_or_else(|| vec![0; nr]);
    let node = partition("node", report).unwrap_or_else(|| package.clone());
    let l2 = partition("l2", report);
    topology.finish(&["core", "l2", "llc", "package", "node"], report);
    nested((&core, "core"), (&llc, "last-level cache"), at("core", "llc"), report);
    if let Some(l2) = &l2 {
        nested((&core, "core"), (l2, "cache `l2`"), at("core", "l2"), report);
        nested((l2, "cache `l2`"), (&llc, "last-level cache"), at("l2", "llc"), report);
    }
    nested((&llc, "last-level cache"), (&package, "package"), at("llc", "package"), report);
    nested((&core, "core"), (&node, "node"), at("core", "node"), report);
    if nr == 0 || report.has_errors() {
        return None;
    }
    let cpu = |at: usize| {
        let id = CpuId(at as u32);
        let domain = domains.iter().position(|d| d.domain.cpus.contains(id))?;
        let cluster = clusters.iter().position(|c| c.cluster.cpus.contains(id))?;
        Some(Cpu {
            core_type: domains[domain].core.clone(),
            core: core[at],
            cluster: ClusterId(cluster as u32),
            domain: DomainId(domain as u32),
            llc: llc[at],
            package: package[at],
            node: node[at],
            capacity: domains[domain].capacity,
            l2: l2.as_ref().map(|l2| l2[at]),
            priority: domains[domain].priority,
        })
    };
    (0..nr).map(cpu).collect()
}

/// For each CPU the number of the part it belongs to: a list of CPU lists, or a regular form.
/// `told`: is every CPU among the `nr`?
fn partition(table: &mut Table, key: &str, (nr, told): (usize, bool), report: &mut Report) -> Option<Vec<u32>> {
    let node = table.take(key)?;
    let span = node.span.clone();
    let said = report.list.len();
    let parts = cpulist::parts(node, key, Some(nr), report);
    let read = report.list.len() == said;
    let mut of = vec![u32::MAX; nr];
    for (part, set) in parts.iter().enumerate() {
        for cpu in set.iter() {
            let message = match of.get_mut(cpu.at()) {
                Some(slot) if *slot == u32::MAX => {
                    *slot = part as u32;
                    continue;
                }
                Some(_) => format!("CPU {cpu} is in two parts of `{key}`"),
                None if !told => continue,
                None => format!("`{key}`: CPU {cpu} does not exist"),
            };
            report.error(CONTRADICTION, span.clone(), message);
        }
    }
    if let Some(cpu) = of.iter().position(|p| *p == u32::MAX) {
        if read {
            report.error(CONTRADICTION, span, format!("`{key}` does not name CPU {cpu}"));
        }
        return None;
    }
    Some(of)
}

fn nested((inner, what): (&[u32], &str), (outer, of): (&[u32], &str), at: Span, report: &mut Report) {
    let mut seen = BTreeMap::new();
    for (i, o) in inner.iter().zip(outer) {
        if *seen.entry(i).or_insert(o) != o {
            report.error(CONTRADICTION, at, format!("a {what} lies in two of the {of}s"));
            return;
        }
    }
}

/// Throughput by number of busy threads; as many entries as a core has threads.
pub(super) fn smt_share(root: &mut Table, cpus: &[Cpu], report: &mut Report) -> Vec<u32> {
    let mut threads = BTreeMap::new();
    cpus.iter().for_each(|c| *threads.entry(c.core).or_insert(0usize) += 1);
    let most = threads.values().copied().max().unwrap_or(1);
    let mut span = root.span.clone();
    let share: Vec<u32> = match root.take("smt_share") {
        None => vec![1024],
        Some(node) => {
            span = node.span.clone();
            let items = node.array("smt_share", report);
            items.iter().filter_map(|n| n.int("smt_share", 1..=1024, report)).map(|v| v as u32).collect()
        }
    };
    if share.len() != most || share.first() != Some(&1024) || !share.is_sorted_by(|fewer, more| fewer >= more) {
        let message = format!(
            "`smt_share` needs one entry for each of the {most} threads of a core, the first 1024, none larger than the one before"
        );
        report.error(CONTRADICTION, span, message);
    }
    share
}

pub(super) fn costs(root: &mut Table, report: &mut Report) -> Costs {
    let keys = COSTS.map(|stem| format!("{stem}_us"));
    if !root.entries.contains_key("costs") {
        let absent = Diagnostic::error(CODES.missing, 0..0, "there is no [costs]");
        report.push(absent.help(format!("it takes {} (or _ns)", keys.join(", "))));
        return Costs::default();
    }
    let mut table = root.table("costs", report);
    let [context_switch_ns, wakeup_ns, ipi_ns, timer_irq_ns, tick_ns, migration_ns, migration_llc_ns] =
        COSTS.map(|stem| need_time(&mut table, stem, report));
    let source = table.text("source", report).unwrap_or_else(|| "estimated".into());
    let known: Vec<&str> = keys.iter().map(String::as_str).chain(["source"]).collect();
    table.finish(&known, report);
    Costs { context_switch_ns, wakeup_ns, ipi_ns, timer_irq_ns, tick_ns, migration_ns, migration_llc_ns, source }
}

/// What drivers ask of CPUs, by the name of the device.
pub(super) fn drivers(table: Table, report: &mut Report) -> Vec<Driver> {
    let driver = |(device, (_, node)): (String, (Span, Node))| {
        let mut table = node.table(&device, report)?;
        let word = table.entries.get("cpu_latency_us").map(|(_, node)| &node.value);
        let cpu_latency_ns = match word {
            Some(Value::Text(word)) if word == "none" => table.take("cpu_latency_us").and(None),
            _ => Some(need_time(&mut table, "cpu_latency", report)),
        };
        let driver = Driver { device, cpu_latency_ns, hold_ns: need_time(&mut table, "hold", report) };
        table.finish(&["cpu_latency_us", "hold_ms"], report);
        Some(driver)
    };
    table.entries.into_iter().filter_map(driver).collect()
}

pub(super) fn noise(mut table: Table, report: &mut Report) -> Noise {
    let noise = Noise {
        irq_jitter_ns: time(&mut table, "irq_jitter", report).unwrap_or(0),
        work_ppm: table.int("work_ppm", 0..=platform::MAX_WORK_PPM.into(), report).unwrap_or(0) as u32,
        start_spread_ns: time(&mut table, "start_spread", report).unwrap_or(0),
        housekeeping: table.tables("housekeeping", report).into_iter().map(|t| housekeeping(t, report)).collect(),
        interrupts: table.take("interrupts").and_then(|t| t.table("interrupts", report)).map(|t| interrupts(t, report)),
        source: table.text("source", report).unwrap_or_else(|| "estimated".into()),
    };
    table.finish(&["irq_jitter_us", "work_ppm", "start_spread_us", "housekeeping", "interrupts", "source"], report);
    noise
}

/// How often something happens; of a time that could not be read nothing more is said.
fn interval(table: &mut Table, what: &str, report: &mut Report) -> u64 {
    let said = report.list.len();
    let ns = need_time(table, "interval", report);
    if ns < platform::MIN_INTERVAL_NS && report.list.len() == said {
        report.error(CODES.range, table.span.clone(), format!("{what} more often than every 100 µs"));
    }
    ns
}

fn housekeeping(mut table: Table, report: &mut Report) -> Housekeeping {
    let name = table.need("name", report).and_then(|n| n.text("name", report).map(String::from)).unwrap_or_default();
    let thread = Housekeeping {
        name,
        per_cpu: table.boolean("per_cpu", report).unwrap_or(false),
        interval_ns: interval(&mut table, "housekeeping", report),
        work_ns: need_time(&mut table, "work", report),
    };
    table.finish(&["name", "per_cpu", "interval_ms", "work_us"], report);
    thread
}

fn interrupts(mut table: Table, report: &mut Report) -> Interrupts {
    let interval_ns = interval(&mut table, "interrupts", report);
    let said = report.list.len();
    let interrupts = Interrupts {
        interval_ns,
        work_ns: need_time(&mut table, "work", report),
        burst: table.int("burst", 0..=platform::MAX_BURST.into(), report).unwrap_or(0) as u32,
        burst_gap_ns: time(&mut table, "burst_gap", report).unwrap_or(0),
        wakes_ppm: table.int("wakes_ppm", 0..=1_000_000, report).unwrap_or(0) as u32,
    };
    if interrupts.burst > 0 && interrupts.burst_gap_ns == 0 && report.list.len() == said {
        report.error(CODES.range, table.span.clone(), "a burst needs `burst_gap_us` of at least 1");
    }
    table.finish(&["interval_ms", "work_us", "burst", "burst_gap_us", "wakes_ppm"], report);
    interrupts
}
