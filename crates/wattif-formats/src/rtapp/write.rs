//! A workload as rt-app JSON, where rt-app has words for it; what it has no word for is told.
//!
//! | here | in the file |
//! |---|---|
//! | work | `run` |
//! | work that does not scale with frequency | `mem` of the bytes that take so long at 4 GB/s (estimated); `runtime` beyond half a second |
//! | sleeps and timers; requests to devices | `sleep`, `timer`; `sleep` |
//! | locks, conditions, barriers, semaphores | the same; a task `tokens` posts what semaphores begin with |
//! | tokens in queues | semaphores of the same name |
//! | names | cut to 11 characters, each once |
//! | loops | of the task where one holds everything, else of phases; loops within loops are written out |
//! | random amounts | their mean |
//! | a fixed series of amounts in an endless program | a round for each, up to 100; else their mean |
//! | work shared by a counter | an equal part for each thread |
//! | groups | `taskgroup`; their weights and limits in `groups`, which rt-app ignores |
//! | marks of frames and requests, touches | nothing |

use super::{Logs, memory};
use crate::words::quoted;
use serde_json::{Map as Object, Value, json};
use std::borrow::Cow;
use std::collections::BTreeSet;
use wattif_model::CpuSet;
use wattif_model::workload::dist::Dist;
use wattif_model::workload::{Amount, Chunk, GroupSpec, Op, Policy, SchedAttr, TaskSpec, Workload};

/// Longer work and sleeps stand for "until the end", µs.
const FOREVER_US: u64 = 1_000_000_000;
/// A counter of more than this is never emptied.
const ENDLESS: u64 = 1 << 40;
/// Phases of more events are hard to read.
const LONG: usize = 100;
/// Most events that loops within loops are written out to.
const MOST: usize = 10_000;
/// Most bytes of an event `mem`: rt-app's integers have 32 bits.
const MOST_BYTES: u64 = i32::MAX as u64;
/// A longer series of amounts is not written out.
const SERIES: usize = 100;

/// The file, and what it could not say. `calibration_cpu`: at whose full speed `run` counts, where that is said; `logs`: what a
/// file that was read says of them.
pub fn write(workload: &Workload, calibration_cpu: Option<u32>, logs: &Logs) -> (String, Vec<String>) {
    let own = workload;
    let workload = &in_its_words(own);
    let mut writer = Writer { workload, names: names(workload), lost: BTreeSet::new() };
    writer.lost.extend(renamed(&own.tasks, &writer.names));
    if workload.tasks.len() > own.tasks.len() {
        let giver = &writer.names[own.tasks.len()];
        writer.lost.insert(format!("a task `{giver}` is added: it posts what semaphores begin with").into());
    }
    let tasks = workload.tasks.iter().zip(writer.names.clone());
    let tasks = Node::Map(tasks.map(|(task, name)| (name, Node::Map(writer.task(task)))).collect());
    let duration = workload.duration.map_or(-1, |d| i64::try_from(d.0.div_ceil(1_000_000_000)).unwrap_or(-1));
    let mut global = json!({ "duration": duration, "default_policy": "SCHED_OTHER" });
    let mut say = |key: &str, value: Option<Value>| value.map(|value| global[key] = value);
    say("calibration", calibration_cpu.map(|cpu| format!("CPU{cpu}").into()));
    say("calibration", logs.ns_per_loop.map(Value::from));
    say("log_basename", logs.basename.clone().map(Value::from));
    say("log_size", logs.disabled.then(|| "disable".into()));
    say("pi_enabled", workload.pi_enabled.then_some(true.into()));
    say("cumulative_slack", workload.cumulative_slack.then_some(true.into()));
    let mut file = vec![("global".to_string(), Node::Value(global))];
    let groups = groups(&workload.groups);
    if !groups.is_empty() {
        writer.lost.insert("rt-app ignores `groups`: write their weights and limits to the cgroups by hand".into());
        file.push(("groups".into(), Node::Value(groups.into())));
    }
    file.push(("tasks".into(), tasks));
    let mut text = String::new();
    Node::Map(file).write(0, &mut text);
    text.push('\n');
    (text, writer.lost.into_iter().map(Cow::into_owned).collect())
}

