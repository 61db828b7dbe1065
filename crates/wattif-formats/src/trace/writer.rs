//! What the writers have in common: they are observers that stream, and finish with the end of the file.

use super::markers::Markers;
use std::io::{Read, Result, Seek, Write};
use wattif_model::Ns;
use wattif_model::run::RunSpec;
use wattif_model::trace::{Event, Interest, Observer, Recording};
use wattif_model::workload::GroupSpec;
use wattif_model::{CpuId, Pid};

/// A trace being written while a run goes on.
pub trait TraceWriter: Observer {
    /// The run is over: write what is left. The first error of the whole writing is told here.
    fn close(&mut self) -> Result<()>;
    /// This thread runs on a CPU, or nobody knows which, before the CPU's next event; after [`Observer::start`]. Else whoever was switched
    /// in last does.
    fn runs(&mut self, _cpu: CpuId, _pid: Option<Pid>) {}
    /// What is written is this recording, not a run: what it lost is told at the beginning, and nothing that it does not
    /// know. After [`Observer::start`], before the first event.
    fn recorded(&mut self, _recording: &Recording) {}
}

/// Something to put data aside in while a file is written.
pub trait Scratch: Read + Write + Seek {}
impl<T: Read + Write + Seek> Scratch for T {}

/// How much goes into a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// The kernel's tracepoints and the marks of programs.
    #[default]
    Tracepoints,
    /// Also what each policy decided, with the inputs it saw.
    Decisions,
    /// Also counters of signals, capacity, power and energy.
    Full,
}

impl Detail {
    /// Families of events that are written.
    pub fn interest(self) -> Interest {
        let tracepoints =
            Interest::SCHED.and(Interest::IDLE).and(Interest::FREQ).and(Interest::PROGRAM).and(Interest::GROUPS);
        match self {
            Detail::Tracepoints => tracepoints,
            Detail::Decisions => tracepoints.and(Interest::DECISIONS),
            Detail::Full => tracepoints.and(Interest::DECISIONS).and(Interest::SIGNALS).and(Interest::POWER),
        }
    }
}

/// What a trace says it was written by.
pub const GENERATOR: &str = concat!("wattif ", env!("CARGO_PKG_VERSION"));

/// What a writer says about the run it writes.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// Name of the kernel profile.
    pub kernel: String,
    /// Hash of the RunSpec.
    pub spec: String,
    /// Names of marks.
    pub marks: Vec<String>,
    /// Groups of threads, the root first and each after the one above it.
    pub groups: Vec<GroupSpec>,
    /// Names of its devices.
    pub devices: Vec<String>,
    /// The trace is of a real machine, not of a simulation.
    pub recorded: bool,
    /// Policies of threads, and which are background, are known: of a simulation, or where the file that was read says it.
    pub told: bool,
    /// rt-app's own lines, where its file asks for some.
    pub markers: Option<Markers>,
}

impl About {
    /// A simulation of `spec`.
    pub fn simulated(spec: &RunSpec) -> About {
        let (kernel, marks) = (spec.kernel.name.clone(), spec.workload.marks.clone());
        let devices = spec.workload.devices.iter().map(|d| d.name.clone()).collect();
        let groups = spec.workload.groups.clone();
        About { kernel, spec: spec.hash(), marks, groups, devices, recorded: false, told: true, markers: None }
    }

    /// What a writer must hear of.
    pub(crate) fn interest(&self, detail: Detail) -> Interest {
        let markers = self.markers.as_ref().map_or(Interest(0), Markers::interest);
        detail.interest().and(markers)
    }

    /// rt-app's lines that come with this event.
    pub(crate) fn lines(&mut self, at: Ns, event: &Event) -> Vec<String> {
        self.markers.as_mut().map_or_else(Vec::new, |m| m.event(at, event))
    }

    /// The one that stands behind the event.
    pub(crate) fn line_behind(&mut self, event: &Event) -> Option<String> {
        self.markers.as_mut()?.behind(event)
    }

    /// Its lines at the end of the run.
    pub(crate) fn last_lines(&self) -> Vec<String> {
        self.markers.as_ref().map_or_else(Vec::new, Markers::end)
    }

    /// Those below the root, by their numbers.
    pub(crate) fn groups(&self) -> impl Iterator<Item = (usize, &GroupSpec)> {
        self.groups.iter().enumerate().skip(1)
    }

    /// What `uname -r` would say: the profile's name without `linux-`.
    pub(crate) fn release(&self) -> &str {
        self.kernel.strip_prefix("linux-").unwrap_or(&self.kernel)
    }
}
