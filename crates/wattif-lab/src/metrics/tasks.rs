//! Who ran, how long, how often, and how much did it move?

use super::pids::PidTable;
use wattif_model::trace::{Event, Interest, Observer, ThreadInfo};
use wattif_model::workload::{Op, TaskSpec};
use wattif_model::{CpuId, Ns, Pid};

/// Totals of one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskTotals {
    /// Who it is.
    pub info: ThreadInfo,
    /// Time on a CPU, ns.
    pub runtime_ns: u64,
    /// Wake-ups, the one after creation included.
    pub activations: u64,
    /// Moves to another CPU.
    pub migrations: u64,
    /// It ran with a fair, and with a real-time or deadline thread's priority.
    pub ran_as: [bool; 2],
}

impl TaskTotals {
    /// Of the policies that its program names, those with which it ran.
    pub fn had(&self, policies: &str) -> String {
        let fair = |name: &str| ["SCHED_OTHER", "SCHED_BATCH", "SCHED_IDLE"].contains(&name);
        let had = |name: &&str| self.ran_as[usize::from(!fair(name))];
        policies.split(", ").filter(had).collect::<Vec<_>>().join(", ")
    }
}

/// The policies under which a task's program does something, in order: `SCHED_OTHER, SCHED_FIFO`.
pub(super) fn policies(task: &TaskSpec) -> String {
    let (mut now, mut names) = (task.attr.policy.name(), Vec::new());
    for op in &task.program.ops {
        match op {
            Op::SetAttr(attr) => now = attr.policy.name(),
            Op::Loop { .. } | Op::SetAffinity(_) | Op::SetGroup(_) => {}
            _ if names.contains(&now) => {}
            _ => names.push(now),
        }
    }
    names.join(", ")
}

#[derive(Clone, Copy, Debug)]
struct OnCpu {
    /// Who runs since `since`; `None` until the first switch names the one that ran from the beginning.
    pid: Option<Pid>,
    since: Ns,
}

/// Listens to switches, wake-ups and migrations.
#[derive(Clone, Debug)]
pub struct Tasks {
    threads: PidTable<TaskTotals>,
    on_cpu: Vec<OnCpu>,
    slices: u64,
    migrations: u64,
}

impl Tasks {
    /// For a machine of so many CPUs.
    pub fn new(nr_cpus: usize) -> Tasks {
        let idle = OnCpu { pid: None, since: Ns::ZERO };
        Tasks { threads: PidTable::default(), on_cpu: vec![idle; nr_cpus], slices: 0, migrations: 0 }
    }
    /// Switches to a thread (not to idle).
    pub fn slices(&self) -> u64 {
        self.slices
    }
    /// Moves of any thread.
    pub fn migrations(&self) -> u64 {
        self.migrations
    }
    /// All threads in order of creation.
    pub fn threads(&self) -> impl Iterator<Item = &TaskTotals> {
        self.threads.iter().map(|(_, t)| t)
    }

    fn switched(&mut self, at: Ns, cpu: CpuId, prev: Pid, next: Pid) {
        self.slices += u64::from(next.0 != 0);
        let Some(slot) = self.on_cpu.get_mut(cpu.at()) else { return };
        let since = std::mem::replace(slot, OnCpu { pid: Some(next), since: at }).since;
        self.ran(prev, at.since(since));
    }
    fn ran(&mut self, pid: Pid, ns: u64) {
        if let Some(thread) = self.threads.get_mut(pid) {
            thread.runtime_ns += ns;
        }
    }
}

impl Observer for Tasks {
    fn interest(&self) -> Interest {
        Interest::SCHED
    }
    fn thread(&mut self, thread: &ThreadInfo) {
        let new =
            || TaskTotals { info: thread.clone(), runtime_ns: 0, activations: 0, migrations: 0, ran_as: [false; 2] };
        self.threads.entry(thread.pid, new).info.clone_from(thread);
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        match *event {
            Event::SchedSwitch { prev_pid, next_pid, next_prio, .. } => {
                self.switched(at, cpu, prev_pid, next_pid);
                self.threads.get_mut(next_pid).into_iter().for_each(|t| t.ran_as[usize::from(next_prio < 100)] = true);
            }
            Event::SchedWakeup { pid, .. } | Event::SchedWakeupNew { pid, .. } => {
                self.threads.get_mut(pid).into_iter().for_each(|t| t.activations += 1);
            }
            Event::SchedMigrateTask { pid, .. } => {
                self.migrations += 1;
                self.threads.get_mut(pid).into_iter().for_each(|t| t.migrations += 1);
            }
            _ => {}
        }
    }
    /// Whoever is on a CPU ran until the end.
    fn finish(&mut self, end: Ns) {
        for cpu in 0..self.on_cpu.len() {
            let OnCpu { pid, since } = self.on_cpu[cpu];
            self.on_cpu[cpu].since = end;
            self.ran(pid.unwrap_or_default(), end.since(since));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::*;
    use super::*;
    use wattif_model::trace::PrevState::*;
    use wattif_model::workload::{Amount, Policy, SchedAttr};

    #[test]
    fn runtime_counts() {
        let mut t = Tasks::new(2);
        t.thread(&thread(1, "a"));
        t.thread(&thread(2, "b"));
        let moved = Event::SchedMigrateTask { pid: Pid(1), prio: 120, orig_cpu: CpuId(0), dest_cpu: CpuId(1) };
        play(
            &mut t,
            &[
                (10, 0, wakeup(1)),
                (20, 0, switch(0, 1, Running)),
                (50, 0, switch(1, 2, Running)),
                (50, 1, moved),
                (60, 1, switch(0, 1, Running)),
                (90, 0, switch(2, 0, Sleeping)),
            ],
        );
        t.finish(Ns(100));
        let totals: Vec<_> = t.threads().map(|t| (t.runtime_ns, t.activations, t.migrations)).collect();
        assert_eq!(totals, [(70, 1, 1), (40, 0, 0)]);
        assert_eq!((t.slices(), t.migrations()), (3, 1));
    }

    #[test]
    fn a_program_may_change_its_policy() {
        let run = || Op::Run(Amount::Fixed(1));
        let set = |policy| Op::SetAttr(SchedAttr { policy, ..SchedAttr::default() });
        let of = |ops: &[Op]| policies(&TaskSpec::new("a", ops.to_vec()));
        assert_eq!(of(&[run()]), "SCHED_OTHER");
        assert_eq!(of(&[run(), set(Policy::Fifo), run(), set(Policy::Normal), run()]), "SCHED_OTHER, SCHED_FIFO");
        assert_eq!(of(&[Op::Loop { count: None, end: 9 }, set(Policy::Fifo), Op::PhaseBegin, run()]), "SCHED_FIFO");
    }

    #[test]
    fn a_trace_may_begin_while_a_thread_runs() {
        let mut t = Tasks::new(1);
        t.thread(&thread(5, "a"));
        play(&mut t, &[(30, 0, switch(5, 0, Sleeping)), (31, 7, switch(5, 0, Sleeping))]);
        t.finish(Ns(100));
        assert_eq!(t.threads().next().unwrap().runtime_ns, 30, "a CPU that does not exist is ignored");
    }
}
