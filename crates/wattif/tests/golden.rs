//! Every vector file of the project passes on every row, through the code path of `wattif verify`.

use std::path::Path;
use wattif::verify::folder::verify_dir;

#[test]
fn every_row_agrees() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let report = verify_dir(&dir, &|_| {}).expect("the folder is readable");
    let wrong: Vec<String> = report
        .files
        .iter()
        .filter(|f| f.error.is_some() || f.mismatches > 0 || (f.rows == 0 && f.kind != "companion"))
        .map(|f| format!("{f:?}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
