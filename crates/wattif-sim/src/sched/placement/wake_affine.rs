//! `wake_affine`: move the woken task to its waker's CPU, or leave it where it was?
//!
//! # Idea
//! A task that is woken often by the same other task shares data with it, so the waker's cache is a good place, unless
//! that CPU has much more to do. A task that is woken by many, or wakes many, should be spread instead (`wake_wide`).
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | idle | yes, no | run queues of both CPUs | – |
//! | `cpu_load` | load, 1024 = one nice-0 task | load tracker, both CPUs | PELT updates |
//! | `task_h_load` | load | load tracker, waker and wakee | PELT updates |
//! | `capacity_of` | 1..=1024 | run queues | load balance |
//! | `imbalance_pct` | percent | the domain that holds both CPUs | never |
//! | `wakee_flips` | count | both tasks | `record_wakee`; halved when a second has passed (`3.13`: 0) |
//!
//! # Decision
//! `wake_affine_idle` (feature `WA_IDLE`):
//! 1. This CPU is idle (the waker is an interrupt) and shares its cache with the previous one: the previous one if that
//!    is idle too, else this one.
//! 2. The wake-up is sync and the waker is alone on its CPU (6.12: tasks with a delayed dequeue do not count): this one.
//! 3. Since 5.11: the previous CPU is idle: the previous one.
//!
//! `wake_affine_weight` (feature `WA_WEIGHT`), when that was undecided:
//! 4. this := load of this CPU, minus the waker's if sync (if that is larger: this CPU), plus the task's;
//!    prev := load of the previous CPU minus the task's.
//! 5. Compare this · 100 · capacity(prev) < prev · (100 + (imbalance_pct − 100)/2) · capacity(this), plus 1 on the right
//!    if sync: true → this CPU, else the previous one.
//!
//! Generation `3.13` knows neither feature: this CPU, if its load (minus the waker's weight if sync) is 0, or with the
//! task's weight within step 5's comparison of the previous CPU's, or if both loads together are less than one task here.
//! `4.10` neither: as `3.13`, but the tasks weigh their `load_avg`, the last clause is gone, and a CPU without load is compared like
//! any other, by capacity alone: an idle CPU that is much smaller than the previous one does not pull.
//!
//! `wake_wide`: with a ≥ b the `wakee_flips` of waker and wakee and n the CPUs of the cache: b ≥ n and a ≥ b·n. Generation `3.13`: a
//! those of the waker, b of the wakee, whichever is more, and b > n and a > b·n.
//!
//! Worked example: equal capacities, imbalance_pct 117, loads 500 here and 1600 there, the task's load 400, not sync:
//! (500+400)·100 = 90000 < (1600−400)·108 = 129600 → this CPU.
//!
//! # State and cost
//! Three words per task; O(1). The idle tasks are one per CPU in the kernel and one in all here, so their words are kept
//! in the policy, per CPU.
//!
//! # Where it fails
//! A timer that fires on a busy CPU makes an unrelated task "the waker".
//!
//! # Differences from the kernel
//! None known in the arithmetic: bit-exact with the columns `wake_affine`, `wake_affine_sync`, `wake_affine_idle`,
//! `wake_wide_*` and `current_flips_after_record` of `wakeup_5.6` (400 rows), `wakeup_5.6_no_sched_idle` (400) and
//! `wakeup_6.12` (500). FIDELITY(effective-load): `3.13` and `4.10` ignore groups, whose share the kernel estimated here. Up to 5.4
//! the compared load is that of runnable tasks only, see `cpu_runnable_load`.
//!
//! # Source
//! Linux 3.13, 4.10, 5.6.4 and 6.12.117 `kernel/sched/fair.c` (behaviour). Commits 096aa33863a5 (3.16) and 63b0e9edceec (4.3) end
//! `wake_wide` of 3.13.

use crate::registry::{Tunable, meant};
use crate::sched::load::cpu_load::{cpu_load, cpu_runnable_load, task_h_load};
use crate::sched::{Sched, View};
use wattif_model::{CpuId, Pid};

/// Tunables of this policy.
pub const TUNABLES: &[Tunable] =
    &[Tunable { name: "generation", default: "6.12", allowed: &Generation::NAMES, doc: "rules of this kernel" }];

/// `wake_affine.generation`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Generation {
    /// `3.13`: loads and weights, idleness does not count.
    V3_13,
    /// `4.10`: loads alone, also of a CPU without any (4.3 to 4.12).
    V4_10,
    /// `5.4`: compares runnable load.
    V5_4,
    /// `5.6`: compares load with blocked tasks.
    V5_6,
    /// `5.11`: an idle previous CPU is kept.
    V5_11,
    /// `6.12`: tasks with a delayed dequeue do not count.
    #[default]
    V6_12,
}

