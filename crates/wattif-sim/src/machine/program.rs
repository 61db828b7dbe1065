//! The interpreter of the program language ([`Op`]): what each thread does next.
//!
//! [`Programs`] holds every thread's place in its program and the resources they share. The scheduler calls
//! [`Programs::resume`] when a thread has the CPU and its last [`Step`] is finished; ops run until one needs time or blocks. What
//! an op does to others (wake-ups, forks, log events) is collected in [`Effects`]. Nothing here decides who runs where.
//!
//! rt-app's events keep rt-app's meaning. Where C library and kernel let threads compete, so do we: a woken waiter of a mutex
//! or semaphore must still win it, a condition's waiter re-acquires the mutex, a signal nobody waits for is lost.
//! FIDELITY(barrier): a barrier has generations; rt-app's own lets a thread that comes round before the others left slip through.

mod code;
mod deadlock;
mod locks;
mod outlook;

use super::cpu::Segment;
use super::resources::{Rank, Resources};
use crate::engine::queue::{IndexedHeap, Positions};
use crate::engine::rng::{Rng, SequenceState};
use code::{Code, Instr};
use std::rc::Rc;
use wattif_model::Pid;
use wattif_model::ids::CpuSet;
use wattif_model::run::{LEAST_NS_PER_OP, MAX_OPS_WITHOUT_TIME, MAX_TURNS_AT_ONE_TIME, RunError};
use wattif_model::trace::Event;
use wattif_model::units::{CAPACITY_SCALE, Ns};
use wattif_model::workload::{Amount, Op, Policy, SchedAttr, TaskSpec, Workload};

/// Threads a task may be forked into (rt-app's limit).
const MAX_FORKS: u32 = 1024;
/// Forked threads of a run: as many as a workload may begin with.
const MAX_FORKED: u64 = 65_536;
/// Work between two looks of a spinning waiter at its queue, ns at full speed.
const POLL_NS: u64 = 1_000;
/// Draws per chunk of iterations; larger chunks scale their sum.
const MAX_DRAWS: u64 = 256;

/// Times and amounts of work end here (146 years), so that sums with them do not overflow.
const FOREVER: u64 = u64::MAX / 4;

/// What a thread does next, until [`Programs::resume`] is called again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Execute this on a CPU. Resume when it is done, or when the thread is listed in [`Effects::polled`].
    Execute(Segment),
    /// Sleep until this nominal time; timer slack is the scheduler's. A time that has passed still means a call to sleep.
    Sleep {
        /// Absolute time.
        until: Ns,
    },
    /// Sleep until listed in [`Effects::wakes`].
    Block {
        /// For what.
        on: WaitReason,
    },
    /// `sched_yield`, then resume when it has the CPU again.
    Yield,
    /// Apply [`Programs::attr`], then resume.
    SetAttr,
    /// Apply [`Programs::affinity`], then resume where it is allowed.
    SetAffinity,
    /// Move to [`Programs::group`], then resume.
    SetGroup,
    /// A call that woke, boosted or created others has ended: resume when what it cost is paid and the thread still, or again, has the CPU.
    Called,
    /// The thread has ended; it is not resumed again.
    Exit,
    /// The run cannot go on; [`Programs::failure`] says why.
    Fail,
}

/// What a blocked thread waits for, by index into the workload's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// A mutex.
    Mutex(u32),
    /// A condition.
    Cond(u32),
    /// The other parties of a barrier.
    Barrier(u32),
    /// A semaphore.
    Semaphore(u32),
    /// A token.
    Queue(u32),
    /// A device: `D` in a trace, and I/O wait to the governors.
    Device(u32),
    /// A device whose users sleep like any other (`DeviceSpec::iowait` false).
    Completion(u32),
}

impl WaitReason {
    /// Does the wait count as I/O wait?
    pub fn is_io(self) -> bool {
        matches!(self, WaitReason::Device(_))
    }
}

/// A thread to be created: give it the next pid and call [`Programs::start_forked`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fork {
    /// Who forked.
    pub parent: Pid,
    /// Index of the task.
    pub task: u32,
    /// Counts the forks of that task from 0.
    pub number: u32,
    /// What the parent had then.
    pub inherited: Inherited,
}

/// What a forked thread has of its parent until it sets attributes of its own, and for good where its task names none: the kernel copies it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inherited {
    affinity: Option<CpuSet>,
    group: u32,
    attr: SchedAttr,
}

/// Priority inheritance changed: `pid` runs with the better of its own attributes and those of `donor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boost {
    /// Who holds the mutex.
    pub pid: Pid,
    /// Whose attributes it gets; `None`: its own again.
    pub donor: Option<Pid>,
}

/// A blocked thread to wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// Who.
    pub pid: Pid,
    /// The waker says that it is about to sleep (`WF_SYNC`).
    pub sync: bool,
}

