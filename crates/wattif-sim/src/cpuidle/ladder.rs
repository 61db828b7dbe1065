//! Ladder idle governor: climb one state at a time.
//!
//! # Idea
//! A CPU that has just slept long enough for its state will probably do so again, so try the next deeper state;
//! one that was woken early should go back up. No prediction of the next wake-up is made: the ladder follows the
//! recent past with a lag of a few sleeps. It suits ticking systems, where every sleep ends at the tick at the latest.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | `last_residency` | ns, exit latency taken off | `machine::idle`, measured | when the CPU wakes |
//! | `promotion_time`, `demotion_time` | ns | exit latency of the state above, of this state | when states change |
//! | `latency_req` | ns, `NO_LATENCY_LIMIT` if none | PM QoS of the run | per call |
//!
//! # Decision
//! 1. `latency_req == 0` → state 0.
//! 2. Slept longer than `promotion_time`, next state enabled and within `latency_req`: count one; at `PROMOTION_COUNT`
//!    (4) in a row go one deeper and clear the counters.
//! 3. This state now disabled or over `latency_req`: drop to the deepest one that is not.
//! 4. Slept less than `demotion_time`: count one; at `DEMOTION_COUNT` (1) go one shallower.
//! 5. Otherwise stay.
//!
//! Worked example, states WFI (1 µs) and sleep (950 µs): sleeps of 2, 2, 2, 2 ms from WFI → the fourth promotes;
//! then one sleep of 1.2 ms, 0.25 ms after the exit latency → back to WFI at once.
//!
//! # State and cost
//! Two counters and a state index per CPU; O(1) per decision, O(states) when the latency limit falls.
//!
//! # Where it fails
//! Alternating short and long sleeps keep it in the shallow state; with the tick
//! stopped it learns only once per sleep, so a long idle begins shallow. A sleep shorter than the exit latency makes
//! `last_residency` negative, which the kernel compares as unsigned: it looks endless and counts towards promotion, so
//! exactly the sleeps that were far too short do not demote. It enters the first state even where that is disabled.
//!
//! # Differences from the kernel
//! None known: bit-exact with `idle_ladder-6.12` (2,640 rows).
//!
//! # Source
//! Linux 6.12.117 `drivers/cpuidle/governors/ladder.c` (behaviour; vectors of that code).

use super::{CPUIDLE_STATE_MAX, CpuidleState, IdleGovernor, IdleSelection, IdleSleep, IdleView, KTIME_MAX};
use super::{StateTable, Tunable, is_disabled, list};
use wattif_model::ids::CpuId;

/// Tunables of `ladder`: none.
pub const TUNABLES: &[Tunable] = &[];

const PROMOTION_COUNT: u32 = 4;
const DEMOTION_COUNT: u32 = 1;

/// The governor; see the module's manual.
#[derive(Clone, Debug)]
#[doc(alias = "ladder_governor")]
pub struct Ladder {
    cpus: Vec<LadderDevice>,
}

#[derive(Clone, Debug, Default)]
#[doc(alias = "ladder_device")]
struct LadderDevice {
    states: StateTable,
    steps: [Step; CPUIDLE_STATE_MAX],
    last_idx: usize,
    last_residency_ns: u64,
}

/// A rung: its thresholds, and how often in a row they were passed.
#[derive(Clone, Copy, Debug, Default)]
#[doc(alias = "ladder_device_state")]
struct Step {
    promotion_needed: u32,
    demotion_needed: u32,
    promotion_time_ns: u64,
    demotion_time_ns: u64,
    promotion_count: u32,
    demotion_count: u32,
}

/// `ladder`, which has one generation: `""`.
pub fn build(generation: &str, nr_cpus: usize, _tick_ns: u64) -> Option<Box<dyn IdleGovernor>> {
    let governor = || Box::new(Ladder { cpus: vec![LadderDevice::default(); nr_cpus] }) as Box<dyn IdleGovernor>;
    generation.is_empty().then(governor)
}

impl IdleGovernor for Ladder {
    #[doc(alias = "ladder_enable_device")]
    fn enable(&mut self, cpu: CpuId, states: &[CpuidleState]) {
        let states = StateTable::new(states);
        let mut data = LadderDevice { states, ..LadderDevice::default() };
        data.last_idx = data.first_idx();
        for i in data.first_idx()..states.len() {
            let exit_latency_ns = states[i].exit_latency_ns;
            data.steps[i] = Step {
                promotion_needed: PROMOTION_COUNT,
                demotion_needed: DEMOTION_COUNT,
                promotion_time_ns: if i < states.len() - 1 { exit_latency_ns as u64 } else { 0 },
                demotion_time_ns: if i > data.first_idx() { exit_latency_ns as u64 } else { 0 },
                ..Step::default()
            };
        }
        self.cpus[cpu.at()] = data;
    }

