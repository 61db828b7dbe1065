//! Timer-events-oriented idle governor: timers are known, so count only how often they are beaten.
//!
//! # Idea
//! The idle states cut the time axis into bins: bin `i` is from the target residency of state `i` to that of the next.
//! The next timer falls into one bin, the sleep as measured into the same one (a **hit**) or a shallower one (an
//! **intercept**: something other than the timer woke the CPU). If hits dominate, trust the timer; if intercepts do,
//! take the state in whose bin, or deeper, more than half of them fell.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | `sleep_length`, `delta_tick` | ns | the CPU's timers, without and with tick | per call; 6.12: if it matters |
//! | `time_span` | ns | clock, from select to reflect | when the CPU wakes |
//! | `last_residency` | ns | the idle loop, measured | when the CPU wakes |
//! | `hits`, `intercepts` per state | 0..=8192, 1024 per event | learned | every sleep, −1/8 and +1024 |
//! | `latency_req` | ns | PM QoS of the run | per call |
//!
//! # Decision
//! Generation 6.12:
//! 1. Learn from the last sleep: if it lasted to the timer (or a safety net ended it: the tick, or the limit of a poll)
//!    it was as long as the timer; otherwise take the residency less half the exit latency. Decay all bins by an
//!    eighth, add 1024 to the hits of the timer's bin if the measured time is in it, else to the intercepts of the
//!    measured one. If the deepest residency is below a tick, `tick_hits` is one more bin beyond it.
//! 2. Candidate: the deepest enabled state. If twice the intercepts below it exceed all events but the hits below it,
//!    go down until the intercepts passed exceed half of those; state 0 ends the search (tick kept, timer still asked,
//!    so that the guess can be judged).
//! 3. No deeper than `latency_req` allows. For state 0, or a residency below 15 µs above a polling state, do not ask
//!    for the timer: keep the tick.
//! 4. Ask for the timer; if it comes before the residency of the candidate, go shallower.
//! 5. If intercepts make up more than 5/8 of all events and the state's residency is below a tick, expect half a tick.
//! 6. Keep the tick if the state polls or the expected time is below a tick, and then choose no state whose residency
//!    exceeds the time to the next event with the tick.
//!
//! With the tick stopped, step 2 goes down only to states with residencies of a tick or more (a wrong choice would last
//! long).
//!
//! 6.1 (since 5.14): asks for the timer first and starts from the state that fits it; it also goes down if more than
//! four of the last nine events were intercepts below the candidate, and takes the middle of a bin as the expected
//! time.
//!
//! 6.3-util: as 6.1, and a CPU whose utilisation exceeds 1/64 of its capacity takes the next shallower state that does not
//! poll (of two states, the shallowest that does not poll, at once).
//!
//! 6.14: as 6.12 with fewer and other counters. The sum of all events is one decaying counter; a sleep that a safety net
//! ended counts as endless; intercepts before the tick are counted apart (`tick_intercepts`, 6.14: those *not* before the
//! tick, a slip that 6.19 mends); `short_idles` counts sleeps below 15 µs. In step 2 the descent takes the shallowest
//! enabled state it reaches where none has over half; with the tick stopped it ends at states of a tick or more. In step 3
//! the timer is not asked for only where half of all sleeps were short, or the latency limit is below 7.5 µs.
//!
//! 5.6: each state has `hits`, `misses` (of the state that fits the timer) and `early_hits` (of a shallower one that
//! fitted the sleep). If misses outweigh hits, take the state with most early hits. Then, if more than half of the last
//! 8 (`intervals`) sleeps were shorter than the expected time, expect their mean instead. Of the states beyond the latency
//! limit it still takes the first, as that kernel did.
//!
//! Worked example (6.12), states 2/2, 10/20, 133/600 µs: hits 0, 0, 2048, intercepts 0, 4096, 0, total 6144. Below the
//! deepest: intercepts 4096, hits 0; 2 × 4096 > 6144 → go down; state 1 has 4096 > 2048 → state 1.
//!
//! # State and cost
//! Two counters per state, a sum and the last sleep per CPU (6.1: and the last nine events; 5.6: three counters, 8
//! times). O(states) per decision; 6.12 does not ask for the timer where it expects to be woken at once.
//!
//! # Where it fails
//! One histogram for all sleeps: two alternating rhythms look like a broad distribution. In 5.6, a wake-up by timer
//! enters the list of times as endless and so wipes out evidence for short sleeps; and where states are few and far
//! apart (POWER9: 100 µs, then 10 ms), everything in between is one bin.
//!
//! # Differences from the kernel
//! None known where vectors exist: bit-exact with `idle_teo-6.12`, `idle_teo-6.1` and `idle_teo-5.6` (5,760 rows each).
//! `intervals` is a constant, 8, in the kernel. 5.14 is taken to decide as 6.1 does. FIDELITY(teo-without-vectors):
//! 6.3-util and 6.14 follow descriptions, no vectors of their code exist; 6.5 to 6.10, and what came after 6.14,
//! are missing.
//!
//! # Source
//! Linux 6.12.117, 6.1.192 and 5.6.4 `drivers/cpuidle/governors/teo.c` (behaviour; vectors of
//! that code). K. Puchalski, "cpuidle: teo: Introduce util-awareness", linux-pm, January 2023 (6.3-util). R. J. Wysocki,
//! "cpuidle: teo: Cleanups and very frequent wakeups handling update", linux-pm, January 2025 (6.14).

use super::{
    CPUIDLE_STATE_MAX, CpuidleState, IdleGovernor, IdleSelection, IdleSleep, IdleView, KTIME_MAX,
    RESIDENCY_THRESHOLD_NS, SleepLength, StateTable, Tunable, is_disabled, list, settle_tick,
};
use wattif_model::ids::CpuId;

