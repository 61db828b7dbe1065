//! What runs: threads, each with a program, and the resources they share. One language for rt-app files, for the
//! models and for replayed traces.
//!
//! A [`Workload`] lists tasks in order of creation. A task has `instances` threads, all with the same [`Program`], a list of
//! [`Op`]s with structured jumps. Ids in ops index the tables of the workload.

mod androbench;
mod antutu;
pub mod dist;
mod ebizzy;
mod flaw;
mod frames;
mod game;
mod hackbench;
mod hogs;
mod jankbench;
pub mod models;
mod openmp;
mod pcmark;
mod pgbench;
mod phone;
mod schbench;
mod scroll;
mod server;
mod sleepers;
mod step_response;
mod usecase;
mod video;

use crate::ids::{CpuId, CpuSet};
use crate::units::Ns;
use dist::Dist;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// Most threads of a workload at its start.
pub const MAX_THREADS: u64 = 65_536;
/// Most groups besides the root, the ones between a group and the root included.
pub const MAX_GROUPS: usize = 256;
/// Longest path of a group, bytes.
pub const MAX_PATH: usize = 255;
/// Load weights of a group (`MIN_SHARES`, `MAX_SHARES`).
pub const SHARES: RangeInclusive<u32> = 2..=262_144;
/// Largest quota of a group.
pub const MAX_QUOTA: Ns = Ns::from_s(1000);
/// Longest time in a workload: more than eleven days.
pub const MAX_TIME: Ns = Ns::from_s(1_000_000);

/// Everything that runs on a platform.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Such as `sched_idle`.
    pub name: String,
    /// Its own duration; `None`: until all threads have ended, or the run's limit.
    pub duration: Option<Ns>,
    /// Tasks in order of creation.
    pub tasks: Vec<TaskSpec>,
    /// Mutexes.
    pub mutexes: Vec<Named>,
    /// Mutexes lend priority (`pi_enabled`).
    pub pi_enabled: bool,
    /// The slack of a log line is the sum over the timers of the phase, not that of the last one (`cumulative_slack`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cumulative_slack: bool,
    /// Condition variables.
    pub conds: Vec<Named>,
    /// Barriers.
    pub barriers: Vec<BarrierSpec>,
    /// Semaphores.
    pub semaphores: Vec<SemaphoreSpec>,
    /// Periodic timers; a `shared` one has a single expiry for all threads.
    pub timers: Vec<TimerSpec>,
    /// Device queues.
    pub devices: Vec<DeviceSpec>,
    /// Shared work counters.
    pub counters: Vec<CounterSpec>,
    /// Token queues between tasks.
    pub queues: Vec<QueueSpec>,
    /// Names of marks.
    pub marks: Vec<String>,
    /// By mark: the period of its deadlines, such as the vsync's, for frames per second and missed ones. Shorter than
    /// `marks`: none. Janks are scored of the first mark with a period; later ones are the same frames further down the
    /// pipeline, such as on the screen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mark_periods: Vec<Option<Ns>>,
    /// Groups (cgroups); index 0 is the root, and each stands after the group above it.
    pub groups: Vec<GroupSpec>,
    /// What it is for is to see how signals move: they are told, and the metrics follow them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub follow_signals: bool,
}

/// A resource that has only a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// For diagnostics.
    pub name: String,
}

/// A token queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueSpec {
    /// For diagnostics.
    pub name: String,
    /// Who puts a token there says that it is about to sleep (`WF_SYNC`), as a writer to a pipe or socket does; not a futex.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sync: bool,
}

impl QueueSpec {
    /// One whose wake-ups are not sync.
    pub fn new(name: impl Into<String>) -> QueueSpec {
        QueueSpec { name: name.into(), sync: false }
    }
    /// A pipe or a socket that its reader waits for itself.
    pub fn sync(name: impl Into<String>) -> QueueSpec {
        QueueSpec { name: name.into(), sync: true }
    }
}

