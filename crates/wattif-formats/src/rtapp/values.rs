//! Typed access to members, and what becomes of repeated keys.

use super::json::{Json, Member, Node};
use super::keys;
use super::lints::Report;
use crate::words::quoted;
use std::collections::BTreeMap;
use wattif_model::workload::MAX_TIME;

/// Longest time accepted, µs: 11.5 days.
pub const MAX_US: i64 = MAX_TIME.0 as i64 / 1000;
/// Where rt-app's integers end.
const RTAPP_MAX: i64 = i32::MAX as i64;

/// Of a mistake that rt-app finds when it reads the file.
pub(super) const REFUSED: &str = "rt-app refuses it too, and exits with 2";

/// The members of an object; an error, and none, otherwise.
pub(super) fn object<'a>(what: &str, node: &'a Node, report: &mut Report) -> &'a [Member] {
    match &node.value {
        Json::Object(members) => members,
        other => {
            wrong_type(what, "an object", node, other, report);
            &[]
        }
    }
}

fn wrong_type(what: &str, expected: &str, node: &Node, found: &Json, report: &mut Report) {
    let message = format!("{} must be {expected}, not {}", quoted(what), found.kind());
    let help = match (expected, found) {
        ("an integer", Json::Text(t)) if t.parse::<i64>().is_ok() => "write the number without quotes",
        ("a boolean", _) => "write true or false, without quotes",
        _ => REFUSED,
    };
    report.error("rtapp::E04", node.span.clone(), message).help(help);
}

/// The member called `name`; a null value counts as absent, as in json-c.
pub(super) fn find<'a>(members: &'a [Member], name: &str) -> Option<&'a Member> {
    members.iter().rev().find(|m| m.name == name).filter(|m| m.value.value != Json::Null)
}

/// An integer in `range`.
pub(super) fn int(member: &Member, range: std::ops::RangeInclusive<i64>, report: &mut Report) -> Option<i64> {
    let node = &member.value;
    let Json::Number(text) = &node.value else {
        wrong_type(&member.name, "an integer", node, &node.value, report);
        return None;
    };
    if node.value.kind() == "a float" {
        let message = format!("{} must be an integer, not a float", quoted(&member.name));
        let help = if *range.end() == MAX_US { "all times are whole microseconds" } else { "write it without a point" };
        report.error("rtapp::E04", node.span.clone(), message).help(help);
        return None;
    }
    let value = text.parse::<i64>().ok().filter(|v| range.contains(v));
    if value.is_none() {
        let (lo, hi) = (range.start(), range.end());
        let message = format!("{} = {} is out of range: {lo}..={hi}", quoted(&member.name), quoted(text));
        let help = match *hi {
            MAX_US => "times are whole microseconds, up to 11.5 days".into(),
            _ => format!("write {lo} to {hi}"),
        };
        report.error("rtapp::E05", node.span.clone(), message).help(help);
    }
    value
}

/// Checks that it is an array of integers, 0 and above.
pub(super) fn integers(member: &Member, report: &mut Report) {
    let Json::Array(items) = &member.value.value else {
        return wrong_type(&member.name, "an array of integers", &member.value, &member.value.value, report);
    };
    for node in items {
        let item = Member { name: member.name.clone(), name_span: node.span.clone(), value: node.clone() };
        int(&item, 0..=i32::MAX as i64, report);
    }
}

/// A duration in µs.
pub(super) fn us(member: &Member, report: &mut Report) -> Option<u64> {
    let us = int(member, 0..=MAX_US, report)?;
    if us > RTAPP_MAX {
        let message =
            format!("{} = {us}: rt-app takes it for {RTAPP_MAX}, where its integers end", quoted(&member.name));
        // What the kernel is asked for is no event that could be split.
        let help = match member.name.as_str() {
            "dl-runtime" | "dl-period" | "dl-deadline" => {
                "more than 35 minutes: the kernel takes a period of at most 4194304 µs, and a slice of at most 100000"
            }
            _ => "more than 35 minutes: write it as several events, or as a loop",
        };
        report.warning("rtapp::W23", member.value.span.clone(), message).help(help);
    }
    Some(us as u64)
}

