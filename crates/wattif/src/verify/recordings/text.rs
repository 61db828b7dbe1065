//! The text of a recording (`trace-cmd report -t`), read into a [`History`].
//!
//! Only what the figures need is read; lines of other events, and lines that are no events, are passed over as the definition of
//! the figures does.

use super::history::{History, Switch};

/// An event line.
struct Line<'a> {
    pid: u32,
    cpu: usize,
    at: u64,
    event: &'a str,
    fields: &'a str,
}

/// Reads a whole trace.
pub fn read(text: &str) -> History {
    let mut history = History::default();
    for line in text.lines().filter_map(line) {
        history.event_of(line.at, line.pid);
        feed(&mut history, &line);
    }
    history.close();
    history
}

/// `   comm-pid   [cpu]  seconds.ns: event:   fields`; the name may hold spaces and dashes.
fn line(text: &str) -> Option<Line<'_>> {
    let (head, rest) = text.split_once(" [").filter(|(h, _)| h.contains('-'))?;
    let (cpu, rest) = rest.split_once(']')?;
    let (stamp, rest) = rest.trim_start().split_once(": ")?;
    let (event, fields) = rest.trim_start().split_once(':')?;
    let (_, pid) = head.trim_end().rsplit_once('-')?;
    let at = nanoseconds(stamp.split_whitespace().next_back()?)?;
    Some(Line { pid: pid.parse().ok()?, cpu: cpu.parse().ok()?, at, event, fields: fields.trim_start() })
}

fn nanoseconds(stamp: &str) -> Option<u64> {
    let (s, fraction) = stamp.split_once('.')?;
    let digits = fraction.len().min(9) as u32;
    let part: u64 = fraction[..digits as usize].parse().ok()?;
    s.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(part * 10u64.pow(9 - digits))
}

/// The number behind `key=`.
fn number(fields: &str, key: &str) -> Option<u32> {
    let at = fields.find(&format!("{key}="))? + key.len() + 1;
    let digits = fields[at..].split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

fn feed(history: &mut History, line: &Line<'_>) -> Option<()> {
    let (at, cpu, fields) = (line.at, line.cpu, line.fields);
    match line.event {
        "sched_switch" => history.switch(at, cpu, switch(fields)?),
        "sched_waking" => history.waking(at, woken(fields)?),
        "sched_wakeup" => history.wakeup(at, woken(fields)?, false),
        "sched_wakeup_new" => history.wakeup(at, woken(fields)?, true),
        "sched_migrate_task" => history.migrate(at, number(fields, " pid")?),
        "sched_process_fork" => history.fork(at, number(fields, "child_pid")?),
        "sched_process_exit" => history.exit(at, number(fields, " pid")?, comm(fields)?),
        "cpu_frequency" => history.frequency(at, number(fields, "cpu_id")? as usize, number(fields, "state")?),
        "cpu_idle" => history.idle(at, number(fields, "cpu_id")? as usize, number(fields, "state")?),
        "cpu_idle_miss" => {
            let below = fields.contains("type=below");
            history.idle_miss(at, number(fields, "cpu_id")? as usize, number(fields, "state")?, below);
        }
        "tick_stop" if fields.contains("success=1") => history.tick_stop(at, cpu),
        _ => {}
    }
    Some(())
}

/// `comm=NAME pid=N …` or `NAME:N [prio] …`.
fn woken(fields: &str) -> Option<u32> {
    match fields.strip_prefix("comm=") {
        Some(_) => number(fields, " pid"),
        None => task(fields).map(|(_, pid, _)| pid),
    }
}

fn comm(fields: &str) -> Option<&str> {
    fields.strip_prefix("comm=")?.split_once(" pid=").map(|(comm, _)| comm)
}

/// `NAME:PID [prio]` and what follows.
fn task(fields: &str) -> Option<(&str, u32, &str)> {
    let (head, rest) = fields.split_once(" [")?;
    let (comm, pid) = head.rsplit_once(':')?;
    let (_, rest) = rest.split_once(']')?;
    Some((comm, pid.parse().ok()?, rest))
}

/// `prev:pid [prio] STATE ==> next:pid [prio]`, or with `prev_comm=` and the other names of the fields.
fn switch(fields: &str) -> Option<Switch<'_>> {
    let (before, after) = fields.split_once(" ==> ")?;
    if let Some(rest) = before.strip_prefix("prev_comm=") {
        let (prev_comm, _) = rest.split_once(" prev_pid=")?;
        let (_, state) = rest.split_once("prev_state=")?;
        let (next_comm, _) = after.strip_prefix("next_comm=")?.split_once(" next_pid=")?;
        let (prev, next) = (number(before, "prev_pid")?, number(after, "next_pid")?);
        return Some(Switch { prev, prev_comm, state: state.chars().next()?, next, next_comm });
    }
    let (prev_comm, prev, state) = task(before)?;
    let (next_comm, next, _) = task(after)?;
    Some(Switch { prev, prev_comm, state: state.trim_start().chars().next()?, next, next_comm })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_switch() {
        let a = switch("a b:7 [120] S ==> swapper/1:0 [120]").unwrap();
        let b = switch(
            "prev_comm=a b prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120",
        );
        let b = b.unwrap();
        assert_eq!((a.prev, a.prev_comm, a.state, a.next), (b.prev, b.prev_comm, b.state, b.next));
        assert_eq!((a.prev, a.prev_comm, a.state, a.next_comm), (7, "a b", 'S', "swapper/1"));
    }

    #[test]
    fn a_short_trace() {
        let text = "cpus=1\n\
            <idle>-0     [000]     1.000000000: sched_waking:         comm=kworker/0:1 pid=9 prio=120 target_cpu=000\n\
            <idle>-0     [000]     1.000002: sched_switch:         swapper/0:0 [120] R ==> kworker/0:1:9 [120]\n\
            kworker/0:1-9     [000]     1.000005000: sched_switch:         kworker/0:1:9 [120] S ==> swapper/0:0 [120]\n\
            nonsense\n";
        let history = read(text);
        let thread = &history.threads[&9];
        assert_eq!((thread.comm.as_str(), thread.stints.len(), thread.wakes.len()), ("kworker/0:1", 1, 1));
        assert_eq!(
            (thread.stints[0].end - thread.stints[0].start, thread.wakes[0].waking),
            (3000, Some(1_000_000_000))
        );
    }
}
