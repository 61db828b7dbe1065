//! `cpu_power`: the load balancer of 3.13, which counts a group's room in whole tasks.
//!
//! # Idea
//! A CPU has a *power*, 1024 for one that is worth one task. The power of a group, rounded to a multiple of 1024, is the
//! number of tasks it can serve; a group with more tasks than that is overloaded and gives some away, as long as that brings
//! the loads per power closer together. When, how often and how tasks are moved is as in `load_balance`.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | `cpu_power` | 1024 = one task | 1024, or clock × efficiency of the platform, see `source`; SMT siblings share 1178 | never |
//! | power of a CPU, of a group | the same | what real-time tasks and interrupts leave of it, see `rt_avg`; Σ of the CPUs | here |
//! | load | 1024 = one nice-0 task | load tracker, runnable tasks only | PELT updates |
//! | `nr_running`, idle | count | run queues | – |
//! | `nr_balance_failed` | count | per CPU and domain | `load_balance` |
//!
//! # Decision
//! 1. Per group: `avg_load` = Σ load · 1024 / power; `capacity` = power / 1024, rounded to the closest (with `cores` at most
//!    the number of its cores; where it is 0, 1 for an SMT sibling that lost little to real-time tasks).
//! 2. The busiest group has the largest `avg_load` of those with more tasks than capacity, or that affinity keeps
//!    imbalanced. With none, all is balanced.
//! 3. It is left alone when our `avg_load` is not below its own or the domain's; when we are idle, no more than one idle
//!    CPU ahead of it, and it has no more tasks than CPUs; when we are busy and its load is within `imbalance_pct` of
//!    ours. (A newly idle CPU of a group with room skips this test when the busiest group has none.)
//! 4. Imbalance: what both groups need to come to the domain's average, but no more than the tasks beyond capacity. Less
//!    than one task's mean load is rounded up to one task if that would not just swap the roles, or uses more power.
//! 5. In the group, the CPU with the largest load over power, but none with a single task larger than the imbalance.
//! 6. A single running task cannot be pulled; after more than `cache_nice_tries` + 2 failures the stopper pushes it.
//!
//! Worked example: two big CPUs of 1441, three little ones of 606, five always-running nice-0 tasks, one per CPU. Big:
//! 2048·1024/2882 = 727, capacity 3; little: 3072·1024/1818 = 1730, capacity 2, three tasks: overloaded. The average is
//! 5120·1024/4700 = 1115. For a big CPU: 100·1730 > 117·727; min(1730 − 1115, 576) = 576, and min(576·1818, 388·2882)/1024 =
//! 1022 < 1024: less than a task; 1730 − 727 + 576 ≥ 2·576, so 1024, one task. It is pushed. Then big has 1091 and little 1153
//! with two tasks and capacity 2: nobody is overloaded, and the idle little CPU, whose group's load is the larger, pulls nothing.
//! Three tasks share two big CPUs for ever, and one little CPU stays idle.
//!
//! # State and cost
//! As `load_balance`.
//!
//! # Where it fails
//! Rounding: three CPUs of 606 count as two, two of 1441 as three, so that a CPU stays idle beside a queue (the worked example).
//! Capacity is a property of groups: a single task on a slow CPU is never overload, however many fast CPUs are idle, and
//! placement of that age does not look at single CPUs' power either.
//!
//! # Differences from the kernel
//! FIDELITY(cpu-load-idx): the kernel compares loads smoothed over ticks (`cpu_load[]`, biased towards staying); here
//! the present load counts, which is the same in a steady state.
//! `cores` is off by default: the clamp came while the results that this policy reproduces were measured, and which of the
//! two forms they used is not stated; in the worked example both end the same way.
//!
//! # Source
//! Linux 3.4 to 3.13 `kernel/sched/fair.c` (behaviour): `update_sd_lb_stats`, `find_busiest_group`, `calculate_imbalance`,
//! `fix_small_imbalance`, `fix_small_capacity`, `find_busiest_queue`; `arch/arm/kernel/topology.c`, `parse_dt_topology`
//! and `update_cpu_power` (behaviour).

