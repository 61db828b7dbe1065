//! Text traces: `trace-cmd report`, `/sys/kernel/tracing/trace`, atrace and systrace (also inside their HTML pages) and
//! `perf script`. A line is
//!
//! ```text
//! comm-pid (tgid) [cpu] flags seconds.fraction: event: fields       ftrace; tgid and flags may be missing
//! comm-pid cpuflags seconds.fraction: event: fields                 trace-cmd report -l; with -R cpu-0xflags
//! comm-pid [cpu] seconds.fraction: (+delta) event: fields           trace-cmd report --ts-diff
//! comm-pid cpuflags 100us : event: fields                           the kernel's latency-format; `!`, `+` … for long ones
//! buffer:      comm-pid …                                           trace-cmd report of several buffers
//! comm pid/tid [cpu] seconds.fraction: period group:event: fields   perf script; period may be missing, -F +misc is a word more
//! ```
//! Names may hold spaces, dashes, brackets. Fields are `key=value`, or what trace-cmd's plugins print for `sched_*`.

use super::build::{Builder, CLOCK_IN_NS, Place};
use super::fields::{by_key, starts_with_key};
use super::kinds::{self, INTS, Kind, Row, letter_bits};
use wattif_model::check::Diagnostic;

/// Lines that are neither events nor comments, told of with their number.
const STRANGE_SHOWN: u32 = 5;

/// How many lines tell whose ids they have, and how many of their switches.
const IDS_LINES: usize = 20_000;
const IDS_SWITCHES: usize = 1_000;
/// So many switches away from another thread, and one in so many, are no accidents.
const SEVERAL: usize = 3;
const ONE_IN: usize = 100;

/// Read all lines; the first is line `first` of the file.
pub(super) fn read(text: &[u8], first: usize, builder: &mut Builder) {
    let of_processes = has_process_ids(text);
    let (mut events, mut strange, mut whole) = (0u32, 0u32, false);
    for (number, line) in text.split(|&b| b == b'\n').enumerate() {
        let line = trim_line(line);
        if is_mute(line) {
            comment(line, builder);
            continue;
        }
        if let Some(mut event) = Line::parse(line) {
            if of_processes {
                event.forget_id();
            }
            whole |= event.whole;
            events += 1;
            event.read(builder);
            if let Some(cpu) = builder.started.take_if(|cpu| *cpu == event.place.cpu) {
                builder.begins(cpu, event.place.at, false);
            }
        } else if !header(line, builder) {
            strange += 1;
            if strange <= STRANGE_SHOWN {
                let shown = crate::words::quoted(&String::from_utf8_lossy(&line[..line.len().min(60)]));
                let message = format!("line {}: not an event: {shown}", number + first);
                builder.say(Diagnostic::note("trace::N02", 0..0, message));
            }
        }
    }
    if of_processes {
        builder.fill_current();
        let message = "the ids before the events are those of processes: who runs is taken from the switches";
        let help = "write the ids of threads: `perf script -F comm,tid,cpu,time,event,trace`";
        builder.say(Diagnostic::note("trace::N08", 0..0, message).help(help));
    }
    if whole {
        builder.not_ns("stamps are whole numbers", CLOCK_IN_NS);
    }
    if strange > events.max(STRANGE_SHOWN) {
        let message = format!("{strange} lines are not understood, which is most of them: {events} are events");
        let help = "write it as ftrace text, or `perf script -F comm,tid,cpu,time,event,trace`";
        builder.say(Diagnostic::warning("trace::W06", 0..0, message).help(help));
    } else if strange > STRANGE_SHOWN {
        let message = format!("{} more lines are not events", strange - STRANGE_SHOWN);
        builder.say(Diagnostic::note("trace::N02", 0..0, message));
    }
}

/// Is there a stretch with an event in every twentieth line? What another program printed may stand before it.
pub(super) fn probe(text: &[u8]) -> bool {
    const STRETCH: usize = 200;
    const LINES: usize = 4000;
    let lines = text.split(|&b| b == b'\n').map(trim_line).filter(|l| !is_mute(l));
    let lines = lines.map(|l| (Line::parse(l).is_some(), l)).filter(|(event, l)| *event || !is_header(l));
    let events: Vec<bool> = lines.take(LINES).map(|(event, _)| event).collect();
    let stretches = (0..events.len()).step_by(STRETCH / 2).map(|i| &events[i..events.len().min(i + STRETCH)]);
    let whole = |(i, stretch): &(usize, &[bool])| *i == 0 || stretch.len() > STRETCH / 2;
    let some = |of: &[bool]| of.contains(&true) && of.iter().filter(|event| **event).count() * 20 >= of.len();
    stretches.enumerate().filter(whole).any(|(_, stretch)| some(stretch))
}

/// perf writes the id of the process, if that is all it was asked for: then switches away from threads have another number before them.
fn has_process_ids(text: &[u8]) -> bool {
    let (mut switches, mut others) = (0, 0);
    for line in text.split(|&b| b == b'\n').take(IDS_LINES).map(trim_line).filter(|l| !is_mute(l)) {
        let Some(line) = Line::parse(line) else { continue };
        if !line.perf || line.tgid.is_some() || switches == IDS_SWITCHES {
            break;
        }
        let row = kinds::find(line.event).filter(|row| row.kind == Kind::Switch);
        let prev = row.and_then(|row| numbers(row, line.fields)).map_or(0, |(ints, _)| ints[0]);
        if prev > 0 && line.pid >= 0 {
            switches += 1;
            others += usize::from(prev != line.pid);
        }
    }
    others >= SEVERAL.max(switches / ONE_IN)
}

/// Blanks, comments, and the stacks of perf and of the kernel (option `stacktrace`): a frame a line. Where an event is of a thread with a
/// long name, this may begin with `#` as well: where comments would, it is one if a blank is before it.
fn is_mute(line: &[u8]) -> bool {
    match line {
        [] | [b'\t', ..] | [b'#'] | [b'#', b' ' | b'\t' | b'#', ..] => true,
        [b'#', ..] => Line::parse(line).is_none(),
        _ => match trim_start(line) {
            [] => true,
            [b'=', b'>', b' ', ..] => Line::parse(line).is_none(),
            _ => false,
        },
    }
}

/// Without `\r`, and without the `\n\` of traces inside a JavaScript string, of which the last has but `\n`.
fn trim_line(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let line = line.strip_suffix(b"\\").unwrap_or(line);
    line.strip_suffix(b"\\n").unwrap_or(line)
}

/// Before the name of a mark; ours.
pub(super) const MARK: &str = "# mark: ";
/// In perf's words, and ours.
pub(super) const RELEASE: &str = "# os release : ";
pub(super) const ARCH: &str = "# arch : ";
/// What our own traces say of a thread.
pub(super) const THREAD: &str = "# wattif thread ";
/// And of a group.
pub(super) const GROUP: &str = "# wattif group ";
/// And of its end: behind the last event, ns.
pub(super) const END: &str = "# wattif end ";

