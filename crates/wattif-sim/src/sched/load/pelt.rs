//! Per-entity load tracking: geometric averages of what a task, a queue or a CPU did.
//!
//! # Idea
//! Recent behaviour predicts the near future better than old behaviour. Time is cut into periods of 1024 × 1024 ns; a period
//! that ended n periods ago weighs `y^n` with `y^half_life = 1/2`. One number per quantity then tells how busy something is,
//! decays by itself while it sleeps, and moves with a task when it migrates.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | `now` | ns | [`Rq::pelt_at`]: `clock_pelt − lost_idle_time`, or `clock_task` (`scaled`) | every clock update |
//! | `load`, `runnable`, `running` | weight or 0/1, count, 0/1 | the entity's or queue's state since the last update | per call |
//! | `freq_cap`, `cpu_capacity_orig` | 0..=1024 | the machine | when the frequency changes |
//! | `irq_pending_ns` | ns | `machine`, time in interrupts | per interrupt |
//!
//! Out: `load_avg` (weight × share of time runnable), `runnable_avg` and `util_avg` (0..=1024 of a task, share of time runnable
//! and running).
//!
//! # Decision
//! 1. `delta = (now − last_update_time) / 1024 ns`; nothing when 0, and the remainder is kept for the next call. With `divider`
//!    `max` and `unscaled` it is lost: who runs for microseconds looks smaller than it is, by half a unit an update.
//! 2. Every sum loses `y^P`, P the number of period boundaries crossed.
//! 3. The elapsed time is added: the end of the old period decayed, the whole periods as a closed form, the start of the new.
//! 4. If a boundary was crossed, `avg = sum / (LOAD_AVG_MAX − 1024 + period_contrib)`: what the sum can be by now. With `divider`
//!    `max`, `sum / LOAD_AVG_MAX`.
//!
//! Worked example, half-life 32: a task that always runs at full speed has 512 after 32 periods (33.6 ms) and 95 % after 138.3
//! periods: 138 ms if a period is taken for 1 ms, as folklore does, and 145.0 ms of wall time.
//!
//! `generation` decides how speed enters. `clock_pelt` (5.1 and later): the clock of a busy CPU advances by Δ · speed; when the
//! CPU becomes idle it jumps to wall time, unless the CPU was saturated, so utilisation can exceed the present capacity.
//! `scaled` (4.4–5.0): decay in wall time, the contribution × speed, so utilisation is bounded by the present capacity. Up to 4.12
//! `divider` was `max`: a task that always runs moves between 98 and 100 % with the part of the period that has passed.
//! `unscaled` (3.8–4.3): wall time and no speed: a second on a slow CPU counts as much as one on a fast CPU.
//!
//! # State and cost
//! One [`SchedAvg`] per entity, per fair queue, and three per CPU. O(1); three divisions when a boundary was crossed.
//!
//! # Where it fails
//! It cannot tell a task that starts a long job from one that ends its last: a rise to 80 % takes 74 periods whatever the task
//! needs, and a shorter half-life trades this for jitter of periodic tasks.
//!
//! # Differences from the kernel
//! None known for `clock_pelt`: bit-exact with `pelt_*` (12,905 rows, half-lives 8, 16, 32). `scaled` follows the
//! description of 4.4–5.0; FIDELITY(pelt-scaled): no vectors of such a kernel exist here, its weighted runnable load
//! (`runnable_load_avg`, until 5.6) is not tracked, and a task that joins a queue has its sums rebuilt for it, which came with 4.15.
//! Hardware pressure is not modelled.
//!
//! # Source
//! Linux 6.12.117 `kernel/sched/pelt.c`, `pelt.h` (behaviour; vectors of 6.1.192 and 6.12.117).

use crate::registry::{Tunable, meant};
use crate::sched::rq::{CfsRq, Removed, Rq};

/// Tunables of this policy.
pub const TUNABLES: &[Tunable] = &[
    Tunable {
        name: "generation",
        default: "clock_pelt",
        allowed: &Generation::NAMES,
        doc: "clock_pelt: time is scaled (5.1 and later); scaled: contributions are (4.4 to 5.0); unscaled: speed is ignored (3.8 to 4.3)",
    },
    Tunable {
        name: "divider",
        default: "elapsed",
        allowed: &["elapsed", "max"],
        doc: "generation scaled: an average is its sum by what that can be by now (4.13 and later), or by LOAD_AVG_MAX (4.4 to 4.12), and then parts of 1024 ns are lost at each update",
    },
    Tunable {
        name: "half_life_ms",
        default: "32",
        allowed: &["8", "16", "32"],
        doc: "half-life in periods of 1.048576 ms",
    },
    Tunable {
        name: "post_init",
        default: "6.12",
        allowed: &PostInit::NAMES,
        doc: "rule for the first utilisation of a new task: up to 4.18 from what the largest CPU would have left, up to 6.9, since",
    },
    Tunable {
        name: "migrate_lag",
        default: "true",
        allowed: &["true", "false"],
        doc: "a task that wakes on another CPU is aged by what its idle CPU missed (6.0 and later)",
    },
];

