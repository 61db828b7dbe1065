//! A workload as rt-app JSON, where rt-app has words for it; what it has no word for is told.
//!
//! | here | in the file |
//! |---|---|
//! | work | `run` |
//! | work that does not scale with frequency | `mem` of the bytes that take so long at 4 GB/s (estimated); `runtime` beyond half a second |
//! | sleeps and timers; requests to devices | `sleep`, `timer`; `sleep` |
//! | locks, conditions, semaphores | the same; a task `tokens` posts what semaphores begin with |
//! | barriers | the same; one for each place of a program that comes to it in several; semaphores where threads are forked |
//! | tokens in queues | semaphores of the same name |
//! | names | each once, cut to what leaves room for the numbers of threads: to 11 characters or fewer |
//! | loops | of the task where one holds everything, else of phases; loops within loops are written out, and so are those with attributes that change within |
//! | random amounts | their mean |
//! | a fixed series of amounts in an endless program | a round for each, up to 100; else their mean |
//! | work shared by a counter | an equal part for each thread |
//! | groups | `taskgroup`; their weights and limits in `groups`, which rt-app ignores |
//! | marks of frames and requests, touches | nothing |
//! | the background of a recorded machine | nothing, but for threads that others wait for |

mod background;
mod barriers;
mod names;
mod own_words;
#[cfg(test)]
mod tests;

use super::{Logs, memory};
use names::{names, renamed};
use own_words::in_its_words;
use serde_json::{Map as Object, Value, json};
use std::borrow::Cow;
use std::collections::BTreeSet;
use wattif_model::workload::dist::Dist;
use wattif_model::workload::{Amount, Chunk, GroupSpec, Op, Policy, SchedAttr, TaskSpec, Workload};
use wattif_model::{CpuSet, Ns};

const SECOND: u64 = 1_000_000_000;
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
/// Said of tokens.
const QUEUES: &str = "queues of tokens became semaphores: a running thread may take what another one was woken for, and no one knows since \
                      when it was there";
/// A longer series of amounts is not written out.
const SERIES: usize = 100;

/// The file, and what it could not say. `calibration_cpu`: at whose full speed `run` counts, where that is said; `logs`: what a
/// file that was read says of them.
pub fn write(workload: &Workload, calibration_cpu: Option<u32>, logs: &Logs) -> (String, Vec<String>) {
    let mut own = workload.clone();
    let background = background::left_out(&mut own);
    let workload = &in_its_words(&own);
    let mut writer =
        Writer { workload, names: names(workload), lost: BTreeSet::new(), own: BTreeSet::new(), unsaid: vec![] };
    writer.lost.extend(background.map(Cow::from));
    writer.lost.extend(renamed(&own.tasks, &writer.names));
    let said = match &writer.names[own.tasks.len()..] {
        [] => None,
        [giver] => Some(format!("a task `{giver}` is added: it posts what semaphores begin with")),
        [first, .., last] => {
            Some(format!("tasks `{first}` to `{last}` are added: they post what semaphores begin with"))
        }
    };
    writer.lost.extend(said.map(Cow::from));
    let tasks = workload.tasks.iter().zip(writer.names.clone());
    let mut tasks: Vec<_> = tasks.map(|(task, name)| (name, Node::Map(writer.task(task)))).collect();
    writer.lost.extend(barriers::apart(&mut tasks, &workload.barriers).into_iter().map(Cow::from));
    let duration = workload.duration.map_or(-1, |d| i64::try_from(d.0.div_ceil(SECOND)).unwrap_or(-1));
    if let Some(d) = workload.duration.filter(|d| d.0 % SECOND > 0) {
        let said = format!("`duration` is in whole seconds: {} became {duration}", d.0 as f64 / SECOND as f64);
        writer.lost.insert(said.into());
    }
    if workload.follow_signals {
        let said = "that the scheduler's signals are to be followed has no word in rt-app: the file's runs have no figures \
                    `signals.…`";
        writer.lost.insert(said.into());
    }
    let mut global = json!({ "duration": duration, "default_policy": "SCHED_OTHER" });
    let mut say = |key: &str, value: Option<Value>| value.map(|value| global[key] = value);
    say("calibration", calibration_cpu.map(|cpu| format!("CPU{cpu}").into()));
    say("calibration", logs.ns_per_loop.map(Value::from));
    say("ftrace", (!logs.ftrace.is_empty()).then(|| logs.ftrace.join(",").into()));
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
    file.push(("tasks".into(), Node::Map(tasks)));
    let mut text = String::new();
    Node::Map(file).write(0, &mut text);
    text.push('\n');
    (text, writer.lost.into_iter().map(Cow::into_owned).collect())
}

