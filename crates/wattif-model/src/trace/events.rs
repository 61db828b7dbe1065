//! The events. Names and fields of the first group are the kernel's tracepoints.

use crate::ids::{ClusterId, CpuId, DomainId, Pid};
use crate::platform::CPUIDLE_STATE_MAX;

/// An enum whose variants have words; in binary formats, numbers in the order in which they are written here.
macro_rules! named {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// All, in the order of their numbers.
            pub const ALL: &[$name] = &[$($name::$variant,)*];

            /// Its word in traces.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }
            /// Its number in traces.
            pub const fn number(self) -> usize {
                self as usize
            }
            /// By its word.
            pub fn by_name(name: &str) -> Option<$name> {
                $name::ALL.iter().copied().find(|v| v.name() == name)
            }
        }
    };
}

/// Why a thread left its CPU (`prev_state` of `sched_switch`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PrevState {
    /// `R`: still runnable (preempted or yielded).
    Running,
    /// `S`: interruptible sleep.
    Sleeping,
    /// `D`: waits for a device.
    DiskSleep,
    /// `X`: ended.
    Dead,
}

impl PrevState {
    /// Does it wait to be woken?
    pub const fn sleeps(self) -> bool {
        matches!(self, PrevState::Sleeping | PrevState::DiskSleep)
    }
    /// As `sched_switch` prints it.
    pub const fn letter(self) -> char {
        match self {
            PrevState::Running => 'R',
            PrevState::Sleeping => 'S',
            PrevState::DiskSleep => 'D',
            PrevState::Dead => 'X',
        }
    }
}

