//! Balancing on hand-built machines, in both generations.

use super::busiest::{SdStats, update_sd_pick_busiest};
use super::capacity::{scale_rt_capacity, update_idle_cpu_scan};
use super::group_stats::{GroupStats, GroupType};
use super::load_balance::Env;
use super::*;
use crate::sched::schedtune::{Group, NR_GROUPS, Schedtune};
use crate::sched::topology::tests::cpus;
use crate::sched::topology::{DomainParams, NewidleStats};
use crate::sched::toy::Toy;
use wattif_model::CpuSet;
use wattif_model::trace::BalanceKind;

const ALL: [Generation; 6] =
    [Generation::V5_4, Generation::V5_6, Generation::V5_7, Generation::V6_1, Generation::V6_6, Generation::V6_12];

fn smp(n: u32) -> Toy {
    Toy::new(&cpus(n, |c| (c, 0, 0, 1024)))
}

/// Passes of one CPU, all domains due each time.
fn passes(toy: &mut Toy, b: &mut FairBalancer, cpu: u32, idle: bool, n: u32) {
    for _ in 0..n {
        toy.advance(1000);
        b.periodic(toy, CpuId(cpu), idle);
    }
}

#[test]
fn an_idle_cpu_pulls_the_waiting_task() {
    for generation in ALL {
        for newly_idle in [true, false] {
            let (mut toy, mut b) = (smp(2), FairBalancer::new(generation));
            toy.spawn(0);
            let waiting = toy.spawn(0);
            if newly_idle {
                assert_eq!(b.newidle(&mut toy, CpuId(1)), 1, "{generation:?}");
            } else {
                b.periodic(&mut toy, CpuId(1), true);
            }
            assert_eq!((toy.nr_running(), toy.s.tasks[waiting.at()].cpu), (vec![1, 1], CpuId(1)), "{generation:?}");
            assert_eq!(toy.choices.len(), 1);
            let kind = if newly_idle { BalanceKind::NewIdle } else { BalanceKind::Periodic };
            assert_eq!((toy.choices[0].moved, toy.choices[0].kind), (1, kind));
        }
    }
}

#[test]
fn one_task_per_cpu_is_balanced() {
    for generation in ALL {
        let (mut toy, mut b) = (smp(4), FairBalancer::new(generation));
        toy.spawn_on(0..4);
        for cpu in 0..4 {
            passes(&mut toy, &mut b, cpu, false, 10);
        }
        assert_eq!((toy.nr_running(), toy.choices.len(), toy.kicks.len()), (vec![1; 4], 0, 0), "{generation:?}");
        // Balanced passes are made ever more rarely.
        assert_eq!(toy.s.rqs[0].sd[0].balance_interval_ms, 8, "{generation:?}");
    }
}

#[test]
fn a_single_task_is_not_moved_between_equal_cpus() {
    for generation in ALL {
        let (mut toy, mut b) = (smp(2), FairBalancer::new(generation));
        toy.spawn(0);
        passes(&mut toy, &mut b, 1, true, 20);
        assert_eq!((toy.nr_running(), toy.kicks.len()), (vec![1, 0], 0), "{generation:?}");
    }
}

#[test]
fn many_tasks_spread_until_even() {
    for generation in ALL {
        let (mut toy, mut b) = (smp(4), FairBalancer::new(generation));
        toy.spawn_on([0; 8]);
        for _ in 0..8 {
            for cpu in 1..4 {
                let idle = toy.s.idle_cpu(CpuId(cpu));
                passes(&mut toy, &mut b, cpu, idle, 1);
            }
        }
        let nr = toy.nr_running();
        assert!(nr.iter().all(|n| (1..=3).contains(n)) && nr.iter().sum::<u32>() == 8, "{generation:?}: {nr:?}");
    }
}

#[test]
fn machines_of_many_caches_may_have_any_number_of_cpus() {
    // Sums over caches are kept from one pass to the next (`sums.rs`), by words of 64 CPUs.
    for n in [8, 24, 62, 64, 66, 130] {
        for generation in ALL {
            let (mut toy, mut b) = (Toy::new(&cpus(n, |c| (c, c / 2, 0, 1024))), FairBalancer::new(generation));
            toy.spawn_on((0..2 * n).map(|i| i % 2));
            for _ in 0..4 {
                for cpu in 2..n {
                    let idle = toy.s.idle_cpu(CpuId(cpu));
                    passes(&mut toy, &mut b, cpu, idle, 1);
                }
            }
            assert_eq!(toy.nr_running().iter().sum::<u32>(), 2 * n, "{generation:?}, {n} CPUs");
            assert!(toy.nr_running()[2..].iter().any(|&n| n > 0), "{generation:?}, {n} CPUs");
        }
    }
}

#[test]
fn pinned_tasks_stay_and_are_looked_at_ever_more_rarely() {
    for generation in ALL {
        let (mut toy, mut b) = (smp(2), FairBalancer::new(generation));
        for _ in 0..2 {
            let pid = toy.spawn(0);
            toy.pin(pid, CpuSet::one(CpuId(0)));
        }
        passes(&mut toy, &mut b, 1, true, 12);
        assert_eq!((toy.nr_running(), toy.kicks.len()), (vec![2, 0], 0), "{generation:?}");
        assert_eq!(toy.s.rqs[1].sd[0].balance_interval_ms, 512, "{generation:?}");
    }
}

#[test]
fn a_task_that_we_may_not_take_goes_to_our_neighbour() {
    for generation in ALL {
        let mut toy = Toy::new(&cpus(4, |c| (c, c / 2, 0, 1024)));
        let mut b = FairBalancer::new(generation);
        toy.spawn(0);
        for cpu in [0, 0, 1, 1] {
            let pid = toy.spawn(cpu);
            toy.pin(pid, [0, 1, 3].map(CpuId).into_iter().collect());
        }
        passes(&mut toy, &mut b, 2, true, 4);
        assert!(toy.nr_running()[3] > 0, "{generation:?}: {:?}", toy.nr_running());
    }
}

#[test]
fn hot_tasks_stay_until_passes_fail() {
    let (mut toy, mut b) = (smp(2), FairBalancer::default());
    toy.spawn(0);
    let waiting = toy.spawn(0);
    let se = toy.s.se_of(waiting);
    let mut moved_at = None;
    for pass in 1..=4 {
        toy.advance(1000);
        toy.s.se[se].exec_start = toy.s.now - 499_999;
        b.periodic(&mut toy, CpuId(1), true);
        if toy.nr_running() == [1, 1] {
            moved_at = moved_at.or(Some(pass));
        }
    }
    // cache_nice_tries is 1 within a cache: the third pass follows two failures.
    assert_eq!(moved_at, Some(3));
}

#[test]
fn no_task_is_hot_between_threads_of_a_core_since_5_10() {
    for generation in ALL {
        let (mut toy, mut b) = (Toy::new(&cpus(2, |_| (0, 0, 0, 1024))), FairBalancer::new(generation));
        toy.spawn(0);
        let waiting = toy.spawn(0);
        let se = toy.s.se_of(waiting);
        toy.s.se[se].exec_start = toy.s.now;
        b.periodic(&mut toy, CpuId(1), true);
        let moved = toy.s.tasks[waiting.at()].cpu == CpuId(1);
        assert_eq!(moved, generation >= Generation::V6_1, "{generation:?}");
    }
}

