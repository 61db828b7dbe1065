//! Everything before the events: formats, names, options, where each CPU's data lie.

use super::super::build::Builder;
use super::super::{Refused, wrap};
use super::cursor::Cursor;
use super::layout::{self, Field, Format};
use super::page::PageLayout;
use super::shift::Shift;
use std::collections::BTreeSet;
use wattif_model::check::Diagnostic;

const MAGIC: &[u8] = b"\x17\x08\x44tracing";
/// Most event formats of a file; a kernel has some thousands.
const MAX_FORMATS: usize = 65_536;
pub(super) const MAX_CPUS: u32 = 4_096;
/// Most buffers besides the main one.
const MAX_BUFFERS: usize = 64;

/// How sections are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Compression {
    #[default]
    None,
    Zlib,
    Zstd,
}

/// A ring buffer: the main one or an instance.
#[derive(Clone, Debug, Default)]
pub(super) struct Buffer {
    /// Empty for the main one.
    pub name: String,
    /// Number, offset and size.
    pub cpus: Vec<(u32, u64, u64)>,
    pub compressed: bool,
    pub page_size: Option<usize>,
    /// Where its section begins, in version 7.
    pub at: u64,
    /// Of its stamps, where the file says it of each buffer.
    pub clock: Option<String>,
}

impl Buffer {
    pub fn is_empty(&self) -> bool {
        self.cpus.iter().all(|c| c.2 == 0)
    }
}

/// From counts of the time-stamp counter to ns. The option has an offset as well, which trace-cmd does not use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tsc {
    mult: u32,
    shift: u32,
}

