//! The idle driver of POWER: does it say that `snooze` polls?
//!
//! # Idea
//! A POWER CPU without work can stay awake at low priority and look for some (`snooze`). Its driver ends that after the
//! residency of the next state, so that the idle loop asks the governor again. Until 6.2 the driver did not mark the state
//! as one that polls (`CPUIDLE_FLAG_POLLING`), and nobody told the governor that it had only run into its limit.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | name of the first idle state | text | the platform | constant |
//! | `polling` | flag of a state | this driver | constant |
//! | `poll_time_limit` | flag | the polling state ended at its limit | when the CPU wakes |
//!
//! # Decision
//! `snooze` ends after the residency of the next enabled state, in every kernel (`get_snooze_timeout`).
//! 1. `polling`: governors see both flags. A `snooze` that reached its limit counts as a sleep until the next timer, and the tick
//!    is kept whenever it is chosen.
//! 2. `sleep`: governors see neither. A `snooze` of 10 µs that reached its limit was a sleep of 10 µs like any other, and is
//!    evidence for the state of that length.
//!
//! Worked example, `teo` of 5.6 on a POWER9, a CPU that is idle for 13 µs at a time. `snooze` ends after 10 µs, which is a
//! sleep that `stop0_lite` (10 µs) would have fitted; `stop0_lite` is chosen and left after 3 µs, which `snooze` would have
//! fitted. So they take turns, and each `stop0_lite` counts as too deep.
//!
//! # State and cost
//! One bit.
//!
//! # Where it fails
//! `sleep`: idle time that lasts is cut into pieces of 10 µs, and a governor that counts short sleeps believes in them.
//! `haltpoll`, which sleeps after a poll in vain, never hears of one and polls for ever.
//!
//! # Differences from the kernel
//! FIDELITY(idle-drivers): the driver is taken from the name of the state, `snooze`.
//!
//! # Source
//! Linux, `drivers/cpuidle/cpuidle-powernv.c` (behaviour); commit 5ddcc03a07ae, "powerpc/cpuidle: Set CPUIDLE_FLAG_POLLING for
//! snooze state" (2022, Linux 6.2).

use crate::registry::Tunable;
use wattif_model::platform::Platform;

/// Tunables of this policy.
pub const TUNABLES: &[Tunable] = &[Tunable {
    name: "snooze",
    default: "polling",
    allowed: &["polling", "sleep"],
    doc: "what governors take the state `snooze` of POWER for: before 6.2 a sleep like any other",
}];

/// Is it a platform of this driver?
pub fn has_snooze(platform: &Platform) -> bool {
    platform.clusters.iter().flat_map(|c| &c.idle).any(|s| s.polling && s.name == "snooze")
}

/// Do governors know that a state polls, and when it has reached its limit?
pub fn polling_is_told(snooze: &str, platform: &Platform) -> bool {
    snooze != "sleep" || !has_snooze(platform)
}
