//! What all readers fill: events in the order of the file, names, what was skipped and what was lost.

use super::kinds::{self, INTS, Kind, Row, prios, since};
use super::lives::{self, Deadlines, Exec, RENAMED, Renamed};
use super::stamps::{SILENCE_NS, Stamps};
use super::told::{self, Groups};
use crate::words::quoted;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use wattif_model::check::Diagnostic;
use wattif_model::kernel::version;
use wattif_model::trace::{Event, PrevState, Record, Recorded, RecordedThread, Recording};
use wattif_model::{CpuId, CpuSet, Ns, Pid};

/// Distinct names of unknown events that are counted one by one; the rest together.
const UNKNOWN_NAMES: usize = 2_000;
/// Longest name that is kept, bytes.
const NAME: usize = 64;
/// Names that are at hand.
const RECENT: usize = 256;
/// Marks that have a name.
const MARKS: usize = 256;
/// Buffers that are told apart; further ones count as the last.
const BUFFERS: usize = 64;
/// What makes trace-cmd and the kernel stamp with a clock in ns.
pub(super) const CLOCK_IN_NS: &str = "record with a clock in ns: trace-cmd record -C mono";
/// Of ours: no run is longer than 7 days, so no end is believed that is later.
const LONGEST_NS: u64 = 7 * 24 * 3_600_000_000_000;
/// Findings that are kept.
const FINDINGS: usize = 200;

/// A recording in the making.
#[derive(Default)]
pub(super) struct Builder {
    pub recording: Recording,
    pub findings: Vec<Diagnostic>,
    threads: HashMap<u32, RecordedThread>,
    /// What [`Builder::comm`] was told of late, by the last bits of the pid: names come with every event and seldom change.
    recent: Vec<(u32, String)>,
    renamed: Vec<Renamed>,
    /// When a pid was seen with SCHED_DEADLINE's priority, and how many stamps these are.
    deadlines: Deadlines,
    seen_deadline: usize,
    execs: Vec<Exec>,
    full_names: HashMap<u32, String>,
    groups: Groups,
    /// Buffers of the file that events are of, by name; the main one has none.
    buffers: Vec<String>,
    buffer: u8,
    /// That of each record; empty while all are of the first.
    of_buffer: Vec<u8>,
    other_unknown: u64,
    beyond: u64,
    backwards: u64,
    strays: u64,
    /// The one that was, if there was one.
    early: Option<Early>,
    /// From when on a buffer of the file holds what happened on a CPU, where it says so.
    begins: BTreeMap<(u32, u8), Begins>,
    /// The CPU whose buffer begins with the next event, as a text says.
    pub started: Option<u32>,
    last: u64,
    stamps: Stamps,
    /// When the run ended, as our own files say: behind their last event.
    end: Option<u64>,
    flags: bool,
    /// Nesting of interrupt events by CPU.
    in_irq: Vec<u32>,
    /// Places among the records, as yet in the order of the file, of switches whose raw state may be "parked".
    parked: Vec<usize>,
    /// Who was taken as dead then, and when, of whom no release says that they had died.
    may_live: BTreeSet<(u64, Pid)>,
}

/// When the buffer of a CPU begins.
#[derive(Clone, Copy)]
struct Begins {
    at: u64,
    /// Otherwise the CPU may just have been silent before.
    sure: bool,
}

/// What a buffer holds of one kind of event on one CPU.
#[derive(Clone, Copy, Default)]
struct Held {
    many: u64,
    from: Ns,
    until: Ns,
}

/// The buffers that are kept of those that hold so much, by the time that they begin.
fn stay(held: &[Held]) -> Vec<usize> {
    let mut by_many: Vec<usize> = (0..held.len()).filter(|b| held[*b].many > 0).collect();
    by_many.sort_by_key(|b| std::cmp::Reverse(held[*b].many));
    let mut stay: Vec<usize> = Vec::new();
    for b in by_many {
        let apart = |other: &usize| held[b].until < held[*other].from || held[*other].until < held[b].from;
        if stay.iter().all(apart) {
            stay.push(b);
        }
    }
    stay.sort_by_key(|b| held[*b].from);
    stay
}

