//! How far a replay can be trusted, by simulations of which the truth is known: a program is simulated and written as a trace,
//! the trace made a workload and simulated again.
//!
//! Under the same kernel the figures have to come back; under another kernel the difference has to be the one that the program
//! itself shows there. A figure is judged where the seeds tell it: the mean over seeds of the logarithm of a ratio has to have a
//! standard error below [`TOLD`]. `replay/judged.txt` names the figures that are: one that is only shown from now on fails.

mod judged;

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use wattif::recording::{analyse, length, replay_seeds};
use wattif::trace_file::TraceFile;
use wattif::{Dialect, Ns, RunSpec, Settings, load, run};
use wattif_formats::trace::{self, Detail};
use wattif_lab::infer;
use wattif_lab::metrics::RunReport;
use wattif_model::trace::{Observer, Recording};
use wattif_model::workload::{Op, Policy, TaskSpec};

const SEEDS: u64 = 16;
/// Standard error of a mean logarithm that tells something.
const TOLD: f64 = 0.02;
/// How far a round trip may be off: figures of latency, and shares of a CPU.
const ROUND_TRIP: f64 = 0.05;
const SHARE: f64 = 0.01;
/// How far the size of a difference may be off, and from where on its direction has to be right.
const SIZE: f64 = 0.15;
const DIRECTION: f64 = 0.05;

/// A program on a machine under two kernels.
struct Case {
    workload: &'static str,
    platform: &'static str,
    a: &'static str,
    b: &'static str,
    b_set: &'static [&'static str],
    ms: u64,
}

const fn case(workload: &'static str, platform: &'static str, a: &'static str, b: &'static str, ms: u64) -> Case {
    Case { workload, platform, a, b, b_set: &[], ms }
}

const TEO: &[&str] = &["cpuidle=teo"];
const PERFORMANCE: &[&str] = &["cpufreq=performance"];
const POWERSAVE: &[&str] = &["cpufreq=powersave"];

const CASES: [Case; 38] = [
    case("phone", "hikey960", "linux-6.1", "linux-6.12", 1_500),
    Case { b_set: TEO, ..case("phone", "hikey960", "linux-6.12", "linux-6.12", 1_500) },
    case("sched_idle", "hikey620", "linux-5.3", "linux-5.6", 2_000),
    case("sched_idle", "hikey620", "linux-5.6", "linux-5.3", 2_000),
    case("recordings/workloads/pipeline.json", "hikey960", "linux-6.1", "linux-6.12", 1_000),
    Case {
        b_set: PERFORMANCE,
        ..case("recordings/workloads/pipeline.json", "hikey960", "linux-6.12", "linux-6.12", 1_000)
    },
    case("recordings/workloads/preempt_1_5.json", "guest_x86_2cpu", "linux-6.1", "linux-6.12", 2_000),
    case("recordings/workloads/pelt_migrate4.json", "guest_x86_2cpu", "linux-6.1", "linux-6.12", 1_300),
    case("recordings/workloads/nice_0_5_10.json", "hikey620", "linux-6.1", "linux-6.12", 1_500),
    case("server", "hikey620", "linux-6.1", "linux-6.12", 1_500),
    case("jankbench", "hikey620", "linux-6.1", "linux-6.12", 2_000),
    case("scroll", "hikey960", "linux-6.1", "linux-6.12", 2_000),
    case("pgbench", "hikey960", "linux-6.1", "linux-6.12", 500),
    case("pgbench", "pixel6", "linux-6.1", "linux-6.12", 500),
    case("video", "hikey960", "linux-6.1", "linux-6.12", 1_500),
    case("game", "hikey960", "linux-6.1", "linux-6.12", 1_500),
    case("androbench", "hikey960", "linux-6.1", "linux-6.12", 800),
    case("ebizzy", "hikey620", "linux-6.1", "linux-6.12", 800),
    case("schbench", "hikey620", "linux-6.1", "linux-6.12", 1_500),
    case("hackbench:groups=4", "hikey620", "linux-6.1", "linux-6.12", 2_000),
    case("openmp", "rk3399", "linux-5.6", "linux-6.12", 2_000),
    case("openmp", "hikey960", "linux-6.1", "linux-6.12", 2_000),
    case("replay/bound.json", "pixel6", "linux-6.12", "linux-6.1", 1_500),
    case("replay/companions.json", "rpi5", "linux-6.12", "linux-6.1", 1_500),
    case("replay/halves.json", "rpi5", "linux-6.12", "linux-6.1", 3_000),
    case("replay/yields.json", "hikey620", "linux-6.1", "linux-6.12", 1_500),
    case("replay/yields.json", "hikey620", "linux-6.12", "linux-6.1", 1_500),
    case("replay/workers.json", "core_i7_2600k", "linux-6.12", "linux-6.1", 2_000),
    case("replay/servers.json", "rpi5", "linux-6.1", "linux-6.12", 2_500),
    case("replay/make.json", "hikey620", "linux-6.1", "linux-6.12", 2_000),
    case("replay/held.json", "hikey960", "linux-6.1", "linux-6.12", 3_000),
    case("replay/one_way.json", "rpi5", "linux-6.12", "linux-6.1", 3_000),
    case("phone", "rpi5", "linux-6.1", "linux-6.12", 1_500),
    case("../../../gallery/walt_vs_pelt/split.json", "hikey620", "linux-6.1", "linux-6.12", 500),
    case("../../../gallery/walt_vs_pelt/stop.json", "sdm835", "android-4.9", "android-4.9-walt", 3_000),
    case("jankbench", "sdm835", "android-4.9", "android-4.9-walt", 6_000),
    Case { b_set: PERFORMANCE, ..case("replay/memory.json", "hikey620", "linux-6.12", "linux-6.12", 1_500) },
    Case { b_set: POWERSAVE, ..case("replay/whole.json", "rpi5", "linux-6.12", "linux-6.12", 10_000) },
];

