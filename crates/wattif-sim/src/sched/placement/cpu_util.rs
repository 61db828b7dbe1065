//! Utilisation of a CPU: what schedutil and energy-aware placement take a run queue's signals for.
//!
//! # Idea
//! One number between 0 and the CPU's capacity that says how much of it the fair tasks need: the larger of what they
//! have used lately (`util_avg`), of what they are known to need once awake (`util_est`) and, with `boost`, of what
//! they would have used without waiting for each other (`runnable_avg`). On top of it the *effective* utilisation adds
//! the real-time and deadline classes and interrupts, and applies the clamps of the run queue.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | `util_avg`, `runnable_avg` | 0..=1024 and above | load tracker, the CPU's fair run queue | PELT updates |
//! | `util_est` | 0..=1024 and above | sum over the queued fair tasks | enqueue, dequeue |
//! | `util_rt`, `util_dl`, `util_irq` | 0..=1024 | load tracker | PELT updates |
//! | `bw_dl` | 0..=1024 | admitted running bandwidth of deadline tasks | deadline enqueue, dequeue |
//! | `uclamp_min`, `uclamp_max` | 0..=1024 | maximum over the runnable tasks | enqueue, dequeue |
//! | `capacity` | 1..=1024 | platform | never |
//!
//! # Decision
//! 1. u := `util_avg`; boost `h1`: u := max(u, `runnable_avg`).
//! 2. A task that would leave this CPU is taken off (floor 0), one that would come is added. Boost `h2` does so for
//!    `runnable_avg` with the task's own `runnable_avg` and takes the maximum only then.
//! 3. e := `util_est`, plus the task's if it would run here, minus it if it is queued now and would not; u := max(u, e).
//! 4. u := min(u, `capacity`).
//!
//! Relative schemes, proposed or ours, in place of step 2; r is `runnable_avg`, u already has the task in or out. What each asks
//! for, with the quarter of headroom that the governor adds, is in brackets:
//! - `uclamp-aware`: as `h2`, but u where the raised utilisation reaches the run queue's `uclamp_max` [5/4 · r, or 5/4 · u]: that
//!   of the queue with the task on it, if it is to run here. A clamp that even this does not reach changes nothing.
//! - `rel-gate`: contended is what has r > u + 10; then u := min(u · `gate_pct` / 100, r) [5/4 · that].
//! - `wait`: waiting is r − u; n is max(u, e) of step 3, and u := max(n, 4/5 · (n + waiting)) [n + max(n / 4, waiting): the headroom
//!   or the waiting, not both]. What real-time and deadline tasks use is part of n here: the headroom is on theirs too.
//! - `response-time`: u, the e of step 3 included, as it will be one `delay_us` later if it runs on, and no headroom while
//!   nothing runs, the task included if it is to run here [u + (1024 − u) · (1 − y^delay), or u]; y is that of
//!   `pelt.half_life_ms`. The proposal says nothing of estimates on their own: they are need like any other.
//!
//! Each consumer (`schedutil`, `eas` for the frequency it expects, `balance` for the source of a pull by utilisation) may use a
//! scheme of its own.
//!
//! Whether a CPU is large enough is asked by wake-ups, energy-aware placement and the balancer (misfit tasks, overutilised CPUs).
//! What clamps do to the answer is `uclamp_fits`; u of a task is its `task_util_est`, c is `capacity_of`:
//!
//! | `uclamp_fits` | a task fits | energy-aware placement: a CPU fits | a CPU is overutilised |
//! |---|---|---|---|
//! | `5.3` | 5/4 · u < c | 5/4 · u < c, u with the task on it | 5/4 · u ≥ c |
//! | `5.6` | the same, u within its clamps | the same, u within the clamps of both | 5/4 · u ≥ c |
//! | `6.2` | 5/4 · u < c or `uclamp_max` ≤ `capacity`, and `uclamp_min` ≤ what limits leave of `capacity`, unless u is more | the same, of both | neither 5/4 · u < c nor `uclamp_max` ≤ `capacity` |
//!
//! A queue that is idle keeps the `uclamp_max` of its last task. Before `6.2` (until 5.13) it counts beside that of the task which
//! would come, so a CPU whose last task was free does not let a clamped one fit; since then the task's own counts alone.
//!
//! In `6.2` a `uclamp_max` of 1024 on the biggest CPUs holds nothing down, and where only `uclamp_min` is missed, the
//! CPU is second choice. Little CPUs of 462: a task of 60 with `uclamp_min` 700 fits them in `5.3` alone; one of 440 with
//! `uclamp_max` 200 in all but `5.3`; with `uclamp_max` 400 in `6.2` alone.
//!
//! Worked example: three tasks of 100 that wait for each other have `util_avg` 300 and `runnable_avg` 600. Without boost
//! u = 300; with `h1` or `h2` 600. Looked at without one of them (util 100, runnable 200): 200; `h1` 500; `h2` 400.
//!
//! # State and cost
//! None; a dozen integer operations.
//!
//! # Where it fails
//! `runnable_avg` counts waiting as need: producers and consumers that contend without needing speed double the
//! frequency. `h1` mixes two signals when a task leaves (runnable − util), which `h2` corrects. `off` leaves the first frames
//! after a pause at a low frequency, however many threads wait for it. `rel-gate` limits both gain and cost to its factor; `wait`
//! still follows r, without the quarter; `uclamp-aware` helps only whoever sets clamps; `response-time` forgets waiting altogether.
//!
//! # Differences from the kernel
//! None known: bit-exact with `effective_util_6.1` and `effective_util_6.12` (1,500 rows each), and through schedutil and
//! energy-aware placement with theirs (`off` and `h2`; no vectors of a kernel with `h1` exist). The first, short-lived form
//! of the boost, which also raised `util_est`, is not offered. `uclamp-aware`, `rel-gate`, `wait` and `response-time` are in
//! no kernel. Whether `uclamp-aware` sees a queue as held down is `uclamp_rq_is_capped` asked of the raised utilisation: of
//! the plain one, which the governor cuts at the clamp anyway, it would never change a request. FIDELITY(response-time): its
//! per-task growth of `util_est` and its margins for migration are left out.
//!
//! # Source
//! Linux 6.12.117 and 6.1.192: `kernel/sched/fair.c` (`cpu_util`), `kernel/sched/syscalls.c` and `core.c`
//! (`effective_cpu_util`), `cpufreq_schedutil.c`. `h1`: commit 7d0583cf9ec7 (June 2023) as in 6.5; `h2`: commit 29922fdfc2a4
//! (June 2026), in 6.12.97 and later. `wait` and `response-time`: "sched/fair/schedutil: Better manage system response time"
//! (RFC, 20 August 2024); `uclamp-aware`: an idea of November 2023; `rel-gate`: ours, after the gate of `util_est`.
//! `uclamp_fits`: commits a7008c07a568 and 1d42509e475c (5.6), 48d5e9daa8b7 (6.2) and those after it; they are in 6.1.192 too;
//! 3e1493f46390 (5.14) for the clamp of an idle queue.

