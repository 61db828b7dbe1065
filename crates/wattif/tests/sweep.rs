//! A sweep that is killed loses nothing, one that is repeated costs nothing, and two may share a store.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use wattif::sweep::Store;

const AXES: [&str; 2] = ["cpuidle=menu,teo", "schedutil.rate_limit_us=500..8000/10"];

fn sweep(store: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wattif"));
    command.args(["sweep", "server", "-p", "hikey620", "--duration", "200ms", "--seeds", "3", "--json"]);
    command.args(AXES.iter().flat_map(|axis| ["--axis", *axis]));
    command.args(["--pareto", "energy.total,wakeup_latency_us.mean", "--store"]).arg(store).args(more);
    command.env("RAYON_NUM_THREADS", "2").stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The table, and what stderr says of runs made.
fn finish(child: Child) -> (Value, String) {
    let out = child.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{err}");
    (serde_json::from_slice(&out.stdout).unwrap(), err)
}

/// A sweep killed when it has kept some runs, and how many it has kept then.
fn killed(path: PathBuf) -> (PathBuf, u64) {
    let mut child = sweep(&path, &[]).spawn().unwrap();
    let kept = loop {
        let done = child.try_wait().unwrap().is_some();
        let kept = if path.exists() { Store::open(&path).and_then(|s| s.len()).unwrap_or(0) } else { 0 };
        if kept >= 5 || done {
            break kept;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    child.kill().unwrap(); // SIGKILL
    let said = child.wait_with_output().unwrap().stderr;
    let after = Store::open(&path).unwrap().len().unwrap();
    assert!(after >= kept && kept >= 5, "{kept} {after} {}", String::from_utf8_lossy(&said));
    (path, after)
}

#[test]
fn killed_and_resumed_and_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole.sqlite");
    // A sweep that is done before we get to kill it shows nothing: another one, in another store.
    let attempts = (0..20).map(|i| folder.path().join(format!("killed{i}.sqlite")));
    let (path, after) = attempts.map(killed).find(|(_, after)| *after < 60).expect("one is killed on its way");
    let (table, err) = finish(sweep(&path, &[]).spawn().unwrap());
    assert!(err.contains(&format!("{} runs made", 60 - after)), "nothing is lost, nothing done twice: {after}, {err}");
    let (uninterrupted, err) = finish(sweep(&whole, &[]).spawn().unwrap());
    assert_eq!(table, uninterrupted);
    assert!(err.contains(": 60 runs made, now in ") && !err.contains("the others"), "{err}");
    let (again, err) = finish(sweep(&path, &[]).spawn().unwrap());
    assert!(err.contains(": 0 runs made") && again == table, "{err}");
    assert_eq!(table["points"].as_array().unwrap().len(), 20);
    assert!(table["points"].as_array().unwrap().iter().any(|p| p["front"] == true));
}

#[test]
fn two_processes_share_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shared.sqlite");
    let both = [sweep(&path, &[]).spawn().unwrap(), sweep(&path, &[]).spawn().unwrap()];
    let [a, b] = both.map(|child| finish(child).0);
    assert_eq!(a, b);
    assert_eq!(Store::open(&path).unwrap().len().unwrap(), 60);
}

#[test]
fn what_cannot_be_swept_is_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none.sqlite");
    let refused = |axis: &str| {
        let out = sweep(&path, &["--axis", axis]).output().unwrap();
        assert_eq!(out.status.code(), Some(2));
        assert!(!path.exists(), "{axis}");
        String::from_utf8_lossy(&out.stderr).into_owned()
    };
    let has = |axis: &str, part: &str| {
        let err = refused(axis);
        assert!(err.contains(part), "{axis}: {part} is missing in\n{err}");
    };
    has("schedutil.rate_limit=1,2", "there is no axis `schedutil.rate_limit`");
    has("schedutil.rate_limit=1,2", "`schedutil.rate_limit_us`");
    has("cpuidle=menu", "axis `cpuidle` is there twice");
    has("kernel=linux-6.12,linux-6.13", "linux-6.12");
    has("platform.hzz=100,250", "hz");
    has("workload.wrkers=1,2", "workers");
    has("cpufreq=schedutl", "schedutil");
    has("teo.generation=5.6,9.9", "9.9");
}

/// What `wattif run` says of a file or a setting, a sweep says too: once, and at how many points.
#[test]
fn what_there_is_to_say_is_said_once() {
    let folder = tempfile::tempdir().unwrap();
    let said = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wattif"));
        command.args(["sweep", "video", "--duration", "10ms", "--store"]).arg(folder.path().join("a.sqlite"));
        let out = command.args(more).output().unwrap();
        (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    let (code, err) = said(&["--axis", "cpuidle=menu,teo", "--axis", "teo.generation=5.6,5.14"]);
    assert_eq!((code, err.matches("teo.generation").count()), (Some(0), 1), "{err}");
    assert!(err.contains("changes nothing: cpuidle is menu (at 2 of 4"), "{err}");
    let (code, err) =
        said(&["--axis", "teo.generation=5.6", "--set", "schedutil.rate_limit_us=1", "--set", "cpufreq=performance"]);
    assert!(code == Some(0) && err.contains("schedutil.rate_limit_us") && !err.contains("(at "), "{err}");
    let (code, err) = said(&["--axis", "cpuidle=menu,teo", "--set", "cpuidle=ladder"]);
    assert!(code == Some(2) && err.contains("`cpuidle` is an axis and set by --set as well"), "{err}");
}

/// Behind a limit on the size of files, as on a full disk: an error that says what to do, and what was finished is kept.
#[test]
#[cfg(unix)]
fn a_limit_on_files_is_a_full_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("limited.sqlite");
    let command = sweep(&path, &[]);
    let words: Vec<_> = std::iter::once(command.get_program()).chain(command.get_args()).collect();
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 200; exec \"$@\"", "sh"]).args(words).env("RAYON_NUM_THREADS", "2");
    let out = limited.output().unwrap();
    let err = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{err}");
    assert!(err.contains("every run finished before is kept") && err.contains("same command again"), "{err}");
    let kept = Store::open(&path).unwrap().len().unwrap();
    assert!((1..60).contains(&kept), "{kept}");
    let (_, err) = finish(sweep(&path, &[]).spawn().unwrap());
    assert!(err.contains(&format!("{} runs made", 60 - kept)), "{kept}: {err}");
}

#[test]
fn energies_of_other_units_have_no_front() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("units.sqlite");
    let both = |more: &[&str]| {
        let mut both = Command::new(env!("CARGO_BIN_EXE_wattif"));
        both.args(["sweep", "server", "--duration", "10ms", "--axis", "platform=hikey620,hikey960", "--store"])
            .arg(&path);
        let out = both.args(more).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (out.status.code(), text(&out.stdout), text(&out.stderr))
    };
    let (_, page, _) = both(&[]);
    assert!(page.contains("energy.total [J or cost*s]") && page.contains("wakeup_latency_us.p99 [µs]"), "{page}");
    for energy in ["energy.total", "frames.request.energy", "oracle.idle_energy"] {
        let (code, _, err) = both(&["--pareto", &format!("{energy},slices")]);
        assert!(err.contains(&format!("no front of {energy}: its unit is J or cost*s")) && code == Some(2), "{err}");
    }
    let (code, _, err) = both(&["--metric", "slices", "--metric", "frames.nope.mean"]);
    assert!(
        err.contains("no run has a figure `frames.nope.mean`") && !err.contains("`slices`") && code == Some(0),
        "{err}"
    );
}