/// `# entries-in-buffer/entries-written: 23/5023   #P:8`: how many CPUs, and what was overwritten before the trace was read.
/// perf says both in words, its release and its architecture.
fn comment(line: &[u8], builder: &mut Builder) {
    if let Some(thread) = line.strip_prefix(THREAD.as_bytes()) {
        return builder.thread(thread);
    }
    if let Some(group) = line.strip_prefix(GROUP.as_bytes()) {
        return builder.group(group);
    }
    if let Some(at) = line.strip_prefix(END.as_bytes()) {
        number(trim(at)).and_then(|at| at.try_into().ok()).into_iter().for_each(|at| builder.ends(at));
        return;
    }
    if let Some(cpu) = line.strip_prefix(b"##### CPU ") {
        builder.started = names_cpu(&String::from_utf8_lossy(cpu), builder);
        return;
    }
    if let Some(name) = line.strip_prefix(MARK.as_bytes()) {
        return builder.mark(name);
    }
    if let Some(rest) = line.strip_prefix(b"# nrcpus online : ") {
        return told_cpus(number(trim(rest)).and_then(|n| n.try_into().ok()), builder);
    }
    if let Some(rest) = line.strip_prefix(RELEASE.as_bytes()) {
        let release = trim(rest);
        builder.recording.release = Some(super::build::printable(&release[..release.len().min(64)]));
        return;
    }
    if let Some(rest) = line.strip_prefix(ARCH.as_bytes()) {
        let machine = trim(rest);
        builder.recording.machine = Some(super::build::printable(&machine[..machine.len().min(64)]));
        return;
    }
    const ENTRIES: &[u8] = b"entries-in-buffer/entries-written:";
    let Some(at) = find(line, ENTRIES) else { return };
    let text = String::from_utf8_lossy(&line[at + ENTRIES.len()..]);
    let mut words = text.split_whitespace();
    let entries = words.next().and_then(|w| w.split_once('/'));
    if let Some((Ok(kept), Ok(written))) = entries.map(|(a, b)| (a.parse::<u64>(), b.parse::<u64>()))
        && written > kept
    {
        builder.lost(Some(written - kept));
    }
    told_cpus(words.next().and_then(|w| w.strip_prefix("#P:")?.parse().ok()), builder);
}

/// How many CPUs there are.
fn told_cpus(n: Option<usize>, builder: &mut Builder) {
    if let Some(n @ 1..=4096) = n {
        (builder.recording.nr_cpus, builder.recording.cpus_told) = (n, true);
    }
}

/// Lines that say something about the trace.
fn header(line: &[u8], builder: &mut Builder) -> bool {
    let text = String::from_utf8_lossy(line);
    let text = text.trim();
    if let Some(cpus) = text.strip_prefix("cpus=") {
        told_cpus(cpus.parse().ok(), builder);
        return true;
    }
    // The kernel's "CPU:2 [LOST 123 EVENTS]", trace-cmd's "CPU:2 [123 EVENTS DROPPED]", "CPU:2 [EVENTS DROPPED]"
    if text.starts_with("CPU:") && text.ends_with("EVENTS]") | text.ends_with("DROPPED]") {
        let lost = text.split_once('[').and_then(|(_, rest)| rest.split(' ').find_map(|word| word.parse().ok()));
        builder.lost(lost);
        names_cpu(&text[4..], builder);
        return true;
    }
    is_header(line)
}

/// There is a CPU of the number that this begins with, whether events of it are left or not.
fn names_cpu(text: &str, builder: &mut Builder) -> Option<u32> {
    let digits = &text[..text.bytes().take_while(u8::is_ascii_digit).count()];
    let cpu = digits.parse::<u32>().ok().filter(|cpu| *cpu < 4096)?;
    builder.recording.nr_cpus = builder.recording.nr_cpus.max(cpu as usize + 1);
    Some(cpu)
}

fn is_header(line: &[u8]) -> bool {
    const KNOWN: [&str; 11] =
        ["version", "TRACE:", "CPU ", "CPU:", "trace-cmd", "cpus", "VMA", "uname:", "##### ", "Trace", "<!--"];
    let line = trim_start(line);
    KNOWN.iter().any(|k| line.starts_with(k.as_bytes()))
}

/// What an event is called that has no name.
const NO_NAME: &[u8] = b"(no name)";

/// One event, split.
struct Line<'a> {
    comm: &'a [u8],
    /// The name fills its column, which has no room for more.
    is_cut: bool,
    pid: i64,
    tgid: Option<i64>,
    /// It is perf's.
    perf: bool,
    place: Place,
    /// Its stamp has no fraction.
    whole: bool,
    /// The buffer it is of, where the line says it.
    buffer: &'a [u8],
    event: &'a [u8],
    fields: &'a [u8],
}