/// What ops did to others. Reused: the caller handles and clears it after each call.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    /// Blocked threads to wake, in order.
    pub wakes: Vec<Wake>,
    /// Threads whose spin for a token has succeeded: what is left of their segment is void.
    pub polled: Vec<Pid>,
    /// Threads to create.
    pub forks: Vec<Fork>,
    /// Program events, only when they are wanted.
    pub events: Vec<Event>,
    /// Changes of priority inheritance.
    pub boosts: Vec<Boost>,
    /// [`Programs::next_completion`] may have changed.
    pub devices_changed: bool,
    /// The user touched the screen.
    pub touched: bool,
}

impl Effects {
    /// Nothing to handle?
    #[inline]
    pub fn is_empty(&self) -> bool {
        !(self.devices_changed || self.touched)
            && self.wakes.is_empty()
            && self.polled.is_empty()
            && self.forks.is_empty()
            && self.events.is_empty()
            && self.boosts.is_empty()
    }
    /// Has a thread been woken, boosted or created, which may take the CPU before the next op?
    #[inline]
    fn on_others(&self) -> bool {
        !(self.wakes.is_empty() && self.boosts.is_empty() && self.forks.is_empty())
    }
    /// Ready for the next call; keeps its memory.
    pub fn clear(&mut self) {
        self.wakes.clear();
        self.polled.clear();
        self.forks.clear();
        self.events.clear();
        self.boosts.clear();
        self.devices_changed = false;
        self.touched = false;
    }
}

/// What the interpreter needs to know besides the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Seed of the run.
    pub seed: u64,
    /// Each piece of work is longer or shorter by up to this, 1/1,000,000 ([`wattif_model::platform::Noise::work_ppm`]).
    pub work_ppm: u32,
    /// Tasks of the workload itself; the platform's background tasks follow them.
    pub own_tasks: u32,
    /// Units per ns of work: the capacity of the calibration CPU at full speed.
    pub unit_capacity: u64,
    /// Emit [`Event::TimerWake`], [`Event::RtappStats`], [`Event::RtappConfigured`], [`Event::Mark`] and
    /// [`Event::Touch`], [`Event::DeviceDone`].
    pub want_program_events: bool,
    /// Emit [`Event::ProgramStep`].
    pub want_steps: bool,
}

/// What is to be completed when a thread is resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pending {
    /// Its very first step: what starting a process takes, a quarter of it before its launcher has set the attributes.
    Startup,
    /// The rest of it.
    StartupRest,
    /// The task's delay.
    Start,
    /// The delay is over: what the file says about scheduling is applied, one call after the other.
    Attributes(Attribute),
    /// Nothing.
    Ready,
    /// A run or runtime event that began then.
    Timed { began: Ns },
    /// A sleep until this expiry of a timer.
    Timer { expiry: Ns },
    /// To win a mutex.
    Mutex(u32),
    /// To fall asleep: it is on the condition's list already, and first woke who waits for the mutex.
    Wait { cond: u32, mutex: u32 },
    /// To win the mutex of a condition, or nothing more.
    Cond(Option<u32>),
    /// To win a semaphore.
    Semaphore(u32),
    /// A token has been handed over, or the spin for it ran out.
    Poll { queue: u32, got: bool },
    /// It ended.
    Dead,
}

/// What a thread sets for itself after its delay, in rt-app's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attribute {
    Policy,
    Group,
    Affinity,
}

/// A thread's place in its program.
#[derive(Clone, Debug)]
struct Thread {
    name: String,
    stream: String,
    task: u32,
    pc: u32,
    pending: Pending,
    /// Blocked and not yet woken.
    waiting: Option<WaitReason>,
    attr: SchedAttr,
    affinity: Option<CpuSet>,
    /// CPUs it was born with, where its program names none.
    born_on: Option<CpuSet>,
    group: u32,
    /// In the first part of its start-up.
    launching: bool,
    /// First expiry of its timers: common start + delay.
    first_expiry: Ns,
    loops: Vec<u64>,
    timers: Vec<Option<Ns>>,
    sequences: Vec<SequenceState>,
    program_rng: Rng,
    work_rng: Rng,
    /// Stamp of the token got last, or of the timer since.
    stamp: Option<Ns>,
    /// Begin of the unit of work that the next mark ends.
    began: Ns,
    phase: Phase,
    /// When `ops` was last reset, and ops since.
    ops_since: Ns,
    ops: u32,
    /// PI mutexes it holds, and who lends it priority.
    held: Vec<u32>,
    donor: Option<Pid>,
}

/// rt-app's log line in the making.
#[derive(Clone, Copy, Debug, Default)]
struct Phase {
    began: Ns,
    run_ns: u64,
    wu_lat_ns: u64,
    slack_ns: i64,
}

/// What a thread asks a device for.
#[derive(Clone, Copy, Debug, Default)]
struct Request {
    device: u32,
    service_ns: u64,
    asked: Ns,
}

