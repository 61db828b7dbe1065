#![no_main]
//! trace.dat of both versions: no panic, and a recording or an error.

use libfuzzer_sys::fuzz_target;
use wattif_formats::trace;

fuzz_target!(|bytes: &[u8]| {
    let read = trace::read(&[b"\x17\x08\x44tracing", bytes].concat());
    assert_eq!(read.recording.is_none(), read.diagnostics.iter().any(|d| d.is_error()));
});
