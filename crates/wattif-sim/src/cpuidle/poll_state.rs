//! The polling state: for how long a CPU spins before the idle loop looks again.
//!
//! # Idea
//! A CPU that expects work at once does not sleep but looks for it in a loop. If none comes, sleeping would have been better, so
//! after a while the loop ends and the idle governor is asked again, and told that this was a poll in vain. How long that is
//! follows from the state that would have been entered instead.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | `target_residency` | ns | idle states after the first, as advertised | constant |
//! | disabled states | bit mask | the platform | constant |
//! | `TICK_NSEC` | ns | tick rate of the kernel | constant |
//!
//! # Decision
//! Only states that are enabled count, and never the first.
//! 1. `5.11`: the residency of the first state of 10 µs or more, at most a sixteenth of a tick; that where there is none.
//! 2. `5.3`: the residency of the first state, whatever it is; a tick where there is none.
//! 3. `5.4`: the residency of the last state; a tick where there is none.
//! 4. `4.20`: as `5.3`, but where there is none as many ns as a tick has µs.
//! 5. `4.17`: a sixteenth of a tick.
//! 6. `3.13`: without a limit, until a thread is to run.
//!
//! Worked example, states of 0, 2, 20 and 600 µs at 250 Hz: `5.11` polls for 20 µs, `5.3` for 2 µs, `5.4` for 600 µs. With the
//! third state disabled `5.11` polls for 250 µs.
//!
//! # State and cost
//! One number per CPU, computed at boot.
//!
//! # Where it fails
//! `5.3`: where the first state pays off at once, polls are too short to meet anything. `5.4`: a CPU polls for as long as its
//! deepest sleep would have to last. `3.13`: one that polls where it should have slept does so until its next timer.
//!
//! # Differences from the kernel
//! FIDELITY(poll-clock): a poll ends at its limit to the nanosecond, and lasts 1 µs at least; the kernel looks at the clock once
//! in 200 turns of its loop, which take 1 to 10 µs. `haltpoll` has a limit of its own, and so has the driver of POWER for `snooze`, see
//! `powernv`.
//!
//! # Source
//! Linux, `drivers/cpuidle/cpuidle.c` and `poll_state.c` (behaviour): `cpuidle_poll_time`. Commits 259231a04561 "cpuidle: add
//! poll_limit_ns to cpuidle_device structure" (5.4), "cpuidle: use first valid target residency as poll time" (5.5 and stable 5.4),
//! "cpuidle: Select polling interval based on a c-state with a longer target residency" (5.11). `3.13`: before commit 612f1a22f067
//! "cpuidle: poll_state: Add time limit to poll_idle()" (4.17). `4.17`: until "Revise loop termination condition" (4.20). `4.20`: until
//! "Fix default time limit" (5.1).

use super::{CpuidleState, is_disabled};
use crate::registry::{Tunable, meant};

/// Tunables of this policy.
pub const TUNABLES: &[Tunable] = &[Tunable {
    name: "generation",
    default: "5.11",
    allowed: &Generation::NAMES,
    doc: "how long a CPU polls: until a thread is to run (3.13 to 4.16), a sixteenth of a tick (4.17 to 4.19), as the first enabled state asks (4.20 and 5.0, 5.3, 5.5 to 5.10), the last (5.4 as released), or the first of 10 µs (5.11)",
}];

/// As many turns of the loop as the kernel makes before it looks at the clock take at least so long, ns.
const POLL_IDLE_RELAX_NS: u64 = 1_000;
const CPUIDLE_POLL_MIN: i64 = 10_000;

/// The rule of [the module](self).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Generation {
    /// Until a thread is to run.
    V3_13,
    /// A sixteenth of a tick.
    V4_17,
    /// The first enabled state's, else too little.
    V4_20,
    /// The first enabled state's.
    V5_3,
    /// The last enabled state's.
    V5_4,
    /// The first enabled one's that is worth it.
    #[default]
    V5_11,
}

impl Generation {
    /// The values of the tunable.
    pub const NAMES: [&'static str; 6] = ["3.13", "4.17", "4.20", "5.3", "5.4", "5.11"];

    /// From the tunable's value.
    pub fn parse(name: &str) -> Option<Generation> {
        use Generation::{V3_13, V4_17, V4_20, V5_3, V5_4, V5_11};
        meant(Generation::NAMES, [V3_13, V4_17, V4_20, V5_3, V5_4, V5_11], name)
    }

    /// How long the polling state may poll, ns.
    pub fn cpuidle_poll_time(self, states: &[CpuidleState], disable_mask: u32, tick_ns: u64) -> u64 {
        let poll_max = tick_ns / 16;
        let mut enabled = (1..states.len()).filter(|i| !is_disabled(disable_mask, *i)).map(|i| &states[i]);
        let residency = |s: &CpuidleState| s.target_residency_ns as u64;
        let limit_ns = match self {
            Generation::V3_13 => u64::MAX,
            Generation::V4_17 => poll_max,
            // TICK_USEC, taken for ns.
            Generation::V4_20 => enabled.next().map_or(tick_ns / 1000, residency),
            Generation::V5_3 => enabled.next().map_or(tick_ns, residency),
            Generation::V5_4 => enabled.next_back().map_or(tick_ns, residency),
            Generation::V5_11 => enabled
                .find(|s| s.target_residency_ns >= CPUIDLE_POLL_MIN)
                .map_or(poll_max, |s| poll_max.min(residency(s))),
        };
        limit_ns.max(POLL_IDLE_RELAX_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::states;
    use super::*;

    /// For how long each generation that has a limit polls, µs, in the order of the list.
    #[track_caller]
    fn check(us: &[(i64, i64)], disable_mask: u32, tick_ns: u64, expect_us: [u64; 5]) {
        let polls =
            |name| Generation::parse(name).expect("listed").cpuidle_poll_time(&states(us), disable_mask, tick_ns);
        let polls: Vec<u64> = Generation::NAMES[1..].iter().copied().map(polls).collect();
        assert_eq!(polls, expect_us.map(|us| us * 1000));
    }

    #[test]
    fn the_manuals_worked_example() {
        let table = [(0, 0), (2, 2), (10, 20), (133, 600)];
        check(&table, 0, 4_000_000, [250, 2, 2, 600, 20]);
        check(&table, 0b100, 4_000_000, [250, 2, 2, 600, 250]);
        check(&table, 0b1010, 4_000_000, [250, 20, 20, 20, 20]);
    }

    #[test]
    fn the_oldest_has_no_limit() {
        assert_eq!(Generation::V3_13.cpuidle_poll_time(&states(&[(0, 0), (2, 2)]), 0, 4_000_000), u64::MAX);
    }

    #[test]
    fn where_no_other_state_is_enabled() {
        check(&[(0, 0), (2, 2)], 0b10, 4_000_000, [250, 4, 4000, 4000, 250]);
        check(&[(0, 0)], 0, 10_000_000, [625, 10, 10_000, 10_000, 625]);
    }

    #[test]
    fn no_poll_is_shorter_than_a_look_at_the_clock() {
        check(&[(0, 0), (0, 0)], 0, 4_000_000, [250, 1, 1, 1, 250]);
    }
}
