//! The scheduler, in the shape of the kernel's `kernel/sched`.
//!
//! [`Sched`] is the kernel's state: tasks, run queues, domains. Policies read it (they call it [`View`]); scheduling classes
//! change their own queues in it; only `core` moves tasks between CPUs and switches them.

pub mod balance;
pub mod balancing;
pub mod boot;
pub mod class;
pub mod core;
pub mod features;
pub mod group;
pub mod idle;
pub mod interrupts;
pub mod load;
pub mod placement;
pub mod rq;
pub mod rt_balance;
pub mod schedtune;
pub mod stop;
pub mod syscalls;
pub mod task;
pub mod topology;
#[cfg(test)]
pub(crate) mod toy;
pub mod ttwu_queue;
pub mod uclamp;
pub mod view;
pub mod windows;
pub mod worker;

use features::Features;
use rq::{CfsRq, Rq};
use task::{SchedEntity, Task};
use topology::Topology;
use wattif_model::{CpuId, Pid};

/// The state of the kernel under test.
#[derive(Debug)]
pub struct Sched {
    /// `sched_clock()`, ns since the start of the run.
    pub now: u64,
    /// Every thread, by pid; 0 is the idle task.
    pub tasks: Vec<Task>,
    /// Scheduling entities: those of groups first (`group * nr_cpus + cpu`), then one per task from [`Sched::se_of`].
    pub se: Vec<SchedEntity>,
    /// One run queue per CPU.
    pub rqs: Vec<Rq>,
    /// By CPU: counts what may change the signals that governors and placement read: averages that moved, tasks that came or
    /// went, ticks.
    pub signal_versions: Vec<u64>,
    /// CPUs whose run queue may have changed since the balancer last looked (a bit each): every operation on a run queue
    /// first brings its clock up to date, which marks it. Empty where the balancer does not ask.
    pub touched: Vec<u64>,
    /// Fair queues, `group * nr_cpus + cpu`; the first `nr_cpus` are the root queues, so that a CPU's is `cfs[cpu]`.
    pub cfs: Vec<CfsRq>,
    /// Groups; 0 is the root.
    pub groups: Vec<task::TaskGroup>,
    /// Scheduling domains and groups of CPUs.
    pub topology: Topology,
    /// Scheduler features (`/sys/kernel/debug/sched/features`).
    pub features: Features,
    /// Enqueues, picks and refusals of the balancer so far, see [`Task::group_node`].
    pub nr_list_moves: i64,
    /// The balancer takes from the tail of that list, and a pick moves to its head (4.15).
    pub takes_from_tail: bool,
    /// See [`FreqGovernor::hears_own_updates_only`](crate::cpufreq::FreqGovernor::hears_own_updates_only).
    pub cpufreq_hears_own: bool,
    /// Rules of estimated utilisation.
    pub util_est: load::util_est::Generation,
    /// Window-assisted load tracking, beside PELT where the kernel profile asks for it.
    pub walt: Option<load::walt::WaltSystem>,
    /// Boosts by group of tasks; `None` where nothing is boosted.
    pub schedtune: Option<schedtune::Schedtune>,
    /// Requests for idle states that are left soon, and the limit that they make.
    pub cpu_latency: crate::cpuidle::pm_qos::CpuLatency,
    /// Whose woken threads a CPU queues itself.
    pub ttwu_queue: ttwu_queue::Generation,
    /// When an idle CPU stops its tick.
    pub default_idle: crate::cpuidle::default_idle::DefaultIdle,
    /// How long a CPU polls.
    pub poll_time: crate::cpuidle::poll_state::Generation,
    /// Idle governors know which state polls ([`crate::cpuidle::powernv`]).
    pub polling_is_told: bool,
    /// Who takes turns where one of several CPUs will do.
    pub distribute: rq::Distribute,
    /// Length of a tick, ns.
    pub tick_ns: u64,
    /// Run time that a limited group's queue draws at once, ns (`sched_cfs_bandwidth_slice_us`).
    pub bandwidth_slice_ns: u64,
    /// What it drew is void after the period.
    pub bandwidth_slices_expire: bool,
    /// Fair tasks may ask for a slice of their own.
    pub custom_slice: bool,
    /// Whose clamps are heard.
    pub clamped: uclamp::Clamped,
    /// Whether clamps count where a task or a CPU's utilisation is to fit.
    pub uclamp_fits: uclamp::Fits,
    /// Real-time tasks on a CPU from which on one that waits there is pushed and pulled (`rt_rq->overloaded`): 2 until 6.6.
    /// Since 6.7 one that waits and may move will do, be it the only one.
    pub rt_overload: u32,
    /// Real-time tasks look for CPUs that are large enough.
    pub rt_capacity_aware: class::rt::CapacityAware,
    /// Deadline work keeps real-time tasks away (`CPUPRI_HIGHER`).
    pub cpupri_higher: bool,
    /// Rules of the deadline class.
    pub dl_generation: class::deadline::Generation,
    /// Deadline tasks are admitted to capacities, and look for CPUs that are fast enough.
    pub dl_capacity_aware: bool,
    /// Least time between two updates of a group's load by one queue, ns.
    pub tg_load_avg_limit_ns: u64,
    /// What the bandwidth of groups asks of `core`.
    pub bandwidth_notes: Vec<class::bandwidth::Note>,
    /// Ticks per second.
    pub hz: u64,
    /// ⌊(2^64 − 1) / `tick_ns`⌋, see [`Sched::jiffies`].
    pub tick_inverse: u64,
    /// System-wide overload and energy state (`struct root_domain`).
    pub rd: rq::RootDomain,
    /// Timers that classes started or cancelled; `core` carries it out.
    pub hrtimers: Vec<HrtimerRequest>,
}

