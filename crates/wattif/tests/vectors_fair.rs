//! Every row of the vectors of load tracking and of the fair classes.

use std::collections::BTreeMap;
use std::io::Read;
use wattif::verify::{KINDS, Tally, VectorFile};

fn read(name: &str) -> String {
    let path = format!("{}/tests/vectors/{name}.gz", env!("CARGO_MANIFEST_DIR"));
    let mut text = String::new();
    let file = std::fs::File::open(&path).unwrap();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    text
}

fn check(stem: &str, extension: &str) -> Tally {
    let mut companions = BTreeMap::new();
    if stem.starts_with("fair_") {
        companions.insert(format!("{stem}_seqs"), read(&format!("{stem}_seqs.jsonl")));
    }
    let kind = KINDS.iter().find(|k| (k.kernel)(stem).is_some()).expect(stem);
    let text = read(&format!("{stem}.{extension}"));
    (kind.check)(&VectorFile { stem: stem.into(), text, companions }).expect(stem)
}

#[test]
fn no_row_differs() {
    let files = [
        ("pelt_tables", "jsonl", 3),
        ("pelt_decay", "csv", 2100),
        ("pelt_segments", "csv", 900),
        ("pelt_sum", "csv", 5352),
        ("pelt_clock", "csv", 1830),
        ("pelt_irq", "csv", 1220),
        ("pelt_attach_detach", "csv", 1500),
        ("post_init_6.1", "csv", 500),
        ("post_init_6.12", "csv", 500),
        ("util_est_6.1", "csv", 1500),
        ("util_est_6.12", "csv", 1500),
        ("prio_weights", "csv", 41),
        ("calc_delta", "csv", 1500),
        ("cfs_unit_6.1", "jsonl", 1000),
        ("eevdf_unit_6.12", "jsonl", 1000),
        ("fair_6.1", "csv", 8063),
        ("fair_6.12", "csv", 8054),
    ];
    let tallies = files.map(|(stem, extension, rows)| {
        let t = check(stem, extension);
        println!("{stem}: {} rows, {} mismatches {:?}", t.rows, t.mismatches, t.first_mismatch);
        (stem, rows, t)
    });
    for (stem, rows, t) in tallies {
        assert_eq!((t.rows, t.mismatches), (rows, 0), "{stem}: {:?}", t.first_mismatch);
    }
}
