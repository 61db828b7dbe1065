//! Energy-aware placement: the CPU on which a waking task costs least energy.
//!
//! # Idea
//! Adding a task to a CPU may raise the frequency of everything in its domain. So for the most promising CPU of each domain,
//! and for the one the task ran on, estimate the energy of the domain with and without it, and take the smallest increase.
//! It works while every CPU has capacity to spare; on an overutilized system load balancing decides instead.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | fair, real-time, deadline, interrupt utilisation, clamps | 1024ths | [`CpuSignals`] | PELT updates, enqueue |
//! | `util_avg`, `runnable_avg`, `util_est`, clamps of the task | 1024ths | [`TaskSignals`], synchronised to now | last sleep |
//! | the task's part in its previous CPU's | yes; no under WALT | load tracker: WALT's sum is of queued tasks | – |
//! | `capacity_of` | 1024ths | capacity less real-time, deadline, interrupts and pressure | load balancing |
//! | pressure | 1024ths | capacity lost to thermal or cpufreq limits | limits |
//! | energy model | per domain | [`EmPerfDomain`] | never |
//!
//! # Decision
//! 1. Overutilized: no decision. A task without utilisation or minimum clamp: the previous CPU.
//! 2. Per domain: u := `cpu_util` of each allowed CPU with the task on it (no boost). It fits when u × 1.25 < `capacity_of`, or
//!    its maximum clamp says so; it fits *badly* when the minimum clamp wants more than the CPU has. That is
//!    `cpu_util.uclamp_fits` of 6.2; before, see there.
//! 3. Candidate: of the CPUs that fit best the one with most spare capacity, other than the previous CPU and with more to
//!    spare than it.
//! 4. ΔE := energy with the task there − energy without it, at the frequency the busiest CPU of the domain asks for
//!    (with boost) and for the busy time of all.
//! 5. The candidate that fits best, then has the smallest ΔE; the previous CPU unless strictly better. `5.6`: the
//!    previous CPU unless the saving exceeds 1/16 of everything.
//!
//! In `5.0` (up to 5.2) the frequency follows from busy time: a runnable real-time task does not make it the highest, and what deadline
//! tasks are admitted to does not raise it, although the governor heeds both. Elsewhere it is `5.6`.
//!
//! Worked example, little CPUs (capacity 400; cost 200 per unit at every speed) and big ones (1024; cost 500): a task of 100
//! that ran on a big CPU. Little: 100 × 200 = 20,000 more; big: 100 × 500 = 50,000 more → little. A task of 350 does not fit
//! there (350 × 1.25 = 437) → big.
//!
//! # State and cost
//! What was last read of each CPU, kept for as long as its signals are the same, and what was weighed, for a trace with
//! decisions (`wattif_energy_candidate`); nothing is allocated per decision.
//! O(CPUs + candidates × states).
//!
//! # Where it fails
//! The model knows no idle states, no cluster power, no cost of waking a domain. One candidate a domain misses packing within it.
//! Decisions are made at wake-ups only: a task that never sleeps is not moved.
//!
//! # Differences from the kernel
//! Bit-exact with `feec_6.12`, `feec_6.12` without boost, `feec_6.1` and `feec_5.6` (600 decisions each, every fit and
//! energy). The kernel asks whether the system is overutilized in different places in different versions; here it is always
//! step 1. Kept: in a domain, a CPU whose clamps are idle inherits the clamps computed for the CPU before it.
//! FIDELITY(inefficient-states): what the model marks as inefficient is skipped by it and by cpufreq on machines whose CPUs
//! differ; where all are alike there is no model here, and cpufreq skips nothing.
//!
//! # Source
//! Linux 6.12.117, 6.1.192, 5.6.4, 5.0 `kernel/sched/fair.c` (`find_energy_efficient_cpu`; behaviour). Commit af24bde8df20 (5.3) ends
//! `5.0`.

use super::cpu_util::{
    Boost, CpuSignals, Moving, TaskSignals, UtilType, cpu_util, effective_cpu_util, effective_cpu_util_6_1,
    scale_irq_capacity, sugov_effective_cpu_perf, uclamp_rq_util_with,
};
use super::energy_model::{EmPerfDomain, Generation};
use crate::registry::Tunable;
use crate::sched::uclamp::Fits;
use wattif_model::ids::{CpuId, CpuSet, DomainId};
use wattif_model::platform::Platform;
use wattif_model::trace::EnergyCandidate;
use wattif_model::units::CAPACITY_SCALE;

