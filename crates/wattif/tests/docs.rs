//! Every console block of the README, the docs and the gallery is executed and its output compared.
//! The reference is what the registries say. `cargo xtask gen` writes it.
//! `TRYCMD=overwrite cargo test -p wattif --test docs` writes what the commands print today.

use std::fs;
use std::path::Path;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two folders down")
}

#[test]
fn reference_is_fresh() {
    let folder = root().join("docs/reference");
    let pages = wattif::reference::pages();
    if std::env::var_os("WATTIF_GEN").is_some() {
        fs::create_dir_all(&folder).unwrap();
        pages.iter().for_each(|(name, text)| fs::write(folder.join(name), text).unwrap());
    }
    let fresh = |name: &str, text: &str| fs::read_to_string(folder.join(name)).is_ok_and(|t| t == text);
    let stale: Vec<&str> = pages.iter().filter(|(n, t)| !fresh(n, t)).map(|(n, _)| n.as_str()).collect();
    assert!(stale.is_empty(), "not fresh, run `cargo xtask gen`: {stale:?}");
}

#[test]
fn console_blocks() {
    let root = root();
    let cases = trycmd::TestCases::new();
    cases.env("NO_COLOR", "1").env("COLUMNS", "100");
    for pages in ["README.md", "docs/*.md", "docs/*/*.md", "gallery/*.md", "gallery/*/README.md"] {
        cases.case(root.join(pages));
    }
}
