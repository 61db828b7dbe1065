//! Real traces: the metrics of a recording, the machine it tells of, and the workload behind it.
//!
//! [`play`] feeds a recording to any observer of a run, so that recorded and simulated figures come from the same code;
//! [`missing`] says which figures it cannot give. [`platform`] makes a machine of what a trace shows. [`workload`] makes programs:
//! work, waits and why they end, so that another kernel or machine can be asked:
//!
//! | the trace says | the program says | in |
//! |---|---|---|
//! | time on CPUs | work | `reader.rs` |
//! | woken in an interrupt, after `S` | sleep until that time (a timer), less the timer slack of fair threads | `reader.rs` |
//! | the same, after `D` | a device that takes as long as it took | `reader.rs` |
//! | the same, longer by the time in a queue for N servers | a device of N servers | `devices.rs` |
//! | woken by a running thread | a token, which that thread puts after so much of its own work | `reader.rs` |
//! | `sched_process_fork` | a fork, after so much of the parent's work | `reader.rs` |
//! | switched out although it could go on, at no tick and no wake-up, after pieces of one work | a yield | `yields.rs` |
//! | pieces of work of unlike CPU time end after one and the same wall time | a loop that looks at the clock | `spins.rs` |
//! | pieces of work that are larger the faster the CPU was when they began | in part, waits for memory | `memory.rs` |
//! | woken in an interrupt, after a thread had woken it before, and at no period | a device, or a sleep of that length, from then on | `steps.rs` |
//! | its sleeps are of one or a few lengths while its wake-ups are at unlike distances | sleep so long | `relative_sleeps.rs` |
//! | the same, and without its sleeps of one length its wake-ups keep time | a timer, and sleeps within its period | `naps.rs` |
//! | sleeps of one length between rows of timers, longer than these are apart | sleep so long; the timer starts again | `rests.rs` |
//! | it waits for the next beat, also where others kept it waiting past some | a vsync | `vsyncs.rs` |
//! | nothing: a periodic thread was late and has two jobs in one stretch | a timer that has passed, between the jobs | `periods.rs` |
//! | the same all along, where others of its kind show their jobs | the same | `kin.rs` |
//! | threads wake all others of their group in turn | a barrier | `barriers.rs` |
//! | those that sleep are woken together, by who forked them, and wait for nobody else | the end of a loop, whose work they may share | `teams.rs` |
//! | they wake each other both ways, and were busy when the other began to wait | a lock | `mutexes.rs` |
//! | the same, one way, where the other slept only when it was not waited for | a lock | `one_way.rs` |
//! | a sleep through which another waits for what the thread does next | a sleep under the lock | `held.rs` |
//! | work of whole laps from one lock to the next | a lock in each lap | `laps.rs` |
//! | the priority of a thread that has just blocked, until that one is woken | a priority that is lent: nothing where a lock is found | `thread.rs` |
//! | threads of a kind wake each other now and then | a wait of that length, by chance | `servers.rs` |
//! | nothing: a reader was busy when a message came; writers wait while its buffer is full | a message; space that is taken and freed | `channels.rs`, `sides.rs`, `lots.rs` |
//! | threads of one name are woken in vain while others do the work of several requests | requests for whichever of them is first | `steals.rs` |
//! | nothing: a parent that waits for all children of a round was busy when one of them ended | a token, too | `forks.rs` |
//! | nothing: a collector was busy when a worker was done | a token, too, or a condition that forgets it | `joins.rs` |
//! | clients wait for their answers, and none of the servers was free when another had to wait | a request for whichever is | `shared.rs` |
//! | nothing: a server was busy when it was asked, as its answer shows | a request, and so many, or all, that are answered at once | `servers.rs` |
//! | threads of one name are woken, now this, now that one | a request for whichever of them waits | `pools.rs` |
//! | nothing: a pool had no thread free when it was asked | a request, and its part of a longer stretch of work | `requests.rs`, `units.rs` |
//! | it does alike from some time on, and waits for nothing of a given time | it goes round | `rounds.rs` |
//! | it waits for its CPU while others are idle, and not offline | it is bound to that one | `affinity.rs`, `binds.rs`, `offline.rs` |
//! | its expiries after a late job are on its grid, or not | it catches up, or starts again from then | `late_jobs.rs` |
//! | it is taken from an idle CPU to the one that its waker is busy on | a sync wake-up | `sync.rs` |
//! | kernel workers change the clocks | nothing: a governor that samples, whose workers a simulation has itself | `samplers.rs` |
//! | it gives way to all others | `SCHED_IDLE` | `sched_idle.rs` |
//! | it computes when the trace ends | the rest of its usual stretch, as much again, or more without an end | `steps.rs` |
//!
//! So pipes, futexes and binder become dependencies: another kernel or machine moves the wake-ups with the work. Where records do not
//! say whether they come from an interrupt, `wakers.rs` guesses. `workload.rs` asks each thread first, `passes.rs` then what
//! they do with each other, and `programs.rs` makes programs of it.
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
mod devices;
mod exits;
mod forks;
mod grids;
mod held;
mod idling;
mod ipis;
mod joins;
mod kin;
mod laps;
mod late_jobs;
mod lost;
mod lots;
mod memory;
mod missing;
mod mutexes;
mod naps;
mod offline;
mod one_way;
mod passes;
mod periods;
mod placement;
mod platform;
mod play;
mod pools;
mod programs;
mod ran;
mod reader;
mod relative_sleeps;
mod requests;
mod rests;
mod rounds;
mod samplers;
mod sched_idle;
mod servers;
mod shared;
mod sides;
mod silent;
mod skew;
mod spins;
mod steals;
mod steps;
mod sync;
mod teams;
mod thread;
mod throttled;
mod ticks;
mod told;
mod units;
mod unlike;
mod vsyncs;
mod wakers;
mod workload;
mod yields;

pub use background::{background, background_told};
pub use missing::{Figures, Missing, blank, missing};
pub use platform::platform;
pub use play::{Untold, normalised, play, seen as priorities};
pub use programs::{has_policy, is_named};
pub use silent::unrecorded;
pub use skew::skewed;
pub use unlike::clocked;
pub use workload::{Inferred, Options, workload};