/// One event. 32 bytes or less each, `Copy`: nothing is allocated for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    // ---- tracepoints of the kernel -------------------------------------------------------------------------------
    /// `sched_switch`.
    SchedSwitch {
        /// Who leaves; 0 is the idle task.
        prev_pid: Pid,
        /// Kernel priority 0..=139 (120 is nice 0).
        prev_prio: u8,
        /// Why.
        prev_state: PrevState,
        /// Who comes.
        next_pid: Pid,
        /// Its priority.
        next_prio: u8,
    },
    /// `sched_waking`: the wake-up begins.
    SchedWaking {
        /// Who is woken.
        pid: Pid,
        /// Its priority.
        prio: u8,
        /// CPU it last ran on.
        target_cpu: CpuId,
        /// By an interrupt (a timer, a device): whoever runs on the CPU has nothing to do with it. In a trace this is a
        /// flag of the record (`h` or `s` among the latency flags).
        in_irq: bool,
    },
    /// `sched_wakeup`: it is on a run queue.
    SchedWakeup {
        /// Who.
        pid: Pid,
        /// Its priority.
        prio: u8,
        /// Where.
        target_cpu: CpuId,
        /// As of [`Event::SchedWaking`]; where the waker left it to the target CPU to queue the thread, that CPU's interrupt
        /// is meant.
        in_irq: bool,
    },
    /// `sched_wakeup_new`: a new thread is on a run queue.
    SchedWakeupNew {
        /// Who.
        pid: Pid,
        /// Its priority.
        prio: u8,
        /// Where.
        target_cpu: CpuId,
    },
    /// `sched_migrate_task`.
    SchedMigrateTask {
        /// Who.
        pid: Pid,
        /// Its priority.
        prio: u8,
        /// From.
        orig_cpu: CpuId,
        /// To.
        dest_cpu: CpuId,
    },
    /// `sched_process_fork`.
    SchedProcessFork {
        /// Parent.
        pid: Pid,
        /// Child.
        child_pid: Pid,
    },
    /// `sched_process_exec`: the thread executes another program from now on. Of recordings alone.
    SchedProcessExec {
        /// Who.
        pid: Pid,
    },
    /// `sched_process_exit`.
    SchedProcessExit {
        /// Who.
        pid: Pid,
        /// Its priority.
        prio: u8,
    },
    /// `cpu_idle`: the kernel enters `state`, or leaves idle ([`Event::IDLE_EXIT`]).
    CpuIdle {
        /// State index, or [`Event::IDLE_EXIT`].
        state: u32,
    },
    /// `cpu_idle_miss`: as the kernel's `above`/`below` counters judge the sleep that just ended.
    CpuIdleMiss {
        /// State entered.
        state: u32,
        /// True: a deeper state would have been right (`below`); false: too deep (`above`).
        below: bool,
    },
    /// `tick_stop` with success: the tick of the CPU stops until it has work, or a timer.
    TickStop,
    /// `cpu_frequency` of every CPU of a domain.
    CpuFrequency {
        /// The domain.
        domain: DomainId,
        /// New frequency.
        khz: u32,
        /// Its index in the platform's table.
        opp: u32,
    },
    /// `pelt_cfs`-like signal record of a CPU.
    PeltCfs {
        /// `util_avg`.
        util_avg: u32,
        /// `runnable_avg`.
        runnable_avg: u32,
        /// `load_avg`.
        load_avg: u32,
        /// Sum of `util_est` of queued tasks.
        util_est: u32,
    },
    /// `pelt_se`-like signal record of a task.
    PeltSe {
        /// Who.
        pid: Pid,
        /// `util_avg`.
        util_avg: u32,
        /// `runnable_avg`.
        runnable_avg: u32,
        /// `load_avg`.
        load_avg: u32,
    },

    /// Window-assisted load tracking, where a kernel has it.
    WaltDemand {
        /// Who.
        pid: Pid,
        /// What it asks of a window, of 1024.
        demand: u32,
        /// What all queued tasks of the CPU ask of it, of 1024; may be more.
        cpu_demand: u32,
    },

    // ---- hardware ------------------------------------------------------------------------------------------------
    /// The power level of a CPU changed.
    CpuPower {
        /// New level.
        level: PowerLevel,
    },
    /// The power level of a cluster changed.
    ClusterPower {
        /// Which.
        cluster: ClusterId,
        /// New level.
        level: PowerLevel,
    },

    /// An idle period ended: how long it was, and how late the CPU came out of it.
    IdlePeriod(IdlePeriod),

    // ---- programs ------------------------------------------------------------------------------------------------
    /// A thread came back from a timer: rt-app's `wu_lat`, from the nominal expiry until it reads the clock.
    TimerWake {
        /// Who.
        pid: Pid,
        /// Nominal expiry until the clock was read, ns; 0 when it was late and did not sleep.
        wu_lat_ns: u64,
        /// It came too late to sleep.
        missed: bool,
    },
    /// One line of rt-app's log: a phase iteration ended.
    RtappStats {
        /// Who.
        pid: Pid,
        /// Sum of `wu_lat` over the timers of the phase, ns.
        wu_lat_ns: u64,
        /// Wall time in run events, ns.
        run_ns: u64,
        /// Wall time of the iteration, ns.
        period_ns: u64,
        /// Slack of the last timer, or the sum over the timers (`cumulative_slack`), ns (negative: overrun).
        slack_ns: i64,
    },
    /// The rest of that log line: what was configured.
    RtappConfigured {
        /// Who.
        pid: Pid,
        /// Sum of run and runtime, µs.
        c_duration_us: u64,
        /// Sum of timer periods, µs.
        c_period_us: u64,
    },
    /// A thread begins a step of its program.
    ProgramStep {
        /// Who.
        pid: Pid,
        /// Place of the op in the program of its task.
        op: u32,
    },
    /// A mark of the program: a transaction, request, frame or stage ended.
    Mark {
        /// Who.
        pid: Pid,
        /// What (index into the workload's mark names).
        mark: u32,
        /// When it began (arrival of the request, start of the frame), ns since the start of the run.
        began_ns: u64,
    },
    /// The user touched the screen: a thread has got the input.
    Touch {
        /// Which.
        pid: Pid,
    },
    /// A device has served a request of a thread.
    DeviceDone {
        /// Whose.
        pid: Pid,
        /// Which (index into the workload's devices).
        device: u32,
        /// How long the request waited for others before it, ns.
        queued_ns: u64,
        /// How long the device then took, ns.
        service_ns: u64,
    },

    // ---- groups --------------------------------------------------------------------------------------------------
    /// A thread is in a group now (`cgroup_attach_task`).
    CgroupAttachTask {
        /// Who.
        pid: Pid,
        /// Index into the workload's groups.
        group: u32,
    },
    /// The group's queue of this CPU has used its run time and is taken off.
    CfsThrottle {
        /// Index into the workload's groups.
        group: u32,
    },
    /// It has run time again.
    CfsUnthrottle {
        /// Index into the workload's groups.
        group: u32,
        /// How long tasks waited on it, ns.
        waited_ns: u64,
    },
    /// Bandwidth periods of a group ended.
    CfsPeriod {
        /// Index into the workload's groups.
        group: u32,
        /// How many.
        periods: u32,
        /// A queue of the group was throttled at the end.
        throttled: bool,
        /// Run time used beyond the quota, thanks to the burst, ns.
        burst_ns: u64,
    },

    // ---- jobs ----------------------------------------------------------------------------------------------------
    /// A job of a deadline task ended: the task sleeps, ends or yields, or it was too late for its next timer; or the run ended
    /// and the job was late by then.
    DeadlineJob {
        /// Who.
        pid: Pid,
        /// End of the job less its deadline, ns: above 0, it was missed. The deadline is `dl_deadline` after the job's
        /// release: the time its timer was set to, or else its wake-up.
        lateness_ns: i64,
    },

    // ---- decisions with their inputs -----------------------------------------------------------------------------
    /// A CPU that energy-aware placement weighed; the [`Event::Placement`] it led to follows.
    EnergyCandidate {
        /// Who is placed.
        pid: Pid,
        /// The CPU.
        candidate: EnergyCandidate,
    },
    /// Wake-up, fork or exec placement.
    Placement(Placement),
    /// Frequency governor.
    Frequency(FrequencyChoice),
    /// Idle governor.
    Idle(IdleChoice),
    /// What a weighted idle governor has learned from the last sleep.
    IdleWeights(IdleWeights),
    /// The load balancer moved, or failed to move, tasks.
    Balance(BalanceChoice),

    // ---- cost ----------------------------------------------------------------------------------------------------
    /// The load balancer looked at a domain.
    BalancePass(BalancePass),
    /// It moved so many tasks.
    BalanceMoved {
        /// Tasks.
        tasks: u16,
    },
}

