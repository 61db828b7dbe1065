//! Menu idle governor: the next timer, corrected by experience, or the rhythm of the last sleeps.
//!
//! # Idea
//! A sleep rarely lasts until the next timer, but by how much it falls short is a habit of the workload. So learn, for
//! each order of magnitude of the timer distance, the mean ratio of slept to expected time, and multiply. Besides, if
//! the last eight sleeps were nearly equally long, the next will be as well. The smaller of the two guesses is the
//! prediction, and the deepest state that pays within it is taken.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | `sleep_length`, `delta_tick` | ns | the CPU's timers, without and with tick | per call; from 6.6 on if it matters |
//! | `last_residency` | ns | the idle loop, measured | when the CPU wakes |
//! | `correction_factor[bucket]` | 0..=8192 is 0..=1 | learned | one bucket per sleep |
//! | `intervals` | 8 × µs, `u32` | learned | one per sleep |
//! | `nr_iowait` | tasks | run queue | per call, up to 6.6 |
//! | `latency_req` | ns | PM QoS of the run | per call |
//!
//! # Decision
//! 1. Learn from the last sleep: take off the exit latency (halve short sleeps; a tick that interrupted a longer wait
//!    counts as 45 ms, a poll that hit its limit as the whole wait), cap at the wait expected, then move that bucket's
//!    factor by an eighth towards slept/expected (towards 1 from 50 ms on) and note the time in `intervals`.
//! 2. Typical interval: the mean of `intervals` (those below 36 minutes) if the deviation is ≤ 20 µs, or below a sixth
//!    of the mean of at least six; otherwise discard the longest and try again, as long as more than six are left.
//! 3. 6.6, and 6.12 with the tick running: a typical interval ≤ 15 µs is the prediction, and timers are not asked; the
//!    next one is taken to be endlessly far. Otherwise (up to 6.1: always) predict min(typical, sleep length × factor of its
//!    bucket). With the tick stopped, a prediction below a tick is replaced by the sleep length: being wrong would last
//!    long. In 6.6 that may be the endless one.
//! 4. Up to 6.6, with the tick running: the tolerated exit latency is at most prediction / (1 + 10 × tasks in I/O).
//! 5. Deepest enabled state with residency ≤ prediction and exit latency ≤ limit. Polling gives way to the next enabled
//!    state if its residency is before the timer and (5.3 to 6.6) its exit latency within the limit, or (6.12) its exit
//!    latency within the prediction and its residency below 15 µs.
//! 6. Keep the tick if the state polls or the prediction is below a tick, and then no state whose residency exceeds the
//!    time to the next tick. 5.3 (4.20 to 5.3) keeps it too where a limit of exit latencies ended the search at a state whose own
//!    residency is below a tick, or leaves the first state alone.
//! 7. 4.10 (up to 4.16) has no say in the tick. It leaves polling for the next state, whatever it predicts, if the next timer is
//!    more than 20 µs and that state's residency away and its exit latency is within the limit of PM QoS.
//!
//! Worked example, states 2/2, 10/20, 133/600 µs (latency/residency), timer in 60 ms, factor 6272/8192: 60 ms × 0.766 =
//! 46 ms → the deepest. If the last eight sleeps were 18, 20, 19, 18, 20, 19, 18, 19 µs: mean 18 µs → the first, tick
//! kept.
//!
//! # State and cost
//! 6 (up to 6.6: 12) factors, 8 intervals and the last expectation per CPU. O(states + 3 × 8) per decision and, up to 6.1,
//! one timer query; 6.6 and 6.12 save the query on CPUs that wake every few microseconds.
//!
//! # Where it fails
//! Factors mix all causes of early wake-ups, so two alternating rhythms average to a sleep that never happens. Outliers
//! are forgiven only when long: two short sleeps among six equal ones hide the rhythm. The latency limit up to 6.6
//! keeps a CPU with a task in I/O shallow however long the device takes. 6.6 sends a CPU in a fast rhythm whose tick is
//! stopped to the deepest state, the next timer being unknown.
//!
//! # Differences from the kernel
//! None known where vectors exist: bit-exact with `idle_menu-6.12` and `idle_menu-6.1` (5,760 rows each). As in the kernel,
//! no timer at all (`KTIME_MAX`) overflows the product with the factor and predicts 0. FIDELITY(menu-without-vectors): 6.6
//! follows the description of its patch; so do 4.10 and 5.3, which besides count in ns where those kernels count in µs. One state alone
//! is no choice: 5.3 stops the tick as kernels without an idle driver do. FIDELITY(menu-3.13): 3.13 is `4.10`.
//!
//! # Source
//! Linux 6.12.117 and 6.1.192 `drivers/cpuidle/governors/menu.c` (behaviour; vectors of that code). R. J. Wysocki,
//! "cpuidle: menu: Skip tick_nohz_get_sleep_length() call in some cases", commit 5484e31bbbff (6.6). What ends `4.10` and `5.3`: the
//! series of 4.17 (554c8aa8ecad) and 4.20, and "cpuidle: menu: Allow tick to be stopped if PM QoS is used", commit 32b91ca15353 (5.4).

