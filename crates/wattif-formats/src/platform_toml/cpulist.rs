//! Sets of CPUs: the kernel's cpulist `0-3,6`, lists of them, and the compact forms for big machines.

use super::CODES;
use crate::toml_tree::{Node, Report, Table, Value};
use crate::words::quoted;
use wattif_model::check::Diagnostic;
use wattif_model::{CpuId, CpuSet};

/// A non-empty set of CPUs: `"0-3,6"` or a single number.
pub(super) fn read(node: &Node, report: &mut Report) -> Option<CpuSet> {
    let set = match &node.value {
        Value::Int(cpu) if (0..CpuSet::MAX_CPUS as i64).contains(cpu) => Some(CpuSet::one(CpuId(*cpu as u32))),
        Value::Text(list) => parse(list),
        _ => None,
    };
    if set.is_none() {
        let shown = if let Value::Text(list) = &node.value { quoted(list) } else { node.value.kind().into() };
        let message = format!("{shown} is not a CPU list such as \"0-3,6\", below {}", CpuSet::MAX_CPUS);
        report.error(CODES.range, node.span.clone(), message);
    }
    set
}

/// Several sets: one CPU list, an array of them, `{ of = 64, every = 4 }` (blocks of four consecutive CPUs) or
/// `{ of = 64, stride = 32 }` (CPUs 0 and 32, 1 and 33, …). `of` is the number of CPUs, where it is not known.
pub(super) fn parts(node: Node, key: &str, nr: Option<usize>, report: &mut Report) -> Vec<CpuSet> {
    match node.value {
        Value::Table(table) => regular(table, key, nr, report).unwrap_or_default(),
        Value::Array(items) if items.is_empty() => {
            let message = format!("`{key}` names no CPU");
            let help = "list the CPUs, such as \"0-3\", or leave the whole entry out";
            report.push(Diagnostic::error(CODES.range, node.span, message).help(help));
            vec![]
        }
        Value::Array(items) => items.iter().filter_map(|n| read(n, report)).collect(),
        _ => read(&node, report).into_iter().collect(),
    }
}

fn regular(mut table: Table, key: &str, nr: Option<usize>, report: &mut Report) -> Option<Vec<CpuSet>> {
    const MAX: i64 = CpuSet::MAX_CPUS as i64;
    let nr = match nr {
        Some(nr) => nr as u32,
        None => table.need("of", report)?.int("of", 1..=MAX, report)? as u32,
    };
    let said = report.list.len();
    let every = table.int("every", 1..=MAX, report).map(|n| n as u32);
    let stride = table.int("stride", 1..=MAX, report).map(|n| n as u32);
    let span = table.span.clone();
    table.finish(&["of", "every", "stride"], report);
    let set = |cpus: &mut dyn Iterator<Item = u32>| cpus.map(CpuId).collect::<CpuSet>();
    match (every, stride) {
        (Some(n), None) => Some((0..nr).step_by(n as usize).map(|lo| set(&mut (lo..(lo + n).min(nr)))).collect()),
        (None, Some(n)) => Some((0..n.min(nr)).map(|lo| set(&mut (lo..nr).step_by(n as usize))).collect()),
        // One that could not be read has been told.
        (None, None) if report.list.len() > said => None,
        _ => {
            report.error(CODES.missing, span, format!("`{key}` needs either `every` or `stride`"));
            None
        }
    }
}

pub(super) fn parse(list: &str) -> Option<CpuSet> {
    let mut set = CpuSet::default();
    for piece in list.split(',') {
        let (lo, hi) = piece.split_once('-').unwrap_or((piece, piece));
        let (lo, hi) = (lo.trim().parse::<u32>().ok()?, hi.trim().parse::<u32>().ok()?);
        if lo > hi || hi as usize >= CpuSet::MAX_CPUS {
            return None;
        }
        (lo..=hi).for_each(|c| set.insert(CpuId(c)));
    }
    Some(set)
}
