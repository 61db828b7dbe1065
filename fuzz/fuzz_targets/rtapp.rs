#![no_main]
//! rt-app files, all dialects: no panic; a workload exactly when there is no error.

use libfuzzer_sys::fuzz_target;
use wattif_formats::rtapp::{Dialect, Options, parse};

fuzz_target!(|text: &str| {
    for dialect in [Dialect::RtApp, Dialect::Workgen, Dialect::LegacySuspend] {
        let parsed = parse(text, "fuzz", &Options { dialect, nr_cpus: Some(8), set: vec![] });
        assert_eq!(parsed.workload.is_none(), parsed.diagnostics.iter().any(|d| d.is_error()));
    }
});
