//! Energy-aware placement of Android's 4.9: one target by a walk over the CPUs, accepted if it saves energy.
//!
//! # Idea
//! Small tasks share a CPU that runs anyway while its present frequency has room, rather than wake another one; a target
//! and a backup are found first, and only then energy is computed, for these against staying. `prefer_idle` and a boost
//! (schedtune) ask for an idle or a big CPU instead and skip the computation.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | task utilisation | 1024ths | PELT `util_avg`, with `UTIL_EST` at least the estimate; or WALT demand | wake-up |
//! | that of a CPU without it | 1024ths | PELT, with `UTIL_EST` at least Σ estimates; or WALT: Σ demand | PELT updates, enqueue |
//! | capacity now | 1024ths | capacity at the present frequency | frequency changes |
//! | busy and idle powers of CPUs and clusters | µW | platform | never |
//! | interrupt load | flag | WALT | interrupts |
//!
//! # Decision
//! 1. Some CPU is overutilised: not here, the ordinary path decides. Otherwise a task that forks or execs is placed here, too. A
//!    synchronous wake-up stays with its waker.
//! 2. boosted := task + boost · (1024 − task) / 100. Walk all CPUs cluster by cluster: first that of the biggest CPU if boosted,
//!    else of the smallest (the lowest number of equals), then round the ring of clusters, which stand in order of their first
//!    CPUs: {6-7}, {0-3}, {4-5} on a Pixel 6 if boosted. Within a cluster by number. Skipped is a CPU whose capacity boosted, or
//!    its utilisation with the task, exceeds, and one under interrupt load.
//! 3. `prefer_idle`: the first idle CPU; else of those with room at their present frequency the one with most spare capacity;
//!    backup: the least used.
//! 4. Otherwise: of the busy ones those with room now, smaller first, then most room: target. Of the idle ones the first, or a
//!    later one that is no larger and in a shallower state: backup, or target without any other. So a boosted task leaves the
//!    big cluster only for a CPU that is awake sooner.
//! 5. Boosted or `prefer_idle`, and the target is idle: take it. The target is the previous CPU: stay. With the task on top of
//!    all that its utilisation says (in PELT's the task's own is still part of it; WALT adds the boosted task) the previous CPU
//!    would be overutilised: take the target.
//! 6. Energy of both places: Σ over CPUs and clusters of busy share · P(state for the largest utilisation) + the rest ·
//!    P(idle). Under WALT that state is for the demand of all that ran or will run in the window, also of what sleeps again. A
//!    busy share is rounded up; a cluster's is the sum of its CPUs'. Idle is the shallowest state of today where the task stays
//!    in the group; where it comes or goes, the deeper the less of the group is used.
//!    Under WALT one that forks or execs is taken to be queued on the previous CPU already, so that a new task that comes from a
//!    CPU with nothing else queued saves nothing elsewhere. In PELT a new task weighs nothing.
//!    Less than 1/64 of a difference is none. The target saves: take it; else the same for the backup; else stay. With a
//!    boost a gain in capacity may pay for energy, by gains per decile of boost, and is welcome where it costs none; a negative
//!    boost counts as the lowest decile.
//!
//! Worked example: a task of 100, two little CPUs of capacity 400 at half speed: one runs at 50, one idles. The busy one has
//! room (150 ≤ 200): target. With a task of 160 it has not, and the idle one is taken: that is how demand that counts
//! waiting spreads tasks.
//!
//! # State and cost
//! Two orders of the CPUs, and what was weighed, for a trace with decisions (`wattif_energy_candidate`). O(CPUs) for the walk, O(CPUs of two clusters) per computation.
//!
//! # Where it fails
//! One target: a better CPU that the walk passed over is not considered. The frequency it assumes is the lowest that fits,
//! without the governor's headroom.
//!
//! # Differences from the kernel
//! Where there is a table of powers it is there, on machines of equal CPUs too; mainline's needs CPUs that differ. Not under SMT.
//! FIDELITY(payoff-regions): the gains of the payoff regions are not checked against the kernel's code. No vectors of this code
//! exist. FIDELITY(packing): the trees of 2017 differ in step 4. Earlier ones ask whether a busy CPU has room at its present
//! frequency, as here and as the report of that year explains its results; later ones only for spare capacity, and take none
//! with less of it than one before, so that a boosted task, whose walk begins with the big CPUs, stays with them.
//!
//! # Source
//! Android common kernel 4.9, `kernel/sched/fair.c` (`find_best_target`, `select_energy_cpu_brute`, `energy_diff`),
//! `kernel/sched/tune.c` (behaviour).

