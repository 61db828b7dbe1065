//! Generation 6.12: the timer is asked for late, and a bin beyond the last state says how often the tick is outlasted.

use super::super::{
    CpuidleState, IdleGovernor, IdleSelection, IdleSleep, IdleView, KTIME_MAX, RESIDENCY_THRESHOLD_NS, SleepLength,
    StateTable, list, settle_tick,
};
use super::bins::{Bins, Reason, bins_of, count, decay, deepest, descend};
use super::recent::Outcome;
use super::{DECAY_SHIFT, PULSE, Sleep, teo_time_ok};
use wattif_model::ids::CpuId;

/// Generation 6.12.
#[derive(Clone, Debug)]
pub struct Teo612 {
    tick_ns: i64,
    cpus: Vec<TickHits>,
}

impl Teo612 {
    pub fn new(nr_cpus: usize, tick_ns: i64) -> Teo612 {
        Teo612 { tick_ns, cpus: vec![TickHits::default(); nr_cpus] }
    }
}

#[derive(Clone, Debug, Default)]
#[doc(alias = "teo_cpu")]
pub(super) struct TickHits {
    pub states: StateTable,
    pub sleep: Sleep,
    pub bins: Bins,
    pub total: u32,
    pub tick_hits: u32,
}

/// No state below the candidate is worth the timer: do not stop the tick for it.
pub(super) fn keep_tick(state: usize) -> IdleSelection {
    IdleSelection { state, stop_tick: false, predicted_ns: KTIME_MAX }
}

impl IdleGovernor for Teo612 {
    #[doc(alias = "teo_enable_device")]
    fn enable(&mut self, cpu: CpuId, states: &[CpuidleState]) {
        self.cpus[cpu.at()] = TickHits::at_boot(states);
    }

    #[doc(alias = "teo_select")]
    fn select(&mut self, cpu: CpuId, view: &mut dyn IdleView) -> IdleSelection {
        let data = &mut self.cpus[cpu.at()];
        if let Some(entered) = data.sleep.last_state_idx.take() {
            data.teo_update(entered, self.tick_ns);
        }
        data.sleep.begin_unasked(view.local_clock());
        data.choose(view, self.tick_ns)
    }

    fn reflect(&mut self, cpu: CpuId, sleep: &IdleSleep) {
        self.cpus[cpu.at()].sleep.ended(sleep, self.tick_ns);
    }

    fn debug_state(&self, cpu: CpuId) -> String {
        let data = &self.cpus[cpu.at()];
        let bins = data.bins[..data.states.len()].iter().map(|b| format!("{}:{}", b.hits, b.intercepts));
        format!("{}|{}|{}", list(bins), data.total, data.tick_hits)
    }
}

impl TickHits {
    pub(super) fn at_boot(states: &[CpuidleState]) -> TickHits {
        TickHits { states: StateTable::new(states), sleep: Sleep::at_boot(), ..TickHits::default() }
    }

    /// Learns from the last sleep.
    pub(super) fn teo_update(&mut self, entered: usize, tick_ns: i64) -> Outcome {
        let sleep_length_ns = self.sleep.sleep_length_ns as i64;
        let measured_ns = self.sleep.measured_ns(&self.states, entered, self.sleep.timer_wakeup());
        self.total = decay(&mut self.bins, &self.states) + PULSE;
        let (mut idx_timer, idx_duration) = bins_of(&self.states, sleep_length_ns, measured_ns);
        let last = self.states.len() - 1;
        if self.states[last].target_residency_ns < tick_ns {
            self.tick_hits -= self.tick_hits >> DECAY_SHIFT;
            self.total += self.tick_hits;
            if tick_ns <= sleep_length_ns {
                // The bin beyond the last state's, which has no intercepts.
                idx_timer = last + 1;
                if tick_ns as u64 <= measured_ns {
                    self.tick_hits += PULSE;
                    return Outcome::TickHit;
                }
            }
        }
        count(&mut self.bins, idx_timer, idx_duration)
    }

    pub(super) fn choose(&mut self, view: &mut dyn IdleView, tick_ns: i64) -> IdleSelection {
        let (disabled, tick_stopped) = (view.disable_mask(), view.tick_stopped());
        if self.states.len() < 2 {
            return keep_tick(0);
        }
        let Some((c, tick_intercepts)) = deepest(&self.bins, &self.states, disabled, view.latency_req_ns()) else {
            return keep_tick(0);
        };
        let mut idx = c.idx;
        if idx == c.idx0 {
            return self.only((idx, idx), view, tick_ns);
        }
        if 2 * c.intercepts > self.total - c.hits {
            let deep_enough = |i: usize| teo_time_ok(self.states[i].target_residency_ns, tick_stopped, tick_ns);
            idx = descend(&self.bins, &c, disabled, Reason { intercepts: true, recent: false }, deep_enough);
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
        self.refine((idx, c.idx0), tick_intercepts, view, tick_ns)
    }

    /// No choice but `idx`: only see to it that a shallow state keeps the tick.
    pub(super) fn only(&self, (idx, idx0): (usize, usize), view: &dyn IdleView, tick_ns: i64) -> IdleSelection {
        let duration_ns = self.states[idx].target_residency_ns;
        settle_tick(&self.states, view, tick_ns, (idx, idx0), duration_ns, (tick_ns / 2, tick_ns / 2))
    }

    /// Asks for the timer and goes no deeper than it allows; keeps the tick if most events came before it.
    pub(super) fn refine(
        &mut self,
        (mut idx, idx0): (usize, usize),
        tick_intercepts: u32,
        view: &mut dyn IdleView,
        tick_ns: i64,
    ) -> IdleSelection {
        let SleepLength { sleep_length_ns: mut duration_ns, delta_tick_ns } = view.sleep_length();
        self.sleep.sleep_length_ns = duration_ns as u64;
        if self.states[idx].target_residency_ns > duration_ns {
            idx = self.states.find_shallower_state(view.disable_mask(), idx, duration_ns);
        }
        let mostly_intercepted = tick_intercepts > self.total / 2 + self.total / 8;
        if self.states[idx].target_residency_ns < tick_ns && mostly_intercepted {
            duration_ns = tick_ns / 2;
        }
        settle_tick(&self.states, view, tick_ns, (idx, idx0), duration_ns, (delta_tick_ns, delta_tick_ns))
    }
}