use crate::registry::Tunable;
use crate::sched::load::pelt::{At, Pelt, SchedAvg};
use crate::sched::uclamp::{Clamped, Fits};
use wattif_model::units::CAPACITY_SCALE;

/// Schemes, and that of all consumers.
const SCHEMES: &[&str] = &["off", "h1", "h2", "uclamp-aware", "rel-gate", "wait", "response-time"];
const OWN: &[&str] = &["same", "off", "h1", "h2", "uclamp-aware", "rel-gate", "wait", "response-time"];

/// Tunables of this policy.
pub const TUNABLES: &[Tunable] = &[
    Tunable {
        name: "boost",
        default: "h2",
        allowed: SCHEMES,
        doc: "how waiting raises the utilisation: off (6.4 and before), h1 (6.5 to mid-2026), h2 (since then), or a relative scheme",
    },
    Tunable { name: "schedutil", default: "same", allowed: OWN, doc: "what schedutil uses; same: boost" },
    Tunable {
        name: "eas",
        default: "same",
        allowed: OWN,
        doc: "what energy-aware placement expects of schedutil; same: boost",
    },
    Tunable {
        name: "balance",
        default: "same",
        allowed: OWN,
        doc: "what a pull by utilisation compares CPUs by, where the balancer's generation is 6.6 or 6.12 (6.5); same: boost",
    },
    Tunable {
        name: "uclamp",
        default: "5.4",
        allowed: &Clamped::NAMES,
        doc: "whose utilisation clamps are heard: off: nobody's (5.2 and before); 5.3: threads'; 5.4: those of groups too",
    },
    Tunable {
        name: "uclamp_fits",
        default: "6.2",
        allowed: &Fits::NAMES,
        doc: "clamps and whether a CPU is large enough: 5.3: not asked; 5.6: a task's clamped utilisation must fit; 6.2: util_fits_cpu, also of CPUs (and in stable 6.1)",
    },
    Tunable {
        name: "gate_pct",
        default: "150",
        allowed: &["100..=400"],
        doc: "rel-gate: factor of a contended CPU, percent",
    },
    Tunable {
        name: "delay_us",
        default: "2000",
        allowed: &["0..=64000"],
        doc: "response-time: how far ahead, µs; about the governor's rate limit or a tick",
    },
];

