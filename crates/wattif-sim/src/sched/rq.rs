//! Run queues (`struct rq`, `struct cfs_rq`, …): plain state; the classes and `core` hold the behaviour.

use super::Sched;
use super::class::bandwidth::CfsRqRuntime;
use super::class::rt::RtBandwidth;
use super::class::timeline::{SortedVec, Timeline};
use super::load::pelt::{Pelt, SchedAvg};
use super::load::rt_avg::RtAvg;
use super::task::NONE;
use super::uclamp::UclampRq;
use crate::registry::meant;
use wattif_model::{CpuId, CpuSet, Pid};

/// The run queue of a CPU.
#[derive(Clone, Debug, Default)]
pub struct Rq {
    /// Whose.
    pub cpu: CpuId,
    /// `rq_clock`: sched_clock at the last update, ns.
    pub clock: u64,
    /// `rq_clock_task`: without interrupt time, ns.
    pub clock_task: u64,
    /// Scaled by capacity and frequency, ns.
    pub clock_pelt: u64,
    /// Idle time that saturation swallowed, ns.
    pub lost_idle_time: u64,
    /// `clock` when the CPU became idle.
    pub clock_idle: u64,
    /// `clock_pelt - lost_idle_time` when the CPU became idle.
    pub clock_pelt_idle: u64,
    /// Interrupt time since the last clock update, ns; taken off `clock_task` by it.
    pub irq_pending_ns: u64,
    /// Constants and generation of the load tracker, the same on every CPU.
    pub pelt: Pelt,
    /// `capacity_orig_of`, 1..=1024.
    pub cpu_capacity_orig: u32,
    /// `capacity_of`: what is left for fair tasks.
    pub cpu_capacity: u32,
    /// Capacity lost to a cap on frequency (`hw_load_avg`, `cpufreq_get_pressure`); 0 in a run, recorded decisions have others.
    pub hw_pressure: u32,
    /// `arch_scale_freq_capacity`: current frequency over the highest, × 1024.
    pub freq_cap: u32,
    /// Who executes; 0: the idle task.
    pub curr: Pid,
    /// Runnable tasks of all classes, the running one included.
    pub nr_running: u32,
    /// Threads are on the CPU's wake list, see [`super::ttwu_queue`].
    pub ttwu_pending: bool,
    /// `TIF_NEED_RESCHED` of the running task.
    pub need_resched: bool,
    /// `RQCF_REQ_SKIP`: the switch that is to come goes by the clock of the wake-up that asked for it.
    pub clock_skip_update: bool,
    /// Utilisation changed: `core` calls the frequency governor at the end of the operation.
    pub util_changed: bool,
    /// The last change was that a deadline task ran; kept for kernels up to 4.16 only.
    pub changed_by_deadline: bool,
    /// Real-time queue.
    pub rt: RtRq,
    /// Deadline queue.
    pub dl: DlRq,
    /// CPU that this CPU found last when it looked for one of several, in turn; see [`cpumask_any`].
    pub distribute_cpu_mask_prev: u32,
    /// Utilisation by real-time tasks.
    pub avg_rt: SchedAvg,
    /// Utilisation by deadline tasks.
    pub avg_dl: SchedAvg,
    /// Utilisation by interrupts.
    pub avg_irq: SchedAvg,
    /// What real-time tasks and interrupts take, until 4.18.
    pub rt_avg: RtAvg,
    /// Clock when the CPU last became idle, 0 when it is not.
    pub idle_stamp: u64,
    /// Mean idle time, ns.
    pub avg_idle: u64,
    /// Most that a newly-idle balance may cost, ns.
    pub max_idle_balance_cost: u64,
    /// Idle state the CPU is in, as the kernel knows it (`idle_get_state`).
    pub idle_state: Option<u8>,
    /// Advertised exit latency of that state, ns.
    pub idle_exit_latency_ns: u64,
    /// The tick is stopped (NOHZ).
    pub tick_stopped: bool,
    /// Turns of the idle loop that stopped the tick, or found it stopped (`tick_nohz_get_idle_calls_cpu`).
    pub idle_calls: u64,
    /// Threads that wait for a device and last ran here.
    pub nr_iowait: u32,
    /// Time of the next periodic balance, ns.
    pub next_balance: u64,
    /// Per level, lowest first: which domain, and the state of balancing in it.
    pub sd: Vec<super::topology::SdState>,
    /// The stopper is about to push the running task to `push_cpu`.
    pub active_balance: bool,
    /// Destination of that push.
    pub push_cpu: CpuId,
    /// Load of a running task that does not fit this CPU, 0 otherwise.
    pub misfit_task_load: u64,
    /// Blocked load remains to be decayed although the CPU is idle.
    pub has_blocked_load: bool,
    /// Cost of a wake-up scan in the last-level cache, ns (EWMA).
    pub avg_scan_cost: u64,
    /// Runnable fair tasks by group of schedtune's (`schedtune_cpu.boost_groups`).
    pub schedtune_tasks: [u32; super::schedtune::NR_GROUPS],
    /// Clamps of the runnable tasks, by bucket; the next three are their result.
    pub uclamp: UclampRq,
    /// Maximum of `uclamp_min` over runnable tasks; 0 when none.
    pub uclamp_min: u32,
    /// Maximum of `uclamp_max` over runnable tasks; 1024 when none.
    pub uclamp_max: u32,
    /// No task is runnable: the last `uclamp_max` is kept (`UCLAMP_FLAG_IDLE`).
    pub uclamp_idle: bool,
}

