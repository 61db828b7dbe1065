//! Generations 6.14, 6.19 and 2026: running counters beside the bins say how often a sleep was short, ended before the tick,
//! or was ended by the tick.

use super::super::{
    CpuidleState, IdleGovernor, IdleSelection, IdleSleep, IdleView, KTIME_MAX, RESIDENCY_THRESHOLD_NS, SleepLength,
    StateTable, is_disabled, list, settle_tick,
};
use super::bins::{Bin, Bins, Candidate, Reason, bins_of, deepest, descend};
use super::{DECAY_SHIFT, PULSE, Sleep, teo_time_ok};
use wattif_model::ids::CpuId;

/// A latency limit below this, ns, forces shallow states whatever wakes the CPU.
const LATENCY_THRESHOLD_NS: i64 = RESIDENCY_THRESHOLD_NS / 2;

/// The kernels whose rules differ, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Era {
    Linux614,
    Linux619,
    Linux2026,
}

impl Era {
    /// What is left of a metric. Until 6.14 what is below 8 stays for ever; later it is forgotten.
    #[doc(alias = "teo_decay")]
    fn decayed(self, metric: u32) -> u32 {
        match metric >> DECAY_SHIFT {
            0 if self >= Era::Linux619 => 0,
            delta => metric - delta,
        }
    }
}

/// Generations 6.14 and later.
#[derive(Clone, Debug)]
pub struct Teo614 {
    tick_ns: i64,
    era: Era,
    cpus: Vec<ShortIdles>,
}

impl Teo614 {
    pub fn new(era: Era, nr_cpus: usize, tick_ns: i64) -> Teo614 {
        Teo614 { tick_ns, era, cpus: vec![ShortIdles::default(); nr_cpus] }
    }
}

/// What ended the last sleep.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wakeup {
    /// A safety net: the sleep might have lasted to the timer. The limit of a poll; in 6.14 also the tick, if the next timer was
    /// further away than one.
    #[doc(alias = "artificial_wakeup")]
    pub safety_net: bool,
    /// Since 6.19: the tick, whatever else did.
    #[doc(alias = "tick_wakeup")]
    pub tick: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct ShortIdles {
    pub states: StateTable,
    pub sleep: Sleep,
    pub wakeup: Wakeup,
    pub bins: Bins,
    pub total: u32,
    pub tick_intercepts: u32,
    /// Since 6.19.
    pub tick_wakeups: u32,
    pub short_idles: u32,
}

impl IdleGovernor for Teo614 {
    fn enable(&mut self, cpu: CpuId, states: &[CpuidleState]) {
        let (states, sleep) = (StateTable::new(states), Sleep::at_boot());
        self.cpus[cpu.at()] = ShortIdles { states, sleep, ..ShortIdles::default() };
    }

    fn select(&mut self, cpu: CpuId, view: &mut dyn IdleView) -> IdleSelection {
        let data = &mut self.cpus[cpu.at()];
        if let Some(entered) = data.sleep.last_state_idx.take() {
            data.teo_update(entered, self.era, self.tick_ns);
        }
        data.sleep.sleep_length_ns = KTIME_MAX as u64;
        data.choose(view, self.era, self.tick_ns)
    }

    fn reflect(&mut self, cpu: CpuId, sleep: &IdleSleep) {
        let data = &mut self.cpus[cpu.at()];
        let tick_matters = data.sleep.sleep_length_ns as i64 > self.tick_ns;
        let tick = sleep.got_tick && self.era >= Era::Linux619;
        let safety_net = sleep.poll_time_limit || (sleep.got_tick && !tick && tick_matters);
        data.wakeup = Wakeup { safety_net, tick };
        data.sleep.reflect(sleep, tick_matters);
    }

    fn debug_state(&self, cpu: CpuId) -> String {
        let d = &self.cpus[cpu.at()];
        let bins = list(d.bins[..d.states.len()].iter().map(|b| format!("{}:{}", b.hits, b.intercepts)));
        format!("{bins}|{}|{}|{}|{}", d.total, d.tick_intercepts, d.tick_wakeups, d.short_idles)
    }
}

impl ShortIdles {
    pub(super) fn teo_update(&mut self, entered: usize, era: Era, tick_ns: i64) {
        let sleep_length_ns = self.sleep.sleep_length_ns as i64;
        let measured_ns = self.sleep.measured_ns(&self.states, entered, self.wakeup.safety_net);
        let in_bins = self.decay(era);
        self.total = PULSE + if era == Era::Linux614 { era.decayed(self.total) } else { in_bins };
        // A sleep that did not outlast the way out of its state was short, however long that way is.
        let woken_on_entry = self.sleep.last_residency_ns < self.states[entered].exit_latency_ns as u64;
        if !self.wakeup.safety_net && (woken_on_entry || measured_ns < RESIDENCY_THRESHOLD_NS as u64) {
            self.short_idles += PULSE;
        }
        let (idx_timer, idx_duration) = bins_of(&self.states, sleep_length_ns, measured_ns);
        if self.wakeup.tick {
            self.tick_wakeups += PULSE;
            if let Some(bin) = self.bin_of_tick_wakeup(idx_timer, era, in_bins) {
                self.bins[bin].hits += PULSE;
                return;
            }
        }
        // 2026: in a wide bin, a sleep may end long before the timer and yet in the timer's bin.
        let early_ns = sleep_length_ns.saturating_sub(i64::try_from(measured_ns).unwrap_or(i64::MAX));
        let near = era < Era::Linux2026 || early_ns < self.states[entered].exit_latency_ns / 2;
        if idx_timer == idx_duration && near {
            self.bins[idx_timer].hits += PULSE;
        } else {
            self.bins[idx_duration].intercepts += PULSE;
            // 6.14 counts those that do not end before the tick: a slip, mended in 6.19.
            let counts = match era {
                Era::Linux614 => tick_ns as u64 <= measured_ns,
                _ => measured_ns <= tick_ns as u64,
            };
            self.tick_intercepts += if counts { PULSE } else { 0 };
        }
    }

