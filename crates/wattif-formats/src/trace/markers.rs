//! rt-app's own lines in a trace, the `trace_marker` of its threads, as LISA's analysis of rt-app reads them: those of the
//! categories that `global.ftrace` of the file names.
//!
//! | category | lines |
//! |---|---|
//! | `main` | `rtapp_main: event=start`, `shutdown` (the time was over), `end` |
//! | `task` | `rtapp_main: event=clock_ref data=…`, and of each thread `rtapp_task: event=start` and `end` |
//! | `loop` | `rtapp_loop: event=start` and `end` of each iteration of a phase, `thread_loop=` `phase=` `phase_loop=` |
//! | `event` | `rtapp_event: id=` (its place in the phase) `type=` (as rt-app numbers them in 2026) `desc=` (its word) |
//! | `stats` | `rtapp_stats: period=` `run=` `wu_lat=` `slack=` `c_period=` `c_run=`, µs |
//!
//! What the reader makes one op of says the first of its words: `mem`, `iorun` and `memrun` are `mem`, and a `sync` is a `signal`
//! and a `wait`. There is no thread `rt-app`: its lines are those of whoever runs on the first CPU then.

use crate::rtapp::Logs;
use std::collections::BTreeMap;
use wattif_model::trace::{Event, Interest, ThreadInfo};
use wattif_model::workload::{Op, TaskSpec, Workload};
use wattif_model::{Ns, Pid};

/// The categories that a file can name.
pub const CATEGORIES: [&str; 5] = ["main", "task", "loop", "event", "stats"];

/// What an op of a program means to rt-app.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The loop of a task's only phase begins, within that of the thread.
    Enter,
    /// `again`: when it comes to itself again, that is the loop of the phase; `None`: unless that began anew.
    Begin {
        phase: u32,
        again: Option<bool>,
    },
    End,
    Event {
        id: u32,
        kind: (u8, &'static str),
    },
}

/// A thread's way through its program.
#[derive(Clone, Debug, Default)]
struct Place {
    task: String,
    started: bool,
    ended: bool,
    /// The op that the phase began with, and its number.
    at: Option<(u32, u32)>,
    entered: bool,
    thread_loop: u64,
    phase_loop: u64,
    /// The first half of a line of figures: wu_lat, run, period and slack, µs.
    stats: [i64; 4],
}

/// Makes the lines of a run.
#[derive(Clone, Debug)]
pub struct Markers {
    asked: Vec<String>,
    tasks: BTreeMap<String, Vec<Option<Step>>>,
    threads: BTreeMap<Pid, Place>,
    begun: bool,
}

impl Markers {
    /// Of a run of this workload, whose file says this; `None` where it asks for no lines.
    pub fn of(workload: &Workload, logs: &Logs) -> Option<Markers> {
        let phases = logs.phases.iter().copied().chain(std::iter::repeat(0));
        let tasks = workload.tasks.iter().zip(phases).map(|(t, n)| (t.name.clone(), steps(t, n, workload))).collect();
        let asked = logs.ftrace.clone();
        (!asked.is_empty()).then_some(Markers { asked, tasks, threads: BTreeMap::new(), begun: false })
    }

    fn wants(&self, category: &str) -> bool {
        self.asked.iter().any(|c| c == category)
    }

    /// What it must hear of.
    pub fn interest(&self) -> Interest {
        let steps = ["task", "loop", "event"].iter().any(|c| self.wants(c));
        if steps { Interest::PROGRAM.and(Interest::STEPS) } else { Interest::PROGRAM }
    }

    /// A thread exists.
    pub fn thread(&mut self, thread: &ThreadInfo) {
        if thread.workload {
            self.threads.insert(thread.pid, Place { task: thread.task.clone(), ..Place::default() });
        }
    }

    /// The lines that come with this event, of the thread that it is about.
    pub fn event(&mut self, at: Ns, event: &Event) -> Vec<String> {
        let mut lines = Vec::new();
        if !std::mem::replace(&mut self.begun, true) {
            lines.extend(self.wants("main").then(|| "rtapp_main: event=start".into()));
            let us = at.0 / 1_000;
            lines.extend(self.wants("task").then(|| format!("rtapp_main: event=clock_ref data={us}")));
        }
        match *event {
            Event::ProgramStep { pid, op } => lines.extend(self.step(pid, op)),
            Event::SchedProcessExit { pid, .. } => lines.extend(self.exit(pid)),
            Event::RtappStats { pid, wu_lat_ns, run_ns, period_ns, slack_ns } => {
                let us = |ns: u64| (ns / 1_000) as i64;
                if let Some(place) = self.threads.get_mut(&pid) {
                    place.stats = [us(wu_lat_ns), us(run_ns), us(period_ns), slack_ns / 1_000];
                }
            }
            Event::RtappConfigured { pid, c_duration_us, c_period_us } if self.wants("stats") => {
                let stats = self.threads.get(&pid).map(|place| place.stats);
                lines.extend(stats.map(|[wu_lat, run, period, slack]| {
                    format!(
                        "rtapp_stats: period={period} run={run} wu_lat={wu_lat} slack={slack} c_period={c_period_us} \
                         c_run={c_duration_us}"
                    )
                }));
            }
            _ => {}
        }
        lines
    }

