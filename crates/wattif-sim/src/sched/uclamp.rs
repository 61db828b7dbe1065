//! Utilisation clamps: of a task by what it asked for and its group, of a run queue the maximum over its runnable tasks, by
//! bucket, as the kernel's.
//!
//! `core` calls [`uclamp_rq_inc`] after a task was queued and [`uclamp_rq_dec`] before it leaves, for tasks of all classes;
//! deadline tasks do not count.
//!
//! FIDELITY(uclamp-group-limit): a group restricts its tasks to `cpu.uclamp.min ..= cpu.uclamp.max`, as since 5.14; before,
//! `cpu.uclamp.min` was an upper limit of `uclamp_min` too.

use super::Sched;
use crate::registry::meant;
use wattif_model::workload::{GroupSpec, Policy};
use wattif_model::{CpuId, Pid};

/// Who may be clamped (`cpu_util.uclamp`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Clamped {
    /// `off`: nobody, until 5.2.
    Nobody,
    /// `5.3`: tasks.
    Tasks,
    /// `5.4`: groups of tasks too.
    Groups,
}

impl Clamped {
    /// The values of the tunable.
    pub const NAMES: [&'static str; 3] = ["off", "5.3", "5.4"];

    /// From the tunable's value.
    pub fn parse(name: &str) -> Option<Clamped> {
        meant(Clamped::NAMES, [Clamped::Nobody, Clamped::Tasks, Clamped::Groups], name)
    }
}

/// What clamps do to whether a CPU is large enough (`cpu_util.uclamp_fits`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fits {
    /// `5.3`: nothing, they act on frequency alone.
    V5_3,
    /// `5.6`: a task's utilisation within its clamps must fit, with the usual headroom; a CPU's is taken as it is.
    V5_6,
    /// `6.2`: `util_fits_cpu`, of tasks and CPUs.
    #[default]
    V6_2,
}

impl Fits {
    /// The values of the tunable.
    pub const NAMES: [&'static str; 3] = ["5.3", "5.6", "6.2"];

    /// From the tunable's value.
    pub fn parse(name: &str) -> Option<Fits> {
        meant(Fits::NAMES, [Fits::V5_3, Fits::V5_6, Fits::V6_2], name)
    }
}

/// `UCLAMP_BUCKETS`: the kernel's default configuration.
const BUCKETS: usize = 5;
/// Width of a bucket, `DIV_ROUND_CLOSEST(1024, BUCKETS)`.
const BUCKET_DELTA: u32 = 205;

/// Tasks of one bucket (`struct uclamp_bucket`).
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    tasks: u32,
    /// Largest clamp while it has tasks: a bucket overshoots until it empties, as in the kernel.
    value: u32,
}

/// `rq->uclamp`: buckets of `uclamp_min` and of `uclamp_max`.
#[derive(Clone, Copy, Debug, Default)]
pub struct UclampRq {
    min: [Bucket; BUCKETS],
    max: [Bucket; BUCKETS],
}

fn bucket_of(clamp: u32) -> usize {
    ((clamp / BUCKET_DELTA) as usize).min(BUCKETS - 1)
}

fn inc(buckets: &mut [Bucket; BUCKETS], rq_value: &mut u32, clamp: u32) {
    let bucket = &mut buckets[bucket_of(clamp)];
    bucket.tasks += 1;
    if bucket.tasks == 1 || clamp > bucket.value {
        bucket.value = clamp;
    }
    *rq_value = (*rq_value).max(clamp);
}

/// True when no bucket has tasks any more.
fn dec(buckets: &mut [Bucket; BUCKETS], rq_value: &mut u32, clamp: u32) -> bool {
    let bucket = &mut buckets[bucket_of(clamp)];
    assert!(bucket.tasks > 0, "a clamped task leaves the bucket it entered");
    bucket.tasks -= 1;
    if bucket.tasks > 0 || bucket.value < *rq_value {
        return false;
    }
    match buckets.iter().rev().find(|b| b.tasks > 0) {
        Some(b) => *rq_value = b.value,
        None => return true,
    }
    false
}

/// Effective clamps of a group below one with effective clamps `above`: protection is not inherited, and limits limit it.
#[doc(alias = "cpu_util_update_eff")]
pub fn group_clamps(group: &GroupSpec, above: (u32, u32)) -> (u32, u32) {
    let max = u32::from(group.uclamp_max).min(above.1);
    (u32::from(group.uclamp_min).min(above.0).min(max), max)
}

