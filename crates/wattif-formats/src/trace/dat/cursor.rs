//! Checked reading of binary fields in either byte order.

/// A place in a byte string. Every read is checked; `None` means that the data ends before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    big: bool,
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8], big: bool) -> Cursor<'a> {
        Cursor { bytes, at: 0, big }
    }
    pub fn at(&self) -> usize {
        self.at
    }
    /// Go to an absolute place.
    pub fn seek(&mut self, at: u64) -> Option<()> {
        self.at = usize::try_from(at).ok().filter(|&at| at <= self.bytes.len())?;
        Some(())
    }
    pub fn take(&mut self, n: u64) -> Option<&'a [u8]> {
        let n = usize::try_from(n).ok()?;
        let part = self.bytes.get(self.at..self.at.checked_add(n)?)?;
        self.at += n;
        Some(part)
    }
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }
    pub fn u8(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }
    pub fn u16(&mut self) -> Option<u16> {
        Some(number(self.take(2)?, self.big) as u16)
    }
    pub fn u32(&mut self) -> Option<u32> {
        Some(number(self.take(4)?, self.big) as u32)
    }
    pub fn u64(&mut self) -> Option<u64> {
        Some(number(self.take(8)?, self.big))
    }
    /// Up to a zero byte, which is skipped.
    pub fn text(&mut self) -> Option<&'a [u8]> {
        let len = self.rest().iter().position(|&b| b == 0)?;
        let text = self.take(len as u64)?;
        self.at += 1;
        Some(text)
    }
    /// Skip this marker if it is here.
    pub fn skip(&mut self, marker: &[u8]) -> Option<()> {
        let here = self.rest().starts_with(marker);
        self.at += if here { marker.len() } else { 0 };
        here.then_some(())
    }
}

/// An unsigned number of up to 8 bytes.
#[inline]
pub(super) fn number(bytes: &[u8], big: bool) -> u64 {
    match (bytes, big) {
        (&[a, b, c, d], false) => u32::from_le_bytes([a, b, c, d]).into(),
        (_, false) => bytes.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b)),
        (_, true) => bytes.iter().fold(0, |n, &b| n << 8 | u64::from(b)),
    }
}