use super::{EnergyAware, Kind, Request, SyncLoad};
use crate::sched::Sched;
use crate::sched::load::cpu_load::{cpu_util_cfs, cpu_util_cum, cpu_util_without, task_util, task_util_est};
use crate::sched::schedtune::{Schedtune, boosted};
use std::cmp::Reverse;
use wattif_model::platform::{Cluster, FreqDomain, Platform, PowerTable};
use wattif_model::trace::{EnergyCandidate, PlacementReason};
use wattif_model::{CpuId, CpuSet, Pid};

/// A CPU is overutilised above 1024/1280 of its capacity.
const CAPACITY_MARGIN: u64 = 1280;

/// Payoff in the regions where energy and capacity rise, or fall, together: gain of energy, gain of capacity by decile of boost.
const GAINS: [(i64, i64); 10] = [(0, 5), (1, 5), (2, 5), (3, 5), (4, 5), (5, 4), (5, 3), (5, 2), (5, 1), (5, 0)];

/// CPUs of one cluster and one clock.
#[derive(Clone, Debug)]
struct EnergyGroup {
    cpus: CpuSet,
    /// All of the clock.
    domain: CpuSet,
    capacities: Vec<u64>,
    power: PowerTable,
    deepest: usize,
}

/// The policy.
#[derive(Clone, Debug)]
pub struct FindBestTarget {
    groups: Vec<EnergyGroup>,
    group_of: Vec<usize>,
    /// CPUs from the cluster of the smallest on, and from that of the biggest.
    walks: [Vec<CpuId>; 2],
    /// Power of the whole machine at full speed, µW, which energy differences are normalised by.
    max_power: u64,
    /// What the last decision compared.
    weighed: Vec<EnergyCandidate>,
}

/// What the walk found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Found {
    target: Option<CpuId>,
    backup: Option<CpuId>,
}

impl FindBestTarget {
    /// For a platform; `None` where a busy power is not known, or cores have several threads.
    pub fn of_platform(platform: &Platform) -> Option<FindBestTarget> {
        if !platform.has_energy_model() {
            return None;
        }
        let group = |d: &FreqDomain, cpus: CpuSet| EnergyGroup {
            deepest: cpus.min().map_or(0, |c| platform.idle_states(c).len().saturating_sub(1)),
            cpus,
            domain: d.cpus.clone(),
            capacities: d.opps.iter().map(|o| u64::from(o.capacity)).collect(),
            power: d.power.clone(),
        };
        let in_clusters = |d| platform.clusters.iter().map(move |c: &Cluster| group(d, c.cpus.and(&d.cpus)));
        let groups: Vec<EnergyGroup> =
            platform.domains.iter().flat_map(in_clusters).filter(|g| !g.cpus.is_empty()).collect();
        let full = |g: &EnergyGroup| {
            let top = g.capacities.len() - 1;
            g.power.busy(top) * g.cpus.len() as u64 + g.power.cluster_busy(top)
        };
        let cpus = || (0..platform.nr_cpus() as u32).map(CpuId);
        let of = |cpu| groups.iter().position(|g| g.cpus.contains(cpu)).expect("every CPU has a cluster and a clock");
        let capacity = |c: &CpuId| platform.cpus[c.at()].capacity;
        let starts = [cpus().min_by_key(capacity), cpus().min_by_key(|c| Reverse(capacity(c)))];
        let clusters = || platform.clusters.iter().map(|c| &c.cpus);
        let walks = starts.map(|start| start.map_or(Vec::new(), |start| walk(clusters(), start)));
        Some(FindBestTarget {
            max_power: groups.iter().map(full).sum::<u64>().max(1),
            group_of: cpus().map(of).collect(),
            groups,
            walks,
            weighed: Vec::with_capacity(2),
        })
    }