use super::{
    CpuidleState, IdleGovernor, IdleSelection, IdleSleep, IdleView, KTIME_MAX, RESIDENCY_THRESHOLD_NS, SleepLength,
    StateTable, Tunable, is_disabled, list, settle_tick,
};
use wattif_model::ids::CpuId;

/// Tunables of `menu`.
pub const TUNABLES: &[Tunable] = &[Tunable {
    name: "generation",
    default: "6.12",
    allowed: &["4.10", "5.3", "6.1", "6.6", "6.12"],
    doc: "the governor of this kernel; up to 6.6 it counts I/O waiters, up to 6.1 it always asks for the next timer, 5.3 (from 4.20) keeps the tick where a limit of exit latencies binds, 4.10 (to 4.16) has no say in the tick and hardly ever polls",
}];

/// Buckets of the timer distance: below 10 µs, 100 µs, 1 ms, 10 ms, 100 ms, and above.
const BUCKETS: usize = 6;
const INTERVALS: usize = 8;
/// Unity of the correction factors is `RESOLUTION * DECAY`.
const RESOLUTION: u64 = 1024;
const DECAY: u64 = 8;
const UNITY: u64 = RESOLUTION * DECAY;
const NSEC_PER_USEC: u64 = 1000;
/// A timer that is nearer than this lets a CPU poll, ns (4.10).
const POLLING_THRESHOLD_NS: i64 = 20_000;
/// Sleeps from here on count as perfectly predicted, ns.
const MAX_INTERESTING: u64 = 50_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Generation {
    V4_10,
    V5_3,
    V6_1,
    V6_6,
    V6_12,
}

/// The governor; see the module's manual.
#[derive(Clone, Debug)]
#[doc(alias = "menu_governor")]
pub struct Menu {
    generation: Generation,
    tick_ns: i64,
    cpus: Vec<MenuDevice>,
}

#[derive(Clone, Debug, Default)]
#[doc(alias = "menu_device")]
struct MenuDevice {
    states: StateTable,
    /// The last sleep, until it has been learned from.
    sleep: Option<IdleSleep>,
    /// Time in the last state, 0 when the driver refused it or at boot.
    last_residency_ns: u64,
    next_timer_ns: u64,
    bucket: usize,
    correction_factor: [u32; 2 * BUCKETS],
    /// µs.
    intervals: [u32; INTERVALS],
    interval_ptr: usize,
}

/// The guess and what it was made from.
struct Prediction {
    predicted_ns: i64,
    delta_tick_ns: i64,
    latency_req_ns: i64,
}

