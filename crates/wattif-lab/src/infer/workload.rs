//! From a trace to programs.
//!
//! **Work** of a thread is its time on CPUs × the capacity of the CPU at the frequency it had, less what the platform's costs
//! say the kernel took of it. **Waits** are told apart by what ended them:
//!
//! | the trace says | the program says |
//! |---|---|
//! | woken in an interrupt, after `S` | sleep until that time (a timer), less the timer slack of fair threads |
//! | the same, and its sleeps are of equal length while its wake-ups are not | sleep so long |
//! | woken in an interrupt, after `D` | a device that takes as long as it took |
//! | woken by a running thread | a token, which that thread puts after so much of its own work |
//! | `sched_process_fork` | a fork, after so much of the parent's work |
//!
//! So pipes, futexes and binder become dependencies: another kernel or machine moves the wake-ups with the work. Where records do not
//! say whether they come from an interrupt, wake-ups from an idle CPU do, and those of a thread that is mostly woken from idle
//! CPUs do as well.

use super::play::{normalised, seen};
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::platform::Platform;
use wattif_model::trace::{Event, PrevState, Recorded, Recording};
use wattif_model::workload::*;
use wattif_model::{CpuId, CpuSet, Ns, Pid};

/// What the inference is told.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Policies of threads that a trace cannot show, by name: `SCHED_IDLE`, `SCHED_BATCH`, `SCHED_RR`.
    pub policies: Vec<(String, Policy)>,
}

/// A workload made from a trace.
#[derive(Clone, Debug, Default)]
pub struct Inferred {
    /// What ran.
    pub workload: Workload,
    /// Tasks (names) that are background of the recorded system.
    pub housekeeping: BTreeSet<String>,
    /// What was assumed, and what could not be told.
    pub notes: Vec<String>,
}

/// One step of a thread.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// Units: ns × capacity.
    Work(u64),
    /// Until an absolute time; blocked since.
    Timer {
        until: u64,
        since: u64,
    },
    /// A device, so long.
    Device(u64),
    /// For a token.
    Token,
    /// A token for another thread.
    Post(Pid),
    Fork(Pid),
    Attr(u8),
    Exit,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// Not seen yet: asleep since before the trace.
    Unknown,
    Sleeping {
        since: u64,
        disk: bool,
    },
    Runnable {
        since: u64,
    },
    Running,
    Dead,
}

struct Thread {
    state: State,
    /// At first, and now.
    first_prio: u8,
    prio: u8,
    steps: Vec<Step>,
    /// Work since the last step.
    work: u64,
    /// Kernel time of the present slice that is not the thread's work, ns.
    overhead: u64,
    cpu: Option<CpuId>,
    parent: Option<Pid>,
    born: u64,
    seen_on: CpuSet,
    /// CPUs that were idle while it waited for one, each time.
    snubs: Vec<CpuSet>,
}

/// Threads with fewer tellable sleeps are taken as timed absolutely.
const MIN_SLEEPS: usize = 8;
/// Waiting as long while another CPU is idle means that it may not go there.
const SNUB_NS: u64 = 300_000;
/// After so many of these it is pinned.
const SNUBS: usize = 3;
/// More are not kept.
const MAX_SNUBS: usize = 256;

struct Inference<'a> {
    platform: &'a Platform,
    threads: BTreeMap<Pid, Thread>,
    /// Who runs since when, by CPU.
    running: Vec<(Pid, u64)>,
    opp: Vec<usize>,
    /// Last end of an idle state and which it was, by CPU.
    idle: Vec<(u64, u32)>,
    /// Wake-ups without flags that are taken as interrupts, by who is woken.
    interrupted: BTreeSet<Pid>,
    flags: bool,
}

/// The workload behind a recording on a machine.
pub fn workload(recording: &Recording, platform: &Platform, name: &str, options: &Options) -> Inferred {
    let recording = normalised(recording);
    let n = platform.nr_cpus();
    let threads = seen(&recording).into_iter().filter(|(pid, _)| !is_stopper(recording.comm(*pid)));
    let mut inference = Inference {
        platform,
        threads: threads.map(|(pid, prio)| (pid, Thread::new(prio))).collect(),
        running: vec![(Pid(0), 0); n],
        opp: first_opps(&recording, platform),
        idle: vec![(0, 0); n],
        interrupted: mostly_interrupted(&recording),
        flags: recording.has_irq_flags,
    };
    inference.who_runs_at_first(&recording);
    for r in recording.records.iter().filter(|r| r.cpu.at() < n) {
        inference.record(r.at.0, r.cpu, r.current, &r.event);
    }
    inference.finish(recording.end.0);
    inference.programs(&recording, name, options)
}

