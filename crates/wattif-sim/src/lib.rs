//! Inputs → trace: a deterministic simulation of a machine under a kernel's policies.
//!
//! Start with `sched/core.rs`, the spine. `engine` is the discrete-event core and knows nothing of CPUs; `machine` is
//! hardware and decides nothing; `sched`, `cpufreq` and `cpuidle` are the policies, in Linux's folders; `registry` names them.

pub mod cpufreq;
pub mod cpuidle;
pub mod engine;
pub mod machine;
pub mod registry;
pub mod sched;
pub mod simulation;

pub use simulation::{Kernel, simulate};