/// Tunables of `teo`.
pub const TUNABLES: &[Tunable] = &[
    Tunable {
        name: "generation",
        default: "6.12",
        allowed: &["5.6", "5.14", "6.1", "6.3-util", "6.12", "6.14"],
        doc: "the governor of this kernel; 5.14, the rewrite, decides as 6.1",
    },
    Tunable {
        name: "intervals",
        default: "8",
        allowed: &["8", "16", "32", "64", "128"],
        doc: "generation 5.6: how many sleeps are remembered one by one",
    },
];

/// Weight of one event.
pub(super) const PULSE: u32 = 1024;
pub(super) const DECAY_SHIFT: u32 = 3;
/// Events remembered one by one in 6.1.
const NR_RECENT: usize = 9;
/// Sleeps remembered one by one in 5.6.
pub(super) const INTERVALS: usize = 8;

/// `teo` of a generation (`""` is the default, `5.14` another name for `6.1`) with a history of `intervals` ≥ 1 sleeps,
/// which only generation 5.6 has.
pub fn build(generation: &str, intervals: usize, nr_cpus: usize, tick_ns: u64) -> Option<Box<dyn IdleGovernor>> {
    let tick_ns = tick_ns as i64;
    Some(match generation {
        "5.6" => Box::new(Teo56 { cpus: vec![EarlyHits::new(intervals, tick_ns); nr_cpus] }),
        "5.14" | "6.1" => Box::new(Teo61 { tick_ns, util_aware: false, cpus: vec![Recent::default(); nr_cpus] }),
        "6.3-util" => Box::new(Teo61 { tick_ns, util_aware: true, cpus: vec![Recent::default(); nr_cpus] }),
        "6.14" => Box::new(Teo614 { tick_ns, cpus: vec![ShortIdles::default(); nr_cpus] }),
        "6.12" | "" => Box::new(Teo612 { tick_ns, cpus: vec![TickHits::default(); nr_cpus] }),
        _ => return None,
    })
}

/// The sleep between a `select` and the next, as every generation keeps it. Times are the kernel's 64-bit words: 5.6
/// reads them as unsigned, later ones as signed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sleep {
    /// The clock at `select`, then the time until `reflect`.
    pub time_span_ns: u64,
    /// Time to the next timer as known at `select`.
    pub sleep_length_ns: u64,
    last_residency_ns: u64,
    /// `None`: nothing to learn from.
    last_state_idx: Option<usize>,
}

impl Sleep {
    /// As at boot: the kernel's zeroed memory is a sleep of no length in state 0.
    fn at_boot() -> Sleep {
        Sleep { last_state_idx: Some(0), ..Sleep::default() }
    }

    #[doc(alias = "teo_reflect")]
    pub fn reflect(&mut self, sleep: &IdleSleep, tick_matters: bool) {
        self.last_residency_ns = sleep.residency_ns;
        let Some(entered) = sleep.entered else { return };
        self.last_state_idx = Some(entered);
        // A safety net, not an event, ended the sleep: it might have lasted to the timer.
        if sleep.poll_time_limit || (sleep.got_tick && tick_matters) {
            self.time_span_ns = self.sleep_length_ns;
        } else {
            self.time_span_ns = sleep.clock_ns.wrapping_sub(self.time_span_ns);
        }
    }

    /// The sleep's length for learning: endless if the timer ended it, else less half of the exit latency.
    pub fn measured_ns(&self, states: &StateTable, entered: usize, timer_wakeup: bool) -> u64 {
        if timer_wakeup {
            return u64::MAX;
        }
        let lat_ns = states[entered].exit_latency_ns as u64;
        if self.last_residency_ns >= lat_ns { self.last_residency_ns - lat_ns / 2 } else { self.last_residency_ns / 2 }
    }

    fn timer_wakeup(&self) -> bool {
        self.time_span_ns as i64 >= self.sleep_length_ns as i64
    }
}

/// Would a sleep of this long be bearable: always, unless the tick is stopped and so cannot correct the choice?
fn teo_time_ok(interval_ns: i64, tick_stopped: bool, tick_ns: i64) -> bool {
    !tick_stopped || interval_ns >= tick_ns
}

// ---- 6.12 ----------------------------------------------------------------------------------------------------------

/// Generation 6.12.
#[derive(Clone, Debug)]
pub struct Teo612 {
    tick_ns: i64,
    cpus: Vec<TickHits>,
}

#[derive(Clone, Debug, Default)]
#[doc(alias = "teo_cpu")]
struct TickHits {
    states: StateTable,
    sleep: Sleep,
    bins: [Bin; CPUIDLE_STATE_MAX],
    total: u32,
    tick_hits: u32,
}

#[derive(Clone, Copy, Debug, Default)]
#[doc(alias = "teo_bin")]
struct Bin {
    intercepts: u32,
    hits: u32,
    /// 6.1: intercepts among the last [`NR_RECENT`] events.
    recent: u32,
}

impl Bin {
    /// Decays; returns what is left, to be summed.
    fn decay(&mut self) -> u32 {
        self.hits -= self.hits >> DECAY_SHIFT;
        self.intercepts -= self.intercepts >> DECAY_SHIFT;
        self.hits + self.intercepts
    }
}

/// Decays all bins; returns the sum of what is left, and the bins of the timer and of the sleep.
fn decay(bins: &mut [Bin], states: &StateTable, sleep_length_ns: i64, measured_ns: u64) -> (u32, usize, usize) {
    let (mut total, mut idx_timer, mut idx_duration) = (0, 0, 0);
    for (i, (bin, state)) in bins.iter_mut().zip(states.iter()).enumerate() {
        total += bin.decay();
        if state.target_residency_ns <= sleep_length_ns {
            idx_timer = i;
            if state.target_residency_ns as u64 <= measured_ns {
                idx_duration = i;
            }
        }
    }
    (total, idx_timer, idx_duration)
}

