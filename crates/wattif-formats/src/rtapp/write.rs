//! A workload as rt-app JSON, where rt-app has words for it. Tokens become semaphores, timers at absolute times become
//! timers with mode absolute, devices sleeps.

use serde_json::{Value, json};
use std::collections::BTreeSet;
use wattif_model::workload::{Amount, Op, Policy, SchedAttr, TaskSpec, Workload};

/// The file, and what it could not say.
pub fn write(workload: &Workload) -> (String, Vec<String>) {
    let mut lost = BTreeSet::new();
    let mut tasks = Map::default();
    let names = names(workload);
    for (task, name) in workload.tasks.iter().zip(&names) {
        tasks.0.push((name.clone(), Node::Map(self::task(task, &names, &mut lost))));
    }
    let duration = workload.duration.map_or(-1, |d| i64::try_from(d.0.div_ceil(1_000_000_000)).unwrap_or(-1));
    let global = json!({ "duration": duration, "calibration": "CPU0", "default_policy": "SCHED_OTHER" });
    let mut file = Map::default();
    file.insert("global".into(), global);
    let mut text = String::new();
    file.0.push(("tasks".into(), Node::Map(tasks)));
    file.write(0, &mut text);
    text.push('\n');
    (text, lost.into_iter().map(String::from).collect())
}

/// An object that keeps its order: that of events is their meaning.
#[derive(Default)]
struct Map(Vec<(String, Node)>);

enum Node {
    Value(Value),
    Map(Map),
}

impl Map {
    fn insert(&mut self, key: String, value: Value) {
        self.0.push((key, Node::Value(value)));
    }
    fn write(&self, depth: usize, out: &mut String) {
        out.push('{');
        for (i, (key, node)) in self.0.iter().enumerate() {
            let separator = if i == 0 { "\n" } else { ",\n" };
            out.push_str(&format!("{separator}{}{}: ", "  ".repeat(depth + 1), Value::from(key.as_str())));
            match node {
                Node::Value(value) => out.push_str(&value.to_string()),
                Node::Map(map) => map.write(depth + 1, out),
            }
        }
        out.push_str(&format!("\n{}}}", "  ".repeat(depth)));
    }
}

/// Task names are keys: each once, and no longer than the kernel's names with an index behind them.
fn names(workload: &Workload) -> Vec<String> {
    let mut used = BTreeSet::new();
    let unique = |t: &TaskSpec| {
        let base: String = t.name.chars().map(|c| if c.is_control() || c == '/' { '_' } else { c }).take(11).collect();
        let mut name = base.clone();
        let mut n = 1;
        while !used.insert(name.clone()) {
            n += 1;
            name = format!("{base}_{n}");
        }
        name
    };
    workload.tasks.iter().map(unique).collect()
}

fn task(task: &TaskSpec, names: &[String], lost: &mut BTreeSet<&'static str>) -> Map {
    let mut out = Map::default();
    out.insert("instance".into(), task.instances.into());
    // A program that is one endless loop is a task's; an endless loop behind other events a phase's.
    let ops = &task.program.ops[..];
    let (rounds, ops) = match ops {
        [Op::Loop { count: None, .. }, body @ .., Op::LoopEnd { begin: 0 }] => (-1, body),
        all => (1, all),
    };
    out.insert("loop".into(), rounds.into());
    if task.delay.0 > 0 {
        out.insert("delay".into(), (task.delay.0 / 1_000).into());
    }
    if let Some(cpus) = &task.cpus {
        out.insert("cpus".into(), cpus.iter().map(|c| Value::from(c.0)).collect());
    }
    attributes(&task.attr, &mut out);
    let mut phases = Map::default();
    let mut phase = Map::default();
    let mut rounds = 1;
    let mut begin = |phase: &mut Map, attr: Option<&SchedAttr>, then: i32| {
        let rounds = std::mem::replace(&mut rounds, then);
        if !phase.0.is_empty() {
            phase.insert("loop".into(), rounds.into());
            phases.0.push((format!("p{}", phases.0.len()), Node::Map(std::mem::take(phase))));
        }
        if let Some(attr) = attr {
            attributes(attr, phase);
        }
    };
    // A phase without CPUs has those of the task again, so each one after the first says them.
    let mut bound: Option<Value> = None;
    for op in ops {
        if let Some(cpus) = bound.as_ref().filter(|_| phase.0.iter().all(|(key, _)| key != "cpus")) {
            phase.insert("cpus".into(), cpus.clone());
        }
        match op {
            Op::SetAffinity(Some(cpus)) => {
                begin(&mut phase, None, 1);
                bound = Some(cpus.iter().map(|c| Value::from(c.0)).collect());
                continue;
            }
            Op::SetAttr(attr) => {
                begin(&mut phase, Some(attr), 1);
                continue;
            }
            Op::Loop { count: None, .. } => {
                begin(&mut phase, None, -1);
                continue;
            }
            // Nothing comes after an endless loop.
            Op::LoopEnd { .. } if ops.iter().any(|o| matches!(o, Op::Loop { count: None, .. })) => break,
            // Phases of a hundred events are easier to read.
            _ if phase.0.len() >= 100 => begin(&mut phase, None, 1),
            _ => {}
        }
        let n = phase.0.len();
        if let Some((word, value)) = event(op, names, lost) {
            phase.insert(format!("{word}{n}"), value);
        }
        if *op == Op::Exit {
            break;
        }
    }
    begin(&mut phase, None, 1);
    out.0.push(("phases".into(), Node::Map(phases)));
    out
}

