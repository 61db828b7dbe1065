//! Whole placements on hand-built machines; the single steps are covered by the kernel's vectors.

use super::select_idle_sibling::{Generation, Scan, SchedIdle};
use super::*;
use crate::sched::topology::tests::cpus;
use crate::sched::topology::{DomainParams, Group};
use crate::sched::toy::Toy;
use crate::sched::uclamp::Fits;
use wattif_model::CpuSet;

fn smp(n: u32) -> Toy {
    Toy::new(&cpus(n, |c| (c, 0, 0, 1024)))
}

fn place(toy: &mut Toy, policy: &mut SelectTaskRqFair, pid: Pid, this: u32, kind: Kind) -> Choice {
    let prev_cpu = toy.s.tasks[pid.at()].cpu;
    let req = Request { pid, prev_cpu, this_cpu: CpuId(this), kind, in_irq: false };
    policy.select_task_rq(&mut toy.s, &req, &|_, _| ())
}

const WAKEUP: Kind = Kind::Wakeup { sync: false };

fn cpu_and_reason(c: Choice) -> (u32, PlacementReason) {
    (c.cpu.0, c.reason)
}

#[test]
fn a_pinned_task_has_no_choice() {
    let (mut toy, mut policy) = (smp(4), SelectTaskRqFair::default());
    let pid = toy.sleeper(0);
    toy.pin(pid, CpuSet::one(CpuId(3)));
    assert_eq!(cpu_and_reason(place(&mut toy, &mut policy, pid, 1, WAKEUP)), (3, PlacementReason::Pinned));
}

#[test]
fn a_wakeup_goes_where_the_cache_is_warm_and_a_cpu_idle() {
    let (mut toy, mut policy) = (smp(4), SelectTaskRqFair::default());
    let pid = toy.sleeper(2);
    toy.spawn(0);
    toy.s.topology.llc_shared[0].nr_idle_scan = 4;
    assert_eq!(cpu_and_reason(place(&mut toy, &mut policy, pid, 0, WAKEUP)), (2, PlacementReason::TargetIdle));
    toy.spawn(2);
    toy.spawn(3);
    let scan = place(&mut toy, &mut policy, pid, 0, WAKEUP);
    assert_eq!(
        (cpu_and_reason(scan), scan.scanned),
        ((1, PlacementReason::IdleScan), 3 - u16::from(scan.target.0 == 0) * 2)
    );
    toy.spawn(1);
    let none = place(&mut toy, &mut policy, pid, 0, WAKEUP);
    assert_eq!((none.reason, none.cpu), (PlacementReason::Target, none.target));
}

#[test]
fn a_sync_wakeup_by_a_lone_waker_stays_with_it() {
    let (mut toy, mut policy) = (smp(2), SelectTaskRqFair::default());
    let pid = toy.sleeper(1);
    toy.spawn_on([0, 1]);
    let choice = place(&mut toy, &mut policy, pid, 0, Kind::Wakeup { sync: true });
    assert_eq!((choice.target, choice.reason), (CpuId(0), PlacementReason::Target));
    assert_eq!(place(&mut toy, &mut policy, pid, 0, WAKEUP).target, CpuId(1));
}

#[test]
fn a_new_task_goes_to_the_emptier_cluster_and_the_shallowest_cpu() {
    use find_idlest_cpu::Generation;
    for generation in [Generation::Load, Generation::V5_6, Generation::V5_7, Generation::Group] {
        let mut toy = Toy::new(&cpus(8, |c| (c, c / 4, 0, 1024)));
        let mut policy = SelectTaskRqFair::default();
        policy.find_idlest_cpu.generation = generation;
        toy.spawn_on([0, 2]);
        for (cpu, us) in [(4, 600), (5, 600), (6, 1), (7, 600)] {
            (toy.s.rqs[cpu].idle_state, toy.s.rqs[cpu].idle_exit_latency_ns) = (Some(0), us * 1000);
        }
        let child = toy.sleeper(0);
        for kind in [Kind::Fork, Kind::Exec] {
            let choice = place(&mut toy, &mut policy, child, 0, kind);
            // By load: a new task leaves even CPU 6, for "no less loaded" is enough; another one stays in its cluster,
            // which has a CPU with all its capacity to spare.
            let expect = match (generation, kind) {
                (Generation::Load, Kind::Fork) => 7,
                (Generation::Load, _) => 1,
                _ => 6,
            };
            assert_eq!(cpu_and_reason(choice), (expect, PlacementReason::Idlest), "{generation:?} {kind:?}");
        }
        toy.pin(child, CpuSet::first(4));
        let choice = place(&mut toy, &mut policy, child, 0, Kind::Fork);
        assert!(choice.cpu == CpuId(1) || choice.cpu == CpuId(3), "{generation:?}: {choice:?}");
    }
}

