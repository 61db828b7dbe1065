//! trace.dat in every shape, made here byte by byte: both byte orders, 32 and 64 bit, versions 6 and 7, zlib and zstd sections.
//! All say the same; damaged ones, and ones that lie, are survived with little memory and a diagnostic.

use std::io::Write;
use wattif_formats::trace::{self, Read};
use wattif_model::CpuId;
use wattif_model::trace::{Recorded, Recording};

/// How a file is made.
#[derive(Clone, Copy, Debug)]
struct Shape {
    big: bool,
    long: usize,
    packing: Packing,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Packing {
    Version6,
    None,
    Zlib,
    Zstd,
}

const PAGE: usize = 512;
const SWITCH: u16 = 1;
const WAKING: u16 = 2;

/// Name, clock, a page of each CPU.
type Buffer<'a> = (&'a str, &'a str, &'a [Vec<u8>]);

/// Bytes in an order.
struct Out {
    bytes: Vec<u8>,
    big: bool,
}

impl Out {
    fn new(big: bool) -> Out {
        Out { bytes: Vec::new(), big }
    }
    fn int(&mut self, value: u64, size: usize) -> &mut Out {
        let le = value.to_le_bytes();
        match self.big {
            true => self.bytes.extend(le[..size].iter().rev()),
            false => self.bytes.extend(&le[..size]),
        }
        self
    }
    fn text(&mut self, text: &str) -> &mut Out {
        self.bytes.extend(text.as_bytes());
        self.bytes.push(0);
        self
    }
    /// A length, then as many bytes.
    fn block(&mut self, data: &[u8], length: usize) -> &mut Out {
        self.int(data.len() as u64, length);
        self.bytes.extend(data);
        self
    }
}

impl Shape {
    fn header_page(self) -> String {
        let (long, data) = (self.long, 8 + self.long);
        format!(
            "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
             \tfield: local_t commit;\toffset:8;\tsize:{long};\tsigned:1;\n\
             \tfield: char data;\toffset:{data};\tsize:{};\tsigned:1;\n",
            PAGE - data
        )
    }

    fn formats(self) -> [String; 2] {
        let common = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
            \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
            \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
            \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";
        let (long, next) = (self.long, 32 + self.long);
        let switch = format!(
            "name: sched_switch\nID: {SWITCH}\nformat:\n{common}\
             \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
             \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
             \tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n\
             \tfield:long prev_state;\toffset:32;\tsize:{long};\tsigned:1;\n\
             \tfield:char next_comm[16];\toffset:{next};\tsize:16;\tsigned:0;\n\
             \tfield:pid_t next_pid;\toffset:{};\tsize:4;\tsigned:1;\n\
             \tfield:int next_prio;\toffset:{};\tsize:4;\tsigned:1;\n\nprint fmt: \"\"\n",
            next + 16,
            next + 20
        );
        let waking = format!(
            "name: sched_waking\nID: {WAKING}\nformat:\n{common}\
             \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
             \tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n\
             \tfield:int prio;\toffset:28;\tsize:4;\tsigned:1;\n\
             \tfield:int target_cpu;\toffset:32;\tsize:4;\tsigned:1;\n\nprint fmt: \"\"\n"
        );
        [switch, waking]
    }

    fn comm(out: &mut Out, name: &[u8]) {
        let mut comm = name.to_vec();
        comm.resize(16, 0);
        out.bytes.extend(comm);
    }

    fn switch(self, prev: u64, next: u64, name: &[u8]) -> Vec<u8> {
        let mut o = Out::new(self.big);
        o.int(SWITCH.into(), 2).int(0, 2).int(prev, 4);
        Self::comm(&mut o, name);
        o.int(prev, 4).int(120, 4).int(1, self.long);
        Self::comm(&mut o, b"next");
        o.int(next, 4).int(100, 4);
        o.bytes
    }

    fn waking(self, pid: u64, name: &[u8]) -> Vec<u8> {
        let mut o = Out::new(self.big);
        o.int(WAKING.into(), 2).int(0x10, 1).int(0, 1).int(7, 4);
        Self::comm(&mut o, name);
        o.int(pid, 4).int(120, 4).int(1, 4);
        o.bytes
    }

