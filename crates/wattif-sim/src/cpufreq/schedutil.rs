//! Schedutil frequency governor: the scheduler's own utilisation, turned into a frequency.
//!
//! # Idea
//! The scheduler knows how much of a CPU its tasks need. A CPU that is 40 % used at full speed gets by with 40 % of it;
//! a quarter on top leaves room for growth. So every change of utilisation asks for `1.25 × f_ref × util / capacity`, at
//! most once per `rate_limit_us`.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | `util_avg`, `util_est`, `runnable_avg` | 1024ths | [`cpu_util`], with `cpu_util.boost` | PELT updates |
//! | `util_rt`, `util_dl`, `bw_dl`, `util_irq`, clamps | 1024ths | [`effective_cpu_util`] | PELT updates, enqueue |
//! | `rt_avg` (`4.9`; where the kernel keeps none, `util_rt`) | 1024ths | see `rt_avg` | real-time tasks, interrupts, the clock |
//! | iowait | flag | the scheduler, waking a task that waited for I/O | per update |
//! | `idle_calls` | count | the CPU's idle loop | idle entry |
//! | `min`, `max`, table, `freq_ref` | kHz | the domain | limits |
//!
//! # Decision
//! Per update of a CPU:
//! 1. Boost: the CPU's iowait boost begins at 128, doubles with each request to 1024 (one step per decision), and is
//!    dropped after a tick without update.
//! 2. Not due: nothing. Due when the last *change* is `rate_limit_us` ago, when the limits changed, or when the CPU's
//!    deadline bandwidth exceeds what the last decision granted.
//! 3. u := effective utilisation, at least the boost (boosts nobody renewed are halved first; below 128 they end).
//!    `6.12`: u + u/4, within what the clamps, deadlines and interrupts allow; these may ask for more than headroom
//!    does. `6.1`: clamps first, headroom last.
//! 4. Over the CPUs of the domain, the largest.
//! 5. raw := `f_ref`·u / capacity. Same as last time: keep the frequency. Else the lowest efficient one of the table at or
//!    above raw.
//! 6. A domain of one CPU that has not been idle since the last decision is not slowed down (unless `uclamp_max` holds it). Idle means
//!    that its tick was stopped: pauses for which the idle governor keeps it do not count (since 4.17).
//!
//! `5.3` (up to 5.13) is `6.1` but for clamps, which step 6 does not ask for (that until 5.17) and a boost for I/O exceeds, and for
//! headroom: it is a quarter of `f_ref`, not of u, so that nothing of it is rounded off. In `4.20` (up to 5.1) a boost is a
//! frequency besides: it begins at the domain's `min`, and ends below it. `4.9` has that headroom as well.
//!
//! `4.9` (Android) differs: limits of their own for rises and falls, a CPU counts with what it asked for at its own last
//! update, and not at all when that is a tick ago, a boost for I/O is 1024 at once, u is WALT's last window where that tracks load
//! (and a busy CPU may be slowed down then), and a schedtune boost adds its margin. It hears where a PELT period has passed since
//! the last update of the CPU's averages, and where real-time and deadline tasks have run, of what the CPU does itself: not of a
//! wake-up by a CPU of the same cache, which the next tick tells, and not of a tick right after a switch, so that a busy CPU may
//! count as asleep. A change that its limit refuses is asked for again at the next update, also if raw is the same. A deadline task
//! that ran gets the highest frequency until something else of its CPU is heard of. Real-time tasks get what they use: their share of
//! the last second (`rt_avg`) is added, but to WALT, whose windows have it.
//! In `4.9-qti` the end of a window brings every CPU up to date, also one that sleeps, every update is heard of, and deadline tasks
//! get what they use, too.
//!
//! Worked example, 500, 800 and 1000 MHz, capacity 1024: util 300 → 375 → raw 366,210 → 500 MHz. A burst makes it 600 →
//! 750 → 732,421 → 800 MHz. 300 µs later util is 200: not due with the default of 1 ms. At the next update after that:
//! 500 MHz if the CPU has been idle in between, else it stays.
//!
//! # State and cost
//! Domain: last frequency, raw value, time. CPU: last update, boost, granted bandwidth. An update that is not due costs a
//! few comparisons; a decision O(CPUs of the domain + frequencies).
//!
//! # Where it fails
//! Utilisation rises with PELT's half-life, so a burst is answered late; a blocked task's `util_est` helps only tasks that
//! repeat. `runnable_avg` doubles the request of tasks that wait for each other. In a shared domain the loudest CPU rules.
//!
//! # Differences from the kernel
//! Bit-exact with `schedutil_6.12`, `schedutil_6.12` without boost and `schedutil_6.1` (1,920 rows each).
//! FIDELITY(schedutil-fast-switch): the switch is always the driver's fast switch, so no kthread is involved, and only CPUs of the
//! domain update it.
//! Generation `4.9` follows published behaviour, no vectors of it exist; boosts are those of `schedtune`.
//! `sugov_update_single_perf` (drivers that take a performance level) is not modelled. Generation `6.1` also honours
//! `cpu_util.boost`, which that kernel did not have: leave it off for that kernel.
//!
//! # Source
//! Linux 6.12.117 and 6.1.192 `kernel/sched/cpufreq_schedutil.c` (behaviour; vectors of the kernel's own code). Commits
//! 7a17e1db1265 and d37aee9018e6 (5.18) end the clamps of generation `5.3`, "sched/cpufreq: Consider reduced CPU capacity in energy
//! calculation" (5.14) its headroom, "cpufreq: schedutil: Simplify iowait boosting" (5.2) ends `4.20`.

use super::{CpuSignals, CpufreqPolicy, FreqGovernor, FreqView, UpdateFlags, choice_without_inputs};
use crate::registry::{Tunable, meant};
use crate::sched::placement::cpu_util::{
    Boost, UtilType, cpu_util, effective_cpu_util, effective_cpu_util_6_1, map_util_perf, sugov_effective_cpu_perf,
    uclamp_rq_is_capped, uclamp_rq_util_with,
};
use crate::sched::schedtune::boosted;
use wattif_model::ids::CpuId;
use wattif_model::trace::FrequencyChoice;
use wattif_model::units::CAPACITY_SCALE;

