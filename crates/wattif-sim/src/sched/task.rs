//! Tasks and their scheduling entities (`struct task_struct`, `struct sched_entity`, `struct task_group`).

use super::class::bandwidth::CfsBandwidth;
use super::load::pelt::SchedAvg;
use wattif_model::workload::Policy;
use wattif_model::{CpuId, CpuSet, Pid};

/// No entity, no queue.
pub const NONE: usize = usize::MAX;

/// What a thread is doing, from the scheduler's point of view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Created, never woken yet (`TASK_NEW`).
    #[default]
    New,
    /// `TASK_RUNNING`: on a run queue or executing.
    Running,
    /// `TASK_INTERRUPTIBLE`.
    Sleeping,
    /// `TASK_UNINTERRUPTIBLE`: waits for a device.
    DiskSleep,
    /// Ended.
    Dead,
}

/// `p->on_rq`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnRq {
    /// Not on a queue.
    #[default]
    No,
    /// `TASK_ON_RQ_QUEUED`.
    Queued,
    /// `TASK_ON_RQ_MIGRATING`.
    Migrating,
}

/// A thread.
#[derive(Clone, Debug, Default)]
pub struct Task {
    /// Its id.
    pub pid: Pid,
    /// What it is doing.
    pub state: State,
    /// Is it on a queue?
    pub on_rq: OnRq,
    /// `task_cpu()`.
    pub cpu: CpuId,
    /// Its policy.
    pub policy: Policy,
    /// Nice value of a fair task.
    pub nice: i8,
    /// Real-time priority, 1..=99.
    pub rt_priority: u8,
    /// Effective kernel priority, 0 (highest) ..= 139: 99 − rt_priority, 120 + nice, −1 mapped to 0 for deadline;
    /// raised by priority inheritance.
    pub prio: u8,
    /// Priority without inheritance.
    pub normal_prio: u8,
    /// Allowed CPUs.
    pub cpus: CpuSet,
    /// Number of allowed CPUs.
    pub nr_cpus_allowed: u32,
    /// Group (index into `Sched::groups`).
    pub group: u32,
    /// Effective `uclamp_min`, 0..=1024 (`uclamp_eff_value`).
    pub uclamp_min: u32,
    /// Effective `uclamp_max`, 0..=1024.
    pub uclamp_max: u32,
    /// `uclamp_min` and `uclamp_max` asked for (`uclamp_req`); `None`: the default of its policy.
    pub uclamp_req: (Option<u32>, Option<u32>),
    /// Its clamps count on its run queue now.
    pub uclamp_active: bool,
    /// One of the machine's own: a background thread of the platform or of a recording.
    pub housekeeping: bool,
    /// The group of schedtune's that it counts for on its run queue now.
    pub schedtune_group: Option<usize>,
    /// CPU used before the present one (`recent_used_cpu`).
    pub recent_used_cpu: CpuId,
    /// `wakee_flips`.
    pub wakee_flips: u32,
    /// Time of the last halving of `wakee_flips`, ns.
    pub wakee_flip_decay_ts: u64,
    /// `last_wakee`.
    pub last_wakee: Pid,
    /// Real-time state.
    pub rt: RtEntity,
    /// Deadline state.
    pub dl: DlEntity,
    /// `in_iowait`: sleeps for a device.
    pub in_iowait: bool,
    /// Where that sleep counts (`nr_iowait`): a task whose dequeue is delayed may be moved meanwhile.
    pub iowait_cpu: CpuId,
    /// A thread pinned to one CPU by the kernel (per-CPU kthread).
    pub per_cpu_kthread: bool,
    /// CPU whose caches hold its data: where it last ran.
    pub cache_cpu: Option<CpuId>,
    /// The stopper of its CPU (`migration/N`): above every class.
    pub stopper: bool,
    /// Place in `rq->cfs_tasks`: counts enqueues, picks and refusals of the balancer, so that the least is the tail of the
    /// kernel's list. Below 0: put there.
    pub group_node: i64,
    /// When it last left a CPU, rq clock ns; 0 never (cache hotness).
    pub last_ran: u64,
}

impl Task {
    /// `dl_task()`: of the deadline class now, by its policy or by inheritance.
    #[inline]
    pub fn is_dl(&self) -> bool {
        self.policy == Policy::Deadline || self.dl.boosted_by != Pid(0)
    }
    /// Of the real-time class now (`sched_class == &rt_sched_class`); the stopper has such a priority and is not.
    #[inline]
    pub fn is_rt(&self) -> bool {
        self.prio < 100 && !self.is_dl() && !self.stopper
    }
}

/// `struct sched_rt_entity`.
#[derive(Clone, Copy, Debug, Default)]
pub struct RtEntity {
    /// Rest of the round-robin quantum, ticks.
    pub time_slice: u32,
    /// Execution start of the current run, clock_task ns.
    pub exec_start: u64,
    /// Total execution time, ns.
    pub sum_exec_runtime: u64,
    /// Priority and place in the queue that a change of attributes took it from.
    pub saved: Option<(u8, i64)>,
}

