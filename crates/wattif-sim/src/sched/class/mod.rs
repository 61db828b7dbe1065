//! Scheduling classes, shaped like the kernel's `struct sched_class`.
//!
//! A class holds its tunables; its run queues live in [`Sched`] (`rq.rt`, `rq.dl`, `cfs`), and it changes nothing else there
//! but the entities of its own tasks, `rq.need_resched`, `rq.nr_running` and `rq.util_changed`.
//! `core` updates the rq clock before it calls a class, as the kernel does.

pub mod bandwidth;
pub mod cfs;
pub mod deadline;
pub mod dl_bandwidth;
pub mod dl_placement;
pub mod dl_server;
pub mod eevdf;
pub mod fair;
pub mod rt;
pub mod timeline;
pub mod weight;

use super::Sched;
use wattif_model::{CpuId, Pid};

/// Flags of an enqueue (`ENQUEUE_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Enqueue {
    /// The task wakes up.
    pub wakeup: bool,
    /// It was moved to this CPU by the wake-up.
    pub migrated: bool,
    /// It is new.
    pub initial: bool,
    /// The CPU's estimate has gained the task's already.
    pub estimated: bool,
    /// Undo of a dequeue for a change of attributes.
    pub restore: bool,
    /// EEVDF: it is still queued, with a delayed dequeue.
    pub delayed: bool,
    /// Its priority was lowered: before its new equals.
    pub head: bool,
    /// Deadline: with a new budget (`ENQUEUE_REPLENISH`).
    pub replenish: bool,
}

/// Flags of a dequeue (`DEQUEUE_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dequeue {
    /// The task goes to sleep.
    pub sleep: bool,
    /// Temporary, for a change of attributes.
    pub save: bool,
    /// And with another place in the queue afterwards (`DEQUEUE_MOVE`): its priority or group is what changes.
    pub moved: bool,
    /// EEVDF: complete a delayed dequeue.
    pub delayed: bool,
    /// EEVDF: do not delay it.
    pub special: bool,
}

/// Real-time or deadline tasks came, went or were throttled: since 4.16 the governor hears of that.
fn util_change(s: &mut Sched, cpu: CpuId) {
    s.rqs[cpu.at()].util_changed |= !s.cpufreq_hears_own;
}

/// One of them ran: until 4.16 the governor hears of them where their time is accounted, and of what class they are.
#[doc(alias = "SCHED_CPUFREQ_DL")]
fn util_ran(s: &mut Sched, cpu: CpuId, deadline: bool) {
    if s.cpufreq_hears_own {
        let rq = &mut s.rqs[cpu.at()];
        (rq.util_changed, rq.changed_by_deadline) = (true, deadline);
    }
}

/// A scheduling class.
pub trait SchedClass {
    /// Queue a task. `rq.nr_running` is counted here.
    fn enqueue_task(&self, s: &mut Sched, cpu: CpuId, pid: Pid, flags: Enqueue);
    /// Take a task off its queue; false when EEVDF delayed it (it then stays on the queue, asleep).
    fn dequeue_task(&self, s: &mut Sched, cpu: CpuId, pid: Pid, flags: Dequeue) -> bool;
    /// `sched_yield` of the running task.
    fn yield_task(&self, s: &mut Sched, cpu: CpuId);
    /// A task of this class was queued while `rq.curr` runs: should it preempt? Sets `rq.need_resched`.
    fn wakeup_preempt(&self, s: &mut Sched, cpu: CpuId, pid: Pid, fork: bool);
    /// The next task to run, without changing who runs; completing delayed dequeues is allowed.
    fn pick_task(&self, s: &mut Sched, cpu: CpuId) -> Option<Pid>;
    /// The running task leaves the CPU (still queued or not).
    fn put_prev_task(&self, s: &mut Sched, cpu: CpuId, pid: Pid);
    /// A task gets the CPU (`first`), or keeps it after a change of attributes.
    fn set_next_task(&self, s: &mut Sched, cpu: CpuId, pid: Pid, first: bool);
    /// Both at once, for two tasks of this class: what they share (groups) keeps running.
    fn put_prev_set_next_task(&self, s: &mut Sched, cpu: CpuId, prev: Pid, next: Pid) {
        if prev != next {
            self.put_prev_task(s, cpu, prev);
            self.set_next_task(s, cpu, next, true);
        }
    }
    /// The tick found the task running. May set `rq.need_resched`.
    fn task_tick(&self, s: &mut Sched, cpu: CpuId, pid: Pid);
    /// Account the running task up to now.
    fn update_curr(&self, s: &mut Sched, cpu: CpuId);
    /// A new task is about to be placed; `pid.cpu` is set.
    fn task_fork(&self, _s: &mut Sched, _pid: Pid) {}
    /// A sleeping or waking task is about to change to `new_cpu`; its old queue is not locked (`migrate_task_rq`).
    fn migrate_task_rq(&self, _s: &mut Sched, _pid: Pid, _new_cpu: CpuId) {}
    /// Its nice value or fair policy changed; it is off its queue, or was never on one (`reweight_task`).
    fn reweight_task(&self, _s: &mut Sched, _pid: Pid) {}
    /// Its priority changed while queued.
    fn prio_changed(&self, s: &mut Sched, cpu: CpuId, pid: Pid, old_prio: u8);
    /// It came from another class and is queued.
    fn switched_to(&self, s: &mut Sched, cpu: CpuId, pid: Pid);
    /// The period timer of a limited group fired on `cpu` (`sched_cfs_period_timer`).
    fn cfs_period_timer(&self, _s: &mut Sched, _group: u32, _cpu: CpuId) {}
    /// Its slack timer fired (`sched_cfs_slack_timer`).
    fn cfs_slack_timer(&self, _s: &mut Sched, _group: u32) {}
    /// It left for another class.
    fn switched_from(&self, _s: &mut Sched, _cpu: CpuId, _pid: Pid) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn until_4_16_the_governor_hears_of_real_time_and_deadline_tasks_where_they_have_run() {
        let cpu = CpuId(0);
        for hears_own in [true, false] {
            let mut s = Sched::bare(1, 4_000_000);
            s.cpufreq_hears_own = hears_own;
            util_change(&mut s, cpu);
            assert_eq!(std::mem::take(&mut s.rqs[0].util_changed), !hears_own, "came or went");
            for deadline in [true, false] {
                util_ran(&mut s, cpu, deadline);
                let rq = &mut s.rqs[0];
                let heard = (std::mem::take(&mut rq.util_changed), rq.changed_by_deadline);
                assert_eq!(heard, (hears_own, hears_own && deadline));
            }
        }
    }
}