/// What discussions of the boost call these values, and what sets the same here.
pub const SPELLINGS: &[(&str, &str)] =
    &[("h0", "off"), ("abs", "h1 or h2"), ("pelt2", "pelt.half_life_ms=16"), ("pelt4", "pelt.half_life_ms=8")];

/// What a run queue publishes about one CPU. Everything is in 1024ths of the biggest CPU unless stated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuSignals {
    /// Running average of the fair tasks.
    pub util_avg: u64,
    /// Sum of the estimates of the queued fair tasks.
    pub util_est: u64,
    /// Runnable average of the fair tasks.
    pub runnable_avg: u64,
    /// Running average of real-time tasks.
    pub util_rt: u64,
    /// Running average of deadline tasks.
    pub util_dl: u64,
    /// Bandwidth of the running deadline tasks, see [`cpu_bw_dl`].
    pub bw_dl: u64,
    /// Share of time in interrupts.
    pub util_irq: u64,
    /// Runnable real-time tasks.
    pub rt_nr_running: u32,
    /// Runnable tasks of all classes.
    pub nr_running: u32,
    /// Largest `uclamp_min` of the runnable tasks.
    pub uclamp_min: u64,
    /// Largest `uclamp_max` of the runnable tasks.
    pub uclamp_max: u64,
    /// Some task or group of the system uses utilisation clamps.
    pub uclamp_used: bool,
    /// The clamp values are left over from before the CPU went idle.
    pub uclamp_idle: bool,
    /// `capacity_orig`: 1..=1024.
    pub capacity: u64,
}

/// `cpu_bw_dl`: running deadline bandwidth (1 << 20 is a whole CPU) in capacity units.
pub const fn cpu_bw_dl(running_bw: u64) -> u64 {
    running_bw.wrapping_mul(CAPACITY_SCALE) >> 20
}

/// `cpu_util.boost`: how waiting raises the utilisation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Boost {
    /// `off`: not at all (6.4 and before).
    #[default]
    Off,
    /// `h1`: 6.5 until mid-2026.
    H1,
    /// `h2`: arithmetic corrected, 6.12.97 and later.
    H2,
    /// `uclamp-aware`: as `h2`, unless `uclamp_max` holds the raised utilisation down.
    UclampAware,
    /// `rel-gate`: contended utilisation times so many percent, at most the runnable average.
    RelGate(u32),
    /// `wait`: the headroom is as large as the waiting, if that is more.
    Wait,
    /// `response-time`: utilisation after so many ns more, without headroom while nothing runs.
    ResponseTime {
        /// How far ahead, ns.
        delay_ns: u64,
        /// Half-life of the utilisation, periods: 8, 16 or 32.
        half_life: u32,
    },
}

impl Boost {
    /// From a tunable's value, those of `gate_pct` and `delay_us`, and the load tracker's half-life.
    pub fn parse(name: &str, gate_pct: u64, delay_us: u64, half_life: u32) -> Option<Boost> {
        match name {
            "off" => Some(Boost::Off),
            "h1" => Some(Boost::H1),
            "h2" => Some(Boost::H2),
            "uclamp-aware" => Some(Boost::UclampAware),
            "rel-gate" => Some(Boost::RelGate(gate_pct as u32)),
            "wait" => Some(Boost::Wait),
            "response-time" => Some(Boost::ResponseTime { delay_ns: delay_us * 1000, half_life }),
            _ => None,
        }
    }

