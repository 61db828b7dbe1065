//! Balancing for CPUs whose tick is stopped: one of them does it for all (`nohz_balancer_kick`, `_nohz_idle_balance`).

use super::capacity::check_cpu_capacity;
use super::load_balance::msecs_to_jiffies;
use super::{
    FairBalancer, Generation, IdleType, LoadBalancer, Transaction, cpu_overutilized, hz, is_much_smaller, jiffies_ns,
};
use crate::sched::{Sched, View};
use wattif_model::{CpuId, CpuSet};

/// `LOAD_AVG_PERIOD`: blocked load of idle CPUs is decayed this often, ms.
const BLOCKED_PERIOD_MS: u64 = 32;

/// The nohz clock (`struct nohz`).
#[derive(Clone, Debug, Default)]
pub(super) struct Nohz {
    next_balance: u64,
    next_blocked: u64,
    has_blocked: bool,
    /// A CPU stopped its tick since `next_balance` was computed (5.15+): the next kick does so again.
    needs_update: bool,
    /// A nohz pass is going on.
    pub running: bool,
    /// By CPU: it stopped its tick, and no tick has found it busy since (`idle_cpus_mask`, `nohz_tick_stopped`). It may run
    /// something by now.
    tick_stopped: CpuSet,
    /// By CPU: the tick at which its blocked load was decayed last (`last_blocked_load_update_tick`).
    decayed_at: Vec<u64>,
}

impl Nohz {
    fn in_mask(&self, cpu: CpuId) -> bool {
        self.tick_stopped.contains(cpu)
    }
}

/// The entry of a CPU in a list that grows to the number of CPUs.
fn entry<T: Clone + Default>(list: &mut Vec<T>, cpu: CpuId) -> &mut T {
    if list.len() <= cpu.at() {
        list.resize(cpu.at() + 1, T::default());
    }
    &mut list[cpu.at()]
}

/// An interrupt for an idle CPU, and what it is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kick {
    /// Whom to interrupt (`ilb_cpu`).
    pub target: CpuId,
    /// Balance (`NOHZ_BALANCE_KICK`).
    pub balance: bool,
    /// Decay blocked load (`NOHZ_STATS_KICK`).
    pub stats: bool,
    /// Compute when balancing is due (`NOHZ_NEXT_KICK`).
    pub next: bool,
}

impl Kick {
    /// What two kicks of the same CPU ask for together.
    pub fn and(self, other: Kick) -> Kick {
        Kick {
            target: self.target,
            balance: self.balance || other.balance,
            stats: self.stats || other.stats,
            next: self.next || other.next,
        }
    }
}

impl LoadBalancer for FairBalancer {
    fn periodic(&mut self, txn: &mut impl Transaction, cpu: CpuId, idle: bool) {
        self.decay_blocked(txn, cpu);
        self.rebalance_domains(txn, cpu, if idle { IdleType::Idle } else { IdleType::NotIdle });
        if idle {
            self.note_next_balance(txn, cpu);
        }
    }

    fn newidle(&mut self, txn: &mut impl Transaction, cpu: CpuId) -> u32 {
        let pulled = self.newidle_balance(txn, cpu);
        if pulled == 0 && self.generation >= Generation::V6_1 {
            self.nohz_newidle_balance(txn, cpu);
        }
        pulled
    }

    fn nohz_balancer_kick(&mut self, s: &View, cpu: CpuId) -> Option<Kick> {
        // nohz_balance_exit_idle
        self.nohz.tick_stopped.remove(cpu);
        if self.nohz.tick_stopped.is_empty() {
            return None;
        }
        let now = jiffies_ns(s);
        let balance = now >= self.nohz.next_balance && self.needs_help(s, cpu);
        let stats = self.blocked_kicks && (balance || (self.nohz.has_blocked && now > self.nohz.next_blocked));
        let next = self.nohz.needs_update;
        if !balance && !stats && !next {
            return None;
        }
        if self.generation < Generation::V6_1 {
            self.nohz.next_balance += s.tick_ns;
        } else if balance {
            self.nohz.next_balance = now + s.tick_ns;
        }
        // find_new_ilb: until 5.1 the first without tick, or nobody.
        let mut stopped = self.nohz.tick_stopped.iter().filter(|&c| c != cpu);
        let old = self.generation == Generation::V3_13 || !self.asym_kicks;
        let found = if old { stopped.next().filter(|&c| s.idle_cpu(c)) } else { stopped.find(|&c| s.idle_cpu(c)) };
        found.map(|target| Kick { target, balance, stats, next })
    }

