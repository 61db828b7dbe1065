//! Traces: what is written reads back, other tools read it, and damaged files are survived.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use wattif::trace_file::{TraceFile, TraceFormat, play};
use wattif::{Dialect, Ns, RunSpec, Runner, Settings, Simulator, load};
use wattif_formats::archive;
use wattif_formats::trace::arrow::EventTables;
use wattif_formats::trace::{self, Detail};
use wattif_lab::infer::{self, Figures};
use wattif_model::trace::{
    Event, FrequencyChoice, IdleChoice, Interest, Observer, PrevState, Record, Recorded, RecordedThread, Recorder,
    Recording,
};
use wattif_model::workload::{Amount, GroupSpec, Op, Policy, TaskSpec, Workload};
use wattif_model::{CpuId, DomainId, Pid};

/// Wakes by timers and by each other, forks, exits, works on both clusters.
const WORKLOAD: &str = r#"{ "tasks": {
  "ui":     { "loop": 12, "run": 900, "resume": "worker", "timer": { "ref": "unique", "period": 4000 } },
  "worker": { "loop": 12, "suspend": "worker", "run": 1500 },
  "batch":  { "loop": 3, "priority": 10, "run": 5000, "sleep": 3000 },
  "rt":     { "policy": "SCHED_FIFO", "priority": 50, "loop": 8, "run": 300, "timer": { "ref": "unique", "period": 7000 } },
  "parent": { "loop": 2, "run": 200, "fork": "child", "sleep": 9000 },
  "child":  { "instance": 0, "loop": 1, "run": 700 } } }"#;

fn spec(duration_ms: u64) -> RunSpec {
    let settings = Settings::default();
    let platform = load::platform("hikey960", &settings).unwrap().value;
    let source = wattif::data::Source { name: "traces.json".into(), text: WORKLOAD.into() };
    let loaded = load::parse_workload(source, platform.nr_cpus(), Dialect::Workgen, &settings).unwrap();
    let kernel = load::kernel("linux-6.12", &settings).unwrap().value;
    let mut workload = loaded.value.workload;
    let us = |us: u64| Amount::Fixed(1_000 * us);
    workload.tasks.push(TaskSpec::new("input", vec![Op::Sleep(us(3_000)), Op::Touch, Op::Run(us(50_000))]));
    RunSpec { platform, workload, kernel, seed: 1, duration: Ns::from_ms(duration_ms) }
}

/// What a run records, and the same run as a file.
fn written(dir: &Path, name: &str, detail: Detail, spec: &RunSpec) -> (Recording, PathBuf) {
    let path = dir.join(name);
    let mut recorder = Recorder::new(detail.interest());
    let mut file = TraceFile::create(&path, None, detail, spec).unwrap();
    let mut observers: [&mut dyn Observer; 2] = [&mut recorder, &mut file];
    Simulator.run(spec, &mut observers).unwrap();
    file.finish().unwrap();
    let mut recording = recorder.into_recording();
    recording.records.retain(|r| !is_hardware(r));
    if !is_table(&path) {
        recording.records.iter_mut().for_each(as_in_kernels);
    }
    (recording, path)
}

fn is_table(path: &Path) -> bool {
    matches!(TraceFormat::of(path), TraceFormat::Arrow | TraceFormat::Parquet)
}

/// The idle task has a priority in traces; the simulator has none for it.
fn as_in_kernels(r: &mut Record) {
    if let Recorded::Event(Event::SchedSwitch { prev_pid, prev_prio, next_pid, next_prio, .. }) = &mut r.event {
        for (pid, prio) in [(prev_pid, prev_prio), (next_pid, next_prio)] {
            *prio = if pid.0 == 0 { 120 } else { *prio };
        }
    }
}

fn read(path: &Path) -> Recording {
    let read = trace::read(&std::fs::read(path).unwrap());
    read.recording.unwrap_or_else(|| panic!("{}: {:?}", path.display(), read.diagnostics))
}

/// Compact switches hold who comes: the priority of who leaves is the one it came with.
fn as_it_came(cpus: &mut [Vec<(u64, Recorded)>]) {
    for cpu in cpus {
        let mut came = BTreeMap::new();
        for (_, event) in cpu {
            if let Recorded::Event(Event::SchedSwitch { prev_pid, prev_prio, next_pid, next_prio, .. }) = event {
                *prev_prio = came.get(prev_pid).copied().unwrap_or(*prev_prio);
                came.insert(*next_pid, *next_prio);
            }
        }
    }
}

/// Events of a CPU in order; between CPUs only the stamps order them.
fn by_cpu(recording: &Recording, keep: impl Fn(&Record) -> bool) -> Vec<Vec<(u64, Recorded)>> {
    let mut cpus = vec![Vec::new(); recording.nr_cpus];
    for r in recording.records.iter().filter(|r| keep(r)) {
        cpus[r.cpu.0 as usize].push((r.at.0 + recording.zero_ns, r.event));
    }
    cpus
}

fn same(a: &[Vec<(u64, Recorded)>], b: &[Vec<(u64, Recorded)>], what: &str) {
    assert!(a.iter().any(|c| !c.is_empty()), "{what}: nothing to compare");
    for (cpu, (a, b)) in a.iter().zip(b).enumerate() {
        if let Some(i) = (0..a.len().min(b.len())).find(|&i| a[i] != b[i]) {
            panic!("{what}: CPU {cpu}, event {i}: wrote {:?}, read {:?}", a[i], b[i]);
        }
        assert_eq!(a.len(), b.len(), "{what}: CPU {cpu}");
    }
}

/// What the machine knows and no trace holds.
fn is_hardware(r: &Record) -> bool {
    matches!(r.event, Recorded::Event(Event::CpuPower { .. } | Event::ClusterPower { .. } | Event::IdlePeriod(_)))
}

#[test]
fn trace_dat_holds_every_event() {
    let dir = tempfile::tempdir().unwrap();
    let (wrote, path) = written(dir.path(), "a.dat", Detail::Full, &spec(60));
    let got = read(&path);
    same(&by_cpu(&wrote, |_| true), &by_cpu(&got, |_| true), "trace.dat");
    assert_eq!(got.threads, wrote.threads, "names, policies, housekeeping");
    assert_eq!((got.nr_cpus, got.release.as_deref(), got.has_irq_flags), (8, Some("6.12"), true));
    let packed = dir.path().join("a.dat.gz");
    assert_eq!(TraceFormat::of(&packed), TraceFormat::Dat);
    assert_eq!(read(&written(dir.path(), "a.dat.gz", Detail::Full, &spec(60)).1), got);
}

