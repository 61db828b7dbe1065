//! Writes `trace.dat` version 6, uncompressed: what every trace-cmd since 2.0 and KernelShark open.
//!
//! Events of all CPUs come interleaved and the file holds each CPU's pages together, so full pages are put aside and
//! copied at the end; memory holds one page a CPU and four bytes for each page written.

use super::super::kinds::{self, INTS, Kind, ROWS, Row};
use super::super::names::{Names, clean};
use super::super::told;
use super::super::writer::{About, Detail, GENERATOR, Scratch, TraceWriter};
use super::header::{END, GROUPS, MARKS, OURS};
use super::page::{MISSED_EVENTS, MISSED_STORED};
use super::{CLOCKS, COUNTERS};
use std::collections::BTreeMap;
use std::io::{Result, SeekFrom, Write};
use wattif_model::kernel::version;
use wattif_model::platform::Platform;
use wattif_model::trace::{BalanceKind, Event, Interest, Observer, PlacementReason, PrevState, Recording, ThreadInfo};
use wattif_model::{CpuId, Ns, Pid};

const PAGE: usize = 4096;
const DATA: usize = 16;
/// A delta of 27 bits; longer ones take a record of their own.
const MAX_DELTA: u64 = (1 << 27) - 1;
/// The longest payload whose length stands in the word before it.
const MAX_LEN: usize = 28 * 4;
/// The kernel's `TRACE_PRINT`, and where its text begins.
const PRINT_ID: u16 = 5;
const PRINT_BUF: usize = 16;
/// `TRACE_FLAG_HARDIRQ`.
const HARDIRQ: u8 = 0x08;
/// The kernel's `TASK_COMM_LEN`.
const COMM: usize = 16;

/// A page in the making.
struct Page {
    bytes: Vec<u8>,
    time: u64,
}

/// Writes events to `out`, through `scratch`.
pub struct DatTrace<W, S> {
    out: W,
    scratch: S,
    about: About,
    detail: Detail,
    pages: Vec<Page>,
    /// CPU of each page put aside.
    aside: Vec<u32>,
    names: Names,
    threads: BTreeMap<u32, ThreadInfo>,
    current: Vec<Pid>,
    domains: Vec<Vec<u32>>,
    /// States of threads as the kernel prints them.
    states: &'static States,
    /// Gaps of the recording that pages have still to tell, one each, and the events lost in them.
    gaps: u64,
    lost: u64,
    /// The clocks that `trace_clock` would list, the one in use in brackets. Of a recording whose clock is not known there are none.
    clocks: Option<String>,
    /// When the run ended.
    end: Option<Ns>,
    failed: Option<std::io::Error>,
}

impl<W: Write, S: Scratch> DatTrace<W, S> {
    /// Begin a trace.
    pub fn new(out: W, scratch: S, detail: Detail, about: About) -> DatTrace<W, S> {
        let states = states(about.release());
        DatTrace {
            out,
            scratch,
            about,
            states,
            detail,
            pages: Vec::new(),
            aside: Vec::new(),
            names: Names::default(),
            threads: BTreeMap::new(),
            current: Vec::new(),
            domains: Vec::new(),
            gaps: 0,
            lost: 0,
            clocks: Some("[local] global".into()),
            end: None,
            failed: None,
        }
    }

    fn record(&mut self, at: u64, cpu: u32, row: &Row, n: &[i64; INTS], in_irq: bool) -> Result<()> {
        let current = self.current[cpu as usize];
        let id = id_of(row.kind);
        let mut r = [0u8; 128];
        r[..2].copy_from_slice(&id.to_le_bytes());
        r[2] = if in_irq { HARDIRQ } else { 0 };
        r[4..8].copy_from_slice(&current.0.to_le_bytes());
        let mut at_byte = 8;
        for field in shape(row) {
            let to = &mut r[at_byte..at_byte + field.size];
            match field.of {
                Of::Int(i) => to.copy_from_slice(&n[i].to_le_bytes()[..field.size]),
                Of::Comm(i) => {
                    let pid = n[row.named[i]] as u32;
                    let comm = self.names.comm(Pid(pid), cpu);
                    let len = comm.floor_char_boundary(COMM - 1);
                    to[..len].copy_from_slice(&comm.as_bytes()[..len]);
                }
            }
            at_byte += field.size;
        }
        self.append(at, cpu, &r[..at_byte.next_multiple_of(4)])
    }

