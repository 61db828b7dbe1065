//! What memory and I/O events cost. rt-app does real accesses; here they are frequency-insensitive work of these lengths.
//!
//! All figures are estimates for a mobile core of the last decade with LPDDR4 (order of magnitude, not a
//! measurement); they are in one place so that a platform with measured ones can replace them.

/// `mem`: memset streams at 4 GB/s. Picoseconds per byte.
const MEMSET_PS_PER_BYTE: u64 = 250;
/// `iorun`: one `write()` system call, ns. To `/dev/null` this is all there is.
const WRITE_NS_PER_CALL: u64 = 500;
/// `iorun` to any other device: the copy into the page cache, picoseconds per byte.
const WRITE_PS_PER_BYTE: u64 = 500;
/// `memrun` read and write: one byte access of a sequential walk, prefetched. Picoseconds per access.
const WALK_PS_PER_ACCESS: u64 = 1_000;
/// `memrun` chase: one dependent load, ns, by footprint in bytes (up to and including).
pub const CHASE_NS_BY_FOOTPRINT: [(u64, u64); 4] = [
    (32 << 10, 2),   // first-level cache
    (1 << 20, 8),    // second-level cache
    (8 << 20, 30),   // last-level cache
    (u64::MAX, 110), // memory
];
/// Bytes a cache line holds: the footprint of one position of a chase.
const LINE: u64 = 64;
/// Bytes that a prefetcher does not look beyond.
const PAGE: u64 = 4096;

/// Work of `mem`, ns.
pub fn memset_ns(bytes: u64) -> u64 {
    scaled(bytes, MEMSET_PS_PER_BYTE)
}

/// Bytes of a `mem` that takes so long.
pub fn memset_bytes(ns: u64) -> u64 {
    ns.saturating_mul(1000) / MEMSET_PS_PER_BYTE
}

/// Work of `iorun`, ns, in chunks of `buffer` bytes.
pub fn write_ns(bytes: u64, buffer: u64, null_device: bool) -> u64 {
    let calls = bytes.div_ceil(buffer.max(1));
    let copy = if null_device { 0 } else { scaled(bytes, WRITE_PS_PER_BYTE) };
    calls.saturating_mul(WRITE_NS_PER_CALL).saturating_add(copy)
}

/// Work of `memrun` of type read or write, ns. Byte by byte a walk is slower than memory streams, so it takes as long beyond the
/// caches as within.
pub fn walk_ns(count: u64) -> u64 {
    scaled(count, WALK_PS_PER_ACCESS.max(MEMSET_PS_PER_BYTE))
}

/// Positions of a chase: rounded down to a power of two, at least 2.
pub fn chase_positions(size: u64, stride: u64) -> u64 {
    1 << (size / stride.max(1)).max(2).ilog2()
}

/// Work of `memrun` of type chase, ns: `count` dependent loads through a ring of positions every `stride` bytes of
/// `size`. In order they are prefetched, within pages: each costs what its part of a line takes to stream, or what the cache that
/// holds them all takes, if that is less.
pub fn chase_ns(size: u64, stride: u64, count: u64, sequential: bool) -> u64 {
    let apart = stride.min(LINE);
    let footprint = chase_positions(size, stride).saturating_mul(apart);
    let ns = CHASE_NS_BY_FOOTPRINT.iter().find(|(upto, _)| footprint <= *upto).map_or(110, |(_, ns)| *ns);
    let ns = match sequential && stride < PAGE {
        true => ns.min(memset_ns(apart).max(CHASE_NS_BY_FOOTPRINT[0].1)),
        false => ns,
    };
    count.saturating_mul(ns)
}

fn scaled(amount: u64, ps: u64) -> u64 {
    (amount as u128 * ps as u128 / 1000).min(u64::MAX as u128) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs() {
        assert_eq!((memset_ns(4 << 20), memset_bytes(1_048_576)), (1_048_576, 4 << 20));
        assert_eq!(write_ns(4096, 4096, true), 500);
        assert_eq!(write_ns(4097, 4096, false), 1000 + 2048);
        assert_eq!(chase_ns(4096, 64, 10, false), 20);
        assert_eq!(chase_ns(64 << 20, 64, 10, false), 1100, "1 Mi positions of a line: memory");
        assert_eq!(chase_ns(1, 64, 3, false), 6, "never fewer than two positions");
    }

    #[test]
    fn a_chase_in_order_is_prefetched() {
        let check = |size, stride, ns| assert_eq!(chase_ns(size, stride, 1, true), ns, "{size} bytes by {stride}");
        check(64 << 20, 64, 16);
        check(64 << 20, 16, 4);
        check(64 << 20, 1, 2);
        check(512 << 10, 64, 8);
        check(4096, 64, 2);
        // From page to page nothing is.
        check(64 << 30, 4096, 110);
    }
}
