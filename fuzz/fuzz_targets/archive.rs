#![no_main]
//! Archives of recordings: no panic, and what is in them lies within.

use libfuzzer_sys::fuzz_target;
use wattif_formats::archive;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(a) = archive::read(bytes) {
        assert!(a.trace.len() + a.platform.map_or(0, str::len) + a.kernel.map_or(0, str::len) <= bytes.len());
    }
});
