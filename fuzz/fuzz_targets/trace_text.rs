#![no_main]
//! ftrace text in every variant: no panic, and a recording or an error.

use libfuzzer_sys::fuzz_target;
use wattif_formats::trace;

fuzz_target!(|bytes: &[u8]| {
    let read = trace::read(&[b"# tracer: nop\n", bytes].concat());
    assert_eq!(read.recording.is_none(), read.diagnostics.iter().any(|d| d.is_error()));
});
