//! The fields of a line of text, as `key=value`.
//!
//! Names of threads are free text, and may hold what looks like fields. The kernel prints a name before the pid it belongs to nearly
//! everywhere, and nothing else of its kind behind that pid, so the last `pid=` is the one; other fields are looked for behind it. A line
//! with two names is split where the second begins, which is behind the last field that belongs to the first.

use super::kinds::{INTS, Kind, Row, letter_bits};
use super::text::{Fields, number};
use std::ops::Range;
use wattif_model::trace::{BalanceKind, PlacementReason};

/// The numbers and names of a row; `None` when they are not there.
pub(super) fn by_key<'a>(row: &Row, fields: &'a [u8]) -> Option<Fields<'a>> {
    let mut found: Fields<'_> = ([0; INTS], [&[]; 2]);
    let all = row.ints.len();
    match second(row, fields) {
        Some((first, split)) => {
            part(row, &fields[..split], 0..first, 0, &mut found)?;
            part(row, &fields[split..], first..all, 1, &mut found)?;
        }
        None => part(row, fields, 0..all, 0, &mut found)?,
    }
    Some(found)
}

/// The first number of the second thread of a line, and where its name's key begins.
fn second(row: &Row, fields: &[u8]) -> Option<(usize, usize)> {
    let &first = row.named.get(1)?;
    let last = row.ints[first.checked_sub(1)?];
    let behind = last.split('|').find_map(|name| find_key(fields, name.as_bytes()))?;
    let name = row.strs[1];
    Some((first, behind + find_key(&fields[behind..], name.as_bytes())? - name.len() - 1))
}

/// What a line says of one thread: these numbers, and the name `which`.
fn part<'a>(row: &Row, text: &'a [u8], ints: Range<usize>, which: usize, found: &mut Fields<'a>) -> Option<()> {
    let name = row.strs.get(which).and_then(|names| name(text, names, row.ints[row.named[which]]));
    for (slot, names) in found.0[ints.clone()].iter_mut().zip(&row.ints[ints]) {
        let at = |key: &str| match &name {
            Some(name) => name.value(text, key.as_bytes()),
            // A file's name stands before it, or a thread's that is known.
            None if row.kind == Kind::Exec || starts_with_key(text, b"comm") => {
                Some(word(text, rfind_key(text, key.as_bytes())?))
            }
            None => value(text, key.as_bytes()),
        };
        let value = names.split('|').find_map(at);
        *slot = match (value.and_then(|v| parse(row.kind, names, v)), *names) {
            (Some(n), _) => n,
            (None, "success") => 1,
            (None, name) if row.kind == Kind::IdleWeights && name != "entered" => -1,
            (None, "clone_flags" | "old_pid" | "util_est" | "target_cpu" | "cpu_id" | "orig_cpu" | "dest_cpu") => 0,
            (None, _) => return None,
        };
    }
    if let Some(name) = name {
        found.1[which] = &text[name.text];
    }
    Some(())
}

/// Where a name stands, and the fields are.
struct Name {
    text: Range<usize>,
    /// Fields before it end here.
    begin: usize,
    /// Those behind it begin here, where its pid stands behind it.
    fields: Option<usize>,
}

impl Name {
    fn value<'a>(&self, text: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
        match self.fields {
            Some(from) => value(&text[from..], key),
            None => {
                let before = find_key(text, key).filter(|at| *at <= self.begin);
                Some(word(text, before.or_else(|| rfind_key(text, key))?))
            }
        }
    }
}

/// The name after one of these keys, of the thread whose number has one of those.
fn name(text: &[u8], names: &str, pids: &str) -> Option<Name> {
    let begin = names.split('|').find_map(|name| find_key(text, name.as_bytes()))?;
    let rest = &text[begin..];
    let is_before = |pid: &str| find_key(text, pid.as_bytes()).is_some_and(|at| at <= begin);
    let mut behind = pids.split('|').filter(|pid| !is_before(pid));
    let pid = behind.find_map(|pid| rfind_key(rest, pid.as_bytes())?.checked_sub(pid.len() + 2));
    Some(match pid {
        Some(end) => Name { text: begin..begin + end, begin, fields: Some(begin + end + 1) },
        None => Name { text: begin..begin + open_end(rest), begin, fields: None },
    })
}

/// Where a name without a pid behind it ends: at the next ` word=` or ` ==>`.
fn open_end(rest: &[u8]) -> usize {
    let ends = |i: &usize| {
        let word = rest[i + 1..].iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
        word > 0 && rest.get(i + 1 + word) == Some(&b'=') || rest[*i..].starts_with(b" ==>")
    };
    (0..rest.len()).filter(|&i| rest[i] == b' ').find(ends).unwrap_or(rest.len())
}

fn as_text(value: &[u8]) -> Option<&str> {
    std::str::from_utf8(value).ok()
}

