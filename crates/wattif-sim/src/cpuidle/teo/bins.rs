//! The bins that every generation of `teo` since 5.14 counts in, and the two searches over them.

use super::super::{CPUIDLE_STATE_MAX, IdleView, StateTable, is_disabled};
use super::recent::Outcome;
use super::{DECAY_SHIFT, PULSE};

/// What a CPU has learned of each of its states.
pub(super) type Bins = [Bin; CPUIDLE_STATE_MAX];

/// The sleeps whose length lies between the residency of a state and that of the next.
#[derive(Clone, Copy, Debug, Default)]
#[doc(alias = "teo_bin")]
pub(super) struct Bin {
    pub intercepts: u32,
    pub hits: u32,
    /// Until 6.10: intercepts among the last events; in 6.6 it falls below 0 and wraps, see [`super::recent::RecentEvents::push`].
    pub recent: u32,
}

/// Decays all bins; returns the sum of what is left.
pub(super) fn decay(bins: &mut [Bin], states: &StateTable) -> u32 {
    let decay = |bin: &mut Bin| {
        bin.hits -= bin.hits >> DECAY_SHIFT;
        bin.intercepts -= bin.intercepts >> DECAY_SHIFT;
        bin.hits + bin.intercepts
    };
    bins[..states.len()].iter_mut().map(decay).sum()
}

/// The bins of the timer and of the sleep; the sleep's is never the deeper one, as no sleep outlasts the timer.
pub(super) fn bins_of(states: &StateTable, sleep_length_ns: i64, measured_ns: u64) -> (usize, usize) {
    let (mut idx_timer, mut idx_duration) = (0, 0);
    for (i, state) in states.iter().enumerate() {
        if state.target_residency_ns <= sleep_length_ns {
            idx_timer = i;
            if state.target_residency_ns as u64 <= measured_ns {
                idx_duration = i;
            }
        }
    }
    (idx_timer, idx_duration)
}

/// Counts a sleep that ended in the bin `idx_duration`: a hit if that is the timer's, else an intercept.
pub(super) fn count(bins: &mut Bins, idx_timer: usize, idx_duration: usize) -> Outcome {
    if idx_timer == idx_duration {
        bins[idx_timer].hits += PULSE;
        return Outcome::Hit;
    }
    bins[idx_duration].intercepts += PULSE;
    Outcome::Intercept(idx_duration)
}

/// The candidate state, and what happened in the bins below it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Candidate {
    /// The first enabled state.
    pub idx0: usize,
    pub idx: usize,
    /// The deepest enabled state within the latency limit.
    pub constraint_idx: usize,
    pub intercepts: u32,
    pub hits: u32,
    pub recent: u32,
}

/// The deepest enabled state, and all intercepts; `None` where no state is enabled.
pub(super) fn deepest(
    bins: &[Bin],
    states: &StateTable,
    disabled: u32,
    latency_req_ns: i64,
) -> Option<(Candidate, u32)> {
    let (mut intercepts, mut hits, mut recent) = (0, 0, 0);
    let mut found = (!is_disabled(disabled, 0)).then(Candidate::default);
    for (i, pair) in bins[..states.len()].windows(2).enumerate() {
        let i = i + 1;
        intercepts += pair[0].intercepts;
        hits += pair[0].hits;
        recent = u32::wrapping_add(recent, pair[0].recent);
        if is_disabled(disabled, i) {
            continue;
        }
        let c = found.get_or_insert(Candidate { idx0: i, ..Candidate::default() });
        if states[i].exit_latency_ns <= latency_req_ns {
            c.constraint_idx = i;
        }
        *c = Candidate { idx: i, intercepts, hits, recent, ..*c };
    }
    found.map(|c| (c, intercepts + bins[states.len() - 1].intercepts))
}

/// Why to look for a state below the candidate: most events, or most of the recent ones, were intercepts there.
#[derive(Clone, Copy)]
pub(super) struct Reason {
    pub intercepts: bool,
    pub recent: bool,
}

/// The deepest state below the candidate that would have been right for over half of the early wake-ups: of all, of
/// the recent ones, or both, whichever is the reason to go down. `bearable`: is a state deep enough if the tick is stopped
/// and cannot correct the choice?
pub(super) fn descend(
    bins: &Bins,
    c: &Candidate,
    disabled: u32,
    reason: Reason,
    bearable: impl Fn(usize) -> bool,
) -> usize {
    let mut suitable = c.idx;
    let (mut intercepts, mut recent) = (0, 0u32);
    for i in (0..c.idx).rev() {
        intercepts += bins[i].intercepts;
        recent = recent.wrapping_add(bins[i].recent);
        let enough = (!reason.intercepts || 2 * intercepts > c.intercepts)
            && (!reason.recent || recent.wrapping_mul(2) > c.recent);
        let enabled = !is_disabled(disabled, i);
        if enough {
            return if enabled && bearable(i) { i } else { suitable };
        }
        if !enabled {
            continue;
        }
        if bearable(i) {
            suitable = i;
        } else if suitable == c.idx {
            // Too shallow and nothing better found: no alternative.
            break;
        }
    }
    c.idx
}

/// Busier than 1/64 of its capacity?
pub(super) fn teo_cpu_is_utilized(view: &dyn IdleView) -> bool {
    let (util, capacity) = view.cpu_util();
    util > capacity >> 6
}

/// As [`StateTable::find_shallower_state`], but never a state that polls.
pub(super) fn shallower_without_polling(states: &StateTable, disabled: u32, idx: usize, duration_ns: i64) -> usize {
    let mut found = idx;
    for i in (0..idx).rev().filter(|i| !is_disabled(disabled, *i) && !states[*i].polling) {
        found = i;
        if states[i].target_residency_ns <= duration_ns {
            break;
        }
    }
    found
}