impl<'a> Line<'a> {
    fn parse(line: &'a [u8]) -> Option<Line<'a>> {
        let of = |(buffer, rest), parse: fn(&'a [u8]) -> Option<Line<'a>>| Some(Line { buffer, ..parse(rest)? });
        of(without_buffer(line, 16), bracketed).or_else(|| of(without_buffer(line, SHORT_NAME), latency_format))
    }

    fn read(&self, builder: &mut Builder) {
        builder.buffer(self.buffer);
        builder.ascending(self.place.at);
        if let Some(lost) = self.perf_lost() {
            builder.lost(lost);
            return;
        }
        match self.is_cut {
            true => builder.comm_begins(self.pid, self.comm),
            false => builder.comm(self.pid, self.comm),
        }
        if let Some(tgid) = self.tgid {
            builder.tgid(self.pid, tgid);
        }
        match kinds::find(self.event) {
            Some(row) => match numbers(row, self.fields) {
                Some((ints, strs)) => builder.row(row, self.place, &ints, &strs[..row.strs.len()]),
                None => builder.unknown(&[self.event, b" (fields not understood)"].concat()),
            },
            None => builder.unknown(self.event),
        }
    }

    /// Its id is that of a process, which says nothing of the thread; idle alone is a process of its own.
    fn forget_id(&mut self) {
        self.comm = &[];
        self.place.current = self.place.current.filter(|pid| *pid == 0);
    }

    /// perf's `PERF_RECORD_LOST lost 5`, which has no name before a colon.
    fn perf_lost(&self) -> Option<Option<u64>> {
        let rest = self.fields.strip_prefix(b"PERF_RECORD_LOST").filter(|_| self.event == NO_NAME)?;
        let word = rest.rsplit(|b| b.is_ascii_whitespace()).next()?;
        Some(number(word).and_then(|n| u64::try_from(n).ok()))
    }
}

/// `trace-cmd report` of several buffers has the name of one before each of its lines. Behind it is that of the thread in so many
/// columns; the name of a thread alone may look like it, and has no dash there.
fn without_buffer(line: &[u8], columns: usize) -> (&[u8], &[u8]) {
    let begin = line.iter().take_while(|&&b| b == b' ').count();
    let end = begin + line[begin..].iter().take_while(|&&b| b != b' ').count();
    let Some(rest) = line.get(end + 1..).filter(|_| end > begin && line[end - 1] == b':') else {
        return (&[], line);
    };
    let is_buffer = rest.get(columns) == Some(&b'-')
        && rest.get(columns + 1).is_some_and(u8::is_ascii_digit)
        && (rest[0] == b' ' || columns < 16); // no name has 16 bytes
    if is_buffer { (&line[begin..end - 1], rest) } else { (&[], line) }
}

/// `comm-pid … [cpu] flags time: event: fields`; the bracket that counts is the first that is followed by a time.
fn bracketed(line: &[u8]) -> Option<Line<'_>> {
    let mut from = 0;
    loop {
        let open = from + line[from..].iter().position(|&b| b == b'[')?;
        from = open + 1;
        let digits = line[from..].iter().take_while(|b| b.is_ascii_digit()).count();
        if digits == 0 || digits > 5 || line.get(from + digits) != Some(&b']') {
            continue;
        }
        let cpu = number(&line[from..from + digits])? as u32;
        let Some((flags, Stamp { at, whole }, rest)) = time(&line[from + digits + 1..]) else { continue };
        let Some((comm, pid, tgid, perf)) = who(&line[..open]) else { continue };
        let place = Place { at, cpu, current: u32::try_from(pid).ok(), irq: flags.and_then(irq) };
        let (event, fields) = event(rest, perf)?;
        return Some(Line { comm, is_cut: false, pid, tgid, perf, place, whole, buffer: &[], event, fields });
    }
}

/// Columns of a name in this form, from which longer ones are cut.
const SHORT_NAME: usize = 8;

/// `comm-pid 4d..2 time: event: fields`, CPU and flags in one word; raw, `4-0x11`.
fn latency_format(line: &[u8]) -> Option<Line<'_>> {
    let dash = (0..line.len()).filter(|&i| line[i] == b'-').find(|&i| {
        let pid = line[i + 1..].iter().take_while(|b| b.is_ascii_digit()).count();
        pid > 0 && line.get(i + 1 + pid) == Some(&b' ') && cpu_and_flags(&line[i + 1 + pid..]).is_some()
    })?;
    let digits = line[dash + 1..].iter().take_while(|b| b.is_ascii_digit()).count();
    let pid = number(&line[dash + 1..dash + 1 + digits])?;
    let (cpu, irq, rest) = cpu_and_flags(&line[dash + 1 + digits..])?;
    let (_, Stamp { at, whole }, rest) = time(rest)?;
    let (event, fields) = event(rest, false)?;
    let place = Place { at, cpu, current: u32::try_from(pid).ok(), irq };
    let is_cut = dash == SHORT_NAME && line[0] != b' ';
    Some(Line {
        comm: trim(&line[..dash]),
        is_cut,
        pid,
        tgid: None,
        perf: false,
        place,
        whole,
        buffer: &[],
        event,
        fields,
    })
}

fn cpu_and_flags(rest: &[u8]) -> Option<(u32, Option<bool>, &[u8])> {
    let rest = trim_start(rest);
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let word = rest.iter().take_while(|b| !b.is_ascii_whitespace()).count();
    let flags = &rest[digits.min(word)..word];
    let irq = match flags.strip_prefix(b"-") {
        Some(raw) if raw.starts_with(b"0x") => Some(number(raw)? & IN_IRQ != 0),
        _ if (4..=RT_FLAGS).contains(&flags.len()) && is_flags(flags) => irq(flags),
        _ => return None,
    };
    let cpu = number(&rest[..digits]).filter(|_| digits <= 5)? as u32;
    time(&rest[word..]).is_some().then_some((cpu, irq, &rest[word..]))
}

/// Of `common_flags`: in a hard or a soft interrupt.
const IN_IRQ: i64 = 0x18;

/// So many flags PREEMPT_RT prints before mainline has it, and no other kernel does: it has need-resched-lazy after need-resched, and
/// preempt-lazy-depth after the preempt depth.
const RT_FLAGS: usize = 7;

/// irqs-off, need-resched, hard or soft interrupt, preempt depth, migrate-disable.
fn is_flags(word: &[u8]) -> bool {
    word.iter().all(|b| matches!(b, b'.' | b'd' | b'D' | b'X' | b'b' | b'B' | b'N' | b'n' | b'p' | b'L' | b'l' | b'h' | b'H' | b'z' | b'Z' | b's' | b'a'..=b'f' | b'0'..=b'9'))
}

/// Third flag, PREEMPT_RT's fourth: `h` hard, `s` soft, `H` hard in soft, `z`, `Z` NMI, `.` none.
fn irq(flags: &[u8]) -> Option<bool> {
    let place = if flags.len() == RT_FLAGS { 3 } else { 2 };
    flags.get(place).map(|f| matches!(f, b'h' | b'H' | b's' | b'z' | b'Z'))
}

/// The column of flags, where a line has one.
type Flags<'t> = Option<&'t [u8]>;

/// Optional flags or perf's `misc`, then `seconds.fraction:` or whole ns; the rest after the colon.
fn time(rest: &[u8]) -> Option<(Flags<'_>, Stamp, &[u8])> {
    let rest = trim_start(rest);
    if let Some((at, rest)) = stamp(rest) {
        return Some((None, at, rest));
    }
    let word = rest.iter().take_while(|b| !b.is_ascii_whitespace()).count();
    let is_misc = (1..=6).contains(&word) && rest[..word].iter().all(|b| b"KUHGgMESp".contains(b));
    let flags = (3..=8).contains(&word) && is_flags(&rest[..word]);
    if !flags && !is_misc {
        return None;
    }
    let (at, after) = stamp(trim_start(&rest[word..]))?;
    Some((flags.then_some(&rest[..word]), at, after))
}

/// When, ns; of whole numbers nobody knows of what.
struct Stamp {
    at: u64,
    whole: bool,
}

fn stamp(rest: &[u8]) -> Option<(Stamp, &[u8])> {
    let mut seconds = 0u64;
    let mut i = 0;
    while let Some(d) = rest.get(i).filter(|b| b.is_ascii_digit()) {
        seconds = seconds.checked_mul(10)?.checked_add(u64::from(d - b'0'))?;
        i += 1;
    }
    if i == 0 {
        return None;
    }
    if rest.get(i) == Some(&b':') {
        return Some((Stamp { at: seconds, whole: true }, &rest[i + 1..])); // a clock that counts, such as the raw one
    }
    if let Some(mark) = rest[i..].strip_prefix(b"us") {
        // How long it was until the next event: a blank, or one of `+!#*@$`.
        let after = if mark.first() == Some(&b':') { mark } else { mark.get(1..)? };
        let at = seconds.checked_mul(1_000)?;
        return Some((Stamp { at, whole: false }, after.strip_prefix(b":")?));
    }
    if rest.get(i) != Some(&b'.') {
        return None;
    }
    let (mut fraction, mut digits) = (0u64, 0);
    i += 1;
    while let Some(d) = rest.get(i).filter(|b| b.is_ascii_digit()) {
        if digits < 9 {
            fraction = fraction * 10 + u64::from(d - b'0');
            digits += 1;
        }
        i += 1;
    }
    if digits == 0 || rest.get(i) != Some(&b':') {
        return None;
    }
    let fraction = fraction * 10u64.pow(9 - digits);
    let at = seconds.checked_mul(1_000_000_000)?.checked_add(fraction)?;
    Some((Stamp { at, whole: false }, &rest[i + 1..]))
}

