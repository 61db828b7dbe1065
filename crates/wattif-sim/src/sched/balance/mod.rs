//! Load balancing: moving tasks between run queues, at the tick, when a CPU is about to go idle, and for idle CPUs
//! whose tick is stopped.
//!
//! # Idea
//! Every CPU looks, domain by domain, for the group of CPUs that needs help most, in it for the busiest CPU, and pulls
//! tasks from there until what it came for is moved. Small domains are looked at often, large ones rarely; a CPU about
//! to go idle looks at once, if that costs less than it expects to idle. A running task cannot be pulled: after several
//! failed passes the other CPU is asked to push it (active balance).
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | load, `runnable_avg`, utilisation of a CPU | load; 0..=1024 | load tracker | PELT updates |
//! | `nr_running`, `h_nr_running`, idle | count | run queues | – |
//! | `capacity_of` | 1..=1024 | what real-time, deadline and interrupts leave of the CPU; until 4.18 by `rt_avg` | here |
//! | `misfit_task_load` | load, 0: none | run queue: of the running task, if it does not fit its CPU (`cpu_util.uclamp_fits`) and (5.12) may run on another, (6.10) on a bigger one | tick, pick |
//! | `avg_idle` | ns | run queue | idle exit |
//! | `nr_balance_failed`, `balance_interval` | count; ms | per CPU and domain | here |
//! | `exec_start` | ns | task: when it last ran | class |
//! | `rd.overloaded`, `rd.overutilized` | yes, no | root domain | enqueue, tick; here |
//!
//! # Decision
//! *When.* `periodic`: when the handler of the tick after `next_balance` is done (a softirq: CPUs that had to switch at the same
//! tick have switched), for each domain whose interval is over: `balance_interval` ms,
//! times `busy_factor` (16; 32 before 5.10) on a busy CPU, where since 5.6 one that runs only SCHED_IDLE tasks is not
//! busy. `newidle`: if some CPU of the machine has a task to give away and `avg_idle` exceeds the cost of looking.
//! With `NI_RANDOM` (6.19, and later stable releases of 6.1 and 6.12) dice decide on top of that, the odds being the share
//! of newly-idle passes that pulled something, of the last 512 to 1024. Of a
//! group only one CPU balances periodically: the first idle one (6.6+: on an idle core), else the first.
//!
//! One pass (`load_balance`):
//! 1. Find the busiest group. Generation `5.4`: by load over capacity. Later ones: by class, from has_spare
//!    over fully_busy, misfit_task, smt_balance, imbalanced to overloaded; see `busiest`. That tasks wait counts in the class since 5.7.
//!    Where the platform states an order of preference (`asym_packing`), an idle CPU of higher priority empties groups of
//!    lower. Where cores share a cache below the last level (`cluster`), those clusters are the groups of the cache's domain,
//!    and tasks are spread over them first.
//! 2. How much to move, and in which unit: load, utilisation, tasks, or a misfit task; see `imbalance`, `by_load`.
//! 3. Find the busiest CPU of the group in that unit.
//! 4. Detach tasks, those first whose last enqueue, pick or refusal is longest ago, while the imbalance lasts, none that is
//!    running, kept away by its affinity, or cache hot (ran within 500 µs), unless passes failed `cache_nice_tries` times;
//!    at most 32. Attach them here.
//! 5. Tasks that only other CPUs of this group may take: go on for those. All of that CPU's tasks pinned: start again
//!    without it.
//! 6. Nothing moved: count a failure (not when newly idle; since 6.10 not for a misfit task either), and for a misfit task, a CPU that lost much of its capacity,
//!    or more than `cache_nice_tries` + 2 failures ask for active balance.
//! 7. The interval: back to the shortest after an imbalance, doubled after balance (since 6.10 not by a pass for a misfit task).
//!    Active balance doubles it too until 5.0, and from 5.1 to 5.11 where nothing but failures asked for it; a newly-idle pass
//!    until 4.20 only (`back_off`).
//!
//! `nohz`: a busy CPU's tick kicks an idle CPU without tick (the first; until 5.1 nobody if the first without tick has woken up) when it has two tasks, lost capacity, has a
//! misfit task, or shares its cache with another busy CPU (the energy-aware 4.9: when it is overutilised by several tasks, or has one
//! that does not fit, alone; where capacities differ, with `asym_kick` `5.2` a busy cache is no reason, and a misfit task only on a
//! CPU that is not of the biggest or lost much of its capacity); that CPU then balances for all idle ones. A kick may also ask
//! only to decay blocked load (every 32 ms; a CPU on its way into idle does so too) or, since 5.15, to see when balancing is due
//! after a CPU has stopped its tick. With `blocked` `passes` (up to 4.16, and `cpu_power`) neither is there: what tasks left on a CPU
//! that sleeps without tick stands until a pass balances for it.
//!
//! Worked example: two CPUs, two always-runnable tasks on CPU 0, CPU 1 goes idle. Group {0} has 2 tasks on 1 CPU and
//! more runnable time than capacity: overloaded; group {1} has spare room; the domain shares its cache, so tasks are
//! counted: (2 − 0)/2 = 1 task; the waiting one moves.
//!
//! # State and cost
//! Interval, failures and cost per CPU and domain; the nohz clock. A pass is O(CPUs of the domain); on machines of many caches
//! only CPUs that changed since the last pass are looked at again (`sums`).
//!
//! # Where it fails
//! It sees averages: a task that just migrated weighs on its old CPU until that is updated. Balancing by load (5.4) leaves
//! a CPU idle while another queues, when few heavy tasks hide many light ones.
//!
//! # Differences from the kernel
//! FIDELITY(balance-cost): what a pass costs is not measured but estimated: the platform's wake-up path, and an eighth of it
//! for each CPU of the domain. A newly-idle pass after which the CPU goes idle takes no time.
//! FIDELITY(numa-balancing): no preferred nodes, no `fbq_type`. FIDELITY(asym-packing): the SMT level has no priorities.
//! There are no vectors for balancing: it is from knowledge of the kernel's behaviour, with unit tests.
//!
//! # Source
//! Linux 5.4, 5.6, 5.7, 6.1, 6.6, 6.12 `kernel/sched/fair.c` (behaviour): `load_balance` (`sched_balance_rq`), `rebalance_domains`
//! (`sched_balance_domains`), `newidle_balance` (`sched_balance_newidle`), `nohz_balancer_kick`, `_nohz_idle_balance`.
//! `asym_kick`: commits b9a7b8831600, a0fe2cf086ae and 9b019acb72e4 (5.2). `back_off`: 3f130a37c442 (5.0), 46a745d90585 (5.1), e9b9734b7465 (5.12). `spread`: 05b40e057734 (4.12). SCHED_IDLE: commit 323af6deaf70 (5.6). Misfit tasks of a machine that is
//! not overutilised: commit e5ed0550c04c (6.2).

