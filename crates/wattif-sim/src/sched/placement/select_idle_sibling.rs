//! `select_idle_sibling`: something idle that shares the cache with the target.
//!
//! # Idea
//! A woken task wants to run at once, on a CPU whose cache already holds its data. The candidates that cost nothing to
//! check come first (the target, the previous CPU, the one used before), then the cache's CPUs are scanned, for a fully
//! idle core where there is SMT, but not longer than the scan can be expected to pay.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | idle, sched-idle | yes, no | run queue: nothing runs; only SCHED_IDLE tasks are runnable | – |
//! | `recent_used_cpu` | CPU | task | here |
//! | `nr_idle_scan` | CPUs | cache (`SIS_UTIL`) | periodic load balance, from the cache's utilisation |
//! | `avg_idle`, `avg_scan_cost` | ns | run queue of the waker's CPU (`SIS_PROP`, `avg`) | idle exit; here |
//! | `has_idle_cores` | yes, no | cache | a core became idle; a scan found none |
//! | `task_util_est`, clamps, `capacity_of` | 0..=1024 | load tracker, queues; different capacities only | PELT; load balance |
//!
//! # Decision
//! "Idle" below includes sched-idle CPUs where `sched_idle` says so (table). On machines with different capacities
//! (since 5.16) a candidate of the steps 1 to 4 must also fit the task; what its clamps do to that is `cpu_util.uclamp_fits`.
//! 1. The target is idle: take it.
//! 2. The previous CPU shares the cache and is idle: take it.
//! 3. The waker is a per-CPU kernel thread, alone on the task's previous CPU: take that, the thread is about to sleep.
//! 4. With `recent` (4.16), `recent_used_cpu` shares the cache, is allowed and idle: take it. (Since 5.16 it becomes the previous
//!    CPU in any case, before only when it is taken; and until then the waker's becomes the CPU it runs on, where the wake-up was
//!    affine.)
//! 5. Different capacities (5.7+, then before step 1): of all CPUs, from the target on, the first idle one that fits; else
//!    the idle one that misses only `uclamp_min`, else the one with most capacity; none idle: the target.
//! 6. SMT: when no core is known to be idle, an idle sibling of the previous CPU (5.6: last, of the target).
//! 7. Scan the cache, from the CPU after the target (5.6: from the target): an idle core if there may be one, else the
//!    first idle CPU, of at most n (up to 5.5 those count that the task may not use). `SIS_UTIL`: n = `nr_idle_scan`, and no limit with that feature off; `SIS_PROP`: n = span ·
//!    (`avg_idle`/512) / (`avg_scan_cost` + 1), at least 4, of which the last is not looked at; `avg`: all, or none at all where
//!    `avg_idle`/512 < `avg_scan_cost`.
//! 8. The target.
//!
//! `cluster` (6.7): where cores share a cache below the last level, the CPUs of steps 2 and 4 are taken at once only if they
//! share it with the target; the scan of step 7 begins with the target's cluster; and before step 8 those of 2 and 4 that
//! were idle are taken after all.
//!
//! Generation `4.9` (Android) has only this: from the cache's domain down, the target's group first, the idle CPU in the
//! shallowest state that is no larger than the best so far and that the boosted task fits; the target at once if it is idle and
//! its present frequency carries the task. A busy CPU, or one that is too small, ends the search in its group.
//!
//! Generation `3.13`: steps 1 and 2; then, from the cache's domain down, the first group whose CPUs are all idle and not
//! the target: its first CPU that is allowed; else the target. Capacities do not count.
//!
//! | `sched_idle` | target, previous, recent | SMT sibling, scan | used since |
//! |---|---|---|---|
//! | `off` | idle | idle | – |
//! | `5.4` | idle or sched-idle | idle; else the first sched-idle one met | 5.4 |
//! | `5.6` | idle or sched-idle | the first of either | 5.6 |
//! | `2026` | as 5.6, but not for a task that is itself SCHED_IDLE | | 2026 |
//!
//! Worked example, 8 CPUs, all busy but 3, target 5, `nr_idle_scan` 4: looks at 6, 7, 0, 1 and gives up: CPU 5.
//!
//! # State and cost
//! A bitmap for the scan of cores; O(n) per wake-up.
//!
//! # Where it fails
//! Sees the instant only. `SIS_UTIL` lags by a balance interval: a burst on an idle machine scans everything, and an
//! overloaded cache is not scanned although a CPU just became idle. `5.4` prefers a deep-idle CPU to one that is awake
//! and could be preempted at once; `off` stacks tasks while CPUs do background work only.
//!
//! # Differences from the kernel
//! Bit-exact with `select_idle_sibling`, `recent_used_after`, `avg_scan_cost_after` of `wakeup_5.6` (400 rows),
//! `wakeup_5.6_no_sched_idle` (400) and `wakeup_6.12` (500); these have no SMT and no clusters. FIDELITY(scan-cost): a scan
//! takes no simulated time; the average of `SIS_PROP` and `avg` is fed `scan_ns_per_cpu` per CPU looked at.
//! FIDELITY(wake-avg-idle): between 5.12 and 6.5 `SIS_PROP` aged `avg_idle` while the CPU was busy; it is off by default
//! there.
//!
//! # Source
//! Linux 3.13, 5.4, 5.6.4, 6.12.117 and Android's common 4.9 `kernel/sched/fair.c` (behaviour). Commit 10e2f1acd010 (4.8) for `avg`; 3c29e651e16d
//! (5.4), 17346452b25b (5.6), fd54d81c2c0e (2026) for `sched_idle`; 32e839dda3ba (4.16) and 89aafd67f28c (5.16) for `recent`.