#[test]
fn tasks_of_sched_idle_are_never_hot() {
    let (mut toy, mut b) = (smp(2), FairBalancer::default());
    toy.spawn(0);
    let waiting = toy.spawn(0);
    let se = toy.s.se_of(waiting);
    toy.s.se[se].exec_start = toy.s.now;
    toy.make_idle_policy(waiting);
    b.periodic(&mut toy, CpuId(1), true);
    assert_eq!(toy.s.tasks[waiting.at()].cpu, CpuId(1));
}

#[test]
fn a_cpu_of_background_tasks_balances_as_often_as_an_idle_one_since_5_6() {
    for (generation, ms) in [(Generation::V5_4, 64), (Generation::V5_6, 4), (Generation::V6_12, 4)] {
        let (mut toy, b) = (smp(4), FairBalancer::new(generation));
        let pid = toy.spawn(0);
        toy.make_idle_policy(pid);
        let busy = !(generation >= Generation::V5_6 && toy.s.sched_idle_cpu(CpuId(0)));
        assert_eq!(b.balance_interval(&toy.s, CpuId(0), 0, busy), ms * 1_000_000, "{generation:?}");
        let mut b = b;
        b.periodic(&mut toy, CpuId(0), false);
        // The pass was balanced: the interval has doubled.
        assert_eq!(toy.s.rqs[0].next_balance - toy.s.now, 2 * ms * 1_000_000, "{generation:?}");
    }
}

#[test]
fn a_busy_cpu_is_not_due_together_with_the_level_below() {
    let (toy, old, new) = (smp(4), FairBalancer::new(Generation::V5_6), FairBalancer::default());
    let interval = |b: &FairBalancer| b.balance_interval(&toy.s, CpuId(0), 0, true);
    assert_eq!((interval(&old), interval(&new)), (64_000_000, 60_000_000));
}

#[test]
fn a_misfit_task_is_pushed_to_a_bigger_cpu() {
    for generation in ALL {
        let mut toy = Toy::new(&cpus(4, |c| (c, c / 2, 0, if c < 2 { 400 } else { 1024 })));
        let mut b = FairBalancer::new(generation);
        let pid = toy.spawn(0);
        update_misfit_status(&mut toy.s, CpuId(0), Some(pid));
        assert!(toy.s.rqs[0].misfit_task_load > 0);
        passes(&mut toy, &mut b, 2, true, 1);
        assert_eq!((&toy.kicks[..], toy.s.rqs[0].push_cpu), (&[CpuId(0)][..], CpuId(2)), "{generation:?}");
        assert!(b.active_balance(&mut toy, CpuId(0)));
        assert_eq!((toy.nr_running(), toy.s.rqs[0].active_balance), (vec![0, 0, 1, 0], false), "{generation:?}");
        assert!(!b.active_balance(&mut toy, CpuId(0)), "it was asked for once");
        // And it does not come back.
        passes(&mut toy, &mut b, 0, true, 20);
        assert_eq!(toy.nr_running(), [0, 0, 1, 0], "{generation:?}");
    }
}

/// CPUs 0 and 1 little (400), 2 and 3 big; a task of `util` runs on CPU 0.
fn one_on_a_little_cpu(util: u64, energy_aware_4_9: bool) -> (Toy, Pid) {
    let mut toy = Toy::new(&cpus(4, |c| (c, c / 2, 0, if c < 2 { 400 } else { 1024 })));
    toy.s.rd.energy_aware_4_9 = energy_aware_4_9;
    let pid = toy.sleeper(0);
    let se = toy.s.se_of(pid);
    toy.s.se[se].avg.util_avg = util;
    toy.attach(pid, CpuId(0));
    (toy, pid)
}

#[test]
fn under_the_energy_aware_4_9_a_task_too_much_for_its_cpu_is_pushed_to_a_larger_one() {
    for (util, energy_aware, pushed) in [(390, true, true), (300, true, false), (390, false, false)] {
        let (mut toy, _) = one_on_a_little_cpu(util, energy_aware);
        let mut b = FairBalancer::new(Generation::V5_4);
        passes(&mut toy, &mut b, 2, true, 1);
        assert_eq!(toy.kicks.len(), usize::from(pushed), "{util}, {energy_aware}");
    }
}

#[test]
fn under_the_energy_aware_4_9_an_idle_big_cpu_pulls_from_little_ones_that_are_not_full() {
    for energy_aware in [true, false] {
        let (mut toy, _) = one_on_a_little_cpu(100, energy_aware);
        toy.spawn_on([3]);
        toy.spawn(0);
        let mut b = FairBalancer { idle_fill_room: false, ..FairBalancer::new(Generation::V5_4) };
        let mut env = Env::new(&toy.s, CpuId(2), 1, IdleType::Idle);
        assert_eq!(b.find_busiest_group(&mut toy.s, &mut env).is_some(), energy_aware);
    }
}

#[test]
fn under_the_energy_aware_4_9_misfit_is_what_does_not_fit_with_its_boost() {
    for (boost_pct, energy_aware, misfit) in [(50, true, true), (0, true, false), (50, false, false)] {
        let (mut toy, pid) = one_on_a_little_cpu(250, energy_aware);
        let tuned = [Group { boost_pct, ..Group::default() }; NR_GROUPS];
        toy.s.schedtune = Some(Schedtune::new(tuned, &["/"]));
        update_misfit_status(&mut toy.s, CpuId(0), Some(pid));
        assert_eq!(toy.s.rqs[0].misfit_task_load > 0, misfit, "{boost_pct} %, {energy_aware}");
        update_misfit_status(&mut toy.s, CpuId(2), Some(pid));
        assert_eq!(toy.s.rqs[2].misfit_task_load, 0, "there is nothing larger");
    }
    // And it counts where its CPU has too much to do.
    for (util, counts) in [(300, false), (390, true)] {
        let (mut toy, _) = one_on_a_little_cpu(util, true);
        toy.s.rqs[0].misfit_task_load = 1024;
        let mut env = Env::new(&toy.s, CpuId(2), 1, IdleType::NotIdle);
        FairBalancer::new(Generation::V5_4).find_busiest_group(&mut toy.s, &mut env);
        assert_eq!(env.migration == Migration::Misfit, counts, "{util}");
    }
}

/// Real-time tasks took some of CPU 0, and CPU 1 has the larger load.
#[test]
fn under_the_energy_aware_4_9_the_capacity_of_its_cpu_is_moved_of_a_misfit_and_load_says_from_where() {
    for (energy_aware, imbalance, from) in [(true, 350, 1), (false, 1024, 0)] {
        let (mut toy, pid) = one_on_a_little_cpu(390, energy_aware);
        toy.spawn_on([1, 2, 2, 2, 2, 3, 3, 3, 3]);
        let se = toy.s.se_of(pid);
        toy.s.se[se].avg.load_avg = 500;
        toy.s.cfs[1].avg.util_avg = 390;
        toy.s.cfs[2].avg.util_avg = 10;
        toy.s.cfs[3].avg.util_avg = 10;
        toy.s.rqs[0].cpu_capacity = 350;
        (toy.s.rqs[0].misfit_task_load, toy.s.rqs[1].misfit_task_load) = (1024, 1000);
        let mut b = FairBalancer::new(Generation::V5_4);
        let mut env = Env::new(&toy.s, CpuId(2), 1, IdleType::NotIdle);
        assert_eq!(b.find_busiest_group(&mut toy.s, &mut env), Some(0), "{energy_aware}");
        if energy_aware {
            assert_eq!(env.imbalance, imbalance);
        }
        assert_eq!(b.find_busiest_queue(&toy.s, &env, 0), Some(CpuId(from)), "{energy_aware}");
    }
}

