//! The busiest group and the busiest CPU: since 5.5 by class of group ("generation group"), before by load.
//!
//! A group that is in a worse class is busier. Within a class: overloaded by average load; misfit by the largest misfit
//! load (of equals the last group, since 6.9 the first); fully busy and has_spare by fewest idle CPUs, then most running tasks.
//! A group without a fair task and a misfit that this CPU cannot help are never busiest. Single tasks on CPUs of more capacity than
//! this one are not either (`stronger`: only compared with a group of the same class, until 2026).

use super::asym_packing::{check_asym_packing, is_lower, is_smt};
use super::capacity::{
    capacity_greater, check_cpu_capacity, scale_rt_capacity, update_group_capacity, update_idle_cpu_scan,
};
use super::group_stats::{GroupStats, GroupType, group_classify};
use super::imbalance::{calculate_imbalance, sibling_imbalance};
use super::load_balance::Env;
use super::sums::Sums;
use super::{
    FairBalancer, Generation, IdleType, Migration, by_load, cpu_overutilized, cpu_power, is_overutilized, jiffies_ns,
};
use crate::sched::load::cpu_load::{cpu_load, cpu_runnable_load, cpu_util_cfs};
use crate::sched::placement::cpu_util::cpu_util;
use crate::sched::placement::eas::EasView;
use crate::sched::topology::{Domain, Group};
use crate::sched::{Sched, View};
use wattif_model::CpuId;

/// What a pass learns of a domain (`struct sd_lb_stats`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SdStats {
    /// Our group.
    pub local: GroupStats,
    /// Index of the busiest other one.
    pub busiest_group: Option<usize>,
    /// Its statistics.
    pub busiest: GroupStats,
    /// Σ load.
    pub total_load: u64,
    /// Σ capacity.
    pub total_capacity: u64,
    /// Load over capacity, × 1024, of the domain.
    pub avg_load: u64,
    /// Spread over groups rather than fill one.
    pub prefer_sibling: bool,
}

impl SdStats {
    /// Load over capacity of the whole domain.
    pub(super) fn average(&self) -> u64 {
        self.total_load * 1024 / self.total_capacity.max(1)
    }
}

impl FairBalancer {
    /// `find_busiest_group`: the group to pull from, with the imbalance in `env`; `None` when balanced.
    #[doc(alias = "sched_balance_find_src_group")]
    pub(super) fn find_busiest_group(&mut self, s: &mut Sched, env: &mut Env) -> Option<usize> {
        let mut sds = self.update_sd_lb_stats(s, env);
        let group = sds.busiest_group?;
        let stays = self.eas && !s.rd.overutilized;
        if self.generation == Generation::V5_4
            && let Some(load) = check_asym_packing(s, env, &sds)
        {
            env.imbalance = load as i64;
            return (load > 0).then_some(group);
        }
        let found = match self.generation {
            Generation::V3_13 => cpu_power::is_imbalanced(env, env.sd(s).imbalance_pct, &mut sds),
            Generation::V5_4 => !stays && by_load::is_imbalanced(s, env, &mut sds, self.idle_fill_room),
            // Since 6.2 (e5ed0550c04c, in 6.1.192 too) a misfit task is helped although the rest of the system is not overutilised.
            generation => {
                let misfit = generation >= Generation::V6_1 && sds.busiest.group_type == GroupType::MisfitTask;
                (misfit || !stays) && self.is_imbalanced(s, env, &mut sds)
            }
        };
        if !found {
            return None;
        }
        match self.generation {
            Generation::V3_13 => cpu_power::calculate_imbalance(s, env, &mut sds),
            Generation::V5_4 => by_load::calculate_imbalance(s, env, &mut sds),
            generation => calculate_imbalance(s, env, &mut sds, generation),
        }
        (env.imbalance > 0).then_some(group)
    }

