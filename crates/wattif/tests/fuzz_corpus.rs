//! Specs of runs as hostile files: the corpus of the fuzz target `run_spec`, and each of its specs damaged: at every
//! place, one at a time, and at pairs of places.

use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use wattif_sim::registry::{POLICIES, Policy, Tunable};

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
    assert!(ran >= 4, "{ran} ran");
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
        Value::Number(n) => {
            let extremes = [json!(0), json!(1), json!(255), json!(u32::MAX), json!(i64::MAX), json!(u64::MAX)];
            let next = n.as_u64().and_then(|n| n.checked_add(1)).map(|n| json!(n));
            let last = n.as_i64().and_then(|n| n.checked_sub(1)).map(|n| json!(n));
            extremes.into_iter().chain(next).chain(last).collect()
        }
        Value::Bool(b) => vec![json!(!b)],
        Value::String(_) => vec![json!(""), json!("no such")],
        Value::Array(items) => {
            let twice: Vec<&Value> = items.iter().chain(items).collect();
            let mut all = vec![json!([]), json!(twice)];
            if let [first, inner @ .., last] = &items[..] {
                let swapped: Vec<&Value> = [last].into_iter().chain(inner).chain([first]).collect();
                all.extend([json!(items[..items.len() - 1]), json!(swapped)]);
            }
            all
        }
        Value::Object(_) => vec![json!({})],
        Value::Null => vec![json!(0)],
    }
}

/// One thing put in the place of another.
type Damage = (String, Value);

/// Everything that can be done to `whole`.
fn damages(whole: &Value) -> Vec<Damage> {
    let mut all = Vec::new();
    places(whole, "", &mut all);
    let of =
        |place: String| instead(whole.pointer(&place).unwrap()).into_iter().map(move |other| (place.clone(), other));
    all.into_iter().flat_map(of).collect()
}

fn panics(spec: &Value) -> bool {
    let text = spec.to_string();
    std::panic::catch_unwind(|| specs::run(text.as_bytes())).is_err()
}

/// What was put where, one behind the other.
fn said<'a>(set: impl Iterator<Item = (&'a String, &'a Value)>) -> String {
    set.map(|(place, value)| format!("{place} = {value}")).collect::<Vec<_>>().join(", ")
}

/// The damages, where `whole` with them panics. A place that the first takes away, the second cannot damage.
fn breaks(whole: &Value, damages: &[&Damage]) -> Option<String> {
    let mut damaged = whole.clone();
    for (place, other) in damages {
        if let Some(value) = damaged.pointer_mut(place) {
            *value = other.clone();
        }
    }
    panics(&damaged).then(|| said(damages.iter().map(|(place, other)| (place, other))))
}

/// Knuth's MMIX; its upper bits are the random ones.
fn next(random: &mut u64) -> usize {
    *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*random >> 33) as usize
}

/// Of the millions of damages at two places of a spec, so many are tried.
const PAIRS: usize = 1500;

#[test]
fn no_damage_panics() {
    let mut random = 1_u64;
    let mut found: Vec<String> = Vec::new();
    for bytes in corpus() {
        let whole: Value = serde_json::from_slice(&bytes).unwrap();
        let all = damages(&whole);
        found.extend(all.iter().filter_map(|one| breaks(&whole, &[one])));
        let mut any = || &all[next(&mut random) % all.len()];
        found.extend((0..PAIRS).filter_map(|_| breaks(&whole, &[any(), any()])));
    }
    assert!(found.is_empty(), "{} damages panic:\n{}", found.len(), found.join("\n"));
}

/// What a tunable may be set to: what it allows, what lies beside that, and what no tunable takes.
fn settings(tunable: &Tunable) -> Vec<Value> {
    let ends = |allowed: &&str| {
        let (lo, hi) = allowed.split_once("..=")?;
        Some([lo.parse::<i64>().ok()?, hi.parse::<i64>().ok()?])
    };
    let words = tunable.allowed.iter().chain([&tunable.default, &"", &"no such", &"-1", &"99999999999999999999"]);
    let beside = tunable.allowed.iter().filter_map(ends).flatten().flat_map(|end| [end - 1, end, end + 1]);
    let numbers = [0, 1, 255, 1_000_000_000_000, i64::MAX, i64::MIN];
    words.map(|word| json!(word)).chain(beside.chain(numbers).map(|n| json!(n))).collect()
}

/// Of the pairs of tunables of a kernel, so many are set at once.
const SETTINGS: usize = 3000;

#[test]
fn no_tunable_panics() {
    let mut random = 1_u64;
    let mut found: Vec<String> = Vec::new();
    for bytes in corpus() {
        let whole: Value = serde_json::from_slice(&bytes).unwrap();
        let mut all: Vec<(&Policy, String, Value)> = Vec::new();
        for policy in POLICIES {
            for tunable in policy.tunables {
                let path = format!("{}.{}", policy.name, tunable.name);
                all.extend(settings(tunable).into_iter().map(|value| (policy, path.clone(), value)));
            }
        }
        let mut try_out = |set: &[&(&Policy, String, Value)]| {
            let mut spec = whole.clone();
            for (policy, path, value) in set {
                if policy.selectable {
                    spec["kernel"]["policies"][policy.slot.name()] = json!(policy.name);
                }
                spec["kernel"]["tunables"][path] = value.clone();
            }
            if panics(&spec) {
                found.push(said(set.iter().map(|(_, path, value)| (path, value))));
            }
        };
        all.iter().for_each(|one| try_out(&[one]));
        for _ in 0..SETTINGS {
            let (first, second) = (next(&mut random) % all.len(), next(&mut random) % all.len());
            try_out(&[&all[first], &all[second]]);
        }
    }
    assert!(found.is_empty(), "{} settings panic:\n{}", found.len(), found.join("\n"));
}