    /// Utilisation with what waiting adds; the task in question is in or out of both, and of the queue that is asked: its clamps
    /// and whether it runs something.
    #[inline]
    fn raise(self, cpu: &CpuSignals, moving: Option<Moving<'_>>, util: u64, runnable: u64) -> u64 {
        match self {
            Boost::Off | Boost::H1 => util,
            Boost::UclampAware if is_capped(cpu, moving, util.max(runnable).min(cpu.capacity)) => util,
            Boost::H2 | Boost::UclampAware => util.max(runnable),
            // As far from each other as util_est tolerates a contended sample.
            Boost::RelGate(pct) if runnable > util + 10 => (util * u64::from(pct) / 100).min(runnable),
            Boost::RelGate(_) => util,
            Boost::Wait => {
                // The quarter that the governor adds is of all classes.
                let others = cpu.util_rt + cpu.util_dl;
                util.max(((runnable + others) * 4 / 5).saturating_sub(others))
            }
            Boost::ResponseTime { delay_ns, half_life } => {
                let runs = moving.map_or(cpu.nr_running, |m| m.apply_nr_running(cpu.nr_running)) > 0;
                let ahead = if runs { approximate_util_avg(util, delay_ns, half_life) } else { util };
                // The governor's quarter is not wanted.
                ahead * 4 / 5
            }
        }
    }
}

/// Utilisation after `delay_ns` more of running at full speed.
#[inline(never)]
fn approximate_util_avg(util: u64, delay_ns: u64, half_life: u32) -> u64 {
    let pelt = Pelt::with_half_life(half_life).unwrap_or_default();
    let mut sa =
        SchedAvg { util_sum: (util * u64::from(pelt.min_divider())) as u32, util_avg: util, ..SchedAvg::default() };
    pelt.update(At::full_speed(delay_ns), &mut sa, 1, 1, true);
    sa.util_avg.max(util)
}

/// Signals of the task being placed, in 1024ths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskSignals {
    /// `util_avg`.
    pub util_avg: u64,
    /// `runnable_avg`.
    pub runnable_avg: u64,
    /// `_task_util_est`: the stored estimate without its flag (before 6.8 the larger of its two words).
    pub util_est: u64,
    /// It is on a run queue now, so that queue's `util_est` contains it (exec balancing; not at a wake-up).
    pub queued: bool,
    /// Effective `uclamp_min`, 0 without clamps.
    pub uclamp_min: u64,
    /// Effective `uclamp_max`, 1024 without clamps.
    pub uclamp_max: u64,
}

impl TaskSignals {
    /// `task_util_est`: the larger of its use and its estimate.
    pub fn task_util_est(&self) -> u64 {
        self.util_avg.max(self.util_est)
    }
}

/// A task that the question is about, as seen from one CPU.
#[derive(Clone, Copy, Debug)]
pub struct Moving<'a> {
    /// The task.
    pub task: &'a TaskSignals,
    /// Its signals are part of this CPU's (`task_cpu(p) == cpu`).
    pub here: bool,
    /// It is to run on this CPU (`dst_cpu == cpu`).
    pub dst: bool,
}

impl Moving<'_> {
    fn apply(&self, cpu: u64, task: u64) -> u64 {
        match (self.here, self.dst) {
            (true, false) => cpu.saturating_sub(task),
            (false, true) => cpu + task,
            _ => cpu,
        }
    }
    fn apply_util_est(&self, cpu: u64) -> u64 {
        match (self.dst, self.task.queued) {
            (true, _) => cpu + self.task.util_est,
            // The kernel takes it off whichever CPU is asked about; a queued task is in the sum of its own only.
            (false, true) => cpu.saturating_sub(self.task.util_est),
            (false, false) => cpu,
        }
    }
    fn apply_nr_running(&self, cpu: u32) -> u32 {
        match (self.dst, self.here && self.task.queued) {
            (true, false) => cpu + 1,
            (false, true) => cpu.saturating_sub(1),
            _ => cpu,
        }
    }
}

