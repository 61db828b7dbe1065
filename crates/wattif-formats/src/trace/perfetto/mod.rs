//! Perfetto traces: protocol buffers, a packet after the other. Field numbers are those of the published definitions
//! (google/perfetto, `protos/perfetto/trace`).
//!
//! Read: ftrace events one by one and in `compact_sched` form, process trees, compressed packets. Whatever else a trace
//! holds is skipped; ftrace events of other kinds are counted by their field number.

mod proto;
pub mod write;

use super::build::{Builder, Place};
use super::kinds::{self, INTS, Kind, ROWS, Row};
use super::{Refused, wrap};
use proto::{Value, fields, packed};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::check::Diagnostic;
use wattif_model::{CpuSet, Pid};

/// `kthreadd`, the parent of all threads of the kernel.
const KTHREADD: u64 = 2;
/// Begins the version of the tracing service of our own traces.
const OURS: &str = "wattif";
/// Their processes are tasks, and have the policy in their command line, and the group with those above it.
const POLICY: &str = "--policy=";
const GROUP: &str = "--group=";

/// Events that Perfetto has no message for, in `FtraceEvent`: they have their names with them.
const GENERIC: u32 = 327;
/// What programs tell. Ours: a touch, as Android's would, an instant of a process.
const PRINT: u32 = 3;
const TOUCH: &str = "touch";

/// `TracingServiceEvent`: tracing is over. Of ours, the run is.
const TRACING_DISABLED: u32 = 5;

/// `TracePacket`.
mod packet {
    pub const FTRACE_EVENTS: u32 = 1;
    pub const PROCESS_TREE: u32 = 2;
    pub const CLOCK_SNAPSHOT: u32 = 6;
    pub const TIMESTAMP: u32 = 8;
    pub const SEQUENCE: u32 = 10;
    pub const FTRACE_STATS: u32 = 34;
    pub const PREVIOUS_DROPPED: u32 = 42;
    pub const SYSTEM_INFO: u32 = 45;
    pub const COMPRESSED_PACKETS: u32 = 50;
    pub const SERVICE_EVENT: u32 = 69;
    pub const MACHINE: u32 = 98;
    pub const ZSTD_COMPRESSED_PACKETS: u32 = 133;
}

/// An event that a field of `FtraceEvent` holds: its kind, where the row's numbers and names are in the message.
struct Known {
    row: &'static Row,
    ints: &'static [u32],
    strs: &'static [u32],
}

/// Field, kind, numbers in the order of the kind's row, names.
const EVENTS: &[(u32, Kind, &[u32], &[u32])] = &[
    (4, Kind::Switch, &[2, 3, 4, 6, 7], &[1, 5]),
    (11, Kind::CpuFrequency, &[1, 2], &[]),
    (13, Kind::Idle, &[1, 2], &[]),
    (17, Kind::Wakeup, &[2, 3, 5, 4], &[1]),
    (20, Kind::Waking, &[2, 3, 5, 4], &[1]),
    (114, Kind::WakeupNew, &[2, 3, 5, 4], &[1]),
    (235, Kind::NewTask, &[1, 3], &[2]),
    (236, Kind::Rename, &[1], &[3]),
    (237, Kind::Exec, &[2, 3], &[]),
    (238, Kind::Exit, &[2, 4], &[1]),
    (239, Kind::Fork, &[2, 4], &[1, 3]),
    (491, Kind::Migrate, &[2, 3, 4, 5], &[1]),
    (21, Kind::IrqEnter, &[], &[]),
    (22, Kind::IrqExit, &[], &[]),
    (24, Kind::IrqEnter, &[], &[]),
    (25, Kind::IrqExit, &[], &[]),
    (36, Kind::IrqEnter, &[], &[]),
    (37, Kind::IrqExit, &[], &[]),
    (553, Kind::IrqEnter, &[], &[]),
    (554, Kind::IrqExit, &[], &[]),
];

/// Names of common events that are skipped.
const SKIPPED: &[(u32, &str)] = &[
    (PRINT, "print"),
    (12, "cpu_frequency_limits"),
    (16, "clock_set_rate"),
    (26, "softirq_raise"),
    (240, "sched_process_free"),
    (243, "sched_process_wait"),
    (322, "clk_set_rate"),
];

/// The pid, with that of the CPU added, of a thread that no event names: PID_MAX_LIMIT, from which on the kernel gives none.
const NAMELESS: i64 = 1 << 22;
/// Priority of a thread of nice 0, and of the idle task.
const NICE_0: i64 = 120;

/// `FtraceClock`, of a bundle that does not have the clock of the trace, which is `boot`; one that Perfetto does not know.
const CLOCK_BOOT: u64 = 0;
const CLOCK_UNKNOWN: u64 = 1;
const CLOCK_MONO_RAW: u64 = 4;
/// `BuiltinClock`, in snapshots.
const MONOTONIC_RAW: u64 = 5;
const BOOTTIME: u64 = 6;
/// `FtraceParseStatus`: the rest of a page is empty, which kernels leave so at times. The others tell of a page that was not read.
const ZERO_DATA_LENGTH: u64 = 12;

/// Sequences that are told apart; further ones count as the last.
const MAX_SEQUENCES: usize = 64;

struct Reader<'b> {
    builder: &'b mut Builder,
    /// The whole trace.
    bytes: &'b [u8],
    /// The trace is one of ours, which say policies.
    ours: bool,
    /// Packets of other machines, such as guests of this one: they have CPUs and threads of the same numbers.
    of_others: u64,
    /// By field.
    known: Vec<Option<Known>>,
    /// CPUs of which no event says who ran before the first switch: a thread has no name, or they are taken as idle.
    nameless: BTreeSet<u32>,
    assumed_idle: BTreeSet<u32>,
    /// There were some.
    has_lost: bool,
    /// Pages that Perfetto could not read: told where they would be, or of the whole.
    errors: bool,
    errors_in_all: bool,
    /// Clocks of bundles, by their `FtraceClock`; from that of the current bundle to the trace's.
    clocks: BTreeMap<u64, Clock>,
    shift: u64,
    unknown: BTreeMap<u32, u64>,
    /// Sequences of packets that held events, in the order they came; that of the packet.
    sequences: Vec<Sequence>,
    sequence: usize,
    /// By CPU: events that the kernel's buffer had lost at the beginning and at the end.
    overruns: BTreeMap<u64, [u64; 2]>,
    inflated: usize,
    /// So much it may become.
    limit: usize,
}

/// A clock of events.
#[derive(Default)]
struct Clock {
    /// What `boot` is ahead of it, as was told last.
    to_boot: Option<u64>,
    /// Bundles whose stamps are the clock's own, as nothing had told that.
    own: u64,
    /// Bundles with stamps of the trace's clock.
    of_trace: u64,
}

