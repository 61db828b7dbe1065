//! Every console block of the README, the docs and the gallery is executed and its output compared.
//! `TRYCMD=overwrite cargo test -p wattif --test docs` writes what the commands print today.

use std::path::Path;

#[test]
fn console_blocks() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two folders down");
    let cases = trycmd::TestCases::new();
    cases.env("NO_COLOR", "1").env("COLUMNS", "100");
    for pages in ["*.md", "docs/*.md", "docs/*/*.md", "gallery/*.md", "gallery/*/README.md"] {
        cases.case(root.join(pages));
    }
}
