//! Operating points that a devicetree leaves to the firmware: `[[domain]]` entries with `cpus` and `opps`, as in a platform
//! file, and nothing else. The CPUs of an entry are one clock.

use super::{CODES, CONTRADICTION, MAX_KHZ, MAX_UV, MAX_UW, cpulist};
use crate::machine::{Opp, list};
use crate::toml_tree::{self, Report, Span, Table};
use wattif_model::check::Diagnostic;

/// The operating points of some clocks.
#[derive(Default)]
pub(crate) struct Overlay(Vec<Entry>);

struct Entry {
    cpus: Vec<u32>,
    opps: Vec<Opp>,
    span: Span,
}

impl Overlay {
    /// Read it; mistakes go to the list, with their place in the text.
    pub fn read(text: &str) -> (Overlay, Vec<Diagnostic>) {
        let mut report = Report::new(CODES);
        let mut root = toml_tree::parse(text, &mut report);
        let tables = root.tables("domain", &mut report);
        root.finish(&["domain"], &mut report);
        if tables.is_empty() && !report.has_errors() {
            report.error(CODES.missing, 0..0, "the overlay has no [[domain]] with `cpus` and `opps`");
        }
        let mut entries: Vec<Entry> = Vec::new();
        for table in tables {
            for entry in domain(table, &mut report) {
                if let Some(cpu) = entry.cpus.iter().find(|c| entries.iter().any(|e| e.cpus.contains(c))) {
                    report.error(CONTRADICTION, entry.span.clone(), format!("CPU {cpu} is in two [[domain]] entries"));
                }
                entries.push(entry);
            }
        }
        (Overlay(entries), report.into_diagnostics())
    }

    /// The CPUs of a clock by who has operating points here; `None`: those it leaves alone.
    pub fn split(&self, clock: &[u32]) -> Vec<(Vec<u32>, Option<&[Opp]>)> {
        let of = |entry: &Entry| clock.iter().copied().filter(|c| entry.cpus.contains(c)).collect::<Vec<u32>>();
        let mut parts: Vec<_> = self.0.iter().map(|e| (of(e), Some(&e.opps[..]))).collect();
        let alone = |c: &u32| !self.0.iter().any(|e| e.cpus.contains(c));
        parts.push((clock.iter().copied().filter(alone).collect(), None));
        parts.retain(|(cpus, _)| !cpus.is_empty());
        parts.sort_by_key(|(cpus, _)| cpus[0]);
        parts
    }

    /// Entries whose CPUs are not there, or on more than one of these clocks.
    pub fn misplaced(&self, clocks: &[Vec<u32>]) -> Vec<Diagnostic> {
        let clock_of = |cpu: &u32| clocks.iter().position(|c| c.contains(cpu));
        let of = |entry: &Entry| {
            let places: Vec<Option<usize>> = entry.cpus.iter().map(clock_of).collect();
            let message = if places.contains(&None) {
                format!("there are no CPUs {} on this machine", list(&entry.cpus))
            } else if places.iter().any(|p| *p != places[0]) {
                format!("CPUs {} are not one clock", list(&entry.cpus))
            } else {
                return None;
            };
            let clocks: Vec<String> = clocks.iter().map(|c| format!("\"{}\"", list(c))).collect();
            let help = format!("the clocks of the devicetree: cpus = [{}]", clocks.join(", "));
            Some(Diagnostic::error(CODES.range, entry.span.clone(), message).help(help))
        };
        self.0.iter().filter_map(of).collect()
    }
}

/// One entry: one clock, or several with the same operating points.
fn domain(mut table: Table, report: &mut Report) -> Vec<Entry> {
    let span = table.span.clone();
    let sets = table.need("cpus", report).map(|n| cpulist::parts(n, "cpus", None, report)).unwrap_or_default();
    let points = table.tables("opps", report);
    table.finish(&["cpus", "opps"], report);
    let mut opps: Vec<Opp> = Vec::new();
    for mut point in points {
        let at = point.span.clone();
        let khz = point.need("khz", report).and_then(|n| n.int("khz", 1..=MAX_KHZ, report));
        let mut number = |key, max| point.int(key, 1..=max, report).map(|n| n as u64);
        let opp = Opp { khz: khz.unwrap_or(0) as u64, uv: number("uv", MAX_UV), uw: number("uw", MAX_UW) };
        point.finish(&["khz", "uv", "uw"], report);
        if khz.is_some() && opps.last().is_some_and(|l| l.khz >= opp.khz) {
            report.error(CONTRADICTION, at, "operating points must be in ascending order of frequency");
        } else if opps.last().is_some_and(|l| l.uw.is_some() != opp.uw.is_some()) {
            report.error(CONTRADICTION, at, "`uw` belongs in every operating point of a domain, or in none");
        }
        opps.push(opp);
    }
    if opps.is_empty() {
        report.error(CODES.missing, span.clone(), "a domain needs at least one operating point in `opps`");
    }
    let entry = |cpus: wattif_model::CpuSet| Entry {
        cpus: cpus.iter().map(|c| c.0).collect(),
        opps: opps.clone(),
        span: span.clone(),
    };
    sets.into_iter().map(entry).collect()
}