    /// Is the difference between our group and the busiest worth a move?
    fn is_imbalanced(&self, s: &View, env: &Env, sds: &mut SdStats) -> bool {
        let (local, busiest) = (sds.local, sds.busiest);
        if matches!(busiest.group_type, GroupType::MisfitTask | GroupType::AsymPacking | GroupType::Imbalanced) {
            return true;
        }
        if local.group_type > busiest.group_type {
            return false;
        }
        if local.group_type == GroupType::Overloaded {
            sds.avg_load = sds.average();
            let pct = u64::from(env.sd(s).imbalance_pct);
            if local.avg_load >= busiest.avg_load
                || local.avg_load >= sds.avg_load
                || 100 * busiest.avg_load <= pct * local.avg_load
            {
                return false;
            }
        }
        let spread = sds.prefer_sibling && local.group_type == GroupType::HasSpare;
        if spread && sibling_imbalance(s, env, sds, self.generation) > 1 {
            return true;
        }
        if busiest.group_type == GroupType::Overloaded {
            return true;
        }
        // Nobody waits for long: only an idle CPU may even things out, and not to mirror the imbalance.
        let sd = env.sd(s);
        let smt_to_core = busiest.group_type == GroupType::SmtBalance
            && is_smt(&sd.groups[env.local_group]) != sds.busiest_group.is_some_and(|g| is_smt(&sd.groups[g]));
        let idler = busiest.group_weight == 1 || local.idle_cpus > busiest.idle_cpus + 1;
        env.is_idle() && (smt_to_core || (idler && busiest.sum_h_nr_running > 1))
    }

    /// `update_sd_lb_stats`: all groups of the domain, ours first, then by CPU.
    pub(super) fn update_sd_lb_stats(&mut self, s: &mut Sched, env: &Env) -> SdStats {
        if self.keeps_sums(s, env) {
            self.refresh_sums(s, env);
        }
        // Until 6.5 our own domain below is asked, which the small cores of a hybrid processor do not have; then that of the busiest.
        let asks = env.level > 0 || self.generation >= Generation::V6_6;
        let mut sds = SdStats { prefer_sibling: asks && env.sd(s).prefer_sibling, ..SdStats::default() };
        if !self.generation.is_by_load() {
            sds.busiest.idle_cpus = u32::MAX;
        }
        let due = |s: &View| jiffies_ns(s) >= env.sd(s).groups[env.local_group].next_update;
        if env.idle != IdleType::NewlyIdle || due(s) {
            update_group_capacity(s, env.sd_cpu, env.level, |s, cpu| match self.generation {
                Generation::V3_13 => cpu_power::scale_rt_power(s, cpu, self.power.original[cpu.at()]),
                _ => scale_rt_capacity(s, cpu),
            });
        }
        let (overloaded, overutilized, sum_util) = match self.generation.is_by_load() {
            true => self.update_groups::<true>(s, env, &mut sds),
            false => self.update_groups::<false>(s, env, &mut sds),
        };
        let top = env.level + 1 == s.rqs[env.sd_cpu.at()].sd.len();
        if top {
            s.rd.overloaded = overloaded;
        }
        if self.eas {
            s.rd.overutilized = overutilized || (!top && s.rd.overutilized);
        }
        let sd = env.sd(s);
        let (pct, weight) = (sd.imbalance_pct, sd.weight);
        let is_llc = weight == s.topology.llc_size[env.sd_cpu.at()];
        if s.features.sis_util && env.idle != IdleType::NewlyIdle && is_llc {
            update_idle_cpu_scan(s, env.sd_cpu, pct, sum_util);
        }
        sds
    }

    /// All groups, ours first: is some CPU overloaded, is one overutilised, and Σ utilisation. The innermost loop of balancing, built
    /// once for the generations that go by load and once for those that go by class.
    #[inline(never)]
    fn update_groups<const BY_LOAD: bool>(&self, s: &View, env: &Env, sds: &mut SdStats) -> (bool, bool, u64) {
        let (mut overloaded, mut overutilized, mut sum_util) = (false, false, 0);
        for g in (env.local_group..env.sd(s).groups.len()).chain(0..env.local_group) {
            let mut sgs = GroupStats::default();
            self.add_group::<BY_LOAD>(s, env, g, &mut sgs, &mut overloaded, &mut overutilized);
            sds.total_load += sgs.group_load;
            sds.total_capacity += sgs.group_capacity;
            sum_util += sgs.group_util;
            // By class a group without a fair task is never the busiest.
            let local = g == env.local_group;
            if !BY_LOAD && !local && sgs.sum_h_nr_running == 0 {
                continue;
            }
            self.classify::<BY_LOAD>(s, env, &sds.local, g, &mut sgs);
            if local {
                sds.local = sgs;
            } else if self.picks(s, env, sds, g, &mut sgs) {
                (sds.busiest_group, sds.busiest) = (Some(g), sgs);
            }
        }
        (overloaded, overutilized, sum_util)
    }

    #[inline(always)]
    fn picks(&self, s: &View, env: &Env, sds: &SdStats, g: usize, sgs: &mut GroupStats) -> bool {
        match self.generation {
            Generation::V3_13 => cpu_power::update_sd_pick_busiest(sds, sgs),
            Generation::V5_4 => by_load::update_sd_pick_busiest(s, env, sds, g, sgs, self.spreads_pairs),
            generation => update_sd_pick_busiest(s, env, sds, g, sgs, generation, self.stronger_first),
        }
    }