/// Running averages of an entity or run queue (`struct sched_avg`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedAvg {
    /// Time of the last update on the PELT clock, ns, a multiple of 1024 after the first.
    pub last_update_time: u64,
    /// Σ decayed load contribution.
    pub load_sum: u64,
    /// Σ decayed runnable contribution × 1024.
    pub runnable_sum: u64,
    /// Σ decayed running contribution × 1024.
    pub util_sum: u32,
    /// Part of the current period already accounted, in 1024 ns.
    pub period_contrib: u32,
    /// Weighted runnable average.
    pub load_avg: u64,
    /// Runnable average, 0..=1024 for a task.
    pub runnable_avg: u64,
    /// Running average, 0..=1024.
    pub util_avg: u64,
    /// `util_est` word: 6.8+: one value with bit 31 as "unchanged" flag; before: `enqueued` with the flag.
    pub util_est: u32,
    /// `util_est.ewma` of kernels before 6.8.
    pub util_est_ewma: u32,
}

impl SchedAvg {
    /// Nothing is left to decay.
    #[inline]
    #[doc(alias = "load_avg_is_decayed")]
    pub fn is_decayed(&self) -> bool {
        self.load_sum == 0 && self.runnable_sum == 0 && self.util_sum == 0
    }
}

/// `y^i` as a 32-bit fraction for a half-life of 32 periods; shorter half-lives use every second or fourth value.
const RUNNABLE_AVG_YN_INV: [u32; 32] = [
    4294967295, 4202935002, 4112874772, 4024744346, 3938502374, 3854108390, 3771522795, 3690706838, 3611622601,
    3534232977, 3458501652, 3384393093, 3311872528, 3240905929, 3171459998, 3103502150, 3037000499, 2971923841,
    2908241641, 2845924020, 2784941737, 2725266178, 2666869343, 2609723833, 2553802832, 2499080104, 2445529971,
    2393127306, 2341847523, 2291666560, 2242560871, 2194507416,
];

/// `y^n` as the kernel multiplies by it: halvings first, then a fraction of 2^32.
#[derive(Clone, Copy, Debug)]
struct Decay {
    halvings: u32,
    inv: u32,
}

impl Decay {
    #[inline]
    fn of(self, val: u64) -> u64 {
        ((u128::from(val >> self.halvings) * u128::from(self.inv)) >> 32) as u64
    }
    #[inline]
    fn of_u32(self, val: u32) -> u32 {
        (((u64::from(val) >> self.halvings) * u64::from(self.inv)) >> 32) as u32
    }
}

/// How new tasks get their first utilisation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PostInit {
    /// Until 4.18: as in 6.1, but at most half of what a CPU of capacity 1024 would have left, however large this one is.
    V4_9,
    /// Until 6.9: the weight enters 1024 times too large, so the cap nearly always decides.
    V6_1,
    /// Since 6.10.
    #[default]
    V6_12,
}

impl PostInit {
    /// The values of the tunable.
    pub const NAMES: [&'static str; 3] = ["4.9", "6.1", "6.12"];

    /// From the tunable's value.
    pub fn parse(name: &str) -> Option<PostInit> {
        meant(PostInit::NAMES, [PostInit::V4_9, PostInit::V6_1, PostInit::V6_12], name)
    }
}

/// How speed enters the averages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// `clock_pelt`: time is scaled (5.1 and later).
    ClockPelt,
    /// `scaled`: contributions are (4.4 to 5.0).
    Scaled,
    /// The same; averages are sums by `LOAD_AVG_MAX`, and parts of 1024 ns are lost (4.4 to 4.12).
    ScaledByMax,
    /// `unscaled`: not at all (3.8 to 4.3).
    Unscaled,
}

