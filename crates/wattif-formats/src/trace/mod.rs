//! Traces of real machines and of simulations: bytes in, a [`Recording`] and findings out; and back.
//!
//! The format is sniffed from the content, never guessed from a name. A truncated file yields what it holds.
//!
//! | code | about |
//! |---|---|
//! | `trace::E01` | the content is in no known format |
//! | `trace::E02` | a limit is exceeded |
//! | `trace::E03` | the file is damaged where nothing can be read without it |
//! | `trace::W01` | the recorder lost events |
//! | `trace::W02` | stamps go backwards, or are an hour from all others |
//! | `trace::W03` | events of impossible CPUs |
//! | `trace::W04` | the file is truncated or damaged: what follows is lost |
//! | `trace::W05` | stamps may not be ns, or are of several clocks |
//! | `trace::W06` | most lines of a text are not understood |
//! | `trace::W07` | the machine of the trace has fewer CPUs than the platform it is read for |
//! | `trace::W08` | the buffers of the CPUs begin one after another: what is before the last of them is left out |
//! | `trace::W09` | the trace is of some CPUs of its machine: threads were sent to others |
//! | `trace::N01` | events of other kinds were skipped |
//! | `trace::N02` | lines that are no events |
//! | `trace::N03` | several buffers of a file: read together, or with stamps of other clocks and not read |
//! | `trace::N04` | frequencies may be in events that are not read |
//! | `trace::N05` | threads that had one pid after each other |
//! | `trace::N06` | who ran before the first switch of a CPU |
//! | `trace::N07` | packets of other machines are left out |
//! | `trace::N08` | the ids before events are those of processes |

#[cfg(feature = "tables")]
pub mod arrow;
mod build;
pub mod dat;
mod fields;
mod kinds;
mod lives;
pub mod markers;
mod names;
pub mod perfetto;
mod stamps;
mod text;
pub mod text_write;
mod told;
mod wrap;
mod writer;

use build::Builder;
use std::borrow::Cow;
use wattif_model::check::Diagnostic;
use wattif_model::trace::Recording;

pub use wrap::MAX_BYTES;
pub use writer::{About, Detail, Scratch, TraceWriter};

/// What came of reading a trace.
#[derive(Clone, Debug, Default)]
pub struct Read {
    /// The trace, when there is no error.
    pub recording: Option<Recording>,
    /// All findings.
    pub diagnostics: Vec<Diagnostic>,
}

/// Formats that are read, as sniffed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Text,
    Html,
    Json,
    Atrace,
    Dat,
    Perfetto,
}

/// Read a trace in whatever format; gzip and zstd around it are taken off.
pub fn read(bytes: &[u8]) -> Read {
    match Unpacked::of(bytes) {
        Ok(unpacked) => unpacked.read(),
        Err(error) => Read { recording: None, diagnostics: vec![error] },
    }
}

/// What gzip or zstd was taken off, if it was in one of them.
#[derive(Clone, Debug)]
pub struct Unpacked<'a> {
    /// What was in it.
    pub bytes: Cow<'a, [u8]>,
    /// What there is to say about that.
    pub diagnostics: Vec<Diagnostic>,
}

impl Unpacked<'_> {
    /// Takes off what is around a file.
    pub fn of(bytes: &[u8]) -> Result<Unpacked<'_>, Diagnostic> {
        let mut builder = Builder::default();
        let bytes = wrap::unwrap(bytes, &mut builder).map_err(|error| *error)?;
        Ok(Unpacked { bytes, diagnostics: builder.findings })
    }

    /// The trace that this is.
    pub fn read(self) -> Read {
        let mut builder = Builder::default();
        builder.findings.extend(self.diagnostics);
        match dispatch(&wrap::utf8(self.bytes), &mut builder) {
            Ok(format) => {
                let (recording, diagnostics) = builder.finish(format);
                Read { recording: Some(recording), diagnostics }
            }
            Err(error) => {
                let mut diagnostics = std::mem::take(&mut builder.findings);
                diagnostics.insert(0, *error);
                Read { recording: None, diagnostics }
            }
        }
    }
}

/// A finding that ends the reading.
type Refused = Box<Diagnostic>;