    #[doc(alias = "find_best_target")]
    fn find(&self, s: &Sched, pid: Pid, (boost_pct, prefer_idle): (i32, bool)) -> Found {
        let util = task_size(s, pid);
        let min_util = boosted(util, boost_pct);
        let (mut active, mut idle, mut least_used) = (None, None, None);
        // What the best of each kind has shown so far, in whichever cluster: later CPUs are held against all of it.
        let (mut active_size, mut most_spare) = (u64::MAX, 0);
        let (mut idle_size, mut shallowest) = (u64::MAX, i32::MAX);
        let (mut least_others, mut least_util) = (u64::MAX, u64::MAX);
        for &cpu in &self.walks[usize::from(boost_pct > 0)] {
            let rq = &s.rqs[cpu.at()];
            let orig = u64::from(rq.cpu_capacity_orig);
            let others = cpu_util_without(s, cpu, pid);
            let new_util = min_util.max(others + util);
            if !s.tasks[pid.at()].cpus.contains(cpu) || new_util > orig || high_irqload(s, cpu) {
                continue;
            }
            let spare = orig - new_util;
            // At the present frequency.
            let room = rq.capacity_curr().saturating_sub(new_util);
            match (s.idle_cpu(cpu), prefer_idle) {
                (true, true) => return Found { target: Some(cpu), backup: None },
                (true, false) => {
                    let state = rq.idle_state_idx();
                    if orig <= idle_size && state < shallowest {
                        (idle, idle_size, shallowest) = (Some(cpu), orig, state);
                    }
                }
                (false, true) => {
                    if room > 0 && spare > most_spare {
                        (active, most_spare) = (Some(cpu), spare);
                    } else if active.is_none() && others <= least_others && new_util <= least_util {
                        (least_used, least_others, least_util) = (Some(cpu), others, new_util);
                    }
                }
                // Smaller first, then most room.
                (false, false) if room > 0 && (orig < active_size || orig == active_size && room > most_spare) => {
                    (active, active_size, most_spare) = (Some(cpu), orig, room);
                }
                (false, false) => {}
            }
        }
        let backup = if prefer_idle { least_used } else { idle };
        match active {
            Some(_) => Found { target: active, backup },
            None => Found { target: backup, backup: None },
        }
    }

    /// Power, µW, of the clusters of `prev` and `dst` if the task ran on `on`; and the capacity it would have there.
    /// `counted`: the task is taken for a part of what `prev` has already.
    #[doc(alias = "sched_group_energy")]
    fn energy(&self, s: &Sched, pid: Pid, (prev, dst): (CpuId, CpuId), on: CpuId, counted: bool) -> (u64, u64) {
        let size = task_size(s, pid);
        let with = |cpu: CpuId, util: u64| {
            let (added, had) = (if cpu == on { size } else { 0 }, if counted && cpu == prev { size } else { 0 });
            (util + added).saturating_sub(had)
        };
        let util_of = |cpu: CpuId| with(cpu, cpu_util_without(s, cpu, pid));
        let peak_of = |cpu: CpuId| with(cpu, cpu_util_cum(s, cpu, pid));
        let moved = if on == prev { 0 } else { size };
        let (first, second) = (self.group_of[prev.at()], self.group_of[dst.at()]);
        let (mut energy, mut capacity) = (0, 0);
        for g in [Some(first), (second != first).then_some(second)].into_iter().flatten() {
            let group = &self.groups[g];
            let largest = group.domain.iter().map(peak_of).max().unwrap_or(0);
            let top = group.capacities.len() - 1;
            let state = group.capacities.iter().position(|&c| c >= largest).unwrap_or(top);
            // Rounded up, and at most the whole time.
            let busy_part = |util: u64| (util << 10).div_ceil(group.capacities[state].max(1)).min(1024);
            let mix = |part: u64, busy: u64, idle: u64| part * busy + (1024 - part) * idle;
            let (mut sum, mut parts) = (0, 0);
            for cpu in group.cpus.iter() {
                let (part, idle) =
                    (busy_part(util_of(cpu)), idle_row(s, [cpu].into_iter(), group.deepest, prev, dst, moved));
                parts += part;
                sum += mix(part, group.power.busy(state), group.power.idle(idle, state));
            }
            let idle = idle_row(s, group.cpus.iter(), group.deepest, prev, dst, moved);
            sum += mix(parts.min(1024), group.power.cluster_busy(state), group.power.cluster_idle(idle, state));
            energy += sum >> 10;
            if group.cpus.contains(on) {
                capacity = group.capacities[state];
            }
        }
        (energy, capacity)
    }

