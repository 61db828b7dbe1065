//! Weighted TEO: where recent sleeps overrule the timer, draw the state by what choices led to before.
//!
//! # Idea
//! Below the decision of [`teo`](super::teo) 5.6, keep for each state a row of weights: after entering it, how often
//! would which state have been right? When the recent sleeps say that the choice is too deep, do not take the state
//! that fits their mean but draw one by the weights of its row, so that a habit of being wrong corrects itself.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | those of `teo` 5.6 | | | |
//! | `weight[entered][state]` | 1/100 %, 0..=10000 | learned | the entered state's row, after each sleep |
//! | random number | `u32` | the run's own stream | only when a draw is made |
//!
//! # Decision
//! 1. Learn as `teo` 5.6. Then in the row of the state entered: the state that would have been right (on a hit the
//!    entered one, else the one with the early hit, else the timer's) gains `LR` % of its weight unless that reaches
//!    100 − `LR` %; every other loses `LR` % of its weight divided by the number of others, unless that falls to `LR`
//!    %.
//! 2. Choose as `teo` 5.6 up to the step of recent sleeps.
//! 3. If that step changed the state: sum up its row over the enabled states up to it, and take the first whose
//!    cumulative weight exceeds a uniform random part (of 100) of the sum.
//! 4. The tick as in `teo` 5.6.
//!
//! | `generation` | `LR` | start: diagonal, others | draw |
//! |---|---|---|---|
//! | `v1` (February 2020) | 5 | 70 %, 30 % shared | takes off *cumulative* weights while walking; falls off the end |
//! | `v2` (May 2020) | 10 | 60 %, 40 % shared | as meant |
//! | `ideal` (the idea as it was presented) | 10 | 70 %, 30 % shared | over the whole row |
//!
//! `ideal`: a row always sums to 100 %. The state that would have been right is the one that fitted the sleep. If it is
//! the one entered, that gains `LR` points, taken equally from the others; otherwise `LR` % of the entered state's weight
//! moves to it. The draw is over all enabled states of the row, deeper ones included, within the latency limit and the
//! time to the timer. (The postings take from `teo` 5.6 that a limit lets the first state pass that breaks it.)
//!
//! What the idea left open is a tunable of all three: `learning_rate`; `rate` = dynamic (twice the row's recent share of
//! misses times `LR`, 1 to 49 %: a row that is right learns slowly); `aging_ms` (weights go back to equal ones with
//! this time constant); `pick` = argmax (the heaviest state instead of a draw); `start` = table (the share of the others
//! falls with the distance of their residencies, in powers of two).
//!
//! The matrix in words, for a CPU two of whose three sleeps last 50 µs and the third 15 ms, in no order (`ideal`, states
//! snooze, stop0, stop2, stop4 of a POWER9; each row after hundreds of sleeps in its state, mean of many such CPUs, percent):
//!
//! | entered | snooze | stop0 | stop2 | stop4 | in words |
//! |---|---:|---:|---:|---:|---|
//! | snooze | 70 | 10 | 10 | 10 | never entered: nothing learned |
//! | stop0 | 0 | 92 | 0 | 8 | "when I chose stop0 it was right; now and then stop4 would have been" |
//! | stop2 | 10 | 57 | 0 | 33 | "stop2 is never right: mostly stop0 would have been, else stop4" |
//! | stop4 | 0 | 51 | 0 | 49 | "stop4 is right in one case of three, in the others stop0 would have been" |
//!
//! A miss takes from the weight of the state entered alone, a hit gives to it alone: what is never right loses everything in
//! its own row, and in the rows of others what hits take from it.
//!
//! A trace with decisions has the matrix over time: one `wattif_idle_weights` record of the row learned, per sleep.
//!
//! Worked example (v2, 4 states): entered state 2, right was 1: row 1333 1333 6000 1333 → 1289 1466 5800 1289. A draw
//! of 40 for state 1: cumulative 1289, 2755; 40 % is 1102 < 1289 → state 0. `ideal`: weights 12, 7, 45, 36 are
//! cumulative 12, 19, 64, 100; a draw of 60 is state 2.
//!
//! # State and cost
//! As `teo` 5.6, and states² weights per CPU. O(states) per decision.
//!
//! # Where it fails
//! - Changes are relative, so rows do not keep their sum: sums from 58 % to 303 % were seen on seven states (90 % a state is
//!   the cap), up to 438 % with aging, which draws weights towards their own row's mean, and so towards the cap.
//! - Floors above the start: with seven states the others start at 5.00 % (v1; floor 5 %) or 6.66 % (v2; floor 10 %),
//!   and can only rise.
//! - A hit rewards the state entered even when it was shallower than the timer's: shallow choices feed themselves.
//! - The draw never goes deeper than the state drawn for (v2), although the row may say so.
//! - The draw yields the position among *enabled* states, taken for a state number: wrong where one in the middle is
//!   disabled.
//! - Weights do not converge to frequencies. In v1 and v2 each is multiplied by 1 + `LR` when its state was right and by
//!   1 − `LR`/(states − 1) when not, so it drifts to its cap or its floor, whichever side of ln(1/(1 − `LR`/(states −
//!   1))) / ln((1 + `LR`)/(1 − `LR`/(states − 1))), about 1/states, the frequency is on. In `ideal` the diagonal of a
//!   state that is right with probability q settles at q/(1 − q), and at 100 % from a half on.
//!
//! # Differences from the kernel
//! None known for `v1` and `v2` without other tunables: bit-exact with `idle_wteo-v1` and `idle_wteo-v2` (5,760 rows
//! each). The patches draw from `get_random_bytes`; here it is a seeded stream. `ideal` was never posted.
//!
//! # Source
//! P. R. Sampat, "Weighted approach to gather and use history in TEO governor", linux-pm, 22 February 2020 (v1) and 11
//! May 2020 (v2), on Linux 5.6 (behaviour; vectors of that code). `ideal`: P. R. Sampat, "Timer events oriented CPU idle
//! governor and its future" (2020).