/// An event long before all others.
struct Early {
    before: u64,
    /// The time that the others span.
    span: u64,
    /// What it tells holds when they begin.
    holds: bool,
}

/// A CPU that sleeps at its first event, and has not one event for so many of the CPU that has most, did not overwrite any: it was silent.
const SILENT_OF: usize = 4;

/// What can be the number of a thread.
fn thread_id(pid: i64) -> Option<u32> {
    i32::try_from(pid).ok().and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid > 0)
}

/// Where and when an event happened.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    pub at: u64,
    pub cpu: u32,
    pub current: Option<u32>,
    /// In an interrupt, where the record says so.
    pub irq: Option<bool>,
}

impl Builder {
    /// A known event with its numbers and the names of its threads.
    pub fn row(&mut self, row: &Row, place: Place, ints: &[i64; INTS], strs: &[&[u8]]) {
        for (&which, &comm) in row.named.iter().zip(strs) {
            self.comm(ints[which], comm);
        }
        if matches!(row.kind, Kind::Wakeup | Kind::Waking | Kind::WakeupNew) && ints[3] == 0 {
            return; // old kernels say whether the wake-up succeeded
        }
        self.kind(row.kind, place, ints);
    }

    /// A known event whose names are told apart.
    pub fn kind(&mut self, kind: Kind, place: Place, ints: &[i64; INTS]) {
        let mut ints = *ints;
        // The priority −1 of SCHED_DEADLINE is printed without its sign in some forms: it wraps as in C.
        prios(kind).iter().for_each(|(_, prio)| ints[*prio] = ints[*prio] as i32 as i64);
        if place.cpu as usize >= CpuSet::MAX_CPUS {
            self.beyond += 1;
            return;
        }
        let nested = self.in_irq.get(place.cpu as usize).is_some_and(|&n| n > 0);
        // Where no flag says it: idle CPUs wake others from interrupts alone.
        let in_irq = place.irq.unwrap_or(place.current == Some(0) || nested);
        self.flags |= place.irq.is_some();
        for &(pid, _) in prios(kind).iter().filter(|(_, prio)| ints[*prio] < 0) {
            self.deadline(ints[pid]);
        }
        if kind == Kind::Exec
            && let (Some(pid), Some(old)) =
                (thread_id(ints[0]), thread_id(ints[1]).filter(|old| i64::from(*old) != ints[0]))
        {
            self.execs.push(Exec { at: place.at, pid, old });
        }
        let Some(event) = kind.event(&ints, in_irq) else { return };
        match event {
            Recorded::Irq { enter } => {
                let cpu = place.cpu as usize;
                if self.in_irq.len() <= cpu {
                    self.in_irq.resize(cpu + 1, 0);
                }
                let n = &mut self.in_irq[cpu];
                *n = if enter { n.saturating_add(1) } else { n.saturating_sub(1) };
            }
            // A switch ends whatever a lost exit left open.
            Recorded::Event(Event::SchedSwitch { .. }) => {
                if let Some(n) = self.in_irq.get_mut(place.cpu as usize) {
                    *n = 0;
                }
            }
            Recorded::CpuFrequency { cpu, .. } if cpu.at() >= CpuSet::MAX_CPUS => {
                self.beyond += 1;
                return;
            }
            _ => {}
        }
        // `cpu_idle` names its CPU; some recorders write it from another one.
        let named = match kind {
            Kind::Idle => Some(ints[1]),
            Kind::IdleMiss => Some(ints[0]),
            _ => None,
        };
        let cpu = named.filter(|&c| (0..CpuSet::MAX_CPUS as i64).contains(&c)).map_or(place.cpu, |c| c as u32);
        let current = place.current.map(Pid);
        if kind == Kind::Switch && kinds::may_be_parked(ints[2]) {
            self.parked.push(self.recording.records.len());
        }
        if self.buffer != 0 || !self.of_buffer.is_empty() {
            self.of_buffer.resize(self.recording.records.len(), 0);
            self.of_buffer.push(self.buffer);
        }
        self.recording.records.push(Record { at: Ns(place.at), cpu: CpuId(cpu), current, event });
    }