/// Every thread's program and what they share.
#[derive(Clone, Debug)]
pub struct Programs {
    setup: Setup,
    workload: Workload,
    code: Vec<Code>,
    /// By pid; 0 is nobody.
    threads: Vec<Option<Thread>>,
    started: u32,
    /// The common start: delays and first expiries count from it, those of forked threads too.
    t_zero: Ns,
    /// Threads of each task so far.
    created: Vec<u32>,
    alive: u32,
    forks: Vec<u32>,
    resources: Resources,
    /// Requests being served, by pid and end of service.
    served: IndexedHeap,
    positions: Positions,
    /// What a thread asked a device for last, by pid.
    requests: Vec<Request>,
    /// Turns of threads at one time.
    turns: (Ns, u64),
    failure: Option<RunError>,
}

impl Programs {
    /// Checks every program of the workload; no thread exists yet.
    pub fn new(workload: &Workload, setup: Setup) -> Result<Programs, RunError> {
        let code = workload.tasks.iter().map(|t| Code::new(t, workload)).collect::<Result<Vec<_>, _>>();
        Ok(Programs {
            setup,
            code: code.map_err(RunError::Workload)?,
            resources: Resources::new(workload),
            forks: vec![0; workload.tasks.len()],
            threads: vec![None],
            positions: Positions::new(1),
            requests: vec![Request::default()],
            turns: (Ns::ZERO, 0),
            served: IndexedHeap::default(),
            started: 0,
            t_zero: Ns::ZERO,
            created: vec![0; workload.tasks.len()],
            alive: 0,
            failure: None,
            workload: without_programs(workload),
        })
    }

    /// A thread of the start: `task` is its index in the workload, `t_zero` the common start. Called in file order, once per
    /// instance; it is called `task-index`, counting all threads. Pids come in order, others' may lie between.
    pub fn start(&mut self, pid: Pid, task: u32, t_zero: Ns) {
        self.t_zero = t_zero;
        let name = format!("{}-{}", self.workload.tasks[task as usize].name, self.started);
        self.create(pid, task, name, t_zero);
    }

    /// A thread asked for by [`Effects::forks`]; it is called `task-index-number`, the index counting the workload's threads so far.
    pub fn start_forked(&mut self, pid: Pid, fork: &Fork, now: Ns) {
        let task = &self.workload.tasks[fork.task as usize].name;
        let name = format!("{task}-{}-{:04}", self.own_threads(), fork.number);
        self.create(pid, fork.task, name, now);
        let Inherited { affinity, group, attr } = fork.inherited.clone();
        let thread = self.thread(pid);
        thread.affinity = thread.affinity.take().or_else(|| affinity.clone());
        thread.born_on = affinity;
        thread.group = if thread.group == 0 { group } else { thread.group };
        thread.attr = attr;
    }

    /// Is the task one of the workload itself, and not of the platform's background?
    pub fn is_own(&self, task: u32) -> bool {
        task < self.setup.own_tasks
    }

    /// And not of the background of a recorded machine either?
    pub fn is_workload(&self, task: u32) -> bool {
        self.is_own(task) && !self.spec(task).background
    }

    /// Threads so far that rt-app would have counted.
    fn own_threads(&self) -> u32 {
        self.created.iter().take(self.setup.own_tasks as usize).sum()
    }

    fn create(&mut self, pid: Pid, task: u32, name: String, start: Ns) {
        assert!(pid.at() >= self.threads.len() && pid != Pid(0), "pids are given in order");
        while self.threads.len() <= pid.at() {
            self.threads.push(None);
            self.positions.add();
            self.requests.push(Request::default());
        }
        let spec = &self.workload.tasks[task as usize];
        let code = &self.code[task as usize];
        // By its place within its task: threads of other tasks, which its name counts, shift no draw.
        let stream = format!("{}/{}", spec.name, self.created[task as usize]);
        // A thread sleeps its delay as it was born and sets its attributes afterwards, as rt-app's do. Without a delay it is born where it
        // will run, in the class that it will be in; but its weight, with which CFS would place it, is its parent's in any case. One that
        // has been there has them.
        let late = spec.delay.0 > 0 || spec.startup.0 > 0;
        let born_fair = late || spec.attr.policy.is_fair() && spec.prev_cpu.is_none();
        self.threads[pid.at()] = Some(Thread {
            task,
            pc: 0,
            pending: if spec.startup.0 > 0 { Pending::Startup } else { Pending::Start },
            waiting: None,
            attr: if born_fair { SchedAttr::default() } else { spec.attr },
            affinity: spec.cpus.clone().filter(|_| !late),
            born_on: None,
            group: if late { 0 } else { spec.group },
            first_expiry: later(self.t_zero, spec.delay.0),
            loops: vec![0; code.loops],
            timers: vec![None; code.timers],
            sequences: vec![SequenceState::default(); code.sequences],
            program_rng: Rng::stream(self.setup.seed, &format!("program/{stream}")),
            work_rng: Rng::stream(self.setup.seed, &format!("work/{stream}")),
            stamp: None,
            began: start,
            phase: Phase { began: start, ..Phase::default() },
            ops_since: start,
            ops: 0,
            held: Vec::new(),
            donor: None,
            launching: false,
            name,
            stream,
        });
        self.started += 1;
        self.created[task as usize] += 1;
        self.alive += u32::from(self.is_workload(task));
    }