use super::teo::{Draft, EarlyHits, Lesson};
use super::{
    CPUIDLE_STATE_MAX, CpuidleState, IdleGovernor, IdleSelection, IdleSleep, IdleView, StateTable, Tunable,
    is_disabled, list,
};
use wattif_model::ids::CpuId;
use wattif_model::trace::IdleWeights;

/// Tunables of `teo_weighted`.
pub const TUNABLES: &[Tunable] = &[
    Tunable {
        name: "generation",
        default: "v2",
        allowed: &["v1", "v2", "ideal"],
        doc: "the posting of the patch, or the idea as it was presented",
    },
    Tunable {
        name: "intervals",
        default: "8",
        allowed: &["8", "16", "32", "64", "128"],
        doc: "how many sleeps are remembered one by one",
    },
    Tunable {
        name: "learning_rate",
        default: "auto",
        allowed: &["auto", "1..=49"],
        doc: "percent that a weight changes by; auto: 5 in v1, 10 else",
    },
    Tunable {
        name: "rate",
        default: "fixed",
        allowed: &["fixed", "dynamic"],
        doc: "dynamic: learning_rate times twice the row's recent share of misses",
    },
    Tunable {
        name: "aging_ms",
        default: "0",
        allowed: &["0..=1000000"],
        doc: "time constant with which weights go back to equal ones, ms; 0: never",
    },
    Tunable {
        name: "pick",
        default: "draw",
        allowed: &["draw", "argmax"],
        doc: "a random state by its weight, or the heaviest",
    },
    Tunable {
        name: "start",
        default: "flat",
        allowed: &["flat", "table"],
        doc: "first weights of the other states: equal, or by the distance of their residencies",
    },
];

/// Weights of `ideal` are 1/1,000,000 %, so that rounding does not show.
const FULL: u32 = 100_000_000;
/// One in the share of misses.
const ONE: u32 = 1024;

/// Which rules learn and draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Semantics {
    V1,
    V2,
    Ideal,
}

/// What can be tuned beyond the generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Sleeps remembered one by one, ≥ 1.
    pub intervals: usize,
    /// Percent, 1..=49; `None`: the generation's.
    pub learning_rate: Option<u32>,
    /// The rate follows the row's recent misses.
    pub dynamic: bool,
    /// Time constant of forgetting, ns; 0: never.
    pub aging_ns: u64,
    /// Take the heaviest state instead of drawing one.
    pub argmax: bool,
    /// Start from the distances of residencies.
    pub from_table: bool,
}

impl Default for Tuning {
    fn default() -> Tuning {
        let intervals = super::teo::INTERVALS;
        Tuning { intervals, learning_rate: None, dynamic: false, aging_ns: 0, argmax: false, from_table: false }
    }
}

/// The rules of a run.
#[derive(Clone, Copy, Debug)]
struct Rules {
    semantics: Semantics,
    /// 1/100 %.
    rate: u32,
    /// Weight at the start on the diagonal, 1/100 %.
    diagonal: u32,
    tuning: Tuning,
}

impl Rules {
    /// What a row sums to at the start.
    fn whole(&self) -> u32 {
        if self.semantics == Semantics::Ideal { FULL } else { 10_000 }
    }
}

type Row = [u32; CPUIDLE_STATE_MAX];

/// The governor; see the module's manual.
#[derive(Clone, Debug)]
pub struct TeoWeighted {
    rules: Rules,
    cpus: Vec<Weighted>,
}

#[derive(Clone, Debug)]
struct Weighted {
    teo: EarlyHits,
    weights: [Row; CPUIDLE_STATE_MAX],
    /// Recent share of misses by row, of [`ONE`].
    misses: Row,
    /// Up to when each row has been aged, ns.
    aged_ns: [u64; CPUIDLE_STATE_MAX],
    /// The row that the last `select` has changed.
    learned: Option<usize>,
}