#[test]
fn what_other_classes_take_is_not_spare_since_4_16() {
    use find_idlest_cpu::Generation;
    for (generation, expect) in [(Generation::V4_10, 0), (Generation::Load, 2)] {
        let mut toy = Toy::new(&cpus(4, |c| (c, c / 2, 0, 1024)));
        toy.s.rqs.iter_mut().for_each(|rq| rq.idle_stamp = 1);
        [0, 1].into_iter().for_each(|c: usize| toy.s.rqs[c].cpu_capacity = 300);
        let task = toy.sleeper(0);
        let mut policy = SelectTaskRqFair::default();
        policy.find_idlest_cpu.generation = generation;
        let cpu = place(&mut toy, &mut policy, task, 0, Kind::Exec).cpu.0;
        assert_eq!(cpu / 2 * 2, expect, "{generation:?}");
    }
}

/// Where a new task goes that CPU 0 forks.
fn forked(toy: &mut Toy, generation: find_idlest_cpu::Generation) -> u32 {
    let mut policy = SelectTaskRqFair::default();
    policy.find_idlest_cpu.generation = generation;
    toy.s.rqs.iter_mut().for_each(|rq| rq.idle_stamp = 1);
    let child = toy.sleeper(0);
    place(toy, &mut policy, child, 0, Kind::Fork).cpu.0
}

#[test]
fn a_new_task_stays_on_a_node_with_an_idle_cpu_until_5_10() {
    use find_idlest_cpu::Generation;
    for (generation, node) in [(Generation::V5_6, 0), (Generation::V5_7, 0), (Generation::Group, 1)] {
        let mut toy = Toy::new(&cpus(16, |c| (c, c / 8, c / 8, 1024)));
        toy.spawn_on(0..7);
        assert_eq!(forked(&mut toy, generation) / 8, node, "{generation:?}: one CPU of eight is idle");
        toy.spawn(7);
        assert_eq!(forked(&mut toy, generation) / 8, 1, "{generation:?}: none is");
    }
}

#[test]
fn of_groups_with_as_many_idle_cpus_the_less_used_one_since_5_9() {
    use find_idlest_cpu::Generation;
    for (generation, group) in [(Generation::V5_6, 1), (Generation::V5_7, 1), (Generation::Group, 2)] {
        let mut toy = Toy::new(&cpus(12, |c| (c, c / 4, 0, 1024)));
        toy.spawn_on([0, 1, 4, 8]);
        toy.s.cfs[8].avg.util_avg = 100;
        assert_eq!(forked(&mut toy, generation) / 4, group, "{generation:?}");
    }
}

#[test]
fn waiting_makes_a_group_unfit_for_a_new_task_since_5_7() {
    use find_idlest_cpu::Generation;
    for (generation, group) in [(Generation::V5_6, 0), (Generation::V5_7, 1), (Generation::Group, 1)] {
        // As many tasks as CPUs in each group: in the first they use little, but wait.
        let mut toy = Toy::new(&cpus(4, |c| (c, c / 2, 0, 1024)));
        toy.spawn_on(0..4);
        (0..4).for_each(|c| toy.s.cfs[c].avg.util_avg = 300);
        (2..4).for_each(|c| toy.s.cfs[c].avg.runnable_avg = 300);
        (0..2).for_each(|c| toy.s.cfs[c].avg.runnable_avg = 2000);
        assert_eq!(forked(&mut toy, generation) / 2, group, "{generation:?}");
    }
}