    /// What follows is of this buffer of the file (an instance of the tracing system); the main one has no name.
    pub fn buffer(&mut self, name: &[u8]) {
        if self.buffers.get(usize::from(self.buffer)).is_some_and(|b| b.as_bytes() == name) {
            return;
        }
        if self.buffers.is_empty() && !name.is_empty() {
            self.buffers.push(String::new());
        }
        let name = printable(&name[..name.len().min(NAME)]);
        let known = self.buffers.iter().position(|b| *b == name);
        if known.is_none() && self.buffers.len() < BUFFERS {
            self.buffers.push(name);
        }
        self.buffer = known.unwrap_or(self.buffers.len() - 1) as u8;
    }

    /// Several buffers may hold the same events, each with a stamp of its own. Of one kind of event on one CPU those of the buffer are
    /// kept that holds most of them, of equal ones the first, and those of buffers that hold nothing of its time. From when on a CPU is
    /// seen, that of its switches says.
    fn one_buffer_each(&mut self) {
        let of_buffer = std::mem::take(&mut self.of_buffer);
        if of_buffer.is_empty() {
            self.begins.retain(|(_, buffer), _| *buffer == 0); // no other has events
            return;
        }
        let records = &mut self.recording.records;
        let of = |i: usize| usize::from(of_buffer.get(i).copied().unwrap_or(0));
        let mut held: HashMap<(CpuId, &str), Vec<Held>> = HashMap::new();
        for (i, r) in records.iter().enumerate() {
            let all = held.entry((r.cpu, r.event.name())).or_insert_with(|| vec![Held::default(); self.buffers.len()]);
            let held = &mut all[of(i)];
            let from = if held.many == 0 { r.at } else { held.from.min(r.at) };
            *held = Held { many: held.many + 1, from, until: held.until.max(r.at) };
        }
        let stays: HashMap<(CpuId, &str), Vec<usize>> = held.iter().map(|(key, held)| (*key, stay(held))).collect();
        let (mut i, before) = (0, records.len());
        records.retain(|r| {
            i += 1;
            stays[&(r.cpu, r.event.name())].contains(&of(i - 1))
        });
        let twice = before - records.len();
        let switches: BTreeMap<CpuId, usize> =
            stays.iter().filter(|(key, _)| key.1 == "sched_switch").map(|(key, buffers)| (key.0, buffers[0])).collect();
        self.begins.retain(|(cpu, buffer), _| match switches.get(&CpuId(*cpu)) {
            Some(kept) => *kept == usize::from(*buffer),
            None => switches.values().any(|kept| *kept == usize::from(*buffer)), // it may have overwritten them all
        });
        let mut names: Vec<&str> = Vec::new();
        for (b, name) in self.buffers.iter().enumerate().filter(|(b, _)| held.values().any(|h| h[*b].many > 0)) {
            names.push(if b == 0 { "the main one" } else { name });
        }
        let mut message = format!("events of {} buffers are read together: {}", names.len(), names.join(", "));
        if twice > 0 {
            message += &format!("; {twice} of kinds that another holds more of on that CPU are left out");
        }
        if names.len() > 1 {
            self.say(Diagnostic::note("trace::N03", 0..0, message));
        }
        let begins = std::mem::take(&mut self.begins);
        self.begins = begins.into_iter().map(|((cpu, _), begins)| ((cpu, 0), begins)).collect(); // of one buffer now
        self.buffer = 0;
    }

    /// The next stamp of a stream, of an event that is kept or not. Those that go back where they should ascend are counted.
    pub fn ascending(&mut self, at: u64) {
        self.stamps.see(at);
        self.backwards += u64::from(at < self.last);
        self.last = at;
    }

    /// What our own files say of the end. Of a file that is cut off it is not there, or not told here.
    pub fn ends(&mut self, at: u64) {
        self.end = Some(at);
    }

