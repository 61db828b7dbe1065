//! CPU latency QoS: how long a CPU may take to wake up.
//!
//! # Idea
//! An application that cannot wait writes the longest wake-up it accepts to `/dev/cpu_dma_latency` and keeps the file open. As
//! long as it does, idle governors pass over states that take longer to leave.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | `cpu_latency_us` | µs, 0 to 2 000 000 000; `none` | this tunable | constant for a run |
//! | `exit_latency` | ns | idle state, as advertised | – |
//!
//! # Decision
//! 1. `none`: every state is allowed.
//! 2. Otherwise a state is allowed whose *advertised* exit latency is not above the limit. What the hardware then takes does
//!    not matter to the governor.
//! 3. A limit of 0 allows polling and states of no latency only; where there is none, the shallowest state is taken anyway.
//!
//! Worked example: on a POWER9 a limit of 50 µs allows up to `stop2` (10 µs) and forbids `stop4` (advertised 100 µs).
//!
//! # State and cost
//! One number; a comparison per state considered.
//!
//! # Where it fails
//! The limit is for the whole machine, so one careful application keeps every CPU out of deep states; and it trusts the
//! firmware, which may be wrong tenfold.
//!
//! # Differences from the kernel
//! FIDELITY(pm-qos-cpu): one limit for a whole run. The kernel has further ones per CPU (`pm_qos_resume_latency_us`) and takes the smaller.
//!
//! # Source
//! Linux 6.12 `kernel/power/qos.c`, `drivers/cpuidle/governor.c` (behaviour): `cpuidle_governor_latency_req`.

use super::NO_LATENCY_LIMIT;
use crate::registry::Tunable;

/// Tunables of this policy.
pub const TUNABLES: &[Tunable] = &[Tunable {
    name: "cpu_latency_us",
    default: "none",
    allowed: &["none", "0..=2000000000"],
    doc: "no idle state that advertises a longer exit latency, µs",
}];

/// `cpuidle_governor_latency_req`: the limit as governors see it, ns.
pub fn latency_req_ns(cpu_latency_us: Option<u64>) -> i64 {
    cpu_latency_us.map_or(NO_LATENCY_LIMIT, |us| i64::try_from(us.saturating_mul(1000)).unwrap_or(NO_LATENCY_LIMIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits() {
        assert_eq!([None, Some(0), Some(50)].map(latency_req_ns), [NO_LATENCY_LIMIT, 0, 50_000]);
    }
}