/// Groups with what their files hold, what threads asked for (budgets, slices, clamps), and their CPUs are in the workload that is made of a trace.
#[test]
fn groups_and_attributes_come_back() {
    const TWO: &str = r#"{ "tasks": {
      "a": { "instance": 2, "taskgroup": "/app/low", "loop": -1, "run": 900, "timer": { "ref": "unique", "period": 4000 } },
      "b": { "taskgroup": "/app", "loop": -1, "run": 700, "timer": { "ref": "unique", "period": 3000 } },
      "c": { "loop": -1, "run": 500, "timer": { "ref": "unique", "period": 5000 } },
      "slice": { "dl-runtime": 300, "loop": -1, "run": 400, "timer": { "ref": "unique", "period": 6000 } },
      "one": { "cpus": [2], "loop": -1, "run": 400, "timer": { "ref": "unique", "period": 9000 } },
      "four": { "cpus": [0, 1, 2, 5], "instance": 2, "dl-runtime": 500,
                "loop": -1, "run": 300, "timer": { "ref": "unique", "period": 9000 } },
      "boost": { "util_min": 900, "loop": -1, "run": 400, "timer": { "ref": "unique", "period": 7000 } },
      "cap": { "policy": "SCHED_FIFO", "priority": 5, "util_min": 0, "util_max": 200,
               "loop": -1, "run": 400, "timer": { "ref": "unique", "period": 7000 } },
      "dl": { "policy": "SCHED_DEADLINE", "dl-runtime": 2000, "dl-deadline": 4000, "dl-period": 5000,
              "loop": -1, "run": 600, "timer": { "ref": "unique", "period": 5000 } } },
      "groups": { "/app": { "cpu.weight": 300 }, "/app/low": { "cpu.max": "20000 50000", "cpu.idle": 1 } } }"#;
    let source = wattif::data::Source { name: "two.json".into(), text: TWO.into() };
    let loaded = load::parse_workload(source, 8, Dialect::Workgen, &Settings::default()).unwrap();
    let two = RunSpec { workload: loaded.value.workload, ..spec(60) };
    let dir = tempfile::tempdir().unwrap();
    for name in ["g.txt", "g.dat", "g.pftrace"] {
        let (wrote, path) = written(dir.path(), name, Detail::Tracepoints, &two);
        let got = read(&path);
        let by_path = |r: &Recording, groups: &[GroupSpec]| {
            let of = |t: &RecordedThread| groups.get(t.group as usize).map_or("/".to_string(), |g| g.path.clone());
            r.threads.values().map(|t| (t.comm.clone(), of(t), t.dl, t.asked, t.cpus.clone())).collect::<Vec<_>>()
        };
        assert_eq!(by_path(&got, &got.groups), by_path(&wrote, &two.workload.groups), "{name}");
        let made = infer::workload(&got, &two.platform, name, &infer::Options::default());
        assert!(!made.notes.iter().any(|n| n.contains("SCHED_DEADLINE") || n.contains("group")), "{:?}", made.notes);
        let made = made.workload;
        let mut groups = [made.groups.clone(), two.workload.groups.clone()];
        groups.iter_mut().for_each(|g| g.sort_by(|a, b| a.path.cmp(&b.path)));
        assert_eq!(groups[0], groups[1], "{name}");
        for of in &two.workload.tasks {
            let path = |w: &Workload, t: &TaskSpec| w.groups[t.group as usize].path.clone();
            let all: Vec<_> = made.tasks.iter().filter(|t| t.name == of.name && !t.background).collect();
            assert_eq!(all.len() as u32, of.instances, "{name}");
            for t in all {
                assert_eq!((path(&made, t), t.attr), (path(&two.workload, of), of.attr), "{name}: {}", of.name);
                assert_eq!(t.cpus, of.cpus, "{name}: {}", of.name);
            }
        }
        // It is a workload that runs.
        let again = RunSpec { workload: made, ..two.clone() };
        Simulator.run(&again, &mut []).unwrap();
    }
}

#[test]
fn text_holds_every_event() {
    let dir = tempfile::tempdir().unwrap();
    let (wrote, path) = written(dir.path(), "a.txt", Detail::Full, &spec(60));
    let got = read(&path);
    same(&by_cpu(&wrote, |_| true), &by_cpu(&got, |_| true), "text");
    assert_eq!(got.threads, wrote.threads, "names, policies, housekeeping");
    assert_eq!((got.release.as_deref(), got.machine.as_deref()), (Some("6.12"), Some("simulated")));
}

#[test]
fn perfetto_holds_the_tracepoints() {
    let dir = tempfile::tempdir().unwrap();
    let (wrote, path) = written(dir.path(), "a.pftrace", Detail::Decisions, &spec(60));
    let kept = |r: &Record| match &r.event {
        Recorded::Event(e) => {
            e.name().starts_with("sched_") || matches!(e, Event::CpuIdle { .. } | Event::Touch { .. })
        }
        _ => true,
    };
    let got = read(&path);
    let known = |r: &Recording, pid: &u32| r.threads.get(pid).map(|t| (t.comm.clone(), t.policy, t.housekeeping));
    assert!(wrote.threads.keys().all(|pid| known(&got, pid) == known(&wrote, pid)), "{:?}", got.threads);
    let (mut a, mut b) = (by_cpu(&wrote, kept), by_cpu(&got, |_| true));
    as_it_came(&mut a);
    // Compact events stand apart from the others, so events of one stamp may change places.
    for cpu in a.iter_mut().chain(&mut b) {
        cpu.sort_by_key(|(at, e)| (*at, e.name()));
    }
    same(&a, &b, "perfetto");
    let small = written(dir.path(), "b.pftrace", Detail::Tracepoints, &spec(60)).1;
    let size = |p: &Path| std::fs::metadata(p).unwrap().len();
    assert!(size(&small) < size(&path));
}

/// The cells of a row of a table, by column.
struct TableRow<'a>(&'a RecordBatch, usize);

impl TableRow<'_> {
    fn number(&self, column: &str) -> Option<i64> {
        let array = self.0.column_by_name(column).unwrap_or_else(|| panic!("column {column}"));
        if array.is_null(self.1) {
            return None;
        }
        let wide = array.as_primitive_opt::<Int64Type>().map(|a| a.value(self.1));
        let narrow = || array.as_primitive_opt::<Int32Type>().map(|a| a.value(self.1).into());
        wide.or_else(narrow).or_else(|| array.as_boolean_opt().map(|a| a.value(self.1).into()))
    }
    fn text(&self, column: &str) -> &str {
        self.0.column_by_name(column).unwrap().as_string::<i32>().value(self.1)
    }
    /// The event again, by the names of columns; of some only the name is looked at.
    fn event(&self) -> Option<Recorded> {
        let n = |column: &str| self.number(column).unwrap_or_else(|| panic!("{column} is null"));
        let (pid, cpu) = (|column| Pid(n(column) as u32), |column| CpuId(n(column) as u32));
        let prio = |column| n(column).max(0) as u8;
        Some(Recorded::Event(match self.text("event") {
            "sched_switch" => Event::SchedSwitch {
                prev_pid: pid("prev_pid"),
                prev_prio: prio("prev_prio"),
                prev_state: match self.text("prev_state") {
                    "R" => PrevState::Running,
                    "S" => PrevState::Sleeping,
                    "D" => PrevState::DiskSleep,
                    "X" => PrevState::Dead,
                    other => panic!("{other}"),
                },
                next_pid: pid("next_pid"),
                next_prio: prio("next_prio"),
            },
            "sched_waking" => Event::SchedWaking {
                pid: pid("pid"),
                prio: prio("prio"),
                target_cpu: cpu("target_cpu"),
                in_irq: n("in_irq") != 0,
            },
            "sched_wakeup" => Event::SchedWakeup {
                pid: pid("pid"),
                prio: prio("prio"),
                target_cpu: cpu("target_cpu"),
                in_irq: n("in_irq") != 0,
            },
            "sched_migrate_task" => Event::SchedMigrateTask {
                pid: pid("pid"),
                prio: prio("prio"),
                orig_cpu: cpu("orig_cpu"),
                dest_cpu: cpu("dest_cpu"),
            },
            "sched_process_exit" => Event::SchedProcessExit { pid: pid("pid"), prio: prio("prio") },
            "sched_process_fork" => Event::SchedProcessFork { pid: pid("pid"), child_pid: pid("child_pid") },
            "cpu_idle" => Event::CpuIdle { state: n("state") as i32 as u32 },
            "cpu_frequency" => {
                return Some(Recorded::CpuFrequency { cpu: cpu("cpu"), khz: n("frequency_khz") as u32 });
            }
            "wattif_frequency" => Event::Frequency(FrequencyChoice {
                domain: DomainId(n("domain") as u32),
                next_khz: n("next_khz") as u32,
                prev_khz: n("prev_khz") as u32,
                util: n("util") as u32,
                util_avg: n("util_avg") as u32,
                util_est: n("util_est") as u32,
                runnable_avg: n("runnable_avg") as u32,
                iowait_boost: n("iowait_boost") as u32,
            }),
            "wattif_idle" => Event::Idle(IdleChoice {
                state: n("state") as u8,
                stop_tick: n("stop_tick") != 0,
                predicted_ns: self.number("predicted_ns").unwrap_or(-1) as u64,
                sleep_length_ns: self.number("sleep_length_ns").unwrap_or(-1) as u64,
            }),
            "pelt_se" => Event::PeltSe {
                pid: pid("pid"),
                util_avg: n("util_avg") as u32,
                runnable_avg: n("runnable_avg") as u32,
                load_avg: n("load_avg") as u32,
            },
            "wattif_rtapp_stats" => Event::RtappStats {
                pid: pid("pid"),
                wu_lat_ns: n("wu_lat_ns") as u64,
                run_ns: n("run_ns") as u64,
                period_ns: n("period_ns") as u64,
                slack_ns: n("slack_ns"),
            },
            _ => return None,
        }))
    }
}

