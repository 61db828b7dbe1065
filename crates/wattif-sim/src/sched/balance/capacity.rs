//! Capacity of CPUs and groups: what other classes and interrupts leave for fair tasks.

use super::load_balance::{max_interval, msecs_to_jiffies};
use super::{hz, jiffies_ns};
use crate::sched::load::cpu_load::get_actual_cpu_capacity;
use crate::sched::{Sched, View};
use wattif_model::CpuId;

/// `scale_rt_capacity`: at least 1. Until 4.18 it is for [`rt_avg`](crate::sched::load::rt_avg) to say what others take.
pub(super) fn scale_rt_capacity(s: &View, cpu: CpuId) -> u64 {
    let rq = &s.rqs[cpu.at()];
    let max = get_actual_cpu_capacity(s, cpu);
    if let Some(left) = rq.rt_avg_leaves() {
        return (max * left / 1024).max(1);
    }
    let (irq, used) = (rq.avg_irq.util_avg, rq.avg_rt.util_avg + rq.avg_dl.util_avg);
    if irq >= max || used >= max {
        return 1;
    }
    ((max - used) * (max - irq) / max).max(1)
}

/// `update_group_capacity`: the CPU's own group, from the groups below it, or from the CPU's `of_cpu` at the lowest level.
#[doc(alias = "update_group_power")]
pub(super) fn update_group_capacity(s: &mut Sched, cpu: CpuId, level: usize, of_cpu: impl Fn(&View, CpuId) -> u64) {
    let sd = &s.rqs[cpu.at()].sd[level];
    let (domain, local, interval_ms) = (sd.domain, sd.local_group, sd.balance_interval_ms);
    let interval = msecs_to_jiffies(interval_ms, hz(s)).clamp(1, max_interval(s));
    let next_update = jiffies_ns(s) + interval * s.tick_ns;
    let (capacity, min, max) = match level.checked_sub(1) {
        None => {
            let capacity = of_cpu(s, cpu);
            s.rqs[cpu.at()].cpu_capacity = capacity as u32;
            (capacity, capacity, capacity)
        }
        Some(below) => {
            let groups = &s.topology.domains[s.rqs[cpu.at()].sd[below].domain].groups;
            let min = groups.iter().map(|g| g.min_capacity).min().unwrap_or(1);
            let max = groups.iter().map(|g| g.max_capacity).max().unwrap_or(1);
            (groups.iter().map(|g| g.capacity).sum(), min, max)
        }
    };
    let group = &mut s.topology.domains[domain].groups[local];
    (group.capacity, group.min_capacity, group.max_capacity) = (capacity, min, max);
    group.next_update = next_update;
}

/// `check_cpu_capacity`: other classes took so much that fair tasks are better off elsewhere.
pub(super) fn check_cpu_capacity(s: &View, cpu: CpuId, imbalance_pct: u32) -> bool {
    let rq = &s.rqs[cpu.at()];
    u64::from(rq.cpu_capacity) * u64::from(imbalance_pct) < u64::from(rq.cpu_capacity_orig) * 100
}

/// `capacity_greater`: by more than 5 %.
pub(super) const fn capacity_greater(a: u64, b: u64) -> bool {
    a * 1024 > b * 1078
}

/// `update_idle_cpu_scan`: how many CPUs of the cache a wake-up may look at. Falls with the square of the mean
/// utilisation, to none at 85 %.
pub(super) fn update_idle_cpu_scan(s: &mut Sched, cpu: CpuId, imbalance_pct: u32, sum_util: u64) {
    let weight = u64::from(s.topology.llc_size[cpu.at()]);
    let (x, pct) = (sum_util / weight, u64::from(imbalance_pct));
    let busy = (x * x * pct * pct / (10_000 * 1024)).min(1024);
    if let Some(llc) = s.topology.llc_shared_mut(cpu) {
        llc.nr_idle_scan = ((1024 - busy) * weight / 1024) as u32;
    }
}