/// All `parties` must arrive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BarrierSpec {
    /// For diagnostics.
    pub name: String,
    /// Threads that must arrive.
    pub parties: u32,
}

/// A counting semaphore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SemaphoreSpec {
    /// For diagnostics.
    pub name: String,
    /// Initial value.
    pub initial: u32,
    /// Its wake-ups are sync, see [`QueueSpec::sync`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sync: bool,
    /// When posts count, and whom they wake.
    #[serde(default, skip_serializing_if = "Release::is_each")]
    pub release: Release,
}

impl SemaphoreSpec {
    /// One whose wake-ups are not sync, and whose posts count one by one.
    pub fn new(name: impl Into<String>, initial: u32) -> SemaphoreSpec {
        SemaphoreSpec { name: name.into(), initial, sync: false, release: Release::Each }
    }
}

/// When posts to a semaphore count, and whom they wake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Release {
    /// Each counts at once and wakes one that waits: a futex.
    #[default]
    Each,
    /// Each counts at once. All that wait are woken when that makes at least so many: the space in a socket's buffer.
    AllFrom(u32),
    /// They count in lots of so many, the last one when nothing is taken any more: the pages of a pipe. One that waits is woken
    /// when no whole lot was there before. It needs a whole one, and wakes the next if it leaves another.
    Lots(u32),
}

impl Release {
    /// Left out of the canonical text.
    fn is_each(&self) -> bool {
        *self == Release::Each
    }
}

/// A periodic timer of rt-app's kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimerSpec {
    /// For diagnostics.
    pub name: String,
    /// One expiry for all threads that name it; otherwise each thread has its own.
    pub shared: bool,
}

/// A device with `servers` parallel channels and a FIFO queue; a request blocks its thread until served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceSpec {
    /// `disk`, `gpu`, `network` …
    pub name: String,
    /// Requests served at once.
    pub servers: u32,
    /// Waiting for it counts as I/O wait, as for storage; not for a GPU's fence or the network.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub iowait: bool,
}

fn yes() -> bool {
    true
}

/// Left out of the canonical text.
fn is_yes(value: &bool) -> bool {
    *value
}

/// Work shared by threads: each takes a chunk until none is left (dynamic OpenMP); reset when all were taken and
/// the region's barrier is passed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterSpec {
    /// For diagnostics.
    pub name: String,
    /// Iterations per round.
    pub total: u64,
}

/// A cpu cgroup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupSpec {
    /// Path such as `/background`; the root is `/`.
    pub path: String,
    /// `cpu.weight` as the load weight it stands for: 1024 by default. 0: a group of schedtune's alone, which the cpu controller does not
    /// know; its tasks compete as those of the group above it do.
    pub shares: u32,
    /// `cpu.idle`: the whole group is SCHED_IDLE.
    pub idle: bool,
    /// `cpu.max`: run time of all CPUs together per period; `None`: no limit.
    pub quota: Option<Ns>,
    /// Length of a bandwidth period.
    pub period: Ns,
    /// `cpu.max.burst`: unused quota that may be saved for later.
    pub burst: Ns,
    /// `cpu.uclamp.min`, 0..=1024: utilisation its tasks are raised to at least.
    pub uclamp_min: u16,
    /// `cpu.uclamp.max`, 0..=1024: utilisation its tasks are held to at most; limits `uclamp_min` too.
    pub uclamp_max: u16,
}

impl Workload {
    /// Was it made of a recording, with the background of the machine that was recorded?
    pub fn is_recorded(&self) -> bool {
        self.tasks.iter().any(|t| t.background)
    }
    /// Is it over when its work is done: no length of its own, threads, and none that goes on for ever? Nobody waits for the background.
    pub fn ends_by_itself(&self) -> bool {
        let for_ever = |op: &Op| matches!(op, Op::Loop { count: None, .. });
        let tasks = || self.tasks.iter().filter(|t| !t.background);
        let threads = tasks().any(|t| t.instances > 0);
        self.duration.is_none() && threads && !tasks().any(|t| t.program.ops.iter().any(for_ever))
    }
}