/// `struct sched_dl_entity`.
#[derive(Clone, Copy, Debug, Default)]
pub struct DlEntity {
    /// Budget per period, ns.
    pub dl_runtime: u64,
    /// Relative deadline, ns.
    pub dl_deadline: u64,
    /// Period, ns.
    pub dl_period: u64,
    /// Bandwidth `dl_runtime / dl_period`, 2^20 = 1 CPU.
    pub dl_bw: u64,
    /// `dl_runtime / dl_deadline`, 2^20 = 1 CPU.
    pub dl_density: u64,
    /// Rest of the budget, ns; may be negative.
    pub runtime: i64,
    /// Absolute deadline, rq clock ns.
    pub deadline: u64,
    /// Out of budget until the replenishment.
    pub throttled: bool,
    /// It gave up the rest of its budget.
    pub yielded: bool,
    /// Asleep, and its bandwidth counts until the zero-lag time.
    pub non_contending: bool,
    /// Its bandwidth is counted against what may be admitted.
    pub admitted: bool,
    /// The deadline task whose parameters it runs with, waiting for a mutex it holds; 0: its own.
    pub boosted_by: Pid,
    /// When the job after the present sleep is due to begin, ns; `None`: when it is woken.
    pub next_release: Option<u64>,
    /// When the present job was released, ns; `None`: there is none.
    pub release: Option<u64>,
    /// Execution start of the current run, clock_task ns.
    pub exec_start: u64,
    /// Total execution time, ns.
    pub sum_exec_runtime: u64,
}

/// `struct sched_entity`, of a task or of a group on a CPU.
#[derive(Clone, Debug)]
pub struct SchedEntity {
    /// `load.weight`, scaled by 1024 (nice 0: 1 << 20).
    pub weight: u64,
    /// 2^32 / (weight >> 10), or 0 when it must be computed.
    pub inv_weight: u32,
    /// On a fair queue (`se->on_rq`); the running entity too.
    pub on_rq: bool,
    /// Virtual run time, ns of nice 0; wraps.
    pub vruntime: u64,
    /// EEVDF: virtual deadline.
    pub deadline: u64,
    /// EEVDF: lag when off the queue; protected deadline while running.
    pub vlag: i64,
    /// EEVDF: requested slice, ns.
    pub slice: u64,
    /// The slice was asked for by `sched_setattr`.
    pub custom_slice: bool,
    /// EEVDF: dequeue was delayed.
    pub sched_delayed: bool,
    /// EEVDF: `deadline` is relative (after a dequeue that was no sleep).
    pub rel_deadline: bool,
    /// Start of the interval not yet accounted, clock_task ns.
    pub exec_start: u64,
    /// Total execution time, ns.
    pub sum_exec_runtime: u64,
    /// `sum_exec_runtime` when it was picked.
    pub prev_sum_exec_runtime: u64,
    /// Load tracking.
    pub avg: SchedAvg,
    /// `avg` is part of its queue's. (The kernel writes this as `last_update_time != 0`; our clocks may start at 0.)
    pub attached: bool,
    /// Entity of the group this one is queued under ([`NONE`] at the root).
    pub parent: usize,
    /// Queue it is (to be) queued on.
    pub cfs_rq: usize,
    /// Queue it owns, for a group's entity ([`NONE`] for a task).
    pub my_q: usize,
    /// Runnable entities below (group) for `runnable_avg`.
    pub runnable_weight: u64,
    /// SCHED_IDLE task, or a group with `cpu.idle`.
    pub idle: bool,
}

impl Default for SchedEntity {
    fn default() -> SchedEntity {
        SchedEntity {
            weight: 1 << 20,
            inv_weight: 4_194_304,
            on_rq: false,
            vruntime: 0,
            deadline: 0,
            vlag: 0,
            slice: 0,
            custom_slice: false,
            sched_delayed: false,
            rel_deadline: false,
            exec_start: 0,
            sum_exec_runtime: 0,
            prev_sum_exec_runtime: 0,
            avg: SchedAvg::default(),
            attached: false,
            parent: NONE,
            cfs_rq: 0,
            my_q: NONE,
            runnable_weight: 0,
            idle: false,
        }
    }
}

/// `struct task_group`.
#[derive(Clone, Debug)]
pub struct TaskGroup {
    /// Path.
    pub path: String,
    /// Parent group; the root is its own.
    pub parent: u32,
    /// Weight it is entitled to among its siblings, as a load weight (1024 = nice 0).
    pub shares: u64,
    /// `cpu.idle`; it then has the weight of SCHED_IDLE, whatever its shares.
    pub idle: bool,
    /// Σ `tg_load_avg_contrib` of its queues.
    pub load_avg: u64,
    /// Its limit (`cpu.max`); `None`: none.
    pub bandwidth: Option<CfsBandwidth>,
    /// Effective `cpu.uclamp.min` and `cpu.uclamp.max`, 0..=1024.
    pub uclamp: (u32, u32),
    /// The group on whose queues its tasks are, where it has none: a group of schedtune's, which has no shares.
    pub queues_of: Option<u32>,
}

impl TaskGroup {
    /// The root group.
    pub fn root() -> TaskGroup {
        TaskGroup {
            path: "/".to_string(),
            parent: 0,
            shares: 1024,
            idle: false,
            load_avg: 0,
            bandwidth: None,
            uclamp: (1024, 1024),
            queues_of: None,
        }
    }
}