    /// Does its program begin with a wait that nothing can have ended at the start? Then it is in it already, if it has been there.
    pub fn begins_with_wait(&self, pid: Pid) -> bool {
        let thread = self.thread_ref(pid);
        let later = |ns: &Amount| matches!(ns, Amount::Fixed(1..));
        let instrs = &self.code[thread.task as usize].instrs;
        let first = instrs.iter().map(|i| &i.op).find(|op| !matches!(op, Op::Loop { count: None, .. }));
        thread.pending == Pending::Start
            && thread.first_expiry == self.t_zero
            && first.is_some_and(|op| match op {
                Op::Sleep(ns) | Op::Timer { period: ns, .. } => later(ns),
                Op::Get(queue) => self.resources.queues[*queue as usize].tokens.is_empty(),
                Op::Device { .. } => true,
                _ => false,
            })
    }

    /// The thread's last step is finished and it has a CPU at `now`: what it does next.
    ///
    /// `out` collects what it does to others; it is not cleared here.
    pub fn resume(&mut self, pid: Pid, now: Ns, out: &mut Effects) -> Step {
        let thread = self.thread(pid);
        assert!(thread.waiting.is_none() && thread.pending != Pending::Dead, "resumed a blocked or ended thread");
        if now.since(thread.ops_since) >= LEAST_NS_PER_OP * u64::from(thread.ops) {
            (thread.ops_since, thread.ops) = (now, 0);
        }
        self.turns = (now, if self.turns.0 == now { self.turns.1 + 1 } else { 0 });
        if self.turns.1 > u64::from(MAX_OPS_WITHOUT_TIME) + MAX_TURNS_AT_ONE_TIME * self.threads.len() as u64 {
            let thread = self.thread(pid).name.clone();
            return self.fail(RunError::NoProgress { thread, at: now });
        }
        if let Some(step) = self.complete(pid, now, out) {
            return step;
        }
        let task = self.thread(pid).task as usize;
        let code = Rc::clone(&self.code[task].instrs);
        self.run_ops(&code, pid, now, out)
    }

    fn run_ops(&mut self, code: &[Instr], pid: Pid, now: Ns, out: &mut Effects) -> Step {
        loop {
            let thread = self.thread(pid);
            thread.ops += 1;
            if thread.ops > MAX_OPS_WITHOUT_TIME {
                let thread = thread.name.clone();
                return self.fail(RunError::NoProgress { thread, at: now });
            }
            let Some(instr) = code.get(thread.pc as usize) else { return self.exit(pid) };
            let op = thread.pc;
            thread.pc += 1;
            if self.setup.want_steps {
                out.events.push(Event::ProgramStep { pid, op });
            }
            if let Some(step) = self.execute(instr, pid, now, out) {
                return step;
            }
            if out.on_others() {
                return Step::Called;
            }
        }
    }

    /// Finish what the last step began; a step when that needs another one.
    fn complete(&mut self, pid: Pid, now: Ns, out: &mut Effects) -> Option<Step> {
        let thread = self.thread(pid);
        let pending = std::mem::replace(&mut thread.pending, Pending::Ready);
        match pending {
            Pending::Ready => None,
            Pending::Startup | Pending::StartupRest => {
                let first = pending == Pending::Startup;
                thread.pending = if first { Pending::Attributes(Attribute::Policy) } else { Pending::Start };
                thread.launching = first;
                let task = thread.task as usize;
                let startup = Ns(self.workload.tasks[task].startup.0 / 4 * if first { 1 } else { 3 });
                let units = startup.0.saturating_mul(self.setup.unit_capacity);
                // At least one: no work is no step.
                Some(Step::Execute(Segment::Scaled(units.clamp(1, FOREVER))))
            }
            Pending::Start => {
                let until = thread.first_expiry;
                thread.began = until.max(now);
                thread.pending = Pending::Attributes(Attribute::Policy);
                if until > now { Some(Step::Sleep { until }) } else { self.complete(pid, now, out) }
            }
            Pending::Attributes(which) => self.set_attribute(pid, which, now, out),
            Pending::Timed { began } => {
                thread.phase.run_ns += now.since(began);
                None
            }
            Pending::Timer { expiry } => {
                let wu_lat_ns = now.since(expiry);
                thread.phase.wu_lat_ns += wu_lat_ns;
                self.emit(out, Event::TimerWake { pid, wu_lat_ns, missed: false });
                None
            }
            Pending::Mutex(mutex) | Pending::Cond(Some(mutex)) => self.lock(pid, mutex, out),
            Pending::Cond(None) => None,
            Pending::Wait { cond, mutex } => Some(self.block(pid, Pending::Cond(Some(mutex)), WaitReason::Cond(cond))),
            Pending::Semaphore(semaphore) => self.sem_wait(pid, semaphore, true, out),
            Pending::Poll { got: true, .. } => None,
            Pending::Poll { queue, got: false } => Some(self.stop_polling(pid, queue)),
            Pending::Dead => unreachable!("checked by the caller"),
        }
    }