    /// A thread is called `comm`.
    pub fn comm(&mut self, pid: i64, comm: &[u8]) {
        let Some(pid) = thread_id(pid) else { return };
        if comm.is_empty() || comm == b"<...>" {
            return;
        }
        let comm = &comm[..comm.len().min(NAME)];
        if self.recent.is_empty() {
            self.recent.resize(RECENT, (0, String::new()));
        }
        let recent = &mut self.recent[pid as usize % RECENT];
        if recent.0 == pid && recent.1.as_bytes() == comm {
            return;
        }
        let thread = self.threads.entry(pid).or_default();
        if thread.comm.as_bytes() != comm {
            thread.comm = printable(comm);
            if self.renamed.len() < RENAMED {
                self.renamed.push(Renamed { at: self.last, pid, comm: thread.comm.clone() });
            }
        }
        recent.0 = pid;
        recent.1.clone_from(&thread.comm);
    }
    /// A thread has a name that begins with these characters, and is not told whole here.
    pub fn comm_begins(&mut self, pid: i64, comm: &[u8]) {
        let known = thread_id(pid).and_then(|pid| self.threads.get(&pid));
        if !known.is_some_and(|t| t.comm.as_bytes().starts_with(comm)) {
            self.comm(pid, comm);
        }
    }
    /// Is any thread known by name?
    pub fn has_names(&self) -> bool {
        !self.threads.is_empty()
    }
    /// The whole name of a thread, where the events hold only the kernel's 15 characters of it.
    pub fn full_name(&mut self, pid: i64, comm: &[u8]) {
        if let Some(pid) = thread_id(pid)
            && !comm.is_empty()
        {
            self.full_names.insert(pid, printable(&comm[..comm.len().min(4 * NAME)]));
        }
    }
    /// The name of a thread unless a better one is known.
    pub fn default_name(&mut self, pid: i64, comm: &[u8]) {
        let known = thread_id(pid).and_then(|pid| self.threads.get(&pid)).is_some_and(|t| !t.comm.is_empty());
        if !known {
            self.comm(pid, comm);
        }
    }
    /// Threads that were parked, or had died, or were preempted: the release, which may stand behind the events, says which.
    fn settle_parked(&mut self) {
        let release = self.recording.release.as_deref().and_then(version);
        for i in std::mem::take(&mut self.parked) {
            let Record { at, event, .. } = &mut self.recording.records[i];
            let Recorded::Event(Event::SchedSwitch { prev_pid, prev_state, .. }) = event else { continue };
            if let Some(release) = release {
                *prev_state = kinds::settled(*prev_state, release);
            } else if *prev_state == PrevState::Dead {
                self.may_live.insert((at.0, *prev_pid));
            }
        }
    }
    /// Who runs, for records that do not say it: whoever was switched in last. Wake-ups while nobody runs come from interrupts.
    pub fn fill_current(&mut self) {
        self.settle_parked();
        self.one_buffer_each();
        in_order(&mut self.recording.records);
        let cpus = self.recording.records.iter().map(|r| r.cpu.at() + 1).max().unwrap_or(0);
        let mut running: Vec<Option<Pid>> = vec![None; cpus];
        for r in &mut self.recording.records {
            r.current = r.current.or(running[r.cpu.at()]);
            match &mut r.event {
                Recorded::Event(Event::SchedSwitch { next_pid, .. }) => running[r.cpu.at()] = Some(*next_pid),
                Recorded::Event(Event::SchedWaking { in_irq, .. } | Event::SchedWakeup { in_irq, .. }) => {
                    *in_irq |= !self.flags && r.current == Some(Pid(0))
                }
                _ => {}
            }
        }
    }
    /// A thread belongs to a process.
    pub fn tgid(&mut self, pid: i64, tgid: i64) {
        if let (Some(pid), Some(tgid)) = (thread_id(pid), thread_id(tgid)) {
            self.threads.entry(pid).or_default().tgid = tgid;
        }
    }
    /// A thread has the one priority that only SCHED_DEADLINE gives. Told of each life of a pid, so about once a ms.
    fn deadline(&mut self, pid: i64) {
        let Some(pid) = thread_id(pid) else { return };
        let seen = self.deadlines.entry(pid).or_default();
        if self.seen_deadline < RENAMED && seen.last().is_none_or(|&at| self.last.abs_diff(at) >= 1_000_000) {
            seen.push(self.last);
            self.seen_deadline += 1;
        }
    }
    /// The next of the names of marks.
    pub fn mark(&mut self, name: &[u8]) {
        if self.recording.marks.len() < MARKS {
            self.recording.marks.push(printable(&name[..name.len().min(NAME)]));
        }
    }
    /// What our own files say of a thread: `pid policy housekeeping comm`.
    pub fn thread(&mut self, line: &[u8]) {
        let mut parts = line.splitn(4, |&b| b == b' ');
        let (Some(pid), Some(policy), Some(housekeeping)) = (parts.next(), parts.next(), parts.next()) else { return };
        let pid = super::text::number(pid).unwrap_or(0);
        self.told(pid, policy);
        self.housekeeping(pid, housekeeping == b"1");
        self.full_name(pid, parts.next().unwrap_or_default());
    }
    /// Its policy and what goes with it, in our word for it.
    pub fn told(&mut self, pid: i64, word: &[u8]) {
        if let Some(pid) = thread_id(pid) {
            let told = told::thread(word);
            let thread = self.threads.entry(pid).or_default();
            (thread.policy, thread.dl, thread.asked, thread.group) = (told.policy, told.dl, told.asked, told.group);
            thread.cpus = told.cpus;
        }
    }
    /// What our own files say of a group.
    pub fn group(&mut self, line: &[u8]) {
        self.groups.add(line);
    }
    /// Is it the system's background?
    pub fn housekeeping(&mut self, pid: i64, housekeeping: bool) {
        if let Some(pid) = thread_id(pid) {
            self.threads.entry(pid).or_default().housekeeping = Some(housekeeping);
        }
    }
    /// What is known of a process is known of its thread `pid`.
    pub fn same_process(&mut self, pid: i64, tgid: i64) {
        self.tgid(pid, tgid);
        let (Some(pid), Some(tgid)) = (thread_id(pid), thread_id(tgid)) else { return };
        if let Some(RecordedThread { policy, housekeeping, dl, asked, group, cpus, .. }) =
            self.threads.get(&tgid).cloned()
        {
            let thread = self.threads.entry(pid).or_default();
            (thread.policy, thread.housekeeping) = (policy, housekeeping);
            (thread.dl, thread.asked, thread.group, thread.cpus) = (dl, asked, group, cpus);
        }
    }

