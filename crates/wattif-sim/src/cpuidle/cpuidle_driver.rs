//! The idle driver's own governor: which one runs where nobody names any.
//!
//! # Idea
//! Of the idle governors built into a kernel the one of the highest rating runs, `menu`. A driver may know better: that of a KVM
//! guest has states for which `haltpoll` was written, and registering it switches to that governor, unless the command line of
//! the kernel says `cpuidle.governor=`.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | `cpuidle.governor` | name | the platform: what its driver prefers | constant |
//! | `cpuidle` | name | `--set`, an arm, a profile: what somebody named | constant |
//!
//! # Decision
//! 1. Somebody named a governor → that one, whatever the driver prefers.
//! 2. `preferred`, and the driver prefers one → that one.
//! 3. Otherwise → `menu`.
//!
//! Worked example, `vm_8vcpu`, whose driver prefers `haltpoll`: `linux-6.12` runs `haltpoll` there, and `menu` with `--set
//! cpuidle=menu`; `linux-5.3` runs `menu`.
//!
//! # State and cost
//! None: it is settled before the run, and a run names its governor.
//!
//! # Where it fails
//! A driver prefers a governor for all workloads.
//!
//! # Differences from the kernel
//! None known in the choice. Rating: of kernels built with other governors alone, a profile says which. Drivers register before the run; writing
//! `current_governor` later, as some distributions do, is naming one.
//!
//! # Source
//! Linux, `drivers/cpuidle/driver.c` (behaviour): `cpuidle_register_driver`. `struct cpuidle_driver` has a `governor` since 5.4, which
//! `drivers/cpuidle/cpuidle-haltpoll.c` sets to `haltpoll`.

use crate::registry::Tunable;

/// Tunables of this policy.
pub const TUNABLES: &[Tunable] = &[Tunable {
    name: "governor",
    default: "preferred",
    allowed: &["preferred", "ignored"],
    doc: "where nobody names an idle governor: the one that the platform's driver prefers, or (before 5.4) menu all the same",
}];