/// Tunables of this policy.
pub const TUNABLES: &[Tunable] = &[
    Tunable {
        name: "generation",
        default: "6.12",
        allowed: &Generation::NAMES,
        doc: "Android's of 4.9; the same with the vendor's additions (see walt_qti); clamps before headroom: 4.20 (up to 5.1: a boost for I/O begins at the lowest frequency), 5.3 (up to 5.13: clamps do not slow busy CPUs or limit boosts, headroom is not rounded), 6.1 (up to 6.7); 6.12: headroom before clamps",
    },
    Tunable {
        name: "rate_limit_us",
        default: "auto",
        allowed: &["auto", "0..=4294967295"],
        doc: "least time between two changes, µs; auto: what the driver says",
    },
    Tunable {
        name: "up_rate_limit_us",
        default: "auto",
        allowed: &["auto", "0..=4294967295"],
        doc: "generation 4.9: least time before a rise, µs; auto: rate_limit_us",
    },
    Tunable {
        name: "down_rate_limit_us",
        default: "auto",
        allowed: &["auto", "0..=4294967295"],
        doc: "generation 4.9: least time before a fall, µs; auto: rate_limit_us",
    },
    Tunable {
        name: "hispeed_freq_khz",
        default: "auto",
        allowed: &["auto", "0", "1000..=10000000"],
        doc: "generation 4.9-qti: a CPU that its frequency hardly carries gets at least this one; 0: no such step, as the governor begins; auto: 60 % of the highest, estimated: boards set it when they boot",
    },
    Tunable {
        name: "iowait_boost_enable",
        default: "auto",
        allowed: &["auto", "0", "1"],
        doc: "generation 4.9: waits for I/O raise the frequency; auto: 1, and 0 in 4.9-qti, as its source begins: boards differ",
    },
];

/// A CPU at this share of what its frequency can do, in percent, is hardly carried by it.
const HILOAD_PCT: u64 = 90;
/// Load that the high frequency is to carry, percent of its capacity.
const HISPEED_LOAD_PCT: u64 = 80;
/// Share of new tasks in the load from which the highest frequency is due, percent.
const NEW_LOAD_PCT: u64 = 75;

/// Where a boost for I/O begins, and below which it ends, since 5.2.
const IOWAIT_BOOST_MIN: u64 = CAPACITY_SCALE / 8;

/// Eras of the governor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Generation {
    /// Android's 4.9: limits of their own for rises and falls, CPUs that slept for a tick do not count, a boost for I/O is
    /// the maximum at once.
    V4_9,
    /// The vendor's on top of it: decides once per window of WALT and when a task changes its cluster; a CPU that its frequency
    /// hardly carries goes to a high one at once, to the highest if the load is of new tasks; predictions count.
    V4_9Qti,
    /// Up to 5.1: as `5.3`, but a boost for I/O begins at the domain's lowest frequency.
    V4_20,
    /// Up to 5.13: as `6.1`, but a clamp does not slow a busy CPU down, nor limit a boost for I/O; headroom is not rounded.
    V5_3,
    /// Up to 6.7: clamps before headroom.
    V6_1,
    /// 6.8 and later: headroom before clamps, `freq_ref`.
    #[default]
    V6_12,
}

impl Generation {
    /// The values of the tunable `generation`.
    pub const NAMES: [&'static str; 6] = ["4.9", "4.9-qti", "4.20", "5.3", "6.1", "6.12"];

    /// From the tunable's value.
    pub fn parse(name: &str) -> Option<Generation> {
        use Generation::{V4_9, V4_9Qti, V4_20, V5_3, V6_1, V6_12};
        meant(Generation::NAMES, [V4_9, V4_9Qti, V4_20, V5_3, V6_1, V6_12], name)
    }

    /// Android's of 4.9, the vendor's included.
    fn is_4_9(self) -> bool {
        matches!(self, Generation::V4_9 | Generation::V4_9Qti)
    }
}

/// Tunables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tunables {
    /// Era.
    pub generation: Generation,
    /// Least time between two changes, µs; `None`: what the driver says (1000 if nothing).
    pub rate_limit_us: Option<u64>,
    /// Generation `4.9`: the same before a rise, and before a fall; `None`: `rate_limit_us`.
    pub up_down_rate_limit_us: (Option<u64>, Option<u64>),
    /// Generation `4.9-qti`: see its tunable; `None`: 60 % of the highest.
    pub hispeed_freq_khz: Option<u64>,
    /// Generations `4.9` and `4.9-qti`: waits for I/O raise the frequency; `None`: in `4.9` only.
    pub iowait_boost_enable: Option<bool>,
    /// `cpu_util.boost`.
    pub boost: Boost,
}

/// State of one CPU (`struct sugov_cpu`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SugovCpu {
    /// Which.
    pub cpu: CpuId,
    /// Performance last computed, 1024ths; without headroom before generation `6.12`.
    pub util: u64,
    /// Generation `4.9`: the same as it was at the CPU's own last update, without a boost for I/O.
    asked: u64,
    /// What the last decision granted beyond utilisation: least performance (`6.12`) or deadline bandwidth (before).
    #[doc(alias = "bw_dl")]
    pub bw_min: u64,
    /// Boost for I/O, 0 or 128..=1024 (`4.20`: from the domain's lowest frequency on).
    pub iowait_boost: u64,
    /// It was requested since the last decision.
    pub iowait_boost_pending: bool,
    /// Time of the last update, ns.
    pub last_update: u64,
    /// Generation `4.9`: that update was because a deadline task ran.
    deadline: bool,
    saved_idle_calls: u64,
    /// What `util` was computed from, and the version of it ([`FreqView::versions`]).
    inputs: Inputs,
    version: u64,
}

/// The signals that a decision reports, and the capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Inputs {
    capacity: u64,
    util_avg: u32,
    util_est: u32,
    runnable_avg: u32,
}

