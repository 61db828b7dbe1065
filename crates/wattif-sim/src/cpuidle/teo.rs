//! Timer-events-oriented idle governor: timers are known, so count only how often they are beaten.
//!
//! # Idea
//! The idle states cut the time axis into bins: bin `i` is from the target residency of state `i` to that of the next.
//! The next timer falls into one bin, the sleep as measured into the same one (a **hit**) or a shallower one (an
//! **intercept**: something other than the timer woke the CPU). If hits dominate, trust the timer; if intercepts do,
//! take the state in whose bin, or deeper, more than half of them fell.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | `sleep_length`, `delta_tick` | ns | the CPU's timers, without and with tick | per call; 6.12: if it matters |
//! | `time_span` | ns | clock, from select to reflect | when the CPU wakes |
//! | `last_residency` | ns | the idle loop, measured | when the CPU wakes |
//! | `hits`, `intercepts` per state | 0..=8192, 1024 per event | learned | every sleep, −1/8 and +1024 |
//! | `cpu_util` | 0..=1024 | the load tracker; 6.3-util and 6.6 | per call |
//! | `latency_req` | ns | PM QoS of the run | per call |
//!
//! # Decision
//! Generation 6.12:
//! 1. Learn from the last sleep: if it lasted to the timer (or a safety net ended it: the tick, or the limit of a poll)
//!    it was as long as the timer; otherwise take the residency less half the exit latency. Decay all bins by an
//!    eighth, add 1024 to the hits of the timer's bin if the measured time is in it, else to the intercepts of the
//!    measured one. If the deepest residency is below a tick, `tick_hits` is one more bin beyond it.
//! 2. Candidate: the deepest enabled state. If twice the intercepts below it exceed all events but the hits below it,
//!    go down until the intercepts passed exceed half of those; state 0 ends the search (tick kept, timer still asked,
//!    so that the guess can be judged).
//! 3. No deeper than `latency_req` allows. For state 0, or a residency below 15 µs above a polling state, do not ask
//!    for the timer: keep the tick.
//! 4. Ask for the timer; if it comes before the residency of the candidate, go shallower.
//! 5. If intercepts make up more than 5/8 of all events and the state's residency is below a tick, expect half a tick.
//! 6. Keep the tick if the state polls or the expected time is below a tick, and then choose no state whose residency
//!    exceeds the time to the next event with the tick.
//!
//! With the tick stopped, step 2 goes down only to states with residencies of a tick or more (a wrong choice would last
//! long).
//!
//! 6.1 (since 5.14): asks for the timer first and starts from the state that fits it; it also goes down if more than
//! four of the last nine events were intercepts below the candidate, and takes the middle of a bin as the expected
//! time.
//!
//! 6.3-util: as 6.1, and a CPU whose utilisation exceeds 1/64 of its capacity takes the next shallower state that does not
//! poll (of two states, the shallowest that does not poll, at once).
//!
//! 6.6 (to 6.10): steps 1 to 6 of 6.12, with three things of its forerunners: the last nine events also send it down in
//! step 2, as in 6.1; a utilised CPU takes one state shallower, as in 6.3-util, before step 3; and where step 2 ends at
//! state 0 the timer is not asked for, so that the wake-up counts as an intercept even if a timer was the cause. It counts
//! the last nine with a slip: a sleep that lasts as long as a tick takes the event it is to replace off its bin but leaves it
//! in place, to be taken off again nine events later, and the count, unsigned, falls below 0. From then on the last nine seem to
//! be a reason to go down whatever they are, and hardly any state below the candidate to hold over half of them: step 2 ends where
//! it began, and it is left to the later steps to find a shallower state. 6.11 counts them no more.
//!
//! 6.6 and 6.12 are those of the last stable kernels: as released, both went shallower in step 4, with the tick stopped, only to a
//! residency of a tick or more.
//!
//! 6.14: as 6.12 with fewer and other counters. The sum of all events is one decaying counter; a sleep that a safety net
//! ended counts as endless; intercepts before the tick are counted apart (`tick_intercepts`, 6.14: those *not* before the
//! tick, a slip that 6.19 mends); `short_idles` counts sleeps below 15 µs, measured as in step 1, and those that did not
//! outlast the exit latency of their state. In step 3 the timer is not asked for only where half of all sleeps were short, or
//! the latency limit is below 7.5 µs. In step 4, with the tick stopped, it goes shallower only to a residency of a tick or more.
//!
//! 6.19: as 6.14 with the slip mended. The sum of all events is again that of the decayed bins, and this one. A counter below
//! 8, which an eighth no longer lessens, becomes 0. In step 2 the descent takes the shallowest enabled state it reaches where
//! none has over half; with the tick stopped it ends at states of a tick or more, and step 4 asks no more. A sleep that the tick
//! ended, however far the timer was, counts by its length; but if such sleeps are more than two thirds of all
//! (`tick_wakeups`), as a hit of the deepest state, so that the tick is stopped next time.
//!
//! 2026 (7.0): as 6.19, and the search of step 2 ends no deeper than the state with most intercepts. Example:
//! intercepts 5, 3, 3 (times 1024), total 12. From the deep end 3 + 3 is over half of 11: 6.19 takes state 1, though
//! fewer sleeps ended in its bin than in that of state 0; 2026 takes state 0. A sleep is a hit only if it, measured as
//! in step 1, also ended less than half an exit latency before the timer: in a wide bin others are far shorter. Sleeps
//! that the tick ended are hits of the timer's state, unless two thirds of all events are intercepts before the tick,
//! which is also what step 5 asks instead of 5/8 (there the sleep just counted is one of the events, here not yet).
//!
//! 5.6: each state has `hits`, `misses` (of the state that fits the timer) and `early_hits` (of a shallower one that
//! fitted the sleep). If misses outweigh hits, take the state with most early hits. Then, if more than half of the last
//! 8 (`intervals`) sleeps were shorter than the expected time, expect their mean instead. Of the states beyond the latency
//! limit it still takes the first, as that kernel did.
//!
//! 5.4: as 5.6, and a state that fits the timer and has most early hits itself, but more misses than hits, stays, and its residency is
//! the expected time: the tick is kept where that is shorter. Disabled states are not looked at. A sleep is as long as the whole way from
//! the choice to the report. Each ninth sleep is forgotten at once, a slip.
//!
//! 5.1 (to 5.3): as 5.4, but the search ends where the latency limit does, and the residency of the state there is the expected time, so
//! that the tick is kept; and only sleeps that are shorter than the residency of the chosen state count as shorter.
//!
//! Worked example (6.12), states 2/2, 10/20, 133/600 µs: hits 0, 0, 2048, intercepts 0, 4096, 0, total 6144. Below the
//! deepest: intercepts 4096, hits 0; 2 × 4096 > 6144 → go down; state 1 has 4096 > 2048 → state 1.
//!
//! # State and cost
//! Two counters per state, a sum and the last sleep per CPU (6.1, 6.6: and the last nine events; 5.6: three counters, 8
//! times). O(states) per decision; 6.12 does not ask for the timer where it expects to be woken at once.
//!
//! # Where it fails
//! One histogram for all sleeps: two alternating rhythms look like a broad distribution. In 5.6, a wake-up by timer
//! enters the list of times as endless and so wipes out evidence for short sleeps; and where states are few and far
//! apart (POWER9: 100 µs, then 10 ms), everything in between is one bin.
//!
//! # Differences from the kernel
//! None known where vectors exist: bit-exact with `idle_teo-6.12`, `idle_teo-6.1` and `idle_teo-5.6` (5,760 rows each).
//! `intervals` is a constant, 8, in the kernel. 5.14 is taken to decide as 6.1 does. FIDELITY(teo-without-vectors):
//! 5.1, 5.4, 6.3-util, 6.6, 6.14, 6.19 and 2026 follow descriptions, no vectors of their code exist.
//!
//! # Source
//! Linux 6.12.117, 6.1.192 and 5.6.4 `drivers/cpuidle/governors/teo.c` (behaviour; vectors of
//! that code); commits cab09f3d2d2a "cpuidle: teo: Allow tick to be stopped if PM QoS is used" (5.4), "cpuidle: teo: Consider hits and
//! misses metrics of disabled states", "… Exclude cpuidle overhead from computations", "… Avoid using "early hits" incorrectly", "…
//! Fix intervals[] array indexing bug" (5.5). K. Puchalski, "cpuidle: teo: Introduce util-awareness", linux-pm, January 2023 (6.3-util). R. J. Wysocki,
//! linux-pm: "cpuidle: teo: Do not call tick_nohz_get_sleep_length() upfront", "… Skip tick_nohz_get_sleep_length() call in
//! some cases", "… Gather statistics regarding whether or not to stop the tick" (6.6); C. Loehle, "cpuidle: teo: Remove recent
//! intercepts metric", June 2024, on the slip of 6.6; R. J. Wysocki, "cpuidle: teo: Cleanups and very
//! frequent wakeups handling update", January 2025 (6.14); "cpuidle: governors: teo: Fix tick_intercepts handling in
//! teo_update()", "… Rework the handling of tick wakeups", "… Decay metrics below DECAY_SHIFT threshold", November 2025 (6.19);
//! "… Refine intercepts-based idle state lookup", "… Adjust the classification of wakeup events", "… Avoid fake intercepts
//! produced by tick", "… Refine tick_intercepts vs total events check", "… Avoid selecting states with zero-size bins",
//! January 2026 (2026).