/// `teo_weighted` of a generation (`""` is the default).
pub fn build(generation: &str, tuning: Tuning, nr_cpus: usize, tick_ns: u64) -> Option<Box<dyn IdleGovernor>> {
    let (semantics, rate, diagonal) = match generation {
        "v1" => (Semantics::V1, 5, 7000),
        "v2" | "" => (Semantics::V2, 10, 6000),
        "ideal" => (Semantics::Ideal, 10, 7000),
        _ => return None,
    };
    let rate = tuning.learning_rate.unwrap_or(rate) * 100;
    assert!((100..=4900).contains(&rate), "a learning rate of {rate} hundredths of a percent");
    let cpu = Weighted {
        teo: EarlyHits::new(tuning.intervals, tick_ns as i64),
        weights: Default::default(),
        misses: Default::default(),
        aged_ns: Default::default(),
        learned: None,
    };
    let rules = Rules { semantics, rate, diagonal, tuning };
    Some(Box::new(TeoWeighted { rules, cpus: vec![cpu; nr_cpus] }))
}

impl IdleGovernor for TeoWeighted {
    fn enable(&mut self, cpu: CpuId, states: &[CpuidleState]) {
        let data = &mut self.cpus[cpu.at()];
        data.teo.enable(states);
        data.weights = initial_weights(&self.rules, &data.teo.states);
        (data.misses, data.aged_ns) = ([ONE / 2; CPUIDLE_STATE_MAX], Default::default());
    }

    fn select(&mut self, cpu: CpuId, view: &mut dyn IdleView) -> IdleSelection {
        let data = &mut self.cpus[cpu.at()];
        let lesson = data.teo.learn();
        data.learned = lesson.as_ref().map(|l| l.entered);
        if let Some(lesson) = lesson {
            data.learn(&self.rules, view.local_clock(), &lesson);
        }
        let mut draft = data.teo.choose(view);
        if self.rules.semantics == Semantics::Ideal {
            data.within_latency(view, &mut draft);
        }
        if data.teo.apply_intervals(view, &mut draft) {
            data.age(&self.rules, draft.idx, view.local_clock());
            match self.rules.semantics {
                Semantics::Ideal => data.draw_ideal(&self.rules, view, &mut draft),
                _ => data.draw(&self.rules, view, &mut draft),
            }
        }
        data.teo.settle(view, &draft)
    }

    fn reflect(&mut self, cpu: CpuId, sleep: &IdleSleep) {
        self.cpus[cpu.at()].teo.reflect(sleep);
    }

    fn learned(&self, cpu: CpuId) -> Option<IdleWeights> {
        let data = &self.cpus[cpu.at()];
        let entered = data.learned?;
        let row = &data.weights[entered];
        let weights = if self.rules.semantics == Semantics::Ideal { hundredths(row) } else { *row };
        let weights = weights.map(|w| w.min(u32::from(u16::MAX)) as u16);
        Some(IdleWeights { entered: entered as u8, states: data.teo.states.len() as u8, weights })
    }

    fn debug_state(&self, cpu: CpuId) -> String {
        let data = &self.cpus[cpu.at()];
        let count = data.teo.states.len();
        let row = |r: &Row| r[..count].iter().map(u32::to_string).collect::<Vec<_>>().join(":");
        format!("{}|{}", data.teo.debug_state(), list(data.weights[..count].iter().map(row)))
    }
}

fn initial_weights(rules: &Rules, states: &StateTable) -> [Row; CPUIDLE_STATE_MAX] {
    let count = states.len();
    let diagonal = rules.whole() / 10_000 * rules.diagonal;
    let rest = rules.whole() - diagonal;
    let mut weights = [[0; CPUIDLE_STATE_MAX]; CPUIDLE_STATE_MAX];
    for (i, row) in weights[..count].iter_mut().enumerate() {
        let near = |j: usize| if rules.tuning.from_table { nearness(states, i, j) } else { 1 };
        let sum: u64 = (0..count).filter(|j| *j != i).map(near).sum();
        for (j, weight) in row[..count].iter_mut().enumerate() {
            *weight = if j == i { diagonal } else { (u64::from(rest) * near(j) / sum) as u32 };
        }
        if rules.semantics == Semantics::Ideal {
            // A single state has no others to share with; a division leaves a rest.
            row[i] = FULL - (row[..count].iter().sum::<u32>() - row[i]);
        }
    }
    weights
}

/// The nearer the residencies of two states in powers of two, the more.
fn nearness(states: &StateTable, i: usize, j: usize) -> u64 {
    let magnitude = |i: usize| (states[i].target_residency_ns.max(0) + 1).ilog2();
    (1 << 16) / u64::from(1 + magnitude(i).abs_diff(magnitude(j)))
}

impl Weighted {
    /// Changes the row of the state entered, all of its enabled and disabled states.
    fn learn(&mut self, rules: &Rules, now_ns: u64, lesson: &Lesson) {
        let row = lesson.entered;
        self.age(rules, row, now_ns);
        let count = self.teo.states.len();
        let right = right_state(rules.semantics, lesson);
        let rate = if rules.tuning.dynamic { self.dynamic_rate(rules.rate, row, right == row) } else { rules.rate };
        match rules.semantics {
            Semantics::Ideal => learn_ideal(rate, &mut self.weights[row][..count], row, right),
            _ => learn(rules.rate, rate, &mut self.weights[row][..count], right),
        }
    }