#[test]
fn under_the_energy_aware_4_9_smaller_is_by_a_quarter_of_1024() {
    for (little, energy_aware, helped) in [(780, false, true), (780, true, false), (760, true, true)] {
        let mut toy = Toy::new(&cpus(4, |c| (c, c / 2, 0, if c < 2 { little } else { 1024 })));
        toy.s.rd.energy_aware_4_9 = energy_aware;
        toy.spawn(0);
        toy.s.cfs[0].avg.util_avg = u64::from(little);
        toy.s.rqs[0].misfit_task_load = 1024;
        let mut env = Env::new(&toy.s, CpuId(2), 1, IdleType::NotIdle);
        FairBalancer::new(Generation::V5_4).find_busiest_group(&mut toy.s, &mut env);
        assert_eq!(env.migration == Migration::Misfit, helped, "{little}, {energy_aware}");
    }
}

#[test]
fn a_misfit_task_is_helped_although_the_machine_is_not_overutilised_since_6_2() {
    for generation in ALL {
        let mut toy = Toy::new(&cpus(4, |c| (c, c / 2, 0, if c < 2 { 400 } else { 1024 })));
        let mut b = FairBalancer::new(generation);
        b.eas = true;
        let pid = toy.sleeper(0);
        let se = toy.s.se_of(pid);
        toy.s.se[se].avg.util_avg = 100;
        toy.attach(pid, CpuId(0));
        toy.s.rqs[0].misfit_task_load = 1024; // its uclamp_min is beyond the CPU
        passes(&mut toy, &mut b, 2, true, 1);
        let helped = generation >= Generation::V6_1;
        assert_eq!((toy.kicks.len(), toy.s.rd.overutilized), (usize::from(helped), false), "{generation:?}");
    }
}

#[test]
fn a_pass_for_a_misfit_task_is_no_failure_since_6_10() {
    for (generation, failed) in [(Generation::V6_1, 1), (Generation::V6_6, 1), (Generation::V6_12, 0)] {
        let mut toy = Toy::new(&cpus(4, |c| (c, c / 2, 0, if c < 2 { 400 } else { 1024 })));
        let mut b = FairBalancer::new(generation);
        let pid = toy.spawn(0);
        update_misfit_status(&mut toy.s, CpuId(0), Some(pid));
        passes(&mut toy, &mut b, 2, true, 1);
        let sd = &toy.s.rqs[2].sd[1];
        assert_eq!((toy.kicks.len(), sd.nr_balance_failed), (1, failed), "{generation:?}");
    }
}

#[test]
fn a_misfit_task_that_may_not_come_lengthens_the_interval_until_6_9() {
    for (generation, times) in [(Generation::V6_6, 2), (Generation::V6_12, 1)] {
        let mut toy = Toy::new(&cpus(4, |c| (c, c / 2, 0, if c < 2 { 400 } else { 1024 })));
        let mut b = FairBalancer::new(generation);
        let pid = toy.spawn(0);
        toy.pin(pid, [0, 1, 3].map(CpuId).into_iter().collect());
        update_misfit_status(&mut toy.s, CpuId(0), Some(pid));
        let before = toy.s.rqs[2].sd[1].balance_interval_ms;
        passes(&mut toy, &mut b, 2, true, 1);
        let after = toy.s.rqs[2].sd[1].balance_interval_ms;
        assert_eq!((toy.kicks.len(), after), (0, times * before), "{generation:?}");
    }
}

#[test]
fn active_balance_lengthens_the_interval_until_5_0_and_until_5_11_after_failures() {
    use BackOff::{Always, Never, NewlyIdle, Tired};
    for (back_off, misfit, tired) in [(NewlyIdle, 2, 2), (Always, 2, 2), (Tired, 1, 2), (Never, 1, 1)] {
        for (times, capacity) in [(misfit, 400), (tired, 1024)] {
            let mut toy = Toy::new(&cpus(4, |c| (c, c / 2, 0, if c < 2 { capacity } else { 1024 })));
            let mut b = FairBalancer::new(Generation::V5_6);
            b.back_off = back_off;
            let pid = toy.spawn(0);
            if capacity < 1024 {
                update_misfit_status(&mut toy.s, CpuId(0), Some(pid));
            } else {
                // Affinity kept the level below from balancing, and passes have failed.
                let sd = &mut toy.s.rqs[2].sd[1];
                (sd.nr_balance_failed, sd.balance_interval_ms) = (10, 4);
                let groups = &mut toy.s.topology.domains[sd.domain].groups;
                groups.iter_mut().for_each(|g| g.imbalance = g.cpus.contains(CpuId(0)));
            }
            let before = toy.s.rqs[2].sd[1].balance_interval_ms;
            passes(&mut toy, &mut b, 2, true, 1);
            let after = toy.s.rqs[2].sd[1].balance_interval_ms;
            assert_eq!((toy.kicks.len(), after), (1, times * before), "{back_off:?}, capacity {capacity}");
        }
    }
}

#[test]
fn a_newly_idle_cpu_that_finds_balance_lengthens_the_interval_until_4_20() {
    for (back_off, times) in [(BackOff::NewlyIdle, 2), (BackOff::Always, 1)] {
        let (mut toy, mut b) = (smp(2), FairBalancer::new(Generation::V5_4));
        (b.back_off, toy.s.rd.overloaded) = (back_off, true);
        let before = toy.s.rqs[0].sd[0].balance_interval_ms;
        assert_eq!(b.newidle(&mut toy, CpuId(0)), 0);
        assert_eq!(toy.s.rqs[0].sd[0].balance_interval_ms, times * before, "{back_off:?}");
    }
}

/// Two cores of two threads: one runs a pair, the other one task.
#[test]
fn a_core_of_two_tasks_is_full_to_a_core_of_one_until_4_11() {
    for spreads_pairs in [true, false] {
        let mut toy = Toy::with_params(&cpus(4, |c| (c / 2, 0, 0, 1024)), DomainParams::BEFORE_5_10);
        let mut b = FairBalancer { spreads_pairs, ..FairBalancer::new(Generation::V5_4) };
        toy.spawn_on([0, 1, 2]);
        let env = Env::new(&toy.s, CpuId(3), 1, IdleType::NewlyIdle);
        assert_eq!(b.update_sd_lb_stats(&mut toy.s, &env).busiest.group_no_capacity, spreads_pairs);
    }
}

#[test]
fn misfit_status_follows_the_task() {
    // 1024 · 1024 / 1025: the task's share of the load, rounded down.
    const LOAD: u64 = 1023;
    // Where it is misfit by era: on the small CPU, on the big one, held to the small one, to two of them.
    for (misfit, expect) in [
        (Misfit::Any, [LOAD, LOAD, LOAD, LOAD]),
        (Misfit::Movable, [LOAD, LOAD, 0, LOAD]),
        (Misfit::Helpable, [LOAD, 0, 0, 0]),
    ] {
        let params = DomainParams { misfit, ..DomainParams::SINCE_5_10 };
        let mut toy = Toy::with_params(&cpus(3, |c| (c, 0, 0, [400, 400, 600][c as usize])), params);
        let pid = toy.spawn(0);
        let status = |toy: &mut Toy, cpu: u32, p| {
            update_misfit_status(&mut toy.s, CpuId(cpu), p);
            toy.s.rqs[cpu as usize].misfit_task_load
        };
        let free = [status(&mut toy, 0, Some(pid)), status(&mut toy, 2, Some(pid))];
        assert_eq!(status(&mut toy, 0, None), 0, "{misfit:?}");
        toy.pin(pid, CpuSet::one(CpuId(0)));
        let pinned = status(&mut toy, 0, Some(pid));
        toy.pin(pid, CpuSet::first(2));
        assert_eq!([free[0], free[1], pinned, status(&mut toy, 0, Some(pid))], expect, "{misfit:?}");
    }
}

