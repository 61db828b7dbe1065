//! Phases: events between the marks of an iteration, loops around them, attributes at the start of each.
//!
//! A phase that names, say, only `priority` takes the policy that its thread has when it comes to the phase first, and keeps
//! it in every later pass ([`Keys::settle`]). What a phase does not name at all (a slice; the policy where it names only
//! clamps) stays as the phase before it left it, and from the second pass on the first phase follows the last one. So the
//! attributes of the first pass can differ from those of all later ones (which are equal: a pass sets or keeps each
//! attribute, whatever it began with); then the first pass is written out separately. Groups and clamps stay by themselves.

use super::events::{Events, LONG, Passes, lint_loop};
use super::json::{Member, Span};
use super::keys;
use super::sched::Keys;
use super::tasks::{Context, Task};
use super::values;
use crate::words::quoted;
use wattif_model::CpuSet;
use wattif_model::workload::{Amount, Op, Policy, Program, SchedAttr};

/// A phase, read.
#[derive(Debug)]
struct Phase {
    /// Times per pass; `None`: for ever.
    count: Option<u64>,
    keys: Keys,
    cpus: Option<CpuSet>,
    group: Option<u32>,
    events: Events,
    span: Span,
}

/// What phases inherit from each other.
#[derive(Clone, PartialEq)]
pub(super) struct State {
    pub attr: SchedAttr,
    pub group: u32,
}

