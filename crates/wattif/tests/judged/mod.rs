//! Lists of judged figures, a line each, that stand beside the tests: a figure that is only shown from now on is missing in them.

use std::path::{Path, PathBuf};

/// Where the list is, and which of its lines are no longer judged, and which lines are new. `WATTIF_GEN=1` writes it first.
pub fn changes(list: &str, judged: &str) -> (PathBuf, Vec<String>, Vec<String>) {
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(list);
    if std::env::var_os("WATTIF_GEN").is_some() {
        std::fs::write(&list, judged).unwrap();
    }
    let was = std::fs::read_to_string(&list).unwrap();
    let without = |of: &str, other: &str| {
        of.lines().filter(|l| !other.lines().any(|o| o == *l)).map(String::from).collect::<Vec<_>>()
    };
    let (gone, fresh) = (without(&was, judged), without(judged, &was));
    (list, gone, fresh)
}
