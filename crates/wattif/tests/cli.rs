//! The command line as a user meets it: exit codes, where text goes, hostile input.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn wattif(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wattif"));
    command.args(args).env("NO_COLOR", "1").env("COLUMNS", "200");
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
        (&["explain", "schedutil.up_rate_limit"], "`schedutil.up_rate_limit_us`", "wattif list policies"),
        (&["repro", "sched_idle_placment"], "`sched_idle_placement`", "wattif list experiments"),
        (&["compare", "gallery/sched_idle_placment"], "`sched_idle_placement`", "wattif list experiments"),
        (&["compare", "servr"], "`server`", "wattif list workloads"),
        (&["run", "gallery/sched_idle_placment"], "`sched_idle_placement`", "wattif list experiments"),
    ] {
        let o = done(args);
        assert_eq!(o.status.code(), Some(2), "{args:?}");
        assert!(err(&o).contains(near) && err(&o).contains(list), "{args:?}: {}", err(&o));
        assert_eq!(out(&o), "", "nothing on stdout");
    }
}

/// How often CPUs of a POWER9 enter each idle state.
fn entered(settings: &[&str]) -> BTreeMap<String, u64> {
    let run = ["run", "ebizzy", "-p", "power9_2s16c", "-k", "linux-5.6", "--duration", "200ms", "--json"];
    let args = [&run[..], &settings.iter().flat_map(|set| ["--set", set]).collect::<Vec<_>>()].concat();
    let run: serde_json::Value = serde_json::from_str(&out(&done(&args))).unwrap();
    let mut usage = BTreeMap::new();
    for state in run["cpus"].as_array().unwrap().iter().flat_map(|c| c["idle"].as_array().unwrap()) {
        *usage.entry(state["name"].as_str().unwrap().into()).or_default() += state["usage"].as_u64().unwrap();
    }
    usage.retain(|_, n| *n > 0);
    usage
}

#[test]
fn a_workload_that_is_cut_off_is_told() {
    let long = "hackbench:groups=1,loops=1000";
    let cut = done(&["run", long, "-p", "xeon_icx", "--duration", "20ms", "--json"]);
    assert!(err(&cut).contains("hackbench: not finished"), "{}", err(&cut));
    assert!(out(&cut).contains("run::N01"));
    for whole in [["run", "hackbench:groups=1,loops=1", "--duration", "5s"], ["run", "ebizzy", "--duration", "20ms"]] {
        let o = done(&whole);
        assert!(!err(&o).contains("not finished"), "{}", err(&o));
    }
}

#[test]
fn no_drawings_are_no_folder() {
    let dir = std::env::temp_dir().join(format!("wattif-no-drawings-{}", std::process::id()));
    let o = done(&["repro", "balance_at_scale", "--seeds", "1", "--plots", dir.to_str().unwrap()]);
    assert!(err(&o).contains("no drawings for"), "{}", err(&o));
    assert!(!dir.exists());
}

/// A run tells whose choice the idle governor was, and names it.
#[test]
fn a_guest_runs_the_governor_of_its_driver() {
    let cpuidle = |more: &[&str]| {
        let o = done(&[&["run", "pgbench", "-p", "vm_8vcpu", "--duration", "20ms", "--json"], more].concat());
        let run: serde_json::Value = serde_json::from_str(&out(&o)).unwrap();
        let named = run["spec"]["content"]["kernel"]["policies"]["cpuidle"].as_str().unwrap().to_string();
        (named, err(&o).contains("which the idle driver of vm_8vcpu prefers"))
    };
    assert_eq!(cpuidle(&[]), ("haltpoll".to_string(), true));
    assert_eq!(cpuidle(&["--set", "cpuidle=menu"]), ("menu".to_string(), false));
    assert_eq!(cpuidle(&["-k", "linux-5.3"]), ("menu".to_string(), false));
    let set = "cpuidle_driver.governor=ignored";
    assert!(err(&done(&["run", "hogs", "--duration", "5ms", "--set", set])).contains("prefers no governor"));
}

/// Before 6.2 nobody tells haltpoll that a poll reached its limit: after its first time no CPU halts again.
#[test]
fn snooze_before_6_2() {
    let halts = |snooze: &str| entered(&["cpuidle=haltpoll", snooze])["stop0_lite"];
    assert_eq!(halts("powernv.snooze=sleep"), 128);
    assert!(halts("powernv.snooze=polling") > 500);
    let o = done(&["run", "hogs", "-p", "hikey960", "--duration", "10ms", "--set", "powernv.snooze=sleep"]);
    assert!(err(&o).contains("no idle state `snooze`"), "{}", err(&o));
}

/// States that advertise more than the limit are not entered; a limit that none meets leaves the shallowest.
#[test]
fn cpu_latency_qos() {
    let entered = |limit: &str| -> Vec<String> {
        let limit = format!("pm_qos.cpu_latency_us={limit}");
        entered(&["powernv.snooze=polling", &limit]).into_keys().collect()
    };
    assert!(entered("none").contains(&"stop5".to_string()), "{:?}", entered("none"));
    let limited = entered("50");
    assert!(
        limited.contains(&"stop2".to_string()) && !limited.iter().any(|s| s == "stop4" || s == "stop5"),
        "{limited:?}"
    );
    assert_eq!(entered("0"), ["snooze"]);
    let o = done(&["run", "ebizzy", "--set", "pm_qos.cpu_latency_us=-1"]);
    assert_eq!(o.status.code(), Some(2));
    assert!(err(&o).contains("pm_qos.cpu_latency_us"), "{}", err(&o));
}

/// `-` is standard output wherever a file is written, or refused with a next step; no file gets that name.
#[test]
fn a_dash_is_standard_output() {
    let folder = tempfile::tempdir().unwrap();
    let within = |args: &[&str]| {
        let input = folder.path().join("in.json");
        std::fs::write(&input, SMALL).unwrap();
        wattif(args).current_dir(folder.path()).output().unwrap()
    };
    let run = ["run", "in.json", "-p", "hikey620", "--duration", "10ms"];
    assert!(within(&[&run[..], &["--trace", "t.txt"]].concat()).status.success());
    let o = within(&["import", "workload", "t.txt", "-p", "hikey620", "-o", "-"]);
    assert!(o.status.success() && out(&o).starts_with('{'), "{}", err(&o));
    for more in [["--trace", "-"], ["--report", "-"], ["--logs", "-"]] {
        let o = within(&[&run[..], &more].concat());
        assert_eq!((o.status.code(), out(&o).as_str()), (Some(2), ""), "{more:?}");
        assert!(err(&o).contains("standard output") && err(&o).contains("give it a name"), "{more:?}: {}", err(&o));
    }
    assert_eq!(within(&["record", "-o", "-", "--trace", "in.json"]).status.code(), Some(2));
    assert!(!folder.path().join("-").exists());
}

/// A file that kernels of both fair classes have is read for the one that the profile has.
#[test]
fn an_imported_kernel_has_one_fair_class() {
    let folder = tempfile::tempdir().unwrap();
    let proc = folder.path().join("proc/sys/kernel");
    std::fs::create_dir_all(&proc).unwrap();
    std::fs::write(proc.join("sched_cfs_bandwidth_slice_us"), "4000\n").unwrap();
    std::fs::write(proc.join("sched_latency_ns"), "18000000\n").unwrap();
    for (release, own, other) in
        [("5.15.0-91-generic", "[class.cfs]", "[class.eevdf]"), ("6.6.31", "[class.eevdf]", "[class.cfs]")]
    {
        std::fs::write(proc.join("osrelease"), release).unwrap();
        let o = wattif(&["import", "kernel", "--sysfs", ".", "-o", "-"]).current_dir(folder.path()).output().unwrap();
        let (text, said) = (out(&o), err(&o));
        assert!(text.contains(own) && text.contains("bandwidth_slice_us = 4000"), "{release}: {text}{said}");
        assert!(!text.contains(other), "{release}: {text}");
        let left_out = "sched_latency_ns is of class.cfs, which linux-6.6 does not have: left out";
        assert_eq!(said.contains(left_out), own == "[class.eevdf]", "{release}: {said}");
    }
}

/// What is no regular file of a capture is not opened: reading it might never end.
#[cfg(unix)]
#[test]
fn a_capture_with_a_pipe_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let cpu = folder.path().join("sys/devices/system/cpu");
    std::fs::create_dir_all(&cpu).unwrap();
    std::fs::create_dir_all(folder.path().join("proc/sys/kernel")).unwrap();
    std::fs::write(cpu.join("present"), "0-1\n").unwrap();
    let pipes = ["sys/devices/system/cpu/online", "proc/sys/kernel/osrelease"];
    for pipe in pipes {
        assert!(Command::new("mkfifo").arg(folder.path().join(pipe)).status().unwrap().success());
    }
    for what in ["platform", "kernel"] {
        let o = Command::new("timeout")
            .args(["60", env!("CARGO_BIN_EXE_wattif"), "import", what, "--sysfs", ".", "-o", "-"])
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert_ne!(o.status.code(), Some(124), "{what}");
        for pipe in &pipes[usize::from(what == "kernel")..] {
            let told = format!("{pipe} is no regular file: not read");
            assert!(err(&o).contains(&told), "{what}: {}", err(&o));
        }
        assert_eq!(out(&o).contains("cpus = \"1\""), what == "platform", "{what}: {}", out(&o));
    }
}