    /// What threads write into `trace_marker`: events `print`.
    fn mark(&mut self, at: u64, cpu: u32, lines: &[String]) -> Result<()> {
        for line in lines {
            let mut r = vec![0u8; PRINT_BUF];
            r[..2].copy_from_slice(&PRINT_ID.to_le_bytes());
            r[4..8].copy_from_slice(&self.current[cpu as usize].0.to_le_bytes());
            r.extend_from_slice(line.as_bytes());
            r.extend_from_slice(b"\n\0");
            r.resize(r.len().next_multiple_of(4), 0);
            self.append(at, cpu, &r)?;
        }
        Ok(())
    }

    /// Add a record to the CPU's page.
    fn append(&mut self, at: u64, cpu: u32, payload: &[u8]) -> Result<()> {
        let page = &self.pages[cpu as usize];
        let delta = at.saturating_sub(page.time);
        let long = payload.len() > MAX_LEN;
        let need = 4 + payload.len() + if delta > MAX_DELTA { 8 } else { 0 } + if long { 4 } else { 0 };
        let kept_free = if self.lost > 0 { size_of::<u64>() } else { 0 };
        if !page.bytes.is_empty() && page.bytes.len() + need > PAGE - DATA - kept_free {
            self.put_aside(cpu)?;
        }
        let page = &mut self.pages[cpu as usize];
        if page.bytes.is_empty() {
            page.bytes.resize(DATA, 0);
            page.bytes[..8].copy_from_slice(&at.to_le_bytes());
            page.time = at;
        }
        let mut delta = at - page.time;
        if delta > MAX_DELTA {
            let word = (delta & MAX_DELTA) << 5 | 30;
            page.bytes.extend_from_slice(&(word as u32).to_le_bytes());
            page.bytes.extend_from_slice(&((delta >> 27) as u32).to_le_bytes());
            delta = 0;
        }
        let word = (delta << 5) | if long { 0 } else { payload.len() as u64 / 4 };
        page.bytes.extend_from_slice(&(word as u32).to_le_bytes());
        if long {
            // Its length has a word of its own, which it counts.
            page.bytes.extend_from_slice(&(payload.len() as u32 + 4).to_le_bytes());
        }
        page.bytes.extend_from_slice(payload);
        page.time = at;
        Ok(())
    }

    fn put_aside(&mut self, cpu: u32) -> Result<()> {
        let page = &mut self.pages[cpu as usize];
        let mut commit = (page.bytes.len() - DATA) as u64;
        if self.gaps > 0 {
            self.gaps -= 1;
            commit |= MISSED_EVENTS;
        }
        if commit & MISSED_EVENTS != 0 && self.lost > 0 {
            // How many stands behind the records.
            commit |= MISSED_STORED;
            page.bytes.extend_from_slice(&std::mem::take(&mut self.lost).to_le_bytes());
        }
        page.bytes[8..16].copy_from_slice(&commit.to_le_bytes());
        page.bytes.resize(PAGE, 0);
        self.scratch.write_all(&page.bytes)?;
        page.bytes.clear();
        self.aside.push(cpu);
        Ok(())
    }

    fn write(&mut self, at: Ns, cpu: CpuId, event: &Event) -> Result<()> {
        if let Event::CpuFrequency { domain, khz, .. } = *event {
            let row = kinds::row_of(Kind::CpuFrequency);
            for i in 0..self.domains[domain.at()].len() {
                let cpu = self.domains[domain.at()][i];
                self.record(at.0, cpu, row, &kinds::of([khz.into(), cpu.into()]), false)?;
            }
            return Ok(());
        }
        let Some((kind, mut n)) = kinds::numbers(event) else { return Ok(()) };
        match kind {
            Kind::Idle => n[1] = cpu.0.into(),
            Kind::IdleMiss => n[0] = cpu.0.into(),
            Kind::CfsThrottle | Kind::CfsUnthrottle => n[1] = cpu.0.into(),
            Kind::Switch if n[2] == kinds::state_bits(PrevState::Dead) => n[2] = self.states.dead,
            _ => {}
        }
        for &(pid, prio) in kinds::prios(kind) {
            n[prio] = self.names.prio(Pid(n[pid] as u32), n[prio] as u8);
        }
        self.record(at.0, cpu.0, kinds::row_of(kind), &n, event.in_irq())?;
        if let Event::SchedSwitch { next_pid, .. } = *event {
            self.current[cpu.at()] = next_pid;
        }
        Ok(())
    }