/// A hog that is held down, and a small task that is boosted, each on a CPU of 400 of its own.
fn clamped() -> (Toy, [Pid; 2]) {
    let mut toy = Toy::new(&cpus(3, |c| (c, 0, 0, [400, 400, 1024][c as usize])));
    let pids = [(1024, 0, 200), (50, 700, 1024)].map(|(util, min, max)| {
        let pid = toy.spawn(toy.s.tasks.len() as u32 - 1);
        let (se, cpu) = (toy.s.se_of(pid), toy.s.tasks[pid.at()].cpu.at());
        (toy.s.se[se].avg.util_avg, toy.s.cfs[cpu].avg.util_avg) = (util, util);
        (toy.s.tasks[pid.at()].uclamp_min, toy.s.tasks[pid.at()].uclamp_max) = (min, max);
        (toy.s.rqs[cpu].uclamp_min, toy.s.rqs[cpu].uclamp_max) = (min, max);
        pid
    });
    toy.s.rd.uclamp_used = true;
    (toy, pids)
}

#[test]
fn clamps_make_misfits_since_5_6_and_overutilised_cpus_since_6_2() {
    let (mut toy, pids) = clamped();
    let cpus = [CpuId(0), CpuId(1)];
    for (era, misfit, overutilized) in [
        (Fits::V5_3, [true, false], [true, false]),
        (Fits::V5_6, [false, true], [true, false]),
        // A minimum that is missed overutilises nothing.
        (Fits::V6_2, [false, true], [false, false]),
    ] {
        toy.s.uclamp_fits = era;
        let is_misfit = [0, 1].map(|i| {
            update_misfit_status(&mut toy.s, cpus[i], Some(pids[i]));
            toy.s.rqs[i].misfit_task_load > 0
        });
        assert_eq!((is_misfit, cpus.map(|c| cpu_overutilized(&toy.s, c))), (misfit, overutilized), "{era:?}");
    }
}

#[test]
fn clusters_that_ask_for_it_share_the_tasks() {
    // Four tasks, one per CPU of a cluster, the other idle: two of them are pushed over.
    let mut toy = Toy::new(&cpus(8, |c| (c, c / 4, 0, 1024)));
    let mut b = FairBalancer::default();
    toy.spawn_on(0..4);
    passes(&mut toy, &mut b, 4, true, 3);
    assert_eq!(toy.kicks, [], "running tasks cannot be pulled");
    passes(&mut toy, &mut b, 4, true, 1);
    assert_eq!(toy.kicks, [CpuId(0)]);
    b.active_balance(&mut toy, CpuId(0));
    passes(&mut toy, &mut b, 5, true, 4);
    assert_eq!(toy.kicks, [CpuId(0), CpuId(1)]);
    b.active_balance(&mut toy, CpuId(1));
    passes(&mut toy, &mut b, 6, true, 8);
    assert_eq!((toy.nr_running(), toy.kicks.len()), (vec![0, 0, 1, 1, 1, 1, 0, 0], 2));
}

#[test]
fn of_a_group_the_first_idle_cpu_balances() {
    let mut toy = Toy::new(&cpus(8, |c| (c, c / 4, 0, 1024)));
    let mut b = FairBalancer::default();
    toy.spawn_on([0; 3]);
    toy.spawn(4);
    passes(&mut toy, &mut b, 6, true, 3);
    assert_eq!(toy.nr_running()[0], 3, "CPU 5 is idle and comes first");
    passes(&mut toy, &mut b, 5, true, 1);
    assert_eq!(toy.nr_running()[0], 2);
}

/// Two caches of two cores each, one thread of each core of the first busy: who balances for the first.
#[test]
fn where_no_core_is_idle_the_first_cpu_balances_too_in_6_6() {
    let mut toy = Toy::new(&cpus(8, |c| (c / 2, c / 4, 0, 1024)));
    toy.spawn_on([0, 2]);
    for (generation, expect) in
        [(Generation::V6_1, [false, true]), (Generation::V6_6, [true, true]), (Generation::V6_12, [false, true])]
    {
        let b = FairBalancer::new(generation);
        let balances = [(0, IdleType::NotIdle), (1, IdleType::Idle)]
            .map(|(cpu, idle)| b.should_we_balance(&toy.s, &Env::new(&toy.s, CpuId(cpu), 2, idle)));
        assert_eq!(balances, expect, "{generation:?}");
    }
}

#[test]
fn a_newly_idle_cpu_looks_only_when_it_pays() {
    let pulls = |change: &dyn Fn(&mut Toy)| {
        let (mut toy, mut b) = (smp(2), FairBalancer::default());
        toy.spawn(0);
        toy.spawn(0);
        change(&mut toy);
        let pulled = b.newidle(&mut toy, CpuId(1));
        (pulled, toy.s.rqs[1].idle_stamp)
    };
    assert_eq!(pulls(&|_| ()), (1, 0));
    assert_eq!(pulls(&|t| t.s.rd.overloaded = false), (0, 1_000_000_000));
    let costly = |t: &mut Toy| (t.s.rqs[1].sd[0].max_newidle_lb_cost, t.s.rqs[1].avg_idle) = (50_000, 49_999);
    assert_eq!(pulls(&costly), (0, 1_000_000_000));
}

#[test]
fn dice_decide_whether_a_newly_idle_cpu_looks() {
    let pulls = |dice: u32, on: bool| {
        let (mut toy, mut b) = (smp(2), FairBalancer::default());
        (toy.dice, toy.s.features.ni_random) = (dice, on);
        toy.spawn(0);
        toy.spawn(0);
        (b.newidle(&mut toy, CpuId(1)), toy.s.rqs[1].sd[0].newidle)
    };
    let stats = |success| NewidleStats { call: 513, success, ratio: 512 };
    assert_eq!(
        pulls(513, true),
        (1, stats(258)),
        "a success stands for itself and the pass that odds of a half suppress"
    );
    assert_eq!(pulls(514, true), (0, stats(256)));
    assert_eq!(pulls(1023, false), (1, stats(257)));
}

#[test]
fn a_task_that_sleeps_with_its_dequeue_delayed_is_pulled_like_any_other() {
    let (mut toy, mut b) = (smp(2), FairBalancer::default());
    toy.spawn(0);
    let pid = toy.spawn(0);
    let se = toy.s.se_of(pid);
    toy.s.se[se].sched_delayed = true;
    assert_eq!(b.newidle(&mut toy, CpuId(1)), 1);
    assert_eq!(toy.s.tasks[pid.at()].cpu, CpuId(1));
}

#[test]
fn the_odds_follow_success_and_forget_by_halves() {
    let mut stats = NewidleStats::default();
    (0..511).for_each(|_| stats.update(0));
    assert_eq!(stats.ratio, 512);
    stats.update(0);
    assert_eq!(stats, NewidleStats { call: 512, success: 128, ratio: 256 });
    (0..512).for_each(|_| stats.update(2));
    assert_eq!(stats, NewidleStats { call: 512, success: 576, ratio: 1152 }, "more than sure");
}

