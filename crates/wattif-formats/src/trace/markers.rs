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
//! There is no thread `rt-app`: its lines are those of whoever runs on the first CPU then.

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
        /// rt-app's number of it.
        kind: u8,
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
        let kinds = logs.kinds.iter().map(Vec::as_slice).chain(std::iter::repeat(&[][..]));
        let tasks = workload.tasks.iter().zip(phases).zip(kinds);
        let tasks = tasks.map(|((t, n), kinds)| (t.name.clone(), steps(t, n, kinds))).collect();
        let asked = logs.ftrace.clone();
        (!asked.is_empty()).then_some(Markers { asked, tasks, threads: BTreeMap::new(), begun: false })
    }

    fn wants(&self, category: &str) -> bool {
        self.asked.iter().any(|c| c == category)
    }

    /// What it must hear of.
    pub fn interest(&self) -> Interest {
        let steps = ["loop", "event"].iter().any(|c| self.wants(c));
        let interest = Interest::PROGRAM.and(Interest::SCHED);
        if steps { interest.and(Interest::STEPS) } else { interest }
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

    /// The line behind this event: a thread that runs for the first time begins, before its delay.
    pub fn behind(&mut self, event: &Event) -> Option<String> {
        let Event::SchedSwitch { next_pid, .. } = event else { return None };
        let place = self.threads.get_mut(next_pid).filter(|place| !place.started)?;
        place.started = true;
        self.wants("task").then(|| "rtapp_task: event=start".into())
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
        let [looped, event] = ["loop", "event"].map(|c| self.wants(c));
        let Some(place) = self.threads.get_mut(&pid) else { return Vec::new() };
        let mut lines = Vec::new();
        let step = self.tasks.get(&place.task).and_then(|steps| *steps.get(op as usize)?);
        match step {
            Some(Step::Enter) => place.entered = true,
            Some(Step::Begin { phase, again }) => {
                place.begin(op, phase, again);
                lines.extend(looped.then(|| place.line("start")));
            }
            Some(Step::End) => lines.extend(looped.then(|| place.line("end"))),
            Some(Step::Event { id, kind }) if event => {
                lines.push(format!("rtapp_event: id={id} type={kind} desc={}", word(kind)));
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

/// What each op of a task means. `phases`: how many its file names, 0 where all rounds are those of one phase; `kinds`: the numbers
/// of their events. A first pass may be written out before the others, so that there can be more beginnings than phases.
fn steps(task: &TaskSpec, phases: u32, kinds: &[Vec<u8>]) -> Vec<Option<Step>> {
    let ops = &task.program.ops;
    let (mut begun, mut depth, mut id) = (0, 0, 0);
    let mut left = [].iter();
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
            let phase = begun % phases.max(1);
            (begun, id) = (begun + 1, 0);
            left = kinds.get(phase as usize).map_or(&[][..], Vec::as_slice).iter();
            let again = if phases == 1 { (depth < 2).then_some(false) } else { Some(true) };
            Some(Step::Begin { phase, again })
        }
        Op::PhaseEnd { .. } => Some(Step::End),
        _ => left.next().filter(|&&kind| kind != 0).map(|&kind| {
            id += 1;
            Step::Event { id: id - 1, kind }
        }),
    };
    ops.iter().enumerate().map(step).collect()
}

/// The word of rt-app's number of an event.
fn word(kind: u8) -> &'static str {
    const WORDS: [&str; 24] = [
        "mutex", "wait", "signal", "broad", "sleep", "run", "sync", "lock", "unlock", "timer", "timer", "suspend",
        "resume", "mem", "memrun", "memrun", "memrun", "iorun", "runtime", "yield", "barrier", "fork", "sem_wait",
        "sem_post",
    ];
    usize::from(kind).checked_sub(1).and_then(|at| WORDS.get(at)).copied().unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtapp::{Options, parse};
    use wattif_model::trace::{Asked, PrevState};

    /// The only one of task `a`.
    fn thread() -> ThreadInfo {
        let (pid, comm, task, policy) = (Pid(1), "a-0".into(), "a".into(), "SCHED_OTHER");
        let asked = Asked::default();
        ThreadInfo { pid, comm, task, policy, workload: true, group: 0, dl: None, asked, cpus: None }
    }

    /// Of a task `a` that does nothing; no category, no lines.
    fn idle(category: &str) -> Option<Markers> {
        let workload = Workload { tasks: vec![TaskSpec::new("a", vec![])], ..Workload::default() };
        let ftrace = Some(category).filter(|c| !c.is_empty()).map(String::from).into_iter().collect();
        Markers::of(&workload, &Logs { ftrace, ..Logs::default() })
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
        // A sync is two ops and one event; what touches memory is one op, of several kinds.
        let chase = r#"{"type": "chase", "size": 4096, "count": 9}"#;
        let task = format!(
            r#"{{"loop": 1, "phases": {{"p": {{"lock": "m", "sync": {{"ref": "c", "mutex": "m"}}, "unlock": "m"}},
            "q": {{"loop": 2, "mem": 9, "memrun": {chase}, "iorun": 9}}}}}}"#
        );
        let mut expect = vec!["id=0 type=8 desc=lock", "id=1 type=7 desc=sync", "id=2 type=9 desc=unlock"];
        let memory = ["id=0 type=14 desc=mem", "id=1 type=17 desc=memrun", "id=2 type=18 desc=iorun"];
        expect.extend(memory.iter().chain(&memory));
        assert_eq!(lines(&task, "event", 19), expect.iter().map(|e| format!("rtapp_event: {e}")).collect::<Vec<_>>());
        let lines = lines(r#"{"loop": 1, "sleep": 1}"#, "main,task", 9);
        assert_eq!(lines, ["rtapp_main: event=start", "rtapp_main: event=clock_ref data=0"]);
    }

    #[test]
    fn a_thread_begins_when_it_runs_first() {
        let mut markers = idle("task").unwrap();
        markers.thread(&thread());
        let switch = |next_pid| Event::SchedSwitch {
            prev_pid: Pid(0),
            prev_prio: 120,
            prev_state: PrevState::Running,
            next_pid,
            next_prio: 120,
        };
        let begun: Vec<_> = [Pid(2), Pid(1), Pid(1)].map(|pid| markers.behind(&switch(pid)).is_some()).into();
        assert_eq!(begun, [false, true, false], "before its first step, and once");
    }

    #[test]
    fn figures_are_in_us() {
        let mut markers = idle("stats").unwrap();
        markers.thread(&thread());
        let (wu_lat_ns, run_ns, period_ns, slack_ns) = (5_000, 1_000_000, 9_000_999, -7_500);
        markers.event(Ns(0), &Event::RtappStats { pid: Pid(1), wu_lat_ns, run_ns, period_ns, slack_ns });
        let configured = Event::RtappConfigured { pid: Pid(1), c_duration_us: 1_000, c_period_us: 8_000 };
        let line = "rtapp_stats: period=9000 run=1000 wu_lat=5 slack=-7 c_period=8000 c_run=1000";
        assert_eq!(markers.event(Ns(0), &configured), [line]);
        assert!(idle("").is_none() && markers.end().is_empty());
    }
}