    // ---- the file ----------------------------------------------------------------------------------------------------

    fn file(&mut self) -> Result<()> {
        for cpu in 0..self.pages.len() as u32 {
            if !self.pages[cpu as usize].bytes.is_empty() {
                self.put_aside(cpu)?;
            }
        }
        let head = self.head();
        // The table of CPUs follows the head; offsets are known once its length is.
        let clocks = self.clocks.as_ref().map_or(Vec::new(), |all| {
            let text = format!("{all}\0");
            [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
        });
        let table = 16 * self.pages.len() + clocks.len();
        let mut offset = (head.len() + table).next_multiple_of(PAGE);
        let mut entries = Vec::with_capacity(table);
        for cpu in 0..self.pages.len() as u32 {
            let size = PAGE * self.aside.iter().filter(|&&c| c == cpu).count();
            entries.extend_from_slice(&(offset as u64).to_le_bytes());
            entries.extend_from_slice(&(size as u64).to_le_bytes());
            offset += size;
        }
        entries.extend_from_slice(&clocks);
        self.out.write_all(&head)?;
        self.out.write_all(&entries)?;
        let written = head.len() + entries.len();
        self.out.write_all(&vec![0; written.next_multiple_of(PAGE) - written])?;
        self.copy_pages()?;
        self.out.flush()
    }

    fn copy_pages(&mut self) -> Result<()> {
        let mut page = vec![0; PAGE];
        for cpu in 0..self.pages.len() as u32 {
            for (i, _) in self.aside.iter().enumerate().filter(|(_, c)| **c == cpu) {
                self.scratch.seek(SeekFrom::Start((i * PAGE) as u64))?;
                self.scratch.read_exact(&mut page)?;
                self.out.write_all(&page)?;
            }
        }
        Ok(())
    }

    /// Everything up to the table of CPUs.
    fn head(&self) -> Vec<u8> {
        let mut h = Vec::new();
        h.extend_from_slice(b"\x17\x08\x44tracing6\0\0");
        h.push(8);
        h.extend_from_slice(&(PAGE as u32).to_le_bytes());
        let section = |h: &mut Vec<u8>, name: &[u8], text: &str| {
            h.extend_from_slice(name);
            h.extend_from_slice(&(text.len() as u64).to_le_bytes());
            h.extend_from_slice(text.as_bytes());
        };
        section(&mut h, b"header_page\0", HEADER_PAGE);
        section(&mut h, b"header_event\0", HEADER_EVENT);
        // Formats of ftrace itself.
        h.extend_from_slice(&u32::from(self.about.markers.is_some()).to_le_bytes());
        if self.about.markers.is_some() {
            section(&mut h, b"", &print_text());
        }
        let systems = ["sched", "power", "timer", "cgroup", "wattif"];
        h.extend_from_slice(&(systems.len() as u32).to_le_bytes());
        for system in systems {
            h.extend_from_slice(system.as_bytes());
            h.push(0);
            let rows: Vec<&Row> = ROWS.iter().filter(|r| system_of(r) == Some(system)).collect();
            h.extend_from_slice(&(rows.len() as u32).to_le_bytes());
            for row in rows {
                section(&mut h, b"", &format_text(row, self.states));
            }
        }
        h.extend_from_slice(&0u32.to_le_bytes()); // kallsyms
        h.extend_from_slice(&0u32.to_le_bytes()); // printk
        let mut names = String::new();
        for t in self.threads.values() {
            names += &format!("{} {}\n", t.pid, short(&t.comm));
        }
        names.push('\0');
        section(&mut h, b"", &names);
        h.extend_from_slice(&(self.pages.len() as u32).to_le_bytes());
        self.options(&mut h);
        h.extend_from_slice(b"flyrecord\0");
        h
    }

    fn options(&self, h: &mut Vec<u8>) {
        h.extend_from_slice(b"options  \0");
        let mut option = |id: u16, data: &[u8]| {
            h.extend_from_slice(&id.to_le_bytes());
            h.extend_from_slice(&(data.len() as u32).to_le_bytes());
            h.extend_from_slice(data);
        };
        const TRACECLOCK: u16 = 4;
        const UNAME: u16 = 5;
        const VERSION: u16 = 9;
        // With it, readers expect the clocks behind the table of CPUs as well.
        if let Some(clocks) = &self.clocks {
            option(TRACECLOCK, format!("{clocks}\0").as_bytes());
        }
        let release = self.about.release();
        let (host, kind) = if self.about.recorded { ("machine", "recorded") } else { ("wattif", "simulated") };
        if !release.is_empty() {
            option(UNAME, format!("Linux {host} {release} {kind}\0").as_bytes());
        }
        let spec = if self.about.spec.is_empty() { String::new() } else { format!(" spec {}", self.about.spec) };
        option(VERSION, format!("{GENERATOR}{spec}\0").as_bytes());
        let line =
            |t: &ThreadInfo| format!("{} {} {} {}\n", t.pid, told::word(t), u8::from(!t.workload), clean(&t.comm));
        let told = self.threads.values().filter(|t| self.about.told && !t.policy.is_empty());
        option(OURS, told.map(line).collect::<String>().as_bytes());
        if let Some(end) = self.end {
            option(END, &end.0.to_le_bytes());
        }
        let groups: String = self.about.groups().map(|(i, g)| told::group_line(i, g) + "\n").collect();
        if !groups.is_empty() {
            option(GROUPS, groups.as_bytes());
        }
        if !self.about.marks.is_empty() {
            let line = |mark: &String| clean(mark) + "\n";
            option(MARKS, self.about.marks.iter().map(line).collect::<String>().as_bytes());
        }
        h.extend_from_slice(&0u16.to_le_bytes());
    }
}

impl<W: Write, S: Scratch> Observer for DatTrace<W, S> {
    fn interest(&self) -> Interest {
        self.about.interest(self.detail)
    }
    fn start(&mut self, platform: &Platform) {
        self.current = vec![Pid(0); platform.nr_cpus()];
        self.pages = (0..platform.nr_cpus()).map(|_| Page { bytes: Vec::with_capacity(PAGE), time: 0 }).collect();
        self.domains = platform.domains.iter().map(|d| d.cpus.iter().map(|c| c.0).collect()).collect();
    }
    fn thread(&mut self, thread: &ThreadInfo) {
        self.names.insert(thread);
        if let Some(markers) = &mut self.about.markers {
            markers.thread(thread);
        }
        self.threads.insert(thread.pid.0, thread.clone());
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        if self.failed.is_none() {
            let marked = self.about.lines(at, event);
            let behind = self.about.line_behind(event);
            let written = self.mark(at.0, cpu.0, &marked).and_then(|()| self.write(at, cpu, event));
            self.failed = written.and_then(|()| self.mark(at.0, cpu.0, behind.as_slice())).err();
        }
    }
    fn finish(&mut self, end: Ns) {
        self.end = Some(end);
        let marked = self.about.last_lines();
        if self.failed.is_none() {
            self.failed = self.mark(end.0, 0, &marked).err();
        }
    }
}

impl<W: Write, S: Scratch> TraceWriter for DatTrace<W, S> {
    fn runs(&mut self, cpu: CpuId, pid: Option<Pid>) {
        let current = &mut self.current[cpu.at()];
        *current = pid.unwrap_or(*current); // there is no word for nobody knows
    }
    fn recorded(&mut self, recording: &Recording) {
        (self.gaps, self.lost) = (recording.lost_gaps, recording.lost_events);
        let clock = recording.clock.as_deref().filter(|clock| CLOCKS.contains(clock) || COUNTERS.contains(clock));
        self.clocks = clock.map(|clock| format!("[{clock}]"));
    }
    fn close(&mut self) -> Result<()> {
        match self.failed.take() {
            Some(e) => Err(e),
            None => self.file(),
        }
    }
}

/// As long as the kernel keeps them.
fn short(comm: &str) -> String {
    let clean = clean(comm);
    clean[..clean.floor_char_boundary(COMM - 1)].to_string()
}

// ---- layouts -----------------------------------------------------------------------------------------------------------

/// Ids are our own; formats travel with the file.
fn id_of(kind: Kind) -> u16 {
    100 + ROWS.iter().position(|r| r.kind == kind).expect("every kind has a row") as u16
}

/// Events that a run has, by their place below `events/`.
fn system_of(row: &Row) -> Option<&'static str> {
    match row.kind {
        Kind::Idle | Kind::IdleMiss | Kind::CpuFrequency => Some("power"),
        Kind::TickStop => Some("timer"),
        Kind::CgroupAttachTask => Some("cgroup"),
        Kind::NewTask | Kind::Rename | Kind::IrqEnter | Kind::IrqExit => None,
        _ if row.name.starts_with("wattif") || row.name.starts_with("pelt") => Some("wattif"),
        _ => Some("sched"),
    }
}

