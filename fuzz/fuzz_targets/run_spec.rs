#![no_main]

#[path = "../specs.rs"]
mod specs;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    specs::run(bytes);
});