/// What is known by the packets of one sequence: one data source, which has events of all CPUs. Several may have the same events.
#[derive(Default)]
struct Sequence {
    id: u64,
    /// Who runs on a CPU since the last compact switch, and with what priority.
    running: Vec<Option<(i64, i64)>>,
    /// CPUs with a bundle of events; those with one since packets were dropped last.
    bundles: Vec<bool>,
    seen: BTreeSet<u32>,
    /// By CPU: the stamp of the first event that says who runs, and who that is.
    first: Vec<Option<(u64, u32)>>,
    /// CPUs whose buffer has lost events, and that have shown no switch since: the place of the first record after that.
    lost: BTreeMap<u32, usize>,
}

impl Sequence {
    fn new(id: u64) -> Sequence {
        let (running, first) = (vec![None; CpuSet::MAX_CPUS], vec![None; CpuSet::MAX_CPUS]);
        Sequence { id, running, bundles: vec![false; CpuSet::MAX_CPUS], first, ..Sequence::default() }
    }
}

/// Does it begin like one: a length-delimited packet with known wire types?
pub(super) fn probe(head: &[u8], whole: usize) -> bool {
    if head.first() != Some(&0x0a) {
        return false;
    }
    let mut at = 1;
    let Some(len) = proto::varint(head, &mut at) else { return false };
    if at as u64 + len > whole as u64 && whole > head.len() {
        return false;
    }
    let end = (at as u64 + len).min(head.len() as u64) as usize;
    let mut packet = fields(&head[at..end]);
    let known = packet.by_ref().all(|(field, _)| (1..=1000).contains(&field));
    known && (packet.is_whole() || end == head.len())
}

/// Read a trace.
pub(super) fn read<'b>(bytes: &'b [u8], builder: &'b mut Builder) -> Result<String, Refused> {
    let row = |kind| ROWS.iter().find(|r| r.kind == kind).expect("every kind has a row");
    let mut known: Vec<Option<Known>> = Vec::new();
    for &(field, kind, ints, strs) in EVENTS {
        known.resize_with(known.len().max(field as usize + 1), || None);
        known[field as usize] = Some(Known { row: row(kind), ints, strs });
    }
    let mut reader = Reader {
        builder,
        bytes,
        ours: false,
        of_others: 0,
        known,
        nameless: BTreeSet::new(),
        assumed_idle: BTreeSet::new(),
        has_lost: false,
        errors: false,
        errors_in_all: false,
        clocks: BTreeMap::new(),
        shift: 0,
        unknown: BTreeMap::new(),
        sequences: Vec::new(),
        sequence: 0,
        overruns: BTreeMap::new(),
        inflated: bytes.len(),
        limit: wrap::limit(bytes.len()),
    };
    reader.packets(bytes, true)?;
    for sequence in 0..reader.sequences.len() {
        reader.sequence = sequence;
        (0..CpuSet::MAX_CPUS as u32).for_each(|cpu| reader.shows_no_switch(cpu));
    }
    if reader.errors_in_all && !reader.errors {
        reader.builder.lost(None);
    }
    reader.tell_clocks();
    if reader.clocks.contains_key(&CLOCK_UNKNOWN) {
        let help = "record with a clock in ns: echo boot > /sys/kernel/tracing/trace_clock";
        reader.builder.not_ns("Perfetto does not know the clock of the events", help);
    }
    reader.builder.lost_in_all(reader.overruns.values().map(|[begin, end]| end.saturating_sub(*begin)));
    reader.builder.fill_current();
    reader.who_ran_first();
    if reader.of_others > 0 {
        let message = format!("{} packets of other machines are left out: the host alone is read", reader.of_others);
        reader.builder.say(Diagnostic::note("trace::N07", 0..0, message));
    }
    for (field, n) in std::mem::take(&mut reader.unknown) {
        let name = SKIPPED.iter().find(|s| s.0 == field).map_or(format!("ftrace event {field}"), |s| s.1.to_string());
        reader.builder.unknown_many(name.as_bytes(), n);
    }
    Ok("perfetto".into())
}

/// By a snapshot of the machine's clocks: what `boot` is ahead of `mono_raw`.
fn mono_raw_to_boot(bytes: &[u8]) -> Option<u64> {
    let clocks = || fields(bytes).filter(|(field, _)| *field == 1).map(|(_, clock)| clock.bytes());
    let number = |clock, field| fields(clock).find(|(f, _)| *f == field).map(|(_, v)| v.number());
    let at = |id| clocks().find(|&clock| number(clock, 1) == Some(id)).and_then(|clock| number(clock, 2));
    Some(at(BOOTTIME)?.wrapping_sub(at(MONOTONIC_RAW)?))
}

/// The same by the first one in these packets, and in those that are compressed, of which `left` bytes may come.
fn first_snapshot(bytes: &[u8], mut left: usize, outermost: bool) -> Option<u64> {
    for (_, packet) in fields(bytes).filter(|(field, _)| *field == 1) {
        let packet = || fields(packet.bytes());
        if packet().any(|(field, machine)| field == packet::MACHINE && machine.number() != 0) {
            continue;
        }
        for (field, value) in packet() {
            let found = match field {
                packet::CLOCK_SNAPSHOT => mono_raw_to_boot(value.bytes()),
                packet::COMPRESSED_PACKETS | packet::ZSTD_COMPRESSED_PACKETS if outermost => {
                    let inner = decompress(value.bytes(), field == packet::ZSTD_COMPRESSED_PACKETS).ok()?.bytes;
                    left = left.checked_sub(inner.len())?;
                    first_snapshot(&inner, left, false)
                }
                _ => None,
            };
            if found.is_some() {
                return found;
            }
        }
    }
    None
}

fn decompress(bytes: &[u8], zstd: bool) -> Result<wrap::Inflated, Refused> {
    match zstd {
        true => wrap::unzstd(bytes, wrap::limit(bytes.len())),
        false => wrap::inflate(flate2::read::ZlibDecoder::new(bytes), bytes.len()),
    }
}

