#![no_main]
//! Devicetree blobs: no panic, and what comes out is a platform file.

use libfuzzer_sys::fuzz_target;
use wattif_formats::{dtb, platform_toml};

fuzz_target!(|bytes: &[u8]| {
    let imported = dtb::import(bytes, "fuzz", None);
    assert_eq!(imported.toml.is_none(), imported.diagnostics.iter().any(|d| d.is_error()));
    if let Some(toml) = imported.toml {
        platform_toml::parse(&toml, &Default::default());
    }
});
