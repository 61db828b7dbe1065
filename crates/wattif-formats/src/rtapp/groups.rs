//! `groups`: limits and weights of the task groups, by the file names of a cpu cgroup. Not part of rt-app's grammar: rt-app
//! ignores the key, and such files are then to be written by hand.
//!
//! ```json
//! "groups": { "/app": { "cpu.weight": 300 }, "/app/helper": { "cpu.max": "20000 100000", "cpu.idle": 1 } }
//! ```

use super::json::{Json, Member, Span};
use super::lints::Report;
use super::values;
use crate::cgroup;
use crate::words::quoted;
use wattif_model::workload::GroupSpec;

/// Applies the groups of a file; those that no task names come to be all the same.
pub(super) fn read(members: &[Member], groups: &mut Vec<GroupSpec>, report: &mut Report) {
    for m in members {
        match cgroup::add(groups, &m.name) {
            Ok(at) => {
                let group = &mut groups[at as usize];
                files(group, values::object(&m.name, &m.value, report), report);
                if let Err(why) = cgroup::check(group) {
                    refuse(&m.value.span, why, report);
                }
            }
            Err(why) => refuse(&m.name_span, why, report),
        }
    }
}

fn refuse(span: &Span, why: String, report: &mut Report) {
    report
        .error("rtapp::E14", span.clone(), why)
        .help("rt-app ignores `groups`; a cgroup holds what the kernel allows");
}

fn files(group: &mut GroupSpec, members: &[Member], report: &mut Report) {
    for m in members {
        let text = match &m.value.value {
            Json::Number(text) | Json::Text(text) => text.as_str(),
            Json::Bool(true) => "1",
            Json::Bool(false) => "0",
            other => {
                let message =
                    format!("{} must be a number or a string as in the file, not {}", quoted(&m.name), other.kind());
                report.error("rtapp::E04", m.value.span.clone(), message);
                continue;
            }
        };
        if let Err(why) = cgroup::set(group, &m.name, text) {
            let span = if cgroup::FILES.contains(&m.name.as_str()) { &m.value.span } else { &m.name_span };
            refuse(span, why, report);
        }
    }
}
