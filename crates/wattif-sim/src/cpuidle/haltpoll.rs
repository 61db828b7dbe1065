//! Haltpoll idle governor: a guest polls a little before it halts.
//!
//! # Idea
//! In a virtual machine, halting costs an exit to the host and waking up a trip back, often more than the wait itself.
//! So look for work for a while first. How long is learned: halts that would have fitted into the limit lengthen it,
//! long halts shorten it, down to no polling at all.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | `last_residency` | ns | the idle loop, measured | when the CPU wakes |
//! | `poll_time_limit` | flag | the polling state ended at its limit | when the CPU wakes |
//! | `poll_limit_ns` | 0..=200 µs | learned | after halts |
//! | `latency_req` | ns | PM QoS of the run | per call |
//!
//! # Decision
//! 1. `latency_req == 0` → poll, tick kept.
//! 2. Polling limit 0 → halt.
//! 3. The last state was a poll that ran to its limit → halt. Otherwise poll, tick kept.
//! 4. After a halt of `limit < t ≤ 200 µs`: double the limit (from at least 50 µs). After a longer one: halve it, and
//!    below 50 µs make it 0 (6.12; in 6.1 it is halved on, down to nothing).
//!
//! Worked example: limit 0, halts of 60 µs and 150 µs → limits 50 µs and 100 µs; then one of 5 ms → 50 µs, another → 0
//! (6.1: 25 µs, 12.5 µs, …).
//!
//! # State and cost
//! The limit and the last state per CPU; O(1), no timer query.
//!
//! # Where it fails
//! On real hardware, where polling costs power and halting is cheap. A guest with wake-ups every 150 µs polls for all
//! of them.
//!
//! # Differences from the kernel
//! None known: bit-exact with `idle_haltpoll-6.12` (1,320 rows). 6.1 has no vectors: it is known to lack one line, and all
//! else is taken to be the same. The kernel has two states under this governor; a platform with a single one gets that one.
//! As in the kernel, with more those beyond the second are never used, and nobody looks whether one of the two is disabled.
//!
//! # Source
//! Linux 6.12.117 `drivers/cpuidle/governors/haltpoll.c` (behaviour; vectors of that code).

use super::{CpuidleState, IdleGovernor, IdleSelection, IdleSleep, IdleView, KTIME_MAX, Tunable};
use wattif_model::ids::CpuId;

/// Tunables of `haltpoll`; the kernel's module parameters have their defaults.
pub const TUNABLES: &[Tunable] = &[Tunable {
    name: "generation",
    default: "6.12",
    allowed: &["6.1", "6.12"],
    doc: "the governor of this kernel: only 6.12 gives up polling once the limit is below 50 µs",
}];

const GUEST_HALT_POLL_NS: u64 = 200_000;
const GUEST_HALT_POLL_SHRINK: u64 = 2;
const GUEST_HALT_POLL_GROW: u64 = 2;
const GUEST_HALT_POLL_GROW_START: u64 = 50_000;

/// The governor; see the module's manual.
#[derive(Clone, Debug)]
#[doc(alias = "haltpoll_governor")]
pub struct Haltpoll {
    /// A limit below the first one becomes 0.
    gives_up: bool,
    cpus: Vec<HaltpollDevice>,
}

#[derive(Clone, Debug, Default)]
struct HaltpollDevice {
    deepest_idx: usize,
    last_idx: usize,
    poll_limit_ns: u64,
    poll_time_limit: bool,
}

/// `haltpoll` of a generation (`""` is the default).
pub fn build(generation: &str, nr_cpus: usize, _tick_ns: u64) -> Option<Box<dyn IdleGovernor>> {
    let gives_up = match generation {
        "6.1" => false,
        "6.12" | "" => true,
        _ => return None,
    };
    Some(Box::new(Haltpoll { gives_up, cpus: vec![HaltpollDevice::default(); nr_cpus] }))
}