impl Generation {
    /// The values of the tunable.
    pub const NAMES: [&'static str; 6] = ["3.13", "4.10", "5.4", "5.6", "5.11", "6.12"];

    /// From the tunable's value.
    pub fn parse(name: &str) -> Option<Generation> {
        use Generation::*;
        meant(Generation::NAMES, [V3_13, V4_10, V5_4, V5_6, V5_11, V6_12], name)
    }
}

/// The choice between two CPUs, and who wakes whom.
#[derive(Clone, Debug, Default)]
pub struct WakeAffine {
    /// Era.
    pub generation: Generation,
    /// What the kernel keeps in each CPU's idle task.
    idle_tasks: Vec<Waker>,
}

/// What a task, or an idle task, remembers of those it woke.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waker {
    /// `wakee_flips`.
    pub flips: u32,
    /// `wakee_flip_decay_ts`, ns.
    pub decay_ts: u64,
    /// `last_wakee`.
    pub last_wakee: Pid,
}

impl WakeAffine {
    /// Of an era.
    pub fn new(generation: Generation) -> WakeAffine {
        WakeAffine { generation, idle_tasks: Vec::new() }
    }

    /// `record_wakee`: who runs on `this_cpu` wakes `pid`.
    pub fn record_wakee(&mut self, s: &mut Sched, this_cpu: CpuId, pid: Pid) {
        let mut w = self.waker(s, this_cpu);
        if s.jiffies(s.now) > s.jiffies(w.decay_ts) + s.hz {
            w.flips = if self.generation == Generation::V3_13 { 0 } else { w.flips >> 1 };
            w.decay_ts = s.now;
        }
        if w.last_wakee != pid {
            w.last_wakee = pid;
            w.flips += 1;
        }
        self.set_waker(s, this_cpu, w);
    }

    /// `wake_wide`: do waker and wakee have too many partners for one cache?
    pub fn wake_wide(&self, s: &View, this_cpu: CpuId, pid: Pid) -> bool {
        let (waker, wakee) = (self.waker(s, this_cpu).flips, s.tasks[pid.at()].wakee_flips);
        let factor = s.topology.llc_size[this_cpu.at()];
        let times = |flips: u32| u64::from(flips) * u64::from(factor);
        if self.generation == Generation::V3_13 {
            return wakee > factor && u64::from(waker) > times(wakee);
        }
        let (master, slave) = (waker.max(wakee), waker.min(wakee));
        slave >= factor && u64::from(master) >= times(slave)
    }

    /// `wake_affine`: this CPU or the previous one. `imbalance_pct` is that of a domain that holds both; `loads` is
    /// asked only where they matter.
    pub fn wake_affine(
        &self,
        s: &View,
        imbalance_pct: u32,
        loads: impl FnOnce() -> TaskLoads,
        this: CpuId,
        prev: CpuId,
        sync: bool,
    ) -> CpuId {
        if self.generation <= Generation::V4_10 {
            let affine = if self.generation == Generation::V3_13 { affine_3_13 } else { affine_4_10 };
            return if affine(s, imbalance_pct, loads(), this, prev, sync) { this } else { prev };
        }
        let mut target = None;
        if s.features.wa_idle {
            target = self.wake_affine_idle(s, this, prev, sync);
        }
        if s.features.wa_weight && target.is_none() {
            target = self.wake_affine_weight(s, imbalance_pct, loads(), this, prev, sync);
        }
        target.unwrap_or(prev)
    }

    /// `wake_affine_idle`: what idleness says, if anything.
    pub fn wake_affine_idle(&self, s: &View, this: CpuId, prev: CpuId, sync: bool) -> Option<CpuId> {
        let prev_idle = s.available_idle_cpu(prev);
        if s.available_idle_cpu(this) && s.topology.cpus_share_cache(this, prev) {
            return Some(if prev_idle { prev } else { this });
        }
        if sync && self.nr_running(s, this) == 1 {
            return Some(this);
        }
        (self.generation >= Generation::V5_11 && prev_idle).then_some(prev)
    }

