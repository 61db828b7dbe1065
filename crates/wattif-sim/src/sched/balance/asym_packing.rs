//! `SD_ASYM_PACKING`: CPUs are not equally good (favoured cores, hybrid processors), and work goes to the best that are idle.
//!
//! 1. An idle CPU of higher priority than the best CPU of a group with work makes that group the busiest of its class
//!    (asym_packing: above misfit and has_spare, below imbalanced); among such groups the one with the lowest priority.
//! 2. All its tasks are wanted; a running one is pushed at once, without waiting for failures.
//! 3. Threads of one core share what it can do: 6.1 weighs the number of busy threads on both sides, 6.12 lets a core help
//!    only when it is wholly idle, and leaves a core with several busy threads to `smt_balance`.
//! 4. A busy CPU's tick asks for idle balancing as soon as a CPU of higher priority sleeps.
//!
//! 3.13 knows this rule for POWER7 alone, where the number of the thread is its priority; that is left out.

use super::busiest::SdStats;
use super::group_stats::GroupStats;
use super::load_balance::Env;
use super::{FairBalancer, Generation};
use crate::sched::View;
use crate::sched::topology::{Domain, Group};
use wattif_model::CpuId;

/// `sched_asym_prefer`: is `a` better than `b`?
fn sched_asym_prefer(s: &View, a: CpuId, b: CpuId) -> bool {
    s.topology.priority[a.at()] > s.topology.priority[b.at()]
}

/// `sched_use_asym_prio` (6.5): priorities say something of a core only while no other thread of it runs.
fn sched_use_asym_prio(s: &View, sd: &Domain, cpu: CpuId) -> bool {
    sd.asym_packing && (sd.share_cpucapacity || s.topology.smt[cpu.at()].iter().all(|c| c == cpu || s.idle_cpu(c)))
}

/// `sched_asym`: should `dst` have what runs on `src`?
fn sched_asym(s: &View, sd: &Domain, dst: CpuId, src: CpuId, generation: Generation) -> bool {
    let usable = match generation {
        Generation::V6_6 | Generation::V6_12 => sched_use_asym_prio(s, sd, dst),
        _ => sd.asym_packing,
    };
    usable && sched_asym_prefer(s, dst, src)
}

impl FairBalancer {
    /// Does the idle destination ask for the work of this group (`group_asym_packing`)?
    #[doc(alias = "sched_group_asym")]
    pub(super) fn wants_all(&self, s: &View, env: &Env, local: &GroupStats, group: &Group, sgs: &GroupStats) -> bool {
        let sd = env.sd(s);
        if !sd.asym_packing || !env.is_idle() || sgs.sum_h_nr_running == 0 {
            return false;
        }
        let better = sched_asym(s, sd, env.dst_cpu, group.asym_prefer_cpu, self.generation);
        let (here, there) = (is_smt(&sd.groups[env.local_group]), is_smt(group));
        let busy = sgs.group_weight - sgs.idle_cpus;
        match self.generation {
            Generation::V6_6 | Generation::V6_12 => better && !(there && busy != 1),
            Generation::V6_1 if here || there => smt_can_pull(better, here, there, busy, local),
            _ => better,
        }
    }

    /// `asym_active_balance`: the running task is to come here at once.
    pub(super) fn asym_active_balance(&self, s: &View, env: &Env) -> bool {
        let sd = env.sd(s);
        if !sd.asym_packing || !env.is_idle() {
            return false;
        }
        let better = sched_asym_prefer(s, env.dst_cpu, env.src_cpu);
        if self.generation < Generation::V6_6 {
            return better;
        }
        // A whole core also relieves one of several busy threads, whatever their priority.
        sched_use_asym_prio(s, sd, env.dst_cpu) && (better || !sched_use_asym_prio(s, sd, env.src_cpu))
    }

    /// `find_busiest_queue` (5.16): a task that is alone on a better CPU stays there.
    pub(super) fn is_better_off(&self, s: &View, env: &Env, cpu: CpuId, nr_running: u32) -> bool {
        self.generation >= Generation::V6_1
            && nr_running == 1
            && env.sd(s).asym_packing
            && sched_asym(s, env.sd(s), cpu, env.dst_cpu, self.generation)
    }

