//! Who ran, how long, how often, and how much did it move?

use super::pids::PidTable;
use wattif_model::trace::{Event, Interest, Observer, PrevState, ThreadInfo};
use wattif_model::{CpuId, Ns, Pid};

/// Totals of one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskTotals {
    /// Who it is.
    pub info: ThreadInfo,
    /// Time on a CPU, ns.
    pub runtime_ns: u64,
    /// Wake-ups, the one after creation included; those of a thread that runs and does not sleep are none.
    pub activations: u64,
    /// Moves to another CPU.
    pub migrations: u64,
}

#[derive(Clone, Debug)]
struct Thread {
    totals: TaskTotals,
    on_cpu: bool,
    /// Woken while it ran: counts where it then sleeps and nothing else wakes it.
    early: bool,
    /// It left its CPU and could run on.
    queued: bool,
    /// It was on no CPU then: when it left its last, or was woken.
    off: Ns,
}

#[derive(Clone, Copy, Debug)]
struct OnCpu {
    /// Who runs since `since`.
    pid: Pid,
    since: Ns,
}

/// Listens to switches, wake-ups and migrations.
#[derive(Clone, Debug)]
pub struct Tasks {
    threads: PidTable<Thread>,
    on_cpu: Vec<OnCpu>,
    slices: u64,
    migrations: u64,
}

impl Tasks {
    /// For a machine of so many CPUs.
    pub fn new(nr_cpus: usize) -> Tasks {
        let idle = OnCpu { pid: Pid(0), since: Ns::ZERO };
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
        self.threads.iter().map(|(_, t)| &t.totals)
    }

    fn switched(&mut self, at: Ns, cpu: CpuId, prev: Pid, state: PrevState, next: Pid) {
        self.slices += u64::from(next.0 != 0);
        let slot = self.on_cpu.get_mut(cpu.at());
        let since = slot.map(|slot| std::mem::replace(slot, OnCpu { pid: next, since: at }).since);
        if let Some(thread) = self.threads.get_mut(prev) {
            // Where the trace lost how it came, it was not there before that.
            thread.totals.runtime_ns += since.map_or(0, |since| at.since(since.max(thread.off)));
            (thread.on_cpu, thread.off, thread.queued) = (false, at, !state.sleeps());
            thread.early &= state.sleeps();
        }
        self.came(next);
    }
    fn ran(&mut self, pid: Pid, ns: u64) {
        if let Some(thread) = self.threads.get_mut(pid) {
            thread.totals.runtime_ns += ns;
        }
    }
    fn came(&mut self, pid: Pid) {
        if let Some(thread) = self.threads.get_mut(pid) {
            thread.on_cpu = true;
            thread.totals.activations += u64::from(std::mem::take(&mut thread.early));
        }
    }
    fn woken(&mut self, at: Ns, pid: Pid) {
        if let Some(thread) = self.threads.get_mut(pid) {
            thread.off = if thread.on_cpu { thread.off } else { at };
            // Who could run on is not woken.
            thread.totals.activations += u64::from(!thread.on_cpu && !thread.queued);
            thread.early = thread.on_cpu;
        }
    }
}

