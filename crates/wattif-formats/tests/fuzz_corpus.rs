//! What the fuzz targets came across, replayed with their own calls. A finding is added to its target's folder.

use std::fs;
use std::path::Path;

#[path = "../../../fuzz/targets.rs"]
mod targets;

#[test]
fn what_fuzzing_came_across() {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/fuzz");
    let mut files = 0;
    for target in fs::read_dir(all).unwrap().map(Result::unwrap) {
        let name = target.file_name().into_string().unwrap();
        for file in fs::read_dir(target.path()).unwrap().map(Result::unwrap) {
            targets::run(&name, &fs::read(file.path()).unwrap());
            files += 1;
        }
    }
    assert!(files >= 40, "{files} files");
}
