//! What becomes of a program, and that it comes back.

use super::super::{Dialect, Options, parse};
use super::*;
use std::path::Path;
use wattif_model::workload::models::MODELS;
use wattif_model::workload::{BarrierSpec, SemaphoreSpec, forever};

fn file(ops: Vec<Op>) -> Value {
    let task = TaskSpec::new("t", ops);
    let (text, _) = write(&Workload { tasks: vec![task], ..Workload::default() }, None, &Logs::default());
    serde_json::from_str(&text).unwrap()
}
fn run(us: u64) -> Op {
    Op::Run(Amount::Fixed(us * 1_000))
}
fn timer() -> Op {
    Op::Timer { timer: 0, period: Amount::Fixed(10_000_000), absolute: false }
}

#[test]
fn a_task_that_binds_itself() {
    let cpus = [wattif_model::CpuId(1)].into_iter().collect();
    let task = &file(vec![
        run(5),
        timer(),
        Op::SetAffinity(Some(cpus)),
        run(6),
        Op::SetAttr(SchedAttr::default()),
        run(7),
    ])["tasks"]["t"];
    assert!(task.get("cpus").is_none() && task["phases"]["p0"].get("cpus").is_none());
    assert_eq!((&task["phases"]["p1"]["cpus"], &task["phases"]["p1"]["run0"]), (&json!([1]), &json!(6)));
    let p2 = &task["phases"]["p2"];
    assert!(p2["cpus"] == json!([1]) && p2.as_object().unwrap().values().any(|v| *v == 7));
}

#[test]
fn loops_of_tasks_and_of_phases() {
    let body = [run(5), timer()];
    let whole = [vec![Op::Loop { count: None, end: 3 }], body.to_vec(), vec![Op::LoopEnd { begin: 0 }]].concat();
    let task = &file(whole)["tasks"]["t"];
    assert_eq!((task["loop"].as_i64(), task["phases"]["p0"]["loop"].as_i64()), (Some(-1), Some(1)));
    let tail = [vec![run(7), Op::Loop { count: None, end: 4 }], body.to_vec()].concat();
    let tail = [tail, vec![Op::LoopEnd { begin: 1 }, Op::Sleep(Amount::Fixed(u64::MAX / 2))]].concat();
    let task = &file(tail)["tasks"]["t"];
    assert_eq!((task["loop"].as_i64(), task["phases"]["p1"]["loop"].as_i64()), (Some(1), Some(-1)));
    assert_eq!(task["phases"]["p0"]["run0"], 7);
    assert_eq!(task["phases"]["p1"]["run0"], 5);
    assert!(task["phases"].get("p2").is_none());
}

/// A sleep of nothing is a call to sleep, and a runtime of nothing a piece of work.
#[test]
fn events_without_time_are_events() {
    let spin = Op::Spin { wall: Amount::Fixed(0), chunk: 32_000 };
    let task = &file(vec![Op::Sleep(Amount::Fixed(0)), run(0), spin])["tasks"]["t"];
    assert_eq!(task["phases"], json!({"p0": {"loop": 1, "sleep0": 0, "runtime1": 0}}));
}