    fn nohz_idle_balance(&mut self, txn: &mut impl Transaction, kick: Kick) {
        // Since it was kicked it may have got work.
        if txn.view().idle_cpu(kick.target) {
            self.nohz.running = true;
            self.serve_idle_cpus(txn, kick);
            self.nohz.running = false;
        }
    }

    fn nohz_balance_enter_idle(&mut self, s: &mut Sched, cpu: CpuId) {
        s.rqs[cpu.at()].has_blocked_load = true;
        self.nohz.has_blocked = true;
        if !self.nohz.in_mask(cpu) {
            self.nohz.tick_stopped.insert(cpu);
            self.nohz.needs_update = self.generation >= Generation::V6_1;
        }
    }

    fn active_balance(&mut self, txn: &mut impl Transaction, src: CpuId) -> bool {
        self.active_load_balance_cpu_stop(txn, src)
    }
}

impl FairBalancer {
    /// Is there something on a busy CPU that an idle one should take?
    fn needs_help(&self, s: &View, cpu: CpuId) -> bool {
        let rq = &s.rqs[cpu.at()];
        let pct = rq.sd.first().map(|sd| s.topology.domains[sd.domain].imbalance_pct);
        let reduced = |cpu| pct.is_some_and(|pct| check_cpu_capacity(s, cpu, pct));
        // Since 4.1 a fair task on a CPU that others reduced.
        let squeezed = || self.generation > Generation::V3_13 && s.cfs[cpu.at()].h_nr_running >= 1 && reduced(cpu);
        if s.rd.energy_aware_4_9 {
            return self.needs_help_4_9(s, cpu, squeezed());
        }
        if rq.nr_running >= 2 || squeezed() {
            return true;
        }
        if self.better_cpu_sleeps(s, cpu, |c| self.nohz.in_mask(c)) {
            return true;
        }
        if !self.asym_kicks {
            if rq.misfit_task_load > 0 {
                return true;
            }
        } else if s.topology.sd_asym[cpu.at()].is_some() {
            let weak = rq.cpu_capacity_orig < s.topology.max_cpu_capacity;
            // Where capacities differ the caches need not be used evenly.
            return rq.misfit_task_load > 0 && (weak || reduced(cpu));
        }
        // In 3.13 the count belongs to the domain above the cache (`sd_busy`).
        let above = || s.topology.of_cpu[cpu.at()].iter().any(|&d| !s.topology.domains[d].share_llc);
        if s.topology.sd_llc[cpu.at()].is_none() || (self.generation == Generation::V3_13 && !above()) {
            return false;
        }
        // nr_busy_cpus: a CPU that woke up is idle to it until its first tick.
        let llc = &s.topology.llc_span[s.topology.llc_id[cpu.at()] as usize];
        llc.iter().filter(|&c| !self.nohz.in_mask(c)).nth(1).is_some()
    }

    /// The same under the energy-aware 4.9: too much for one CPU, a task that needs a bigger one (`rq->misfit_task`, which only
    /// CPUs of much less than the largest capacity have), or one that other classes leave too little.
    fn needs_help_4_9(&self, s: &View, cpu: CpuId, is_squeezed: bool) -> bool {
        let rq = &s.rqs[cpu.at()];
        let is_misfit = rq.misfit_task_load > 0 && is_much_smaller(s, cpu);
        rq.nr_running >= 2 && cpu_overutilized(s, cpu) || is_misfit || is_squeezed
    }

    /// `update_cpu_stats_if_tickless`: before a CPU of the energy-aware 4.9 that becomes idle looks at a domain, what those without tick
    /// have left is aged, once per tick. Else an idle CPU would stay overutilised.
    pub(super) fn update_tickless(&mut self, txn: &mut impl Transaction, cpu: CpuId, domain: usize) {
        let now = jiffies_ns(txn.view());
        for i in 0..txn.view().nr_cpus() as u32 {
            let other = CpuId(i);
            let is_tickless = other != cpu && self.nohz.in_mask(other);
            let is_seen = txn.view().topology.domains[domain].span.contains(other);
            if is_tickless && is_seen && now > *entry(&mut self.nohz.decayed_at, other) {
                self.decay_blocked(txn, other);
            }
        }
    }