/// A task that may use one CPU of each of two caches, one of them idle: does the work beside it count?
#[test]
fn only_cpus_that_a_new_task_may_use_count_since_6_19() {
    for (counts_all, expect) in [(true, 0), (false, 4)] {
        let mut toy = Toy::new(&cpus(8, |c| (c, c / 4, 0, 1024)));
        toy.spawn_on([0, 5, 6, 7]);
        toy.s.rqs[4].idle_stamp = 1;
        let pid = toy.sleeper(0);
        toy.s.tasks[pid.at()].cpus = [0, 4].map(CpuId).into_iter().collect();
        let mut policy = SelectTaskRqFair::default();
        policy.find_idlest_cpu.counts_all = counts_all;
        let choice = place(&mut toy, &mut policy, pid, 0, Kind::Fork);
        assert_eq!(choice.cpu, CpuId(expect), "{counts_all}");
    }
}

#[test]
fn of_busy_groups_the_less_loaded_one_since_5_7() {
    use find_idlest_cpu::Generation;
    // All three groups are overloaded, or the first is and the others are fully busy: two tasks for each CPU, or one.
    for (tasks, before, since) in [([2, 2, 2], 0, 2), ([2, 1, 1], 1, 2)] {
        for (generation, group) in [(Generation::V5_6, before), (Generation::V5_7, since), (Generation::Group, since)] {
            let mut toy = Toy::new(&cpus(6, |c| (c, c / 2, 0, 1024)));
            for (c, group) in (0..6).map(|c| (c as usize, c as usize / 2)) {
                (0..tasks[group]).for_each(|_| _ = toy.spawn(c as u32));
                toy.s.cfs[c].avg.util_avg = 1024;
                toy.s.cfs[c].avg.load_avg = [6144, 3072, 2048][group];
            }
            assert_eq!(forked(&mut toy, generation) / 2, group, "{generation:?}");
        }
    }
}

#[test]
fn tasks_do_not_leave_for_far_nodes() {
    for far_nodes in [false, true] {
        let params = DomainParams { far_nodes, ..DomainParams::SINCE_5_10 };
        let mut toy = Toy::with_params(&cpus(8, |c| (c, c / 4, c / 4, 1024)), params);
        let mut policy = SelectTaskRqFair::default();
        // CPU 0 is idle and wakes a task that slept on CPU 5 of the other node, which is busy.
        toy.spawn(5);
        toy.s.cfs[5].avg.load_avg = 9000;
        let wakee = toy.sleeper(5);
        toy.s.rqs[0].idle_stamp = 1;
        let woken = place(&mut toy, &mut policy, wakee, 0, WAKEUP);
        assert_eq!(woken.target.0, if far_nodes { 5 } else { 0 });
        // Everything on the first node is busy, the other one has three idle CPUs.
        toy.spawn_on(0..4);
        toy.s.rqs.iter_mut().for_each(|rq| rq.idle_stamp = 1);
        let child = toy.sleeper(0);
        for kind in [Kind::Fork, Kind::Exec] {
            let cpu = place(&mut toy, &mut policy, child, 0, kind).cpu.0;
            assert_eq!(cpu / 4, u32::from(!far_nodes), "{kind:?}");
        }
    }
}

/// CPU 0 runs a normal task, CPU 1 background work, CPU 2 sleeps deeply, CPU 3 is busy.
fn background() -> (Toy, Pid) {
    let mut toy = smp(4);
    toy.spawn_on([0, 3]);
    let pid = toy.spawn(1);
    toy.make_idle_policy(pid);
    (toy.s.rqs[2].idle_state, toy.s.rqs[2].idle_stamp) = (Some(1), 5);
    toy.s.topology.llc_shared[0].nr_idle_scan = 4;
    let task = toy.sleeper(0);
    (toy, task)
}