impl Generation {
    /// The values of the tunable.
    pub const NAMES: [&'static str; 3] = ["clock_pelt", "scaled", "unscaled"];

    /// From the tunable's value.
    pub fn parse(name: &str) -> Option<Generation> {
        meant(Generation::NAMES, [Generation::ClockPelt, Generation::Scaled, Generation::Unscaled], name)
    }

    /// With the divider of 4.4 to 4.12, which only `scaled` has.
    pub fn by_max(self) -> Generation {
        if self == Generation::Scaled { Generation::ScaledByMax } else { self }
    }

    /// Is what is left of less than 1024 ns of the next update? Since "sched/fair: Increase PELT accuracy for small tasks" (4.12),
    /// which is taken to go with the divider of 4.13.
    #[inline]
    fn keeps_rest(self) -> bool {
        matches!(self, Generation::ClockPelt | Generation::Scaled)
    }

    /// Contributions are scaled, not time.
    #[inline]
    fn is_scaled(self) -> bool {
        matches!(self, Generation::Scaled | Generation::ScaledByMax)
    }
}

/// A load tracker's constants: half-life and generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pelt {
    /// log2 of the half-life in periods.
    shift: u32,
    /// `LOAD_AVG_MAX`: the sum of an endless contribution of 1024 per period.
    pub load_avg_max: u32,
    /// Era.
    pub generation: Generation,
    /// A task that wakes on another CPU is aged by the estimated time its idle CPU's clock missed (6.0 and later).
    pub migrate_lag: bool,
    /// First utilisation of a new task.
    pub post_init: PostInit,
}

/// The kernel's default: half-life 32, `clock_pelt`, rules of 6.12.
impl Default for Pelt {
    fn default() -> Pelt {
        Pelt {
            shift: 5,
            load_avg_max: 47742,
            generation: Generation::ClockPelt,
            migrate_lag: true,
            post_init: PostInit::V6_12,
        }
    }
}

/// When and how fast: what a PELT update needs to know of its CPU.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// PELT clock, ns.
    pub now: u64,
    /// Frequency, 0..=1024; used by generation `scaled` only.
    pub freq: u32,
    /// CPU capacity, 0..=1024; used by generation `scaled` only.
    pub cpu: u32,
}

impl At {
    /// A time at full speed.
    pub fn full_speed(now: u64) -> At {
        At { now, freq: 1024, cpu: 1024 }
    }
}

impl Pelt {
    /// A tracker with another half-life, ms (periods): 8, 16 or 32; `None` for other values.
    pub fn with_half_life(ms: u32) -> Option<Pelt> {
        let (shift, load_avg_max) = match ms {
            8 => (3, 12326),
            16 => (4, 24130),
            32 => (5, 47742),
            _ => return None,
        };
        Some(Pelt { shift, load_avg_max, ..Pelt::default() })
    }

    /// Half-life, periods (`LOAD_AVG_PERIOD`).
    pub fn half_life(&self) -> u32 {
        1 << self.shift
    }

    /// `y^i` as a 32-bit fraction, `i < half_life`.
    #[inline]
    pub fn yn_inv(&self, i: u32) -> u32 {
        RUNNABLE_AVG_YN_INV[((i << (5 - self.shift)) & 31) as usize]
    }

    /// Least value of the divider (`PELT_MIN_DIVIDER`).
    #[inline]
    pub fn min_divider(&self) -> u32 {
        self.load_avg_max - 1024
    }

    /// What a sum is divided by to get an average (`get_pelt_divider`).
    #[inline]
    pub fn divider(&self, avg: &SchedAvg) -> u32 {
        match self.generation {
            Generation::ScaledByMax => self.load_avg_max,
            _ => self.min_divider() + avg.period_contrib,
        }
    }

    /// `y^n`, for all that decays by as much.
    #[inline]
    fn decay(&self, n: u64) -> Decay {
        if n > 63 << self.shift {
            return Decay { halvings: 0, inv: 0 };
        }
        let n = n as u32;
        Decay { halvings: n >> self.shift, inv: self.yn_inv(n & ((1 << self.shift) - 1)) }
    }

    /// `val · y^n`.
    #[inline]
    pub fn decay_load(&self, val: u64, n: u64) -> u64 {
        self.decay(n).of(val)
    }

    /// Contribution of a time that crosses `periods` ≥ 1 boundaries: `d1` units before the first, `d3` after the last.
    #[doc(alias = "__accumulate_pelt_segments")]
    #[inline]
    pub fn accumulate_segments(&self, periods: u64, d1: u32, d3: u32) -> u32 {
        self.segments(self.decay(periods), d1, d3)
    }

    #[inline]
    fn segments(&self, decay: Decay, d1: u32, d3: u32) -> u32 {
        let max = self.load_avg_max;
        decay.of_u32(d1) + (max - decay.of_u32(max) - 1024) + d3
    }

    /// Ages the sums to `at.now` and adds what happened since. True when a period boundary was crossed: averages are due.
    #[doc(alias = "___update_load_sum")]
    #[inline(always)]
    pub fn update_load_sum(&self, at: At, sa: &mut SchedAvg, load: u64, runnable: u64, running: bool) -> bool {
        let Some(delta) = self.elapse(at, sa) else { return false };
        let (runnable, running) = if load == 0 { (0, false) } else { (runnable, running) };
        self.accumulate_sum(delta, at, sa, load, runnable, running)
    }