fn tables(path: &Path) -> Vec<RecordBatch> {
    let file = std::fs::File::open(path).unwrap();
    match TraceFormat::of(path) {
        TraceFormat::Arrow => arrow_ipc::reader::FileReader::try_new(file, None).unwrap().map(Result::unwrap).collect(),
        _ => {
            let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
            reader.build().unwrap().map(Result::unwrap).collect()
        }
    }
}

/// Rows can be joined with the file's list of threads, whatever a thread is called.
#[test]
fn names_of_rows_are_those_of_the_threads() {
    let dir = tempfile::tempdir().unwrap();
    let mut spec = spec(60);
    spec.workload.tasks.last_mut().unwrap().name = "a\tb\n".into();
    let path = written(dir.path(), "n.parquet", Detail::Tracepoints, &spec).1;
    let file = std::fs::File::open(&path).unwrap();
    let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let said = reader.metadata().file_metadata().key_value_metadata().unwrap();
    let threads = said.iter().find(|kv| kv.key == "wattif.threads").unwrap().value.as_ref().unwrap();
    let threads: serde_json::Value = serde_json::from_str(threads).unwrap();
    let name = |t: &serde_json::Value| (t["pid"].as_i64().unwrap(), t["comm"].as_str().unwrap().to_string());
    let names: std::collections::BTreeMap<i64, String> = threads.as_array().unwrap().iter().map(name).collect();
    assert!(names.values().any(|name| name.starts_with("a?b?")), "{names:?}");
    for batch in tables(&path) {
        for row in (0..batch.num_rows()).map(|i| TableRow(&batch, i)) {
            if let Some(pid) = row.number("pid") {
                assert_eq!(row.text("comm"), names[&pid]);
            }
        }
    }
}

#[test]
fn tables_hold_every_event() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a.parquet", "a.arrow"] {
        let (mut wrote, path) = written(dir.path(), name, Detail::Full, &spec(60));
        wrote.records.iter_mut().for_each(as_in_kernels);
        let mut wrote: Vec<&Record> = wrote.records.iter().collect();
        wrote.sort_by_key(|r| r.at);
        let (mut row, mut current, mut looked_at) = (0, vec![0; 8], std::collections::BTreeSet::new());
        for batch in tables(&path) {
            for i in 0..batch.num_rows() {
                let (r, got) = (wrote[row], TableRow(&batch, i));
                row += 1;
                assert_eq!(got.number("time_ns"), Some(r.at.0 as i64));
                assert_eq!(got.number("cpu"), Some(r.cpu.0.into()));
                assert_eq!(got.text("event"), r.event.name());
                assert_eq!(got.number("current_pid"), Some(current[r.cpu.at()]), "{r:?}");
                if let Some(event) = got.event() {
                    assert_eq!(event, r.event, "{name}, row {row}");
                    looked_at.insert(r.event.name());
                }
                if let Some(Event::SchedSwitch { next_pid, .. }) = r.event() {
                    current[r.cpu.at()] = next_pid.0.into();
                }
            }
            let unit = |column: &str| batch.schema().field_with_name(column).unwrap().metadata()["unit"].clone();
            assert_eq!((unit("time_ns"), unit("frequency_khz")), ("ns".into(), "kHz".into()));
        }
        assert_eq!(row, wrote.len(), "{name}");
        assert!(looked_at.len() >= 11, "{looked_at:?}");
        let refused = trace::read(&std::fs::read(&path).unwrap());
        assert!(refused.recording.is_none() && refused.diagnostics[0].message.contains("not read back"));
    }
}

#[test]
fn a_table_of_one_event() {
    let mut tables = EventTables::new(&["sched_waking", "cpu_frequency"], Vec::new());
    let mut recorder = Recorder::new(Interest::ALL);
    Simulator.run(&spec(60), &mut [&mut tables as &mut dyn Observer, &mut recorder]).unwrap();
    let counts = recorder.into_recording().counts();
    let tables = tables.into_batches();
    assert_eq!(tables.keys().copied().collect::<Vec<_>>(), ["cpu_frequency", "sched_waking"]);
    for (name, batch) in &tables {
        assert_eq!(batch.num_rows() as u64, counts[name], "{name}");
        assert!(batch.column_by_name("event").is_none());
    }
    let comms = tables["sched_waking"].column_by_name("comm").unwrap().as_string::<i32>().clone();
    assert!(comms.iter().flatten().any(|c| c.starts_with("worker")));
}

/// Any format that is read, to any that is written: the same again, in what both hold.
#[test]
fn exported_traces_hold_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let (_, from) = written(dir.path(), "a.dat", Detail::Decisions, &spec(60));
    let original = read(&from);
    let export = |from: &Path, name: &str| {
        let to = dir.path().join(name);
        let done = Command::new(env!("CARGO_BIN_EXE_wattif")).arg("export").args([from, &to]).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        to
    };
    let kept = |r: &Record| match &r.event {
        Recorded::Event(e) => {
            e.name().starts_with("sched_") || matches!(e, Event::CpuIdle { .. } | Event::Touch { .. })
        }
        _ => true,
    };
    let sorted = |recording: &Recording| {
        let mut cpus = by_cpu(recording, kept);
        as_it_came(&mut cpus);
        cpus.iter_mut().for_each(|c| c.sort_by_key(|(at, e)| (*at, e.name())));
        cpus
    };
    let mut last = from;
    for name in ["b.pftrace", "c.dat", "d.dat.gz", "e.txt"] {
        last = export(&last, name);
        same(&sorted(&original), &sorted(&read(&last)), name);
    }
    assert_eq!(read(&dir.path().join("b.pftrace")).counts()["sched_wakeup"], original.counts()["sched_wakeup"]);
    let text = last;
    let again = export(&export(&text, "f.dat"), "g.txt");
    assert_eq!(std::fs::read_to_string(&text).unwrap(), std::fs::read_to_string(again).unwrap());
    let rows: usize = tables(&export(&text, "h.parquet")).iter().map(RecordBatch::num_rows).sum();
    assert_eq!(rows, read(&text).records.len());
    // What was lost stays lost.
    let mut last = dir.path().join("lossy.txt");
    let lossy = format!("CPU:1 [LOST 5 EVENTS]\n{}", std::fs::read_to_string(&text).unwrap());
    std::fs::write(&last, lossy).unwrap();
    for name in ["i.dat", "j.pftrace", "k.txt"] {
        last = export(&last, name);
        let got = read(&last);
        assert_eq!((got.lost_gaps, got.lost_events), (1, 5), "{name}");
    }
}