#[test]
fn background_work_gives_way_by_era() {
    for (sched_idle, forked, woken) in [
        (SchedIdle::Off, (2, PlacementReason::Idlest), (2, PlacementReason::IdleScan)),
        (SchedIdle::V5_4, (2, PlacementReason::Idlest), (2, PlacementReason::IdleScan)),
        (SchedIdle::V5_6, (1, PlacementReason::SchedIdle), (1, PlacementReason::SchedIdle)),
        (SchedIdle::V2026, (1, PlacementReason::SchedIdle), (1, PlacementReason::SchedIdle)),
    ] {
        let (mut toy, task) = background();
        let mut policy = SelectTaskRqFair::default();
        policy.find_idlest_cpu.sched_idle = sched_idle;
        policy.select_idle_sibling = SelectIdleSibling::new(Generation::V5_6, sched_idle, Scan::All);
        let all = Group { cpus: CpuSet::first(4), weight: 4, ..Group::default() };
        let (cpu, reason) = policy.find_idlest_cpu.find_idlest_group_cpu(&toy.s, &all, task, CpuId(0));
        assert_eq!((cpu.0, reason), forked, "{sched_idle:?}");
        assert_eq!(cpu_and_reason(place(&mut toy, &mut policy, task, 0, WAKEUP)), woken, "{sched_idle:?}");
        // With nothing idle the 5.4 form takes it too; without any form the task waits on a busy CPU.
        toy.spawn(2);
        let choice = place(&mut toy, &mut policy, task, 0, WAKEUP);
        assert_eq!(choice.cpu == CpuId(1), sched_idle != SchedIdle::Off, "{sched_idle:?}");
        // Background work does not make way for more of it since 2026.
        toy.s.tasks[task.at()].policy = wattif_model::workload::Policy::Idle;
        let choice = place(&mut toy, &mut policy, task, 0, WAKEUP);
        let expect = matches!(sched_idle, SchedIdle::V5_4 | SchedIdle::V5_6);
        assert_eq!(choice.cpu == CpuId(1), expect, "{sched_idle:?}");
    }
}

#[test]
fn until_4_10_all_of_the_cache_is_scanned_or_nothing() {
    for (avg_idle, reason) in [(100 * 512, PlacementReason::IdleScan), (100 * 512 - 1, PlacementReason::Target)] {
        let mut toy = smp(16);
        let select_idle_sibling = SelectIdleSibling::new(Generation::V5_4, SchedIdle::Off, Scan::Avg);
        let mut policy = SelectTaskRqFair { select_idle_sibling, ..SelectTaskRqFair::default() };
        toy.spawn_on((0..16).filter(|&c| c != 15));
        (toy.s.rqs[0].avg_idle, toy.s.rqs[0].avg_scan_cost) = (avg_idle, 100);
        let pid = toy.sleeper(0);
        assert_eq!(place(&mut toy, &mut policy, pid, 0, WAKEUP).reason, reason);
    }
}

#[test]
fn an_idle_core_comes_before_an_idle_thread() {
    for generation in [Generation::V5_6, Generation::V6_12] {
        let mut toy = Toy::new(&cpus(8, |c| (c % 4, 0, 0, 1024)));
        let select_idle_sibling = SelectIdleSibling::new(generation, SchedIdle::V5_6, Scan::Util);
        let mut policy = SelectTaskRqFair { select_idle_sibling, ..SelectTaskRqFair::default() };
        toy.s.topology.llc_shared[0].nr_idle_scan = 8;
        // Threads c and c + 4 share a core; one thread of each but core 3 is busy.
        toy.spawn_on([0, 1, 2, 4]);
        let task = toy.sleeper(0);
        policy.update_idle_core(&mut toy.s, CpuId(7));
        assert!(toy.s.topology.llc_shared[0].has_idle_cores);
        let choice = place(&mut toy, &mut policy, task, 0, WAKEUP);
        assert_eq!(cpu_and_reason(choice), (3, PlacementReason::IdleCore), "{generation:?}");
        toy.spawn(3);
        let choice = place(&mut toy, &mut policy, task, 0, WAKEUP);
        assert_eq!(choice.reason, PlacementReason::IdleScan, "{generation:?}");
        assert!([5, 6, 7].contains(&choice.cpu.0), "{generation:?}: {choice:?}");
        assert!(!toy.s.topology.llc_shared[0].has_idle_cores, "the search found none");
        toy.pin(task, [0, 4, 6].map(CpuId).into_iter().collect());
        assert_eq!(place(&mut toy, &mut policy, task, 0, WAKEUP).cpu, CpuId(6), "{generation:?}");
    }
}

/// Twelve cores of one cache, four to a cluster; the task's target is CPU 5, which is busy as the rest of its cluster but
/// for `idle`.
fn clustered(idle: &[u32]) -> (Toy, SelectTaskRqFair, Pid) {
    let mut machine = cpus(12, |c| (c, 0, 0, 1024));
    (0..).zip(&mut machine).for_each(|(i, cpu)| cpu.l2 = Some(i / 4));
    let mut toy = Toy::new(&machine);
    toy.spawn_on((0..12).filter(|c| !idle.contains(c)));
    toy.s.topology.llc_shared[0].nr_idle_scan = 12;
    let pid = toy.sleeper(5);
    (toy, SelectTaskRqFair::default(), pid)
}

