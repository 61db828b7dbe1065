//! FNV-1a: a fixed map from bytes to 64 bits. It notices changes, not attacks. Also part of build scripts, so it needs nothing.

/// The sum of nothing.
pub const EMPTY: u64 = 0xcbf2_9ce4_8422_2325;

/// `sum` and more bytes.
pub fn add(sum: u64, bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(sum, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
}