/// `menu` of a generation; `""` is the default.
pub fn build(generation: &str, nr_cpus: usize, tick_ns: u64) -> Option<Box<dyn IdleGovernor>> {
    let generation = match generation {
        "4.10" => Generation::V4_10,
        "5.3" => Generation::V5_3,
        "6.1" => Generation::V6_1,
        "6.6" => Generation::V6_6,
        "6.12" | "" => Generation::V6_12,
        _ => return None,
    };
    Some(Box::new(Menu { generation, tick_ns: tick_ns as i64, cpus: vec![MenuDevice::default(); nr_cpus] }))
}

impl IdleGovernor for Menu {
    #[doc(alias = "menu_enable_device")]
    fn enable(&mut self, cpu: CpuId, states: &[CpuidleState]) {
        let correction_factor = [UNITY as u32; 2 * BUCKETS];
        let states = StateTable::new(states);
        self.cpus[cpu.at()] = MenuDevice { states, correction_factor, ..MenuDevice::default() };
    }

    #[doc(alias = "menu_select")]
    fn select(&mut self, cpu: CpuId, view: &mut dyn IdleView) -> IdleSelection {
        let data = &mut self.cpus[cpu.at()];
        data.learn(self.generation, self.tick_ns as u64);
        let generation = self.generation;
        let prediction = match generation {
            Generation::V4_10 | Generation::V5_3 | Generation::V6_1 => data.predict_6_1(generation, view, self.tick_ns),
            Generation::V6_6 | Generation::V6_12 => data.predict_6_6(generation, view, self.tick_ns),
        };
        match prediction {
            Some(prediction) if generation == Generation::V4_10 => data.choose_4_10(view, &prediction),
            Some(prediction) => data.choose(generation, self.tick_ns, view, prediction),
            // State 0 whatever happens: keep the tick only if it polls, or (5.3) if there are others.
            None => {
                let keep = data.states[0].polling || generation == Generation::V5_3 && data.states.len() > 1;
                IdleSelection { state: 0, stop_tick: !keep, predicted_ns: data.next_timer_ns as i64 }
            }
        }
    }

    #[doc(alias = "menu_reflect")]
    fn reflect(&mut self, cpu: CpuId, sleep: &IdleSleep) {
        let data = &mut self.cpus[cpu.at()];
        data.last_residency_ns = sleep.residency_ns;
        if sleep.entered.is_some() {
            data.sleep = Some(*sleep);
        }
    }

    fn debug_state(&self, cpu: CpuId) -> String {
        let data = &self.cpus[cpu.at()];
        let buckets = if self.generation == Generation::V6_12 { BUCKETS } else { 2 * BUCKETS };
        let factors = list(data.correction_factor[..buckets].iter().map(u32::to_string));
        let intervals = list(data.intervals.iter().map(u32::to_string));
        format!("{}|{}|{factors}|{intervals}", data.next_timer_ns, data.bucket)
    }
}

impl MenuDevice {
    fn learn(&mut self, generation: Generation, tick_ns: u64) {
        match self.sleep.take() {
            Some(sleep) => self.menu_update(&sleep, tick_ns),
            // The driver refused the state: nothing older may look like a rhythm. A rule of 2025 and its backports.
            None if self.last_residency_ns == 0 && generation != Generation::V6_6 => self.push_interval(u32::MAX),
            None => {}
        }
    }

    fn menu_update(&mut self, sleep: &IdleSleep, tick_ns: u64) {
        let measured_ns = self.measured_ns(sleep, tick_ns).min(self.next_timer_ns);
        let factor = &mut self.correction_factor[self.bucket];
        *factor -= *factor / DECAY as u32;
        *factor += if self.next_timer_ns > 0 && measured_ns < MAX_INTERESTING {
            (RESOLUTION * measured_ns / self.next_timer_ns) as u32
        } else {
            RESOLUTION as u32
        };
        // The kernel's conversion truncates to 32 bits.
        self.push_interval((measured_ns / NSEC_PER_USEC) as u32);
    }

