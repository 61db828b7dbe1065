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
//!
//! Worked example (v2, 4 states): entered state 2, right was 1: row 1333 1333 6000 1333 → 1289 1466 5800 1289. A draw
//! of 40 for state 1: cumulative 1289, 2755; 40 % is 1102 < 1289 → state 0.
//!
//! # State and cost
//! As `teo` 5.6, and states² weights per CPU. O(states) per decision.
//!
//! # Where it fails
//! - Changes are relative, so rows do not keep their sum: sums from 58 % to 146 % were seen.
//! - Floors above the start: with seven states the others start at 5.00 % (v1; floor 5 %) or 6.66 % (v2; floor 10 %),
//!   and can only rise.
//! - A hit rewards the state entered even when it was shallower than the timer's: shallow choices feed themselves.
//! - The draw never goes deeper than the state drawn for (v2), although the row may say so.
//! - The draw yields the position among *enabled* states, taken for a state number: wrong where one in the middle is
//!   disabled.
//!
//! # Differences from the kernel
//! None known: bit-exact with `idle_wteo-v1` and `idle_wteo-v2` (5,760 rows each). The patches draw from
//! `get_random_bytes`; here it is a seeded stream.
//!
//! # Source
//! P. R. Sampat, "Weighted approach to gather and use history in TEO governor", linux-pm, 22 February 2020 (v1) and 11
//! May 2020 (v2), on Linux 5.6 (behaviour; vectors of that code).

use super::teo::{Draft, EarlyHits, Lesson};
use super::{
    CPUIDLE_STATE_MAX, CpuidleState, IdleGovernor, IdleSelection, IdleSleep, IdleView, StateTable, Tunable,
    is_disabled, list,
};
use wattif_model::ids::CpuId;

/// Tunables of `teo_weighted`.
pub const TUNABLES: &[Tunable] = &[
    Tunable { name: "generation", default: "v2", allowed: &["v1", "v2"], doc: "the posting of the patch" },
    Tunable {
        name: "intervals",
        default: "8",
        allowed: &["8", "16", "32", "64", "128"],
        doc: "how many sleeps are remembered one by one",
    },
];

/// What the two postings differ in.
#[derive(Clone, Copy, Debug)]
struct Posting {
    /// Percent.
    learning_rate: u32,
    /// Weight at the start on the diagonal, 1/100 %.
    diagonal: u32,
    /// The draw's bugs of v1.
    walks_off: bool,
}

const V1: Posting = Posting { learning_rate: 5, diagonal: 7000, walks_off: true };
const V2: Posting = Posting { learning_rate: 10, diagonal: 6000, walks_off: false };

type Row = [u32; CPUIDLE_STATE_MAX];

/// The governor; see the module's manual.
#[derive(Clone, Debug)]
pub struct TeoWeighted {
    posting: Posting,
    cpus: Vec<Weighted>,
}

#[derive(Clone, Debug)]
struct Weighted {
    teo: EarlyHits,
    weights: [Row; CPUIDLE_STATE_MAX],
}

/// `teo_weighted` of a generation (`""` is the default) with a history of `intervals` ≥ 1 sleeps.
pub fn build(generation: &str, intervals: usize, nr_cpus: usize, tick_ns: u64) -> Option<Box<dyn IdleGovernor>> {
    let posting = match generation {
        "v1" => V1,
        "v2" | "" => V2,
        _ => return None,
    };
    let cpu = Weighted { teo: EarlyHits::new(intervals, tick_ns as i64), weights: Default::default() };
    Some(Box::new(TeoWeighted { posting, cpus: vec![cpu; nr_cpus] }))
}

impl IdleGovernor for TeoWeighted {
    fn enable(&mut self, cpu: CpuId, states: &[CpuidleState]) {
        let data = &mut self.cpus[cpu.at()];
        data.teo.enable(states);
        data.weights = initial_weights(self.posting, states.len());
    }