    /// The next stamps are of another stream.
    pub fn new_stream(&mut self) {
        self.last = 0;
    }

    /// An event of another kind is skipped.
    pub fn unknown(&mut self, name: &[u8]) {
        self.unknown_many(name, 1);
    }
    /// So many.
    pub fn unknown_many(&mut self, name: &[u8], many: u64) {
        let name = String::from_utf8_lossy(&name[..name.len().min(NAME)]);
        if let Some(n) = self.recording.unknown.get_mut(name.as_ref()) {
            *n += many;
        } else if self.recording.unknown.len() < UNKNOWN_NAMES {
            self.recording.unknown.insert(printable(name.as_bytes()), many);
        } else {
            self.other_unknown += many;
        }
    }
    /// A gap; `events` where the file says how many.
    pub fn lost(&mut self, events: Option<u64>) {
        self.recording.lost_gaps += 1;
        self.recording.lost_events = self.recording.lost_events.saturating_add(events.unwrap_or(0));
    }
    /// What each CPU's buffer lost from the beginning to the end; the gaps may be told one by one as well.
    pub fn lost_in_all(&mut self, by_cpu: impl Iterator<Item = u64>) {
        let lost: Vec<u64> = by_cpu.filter(|n| *n > 0).collect();
        let r = &mut self.recording;
        r.lost_gaps = r.lost_gaps.max(lost.len() as u64);
        r.lost_events = lost.iter().fold(r.lost_events, |all, n| all.saturating_add(*n));
    }
    /// The buffer of a CPU begins: of what happened there before, the file does not tell. A text says so of each CPU where any buffer
    /// overran, which is not `sure`.
    pub fn begins(&mut self, cpu: u32, at: u64, sure: bool) {
        if (cpu as usize) < CpuSet::MAX_CPUS {
            self.begins.entry((cpu, self.buffer)).or_insert(Begins { at, sure });
        }
    }
    /// Before the last buffer begins, some CPUs are not seen: whoever is switched out there first would have run all the while. The recording
    /// begins where all of them do, with the clocks and the sleeps that were told before.
    fn begin_together(&mut self) {
        let begins = std::mem::take(&mut self.begins);
        let records = &mut self.recording.records;
        let mut counts: BTreeMap<CpuId, usize> = BTreeMap::new();
        let mut silent: BTreeMap<CpuId, bool> = BTreeMap::new();
        for r in records.iter().take_while(|_| !begins.is_empty()) {
            *counts.entry(r.cpu).or_default() += 1;
            silent.entry(r.cpu).or_insert_with(|| sleeps_before(r));
        }
        let most = counts.values().copied().max().unwrap_or(0);
        let was_silent = |cpu: &u32| {
            let cpu = CpuId(*cpu);
            counts.get(&cpu).copied().unwrap_or(0) < most / SILENT_OF && silent.get(&cpu) != Some(&false)
        };
        let late = begins.iter().filter(|((cpu, _), begins)| begins.sure || !was_silent(cpu));
        let Some((cpu, at)) = late.map(|((cpu, _), begins)| (*cpu, begins.at)).max_by_key(|(_, at)| *at) else {
            return;
        };
        let out = records.partition_point(|r| r.at.0 < at);
        let [Some(first), Some(last)] = [records.first(), records.last()].map(|r| r.map(|r| r.at.0)) else { return };
        if out == 0 || out == records.len() {
            return;
        }
        let [left_out, all] = [at - first, last - first].map(|ns| ns as f64 / 1e9);
        let holds = still_holds(&records[..out], records[out].at);
        records.splice(..out, holds);
        let message = format!(
            "the buffers of the CPUs begin one after another, that of CPU {cpu} last: the first {left_out:.3} s of {all:.3} s are left out, {out} events"
        );
        let help = "record for a shorter time or with larger buffers: trace-cmd record -b 20000";
        self.say(Diagnostic::warning("trace::W08", 0..0, message).help(help));
    }
    /// Something to say about the file.
    pub fn say(&mut self, finding: Diagnostic) {
        if self.findings.len() < FINDINGS {
            self.findings.push(finding);
        }
    }