    fn measured_ns(&self, sleep: &IdleSleep, tick_ns: u64) -> u64 {
        let state = &self.states[sleep.entered.unwrap_or(0)];
        if sleep.got_tick && self.next_timer_ns > tick_ns {
            // Without the tick, which the governor itself has kept, the sleep would have been long.
            return 9 * MAX_INTERESTING / 10;
        }
        if state.polling && sleep.poll_time_limit {
            return self.next_timer_ns;
        }
        let exit_latency_ns = state.exit_latency_ns as u64;
        if sleep.residency_ns > 2 * exit_latency_ns {
            sleep.residency_ns - exit_latency_ns
        } else {
            sleep.residency_ns / 2
        }
    }

    fn push_interval(&mut self, us: u32) {
        self.intervals[self.interval_ptr] = us;
        self.interval_ptr = (self.interval_ptr + 1) % INTERVALS;
    }

    /// `None`: state 0 will do.
    fn predict_6_1(&mut self, generation: Generation, view: &mut dyn IdleView, tick_ns: i64) -> Option<Prediction> {
        let nr_iowaiters = view.nr_iowait();
        let delta_tick_ns = self.query_timer(view, nr_iowaiters);
        let mut latency_req_ns = view.latency_req_ns();
        let shallowest_will_do = match generation {
            Generation::V4_10 => latency_req_ns == 0,
            _ => self.shallowest_will_do(view, latency_req_ns),
        };
        if shallowest_will_do {
            return None;
        }
        let timer_us = self.corrected_timer_us();
        // C multiplies in 64 bits: two u32 widened.
        let mut predicted_ns =
            i64::from(timer_us.min(self.typical_interval(|min, _| min >= timer_us))) * NSEC_PER_USEC as i64;
        if view.tick_stopped() {
            if predicted_ns < tick_ns {
                predicted_ns = self.next_timer_ns as i64;
            }
        } else {
            latency_req_ns = latency_req_ns.min(predicted_ns / performance_multiplier(nr_iowaiters));
        }
        Some(Prediction { predicted_ns, delta_tick_ns, latency_req_ns })
    }

    /// `None`: state 0 will do.
    fn predict_6_6(&mut self, generation: Generation, view: &mut dyn IdleView, tick_ns: i64) -> Option<Prediction> {
        let mut predicted_ns = i64::from(self.typical_interval(|_, max| max == 0)) * NSEC_PER_USEC as i64;
        let tick_stopped = view.tick_stopped();
        let of_6_12 = generation == Generation::V6_12;
        let nr_iowaiters = if of_6_12 { 0 } else { view.nr_iowait() };
        let delta_tick_ns = if predicted_ns > RESIDENCY_THRESHOLD_NS || (of_6_12 && tick_stopped) {
            let delta_tick_ns = self.query_timer(view, nr_iowaiters);
            predicted_ns = predicted_ns.min(i64::from(self.corrected_timer_us()) * NSEC_PER_USEC as i64);
            delta_tick_ns
        } else {
            // Nobody asked: take the next timer as far away and the tick as half a period away.
            self.next_timer_ns = KTIME_MAX as u64;
            self.bucket = which_bucket(self.next_timer_ns, nr_iowaiters);
            tick_ns / 2
        };
        let mut latency_req_ns = view.latency_req_ns();
        if self.shallowest_will_do(view, latency_req_ns) {
            return None;
        }
        if tick_stopped {
            if predicted_ns < tick_ns {
                predicted_ns = self.next_timer_ns as i64;
            }
        } else if !of_6_12 {
            latency_req_ns = latency_req_ns.min(predicted_ns / performance_multiplier(nr_iowaiters));
        }
        Some(Prediction { predicted_ns, delta_tick_ns, latency_req_ns })
    }