    /// `wake_affine_weight`: this CPU, if its load would be the smaller one.
    pub fn wake_affine_weight(
        &self,
        s: &View,
        imbalance_pct: u32,
        loads: TaskLoads,
        this: CpuId,
        prev: CpuId,
        sync: bool,
    ) -> Option<CpuId> {
        let load = |cpu| if self.generation == Generation::V5_4 { cpu_runnable_load(s, cpu) } else { cpu_load(s, cpu) };
        let capacity = |cpu: CpuId| i64::from(s.rqs[cpu.at()].cpu_capacity);
        let mut this_eff = load(this);
        if sync {
            if loads.current > this_eff {
                return Some(this);
            }
            this_eff -= loads.current;
        }
        // Signed from here on, wrapping as s64 does: the previous CPU's load may be less than the task's.
        let (mut here, mut there) = (100, 100 + i64::from((imbalance_pct - 100) / 2));
        if !s.features.wa_bias {
            (here, there) = (1, 1);
        }
        let this_eff = (this_eff.wrapping_add(loads.task) as i64).wrapping_mul(here).wrapping_mul(capacity(prev));
        let prev_eff = (load(prev).wrapping_sub(loads.task) as i64).wrapping_mul(there).wrapping_mul(capacity(this));
        (this_eff < prev_eff.wrapping_add(i64::from(sync))).then_some(this)
    }

    fn nr_running(&self, s: &View, cpu: CpuId) -> u32 {
        let delayed = if self.generation == Generation::V6_12 { s.cfs[cpu.at()].h_nr_delayed } else { 0 };
        s.rqs[cpu.at()].nr_running.wrapping_sub(delayed)
    }

    /// What the task that runs on a CPU remembers.
    pub fn waker(&self, s: &View, cpu: CpuId) -> Waker {
        match s.rqs[cpu.at()].curr {
            Pid(0) => self.idle_tasks.get(cpu.at()).copied().unwrap_or_default(),
            curr => {
                let p = &s.tasks[curr.at()];
                Waker { flips: p.wakee_flips, decay_ts: p.wakee_flip_decay_ts, last_wakee: p.last_wakee }
            }
        }
    }

    /// Changes it.
    pub fn set_waker(&mut self, s: &mut Sched, cpu: CpuId, w: Waker) {
        match s.rqs[cpu.at()].curr {
            Pid(0) => {
                if self.idle_tasks.len() <= cpu.at() {
                    self.idle_tasks.resize(s.nr_cpus(), Waker::default());
                }
                self.idle_tasks[cpu.at()] = w;
            }
            curr => {
                let p = &mut s.tasks[curr.at()];
                (p.wakee_flips, p.wakee_flip_decay_ts, p.last_wakee) = (w.flips, w.decay_ts, w.last_wakee);
            }
        }
    }
}

/// `wake_affine` of 3.13: is this CPU's load with the task within the tolerated imbalance of the previous one's, or are
/// both together less than a task?
#[inline(never)]
fn affine_3_13(s: &View, imbalance_pct: u32, weights: TaskLoads, this: CpuId, prev: CpuId, sync: bool) -> bool {
    let power = |cpu: CpuId| i64::from(s.rqs[cpu.at()].cpu_capacity);
    let mut here = cpu_runnable_load(s, this) as i64;
    let there = cpu_runnable_load(s, prev) as i64;
    if sync {
        here -= weights.current as i64;
    }
    let scale = 100 + i64::from((imbalance_pct - 100) / 2);
    let with_task = 100 * power(prev) * (here + weights.task as i64);
    if here <= 0 || with_task <= scale * power(this) * there {
        return true;
    }
    let per_task = (cpu_runnable_load(s, this) as i64).checked_div(i64::from(s.rqs[this.at()].nr_running));
    here <= there && here + there <= per_task.unwrap_or(0)
}

/// `wake_affine` of 4.3 to 4.12: is this CPU's load with the task within the tolerated imbalance of the previous one's? Without load
/// here capacities are compared.
#[inline(never)]
fn affine_4_10(s: &View, imbalance_pct: u32, loads: TaskLoads, this: CpuId, prev: CpuId, sync: bool) -> bool {
    let capacity = |cpu: CpuId| i64::from(s.rqs[cpu.at()].cpu_capacity);
    let leaves = if sync { loads.current as i64 } else { 0 };
    let here = cpu_runnable_load(s, this) as i64 - leaves;
    let scale = 100 + i64::from((imbalance_pct - 100) / 2);
    let (with_task, there) = match here > 0 {
        true => (here + loads.task as i64, cpu_runnable_load(s, prev) as i64),
        false => (1, 1),
    };
    100 * capacity(prev) * with_task <= scale * capacity(this) * there
}

/// `task_h_load` of the two tasks of a wake-up; their weights in 3.13, their `load_avg` in 4.10.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskLoads {
    /// The woken task.
    pub task: u64,
    /// The waker.
    pub current: u64,
}