/// `comm-pid`, `comm-pid (tgid)` or perf's `comm pid/tid`, `comm tid`.
fn who(prefix: &[u8]) -> Option<(&[u8], i64, Option<i64>, bool)> {
    let mut prefix = trim_end(prefix);
    let mut tgid = None;
    // perf's `:-1 -1` and `:-1 -1/-1`: a thread that is gone.
    let ids = trim_start(prefix).strip_prefix(b":-1").unwrap_or_default();
    if ids.first() == Some(&b' ') && matches!(trim_start(ids), b"-1" | b"-1/-1") {
        return Some((b"", -1, None, true));
    }
    if prefix.last() == Some(&b')') {
        let open = prefix.iter().rposition(|&b| b == b'(')?;
        tgid = number(trim(&prefix[open + 1..prefix.len() - 1]));
        prefix = trim_end(&prefix[..open]);
    }
    let digits = prefix.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let start = prefix.len() - digits;
    let pid = number(&prefix[start..])?;
    // perf without comm, which pads short ids alone.
    let Some(before) = prefix[..start].last() else { return Some((b"", pid, None, true)) };
    match before {
        b'-' if start >= 2 || start == 1 => Some((trim(&prefix[..start - 1]), pid, tgid, false)),
        b' ' | b'\t' => Some((trim(&prefix[..start]), pid, None, true)),
        b'/' => {
            let before = &prefix[..start - 1];
            let digits = before.iter().rev().take_while(|b| b.is_ascii_digit()).count();
            let tgid = number(&before[before.len() - digits..])?;
            Some((trim(&before[..before.len() - digits]), pid, Some(tgid), true))
        }
        _ => None,
    }
}

/// `event: fields`; perf's name has its group before it and may follow a period, trace-cmd's the time since the last event.
fn event(rest: &[u8], perf: bool) -> Option<(&[u8], &[u8])> {
    let mut rest = trim_start(rest);
    if let Some(since) = rest.strip_prefix(b"(+") {
        let digits = since.iter().take_while(|b| b.is_ascii_digit()).count();
        rest = trim_start(since[digits..].strip_prefix(b")").unwrap_or(rest));
    }
    if perf {
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        if digits > 0 && rest.get(digits).is_some_and(u8::is_ascii_whitespace) {
            rest = trim_start(&rest[digits..]);
        }
    }
    let end = rest.iter().position(|b| b.is_ascii_whitespace()).unwrap_or(rest.len());
    let word = &rest[..end];
    let Some(name) = word.strip_suffix(b":") else { return Some((NO_NAME, rest)) };
    let name = match name.iter().rposition(|&b| b == b':') {
        Some(group) => &name[group + 1..],
        None => name,
    };
    Some((name, trim(&rest[end..])))
}

pub(super) type Fields<'a> = ([i64; INTS], [&'a [u8]; 2]);

/// The numbers of a row; `None` when they are not there. A name may look like the key that the other form begins with.
fn numbers<'a>(row: &Row, fields: &'a [u8]) -> Option<Fields<'a>> {
    let begins_with = |key: &[u8]| starts_with_key(fields, key);
    match row.kind {
        Kind::Switch if begins_with(b"prev_comm") => by_key(row, fields).or_else(|| switch_by_plugin(fields)),
        Kind::Switch => switch_by_plugin(fields).or_else(|| by_key(row, fields)),
        Kind::Wakeup | Kind::Waking | Kind::WakeupNew if begins_with(b"comm") => {
            by_key(row, fields).or_else(|| wakeup_by_plugin(fields))
        }
        Kind::Wakeup | Kind::Waking | Kind::WakeupNew => wakeup_by_plugin(fields).or_else(|| by_key(row, fields)),
        _ => by_key(row, fields),
    }
}

/// `comm:pid [prio] S ==> comm:pid [prio]`.
fn switch_by_plugin(fields: &[u8]) -> Option<Fields<'_>> {
    // A name may hold arrows, but has 64 bytes at most.
    let arrows = fields.windows(5).enumerate().filter(|(_, w)| *w == b" ==> ").map(|(at, _)| at);
    let mut halves =
        arrows.take(16).filter_map(|at| Some((comm_pid_prio(&fields[..at])?, comm_pid_prio(&fields[at + 5..])?)));
    let ((prev_comm, prev_pid, prev_prio, state), (next_comm, next_pid, next_prio, _)) = halves.next()?;
    let state = letter_bits(trim(state));
    Some((kinds::of([prev_pid, prev_prio, state, next_pid, next_prio]), [prev_comm, next_comm]))
}

/// `comm:pid [prio] success=1 CPU:003`; some fields may be missing.
fn wakeup_by_plugin(fields: &[u8]) -> Option<Fields<'_>> {
    let (comm, pid, prio, rest) = comm_pid_prio(fields)?;
    let cpu = find(rest, b"CPU:").and_then(|at| {
        let digits = &rest[at + 4..];
        number(&digits[..digits.iter().take_while(|b| b.is_ascii_digit()).count()])
    });
    let success = i64::from(find(rest, b"success=0").or(find(rest, b"failed")).is_none());
    Some((kinds::of([pid, prio, cpu.unwrap_or(0), success]), [comm, &[]]))
}

/// `comm:pid [prio] rest`; the name may hold colons and brackets, so the last place that fits counts.
fn comm_pid_prio(text: &[u8]) -> Option<(&[u8], i64, i64, &[u8])> {
    let mut at = text.len();
    for _ in 0..64 {
        let open = text[..at].windows(2).rposition(|w| w == b" [")?;
        at = open + 1;
        let Some(close) = text[open..].iter().position(|&b| b == b']').map(|i| open + i) else { continue };
        let Some(prio) = number(&text[open + 2..close]) else { continue };
        let Some(colon) = text[..open].iter().rposition(|&b| b == b':') else { continue };
        if let Some(pid) = number(&text[colon + 1..open]) {
            return Some((trim(&text[..colon]), pid, prio, &text[close + 1..]));
        }
    }
    None
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|w| w == what)
}

/// Decimal with sign, or hexadecimal with `0x`.
pub(super) fn number(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (base, digits) = match digits.strip_prefix(b"0x") {
        Some(hex) => (16, hex),
        None => (10, digits),
    };
    if digits.is_empty() || digits.len() > 20 {
        return None;
    }
    let mut n = 0u64;
    for &d in digits {
        n = n.checked_mul(base)?.checked_add(u64::from((d as char).to_digit(base as u32)?))?;
    }
    // Above i64::MAX as the kernel prints u64: wraps.
    Some(if negative { (n as i64).wrapping_neg() } else { n as i64 })
}