/// Settles a task's effective clamps after it asked for others, changed its policy or its group. It is on no queue.
#[doc(alias = "uclamp_eff_get")]
pub fn uclamp_update(s: &mut Sched, pid: Pid) {
    let task = &mut s.tasks[pid.at()];
    // Real-time tasks run at full speed unless they ask for less (`sched_util_clamp_min_rt_default`).
    let default_min = if task.policy.is_rt() { 1024 } else { 0 };
    let (min, max) = (task.uclamp_req.0.unwrap_or(default_min), task.uclamp_req.1.unwrap_or(1024));
    (task.uclamp_min, task.uclamp_max) = (min, max);
    if task.group != 0 {
        let (lo, hi) = s.groups[task.group as usize].uclamp;
        (task.uclamp_min, task.uclamp_max) = (min.clamp(lo, hi), max.clamp(lo, hi));
    }
}

/// A task became runnable: its clamps count.
#[inline(never)]
pub fn uclamp_rq_inc(s: &mut Sched, cpu: CpuId, pid: Pid) {
    let (rq, task) = (&mut s.rqs[cpu.at()], &s.tasks[pid.at()]);
    if task.policy == Policy::Deadline {
        return;
    }
    if rq.uclamp_idle {
        rq.uclamp_idle = false;
        (rq.uclamp_min, rq.uclamp_max) = (task.uclamp_min, task.uclamp_max);
    }
    inc(&mut rq.uclamp.min, &mut rq.uclamp_min, task.uclamp_min);
    inc(&mut rq.uclamp.max, &mut rq.uclamp_max, task.uclamp_max);
}

/// A task stops being runnable. The last one leaves its `uclamp_max` behind, so that blocked utilisation stays clamped.
#[inline(never)]
pub fn uclamp_rq_dec(s: &mut Sched, cpu: CpuId, pid: Pid) {
    let (rq, task) = (&mut s.rqs[cpu.at()], &s.tasks[pid.at()]);
    if task.policy == Policy::Deadline {
        return;
    }
    if dec(&mut rq.uclamp.min, &mut rq.uclamp_min, task.uclamp_min) {
        rq.uclamp_min = 0;
    }
    if dec(&mut rq.uclamp.max, &mut rq.uclamp_max, task.uclamp_max) {
        rq.uclamp_idle = true;
        rq.uclamp_max = task.uclamp_max;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::task::TaskGroup;

    #[test]
    fn groups_restrict_their_tasks() {
        let spec = |min, max| GroupSpec { uclamp_min: min, uclamp_max: max, ..GroupSpec::named("/a") };
        let outer = group_clamps(&spec(300, 600), (1024, 1024));
        assert_eq!(outer, (300, 600));
        assert_eq!(group_clamps(&spec(0, 1024), outer), (0, 600), "protection is not inherited, limits are");
        assert_eq!(group_clamps(&spec(800, 400), outer), (300, 400));
        assert_eq!(group_clamps(&spec(800, 200), outer), (200, 200), "the limit wins");
        let mut s = Sched::bare(1, 4_000_000);
        let pid = crate::sched::class::fair::tests::spawn(&mut s, 0);
        s.groups.push(TaskGroup { uclamp: outer, ..TaskGroup::root() });
        let mut clamps = |group, req, policy| {
            let task = &mut s.tasks[pid.at()];
            (task.group, task.uclamp_req, task.policy) = (group, req, policy);
            uclamp_update(&mut s, pid);
            (s.tasks[pid.at()].uclamp_min, s.tasks[pid.at()].uclamp_max)
        };
        assert_eq!(clamps(0, (None, None), Policy::Normal), (0, 1024));
        assert_eq!(clamps(0, (None, None), Policy::Fifo), (1024, 1024));
        assert_eq!(clamps(0, (Some(10), None), Policy::Fifo), (10, 1024));
        assert_eq!(clamps(1, (None, None), Policy::Normal), (300, 600));
        assert_eq!(clamps(1, (Some(500), Some(100)), Policy::Normal), (500, 300));
    }

    #[test]
    fn maximum_over_runnable_tasks_and_last_one_kept() {
        let mut s = Sched::bare(1, 4_000_000);
        for (min, max) in [(100, 300), (512, 1024)] {
            let pid = crate::sched::class::fair::tests::spawn(&mut s, 0);
            (s.tasks[pid.at()].uclamp_min, s.tasks[pid.at()].uclamp_max) = (min, max);
        }
        s.rqs[0].uclamp_idle = true;
        let value = |s: &Sched| (s.rqs[0].uclamp_min, s.rqs[0].uclamp_max);
        uclamp_rq_inc(&mut s, CpuId(0), Pid(1));
        assert_eq!(value(&s), (100, 300));
        uclamp_rq_inc(&mut s, CpuId(0), Pid(2));
        assert_eq!(value(&s), (512, 1024));
        uclamp_rq_dec(&mut s, CpuId(0), Pid(2));
        assert_eq!(value(&s), (100, 300));
        uclamp_rq_dec(&mut s, CpuId(0), Pid(1));
        assert_eq!((value(&s), s.rqs[0].uclamp_idle), ((0, 300), true));
    }
}
