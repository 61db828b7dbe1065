#![no_main]
//! Platform and kernel files: no panic.

use libfuzzer_sys::fuzz_target;
use wattif_formats::{kernel_toml, platform_toml};

fuzz_target!(|text: &str| {
    let parsed = platform_toml::parse(text, &Default::default());
    assert_eq!(parsed.platform.is_none(), parsed.diagnostics.iter().any(|d| d.is_error()));
    kernel_toml::parse(text, &|_| Some(text.to_string()));
});
