//! Frequency domains: operating points, capacities, and powers in the platform's vocabulary.

use super::{CODES, CONTRADICTION, UNKNOWN_UNIT, cpulist, machine};
use crate::toml_tree::{Report, Span, Table};
use wattif_model::CpuSet;
use wattif_model::check::Diagnostic;
use wattif_model::platform::{self, DtClock, FreqDomain, Opp, PowerTable, PowerUnit};

/// A domain with what belongs to its CPUs.
pub(super) struct Domain {
    pub domain: FreqDomain,
    pub core: String,
    pub capacity: u32,
    pub priority: u32,
    pub span: Span,
}

pub(crate) const MAX_OPPS: usize = 256;
/// Highest clock, kHz, and voltage, µV.
pub(crate) const MAX_KHZ: i64 = platform::MAX_KHZ as i64;
pub(crate) const MAX_UV: i64 = platform::MAX_UV as i64;
/// Largest power, µW (or thousandths): a kilowatt.
pub(crate) const MAX_UW: i64 = platform::MAX_UW as i64;

pub(super) fn read(root: &mut Table, unit: PowerUnit, report: &mut Report) -> Vec<Domain> {
    let tables = root.tables("domain", report);
    if tables.is_empty() {
        report.error(CODES.missing, 0..0, "there is no [[domain]]");
    }
    tables.into_iter().flat_map(|t| domain(t, unit, report)).collect()
}

/// One entry: one domain, or several with the same facts.
fn domain(mut table: Table, unit: PowerUnit, report: &mut Report) -> Vec<Domain> {
    let span = table.span.clone();
    let sets = table.need("cpus", report).map(|n| cpulist::parts(n, "cpus", None, report)).unwrap_or_default();
    let core = table.text("core", report).unwrap_or_else(|| "cpu".into());
    let capacity = table.int("capacity", 1..=1024, report).unwrap_or(1024) as u32;
    let priority = table.int("priority", 0..=platform::MAX_PRIORITY.into(), report).unwrap_or(0) as u32;
    let transition_latency_ns = machine::time(&mut table, "transition", report).unwrap_or(0);
    let transition_delay_ns = machine::time(&mut table, "transition_delay", report);
    let (opps, power) = opps(&mut table, unit, capacity, report);
    let dt_clock = dt_clock(&mut table, report);
    let known = ["cpus", "core", "capacity", "transition_us", "transition_delay_us", "opps", "static_states"];
    let further = ["idle_core", "idle_cluster", "efficiency", "dt_clock_khz", "priority"];
    table.finish(&[&known[..], &further].concat(), report);
    if opps.is_empty() {
        report.error(CODES.missing, span.clone(), "a domain needs at least one operating point in `opps`");
        return vec![];
    }
    let domain = |cpus| FreqDomain {
        cpus,
        opps: opps.clone(),
        transition_latency_ns,
        transition_delay_ns,
        power: power.clone(),
        dt_clock,
    };
    let domains = sets.into_iter().map(|cpus| (domain(cpus), core.clone()));
    domains.map(|(domain, core)| Domain { domain, core, capacity, priority, span: span.clone() }).collect()
}

/// `efficiency` and `dt_clock_khz`, from which old kernels compute `cpu_power`: both or neither.
fn dt_clock(table: &mut Table, report: &mut Report) -> Option<DtClock> {
    let (given, wanted, at) = match (table.take("efficiency"), table.take("dt_clock_khz")) {
        (Some(efficiency), Some(khz)) => {
            let efficiency = efficiency.int("efficiency", 1..=platform::MAX_EFFICIENCY.into(), report);
            let (least, most) = (*platform::DT_CLOCK_KHZ.start() as i64, *platform::DT_CLOCK_KHZ.end() as i64);
            let hz = khz.int("dt_clock_khz", least..=most, report).map(|khz| khz as u64 * 1000);
            return Some(DtClock { hz: hz?, efficiency: efficiency? as u32 });
        }
        (Some(given), None) => ("efficiency", "dt_clock_khz", given.span),
        (None, Some(given)) => ("dt_clock_khz", "efficiency", given.span),
        (None, None) => return None,
    };
    let message = format!("`{given}` without `{wanted}`: `cpu_power` is computed from both");
    let help = format!("state `{wanted}` too, or leave `{given}` out: then `cpu_power` is 1024");
    report.push(Diagnostic::error(CONTRADICTION, at, message).help(help));
    None
}