    fn dynamic_rate(&mut self, rate: u32, row: usize, hit: bool) -> u32 {
        let misses = &mut self.misses[row];
        *misses -= *misses >> 3;
        *misses += if hit { 0 } else { ONE >> 3 };
        (2 * rate * *misses / ONE).clamp(100, 4900)
    }

    /// Moves a row towards equal weights, in steps of at least 1/64 of the time constant.
    fn age(&mut self, rules: &Rules, row: usize, now_ns: u64) {
        let tau_ns = rules.tuning.aging_ns;
        let elapsed_ns = now_ns.saturating_sub(self.aged_ns[row]);
        if tau_ns == 0 || elapsed_ns < tau_ns / 64 {
            return;
        }
        self.aged_ns[row] = now_ns;
        let kept = decay_exp(elapsed_ns, tau_ns);
        let weights = &mut self.weights[row][..self.teo.states.len()];
        let sum: u64 = weights.iter().map(|w| u64::from(*w)).sum();
        let mean = sum / weights.len() as u64;
        for w in weights.iter_mut() {
            *w = ((u64::from(*w) * kept + mean * (UNITY - kept)) / UNITY) as u32;
        }
        if rules.semantics == Semantics::Ideal {
            // What rounding took.
            weights[row] += FULL - weights.iter().sum::<u32>();
        }
    }

    fn draw(&self, rules: &Rules, view: &mut dyn IdleView, draft: &mut Draft) {
        let disabled = view.disable_mask();
        let row = &self.weights[draft.idx];
        if rules.tuning.argmax {
            draft.idx = heaviest(row, disabled, draft.idx).unwrap_or(draft.idx);
            return;
        }
        let rnd = view.random_u32();
        let mut cumulative = Row::default();
        let count = accumulate(row, &self.teo.states, disabled, draft.idx, &mut cumulative);
        let list = &cumulative[..count];
        let sum = list.last().copied().unwrap_or(0);
        let walks_off = rules.semantics == Semantics::V1;
        let position = if walks_off { walk_v1(rnd, sum, list) } else { walk_v2(rnd, sum, list) };
        // Falling off the end leaves the loop's counter: one beyond the list.
        draft.idx = position.unwrap_or(count);
    }

    /// A shallower state where that of `teo` 5.6 is the first beyond the latency limit.
    fn within_latency(&self, view: &dyn IdleView, draft: &mut Draft) {
        let (disabled, latency_req_ns) = (view.disable_mask(), view.latency_req_ns());
        let fits = |i: &usize| self.teo.states[*i].exit_latency_ns <= latency_req_ns && !is_disabled(disabled, *i);
        if self.teo.states[draft.idx].exit_latency_ns > latency_req_ns {
            draft.idx = (0..draft.idx).rev().find(fits).unwrap_or(draft.idx);
        }
    }

    /// Over the whole row, but no state that is too slow to leave or sure to be interrupted by the timer.
    fn draw_ideal(&self, rules: &Rules, view: &mut dyn IdleView, draft: &mut Draft) {
        let latency_req_ns = view.latency_req_ns();
        let fits = |s: &CpuidleState| {
            s.exit_latency_ns <= latency_req_ns && s.target_residency_ns as u64 <= draft.sleep_length_ns
        };
        let deepest = self.teo.states.iter().rposition(fits).unwrap_or(0).max(draft.idx);
        // A deeper state may be quicker to leave.
        let too_long = |mask, (i, s)| if i == draft.idx || fits(s) { mask } else { mask | 1u32 << i };
        let disabled = self.teo.states.iter().enumerate().fold(view.disable_mask(), too_long);
        let row = &self.weights[draft.idx];
        let picked = if rules.tuning.argmax {
            heaviest(row, disabled, deepest)
        } else {
            walk_ideal(view.random_u32(), row, disabled, deepest)
        };
        draft.idx = picked.unwrap_or(draft.idx);
        draft.duration_ns = draft.duration_ns.max(self.teo.states[draft.idx].target_residency_ns as u64);
    }
}

/// The state that would have been right.
fn right_state(semantics: Semantics, lesson: &Lesson) -> usize {
    if semantics == Semantics::Ideal {
        return lesson.idx_hit.unwrap_or(0);
    }
    let hit = lesson.idx_hit == Some(lesson.idx_timer);
    if hit { lesson.entered } else { lesson.idx_hit.unwrap_or(lesson.idx_timer) }
}

/// Rules of the postings; `bound` (the fixed rate) sets floor and cap. Rates in 1/100 %.
fn learn(bound: u32, rate: u32, row: &mut [u32], right: usize) {
    let others = (row.len() as u32 - 1).max(1);
    for (i, weight) in row.iter_mut().enumerate() {
        if i == right {
            let gain = rate * *weight / 10_000;
            if *weight + gain < 10_000 - bound {
                *weight += gain;
            }
        } else {
            let loss = rate * *weight / (others * 10_000);
            if *weight - loss > bound {
                *weight -= loss;
            }
        }
    }
}