    /// The run is over.
    pub fn end(&self) -> Vec<String> {
        let cut = self.threads.values().any(|place| !place.ended);
        let lines = [cut.then_some("rtapp_main: event=shutdown"), Some("rtapp_main: event=end")];
        if self.wants("main") { lines.into_iter().flatten().map(String::from).collect() } else { Vec::new() }
    }

    fn exit(&mut self, pid: Pid) -> Option<String> {
        let wanted = self.wants("task");
        let place = self.threads.get_mut(&pid)?;
        place.ended = true;
        wanted.then(|| "rtapp_task: event=end".into())
    }

    fn step(&mut self, pid: Pid, op: u32) -> Vec<String> {
        let [task, looped, event] = ["task", "loop", "event"].map(|c| self.wants(c));
        let Some(place) = self.threads.get_mut(&pid) else { return Vec::new() };
        let mut lines = Vec::new();
        if !std::mem::replace(&mut place.started, true) && task {
            lines.push("rtapp_task: event=start".to_string());
        }
        let step = self.tasks.get(&place.task).and_then(|steps| *steps.get(op as usize)?);
        match step {
            Some(Step::Enter) => place.entered = true,
            Some(Step::Begin { phase, again }) => {
                place.begin(op, phase, again);
                lines.extend(looped.then(|| place.line("start")));
            }
            Some(Step::End) => lines.extend(looped.then(|| place.line("end"))),
            Some(Step::Event { id, kind: (number, word) }) if event => {
                lines.push(format!("rtapp_event: id={id} type={number} desc={word}"));
            }
            _ => {}
        }
        lines
    }
}

impl Place {
    fn begin(&mut self, op: u32, phase: u32, again: Option<bool>) {
        let entered = std::mem::take(&mut self.entered);
        match self.at {
            Some((before, _)) if before == op && again.unwrap_or(!entered) => self.phase_loop += 1,
            before => {
                self.phase_loop = 0;
                self.thread_loop += u64::from(before.is_some_and(|(_, last)| phase <= last));
            }
        }
        self.at = Some((op, phase));
    }

    fn line(&self, what: &str) -> String {
        let phase = self.at.map_or(0, |(_, phase)| phase);
        format!(
            "rtapp_loop: event={what} thread_loop={} phase={phase} phase_loop={}",
            self.thread_loop, self.phase_loop
        )
    }
}

/// What each op of a task means. `phases`: how many its file names, 0 where all rounds are those of one phase. A first pass may be
/// written out before the others, so that there can be more beginnings than phases.
fn steps(task: &TaskSpec, phases: u32, workload: &Workload) -> Vec<Option<Step>> {
    let ops = &task.program.ops;
    let (mut begun, mut depth, mut id) = (0, 0, 0);
    let step = |(i, op): (usize, &Op)| match op {
        Op::Loop { .. } => {
            depth += 1;
            (phases == 1 && depth == 2 && !matches!(ops.get(i + 1), Some(Op::Loop { .. }))).then_some(Step::Enter)
        }
        Op::LoopEnd { .. } => {
            depth -= 1;
            None
        }
        Op::PhaseBegin => {
            id = 0;
            begun += 1;
            let again = if phases == 1 { (depth < 2).then_some(false) } else { Some(true) };
            Some(Step::Begin { phase: (begun - 1) % phases.max(1), again })
        }
        Op::PhaseEnd { .. } => Some(Step::End),
        op => kind(op, workload).map(|kind| {
            id += 1;
            Step::Event { id: id - 1, kind }
        }),
    };
    ops.iter().enumerate().map(step).collect()
}