/// A string.
pub(super) fn text<'a>(member: &'a Member, report: &mut Report) -> Option<&'a str> {
    match &member.value.value {
        Json::Text(text) => Some(text),
        other => {
            wrong_type(&member.name, "a string", &member.value, other, report);
            None
        }
    }
}

/// A boolean.
pub(super) fn boolean(member: &Member, report: &mut Report) -> Option<bool> {
    match &member.value.value {
        Json::Bool(b) => Some(*b),
        other => {
            wrong_type(&member.name, "a boolean", &member.value, other, report);
            None
        }
    }
}

/// What an object holds, for repeated keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    Root,
    Tasks,
    Events,
    Phases,
    Other,
}

/// Resolve repeated keys. `collapse`: exactly as json-c (first place, last value); otherwise every event, phase and
/// task is kept, as after rt-app's pre-processor; tasks then have names of their own already.
pub(super) fn repeated(node: &mut Node, holds: Holds, collapse: bool, report: &mut Report) {
    let members = match &mut node.value {
        Json::Object(members) => members,
        Json::Array(items) => return items.iter_mut().for_each(|n| repeated(n, Holds::Other, collapse, report)),
        _ => return,
    };
    match holds {
        Holds::Tasks | Holds::Phases if !collapse => {}
        _ => merge(members, holds, collapse, report),
    }
    for m in members.iter_mut() {
        let below = match (holds, m.name.as_str()) {
            (Holds::Root, "tasks") => Holds::Tasks,
            (Holds::Tasks | Holds::Phases, _) => Holds::Events,
            (Holds::Events, "phases") => Holds::Phases,
            _ => Holds::Other,
        };
        repeated(&mut m.value, below, collapse, report);
    }
}

fn merge(members: &mut Vec<Member>, holds: Holds, collapse: bool, report: &mut Report) {
    let is_event = |name: &str| holds == Holds::Events && keys::event(name).is_some();
    let merges = |name: &str| collapse || !is_event(name);
    let mut first: BTreeMap<String, usize> = BTreeMap::new();
    let mut kept: Vec<Member> = Vec::with_capacity(members.len());
    for m in members.drain(..) {
        match first.get(&m.name).filter(|_| merges(&m.name)) {
            Some(&at) => {
                let message = format!(
                    "repeated key {}: the first place and this value are kept, the earlier value is lost",
                    quoted(&m.name)
                );
                let help = match holds {
                    Holds::Events if is_event(&m.name) => "give each event a name of its own, such as `run1`, `run2`",
                    Holds::Tasks => "give each task a name of its own",
                    Holds::Phases => "give each phase a name of its own",
                    _ => "only one of them counts: delete the other",
                };
                report.warning("rtapp::W02", m.name_span.clone(), message).help(help);
                kept[at].value = m.value;
            }
            None => {
                first.entry(m.name.clone()).or_insert(kept.len());
                kept.push(m);
            }
        }
    }
    *members = kept;
}

/// Gives each task a name of its own, by which overrides know it too, as rt-app's pre-processor does.
pub(super) fn rename_tasks(root: &mut Node, report: &mut Report) {
    if let Json::Object(members) = &mut root.value
        && let Some(tasks) = members.iter_mut().rev().find(|m| m.name == "tasks")
        && let Json::Object(tasks) = &mut tasks.value.value
    {
        rename(tasks, report);
    }
}

fn rename(members: &mut [Member], report: &mut Report) {
    let mut taken: BTreeMap<String, u32> = members.iter().map(|m| (m.name.clone(), 0)).collect();
    let mut seen = std::collections::BTreeSet::new();
    for m in members {
        if seen.insert(m.name.clone()) {
            continue;
        }
        let mut next = taken[&m.name];
        let name = loop {
            next += 1;
            let name = format!("{}{next}", m.name);
            if !taken.contains_key(&name) {
                break name;
            }
        };
        taken.insert(m.name.clone(), next);
        taken.insert(name.clone(), 0);
        seen.insert(name.clone());
        let message = format!("repeated task name {}: this one is called {}", quoted(&m.name), quoted(&name));
        report.warning("rtapp::W18", m.name_span.clone(), message);
        m.name = name;
    }
}
