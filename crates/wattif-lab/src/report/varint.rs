//! Columns of integers as bytes: LEB128, each value by itself.

/// Appends `value`.
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A column.
pub fn column(values: impl Iterator<Item = u64>) -> Vec<u8> {
    let mut out = Vec::new();
    values.for_each(|v| put(&mut out, v));
    out
}

#[cfg(test)]
pub fn read(bytes: &[u8]) -> Vec<u64> {
    let mut values = Vec::new();
    let (mut value, mut shift) = (0u64, 0);
    for &b in bytes {
        value |= u64::from(b & 0x7f) << shift;
        shift += 7;
        if b < 0x80 {
            values.push(value);
            (value, shift) = (0, 0);
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_back() {
        let values = [0, 1, 127, 128, 300, 1 << 40, u64::MAX];
        assert_eq!(read(&column(values.into_iter())), values);
    }
}