#[test]
fn the_cluster_of_the_target_is_scanned_first() {
    for (idle, by_cluster, by_cache) in [(&[4, 9][..], 4, 9), (&[8, 1], 8, 8), (&[7, 6], 6, 6)] {
        let (mut toy, mut policy, pid) = clustered(idle);
        assert_eq!(
            cpu_and_reason(place(&mut toy, &mut policy, pid, 5, WAKEUP)),
            (by_cluster, PlacementReason::IdleScan)
        );
        policy.select_idle_sibling.cluster = false;
        assert_eq!(cpu_and_reason(place(&mut toy, &mut policy, pid, 5, WAKEUP)), (by_cache, PlacementReason::IdleScan));
    }
}

#[test]
fn the_cluster_counts_among_the_cpus_that_a_scan_may_look_at() {
    let (mut toy, mut policy, pid) = clustered(&[9]);
    toy.s.topology.llc_shared[0].nr_idle_scan = 6;
    let choice = place(&mut toy, &mut policy, pid, 5, WAKEUP);
    assert_eq!((choice.cpu, choice.reason, choice.scanned), (CpuId(9), PlacementReason::IdleScan, 6));
    toy.s.topology.llc_shared[0].nr_idle_scan = 5;
    assert_eq!(place(&mut toy, &mut policy, pid, 5, WAKEUP).reason, PlacementReason::Target);
}

#[test]
fn without_its_feature_the_limit_by_utilisation_is_lifted() {
    let (mut toy, mut policy, pid) = clustered(&[9]);
    toy.s.topology.llc_shared[0].nr_idle_scan = 0;
    assert_eq!(place(&mut toy, &mut policy, pid, 5, WAKEUP).reason, PlacementReason::Target);
    toy.s.features.sis_util = false;
    assert_eq!(cpu_and_reason(place(&mut toy, &mut policy, pid, 5, WAKEUP)), (9, PlacementReason::IdleScan));
}

#[test]
fn an_idle_cpu_of_another_cluster_is_the_last_resort() {
    // The waker on CPU 5 is the target (its wake-up is a last word); the task was on CPU 10, which is idle.
    let sync = Kind::Wakeup { sync: true };
    for (idle, cluster, expect) in [
        (&[10][..], true, (10, PlacementReason::IdleScan)),
        (&[10, 4], true, (4, PlacementReason::IdleScan)),
        (&[10, 4], false, (10, PlacementReason::PrevIdle)),
    ] {
        let (mut toy, mut policy, _) = clustered(idle);
        let pid = toy.sleeper(10);
        policy.select_idle_sibling.cluster = cluster;
        assert_eq!(cpu_and_reason(place(&mut toy, &mut policy, pid, 5, sync)), expect, "{idle:?} {cluster}");
    }
    // Where the scan gives up, the previous CPU is still there.
    let (mut toy, mut policy, _) = clustered(&[10]);
    let pid = toy.sleeper(10);
    toy.s.topology.llc_shared[0].nr_idle_scan = 0;
    assert_eq!(cpu_and_reason(place(&mut toy, &mut policy, pid, 5, sync)), (10, PlacementReason::PrevIdle));
}

#[test]
fn a_sibling_of_the_previous_cpu_is_tried_first_when_no_core_is_idle() {
    let mut toy = Toy::new(&cpus(8, |c| (c % 4, 0, 0, 1024)));
    let mut policy = SelectTaskRqFair::default();
    toy.s.topology.llc_shared[0].nr_idle_scan = 8;
    toy.spawn_on([0, 1, 2, 3]);
    let task = toy.sleeper(2);
    assert_eq!(cpu_and_reason(place(&mut toy, &mut policy, task, 0, WAKEUP)), (6, PlacementReason::IdleSmt));
}