fn opps(table: &mut Table, unit: PowerUnit, capacity: u32, report: &mut Report) -> (Vec<Opp>, PowerTable) {
    let entries = table.tables("opps", report);
    if entries.len() > MAX_OPPS {
        report.error(CODES.limit, table.span.clone(), format!("more than {MAX_OPPS} operating points"));
        return Default::default();
    }
    let errors = |report: &Report| report.list.iter().filter(|d| d.is_error()).count();
    let before = errors(report);
    let mut power = PowerTable::default();
    let mut found: Vec<(Option<u32>, Opp, Span)> = Vec::new();
    for mut entry in entries {
        let span = entry.span.clone();
        let khz = entry.need("khz", report).and_then(|n| n.int("khz", 1..=MAX_KHZ, report)).unwrap_or(1) as u32;
        let uv = entry.int("uv", 1..=MAX_UV, report).map(|v| v as u32);
        let own = entry.int("capacity", 1..=1024, report).map(|v| v as u32);
        powers(&mut entry, unit, &mut power, report);
        entry.finish(&[&["khz", "uv", "capacity"][..], power_keys(unit)].concat(), report);
        found.push((own, Opp { khz, capacity: 1, uv }, span));
    }
    domain_powers(table, unit, found.len(), &mut power, report);
    check_busy(&found, unit, &power, report);
    // A number that could not be read is another here.
    let read = errors(report) == before;
    (capacities(found, capacity, read, report), power)
}

/// Fill in capacities and, where all was `read`, check the order: frequencies rise, capacities do not fall, the highest is the
/// CPU's.
fn capacities(found: Vec<(Option<u32>, Opp, Span)>, capacity: u32, read: bool, report: &mut Report) -> Vec<Opp> {
    let max = found.last().map_or(1, |(_, opp, _)| opp.khz);
    let mut opps: Vec<Opp> = Vec::with_capacity(found.len());
    for (own, mut opp, span) in found {
        // As the kernel does: capacity · f / f_max, rounded down.
        let computed = (capacity as u64 * opp.khz as u64 / max as u64).clamp(1, 1024) as u32;
        opp.capacity = own.unwrap_or(computed);
        let last = opps.last().filter(|_| read);
        if last.is_some_and(|l| l.khz >= opp.khz || l.capacity > opp.capacity) {
            report.error(CONTRADICTION, span, "operating points must be in ascending order of frequency and capacity");
        } else if read && opp.khz == max && opp.capacity != capacity {
            let message = format!("the highest operating point has capacity {}, the CPU {capacity}", opp.capacity);
            report.error(CONTRADICTION, span, message);
        }
        opps.push(opp);
    }
    opps
}

/// What an operating point says of power.
fn power_keys(unit: PowerUnit) -> &'static [&'static str] {
    match unit {
        PowerUnit::Unknown => &[],
        PowerUnit::EnergyModel => &["uw"],
        PowerUnit::EasCosts => &["core", "cluster"],
        PowerUnit::Measured => &["active_uw", "static_uw", "idle_uw"],
    }
}

/// Powers of one operating point.
fn powers(entry: &mut Table, unit: PowerUnit, power: &mut PowerTable, report: &mut Report) {
    let mut need = |key: &str, scale: u64| {
        let Some(node) = entry.take(key) else {
            power_missing(entry.span.clone(), key, report);
            return 0;
        };
        node.int(key, 0..=MAX_UW, report).unwrap_or(0) as u64 * scale
    };
    match unit {
        PowerUnit::Unknown => unit_missing(entry, report),
        PowerUnit::EnergyModel => power.busy_uw.push(need("uw", 1)),
        PowerUnit::EasCosts => {
            power.busy_uw.push(need("core", 1000));
            power.cluster_busy_uw.push(need("cluster", 1000));
        }
        PowerUnit::Measured => {
            power.busy_uw.push(need("active_uw", 1));
            power.cluster_busy_uw.push(need("static_uw", 1));
            let states = ints(entry, "idle_uw", 1, report);
            power.idle_uw.resize(power.idle_uw.len().max(states.len()), Vec::new());
            for (state, uw) in states.into_iter().enumerate() {
                power.idle_uw[state].push(uw);
            }
        }
    }
}

/// Operating points without a power of the file's vocabulary: one complaint for all.
fn power_missing(at: Span, key: &str, report: &mut Report) {
    let message = format!("the key `{key}` is missing: the power of an operating point");
    if !report.list.iter().any(|d| d.message == message) {
        let help = "where powers are unknown leave out [power] and all of them, or write unit = \"unknown\" there";
        report.push(Diagnostic::error(CODES.missing, at, message).help(help));
    }
}

/// Powers of a file that does not say what they are: one complaint for all.
fn unit_missing(entry: &mut Table, report: &mut Report) {
    let units = [("uw", "energy_model"), ("core", "eas_costs"), ("active_uw", "measured")];
    let found = units.iter().find_map(|(key, unit)| Some((key, unit, entry.take(key)?.span)));
    ["cluster", "static_uw", "idle_uw"].iter().for_each(|key| drop(entry.take(key)));
    let Some((key, unit, at)) = found else { return };
    if !unit_complained(report) {
        let help = format!("add [power] with unit = \"{unit}\", which `{key}` belongs to, or leave the powers out");
        report.push(Diagnostic::error(CODES.missing, at, UNIT_MISSING).help(help));
    }
}

