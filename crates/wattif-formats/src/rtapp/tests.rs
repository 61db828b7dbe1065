//! One `check` per feature: what a small file becomes, or which lints it causes.

use super::*;
use wattif_model::Ns;
use wattif_model::workload::{Amount, Op};

fn options(dialect: Dialect) -> Options {
    Options { dialect, nr_cpus: Some(8), set: vec![] }
}

/// Ops of a program in a short form.
fn show(ops: &[Op]) -> String {
    let us = |a: &Amount| match a {
        Amount::Fixed(ns) if ns % 1000 == 0 => (ns / 1000).to_string(),
        Amount::Fixed(ns) => format!("{ns}ns"),
        Amount::Random(_) => "?".into(),
    };
    let one = |op: &Op| match op {
        Op::Run(a) => format!("run {}", us(a)),
        Op::RunInsensitive(a) => format!("mem {}", us(a)),
        Op::Spin { wall, chunk } => format!("spin {}/{}", us(wall), chunk / 1000),
        Op::Sleep(a) => format!("sleep {}", us(a)),
        Op::Timer { timer, period, absolute } => {
            format!("timer{timer} {}{}", us(period), if *absolute { " abs" } else { "" })
        }
        Op::Lock(m) => format!("lock {m}"),
        Op::Unlock(m) => format!("unlock {m}"),
        Op::Wait { cond, mutex: None } => format!("wait {cond}"),
        Op::Wait { cond, mutex: Some(m) } => format!("wait {cond}/{m}"),
        Op::Signal(c) => format!("signal {c}"),
        Op::Broadcast(c) => format!("broad {c}"),
        Op::Barrier(b) => format!("barrier {b}"),
        Op::SemPost(s) => format!("post {s}"),
        Op::SemWait(s) => format!("take {s}"),
        Op::Yield => "yield".into(),
        Op::Fork(t) => format!("fork {t}"),
        Op::Loop { count, end } => format!("loop({} ..{end})", count.map_or("∞".into(), |n| n.to_string())),
        Op::LoopEnd { begin } => format!("end({begin})"),
        Op::SetAttr(a) => format!("{}:{}:{}", a.policy.name(), a.nice, a.rt_priority),
        Op::SetAffinity(c) => format!("cpus {}", c.as_ref().map_or("all".into(), |c| c.to_string())),
        Op::SetGroup(g) => format!("group {g}"),
        Op::PhaseBegin => "<".into(),
        Op::PhaseEnd { .. } => ">".into(),
        other => format!("{other:?}"),
    };
    ops.iter().map(one).collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn workload(text: &str) -> Workload {
    let parsed = parse(text, "test", &options(Dialect::Workgen));
    parsed.workload.unwrap_or_else(|| panic!("{:#?}", parsed.diagnostics))
}

/// The program of the first task.
#[track_caller]
fn check(text: &str, program: &str) {
    assert_eq!(show(&workload(text).tasks[0].program.ops), program);
}

/// The program of a phase-less endless task with these members, without the loop around it.
#[track_caller]
fn check_events(members: &str, program: &str) {
    let text = format!(r#"{{"tasks": {{"a": {{"loop": 1, {members}}}}}}}"#);
    check(&text, program);
}

/// Codes of all findings but notes, in the order of the text.
#[track_caller]
fn check_lints(dialect: Dialect, text: &str, codes: &str) {
    let parsed = parse(text, "test", &options(dialect));
    let notable = parsed.diagnostics.iter().filter(|d| d.severity > wattif_model::check::Severity::Note);
    let found: Vec<_> = notable.map(|d| d.code.trim_start_matches("rtapp::")).collect();
    assert_eq!(found.join(" "), codes, "{:#?}", parsed.diagnostics);
    assert_eq!(parsed.workload.is_none(), codes.contains('E'));
}

#[track_caller]
fn lints(text: &str, codes: &str) {
    check_lints(Dialect::Workgen, text, codes);
}

/// Lints of one task with these members.
#[track_caller]
fn task_lints(members: &str, codes: &str) {
    lints(&format!(r#"{{"tasks": {{"a": {{{members}}}}}}}"#), codes);
}

#[test]
fn executing() {
    check_events(r#""run": 5333"#, "< run 5333 >");
    check_events(r#""runtime0": 1000"#, "< spin 1000/32 >");
    check_events(r#""sleep": 7"#, "< sleep 7 >");
    check_events(r#""runtime1": {"duration": 5, "mode": "loadwait"}"#, "< spin 5/32 >");
    check_events(r#""yield": "", "run": 1"#, "< yield run 1 >");
    check_events(r#""mem": 4000000"#, "< mem 1000 >");
    check_events(r#""iorun": 4194305"#, "< mem 1 >");
    check_events(r#""memrun": {"type": "read", "size": 4096, "count": 1000}"#, "< mem 1 >");
    check_events(r#""memrun": {"type": "chase", "size": 4096, "count": 500, "pattern": "sequential"}"#, "< mem 1 >");
}

#[test]
fn memrun_keys() {
    let memrun = |more: &str| format!(r#""memrun": {{"size": 67108864, "count": 1000000, {more}}}"#);
    check_events(&memrun(r#""type": "chase""#), "< mem 110000 >");
    check_events(&memrun(r#""type": "chase", "pattern": "sequential""#), "< mem 16000 >");
    check_events(&memrun(r#""type": "chase", "pattern": "random", "stride": 65536"#), "< mem 8000 >");
    task_lints(&memrun(r#""type": "chase", "pattern": "sequential", "stride": 128"#), "");
    task_lints(&memrun(r#""type": "chase", "pattern": "Sequential""#), "W16");
    task_lints(&memrun(r#""type": "chase", "stride": 100"#), "W21");
    task_lints(r#""memrun": {"type": "chase", "size": 64, "count": 10000}"#, "W21");
    task_lints(&memrun(r#""type": "write", "stride": 64"#), "W06");
    task_lints(&memrun(r#""type": "read", "pattern": "other", "stride": 64"#), "W06 W16 W06");
    let notes = |size: u32| {
        let text = format!(r#"{{"tasks": {{"a": {{"memrun": {{"type": "read", "size": {size}, "count": 9}}}}}}}}"#);
        parse(&text, "t", &Options::default()).diagnostics.iter().map(|d| d.code).collect::<Vec<_>>()
    };
    assert_eq!((notes(4096), notes(67108864)), (vec![], vec!["rtapp::N01"]));
}

#[test]
fn iorun_to_a_device_copies() {
    check(r#"{"global": {"io_device": "/dev/sda"}, "tasks": {"a": {"loop": 1, "iorun": 1000}}}"#, "< mem 1 >");
}

#[test]
fn synchronising() {
    check_events(r#""lock": "m", "run": 1, "unlock": "m""#, "< lock 0 run 1 unlock 0 >");
    check_events(r#""lock": "m", "wait": {"ref": "c", "mutex": "m"}, "unlock": "m""#, "< lock 0 wait 0/0 unlock 0 >");
    check_events(r#""sync": {"ref": "c", "mutex": "m"}"#, "< signal 0 wait 0/0 >");
    check_events(r#""signal": "c", "broad": "c", "run": 1"#, "< signal 0 broad 0 run 1 >");
    check_events(r#""suspend": "x""#, "< wait 0 >");
    check_events(r#""suspend", "run": 4"#, "< wait 0 run 4 >");
    check_events(r#""resume": "b", "resume2": "a", "run": 1"#, "< broad 0 broad 1 run 1 >");
    check_events(r#""sem_post": "s", "sem_wait": "s", "sem_wait2": "t""#, "< post 0 take 0 take 1 >");
    check_events(r#""barrier": "b""#, "< barrier 0 >");
    check_events(r#""wait": {}"#, "< wait 0/0 >");
}

#[test]
fn barrier_counts_textual_uses() {
    let w = workload(r#"{"tasks": {"a": {"instance": 3, "barrier": "b"}, "c": {"barrier": "b", "run": 1}}}"#);
    assert_eq!(w.barriers[0].parties, 4);
    lints(r#"{"tasks": {"a": {"barrier": "b", "run": 1, "barrier2": "b"}}}"#, "W13");
    let forked = r#"{"tasks": {"a": {"fork": "b", "run": 1}, "b": {"instance": 0, "barrier": "x", "run": 1}}}"#;
    lints(forked, "W13");
    let said = parse(forked, "test", &Options::default()).diagnostics.swap_remove(0);
    assert!(said.message.contains("holds nobody up"), "{said:?}");
    let forked = |task: &str| {
        let tasks = [r#""a": {"fork": "b", "barrier": "x", "run": 1}"#, task];
        lints(&format!(r#"{{"tasks": {{{}}}}}"#, tasks.join(", ")), "W13");
    };
    forked(r#""b": {"barrier": "x", "run": 1}"#);
    forked(r#""b": {"instance": 0, "barrier": "x", "run": 1}"#);
}

#[test]
fn timers() {
    check_events(r#""timer": {"ref": "unique", "period": 7777}"#, "< timer0 7777 >");
    check_events(r#""timer": {"ref": "t", "period": 5, "mode": "absolute"}"#, "< timer0 5 abs >");
    let text = r#"{"tasks": {"a": {"instance": 2, "timer": {"ref": "t", "period": 5}},
                             "b": {"timer": {"ref": "t", "period": 5, "mode": "absolute"}}}}"#;
    check(text, "loop(∞ ..4) < timer0 5 abs > end(0)");
    assert!(workload(text).timers[0].shared);
    lints(text, "W16 W09");
    let unique = r#"{"tasks": {"a": {"timer": {"ref": "unique", "period": 5}},
                               "b": {"timer": {"ref": "unique", "period": 5, "mode": "absolute"}}}}"#;
    check(unique, "loop(∞ ..4) < timer0 5 > end(0)");
    lints(unique, "");
    task_lints(r#""run": 1, "timer": {"ref": "unique", "period": 5, "mode": "Absolute"}"#, "W16");
    task_lints(r#""run": 1, "timer": {"ref": "unique"}"#, "W16");
}

#[test]
fn fork_and_template() {
    let text = r#"{"tasks": {"a": {"loop": 1, "run": 1, "fork": "kid"}, "kid": {"instance": 0, "loop": 1, "run": 2}}}"#;
    check(text, "< run 1 fork 1 >");
    lints(text, "");
    task_lints(r#""run": 1, "fork": "b""#, "E08");
    lints(r#"{"tasks": {"a": {"run": 1}, "b": {"instance": 0, "run": 1}}}"#, "W19");
}

#[test]
fn loops_and_phases() {
    check(r#"{"tasks": {"a": {"run": 1}}}"#, "loop(∞ ..4) < run 1 > end(0)");
    check(r#"{"tasks": {"a": {"run": 1, "loop": 3}}}"#, "loop(3 ..4) < run 1 > end(0)");
    check(
        r#"{"tasks": {"a": {"phases": {"p": {"loop": 2, "run": 1}, "q": {"sleep": 3}}}}}"#,
        "loop(∞ ..9) loop(2 ..5) < run 1 > end(1) < sleep 3 > end(0)",
    );
    check(r#"{"tasks": {"a": {"loop": 1, "phases": {"p": {"run": 1}, "q": {"sleep": 3}}}}}"#, "< run 1 > < sleep 3 >");
    check(r#"{"tasks": {"a": {"loop": 0, "phases": {"p": {"run": 1}}}}}"#, "");
    check(r#"{"tasks": {"a": {"loop": 1, "phases": {"p": {"loop": -1, "run": 1}}}}}"#, "loop(∞ ..4) < run 1 > end(0)");
    lints(r#"{"tasks": {"a": {"loop": 0, "phases": {"p": {"run": 1}}}}}"#, "W07");
    lints(r#"{"tasks": {"a": {"phases": {"p": {"loop": 0, "run": 1}, "q": {"run": 2}}}}}"#, "W07 W15");
    task_lints(r#""loop": 0, "run": 1"#, "W07");
}

#[test]
fn attributes_at_every_iteration() {
    check(
        r#"{"tasks": {"a": {"loop": 2, "cpus": [7], "phases": {
            "p": {"loop": 2, "policy": "SCHED_FIFO", "cpus": [0, 1], "run": 1}, "q": {"policy": "SCHED_OTHER", "priority": 5, "run": 2}}}}}"#,
        "loop(2 ..13) loop(2 ..7) cpus 0-1 SCHED_FIFO:0:10 < run 1 > end(1) cpus 7 SCHED_OTHER:5:0 < run 2 > end(0)",
    );
}

/// The policy that a phase without one finds when it is executed first is its own from then on.
#[test]
fn a_phase_with_a_priority_keeps_the_policy_of_its_first_execution() {
    let check = |keys: &str, p: &str, q: &str, program: &str| {
        let phases = format!(r#""p": {{{p}, "run": 1}}, "q": {{{q}, "run": 2}}"#);
        super::tests::check(&format!(r#"{{"tasks": {{"a": {{{keys} "phases": {{{phases}}}}}}}}}"#), program);
    };
    let fifo = r#""policy": "SCHED_FIFO""#;
    check("", r#""priority": 3"#, fifo, "loop(∞ ..9) SCHED_OTHER:3:0 < run 1 > SCHED_FIFO:0:10 < run 2 > end(0)");
    check(
        r#""loop": 3,"#,
        r#""priority": -5"#,
        fifo,
        "loop(3 ..9) SCHED_OTHER:-5:0 < run 1 > SCHED_FIFO:0:10 < run 2 > end(0) SCHED_OTHER:0:0",
    );
    check(
        r#""policy": "SCHED_FIFO", "priority": 7,"#,
        r#""priority": 8"#,
        r#""policy": "SCHED_OTHER""#,
        "loop(∞ ..9) SCHED_FIFO:0:8 < run 1 > SCHED_OTHER:0:0 < run 2 > end(0)",
    );
    // Times count as a priority does, and what is not named is settled too.
    check(
        r#""priority": 4,"#,
        r#""dl-runtime": 3000"#,
        fifo,
        "loop(∞ ..9) SCHED_OTHER:4:0 < run 1 > SCHED_FIFO:0:10 < run 2 > end(0)",
    );
    let slices = |q: &str| {
        let phases = format!(r#""p": {{"priority": 3, "run": 1}}, "q": {{{q}, "run": 2}}"#);
        let w =
            workload(&format!(r#"{{"tasks": {{"a": {{"dl-runtime": 4000, "loop": 2, "phases": {{{phases}}}}}}}}}"#));
        let slice = |op: &Op| if let Op::SetAttr(attr) = op { Some(attr.runtime.0 / 1_000_000) } else { None };
        w.tasks[0].program.ops.iter().filter_map(slice).collect::<Vec<_>>()
    };
    assert_eq!(slices(r#""dl-runtime": 5000"#), [4, 5, 5, 5], "a slice stays");
    assert_eq!(slices(fifo), [4, 0, 0, 0, 0], "but not beyond a change of policy");
}

#[test]
fn first_pass_differs_where_a_phase_inherits() {
    check(
        r#"{"tasks": {"a": {"phases": {"p": {"util_min": 3, "run": 1}, "q": {"policy": "SCHED_RR", "run": 2}}}}}"#,
        "SCHED_OTHER:0:0 < run 1 > SCHED_RR:0:10 < run 2 > \
         loop(∞ ..17) SCHED_RR:0:10 < run 1 > SCHED_RR:0:10 < run 2 > end(8)",
    );
}

#[test]
fn scheduling_keys() {
    let attr = |members: &str| {
        let w = workload(&format!(r#"{{"tasks": {{"a": {{{members}, "run": 1}}}}}}"#));
        w.tasks[0].attr
    };
    let a = attr(r#""policy": "SCHED_BATCH", "priority": -5, "dl-runtime": 3000, "util_min": 100, "util_max": -1"#);
    assert_eq!(
        (a.policy.name(), a.nice, a.runtime.0, a.util_min, a.util_max),
        ("SCHED_BATCH", -5, 3_000_000, Some(100), None)
    );
    let a = attr(r#""policy": "SCHED_IDLE", "priority": 30"#);
    assert_eq!((a.policy.name(), a.nice), ("SCHED_IDLE", 0), "not a nice value");
    task_lints(r#""policy": "SCHED_IDLE", "priority": 30, "run": 1"#, "W06");
    task_lints(r#""policy": "SCHED_DEADLINE", "dl-runtime": 1, "dl-period": 1000, "run": 1"#, "E14");
    task_lints(r#""policy": "SCHED_DEADLINE", "dl-runtime": 2, "dl-period": 1000, "run": 1"#, "");
    let a = attr(r#""policy": "SCHED_DEADLINE", "dl-runtime": 1000, "dl-period": 5000"#);
    assert_eq!((a.runtime.0, a.deadline.0, a.period.0), (1_000_000, 5_000_000, 5_000_000));
    let a = attr(r#""policy": "SCHED_DEADLINE", "runtime": 1000, "deadline": 4000, "period": 5000"#);
    assert_eq!((a.runtime.0, a.deadline.0, a.period.0), (1_000_000, 4_000_000, 5_000_000));
    let a = attr(r#""policy": "SCHED_DEADLINE", "dl-runtime": 1000, "util_max": 400"#);
    assert_eq!(a.util_max, None, "rt-app does not apply it");
    // rt-app gives dl-period its default, dl-runtime, before it looks at the old names.
    let aliased = |dialect, members: &str, times: [u64; 3], codes: &[&str]| {
        let text = format!(r#"{{"tasks": {{"a": {{"policy": "SCHED_DEADLINE", {members}, "run": 1}}}}}}"#);
        let parsed = parse(&text, "t", &options(dialect));
        let a = parsed.workload.unwrap().tasks[0].attr;
        assert_eq!([a.runtime, a.deadline, a.period].map(|t| t.0 / 1_000_000), times, "{members}");
        assert_eq!(parsed.diagnostics.iter().map(|d| d.code).collect::<Vec<_>>(), codes, "{members}");
    };
    let (budget, both) = (r#""dl-runtime": 1000, "period": 5000"#, r#""dl-period": 5000, "deadline": 4000"#);
    aliased(Dialect::RtApp, budget, [1, 1, 1], &["rtapp::W06"]);
    aliased(Dialect::Workgen, budget, [1, 5, 5], &["rtapp::N04"]);
    aliased(Dialect::RtApp, &format!(r#"{both}, "dl-runtime": 1000"#), [1, 5, 5], &["rtapp::W06"]);
    aliased(Dialect::Workgen, &format!(r#"{both}, "dl-runtime": 1000"#), [1, 4, 5], &["rtapp::N04"]);
    assert_eq!(attr(r#""policy": "SCHED_RR""#).rt_priority, 10);
    assert_eq!(attr(r#""runtime": 1000"#).runtime.0, 1_000_000);
}

#[test]
fn scheduling_errors() {
    task_lints(r#""policy": "SCHED_EXT", "run": 1"#, "E06");
    task_lints(r#""priority": 20, "run": 1"#, "E14");
    task_lints(r#""policy": "SCHED_FIFO", "priority": 0, "run": 1"#, "E14");
    task_lints(r#""policy": "SCHED_DEADLINE", "run": 1"#, "E14");
    task_lints(r#""util_min": 1025, "run": 1"#, "E05");
    task_lints(r#""util_min": 800, "util_max": 400, "run": 1"#, "E14");
    let deadline = r#""policy": "SCHED_DEADLINE", "dl-runtime": 1000, "dl-period": 9000, "run": 1"#;
    task_lints(&format!(r#"{deadline}, "util_max": 400, "util_min": 300"#), "W06");
    task_lints(&format!(r#"{deadline}, "priority": 5"#), "W06");
    task_lints(&format!(r#"{deadline}, "priority": 0, "deadline": 9000"#), "");
    for policy in ["OTHER", "BATCH", "IDLE", "FIFO", "RR"] {
        let under = |more: &str| format!(r#""policy": "SCHED_{policy}", {more}, "run": 1"#);
        let slice = if ["OTHER", "BATCH"].contains(&policy) { "" } else { "W06" };
        task_lints(&under(r#""dl-runtime": 3000"#), slice);
        task_lints(&under(r#""dl-period": 9000, "dl-deadline": 9000"#), "W06");
        task_lints(&under(r#""deadline": 9000"#), "W06");
        task_lints(&under(r#""period": 9000"#), "W06");
        task_lints(&under(r#""dl-runtime": 0, "dl-period": 0, "deadline": 0"#), "");
        task_lints(&format!(r#""phases": {{"p": {{{}}}}}"#, under(r#""dl-deadline": 9000"#)), "W06");
    }
    task_lints(r#""taskgroup": "bg", "run": 1"#, "E14");
    task_lints(r#""taskgroup": "/bg", "policy": "SCHED_RR", "run": 1"#, "E14");
    // rt-app compares a phase's policy with the group that the task or an earlier phase has put the thread into.
    let grouped = |task: &str, p: &str, q: &str| {
        let of = |keys: &str| format!(r#"{{{keys} "run": 1, "sleep": 10}}"#);
        format!(r#"{{"tasks": {{"a": {{{task} "phases": {{"p": {}, "q": {}}}}}}}}}"#, of(p), of(q))
    };
    for (task, p, q, found) in [
        (r#""taskgroup": "/g","#, "", r#""policy": "SCHED_FIFO","#, 1),
        (r#""taskgroup": "/g","#, r#""policy": "SCHED_RR","#, r#""priority": 5,"#, 1),
        ("", r#""taskgroup": "/g","#, r#""policy": "SCHED_FIFO","#, 1),
        (r#""taskgroup": "","#, "", r#""policy": "SCHED_FIFO","#, 0),
        ("", r#""policy": "SCHED_FIFO","#, r#""policy": "SCHED_BATCH", "taskgroup": "/g","#, 0),
    ] {
        let text = grouped(task, p, q);
        check_lints(Dialect::RtApp, &text, ["", "E14"][found]);
        check_lints(Dialect::Workgen, &text, ["", "W22"][found]);
    }
    // A nice value is one in every pass; a clamp stays from the last phase on.
    let phases = |p: &str, q: &str| {
        let of = |keys: &str| format!(r#"{{{keys}, "run": 1, "sleep": 10}}"#);
        format!(r#""loop": 2, "phases": {{"p": {}, "q": {}}}"#, of(p), of(q))
    };
    task_lints(&phases(r#""priority": -5"#, r#""policy": "SCHED_FIFO""#), "");
    task_lints(&phases(r#""util_min": 500"#, r#""util_min": 100, "util_max": 400"#), "E14");
    let help = |task: &str| {
        let text = format!(r#"{{"tasks": {{"a": {{{task}, "run": 1}}}}}}"#);
        parse(&text, "t", &Options::default()).diagnostics[0].help.clone().unwrap()
    };
    assert!(help(r#""taskgroup": "bg""#).contains("exits with 2"));
    assert!(help(r#""policy": "SCHED_FIFO", "taskgroup": "/bg""#).contains("exits with 2"));
    assert!(help(r#""priority": 20"#).contains("exits with 1"));
    assert!(help(r#""policy": "SCHED_FIFO", "priority": 0"#).contains("the kernel"));
    lints(r#"{"global": {"default_policy": "X"}, "tasks": {"a": {"run": 1}}}"#, "E06");
}

#[test]
fn groups_and_globals() {
    let w = workload(
        r#"{"global": {"duration": 5, "default_policy": "SCHED_IDLE", "pi_enabled": true, "calibration": "CPU4"},
            "tasks": {"a": {"taskgroup": "/bg", "delay": 30, "loop": 1, "phases": {"p": {"run": 1}, "q": {"taskgroup": "/", "run": 1}}}}}"#,
    );
    assert_eq!(w.duration.unwrap().0, 5_000_000_000);
    assert_eq!((w.tasks[0].attr.policy.name(), w.pi_enabled, w.tasks[0].delay.0), ("SCHED_IDLE", true, 30_000));
    assert_eq!((w.tasks[0].group, w.groups[1].path.as_str()), (1, "/bg"));
    assert_eq!(show(&w.tasks[0].program.ops), "< run 1 > group 0 < run 1 > SCHED_OTHER:0:0");
}

#[test]
fn a_thread_goes_back_before_it_ends() {
    check(r#"{"tasks": {"a": {"policy": "SCHED_FIFO", "loop": 1, "run": 1}}}"#, "< run 1 > SCHED_OTHER:0:0");
    let grouped = r#""policy": "SCHED_BATCH", "priority": 4, "taskgroup": "/bg""#;
    check(
        &format!(r#"{{"tasks": {{"a": {{{grouped}, "loop": 2, "phases": {{"p": {{"run": 1}}}}}}}}}}"#),
        "loop(2 ..4) < run 1 > end(0) SCHED_OTHER:4:0 group 0",
    );
    check(r#"{"tasks": {"a": {"policy": "SCHED_FIFO", "run": 1}}}"#, "loop(∞ ..4) < run 1 > end(0)");
}

#[test]
fn groups_have_weights_and_limits() {
    let text = r#"{"tasks": {"a": {"taskgroup": "/app/fg", "run": 1}},
        "groups": {"/app": {"cpu.weight": 300, "cpu.uclamp.max": "60.5"}, "/app/fg": {"cpu.max": "20000 50000", "cpu.idle": true}}}"#;
    let w = workload(text);
    let paths: Vec<&str> = w.groups.iter().map(|g| g.path.as_str()).collect();
    assert_eq!((paths, w.tasks[0].group), (vec!["/", "/app", "/app/fg"], 2));
    assert_eq!((w.groups[1].shares, w.groups[1].uclamp_max, w.groups[2].idle), (3072, 620, true));
    assert_eq!((w.groups[2].quota, w.groups[2].period), (Some(Ns::from_ms(20)), Ns::from_ms(50)));
    for (groups, code) in [
        (r#"{"/": {"cpu.weight": 300}}"#, "E14"),
        (r#"{"a": {}}"#, "E14"),
        (r#"{"/a": {"cpu.wieght": 300}}"#, "E14"),
        (r#"{"/a": {"cpu.weight": 0}}"#, "E14"),
        (r#"{"/a": {"cpu.weight": [1]}}"#, "E04"),
        (r#"{"/a": {"cpu.max": "500 100000"}}"#, "E14"),
        (r#"{"/a": 5}"#, "E04"),
    ] {
        lints(&format!(r#"{{"tasks": {{"a": {{"run": 1}}}}, "groups": {groups}}}"#), code);
    }
}

#[test]
fn cpus() {
    let set =
        |cpus: &str| workload(&format!(r#"{{"tasks": {{"a": {{"cpus": {cpus}, "run": 1}}}}}}"#)).tasks[0].cpus.clone();
    assert_eq!(set("[0, 3]").unwrap().to_string(), "0,3");
    assert_eq!(set(r#"["0-2", 7]"#).unwrap().to_string(), "0-2,7");
    assert_eq!(set(r#""4-5""#).unwrap().to_string(), "4-5");
    let text = r#"{"tasks": {"a": {"cpus": "0-2", "run": 1}}}"#;
    check_lints(Dialect::RtApp, text, "E09");
    for bad in ["[8]", "[]", "[true]", "\"x\"", "\"2-1\"", "\"0-99999999\"", "5"] {
        task_lints(&format!(r#""cpus": {bad}, "run": 1"#), "E09");
    }
    task_lints(r#""cpus": [-1], "run": 1"#, "E05");
}

#[test]
fn dialects() {
    let text = r#"{"tasks": {"a": {"loop": 1, "run": 275, "sleep": 3, "run": 4725}}}"#;
    check(text, "< run 275 sleep 3 run 4725 >");
    lints(text, "");
    let exact = parse(text, "test", &options(Dialect::RtApp));
    assert_eq!(show(&exact.workload.unwrap().tasks[0].program.ops), "< run 4725 sleep 3 >");
    check_lints(Dialect::RtApp, text, "W02");
    check_lints(Dialect::RtApp, r#"{"tasks": {"a": {"suspend", "run": 1}}}"#, "E16 W11");

    let old = r#"{"tasks": {"a": {"suspend": "Go", "run": 1}, "b": {"resume": "Go", "run": 1}}}"#;
    check_lints(Dialect::LegacySuspend, old, "");
    lints(old, "W11 W03");
    let other = old.replace(r#""resume": "Go""#, r#""resume": "Gone""#);
    check_lints(Dialect::LegacySuspend, &other, "W11 W03");
}

#[test]
fn repeated_phases_and_tasks() {
    check(r#"{"tasks": {"a": {"loop": 1, "phases": {"p": {"run": 1}, "p": {"run": 2}}}}}"#, "< run 1 > < run 2 >");
    let w = workload(r#"{"tasks": {"a": {"run": 1}, "a": {"run": 2}, "a1": {"run": 3}}}"#);
    assert_eq!(w.tasks.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["a", "a2", "a1"]);
    // By these names overrides know them.
    let set = vec![("tasks.a2.run".to_string(), "7".to_string()), ("tasks.a.run".to_string(), "5".to_string())];
    let text = r#"{"tasks": {"a": {"run": 1}, "a": {"run": 2}, "a1": {"run": 3}}}"#;
    let w = parse(text, "test", &Options { set, ..options(Dialect::Workgen) }).workload.unwrap();
    let runs: Vec<String> = w.tasks.iter().map(|t| show(&t.program.ops)).collect();
    for (shown, run) in runs.iter().zip(["run 5 ", "run 7 ", "run 3 "]) {
        assert!(shown.contains(run), "{runs:?}");
    }
    task_lints(r#""loop": 1, "run": 1, "loop": 2"#, "W02");
    for (members, help) in [
        (r#""a": {"loop": 1, "run": 1, "loop": 2}"#, "only one of them counts: delete the other"),
        (r#""a": {"run": 1, "run": 2}"#, "give each event a name of its own, such as `run1`, `run2`"),
        (r#""a": {"run": 1}, "a": {"run": 1}"#, "give each task a name of its own"),
        (r#""a": {"phases": {"p": {"run": 1}, "p": {"run": 1}}}"#, "give each phase a name of its own"),
    ] {
        let found = parse(&format!(r#"{{"tasks": {{{members}}}}}"#), "t", &options(Dialect::RtApp)).diagnostics;
        let found: Vec<_> = found.iter().map(|d| (d.code, d.help.as_deref())).collect();
        assert_eq!(found, [("rtapp::W02", Some(help))], "{members}");
    }
}

#[test]
fn keys_that_surprise() {
    task_lints(r#""runner": 1"#, "W08");
    task_lints(r#""memory": 64"#, "W08");
    task_lints(r#""run1": 1, "run_b": 2, "runA": 1, "timer1": {"ref": "unique", "period": 9}"#, "");
    task_lints(r#""run": 1, "lockA": "m", "unlockA": "m", "lock2": "m", "unlock2": "m""#, "");
    task_lints(r#""runs": 1, "sleepy": 2"#, "W08 W08");
    task_lints(r#""run": 1, "locks": "m", "unlocks": "m", "forky": "a""#, "W08 W08 W08");
    task_lints(r#""lock_order": {"x": 1}, "run": 1"#, "E04");
    task_lints(r#""rum": 1, "run": 1"#, "W01");
    task_lints(r#""priorty": 1, "run": 1"#, "W01");
    task_lints(r#""frag": 1, "run": 1"#, "");
    task_lints(r#""runtime": 1000"#, "W04");
    let mode = |mode: &str, codes: &str| {
        let text = format!(r#"{{"tasks": {{"a": {{"runtime": {{"duration": 1000{mode}}}}}}}}}"#);
        let found = parse(&text, "t", &Options::default()).diagnostics;
        let found: Vec<_> = found.iter().map(|d| d.code.trim_start_matches("rtapp::")).collect();
        assert_eq!(found.join(" "), codes, "{mode}");
    };
    mode("", "N03");
    mode(r#", "mode": "loadwait""#, "N03");
    mode(r#", "mode": "clockonly""#, "N03 N01");
    mode(r#", "mode": "foo""#, "N03 W16");
    mode(r#", "mdoe": "loadwait""#, "N03 W01");
    mode(r#", "mode": 5"#, "N03 E04");
    task_lints(r#""run": 1, "phases": {"p": {"run": 1, "delay": 5, "period": 1}}"#, "W06 W06 W06");
    lints(r#"{"global": {"logsize": 4}, "tasks": {"a": {"run": 1}}}"#, "W01");
    lints(r#"{"tasks": {"a_rather_long_name": {"run": 1}}}"#, "W05");
    // Bytes, not characters.
    lints(r#"{"tasks": {"ääääääää": {"run": 1}}}"#, "W05");
    lints(r#"{"tasks": {"aaaaaaaa": {"run": 1}}}"#, "");
    // Threads are counted through all tasks, and what is forked has a number as well.
    lints(r#"{"tasks": {"b": {"instance": 10, "run": 1}, "abcdefghijklm": {"run": 1}}}"#, "W05");
    lints(r#"{"tasks": {"b": {"instance": 10, "run": 1}, "abcdefghijkl": {"run": 1}}}"#, "");
    let fork = |name: &str| {
        let tasks =
            format!(r#""b": {{"instance": 11, "fork": "{name}", "run": 1}}, "{name}": {{"instance": 0, "run": 1}}"#);
        format!(r#"{{"tasks": {{{tasks}}}}}"#)
    };
    lints(&fork("templat_x"), "W05");
    lints(&fork("templat"), "");
    // A slice, where an event was meant; of a deadline task it is the budget.
    task_lints(r#""runtime": 700, "phases": {"p": {"run": 5, "sleep": 3}}"#, "W04 W06");
    task_lints(r#""policy": "SCHED_FIFO", "runtime": 700, "phases": {"p": {"run": 5, "sleep": 3}}"#, "W06");
    task_lints(r#""policy": "SCHED_DEADLINE", "runtime": 700, "period": 9000, "phases": {"p": {"run": 5}}"#, "");
    lints(r#"{"global": {"duration": 0}, "tasks": {"a": {"run": 1}}}"#, "W17");
    let long = "a".repeat(256);
    for (text, help) in [
        (r#"{"global": {"duration": 0}, "tasks": {"a": {"run": 1}}}"#.to_string(), "after 10 s"),
        (format!(r#"{{"tasks": {{"{long}": {{"run": 1}}}}}}"#), "shorter name"),
        (r#"{"tasks": {"a": {"dl-runtime": 1000000000000, "run": 1}}}"#.into(), "a slice of at most 100000"),
        (r#"{"tasks": {"a": {"run": 1000000000000}}}"#.into(), "as several events"),
    ] {
        let found = parse(&text, "w", &Options::default()).diagnostics;
        assert!(found.iter().any(|d| d.help.as_ref().is_some_and(|h| h.contains(help))), "{help}: {found:?}");
    }
}

#[test]
fn lost_and_endless_waits() {
    task_lints(r#""run": 1, "resume": "x""#, "W03");
    task_lints(r#""run": 1, "signal": "x""#, "W10");
    task_lints(r#""suspend": """#, "W11");
    task_lints(r#""sem_wait": "s""#, "W11");
    task_lints(r#""run": 1, "unlock": "m""#, "W12");
    task_lints(r#""run": 1, "lock": "m""#, "W12");
    task_lints(r#""wait": {"ref": "c", "mutex": "m"}, "signal": "c""#, "W12");
    // What another task unlocks is given back, but not where the owner alone can.
    let handed = |pi: bool| {
        let tasks = r#""a": {"run": 1, "lock": "m"}, "b": {"run": 1, "unlock": "m"}"#;
        format!(r#"{{"global": {{"pi_enabled": {pi}}}, "tasks": {{{tasks}}}}}"#)
    };
    lints(&handed(false), "W12");
    lints(&handed(true), "W12 W12");
}

#[test]
fn loops_without_time() {
    task_lints(r#""yield": """#, "E11");
    task_lints(r#""run": 0, "lock": "m", "unlock": "m""#, "E11");
    task_lints(r#""loop": 100000, "yield": """#, "W14");
    task_lints(r#""phases": {"p": {"yield": ""}, "q": {"yield": ""}}"#, "E11");
    task_lints(r#""phases": {"p": {"yield": ""}, "q": {"run": 1}}"#, "");
    task_lints(r#""sleep": 0"#, "");
    task_lints(r#""runtime0": 0"#, "");
    task_lints(r#""loop": 1000, "phases": {"p": {"loop": 1000, "yield": ""}}"#, "W14");
    task_lints(r#""loop": 1, "phases": {"p": {"loop": 100000, "yield": ""}}"#, "W14");
    let long = parse(r#"{"tasks": {"a": {"loop": 100000, "yield": ""}}}"#, "t", &Options::default()).diagnostics;
    assert!(long[0].help.as_ref().is_some_and(|help| help.contains("100000 events in a row")), "{long:?}");
}

#[test]
fn wrong_values() {
    lints("", "E01");
    lints("[]", "E04");
    lints("{}", "E03");
    lints(r#"{"tasks": null}"#, "E03");
    lints(r#"{"tasks": {}}"#, "E03");
    lints(r#"{"tasks": []}"#, "E04");
    lints(r#"{"tasks": {"a": 1}}"#, "E04");
    task_lints(r#""delay": 1"#, "E07");
    task_lints(r#""phases": {}"#, "E07");
    task_lints(r#""run": -1"#, "E05");
    task_lints(r#""run": 1.5"#, "E04");
    task_lints(r#""run": 1, "nodes_membind": "0""#, "E04");
    task_lints(r#""run": 1, "nodes_membind": [0, "1"]"#, "E04");
    task_lints(r#""run": 1, "nodes_membind": null"#, "");
    let twice = parse(r#"{"tasks": {"a": {"runtime": -1, "sleep": 10}}}"#, "t", &Options::default());
    assert_eq!(
        twice.diagnostics.iter().filter(|d| d.code == "rtapp::E05").count(),
        1,
        "an event and a slice: one mistake"
    );
    task_lints(r#""phases": {"p": {"run": 1, "nodes_membind": 0}}"#, "E04");
    task_lints(r#""run": "5""#, "E04");
    task_lints(r#""run": 99999999999999999999999"#, "E05");
    task_lints(r#""run": 1, "instance": -1"#, "E05");
    task_lints(r#""run": 2147483647"#, "");
    task_lints(r#""run": 2147483648, "delay": 3000000000"#, "W23 W23");
    let help = |tasks: &str| {
        let found = parse(&format!(r#"{{"tasks": {{{tasks}}}}}"#), "t", &Options::default()).diagnostics;
        let found = found.into_iter().find(|d| d.code == "rtapp::E10").unwrap();
        (found.span.start, found.help.unwrap())
    };
    task_lints(r#""run": 1, "instance": 100000"#, "E10");
    let (at, lower) = help(r#""few": {"run": 1}, "many": {"run": 1, "instance": 100000}"#);
    assert!(at == 30 && lower.contains("lower `instance`, here"), "{at} {lower}");
    let alike: Vec<String> = (0..=super::MAX_THREADS).map(|i| format!(r#""t{i}": {{"run": 1}}"#)).collect();
    let (at, split) = help(&alike.join(", "));
    assert!(at == 10 && split.starts_with("split the tasks"), "{at} {split}");
    task_lints(r#""run": 1, "memrun": {"type": "read", "size": 1}"#, "E03");
    task_lints(r#""run": 1, "memrun": {"type": "x", "size": 1, "count": 1}"#, "E12");
    task_lints(
        r#""memrun": {"type": "read", "size": 1, "count": 1, "ref": "r"}, "memrun2": {"type": "read", "size": 2, "count": 1, "ref": "r"}"#,
        "E13",
    );
    lints(
        r#"{"resources": {"m": {"type": "mutex"}, "n": {"type": "lamp"}, "o": {}}, "tasks": {"a": {"run": 1}}}"#,
        "E12 E03",
    );
    lints(r#"{"global": {"duration": -5, "lock_pages": 1}, "tasks": {"a": {"run": 1}}}"#, "E05 E04");
}

#[test]
fn categories_of_ftrace() {
    let codes = |dialect| {
        let text = r#"{"global": {"ftrace": "main,foo"}, "tasks": {"a": {"run": 1}}}"#;
        let found = parse(text, "t", &Options { dialect, ..Options::default() }).diagnostics;
        found.iter().map(|d| d.code).filter(|code| *code != "rtapp::N01").collect::<Vec<_>>()
    };
    assert_eq!(codes(Dialect::RtApp), ["rtapp::E12"]);
    assert_eq!((codes(Dialect::Workgen), codes(Dialect::LegacySuspend)), (vec!["rtapp::W20"], vec!["rtapp::W20"]));
}

#[test]
fn ten_mistakes_show_at_once() {
    task_lints(
        r#""run": -1, "sleep": "x", "policy": "Y", "cpus": [99], "fork": "z", "barrier": 4"#,
        "E05 E04 E06 E09 E08 E04",
    );
}

#[test]
fn overrides_reach_the_program() {
    let text = r#"{"tasks": {"a": {"run": 1, "loop": 1}}}"#;
    let set = [("tasks.a.run", "9"), ("tasks.a.policy", "SCHED_IDLE"), ("global.duration", "2")];
    let set = set.map(|(p, v)| (p.to_string(), v.to_string())).to_vec();
    let w = parse(text, "t", &Options { set, ..Options::default() }).workload.unwrap();
    assert_eq!(show(&w.tasks[0].program.ops), "< run 9 > SCHED_OTHER:0:0");
    assert_eq!((w.tasks[0].attr.policy.name(), w.duration.unwrap().0), ("SCHED_IDLE", 2_000_000_000));
    let missing = Options { set: vec![("tasks.b.run".into(), "1".into())], ..Options::default() };
    assert_eq!(parse(text, "t", &missing).diagnostics[0].code, "rtapp::E15");
    let wrong = Options { set: vec![("tasks.a.run".into(), "abc".into())], ..Options::default() };
    let found = &parse(text, "t", &wrong).diagnostics[0];
    assert_eq!(
        (found.code, found.span.clone(), found.help.as_deref()),
        ("rtapp::E04", 0..0, Some("set a value of that type"))
    );
    assert_eq!(found.message, "--set workload.tasks.a.run=abc: `run` must be an integer, not a string");
}

#[test]
fn notes_list_what_has_no_effect() {
    let text = r#"{"global": {"logdir": "./", "gnuplot": false, "calibration": 200, "cumulative_slack": true}, "tasks": {"a": {"run": 1, "nodes_membind": [0], "x": 1}}}"#;
    let codes: Vec<_> = parse(text, "t", &Options::default()).diagnostics.iter().map(|d| d.code).collect();
    assert_eq!(codes, ["rtapp::N01", "rtapp::N01", "rtapp::N01", "rtapp::N01", "rtapp::N02"]);
}
