//! Bandwidth of deadline tasks: what is admitted, what is active, and what may be reclaimed of the rest.
//!
//! A task's bandwidth is in `this_bw` of its CPU as long as it is of the class, and in `running_bw` while it is active: from
//! its wake-up until its zero-lag time, the moment from which a new budget would be no advantage. What is admitted counts for
//! as long as `DlEntity::admitted`.

use super::rt::RtBandwidth;
use super::util_change;
use crate::sched::rq::DlRq;
use crate::sched::task::{OnRq, State};
use crate::sched::{Hrtimer, Sched};
use wattif_model::workload::Policy;
use wattif_model::{CpuId, CpuSet, Pid};

/// Bandwidth of a CPU.
pub const BW_UNIT: u64 = 1 << 20;

/// `to_ratio`: 2^20 is a whole CPU.
pub fn to_ratio(period: u64, runtime: u64) -> u64 {
    (u128::from(runtime) << 20).checked_div(u128::from(period)).unwrap_or(0) as u64
}

// ---- what is active ------------------------------------------------------------------------------------------------

pub(super) fn add_running_bw(s: &mut Sched, cpu: CpuId, pid: Pid) {
    let rq = &mut s.rqs[cpu.at()];
    rq.dl.running_bw += s.tasks[pid.at()].dl.dl_bw;
    util_change(s, cpu);
}

pub(super) fn sub_running_bw(s: &mut Sched, cpu: CpuId, pid: Pid) {
    let rq = &mut s.rqs[cpu.at()];
    let bw = s.tasks[pid.at()].dl.dl_bw;
    assert!(rq.dl.running_bw >= bw, "bandwidth that was added is taken off");
    rq.dl.running_bw -= bw;
    util_change(s, cpu);
}

pub(super) fn add_rq_bw(s: &mut Sched, cpu: CpuId, pid: Pid) {
    s.rqs[cpu.at()].dl.this_bw += s.tasks[pid.at()].dl.dl_bw;
}

pub(super) fn sub_rq_bw(s: &mut Sched, cpu: CpuId, pid: Pid) {
    let (dl, bw) = (&mut s.rqs[cpu.at()].dl, s.tasks[pid.at()].dl.dl_bw);
    assert!(dl.this_bw >= bw, "bandwidth that was added is taken off");
    dl.this_bw -= bw;
}

/// It wakes up: active again, if it is not still.
pub(super) fn task_contending(s: &mut Sched, cpu: CpuId, pid: Pid, migrated: bool) {
    if s.tasks[pid.at()].dl.dl_runtime == 0 {
        return; // boosted, not of the class
    }
    if migrated {
        add_rq_bw(s, cpu, pid);
    }
    if std::mem::take(&mut s.tasks[pid.at()].dl.non_contending) {
        s.cancel_hrtimer(cpu, Hrtimer::Inactive(pid));
    } else {
        add_running_bw(s, cpu, pid);
    }
}

/// It sleeps, ends or leaves the class: inactive at its zero-lag time, at once if that has passed.
pub(super) fn task_non_contending(s: &mut Sched, cpu: CpuId, pid: Pid) {
    let (task, now) = (&s.tasks[pid.at()], s.rqs[cpu.at()].clock);
    let dl = &task.dl;
    if dl.dl_runtime == 0 {
        return;
    }
    let lag = i128::from(dl.runtime) * i128::from(dl.dl_period) / i128::from(dl.dl_runtime);
    let zero_lag = i128::from(dl.deadline) - lag;
    if zero_lag >= i128::from(now) {
        s.tasks[pid.at()].dl.non_contending = true;
        return s.start_hrtimer(cpu, Hrtimer::Inactive(pid), zero_lag as u64);
    }
    let of_class = task.policy == Policy::Deadline;
    let ends = task.state == State::Dead;
    if of_class {
        sub_running_bw(s, cpu, pid);
    }
    if of_class && ends {
        sub_rq_bw(s, cpu, pid);
    }
    if !of_class || ends {
        release(s, pid);
    }
}

/// The zero-lag time of a task that sleeps, has ended or left the class.
pub fn inactive_task_timer(s: &mut Sched, cpu: CpuId, pid: Pid) {
    let task = &s.tasks[pid.at()];
    let (of_class, ends) = (task.policy == Policy::Deadline, task.state == State::Dead);
    if std::mem::take(&mut s.tasks[pid.at()].dl.non_contending) {
        sub_running_bw(s, cpu, pid);
        if ends {
            sub_rq_bw(s, cpu, pid);
        }
    }
    if !of_class || ends {
        release(s, pid);
    }
}

/// It left the class. A queued one is already off the sums; what it was admitted with is free at its zero-lag time.
pub(super) fn switched_from(s: &mut Sched, cpu: CpuId, pid: Pid) {
    let queued = s.tasks[pid.at()].on_rq == OnRq::Queued;
    if queued {
        task_non_contending(s, cpu, pid);
    } else {
        if s.tasks[pid.at()].dl.non_contending {
            sub_running_bw(s, cpu, pid);
        }
        sub_rq_bw(s, cpu, pid);
    }
    s.tasks[pid.at()].dl.non_contending = false;
}

