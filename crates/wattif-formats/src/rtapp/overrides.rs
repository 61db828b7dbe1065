//! Overrides: `tasks.idle_thread.instance=0` patches the tree before it is interpreted.
//!
//! A path names members from the root, separated by dots; `*` stands for all members of an object. The last name may
//! be new when it is a word of the grammar at that place; everything before it must exist. The files of a group have dots
//! in their names: `groups./app.cpu.weight=300`.

use super::json::{Json, Member, Node, Span, parse_value};
use super::keys;
use super::lints::Report;
use crate::cgroup;
use crate::words::{nearest, quoted};

/// Apply `path = value`; an error when no value was changed. What is new stands at `span`.
pub(super) fn apply(root: &mut Node, path: &str, value: &str, span: &Span, report: &mut Report) {
    let value = parse_value(value, span.clone());
    let names = names(path);
    match names[..] {
        ["global", ..] => ensure(root, &["global"]),
        // A group comes to be by being named.
        ["groups", group, _] if group != "*" => ensure(root, &["groups", group]),
        _ => {}
    }
    let mut failed = None;
    let changed = set(root, &names, Place::Root, &value, &mut failed);
    if changed > 0 {
        return;
    }
    let (at, near) = failed.unwrap_or_default();
    let message = format!("override {}: nothing is called {} there", quoted(path), quoted(&at));
    report.error("rtapp::E15", 0..0, message).help(match near.is_empty() {
        true => "nothing can be set there".to_string(),
        false => format!("there are {near}"),
    });
}

/// Where in the grammar an object stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    Global,
    Tasks,
    Task,
    Phases,
    Phase,
    Groups,
    Group,
    Other,
}

impl Place {
    fn below(self, name: &str) -> Place {
        match (self, name) {
            (Place::Root, "tasks") => Place::Tasks,
            (Place::Root, "global") => Place::Global,
            (Place::Root, "groups") => Place::Groups,
            (Place::Groups, _) => Place::Group,
            (Place::Tasks, _) => Place::Task,
            (Place::Task, "phases") => Place::Phases,
            (Place::Phases, _) => Place::Phase,
            _ => Place::Other,
        }
    }
    fn allows(self, name: &str) -> bool {
        match self {
            Place::Global => keys::GLOBAL.contains(&name),
            Place::Task => keys::TASK.contains(&name) || keys::SCHED.contains(&name) || keys::event(name).is_some(),
            Place::Phase => keys::PHASE.contains(&name) || keys::SCHED.contains(&name) || keys::event(name).is_some(),
            Place::Group => cgroup::FILES.contains(&name),
            _ => false,
        }
    }
}

/// The names of a path. Those of groups and of their files have dots in them.
fn names(path: &str) -> Vec<&str> {
    if let Some(rest) = path.strip_prefix("groups.")
        && let Some(dot) = rest.find(".cpu.")
    {
        return vec!["groups", &rest[..dot], &rest[dot + 1..]];
    }
    path.split('.').collect()
}

/// Makes the objects of a path where they do not exist.
fn ensure(node: &mut Node, names: &[&str]) {
    let (Json::Object(members), [name, rest @ ..]) = (&mut node.value, names) else { return };
    if !members.iter().any(|m| m.name == *name) {
        let value = Node { span: 0..0, value: Json::Object(vec![]) };
        members.push(Member { name: name.to_string(), name_span: 0..0, value });
    }
    members.iter_mut().filter(|m| m.name == *name).for_each(|m| ensure(&mut m.value, rest));
}

/// How many values were set; the first name that was not found, with its neighbours, goes to `failed`.
fn set(node: &mut Node, names: &[&str], place: Place, value: &Node, failed: &mut Option<(String, String)>) -> usize {
    let (name, rest) = (names[0], &names[1..]);
    match &mut node.value {
        Json::Object(members) if rest.is_empty() => set_member(members, name, place, value, failed),
        Json::Object(members) => {
            let matching = members.iter_mut().filter(|m| name == "*" || m.name == name);
            let changed: Vec<usize> =
                matching.map(|m| set(&mut m.value, rest, place.below(&m.name), value, failed)).collect();
            if changed.is_empty() {
                fail(failed, name, members.iter().map(|m| m.name.as_str()));
            }
            changed.iter().sum()
        }
        Json::Array(items) => match name.parse::<usize>().ok().and_then(|i| items.get_mut(i)) {
            Some(item) if rest.is_empty() => {
                *item = value.clone();
                1
            }
            Some(item) => set(item, rest, Place::Other, value, failed),
            None => {
                fail(failed, name, std::iter::empty());
                0
            }
        },
        _ => {
            fail(failed, name, std::iter::empty());
            0
        }
    }
}

fn set_member(
    members: &mut Vec<Member>,
    name: &str,
    place: Place,
    value: &Node,
    failed: &mut Option<(String, String)>,
) -> usize {
    let mut changed = 0;
    for m in members.iter_mut().filter(|m| name == "*" || m.name == name) {
        m.value = value.clone();
        changed += 1;
    }
    if changed == 0 && place.allows(name) {
        members.push(Member { name: name.into(), name_span: value.span.clone(), value: value.clone() });
        changed = 1;
    }
    if changed == 0 {
        fail(failed, name, members.iter().map(|m| m.name.as_str()));
    }
    changed
}

fn fail<'a>(failed: &mut Option<(String, String)>, name: &str, present: impl Iterator<Item = &'a str> + Clone) {
    if failed.is_none() {
        let near = match nearest(name, present.clone()) {
            Some(near) => quoted(near),
            None => present.take(8).map(quoted).collect::<Vec<_>>().join(", "),
        };
        *failed = Some((name.into(), near));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, value: &str, expect: Result<&str, &str>) {
        let text =
            r#"{"tasks": {"idle_thread": {"instance": 5, "run": 1}, "b": {"phases": {"p": {"run": 2}}, "cpus": [1]}}}"#;
        let mut report = Report::default();
        let mut root = super::super::json::parse(text, super::super::json::Reader::Workgen, &mut report).unwrap();
        apply(&mut root, path, value, &(0..0), &mut report);
        match expect {
            Ok(piece) => assert!(format!("{root:?}").contains(piece), "{root:?}"),
            Err(help) => assert_eq!(report.into_diagnostics()[0].help.as_deref(), Some(help)),
        }
    }

    #[test]
    fn paths() {
        check("tasks.idle_thread.instance", "0", Ok(r#"Number("0")"#));
        check("tasks.b.phases.p.run", "77", Ok(r#"Number("77")"#));
        check("tasks.b.cpus.0", "3", Ok(r#"Number("3")"#));
        check("tasks.idle_thread.policy", "SCHED_OTHER", Ok(r#"Text("SCHED_OTHER")"#));
        check("tasks.*.loop", "9", Ok(r#"Number("9")"#));
        check("global.duration", "2", Ok(r#"Number("2")"#));
        check("groups./a.b/c.cpu.max.burst", "5", Ok(r#"Member { name: "cpu.max.burst""#));
        check("groups./a.cpu.wieght", "5", Err("nothing can be set there"));
        check("tasks.idle_thred.instance", "0", Err("there are `idle_thread`"));
        check("tasks.b.phases.q.run", "0", Err("there are `p`"));
        check("tasks.b.frag", "0", Err("there are `phases`, `cpus`"));
        check("tasks.b.cpus.x.y", "0", Err("nothing can be set there"));
        check("", "0", Err("there are `tasks`"));
    }
}