impl Tsc {
    pub fn ns(&self, count: u64) -> u64 {
        let ns = (u128::from(count) * u128::from(self.mult)) >> self.shift.min(63);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

/// The fields every event begins with.
pub(super) struct Common {
    pub kind: Field,
    pub flags: Field,
    pub pid: Field,
}

#[derive(Default)]
pub(super) struct Header {
    pub version: u32,
    pub big: bool,
    pub page_size: usize,
    pub commit_size: usize,
    pub data_offset: usize,
    pub compression: Compression,
    pub formats: Vec<Format>,
    pub buffers: Vec<Buffer>,
    pub nr_cpus: usize,
    pub clock: Option<String>,
    pub release: Option<String>,
    pub machine: Option<String>,
    pub tsc: Option<Tsc>,
    pub shift: Shift,
    /// Of our writer, which knows how many gaps there were and not where.
    pub ours: bool,
    /// When the run ended, as our writer says.
    pub end: Option<u64>,
    /// It ends before what says where each CPU's events lie.
    pub cut: bool,
}

fn early() -> Refused {
    let help = "nothing can be read without the event formats at the beginning of the file";
    Box::new(Diagnostic::error("trace::E03", 0..0, "trace.dat ends within its header").help(help))
}

impl Header {
    pub fn read(bytes: &[u8], builder: &mut Builder) -> Result<Header, Refused> {
        let mut c = Cursor::new(bytes, false);
        let mut header = Header { commit_size: 8, data_offset: 16, ..Header::default() };
        c.skip(MAGIC).ok_or_else(early)?;
        let version = c.text().ok_or_else(early)?;
        header.version = String::from_utf8_lossy(version).parse().unwrap_or(0);
        if !(5..=7).contains(&header.version) {
            let message = format!("trace.dat of version {}", crate::words::quoted(&String::from_utf8_lossy(version)));
            return Err(Box::new(Diagnostic::error("trace::E03", 0..0, message).help("versions 6 and 7 are read")));
        }
        let big = c.u8().ok_or_else(early)? != 0;
        let mut c = {
            let at = c.at() as u64;
            let mut c = Cursor::new(bytes, big);
            c.seek(at).ok_or_else(early)?;
            c
        };
        header.big = big;
        let long = c.u8().ok_or_else(early)?;
        header.commit_size = if long == 4 { 4 } else { 8 };
        header.data_offset = 8 + header.commit_size;
        let page = c.u32().ok_or_else(early)?;
        if !(64..=1 << 26).contains(&page) {
            return Err(wrap::refused("trace::E03", format!("a page size of {page} bytes")));
        }
        header.page_size = page as usize;
        match header.version {
            7 => header.read_v7(&mut c, bytes, builder)?,
            _ => header.read_v6(&mut c, bytes, builder).ok_or_else(early)?,
        }
        if header.formats.is_empty() {
            return Err(early());
        }
        Ok(header)
    }

    /// The time of a stamp of the CPU that is the `index`th in its buffer, ns.
    pub fn at(&self, index: usize, stamp: u64) -> u64 {
        let stamp = self.shift.of_cpu(index, stamp);
        self.shift.added(self.tsc.map_or(stamp, |t| t.ns(stamp)))
    }

    pub fn name(&self) -> String {
        let compressed = match self.compression {
            Compression::None => "",
            Compression::Zlib => ", zlib",
            Compression::Zstd => ", zstd",
        };
        let (order, bits) = (if self.big { "big" } else { "little" }, 8 * self.commit_size);
        format!("trace.dat v{} ({bits} bit, {order} endian{compressed})", self.version)
    }

    /// How the pages of events are laid out.
    pub fn pages(&self) -> PageLayout {
        PageLayout { commit_size: self.commit_size, data_offset: self.data_offset, big: self.big }
    }

    /// Where `common_*` lie; as every kernel has them, unless the formats say otherwise.
    pub fn common(&self) -> Common {
        let of = |name: &str, offset, size, signed| {
            let known = self.formats.iter().find_map(|f| f.field(name));
            known.unwrap_or(Field { offset, size, signed, dynamic: None })
        };
        Common {
            kind: of("common_type", 0, 2, false),
            flags: of("common_flags", 2, 1, false),
            pid: of("common_pid", 4, 4, true),
        }
    }

    // ---- version 6 ---------------------------------------------------------------------------------------------------

    fn read_v6(&mut self, c: &mut Cursor<'_>, bytes: &[u8], builder: &mut Builder) -> Option<()> {
        self.header_info(c)?;
        self.ftrace_events(c)?;
        self.event_formats(c)?;
        let kallsyms = c.u32()?;
        c.take(kallsyms.into())?;
        let printk = c.u32()?;
        c.take(printk.into())?;
        let cmdlines = c.u64()?;
        names(c.take(cmdlines)?, builder);
        // Everything is known; what follows may be cut off.
        if self.tables_v6(c, bytes, builder).is_none() {
            let message = "trace.dat ends before its events";
            builder.say(Diagnostic::warning("trace::W04", 0..0, message));
        }
        Some(())
    }

    fn tables_v6(&mut self, c: &mut Cursor<'_>, bytes: &[u8], builder: &mut Builder) -> Option<()> {
        let cpus = c.u32()?.min(MAX_CPUS);
        self.nr_cpus = cpus as usize;
        let mut instances = Vec::new();
        if c.skip(b"options  \0").is_some() {
            loop {
                let id = c.u16()?;
                if id == 0 {
                    break;
                }
                let size = c.u32()?;
                let data = c.take(size.into())?;
                match id {
                    3 => {
                        let mut o = Cursor::new(data, self.big);
                        instances.push((o.u64()?, text(o.text().unwrap_or_default())));
                    }
                    _ => self.option(id, data, builder),
                }
            }
        }
        c.skip(b"flyrecord\0")?;
        let main = self.table_v6(c, cpus, String::new())?;
        self.buffers.push(main);
        for (offset, name) in instances.into_iter().take(MAX_BUFFERS) {
            let mut c = Cursor::new(bytes, self.big);
            if c.seek(offset).and(c.skip(b"flyrecord\0")).is_some() {
                let buffer = self.table_v6(&mut c, cpus, name);
                self.buffers.extend(buffer);
            }
        }
        Some(())
    }

    fn table_v6(&self, c: &mut Cursor<'_>, cpus: u32, name: String) -> Option<Buffer> {
        let entries = (0..cpus).map(|cpu| Some((cpu, c.u64()?, c.u64()?))).collect::<Option<Vec<_>>>()?;
        Some(Buffer { name, cpus: entries, ..Buffer::default() })
    }

    // ---- version 7 ---------------------------------------------------------------------------------------------------

    fn read_v7(&mut self, c: &mut Cursor<'_>, bytes: &[u8], builder: &mut Builder) -> Result<(), Refused> {
        let algorithm = c.text().ok_or_else(early)?;
        let _version = c.text().ok_or_else(early)?;
        self.compression = match algorithm {
            b"none" | b"" => Compression::None,
            b"zstd" => Compression::Zstd,
            b"zlib" => Compression::Zlib,
            other => {
                let name = crate::words::quoted(&String::from_utf8_lossy(other));
                let message = format!("sections compressed by {name}");
                let help = "`trace-cmd convert --compression none` makes a file that can be read";
                return Err(Box::new(Diagnostic::error("trace::E03", 0..0, message).help(help)));
            }
        };
        let mut next = c.u64().ok_or_else(early)?;
        let first = c.at() as u64;
        let mut seen = BTreeSet::new();
        while next != 0 {
            if !seen.insert(next) || seen.len() > 10_000 {
                builder.say(Diagnostic::warning("trace::W04", 0..0, "option sections lead back to themselves"));
                break;
            }
            match self.options_v7(bytes, next, builder)? {
                Some(following) => next = following,
                None => {
                    self.cut = true;
                    self.salvage(bytes, first, builder)?;
                    builder.say(self.cut_off(next));
                    break;
                }
            }
        }
        Ok(())
    }

    /// What a file that ends before the options at byte `at` lacks.
    fn cut_off(&self, at: u64) -> Diagnostic {
        let found = self.buffers.iter().map(|b| b.cpus.len()).max().unwrap_or(0);
        let mut message =
            format!("the file is truncated: the options at byte {at}, which tell of each CPU's events, are not there");
        if found < self.nr_cpus {
            message += &format!("; nor are the events of {} of {} CPUs", self.nr_cpus - found, self.nr_cpus);
        }
        let help = match found {
            0 => "it ends before its events",
            _ => "the events that are there were found by their sections; CPUs are numbered in their order",
        };
        Diagnostic::warning("trace::W04", 0..0, message).help(help)
    }

    /// One section of options; where the next is.
    fn options_v7(&mut self, bytes: &[u8], at: u64, builder: &mut Builder) -> Result<Option<u64>, Refused> {
        let Some(body) = self.section(bytes, at)? else { return Ok(None) };
        let mut o = Cursor::new(&body, self.big);
        loop {
            let (Some(id), Some(size)) = (o.u16(), o.u32()) else { return Ok(None) };
            let Some(data) = o.take(size.into()) else { return Ok(None) };
            let mut d = Cursor::new(data, self.big);
            match id {
                0 => return Ok(Some(d.u64().unwrap_or(0))),
                3 => self.buffer_v7(bytes, &mut d),
                16..=21 => {
                    let Some(offset) = d.u64() else { continue };
                    self.described(id, bytes, offset, builder)?;
                }
                _ => self.option(id, data, builder),
            }
        }
    }

    /// The section of formats or names at `offset`.
    pub(super) fn described(
        &mut self,
        id: u16,
        bytes: &[u8],
        offset: u64,
        builder: &mut Builder,
    ) -> Result<(), Refused> {
        let Some(body) = self.section(bytes, offset)? else { return Ok(()) };
        let mut c = Cursor::new(&body, self.big);
        let whole = match id {
            16 => self.header_info(&mut c),
            17 => self.ftrace_events(&mut c),
            18 => self.event_formats(&mut c),
            21 => c.u64().and_then(|n| c.take(n)).map(|text| names(text, builder)),
            _ => Some(()),
        };
        if whole.is_none() {
            let message = format!("the section at byte {offset} is cut off");
            builder.say(Diagnostic::warning("trace::W04", 0..0, message));
        }
        Ok(())
    }

    /// The body of the section at `at`; `None` when it is not all there.
    fn section(&self, bytes: &[u8], at: u64) -> Result<Option<Vec<u8>>, Refused> {
        let mut c = Cursor::new(bytes, self.big);
        let Some(flags) = c.seek(at).and_then(|()| Some((c.u16()?, c.u16()?, c.u32()?).1)) else { return Ok(None) };
        let Some(size) = c.u64() else { return Ok(None) };
        let Some(body) = c.take(size) else { return Ok(None) };
        if flags & 1 == 0 {
            return Ok(Some(body.to_vec()));
        }
        super::chunk(&mut Cursor::new(body, self.big), self.compression)
    }

    fn buffer_v7(&mut self, bytes: &[u8], d: &mut Cursor<'_>) {
        let mut read = || {
            let offset = d.u64()?;
            let name = text(d.text()?);
            let clock = text(d.text()?);
            let page = d.u32()?;
            let cpus = d.u32()?.min(MAX_CPUS);
            let cpus = (0..cpus).map_while(|_| Some((d.u32()?, d.u64()?, d.u64()?))).collect::<Vec<_>>();
            let mut c = Cursor::new(bytes, self.big);
            let flags = c.seek(offset).and_then(|()| Some((c.u16()?, c.u16()?).1)).unwrap_or(0);
            let page_size = Some(page as usize).filter(|p| (64..=1 << 26).contains(p));
            let clock = Some(clock).filter(|c| !c.is_empty());
            Some(Buffer { name, cpus, compressed: flags & 1 != 0, page_size, at: offset, clock })
        };
        if let Some(buffer) = read().filter(|_| self.buffers.len() < MAX_BUFFERS) {
            self.clock = self.clock.take().or(buffer.clock.clone());
            self.nr_cpus = self.nr_cpus.max(buffer.cpus.len());
            self.buffers.push(buffer);
        }
    }

    // ---- both --------------------------------------------------------------------------------------------------------

    fn header_info(&mut self, c: &mut Cursor<'_>) -> Option<()> {
        c.skip(b"header_page\0")?;
        let len = c.u64()?;
        let page = c.take(len)?;
        let fields = page.split(|&b| b == b'\n').filter_map(|l| layout::field(super::super::text::trim(l)));
        for (name, field) in fields {
            match name.as_str() {
                "commit" if matches!(field.size, 4 | 8) => self.commit_size = field.size,
                "data" if (12..=64).contains(&field.offset) => self.data_offset = field.offset,
                _ => {}
            }
        }
        c.skip(b"header_event\0")?;
        let len = c.u64()?;
        c.take(len)?;
        Some(())
    }

    fn ftrace_events(&mut self, c: &mut Cursor<'_>) -> Option<()> {
        let n = c.u32()?;
        self.format_texts(c, n)
    }

    fn event_formats(&mut self, c: &mut Cursor<'_>) -> Option<()> {
        for _ in 0..c.u32()? {
            c.text()?;
            let n = c.u32()?;
            self.format_texts(c, n)?;
        }
        Some(())
    }

    fn format_texts(&mut self, c: &mut Cursor<'_>, n: u32) -> Option<()> {
        for _ in 0..n {
            let len = c.u64()?;
            let text = c.take(len)?;
            if self.formats.len() < MAX_FORMATS {
                self.formats.extend(layout::parse(text));
            }
        }
        Some(())
    }

    fn option(&mut self, id: u16, data: &[u8], builder: &mut Builder) {
        let mut o = Cursor::new(data, self.big);
        match id {
            // Of `trace-cmd record --date`, in µs.
            1 => self.shift.add(data, 1_000),
            // "[local] global counter": the one in brackets is used
            4 => {
                let all = text(data);
                let used = all.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(clock, _)| clock);
                self.clock = used.map(String::from).or(self.clock.take());
            }
            // "Linux host 6.1.0-1-arm64 aarch64"
            5 => {
                let said = text(data);
                let mut words = said.split_whitespace().skip(2).map(String::from);
                self.release = words.next();
                self.machine = words.next();
            }
            // Of `--ts-offset`, in ns.
            7 => self.shift.add(data, 1),
            8 => self.nr_cpus = o.u32().unwrap_or(0).min(MAX_CPUS) as usize,
            // Of a guest.
            12 => {
                self.shift.of_guest(&mut o);
            }
            14 => {
                let mut tsc = || Some(Tsc { mult: o.u32()?, shift: o.u32()? });
                self.tsc = tsc().filter(|t| t.mult > 0);
            }
            OURS => {
                self.ours = true;
                data.split(|&b| b == b'\n').for_each(|line| builder.thread(line));
            }
            END => self.end = o.u64(),
            GROUPS => data.split(|&b| b == b'\n').for_each(|line| builder.group(line)),
            MARKS => data
                .strip_suffix(b"\n")
                .into_iter()
                .flat_map(|d| d.split(|&b| b == b'\n'))
                .for_each(|m| builder.mark(m)),
            _ => {}
        }
    }
}

/// Id of our own option: what is known of threads besides their names, a line each. trace-cmd skips ids it does not know.
pub(super) const OURS: u16 = 0x5746;

/// Another: groups of threads, a line each.
pub(super) const GROUPS: u16 = 0x5747;

/// Another: when the run ended, ns in 64 bits.
pub(super) const END: u16 = 0x5745;

/// Another: names of marks, a line each.
pub(super) const MARKS: u16 = 0x574d;

/// `pid comm` lines.
fn names(lines: &[u8], builder: &mut Builder) {
    for line in lines.split(|&b| b == b'\n') {
        if let Some(space) = line.iter().position(|&b| b == b' ') {
            let pid = super::super::text::number(&line[..space]).unwrap_or(0);
            builder.comm(pid, super::super::text::trim(&line[space..]));
        }
    }
}

fn text(bytes: &[u8]) -> String {
    let bytes = &bytes[..bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len()).min(256)];
    super::super::build::printable(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// trace-cmd keeps the offset of the option and makes no use of it: stamps of a machine that has been up for less than it are not all 0.
    #[test]
    fn counts_of_the_time_stamp_counter() {
        let option = |mult: u32, shift: u32, offset: u64| {
            let data = [&mult.to_le_bytes()[..], &shift.to_le_bytes(), &offset.to_le_bytes()].concat();
            let mut header = Header::default();
            header.option(14, &data, &mut Builder::default());
            header.tsc
        };
        for offset in [0, 1_000, 1 << 62] {
            let tsc = option(1_431_655_765, 32, offset).expect("a clock");
            assert_eq!([3_000, 3_000_000_000_000].map(|count| tsc.ns(count)), [999, 999_999_999_767], "{offset}");
        }
        assert!(option(0, 32, 0).is_none());
    }
}