    fn execute(&mut self, instr: &Instr, pid: Pid, now: Ns, out: &mut Effects) -> Option<Step> {
        match instr.op {
            Op::Run(ref work) => self.run(pid, work, instr, now),
            Op::RunInsensitive(ref wall) => self.run_insensitive(pid, wall, instr),
            Op::Spin { ref wall, chunk } => Some(self.spin(pid, wall, chunk, instr, now)),
            Op::SpinThenBlock { ref spin, queue } => self.spin_then_block(pid, spin, queue, instr, now),
            Op::Sleep(ref ns) => Some(Step::Sleep { until: later(now, self.draw(pid, ns, instr)) }),
            Op::Timer { timer, ref period, absolute } => {
                let period = self.draw(pid, period, instr);
                let expiry = self.timer_forward(pid, timer, period, absolute, instr, now);
                self.await_expiry(pid, expiry, now, out)
            }
            Op::Anchor { timer, period, offset } => {
                // The last such time up to half a period from now.
                let until = now.0.saturating_add(period / 2);
                let nearest = until.saturating_sub(since_beat(until, period, offset));
                *self.next_expiry(pid, timer, instr) = Some(Ns(nearest));
                None
            }
            Op::Vsync { period, offset } => {
                let expiry = later(now, period - since_beat(now.0, period, offset));
                self.thread(pid).pending = Pending::Timer { expiry };
                Some(Step::Sleep { until: expiry })
            }
            Op::Lock(mutex) => self.lock(pid, mutex, out),
            Op::Unlock(mutex) => self.unlock(pid, mutex, out),
            Op::Wait { cond, mutex } => Some(self.wait(pid, cond, mutex, out)),
            Op::Signal(cond) => self.signal(cond, out),
            Op::Broadcast(cond) => self.broadcast(cond, out),
            Op::Barrier(barrier) => self.barrier(pid, barrier, out),
            Op::SemPost(semaphore) => self.sem_post(semaphore, out),
            Op::SemWait(semaphore) => self.sem_wait(pid, semaphore, false, out),
            Op::Put { queue, forward } => self.put(pid, queue, forward, now, out),
            Op::Get(queue) => self.get(pid, queue),
            Op::Drain { from, to, forward } => self.drain(from, to, forward, now, out),
            Op::Device { device, ref service } => {
                let service = self.draw(pid, service, instr);
                Some(self.request(pid, device, service, now, out))
            }
            Op::TakeWork { counter, chunk, ref per_iteration, done } => {
                match self.resources.counters[counter as usize].take(chunk) {
                    0 => self.jump(pid, done),
                    n => self.iterate(pid, n, per_iteration, instr),
                }
            }
            Op::ResetWork(counter) => {
                let counter = &mut self.resources.counters[counter as usize];
                counter.left = counter.total;
                None
            }
            Op::Yield => Some(Step::Yield),
            Op::Touch => {
                out.touched = true;
                self.emit(out, Event::Touch { pid });
                None
            }
            Op::Loop { count, end } => self.loop_begin(pid, count, end, instr),
            Op::LoopEnd { begin } => self.loop_end(pid, begin, instr),
            Op::Jump(to) => self.jump(pid, to),
            Op::Fork(task) => self.fork(pid, task, out),
            Op::Exit => Some(self.exit(pid)),
            Op::SetAttr(attr) => self.set_attr(pid, attr, out),
            Op::SetAffinity(ref cpus) => self.set_affinity(pid, cpus),
            Op::SetGroup(group) => self.set_group(pid, group),
            Op::PhaseBegin => {
                self.thread(pid).phase = Phase { began: now, ..Phase::default() };
                None
            }
            Op::PhaseEnd { c_duration_us, c_period_us } => self.phase_end(pid, c_duration_us, c_period_us, now, out),
            Op::Mark(mark) => {
                let began_ns = self.thread(pid).began.0;
                self.emit(out, Event::Mark { pid, mark, began_ns });
                None
            }
            Op::MarkBegin => {
                self.thread(pid).began = now;
                None
            }
        }
    }

    // ---- executing and time ------------------------------------------------------------------------------------------