enum Of {
    Int(usize),
    Comm(usize),
}

struct Shape {
    of: Of,
    name: &'static str,
    size: usize,
}

/// The fields of a record after the common ones: each thread's name before its pid, as the kernel has it.
fn shape(row: &Row) -> impl Iterator<Item = Shape> + '_ {
    let told = |name: &str| name != "success" || row.kind == Kind::TickStop;
    row.ints.iter().enumerate().filter(move |(_, name)| told(name)).flat_map(|(i, name)| {
        let before = row.named.iter().position(|&n| n == i);
        let comm = before.map(|c| Shape { of: Of::Comm(c), name: first(row.strs[c]), size: COMM });
        let name = first(name);
        let long = name == "prev_state" || name.ends_with("_ns") || name.ends_with("_us");
        comm.into_iter().chain([Shape { of: Of::Int(i), name, size: if long { 8 } else { 4 } }])
    })
}

fn first(names: &'static str) -> &'static str {
    names.split('|').next().unwrap_or(names)
}

/// The format of `print`, as the kernel has it.
fn print_text() -> String {
    begin_format("print", PRINT_ID)
        + "\tfield:unsigned long ip;\toffset:8;\tsize:8;\tsigned:0;\n\tfield:char buf[];\toffset:16;\tsize:0;\tsigned:0;\n"
        + "\nprint fmt: \"%ps: %s\", (void *)REC->ip, REC->buf\n"
}

/// A format up to its own fields.
fn begin_format(name: &str, id: u16) -> String {
    let mut text = format!("name: {name}\nID: {id}\nformat:\n");
    let common = [
        ("unsigned short common_type", 0, 2, 0),
        ("unsigned char common_flags", 2, 1, 0),
        ("unsigned char common_preempt_count", 3, 1, 0),
        ("int common_pid", 4, 4, 1),
    ];
    for (declaration, offset, size, signed) in common {
        text += &format!("\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n");
    }
    text + "\n"
}

fn format_text(row: &Row, states: &States) -> String {
    let mut text = begin_format(row.name, id_of(row.kind));
    let mut offset = 8;
    for f in shape(row) {
        let unsigned = matches!(row.kind, Kind::Idle | Kind::IdleMiss | Kind::CpuFrequency);
        let (declaration, signed) = match (&f.of, f.size) {
            (Of::Comm(_), _) => (format!("char {}[16]", f.name), 0),
            (_, 8) => (format!("long {}", f.name), 1),
            _ if unsigned => (format!("u32 {}", f.name), 0),
            _ if f.name.ends_with("pid") => (format!("pid_t {}", f.name), 1),
            _ => (format!("int {}", f.name), 1),
        };
        text += &format!("\tfield:{declaration};\toffset:{offset};\tsize:{};\tsigned:{signed};\n", f.size);
        offset += f.size;
    }
    text + "\nprint fmt: " + &print_format(row, states) + "\n"
}

fn print_format(row: &Row, states: &States) -> String {
    match row.kind {
        Kind::Switch => states.print(),
        Kind::Waking | Kind::Wakeup | Kind::WakeupNew => {
            r#""comm=%s pid=%d prio=%d target_cpu=%03d", REC->comm, REC->pid, REC->prio, REC->target_cpu"#.into()
        }
        Kind::Fork => r#""comm=%s pid=%d child_comm=%s child_pid=%d", REC->parent_comm, REC->parent_pid, REC->child_comm, REC->child_pid"#.into(),
        Kind::Idle | Kind::CpuFrequency => {
            r#""state=%lu cpu_id=%lu", (unsigned long)REC->state, (unsigned long)REC->cpu_id"#.into()
        }
        Kind::IdleMiss => r#""cpu_id=%lu state=%lu type=%s", (unsigned long)REC->cpu_id, (unsigned long)REC->state, (REC->below) ? "below" : "above""#.into(),
        _ => {
            let form = |f: &Shape| match (&f.of, f.size) {
                _ if !words(row.kind, f.name).is_empty() => format!("{}=%s", f.name),
                (Of::Comm(_), _) => format!("{}=%s", f.name),
                (_, 8) => format!("{}=%ld", f.name),
                _ => format!("{}=%d", f.name),
            };
            let forms: Vec<String> = shape(row).map(|f| form(&f)).collect();
            let arg = |f: &Shape| match words(row.kind, f.name).as_slice() {
                [] => format!("REC->{}", f.name),
                words => {
                    let pairs: Vec<String> = words.iter().enumerate().map(|(i, w)| format!("{{ {i}, \"{w}\" }}")).collect();
                    format!("__print_symbolic(REC->{}, {})", f.name, pairs.join(", "))
                }
            };
            let args: Vec<String> = shape(row).map(|f| arg(&f)).collect();
            format!("\"{}\", {}", forms.join(" "), args.join(", "))
        }
    }
}

/// The words that the numbers of a field stand for.
fn words(kind: Kind, field: &str) -> Vec<&'static str> {
    match (kind, field) {
        (Kind::Placement, "reason") => PlacementReason::ALL.iter().map(|r| r.name()).collect(),
        (Kind::Balance, "kind") => BalanceKind::ALL.iter().map(|k| k.name()).collect(),
        _ => Vec::new(),
    }
}