impl Reader<'_> {
    fn packets(&mut self, bytes: &[u8], outermost: bool) -> Result<(), Refused> {
        let mut trace = fields(bytes);
        for (field, value) in trace.by_ref() {
            if field == 1 {
                self.packet(value.bytes(), outermost)?;
            }
        }
        if !trace.is_whole() {
            let lost = bytes.len() - trace.at();
            let message = format!("the trace is truncated or damaged at byte {}; {lost} bytes are lost", trace.at());
            self.builder.say(Diagnostic::warning("trace::W04", 0..0, message));
        }
        Ok(())
    }

    fn packet(&mut self, bytes: &[u8], outermost: bool) -> Result<(), Refused> {
        let (mut sequence, mut machine, mut at, mut events, mut dropped) = (0, 0, 0, false, false);
        // These stand behind what they are about.
        for (field, value) in fields(bytes) {
            match field {
                packet::TIMESTAMP => at = value.number(),
                packet::SEQUENCE => sequence = value.number(),
                packet::PREVIOUS_DROPPED => dropped = value.number() != 0,
                packet::MACHINE => machine = value.number(),
                packet::FTRACE_EVENTS => events = true,
                _ => {}
            }
        }
        if machine != 0 {
            self.of_others += 1;
            return Ok(());
        }
        let known = self.sequences.iter().position(|s| s.id == sequence);
        // The first packet of a sequence has the flag too: nothing was before it.
        if let Some(known) = known.filter(|_| dropped) {
            self.sequence = known;
            self.builder.lost(None);
            std::mem::take(&mut self.now().seen).into_iter().for_each(|cpu| self.loses(cpu));
        }
        if events {
            self.of_sequence(sequence, known);
        }
        for (field, value) in fields(bytes) {
            match field {
                packet::FTRACE_EVENTS => self.bundle(value.bytes()),
                packet::FTRACE_STATS => self.ftrace_stats(value.bytes()),
                packet::CLOCK_SNAPSHOT => self.clock_snapshot(value.bytes()),
                packet::PROCESS_TREE => self.process_tree(value.bytes()),
                packet::SYSTEM_INFO => self.system_info(value.bytes()),
                packet::SERVICE_EVENT if self.ours && fields(value.bytes()).any(|(f, _)| f == TRACING_DISABLED) => {
                    self.builder.ends(at);
                }
                packet::COMPRESSED_PACKETS | packet::ZSTD_COMPRESSED_PACKETS if outermost => {
                    let inner = self.inflate(value.bytes(), field == packet::ZSTD_COMPRESSED_PACKETS)?;
                    self.packets(&inner, false)?;
                }
                packet::COMPRESSED_PACKETS | packet::ZSTD_COMPRESSED_PACKETS => {
                    let message = "compressed packets inside compressed packets were skipped";
                    self.builder.say(Diagnostic::warning("trace::W04", 0..0, message));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The next events are of this sequence. Those of the first are of the main buffer.
    fn of_sequence(&mut self, id: u64, known: Option<usize>) {
        if known.is_none() && self.sequences.len() < MAX_SEQUENCES {
            self.sequences.push(Sequence::new(id));
        }
        self.sequence = known.unwrap_or(self.sequences.len() - 1);
        match self.sequence {
            0 => self.builder.buffer(b""),
            n => self.builder.buffer(format!("sequence {}", self.sequences[n].id).as_bytes()),
        }
    }

    fn now(&mut self) -> &mut Sequence {
        &mut self.sequences[self.sequence]
    }

    /// What the kernel's buffer lost since it was made, at the beginning (phase 1) and at the end of the trace, and what of it Perfetto
    /// could not read.
    fn ftrace_stats(&mut self, bytes: &[u8]) {
        let errors = fields(bytes).filter(|(field, _)| *field == 9);
        self.errors_in_all |= errors.map(|(_, status)| status.number()).any(|status| status != ZERO_DATA_LENGTH);
        let begin = fields(bytes).any(|(field, value)| field == 1 && value.number() == 1);
        for (_, cpu) in fields(bytes).filter(|(field, _)| *field == 2) {
            let of = |field| fields(cpu.bytes()).find(|(f, _)| *f == field).map_or(0, |(_, v)| v.number());
            let cpu = of(1);
            if cpu < CpuSet::MAX_CPUS as u64 {
                // `overrun`: overwritten; `dropped_events`: a full buffer that is not overwritten.
                self.overruns.entry(cpu).or_default()[usize::from(!begin)] = of(3).saturating_add(of(8));
            }
        }
    }

    fn inflate(&mut self, bytes: &[u8], zstd: bool) -> Result<Vec<u8>, Refused> {
        let whole = decompress(bytes, zstd)?;
        self.inflated = self.inflated.saturating_add(whole.bytes.len());
        if self.inflated > self.limit {
            return Err(wrap::bomb("what its compressed packets hold", self.limit));
        }
        if let Some(why) = whole.damage {
            let message = format!("compressed packets end early: {why}");
            self.builder.say(Diagnostic::warning("trace::W04", 0..0, message));
        }
        Ok(whole.bytes)
    }

    // ---- names -------------------------------------------------------------------------------------------------------

    // ---- clocks ------------------------------------------------------------------------------------------------------

    /// Clocks of the machine at one moment.
    fn clock_snapshot(&mut self, bytes: &[u8]) {
        if let Some(to_boot) = mono_raw_to_boot(bytes) {
            self.clocks.entry(CLOCK_MONO_RAW).or_default().to_boot = Some(to_boot);
        }
    }

    /// The clock of a bundle: it may tell both its own time and the trace's. Snapshots come when they come, also behind the first bundle
    /// that needs one.
    fn clock(&mut self, bytes: &[u8]) {
        let told = |field| fields(bytes).find(|(f, _)| *f == field).map(|(_, v)| v.number());
        let id = told(5).unwrap_or(CLOCK_BOOT).min(CLOCK_MONO_RAW + 1);
        let to_boot = told(6).zip(told(7)).map(|(own, boot)| boot.wrapping_sub(own));
        let (bytes, limit) = (self.bytes, self.limit);
        let clock = self.clocks.entry(id).or_insert_with(|| {
            let waits = id == CLOCK_MONO_RAW && to_boot.is_none();
            Clock { to_boot: if waits { first_snapshot(bytes, limit, true) } else { None }, ..Clock::default() }
        });
        clock.to_boot = to_boot.or(clock.to_boot);
        let shift = if id == CLOCK_BOOT { Some(0) } else { clock.to_boot };
        *if shift.is_some() { &mut clock.of_trace } else { &mut clock.own } += 1;
        self.shift = shift.unwrap_or(0);
    }

    /// Events of one clock need no other.
    fn tell_clocks(&mut self) {
        let own: Vec<(u64, u64)> = self.clocks.iter().filter(|(_, c)| c.own > 0).map(|(id, c)| (*id, c.own)).collect();
        let others = self.clocks.values().any(|c| c.of_trace > 0);
        if own.len() + usize::from(others) < 2 {
            return;
        }
        let all: u64 = self.clocks.values().map(|c| c.own + c.of_trace).sum();
        let name = |id| match id {
            2 => "global",
            3 => "local",
            CLOCK_MONO_RAW => "mono_raw",
            _ => "unknown",
        };
        let each: Vec<String> = own.iter().map(|(id, n)| format!("{n} of clock {}", name(*id))).collect();
        let message = format!(
            "of {all} bundles of events {} have stamps of another clock than the rest, and nothing tells how far it is from that: \
             taken as they are, at wrong times",
            each.join(", ")
        );
        let help = "record all of it with one clock: echo boot > /sys/kernel/tracing/trace_clock";
        self.builder.say(Diagnostic::warning("trace::W05", 0..0, message).help(help));
    }

    fn process_tree(&mut self, bytes: &[u8]) {
        for (field, value) in fields(bytes) {
            match field {
                1 => self.process(value.bytes()),
                2 => self.thread(value.bytes()),
                _ => {}
            }
        }
    }

    fn process(&mut self, bytes: &[u8]) {
        let (mut id, mut parent, mut name, mut policy) = (0, 0, None, None);
        for (field, value) in fields(bytes) {
            match field {
                1 => id = value.number() as i64,
                2 => parent = value.number(),
                3 if name.is_none() => name = Some(value.bytes()),
                3 if self.ours => {
                    policy = value.bytes().strip_prefix(POLICY.as_bytes()).or(policy);
                    if let Some(group) = value.bytes().strip_prefix(GROUP.as_bytes()) {
                        self.builder.group(group);
                    }
                }
                _ => {}
            }
        }
        // A command line; the thread's own name, where it is told, is better.
        let name = name.unwrap_or_default();
        self.builder.default_name(id, name.rsplit(|&b| b == b'/').next().unwrap_or(name));
        self.builder.tgid(id, id);
        if parent != 0 {
            self.builder.housekeeping(id, parent == KTHREADD);
        }
        if let Some(policy) = policy {
            self.builder.told(id, policy);
        }
    }

    fn thread(&mut self, bytes: &[u8]) {
        let (mut id, mut tgid, mut name) = (0, 0, &b""[..]);
        for (field, value) in fields(bytes) {
            match field {
                1 => id = value.number() as i64,
                2 => name = value.bytes(),
                3 => tgid = value.number() as i64,
                _ => {}
            }
        }
        self.builder.comm(id, name);
        self.builder.same_process(id, tgid);
    }

    fn system_info(&mut self, bytes: &[u8]) {
        for (field, value) in fields(bytes) {
            match field {
                1 => {
                    let text = |field| fields(value.bytes()).find(|(f, _)| *f == field).map(|(_, v)| v.bytes());
                    self.builder.recording.release = text(3).map(super::build::printable);
                    self.builder.recording.machine = text(4).map(super::build::printable);
                }
                4 => self.ours = value.bytes().starts_with(OURS.as_bytes()),
                8 => {
                    let n = (value.number() as usize).min(4096);
                    (self.builder.recording.nr_cpus, self.builder.recording.cpus_told) = (n, n > 0);
                }
                _ => {}
            }
        }
    }

    // ---- events ------------------------------------------------------------------------------------------------------

    fn bundle(&mut self, bytes: &[u8]) {
        let cpu = fields(bytes).find(|(f, _)| *f == 1).map_or(0, |(_, v)| v.number() as u32);
        self.builder.new_stream();
        self.clock(bytes);
        self.now().seen.insert(cpu);
        if let Some(seen) = self.now().bundles.get_mut(cpu as usize).filter(|seen| !**seen) {
            *seen = true;
            // The end of the one before it, which the trace's own buffer has overwritten or no one has read.
            if let Some((_, end)) = fields(bytes).find(|(f, _)| matches!(f, 9 | 10)).filter(|(_, end)| end.number() > 0)
            {
                self.builder.begins(cpu, end.number().wrapping_add(self.shift), true);
            }
        }
        let mut lost = false;
        for (field, value) in fields(bytes) {
            match field {
                3 => lost |= value.number() != 0,
                8 => {
                    let status = fields(value.bytes()).find(|(f, _)| *f == 2).map_or(0, |(_, v)| v.number());
                    let is_error = status != ZERO_DATA_LENGTH;
                    (self.errors, lost) = (self.errors || is_error, lost || is_error);
                }
                _ => {}
            }
        }
        if lost {
            self.builder.lost(None);
            self.loses(cpu);
        }
        for (field, value) in fields(bytes) {
            match field {
                2 => self.event(cpu, value.bytes()),
                4 => self.compact(cpu, value.bytes()),
                _ => {}
            }
        }
    }

    fn event(&mut self, cpu: u32, bytes: &[u8]) {
        let mut place = Place { cpu, ..Place::default() };
        let mut found: Option<(u32, Value<'_>)> = None;
        for (field, value) in fields(bytes) {
            match field {
                1 => place.at = value.number().wrapping_add(self.shift),
                2 => place.current = u32::try_from(value.number() as i64).ok(),
                5 => place.irq = Some(value.number() & 0x18 != 0),
                // Other fields hold the event itself.
                _ => found = found.or(Some((field, value))),
            }
        }
        let Some((field, value)) = found else { return };
        self.builder.ascending(place.at);
        if let (Some(first), Some(pid)) = (self.now().first.get_mut(cpu as usize), place.current)
            && first.is_none_or(|(at, _)| place.at < at)
        {
            *first = Some((place.at, pid));
        }
        if field == PRINT && self.ours && is_touch(value.bytes()) {
            let pid = place.current.unwrap_or(0);
            return self.builder.kind(Kind::Touch, place, &kinds::of([pid.into()]));
        }
        let Some(known) = self.known.get(field as usize).and_then(Option::as_ref) else {
            if let Some((_, name)) = fields(value.bytes()).find(|(f, _)| (field, *f) == (GENERIC, 1)) {
                return self.builder.unknown(name.bytes());
            }
            *self.unknown.entry(field).or_insert(0) += 1;
            return;
        };
        let (mut ints, mut strs): ([i64; INTS], [&[u8]; 2]) = ([0; INTS], [&[]; 2]);
        if matches!(known.row.kind, Kind::Waking | Kind::Wakeup | Kind::WakeupNew) {
            ints[3] = 1; // `success` is only told by old kernels
        }
        for (inner, value) in fields(value.bytes()) {
            if let Some(i) = known.ints.iter().position(|&f| f == inner) {
                ints[i] = value.number() as i64;
            } else if let Some(i) = known.strs.iter().position(|&f| f == inner) {
                strs[i] = value.bytes();
            }
        }
        let row = known.row;
        if let (Kind::Switch, Some(running)) = (row.kind, self.sequences[self.sequence].running.get_mut(cpu as usize)) {
            *running = Some((ints[3], ints[4]));
            self.ran_since_loss(cpu, ints[0]);
        }
        self.builder.row(row, place, &ints, &strs[..row.strs.len()]);
    }

    fn compact(&mut self, cpu: u32, bytes: &[u8]) {
        let mut names: Vec<&[u8]> = Vec::new();
        let mut arrays: [Cow<'_, [u8]>; 13] = Default::default();
        for (field, value) in fields(bytes) {
            match (field, value) {
                (5, _) => names.push(value.bytes()),
                // An array may come in parts, or number by number.
                (1..=12, Value::Bytes(part)) if arrays[field as usize].is_empty() => {
                    arrays[field as usize] = part.into()
                }
                (1..=12, Value::Bytes(part)) => arrays[field as usize].to_mut().extend_from_slice(part),
                (1..=12, Value::Number(n)) => proto::put_varint(arrays[field as usize].to_mut(), n),
                _ => {}
            }
        }
        let packed = |field: usize| packed(&arrays[field]);
        let name = |i: Option<u64>| i.and_then(|i| names.get(i as usize)).copied().unwrap_or_default();
        // Wake-ups first: of one stamp, they come before the switch away from the waker.
        let (mut pid, mut target, mut prio, mut comm, mut flags) =
            (packed(8), packed(9), packed(10), packed(11), packed(12));
        let mut at = self.shift;
        self.builder.new_stream();
        for delta in packed(7) {
            at = at.wrapping_add(delta); // a damaged one goes back
            self.builder.ascending(at);
            let (Some(pid), Some(target), Some(prio)) = (pid.next(), target.next(), prio.next()) else { break };
            self.builder.comm(pid as i64, name(comm.next()));
            let irq = flags.next().map(|f| f & 0x18 != 0);
            let ints = kinds::of([pid as i64, prio as i32 as i64, target as i64, 1]);
            self.builder.kind(Kind::Waking, Place { at, cpu, current: None, irq }, &ints);
        }
        let (mut state, mut pid, mut prio, mut comm) = (packed(2), packed(3), packed(4), packed(6));
        let mut running = self.now().running.get(cpu as usize).copied().flatten();
        let mut at = self.shift;
        self.builder.new_stream();
        for delta in packed(1) {
            at = at.wrapping_add(delta);
            self.builder.ascending(at);
            let (Some(state), Some(pid), Some(prio)) = (state.next(), pid.next(), prio.next()) else { break };
            let (pid, prio) = (pid as i64, prio as i32 as i64);
            self.builder.comm(pid, name(comm.next()));
            let before = running.replace((pid, prio));
            let current = before.and_then(|b| u32::try_from(b.0).ok());
            let (prev, mut state) =
                (before.map(|b| b.0).unwrap_or_else(|| self.ran_first(cpu, at, state)), state as i64);
            // As a rule its priority is told when it runs again.
            let again = || packed(3).zip(packed(4)).find(|(pid, _)| *pid as i64 == prev);
            let prev_prio = before.map(|b| b.1).or_else(|| again().map(|(_, prio)| prio as i32 as i64));
            if prev >= NAMELESS {
                state = kinds::TASK_INTERRUPTIBLE; // nobody sees it run again
            }
            let ints = kinds::of([prev, prev_prio.unwrap_or(NICE_0), state, pid, prio]);
            self.builder.kind(Kind::Switch, Place { at, cpu, current, irq: None }, &ints);
            self.ran_since_loss(cpu, prev);
        }
        if let Some(slot) = self.now().running.get_mut(cpu as usize) {
            *slot = running;
        }
    }

    /// Who ran until the first compact switch of a CPU, which does not say it: whom an event before it names. Else the state of a
    /// thread that slept or was preempted is not 0, as that of the idle task always is.
    fn ran_first(&mut self, cpu: u32, at: u64, state: u64) -> i64 {
        match self.now().first.get(cpu as usize) {
            None => 0,
            Some(Some((before, pid))) if *before <= at => (*pid).into(),
            _ if state != 0 => {
                self.nameless.insert(cpu);
                NAMELESS + i64::from(cpu)
            }
            _ => {
                self.assumed_idle.insert(cpu);
                0
            }
        }
    }

    /// Before what follows of a CPU its buffer has lost events: who runs there is not known any more.
    fn loses(&mut self, cpu: u32) {
        self.shows_no_switch(cpu);
        let records = self.builder.recording.records.len();
        let of = &mut self.sequences[self.sequence];
        let Some(running) = of.running.get_mut(cpu as usize).map(Option::take) else { return };
        self.has_lost |= of.first[cpu as usize].take().is_some() || running.is_some();
        if running.is_some() {
            of.lost.insert(cpu, records);
        }
    }

    /// From a loss to the next switch of a CPU it runs whom that one switches out.
    fn ran_since_loss(&mut self, cpu: u32, pid: i64) {
        let Some(from) = self.now().lost.remove(&cpu) else { return };
        let of_cpu = self.builder.recording.records[from..].iter_mut().filter(|r| r.cpu.0 == cpu);
        of_cpu.for_each(|r| r.current = r.current.or(u32::try_from(pid).ok().map(Pid)));
    }

    /// No switch follows: whom an event names, else somebody.
    fn shows_no_switch(&mut self, cpu: u32) {
        let named = self.now().first.get(cpu as usize).copied().flatten().map(|(_, pid)| pid.into());
        self.ran_since_loss(cpu, named.unwrap_or(NAMELESS + i64::from(cpu)));
    }

    fn who_ran_first(&mut self) {
        let (nameless, idle) = (&self.nameless, &self.assumed_idle);
        let first = if self.has_lost { "first switch or the first one after a loss" } else { "first switch" };
        for (cpus, what) in [(nameless, "a thread without a name (<...>)"), (idle, "nobody, as far as it shows")] {
            if !cpus.is_empty() {
                let cpus = crate::machine::list(&Vec::from_iter(cpus.iter().copied()));
                let message = format!("before their {first} CPUs {cpus} ran {what}: no event says who");
                self.builder.say(Diagnostic::note("trace::N06", 0..0, message));
            }
        }
    }
}

/// Is this `PrintFtraceEvent` a touch of ours?
fn is_touch(print: &[u8]) -> bool {
    let text = fields(print).find(|(field, _)| *field == 2).map(|(_, v)| v.bytes()).unwrap_or_default();
    text.starts_with(b"I|") && text.trim_ascii().rsplit(|b| *b == b'|').next() == Some(TOUCH.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::proto::Message;
    use super::*;
    use wattif_model::trace::{Event, PrevState, Recorded, Recording};

    fn message(build: impl Fn(&mut Message) -> &mut Message) -> Message {
        let mut m = Message::default();
        build(&mut m);
        m
    }
    fn read_packets(packets: &[Message]) -> Recording {
        read_all(packets).0
    }
    fn read_all(packets: &[Message]) -> (Recording, Vec<Diagnostic>) {
        let trace = message(|m| packets.iter().fold(m, |m, p| m.message(1, p)));
        let mut builder = Builder::default();
        read(&trace.0, &mut builder).expect("it is one");
        builder.finish("perfetto")
    }
    /// A packet with the compact switches of CPU 0.
    fn switches(build: impl Fn(&mut Message) -> &mut Message) -> Message {
        let compact = message(build);
        let bundle = message(|m| m.number(1, 0).message(4, &compact));
        message(|m| m.message(1, &bundle).number(10, 7))
    }

    #[test]
    fn arrays_in_parts() {
        let whole = read_packets(&[switches(|m| {
            m.bytes(1, &[9, 1, 1, 1]).bytes(2, &[0; 4]).bytes(3, &[1, 2, 3, 4]).bytes(4, &[120; 4]).text(5, "a");
            m.bytes(6, &[0; 4])
        })]);
        let parts = read_packets(&[switches(|m| {
            for half in [[9, 1], [1, 1]] {
                m.bytes(1, &half).bytes(2, &[0; 2]).bytes(4, &[120; 2]).bytes(6, &[0; 2]);
            }
            (1..=4).fold(m, |m, pid| m.number(3, pid)).text(5, "a")
        })]);
        assert_eq!((whole.records.len(), &parts), (4, &whole));
    }

    /// A bundle with another clock: its own pair of stamps, the last one of that clock, a snapshot of the machine's clocks, or nothing.
    #[test]
    fn bundles_of_several_clocks() {
        const BEHIND: u64 = 1_000_000;
        let bundle = |cpu: u64, at: u64, clock: u64, pair: Option<(u64, u64)>| {
            let waking = message(|m| m.text(1, "a").number(2, 5).number(3, 120).number(5, 0));
            let event = message(|m| m.number(1, at).number(2, 7).message(20, &waking));
            let compact = message(|m| {
                m.number(7, at + 1).bytes(8, &[7]).bytes(9, &[0]).bytes(10, &[120]).bytes(11, &[0]).bytes(12, &[0])
            });
            let bundle = message(|m| {
                let m = m.number(1, cpu).message(2, &event).message(4, &compact);
                let m = if clock == CLOCK_BOOT { m } else { m.number(5, clock) };
                pair.iter().fold(m, |m, (own, boot)| m.number(6, *own).number(7, *boot))
            });
            message(|m| m.message(1, &bundle).number(10, 7))
        };
        let snapshot = |machine: u64| {
            let clock = |id, at| message(|m| m.number(1, id).number(2, at));
            let (raw, boot) = (clock(MONOTONIC_RAW, 5_000), clock(BOOTTIME, 5_000 + BEHIND));
            let both = message(|m| m.message(1, &clock(1, 77)).message(1, &raw).message(1, &boot));
            message(|m| m.message(packet::CLOCK_SNAPSHOT, &both).number(10, 1).number(packet::MACHINE, machine))
        };
        let boot = || bundle(0, 100 + BEHIND, CLOCK_BOOT, None);
        let read = |packets: &[Message]| {
            let (r, said) = read_all(packets);
            let said: Vec<_> = said.iter().filter(|d| d.code == "trace::W05").map(|d| d.message.clone()).collect();
            (r.records.iter().map(|r| r.at.0).collect::<Vec<_>>(), said)
        };
        let right = (vec![0, 1, 50, 51], Vec::new());
        assert_eq!(read(&[boot(), bundle(1, 150, 2, Some((60, 60 + BEHIND)))]), right);
        let raw = || bundle(1, 150, CLOCK_MONO_RAW, None);
        assert_eq!(read(&[snapshot(0), boot(), raw()]), right);
        assert_eq!(read(&[boot(), raw(), snapshot(0)]), right, "behind");
        let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut packed, &message(|m| m.message(1, &snapshot(0))).0).unwrap();
        let packed = packed.finish().unwrap();
        let packed = message(|m| m.bytes(packet::COMPRESSED_PACKETS, &packed));
        assert_eq!(read(&[boot(), raw(), packed]), right, "behind, compressed");
        assert_eq!(read(&[boot(), raw(), snapshot(1)]).1.len(), 1, "of another machine");
        let two = [boot(), bundle(1, 150, 2, Some((60, 60 + BEHIND))), bundle(1, 170, 2, None)];
        assert_eq!(read(&two), (vec![0, 1, 50, 51, 70, 71], Vec::new()));
        assert_eq!(read(&[bundle(0, 100, 2, None), bundle(1, 150, 2, None)]), right, "all of one clock");
        let (at, said) = read(&[boot(), bundle(1, 150, 2, None), bundle(1, 160, 2, None), bundle(1, 170, 3, None)]);
        assert_eq!(at[..2], [0, 1]);
        assert!(
            said[0].starts_with("of 4 bundles of events 2 of clock global, 1 of clock local have stamps"),
            "{said:?}"
        );
    }

    /// As of the buffer of a long trace: what is left of CPU 1 begins later.
    #[test]
    fn bundles_that_begin_one_after_another() {
        let packet = |cpu: u64, at: u64, before: Option<(u32, u64)>| {
            let waking = message(|m| m.text(1, "a").number(2, 5).number(3, 120).number(5, 0));
            let event = message(|m| m.number(1, at).number(2, 7).message(20, &waking));
            let bundle = message(|m| {
                let m = m.number(1, cpu).message(2, &event);
                before.iter().fold(m, |m, (field, end)| m.number(*field, *end))
            });
            message(|m| m.message(1, &bundle).number(10, 7))
        };
        let read = |of_0, of_1| {
            let later = (0..5).map(|k| packet(k % 2, 200 + k, Some((10, 199 + k))));
            let packets = [packet(0, 100, of_0), packet(0, 150, Some((10, 100))), packet(1, 190, of_1)].into_iter();
            let r = read_packets(&packets.chain(later).collect::<Vec<_>>());
            (r.records.len(), r.zero_ns)
        };
        assert_eq!(read(None, None), (8, 100), "written before it was told");
        assert_eq!(read(Some((10, 90)), Some((10, 90))), (8, 100), "nothing happened there");
        assert_eq!(read(Some((10, 90)), Some((10, 180))), (6, 190));
        assert_eq!(read(Some((9, 90)), Some((9, 180))), (6, 190), "its name before v47");
    }

    #[test]
    fn who_ran_before_the_first_switch() {
        /// To thread 5 and away from it, after an event of `current`.
        fn check(current: Option<u64>, state: u64, prev: (u32, u8, PrevState), note: bool) {
            let told =
                current.map(|pid| message(|m| m.number(1, 7).number(2, pid).message(PRINT, &Message::default())));
            let compact = message(|m| {
                let m = m.bytes(1, &[9, 1, 1]).bytes(2, &[state as u8 & 0x7f, 0, 0]).bytes(3, &[5, 6, 0]);
                m.bytes(4, &[99, 98, 120])
            });
            let bundle = message(|m| told.iter().fold(m.number(1, 3), |m, e| m.message(2, e)).message(4, &compact));
            let packet = message(|m| m.message(1, &bundle));
            let trace = message(|m| m.message(1, &packet));
            let mut builder = Builder::default();
            read(&trace.0, &mut builder).expect("it is one");
            let (r, said) = builder.finish("perfetto");
            let Recorded::Event(Event::SchedSwitch { prev_pid, prev_prio, prev_state, .. }) = r.records[0].event else {
                panic!("{r:?}")
            };
            assert_eq!((prev_pid.0, prev_prio, prev_state), prev, "{current:?} {state}");
            assert_eq!(said.iter().any(|d| d.code == "trace::N06"), note, "{current:?} {state}");
        }
        check(Some(6), 1, (6, 98, PrevState::Sleeping), false);
        check(Some(7), 0, (7, 120, PrevState::Running), false);
        check(Some(0), 0, (0, 120, PrevState::Running), false);
        check(None, 0, (0, 120, PrevState::Running), true);
        check(None, 2, (NAMELESS as u32 + 3, 120, PrevState::Sleeping), true);
        check(None, 0x40, (NAMELESS as u32 + 3, 120, PrevState::Sleeping), true);
    }

    /// Bundles come CPU after CPU; in each, and in lists of processes, threads are named.
    #[test]
    fn the_last_name_by_time() {
        let one = |cpu: u64, at: u64, name: &str| {
            let switch = message(|m| m.text(5, name).number(6, 100).number(7, 120));
            let event = message(|m| m.number(1, at).number(2, 0).message(4, &switch));
            let bundle = message(|m| m.number(1, cpu).message(2, &event));
            message(|m| m.message(1, &bundle))
        };
        let listed = {
            let thread = message(|m| m.number(1, 100).text(2, "listed").number(3, 100));
            let tree = message(|m| m.message(2, &thread));
            message(|m| m.message(packet::PROCESS_TREE, &tree))
        };
        let name = |packets: &[Message]| read_packets(packets).comm(wattif_model::Pid(100)).to_string();
        assert_eq!(name(&[one(0, 3_000, "prog"), one(0, 5_000, "new"), one(1, 1_000, "old")]), "new");
        assert_eq!(name(&[one(1, 1_000, "old"), one(0, 3_000, "new"), one(1, 3_000, "newer")]), "newer");
        assert_eq!(name(&[listed, one(0, 3_000, "new"), one(1, 2_000, "old")]), "new");
    }

    /// Thread 5 comes to CPU 0, then some of its events are lost.
    #[test]
    fn who_runs_after_a_loss() {
        let comes = || switches(|m| m.bytes(1, &[9]).bytes(2, &[0]).bytes(3, &[5]).bytes(4, &[120]));
        let read = |lost: u64, names: Option<u64>, leaves: Option<u64>| {
            let idle = message(|m| m.number(1, 1).number(2, 0));
            let event = names.map(|pid| message(|m| m.number(1, 28).number(2, pid).message(13, &idle)));
            let compact = message(|m| {
                leaves.iter().fold(&mut *m, |m, state| {
                    m.bytes(1, &[30]).bytes(2, &[*state as u8]).bytes(3, &[7]).bytes(4, &[120])
                });
                m.bytes(7, &[20]).bytes(8, &[7]).bytes(9, &[0]).bytes(10, &[120]).bytes(11, &[0]).bytes(12, &[0])
            });
            let bundle = message(|m| {
                event.iter().fold(m.number(1, 0), |m, e| m.message(2, e)).message(4, &compact).number(3, lost)
            });
            let r = read_packets(&[comes(), message(|m| m.message(1, &bundle).number(10, 7))]);
            let waker = r.records.iter().find(|r| r.event.name() == "sched_waking").unwrap().current;
            let last = r.records.last().unwrap();
            let left =
                if let Some(Event::SchedSwitch { prev_pid, .. }) = last.event() { Some(prev_pid.0) } else { None };
            assert!(left.is_none() || last.current == left.map(Pid));
            (waker.map(|pid| pid.0), left)
        };
        let nobody = NAMELESS as u32;
        assert_eq!(read(0, None, Some(1)), (Some(5), Some(5)), "nothing is lost");
        assert_eq!(read(1, Some(0), Some(0)), (Some(0), Some(0)));
        assert_eq!(read(1, Some(6), Some(1)), (Some(6), Some(6)));
        assert_eq!(read(1, None, Some(0)), (Some(0), Some(0)), "as far as it shows");
        assert_eq!(read(1, None, Some(1)), (Some(nobody), Some(nobody)));
        assert_eq!(read(1, Some(6), None), (Some(6), None));
        assert_eq!(read(1, None, None), (Some(nobody), None));
    }

    /// The new leader of a process has another number from its exec on.
    #[test]
    fn an_exec_by_another_than_the_first_thread() {
        let exec =
            |old| message(|m| m.number(1, 12).number(2, 4).message(237, &message(|m| m.number(2, 4).number(3, old))));
        let read = |old| {
            let bundle = message(|m| m.number(1, 0).message(2, &exec(old)));
            let r = read_packets(&[message(|m| m.message(1, &bundle))]);
            (r.records[0].current, r.records[0].event)
        };
        for (old, is) in [(4, 4), (5, 5)] {
            let event = Recorded::Event(Event::SchedProcessExec { pid: Pid(is) });
            assert_eq!(read(old), (Some(Pid(is)), event), "{old}");
        }
    }

    #[test]
    fn packets_of_other_machines() {
        let of = |machine: u64, pid: u8| {
            let packet = switches(|m| m.bytes(1, &[9]).bytes(2, &[1]).bytes(3, &[pid]).bytes(4, &[120]));
            let system = message(|m| m.number(8, u64::from(pid)));
            message(|m| {
                m.0.extend(&packet.0);
                let m = m.message(packet::SYSTEM_INFO, &system);
                if machine == 0 { m } else { m.number(packet::MACHINE, machine) }
            })
        };
        let (host, said) = read_all(&[of(0, 2), of(77, 8), of(78, 9)]);
        assert_eq!(host, read_packets(&[of(0, 2)]));
        let left_out: Vec<_> = said.iter().filter(|d| d.code == "trace::N07").map(|d| d.message.as_str()).collect();
        assert_eq!(left_out, ["2 packets of other machines are left out: the host alone is read"]);
    }

    /// The release may stand behind the events.
    #[test]
    fn parked_or_dead() {
        let state = |release: &str, bits: &[u8]| {
            let events = switches(|m| {
                m.bytes(1, &[9, 1]).bytes(2, &[&[0], bits].concat()).bytes(3, &[5, 0]).bytes(4, &[120; 2])
            });
            let system = message(|m| m.message(1, &message(|m| m.text(3, release))));
            let r = read_packets(&[events, message(|m| m.message(packet::SYSTEM_INFO, &system))]);
            match r.records[1].event {
                Recorded::Event(Event::SchedSwitch { prev_state, .. }) => prev_state,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(state("6.1.75-android14", &[0x40]), PrevState::Sleeping);
        assert_eq!(state("4.9.270", &[0x40]), PrevState::Dead);
        assert_eq!(state("6.1.75-android14", &[0x10]), PrevState::Dead);
        // A varint: 0x200.
        assert_eq!(state("4.9.270", &[0x80, 4]), PrevState::Sleeping);
        assert_eq!(state("3.4.0", &[0x80, 4]), PrevState::Running);
    }

    #[test]
    fn a_page_that_is_not_read_may_hold_switches() {
        let comes = |at, pid| switches(|m| m.bytes(1, &[at]).bytes(2, &[1]).bytes(3, &[pid]).bytes(4, &[120]));
        let who = |status| {
            let error = message(|m| m.number(2, status));
            let error =
                message(|m| m.message(1, &message(|m| m.number(1, 0).message(8, &error))).number(packet::SEQUENCE, 7));
            let r = read_packets(&[comes(9, 5), error, comes(20, 6)]);
            r.records.last().unwrap().current
        };
        assert_eq!((who(ZERO_DATA_LENGTH), who(4)), (Some(Pid(5)), Some(Pid(NAMELESS as u32))));
    }

    #[test]
    fn events_without_a_message_of_their_own() {
        let said = |field, event: Message| {
            let event = message(|m| m.number(1, 9).number(2, 5).message(field, &event));
            let packet = message(|m| m.message(1, &message(|m| m.number(1, 0).message(2, &event))));
            let said: Vec<_> = read_all(&[packet]).1.into_iter().map(|d| (d.code, d.message)).collect();
            assert!(said[0].1.contains("clock_set_rate` 1"), "{said:?}");
            said[1].0
        };
        assert_eq!(said(GENERIC, message(|m| m.text(1, "clock_set_rate"))), "trace::N04");
        assert_eq!(said(16, Message::default()), "trace::N04");
    }

    /// A packet with the compact switches of CPU 0 to these threads: of a sequence, after packets that were dropped or not.
    fn of_sequence(id: u64, dropped: bool, switches: &[(u8, u8)]) -> Message {
        let stamps = switches.iter().map(|s| s.0).scan(0, |before, at| Some(at - std::mem::replace(before, at)));
        let (stamps, pids): (Vec<u8>, Vec<u8>) = (stamps.collect(), switches.iter().map(|s| s.1).collect());
        let [state, prio] = [1, 120].map(|value| vec![value; pids.len()]);
        let compact = message(|m| m.bytes(1, &stamps).bytes(2, &state).bytes(3, &pids).bytes(4, &prio));
        let bundle = message(|m| m.number(1, 0).message(4, &compact));
        message(|m| m.message(1, &bundle).number(packet::SEQUENCE, id).number(packet::PREVIOUS_DROPPED, dropped.into()))
    }
    /// When, who leaves, who comes.
    fn switched(r: &Recording) -> Vec<(u64, u32, u32)> {
        let all = r.records.iter().map(|r| match r.event() {
            Some(Event::SchedSwitch { prev_pid, next_pid, .. }) => (r.at.0, prev_pid.0, next_pid.0),
            other => panic!("{other:?}"),
        });
        all.collect()
    }

    /// As several data sources write them, which have the same events.
    #[test]
    fn several_sequences() {
        let of = |id, switches: &[(u8, u8)]| of_sequence(id, false, switches);
        let (one, more) = ([(9, 5), (12, 0)], [(15, 6)]);
        let [whole] = [[of(3, &one), of(3, &more)]].map(|p| switched(&read_packets(&p)));
        assert_eq!(whole.iter().map(|s| s.2).collect::<Vec<_>>(), [5, 0, 6]);
        let (twice, said) = read_all(&[of(3, &one), of(8, &one[..1]), of(3, &more), of(8, &one[1..])]);
        assert_eq!(switched(&twice), whole);
        let told = "events of 2 buffers are read together: the main one, sequence 8; 2 of kinds that another holds more of on that CPU are left out";
        assert_eq!(said.iter().filter(|d| d.code == "trace::N03").map(|d| &d.message[..]).collect::<Vec<_>>(), [told]);
        // A source that was started again.
        let later = switched(&read_packets(&[of(3, &more), of(8, &one)]));
        assert_eq!(later.iter().map(|s| s.2).collect::<Vec<_>>(), [5, 0, 6]);
    }

    #[test]
    fn dropped_packets_may_hold_switches() {
        let nobody = NAMELESS as u32;
        let read = |id, dropped| {
            let packets = [of_sequence(7, false, &[(9, 5)]), of_sequence(id, dropped, &[(12, 6)])];
            let r = read_packets(&packets);
            (switched(&r)[1], r.lost_gaps)
        };
        assert_eq!((read(7, false), read(7, true)), (((3, 5, 6), 0), ((3, nobody, 6), 1)));
        assert_eq!(read(8, true), ((3, nobody, 6), 0), "it begins");
    }

    #[test]
    fn a_clock_that_perfetto_does_not_know() {
        let said = |clock| {
            let compact = message(|m| m.bytes(1, &[9]).bytes(2, &[0]).bytes(3, &[1]).bytes(4, &[120]));
            let bundle = message(|m| m.number(1, 0).message(4, &compact).number(5, clock));
            let packet = message(|m| m.message(1, &bundle));
            read_all(&[packet.clone(), packet]).1.iter().filter(|d| d.code == "trace::W05").count()
        };
        assert_eq!([0, CLOCK_UNKNOWN, 2].map(said), [0, 1, 0]);
    }

    #[test]
    fn losses_that_are_told() {
        let events = || switches(|m| m.bytes(1, &[9]).bytes(2, &[0]).bytes(3, &[1]).bytes(4, &[120]));
        let stats = |phase, cpu, overrun, dropped| {
            let cpu = message(|m| m.number(1, cpu).number(3, overrun).number(8, dropped));
            let stats = message(|m| m.number(1, phase).message(2, &cpu));
            message(|m| m.message(packet::FTRACE_STATS, &stats))
        };
        let flagged = |sequence, events: Message| {
            message(|m| {
                m.0.extend(&events.0);
                m.number(packet::SEQUENCE, sequence).number(packet::PREVIOUS_DROPPED, 1)
            })
        };
        let check = |packets: &[Message], gaps, lost| {
            let r = read_packets(packets);
            assert_eq!((r.lost_gaps, r.lost_events), (gaps, lost));
        };
        check(&[events(), stats(2, 0, 500, 0)], 1, 500);
        check(&[stats(1, 0, 20, 0), stats(1, 1, 9, 0), events(), stats(2, 0, 500, 3), stats(2, 1, 9, 0)], 1, 483);
        check(&[stats(2, u64::MAX, 5, 0), stats(2, 1, u64::MAX, 7)], 1, u64::MAX);
        check(&[flagged(7, events()), flagged(8, events())], 0, 0);
        check(&[events(), flagged(7, events()), flagged(9, Message::default())], 1, 0);
        let error = |status| {
            let error = message(|m| m.number(1, 5).number(2, status));
            message(|m| m.message(1, &message(|m| m.number(1, 0).message(8, &error))))
        };
        let errors =
            |status| message(|m| m.message(packet::FTRACE_STATS, &message(|m| m.number(1, 2).number(9, status))));
        check(&[error(4), events()], 1, 0);
        check(&[error(4), events(), error(17), errors(4)], 2, 0);
        check(&[events(), errors(4)], 1, 0);
        check(&[error(ZERO_DATA_LENGTH), events(), errors(ZERO_DATA_LENGTH)], 0, 0);
    }
}