/// Utilisation of a CPU by fair tasks, 0..=`capacity`: as it is, or as it would be if `moving` had moved.
#[inline]
pub fn cpu_util(cpu: &CpuSignals, moving: Option<Moving<'_>>, boost: Boost) -> u64 {
    let mut util = cpu.util_avg;
    let mut runnable = cpu.runnable_avg;
    let mut util_est = cpu.util_est;
    if boost == Boost::H1 {
        util = util.max(runnable);
    }
    if let Some(moving) = moving {
        util = moving.apply(util, moving.task.util_avg);
        runnable = moving.apply(runnable, moving.task.runnable_avg);
        util_est = moving.apply_util_est(util_est);
    }
    if let Boost::Wait | Boost::ResponseTime { .. } = boost {
        // What they put in place of the quarter comes on top of estimates too.
        let need = util.max(util_est);
        return boost.raise(cpu, moving, need, need + runnable.saturating_sub(util)).min(cpu.capacity);
    }
    boost.raise(cpu, moving, util, runnable).max(util_est).min(cpu.capacity)
}

/// `scale_irq_capacity`: what is left of `util` when interrupts take `irq` of `capacity`.
#[inline]
pub fn scale_irq_capacity(util: u64, irq: u64, capacity: u64) -> u64 {
    // Most CPUs have had no interrupt lately: no division.
    if irq == 0 { util } else { util * (capacity - irq) / capacity }
}

/// Utilisation by all classes, with the performance that the classes and clamps allow for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effective {
    /// Utilisation, 0..=`capacity`.
    pub util: u64,
    /// Performance that must be granted.
    pub min: u64,
    /// Performance that suffices.
    pub max: u64,
}

/// `effective_cpu_util` of 6.8 and later; `util_cfs` is a [`cpu_util`].
#[inline]
pub fn effective_cpu_util(cpu: &CpuSignals, util_cfs: u64) -> Effective {
    let (cap, irq) = (cpu.capacity, cpu.util_irq);
    if irq >= cap {
        return Effective { util: cap, min: cap, max: cap };
    }
    let mut min = (irq + cpu.bw_dl).max(cpu.uclamp_min);
    if !cpu.uclamp_used && cpu.rt_nr_running > 0 {
        min = min.max(cap);
    }
    let max = cap.min(cpu.uclamp_max);
    Effective { util: with_irq(util_cfs + cpu.util_rt + cpu.util_dl, irq, cap), min, max }
}

/// `sched_cpu_util` of a CPU without clamps that matter: `util` of all classes, with what interrupts take.
pub fn sched_cpu_util(util: u64, irq: u64, cap: u64) -> u64 {
    if irq >= cap { cap } else { with_irq(util, irq, cap) }
}

fn with_irq(util: u64, irq: u64, cap: u64) -> u64 {
    if util >= cap { cap } else { (scale_irq_capacity(util, irq, cap) + irq).min(cap) }
}

/// `sugov_effective_cpu_perf`: the performance to ask for, with a quarter of headroom. May exceed the capacity.
pub fn sugov_effective_cpu_perf(actual: u64, min: u64, max: u64) -> u64 {
    map_util_perf(actual).min(max).max(min)
}

/// `map_util_perf`: a quarter of headroom.
pub const fn map_util_perf(util: u64) -> u64 {
    util + (util >> 2)
}

/// What [`effective_cpu_util_6_1`] is for (`enum cpu_util_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UtilType {
    /// `FREQUENCY_UTIL`: a frequency request, with clamps and deadline bandwidth.
    Frequency,
    /// `ENERGY_UTIL`: busy time.
    Energy,
}