use super::find_best_target::boosted_task_util;
use super::{Choice, Request, SyncLoad};
use crate::registry::{Tunable, meant};
use crate::sched::load::cpu_load::{Fit, get_actual_cpu_capacity, task_fit, task_fits_cpu};
use crate::sched::{Sched, View};
use wattif_model::trace::PlacementReason;
use wattif_model::{CpuId, CpuSet, Pid};

/// Tunables of this policy.
pub const TUNABLES: &[Tunable] = &[
    Tunable {
        name: "generation",
        default: "6.12",
        allowed: &Generation::NAMES,
        doc: "order of the steps in this kernel; 4.9: Android's; 6.12: as 6.1",
    },
    Tunable {
        name: "sched_idle",
        default: "5.6",
        allowed: &SchedIdle::NAMES,
        doc: "what a CPU that runs only SCHED_IDLE tasks counts as",
    },
    Tunable {
        name: "scan",
        default: "util",
        allowed: &Scan::NAMES,
        doc: "how many CPUs the scan looks at: all or none by average idle time (4.8 to 4.10), so many by it (4.13), by utilisation (6.0), all",
    },
    Tunable {
        name: "recent",
        default: "true",
        allowed: &["true", "false"],
        doc: "the CPU that the task used before its previous one is a candidate (4.16)",
    },
    Tunable {
        name: "cluster",
        default: "true",
        allowed: &["true", "false"],
        doc: "the target's cluster first, where the platform has clusters (6.7)",
    },
];

/// `sched_idle`: what a CPU is worth that runs only SCHED_IDLE tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SchedIdle {
    /// `off`: it is busy.
    Off,
    /// `5.4`: second choice after an idle one.
    V5_4,
    /// `5.6`: as good as an idle one.
    #[default]
    V5_6,
    /// `2026`: the same, but only for tasks that would preempt.
    V2026,
}