#[test]
fn a_busy_cpu_kicks_an_idle_one_that_serves_all() {
    let (mut toy, mut b) = (smp(4), FairBalancer::default());
    toy.spawn_on([0; 3]);
    assert_eq!(b.nohz_balancer_kick(&toy.s, CpuId(0)), None, "nobody has stopped its tick");
    for cpu in 1..4 {
        toy.s.rqs[cpu].tick_stopped = true;
        b.nohz_balance_enter_idle(&mut toy.s, CpuId(cpu as u32));
    }
    let kick = b.nohz_balancer_kick(&toy.s, CpuId(0)).expect("two tasks wait");
    assert_eq!(kick, Kick { target: CpuId(1), balance: true, stats: true, next: true });
    let again = b.nohz_balancer_kick(&toy.s, CpuId(0)).map(|k| k.balance);
    assert_eq!(again, Some(false), "balancing is asked for once per tick; blocked load is still to be decayed");
    toy.advance(25);
    b.nohz_idle_balance(&mut toy, kick);
    assert_eq!(toy.nr_running(), [1, 0, 1, 1], "the kicked CPU helps the others first");
    assert_eq!(toy.choices[0].kind, BalanceKind::Nohz);
}

#[test]
fn blocked_load_waits_for_a_pass_before_4_17() {
    let (mut toy, mut b) = (smp(4), FairBalancer::new(Generation::V5_4));
    b.blocked_kicks = false;
    toy.spawn(0);
    (1..4).for_each(|c| b.nohz_balance_enter_idle(&mut toy.s, CpuId(c)));
    toy.advance(100);
    assert_eq!(b.nohz_balancer_kick(&toy.s, CpuId(0)), None, "one task needs no help");
    toy.spawn(0);
    let kick = b.nohz_balancer_kick(&toy.s, CpuId(0)).expect("two tasks wait");
    assert_eq!(kick, Kick { target: CpuId(1), balance: true, stats: false, next: false });
    b.nohz_idle_balance(&mut toy, kick);
    assert_eq!(toy.nr_running()[0], 1);
}

#[test]
fn a_newly_idle_pass_ages_what_sleeping_cpus_have_left_until_5_11() {
    // Once per tick. A newly idle CPU without a pass does it again, later ones after each pass in vain, once per tick too.
    let (old, new) = ([vec![0, 2, 3], vec![0], vec![2, 3]], [vec![0], vec![0, 2, 3], vec![]]);
    for (generation, kicks, expect) in [
        (Generation::V5_4, true, &old),
        (Generation::V5_7, true, &old),
        (Generation::V5_4, false, &[vec![0], vec![0], vec![]]),
        (Generation::V6_1, true, &new),
    ] {
        let (mut toy, mut b) = (smp(4), FairBalancer::new(generation));
        b.blocked_kicks = kicks;
        toy.spawn_on([1, 1]);
        [2, 3].into_iter().for_each(|c| b.nohz_balance_enter_idle(&mut toy.s, CpuId(c)));
        // It pulls the second task; then there is nothing to pull; then nobody has a task to give away.
        let aged = [(true, 1), (true, 0), (false, 0)].map(|(overloaded, pulled)| {
            toy.s.rd.overloaded = overloaded;
            toy.aged.clear();
            toy.advance(if overloaded { 0 } else { 9 });
            assert_eq!(b.newidle(&mut toy, CpuId(0)), pulled, "{generation:?}");
            toy.aged.clone()
        });
        assert_eq!(&aged, expect, "{generation:?}, {kicks}");
    }
}

#[test]
fn one_busy_cpu_needs_no_help_but_two_in_a_cache_do() {
    let (mut toy, mut b) = (smp(4), FairBalancer::default());
    toy.spawn(0);
    (1..4).for_each(|c| b.nohz_balance_enter_idle(&mut toy.s, CpuId(c)));
    let kick = b.nohz_balancer_kick(&toy.s, CpuId(0)).expect("CPUs went to sleep");
    assert_eq!(kick, Kick { target: CpuId(1), balance: false, stats: true, next: true });
    b.nohz_idle_balance(&mut toy, kick);
    assert_eq!(b.nohz_balancer_kick(&toy.s, CpuId(0)), None, "the clock is up to date, blocked load has been decayed");
    toy.spawn(1);
    assert_eq!(b.nohz_balancer_kick(&toy.s, CpuId(0)), None, "until its first tick the other CPU counts as idle");
    assert_eq!(b.nohz_balancer_kick(&toy.s, CpuId(1)).map(|k| k.target), Some(CpuId(2)));
}

#[test]
fn unequal_cpus_kick_for_a_busy_cache_and_every_misfit_task_until_5_1() {
    let kicks = |asym_kicks, busy: &[u32], misfit: Option<usize>| {
        let mut toy = Toy::new(&cpus(4, |c| (c, c / 2, 0, if c < 2 { 400 } else { 1024 })));
        let mut b = FairBalancer { asym_kicks, ..FairBalancer::new(Generation::V5_4) };
        b.blocked_kicks = false;
        toy.spawn_on(busy.iter().copied());
        misfit.into_iter().for_each(|c| toy.s.rqs[c].misfit_task_load = 1024);
        (0..4).filter(|c| !busy.contains(c)).for_each(|c| b.nohz_balance_enter_idle(&mut toy.s, CpuId(c)));
        b.nohz_balancer_kick(&toy.s, CpuId(busy[0])).is_some()
    };
    let both = |busy: &[u32], misfit| [false, true].map(|asym_kicks| kicks(asym_kicks, busy, misfit));
    assert_eq!(both(&[0, 1], None), [true, false], "two in a cache");
    assert_eq!(both(&[2], Some(2)), [true, false], "a misfit task of the biggest CPU");
    assert_eq!(both(&[0], Some(0)), [true, true]);
    assert_eq!(both(&[0], None), [false, false]);
}

#[test]
fn until_5_1_nobody_is_kicked_if_the_first_cpu_without_tick_has_woken_up() {
    for (asym_kicks, expect) in [(false, None), (true, Some(CpuId(2)))] {
        let (mut toy, mut b) = (smp(4), FairBalancer { asym_kicks, ..FairBalancer::new(Generation::V5_4) });
        b.blocked_kicks = false;
        toy.spawn_on([0, 0]);
        (1..4).for_each(|c| b.nohz_balance_enter_idle(&mut toy.s, CpuId(c)));
        toy.spawn(1);
        assert_eq!(b.nohz_balancer_kick(&toy.s, CpuId(0)).map(|k| k.target), expect);
    }
}

#[test]
fn under_the_energy_aware_4_9_only_too_much_work_kicks_an_idle_cpu() {
    let kicks = |cpu: u32, util: u64, nr: usize, misfit: u64, energy_aware: bool| {
        let mut toy = Toy::new(&cpus(4, |c| (c, c / 2, 0, if c < 2 { 400 } else { 1024 })));
        let mut b = FairBalancer::new(Generation::V5_4);
        (b.blocked_kicks, toy.s.rd.energy_aware_4_9) = (false, energy_aware);
        for _ in 0..nr {
            let pid = toy.sleeper(cpu);
            let se = toy.s.se_of(pid);
            toy.s.se[se].avg.util_avg = util;
            toy.attach(pid, CpuId(cpu));
        }
        toy.s.rqs[cpu as usize].misfit_task_load = misfit;
        toy.s.rqs[3].cpu_capacity = 512;
        (0..4).filter(|c| *c != cpu).for_each(|c| b.nohz_balance_enter_idle(&mut toy.s, CpuId(c)));
        b.nohz_balancer_kick(&toy.s, CpuId(cpu)).is_some()
    };
    assert_eq!([true, false].map(|eas| kicks(0, 100, 2, 0, eas)), [false, true], "both fit");
    assert!(kicks(0, 200, 2, 0, true), "they need more than 80 % of it");
    assert!(!kicks(0, 390, 1, 0, true), "one alone");
    assert!(kicks(0, 100, 1, 1024, true));
    assert!(!kicks(2, 900, 1, 1024, true), "there is none bigger");
    assert!(kicks(3, 100, 1, 0, true), "other classes leave it half of a big CPU");
}