/// `effective_cpu_util` before 6.8 (`schedutil_cpu_util` before 5.11). `task` is one that would run here, for its clamps.
#[doc(alias = "effective_cpu_util")]
#[doc(alias = "schedutil_cpu_util")]
#[inline]
pub fn effective_cpu_util_6_1(cpu: &CpuSignals, util_cfs: u64, ty: UtilType, task: Option<&TaskSignals>) -> u64 {
    let (cap, irq) = (cpu.capacity, cpu.util_irq);
    let frequency = ty == UtilType::Frequency;
    if irq >= cap || (frequency && !cpu.uclamp_used && cpu.rt_nr_running > 0) {
        return cap;
    }
    let mut util = util_cfs + cpu.util_rt;
    if frequency {
        util = uclamp_rq_util_with(cpu, util, task);
    }
    if util + cpu.util_dl >= cap {
        return cap;
    }
    if !frequency {
        util += cpu.util_dl;
    }
    util = scale_irq_capacity(util, irq, cap) + irq;
    if frequency {
        util += cpu.bw_dl;
    }
    util.min(cap)
}

/// `uclamp_rq_util_with`: `util` within the clamps of the run queue, as they would be with `task` on it.
#[inline]
pub fn uclamp_rq_util_with(cpu: &CpuSignals, util: u64, task: Option<&TaskSignals>) -> u64 {
    if !cpu.uclamp_used {
        return util;
    }
    let (min, max) = clamps_with(cpu, task);
    // The minimum wins where the clamps cross, so this is not `clamp`.
    if min >= max { min } else { util.clamp(min, max) }
}

/// The clamps of the run queue, as they would be with `task` on it.
fn clamps_with(cpu: &CpuSignals, task: Option<&TaskSignals>) -> (u64, u64) {
    match task {
        None => (cpu.uclamp_min, cpu.uclamp_max),
        Some(p) if cpu.uclamp_idle => (p.uclamp_min, p.uclamp_max),
        Some(p) => (p.uclamp_min.max(cpu.uclamp_min), p.uclamp_max.max(cpu.uclamp_max)),
    }
}

/// `uclamp_rq_is_capped`: is the CPU held down by its `uclamp_max`?
pub fn uclamp_rq_is_capped(cpu: &CpuSignals) -> bool {
    is_capped(cpu, None, cpu_util(cpu, None, Boost::Off))
}

