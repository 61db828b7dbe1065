//! Writes Perfetto traces: scheduling in `compact_sched` form, idle and frequency events, threads; frames as slices; with
//! more detail, decisions as instant events with their inputs, and counters.
//!
//! Events of a CPU are gathered into bundles of bounded size and streamed. In a bundle, tables and deltas start anew.

use super::super::kinds::state_bits;
use super::super::names::Names;
use super::super::told;
use super::super::writer::{About, Detail, GENERATOR, TraceWriter};
use super::proto::Message;
use super::{GROUP, KTHREADD, POLICY, PRINT, TOUCH, TRACING_DISABLED, packet};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Result, Write};
use wattif_model::platform::{Platform, PowerModel, PowerUnit};
use wattif_model::trace::{Event, Interest, Observer, PowerLevel, PrevState, Recording, ThreadInfo};
use wattif_model::{CpuId, Ns, Pid};

/// Bytes of events after which a CPU's bundle is written.
const BUNDLE: usize = 32 << 10;
/// `TRACE_FLAG_HARDIRQ`.
const HARDIRQ: u64 = 0x08;
/// The parent of what is not the kernel's.
const INIT: u64 = 1;
/// All our packets but the bundles depend on the names interned by the first.
const SEQUENCE: u64 = 1;

/// Tracks have ids of their own; CPU, domain or thread is added to the base.
mod track {
    pub const PLACEMENT: u64 = 1 << 32;
    pub const FREQUENCY: u64 = 2 << 32;
    pub const IDLE: u64 = 3 << 32;
    pub const BALANCE: u64 = 4 << 32;
    pub const UTIL_AVG: u64 = 5 << 32;
    pub const RUNNABLE_AVG: u64 = 6 << 32;
    pub const UTIL_EST: u64 = 7 << 32;
    pub const CAPACITY: u64 = 8 << 32;
    pub const POWER: u64 = 9 << 32;
    pub const ENERGY: u64 = 10 << 32;
    pub const CLUSTER_POWER: u64 = 11 << 32;
    pub const WALT_DEMAND: u64 = 12 << 32;
    pub const TASK_UTIL: u64 = 13 << 32;
    pub const TASK_DEMAND: u64 = 14 << 32;
    pub const WEIGHTS: u64 = 15 << 32;
    /// Mark or device number times 2^32 on top, plus the pid, plus the lane.
    pub const FRAMES: u64 = 1 << 48;
    pub const DEVICES: u64 = 2 << 48;
    pub const LANE: u64 = 1 << 50;
}

/// Slices of one name that may be open at once; further ones count as of the last lane.
const LANES: usize = 1 << 12;

/// Names of annotations, interned by their place.
const ANNOTATIONS: &[&str] = &[
    "pid",
    "prev_cpu",
    "this_cpu",
    "target",
    "cpu",
    "reason",
    "scanned",
    "nr_running",
    "next_khz",
    "prev_khz",
    "util",
    "util_avg",
    "util_est",
    "runnable_avg",
    "iowait_boost",
    "state",
    "stop_tick",
    "predicted_ns",
    "sleep_length_ns",
    "dst_cpu",
    "src_cpu",
    "moved",
    "imbalance",
    "comm",
    "weights",
    "weighed",
];

/// Names of events, interned by their place.
const NAMES: &[&str] = &["placement", "frequency", "idle state", "balance", "frame", "idle weights"];

/// The number that stands for one of [`NAMES`].
fn interned(name: &str) -> u64 {
    NAMES.iter().position(|n| *n == name).expect("a listed name") as u64 + 1
}

/// One CPU's bundle in the making.
#[derive(Default)]
struct Bundle {
    /// Verbose events.
    events: Message,
    names: BTreeMap<u32, u64>,
    table: Message,
    switch: [Message; 5],
    waking: [Message; 6],
    switched_at: u64,
    woken_at: u64,
    /// Whom the last switch brought. A compact one says that he leaves now, and of a compact wake-up readers take that he runs.
    next: Option<Pid>,
}

impl Bundle {
    fn bytes(&self) -> usize {
        let arrays = self.switch.iter().chain(&self.waking).map(|m| m.0.len()).sum::<usize>();
        self.events.0.len() + self.table.0.len() + arrays
    }
    /// Place of a thread's name in the bundle's table.
    fn name(&mut self, pid: Pid, names: &Names, cpu: u32) -> u64 {
        let next = self.names.len() as u64;
        let Bundle { names: known, table, .. } = self;
        *known.entry(pid.0).or_insert_with(|| {
            table.text(5, &names.comm(pid, cpu));
            next
        })
    }
}

/// Power of each place, integrated for the energy counter.
#[derive(Default)]
struct Meter {
    /// Power level and power in µW by CPU, then by cluster.
    cpus: Vec<(PowerLevel, u64)>,
    clusters: Vec<(PowerLevel, u64)>,
    opps: Vec<usize>,
    /// µW × ns.
    energy: u128,
    total_uw: u64,
    since: u64,
    shown: u64,
}

impl Meter {
    /// All draw what they drew.
    fn until(&mut self, at: u64) {
        self.energy += u128::from(self.total_uw) * u128::from(at - self.since);
        self.since = at;
    }
}

/// What powers and energies of a platform are shown in: watts only where its powers are sourced.
#[derive(Clone, Copy)]
struct Units {
    power: &'static str,
    energy: &'static str,
    /// µW of one of `power`; the other is that for a second.
    uw: f64,
}