mod bins;
mod early_hits;
mod recent;
mod short_idles;
mod tick_hits;
mod utilized;

pub use early_hits::INTERVALS;
pub(super) use early_hits::{Draft, EarlyHits, Lesson};

use super::{IdleGovernor, IdleSleep, StateTable, Tunable};
use early_hits::Teo56;
use recent::Teo61;
use short_idles::{Era, Teo614};
use tick_hits::Teo612;
use utilized::Teo66;

/// Tunables of `teo`.
pub const TUNABLES: &[Tunable] = &[
    Tunable {
        name: "generation",
        default: "6.12",
        allowed: &["5.1", "5.4", "5.6", "5.14", "6.1", "6.3-util", "6.6", "6.12", "6.14", "6.19", "2026"],
        doc: "the governor of this kernel; 5.14 decides as 6.1, 6.6 is that of 6.6 to 6.10, 2026 that of 7.0",
    },
    Tunable {
        name: "intervals",
        default: "8",
        allowed: &["8", "16", "32", "64", "128"],
        doc: "generations 5.1 to 5.6: how many sleeps are remembered one by one",
    },
];

/// Weight of one event.
pub(super) const PULSE: u32 = 1024;
pub(super) const DECAY_SHIFT: u32 = 3;

/// `teo` of a generation (`""` is the default, `5.14` another name for `6.1`) with a history of `intervals` ≥ 1 sleeps,
/// which only generations to 5.6 have.
pub fn build(generation: &str, intervals: usize, nr_cpus: usize, tick_ns: u64) -> Option<Box<dyn IdleGovernor>> {
    let tick_ns = tick_ns as i64;
    Some(match generation {
        "5.1" => Box::new(Teo56::new(early_hits::Era::Linux51, intervals, nr_cpus, tick_ns)),
        "5.4" => Box::new(Teo56::new(early_hits::Era::Linux54, intervals, nr_cpus, tick_ns)),
        "5.6" => Box::new(Teo56::new(early_hits::Era::Linux56, intervals, nr_cpus, tick_ns)),
        "5.14" | "6.1" => Box::new(Teo61::new(false, nr_cpus, tick_ns)),
        "6.3-util" => Box::new(Teo61::new(true, nr_cpus, tick_ns)),
        "6.6" => Box::new(Teo66::new(nr_cpus, tick_ns)),
        "6.12" | "" => Box::new(Teo612::new(nr_cpus, tick_ns)),
        "6.14" => Box::new(Teo614::new(Era::Linux614, nr_cpus, tick_ns)),
        "6.19" => Box::new(Teo614::new(Era::Linux619, nr_cpus, tick_ns)),
        "2026" => Box::new(Teo614::new(Era::Linux2026, nr_cpus, tick_ns)),
        _ => return None,
    })
}