use super::busiest::{Busiest, SdStats};
use super::by_load::fix_small_imbalance;
use super::group_stats::{GroupStats, GroupType};
use super::load_balance::Env;
use super::{IdleType, MIGRATION_COST_NS, NR_MIGRATE};
use crate::registry::Tunable;
use crate::sched::View;
use crate::sched::load::cpu_load::cpu_runnable_load;
use crate::sched::topology::{Domain, Group};
use wattif_model::CpuId;
use wattif_model::platform::{Cpu, DtClock, Platform};

/// Tunables of this policy.
pub const TUNABLES: &[Tunable] = &[
    Tunable {
        name: "source",
        default: "default",
        allowed: &["default", "efficiency"],
        doc: "power of a CPU: 1024, or from clock and efficiency of the platform (ARM)",
    },
    Tunable {
        name: "cores",
        default: "false",
        allowed: &["true", "false"],
        doc: "a group serves at most as many tasks as it has cores (a later fix)",
    },
    MIGRATION_COST_NS,
    NR_MIGRATE,
];

/// `SCHED_POWER_SCALE`: a CPU that is worth one task.
const SCALE: u64 = 1024;
/// `smt_gain`: power of a core with several hardware threads, shared among them.
const SMT_GAIN: u32 = 1178;

/// `cpu_power` of every CPU by default: 1024, SMT siblings an equal part of 1178.
pub fn default_powers(cpus: &[Cpu]) -> Vec<u32> {
    let threads = |of: &Cpu| cpus.iter().filter(|c| (c.package, c.core) == (of.package, of.core)).count() as u32;
    cpus.iter().map(threads).map(|n| if n > 1 { SMT_GAIN / n } else { SCALE as u32 }).collect()
}

/// `cpu_power` from clock and efficiency: relative to the middle of the machine, such that no CPU is worth two tasks.
/// `None` where a CPU's clock and efficiency are not known.
#[doc(alias = "parse_dt_topology")]
pub fn efficiency_powers(platform: &Platform) -> Option<Vec<u32>> {
    let worth = |cpu: u32| platform.domain_of(CpuId(cpu)).dt_clock.map(worth);
    let worth: Vec<u64> = (0..platform.nr_cpus() as u32).map(worth).collect::<Option<_>>()?;
    Some(relative_powers(&worth))
}

fn worth(of: DtClock) -> u64 {
    (of.hz >> 20) * u64::from(of.efficiency)
}

fn relative_powers(worth: &[u64]) -> Vec<u32> {
    let min = worth.iter().copied().min().unwrap_or(0);
    let max = worth.iter().copied().max().unwrap_or(0);
    let middle = if 4 * max < 3 * (max + min) { (min + max) >> 11 } else { ((max / 3) >> 9) + 1 };
    worth.iter().map(|w| (w / middle.max(1)) as u32).collect()
}

/// `scale_rt_power`: what real-time tasks and interrupts leave; at least 1.
#[inline(never)]
pub(super) fn scale_rt_power(s: &View, cpu: CpuId, power: u32) -> u64 {
    let rq = &s.rqs[cpu.at()];
    let tracked = || SCALE.saturating_sub(rq.avg_rt.util_avg + rq.avg_dl.util_avg + rq.avg_irq.util_avg);
    (u64::from(power) * rq.rt_avg_leaves().unwrap_or_else(tracked) / SCALE).max(1)
}

/// `DIV_ROUND_CLOSEST(power, SCHED_POWER_SCALE)`.
const fn whole_tasks(power: u64) -> u64 {
    (power + SCALE / 2) / SCALE
}

/// `sg_capacity`: tasks that a power serves. `original` is the power before real-time scaling.
fn sg_capacity(sd: &Domain, power: u64, original: u64, weight: u32, cores: bool) -> u32 {
    let mut capacity = whole_tasks(power);
    if cores {
        let threads = (SCALE * u64::from(weight)).div_ceil(original.max(1)).max(1);
        capacity = capacity.min(u64::from(weight) / threads);
    }
    if capacity == 0 && sd.share_cpucapacity && power * 32 > original * 29 {
        return 1; // fix_small_capacity: a thread of a core is less than half a CPU, yet serves a task
    }
    capacity as u32
}

/// What the balancer knows of powers that the run queues do not hold.
#[derive(Clone, Debug, Default)]
pub struct CpuPower {
    /// By CPU, before real-time scaling.
    pub original: Vec<u32>,
    /// Tunable `cores`.
    pub cores: bool,
}

