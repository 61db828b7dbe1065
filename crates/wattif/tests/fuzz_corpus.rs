//! Specs of runs as hostile files: the corpus of the fuzz target `run_spec`, and each of its specs damaged at every place, one at a time.

use serde_json::{Value, json};
use std::fs;
use std::path::Path;

#[path = "../../../fuzz/specs.rs"]
mod specs;

fn corpus() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/run_spec");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

#[test]
fn what_fuzzing_came_across() {
    let ran = corpus().iter().filter(|bytes| specs::run(bytes)).count();
    assert!(ran >= 2, "{ran} ran");
}

/// Pointers to every value below `value`.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    let mut go = |key: String, inner: &Value| {
        let at = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
        found.push(at.clone());
        places(inner, &at, found);
    };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, inner)| go(key.clone(), inner)),
        Value::Array(items) => items.iter().enumerate().for_each(|(i, inner)| go(i.to_string(), inner)),
        _ => {}
    }
}

/// What may stand in the place of a value.
fn instead(value: &Value) -> Vec<Value> {
    match value {
        Value::Number(_) => vec![json!(0), json!(1), json!(255), json!(u32::MAX), json!(u64::MAX)],
        Value::Bool(b) => vec![json!(!b)],
        Value::String(_) => vec![json!(""), json!("no such")],
        Value::Array(items) => {
            let twice: Vec<&Value> = items.iter().chain(items).collect();
            vec![json!([]), json!(twice)]
        }
        Value::Object(_) => vec![json!({})],
        Value::Null => vec![json!(0)],
    }
}

/// Where a spec can still contradict itself in ways that nobody refuses: CPUs against the clusters, domains and cores that name
/// them, clocks and powers beyond all bounds, groups and budgets that the files' readers would refuse. May shrink.
const NOT_REFUSED: [&str; 6] =
    ["/platform/cpus", "/platform/domains", "/platform/clusters", "/workload/groups", "attr/runtime", "attr/deadline"];

#[test]
fn no_damage_panics() {
    for bytes in corpus() {
        let whole: Value = serde_json::from_slice(&bytes).unwrap();
        let mut all = Vec::new();
        places(&whole, "", &mut all);
        for place in all.into_iter().filter(|place| !NOT_REFUSED.iter().any(|known| place.contains(known))) {
            for other in instead(whole.pointer(&place).unwrap()) {
                let mut damaged = whole.clone();
                *damaged.pointer_mut(&place).unwrap() = other.clone();
                let text = damaged.to_string();
                let done = std::panic::catch_unwind(|| specs::run(text.as_bytes()));
                assert!(done.is_ok(), "{place} = {other}");
            }
        }
    }
}