    /// Moves the time of the last update on; what has passed since, in 1024 ns, if that is anything.
    #[inline]
    fn elapse(&self, at: At, sa: &mut SchedAvg) -> Option<u64> {
        let delta = at.now.wrapping_sub(sa.last_update_time);
        // Time went backwards (a TSC hiccup in the kernel): take the new time, account nothing.
        if (delta as i64) < 0 {
            sa.last_update_time = at.now;
            return None;
        }
        let (delta, rest) = (delta >> 10, delta & 1023);
        if delta == 0 {
            return None;
        }
        sa.last_update_time = if self.generation.keeps_rest() { at.now - rest } else { at.now };
        Some(delta)
    }

    #[inline(always)]
    fn accumulate_sum(&self, delta: u64, at: At, sa: &mut SchedAvg, load: u64, runnable: u64, running: bool) -> bool {
        // C truncates to 32 bits here; harmless, for a delta that large crosses a boundary and replaces it.
        let mut contrib = delta as u32;
        let total = delta + u64::from(sa.period_contrib);
        let periods = total >> 10;
        let rest = (total & 1023) as u32;
        if periods != 0 {
            let decay = self.decay(periods);
            sa.load_sum = decay.of(sa.load_sum);
            sa.runnable_sum = decay.of(sa.runnable_sum);
            sa.util_sum = decay.of_u32(sa.util_sum);
            if load != 0 {
                contrib = self.segments(decay, 1024 - sa.period_contrib, rest);
            }
        }
        sa.period_contrib = rest;
        if load == 0 {
            return periods != 0;
        }
        let mut util_scale = 1024;
        if self.generation.is_scaled() {
            contrib = ((u64::from(contrib) * u64::from(at.freq)) >> 10) as u32;
            util_scale = at.cpu;
        }
        sa.load_sum = sa.load_sum.wrapping_add(load.wrapping_mul(u64::from(contrib)));
        sa.runnable_sum = sa.runnable_sum.wrapping_add(runnable.wrapping_mul(u64::from(contrib)) << 10);
        if running {
            // C: a u32 sum.
            sa.util_sum = sa.util_sum.wrapping_add(contrib.wrapping_mul(util_scale));
        }
        periods != 0
    }

    /// Recomputes the averages; `load` weighs the load average (1 where the sum is weighted already).
    #[doc(alias = "___update_load_avg")]
    #[inline]
    pub fn update_load_avg(&self, sa: &mut SchedAvg, load: u64) {
        let divider = self.divider(sa);
        sa.load_avg = load.wrapping_mul(sa.load_sum) / u64::from(divider);
        sa.runnable_avg = sa.runnable_sum / u64::from(divider);
        sa.util_avg = u64::from(sa.util_sum / divider);
    }

    /// Both: ages an average that is its own load (rt, dl, hardware pressure, fair queues).
    #[inline(always)]
    pub fn update(&self, at: At, sa: &mut SchedAvg, load: u64, runnable: u64, running: bool) -> bool {
        let decayed = self.update_load_sum(at, sa, load, runnable, running);
        if decayed {
            self.update_load_avg(sa, 1);
        }
        decayed
    }

    /// [`Pelt::update`] of a class that ran or not, 1 or 0. Most CPUs have had none of it for long: only time passes.
    #[inline]
    fn update_class(&self, at: At, sa: &mut SchedAvg, running: bool) -> bool {
        let nothing = !running && sa.is_decayed() && (sa.load_avg | sa.runnable_avg | sa.util_avg) == 0;
        if !nothing {
            return self.update(at, sa, u64::from(running), u64::from(running), running);
        }
        let Some(delta) = self.elapse(at, sa) else { return false };
        let total = delta + u64::from(sa.period_contrib);
        sa.period_contrib = (total & 1023) as u32;
        total >> 10 != 0
    }

    /// Ages an entity of weight `weight` that is off the queue.
    #[doc(alias = "__update_load_avg_blocked_se")]
    #[inline]
    pub fn update_blocked_se(&self, at: At, sa: &mut SchedAvg, weight: u64) -> bool {
        let decayed = self.update_load_sum(at, sa, 0, 0, false);
        if decayed {
            self.update_load_avg(sa, weight);
        }
        decayed
    }