impl CpuPower {
    /// The derived fields of a group's statistics.
    #[inline(never)]
    pub(super) fn finish(&self, env: &Env, s: &View, group: &Group, sgs: &mut GroupStats) {
        let original: u64 = group.cpus.iter().map(|c| u64::from(self.original[c.at()])).sum();
        sgs.avg_load = sgs.group_load * SCALE / sgs.group_capacity.max(1);
        sgs.load_per_task = sgs.group_load.checked_div(u64::from(sgs.sum_nr_running)).unwrap_or(0);
        sgs.serves = sg_capacity(env.sd(s), sgs.group_capacity, original, sgs.group_weight, self.cores);
        if group.imbalance {
            sgs.group_type = GroupType::Imbalanced;
        }
    }

    /// `find_busiest_queue`.
    #[inline(never)]
    pub(super) fn find_busiest_queue(&self, s: &View, env: &Env, group: usize) -> Option<CpuId> {
        let mut best = Busiest::default();
        let sd = env.sd(s);
        for cpu in sd.groups[group].cpus.iter().filter(|&c| env.includes(c)) {
            let (rq, load) = (&s.rqs[cpu.at()], cpu_runnable_load(s, cpu));
            let power = u64::from(rq.cpu_capacity);
            let serves = sg_capacity(sd, power, u64::from(self.original[cpu.at()]), 1, false);
            let whole = serves > 0 && rq.nr_running == 1 && load as i64 > env.imbalance;
            if !whole {
                best.consider_scaled(cpu, load, power);
            }
        }
        best.cpu
    }
}

fn is_overloaded(sgs: &GroupStats) -> bool {
    sgs.sum_nr_running > sgs.serves
}

/// `update_sd_pick_busiest`, after a group whose domain spreads was told that it serves one task only.
#[inline(never)]
pub(super) fn update_sd_pick_busiest(sds: &SdStats, sgs: &mut GroupStats) -> bool {
    if sds.prefer_sibling && sds.local.sum_nr_running < sds.local.serves {
        sgs.serves = sgs.serves.min(1);
    }
    sgs.avg_load > sds.busiest.avg_load && (is_overloaded(sgs) || sgs.group_type == GroupType::Imbalanced)
}

/// The checks of `find_busiest_group`.
#[inline(never)]
pub(super) fn is_imbalanced(env: &Env, imbalance_pct: u32, sds: &mut SdStats) -> bool {
    sds.avg_load = sds.average();
    let (local, busiest) = (&sds.local, &sds.busiest);
    if busiest.sum_nr_running == 0 {
        return false;
    }
    let has_capacity = |sgs: &GroupStats| sgs.serves > sgs.sum_nr_running;
    let fills_room = env.idle == IdleType::NewlyIdle && has_capacity(local) && !has_capacity(busiest);
    if busiest.group_type == GroupType::Imbalanced || fills_room {
        return true;
    }
    if local.avg_load >= busiest.avg_load || local.avg_load >= sds.avg_load {
        return false;
    }
    if env.idle == IdleType::Idle {
        return local.idle_cpus > busiest.idle_cpus + 1 || busiest.sum_nr_running > busiest.group_weight;
    }
    100 * busiest.avg_load > u64::from(imbalance_pct) * local.avg_load
}

/// Load of the tasks beyond what a group serves, over its power.
fn load_above_capacity(sgs: &GroupStats) -> u64 {
    if sgs.group_type == GroupType::Imbalanced {
        return u64::MAX;
    }
    u64::from(sgs.sum_nr_running.saturating_sub(sgs.serves)) * SCALE * SCALE / sgs.group_capacity.max(1)
}

/// Load to move for both groups to come to the average, as far as tasks are in excess.
fn imbalance(sds: &SdStats) -> u64 {
    let (local, busiest, avg) = (&sds.local, &sds.busiest, sds.avg_load);
    if busiest.avg_load < avg || local.avg_load >= avg {
        return 0;
    }
    let pull = (busiest.avg_load - avg).min(load_above_capacity(busiest));
    (pull * busiest.group_capacity).min((avg - local.avg_load) * local.group_capacity) / SCALE
}

/// `calculate_imbalance`.
#[inline(never)]
pub(super) fn calculate_imbalance(s: &View, env: &mut Env, sds: &mut SdStats) {
    if sds.busiest.group_type == GroupType::Imbalanced {
        sds.busiest.load_per_task = sds.busiest.load_per_task.min(sds.avg_load);
    }
    let mut amount = imbalance(sds);
    if amount < sds.busiest.load_per_task {
        amount = fix_small_imbalance(s, env, sds, amount);
    }
    env.imbalance = amount as i64;
}

