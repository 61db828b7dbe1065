//! What scripts rely on: `--json` prints one object with the fields of the contract, whatever is said on stderr.

use serde_json::{Value, json};
use std::io::Write;
use std::process::{Command, Output, Stdio};

fn wattif(args: &[&str], stdin: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wattif"));
    command.args(args).env("NO_COLOR", "1");
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    child.wait_with_output().unwrap()
}

/// The one object on stdout.
fn object(args: &[&str], stdin: &str) -> Value {
    let o = wattif(args, stdin);
    assert!(matches!(o.status.code(), Some(0 | 1)), "{args:?}: {}", String::from_utf8_lossy(&o.stderr));
    let value: Value = serde_json::from_slice(&o.stdout).expect("exactly one JSON value");
    assert!(value.is_object());
    value
}

/// Every field of `shape` is in `value`, with a value of its kind: `0` stands for a number, `""` for a text, an array for an
/// array of such elements (one at least), `{}` for any object; `null` for a number, object or null.
fn check(value: &Value, shape: &Value, path: &str) {
    let ok = match shape {
        Value::Null => value.is_null() || value.is_number() || value.is_object() || value.is_array(),
        Value::Bool(_) => value.is_boolean(),
        Value::Number(_) => value.is_number(),
        Value::String(_) => value.is_string(),
        Value::Array(_) => value.as_array().is_some_and(|a| !a.is_empty()),
        Value::Object(_) => value.is_object(),
    };
    assert!(ok, "{path} is {value}, expected something like {shape}");
    match shape {
        Value::Array(items) => {
            let elements = value.as_array().unwrap();
            elements.iter().enumerate().for_each(|(i, e)| check(e, &items[0], &format!("{path}[{i}]")));
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                let found = value.get(name).unwrap_or_else(|| panic!("{path}.{name} is missing"));
                check(found, field, &format!("{path}.{name}"));
            }
        }
        _ => {}
    }
}

/// Frames are of models; a thread and a lock that is never given give the other fields something to say.
const WORKLOAD: &str = r#"{ "tasks": {
    "a": { "instance": 2, "run": 1000, "timer": { "ref": "unique", "period": 4000 } },
    "first": { "loop": 1, "lock": "m", "run": 100, "lock2": "n" }, "odd": { "loop": 1, "logstats": 1, "run": 10 } } }"#;

fn distribution() -> Value {
    let names = ["count", "min", "max", "sum", "mean", "stddev", "p50", "p90", "p95", "p99", "p999"];
    Value::Object(names.iter().map(|n| (n.to_string(), json!(null))).collect())
}

#[test]
fn run() {
    let args = ["run", "-", "-p", "hikey620", "-k", "linux-5.6", "--duration", "200ms", "--seed", "7", "--json"];
    let found = object(&[&args[..], &["--set", "schedutil.rate_limit_us=1000"]].concat(), WORKLOAD);
    let shape = json!({
        "schema": "wattif.run/1", "version": "", "digest": "", "wall_s": 0, "events": 0, "slices": 0,
        "spec": { "platform": "", "kernel": "", "workload": "", "seed": 0, "duration_s": 0, "set": {}, "hash": "",
                  "content": { "platform": {}, "workload": {}, "kernel": {}, "seed": 0, "duration": 0 } },
        "metrics": { "wakeup_latency_us": distribution(), "wu_lat_us": distribution(),
                     "energy": { "unit": "", "total": 0, "cpus": [0], "clusters": [0], "base": 0 }, "power_mean": 0,
                     "idle_accuracy": { "correct_pct": 0, "above_pct": 0, "below_pct": 0 }, "frames": {}, "throughput": {} },
        "tasks": [{ "name": "", "pid": 0, "policy": "", "runtime_s": 0, "cpu_share": 0, "activations": 0, "wakeup_latency_us": null }],
        "cpus": [{ "cpu": 0, "busy_s": 0, "energy": 0,
                   "idle": [{ "state": 0, "name": "", "residency_s": 0, "usage": 0, "above": 0, "below": 0 }] }],
        "domains": [{ "freq_residency": [{ "khz": 0, "s": 0 }], "transitions": 0 }],
        "notes": [{ "file": "", "line": 0, "column": 0, "code": "", "message": "" }], "trust": [""]
    });
    check(&found, &shape, "run");
    assert_eq!(found["schema"], "wattif.run/1");
    assert_eq!((&found["spec"]["seed"], &found["spec"]["duration_s"]), (&json!(7), &json!(0.2)));
    assert_eq!(found["spec"]["set"], json!({ "schedutil.rate_limit_us": "1000" }));
    assert!(!found["domains"][0]["cpus"].is_null());
    assert_eq!(found["deadlock"], json!([]));
    assert_eq!((found["cpus"].as_array().unwrap().len(), found["domains"].as_array().unwrap().len()), (8, 1));
    let whole = &found["metrics"]["wu_lat_us"]["count"];
    assert_eq!(whole, &json!(98), "two threads, 49 expiries each; the others use no timer");
    let again = object(&[&args[..], &["--set", "schedutil.rate_limit_us=1000"]].concat(), WORKLOAD);
    assert_eq!((&again["digest"], &again["spec"]), (&found["digest"], &found["spec"]));
}