/// One seed: under A and B the program itself, then what the trace under A makes of them.
struct Runs {
    a: RunReport,
    b: RunReport,
    a_again: RunReport,
    b_if: RunReport,
}

fn spec(case: &Case, seed: u64) -> [RunSpec; 2] {
    let none = Settings::default();
    let platform = load::platform(case.platform, &none).unwrap().value;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(case.workload);
    let name = if path.is_file() { path.to_str().unwrap() } else { case.workload };
    let workload = load::workload(name, &platform, Dialect::Workgen, &none).unwrap().value.workload;
    let set = Settings::parse(&case.b_set.iter().map(|s| s.to_string()).collect::<Vec<_>>()).unwrap();
    let (a, b) = (load::kernel(case.a, &none).unwrap().value, load::kernel(case.b, &set).unwrap().value);
    let of = |kernel| RunSpec {
        platform: platform.clone(),
        workload: workload.clone(),
        kernel,
        seed,
        duration: Ns::from_ms(case.ms),
    };
    [of(a), of(b)]
}

fn runs(case: &Case, seed: u64) -> Runs {
    let dir = tempfile::tempdir().unwrap();
    let [a, b] = spec(case, seed);
    let path = dir.path().join("a.dat");
    let mut file = TraceFile::create(&path, None, Detail::Tracepoints, &a).unwrap();
    let mut observers: [&mut dyn Observer; 1] = [&mut file];
    let report = run::run(&a, &mut observers).unwrap().report;
    file.finish().unwrap();
    let mut recording = trace::read(&std::fs::read(&path).unwrap()).recording.unwrap();
    // As of a real machine, whose traces do not tell on which CPUs a thread may run.
    recording.threads.values_mut().for_each(|t| t.cpus = None);
    let platform = a.platform.without_background();
    let inferred = infer::workload(&recording, &platform, "a", &infer::Options::default());
    // Other noise than the recording had.
    let again = |kernel: &RunSpec| RunSpec {
        platform: platform.clone(),
        workload: inferred.workload.clone(),
        seed: seed + 1_000,
        duration: length(&inferred.workload, &recording),
        ..kernel.clone()
    };
    Runs {
        b: run::run(&b, &mut []).unwrap().report,
        a_again: run::run(&again(&a), &mut []).unwrap().report,
        b_if: run::run(&again(&b), &mut []).unwrap().report,
        a: report,
    }
}