    /// `nohz_balancer_kick`: does a better CPU sleep?
    #[inline(never)]
    pub(super) fn better_cpu_sleeps(&self, s: &View, cpu: CpuId, asleep: impl Fn(CpuId) -> bool) -> bool {
        let Some(sd) = s.topology.sd_asym_packing[cpu.at()] else { return false };
        let sd = &s.topology.domains[sd];
        sd.span.iter().any(|c| asleep(c) && sched_asym(s, sd, c, cpu, self.generation))
    }
}

/// `asym_smt_can_pull_tasks` (5.16 to 6.4), where one of the two groups is the threads of a core; `busy`: CPUs of the other
/// that run something.
fn smt_can_pull(better: bool, here: bool, there: bool, busy: u32, local: &GroupStats) -> bool {
    if !here {
        return busy >= 2 || better;
    }
    if there {
        return busy == local.group_weight - local.idle_cpus + 1 && better;
    }
    local.sum_nr_running == 0 && better
}

/// `update_sd_pick_busiest` between two groups that are to be emptied: the one of lower priority first.
#[inline(never)]
pub(super) fn is_lower(s: &View, sd: &Domain, sds: &SdStats, g: usize, generation: Generation) -> bool {
    let Some(busiest) = sds.busiest_group.map(|b| sd.groups[b].asym_prefer_cpu) else { return true };
    let candidate = sd.groups[g].asym_prefer_cpu;
    match generation {
        Generation::V6_6 | Generation::V6_12 => sched_asym_prefer(s, busiest, candidate),
        _ => !sched_asym_prefer(s, candidate, busiest),
    }
}

/// 5.4, `update_sd_pick_busiest`: among groups of one class and more load than the busiest so far, the idle destination
/// takes only those of lower priority than its own. `None`: the domain knows no priorities.
pub(super) fn picks_by_load(s: &View, env: &Env, sds: &SdStats, g: usize, sgs: &GroupStats) -> Option<bool> {
    let sd = env.sd(s);
    if !sd.asym_packing || !env.is_idle() {
        return None;
    }
    let wanted = sgs.sum_nr_running > 0 && sched_asym_prefer(s, env.dst_cpu, sd.groups[g].asym_prefer_cpu);
    let lower = sds
        .busiest_group
        .is_none_or(|b| sched_asym_prefer(s, sd.groups[b].asym_prefer_cpu, sd.groups[g].asym_prefer_cpu));
    Some(wanted && lower)
}

/// 5.4, `check_asym_packing`: take everything from a busiest group that is not better than we.
#[inline(never)]
pub(super) fn check_asym_packing(s: &View, env: &Env, sds: &SdStats) -> Option<u64> {
    let sd = env.sd(s);
    if !sd.asym_packing || !env.is_idle() {
        return None;
    }
    let busiest = sd.groups[sds.busiest_group?].asym_prefer_cpu;
    (!sched_asym_prefer(s, busiest, env.dst_cpu)).then_some(sds.busiest.group_load)
}