/// The sleep between a `select` and the next, as every generation keeps it. Times are the kernel's 64-bit words: 5.6
/// reads them as unsigned, later ones as signed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sleep {
    /// The clock at `select`, then the time until `reflect`.
    pub time_span_ns: u64,
    /// Time to the next timer as known at `select`.
    pub sleep_length_ns: u64,
    last_residency_ns: u64,
    /// `None`: nothing to learn from.
    last_state_idx: Option<usize>,
}

impl Sleep {
    /// As at boot: the kernel's zeroed memory is a sleep of no length in state 0.
    fn at_boot() -> Sleep {
        Sleep { last_state_idx: Some(0), ..Sleep::default() }
    }

    /// A sleep begins; the time to the next timer is endless until it is asked for. So the wake-up from a sleep for which it
    /// was not asked counts as an intercept, even if a timer was the cause.
    fn begin_unasked(&mut self, clock_ns: u64) {
        self.time_span_ns = clock_ns;
        self.sleep_length_ns = super::KTIME_MAX as u64;
    }

    /// As [`Sleep::reflect`]; a tick matters where the next timer was further away than one.
    fn ended(&mut self, sleep: &IdleSleep, tick_ns: i64) {
        self.reflect(sleep, self.sleep_length_ns as i64 > tick_ns);
    }

    #[doc(alias = "teo_reflect")]
    pub fn reflect(&mut self, sleep: &IdleSleep, tick_matters: bool) {
        self.last_residency_ns = sleep.residency_ns;
        let Some(entered) = sleep.entered else { return };
        self.last_state_idx = Some(entered);
        // A safety net, not an event, ended the sleep: it might have lasted to the timer.
        if sleep.poll_time_limit || (sleep.got_tick && tick_matters) {
            self.time_span_ns = self.sleep_length_ns;
        } else {
            self.time_span_ns = sleep.clock_ns.wrapping_sub(self.time_span_ns);
        }
    }

    /// The sleep's length for learning: endless if the timer ended it, else less half of the exit latency.
    pub fn measured_ns(&self, states: &StateTable, entered: usize, timer_wakeup: bool) -> u64 {
        if timer_wakeup {
            return u64::MAX;
        }
        less_half_of(states[entered].exit_latency_ns as u64, self.last_residency_ns)
    }

    fn timer_wakeup(&self) -> bool {
        self.time_span_ns as i64 >= self.sleep_length_ns as i64
    }
}

/// How long the sleep was, as its end is not the wake-up: half of the exit latency is taken off.
fn less_half_of(lat_ns: u64, span_ns: u64) -> u64 {
    if span_ns >= lat_ns { span_ns - lat_ns / 2 } else { span_ns / 2 }
}

/// Would a sleep of this long be bearable: always, unless the tick is stopped and so cannot correct the choice?
fn teo_time_ok(interval_ns: i64, tick_stopped: bool, tick_ns: i64) -> bool {
    !tick_stopped || interval_ns >= tick_ns
}

#[cfg(test)]
mod tests;
