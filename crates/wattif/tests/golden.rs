//! Every vector file of the project passes on every row, through the code path of `wattif verify`.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use wattif::verify::folder::verify_dir;
use wattif::verify::{KINDS, Kind, Tally, VectorFile};

/// Every file with its rows; companions are read together with another file and have none of their own.
#[rustfmt::skip]
const FILES: &[(&str, u64)] = &[
    ("calc_delta.csv.gz", 1500),
    ("cfs_unit_6.1.jsonl.gz", 1000),
    ("dbs_governors_6.12.csv.gz", 1200),
    ("eevdf_unit_6.12.jsonl.gz", 1000),
    ("effective_util_6.1.csv.gz", 1500),
    ("effective_util_6.12.csv.gz", 1500),
    ("em_6.1.jsonl.gz", 150),
    ("em_6.12.jsonl.gz", 150),
    ("fair_6.1.csv.gz", 8063),
    ("fair_6.12.csv.gz", 8054),
    ("fair_6.12_seqs.jsonl.gz", 0),
    ("fair_6.1_seqs.jsonl.gz", 0),
    ("feec_5.6.jsonl.gz", 600),
    ("feec_6.1.jsonl.gz", 600),
    ("feec_6.12.jsonl.gz", 600),
    ("feec_6.12_noboost.jsonl.gz", 600),
    ("freq_table.csv.gz", 1000),
    ("idle_haltpoll-6.12.csv.gz", 1320),
    ("idle_ladder-6.12.csv.gz", 2640),
    ("idle_menu-6.1.csv.gz", 5760),
    ("idle_menu-6.12.csv.gz", 5760),
    ("idle_teo-5.6.csv.gz", 5760),
    ("idle_teo-6.1.csv.gz", 5760),
    ("idle_teo-6.12.csv.gz", 5760),
    ("idle_wteo-v1.csv.gz", 5760),
    ("idle_wteo-v2.csv.gz", 5760),
    ("pelt_attach_detach.csv.gz", 1500),
    ("pelt_clock.csv.gz", 1830),
    ("pelt_decay.csv.gz", 2100),
    ("pelt_irq.csv.gz", 1220),
    ("pelt_segments.csv.gz", 900),
    ("pelt_sum.csv.gz", 5352),
    ("pelt_tables.jsonl.gz", 3),
    ("post_init_6.1.csv.gz", 500),
    ("post_init_6.12.csv.gz", 500),
    ("prio_weights.csv.gz", 41),
    ("schedutil_6.1.jsonl.gz", 1920),
    ("schedutil_6.12.jsonl.gz", 1920),
    ("schedutil_6.12_noboost.jsonl.gz", 1920),
    ("util_est_6.1.csv.gz", 1500),
    ("util_est_6.12.csv.gz", 1500),
    ("wakeup_5.6.jsonl.gz", 400),
    ("wakeup_5.6_no_sched_idle.jsonl.gz", 400),
    ("wakeup_6.12.jsonl.gz", 500),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors")
}

fn kind_of(stem: &str) -> &'static Kind {
    KINDS.iter().find(|k| k.kernel(stem).is_some()).expect(stem)
}

#[test]
fn every_row_agrees() {
    let report = verify_dir(&folder(), None, &|| {}).expect("the folder is readable");
    let found: Vec<(&str, u64)> = report.files.iter().map(|f| (f.file.as_str(), f.rows)).collect();
    assert_eq!(found, FILES, "files and rows");
    let wrong: Vec<_> = report.files.iter().filter(|f| f.error.is_some() || f.mismatches > 0).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn documents_say_how_many_rows() {
    let rows: u64 = FILES.iter().map(|f| f.1).sum();
    let rows = format!("{},{:03} ", rows / 1000, rows % 1000);
    for page in ["README.md", "COMPARE.md", "CHANGELOG.md"] {
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page)).unwrap();
        assert_eq!(text.matches(&rows).count(), 1, "{page} of {rows}rows");
    }
}