    /// Adds an entity that comes from elsewhere to its queue; its averages stand, its sums are rebuilt for the queue's phase.
    pub fn attach_entity_load_avg(&self, cfs: &mut SchedAvg, se: &mut SchedAvg, weight: u64) {
        let divider = u64::from(self.divider(cfs));
        se.last_update_time = cfs.last_update_time;
        se.period_contrib = cfs.period_contrib;
        // C: the product is cut to the u32 sum.
        se.util_sum = (se.util_avg * divider) as u32;
        se.runnable_sum = se.runnable_avg * divider;
        let load_sum = se.load_avg * divider;
        se.load_sum = if weight < load_sum { load_sum / weight } else { 1 };
        self.enqueue_load_avg(cfs, se, weight);
        cfs.util_avg += se.util_avg;
        cfs.util_sum = cfs.util_sum.wrapping_add(se.util_sum);
        cfs.runnable_avg += se.runnable_avg;
        cfs.runnable_sum += se.runnable_sum;
    }

    /// Takes an entity's part off its queue; nothing falls below zero, nor a sum below its average.
    pub fn detach_entity_load_avg(&self, cfs: &mut SchedAvg, se: &SchedAvg, weight: u64) {
        self.dequeue_load_avg(cfs, se, weight);
        self.sub_util(cfs, se.util_avg, se.util_sum);
        self.sub_runnable(cfs, se.runnable_avg, se.runnable_sum);
    }

    /// Adds an entity's load only (a change of weight).
    #[inline]
    pub fn enqueue_load_avg(&self, cfs: &mut SchedAvg, se: &SchedAvg, weight: u64) {
        cfs.load_avg += se.load_avg;
        cfs.load_sum += weight * se.load_sum;
    }

    /// Takes an entity's load only off its queue (a change of weight).
    #[inline]
    pub fn dequeue_load_avg(&self, cfs: &mut SchedAvg, se: &SchedAvg, weight: u64) {
        self.sub_load(cfs, se.load_avg, weight * se.load_sum);
    }

    /// Takes off the queue what left it while blocked. True if there was anything.
    pub fn fold_removed(&self, cfs: &mut SchedAvg, removed: &mut Removed) -> bool {
        if removed.nr == 0 {
            return false;
        }
        let divider = u64::from(self.divider(cfs));
        let r = std::mem::take(removed);
        self.sub_load(cfs, r.load_avg, r.load_avg * divider);
        self.sub_util(cfs, r.util_avg, (r.util_avg * divider) as u32);
        self.sub_runnable(cfs, r.runnable_avg, r.runnable_avg * divider);
        true
    }

    /// The least a sum may be beside its average. C takes this maximum in 32 bits, whatever the type of the sum.
    #[inline]
    pub fn floor_sum(&self, sum: u64, avg: u64) -> u32 {
        (sum as u32).max(avg.wrapping_mul(u64::from(self.min_divider())) as u32)
    }

    fn sub_load(&self, cfs: &mut SchedAvg, avg: u64, sum: u64) {
        cfs.load_avg = cfs.load_avg.saturating_sub(avg);
        cfs.load_sum = u64::from(self.floor_sum(cfs.load_sum.saturating_sub(sum), cfs.load_avg));
    }

    fn sub_util(&self, cfs: &mut SchedAvg, avg: u64, sum: u32) {
        cfs.util_avg = cfs.util_avg.saturating_sub(avg);
        cfs.util_sum = self.floor_sum(u64::from(cfs.util_sum.saturating_sub(sum)), cfs.util_avg);
    }

    fn sub_runnable(&self, cfs: &mut SchedAvg, avg: u64, sum: u64) {
        cfs.runnable_avg = cfs.runnable_avg.saturating_sub(avg);
        cfs.runnable_sum = u64::from(self.floor_sum(cfs.runnable_sum.saturating_sub(sum), cfs.runnable_avg));
    }

    /// First averages of a new task of weight `weight` (1024 = nice 0): full load, no utilisation yet.
    pub fn init_entity_runnable_average(&self, weight: u64) -> SchedAvg {
        SchedAvg { load_avg: weight, ..SchedAvg::default() }
    }

    /// First utilisation of a new task: half of what the CPU has left, or its share by weight of what the CPU uses.
    #[doc(alias = "post_init_entity_util_avg")]
    pub fn post_init_util(&self, se: &mut SchedAvg, weight: u64, cfs: &SchedAvg, cpu_capacity_orig: u32) {
        let largest = if self.post_init == PostInit::V4_9 { 1024 } else { i64::from(cpu_capacity_orig) };
        // C: signed, truncated towards zero.
        let cap = (largest - cfs.util_avg as i64) / 2;
        if cap > 0 {
            let w = if self.post_init == PostInit::V6_12 { weight } else { weight << 10 };
            let share = cfs.util_avg.wrapping_mul(w) / (cfs.load_avg + 1);
            se.util_avg = if cfs.util_avg == 0 { cap as u64 } else { share.min(cap as u64) };
        }
        se.runnable_avg = se.util_avg;
    }
}