/// Tunables of this policy.
pub const TUNABLES: &[Tunable] = &[Tunable {
    name: "generation",
    default: "6.12",
    allowed: &["off", "4.9", "5.0", "5.6", "6.1", "6.12"],
    doc: "rules of this kernel, and of its energy model; 4.9: Android's find_best_target; 5.0 (up to 5.2): as 5.6, but no real-time task raises the frequency that is expected; off: neither",
}];

/// What the decision reads of the machine.
pub trait EasView {
    /// Signals of a CPU now.
    fn signals(&self, cpu: CpuId) -> CpuSignals;
    /// A number that changes whenever the CPU's signals do, 1..; `None`: they may have changed.
    fn version(&self, cpu: CpuId) -> Option<u64> {
        let _ = cpu;
        None
    }
    /// Capacity left for fair tasks, 1..=1024 (`capacity_of`).
    fn capacity_of(&self, cpu: CpuId) -> u64;
    /// Capacity lost to limits, 0..: since 6.10 the larger of hardware and cpufreq pressure, in 6.1 thermal pressure.
    fn pressure(&self, cpu: CpuId) -> u64 {
        let _ = cpu;
        0
    }
    /// Some CPU of the root domain is overutilized.
    fn overutilized(&self) -> bool;
}

/// The task to place.
#[derive(Clone, Copy, Debug)]
pub struct EasTask<'a> {
    /// Its signals, aged to now.
    pub signals: TaskSignals,
    /// The CPU it ran on.
    pub prev_cpu: CpuId,
    /// Its signals are still part of that CPU's. Under WALT they are not: a CPU's is the demand of the queued tasks alone.
    pub counted: bool,
    /// Where it may run.
    pub allowed: &'a CpuSet,
}

/// Tunables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tunables {
    /// Era.
    pub generation: Generation,
    /// `cpu_util.boost` for the frequency a domain would run at.
    pub boost: Boost,
    /// What clamps do to whether a CPU is large enough.
    pub uclamp_fits: Fits,
}

/// CPUs that change frequency together, with their model (`struct perf_domain`).
#[derive(Clone, Debug, Default)]
pub struct PerfDomain {
    /// Its CPUs that are online.
    pub cpus: CpuSet,
    /// Its model.
    pub em: EmPerfDomain,
}

/// Terms of the estimate for the domain looked at (`struct energy_env`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EnergyEnv {
    /// Busy time the task brings.
    pub task_busy_time: u64,
    /// Busy time of the domain without it.
    pub pd_busy_time: u64,
    /// Capacity of one CPU, less pressure.
    pub cpu_cap: u64,
    /// Capacity of the domain.
    pub pd_cap: u64,
}

/// How well a task fits on a CPU: ordered, and `No` excludes the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i32)]
pub enum Fit {
    /// It fits but for its minimum clamp; also the rank of "no CPU".
    Badly = -1,
    /// It does not fit.
    No = 0,
    /// It fits.
    Well = 1,
}

/// Clamps of the task together with those of a run queue.
#[derive(Clone, Copy, Debug)]
pub struct Clamps {
    min: u64,
    max: u64,
}

impl Clamps {
    const NONE: Clamps = Clamps { min: 0, max: CAPACITY_SCALE };
}

/// A CPU as it was when it was last read.
#[derive(Clone, Copy, Debug)]
struct PdCpu {
    cpu: CpuId,
    /// Of its signals; 0: to be read again.
    version: u64,
    signals: CpuSignals,
    /// Busy time without the task (5.6: what it adds to the sum).
    busy: u64,
    /// Performance it asks for without the task.
    perf: u64,
}

/// Energy-aware placement on one machine.
#[derive(Clone, Debug)]
pub struct Eas {
    tunables: Tunables,
    pds: Vec<PerfDomain>,
    eenv: EnergyEnv,
    /// Of each domain.
    cpus: Vec<Vec<PdCpu>>,
    /// What the last decision compared.
    weighed: Vec<EnergyCandidate>,
}

struct Best {
    delta: u64,
    cpu: CpuId,
    fit: Fit,
    actual_cap: u64,
}

/// A CPU that the task fits on.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    cpu: CpuId,
    /// With the task.
    util: u64,
    /// For fair tasks.
    capacity: u64,
    fit: Fit,
}

impl Candidate {
    fn spare(&self) -> u64 {
        self.capacity.saturating_sub(self.util)
    }
}

/// Of one domain.
#[derive(Default)]
struct Candidates {
    prev: Option<Candidate>,
    other: Option<Candidate>,
}

