//! Hostile input: every prefix, every single-byte change and random shuffles of a corpus. Nothing panics, every span lies
//! in the text, and a workload comes out exactly when there is no error.

use proptest::prelude::*;
use std::fs;
use std::path::Path;
use wattif_formats::rtapp::{Dialect, Options, parse};
use wattif_model::workload::Op;

fn corpus() -> Vec<(String, Vec<u8>)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/rtapp");
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 15);
    files.iter().map(|p| (p.file_stem().unwrap().to_string_lossy().into(), fs::read(p).unwrap())).collect()
}

fn check(bytes: &[u8], dialect: Dialect) {
    let text = String::from_utf8_lossy(bytes);
    let parsed = parse(&text, "corpus", &Options { dialect, nr_cpus: Some(8), set: vec![] });
    let failed = parsed.diagnostics.iter().any(|d| d.is_error());
    assert_eq!(failed, parsed.workload.is_none(), "{text}");
    for d in &parsed.diagnostics {
        assert!(d.span.start <= d.span.end && d.span.end <= text.len(), "{d:?} in {text}");
        d.line_column(&text);
    }
    for task in parsed.workload.iter().flat_map(|w| &w.tasks) {
        for (at, op) in task.program.ops.iter().enumerate() {
            if let Op::Loop { end, .. } = op {
                assert_eq!(task.program.ops[*end as usize], Op::LoopEnd { begin: at as u32 });
            }
        }
    }
}

#[test]
fn every_prefix() {
    for (_, bytes) in corpus() {
        (0..=bytes.len()).for_each(|n| check(&bytes[..n], Dialect::Workgen));
    }
}

#[test]
fn every_single_byte_change() {
    for (_, bytes) in corpus() {
        for at in 0..bytes.len() {
            for new in *b"{}[]\":,'/*-9 \\\xff\0" {
                let mut changed = bytes.clone();
                changed[at] = new;
                let dialect = [Dialect::RtApp, Dialect::Workgen, Dialect::LegacySuspend][at % 3];
                check(&changed, dialect);
            }
            let mut removed = bytes.clone();
            removed.remove(at);
            check(&removed, Dialect::Workgen);
        }
    }
}

/// Names of the corpus that rt-app would refuse.
#[test]
fn which_files_are_refused() {
    let refused = |dialect| {
        let bad = |(name, bytes): (String, Vec<u8>)| {
            let text = String::from_utf8(bytes).unwrap();
            let parsed = parse(&text, &name, &Options { dialect, nr_cpus: Some(8), set: vec![] });
            parsed.workload.is_none().then_some(name)
        };
        corpus().into_iter().filter_map(bad).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(refused(Dialect::Workgen), "mistakes");
    assert_eq!(refused(Dialect::LegacySuspend), "mistakes");
    assert_eq!(refused(Dialect::RtApp), "mistakes siblings suspend traps");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Pieces of two files glued together.
    #[test]
    fn splices(a in any::<prop::sample::Index>(), b in any::<prop::sample::Index>(), from in any::<prop::sample::Index>(), to in any::<prop::sample::Index>()) {
        let files = corpus();
        let (a, b) = (&files[a.index(files.len())].1, &files[b.index(files.len())].1);
        let spliced = [&a[..from.index(a.len())], &b[to.index(b.len())..]].concat();
        check(&spliced, Dialect::Workgen);
    }

    /// Overrides of any shape.
    #[test]
    fn overrides(path in "[a-z_*.0-9]{0,24}", value in ".{0,12}") {
        let text = r#"{"tasks": {"a": {"run": 1, "cpus": [1], "phases": {"p": {"run": 2}}}}, "global": {}}"#;
        parse(text, "t", &Options { set: vec![(path, value)], ..Options::default() });
    }
}

/// 100,000 tasks and a large file are answered in bounded time.
#[test]
fn big_files() {
    let tasks: Vec<String> = (0..100_000).map(|i| format!("\"t{i}\": {{\"run\": 1}}")).collect();
    let parsed = parse(&format!("{{\"tasks\": {{{}}}}}", tasks.join(",")), "big", &Options::default());
    assert!(parsed.workload.is_none() && parsed.diagnostics.iter().any(|d| d.code == "rtapp::E10"));
    let slips: Vec<String> = (0..400_000).map(|i| format!("\"rum{i:040}\": 1, \"fork{i}\": \"nobody\"")).collect();
    let parsed = parse(&format!("{{\"tasks\": {{\"a\": {{{}}}}}}}", slips.join(",")), "big", &Options::default());
    assert!(parsed.workload.is_none() && parsed.diagnostics.len() <= 1001);
    let big = format!("{{\"tasks\": {{\"{}\": {{\"run\": 1}}}}}}", "x".repeat(100 << 20));
    assert_eq!(parse(&big, "big", &Options::default()).diagnostics[0].code, "rtapp::E02");
}
