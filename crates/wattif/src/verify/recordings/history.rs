//! What a trace says of its threads and CPUs, collected event by event: the raw material of every figure.
//!
//! Fed by a simulation (as an [`Observer`]) or by a [`Recording`]; both go through the same methods, so a figure means the same on
//! both sides. Memory grows with the stints of the threads that are kept, not with the events.

use std::collections::BTreeMap;
use wattif_model::platform::Platform;
use wattif_model::trace::{Event, Interest, Observer, Recorded, Recording, ThreadInfo};
use wattif_model::{CpuId, Ns, Pid};

/// Stamps of two CPUs may differ by one quantum: a wake-up this little before the switch-out belongs behind it, ns.
const EARLY_NS: u64 = 20_000;

/// A thread on a CPU, from switch-in to switch-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stint {
    /// Switch-in, ns.
    pub start: u64,
    /// Switch-out, ns.
    pub end: u64,
    /// Where.
    pub cpu: u32,
    /// First letter of `prev_state`; `?`: still there at the end of the trace.
    pub out: char,
}

impl Stint {
    /// Switched out although it could go on.
    pub fn preempted(&self) -> bool {
        self.out == 'R'
    }
}

/// A wake-up and the switch-in that followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// `sched_waking`, ns.
    pub waking: Option<u64>,
    /// `sched_wakeup`, ns.
    pub wakeup: Option<u64>,
    /// Switch-in, ns.
    pub ran: u64,
}

/// One job by the workload's own log: nominal time, wake-up and end, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// When it was to begin.
    pub nominal: u64,
    /// When the thread read the clock.
    pub woke: u64,
    /// When its work was done.
    pub done: u64,
}

/// A thread.
#[derive(Clone, Debug, Default)]
pub struct Thread {
    /// Name as in the trace.
    pub comm: String,
    /// Task of the workload it is an instance of; empty in a recording.
    pub task: String,
    /// `sched_process_fork`, else its first event.
    pub start: Option<u64>,
    /// `sched_process_exit`.
    pub exit: Option<u64>,
    /// Its last event.
    pub last: Option<u64>,
    /// In order of time.
    pub stints: Vec<Stint>,
    /// In order of the switch-in.
    pub wakes: Vec<Wake>,
    /// `sched_migrate_task`.
    pub migrations: Vec<u64>,
    /// Jobs by the program's log; simulations only.
    pub items: Vec<Item>,
    /// `(time, util_avg, runnable_avg)` where the run tells them.
    pub signals: Vec<(u64, u32, u32)>,
    waking: Option<u64>,
    wakeup: Option<u64>,
    early: Option<u64>,
    running: bool,
    item: Option<(u64, u64)>,
    period: u64,
}

/// An idle state entered, or idle left (`None`).
pub type IdleEvent = (u64, Option<usize>);

/// What one CPU did.
#[derive(Clone, Debug, Default)]
pub struct Cpu {
    /// `cpu_idle`.
    pub idle: Vec<IdleEvent>,
    /// `cpu_idle_miss`: time, state, below.
    pub misses: Vec<(u64, usize, bool)>,
    /// `tick_stop` with success.
    pub tick_stops: Vec<u64>,
    /// Stints of the idle thread.
    pub spells: Vec<(u64, u64)>,
    /// `cpu_frequency`, kHz.
    pub frequency: Vec<(u64, u32)>,
    current: Option<(u32, u64)>,
}

/// A trace, collected.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// By pid.
    pub threads: BTreeMap<u32, Thread>,
    /// By number.
    pub cpus: Vec<Cpu>,
    /// `sched_switch` of all CPUs.
    pub switches: Vec<u64>,
    /// First event, ns.
    pub first: u64,
    /// Last event, ns.
    pub last: u64,
    /// Of a simulation, which says everything.
    pub simulated: bool,
    /// The workload's time zero in a simulation, ns.
    pub zero: u64,
    /// CPUs of each frequency domain; simulations only.
    domains: Vec<Vec<usize>>,
}

/// A `sched_switch`.
#[derive(Clone, Copy, Debug)]
pub struct Switch {
    /// Who leaves; 0: the idle thread.
    pub prev: u32,
    /// First letter of `prev_state`.
    pub state: char,
    /// Who comes.
    pub next: u32,
}