    /// `_nohz_idle_balance`: the kicked CPU looks after all that sleep without tick, itself last, so that what it pulls for
    /// itself does not keep it from helping the others.
    fn serve_idle_cpus(&mut self, txn: &mut impl Transaction, kick: Kick) {
        let now = jiffies_ns(txn.view());
        let far = now + 60 * hz(txn.view()) * txn.view().tick_ns;
        let mut next_balance = far;
        self.nohz.has_blocked &= !kick.stats;
        self.nohz.needs_update &= !kick.next;
        let n = txn.view().nr_cpus() as u32;
        let mut left = false;
        for i in 0..n {
            let cpu = CpuId((kick.target.0 + 1 + i) % n);
            if !txn.view().idle_cpu(cpu) || !self.nohz.in_mask(cpu) {
                continue;
            }
            if txn.view().rqs[kick.target.at()].need_resched {
                // Work has come: leave the rest to the next kick.
                self.nohz.has_blocked |= left || kick.stats;
                self.nohz.needs_update |= kick.next;
                return;
            }
            // Whoever serves others insisted until 5.11.
            let force = self.generation < Generation::V6_1;
            left |= kick.stats && self.update_nohz_stats(txn, cpu, force);
            if kick.balance && now >= txn.view().rqs[cpu.at()].next_balance {
                txn.update_rq_clock(cpu);
                if !self.blocked_kicks {
                    self.decay_blocked(txn, cpu);
                }
                self.rebalance_domains(txn, cpu, IdleType::Idle);
            }
            next_balance = next_balance.min(txn.view().rqs[cpu.at()].next_balance);
        }
        if next_balance < far {
            self.nohz.next_balance = next_balance;
        }
        if kick.stats {
            self.delay_blocked(txn.view());
        }
        self.nohz.has_blocked |= left;
    }

    /// Until 5.10 an idle CPU that balances for itself moves the nohz clock.
    fn note_next_balance(&mut self, txn: &impl Transaction, cpu: CpuId) {
        if self.generation < Generation::V6_1 {
            self.nohz.next_balance = self.nohz.next_balance.min(txn.view().rqs[cpu.at()].next_balance);
        }
    }

    /// `update_blocked_averages`: decays what blocked tasks left on a CPU, and notes when.
    pub(super) fn decay_blocked(&mut self, txn: &mut impl Transaction, cpu: CpuId) -> bool {
        *entry(&mut self.nohz.decayed_at, cpu) = jiffies_ns(txn.view());
        txn.update_blocked_averages(cpu)
    }

    /// `nohz_newidle_balance`: decays the blocked load of idle CPUs on the way into idle, until 5.11 where there was no pass, since
    /// then where it pulled nothing.
    pub(super) fn nohz_newidle_balance(&mut self, txn: &mut impl Transaction, cpu: CpuId) {
        let s = txn.view();
        let soon_back = s.rqs[cpu.at()].avg_idle < self.migration_cost_ns;
        if !self.blocked_kicks || soon_back || !self.nohz.has_blocked || jiffies_ns(s) < self.nohz.next_blocked {
            return;
        }
        self.nohz.running = true;
        self.serve_idle_cpus(txn, Kick { target: cpu, balance: false, stats: true, next: false });
        self.nohz.running = false;
    }

    /// `LBF_NOHZ_STATS`, from 4.17 to 5.11: before a CPU that becomes idle looks at a domain, what those without tick have left is aged,
    /// once per tick. While some is left, the nohz clock waits if none sleeps outside the domain (`LBF_NOHZ_AGAIN`).
    pub(super) fn age_sleeping(&mut self, txn: &mut impl Transaction, domain: usize) {
        let reads_blocked = self.blocked_kicks && self.generation < Generation::V6_1;
        if !reads_blocked || !self.nohz.has_blocked {
            return;
        }
        let span = |s: &View, c| s.topology.domains[domain].span.contains(c);
        let mut left = false;
        for cpu in (0..txn.view().nr_cpus() as u32).map(CpuId) {
            left |= self.nohz.in_mask(cpu) && span(txn.view(), cpu) && self.update_nohz_stats(txn, cpu, false);
        }
        if left && self.nohz.tick_stopped.iter().all(|c| span(txn.view(), c)) {
            self.delay_blocked(txn.view());
        }
    }

    /// The next time that blocked load of idle CPUs is decayed.
    fn delay_blocked(&mut self, s: &View) {
        self.nohz.next_blocked = jiffies_ns(s) + msecs_to_jiffies(BLOCKED_PERIOD_MS, hz(s)) * s.tick_ns;
    }

    /// `update_nohz_stats`: decays what blocked tasks left on an idle CPU, once per tick unless forced; true while some is left.
    fn update_nohz_stats(&mut self, txn: &mut impl Transaction, cpu: CpuId, force: bool) -> bool {
        if !txn.view().rqs[cpu.at()].has_blocked_load {
            return false;
        }
        if !force && jiffies_ns(txn.view()) <= *entry(&mut self.nohz.decayed_at, cpu) {
            return true;
        }
        self.decay_blocked(txn, cpu)
    }
}
