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
//! | `poll_limit_ns` | 0..=`guest_halt_poll_ns` (200 µs) | learned | after halts |
//! | `latency_req` | ns | PM QoS of the run | per call |
//!
//! # Decision
//! 1. `latency_req == 0` → poll, tick kept.
//! 2. Polling limit 0 → halt.
//! 3. The last state was a poll that ran to its limit → halt. Otherwise poll, tick kept.
//! 4. After a halt of `limit < t ≤ guest_halt_poll_ns`: the limit times `guest_halt_poll_grow`, at least
//!    `guest_halt_poll_grow_start` (50 µs), at most `guest_halt_poll_ns`. After a longer one, if `guest_halt_poll_allow_shrink`: divide it
//!    by `guest_halt_poll_shrink`, and below `guest_halt_poll_grow_start` make it 0 (6.12; in 6.1 it is divided on, down to nothing).
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

/// Tunables of `haltpoll`: the module's parameters.
pub const TUNABLES: &[Tunable] = &[
    Tunable {
        name: "generation",
        default: "6.12",
        allowed: &["6.1", "6.12"],
        doc: "the governor of this kernel: only 6.12 gives up polling once the limit is below guest_halt_poll_grow_start",
    },
    Tunable {
        name: "guest_halt_poll_ns",
        default: "200000",
        allowed: &["0..=4294967295"],
        doc: "the longest limit of polling, ns; halts up to this lengthen it, longer ones shorten it; 0: no polling",
    },
    Tunable {
        name: "guest_halt_poll_grow",
        default: "2",
        allowed: &["0..=4294967295"],
        doc: "what the limit is multiplied by",
    },
    Tunable {
        name: "guest_halt_poll_grow_start",
        default: "50000",
        allowed: &["0..=4294967295"],
        doc: "the limit to begin with, ns",
    },
    Tunable {
        name: "guest_halt_poll_shrink",
        default: "2",
        allowed: &["0..=4294967295"],
        doc: "what the limit is divided by; 0: it becomes 0",
    },
    Tunable {
        name: "guest_halt_poll_allow_shrink",
        default: "1",
        allowed: &["0", "1"],
        doc: "0: the limit only grows",
    },
];

/// How the limit is learned; the default is the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// `guest_halt_poll_ns`.
    pub longest_ns: u32,
    /// `guest_halt_poll_grow`.
    pub grow: u32,
    /// `guest_halt_poll_grow_start`, ns.
    pub grow_start_ns: u32,
    /// `guest_halt_poll_shrink`.
    pub shrink: u32,
    /// `guest_halt_poll_allow_shrink`.
    pub allow_shrink: bool,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning { longest_ns: 200_000, grow: 2, grow_start_ns: 50_000, shrink: 2, allow_shrink: true }
    }
}

/// The governor; see the module's manual.
#[derive(Clone, Debug)]
#[doc(alias = "haltpoll_governor")]
pub struct Haltpoll {
    /// A limit below the first one becomes 0.
    gives_up: bool,
    tuning: Tuning,
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
pub fn build(generation: &str, tuning: Tuning, nr_cpus: usize) -> Option<Box<dyn IdleGovernor>> {
    let gives_up = match generation {
        "6.1" => false,
        "6.12" | "" => true,
        _ => return None,
    };
    Some(Box::new(Haltpoll { gives_up, tuning, cpus: vec![HaltpollDevice::default(); nr_cpus] }))
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
                data.poll_limit_ns =
                    self.tuning.adjust_poll_limit(data.poll_limit_ns, sleep.residency_ns, self.gives_up);
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

impl Tuning {
    /// u32 as in the kernel: a limit that grows without bound wraps.
    fn adjust_poll_limit(&self, limit_ns: u64, block_ns: u64, gives_up: bool) -> u64 {
        let longest_ns = u64::from(self.longest_ns);
        if block_ns > limit_ns && block_ns <= longest_ns {
            let grown = (limit_ns as u32).wrapping_mul(self.grow).max(self.grow_start_ns);
            return u64::from(grown).min(longest_ns);
        }
        if block_ns > longest_ns && self.allow_shrink {
            let shrunk = limit_ns.checked_div(u64::from(self.shrink)).unwrap_or(0);
            return if gives_up && shrunk < u64::from(self.grow_start_ns) { 0 } else { shrunk };
        }
        limit_ns
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeView, slept, states};
    use super::*;

    #[test]
    fn the_manuals_worked_example() {
        let limits = |gives_up| {
            let next = |limit: &mut u64, block| {
                *limit = Tuning::default().adjust_poll_limit(*limit, block, gives_up);
                Some(*limit)
            };
            [60_000, 150_000, 5_000_000, 5_000_000, 5_000_000].into_iter().scan(0, next).collect::<Vec<_>>()
        };
        assert_eq!(limits(true), [50_000, 100_000, 50_000, 0, 0]);
        assert_eq!(limits(false), [50_000, 100_000, 50_000, 25_000, 12_500]);
    }

    #[test]
    fn halts_after_a_poll_in_vain() {
        let (mut governor, cpu) = (build("", Tuning::default(), 1).expect("known"), CpuId(0));
        let mut view = FakeView::timer_in(1_000_000);
        governor.enable(cpu, &states(&[(0, 0), (30, 80)]));
        assert_eq!(governor.select(cpu, &mut view).state, 1);
        governor.reflect(cpu, &slept(1, 60_000, 0));
        assert_eq!(governor.select(cpu, &mut view).state, 0);
        governor.reflect(cpu, &IdleSleep { poll_time_limit: true, ..slept(0, 50_000, 0) });
        assert_eq!(governor.select(cpu, &mut view).state, 1);
        assert_eq!(view.queries, 0);
    }

    #[test]
    fn the_modules_parameters() {
        let after = |tuning: Tuning, limit, block| tuning.adjust_poll_limit(limit, block, true);
        let own = Tuning { longest_ns: 400_000, grow: 3, grow_start_ns: 20_000, shrink: 4, allow_shrink: true };
        assert_eq!(
            [after(own, 0, 10_000), after(own, 20_000, 300_000), after(own, 160_000, 300_000)],
            [20_000, 60_000, 400_000]
        );
        assert_eq!([after(own, 160_000, 500_000), after(own, 60_000, 500_000)], [40_000, 0]);
        assert_eq!(after(Tuning { allow_shrink: false, ..own }, 160_000, 500_000), 160_000);
        assert_eq!(after(Tuning { shrink: 0, ..own }, 160_000, 500_000), 0);
        assert_eq!(after(Tuning { longest_ns: 0, ..own }, 0, 1), 0, "no polling");
    }
}