/// A wakee goes to another CPU: what it still has on the old one comes along.
pub(super) fn migrate_task_rq(s: &mut Sched, pid: Pid) {
    let (cpu, on_rq) = (s.tasks[pid.at()].cpu, s.tasks[pid.at()].on_rq);
    if on_rq != OnRq::No {
        return;
    }
    if std::mem::take(&mut s.tasks[pid.at()].dl.non_contending) {
        sub_running_bw(s, cpu, pid);
        s.cancel_hrtimer(cpu, Hrtimer::Inactive(pid));
    }
    sub_rq_bw(s, cpu, pid);
}

// ---- what is admitted ----------------------------------------------------------------------------------------------

/// `sched_dl_overflow`: is there room for a task of bandwidth `bw` on `cpus`? `Err` has what is taken and what there is.
pub fn sched_dl_overflow(s: &Sched, pid: Pid, bw: u64) -> Result<(), (u64, u64)> {
    let Some(limit) = s.rd.dl_bw else { return Ok(()) };
    let share = to_ratio(limit.period_ns, limit.runtime_ns);
    let cpus = &s.tasks[pid.at()].cpus;
    let all = CpuSet::first(s.nr_cpus());
    for domain in [cpus.and(&all), all] {
        // Kernels that are not aware of capacity count CPUs.
        let of = |c: CpuId| if s.dl_capacity_aware { s.rqs[c.at()].cpu_capacity_orig } else { 1024 };
        let capacity: u64 = domain.iter().map(|c| u64::from(of(c))).sum();
        // Those that can run nowhere else.
        let inside = |t: &&crate::sched::task::Task| t.dl.admitted && t.pid != pid && t.cpus.is_subset(&domain);
        let servers: u64 = domain.iter().map(|c| s.rqs[c.at()].dl.server.bw()).sum();
        let taken = servers + s.tasks.iter().filter(inside).map(|t| t.dl.dl_bw).sum::<u64>();
        let there_is = (share * capacity) >> 10;
        if taken + bw > there_is {
            return Err((taken, there_is));
        }
    }
    Ok(())
}

/// It is admitted; its bandwidth is set.
pub fn admit(s: &mut Sched, pid: Pid) {
    s.tasks[pid.at()].dl.admitted = true;
    update_extra_bw(s);
}

/// Its parameters are gone too (`__dl_clear_params`).
fn release(s: &mut Sched, pid: Pid) {
    let dl = &mut s.tasks[pid.at()].dl;
    (dl.dl_runtime, dl.dl_deadline, dl.dl_period, dl.dl_bw, dl.dl_density) = (0, 0, 0, 0, 0);
    (dl.admitted, dl.deadline, dl.runtime) = (false, 0, 0);
    update_extra_bw(s);
}

/// What admitted tasks leave of each CPU, each task's bandwidth spread over its CPUs. The share that may be admitted is
/// added where it is read.
fn update_extra_bw(s: &mut Sched) {
    let all = CpuSet::first(s.nr_cpus());
    s.rqs.iter_mut().for_each(|rq| rq.dl.extra_bw = 0);
    for task in s.tasks.iter().filter(|t| t.dl.admitted) {
        let cpus = task.cpus.and(&all);
        let part = task.dl.dl_bw as i64 / (cpus.len() as i64).max(1);
        cpus.iter().for_each(|c| s.rqs[c.at()].dl.extra_bw -= part);
    }
}

// ---- what is reclaimed ---------------------------------------------------------------------------------------------

/// The equation of a kernel, with its constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reclaim {
    /// 6.5 and later: at most what may be admitted. Before: a whole CPU.
    pub since_6_5: bool,
    /// Share that may be admitted, 2^20 = 1 CPU.
    pub max_bw: u64,
    /// Its inverse, × 256.
    pub bw_ratio: u64,
}

impl Reclaim {
    /// Under this limit.
    pub fn new(since_6_5: bool, limit: Option<RtBandwidth>) -> Reclaim {
        let max_bw = limit.map_or(BW_UNIT, |l| to_ratio(l.period_ns, l.runtime_ns));
        let bw_ratio = limit.map_or(1 << 8, |l| to_ratio(l.runtime_ns, l.period_ns) >> 12);
        Reclaim { since_6_5, max_bw, bw_ratio }
    }
}

/// `grub_reclaim`: budget that `delta` ns cost: the less, the more of the CPU nobody claims.
pub fn grub_reclaim(rq: &DlRq, dl_bw: u64, r: Reclaim, delta: u64) -> u64 {
    let inactive = rq.this_bw.saturating_sub(rq.running_bw) as i64;
    let unclaimed = inactive + rq.extra_bw + r.max_bw as i64;
    let active = if r.since_6_5 {
        let rest = r.max_bw as i64;
        let act = if unclaimed > rest - dl_bw as i64 { dl_bw as i64 } else { rest - unclaimed };
        (act as u64 * r.bw_ratio) >> 8
    } else {
        let least = (dl_bw * r.bw_ratio) >> 8;
        if unclaimed > BW_UNIT as i64 - least as i64 { least } else { (BW_UNIT as i64 - unclaimed) as u64 }
    };
    ((u128::from(delta) * u128::from(active)) >> 20) as u64
}