/// A timer of the real-time or deadline class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hrtimer {
    /// The next period of a throttled deadline task begins.
    Replenish(Pid),
    /// The bandwidth of a sleeping deadline task ends to count.
    Inactive(Pid),
    /// The fair server of the CPU.
    Server,
    /// The budget of the CPU's running deadline task ends (`HRTICK_DL`).
    Hrtick,
    /// Real-time periods.
    RtPeriod,
}

/// Start a timer, or cancel it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HrtimerRequest {
    /// On this CPU, or where it is, to be cancelled.
    pub cpu: CpuId,
    /// Which.
    pub timer: Hrtimer,
    /// When it fires, ns; `None`: cancelled.
    pub at: Option<u64>,
}

/// What a policy sees: everything, to read.
pub type View = Sched;

impl Sched {
    /// Notes that a CPU's run queue is about to change, see [`Sched::touched`].
    #[inline]
    pub(crate) fn mark_touched(&mut self, cpu: CpuId) {
        if let Some(word) = self.touched.get_mut(cpu.at() / 64) {
            *word |= 1 << (cpu.at() % 64);
        }
    }

    /// Something changed that the signals of every CPU hold, see [`Sched::signal_versions`].
    pub(crate) fn all_signals_change(&mut self) {
        self.signal_versions.iter_mut().for_each(|v| *v += 1);
    }

