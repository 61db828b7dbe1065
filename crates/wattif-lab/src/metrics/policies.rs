//! Under which policies did a thread run whose program changes its own? Switches say it only of the moments at which it comes and
//! leaves; so the steps of its program are followed.

use super::pids::PidTable;
use std::collections::BTreeMap;
use wattif_model::Pid;
use wattif_model::trace::{Event, ThreadInfo};
use wattif_model::workload::{Op, Policy, TaskSpec};

/// What an op is to a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    /// From here on it is this one.
    Set(Policy),
    /// It takes no time.
    Nothing,
    /// Whoever does it runs under the policy of that moment.
    Something,
}

impl Does {
    fn of(op: &Op) -> Does {
        match op {
            Op::SetAttr(attr) => Does::Set(attr.policy),
            Op::Loop { .. } | Op::SetAffinity(_) | Op::SetGroup(_) => Does::Nothing,
            _ => Does::Something,
        }
    }
}

/// A program that changes its policy.
#[derive(Clone, Debug)]
struct Program {
    first: Policy,
    ops: Vec<Does>,
}

impl Program {
    /// `None`: all that is done is done under the policy the task begins with.
    fn of(task: &TaskSpec) -> Option<Program> {
        let first = task.attr.policy;
        let ops: Vec<Does> = task.program.ops.iter().map(Does::of).collect();
        let mut now = first;
        let mut others = ops.iter().filter(|does| {
            if let Does::Set(policy) = does {
                now = *policy;
            }
            **does == Does::Something && now != first
        });
        others.next().is_some().then_some(Program { first, ops })
    }
}

#[derive(Clone, Debug)]
struct Thread {
    program: usize,
    now: Policy,
    /// In the order in which it did something under them.
    had: Vec<Policy>,
}

/// Listens to the steps of programs.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    programs: Vec<Program>,
    of_task: BTreeMap<String, usize>,
    threads: PidTable<Thread>,
}

impl Policies {
    /// Of the tasks of a workload.
    pub fn new(tasks: &[TaskSpec]) -> Policies {
        let mut all = Policies::default();
        for (task, program) in tasks.iter().filter_map(|t| Some((t, Program::of(t)?))) {
            all.of_task.insert(task.name.clone(), all.programs.len());
            all.programs.push(program);
        }
        all
    }
    /// Is there any program to follow?
    pub fn any(&self) -> bool {
        !self.programs.is_empty()
    }
    /// A thread of the run.
    pub fn thread(&mut self, thread: &ThreadInfo) {
        if let Some(&program) = self.of_task.get(&thread.task).filter(|_| thread.workload) {
            let new = || Thread { program, now: self.programs[program].first, had: Vec::new() };
            self.threads.entry(thread.pid, new);
        }
    }
    /// Looks at [`Event::ProgramStep`].
    pub fn event(&mut self, event: &Event) {
        let Event::ProgramStep { pid, op } = *event else { return };
        let Some(thread) = self.threads.get_mut(pid) else { return };
        match self.programs[thread.program].ops.get(op as usize) {
            Some(Does::Set(policy)) => thread.now = *policy,
            Some(Does::Something) if !thread.had.contains(&thread.now) => thread.had.push(thread.now),
            _ => {}
        }
    }
    /// Those of a thread: `SCHED_OTHER, SCHED_FIFO`; `None` where its program changes nothing or has not begun.
    pub fn of(&self, pid: Pid) -> Option<String> {
        let names = |t: &Thread| t.had.iter().map(|p| p.name()).collect::<Vec<_>>().join(", ");
        self.threads.get(pid).map(names).filter(|names| !names.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::thread;
    use super::*;
    use wattif_model::workload::{Amount, SchedAttr};

    fn run() -> Op {
        Op::Run(Amount::Fixed(1))
    }
    fn set(policy: Policy) -> Op {
        Op::SetAttr(SchedAttr { policy, ..SchedAttr::default() })
    }
    /// What is told of a thread that does these steps of its program.
    #[track_caller]
    fn check(ops: &[Op], steps: &[u32], expect: Option<&str>) {
        let mut p = Policies::new(&[TaskSpec::new("a", ops.to_vec())]);
        p.thread(&thread(1, "a"));
        steps.iter().for_each(|&op| p.event(&Event::ProgramStep { pid: Pid(1), op }));
        assert_eq!(p.of(Pid(1)).as_deref(), expect);
    }

    #[test]
    fn a_program_may_change_its_policy() {
        let (fifo, other) = (set(Policy::Fifo), set(Policy::Normal));
        check(&[run()], &[0], None);
        check(&[run(), other.clone(), run(), other.clone()], &[0, 1, 2, 3], None);
        let both = [run(), fifo.clone(), run(), other.clone(), run()];
        check(&both, &[0, 1, 2, 3, 4], Some("SCHED_OTHER, SCHED_FIFO"));
        check(&both, &[0], Some("SCHED_OTHER"));
        check(&both, &[], None);
    }

    /// It comes and goes as SCHED_OTHER, and is another all the time between.
    #[test]
    fn a_policy_may_begin_and_end_on_a_cpu() {
        let looped = Op::Loop { count: Some(3), end: 5 };
        let ops = [looped, set(Policy::Fifo), Op::PhaseBegin, run(), Op::LoopEnd { begin: 0 }, set(Policy::Normal)];
        check(&ops, &[0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5], Some("SCHED_FIFO"));
        let two = [set(Policy::Fifo), run(), set(Policy::Rr), run(), set(Policy::Normal)];
        check(&two, &[0, 1, 2, 3, 4], Some("SCHED_FIFO, SCHED_RR"));
        check(&two, &[0, 1], Some("SCHED_FIFO"));
    }
}