impl SchedIdle {
    /// The values of the tunable.
    pub const NAMES: [&'static str; 4] = ["off", "5.4", "5.6", "2026"];

    /// From the tunable's value.
    pub fn parse(name: &str) -> Option<SchedIdle> {
        meant(SchedIdle::NAMES, [SchedIdle::Off, SchedIdle::V5_4, SchedIdle::V5_6, SchedIdle::V2026], name)
    }

    /// Is the CPU sched-idle, as far as this task is concerned?
    #[inline]
    #[doc(alias = "choose_sched_idle_rq")]
    pub fn counts(self, s: &View, cpu: CpuId, pid: Pid) -> bool {
        match self {
            SchedIdle::Off => false,
            SchedIdle::V5_4 | SchedIdle::V5_6 => s.sched_idle_cpu(cpu),
            SchedIdle::V2026 => !s.task_has_idle_policy(pid) && s.sched_idle_cpu(cpu),
        }
    }

    /// Idle or sched-idle.
    #[inline]
    #[doc(alias = "choose_idle_cpu")]
    pub fn idle(self, s: &View, cpu: CpuId, pid: Pid) -> bool {
        s.available_idle_cpu(cpu) || self.counts(s, cpu, pid)
    }
}

/// `select_idle_sibling.generation`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Generation {
    /// `3.13`: a group of the cache whose CPUs are all idle, and no single CPU of another.
    V3_13,
    /// `4.9` (Android): the CPU in the shallowest idle state.
    V4_9,
    /// `5.4`: no rule for per-CPU kernel threads, capacities are not looked at.
    V5_4,
    /// `5.6`: with that rule.
    V5_6,
    /// `5.7`: where CPUs differ, looks for capacity and nothing else.
    V5_7,
    /// `6.1`: one pass for cores and CPUs, fit is checked everywhere.
    V6_1,
    /// `6.12`: the same steps.
    #[default]
    V6_12,
}

impl Generation {
    /// The values of the tunable.
    pub const NAMES: [&'static str; 7] = ["3.13", "4.9", "5.4", "5.6", "5.7", "6.1", "6.12"];

    /// From the tunable's value.
    pub fn parse(name: &str) -> Option<Generation> {
        use Generation::*;
        meant(Generation::NAMES, [V3_13, V4_9, V5_4, V5_6, V5_7, V6_1, V6_12], name)
    }
}

/// `select_idle_sibling.scan`: how far the scan may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scan {
    /// `avg`: every CPU, but none where the waker's CPU is idle too shortly for it (until 4.10, later the feature `SIS_AVG_CPU`).
    Avg,
    /// `prop`: as long as the waker's CPU is idle on average (feature `SIS_PROP`).
    Prop,
    /// `util`: the less the busier the cache is (feature `SIS_UTIL`).
    #[default]
    Util,
    /// `all`: every CPU (both features off).
    All,
}

impl Scan {
    /// The values of the tunable.
    pub const NAMES: [&'static str; 4] = ["avg", "prop", "util", "all"];

    /// From the tunable's value.
    pub fn parse(name: &str) -> Option<Scan> {
        meant(Scan::NAMES, [Scan::Avg, Scan::Prop, Scan::Util, Scan::All], name)
    }
}

/// The fast path of a wake-up.
#[derive(Clone, Debug)]
pub struct SelectIdleSibling {
    /// Era of the order of steps.
    pub generation: Generation,
    /// What a CPU that runs only SCHED_IDLE tasks is worth.
    pub sched_idle: SchedIdle,
    /// Limit of the scan.
    pub scan: Scan,
    /// `recent_used_cpu` is a candidate.
    pub recent: bool,
    /// Clusters count, where there are any.
    pub cluster: bool,
    /// `avg` and `prop`: what looking at one CPU costs, ns (estimated).
    pub scan_ns_per_cpu: u64,
    /// Cores that a scan has seen to be busy, a bit per CPU.
    seen: Vec<u64>,
    /// An idle CPU of the cache but not of the target's cluster: better than none.
    farther: Option<(CpuId, PlacementReason)>,
    /// CPUs looked at by the present call.
    scanned: u16,
}

impl Default for SelectIdleSibling {
    fn default() -> SelectIdleSibling {
        SelectIdleSibling::new(Generation::default(), SchedIdle::default(), Scan::default())
    }
}

impl SelectIdleSibling {
    /// Of an era.
    pub fn new(generation: Generation, sched_idle: SchedIdle, scan: Scan) -> SelectIdleSibling {
        SelectIdleSibling {
            generation,
            sched_idle,
            scan,
            recent: true,
            cluster: true,
            scan_ns_per_cpu: 30,
            seen: Vec::new(),
            farther: None,
            scanned: 0,
        }
    }