/// The kernel's per-CPU stoppers: every simulation has its own.
fn is_stopper(comm: &str) -> bool {
    comm.starts_with("migration/")
}

impl Thread {
    fn new(prio: u8) -> Thread {
        Thread {
            state: State::Unknown,
            first_prio: prio,
            prio,
            steps: Vec::new(),
            work: 0,
            overhead: 0,
            cpu: None,
            parent: None,
            born: 0,
            seen_on: CpuSet::default(),
            snubs: Vec::new(),
        }
    }
    fn push(&mut self, step: Step) {
        if self.work > 0 {
            self.steps.push(Step::Work(std::mem::take(&mut self.work)));
        }
        self.steps.push(step);
    }
}

/// The frequency a domain has before its first event is the lowest, unless there is none at all: then the highest.
fn first_opps(recording: &Recording, platform: &Platform) -> Vec<usize> {
    let any = recording.records.iter().any(|r| matches!(r.event, Recorded::CpuFrequency { .. }));
    platform.domains.iter().map(|d| if any { 0 } else { d.opps.len() - 1 }).collect()
}

/// Threads that are woken from idle CPUs at least half the time: where records have no flags, whoever else seems to wake them
/// was only interrupted.
fn mostly_interrupted(recording: &Recording) -> BTreeSet<Pid> {
    let mut counts: BTreeMap<Pid, (u32, u32)> = BTreeMap::new();
    for r in &recording.records {
        if let Some(&Event::SchedWaking { pid, in_irq, .. }) = r.event() {
            let n = counts.entry(pid).or_default();
            *(if in_irq { &mut n.0 } else { &mut n.1 }) += 1;
        }
    }
    counts.into_iter().filter(|(_, (irq, thread))| irq >= thread).map(|(pid, _)| pid).collect()
}