/// The deepest enabled state, and all intercepts; `None` where no state is enabled.
fn deepest(bins: &[Bin], states: &StateTable, disabled: u32, latency_req_ns: i64) -> Option<(Candidate, u32)> {
    let (mut intercepts, mut hits) = (0, 0);
    let mut found = (!is_disabled(disabled, 0)).then(Candidate::default);
    for (i, pair) in bins[..states.len()].windows(2).enumerate() {
        let i = i + 1;
        intercepts += pair[0].intercepts;
        hits += pair[0].hits;
        if is_disabled(disabled, i) {
            continue;
        }
        let c = found.get_or_insert(Candidate { idx0: i, ..Candidate::default() });
        if states[i].exit_latency_ns <= latency_req_ns {
            c.constraint_idx = i;
        }
        *c = Candidate { idx: i, intercepts, hits, ..*c };
    }
    found.map(|c| (c, intercepts + bins[states.len() - 1].intercepts))
}

/// Busier than 1/64 of its capacity?
fn teo_cpu_is_utilized(view: &dyn IdleView) -> bool {
    let (util, capacity) = view.cpu_util();
    util > capacity >> 6
}

/// The candidate state, and what happened in the bins below it.
#[derive(Clone, Copy, Debug, Default)]
struct Candidate {
    /// The first enabled state.
    idx0: usize,
    idx: usize,
    /// The deepest enabled state within the latency limit.
    constraint_idx: usize,
    intercepts: u32,
    hits: u32,
    recent: u32,
}

impl IdleGovernor for Teo612 {
    #[doc(alias = "teo_enable_device")]
    fn enable(&mut self, cpu: CpuId, states: &[CpuidleState]) {
        let (states, sleep) = (StateTable::new(states), Sleep::at_boot());
        self.cpus[cpu.at()] = TickHits { states, sleep, ..TickHits::default() };
    }

    #[doc(alias = "teo_select")]
    fn select(&mut self, cpu: CpuId, view: &mut dyn IdleView) -> IdleSelection {
        let data = &mut self.cpus[cpu.at()];
        if let Some(entered) = data.sleep.last_state_idx.take() {
            data.teo_update(entered, self.tick_ns);
        }
        data.sleep.time_span_ns = view.local_clock();
        // Until asked for.
        data.sleep.sleep_length_ns = KTIME_MAX as u64;
        data.choose(view, self.tick_ns)
    }

    fn reflect(&mut self, cpu: CpuId, sleep: &IdleSleep) {
        let data = &mut self.cpus[cpu.at()];
        let tick_matters = data.sleep.sleep_length_ns as i64 > self.tick_ns;
        data.sleep.reflect(sleep, tick_matters);
    }

    fn debug_state(&self, cpu: CpuId) -> String {
        let data = &self.cpus[cpu.at()];
        let bins = data.bins[..data.states.len()].iter().map(|b| format!("{}:{}", b.hits, b.intercepts));
        format!("{}|{}|{}", list(bins), data.total, data.tick_hits)
    }
}

impl TickHits {
    fn teo_update(&mut self, entered: usize, tick_ns: i64) {
        let sleep_length_ns = self.sleep.sleep_length_ns as i64;
        let measured_ns = self.sleep.measured_ns(&self.states, entered, self.sleep.timer_wakeup());
        let (kept, mut idx_timer, idx_duration) = decay(&mut self.bins, &self.states, sleep_length_ns, measured_ns);
        self.total = kept + PULSE;
        let count = self.states.len();
        if self.states[count - 1].target_residency_ns < tick_ns {
            self.tick_hits -= self.tick_hits >> DECAY_SHIFT;
            self.total += self.tick_hits;
            if tick_ns <= sleep_length_ns {
                // The bin beyond the last state's, which has no intercepts.
                idx_timer = count;
                if tick_ns as u64 <= measured_ns {
                    self.tick_hits += PULSE;
                    return;
                }
            }
        }
        let bin = &mut self.bins[idx_duration];
        if idx_timer == idx_duration {
            bin.hits += PULSE;
        } else {
            bin.intercepts += PULSE;
        }
    }

    fn choose(&mut self, view: &mut dyn IdleView, tick_ns: i64) -> IdleSelection {
        let keep_tick = |state| IdleSelection { state, stop_tick: false, predicted_ns: KTIME_MAX };
        let (disabled, tick_stopped) = (view.disable_mask(), view.tick_stopped());
        if self.states.len() < 2 {
            return keep_tick(0);
        }
        let Some((c, tick_intercepts)) = deepest(&self.bins, &self.states, disabled, view.latency_req_ns()) else {
            return keep_tick(0);
        };
        let mut idx = c.idx;
        if idx == c.idx0 {
            // No choice: only see to it that a shallow state keeps the tick.
            let duration_ns = self.states[idx].target_residency_ns;
            return settle_tick(&self.states, view, tick_ns, (idx, idx), duration_ns, (tick_ns / 2, tick_ns / 2));
        }
        if 2 * c.intercepts > self.total - c.hits {
            idx = self.descend(&c, disabled, tick_stopped, tick_ns);
            if idx == 0 {
                // Asked for only to know later whether the guess was right.
                let SleepLength { sleep_length_ns, .. } = view.sleep_length();
                self.sleep.sleep_length_ns = sleep_length_ns as u64;
                return IdleSelection { state: 0, stop_tick: false, predicted_ns: sleep_length_ns };
            }
        }
        idx = idx.min(c.constraint_idx);
        let soon = self.states[0].polling && self.states[idx].target_residency_ns < RESIDENCY_THRESHOLD_NS;
        if idx == 0 || soon {
            return keep_tick(idx);
        }
        let SleepLength { sleep_length_ns: mut duration_ns, delta_tick_ns } = view.sleep_length();
        self.sleep.sleep_length_ns = duration_ns as u64;
        if self.states[idx].target_residency_ns > duration_ns {
            idx = self.states.find_shallower_state(disabled, idx, duration_ns);
        }
        let mostly_intercepted = tick_intercepts > self.total / 2 + self.total / 8;
        if self.states[idx].target_residency_ns < tick_ns && mostly_intercepted {
            duration_ns = tick_ns / 2;
        }
        settle_tick(&self.states, view, tick_ns, (idx, c.idx0), duration_ns, (delta_tick_ns, delta_tick_ns))
    }