/// `cap_scale`.
#[inline]
fn cap_scale(v: u64, cap: u32) -> u64 {
    v.wrapping_mul(u64::from(cap)) >> 10
}

impl Rq {
    /// The PELT clock, ns: `clock_pelt` without the idle time that saturation swallowed.
    #[inline]
    pub fn rq_clock_pelt(&self) -> u64 {
        self.clock_pelt - self.lost_idle_time
    }

    /// What a PELT update on this CPU needs.
    #[inline]
    pub fn pelt_at(&self) -> At {
        match self.pelt.generation {
            // Speed is in the clock.
            Generation::ClockPelt => At::full_speed(self.rq_clock_pelt()),
            Generation::Unscaled => At::full_speed(self.clock_task),
            Generation::Scaled | Generation::ScaledByMax => {
                At { now: self.clock_task, freq: self.freq_cap, cpu: self.cpu_capacity_orig }
            }
        }
    }
}

/// Brings the clocks of a run queue to `now`; pending interrupt time is taken off the task clock and tracked. True when that
/// changed the average of interrupts.
#[inline]
pub fn update_rq_clock(rq: &mut Rq, now: u64) -> bool {
    let delta = now.wrapping_sub(rq.clock);
    // A second update in the same instant finds nothing to do, and no clock goes back.
    (delta as i64) > 0 && advance_rq_clock(rq, delta)
}

#[inline(never)]
fn advance_rq_clock(rq: &mut Rq, delta: u64) -> bool {
    rq.clock += delta;
    let irq_delta = rq.irq_pending_ns.min(delta);
    rq.irq_pending_ns -= irq_delta;
    let delta = delta - irq_delta;
    rq.clock_task += delta;
    let moved = irq_delta != 0 && account_irq(rq, irq_delta);
    update_rq_clock_pelt(rq, delta);
    moved
}

/// Time in interrupts, under every way to measure what they take.
fn account_irq(rq: &mut Rq, irq_delta: u64) -> bool {
    rq.add_rt_avg(irq_delta);
    update_irq_load_avg(rq, irq_delta) != 0
}

/// A busy CPU's PELT clock advances at its speed; an idle one's is wall time.
fn update_rq_clock_pelt(rq: &mut Rq, delta: u64) {
    if rq.curr.0 == 0 {
        sync_idle_clock_pelt(rq);
        return;
    }
    // Two truncations, in this order.
    rq.clock_pelt += cap_scale(cap_scale(delta, rq.cpu_capacity_orig), rq.freq_cap);
}

#[doc(alias = "_update_idle_rq_clock_pelt")]
fn sync_idle_clock_pelt(rq: &mut Rq) {
    rq.clock_pelt = rq.clock_task;
    rq.clock_idle = rq.clock;
    rq.clock_pelt_idle = rq.rq_clock_pelt();
}

/// The CPU becomes idle: the PELT clock catches up with the time that slow running "stole", unless the CPU was saturated:
/// then that time was never idle, and is lost instead. `cfs` is the CPU's root queue.
pub fn update_idle_rq_clock_pelt(rq: &mut Rq, cfs: &CfsRq) {
    let max = rq.pelt.load_avg_max;
    let saturated = ((max - 1024) << 10) - max;
    let util_sum = cfs.avg.util_sum.wrapping_add(rq.avg_rt.util_sum).wrapping_add(rq.avg_dl.util_sum);
    if util_sum >= saturated {
        rq.lost_idle_time += rq.clock_task - rq.clock_pelt;
    }
    sync_idle_clock_pelt(rq);
}

/// Tracks `running` ns of interrupts that ended now. Returns how many of the two updates crossed a boundary.
pub fn update_irq_load_avg(rq: &mut Rq, running: u64) -> u32 {
    // The reverse order of the clock's.
    let running = cap_scale(cap_scale(running, rq.freq_cap), rq.cpu_capacity_orig);
    let pelt = rq.pelt;
    let before = At::full_speed(rq.clock.wrapping_sub(running));
    let mut ret = u32::from(pelt.update_load_sum(before, &mut rq.avg_irq, 0, 0, false));
    ret += u32::from(pelt.update_load_sum(At::full_speed(rq.clock), &mut rq.avg_irq, 1, 1, true));
    if ret != 0 {
        pelt.update_load_avg(&mut rq.avg_irq, 1);
    }
    ret
}