impl Observer for Tasks {
    fn interest(&self) -> Interest {
        Interest::SCHED
    }
    fn thread(&mut self, thread: &ThreadInfo) {
        let totals = || TaskTotals { info: thread.clone(), runtime_ns: 0, activations: 0, migrations: 0 };
        let new = || Thread { totals: totals(), on_cpu: false, early: false, queued: false, off: Ns::ZERO };
        self.threads.entry(thread.pid, new).totals.info.clone_from(thread);
    }
    /// It came before anything was counted.
    fn ran_before(&mut self, cpu: CpuId, pid: Pid) {
        let Some(slot) = self.on_cpu.get_mut(cpu.at()) else { return };
        slot.pid = pid;
        self.came(pid);
    }
    // In [`Metrics::event`], which has looked at the kind of event already.
    #[inline(always)]
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        match *event {
            Event::SchedSwitch { prev_pid, prev_state, next_pid, .. } => {
                self.switched(at, cpu, prev_pid, prev_state, next_pid);
            }
            Event::SchedWakeup { pid, .. } | Event::SchedWakeupNew { pid, .. } => self.woken(at, pid),
            Event::SchedMigrateTask { pid, .. } => {
                self.migrations += 1;
                self.threads.get_mut(pid).into_iter().for_each(|t| t.totals.migrations += 1);
            }
            _ => {}
        }
    }
    /// Whoever is on a CPU ran until the end.
    fn finish(&mut self, end: Ns) {
        for cpu in 0..self.on_cpu.len() {
            let OnCpu { pid, since } = self.on_cpu[cpu];
            self.on_cpu[cpu].since = end;
            self.ran(pid, end.since(since));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::*;
    use super::*;
    use wattif_model::trace::PrevState::*;

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
    fn a_wake_up_is_one_from_sleep() {
        let activations = |events: &[(u64, u32, Event)]| {
            let mut t = Tasks::new(1);
            t.thread(&thread(1, "a"));
            play(&mut t, &[(10, 0, wakeup(1)), (20, 0, switch(0, 1, Running)), (30, 0, wakeup(1))]);
            play(&mut t, events);
            t.threads().next().unwrap().activations
        };
        let (out, back) = (|state| (50, 0, switch(1, 0, state)), (90, 0, switch(0, 1, Running)));
        assert_eq!(activations(&[]), 1, "it ran on");
        assert_eq!(activations(&[out(Running), back]), 1);
        assert_eq!(activations(&[out(Sleeping), back]), 2, "it was on its way out");
        assert_eq!(activations(&[out(Sleeping), (70, 0, wakeup(1)), back]), 2);
        assert_eq!(activations(&[out(Running), (70, 0, wakeup(1)), back]), 1, "it could run on");
    }

    #[test]
    fn a_trace_may_begin_while_a_thread_runs() {
        let mut t = Tasks::new(1);
        t.thread(&thread(5, "a"));
        t.ran_before(CpuId(0), Pid(5));
        play(&mut t, &[(30, 0, switch(5, 0, Sleeping)), (31, 7, switch(5, 0, Sleeping))]);
        t.finish(Ns(100));
        assert_eq!(t.threads().next().unwrap().runtime_ns, 30, "a CPU that does not exist is ignored");
    }

    #[test]
    fn who_ran_before_was_not_woken_and_is_not_a_slice() {
        let mut t = Tasks::new(1);
        t.thread(&thread(1, "a"));
        t.ran_before(CpuId(0), Pid(1));
        t.ran_before(CpuId(7), Pid(1));
        play(&mut t, &[(10, 0, wakeup(1)), (50, 0, switch(1, 0, Running)), (60, 0, switch(0, 1, Running))]);
        t.finish(Ns(100));
        let totals = t.threads().next().unwrap();
        assert_eq!((totals.runtime_ns, totals.activations, t.slices()), (90, 0, 1));
        let mut t = Tasks::new(1);
        t.thread(&thread(1, "a"));
        t.ran_before(CpuId(0), Pid(1));
        t.finish(Ns(100));
        assert_eq!((t.threads().next().unwrap().runtime_ns, t.slices()), (100, 0), "no switch at all");
    }

    #[test]
    fn how_it_came_is_lost() {
        let ran = |events: &[(u64, u32, Event)]| {
            let mut t = Tasks::new(2);
            t.thread(&thread(1, "a"));
            play(&mut t, events);
            t.threads().next().unwrap().runtime_ns
        };
        let leaves = |at, cpu| (at, cpu, switch(1, 0, Sleeping));
        assert_eq!(
            ran(&[leaves(50, 0), (70, 0, wakeup(1)), leaves(80, 1)]),
            60,
            "it was not on both since the beginning"
        );
        assert_eq!(ran(&[leaves(50, 0), leaves(80, 1)]), 80);
        assert_eq!(
            ran(&[(10, 0, switch(0, 1, Running)), (70, 0, wakeup(1)), leaves(80, 0)]),
            70,
            "woken while it runs"
        );
    }
}