    /// The deepest state below the candidate that would have been right for over half of the early wake-ups.
    fn descend(&self, c: &Candidate, disabled: u32, tick_stopped: bool, tick_ns: i64) -> usize {
        let mut suitable = c.idx;
        let mut passed = 0;
        for i in (0..c.idx).rev() {
            let bearable = teo_time_ok(self.states[i].target_residency_ns, tick_stopped, tick_ns);
            passed += self.bins[i].intercepts;
            if 2 * passed > c.intercepts {
                return if bearable && !is_disabled(disabled, i) { i } else { suitable };
            }
            if is_disabled(disabled, i) {
                continue;
            }
            if bearable {
                suitable = i;
            } else if suitable == c.idx {
                // Too shallow and nothing better found: no alternative.
                break;
            }
        }
        c.idx
    }
}

// ---- 6.14 ----------------------------------------------------------------------------------------------------------

/// A latency limit below this, ns, forces shallow states whatever wakes the CPU.
const LATENCY_THRESHOLD_NS: i64 = RESIDENCY_THRESHOLD_NS / 2;

/// Generation 6.14.
#[derive(Clone, Debug)]
pub struct Teo614 {
    tick_ns: i64,
    cpus: Vec<ShortIdles>,
}

#[derive(Clone, Debug, Default)]
struct ShortIdles {
    states: StateTable,
    sleep: Sleep,
    /// A safety net ended the last sleep.
    artificial_wakeup: bool,
    bins: [Bin; CPUIDLE_STATE_MAX],
    total: u32,
    tick_intercepts: u32,
    short_idles: u32,
}

impl IdleGovernor for Teo614 {
    fn enable(&mut self, cpu: CpuId, states: &[CpuidleState]) {
        let (states, sleep) = (StateTable::new(states), Sleep::at_boot());
        self.cpus[cpu.at()] = ShortIdles { states, sleep, ..ShortIdles::default() };
    }

    fn select(&mut self, cpu: CpuId, view: &mut dyn IdleView) -> IdleSelection {
        let data = &mut self.cpus[cpu.at()];
        if let Some(entered) = data.sleep.last_state_idx.take() {
            data.teo_update(entered, self.tick_ns);
        }
        data.sleep.sleep_length_ns = KTIME_MAX as u64;
        data.choose(view, self.tick_ns)
    }

    fn reflect(&mut self, cpu: CpuId, sleep: &IdleSleep) {
        let data = &mut self.cpus[cpu.at()];
        let tick_matters = data.sleep.sleep_length_ns as i64 > self.tick_ns;
        data.artificial_wakeup = sleep.poll_time_limit || (sleep.got_tick && tick_matters);
        data.sleep.reflect(sleep, tick_matters);
    }

    fn debug_state(&self, cpu: CpuId) -> String {
        let data = &self.cpus[cpu.at()];
        let bins = data.bins[..data.states.len()].iter().map(|b| format!("{}:{}", b.hits, b.intercepts));
        format!("{}|{}|{}|{}", list(bins), data.total, data.tick_intercepts, data.short_idles)
    }
}

impl ShortIdles {
    fn teo_update(&mut self, entered: usize, tick_ns: i64) {
        let measured_ns = self.sleep.measured_ns(&self.states, entered, self.artificial_wakeup);
        let (_, idx_timer, idx_duration) =
            decay(&mut self.bins, &self.states, self.sleep.sleep_length_ns as i64, measured_ns);
        for metric in [&mut self.total, &mut self.tick_intercepts, &mut self.short_idles] {
            *metric -= *metric >> DECAY_SHIFT;
        }
        self.total += PULSE;
        if measured_ns < RESIDENCY_THRESHOLD_NS as u64 {
            self.short_idles += PULSE;
        }
        let bin = &mut self.bins[idx_duration];
        if idx_timer == idx_duration {
            bin.hits += PULSE;
        } else {
            bin.intercepts += PULSE;
            // The slip of this generation: those that end before the tick were meant.
            if tick_ns as u64 <= measured_ns {
                self.tick_intercepts += PULSE;
            }
        }
    }

    fn choose(&mut self, view: &mut dyn IdleView, tick_ns: i64) -> IdleSelection {
        let keep_tick = |state, predicted_ns| IdleSelection { state, stop_tick: false, predicted_ns };
        let (disabled, latency_req_ns) = (view.disable_mask(), view.latency_req_ns());
        if self.states.len() < 2 {
            return keep_tick(0, KTIME_MAX);
        }
        let Some((c, _)) = deepest(&self.bins, &self.states, disabled, latency_req_ns) else {
            return keep_tick(0, KTIME_MAX);
        };
        let mut idx = c.idx;
        if idx == c.idx0 {
            let duration_ns = self.states[idx].target_residency_ns;
            return settle_tick(&self.states, view, tick_ns, (idx, idx), duration_ns, (tick_ns / 2, tick_ns / 2));
        }
        if 2 * c.intercepts > self.total.saturating_sub(c.hits) {
            idx = self.descend(&c, disabled, view.tick_stopped(), tick_ns);
        }
        idx = idx.min(c.constraint_idx);
        let shallow = idx == 0 || self.states[idx].target_residency_ns < RESIDENCY_THRESHOLD_NS;
        if shallow && (2 * self.short_idles >= self.total || latency_req_ns < LATENCY_THRESHOLD_NS) {
            return keep_tick(idx, KTIME_MAX);
        }
        let SleepLength { sleep_length_ns: mut duration_ns, delta_tick_ns } = view.sleep_length();
        self.sleep.sleep_length_ns = duration_ns as u64;
        if idx == 0 {
            return keep_tick(0, duration_ns);
        }
        if self.states[idx].target_residency_ns > duration_ns {
            idx = self.states.find_shallower_state(disabled, idx, duration_ns);
        }
        let mostly_intercepted = self.tick_intercepts > self.total / 2 + self.total / 8;
        if self.states[idx].target_residency_ns < tick_ns && mostly_intercepted {
            duration_ns = tick_ns / 2;
        }
        settle_tick(&self.states, view, tick_ns, (idx, c.idx0), duration_ns, (delta_tick_ns, delta_tick_ns))
    }