impl Inputs {
    fn of(signals: &CpuSignals) -> Inputs {
        Inputs {
            capacity: signals.capacity,
            util_avg: signals.util_avg as u32,
            util_est: signals.util_est as u32,
            runnable_avg: signals.runnable_avg as u32,
        }
    }
}

/// The governor of one domain.
#[derive(Clone, Debug)]
pub struct Schedutil {
    tunables: Tunables,
    policy: CpufreqPolicy,
    freq_update_delay_ns: u64,
    cpus: Vec<SugovCpu>,
    /// CPU − first CPU → index into `cpus`.
    slots: Vec<u32>,
    next_freq: u32,
    cached_raw_freq: u32,
    last_freq_update_time: u64,
    limits_changed: bool,
    need_freq_update: bool,
    /// Generation `4.9-qti`: window and moves at the last decision, and whether it was made because of a move.
    evaluated: (u64, u64),
    moved: bool,
    clock: AverageClock,
    /// The last decision: whose request it was (index into `cpus`), and the frequency before.
    loudest: usize,
    prev_khz: u32,
}

impl Schedutil {
    /// A governor without a domain yet.
    pub fn new(tunables: Tunables) -> Schedutil {
        Schedutil {
            tunables,
            policy: CpufreqPolicy::default(),
            freq_update_delay_ns: 0,
            cpus: Vec::new(),
            slots: Vec::new(),
            next_freq: 0,
            cached_raw_freq: 0,
            last_freq_update_time: 0,
            limits_changed: false,
            need_freq_update: false,
            evaluated: (0, 0),
            moved: false,
            clock: AverageClock::default(),
            loudest: 0,
            prev_khz: 0,
        }
    }

    /// States of the CPUs, ascending.
    pub fn cpus(&self) -> &[SugovCpu] {
        &self.cpus
    }
    /// Frequency last decided, kHz; 0 before the first decision.
    pub fn next_freq(&self) -> u32 {
        self.next_freq
    }
    /// Raw frequency last computed, kHz.
    pub fn cached_raw_freq(&self) -> u32 {
        self.cached_raw_freq
    }
    /// Time of the last change, ns.
    pub fn last_freq_update_time(&self) -> u64 {
        self.last_freq_update_time
    }
    /// The limits changed and no decision has taken that into account yet.
    pub fn need_freq_update(&self) -> bool {
        self.need_freq_update
    }

    /// Where a boost for I/O begins, and below which it ends.
    fn iowait_boost_min(&self) -> u64 {
        let CpufreqPolicy { min, cpuinfo_max, .. } = self.policy;
        match self.tunables.generation {
            Generation::V4_20 if min < cpuinfo_max => CAPACITY_SCALE * u64::from(min) / u64::from(cpuinfo_max),
            Generation::V4_20 => CAPACITY_SCALE,
            _ => IOWAIT_BOOST_MIN,
        }
    }

    fn slot(&self, cpu: CpuId) -> usize {
        self.slots[cpu.at() - self.cpus[0].cpu.at()] as usize
    }

    /// Limits or deadlines make a decision due at once; else it waits for the rate limit.
    #[doc(alias = "sugov_should_update_freq")]
    fn should_update_freq(&mut self, now_ns: u64) -> bool {
        if self.limits_changed {
            self.limits_changed = false;
            self.need_freq_update = true;
            return true;
        }
        // s64: a clock behind the last change is not due.
        now_ns.wrapping_sub(self.last_freq_update_time) as i64 >= self.freq_update_delay_ns as i64
    }

    #[doc(alias = "sugov_next_freq_shared")]
    fn update_shared(&mut self, now_ns: u64, at: usize, view: &dyn FreqView) -> u32 {
        let versions = view.versions();
        // In 4.9 a CPU stops to count by the clock alone.
        let ages = self.tunables.generation.is_4_9();
        // Capacities in a domain are equal as a rule; only the older generations mind if not.
        let by_capacity = self.tunables.generation != Generation::V6_12;
        // Lent out for the loop.
        let mut cpus = std::mem::take(&mut self.cpus);
        // Whoever asked for most still does, unless it now asks for less: then all are looked at. Generation `4.9` writes down
        // what CPUs ask for between decisions.
        let (mut most, mut fell) = (self.loudest, ages);
        for i in 0..cpus.len() {
            if !ages && cpus[i].is_fresh(versions) {
                continue;
            }
            let c = &mut cpus[i];
            let before = c.util;
            match ages {
                true => self.decide_cpu(c, now_ns, versions, view),
                false => self.compute_util(c, now_ns, version_of(versions, c.cpu), view),
            }
            if i == most {
                fell |= cpus[i].util < before;
            } else if match i < most {
                true => !cpus[most].is_louder(&cpus[i], by_capacity), // the first of equals
                false => cpus[i].is_louder(&cpus[most], by_capacity),
            } {
                most = i;
            }
        }
        debug_assert!(fell || most == loudest(&cpus, by_capacity), "somebody else asks for more");
        let loudest = if fell { loudest(&cpus, by_capacity) } else { most };
        self.cpus = cpus;
        debug_assert!(self.cpus.iter().all(|c| !c.is_fresh(versions) || c.inputs == Inputs::of(&view.signals(c.cpu))));
        let of = if self.tunables.generation == Generation::V6_12 { at } else { loudest };
        let capacity = self.cpus[of].inputs.capacity;
        self.loudest = loudest;
        self.get_next_freq(self.cpus[loudest].util, capacity)
    }

    #[inline(never)]
    fn update_single(&mut self, now_ns: u64, view: &dyn FreqView) -> u32 {
        let mut c = self.cpus[0];
        self.decide_cpu(&mut c, now_ns, view.versions(), view);
        self.cpus[0] = c;
        let cached = self.cached_raw_freq;
        let next = self.get_next_freq(self.cpus[0].util, self.cpus[0].inputs.capacity);
        if self.hold_freq(view) && next < self.next_freq && !self.need_freq_update {
            self.cached_raw_freq = cached;
            return self.next_freq;
        }
        next
    }