    /// Is `dst` to be taken instead of `prev` (`energy_diff` below 0)?
    #[doc(alias = "energy_diff")]
    fn saves(&mut self, s: &Sched, pid: Pid, (prev, dst): (CpuId, CpuId), boost_pct: i32, counted: bool) -> bool {
        let (before, cap_before) = self.energy(s, pid, (prev, dst), prev, counted);
        let (after, cap_after) = self.energy(s, pid, (prev, dst), dst, counted);
        let diff = after as i64 - before as i64;
        self.weighed.push(EnergyCandidate {
            cpu: dst,
            util: (cpu_util_without(s, dst, pid) + task_size(s, pid)) as u32,
            capacity: s.rqs[dst.at()].cpu_capacity_orig,
            fits: true,
            energy: before,
            delta: diff,
        });
        let diff = if diff.unsigned_abs() < before / 64 { 0 } else { diff };
        if boost_pct == 0 {
            return diff < 0;
        }
        let energy = diff * 1024 / self.max_power as i64;
        let capacity = cap_after as i64 - cap_before as i64;
        match (energy < 0, capacity >= 0) {
            (true, true) => true,
            (false, false) => false,
            _ => {
                let (energy_gain, capacity_gain) = GAINS[boost_pct.clamp(0, 99) as usize / 10];
                capacity * energy_gain > energy * capacity_gain
            }
        }
    }
}

/// The idle state that idle CPUs of a group are taken to be in: the shallowest of today, or, where the task joins or leaves the
/// group, the deeper the less all of it is used: not the deepest unless nothing is left.
#[doc(alias = "group_idle_state")]
fn idle_row(
    s: &Sched,
    cpus: impl Iterator<Item = CpuId> + Clone,
    deepest: usize,
    prev: CpuId,
    dst: CpuId,
    moved: u64,
) -> usize {
    // As the kernel counts: 0 is idle in no state, whose power is that of state 0.
    let held = |cpu: CpuId| cpus.clone().any(|c| c == cpu);
    let leaves = held(prev);
    let index = if leaves == held(dst) {
        let state = |c: CpuId| (s.rqs[c.at()].idle_state_idx() + 1) as usize;
        cpus.clone().map(state).min().unwrap_or(0)
    } else {
        let util: u64 = cpus.clone().map(|c| cpu_util_cfs(s, c)).sum();
        let util = if leaves { util.saturating_sub(moved) } else { util + moved };
        let capacity = cpus.clone().map(|c| u64::from(s.rqs[c.at()].cpu_capacity)).max().unwrap_or(1).max(1);
        match util {
            0 => deepest + 1,
            _ if util <= capacity * cpus.count() as u64 => {
                deepest - (util as usize * deepest / capacity as usize).min(deepest)
            }
            _ => 0,
        }
    };
    index.saturating_sub(1)
}

