//! A run: everything needed to reproduce a simulation, its canonical text and hash; and the trait through which `lab`
//! asks for runs without seeing the simulator.

use crate::kernel::KernelSpec;
use crate::platform::Platform;
use crate::trace::Observer;
use crate::units::Ns;
use crate::workload::Workload;
use serde::{Deserialize, Serialize};

/// Platform × workload × kernel × seed × duration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSpec {
    /// The machine.
    pub platform: Platform,
    /// What runs on it.
    pub workload: Workload,
    /// The policies under test.
    pub kernel: KernelSpec,
    /// Random seed of all noise streams.
    pub seed: u64,
    /// How long to simulate.
    pub duration: Ns,
}

impl RunSpec {
    /// The canonical text: compact JSON, fields in declaration order, maps sorted.
    pub fn canonical(&self) -> String {
        serde_json::to_string(self).expect("a RunSpec holds only integers, strings and string-keyed maps")
    }

    /// Refuses what describes no machine, and what no workload says: a spec may come from elsewhere than the readers of files.
    /// What the policies of its kernel take is the registry's to check.
    pub fn check(&self) -> Result<(), RunError> {
        if let Some(why) = self.platform.flaw() {
            return Err(RunError::Platform(why));
        }
        self.workload.flaw().map_or(Ok(()), |why| Err(RunError::Workload(why)))
    }

    /// BLAKE3 of the canonical text, in hexadecimal.
    pub fn hash(&self) -> String {
        blake3::hash(self.canonical().as_bytes()).to_hex().to_string()
    }
}

/// Events a thread may go through in hardly any time before the run is given up.
pub const MAX_OPS_WITHOUT_TIME: u32 = 100_000;
/// Hardly any: less than so many ns for each of them. On a machine a round of a loop takes longer than that to look at the clock.
pub const LEAST_NS_PER_OP: u64 = 50;

/// Turns that all threads may take at one time, for each of them and on top of [`MAX_OPS_WITHOUT_TIME`].
pub const MAX_TURNS_AT_ONE_TIME: u64 = 100;

/// What the simulator says when a run cannot be completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError {
    /// A thread went through more than [`MAX_OPS_WITHOUT_TIME`] events and consumed less than [`LEAST_NS_PER_OP`] for each; or threads
    /// that wake one another did together what takes no time, [`MAX_TURNS_AT_ONE_TIME`].
    NoProgress {
        /// Name of the thread.
        thread: String,
        /// When.
        at: Ns,
    },
    /// The kernel profile names something that does not exist, or a tunable is out of range.
    Kernel(String),
    /// The platform is none, such as one with a CPU of no cluster.
    Platform(String),
    /// The workload cannot run on the platform.
    Workload(String),
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RunError::NoProgress { thread, at } => {
                write!(
                    f,
                    "thread `{thread}` goes through more than {MAX_OPS_WITHOUT_TIME} events in a row until {at} and \
                     consumes less than {LEAST_NS_PER_OP} ns for each: give its loop a run, sleep or timer event, or put one between the events"
                )
            }
            RunError::Kernel(why) | RunError::Platform(why) | RunError::Workload(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for RunError {}

/// One thread blocked for ever at the end of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocked {
    /// Name of the thread.
    pub thread: String,
    /// What it waits for, such as "mutex `m`".
    pub waits_for: String,
    /// Threads that hold it, where it has holders.
    pub held_by: Vec<String>,
    /// Threads that could still give it: whose programs have yet to post the semaphore, signal the condition (`resume` counts),
    /// put a token into the queue or come to the barrier. The first [`MAX_GIVERS`].
    #[serde(default)]
    pub given_by: Vec<String>,
}

/// Most threads a [`Blocked`] names that could end its wait.
pub const MAX_GIVERS: usize = 8;

/// What a finished run reports besides its events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunSummary {
    /// Digest of the tracepoint events.
    pub digest: String,
    /// Events handled by the engine.
    pub events: u64,
    /// Context switches to a thread (not to idle).
    pub slices: u64,
    /// End of the run: its duration, or earlier when every thread has ended.
    pub end: Ns,
    /// Work that threads of the workload executed, spins not counted: ns at the calibration CPU's full speed × its
    /// capacity; for work that does not scale, ns × 1024.
    pub work: u128,
    /// Exact energy as the machine integrated it.
    pub energy: crate::trace::EnergyTotals,
    /// Threads that can never run again: a deadlock, or a lost signal.
    pub deadlock: Vec<Blocked>,
}

/// Executes runs; implemented by the facade. `lab` plans and analyses through it.
pub trait Runner {
    /// Run `spec`, streaming its events to `observers`.
    fn run(&self, spec: &RunSpec, observers: &mut [&mut dyn Observer]) -> Result<RunSummary, RunError>;
}