    /// `update_sg_lb_stats`: what the CPUs of a group add up to, in statistics that are empty yet.
    #[inline(always)]
    fn add_group<const BY_LOAD: bool>(
        &self,
        s: &View,
        env: &Env,
        g: usize,
        sgs: &mut GroupStats,
        overloaded: &mut bool,
        overutilized: &mut bool,
    ) {
        let sd = env.sd(s);
        let (group, local) = (&sd.groups[g], g == env.local_group);
        (sgs.group_capacity, sgs.group_weight) = (group.capacity, group.weight);
        if !group.llcs.is_empty() && self.keeps_sums(s, env) {
            *overloaded |= self.add_kept::<BY_LOAD>(s, env, group, local, sgs);
        } else {
            let all = group.cpus.iter().filter(|&c| env.includes(c));
            match group.weight {
                1 if env.looks_at_all() => {
                    self.look::<BY_LOAD>(s, env, group.balance_cpu, local, sgs, overloaded, overutilized);
                }
                _ => all.for_each(|c| self.look::<BY_LOAD>(s, env, c, local, sgs, overloaded, overutilized)),
            }
        }
        *overloaded |= sd.asym_cpucapacity && sgs.group_misfit_task_load > 0;
    }

    /// One CPU of a group that is walked over.
    #[inline(always)]
    fn look<const BY_LOAD: bool>(
        &self,
        s: &View,
        env: &Env,
        cpu: CpuId,
        local: bool,
        sgs: &mut GroupStats,
        overloaded: &mut bool,
        overutilized: &mut bool,
    ) {
        let of = Sums::of_cpu::<BY_LOAD>(s, cpu, self.generation);
        self.add_cpu::<BY_LOAD>(s, env, cpu, local, &of, sgs);
        *overloaded |= of.crowded > 0;
        *overutilized = *overutilized || self.eas && is_overutilized(s, cpu, of.util);
    }

    /// `update_sg_lb_stats`: the class of a group.
    #[inline(always)]
    fn classify<const BY_LOAD: bool>(&self, s: &View, env: &Env, ours: &GroupStats, g: usize, sgs: &mut GroupStats) {
        let sd = env.sd(s);
        let (group, local) = (&sd.groups[g], g == env.local_group);
        if BY_LOAD {
            return match self.generation {
                Generation::V3_13 => self.power.finish(env, s, group, sgs),
                _ => by_load::finish(s, env, group, sgs),
            };
        }
        sgs.group_asym_packing = !local && self.wants_all(s, env, ours, group, sgs);
        let smt = self.generation >= Generation::V6_6 && !local && env.is_idle();
        sgs.group_smt_balance = smt && is_smt(group) && sgs.sum_h_nr_running > 1;
        sgs.group_type = group_classify(sd.imbalance_pct, group, sgs);
        if sgs.group_type == GroupType::Overloaded {
            sgs.avg_load = sgs.group_load * 1024 / sgs.group_capacity.max(1);
        }
    }

    /// `update_sg_lb_stats`: one group.
    #[cfg(test)]
    pub(super) fn stats_of_group(&self, s: &View, env: &Env, g: usize) -> GroupStats {
        fn of<const BY_LOAD: bool>(b: &FairBalancer, s: &View, env: &Env, g: usize) -> GroupStats {
            let mut sgs = GroupStats::default();
            b.add_group::<BY_LOAD>(s, env, g, &mut sgs, &mut false, &mut false);
            b.classify::<BY_LOAD>(s, env, &GroupStats::default(), g, &mut sgs);
            sgs
        }
        if self.generation.is_by_load() { of::<true>(self, s, env, g) } else { of::<false>(self, s, env, g) }
    }

    /// One CPU of a group, and the largest misfit so far: of CPUs that are not idle, since 5.5 of other groups only.
    #[inline(always)]
    pub(super) fn add_cpu<const BY_LOAD: bool>(
        &self,
        s: &View,
        env: &Env,
        cpu: CpuId,
        local: bool,
        of: &Sums,
        sgs: &mut GroupStats,
    ) {
        sgs.add(of);
        if of.idle_cpus == 0 && (!local || BY_LOAD) {
            let misfit = &mut sgs.group_misfit_task_load;
            match s.rd.energy_aware_4_9 {
                true if *misfit > 0 => {}
                true => *misfit = misfit_4_9(s, env, cpu),
                false => *misfit = (*misfit).max(self.misfit_load(s, env, cpu, of)),
            }
        }
    }