impl Units {
    /// As metrics have them, but for watts and joules, which are small here.
    fn of(power: &PowerModel) -> Option<Units> {
        let (power, energy, uw) = match (power.unit, power.sourced) {
            (PowerUnit::Unknown, _) => return None,
            // One abstract unit is kept as 1000.
            (PowerUnit::EasCosts, _) => ("cost", "cost*s", 1e3),
            (_, true) => ("mW", "mJ", 1e3),
            (_, false) => ("relative", "relative", 1e6),
        };
        Some(Units { power, energy, uw })
    }
}

/// Writes packets to `out`.
pub struct PerfettoTrace<W> {
    out: W,
    detail: Detail,
    about: About,
    bundles: Vec<Bundle>,
    /// Last value of the counters of threads.
    shown: BTreeMap<u64, u32>,
    names: Names,
    current: Vec<Option<Pid>>,
    /// What is written is no run.
    recorded: bool,
    platform: Option<Platform>,
    /// First thread of each task of one policy and group, in the workload or not: its process.
    processes: BTreeMap<(String, String, bool), u32>,
    tracks: BTreeSet<u64>,
    /// By the first of the tracks of slices that may overlap: when the last slice of each ends.
    lanes: BTreeMap<u64, Vec<u64>>,
    meter: Meter,
    /// When, and what energy-aware placement weighed: part of the placement that follows.
    weighed: (u64, String),
    /// When the run ended.
    end: Option<Ns>,
    failed: Option<std::io::Error>,
}

impl<W: Write> PerfettoTrace<W> {
    /// Begin a trace.
    pub fn new(out: W, detail: Detail, about: About) -> PerfettoTrace<W> {
        PerfettoTrace {
            out,
            detail,
            about,
            bundles: Vec::new(),
            shown: BTreeMap::new(),
            names: Names::default(),
            current: Vec::new(),
            recorded: false,
            platform: None,
            processes: BTreeMap::new(),
            tracks: BTreeSet::new(),
            lanes: BTreeMap::new(),
            meter: Meter::default(),
            weighed: Default::default(),
            end: None,
            failed: None,
        }
    }

    fn packet(&mut self, packet: &Message) -> Result<()> {
        let mut framed = Message::default();
        framed.varint(1 << 3 | 2);
        framed.varint(packet.0.len() as u64);
        self.out.write_all(&framed.0)?;
        self.out.write_all(&packet.0)
    }

    /// A packet of our sequence.
    fn sequenced(&self, at: u64) -> Message {
        let mut p = Message::default();
        const NEEDS_INCREMENTAL_STATE: u64 = 2;
        p.number(8, at).number(10, SEQUENCE).number(13, NEEDS_INCREMENTAL_STATE);
        p
    }

    // ---- the beginning -----------------------------------------------------------------------------------------------

    fn begin(&mut self, nr_cpus: usize) -> Result<()> {
        let mut utsname = Message::default();
        let release = self.about.release().to_string();
        let what = if self.about.recorded { "recorded".into() } else { format!("simulated, spec {}", self.about.spec) };
        utsname.text(1, "Linux").text(2, &what);
        if !release.is_empty() {
            utsname.text(3, &release);
        }
        utsname.text(4, if self.about.recorded { "recorded" } else { "simulated" });
        let mut system = Message::default();
        system.message(1, &utsname).text(4, GENERATOR).number(8, nr_cpus as u64);
        let mut packet = Message::default();
        packet.number(8, 0).message(45, &system);
        self.packet(&packet)?;
        let mut interned = Message::default();
        let mut entries = |field, names: &[&str]| {
            for (i, name) in names.iter().enumerate() {
                let mut entry = Message::default();
                entry.number(1, i as u64 + 1).text(2, name);
                interned.message(field, &entry);
            }
        };
        entries(2, NAMES);
        entries(3, ANNOTATIONS);
        let mut packet = Message::default();
        const INCREMENTAL_STATE_CLEARED: u64 = 1;
        packet.number(8, 0).number(10, SEQUENCE).number(13, INCREMENTAL_STATE_CLEARED | 2).message(12, &interned);
        self.packet(&packet)
    }

    /// A bundle for each gap, and what the kernel's buffer lost until the end.
    fn losses(&mut self, gaps: u64, lost: u64) -> Result<()> {
        for _ in 0..gaps {
            let (mut bundle, mut packet) = (Message::default(), Message::default());
            bundle.number(1, 0).number(3, 1);
            packet.message(1, &bundle);
            self.packet(&packet)?;
        }
        if lost == 0 {
            return Ok(());
        }
        const END_OF_TRACE: u64 = 2;
        let (mut cpu, mut stats, mut packet) = (Message::default(), Message::default(), Message::default());
        cpu.number(1, 0).number(3, lost);
        stats.number(1, END_OF_TRACE).message(2, &cpu);
        packet.message(34, &stats);
        self.packet(&packet)
    }

    /// A track, announced when it is first used; `unit` makes it a counter.
    fn track(&mut self, uuid: u64, name: impl FnOnce() -> String, unit: Option<&str>) -> Result<u64> {
        if self.tracks.insert(uuid) {
            let mut descriptor = Message::default();
            descriptor.number(1, uuid).text(2, &name());
            if let Some(unit) = unit {
                let mut counter = Message::default();
                counter.text(6, unit);
                descriptor.message(8, &counter);
            }
            let mut packet = Message::default();
            packet.number(10, SEQUENCE).message(60, &descriptor);
            self.packet(&packet)?;
        }
        Ok(uuid)
    }