mod asym_packing;
mod busiest;
mod by_load;
mod capacity;
pub mod cpu_power;
mod detach;
pub mod group_stats;
mod imbalance;
mod load_balance;
mod nohz;
mod sums;

pub(super) use detach::list_queue;
pub use nohz::Kick;
pub(crate) use sums::has_many_llcs;

use super::load::cpu_load::{cpu_util_cfs, fits_capacity, task_fits_cpu, task_h_load, util_fits_cpu};
use super::placement::cpu_util::Boost;
use super::placement::find_best_target::boosted_task_util;
use super::topology::{Clusters, Misfit};
use super::uclamp::Fits;
use super::{Sched, View};
use crate::registry::{Tunable, meant};
use crate::sched::load::cpu_load::Fit;
use wattif_model::trace::{BalanceChoice, BalancePass};
use wattif_model::{CpuId, Pid};

/// A tunable of every balancer.
const MIGRATION_COST_NS: Tunable = Tunable {
    name: "migration_cost_ns",
    default: "500000",
    allowed: &["0..=4294967295"],
    doc: "a task that ran more recently is cache hot, ns",
};
/// Another: `sysctl_sched_nr_migrate`.
const NR_MIGRATE: Tunable =
    Tunable { name: "nr_migrate", default: "32", allowed: &["0..=4294967295"], doc: "tasks looked at per pass" };