    /// An affine wake-up makes this CPU the waker's `recent_used_cpu` (4.16 to 5.15).
    pub(super) fn marks_waker(&self) -> bool {
        self.recent && (Generation::V5_4..Generation::V6_1).contains(&self.generation)
    }

    /// `select_idle_sibling`: an idle CPU near `target`, or `target`.
    pub fn select(
        &mut self,
        s: &mut Sched,
        req: &Request,
        target: CpuId,
        sync_entity_load_avg: SyncLoad<'_>,
    ) -> Choice {
        if s.topology.has_asym && self.generation >= Generation::V6_1 {
            sync_entity_load_avg(s, req.pid);
        }
        (self.scanned, self.farther) = (0, None);
        // 5.7 to 5.9 looked for capacity before anything else.
        let found = match self.generation {
            Generation::V4_9 => None,
            Generation::V3_13 => self.near(s, req, target),
            _ if !self.recent => self.near(s, req, target),
            Generation::V5_7 if s.topology.has_asym => None,
            _ => self.near(s, req, target).or_else(|| self.recent(s, req, target)),
        };
        let found = found.or_else(|| self.search(s, req, target, sync_entity_load_avg));
        let (cpu, reason) = found.unwrap_or((target, PlacementReason::Target));
        Choice { cpu, reason: self.reason(s, cpu, reason), target, scanned: self.scanned }
    }

    /// The target, the previous CPU, the waker's own.
    fn near(&mut self, s: &View, req: &Request, target: CpuId) -> Option<(CpuId, PlacementReason)> {
        let (pid, prev) = (req.pid, req.prev_cpu);
        if self.sched_idle.idle(s, target, pid) && self.asym_fits_cpu(s, pid, target) {
            return Some((target, PlacementReason::TargetIdle));
        }
        let affine = prev != target && s.topology.cpus_share_cache(prev, target);
        if affine && self.sched_idle.idle(s, prev, pid) && self.asym_fits_cpu(s, pid, prev) {
            let found = Some((prev, PlacementReason::PrevIdle));
            if self.is_nearest(s, prev, target) {
                return found;
            }
            self.farther = found;
        }
        let this = &s.rqs[req.this_cpu.at()];
        let stack = self.generation >= Generation::V5_6
            && s.tasks[this.curr.at()].per_cpu_kthread
            && !(req.in_irq && self.generation >= Generation::V6_1)
            && prev == req.this_cpu
            && this.nr_running <= 1
            && self.asym_fits_cpu(s, pid, prev);
        stack.then_some((prev, PlacementReason::PrevIdle))
    }

    /// The CPU used before the previous one.
    fn recent(&mut self, s: &mut Sched, req: &Request, target: CpuId) -> Option<(CpuId, PlacementReason)> {
        let (pid, prev) = (req.pid, req.prev_cpu);
        let recent = s.tasks[pid.at()].recent_used_cpu;
        let idle = recent != prev
            && recent != target
            && s.topology.cpus_share_cache(recent, target)
            && self.sched_idle.idle(s, recent, pid)
            && s.tasks[pid.at()].cpus.contains(recent)
            && self.asym_fits_cpu(s, pid, recent);
        if idle || self.generation >= Generation::V6_1 {
            s.tasks[pid.at()].recent_used_cpu = prev;
        }
        let found = idle.then_some((recent, PlacementReason::RecentIdle))?;
        if self.is_nearest(s, recent, target) {
            return Some(found);
        }
        self.farther = self.farther.or(Some(found));
        None
    }

    /// Of the target's cluster, or clusters do not count.
    fn is_nearest(&self, s: &View, cpu: CpuId, target: CpuId) -> bool {
        !(self.cluster && s.topology.has_clusters) || s.topology.cpus_share_resources(cpu, target)
    }