    fn select(&mut self, cpu: CpuId, view: &mut dyn IdleView) -> IdleSelection {
        let data = &mut self.cpus[cpu.at()];
        if let Some(lesson) = data.teo.learn() {
            learn(self.posting, &mut data.weights[lesson.entered][..data.teo.states.len()], &lesson);
        }
        let mut draft = data.teo.choose(view);
        if data.teo.apply_intervals(view, &mut draft) {
            data.draw(self.posting, view, &mut draft);
        }
        data.teo.settle(view, &draft)
    }

    fn reflect(&mut self, cpu: CpuId, sleep: &IdleSleep) {
        self.cpus[cpu.at()].teo.reflect(sleep);
    }

    fn debug_state(&self, cpu: CpuId) -> String {
        let data = &self.cpus[cpu.at()];
        let count = data.teo.states.len();
        let row = |r: &Row| r[..count].iter().map(u32::to_string).collect::<Vec<_>>().join(":");
        format!("{}|{}", data.teo.debug_state(), list(data.weights[..count].iter().map(row)))
    }
}

fn initial_weights(posting: Posting, count: usize) -> [Row; CPUIDLE_STATE_MAX] {
    // A single state has no others to share with.
    let others = (10_000 - posting.diagonal) / (count as u32 - 1).max(1);
    let mut weights = [[0; CPUIDLE_STATE_MAX]; CPUIDLE_STATE_MAX];
    for (i, row) in weights[..count].iter_mut().enumerate() {
        row[..count].fill(others);
        row[i] = posting.diagonal;
    }
    weights
}

/// Changes the row of the state entered, all of its enabled and disabled states.
fn learn(posting: Posting, row: &mut [u32], lesson: &Lesson) {
    let rate = posting.learning_rate;
    let others = (row.len() as u32 - 1).max(1);
    let hit = lesson.idx_hit == Some(lesson.idx_timer);
    let right = if hit { lesson.entered } else { lesson.idx_hit.unwrap_or(lesson.idx_timer) };
    for (i, weight) in row.iter_mut().enumerate() {
        if i == right {
            let gain = rate * *weight / 100;
            if *weight + gain < (100 - rate) * 100 {
                *weight += gain;
            }
        } else {
            let loss = rate * *weight / (others * 100);
            if *weight - loss > rate * 100 {
                *weight -= loss;
            }
        }
    }
}

impl Weighted {
    fn draw(&self, posting: Posting, view: &mut dyn IdleView, draft: &mut Draft) {
        let rnd = view.random_u32();
        let mut cumulative = Row::default();
        let count =
            accumulate(&self.weights[draft.idx], &self.teo.states, view.disable_mask(), draft.idx, &mut cumulative);
        let list = &cumulative[..count];
        let sum = list.last().copied().unwrap_or(0);
        let position = if posting.walks_off { walk_v1(rnd, sum, list) } else { walk_v2(rnd, sum, list) };
        // Falling off the end leaves the loop's counter: one beyond the list.
        draft.idx = position.unwrap_or(count);
    }
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
    use super::super::testing::states;
    use super::*;

    #[test]
    fn the_manuals_worked_example() {
        let mut weights = initial_weights(V2, 4);
        learn(V2, &mut weights[2][..4], &Lesson { entered: 2, idx_timer: 3, idx_hit: Some(1) });
        assert_eq!(weights[2][..4], [1289, 1466, 5800, 1289]);

        let table = StateTable::new(&states(&[(0, 0), (2, 2), (10, 20), (133, 600)]));
        let mut cumulative = Row::default();
        assert_eq!(accumulate(&weights[2], &table, 0, 1, &mut cumulative), 2);
        assert_eq!(cumulative[..2], [1289, 2755]);
        assert_eq!([walk_v2(40, 2755, &cumulative[..2]), walk_v2(50, 2755, &cumulative[..2])], [Some(0), Some(1)]);
    }

    #[test]
    fn weights_stay_within_their_bounds() {
        let mut row = initial_weights(V2, 4)[0];
        (0..100).for_each(|_| learn(V2, &mut row[..4], &Lesson { entered: 0, idx_timer: 0, idx_hit: Some(0) }));
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
}