/// Tunables of this policy.
pub const TUNABLES: &[Tunable] = &[
    Tunable {
        name: "generation",
        default: "6.12",
        allowed: &Generation::NAMES,
        doc: "by load (5.4) or by class of groups, with the rules of this kernel",
    },
    MIGRATION_COST_NS,
    NR_MIGRATE,
    Tunable {
        name: "asym_capacity",
        default: "misfit",
        allowed: &["off", "wakeup", "misfit"],
        doc: "different capacities: unknown (before 4.9), known to wake-ups (4.9) and where a group is full (4.10), misfit tasks are moved (4.20)",
    },
    Tunable {
        name: "asym_kick",
        default: "5.2",
        allowed: &["4.10", "5.2"],
        doc: "which busy CPUs of different capacity interrupt an idle one: 4.10: as of equal ones, and all with a misfit task, and only the first CPU without tick, if it is idle; 5.2: not for a busy cache, and not for a task that no CPU would help; the first idle one",
    },
    Tunable {
        name: "fills_room",
        default: "idle",
        allowed: &["newly_idle", "idle"],
        doc: "by load: whose pull is not held back by even loads where its group has room and the other has none: a CPU that becomes idle (until 4.14), any idle one (4.15)",
    },
    Tunable {
        name: "takes_from",
        default: "tail",
        allowed: &["head", "tail"],
        doc: "from which end of a queue's list tasks are taken: head: who was queued last first (until 4.14); tail: whose last enqueue or pick is longest ago (4.15)",
    },
    Tunable {
        name: "back_off",
        default: "never",
        allowed: &BackOff::NAMES,
        doc: "which active balance doubles the interval: always: every one (5.0); newly_idle: that, and balance found by a CPU that becomes idle (until 4.20); tired: that of failed passes alone, not one for a misfit task, asymmetric packing or lost capacity (5.1); never: none (5.12)",
    },
    Tunable {
        name: "spread",
        default: "4.12",
        allowed: &["4.10", "4.12"],
        doc: "by load, whom a level that spreads empties where the local group has room: 4.10: every group of two or more tasks (until 4.11); 4.12: one with at least two more than the local group",
    },
    Tunable {
        name: "stronger",
        default: "first",
        allowed: &["first", "last"],
        doc: "when groups with at most a task for each of their CPUs, which are larger, are left alone: first: before they are compared with others (2026, and stable releases since); last: only among those of one class",
    },
    Tunable {
        name: "blocked",
        default: "kicks",
        allowed: &["kicks", "passes"],
        doc: "what tasks left on CPUs that sleep without tick decays by kicks of its own (4.17), or where a pass balances for them",
    },
    Tunable {
        name: "asym_packing",
        default: "true",
        allowed: &["true", "false"],
        doc: "work goes to the idle CPUs of highest priority, where the platform states priorities (4.10)",
    },
    Tunable {
        name: "cluster",
        default: "6.6",
        allowed: &Clusters::NAMES,
        doc: "a domain of the cores that share a cache below the last level, where the platform has one: on no machine, on all that are not hybrid (5.16), on all (6.6)",
    },
];

/// What the balancer does to the machine; `core` implements it.
///
/// Between two steps the state is consistent: a detached task is on no queue, on its way.
pub trait Transaction {
    /// The state.
    fn view(&self) -> &View;
    /// The state, for what is the balancer's own: `rq.sd`, `next_balance`, `cpu_capacity`, `active_balance`, `push_cpu`,
    /// `max_idle_balance_cost`, `idle_stamp`, `has_blocked_load`, `misfit_task_load`; groups' capacity and imbalance;
    /// `nr_idle_scan`; `rd`.
    fn state(&mut self) -> &mut Sched;
    /// Brings a run queue's clock up to now (`update_rq_clock`).
    fn update_rq_clock(&mut self, cpu: CpuId);
    /// Decays what blocked tasks left on a CPU; true while some is left.
    fn update_blocked_averages(&mut self, cpu: CpuId) -> bool;
    /// Takes a queued task off its CPU, on its way to `dst` (`detach_task`). Only [`LoadBalancer::active_balance`]
    /// detaches the running task.
    fn detach(&mut self, pid: Pid, dst: CpuId);
    /// Queues it there and checks for preemption (`attach_task`).
    fn attach(&mut self, pid: Pid, dst: CpuId);
    /// `src.active_balance` and `push_cpu` were just set: run the stopper there soon, which calls
    /// [`LoadBalancer::active_balance`].
    fn kick_active_balance(&mut self, src: CpuId);
    /// A random number of 0..1024 (`sched_rng`), from the stream of the CPU.
    fn dice(&mut self, cpu: CpuId) -> u32;
    /// The CPU looks at a domain, for as long as the pass costs.
    fn spend(&mut self, pass: BalancePass);
    /// A pass found an imbalance; `choice.moved` says what came of it.
    fn record(&mut self, choice: BalanceChoice);
}

/// A load balancer.
pub trait LoadBalancer {
    /// At the tick, when `now >= rq.next_balance`; `idle`: the tick found the idle task.
    fn periodic(&mut self, txn: &mut impl Transaction, cpu: CpuId, idle: bool);
    /// The CPU has nothing to run. Tasks pulled; sets `idle_stamp` when there are none.
    fn newidle(&mut self, txn: &mut impl Transaction, cpu: CpuId) -> u32;
    /// At the tick of a busy CPU: the idle CPU to interrupt, which then calls [`LoadBalancer::nohz_idle_balance`].
    fn nohz_balancer_kick(&mut self, s: &View, cpu: CpuId) -> Option<Kick>;
    /// On the kicked CPU: balance for all idle CPUs without tick.
    fn nohz_idle_balance(&mut self, txn: &mut impl Transaction, kick: Kick);
    /// A CPU stopped its tick.
    fn nohz_balance_enter_idle(&mut self, s: &mut Sched, cpu: CpuId);
    /// The stopper runs on `src`: push a task, the running one included, to `push_cpu`. True when one was moved.
    fn active_balance(&mut self, txn: &mut impl Transaction, src: CpuId) -> bool;
}