impl Eas {
    /// On these domains, in the order the kernel lists them (the last registered first).
    pub fn new(tunables: Tunables, pds: Vec<PerfDomain>) -> Eas {
        let unread = |cpu| PdCpu { cpu, version: 0, signals: CpuSignals::default(), busy: 0, perf: 0 };
        let cpus = pds.iter().map(|pd| pd.cpus.iter().map(unread).collect()).collect();
        // Of each domain at most the previous CPU and one more.
        let weighed = Vec::with_capacity(pds.len() + 1);
        Eas { tunables, pds, eenv: EnergyEnv::default(), cpus, weighed }
    }

    /// On a platform, or `None` where the kernel would not enable it: CPUs of equal capacity, SMT, or a domain whose powers
    /// are not known. That every domain must run schedutil is for the caller to see to.
    #[doc(alias = "sched_is_eas_possible")]
    pub fn of_platform(tunables: Tunables, platform: &Platform) -> Option<Eas> {
        if !platform.is_asymmetric() || platform.smt_share.len() > 1 {
            return None;
        }
        let pd = |i: usize| {
            let em = EmPerfDomain::of_domain(tunables.generation, platform, DomainId(i as u32))?;
            Some(PerfDomain { cpus: platform.domains[i].cpus.clone(), em })
        };
        // The kernel puts each domain it meets, by ascending CPU, in front of its list.
        let mut order: Vec<usize> = (0..platform.domains.len()).collect();
        order.sort_by_key(|&i| std::cmp::Reverse(platform.domains[i].cpus.min()));
        Some(Eas::new(tunables, order.into_iter().map(pd).collect::<Option<_>>()?))
    }

    /// The domains, in order.
    pub fn pds(&self) -> &[PerfDomain] {
        &self.pds
    }

    /// The CPUs whose energy the last decision compared.
    pub fn weighed(&self) -> &[EnergyCandidate] {
        &self.weighed
    }

    /// The CPU for a waking task, or `None`: the ordinary path decides.
    pub fn find_energy_efficient_cpu(&mut self, task: &EasTask<'_>, view: &(impl EasView + ?Sized)) -> Option<CpuId> {
        if self.pds.is_empty() || view.overutilized() {
            return None;
        }
        self.weighed.clear();
        Some(match self.tunables.generation {
            Generation::V5_0 | Generation::V5_6 => self.find_5_6(task, view),
            Generation::V6_1 | Generation::V6_12 => self.find(task, view),
        })
    }

    fn find(&mut self, task: &EasTask<'_>, view: &(impl EasView + ?Sized)) -> CpuId {
        let prev_cpu = task.prev_cpu;
        let at_prev = view.signals(prev_cpu);
        let clamps = self.tunables.task_clamps(task, &at_prev);
        if task.signals.task_util_est() == 0 && clamps.min == 0 {
            return prev_cpu;
        }
        let mut best = Best { delta: u64::MAX, cpu: prev_cpu, fit: Fit::Badly, actual_cap: 0 };
        let mut prev = Best { delta: u64::MAX, cpu: prev_cpu, fit: Fit::Badly, actual_cap: 0 };
        for pd in 0..self.pds.len() {
            self.read(pd, task, view);
            let found = self.candidates(pd, task, clamps, view);
            if let Some(c) = found.prev {
                prev.fit = c.fit;
            }
            if found.prev.is_none() && found.other.is_none() {
                continue; // also where every CPU is offline
            }
            self.prepare(pd, task, &at_prev, view);
            let base = self.compute_energy(pd, task, None);
            let actual_cap = self.eenv.cpu_cap;
            if let Some(c) = found.prev {
                // Less energy with the task than without: signals changed under us. Stay.
                let Some(delta) = self.weigh(pd, task, c, base).checked_sub(base) else { return prev_cpu };
                prev = Best { delta, actual_cap, ..prev };
                best.delta = best.delta.min(delta);
            }
            let Some(c) = found.other else { continue };
            let fit = c.fit;
            let worse = found.prev.is_some_and(|prev| c.spare() <= prev.spare())
                || fit < best.fit
                || (fit == Fit::Badly && actual_cap <= best.actual_cap);
            if worse {
                continue;
            }
            let Some(delta) = self.weigh(pd, task, c, base).checked_sub(base) else { return prev_cpu };
            if fit == Fit::Well && best.fit == Fit::Well && delta >= best.delta {
                continue;
            }
            best = Best { delta, cpu: c.cpu, fit, actual_cap };
        }
        let better = best.fit > prev.fit
            || (best.fit == Fit::Well && best.delta < prev.delta)
            || (best.fit == Fit::Badly && best.actual_cap > prev.actual_cap);
        if better { best.cpu } else { prev_cpu }
    }