    /// Notes the time to the next timer and its bucket; returns the time to the next event including the tick.
    fn query_timer(&mut self, view: &mut dyn IdleView, nr_iowaiters: u32) -> i64 {
        let SleepLength { sleep_length_ns, delta_tick_ns } = view.sleep_length();
        self.next_timer_ns = sleep_length_ns.max(0) as u64;
        self.bucket = which_bucket(self.next_timer_ns, nr_iowaiters);
        if sleep_length_ns < 0 { 0 } else { delta_tick_ns }
    }

    fn shallowest_will_do(&self, view: &dyn IdleView, latency_req_ns: i64) -> bool {
        if self.states.len() <= 1 || latency_req_ns == 0 {
            return true;
        }
        let next = &self.states[1];
        let useless = (self.next_timer_ns as i64) < next.target_residency_ns || latency_req_ns < next.exit_latency_ns;
        useless && !is_disabled(view.disable_mask(), 0)
    }

    /// Timer distance × factor, rounded to µs. Both steps wrap as in C: `KTIME_MAX` overflows 64 bits, 71 minutes 32.
    fn corrected_timer_us(&self) -> u32 {
        let factor = u64::from(self.correction_factor[self.bucket]);
        let scaled = self.next_timer_ns.wrapping_mul(factor).wrapping_add(UNITY * NSEC_PER_USEC / 2);
        (scaled / (UNITY * NSEC_PER_USEC)) as u32
    }

    /// The rhythm of the last sleeps, µs, or `u32::MAX`; also where `useless` says so of the shortest and the longest
    /// one still considered. Outliers are dropped from the top only.
    #[doc(alias = "get_typical_interval")]
    fn typical_interval(&self, useless: impl Fn(u32, u32) -> bool) -> u32 {
        let mut thresh = i32::MAX as u32;
        // Of those kept: how many, their sum, and the sum of their squares modulo 2^64. Which are kept is not predictable,
        // so there is no branch on it.
        let (mut divisor, mut sum, mut squares) = (0u64, 0u64, 0u64);
        for v in self.intervals {
            let kept = u64::from(v <= thresh);
            let v = kept * u64::from(v);
            (divisor, sum, squares) = (divisor + kept, sum + v, squares.wrapping_add(v * v));
        }
        loop {
            let min =
                self.intervals.into_iter().map(|v| if v <= thresh { v } else { u32::MAX }).fold(u32::MAX, u32::min);
            let max = self.intervals.into_iter().map(|v| if v <= thresh { v } else { 0 }).fold(0, u32::max);
            if useless(min, max) {
                return u32::MAX;
            }
            let avg = by_count(sum, divisor);
            // The sum of (v - avg)² from its moments: exact, because it is below 8 × 2^60 whatever wraps on the way.
            let deviations =
                squares.wrapping_sub((2 * avg).wrapping_mul(sum)).wrapping_add(divisor.wrapping_mul(avg * avg));
            let variance = by_count(deviations, divisor);
            if is_typical(avg, variance, divisor) {
                return avg as u32;
            }
            if divisor * 4 <= INTERVALS as u64 * 3 {
                return u32::MAX;
            }
            // Drop the largest, however often it is there.
            let dropped = self.intervals.into_iter().map(|v| u64::from(v == max)).sum::<u64>();
            let outlier = u64::from(max);
            (divisor, sum) = (divisor - dropped, sum - dropped * outlier);
            squares = squares.wrapping_sub(dropped.wrapping_mul(outlier * outlier));
            thresh = max - 1;
        }
    }