#[test]
fn to_the_energy_aware_4_9_one_task_alone_is_no_failure() {
    for (energy_aware, fails) in [(true, false), (false, true)] {
        let (mut toy, _) = one_on_a_little_cpu(300, energy_aware);
        let mut b = FairBalancer::new(Generation::V5_4);
        let mut env = Env::new(&toy.s, CpuId(1), 0, IdleType::Idle);
        (env.src_cpu, env.imbalance) = (CpuId(0), 1024);
        b.push_if_needed(&mut toy, &mut env, 0);
        assert_eq!(toy.s.rqs[1].sd[0].nr_balance_failed > 0, fails);
        toy.spawn(0);
        b.push_if_needed(&mut toy, &mut env, 0);
        assert!(toy.s.rqs[1].sd[0].nr_balance_failed > 0);
    }
}

/// A task that is too much for CPU 0; the big CPU 2, idle, backed off a tick ago.
#[test]
fn under_the_energy_aware_4_9_a_misfit_task_does_not_wait_for_the_interval() {
    let look = |energy_aware: bool, overutilized: bool, misfit: u64| {
        let mut toy = Toy::new(&cpus(4, |c| (c, c / 2, 0, if c < 2 { 400 } else { 1024 })));
        let mut b = FairBalancer::new(Generation::V5_4);
        (toy.s.rd.energy_aware_4_9, toy.s.rd.overutilized) = (energy_aware, overutilized);
        toy.spawn(0);
        toy.s.rqs[0].misfit_task_load = misfit;
        let now = toy.s.now;
        for sd in &mut toy.s.rqs[2].sd {
            (sd.balance_interval_ms, sd.last_balance) = (512, now);
        }
        let next = [0, 1].map(|level| (b.next_pass(&toy.s, CpuId(2), level) - now) / 1_000_000);
        toy.advance(1);
        b.periodic(&mut toy, CpuId(2), true);
        (next, toy.kicks)
    };
    // No more than a tenth of a second per CPU.
    assert_eq!(look(true, true, 1024), ([400, 0], vec![CpuId(0)]));
    for other in [look(false, true, 1024), look(true, false, 1024), look(true, true, 0)] {
        assert_eq!(other, ([400, 400], vec![]));
    }
}

#[test]
fn under_the_energy_aware_4_9_a_full_cpu_leaves_what_is_not_overloaded_alone() {
    let pulls = |energy_aware: bool, own_util: u64| {
        let (mut toy, mut b) = (smp(2), FairBalancer::new(Generation::V5_4));
        toy.s.rd.energy_aware_4_9 = energy_aware;
        toy.spawn_on([0, 0, 0, 1]);
        (toy.s.cfs[0].avg.util_avg, toy.s.cfs[1].avg.util_avg) = (450, own_util);
        let mut env = Env::new(&toy.s, CpuId(1), 0, IdleType::NotIdle);
        b.find_busiest_group(&mut toy.s, &mut env)
    };
    assert_eq!([pulls(true, 1020), pulls(true, 500), pulls(false, 1020)], [None, Some(0), Some(0)]);
}

/// CPUs 0 to 3 are little, in two clusters; on the second is a task that needs a bigger one, and others.
#[test]
fn a_misfit_that_cannot_be_helped_is_load_like_any_other_under_the_energy_aware_4_9() {
    for (energy_aware, expect) in [(true, Some(1)), (false, None)] {
        let mut toy = Toy::new(&cpus(6, |c| (c, c / 2, 0, if c < 4 { 400 } else { 1024 })));
        let mut b = FairBalancer::new(Generation::V5_4);
        toy.s.rd.energy_aware_4_9 = energy_aware;
        toy.spawn_on([2, 2, 2]);
        toy.s.cfs[2].avg.util_avg = 350;
        toy.s.rqs[2].misfit_task_load = 1024;
        let mut env = Env::new(&toy.s, CpuId(0), 1, IdleType::NotIdle);
        assert_eq!(b.find_busiest_group(&mut toy.s, &mut env), expect);
    }
}

#[test]
fn busy_caches_count_in_3_13_where_there_are_several() {
    for (generation, one_cache) in [(Generation::V3_13, false), (Generation::V5_4, true)] {
        for (caches, expect) in [(1, one_cache), (2, true)] {
            let mut toy = Toy::new(&cpus(4, |c| (c, c * caches / 4, 0, 1024)));
            let mut b = FairBalancer::new(generation);
            b.blocked_kicks = false;
            toy.spawn_on([0, 1]);
            [2, 3].into_iter().for_each(|c| b.nohz_balance_enter_idle(&mut toy.s, CpuId(c)));
            let kick = b.nohz_balancer_kick(&toy.s, CpuId(0));
            assert_eq!(kick.is_some(), expect, "{generation:?}, {caches}");
        }
    }
}

#[test]
fn a_cpu_that_others_reduced_kicks_since_4_1() {
    for (generation, expect) in [(Generation::V3_13, false), (Generation::V5_4, true)] {
        let (mut toy, mut b) = (smp(4), FairBalancer::new(generation));
        b.blocked_kicks = false;
        toy.spawn(0);
        toy.s.rqs[0].cpu_capacity = 500;
        (1..4).for_each(|c| b.nohz_balance_enter_idle(&mut toy.s, CpuId(c)));
        assert_eq!(b.nohz_balancer_kick(&toy.s, CpuId(0)).is_some(), expect, "{generation:?}");
    }
}

#[test]
fn scan_limit_falls_to_nothing_at_85_percent() {
    let mut toy = smp(8);
    let mut nr = |util: u64| {
        update_idle_cpu_scan(&mut toy.s, CpuId(0), 117, util * 8);
        toy.s.topology.llc_shared[0].nr_idle_scan
    };
    assert_eq!([0, 300, 512, 800, 874, 876, 1024].map(&mut nr), [8, 7, 5, 1, 0, 0, 0]);
}

#[test]
fn other_classes_and_interrupts_reduce_capacity() {
    let mut toy = smp(1);
    let rq = &mut toy.s.rqs[0];
    (rq.avg_rt.util_avg, rq.avg_irq.util_avg, rq.hw_pressure) = (200, 102, 24);
    assert_eq!(scale_rt_capacity(&toy.s, CpuId(0)), 800 * 898 / 1000);
    toy.s.rqs[0].avg_dl.util_avg = 800;
    assert_eq!(scale_rt_capacity(&toy.s, CpuId(0)), 1);
}

#[test]
fn until_4_18_the_last_second_reduces_capacity_whatever_the_load_tracker_says() {
    use crate::sched::load::rt_avg::Generation;
    for (generation, left) in [(Generation::V4_1, 1024 - 51), (Generation::V4_19, 1)] {
        let mut toy = smp(1);
        let rq = &mut toy.s.rqs[0];
        (rq.rt_avg.generation, rq.freq_cap, rq.avg_rt.util_avg) = (generation, 1024, 1024);
        rq.add_rt_avg(100_000_000); // in the second since the start, and halved
        assert_eq!(scale_rt_capacity(&toy.s, CpuId(0)), left, "{generation:?}");
        assert_eq!(cpu_power::scale_rt_power(&toy.s, CpuId(0), 606), (606 * left / 1024).max(1), "{generation:?}");
    }
}