    /// A page of events, each so long after the one before.
    fn page(self, stamp: u64, events: &[(u64, Vec<u8>)]) -> Vec<u8> {
        let mut data = Out::new(self.big);
        for (delta, event) in events {
            let words = event.len() as u64 / 4;
            let head = if self.big { words << 27 | delta } else { delta << 5 | words };
            data.int(head, 4);
            data.bytes.extend(event);
        }
        let mut page = Out::new(self.big);
        page.int(stamp, 8).int(data.bytes.len() as u64, self.long);
        page.bytes.extend(data.bytes);
        page.bytes.resize(PAGE, 0);
        page.bytes
    }

    /// A page before which events were overwritten.
    fn overwritten(self, stamp: u64, events: &[(u64, Vec<u8>)]) -> Vec<u8> {
        let mut page = self.page(stamp, events);
        let highest = if self.big { 8 + self.long - 4 } else { 8 + 3 };
        page[highest] |= 0x80; // of the low four bytes
        page
    }

    fn header_info(self) -> Vec<u8> {
        let mut o = Out::new(self.big);
        o.text("header_page").block(self.header_page().as_bytes(), 8);
        o.text("header_event").block(b"", 8);
        o.bytes
    }

    fn systems(self) -> Vec<u8> {
        let mut o = Out::new(self.big);
        o.int(1, 4).text("sched").int(2, 4);
        for f in self.formats() {
            o.block(f.as_bytes(), 8);
        }
        o.bytes
    }

    fn begin(self) -> Out {
        let mut o = Out::new(self.big);
        o.bytes.extend(b"\x17\x08\x44tracing");
        o.text(if self.packing == Packing::Version6 { "6" } else { "7" });
        o.int(self.big.into(), 1).int(self.long as u64, 1).int(PAGE as u64, 4);
        o
    }

    fn file(self, pages: &[Vec<u8>]) -> Vec<u8> {
        self.buffers(&[("", "local", pages)])
    }