    /// The clock of the stamps may count anything.
    pub fn not_ns(&mut self, why: &str, help: &str) {
        let message =
            format!("{why}: taken as ns, which a counter or the cycles of a CPU are not; all times are then wrong");
        self.say(Diagnostic::warning("trace::W05", 0..0, message).help(help));
    }

    /// In order of time, time 0 at the first event.
    pub fn finish(mut self, format: impl Into<String>) -> (Recording, Vec<Diagnostic>) {
        let Builder { ref mut recording, .. } = self;
        recording.format = format.into();
        self.settle_parked();
        self.one_buffer_each();
        let Builder { ref mut recording, .. } = self;
        in_order(&mut recording.records);
        self.strays = drop_strays(&mut recording.records);
        self.early = drop_early(&mut recording.records);
        self.begin_together();
        let Builder { ref mut recording, .. } = self;
        recording.threads = std::mem::take(&mut self.threads).into_iter().collect();
        recording.threads.values_mut().for_each(|t| t.group = self.groups.place(t.group));
        self.groups.places_of(&mut recording.records);
        recording.groups = std::mem::take(&mut self.groups).into_specs();
        let begins = lives::begins(&recording.records, &self.may_live, &self.execs);
        let again =
            lives::split(&mut recording.records, &mut recording.threads, &begins, &self.renamed, &self.deadlines);
        recording.zero_ns = recording.records.first().map_or(0, |r| r.at.0);
        let zero = recording.zero_ns;
        let mut cpus = 0;
        for r in &mut recording.records {
            r.at = since(zero, r.at.0);
            cpus = cpus.max(r.cpu.at() + 1);
            if let Recorded::CpuFrequency { cpu, .. } = r.event {
                cpus = cpus.max(cpu.at() + 1);
            }
            if let Recorded::Event(Event::Mark { began_ns, .. }) = &mut r.event {
                *began_ns = began_ns.saturating_sub(zero);
            }
        }
        recording.nr_cpus = recording.nr_cpus.max(cpus).min(CpuSet::MAX_CPUS);
        if let Some(last) = recording.records.last() {
            let stamps = std::mem::take(&mut self.stamps);
            let seen = since(zero, stamps.last_after(zero + last.at.0)).max(last.at);
            let told = self.end.map(|at| since(zero, at)).filter(|end| end.0 <= LONGEST_NS);
            recording.end = told.map_or(seen, |told| told.max(seen));
        }
        recording.has_irq_flags = self.flags;
        for (pid, comm) in std::mem::take(&mut self.full_names) {
            if let Some(thread) = recording.threads.get_mut(&pid) {
                thread.comm = comm;
            }
        }
        if self.other_unknown > 0 {
            recording.unknown.insert("(other names)".into(), self.other_unknown);
        }
        if let Some((first, many)) = again {
            let message = match many {
                1 => format!("1 thread has the pid of one that had ended: {first} here"),
                _ => format!("{many} threads have the pids of ones that had ended: from {first} on here"),
            };
            self.say(Diagnostic::note("trace::N05", 0..0, message));
        }
        self.summary();
        (self.recording, self.findings)
    }

