//! The words of the grammar: event names and how keys match them, the keys of each object, and the nearest word.

use super::json::Member;
use super::lints::Report;
use crate::words::{nearest, quoted};

/// An event, in the order in which rt-app compares prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    Lock,
    Unlock,
    Wait,
    Signal,
    Broad,
    Sync,
    Sleep,
    Runtime,
    Run,
    Timer,
    Suspend,
    Resume,
    Memrun,
    Mem,
    Iorun,
    Yield,
    Barrier,
    Fork,
    SemPost,
    SemWait,
}

/// Names in matching order: `runtime` before `run`, `memrun` before `mem`.
pub(super) const EVENTS: [(&str, Event); 20] = [
    ("lock", Event::Lock),
    ("unlock", Event::Unlock),
    ("wait", Event::Wait),
    ("signal", Event::Signal),
    ("broad", Event::Broad),
    ("sync", Event::Sync),
    ("sleep", Event::Sleep),
    ("runtime", Event::Runtime),
    ("run", Event::Run),
    ("timer", Event::Timer),
    ("suspend", Event::Suspend),
    ("resume", Event::Resume),
    ("memrun", Event::Memrun),
    ("mem", Event::Mem),
    ("iorun", Event::Iorun),
    ("yield", Event::Yield),
    ("barrier", Event::Barrier),
    ("fork", Event::Fork),
    ("sem_post", Event::SemPost),
    ("sem_wait", Event::SemWait),
];

/// The event a key stands for: its name is a *prefix* of the key.
pub(super) fn event(key: &str) -> Option<(&'static str, Event)> {
    EVENTS.into_iter().find(|(name, _)| key.starts_with(name))
}

pub(super) const ROOT: &[&str] = &["tasks", "global", "resources", "groups"];
pub(super) const GLOBAL: &[&str] = &[
    "duration",
    "calibration",
    "default_policy",
    "pi_enabled",
    "lock_pages",
    "logdir",
    "log_basename",
    "log_size",
    "ftrace",
    "gnuplot",
    "io_device",
    "mem_buffer_size",
    "cumulative_slack",
];
pub(super) const SCHED: &[&str] =
    &["policy", "priority", "dl-runtime", "dl-period", "dl-deadline", "util_min", "util_max"];
/// Keys of a task besides [`SCHED`] and events; `period` and `deadline` (and `runtime`, an event) are legacy aliases.
pub(super) const TASK: &[&str] =
    &["instance", "delay", "phases", "loop", "cpus", "nodes_membind", "taskgroup", "period", "deadline"];
/// Keys of a phase besides [`SCHED`] and events.
pub(super) const PHASE: &[&str] = &["loop", "cpus", "nodes_membind", "taskgroup"];

/// Say something about a key that is none of `known`: nearby words are offered.
pub(super) fn unknown(member: &Member, known: &[&[&str]], events: bool, report: &mut Report) {
    if report.is_full() {
        return report.drop_one();
    }
    let words = known.iter().copied().flatten().copied();
    let events = EVENTS.iter().map(|(name, _)| *name).filter(|_| events);
    match nearest(&member.name, words.chain(events)) {
        Some(word) => {
            let message = format!("unknown key {}: rt-app ignores it silently", quoted(&member.name));
            report.warning("rtapp::W01", member.name_span.clone(), message).help(format!("did you mean `{word}`?"));
        }
        None => {
            let message = format!("unknown key {}, ignored as rt-app does", quoted(&member.name));
            report.note("rtapp::N02", member.name_span.clone(), message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes() {
        let check = |key: &str, expect: Option<Event>| assert_eq!(event(key).map(|e| e.1), expect, "{key}");
        check("run_big", Some(Event::Run));
        check("runtime0", Some(Event::Runtime));
        check("memory", Some(Event::Mem));
        check("memrun", Some(Event::Memrun));
        check("locker", Some(Event::Lock));
        check("sem_post1", Some(Event::SemPost));
        check("loop", None);
        check("Run", None);
    }

    #[test]
    fn near_words() {
        let check = |key: &str, expect| assert_eq!(nearest(key, ["run", "log_size", "priority"].into_iter()), expect);
        check("rum", Some("run"));
        check("Run", Some("run"));
        check("logsize", Some("log_size"));
        check("priorty", Some("priority"));
        check("frag", None);
        check(&"x".repeat(1 << 20), None);
    }
}
