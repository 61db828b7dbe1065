//! The command line as a user meets it: exit codes, where text goes, hostile input.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn wattif(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wattif"));
    command.args(args).env("NO_COLOR", "1");
    command
}
fn done(args: &[&str]) -> Output {
    wattif(args).output().unwrap()
}
fn with_stdin(args: &[&str], input: &[u8]) -> Output {
    let mut child = wattif(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}
fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

const SMALL: &str = r#"{ "tasks": { "a": { "instance": 2, "run": 1000, "timer": { "ref": "unique", "period": 4000 } } },
  "global": { "duration": 1 } }"#;

fn run_small(more: &[&str]) -> Output {
    let args = ["run", "-", "-p", "hikey620", "-k", "linux-5.6", "--duration", "100ms"];
    with_stdin(&[&args, more].concat(), SMALL.as_bytes())
}

#[test]
fn unknown_names_say_what_is_near() {
    for (args, near, list) in [
        (&["run", "x.json", "-p", "hikey62"][..], "`hikey620`", "wattif list platforms"),
        (&["run", "x.json", "-k", "linux-5.5"], "`linux-5.4`", "wattif list kernels"),
        (&["explain", "schedutl"], "`schedutil`", "wattif list policies"),
        (&["repro", "sched_idle_placment"], "`sched_idle_placement`", "wattif list"),
    ] {
        let o = done(args);
        assert_eq!(o.status.code(), Some(2), "{args:?}");
        assert!(err(&o).contains(near) && err(&o).contains(list), "{args:?}: {}", err(&o));
        assert_eq!(out(&o), "", "nothing on stdout");
    }
}

#[test]
fn bad_options() {
    let cases: &[&[&str]] = &[
        &["run"],
        &["run", "-", "--duration", "0s"],
        &["run", "-", "--duration", "5 parsecs"],
        &["run", "-", "-p", "-"],
        &["run", "/nonexistent/file.json"],
        &["compare", "-", "-k", "linux-5.6"],
        &["compare", "gallery/sched_idle_placement", "-k", "linux-5.6"],
        &["verify", "/nonexistent"],
        &["frobnicate"],
    ];
    for args in cases {
        assert_eq!(with_stdin(args, SMALL.as_bytes()).status.code(), Some(2), "{args:?}");
    }
    for set in [
        "nonsense",
        "teo.no_such=1",
        "cpufreq=fast",
        "features.NO_SUCH=true",
        "platform.no.such=1",
        "workload.tasks.b.run=1",
    ] {
        let o = run_small(&["--set", set]);
        assert_eq!(o.status.code(), Some(2), "--set {set}: {}", err(&o));
        assert!(!err(&o).is_empty() && out(&o).is_empty(), "--set {set}");
    }
}

#[test]
fn every_mistake_of_a_file_shows_at_once() {
    let bad =
        "{ \"tasks\": { \"a\": { \"run\": -1, \"sleep\": \"x\", \"cpus\": [99],\n \"timer\": { \"period\": -4 } } } }";
    let o = with_stdin(&["run", "-", "-p", "hikey620", "-k", "linux-5.6"], bad.as_bytes());
    assert_eq!(o.status.code(), Some(2));
    let text = err(&o);
    assert!(text.matches("rtapp::E").count() >= 4, "{text}");
    assert!(text.contains("[stdin:1:") && text.contains("[stdin:2:"), "line and column: {text}");
}

#[test]
fn hostile_input_is_refused_or_bounded() {
    let deep = "[".repeat(200_000);
    let long = format!("{{ \"tasks\": {{ \"{}\": {{ \"run\": 1 }} }} }}", "x".repeat(1 << 20));
    let idle_loop = r#"{ "tasks": { "a": { "yield": 1 } } }"#;
    let zero = r#"{ "tasks": { "a": { "run": 0 } } }"#;
    let texts: [&[u8]; 8] =
        [b"", b"{", b"\xff\xfe", deep.as_bytes(), long.as_bytes(), idle_loop.as_bytes(), zero.as_bytes(), b"null"];
    for text in texts {
        let o = with_stdin(&["run", "-", "-p", "hikey620", "-k", "linux-5.6", "--duration", "10ms"], text);
        let code = o.status.code();
        assert!(code == Some(2) || code == Some(0), "{:?}…: {code:?} {}", &text[..text.len().min(30)], err(&o));
    }
    for cut in (0..SMALL.len() - 1).step_by(16) {
        let o = with_stdin(
            &["run", "-", "-p", "hikey620", "-k", "linux-5.6", "--duration", "1ms"],
            &SMALL.as_bytes()[..cut],
        );
        assert_eq!(o.status.code(), Some(2), "cut at {cut}");
    }
}