impl History {
    /// Of a recorded trace, by its own clock.
    pub fn of(recording: &Recording) -> History {
        let mut history = History::default();
        for r in &recording.records {
            let at = r.at.0 + recording.zero_ns;
            history.event_of(at, r.current.map_or(0, |pid| pid.0));
            match &r.event {
                Recorded::Event(event) => history.tracepoint(at, r.cpu.at(), event),
                Recorded::CpuFrequency { cpu, khz } => history.frequency(at, cpu.at(), *khz),
                Recorded::Irq { .. } => {}
            }
        }
        for (pid, thread) in &mut history.threads {
            thread.comm = recording.comm(Pid(*pid)).to_string();
        }
        history.close();
        history
    }

    fn cpu(&mut self, cpu: usize) -> &mut Cpu {
        if self.cpus.len() <= cpu {
            self.cpus.resize_with(cpu + 1, Cpu::default);
        }
        &mut self.cpus[cpu]
    }
    /// The thread of this pid, which exists from now on.
    pub fn thread_mut(&mut self, pid: u32) -> &mut Thread {
        self.threads.entry(pid).or_default()
    }
    /// An event of `pid` (who executes on its CPU) at `at`: call it first for each.
    pub fn event_of(&mut self, at: u64, pid: u32) {
        if self.last == 0 && self.first == 0 {
            self.first = at;
        }
        self.last = at;
        if pid != 0 {
            self.thread_mut(pid).last = Some(at);
        }
    }

    /// `sched_switch`.
    pub fn switch(&mut self, at: u64, cpu: usize, s: Switch) {
        self.switches.push(at);
        match self.cpu(cpu).current {
            Some((0, since)) => self.cpu(cpu).spells.push((since, at)),
            Some((pid, start)) if pid == s.prev => {
                let stint = Stint { start, end: at, cpu: cpu as u32, out: s.state };
                let thread = self.thread_mut(pid);
                thread.stints.push(stint);
                thread.last = Some(at);
            }
            _ => {}
        }
        if s.prev != 0 {
            self.leaves(at, s);
        }
        self.cpu(cpu).current = Some((s.next, at));
        if s.next != 0 {
            self.comes(at, s.next);
        }
    }

    fn leaves(&mut self, at: u64, s: Switch) {
        let prev = self.thread_mut(s.prev);
        prev.running = false;
        if let Some(early) = prev.early.take()
            && s.state != 'R'
            && at - early < EARLY_NS
        {
            prev.waking.get_or_insert(early);
        }
    }

    fn comes(&mut self, at: u64, pid: u32) {
        let next = self.thread_mut(pid);
        next.running = true;
        next.start.get_or_insert(at);
        let (waking, wakeup) = (next.waking.take(), next.wakeup.take());
        if waking.is_some() || wakeup.is_some() {
            next.wakes.push(Wake { waking, wakeup, ran: at });
        }
    }

    /// `sched_waking`.
    pub fn waking(&mut self, at: u64, pid: u32) {
        let thread = self.thread_mut(pid);
        if thread.running {
            thread.early = Some(at);
        } else {
            thread.waking.get_or_insert(at);
        }
    }

    /// `sched_wakeup`, and `sched_wakeup_new` with `new`.
    pub fn wakeup(&mut self, at: u64, pid: u32, new: bool) {
        let thread = self.thread_mut(pid);
        if new {
            thread.start.get_or_insert(at);
        } else if !thread.running {
            thread.wakeup.get_or_insert(at);
        }
    }

    /// `sched_migrate_task`.
    pub fn migrate(&mut self, at: u64, pid: u32) {
        self.thread_mut(pid).migrations.push(at);
    }
    /// `sched_process_fork`.
    pub fn fork(&mut self, at: u64, child: u32) {
        self.thread_mut(child).start = Some(at);
    }
    /// `sched_process_exit`.
    pub fn exit(&mut self, at: u64, pid: u32) {
        self.thread_mut(pid).exit = Some(at);
    }
    /// `cpu_frequency`.
    pub fn frequency(&mut self, at: u64, cpu: usize, khz: u32) {
        self.cpu(cpu).frequency.push((at, khz));
    }
    /// `cpu_idle`.
    pub fn idle(&mut self, at: u64, cpu: usize, state: u32) {
        let state = (state != Event::IDLE_EXIT).then_some(state as usize);
        self.cpu(cpu).idle.push((at, state));
    }
    /// `cpu_idle_miss`.
    pub fn idle_miss(&mut self, at: u64, cpu: usize, state: u32, below: bool) {
        self.cpu(cpu).misses.push((at, state as usize, below));
    }
    /// `tick_stop` with success.
    pub fn tick_stop(&mut self, at: u64, cpu: usize) {
        self.cpu(cpu).tick_stops.push(at);
    }