#[test]
fn frames_and_throughput_of_a_model() {
    let found = object(&["run", "server", "-p", "hikey620", "-k", "linux-5.6", "--duration", "200ms", "--json"], "");
    let some = |name: &str| found["metrics"][name].as_object().unwrap().values().next().cloned().unwrap_or_default();
    check(&some("frames"), &json!({ "duration_us": distribution() }), "frames");
    check(&some("throughput"), &json!({ "count": 0, "per_s": 0 }), "throughput");
}

/// Two threads take two locks in opposite order.
const CROSSED: &str = r#"{ "tasks": {
    "a": { "loop": 1, "lock": "m", "run": 100, "sleep": 1000, "lock2": "n", "unlock": "n", "unlock2": "m" },
    "b": { "loop": 1, "lock": "n", "run": 100, "sleep": 1000, "lock2": "m", "unlock": "m", "unlock2": "n" } } }"#;

#[test]
fn a_deadlock_is_told_and_is_no_failure() {
    let args = ["run", "-", "-p", "hikey620", "-k", "linux-6.12", "--duration", "50ms"];
    let o = wattif(&args, CROSSED);
    let (out, err) = (String::from_utf8_lossy(&o.stdout), String::from_utf8_lossy(&o.stderr));
    assert_eq!(o.status.code(), Some(0), "{err}");
    for text in [&out, &err] {
        assert!(text.contains("a-0 waits for mutex `n`, held by b-1"), "{text}");
        assert!(text.contains("b-1 waits for mutex `m`, held by a-0"), "{text}");
    }
    assert!(err.contains("warning: 2 threads are blocked for ever"), "{err}");
    let found = object(&[&args[..], &["--json"]].concat(), CROSSED);
    let expect = json!([
        { "thread": "a-0", "waits_for": "mutex `n`", "held_by": ["b-1"], "given_by": [] },
        { "thread": "b-1", "waits_for": "mutex `m`", "held_by": ["a-0"], "given_by": [] }
    ]);
    assert_eq!(found["deadlock"], expect);
    let one = r#"{ "tasks": { "w": { "sem_wait": "s", "run": 1 }, "busy": { "run": 100, "sleep": 100, "loop": 3 } } }"#;
    let found = object(&[&args[..], &["--json"]].concat(), one);
    let lone = json!([{ "thread": "w-0", "waits_for": "semaphore `s`", "held_by": [], "given_by": [] }]);
    assert_eq!(found["deadlock"], lone);
    // Of what has no holder, who could still give it.
    let crossed = r#"{ "tasks": {
        "a": { "loop": 3, "sem_wait": "x", "run": 10, "sem_post": "y" },
        "b": { "loop": 1, "sem_wait": "y", "run": 10, "barrier": "p", "sem_post": "x" },
        "c": { "loop": 1, "suspend": "", "run": 10, "resume": "c" }, "d": { "loop": 1, "barrier": "p", "resume": "c" } } }"#;
    let found = object(&[&args[..], &["--json"]].concat(), crossed);
    let givers: Vec<_> = found["deadlock"].as_array().unwrap().iter().map(|b| b["given_by"].clone()).collect();
    assert_eq!(givers, [json!(["b-1"]), json!(["a-0"]), json!(["c-2", "d-3"]), json!(["b-1"])]);
    let text = String::from_utf8_lossy(&wattif(&args, crossed).stdout).into_owned();
    for line in [
        "a-0 waits for semaphore `x`, which would be posted by b-1",
        "c-2 waits for condition `c`, which would be signalled by c-2, d-3",
        "d-3 waits for barrier `p`, which would be reached by b-1",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

/// Once for each kernel, and for each point of a sweep; nothing where nobody waits.
#[test]
fn a_deadlock_is_told_of_kernels_and_points() {
    let store = tempfile::tempdir().unwrap();
    let path = |name: &str| store.path().join(name).to_str().unwrap().to_string();
    std::fs::write(path("crossed.json"), CROSSED).unwrap();
    let (file, runs) = (path("crossed.json"), path("s.sqlite"));
    let on = ["-p", "hikey620", "--duration", "50ms", "--seeds", "2"];
    let compare = [&["compare", &file, "-k", "linux-5.3", "-k", "linux-6.12"], &on[..]].concat();
    let sweep = [&["sweep", &file, "--axis", "cpuidle=menu,teo", "--store", &runs], &on[..]].concat();
    for (args, names) in [(&compare, ["linux-5.3", "linux-6.12"]), (&sweep, ["cpuidle=menu", "cpuidle=teo"])] {
        let o = wattif(args, "");
        for text in [&o.stdout, &o.stderr].map(|text| String::from_utf8_lossy(text)) {
            for name in names {
                let told = format!("{name} (2 of 2 seeds): 2 threads are blocked for ever at the end");
                assert_eq!(text.matches(&told).count(), 1, "{told}: {text}");
            }
            assert_eq!(text.matches("a-0 waits for mutex `n`, held by b-1").count(), 2, "{text}");
        }
    }
    let expect = json!({ "runs": 2, "blocked": [
        { "thread": "a-0", "waits_for": "mutex `n`", "held_by": ["b-1"], "given_by": [] },
        { "thread": "b-1", "waits_for": "mutex `m`", "held_by": ["a-0"], "given_by": [] }
    ] });
    let found = object(&[&compare[..], &["--json"]].concat(), "");
    assert_eq!(found["deadlock"], json!([expect, expect]));
    let found = object(&[&sweep[..], &["--json"]].concat(), "");
    assert_eq!([&found["points"][0]["deadlock"], &found["points"][1]["deadlock"]], [&expect, &expect]);
    let kernels = ["compare", "-", "-k", "linux-5.3", "-k", "linux-6.12"];
    let lone = r#"{ "tasks": { "a": { "run": 100, "sleep": 100 } } }"#;
    assert_eq!(object(&[&kernels[..], &on, &["--json"]].concat(), lone)["deadlock"], json!([null, null]));
}

/// Of a workload that ends by itself the time it takes is what is asked for, and runs that were cut off say so.
#[test]
fn work_that_ends_is_timed_and_runs_that_are_cut_are_told() {
    let store = tempfile::tempdir().unwrap();
    let path = |name: &str| store.path().join(name).to_str().unwrap().to_string();
    std::fs::write(path("job.json"), r#"{ "tasks": { "j": { "instance": 9, "loop": 1, "run": 20000 } } }"#).unwrap();
    let (file, runs) = (path("job.json"), path("s.sqlite"));
    let on = ["-p", "hikey620", "--seeds", "2"];
    let kernels = ["compare", &file, "-k", "linux-5.3", "-k", "linux-6.12"];
    let sweep = ["sweep", &file, "--axis", "cpuidle=menu,teo", "--store", &runs];
    let cut = ["--duration", "10ms"];
    let told = |args: &[&str]| {
        let o = wattif(args, "");
        [o.stdout, o.stderr].map(|text| String::from_utf8_lossy(&text).into_owned())
    };
    let found = object(&[&kernels[..], &on, &["--json"]].concat(), "");
    assert_eq!((&found["metrics"][0]["name"], &found["unfinished"]), (&json!("duration_s"), &json!([0, 0])));
    let [page, notes] = told(&[&kernels[..], &on].concat());
    assert!(page.starts_with("workload  job: until it ends, at most 10 s, seeds 1 to 2\n"), "{page}");
    assert!(!page.contains("ot finished") && !notes.contains("N01"), "{page}{notes}");
    for (args, names) in [(&kernels[..], ["linux-5.3", "linux-6.12"]), (&sweep[..], ["cpuidle=menu", "cpuidle=teo"])] {
        let [page, notes] = told(&[args, &on, &cut].concat());
        for name in names {
            let cut = format!("{name} (2 of 2 runs)");
            assert!(page.contains(&cut) && notes.contains(&format!("{cut}: not finished: ")), "{page}{notes}");
        }
        assert!(notes.contains("run::N01"), "{notes}");
    }
    let found = object(&[&kernels[..], &on, &cut, &["--json"]].concat(), "");
    assert_eq!(found["unfinished"], json!([2, 2]));
    let found = object(&[&sweep[..], &on, &cut, &["--json"]].concat(), "");
    assert_eq!(found["points"][0]["unfinished"], 2);
    let [page, _] = told(&[&kernels[..], &on, &cut, &["--markdown"]].concat());
    assert!(page.contains("of a part of the work: linux-5.3 (2 of 2 runs), linux-6.12 (2 of 2 runs)."), "{page}");
    // The same of two runs, none of whose threads ever woke up; reruns are as long as the work.
    let explain = ["explain", "linux-5.3", "linux-6.12", &file, "-p", "hikey620", "--seeds", "1"];
    let found = object(&[&explain[..], &["--json"]].concat(), "");
    assert_eq!(found["latency"]["mean_us"], json!([null, null]));
    assert_eq!(
        (&found["shares_of"], &found["notes"][0]),
        (&json!([1, 10.0]), &json!("these runs have no `wakeup_latency_us.mean`"))
    );
    assert!(found["latency"]["bins"].as_array().unwrap().iter().all(|b| b["per_wakeup_us"].is_null()), "{found}");
    assert!(found["a"]["end_s"].as_f64().unwrap() < 0.5 && found["a"]["unfinished"] == false, "{found}");
    let [page, notes] = told(&[&explain[..], &cut].concat());
    assert!(page.contains("\nTime: more than 0.01000 to more than 0.01000 s (not finished).\n"), "{page}");
    assert!(
        page.contains("none, for 0 wake-ups came to run") && notes.contains("linux-5.3: not finished: "),
        "{page}{notes}"
    );
}

/// No thread at all is nothing that goes on.
#[test]
fn no_thread_is_not_unfinished() {
    let none = r#"{ "tasks": { "a": { "instance": 0, "loop": 1, "run": 1000 } } }"#;
    let o = wattif(&["run", "-", "-p", "guest_x86_2cpu", "--duration", "20ms"], none);
    let text = String::from_utf8_lossy(&o.stderr).into_owned() + &String::from_utf8_lossy(&o.stdout);
    assert!(!text.contains("not finished") && !text.contains("until it ends"), "{text}");
}

#[test]
fn a_sweep_says_what_was_used() {
    let store = tempfile::tempdir().unwrap();
    let runs = store.path().join("s.sqlite").to_str().unwrap().to_string();
    let axes = ["--axis", "kernel=linux-5.3,linux-5.6", "--axis", "platform=hikey620,hikey960"];
    let args = ["sweep", "server:load_pct=20", "--set", "cpuidle=teo", "--duration", "20ms", "--store", &runs];
    let args = [&args[..], &axes].concat();
    let found = object(&[&args[..], &["--json"]].concat(), "");
    let spec = &found["spec"];
    assert_eq!(spec["platforms"], json!(["hikey620", "hikey960"]));
    assert_eq!(spec["kernels"], json!(["linux-5.3", "linux-5.6"]));
    assert_eq!((&spec["workload"], &spec["duration_s"]), (&json!("server"), &json!(0.02)));
    assert_eq!(spec["set"], json!({ "cpuidle": "teo", "workload.load_pct": "20" }));
    check(&spec["trust"], &json!({ "hikey620": [""], "hikey960": [""] }), "trust");
    let text = String::from_utf8_lossy(&wattif(&args, "").stdout).into_owned();
    for part in [
        "workload  server: 0.02000 s, seed 1\n",
        "platform  hikey620: ",
        "platform  hikey960: ",
        "kernel    linux-5.3: ",
        "kernel    linux-5.6: ",
        "set       workload.load_pct = 20\n",
        "\nHow far to trust hikey620\n  - ",
        "\nHow far to trust hikey960\n  - ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn explanations_say_how_far_to_trust_them() {
    let about = ["linux-5.3", "linux-5.6", "server", "-p", "hikey620", "--duration", "20ms", "--seeds", "1"];
    for verb in ["explain", "bisect"] {
        let args = [&[verb], &about[..]].concat();
        let text = String::from_utf8_lossy(&wattif(&args, "").stdout).into_owned();
        assert!(text.starts_with("server on hikey620") && text.contains("\nHow far to trust it\n  - "), "{text}");
        let found = object(&[&args[..], &["--json"]].concat(), "");
        check(&found, &json!({ "platform": "", "workload": "", "trust": [""] }), verb);
    }
}

/// Parameters behind a model's name are settings of the workload, and a setting of the same counts.
#[test]
fn parameters_of_a_model_are_settings() {
    let run = |name: &str, set: &[&str]| {
        let args = ["run", name, "-p", "hikey620", "--duration", "20ms", "--json"];
        let found = object(&[&args[..], set].concat(), "");
        (found["spec"]["set"].clone(), found["digest"].clone(), found["spec"]["hash"].clone())
    };
    let behind = run("server:load_pct=20", &[]);
    assert_eq!(behind.0, json!({ "workload.load_pct": "20" }));
    assert_eq!(behind, run("server", &["--set", "workload.load_pct=20"]));
    assert_eq!(run("server:load_pct=20", &["--set", "workload.load_pct=30"]).0, json!({ "workload.load_pct": "30" }));
}

#[test]
fn compare() {
    let args = ["compare", "-", "-p", "hikey620", "-k", "linux-5.3", "-k", "linux-5.6", "-k", "linux-6.1"];
    let found = object(&[&args[..], &["--seeds", "3", "--duration", "40ms", "--json"]].concat(), WORKLOAD);
    let shape = json!({
        "schema": "", "spec": { "platform": "", "workload": "", "duration_s": 0, "seeds": [0] }, "kernels": [""],
        "metrics": [{ "name": "", "unit": "", "better": "", "neutral": false, "per_kernel": [{ "mean": null, "ci95": null }],
                      "ratio_to_first": [{ "value": null, "ci95": null, "p": null, "p_holm": null, "effect": null, "verdict": null }] }]
    });
    check(&found, &shape, "compare");
    assert_eq!(found["schema"], "wattif.compare/1");
    for metric in found["metrics"].as_array().unwrap() {
        assert_eq!(metric["per_kernel"].as_array().unwrap().len(), 3, "{metric}");
        assert_eq!(metric["ratio_to_first"].as_array().unwrap().len(), 3, "{metric}");
        assert!(["lower", "higher"].contains(&metric["better"].as_str().unwrap()), "{metric}");
    }
}

#[test]
fn repro() {
    let found = object(&["repro", "sched_idle_placement", "--seeds", "1", "--json"], "");
    let shape = json!({
        "schema": "", "results": [{
            "id": "", "experiment": "", "metric": "", "unit": "", "class": "", "ratio": null, "tolerance": "", "ok": true,
            "arms": [{ "kernel": "", "published": null, "simulated": null, "ci95": null }], "counter_test": null
        }],
        "tables": [{
            "experiment": "", "platform": "", "title": "",
            "cells": [{ "metric": "", "unit": "", "kernel": "", "published": null, "simulated": null, "ci95": null }]
        }]
    });
    check(&found, &shape, "repro");
    assert_eq!(found["schema"], "wattif.repro/1");
    assert_eq!(found["correlations"], json!([]), "it asks for none");
    for row in found["results"].as_array().unwrap().iter().filter(|r| !r["counter_test"].is_null()) {
        check(&row["counter_test"], &json!({ "what": "", "simulated_ratio": null, "ok": true }), "counter_test");
    }
    for row in found["results"].as_array().unwrap().iter().filter(|r| !r["ratio"].is_null()) {
        check(&row["ratio"], &json!({ "of": [""], "published": null, "simulated": null, "ci95": null }), "ratio");
    }
}

#[test]
fn lists_and_manuals() {
    let found = object(&["list", "experiments", "--json"], "");
    let item = json!({ "name": "", "about": "", "platforms": [""] });
    check(&found, &json!({ "schema": "", "kind": "", "items": [item] }), "list");
    assert_eq!((&found["schema"], &found["kind"]), (&json!("wattif.list/1"), &json!("experiments")));
    let names: Vec<&str> = found["items"].as_array().unwrap().iter().map(|i| i["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"sched_idle_side_jobs") && names.contains(&"balance_at_scale"), "{names:?}");
    let tunable = json!({ "name": "", "default": "", "about": "" });
    for (name, kind) in [("teo", "cpuidle"), ("server", "workload")] {
        let found = object(&["explain", name, "--json"], "");
        check(&found, &json!({ "schema": "", "kind": "", "name": "", "manual": "", "tunables": [tunable] }), name);
        assert_eq!((&found["schema"], &found["kind"]), (&json!("wattif.manual/1"), &json!(kind)));
    }
}

#[test]
fn verify() {
    let vectors = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors");
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(format!("{vectors}/calc_delta.csv.gz"), folder.path().join("calc_delta.csv.gz")).unwrap();
    let found = object(&["verify", folder.path().to_str().unwrap(), "--json"], "");
    let file = json!({ "file": "", "kind": "", "kernel": "", "rows": 0, "mismatches": 0, "first_mismatch": null });
    check(&found, &json!({ "schema": "", "files": [file] }), "verify");
    assert_eq!((&found["schema"], &found["files"][0]["mismatches"]), (&json!("wattif.verify/1"), &json!(0)));
    assert!(found["recordings"].is_array());
}