    /// The deepest state below the candidate that would have been right for over half of the early wake-ups, or the
    /// shallowest that is bearable.
    fn descend(&self, c: &Candidate, disabled: u32, tick_stopped: bool, tick_ns: i64) -> usize {
        let bearable = |i: &usize| !tick_stopped || self.states[*i].target_residency_ns >= tick_ns;
        let min_idx = (c.idx0..c.idx).find(bearable).unwrap_or(c.idx);
        let (mut idx, mut passed) = (c.idx, 0);
        for i in (min_idx..c.idx).rev() {
            passed += self.bins[i].intercepts;
            if is_disabled(disabled, i) {
                continue;
            }
            idx = i;
            if 2 * passed > c.intercepts {
                break;
            }
        }
        idx
    }
}

// ---- 6.1 -----------------------------------------------------------------------------------------------------------

/// Generation 6.1: the bins of 5.14.
#[derive(Clone, Debug)]
pub struct Teo61 {
    tick_ns: i64,
    /// 6.3-util.
    util_aware: bool,
    cpus: Vec<Recent>,
}

#[derive(Clone, Debug, Default)]
struct Recent {
    states: StateTable,
    sleep: Sleep,
    bins: [Bin; CPUIDLE_STATE_MAX],
    total: u32,
    next_recent_idx: usize,
    /// The bins of the last events; `None` was a hit.
    recent_idx: [Option<usize>; NR_RECENT],
}

impl IdleGovernor for Teo61 {
    fn enable(&mut self, cpu: CpuId, states: &[CpuidleState]) {
        let (states, sleep) = (StateTable::new(states), Sleep::at_boot());
        self.cpus[cpu.at()] = Recent { states, sleep, ..Recent::default() };
    }

    fn select(&mut self, cpu: CpuId, view: &mut dyn IdleView) -> IdleSelection {
        let data = &mut self.cpus[cpu.at()];
        if let Some(entered) = data.sleep.last_state_idx.take() {
            data.teo_update(entered);
        }
        data.sleep.time_span_ns = view.local_clock();
        let SleepLength { sleep_length_ns, delta_tick_ns } = view.sleep_length();
        data.sleep.sleep_length_ns = sleep_length_ns as u64;
        let utilized = self.util_aware && teo_cpu_is_utilized(view);
        let (idx, idx0, duration_ns) = data.choose(view, sleep_length_ns, self.tick_ns, utilized);
        settle_tick(&data.states, view, self.tick_ns, (idx, idx0), duration_ns, (delta_tick_ns, delta_tick_ns))
    }

    fn reflect(&mut self, cpu: CpuId, sleep: &IdleSleep) {
        let data = &mut self.cpus[cpu.at()];
        let tick_matters = data.sleep.sleep_length_ns as i64 > self.tick_ns;
        data.sleep.reflect(sleep, tick_matters);
    }

    fn debug_state(&self, cpu: CpuId) -> String {
        let data = &self.cpus[cpu.at()];
        let bins = data.bins[..data.states.len()].iter().map(|b| format!("{}:{}:{}", b.hits, b.intercepts, b.recent));
        format!("{}|{}|{}", list(bins), data.total, data.next_recent_idx)
    }
}

impl Recent {
    fn teo_update(&mut self, entered: usize) {
        let sleep_length_ns = self.sleep.sleep_length_ns as i64;
        let measured_ns = self.sleep.measured_ns(&self.states, entered, self.sleep.timer_wakeup());
        let (kept, idx_timer, idx_duration) = decay(&mut self.bins, &self.states, sleep_length_ns, measured_ns);
        self.total = kept + PULSE;
        let event = &mut self.recent_idx[self.next_recent_idx];
        self.next_recent_idx = (self.next_recent_idx + 1) % NR_RECENT;
        if let Some(old) = event.take() {
            self.bins[old].recent -= 1;
        }
        let bin = &mut self.bins[idx_duration];
        if idx_timer == idx_duration {
            bin.hits += PULSE;
        } else {
            bin.intercepts += PULSE;
            bin.recent += 1;
            *event = Some(idx_duration);
        }
    }

    /// The state, the first enabled one, and the time expected.
    fn choose(&self, view: &dyn IdleView, duration_ns: i64, tick_ns: i64, utilized: bool) -> (usize, usize, i64) {
        let disabled = view.disable_mask();
        if utilized && self.states.len() < 3 {
            let awake = (0..self.states.len()).find(|i| !is_disabled(disabled, *i) && !self.states[*i].polling);
            if let Some(idx) = awake {
                return (idx, 0, duration_ns);
            }
        }
        let shallow =
            self.states.len() < 2 || (!is_disabled(disabled, 0) && self.states[1].target_residency_ns > duration_ns);
        let found = if shallow { None } else { self.fitting(disabled, duration_ns, view.latency_req_ns()) };
        let Some(c) = found else { return (0, 0, duration_ns) };
        if c.idx == c.idx0 {
            return (c.idx, c.idx0, duration_ns);
        }
        let alt_intercepts = 2 * c.intercepts > self.total - c.hits;
        let alt_recent = c.recent as usize > NR_RECENT / 2;
        let (idx, duration_ns) = if alt_intercepts || alt_recent {
            self.descend(&c, view, duration_ns, tick_ns, (alt_intercepts, alt_recent))
        } else {
            (c.idx, duration_ns)
        };
        let idx = idx.min(c.constraint_idx);
        (if utilized { self.shallower_without_polling(disabled, idx, duration_ns) } else { idx }, c.idx0, duration_ns)
    }

