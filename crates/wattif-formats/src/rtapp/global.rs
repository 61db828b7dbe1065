//! `global` and `resources`: what has a meaning is used, the rest is accepted and listed.

use super::json::{Json, Member};
use super::keys;
use super::lints::Report;
use super::{Dialect, Options, sched, values};
use crate::trace::markers::CATEGORIES;
use crate::words::quoted;
use serde::{Deserialize, Serialize};
use wattif_model::Ns;
use wattif_model::workload::Policy;

/// The part of `global` a simulation uses.
#[derive(Clone, Debug)]
pub(super) struct Global {
    pub duration: Option<Ns>,
    pub default_policy: Policy,
    pub pi_enabled: bool,
    pub mem_buffer_size: u64,
    /// `iorun` writes to `/dev/null`.
    pub null_device: bool,
    /// `calibration: "CPU<n>"`.
    pub calibration_cpu: Option<u32>,
    pub cumulative_slack: bool,
    pub logs: Logs,
}

/// What a file says of the logs that rt-app writes: no part of the workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Logs {
    /// `log_basename`: what the files' names begin with; rt-app's own is `rt-app`.
    pub basename: Option<String>,
    /// `log_size: "disable"`, or a word that rt-app does not know: none are written.
    pub disabled: bool,
    /// `calibration` in ns per loop of work, 1 and above: what the column `perf` counts.
    pub ns_per_loop: Option<u32>,
    /// `ftrace`: categories of rt-app's own lines in a trace, in small letters.
    pub ftrace: Vec<String>,
    /// Phases of each task, in order, for these lines; 0 where the only loop is that of the only phase.
    pub phases: Vec<u32>,
    /// By task, phase and op: rt-app's number of the event that the op stands for; 0 where another op of the event has it.
    pub kinds: Vec<Vec<Vec<u8>>>,
}

impl Default for Global {
    fn default() -> Global {
        Global {
            duration: None,
            default_policy: Policy::Normal,
            pi_enabled: false,
            mem_buffer_size: 4 << 20,
            null_device: true,
            calibration_cpu: None,
            cumulative_slack: false,
            logs: Logs::default(),
        }
    }
}

/// Longest duration, s: 11.5 days.
const MAX_DURATION_S: i64 = 1_000_000;

impl Global {
    /// Read the section.
    pub fn read(members: &[Member], options: &Options, report: &mut Report) -> Global {
        let mut global = Global::default();
        for m in members.iter().filter(|m| m.value.value != Json::Null) {
            match m.name.as_str() {
                "duration" => global.duration = duration(m, report),
                "default_policy" => global.default_policy = sched::policy(m, report).unwrap_or_default(),
                "pi_enabled" => global.pi_enabled = values::boolean(m, report).unwrap_or(false),
                "calibration" if matches!(m.value.value, Json::Number(_)) => {
                    global.logs.ns_per_loop = ns_per_loop(m, report);
                }
                "calibration" => global.calibration_cpu = calibration(m, options, report),
                "cumulative_slack" => global.cumulative_slack = values::boolean(m, report).unwrap_or(false),
                "log_basename" => global.logs.basename = basename(m, report),
                "log_size" => global.logs.disabled = log_size(m, report),
                "mem_buffer_size" => {
                    let bytes = values::int(m, 1..=i32::MAX as i64, report);
                    global.mem_buffer_size = bytes.map_or(global.mem_buffer_size, |b| b as u64);
                }
                "io_device" => global.null_device = values::text(m, report).is_none_or(|t| t == "/dev/null"),
                "ftrace" => global.logs.ftrace = ftrace(m, options, report),
                _ => without_meaning(m, report),
            }
        }
        global
    }
}

fn duration(m: &Member, report: &mut Report) -> Option<Ns> {
    let s = values::int(m, -1..=MAX_DURATION_S, report)?;
    if s == 0 {
        let message = "duration 0 means no limit to rt-app: until all threads end";
        report
            .warning("rtapp::W17", m.value.span.clone(), message)
            .help("a run ends then too, or else after 10 s; --duration says when");
    }
    u64::try_from(s).ok().filter(|s| *s > 0).map(Ns::from_s)
}

/// Without meaning for the run itself, where `run` counts at the calibration CPU's speed.
fn ns_per_loop(m: &Member, report: &mut Report) -> Option<u32> {
    let message = "`calibration` in ns per loop only scales the column `perf` of --logs: `run` counts at the calibration CPU, \
                   in µs where rt-app does whole loops";
    report.note("rtapp::N01", m.name_span.clone(), message);
    values::int(m, 0..=i32::MAX as i64, report).and_then(|ns| u32::try_from(ns).ok()).filter(|ns| *ns > 0)
}

