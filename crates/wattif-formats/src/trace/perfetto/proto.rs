//! Protocol buffers, as much as traces need: varints, fields, packed numbers; read and written by hand.

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// Varint, or a fixed number's bits.
    Number(u64),
    /// Bytes: a message, text, packed numbers.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    pub fn number(self) -> u64 {
        match self {
            Value::Number(n) => n,
            Value::Bytes(_) => 0,
        }
    }
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Value::Bytes(b) => b,
            Value::Number(_) => &[],
        }
    }
}

/// The fields of a message, in order. Ends at the first that is damaged; [`Fields::is_whole`] says which it was.
pub(super) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
    damaged: bool,
}

pub(super) fn fields(bytes: &[u8]) -> Fields<'_> {
    Fields { bytes, at: 0, damaged: false }
}

impl<'a> Fields<'a> {
    /// Nothing was cut off.
    pub fn is_whole(&self) -> bool {
        !self.damaged
    }
    pub fn at(&self) -> usize {
        self.at
    }

    #[inline]
    fn field(&mut self) -> Option<(u32, Value<'a>)> {
        let key = varint(self.bytes, &mut self.at)?;
        let field = u32::try_from(key >> 3).ok().filter(|&f| f > 0)?;
        let value = match key & 7 {
            0 => Value::Number(varint(self.bytes, &mut self.at)?),
            1 => Value::Number(u64::from_le_bytes(self.take(8)?.try_into().ok()?)),
            2 => {
                let len = varint(self.bytes, &mut self.at)?;
                Value::Bytes(self.take(len)?)
            }
            5 => Value::Number(u32::from_le_bytes(self.take(4)?.try_into().ok()?).into()),
            _ => return None,
        };
        Some((field, value))
    }
    fn take(&mut self, len: u64) -> Option<&'a [u8]> {
        let end = self.at.checked_add(usize::try_from(len).ok()?)?;
        let part = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(part)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u32, Value<'a>);
    #[inline]
    fn next(&mut self) -> Option<(u32, Value<'a>)> {
        if self.at >= self.bytes.len() || self.damaged {
            return None;
        }
        let start = self.at;
        let field = self.field();
        if field.is_none() {
            (self.damaged, self.at) = (true, start);
        }
        field
    }
}

#[inline]
pub(super) fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    // Most are small.
    match bytes.get(*at..) {
        Some([b, ..]) if *b < 0x80 => {
            *at += 1;
            Some(u64::from(*b))
        }
        Some([a, b, ..]) if *b < 0x80 => {
            *at += 2;
            Some(u64::from(*a & 0x7f) | u64::from(*b) << 7)
        }
        _ => long_varint(bytes, at),
    }
}

fn long_varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut n = 0u64;
    for shift in (0..70).step_by(7) {
        let b = *bytes.get(*at)?;
        *at += 1;
        if shift < 64 {
            n |= u64::from(b & 0x7f) << shift;
        }
        if b < 0x80 {
            return Some(n);
        }
    }
    None
}

/// Packed varints.
pub(super) fn packed(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || varint(bytes, &mut at))
}

// ---- writing -----------------------------------------------------------------------------------------------------------

pub(super) fn put_varint(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// A message in the making.
#[derive(Clone, Debug, Default)]
pub(super) struct Message(pub Vec<u8>);

impl Message {
    pub fn varint(&mut self, n: u64) {
        put_varint(&mut self.0, n);
    }
    pub fn number(&mut self, field: u32, n: u64) -> &mut Message {
        self.varint(u64::from(field) << 3);
        self.varint(n);
        self
    }
    /// Negative numbers take ten bytes, as the encoding has it.
    pub fn signed(&mut self, field: u32, n: i64) -> &mut Message {
        self.number(field, n as u64)
    }
    pub fn bytes(&mut self, field: u32, bytes: &[u8]) -> &mut Message {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }
    pub fn text(&mut self, field: u32, text: &str) -> &mut Message {
        self.bytes(field, text.as_bytes())
    }
    pub fn double(&mut self, field: u32, n: f64) -> &mut Message {
        self.varint(u64::from(field) << 3 | 1);
        self.0.extend_from_slice(&n.to_bits().to_le_bytes());
        self
    }
    pub fn message(&mut self, field: u32, inner: &Message) -> &mut Message {
        self.bytes(field, &inner.0)
    }
    pub fn clear(&mut self) {
        self.0.clear();
    }
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let mut inner = Message::default();
        inner.number(1, u64::MAX).text(2, "x").double(3, 0.5);
        let mut m = Message::default();
        m.message(4, &inner).number(300, 5);
        let all: Vec<_> = fields(&m.0).collect();
        assert_eq!(all, [(4, Value::Bytes(&inner.0)), (300, Value::Number(5))]);
        let inner: Vec<_> = fields(&inner.0).collect();
        assert_eq!(
            inner,
            [(1, Value::Number(u64::MAX)), (2, Value::Bytes(b"x")), (3, Value::Number(0.5f64.to_bits()))]
        );
    }

    #[test]
    fn damage() {
        for bad in [
            &[0x0a, 0x05, 1][..],
            &[0x0f],
            &[0x08],
            &[0x00],
            &[0x08, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1],
        ] {
            let mut f = fields(bad);
            assert_eq!((f.next(), f.is_whole(), f.at()), (None, false, 0), "{bad:?}");
        }
    }
}
