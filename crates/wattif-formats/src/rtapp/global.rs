//! `global` and `resources`: what has a meaning is used, the rest is accepted and listed.

use super::json::{Json, Member};
use super::keys;
use super::lints::Report;
use super::{Dialect, Options, sched, values};
use crate::words::quoted;
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
                "calibration" => global.calibration_cpu = calibration(m, options, report),
                "mem_buffer_size" => {
                    let bytes = values::int(m, 1..=i32::MAX as i64, report);
                    global.mem_buffer_size = bytes.map_or(global.mem_buffer_size, |b| b as u64);
                }
                "io_device" => global.null_device = values::text(m, report).is_none_or(|t| t == "/dev/null"),
                _ => without_meaning(m, options, report),
            }
        }
        global
    }
}

fn duration(m: &Member, report: &mut Report) -> Option<Ns> {
    let s = values::int(m, -1..=MAX_DURATION_S, report)?;
    if s == 0 {
        let message = "duration 0 means no limit: until all threads end";
        report.warning("rtapp::W17", m.value.span.clone(), message);
    }
    u64::try_from(s).ok().filter(|s| *s > 0).map(Ns::from_s)
}

/// `"CPU<n>"` says at which CPU's speed `run` counts; a number of ns per loop has no meaning here.
fn calibration(m: &Member, options: &Options, report: &mut Report) -> Option<u32> {
    if matches!(m.value.value, Json::Number(_)) {
        values::int(m, 0..=i32::MAX as i64, report);
        let message =
            "`calibration` in ns per loop has no meaning in a simulation: `run` counts at the calibration CPU";
        report.note("rtapp::N01", m.name_span.clone(), message);
        return None;
    }
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

/// Keys that steer rt-app's logging and the host: checked for their type, then listed.
fn without_meaning(m: &Member, options: &Options, report: &mut Report) {
    match m.name.as_str() {
        "lock_pages" | "gnuplot" | "cumulative_slack" => {
            values::boolean(m, report);
        }
        "logdir" | "log_basename" => {
            values::text(m, report);
        }
        "log_size" => {
            if !matches!(m.value.value, Json::Number(_)) {
                values::text(m, report);
            }
        }
        "ftrace" => ftrace(m, options, report),
        _ => return keys::unknown(m, &[keys::GLOBAL], false, report),
    }
    let message = format!("{} is accepted and has no meaning in a simulation", quoted(&m.name));
    report.note("rtapp::N01", m.name_span.clone(), message);
}

fn ftrace(m: &Member, options: &Options, report: &mut Report) {
    const CATEGORIES: [&str; 6] = ["main", "task", "loop", "event", "stats", "none"];
    if matches!(m.value.value, Json::Bool(_)) {
        return;
    }
    let Some(text) = values::text(m, report) else { return };
    for word in text.split(',').map(str::trim) {
        if options.dialect == Dialect::RtApp && !CATEGORIES.iter().any(|c| c.eq_ignore_ascii_case(word)) {
            report
                .error("rtapp::E12", m.value.span.clone(), format!("unknown ftrace category {}", quoted(word)))
                .help("main, task, loop, event, stats or none");
        }
    }
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