    fn search(
        &mut self,
        s: &mut Sched,
        req: &Request,
        target: CpuId,
        sync_entity_load_avg: SyncLoad<'_>,
    ) -> Option<(CpuId, PlacementReason)> {
        let asym = s.topology.sd_asym[target.at()].filter(|_| self.generation >= Generation::V5_7);
        if let Some(sd) = asym {
            if self.generation == Generation::V5_7 {
                sync_entity_load_avg(s, req.pid);
            }
            let found = self.select_idle_capacity(s, sd, req.pid, target);
            return found.map(|cpu| (cpu, PlacementReason::IdleCapacity));
        }
        if self.generation < Generation::V5_4 {
            let found = match self.generation {
                Generation::V3_13 => self.idle_group(s, req.pid, target),
                _ => self.shallowest_idle(s, req.pid, target),
            };
            return found
                .map(|cpu| (cpu, if cpu == target { PlacementReason::TargetIdle } else { PlacementReason::IdleScan }));
        }
        let sd = s.topology.sd_llc[target.at()]?;
        if self.generation >= Generation::V6_1 {
            return self.search_once(s, sd, req, target).or(self.farther);
        }
        let pid = req.pid;
        let smt = s.topology.has_smt;
        let core = if smt { self.idle_core(s, sd, pid, target) } else { None };
        if let Some(core) = core {
            return Some((core, PlacementReason::IdleCore));
        }
        if let Some(cpu) = self.select_idle_cpu(s, sd, req, target) {
            return Some((cpu, PlacementReason::IdleScan));
        }
        let sibling = if smt { self.select_idle_smt(s, sd, pid, target) } else { None };
        sibling.map(|cpu| (cpu, PlacementReason::IdleSmt))
    }

    /// 3.13: from the cache down, a group whose CPUs are all idle; its first CPU that is allowed.
    #[inline(never)]
    fn idle_group(&mut self, s: &View, pid: Pid, target: CpuId) -> Option<CpuId> {
        let allowed = &s.tasks[pid.at()].cpus;
        for group in cache_groups(s, target) {
            self.scanned += 1;
            let first = group.iter_and(allowed).next();
            if first.is_some() && group.iter().all(|c| c != target && s.idle_cpu(c)) {
                return first;
            }
        }
        None
    }

    /// Android's of 4.9: from the cache down, the idle CPU in the shallowest state; the target at once, if it has room at its
    /// present frequency.
    #[doc(alias = "sched_cstate_aware")]
    #[inline(never)]
    fn shallowest_idle(&mut self, s: &View, pid: Pid, target: CpuId) -> Option<CpuId> {
        let util = boosted_task_util(s, pid);
        let mut best: Option<(CpuId, (u32, i32))> = None;
        for group in cache_groups(s, target) {
            for cpu in group.iter_and(&s.tasks[pid.at()].cpus) {
                self.scanned += 1;
                let rq = &s.rqs[cpu.at()];
                let orig = rq.cpu_capacity_orig;
                if util > u64::from(orig) || !s.idle_cpu(cpu) {
                    break; // nor are the others of the group looked at
                }
                if cpu == target && util <= rq.capacity_curr() {
                    return Some(target);
                }
                let state = rq.idle_state_idx();
                if best.is_none_or(|(_, (capacity, shallowest))| state < shallowest && orig <= capacity) {
                    best = Some((cpu, (orig, state)));
                }
            }
        }
        best.map(|(cpu, _)| cpu)
    }

    /// Since 5.13: a sibling when no core is idle, then one scan.
    fn search_once(
        &mut self,
        s: &mut Sched,
        sd: usize,
        req: &Request,
        target: CpuId,
    ) -> Option<(CpuId, PlacementReason)> {
        let has_idle_core = s.topology.has_smt && s.topology.llc_shared(target).is_some_and(|l| l.has_idle_cores);
        let sibling = s.topology.has_smt && !has_idle_core && s.topology.cpus_share_cache(req.prev_cpu, target);
        let sibling = if sibling { self.select_idle_smt(s, sd, req.pid, req.prev_cpu) } else { None };
        if let Some(cpu) = sibling {
            return Some((cpu, PlacementReason::IdleSmt));
        }
        if has_idle_core {
            return self.scan_cores(s, sd, req.pid, target);
        }
        self.select_idle_cpu(s, sd, req, target).map(|cpu| (cpu, PlacementReason::IdleScan))
    }

