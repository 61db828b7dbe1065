//! Where deadline tasks go: at wake-up, and when they wait behind an earlier deadline (`cpudeadline.c`, push and pull).

use super::rt::{Push, allowed, nearest};
use crate::sched::Sched;
use crate::sched::placement::{Choice, Request};
use crate::sched::task::OnRq;
use wattif_model::trace::PlacementReason;
use wattif_model::{CpuId, CpuSet, Pid};

/// `select_task_rq_dl`.
pub fn select_task_rq(s: &mut Sched, req: &Request) -> Choice {
    let (pid, prev) = (req.pid, allowed(s, req));
    let (task, curr) = (&s.tasks[req.pid.at()], &s.tasks[s.rqs[prev.at()].curr.at()]);
    let earlier = task.dl.deadline < curr.dl.deadline;
    let blocked = curr.pid != Pid(0) && curr.is_dl() && (curr.nr_cpus_allowed < 2 || !earlier);
    let mut cpu = prev;
    if task.nr_cpus_allowed > 1 && (blocked || !fits_capacity(s, pid, prev)) {
        let target = find_later_rq(s, pid, req.this_cpu);
        cpu = target.filter(|&c| is_earliest(s, pid, c)).unwrap_or(prev);
    }
    Choice { cpu, reason: PlacementReason::Priority, target: cpu, scanned: 0 }
}

/// `dl_task_fits_capacity`: its budget before its deadline, on a CPU of this size. Kernels that are not aware of capacity do
/// not ask.
fn fits_capacity(s: &Sched, pid: Pid, cpu: CpuId) -> bool {
    let (dl, capacity) = (&s.tasks[pid.at()].dl, u64::from(s.rqs[cpu.at()].cpu_capacity_orig));
    !s.dl_capacity_aware || (dl.dl_deadline >> 10).wrapping_mul(capacity) >= dl.dl_runtime
}

/// `dl_task_is_earliest_deadline`: it would run at once there.
fn is_earliest(s: &Sched, pid: Pid, cpu: CpuId) -> bool {
    s.rqs[cpu.at()].dl.queue.first().is_none_or(|e| s.tasks[pid.at()].dl.deadline < e.0)
}

/// `cpudl_find`: the CPUs without deadline work, those large enough if there are any, else the largest; if there are none,
/// the CPU with the latest deadline, if the task's own is earlier.
fn cpudl_find(s: &Sched, pid: Pid) -> CpuSet {
    let task = &s.tasks[pid.at()];
    let (mut found, mut free) = (CpuSet::default(), CpuSet::default());
    let mut all = task.cpus.iter().filter(|&c| c.at() < s.rqs.len());
    all.by_ref().filter(|&c| s.rqs[c.at()].dl.queue.is_empty()).for_each(|c| free.insert(c));
    if free.is_empty() {
        let latest = s.rqs.iter().filter_map(|rq| rq.dl.queue.first().map(|e| (e.0, rq.cpu))).max();
        if let Some((deadline, cpu)) = latest
            && task.cpus.contains(cpu)
            && task.dl.deadline < deadline
        {
            found.insert(cpu);
        }
        return found;
    }
    free.iter().filter(|&c| fits_capacity(s, pid, c)).for_each(|c| found.insert(c));
    if found.is_empty() {
        let size = |c: &CpuId| (s.rqs[c.at()].cpu_capacity_orig, *c == task.cpu, std::cmp::Reverse(*c));
        free.iter().max_by_key(size).into_iter().for_each(|c| found.insert(c));
    }
    found
}

/// Is there another CPU where it could run?
pub(super) fn can_move(s: &Sched, pid: Pid) -> bool {
    s.tasks[pid.at()].nr_cpus_allowed > 1 && !cpudl_find(s, pid).is_empty()
}

/// `find_later_rq`.
fn find_later_rq(s: &mut Sched, pid: Pid, this_cpu: CpuId) -> Option<CpuId> {
    let later = cpudl_find(s, pid);
    nearest(s, pid, this_cpu, &later)
}

/// The earliest deadline that waits on `cpu` and may move, and where it would run at once.
pub fn push_dl_task(s: &mut Sched, cpu: CpuId, this_cpu: CpuId) -> Push {
    let rq = &s.rqs[cpu.at()];
    let Some(pid) = rq.dl.queue.iter().map(|e| e.2).find(|&p| is_pushable(s, cpu, p)) else { return Push::Nothing };
    let curr = &s.tasks[rq.curr.at()];
    if curr.is_dl() && s.tasks[pid.at()].dl.deadline < curr.dl.deadline && curr.nr_cpus_allowed > 1 {
        return Push::Resched;
    }
    match find_later_rq(s, pid, this_cpu) {
        Some(to) if to != cpu && is_earliest(s, pid, to) => Push::Move(pid, to),
        _ => Push::Nothing,
    }
}

/// A task that waits on `from` and would run at once on `cpu`: the earliest, unless it is about to run where it is.
pub fn pull_dl_task(s: &Sched, cpu: CpuId, from: CpuId) -> Option<Pid> {
    let src = &s.rqs[from.at()];
    if from == cpu || src.dl.dl_nr_running < 2 {
        return None;
    }
    let mine = |p: Pid| is_pushable(s, from, p) && s.tasks[p.at()].cpus.contains(cpu);
    let pid = src.dl.queue.iter().map(|e| e.2).find(|&p| mine(p))?;
    let curr = &s.tasks[src.curr.at()];
    let runs_next = curr.is_dl() && s.tasks[pid.at()].dl.deadline < curr.dl.deadline;
    (is_earliest(s, pid, cpu) && !runs_next).then_some(pid)
}

fn is_pushable(s: &Sched, cpu: CpuId, pid: Pid) -> bool {
    let task = &s.tasks[pid.at()];
    pid != Pid(0) && s.rqs[cpu.at()].curr != pid && task.nr_cpus_allowed > 1 && task.on_rq == OnRq::Queued
}