/// All CPUs, cluster by cluster round the ring from that of `start`.
#[doc(alias = "sd_ea")]
fn walk<'a>(clusters: impl Iterator<Item = &'a CpuSet>, start: CpuId) -> Vec<CpuId> {
    let mut ring: Vec<&CpuSet> = clusters.collect();
    ring.sort_by_key(|cpus| cpus.min());
    let first = ring.iter().position(|cpus| cpus.contains(start)).expect("every CPU has a cluster");
    ring.rotate_left(first);
    ring.into_iter().flat_map(CpuSet::iter).collect()
}

/// Boost and `prefer_idle` of a task.
fn tune(s: &Sched, pid: Pid) -> (i32, bool) {
    let of = |t: &Schedtune| {
        let group = t.group_of(&s.tasks[pid.at()]);
        (t.boost_pct(group, s.now), t.groups[group].prefer_idle)
    };
    s.schedtune.as_ref().map_or((0, false), of)
}

/// `boosted_task_util`: what a task is to be given room for.
pub(crate) fn boosted_task_util(s: &Sched, pid: Pid) -> u64 {
    boosted(task_size(s, pid), tune(s, pid).0)
}

/// What a CPU's utilisation will rise by: the task's estimate counts where those of CPUs do.
fn task_size(s: &Sched, pid: Pid) -> u64 {
    if s.features.util_est { task_util_est(s, pid) } else { task_util(s, pid) }
}

fn high_irqload(s: &Sched, cpu: CpuId) -> bool {
    s.walt.as_ref().is_some_and(|w| w.walt.high_irqload(&w.rqs[cpu.at()], s.jiffies(s.now)))
}

impl EnergyAware for FindBestTarget {
    fn places_new_tasks(&self) -> bool {
        true
    }

    fn find_energy_efficient_cpu(
        &mut self,
        s: &mut Sched,
        req: &Request,
        sync: SyncLoad<'_>,
    ) -> Option<(CpuId, PlacementReason)> {
        use PlacementReason::{BestTarget, Energy, Unweighed, Waker};
        let (pid, prev) = (req.pid, req.prev_cpu);
        if req.kind != Kind::Fork {
            sync(s, pid);
        }
        let allowed = &s.tasks[pid.at()].cpus;
        if req.kind == (Kind::Wakeup { sync: true }) && allowed.contains(req.this_cpu) {
            return Some((req.this_cpu, Waker));
        }
        let tune = tune(s, pid);
        let found = self.find(s, pid, tune);
        let stay = allowed.contains(prev).then_some((prev, Unweighed));
        let Some(target) = found.target else { return stay };
        if (tune.0 > 0 || tune.1) && s.idle_cpu(target) {
            return Some((target, BestTarget));
        }
        if target == prev {
            return stay;
        }
        // PELT's sum still has what the task left there, so that it counts twice.
        let added = if s.walt.is_some() { boosted_task_util(s, pid) } else { task_size(s, pid) };
        let with_task = cpu_util_cfs(s, prev) + added;
        let over = with_task * CAPACITY_MARGIN > u64::from(s.rqs[prev.at()].cpu_capacity) * 1024;
        if over || !allowed.contains(prev) {
            return Some((target, BestTarget));
        }
        // calc_util_delta: under WALT one that does not wake up is thought to be queued, also if it is new.
        let counted = s.walt.is_some() && !matches!(req.kind, Kind::Wakeup { .. });
        self.weighed.clear();
        let better = [Some(target), found.backup].into_iter().flatten();
        let mut better = better.filter(|&c| c != prev && self.saves(s, pid, (prev, c), tune.0, counted));
        let cpu = better.next().unwrap_or(prev);
        Some((cpu, Energy))
    }