    /// Step 2 and 3 for the domain whose signals were read.
    fn candidates(
        &self,
        pd: usize,
        task: &EasTask<'_>,
        mut clamps: Clamps,
        view: &(impl EasView + ?Sized),
    ) -> Candidates {
        let mut found = Candidates::default();
        for &PdCpu { cpu, ref signals, .. } in &self.cpus[pd] {
            if !task.allowed.contains(cpu) {
                continue;
            }
            let (util, fit) = self.tunables.fit(cpu, signals, task, &mut clamps, view);
            let c = Candidate { cpu, util, capacity: view.capacity_of(cpu), fit };
            if fit == Fit::No {
                continue;
            } else if cpu == task.prev_cpu {
                found.prev = Some(c);
            } else if found.other.is_none_or(|best| fit > best.fit || (fit == best.fit && c.spare() > best.spare())) {
                found.other = Some(c);
            }
        }
        found
    }

    /// Prepares [`Eas::compute_energy`] for a domain that has a CPU: signals are read once.
    #[doc(alias = "eenv_pd_busy_time")]
    #[doc(alias = "eenv_task_busy_time")]
    pub fn enter(&mut self, pd: usize, task: &EasTask<'_>, view: &(impl EasView + ?Sized)) {
        self.read(pd, task, view);
        self.prepare(pd, task, &view.signals(task.prev_cpu), view);
    }

    /// The CPUs of a domain as they are, and what they need without the task.
    fn read(&mut self, pd: usize, task: &EasTask<'_>, view: &(impl EasView + ?Sized)) {
        for c in &mut self.cpus[pd] {
            // What is left of the previous CPU without this task is of no use to the next decision.
            let lasting = c.cpu != task.prev_cpu && !task.signals.queued;
            let version = view.version(c.cpu).filter(|_| lasting).unwrap_or(0);
            if version != 0 && version == c.version {
                debug_assert_eq!(c.signals, self.tunables.signals(c.cpu, view), "signals change with their version");
                continue;
            }
            c.version = version;
            c.signals = self.tunables.signals(c.cpu, view);
            (c.busy, c.perf) = self.tunables.needs(&c.signals, task, c.cpu, None);
        }
    }

    /// The terms of a domain that was read.
    fn prepare(&mut self, pd: usize, task: &EasTask<'_>, at_prev: &CpuSignals, view: &(impl EasView + ?Sized)) {
        let cpus = &self.cpus[pd];
        let first = &cpus[0];
        let cpu_cap = first.signals.capacity.saturating_sub(view.pressure(first.cpu));
        let pd_cap = cpu_cap * cpus.len() as u64;
        let busy: u64 = cpus.iter().map(|c| c.busy).sum();
        self.eenv = EnergyEnv {
            task_busy_time: task_busy_time(task, at_prev),
            pd_busy_time: busy.min(pd_cap),
            cpu_cap,
            pd_cap,
        };
    }

    /// The terms of the domain last entered.
    pub fn eenv(&self) -> EnergyEnv {
        self.eenv
    }

    /// Energy of the domain last entered without the task, or with the task on its CPU `dst`.
    pub fn compute_energy(&self, pd: usize, task: &EasTask<'_>, dst: Option<CpuId>) -> u64 {
        let em = &self.pds[pd].em;
        let (mut max_util, mut sum_util) = (0, 0);
        for c in &self.cpus[pd] {
            // The task changes only the CPU it would run on.
            let here = dst == Some(c.cpu);
            let (busy, perf) = if here { self.tunables.needs(&c.signals, task, c.cpu, dst) } else { (c.busy, c.perf) };
            max_util = perf.max(max_util);
            sum_util += busy;
        }
        if self.tunables.generation <= Generation::V5_6 {
            return em.em_cpu_energy(max_util, sum_util, u64::MAX);
        }
        let e = &self.eenv;
        let task_busy_time = if dst.is_some() { e.task_busy_time } else { 0 };
        let busy_time = (e.pd_busy_time + task_busy_time).min(e.pd_cap);
        em.em_cpu_energy(max_util.min(e.cpu_cap), busy_time, e.cpu_cap)
    }

    /// Energy of the domain last entered with the task on this CPU; `base` without it.
    fn weigh(&mut self, pd: usize, task: &EasTask<'_>, c: Candidate, base: u64) -> u64 {
        let energy = self.compute_energy(pd, task, Some(c.cpu));
        self.weighed.push(EnergyCandidate {
            cpu: c.cpu,
            util: c.util as u32,
            capacity: c.capacity as u32,
            fits: c.fit == Fit::Well,
            energy: base,
            delta: energy.wrapping_sub(base) as i64,
        });
        energy
    }