fn read(name: &str) -> String {
    let mut text = String::new();
    let file = std::fs::File::open(folder().join(name)).unwrap();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    text
}

/// `text` with the digit at `at` replaced by another.
fn altered(text: &str, at: usize) -> String {
    let digit = (text.as_bytes()[at] - b'0' + 1) % 10;
    format!("{}{digit}{}", &text[..at], &text[at + 1..])
}

/// The checks can fail: in every kind of file there is a digit of the last row whose change is noticed.
#[test]
fn an_altered_row_is_a_mismatch() {
    for kind in KINDS {
        let stem = |file: &'static str| file.split_once(".csv").or(file.split_once(".jsonl")).expect(file).0;
        let of_kind = |f: &&(&'static str, u64)| f.1 > 0 && kind.kernel(stem(f.0)).is_some();
        let (file, rows) = FILES.iter().filter(of_kind).min_by_key(|f| f.1).expect(kind.name);
        let text = read(file);
        let last_row = text.trim_end().rfind('\n').map_or(0, |i| i + 1);
        let digits = (last_row..text.len()).rev().filter(|&i| text.as_bytes()[i].is_ascii_digit());
        let companions: BTreeMap<String, String> = match file.strip_suffix(".csv.gz") {
            Some(fair) if kind.name == "fair" => {
                [(format!("{fair}_seqs"), read(&format!("{fair}_seqs.jsonl.gz")))].into()
            }
            _ => Default::default(),
        };
        let check =
            |text: String| kind.replay(&VectorFile { stem: stem(file).into(), text, companions: companions.clone() });
        let clean = check(text.clone()).expect(file);
        assert_eq!((clean.rows, clean.mismatches), (*rows, 0), "{file}");
        let noticed = |at: usize| matches!(check(altered(&text, at)), Ok(Tally { mismatches: 1.., .. }));
        assert!(digits.take(60).any(noticed), "{file}: no change of the last row is noticed");
    }
}

/// Text that passes as that of a kernel we have, under the name of one that we have not.
#[test]
fn of_a_kernel_without_rules_nothing_is_certified() {
    for kind in KINDS {
        let stems = || FILES.iter().map(|f| f.0.split_once(".csv").or(f.0.split_once(".jsonl")).expect(f.0).0);
        let Some(stem) = stems().find(|stem| kind.kernel(stem).is_some_and(|k| k != "any")) else { continue };
        let (kernel, file) = (kind.kernel(stem).unwrap(), FILES.iter().find(|f| f.0.starts_with(stem)).unwrap().0);
        let (text, seqs) = (read(file), format!("{stem}_seqs"));
        let seqs = if kind.name == "fair" { read(&format!("{seqs}.jsonl.gz")) } else { String::new() };
        for kernel in ["7.0", "banana"].map(|other| stem.replace(&kernel, other)) {
            let companions = [(format!("{kernel}_seqs"), seqs.clone())].into();
            let found = kind.replay(&VectorFile { stem: kernel.clone(), text: text.clone(), companions });
            assert!(found.as_ref().is_err_and(|e| e.starts_with("there is nothing to compare")), "{kernel}: {found:?}");
        }
    }
}

#[test]
fn a_malformed_file_is_an_error() {
    let run = |stem: &str, text: &str| {
        kind_of(stem).replay(&VectorFile { stem: stem.into(), text: text.into(), companions: Default::default() })
    };
    let em = r#"{"case":0,"cap":512,"pd":{"cpus":1,"skip_ineff":1,"states":[{"f":400000,"p":100,"perf":512,"cost":1,"ineff":0}]},"q":[[9,408,229,0,408]]}"#;
    assert_eq!(run("em_6.12", em).unwrap().mismatches, 0);
    for bad in ["{", "{}", &em.replace("512", "0"), &em.replace("400000", "0")] {
        assert!(run("em_6.12", bad).is_err(), "{bad}");
    }
    assert!(run("schedutil_6.12", r#"{"seq":0,"config":{"ncpu":0}}"#).is_err());
    assert!(run("freq_table", "case,order\n1,asc").is_err());
}