/// Is the group the threads of one core (`SD_SHARE_CPUCAPACITY` of the child)?
pub(super) fn is_smt(group: &Group) -> bool {
    group.cores == 1 && group.weight > 1
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use super::*;
    use crate::sched::topology::DomainParams;
    use crate::sched::topology::tests::cpus;
    use crate::sched::toy::Toy;
    use wattif_model::platform::Cpu;
    use wattif_model::trace::BalanceKind;

    const ALL: [Generation; 6] =
        [Generation::V5_4, Generation::V5_6, Generation::V5_7, Generation::V6_1, Generation::V6_6, Generation::V6_12];

    /// CPUs of one cache with a priority each.
    fn favoured(priorities: &[u32]) -> Vec<Cpu> {
        let mut all = cpus(priorities.len() as u32, |c| (c, 0, 0, 1024));
        all.iter_mut().zip(priorities).for_each(|(cpu, p)| cpu.priority = *p);
        all
    }

    /// Two cores of two threads, the second of higher priority.
    fn cores() -> Vec<Cpu> {
        let mut all = cpus(4, |c| (c / 2, 0, 0, 1024));
        all.iter_mut().skip(2).for_each(|cpu| cpu.priority = 1);
        all
    }

    fn pass(toy: &mut Toy, generation: Generation, cpu: u32) -> Vec<CpuId> {
        let mut b = FairBalancer::new(generation);
        toy.advance(1000);
        b.periodic(toy, CpuId(cpu), true);
        std::mem::take(&mut toy.kicks)
    }

    #[test]
    fn the_better_cpu_has_the_task_pushed_to_it_at_once() {
        for generation in ALL {
            let mut toy = Toy::new(&favoured(&[1, 1, 2, 1]));
            toy.spawn(0);
            assert_eq!(pass(&mut toy, generation, 1), [], "{generation:?}: no better than where it is");
            assert_eq!(pass(&mut toy, generation, 2), [CpuId(0)], "{generation:?}");
            let mut b = FairBalancer::new(generation);
            assert!(b.active_balance(&mut toy, CpuId(0)), "{generation:?}");
            assert_eq!(toy.nr_running(), [0, 0, 1, 0], "{generation:?}");
            assert_eq!(toy.choices.last().map(|c| c.kind), Some(BalanceKind::Active));
            for cpu in [0, 1, 3] {
                assert_eq!(pass(&mut toy, generation, cpu), [], "{generation:?}: it stays on the best CPU");
            }
        }
    }

    #[test]
    fn without_the_flag_a_single_task_stays_where_it_is() {
        for generation in ALL {
            let params = DomainParams { asym_packing: false, ..DomainParams::SINCE_5_10 };
            let mut toy = Toy::with_params(&favoured(&[1, 1, 2, 1]), params);
            toy.spawn(0);
            for _ in 0..20 {
                assert_eq!(pass(&mut toy, generation, 2), [], "{generation:?}");
            }
        }
    }

    #[test]
    fn the_lowest_of_two_busy_cpus_is_emptied_first() {
        for generation in ALL {
            let mut toy = Toy::new(&favoured(&[3, 1, 2]));
            toy.spawn_on([1, 2]);
            assert_eq!(pass(&mut toy, generation, 0), [CpuId(1)], "{generation:?}");
        }
    }

    #[test]
    fn a_busy_cpu_wakes_a_better_one() {
        for generation in ALL {
            let mut toy = Toy::new(&favoured(&[1, 1, 2, 1]));
            toy.spawn(0);
            let mut b = FairBalancer::new(generation);
            b.nohz_balance_enter_idle(&mut toy.s, CpuId(1));
            // Two busy CPUs of one cache would be a reason as well: only the better one may be asleep.
            assert!(!b.better_cpu_sleeps(&toy.s, CpuId(0), |c| c == CpuId(1)), "{generation:?}");
            b.nohz_balance_enter_idle(&mut toy.s, CpuId(2));
            let kick = b.nohz_balancer_kick(&toy.s, CpuId(0));
            assert!(kick.is_some_and(|k| k.balance), "{generation:?}: {kick:?}");
        }
    }

    #[test]
    fn threads_of_a_core_share_its_worth() {
        // A whole core of higher priority takes the only task of a lower one, in every generation that knows cores.
        for generation in [Generation::V6_1, Generation::V6_6, Generation::V6_12] {
            let mut toy = Toy::new(&cores());
            toy.spawn(0);
            assert_eq!(pass(&mut toy, generation, 2), [CpuId(0)], "{generation:?}");
        }
        // Its second thread, beside a busy one: no.
        for generation in [Generation::V6_1, Generation::V6_6, Generation::V6_12] {
            let mut toy = Toy::new(&cores());
            toy.spawn_on([0, 2]);
            assert_eq!(pass(&mut toy, generation, 3), [], "{generation:?}");
        }
    }

    #[test]
    fn what_a_core_may_pull() {
        let local =
            |busy: u32| GroupStats { group_weight: 2, idle_cpus: 2 - busy, sum_nr_running: busy, ..Default::default() };
        for (better, here, there, busy, local_busy, pulls) in [
            (false, false, true, 2, 0, true),
            (false, false, true, 1, 0, false),
            (true, false, true, 1, 0, true),
            (true, true, true, 1, 0, true),
            (true, true, true, 2, 0, false),
            (true, true, true, 2, 1, true),
            (true, true, false, 1, 0, true),
            (true, true, false, 1, 1, false),
            (false, true, false, 1, 0, false),
        ] {
            let found = smt_can_pull(better, here, there, busy, &local(local_busy));
            assert_eq!(found, pulls, "{better} {here} {there} {busy} {local_busy}");
        }
    }
}