/// rt-app's number of an event, and its word.
fn kind(op: &Op, workload: &Workload) -> Option<(u8, &'static str)> {
    let is_task =
        |c: u32| workload.conds.get(c as usize).is_some_and(|c| workload.tasks.iter().any(|t| t.name == c.name));
    let shared = |t: u32| workload.timers.get(t as usize).is_none_or(|t| t.shared);
    Some(match *op {
        Op::Wait { mutex: Some(_), .. } => (2, "wait"),
        Op::Signal(_) => (3, "signal"),
        Op::Broadcast(c) if !is_task(c) => (4, "broad"),
        Op::Sleep(_) => (5, "sleep"),
        Op::Run(_) => (6, "run"),
        Op::Lock(_) => (8, "lock"),
        Op::Unlock(_) => (9, "unlock"),
        Op::Timer { timer, .. } => (if shared(timer) { 10 } else { 11 }, "timer"),
        Op::Wait { mutex: None, .. } => (12, "suspend"),
        Op::Broadcast(_) => (13, "resume"),
        Op::RunInsensitive(_) => (14, "mem"),
        Op::Spin { .. } => (19, "runtime"),
        Op::Yield => (20, "yield"),
        Op::Barrier(_) => (21, "barrier"),
        Op::Fork(_) => (22, "fork"),
        Op::SemWait(_) => (23, "sem_wait"),
        Op::SemPost(_) => (24, "sem_post"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtapp::{Options, parse};
    use wattif_model::trace::Asked;

    /// The only one of task `a`.
    fn thread() -> ThreadInfo {
        let (pid, comm, task, policy) = (Pid(1), "a-0".into(), "a".into(), "SCHED_OTHER");
        ThreadInfo { pid, comm, task, policy, workload: true, group: 0, dl: None, asked: Asked::default() }
    }

    /// The lines of a thread whose program takes these steps, as the machine does.
    fn lines(task: &str, categories: &str, rounds: usize) -> Vec<String> {
        let text = format!(r#"{{"global": {{"ftrace": "{categories}"}}, "tasks": {{"a": {task}}}}}"#);
        let read = parse(&text, "x", &Options::default());
        assert!(read.diagnostics.is_empty(), "{:?}", read.diagnostics);
        let workload = read.workload.unwrap();
        let mut markers = Markers::of(&workload, &read.logs).expect("lines are asked for");
        markers.thread(&thread());
        let ops = &workload.tasks[0].program.ops;
        let mut left: Vec<u64> = vec![0; ops.len()];
        let (mut pc, mut lines) = (0, Vec::new());
        while pc < ops.len() && lines.len() < rounds {
            lines.extend(markers.event(Ns(0), &Event::ProgramStep { pid: Pid(1), op: pc as u32 }));
            pc = match ops[pc] {
                Op::Loop { count, .. } => {
                    left[pc] = count.unwrap_or(u64::MAX);
                    pc + 1
                }
                Op::LoopEnd { begin } => {
                    left[begin as usize] -= 1;
                    if left[begin as usize] > 0 { begin as usize + 1 } else { pc + 1 }
                }
                _ => pc + 1,
            };
        }
        lines
    }

    /// Thread loop, phase and phase loop of the first iterations.
    fn loops(task: &str) -> Vec<String> {
        let lines = lines(task, "loop", 12).into_iter().filter(|l| l.contains("event=start"));
        let numbers = |l: String| l.split('=').skip(2).map(|w| w.split(' ').next().unwrap().to_string()).collect();
        lines.map(numbers).map(|n: Vec<String>| n.join("")).collect()
    }

    #[test]
    fn loops_of_threads_and_of_phases() {
        assert_eq!(loops(r#"{"run": 1, "loop": 3}"#), ["000", "001", "002"]);
        assert_eq!(loops(r#"{"loop": 3, "phases": {"p": {"run": 1}}}"#), ["000", "100", "200"]);
        assert_eq!(loops(r#"{"loop": 1, "phases": {"p": {"loop": 3, "run": 1}}}"#), ["000", "001", "002"]);
        assert_eq!(loops(r#"{"loop": 2, "phases": {"p": {"loop": 2, "run": 1}}}"#), ["000", "001", "100", "101"]);
        let two = r#"{"loop": 2, "phases": {"p": {"loop": 2, "run": 1}, "q": {"run": 1}}}"#;
        assert_eq!(loops(two), ["000", "001", "010", "100", "101", "110"]);
        // The first pass has other attributes than the second and is written out.
        let first = r#"{"loop": 2, "phases": {"p": {"util_min": 5, "run": 1}, "q": {"priority": 3, "run": 1}}}"#;
        assert_eq!(loops(first), ["000", "010", "100", "110"]);
    }

    #[test]
    fn events_have_their_place_and_number() {
        let task = r#"{"loop": 1, "run": 1, "timer": {"ref": "unique", "period": 9}, "lock": "m", "unlock": "m"}"#;
        let expect =
            ["id=0 type=6 desc=run", "id=1 type=11 desc=timer", "id=2 type=8 desc=lock", "id=3 type=9 desc=unlock"];
        assert_eq!(lines(task, "event", 9), expect.map(|e| format!("rtapp_event: {e}")));
        let lines = lines(r#"{"loop": 1, "sleep": 1}"#, "main,task", 9);
        assert_eq!(lines, ["rtapp_main: event=start", "rtapp_main: event=clock_ref data=0", "rtapp_task: event=start"]);
    }

    #[test]
    fn figures_are_in_us() {
        let workload = Workload { tasks: vec![TaskSpec::new("a", vec![])], ..Workload::default() };
        let logs = Logs { ftrace: vec!["stats".into()], ..Logs::default() };
        let mut markers = Markers::of(&workload, &logs).unwrap();
        markers.thread(&thread());
        let (wu_lat_ns, run_ns, period_ns, slack_ns) = (5_000, 1_000_000, 9_000_999, -7_500);
        markers.event(Ns(0), &Event::RtappStats { pid: Pid(1), wu_lat_ns, run_ns, period_ns, slack_ns });
        let configured = Event::RtappConfigured { pid: Pid(1), c_duration_us: 1_000, c_period_us: 8_000 };
        let line = "rtapp_stats: period=9000 run=1000 wu_lat=5 slack=-7 c_period=8000 c_run=1000";
        assert_eq!(markers.event(Ns(0), &configured), [line]);
        assert!(Markers::of(&workload, &Logs::default()).is_none() && markers.end().is_empty());
    }
}