    /// Name, clock (which version 6 has none of) and pages of each CPU of the main buffer and of others.
    fn buffers(self, buffers: &[Buffer<'_>]) -> Vec<u8> {
        match self.packing {
            Packing::Version6 => self.version6(buffers),
            _ => self.version7(buffers),
        }
    }

    fn version6(self, buffers: &[Buffer<'_>]) -> Vec<u8> {
        let (_, _, pages) = buffers[0];
        let mut o = self.begin();
        o.bytes.extend(self.header_info());
        o.int(0, 4);
        o.bytes.extend(self.systems());
        o.int(0, 4).int(0, 4).block(b"7 seven\n8 eight\n", 8).int(pages.len() as u64, 4);
        o.text("options  ");
        let table = b"flyrecord\0".len() + 16 * pages.len();
        let options: usize = buffers[1..].iter().map(|b| 6 + 8 + b.0.len() + 1).sum();
        let tables = o.bytes.len() + options + 2;
        for (i, (name, ..)) in buffers.iter().enumerate().skip(1) {
            o.int(3, 2).int(8 + name.len() as u64 + 1, 4).int((tables + i * table) as u64, 8).text(name);
        }
        o.int(0, 2);
        let first = (tables + buffers.len() * table).next_multiple_of(PAGE);
        let mut at = first;
        for (.., pages) in buffers {
            o.text("flyrecord");
            for page in *pages {
                o.int(at as u64, 8).int(page.len() as u64, 8);
                at += page.len();
            }
        }
        o.bytes.resize(first, 0);
        buffers.iter().flat_map(|b| b.2).for_each(|p| o.bytes.extend(p));
        o.bytes
    }

    fn packed(self, data: &[u8]) -> Vec<u8> {
        match self.packing {
            Packing::Zlib => {
                let mut z = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
                z.write_all(data).unwrap();
                z.finish().unwrap()
            }
            // A frame of one segment with one raw block.
            Packing::Zstd => {
                let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa0];
                frame.extend((data.len() as u32).to_le_bytes());
                frame.extend(&((data.len() as u32) << 3 | 1).to_le_bytes()[..3]);
                frame.extend(data);
                frame
            }
            Packing::None | Packing::Version6 => data.to_vec(),
        }
    }

    /// `u32 compressed size, u32 size, data`, or the data alone.
    fn chunk(self, data: &[u8]) -> Vec<u8> {
        let mut o = Out::new(self.big);
        if self.packing == Packing::None {
            return data.to_vec();
        }
        let packed = self.packed(data);
        o.int(packed.len() as u64, 4).int(data.len() as u64, 4);
        o.bytes.extend(packed);
        o.bytes
    }

    /// Appends a section; where it begins.
    fn section(self, o: &mut Out, id: u64, data: &[u8]) -> u64 {
        let at = o.bytes.len() as u64;
        let flags = u64::from(self.packing != Packing::None);
        o.int(id, 2).int(flags, 2).int(0, 4);
        let body = self.chunk(data);
        o.block(&body, 8);
        at
    }

    fn version7(self, buffers: &[Buffer<'_>]) -> Vec<u8> {
        let mut o = self.begin();
        o.text(match self.packing {
            Packing::Zlib => "zlib",
            Packing::Zstd => "zstd",
            _ => "none",
        });
        o.text("1");
        let first = o.bytes.len();
        o.int(0, 8);
        let mut options = Out::new(self.big);
        for (id, data) in [(16, self.header_info()), (18, self.systems())] {
            let at = self.section(&mut o, id, &data);
            options.int(id, 2).int(8, 4).int(at, 8);
        }
        for (name, clock, pages) in buffers {
            let buffer = o.bytes.len() as u64;
            o.int(3, 2).int(u64::from(self.packing != Packing::None), 2).int(0, 4).int(0, 8);
            let mut cpus = Out::new(self.big);
            for (cpu, page) in pages.iter().enumerate() {
                let at = o.bytes.len() as u64;
                if self.packing != Packing::None {
                    o.int(1, 4);
                }
                let body = self.chunk(page);
                o.bytes.extend(&body);
                cpus.int(cpu as u64, 4).int(at, 8).int(body.len() as u64, 8);
            }
            let mut described = Out::new(self.big);
            described.int(buffer, 8).text(name).text(clock).int(PAGE as u64, 4).int(pages.len() as u64, 4);
            described.bytes.extend(cpus.bytes);
            options.int(3, 2).block(&described.bytes, 4);
        }
        options.int(0, 2).int(8, 4).int(0, 8);
        let at = self.section(&mut o, 0, &options.bytes);
        let mut place = Out::new(self.big);
        place.int(at, 8);
        o.bytes[first..first + 8].copy_from_slice(&place.bytes);
        o.bytes
    }

    /// Two CPUs: a wake-up and two switches.
    fn sample(self) -> Vec<u8> {
        let first = [(100, self.waking(8, b"eight")), (50, self.switch(7, 8, b"seven"))];
        self.file(&[self.page(1_000, &first), self.page(1_200, &[(10, self.switch(9, 0, b"nine"))])])
    }
}

const SHAPES: [Shape; 12] = {
    const fn of(big: bool, long: usize, packing: Packing) -> Shape {
        Shape { big, long, packing }
    }
    use Packing::*;
    [
        of(false, 8, Version6),
        of(false, 4, Version6),
        of(true, 8, Version6),
        of(true, 4, Version6),
        of(false, 8, None),
        of(true, 4, None),
        of(false, 8, Zlib),
        of(false, 4, Zlib),
        of(true, 8, Zlib),
        of(false, 8, Zstd),
        of(true, 4, Zstd),
        of(true, 8, Zstd),
    ]
};

fn recording(read: Read, what: &str) -> Recording {
    let Read { recording, diagnostics } = read;
    recording.unwrap_or_else(|| panic!("{what}: {diagnostics:?}"))
}

#[test]
fn all_shapes_say_the_same() {
    let first = recording(trace::read(&SHAPES[0].sample()), "the first");
    assert_eq!(first.records.len(), 3);
    let stamps: Vec<u64> = first.records.iter().map(|r| r.at.0 + first.zero_ns).collect();
    assert_eq!(stamps, [1_100, 1_150, 1_210]);
    for shape in SHAPES {
        let read = trace::read(&shape.sample());
        assert!(read.diagnostics.is_empty(), "{shape:?}: {:?}", read.diagnostics);
        let got = recording(read, &format!("{shape:?}"));
        assert_eq!(got.records, first.records, "{shape:?}");
        assert_eq!(got.comm(wattif_model::Pid(8)), first.comm(wattif_model::Pid(8)), "{shape:?}");
    }
}

/// What `trace-cmd record -e power -B sched -e sched` makes: scheduling is in a buffer of its own.
#[test]
fn buffers_are_read_together() {
    for shape in SHAPES {
        let unknown = shape.page(900, &[(0, vec![0xee; 8])]);
        let waking = |stamp| shape.page(stamp, &[(0, shape.waking(8, b"eight"))]);
        let (a, b) = (shape.switch(7, 8, b"seven"), shape.switch(8, 7, b"eight"));
        let both = shape.page(1_000, &[(10, a.clone()), (20, b)]);
        let other = shape.page(1_040, &[(0, shape.switch(9, 0, b"nine"))]);
        let read = |buffers: &[Buffer<'_>]| {
            let read = trace::read(&shape.buffers(buffers));
            let notes = read.diagnostics.iter().filter(|d| d.code == "trace::N03").map(|d| d.message.clone()).collect();
            let r = recording(read, &format!("{shape:?}"));
            let at: Vec<_> = r.records.iter().map(|x| (x.at.0 + r.zero_ns, x.cpu.0, x.event.name())).collect();
            (at, notes)
        };
        let (switch, wakes) = ("sched_switch", "sched_waking");
        // The main one holds nothing that is known; it holds other events; it has some of them as well, with stamps of its own.
        let (found, notes): (_, Vec<String>) =
            read(&[("", "local", &[unknown, vec![]]), ("sched", "local", &[both.clone(), other.clone()])]);
        assert_eq!(found, [(1_010, 0, switch), (1_030, 0, switch), (1_040, 1, switch)], "{shape:?}");
        assert_eq!(notes, [""; 0]);
        let (found, notes) =
            read(&[("", "local", &[waking(1_020), vec![]]), ("sched", "local", &[both.clone(), other.clone()])]);
        assert_eq!(found, [(1_010, 0, switch), (1_020, 0, wakes), (1_030, 0, switch), (1_040, 1, switch)]);
        assert_eq!(notes, ["events of 2 buffers are read together: the main one, sched"]);
        let some = shape.page(1_011, &[(0, a)]);
        let (found, notes) =
            read(&[("", "local", &[some, other.clone()]), ("sched", "local", &[both.clone(), other.clone()])]);
        assert_eq!(found, [(1_010, 0, switch), (1_030, 0, switch), (1_040, 1, switch)]);
        let more = "events of 2 buffers are read together: the main one, sched; 2 of kinds that another holds more of on that CPU are left out";
        assert_eq!(notes, [more]);
        if shape.packing != Packing::Version6 {
            let (found, notes) =
                read(&[("", "local", &[waking(1_020), vec![]]), ("sched", "mono", &[both.clone(), other.clone()])]);
            assert_eq!(found, [(1_020, 0, wakes)]);
            assert_eq!(notes, ["buffer `sched` has stamps of another clock, `mono`: it is not read"]);
        }
    }
}

/// CPU 1 is seen from 2000 on in the buffer that its switches are read from, whatever others hold; and all along where that is another.
#[test]
fn a_buffer_that_begins_late_among_others() {
    for shape in SHAPES {
        let (seven, eight) = (shape.switch(7, 8, b"seven"), shape.switch(8, 7, b"eight"));
        let all = shape.page(1_000, &[(10, seven.clone()), (500, eight.clone()), (1_000, seven.clone())]);
        let late = shape.overwritten(2_000, &[(5, eight.clone()), (5, seven)]);
        let other = [(0, vec![0xee; 8])];
        let unknown = [shape.page(2_200, &other), shape.overwritten(2_200, &other)];
        let wakes = shape.page(1_200, &[(0, shape.waking(8, b"eight"))]);
        let wakes_late = shape.overwritten(2_300, &[(0, shape.waking(8, b"eight"))]);
        let begins = |buffers: &[Buffer<'_>]| {
            let read = trace::read(&shape.buffers(buffers));
            let told = read.diagnostics.iter().any(|d| d.code == "trace::W08");
            (recording(read, &format!("{shape:?}")).zero_ns, told)
        };
        let main = [all.clone(), late.clone()];
        assert_eq!(begins(&[("", "local", &main)]), (2_005, true), "{shape:?}");
        assert_eq!(begins(&[("", "local", &main), ("dbg", "local", &unknown)]), (2_005, true), "{shape:?}");
        for page in [&wakes, &wakes_late] {
            let others = [wakes.clone(), page.clone()];
            assert_eq!(begins(&[("", "local", &main), ("wakes", "local", &others)]), (2_005, true), "{shape:?}");
        }
        let whole = [all.clone(), all.clone()];
        let others = [wakes, wakes_late];
        assert_eq!(begins(&[("", "local", &whole), ("wakes", "local", &others)]), (1_010, false), "{shape:?}");
        assert_eq!(begins(&[("", "local", &main), ("sched", "local", &whole)]), (1_010, false), "{shape:?}");
        // Nor is anything known before where the switches of CPU 1 would be, if there are none.
        let none = [all, shape.overwritten(2_100, &[(10, shape.waking(8, b"eight"))])];
        assert_eq!(begins(&[("", "local", &none), ("dbg", "local", &unknown)]), (2_110, true), "{shape:?}");
    }
}

#[test]
fn every_truncation_and_byte_change() {
    for shape in SHAPES {
        let sample = shape.sample();
        let whole = trace::read(&sample).recording.unwrap().records.len();
        // The last bytes of a page of version 6 are padding.
        for n in 0..sample.len() {
            let read = trace::read(&sample[..n]);
            let kept = read.recording.as_ref().map_or(0, |r| r.records.len());
            assert!(kept == whole || !read.diagnostics.is_empty(), "{shape:?}: {n} of {} bytes", sample.len());
        }
        let mut changed = sample.clone();
        for i in 0..sample.len() {
            for value in [0, 0xff, sample[i] ^ 0x80, sample[i].wrapping_add(1)] {
                changed[i] = value;
                std::hint::black_box(trace::read(&changed));
            }
            changed[i] = sample[i];
        }
    }
}

/// Small files that trace-cmd made of one recording: what it puts where, with the options that tell of it at the end.
const VERSION7: [&[u8]; 2] = [include_bytes!("corpus/trace/v7_none.dat"), include_bytes!("corpus/trace/v7_zstd.dat")];

#[test]
fn version_7_cut_at_every_length() {
    let wholes = VERSION7.map(|bytes| recording(trace::read(bytes), "whole").records);
    assert!(wholes[0] == wholes[1] && !wholes[0].is_empty());
    for (bytes, whole) in VERSION7.into_iter().zip(&wholes) {
        let (mut kept, mut first, mut salvaged) = (0, 0, false);
        for n in 0..bytes.len() {
            let Read { recording, diagnostics } = trace::read(&bytes[..n]);
            let records = recording.map(|r| r.records).unwrap_or_default();
            assert!(records == *whole || !diagnostics.is_empty(), "{n} of {} bytes", bytes.len());
            assert!(records.len() >= kept, "{n} bytes hold fewer events than one byte less");
            assert!(diagnostics.iter().all(|d| !d.message.contains("holds no event data")), "{n}: {diagnostics:?}");
            salvaged |= records == *whole && diagnostics.iter().any(|d| d.message.starts_with("the file is truncated"));
            kept = records.len();
            first = if kept > 0 && first == 0 { n } else { first };
        }
        // Everything is there, each event on its CPU, before the options are.
        assert!(salvaged && kept == whole.len());
        assert!(first < bytes.len() * 9 / 10, "{first} of {} bytes", bytes.len());
    }
}

#[test]
fn lengths_and_counts_that_lie() {
    // Every aligned or unaligned 4 and 8 bytes once as the largest numbers there are.
    for shape in [SHAPES[0], SHAPES[3], SHAPES[6], SHAPES[10]] {
        let sample = shape.sample();
        for at in 12..sample.len().saturating_sub(8) {
            for lie in [1u64 << 63, u64::MAX, u64::from(u32::MAX), 1 << 31] {
                let mut o = Out::new(shape.big);
                o.int(lie, 8);
                let mut changed = sample.clone();
                changed[at..at + 8].copy_from_slice(&o.bytes);
                std::hint::black_box(trace::read(&changed));
            }
        }
    }
}

#[test]
fn option_sections_that_lead_back() {
    let shape = Shape { big: false, long: 8, packing: Packing::None };
    let mut o = shape.begin();
    o.text("none").text("");
    let at = o.bytes.len() as u64 + 8;
    o.int(at, 8).int(0, 2).int(0, 2).int(0, 4).int(14, 8).int(0, 2).int(8, 4).int(at, 8);
    let read = trace::read(&o.bytes);
    assert!(read.diagnostics.iter().any(|d| d.message.contains("lead back")), "{:?}", read.diagnostics);
}

#[test]
fn bombs_are_refused() {
    let zeros = vec![0u8; 64 << 20];
    let pack = |data: &[u8]| {
        let mut z = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        z.write_all(data).unwrap();
        z.finish().unwrap()
    };
    // A gzip of much nothing, and a gzip of it.
    let (once, twice) = (pack(&zeros), pack(&pack(&zeros)));
    for bomb in [&once, &twice] {
        let read = trace::read(bomb);
        assert!(read.recording.is_none() && !read.diagnostics.is_empty());
    }
    // Bounded by the size of the file, not of the memory: 300 kB become 320 MB.
    let read = trace::read(&once.repeat(5));
    let why = &read.diagnostics.last().unwrap().message;
    assert!(why.contains("more than 8") && why.ends_with("refused"), "{why}");
    // A section that says it is small and is not.
    let shape = Shape { big: false, long: 8, packing: Packing::Zlib };
    let mut o = shape.begin();
    o.text("zlib").text("1");
    let at = o.bytes.len() as u64 + 8;
    let packed = shape.packed(&zeros);
    o.int(at, 8).int(0, 2).int(1, 2).int(0, 4).int(packed.len() as u64 + 8, 8);
    o.int(packed.len() as u64, 4).int(100, 4);
    o.bytes.extend(packed);
    assert!(!trace::read(&o.bytes).diagnostics.is_empty());
}

#[test]
fn names_with_control_characters_and_stamps_that_go_back() {
    let shape = SHAPES[0];
    let name = b"a\x1b[31m\nb\xff\x07";
    let pages = [shape.page(5_000, &[(0, shape.waking(8, name))]), shape.page(1_000, &[(0, shape.switch(7, 8, name))])];
    let both = [pages[0].clone(), pages[1].clone()].concat();
    let read = trace::read(&shape.file(&[both]));
    assert!(read.diagnostics.iter().any(|d| d.code == "trace::W02"), "{:?}", read.diagnostics);
    let got = recording(read, "names");
    assert!(got.records.is_sorted_by_key(|r| r.at));
    assert!(got.threads.values().all(|t| !t.comm.chars().any(char::is_control)), "{:?}", got.threads);
}

/// A field of a protocol buffer: number, or bytes.
fn number(field: u8, n: u64, out: &mut Vec<u8>) {
    out.push(field << 3);
    varint(n, out);
}
fn nested(field: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(field << 3 | 2);
    varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}
fn varint(mut n: u64, out: &mut Vec<u8>) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Two wake-ups, the second earlier than the first.
fn perfetto(name: &[u8]) -> Vec<u8> {
    let mut bundle = Vec::new();
    number(1, 1, &mut bundle);
    for stamp in [5_000, 1_000] {
        let (mut waking, mut event) = (Vec::new(), Vec::new());
        nested(1, name, &mut waking);
        [(2, 8), (3, 120), (4, 1), (5, 1)].into_iter().for_each(|(field, n)| number(field, n, &mut waking));
        number(1, stamp, &mut event);
        number(2, 7, &mut event);
        // Field 20 takes two bytes.
        event.extend([20 << 3 & 0x7f | 0x80 | 2, 1]);
        varint(waking.len() as u64, &mut event);
        event.extend(waking);
        nested(2, &event, &mut bundle);
    }
    let (mut packet, mut trace) = (Vec::new(), Vec::new());
    nested(1, &bundle, &mut packet);
    nested(1, &packet, &mut trace);
    trace
}

#[test]
fn the_same_in_text_and_perfetto() {
    let text =
        b" a\x1b[31m-7 [001] 2.000000100: sched_waking: comm=x\x07y pid=8 prio=120 target_cpu=001\n a\x1b[31m-7 [001] \
        1.000000200: sched_switch: a\x1b[31m:7 [120] S ==> x\x07y:8 [120]\n";
    for (what, bytes) in [("text", text.to_vec()), ("perfetto", perfetto(b"x\x1b[31m\ny\xff"))] {
        let read = trace::read(&bytes);
        assert!(read.diagnostics.iter().any(|d| d.code == "trace::W02"), "{what}: {:?}", read.diagnostics);
        let got = recording(read, what);
        assert_eq!(got.records.len(), 2, "{what}");
        assert!(got.records.is_sorted_by_key(|r| r.at), "{what}");
        assert!(!got.threads.is_empty(), "{what}");
        assert!(got.threads.values().all(|t| !t.comm.chars().any(char::is_control)), "{what}: {:?}", got.threads);
    }
}

#[test]
fn perfetto_damaged_anywhere() {
    let sample = perfetto(b"name");
    (0..sample.len()).for_each(|n| drop(std::hint::black_box(trace::read(&sample[..n]))));
    for at in 0..sample.len() {
        for value in 0..=255 {
            let mut changed = sample.clone();
            changed[at] = value;
            std::hint::black_box(trace::read(&changed));
        }
        // A length or count of 2^63 in place of whatever is there.
        let mut lie = sample[..at].to_vec();
        varint(1 << 63, &mut lie);
        lie.extend_from_slice(&sample[at + 1..]);
        std::hint::black_box(trace::read(&lie));
    }
}

/// Texts of every kind, a few lines each.
const TEXTS: [&str; 6] = [
    "cpus=2\n a b-7 [001] 1.000000100: sched_waking: comm=x y pid=8 prio=120 target_cpu=001\n a b-7 [001] 1.000000200: sched_switch: a b:7 [120] S ==> x y:8 [120]\n",
    "# tracer: nop\n#\n <...>-7 ( 7) [001] d.h1. 1.000100: sched_waking: comm=x pid=8 prio=120 target_cpu=001\nCPU:1 [LOST 5 EVENTS]\n x-8 (-----) [001] d..2. 1.000200: cpu_idle: state=4294967295 cpu_id=1\n",
    "<!DOCTYPE html>\n<html><script class=\"trace-data\" type=\"application/text\">\n# tracer: nop\n x-8 (-----) [001] d..2 1.000200: cpu_frequency: state=1000 cpu_id=1\n</script></html>\n",
    "<html><script>\n  var linuxPerfData = \"\\\n# tracer: nop\\n\\\n x-8 [001] d..2 1.000200: cpu_frequency: state=1000 cpu_id=1\\n\\\n\";\n</script></html>\n",
    "perf 10/11 [001] 1.000200: sched:sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=b next_pid=8 next_prio=120\n\tffff some_function ([kernel])\n\n",
    "x-8 4d.h2 1.000200: cpu_idle: state=1 cpu_id=4\nx-8 4d..2 1.000300: sched_wakeup: x:8 [120] success=1 CPU:004\n",
];

#[test]
fn texts_damaged_anywhere() {
    for text in TEXTS {
        let text = text.as_bytes();
        assert!(
            trace::read(text).recording.is_some_and(|r| !r.records.is_empty()),
            "{}",
            String::from_utf8_lossy(text)
        );
        (0..text.len()).for_each(|n| drop(std::hint::black_box(trace::read(&text[..n]))));
        let mut changed = text.to_vec();
        for i in 0..text.len() {
            for value in [0, b'\n', b'-', b'[', b'9', 0xff, text[i] ^ 0x80, text[i].wrapping_add(1)] {
                changed[i] = value;
                std::hint::black_box(trace::read(&changed));
            }
            changed[i] = text[i];
        }
    }
}

#[test]
fn a_stamp_from_another_century() {
    let line = |at: &str, pid: u32| {
        format!("          a-7     [000] {at}: sched_waking: comm=b pid={pid} prio=120 target_cpu=000\n")
    };
    let text =
        line("0.000001", 1) + &line("9000000.000001", 2) + &line("9000000.000002", 3) + &line("18446744073.5", 4);
    let read = trace::read(text.as_bytes());
    let recording = read.recording.unwrap();
    assert_eq!((recording.records.len(), recording.end.0), (2, 1_000));
    assert!(read.diagnostics.iter().any(|d| d.code == "trace::W02" && d.message.starts_with("2 stamps are an hour")));
}

#[test]
fn a_single_stamp_long_before_the_others() {
    let at = |ns: u64| format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    let line = |ns: u64| format!("  a-7     [000] {}: sched_waking: comm=b pid=8 prio=120 target_cpu=000\n", at(ns));
    // Stamps before the rest, how many these are, and how far they lie apart; the events that are left.
    let check = |before: &[u64], many: u64, step: u64, left: usize| {
        let stamps = before.iter().copied().chain((0..many).map(|i| 100_000_000_000 + i * step));
        let read = trace::read(stamps.map(line).collect::<String>().as_bytes());
        let recording = read.recording.unwrap();
        assert_eq!(recording.records.len(), left, "{before:?} {many} {step}");
        let dropped = left < before.len() + many as usize;
        let told = read.diagnostics.iter().any(|d| d.code == "trace::W02" && d.message.starts_with("one stamp is"));
        assert_eq!(dropped, told, "{:?}", read.diagnostics);
        if dropped {
            assert_eq!((recording.zero_ns, recording.end.0), (100_000_000_000, (many - 1) * step));
        }
    };
    check(&[5], 50, 20_000_000, 50);
    check(&[98_900_000_000], 50, 20_000_000, 50);
    // A silence shorter than what follows, or than a second; two events before it; too few to tell.
    check(&[98_900_000_000], 50, 30_000_000, 51);
    check(&[99_900_000_000], 50, 1_000_000, 51);
    check(&[5, 6], 50, 20_000_000, 52);
    check(&[5], 5, 20_000_000, 6);
    // What it says of a clock still holds.
    let frequency = "  a-7     [000] 1.000000000: cpu_frequency: state=500000 cpu_id=1\n";
    let rest: String = (0..50).map(|i| line(100_000_000_000 + i * 20_000_000)).collect();
    let read = trace::read([frequency, &rest].concat().as_bytes());
    let said = "one stamp is 99.000 s before all others, which span 0.980 s: what its event tells is taken to hold when these begin";
    assert_eq!(read.diagnostics.iter().map(|d| d.message.as_str()).collect::<Vec<_>>(), [said]);
    let r = read.recording.unwrap();
    let told = Recorded::CpuFrequency { cpu: CpuId(1), khz: 500_000 };
    assert_eq!((r.records.len(), r.zero_ns, r.records[0].event), (51, 100_000_000_000, told));
}