    /// An idle core, else an idle CPU that the search for it met.
    #[inline(never)]
    fn scan_cores(&mut self, s: &mut Sched, sd: usize, pid: Pid, target: CpuId) -> Option<(CpuId, PlacementReason)> {
        // An overloaded cache has no idle core either.
        if self.nr_idle_scan(s, target) == 0 {
            return None;
        }
        let mut idle_cpu = None;
        self.seen_none(s.nr_cpus());
        for cpu in self.scan_order(s, sd, target, CpuId(target.0 + 1)) {
            if !s.tasks[pid.at()].cpus.contains(cpu) || self.seen(cpu) {
                continue;
            }
            if self.select_idle_core(s, sd, pid, cpu, &mut idle_cpu) {
                return Some((cpu, PlacementReason::IdleCore));
            }
        }
        set_idle_cores(s, target, false);
        idle_cpu.map(|cpu| (cpu, PlacementReason::IdleScan))
    }

    /// Is every thread of the core idle? Remembers the first usable idle CPU on the way.
    fn select_idle_core(&mut self, s: &View, sd: usize, pid: Pid, core: CpuId, idle_cpu: &mut Option<CpuId>) -> bool {
        let usable = |cpu| s.topology.domains[sd].span.contains(cpu) && s.tasks[pid.at()].cpus.contains(cpu);
        let mut idle = true;
        for cpu in s.topology.smt[core.at()].iter() {
            self.scanned += 1;
            if !s.available_idle_cpu(cpu) {
                idle = false;
                if idle_cpu.is_some() {
                    break;
                }
                if self.sched_idle.counts(s, cpu, pid) && usable(cpu) {
                    *idle_cpu = Some(cpu);
                    break;
                }
            } else if idle_cpu.is_none() && usable(cpu) {
                *idle_cpu = Some(cpu);
            }
        }
        self.mark_seen(&s.topology.smt[core.at()]);
        idle
    }

    /// `select_idle_core` before 5.12: a pass of its own.
    #[inline(never)]
    fn idle_core(&mut self, s: &mut Sched, sd: usize, pid: Pid, target: CpuId) -> Option<CpuId> {
        if !s.topology.llc_shared(target).is_some_and(|l| l.has_idle_cores) {
            return None;
        }
        self.seen_none(s.nr_cpus());
        for core in s.topology.domains[sd].span.iter_wrap(target) {
            if !s.tasks[pid.at()].cpus.contains(core) || self.seen(core) {
                continue;
            }
            self.scanned += 1;
            if s.topology.smt[core.at()].iter().all(|cpu| s.available_idle_cpu(cpu)) {
                return Some(core);
            }
            self.mark_seen(&s.topology.smt[core.at()]);
        }
        set_idle_cores(s, target, false);
        None
    }

    /// An idle thread of the core of `of`.
    #[inline(never)]
    fn select_idle_smt(&mut self, s: &View, sd: usize, pid: Pid, of: CpuId) -> Option<CpuId> {
        let mut second = None;
        for cpu in s.topology.smt[of.at()].iter_and(&s.tasks[pid.at()].cpus) {
            let skip = cpu == of && self.generation >= Generation::V6_1;
            if skip || !s.topology.domains[sd].span.contains(cpu) {
                continue;
            }
            self.scanned += 1;
            if self.first_choice(s, cpu, pid) {
                return Some(cpu);
            }
            self.note_second(s, cpu, pid, &mut second);
        }
        second
    }