/// Five hogs on four big CPUs, three on four little ones: by load the little ones are the busier.
#[test]
fn by_load_an_idle_little_cpu_takes_what_waits_on_full_big_ones_by_era() {
    let pulls = |idle_fill_room: bool, energy_aware: bool, newly_idle: bool| {
        let mut toy = Toy::new(&cpus(8, |c| (c, c / 4, 0, if c < 4 { 400 } else { 1024 })));
        let mut b = FairBalancer { idle_fill_room, ..FairBalancer::new(Generation::V5_4) };
        toy.s.rd.energy_aware_4_9 = energy_aware;
        toy.spawn_on([0, 1, 2, 4, 5, 6, 7, 7]);
        toy.advance(1000);
        let kind = if newly_idle { IdleType::NewlyIdle } else { IdleType::Idle };
        let mut env = Env::new(&toy.s, CpuId(3), 1, kind);
        b.find_busiest_group(&mut toy.s, &mut env).map(|g| (g, env.imbalance))
    };
    assert_eq!(pulls(false, true, true), Some((1, 1024)), "android-4.9, newly idle");
    assert_eq!(pulls(false, true, false), None, "android-4.9, idle: loads are even");
    assert_eq!(pulls(true, true, false), Some((1, 1024)), "since 4.15 it would");
    // Elsewhere what moves is what makes more capacity used.
    assert_eq!(pulls(true, false, false), pulls(false, false, true));
}

/// Five hogs on a 2 + 3 machine that says 1441 and 606: by load, a little CPU's task belongs on a big one.
#[test]
fn by_load_an_uneven_machine_moves_a_task_to_the_big_cpus() {
    let mut toy = Toy::new(&cpus(5, |c| (c, u32::from(c >= 2), 0, if c < 2 { 1441 } else { 606 })));
    let mut b = FairBalancer::new(Generation::V5_4);
    toy.spawn_on(0..5);
    let mut env = Env::new(&toy.s, CpuId(0), 1, IdleType::NotIdle);
    assert_eq!(b.find_busiest_group(&mut toy.s, &mut env), Some(1));
    assert_eq!(env.imbalance, 1091);
    assert_eq!(b.find_busiest_queue(&toy.s, &env, 1), Some(CpuId(2)));
    passes(&mut toy, &mut b, 0, false, 3);
    assert_eq!(toy.kicks, []);
    passes(&mut toy, &mut b, 0, false, 1);
    assert_eq!(toy.kicks, [CpuId(2)]);
    b.active_balance(&mut toy, CpuId(2));
    // Three on the big ones and an idle little one is stable.
    passes(&mut toy, &mut b, 2, true, 10);
    passes(&mut toy, &mut b, 0, false, 10);
    let nr = toy.nr_running();
    assert_eq!((nr[0] + nr[1], &nr[2..]), (3, &[0, 1, 1][..]));
    // By class of groups one task per CPU is balanced.
    let mut toy = Toy::new(&cpus(5, |c| (c, u32::from(c >= 2), 0, if c < 2 { 1441 } else { 606 })));
    toy.spawn_on(0..5);
    passes(&mut toy, &mut FairBalancer::default(), 0, false, 10);
    assert_eq!((toy.nr_running(), toy.kicks.len()), (vec![1; 5], 0));
}

/// Our group, which is fully busy, and an overloaded one, with these loads.
fn two_groups(local: u64, busiest: u64) -> SdStats {
    let group = |load: u64, group_type| GroupStats {
        group_load: load,
        avg_load: load * 1024 / 4096,
        group_capacity: 4096,
        group_weight: 4,
        sum_nr_running: 8,
        sum_h_nr_running: 8,
        group_type,
        ..GroupStats::default()
    };
    SdStats {
        local: group(local, GroupType::FullyBusy),
        busiest_group: Some(1),
        busiest: group(busiest, GroupType::Overloaded),
        total_load: local + busiest,
        total_capacity: 8192,
        ..SdStats::default()
    }
}

/// A little CPU and a big one, the groups of one domain: does the CPU `dst` prefer the other group to `busiest`?
fn prefers(dst: u32, busiest: GroupStats, other: GroupStats, generation: Generation, stronger_first: bool) -> bool {
    let toy = Toy::new(&cpus(2, |c| (c, c, 0, [400, 1024][c as usize])));
    let env = Env::new(&toy.s, CpuId(dst), 0, IdleType::Idle);
    let sds = SdStats { busiest, ..SdStats::default() };
    update_sd_pick_busiest(&toy.s, &env, &sds, 1 - dst as usize, &other, generation, stronger_first)
}

#[test]
fn single_tasks_of_bigger_cpus_are_left_alone_whatever_else_there_is_since_2026() {
    let one = |group_type| GroupStats { group_type, sum_h_nr_running: 1, sum_nr_running: 1, ..GroupStats::default() };
    for generation in ALL.into_iter().filter(|g| !g.is_by_load()) {
        for (busiest, until) in [(GroupType::HasSpare, true), (GroupType::FullyBusy, false)] {
            let picks = |first| prefers(0, one(busiest), one(GroupType::FullyBusy), generation, first);
            assert_eq!([picks(false), picks(true)], [until, false], "{generation:?} {busiest:?}");
        }
    }
}

#[test]
fn of_equal_misfits_the_last_is_helped_until_6_8() {
    for generation in ALL.into_iter().filter(|g| !g.is_by_load()) {
        let misfit = |load| GroupStats {
            group_type: GroupType::MisfitTask,
            group_misfit_task_load: load,
            sum_h_nr_running: 1,
            ..GroupStats::default()
        };
        let picks = [499, 500, 501].map(|load| prefers(1, misfit(500), misfit(load), generation, true));
        assert_eq!(picks, [false, generation < Generation::V6_12, true], "{generation:?}");
    }
}

/// A core of two threads and a small core without: the small one takes no thread of the other until 6.6.
#[test]
fn a_small_core_does_not_relieve_a_core_of_two_busy_threads_until_6_5() {
    for generation in [Generation::V5_7, Generation::V6_1, Generation::V6_6, Generation::V6_12] {
        let mut toy = Toy::new(&cpus(3, |c| (c / 2, 0, 0, 1024)));
        toy.spawn_on([0, 1]);
        passes(&mut toy, &mut FairBalancer::new(generation), 2, true, 1);
        assert_eq!(toy.choices.len(), usize::from(generation >= Generation::V6_6), "{generation:?}");
    }
}

#[test]
fn who_has_more_load_than_the_busiest_pulls_until_5_6_and_who_has_more_than_the_average_until_6_2() {
    let toy = Toy::new(&cpus(8, |c| (c, c / 4, 0, 1024)));
    let imbalance = |sds: &SdStats, generation| {
        let (mut sds, mut env) = (*sds, Env::new(&toy.s, CpuId(0), 1, IdleType::NotIdle));
        imbalance::calculate_imbalance(&toy.s, &mut env, &mut sds, generation);
        env.imbalance
    };
    let more = two_groups(12_288, 4096);
    // Both terms are below 0.
    let [old, rest @ ..] = [Generation::V5_6, Generation::V5_7, Generation::V6_1].map(|g| imbalance(&more, g));
    assert_eq!((old, rest), ((1 << 54) - 4096, [0, 0]));
    // A third group, which is idle.
    let mut above = two_groups(8192, 12_288);
    above.total_capacity += 8192;
    let [old @ .., new] = [Generation::V5_6, Generation::V5_7, Generation::V6_1].map(|g| imbalance(&above, g));
    assert_eq!((old, new), ([7168; 2], 0));
}