/// A thread that computes has no event until the run ends, which is told: a run read again is as long as it was, and so is what is made of
/// it. A file that is cut off tells no end that it does not reach, nor do traces of others.
#[test]
fn the_end_of_a_run_comes_back() {
    const HOG: &str = r#"{ "tasks": {
      "hog": { "run": 100000000, "cpus": [1] },
      "beat": { "loop": 20, "run": 400, "timer": { "ref": "unique", "period": 5000 } } } }"#;
    let source = wattif::data::Source { name: "hog.json".into(), text: HOG.into() };
    // A machine without noise.
    let platform = load::platform("guest_x86_2cpu", &Settings::default()).unwrap().value;
    let loaded = load::parse_workload(source, platform.nr_cpus(), Dialect::Workgen, &Settings::default()).unwrap();
    let hog = RunSpec { platform, workload: loaded.value.workload, ..spec(700) };
    let dir = tempfile::tempdir().unwrap();
    let end = |path: &Path| {
        let r = read(path);
        Ns(r.end.0 + r.zero_ns)
    };
    let busy = |r: &Recording| {
        let report = wattif::recording::analyse(r, &hog.platform, true).0;
        report.by_task.iter().find(|t| t.task == "hog").map(|t| (t.runtime_s * 1e3).round())
    };
    for name in ["e.txt", "e.dat", "e.pftrace", "e.dat.gz"] {
        let (wrote, path) = written(dir.path(), name, Detail::Tracepoints, &hog);
        let got = read(&path);
        assert_eq!(end(&path), hog.duration, "{name}");
        assert_eq!(busy(&got), busy(&wrote), "{name}");
        assert!(busy(&got) > Some(690.0), "{name}");
        let made = infer::workload(&got, &hog.platform, name, &infer::Options::default()).workload;
        assert_eq!(made.duration, Some(got.end), "{name}");
        let bytes = std::fs::read(&path).unwrap();
        let last = got.zero_ns + got.records.last().unwrap().at.0;
        assert!(last < 400_000_000, "{name}: nothing happens until the end");
        let cut = dir.path().join(format!("cut-{name}"));
        for left in [bytes.len() - 14, bytes.len() * 9 / 10] {
            std::fs::write(&cut, &bytes[..left]).unwrap();
            assert!(end(&cut).0 <= last, "{name}: {left} bytes of {}", bytes.len());
        }
        for to in ["f.pftrace", "g.dat", "h.txt"] {
            let to = dir.path().join(format!("{name}-{to}"));
            let done = Command::new(env!("CARGO_BIN_EXE_wattif")).arg("export").args([&path, &to]).output().unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            assert_eq!(end(&to), hog.duration, "{name}");
        }
    }
    // In a text it is a comment. None is believed that no run can have, or that is before what happened.
    let text = std::fs::read_to_string(dir.path().join("e.txt")).unwrap();
    let told = text.lines().last().unwrap();
    assert_eq!(told, "# wattif end 700000000");
    for (other, expect) in [
        ("", None),
        ("# wattif end 604801000000000", None),
        ("# wattif end 5", None),
        ("# wattif end 3000000000", Some(3_000_000_000)),
    ] {
        let path = dir.path().join("other.txt");
        std::fs::write(&path, text.replace(told, other)).unwrap();
        let r = read(&path);
        let last = r.records.last().unwrap().at.0 + r.zero_ns;
        assert_eq!(end(&path).0, expect.unwrap_or(last), "{other}");
    }
    for name in ["e.parquet", "e.arrow"] {
        let bytes = std::fs::read(written(dir.path(), name, Detail::Tracepoints, &hog).1).unwrap();
        let at = bytes.windows(13).position(|w| w == b"wattif.end_ns").expect("metadata of the file");
        assert!(
            bytes[at..].windows(9).take(64).any(|w| w == b"700000000")
                || bytes[..at].windows(9).rev().take(64).any(|w| w == b"700000000"),
            "{name}"
        );
    }
}

/// As the run has them, and none where there are none.
#[test]
fn groups_of_a_trace_have_their_figures() {
    const LIMITED: &str = r#"{ "tasks": {
      "a": { "instance": 3, "taskgroup": "/g", "loop": -1, "run": 30000, "sleep": 1000 },
      "b": { "loop": -1, "run": 4000, "sleep": 3000 } },
      "groups": { "/g": { "cpu.max": "20000 100000" } } }"#;
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("limited.json"), LIMITED).unwrap();
    std::fs::write(dir.path().join("plain.json"), WORKLOAD).unwrap();
    let json = |args: &[&str]| -> serde_json::Value {
        let done = Command::new(env!("CARGO_BIN_EXE_wattif")).current_dir(&dir).args(args).output().unwrap();
        serde_json::from_slice(&done.stdout)
            .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&done.stderr)))
    };
    for (file, groups) in [("limited.json", 1), ("plain.json", 0)] {
        let machine = ["-p", "hikey960", "--json"];
        let run = ["run", file, "-k", "linux-6.12", "--duration", "500ms", "--trace", "t.txt"];
        let (run, got) = (json(&[&run[..], &machine].concat()), json(&[&["import", "t.txt"][..], &machine].concat()));
        assert_eq!(got.get("groups"), run.get("groups"), "{file}");
        let names: Vec<&str> = got["groups"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|g| g["path"].as_str())
            .filter(|p| *p == "/g")
            .collect();
        assert_eq!(names.len(), groups, "{file}");
    }
}

/// Thread 400 runs between two switches that are lost, and CPU 1 says when CPU 0 sleeps.
const UNSEEN: &str = "\
  <idle>-0    [000] d..2. 10.000001: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=tick next_pid=301 next_prio=120
    tick-301  [000] d..2. 10.000002: sched_switch: prev_comm=tick prev_pid=301 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
  <idle>-0    [001] d.h2. 10.000003: sched_waking: comm=once pid=300 prio=120 target_cpu=001
  <idle>-0    [001] d..2. 10.000004: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=once next_pid=300 next_prio=120
    once-300  [001] d..2. 10.000005: cpu_idle: state=1 cpu_id=0
    once-300  [001] d..2. 10.000006: sched_waking: comm=tick pid=301 prio=120 target_cpu=000
   waker-400  [001] d..2. 10.000007: sched_waking: comm=tick pid=301 prio=120 target_cpu=000
   waker-400  [001] d..2. 10.000008: sched_switch: prev_comm=waker prev_pid=400 prev_prio=120 prev_state=S ==> next_comm=once next_pid=300 next_prio=120
    once-300  [001] d..2. 10.000009: sched_waking: comm=tick pid=301 prio=120 target_cpu=000
    once-300  [001] d..2. 10.000010: sched_switch: prev_comm=once prev_pid=300 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
  <idle>-0    [001] d..2. 10.000011: cpu_idle: state=1 cpu_id=1
   waker-400  [001] d..2. 10.000012: sched_waking: comm=tick pid=301 prio=120 target_cpu=000
";

#[test]
fn exported_traces_say_who_runs() {
    let dir = tempfile::tempdir().unwrap();
    let export = |recording: &Recording, name: &str| {
        let path = dir.path().join(name);
        let about = trace::About { recorded: true, ..Default::default() };
        let mut file = TraceFile::with(&path, TraceFormat::of(&path), Detail::Tracepoints, about).unwrap();
        play(recording, &mut file);
        file.finish().unwrap();
        path
    };
    let without: String = UNSEEN.split_inclusive('\n').filter(|line| !line.contains("sched_switch")).collect();
    for (text, records) in [(UNSEEN, 12), (&without, 7)] {
        let mut original = trace::read(text.as_bytes()).recording.unwrap();
        assert_eq!(original.records.len(), records);
        let whole = |recording: &Recording| {
            let of = |r: &Record| (r.at, r.cpu, r.current.filter(|_| r.event.name() != "cpu_idle"), r.event);
            recording.records.iter().map(of).collect::<Vec<_>>()
        };
        for name in ["a.txt", "a.dat", "a.pftrace"] {
            let again = read(&export(&original, name));
            assert_eq!(whole(&again), whole(&original), "{name}, {records} events");
            let on_1 = |r: &&Record| r.event.name() == "cpu_idle" && r.cpu == CpuId(1);
            assert!(again.records.iter().filter(on_1).all(|r| r.current == Some(Pid(0))), "{name}");
        }
        let nobody = original.records.len() - 1;
        original.records[nobody].current = None;
        for batch in tables(&export(&original, "a.parquet")) {
            for (i, r) in original.records.iter().enumerate().filter(|(_, r)| r.event.name() != "cpu_idle") {
                assert_eq!(TableRow(&batch, i).number("current_pid"), r.current.map(|pid| pid.0.into()), "{r:?}");
            }
        }
    }
}