impl GroupSpec {
    /// The root group.
    pub fn root() -> GroupSpec {
        GroupSpec::named("/")
    }
    /// A group with the kernel's defaults.
    pub fn named(path: &str) -> GroupSpec {
        GroupSpec {
            path: path.into(),
            shares: 1024,
            idle: false,
            quota: None,
            period: Ns::from_ms(100),
            burst: Ns::ZERO,
            uclamp_min: 0,
            uclamp_max: 1024,
        }
    }
    /// The load weight of a `cpu.weight` of 1..=10000 (`sched_weight_from_cgroup`).
    pub const fn shares_of_weight(weight: u32) -> u32 {
        (weight * 1024 + 50) / 100
    }
}

/// A task: `instances` threads with one program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskSpec {
    /// Its name; threads are called `name-index`.
    pub name: String,
    /// Threads created at the start; 0: only a template for [`Op::Fork`].
    pub instances: u32,
    /// Its threads are created this long after the common start; timers and the delay count from the common start all the same.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub start: Ns,
    /// Work of each thread before anything else, ns at the calibration CPU's full speed: what starting a process takes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub startup: Ns,
    /// After the common start.
    pub delay: Ns,
    /// Scheduling attributes at the start.
    pub attr: SchedAttr,
    /// Allowed CPUs; `None`: all.
    pub cpus: Option<CpuSet>,
    /// Its threads exist before the common start and ran on this CPU last: they are woken there, not placed as new ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prev_cpu: Option<CpuId>,
    /// Utilisation of such threads at the start, 0..=1024.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub prev_util: u16,
    /// Group it starts in.
    pub group: u32,
    /// Background of a recorded machine: its threads run, and do not count as the workload's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
    /// What its threads do.
    pub program: Program,
}

impl TaskSpec {
    /// The same in a group.
    fn within(self, group: u32) -> TaskSpec {
        TaskSpec { group, ..self }
    }
    /// One thread on any CPU, from the common start on, that does this.
    pub fn new(name: impl Into<String>, ops: Vec<Op>) -> TaskSpec {
        TaskSpec {
            name: name.into(),
            instances: 1,
            start: Ns::ZERO,
            startup: Ns::ZERO,
            delay: Ns::ZERO,
            attr: SchedAttr::default(),
            cpus: None,
            prev_cpu: None,
            prev_util: 0,
            group: 0,
            background: false,
            program: Program { ops },
        }
    }
}

/// The ops that do `body` over and over.
pub fn forever(body: Vec<Op>) -> Vec<Op> {
    let end = body.len() as u32 + 1;
    let mut ops = vec![Op::Loop { count: None, end }];
    ops.extend(body);
    ops.push(Op::LoopEnd { begin: 0 });
    ops
}

/// Left out of the canonical text.
fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Scheduling policy, by the kernel's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Policy {
    /// `SCHED_OTHER`.
    #[default]
    Normal,
    /// `SCHED_BATCH`.
    Batch,
    /// `SCHED_IDLE`.
    Idle,
    /// `SCHED_FIFO`.
    Fifo,
    /// `SCHED_RR`.
    Rr,
    /// `SCHED_DEADLINE`.
    Deadline,
}

impl Policy {
    /// All.
    pub const ALL: [Policy; 6] =
        [Policy::Normal, Policy::Batch, Policy::Idle, Policy::Fifo, Policy::Rr, Policy::Deadline];

