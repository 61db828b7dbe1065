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
    ];
    for (stem, extension, rows) in files {
        let tally = check(stem, extension);
        assert_eq!((tally.rows, tally.mismatches), (rows, 0), "{stem}: {:?}", tally.first_mismatch);
    }
}
