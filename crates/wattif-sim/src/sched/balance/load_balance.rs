//! One pass over a domain, and when passes are due.

use super::capacity::check_cpu_capacity;
use super::{BackOff, FairBalancer, Generation, IdleType, Migration, Transaction, cpu_overutilized, hz, jiffies_ns};
use crate::sched::topology::{Domain, Group};
use crate::sched::{Sched, View, ttwu_queue};
use wattif_model::trace::{BalanceChoice, BalanceKind, BalancePass};
use wattif_model::{CpuId, Pid};

/// `MAX_PINNED_INTERVAL`: while all tasks are pinned the interval grows up to this, ms.
const MAX_PINNED_INTERVAL_MS: u64 = 512;

/// A pass (`struct lb_env`).
#[derive(Debug)]
pub(super) struct Env {
    /// Whose domain; the CPU that balances.
    pub sd_cpu: CpuId,
    /// Which of its domains.
    pub level: usize,
    /// Index of that domain.
    pub domain: usize,
    /// Index of its own group.
    pub local_group: usize,
    /// Where tasks go.
    pub dst_cpu: CpuId,
    /// Where they come from.
    pub src_cpu: CpuId,
    /// Is `sd_cpu` idle?
    pub idle: IdleType,
    /// What is left to move.
    pub imbalance: i64,
    /// In which unit.
    pub migration: Migration,
    /// `LBF_ALL_PINNED`: no task was seen that may run on `dst_cpu`.
    pub all_pinned: bool,
    /// `LBF_SOME_PINNED`.
    pub some_pinned: bool,
    /// `LBF_DST_PINNED`: a CPU of our group that could take a task that we cannot.
    pub dst_pinned: Option<CpuId>,
    /// `LBF_ACTIVE_LB`.
    pub active: bool,
    /// Tasks looked at, at most.
    pub loop_max: u32,
    /// CPUs that were found to be of no use in this pass; of `env->cpus` what is missing.
    excluded: Vec<CpuId>,
}

impl Env {
    pub(super) fn new(s: &View, cpu: CpuId, level: usize, idle: IdleType) -> Env {
        let sd = &s.rqs[cpu.at()].sd[level];
        Env {
            sd_cpu: cpu,
            level,
            domain: sd.domain,
            local_group: sd.local_group,
            dst_cpu: cpu,
            src_cpu: cpu,
            idle,
            imbalance: 0,
            migration: Migration::Load,
            all_pinned: false,
            some_pinned: false,
            dst_pinned: None,
            active: false,
            loop_max: 0,
            // Allocates only in the rare case that something is excluded.
            excluded: Vec::new(),
        }
    }
    /// Does the pass look at this CPU of its domain (`env->cpus`)?
    #[inline]
    pub(super) fn includes(&self, cpu: CpuId) -> bool {
        self.excluded.is_empty() || !self.excluded.contains(&cpu)
    }
    /// Does the pass look at every CPU of its domain?
    pub(super) fn looks_at_all(&self) -> bool {
        self.excluded.is_empty()
    }
    /// Its domain.
    pub(super) fn sd<'s>(&self, s: &'s View) -> &'s Domain {
        &s.topology.domains[self.domain]
    }
    /// The destination is idle or about to be.
    pub(super) fn is_idle(&self) -> bool {
        self.idle != IdleType::NotIdle
    }
}

/// The energy-aware 4.9: one task alone is too much for its CPU, and not for this one, which is larger.
fn is_worth_a_larger_cpu(s: &View, env: &Env) -> bool {
    let (src, dst) = (&s.rqs[env.src_cpu.at()], &s.rqs[env.dst_cpu.at()]);
    src.cpu_capacity < dst.cpu_capacity
        && src.cpu_capacity_orig < dst.cpu_capacity_orig
        && s.cfs[env.src_cpu.at()].h_nr_running == 1
        && cpu_overutilized(s, env.src_cpu)
        && !cpu_overutilized(s, env.dst_cpu)
}

/// To the energy-aware 4.9 a pass fails only where the busiest group has more than one task.
fn has_another(s: &View, env: &Env) -> bool {
    let busiest = || env.sd(s).groups.iter().find(|g| g.cpus.contains(env.src_cpu));
    let tasks = |g: &Group| g.cpus.iter().filter(|c| env.includes(*c)).map(|c| s.cfs[c.at()].h_nr_running).sum::<u32>();
    !s.rd.energy_aware_4_9 || busiest().is_some_and(|g| tasks(g) > 1)
}