/// Numbers, and the words that stand for some.
fn parse(kind: Kind, name: &str, value: &[u8]) -> Option<i64> {
    match (kind, name) {
        (Kind::Switch, "prev_state") => number(value).or(Some(letter_bits(value))),
        (Kind::IdleMiss, _) if value == b"below" => Some(1),
        (Kind::IdleMiss, _) if value == b"above" => Some(0),
        (Kind::Placement, "reason") => {
            as_text(value).and_then(PlacementReason::by_name).map(|r| r.number() as i64).or(number(value))
        }
        (Kind::Balance, "kind") => {
            as_text(value).and_then(BalanceKind::by_name).map(|k| k.number() as i64).or(number(value))
        }
        (Kind::IdleChoice, _) if value == b"unknown" => Some(-1),
        _ if value == b"true" => Some(1),
        _ if value == b"false" => Some(0),
        _ => number(value),
    }
}

/// Do the fields begin with `key=`?
pub(super) fn starts_with_key(fields: &[u8], key: &[u8]) -> bool {
    fields.starts_with(key) && fields.get(key.len()) == Some(&b'=')
}

/// The word after `key=`; the key stands at the beginning or after a space.
pub(super) fn value<'a>(fields: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    Some(word(fields, find_key(fields, key)?))
}

fn word(fields: &[u8], start: usize) -> &[u8] {
    let rest = &fields[start..];
    &rest[..rest.iter().position(|&b| b == b' ' || b == b',').unwrap_or(rest.len())]
}

/// Behind the first `key=`.
fn find_key(fields: &[u8], key: &[u8]) -> Option<usize> {
    let mut from = 0;
    while from + key.len() < fields.len() {
        let at = from
            + fields[from..].windows(key.len() + 1).position(|w| w[key.len()] == b'=' && &w[..key.len()] == key)?;
        if at == 0 || fields[at - 1] == b' ' {
            return Some(at + key.len() + 1);
        }
        from = at + 1;
    }
    None
}

/// Behind the last.
fn rfind_key(fields: &[u8], key: &[u8]) -> Option<usize> {
    let is_key = |&at: &usize| fields[at..].starts_with(key) && fields.get(at + key.len()) == Some(&b'=');
    let at = (0..fields.len()).rev().find(|at| is_key(at) && (*at == 0 || fields[at - 1] == b' '))?;
    Some(at + key.len() + 1)
}

#[cfg(test)]
mod tests {
    use super::super::kinds;
    use super::*;

    fn check(event: &str, fields: &str, ints: &[i64], names: [&str; 2]) {
        let row = kinds::find(event.as_bytes()).unwrap();
        let (found, strs) = by_key(row, fields.as_bytes()).unwrap_or_else(|| panic!("{fields}"));
        assert_eq!(&found[..ints.len()], ints, "{fields}");
        assert_eq!(strs, names.map(str::as_bytes), "{fields}");
    }

    #[test]
    fn names_that_look_like_fields() {
        let hostile =
            ["x pid=7 prio=3", "pid=9", " pid=1 pid=2", "a success=0", "a target_cpu=1", "x next_pid=4", "a=b ==> c"];
        for comm in hostile {
            for event in ["sched_waking", "sched_wakeup", "sched_wakeup_new"] {
                check(event, &format!("comm={comm} pid=40 prio=120 target_cpu=002"), &[40, 120, 2, 1], [comm, ""]);
            }
            check(
                "sched_wakeup",
                &format!("comm={comm} pid=40 prio=120 success=0 target_cpu=002"),
                &[40, 120, 2, 0],
                [comm, ""],
            );
            let migrate = format!("comm={comm} pid=40 prio=120 orig_cpu=3 dest_cpu=5");
            check("sched_migrate_task", &migrate, &[40, 120, 3, 5], [comm, ""]);
            check(
                "sched_process_exit",
                &format!("comm={comm} pid=40 prio=120 group_dead=true"),
                &[40, 120],
                [comm, ""],
            );
            let fork = format!("comm={comm} pid=40 child_comm={comm} child_pid=41");
            check("sched_process_fork", &fork, &[40, 41], [comm, comm]);
        }
        for comm in hostile.into_iter().chain(["x prev_pid=6", "x prev_state=D", "x next_comm=y", "prev_prio=1"]) {
            let switch = format!(
                "prev_comm={comm} prev_pid=40 prev_prio=120 prev_state=S ==> next_comm={comm} next_pid=41 next_prio=99"
            );
            let ints = [40, 120, letter_bits(b"S"), 41, 99];
            check("sched_switch", &switch, &ints, [comm, comm]);
            check("sched_switch", &switch.replace("S ==> next_comm", "S next_comm"), &ints, [comm, comm]);
        }
        for comm in hostile {
            let wake = format!("comm={comm} pid=40 wu_lat_ns=57 missed=true");
            check("wattif_timer_wake", &wake, &[40, 57, 1], ["", ""]);
        }
        // The number stands first.
        let fields = "pid=40 comm=x pid=7 clone_flags=3d0f00 oom_score_adj=0";
        check("sched_process_exec", "filename=/bin/x pid=7 pid=40 old_pid=41", &[40, 41], ["", ""]);
        assert_eq!(by_key(kinds::find(b"task_newtask").unwrap(), fields.as_bytes()).map(|f| f.0[0]), Some(40));
    }
}