#[test]
fn logs_of_rt_app() {
    let dir = tempfile::tempdir().unwrap();
    let spec = spec(60);
    let mut logs = wattif::rtapp_log::RtappLogs::create(dir.path(), &spec, &Default::default()).unwrap();
    let mut recorder = Recorder::new(Interest::PROGRAM);
    let mut observers: [&mut dyn Observer; 2] = [&mut logs, &mut recorder];
    Simulator.run(&spec, &mut observers).unwrap();
    logs.finish().unwrap();
    let recording = recorder.into_recording();
    let mut files = std::fs::read_dir(dir.path()).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap());
    assert!(files.all(|f| f.starts_with("rt-app-") && f.ends_with(".log")), "nothing else is left");
    let text = std::fs::read_to_string(dir.path().join("rt-app-ui-0.log")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "# Policy : SCHED_OTHER priority : 0");
    let names: Vec<&str> = lines[1].split_whitespace().collect();
    let columns =
        ["#idx", "perf", "run", "period", "start", "end", "rel_st", "slack", "c_duration", "c_period", "wu_lat"];
    assert_eq!(names, columns);
    let rows: Vec<Vec<i64>> =
        lines[2..].iter().map(|l| l.split_whitespace().map(|n| n.parse().unwrap()).collect()).collect();
    let stats = |r: &Record| match r.event() {
        Some(&Event::RtappStats { pid, wu_lat_ns, period_ns, .. }) if recording.comm(pid) == "ui-0" => {
            Some((r.at.0 as i64 / 1000, period_ns as i64 / 1000, wu_lat_ns as i64 / 1000))
        }
        _ => None,
    };
    let expect: Vec<_> = recording.records.iter().filter_map(stats).collect();
    assert_eq!(rows.iter().map(|r| (r[5], r[3], r[10])).collect::<Vec<_>>(), expect);
    assert_eq!(rows.len(), 12, "a line per iteration");
    // 900 µs of a little CPU, of 462, are 406 of a big one.
    assert!(rows.iter().all(|r| r[8] == 900 && r[9] == 4000 && r[2] > 400 && r[6] == r[4]), "{text}");
    assert_eq!(lines[2].len(), 4 + 3 * 9 + 3 * 16 + 4 * 11, "widths are rt-app's");
}

/// Says aloud what this machine cannot check.
fn skip(why: &str) {
    eprintln!("SKIPPED: {why}");
}

#[test]
fn trace_cmd_reads_trace_dat() {
    if Command::new("trace-cmd").arg("--version").output().is_err() {
        return skip("trace-cmd is not installed (apt-get install trace-cmd)");
    }
    let dir = tempfile::tempdir().unwrap();
    let (wrote, path) = written(dir.path(), "a.dat", Detail::Decisions, &spec(60));
    let report = |path: &Path| {
        let out = Command::new("trace-cmd").args(["report", "-t"]).arg(path).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    };
    let text = report(&path);
    let got = trace::read(text.as_bytes()).recording.unwrap();
    assert_eq!(got.counts(), wrote.counts(), "as many events of each name as were written");
    for (a, b) in wrote.records.iter().zip(&got.records) {
        assert_eq!(a.at.0 + wrote.zero_ns, b.at.0 + got.zero_ns);
    }
    assert!(text.contains("ui-0:") && text.contains(" ==> "), "names and trace-cmd's own columns");
    // Its version 7, packed, reads back the same.
    let v7 = dir.path().join("v7.dat");
    let args = ["convert", "--file-version", "7", "--compression", "zstd", "-i"];
    let converted = Command::new("trace-cmd").args(args).arg(&path).arg("-o").arg(&v7).output().unwrap();
    assert!(converted.status.success(), "{}", String::from_utf8_lossy(&converted.stderr));
    let (six, seven) = (read(&path), read(&v7));
    assert!(seven.format.starts_with("trace.dat v7") && seven.format.contains("zstd"), "{}", seven.format);
    assert_eq!(six.records, seven.records);
}

/// The bytes of a trace.dat of ours whose option of threads became others of the same length together: their ids and what they hold.
fn with_options(mut bytes: Vec<u8>, options: &[(u16, Vec<u8>)]) -> Vec<u8> {
    const THREADS: u16 = 0x5746;
    let marker = b"options  \0";
    let mut at = bytes.windows(marker.len()).position(|w| w == marker).expect("version 6") + marker.len();
    let head = |at: usize| {
        let size = u32::from_le_bytes(bytes[at + 2..at + 6].try_into().unwrap());
        (u16::from_le_bytes([bytes[at], bytes[at + 1]]), size as usize)
    };
    while head(at).0 != THREADS {
        assert_ne!(head(at).0, 0, "it tells of threads");
        at += 6 + head(at).1;
    }
    let end = at + 6 + head(at).1;
    for (i, (id, data)) in options.iter().enumerate() {
        let size = if i + 1 < options.len() { data.len() } else { end - at - 6 };
        assert!(size >= data.len(), "so much is not free: {size}");
        bytes[at..at + 2].copy_from_slice(&id.to_le_bytes());
        bytes[at + 2..at + 6].copy_from_slice(&(size as u32).to_le_bytes());
        bytes[at + 6..at + 6 + size].fill(0);
        bytes[at + 6..at + 6 + data.len()].copy_from_slice(data);
        at += 6 + size;
    }
    bytes
}

/// Of a guest, and recorded with `--date` and `--ts-offset`: all stamps are those of trace-cmd's report.
#[test]
fn stamps_are_shifted_as_trace_cmd_does() {
    if Command::new("trace-cmd").arg("--version").output().is_err() {
        return skip("trace-cmd is not installed (apt-get install trace-cmd)");
    }
    let dir = tempfile::tempdir().unwrap();
    let bytes = std::fs::read(written(dir.path(), "a.dat", Detail::Tracepoints, &spec(60)).1).unwrap();
    // Session, flags and number of CPUs; of each its samples: times, offsets, scalings; then the fractions of all. Other CPUs have none.
    let mut guest = [&77u64.to_le_bytes()[..], &1u32.to_le_bytes(), &3u32.to_le_bytes()].concat();
    let cpus: [&[[i64; 4]]; 3] = [
        &[[0, 700_123, 1, 0]],
        &[[10_000_000, 20_000, 1, 0], [50_000_000, 90_000, 1, 0]],
        &[[20_000_000, 5_000, 3, 1], [40_000_000, -1_000, 3, 1], [30_000_000, 0, 6, 2]],
    ];
    for samples in cpus {
        guest.extend((samples.len() as u32).to_le_bytes());
        (0..3).for_each(|field| samples.iter().for_each(|s| guest.extend(s[field].to_le_bytes())));
    }
    cpus.iter().flat_map(|samples| samples.iter()).for_each(|s| guest.extend(s[3].to_le_bytes()));
    let options = [(12, guest), (7, b"0x10000000\0".to_vec()), (1, b"1700000000000000\0".to_vec())]
        .map(|(id, data)| (id as u16, data));
    for (n, options) in [&options[..1], &options[1..], &options].into_iter().enumerate() {
        let path = dir.path().join(format!("{n}.dat"));
        std::fs::write(&path, with_options(bytes.clone(), options)).unwrap();
        let out = Command::new("trace-cmd").args(["report", "-t"]).arg(&path).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let stamps = |r: &Recording| {
            let mut all: Vec<_> = r.records.iter().map(|e| (e.at.0 + r.zero_ns, e.cpu, e.event.name())).collect();
            all.sort();
            all
        };
        let (ours, theirs) = (read(&path), trace::read(&out.stdout).recording.unwrap());
        assert!(ours.records.len() > 100 && stamps(&ours) == stamps(&theirs), "options {n}");
    }
}

/// A Python with the published definitions, made once below `target`.
fn python() -> Option<PathBuf> {
    let venv = Path::new(env!("CARGO_TARGET_TMPDIR")).join("perfetto-venv");
    let python = venv.join("bin/python");
    let has =
        |p: &Path| Command::new(p).args(["-c", "import perfetto.protos"]).output().is_ok_and(|o| o.status.success());
    if !has(&python) {
        Command::new("python3").args(["-m", "venv"]).arg(&venv).output().ok()?;
        Command::new(&python).args(["-m", "pip", "install", "-q", "perfetto==0.59.1"]).output().ok()?;
    }
    has(&python).then_some(python)
}

