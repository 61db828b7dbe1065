//! Every row of the vectors of the frequency side and of energy-aware placement.

use std::io::Read;
use wattif::verify::{KINDS, Tally, VectorFile};

fn check(stem: &str, extension: &str) -> Tally {
    let path = format!("{}/tests/vectors/{stem}.{extension}.gz", env!("CARGO_MANIFEST_DIR"));
    let mut text = String::new();
    let file = std::fs::File::open(&path).unwrap();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    let kind = KINDS.iter().find(|k| (k.kernel)(stem).is_some()).expect(stem);
    (kind.check)(&VectorFile { stem: stem.into(), text, companions: Default::default() }).expect(stem)
}

#[test]
fn no_row_differs() {
    let files = [
        ("effective_util_6.1", "csv", 1500),
        ("effective_util_6.12", "csv", 1500),
        ("freq_table", "csv", 1000),
        ("schedutil_6.1", "jsonl", 1920),
        ("schedutil_6.12", "jsonl", 1920),
        ("schedutil_6.12_noboost", "jsonl", 1920),
        ("dbs_governors_6.12", "csv", 1200),
        ("em_6.1", "jsonl", 150),
        ("em_6.12", "jsonl", 150),
        ("feec_5.6", "jsonl", 600),
        ("feec_6.1", "jsonl", 600),
        ("feec_6.12", "jsonl", 600),
        ("feec_6.12_noboost", "jsonl", 600),
    ];
    for (stem, extension, rows) in files {
        let tally = check(stem, extension);
        assert_eq!((tally.rows, tally.mismatches), (rows, 0), "{stem}: {:?}", tally.first_mismatch);
    }
}

#[test]
fn a_malformed_file_is_an_error_and_an_altered_row_a_mismatch() {
    let run = |stem: &str, text: &str| {
        let kind = KINDS.iter().find(|k| (k.kernel)(stem).is_some()).expect(stem);
        (kind.check)(&VectorFile { stem: stem.into(), text: text.into(), companions: Default::default() })
    };
    let em = r#"{"case":0,"cap":512,"pd":{"cpus":1,"skip_ineff":1,"states":[{"f":400000,"p":100,"perf":512,"cost":1,"ineff":0}]},"q":[[9,408,229,0,ENERGY]]}"#;
    assert_eq!(run("em_6.12", &em.replace("ENERGY", "408")).unwrap().mismatches, 0);
    assert_eq!(run("em_6.12", &em.replace("ENERGY", "409")).unwrap().mismatches, 1);
    for bad in ["{", "{}", &em.replace("512", "0"), &em.replace("400000", "0")] {
        assert!(run("em_6.12", bad).is_err(), "{bad}");
    }
    assert!(run("em_7.0", "").is_err(), "a kernel we do not have");
    assert!(run("schedutil_6.12", r#"{"seq":0,"config":{"ncpu":0}}"#).is_err());
    assert!(run("freq_table", "case,order\n1,asc").is_err());
}
