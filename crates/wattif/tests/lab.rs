//! What the lab refuses, what it says where it cannot know, and its tables; by the command line.

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_ipc::reader::FileReader;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn wattif(args: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wattif")).args(args).current_dir(folder).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn run_file(folder: &Path, name: &str, more: &[&str]) {
    let base = ["run", "server", "-p", "hikey620", "--duration", "50ms", "--json"];
    let out = wattif(&[&base, more].concat(), folder);
    assert!(out.status.success(), "{}", text(&out.stderr));
    std::fs::write(folder.join(name), out.stdout).unwrap();
}

#[test]
fn runs_that_differ_in_more_than_the_kernel_are_refused_with_the_difference() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    run_file(at, "a.json", &["-k", "linux-5.3"]);
    run_file(at, "b.json", &["-k", "linux-5.6"]);
    run_file(at, "hz.json", &["-k", "linux-5.6", "--set", "platform.hz=1000"]);
    run_file(at, "load.json", &["-k", "linux-5.6", "--set", "workload.side_threads_per_cpu=0"]);
    for verb in ["compare", "explain"] {
        for (other, part) in [("hz.json", "platform.hz: 250 and 1000"), ("load.json", "workload.")] {
            let out = wattif(&[verb, "a.json", other, "--seeds", "1"], at);
            let err = text(&out.stderr);
            assert_eq!(out.status.code(), Some(2), "{err}");
            assert!(err.contains("differ in more than the kernel") && err.contains(part), "{err}");
        }
    }
    let out = wattif(&["compare", "a.json", "b.json", "--seeds", "2", "--json"], at);
    assert!(out.status.success(), "{}", text(&out.stderr));
}

#[test]
fn run_files_of_one_profile_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    run_file(folder.path(), "a.json", &["-k", "linux-6.12"]);
    run_file(folder.path(), "b.json", &["-k", "linux-6.12", "--set", "cpuidle=teo"]);
    let out = wattif(&["compare", "a.json", "b.json", "--seeds", "2", "--json"], folder.path());
    let found: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(found["kernels"], serde_json::json!(["linux-6.12", "linux-6.12+cpuidle=teo"]));
    let out = wattif(&["compare", "a.json", "b.json", "-p", "hikey960"], folder.path());
    assert!(text(&out.stderr).contains("-p, --set and --duration go with a workload") && out.status.code() == Some(2));
}

#[test]
fn an_experiment_of_one_kernel_compares_its_variants() {
    let folder = tempfile::tempdir().unwrap();
    let of = |more: &[&str]| {
        let base = ["compare", "gallery/weighted_idle_governor", "-p", "core_i7_2600k", "--duration", "50ms"];
        wattif(&[&base, more].concat(), folder.path())
    };
    let found: Value = serde_json::from_slice(&of(&["--seeds", "1", "--json"]).stdout).unwrap();
    let kernels: Vec<&str> = found["kernels"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(kernels.starts_with(&["linux-5.6"]) && kernels.contains(&"weighted") && !kernels.contains(&"w2"));
    let out = of(&["-k", "teo+w2", "-k", "teo+w4"]);
    assert!(text(&out.stderr).contains("differ in more than the kernel"), "{}", text(&out.stderr));
    assert_eq!((out.status.code(), of(&["-k", "teo"]).status.code()), (Some(2), Some(2)));
}

#[test]
fn a_cover_letter_is_reproduced_by_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let letter = text(&wattif(&[&COMPARE[..], &["2", "--markdown"]].concat(), folder.path()).stdout);
    let line = letter.lines().find_map(|l| l.strip_prefix("again     wattif ")).unwrap();
    let again = text(&wattif(&line.split(' ').collect::<Vec<_>>(), folder.path()).stdout);
    assert_eq!(letter, again);
    let found: Value =
        serde_json::from_slice(&wattif(&[&COMPARE[..], &["2", "--json"]].concat(), folder.path()).stdout).unwrap();
    for k in [0, 1] {
        let said = |what: &str| letter.contains(found["spec"][what][k].as_str().unwrap());
        assert!(said("digests") && said("hashes_of_first_seed") && letter.contains("effect d"), "{letter}");
    }
}

const COMPARE: [&str; 11] =
    ["compare", "server", "-p", "hikey620", "--duration", "50ms", "-k", "linux-5.3", "-k", "linux-5.6", "--seeds"];