/// The same, without the semaphores that begin above 0 and the short series that rt-app has no word for.
fn in_its_words(workload: &Workload) -> Workload {
    let mut workload = workload.clone();
    for task in &mut workload.tasks {
        if let Some(ops) = series_written_out(&task.program.ops) {
            task.program.ops = ops;
        }
    }
    let mut ops = Vec::new();
    for (i, semaphore) in workload.semaphores.iter().enumerate().filter(|(_, s)| s.initial > 0) {
        let begin = ops.len() as u32;
        let count = Some(u64::from(semaphore.initial));
        ops.extend([Op::Loop { count, end: begin + 2 }, Op::SemPost(i as u32), Op::LoopEnd { begin }]);
    }
    if !ops.is_empty() {
        workload.tasks.push(TaskSpec::new("tokens", ops));
    }
    workload
}

/// An endless program whose amounts come from series of one length: a round for each value.
fn series_written_out(ops: &[Op]) -> Option<Vec<Op>> {
    let [Op::Loop { count: None, .. }, body @ .., Op::LoopEnd { begin: 0 }] = ops else { return None };
    if body.iter().any(|op| matches!(op, Op::Loop { .. } | Op::Jump(_) | Op::TakeWork { .. })) {
        return None;
    }
    let mut lengths = body.iter().filter_map(|op| Some(series(op)?.len()));
    let n = lengths.next()?;
    if !(1..=SERIES).contains(&n) || lengths.any(|other| other != n) {
        return None;
    }
    let round =
        |i: usize| body.iter().map(move |op| series(op).map_or(op.clone(), |values| with_amount(op, values[i])));
    let rounds: Vec<Op> = (0..n).flat_map(round).collect();
    let begin = Op::Loop { count: None, end: rounds.len() as u32 + 1 };
    Some([vec![begin], rounds, vec![Op::LoopEnd { begin: 0 }]].concat())
}

/// The series that the amount of an op that is written as a time comes from.
fn series(op: &Op) -> Option<&[u64]> {
    let amount = match op {
        Op::Run(a) | Op::RunInsensitive(a) | Op::Sleep(a) => a,
        Op::Spin { wall: a, .. } | Op::Timer { period: a, .. } | Op::Device { service: a, .. } => a,
        _ => return None,
    };
    match amount {
        Amount::Random(Dist::Sequence { values }) => Some(values),
        _ => None,
    }
}

fn with_amount(op: &Op, ns: u64) -> Op {
    let mut op = op.clone();
    if let Op::Run(a) | Op::RunInsensitive(a) | Op::Sleep(a) | Op::Spin { wall: a, .. } = &mut op {
        *a = Amount::Fixed(ns);
    }
    if let Op::Timer { period: a, .. } | Op::Device { service: a, .. } = &mut op {
        *a = Amount::Fixed(ns);
    }
    op
}

/// Objects keep their order: that of events is their meaning.
enum Node {
    Value(Value),
    Map(Vec<(String, Node)>),
}

impl Node {
    fn write(&self, depth: usize, out: &mut String) {
        let map = match self {
            Node::Value(value) => return out.push_str(&value.to_string()),
            Node::Map(map) => map,
        };
        out.push('{');
        for (i, (key, node)) in map.iter().enumerate() {
            let separator = if i == 0 { "\n" } else { ",\n" };
            out.push_str(&format!("{separator}{}{}: ", "  ".repeat(depth + 1), Value::from(key.as_str())));
            node.write(depth + 1, out);
        }
        out.push_str(&format!("\n{}}}", "  ".repeat(depth)));
    }
}

/// Keys of an object that keeps its order.
#[derive(Default)]
struct Keys(Vec<(String, Node)>);