/// What is read stays, and of two results none is written over the other.
#[test]
fn no_file_is_read_and_written_or_written_twice() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("in.json"), SMALL).unwrap();
    let within = |args: &[&str]| wattif(args).current_dir(folder.path()).output().unwrap();
    let kernel = within(&["import", "kernel", "--sysfs", ".", "-o", "none.toml"]);
    assert_eq!(kernel.status.code(), Some(2), "{}", err(&kernel));
    std::fs::write(path("k.toml"), "name = 'k'\ninherits = 'linux-6.12'\n").unwrap();
    let small = ["-p", "hikey620", "--duration", "20ms"];
    let o = within(&[&["run", "in.json", "--trace", "t.txt"], &small[..]].concat());
    assert!(o.status.success(), "{}", err(&o));
    std::fs::copy(path("in.json"), path("in.svg")).unwrap();
    let names = ["in.json", "k.toml", "t.txt", "in.svg"];
    let kept: Vec<Vec<u8>> = names.iter().map(|name| std::fs::read(path(name)).unwrap()).collect();
    let two = ["-k", "linux-6.1", "-k", "k.toml", "--seeds", "1"];
    let cases: &[(&[&str], &str)] = &[
        (&["run", "in.json", "--trace", "./in.json", "--trace-format", "text"], "--trace ./in.json: that is in.json"),
        (&["run", "in.svg", "--plot", "in.svg"], "--plot in.svg: that is in.svg"),
        (
            &["run", "in.json", "-k", "k.toml", "--trace", "k.toml", "--trace-format", "dat"],
            "--trace k.toml: that is k.toml",
        ),
        (
            &["run", "in.json", "--trace", "a.html", "--trace-format", "text", "--report", "a.html"],
            "--report a.html: that is where",
        ),
        (&["compare", "in.json", "--arrow", "k.toml"], "--arrow k.toml: that is k.toml"),
        (&["compare", "in.json", "--plot", "a.svg", "--plot", "./a.svg"], "that is where --plot a.svg is written"),
        (
            &["sweep", "server", "--axis", "kernel=linux-6.1,k.toml", "--arrow", "k.toml"],
            "--arrow k.toml: that is k.toml",
        ),
        (
            &["sweep", "server", "--axis", "cpuidle=menu", "--arrow", "s", "--store", "s"],
            "that is where --store s is written",
        ),
        (&["replay", "in.svg", "--plot", "in.svg"], "--plot in.svg: that is in.svg"),
        (&["export", "t.txt", "t.txt"], "t.txt: that is t.txt"),
        (&["import", "workload", "t.txt", "-o", "t.txt"], "--output t.txt: that is t.txt"),
        (&["record", "-o", "t.txt", "--trace", "t.txt"], "--output t.txt: that is t.txt"),
        (
            &["repro", "sched_idle_placement", "--plot", "b.svg", "--plot", "b.svg"],
            "that is where --plot b.svg is written",
        ),
    ];
    for (args, why) in cases {
        let more = if args[0] == "compare" { &two[..] } else { &[] };
        let o = within(&[args, more].concat());
        assert_eq!((o.status.code(), out(&o).as_str()), (Some(2), ""), "{args:?}");
        assert!(err(&o).contains(why), "{args:?}: {}", err(&o));
    }
    for (name, kept) in names.iter().zip(&kept) {
        assert_eq!(std::fs::read(path(name)).unwrap(), *kept, "{name}");
    }
    // What is called like a model or a profile is not read.
    std::fs::write(path("server"), "").unwrap();
    let o = within(&[&["run", "server", "--trace", "server"], &small[..]].concat());
    assert!(o.status.success(), "{}", err(&o));
    // Standard input may be one of them.
    let args = ["run", "-", "--trace", "in.json", "--trace-format", "text"];
    let stdin = std::fs::File::open(path("in.json")).unwrap();
    let o = wattif(&args).current_dir(folder.path()).stdin(stdin).output().unwrap();
    if cfg!(target_os = "linux") {
        assert!(err(&o).contains("--trace in.json: that is standard input"), "{}", err(&o));
    }
}

/// An option that says the format is named as the verb has it.
#[test]
fn a_trace_by_an_ending_that_there_is_not() {
    let o = run_small(&["--trace", "run.pftrac"]);
    assert!(o.status.code() == Some(2) && err(&o).contains("or say --trace-format"), "{}", err(&o));
    let folder = tempfile::tempdir().unwrap();
    let within = |args: &[&str]| wattif(args).current_dir(folder.path()).output().unwrap();
    assert!(within(&["run", "server", "--duration", "10ms", "--trace", "t"]).status.success());
    let o = within(&["export", "t", "run.perfeto"]);
    assert!(o.status.code() == Some(2) && err(&o).contains("or say --format"), "{}", err(&o));
    assert!(within(&["export", "t", "run.perfeto", "--format", "perfetto"]).status.success());
    for name in ["a.htlm", "in.json", "a"] {
        let o = run_small(&["--report", name]);
        assert!(o.status.code() == Some(2) && err(&o).contains("NAME.html"), "{}", err(&o));
    }
}

/// One thing goes to standard output.
#[test]
fn a_table_on_standard_output_is_alone_there() {
    let compare = ["compare", "server", "-k", "linux-6.1", "-k", "linux-6.12", "--seeds", "1", "--duration", "10ms"];
    let sweep = ["sweep", "server", "--axis", "cpuidle=menu", "--duration", "10ms"];
    for (verb, option) in [(&compare[..], "--json"), (&compare, "--markdown"), (&sweep, "--json")] {
        let o = done(&[verb, &[option, "--arrow", "-"]].concat());
        assert_eq!((o.status.code(), out(&o).as_str()), (Some(2), ""), "{option}");
        assert!(err(&o).contains(&format!("{option} and --arrow - are both for standard output")), "{}", err(&o));
    }
}