    /// The CPU is busy, so that the utilisation of a task that came or went a moment ago must not slow it down.
    /// Not evaluated, and the count not saved, while a clamp holds the CPU down (5.18), or where 4.9 tracks windows: a window's
    /// load falls only when the window was less busy.
    #[doc(alias = "sugov_cpu_is_busy")]
    fn hold_freq(&mut self, view: &dyn FreqView) -> bool {
        let generation = self.tunables.generation;
        let capped = || generation >= Generation::V6_1 && uclamp_rq_is_capped(&view.signals(self.cpus[0].cpu));
        if generation.is_4_9() && view.tracks_windows() || capped() {
            return false;
        }
        let idle_calls = view.idle_calls(self.cpus[0].cpu);
        let busy = idle_calls == self.cpus[0].saved_idle_calls;
        self.cpus[0].saved_idle_calls = idle_calls;
        busy
    }

    /// Brings what a CPU asks for up to date.
    #[doc(alias = "sugov_get_util")]
    #[inline(never)]
    fn decide_cpu(&self, c: &mut SugovCpu, now_ns: u64, versions: &[u64], view: &dyn FreqView) {
        let tick_ns = self.policy.tick_ns;
        let generation = self.tunables.generation;
        if generation == Generation::V4_9Qti && view.window_load(c.cpu).is_some() {
            // The end of a window is heard by every CPU of the domain, also by one that sleeps.
            self.compute_util(c, now_ns, 1, view);
        } else if generation.is_4_9() && now_ns.saturating_sub(c.last_update) > tick_ns {
            // Nothing was heard of it for a tick: it sleeps, and what it needed does not count.
            (c.util, c.asked, c.bw_min, c.iowait_boost, c.version) = (0, 0, 0, 0, 0);
            c.inputs = Inputs::of(&view.signals(c.cpu));
        } else if generation == Generation::V4_9 && c.version > 0 {
            // As it was when it was last heard of: what others did to its queue since then comes with its next update.
            c.util = c.asked.max(c.iowait_apply(now_ns, tick_ns, self.iowait_boost_min(), c.inputs.capacity));
        } else if !c.is_fresh(versions) {
            self.compute_util(c, now_ns, version_of(versions, c.cpu), view);
        }
    }

    /// A request for a boost, or the age of the one there is.
    #[inline(never)]
    fn note_iowait(&mut self, i: usize, now_ns: u64, requested: bool) {
        let (tick_ns, min) = (self.policy.tick_ns, self.iowait_boost_min());
        let c = &mut self.cpus[i];
        match self.tunables.generation.is_4_9() && requested {
            true => (c.iowait_boost, c.iowait_boost_pending) = (CAPACITY_SCALE, true),
            false => c.iowait_boost(now_ns, tick_ns, min, requested),
        }
    }

    /// Generation `4.9`: a CPU that is heard of says what it asks for, whether or not a decision is due.
    fn ask(&mut self, i: usize, now_ns: u64, view: &dyn FreqView) {
        if self.tunables.generation != Generation::V4_9 {
            return;
        }
        // Whatever its version: what real-time tasks took is forgotten by the clock alone.
        let mut c = self.cpus[i];
        let version = view.versions().get(c.cpu.at()).copied();
        self.compute_util(&mut c, now_ns, version.unwrap_or(1), view);
        self.cpus[i] = c;
    }

    fn compute_util(&self, c: &mut SugovCpu, now_ns: u64, version: u64, view: &dyn FreqView) {
        let signals = view.signals(c.cpu);
        (c.inputs, c.version) = (Inputs::of(&signals), version);
        let cfs = cpu_util(&signals, None, self.tunables.boost);
        // In 4.9 whoever decides adds the boost.
        let boost = match self.tunables.generation {
            Generation::V4_9 => 0,
            _ if c.iowait_boost == 0 => 0,
            _ => c.iowait_apply(now_ns, self.policy.tick_ns, self.iowait_boost_min(), signals.capacity),
        };
        match self.tunables.generation {
            Generation::V6_12 => {
                let e = effective_cpu_util(&signals, cfs);
                c.bw_min = e.min;
                c.util = sugov_effective_cpu_perf(e.util.max(boost), e.min, e.max);
            }
            Generation::V4_9 | Generation::V4_9Qti => {
                // A deadline task asks for everything, and the vendor's clears its flag. Real-time tasks count with what they
                // use, which WALT's windows have already.
                let everything = c.deadline && self.tunables.generation == Generation::V4_9;
                let rt = if view.tracks_windows() { 0 } else { view.rt_avg_util(c.cpu).unwrap_or(signals.util_rt) };
                let boosted = (boosted(cfs, view.schedtune_boost_pct(c.cpu)) + rt).min(signals.capacity);
                c.util = match self.tunables.generation {
                    _ if everything => signals.capacity,
                    Generation::V4_9Qti => self.with_window_load(c.cpu, boosted, boost, signals.capacity, view),
                    _ => boosted.max(boost),
                };
                c.asked = c.util;
            }
            Generation::V4_20 | Generation::V5_3 | Generation::V6_1 => {
                c.bw_min = signals.bw_dl;
                let clamped = boost > 0 && self.tunables.generation == Generation::V6_1;
                let boost = if clamped { uclamp_rq_util_with(&signals, boost, None) } else { boost };
                c.util = effective_cpu_util_6_1(&signals, cfs, UtilType::Frequency, None).max(boost);
            }
        }
    }

    /// `sugov_walt_adjust`: what the vendor's governor makes of a CPU's utilisation, which a schedtune boost has raised, and its
    /// boost for I/O. No boost raises what it adds.
    #[doc(alias = "sugov_walt_adjust")]
    #[inline(never)]
    fn with_window_load(&self, cpu: CpuId, util: u64, iowait: u64, capacity: u64, view: &dyn FreqView) -> u64 {
        let asked = util.max(iowait);
        let Some(load) = view.window_load(cpu) else { return asked };
        let highest = u64::from(self.policy.cpuinfo_max);
        let at = |khz: u64| capacity * khz / highest;
        let hiload = util > 0 && util >= at(self.clock.khz) * HILOAD_PCT / 100;
        let hispeed = at(self.tunables.hispeed_freq_khz.unwrap_or(highest * 6 / 10)) * HISPEED_LOAD_PCT / 100;
        let raised = match hiload {
            true if load.nl >= util * NEW_LOAD_PCT / 100 => capacity,
            true if !self.moved => asked.max(hispeed),
            _ => asked,
        };
        raised.max(load.pl).min(capacity)
    }

