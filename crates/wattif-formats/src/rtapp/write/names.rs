//! Names of tasks.

use crate::words::quoted;
use std::borrow::Cow;
use std::collections::BTreeSet;
use wattif_model::workload::{TaskSpec, Workload};

/// Task names are keys: each once, and no longer than the kernel's names with an index behind them.
pub(super) fn names(workload: &Workload) -> Vec<String> {
    let mut used = BTreeSet::new();
    let unique = |t: &TaskSpec| {
        let base: String = t.name.chars().map(|c| if c.is_control() || c == '/' { '_' } else { c }).take(11).collect();
        let mut name = base.clone();
        let mut n = 1;
        while !used.insert(name.clone()) {
            n += 1;
            name = format!("{base}_{n}");
        }
        name
    };
    workload.tasks.iter().map(unique).collect()
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