#[test]
fn a_big_task_finds_a_big_cpu() {
    let mut toy = Toy::new(&cpus(4, |c| (c, 0, 0, if c < 2 { 400 } else { 1024 })));
    let task = toy.sleeper(0);
    let se = toy.s.se_of(task);
    let mut ask = |generation, util, before_5_7| {
        toy.s.se[se].avg.util_avg = util;
        let mut policy = SelectTaskRqFair { before_5_7, ..SelectTaskRqFair::default() };
        policy.select_idle_sibling.generation = generation;
        place(&mut toy, &mut policy, task, 0, WAKEUP).cpu.0
    };
    for generation in [Generation::V5_7, Generation::V6_1, Generation::V6_12] {
        assert_eq!((ask(generation, 100, false), ask(generation, 600, false)), (0, 2), "{generation:?}");
    }
    // Before, capacity was seen by the slow path only.
    assert_eq!((ask(Generation::V5_6, 100, true), ask(Generation::V5_6, 600, false)), (0, 0));
}

#[test]
fn an_affine_wakeup_marks_the_cpu_of_its_waker_from_4_16_to_5_15() {
    for (generation, recent, expect) in [
        (Generation::V3_13, true, 0), // never had it, whatever the tunable says
        (Generation::V5_4, false, 0),
        (Generation::V5_4, true, 1),
        (Generation::V5_7, true, 1),
        (Generation::V6_1, true, 0),
    ] {
        let mut toy = smp(4);
        let (waker, task) = (toy.spawn(1), toy.sleeper(2));
        let mut policy = SelectTaskRqFair::default();
        (policy.select_idle_sibling.generation, policy.select_idle_sibling.recent) = (generation, recent);
        place(&mut toy, &mut policy, task, 1, WAKEUP);
        assert_eq!(toy.s.tasks[waker.at()].recent_used_cpu, CpuId(expect), "{generation:?} {recent}");
    }
}

#[test]
fn before_5_7_a_task_too_big_for_both_takes_the_slow_path() {
    let mut toy = Toy::new(&cpus(8, |c| (c, c / 4, 0, if c < 4 { 400 } else { 1024 })));
    let task = toy.sleeper(0);
    let se = toy.s.se_of(task);
    toy.s.se[se].avg.util_avg = 600;
    toy.spawn(1);
    let mut policy = SelectTaskRqFair { before_5_7: true, ..SelectTaskRqFair::default() };
    policy.select_idle_sibling.generation = Generation::V5_6;
    (4..8).for_each(|c| toy.s.rqs[c].idle_stamp = 10 - c as u64);
    assert_eq!(cpu_and_reason(place(&mut toy, &mut policy, task, 0, WAKEUP)), (4, PlacementReason::Idlest));
    toy.s.se[se].avg.util_avg = 100;
    assert_eq!(place(&mut toy, &mut policy, task, 0, WAKEUP).cpu, CpuId(0));
}

#[test]
fn a_boosted_task_wakes_up_on_a_big_cpu_since_5_6() {
    let mut toy = Toy::new(&cpus(8, |c| (c, c / 4, 0, if c < 4 { 400 } else { 1024 })));
    let task = toy.sleeper(0);
    let se = toy.s.se_of(task);
    toy.s.se[se].avg.util_avg = 100;
    toy.s.tasks[task.at()].uclamp_min = 700;
    toy.spawn(1);
    (4..8).for_each(|c| toy.s.rqs[c].idle_stamp = 10 - c as u64);
    toy.s.rd.uclamp_used = true;
    let mut ask = |generation, fits| {
        toy.s.uclamp_fits = fits;
        let before_5_7 = generation < Generation::V5_7;
        let mut policy = SelectTaskRqFair { before_5_7, ..SelectTaskRqFair::default() };
        policy.select_idle_sibling.generation = generation;
        let choice = place(&mut toy, &mut policy, task, 0, WAKEUP);
        (choice.cpu >= CpuId(4), choice.reason)
    };
    use PlacementReason::{IdleCapacity, Idlest, TargetIdle};
    for (generation, heeded, unheeded) in [
        (Generation::V5_4, Idlest, TargetIdle),
        (Generation::V5_6, Idlest, TargetIdle),
        (Generation::V5_7, IdleCapacity, IdleCapacity),
        (Generation::V6_1, IdleCapacity, TargetIdle),
        (Generation::V6_12, IdleCapacity, TargetIdle),
    ] {
        assert_eq!(ask(generation, Fits::V5_3), (false, unheeded), "{generation:?}");
        for fits in [Fits::V5_6, Fits::V6_2] {
            assert_eq!(ask(generation, fits), (true, heeded), "{generation:?} {fits:?}");
        }
    }
}