    fn find_5_6(&mut self, task: &EasTask<'_>, view: &(impl EasView + ?Sized)) -> CpuId {
        let (mut prev_delta, mut best_delta, mut base_energy) = (u64::MAX, u64::MAX, 0u64);
        let mut best = task.prev_cpu;
        let clamps = self.tunables.task_clamps(task, &view.signals(task.prev_cpu));
        if task.signals.task_util_est() == 0 && clamps.min == 0 {
            return task.prev_cpu;
        }
        for pd in 0..self.pds.len() {
            if self.pds[pd].cpus.is_empty() {
                continue;
            }
            self.enter(pd, task, view);
            let base = self.compute_energy(pd, task, None);
            base_energy = base_energy.wrapping_add(base);
            let found = self.candidates_5_6(pd, task, clamps, view);
            // Unsigned as in the kernel: an increase below zero would wrap to a huge one.
            if let Some(c) = found.prev {
                prev_delta = self.weigh(pd, task, c, base).wrapping_sub(base);
                best_delta = best_delta.min(prev_delta);
            }
            if let Some(c) = found.other {
                let delta = self.weigh(pd, task, c, base).wrapping_sub(base);
                if delta < best_delta {
                    (best_delta, best) = (delta, c.cpu);
                }
            }
        }
        let saves = prev_delta.wrapping_sub(best_delta) > prev_delta.wrapping_add(base_energy) >> 4;
        if prev_delta == u64::MAX || saves { best } else { task.prev_cpu }
    }

    /// The previous CPU if it fits, and the CPU of the domain that has most spare capacity, unless that is the previous one.
    fn candidates_5_6(
        &self,
        pd: usize,
        task: &EasTask<'_>,
        mut clamps: Clamps,
        view: &(impl EasView + ?Sized),
    ) -> Candidates {
        let (mut found, mut max_spare_cap) = (Candidates::default(), 0);
        for &PdCpu { cpu, ref signals, .. } in &self.cpus[pd] {
            if !task.allowed.contains(cpu) {
                continue;
            }
            let (util, fit) = self.tunables.fit(cpu, signals, task, &mut clamps, view);
            if fit != Fit::Well {
                continue;
            }
            let c = Candidate { cpu, util, capacity: view.capacity_of(cpu), fit };
            if cpu == task.prev_cpu {
                found.prev = Some(c);
            }
            // A maximum clamp lets a task fit that leaves less than nothing; unsigned, that is most of all.
            let spare = c.capacity.wrapping_sub(util);
            if spare > max_spare_cap {
                (max_spare_cap, found.other) = (spare, Some(c).filter(|c| c.cpu != task.prev_cpu));
            }
        }
        found
    }
}

impl Tunables {
    /// A CPU's signals. Before 5.14 the clamp that is left on an idle queue counts as if its task was still runnable.
    fn signals(&self, cpu: CpuId, view: &(impl EasView + ?Sized)) -> CpuSignals {
        let signals = view.signals(cpu);
        CpuSignals { uclamp_idle: signals.uclamp_idle && self.uclamp_fits == Fits::V6_2, ..signals }
    }

    /// Clamps of the task alone, where they are looked at on their own (6.2).
    fn task_clamps(&self, task: &EasTask<'_>, signals: &CpuSignals) -> Clamps {
        if self.uclamp_fits == Fits::V6_2 { task_clamps(task, signals) } else { Clamps::NONE }
    }

    /// [`fit_with_task`]; before 6.2 the utilisation must fit, and since 5.6 it is that within the clamps of both.
    fn fit(
        &self,
        cpu: CpuId,
        signals: &CpuSignals,
        task: &EasTask<'_>,
        clamps: &mut Clamps,
        view: &(impl EasView + ?Sized),
    ) -> (u64, Fit) {
        if self.uclamp_fits == Fits::V6_2 {
            return fit_with_task(cpu, signals, task, clamps, view);
        }
        let util = cpu_util(signals, Some(moving(task, cpu, Some(cpu))), Boost::Off);
        let heeded = self.uclamp_fits == Fits::V5_6;
        let wanted = if heeded { uclamp_rq_util_with(signals, util, Some(&task.signals)) } else { util };
        let fits = fits_capacity(wanted, view.capacity_of(cpu));
        (util, if fits { Fit::Well } else { Fit::No })
    }