    /// An event that says the same in a run and in a recording.
    fn tracepoint(&mut self, at: u64, on: usize, event: &Event) {
        match *event {
            Event::SchedSwitch { prev_pid, prev_state, next_pid, .. } => {
                let s = Switch { prev: prev_pid.0, state: prev_state.letter(), next: next_pid.0 };
                self.switch(at, on, s);
            }
            Event::SchedWaking { pid, .. } => self.waking(at, pid.0),
            Event::SchedWakeup { pid, .. } => self.wakeup(at, pid.0, false),
            Event::SchedWakeupNew { pid, .. } => self.wakeup(at, pid.0, true),
            Event::SchedMigrateTask { pid, .. } => self.migrate(at, pid.0),
            Event::SchedProcessFork { child_pid, .. } => self.fork(at, child_pid.0),
            Event::SchedProcessExit { pid: Pid(pid), .. } => self.exit(at, pid),
            Event::CpuIdle { state } => self.idle(at, on, state),
            Event::CpuIdleMiss { state, below } => self.idle_miss(at, on, state, below),
            Event::TickStop => self.tick_stop(at, on),
            _ => {}
        }
    }

    /// The trace is over: stints that are still open end here.
    pub fn close(&mut self) {
        let last = self.last;
        for cpu in 0..self.cpus.len() {
            if let Some((pid, start)) = self.cpus[cpu].current.filter(|(pid, _)| *pid != 0) {
                self.thread_mut(pid).stints.push(Stint { start, end: last, cpu: cpu as u32, out: '?' });
            }
        }
        for thread in self.threads.values_mut() {
            thread.stints.sort_unstable();
            let first = thread.stints.first().map_or(self.first, |s| s.start);
            thread.start.get_or_insert(first);
        }
    }
}

impl Thread {
    /// Its first moment; [`History::close`] has been called.
    pub fn started(&self) -> u64 {
        self.start.unwrap_or(0)
    }
    /// `sched_process_exit`, else its last event, else the end of the trace.
    pub fn ended(&self, end_of_trace: u64) -> u64 {
        self.exit.or(self.last).unwrap_or(end_of_trace)
    }

    fn timer_wake(&mut self, at: u64, wu_lat_ns: u64, missed: bool) {
        let nominal = match self.item {
            Some((nominal, _)) if missed => nominal + self.period,
            _ => at - wu_lat_ns,
        };
        self.item = Some((nominal, at));
    }
    fn item_done(&mut self, at: u64) {
        if let Some((nominal, woke)) = self.item {
            self.items.push(Item { nominal, woke, done: at });
        }
    }
}

impl Observer for History {
    fn interest(&self) -> Interest {
        let told = Interest::SCHED.and(Interest::IDLE).and(Interest::FREQ);
        told.and(Interest::PROGRAM).and(Interest::SIGNALS)
    }
    fn start(&mut self, platform: &Platform) {
        self.simulated = true;
        self.domains = platform.domains.iter().map(|d| d.cpus.iter().map(|c| c.at()).collect()).collect();
        for cpu in 0..platform.nr_cpus() {
            self.cpu(cpu).current = Some((0, 0));
        }
    }
    fn thread(&mut self, info: &ThreadInfo) {
        let thread = self.thread_mut(info.pid.0);
        thread.comm.clone_from(&info.comm);
        if info.workload {
            thread.task.clone_from(&info.task);
        }
    }
    fn event(&mut self, Ns(at): Ns, cpu: CpuId, event: &Event) {
        let (on, executes) = (cpu.at(), self.cpus[cpu.at()].current.map_or(0, |(pid, _)| pid));
        match *event {
            Event::RtappConfigured { pid, c_period_us, .. } => {
                return self.thread_mut(pid.0).period = c_period_us * 1000;
            }
            Event::TimerWake { pid, wu_lat_ns, missed } => {
                return self.thread_mut(pid.0).timer_wake(at, wu_lat_ns, missed);
            }
            Event::RtappStats { pid, .. } => return self.thread_mut(pid.0).item_done(at),
            Event::PeltSe { pid, util_avg, runnable_avg, .. } => {
                return self.thread_mut(pid.0).signals.push((at, util_avg, runnable_avg));
            }
            _ => {}
        }
        self.event_of(at, executes);
        match *event {
            Event::CpuFrequency { domain, khz, .. } => {
                for i in 0..self.domains[domain.at()].len() {
                    let cpu = self.domains[domain.at()][i];
                    self.frequency(at, cpu, khz);
                }
            }
            _ => self.tracepoint(at, on, event),
        }
    }
    fn finish(&mut self, Ns(end): Ns) {
        self.last = self.last.max(end);
        self.close();
    }
}