    /// The first idle CPU of the cache within the limit.
    fn select_idle_cpu(&mut self, s: &mut Sched, sd: usize, req: &Request, target: CpuId) -> Option<CpuId> {
        let Limit(mut left) = self.limit(s, sd, req, target)?;
        let start = if self.generation >= Generation::V6_1 { CpuId(target.0 + 1) } else { target };
        let before = self.scanned;
        let (mut second, mut cut) = (None, false);
        let allowed = |&cpu: &CpuId| s.tasks[req.pid.at()].cpus.contains(cpu);
        // Up to 5.5 those count that the task may not use.
        let counts_all = self.generation < Generation::V5_6;
        let found = self.scan_order(s, sd, target, start).filter(|cpu| counts_all || allowed(cpu)).find(|&cpu| {
            cut = left == 0;
            if cut {
                return true;
            }
            left -= 1;
            if !allowed(&cpu) {
                return false;
            }
            self.scanned += 1;
            self.note_second(s, cpu, req.pid, &mut second);
            self.first_choice(s, cpu, req.pid)
        });
        if cut {
            // The average cost is not updated.
            return second;
        }
        if let Scan::Avg | Scan::Prop = self.scan {
            self.update_scan_cost(s, req.this_cpu, u64::from(self.scanned - before));
        }
        found.or(second)
    }

    /// The CPUs of the cache from `start` on, those of the target's cluster first.
    fn scan_order<'s>(&self, s: &'s View, sd: usize, target: CpuId, start: CpuId) -> impl Iterator<Item = CpuId> + 's {
        let cluster = if self.cluster && s.topology.has_clusters { s.topology.cluster(target) } else { None };
        let others = s.topology.domains[sd].span.iter_wrap(start);
        let first = cluster.into_iter().flat_map(move |c| c.iter_wrap(start));
        first.chain(others.filter(move |&c| cluster.is_none_or(|first| !first.contains(c))))
    }

    /// How many CPUs `SIS_UTIL` leaves to the scan; without the feature there is no limit (`INT_MAX`).
    fn nr_idle_scan(&self, s: &View, target: CpuId) -> u32 {
        let limits = self.scan == Scan::Util && s.features.sis_util;
        s.topology.llc_shared(target).filter(|_| limits).map_or(u32::MAX, |llc| llc.nr_idle_scan)
    }

    /// How many CPUs may be looked at; `None`: the scan is not worth it at all.
    fn limit(&self, s: &View, sd: usize, req: &Request, target: CpuId) -> Option<Limit> {
        match self.scan {
            Scan::All => Some(Limit(u32::MAX)),
            Scan::Util => {
                let nr = self.nr_idle_scan(s, target);
                (nr > 0).then_some(Limit(nr))
            }
            Scan::Avg => {
                s.topology.sd_llc[req.this_cpu.at()]?;
                let rq = &s.rqs[req.this_cpu.at()];
                (rq.avg_idle / 512 >= rq.avg_scan_cost).then_some(Limit(u32::MAX))
            }
            Scan::Prop => {
                // The average is kept in the domain of the waker's CPU: without a domain, no scan.
                s.topology.sd_llc[req.this_cpu.at()]?;
                let rq = &s.rqs[req.this_cpu.at()];
                let avg_cost = rq.avg_scan_cost + 1;
                let span_avg = u64::from(s.topology.domains[sd].weight) * (rq.avg_idle / 512);
                let nr = if span_avg > 4 * avg_cost { span_avg / avg_cost } else { 4 };
                // The counter goes down before each look, and the scan ends when it reaches 0.
                Some(Limit((nr - 1).min(u64::from(u32::MAX)) as u32))
            }
        }
    }

    /// A moving average, an eighth of the difference at a time; C division, towards zero.
    fn update_scan_cost(&self, s: &mut Sched, this_cpu: CpuId, looked_at: u64) {
        let rq = &mut s.rqs[this_cpu.at()];
        let delta = (looked_at * self.scan_ns_per_cpu).wrapping_sub(rq.avg_scan_cost) as i64 / 8;
        rq.avg_scan_cost = rq.avg_scan_cost.wrapping_add(delta as u64);
    }

    /// Among the CPUs of different capacity: one that fits, else the best.
    #[inline(never)]
    fn select_idle_capacity(&mut self, s: &View, sd: usize, pid: Pid, target: CpuId) -> Option<CpuId> {
        // (how well it fits, capacity); the kernel ranks "misses only uclamp_min" before "no", then by capacity.
        let mut best: Option<(Fit, u64, CpuId)> = None;
        for cpu in s.topology.domains[sd].span.iter_wrap(target) {
            if !s.tasks[pid.at()].cpus.contains(cpu) {
                continue;
            }
            self.scanned += 1;
            if !self.sched_idle.idle(s, cpu, pid) {
                continue;
            }
            let (fit, capacity) = match task_fit(s, pid, cpu) {
                Fit::Yes => return Some(cpu),
                Fit::NotUclampMin => (Fit::NotUclampMin, get_actual_cpu_capacity(s, cpu)),
                Fit::No => (Fit::No, u64::from(s.rqs[cpu.at()].cpu_capacity)),
            };
            if best.is_none_or(|(f, c, _)| fit < f || (fit == f && capacity > c)) {
                best = Some((fit, capacity, cpu));
            }
        }
        best.map(|b| b.2)
    }

    /// `asym_fits_cpu`: fits, or capacities do not differ, or the kernel does not ask.
    fn asym_fits_cpu(&self, s: &View, pid: Pid, cpu: CpuId) -> bool {
        let asks = s.topology.has_asym && self.generation >= Generation::V6_1;
        !asks || task_fits_cpu(s, pid, cpu)
    }

    /// Good enough to end a scan.
    #[inline]
    fn first_choice(&self, s: &View, cpu: CpuId, pid: Pid) -> bool {
        s.available_idle_cpu(cpu) || (self.sched_idle >= SchedIdle::V5_6 && self.sched_idle.counts(s, cpu, pid))
    }

    /// `5.4`: what to take if nothing is idle.
    #[inline]
    fn note_second(&self, s: &View, cpu: CpuId, pid: Pid, second: &mut Option<CpuId>) {
        if self.sched_idle == SchedIdle::V5_4 && second.is_none() && self.sched_idle.counts(s, cpu, pid) {
            *second = Some(cpu);
        }
    }

    /// Say so when what was found is not idle but runs SCHED_IDLE tasks.
    fn reason(&self, s: &View, cpu: CpuId, reason: PlacementReason) -> PlacementReason {
        let found = reason != PlacementReason::Target;
        if found && s.sched_idle_cpu(cpu) { PlacementReason::SchedIdle } else { reason }
    }

    fn seen_none(&mut self, nr_cpus: usize) {
        self.seen.clear();
        self.seen.resize(nr_cpus.div_ceil(64), 0);
    }
    fn seen(&self, cpu: CpuId) -> bool {
        self.seen[cpu.at() / 64] >> (cpu.at() % 64) & 1 == 1
    }
    fn mark_seen(&mut self, cpus: &CpuSet) {
        cpus.iter().for_each(|c| self.seen[c.at() / 64] |= 1 << (c.at() % 64));
    }
}