    /// Generation `4.9-qti`: is a window's decision due?
    #[inline(never)]
    fn window_is_due(&mut self, now_ns: u64, cpu: CpuId, view: &dyn FreqView) -> bool {
        let Some(load) = view.window_load(cpu) else { return true };
        let now = (load.window, load.moves);
        let last = std::mem::replace(&mut self.evaluated, now);
        self.moved = now.0 == last.0;
        if !self.moved {
            self.clock.window_ends(self.policy.cur, now_ns);
        }
        now != last
    }

    #[inline]
    fn get_next_freq(&mut self, util: u64, capacity: u64) -> u32 {
        let p = &self.policy;
        let reference = if p.freq_invariant { p.cpuinfo_max } else { p.cur };
        let (reference, util) = match self.tunables.generation {
            Generation::V6_12 if p.freq_ref != 0 => (p.freq_ref, util),
            Generation::V6_12 if p.freq_invariant => (reference, util),
            Generation::V6_1 => (reference, map_util_perf(util)),
            // The quarter of the frequency, not of what is asked: until 5.13, and where it has no utilisation of its own.
            _ => (reference + (reference >> 2), util),
        };
        let raw = (u64::from(reference) * util / capacity) as u32; // C: unsigned long cut to unsigned int
        if raw == self.cached_raw_freq && !self.need_freq_update {
            return self.next_freq;
        }
        self.cached_raw_freq = raw;
        self.policy.resolve_freq(raw)
    }

    /// Only a change counts as an update for the rate limit.
    #[doc(alias = "sugov_update_next_freq")]
    fn update_next_freq(&mut self, now_ns: u64, next_freq: u32) -> Option<u32> {
        let due = self.need_freq_update || self.up_down_due(now_ns, next_freq);
        self.need_freq_update = false;
        if next_freq == self.next_freq {
            return None;
        }
        if !due {
            // Delayed, not refused for good: the same raw frequency is not the one that was set.
            self.cached_raw_freq = 0;
            return None;
        }
        self.clock.runs(self.policy.cur, now_ns);
        self.prev_khz = self.policy.cur;
        self.next_freq = next_freq;
        self.last_freq_update_time = now_ns;
        self.policy.cur = next_freq;
        Some(next_freq)
    }

    /// `sugov_up_down_rate_limit`: rises and falls wait for limits of their own in 4.9.
    fn up_down_due(&self, now_ns: u64, next_freq: u32) -> bool {
        if !self.tunables.generation.is_4_9() {
            return true;
        }
        let (up, down) = self.tunables.up_down_rate_limit_us;
        let limit_us = if next_freq > self.next_freq { up } else { down };
        let limit_ns = limit_us.map_or(self.freq_update_delay_ns, |us| us * 1000);
        now_ns.saturating_sub(self.last_freq_update_time) >= limit_ns
    }
}

/// The version of what a CPU publishes, 0: not known.
#[inline]
fn version_of(versions: &[u64], cpu: CpuId) -> u64 {
    versions.get(cpu.at()).copied().unwrap_or(0)
}

/// The CPU that asks for most, of its capacity if that counts; the first of equals.
fn loudest(cpus: &[SugovCpu], by_capacity: bool) -> usize {
    (1..cpus.len()).fold(0, |most, i| if cpus[i].is_louder(&cpus[most], by_capacity) { i } else { most })
}

/// Generation `4.9-qti`: the mean clock of the last window (`avg_cap`), and what the present one adds up to.
#[derive(Clone, Copy, Debug, Default)]
struct AverageClock {
    khz: u64,
    cycles: u128,
    began: u64,
    since: u64,
}

impl AverageClock {
    /// It ran at this clock until now.
    fn runs(&mut self, khz: u32, now_ns: u64) {
        self.cycles += u128::from(khz) * u128::from(now_ns.saturating_sub(self.since));
        self.since = now_ns;
    }

    #[doc(alias = "sugov_calc_avg_cap")]
    fn window_ends(&mut self, khz: u32, now_ns: u64) {
        self.runs(khz, now_ns);
        let ns = u128::from(now_ns.saturating_sub(self.began));
        *self = AverageClock {
            khz: self.cycles.checked_div(ns).map_or(khz.into(), |mean| mean as u64),
            cycles: 0,
            began: now_ns,
            since: now_ns,
        };
    }
}

impl SugovCpu {
    /// Is `util` still what [`Schedutil::compute_util`] would say? Without a boost that depends on the signals alone.
    #[inline]
    fn is_fresh(&self, versions: &[u64]) -> bool {
        // Versions count from 1: one that was not known is never met.
        versions.get(self.cpu.at()) == Some(&self.version) && self.iowait_boost == 0
    }

    /// Does it ask for more than the other, of its capacity if that counts?
    #[inline]
    fn is_louder(&self, than: &SugovCpu, by_capacity: bool) -> bool {
        // Capacities are equal as a rule.
        match !by_capacity || self.inputs.capacity == than.inputs.capacity {
            true => self.util > than.util,
            false => self.util * than.inputs.capacity > than.util * self.inputs.capacity,
        }
    }

    /// Drops a boost that is older than a tick; true if it was. `boost`: it is renewed in the same breath.
    #[doc(alias = "sugov_iowait_reset")]
    fn iowait_reset(&mut self, now_ns: u64, tick_ns: u64, min: u64, boost: bool) -> bool {
        if now_ns.wrapping_sub(self.last_update) as i64 <= tick_ns as i64 {
            return false;
        }
        self.iowait_boost = if boost { min } else { 0 };
        self.iowait_boost_pending = boost;
        true
    }