fn dispatch(bytes: &[u8], builder: &mut Builder) -> Result<String, Refused> {
    // What is packed may be stored as it is, and then reads as text. A text has no such bytes.
    let binary = |head: &[u8]| head.iter().any(|b| *b < b'\t');
    if let Some(packed) = packed(bytes).filter(|_| binary(&bytes[..bytes.len().min(64)])) {
        return Err(packed);
    }
    match sniff(bytes) {
        Some(Format::Text) => {
            text::read(bytes, 1, builder);
            Ok("ftrace text".into())
        }
        Some(Format::Html) => wrap::html(bytes, builder).map(|()| "systrace html".into()),
        Some(Format::Json) => wrap::json(bytes, builder).map(|()| "systrace json".into()),
        Some(Format::Atrace) => wrap::atrace(bytes, builder).map(|()| "atrace".into()),
        Some(Format::Dat) => dat::read(bytes, builder),
        Some(Format::Perfetto) => perfetto::read(bytes, builder),
        None => Err(unknown(bytes)),
    }
}

fn sniff(bytes: &[u8]) -> Option<Format> {
    let head = &bytes[..bytes.len().min(1 << 18)];
    if head.starts_with(b"\x17\x08\x44tracing") {
        return Some(Format::Dat);
    }
    if wrap::is_html(head) {
        return Some(Format::Html);
    }
    if wrap::is_atrace(head) {
        return Some(Format::Atrace);
    }
    if wrap::is_json(bytes) {
        return Some(Format::Json);
    }
    // Perfetto's first byte is that of an empty line; a text has no zeros.
    let headed = [&b"# tracer:"[..], b"cpus=", b"version = "].iter().any(|h| head.starts_with(h));
    let binary = head.first() == Some(&b'\n') && head.contains(&0);
    if headed || !binary && text::probe(head) {
        return Some(Format::Text);
    }
    perfetto::probe(head, bytes.len()).then_some(Format::Perfetto)
}

/// How files begin that are packed in a way that is not taken off, and what unpacks them.
const PACKED: [(&[u8], &str, &str); 4] = [
    (b"\xfd7zXZ\0", "xz", "unxz FILE"),
    (b"BZh", "bzip2", "bunzip2 FILE"),
    (b"PK\x03\x04", "zip", "unzip FILE"),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip", "7z x FILE"),
];

fn packed(bytes: &[u8]) -> Option<Refused> {
    let (_, name, tool) = PACKED.iter().find(|(magic, ..)| bytes.starts_with(magic))?;
    let help = format!("unpack it first: {tool}; gzip and zstd are taken off here");
    Some(Box::new(Diagnostic::error("trace::E01", 0..0, format!("packed with {name}")).help(help)))
}