/// How a kernel prints the state of who leaves a CPU: bits and letters. The bit behind the last is of a thread that was preempted.
#[derive(Debug)]
struct States {
    letters: &'static [(u32, &'static str)],
    /// The number of a thread that has died.
    dead: i64,
}

/// Of `task_struct`, until Linux 4.13; the last one since 4.2.
const TASK_STATES: &[(u32, &str)] = &[
    (1, "S"),
    (2, "D"),
    (4, "T"),
    (8, "t"),
    (16, "Z"),
    (32, "X"),
    (64, "x"),
    (128, "K"),
    (256, "W"),
    (512, "P"),
    (1024, "N"),
];

/// Of the tracepoint alone, since 4.14.
const TRACED_STATES: &[(u32, &str)] =
    &[(1, "S"), (2, "D"), (4, "T"), (8, "t"), (16, "X"), (32, "Z"), (64, "P"), (128, "I")];

/// By the first release that has them.
static STATES: [((u32, u32), States); 3] = [
    ((4, 14), States { letters: TRACED_STATES, dead: 0x10 }),
    ((4, 2), States { letters: TASK_STATES, dead: 0x40 }),
    ((0, 0), States { letters: TASK_STATES.split_last().expect("there are some").1, dead: 0x40 }),
];

/// Those of a release, or of a profile of it; of an unknown one the last.
fn states(release: &str) -> &'static States {
    let release = release.strip_prefix("android-").unwrap_or(release);
    let version = version(release).unwrap_or((u32::MAX, 0));
    STATES.iter().find(|(since, _)| version >= *since).map(|(_, states)| states).expect("the last is of all others")
}