/// Ages the real-time average; `running`: a real-time task ran since the last call.
pub fn update_rt_rq_load_avg(rq: &mut Rq, running: bool) -> bool {
    let (at, pelt) = (rq.pelt_at(), rq.pelt);
    pelt.update_class(at, &mut rq.avg_rt, running)
}

/// Ages the deadline average; `running`: a deadline task ran since the last call.
pub fn update_dl_rq_load_avg(rq: &mut Rq, running: bool) -> bool {
    let (at, pelt) = (rq.pelt_at(), rq.pelt);
    pelt.update_class(at, &mut rq.avg_dl, running)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table and the maximum follow from the half-life by the kernel's own derivation.
    #[test]
    fn tables_are_derived_from_the_half_life() {
        for hl in [8u32, 16, 32] {
            let pelt = Pelt::with_half_life(hl).expect("a supported half-life");
            let y = 0.5f64.powf(1.0 / f64::from(hl));
            for i in 0..hl {
                assert_eq!(pelt.yn_inv(i), (f64::from(u32::MAX) * y.powi(i as i32)) as u32, "{hl} {i}");
            }
            let (step, mut max) = ((f64::from(u32::MAX) * y) as u64, 1024u64);
            loop {
                let next = ((max * step) >> 32) + 1024;
                if next == max {
                    break;
                }
                max = next;
            }
            assert_eq!(u64::from(pelt.load_avg_max), max);
        }
    }

    /// 4 µs at work, 60 µs asleep: each part loses up to 1 µs where the rest is not kept.
    #[test]
    fn parts_of_a_unit_are_lost_before_4_12() {
        let util = |generation| {
            let pelt = Pelt { generation, ..Pelt::default() };
            let mut sa = SchedAvg { last_update_time: 1 << 20, ..SchedAvg::default() };
            for round in 0..10_000u64 {
                let begin = (1 << 20) + round * 64_000;
                pelt.update(At::full_speed(begin + 60_000), &mut sa, 0, 0, false);
                pelt.update(At::full_speed(begin + 64_000), &mut sa, 1, 1, true);
            }
            sa.util_avg
        };
        assert_eq!(util(Generation::Scaled), util(Generation::ClockPelt));
        for generation in [Generation::ScaledByMax, Generation::Unscaled] {
            // 3 of 61 units for 4 of 62.5.
            assert!(
                util(generation) * 100 < util(Generation::Scaled) * 85,
                "{} {}",
                util(generation),
                util(Generation::Scaled)
            );
        }
    }

    /// A class that has not run ages as any average does.
    #[test]
    fn nothing_is_left_to_age() {
        for generation in [Generation::ClockPelt, Generation::ScaledByMax] {
            let pelt = Pelt { generation, ..Pelt::default() };
            let (mut plain, mut class) = (SchedAvg::default(), SchedAvg::default());
            let mut now = 0;
            for round in 0..20_000u64 {
                now += round * 7919 % 3_000_000;
                let (at, running) = (At::full_speed(now), round % 5000 == 4999);
                let load = u64::from(running);
                assert_eq!(
                    pelt.update_class(at, &mut class, running),
                    pelt.update(at, &mut plain, load, load, running)
                );
                assert_eq!(class, plain);
            }
        }
    }

    /// Reference model: integer PELT stays within 0.5 % of 1024 · (1 − y^t) while running and of y^t while asleep.
    #[test]
    fn follows_the_closed_form() {
        for hl in [8u32, 16, 32] {
            let pelt = Pelt::with_half_life(hl).expect("a supported half-life");
            let mut sa = SchedAvg { last_update_time: 1 << 20, ..SchedAvg::default() };
            let periods = |n: f64| 0.5f64.powf(n / f64::from(hl));
            for step in 1..=4 * u64::from(hl) {
                pelt.update(At::full_speed((1 << 20) + (step << 20)), &mut sa, 1, 1, true);
                let want = 1024.0 * (1.0 - periods(step as f64));
                assert!((sa.util_avg as f64 - want).abs() < 6.0, "{hl}: {step}: {} {want}", sa.util_avg);
            }
            let (from, start) = (sa.util_avg as f64, sa.last_update_time);
            for step in 1..=4 * u64::from(hl) {
                pelt.update(At::full_speed(start + (step << 20)), &mut sa, 0, 0, false);
                let want = from * periods(step as f64);
                assert!((sa.util_avg as f64 - want).abs() < 6.0, "{hl}: sleep {step}: {} {want}", sa.util_avg);
            }
        }
    }

    /// 95 % after 138.3 periods, which is 145 ms of wall time; and the split of the updates does not matter much.
    #[test]
    fn milestone_of_95_percent() {
        let pelt = Pelt::default();
        let mut sa = SchedAvg { last_update_time: 1 << 30, ..SchedAvg::default() };
        let mut ms = 0;
        while sa.util_avg < 973 {
            ms += 1;
            pelt.update(At::full_speed((1 << 30) + ms * 1_000_000), &mut sa, 1, 1, true);
        }
        assert!((144..=147).contains(&ms), "{ms}");
    }

    #[test]
    fn unscaled_ignores_speed() {
        let rq = Rq {
            pelt: Pelt { generation: Generation::Unscaled, ..Pelt::default() },
            freq_cap: 512,
            cpu_capacity_orig: 400,
            ..Rq::default()
        };
        let at = rq.pelt_at();
        assert_eq!((at.freq, at.cpu), (1024, 1024));
    }

    #[test]
    fn a_new_task_begins_with_half_of_what_is_left() {
        let check = |post_init, util, capacity, expect| {
            let (pelt, mut se) = (Pelt { post_init, ..Pelt::default() }, SchedAvg::default());
            let cfs = SchedAvg { util_avg: util, load_avg: 1024, ..SchedAvg::default() };
            pelt.post_init_util(&mut se, 1024, &cfs, capacity);
            assert_eq!(se.util_avg, expect, "{post_init:?}, {util} of {capacity}");
        };
        check(PostInit::V4_9, 0, 400, 512);
        check(PostInit::V4_9, 200, 400, 412);
        check(PostInit::V6_1, 0, 400, 200);
        check(PostInit::V6_1, 200, 400, 100);
        check(PostInit::V6_12, 50, 400, 49);
    }

    /// `scaled` is bounded by the present capacity, `clock_pelt` is not.
    #[test]
    fn scaled_saturates_at_the_capacity() {
        let pelt = Pelt { generation: Generation::Scaled, ..Pelt::default() };
        let mut sa = SchedAvg { last_update_time: 1 << 30, ..SchedAvg::default() };
        for ms in 1..1000 {
            pelt.update(At { now: (1 << 30) + ms * 1_000_000, freq: 512, cpu: 512 }, &mut sa, 1, 1, true);
        }
        assert!((250..=256).contains(&sa.util_avg), "{}", sa.util_avg);
    }

    #[test]
    fn what_the_sum_is_divided_by() {
        let always_running = |generation| {
            let pelt = Pelt { generation, ..Pelt::default() };
            let mut sa = SchedAvg { last_update_time: 1 << 30, ..SchedAvg::default() };
            let mut seen = Vec::new();
            for n in 1..400 {
                // A quarter of a period later each time.
                pelt.update(At::full_speed((1 << 30) + n * (1 << 20) + n % 4 * (1 << 18)), &mut sa, 1, 1, true);
                seen.push(sa.util_avg);
            }
            let settled = &seen[300..];
            (*settled.iter().min().expect("some"), *settled.iter().max().expect("some"))
        };
        let (least, most) = always_running(Generation::Scaled);
        assert!((1022..=1024).contains(&least) && (1022..=1024).contains(&most), "{least} to {most}");
        // 1024 · (47742 − 1024 + contrib) / 47742, contrib 0 to 768.
        let (least, most) = always_running(Generation::Scaled.by_max());
        assert!((1000..=1002).contains(&least) && (1016..=1019).contains(&most), "{least} to {most}");
    }

    fn busy_rq() -> Rq {
        Rq { cpu_capacity_orig: 1024, freq_cap: 512, curr: wattif_model::Pid(1), ..Rq::default() }
    }

    #[test]
    fn idle_gives_the_stolen_time_back_unless_saturated() {
        let mut rq = busy_rq();
        update_rq_clock(&mut rq, 1_000_000);
        assert_eq!((rq.clock_task, rq.clock_pelt), (1_000_000, 500_000));
        let mut full = rq.clone();
        update_idle_rq_clock_pelt(&mut rq, &CfsRq::default());
        assert_eq!((rq.clock_pelt, rq.lost_idle_time), (1_000_000, 0));
        full.avg_rt.util_sum = 47_800_000;
        update_idle_rq_clock_pelt(&mut full, &CfsRq::default());
        assert_eq!((full.rq_clock_pelt(), full.lost_idle_time), (500_000, 500_000));
    }

    #[test]
    fn interrupt_time_leaves_the_task_clock_in_portions() {
        let mut rq = busy_rq();
        rq.irq_pending_ns = 1_500;
        update_rq_clock(&mut rq, 1_000);
        assert_eq!((rq.clock_task, rq.irq_pending_ns), (0, 500));
        update_rq_clock(&mut rq, 2_000);
        assert_eq!((rq.clock_task, rq.irq_pending_ns), (500, 0));
    }
}