impl Rq {
    /// The idle task runs, nothing is queued, nor about to be (`idle_cpu`).
    #[inline]
    pub fn idle(&self) -> bool {
        self.curr == Pid(0) && self.nr_running == 0 && !self.ttwu_pending
    }
    /// `capacity_curr_of`: its capacity at its present frequency.
    #[inline]
    pub fn capacity_curr(&self) -> u64 {
        (u64::from(self.cpu_capacity_orig) * u64::from(self.freq_cap)) >> 10
    }
    /// `idle_get_state_idx`: −1 in no state, which is shallower than any.
    #[inline]
    pub fn idle_state_idx(&self) -> i32 {
        self.idle_state.map_or(-1, i32::from)
    }
}

/// The fair queue of a group on a CPU.
#[derive(Clone, Debug)]
pub struct CfsRq {
    /// Which CPU.
    pub cpu: CpuId,
    /// Which group.
    pub group: u32,
    /// The group's entity on this CPU ([`NONE`] for a root queue).
    pub se: usize,
    /// Σ weight of queued entities, scaled by 1024.
    pub load_weight: u64,
    /// Entities queued, the running one included.
    pub nr_queued: u32,
    /// Tasks queued here and below (`h_nr_running`; `h_nr_queued` since 6.13 and in 6.12.y).
    pub h_nr_running: u32,
    /// Of these, tasks with a delayed dequeue.
    pub h_nr_delayed: u32,
    /// SCHED_IDLE tasks, or tasks of idle groups, queued here and below.
    pub idle_h_nr_running: u32,
    /// SCHED_IDLE entities queued directly here.
    pub idle_nr_running: u32,
    /// Running entity ([`NONE`]: none).
    pub curr: usize,
    /// Buddies of CFS.
    pub next: usize,
    /// Buddies of CFS.
    pub last: usize,
    /// Buddies of CFS.
    pub skip: usize,
    /// CFS: monotonic lower bound of vruntime.
    pub min_vruntime: u64,
    /// EEVDF: reference point of the sums.
    pub zero_vruntime: u64,
    /// EEVDF: Σ weight · (vruntime − zero) of entities in the tree.
    pub sum_wkey: i64,
    /// EEVDF: Σ weight of entities in the tree.
    pub sum_w: u64,
    /// Entities in picking order, without the running one.
    pub tree: Timeline,
    /// Load tracking.
    pub avg: SchedAvg,
    /// Load of tasks that left while blocked, to be folded in at the next update.
    pub removed: Removed,
    /// This queue's part of the group's load.
    pub tg_load_avg_contrib: u64,
    /// When that was last updated, ns.
    pub last_update_tg_load_avg: u64,
    /// A change below has to be carried into the group's entity.
    pub propagate: bool,
    /// Σ runnable time to carry with it.
    pub prop_runnable_sum: i64,
    /// Bandwidth of a limited group.
    pub runtime: CfsRqRuntime,
}

impl Default for CfsRq {
    fn default() -> CfsRq {
        CfsRq {
            cpu: CpuId(0),
            group: 0,
            se: NONE,
            load_weight: 0,
            nr_queued: 0,
            h_nr_running: 0,
            h_nr_delayed: 0,
            idle_h_nr_running: 0,
            idle_nr_running: 0,
            curr: NONE,
            next: NONE,
            last: NONE,
            skip: NONE,
            // The kernel starts just below the wrap to find code that forgets it.
            min_vruntime: (1u64 << 20).wrapping_neg(),
            zero_vruntime: (1u64 << 20).wrapping_neg(),
            sum_wkey: 0,
            sum_w: 0,
            tree: Timeline::default(),
            avg: SchedAvg::default(),
            removed: Removed::default(),
            tg_load_avg_contrib: 0,
            last_update_tg_load_avg: 0,
            propagate: false,
            prop_runnable_sum: 0,
            runtime: CfsRqRuntime { throttled_pelt_idle: Some(0), ..CfsRqRuntime::default() },
        }
    }
}

/// `cfs_rq->removed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// How many tasks.
    pub nr: u32,
    /// Σ of their `load_avg`.
    pub load_avg: u64,
    /// Σ of their `util_avg`.
    pub util_avg: u64,
    /// Σ of their `runnable_avg`.
    pub runnable_avg: u64,
}

