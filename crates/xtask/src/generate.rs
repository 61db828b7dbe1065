//! `cargo xtask gen`: the reference, written from the registries and the definition of the command line, and the drawings in
//! pages, by the commands beside them.
//!
//! Tests of the facade hold the pages to the code; told to by the environment it writes them first. So this command needs
//! no build of its own.

use crate::step::{cargo, run_with};

const TEST: [&str; 7] = ["test", "-p", "wattif", "--locked", "--test", "docs", "_fresh"];

/// Write the pages.
pub fn write() -> Result<(), String> {
    run_with(&cargo(), &TEST, &[("WATTIF_GEN", "write")])
}

/// Say whether the pages are those that would be written.
pub fn check() -> Result<(), String> {
    run_with(&cargo(), &TEST, &[])
}
