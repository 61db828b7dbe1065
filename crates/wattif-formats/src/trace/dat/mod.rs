//! `trace.dat`, what trace-cmd records: versions 6 and 7, 32 and 64 bit, both byte orders, compressed sections.
//!
//! Field layouts come from the event formats in the file; nothing is assumed of the kernel. Every length is checked
//! against what is there, option sections that lead back to themselves are read once.

mod cursor;
mod header;
mod layout;
mod page;
mod salvage;
mod shift;
pub mod write;

use super::build::{Builder, CLOCK_IN_NS, Place};
use super::{Refused, wrap};
use crate::words::quoted;
use cursor::Cursor;
use header::{Buffer, Compression, Header};
use layout::Plan;
use page::{Missed, Page};
use std::borrow::Cow;
use wattif_model::check::Diagnostic;

/// What to do with a record, by `common_type`.
enum Known {
    Plan(Box<Plan>),
    /// Another event; how often it was seen.
    Other(String, u64),
}

/// Read a file. Returns the name of its format.
pub(super) fn read(bytes: &[u8], builder: &mut Builder) -> Result<String, Refused> {
    let header = Header::read(bytes, builder)?;
    let big = header.big;
    let mut kinds: Vec<Option<Known>> = Vec::new();
    for format in &header.formats {
        let id = format.id as usize;
        if id > usize::from(u16::MAX) {
            continue; // common_type has 16 bits
        }
        if kinds.len() <= id {
            kinds.resize_with(id + 1, || None);
        }
        let known =
            Plan::new(format).map_or_else(|| Known::Other(format.name.clone(), 0), |plan| Known::Plan(Box::new(plan)));
        kinds[id] = Some(known);
    }
    let common = header.common();
    let layout = header.pages();
    let mut buffers: Vec<&Buffer> = header.buffers.iter().filter(|b| !b.is_empty()).collect();
    if buffers.is_empty() {
        if !header.cut {
            builder.say(Diagnostic::warning("trace::W04", 0..0, "the file holds no event data"));
        }
        return Ok(header.name());
    }
    // The main one first; the others are instances.
    buffers.sort_by_key(|b| !b.name.is_empty());
    let (mut total, mut nr_cpus) = (0usize, 0);
    let mut clock: Option<&String> = None;
    for buffer in buffers {
        if !builder.recording.records.is_empty() && clock.is_some() && buffer.clock.as_ref() != clock {
            let other = buffer.clock.as_ref().map_or("that is not told".into(), |clock| quoted(clock));
            let message =
                format!("buffer {} has stamps of another clock, {other}: it is not read", quoted(&buffer.name));
            builder.say(Diagnostic::note("trace::N03", 0..0, message));
            continue;
        }
        clock = buffer.clock.as_ref();
        nr_cpus = nr_cpus.max(buffer.cpus.len());
        builder.buffer(buffer.name.as_bytes());
        for cpu in 0..buffer.cpus.len() {
            let (id, data) = cpu_data(bytes, buffer, cpu, &header, &mut total, builder)?;
            let mut is_first = true;
            for chunk in data.chunks(buffer.page_size.unwrap_or(header.page_size)) {
                let Some(page) = Page::new(chunk, layout) else { continue };
                if let Missed::Events(n) = page.missed {
                    builder.lost(n);
                    if is_first && !header.ours {
                        builder.begins(id, header.at(cpu, page.stamp), true);
                    }
                }
                is_first = false;
                for (time, record) in page {
                    let at = header.at(cpu, time);
                    builder.ascending(at);
                    one(record, Place { at, cpu: id, ..Place::default() }, &common, &mut kinds, big, builder);
                }
            }
            builder.new_stream();
        }
    }
    // It stands before the events: of a file that is cut off, they end earlier.
    let is_whole = |(_, offset, size): &(u32, u64, u64)| offset.saturating_add(*size) <= bytes.len() as u64;
    if let Some(end) = header.end.filter(|_| header.buffers.iter().flat_map(|b| &b.cpus).all(is_whole)) {
        builder.ends(header.shift.added(end));
    }
    builder.recording.nr_cpus = header.nr_cpus.max(nr_cpus);
    builder.recording.cpus_told = header.nr_cpus > 0;
    // Counts that became ns are of the clock that trace-cmd calls so.
    builder.recording.clock = header.tsc.map(|_| "tsc2nsec".into()).or(header.clock.clone());
    if let Some(clock) = header.clock.as_deref().filter(|c| header.tsc.is_none() && COUNTERS.contains(c)) {
        builder.not_ns(&format!("the clock of the stamps is {clock}"), CLOCK_IN_NS);
    }
    builder.recording.release.clone_from(&header.release);
    builder.recording.machine.clone_from(&header.machine);
    for known in kinds.into_iter().flatten() {
        if let Known::Other(name, n @ 1..) = known {
            builder.unknown_many(name.as_bytes(), n);
        }
    }
    Ok(header.name())
}

