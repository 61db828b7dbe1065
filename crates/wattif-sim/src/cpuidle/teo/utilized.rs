//! Generation 6.6 (6.5 to 6.10): between [`super::recent`] and [`super::tick_hits`]. The candidate is chosen from the bins
//! alone, a busy CPU takes a shallower one, and the timer is asked for only if the candidate is deep.

use super::super::{
    CpuidleState, IdleGovernor, IdleSelection, IdleSleep, IdleView, KTIME_MAX, RESIDENCY_THRESHOLD_NS, SleepLength,
    StateTable, is_disabled, list, settle_tick,
};
use super::bins::{Bins, Reason, bins_of, decay, deepest, descend, shallower_without_polling, teo_cpu_is_utilized};
use super::recent::{NR_RECENT, RecentEvents};
use super::{DECAY_SHIFT, PULSE, Sleep, teo_time_ok};
use wattif_model::ids::CpuId;

/// Generation 6.6.
#[derive(Clone, Debug)]
pub struct Teo66 {
    tick_ns: i64,
    cpus: Vec<Utilized>,
}

impl Teo66 {
    pub fn new(nr_cpus: usize, tick_ns: i64) -> Teo66 {
        Teo66 { tick_ns, cpus: vec![Utilized::default(); nr_cpus] }
    }
}

#[derive(Clone, Debug, Default)]
struct Utilized {
    states: StateTable,
    sleep: Sleep,
    bins: Bins,
    total: u32,
    tick_hits: u32,
    events: RecentEvents,
}

/// No state below the candidate is worth the timer: do not stop the tick for it.
fn keep_tick(state: usize) -> IdleSelection {
    IdleSelection { state, stop_tick: false, predicted_ns: KTIME_MAX }
}

impl IdleGovernor for Teo66 {
    fn enable(&mut self, cpu: CpuId, states: &[CpuidleState]) {
        let (states, sleep) = (StateTable::new(states), Sleep::at_boot());
        self.cpus[cpu.at()] = Utilized { states, sleep, ..Utilized::default() };
    }

    fn select(&mut self, cpu: CpuId, view: &mut dyn IdleView) -> IdleSelection {
        let data = &mut self.cpus[cpu.at()];
        if let Some(entered) = data.sleep.last_state_idx.take() {
            data.teo_update(entered, self.tick_ns);
        }
        data.sleep.time_span_ns = view.local_clock();
        // Until asked for. So the wake-up from a sleep for which it was not asked counts as an intercept, even if a timer
        // was the cause.
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
        let bins = data.bins[..data.states.len()].iter().map(|b| format!("{}:{}:{}", b.hits, b.intercepts, b.recent));
        format!("{}|{}|{}|{}", list(bins), data.total, data.events.next_idx(), data.tick_hits)
    }
}

impl Utilized {
    fn teo_update(&mut self, entered: usize, tick_ns: i64) {
        let sleep_length_ns = self.sleep.sleep_length_ns as i64;
        let measured_ns = self.sleep.measured_ns(&self.states, entered, self.sleep.timer_wakeup());
        self.total = decay(&mut self.bins, &self.states) + PULSE;
        let (mut idx_timer, idx_duration) = bins_of(&self.states, sleep_length_ns, measured_ns);
        let count = self.states.len();
        if self.states[count - 1].target_residency_ns < tick_ns {
            self.tick_hits -= self.tick_hits >> DECAY_SHIFT;
            self.total += self.tick_hits;
            if tick_ns <= sleep_length_ns {
                // The bin beyond the last state's, which has no intercepts.
                idx_timer = count;
                if tick_ns as u64 <= measured_ns {
                    self.tick_hits += PULSE;
                    self.events.push(&mut self.bins, None);
                    return;
                }
            }
        }
        if idx_timer == idx_duration {
            self.bins[idx_timer].hits += PULSE;
            self.events.push(&mut self.bins, None);
        } else {
            self.bins[idx_duration].intercepts += PULSE;
            self.events.push(&mut self.bins, Some(idx_duration));
        }
    }

    fn choose(&mut self, view: &mut dyn IdleView, tick_ns: i64) -> IdleSelection {
        let disabled = view.disable_mask();
        if self.states.len() < 2 {
            return keep_tick(0);
        }
        let utilized = teo_cpu_is_utilized(view);
        if utilized && self.states.len() == 2 {
            return self.of_two(view, tick_ns);
        }
        let Some((c, all_intercepts)) = deepest(&self.bins, &self.states, disabled, view.latency_req_ns()) else {
            return keep_tick(0);
        };
        if c.idx == c.idx0 {
            return self.only(c.idx, c.idx0, view, tick_ns);
        }
        let mut idx = c.idx;
        let reason =
            Reason { intercepts: 2 * c.intercepts > self.total - c.hits, recent: c.recent as usize > NR_RECENT / 2 };
        let tick_stopped = view.tick_stopped();
        let deep_enough = |i: usize| teo_time_ok(self.states[i].target_residency_ns, tick_stopped, tick_ns);
        if reason.intercepts || reason.recent {
            idx = descend(&self.bins, &c, disabled, reason, deep_enough);
        }
        idx = idx.min(c.constraint_idx);
        if utilized {
            // Not yet asked how long the sleep may last: the next state that does not poll, whatever its residency.
            let shallower = shallower_without_polling(&self.states, disabled, idx, KTIME_MAX);
            idx = if deep_enough(shallower) { shallower } else { idx };
        }
        let soon = self.states[0].polling && self.states[idx].target_residency_ns < RESIDENCY_THRESHOLD_NS;
        if idx == 0 || soon {
            return keep_tick(idx);
        }
        self.refine((idx, c.idx0), all_intercepts, view, tick_ns)
    }

    /// Of two states, the shallowest that does not poll and is deep enough.
    fn of_two(&self, view: &dyn IdleView, tick_ns: i64) -> IdleSelection {
        let disabled = |i| is_disabled(view.disable_mask(), i);
        let deep_enough = teo_time_ok(self.states[0].target_residency_ns, view.tick_stopped(), tick_ns);
        if disabled(1) || (!disabled(0) && !self.states[0].polling && deep_enough) {
            return keep_tick(0);
        }
        self.only(1, 0, view, tick_ns)
    }

    /// No choice but `idx`: only see to it that a shallow state keeps the tick.
    fn only(&self, idx: usize, idx0: usize, view: &dyn IdleView, tick_ns: i64) -> IdleSelection {
        let duration_ns = self.states[idx].target_residency_ns;
        settle_tick(&self.states, view, tick_ns, (idx, idx0), duration_ns, (tick_ns / 2, tick_ns / 2))
    }

    /// Asks for the timer and goes no deeper than it allows; keeps the tick if most events came before it.
    fn refine(
        &mut self,
        (mut idx, idx0): (usize, usize),
        all_intercepts: u32,
        view: &mut dyn IdleView,
        tick_ns: i64,
    ) -> IdleSelection {
        let SleepLength { sleep_length_ns: mut duration_ns, delta_tick_ns } = view.sleep_length();
        self.sleep.sleep_length_ns = duration_ns as u64;
        if self.states[idx].target_residency_ns > duration_ns {
            idx = self.states.find_shallower_state(view.disable_mask(), idx, duration_ns);
        }
        let mostly_intercepted = all_intercepts > self.total / 2 + self.total / 8;
        if self.states[idx].target_residency_ns < tick_ns && mostly_intercepted {
            duration_ns = tick_ns / 2;
        }
        settle_tick(&self.states, view, tick_ns, (idx, idx0), duration_ns, (delta_tick_ns, delta_tick_ns))
    }
}
