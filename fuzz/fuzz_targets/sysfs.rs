#![no_main]
//! Captures of machines and kernels: no panic; a file of any name holds any of the pieces of the input.

use libfuzzer_sys::fuzz_target;
use wattif_formats::sysfs;

fuzz_target!(|bytes: &[u8]| {
    let pieces: Vec<&[u8]> = bytes.split(|&b| b == 0).collect();
    let read = |path: &str| {
        let sum = path.bytes().fold(0usize, |sum, b| sum.wrapping_mul(31).wrapping_add(b.into()));
        std::str::from_utf8(pieces[sum % pieces.len()]).ok().map(String::from)
    };
    sysfs::platform(&read, "fuzz");
    sysfs::kernel(&sysfs::KernelFacts::of(&read), "fuzz", "linux-6.12", &["PLACE_LAG"]);
    if let Ok(text) = std::str::from_utf8(bytes) {
        sysfs::kernel(&sysfs::KernelFacts::from_text(text), "fuzz", "linux-6.12", &["PLACE_LAG"]);
    }
});