impl Inference<'_> {
    /// Whoever is switched out first on a CPU ran there from the beginning.
    fn who_runs_at_first(&mut self, recording: &Recording) {
        let mut known = vec![false; self.running.len()];
        for r in &recording.records {
            if let Some(&Event::SchedSwitch { prev_pid, .. }) = r.event()
                && let Some(known) = known.get_mut(r.cpu.at()).filter(|k| !**k)
            {
                *known = true;
                self.running[r.cpu.at()].0 = prev_pid;
                if let Some(t) = self.threads.get_mut(&prev_pid) {
                    (t.state, t.cpu) = (State::Running, Some(r.cpu));
                }
            }
        }
    }

    /// Units per ns of a CPU now.
    fn speed(&self, cpu: CpuId) -> u64 {
        let domain = self.platform.cpus[cpu.at()].domain.at();
        let opps = &self.platform.domains[domain].opps;
        let opp = &opps[self.opp[domain].min(opps.len() - 1)];
        u64::from(opp.capacity)
    }

    /// The running thread has worked until now.
    fn account(&mut self, cpu: CpuId, now: u64) {
        let speed = self.speed(cpu);
        let (pid, since) = self.running[cpu.at()];
        self.running[cpu.at()].1 = now;
        if let Some(t) = self.threads.get_mut(&pid) {
            let wall = now.saturating_sub(since);
            let kernel = t.overhead.min(wall);
            t.overhead -= kernel;
            t.work += (wall - kernel).saturating_mul(speed);
        }
    }

    fn record(&mut self, at: u64, cpu: CpuId, current: Option<Pid>, event: &Recorded) {
        match *event {
            Recorded::CpuFrequency { cpu, khz } => self.frequency(at, cpu, khz),
            Recorded::Event(Event::SchedSwitch { prev_pid, prev_state, next_pid, next_prio, .. }) => {
                self.switch(at, cpu, prev_pid, prev_state, next_pid, next_prio);
            }
            Recorded::Event(Event::SchedWaking { pid, in_irq, .. }) => {
                let waker = current.unwrap_or(self.running[cpu.at()].0);
                let in_irq = in_irq || waker.0 == 0 || !self.flags && self.interrupted.contains(&pid);
                self.waking(at, cpu, pid, (!in_irq).then_some(waker));
            }
            Recorded::Event(Event::SchedProcessFork { pid, child_pid }) => self.fork(at, cpu, pid, child_pid),
            Recorded::Event(Event::SchedWakeupNew { pid, .. }) => {
                if let Some(t) = self.threads.get_mut(&pid).filter(|t| t.state == State::Unknown) {
                    (t.state, t.born) = (State::Runnable { since: at }, at);
                }
            }
            Recorded::Event(Event::CpuIdle { state }) => {
                let slot = &mut self.idle[cpu.at()];
                *slot = if state == Event::IDLE_EXIT { (at, slot.1) } else { (0, state) };
            }
            _ => {}
        }
    }

    fn frequency(&mut self, at: u64, cpu: CpuId, khz: u32) {
        let Some(c) = self.platform.cpus.get(cpu.at()) else { return };
        let domain = c.domain.at();
        for cpu in self.platform.domains[domain].cpus.iter() {
            self.account(cpu, at);
        }
        let opps = &self.platform.domains[domain].opps;
        self.opp[domain] = (0..opps.len()).min_by_key(|&i| opps[i].khz.abs_diff(khz)).unwrap_or(0);
    }

    fn switch(&mut self, at: u64, cpu: CpuId, prev: Pid, state: PrevState, next: Pid, next_prio: u8) {
        self.account(cpu, at);
        if let Some(t) = self.threads.get_mut(&prev) {
            t.overhead = 0;
            t.state = match state {
                PrevState::Running => State::Runnable { since: at },
                PrevState::Sleeping => State::Sleeping { since: at, disk: false },
                PrevState::DiskSleep => State::Sleeping { since: at, disk: true },
                PrevState::Dead => State::Dead,
            };
            if state == PrevState::Dead {
                t.push(Step::Exit);
            }
        }
        self.running[cpu.at()] = (next, at);
        self.snubs(at, next);
        let costs = &self.platform.costs;
        let Some(t) = self.threads.get_mut(&next) else { return };
        if t.state == State::Unknown {
            t.born = at; // neither woken nor forked: it was waiting for a CPU
        }
        let moved = t.cpu.is_some_and(|last| last != cpu);
        t.overhead = costs.context_switch_ns + if moved { costs.migration_ns } else { 0 };
        if t.prio != next_prio {
            t.prio = next_prio;
            t.push(Step::Attr(next_prio));
        }
        (t.state, t.cpu) = (State::Running, Some(cpu));
        t.seen_on.insert(cpu);
    }

    /// It waited although a CPU that it never ran on was idle: perhaps it may not run there.
    fn snubs(&mut self, at: u64, next: Pid) {
        let Some(t) = self.threads.get(&next) else { return };
        let State::Runnable { since } = t.state else { return };
        if at.saturating_sub(since) < SNUB_NS {
            return;
        }
        let idle_all_the_while = |cpu: usize| self.running[cpu].0.0 == 0 && self.running[cpu].1 <= since;
        let idle: CpuSet =
            (0..self.running.len()).filter(|c| idle_all_the_while(*c)).map(|c| CpuId(c as u32)).collect();
        if !idle.is_empty() && t.snubs.len() < MAX_SNUBS {
            self.threads.get_mut(&next).expect("seen above").snubs.push(idle);
        }
    }

    /// `waker` where a thread did it.
    fn waking(&mut self, at: u64, cpu: CpuId, pid: Pid, waker: Option<Pid>) {
        let (woken_from_idle, state) = self.idle[cpu.at()];
        let costs = &self.platform.costs;
        let (irq_ns, wakeup_ns) = (costs.timer_irq_ns, costs.wakeup_ns);
        let exit_ns = match woken_from_idle {
            from if from > 0 && at.saturating_sub(from) < 5_000 => {
                self.platform.idle_states(cpu).get(state as usize).map_or(0, |s| s.actual.exit_ns)
            }
            _ => 0,
        };
        // What the waking itself cost whoever runs here.
        let current = self.running[cpu.at()].0;
        self.account(cpu, at);
        if let Some(t) = self.threads.get_mut(&current) {
            t.overhead += wakeup_ns + if waker.is_none() { irq_ns } else { 0 };
        }
        let waker = waker.filter(|w| self.threads.contains_key(w) && *w != pid);
        let slack = self.platform.timer_slack_ns;
        let Some(t) = self.threads.get_mut(&pid) else { return };
        let (since, disk) = match t.state {
            State::Sleeping { since, disk } => (since, disk),
            State::Unknown => (0, false),
            // It was about to sleep, or already woken.
            _ => return,
        };
        let slack = if t.prio >= 100 { slack } else { 0 };
        let due = at.saturating_sub(slack + exit_ns).max(since + 1);
        t.push(match (waker, disk) {
            (Some(_), _) => Step::Token,
            (None, true) => Step::Device(at.saturating_sub(since + exit_ns).max(1)),
            (None, false) => Step::Timer { until: due, since },
        });
        t.state = State::Runnable { since: at };
        if let Some(waker) = waker {
            self.threads.get_mut(&waker).expect("checked above").push(Step::Post(pid));
        }
    }

    fn fork(&mut self, at: u64, cpu: CpuId, parent: Pid, child: Pid) {
        self.account(cpu, at);
        if !self.threads.contains_key(&parent) {
            return;
        }
        if let Some(t) = self.threads.get_mut(&child).filter(|t| t.state == State::Unknown && t.steps.is_empty()) {
            (t.parent, t.born, t.state) = (Some(parent), at, State::Runnable { since: at });
            self.threads.get_mut(&parent).expect("checked above").push(Step::Fork(child));
        }
    }

    fn finish(&mut self, end: u64) {
        for cpu in 0..self.running.len() as u32 {
            self.account(CpuId(cpu), end);
        }
        for t in self.threads.values_mut().filter(|t| t.work > 0) {
            t.steps.push(Step::Work(std::mem::take(&mut t.work)));
        }
    }

    // ---- programs ----------------------------------------------------------------------------------------------------

    fn programs(self, recording: &Recording, name: &str, options: &Options) -> Inferred {
        let Inference { platform, threads, .. } = self;
        let mut out = Inferred::default();
        let index: BTreeMap<Pid, u32> = threads.keys().zip(0..).map(|(pid, i)| (*pid, i)).collect();
        let calibration = platform.cpus[platform.calibration_cpu.at()].capacity.max(1);
        let mut w = Workload {
            name: name.into(),
            duration: Some(recording.end),
            timers: vec![TimerSpec { name: "recorded".into(), shared: false }],
            devices: vec![DeviceSpec { name: "device".into(), servers: u32::MAX }],
            queues: index.keys().map(|pid| Named { name: format!("wakes {}-{pid}", recording.comm(*pid)) }).collect(),
            groups: vec![GroupSpec::root()],
            ..Workload::default()
        };
        let (mut timers, mut tokens, mut pinned) = (0u64, 0u64, 0);
        for (pid, t) in &threads {
            timers += t.steps.iter().filter(|s| matches!(s, Step::Timer { .. })).count() as u64;
            tokens += t.steps.iter().filter(|s| **s == Step::Token).count() as u64;
            let comm = recording.comm(*pid).to_string();
            let task = super::play::task(recording, &comm);
            if super::housekeeping(recording, *pid) {
                out.housekeeping.insert(task.clone());
            }
            let cpus = affinity(t, &comm);
            pinned += usize::from(cpus.is_some());
            let told = recording.threads.get(&pid.0).and_then(|t| t.policy);
            let attr = attributes(t.first_prio, &comm, told, options);
            let ops = ops(t, *pid, &index, calibration, told, &comm, options);
            let start = Ns(if t.parent.is_some() { 0 } else { t.born });
            w.tasks.push(TaskSpec {
                name: task,
                instances: u32::from(t.parent.is_none()),
                start,
                startup: Ns::ZERO,
                delay: Ns::ZERO,
                attr,
                cpus,
                group: 0,
                program: Program { ops },
            });
        }
        out.notes.push(format!(
            "{} threads; {timers} waits end at a time, {tokens} by another thread; {pinned} threads taken as bound to CPUs",
            threads.len()
        ));
        if !recording.has_irq_flags {
            out.notes.push("records do not say which wake-ups come from interrupts: taken from who ran".into());
        }
        if !recording.threads.values().any(|t| t.policy.is_some()) {
            out.notes.push("a trace shows priorities only: SCHED_BATCH and SCHED_IDLE look like SCHED_OTHER, SCHED_RR like SCHED_FIFO (--policy NAME=…)".into());
        }
        out.workload = w;
        out
    }
}