impl Keys {
    fn insert(&mut self, key: &str, value: impl Into<Value>) {
        self.0.push((key.to_string(), Node::Value(value.into())));
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

/// The tasks that are called something else in the file.
fn renamed(tasks: &[TaskSpec], names: &[String]) -> Option<Cow<'static, str>> {
    const SHOWN: usize = 5;
    let changed: Vec<_> = tasks.iter().zip(names).filter(|(task, name)| task.name != **name).collect();
    let one = |(task, name): &(&TaskSpec, &String)| format!("{} is {}", quoted(&task.name), quoted(name));
    let mut shown = changed.iter().take(SHOWN).map(one).collect::<Vec<_>>().join(", ");
    if changed.len() > SHOWN {
        shown += &format!(", and {} more", changed.len() - SHOWN);
    }
    let why = "task names are keys and, with an index, names of threads of up to 15 characters";
    (!changed.is_empty()).then(|| format!("{why}: {shown}").into())
}

/// Weights and limits that are not the kernel's defaults, by the files of a cgroup.
fn groups(groups: &[GroupSpec]) -> Object<String, Value> {
    let percent = |clamp: u16| format!("{:.2}", f64::from(clamp) * 100.0 / 1024.0);
    let files = |g: &GroupSpec| {
        let usual = GroupSpec::named(&g.path);
        let mut files = Object::new();
        let mut set = |differs: bool, file: &str, value: Value| {
            if differs {
                files.insert(file.into(), value);
            }
        };
        let quota = g.quota.map_or("max".into(), |q| (q.0 / 1_000).to_string());
        set(g.shares != usual.shares, "cpu.shares", g.shares.into());
        set(g.idle, "cpu.idle", 1.into());
        set(
            (g.quota, g.period) != (usual.quota, usual.period),
            "cpu.max",
            format!("{quota} {}", g.period.0 / 1_000).into(),
        );
        set(g.burst != usual.burst, "cpu.max.burst", (g.burst.0 / 1_000).into());
        set(g.uclamp_min != usual.uclamp_min, "cpu.uclamp.min", percent(g.uclamp_min).into());
        set(g.uclamp_max != usual.uclamp_max, "cpu.uclamp.max", percent(g.uclamp_max).into());
        (g.path.clone(), Value::from(files))
    };
    let with_files = groups.iter().map(files).filter(|(_, files)| files.as_object().is_some_and(|f| !f.is_empty()));
    with_files.collect()
}

/// A program as a tree.
enum Step<'w> {
    Op(&'w Op),
    Loop(Option<u64>, Vec<Step<'w>>),
}

/// A phase being filled.
#[derive(Default)]
struct Phase {
    attributes: Keys,
    events: Keys,
}

struct Writer<'w> {
    workload: &'w Workload,
    names: Vec<String>,
    lost: BTreeSet<Cow<'static, str>>,
}

impl<'w> Writer<'w> {
    fn task(&mut self, task: &'w TaskSpec) -> Vec<(String, Node)> {
        let mut out = Keys::default();
        out.insert("instance", task.instances);
        // A program that is one loop is a task's.
        let mut steps = self.steps(&task.program.ops, 0, task.program.ops.len());
        let rounds = match steps.as_mut_slice() {
            [Step::Loop(count, body)] if task.startup.0 == 0 => {
                let (count, body) = (*count, std::mem::take(body));
                steps = body;
                rounds(count)
            }
            _ => 1,
        };
        out.insert("loop", rounds);
        if task.start.0 + task.delay.0 > 0 {
            out.insert("delay", task.start.max(task.delay).0 / 1_000);
        }
        if let Some(cpus) = &task.cpus {
            out.insert("cpus", list(cpus));
        }
        attributes(&task.attr, &mut out);
        if task.group > 0 {
            out.insert("taskgroup", self.workload.groups[task.group as usize].path.clone());
        }
        let mut first = Phase::default();
        self.op(&Op::Run(Amount::Fixed(task.startup.0)), &mut first, &mut None);
        out.0.push(("phases".into(), Node::Map(self.phases(&steps, first))));
        out.0
    }