#[test]
fn json_is_one_object_and_nothing_else() {
    let o = run_small(&["--json", "--seed", "5"]);
    assert_eq!(o.status.code(), Some(0), "{}", err(&o));
    let json: serde_json::Value = serde_json::from_slice(&o.stdout).expect("one object");
    assert_eq!(json["schema"], "wattif.run/1");
    assert_eq!(json["spec"]["seed"], 5);
    assert_eq!(json["spec"]["duration_s"], 0.1);
    for key in ["version", "digest", "wall_s", "events", "slices", "metrics", "tasks", "cpus", "domains"] {
        assert!(!json[key].is_null(), "{key}");
    }
    let content = serde_json::from_value::<wattif::RunSpec>(json["spec"]["content"].clone()).expect("reads back");
    assert_eq!(content.hash(), json["spec"]["hash"].as_str().unwrap());
}

#[test]
fn text_names_everything_used_and_is_the_same_every_time() {
    let o = run_small(&[]);
    let text = out(&o);
    for part in ["hikey620", "linux-5.6", "seed 1", "0.1000 s", "How far to trust it", "Latency", "CPUs", "Frequency"] {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }
    assert!(text.lines().all(|l| l == l.trim_end()), "no space at the end of a line");
    assert_eq!(text, out(&run_small(&[])));
    assert_ne!(text, out(&run_small(&["--seed", "2"])));
}

#[test]
fn trace_has_the_columns_of_trace_cmd() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("trace.txt");
    let o = run_small(&["--trace", file.to_str().unwrap(), "--trace-detail", "decisions"]);
    assert_eq!(o.status.code(), Some(0), "{}", err(&o));
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("cpus=8\n"));
    for event in [
        "sched_switch:",
        "sched_waking:",
        "sched_wakeup:",
        "cpu_idle:",
        "cpu_frequency:",
        "wattif_placement:",
        "wattif_idle:",
        "wattif_frequency:",
    ] {
        assert!(text.contains(event), "{event}");
    }
    let mut last = 0.0;
    for line in text.lines().skip(1) {
        let (_, rest) = line.split_once('[').expect("a CPU");
        let time: f64 = rest.split_once(']').unwrap().1.split(':').next().unwrap().trim().parse().expect("a time");
        assert!(time >= last, "{line}");
        last = time;
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");
    let o = run_small(&["--trace", "/nonexistent/trace.txt"]);
    assert_eq!(o.status.code(), Some(2));
}

#[test]
fn compare_pairs_seeds() {
    let args =
        ["compare", "-", "-p", "hikey620", "-k", "linux-5.3", "-k", "linux-5.6", "--seeds", "4", "--duration", "50ms"];
    let json = with_stdin(&[&args[..], &["--json"]].concat(), SMALL.as_bytes());
    assert_eq!(json.status.code(), Some(0), "{}", err(&json));
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["schema"], "wattif.compare/1");
    assert_eq!(json["kernels"], serde_json::json!(["linux-5.3", "linux-5.6"]));
    assert_eq!(json["metrics"][0]["per_kernel"].as_array().unwrap().len(), 2);
    let text = out(&with_stdin(&args, SMALL.as_bytes()));
    assert!(text.contains("ratio to linux-5.3") && text.contains("seeds 1 to 4"), "{text}");
}

#[test]
fn a_closed_pipe_is_no_bug() {
    let mut child = wattif(&["list", "platforms"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn lists_manuals_completions() {
    for kind in ["platforms", "kernels", "policies", "workloads", "metrics", "formats"] {
        let o = done(&["list", kind, "--json"]);
        let json: serde_json::Value = serde_json::from_slice(&o.stdout).unwrap();
        let items = json["items"].as_array().unwrap();
        assert!(!items.is_empty(), "{kind}");
        assert!(items.iter().all(|i| i["name"] != "" && i["about"] != ""), "{kind}: {items:?}");
    }
    for policy in wattif_sim::registry::POLICIES.iter().filter(|p| p.selectable) {
        let text = out(&done(&["explain", policy.name]));
        for heading in
            ["Idea", "Signals", "Decision", "State and cost", "Where it fails", "Differences from the kernel", "Source"]
        {
            assert!(text.lines().any(|l| l == heading), "{} has no {heading}:\n{text}", policy.name);
        }
    }
    for shell in ["bash", "zsh", "fish"] {
        assert!(out(&done(&["completions", shell])).contains("wattif"));
    }
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(done(&["man", "--dir", dir.path().to_str().unwrap()]).status.code(), Some(0));
    assert!(Path::new(&dir.path().join("wattif-run.1")).is_file());
}