    /// As [`StateTable::find_shallower_state`], but never a state that polls.
    fn shallower_without_polling(&self, disabled: u32, idx: usize, duration_ns: i64) -> usize {
        let mut found = idx;
        for i in (0..idx).rev().filter(|i| !is_disabled(disabled, *i) && !self.states[*i].polling) {
            found = i;
            if self.states[i].target_residency_ns <= duration_ns {
                break;
            }
        }
        found
    }

    /// The deepest enabled state whose residency is within the time to the timer, or the first enabled.
    fn fitting(&self, disabled: u32, duration_ns: i64, latency_req_ns: i64) -> Option<Candidate> {
        let (mut intercepts, mut hits, mut recent) = (0, 0, 0);
        let mut found = (!is_disabled(disabled, 0)).then(Candidate::default);
        for (i, pair) in self.bins[..self.states.len()].windows(2).enumerate() {
            let i = i + 1;
            intercepts += pair[0].intercepts;
            hits += pair[0].hits;
            recent += pair[0].recent;
            if is_disabled(disabled, i) {
                continue;
            }
            let c = found.get_or_insert(Candidate { idx0: i, idx: i, ..Candidate::default() });
            if self.states[i].target_residency_ns > duration_ns {
                break;
            }
            if self.states[i].exit_latency_ns <= latency_req_ns {
                c.constraint_idx = i;
            }
            *c = Candidate { idx: i, intercepts, hits, recent, ..*c };
        }
        found
    }

    /// The deepest state below the candidate that would have been right for over half of the early wake-ups: of all, of
    /// the recent ones, or both, whichever was the reason to go down.
    fn descend(
        &self,
        c: &Candidate,
        view: &dyn IdleView,
        duration_ns: i64,
        tick_ns: i64,
        (alt_intercepts, alt_recent): (bool, bool),
    ) -> (usize, i64) {
        let mut suitable = (c.idx, duration_ns);
        let (mut intercepts, mut recent) = (0, 0);
        for i in (0..c.idx).rev() {
            let disabled = is_disabled(view.disable_mask(), i);
            let span_ns = self.teo_middle_of_bin(i);
            let bearable = teo_time_ok(span_ns, view.tick_stopped(), tick_ns);
            intercepts += self.bins[i].intercepts;
            recent += self.bins[i].recent;
            let enough = (!alt_recent || 2 * recent > c.recent) && (!alt_intercepts || 2 * intercepts > c.intercepts);
            if enough {
                return if bearable && !disabled { (i, span_ns) } else { suitable };
            }
            if disabled {
                continue;
            }
            if bearable {
                suitable = (i, span_ns);
            } else if suitable.0 == c.idx {
                // Too shallow and nothing better found: no alternative.
                break;
            }
        }
        (c.idx, duration_ns)
    }

    fn teo_middle_of_bin(&self, i: usize) -> i64 {
        (self.states[i].target_residency_ns + self.states[i + 1].target_residency_ns) / 2
    }
}

// ---- 5.6 -----------------------------------------------------------------------------------------------------------

/// Generation 5.6.
#[derive(Clone, Debug)]
pub struct Teo56 {
    cpus: Vec<EarlyHits>,
}

/// One CPU of generation 5.6; `teo_weighted` builds on it.
#[derive(Clone, Debug)]
pub(super) struct EarlyHits {
    pub states: StateTable,
    pub tick_ns: i64,
    sleep: Sleep,
    metrics: [Metrics; CPUIDLE_STATE_MAX],
    /// The last sleeps, ns; `u64::MAX` until the timer.
    intervals: Vec<u64>,
    interval_idx: usize,
}

#[derive(Clone, Copy, Debug, Default)]
#[doc(alias = "teo_idle_state")]
struct Metrics {
    early_hits: u32,
    hits: u32,
    misses: u32,
}

/// What was learned from a sleep.
pub(super) struct Lesson {
    pub entered: usize,
    /// The state that fitted the timer.
    pub idx_timer: usize,
    /// The state that fitted the sleep, if a state did.
    pub idx_hit: Option<usize>,
}

/// A choice in the making.
pub(super) struct Draft {
    pub idx: usize,
    /// How long the sleep is expected to last: to the timer, or less where its record or the recent sleeps say so. Unsigned in
    /// this generation: an overdue timer is far away.
    pub duration_ns: u64,
    /// To the timer.
    pub sleep_length_ns: u64,
    pub delta_tick_ns: i64,
}

impl IdleGovernor for Teo56 {
    fn enable(&mut self, cpu: CpuId, states: &[CpuidleState]) {
        self.cpus[cpu.at()].enable(states);
    }
    fn select(&mut self, cpu: CpuId, view: &mut dyn IdleView) -> IdleSelection {
        let data = &mut self.cpus[cpu.at()];
        data.learn();
        let mut draft = data.choose(view);
        data.apply_intervals(view, &mut draft);
        data.settle(view, &draft)
    }
    fn reflect(&mut self, cpu: CpuId, sleep: &IdleSleep) {
        self.cpus[cpu.at()].reflect(sleep);
    }
    fn debug_state(&self, cpu: CpuId) -> String {
        self.cpus[cpu.at()].debug_state()
    }
}

impl EarlyHits {
    pub fn new(intervals: usize, tick_ns: i64) -> EarlyHits {
        assert!(intervals > 0, "a history of no sleeps");
        let (states, sleep, metrics) = (StateTable::default(), Sleep::default(), Default::default());
        EarlyHits { states, tick_ns, sleep, metrics, intervals: vec![u64::MAX; intervals], interval_idx: 0 }
    }

    pub fn enable(&mut self, states: &[CpuidleState]) {
        (self.states, self.sleep) = (StateTable::new(states), Sleep::at_boot());
        self.metrics = Default::default();
        self.intervals.fill(u64::MAX);
        self.interval_idx = 0;
    }

    pub fn reflect(&mut self, sleep: &IdleSleep) {
        let tick_matters = self.sleep.sleep_length_ns > self.tick_ns as u64;
        self.sleep.reflect(sleep, tick_matters);
    }

