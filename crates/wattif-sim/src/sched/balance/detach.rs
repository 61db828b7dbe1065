//! Which tasks of the source queue move: `can_migrate_task`, `detach_tasks`.

use super::load_balance::Env;
use super::{FairBalancer, Generation, IdleType, Migration, Transaction};
use crate::sched::View;
use crate::sched::class::bandwidth::throttled_hierarchy;
use crate::sched::load::cpu_load::{queued_entities, task_fits_cpu, task_h_load, task_util_est};
use crate::sched::task::NONE;
use wattif_model::{CpuId, Pid};

impl FairBalancer {
    /// `detach_tasks`: takes tasks off the source while the imbalance lasts. They are left in `self.detached`.
    pub(super) fn detach_tasks(&mut self, txn: &mut impl Transaction, env: &mut Env) {
        if txn.view().rqs[env.src_cpu.at()].nr_running <= 1 {
            env.all_pinned = false;
            return;
        }
        if env.imbalance <= 0 {
            return;
        }
        self.list_candidates(txn.view(), env.src_cpu);
        for i in 0..self.candidates.len().min(env.loop_max as usize) {
            let pid = self.candidates[i];
            // The source keeps one task: with none it would come and take it back.
            if env.idle != IdleType::NotIdle && txn.view().rqs[env.src_cpu.at()].nr_running <= 1 {
                break;
            }
            if !self.can_migrate_task(txn.view(), pid, env) || !self.reduces_imbalance(txn.view(), pid, env) {
                // The next pass tries it last.
                txn.state().list_refused(pid);
                continue;
            }
            txn.detach(pid, env.dst_cpu);
            self.detached.push(pid);
            if (self.preemption && env.idle == IdleType::NewlyIdle) || env.imbalance <= 0 {
                break;
            }
        }
    }

    /// Takes the task's share off the imbalance; false when the task is too big for it.
    fn reduces_imbalance(&self, s: &View, pid: Pid, env: &mut Env) -> bool {
        let sd = &s.rqs[env.sd_cpu.at()].sd[env.level];
        let failed = sd.nr_balance_failed;
        // Up to 5.4 load only; a misfit task is pushed, not pulled.
        let by_load = self.generation.is_by_load();
        let amount = match env.migration {
            _ if by_load && s.features.lb_min && task_h_load(s, pid) < 16 && failed == 0 => return false,
            _ if by_load && task_h_load(s, pid) / 2 > env.imbalance.max(0) as u64 => return false,
            _ if by_load => task_h_load(s, pid),
            Migration::Load => {
                let load = task_h_load(s, pid).max(1);
                if s.features.lb_min && load < 16 && failed == 0 {
                    return false;
                }
                let relaxed =
                    self.generation < Generation::V6_1 && failed > s.topology.domains[sd.domain].cache_nice_tries;
                let compared = if self.generation >= Generation::V6_1 { load >> failed.min(63) } else { load / 2 };
                if compared as i64 > env.imbalance && !relaxed {
                    return false;
                }
                load
            }
            Migration::Util => {
                let util = task_util_est(s, pid);
                let compared = if self.generation >= Generation::V6_1 { util >> failed.min(63) } else { util };
                if compared as i64 > env.imbalance {
                    return false;
                }
                util
            }
            Migration::Task => 1,
            Migration::Misfit if task_fits_cpu(s, pid, env.src_cpu) => return false,
            Migration::Misfit => env.imbalance as u64,
        };
        env.imbalance -= amount as i64;
        true
    }

    /// `can_migrate_task`: may and should this task leave its CPU for `env.dst_cpu`?
    pub(super) fn can_migrate_task(&self, s: &View, pid: Pid, env: &mut Env) -> bool {
        let p = &s.tasks[pid.at()];
        // `throttled_lb_pair`: it would wait there for its group's next period.
        let throttled = |cpu| throttled_hierarchy(s, s.task_cfs_of(p.group, cpu));
        if throttled(env.src_cpu) || throttled(env.dst_cpu) {
            return false;
        }
        // A task that is delayed moves as well (6.12; not since 6.13, unless load is to be moved): nothing runs after all.
        if p.per_cpu_kthread {
            return false;
        }
        if !p.cpus.contains(env.dst_cpu) {
            env.some_pinned = true;
            self.note_other_dst(s, pid, env);
            return false;
        }
        env.all_pinned = false;
        if env.active {
            return true;
        }
        let rq = &s.rqs[env.src_cpu.at()];
        if rq.curr == pid {
            return false;
        }
        let sd = &s.rqs[env.sd_cpu.at()].sd[env.level];
        sd.nr_balance_failed > s.topology.domains[sd.domain].cache_nice_tries || !self.task_hot(s, pid, env)
    }

    /// Another CPU of our group that the task may run on, to be tried afterwards.
    fn note_other_dst(&self, s: &View, pid: Pid, env: &mut Env) {
        if env.idle == IdleType::NewlyIdle || env.dst_pinned.is_some() || env.active {
            return;
        }
        let group = &s.topology.domains[env.domain].groups[env.local_group].cpus;
        env.dst_pinned = group.iter_and(&s.tasks[pid.at()].cpus).find(|&c| env.includes(c));
    }

    /// `task_hot`: did it run so recently that its data is still in the cache?
    fn task_hot(&self, s: &View, pid: Pid, env: &Env) -> bool {
        // Threads of a core share all its caches; that this makes no task hot is known since 5.10.
        let same_core = s.topology.domains[env.domain].share_cpucapacity && self.generation >= Generation::V6_1;
        if s.task_has_idle_policy(pid) || same_core {
            return false;
        }
        let se = &s.se[s.se_of(pid)];
        let cfs = &s.cfs[se.cfs_rq];
        let buddy = s.se_of(pid) == cfs.next || s.se_of(pid) == cfs.last;
        if buddy && s.rqs[env.dst_cpu.at()].nr_running > 0 {
            return true;
        }
        let since = s.rqs[env.src_cpu.at()].clock_task.wrapping_sub(se.exec_start) as i64;
        since < self.migration_cost_ns as i64
    }

    /// The source's fair tasks from the tail of `rq->cfs_tasks`: those whose last enqueue, pick or refusal is longest ago first. Up to 4.14
    /// from its head: who was queued last first, and who was refused last.
    pub(super) fn list_candidates(&mut self, s: &View, src: CpuId) {
        self.candidates.clear();
        list_queue(s, src.at(), &mut self.candidates);
        let place = |p: &Pid| s.tasks[p.at()].group_node;
        self.candidates.sort_unstable_by_key(|p| if s.takes_from_tail { place(p) } else { -place(p) });
    }
}

/// The fair tasks queued on a queue and those below it.
pub(in crate::sched) fn list_queue(s: &View, cfs: usize, tasks: &mut Vec<Pid>) {
    for se in queued_entities(s, cfs) {
        match s.se[se].my_q {
            NONE => tasks.extend(s.task_of(se)),
            group => list_queue(s, group, tasks),
        }
    }
}