/// The sum of the row stays [`FULL`].
fn learn_ideal(rate: u32, row: &mut [u32], entered: usize, right: usize) {
    if right != entered {
        let moved = (u64::from(row[entered]) * u64::from(rate) / 10_000) as u32;
        row[entered] -= moved;
        row[right] += moved;
        return;
    }
    let mut wanted = FULL / 10_000 * rate;
    // Equal parts of those that still have something; what one cannot give the others do.
    loop {
        let givers = row.iter().enumerate().filter(|(i, w)| *i != entered && **w > 0).count() as u32;
        if givers == 0 || wanted < givers {
            return;
        }
        let part = wanted / givers;
        for i in (0..row.len()).filter(|i| *i != entered) {
            let given = row[i].min(part);
            row[i] -= given;
            row[entered] += given;
            wanted -= given;
        }
    }
}

const UNITY: u64 = 1 << 16;

/// e^(−t/τ) in 1/65536, by the third order of its reciprocal: within 2 % up to τ, and 0 far beyond.
fn decay_exp(t_ns: u64, tau_ns: u64) -> u64 {
    let x = (u128::from(t_ns) * u128::from(UNITY) / u128::from(tau_ns.max(1))).min(u128::from(64 * UNITY)) as u64;
    let (x2, x3) = (x * x / UNITY, x * x / UNITY * x / UNITY);
    UNITY * UNITY / (UNITY + x + x2 / 2 + x3 / 6)
}

/// A row of `ideal` in 1/100 %, to the nearest; what rounding took or gave is the heaviest state's.
fn hundredths(row: &Row) -> Row {
    let unit = FULL / 10_000;
    let mut rounded = row.map(|w| (w + unit / 2) / unit);
    let heaviest = (0..row.len()).max_by_key(|i| row[*i]).unwrap_or(0);
    rounded[heaviest] = (10_000 + rounded[heaviest]).saturating_sub(rounded.iter().sum());
    rounded
}

/// The enabled state up to `deepest` with the greatest weight, the shallowest of equals; `None` where none has any.
fn heaviest(row: &Row, disabled: u32, deepest: usize) -> Option<usize> {
    let enabled = (0..=deepest.min(CPUIDLE_STATE_MAX - 1)).filter(|i| !is_disabled(disabled, *i));
    enabled.rev().filter(|i| row[*i] > 0).max_by_key(|i| row[*i])
}

/// The first enabled state whose cumulative weight exceeds that part of the sum which `rnd` is of 2³².
fn walk_ideal(rnd: u32, row: &Row, disabled: u32, deepest: usize) -> Option<usize> {
    let enabled = || (0..=deepest).filter(|i| !is_disabled(disabled, *i));
    let sum: u64 = enabled().map(|i| u64::from(row[i])).sum();
    let mut left = (u64::from(rnd) * sum) >> 32;
    enabled().find(|i| match left.checked_sub(u64::from(row[*i])) {
        None => true,
        Some(rest) => {
            left = rest;
            false
        }
    })
}

/// Cumulative weights of the enabled states up to `idx`; returns how many there are.
fn accumulate(row: &Row, states: &StateTable, disabled: u32, idx: usize, out: &mut Row) -> usize {
    let (mut count, mut sum) = (0, 0);
    for i in (0..=idx.min(states.len() - 1)).filter(|i| !is_disabled(disabled, *i)) {
        sum += row[i];
        out[count] = sum;
        count += 1;
    }
    count
}

fn walk_v2(rnd: u32, sum: u32, cumulative: &[u32]) -> Option<usize> {
    let part = rnd % 100 * sum / 100;
    cumulative.iter().position(|w| part < *w)
}