fn attributes(attr: &SchedAttr, out: &mut Map) {
    out.insert("policy".into(), attr.policy.name().into());
    match attr.policy {
        Policy::Fifo | Policy::Rr => out.insert("priority".into(), attr.rt_priority.into()),
        Policy::Normal | Policy::Batch if attr.nice != 0 => out.insert("priority".into(), attr.nice.into()),
        _ => {}
    }
}

/// Whole µs, as rt-app counts; at least one.
fn us(amount: &Amount) -> Option<u64> {
    match amount {
        Amount::Fixed(ns) => Some(((ns + 500) / 1_000).max(1)),
        Amount::Random(_) => None,
    }
}

/// The word that begins the key, and its value.
fn event(op: &Op, names: &[String], lost: &mut BTreeSet<&'static str>) -> Option<(&'static str, Value)> {
    /// Longer work and sleeps stand for "until the end".
    const FOREVER_US: u64 = 1_000_000_000;
    let amount = |a: &Amount, lost: &mut BTreeSet<&'static str>| {
        if us(a).is_none() {
            lost.insert("random amounts have no word in rt-app: left out");
        }
        us(a)
    };
    Some(match op {
        Op::Run(work) => ("run", amount(work, lost)?.min(FOREVER_US).into()),
        Op::Sleep(time) => ("sleep", amount(time, lost)?.min(FOREVER_US).into()),
        Op::Timer { period, absolute, .. } => {
            let mode = if *absolute { "absolute" } else { "relative" };
            ("timer", json!({ "ref": "unique", "period": amount(period, lost)?, "mode": mode }))
        }
        Op::Get(queue) => ("sem_wait", format!("token{queue}").into()),
        Op::Put { queue, .. } => ("sem_post", format!("token{queue}").into()),
        Op::Device { service, .. } => {
            lost.insert("devices became sleeps: rt-app has no device of a given service time");
            ("sleep", amount(service, lost)?.into())
        }
        Op::Fork(task) => ("fork", names.get(*task as usize)?.clone().into()),
        Op::Yield => ("yield", "".into()),
        Op::Exit => return None,
        _ => {
            lost.insert("some operations have no word in rt-app: left out");
            return None;
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattif_model::workload::Program;

    fn file(ops: Vec<Op>) -> Value {
        let task = TaskSpec {
            name: "t".into(),
            instances: 1,
            start: Default::default(),
            startup: Default::default(),
            delay: Default::default(),
            attr: SchedAttr::default(),
            cpus: None,
            group: 0,
            background: false,
            program: Program { ops },
        };
        let (text, _) = write(&Workload { tasks: vec![task], ..Workload::default() });
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
        assert_eq!((&task["phases"]["p1"]["cpus"], &task["phases"]["p1"]["run1"]), (&json!([1]), &json!(6)));
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
}