impl IdleGovernor for Haltpoll {
    #[doc(alias = "haltpoll_enable_device")]
    fn enable(&mut self, cpu: CpuId, states: &[CpuidleState]) {
        assert!(!states.is_empty(), "no idle state");
        self.cpus[cpu.at()] = HaltpollDevice { deepest_idx: states.len() - 1, ..HaltpollDevice::default() };
    }

    #[doc(alias = "haltpoll_select")]
    fn select(&mut self, cpu: CpuId, view: &mut dyn IdleView) -> IdleSelection {
        let data = &self.cpus[cpu.at()];
        let polled_in_vain = data.last_idx == 0 && data.poll_time_limit;
        let halt = view.latency_req_ns() != 0 && (data.poll_limit_ns == 0 || polled_in_vain);
        let state = if halt { data.deepest_idx.min(1) } else { 0 };
        let predicted_ns = if halt { KTIME_MAX } else { data.poll_limit_ns as i64 };
        IdleSelection { state, stop_tick: halt, predicted_ns }
    }

    #[doc(alias = "haltpoll_reflect")]
    fn reflect(&mut self, cpu: CpuId, sleep: &IdleSleep) {
        let data = &mut self.cpus[cpu.at()];
        data.poll_time_limit = sleep.poll_time_limit;
        if let Some(entered) = sleep.entered {
            data.last_idx = entered;
            if entered != 0 {
                data.poll_limit_ns = adjust_poll_limit(data.poll_limit_ns, sleep.residency_ns, self.gives_up);
            }
        }
    }

    /// The idle loop stores its own limit in the governor's when that is 0 and it polls nevertheless (step 1).
    fn poll_limit_ns(&mut self, cpu: CpuId, poll_time_ns: u64) -> u64 {
        let limit = &mut self.cpus[cpu.at()].poll_limit_ns;
        if *limit == 0 {
            *limit = poll_time_ns;
        }
        *limit
    }

    fn debug_state(&self, cpu: CpuId) -> String {
        self.cpus[cpu.at()].poll_limit_ns.to_string()
    }
}

fn adjust_poll_limit(limit_ns: u64, block_ns: u64, gives_up: bool) -> u64 {
    if block_ns > limit_ns && block_ns <= GUEST_HALT_POLL_NS {
        return (limit_ns * GUEST_HALT_POLL_GROW).clamp(GUEST_HALT_POLL_GROW_START, GUEST_HALT_POLL_NS);
    }
    if block_ns > GUEST_HALT_POLL_NS {
        let shrunk = limit_ns / GUEST_HALT_POLL_SHRINK;
        return if gives_up && shrunk < GUEST_HALT_POLL_GROW_START { 0 } else { shrunk };
    }
    limit_ns
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeView, slept, states};
    use super::*;

    #[test]
    fn the_manuals_worked_example() {
        let limits = |gives_up| {
            let next = |limit: &mut u64, block| {
                *limit = adjust_poll_limit(*limit, block, gives_up);
                Some(*limit)
            };
            [60_000, 150_000, 5_000_000, 5_000_000, 5_000_000].into_iter().scan(0, next).collect::<Vec<_>>()
        };
        assert_eq!(limits(true), [50_000, 100_000, 50_000, 0, 0]);
        assert_eq!(limits(false), [50_000, 100_000, 50_000, 25_000, 12_500]);
    }

    #[test]
    fn halts_after_a_poll_in_vain() {
        let (mut governor, cpu) = (build("", 1, 4_000_000).expect("known"), CpuId(0));
        let mut view = FakeView::timer_in(1_000_000);
        governor.enable(cpu, &states(&[(0, 0), (30, 80)]));
        assert_eq!(governor.select(cpu, &mut view).state, 1);
        governor.reflect(cpu, &slept(1, 60_000, 0));
        assert_eq!(governor.select(cpu, &mut view).state, 0);
        governor.reflect(cpu, &IdleSleep { poll_time_limit: true, ..slept(0, 50_000, 0) });
        assert_eq!(governor.select(cpu, &mut view).state, 1);
        assert_eq!(view.queries, 0);
    }
}