impl States {
    fn print(&self) -> String {
        let preempted = 1 << self.letters.len();
        let mask = format!("{:#x}", preempted - 1);
        let letters: Vec<String> =
            self.letters.iter().map(|(bit, letter)| format!("{{ {bit:#04x}, \"{letter}\" }}")).collect();
        let flags = format!("__print_flags(REC->prev_state & {mask}, \"|\", {})", letters.join(", "));
        let state = format!("(REC->prev_state & {mask}) ? {flags} : \"R\"");
        let preempted = format!("REC->prev_state & {preempted:#x} ? \"+\" : \"\"");
        let form = "prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s%s ==> next_comm=%s next_pid=%d next_prio=%d";
        let (prev, next) =
            ("REC->prev_comm, REC->prev_pid, REC->prev_prio", "REC->next_comm, REC->next_pid, REC->next_prio");
        format!("\"{form}\", {prev}, {state}, {preempted}, {next}")
    }
}

const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
    \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
    \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

const HEADER_EVENT: &str = "# compressed entry header\n\
    \ttype_len    :    5 bits\n\
    \ttime_delta  :   27 bits\n\
    \tarray       :   32 bits\n\n\
    \tpadding     : type == 29\n\
    \ttime_extend : type == 30\n\
    \ttime_stamp : type == 31\n\
    \tdata max type_len  == 28\n";