    /// Takes note of a request; the boost grows once per decision however many there are.
    #[doc(alias = "sugov_iowait_boost")]
    fn iowait_boost(&mut self, now_ns: u64, tick_ns: u64, min: u64, requested: bool) {
        if self.iowait_boost > 0 && self.iowait_reset(now_ns, tick_ns, min, requested) {
            return;
        }
        if requested && !self.iowait_boost_pending {
            self.iowait_boost_pending = true;
            self.iowait_boost = (self.iowait_boost * 2).clamp(min, CAPACITY_SCALE);
        }
    }

    /// The boost as utilisation. One that was not requested since the last decision is halved.
    #[doc(alias = "sugov_iowait_apply")]
    fn iowait_apply(&mut self, now_ns: u64, tick_ns: u64, min: u64, capacity: u64) -> u64 {
        if self.iowait_boost == 0 || self.iowait_reset(now_ns, tick_ns, min, false) {
            return 0;
        }
        if !self.iowait_boost_pending {
            self.iowait_boost >>= 1;
            if self.iowait_boost < min {
                self.iowait_boost = 0;
                return 0;
            }
        }
        self.iowait_boost_pending = false;
        self.iowait_boost * capacity / CAPACITY_SCALE
    }
}

impl FreqGovernor for Schedutil {
    fn start(&mut self, policy: CpufreqPolicy, _now_ns: u64, _view: &dyn FreqView) -> Option<u32> {
        assert!(!policy.cpus.is_empty(), "a frequency domain without CPUs");
        let mut fresh = Schedutil::new(self.tunables);
        let delay_us = self.tunables.rate_limit_us.unwrap_or_else(|| match self.tunables.generation {
            Generation::V6_12 => policy.transition_delay_us(),
            Generation::V4_9 | Generation::V4_9Qti => policy.transition_delay_us_4_9(),
            _ => policy.transition_delay_us_6_1(),
        });
        let shortest = |us: u64| match self.tunables.up_down_rate_limit_us {
            (up, down) if self.tunables.generation.is_4_9() => up.unwrap_or(us).min(down.unwrap_or(us)),
            _ => us,
        };
        fresh.freq_update_delay_ns = shortest(delay_us) * 1000;
        fresh.cpus = policy.cpus.iter().map(|&cpu| SugovCpu { cpu, ..SugovCpu::default() }).collect();
        let first = policy.cpus[0].at();
        let last = policy.cpus[policy.cpus.len() - 1].at();
        fresh.slots = vec![u32::MAX; last - first + 1];
        for (i, cpu) in policy.cpus.iter().enumerate() {
            fresh.slots[cpu.at() - first] = i as u32;
        }
        fresh.policy = policy;
        *self = fresh;
        None
    }

    fn hears_own_updates_only(&self) -> bool {
        self.tunables.generation.is_4_9()
    }

    fn hears_every_update(&self) -> bool {
        // Windows and moves of the vendor's are looked at wherever something happens.
        self.tunables.generation == Generation::V4_9Qti
    }

    fn update_util(&mut self, now_ns: u64, cpu: CpuId, flags: UpdateFlags, view: &dyn FreqView) -> Option<u32> {
        let i = self.slot(cpu);
        let generation = self.tunables.generation;
        let iowait = flags.iowait && self.tunables.iowait_boost_enable.unwrap_or(generation != Generation::V4_9Qti);
        if iowait || self.cpus[i].iowait_boost > 0 {
            self.note_iowait(i, now_ns, iowait);
        }
        let c = &mut self.cpus[i];
        (c.last_update, c.deadline) = (now_ns, flags.deadline);
        if generation.is_4_9() {
            self.ask(i, now_ns, view);
        } else if view.bw_dl(cpu) > c.bw_min {
            self.limits_changed = true; // deadline tasks must not wait for the rate limit
        }
        let windows = generation == Generation::V4_9Qti;
        if !self.should_update_freq(now_ns) || windows && !self.window_is_due(now_ns, cpu, view) {
            return None;
        }
        let next =
            if self.cpus.len() > 1 { self.update_shared(now_ns, i, view) } else { self.update_single(now_ns, view) };
        self.update_next_freq(now_ns, next)
    }

    fn limits(&mut self, min_khz: u32, max_khz: u32) -> Option<u32> {
        (self.policy.min, self.policy.max) = (min_khz, max_khz);
        self.limits_changed = true;
        None
    }

    fn policy(&self) -> &CpufreqPolicy {
        &self.policy
    }