    fn run(&mut self, pid: Pid, work: &Amount, instr: &Instr, now: Ns) -> Option<Step> {
        let work_ns = self.draw(pid, work, instr);
        let segment = self.work(pid, work_ns)?;
        self.thread(pid).pending = Pending::Timed { began: now };
        Some(Step::Execute(segment))
    }

    fn run_insensitive(&mut self, pid: Pid, wall: &Amount, instr: &Instr) -> Option<Step> {
        let units = self.draw(pid, wall, instr).saturating_mul(CAPACITY_SCALE);
        let units = self.noisy(pid, units);
        (units > 0).then_some(Step::Execute(Segment::Insensitive(units)))
    }

    /// At least one chunk; then until the clock, read after each chunk, shows that the time has passed.
    fn spin(&mut self, pid: Pid, wall: &Amount, chunk: u64, instr: &Instr, now: Ns) -> Step {
        let until = later(now, self.draw(pid, wall, instr));
        self.thread(pid).pending = Pending::Timed { began: now };
        Step::Execute(self.spin_segment(until, chunk))
    }

    fn spin_segment(&self, until: Ns, chunk_ns: u64) -> Segment {
        let chunk = chunk_ns.saturating_mul(self.setup.unit_capacity).clamp(1, FOREVER);
        Segment::Spin { until: until.0, chunk, left: chunk }
    }

    /// `n` iterations at once. Drawn amounts are drawn for each, but no more than [`MAX_DRAWS`] times.
    #[inline(never)]
    fn iterate(&mut self, pid: Pid, n: u64, per_iteration: &Amount, instr: &Instr) -> Option<Step> {
        let draws = if matches!(per_iteration, Amount::Fixed(_)) { 1 } else { n.min(MAX_DRAWS) };
        let sum: u128 = (0..draws).map(|_| u128::from(self.draw(pid, per_iteration, instr))).sum();
        let work_ns = (sum.saturating_mul(n.into()) / u128::from(draws)).min(FOREVER.into()) as u64;
        self.work(pid, work_ns).map(Step::Execute)
    }

    /// Work of `work_ns` at the calibration CPU's full speed; `None` when it is nothing.
    fn work(&mut self, pid: Pid, work_ns: u64) -> Option<Segment> {
        let units = self.noisy(pid, work_ns.saturating_mul(self.setup.unit_capacity));
        (units > 0).then_some(Segment::Scaled(units))
    }

    /// The platform's work noise; it never turns something into nothing.
    fn noisy(&mut self, pid: Pid, units: u64) -> u64 {
        let ppm = i64::from(self.setup.work_ppm);
        if ppm == 0 || units == 0 {
            return units.min(FOREVER);
        }
        let drawn = self.thread(pid).work_rng.uniform_i64(-ppm, ppm);
        let factor = (1_000_000 + drawn).max(0) as u64;
        // 128-bit division is slow, and needed only for hours of work.
        let noisy = match units.checked_mul(factor) {
            Some(product) => product / 1_000_000,
            None => (u128::from(units) * u128::from(factor) / 1_000_000).min(FOREVER.into()) as u64,
        };
        noisy.clamp(1, FOREVER)
    }

    fn draw(&mut self, pid: Pid, amount: &Amount, instr: &Instr) -> u64 {
        match amount {
            Amount::Fixed(n) => *n,
            Amount::Random(dist) => {
                let thread = self.thread(pid);
                let Thread { program_rng, sequences, .. } = thread;
                program_rng.draw(dist, &mut sequences[instr.sequence as usize])
            }
        }
    }

    /// rt-app's timer: the expiry moves on by a period per use; when it has passed already, a relative timer goes on from now
    /// while an absolute one catches up.
    fn timer_forward(&mut self, pid: Pid, timer: u32, period: u64, absolute: bool, instr: &Instr, now: Ns) -> Ns {
        let first = self.thread(pid).first_expiry;
        let next = self.next_expiry(pid, timer, instr);
        let expiry = later(next.unwrap_or(first), period);
        *next = Some(if now >= expiry && !absolute { now } else { expiry });
        expiry
    }

    /// Sleeps until then; when that has passed already, the sum of `wu_lat` starts anew.
    fn await_expiry(&mut self, pid: Pid, expiry: Ns, now: Ns, out: &mut Effects) -> Option<Step> {
        let missed = now >= expiry;
        let cumulative = self.workload.cumulative_slack;
        let thread = self.thread(pid);
        // Work that is handed on begins when it was due, and when it was taken up where that is caught up.
        thread.stamp = Some(if missed { now } else { expiry });
        let slack_ns = i64::try_from(i128::from(expiry.0) - i128::from(now.0)).unwrap_or(i64::MAX);
        let before = if cumulative { thread.phase.slack_ns } else { 0 };
        thread.phase.slack_ns = before.saturating_add(slack_ns);
        if missed {
            thread.phase.wu_lat_ns = 0;
            self.emit(out, Event::TimerWake { pid, wu_lat_ns: 0, missed });
            return None;
        }
        thread.pending = Pending::Timer { expiry };
        Some(Step::Sleep { until: expiry })
    }