/// How a pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Nothing to do.
    Balanced,
    /// Every task of the busiest CPU is kept there by its affinity.
    AllPinned,
    /// The running task that should be pushed may not come here.
    OnePinned,
    /// There was an imbalance; so many tasks were moved, and active balance was asked for or not.
    Unbalanced {
        /// Tasks.
        moved: u32,
        /// The stopper was kicked.
        active: bool,
    },
}

/// Milliseconds in ticks, rounded up.
pub(super) fn msecs_to_jiffies(ms: u64, hz: u64) -> u64 {
    (ms * hz).div_ceil(1000)
}

/// `max_load_balance_interval`: a tenth of a second per CPU, in ticks.
pub(super) fn max_interval(s: &View) -> u64 {
    (hz(s) * s.nr_cpus() as u64 / 10).max(1)
}

/// `NI_RANDOM`: shall the newly idle CPU look? If so, a success counts for as many as the dice suppress.
fn throw_dice(txn: &mut impl Transaction, cpu: CpuId, level: usize) -> Option<u32> {
    let s = txn.view();
    if !s.features.ni_random {
        return Some(1);
    }
    let weight = 1 + s.rqs[cpu.at()].sd[level].newidle.ratio;
    if txn.dice(cpu) > weight {
        txn.state().rqs[cpu.at()].sd[level].newidle.update(0);
        return None;
    }
    Some((1024 + weight / 2) / weight)
}

/// Threads are about to be queued, none has to be looked for; since 5.8.
fn has_wake_list(s: &View, cpu: CpuId) -> bool {
    s.ttwu_queue >= ttwu_queue::Generation::V6_0 && s.rqs[cpu.at()].ttwu_pending
}

/// `update_newidle_cost`: the maximum, which decays by 1 % a second.
fn update_newidle_cost(s: &mut Sched, cpu: CpuId, level: usize, cost: u64) -> bool {
    let (now, second) = (jiffies_ns(s), hz(s) * s.tick_ns);
    let sd = &mut s.rqs[cpu.at()].sd[level];
    if cost > sd.max_newidle_lb_cost {
        (sd.max_newidle_lb_cost, sd.last_decay) = (cost, now);
    } else if now > sd.last_decay + second {
        (sd.max_newidle_lb_cost, sd.last_decay) = (sd.max_newidle_lb_cost * 253 / 256, now);
        return true;
    }
    false
}

impl FairBalancer {
    /// `get_sd_balance_interval`, ns. Under the energy-aware 4.9 a domain with a misfit task is due at every tick.
    #[inline(always)]
    pub(super) fn balance_interval(&self, s: &View, cpu: CpuId, level: usize, busy: bool) -> u64 {
        let sd = &s.rqs[cpu.at()].sd[level];
        if s.rd.energy_aware_4_9 && s.rd.overutilized {
            let mut span = s.topology.domains[sd.domain].span.iter();
            if span.any(|c| s.rqs[c.at()].misfit_task_load > 0) {
                return 0;
            }
        }
        let factor = if busy { u64::from(s.topology.domains[sd.domain].busy_factor) } else { 1 };
        let mut ticks = msecs_to_jiffies(sd.balance_interval_ms * factor, hz(s));
        // Since 5.10: not a multiple of the level below, or both would fall on the same tick.
        if busy && self.generation >= Generation::V6_1 {
            ticks = ticks.saturating_sub(1);
        }
        ticks.clamp(1, max_interval(s)) * s.tick_ns
    }

    /// `load_balance`: one pass of a CPU over one of its domains. Tasks moved, and whether larger domains are its business.
    #[doc(alias = "sched_balance_rq")]
    pub(super) fn load_balance(
        &mut self,
        txn: &mut impl Transaction,
        cpu: CpuId,
        level: usize,
        idle: IdleType,
    ) -> (u32, bool) {
        let s = txn.view();
        let mut env = Env::new(s, cpu, level, idle);
        if !self.should_we_balance(s, &env) {
            self.settle(txn, &env, Outcome::Balanced);
            return (0, false);
        }
        let weight = s.topology.domains[env.domain].weight;
        let cost_ns = self.pass_cost(s, cpu, level).min(u32::MAX.into()) as u32;
        txn.spend(BalancePass { cpus: weight.min(u16::MAX.into()) as u16, cost_ns });
        if idle == IdleType::NewlyIdle && txn.view().rd.energy_aware_4_9 {
            self.update_tickless(txn, cpu, env.domain);
        } else if idle == IdleType::NewlyIdle {
            self.age_sleeping(txn, env.domain);
        }
        let outcome = self.pass(txn, &mut env);
        self.settle(txn, &env, outcome);
        let moved = if let Outcome::Unbalanced { moved, .. } = outcome { moved } else { 0 };
        (moved, true)
    }

