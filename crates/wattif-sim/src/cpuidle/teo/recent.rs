//! Generations 6.1 (5.14 to 6.2) and 6.3-util: bins of hits and intercepts, and the last nine events one by one.

use super::super::{
    CpuidleState, IdleGovernor, IdleSelection, IdleSleep, IdleView, SleepLength, StateTable, is_disabled, list,
    settle_tick,
};
use super::bins::{
    Bins, Candidate, Reason, bins_of, count, decay, descend, shallower_without_polling, teo_cpu_is_utilized,
};
use super::{PULSE, Sleep, teo_time_ok};
use wattif_model::ids::CpuId;

/// Events remembered one by one.
pub(super) const NR_RECENT: usize = 9;

/// What a sleep that ended was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It lasted to the timer.
    Hit,
    /// It ended in this bin, before the timer's.
    Intercept(usize),
    /// Since 6.6: it outlasted the tick.
    TickHit,
}

/// The bins of the last events, in a ring.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RecentEvents {
    next_idx: usize,
    /// `None` was a hit.
    intercepts: [Option<usize>; NR_RECENT],
}

impl RecentEvents {
    /// Takes the oldest event off its bin and puts a new one in its place. That of 6.6 takes it off but leaves it in place where the
    /// tick was outlasted, so that it is taken off again nine events later: `recent`, unsigned, falls below 0 and is huge
    /// from then on.
    pub fn push(&mut self, bins: &mut Bins, outcome: Outcome) {
        let event = &mut self.intercepts[self.next_idx];
        self.next_idx = (self.next_idx + 1) % NR_RECENT;
        if let Some(old) = *event {
            bins[old].recent = bins[old].recent.wrapping_sub(1);
        }
        match outcome {
            Outcome::Hit => *event = None,
            Outcome::Intercept(bin) => {
                bins[bin].recent = bins[bin].recent.wrapping_add(1);
                *event = Some(bin);
            }
            Outcome::TickHit => {}
        }
    }

    pub fn next_idx(&self) -> usize {
        self.next_idx
    }
}

/// Generation 6.1: the bins of 5.14.
#[derive(Clone, Debug)]
pub struct Teo61 {
    tick_ns: i64,
    /// 6.3-util.
    util_aware: bool,
    cpus: Vec<Recent>,
}

impl Teo61 {
    pub fn new(util_aware: bool, nr_cpus: usize, tick_ns: i64) -> Teo61 {
        Teo61 { tick_ns, util_aware, cpus: vec![Recent::default(); nr_cpus] }
    }
}

#[derive(Clone, Debug, Default)]
struct Recent {
    states: StateTable,
    sleep: Sleep,
    bins: Bins,
    total: u32,
    events: RecentEvents,
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
        self.cpus[cpu.at()].sleep.ended(sleep, self.tick_ns);
    }

    fn debug_state(&self, cpu: CpuId) -> String {
        let data = &self.cpus[cpu.at()];
        let bins = data.bins[..data.states.len()].iter().map(|b| format!("{}:{}:{}", b.hits, b.intercepts, b.recent));
        format!("{}|{}|{}", list(bins), data.total, data.events.next_idx())
    }
}

impl Recent {
    fn teo_update(&mut self, entered: usize) {
        let sleep_length_ns = self.sleep.sleep_length_ns as i64;
        let measured_ns = self.sleep.measured_ns(&self.states, entered, self.sleep.timer_wakeup());
        self.total = decay(&mut self.bins, &self.states) + PULSE;
        let (idx_timer, idx_duration) = bins_of(&self.states, sleep_length_ns, measured_ns);
        let outcome = count(&mut self.bins, idx_timer, idx_duration);
        self.events.push(&mut self.bins, outcome);
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
        let reason =
            Reason { intercepts: 2 * c.intercepts > self.total - c.hits, recent: c.recent as usize > NR_RECENT / 2 };
        let (mut idx, mut duration_ns) = (c.idx, duration_ns);
        if reason.intercepts || reason.recent {
            let bearable = |i| teo_time_ok(self.teo_middle_of_bin(i), view.tick_stopped(), tick_ns);
            idx = descend(&self.bins, &c, disabled, reason, bearable);
            if idx < c.idx {
                duration_ns = self.teo_middle_of_bin(idx);
            }
        }
        idx = idx.min(c.constraint_idx);
        if utilized {
            idx = shallower_without_polling(&self.states, disabled, idx, duration_ns);
        }
        (idx, c.idx0, duration_ns)
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

    fn teo_middle_of_bin(&self, i: usize) -> i64 {
        (self.states[i].target_residency_ns + self.states[i + 1].target_residency_ns) / 2
    }
}