/// Objects keep their order: that of events is their meaning.
#[derive(Clone)]
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
    /// A key stands once: a later value takes the place of an earlier one.
    fn insert(&mut self, key: &str, value: impl Into<Value>) {
        let value = Node::Value(value.into());
        match self.0.iter_mut().find(|(k, _)| k == key) {
            Some((_, was)) => *was = value,
            None => self.0.push((key.to_string(), value)),
        }
    }
    fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(k, _)| k == key)
    }
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
    /// It says on which CPUs.
    bound: bool,
}

struct Writer<'w> {
    workload: &'w Workload,
    names: Vec<String>,
    lost: BTreeSet<Cow<'static, str>>,
    /// Queues into which the task that is being written puts tokens.
    own: BTreeSet<u32>,
    /// Attributes of which the phases that are being written leave out what the thread has by then, with the rest of them.
    unsaid: Vec<(&'w Op, Unsaid, SchedAttr)>,
}

impl<'w> Writer<'w> {
    fn task(&mut self, task: &'w TaskSpec) -> Vec<(String, Node)> {
        let put = |op: &Op| if let Op::Put { queue, .. } = op { Some(*queue) } else { None };
        self.own = task.program.ops.iter().filter_map(put).collect();
        let mut out = Keys::default();
        out.insert("instance", task.instances);
        // A program that is one loop is a task's.
        let ops = before_end(&task.program.ops);
        let mut steps = self.steps(ops, 0, ops.len());
        let rounds = match steps.as_mut_slice() {
            [Step::Loop(count, body)] if task.startup.0 == 0 => {
                let (count, body) = (*count, std::mem::take(body));
                steps = body;
                rounds(count)
            }
            // Phases whose attributes change have a loop around them only as a task.
            [first @ .., Step::Loop(count, body)] if task.startup.0 == 0 && is_one_more(first, *count, body) => {
                match unsaid(&task.attr, first, body) {
                    Some(unsaid) => self.unsaid = unsaid,
                    None => drop(self.lost.insert(
                        "rounds alike but for the first, which sets other attributes: it became like the others".into(),
                    )),
                }
                let (count, body) = (count.map(|n| n.saturating_add(1)), std::mem::take(body));
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
        self.lose_nice(&task.attr);
        attributes(&task.attr, &mut out);
        if task.group > 0 {
            out.insert("taskgroup", self.workload.groups[task.group as usize].path.clone());
        }
        let mut first = Phase::default();
        self.op(&Op::Run(Amount::Fixed(task.startup.0)), &mut first, &mut None);
        let mut phases = self.phases(&steps, first);
        self.unsaid.clear();
        if phases.is_empty() {
            // rt-app wants an event in every task; with loop 0 its threads never come to it.
            out.insert("loop", 0);
            phases = vec![("p0".into(), Node::Map(vec![("run0".into(), Node::Value(1.into()))]))];
        }
        out.0.push(("phases".into(), Node::Map(phases)));
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
                    let ops = written_out(body);
                    if ops.len() >= MOST {
                        let cut =
                            "loops within loops are written out, and some would be longer than 10,000 events: cut";
                        self.lost.insert(cut.into());
                    }
                    if let Some(n) = count.filter(|n| changes(&ops) && is_short(*n, &ops)) {
                        for op in (0..n).flat_map(|_| &ops) {
                            if is_attribute(op) || matches!(op, Op::PhaseBegin) || phase.events.0.len() >= LONG {
                                close(&mut phases, &mut phase, 1, &bound);
                            }
                            self.op(op, &mut phase, &mut bound);
                        }
                        continue;
                    }
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

    fn op(&mut self, op: &Op, phase: &mut Phase, bound: &mut Option<Value>) {
        // Within a loop that is one phase the first of each counts.
        let late = !phase.events.0.is_empty();
        if is_attribute(op) && late {
            self.lost.insert(
                "attributes that change within a loop: the first of each is set at its beginning, and stays".into(),
            );
        }
        let unsaid = self.unsaid.iter().find(|(of, ..)| std::ptr::eq(*of, op)).copied();
        match op {
            Op::SetAffinity(_) if late && phase.bound => {}
            Op::SetAffinity(cpus) => (*bound, phase.bound) = (cpus.as_ref().map(list), true),
            Op::SetAttr(_) if late && phase.attributes.has("policy") => {}
            Op::SetAttr(attr) if unsaid.is_some() => {
                let (_, unsaid, said) = unsaid.expect("is some");
                if unsaid == Unsaid::Slice {
                    let priority = if attr.policy.is_rt() { attr.rt_priority.into() } else { i16::from(attr.nice) };
                    phase.attributes.insert("priority", priority);
                }
                clamps(&said, &mut phase.attributes);
            }
            Op::SetAttr(attr) => {
                // What belonged to another policy goes; a clamp that is not given stays.
                phase
                    .attributes
                    .0
                    .retain(|(key, _)| !["policy", "priority"].contains(&key.as_str()) && !key.starts_with("dl-"));
                self.lose_nice(attr);
                attributes(attr, &mut phase.attributes);
            }
            Op::SetGroup(_) if late && phase.attributes.has("taskgroup") => {}
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

    fn lose_nice(&mut self, attr: &SchedAttr) {
        if attr.policy == Policy::Idle && attr.nice != 0 {
            let no_word =
                "rt-app gives threads of SCHED_IDLE no nice value: theirs became 0, as which they weigh the same";
            self.lost.insert(no_word.into());
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
            Op::Run(work) => run(self.us(work)),
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
                lose(
                    "requests to devices became sleeps: nobody queues for another, timer slack delays their ends, and idle \
                     governors see them coming as their next timer",
                );
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
                run(if matches!(per_iteration, Amount::Fixed(0)) { 0 } else { us })
            }
            Op::Timer { timer, period, absolute } => {
                let mode = if *absolute { "absolute" } else { "relative" };
                one("timer", json!({ "ref": self.timer(*timer), "period": self.us(period), "mode": mode }))
            }
            Op::Anchor { timer, period, .. } => {
                if *period > 1 {
                    lose("timers of forked threads count from their birth, whatever the tick's phase");
                }
                // One that has passed counts from now.
                one("timer", json!({ "ref": self.timer(*timer), "period": 1, "mode": "relative" }))
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
            Op::Put { queue, .. } => {
                lose(QUEUES);
                one("sem_post", self.queue(*queue))
            }
            Op::Get(queue) => {
                lose(QUEUES);
                one("sem_wait", self.queue(*queue))
            }
            Op::SpinThenBlock { queue, .. } => {
                lose(QUEUES);
                lose("threads that spin for a while before they sleep sleep at once");
                one("sem_wait", self.queue(*queue))
            }
            Op::Drain { from, to, .. } if self.own.contains(from) => {
                lose(
                    "tokens that move from one queue to another all at once: the thread's own alone, one a time; rates and latencies \
                     of threads that are released together may be several times off",
                );
                vec![("sem_wait", self.queue(*from)), ("sem_post", self.queue(*to))]
            }
            Op::Drain { .. } => {
                lose(
                    "tokens that move from one queue to another all at once: left out; their turn comes one by one, and rates and \
                     latencies of threads that are released together may be several times off",
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
            ns => {
                let us = (ns.saturating_add(500) / 1_000).max(1);
                if us.saturating_mul(1_000).abs_diff(ns) >= ns.div_ceil(100) {
                    self.lost.insert("times are in whole µs: the rounding changed some by 1 % or more".into());
                }
                us
            }
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

/// Does a loop, which needs phases of its own and is too long to be written out, do once more what comes before it?
fn is_one_more(first: &[Step<'_>], count: Option<u64>, body: &[Step<'_>]) -> bool {
    let again = written_out(body);
    if !changes(&again) || count.is_some_and(|n| is_short(n, &again)) {
        return false;
    }
    let before = written_out(first);
    let work = |op: &&&Op| !is_attribute(op);
    before.iter().filter(work).eq(again.iter().filter(work))
}

/// What a phase leaves out of its attributes, for the thread has it when it comes there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unsaid {
    /// The policy with all that belongs to it: the phase names clamps alone.
    Policy,
    /// The slice: the phase names a priority, and has the policy of its first round for good.
    Slice,
}

/// Of a loop that does once more what comes `first`, with other attributes: what phases must not say, so that one loop does
/// both. `None`: no phases do.
fn unsaid<'w>(task: &SchedAttr, first: &[Step<'w>], body: &[Step<'w>]) -> Option<Vec<(&'w Op, Unsaid, SchedAttr)>> {
    let (first, later) = (written_out(first), written_out(body));
    let mut found = Vec::new();
    let mut pairs = Vec::new();
    for (f, l) in first.iter().zip(&later) {
        match (f, l) {
            (Op::SetAttr(f), Op::SetAttr(of)) => {
                let unsaid = match f == of {
                    true => None,
                    false if SchedAttr { runtime: f.runtime, ..plain(of) } == plain(f) => Some(Unsaid::Slice),
                    false => Some(Unsaid::Policy),
                };
                pairs.push((f, of, unsaid));
                let clamps =
                    SchedAttr { util_min: f.util_min.or(of.util_min), util_max: f.util_max.or(of.util_max), ..*of };
                found.extend(unsaid.map(|unsaid| (*l, unsaid, clamps)));
            }
            (f, l) if f == l => {}
            _ => return None,
        }
    }
    // What is read of that, in the first round and in all others, must be what there was.
    let mut has = plain(task);
    let firsts = pairs.iter().map(|(f, _, unsaid)| (f, *unsaid, None));
    let others = pairs.iter().map(|(f, l, unsaid)| (l, *unsaid, Some(f)));
    let fits = firsts.chain(others).all(|(attr, unsaid, settled)| {
        let read = match (unsaid, settled) {
            (None, _) => plain(attr),
            (Some(Unsaid::Policy), _) => has,
            (Some(Unsaid::Slice), None) => SchedAttr { nice: attr.nice, rt_priority: attr.rt_priority, ..has },
            (Some(Unsaid::Slice), Some(f)) => {
                let runtime = if has.policy == f.policy { has.runtime } else { Ns::ZERO };
                SchedAttr { runtime, ..plain(f) }
            }
        };
        has = plain(attr);
        read == has
    });
    (fits && first.len() == later.len() && later.len() < MOST).then_some(found)
}

/// Without clamps, which stay by themselves.
fn plain(attr: &SchedAttr) -> SchedAttr {
    SchedAttr { util_min: None, util_max: None, ..*attr }
}

/// The ops of a phase's loop, loops within repeated as often as they say; not many more than [`MOST`].
fn written_out<'w>(steps: &[Step<'w>]) -> Vec<&'w Op> {
    fn append<'w>(steps: &[Step<'w>], ops: &mut Vec<&'w Op>) {
        for step in steps {
            match step {
                Step::Op(op) => ops.push(op),
                Step::Loop(count, body) => {
                    for _ in 0..count.unwrap_or(u64::MAX) {
                        append(body, ops);
                        if body.is_empty() || ops.len() >= MOST {
                            break;
                        }
                    }
                }
            }
            if ops.len() >= MOST {
                return;
            }
        }
    }
    let mut ops = Vec::new();
    append(steps, &mut ops);
    ops
}

/// Without the way back to SCHED_OTHER and to the root group, which a thread of rt-app goes by itself before it ends.
fn before_end(ops: &[Op]) -> &[Op] {
    let ops = ops.strip_suffix(&[Op::SetGroup(0)]).unwrap_or(ops);
    match ops {
        [before @ .., Op::SetAttr(attr)] if (SchedAttr { nice: 0, ..*attr }) == SchedAttr::default() => before,
        _ => ops,
    }
}

fn is_attribute(op: &Op) -> bool {
    matches!(op, Op::SetAffinity(_) | Op::SetAttr(_) | Op::SetGroup(_))
}

/// Do attributes change between events?
fn changes(ops: &[&Op]) -> bool {
    let lasts = |op: &&&Op| !is_attribute(op) && !matches!(op, Op::PhaseBegin | Op::PhaseEnd { .. });
    let first = ops.iter().position(|op| lasts(&op)).unwrap_or(ops.len());
    ops[first..].iter().any(|op| is_attribute(op))
}

/// May so many rounds be written out?
fn is_short(rounds: u64, ops: &[&Op]) -> bool {
    rounds.saturating_mul(ops.len() as u64) <= MOST as u64
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
    let Phase { attributes, events, .. } = std::mem::take(phase);
    keys.0.extend(attributes.0.into_iter().chain(events.0));
    phases.push((format!("p{}", phases.len()), Node::Map(keys.0)));
}

fn rounds(count: Option<u64>) -> i64 {
    count.map_or(-1, |n| n.min(i32::MAX as u64) as i64)
}

fn list(cpus: &CpuSet) -> Value {
    cpus.iter().map(|c| Value::from(c.0)).collect()
}

/// An event that takes time. Without any it is still one: a `sleep` of 0 is a call that timer slack may delay, a `runtime` of 0
/// a piece of work, and the log of a phase counts it.
fn lasting(word: &'static str, us: u64) -> Vec<(&'static str, Value)> {
    vec![(word, us.min(FOREVER_US).into())]
}

/// Work, if it is any.
fn run(us: u64) -> Vec<(&'static str, Value)> {
    if us == 0 { vec![] } else { lasting("run", us) }
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
    clamps(attr, out);
}

fn clamps(attr: &SchedAttr, out: &mut Keys) {
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