/// nice and policy from the kernel's priority.
fn attributes(prio: u8, comm: &str, told: Option<&'static str>, options: &Options) -> SchedAttr {
    let mut attr = SchedAttr::default();
    if prio < 100 {
        (attr.policy, attr.rt_priority) = (Policy::Fifo, (99 - prio).max(1));
    } else {
        attr.nice = (i16::from(prio) - 120).clamp(-20, 19) as i8;
    }
    let all = [Policy::Normal, Policy::Batch, Policy::Idle, Policy::Fifo, Policy::Rr];
    let told = told.and_then(|t| all.into_iter().find(|p| p.name() == t));
    let asked =
        options.policies.iter().find(|(name, _)| comm == name || comm.starts_with(&format!("{name}-"))).map(|p| p.1);
    if let Some(policy) = asked.or(told).filter(|p| p.is_rt() == (prio < 100)) {
        attr.policy = policy;
    }
    attr
}

/// CPUs it is bound to, where the trace gives reason to think so.
fn affinity(t: &Thread, comm: &str) -> Option<CpuSet> {
    let per_cpu = ["ksoftirqd/", "cpuhp/", "kworker/", "watchdog/"].iter().find_map(|p| comm.strip_prefix(p));
    let named = per_cpu.and_then(|rest| rest.split([':', '-']).next()?.parse::<u32>().ok());
    match named {
        Some(cpu) if !t.seen_on.is_empty() => Some(CpuSet::one(CpuId(cpu))).filter(|c| t.seen_on.is_subset(c)),
        // It waited while others were idle, never while one was idle on which it ever ran.
        _ => {
            let own = t.snubs.iter().filter(|idle| idle.intersects(&t.seen_on)).count();
            (own == 0 && t.snubs.len() >= SNUBS).then(|| t.seen_on.clone())
        }
    }
}