    /// Load of a task that would be better off on another CPU, 0: none.
    #[inline(always)]
    fn misfit_load(&self, s: &View, env: &Env, cpu: CpuId, of: &Sums) -> u64 {
        let sd = env.sd(s);
        if sd.asym_cpucapacity {
            // 0 where the kernel knows no misfit tasks.
            return s.rqs[cpu.at()].misfit_task_load;
        }
        // Since 6.1: alone on a CPU that other classes reduced.
        let reduced = self.generation >= Generation::V6_1
            && env.is_idle()
            && of.h_nr_running == 1
            && check_cpu_capacity(s, cpu, sd.imbalance_pct);
        if reduced { of.load } else { 0 }
    }

    /// `find_busiest_queue`: the CPU of the group with most of what is to be moved.
    #[doc(alias = "sched_balance_find_src_rq")]
    #[inline(never)]
    pub(super) fn find_busiest_queue(&self, s: &View, env: &Env, group: usize) -> Option<CpuId> {
        if self.generation == Generation::V3_13 {
            return self.power.find_busiest_queue(s, env, group);
        }
        let sd = env.sd(s);
        let (by_load, misfit) = (self.generation == Generation::V5_4, env.migration == Migration::Misfit);
        // The energy-aware 4.9 knows no capacities here, and looks for a misfit task by load.
        let knows_asym = sd.asym_cpucapacity && !s.rd.energy_aware_4_9;
        let mut best = Busiest::default();
        for cpu in sd.groups[group].cpus.iter().filter(|&c| env.includes(c)) {
            if misfit && by_load && knows_asym {
                best.consider(cpu, s.rqs[cpu.at()].misfit_task_load);
                continue;
            }
            let h_nr_running = s.cfs[cpu.at()].h_nr_running;
            let nr_running = if by_load { s.rqs[cpu.at()].nr_running } else { h_nr_running };
            if h_nr_running == 0 || (knows_asym && nr_running == 1 && !self.is_upward(s, env, cpu)) {
                continue;
            }
            if self.is_better_off(s, env, cpu, nr_running) {
                continue;
            }
            match env.migration {
                Migration::Misfit if !by_load => best.consider(cpu, s.rqs[cpu.at()].misfit_task_load),
                Migration::Load | Migration::Misfit => {
                    let load = if by_load { cpu_runnable_load(s, cpu) } else { cpu_load(s, cpu) };
                    let whole = nr_running == 1 && load as i64 > env.imbalance && !misfit;
                    if !whole || check_cpu_capacity(s, cpu, sd.imbalance_pct) {
                        best.consider_scaled(cpu, load, u64::from(s.rqs[cpu.at()].cpu_capacity));
                    }
                }
                // One task would have to stay anyway, which 5.6 only finds out when it tries.
                Migration::Util if nr_running > 1 || self.generation < Generation::V5_7 => {
                    best.consider(cpu, self.util(s, cpu))
                }
                Migration::Util => {}
                Migration::Task => best.consider(cpu, u64::from(nr_running)),
            }
        }
        best.cpu
    }

    /// Has the destination more capacity? Since 5.13 by 5 %.
    fn is_upward(&self, s: &View, env: &Env, cpu: CpuId) -> bool {
        let capacity = |c: CpuId| u64::from(s.rqs[c.at()].cpu_capacity);
        if self.generation >= Generation::V6_1 {
            return capacity_greater(capacity(env.dst_cpu), capacity(cpu));
        }
        capacity(env.dst_cpu) >= capacity(cpu)
    }

    /// `cpu_util_cfs_boost` since 6.5: waiting counts too.
    pub(super) fn util(&self, s: &View, cpu: CpuId) -> u64 {
        match self.generation {
            Generation::V6_6 | Generation::V6_12 => cpu_util(&EasView::signals(s, cpu), None, self.boost),
            _ => cpu_util_cfs(s, cpu),
        }
    }
}

/// The energy-aware 4.9 goes by the first CPU with too much to do that has a task that does not fit it, and takes the CPU's capacity for the load.
fn misfit_4_9(s: &View, env: &Env, cpu: CpuId) -> u64 {
    let rq = &s.rqs[cpu.at()];
    let counts = env.sd(s).asym_cpucapacity && rq.misfit_task_load > 0 && cpu_overutilized(s, cpu);
    if counts { rq.cpu_capacity.into() } else { 0 }
}