impl Context<'_> {
    /// The task object itself is the only phase; its attributes are those of the thread.
    pub(super) fn single(&mut self, task: &Task<'_>, state: &State) -> Program {
        let count = self.count(task.members, None);
        self.phases.push(0);
        let mut events = self.events(task, task.members);
        self.kinds.push(vec![std::mem::take(&mut events.kinds)]);
        self.lint_events(&events, task.name, &task.name_span);
        lint_loop(events.passes, count, &task.name_span, &mut self.report);
        let (keys, span) = (Keys::default(), task.name_span.clone());
        let phase = Phase { count, keys, cpus: None, group: None, events, span };
        let mut ops = Vec::new();
        emit(&mut ops, &phase, &[]);
        if count.is_some() {
            end(&mut ops, state);
        }
        Program { ops }
    }

    /// `loop` of a phase: 0 or less is never reached, so it goes on for ever.
    fn count(&mut self, members: &[Member], default: Option<u64>) -> Option<u64> {
        let Some(m) = values::find(members, "loop") else { return default };
        let n = values::int(m, i32::MIN as i64..=i32::MAX as i64, &mut self.report)?;
        if n == 0 {
            let message = "loop 0 of a phase is never reached: it repeats for ever";
            self.report.warning("rtapp::W07", m.name_span.clone(), message);
        }
        u64::try_from(n).ok().filter(|n| *n > 0)
    }

    fn lint_events(&mut self, events: &Events, name: &str, span: &Span) {
        if events.count == 0 {
            self.report.error("rtapp::E07", span.clone(), format!("no events found in {}", quoted(name)));
        }
    }

    /// The phases of a task, repeated as its `loop` says.
    pub(super) fn phases(&mut self, task: &Task<'_>, node: &Member, start: State, cpus: Option<CpuSet>) -> Program {
        let members = values::object("phases", &node.value, &mut self.report);
        if members.is_empty() {
            self.report.error("rtapp::E07", node.name_span.clone(), "a task needs at least one phase");
        }
        let count = self.passes(task);
        self.phases.push(if members.len() == 1 && count == Some(1) { 0 } else { members.len() as u32 });
        let (mut attr, mut group) = (start.attr, Context::names_group(task.members));
        let mut phases: Vec<Phase> = members.iter().map(|m| self.phase(task, m, &mut attr, &mut group)).collect();
        self.kinds.push(phases.iter_mut().map(|p| std::mem::take(&mut p.events.kinds)).collect());
        self.lint_phases(task, &phases, count);
        if count.is_none_or(|n| n > 1) && phases.iter().all(|p| p.count.is_some()) {
            self.second_pass(&phases, start.attr, attr);
        }
        program(&phases, count, start, cpus)
    }

    /// `loop` of a task with phases: 0 means that it does nothing.
    fn passes(&mut self, task: &Task<'_>) -> Option<u64> {
        let m = values::find(task.members, "loop")?;
        let n = values::int(m, i32::MIN as i64..=i32::MAX as i64, &mut self.report)?;
        if n == 0 {
            let message = "loop 0 of a task with phases: its threads do nothing";
            self.report.warning("rtapp::W07", m.name_span.clone(), message);
        }
        u64::try_from(n).ok()
    }

    /// `attr`, `in_group`: what the thread has, and has been put into, by then.
    fn phase<'m>(
        &mut self,
        task: &Task<'_>,
        m: &'m Member,
        attr: &mut SchedAttr,
        in_group: &mut Option<&'m str>,
    ) -> Phase {
        let members = values::object(&m.name, &m.value, &mut self.report);
        self.phase_keys(members);
        let mut keys = Keys::read(members, None, &mut self.report);
        *attr = keys.apply(*attr);
        keys.settle(attr);
        keys.validate(attr, "", &mut self.report);
        keys.lint_unused(attr, &mut self.report);
        let (cpus, group) = (self.cpus(members), self.group(members, attr));
        match Context::names_group(members) {
            Some(named) => *in_group = Some(named),
            None => in_group.iter().for_each(|path| self.lint_grouped(&keys, path)),
        }
        let count = self.count(members, Some(1));
        let events = self.events(task, members);
        self.lint_events(&events, &m.name, &m.name_span);
        Phase { count, keys, cpus, group, events, span: m.name_span.clone() }
    }

    /// A phase can inherit from the last one what it cannot have: refused as in the first pass.
    fn second_pass(&mut self, phases: &[Phase], mut first: SchedAttr, mut later: SchedAttr) {
        for Phase { keys, .. } in phases {
            (first, later) = (keys.apply(first), keys.apply(later));
            if first != later {
                keys.validate(&later, "from the second pass on, ", &mut self.report);
            }
        }
    }

    fn phase_keys(&mut self, members: &[Member]) {
        for m in members.iter().filter(|m| keys::event(&m.name).is_none()) {
            let name = m.name.as_str();
            match name {
                "nodes_membind" => self.membind(m),
                _ if keys::PHASE.contains(&name) || keys::SCHED.contains(&name) => {}
                _ if keys::TASK.contains(&name) => {
                    let message = format!("{} has no effect in a phase, only in the task", quoted(name));
                    self.report.warning("rtapp::W06", m.name_span.clone(), message);
                }
                _ => keys::unknown(m, &[keys::PHASE, keys::SCHED], true, &mut self.report),
            }
        }
    }

    fn lint_phases(&mut self, task: &Task<'_>, phases: &[Phase], count: Option<u64>) {
        for phase in phases.iter().filter(|p| p.events.count > 0) {
            let (passes, count) = (phase.events.passes, phase.count);
            lint_loop(passes, count, &phase.span, &mut self.report);
        }
        let passes = phases.iter().map(|p| p.events.passes).max().unwrap_or(Passes::Time);
        if !self.report.has_errors() {
            lint_loop(passes, rounds(phases, count), &task.name_span, &mut self.report);
        }
        let endless = phases.iter().position(|p| p.count.is_none());
        if let Some(unreached) = endless.and_then(|at| phases.get(at + 1)) {
            let message = "this phase is never reached: the one before repeats for ever";
            self.report.warning("rtapp::W15", unreached.span.clone(), message);
        }
    }
}

/// Rounds of all phases in all passes, to warn of those that pass no time: a long phase has its own warning.
fn rounds(phases: &[Phase], passes: Option<u64>) -> Option<u64> {
    let of_pass: u64 = phases.iter().filter_map(|p| p.count).filter(|n| *n <= LONG).sum();
    passes.map(|n| n.saturating_mul(of_pass))
}