/// The remainder is signed and wraps to 32 bits in the product; the walk takes off cumulative weights.
fn walk_v1(rnd: u32, sum: u32, cumulative: &[u32]) -> Option<usize> {
    let mut part = ((rnd as i32 % 100) as u32).wrapping_mul(sum) / 100;
    for (i, w) in cumulative.iter().enumerate() {
        if part < *w {
            return Some(i);
        }
        part -= w;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::NO_LATENCY_LIMIT;
    use super::super::testing::{FakeView, slept, states};
    use super::*;

    fn rules(semantics: Semantics, tuning: Tuning) -> Rules {
        let (rate, diagonal) = match semantics {
            Semantics::V1 => (500, 7000),
            Semantics::V2 => (1000, 6000),
            Semantics::Ideal => (1000, 7000),
        };
        Rules { semantics, rate, diagonal, tuning }
    }

    fn table() -> StateTable {
        StateTable::new(&states(&[(0, 0), (2, 2), (10, 20), (133, 600)]))
    }

    fn start(semantics: Semantics) -> [Row; CPUIDLE_STATE_MAX] {
        initial_weights(&rules(semantics, Tuning::default()), &table())
    }

    #[test]
    fn the_manuals_worked_example() {
        let mut weights = start(Semantics::V2);
        let lesson = Lesson { entered: 2, idx_timer: 3, idx_hit: Some(1) };
        learn(1000, 1000, &mut weights[2][..4], right_state(Semantics::V2, &lesson));
        assert_eq!(weights[2][..4], [1289, 1466, 5800, 1289]);

        let mut cumulative = Row::default();
        assert_eq!(accumulate(&weights[2], &table(), 0, 1, &mut cumulative), 2);
        assert_eq!(cumulative[..2], [1289, 2755]);
        assert_eq!([walk_v2(40, 2755, &cumulative[..2]), walk_v2(50, 2755, &cumulative[..2])], [Some(0), Some(1)]);

        let mut row = Row::default();
        row[..4].copy_from_slice(&[12, 7, 45, 36]);
        let of_100 = |n: u64| ((n << 32) / 100 + 1) as u32;
        assert_eq!(
            [11, 12, 18, 19, 60, 64, 99].map(|n| walk_ideal(of_100(n), &row, 0, 3).unwrap()),
            [0, 1, 1, 2, 2, 3, 3]
        );
        assert_eq!(walk_ideal(of_100(60), &row, 0b0100, 3), Some(3), "33 of 55, the third state disabled");
        assert_eq!(
            (heaviest(&row, 0, 3), heaviest(&row, 0, 1), heaviest(&row, 0b0100, 3)),
            (Some(2), Some(0), Some(3))
        );
    }

    /// A state that is shallower than the deepest one within the limits, but takes longer to leave or to pay for itself.
    #[test]
    fn the_ideal_draw_is_of_states_within_the_limits_alone() {
        let table = StateTable::new(&states(&[(0, 0), (2, 2), (500, 600), (100, 20)]));
        let rules = rules(Semantics::Ideal, Tuning::default());
        let mut data = Weighted {
            teo: EarlyHits::new(8, 4_000_000),
            weights: [[FULL / 4; CPUIDLE_STATE_MAX]; CPUIDLE_STATE_MAX],
            misses: Default::default(),
            aged_ns: Default::default(),
            learned: None,
        };
        data.teo.enable(&table);
        let drawn = |latency_req_ns: i64, sleep_length_ns: i64| {
            let draw = |random| {
                let mut view = FakeView { random, latency_req_ns, ..FakeView::timer_in(sleep_length_ns) };
                let sleep_length_ns = sleep_length_ns as u64;
                let mut draft = Draft { idx: 1, duration_ns: 0, sleep_length_ns, delta_tick_ns: 0 };
                data.draw_ideal(&rules, &mut view, &mut draft);
                draft.idx
            };
            (0..64u32).map(|i| draw(i << 26)).collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>()
        };
        assert_eq!(drawn(NO_LATENCY_LIMIT, 10_000_000), [0, 1, 2, 3]);
        assert_eq!(drawn(200_000, 10_000_000), [0, 1, 3], "500 us are too long");
        assert_eq!(drawn(NO_LATENCY_LIMIT, 300_000), [0, 1, 3], "the timer comes too early");
    }

    #[test]
    fn weights_stay_within_their_bounds() {
        let mut row = start(Semantics::V2)[0];
        (0..100).for_each(|_| learn(1000, 1000, &mut row[..4], 0));
        assert!(row[0] < 9000 && row[1..4].iter().all(|w| *w > 1000), "{row:?}");
    }

    #[test]
    fn the_first_postings_walk_falls_off_the_end() {
        let cumulative = [500, 1000, 1500];
        assert_eq!(walk_v2(99, 1500, &cumulative), Some(2));
        // 1485, less 500 is 985 < 1000: one too shallow.
        assert_eq!(walk_v1(99, 1500, &cumulative), Some(1));
        // A negative remainder wraps to 42 million.
        assert_eq!(walk_v1(-53i32 as u32, 1500, &cumulative), None);
    }

    /// A stream of independent numbers below 10,000.
    fn independent() -> impl FnMut() -> u32 {
        let mut rng = crate::engine::rng::Rng::stream(1, "weights");
        move || rng.uniform(0, 9_999) as u32
    }

    #[test]
    fn ideal_rows_always_sum_to_the_whole() {
        let (mut weights, mut next) = (start(Semantics::Ideal), independent());
        for _ in 0..10_000 {
            let (row, right, rate) = ((next() % 4) as usize, (next() % 4) as usize, 100 + next() % 4800);
            learn_ideal(rate, &mut weights[row][..4], row, right);
            assert_eq!(weights[row].iter().sum::<u32>(), FULL);
        }
    }

    /// Two states, independent sleeps, the entered one right with probability q: a hit adds LR, a miss takes LR of the
    /// weight, so the mean weight m keeps still where q = (1 − q) m.
    #[test]
    fn the_ideal_diagonal_settles_at_q_by_1_minus_q() {
        for (q, rate, expect) in [(2_000, 1000, 0.25), (3_000, 500, 3.0 / 7.0), (4_000, 200, 2.0 / 3.0)] {
            let (mut row, mut next, mut sum) = ([FULL / 2; 2], independent(), 0.0);
            const STEPS: u32 = 200_000;
            for step in 0..2 * STEPS {
                learn_ideal(rate, &mut row, 0, usize::from(next() >= q));
                sum += if step >= STEPS { f64::from(row[0]) / f64::from(FULL) } else { 0.0 };
            }
            let mean = sum / f64::from(STEPS);
            assert!((mean / expect - 1.0).abs() < 0.02, "q {q}: {mean} instead of {expect}");
        }
        let (mut row, mut next) = ([FULL / 2; 2], independent());
        (0..20_000).for_each(|_| learn_ideal(100, &mut row, 0, usize::from(next() >= 6_000)));
        assert!(row[0] > FULL / 100 * 95, "right in most cases: nearly all weight, not 60 %: {row:?}");
    }

    /// In the postings a weight is multiplied by 1 + LR or 1 − LR/(n − 1): it goes to its cap or its floor, whichever side of
    /// the threshold the frequency of its state is on.
    #[test]
    fn posted_weights_go_to_cap_or_floor_by_the_threshold() {
        let (lr, others) = (0.10f64, 3.0);
        let (up, down) = ((1.0 + lr).ln(), -(1.0 - lr / others).ln());
        let threshold = down / (up + down);
        assert!((threshold - 0.2624).abs() < 1e-4);
        for (frequency, rises) in [(threshold - 0.06, false), (threshold + 0.06, true)] {
            let (mut row, mut next) = ([2500u32; 4], independent());
            let limit = (frequency * 10_000.0) as u32;
            // The other sleeps are spread evenly over the other three states.
            let mut at_cap = 0;
            for step in 0..40_000 {
                let draw = next();
                let right = if draw < limit { 0 } else { 1 + (draw % 3) as usize };
                learn(1000, 1000, &mut row, right);
                at_cap += u32::from(step >= 20_000 && row[0] > 5000);
            }
            assert_eq!(at_cap > 10_000, rises, "frequency {frequency}: above a half in {at_cap} of 20000 steps");
        }
    }

    #[test]
    fn a_row_that_is_right_learns_slowly() {
        let mut data = Weighted {
            teo: EarlyHits::new(8, 4_000_000),
            weights: start(Semantics::Ideal),
            misses: [ONE / 2; CPUIDLE_STATE_MAX],
            aged_ns: Default::default(),
            learned: None,
        };
        let slow = (0..50).map(|_| data.dynamic_rate(1000, 1, true)).last();
        let fast = (0..50).map(|_| data.dynamic_rate(1000, 1, false)).last().unwrap();
        assert_eq!(slow, Some(100));
        assert!((1900..=2000).contains(&fast), "{fast}");
    }

    #[test]
    fn weights_age_towards_equal_ones_by_the_time_constant() {
        for semantics in [Semantics::V2, Semantics::Ideal] {
            let tuning = Tuning { aging_ns: 1_000_000_000, ..Tuning::default() };
            let rules = rules(semantics, tuning);
            let mut teo = EarlyHits::new(8, 4_000_000);
            teo.enable(&table());
            let mut data = Weighted {
                teo,
                weights: start(semantics),
                misses: Default::default(),
                aged_ns: Default::default(),
                learned: None,
            };
            let before = f64::from(data.weights[1][1]) / f64::from(rules.whole());
            // In many steps, most of them too short to count alone.
            (1..=10_000).for_each(|i| data.age(&rules, 1, i * 100_000));
            let after = f64::from(data.weights[1][1]) / f64::from(rules.whole());
            let expect = 0.25 + (before - 0.25) * (-1.0f64).exp();
            assert!((after - expect).abs() < 0.01, "{semantics:?}: {before} → {after}, not {expect}");
            let sum = data.weights[1].iter().sum::<u32>();
            assert!(sum.abs_diff(rules.whole()) <= rules.whole() / 50, "{sum}");
        }
    }

    #[test]
    fn near_states_start_heavier_with_a_table() {
        let tuning = Tuning { from_table: true, ..Tuning::default() };
        let row = initial_weights(&rules(Semantics::Ideal, tuning), &table())[3];
        assert!(row[2] > row[1] && row[1] > row[0] && row[3] > row[2], "{row:?}");
        assert_eq!(row.iter().sum::<u32>(), FULL);
    }

    #[test]
    fn ideal_may_draw_deeper_but_not_beyond_timer_and_latency() {
        let mut teo = EarlyHits::new(8, 4_000_000);
        teo.enable(&table());
        let mut weights = start(Semantics::Ideal);
        weights[1] = Row::default();
        weights[1][3] = FULL;
        let data = Weighted { teo, weights, misses: Default::default(), aged_ns: Default::default(), learned: None };
        let drawn = |timer_ns: u64, latency_req_ns| {
            let mut view = FakeView::timer_in(timer_ns as i64);
            (view.latency_req_ns, view.random) = (latency_req_ns, u32::MAX / 2);
            let mut draft = Draft { idx: 1, duration_ns: 5_000, sleep_length_ns: timer_ns, delta_tick_ns: 4_000_000 };
            let rules = rules(Semantics::Ideal, Tuning::default());
            data.draw_ideal(&rules, &mut view, &mut draft);
            draft.idx
        };
        assert_eq!(drawn(60_000_000, i64::MAX), 3);
        assert!(drawn(100_000, i64::MAX) < 3, "the timer comes first");
        assert!(drawn(60_000_000, 50_000) < 3, "too slow to leave");
    }

    /// `teo` 5.6 expects no more than the residency of a shallower state where its misses outweigh its hits; the timer is as
    /// far away as before, and the row may say that a deeper state is right.
    #[test]
    fn where_misses_outweigh_hits_the_timer_still_limits_the_draw() {
        let chosen = |timer_ns: i64, row: [u32; 4]| {
            let mut teo = EarlyHits::new(8, 4_000_000);
            teo.enable(&table());
            let (weights, aged_ns) = (start(Semantics::Ideal), Default::default());
            let data = Weighted { teo, weights, misses: Default::default(), aged_ns, learned: None };
            let rules = rules(Semantics::Ideal, Tuning { argmax: true, ..Tuning::default() });
            let mut governor = TeoWeighted { rules, cpus: vec![data] };
            let select = |governor: &mut TeoWeighted, timer_ns, now_ns| {
                let mut view = FakeView::timer_in(timer_ns);
                view.clock_ns = now_ns;
                governor.select(CpuId(0), &mut view).state
            };
            // Early hits of states 1 and 2, misses of the timer's state 3, and most sleeps shorter than the residency of state 2.
            for step in 0..80 {
                let now_ns = step * 1_000_000;
                select(&mut governor, 60_000_000_000, now_ns);
                let (us, entered) = if step % 8 < 5 { (4, 1) } else { (150, 2) };
                governor.reflect(CpuId(0), &slept(entered, us * 1000, now_ns + us * 1000));
            }
            governor.cpus[0].weights[1][..4].copy_from_slice(&row);
            select(&mut governor, timer_ns, 80_000_000)
        };
        let deepest = [0, 0, 0, FULL];
        assert_eq!(chosen(60_000_000_000, deepest), 3);
        assert_eq!(chosen(100_000, deepest), 1, "no state that the timer allows has any weight: as teo chose");
        assert_eq!(chosen(60_000_000_000, [0, FULL, 0, 0]), 1);
    }

    /// The manual's table: a row is learned in its own state only.
    #[test]
    fn the_manuals_matrix() {
        const CPUS: u64 = 2_000;
        let names = ["snooze", "stop0", "stop2", "stop4"];
        let states = StateTable::new(&states(&[(0, 0), (2, 20), (10, 100), (100, 10_000)]));
        let start = initial_weights(&rules(Semantics::Ideal, Tuning::default()), &states);
        let mut next = independent();
        for (entered, name) in names.iter().enumerate() {
            let mut sums = [0u64; 4];
            for _ in 0..CPUS {
                let mut row = start[entered];
                for step in 0..300 {
                    if entered > 0 {
                        let us = if next() % 3 < 2 { 50 } else { 15_000 };
                        learn_ideal(1000, &mut row[..4], entered, fitted(&states, entered, us));
                    }
                    sums.iter_mut().zip(row).for_each(|(sum, w)| *sum += if step < 200 { 0 } else { u64::from(w) });
                }
            }
            let percent = sums.map(|sum| (sum / (CPUS * 100) + u64::from(FULL) / 200) / (u64::from(FULL) / 100));
            let row = format!("//! | {name} | {} |", percent.map(|p| p.to_string()).join(" | "));
            assert!(include_str!("teo_weighted.rs").lines().any(|l| l.starts_with(&row)), "{row}");
        }
    }

    /// The state that a sleep would have fitted, as the governor learns it.
    fn fitted(states: &StateTable, entered: usize, us: u64) -> usize {
        let mut teo = EarlyHits::new(8, 4_000_000);
        teo.enable(states);
        teo.choose(&mut FakeView::timer_in(60_000_000));
        teo.reflect(&slept(entered, us * 1000, us * 1000));
        right_state(Semantics::Ideal, &teo.learn().expect("the timer fits a state"))
    }

    #[test]
    fn rows_in_a_trace_sum_to_the_whole() {
        for row in [
            [1, 1, 1, FULL - 3],
            [FULL / 3, FULL / 3, FULL / 3 + 1, 0],
            [5_000, 5_000, 5_000, FULL - 15_000],
            [0, FULL, 0, 0],
        ] {
            let mut weights = Row::default();
            weights[..4].copy_from_slice(&row);
            assert_eq!(
                (weights.iter().sum::<u32>(), hundredths(&weights).iter().sum::<u32>()),
                (FULL, 10_000),
                "{row:?}"
            );
        }
    }

    #[test]
    fn only_the_postings_break_the_latency_limit() {
        let tuning = Tuning::default();
        for (semantics, expect) in [(Semantics::V2, 3), (Semantics::Ideal, 2)] {
            let mut teo = EarlyHits::new(8, 4_000_000);
            teo.enable(&table());
            let weights = start(semantics);
            let data =
                Weighted { teo, weights, misses: Default::default(), aged_ns: Default::default(), learned: None };
            let mut governor = TeoWeighted { rules: rules(semantics, tuning), cpus: vec![data] };
            let mut view = FakeView::timer_in(60_000_000);
            view.latency_req_ns = 50_000;
            assert_eq!(governor.select(CpuId(0), &mut view).state, expect, "{semantics:?}");
        }
    }
}