#[test]
fn published_definitions_decode_perfetto() {
    let Some(python) = python() else {
        return skip("the PyPI package perfetto 0.59.1 cannot be installed here");
    };
    let dir = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/decode_perfetto.py");
    let decoded = |path: &Path| {
        let out = Command::new(&python).arg(&script).arg(path).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    };
    let of = |text: &str, name: &str| {
        text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(' ')?.parse::<u64>().ok()).unwrap_or(0)
    };
    // Its frames overlap; devices have slices as well.
    let mut video = spec(500);
    video.workload =
        load::workload("video", &video.platform, Dialect::Workgen, &Settings::default()).unwrap().value.workload;
    let (wrote, path) = written(dir.path(), "v.pftrace", Detail::Decisions, &video);
    let slices = wrote.counts()["wattif_mark"] + wrote.counts()["wattif_device_done"];
    assert_eq!(of(&decoded(&path), "TYPE_SLICE_BEGIN"), slices);
    let (wrote, path) = written(dir.path(), "a.pftrace", Detail::Full, &spec(60));
    let text = decoded(&path);
    let count = |name: &str| of(&text, name);
    for (name, n) in wrote.counts().into_iter().filter(|(n, _)| n.starts_with("sched_") || *n == "cpu_frequency") {
        assert_eq!(count(name), n, "{name}");
    }
    for (ours, theirs) in [
        ("wattif_placement", "decision placement"),
        ("wattif_frequency", "decision frequency"),
        ("wattif_idle", "decision idle state"),
    ] {
        assert_eq!(count(theirs), wrote.counts()[ours], "{theirs}");
    }
    assert_eq!(count("weighed"), wrote.counts()["wattif_energy_candidate"]);
    assert!(count("TYPE_COUNTER") > 0);
}

/// A few kB of each format.
fn samples(dir: &Path) -> Vec<Vec<u8>> {
    let small = spec(3);
    let names = ["s.dat", "s.pftrace", "s.txt", "s.pftrace.gz"];
    names.map(|n| std::fs::read(written(dir, n, Detail::Decisions, &small).1).unwrap()).to_vec()
}

#[test]
fn every_truncation_and_byte_change_is_survived() {
    let dir = tempfile::tempdir().unwrap();
    for sample in samples(dir.path()) {
        let whole = trace::read(&sample).recording.unwrap().records.len();
        // Pages of trace.dat are mostly empty in so small a trace: steps of a prime see every field.
        let step = 1 + sample.len() / 4_000;
        for n in (0..sample.len()).step_by(step) {
            let read = trace::read(&sample[..n]);
            let kept = read.recording.as_ref().map_or(0, |r| r.records.len());
            assert!(kept <= whole);
            // Lines of a text and packets of Perfetto may end anywhere.
            let between = sample[0] == b'c' || sample[0] == 0x0a && between_packets(&sample, n);
            let said = !read.diagnostics.is_empty();
            assert!(kept == whole || said || between, "{n} of {} bytes: {kept} of {whole} events", sample.len());
        }
        let mut changed = sample.clone();
        for i in (0..sample.len()).step_by(step) {
            for value in [0, 0xff, sample[i] ^ 0x80, sample[i].wrapping_add(1)] {
                changed[i] = value;
                let read = trace::read(&changed).recording;
                std::hint::black_box(
                    read.map(|r| infer::workload(&r, &infer::platform(&r), "damaged", &Default::default())),
                );
            }
            changed[i] = sample[i];
        }
    }
}

/// Does a packet end at `n`?
fn between_packets(trace: &[u8], n: usize) -> bool {
    let mut at = 0;
    while at < n {
        let (mut len, mut shift) = (0, 0);
        loop {
            at += 1;
            len |= usize::from(trace[at] & 0x7f) << shift;
            shift += 7;
            if trace[at] < 0x80 {
                break;
            }
        }
        at += 1 + len;
    }
    at == n
}

/// Traces of others, where they are at hand (`WATTIF_TRACES`, or `shared/traces` beside the project).
fn public_samples() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().skip(2).take(3).map(|p| p.join("shared/traces"));
    let named = std::env::var_os("WATTIF_TRACES").map(PathBuf::from);
    named.into_iter().chain(beside).find(|p| p.join("lisa_trace.txt").is_file())
}

#[test]
fn traces_of_real_machines() {
    let Some(dir) = public_samples() else { return skip("no folder of public traces (WATTIF_TRACES)") };
    let check = |file: &str, cpus: usize, counts: &[(&str, u64)]| {
        let got = read(&dir.join(file));
        assert_eq!(got.nr_cpus, cpus, "{file}");
        let all = got.counts();
        for (name, n) in counts {
            assert_eq!(all.get(name).or(got.unknown.get(*name)).copied().unwrap_or(0), *n, "{file}: {name}");
        }
        got
    };
    let six =
        check("lisa_example_rtapp.trace.dat", 6, &[("bprint", 6242), ("sched_switch", 1552), ("cpu_frequency", 12)]);
    let seven = check("lisa_example_rtapp.v7zstd.dat", 6, &[("bprint", 6242), ("sched_switch", 1552)]);
    assert_eq!(six.records, seven.records, "converted, the same");
    check("trappy_trace.dat", 8, &[("bprint", 501), ("thermal_temperature", 6)]);
    check("lisa_trace.txt", 6, &[("sched_switch", 1856), ("sched_wakeup", 1068), ("print", 14)]);
    let counts = [("sched_switch", 715), ("cpu_idle", 621), ("sched_wakeup", 421), ("cpu_frequency", 104)];
    check("trappy_trace_surfaceflinger.html", 8, &counts);
    let counts = [("sched_switch", 15267), ("cpu_idle", 11687), ("sched_wakeup", 8743), ("cpu_frequency", 168)];
    check("mspt_test_trace.perfetto-trace", 7, &counts);
    let counts = [("sched_switch", 1566), ("sched_waking", 776), ("cpu_idle", 3377), ("sched_migrate_task", 27)];
    let real = check("qemu_arm64_6cpu_linux6.1_rtapp.trace.dat", 6, &counts);
    assert_eq!(real.release.as_deref(), Some("6.1.0-56-arm64"));
    check("mspt_perf.data.txt", 0, &[("cpu-clock", 102)]);
    check("catapult_android_systrace.txt", 1, &[("sched_switch", 58), ("sched_wakeup", 33)]);
    check("catapult_decompressed_atrace_data.txt", 6, &[("tracing_mark_write", 1042)]);
    check("trappy_trace_systrace.html", 6, &[("sched_switch", 4), ("sched_wakeup", 4)]);
    check("trappy_trace_legacy_systrace.html", 8, &[("sched_switch", 3), ("sched_wakeup", 2)]);
}

#[test]
fn a_trace_becomes_a_workload() {
    let dir = tempfile::tempdir().unwrap();
    let spec = spec(60);
    let recording = read(&written(dir.path(), "a.dat", Detail::Tracepoints, &spec).1);
    let platform = spec.platform.without_background();
    let inferred = infer::workload(&recording, &platform, "a", &infer::Options::default());
    let tasks = &inferred.workload.tasks;
    let of = |name: &str| tasks.iter().find(|t| t.name == name).unwrap_or_else(|| panic!("no task {name}"));
    let count = |name: &str, is: fn(&Op) -> bool| of(name).program.ops.iter().filter(|o| is(o)).count();
    assert!(count("worker", |o| matches!(o, Op::Get(_))) >= 8, "woken by ui, not by a clock");
    assert!(count("ui", |o| matches!(o, Op::Put { .. })) >= 8);
    assert!(count("rt", |o| matches!(o, Op::Timer { .. })) >= 5);
    assert_eq!((of("rt").attr.policy, of("rt").attr.rt_priority, of("batch").attr.nice), (Policy::Fifo, 50, 10));
    assert!(tasks.iter().any(|t| t.background && t.name.starts_with("kworker")) && !of("ui").background);
    // Under the same kernel the same work is done.
    let (recorded, _) = wattif::recording::analyse(&recording, &spec.platform, true);
    let with_its_own = spec.platform.clone();
    let replay = RunSpec { platform, workload: inferred.workload.clone(), ..spec };
    let again = wattif::run::run(&replay, &mut []).unwrap();
    let both = RunSpec { platform: with_its_own, ..replay };
    let both = wattif::run::run(&both, &mut []).unwrap();
    assert_eq!(both.summary.digest, again.summary.digest, "the background is there once");
    let again = again.report;
    for task in ["ui", "worker", "batch", "rt"] {
        let work = |r: &wattif_lab::metrics::RunReport| r.metric("work_s", Some(task)).unwrap();
        let (a, b) = (work(&recorded), work(&again));
        assert!((a - b).abs() < 0.05 * a, "{task}: {a} s of work recorded, {b} s replayed");
    }
    // Our own file reads back; rt-app's words say most of it.
    let file = wattif_formats::workload_json::write(&inferred.workload, None, &Default::default());
    assert_eq!(wattif_formats::workload_json::parse(&file, 8).unwrap().workload, inferred.workload);
    let (text, _) = wattif_formats::rtapp::write(&inferred.workload, None, &Default::default());
    let parsed = wattif_formats::rtapp::parse(&text, "a", &Default::default());
    assert!(parsed.workload.is_some(), "{:?}", parsed.diagnostics);
}