#[test]
fn load_is_moved_towards_the_average() {
    let toy = Toy::new(&cpus(8, |c| (c, c / 4, 0, 1024)));
    let mut sds = two_groups(4096, 12_288);
    let mut env = Env::new(&toy.s, CpuId(0), 1, IdleType::NotIdle);
    imbalance::calculate_imbalance(&toy.s, &mut env, &mut sds, Generation::V6_12);
    assert_eq!((env.migration, env.imbalance), (Migration::Load, 4096));
    // With room, and beyond the cache: utilisation, up to what is spare here.
    (sds.local.group_type, sds.local.group_util, env.idle) = (GroupType::HasSpare, 3000, IdleType::Idle);
    imbalance::calculate_imbalance(&toy.s, &mut env, &mut sds, Generation::V6_12);
    assert_eq!((env.migration, env.imbalance), (Migration::Util, 1096));
    sds.local.group_util = 4096;
    imbalance::calculate_imbalance(&toy.s, &mut env, &mut sds, Generation::V6_12);
    assert_eq!((env.migration, env.imbalance), (Migration::Task, 1));
}

#[test]
fn within_a_cache_tasks_are_counted_since_5_10() {
    let (util, task) = ((Migration::Util, 1024), (Migration::Task, 1));
    for generation in ALL.into_iter().filter(|g| !g.is_by_load()) {
        let expect = if generation < Generation::V6_1 { util } else { task };
        let (mut toy, mut b) = (smp(2), FairBalancer::new(generation));
        toy.spawn_on([0, 0]);
        let mut env = Env::new(&toy.s, CpuId(1), 0, IdleType::Idle);
        assert_eq!(b.find_busiest_group(&mut toy.s, &mut env), Some(0), "{generation:?}");
        assert_eq!((env.migration, env.imbalance), expect, "{generation:?}");
    }
}

#[test]
fn runnable_time_overloads_a_group_since_5_7() {
    for generation in ALL.into_iter().filter(|g| !g.is_by_load()) {
        // CPU 0 has two tasks that use a third of it and wait two thirds.
        let (mut toy, b) = (smp(2), FairBalancer::new(generation));
        toy.spawn_on([0, 0]);
        (toy.s.cfs[0].avg.util_avg, toy.s.cfs[0].avg.runnable_avg) = (340, 2048);
        let env = Env::new(&toy.s, CpuId(1), 0, IdleType::Idle);
        let class = b.stats_of_group(&toy.s, &env, 0).group_type;
        let expect = if generation < Generation::V5_7 { GroupType::HasSpare } else { GroupType::Overloaded };
        assert_eq!(class, expect, "{generation:?}");
    }
}

#[test]
fn a_pull_by_utilisation_leaves_single_tasks_alone_since_5_7() {
    for (generation, expect) in [(Generation::V5_6, 1), (Generation::V5_7, 0), (Generation::V6_12, 0)] {
        // CPU 0 runs two light tasks, CPU 1 a single heavy one.
        let (mut toy, b) = (Toy::new(&cpus(4, |c| (c, c / 2, 0, 1024))), FairBalancer::new(generation));
        toy.spawn_on([0, 0, 1]);
        toy.s.cfs[0].avg.util_avg = 600;
        let mut env = Env::new(&toy.s, CpuId(2), 1, IdleType::Idle);
        env.migration = Migration::Util;
        assert_eq!(b.find_busiest_queue(&toy.s, &env, 0), Some(CpuId(expect)), "{generation:?}");
    }
}

#[test]
fn how_many_tasks_may_stay_on_a_node() {
    // Of nodes of 32 CPUs: tasks in the busiest, tasks here, and what is to move. imb_numa_nr is 4.
    for (there, here, until_5_10, since_5_18) in [(2, 0, 0, 0), (3, 0, 1, 1), (5, 3, 1, 0), (6, 4, 1, 1)] {
        let (old, new) = (until_5_10, since_5_18);
        for (generation, expect) in [(Generation::V5_6, old), (Generation::V5_7, old), (Generation::V6_1, new)] {
            let mut toy = Toy::new(&cpus(64, |c| (c, c / 8, c / 32, 1024)));
            toy.spawn_on((0..there).chain(32..32 + here));
            let mut b = FairBalancer::new(generation);
            let level = toy.s.rqs[63].sd.len() - 1;
            let mut env = Env::new(&toy.s, CpuId(63), level, IdleType::Idle);
            let mut sds = b.update_sd_lb_stats(&mut toy.s, &env);
            imbalance::calculate_imbalance(&toy.s, &mut env, &mut sds, generation);
            assert_eq!((env.migration, env.imbalance), (Migration::Task, expect), "{generation:?}: {there} and {here}");
        }
    }
}

#[test]
fn energy_aware_systems_balance_only_when_overutilised() {
    let (mut toy, mut b) = (smp(2), FairBalancer::default());
    b.eas = true;
    toy.spawn(0);
    let waiting = toy.spawn(0);
    for pid in 1..=2 {
        let se = toy.s.se_of(Pid(pid));
        toy.s.se[se].avg.util_avg = 300;
    }
    toy.make_idle_policy(waiting);
    toy.s.tasks[waiting.at()].policy = wattif_model::workload::Policy::Normal;
    passes(&mut toy, &mut b, 1, true, 3);
    assert_eq!((toy.nr_running(), toy.s.rd.overutilized), (vec![2, 0], false));
    let se = toy.s.se_of(waiting);
    toy.s.se[se].avg.util_avg = 600;
    toy.make_idle_policy(waiting);
    passes(&mut toy, &mut b, 1, true, 1);
    assert_eq!((toy.nr_running(), toy.s.rd.overutilized), (vec![1, 1], true));
}

#[test]
fn a_pull_by_utilisation_counts_waiting_by_its_scheme() {
    let (mut toy, mut b) = (smp(2), FairBalancer::default());
    toy.spawn(0);
    (toy.s.cfs[0].avg.util_avg, toy.s.cfs[0].avg.runnable_avg) = (300, 600);
    let util = |b: &mut FairBalancer, boost| {
        b.boost = boost;
        b.util(&toy.s, CpuId(0))
    };
    let all = [Boost::Off, Boost::H2, Boost::RelGate(150), Boost::Wait];
    assert_eq!(all.map(|boost| util(&mut b, boost)), [300, 600, 450, 480]);
    b.generation = Generation::V6_1;
    assert_eq!(util(&mut b, Boost::H2), 300, "6.5 is the first to count it");
}

#[test]
fn tasks_are_taken_from_the_head_of_their_list_until_4_14() {
    let order = |takes_from_tail: bool| {
        let mut toy = Toy::new(&cpus(2, |c| (c, 0, 0, 1024)));
        toy.s.takes_from_tail = takes_from_tail;
        let pids: Vec<Pid> = (0..4).map(|_| toy.spawn(0)).collect();
        pids.iter().for_each(|pid| toy.s.list_move(*pid));
        toy.s.list_picked(pids[0]);
        let mut b = FairBalancer::new(Generation::V5_4);
        let mut list = |s: &Sched| {
            b.list_candidates(s, CpuId(0));
            b.candidates.iter().map(|p| pids.iter().position(|pid| pid == p).unwrap()).collect::<Vec<_>>()
        };
        let before = list(&toy.s);
        toy.s.list_refused(pids[before[0]]);
        (before, list(&toy.s))
    };
    assert_eq!(order(true), (vec![1, 2, 3, 0], vec![2, 3, 0, 1]), "the least recently picked");
    assert_eq!(order(false), (vec![3, 2, 1, 0], vec![2, 1, 0, 3]), "the last queued");
}