/// `load_balance.generation`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Generation {
    /// The policy `cpu_power`: groups by load over power, room in whole tasks.
    V3_13,
    /// `5.4`: groups by load.
    V5_4,
    /// `5.6`: groups by class; SCHED_IDLE CPUs are not busy.
    V5_6,
    /// `5.7`: runnable time counts in the classes of groups.
    V5_7,
    /// `6.1`: tasks are counted within a cache, active balance only for tasks, limits relax with failures; misfit tasks are helped
    /// although the machine is not overutilised (6.2, in 6.1.192 too).
    V6_1,
    /// `6.6`: cores, SMT groups.
    V6_6,
    /// `6.12`: a pass for a misfit task is no failure and does not lengthen the interval.
    #[default]
    V6_12,
}

impl Generation {
    /// Groups are compared by load, not by class.
    pub(crate) fn is_by_load(self) -> bool {
        self <= Generation::V5_4
    }

    /// The values of the tunable.
    pub const NAMES: [&'static str; 6] = ["5.4", "5.6", "5.7", "6.1", "6.6", "6.12"];

    /// From the tunable's value.
    pub fn parse(name: &str) -> Option<Generation> {
        use Generation::{V5_4, V5_6, V5_7, V6_1, V6_6, V6_12};
        meant(Generation::NAMES, [V5_4, V5_6, V5_7, V6_1, V6_6, V6_12], name)
    }
}

/// `load_balance.back_off`: which active balance doubles the interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackOff {
    /// Every one; and balance, also where a CPU that becomes idle finds it.
    NewlyIdle,
    /// Every one.
    Always,
    /// One that is asked for only because passes failed.
    Tired,
    /// None.
    Never,
}

impl BackOff {
    /// The values of the tunable.
    pub const NAMES: [&'static str; 4] = ["newly_idle", "always", "tired", "never"];

    /// From the tunable's value.
    pub fn parse(name: &str) -> Option<BackOff> {
        meant(BackOff::NAMES, [BackOff::NewlyIdle, BackOff::Always, BackOff::Tired, BackOff::Never], name)
    }
}

/// The kernel's load balancer.
#[derive(Clone, Debug)]
pub struct FairBalancer {
    /// Era.
    pub generation: Generation,
    /// `sysctl_sched_migration_cost`: a task that ran more recently is cache hot, ns.
    pub migration_cost_ns: u64,
    /// `sysctl_sched_nr_migrate`: tasks looked at per pass.
    pub nr_migrate: u32,
    /// `CONFIG_PREEMPTION`: a newly-idle pass takes one task only.
    pub preemption: bool,
    /// Blocked load of CPUs without tick decays between passes, too (4.17 and later).
    pub blocked_kicks: bool,
    /// CPUs of different capacity do not kick for a busy cache or a misfit task that none would help, and all kick the first idle CPU
    /// without tick, not the first without tick or nobody (5.2 and later).
    pub asym_kicks: bool,
    /// By load, any idle CPU fills its group's room, not only one that becomes idle (4.15 and later).
    pub idle_fill_room: bool,
    /// Single tasks on larger CPUs are left alone whatever there is to compare them with (2026).
    pub stronger_first: bool,
    /// By load, a group is lowered to its first task where the local one has room, whatever that runs (up to 4.11).
    pub spreads_pairs: bool,
    /// Which active balance doubles the interval.
    pub back_off: BackOff,
    /// Energy-aware scheduling is on: no balancing unless overutilised.
    pub eas: bool,
    /// `cpu_util_cfs_boost`: how a pull by utilisation counts waiting (6.5+).
    pub boost: Boost,
    /// What a pass over a domain costs, ns.
    pub pass_cost_ns: u64,
    /// The same, for each CPU of the domain, ns.
    pub pass_cost_per_cpu_ns: u64,
    /// Powers of the CPUs; 3.13 only.
    pub power: cpu_power::CpuPower,
    nohz: nohz::Nohz,
    /// Sums over last-level caches.
    sums: sums::Kept,
    /// Tasks of the source queue, in the order in which they are tried.
    candidates: Vec<Pid>,
    /// Tasks on their way.
    detached: Vec<Pid>,
}

impl Default for FairBalancer {
    fn default() -> FairBalancer {
        FairBalancer::new(Generation::default())
    }
}

impl FairBalancer {
    /// Of an era.
    pub fn new(generation: Generation) -> FairBalancer {
        FairBalancer {
            generation,
            migration_cost_ns: 500_000,
            nr_migrate: 32,
            preemption: true,
            blocked_kicks: generation != Generation::V3_13,
            asym_kicks: true,
            idle_fill_room: true,
            stronger_first: true,
            spreads_pairs: false,
            back_off: if generation == Generation::V3_13 { BackOff::NewlyIdle } else { BackOff::Never },
            eas: false,
            boost: Boost::H2,
            pass_cost_ns: 0,
            pass_cost_per_cpu_ns: 0,
            power: cpu_power::CpuPower::default(),
            nohz: nohz::Nohz::default(),
            sums: sums::Kept::default(),
            candidates: Vec::new(),
            detached: Vec::new(),
        }
    }
}

/// Is the destination idle (`enum cpu_idle_type`)?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdleType {
    /// No.
    NotIdle,
    /// Yes, since some time.
    Idle,
    /// It is about to be.
    NewlyIdle,
}

