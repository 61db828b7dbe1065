//! Generations 5.1, 5.4 and 5.6: hits, misses and early hits of each state, and the last sleeps one by one.

use super::super::{
    CPUIDLE_STATE_MAX, CpuidleState, IdleGovernor, IdleSelection, IdleSleep, IdleView, SleepLength, StateTable,
    is_disabled, list, settle_tick,
};
use super::{DECAY_SHIFT, PULSE, Sleep, less_half_of, teo_time_ok};
use wattif_model::ids::CpuId;

/// Sleeps remembered one by one.
pub const INTERVALS: usize = 8;

/// Which of the three.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Era {
    Linux51,
    Linux54,
    #[default]
    Linux56,
}

/// Generations 5.1 to 5.6.
#[derive(Clone, Debug)]
pub struct Teo56 {
    cpus: Vec<EarlyHits>,
}

impl Teo56 {
    pub fn new(era: Era, intervals: usize, nr_cpus: usize, tick_ns: i64) -> Teo56 {
        Teo56 { cpus: vec![EarlyHits { era, ..EarlyHits::new(intervals, tick_ns) }; nr_cpus] }
    }
}

/// One CPU; `teo_weighted` builds on that of 5.6.
#[derive(Clone, Debug)]
pub(in crate::cpuidle) struct EarlyHits {
    pub era: Era,
    pub states: StateTable,
    pub tick_ns: i64,
    sleep: Sleep,
    pub(super) metrics: [Metrics; CPUIDLE_STATE_MAX],
    /// The last sleeps, ns; `u64::MAX` until the timer.
    pub(super) intervals: Vec<u64>,
    interval_idx: usize,
}

#[derive(Clone, Copy, Debug, Default)]
#[doc(alias = "teo_idle_state")]
pub(super) struct Metrics {
    pub early_hits: u32,
    pub hits: u32,
    pub misses: u32,
}

/// What was learned from a sleep.
pub(in crate::cpuidle) struct Lesson {
    pub entered: usize,
    /// The state that fitted the timer.
    pub idx_timer: usize,
    /// The state that fitted the sleep, if a state did.
    pub idx_hit: Option<usize>,
}

/// A choice in the making.
pub(in crate::cpuidle) struct Draft {
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
        EarlyHits {
            era: Era::default(),
            states: StateTable::default(),
            tick_ns,
            sleep: Sleep::default(),
            metrics: Default::default(),
            intervals: vec![u64::MAX; intervals],
            interval_idx: 0,
        }
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
        let measured_ns = match self.era {
            Era::Linux56 => self.sleep.measured_ns(&self.states, entered, timer_wakeup),
            // With the time that the idle loop took on both sides of the sleep.
            _ if timer_wakeup => u64::MAX,
            _ => less_half_of(self.states[entered].exit_latency_ns as u64, self.sleep.time_span_ns),
        };
        self.remember(measured_ns);

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

    /// The ring of the last sleeps. Until 5.5 it turned one too late, and each ninth sleep went beyond its end.
    pub(super) fn remember(&mut self, measured_ns: u64) {
        if let Some(slot) = self.intervals.get_mut(self.interval_idx) {
            *slot = measured_ns;
        }
        let slots = self.intervals.len() + usize::from(self.era < Era::Linux56);
        self.interval_idx = (self.interval_idx + 1) % slots;
    }

    /// Asks for the timer and chooses by it and by what is known of its state, within the latency limit.
    pub fn choose(&mut self, view: &mut dyn IdleView) -> Draft {
        self.sleep.time_span_ns = view.local_clock();
        let SleepLength { sleep_length_ns, delta_tick_ns } = view.sleep_length();
        let sleep_length_ns = sleep_length_ns as u64;
        self.sleep.sleep_length_ns = sleep_length_ns;
        let mut duration_ns = sleep_length_ns;
        let (mut idx, alternative, constraint_idx) = match self.era {
            Era::Linux56 => self.scan(view, duration_ns),
            _ => self.scan_5_4(view, duration_ns),
        };
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

    /// The same until 5.4: a disabled state has no record, and a state with most early hits stands in for itself too, which makes the
    /// sleep as long as its residency. Until 5.3 so does the deepest state within the latency limit, which ends the search.
    fn scan_5_4(&self, view: &dyn IdleView, duration_ns: u64) -> (Option<usize>, Option<usize>, usize) {
        let (disabled, latency_req_ns) = (view.disable_mask(), view.latency_req_ns());
        let (mut idx, mut max_early_idx, mut early_hits) = (None, None, 0);
        let mut constraint_idx = self.states.len();
        for (i, (s, m)) in self.states.iter().zip(&self.metrics).enumerate() {
            if is_disabled(disabled, i) {
                if max_early_idx.is_some() {
                    early_hits = m.early_hits.max(early_hits);
                }
                continue;
            }
            let candidate = *idx.get_or_insert(i);
            if s.target_residency_ns as u64 > duration_ns {
                break;
            }
            if s.exit_latency_ns > latency_req_ns {
                if self.era == Era::Linux51 {
                    return (idx, Some(candidate), constraint_idx);
                }
                constraint_idx = constraint_idx.min(i);
            }
            idx = Some(i);
            if early_hits < m.early_hits && teo_time_ok(s.target_residency_ns, view.tick_stopped(), self.tick_ns) {
                (early_hits, max_early_idx) = (m.early_hits, Some(i));
            }
        }
        let missed = idx.is_some_and(|i| self.metrics[i].hits <= self.metrics[i].misses);
        (idx, max_early_idx.filter(|_| missed), constraint_idx)
    }

    /// Expects the mean of the short sleeps if most were; returns whether that made the choice shallower.
    pub fn apply_intervals(&self, view: &dyn IdleView, draft: &mut Draft) -> bool {
        if draft.idx == 0 {
            return false;
        }
        let short_ns = match self.era {
            Era::Linux51 => self.states[draft.idx].target_residency_ns as u64,
            _ => draft.duration_ns,
        };
        let (mut count, mut sum) = (0, 0u64);
        for &val in self.intervals.iter().filter(|v| **v < short_ns) {
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