pub(super) fn trim(text: &[u8]) -> &[u8] {
    trim_end(trim_start(text))
}
fn trim_start(text: &[u8]) -> &[u8] {
    let skip = text.iter().take_while(|b| b.is_ascii_whitespace()).count();
    &text[skip..]
}
fn trim_end(text: &[u8]) -> &[u8] {
    let skip = text.iter().rev().take_while(|b| b.is_ascii_whitespace()).count();
    &text[..text.len() - skip]
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattif_model::trace::{Event, PrevState, Recorded, Recording};
    use wattif_model::{CpuId, Pid};

    fn one(line: &str) -> Recording {
        let mut b = Builder::default();
        read(line.as_bytes(), 1, &mut b);
        b.finish("text").0
    }
    /// Stamp, CPU, who ran, event.
    fn check(line: &str, at: u64, cpu: u32, current: u32, event: Event) {
        let r = one(line);
        assert_eq!(r.records.len(), 1, "{line}: {r:?}");
        let rec = &r.records[0];
        assert_eq!((r.zero_ns, rec.cpu, rec.current), (at, CpuId(cpu), Some(Pid(current))), "{line}");
        assert_eq!(rec.event, Recorded::Event(event), "{line}");
    }
    fn switch(prev: u32, state: PrevState, next: u32) -> Event {
        Event::SchedSwitch {
            prev_pid: Pid(prev),
            prev_prio: 120,
            prev_state: state,
            next_pid: Pid(next),
            next_prio: 120,
        }
    }
    fn wakeup(pid: u32, cpu: u32) -> Event {
        Event::SchedWakeup { pid: Pid(pid), prio: 120, target_cpu: CpuId(cpu), in_irq: true }
    }

    #[test]
    fn variants() {
        use PrevState::*;
        let raw = "prev_comm=trace-cmd prev_pid=1701 prev_prio=120 prev_state=64 next_comm=swapper/1 next_pid=0 next_prio=120";
        check(
            &format!("  <...>-1701  [001]    76.211513: sched_switch:   {raw}"),
            76_211_513_000,
            1,
            1701,
            switch(1701, Dead, 0),
        );
        let letter =
            "prev_comm=a b prev_pid=5 prev_prio=120 prev_state=R+ ==> next_comm=c-3 [x] next_pid=6 next_prio=120";
        check(
            &format!("a b-5 (  611) [001] d..3 514769.086139: sched_switch: {letter}"),
            514_769_086_139_000,
            1,
            5,
            switch(5, Running, 6),
        );
        check(
            &format!("a b-5     5d..2.    86.000000005: sched_switch: {letter}"),
            86_000_000_005,
            5,
            5,
            switch(5, Running, 6),
        );
        check(
            &format!("a b     5/5     [003] 264874.155353:    1 sched:sched_switch: {letter}"),
            264_874_155_353_000,
            3,
            5,
            switch(5, Running, 6),
        );
        check(
            &format!("a b 5 [003] 264874.155353: sched:sched_switch: {letter}"),
            264_874_155_353_000,
            3,
            5,
            switch(5, Running, 6),
        );
        check(
            "x-1-7 [004] 86.1: sched_switch: kworker/4:1:198 [120] W ==> a [1] b:9 [120]",
            86_100_000_000,
            4,
            7,
            switch(198, Sleeping, 9),
        );
        check(
            "a b-5 [001] 86.1: (+1480)  sched_switch: a b:5 [120] S ==> c:6 [120]",
            86_100_000_000,
            1,
            5,
            switch(5, Sleeping, 6),
        );
        check("<idle>-0 [004] 86.1: sched_wakeup: kworker/4:1:198 [120] CPU:004", 86_100_000_000, 4, 0, wakeup(198, 4));
        check(
            "<idle>-0 [002] 76.2: sched_wakeup: comm=sh pid=1642 prio=120 success=1 target_cpu=002",
            76_200_000_000,
            2,
            0,
            wakeup(1642, 2),
        );
        check(
            "<idle>-0 [002] 76.2: cpu_idle: state=4294967295 cpu_id=2",
            76_200_000_000,
            2,
            0,
            Event::CpuIdle { state: Event::IDLE_EXIT },
        );
        check(
            "atrace-1 [000] 5.000001: sched_switch: prev_comm=atrace prev_pid=1 prev_prio=120 prev_state=D|K ==> next_comm=k next_pid=2 next_prio=120\\n\\",
            5_000_001_000,
            0,
            1,
            switch(1, DiskSleep, 2),
        );
        check(
            "a-1 [000] 5.1: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=k next_pid=2 next_prio=120\\n",
            5_100_000_000,
            0,
            1,
            switch(1, Sleeping, 2),
        );
    }

    #[test]
    fn names_processes_and_flags() {
        let r = one(
            "Render Thread-1143  (  611) [004] ..s1 5.0: sched_waking: comm=Binder:5 [a] pid=679 prio=120 target_cpu=001\n",
        );
        assert_eq!(
            (r.comm(Pid(1143)), r.comm(Pid(679)), r.threads[&1143].tgid),
            ("Render Thread", "Binder:5 [a]", 611)
        );
        assert!(r.has_irq_flags);
        assert!(matches!(r.records[0].event, Recorded::Event(Event::SchedWaking { in_irq: true, .. })));
        for (flags, irq) in [("4-0x11", true), ("4-0x8", true), ("4-0x1", false)] {
            let r = one(&format!("a-b-1  {flags} 5.000000: sched_waking: comm=b pid=2 prio=120 target_cpu=1\n"));
            assert_eq!((r.records[0].cpu, r.comm(Pid(1))), (CpuId(4), "a-b"));
            let waking = Event::SchedWaking { pid: Pid(2), prio: 120, target_cpu: CpuId(1), in_irq: irq };
            assert_eq!(r.records[0].event, Recorded::Event(waking), "{flags}");
        }
        // PREEMPT_RT's seven, of which the fourth is the interrupt; mainline's five.
        for (flags, irq) in [("dn.h2..", true), ("d..h3..", true), ("d...2..", false), ("d.h3.", true)] {
            for place in [format!("[004] {flags}"), format!(" 4{flags}")] {
                let r = one(&format!("a-b-1  {place} 5.000000: sched_waking: comm=b pid=2 prio=120 target_cpu=1\n"));
                let waking = Event::SchedWaking { pid: Pid(2), prio: 120, target_cpu: CpuId(1), in_irq: irq };
                assert_eq!((r.records[0].cpu, r.records[0].event), (CpuId(4), Recorded::Event(waking)), "{place}");
            }
        }
        let r = one("a-1 [004] ...1 5.0: sched_waking: comm=b pid=2 prio=120 target_cpu=001\n");
        assert!(matches!(r.records[0].event, Recorded::Event(Event::SchedWaking { in_irq: false, .. })));
    }

    #[test]
    fn lost_unknown_and_failed() {
        let r = one(
            "CPU:2 [LOST 123 EVENTS]\ncpus=6\na-1 [000] 1.0: foo: bar=1\na-1 [000] 1.0: sched_wakeup: comm=b pid=2 prio=9 success=0 target_cpu=0\n",
        );
        assert_eq!((r.lost_events, r.lost_gaps, r.nr_cpus, r.unknown["foo"], r.records.len()), (123, 1, 6, 1, 0));
    }

    #[test]
    fn names_that_look_like_fields() {
        let named = |line: &str| {
            let r = one(line);
            assert_eq!(r.records.len(), 1, "{line}");
            [5, 6].map(|pid| r.comm(Pid(pid)).to_string())
        };
        let keyed = "prev_comm=a b=c ==> d:1 prev_pid=5 prev_prio=120 prev_state=S ==> next_comm=e f=g next_pid=6 next_prio=120";
        let plugin = "a b=c ==> d:1:5 [120] S ==> e f=g:6 [120]";
        for fields in [keyed, plugin] {
            assert_eq!(
                named(&format!("a b=c ==> d:1-5 [000] 1.0: sched_switch: {fields}\n")),
                ["a b=c ==> d:1", "e f=g"]
            );
        }
        assert_eq!(named("x-1 [000] 1.0: sched_waking: comm=pid=7 pid=5 prio=120 target_cpu=1\n"), ["pid=7", "<...>"]);
        for comm in ["a pid=7", "pid=7 prio=3", "comm=a pid=7", "prev_comm=a"] {
            assert_eq!(named(&format!("x-1 [000] 1.0: sched_wakeup: {comm}:5 [120] CPU:001\n")), [comm, "<...>"]);
            assert_eq!(
                named(&format!("x-1 [000] 1.0: sched_switch: {comm}:5 [120] S ==> {comm}:6 [120]\n")),
                [comm, comm]
            );
        }
    }

    #[test]
    fn a_name_that_begins_as_a_comment_does() {
        let waking = "[000] 1.0: sched_waking: comm=b pid=2 prio=120 target_cpu=0";
        let r = one(&format!("#long name of a thread-1 {waking}\n# comment-3 {waking}\n#\n#x\n"));
        assert_eq!((r.records.len(), r.comm(Pid(1)), r.comm(Pid(3))), (1, "#long name of a thread", "<...>"));
    }

    #[test]
    fn buffers_before_the_threads() {
        let waking = "sched_waking: comm=b pid=2 prio=120 target_cpu=0";
        let name = |line: String| {
            let r = one(&line);
            assert_eq!(r.records.len(), 1, "{line}");
            r.comm(Pid(101)).to_string()
        };
        for buffer in ["power: ", "       ", "  a-b.1: "] {
            for comm in ["kworker/0:1", "a: b", "x"] {
                assert_eq!(name(format!("{buffer}{comm:>16}-101   [000]  100.005100: {waking}\n")), comm);
            }
            assert_eq!(name(format!("{buffer} kworker-101   0d...  100.005100: {waking}\n")), "kworker");
        }
        for comm in ["power: x", "power:         x", "power: a b of more columns"] {
            assert_eq!(name(format!("{comm:>16}-101   [000]  100.005100: {waking}\n")), comm);
        }
    }

    #[test]
    fn several_buffers_of_the_same_events() {
        let waking = "sched_waking: comm=b pid=2 prio=120 target_cpu=0";
        let line =
            |buffer: &str, at: u32, event: &str| format!("{buffer:>6} {:>16}-101   [000]  100.{at:06}: {event}\n", "a");
        let idle = "cpu_idle: state=1 cpu_id=0";
        let text = line("", 1, idle) + &line("sched:", 2, waking) + &line("", 3, waking) + &line("sched:", 4, waking);
        let mut b = Builder::default();
        read(text.as_bytes(), 1, &mut b);
        let (r, said) = b.finish("text");
        assert_eq!(r.records.iter().map(|r| r.at.0).collect::<Vec<_>>(), [0, 1_000, 3_000]);
        let more = "events of 2 buffers are read together: the main one, sched; 1 of kinds that another holds more of on that CPU are left out";
        assert_eq!(said.iter().map(|d| d.message.as_str()).collect::<Vec<_>>(), [more]);
    }

    /// The first column has room for 8 characters there.
    #[test]
    fn names_that_are_cut() {
        let named = |lines: &[(&str, &str)]| {
            let line = |(before, after): &(&str, &str)| {
                format!("{before:>8.8}-5       0d..2.  1.000000: sched_switch: {after}:5 [120] S ==> b:6 [120]\n")
            };
            let waking = |(before, _): &(&str, &str)| {
                format!("{before:>8.8}-5       0d..2.  2.000000: sched_waking: comm=c pid=7 prio=120 target_cpu=0\n")
            };
            let all: String = lines.iter().map(line).chain(lines.last().map(waking)).collect();
            one(&all).comm(Pid(5)).to_string()
        };
        assert_eq!(named(&[("surfaceflinger", "surfaceflinger")]), "surfaceflinger");
        assert_eq!(named(&[("Binder: 1234", "Binder: 1234")]), "Binder: 1234", "cut at a blank");
        assert_eq!(named(&[("kthreadd", "kthreadd")]), "kthreadd");
        // A whole name is another one that the same letters begin.
        assert_eq!(named(&[("sh2", "sh2"), ("sh", "sh2")]), "sh");
        assert_eq!(named(&[("surfaceflinger", "surfaceflinger"), ("RenderThread", "RenderThread")]), "RenderThread");
    }

    #[test]
    fn the_kernels_latency_format() {
        for (stamp, at) in [(" 100us :", 100_000), ("   0us!:", 0), ("12us+:", 12_000), ("7us:", 7_000)] {
            let line = format!("  bash-123     3dNh7.  {stamp} sched_waking: comm=a b pid=5 prio=120 target_cpu=003\n");
            let waking = Event::SchedWaking { pid: Pid(5), prio: 120, target_cpu: CpuId(3), in_irq: true };
            check(&line, at, 3, 123, waking);
        }
    }

    #[test]
    fn perf_with_misc() {
        use PrevState::Sleeping;
        for misc in ["K     ", "U     ", "KUH   ", "KGg   "] {
            let fields = "prev_comm=my app 1 prev_pid=5 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120";
            let line = format!("my app 1     5 [001] {misc}  100.000100:       sched:sched_switch: {fields}\n");
            check(&line, 100_000_100_000, 1, 5, switch(5, Sleeping, 0));
            assert_eq!(one(&line).comm(Pid(5)), "my app 1");
        }
    }

    #[test]
    fn deadline_and_the_highest_of_fifo() {
        let of = |prio: i32| {
            let waking = format!("x-1 [000] 1.0: sched_waking: comm=a pid=5 prio={prio} target_cpu=1\n");
            let r = one(&waking);
            assert!(matches!(r.records[0].event(), Some(Event::SchedWaking { prio: 0, .. })));
            r.threads[&5].policy
        };
        assert_eq!((of(-1), of(0)), (Some("SCHED_DEADLINE"), None));
    }

    #[test]
    fn what_comments_say() {
        let r = one(
            "# ========\n# os release : 6.1.0-13-amd64\n# arch : x86_64\n# nrcpus online : 4\n# nrcpus avail : 8\n# mark: frame 1\n\
             a 1 [000] 1.0: sched:sched_waking: comm=b pid=2 prio=9 target_cpu=0\n",
        );
        assert_eq!(
            (r.nr_cpus, r.release.as_deref(), r.machine.as_deref(), &r.marks[..]),
            (4, Some("6.1.0-13-amd64"), Some("x86_64"), &["frame 1".into()][..])
        );
    }

    #[test]
    fn clocks_of_old_kernels() {
        let said = |line: &str| {
            let mut b = Builder::default();
            let clock = "a-1 [000] 1.0: clock_set_rate: a53_clk state=1209600000 cpu_id=0\n";
            read(format!("{clock}{line}").as_bytes(), 1, &mut b);
            b.finish("text").1.iter().map(|f| f.code).collect::<Vec<_>>()
        };
        assert_eq!(said(""), ["trace::N01", "trace::N04"]);
        assert_eq!(said("a-1 [000] 1.0: cpu_frequency: state=1209600 cpu_id=0\n"), ["trace::N01"]);
    }

    #[test]
    fn stamps_that_may_count_anything() {
        let said = |stamp: &str| {
            let mut b = Builder::default();
            let line = format!("a-1 [000] {stamp}: sched_waking: comm=b pid=2 prio=9 target_cpu=0\n");
            read(line.repeat(2).as_bytes(), 1, &mut b);
            b.findings.iter().map(|f| f.code).collect::<Vec<_>>()
        };
        assert_eq!((said("100000000123"), said("100.000123")), (vec!["trace::W05"], vec![]));
    }

    #[test]
    fn losses_as_each_tool_tells_them() {
        let check = |text: &str, gaps, lost| {
            let r = one(text);
            assert_eq!((r.lost_gaps, r.lost_events, r.unknown.len()), (gaps, lost, 0), "{text}");
            r
        };
        let named = check("CPU:1 [123 EVENTS DROPPED]\n", 1, 123);
        assert_eq!((named.nr_cpus, named.cpus_told), (2, false));
        assert_eq!(check("##### CPU 5 buffer started ####\nCPU:99999 [LOST 1 EVENTS]\n", 1, 1).nr_cpus, 6);
        check("CPU:1 [EVENTS DROPPED]\n", 1, 0);
        check("swapper     0 [000]   100.020020: PERF_RECORD_LOST lost 5\n", 1, 5);
        let r = check("# tracer: nop\n#\n# entries-in-buffer/entries-written: 23/5023   #P:8\n#\n", 1, 5000);
        assert_eq!((r.nr_cpus, r.cpus_told), (8, true));
        check("# entries-in-buffer/entries-written: 23/23   #P:8\n# entries-in-buffer/entries-written:\n", 0, 0);
    }

    /// CPU 0 from the beginning, CPU 1 from 9 s on, of 10.
    #[test]
    fn buffers_that_begin_one_after_another() {
        let line = |at: u64, cpu: u64, prev: &str| {
            let switch = format!("prev_comm=a prev_pid={prev} prev_prio=120 prev_state=S ==> next_comm=b next_pid=6");
            format!("a-{prev} [00{cpu}] d..2. {}.{:03}: sched_switch: {switch} next_prio=120\n", at / 1_000, at % 1_000)
        };
        let read = |marker: &str, prev: &str, busy: bool| {
            let early = (1..900).map(|k| line(k * 10, 0, "5"));
            let late =
                (900..=1_000).map(|k| line(k * 10, u64::from(k % 2 == 0 || busy), if k == 900 { prev } else { "7" }));
            let (early, late): (String, String) = (early.collect(), late.collect());
            let mut b = Builder::default();
            super::read([&line(0, 0, "5"), &early, marker, &late].concat().as_bytes(), 1, &mut b);
            let (r, said) = b.finish("text");
            let said: Vec<_> = said.into_iter().filter(|d| d.code == "trace::W08").map(|d| d.message).collect();
            (r.records.len(), r.zero_ns, said)
        };
        let marker = "##### CPU 1 buffer started ####\n";
        let whole = (1_001, 0, vec![]);
        assert_eq!(read("", "7", true), whole);
        let (n, zero_ns, said) = read(marker, "7", true);
        assert_eq!((n, zero_ns), (101, 9_000_000_000));
        let told = "the buffers of the CPUs begin one after another, that of CPU 1 last: the first 9.000 s of 10.000 s are left out, 900 events";
        assert_eq!(said, [told]);
        assert_eq!(read(marker, "0", false), whole, "it slept, and has few events: it was silent");
        assert_eq!(read("##### CPU 0 buffer started ####\n", "7", true), whole, "of another CPU than the next event's");
    }

    /// CPU 2 sleeps in state 3 and runs at 500 MHz since 1 s, CPU 3 has woken up; of CPU 1 the file tells from 2 s on.
    #[test]
    fn clocks_and_sleeps_from_before_the_last_buffer() {
        let line = |at: u64, cpu: u64, event: &str| format!("a-5 [00{cpu}] d..2. {at}.0: {event}\n");
        let switch = |at: u64, cpu: u64, next: u32| {
            line(
                at,
                cpu,
                &format!(
                    "sched_switch: prev_comm=a prev_pid=5 prev_prio=120 prev_state=S ==> next_comm=b next_pid={next} next_prio=120"
                ),
            )
        };
        let early = [
            line(0, 2, "cpu_frequency: state=900000 cpu_id=2"),
            line(0, 3, "cpu_idle: state=1 cpu_id=3"),
            line(1, 0, "cpu_frequency: state=500000 cpu_id=2"),
            switch(1, 2, 0),
            line(1, 2, "cpu_idle: state=3 cpu_id=2"),
            line(1, 3, "cpu_idle: state=4294967295 cpu_id=3"),
            switch(1, 0, 6),
            // Its end is lost.
            line(1, 4, "cpu_idle: state=2 cpu_id=4"),
            switch(1, 4, 6),
        ];
        let late = ["##### CPU 1 buffer started ####\n".into(), switch(2, 1, 6), switch(3, 1, 6)];
        let r = one(&[early.concat(), late.concat()].concat());
        let told: Vec<_> = r.records.iter().map(|r| (r.at.0 / 1_000_000_000, r.cpu.0, r.current, r.event)).collect();
        let clock = Recorded::CpuFrequency { cpu: CpuId(2), khz: 500_000 };
        let sleep = Recorded::Event(Event::CpuIdle { state: 3 });
        assert_eq!(told[..2], [(0, 0, Some(Pid(6)), clock), (0, 2, Some(Pid(0)), sleep)]);
        assert_eq!((r.zero_ns, told.len()), (2_000_000_000, 4));
    }

    #[test]
    fn a_thread_that_is_gone_for_perf() {
        let switch =
            "prev_comm=foo prev_pid=77 prev_prio=120 prev_state=X ==> next_comm=swapper/0 next_pid=0 next_prio=120";
        for who in [":-1    -1", "     :-1    -1/-1"] {
            let r =
                one(&format!("init 1 [000] 1.0: sched:x:\n{who} [000]   100.014020: sched:sched_switch: {switch}\n"));
            assert_eq!((r.comm(Pid(1)), r.records[0].current), ("init", None), "{who}");
        }
    }

    /// Thread 6 of process 5 wakes thread 7 of it.
    #[test]
    fn perf_with_the_ids_of_processes() {
        let line = |id: u32, comm: &str, at: u32, event: &str| format!("{comm} {id} [000] 1.{at:06}: sched:{event}\n");
        let switch = |at: u32, id: u32, prev: (&str, u32), next: (&str, u32)| {
            let fields = format!(
                "prev_comm={} prev_pid={} prev_prio=120 prev_state=S ==> next_comm={} next_pid={} next_prio=120",
                prev.0, prev.1, next.0, next.1
            );
            line(id, prev.0, at, &format!("sched_switch: {fields}"))
        };
        let threads = [("swapper", 0), ("worker", 6), ("other", 7), ("main", 5)];
        let read = |id: fn(u32) -> u32, rounds: u32| {
            let round = |k: u32| {
                let switches = (0..4).map(|i| {
                    let (prev, next) = (threads[i], threads[(i + 1) % 4]);
                    let at = k * 100 + i as u32 * 10;
                    let waking = line(id(next.1), next.0, at + 5, "sched_waking: comm=x pid=9 prio=120 target_cpu=000");
                    switch(at, id(prev.1), prev, next) + &waking
                });
                switches.collect::<String>()
            };
            let mut b = Builder::default();
            super::read((0..rounds).map(round).collect::<String>().as_bytes(), 1, &mut b);
            let (r, said) = b.finish("text");
            (r, said.iter().filter(|d| d.code == "trace::N08").count())
        };
        let (of_threads, said) = read(|pid| pid, 4);
        assert_eq!((said, of_threads.comm(Pid(5)), of_threads.comm(Pid(7))), (0, "main", "other"));
        let process = |pid| if pid == 0 { 0 } else { 5 };
        assert_eq!(read(process, 4), (of_threads, 1));
        assert_eq!(read(process, 1).1, 0, "two switches may be accidents");
    }

    #[test]
    fn perf_without_names() {
        for (line, pid) in [("29888 [000]", 29_888), ("   18 [000]", 18), ("29888/29889 [000]", 29_889)] {
            let waking = Event::SchedWaking { pid: Pid(7), prio: 120, target_cpu: CpuId(1), in_irq: false };
            let fields = "sched:sched_waking: comm=a pid=7 prio=120 target_cpu=001";
            check(&format!("{line} 52393.779656:       {fields}"), 52_393_779_656_000, 0, pid, waking);
        }
    }

    #[test]
    fn a_file_that_is_not_understood() {
        let event = "app-5 [001] 2.0: sched_waking: comm=b pid=6 prio=120 target_cpu=001\n";
        let said = |strange: usize| {
            let mut b = Builder::default();
            read((event.repeat(7) + &"5 on CPU 1\n".repeat(strange)).as_bytes(), 1, &mut b);
            let last = b.finish("text").1.pop().expect("it says something");
            (last.code, last.message)
        };
        assert_eq!(said(7), ("trace::N02", "2 more lines are not events".into()));
        let most = "8 lines are not understood, which is most of them: 7 are events";
        assert_eq!(said(8), ("trace::W06", most.into()));
    }

    /// The trace goes on when the last event that is kept has come.
    #[test]
    fn until_the_last_stamp() {
        let line = |at: &str, event: &str| format!("a-5 [001] {at}: {event}: comm=b pid=6 prio=120 target_cpu=001\n");
        let end = |last: &str| {
            let all = [line("2.0", "sched_waking"), line("2.5", "sched_waking"), line(last, "vendor_event")];
            let r = one(&all.concat());
            (r.end.0, r.records.len())
        };
        assert_eq!(end("3.25"), (1_250_000_000, 2));
        assert_eq!(end("2.25"), (500_000_000, 2));
        assert_eq!(end("9999.0"), (500_000_000, 2), "of another time");
    }

    /// 0x40 is a dead thread before Linux 4.14; 0x200 is a preempted one before Linux 3.9.
    #[test]
    fn raw_states_by_release() {
        for (release, raw, state) in [
            ("", 0x40, PrevState::Dead),
            ("# os release : 4.9.270-perf\n", 0x40, PrevState::Dead),
            ("# os release : 4.14.190\n", 0x40, PrevState::Sleeping),
            ("# os release : 6.1.75-android14\n", 0x40, PrevState::Sleeping),
            ("", 0x200, PrevState::Sleeping),
            ("# os release : 3.8.13\n", 0x200, PrevState::Running),
            ("# os release : 3.8.13\n", 0x201, PrevState::Sleeping),
            ("# os release : 4.9.270-perf\n", 0x200, PrevState::Sleeping),
            ("# os release : 4.9.270-perf\n", 0x400, PrevState::Running),
        ] {
            let raw = format!("prev_pid=5 prev_prio=120 prev_state={raw} next_comm=b next_pid=6 next_prio=120");
            let line = format!("a-5 [001] 2.0: sched_switch: prev_comm=a {raw}\n");
            check(&format!("{release}{line}"), 2_000_000_000, 1, 5, switch(5, state, 6));
        }
    }

    #[test]
    fn lines_that_are_no_events() {
        let mut b = Builder::default();
        read(b"<!-- BEGIN TRACE -->\n  \t \n\tffff some_function+0x0\nwhat\n", 587, &mut b);
        let said: Vec<String> = b.findings.into_iter().map(|f| f.message).collect();
        assert_eq!(said, ["line 590: not an event: `what`"]);
    }

    /// As the kernel and as trace-cmd print them.
    #[test]
    fn stacks_of_the_kernel() {
        let event = "app-5 [001] 2.0: sched_waking: comm=b pid=6 prio=120 target_cpu=001\n";
        let frames = [" => schedule\n", "=> schedule (ffffffff81000000)\n"].map(|frame| frame.repeat(30)).concat();
        let mut b = Builder::default();
        read(format!("{event}app-5 [001] 2.0: <stack trace>\n{frames}").as_bytes(), 1, &mut b);
        let said: Vec<_> = b.finish("text").1.into_iter().map(|f| f.message).collect();
        assert_eq!(said, ["1 events of other kinds were skipped: `(no name)` 1"]);
        assert!(probe(format!("{}{event}", frames.repeat(10)).as_bytes()));
        let named = event.replace("app", " => app");
        assert_eq!(one(&named).comm(Pid(5)), "=> app");
    }

    #[test]
    fn stray_numbers() {
        assert_eq!(number(b"18446744073709551615"), Some(-1));
        assert_eq!(number(b"99999999999999999999"), None);
        assert_eq!((number(b"0x10"), number(b"-5"), number(b""), number(b"-")), (Some(16), Some(-5), None, None));
    }
}