/// Attributes change within loops: each phase has its own, and no key stands twice.
#[test]
fn attributes_within_loops() {
    let check = |task: &str, said: usize| {
        let text = format!(r#"{{"tasks": {{"a": {{{task}}}}}}}"#);
        let options = Options { dialect: Dialect::RtApp, nr_cpus: Some(8), set: vec![] };
        let first = parse(&text, "x", &options).workload.unwrap();
        let (text, lost) = write(&first, None, &Logs::default());
        let again = parse(&text, "x", &options);
        let twice = again.diagnostics.iter().filter(|d| d.code == "rtapp::W02").count();
        assert_eq!((twice, lost.len()), (0, said), "{lost:?}\n{text}");
        let file: Value = serde_json::from_str(&text).unwrap();
        let list = |w: &Workload| unrolled(&w.tasks[0].program.ops, 12);
        (file["tasks"]["a"].clone(), list(&first), list(&again.workload.unwrap()))
    };
    let phases = |p: &str, q: &str| {
        format!(r#""phases": {{"p": {{{p}, "run": 1, "sleep": 1}}, "q": {{{q}, "run": 2, "sleep": 1}}}}"#)
    };
    let fifo = r#""policy": "SCHED_FIFO", "priority": 10"#;
    for (p, q) in [
        (r#""priority": 5"#, fifo),
        (r#""cpus": [0]"#, r#""cpus": [1], "util_max": 100"#),
        (r#""loop": 2, "taskgroup": "/g""#, r#""policy": "SCHED_BATCH""#),
    ] {
        for count in ["", r#""loop": 3, "#] {
            let (file, was, is) = check(&format!("{count}{}", phases(p, q)), 0);
            assert_eq!(file["phases"].as_object().unwrap().len(), 2, "{file}");
            assert_eq!(was, is);
        }
    }
    // A first round of its own is written out with the others, where they end.
    let (file, was, is) = check(&format!(r#""loop": 3, {}"#, phases(r#""util_min": 5"#, fifo)), 0);
    assert_eq!((was, file["phases"].as_object().unwrap().len(), &file["loop"]), (is, 6, &json!(1)));
    // Of an endless or long loop it is what the first phase leaves to the thread.
    let (file, was, is) = check(&phases(r#""util_min": 5"#, fifo), 0);
    assert_eq!((&file["loop"], file["phases"].as_object().unwrap().len()), (&json!(-1), 2));
    assert!(was == is && was[0].contains("Normal") && was[4].contains("Fifo"), "{was:?} {is:?}");
    for (p, q) in [
        (r#""util_min": 5"#, r#""policy": "SCHED_IDLE", "priority": 3"#),
        (r#""priority": 5"#, r#""dl-runtime": 2000"#),
        (r#""loop": 2, "util_max": 500"#, r#""dl-runtime": 2000, "priority": 3"#),
        (r#""util_max": 500"#, r#""policy": "SCHED_DEADLINE", "dl-runtime": 2000, "dl-period": 9000"#),
    ] {
        for count in ["", r#""loop": 100000, "#] {
            let (file, was, is) = check(&format!("{count}{}", phases(p, q)), 0);
            assert_eq!(was, is, "{p} {q}: {file}");
            assert_ne!(was[0], was[if p.contains("loop") { 6 } else { 4 }], "{p} {q}");
        }
    }
}

/// rt-app wants an event in each task: those of which nothing is left never come to it.
#[test]
fn a_task_that_does_nothing() {
    for task in [r#""loop": 0, "phases": {"x": {"run": 10000}}"#, r#""loop": 1, "phases": {"x": {"run": 0}}"#] {
        let text = format!(r#"{{"tasks": {{"a": {{{task}}}}}}}"#);
        let first = parse(&text, "x", &Options::default()).workload.unwrap();
        let (text, _) = write(&first, None, &Logs::default());
        let again = parse(&text, "x", &Options::default()).workload.unwrap_or_else(|| panic!("{text}"));
        let runs = |op: &Op| matches!(op, Op::Run(Amount::Fixed(ns)) if *ns > 0);
        assert!(!again.tasks[0].program.ops.iter().any(runs), "{text}");
        let file: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&file["tasks"]["a"]["loop"], &file["tasks"]["a"]["phases"]["p0"]["run0"]), (&json!(0), &json!(1)));
    }
}

/// It is a nice value under SCHED_OTHER and SCHED_BATCH; rt-app gives SCHED_IDLE none, which is said of a thread that has one.
#[test]
fn priorities_of_fair_policies() {
    for (policy, nice) in [("SCHED_OTHER", 5), ("SCHED_BATCH", 5), ("SCHED_IDLE", 0)] {
        let text = format!(r#"{{"tasks": {{"a": {{"policy": "{policy}", "priority": 5, "run": 1, "sleep": 1}}}}}}"#);
        let first = parse(&text, "x", &Options::default()).workload.unwrap();
        let (text, _) = write(&first, None, &Logs::default());
        let again = parse(&text, "x", &Options::default()).workload.unwrap();
        assert_eq!((again.tasks[0].attr, first.tasks[0].attr.nice), (first.tasks[0].attr, nice), "{policy}");
    }
    let attr = SchedAttr { policy: Policy::Idle, nice: 5, ..SchedAttr::default() };
    let tasks = vec![TaskSpec { attr, ..TaskSpec::new("a", vec![run(1)]) }];
    let (text, lost) = write(&Workload { tasks, ..Workload::default() }, None, &Logs::default());
    assert!(!text.contains("priority") && lost.iter().any(|l| l.contains("SCHED_IDLE")), "{lost:?}\n{text}");
}

/// The first events of a program with the attributes that hold for each.
fn unrolled(ops: &[Op], most: usize) -> Vec<String> {
    let (mut attr, mut cpus, mut group) = (SchedAttr::default(), None, 0);
    let (mut found, mut pc, mut left) = (Vec::new(), 0, vec![0; ops.len()]);
    while pc < ops.len() && found.len() < most {
        match &ops[pc] {
            Op::Loop { count, .. } => left[pc] = count.unwrap_or(u64::MAX),
            Op::LoopEnd { begin } => {
                let begin = *begin as usize;
                left[begin] -= 1;
                pc = if left[begin] > 0 { begin } else { pc };
            }
            Op::SetAttr(new) => {
                let (min, max) = (new.util_min.or(attr.util_min), new.util_max.or(attr.util_max));
                attr = SchedAttr { util_min: min, util_max: max, ..*new };
            }
            Op::SetAffinity(set) => cpus = set.clone(),
            Op::SetGroup(at) => group = *at,
            Op::Run(_) | Op::Sleep(_) => found.push(format!("{:?} {attr:?} {cpus:?} {group}", ops[pc])),
            _ => {}
        }
        pc += 1;
    }
    found
}

#[test]
fn what_is_said_of_calibration_and_logs_is_kept() {
    let check = |global: &str, cpu: Option<u32>| {
        let text = format!(r#"{{"global": {{{global}}}, "tasks": {{"a": {{"run": 1}}}}}}"#);
        let read = |text: &str| parse(text, "x", &Options::default());
        let first = read(&text);
        let workload = first.workload.clone().unwrap();
        let again = read(&write(&workload, first.calibration_cpu, &first.logs).0);
        assert_eq!(
            (again.calibration_cpu, &again.logs, again.workload),
            (cpu, &first.logs, first.workload),
            "{global}"
        );
    };
    check("", None);
    check(r#""calibration": "CPU4", "cumulative_slack": true"#, Some(4));
    check(r#""calibration": 100, "log_basename": "foo", "log_size": "disable""#, None);
}

/// What the file of a workload is read back as.
fn read_back(workload: &Workload) -> Workload {
    let (text, _) = write(workload, None, &Logs::default());
    let options = Options { dialect: Dialect::Workgen, nr_cpus: Some(8), set: vec![] };
    let parsed = parse(&text, "again", &options);
    parsed.workload.unwrap_or_else(|| panic!("{}: {:#?}\n{text}", workload.name, parsed.diagnostics))
}

#[test]
fn every_model_has_a_file() {
    for model in MODELS {
        let w = model.workload(&[]).unwrap();
        let again = read_back(&w);
        let text = |w: &Workload| write(w, None, &Logs::default()).0;
        assert_eq!(text(&again), text(&read_back(&again)), "{}", model.name);
        let threads = |w: &Workload| w.tasks.iter().map(|t| t.instances).sum::<u32>();
        let tokens = w.semaphores.iter().map(|s| s.initial).sum::<u32>().div_ceil(10_000);
        assert_eq!(threads(&again), threads(&w) + tokens, "{}", model.name);
        // Every task that works still does.
        let works = |t: &TaskSpec| t.program.ops.iter().any(|op| matches!(op, Op::Run(_)));
        for (was, is) in w.tasks.iter().zip(&again.tasks) {
            assert!(!works(was) || works(is), "{} of {}", was.name, model.name);
        }
    }
}

#[test]
fn what_semaphores_begin_with_is_posted() {
    let semaphores = [("full", 3), ("none", 0)].map(|(n, initial)| SemaphoreSpec::new(n, initial)).into();
    let user = TaskSpec::new("tokens", vec![Op::SemWait(0), Op::SemPost(1), run(1)]);
    let (text, _) = write(&Workload { tasks: vec![user], semaphores, ..Workload::default() }, None, &Logs::default());
    let file: Value = serde_json::from_str(&text).unwrap();
    let giver = &file["tasks"]["tokens_2"];
    assert_eq!((giver["loop"].as_i64(), &giver["phases"]["p0"]["sem_post0"]), (Some(3), &json!("full")));
    assert_eq!(giver["phases"]["p0"].as_object().unwrap().len(), 2, "{text}");
}

/// A thread that goes on for ever without consuming time is refused: no giver posts so often that it seems one.
#[test]
fn many_posts_are_shared_among_several_tasks() {
    let semaphores = [("a", 9_000), ("b", 25_001)].map(|(n, initial)| SemaphoreSpec::new(n, initial)).into();
    let user = TaskSpec::new("t", vec![Op::SemWait(0), Op::SemWait(1), run(1)]);
    let again = read_back(&Workload { tasks: vec![user], semaphores, ..Workload::default() });
    let posts = |t: &TaskSpec| {
        let counts = t.program.ops.iter().filter_map(|op| match op {
            Op::Loop { count, .. } => *count,
            _ => None,
        });
        counts.sum::<u64>()
    };
    assert_eq!(again.tasks.iter().skip(1).map(posts).collect::<Vec<_>>(), [10_000, 10_000, 10_000, 4_001]);
}

#[test]
fn a_short_series_is_written_out() {
    let program = |n: u64| {
        let pauses = Op::Sleep(Amount::Random(Dist::Sequence { values: (1..=n).map(|i| i * 1_000).collect() }));
        vec![Op::Loop { count: None, end: 3 }, run(7), pauses, Op::LoopEnd { begin: 0 }]
    };
    let task = &file(program(3))["tasks"]["t"];
    let phase = task["phases"]["p0"].as_object().unwrap();
    let sleeps: Vec<_> = phase.iter().filter(|(k, _)| k.starts_with("sleep")).map(|(_, v)| v.as_u64()).collect();
    assert_eq!((task["loop"].as_i64(), sleeps), (Some(-1), vec![Some(1), Some(2), Some(3)]));
    let long = Workload { tasks: vec![TaskSpec::new("t", program(101))], ..Workload::default() };
    let (text, lost) = write(&long, None, &Logs::default());
    assert!(text.contains("\"sleep1\": 51") && lost.iter().any(|l| l.contains("series")), "{text} {lost:?}");
}

#[test]
fn rt_app_files_come_back_as_they_were() {
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/rtapp");
    let mut same = 0;
    for file in std::fs::read_dir(files).unwrap().map(|f| f.unwrap().path()) {
        let text = std::fs::read_to_string(&file).unwrap();
        let options = Options { dialect: Dialect::Workgen, nr_cpus: Some(8), set: vec![] };
        let Some(first) = parse(&text, "again", &options).workload else { continue };
        // Control characters in names and long ones are not written.
        if !write(&first, None, &Logs::default()).1.is_empty() || first.tasks.iter().map(|t| &t.name).ne(&names(&first))
        {
            continue;
        }
        assert_eq!(read_back(&first), first, "{}", file.display());
        same += 1;
    }
    assert!(same >= 8, "{same}");
}

#[test]
fn memory_comes_back_as_it_was() {
    let text = r#"{"tasks": {"a": {"mem": 1000, "iorun": 5000, "run": 7, "memrun": {"type": "read", "size": 64, "count": 99}}}}"#;
    let options = Options { dialect: Dialect::Workgen, nr_cpus: Some(8), set: vec![] };
    let first = parse(text, "again", &options).workload.unwrap();
    let (_, lost) = write(&first, None, &Logs::default());
    assert!(lost.len() == 1 && lost[0].contains("`mem`"), "{lost:?}");
    assert_eq!(read_back(&first), first);
    let hour = &file(vec![Op::RunInsensitive(Amount::Fixed(3_600_000_000_000))])["tasks"]["t"]["phases"]["p0"];
    assert_eq!(hour["runtime0"], json!(FOREVER_US), "longer than rt-app's integers count bytes");
}

/// 151 ns becomes 1 µs and 49.5 µs becomes 50; 50.5 becomes 51, which is less than 1 %. Of nothing there is nothing to round.
#[test]
fn coarse_rounding_is_told() {
    let said = |ns| {
        let tasks = vec![TaskSpec::new("t", vec![Op::Run(Amount::Fixed(ns)), Op::Sleep(Amount::Fixed(ns))])];
        write(&Workload { tasks, ..Workload::default() }, None, &Logs::default()).1
    };
    for (ns, told) in [(151, true), (49_500, true), (50_500, false), (5_000, false), (0, false)] {
        assert_eq!(said(ns).len(), usize::from(told), "{ns}: {:?}", said(ns));
        assert!(said(ns).iter().all(|l| l.contains("whole µs")));
    }
}

#[test]
fn a_rounded_duration_and_unfollowed_signals_are_told() {
    let params = [("busy_ms", "100"), ("from_ms", "10"), ("to_ms", "10")].map(|(k, v)| (k.to_string(), v.to_string()));
    let workload = MODELS.iter().find(|m| m.name == "step_response").unwrap().workload(&params).unwrap();
    let lost = write(&workload, None, &Logs::default()).1;
    let has = |what: &str| lost.iter().any(|l| l.contains(what));
    assert!(has("whole seconds: 0.31 became 1") && has("`signals.…`"), "{lost:?}");
    let whole = Workload { duration: Some(Ns(2_000_000_000)), follow_signals: false, ..workload };
    assert_eq!(write(&whole, None, &Logs::default()).1, Vec::<String>::new());
}

#[test]
fn what_a_file_calls_otherwise_is_told() {
    let workload = MODELS.iter().find(|m| m.name == "jankbench").unwrap().workload(&[]).unwrap();
    let (_, lost) = write(&workload, None, &Logs::default());
    assert!(lost.iter().any(|l| l.ends_with("`RenderThread` is `RenderThrea`")), "{lost:?}");
    assert!(lost.iter().any(|l| l.contains("a task `tokens` is added")), "{lost:?}");
}

#[test]
fn queues_become_semaphores() {
    let ops = vec![Op::Get(0), run(5), Op::Put { queue: 1, forward: true }];
    let queues = ["a", "b"].map(wattif_model::workload::QueueSpec::new).into();
    let workload = Workload { tasks: vec![TaskSpec::new("t", ops)], queues, ..Workload::default() };
    let (text, lost) = write(&workload, None, &Logs::default());
    assert!(text.contains("sem_wait") && text.contains("sem_post"), "{text}");
    assert!(lost.len() == 1 && lost[0].starts_with("queues of tokens became semaphores"), "{lost:?}");
}

#[test]
fn means() {
    let near = |dist, value: f64| assert!((mean(&dist) / value - 1.0).abs() < 1e-3, "{dist:?}: {}", mean(&dist));
    near(Dist::Uniform { lo: 10, hi: 20 }, 15.0);
    near(Dist::LogNormal { median: 1_000, sigma_milli: 1_000 }, 1_648.7);
    near(Dist::Pareto { scale: 100, shape_milli: 2_000 }, 199.9);
    near(Dist::Pareto { scale: 100, shape_milli: 1_000 }, 790.8);
    near(Dist::Choice { values: vec![1, 2, 6] }, 3.0);
}

#[test]
fn loops_within_loops_are_written_out() {
    let ops = vec![
        Op::Loop { count: None, end: 6 },
        Op::Loop { count: Some(2), end: 5 },
        Op::Loop { count: Some(3), end: 4 },
        run(7),
        Op::LoopEnd { begin: 2 },
        Op::LoopEnd { begin: 1 },
        Op::LoopEnd { begin: 0 },
    ];
    let task = &file(ops)["tasks"]["t"];
    assert_eq!((task["loop"].as_i64(), task["phases"]["p0"]["loop"].as_i64()), (Some(-1), Some(2)));
    assert_eq!((&task["phases"]["p0"]["run2"], task["phases"]["p0"].get("run3")), (&json!(7), None));
}

/// Tasks that come to one barrier: names, instances and programs.
fn meeting(parties: u32, tasks: Vec<(&str, u32, Vec<Op>)>) -> Workload {
    let task = |(name, instances, ops)| TaskSpec { instances, ..TaskSpec::new(name, ops) };
    let barriers = vec![BarrierSpec { name: "b".into(), parties }];
    Workload { tasks: tasks.into_iter().map(task).collect(), barriers, ..Workload::default() }
}

/// The barriers that the first rounds of a task come to, and how many threads each waits for.
fn met(w: &Workload, task: usize) -> Vec<(&str, u32)> {
    let at = |op: &Op| if let Op::Barrier(b) = op { Some(&w.barriers[*b as usize]) } else { None };
    w.tasks[task].program.ops.iter().filter_map(at).map(|b| (b.name.as_str(), b.parties)).collect()
}

#[test]
fn each_place_of_a_barrier_has_its_own() {
    // More rounds than one phase holds events, each with work of its own.
    let rounds = |us: u64| (0..60).flat_map(|i| [run(us + i), Op::Barrier(0)]).collect::<Vec<_>>();
    let w = meeting(3, vec![("one", 1, rounds(10)), ("two", 2, rounds(90))]);
    let again = read_back(&w);
    assert_eq!(met(&again, 0).len(), 60);
    assert_eq!(met(&again, 0), met(&again, 1));
    assert!(met(&again, 0).iter().all(|(_, parties)| *parties == 3), "{:?}", met(&again, 0));
    assert_eq!(again.barriers.len(), 60);
    assert!(write(&w, None, &Logs::default()).1.is_empty());
}

#[test]
fn rounds_of_different_lengths_are_brought_into_step() {
    let once = forever(vec![run(1), Op::Barrier(0)]);
    let twice = forever(vec![run(2), Op::Barrier(0), run(3), Op::Barrier(0)]);
    let thrice = forever(vec![Op::Barrier(0), run(4), Op::Barrier(0), Op::Barrier(0)]);
    let again = read_back(&meeting(3, vec![("a", 1, once), ("b", 1, twice), ("c", 1, thrice)]));
    let six: Vec<_> = ["b 1", "b 2", "b 3", "b 4", "b 5", "b 6"].map(|name| (name, 3)).into();
    for task in 0..3 {
        assert_eq!(met(&again, task), six, "{:?}", again.tasks[task]);
    }
    // A name that is taken is not given again.
    let mut w = meeting(1, vec![("a", 1, vec![run(1), Op::Barrier(0), Op::Barrier(1), Op::Barrier(0)])]);
    w.barriers.push(BarrierSpec { name: "b 2".into(), parties: 1 });
    assert_eq!(met(&read_back(&w), 0), [("b 1", 1), ("b 2", 1), ("b 2_", 1)]);
}

#[test]
fn barriers_without_a_common_rhythm_are_left_out() {
    let left_out = |w: Workload| {
        let (_, lost) = write(&w, None, &Logs::default());
        assert!(lost.len() == 1 && lost[0].ends_with("left out: `b`"), "{lost:?}");
        let again = read_back(&w);
        assert!(again.barriers.is_empty() && again.tasks.iter().all(|t| t.program.ops.contains(&run(7))));
    };
    let twice = vec![run(7), Op::Barrier(0), run(1), Op::Barrier(0)];
    left_out(meeting(2, vec![("a", 1, twice.clone()), ("b", 1, forever(vec![run(7), Op::Barrier(0)]))]));
    // Any two of three.
    left_out(meeting(2, vec![("a", 3, twice.clone())]));
    // rt-app does not count threads made by fork, and the semaphores of a single place would be those of every round.
    let once = vec![run(7), Op::Barrier(0)];
    left_out(meeting(3, vec![("a", 1, forks_two(once.clone())), ("b", 0, forever(once))]));
    let part = |at| [Op::Loop { count: Some(5), end: at + 3 }, run(7), Op::Barrier(0), Op::LoopEnd { begin: at }];
    let two_parts = |at| [part(at), part(at + 4)].concat();
    let main = [vec![Op::Fork(1), Op::Fork(1)], two_parts(2)].concat();
    left_out(meeting(3, vec![("a", 1, main), ("b", 0, two_parts(0))]));
    // One that is waited for is not there.
    left_out(meeting(4, vec![("a", 1, forks_two(twice.clone())), ("b", 0, forever(twice))]));
    // Nobody comes.
    assert!(write(&meeting(2, vec![("a", 1, vec![run(7)])]), None, &Logs::default()).1.is_empty());
}

/// Forks the second task twice, then does this for ever.
fn forks_two(ops: Vec<Op>) -> Vec<Op> {
    let mut all = vec![Op::Fork(1), Op::Fork(1), Op::Loop { count: None, end: 3 + ops.len() as u32 }];
    all.extend(ops);
    all.push(Op::LoopEnd { begin: 2 });
    all
}

/// Threads made by fork are none of those a barrier of rt-app waits for.
#[test]
fn one_thread_gathers_those_that_are_forked() {
    let round = || vec![run(7), Op::Barrier(0), run(1), Op::Barrier(0)];
    let w = meeting(3, vec![("a", 1, forks_two(round())), ("b", 0, forever(round()))]);
    let (text, lost) = write(&w, None, &Logs::default());
    assert!(lost.len() == 1 && lost[0].ends_with("gathers them by semaphores: `b`"), "{lost:?}");
    let file: Value = serde_json::from_str(&text).unwrap();
    let events = |task: &str, phase: &str| -> Vec<(String, String)> {
        let all = file["tasks"][task]["phases"][phase].as_object().unwrap();
        let event = |(key, value): (&String, &Value)| (key.clone(), value.as_str().unwrap_or_default().to_string());
        let mut all: Vec<_> = all.iter().filter(|(key, _)| *key != "loop").map(event).collect();
        all.sort_by_key(|(key, _)| key.trim_start_matches(|c: char| !c.is_ascii_digit()).parse::<u32>().unwrap());
        all
    };
    let pairs = |all: &[(&str, &str)]| all.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect::<Vec<_>>();
    let (a1, a2, g1, g2) = ("b arrived 1", "b arrived 2", "b go 1", "b go 2");
    let main = [("run0", ""), ("sem_wait1", a1), ("sem_wait2", a1), ("sem_post3", g1), ("sem_post4", g1), ("run5", "")];
    let second = [("sem_wait6", a2), ("sem_wait7", a2), ("sem_post8", g2), ("sem_post9", g2)];
    assert_eq!(events("a", "p1"), pairs(&[&main[..], &second].concat()));
    let worker =
        [("run0", ""), ("sem_post1", a1), ("sem_wait2", g1), ("run3", ""), ("sem_post4", a2), ("sem_wait5", g2)];
    assert_eq!(events("b", "p0"), pairs(&worker));
    let again = read_back(&w);
    assert!(again.barriers.is_empty() && again.semaphores.len() == 4, "{:?}", again.semaphores);
}

#[test]
fn threads_have_names_the_kernel_takes() {
    let long = "RenderThread of it";
    let main = |task: u32| TaskSpec::new(long, vec![Op::Fork(task), run(1)]);
    let forked = |name: &str| TaskSpec { instances: 0, ..TaskSpec::new(name, vec![run(1)]) };
    let many = TaskSpec { instances: 1_200, ..TaskSpec::new("of a pool of ours", vec![run(1)]) };
    let tasks = vec![main(3), many, main(4), forked(long), forked("ééééééé"), main(3), main(4)];
    let w = Workload { tasks, ..Workload::default() };
    let (text, lost) = write(&w, None, &Logs::default());
    let parsed = parse(&text, "again", &Options::default());
    assert!(parsed.diagnostics.is_empty(), "{:#?}", parsed.diagnostics);
    let names: Vec<String> = parsed.workload.unwrap().tasks.into_iter().map(|t| t.name).collect();
    assert_eq!(names, ["RenderThrea", "of a pool ", "RenderThre", "Rende", "éé", "RenderTh_2", "RenderTh_3"]);
    assert_eq!(lost.len(), 1);
}

#[test]
fn the_background_is_left_out_but_for_what_others_wait_for() {
    let background = |name: &str, ops| TaskSpec { background: true, ..TaskSpec::new(name, ops) };
    let own = TaskSpec::new("own", vec![Op::SemWait(0), run(1), Op::SemPost(2), Op::Fork(5)]);
    let tasks = vec![
        background("kworker/0", forever(vec![Op::Sleep(Amount::Fixed(1_000_000)), Op::SemWait(2), run(9)])),
        own,
        background("far", vec![Op::SemPost(1), run(2)]),
        background("near", vec![Op::SemWait(1), run(3), Op::SemPost(0)]),
        background("alone", vec![Op::SemWait(3), run(4)]),
        TaskSpec { instances: 0, ..TaskSpec::new("child", vec![run(5)]) },
    ];
    let semaphores = [("a", 0), ("b", 0), ("c", 0), ("d", 7)].map(|(n, initial)| SemaphoreSpec::new(n, initial));
    let w = Workload { tasks, semaphores: semaphores.into(), ..Workload::default() };
    let again = read_back(&w);
    let names: Vec<_> = again.tasks.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["own", "far", "near", "child"], "nothing is posted to those that are left out either");
    assert!(again.tasks[0].program.ops.contains(&Op::Fork(3)));
    let (_, lost) = write(&w, None, &Logs::default());
    let said =
        "the background of the recorded machine is left out, as every machine has its own: 2 threads; 2 threads of it";
    assert!(lost.len() == 1 && lost[0].starts_with(said), "{lost:?}");
}