    /// From when on a timer counts that was used before.
    fn next_expiry(&mut self, pid: Pid, timer: u32, instr: &Instr) -> &mut Option<Ns> {
        let Programs { workload, threads, resources, .. } = self;
        let thread = threads[pid.at()].as_mut().expect("a thread");
        let shared = workload.timers[timer as usize].shared;
        if shared { &mut resources.timers[timer as usize] } else { &mut thread.timers[instr.local as usize] }
    }

    // ---- structure ---------------------------------------------------------------------------------------------------

    fn loop_begin(&mut self, pid: Pid, count: Option<u64>, end: u32, instr: &Instr) -> Option<Step> {
        let thread = self.thread(pid);
        match count {
            Some(0) => thread.pc = end + 1,
            _ => thread.loops[instr.local as usize] = count.unwrap_or(u64::MAX),
        }
        None
    }

    fn loop_end(&mut self, pid: Pid, begin: u32, instr: &Instr) -> Option<Step> {
        let thread = self.thread(pid);
        let left = &mut thread.loops[instr.local as usize];
        // u64::MAX stands for ever; a jump into a loop finds 0 and leaves at its end.
        if *left != u64::MAX {
            *left = left.saturating_sub(1);
        }
        if *left > 0 {
            thread.pc = begin + 1;
        }
        None
    }

    fn jump(&mut self, pid: Pid, to: u32) -> Option<Step> {
        self.thread(pid).pc = to;
        None
    }

    #[inline(never)]
    fn fork(&mut self, pid: Pid, task: u32, out: &mut Effects) -> Option<Step> {
        let number = self.forks[task as usize];
        if number == MAX_FORKS {
            let task = &self.workload.tasks[task as usize].name;
            let parent = &self.thread_ref(pid).name;
            let why = format!(
                "thread `{parent}` forks task `{task}` for the {}th time; {MAX_FORKS} is the limit",
                number + 1
            );
            return Some(self.fail(RunError::Workload(why)));
        }
        if self.forks.iter().map(|&n| u64::from(n)).sum::<u64>() == MAX_FORKED {
            let parent = &self.thread_ref(pid).name;
            let why =
                format!("thread `{parent}` forks one more thread, and there are {MAX_FORKED} forked ones already");
            return Some(self.fail(RunError::Workload(why)));
        }
        let Thread { name: parent, affinity, group, attr, .. } = self.thread_ref(pid);
        if attr.policy == Policy::Deadline {
            let task = &self.workload.tasks[task as usize].name;
            let why = format!(
                "thread `{parent}` forks task `{task}`: clone: resource temporarily unavailable (EAGAIN): a SCHED_DEADLINE thread cannot \
                 fork\nfork before the phase that sets the policy, or from another thread"
            );
            return Some(self.fail(RunError::Workload(why)));
        }
        let inherited = Inherited { affinity: affinity.clone(), group: *group, attr: *attr };
        self.forks[task as usize] += 1;
        out.forks.push(Fork { parent: pid, task, number, inherited });
        None
    }

    fn exit(&mut self, pid: Pid) -> Step {
        self.thread(pid).pending = Pending::Dead;
        self.alive -= u32::from(self.is_workload(self.task(pid)));
        Step::Exit
    }

    fn fail(&mut self, error: RunError) -> Step {
        self.failure = Some(error);
        Step::Fail
    }

    // ---- attributes and log ------------------------------------------------------------------------------------------

    /// One of the attributes a thread sets for itself after its delay; nothing is asked for that it has already.
    #[inline(never)]
    fn set_attribute(&mut self, pid: Pid, which: Attribute, now: Ns, out: &mut Effects) -> Option<Step> {
        let task = self.thread(pid).task as usize;
        let TaskSpec { attr, cpus, group, .. } = &self.workload.tasks[task];
        let (attr, group) = (*attr, *group);
        let (step, next) = match which {
            Attribute::Policy => (self.set_attr(pid, attr, out), Pending::Attributes(Attribute::Group)),
            // A task without a group stays where it was born.
            Attribute::Group => {
                let step = if group == 0 { None } else { self.set_group(pid, group) };
                (step, Pending::Attributes(Attribute::Affinity))
            }
            Attribute::Affinity => {
                let cpus = cpus.clone();
                (self.set_affinity(pid, &cpus), self.attributes_set(pid))
            }
        };
        self.thread(pid).pending = next;
        if step.is_some() || next == Pending::Ready { step } else { self.complete(pid, now, out) }
    }

    /// What comes after the attributes.
    fn attributes_set(&mut self, pid: Pid) -> Pending {
        if self.thread(pid).launching { Pending::StartupRest } else { Pending::Ready }
    }