/// Mean and its standard error.
fn mean(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    (mean, (variance / n).sqrt())
}

const FIGURES: [&str; 6] = [
    "wakeup_latency_us.mean",
    "wakeup_latency_us.p50",
    "wakeup_latency_us.p99",
    "energy.total",
    "migrations",
    "duration_s",
];

/// Mean of ln(x / y) over the seeds, where both are there and not 0.
fn ratio(all: &[Runs], figure: &str, x: fn(&Runs) -> &RunReport, y: fn(&Runs) -> &RunReport) -> Option<(f64, f64)> {
    let of = |r: &Runs| Some((x(r).metric(figure, None)? / y(r).metric(figure, None)?).ln()).filter(|v| v.is_finite());
    let values: Option<Vec<f64>> = all.iter().map(of).collect();
    values.map(|v| mean(&v))
}

#[test]
fn replays_are_what_the_programs_do() {
    let (mut judged, mut wrong) = (String::new(), Vec::new());
    for case in &CASES {
        let what = format!("{} on {}, {} -> {} {}", case.workload, case.platform, case.a, case.b, case.b_set.join(" "));
        let all: Vec<Runs> = (1..=SEEDS).map(|seed| runs(case, seed)).collect();
        println!("{what}");
        let case_name = what;
        let mut judge = |what: String, ok: bool| {
            println!("  {what}{}", if ok { "" } else { "  WRONG" });
            let figure = format!("{case_name}: {}", what.split_once(':').map_or("", |(figure, _)| figure));
            judged += &format!("{figure}\n");
            if !ok {
                wrong.push(figure);
            }
        };
        let ends_by_itself = spec(case, 1)[0].workload.ends_by_itself();
        for figure in FIGURES.into_iter().filter(|figure| ends_by_itself || *figure != "duration_s") {
            let Some(again) = ratio(&all, figure, |r| &r.a_again, |r| &r.a) else { continue };
            let text = format!("{figure} again: {:+.1} % ± {:.1}", 100.0 * again.0, 100.0 * again.1);
            match figure != "migrations" && again.1 < TOLD {
                true => judge(text, again.0.abs() <= ROUND_TRIP),
                false => println!("  {text}  (not judged)"),
            }
            let what_if = (ratio(&all, figure, |r| &r.b, |r| &r.a), ratio(&all, figure, |r| &r.b_if, |r| &r.a_again));
            let (Some(truth), Some(size)) = what_if else {
                assert_eq!(figure, "migrations", "{case_name}: under one kernel nobody moves");
                continue;
            };
            let text =
                format!("{figure} what if: {:.3}, truth {:.3} ± {:.1} %", size.0.exp(), truth.0.exp(), 100.0 * truth.1);
            match truth.1 < TOLD && size.1 < TOLD {
                true => {
                    let direction = truth.0.abs() <= DIRECTION || truth.0 * size.0 > 0.0;
                    judge(text, (size.0 - truth.0).abs() <= SIZE && direction);
                }
                false => println!("  {text}  (not judged)"),
            }
        }
        for group in all[0].a.by_task.iter().filter(|g| g.workload && g.cpu_share > 0.01) {
            let share = |r: &RunReport| r.by_task.iter().find(|g| g.task == group.task).map_or(0.0, |g| g.cpu_share);
            let off: Vec<f64> = all.iter().map(|r| (share(&r.a_again) - share(&r.a)) / group.threads as f64).collect();
            let (off, error) = mean(&off);
            let text = format!("CPU share of {} again: {:+.2} ± {:.2} points", group.task, 100.0 * off, 100.0 * error);
            match error < SHARE / 2.0 {
                true => judge(text, off.abs() <= SHARE),
                false => println!("  {text}  (not judged)"),
            }
        }
    }
    let (list, gone, _) = judged::changes("replay/judged.txt", &judged);
    let n = judged.lines().count();
    assert!(wrong.is_empty(), "of {n}: {wrong:#?}");
    assert!(
        gone.is_empty(),
        "the seeds no longer tell, of {n} (WATTIF_GEN=1 writes {}):\n{}",
        list.display(),
        gone.join("\n")
    );
}