#[test]
#[cfg(target_os = "linux")]
fn help_that_nobody_can_read_is_an_error() {
    for args in [&["--help"][..], &["--version"], &["run", "--help"], &["help", "sweep"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let o = wattif(args).stdout(full).output().unwrap();
        assert_eq!(o.status.code(), Some(2), "{args:?}");
        assert!(err(&o).starts_with("error: stdout: No space left"), "{args:?}: {}", err(&o));
        assert_eq!(done(args).status.code(), Some(0), "{args:?}");
    }
}

/// Names of results may be any; what is read by name is named where it is not UTF-8.
#[test]
#[cfg(target_os = "linux")]
fn names_that_are_not_utf_8() {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    let folder = tempfile::tempdir().unwrap();
    let odd = |ending: &str| OsString::from_vec([b"a\xff", ending.as_bytes()].concat());
    let mut run = wattif(&["run", "server", "--duration", "10ms"]);
    for (option, ending) in [("--trace", ".txt"), ("--report", ".html"), ("--plot", "-energy.svg"), ("--logs", "-logs")]
    {
        run.arg(option).arg(odd(ending));
    }
    let o = run.current_dir(folder.path()).output().unwrap();
    assert!(o.status.success(), "{}", err(&o));
    for ending in [".txt", ".html", "-energy.svg", "-logs"] {
        assert!(folder.path().join(odd(ending)).exists(), "{ending}");
    }
    let o = wattif(&["run"]).arg(odd(".json")).output().unwrap();
    assert_eq!(o.status.code(), Some(2));
    assert!(err(&o).contains("not UTF-8") && err(&o).contains(r#""a\xFF.json""#), "{}", err(&o));
}

#[test]
fn a_number_that_is_none_says_which_there_are() {
    for (args, range) in [
        (&["run", "-", "--seed", "-1"][..], "from 0 to 18446744073709551615"),
        (&["replay", "t.dat", "--seed", "x"], "from 0 to 18446744073709551615"),
        (&["compare", "-", "--seeds", "-1"], "from 1 to 100000"),
        (&["compare", "-", "--seeds", "0"], "from 1 to 100000"),
    ] {
        let o = done(args);
        assert_eq!(o.status.code(), Some(2), "{args:?}");
        assert!(err(&o).contains(&format!("write a whole number {range}")), "{args:?}: {}", err(&o));
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
fn models_take_parameters_behind_their_name() {
    let o = done(&["run", "openmp:schedule=static,workers=3,regions=2", "-p", "tc2", "-k", "linux-3.13", "--json"]);
    assert_eq!(o.status.code(), Some(0), "{}", err(&o));
    let json: serde_json::Value = serde_json::from_slice(&o.stdout).unwrap();
    assert_eq!(json["metrics"]["frames"]["region"]["duration_us"]["count"], 2);
    assert_eq!(json["tasks"].as_array().unwrap().iter().filter(|t| t["task"] == "worker").count(), 2);
    for (workload, part) in [
        ("openmp:workers=0", "`workers` takes a number in 1..=1024 or cpus, not `0`"),
        ("openmp:workers=10000", "not `10000`"),
        ("openmp:wrokers=4", "no parameter `wrokers`"),
        ("openmp:wrokers=4", "did you mean workers"),
        ("openmp:xyz=4", "`wattif explain openmp`"),
        ("openmp:workers=4,workers=5", "`workers` is given twice"),
        ("step_response:from_ms=200,to_ms=100", "`from_ms` = 200 is beyond `to_ms` = 100"),
        ("openmp:workers", "not ``"),
        ("hogs:tasks=0", "`tasks` takes a number"),
        ("opnmp:workers=4", "did you mean `openmp`"),
    ] {
        let o = done(&["run", workload, "-p", "tc2"]);
        assert_eq!(o.status.code(), Some(2), "{workload}");
        assert!(err(&o).contains(part), "{workload}: {}", err(&o));
    }
}

#[test]
fn platforms_say_what_they_lack() {
    let json = |args: &[&str]| -> serde_json::Value { serde_json::from_slice(&done(args).stdout).unwrap() };
    let list = json(&["list", "platforms", "--json"]);
    let lacks = |name: &str| {
        let item = list["items"].as_array().unwrap().iter().find(|i| i["name"] == name).unwrap();
        item["lacks"].as_array().map_or(String::new(), |l| l.iter().map(|t| t.as_str().unwrap()).collect())
    };
    for (name, what) in
        [("mt8195", "no OPP power"), ("xeon_spr", "no OPP power"), ("sdm835", "no absolute watts"), ("mt6858", "")]
    {
        assert!(lacks(name).starts_with(what) && what.is_empty() == lacks(name).is_empty(), "{name}: {}", lacks(name));
    }
    let text = out(&done(&["list", "platforms"]));
    assert!(text.lines().any(|l| l.starts_with("mt8195") && l.contains("no energy is reported")), "{text}");
}

/// What a benchmark prints stands in the text, and no figure is made up of too short a run.
#[test]
fn reports_speak_the_benchmarks_language() {
    let text = |args: &[&str]| out(&done(args));
    for (args, parts) in [
        (
            ["video", "2500ms"],
            &["fps", "jank %", "missed", "p25", "p75", "p95", "energy each", "Stages of a frame", "feeder"][..],
        ),
        (["pgbench", "1s"], &["Work done", "transaction", "per second"]),
        (["hackbench:groups=1,loops=5", "10s"], &["message", "done after"]),
    ] {
        let text = text(&["run", args[0], "--duration", args[1]]);
        parts.iter().for_each(|part| assert!(text.contains(*part), "{part} is missing in\n{text}"));
    }
    let short = done(&["run", "video", "--duration", "900ms", "--json"]);
    let short: serde_json::Value = serde_json::from_slice(&short.stdout).unwrap();
    let frame = &short["metrics"]["frames"]["frame"];
    assert!(frame["pace"]["fps"].is_null() && frame["pace"]["fps_stddev"].is_null(), "{frame}");
    assert!(frame["energy"].as_f64().unwrap() > 0.0 && frame["stages"]["feeder"]["run_us"].as_f64().unwrap() > 0.0);
    let kernels = ["-k", "linux-5.4", "-k", "linux-6.12", "--seeds", "2", "--duration", "1100ms", "--json"];
    let both = done(&[&["compare", "video"][..], &kernels].concat());
    let both: serde_json::Value = serde_json::from_slice(&both.stdout).unwrap();
    for name in ["frames.frame.fps", "frames.frame.jank_pct", "frames.frame.energy"] {
        assert!(both["metrics"].as_array().unwrap().iter().any(|m| m["name"] == name), "{name}");
    }
}

/// The recipe of the model's page gives what the mathematics say.
#[test]
fn step_responses_recipe_is_as_fine_as_it_says() {
    let model = wattif_model::workload::models::model("step_response").unwrap().manual();
    let recipe = model.lines().find_map(|l| l.strip_prefix("`wattif ")?.strip_suffix('`')).unwrap();
    let o = done(&recipe.split(' ').chain(["--json"]).collect::<Vec<_>>());
    let json: serde_json::Value = serde_json::from_slice(&o.stdout).unwrap();
    let ms = |figure: &str| json["metrics"]["signals"]["util_avg"][figure].as_f64().unwrap();
    assert!(
        (ms("rise_ms") - 145.0).abs() < 0.5 && (ms("fall_ms") - 111.5).abs() < 0.5,
        "{}",
        json["metrics"]["signals"]
    );
}

#[test]
fn sleepers_are_not_blocked_for_ever() {
    let o = done(&["run", "sleepers", "--duration", "1s"]);
    assert!(!(out(&o) + &err(&o)).contains("blocked for ever"), "{}", err(&o));
}

#[test]
fn powers_from_efficiency_need_a_platform_that_states_it() {
    let set = ["--set", "cpu_power.source=efficiency", "--duration", "10ms"];
    let run = |platform| done(&[&["run", "hogs", "-k", "linux-3.13", "-p", platform][..], &set].concat());
    assert_eq!(run("tc2").status.code(), Some(0));
    let o = run("hikey960");
    assert_eq!(o.status.code(), Some(2));
    assert!(err(&o).contains("`dt_clock_khz`") && err(&o).contains("hikey960"), "{}", err(&o));
}

/// One mistake a line: arguments besides the workload, the file, and what has to be said about it.
#[test]
fn mistakes_are_named() {
    let files: &[(&str, &[&str])] = &[
        (r#"{"tasks":{"a":{"run":"1000"}}}"#, &["rtapp::E04", "`run` must be an integer, not a string"]),
        (r#"{"tasks":{"a":{"run":1.5}}}"#, &["rtapp::E04", "whole microseconds"]),
        (r#"{"tasks":{"a":{"timer":1000}}}"#, &["rtapp::E04", "`timer` must be an object"]),
        (r#"{"tasks":{"a":{"lock":{},"run":1}}}"#, &["rtapp::E04", "`lock` must be a string"]),
        (r#"{"tasks":{"a":{"run":-1}}}"#, &["rtapp::E05", "`run` = `-1` is out of range"]),
        (r#"{"tasks":{"a":{"sleep":99999999999999999999}}}"#, &["rtapp::E05", "out of range"]),
        (r#"{"tasks":{"a":{"delay":9223372036854775807,"run":1}}}"#, &["rtapp::E05", "`delay`"]),
        (r#"{"tasks":{"a":{"instance":-2,"run":1}}}"#, &["rtapp::E05", "`instance`"]),
        (r#"{"tasks":{"a":{"policy":"SCHED_EXT","run":1}}}"#, &["rtapp::E06", "SCHED_DEADLINE"]),
        (r#"{"tasks":{"a":{"policy":"SCHED_FIFO","priority":-3,"run":1}}}"#, &["rtapp::E14", "1..=99"]),
        (r#"{"tasks":{"a":{"priority":30,"run":1}}}"#, &["rtapp::E14", "-20..=19"]),
        (r#"{"tasks":{"a":{"policy":"SCHED_DEADLINE","run":1}}}"#, &["rtapp::E14", "dl-runtime <= dl-deadline"]),
        (r#"{"tasks":{"a":{"util_min":900,"util_max":100,"run":1}}}"#, &["rtapp::E14", "above util_max"]),
        (r#"{"tasks":{"a":{"policy":"SCHED_RR","taskgroup":"/g","run":1}}}"#, &["rtapp::E14", "fair tasks only"]),
        (r#"{"tasks":{"a":{"loop":3}}}"#, &["rtapp::E07", "no events found"]),
        (r#"{"tasks":{"a":{"loop":1.5,"run":1}}}"#, &["rtapp::E04", "an integer, not a float", "without a point"]),
        (
            r#"{"tasks":{"a":{"run":1,"fork":"worke"},"worker":{"instance":0,"run":1}}}"#,
            &["rtapp::E08", "did you mean `worker`?"],
        ),
        (r#"{"tasks":{"a":{"cpus":[8],"run":1}}}"#, &["rtapp::E09", "CPU 8 does not exist", "has 8 (0..=7)"]),
        (r#"{"tasks":{"a":{"cpus":[],"run":1}}}"#, &["rtapp::E09", "names no CPU"]),
        (r#"{"tasks":{"a":{"signal":"c"}}}"#, &["rtapp::E11", "never ends", "give it a run, sleep or timer"]),
        (r#"{"tasks":{"a":{"loop":2000000000,"signal":"c"}}}"#, &["rtapp::W14", "less than 50 ns for each"]),
        // It does consume time, but a second of it is a billion events.
        (r#"{"tasks":{"a":{"mem":4}}}"#, &["less than 50 ns for each"]),
        (r#"{"tasks":{"a":{"memrun":{"type":"read","size":64,"count":1}}}}"#, &["less than 50 ns for each"]),
        (r#"{"tasks":{"a":{"memrun":{"type":"read"},"run":1}}}"#, &["rtapp::E03", "needs the key `size`"]),
        (r#"{"global":{}}"#, &["rtapp::E03", "`tasks` is missing"]),
        (r#"{"tasks":{}}"#, &["rtapp::E03", "no tasks"]),
        (r#"{"tasks":{"a":{"run":1}},"global":{"calibration":"CPU9"}}"#, &["rtapp::E09", "CPU 9"]),
        ("", &["rtapp::E01", "the file is empty", "the smallest workload"]),
        ("{'tasks':{\"a\":{\"run\":1", &["rtapp::E01", "never ends", "is it cut off?"]),
        (
            "{\"tasks\":{\"a\":{\"run\":1 \"sleep\":2,\n\"loop\":yes, cpus:[0]}}}",
            &[
                "[stdin:1:23]",
                "a comma is missing",
                "[stdin:2:8]",
                "`yes` is no value",
                "[stdin:2:13]",
                "in double quotes",
            ],
        ),
    ];
    for (file, said) in files {
        let o = with_stdin(&["run", "-", "-p", "hikey620", "--duration", "10ms"], file.as_bytes());
        assert_eq!(o.status.code(), Some(2), "{file}: {}", err(&o));
        assert!(said.iter().all(|s| err(&o).contains(s)), "{file}: {said:?} in {}", err(&o));
        assert_eq!(out(&o), "", "{file}");
    }
}

#[test]
fn unknown_keys_are_warned_of_and_do_not_stop_a_run() {
    let file = r#"{"tasks":{"a":{"rum":5,"run":100,"sleep":100,"loopp":3,"runner":3,"frag":1}},"globl":{}}"#;
    let o = with_stdin(&["run", "-", "-p", "hikey620", "--duration", "10ms"], file.as_bytes());
    assert_eq!(o.status.code(), Some(0), "{}", err(&o));
    for said in [
        "did you mean `run`?",
        "did you mean `loop`?",
        "did you mean `global`?",
        "`runner` is read as an event `run`",
        "unknown key `frag`",
    ] {
        assert!(err(&o).contains(said), "{said}: {}", err(&o));
    }
    let file = r#"{"tasks":{"a":{"slep":5,"runtme":100,"sleep":100}}}"#;
    let o = with_stdin(&["run", "-", "-p", "hikey620", "--duration", "10ms"], file.as_bytes());
    for said in ["did you mean `sleep`?", "`runtme` is read as an event `run`", "did you mean `runtime`?"] {
        assert!(err(&o).contains(said), "{said}: {}", err(&o));
    }
}

#[test]
fn names_do_not_steer_the_terminal() {
    let file = "{\"tasks\":{\"a\\u001b[2J\":{\"lock\":\"m\\u001b[2J\",\"run\":5}}}";
    for more in [&[][..], &["--json"]] {
        let o = with_stdin(&[&["run", "-", "--duration", "10ms"], more].concat(), file.as_bytes());
        assert_eq!(o.status.code(), Some(0), "{}", err(&o));
        assert!(!(out(&o) + &err(&o)).contains('\u{1b}'), "{}{}", out(&o), err(&o));
    }
}

#[test]
fn unknown_settings_say_what_is_near() {
    for (set, said) in [
        ("teo.utill=1", "--set teo.utill=1: `teo` has no tunable `utill`"),
        ("tasks.a.instance=0", "workload.tasks.a.instance=…"),
        ("teo.interval=1", "did you mean teo.intervals?"),
        ("teo.generation=9", "takes one of 5.1, 5.4, 5.6, 5.14, 6.1,"),
        ("teo_weighted.learning_rate=0", "takes one of auto, 1 to 49, not `0`"),
        ("teo_weighted.learning_rate=50", "takes one of auto, 1 to 49, not `50`"),
        ("teo_weighted.aging_ms=1000001", "takes one of 0 to 1000000, not `1000001`"),
        ("features.SIS_PRO=true", "did you mean SIS_PROP?"),
        ("cpufreq=schedutl", "did you mean schedutil"),
        ("cpufrq=performance", "did you mean cpufreq?"),
        ("policies.cpuidel=teo", "did you mean cpuidle?"),
        ("cpufrq.schedutil.rate_limit_us=500", "did you mean cpufreq?"),
        ("cpufreqq.x=1", "did you mean cpufreq?"),
        ("cpufreq.x=1", "cpufreq=POLICY"),
        ("feature.SIS_PROP=true", "did you mean features?"),
        ("platfrom.hz=100", "did you mean platform?"),
        ("cpuidle=too", "did you mean teo?"),
        ("load=wlat", "did you mean walt?"),
        ("load=UTILEST", "`wattif list policies`"),
        ("cpuidle=too", "(built in): --set cpuidle=too"),
        ("schedutil.hispeed_freq_khz=1", "takes one of auto, 0, 1000 to 10000000, not `1`"),
        ("schedutil.hispeed_freq_khz=99999999", "not `99999999`"),
        ("schedutil.rate_limit_us=soon", "takes one of auto, 0 to 4294967295, not `soon`"),
        ("schedutil.rate_limit_us=-1", "takes one of auto, 0 to 4294967295, not `-1`"),
        ("schedutil.rate_limit_us=18446744073709551615", "not `18446744073709551615`"),
        ("platform.hz=0", "out of range"),
        ("platform.hz=99999999999999999999", "hz"),
        ("workload.tasks.a.rum.x=3", "rtapp::E15"),
    ] {
        let o = run_small(&["--set", set]);
        assert_eq!(o.status.code(), Some(2), "--set {set}");
        assert!(err(&o).contains(said), "--set {set}: {}", err(&o));
    }
    let o = done(&["run", "servr"]);
    assert!(err(&o).contains("did you mean `server`?"), "{}", err(&o));
}

#[test]
fn every_mistake_of_a_kernel_profile_shows_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("k.toml").display().to_string();
    let refused = |text: &str| {
        std::fs::write(&path, text).unwrap();
        let o = done(&["run", "server", "-k", &path, "--duration", "10ms"]);
        assert_eq!(o.status.code(), Some(2), "{}", err(&o));
        err(&o)
    };
    let head = "name = 'mine'\ninherits = 'linux-6.12'\n";
    let said = refused(&format!(
        "{head}[policies]\ncpuidle = \"too\"\n[cpufreq.schedutil]\nrate_limt_us = 5\n[features]\nSIS_UTL = true\nSIS_PROP = 3\n"
    ));
    for part in [
        "[",
        "k.toml:4:",
        "`too` is no policy of kind cpuidle",
        "did you mean teo",
        "schedutil.rate_limit_us",
        "SIS_UTIL",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(said.contains("must be true or false"), "also what the reader says: {said}");
    let said = refused("name = 'mine'\ninherits = 'linux-6.13'\n");
    assert!(said.contains("linux-6.12") && said.matches("kernel::E").count() == 1, "{said}");
    let said = refused(&format!("{head}hz = 1\n"));
    assert!(said.contains("out of range"), "{said}");
}

#[test]
fn kernels_are_listed_with_their_differences() {
    let text = out(&done(&["list", "kernels"]));
    let (_, of) = text.split_once("linux-5.4, where it is not as linux-5.3\n").expect("a section for each");
    let of = of.split("\n\n").next().unwrap();
    assert!(of.contains("select_idle_sibling.sched_idle") && of.contains("5.4"), "{of}");
    let json: serde_json::Value = serde_json::from_slice(&done(&["list", "kernels", "--json"]).stdout).unwrap();
    let items = json["items"].as_array().unwrap();
    let eevdf = items.iter().find(|i| i["name"] == "linux-6.6").unwrap();
    assert_eq!(eevdf["inherits"], "linux-6.1");
    let class = eevdf["changes"].as_array().unwrap().iter().find(|c| c["what"] == "class").unwrap();
    assert_eq!((&class["from"], &class["to"]), (&"cfs".into(), &"eevdf".into()));
}

/// A profile's own tick is the one that counts.
#[test]
fn ticks_of_the_kernel() {
    let figure = |set: &[&str]| {
        let o = run_small(&[&["--json"], set].concat());
        assert_eq!(o.status.code(), Some(0), "{}", err(&o));
        serde_json::from_slice::<serde_json::Value>(&o.stdout).unwrap()["digest"].clone()
    };
    assert_eq!(figure(&["--set", "hz=1000"]), figure(&["--set", "platform.hz=1000"]));
    assert_ne!(figure(&["--set", "hz=1000"]), figure(&["--set", "hz=100"]));
}

#[test]
fn files_that_are_no_such_thing() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let platform = wattif::data::Collection::Platforms.built_in("hikey620").unwrap().text;
    let kernel = wattif::data::Collection::Kernels.built_in("linux-6.12").unwrap().text;
    std::fs::write(path("w.json"), SMALL).unwrap();
    std::fs::write(path("bin.toml"), b"\xff\xfe\0").unwrap();
    for at in (0..platform.len() / 2).step_by(97).filter(|at| platform.is_char_boundary(*at)) {
        std::fs::write(path("p.toml"), &platform[..at]).unwrap();
        let o = done(&["run", &path("w.json"), "-p", &path("p.toml"), "--duration", "1ms"]);
        assert_eq!(o.status.code(), Some(2), "platform cut at {at}: {}", err(&o));
        assert!(!err(&o).is_empty());
    }
    let cut = kernel.find("inherits").unwrap();
    std::fs::write(path("k.toml"), &kernel[..cut]).unwrap();
    for args in [
        ["-k", &path("k.toml")],
        ["-k", &path("bin.toml")],
        ["-p", &path("bin.toml")],
        ["-k", &path("w.json")],
        ["-p", &path("w.json")],
        ["-p", dir.path().to_str().unwrap()],
    ] {
        let o = done(&["run", &path("w.json"), args[0], args[1], "--duration", "1ms"]);
        assert_eq!(o.status.code(), Some(2), "{args:?}: {}", err(&o));
    }
}

#[test]
fn many_tasks_and_large_files_are_answered() {
    let tasks: Vec<String> = (0..100_000).map(|i| format!("\"t{i}\":{{\"run\":1000}}")).collect();
    let many = format!("{{\"tasks\":{{{}}}}}", tasks.join(","));
    let instances = r#"{"tasks":{"a":{"instance":100000,"run":1000}}}"#.to_string();
    let forks = r#"{"tasks":{"a":{"run":10,"fork":"b"},"b":{"instance":0,"loop":1,"run":10}}}"#.to_string();
    let large = format!("{{\"tasks\":{{\"a\":{{\"run\":1}}}},\"x\":\"{}\"}}", "x".repeat(100 << 20));
    for (text, said) in [
        (&many, "100000 tasks; the limit is 65536"),
        (&instances, "100000 threads"),
        (&forks, "1024 is the limit"),
        (&large, "the limit is 67108864 (64 MiB)"),
    ] {
        let o = with_stdin(&["run", "-", "-p", "hikey620", "--duration", "1s"], text.as_bytes());
        assert_eq!(o.status.code(), Some(2), "{}", err(&o));
        assert!(err(&o).contains(said), "{said}: {}", err(&o));
    }
    let some = r#"{"tasks":{"a":{"instance":5000,"run":1000,"sleep":1000}}}"#;
    let o = with_stdin(&["run", "-", "-p", "hikey620", "--duration", "20ms"], some.as_bytes());
    assert_eq!(o.status.code(), Some(0), "{}", err(&o));
    // As many tasks as threads: their metrics take no longer.
    let tasks: Vec<String> = (0..30_000).map(|i| format!("\"t{i}\":{{\"run\":1000,\"sleep\":1000}}")).collect();
    let distinct = format!("{{\"tasks\":{{{}}}}}", tasks.join(","));
    let o = with_stdin(&["run", "-", "-p", "hikey620", "--duration", "20ms", "--json"], distinct.as_bytes());
    assert_eq!(o.status.code(), Some(0), "{}", err(&o));
}

#[test]
fn defaults_are_printed() {
    let text = out(&with_stdin(&["run", "-", "--duration", "10ms"], SMALL.as_bytes()));
    assert!(text.contains("platform  hikey960:") && text.contains("kernel    linux-6.12:"), "{text}");
    let text = out(&with_stdin(&["run", "-", "-p", "hikey620"], SMALL.as_bytes()));
    assert!(text.contains(" 1 s, seed 1"), "the file's own duration: {text}");
}

/// Every tunable at the ends of its ranges: a run, never a panic. Beside them, and where 32 bits end: an error.
#[test]
fn tunables_at_their_ends() {
    use wattif::{Dialect, RunSpec, Settings, load};
    let platform = load::platform("hikey620", &Settings::default()).unwrap().value;
    let workload = load::workload("server", 8, Dialect::Workgen, &Settings::default()).unwrap().value.workload;
    for policy in wattif_sim::registry::POLICIES {
        let range = |a: &&str| a.split_once("..=").map(|(lo, hi)| (lo.parse().unwrap(), hi.parse().unwrap()));
        for (tunable, (lo, hi)) in
            policy.tunables.iter().flat_map(|t| t.allowed.iter().filter_map(range).map(move |r| (t, r)))
        {
            let slot = policy.selectable.then(|| format!("{}={}", policy.slot.name(), policy.name));
            let path = format!("{}.{}", policy.name, tunable.name);
            // Budgets and their periods are limits of each other.
            let beside: &[&str] = match path.as_str() {
                "rt.sched_rt_runtime_us" => &["rt.sched_rt_period_us=2147483647"],
                "rt.sched_rt_period_us" => &["rt.sched_rt_runtime_us=1"],
                "deadline.fair_server_runtime_us" => {
                    &["rt.sched_rt_runtime_us=-1", "deadline.fair_server_period_us=4194304"]
                }
                "deadline.fair_server_period_us" => &["deadline.fair_server_runtime_us=95"],
                _ => &[],
            };
            let refused = |value: i64| {
                let set = format!("{}.{}={value}", policy.name, tunable.name);
                let all: Vec<&str> =
                    slot.iter().map(String::as_str).chain(beside.iter().copied()).chain([set.as_str()]).collect();
                let Ok(kernel) = load::kernel("linux-6.12", &Settings::parse(&all).unwrap()) else { return true };
                let (platform, workload) = (platform.clone(), workload.clone());
                let spec =
                    RunSpec { platform, workload, kernel: kernel.value, seed: 1, duration: wattif::Ns::from_ms(30) };
                let ended = std::panic::catch_unwind(|| wattif::run::run(&spec, &mut []));
                assert!(ended.is_ok(), "--set {all:?} panics");
                false
            };
            let words = |value: i64| tunable.allowed.contains(&value.to_string().as_str());
            // Conservative thresholds must not cross, and no period is as long as the longest budget.
            let crosses = ["conservative.down_threshold", "rt.sched_rt_runtime_us"].contains(&path.as_str());
            assert!(!refused(hi) || crosses, "{path} at {hi}");
            assert!(!refused(lo) || path == "conservative.up_threshold", "{path} at {lo}");
            assert!(refused(hi + 1), "{path} above {hi}");
            assert!(refused(lo - 1) || words(lo - 1), "{path} below {lo}");
            assert!(refused(1 << 32) == (hi < 1 << 32) || crosses, "{path} where 32 bits end");
        }
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
fn a_negative_value_is_a_wrong_value_and_no_flag() {
    for args in [&["run", "x", "--seed", "-1"][..], &["compare", "x", "--seeds", "-3"], &["lab", "--port", "-1"]] {
        let o = done(args);
        let value = args.last().unwrap();
        assert_eq!(o.status.code(), Some(2), "{args:?}");
        assert!(err(&o).contains(&format!("invalid value '{value}' for")), "{}", err(&o));
    }
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
    // As much on trust as the text says.
    let text = out(&run_small(&[]));
    for line in json["trust"].as_array().unwrap() {
        assert!(text.contains(&format!("- {}", line.as_str().unwrap())), "{line}");
    }
    assert!(json["trust"].to_string().contains("only ratios mean something"));
}

#[test]
fn a_setting_that_is_set_again_is_told() {
    let o = run_small(&["--set", "cpufreq=powersave", "--set", "cpufreq=performance"]);
    assert!(err(&o).contains("cpufreq=powersave has no effect"), "{}", err(&o));
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
    assert!(text.contains("# wattif thread "), "policies of threads");
    for line in text.lines().skip(1).filter(|line| !line.starts_with('#')) {
        let (_, rest) = line.split_once('[').expect("a CPU");
        let (flags, time) = rest.split_once(']').unwrap().1.trim_start().split_once(' ').expect("flags");
        assert_eq!(flags.len(), 5, "{line}");
        let time: f64 = time.split(':').next().unwrap().trim().parse().expect("a time");
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

/// Files of `run --json`: what differs in more than the kernel is refused, and named.
#[test]
fn run_files_are_compared_and_explained() {
    let dir = tempfile::tempdir().unwrap();
    let record = |name: &str, more: &[&str]| {
        let args = ["run", "server", "-p", "hikey620", "-k", "linux-5.6", "--duration", "50ms", "--json"];
        let path = dir.path().join(name).display().to_string();
        std::fs::write(&path, done(&[&args[..], more].concat()).stdout).unwrap();
        path
    };
    let a = record("a.json", &[]);
    let b = record("b.json", &["--set", "cpuidle=teo"]);
    let explained = done(&["explain", &a, &b, "--seeds", "2", "--rerun", "20ms", "--json"]);
    assert_eq!(explained.status.code(), Some(0), "{}", err(&explained));
    let json: serde_json::Value = serde_json::from_slice(&explained.stdout).unwrap();
    assert_eq!(
        (json["schema"].as_str(), &json["shares"][0]["shares"][2]["part"]),
        (Some("wattif.explain/1"), &"idle".into())
    );
    let whole = json["energy"]["difference_fj"].as_i64().unwrap();
    for split in ["by_state", "by_task"] {
        let rows = json["energy"][split].as_array().unwrap();
        assert_eq!(rows.iter().map(|r| r["difference_fj"].as_i64().unwrap()).sum::<i64>(), whole, "{split}");
    }
    let compared = done(&["compare", &a, &b, "--seeds", "2", "--markdown"]);
    assert!(out(&compared).contains("digest  ") && out(&compared).contains("again     wattif compare"));
    let text = std::fs::read_to_string(&a).unwrap();
    std::fs::write(&b, text.replacen("\"hz\": 250", "\"hz\": 300", 1)).unwrap();
    assert!(err(&done(&["explain", &a, &b])).contains("does not have its spec.hash"));
    std::fs::write(&b, &text[..text.len() / 2]).unwrap();
    assert!(err(&done(&["explain", &a, &b])).contains("not JSON"));
    // With its right hash, but of no machine that could be.
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    json["spec"]["content"]["platform"]["cpus"][1]["domain"] = 64.into();
    let content: wattif_model::run::RunSpec = serde_json::from_value(json["spec"]["content"].clone()).unwrap();
    json["spec"]["hash"] = content.hash().into();
    std::fs::write(&b, json.to_string()).unwrap();
    for args in [&["explain", &b, &b][..], &["compare", &b, &b, "--seeds", "1"]] {
        let o = done(args);
        assert_eq!(o.status.code(), Some(2), "{}", err(&o));
        assert!(err(&o).contains("its spec.content is no run: "), "{}", err(&o));
    }
}

#[test]
fn a_closed_pipe_is_no_bug() {
    let mut child = wattif(&["list", "platforms"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_model_as_rt_app_json() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("video.json");
    let path = path.to_str().unwrap();
    let o = done(&["export", "video:fps=60,workers=2", path]);
    assert_eq!(o.status.code(), Some(0));
    let told = String::from_utf8_lossy(&o.stderr);
    assert!(told.contains("random amounts became their mean") && told.contains("marks"), "{told}");
    assert!(told.contains("idle governors see them coming as their next timer"), "{told}");
    let slices = |workload: &str| {
        let o = done(&["run", workload, "--duration", "1s", "--json"]);
        let json: serde_json::Value = serde_json::from_slice(&o.stdout).unwrap();
        json["metrics"]["slices"].as_f64().unwrap()
    };
    let (model, file) = (slices("video:fps=60,workers=2"), slices(path));
    assert!((file / model - 1.0).abs() < 0.2, "{file} slices of the file, {model} of the model");
    // Our own JSON holds everything.
    let ours = out(&done(&["export", "server", "-", "-p", "rk3588", "--ours"]));
    assert!(ours.contains("\"Random\""), "{ours}");
    assert_eq!(done(&["export", "nonsense", path]).status.code(), Some(2));
    // What was written can be run, also where semaphores begin with many thousands of posts.
    for model in ["hackbench:loops=1", "game", "antutu:part_ms=10"] {
        assert_eq!(done(&["export", model, path]).status.code(), Some(0), "{model}");
        let o = done(&["run", path, "--duration", "50ms"]);
        assert_eq!(o.status.code(), Some(0), "{model}: {}", err(&o));
    }
}

/// A run of `wattif` and its answer to `--json`.
fn json(args: &[&str]) -> serde_json::Value {
    let o = done(args);
    serde_json::from_slice(&o.stdout).unwrap_or_else(|e| panic!("{args:?}: {e}: {}", err(&o)))
}

/// On CPUs that are alike, at full speed: shares of all work, as the tables of the use cases state them.
#[test]
fn use_cases_have_the_shares_of_their_tables() {
    let tables: [(&str, &[(&str, f64)]); 2] = [
        ("video", &[("render", 18.0), ("TimedEventQueue", 30.0), ("audio_decode", 10.0)]),
        ("game", &[("engine", 50.0), ("worker", 8.0 * 0.4), ("render", 6.0), ("kworker", 3.0)]),
    ];
    for (case, table) in tables {
        let workload = format!("usecase:case={case}");
        let found =
            json(&["run", &workload, "-p", "hikey620", "--set", "cpufreq=performance", "--duration", "5s", "--json"]);
        let of = |wanted: &dyn Fn(&str) -> bool| -> f64 {
            let tasks = found["tasks"].as_array().unwrap().iter();
            tasks.filter(|t| wanted(t["name"].as_str().unwrap())).map(|t| t["runtime_s"].as_f64().unwrap()).sum()
        };
        let all = of(&|_| true);
        for (name, published) in table {
            let named = |task: &str| task == *name || task.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'));
            let share = 100.0 * of(&named) / all;
            assert!((share - published).abs() < 2.0, "{case}: {name} has {share:.1} %, published {published}");
        }
    }
}

#[test]
fn seeds_end_where_numbers_do() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.json");
    std::fs::write(&file, SMALL).unwrap();
    let (file, store) = (file.to_str().unwrap(), dir.path().join("s.sqlite"));
    let two = ["-k", "linux-5.3", "-k", "linux-5.6"];
    let compare = [&["compare", file], &two[..]].concat();
    let sweep = ["sweep", file, "--axis", "cpuidle=menu,teo", "--store", store.to_str().unwrap()];
    let tune = ["tune", file, "--axis", "cpuidle=menu,teo", "--store", store.to_str().unwrap()];
    for verb in [
        &[&compare[..], &["--seeds", "2"]].concat()[..],
        &compare,
        &["explain", "linux-5.3", "linux-5.6", file],
        &["bisect", "linux-5.3", "linux-5.6", file],
        &[&sweep[..], &["--seeds", "2"]].concat(),
        &tune,
    ] {
        let o = done(&[verb, &["--duration", "20ms", "--seed", "18446744073709551615"]].concat());
        assert_eq!((o.status.code(), out(&o)), (Some(2), String::new()), "{verb:?}");
        assert!(err(&o).contains("the last one, 18446744073709551615: take a lower --seed"), "{verb:?}: {}", err(&o));
    }
    for (seeds, first) in [("2", "18446744073709551614"), ("1", "18446744073709551615")] {
        let last = done(&[&compare[..], &["--seeds", seeds, "--duration", "20ms", "--seed", first]].concat());
        assert_eq!(last.status.code(), Some(0), "{}", err(&last));
    }
}

/// `export` and back is the same run: what the file says of calibration and logs is kept.
#[test]
fn calibration_survives_an_export() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
    for global in ["", r#""calibration": "CPU4""#, r#""calibration": 100, "cumulative_slack": true"#] {
        let tasks = r#"{"a": {"run": 1000, "sleep": 2000, "loop": 5}}"#;
        std::fs::write(path("cal.json"), format!(r#"{{"global": {{{global}}}, "tasks": {tasks}}}"#)).unwrap();
        assert_eq!(done(&["export", &path("cal.json"), &path("cal2.json")]).status.code(), Some(0));
        assert_eq!(done(&["export", &path("cal.json"), &path("ours.json"), "--ours"]).status.code(), Some(0));
        for platform in ["hikey960", "guest_arm64_4l4b"] {
            let work = |file: &str| {
                let run = json(&["run", &path(file), "-p", platform, "--duration", "100ms", "--json"]);
                (run["digest"].clone(), run["metrics"]["energy"].clone())
            };
            assert_eq!(work("cal.json"), work("cal2.json"), "{global} on {platform}");
            assert_eq!(work("cal.json"), work("ours.json"), "{global} on {platform}, in our own words");
        }
    }
}

/// Work in `runtime` takes as many pieces as the clock allows.
#[test]
fn loops_of_runtime_are_those_done() {
    let dir = tempfile::tempdir().unwrap();
    let perf = |runtime: u64, governor: &str| {
        let folder = dir.path().join(format!("{governor}{runtime}"));
        let task = format!(r#"{{"loop": 3, "cpus": [0], "runtime0": {runtime}, "sleep": 1000}}"#);
        let file = format!(r#"{{"global": {{"calibration": 1}}, "tasks": {{"a": {task}}}}}"#);
        let governor = format!("cpufreq={governor}");
        let args = ["run", "-", "-p", "hikey960", "--set", &governor, "--logs", folder.to_str().unwrap()];
        let o = with_stdin(&args, file.as_bytes());
        assert_eq!(o.status.code(), Some(0), "{}", err(&o));
        let text = std::fs::read_to_string(folder.join("rt-app-a-0.log")).unwrap();
        text.lines().last().unwrap().split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    assert_eq!(perf(1, "performance"), 32, "one piece");
    let (slow, fast) = (perf(10_000, "powersave"), perf(10_000, "performance"));
    assert!((2_700..3_100).contains(&slow) && (9_800..10_100).contains(&fast), "{slow} {fast}");
    assert_eq!(slow % 32, 0);
}

/// rt-app's own lines stand in a trace where its file asks for them, and only those.
#[test]
fn markers_of_rt_app_are_in_traces() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
    let traced = |global: &str, name: &str| {
        let file = format!(r#"{{"global": {{{global}}}, "tasks": {{"a": {{"loop": 2, "run": 100, "sleep": 100}}}}}}"#);
        let o = with_stdin(&["run", "-", "-p", "hikey620", "--trace", &path(name)], file.as_bytes());
        assert!(o.status.success() && !err(&o).contains("ftrace"), "{}", err(&o));
        std::fs::read(path(name)).unwrap()
    };
    let lines = |trace: Vec<u8>| {
        let text = String::from_utf8(trace).unwrap();
        let marked = text.lines().filter_map(|l| Some(l.split_once("tracing_mark_write:")?.1.trim().to_string()));
        marked.collect::<Vec<_>>()
    };
    assert!(lines(traced("", "none.txt")).is_empty());
    let all = lines(traced(r#""ftrace": "main,TASK,loop,event,stats""#, "all.txt"));
    assert_eq!(all[..2], ["rtapp_main: event=start", "rtapp_main: event=clock_ref data=0"]);
    let thread = ["rtapp_task: event=start", "rtapp_loop: event=start thread_loop=0 phase=0 phase_loop=0"];
    assert_eq!((&all[2..4], all[4].as_str()), (&thread.map(String::from)[..], "rtapp_event: id=0 type=6 desc=run"));
    assert_eq!(all.iter().filter(|l| l.starts_with("rtapp_stats: period=")).count(), 2);
    assert_eq!(all[all.len() - 2..], ["rtapp_task: event=end", "rtapp_main: event=end"]);
    let some = lines(traced(r#""ftrace": "loop""#, "some.txt"));
    assert!(some.len() == 4 && some.iter().all(|l| l.starts_with("rtapp_loop: ")), "{some:?}");
    // In trace.dat they are events `print`, which our reader counts; a long one has a length of its own.
    let dat = traced(r#""ftrace": "main,task,loop,event,stats""#, "all.dat");
    let held = |what: &str| dat.windows(what.len()).any(|w| w == what.as_bytes());
    assert!(held("name: print\nID: 5\n") && held("rtapp_main: event=end\n\0"));
    let read = done(&["import", &path("all.dat")]);
    assert!(err(&read).contains(&format!("`print` {}", all.len())), "{}", err(&read));
}

/// The keys of `global` that rt-app's logs follow.
#[test]
fn logs_follow_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let logs = |name: &str, global: &str| {
        let folder = dir.path().join(name);
        let timers = r#""timer0": {"ref": "unique1", "period": 6000}, "timer1": {"ref": "unique1", "period": 6000}, "#;
        let second = r#""run1": 1000, "timer2": {"ref": "unique2", "period": 6500}"#;
        let file =
            format!(r#"{{"global": {{{global}}}, "tasks": {{"a": {{"loop": 1, "run": 1000, {timers}{second}}}}}}}"#);
        let at = folder.to_str().unwrap();
        let args = ["run", "-", "-p", "a83t", "--set", "cpufreq=performance", "--duration", "100ms", "--logs", at];
        let o = with_stdin(&args, file.as_bytes());
        assert_eq!(o.status.code(), Some(0), "{}", err(&o));
        let files = std::fs::read_dir(&folder).into_iter().flatten().map(|f| f.unwrap().path());
        let line = |path: std::path::PathBuf| {
            let text = std::fs::read_to_string(&path).unwrap();
            let numbers: Vec<i64> =
                text.lines().last().unwrap().split_whitespace().map(|n| n.parse().unwrap()).collect();
            (path.file_name().unwrap().to_str().unwrap().to_string(), numbers)
        };
        files.map(line).collect::<Vec<_>>()
    };
    let (perf, slack) = (1, 7);
    let usual = &logs("usual", "")[0];
    assert_eq!((usual.0.as_str(), usual.1[perf]), ("rt-app-a-0.log", 2));
    let own = &logs("own", r#""log_basename": "foo", "calibration": 100"#)[0];
    assert_eq!((own.0.as_str(), own.1[perf]), ("foo-a-0.log", 20));
    assert!(logs("none", r#""log_size": "disable""#).is_empty());
    assert!(logs("unknown", r#""log_size": "Auto""#).is_empty());
    assert_eq!(logs("auto", r#""log_size": "auto""#).len(), 1);
    let sum = &logs("sum", r#""cumulative_slack": true"#)[0];
    // After the first two timers 12 ms have passed, and a ms of work comes on top.
    assert!((-6800..-6300).contains(&usual.1[slack]), "{usual:?}");
    assert!(sum.1[slack] > usual.1[slack] + 9000, "{sum:?} {usual:?}");
}

#[test]
fn what_was_asked_is_what_is_told() {
    // A run that ends early says so.
    let short = r#"{"tasks": {"a": {"loop": 20, "run": 100, "timer": {"ref": "unique", "period": 10000}}}}"#;
    let o = with_stdin(&["run", "-", "--duration", "1s"], short.as_bytes());
    assert!(out(&o).lines().any(|l| l.starts_with("ended     at 0.2")), "{}", out(&o));
    assert!(!out(&run_small(&[])).contains("ended     at"));
    // An experiment is no workload.
    let o = done(&["run", "sched_idle_placement"]);
    assert!(o.status.code() == Some(2) && err(&o).contains("wattif repro sched_idle_placement"), "{}", err(&o));
    // Fewer seeds than the experiment has, and the experiment named twice.
    let o = done(&["repro", "sched_idle_placement", "gallery/sched_idle_placement/", "--seeds", "3"]);
    let text = out(&o);
    assert_eq!(text.matches("3 seeds per arm; too few for intervals").count(), 1, "{text}");
    assert!(!text.contains("20 seeds"), "{text}");
    // Two names for the exact dialect.
    let twice = r#"{"tasks": {"a": {"loop": 1, "run": 1, "run": 2}}}"#;
    for name in ["rtapp", "rt-app"] {
        assert!(err(&with_stdin(&["run", "-", "--dialect", name], twice.as_bytes())).contains("W02"), "{name}");
    }
    // Figures are SVG.
    let o = run_small(&["--plot", "a.png"]);
    assert!(o.status.code() == Some(2) && err(&o).contains("NAME.svg"), "{}", err(&o));
    // The mistake of an override is the override's.
    let o = run_small(&["--set", "workload.tasks.a.run=abc"]);
    assert!(err(&o).contains("--set workload.tasks.a.run=abc: `run` must be an integer"), "{}", err(&o));
    assert!(!err(&o).contains("rt-app refuses it"), "{}", err(&o));
    // More events in a row without time than a run allows are not said to loop.
    let bounded = r#"{"tasks": {"a": {"phases": {"p": {"loop": 60000, "lock": "m", "unlock": "m"}, "q": {"run": 1000, "sleep": 1000}}}}}"#;
    let o = with_stdin(&["run", "-", "--duration", "10ms"], bounded.as_bytes());
    assert!(err(&o).contains("more than 100000 events in a row"), "{}", err(&o));
}

/// A file that says it is too large is not read.
#[test]
#[cfg(target_os = "linux")]
fn a_file_over_the_limit_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("large.json");
    std::fs::File::create(&path).unwrap().set_len(20 << 30).unwrap();
    let path = path.to_str().unwrap();
    for args in [&["run", path][..], &["run", "ebizzy", "-p", path], &["import", "platform", path]] {
        // Not read: in an address space that could not hold it.
        let limited = format!("ulimit -v 500000; exec {} {}", env!("CARGO_BIN_EXE_wattif"), args.join(" "));
        let o = Command::new("bash").args(["-c", &limited]).output().unwrap();
        assert!(o.status.code() == Some(2) && err(&o).contains("larger than 512 MiB"), "{args:?}: {}", err(&o));
    }
}

#[test]
fn lists_manuals_completions() {
    for kind in ["platforms", "kernels", "policies", "workloads", "experiments", "metrics", "formats"] {
        let o = done(&["list", kind, "--json"]);
        let json: serde_json::Value = serde_json::from_slice(&o.stdout).unwrap();
        let items = json["items"].as_array().unwrap();
        assert!(!items.is_empty(), "{kind}");
        assert!(items.iter().all(|i| i["name"] != "" && i["about"] != ""), "{kind}: {items:?}");
        // Lists stand also where they are empty, and only in what has them.
        for (list, of) in [("lacks", "platforms"), ("platforms", "experiments"), ("changes", "kernels")] {
            let missing = items.iter().find(|i| i[list].is_array() != (kind == of));
            assert!(missing.is_none(), "{kind}: {list}: {missing:?}");
        }
    }
    let item = |kind: &str, name: &str| -> serde_json::Value {
        let json: serde_json::Value = serde_json::from_slice(&done(&["list", kind, "--json"]).stdout).unwrap();
        json["items"].as_array().unwrap().iter().find(|i| i["name"] == name).unwrap().clone()
    };
    for (name, slot, selectable) in [("teo", "cpuidle", true), ("eas", "placement", false)] {
        let policy = item("policies", name);
        assert_eq!((policy["slot"].as_str(), policy["selectable"].as_bool()), (Some(slot), Some(selectable)), "{name}");
    }
    for (name, unit, better, neutral) in [("wu_lat_us.<stat>", "µs", "lower", false), ("migrations", "", "lower", true)]
    {
        let metric = item("metrics", name);
        assert_eq!(
            (&metric["unit"], &metric["better"], &metric["neutral"]),
            (&unit.into(), &better.into(), &neutral.into())
        );
    }
    let metrics = out(&done(&["list", "metrics"]));
    assert!(
        metrics.lines().any(|l| l.starts_with("wu_lat_us.<stat>") && l.contains("µs") && l.contains("lower")),
        "{metrics}"
    );
    let formats = out(&done(&["list", "formats"]));
    for name in ["Parquet", "Arrow", "SVG", "HTML report", "recording archive", "wattif.sweep/1", "wattif.manual/1"] {
        assert!(formats.contains(name), "{name}: {formats}");
    }
    for policy in wattif_sim::registry::POLICIES.iter().filter(|p| p.selectable) {
        let text = out(&done(&["explain", policy.name]));
        for heading in
            ["Idea", "Signals", "Decision", "State and cost", "Where it fails", "Differences from the kernel", "Source"]
        {
            assert!(text.lines().any(|l| l == heading), "{} has no {heading}:\n{text}", policy.name);
        }
    }
    for (name, part) in [
        ("rel-gate", "Fixes"),
        ("h0", "Costs"),
        ("cpu_util.eas", "max_util"),
        ("cpu_util.off", "Fixes"),
        ("wake_cap", "select_task_rq_fair (placement)"),
        ("misfit", "load_balance (balance)"),
        ("energy_diff", "find_best_target (placement)"),
        ("overutilized", "eas (placement)"),
        ("cpu_util.boost", "how waiting raises the utilisation"),
        ("schedtune.touch_boost_pct", "schedtune.touch_boost_pct (tunable of schedtune)"),
        ("frames", "RenderThread"),
    ] {
        let o = done(&["explain", name]);
        assert!(o.status.success() && out(&o).contains(part), "{name}: {}{}", out(&o), err(&o));
    }
    for shell in ["bash", "zsh", "fish"] {
        assert!(out(&done(&["completions", shell])).contains("wattif"));
    }
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(done(&["man", "--dir", dir.path().to_str().unwrap()]).status.code(), Some(0));
    assert!(Path::new(&dir.path().join("wattif-run.1")).is_file());
}

/// `--plot` draws every figure of the report, for every verb that has one; what cannot be drawn says why.
#[test]
fn every_verb_draws_its_figures() {
    const RUNS: [&str; 6] = ["latency", "frames", "energy", "frequency", "idle", "timeline"];
    let dir = tempfile::tempdir().unwrap();
    let of = |verb: &[&str], figures: &[&str]| {
        let files: Vec<String> = figures.iter().map(|f| format!("{f}.svg")).collect();
        let plots = files.iter().flat_map(|f| ["--plot", f.as_str()]);
        let o =
            wattif(&verb.iter().copied().chain(plots).collect::<Vec<_>>()).current_dir(dir.path()).output().unwrap();
        assert!(matches!(o.status.code(), Some(0 | 1)), "{verb:?}: {}", err(&o));
        for file in &files {
            let svg = std::fs::read_to_string(dir.path().join(file)).unwrap_or_else(|_| panic!("{verb:?}: no {file}"));
            assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && svg.len() < 200_000, "{file}");
            std::fs::remove_file(dir.path().join(file)).unwrap();
        }
    };
    let with = |own: &[&'static str]| RUNS.iter().chain(own).copied().collect::<Vec<&str>>();
    let on = ["-p", "hikey620", "--duration", "300ms"];
    of(&[&["run", "server", "--trace", "r.dat"], &on[..]].concat(), &with(&["x", "mine-energy"]));
    let two = ["-k", "linux-5.3", "-k", "linux-5.6", "--seeds", "2"];
    of(&[&["compare", "server"], &on[..], &two].concat(), &with(&["ratios", "answer"]));
    let replayed = ["replay", "r.dat", "-p", "hikey620"];
    of(&[&replayed[..], &two].concat(), &with(&["ratios", "x"]));
    of(&[&replayed[..], &["--as-recorded"]].concat(), &["latency", "x", "frames", "idle", "timeline"]);
    let axes = ["--axis", "cpuidle=menu,teo", "--axis", "cpufreq=schedutil,performance"];
    of(&[&["sweep", "server"], &on[..], &axes].concat(), &["sweep", "x"]);
    let entry = dir.path().join("entry");
    std::fs::create_dir_all(&entry).unwrap();
    let toml = r#"question = "q"
source = "s"
platform = "hikey620"
workload = "server"
duration = "200ms"
seeds = 2
kernels = ["linux-5.3", "linux-5.6"]
[[result]]
id = "1"
metric = "frames.request.p99"
published = { "linux-5.3" = 5000.0, "linux-5.6" = 4000.0 }
class = "S"
[[plot]]
name = "mine"
title = "T"
x = "throughput.slice"
y = "frames.request.p99"
arms = ["linux-5.3", "linux-5.6"]
"#;
    std::fs::write(entry.join("experiment.toml"), toml).unwrap();
    of(&["repro", "entry"], &with(&["published", "mine", "x"]));
    for (args, why) in [
        (&["run", "server", "--duration", "10ms", "--plot", "ratios.svg"][..], "there are latency, frames"),
        (&["repro", "sched_idle_side_jobs", "--plot", "sj.svg"], "drawn are server.svg, phone.svg"),
        (
            &["run", "schbench", "-p", "guest_x86_2cpu", "--duration", "50ms", "--plot", "energy.svg"],
            "powers are not known",
        ),
        (&["sweep", "server", "--duration", "10ms", "--axis", "cpuidle=menu", "--plot", "idle.svg"], "no single run"),
        (
            &[
                "sweep",
                "server",
                "--duration",
                "10ms",
                "--axis",
                "cpuidle=menu",
                "--metric",
                "migrations",
                "--plot",
                "x.svg",
            ],
            "--metric A --metric B",
        ),
    ] {
        let o = wattif(args).current_dir(dir.path()).output().unwrap();
        assert_eq!(o.status.code(), Some(2), "{args:?}");
        assert!(err(&o).contains(why), "{args:?}: {}", err(&o));
    }
}

/// What can never be drawn is refused before anything is run; where that shows only afterwards, the answer is there.
#[test]
fn a_drawing_that_fails_takes_no_answer_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let asked = |args: &[&str]| {
        let o = wattif(args).current_dir(dir.path()).output().unwrap();
        let svg =
            std::fs::read_dir(dir.path()).unwrap().flatten().any(|e| e.path().extension().is_some_and(|e| e == "svg"));
        assert!(o.status.code() == Some(2) && !svg, "{args:?}: {}", err(&o));
        o
    };
    std::fs::write(dir.path().join("a.json"), SMALL).unwrap();
    let on = ["-p", "hikey620", "--duration", "3ms"];
    let two = ["-k", "linux-5.3", "-k", "linux-5.6", "--seeds", "2"];
    let guest = ["-p", "guest_x86_2cpu", "--duration", "1ms"];
    let traced = wattif(&[&["run", "a.json", "--trace", "t.dat"], &on[..]].concat()).current_dir(dir.path()).output();
    assert!(traced.unwrap().status.success());
    for (args, why) in [
        (&[&["run", "a.json"], &on[..], &["--plot", "frames.svg"]].concat(), "workload marks no frames"),
        (&[&["run", "a.json"], &on[..], &["--plot", "sweep.svg"]].concat(), "no such figure here"),
        (&[&["compare", "a.json"], &guest[..], &two, &["--plot", "r.svg", "--plot", "energy.svg"]].concat(), "powers"),
        (&vec!["replay", "t.dat", "-k", "linux-5.6", "--plot", "frames.svg"], "the trace has no marks"),
        (&vec!["replay", "t.dat", "-k", "linux-5.6", "--plot", "r.svg"], "there is one kernel"),
        (&vec!["replay", "t.dat", "--as-recorded", "--plot", "energy.svg"], "powers are not known"),
    ] {
        let o = asked(args);
        assert!(o.stdout.is_empty() && err(&o).contains(why), "{args:?}: {}{}", out(&o), err(&o));
    }
    let frames = ["--plot", "frames.svg"];
    for (args, told) in [
        ([&["run", "jankbench"], &on[..], &frames].concat(), "jankbench_list_view"),
        ([&["run", "jankbench", "--json"], &on[..], &frames].concat(), "wattif.run/1"),
        ([&["compare", "jankbench"], &on[..], &two, &frames].concat(), "linux-5.6"),
        (vec!["replay", "t.dat", "-k", "linux-5.6", "--seeds", "1", "--plot", "no/latency.svg"], "Self-check"),
        (vec!["replay", "t.dat", "--as-recorded", "--plot", "no/latency.svg"], "trace "),
    ] {
        let o = asked(&args);
        assert!(out(&o).contains(told) && err(&o).contains(".svg: "), "{args:?}: {}{}", out(&o), err(&o));
    }
}

/// Results are new files as any, of which umask says who may read them; one that replaces another is as private as that was.
#[test]
#[cfg(unix)]
fn results_are_no_more_readable_than_is_wished() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let wattif = env!("CARGO_BIN_EXE_wattif");
    let run = "run hogs --duration 10ms --trace t.dat --plot idle.svg --report r.html --logs logs";
    let script = format!("umask 027 && exec '{wattif}' {run}");
    let made = |mode: u32| {
        let o = Command::new("sh").args(["-c", &script]).current_dir(dir.path()).output().unwrap();
        assert!(o.status.success(), "{}", err(&o));
        let logs = std::fs::read_dir(dir.path().join("logs")).unwrap().map(|e| e.unwrap().path());
        let all: Vec<_> = ["t.dat", "idle.svg", "r.html"].map(|f| dir.path().join(f)).into_iter().chain(logs).collect();
        assert!(all.len() > 3, "no logs");
        for file in &all {
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o7777, mode, "{}", file.display());
        }
        all
    };
    let mut files = made(0o640);
    for mode in [0o600, 0o664] {
        files.iter().for_each(|file| std::fs::set_permissions(file, PermissionsExt::from_mode(mode)).unwrap());
        files = made(mode);
    }
}

/// What is asked of a trace that does not have it, or of a format that is none, is refused.
#[test]
fn traces_that_cannot_answer() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let run = run_small(&["--trace", &path("t.txt")]);
    assert!(run.status.success(), "{}", err(&run));
    let without = |event: &str| {
        let text = std::fs::read_to_string(path("t.txt")).unwrap();
        let lines: Vec<&str> = text.lines().filter(|l| !l.contains(event)).collect();
        std::fs::write(path(event), lines.join("\n")).unwrap();
        path(event)
    };
    let frequency = format!("{}\n  a-1 [000] 0.05: cpu_frequency: state=4294967295 cpu_id=0\n", {
        std::fs::read_to_string(path("t.txt")).unwrap()
    });
    std::fs::write(path("damaged"), frequency).unwrap();
    for (args, expect) in [
        (&["replay", &without("sched_switch"), "-k", "linux-6.12"][..], "there is no work to replay"),
        (&["replay", &path("t.txt"), "-k", "linux-6.12", "--policy", "nosuch=SCHED_IDLE"], "nosuch"),
        (&["replay", &path("t.txt"), "-k", "linux-6.12", "--policy", "a=SCHED_FIFO"], "a has priority 120"),
        (&["import", "workload", &path("t.txt"), "--policy", "a=SCHED_RR"], "a has priority 120"),
        (&["replay", &path("t.txt"), "-k", "linux-6.12", "--set", "platform.hz=1000"], "name it (-p)"),
        (&["replay", &path("t.txt"), "--set", "cpuidle=teo"], "none is named (-k)"),
        (&["replay", &path("t.txt"), "--as-recorded", "--seeds", "7"], "cannot be used with"),
        (&["import", &path("t.txt"), "--rtapp"], "--rtapp means nothing"),
        (&["export", &path("t.txt"), &path("x.csv")], "no trace is written as .csv"),
        (&["export", &path("t.txt"), "-"], "- is for workloads; a trace needs a file of its own"),
        (&["export", &path("t.txt"), "-", "--format", "text"], "t.txt trace.txt"),
        (&["export", &path("t.txt"), &path("x.json")], "x.json is for workloads; a trace needs"),
    ] {
        let o = done(args);
        assert_eq!(o.status.code(), Some(2), "{args:?}: {}", err(&o));
        assert!(err(&o).contains(expect), "{args:?}: {}", err(&o));
    }
    for name in [path("damaged"), without("sched_wak")] {
        let o = done(&["replay", &name, "-k", "linux-6.12", "--seeds", "1"]);
        assert!(o.status.success(), "{name}: {}", err(&o));
        assert!(out(&o).contains("may differ by"), "{}", out(&o));
    }
    // What a replay warns of, the workload is warned of too; and it says its unit of work.
    let o = done(&["import", "workload", &path("sched_wak"), "-p", "guest_arm64_4l4b"]);
    assert!(err(&o).contains("warning: the trace has no sched_waking events"), "{}", err(&o));
    let workload: serde_json::Value = serde_json::from_slice(&o.stdout).unwrap();
    assert_eq!(workload["calibration_cpu"], 4);
}

/// What is set is set for the recorded kernel too where that is the first -k; one that is named as the recorded one is as it is.
#[test]
fn a_self_check_says_what_is_set() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.dat").display().to_string();
    let fast = ["--set", "cpufreq=performance"];
    let of = |args: &[&str]| done(&[args, &["-p", "hikey960"], &fast].concat());
    let run = of(&["run", "video", "-k", "linux-6.1", "--duration", "200ms", "--trace", &path]);
    assert!(run.status.success(), "{}", err(&run));
    let json = |args: &[&str]| -> serde_json::Value {
        let o = of(&[&["replay", &path, "--seeds", "1", "--json"], args].concat());
        serde_json::from_slice(&o.stdout).unwrap_or_else(|_| panic!("{}", err(&o)))
    };
    let clocks = |told: &serde_json::Value| {
        let all = told["self_check"]["figures"].as_array().unwrap();
        let of = |f: &&serde_json::Value| f["figure"].as_str().unwrap().starts_with("mean frequency");
        all.iter().filter(of).all(|f| f["ok"] == true)
    };
    let set = serde_json::json!({ "cpufreq": "performance" });
    let own = json(&["-k", "linux-6.1"]);
    assert_eq!((&own["self_check"]["set"], &own["set"], clocks(&own)), (&set, &set, true));
    for others in [&["-k", "linux-6.12"][..], &["-k", "linux-6.1", "--recorded-kernel", "linux-6.1"]] {
        let told = json(others);
        let as_it_is = (&told["self_check"]["set"], &told["set"], &told["self_check"]["kernel"]);
        assert_eq!(as_it_is, (&serde_json::json!({}), &set, &serde_json::json!("linux-6.1")), "{others:?}");
        assert!(!clocks(&told), "{others:?}");
    }
    let o = of(&["replay", &path, "--seeds", "1", "-k", "linux-6.1"]);
    for line in ["its simulation under linux-6.1 with cpufreq=performance\n", "\nWhat if with cpufreq=performance\n"] {
        assert!(out(&o).contains(line), "{}", out(&o));
    }
}

/// Whatever is set, a value that a tunable does not take is an error with those that it takes, before anything reads it.
#[test]
fn values_that_a_tunable_does_not_take() {
    for (setting, takes, help) in [
        ("cpu_util.boost=abs", "takes one of off, h1, h2", "did you mean h1 or h2?"),
        ("cpu_util.boost=H0", "takes one of off, h1, h2", "did you mean off?"),
        ("cpu_util.boost=H1", "takes one of off, h1, h2", "did you mean h1?"),
        ("cpu_util.boost=pelt2", "takes one of off, h1, h2", "did you mean pelt.half_life_ms=16?"),
        ("cpu_util.schedutil=", "takes one of same, off", ""),
        ("cpu_util.eas=h22", "takes one of same, off", ""),
        ("cpu_util.balance=WAIT", "takes one of same, off", "did you mean wait?"),
        ("cpu_util.gate_pct=abc", "takes one of 100 to 400", ""),
        ("cpu_util.delay_us=-1", "takes one of 0 to 64000", ""),
        ("cpu_util.delay_us=1e3", "takes one of 0 to 64000", ""),
        ("pelt.half_life_ms=17", "takes one of 8, 16, 32", ""),
        ("eas.generation=7", "takes one of", ""),
        ("walt.window_ms=x", "takes one of 10 to 1000", ""),
        ("userspace.setspeed_khz=x", "takes", ""),
    ] {
        for kernel in ["android-6.6", "android-4.9-walt"] {
            let o = done(&["run", "video", "-p", "mt6897", "-k", kernel, "--duration", "10ms", "--set", setting]);
            let said = err(&o);
            assert_eq!(o.status.code(), Some(2), "{setting}: {said}");
            assert!(said.contains(takes) && said.contains(help), "{setting}: {said}");
        }
    }
    let o = done(&["sweep", "video", "-p", "mt6897", "-k", "android-6.6", "--axis", "cpu_util.boost=h2,abs"]);
    assert!(o.status.code() == Some(2) && err(&o).contains("takes one of off, h1, h2"), "{}", err(&o));
}

/// Android boosts /top-app alone; what names no group is all of it.
#[test]
fn only_the_top_application_is_boosted() {
    let util = |group: &str| -> u64 {
        let load = format!(
            r#"{{ "global": {{ "duration": 1 }}, "tasks": {{ "a": {{ {group} "run": 8000, "timer": {{ "ref": "u", "period": 20000 }} }} }} }}"#
        );
        let path = std::env::temp_dir().join(format!("wattif_boosted_{}.txt", std::process::id()));
        let args = [
            "run",
            "-",
            "-p",
            "sdm835",
            "-k",
            "android-4.9-walt",
            "--duration",
            "300ms",
            "--set",
            "platform.noise.housekeeping=[]", // only what the thread asks for
            "--trace-detail",
            "decisions",
        ];
        let o = with_stdin(&[&args[..], &["--trace", path.to_str().unwrap()]].concat(), load.as_bytes());
        assert!(o.status.success(), "{}", err(&o));
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let utils = text.split(" util=").skip(1).filter_map(|rest| rest.split(' ').next()?.parse::<u64>().ok());
        utils.max().unwrap()
    };
    let (all, top) = (util(""), util(r#""taskgroup": "/top-app","#));
    let others = ["/foreground", "/background", "/system-background"];
    let others = others.map(|group| util(&format!(r#""taskgroup": "{group}","#)));
    assert_eq!(all, top);
    assert!(others.iter().all(|u| *u + 50 < top), "{others:?} {top}");
}

#[test]
fn settings_without_effect_are_told() {
    for (setting, why) in [
        ("walt.window_ms=20", "load is pelt"),
        ("schedutil.up_rate_limit_us=1", "only generation 4.9"),
        ("teo.intervals=128", "cpuidle is menu"),
        ("cfs.bandwidth_slice_us=1000", "the workload limits no group"),
        ("cpu_util.boost=uclamp-aware", "is as h2 here"),
    ] {
        let o = run_small(&["--set", setting]);
        assert!(o.status.success() && err(&o).contains(why), "{setting}: {}", err(&o));
    }
    assert!(!err(&run_small(&["--set", "pelt.half_life_ms=16"])).contains("changes nothing"));
    let android = |set: &[&str]| {
        let args = ["run", "jankbench", "-p", "hikey960", "-k", "android-4.9-walt", "--duration", "10ms"];
        err(&done(&[&args[..], &set.iter().flat_map(|s| ["--set", s]).collect::<Vec<_>>()].concat()))
    };
    let (boosted, none) = ("walt_qti.early_detection=boosted", "schedtune.boost_pct=0");
    let untouched = ["schedtune.touch_boost_pct=0", "schedtune.top_app_boost_pct=0", none, boosted];
    assert!(android(&untouched).contains("schedtune boosts nobody"), "{}", android(&untouched));
    assert!(!android(&["schedtune.boost_pct=10", boosted]).contains("schedtune boosts nobody"));
    let touch = |boost: &str| android(&["schedtune.touch_boost_pct=20", &format!("schedtune.boost_pct={boost}")]);
    assert!(touch("20").contains("what a touch boosts has a boost of 20 already"), "{}", touch("20"));
    assert!(!touch("10").contains("already"));
}

/// A figure, a task, an arm or a variant that there is not is no missed row.
#[test]
fn experiments_that_ask_for_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let load = r#"{"tasks": {"worker": {"loop": -1, "run": 1000, "sleep": 1000}}}"#;
    std::fs::write(dir.path().join("w.json"), load).unwrap();
    let repro = |metric: &str, threads: &str, variants: &str| {
        let toml = format!(
            "question = 'q'\nsource = 's'\nplatform = 'hikey620'\nworkload = 'w.json'\nduration = '20ms'\nseeds = 1\n\
             kernels = ['linux-5.3', 'linux-6.12']\n{variants}\n[[result]]\nid = '1'\nmetric = '{metric}'\n{threads}\n\
             class = 'S'\npublished = {{ 'linux-5.3' = 1.0 }}\n"
        );
        std::fs::write(dir.path().join("experiment.toml"), toml).unwrap();
        let o = done(&["repro", &dir.path().display().to_string()]);
        (o.status.code(), err(&o))
    };
    assert_eq!(repro("tasks.worker.runtime_s", "", "[variants]\nv = { cpuidle = 'teo' }").0, Some(0));
    for (metric, threads, variants, why) in [
        ("wu_lat_us.meen", "", "", "no metric is called `wu_lat_us.meen`"),
        (
            "tasks.worke.runtime_s",
            "",
            "",
            "no run has the metric `tasks.worke.runtime_s`; did you mean `tasks.worker.runtime_s`",
        ),
        ("runtime_s", "threads = 'worke'", "", "no run has the task `worke`; did you mean `worker`?"),
        ("energy.total", "threads = 'worker'", "", "metric `energy.total` of one task"),
        ("runtime_s", "", "[variants]\n'linux-5.3' = { cpuidle = 'teo' }", "called `linux-5.3`"),
    ] {
        let (code, said) = repro(metric, threads, variants);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(why), "{why}: {said}");
    }
    for args in [
        &["sweep", "server", "--axis", "cpuidle=menu,teo", "--pareto", "wu_lat_us.meen,energy.total"][..],
        &["bisect", "linux-5.3", "linux-5.6", "server", "--metric", "wu_lat_us.meen"],
        &["compare", "server", "-k", "linux-5.3", "-k", "linux-5.6", "--until", "wu_lat_us.meen=1%"],
    ] {
        let o = done(args);
        assert_eq!(o.status.code(), Some(2), "{}", err(&o));
        assert!(err(&o).contains("wu_lat_us.mean"), "{}", err(&o));
    }
    let powerless = ["compare", "server", "-p", "guest_x86_2cpu", "-k", "linux-5.3", "-k", "linux-5.6", "--seeds", "1"];
    let o = done(&[&powerless[..], &["--duration", "10ms", "--fail-if", "energy.total > +2%"]].concat());
    assert!(err(&o).contains("nothing is known of the powers of platform guest_x86_2cpu"), "{}", err(&o));
}