    fn choose(&self, generation: Generation, tick_ns: i64, view: &dyn IdleView, p: Prediction) -> IdleSelection {
        let Prediction { mut predicted_ns, delta_tick_ns, latency_req_ns } = p;
        let (disabled, tick_stopped) = (view.disable_mask(), view.tick_stopped());
        let mut chosen = None;
        for (i, s) in self.states.iter().enumerate().filter(|(i, _)| !is_disabled(disabled, *i)) {
            let idx = *chosen.get_or_insert(i);
            let current = &self.states[idx];
            let too_slow = s.exit_latency_ns > latency_req_ns;
            if too_slow && generation == Generation::V6_12 {
                break;
            }
            if s.target_residency_ns > predicted_ns {
                if current.polling && self.beats_polling(generation, s, predicted_ns, latency_req_ns) {
                    predicted_ns = s.target_residency_ns;
                    chosen = Some(i);
                } else if predicted_ns >= tick_ns && !tick_stopped {
                    // The state found is shallow: keep the tick and look again when it comes.
                    predicted_ns = current.target_residency_ns;
                } else if predicted_ns >= tick_ns {
                    // No tick will correct a shallow choice; so prefer this one if the next event is that far.
                    let deeper = current.target_residency_ns < tick_ns && s.target_residency_ns <= delta_tick_ns;
                    return IdleSelection { state: if deeper { i } else { idx }, stop_tick: true, predicted_ns };
                }
                break;
            }
            if too_slow {
                if generation == Generation::V5_3 {
                    predicted_ns = current.target_residency_ns;
                }
                break;
            }
            chosen = Some(i);
        }
        let (idx, delta) = ((chosen.unwrap_or(0), 0), (delta_tick_ns, delta_tick_ns));
        settle_tick(&self.states, view, tick_ns, idx, predicted_ns, delta)
    }

    /// Nobody asks about the tick. Where the first state polls, the next one is where the search begins, unless a timer is near.
    fn choose_4_10(&self, view: &dyn IdleView, p: &Prediction) -> IdleSelection {
        let (disabled, states) = (view.disable_mask(), &self.states);
        let leaves_polling = |next: &CpuidleState| {
            let near = POLLING_THRESHOLD_NS.max(next.target_residency_ns);
            self.next_timer_ns as i64 > near
                && view.latency_req_ns() > next.exit_latency_ns
                && !is_disabled(disabled, 1)
        };
        let first = usize::from(states[0].polling && states.get(1).is_some_and(leaves_polling));
        let enabled = (first + 1..states.len()).filter(|i| !is_disabled(disabled, *i));
        let pays = |i: &usize| {
            states[*i].target_residency_ns <= p.predicted_ns && states[*i].exit_latency_ns <= p.latency_req_ns
        };
        let state = enabled.take_while(pays).last().unwrap_or(first);
        IdleSelection { state, stop_tick: true, predicted_ns: p.predicted_ns }
    }

    /// Rather this state than polling, although its residency exceeds the prediction?
    fn beats_polling(&self, generation: Generation, s: &CpuidleState, predicted_ns: i64, latency_req_ns: i64) -> bool {
        let before_timer = s.target_residency_ns as u64 <= self.next_timer_ns;
        let cheap = match generation {
            Generation::V4_10 | Generation::V5_3 | Generation::V6_1 | Generation::V6_6 => {
                s.exit_latency_ns <= latency_req_ns
            }
            Generation::V6_12 => s.exit_latency_ns <= predicted_ns && s.target_residency_ns < RESIDENCY_THRESHOLD_NS,
        };
        before_timer && cheap
    }
}

/// How many times its exit latency a sleep must last.
fn performance_multiplier(nr_iowaiters: u32) -> i64 {
    1 + 10 * i64::from(nr_iowaiters)
}

fn which_bucket(duration_ns: u64, nr_iowaiters: u32) -> usize {
    let waiting = if nr_iowaiters > 0 { BUCKETS } else { 0 };
    let limits = [10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];
    waiting + limits.iter().position(|l| duration_ns < *l).unwrap_or(BUCKETS - 1)
}

/// `n / count` for a count of intervals, without the division: the reciprocal is rounded up by less than `count` / 2^64, so
/// the product is exact for `n` below 2^61.
fn by_count(n: u64, count: u64) -> u64 {
    const RECIPROCALS: [u64; INTERVALS + 1] = {
        let mut table = [0; INTERVALS + 1];
        let mut d = 2;
        while d <= INTERVALS {
            table[d] = u64::MAX / d as u64 + 1;
            d += 1;
        }
        table
    };
    match count {
        2..=8 if n < 1 << 61 => ((u128::from(n) * u128::from(RECIPROCALS[count as usize])) >> 64) as u64,
        _ => n / count,
    }
}