const UNIT_MISSING: &str = "operating points have powers, but no `unit` in [power] says what they are";

/// It was said that the unit of powers is none, or not there: which keys belong to it cannot be told.
fn unit_complained(report: &Report) -> bool {
    report.list.iter().any(|d| d.message == UNIT_MISSING || d.message.starts_with(UNKNOWN_UNIT))
}

/// What no machine has: an operating point without power, or with less than a slower one. Measured curves have dips, of an
/// eighth at most in what is built in; a quarter is none.
fn check_busy(found: &[(Option<u32>, Opp, Span)], unit: PowerUnit, power: &PowerTable, report: &mut Report) {
    if report.has_errors() {
        return; // a power that could not be read is 0 here
    }
    let points: Vec<(u64, &Opp, &Span)> = power.busy_uw.iter().zip(found).map(|(uw, f)| (*uw, &f.1, &f.2)).collect();
    if let Some((_, opp, at)) = points.iter().find(|(uw, ..)| *uw == 0) {
        let message = format!("a busy CPU draws no power at {} kHz", opp.khz);
        let found = Diagnostic::warning("platform::W06", (*at).clone(), message);
        report.push(found.help("the kernel refuses such an energy model; energy comes out too low"));
    }
    let least = |uw: u64| if unit == PowerUnit::Measured { uw - uw / 4 } else { uw };
    // Points out of order are told as such.
    if let Some(w) = points.windows(2).find(|w| w[0].1.khz < w[1].1.khz && w[1].0 < least(w[0].0)) {
        let (slow, fast) = (w[0].1, w[1].1);
        let message = format!("a busy CPU draws less at {} kHz than at {} kHz", fast.khz, slow.khz);
        let found = Diagnostic::warning("platform::W07", w[1].2.clone(), message);
        report
            .push(found.help("a slower operating point that costs more is never worth choosing: check the two powers"));
    }
}

/// Powers by idle state.
fn domain_powers(table: &mut Table, unit: PowerUnit, opps: usize, power: &mut PowerTable, report: &mut Report) {
    match unit {
        PowerUnit::EasCosts => {
            let column = |v: Vec<u64>| v.into_iter().map(|p| vec![p]).collect();
            power.idle_uw = column(ints(table, "idle_core", 1000, report));
            power.cluster_idle_uw = column(ints(table, "idle_cluster", 1000, report));
        }
        PowerUnit::Measured => {
            let on = table.int("static_states", 0..=16, report).unwrap_or(1) as usize;
            power.cluster_idle_uw = vec![power.cluster_busy_uw.clone(); on];
            power.cluster_idle_uw.push(vec![0]); // deeper states switch the static part off
            if power.idle_uw.iter().any(|row| row.len() != opps) {
                let message = "`idle_uw` must name the same idle states in every operating point";
                report.error(CONTRADICTION, table.span.clone(), message);
            }
        }
        PowerUnit::Unknown if unit_complained(report) => {
            ["idle_core", "idle_cluster", "static_states"].iter().for_each(|key| drop(table.take(key)));
        }
        PowerUnit::EnergyModel | PowerUnit::Unknown => {}
    }
}

fn ints(table: &mut Table, key: &str, scale: u64, report: &mut Report) -> Vec<u64> {
    let Some(node) = table.take(key) else { return vec![] };
    let items = node.array(key, report);
    if items.len() > 16 {
        report.error(CODES.limit, table.span.clone(), "more than 16 idle states");
        return vec![];
    }
    items.iter().map(|n| n.int(key, 0..=MAX_UW, report).unwrap_or(0) as u64 * scale).collect()
}

/// Every CPU below the number of CPUs in exactly one domain, and the biggest one has capacity 1024.
pub(super) fn check(domains: &[Domain], report: &mut Report) -> usize {
    let mut all = CpuSet::default();
    for d in domains {
        if let Some(cpu) = all.iter_and(&d.domain.cpus).next() {
            report.error(CONTRADICTION, d.span.clone(), format!("CPU {cpu} is in two frequency domains"));
        }
        d.domain.cpus.iter().for_each(|c| all.insert(c));
    }
    let nr = all.iter().last().map_or(0, |c| c.at() + 1);
    // What could not be read has been said already, and explains the rest.
    if report.has_errors() {
        return nr;
    }
    if all.len() != nr {
        report.error(CONTRADICTION, 0..0, format!("CPUs must be numbered from 0 without gaps: {all} of {nr}"));
    }
    if nr > 0 && domains.iter().all(|d| d.capacity != 1024) {
        let message = "no CPU has capacity 1024: capacities are relative to the biggest CPU at its highest frequency";
        report.push(Diagnostic::warning("platform::W01", domains[0].span.clone(), message));
    }
    nr
}