impl TaskLoads {
    /// Of a task that is woken by who runs on `this_cpu`.
    pub fn of(s: &View, pid: Pid, this_cpu: CpuId) -> TaskLoads {
        TaskLoads { task: task_h_load(s, pid), current: task_h_load(s, s.rqs[this_cpu.at()].curr) }
    }

    /// Their `load_avg`.
    pub fn averages_of(s: &View, pid: Pid, this_cpu: CpuId) -> TaskLoads {
        let load = |pid: Pid| if pid == Pid(0) { 0 } else { s.se[s.se_of(pid)].avg.load_avg };
        TaskLoads { task: load(pid), current: load(s.rqs[this_cpu.at()].curr) }
    }

    /// Their weights.
    pub fn weights_of(s: &View, pid: Pid, this_cpu: CpuId) -> TaskLoads {
        let weight = |pid: Pid| if pid == Pid(0) { 0 } else { s.se[s.se_of(pid)].weight >> 10 };
        TaskLoads { task: weight(pid), current: weight(s.rqs[this_cpu.at()].curr) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::topology::tests::cpus;
    use crate::sched::toy::Toy;

    #[test]
    fn rules_of_3_13() {
        let check = |spawned: &[u32], sync, expect: u32| {
            let mut toy = Toy::new(&cpus(2, |c| (c, 0, 0, 1024)));
            toy.spawn_on(spawned.iter().copied());
            let weights = TaskLoads { task: 1024, current: 1024 };
            let policy = WakeAffine::new(Generation::V3_13);
            let got = policy.wake_affine(&toy.s, 125, || weights, CpuId(0), CpuId(1), sync);
            assert_eq!(got, CpuId(expect), "{spawned:?} {sync}");
        };
        check(&[], false, 0); // no load here
        check(&[0], true, 0); // the waker is about to leave
        check(&[0], false, 1); // 100 · 2048 > 112 · 0, and 1024 > 0
        check(&[0, 1, 1], false, 0); // 100 · 2048 ≤ 112 · 2048
        check(&[0, 0, 1, 1], false, 1); // 100 · 3072 > 112 · 2048
    }

    #[test]
    fn only_a_waker_with_many_more_partners_is_wide_in_3_13_and_a_second_forgets_them() {
        for (generation, expect, left) in
            [(Generation::V3_13, [false, true, false], 1), (Generation::V4_10, [true, true, true], 6)]
        {
            let mut toy = Toy::new(&cpus(4, |c| (c, 0, 0, 1024)));
            let (waker, wakee) = (toy.spawn(0), toy.sleeper(1));
            let mut policy = WakeAffine::new(generation);
            let got = [(16, 4), (21, 5), (5, 21)].map(|(a, b)| {
                (toy.s.tasks[waker.at()].wakee_flips, toy.s.tasks[wakee.at()].wakee_flips) = (a, b);
                policy.wake_wide(&toy.s, CpuId(0), wakee)
            });
            assert_eq!(got, expect, "{generation:?}");
            toy.s.tasks[waker.at()].wakee_flips = 10;
            toy.advance(1_000);
            policy.record_wakee(&mut toy.s, CpuId(0), wakee);
            assert_eq!(toy.s.tasks[waker.at()].wakee_flips, left, "{generation:?}");
        }
    }

    #[test]
    fn rules_of_4_10() {
        let check = |spawned: &[u32], capacities: [u32; 2], loads: TaskLoads, sync, expect: u32| {
            let mut toy = Toy::new(&cpus(2, |c| (c, 0, 0, capacities[c as usize])));
            toy.spawn_on(spawned.iter().copied());
            let policy = WakeAffine::new(Generation::V4_10);
            let got = policy.wake_affine(&toy.s, 125, || loads, CpuId(0), CpuId(1), sync);
            assert_eq!(got, CpuId(expect), "{spawned:?} {capacities:?} {sync}");
        };
        let (light, full) = (TaskLoads { task: 100, current: 1024 }, TaskLoads { task: 1024, current: 1024 });
        let equal = [1024, 1024];
        check(&[], equal, full, false, 0); // 100 ≤ 112
        check(&[1], [400, 1024], full, false, 1); // without load here: 100 · 1024 > 112 · 400
        check(&[1], [400, 1024], full, true, 1);
        check(&[], [1024, 400], full, false, 0);
        check(&[0], equal, full, true, 0); // the waker is about to leave
        check(&[0, 1], equal, light, false, 0); // 100 · 1124 ≤ 112 · 1024
        check(&[0, 1], equal, full, false, 1); // 100 · 2048 > 112 · 1024
    }
}