/// The busiest CPU so far; the first among equals stays.
pub(super) struct Busiest {
    /// Which.
    pub cpu: Option<CpuId>,
    amount: u64,
    capacity: u64,
}

impl Default for Busiest {
    fn default() -> Busiest {
        Busiest { cpu: None, amount: 0, capacity: 1 }
    }
}

impl Busiest {
    fn consider(&mut self, cpu: CpuId, amount: u64) {
        if amount > self.amount {
            (self.cpu, self.amount) = (Some(cpu), amount);
        }
    }
    /// Compares amount/capacity by cross-multiplication.
    pub(super) fn consider_scaled(&mut self, cpu: CpuId, amount: u64, capacity: u64) {
        if amount * self.capacity > self.amount * capacity {
            *self = Busiest { cpu: Some(cpu), amount, capacity };
        }
    }
}

/// `update_sd_pick_busiest` since 5.5.
pub(super) fn update_sd_pick_busiest(
    s: &View,
    env: &Env,
    sds: &SdStats,
    g: usize,
    sgs: &GroupStats,
    generation: Generation,
    stronger_first: bool,
) -> bool {
    let sd = env.sd(s);
    let group = &sd.groups[g];
    if sgs.sum_h_nr_running == 0 {
        return false;
    }
    let misfit = sd.asym_cpucapacity && sgs.group_type == GroupType::MisfitTask;
    if misfit && (!can_help(s, env, group, generation) || sds.local.group_type != GroupType::HasSpare) {
        return false;
    }
    let better_off =
        || sd.asym_cpucapacity && sgs.group_type <= GroupType::FullyBusy && is_stronger(s, env, sd, group, generation);
    if stronger_first && better_off() {
        return false;
    }
    let busiest = &sds.busiest;
    if sgs.group_type != busiest.group_type {
        return sgs.group_type > busiest.group_type;
    }
    let busiest_is_smt = sds.busiest_group.is_some_and(|b| is_smt(&sd.groups[b]));
    let more_running = sgs.idle_cpus < busiest.idle_cpus
        || (sgs.idle_cpus == busiest.idle_cpus && sgs.sum_nr_running > busiest.sum_nr_running);
    let busier = match sgs.group_type {
        GroupType::Overloaded => return sgs.avg_load > busiest.avg_load,
        GroupType::Imbalanced => return false,
        GroupType::AsymPacking => return is_lower(s, sd, sds, g, generation),
        // Of equals the last, until "sched/fair: Simplify the update_sd_pick_busiest() logic" (6.9).
        GroupType::MisfitTask if generation < Generation::V6_12 => {
            return sgs.group_misfit_task_load >= busiest.group_misfit_task_load;
        }
        GroupType::MisfitTask => return sgs.group_misfit_task_load > busiest.group_misfit_task_load,
        GroupType::SmtBalance if sgs.idle_cpus != 0 || busiest.idle_cpus != 0 => more_running,
        GroupType::SmtBalance | GroupType::FullyBusy if generation >= Generation::V6_6 => !busiest_is_smt,
        GroupType::SmtBalance | GroupType::FullyBusy => sgs.avg_load > busiest.avg_load,
        // A core that serves one task is left alone; a group of whole cores is preferred to it.
        GroupType::HasSpare
            if generation >= Generation::V6_6 && sds.busiest_group.is_some() && busiest_is_smt != is_smt(group) =>
        {
            return !(is_smt(group) && sgs.sum_h_nr_running <= 1);
        }
        GroupType::HasSpare => more_running,
    };
    busier && !better_off()
}

/// Has our CPU (6.x) or group (5.x) more capacity than any CPU of that group, so that a misfit of it may fit here?
fn can_help(s: &View, env: &Env, group: &Group, generation: Generation) -> bool {
    if generation >= Generation::V6_1 {
        return capacity_greater(u64::from(s.rqs[env.dst_cpu.at()].cpu_capacity), group.max_capacity);
    }
    by_load::smaller(group.max_capacity, env.sd(s).groups[env.local_group].max_capacity)
}

/// Has even the weakest CPU of that group more capacity than we: is every single task better off there?
fn is_stronger(s: &View, env: &Env, sd: &Domain, group: &Group, generation: Generation) -> bool {
    if generation >= Generation::V6_1 {
        return capacity_greater(group.min_capacity, u64::from(s.rqs[env.dst_cpu.at()].cpu_capacity));
    }
    by_load::smaller(sd.groups[env.local_group].min_capacity, group.min_capacity)
}