/// What is to be moved, and in which unit (`enum migration_type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Migration {
    /// Load.
    #[default]
    Load,
    /// Utilisation.
    Util,
    /// A number of tasks.
    Task,
    /// A task that does not fit its CPU.
    Misfit,
}

/// `update_misfit_status`: remembers that the running task does not fit its CPU, see [`Misfit`]; `core` calls it for the picked task, at
/// the tick, and with `None` when the CPU goes idle.
#[inline]
pub fn update_misfit_status(s: &mut Sched, cpu: CpuId, running: Option<Pid>) {
    if s.topology.has_misfit {
        set_misfit_status(s, cpu, running);
    }
}

#[inline(never)]
fn set_misfit_status(s: &mut Sched, cpu: CpuId, running: Option<Pid>) {
    let misfit = running.filter(|&pid| is_misfit(s, cpu, pid));
    // Not 0 even where the load rounds to it.
    s.rqs[cpu.at()].misfit_task_load = misfit.map_or(0, |pid| task_h_load(s, pid).max(1));
}

fn is_misfit(s: &View, cpu: CpuId, pid: Pid) -> bool {
    let p = &s.tasks[pid.at()];
    let capacity = |c: CpuId| s.rqs[c.at()].cpu_capacity_orig;
    let bigger = || p.cpus.iter().any(|c| c.at() < s.nr_cpus() && capacity(c) > capacity(cpu));
    let rule = s.topology.misfit;
    let fits = || if s.rd.energy_aware_4_9 { task_fits_max(s, pid, cpu) } else { task_fits_cpu(s, pid, cpu) };
    (p.nr_cpus_allowed > 1 || rule == Misfit::Any) && !fits() && (rule < Misfit::Helpable || bigger())
}

/// The energy-aware 4.9: does it fit with its boost? Where there is nothing much larger, it does.
fn task_fits_max(s: &View, pid: Pid, cpu: CpuId) -> bool {
    !is_much_smaller(s, cpu) || fits_capacity(boosted_task_util(s, pid), u64::from(s.rqs[cpu.at()].cpu_capacity))
}

/// Of less than four fifths of the largest capacity.
fn is_much_smaller(s: &View, cpu: CpuId) -> bool {
    fits_capacity(u64::from(s.rqs[cpu.at()].cpu_capacity), u64::from(s.topology.max_cpu_capacity))
}

/// `cpu_overutilized`: the CPU's utilisation does not fit it, since 6.2 with its clamps.
pub fn cpu_overutilized(s: &View, cpu: CpuId) -> bool {
    is_overutilized(s, cpu, cpu_util_cfs(s, cpu))
}

/// The same of a CPU whose [`cpu_util_cfs`] is known.
fn is_overutilized(s: &View, cpu: CpuId, util: u64) -> bool {
    let rq = &s.rqs[cpu.at()];
    if s.uclamp_fits < Fits::V6_2 {
        return !fits_capacity(util, u64::from(rq.cpu_capacity));
    }
    util_fits_cpu(s, util, u64::from(rq.uclamp_min), u64::from(rq.uclamp_max), cpu) == Fit::No
}

/// Now, cut to the tick.
pub(crate) fn jiffies_ns(s: &View) -> u64 {
    s.jiffies(s.now) * s.tick_ns
}

/// Ticks per second.
pub(crate) fn hz(s: &View) -> u64 {
    s.hz
}

#[cfg(test)]
mod tests;
