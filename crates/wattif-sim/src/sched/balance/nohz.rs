//! Balancing for CPUs whose tick is stopped: one of them does it for all (`nohz_balancer_kick`, `_nohz_idle_balance`).

use super::capacity::check_cpu_capacity;
use super::load_balance::msecs_to_jiffies;
use super::{FairBalancer, IdleType, LoadBalancer, Transaction, hz, jiffies_ns};
use crate::sched::{Sched, View};
use wattif_model::CpuId;

/// `LOAD_AVG_PERIOD`: blocked load of idle CPUs is decayed this often, ms.
const BLOCKED_PERIOD_MS: u64 = 32;

/// The nohz clock (`struct nohz`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Nohz {
    next_balance: u64,
    next_blocked: u64,
    has_blocked: bool,
    /// A nohz pass is going on.
    pub running: bool,
}

/// An interrupt for an idle CPU, and what it is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kick {
    /// Whom to interrupt (`ilb_cpu`).
    pub target: CpuId,
    /// Balance (`NOHZ_BALANCE_KICK`); otherwise decay blocked load only (`NOHZ_STATS_KICK`).
    pub balance: bool,
}

impl LoadBalancer for FairBalancer {
    fn periodic(&mut self, txn: &mut dyn Transaction, cpu: CpuId, idle: bool) {
        txn.update_blocked_averages(cpu);
        self.rebalance_domains(txn, cpu, if idle { IdleType::Idle } else { IdleType::NotIdle });
    }

    fn newidle(&mut self, txn: &mut dyn Transaction, cpu: CpuId) -> u32 {
        let pulled = self.newidle_balance(txn, cpu);
        if pulled == 0 {
            self.nohz_newidle_balance(txn, cpu);
        }
        pulled
    }

    fn nohz_balancer_kick(&mut self, s: &View, cpu: CpuId) -> Option<Kick> {
        let now = jiffies_ns(s);
        let balance = now >= self.nohz.next_balance && self.needs_help(s, cpu);
        let stats = self.nohz.has_blocked && now > self.nohz.next_blocked;
        if !balance && !stats {
            return None;
        }
        let target = idle_without_tick(s).find(|&c| c != cpu)?;
        if balance {
            self.nohz.next_balance = now + s.tick_ns;
        }
        Some(Kick { target, balance })
    }

    fn nohz_idle_balance(&mut self, txn: &mut dyn Transaction, kick: Kick) {
        let now = jiffies_ns(txn.view());
        let mut next_balance = now + 60 * hz(txn.view()) * txn.view().tick_ns;
        let n = txn.view().nr_cpus() as u32;
        self.nohz.has_blocked = false;
        self.nohz.running = true;
        // The kicked CPU is last, so that what it pulls for itself does not keep it from helping the others.
        for i in 0..n {
            let cpu = CpuId((kick.target.0 + 1 + i) % n);
            if !txn.view().idle_cpu(cpu) || !(txn.view().rqs[cpu.at()].tick_stopped || cpu == kick.target) {
                continue;
            }
            if txn.view().rqs[kick.target.at()].need_resched {
                // Work has come: leave the rest to the next kick.
                self.nohz.has_blocked = true;
                next_balance = now;
                break;
            }
            self.update_nohz_stats(txn, cpu);
            if kick.balance && now >= txn.view().rqs[cpu.at()].next_balance {
                txn.update_rq_clock(cpu);
                self.rebalance_domains(txn, cpu, IdleType::Idle);
            }
            next_balance = next_balance.min(txn.view().rqs[cpu.at()].next_balance);
        }
        self.nohz.running = false;
        if kick.balance {
            self.nohz.next_balance = next_balance;
        }
        let ticks = msecs_to_jiffies(BLOCKED_PERIOD_MS, hz(txn.view()));
        self.nohz.next_blocked = now + ticks * txn.view().tick_ns;
    }

    fn nohz_balance_enter_idle(&mut self, s: &mut Sched, cpu: CpuId) {
        let rq = &mut s.rqs[cpu.at()];
        rq.has_blocked_load = true;
        self.nohz.has_blocked = true;
        self.nohz.next_balance = self.nohz.next_balance.min(rq.next_balance);
    }

    fn active_balance(&mut self, txn: &mut dyn Transaction, src: CpuId) -> bool {
        self.active_load_balance_cpu_stop(txn, src)
    }
}

impl FairBalancer {
    /// Is there something on a busy CPU that an idle one should take?
    fn needs_help(&self, s: &View, cpu: CpuId) -> bool {
        let rq = &s.rqs[cpu.at()];
        let pct = rq.sd.first().map(|sd| s.topology.domains[sd.domain].imbalance_pct);
        let reduced = |cpu| pct.is_some_and(|pct| check_cpu_capacity(s, cpu, pct));
        if rq.nr_running >= 2 || (s.cfs[cpu.at()].h_nr_running >= 1 && reduced(cpu)) {
            return true;
        }
        if s.topology.sd_asym[cpu.at()].is_some() {
            let weak = rq.cpu_capacity_orig < s.topology.max_cpu_capacity;
            // Where capacities differ the caches need not be used evenly.
            return rq.misfit_task_load > 0 && (weak || reduced(cpu));
        }
        if s.topology.sd_llc[cpu.at()].is_none() {
            return false;
        }
        let llc = &s.topology.llc_span[s.topology.llc_id[cpu.at()] as usize];
        llc.iter().filter(|&c| !(s.idle_cpu(c) && s.rqs[c.at()].tick_stopped)).nth(1).is_some()
    }

    /// `nohz_newidle_balance`: decays the blocked load of idle CPUs on the way into idle.
    fn nohz_newidle_balance(&mut self, txn: &mut dyn Transaction, cpu: CpuId) {
        let now = jiffies_ns(txn.view());
        let soon_back = txn.view().rqs[cpu.at()].avg_idle < self.migration_cost_ns;
        if soon_back || !self.nohz.has_blocked || now < self.nohz.next_blocked {
            return;
        }
        self.nohz_idle_balance(txn, Kick { target: cpu, balance: false });
    }

    /// `update_nohz_stats`: decays what blocked tasks left on an idle CPU, once per tick.
    fn update_nohz_stats(&mut self, txn: &mut dyn Transaction, cpu: CpuId) {
        if !txn.view().rqs[cpu.at()].has_blocked_load {
            return;
        }
        let left = txn.update_blocked_averages(cpu);
        txn.state().rqs[cpu.at()].has_blocked_load = left;
        self.nohz.has_blocked |= left;
    }
}

/// CPUs that are idle with their tick stopped (`nohz.idle_cpus_mask`).
fn idle_without_tick(s: &View) -> impl Iterator<Item = CpuId> + '_ {
    (0..s.nr_cpus() as u32).map(CpuId).filter(|&c| s.rqs[c.at()].tick_stopped && s.idle_cpu(c))
}