    pub fn debug_state(&self) -> String {
        let metrics = self.metrics[..self.states.len()].iter();
        let metrics = list(metrics.map(|m| format!("{}:{}:{}", m.hits, m.misses, m.early_hits)));
        format!("{metrics}|{}", list(self.intervals.iter().map(u64::to_string)))
    }

    /// Learns from the last sleep; `None` if there was none, or no state fitted the timer.
    #[doc(alias = "teo_update")]
    pub fn learn(&mut self) -> Option<Lesson> {
        let entered = self.sleep.last_state_idx.take()?;
        let sleep_length_ns = self.sleep.sleep_length_ns;
        let timer_wakeup = self.sleep.time_span_ns >= sleep_length_ns;
        let measured_ns = self.sleep.measured_ns(&self.states, entered, timer_wakeup);
        self.intervals[self.interval_idx] = measured_ns;
        self.interval_idx = (self.interval_idx + 1) % self.intervals.len();

        let (mut idx_timer, mut idx_hit) = (None, None);
        for (i, (m, state)) in self.metrics.iter_mut().zip(self.states.iter()).enumerate() {
            m.early_hits -= m.early_hits >> DECAY_SHIFT;
            if state.target_residency_ns as u64 <= sleep_length_ns {
                idx_timer = Some(i);
                if state.target_residency_ns as u64 <= measured_ns {
                    idx_hit = Some(i);
                }
            }
        }
        let idx_timer = idx_timer?;
        let m = &mut self.metrics[idx_timer];
        m.hits -= m.hits >> DECAY_SHIFT;
        m.misses -= m.misses >> DECAY_SHIFT;
        if idx_hit == Some(idx_timer) {
            m.hits += PULSE;
        } else {
            m.misses += PULSE;
            if let Some(hit) = idx_hit {
                self.metrics[hit].early_hits += PULSE;
            }
        }
        Some(Lesson { entered, idx_timer, idx_hit })
    }

    /// Asks for the timer and chooses by it and by what is known of its state, within the latency limit.
    pub fn choose(&mut self, view: &mut dyn IdleView) -> Draft {
        self.sleep.time_span_ns = view.local_clock();
        let SleepLength { sleep_length_ns, delta_tick_ns } = view.sleep_length();
        let sleep_length_ns = sleep_length_ns as u64;
        self.sleep.sleep_length_ns = sleep_length_ns;
        let mut duration_ns = sleep_length_ns;
        let (mut idx, alternative, constraint_idx) = self.scan(view, duration_ns);
        if let Some(alternative) = alternative {
            idx = Some(alternative);
            duration_ns = self.states[alternative].target_residency_ns as u64;
        }
        let idx = idx.unwrap_or(0).min(constraint_idx);
        Draft { idx, duration_ns, sleep_length_ns, delta_tick_ns }
    }

    /// The deepest enabled state that fits the timer; a better one, if its misses outweigh its hits and a shallower
    /// state has early hits; the first state that is over the latency limit.
    fn scan(&self, view: &dyn IdleView, duration_ns: u64) -> (Option<usize>, Option<usize>, usize) {
        let (disabled, latency_req_ns) = (view.disable_mask(), view.latency_req_ns());
        let time_ok = |i: usize| teo_time_ok(self.states[i].target_residency_ns, view.tick_stopped(), self.tick_ns);
        let (mut idx, mut max_early_idx, mut prev_max_early_idx) = (None, None, None);
        let (mut hits, mut misses, mut early_hits) = (0, 0, 0);
        let mut constraint_idx = self.states.len();
        for (i, (s, m)) in self.states.iter().zip(&self.metrics).enumerate() {
            let too_long = s.target_residency_ns as u64 > duration_ns;
            if is_disabled(disabled, i) {
                if too_long {
                    continue;
                }
                // The candidate stands in for this state, so it is judged by this state's record.
                (hits, misses) = (m.hits, m.misses);
                let Some(candidate) = idx else { continue };
                if early_hits >= m.early_hits {
                    continue;
                }
                if max_early_idx == idx {
                    early_hits = m.early_hits;
                } else if time_ok(candidate) {
                    prev_max_early_idx = max_early_idx;
                    early_hits = m.early_hits;
                    max_early_idx = idx;
                }
                continue;
            }
            if idx.is_none() {
                idx = Some(i);
                (hits, misses) = (m.hits, m.misses);
            }
            if too_long {
                break;
            }
            if s.exit_latency_ns > latency_req_ns {
                constraint_idx = constraint_idx.min(i);
            }
            idx = Some(i);
            (hits, misses) = (m.hits, m.misses);
            if early_hits < m.early_hits && time_ok(i) {
                prev_max_early_idx = max_early_idx;
                early_hits = m.early_hits;
                max_early_idx = Some(i);
            }
        }
        let alternative = if max_early_idx == idx { prev_max_early_idx } else { max_early_idx };
        (idx, alternative.filter(|_| hits <= misses), constraint_idx)
    }

    /// Expects the mean of the short sleeps if most were; returns whether that made the choice shallower.
    pub fn apply_intervals(&self, view: &dyn IdleView, draft: &mut Draft) -> bool {
        if draft.idx == 0 {
            return false;
        }
        let (mut count, mut sum) = (0, 0u64);
        for &val in self.intervals.iter().filter(|v| **v < draft.duration_ns) {
            count += 1;
            // The expected time may be 2^64 - 1, and so may be many that are just shorter.
            sum = sum.wrapping_add(val);
        }
        if count <= self.intervals.len() / 2 {
            return false;
        }
        let avg_ns = sum / count as u64;
        if view.tick_stopped() && avg_ns < self.tick_ns as u64 {
            return false;
        }
        draft.duration_ns = avg_ns;
        let before = draft.idx;
        if self.states[before].target_residency_ns as u64 > avg_ns {
            draft.idx = self.states.find_shallower_state(view.disable_mask(), before, signed(avg_ns));
        }
        draft.idx != before
    }

