//! What is done with the input of each fuzz target; the tests replay what fuzzing came across with the same calls.

use wattif_formats::{archive, dtb, kernel_toml, platform_toml, rtapp, sysfs, trace, workload_json};

/// Read `bytes` as the target does. Panics where the code is wrong, never because the input is.
pub fn run(target: &str, bytes: &[u8]) {
    match target {
        "trace" => trace_of(bytes),
        "trace_dat" => trace_of(&[b"\x17\x08\x44tracing", bytes].concat()),
        "trace_text" => trace_of(&[b"# tracer: nop\n", bytes].concat()),
        // A packet with a stamp: whatever follows is taken for Perfetto.
        "trace_perfetto" => trace_of(&[&[0x0a, 0x02, 0x40, 0x01], bytes].concat()),
        "archive" => archive_of(bytes),
        "dtb" => dtb_of(bytes),
        "sysfs" => sysfs_of(bytes),
        "rtapp" => std::str::from_utf8(bytes).iter().for_each(|text| rtapp_of(text)),
        "workload" => std::str::from_utf8(bytes).iter().for_each(|text| workload_of(text)),
        "platform" => std::str::from_utf8(bytes).iter().for_each(|text| platform_of(text)),
        other => panic!("no target is called {other}"),
    }
}

/// A recording or an error.
fn trace_of(bytes: &[u8]) {
    let read = trace::read(bytes);
    assert_eq!(read.recording.is_none(), read.diagnostics.iter().any(|d| d.is_error()));
}

/// What is in an archive lies within.
fn archive_of(bytes: &[u8]) {
    if let Ok(a) = archive::read(bytes) {
        assert!(a.trace.len() + a.platform.map_or(0, str::len) + a.kernel.map_or(0, str::len) <= bytes.len());
    }
}

/// What comes out of a devicetree blob is a platform file.
fn dtb_of(bytes: &[u8]) {
    let imported = dtb::import(bytes, "fuzz", None);
    assert_eq!(imported.toml.is_none(), imported.diagnostics.iter().any(|d| d.is_error()));
    let parsed = imported.toml.map(|toml| platform_toml::parse(&toml, &Default::default()));
    assert!(parsed.is_none_or(|p| p.platform.is_some()), "what is imported is a platform");
}

/// Captures of machines and kernels; a file of any name holds any of the pieces of the input.
fn sysfs_of(bytes: &[u8]) {
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
}

/// All dialects: a workload exactly when there is no error.
fn rtapp_of(text: &str) {
    for dialect in [rtapp::Dialect::RtApp, rtapp::Dialect::Workgen, rtapp::Dialect::LegacySuspend] {
        let parsed = rtapp::parse(text, "fuzz", &rtapp::Options { dialect, nr_cpus: Some(8), set: vec![] });
        assert_eq!(parsed.workload.is_none(), parsed.diagnostics.iter().any(|d| d.is_error()));
    }
}

/// Our own workload files: what is read is written, and reads back the same. Some become rt-app files as well.
fn workload_of(text: &str) {
    let Ok(read) = workload_json::parse(text, 8) else { return };
    let written = workload_json::write(&read.workload, read.calibration_cpu, &read.logs);
    assert_eq!(workload_json::parse(&written, 8).as_ref(), Ok(&read));
    rtapp::write(&read.workload, read.calibration_cpu, &read.logs);
}

/// Platform and kernel files.
fn platform_of(text: &str) {
    let parsed = platform_toml::parse(text, &Default::default());
    assert_eq!(parsed.platform.is_none(), parsed.diagnostics.iter().any(|d| d.is_error()));
    kernel_toml::parse(text, &|_| Some(text.to_string()));
}