    fn pass(&mut self, txn: &mut impl Transaction, env: &mut Env) -> Outcome {
        loop {
            let Some(group) = self.find_busiest_group(txn.state(), env) else { return Outcome::Balanced };
            let Some(busiest) = self.find_busiest_queue(txn.view(), env, group) else { return Outcome::Balanced };
            assert!(busiest != env.dst_cpu, "a CPU does not pull from itself");
            env.src_cpu = busiest;
            env.all_pinned = true;
            let wanted = env.imbalance;
            let moved = self.pull(txn, env);
            let nr_running = txn.view().rqs[busiest.at()].nr_running;
            if moved == 0 && nr_running > 1 && env.all_pinned {
                // No task of that CPU may come to us: look at the others, if there are any outside our group.
                env.excluded.push(busiest);
                let (sd, local) = (env.sd(txn.view()), env.local_group);
                let left = sd.span.iter().any(|c| !sd.groups[local].cpus.contains(c) && env.includes(c));
                if left {
                    env.dst_cpu = env.sd_cpu;
                    continue;
                }
                return Outcome::AllPinned;
            }
            let outcome = self.push_if_needed(txn, env, moved);
            self.report(txn, env, moved, wanted);
            return outcome;
        }
    }

    /// Moves tasks from the busiest CPU to us, and then those that only another CPU of our group may take.
    #[inline(never)]
    fn pull(&mut self, txn: &mut impl Transaction, env: &mut Env) -> u32 {
        let nr_running = txn.view().rqs[env.src_cpu.at()].nr_running;
        if nr_running <= 1 {
            return 0;
        }
        env.loop_max = self.nr_migrate.min(nr_running);
        let mut moved = 0;
        loop {
            txn.update_rq_clock(env.src_cpu);
            self.detach_tasks(txn, env);
            moved += self.attach_tasks(txn, env.dst_cpu);
            match env.dst_pinned.take() {
                Some(dst) if env.imbalance > 0 => {
                    env.excluded.push(env.dst_cpu);
                    env.dst_cpu = dst;
                }
                _ => break,
            }
        }
        if env.some_pinned && env.imbalance > 0 {
            self.set_parent_imbalance(txn, env, true);
        }
        moved
    }

    /// `attach_tasks`: in the order in which they were detached last to first, as the kernel's list is.
    fn attach_tasks(&mut self, txn: &mut impl Transaction, dst: CpuId) -> u32 {
        if self.detached.is_empty() {
            return 0;
        }
        txn.update_rq_clock(dst);
        let n = self.detached.len() as u32;
        while let Some(pid) = self.detached.pop() {
            txn.attach(pid, dst);
        }
        n
    }

    /// Nothing could be moved: perhaps the running task can.
    #[inline(never)]
    pub(super) fn push_if_needed(&mut self, txn: &mut impl Transaction, env: &mut Env, moved: u32) -> Outcome {
        let (cpu, level, src) = (env.sd_cpu, env.level, env.src_cpu);
        if moved > 0 {
            txn.state().rqs[cpu.at()].sd[level].nr_balance_failed = 0;
            return Outcome::Unbalanced { moved, active: false };
        }
        let misfit = env.migration == Migration::Misfit && self.generation == Generation::V6_12;
        if env.idle != IdleType::NewlyIdle && !misfit && has_another(txn.view(), env) {
            txn.state().rqs[cpu.at()].sd[level].nr_balance_failed += 1;
        }
        if !self.need_active_balance(txn.view(), env) {
            return Outcome::Unbalanced { moved: 0, active: false };
        }
        let curr = txn.view().rqs[src.at()].curr;
        if !txn.view().tasks[curr.at()].cpus.contains(cpu) {
            env.all_pinned = self.generation < Generation::V6_1 || env.all_pinned;
            return Outcome::OnePinned;
        }
        env.all_pinned = false;
        let active = !txn.view().rqs[src.at()].active_balance;
        if active {
            let rq = &mut txn.state().rqs[src.at()];
            (rq.active_balance, rq.push_cpu) = (true, cpu);
            txn.kick_active_balance(src);
        }
        if self.generation < Generation::V6_1 {
            // The stopper will move something: the next pass may take hot tasks at once.
            let tries = env.sd(txn.view()).cache_nice_tries;
            txn.state().rqs[cpu.at()].sd[level].nr_balance_failed = tries + 1;
        }
        Outcome::Unbalanced { moved: 0, active }
    }