    fn summary(&mut self) {
        let (lost, gaps) = (self.recording.lost_events, self.recording.lost_gaps);
        if gaps > 0 {
            let many = if lost > 0 { format!("{lost} events") } else { "an unknown number of events".into() };
            let message = format!("the recorder lost {many} in {gaps} places; figures around them are doubtful");
            let larger = match self.recording.format.as_str() {
                "perfetto" => "`buffer_size_kb` in `ftrace_config` and `size_kb` in `buffers` of the trace config",
                _ => "trace-cmd record -b 20000",
            };
            let help = format!("record with a larger buffer: {larger}");
            self.say(Diagnostic::warning("trace::W01", 0..0, message).help(help));
        }
        if self.backwards > 0 {
            let message = format!("{} stamps are earlier than the one before; events were sorted", self.backwards);
            self.say(Diagnostic::warning("trace::W02", 0..0, message));
        }
        if self.strays > 0 {
            let message =
                format!("{} stamps are an hour or more from all others; these events were left out", self.strays);
            self.say(Diagnostic::warning("trace::W02", 0..0, message));
        }
        if let Some(Early { before, span, holds }) = self.early {
            let [before, span] = [before, span].map(|ns| ns as f64 / 1e9);
            let its_event = match holds {
                true => "what its event tells is taken to hold when these begin",
                false => "its event was left out",
            };
            let message = format!("one stamp is {before:.3} s before all others, which span {span:.3} s: {its_event}");
            self.say(Diagnostic::warning("trace::W02", 0..0, message));
        }
        if self.beyond > 0 {
            let message = format!("{} events of CPUs beyond {} were skipped", self.beyond, CpuSet::MAX_CPUS - 1);
            self.say(Diagnostic::warning("trace::W03", 0..0, message));
        }
        let skipped: u64 = self.recording.unknown.values().sum();
        if skipped > 0 {
            let mut names: Vec<_> = self.recording.unknown.iter().collect();
            names.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
            let most: Vec<String> = names.iter().take(5).map(|(name, n)| format!("{} {n}", quoted(name))).collect();
            let more = if names.len() > 5 { ", …" } else { "" };
            let message = format!("{skipped} events of other kinds were skipped: {}{more}", most.join(", "));
            self.say(Diagnostic::note("trace::N01", 0..0, message));
        }
        self.clocks();
    }

