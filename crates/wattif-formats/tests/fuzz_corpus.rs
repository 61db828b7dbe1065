//! What the fuzz targets came across, replayed: the same calls as in `fuzz/fuzz_targets`. A finding is added to its target's folder.

use std::fs;
use std::path::Path;
use wattif_formats::{archive, dtb, kernel_toml, platform_toml, rtapp, sysfs, trace};

fn trace_of(bytes: &[u8]) {
    let read = trace::read(bytes);
    assert_eq!(read.recording.is_none(), read.diagnostics.iter().any(|d| d.is_error()));
}

fn run(target: &str, bytes: &[u8]) {
    match target {
        "trace_dat" => trace_of(&[b"\x17\x08\x44tracing", bytes].concat()),
        "trace_text" => trace_of(&[b"# tracer: nop\n", bytes].concat()),
        "trace_perfetto" => trace_of(&[&[0x0a, 0x02, 0x40, 0x01], bytes].concat()),
        "archive" => drop(archive::read(bytes)),
        "dtb" => {
            let imported = dtb::import(bytes, "fuzz", None);
            assert_eq!(imported.toml.is_none(), imported.diagnostics.iter().any(|d| d.is_error()));
            imported.toml.iter().for_each(|toml| drop(platform_toml::parse(toml, &Default::default())));
        }
        "sysfs" => {
            let pieces: Vec<&[u8]> = bytes.split(|&b| b == 0).collect();
            let read = |path: &str| {
                let sum = path.bytes().fold(0usize, |sum, b| sum.wrapping_mul(31).wrapping_add(b.into()));
                std::str::from_utf8(pieces[sum % pieces.len()]).ok().map(String::from)
            };
            sysfs::platform(&read, "fuzz");
            sysfs::kernel(&sysfs::KernelFacts::of(&read), "fuzz", "linux-6.12", &["PLACE_LAG"]);
        }
        "rtapp" => {
            let Ok(text) = std::str::from_utf8(bytes) else { return };
            for dialect in [rtapp::Dialect::RtApp, rtapp::Dialect::Workgen, rtapp::Dialect::LegacySuspend] {
                let options = rtapp::Options { dialect, nr_cpus: Some(8), set: vec![] };
                let parsed = rtapp::parse(text, "fuzz", &options);
                assert_eq!(parsed.workload.is_none(), parsed.diagnostics.iter().any(|d| d.is_error()));
            }
        }
        "platform" => {
            let Ok(text) = std::str::from_utf8(bytes) else { return };
            let parsed = platform_toml::parse(text, &Default::default());
            assert_eq!(parsed.platform.is_none(), parsed.diagnostics.iter().any(|d| d.is_error()));
            kernel_toml::parse(text, &|_| Some(text.to_string()));
        }
        other => panic!("no target is called {other}"),
    }
}

#[test]
fn what_fuzzing_came_across() {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/fuzz");
    let mut files = 0;
    for target in fs::read_dir(all).unwrap().map(Result::unwrap) {
        let name = target.file_name().into_string().unwrap();
        for file in fs::read_dir(target.path()).unwrap().map(Result::unwrap) {
            run(&name, &fs::read(file.path()).unwrap());
            files += 1;
        }
    }
    assert!(files >= 40, "{files} files");
}