    fn weighed(&self) -> &[EnergyCandidate] {
        &self.weighed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::load::walt::{Walt, WaltSystem, WaltTask};
    use crate::sched::schedtune::Group;

    /// CPUs 0 and 1 little (400), 2 and 3 big; half speed; CPU 0 runs at 50, the others idle.
    fn machine(task: u64) -> (FindBestTarget, Sched) {
        let mut s = Sched::bare(4, 4_000_000);
        let pid = Pid(1);
        s.tasks.push(crate::sched::task::Task {
            pid,
            cpus: CpuSet::first(4),
            nr_cpus_allowed: 4,
            ..Default::default()
        });
        s.se.push(Default::default());
        let se = s.se_of(pid);
        s.se[se].avg.util_avg = task;
        s.se[se].avg.last_update_time = 1;
        for cpu in 0..4 {
            s.rqs[cpu].cpu_capacity_orig = if cpu < 2 { 400 } else { 1024 };
            s.rqs[cpu].freq_cap = 512;
            s.rqs[cpu].cpu = CpuId(cpu as u32);
        }
        (s.rqs[0].nr_running, s.cfs[0].avg.util_avg) = (1, 50);
        // The task last ran on a big CPU and has a part in it.
        (s.tasks[1].cpu, s.cfs[3].avg.util_avg) = (CpuId(3), task);
        let group = |cpus: &[u32], capacity: u64, busy: u64| EnergyGroup {
            cpus: cpus.iter().map(|&c| CpuId(c)).collect(),
            domain: cpus.iter().map(|&c| CpuId(c)).collect(),
            capacities: vec![capacity / 2, capacity],
            power: PowerTable {
                busy_uw: vec![busy, busy * 4],
                idle_uw: vec![vec![busy / 10], vec![0]],
                cluster_busy_uw: vec![busy / 4, busy],
                cluster_idle_uw: vec![vec![busy / 20], vec![0]],
            },
            deepest: 1,
        };
        let groups = vec![group(&[0, 1], 400, 100_000), group(&[2, 3], 1024, 800_000)];
        let walks = [0, 2].map(|start| walk(groups.iter().map(|g: &EnergyGroup| &g.cpus), CpuId(start)));
        (FindBestTarget { groups, group_of: vec![0, 0, 1, 1], walks, max_power: 9_000_000, weighed: Vec::new() }, s)
    }

    fn wake(policy: &mut FindBestTarget, s: &mut Sched) -> Option<CpuId> {
        let kind = Kind::Wakeup { sync: false };
        let req = Request { pid: Pid(1), prev_cpu: CpuId(3), this_cpu: CpuId(0), kind, in_irq: true };
        policy.find_energy_efficient_cpu(s, &req, &|_, _| {}).map(|(cpu, _)| cpu)
    }

    #[test]
    fn a_small_task_is_packed_while_there_is_room_at_this_frequency() {
        let (mut policy, mut s) = machine(100);
        assert_eq!(wake(&mut policy, &mut s), Some(CpuId(0)));
        let (mut policy, mut s) = machine(160);
        assert_eq!(wake(&mut policy, &mut s), Some(CpuId(1)));
    }

    #[test]
    fn a_task_whose_average_faded_is_as_big_as_its_estimate() {
        for (util_est, at) in [(false, CpuId(0)), (true, CpuId(1))] {
            let (mut policy, mut s) = machine(100);
            s.features.util_est = util_est;
            let se = s.se_of(Pid(1));
            s.se[se].avg.util_est = 160;
            assert_eq!(wake(&mut policy, &mut s), Some(at), "{util_est}");
        }
    }

    #[test]
    fn prefer_idle_takes_the_first_idle_one_and_a_boost_begins_with_the_big_ones() {
        let (mut policy, mut s) = machine(100);
        let tuned = |boost_pct| Some(Schedtune::new([Group { boost_pct, prefer_idle: true }; 4], &["/"]));
        s.schedtune = tuned(0);
        assert_eq!(wake(&mut policy, &mut s), Some(CpuId(1)));
        s.schedtune = tuned(50);
        assert_eq!(wake(&mut policy, &mut s), Some(CpuId(2)), "the first of equals");
    }

    /// CPU 0 runs the waker; whoever is idle is in `state`, CPU 1 in `little`.
    fn asleep(s: &mut Sched, state: u8, little: Option<u8>) {
        s.rqs.iter_mut().for_each(|rq| rq.idle_state = Some(state));
        s.rqs[0].idle_state = None;
        s.rqs[1].idle_state = little;
    }

    #[test]
    fn a_boosted_task_leaves_the_big_ones_for_a_shallower_state_only() {
        let (mut policy, mut s) = machine(300); // no room on CPU 0
        s.schedtune = Some(Schedtune::new([Group { boost_pct: 1, prefer_idle: false }; 4], &["/"]));
        for (little, expect) in [(Some(2), 2), (Some(1), 2), (Some(0), 1), (None, 1)] {
            asleep(&mut s, 1, little);
            assert_eq!(wake(&mut policy, &mut s), Some(CpuId(expect)), "{little:?}");
        }
    }

    #[test]
    fn a_new_task_is_placed_by_energy_too() {
        assert!(machine(100).0.places_new_tasks());
    }

    /// Its parent's CPU has nothing queued: what leaves nothing there saves nothing.
    #[test]
    fn under_walt_a_new_task_is_weighed_as_if_it_were_queued_on_its_parents_cpu() {
        for (kind, expect) in [(Kind::Wakeup { sync: false }, 0), (Kind::Fork, 3), (Kind::Exec, 3)] {
            let (mut policy, mut s) = machine(0);
            let mut w = WaltSystem::new(Walt::new(10, 5_000_000), 4);
            w.tasks.push(WaltTask { demand: 1_000_000, ..WaltTask::default() });
            w.rqs[0].cumulative_runnable_avg = 500_000;
            s.rqs.iter_mut().for_each(|rq| rq.cpu_capacity = rq.cpu_capacity_orig);
            s.walt = Some(w);
            let req = Request { pid: Pid(1), prev_cpu: CpuId(3), this_cpu: CpuId(3), kind, in_irq: false };
            let choice = policy.find_energy_efficient_cpu(&mut s, &req, &|_, _| {});
            assert_eq!(choice.map(|(cpu, _)| cpu), Some(CpuId(expect)), "{kind:?}");
        }
    }

    /// 500 of 1024 and a task of 330 that is part of it: 830 is more than 4/5, although 500 is not.
    #[test]
    fn what_the_task_left_on_its_cpu_counts_twice() {
        for (left, expect) in [(460, 3), (500, 0)] {
            let (mut policy, mut s) = machine(330);
            s.rqs.iter_mut().for_each(|rq| (rq.cpu_capacity, rq.freq_cap) = (rq.cpu_capacity_orig, 1024));
            s.cfs[3].avg.util_avg = left;
            policy.groups[0].power.busy_uw = vec![20_000_000, 80_000_000];
            assert_eq!(wake(&mut policy, &mut s), Some(CpuId(expect)), "{left}");
        }
    }

    /// Two CPUs of capacity 400 and three states: where the task leaves, the group is idle the deeper the less is left.
    #[test]
    fn a_group_that_is_left_sleeps_deeper() {
        let (_, mut s) = machine(100);
        let cpus = || [0, 1].map(CpuId).into_iter();
        s.rqs.iter_mut().for_each(|rq| rq.cpu_capacity = 400);
        let row = |s: &Sched, moved, dst| idle_row(s, cpus(), 2, CpuId(0), CpuId(dst), moved);
        // It stays in the group: CPU 0 is in no state, which counts as the first.
        assert_eq!(row(&s, 50, 1), 0);
        asleep(&mut s, 0, Some(1));
        s.rqs[0].idle_state = Some(2);
        assert_eq!(row(&s, 50, 1), 1, "the shallowest");
        // 50 in all.
        assert_eq!((row(&s, 50, 2), row(&s, 0, 2)), (2, 1), "the deepest when nothing is left");
        s.cfs[1].avg.util_avg = 400;
        assert_eq!((row(&s, 0, 2), idle_row(&s, cpus(), 2, CpuId(2), CpuId(0), 400)), (0, 0), "all is used");
    }

    /// Of three clusters the middle one comes last to a boosted task: the ring goes on with the first.
    #[test]
    fn the_walk_goes_round_the_ring_of_clusters() {
        let cluster = |cpus: [u32; 2]| cpus.into_iter().map(CpuId).collect::<CpuSet>();
        let order = |clusters: &[CpuSet], start| {
            walk(clusters.iter(), CpuId(start)).into_iter().map(|c| c.0).collect::<Vec<u32>>()
        };
        let clusters = [[0, 1], [2, 3], [4, 5]].map(cluster);
        assert_eq!(order(&clusters, 4), [4, 5, 0, 1, 2, 3]);
        assert_eq!(order(&clusters, 0), [0, 1, 2, 3, 4, 5]);
        // In order of their first CPUs, however they are listed and numbered.
        assert_eq!(order(&[[1, 2], [0, 3]].map(cluster), 1), [1, 2, 0, 3]);
    }

    #[test]
    fn a_negative_boost_pays_for_no_capacity() {
        let (mut policy, s) = machine(100);
        let mut saves = |boost_pct| policy.saves(&s, Pid(1), (CpuId(0), CpuId(2)), boost_pct, false);
        assert_eq!([50, 5, -5, -50, -100].map(&mut saves), [true, false, false, false, false]);
    }

    #[test]
    fn more_capacity_for_no_more_energy_is_taken_with_a_boost() {
        let (mut policy, s) = machine(100);
        policy.groups[1].power = policy.groups[0].power.clone();
        let energy = |policy: &FindBestTarget, on| policy.energy(&s, Pid(1), (CpuId(1), CpuId(2)), CpuId(on), false);
        // Within the 1/64 that counts as nothing.
        let equal = (100_000..1_000_000).step_by(500).any(|uw| {
            policy.groups[1].power.busy_uw = vec![uw, 2 * uw];
            let (before, after) = (energy(&policy, 1), energy(&policy, 2));
            before.0.abs_diff(after.0) < before.0 / 128 && after.1 > before.1
        });
        assert!(equal);
        let mut saves = |boost_pct, from, to| policy.saves(&s, Pid(1), (CpuId(from), CpuId(to)), boost_pct, false);
        assert_eq!([saves(0, 1, 2), saves(10, 1, 2), saves(10, 2, 1), saves(-10, 1, 2)], [false, true, false, false]);
    }

    /// One clock, clusters 0-1 and 2-3 of equal CPUs.
    #[test]
    fn a_clock_of_two_clusters_pays_for_the_cluster_that_is_woken() {
        let (mut policy, mut s) = machine(100);
        let first = EnergyGroup { domain: CpuSet::first(4), ..policy.groups[0].clone() };
        policy.groups = vec![first.clone(), EnergyGroup { cpus: policy.groups[1].cpus.clone(), ..first }];
        s.rqs.iter_mut().for_each(|rq| rq.cpu_capacity_orig = 400);
        s.cfs[3].avg.util_avg = 0;
        let power = |s: &Sched, on| policy.energy(s, Pid(1), (CpuId(1), CpuId(2)), CpuId(on), false).0;
        assert!(power(&s, 1) < power(&s, 2));
        // The other cluster's work sets the clock of both.
        s.cfs[3].avg.util_avg = 300;
        let shared = power(&s, 1);
        policy.groups.iter_mut().for_each(|g| g.domain = g.cpus.clone());
        assert!(shared > policy.energy(&s, Pid(1), (CpuId(1), CpuId(2)), CpuId(1), false).0);
    }

    #[test]
    fn it_stays_where_moving_saves_nothing() {
        let (mut policy, mut s) = machine(100);
        policy.groups[0].power.busy_uw = vec![2_000_000, 8_000_000];
        assert_eq!(wake(&mut policy, &mut s), Some(CpuId(3)));
    }

    #[test]
    fn a_task_that_does_not_fit_leaves_whatever_the_energy() {
        let (mut policy, mut s) = machine(900);
        s.cfs[3].avg.util_avg = 900 + 300;
        assert_eq!(wake(&mut policy, &mut s), Some(CpuId(2)));
    }
}