    /// Ops `from..to` as a tree. Going back in an endless counter's loop is an endless loop.
    fn steps(&self, ops: &'w [Op], from: usize, to: usize) -> Vec<Step<'w>> {
        let mut steps: Vec<(usize, Step<'w>)> = Vec::new();
        let mut at = from;
        while at < to {
            let next = match &ops[at] {
                Op::Loop { count, end } => {
                    let end = (*end as usize).clamp(at, to);
                    steps.push((at, Step::Loop(*count, self.steps(ops, at + 1, end))));
                    end
                }
                Op::Jump(back) if (*back as usize) < at && self.is_endless(&ops[*back as usize..at]) => {
                    let first = steps.partition_point(|(begin, _)| begin < &(*back as usize));
                    let body = steps.split_off(first).into_iter().map(|(_, step)| step).collect();
                    steps.push((*back as usize, Step::Loop(None, body)));
                    at
                }
                op => {
                    steps.push((at, Step::Op(op)));
                    at
                }
            };
            at = next + 1;
        }
        steps.into_iter().map(|(_, step)| step).collect()
    }

    fn is_endless(&self, ops: &[Op]) -> bool {
        let total = |counter: &u32| self.workload.counters.get(*counter as usize).map_or(0, |c| c.total);
        ops.iter().any(|op| matches!(op, Op::TakeWork { counter, .. } if total(counter) > ENDLESS))
    }

    fn phases(&mut self, steps: &[Step<'w>], mut phase: Phase) -> Vec<(String, Node)> {
        let mut phases = Vec::new();
        // A phase without CPUs has those of the task again, so each one after the first says them.
        let mut bound: Option<Value> = None;
        for step in steps {
            match step {
                Step::Op(Op::Exit) => break,
                Step::Op(op) => {
                    if is_attribute(op) || matches!(op, Op::PhaseBegin) || phase.events.0.len() >= LONG {
                        close(&mut phases, &mut phase, 1, &bound);
                    }
                    self.op(op, &mut phase, &mut bound);
                }
                Step::Loop(count, body) => {
                    close(&mut phases, &mut phase, 1, &bound);
                    let mut ops = Vec::new();
                    self.written_out(body, &mut ops);
                    ops.iter().for_each(|op| self.op(op, &mut phase, &mut bound));
                    close(&mut phases, &mut phase, rounds(*count), &bound);
                    if count.is_none() {
                        break; // nothing comes after it
                    }
                }
            }
        }
        close(&mut phases, &mut phase, 1, &bound);
        phases
    }

    /// The ops of a phase's loop, loops within repeated as often as they say.
    fn written_out(&mut self, steps: &[Step<'w>], ops: &mut Vec<&'w Op>) {
        for step in steps {
            match step {
                Step::Op(op) => ops.push(op),
                Step::Loop(count, body) => {
                    for _ in 0..count.unwrap_or(u64::MAX) {
                        self.written_out(body, ops);
                        if body.is_empty() || ops.len() >= MOST {
                            break;
                        }
                    }
                }
            }
            if ops.len() >= MOST {
                self.lost.insert(
                    "loops within loops are written out, and some would be longer than 10,000 events: cut".into(),
                );
                return;
            }
        }
    }

    fn op(&mut self, op: &Op, phase: &mut Phase, bound: &mut Option<Value>) {
        if is_attribute(op) && !phase.events.0.is_empty() {
            self.lost.insert("attributes that change within a loop come to be set at its beginning".into());
        }
        match op {
            Op::SetAffinity(cpus) => *bound = cpus.as_ref().map(list),
            Op::SetAttr(attr) => attributes(attr, &mut phase.attributes),
            Op::SetGroup(group) => {
                let path = self.workload.groups.get(*group as usize).map_or("/", |g| g.path.as_str());
                phase.attributes.insert("taskgroup", path);
            }
            _ => {
                for (word, value) in self.events(op) {
                    let n = phase.events.0.len();
                    phase.events.insert(&format!("{word}{n}"), value);
                }
            }
        }
    }

    /// The words that begin the keys, and their values.
    fn events(&mut self, op: &Op) -> Vec<(&'static str, Value)> {
        let w = self.workload;
        let one = |word, value: Value| vec![(word, value)];
        let name = |of: Option<&str>| Value::from(of.unwrap_or("unknown"));
        let cond = |c: &u32| name(w.conds.get(*c as usize).map(|c| c.name.as_str()));
        let mutex = |m: &u32| name(w.mutexes.get(*m as usize).map(|m| m.name.as_str()));
        let semaphore = |s: &u32| name(w.semaphores.get(*s as usize).map(|s| s.name.as_str()));
        let mut lose = |what: &'static str| {
            self.lost.insert(what.into());
        };
        match op {
            Op::Run(work) => lasting("run", self.us(work)),
            Op::RunInsensitive(work) => {
                let bytes = memory::memset_bytes(self.ns(work));
                if bytes <= MOST_BYTES {
                    self.lost.insert(
                        "work that does not scale with frequency became `mem`, its bytes at an estimated 4 GB/s".into(),
                    );
                    return if bytes == 0 { vec![] } else { one("mem", bytes.into()) };
                }
                self.lost.insert(
                    "long work that does not scale with frequency became `runtime`, which counts preempted time too"
                        .into(),
                );
                lasting("runtime", self.us(work))
            }
            Op::Spin { wall, .. } => lasting("runtime", self.us(wall)),
            Op::Sleep(time) => lasting("sleep", self.us(time)),
            Op::Device { device, service, .. } => {
                lose("requests to devices became sleeps: nobody queues for another, and timer slack delays their ends");
                if w.devices.get(*device as usize).is_some_and(|d| d.iowait) {
                    lose(
                        "sleeps for devices are no I/O wait: no governor boosts for it, and walt.io_is_busy sees none",
                    );
                }
                lasting("sleep", self.us(service))
            }
            Op::TakeWork { counter, chunk, per_iteration, .. } => {
                lose("work that threads take from a counter became equal parts");
                let us = self.us(per_iteration).saturating_mul(self.part(*counter, *chunk));
                lasting("run", if matches!(per_iteration, Amount::Fixed(0)) { 0 } else { us })
            }
            Op::Timer { timer, period, absolute } => {
                let mode = if *absolute { "absolute" } else { "relative" };
                one("timer", json!({ "ref": self.timer(*timer), "period": self.us(period), "mode": mode }))
            }
            Op::Vsync { period, .. } => {
                lose("vsyncs of a display became relative timers without offsets: one that is late starts a new beat");
                let period = self.us(&Amount::Fixed(*period)).max(1);
                one("timer", json!({ "ref": "unique_vsync", "period": period, "mode": "relative" }))
            }
            Op::Lock(m) => one("lock", mutex(m)),
            Op::Unlock(m) => one("unlock", mutex(m)),
            Op::Wait { cond: c, mutex: Some(m) } => one("wait", json!({ "ref": cond(c), "mutex": mutex(m) })),
            Op::Wait { cond: c, mutex: None } => match cond(c) {
                own if self.names.iter().any(|n| own == n.as_str()) => one("suspend", own),
                other => {
                    let lock = Value::from(format!("{}_lock", other.as_str().unwrap_or_default()));
                    let wait = json!({ "ref": other, "mutex": lock });
                    vec![("lock", lock.clone()), ("wait", wait), ("unlock", lock)]
                }
            },
            Op::Signal(c) => one("signal", cond(c)),
            Op::Broadcast(c) => one("broad", cond(c)),
            Op::Barrier(b) => one("barrier", name(w.barriers.get(*b as usize).map(|b| b.name.as_str()))),
            Op::SemPost(s) => one("sem_post", semaphore(s)),
            Op::SemWait(s) => one("sem_wait", semaphore(s)),
            Op::Put { queue, .. } => one("sem_post", self.queue(*queue)),
            Op::Get(queue) => one("sem_wait", self.queue(*queue)),
            Op::SpinThenBlock { queue, .. } => {
                lose("threads that spin for a while before they sleep sleep at once");
                one("sem_wait", self.queue(*queue))
            }
            Op::Drain { .. } => {
                lose(
                    "tokens that move from one queue to another all at once: left out; who waits for them waits for ever",
                );
                vec![]
            }
            Op::Yield => one("yield", "".into()),
            Op::Fork(task) => self.names.get(*task as usize).map(|n| ("fork", n.clone().into())).into_iter().collect(),
            Op::Mark(_) | Op::MarkBegin => {
                lose("marks of frames and requests have no word in rt-app: left out");
                vec![]
            }
            Op::Touch => {
                lose("touches of the screen have no word in rt-app: left out");
                vec![]
            }
            // A finite counter's loop is one part; phases are the writer's own.
            Op::Jump(_) | Op::ResetWork(_) | Op::PhaseBegin | Op::PhaseEnd { .. } => vec![],
            // Loops are steps, attributes are keys, and nothing comes after an exit.
            Op::Loop { .. } | Op::LoopEnd { .. } | Op::SetAttr(_) | Op::SetAffinity(_) | Op::SetGroup(_) | Op::Exit => {
                vec![]
            }
        }
    }

    /// Whole µs, as rt-app counts; 0 only for nothing.
    fn us(&mut self, amount: &Amount) -> u64 {
        match self.ns(amount) {
            0 if matches!(amount, Amount::Fixed(_)) => 0,
            ns => (ns.saturating_add(500) / 1_000).max(1),
        }
    }

    fn ns(&mut self, amount: &Amount) -> u64 {
        match amount {
            Amount::Fixed(ns) => *ns,
            Amount::Random(dist) => {
                let became = match dist {
                    Dist::Sequence { .. } => {
                        "a series of amounts too long to write out, or of a part of a program, became its mean"
                    }
                    _ => "random amounts became their mean",
                };
                self.lost.insert(became.into());
                mean(dist) as u64
            }
        }
    }

    /// Iterations of each thread that takes from a counter; of one chunk where the counter never ends.
    fn part(&self, counter: u32, chunk: Chunk) -> u64 {
        let total = self.workload.counters.get(counter as usize).map_or(0, |c| c.total);
        match chunk {
            Chunk::Fixed(n) if total > ENDLESS => n,
            _ => total / self.threads_at(counter).max(1),
        }
    }

    fn threads_at(&self, counter: u32) -> u64 {
        let tasks = &self.workload.tasks;
        let takes = |t: &TaskSpec| {
            t.program.ops.iter().any(|op| matches!(op, Op::TakeWork { counter: c, .. } if *c == counter))
        };
        let forked = |task: usize| {
            let forks = tasks.iter().flat_map(|t| &t.program.ops);
            forks.filter(|op| matches!(op, Op::Fork(of) if *of as usize == task)).count() as u64
        };
        let users = tasks.iter().enumerate().filter(|(_, t)| takes(t));
        users.map(|(at, t)| u64::from(t.instances) + forked(at)).sum()
    }

    /// rt-app takes a name that begins with `unique` for a timer of each thread.
    fn timer(&self, timer: u32) -> String {
        match self.workload.timers.get(timer as usize) {
            Some(t) if t.shared == t.name.starts_with("unique") => {
                format!("{}{}", if t.shared { "shared_" } else { "unique_" }, t.name)
            }
            Some(t) => t.name.clone(),
            None => "unique".into(),
        }
    }

    /// The semaphore that stands for a queue.
    fn queue(&self, queue: u32) -> Value {
        let name = self.workload.queues.get(queue as usize).map_or("unknown", |q| q.name.as_str());
        match self.workload.semaphores.iter().any(|s| s.name == name) {
            true => format!("queue_{name}").into(),
            false => name.into(),
        }
    }
}

fn is_attribute(op: &Op) -> bool {
    matches!(op, Op::SetAffinity(_) | Op::SetAttr(_) | Op::SetGroup(_))
}

/// Ends a phase that has events; attributes alone wait for the next.
fn close(phases: &mut Vec<(String, Node)>, phase: &mut Phase, rounds: i64, bound: &Option<Value>) {
    if phase.events.0.is_empty() {
        return;
    }
    let mut keys = Keys::default();
    keys.insert("loop", rounds);
    if let Some(cpus) = bound {
        keys.insert("cpus", cpus.clone());
    }
    let Phase { attributes, events } = std::mem::take(phase);
    keys.0.extend(attributes.0.into_iter().chain(events.0));
    phases.push((format!("p{}", phases.len()), Node::Map(keys.0)));
}

fn rounds(count: Option<u64>) -> i64 {
    count.map_or(-1, |n| n.min(i32::MAX as u64) as i64)
}

fn list(cpus: &CpuSet) -> Value {
    cpus.iter().map(|c| Value::from(c.0)).collect()
}

/// An event that takes time, if it takes any.
fn lasting(word: &'static str, us: u64) -> Vec<(&'static str, Value)> {
    if us == 0 { vec![] } else { vec![(word, us.min(FOREVER_US).into())] }
}

fn attributes(attr: &SchedAttr, out: &mut Keys) {
    out.insert("policy", attr.policy.name());
    match attr.policy {
        Policy::Fifo | Policy::Rr => out.insert("priority", attr.rt_priority),
        Policy::Normal | Policy::Batch if attr.nice != 0 => out.insert("priority", attr.nice),
        _ => {}
    }
    let times = [("dl-runtime", attr.runtime), ("dl-deadline", attr.deadline), ("dl-period", attr.period)];
    for (key, time) in times.iter().filter(|(_, time)| time.0 > 0) {
        out.insert(key, time.0 / 1_000);
    }
    for (key, clamp) in [("util_min", attr.util_min), ("util_max", attr.util_max)] {
        if let Some(clamp) = clamp {
            out.insert(key, clamp);
        }
    }
}

/// What the draws come to on average, cuts included.
fn mean(dist: &Dist) -> f64 {
    let average = |values: &[u64]| values.iter().map(|v| *v as f64).sum::<f64>() / values.len().max(1) as f64;
    match dist {
        Dist::Uniform { lo, hi } => (*lo as f64 + *hi as f64) / 2.0,
        Dist::Exponential { mean } => *mean as f64,
        Dist::LogNormal { median, sigma_milli } => {
            let sigma = f64::from(*sigma_milli) / 1_000.0;
            *median as f64 * (sigma * sigma / 2.0).exp()
        }
        Dist::Pareto { scale, shape_milli } => {
            // E[min(X, c)] = s + ∫ₛᶜ (s/x)^α dx, with c = 1000 s.
            let (alpha, cut) = (f64::from(*shape_milli) / 1_000.0, 1_000f64);
            let beyond = match alpha - 1.0 {
                0.0 => cut.ln(),
                over => (1.0 - cut.powf(-over)) / over,
            };
            *scale as f64 * (1.0 + beyond)
        }
        Dist::Sequence { values } | Dist::Choice { values } => average(values),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Dialect, Options, parse};
    use super::*;
    use std::path::Path;
    use wattif_model::workload::SemaphoreSpec;
    use wattif_model::workload::models::MODELS;

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
            let tokens = u32::from(w.semaphores.iter().any(|s| s.initial > 0));
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
        let semaphores =
            [("full", 3), ("none", 0)].map(|(n, initial)| SemaphoreSpec { name: n.into(), initial }).into();
        let user = TaskSpec::new("tokens", vec![Op::SemWait(0), Op::SemPost(1), run(1)]);
        let (text, _) =
            write(&Workload { tasks: vec![user], semaphores, ..Workload::default() }, None, &Logs::default());
        let file: Value = serde_json::from_str(&text).unwrap();
        let giver = &file["tasks"]["tokens_2"];
        assert_eq!((giver["loop"].as_i64(), &giver["phases"]["p0"]["sem_post0"]), (Some(3), &json!("full")));
        assert_eq!(giver["phases"]["p0"].as_object().unwrap().len(), 2, "{text}");
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
            if !write(&first, None, &Logs::default()).1.is_empty()
                || first.tasks.iter().map(|t| &t.name).ne(&names(&first))
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

    #[test]
    fn what_a_file_calls_otherwise_is_told() {
        let workload = MODELS.iter().find(|m| m.name == "jankbench").unwrap().workload(&[]).unwrap();
        let (_, lost) = write(&workload, None, &Logs::default());
        assert!(lost.iter().any(|l| l.ends_with("`RenderThread` is `RenderThrea`")), "{lost:?}");
        assert!(lost.iter().any(|l| l.contains("a task `tokens` is added")), "{lost:?}");
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
}
