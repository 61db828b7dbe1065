//! Files of version 7 that are cut off: their sections, one after the other.
//!
//! What says where each CPU's events lie comes last in a file, so that is what a file that was cut off lacks, and nearly all events are
//! there. Sections stand in a row, each with its length; the one of the events holds those of all CPUs in turn, each from a page's
//! beginning on.

use super::super::Refused;
use super::super::build::Builder;
use super::cursor::Cursor;
use super::header::{Buffer, Header, MAX_CPUS};
use super::page::{Page, PageLayout};

/// Most sections that are looked at.
const MAX_SECTIONS: usize = 10_000;
/// Bytes of a section's own header.
const HEAD: u64 = 16;
/// A section's id: events of all CPUs.
const BUFFER: u16 = 3;

impl Header {
    /// Reads what the sections from byte `at` on hold and nothing has led to yet.
    pub(super) fn salvage(&mut self, bytes: &[u8], mut at: u64, builder: &mut Builder) -> Result<(), Refused> {
        let known = (self.formats.is_empty(), builder.has_names());
        for _ in 0..MAX_SECTIONS {
            let mut c = Cursor::new(bytes, self.big);
            let head = c.seek(at).and_then(|()| Some((c.u16()?, c.u16()?, c.u32()?, c.u64()?)));
            let Some((id, flags, _, size)) = head else { break };
            let body = at.saturating_add(HEAD);
            let end = body.saturating_add(size);
            match id {
                // One whose length was still to be written ends with the file.
                BUFFER => {
                    let end = if size == 0 { u64::MAX } else { end };
                    self.found_buffer(bytes, at, flags & 1 != 0, end);
                }
                16 | 18 if known.0 => self.described(id, bytes, at, builder)?,
                21 if !known.1 => self.described(id, bytes, at, builder)?,
                _ => {}
            }
            if id == BUFFER && size == 0 {
                break;
            }
            at = end;
        }
        Ok(())
    }

    /// Events of a buffer that no option tells of.
    fn found_buffer(&mut self, bytes: &[u8], at: u64, compressed: bool, end: u64) {
        if self.buffers.iter().any(|b| b.at == at) {
            return;
        }
        let end = end.min(bytes.len() as u64);
        let page = self.page_size as u64;
        let first = (at + HEAD).next_multiple_of(page);
        let most = if self.nr_cpus > 0 { self.nr_cpus } else { MAX_CPUS as usize };
        let data = bytes.get(..end as usize).unwrap_or(bytes);
        let ends = match compressed {
            true => packed_cpus(data, first, page, most, self.big),
            false => plain_cpus(data, first, page, most, self.pages()),
        };
        let cpus = (0..).zip(ends).map(|(cpu, (start, size))| (cpu, start, size)).collect();
        self.buffers.push(Buffer { cpus, compressed, at, ..Buffer::default() });
    }
}

/// Where each CPU's chunks begin, and their bytes without the four of their number. Each takes at least a page, so this ends.
fn packed_cpus(data: &[u8], mut at: u64, page: u64, most: usize, big: bool) -> Vec<(u64, u64)> {
    let mut cpus = Vec::new();
    let mut c = Cursor::new(data, big);
    while cpus.len() < most {
        let Some(chunks) = c.seek(at).and_then(|()| c.u32()) else { break };
        let begin = c.at() as u64;
        let mut chunk = || {
            let (packed, _) = (c.u32()?, c.u32()?);
            c.take(packed.into())
        };
        let whole = (0..chunks).all(|_| chunk().is_some());
        let end = if whole { c.at() } else { data.len() } as u64;
        cpus.push((at, end - begin));
        at = end.next_multiple_of(page);
    }
    cpus
}

/// Where each CPU's pages begin, and their bytes: the next one's begin where a page is earlier than the events before it.
fn plain_cpus(data: &[u8], first: u64, page: u64, most: usize, layout: PageLayout) -> Vec<(u64, u64)> {
    let mut cpus: Vec<(u64, u64)> = Vec::new();
    let data = usize::try_from(first).ok().and_then(|first| data.get(first..)).unwrap_or_default();
    let mut last = 0;
    for (at, bytes) in (first..).step_by(page as usize).zip(data.chunks(page as usize)) {
        let Some(page) = Page::new(bytes, layout) else { break };
        let goes_on = page.stamp >= last || cpus.len() == most;
        last = page.stamp;
        last = page.last().map_or(last, |(at, _)| at);
        match cpus.last_mut() {
            Some((_, size)) if goes_on => *size += bytes.len() as u64,
            _ => cpus.push((at, bytes.len() as u64)),
        }
    }
    cpus
}