#[test]
fn figures_of_a_recording_are_those_of_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let spec = spec(60);
    let (_, path) = written(dir.path(), "a.dat", Detail::Tracepoints, &spec);
    let ran = wattif::run::run(&spec, &mut []).unwrap().report;
    let recording = read(&path);
    let (recorded, missing) = wattif::recording::analyse(&recording, &spec.platform, true);
    assert_eq!(recorded.metrics.wakeup_latency_us, ran.metrics.wakeup_latency_us);
    assert_eq!(recorded.metrics.wu_lat_us, ran.metrics.wu_lat_us);
    assert_eq!((recorded.metrics.slices, recorded.metrics.migrations), (ran.metrics.slices, ran.metrics.migrations));
    assert_eq!(recorded.metrics.idle_accuracy, ran.metrics.idle_accuracy);
    let told: Vec<_> = missing.iter().map(|m| (m.figures.label(), m.derived)).collect();
    // Its CPUs sleep together: when each does is inferred.
    let energy = ("energy", true);
    assert_eq!(told, [energy, ("idle_wakeups, oracle", false), ("balance.passes, moved, cost_s", false)]);
    // Kernels without the event: sleeps are judged here, by the same rule, also where states are switched off.
    let mut off = spec.clone();
    off.platform.clusters.iter_mut().for_each(|c| c.idle[0].disabled = true);
    for spec in [&spec, &off] {
        let mut unjudged = read(&written(dir.path(), "a.dat", Detail::Tracepoints, spec).1);
        unjudged.records.retain(|r| !matches!(r.event(), Some(Event::CpuIdleMiss { .. })));
        let judged = wattif::recording::analyse(&unjudged, &spec.platform, true).0.metrics.idle_accuracy;
        assert_eq!(judged, wattif::run::run(spec, &mut []).unwrap().report.metrics.idle_accuracy);
    }
    let text = written(dir.path(), "a.pftrace", Detail::Tracepoints, &spec).1;
    let (_, missing) = wattif::recording::analyse(&read(&text), &spec.platform, true);
    assert!(missing.iter().any(|m| m.figures == Figures::RtappLog), "{missing:?}");
}

/// Ways into and out of idle states are busy: of a state of the CPU, of its core, of its cluster.
#[test]
fn energy_of_a_recording_is_that_of_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let settings = Settings::default();
    for (platform, model) in [("hikey960", "sleepers"), ("hikey620", "server"), ("core_i7_2600k", "sleepers")] {
        let platform = load::platform(platform, &settings).unwrap().value;
        let loaded = load::workload(model, &platform, Dialect::Workgen, &settings).unwrap();
        let spec = RunSpec { platform, workload: loaded.value.workload, ..spec(300) };
        let path = written(dir.path(), "a.dat", Detail::Tracepoints, &spec).1;
        let energy = |r: wattif_lab::metrics::RunReport| r.metrics.energy.unwrap().total;
        let ran = energy(wattif::run::run(&spec, &mut []).unwrap().report);
        let recorded = energy(wattif::recording::analyse(&read(&path), &spec.platform, true).0);
        let name = &spec.platform.name;
        assert!((recorded - ran).abs() < 0.02 * ran, "{model} on {name}: {ran} ran, {recorded} recorded");
    }
}