/// Small deviation in absolute terms (20 µs), or below a sixth of the mean of at least six samples.
fn is_typical(avg: u64, variance: u64, divisor: u64) -> bool {
    let relative = divisor * 4 >= INTERVALS as u64 * 3;
    variance <= u64::MAX / 36 && ((relative && avg * avg > variance * 36) || variance <= 400)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeView, slept, states};
    use super::*;

    const CPU: CpuId = CpuId(0);

    fn after_sleeps(generation: &str, us: &[u64]) -> Box<dyn IdleGovernor> {
        let mut menu = build(generation, 1, 4_000_000).expect("a known generation");
        menu.enable(CPU, &states(&[(2, 2), (10, 20), (133, 600)]));
        for us in us {
            menu.select(CPU, &mut FakeView::timer_in(60_000_000));
            menu.reflect(CPU, &slept(0, us * 1000 + 2000, 0));
        }
        menu
    }

    #[test]
    fn the_manuals_worked_example() {
        for generation in ["5.3", "6.1", "6.6", "6.12"] {
            let mut menu = after_sleeps(generation, &[18, 20, 19, 18, 20, 19, 18, 19]);
            let chosen = menu.select(CPU, &mut FakeView::timer_in(60_000_000));
            assert_eq!((chosen.state, chosen.stop_tick, chosen.predicted_ns), (0, false, 18_000), "{generation}");
            let irregular = [100, 50_000, 900, 59_000, 4_000, 20_000, 300, 35_000];
            let unsure = after_sleeps(generation, &irregular).select(CPU, &mut FakeView::timer_in(60_000_000));
            assert_eq!((unsure.state, unsure.stop_tick), (2, true), "{generation}");
        }
    }

    #[test]
    fn only_the_old_generation_asks_for_timers_in_a_fast_rhythm() {
        for (generation, queries) in [("6.1", 1), ("6.6", 0), ("6.12", 0)] {
            let mut view = FakeView::timer_in(60_000_000);
            after_sleeps(generation, &[5; 8]).select(CPU, &mut view);
            assert_eq!(view.queries, queries, "{generation}");
        }
    }

    #[test]
    fn in_a_fast_rhythm_6_6_asks_no_timer_with_the_tick_stopped_either() {
        let stopped = |generation| {
            let mut view = FakeView { tick_stopped: true, ..FakeView::timer_in(300_000) };
            let chosen = after_sleeps(generation, &[5; 8]).select(CPU, &mut view);
            (view.queries, chosen.state, chosen.predicted_ns)
        };
        assert_eq!(stopped("6.12"), (1, 1, 300_000), "the timer is before the deepest state's residency");
        assert_eq!(stopped("6.6"), (0, 2, KTIME_MAX), "as if no timer came");
    }

    #[test]
    fn waiters_for_devices_limit_the_exit_latency_until_6_11() {
        let irregular = [100, 50_000, 900, 59_000, 4_000, 20_000, 300, 35_000];
        let state = |generation, nr_iowait| {
            let mut view = FakeView { nr_iowait, ..FakeView::timer_in(1_400_000) };
            after_sleeps(generation, &irregular).select(CPU, &mut view).state
        };
        // 1.4 ms / 11 is below the 133 µs of the deepest state.
        let all = ["4.10", "5.3", "6.1", "6.6", "6.12"];
        assert_eq!(all.map(|of| state(of, 0)), [2; 5]);
        assert_eq!(all.map(|of| state(of, 1)), [1, 1, 1, 1, 2]);
    }

    /// 4.20 to 5.3: who may sleep no deeper looks again at the next tick.
    #[test]
    fn a_limit_of_exit_latencies_keeps_the_tick_until_5_3() {
        let stops = |generation, latency_us: i64, nr_iowait| {
            let view = FakeView::timer_in(60_000_000);
            let mut view = FakeView { latency_req_ns: latency_us * 1000, nr_iowait, ..view };
            let chosen = after_sleeps(generation, &[50_000; 8]).select(CPU, &mut view);
            (chosen.state, chosen.stop_tick)
        };
        for (latency_us, state) in [(50, 1), (5, 0), (0, 0), (500, 2)] {
            let kept = state < 2;
            assert_eq!(stops("5.3", latency_us, 0), (state, !kept), "{latency_us} µs");
            assert_eq!(stops("6.1", latency_us, 0), (state, true), "{latency_us} µs");
        }
        let alone = |generation| {
            let mut menu = build(generation, 1, 4_000_000).expect("a known generation");
            menu.enable(CPU, &states(&[(2, 2)]));
            menu.select(CPU, &mut FakeView::timer_in(60_000_000)).stop_tick
        };
        assert!(alone("5.3") && alone("6.1"), "one state is no choice");
    }

    /// Up to 4.16 a timer within 20 µs, or a limit from outside, is what makes a CPU poll; no prediction does.
    #[test]
    fn old_kernels_hardly_ever_poll() {
        let state = |generation, timer_us: i64, latency_us: i64, nr_iowait| {
            let mut menu = build(generation, 1, 4_000_000).expect("a known generation");
            menu.enable(CPU, &states(&[(0, 0), (10, 15), (133, 600)]));
            for _ in 0..8 {
                menu.select(CPU, &mut FakeView::timer_in(60_000_000));
                menu.reflect(CPU, &slept(0, 1000, 0));
            }
            let view = FakeView::timer_in(timer_us * 1000);
            menu.select(CPU, &mut FakeView { latency_req_ns: latency_us * 1000, nr_iowait, ..view }).state
        };
        assert_eq!(["4.10", "6.1"].map(|of| state(of, 60_000, 2000, 0)), [1, 0], "1 µs predicted, 10 µs to leave");
        assert_eq!([15, 20, 21].map(|timer_us| state("4.10", timer_us, 2000, 3)), [0, 0, 1]);
        assert_eq!([10, 11].map(|latency_us| state("4.10", 60_000, latency_us, 0)), [0, 1]);
    }

    /// 6.6 leaves polling as 6.1 does: whatever the residency of the next state, if its latency is allowed.
    #[test]
    fn polling_gives_way_as_in_6_1() {
        let state = |generation| {
            let mut menu = build(generation, 1, 4_000_000).expect("a known generation");
            menu.enable(CPU, &states(&[(0, 0), (10, 40), (133, 600)]));
            for _ in 0..8 {
                menu.select(CPU, &mut FakeView::timer_in(60_000_000));
                menu.reflect(CPU, &slept(0, 20_000, 0));
            }
            menu.select(CPU, &mut FakeView::timer_in(60_000_000)).state
        };
        assert_eq!(["6.1", "6.6", "6.12"].map(state), [1, 1, 0]);
    }

    #[test]
    fn division_by_a_count_is_exact() {
        for count in 1..=8 {
            let near = |n: u64| n.saturating_sub(20)..n.saturating_add(20);
            let ends = [20, 1 << 31, (1 << 34) / 3, 1 << 60, (1 << 61) - 20, 1 << 61, 1 << 63, u64::MAX - 20];
            for n in ends.into_iter().flat_map(near) {
                assert_eq!(by_count(n, count), n / count, "{n} / {count}");
            }
        }
    }

    #[test]
    fn buckets_are_decades_of_time() {
        assert_eq!([9_999, 10_000, 999_999, 99_999_999, 100_000_000].map(|ns| which_bucket(ns, 0)), [0, 1, 2, 4, 5]);
        assert_eq!(which_bucket(9_999, 1), 6);
    }
}