#[cfg(test)]
mod tests {
    use super::super::super::kinds::state_bits;
    use super::super::layout;
    use super::*;

    /// What is written for a state is read as that state, by the letters of the release.
    #[test]
    fn states_of_releases() {
        let row = kinds::row_of(Kind::Switch);
        for (release, dead, first, absent) in [
            ("3.13", 0x40, "{ 0x10, \"Z\" }", "\"N\""),
            ("android-4.9-walt", 0x40, "{ 0x400, \"N\" }", "\"I\""),
            ("4.13.7", 0x40, "{ 0x200, \"P\" }", "\"I\""),
            ("4.14", 0x10, "{ 0x40, \"P\" }", "\"x\""),
            ("6.12", 0x10, "{ 0x80, \"I\" }", "\"x\""),
            ("", 0x10, "{ 0x80, \"I\" }", "\"x\""),
        ] {
            let states = states(release);
            let text = format_text(row, states);
            assert!(text.contains(first) && !text.contains(absent) && states.dead == dead, "{release}: {text}");
            let plan = layout::Plan::new(&layout::parse(text.as_bytes()).unwrap()).unwrap();
            let mut record = [0; 128];
            let place = plan.ints[2].expect("prev_state").offset;
            record[place..place + 8].copy_from_slice(&states.dead.to_le_bytes());
            assert_eq!(plan.numbers(&record, false)[2], state_bits(PrevState::Dead), "{release}");
        }
        assert_eq!(states("4.13").print().matches("0x7ff").count(), 2);
        assert!(states("4.13").print().contains("REC->prev_state & 0x800 ? \"+\""));
    }

    /// Of a recording the one that it tells, if the kernel has such a clock, or none; of a run `local`.
    #[test]
    fn clocks_of_recordings() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../platforms/hikey620.toml");
        let text = std::fs::read_to_string(path).unwrap();
        let platform = crate::platform_toml::parse(&text, &Default::default()).platform.expect("it is valid");
        let clock = |told: Option<Option<&str>>| {
            let mut out = Vec::new();
            let scratch = std::io::Cursor::new(Vec::new());
            let mut trace = DatTrace::new(&mut out, scratch, Detail::Tracepoints, About::default());
            trace.start(&platform);
            if let Some(clock) = told {
                trace.recorded(&Recording { clock: clock.map(String::from), ..Recording::default() });
            }
            trace.event(Ns(5), CpuId(1), &Event::CpuIdle { state: 1 });
            trace.close().unwrap();
            let read = crate::trace::read(&out);
            let r = read.recording.expect("it is one");
            assert_eq!((r.records.len(), r.zero_ns), (1, 5), "{told:?}");
            let warned = read.diagnostics.iter().any(|d| d.code == "trace::W05");
            (r.clock, warned)
        };
        assert_eq!(clock(None), (Some("local".into()), false));
        for (told, expect, counts) in [
            (None, None, false),
            (Some("boot"), Some("boot"), false),
            (Some("mono_raw"), Some("mono_raw"), false),
            (Some("x86-tsc"), Some("x86-tsc"), true),
            (Some("tsc2nsec"), None, false),
            (Some("]\n["), None, false),
        ] {
            assert_eq!(clock(Some(told)), (expect.map(String::from), counts), "{told:?}");
        }
    }
}