    /// `need_active_balance`.
    fn need_active_balance(&self, s: &View, env: &Env) -> bool {
        let (sd, state) = (env.sd(s), &s.rqs[env.sd_cpu.at()].sd[env.level]);
        let tired = state.nr_balance_failed > sd.cache_nice_tries + 2;
        (tired && (self.generation < Generation::V6_1 || env.migration == Migration::Task))
            || self.voluntary_active_balance(s, env)
    }

    /// `voluntary_active_balance`: without failures, too.
    fn voluntary_active_balance(&self, s: &View, env: &Env) -> bool {
        if self.asym_active_balance(s, env) {
            return true;
        }
        let sd = env.sd(s);
        let capacity = |c: CpuId| u64::from(s.rqs[c.at()].cpu_capacity);
        let reduced = self.generation > Generation::V3_13
            && env.is_idle()
            && s.cfs[env.src_cpu.at()].h_nr_running == 1
            && check_cpu_capacity(s, env.src_cpu, sd.imbalance_pct)
            && capacity(env.src_cpu) * u64::from(sd.imbalance_pct) < capacity(env.dst_cpu) * 100;
        reduced
            || if s.rd.energy_aware_4_9 { is_worth_a_larger_cpu(s, env) } else { env.migration == Migration::Misfit }
    }

    /// `should_we_balance`: of a group's CPUs one balances.
    pub(super) fn should_we_balance(&self, s: &View, env: &Env) -> bool {
        if env.idle == IdleType::NewlyIdle {
            let rq = &s.rqs[env.dst_cpu.at()];
            return rq.nr_running == 0 && !has_wake_list(s, env.dst_cpu);
        }
        let sd = env.sd(s);
        let group = &sd.groups[env.local_group];
        let by_core = self.generation >= Generation::V6_6 && !sd.share_cpucapacity && s.topology.has_smt;
        let mut on_busy_core = None;
        for cpu in group.cpus.iter().filter(|&c| s.idle_cpu(c)) {
            if !by_core || s.topology.smt[cpu.at()].iter().all(|c| s.idle_cpu(c)) {
                return cpu == env.dst_cpu;
            }
            on_busy_core = on_busy_core.or(Some(cpu));
        }
        // The first CPU as well in 6.6, until "sched/fair: Fix the decision for load balance" (6.7).
        let first_too = self.generation == Generation::V6_6 && group.balance_cpu == env.dst_cpu;
        first_too || on_busy_core.unwrap_or(group.balance_cpu) == env.dst_cpu
    }

    /// What the outcome means for the next pass: interval, failures, the mark at the level above.
    #[inline(always)]
    fn settle(&self, txn: &mut impl Transaction, env: &Env, outcome: Outcome) {
        let again = matches!(outcome, Outcome::Unbalanced { active: true, .. })
            && match self.back_off {
                BackOff::NewlyIdle | BackOff::Always => false,
                BackOff::Tired => self.voluntary_active_balance(txn.view(), env),
                BackOff::Never => self.need_active_balance(txn.view(), env),
            };
        if outcome == Outcome::Balanced && !env.all_pinned {
            self.set_parent_imbalance(txn, env, false);
        }
        let s = txn.state();
        let (min, max) = {
            let sd = &s.topology.domains[env.domain];
            (sd.min_interval_ms, sd.max_interval_ms)
        };
        let sd = &mut s.rqs[env.sd_cpu.at()].sd[env.level];
        let back_off = match outcome {
            Outcome::Balanced | Outcome::AllPinned => {
                sd.nr_balance_failed = 0;
                true
            }
            Outcome::OnePinned => true,
            Outcome::Unbalanced { active, .. } => {
                if !active || again {
                    sd.balance_interval_ms = min;
                } else if self.back_off != BackOff::Never && sd.balance_interval_ms < max {
                    sd.balance_interval_ms *= 2;
                }
                return;
            }
        };
        let misfit = env.migration == Migration::Misfit && self.generation == Generation::V6_12;
        let pinned = env.all_pinned && sd.balance_interval_ms < MAX_PINNED_INTERVAL_MS;
        let counts = env.idle != IdleType::NewlyIdle || self.back_off == BackOff::NewlyIdle;
        if back_off && counts && !misfit && (pinned || sd.balance_interval_ms < max) {
            sd.balance_interval_ms *= 2;
        }
    }