/// Clocks of the kernel that count ns.
const CLOCKS: [&str; 7] = ["local", "global", "perf", "mono", "mono_raw", "boot", "tai"];
/// And those that do not.
const COUNTERS: [&str; 4] = ["counter", "uptime", "x86-tsc", "ppc-tb"];

/// One record.
fn one(
    record: &[u8],
    mut place: Place,
    common: &header::Common,
    kinds: &mut [Option<Known>],
    big: bool,
    builder: &mut Builder,
) {
    let id = common.kind.int(record, big) as usize;
    match kinds.get_mut(id) {
        Some(Some(Known::Plan(plan))) => {
            place.current = u32::try_from(common.pid.int(record, big)).ok();
            const HARDIRQ_SOFTIRQ: i64 = 0x18;
            place.irq = Some(common.flags.int(record, big) & HARDIRQ_SOFTIRQ != 0);
            let ints = plan.numbers(record, big);
            let mut strs: [&[u8]; 2] = [&[]; 2];
            for (slot, field) in strs.iter_mut().zip(&plan.strs) {
                *slot = field.map_or(&[][..], |f| f.text(record, big));
            }
            builder.row(plan.row, place, &ints, &strs[..plan.row.strs.len()]);
        }
        Some(Some(Known::Other(_, n))) => *n += 1,
        _ => builder.unknown(b"(no format in the file)"),
    }
}

/// The pages of one CPU, decompressed, and its number. Of all CPUs of all buffers together they are no more than a file of that size can
/// hold.
fn cpu_data<'a>(
    bytes: &'a [u8],
    buffer: &Buffer,
    index: usize,
    header: &Header,
    total: &mut usize,
    builder: &mut Builder,
) -> Result<(u32, Cow<'a, [u8]>), Refused> {
    let (cpu, offset, size) = buffer.cpus[index];
    let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
    // trace-cmd does not count the number of chunks, which comes first.
    let size = if buffer.compressed && size > 0 { size.saturating_add(4) } else { size };
    let end = start.saturating_add(usize::try_from(size).unwrap_or(usize::MAX)).min(bytes.len());
    if ((end - start) as u64) < size {
        let message = format!("CPU {cpu}: {size} bytes of events at {offset}, but only {} are there", end - start);
        builder
            .say(Diagnostic::warning("trace::W04", 0..0, message).help("the file is truncated; what it holds is used"));
    }
    let data = &bytes[start..end];
    if !buffer.compressed || size == 0 {
        *total += data.len();
        let limit = wrap::limit(bytes.len());
        if *total > limit {
            return Err(wrap::bomb("what its CPUs have of it, each for itself,", limit));
        }
        return Ok((cpu, Cow::Borrowed(data)));
    }
    let mut whole = Vec::new();
    let mut c = Cursor::new(data, header.big);
    let chunks = c.u32().unwrap_or(0);
    for _ in 0..chunks {
        let Some(part) = chunk(&mut c, header.compression)? else {
            let message = format!("CPU {cpu}: compressed events end early; {} bytes were read", whole.len());
            builder.say(Diagnostic::warning("trace::W04", 0..0, message));
            break;
        };
        *total += part.len();
        let limit = wrap::limit(bytes.len());
        if *total > limit {
            return Err(wrap::bomb("what its compressed sections hold", limit));
        }
        whole.extend_from_slice(&part);
    }
    Ok((cpu, Cow::Owned(whole)))
}

/// `u32 compressed size, u32 size, data`; `None` where it is damaged or not all there.
fn chunk(c: &mut Cursor<'_>, compression: Compression) -> Result<Option<Vec<u8>>, Refused> {
    let (Some(packed), Some(size)) = (c.u32(), c.u32()) else { return Ok(None) };
    let Some(data) = c.take(packed.into()) else { return Ok(None) };
    let limit = wrap::limit(data.len()).min(size as usize);
    let part = match compression {
        Compression::None => return Ok(Some(data.to_vec())),
        Compression::Zlib => wrap::take(flate2::read::ZlibDecoder::new(data), limit)?,
        Compression::Zstd => wrap::unzstd(data, limit)?,
    };
    Ok((part.damage.is_none() && part.bytes.len() == size as usize).then_some(part.bytes))
}