/// A recording of a real kernel, by its file among the recordings.
fn recorded(name: &str) -> Recording {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/recordings/txt/{name}.txt.xz"));
    let mut text = Vec::new();
    lzma_rs::xz_decompress(&mut BufReader::new(File::open(path).unwrap()), &mut text).unwrap();
    trace::read(&text).recording.unwrap()
}

/// Two recordings of one program, the kernel or setting of each, and the figures in which they are compared.
struct Pair {
    platform: &'static str,
    files: [&'static str; 2],
    kernels: [(&'static str, &'static [&'static str]); 2],
    figures: &'static [Figure],
}

/// Slices of all threads; part of all time in an idle state; CPU time of tasks by the beginning of their names.
#[derive(Clone, Copy, Debug)]
enum Figure {
    Slices,
    Residency(&'static str),
    CpuTime(&'static str),
}

fn figure(report: &RunReport, figure: Figure) -> f64 {
    match figure {
        Figure::Slices => report.metrics.slices.unwrap() as f64,
        Figure::Residency(state) => {
            let s: f64 =
                report.cpus.iter().flat_map(|c| &c.idle).filter(|i| i.name == state).map(|i| i.residency_s).sum();
            s / report.metrics.duration_s / report.cpus.len() as f64
        }
        Figure::CpuTime(prefix) => {
            report.tasks.iter().filter(|t| t.task.starts_with(prefix)).map(|t| t.runtime_s).sum()
        }
    }
}

const PAIRS: [Pair; 4] = [
    Pair {
        platform: "guest_x86_2cpu",
        files: ["x86_6.1_nice_0_5_10", "x86_nice_0_5_10"],
        kernels: [("linux-6.1", &[]), ("linux-6.12", &[])],
        figures: &[Figure::Slices, Figure::CpuTime("nice0"), Figure::CpuTime("nice10")],
    },
    Pair {
        platform: "guest_arm64_4cpu_idle",
        files: ["arm64_idle_menu_periodic4", "arm64_idle_teo_periodic4"],
        kernels: [("linux-6.12", &["cpuidle=menu"]), ("linux-6.12", &["cpuidle=teo"])],
        figures: &[Figure::Residency("cluster"), Figure::Residency("off")],
    },
    Pair {
        platform: "guest_arm64_4l4b",
        files: ["arm64_gov_performance_ramp", "arm64_gov_ondemand_ramp"],
        kernels: [
            ("linux-6.12", &["cpufreq=performance", "eas.generation=off"]),
            ("linux-6.12", &["cpufreq=ondemand", "eas.generation=off"]),
        ],
        figures: &[Figure::CpuTime("ramp")],
    },
    Pair {
        platform: "guest_arm64_4l4b",
        files: ["arm64_gov_performance_ramp", "arm64_eas_ramp"],
        kernels: [
            ("linux-6.12", &["cpufreq=performance", "eas.generation=off"]),
            ("linux-6.12", &["cpufreq=schedutil"]),
        ],
        figures: &[Figure::CpuTime("ramp")],
    },
];

#[test]
fn what_another_real_kernel_did() {
    let mut wrong = Vec::new();
    for pair in &PAIRS {
        let platform = load::platform(pair.platform, &Settings::default()).unwrap().value;
        let bare = platform.without_background();
        let recordings = pair.files.map(recorded);
        let own: Vec<RunReport> = recordings.iter().map(|r| analyse(r, &platform, true).0).collect();
        for (from, to) in [(0, 1), (1, 0)] {
            let inferred = infer::workload(&recordings[from], &bare, "recorded", &infer::Options::default());
            let run = |which: usize| -> Vec<RunReport> {
                let (name, set) = pair.kernels[which];
                let set = Settings::parse(&set.iter().map(|s| s.to_string()).collect::<Vec<_>>()).unwrap();
                let spec = RunSpec {
                    platform: bare.clone(),
                    workload: inferred.workload.clone(),
                    kernel: load::kernel(name, &set).unwrap().value,
                    seed: 1,
                    duration: length(&inferred.workload, &recordings[from]),
                };
                let seeds: Vec<u64> = (1..=10).collect();
                replay_seeds(&spec, &seeds, &AtomicBool::new(false)).unwrap()
            };
            let (again, other) = (run(from), run(to));
            println!("{} -> {}", pair.files[from], pair.files[to]);
            for f in pair.figures {
                let of = |all: &[RunReport]| mean(&all.iter().map(|r| figure(r, *f)).collect::<Vec<_>>()).0;
                let (real, what_if) = ((figure(&own[from], *f), figure(&own[to], *f)), (of(&again), of(&other)));
                let (truth, size) = ((real.1 / real.0).ln(), (what_if.1 / what_if.0).ln());
                let ok = (size - truth).abs() <= SIZE && (truth.abs() <= DIRECTION || truth * size > 0.0);
                let text = format!(
                    "{f:?}: recorded {:.4} and {:.4}, replayed {:.4} and {:.4}: {:.3} beside {:.3}",
                    real.0,
                    real.1,
                    what_if.0,
                    what_if.1,
                    size.exp(),
                    truth.exp()
                );
                println!("  {text}{}", if ok { "" } else { "  WRONG" });
                if !ok {
                    wrong.push(format!("{} -> {}: {f:?}", pair.files[from], pair.files[to]));
                }
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// What waits for whom comes from priorities, policies and CPUs that no event names.
#[test]
fn latencies_of_real_recordings_come_back() {
    let platform = load::platform("guest_x86_2cpu", &Settings::default()).unwrap().value;
    let bare = platform.without_background();
    for name in ["x86_fifo_other", "x86_preempt_1_5"] {
        let recording = recorded(name);
        let truth = analyse(&recording, &platform, true).0.metrics.wakeup_latency_us.mean;
        let workload = infer::workload(&recording, &bare, name, &infer::Options::default()).workload;
        let spec = RunSpec {
            platform: bare.clone(),
            duration: length(&workload, &recording),
            workload,
            kernel: load::kernel("linux-6.12", &Settings::default()).unwrap().value,
            seed: 1,
        };
        let reports = replay_seeds(&spec, &[1, 2, 3, 4], &AtomicBool::new(false)).unwrap();
        let means: Vec<f64> = reports.iter().map(|r| r.metrics.wakeup_latency_us.mean).collect();
        let again = mean(&means).0;
        assert!((again / truth).ln().abs() <= ROUND_TRIP, "{name}: {again} µs for {truth}");
    }
}

#[test]
fn policies_that_real_recordings_do_not_name() {
    let platform = load::platform("guest_x86_2cpu", &Settings::default()).unwrap().value;
    let policies = |name: &str| {
        let workload = infer::workload(&recorded(name), &platform, name, &infer::Options::default()).workload;
        let set = |op: &Op| if let Op::SetAttr(attr) = op { Some(attr.policy) } else { None };
        let of = |t: &TaskSpec| t.program.ops.iter().filter_map(set).chain([t.attr.policy]).collect::<Vec<_>>();
        let found = |policy| {
            let tasks = workload.tasks.iter().filter(|t| of(t).contains(&policy));
            tasks.map(|t| t.name.clone()).collect::<Vec<_>>()
        };
        [Policy::Idle, Policy::Rr, Policy::Fifo].map(found)
    };
    let [idle, rr, _] = policies("x86_other_vs_idle");
    assert_eq!((idle, rr), (vec!["idle".to_owned(), "idle2".to_owned()], Vec::new()));
    let [idle, rr, fifo] = policies("x86_rr3");
    let threads: Vec<String> = (1..=3).map(|i| format!("rr{i}")).collect();
    assert_eq!((idle, rr, fifo), (Vec::new(), threads, Vec::new()));
    for name in ["x86_equal3", "x86_cgweight_100_300", "x86_preempt_1_5", "x86_preempt_6_16", "x86_nice_0_5_10"] {
        let [idle, rr, _] = policies(name);
        assert_eq!((idle, rr), (Vec::new(), Vec::new()), "{name}");
    }
}