fn basename(m: &Member, report: &mut Report) -> Option<String> {
    let message = "`log_basename` has no meaning in a simulation: it names the files of --logs";
    report.note("rtapp::N01", m.name_span.clone(), message);
    values::text(m, report).map(String::from)
}

/// Is nothing to be logged? rt-app compares the words exactly, and takes any other for `disable`.
fn log_size(m: &Member, report: &mut Report) -> bool {
    let ring = matches!(m.value.value, Json::Number(_));
    let word = if ring { values::int(m, 0..=i64::MAX, report).map(|_| "") } else { values::text(m, report) };
    let disabled = !ring && word.is_some_and(|w| !["file", "auto"].contains(&w));
    let message = match word {
        _ if ring => "`log_size` as a size has no meaning in a simulation: --logs keeps every line".into(),
        Some("disable") => "`log_size`: --logs writes no files, as rt-app does not".into(),
        Some(other) if disabled => {
            format!(
                "`log_size`: {} is none of file, auto and disable: rt-app logs nothing, nor does --logs",
                quoted(other)
            )
        }
        _ => "`log_size` has no meaning in a simulation: --logs says whether there are logs".into(),
    };
    report.note("rtapp::N01", m.name_span.clone(), message);
    disabled
}

/// `"CPU<n>"` says at which CPU's speed `run` counts.
fn calibration(m: &Member, options: &Options, report: &mut Report) -> Option<u32> {
    let text = values::text(m, report)?;
    let cpu = text.strip_prefix("CPU").and_then(|n| n.parse::<u32>().ok());
    let Some(cpu) = cpu else {
        let message = format!("{} is not a calibration CPU such as `CPU0`", quoted(text));
        report.error("rtapp::E12", m.value.span.clone(), message);
        return None;
    };
    if let Some(nr) = options.nr_cpus.filter(|nr| cpu as usize >= *nr) {
        report.error("rtapp::E09", m.value.span.clone(), format!("CPU {cpu} does not exist: the platform has {nr}"));
    }
    Some(cpu)
}

/// Keys that steer the host: checked for their type, then listed.
fn without_meaning(m: &Member, report: &mut Report) {
    match m.name.as_str() {
        "lock_pages" | "gnuplot" => {
            values::boolean(m, report);
        }
        "logdir" => {
            values::text(m, report);
        }
        _ => return keys::unknown(m, &[keys::GLOBAL], false, report),
    }
    let message = format!("{} is accepted and has no meaning in a simulation", quoted(&m.name));
    report.note("rtapp::N01", m.name_span.clone(), message);
}

/// The categories that it names. `true` is all of them, and lines of attributes too, which are not written.
fn ftrace(m: &Member, options: &Options, report: &mut Report) -> Vec<String> {
    if let Json::Bool(all) = m.value.value {
        if all {
            let message = "`ftrace`: true asks for lines `rtapp_attrs` too: these are not written to a trace";
            report.note("rtapp::N01", m.name_span.clone(), message);
        }
        return CATEGORIES.iter().filter(|_| all).map(|c| c.to_string()).collect();
    }
    let Some(text) = values::text(m, report) else { return Vec::new() };
    let mut found = Vec::new();
    for word in text.split(',').map(|word| word.trim().to_lowercase()) {
        if CATEGORIES.contains(&word.as_str()) {
            found.push(word);
            continue;
        }
        if word == "none" {
            continue;
        }
        let (at, message) = (m.value.span.clone(), format!("unknown ftrace category {}", quoted(&word)));
        let added = match options.dialect {
            Dialect::RtApp => report.error("rtapp::E12", at, message),
            _ => report.warning("rtapp::W20", at, message),
        };
        added.help("main, task, loop, event, stats or none");
    }
    found
}

/// `resources`: every resource is created on demand, so only the types are checked.
pub(super) fn resources(members: &[Member], report: &mut Report) {
    const TYPES: [&str; 8] = ["mutex", "signal", "wait", "broadcast", "sync", "sleep", "run", "timer"];
    for m in members {
        let inner = values::object(&m.name, &m.value, report);
        let Some(kind) = values::find(inner, "type") else {
            let message = format!("resource {} needs the key `type`", quoted(&m.name));
            report.error("rtapp::E03", m.value.span.clone(), message);
            continue;
        };
        let Some(name) = values::text(kind, report) else { continue };
        if !TYPES.contains(&name) {
            report
                .error("rtapp::E12", kind.value.span.clone(), format!("unknown resource type {}", quoted(name)))
                .help("mutex, signal, wait, broadcast, sync, sleep, run or timer");
        }
    }
}