    /// Old kernels of phones tell frequencies by the names of their clocks alone.
    fn clocks(&mut self) {
        let is_frequency = |r: &Record| matches!(r.event, Recorded::CpuFrequency { .. });
        let seen = |name: &&&str| self.recording.unknown.contains_key(**name);
        let Some(name) = ["clock_set_rate", "clk_set_rate"].iter().find(seen) else { return };
        if !self.recording.records.iter().any(is_frequency) {
            let message =
                format!("frequencies may be in its {name} events, which name clocks and no CPUs: they are not read");
            let help = "record power:cpu_frequency as well";
            self.say(Diagnostic::note("trace::N04", 0..0, message).help(help));
        }
    }
}

/// This is the first record of a CPU: does it say that nobody ran there before?
fn sleeps_before(r: &Record) -> bool {
    match r.event {
        Recorded::Event(Event::SchedSwitch { prev_pid, .. }) => prev_pid == Pid(0),
        Recorded::Event(Event::CpuIdle { .. }) => true,
        _ => r.current == Some(Pid(0)),
    }
}

/// By time, stable. Keys are sorted, as they are small and records are not.
fn in_order(records: &mut Vec<Record>) {
    if records.is_sorted_by_key(|r| r.at) {
        return;
    }
    let mut keys: Vec<(Ns, u32)> = records.iter().zip(0..).map(|(r, i)| (r.at, i)).collect();
    keys.sort();
    *records = keys.into_iter().map(|(_, i)| records[i as usize]).collect();
}

/// Stamps with silence before or after them. Those that the middle event is not among are dropped. How many.
fn drop_strays(records: &mut Vec<Record>) -> u64 {
    let (before, middle) = (records.len(), records.len() / 2);
    let silence = |i: &usize| records[*i].at.since(records[*i - 1].at) > SILENCE_NS;
    let begin = (1..=middle).rev().take_while(|_| before > 0).find(silence).unwrap_or(0);
    let end = (middle + 1..before).find(silence).unwrap_or(before);
    records.truncate(end);
    records.drain(..begin);
    (before - records.len()) as u64
}

/// A single event before a silence that is longer than all that follows has a damaged stamp, or is left over in a buffer from before:
/// it would make the recording as long as the silence, with its CPU busy all the while. A machine is not silent for a second, and of a
/// few events no one can tell.
fn drop_early(records: &mut Vec<Record>) -> Option<Early> {
    const SILENCE_NS: u64 = 1_000_000_000;
    const FEW: usize = 10;
    let [first, rest @ ..] = records.as_slice() else { return None };
    let [second, .., last] = rest else { return None };
    let (before, span) = (second.at.since(first.at), last.at.since(second.at));
    let is_stray = rest.len() >= FEW && before > SILENCE_NS && before > span;
    is_stray.then(|| {
        let holds = still_holds(&records[..1], records[1].at);
        let early = Early { before, span, holds: !holds.is_empty() };
        records.splice(..1, holds);
        early
    })
}

/// What these records, which are left out, tell of the time `at` after them: the clock of each CPU, and in which state one sleeps.
fn still_holds(left_out: &[Record], at: Ns) -> Vec<Record> {
    let mut running: BTreeMap<CpuId, Pid> = BTreeMap::new();
    let (mut clocks, mut sleeps) = (BTreeMap::new(), BTreeMap::new());
    for r in left_out {
        match r.event {
            Recorded::CpuFrequency { cpu, .. } => _ = clocks.insert(cpu, *r),
            Recorded::Event(Event::CpuIdle { state: Event::IDLE_EXIT }) => _ = sleeps.remove(&r.cpu),
            Recorded::Event(Event::CpuIdle { .. }) => _ = sleeps.insert(r.cpu, *r),
            Recorded::Event(Event::SchedSwitch { next_pid, .. }) => {
                running.insert(r.cpu, next_pid);
                if next_pid != Pid(0) {
                    sleeps.remove(&r.cpu); // its end was lost
                }
            }
            _ => {}
        }
    }
    let all = clocks.into_values().chain(sleeps.into_values());
    all.map(|r| Record { at, current: running.get(&r.cpu).copied(), ..r }).collect()
}

/// Names from traces: no control characters, valid text.
pub(super) fn printable(name: &[u8]) -> String {
    String::from_utf8_lossy(name).chars().map(|c| if c.is_control() || c == '\u{fffd}' { '?' } else { c }).collect()
}
