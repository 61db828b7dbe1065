//! Generation 6.6 (to 6.10): between [`super::recent`] and [`super::tick_hits`]. The candidate is chosen from the bins
//! alone, a busy CPU takes a shallower one, and the timer is asked for only if the candidate is deep.

use super::super::{
    CpuidleState, IdleGovernor, IdleSelection, IdleSleep, IdleView, KTIME_MAX, RESIDENCY_THRESHOLD_NS, is_disabled,
    list,
};
use super::bins::{Reason, deepest, descend, shallower_without_polling, teo_cpu_is_utilized};
use super::recent::{NR_RECENT, RecentEvents};
use super::teo_time_ok;
use super::tick_hits::{TickHits, keep_tick};
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

/// What 6.12 keeps, and the recent events.
#[derive(Clone, Debug, Default)]
struct Utilized {
    hits: TickHits,
    events: RecentEvents,
}

impl IdleGovernor for Teo66 {
    fn enable(&mut self, cpu: CpuId, states: &[CpuidleState]) {
        self.cpus[cpu.at()] = Utilized { hits: TickHits::at_boot(states), events: RecentEvents::default() };
    }

    fn select(&mut self, cpu: CpuId, view: &mut dyn IdleView) -> IdleSelection {
        let Utilized { hits, events } = &mut self.cpus[cpu.at()];
        if let Some(entered) = hits.sleep.last_state_idx.take() {
            let outcome = hits.teo_update(entered, self.tick_ns);
            events.push(&mut hits.bins, outcome);
        }
        hits.sleep.begin_unasked(view.local_clock());
        choose(hits, view, self.tick_ns)
    }

    fn reflect(&mut self, cpu: CpuId, sleep: &IdleSleep) {
        self.cpus[cpu.at()].hits.sleep.ended(sleep, self.tick_ns);
    }

    fn debug_state(&self, cpu: CpuId) -> String {
        let Utilized { hits, events } = &self.cpus[cpu.at()];
        let bins = hits.bins[..hits.states.len()].iter().map(|b| format!("{}:{}:{}", b.hits, b.intercepts, b.recent));
        format!("{}|{}|{}|{}", list(bins), hits.total, events.next_idx(), hits.tick_hits)
    }
}

fn choose(data: &mut TickHits, view: &mut dyn IdleView, tick_ns: i64) -> IdleSelection {
    let disabled = view.disable_mask();
    if data.states.len() < 2 {
        return keep_tick(0);
    }
    let utilized = teo_cpu_is_utilized(view);
    if utilized && data.states.len() == 2 {
        return of_two(data, view, tick_ns);
    }
    let Some((c, all_intercepts)) = deepest(&data.bins, &data.states, disabled, view.latency_req_ns()) else {
        return keep_tick(0);
    };
    if c.idx == c.idx0 {
        return data.only((c.idx, c.idx0), view, tick_ns);
    }
    let mut idx = c.idx;
    let reason =
        Reason { intercepts: 2 * c.intercepts > data.total - c.hits, recent: c.recent as usize > NR_RECENT / 2 };
    let tick_stopped = view.tick_stopped();
    let deep_enough = |i: usize| teo_time_ok(data.states[i].target_residency_ns, tick_stopped, tick_ns);
    if reason.intercepts || reason.recent {
        idx = descend(&data.bins, &c, disabled, reason, deep_enough);
    }
    idx = idx.min(c.constraint_idx);
    if utilized {
        // Not yet asked how long the sleep may last: the next state that does not poll, whatever its residency.
        let shallower = shallower_without_polling(&data.states, disabled, idx, KTIME_MAX);
        idx = if deep_enough(shallower) { shallower } else { idx };
    }
    let soon = data.states[0].polling && data.states[idx].target_residency_ns < RESIDENCY_THRESHOLD_NS;
    if idx == 0 || soon {
        return keep_tick(idx);
    }
    data.refine((idx, c.idx0), all_intercepts, view, tick_ns)
}

/// Of two states, the shallowest that does not poll and is deep enough.
fn of_two(data: &TickHits, view: &dyn IdleView, tick_ns: i64) -> IdleSelection {
    let disabled = |i| is_disabled(view.disable_mask(), i);
    let deep_enough = teo_time_ok(data.states[0].target_residency_ns, view.tick_stopped(), tick_ns);
    if disabled(1) || (!disabled(0) && !data.states[0].polling && deep_enough) {
        return keep_tick(0);
    }
    data.only((1, 0), view, tick_ns)
}