    fn counter(&mut self, at: u64, track: u64, value: f64) -> Result<()> {
        const TYPE_COUNTER: u64 = 4;
        let mut event = Message::default();
        event.number(9, TYPE_COUNTER).number(11, track);
        // Whole numbers are shorter as such.
        if value.fract() == 0.0 {
            event.signed(30, value as i64)
        } else {
            event.double(44, value)
        };
        let mut packet = self.sequenced(at);
        packet.message(11, &event);
        self.packet(&packet)
    }

    /// An instant with its inputs; `name` is one of [`NAMES`].
    fn decision(&mut self, at: u64, track: u64, name: &str, args: &[(&str, Arg<'_>)]) -> Result<()> {
        const TYPE_INSTANT: u64 = 3;
        let mut event = Message::default();
        event.number(9, TYPE_INSTANT).number(11, track).number(10, interned(name));
        for (name, value) in args {
            let iid = ANNOTATIONS.iter().position(|a| a == name).expect("a listed annotation") as u64 + 1;
            let mut annotation = Message::default();
            annotation.number(1, iid);
            match value {
                Arg::Number(n) => annotation.number(3, *n),
                Arg::Flag(f) => annotation.number(2, (*f).into()),
                Arg::Text(t) => annotation.text(6, t),
            };
            event.message(4, &annotation);
        }
        let mut packet = self.sequenced(at);
        packet.message(11, &event);
        self.packet(&packet)
    }

    // ---- ftrace ------------------------------------------------------------------------------------------------------

    fn flush(&mut self, cpu: usize) -> Result<()> {
        let bundle = &mut self.bundles[cpu];
        let mut m = Message::default();
        m.number(1, cpu as u64);
        m.0.extend_from_slice(&bundle.events.0);
        bundle.events.clear();
        let compact = bundle.switch.iter().chain(&bundle.waking).any(|a| !a.is_empty());
        if compact {
            let mut c = Message::default();
            c.0.extend_from_slice(&bundle.table.0);
            for (field, array) in [1, 2, 3, 4, 6].into_iter().zip(&mut bundle.switch) {
                c.bytes(field, &array.0);
                array.clear();
            }
            for (field, array) in [7, 8, 9, 10, 11, 12].into_iter().zip(&mut bundle.waking) {
                if !array.is_empty() {
                    c.bytes(field, &array.0);
                }
                array.clear();
            }
            m.message(4, &c);
        }
        bundle.names.clear();
        bundle.table.clear();
        (bundle.switched_at, bundle.woken_at) = (0, 0);
        let mut packet = Message::default();
        packet.message(1, &m);
        self.packet(&packet)
    }

    fn verbose(&mut self, at: u64, cpu: CpuId, field: u32, inner: &Message) -> Result<()> {
        self.flagged(at, cpu, None, field, inner)
    }

    /// `in_irq`: does it come from an interrupt, where that matters?
    fn flagged(&mut self, at: u64, cpu: CpuId, in_irq: Option<bool>, field: u32, inner: &Message) -> Result<()> {
        let mut event = Message::default();
        event.number(1, at);
        if let Some(pid) = self.current[cpu.at()] {
            event.number(2, pid.0.into());
        }
        event.message(field, inner);
        if let Some(in_irq) = in_irq {
            event.number(5, if in_irq { HARDIRQ } else { 0 });
        }
        self.bundles[cpu.at()].events.message(2, &event);
        self.flush_if_full(cpu)
    }

    fn flush_if_full(&mut self, cpu: CpuId) -> Result<()> {
        if self.bundles[cpu.at()].bytes() >= BUNDLE { self.flush(cpu.at()) } else { Ok(()) }
    }

    /// comm, pid, prio, target: what wake-ups have in common.
    fn wakeup(&self, pid: Pid, prio: u8, target: CpuId) -> Message {
        let mut m = Message::default();
        m.text(1, &self.names.comm(pid, 0)).number(2, pid.0.into()).number(3, self.names.prio(pid, prio) as u64);
        m.number(4, 1).number(5, target.0.into());
        m
    }

    fn write(&mut self, at: u64, cpu: CpuId, event: &Event) -> Result<()> {
        match *event {
            Event::SchedSwitch { prev_pid, prev_state, .. } => {
                self.switch(at, cpu, event)?;
                if prev_state == PrevState::Dead { self.gone(at, prev_pid) } else { Ok(()) }
            }
            Event::SchedWaking { pid, prio, target_cpu, in_irq } => {
                let current = self.current[cpu.at()];
                if self.recorded && current.is_some() && current != self.bundles[cpu.at()].next {
                    return self.flagged(at, cpu, Some(in_irq), 20, &self.wakeup(pid, prio, target_cpu));
                }
                let PerfettoTrace { bundles, names, .. } = self;
                let b = &mut bundles[cpu.at()];
                let name = b.name(pid, names, cpu.0);
                b.waking[0].varint(at - b.woken_at);
                b.woken_at = at;
                b.waking[1].varint(pid.0.into());
                b.waking[2].varint(target_cpu.0.into());
                b.waking[3].varint(names.prio(pid, prio) as u64);
                b.waking[4].varint(name);
                b.waking[5].varint(if in_irq { HARDIRQ } else { 0 });
                self.flush_if_full(cpu)
            }
            Event::SchedWakeup { pid, prio, target_cpu, in_irq } => {
                // What it says beyond sched_waking is seldom wanted.
                match self.detail {
                    Detail::Tracepoints => Ok(()),
                    _ => self.flagged(at, cpu, Some(in_irq), 17, &self.wakeup(pid, prio, target_cpu)),
                }
            }
            Event::SchedWakeupNew { pid, prio, target_cpu } => {
                self.verbose(at, cpu, 114, &self.wakeup(pid, prio, target_cpu))
            }
            Event::SchedMigrateTask { pid, prio, orig_cpu, dest_cpu } => {
                let mut m = Message::default();
                m.text(1, &self.names.comm(pid, 0))
                    .number(2, pid.0.into())
                    .number(3, self.names.prio(pid, prio) as u64);
                m.number(4, orig_cpu.0.into()).number(5, dest_cpu.0.into());
                self.verbose(at, cpu, 491, &m)
            }
            Event::SchedProcessFork { pid, child_pid } => {
                let mut m = Message::default();
                m.text(1, &self.names.comm(pid, 0)).number(2, pid.0.into());
                m.text(3, &self.names.comm(child_pid, 0)).number(4, child_pid.0.into());
                self.verbose(at, cpu, 239, &m)
            }
            Event::SchedProcessExec { pid } => {
                let mut m = Message::default();
                m.number(2, pid.0.into()).number(3, pid.0.into());
                self.verbose(at, cpu, 237, &m)
            }
            Event::SchedProcessExit { pid, prio } => {
                let mut m = Message::default();
                m.text(1, &self.names.comm(pid, 0))
                    .number(2, pid.0.into())
                    .number(4, self.names.prio(pid, prio) as u64);
                self.verbose(at, cpu, 238, &m)
            }
            Event::CpuIdle { state } => {
                let mut m = Message::default();
                m.number(1, state.into()).number(2, cpu.0.into());
                self.verbose(at, cpu, 13, &m)
            }
            Event::CpuFrequency { domain, khz, opp } => self.frequency(at, domain.at(), khz, opp as usize),
            Event::CpuPower { level } => self.power(at, cpu.at(), level, false),
            Event::ClusterPower { cluster, level } => self.power(at, cluster.at(), level, true),
            Event::Mark { pid, mark, began_ns } => self.frame(at, pid, mark, began_ns),
            Event::Touch { pid } => {
                let mut m = Message::default();
                m.text(2, &format!("I|{pid}|{TOUCH}\n"));
                self.verbose(at, cpu, PRINT, &m)
            }
            Event::DeviceDone { pid, device, service_ns, .. } => self.served(at, pid, device, service_ns),
            Event::EnergyCandidate { .. }
            | Event::Placement(_)
            | Event::Frequency(_)
            | Event::Idle(_)
            | Event::IdleWeights(_)
            | Event::Balance(_) => self.decided(at, cpu, event),
            Event::PeltCfs { util_avg, runnable_avg, util_est, .. } => {
                self.signals(at, cpu.0, [util_avg, runnable_avg, util_est])
            }
            Event::PeltSe { pid, util_avg, .. } => self.of_thread(at, pid, track::TASK_UTIL, "util_avg", util_avg),
            Event::WaltDemand { pid, demand, cpu_demand } => {
                self.of_thread(at, pid, track::TASK_DEMAND, "WALT demand", demand)?;
                let uuid = track::WALT_DEMAND + u64::from(cpu.0);
                let track = self.track(uuid, || format!("WALT demand of CPU {cpu}"), Some("of 1024"))?;
                self.counter(at, track, cpu_demand.into())
            }
            _ => Ok(()),
        }
    }

    /// A signal of a thread, when it changed.
    fn of_thread(&mut self, at: u64, pid: Pid, base: u64, name: &str, value: u32) -> Result<()> {
        let uuid = base + u64::from(pid.0);
        if self.shown.insert(uuid, value) == Some(value) {
            return Ok(());
        }
        let comm = self.names.comm(pid, 0).into_owned();
        let track = self.track(uuid, || format!("{name} of {comm}"), Some("of 1024"))?;
        self.counter(at, track, value.into())
    }

    /// The signals of a thread end with it.
    fn gone(&mut self, at: u64, pid: Pid) -> Result<()> {
        for base in [track::TASK_UTIL, track::TASK_DEMAND] {
            let uuid = base + u64::from(pid.0);
            if self.shown.remove(&uuid).is_some_and(|shown| shown != 0) {
                self.counter(at, uuid, 0.0)?;
            }
        }
        Ok(())
    }

    fn switch(&mut self, at: u64, cpu: CpuId, event: &Event) -> Result<()> {
        let Event::SchedSwitch { prev_pid, prev_prio, prev_state, next_pid, next_prio } = *event else { return Ok(()) };
        let follows = self.bundles[cpu.at()].next.replace(next_pid) == Some(prev_pid);
        // Of one bundle, readers take the switches in full for the first ones.
        if !follows && !self.bundles[cpu.at()].switch[0].is_empty() {
            self.flush(cpu.at())?;
        }
        let PerfettoTrace { bundles, names, current, .. } = self;
        let (prev_prio, next_prio) = (names.prio(prev_pid, prev_prio) as u64, names.prio(next_pid, next_prio) as u64);
        let b = &mut bundles[cpu.at()];
        current[cpu.at()] = Some(next_pid);
        let state = state_bits(prev_state) as u64;
        if !follows {
            let mut m = Message::default();
            m.text(1, &names.comm(prev_pid, cpu.0)).number(2, prev_pid.0.into()).number(3, prev_prio);
            m.number(4, state).text(5, &names.comm(next_pid, cpu.0));
            m.number(6, next_pid.0.into()).number(7, next_prio);
            let mut event = Message::default();
            event.number(1, at).number(2, prev_pid.0.into()).message(4, &m);
            b.events.message(2, &event);
            return Ok(());
        }
        let name = b.name(next_pid, names, cpu.0);
        b.switch[0].varint(at - b.switched_at);
        b.switched_at = at;
        b.switch[1].varint(state);
        b.switch[2].varint(next_pid.0.into());
        b.switch[3].varint(next_prio);
        b.switch[4].varint(name);
        self.flush_if_full(cpu)
    }

    /// An event for each CPU of the domain, and the capacity it has now.
    fn frequency(&mut self, at: u64, domain: usize, khz: u32, opp: usize) -> Result<()> {
        let Some(platform) = self.platform.take() else { return Ok(()) };
        let d = &platform.domains[domain];
        let mut done = Ok(());
        for cpu in d.cpus.iter() {
            let mut m = Message::default();
            m.number(1, khz.into()).number(2, cpu.0.into());
            done = done.and_then(|()| self.verbose(at, cpu, 11, &m));
        }
        if self.detail >= Detail::Full && !d.opps.is_empty() {
            let track =
                self.track(track::CAPACITY + domain as u64, || format!("capacity of CPUs {}", d.cpus), Some("of 1024"));
            let capacity = d.opps.get(opp).map_or(0, |o| o.capacity);
            done = done.and(track).and_then(|t| self.counter(at, t, capacity.into()));
            self.meter.opps[domain] = opp;
            for cpu in d.cpus.iter() {
                let level = self.meter.cpus[cpu.at()].0;
                done = done.and_then(|()| self.metered(at, cpu.at(), level, false, &platform));
            }
            for (i, _) in platform.clusters.iter().enumerate().filter(|(_, c)| c.cpus.intersects(&d.cpus)) {
                let level = self.meter.clusters[i].0;
                done = done.and_then(|()| self.metered(at, i, level, true, &platform));
            }
        }
        self.platform = Some(platform);
        done
    }

    // ---- more than tracepoints ---------------------------------------------------------------------------------------

    fn power(&mut self, at: u64, place: usize, level: PowerLevel, cluster: bool) -> Result<()> {
        let Some(platform) = self.platform.take() else { return Ok(()) };
        let done = self.metered(at, place, level, cluster, &platform);
        self.platform = Some(platform);
        done
    }

    /// The power of a CPU or cluster from now on, and all energy so far, at most once a millisecond.
    fn metered(&mut self, at: u64, place: usize, level: PowerLevel, cluster: bool, platform: &Platform) -> Result<()> {
        let first = |c: usize| platform.clusters[c].cpus.min().unwrap_or_default();
        let cpu = if cluster { first(place) } else { CpuId(place as u32) };
        let domain = platform.cpus[cpu.at()].domain.at();
        let (table, opp) = (&platform.domains[domain].power, self.meter.opps[domain]);
        let uw = match (cluster, level) {
            (false, PowerLevel::Busy) => table.busy(opp),
            (false, PowerLevel::Idle(s)) => table.idle(s.into(), opp),
            (true, PowerLevel::Busy) => table.cluster_busy(opp),
            (true, PowerLevel::Idle(s)) => table.cluster_idle(s.into(), opp),
        };
        self.meter.until(at);
        let m = &mut self.meter;
        let slot = if cluster { &mut m.clusters[place] } else { &mut m.cpus[place] };
        m.total_uw = m.total_uw - slot.1 + uw;
        let changed = slot.1 != uw;
        *slot = (level, uw);
        let (energy, due) = (m.energy, at - m.shown >= 1_000_000);
        let Some(units) = Units::of(&platform.power) else { return Ok(()) };
        if changed {
            let (base, name) = match cluster {
                true => (track::CLUSTER_POWER, format!("power of cluster {place}")),
                false => (track::POWER, format!("power of CPU {place}")),
            };
            let track = self.track(base + place as u64, || name, Some(units.power))?;
            self.counter(at, track, uw as f64 / units.uw)?;
        }
        if due { self.energy(at, energy, units) } else { Ok(()) }
    }

    fn energy(&mut self, at: u64, energy: u128, units: Units) -> Result<()> {
        self.meter.shown = at;
        let track = self.track(track::ENERGY, || "energy".into(), Some(units.energy))?;
        self.counter(at, track, energy as f64 / (units.uw * 1e9))
    }

    /// What was drawn since it was last shown.
    fn last_energy(&mut self, end: u64) -> Result<()> {
        self.meter.until(end.max(self.meter.since));
        let Meter { energy, shown, .. } = self.meter;
        let units = self.platform.as_ref().and_then(|p| Units::of(&p.power));
        match units.filter(|_| energy > 0 && shown < end) {
            Some(units) => self.energy(end, energy, units),
            None => Ok(()),
        }
    }

    fn signals(&mut self, at: u64, cpu: u32, values: [u32; 3]) -> Result<()> {
        if self.detail < Detail::Full {
            return Ok(());
        }
        let bases = [track::UTIL_AVG, track::RUNNABLE_AVG, track::UTIL_EST];
        for ((base, name), value) in bases.into_iter().zip(["util_avg", "runnable_avg", "util_est"]).zip(values) {
            let track = self.track(base + u64::from(cpu), || format!("{name} of CPU {cpu}"), Some("of 1024"))?;
            self.counter(at, track, value.into())?;
        }
        Ok(())
    }

    /// From its beginning to now, on a track of its thread: of pipelined ones, slices overlap.
    fn frame(&mut self, at: u64, pid: Pid, mark: u32, began: u64) -> Result<()> {
        let name = self.about.marks.get(mark as usize).cloned().unwrap_or_else(|| format!("mark {mark}"));
        let uuid = track::FRAMES + (u64::from(mark as u16) << 32) + u64::from(pid.0);
        let comm = self.names.comm(pid, 0).into_owned();
        self.slice(uuid, &format!("{name} of {comm}"), &name, began..at)
    }

    /// What a device did for a thread, on the device's track for this thread: of several servers, slices overlap.
    fn served(&mut self, at: u64, pid: Pid, device: u32, service: u64) -> Result<()> {
        let name = self.about.devices.get(device as usize).cloned().unwrap_or_else(|| format!("device {device}"));
        let uuid = track::DEVICES + (u64::from(device as u16) << 32) + u64::from(pid.0);
        let comm = self.names.comm(pid, 0).into_owned();
        self.slice(uuid, &format!("{name} for {comm}"), &comm, at.saturating_sub(service)..at)
    }

    /// On the first track of this name that is free by then. Readers sort by time and let an end close whatever began last, so
    /// slices of one track must not overlap; tracks of one name are shown as one.
    fn slice(&mut self, uuid: u64, on: &str, name: &str, time: std::ops::Range<u64>) -> Result<()> {
        let began = time.start.min(time.end);
        let lanes = self.lanes.entry(uuid).or_default();
        let free = lanes.iter().position(|end| *end <= began).unwrap_or(lanes.len()).min(LANES - 1);
        lanes.resize(lanes.len().max(free + 1), 0);
        lanes[free] = time.end;
        let track = self.track(uuid + track::LANE * free as u64, || on.to_owned(), None)?;
        for (at, kind) in [(began, 1), (time.end, 2)] {
            let mut event = Message::default();
            event.number(9, kind).number(11, track);
            if kind == 1 {
                event.text(23, name);
            }
            let mut packet = self.sequenced(at);
            packet.message(11, &event);
            self.packet(&packet)?;
        }
        Ok(())
    }

    fn decided(&mut self, at: u64, cpu: CpuId, event: &Event) -> Result<()> {
        use Arg::{Flag, Number, Text};
        match event {
            Event::EnergyCandidate { candidate: c, .. } => {
                let badly = if c.fits { "" } else { " badly" };
                let (util, capacity) = (c.util, c.capacity);
                if std::mem::replace(&mut self.weighed.0, at) != at {
                    self.weighed.1.clear();
                }
                let told = &mut self.weighed.1;
                let and = if told.is_empty() { "" } else { "; " };
                *told += &format!("{and}cpu{} {:+} to {} ({util}/{capacity}{badly})", c.cpu, c.delta, c.energy);
                Ok(())
            }
            Event::Placement(p) => {
                let track =
                    self.track(track::PLACEMENT + u64::from(cpu.0), || format!("placements by CPU {cpu}"), None)?;
                let comm = self.names.comm(p.pid, 0).into_owned();
                let weighed = std::mem::take(&mut self.weighed.1);
                let mut args = vec![
                    ("comm", Text(&comm)),
                    ("pid", Number(p.pid.0.into())),
                    ("cpu", Number(p.cpu.0.into())),
                    ("reason", Text(p.reason.name())),
                    ("prev_cpu", Number(p.prev_cpu.0.into())),
                    ("this_cpu", Number(p.this_cpu.0.into())),
                    ("target", Number(p.target.0.into())),
                    ("scanned", Number(p.scanned.into())),
                    ("nr_running", Number(p.nr_running.into())),
                ];
                if !weighed.is_empty() {
                    args.push(("weighed", Text(&weighed)));
                }
                self.decision(at, track, "placement", &args)
            }
            Event::Frequency(f) => {
                let domain = f.domain;
                let track = self.track(
                    track::FREQUENCY + u64::from(domain.0),
                    || format!("frequencies of domain {domain}"),
                    None,
                )?;
                let args = [
                    ("next_khz", Number(f.next_khz.into())),
                    ("prev_khz", Number(f.prev_khz.into())),
                    ("util", Number(f.util.into())),
                    ("util_avg", Number(f.util_avg.into())),
                    ("util_est", Number(f.util_est.into())),
                    ("runnable_avg", Number(f.runnable_avg.into())),
                    ("iowait_boost", Number(f.iowait_boost.into())),
                ];
                self.decision(at, track, "frequency", &args)?;
                self.signals(at, cpu.0, [f.util_avg, f.runnable_avg, f.util_est])
            }
            Event::Idle(i) => {
                let track = self.track(track::IDLE + u64::from(cpu.0), || format!("idle states of CPU {cpu}"), None)?;
                let mut args = vec![("state", Number(i.state.into())), ("stop_tick", Flag(i.stop_tick))];
                let known = [("predicted_ns", i.predicted_ns), ("sleep_length_ns", i.sleep_length_ns)];
                args.extend(known.into_iter().filter(|k| k.1 != u64::MAX).map(|(name, ns)| (name, Number(ns))));
                self.decision(at, track, "idle state", &args)
            }
            Event::IdleWeights(w) => {
                let track =
                    self.track(track::WEIGHTS + u64::from(cpu.0), || format!("idle weights of CPU {cpu}"), None)?;
                let weights: Vec<String> = w.weights.iter().take(w.states.into()).map(u16::to_string).collect();
                let weights = weights.join(",");
                let args = [("state", Number(w.entered.into())), ("weights", Text(&weights))];
                self.decision(at, track, "idle weights", &args)
            }
            Event::Balance(b) => {
                let track =
                    self.track(track::BALANCE + u64::from(cpu.0), || format!("load balance by CPU {cpu}"), None)?;
                let args = [
                    ("reason", Text(b.kind.name())),
                    ("dst_cpu", Number(b.dst_cpu.0.into())),
                    ("src_cpu", Number(b.src_cpu.0.into())),
                    ("moved", Number(b.moved.into())),
                    ("imbalance", Number(b.imbalance.into())),
                ];
                self.decision(at, track, "balance", &args)
            }
            _ => Ok(()),
        }
    }

    fn thread_packet(&mut self, t: &ThreadInfo) -> Result<()> {
        let next = t.pid.0;
        let word = told::word(t);
        let process = *self.processes.entry((t.task.clone(), word.clone(), t.workload)).or_insert(next);
        let mut tree = Message::default();
        if process == next {
            let mut p = Message::default();
            p.number(1, process.into());
            let told = self.about.told && !t.policy.is_empty();
            // Of a real machine's programs, no parent is known.
            if !t.workload || told {
                p.number(2, if t.workload { INIT } else { KTHREADD });
            }
            p.text(3, &t.task);
            if told {
                p.text(3, &format!("{POLICY}{word}"));
                for number in told::line_of_descent(&self.about.groups, t.group) {
                    p.text(3, &format!("{GROUP}{}", told::group_line(number, &self.about.groups[number])));
                }
            }
            tree.message(1, &p);
        }
        let mut thread = Message::default();
        thread.number(1, t.pid.0.into()).text(2, &t.comm).number(3, process.into());
        tree.message(2, &thread);
        let mut packet = Message::default();
        packet.message(2, &tree);
        self.packet(&packet)
    }

    /// Tracing is over.
    fn over(&mut self, end: u64) -> Result<()> {
        let (mut event, mut packet) = (Message::default(), Message::default());
        event.number(TRACING_DISABLED, 1);
        packet.number(packet::TIMESTAMP, end).message(packet::SERVICE_EVENT, &event);
        self.packet(&packet)
    }

    fn guarded(&mut self, step: impl FnOnce(&mut Self) -> Result<()>) {
        if self.failed.is_none() {
            self.failed = step(self).err();
        }
    }
}

enum Arg<'a> {
    Number(u64),
    Flag(bool),
    Text(&'a str),
}

impl<W: Write> Observer for PerfettoTrace<W> {
    fn interest(&self) -> Interest {
        self.detail.interest()
    }
    fn start(&mut self, platform: &Platform) {
        let n = platform.nr_cpus();
        self.current = vec![Some(Pid(0)); n];
        self.bundles = (0..n).map(|_| Bundle::default()).collect();
        self.meter.opps = vec![0; platform.domains.len()];
        self.meter.cpus = vec![(PowerLevel::Busy, 0); n];
        self.meter.clusters = vec![(PowerLevel::Busy, 0); platform.clusters.len()];
        self.platform = Some(platform.clone());
        self.guarded(|t| t.begin(n));
    }
    fn thread(&mut self, thread: &ThreadInfo) {
        self.names.insert(thread);
        self.guarded(|t| t.thread_packet(thread));
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        self.guarded(|t| t.write(at.0, cpu, event));
    }
    fn finish(&mut self, end: Ns) {
        self.end = Some(end);
        self.guarded(|t| t.last_energy(end.0));
    }
}

impl<W: Write> TraceWriter for PerfettoTrace<W> {
    fn runs(&mut self, cpu: CpuId, pid: Option<Pid>) {
        self.current[cpu.at()] = pid;
    }
    fn recorded(&mut self, recording: &Recording) {
        self.recorded = true;
        self.guarded(|t| t.losses(recording.lost_gaps, recording.lost_events));
    }
    fn close(&mut self) -> Result<()> {
        for cpu in 0..self.bundles.len() {
            self.guarded(|t| if t.bundles[cpu].bytes() > 0 { t.flush(cpu) } else { Ok(()) });
        }
        // Last of all: a file that is cut off does not have it.
        if let Some(end) = self.end {
            self.guarded(|t| t.over(end.0));
        }
        match self.failed.take() {
            Some(e) => Err(e),
            None => self.out.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::proto::fields;
    use super::*;

    /// Events of tracks in the order of the file: stamp, type, track, whole number.
    fn track_events(trace: &[u8]) -> Vec<(u64, u64, u64, u64)> {
        let number = |m: &[u8], field| fields(m).find(|(f, _)| *f == field).map_or(0, |(_, v)| v.number());
        let packets = fields(trace).filter(|(field, _)| *field == 1).map(|(_, packet)| packet.bytes());
        let events = packets.filter_map(|packet| {
            let event = fields(packet).find(|(field, _)| *field == 11).map(|(_, v)| v.bytes())?;
            Some((number(packet, 8), number(event, 9), number(event, 11), number(event, 30)))
        });
        events.collect()
    }

    fn written(events: &[(u64, Event)]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut trace = PerfettoTrace::new(&mut out, Detail::Full, About::default());
        for (at, event) in events {
            trace.event(Ns(*at), CpuId(0), event);
        }
        trace.close().unwrap();
        out
    }

    /// A buffer lets the next frame begin before the one before has ended.
    #[test]
    fn frames_that_overlap_keep_their_lengths() {
        let frame = |began_ns, at| (at, Event::Mark { pid: Pid(7), mark: 0, began_ns });
        let frames = [(10, 30), (20, 40), (30, 50), (35, 60), (36, 61), (60, 70), (90, 80)];
        let mut events = track_events(&written(&frames.map(|(began, at)| frame(began, at))));
        events.sort_by_key(|e| e.0);
        let (mut open, mut shown) = (BTreeMap::<u64, Vec<u64>>::new(), Vec::new());
        for (at, kind, track, _) in events {
            let open = open.entry(track).or_default();
            match kind {
                1 => open.push(at),
                _ => shown.push((open.pop().expect("it began"), at)),
            }
            assert!(open.len() <= 1, "slices of track {track} overlap");
        }
        shown.sort();
        assert_eq!(shown, [(10, 30), (20, 40), (30, 50), (35, 60), (36, 61), (60, 70), (80, 80)]);
        assert_eq!(open.len(), 4, "a track that is free is used again");
    }

    /// Counters hold their last value until the next: energy until the end, a thread's signal until it dies.
    #[test]
    fn counters_end() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../platforms/hikey620.toml");
        let text = std::fs::read_to_string(path).unwrap();
        let platform = crate::platform_toml::parse(&text, &Default::default()).platform.expect("it is valid");
        let signal = |pid, util_avg| Event::PeltSe { pid: Pid(pid), util_avg, runnable_avg: 0, load_avg: 0 };
        let leaves = |pid, prev_state| Event::SchedSwitch {
            prev_pid: Pid(pid),
            prev_prio: 120,
            prev_state,
            next_pid: Pid(0),
            next_prio: 120,
        };
        let mut out = Vec::new();
        let mut trace = PerfettoTrace::new(&mut out, Detail::Full, About::default());
        trace.start(&platform);
        let ms = 1_000_000;
        for (at, event) in [
            (0, Event::CpuPower { level: PowerLevel::Busy }),
            (2 * ms, signal(7, 300)),
            (2 * ms, signal(8, 200)),
            (3 * ms, Event::CpuPower { level: PowerLevel::Idle(0) }),
            (3 * ms, leaves(7, PrevState::Sleeping)),
            (4 * ms, leaves(8, PrevState::Dead)),
            (4 * ms, leaves(9, PrevState::Dead)),
        ] {
            trace.event(Ns(at), CpuId(0), &event);
        }
        trace.finish(Ns(9 * ms));
        trace.close().unwrap();
        let events = track_events(&out);
        let of = |track: u64| events.iter().filter(|e| e.2 == track).map(|e| (e.0 / ms, e.3)).collect::<Vec<_>>();
        assert_eq!(of(track::TASK_UTIL + 7), [(2, 300)]);
        assert_eq!(of(track::TASK_UTIL + 8), [(2, 200), (4, 0)]);
        assert!(of(track::TASK_UTIL + 9).is_empty());
        assert_eq!(of(track::ENERGY).iter().map(|e| e.0).collect::<Vec<_>>(), [3, 9]);
    }

    /// Watts are of platforms whose powers are sourced; where none are known there is no counter of them.
    #[test]
    fn units_of_powers() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../platforms/hikey620.toml");
        let text = std::fs::read_to_string(path).unwrap();
        let platform = crate::platform_toml::parse(&text, &Default::default()).platform.expect("it is valid");
        let units = |unit, sourced| {
            let platform = Platform { power: PowerModel { unit, sourced, ..platform.power }, ..platform.clone() };
            let mut out = Vec::new();
            let mut trace = PerfettoTrace::new(&mut out, Detail::Full, About::default());
            trace.start(&platform);
            let idle = PowerLevel::Idle(0);
            trace.event(Ns(0), CpuId(0), &Event::CpuPower { level: PowerLevel::Busy });
            trace.event(Ns(3_000_000), CpuId(0), &Event::CpuPower { level: idle });
            trace.finish(Ns(9_000_000));
            trace.close().unwrap();
            let has = |text: &str| out.windows(text.len()).any(|w| w == text.as_bytes());
            let energy = track_events(&out).iter().filter(|e| e.2 == track::ENERGY).count();
            (["mW", "mJ", "cost", "cost*s", "relative"].map(has), energy)
        };
        assert_eq!(units(PowerUnit::Measured, true), ([true, true, false, false, false], 2));
        assert_eq!(units(PowerUnit::EasCosts, true), ([false, false, true, true, false], 2));
        assert_eq!(units(PowerUnit::EnergyModel, false), ([false, false, false, false, true], 2));
        assert_eq!(units(PowerUnit::Unknown, false), ([false; 5], 0));
    }
}