fn program(phases: &[Phase], count: Option<u64>, start: State, cpus: Option<CpuSet>) -> Program {
    let mut state = start.clone();
    let first = attributes(phases, &mut state, &cpus);
    let later = attributes(phases, &mut state, &cpus);
    let mut ops = Vec::new();
    let mut rest = count;
    if first != later && count != Some(0) {
        emit_all(&mut ops, phases, &first);
        rest = count.map(|n| n - 1);
    }
    if rest != Some(0) {
        repeat(&mut ops, rest, |ops| emit_all(ops, phases, &later));
    }
    if count.is_some() && phases.iter().all(|p| p.count.is_some()) {
        end(&mut ops, if count == Some(0) { &start } else { &state });
    }
    Program { ops }
}

/// A thread of rt-app goes back to SCHED_OTHER and to the root group before it ends, so that a real-time thread lets others run.
fn end(ops: &mut Vec<Op>, state: &State) {
    let State { attr, group } = state;
    if attr.policy != Policy::Normal {
        let nice = if attr.policy.is_fair() { attr.nice } else { 0 };
        ops.push(Op::SetAttr(SchedAttr { nice, ..SchedAttr::default() }));
    }
    if *group != 0 {
        ops.push(Op::SetGroup(0));
    }
}

/// The ops that set each phase's attributes in one pass.
fn attributes(phases: &[Phase], state: &mut State, task_cpus: &Option<CpuSet>) -> Vec<Vec<Op>> {
    // Without a set of its own a phase goes back to the task's: rt-app looks at phase, then task, then what it inherited.
    let affinity = phases.iter().any(|p| p.cpus.is_some());
    let of = |phase: &Phase| {
        let mut ops = Vec::new();
        if affinity {
            ops.push(Op::SetAffinity(phase.cpus.clone().or_else(|| task_cpus.clone())));
        }
        if phase.keys.span.is_some() {
            state.attr = phase.keys.apply(state.attr);
            // A clamp that is not named stays: said of each pass, it would differ between the first and the others.
            let Keys { util_min, util_max, .. } = phase.keys;
            let [util_min, util_max] =
                [util_min, util_max].map(|u| u.filter(|_| state.attr.policy != Policy::Deadline));
            ops.push(Op::SetAttr(SchedAttr { util_min, util_max, ..state.attr }));
        }
        if let Some(group) = phase.group {
            state.group = group;
            ops.push(Op::SetGroup(group));
        }
        ops
    };
    phases.iter().map(of).collect()
}

fn emit_all(ops: &mut Vec<Op>, phases: &[Phase], attributes: &[Vec<Op>]) {
    for (phase, attributes) in phases.iter().zip(attributes) {
        emit(ops, phase, attributes);
    }
}

/// One phase: its loop, and in every iteration first the attributes, then the events between the marks.
fn emit(ops: &mut Vec<Op>, phase: &Phase, attributes: &[Op]) {
    repeat(ops, phase.count, |ops| {
        ops.extend_from_slice(attributes);
        ops.push(Op::PhaseBegin);
        ops.extend_from_slice(&phase.events.ops);
        ops.push(configured(&phase.events.ops));
    });
}

/// The end of a phase, with what its log line says was configured.
fn configured(ops: &[Op]) -> Op {
    let (mut c_duration_us, mut c_period_us) = (0, 0);
    for op in ops {
        match op {
            Op::Run(Amount::Fixed(ns)) | Op::Spin { wall: Amount::Fixed(ns), .. } => c_duration_us += ns / 1000,
            Op::Timer { period: Amount::Fixed(ns), .. } => c_period_us += ns / 1000,
            _ => {}
        }
    }
    Op::PhaseEnd { c_duration_us, c_period_us }
}

fn repeat(ops: &mut Vec<Op>, count: Option<u64>, body: impl FnOnce(&mut Vec<Op>)) {
    if count == Some(1) {
        return body(ops);
    }
    let begin = ops.len();
    ops.push(Op::Loop { count, end: 0 });
    body(ops);
    ops[begin] = Op::Loop { count, end: ops.len() as u32 };
    ops.push(Op::LoopEnd { begin: begin as u32 });
}