    /// Marks our group at the level above: affinity kept us from balancing, or no longer does.
    #[inline(never)]
    fn set_parent_imbalance(&self, txn: &mut impl Transaction, env: &Env, imbalance: bool) {
        let s = txn.state();
        let Some(parent) = s.rqs[env.sd_cpu.at()].sd.get(env.level + 1) else { return };
        let (domain, group) = (parent.domain, parent.local_group);
        s.topology.domains[domain].groups[group].imbalance = imbalance;
    }

    #[inline(never)]
    fn report(&self, txn: &mut impl Transaction, env: &Env, moved: u32, wanted: i64) {
        let kind = if env.idle == IdleType::NewlyIdle { BalanceKind::NewIdle } else { BalanceKind::Periodic };
        txn.record(BalanceChoice {
            dst_cpu: env.sd_cpu,
            src_cpu: env.src_cpu,
            moved: moved.min(u32::from(u16::MAX)) as u16,
            kind: if self.nohz.running && env.idle == IdleType::Idle { BalanceKind::Nohz } else { kind },
            imbalance: wanted.clamp(0, i64::from(u32::MAX)) as u32,
        });
    }

    /// `rebalance_domains`: every domain of a CPU whose interval is over.
    #[doc(alias = "sched_balance_domains")]
    pub(super) fn rebalance_domains(&mut self, txn: &mut impl Transaction, cpu: CpuId, mut idle: IdleType) {
        let now = jiffies_ns(txn.view());
        let mut next_balance = None;
        let (mut go_on, mut decayed, mut max_cost) = (true, false, 0);
        for level in 0..txn.view().rqs[cpu.at()].sd.len() {
            decayed = update_newidle_cost(txn.state(), cpu, level, 0);
            let s = txn.view();
            max_cost += s.rqs[cpu.at()].sd[level].max_newidle_lb_cost;
            if !go_on {
                if decayed {
                    continue;
                }
                break;
            }
            let mut interval = self.balance_interval(s, cpu, level, self.is_busy(s, cpu, idle));
            if now >= s.rqs[cpu.at()].sd[level].last_balance + interval {
                let (moved, ours) = self.load_balance(txn, cpu, level, idle);
                go_on = ours;
                let s = txn.state();
                if moved > 0 {
                    idle = if s.idle_cpu(cpu) { IdleType::Idle } else { IdleType::NotIdle };
                }
                s.rqs[cpu.at()].sd[level].last_balance = now;
                interval = self.balance_interval(s, cpu, level, self.is_busy(s, cpu, idle));
            }
            let due = txn.view().rqs[cpu.at()].sd[level].last_balance + interval;
            next_balance = Some(next_balance.map_or(due, |n: u64| n.min(due)));
        }
        let rq = &mut txn.state().rqs[cpu.at()];
        if decayed {
            rq.max_idle_balance_cost = max_cost.max(self.migration_cost_ns);
        }
        rq.next_balance = next_balance.unwrap_or(now + 60_000_000_000);
    }

    /// A CPU that runs only SCHED_IDLE tasks balances as often as an idle one (5.6+).
    fn is_busy(&self, s: &View, cpu: CpuId, idle: IdleType) -> bool {
        idle != IdleType::Idle && !(self.generation >= Generation::V5_6 && s.sched_idle_cpu(cpu))
    }

    /// `newidle_balance`: the CPU is about to go idle.
    #[doc(alias = "sched_balance_newidle")]
    pub(super) fn newidle_balance(&mut self, txn: &mut impl Transaction, cpu: CpuId) -> u32 {
        let s = txn.state();
        super::update_misfit_status(s, cpu, None);
        if has_wake_list(s, cpu) {
            return 0;
        }
        let rq = &mut s.rqs[cpu.at()];
        rq.idle_stamp = rq.clock;
        let mut next_balance = jiffies_ns(s) + hz(s) * s.tick_ns;
        let mut pulled = 0;
        if self.newidle_is_worth_it(s, cpu) {
            self.decay_blocked(txn, cpu);
            pulled = self.newidle_domains(txn, cpu, &mut next_balance);
        } else if !s.rqs[cpu.at()].sd.is_empty() {
            next_balance = next_balance.min(self.next_pass(s, cpu, 0));
            if self.generation < Generation::V6_1 {
                self.nohz_newidle_balance(txn, cpu);
            }
        }
        let rq = &mut txn.state().rqs[cpu.at()];
        rq.next_balance = rq.next_balance.min(next_balance);
        if pulled > 0 {
            rq.idle_stamp = 0;
        }
        pulled
    }