/// Would the run queue's `uclamp_max` hold this utilisation by fair tasks down, once `moving` has moved?
fn is_capped(cpu: &CpuSignals, moving: Option<Moving<'_>>, util_cfs: u64) -> bool {
    let max = clamps_with(cpu, moving.filter(|m| m.dst).map(|m| m.task)).1;
    cpu.uclamp_used && max != CAPACITY_SCALE && util_cfs + cpu.util_rt >= max
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTENDED: CpuSignals = CpuSignals {
        util_avg: 300,
        util_est: 0,
        runnable_avg: 600,
        util_rt: 0,
        util_dl: 0,
        bw_dl: 0,
        util_irq: 0,
        rt_nr_running: 0,
        nr_running: 0,
        uclamp_min: 0,
        uclamp_max: 1024,
        uclamp_used: false,
        uclamp_idle: false,
        capacity: 1024,
    };

    #[test]
    fn worked_example() {
        let task = TaskSignals { util_avg: 100, runnable_avg: 200, ..TaskSignals::default() };
        let leaves = Some(Moving { task: &task, here: true, dst: false });
        for (boost, all, rest) in [(Boost::Off, 300, 200), (Boost::H1, 600, 500), (Boost::H2, 600, 400)] {
            assert_eq!(
                (cpu_util(&CONTENDED, None, boost), cpu_util(&CONTENDED, leaves, boost)),
                (all, rest),
                "{boost:?}"
            );
        }
    }

    #[test]
    fn relative_schemes() {
        let one = CpuSignals { nr_running: 1, ..CONTENDED };
        let ask = |boost| cpu_util(&one, None, boost);
        assert_eq!(
            [Boost::UclampAware, Boost::RelGate(150), Boost::RelGate(300), Boost::Wait].map(ask),
            [600, 450, 600, 480]
        );
        // No waiting: nothing to add.
        let alone = CpuSignals { runnable_avg: 305, ..one };
        assert_eq!([Boost::RelGate(150), Boost::Wait].map(|b| cpu_util(&alone, None, b)), [300, 300]);
    }

    /// The headroom of all that is needed, or the waiting: not both.
    #[test]
    fn waiting_is_added_to_estimates_and_to_other_classes() {
        let request = |util_est, util_rt, util_dl| {
            let cpu = CpuSignals { util_est, util_rt, util_dl, ..CONTENDED };
            let all = effective_cpu_util(&cpu, cpu_util(&cpu, None, Boost::Wait));
            sugov_effective_cpu_perf(all.util, 0, 1024)
        };
        // 300 wait.
        assert_eq!([(0, 0, 0), (300, 0, 0), (400, 0, 0)].map(|(e, rt, dl)| request(e, rt, dl)), [600, 600, 700]);
        assert_eq!([(0, 100, 0), (0, 50, 50), (400, 100, 0)].map(|(e, rt, dl)| request(e, rt, dl)), [700, 700, 800]);
        // The headroom is more.
        let busy = CpuSignals { util_avg: 500, runnable_avg: 600, util_est: 550, ..CONTENDED };
        assert_eq!(cpu_util(&busy, None, Boost::Wait), 550);
        let others = CpuSignals { util_avg: 10, runnable_avg: 40, util_rt: 500, ..CONTENDED };
        assert_eq!(cpu_util(&others, None, Boost::Wait), 10);
    }

    #[test]
    fn a_clamp_stops_the_boost_where_it_holds_it_down() {
        let ask = |uclamp_max, capacity| {
            let cpu = CpuSignals { uclamp_used: true, uclamp_max, capacity, ..CONTENDED };
            cpu_util(&cpu, None, Boost::UclampAware)
        };
        assert_eq!([1024, 1023, 601, 600, 400].map(|max| ask(max, 1024)), [600, 600, 600, 300, 300]);
        // On a CPU of 500 a clamp of 600 holds nothing down.
        assert_eq!([ask(600, 500), ask(500, 500)], [500, 300]);
    }

    #[test]
    fn response_time_looks_ahead_by_the_half_life() {
        let one = CpuSignals { nr_running: 1, ..CONTENDED };
        let in_periods = |n: u64, half_life| Boost::ResponseTime { delay_ns: n << 20, half_life };
        // A half-life halves what is missing: 300 + 724 / 2; two leave a quarter of it.
        for half_life in [8, 16, 32] {
            let ask = |n| cpu_util(&one, None, in_periods(n, half_life));
            let (half, quarter) = (ask(half_life.into()), ask(2 * u64::from(half_life)));
            assert!((660 * 4 / 5..=663 * 4 / 5).contains(&half), "{half_life}: {half}");
            assert!((840 * 4 / 5..=844 * 4 / 5).contains(&quarter), "{half_life}: {quarter}");
        }
        // Asleep there is no headroom either.
        assert_eq!(cpu_util(&CONTENDED, None, in_periods(32, 32)), 240);
        // Nor has an estimate the quarter.
        let estimated = CpuSignals { util_est: 600, ..CONTENDED };
        let ask = |cpu: &CpuSignals| cpu_util(cpu, None, in_periods(0, 32));
        assert_eq!([ask(&estimated), ask(&CpuSignals { nr_running: 1, ..estimated })], [480, 480]);
    }

    #[test]
    fn a_queued_task_is_in_the_estimate_of_its_queue_once() {
        let cpu = CpuSignals { util_est: 400, ..CONTENDED };
        let task = TaskSignals { util_est: 150, queued: true, ..TaskSignals::default() };
        let ask = |dst| cpu_util(&cpu, Some(Moving { task: &task, here: true, dst }), Boost::Off);
        assert_eq!((ask(false), ask(true)), (300, 550));
    }

    #[test]
    fn interrupts_take_their_share_and_real_time_asks_for_everything() {
        let irq = CpuSignals { util_irq: 512, ..CONTENDED };
        assert_eq!(effective_cpu_util(&irq, 300), Effective { util: 150 + 512, min: 512, max: 1024 });
        let rt = CpuSignals { rt_nr_running: 1, ..CONTENDED };
        assert_eq!(effective_cpu_util(&rt, 300).min, 1024);
        assert_eq!(effective_cpu_util_6_1(&rt, 300, UtilType::Frequency, None), 1024);
        assert_eq!(effective_cpu_util_6_1(&rt, 300, UtilType::Energy, None), 300);
    }
}