impl Event {
    /// The CPUs that it names.
    pub(super) fn cpus_mut(&mut self) -> [Option<&mut CpuId>; 4] {
        match self {
            Event::SchedWaking { target_cpu, .. }
            | Event::SchedWakeup { target_cpu, .. }
            | Event::SchedWakeupNew { target_cpu, .. } => [Some(target_cpu), None, None, None],
            Event::SchedMigrateTask { orig_cpu, dest_cpu, .. } => [Some(orig_cpu), Some(dest_cpu), None, None],
            Event::EnergyCandidate { candidate, .. } => [Some(&mut candidate.cpu), None, None, None],
            Event::Placement(p) => [&mut p.prev_cpu, &mut p.this_cpu, &mut p.target, &mut p.cpu].map(Some),
            Event::Balance(b) => [Some(&mut b.dst_cpu), Some(&mut b.src_cpu), None, None],
            _ => [None, None, None, None],
        }
    }

    /// `state` of a `cpu_idle` exit.
    pub const IDLE_EXIT: u32 = u32::MAX;
}

/// Power level of a CPU or cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PowerLevel {
    /// Executing, or entering or leaving an idle state.
    Busy,
    /// In this idle state.
    Idle(u8),
}

/// What ended an idle period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IdleCause {
    /// A high-resolution timer.
    Timer,
    /// The tick that was kept.
    Tick,
    /// A device.
    Device,
    /// Another CPU: a wake-up or a request to balance.
    Ipi,
    /// The time limit of a polling state.
    PollLimit,
}

/// One idle period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdlePeriod {
    /// State asked for.
    pub state: u8,
    /// What ended it.
    pub cause: IdleCause,
    /// From the decision until something asked the CPU to wake up, ns.
    pub length_ns: u64,
    /// From then until the CPU executed, ns.
    pub late_ns: u64,
}