#[test]
fn energy_aware_placement_is_asked_first_unless_overutilised() {
    struct Cheapest;
    impl EnergyAware for Cheapest {
        fn find_energy_efficient_cpu(
            &mut self,
            _: &mut Sched,
            _: &Request,
            _: SyncLoad<'_>,
        ) -> Option<(CpuId, PlacementReason)> {
            Some((CpuId(3), PlacementReason::Energy))
        }
    }
    let mut toy = smp(4);
    let task = toy.sleeper(0);
    let mut policy = SelectTaskRqFair { eas: Some(Box::new(Cheapest)), ..SelectTaskRqFair::default() };
    assert_eq!(cpu_and_reason(place(&mut toy, &mut policy, task, 0, WAKEUP)), (3, PlacementReason::Energy));
    toy.s.rd.overutilized = true;
    assert_eq!(place(&mut toy, &mut policy, task, 0, WAKEUP).cpu, CpuId(0));
}

#[test]
fn idle_tasks_count_their_wakees_per_cpu() {
    let (mut toy, mut policy) = (smp(4), SelectTaskRqFair::default());
    let (a, b) = (toy.sleeper(0), toy.sleeper(0));
    for pid in [a, b, a] {
        place(&mut toy, &mut policy, pid, 1, WAKEUP);
    }
    place(&mut toy, &mut policy, a, 2, WAKEUP);
    let flips = |cpu| policy.wake_affine.waker(&toy.s, CpuId(cpu)).flips;
    assert_eq!([flips(1), flips(2), flips(3)], [3, 1, 0]);
    assert_eq!(toy.s.tasks[0].wakee_flips, 0);
}

/// The rules of 3.13, on two CPUs of power 1441 and three of 606.
fn of_3_13() -> (Toy, SelectTaskRqFair) {
    let power = |c| if c < 2 { 1441 } else { 606 };
    let toy = Toy::with_params(&cpus(5, |c| (c, u32::from(c >= 2), 0, power(c))), DomainParams::V3_13);
    let mut policy = SelectTaskRqFair { before_5_7: true, ..SelectTaskRqFair::default() };
    policy.find_idlest_cpu.generation = find_idlest_cpu::Generation::V3_13;
    policy.select_idle_sibling = SelectIdleSibling::new(Generation::V3_13, SchedIdle::Off, Scan::All);
    policy.wake_affine.generation = wake_affine::Generation::V3_13;
    (toy, policy)
}

#[test]
fn a_new_task_of_3_13_leaves_an_idle_cluster_and_stays_beside_noise() {
    let (mut toy, mut policy) = of_3_13();
    let child = toy.sleeper(0);
    let place = |toy: &mut Toy, policy: &mut _, this| cpu_and_reason(place(toy, policy, child, this, Kind::Fork));
    // Nobody has any load: at every level the next group is as good, whether it is slow or fast.
    assert_eq!(place(&mut toy, &mut policy, 0), (3, PlacementReason::Idlest));
    assert_eq!(place(&mut toy, &mut policy, 4), (1, PlacementReason::Idlest));
    // A task on a slow CPU makes the fast ones the better place.
    toy.spawn(3);
    assert_eq!(place(&mut toy, &mut policy, 0), (1, PlacementReason::Idlest));
    assert_eq!(place(&mut toy, &mut policy, 4), (1, PlacementReason::Idlest));
    // One on a fast CPU too: load over power is 1024·1024/2882 = 363 here, 576 there.
    toy.spawn(0);
    assert_eq!(place(&mut toy, &mut policy, 4).0, 1);
    assert_eq!(place(&mut toy, &mut policy, 1).0, 1);
}

#[test]
fn a_wakeup_of_3_13_takes_idle_groups_of_its_cache_only() {
    let (mut toy, mut policy) = of_3_13();
    let pid = toy.sleeper(2);
    assert_eq!(place(&mut toy, &mut policy, pid, 2, WAKEUP).cpu, CpuId(2), "idle");
    toy.spawn_on([2, 3]);
    assert_eq!(cpu_and_reason(place(&mut toy, &mut policy, pid, 2, WAKEUP)), (4, PlacementReason::IdleScan));
    toy.spawn(4);
    assert_eq!(
        cpu_and_reason(place(&mut toy, &mut policy, pid, 2, WAKEUP)),
        (2, PlacementReason::Target),
        "two fast CPUs are idle, behind another cache"
    );
}