    #[doc(alias = "ladder_select_state")]
    fn select(&mut self, cpu: CpuId, view: &mut dyn IdleView) -> IdleSelection {
        let data = &mut self.cpus[cpu.at()];
        let state = data.next_idx(view.latency_req_ns(), view.disable_mask());
        if state != data.last_idx || view.latency_req_ns() == 0 {
            data.ladder_do_selection(state);
        }
        IdleSelection { state, stop_tick: true, predicted_ns: KTIME_MAX }
    }

    #[doc(alias = "ladder_reflect")]
    fn reflect(&mut self, cpu: CpuId, sleep: &IdleSleep) {
        let data = &mut self.cpus[cpu.at()];
        data.last_residency_ns = sleep.residency_ns;
        if let Some(entered @ 1..) = sleep.entered {
            data.last_idx = entered;
        }
    }

    fn debug_state(&self, cpu: CpuId) -> String {
        let data = &self.cpus[cpu.at()];
        list(data.steps[..data.states.len()].iter().map(|s| format!("{}:{}", s.promotion_count, s.demotion_count)))
    }
}

impl LadderDevice {
    /// The lowest rung: polling is below the ladder.
    fn first_idx(&self) -> usize {
        usize::from(self.states[0].polling && self.states.len() > 1)
    }

    fn next_idx(&mut self, latency_req_ns: i64, disable_mask: u32) -> usize {
        let (idx, first_idx) = (self.last_idx, self.first_idx());
        if latency_req_ns == 0 {
            return 0;
        }
        let too_slow = |i: usize| self.states[i].exit_latency_ns > latency_req_ns;
        // Compared as u64, as in the kernel: a sleep shorter than the exit latency wraps and looks endless.
        let last_residency_ns = self.last_residency_ns.wrapping_sub(self.states[idx].exit_latency_ns as u64);
        let step = &mut self.steps[idx];

        let may_climb = idx + 1 < self.states.len() && !is_disabled(disable_mask, idx + 1);
        if may_climb && last_residency_ns > step.promotion_time_ns && !too_slow(idx + 1) {
            step.promotion_count += 1;
            step.demotion_count = 0;
            if step.promotion_count >= step.promotion_needed {
                return idx + 1;
            }
        }
        if idx > first_idx && (is_disabled(disable_mask, idx) || too_slow(idx)) {
            return (first_idx + 1..idx).rev().find(|i| !too_slow(*i)).unwrap_or(first_idx);
        }
        if idx > first_idx && last_residency_ns < step.demotion_time_ns {
            step.demotion_count += 1;
            step.promotion_count = 0;
            if step.demotion_count >= step.demotion_needed {
                return idx - 1;
            }
        }
        idx
    }

    fn ladder_do_selection(&mut self, new_idx: usize) {
        let step = &mut self.steps[self.last_idx];
        (step.promotion_count, step.demotion_count) = (0, 0);
        self.last_idx = new_idx;
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeView, slept, states};
    use super::*;

    /// The states chosen after sleeps of these lengths, µs, each in the state chosen before; the first choice is
    /// dropped.
    fn climb(us: &[(i64, i64)], sleeps: &[u64], view: &mut FakeView) -> Vec<usize> {
        let (mut governor, cpu) = (build("", 1, 4_000_000).expect("known"), CpuId(0));
        governor.enable(cpu, &states(us));
        let mut state = usize::from(us[0].0 == 0);
        let sleep = |us: &u64| {
            governor.reflect(cpu, &slept(state, us * 1000, 0));
            state = governor.select(cpu, view).state;
            state
        };
        sleeps.iter().map(sleep).collect()
    }

    #[test]
    fn the_manuals_worked_example() {
        let view = &mut FakeView::timer_in(60_000_000);
        let wfi_and_sleep = [(1, 1), (950, 2500)];
        assert_eq!(climb(&wfi_and_sleep, &[2000, 2000, 2000, 2000, 1200], view), [0, 0, 0, 1, 0]);
        // Where it fails: far too short a sleep does not demote.
        assert_eq!(climb(&wfi_and_sleep, &[2000, 2000, 2000, 2000, 300], view), [0, 0, 0, 1, 1]);
        assert_eq!(view.queries, 0);
    }

    #[test]
    fn stays_off_the_polling_state_unless_latency_must_be_zero() {
        let states = [(0, 0), (1, 1), (5, 50)];
        assert_eq!(climb(&states, &[1; 3], &mut FakeView::timer_in(1)), [1, 1, 1]);
        let strict = &mut FakeView { latency_req_ns: 0, ..FakeView::timer_in(1) };
        assert_eq!(climb(&states, &[1; 3], strict), [0, 0, 0]);
    }
}