/// A machine with a CPU that is offline: its traces have the kernel's numbers, a platform counts without gaps. Packed by gzip as well.
#[test]
fn an_archive_of_a_machine_with_a_hole() {
    let dir = tempfile::tempdir().unwrap();
    let files = [("online", "0,2-3"), ("present", "0-3"), ("cpu0/cpu_capacity", "400")];
    let files = files.into_iter().map(|(name, text)| (name.to_string(), text));
    for (name, text) in files.chain([2, 3].map(|cpu| (format!("cpu{cpu}/cpu_capacity"), "1024"))) {
        let path = dir.path().join("m/sys/devices/system/cpu").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let wattif = |args: &[&str]| {
        let done = Command::new(env!("CARGO_BIN_EXE_wattif")).current_dir(dir.path()).args(args).output().unwrap();
        (done.status.code(), String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap())
    };
    let (_, platform, said) = wattif(&["import", "platform", "--sysfs", "m"]);
    assert!(platform.contains("kernel_cpus = \"0,2-3\""), "{platform}");
    assert!(said.contains("CPUs 1 are offline and left out; CPU 2 becomes CPU 1"), "{said}");
    let switch = |cpu: u32, at: &str, prev: u32, next: u32| {
        format!(
            "x-{prev} [00{cpu}] d..2. {at}: sched_switch: prev_comm=x prev_pid={prev} prev_prio=120 prev_state=S ==> \
             next_comm=x next_pid={next} next_prio=120\n"
        )
    };
    let trace = |cpu| switch(cpu, "1.0", 0, 7) + &switch(cpu, "1.4", 7, 0) + &switch(0, "1.5", 0, 8);
    let archive = |cpu: u32| {
        let (text, trace) = (platform.as_bytes(), trace(cpu));
        let member = |name: &str, bytes: &[u8], last: bool| {
            let size = bytes.len() as u64;
            [&archive::header(name, size)[..], bytes, &archive::padding(size, last)].concat()
        };
        [member("platform.toml", text, false), member("trace.txt", trace.as_bytes(), true)].concat()
    };
    std::fs::write(dir.path().join("p.toml"), &platform).unwrap();
    std::fs::write(dir.path().join("t.txt"), trace(3)).unwrap();
    std::fs::write(dir.path().join("a.tar"), archive(3)).unwrap();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gz, &archive(3)).unwrap();
    std::fs::write(dir.path().join("a.tar.gz"), gz.finish().unwrap()).unwrap();
    for args in [&["a.tar"][..], &["a.tar.gz"], &["t.txt", "-p", "p.toml"]] {
        let (code, json, said) = wattif(&[&["replay", "--as-recorded", "--json"], args].concat());
        assert_eq!(code, Some(0), "{args:?}: {said}");
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let thread = json["tasks"].as_array().unwrap().iter().find(|t| t["pid"] == 7).unwrap();
        let seconds = |v: &serde_json::Value| (v.as_f64().unwrap() * 10.0).round() / 10.0;
        assert_eq!((json["recording"]["cpus"].as_u64(), seconds(&thread["runtime_s"])), (Some(3), 0.4), "{args:?}");
        // At the speed of a large CPU.
        assert_eq!(seconds(&thread["work_s"]), 0.4, "{args:?}");
    }
    // Cut in its trace.
    let (whole, size) = (archive(3), trace(3).len());
    let begin = whole.windows(5).position(|w| w == b"x-0 [").unwrap();
    std::fs::write(dir.path().join("cut.tar"), &whole[..begin + size - 20]).unwrap();
    let (code, json, said) = wattif(&["replay", "--as-recorded", "--json", "cut.tar"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(&format!("`trace.txt` says it has {size} bytes; {} are left", size - 20)), "{said}");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["recording"]["cpus"].as_u64(), Some(3));
    // So early that nothing of it can be read.
    for left in [0, 1, 9] {
        std::fs::write(dir.path().join("cut.tar"), &whole[..begin + left]).unwrap();
        let (code, _, said) = wattif(&["replay", "--as-recorded", "cut.tar"]);
        assert_eq!(code, Some(2), "{said}");
        let said = said.split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ");
        let told = format!(
            "the archive is truncated and its trace is lost: `trace.txt` says it has {size} bytes; {left} are left"
        );
        assert!(said.contains(&told) && !said.contains("perf script"), "{said}");
    }
    // What came or went meanwhile has no place.
    std::fs::write(dir.path().join("b.tar"), archive(1)).unwrap();
    let (code, _, said) = wattif(&["replay", "--as-recorded", "b.tar"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("the events of b.tar are of CPUs 0-1, or name others; its platform has CPUs 0,2-3"),
        "{said}"
    );
}

#[test]
fn interest_of_tracepoints_has_no_decisions() {
    assert!(!Detail::Tracepoints.interest().wants(Interest::DECISIONS));
    assert!(Detail::Full.interest().wants(Interest::POWER));
}

/// `wattif record` with a trace-cmd that works, one that may not, and none.
#[cfg(unix)]
#[test]
fn a_recording_is_one_archive() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let (_, trace) = written(dir.path(), "a.dat", Detail::Tracepoints, &spec(60));
    let record = |script: Option<&str>, out: &str| {
        let bin = dir.path().join(format!("bin-{}", out.replace('/', "-")));
        std::fs::create_dir(&bin).unwrap();
        if let Some(script) = script {
            let path = bin.join("trace-cmd");
            std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let path = format!("{}:/usr/bin:/bin", bin.display());
        let path = if script.is_some() { path } else { bin.display().to_string() };
        let done = Command::new(env!("CARGO_BIN_EXE_wattif"))
            .current_dir(dir.path())
            .env("PATH", path)
            .args(["record", "-o", out, "--", "sleep", "1 s"])
            .output()
            .unwrap();
        (done.status.code(), String::from_utf8(done.stderr).unwrap())
    };
    let works =
        format!("while [ $# -gt 0 ]; do [ \"$1\" = -o ] && cp '{}' \"$2\"; shift; done; exit 0", trace.display());
    let (code, said) = record(Some(&works), "run.tar");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("wattif replay run.tar"), "{said}");
    let replay = Command::new(env!("CARGO_BIN_EXE_wattif"))
        .current_dir(dir.path())
        .args(["replay", "run.tar", "-p", "hikey960", "--as-recorded", "--json"])
        .output()
        .unwrap();
    assert!(replay.status.success(), "{}", String::from_utf8_lossy(&replay.stderr));
    assert!(String::from_utf8_lossy(&replay.stdout).contains("wattif.recorded/1"));

    // Its own errors, and those of the command, are no reason to throw away what was recorded.
    let (code, said) = record(Some(&works.replace("exit 0", "exit 7")), "seven.tar");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("trace-cmd ended with exit status: 7; its trace is taken"), "{said}");
    assert!(dir.path().join("seven.tar").exists());
    // Ctrl-C goes to the command as well: trace-cmd then writes what it has.
    let interrupted = format!("kill -INT $PPID; sleep 0.1; {works}");
    assert_eq!(record(Some(&interrupted), "ended.tar").0, Some(0));
    assert!(dir.path().join("ended.tar").exists());
    // What is no trace is packed, and not recommended.
    let (code, said) = record(Some(&works.replace("cp '", "echo '")), "echo.tar");
    assert_eq!((code, said.contains("trace-cmd wrote no trace (exit status: 0)")), (Some(2), true), "{said}");
    let garbage = "while [ $# -gt 0 ]; do [ \"$1\" = -o ] && echo junk > \"$2\"; shift; done; exit 0";
    let (code, said) = record(Some(garbage), "junk.tar");
    assert_eq!((code, said.contains("a replay will not take its trace")), (Some(0), true), "{said}");
    assert!(!said.contains("next:"), "{said}");
    // A name that cannot be written is refused before anything runs.
    let (code, said) = record(Some("touch ran; exit 0"), "bin-run.tar/none/x.tar");
    assert_eq!((code, dir.path().join("ran").exists()), (Some(2), false), "{said}");

    // The command has the standard streams of `wattif record`.
    let script = format!("cat; {works}");
    std::fs::write(dir.path().join("bin-run.tar/trace-cmd"), format!("#!/bin/sh\n{script}\n")).unwrap();
    let mut piped = Command::new(env!("CARGO_BIN_EXE_wattif"))
        .current_dir(dir.path())
        .env("PATH", format!("{}:/usr/bin:/bin", dir.path().join("bin-run.tar").display()))
        .args(["record", "-o", "piped.tar", "--", "cat"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut piped.stdin.take().unwrap(), b"hello\n").unwrap();
    assert_eq!(piped.wait_with_output().unwrap().stdout, b"hello\n");

    let by_hand = |said: &str, out: &str| {
        assert!(said.contains("sudo trace-cmd record -q -i -b 20000 -o trace.dat -e sched:sched_switch"), "{said}");
        assert!(said.contains("sleep '1 s'"), "quoted: {said}");
        assert!(said.contains(&format!("wattif record -o {out} --trace trace.dat")), "{said}");
    };
    let (code, said) = record(Some("echo 'Permission denied' >&2; exit 1"), "no.tar");
    assert_eq!(code, Some(2));
    assert!(said.contains("Permission denied"), "{said}");
    by_hand(&said, "no.tar");
    let (code, said) = record(None, "none.tar");
    assert_eq!(code, Some(2));
    assert!(said.contains("apt-get install trace-cmd"), "{said}");
    by_hand(&said, "none.tar");
    assert!(!dir.path().join("no.tar").exists() && !dir.path().join("none.tar").exists());

    // What was recorded by hand.
    let packed = Command::new(env!("CARGO_BIN_EXE_wattif"))
        .current_dir(dir.path())
        .args(["record", "-o", "hand.tar", "--trace", "a.dat"])
        .output()
        .unwrap();
    assert!(packed.status.success());
    let whole = std::fs::read(dir.path().join("hand.tar")).unwrap();
    let archive = wattif_formats::archive::read(&whole).unwrap();
    assert_eq!(archive.trace, std::fs::read(&trace).unwrap());
    let said = String::from_utf8_lossy(&packed.stderr);
    assert!(said.contains("a.dat is of another machine: it is of Linux 6.12, this is Linux "), "{said}");
    assert!(said.contains("it is of simulated, this is") && archive.platform.is_none() && archive.kernel.is_none());

    // One that says nothing of its machine.
    let line = "a-1 [000] 1.0: sched_waking: comm=b pid=2 prio=120 target_cpu=000\n";
    std::fs::write(dir.path().join("line.txt"), line).unwrap();
    let packed = Command::new(env!("CARGO_BIN_EXE_wattif"))
        .current_dir(dir.path())
        .args(["record", "-o", "line.tar", "--trace", "line.txt"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&packed.stderr);
    assert!(said.contains("line.txt does not say what machine it is of: taken as one of this machine"), "{said}");
    let whole = std::fs::read(dir.path().join("line.tar")).unwrap();
    let archive = wattif_formats::archive::read(&whole).unwrap();
    assert!(archive.platform.is_some() && archive.kernel.is_some_and(|k| k.contains("inherits")));

    // An archive may hold a kernel that is not that of its trace.
    let kernel = "name = \"captured\"\ntitle = \"Linux 6.18.44, as captured\"\ninherits = \"linux-6.12\"\n";
    let whole = std::fs::read(&trace).unwrap();
    let member = |name: &str, bytes: &[u8], last: bool| {
        let size = bytes.len() as u64;
        [&archive::header(name, size)[..], bytes, &archive::padding(size, last)].concat()
    };
    let mixed = [member("kernel.toml", kernel.as_bytes(), false), member("trace.dat", &whole, true)].concat();
    std::fs::write(dir.path().join("mixed.tar"), mixed).unwrap();
    let replayed = Command::new(env!("CARGO_BIN_EXE_wattif"))
        .current_dir(dir.path())
        .args(["replay", "mixed.tar", "-k", "linux-6.12", "--seeds", "1"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&replayed.stderr);
    assert!(said.contains("the archive's kernel is Linux 6.18.44, the trace is of Linux 6.12"), "{said}");
    let figures = String::from_utf8_lossy(&replayed.stdout);
    assert!(figures.contains("What if") && !figures.contains("idle_accuracy"), "no platform: {figures}");
    assert!(figures.contains("missing   balance.passes, moved, cost_s"), "{figures}");
}