fn unknown(bytes: &[u8]) -> Refused {
    let message = match bytes.len() {
        0 => "the file is empty".into(),
        n => format!("{n} bytes in no known trace format"),
    };
    if let Some(packed) = packed(bytes) {
        return packed;
    }
    if bytes.starts_with(b"PAR1") || bytes.starts_with(b"ARROW1") {
        let message = "a Parquet or Arrow table: they are written for data frames and not read back";
        let help = "use the trace that it was made from, or write the run as .pftrace or .dat as well";
        return Box::new(Diagnostic::error("trace::E01", 0..0, message).help(help));
    }
    let help = "wattif reads trace.dat (trace-cmd), ftrace text, systrace html, perf script text and Perfetto traces; \
        turn others into text first: `perf script -F comm,tid,cpu,time,event,trace`";
    Box::new(Diagnostic::error("trace::E01", 0..0, message).help(help))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattif_model::trace::{Asked, DlParams, Event, IdleWeights, Observer, PrevState, ThreadInfo};
    use wattif_model::workload::GroupSpec;
    use wattif_model::{CpuId, Ns, Pid};

    const EVENT: &str = "app one-101 [000] d..3. 1000.000100: sched_waking: comm=b pid=102 prio=120 target_cpu=001\n";

    /// Format, events, findings.
    fn check(bytes: &[u8], format: &str, events: usize, findings: &str) {
        let read = read(bytes);
        let said: Vec<&str> = read.diagnostics.iter().map(|d| d.message.as_str()).collect();
        let found = read.recording.unwrap_or_else(|| panic!("{format}: {said:?}"));
        assert_eq!((found.format.as_str(), found.records.len()), (format, events), "{said:?}");
        assert_eq!(said.join("; "), findings);
    }

    #[test]
    fn sniffed_by_content() {
        let stack = format!("{}{}\n", EVENT.replace(": sched", ": sched:sched"), "\tffffffff81 f+0x0 (k)\n".repeat(40));
        check(stack.repeat(3).as_bytes(), "ftrace text", 3, "");
        let empty: String = (0..4000).map(|cpu| format!("CPU {cpu} is empty\n")).collect();
        check((empty + EVENT).as_bytes(), "ftrace text", 1, "");
        check(format!("\n\r\n \n{EVENT}").as_bytes(), "ftrace text", 1, "");
        check(format!("CPU 0/KVM-101{}", &EVENT[11..]).as_bytes(), "ftrace text", 1, "");
        check(&[&[0xef, 0xbb, 0xbf], EVENT.as_bytes()].concat(), "ftrace text", 1, "");
        let units: Vec<u16> = format!("\u{feff}# tracer: nop\r\n{EVENT}").encode_utf16().collect();
        let little: Vec<u8> = units.iter().flat_map(|u| u.to_le_bytes()).collect();
        check(&little, "ftrace text", 1, "");
        check(&units.iter().flat_map(|u| u.to_be_bytes()).collect::<Vec<u8>>(), "ftrace text", 1, "");
        assert!(read(&little[..3]).recording.is_none());
        // What a phone logged, and then its trace; a log that has one such line is none.
        let log = |lines| "07-23 12:00:01.123 I/ActivityManager( 1234): Start proc\n".repeat(lines);
        let behind = read((log(1000) + &EVENT.repeat(200)).as_bytes());
        assert_eq!(behind.recording.map(|r| (r.format, r.records.len())), Some(("ftrace text".into(), 200)));
        assert!(read((log(1000) + EVENT + &log(1000)).as_bytes()).recording.is_none());
        assert!(read((log(410) + EVENT).as_bytes()).recording.is_none());
    }

    #[test]
    fn packed_by_others() {
        let said = |bytes: &[u8]| read(bytes).diagnostics.remove(0);
        assert!(said(b"\xfd7zXZ\0\0\x04").help.unwrap().contains("unxz"));
        assert_eq!(
            (said(b"BZh91AY").message, said(b"PK\x03\x04..").message),
            ("packed with bzip2".into(), "packed with zip".into())
        );
        // Not compressed, but put away.
        let stored = [b"PK\x03\x04\x0a\0\0\0\0\0trace.txt".as_slice(), EVENT.repeat(50).as_bytes()].concat();
        assert_eq!(said(&stored).message, "packed with zip");
        check(format!("BZh91AY-101{}", &EVENT[11..]).as_bytes(), "ftrace text", 1, "");
    }

    #[test]
    fn text_in_json() {
        let line = EVENT.replace("app one", "caf\\u00e9 \\\"x\\\"").replace('\n', "\\n");
        let page = format!("{{\"traceEvents\": [], \"systemTraceEvents\": \"# tracer: nop\\n{line}{line}\"}}");
        let note = "of this JSON, systemTraceEvents alone is read; lines are counted in it";
        check(page.as_bytes(), "systrace json", 2, note);
        assert_eq!(read(page.as_bytes()).recording.unwrap().comm(wattif_model::Pid(101)), "café \"x\"");
        let end = page.len() - 2;
        check(&page.as_bytes()[..end], "systrace json", 2, &format!("the JSON around the trace ends early; {note}"));
        assert!(read(b"{\"systemTraceEvents\": {}}").recording.is_none());
        for end in 0..page.len() {
            read(&page.as_bytes()[..end]);
        }
    }

    #[test]
    fn lines_of_a_page() {
        let page = format!(
            "<!-- saved --><!DOCTYPE html>\n<script>find('.trace-data')</script>\n<script class=\"trace-data\" type=\"application/text\">\n{EVENT}what\n  </script>\n\
             <script class=\"trace-data\">{EVENT}so\n</script>"
        );
        check(page.as_bytes(), "systrace html", 2, "line 5: not an event: `what`; line 8: not an event: `so`");
    }

    /// Quotes as they are, or escaped with the backslashes.
    #[test]
    fn pages_with_a_string() {
        let page = |lines: &str, end: &str| {
            let lines = lines.replace('\n', "\\n\\\n");
            format!(
                "<html><script>\n  if (linuxPerfData == \"\") {{}}\n  var linuxPerfData = \"\\\n{lines}{end}</script></html>"
            )
        };
        let quoting = EVENT.replace("sched_waking: comm=b", "tracing_mark_write: B|12|query \"SELECT 1\"");
        let lines = format!("{EVENT}{quoting}{EVENT}");
        let skipped = "1 events of other kinds were skipped: `tracing_mark_write` 1";
        for end in ["\";\n  var view;\n", "dummy 0.0: 0: parent_ts=0.0\\n\";\n", ""] {
            let dummy = if end.starts_with('d') { "line 7: not an event: `dummy 0.0: 0: parent_ts=0.0`; " } else { "" };
            check(page(&lines, end).as_bytes(), "systrace html", 2, &format!("{dummy}{skipped}"));
            check(page(&lines, end).replace('\n', "\r\n").as_bytes(), "systrace html", 2, &format!("{dummy}{skipped}"));
        }
        let unescaped = |lines: &str| page(lines, "\";\n").replace("\\n\\\n", "\n");
        check(unescaped(&lines).as_bytes(), "systrace html", 2, skipped);
        let told = "the text of the trace ends in line 4; events that follow it are not read";
        check(unescaped(&lines.replacen("=001\n", "=001\"\n", 1)).as_bytes(), "systrace html", 1, told);
        let named = EVENT.replace("app one-101", "x \"y\" z\\s-103");
        let name = |page: String| read(page.as_bytes()).recording.unwrap().comm(Pid(103)).to_string();
        let plain = page(&named, "\";\n");
        assert_eq!(name(plain.clone()), "x \"y\" z\\s");
        assert_eq!(name(plain.replace("x \"y\" z\\s", "x \\\"y\\\" z\\\\s")), "x \"y\" z\\s");
    }

    /// Text packed with gzip, in base64.
    #[test]
    fn pages_of_viewers() {
        use std::io::Write;
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), Default::default());
        gzip.write_all(EVENT.repeat(3).as_bytes()).unwrap();
        let packed = base64(&gzip.finish().unwrap());
        for tags in [
            ("<script id=\"viewer-data\" type=\"text/plain\">", "</script>"),
            ("<script class=\"trace-data\" type=\"application/text\">", "</script>"),
            ("<SCRIPT class='trace-data'>", "</SCRIPT >"),
        ] {
            for body in [&packed, &EVENT.repeat(3)] {
                let page = format!("<html><script>x('trace-data')</script>{}\n{body}\n{}</html>", tags.0, tags.1);
                check(page.as_bytes(), "systrace html", 3, "");
            }
        }
        let cut = &packed[..packed.len() - 20];
        let page = format!("<html><script id=\"viewer-data\">{cut}</script></html>");
        assert!(read(page.as_bytes()).diagnostics.iter().any(|d| d.code == "trace::W04"));
    }

    fn base64(bytes: &[u8]) -> String {
        let letter = |n: u32| match n & 63 {
            n @ 0..26 => b'A' + n as u8,
            n @ 26..52 => b'a' + n as u8 - 26,
            n @ 52..62 => b'0' + n as u8 - 52,
            62 => b'+',
            _ => b'/',
        };
        let four = |three: &[u8]| {
            let bits = (0..3).fold(0, |bits, i| bits << 8 | u32::from(three.get(i).copied().unwrap_or(0)));
            let letters = [18, 12, 6, 0].map(|shift| char::from(letter(bits >> shift)));
            letters
                .into_iter()
                .take(three.len() + 1)
                .chain(std::iter::repeat_n('=', 3 - three.len()))
                .collect::<String>()
        };
        bytes.chunks(3).map(four).collect()
    }

    /// CPU 0 from the beginning and CPU 1 for the last tenth, in pages before which events are missed. Ours know only how many.
    #[test]
    fn first_pages_that_miss_events() {
        let board = crate::sysfs::platform(&|path| path.ends_with("cpu/present").then(|| "0-1".into()), "board");
        let parsed = crate::platform_toml::parse(&board.toml.expect("a platform"), &Default::default());
        let mut bytes = Vec::new();
        let scratch = std::io::Cursor::new(Vec::new());
        let mut writer = dat::write::DatTrace::new(&mut bytes, scratch, Detail::Tracepoints, About::default());
        writer.start(&parsed.platform.expect("a platform"));
        writer.recorded(&Recording { lost_gaps: 2, ..Recording::default() });
        for k in 0..=20 {
            let waking = Event::SchedWaking { pid: Pid(5), prio: 120, target_cpu: CpuId(0), in_irq: false };
            writer.event(Ns(k * 1_000_000), CpuId(u32::from(k >= 18)), &waking);
        }
        writer.close().unwrap();
        let read = |bytes: &[u8]| {
            let read = read(bytes);
            let said: Vec<_> = read.diagnostics.iter().filter(|d| d.code == "trace::W08").collect();
            (read.recording.unwrap().records.len(), said.len())
        };
        assert_eq!(read(&bytes), (21, 0));
        // The option of ours, which holds no thread here, becomes one that nobody knows.
        let ours = b"FW\0\0\0\0";
        let at = bytes.windows(ours.len()).position(|w| w == ours).expect("our option");
        bytes[at..at + 2].copy_from_slice(b"??");
        assert_eq!(read(&bytes), (3, 1));
    }

    const BUDGET: DlParams = DlParams { runtime: Ns(4_000_000), deadline: Ns(8_000_000), period: Ns(10_000_000) };

    const KEPT: [&str; 6] =
        ["sched_waking", "sched_wakeup", "sched_wakeup", "wattif_idle_weights", "sched_process_exec", "sched_switch"];
    const ASKED: Asked = Asked { slice: Ns(300_000), util_min: Some(0), util_max: Some(900) };

    fn some_cpus() -> wattif_model::CpuSet {
        [0, 1, 3].map(CpuId).into_iter().collect()
    }

    /// What a writer makes of one wake-up from an interrupt and a row of weights in a recording, read again.
    fn again(write: impl Fn(&mut Vec<u8>, &dyn Fn(&mut dyn TraceWriter)), recording: &Recording) -> Recording {
        let board = crate::sysfs::platform(&|path| path.ends_with("cpu/present").then(|| "0-1".into()), "board");
        let parsed = crate::platform_toml::parse(&board.toml.expect("a platform"), &Default::default());
        let platform = parsed.platform.unwrap_or_else(|| panic!("{:?}", parsed.diagnostics));
        let mut bytes = Vec::new();
        write(&mut bytes, &|writer| {
            writer.start(&platform);
            let (comm, task) = (String::from("job"), String::from("job"));
            let dl = Some(BUDGET);
            writer.thread(&ThreadInfo {
                pid: Pid(7),
                comm,
                task,
                policy: "SCHED_DEADLINE",
                workload: true,
                group: 0,
                dl,
                asked: Asked::default(),
                cpus: None,
            });
            writer.recorded(recording);
            for (pid, policy, workload) in [(5, "SCHED_IDLE", true), (6, "SCHED_OTHER", false), (8, "", true)] {
                let (comm, task) = (format!("a task-{pid}"), "a task".into());
                let (group, asked) = if pid == 5 { (2, ASKED) } else { (0, Asked::default()) };
                let (pid, cpus) = (Pid(pid), (pid == 5).then(some_cpus));
                writer.thread(&ThreadInfo { pid, comm, task, policy, workload, group, dl: None, asked, cpus });
            }
            let waking = Event::SchedWaking { pid: Pid(5), prio: 120, target_cpu: CpuId(0), in_irq: true };
            writer.event(Ns(1_000), CpuId(1), &waking);
            for (pid, in_irq) in [(5, true), (6, false)] {
                let wakeup = Event::SchedWakeup { pid: Pid(pid), prio: 120, target_cpu: CpuId(0), in_irq };
                writer.event(Ns(1_500), CpuId(1), &wakeup);
            }
            let weights = IdleWeights { entered: 1, states: 3, weights: [5, 70, 25, 0, 0, 0, 0, 0, 0, 0] };
            writer.event(Ns(2_000), CpuId(1), &Event::IdleWeights(weights));
            writer.event(Ns(2_500), CpuId(1), &Event::SchedProcessExec { pid: Pid(5) });
            let switch = Event::SchedSwitch {
                prev_pid: Pid(0),
                prev_prio: 0,
                prev_state: PrevState::Running,
                next_pid: Pid(7),
                next_prio: 0,
            };
            writer.event(Ns(3_000), CpuId(1), &switch);
            writer.close().unwrap();
        });
        let read = read(&bytes);
        read.recording.unwrap_or_else(|| panic!("{:?}", read.diagnostics))
    }

    #[test]
    fn what_is_kept() {
        let groups: Vec<GroupSpec> = ["/", "/a", "/a/b"].map(GroupSpec::named).into();
        let about = || {
            let marks = vec!["frame 1".into(), "request".into()];
            About { marks, groups: groups.clone(), told: true, ..About::default() }
        };
        let text = |out: &mut Vec<u8>, with: &dyn Fn(&mut dyn TraceWriter)| {
            with(&mut text_write::TextTrace::new(out, Detail::Decisions, about()));
        };
        let dat = |out: &mut Vec<u8>, with: &dyn Fn(&mut dyn TraceWriter)| {
            let scratch = std::io::Cursor::new(Vec::new());
            with(&mut dat::write::DatTrace::new(out, scratch, Detail::Decisions, about()));
        };
        let perfetto = |out: &mut Vec<u8>, with: &dyn Fn(&mut dyn TraceWriter)| {
            with(&mut perfetto::write::PerfettoTrace::new(out, Detail::Decisions, about()));
        };
        // A page of trace.dat tells one gap, and there is one here.
        for (lost_gaps, lost_events) in [(0, 0), (1, 0), (1, 77), (3, 77)] {
            let recording = Recording { lost_gaps, lost_events, has_irq_flags: true, ..Recording::default() };
            let all = [again(text, &recording), again(perfetto, &recording), again(dat, &recording)];
            let gaps = [lost_gaps, lost_gaps, lost_gaps.min(1)];
            assert_eq!(all.each_ref().map(|r| r.lost_gaps), gaps);
            assert_eq!(all.each_ref().map(|r| r.lost_events), [lost_events; 3]);
            let policies = all.each_ref().map(|r| r.threads[&7].policy);
            assert_eq!(policies, [Some("SCHED_DEADLINE"); 3]);
            for r in &all {
                let of = |pid: u32| r.threads.get(&pid).map_or((0, None), |t| (t.group, t.dl));
                assert_eq!((&r.groups, of(5), of(6), of(7)), (&groups, (2, None), (0, None), (0, Some(BUDGET))));
                let asked = [5, 6, 7].map(|pid| r.threads[&pid].asked);
                assert_eq!(asked, [ASKED, Asked::default(), Asked::default()], "{}", r.format);
                let cpus = [5, 6, 7].map(|pid| r.threads[&pid].cpus.clone());
                assert_eq!(cpus, [Some(some_cpus()), None, None], "{}", r.format);
            }
            for r in [&all[0], &all[2]] {
                assert_eq!(r.marks, about().marks, "{}", r.format);
                let names: Vec<&str> = r.records.iter().map(|r| r.event.name()).collect();
                assert_eq!((names, r.unknown.len()), (KEPT.to_vec(), 0), "{}", r.format);
            }
            let exec = Some(&Event::SchedProcessExec { pid: Pid(5) });
            assert!(all.iter().all(|r| r.records.iter().filter(|r| r.event() == exec).count() == 1));
            for r in &all {
                let known = |pid: u32| r.threads.get(&pid).map(|t| (t.comm.as_str(), t.policy, t.housekeeping));
                assert_eq!(known(5), Some(("a task-5", Some("SCHED_IDLE"), Some(false))), "{}", r.format);
                assert_eq!(known(6), Some(("a task-6", Some("SCHED_OTHER"), Some(true))), "{}", r.format);
                assert!(known(8).is_none_or(|k| (k.1, k.2) == (None, None)), "of a real machine: {}", r.format);
            }
            let idle = |r: &Recording| {
                r.records.iter().find_map(|r| match r.event() {
                    Some(&Event::SchedSwitch { prev_pid: Pid(0), prev_prio, .. }) => Some(prev_prio),
                    _ => None,
                })
            };
            assert!(all.iter().all(|r| idle(r) == Some(120)), "the idle task as kernels have it");
            let in_irq = |r: &Recording| matches!(r.records[0].event(), Some(Event::SchedWaking { in_irq: true, .. }));
            assert!(all.iter().all(|r| r.has_irq_flags && in_irq(r)));
            for r in &all {
                let wakeups = r.records.iter().filter(|r| r.event.name() == "sched_wakeup");
                let flags: Vec<bool> = wakeups.filter_map(|r| Some(r.event()?.in_irq())).collect();
                assert_eq!(flags, [true, false], "{}", r.format);
            }
        }
        assert!(!again(text, &Recording::default()).has_irq_flags, "what is not known is not written");
    }
}