/// CPUs that may be looked at.
struct Limit(u32);

/// `set_idle_cores`: may a core of this cache be idle?
fn set_idle_cores(s: &mut Sched, cpu: CpuId, idle: bool) {
    if let Some(llc) = s.topology.llc_shared_mut(cpu) {
        llc.has_idle_cores = idle;
    }
}

/// `update_idle_core`: a CPU became idle; if its siblings are too, the cache has an idle core.
pub fn update_idle_core(s: &mut Sched, cpu: CpuId) {
    let has_idle_cores = |s: &Sched| s.topology.llc_shared(cpu).is_none_or(|l| l.has_idle_cores);
    if !s.topology.has_smt || has_idle_cores(s) {
        return;
    }
    if s.topology.smt[cpu.at()].iter().all(|c| c == cpu || s.available_idle_cpu(c)) {
        set_idle_cores(s, cpu, true);
    }
}

/// The groups of the domains within a CPU's cache, the widest domain first; in each the CPU's own group first.
fn cache_groups(s: &View, cpu: CpuId) -> impl Iterator<Item = &CpuSet> {
    let domains = &s.topology.of_cpu[cpu.at()];
    let shared = domains.iter().take_while(|&&d| s.topology.domains[d].share_llc).count();
    (0..shared).rev().flat_map(move |level| {
        let groups = &s.topology.domains[domains[level]].groups;
        let local = s.topology.local_group[cpu.at()][level];
        (0..groups.len()).map(move |i| &groups[(local + i) % groups.len()].cpus)
    })
}