    fn newidle_is_worth_it(&self, s: &View, cpu: CpuId) -> bool {
        let rq = &s.rqs[cpu.at()];
        let cost = rq.sd.first().map_or(0, |sd| sd.max_newidle_lb_cost);
        // Before 5.16 a fixed cost was assumed, later the measured one.
        let least = if self.generation < Generation::V6_1 { self.migration_cost_ns } else { cost };
        // Whether anybody has a task to give away is known since 3.17.
        let waited_for = s.rd.overloaded || self.generation == Generation::V3_13;
        s.rd.energy_aware_4_9 || (waited_for && rq.avg_idle >= least)
    }

    fn newidle_domains(&mut self, txn: &mut impl Transaction, cpu: CpuId, next_balance: &mut u64) -> u32 {
        let (mut pulled, mut spent) = (0, 0);
        for level in 0..txn.view().rqs[cpu.at()].sd.len() {
            let s = txn.view();
            *next_balance = (*next_balance).min(self.next_pass(s, cpu, level));
            let rq = &s.rqs[cpu.at()];
            if rq.avg_idle < spent + rq.sd[level].max_newidle_lb_cost {
                break;
            }
            let cost = self.pass_cost(s, cpu, level);
            let Some(odds) = throw_dice(txn, cpu, level) else { continue };
            let (moved, ours) = self.load_balance(txn, cpu, level, IdleType::NewlyIdle);
            pulled = moved;
            let s = txn.state();
            s.rqs[cpu.at()].sd[level].newidle.update(if moved > 0 { odds } else { 0 });
            update_newidle_cost(s, cpu, level, cost);
            spent += cost;
            if pulled > 0 || !ours || s.rqs[cpu.at()].nr_running > 0 {
                break;
            }
        }
        let rq = &mut txn.state().rqs[cpu.at()];
        rq.max_idle_balance_cost = rq.max_idle_balance_cost.max(spent);
        pulled
    }

    /// `update_next_balance`: when an idle CPU is due in a domain.
    pub(super) fn next_pass(&self, s: &View, cpu: CpuId, level: usize) -> u64 {
        s.rqs[cpu.at()].sd[level].last_balance + self.balance_interval(s, cpu, level, false)
    }

    /// What a pass over a domain costs, ns.
    fn pass_cost(&self, s: &View, cpu: CpuId, level: usize) -> u64 {
        let weight = u64::from(s.topology.domains[s.rqs[cpu.at()].sd[level].domain].weight);
        self.pass_cost_ns + weight * self.pass_cost_per_cpu_ns
    }

    /// `active_load_balance_cpu_stop`: the stopper pushes a task to the CPU that asked for it.
    pub(super) fn active_load_balance_cpu_stop(&mut self, txn: &mut impl Transaction, src: CpuId) -> bool {
        let dst = txn.view().rqs[src.at()].push_cpu;
        let pid = self.task_to_push(txn, src, dst);
        txn.state().rqs[src.at()].active_balance = false;
        let Some((pid, level)) = pid else { return false };
        txn.detach(pid, dst);
        txn.state().rqs[dst.at()].sd[level].nr_balance_failed = 0;
        txn.update_rq_clock(dst);
        txn.attach(pid, dst);
        let kind = BalanceKind::Active;
        txn.record(BalanceChoice { dst_cpu: dst, src_cpu: src, moved: 1, kind, imbalance: 1 });
        true
    }

    fn task_to_push(&mut self, txn: &mut impl Transaction, src: CpuId, dst: CpuId) -> Option<(Pid, usize)> {
        let s = txn.view();
        if !s.rqs[src.at()].active_balance || s.rqs[src.at()].nr_running == 0 {
            return None;
        }
        let spans = |sd: &crate::sched::topology::SdState| s.topology.domains[sd.domain].span.contains(src);
        let level = s.rqs[dst.at()].sd.iter().position(spans)?;
        txn.update_rq_clock(src);
        let mut env = Env::new(txn.view(), dst, level, IdleType::Idle);
        (env.src_cpu, env.active) = (src, true);
        self.list_candidates(txn.view(), src);
        let view = txn.view();
        let pid = self.candidates.iter().copied().find(|&pid| self.can_migrate_task(view, pid, &mut env));
        pid.map(|pid| (pid, level))
    }
}