    /// The tick's part of the decision.
    pub fn settle(&self, view: &dyn IdleView, draft: &Draft) -> IdleSelection {
        // An overdue event is compared as signed, but as unsigned, endless, when a state is looked for that fits it.
        let fit_ns = signed(draft.delta_tick_ns as u64);
        let (idx, duration_ns) = ((draft.idx, 0), signed(draft.duration_ns));
        settle_tick(&self.states, view, self.tick_ns, idx, duration_ns, (draft.delta_tick_ns, fit_ns))
    }
}

/// An unsigned time for comparisons with residencies, which are far below the limit.
fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeView, slept, states};
    use super::*;

    const CPU: CpuId = CpuId(0);

    fn after_sleeps(generation: &str, us: &[u64]) -> Box<dyn IdleGovernor> {
        let mut teo = build(generation, INTERVALS, 1, 4_000_000).expect("a known generation");
        teo.enable(CPU, &states(&[(2, 2), (10, 20), (133, 600)]));
        for us in us {
            let chosen = teo.select(CPU, &mut FakeView::timer_in(60_000_000));
            teo.reflect(CPU, &slept(chosen.state, us * 1000, us * 1000));
        }
        teo
    }

    #[test]
    fn trusts_the_timer_until_it_is_beaten() {
        for generation in ["5.6", "5.14", "6.1", "6.3-util", "6.12", "6.14"] {
            let select = |us: &[u64]| {
                let chosen = after_sleeps(generation, us).select(CPU, &mut FakeView::timer_in(60_000_000));
                (chosen.state, chosen.stop_tick)
            };
            assert_eq!(select(&[]), (2, true), "{generation}: nothing learned");
            assert_eq!(select(&[60_000; 20]), (2, true), "{generation}: timers come as promised");
            // 6.14 does not see that the tick would have come later: its slip.
            let keeps_tick = generation != "6.14";
            assert_eq!(select(&[200; 20]), (1, !keeps_tick), "{generation}: always woken after 200 µs");
        }
    }

    #[test]
    fn the_manuals_worked_example() {
        let bin = |hits, intercepts| Bin { hits, intercepts, recent: 0 };
        let mut data =
            TickHits { states: StateTable::new(&states(&[(2, 2), (10, 20), (133, 600)])), ..TickHits::default() };
        data.bins[..3].copy_from_slice(&[bin(0, 0), bin(0, 4096), bin(2048, 0)]);
        data.total = 6144;
        assert_eq!(data.choose(&mut FakeView::timer_in(60_000_000), 4_000_000).state, 1);
    }

    #[test]
    fn a_utilised_cpu_sleeps_one_state_shallower() {
        let state = |util, table: &[(i64, i64)]| {
            let mut teo = build("6.3-util", INTERVALS, 1, 4_000_000).expect("a known generation");
            teo.enable(CPU, &states(table));
            let mut view = FakeView::timer_in(60_000_000);
            view.cpu_util = util;
            teo.select(CPU, &mut view).state
        };
        let three = [(0, 0), (10, 20), (133, 600)];
        assert_eq!([state(16, &three), state(17, &three)], [2, 1], "a 64th of 1024 is 16");
        assert_eq!(
            [state(17, &three[..2]), state(17, &[(2, 2), (10, 20)])],
            [1, 0],
            "the shallowest that does not poll"
        );
    }

    /// 6.12 does not ask for the timer where it takes a shallow state beside a polling one; 6.14 asks unless most sleeps
    /// were short.
    #[test]
    fn the_timer_is_asked_for_unless_sleeps_are_short() {
        let queries = |us: u64| {
            let mut teo = build("6.14", INTERVALS, 1, 4_000_000).expect("a known generation");
            teo.enable(CPU, &states(&[(0, 0), (2, 2), (10, 20), (133, 600)]));
            let mut view = FakeView::timer_in(60_000_000);
            for _ in 0..20 {
                view.queries = 0;
                let chosen = teo.select(CPU, &mut view);
                teo.reflect(CPU, &slept(chosen.state, us * 1000, 0));
            }
            view.queries
        };
        assert_eq!([queries(5), queries(100)], [0, 1]);
    }

    /// All sums are of pulses that decay together, so the running total never falls below any of them.
    #[test]
    fn the_running_total_bounds_its_parts() {
        let mut data = ShortIdles {
            states: StateTable::new(&states(&[(0, 0), (2, 2), (10, 20), (133, 40_000)])),
            ..ShortIdles::default()
        };
        for step in 0..1000u64 {
            let span = [3_000, 900_000, 20_000_000][(step * step % 7 % 3) as usize];
            data.sleep = Sleep { sleep_length_ns: 60_000_000, last_residency_ns: span, ..data.sleep };
            data.teo_update((step % 4) as usize, 4_000_000);
            assert!(data.short_idles <= data.total && data.tick_intercepts <= data.total);
        }
        assert!(data.total > 7 * PULSE && data.short_idles > 0 && data.tick_intercepts > 0);
    }

    #[test]
    fn a_longer_history_takes_longer_to_be_convinced() {
        let state_after = |intervals, sleeps| {
            let mut data = EarlyHits::new(intervals, 4_000_000);
            data.enable(&states(&[(2, 2), (10, 20), (133, 600)]));
            for _ in 0..sleeps {
                data.learn();
                data.choose(&mut FakeView::timer_in(60_000_000));
                data.reflect(&slept(2, 300_000, 300_000));
            }
            data.learn();
            // As if hits dominated: only the list of sleeps speaks.
            let (duration_ns, sleep_length_ns, delta_tick_ns) = (60_000_000, 60_000_000, 4_000_000);
            let mut draft = Draft { idx: 2, duration_ns, sleep_length_ns, delta_tick_ns };
            data.apply_intervals(&FakeView::timer_in(60_000_000), &mut draft);
            draft.idx
        };
        assert_eq!([state_after(8, 4), state_after(8, 5)], [2, 1]);
        assert_eq!([state_after(16, 8), state_after(16, 9)], [2, 1]);
    }
}
