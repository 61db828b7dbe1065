//! FIDELITY.md and the code tell the same story: every `FIDELITY(id)` has a row, every row a place.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/wattif lies two folders down").to_path_buf()
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for path in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs" || e == "toml") {
            found.push(path);
        }
    }
}

/// Ids named in a text as `FIDELITY(id)`.
fn ids(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split("FIDELITY(").skip(1).filter_map(|rest| rest.split_once(')')).map(|(id, _)| id.to_string())
}

/// Ids named in the sources of the crates, and in platforms and kernels.
fn in_code() -> BTreeSet<String> {
    let mut files = Vec::new();
    for krate in ["wattif-model", "wattif-sim", "wattif-formats", "wattif-lab", "wattif"] {
        sources(&root().join("crates").join(krate).join("src"), &mut files);
    }
    for data in ["platforms", "kernels"] {
        sources(&root().join(data), &mut files);
    }
    files.iter().flat_map(|f| ids(&fs::read_to_string(f).unwrap()).collect::<Vec<_>>()).collect()
}

/// The rows below "Known differences": id, what, why.
fn rows() -> Vec<[String; 3]> {
    let text = fs::read_to_string(root().join("FIDELITY.md")).unwrap();
    let (_, table) = text.split_once("## Known differences").expect("the section is there");
    let cells = |line: &str| -> Vec<String> {
        line.trim().trim_matches('|').split('|').map(|cell| cell.trim().to_string()).collect()
    };
    let body = table.lines().filter(|l| l.starts_with("| `"));
    body.map(|l| cells(l).try_into().unwrap_or_else(|c| panic!("three cells: {c:?}"))).collect()
}

#[test]
fn every_difference_has_a_row_and_every_row_a_place() {
    let table: BTreeSet<String> = rows().iter().map(|[id, ..]| id.trim_matches('`').to_string()).collect();
    let code = in_code();
    assert!(code.len() > 10, "the sources were found");
    let without_row: Vec<_> = code.difference(&table).collect();
    assert!(without_row.is_empty(), "no row in FIDELITY.md: {without_row:?}");
    let without_place: Vec<_> = table.difference(&code).collect();
    assert!(without_place.is_empty(), "no FIDELITY(id) in the code: {without_place:?}");
}

#[test]
fn rows_are_sorted_unique_and_complete() {
    let rows = rows();
    let ids: Vec<&String> = rows.iter().map(|[id, ..]| id).collect();
    let mut sorted = ids.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!(ids, sorted);
    for [id, what, why] in &rows {
        assert!(what.len() > 20 && why.len() > 20, "{id} says too little");
    }
}

/// The sections "Differences from the kernel" of the manuals say that there are none, or name the row.
#[test]
fn manuals_name_the_rows_of_their_differences() {
    let none = ["None known", "Bit-exact", "No kernel has it"];
    for policy in wattif_sim::registry::POLICIES {
        let manual = policy.manual();
        let (_, section) = manual.split_once("# Differences from the kernel\n").expect(policy.name);
        let section = section.split("\n# ").next().expect("there is a first part");
        let named = ids(section).next().is_some() || none.iter().any(|n| section.trim_start().starts_with(n));
        assert!(named, "{}: no FIDELITY(id) in {section}", policy.name);
    }
}