#[cfg(test)]
mod tests {
    use super::super::{FairBalancer, Generation, LoadBalancer};
    use super::*;
    use crate::sched::topology::DomainParams;
    use crate::sched::topology::tests::cpus;
    use crate::sched::toy::Toy;

    const NR: u32 = 5;

    fn powers(of: &[(u64, u32)]) -> Vec<u32> {
        let worth: Vec<u64> = of.iter().map(|&(hz, efficiency)| worth(DtClock { hz, efficiency })).collect();
        relative_powers(&worth)
    }

    /// Two big CPUs and three little ones of these powers, a task on each CPU listed.
    fn tc2(big: u32, little: u32, cores: bool, tasks: &[u32]) -> (Toy, FairBalancer) {
        let power = |c: u32| if c < 2 { big } else { little };
        let mut toy = Toy::with_params(&cpus(NR, |c| (c, u32::from(c >= 2), 0, power(c))), DomainParams::V3_13);
        toy.spawn_on(tasks.iter().copied());
        let original = (0..NR).map(power).collect();
        let b = FairBalancer { power: CpuPower { original, cores }, ..FairBalancer::new(Generation::V3_13) };
        (toy, b)
    }

    /// The domain of the whole machine, seen from a CPU.
    fn look(toy: &mut Toy, b: &mut FairBalancer, cpu: u32, idle: IdleType) -> (Env, SdStats) {
        let env = Env::new(&toy.s, CpuId(cpu), 1, idle);
        let mut sds = b.update_sd_lb_stats(&mut toy.s, &env);
        sds.avg_load = sds.average();
        (env, sds)
    }

    /// Rounds of passes of all CPUs, pushes included.
    fn settle(toy: &mut Toy, b: &mut FairBalancer, rounds: u32) {
        for round in 0..rounds * NR {
            let cpu = CpuId(round % NR);
            toy.advance(1000);
            let idle = toy.s.idle_cpu(cpu);
            b.periodic(toy, cpu, idle);
            for src in std::mem::take(&mut toy.kicks) {
                b.active_balance(toy, src);
            }
        }
    }

    #[test]
    fn one_task_per_cpu_of_power_1024_is_balanced_for_ever() {
        let (mut toy, mut b) = tc2(1024, 1024, false, &[0, 1, 2, 3, 4]);
        let (_, sds) = look(&mut toy, &mut b, 0, IdleType::NotIdle);
        assert_eq!((sds.local.avg_load, sds.local.serves, sds.busiest_group), (1024, 2, None));
        let (_, sds) = look(&mut toy, &mut b, 2, IdleType::NotIdle);
        assert_eq!((sds.local.avg_load, sds.local.serves, sds.busiest_group), (1024, 3, None));
        settle(&mut toy, &mut b, 50);
        assert_eq!((toy.nr_running(), toy.choices.len()), (vec![1; 5], 0));
    }

    #[test]
    fn one_task_per_cpu_of_606_and_1441_number_by_number() {
        let (mut toy, mut b) = tc2(1441, 606, false, &[0, 1, 2, 3, 4]);
        let (mut env, mut sds) = look(&mut toy, &mut b, 0, IdleType::NotIdle);
        assert_eq!((sds.local.group_capacity, sds.local.serves, sds.local.avg_load), (2882, 3, 727));
        assert_eq!((sds.busiest.group_capacity, sds.busiest.serves, sds.busiest.avg_load), (1818, 2, 1730));
        assert_eq!((sds.avg_load, sds.busiest.sum_nr_running, sds.busiest.load_per_task), (1115, 3, 1024));
        assert!(is_imbalanced(&env, 117, &mut sds), "173000 > 117 · 727");
        assert_eq!(load_above_capacity(&sds.busiest), 576);
        assert_eq!(imbalance(&sds), 1022, "min(576 · 1818, 388 · 2882) / 1024");
        calculate_imbalance(&toy.s, &mut env, &mut sds);
        assert_eq!(env.imbalance, 1024, "1730 − 727 + 576 = 1579 ≥ 2 · 576 = 1152: one task");
        assert_eq!(b.find_busiest_queue(&toy.s, &env, 1), Some(CpuId(2)), "1024 > 1024 is false: not skipped");
        // Nothing can be pulled from a running task; the fourth failure asks for the push.
        for pass in 1..=4 {
            toy.advance(1000);
            b.periodic(&mut toy, CpuId(0), false);
            assert_eq!(toy.kicks.len(), usize::from(pass == 4), "pass {pass}");
        }
        b.active_balance(&mut toy, CpuId(2));
        assert_eq!(toy.nr_running(), [2, 1, 0, 1, 1]);
    }