    /// What a CPU adds to the busy time of its domain and the performance it asks for, when the task runs on `dst`.
    #[doc(alias = "eenv_pd_max_util")]
    fn needs(&self, signals: &CpuSignals, task: &EasTask<'_>, cpu: CpuId, dst: Option<CpuId>) -> (u64, u64) {
        let moving = Some(moving(task, cpu, dst));
        let plain = cpu_util(signals, moving, Boost::Off);
        let boosted = if self.boost == Boost::Off { plain } else { cpu_util(signals, moving, self.boost) };
        let here = (dst == Some(cpu)).then_some(&task.signals);
        if self.generation == Generation::V6_12 {
            (effective_cpu_util(signals, plain).util, perf_with_task(signals, boosted, here))
        } else {
            let asks = match self.generation {
                Generation::V5_0 => UtilType::Energy,
                _ => UtilType::Frequency,
            };
            let frequency = effective_cpu_util_6_1(signals, boosted, asks, here);
            (effective_cpu_util_6_1(signals, plain, UtilType::Energy, None), frequency)
        }
    }
}

fn perf_with_task(signals: &CpuSignals, util: u64, task: Option<&TaskSignals>) -> u64 {
    let mut e = effective_cpu_util(signals, util);
    if let Some(p) = task.filter(|_| signals.uclamp_used) {
        e.min = e.min.max(p.uclamp_min);
        // The clamp left on an idle run queue is no constraint.
        e.max = if signals.uclamp_idle { p.uclamp_max } else { e.max.max(p.uclamp_max) };
    }
    sugov_effective_cpu_perf(e.util, e.min, e.max)
}

fn moving<'a>(task: &'a EasTask<'_>, cpu: CpuId, dst: Option<CpuId>) -> Moving<'a> {
    Moving { task: &task.signals, here: task.counted && cpu == task.prev_cpu, dst: dst == Some(cpu) }
}

/// Busy time of the task, scaled by what interrupts leave of its previous CPU.
fn task_busy_time(task: &EasTask<'_>, prev: &CpuSignals) -> u64 {
    if prev.util_irq >= prev.capacity {
        return prev.capacity;
    }
    scale_irq_capacity(task.signals.task_util_est(), prev.util_irq, prev.capacity)
}

/// Clamps of the task alone: where the walk through a domain begins. `signals` are those of any CPU.
pub fn task_clamps(task: &EasTask<'_>, signals: &CpuSignals) -> Clamps {
    if signals.uclamp_used {
        Clamps { min: task.signals.uclamp_min, max: task.signals.uclamp_max }
    } else {
        Clamps::NONE
    }
}

/// Utilisation of a CPU with the task on it, and whether it fits. `clamps` begins as [`task_clamps`] in each domain and is
/// carried from CPU to CPU: one whose clamps are idle is judged by those of the CPU before it.
pub fn fit_with_task(
    cpu: CpuId,
    signals: &CpuSignals,
    task: &EasTask<'_>,
    clamps: &mut Clamps,
    view: &(impl EasView + ?Sized),
) -> (u64, Fit) {
    let util = cpu_util(signals, Some(moving(task, cpu, Some(cpu))), Boost::Off);
    if signals.uclamp_used && !signals.uclamp_idle {
        clamps.min = signals.uclamp_min.max(task.signals.uclamp_min);
        clamps.max = signals.uclamp_max.max(task.signals.uclamp_max);
    }
    (util, util_fits_cpu(util, *clamps, cpu, signals, view))
}

/// `fits_capacity`: a fifth of the capacity is to stay free.
pub const fn fits_capacity(util: u64, capacity: u64) -> bool {
    util * 1280 < capacity * 1024
}

