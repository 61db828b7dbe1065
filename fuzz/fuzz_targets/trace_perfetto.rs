#![no_main]
//! Perfetto traces: no panic, and a recording or an error.

use libfuzzer_sys::fuzz_target;
use wattif_formats::trace;

fuzz_target!(|bytes: &[u8]| {
    // A packet with a stamp: whatever follows is taken for Perfetto.
    let read = trace::read(&[&[0x0a, 0x02, 0x40, 0x01], bytes].concat());
    assert_eq!(read.recording.is_none(), read.diagnostics.iter().any(|d| d.is_error()));
});