    #[test]
    fn three_on_big_and_two_on_little_stay_for_ever() {
        let (mut toy, mut b) = tc2(1441, 606, false, &[0, 0, 1, 2, 3]);
        let (env, mut sds) = look(&mut toy, &mut b, 4, IdleType::Idle);
        assert_eq!((sds.local.avg_load, sds.avg_load, sds.total_capacity), (1153, 1115, 4700));
        let big = b.stats_of_group(&toy.s, &env, 0);
        assert_eq!((big.avg_load, big.serves), (1091, 3));
        assert!(!is_imbalanced(&env, 117, &mut sds), "1153 ≥ 1091");
        let (_, sds) = look(&mut toy, &mut b, 1, IdleType::NotIdle);
        assert_eq!(sds.busiest_group, None, "two tasks on a capacity of two");
        settle(&mut toy, &mut b, 50);
        assert_eq!(toy.nr_running().iter().take(2).sum::<u32>(), 3);
        let mut little = toy.nr_running()[2..].to_vec();
        little.sort_unstable();
        assert_eq!((little, toy.s.rqs[4].nr_running), (vec![0, 1, 1], 0));
    }

    #[test]
    fn every_start_ends_there_with_and_without_the_clamp() {
        for cores in [false, true] {
            for tasks in [[0, 1, 2, 3, 4], [2, 2, 3, 3, 4], [0, 0, 0, 1, 1], [4, 4, 4, 4, 4]] {
                let (mut toy, mut b) = tc2(1441, 606, cores, &tasks);
                settle(&mut toy, &mut b, 60);
                let nr = toy.nr_running();
                assert_eq!(
                    (nr[0] + nr[1], nr.iter().filter(|n| **n == 0).count()),
                    (3, 1),
                    "{cores} {tasks:?}: {nr:?}"
                );
                // Counter-test: with equal powers the same machine uses all its CPUs.
                let (mut toy, mut b) = tc2(1024, 1024, cores, &tasks);
                settle(&mut toy, &mut b, 60);
                assert_eq!(toy.nr_running(), [1; 5], "{cores} {tasks:?}");
            }
        }
    }

    #[test]
    fn a_single_task_stays_on_a_slow_cpu() {
        for (big, little) in [(1024, 1024), (1441, 606)] {
            let (mut toy, mut b) = tc2(big, little, false, &[3]);
            settle(&mut toy, &mut b, 50);
            assert_eq!(toy.nr_running(), [0, 0, 0, 1, 0]);
        }
    }

    /// TC2: A15 at 1 GHz with efficiency 3891, A7 at 800 MHz with 2048.
    #[test]
    fn power_from_clock_and_efficiency() {
        assert_eq!(powers(&[(1_000_000_000, 3891), (800_000_000, 2048)]), [1441, 606]);
        assert_eq!(powers(&[(1_000_000_000, 3891)]), [1024]);
        // Four times as fast: the other branch keeps the fast ones below two tasks.
        assert_eq!(powers(&[(1_000_000_000, 4096), (1_000_000_000, 512)]), [1535, 191]);
    }

    #[test]
    fn powers_of_smt_siblings_and_small_capacity() {
        let smt = cpus(4, |c| (c / 2, 0, 0, 1024));
        assert_eq!(default_powers(&smt), [589; 4]);
        let toy = Toy::with_params(&smt, DomainParams::V3_13);
        let sd = &toy.s.topology.domains[toy.s.topology.of_cpu[0][0]];
        let serves = |power, original| sg_capacity(sd, power, original, 1, false);
        assert_eq!((serves(589, 589), serves(500, 589), serves(500, 540)), (1, 0, 1));
        assert_eq!(default_powers(&cpus(2, |c| (c, 0, 0, 1024))), [1024; 2]);
    }
}