    /// By the kernel's name.
    pub fn by_name(name: &str) -> Option<Policy> {
        Policy::ALL.into_iter().find(|p| p.name() == name)
    }
    /// The kernel's name.
    pub const fn name(self) -> &'static str {
        match self {
            Policy::Normal => "SCHED_OTHER",
            Policy::Batch => "SCHED_BATCH",
            Policy::Idle => "SCHED_IDLE",
            Policy::Fifo => "SCHED_FIFO",
            Policy::Rr => "SCHED_RR",
            Policy::Deadline => "SCHED_DEADLINE",
        }
    }
    /// Served by the fair class?
    pub const fn is_fair(self) -> bool {
        matches!(self, Policy::Normal | Policy::Batch | Policy::Idle)
    }
    /// Served by the real-time class?
    pub const fn is_rt(self) -> bool {
        matches!(self, Policy::Fifo | Policy::Rr)
    }
}

/// Weight of each nice value from −20, unscaled: 10 % of CPU time per step (`sched_prio_to_weight`).
#[doc(alias = "sched_prio_to_weight")]
#[rustfmt::skip]
pub const SCHED_PRIO_TO_WEIGHT: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916,
    9548, 7620, 6100, 4904, 3906, 3121, 2501, 1991, 1586, 1277,
    1024, 820, 655, 526, 423, 335, 272, 215, 172, 137,
    110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];

/// `sched_attr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchedAttr {
    /// Policy.
    pub policy: Policy,
    /// Nice value of fair tasks, -20..=19.
    pub nice: i8,
    /// Priority of real-time tasks, 1..=99 (higher wins).
    pub rt_priority: u8,
    /// Deadline: budget. Fair: custom slice, 0 for the default.
    pub runtime: Ns,
    /// Deadline: relative deadline.
    pub deadline: Ns,
    /// Deadline: period.
    pub period: Ns,
    /// `uclamp_min`, 0..=1024; `None`: unchanged.
    pub util_min: Option<u16>,
    /// `uclamp_max`, 0..=1024; `None`: unchanged.
    pub util_max: Option<u16>,
}

/// A list of ops; `pc` starts at 0 and the thread ends after the last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// The ops.
    pub ops: Vec<Op>,
}

/// How much: a fixed number or a draw from a distribution (from the thread's own random stream). Unit by use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Amount {
    /// Always this.
    Fixed(u64),
    /// A draw per execution.
    Random(Dist),
}