fn util_fits_cpu(util: u64, clamps: Clamps, cpu: CpuId, signals: &CpuSignals, view: &(impl EasView + ?Sized)) -> Fit {
    let mut fits = fits_capacity(util, view.capacity_of(cpu));
    if signals.uclamp_used {
        let capped = !(signals.capacity == CAPACITY_SCALE && clamps.max == CAPACITY_SCALE);
        fits |= capped && clamps.max <= signals.capacity;
        let min = clamps.min.min(clamps.max);
        if fits && util < min && min > signals.capacity.saturating_sub(view.pressure(cpu)) {
            return Fit::Badly;
        }
    }
    if fits { Fit::Well } else { Fit::No }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CPUs 0 and 1 little, 2 and 3 big; all idle but for the task, which ran on `prev`.
    struct Idle {
        prev: CpuId,
        task_util: u64,
        overutilized: bool,
        uclamp_used: bool,
        /// What the last task left on every queue.
        uclamp_max: u64,
    }

    impl EasView for Idle {
        fn signals(&self, cpu: CpuId) -> CpuSignals {
            let util_avg = if cpu == self.prev { self.task_util } else { 0 };
            CpuSignals {
                util_avg,
                uclamp_max: self.uclamp_max,
                uclamp_used: self.uclamp_used,
                uclamp_idle: true,
                capacity: self.capacity_of(cpu),
                ..CpuSignals::default()
            }
        }
        fn capacity_of(&self, cpu: CpuId) -> u64 {
            if cpu.0 < 2 { 400 } else { 1024 }
        }
        fn overutilized(&self) -> bool {
            self.overutilized
        }
    }

    fn place(generation: Generation, util: u64, overutilized: bool) -> Option<u32> {
        let signals = TaskSignals { util_avg: util, uclamp_max: 1024, ..TaskSignals::default() };
        let tunables = Tunables { generation, ..Tunables::default() };
        let view = Idle { prev: CpuId(2), task_util: util, overutilized, uclamp_used: false, uclamp_max: 1024 };
        place_with(tunables, signals, view)
    }

    fn place_with(tunables: Tunables, signals: TaskSignals, view: Idle) -> Option<u32> {
        let generation = tunables.generation;
        let pd = |mask, capacity, cost| PerfDomain {
            cpus: CpuSet::from_mask(mask),
            em: EmPerfDomain::new(generation, capacity, &[(1_000_000, cost * capacity / 10)], false),
        };
        let mut eas = Eas::new(tunables, vec![pd(0b1100, 1024, 500), pd(0b11, 400, 200)]);
        let task = EasTask { signals, prev_cpu: view.prev, counted: true, allowed: &CpuSet::first(4) };
        eas.find_energy_efficient_cpu(&task, &view).map(|c| c.0)
    }

    #[test]
    fn worked_example() {
        for generation in [Generation::V5_0, Generation::V5_6, Generation::V6_1, Generation::V6_12] {
            assert_eq!(place(generation, 100, false), Some(0), "{generation:?}");
            assert_eq!(place(generation, 350, false), Some(2), "{generation:?}");
            assert_eq!(place(generation, 0, false), Some(2), "{generation:?}");
            assert_eq!(place(generation, 100, true), None, "{generation:?}");
        }
    }

    #[test]
    fn clamps_decide_which_cpus_fit_since_5_6() {
        const LITTLE: u32 = 0;
        const BIG: u32 = 2;
        // (utilisation, clamps), the clamp left on the idle queues, where it goes by era; its last CPU is big.
        for (util, (uclamp_min, uclamp_max), left, expect) in [
            (100, (0, 1024), 1024, [LITTLE, LITTLE, LITTLE]),
            (100, (700, 1024), 1024, [LITTLE, BIG, BIG]),
            (390, (0, 200), 200, [BIG, LITTLE, LITTLE]),
            (390, (0, 200), 1024, [BIG, BIG, LITTLE]),
            (390, (0, 380), 200, [BIG, BIG, LITTLE]),
            (0, (700, 1024), 1024, [BIG, BIG, BIG]),
        ] {
            for generation in [Generation::V5_6, Generation::V6_1, Generation::V6_12] {
                let got = [Fits::V5_3, Fits::V5_6, Fits::V6_2].map(|uclamp_fits| {
                    let signals = TaskSignals { util_avg: util, uclamp_min, uclamp_max, ..TaskSignals::default() };
                    let (prev, overutilized, uclamp_used) = (CpuId(2), false, true);
                    let view = Idle { prev, task_util: util, overutilized, uclamp_used, uclamp_max: left };
                    let tunables = Tunables { generation, uclamp_fits, ..Tunables::default() };
                    place_with(tunables, signals, view)
                });
                assert_eq!(got, expect.map(Some), "{generation:?} {util} {uclamp_min} {uclamp_max} {left}");
            }
        }
    }

    #[test]
    fn real_time_and_deadline_tasks_raise_the_frequency_that_is_expected_since_5_3() {
        let signals = TaskSignals { util_avg: 100, uclamp_max: 1024, ..TaskSignals::default() };
        let task = EasTask { signals, prev_cpu: CpuId(0), counted: true, allowed: &CpuSet::first(4) };
        let at = CpuSignals { util_avg: 200, util_rt: 50, util_dl: 30, capacity: 1024, ..CpuSignals::default() };
        let needs = |generation, rt_nr_running, bw_dl| {
            let at = CpuSignals { rt_nr_running, bw_dl, ..at };
            Tunables { generation, ..Tunables::default() }.needs(&at, &task, CpuId(2), None)
        };
        let busy = 200 + 50 + 30;
        let all = [Generation::V5_0, Generation::V5_6, Generation::V6_1];
        assert_eq!(all.map(|g| needs(g, 0, 0)), [(busy, busy), (busy, 250), (busy, 250)]);
        assert_eq!(all.map(|g| needs(g, 0, 300)), [(busy, busy), (busy, 550), (busy, 550)]);
        assert_eq!(all.map(|g| needs(g, 1, 0)), [(busy, busy), (busy, 1024), (busy, 1024)]);
    }

    /// The schemes ask what a queue runs and what holds it down: that is of the queue with the task on it, or without.
    #[test]
    fn the_request_that_is_expected_is_the_one_that_comes() {
        let idle = |uclamp_max| CpuSignals {
            util_avg: 20,
            runnable_avg: 60,
            uclamp_max,
            uclamp_used: true,
            uclamp_idle: true,
            capacity: 1024,
            ..CpuSignals::default()
        };
        let busy = |uclamp_max| CpuSignals { nr_running: 1, uclamp_idle: false, util_est: 60, ..idle(uclamp_max) };
        let ahead = Boost::ResponseTime { delay_ns: 4 << 20, half_life: 32 };
        let schemes = [Boost::Off, Boost::H2, Boost::UclampAware, Boost::RelGate(150), Boost::Wait, ahead];
        for (own, queue) in
            [(1024, idle(150)), (150, idle(1024)), (1024, busy(150)), (150, busy(150)), (150, busy(1024))]
        {
            let signals = TaskSignals {
                util_avg: 100,
                runnable_avg: 300,
                util_est: 120,
                uclamp_max: own,
                ..TaskSignals::default()
            };
            let task = EasTask { signals, prev_cpu: CpuId(0), counted: true, allowed: &CpuSet::first(4) };
            let with = CpuSignals {
                util_avg: queue.util_avg + 100,
                runnable_avg: queue.runnable_avg + 300,
                util_est: queue.util_est + 120,
                nr_running: queue.nr_running + 1,
                uclamp_max: if queue.uclamp_idle { own } else { own.max(queue.uclamp_max) },
                uclamp_idle: false,
                ..queue
            };
            for boost in schemes {
                for generation in [Generation::V5_6, Generation::V6_1, Generation::V6_12] {
                    let tunables = Tunables { generation, boost, ..Tunables::default() };
                    let needs = |at, dst| tunables.needs(at, &task, CpuId(2), dst).1;
                    let (expected, comes) = (needs(&queue, Some(CpuId(2))), needs(&with, None));
                    assert_eq!(expected, comes, "{boost:?} {generation:?} {own} {queue:?}");
                }
            }
        }
        // Nothing runs on the previous CPU but the task, which may be queued there.
        let signals =
            TaskSignals { util_avg: 15, util_est: 60, queued: true, uclamp_max: 1024, ..TaskSignals::default() };
        let task = EasTask { signals, prev_cpu: CpuId(0), counted: true, allowed: &CpuSet::first(4) };
        let tunables = Tunables { boost: ahead, ..Tunables::default() };
        assert_eq!(tunables.needs(&busy(1024), &task, CpuId(0), None).1, 5);
    }

    /// A task of 100 on an idle CPU 0, the others idle too: what the CPU has with it and without it, by whether it is part of it.
    #[test]
    fn a_task_that_is_no_part_of_its_cpu_is_added_there_and_taken_off_nowhere() {
        for (counted, rest) in [(true, 0), (false, 60)] {
            let signals = TaskSignals { util_avg: 100, uclamp_max: 1024, ..TaskSignals::default() };
            let task = EasTask { signals, prev_cpu: CpuId(0), counted, allowed: &CpuSet::first(4) };
            let util_avg = if counted { 100 } else { 60 };
            let (prev, overutilized, uclamp_used) = (CpuId(0), false, false);
            let view = Idle { prev, task_util: util_avg, overutilized, uclamp_used, uclamp_max: 1024 };
            let at_prev = view.signals(CpuId(0));
            let (with, _) = fit_with_task(CpuId(0), &at_prev, &task, &mut task_clamps(&task, &at_prev), &view);
            assert_eq!(with, rest + 100);
            assert_eq!(Tunables::default().needs(&at_prev, &task, CpuId(0), None).0, rest);
        }
    }
}