/// Real-time queue: a FIFO per priority.
#[derive(Clone, Debug, Default)]
pub struct RtRq {
    /// `(prio, order, pid)` in picking order, the running task included.
    pub queue: SortedVec<(u8, i64, Pid)>,
    /// Order number last given at the tail.
    tail: i64,
    /// Order number last given at the head; counts down.
    head: i64,
    /// Tasks queued, throttled or not.
    pub rt_nr_running: u32,
    /// Run time not yet forgiven, ns.
    pub rt_time: u64,
    /// Budget of the present period, ns.
    pub rt_runtime: u64,
    /// Budget used up: nobody of this queue runs, and none counts in `nr_running`.
    pub throttled: bool,
}

impl RtRq {
    /// A place behind all of a priority.
    pub fn next_tail(&mut self) -> i64 {
        self.tail += 1;
        self.tail
    }
    /// A place before all of a priority.
    pub fn next_head(&mut self) -> i64 {
        self.head -= 1;
        self.head
    }
}

/// Deadline queue.
#[derive(Clone, Debug, Default)]
pub struct DlRq {
    /// `(deadline, order, pid)` in picking order, the running task included; the idle task's pid is the fair server.
    pub queue: SortedVec<(u64, u64, Pid)>,
    /// Order number last given.
    pub order: u64,
    /// Tasks queued, and the server.
    pub dl_nr_running: u32,
    /// Σ bandwidth of active tasks, 2^20 = 1 CPU: queued, throttled, or asleep before their zero-lag time.
    pub running_bw: u64,
    /// Σ bandwidth of the tasks that belong to this CPU, asleep or not.
    pub this_bw: u64,
    /// Bandwidth that admitted tasks leave on this CPU, may be negative (GRUB).
    pub extra_bw: i64,
    /// Serves fair tasks that starve.
    pub server: super::class::dl_server::FairServer,
}

/// Who takes turns where one of several CPUs will do (`select_task_rq_fair.affinity`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distribute {
    /// `off`: nobody; each takes the first, until 5.6.
    Off,
    /// `5.7`: changes of affinity.
    Affinity,
    /// `5.11`: and real-time and deadline tasks that are pushed.
    #[default]
    Pushes,
}

impl Distribute {
    /// The values of the tunable.
    pub const NAMES: [&'static str; 3] = ["off", "5.7", "5.11"];

    /// From the tunable's value.
    pub fn parse(name: &str) -> Option<Distribute> {
        meant(Distribute::NAMES, [Distribute::Off, Distribute::Affinity, Distribute::Pushes], name)
    }
}

/// One of several CPUs, however busy they are: the first; or where these take turns (`since`) the one after that which `this_cpu`
/// found last, round and round, so that many do not all go to one.
#[doc(alias = "cpumask_any_distribute")]
#[doc(alias = "cpumask_any_and_distribute")]
pub fn cpumask_any(s: &mut Sched, this_cpu: CpuId, mask: &CpuSet, since: Distribute) -> Option<CpuId> {
    if s.distribute < since {
        return mask.min();
    }
    let prev = &mut s.rqs[this_cpu.at()].distribute_cpu_mask_prev;
    let next = mask.iter().find(|c| c.0 > *prev).or_else(|| mask.min())?;
    *prev = next.0;
    Some(next)
}

/// `struct root_domain`.
#[derive(Clone, Copy, Debug, Default)]
pub struct RootDomain {
    /// Some CPU has more than one task, or a misfit one.
    pub overloaded: bool,
    /// Energy-aware placement is there (`sched_energy_enabled`).
    pub energy_aware: bool,
    /// Some CPU's utilisation does not fit its capacity; not looked at without energy-aware placement.
    pub overutilized: bool,
    /// Android's 4.9: a task that is moved to a CPU may show that it is overutilized, as one that wakes does; and with
    /// energy-aware placement a CPU that goes idle looks for tasks however soon it is back, which shows that no CPU is
    /// overutilized any more.
    pub energy_aware_4_9: bool,
    /// Some task or group has utilisation clamps (`uclamp_is_used`).
    pub uclamp_used: bool,
    /// CPUs with so many real-time tasks that one might be pulled, see [`rt_overload`](super::Sched::rt_overload) (`rto_count`).
    pub rto_count: u32,
    /// Where the interrupt of `RT_PUSH_IPI` is, or on its way to.
    pub rto_cpu: Option<CpuId>,
    /// It is to go round once more (`rto_loop_next`).
    pub rto_again: bool,
    /// The limit of the real-time class, where this kernel has one.
    pub rt_bandwidth: Option<RtBandwidth>,
    /// When the present real-time period ends, ns; `None`: its timer does not run.
    pub rt_period_expires: Option<u64>,
    /// What deadline tasks are admitted to; `None`: no limit.
    pub dl_bw: Option<RtBandwidth>,
    /// Shortest and longest period of a deadline task, ns.
    pub dl_period_ns: (u64, u64),
}