/// One step of a program. Durations are ns; "work" is ns at the full speed of the platform's calibration CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Op {
    // ---- executing -----------------------------------------------------------------------------------------------
    /// Work that scales with capacity and frequency (rt-app `run`).
    Run(Amount),
    /// Work that does not (memory, I/O): the same wall time at any frequency while it has the CPU.
    RunInsensitive(Amount),
    /// Spin until this much wall time has passed since the op began, preempted time included (rt-app `runtime`:
    /// checked every `chunk` of work).
    Spin {
        /// Wall time.
        wall: Amount,
        /// Work between two looks at the clock.
        chunk: u64,
    },
    /// Spin up to `spin` wall ns for a token of `queue`, then block for it (adaptive waiting).
    SpinThenBlock {
        /// Longest spin.
        spin: Amount,
        /// Token queue waited on.
        queue: u32,
    },
    // ---- time ----------------------------------------------------------------------------------------------------
    /// Relative sleep.
    Sleep(Amount),
    /// rt-app's timer: sleep until the next expiry; see `spec` of rt-app for relative and absolute.
    Timer {
        /// Index into [`Workload::timers`].
        timer: u32,
        /// Period, ns.
        period: Amount,
        /// A missed expiry is caught up instead of skipped.
        absolute: bool,
    },
    /// The next expiry of a timer counts from the time nearest to now that is `offset` after a multiple of `period` from the
    /// run's start.
    Anchor {
        /// Index into [`Workload::timers`].
        timer: u32,
        /// From one such time to the next, ns; 1: it counts from now.
        period: u64,
        /// ns.
        offset: u64,
    },
    /// Sleep until a display's next vsync, the first multiple of `period` from the run's start plus `offset` that is to come:
    /// one that is late waits for the next.
    Vsync {
        /// From one to the next, ns.
        period: u64,
        /// Of this listener, ns.
        offset: u64,
    },
    // ---- synchronisation -----------------------------------------------------------------------------------------
    /// Take a mutex.
    Lock(u32),
    /// Release it.
    Unlock(u32),
    /// Wait for a condition; the mutex, where given, is released meanwhile.
    Wait {
        /// Condition.
        cond: u32,
        /// Mutex held.
        mutex: Option<u32>,
    },
    /// Wake one waiter; lost if nobody waits.
    Signal(u32),
    /// Wake all waiters; lost if nobody waits.
    Broadcast(u32),
    /// Wait until all parties have arrived.
    Barrier(u32),
    /// Add one to a semaphore.
    SemPost(u32),
    /// Take one from a semaphore.
    SemWait(u32),
    /// Put a token into a queue, stamped with the time (or, when `forward`, with the stamp of the token last got; behind a
    /// [`Op::Timer`] with its expiry, or with when it was found missed).
    Put {
        /// Queue.
        queue: u32,
        /// Keep the stamp of the token this thread got last, or of its timer: a request handed on.
        forward: bool,
    },
    /// Take a token, waiting for one.
    Get(u32),
    /// Move all tokens of one queue to another, as if each were put there in turn.
    Drain {
        /// Queue emptied.
        from: u32,
        /// Queue filled.
        to: u32,
        /// Tokens keep their stamps.
        forward: bool,
    },
    /// Ask a device and block until it has served the request.
    Device {
        /// Device.
        device: u32,
        /// Service time.
        service: Amount,
    },
    /// Take up to `chunk` iterations from a counter; `per_iteration` work each. Jumps to `done` when none is left.
    TakeWork {
        /// Counter.
        counter: u32,
        /// Iterations to take.
        chunk: Chunk,
        /// Work per iteration.
        per_iteration: Amount,
        /// Where to go on when nothing is left.
        done: u32,
    },
    /// Refill a counter (one thread, between regions).
    ResetWork(u32),
    /// `sched_yield`.
    Yield,
    /// The user touches the screen: input that some kernels answer with a boost (schedtune).
    Touch,
    // ---- structure -----------------------------------------------------------------------------------------------
    /// Repeat the ops up to the matching [`Op::LoopEnd`] `count` times (`None`: for ever). Zero skips them.
    Loop {
        /// Times.
        count: Option<u64>,
        /// Index of the matching `LoopEnd`.
        end: u32,
    },
    /// End of a loop; `begin` is the index of its [`Op::Loop`].
    LoopEnd {
        /// Index of the `Loop`.
        begin: u32,
    },
    /// Unconditional jump.
    Jump(u32),
    /// Create a thread of task `task`. CPUs, group and clamps that the task does not name are its parent's.
    Fork(u32),
    /// End the thread.
    Exit,
    // ---- attributes and marks ------------------------------------------------------------------------------------
    /// `sched_setattr`; a no-op when nothing changes.
    SetAttr(SchedAttr),
    /// `sched_setaffinity`; `None`: all CPUs, or those that a forked thread was born with.
    SetAffinity(Option<CpuSet>),
    /// Move to a group.
    SetGroup(u32),
    /// An rt-app phase iteration begins.
    PhaseBegin,
    /// It ends: emits a log line.
    PhaseEnd {
        /// What the file configured: sum of run and runtime, µs.
        c_duration_us: u64,
        /// Sum of timer periods, µs.
        c_period_us: u64,
    },
    /// A unit of work ended: emits [`crate::trace::Event::Mark`]; it began at the stamp of the last token, or at
    /// the last `MarkBegin`.
    Mark(u32),
    /// A unit of work of this thread begins now.
    MarkBegin,
}

/// How many iterations a thread takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Chunk {
    /// This many (OpenMP dynamic).
    Fixed(u64),
    /// Remaining / parties, at least this many (OpenMP guided).
    Guided {
        /// Threads.
        parties: u32,
        /// Smallest chunk.
        min: u64,
    },
}
