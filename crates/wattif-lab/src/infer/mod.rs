//! Real traces: the metrics of a recording, the machine it tells of, and the workload behind it.
//!
//! [`play`] feeds a recording to any observer of a run, so that recorded and simulated figures come from the same code;
//! [`missing`] says which figures it cannot give. [`platform`] makes a machine of what a trace shows. [`workload`] makes programs:
//! work, waits and why they end, so that another kernel or machine can be asked.
//!
//! The inference decides by thresholds: how often something has to be seen to be a habit, how much alike is alike. They are constants
//! beside what reads them, most of them round numbers that were set by hand. What holds them are replays of which the truth is known
//! (`crates/wattif/tests/replay.rs`): programs are simulated, written as traces, inferred and simulated again, with other noise and under
//! another kernel. There wake-up latencies and energy have to come back within 5 %, shares of a CPU within a point, and a difference between
//! kernels within 15 % and with its direction; `replay/judged.txt` names every figure that the seeds tell, so that none is lost unseen.
//! Recordings of one program under two real kernels are held to the same. Patterns that no program there has are held by the
//! unit tests of their files alone.

mod affinity;
mod background;
mod barriers;
mod binds;
mod channels;
mod exits;
mod forks;
mod grids;
mod held;
mod idling;
mod joins;
mod kin;
mod laps;
mod lost;
mod lots;
mod memory;
mod missing;
mod mutexes;
mod naps;
mod one_way;
mod periods;
mod placement;
mod platform;
mod play;
mod pools;
mod programs;
mod requests;
mod rounds;
mod sched_idle;
mod servers;
mod shared;
mod skew;
mod spins;
mod steals;
mod steps;
mod throttled;
mod ticks;
mod told;
mod unlike;
mod wakers;
mod workload;
mod yields;

pub use background::{background, background_told};
pub use missing::{Figures, Missing, blank, missing};
pub use platform::platform;
pub use play::{Untold, normalised, play, seen as priorities};
pub use programs::{has_policy, is_named};
pub use skew::skewed;
pub use workload::{Inferred, Options, workload};