    fn choice(&self) -> FrequencyChoice {
        let c = &self.cpus[self.loudest];
        FrequencyChoice {
            util: c.util as u32,
            util_avg: c.inputs.util_avg,
            util_est: c.inputs.util_est,
            runnable_avg: c.inputs.runnable_avg,
            iowait_boost: c.iowait_boost as u32,
            ..choice_without_inputs(self.policy.domain, self.prev_khz, self.next_freq)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Fixed, policy};
    use super::*;
    use crate::sched::load::walt_qti::WindowLoad;

    const NONE: UpdateFlags = UpdateFlags { iowait: false, deadline: false };
    const IOWAIT: UpdateFlags = UpdateFlags { iowait: true, ..NONE };

    fn busy(util_avg: u64) -> Fixed {
        let signals = CpuSignals { util_avg, uclamp_max: 1024, capacity: 1024, ..CpuSignals::default() };
        Fixed { signals, ..Fixed::default() }
    }

    fn started(generation: Generation, nr: u32) -> Schedutil {
        let mut g = Schedutil::new(Tunables { generation, ..Tunables::default() });
        g.start(policy(nr), 0, &busy(0));
        g
    }

    #[test]
    fn worked_example() {
        for generation in [Generation::V6_1, Generation::V6_12] {
            let mut g = started(generation, 1);
            let mut at = |us: u64, util, idle_calls| {
                g.update_util(us * 1000, CpuId(0), NONE, &Fixed { idle_calls, ..busy(util) })
            };
            assert_eq!(at(10_000, 300, 1), Some(500_000));
            assert_eq!(at(20_000, 600, 2), Some(800_000));
            assert_eq!(at(20_300, 200, 3), None, "not due");
            assert_eq!(at(22_000, 200, 2), None, "busy since the last decision");
            assert_eq!(at(24_000, 200, 3), Some(500_000));
        }
    }

    #[test]
    fn a_window_that_was_less_busy_slows_a_busy_cpu_down() {
        for (windows, then) in [(false, None), (true, Some(500_000))] {
            let mut g = started(Generation::V4_9, 1);
            let mut at =
                |ms: u64, util| g.update_util(ms * 1_000_000, CpuId(0), NONE, &Fixed { windows, ..busy(util) });
            at(10, 700);
            assert_eq!(at(40, 200), then, "never idle; windows: {windows}");
        }
    }

    #[test]
    fn clamps_slow_a_busy_cpu_and_limit_a_boost_since_5_18() {
        let under = |uclamp_max, util| {
            let mut view = busy(util);
            (view.signals.uclamp_used, view.signals.uclamp_max) = (true, uclamp_max);
            view
        };
        for (generation, then, boosted) in [
            (Generation::V5_3, None, 128),
            (Generation::V6_1, Some(500_000), 100),
            (Generation::V6_12, Some(500_000), 100),
        ] {
            let mut g = started(generation, 1);
            g.update_util(10_000_000, CpuId(0), NONE, &under(1024, 900));
            assert_eq!(g.update_util(20_000_000, CpuId(0), NONE, &under(100, 900)), then, "{generation:?}");
            g.update_util(30_000_000, CpuId(0), IOWAIT, &under(100, 50));
            assert_eq!(g.cpus()[0].util, boosted, "{generation:?}");
        }
    }

    #[test]
    fn a_boost_raises_what_the_vendor_looks_at_and_not_what_it_adds() {
        let util = |boost_pct, util_avg, nl, pl| {
            let mut g = started(Generation::V4_9Qti, 1);
            let load = Some(WindowLoad { window: 1, moves: 0, nl, pl });
            let view = Fixed { boost_pct, load, windows: true, ..busy(util_avg) };
            g.update_util(100_000_000, CpuId(0), NONE, &view);
            g.cpus()[0].util
        };
        assert_eq!(util(0, 100, 0, 0), 100, "500 MHz carry it");
        assert_eq!(util(40, 50, 0, 0), boosted(50, 40));
        assert_eq!(util(40, 0, 0, 300), boosted(0, 40), "the prediction is a maximum");
        assert_eq!(util(40, 0, 0, 600), 600, "and is not boosted");
        // The high frequency is 600 MHz, of which 80 % are 491 of 1024.
        assert_eq!(boosted(86, 40), 461, "90 % of the 512 that 500 MHz are: hardly carried");
        assert_eq!(util(40, 86, 0, 0), 491, "nor is the floor");
        assert_eq!(util(40, 86, 70, 0), 491, "70 are most of 86, not of 461");
        assert_eq!(util(40, 86, 350, 0), 1024);
    }

    #[test]
    fn real_time_tasks_get_what_they_use_and_deadline_tasks_everything() {
        let util = |generation, windows, deadline| {
            let mut g = started(generation, 1);
            let mut view = busy(100);
            // What is admitted is not asked for.
            (view.signals.rt_nr_running, view.signals.util_rt, view.signals.bw_dl) = (1, 30, 50);
            let flags = UpdateFlags { deadline, ..NONE };
            g.update_util(100_000_000, CpuId(0), flags, &Fixed { windows, ..view });
            g.cpus()[0].util
        };
        assert_eq!(util(Generation::V4_9, false, false), 130);
        assert_eq!(util(Generation::V4_9, true, false), 100, "WALT's windows have it");
        let mut g = started(Generation::V4_9, 1);
        // What the kernel keeps of them goes before what PELT says, and changes although no signal does.
        for (ms, share) in [(100, 70), (104, 60)] {
            let mut view = Fixed { rt_avg_util: Some(share), ..busy(100) };
            view.signals.util_rt = 30;
            g.update_util(ms * 1_000_000, CpuId(0), NONE, &view);
            assert_eq!(g.cpus()[0].util, 100 + share);
        }
        assert_eq!([Generation::V4_9, Generation::V4_9Qti].map(|g| util(g, true, true)), [1024, 100]);
    }

    #[test]
    fn in_4_9_a_deadline_task_asks_until_another_is_heard_of_and_waits_like_others() {
        let mut g = started(Generation::V4_9, 2);
        let mut at = |us: u64, cpu, deadline| {
            g.update_util(us * 1000, CpuId(cpu), UpdateFlags { deadline, ..NONE }, &busy(100));
            (g.next_freq(), g.cpus()[0].util)
        };
        assert_eq!(at(10_000, 0, false), (500_000, 100));
        assert_eq!(at(10_500, 0, true).0, 500_000, "within the limit");
        assert_eq!(at(11_500, 1, false), (1_000_000, 1024), "what CPU 0 said last");
        assert_eq!(at(13_000, 0, false), (500_000, 100));
    }

    #[test]
    fn headroom_is_a_quarter_of_the_frequency_until_5_13_and_of_what_is_asked_since() {
        let raw = |generation| {
            let mut g = started(generation, 1);
            g.update_util(10_000_000, CpuId(0), NONE, &busy(655));
            g.cached_raw_freq()
        };
        for generation in [Generation::V4_9, Generation::V4_9Qti, Generation::V4_20, Generation::V5_3] {
            assert_eq!(raw(generation), 1_250_000 * 655 / 1024, "{generation:?}");
        }
        for generation in [Generation::V6_1, Generation::V6_12] {
            assert_eq!(raw(generation), 1_000_000 * (655 + 163) / 1024, "{generation:?}");
        }
    }

    #[test]
    fn the_end_of_a_window_brings_sleeping_cpus_up_to_date_in_the_vendors() {
        let util = |generation| {
            let load = |window| Some(WindowLoad { window, moves: 0, nl: 0, pl: 0 });
            let mut g = started(generation, 2);
            let view = |window, util| Fixed { load: load(window), windows: true, ..busy(util) };
            g.update_util(20_000_000, CpuId(1), NONE, &view(1, 300));
            g.update_util(40_000_000, CpuId(0), NONE, &view(2, 400));
            g.cpus()[1].util
        };
        assert_eq!((util(Generation::V4_9), util(Generation::V4_9Qti)), (0, 400));
    }

    #[test]
    fn the_vendors_has_no_boost_for_io_and_no_high_frequency_unless_told() {
        let util = |generation, iowait_boost_enable, hispeed_freq_khz, util_avg| {
            let mut g =
                Schedutil::new(Tunables { generation, iowait_boost_enable, hispeed_freq_khz, ..Tunables::default() });
            g.start(policy(1), 0, &busy(0));
            let load = Some(WindowLoad { window: 1, moves: 0, nl: 0, pl: 0 });
            g.update_util(10_000_000, CpuId(0), IOWAIT, &Fixed { load, windows: true, ..busy(util_avg) });
            g.cpus()[0].util
        };
        for (generation, enable, then) in [
            (Generation::V4_9, None, 1024),
            (Generation::V4_9, Some(false), 50),
            (Generation::V4_9Qti, None, 50),
            (Generation::V4_9Qti, Some(true), 1024),
        ] {
            assert_eq!(util(generation, enable, None, 50), then, "{generation:?} {enable:?}");
        }
        assert_eq!([None, Some(0)].map(|khz| util(Generation::V4_9Qti, None, khz, 470)), [491, 470]);
    }

    #[test]
    fn the_mean_clock_of_a_window() {
        let mut clock = AverageClock::default();
        clock.window_ends(500, 10);
        assert_eq!(clock.khz, 500);
        clock.runs(500, 13);
        clock.window_ends(1_000, 20);
        assert_eq!(clock.khz, (3 * 500 + 7 * 1_000) / 10);
        clock.window_ends(1_000, 20);
        assert_eq!(clock.khz, 1_000, "a window without length");
    }

    #[test]
    fn a_limit_of_4_9_delays_a_change_and_does_not_cancel_it() {
        for generation in [Generation::V4_9, Generation::V4_9Qti] {
            let up_down_rate_limit_us = (Some(500), Some(20_000));
            let mut g = Schedutil::new(Tunables { generation, up_down_rate_limit_us, ..Tunables::default() });
            g.start(policy(1), 0, &busy(0));
            let mut at =
                |ms: u64, util| g.update_util(ms * 1_000_000, CpuId(0), NONE, &Fixed { windows: true, ..busy(util) });
            assert_eq!(at(30, 700), Some(1_000_000));
            assert_eq!((at(40, 200), at(45, 200)), (None, None), "{generation:?}");
            assert_eq!(at(51, 200), Some(500_000), "{generation:?}");
        }
    }

    #[test]
    fn the_loudest_cpu_of_a_domain_rules_and_the_choice_tells_its_inputs() {
        struct TwoCpus;
        impl FreqView for TwoCpus {
            fn signals(&self, cpu: CpuId) -> CpuSignals {
                busy(if cpu.0 == 1 { 700 } else { 100 }).signals
            }
            fn idle_calls(&self, _: CpuId) -> u64 {
                0
            }
            fn idle_time_us(&self, _: CpuId) -> u64 {
                0
            }
        }
        let mut g = started(Generation::V6_12, 2);
        assert_eq!(g.update_util(10_000_000, CpuId(0), NONE, &TwoCpus), Some(1_000_000));
        assert_eq!((g.choice().util_avg, g.choice().util, g.choice().prev_khz), (700, 875, 500_000));
    }

    #[test]
    fn in_4_9_a_cpu_counts_with_what_it_asked_for_when_it_was_last_heard_of() {
        struct Second(u64);
        impl FreqView for Second {
            fn signals(&self, cpu: CpuId) -> CpuSignals {
                busy(if cpu.0 == 1 { self.0 } else { 100 }).signals
            }
            fn idle_calls(&self, _: CpuId) -> u64 {
                0
            }
            fn idle_time_us(&self, _: CpuId) -> u64 {
                0
            }
        }
        for (generation, sees_it) in [(Generation::V4_9, false), (Generation::V6_1, true)] {
            let mut g = started(generation, 2);
            let mut at = |us: u64, cpu, util| g.update_util(us * 1000, CpuId(cpu), NONE, &Second(util));
            assert_eq!((at(20_000, 1, 300), at(20_500, 0, 300)), (Some(500_000), None));
            // Somebody else puts work on the second CPU, and the first is heard of: 2 ms later, within a tick.
            assert_eq!(at(22_500, 0, 700).is_some(), sees_it, "{generation:?}");
            assert_eq!(at(22_600, 1, 700).is_some(), !sees_it, "{generation:?}");
        }
    }

    #[test]
    fn iowait_boost_doubles_and_fades() {
        // Until 5.1 it begins at the domain's lowest frequency, 500 of 1000 MHz.
        for (generation, expect) in
            [(Generation::V4_20, [256, 512, 512, 256, 0]), (Generation::V5_3, [64, 128, 256, 128, 64])]
        {
            let min = started(generation, 1).iowait_boost_min();
            let mut c = SugovCpu::default();
            let seen: Vec<u64> = (1..=5)
                .map(|ms| {
                    c.iowait_boost(ms * 1_000_000, 4_000_000, min, ms < 4);
                    c.last_update = ms * 1_000_000;
                    c.iowait_apply(ms * 1_000_000, 4_000_000, min, 512)
                })
                .collect();
            assert_eq!(seen, expect, "{generation:?}");
        }
    }

    #[test]
    fn deadline_bandwidth_does_not_wait() {
        let mut g = started(Generation::V6_12, 1);
        assert_eq!(g.update_util(10_000_000, CpuId(0), NONE, &busy(100)), Some(500_000));
        let mut view = busy(100);
        view.signals.bw_dl = 900;
        assert_eq!(g.update_util(10_001_000, CpuId(0), NONE, &view), Some(1_000_000));
    }
}
