//! Can two runs be compared? Only when they differ in nothing but the kernel.

use serde_json::Value;
use wattif_model::run::RunSpec;

/// Every place, outside the kernel, in which two runs differ: `platform.hz: 250 and 1000`.
pub fn unlike(a: &RunSpec, b: &RunSpec) -> Vec<String> {
    let json = |spec: &RunSpec| serde_json::to_value(spec).expect("specs are string-keyed");
    let (mut a, mut b) = (json(a), json(b));
    for spec in [&mut a, &mut b] {
        spec.as_object_mut().and_then(|fields| fields.remove("kernel"));
    }
    let mut found = Vec::new();
    walk("", &a, &b, &mut found);
    found.sort_by_key(|d| d.split(": ").next().map_or(0, |path| path.matches(['.', '[']).count())); // names before details
    found
}

fn walk(path: &str, a: &Value, b: &Value, found: &mut Vec<String>) {
    let deeper = |key: &str| if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
    match (a, b) {
        (Value::Object(x), Value::Object(y)) => {
            for (key, value) in x {
                walk(&deeper(key), value, y.get(key).unwrap_or(&Value::Null), found);
            }
            y.iter()
                .filter(|(key, _)| !x.contains_key(*key))
                .for_each(|(key, v)| walk(&deeper(key), &Value::Null, v, found));
        }
        (Value::Array(x), Value::Array(y)) if x.len() == y.len() => {
            x.iter().zip(y).enumerate().for_each(|(i, (a, b))| walk(&format!("{path}[{i}]"), a, b, found));
        }
        (Value::Array(x), Value::Array(y)) => found.push(format!("{path}: {} and {} of them", x.len(), y.len())),
        _ if a != b => found.push(format!("{path}: {} and {}", short(a), short(b))),
        _ => {}
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() > 60 { text.chars().take(57).chain("…".chars()).collect() } else { text }
}