/// Sleeps of equal length between wake-ups at unequal distances: a relative sleep. Its length.
fn sleeps_relatively(steps: &[Step]) -> bool {
    let sleeps: Vec<(f64, f64)> = steps
        .iter()
        .filter_map(|s| match s {
            Step::Timer { until, since } if *since > 0 => Some(((until - since) as f64, *until as f64)),
            _ => None,
        })
        .collect();
    if sleeps.len() < MIN_SLEEPS {
        return false;
    }
    let lengths: Vec<f64> = sleeps.iter().map(|s| s.0).collect();
    let intervals: Vec<f64> = sleeps.windows(2).map(|w| w[1].1 - w[0].1).collect();
    let spread = |v: &[f64]| {
        let mean = v.iter().sum::<f64>() / v.len() as f64;
        (v.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / v.len() as f64).sqrt() / mean.max(1.0)
    };
    spread(&lengths) < 0.02 && spread(&lengths) * 2.0 < spread(&intervals)
}

fn ops(
    t: &Thread,
    pid: Pid,
    index: &BTreeMap<Pid, u32>,
    calibration: u32,
    told: Option<&'static str>,
    comm: &str,
    options: &Options,
) -> Vec<Op> {
    let relative = sleeps_relatively(&t.steps);
    // A forked thread's timers count from its birth, the others' from the common start.
    let mut expiry = if t.parent.is_some() { t.born } else { 0 };
    let mut ops = Vec::with_capacity(t.steps.len() + 1);
    for step in &t.steps {
        ops.push(match *step {
            Step::Work(units) => Op::Run(Amount::Fixed((units / u64::from(calibration)).max(1))),
            Step::Timer { until, since } if relative && since > 0 => Op::Sleep(Amount::Fixed(until - since)),
            Step::Timer { until, .. } => {
                let period = until.saturating_sub(expiry);
                expiry = expiry.max(until);
                Op::Timer { timer: 0, period: Amount::Fixed(period), absolute: true }
            }
            Step::Device(ns) => Op::Device { device: 0, service: Amount::Fixed(ns) },
            Step::Token => Op::Get(index[&pid]),
            Step::Post(to) => Op::Put { queue: index[&to], forward: false },
            Step::Fork(child) => Op::Fork(index[&child]),
            Step::Attr(prio) => Op::SetAttr(attributes(prio, comm, told, options)),
            Step::Exit => Op::Exit,
        });
    }
    if t.state != State::Dead {
        // It lives on beyond the end of the trace.
        ops.push(Op::Sleep(Amount::Fixed(1_000_000_000_000_000)));
    }
    ops
}
