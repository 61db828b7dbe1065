//! Real traces: the metrics of a recording, the machine it tells of, and the workload behind it.
//!
//! [`play`] feeds a recording to any observer of a run, so that recorded and simulated figures come from the same code;
//! [`missing`] says which figures it cannot give. [`platform`] makes a machine of what a trace shows. [`workload`] makes programs:
//! work, waits and why they end, so that another kernel or machine can be asked.

mod affinity;
mod background;
mod balancing;
mod barriers;
mod binds;
mod channels;
mod exits;
mod idling;
mod joins;
mod kin;
mod laps;
mod memory;
mod mutexes;
mod periods;
mod platform;
mod play;
mod pools;
mod programs;
mod requests;
mod rounds;
mod sched_idle;
mod servers;
mod spins;
mod steals;
mod steps;
mod ticks;
mod unlike;
mod wakers;
mod workload;

pub use background::{background, background_told};
pub use balancing::no_passes;
pub use platform::platform;
pub use play::{Missing, Untold, blank, missing, normalised, play, seen as priorities};
pub use programs::{has_policy, is_named};
pub use workload::{Inferred, Options, workload};