named! {
    /// Which rule chose the CPU.
    PlacementReason {
        /// Only one CPU allowed.
        Pinned = "pinned",
        /// `select_idle_sibling`: the target itself was idle.
        TargetIdle = "target_idle",
        /// The previous CPU was idle.
        PrevIdle = "prev_idle",
        /// The recently used CPU was idle.
        RecentIdle = "recent_idle",
        /// A fully idle core.
        IdleCore = "idle_core",
        /// An idle SMT sibling.
        IdleSmt = "idle_smt",
        /// An idle CPU found by the scan.
        IdleScan = "idle_scan",
        /// The CPU runs only SCHED_IDLE tasks.
        SchedIdle = "sched_idle",
        /// An idle CPU with enough capacity.
        IdleCapacity = "idle_capacity",
        /// Nothing idle found: the target of `wake_affine`.
        Target = "target",
        /// `find_idlest_cpu`: shallowest idle CPU.
        Idlest = "idlest",
        /// `find_idlest_cpu`: least loaded CPU.
        LeastLoaded = "least_loaded",
        /// Energy-aware: the cheapest CPU.
        Energy = "energy",
        /// Real-time or deadline placement.
        Priority = "priority",
        /// Energy-aware: the previous CPU, without anything to weigh: the task has no utilisation, or another CPU that it
        /// fits on was not found.
        Unweighed = "unweighed",
        /// `find_best_target`: its target, whatever the energy: idle and the task is boosted or prefers idle CPUs, or the
        /// previous CPU is too small or not allowed.
        BestTarget = "best_target",
        /// `find_best_target`: with its waker, which is about to sleep.
        Waker = "waker",
    }
}

/// A CPU that energy-aware placement weighed for a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnergyCandidate {
    /// The CPU.
    pub cpu: CpuId,
    /// Its utilisation with the task on it, 1024ths.
    pub util: u32,
    /// What it has for fair tasks, 1024ths.
    pub capacity: u32,
    /// The task fits; false: but for its minimum clamp.
    pub fits: bool,
    /// Energy of its frequency domain without the task, in the unit of the kernel's model. Android's 4.9: power of the clusters
    /// concerned if the task stays, µW.
    pub energy: u64,
    /// What the task adds to it there. Android's 4.9: what moving it there changes.
    pub delta: i64,
}

/// A placement with its inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Who is placed.
    pub pid: Pid,
    /// Previous CPU.
    pub prev_cpu: CpuId,
    /// CPU of the waker.
    pub this_cpu: CpuId,
    /// Target after `wake_affine`.
    pub target: CpuId,
    /// Chosen CPU.
    pub cpu: CpuId,
    /// By which rule.
    pub reason: PlacementReason,
    /// CPUs looked at by the scan.
    pub scanned: u16,
    /// Runnable tasks on the chosen CPU before.
    pub nr_running: u16,
}

/// A frequency decision with its inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrequencyChoice {
    /// The domain.
    pub domain: DomainId,
    /// Requested frequency, kHz.
    pub next_khz: u32,
    /// Frequency before, kHz.
    pub prev_khz: u32,
    /// Utilisation the request is for.
    pub util: u32,
    /// `util_avg` of the deciding CPU.
    pub util_avg: u32,
    /// `util_est` of the deciding CPU.
    pub util_est: u32,
    /// `runnable_avg` of the deciding CPU.
    pub runnable_avg: u32,
    /// I/O-wait boost.
    pub iowait_boost: u32,
}

/// An idle decision with its inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleChoice {
    /// Chosen state.
    pub state: u8,
    /// The tick was stopped.
    pub stop_tick: bool,
    /// What the governor expected, ns (`u64::MAX`: no expectation).
    pub predicted_ns: u64,
    /// Time to the next timer, ns (`u64::MAX`: not asked).
    pub sleep_length_ns: u64,
}

/// One row of a weighted governor's matrix: how likely which state would have been right after `entered` was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleWeights {
    /// The state entered.
    pub entered: u8,
    /// How many of `weights` there are.
    pub states: u8,
    /// By state, 1/100 %.
    pub weights: [u16; CPUIDLE_STATE_MAX],
}

/// What a balance pass did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BalanceChoice {
    /// CPU that pulled.
    pub dst_cpu: CpuId,
    /// CPU pulled from.
    pub src_cpu: CpuId,
    /// Tasks moved.
    pub moved: u16,
    /// Which pass.
    pub kind: BalanceKind,
    /// Imbalance that was to be moved, in the unit of `migration`.
    pub imbalance: u32,
}

/// A balance pass over a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BalancePass {
    /// CPUs of the domain.
    pub cpus: u16,
    /// Time of the CPU that it took, ns (estimated).
    pub cost_ns: u32,
}

named! {
    /// Kinds of balance pass.
    BalanceKind {
        /// On the tick.
        Periodic = "periodic",
        /// The CPU is about to go idle.
        NewIdle = "newidle",
        /// For an idle CPU whose tick is stopped.
        Nohz = "nohz",
        /// The stopper pushed the running task.
        Active = "active",
    }
}