    /// Decays all but the total; returns the sum of what is left in the bins.
    fn decay(&mut self, era: Era) -> u32 {
        for metric in [&mut self.tick_intercepts, &mut self.tick_wakeups, &mut self.short_idles] {
            *metric = era.decayed(*metric);
        }
        let decay = |bin: &mut Bin| {
            (bin.hits, bin.intercepts) = (era.decayed(bin.hits), era.decayed(bin.intercepts));
            bin.hits + bin.intercepts
        };
        self.bins[..self.states.len()].iter_mut().map(decay).sum()
    }

    /// The bin in which a wake-up by the tick is a hit: the deepest, if the tick is what wakes this CPU, so that it may be
    /// stopped next time. Since 2026 also the timer's, unless most events come before the tick: then this one would have,
    /// had the tick not been first; of events, only this question leaves the one out that is being counted (`in_bins`). Otherwise the
    /// wake-up counts as any other.
    fn bin_of_tick_wakeup(&self, idx_timer: usize, era: Era, in_bins: u32) -> Option<usize> {
        if 3 * self.tick_wakeups > 2 * self.total {
            return Some(self.states.len() - 1);
        }
        (era >= Era::Linux2026 && 3 * self.tick_intercepts < 2 * in_bins).then_some(idx_timer)
    }

    pub(super) fn choose(&mut self, view: &mut dyn IdleView, era: Era, tick_ns: i64) -> IdleSelection {
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
        let bearable = |i: usize| teo_time_ok(self.states[i].target_residency_ns, view.tick_stopped(), tick_ns);
        // The counter of 6.14 rounds once where the bins round one by one, so it may fall short of their hits; the kernel's
        // unsigned difference is then huge.
        if 2 * c.intercepts > self.total.wrapping_sub(c.hits) {
            idx = match era {
                Era::Linux614 => {
                    descend(&self.bins, &c, disabled, Reason { intercepts: true, recent: false }, bearable)
                }
                _ => self.descend(&c, view, era, tick_ns),
            };
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
            let shallower = self.states.find_shallower_state(disabled, idx, duration_ns);
            let bearable = teo_time_ok(self.states[shallower].target_residency_ns, view.tick_stopped(), tick_ns);
            if bearable || era >= Era::Linux619 {
                idx = shallower;
            }
        }
        if self.states[idx].target_residency_ns < tick_ns && self.mostly_before_the_tick(era) {
            duration_ns = tick_ns / 2;
        }
        settle_tick(&self.states, view, tick_ns, (idx, c.idx0), duration_ns, (delta_tick_ns, delta_tick_ns))
    }

    fn mostly_before_the_tick(&self, era: Era) -> bool {
        match era {
            Era::Linux2026 => 3 * self.tick_intercepts >= 2 * self.total,
            _ => self.tick_intercepts > self.total / 2 + self.total / 8,
        }
    }

    /// Since 6.19: the deepest state below the candidate that would have been right for over half of the early wake-ups, or
    /// the shallowest that is bearable.
    fn descend(&self, c: &Candidate, view: &dyn IdleView, era: Era, tick_ns: i64) -> usize {
        let bearable = |i: &usize| teo_time_ok(self.states[*i].target_residency_ns, view.tick_stopped(), tick_ns);
        let min_idx = (c.idx0..c.idx).find(bearable).unwrap_or(c.idx);
        let (mut idx, mut passed) = (c.idx, 0);
        let mut start_idx = c.idx;
        if era >= Era::Linux2026 {
            if view.tick_stopped() && self.states[min_idx].target_residency_ns == self.states[idx].target_residency_ns {
                // The bin of the shallower of two equal states is empty.
                return idx;
            }
            start_idx = self.most_intercepts();
        }
        for i in (min_idx..c.idx).rev() {
            passed += self.bins[i].intercepts;
            if is_disabled(view.disable_mask(), i) {
                continue;
            }
            idx = i;
            if 2 * passed > c.intercepts && i <= start_idx {
                break;
            }
        }
        idx
    }

    /// Of all bins but the last, that of the candidate and of states that are off too; of equal ones, the deepest.
    fn most_intercepts(&self) -> usize {
        (0..self.states.len() - 1).max_by_key(|i| self.bins[*i].intercepts).unwrap_or(0)
    }
}