    /// A machine of equal CPUs at full speed, without topology and tasks but the idle one: for tests of classes.
    pub fn bare(nr_cpus: usize, tick_ns: u64) -> Sched {
        let rq = |c| Rq {
            cpu: CpuId(c),
            cpu_capacity_orig: 1024,
            cpu_capacity: 1024,
            freq_cap: 1024,
            uclamp_max: 1024,
            uclamp_idle: true,
            ..Rq::default()
        };
        let mut s = Sched {
            now: 0,
            tasks: vec![Task::default()],
            se: vec![SchedEntity::default(); nr_cpus + 1],
            rqs: (0..nr_cpus as u32).map(rq).collect(),
            signal_versions: vec![1; nr_cpus],
            touched: (0..nr_cpus).step_by(64).map(|first| u64::MAX >> (64 - (nr_cpus - first).min(64))).collect(),
            cfs: vec![CfsRq::default(); nr_cpus],
            groups: vec![task::TaskGroup::root()],
            topology: Topology::default(),
            features: Features::default(),
            nr_list_moves: 0,
            takes_from_tail: true,
            cpufreq_hears_own: false,
            util_est: load::util_est::Generation::default(),
            walt: None,
            schedtune: None,
            cpu_latency: crate::cpuidle::pm_qos::CpuLatency::default(),
            ttwu_queue: ttwu_queue::Generation::default(),
            default_idle: crate::cpuidle::default_idle::DefaultIdle::default(),
            poll_time: crate::cpuidle::poll_state::Generation::default(),
            polling_is_told: true,
            distribute: rq::Distribute::default(),
            tick_ns,
            bandwidth_slice_ns: 5_000_000,
            bandwidth_slices_expire: false,
            custom_slice: true,
            clamped: uclamp::Clamped::Groups,
            uclamp_fits: uclamp::Fits::default(),
            rt_overload: 1,
            rt_capacity_aware: class::rt::CapacityAware::default(),
            cpupri_higher: true,
            dl_generation: class::deadline::Generation::default(),
            dl_capacity_aware: true,
            tg_load_avg_limit_ns: 1_000_000,
            bandwidth_notes: Vec::new(),
            hz: (1_000_000_000 + tick_ns / 2) / tick_ns,
            tick_inverse: u64::MAX / tick_ns,
            rd: rq::RootDomain::default(),
            hrtimers: Vec::new(),
        };
        class::fair::init_groups(&mut s);
        s
    }
    /// Ticks that fit into `ns`. The balancer and wake-ups ask often enough for the division to show.
    #[inline]
    pub fn jiffies(&self, ns: u64) -> u64 {
        // The product with the rounded inverse is exact or one too small.
        let n = ((u128::from(ns) * u128::from(self.tick_inverse)) >> 64) as u64;
        n + u64::from(ns - n * self.tick_ns >= self.tick_ns)
    }
    /// Starts a timer, in place of what it had.
    pub fn start_hrtimer(&mut self, cpu: CpuId, timer: Hrtimer, at: u64) {
        self.hrtimers.push(HrtimerRequest { cpu, timer, at: Some(at) });
    }
    /// Cancels a timer, if it runs.
    pub fn cancel_hrtimer(&mut self, cpu: CpuId, timer: Hrtimer) {
        self.hrtimers.push(HrtimerRequest { cpu, timer, at: None });
    }
    /// Number of CPUs.
    #[inline]
    pub fn nr_cpus(&self) -> usize {
        self.rqs.len()
    }
    /// The entity of a task.
    #[inline]
    pub fn se_of(&self, pid: Pid) -> usize {
        self.groups.len() * self.rqs.len() + pid.at()
    }
    /// The task of a task entity.
    #[inline]
    pub fn task_of(&self, se: usize) -> Option<Pid> {
        se.checked_sub(self.groups.len() * self.rqs.len()).map(|p| Pid(p as u32))
    }
    /// The fair queue of a group's tasks on a CPU.
    #[inline]
    pub fn task_cfs_of(&self, group: u32, cpu: CpuId) -> usize {
        self.cfs_of(self.groups[group as usize].queues_of.unwrap_or(group), cpu)
    }
    /// The fair queue of a group on a CPU.
    #[inline]
    pub fn cfs_of(&self, group: u32, cpu: CpuId) -> usize {
        group as usize * self.rqs.len() + cpu.at()
    }
    /// Moves a task to the head of `rq->cfs_tasks`.
    #[inline]
    pub fn list_move(&mut self, pid: Pid) {
        self.nr_list_moves += 1;
        self.tasks[pid.at()].group_node = self.nr_list_moves;
    }
    /// A picked task is the head, since 4.15.
    #[inline]
    pub fn list_picked(&mut self, pid: Pid) {
        if self.takes_from_tail {
            self.list_move(pid);
        }
    }
    /// The balancer did not take a task: it is moved to where it looks last.
    pub fn list_refused(&mut self, pid: Pid) {
        self.list_move(pid);
        if !self.takes_from_tail {
            self.tasks[pid.at()].group_node = -self.nr_list_moves;
        }
    }
    /// `idle_cpu()`: the idle task runs, nothing is queued, nor about to be.
    #[inline]
    pub fn idle_cpu(&self, cpu: CpuId) -> bool {
        self.rqs[cpu.at()].idle()
    }
    /// `available_idle_cpu()`: idle (no vCPU preemption is modelled).
    #[inline]
    pub fn available_idle_cpu(&self, cpu: CpuId) -> bool {
        self.idle_cpu(cpu)
    }
    /// `sched_idle_cpu()`: at least one task, and every runnable task is of SCHED_IDLE.
    #[inline]
    pub fn sched_idle_cpu(&self, cpu: CpuId) -> bool {
        let rq = &self.rqs[cpu.at()];
        rq.nr_running > 0 && rq.nr_running == self.cfs[cpu.at()].idle_h_nr_running
    }
}

#[cfg(test)]
mod tests {
    use super::Sched;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn jiffies_are_a_quotient(ns in any::<u64>(), tick in 1u64..20_000_000) {
            let s = Sched::bare(1, tick);
            for ns in [ns, ns >> 20, ns / tick * tick, (ns / tick * tick).saturating_sub(1), u64::MAX] {
                prop_assert_eq!(s.jiffies(ns), ns / tick);
            }
        }
    }
}