#[test]
fn too_few_seeds_for_an_interval_are_said_and_no_number_is_invented() {
    let folder = tempfile::tempdir().unwrap();
    for (seeds, few) in [("1", true), ("3", true), ("4", false)] {
        let out = wattif(&[&COMPARE[..], &[seeds, "--json"]].concat(), folder.path());
        let found: Value = serde_json::from_slice(&out.stdout).unwrap();
        for metric in found["metrics"].as_array().unwrap() {
            let ratio = &metric["ratio_to_first"][1];
            let means = [&metric["per_kernel"][0], &metric["per_kernel"][1]];
            // From nothing there is no ratio, whatever the number of seeds, and from what may be nothing no interval of it.
            let nothing = ratio["value"].is_null() || means[0]["ci95"][0] == 0.0;
            // A kernel may have no such figure.
            let means = means.into_iter().filter(|m| !m["mean"].is_null());
            for estimate in means.chain([ratio].into_iter().filter(|_| few || !nothing)) {
                assert_eq!(estimate["ci95"].is_null(), few, "{seeds}: {metric}");
            }
        }
        let page = text(&wattif(&[&COMPARE[..], &[seeds]].concat(), folder.path()).stdout);
        assert_eq!(page.contains("too few for an interval") || page.contains("One seed says nothing"), few, "{page}");
    }
}

#[test]
fn the_table_for_data_frames_says_what_the_json_says() {
    let folder = tempfile::tempdir().unwrap();
    let out = wattif(&[&COMPARE[..], &["4", "--json", "--arrow", "a.arrow"]].concat(), folder.path());
    let found: Value = serde_json::from_slice(&out.stdout).unwrap();
    let file = std::fs::File::open(folder.path().join("a.arrow")).unwrap();
    let batch = FileReader::try_new(file, None).unwrap().next().unwrap().unwrap();
    let metrics = found["metrics"].as_array().unwrap();
    assert_eq!(batch.num_rows(), 2 * metrics.len());
    let column = |name: &str| batch.column_by_name(name).unwrap().clone();
    for (i, metric) in metrics.iter().enumerate() {
        assert_eq!(column("metric").as_string::<i32>().value(2 * i), metric["name"]);
        let means = column("mean");
        let (means, told) = (means.as_primitive::<Float64Type>(), metric["per_kernel"][1]["mean"].as_f64());
        assert_eq!(means.is_null(2 * i + 1), told.is_none(), "{metric}");
        let (mean, told) = (means.value(2 * i + 1), told.unwrap_or_default());
        // What reads the JSON here rounds the last digit otherwise.
        assert!((mean - told).abs() <= told.abs() * 1e-14, "{mean} {told}");
    }
    let schema = batch.schema();
    assert!(schema.fields().iter().all(|f| !f.metadata()["doc"].is_empty()));
    let out = wattif(&[&COMPARE[..], &["2", "--arrow", "-"]].concat(), folder.path());
    assert!(out.stdout.starts_with(b"ARROW1") && out.stdout.ends_with(b"ARROW1"), "nothing else on standard output");
}

/// The Python that `cargo xtask test` has made, which has Optuna.
fn python() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two folders down");
    Some(root.join("target/python/venv/bin/python")).filter(|p| p.exists())
}

const TUNE: [&str; 17] = [
    "tune",
    "server",
    "-p",
    "hikey620",
    "--duration",
    "30ms",
    "--axis",
    "cpuidle=menu,teo",
    "--axis",
    "schedutil.rate_limit_us=500..4000",
    "--trials",
    "8",
    "--population",
    "4",
    "--store",
    "s.sqlite",
    "--python",
];

#[test]
fn a_search_proposes_and_tests_on_other_seeds() {
    let folder = tempfile::tempdir().unwrap();
    let out = wattif(&[&TUNE[..], &["/no/such/python"]].concat(), folder.path());
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("needs Python with Optuna"));
    let Some(python) = python() else {
        eprintln!("SKIPPED: no Python with Optuna; cargo xtask test makes one");
        return;
    };
    let python = python.display().to_string();
    let tune = |more: &[&str]| wattif(&[&TUNE[..], &[&python], more].concat(), folder.path());
    let out = tune(&["--seeds", "2", "--held-out", "4", "--json"]);
    let found: Value = serde_json::from_slice(&out.stdout).unwrap_or_else(|_| panic!("{}", text(&out.stderr)));
    assert_eq!(found["schema"], "wattif.tune/1");
    assert_eq!((&found["seeds"], &found["held_out"]), (&serde_json::json!([1, 2]), &serde_json::json!([3, 4, 5, 6])));
    let proposals = found["proposals"].as_array().unwrap();
    assert!(!proposals.is_empty() && proposals.iter().all(|p| p["held_out"]["energy.total"]["ci95"].is_array()));
    let page = text(&tune(&["--seeds", "2", "--held-out", "4"]).stdout);
    assert!(page.contains("unchanged") && page.contains("held out"), "{page}");
    let bad = tune(&["--axis", "teo.nonsense=1..2"]);
    assert!(text(&bad.stderr).contains("there is no axis `teo.nonsense`") && bad.status.code() == Some(2));
}