    #[inline(never)]
    fn set_affinity(&mut self, pid: Pid, cpus: &Option<CpuSet>) -> Option<Step> {
        let thread = self.thread(pid);
        let cpus = cpus.as_ref().or(thread.born_on.as_ref());
        let changed = thread.affinity.as_ref() != cpus;
        if changed {
            thread.affinity = cpus.cloned();
        }
        changed.then_some(Step::SetAffinity)
    }

    fn set_group(&mut self, pid: Pid, group: u32) -> Option<Step> {
        let before = std::mem::replace(&mut self.thread(pid).group, group);
        (before != group).then_some(Step::SetGroup)
    }

    /// A clamp that is not given stays as it is.
    #[inline(never)]
    fn set_attr(&mut self, pid: Pid, attr: SchedAttr, out: &mut Effects) -> Option<Step> {
        let thread = self.thread(pid);
        let old = thread.attr;
        thread.attr =
            SchedAttr { util_min: attr.util_min.or(old.util_min), util_max: attr.util_max.or(old.util_max), ..attr };
        if thread.attr == old {
            return None;
        }
        self.update_boost(pid, out);
        Some(Step::SetAttr)
    }

    fn phase_end(
        &mut self,
        pid: Pid,
        c_duration_us: u64,
        c_period_us: u64,
        now: Ns,
        out: &mut Effects,
    ) -> Option<Step> {
        let Phase { began, run_ns, wu_lat_ns, slack_ns } = self.thread(pid).phase;
        let period_ns = now.since(began);
        self.emit(out, Event::RtappStats { pid, wu_lat_ns, run_ns, period_ns, slack_ns });
        self.emit(out, Event::RtappConfigured { pid, c_duration_us, c_period_us });
        None
    }

    fn emit(&self, out: &mut Effects, event: Event) {
        if self.setup.want_program_events {
            out.events.push(event);
        }
    }

    // ---- queries -----------------------------------------------------------------------------------------------------

    /// Is this pid a thread of the workload (housekeeping threads are not)?
    pub fn contains(&self, pid: Pid) -> bool {
        self.threads.get(pid.at()).is_some_and(Option::is_some)
    }
    /// Name of a thread as in a trace, such as `cfs_thread-0`.
    pub fn name(&self, pid: Pid) -> &str {
        &self.thread_ref(pid).name
    }
    /// What its random streams are named after: its task, and its number within that.
    pub fn stream(&self, pid: Pid) -> &str {
        &self.thread_ref(pid).stream
    }
    /// Number of tasks of the workload.
    pub fn nr_tasks(&self) -> u32 {
        self.workload.tasks.len() as u32
    }
    /// A task by index.
    pub fn spec(&self, task: u32) -> &TaskSpec {
        &self.workload.tasks[task as usize]
    }
    /// Index of its task.
    pub fn task(&self, pid: Pid) -> u32 {
        self.thread_ref(pid).task
    }
    /// Its scheduling attributes, without what it inherits.
    pub fn attr(&self, pid: Pid) -> &SchedAttr {
        &self.thread_ref(pid).attr
    }
    /// Who lends it priority.
    pub fn donor(&self, pid: Pid) -> Option<Pid> {
        self.thread_ref(pid).donor
    }
    /// CPUs it is allowed on; `None`: all.
    pub fn affinity(&self, pid: Pid) -> Option<&CpuSet> {
        self.thread_ref(pid).affinity.as_ref()
    }
    /// Its group.
    pub fn group(&self, pid: Pid) -> u32 {
        self.thread_ref(pid).group
    }
    /// Threads of the workload that have not ended.
    pub fn alive(&self) -> u32 {
        self.alive
    }
    /// Why a [`Step::Fail`] was returned.
    pub fn failure(&self) -> Option<&RunError> {
        self.failure.as_ref()
    }

    #[inline]
    fn thread(&mut self, pid: Pid) -> &mut Thread {
        self.threads[pid.at()].as_mut().expect("a thread of the workload")
    }
    #[inline]
    fn thread_ref(&self, pid: Pid) -> &Thread {
        self.threads[pid.at()].as_ref().expect("a thread of the workload")
    }
    fn rank(&self, pid: Pid) -> Rank {
        Rank::of(&self.thread_ref(pid).attr)
    }
}

/// Names and attributes only: the programs live in [`Code`].
fn without_programs(workload: &Workload) -> Workload {
    let mut rest = workload.clone();
    rest.tasks.iter_mut().for_each(|t| t.program.ops = Vec::new());
    rest
}

/// From the last time of the beat `offset`, `offset + period` … until `at`, ns.
fn since_beat(at: u64, period: u64, offset: u64) -> u64 {
    (at % period + period - offset % period) % period
}

/// `ns` after `at`, at most the end of time.
fn later(at: Ns, ns: u64) -> Ns {
    Ns(at.0.saturating_add(ns).min(FOREVER))
}

#[cfg(test)]
mod tests;
