//! Pages of the kernel's ring buffer: a time stamp, the length, and records with time deltas.

use super::cursor::number;

/// What a page's header says of losses before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missed {
    No,
    /// So many; `None` where the page does not say.
    Events(Option<u64>),
}

/// A page, record by record.
pub(super) struct Page<'a> {
    data: &'a [u8],
    at: usize,
    time: u64,
    pub stamp: u64,
    big: bool,
    pub missed: Missed,
}

/// How pages are laid out, from `header_page` of the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageLayout {
    /// Bytes of `commit`: 4 or 8.
    pub commit_size: usize,
    /// Where the records begin.
    pub data_offset: usize,
    pub big: bool,
}

pub(super) const MISSED_EVENTS: u64 = 1 << 31;
pub(super) const MISSED_STORED: u64 = 1 << 30;
const LENGTH: u64 = (1 << 20) - 1;

impl<'a> Page<'a> {
    /// `None` when not even the header is there.
    pub fn new(bytes: &'a [u8], layout: PageLayout) -> Option<Page<'a>> {
        let big = layout.big;
        let time = number(bytes.get(..8)?, big);
        let commit = number(bytes.get(8..8 + layout.commit_size)?, big);
        let body = bytes.get(layout.data_offset..)?;
        let len = ((commit & LENGTH) as usize).min(body.len());
        let stored = body.get(len..len + layout.commit_size).map(|b| number(b, big));
        let missed = match (commit & MISSED_EVENTS != 0, commit & MISSED_STORED != 0) {
            (false, _) => Missed::No,
            (true, false) => Missed::Events(None),
            (true, true) => Missed::Events(stored),
        };
        Some(Page { data: &body[..len], at: 0, time, stamp: time, big, missed })
    }

    fn word(&self, at: usize) -> Option<u32> {
        Some(number(self.data.get(at..at + 4)?, self.big) as u32)
    }
}

impl<'a> Iterator for Page<'a> {
    /// Stamp and payload.
    type Item = (u64, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<(u64, &'a [u8])> {
        loop {
            let word = self.word(self.at)?;
            // A bit field: its first five bits are the low ones on little endian machines and the high ones on others.
            let (kind, delta) = if self.big { (word >> 27, word & 0x7ff_ffff) } else { (word & 31, word >> 5) };
            let next = self.word(self.at + 4);
            let delta = u64::from(delta);
            match kind {
                29 if delta == 0 => return None,
                29 => {
                    self.time = self.time.wrapping_add(delta);
                    self.at = self.at.checked_add(4 + next? as usize)?;
                }
                30 => {
                    self.time = self.time.wrapping_add(u64::from(next?) << 27 | delta);
                    self.at += 8;
                }
                31 => {
                    // 59 bits; the others are those of the page.
                    let low = u64::from(next?) << 27 | delta;
                    self.time = self.stamp & !((1 << 59) - 1) | low & ((1 << 59) - 1);
                    self.at += 8;
                }
                _ => {
                    self.time = self.time.wrapping_add(delta);
                    let (start, len) = match kind {
                        0 => (self.at + 8, (next? as usize).checked_sub(4)?),
                        n => (self.at + 4, 4 * n as usize),
                    };
                    let payload = self.data.get(start..start.checked_add(len)?)?;
                    self.at = start + len.next_multiple_of(4);
                    return Some((self.time, payload));
                }
            }
        }
    }
}
