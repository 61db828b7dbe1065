//! Names of tasks.

use crate::words::quoted;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::workload::{Op, TaskSpec, Workload};

/// The kernel's longest name of a thread, bytes.
const COMM: usize = 15;
/// Room for `-999` is left behind every name.
const LONGEST: usize = 11;

/// Task names are keys: each once, and short enough that those of its threads are names to the kernel: with an index of all threads so
/// far behind them, and where they are forked, a number too.
pub(super) fn names(workload: &Workload) -> Vec<String> {
    let (mut used, mut before) = (BTreeMap::new(), 0);
    let forked = forked(workload);
    let threads: u64 = workload.tasks.iter().map(|t| u64::from(t.instances)).sum();
    let one = |(task, at): (&TaskSpec, u32)| {
        before += u64::from(task.instances);
        let behind = match forked.contains(&at) {
            true => format!("-{threads}-0000"),
            false => format!("-{}", before.saturating_sub(1)),
        };
        unique(&task.name, COMM.saturating_sub(behind.len()).min(LONGEST), &mut used)
    };
    workload.tasks.iter().zip(0..).map(one).collect()
}

fn forked(workload: &Workload) -> BTreeSet<u32> {
    let of = |op: &Op| if let Op::Fork(task) = op { Some(*task) } else { None };
    workload.tasks.iter().flat_map(|t| &t.program.ops).filter_map(of).collect()
}

/// The beginning of a name, with a number where it is taken, of up to `longest` bytes.
fn unique(name: &str, longest: usize, used: &mut BTreeMap<String, u32>) -> String {
    let clean: String = name.chars().map(|c| if c.is_control() || c == '/' { '_' } else { c }).collect();
    let cut = |room: usize| &clean[..clean.floor_char_boundary(room)];
    let first = cut(longest).to_string();
    // How often it was asked for, so that thousands of one name are not each counted from the beginning.
    let mut n = *used.entry(first.clone()).and_modify(|n| *n += 1).or_insert(1);
    let mut unique = first.clone();
    while n > 1 && used.contains_key(&unique) {
        let number = format!("_{n}");
        unique = format!("{}{number}", cut(longest.saturating_sub(number.len())));
        n += 1;
    }
    used.entry(unique.clone()).or_insert(1);
    unique
}

/// The tasks that are called something else in the file.
pub(super) fn renamed(tasks: &[TaskSpec], names: &[String]) -> Option<Cow<'static, str>> {
    const SHOWN: usize = 5;
    let changed: Vec<_> = tasks.iter().zip(names).filter(|(task, name)| task.name != **name).collect();
    let one = |(task, name): &(&TaskSpec, &String)| format!("{} is {}", quoted(&task.name), quoted(name));
    let mut shown = changed.iter().take(SHOWN).map(one).collect::<Vec<_>>().join(", ");
    if changed.len() > SHOWN {
        shown += &format!(", and {} more", changed.len() - SHOWN);
    }
    let why = "task names are keys and, with an index, names of threads of up to 15 characters";
    (!changed.is_empty()).then(|| format!("{why}: {shown}").into())
}
