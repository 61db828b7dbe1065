//! Rebuild when a built-in file is added or removed: `include_dir!` itself only notices changes of known files. And a sum of
//! the sources that decide what a run says, so that a store of results knows which model made them.

use std::path::Path;

#[path = "../wattif-lab/src/fnv.rs"]
mod fnv;
mod sources;

/// Relative to the folder of crates.
const DECIDE: [&str; 3] = ["wattif-model/src", "wattif-sim/src", "wattif-lab/src/metrics"];

fn main() {
    for folder in ["platforms", "kernels", "gallery", "docs/examples"] {
        println!("cargo:rerun-if-changed=../../{folder}");
    }
    let mut sum = fnv::EMPTY;
    for folder in DECIDE {
        println!("cargo:rerun-if-changed=../{folder}");
        sources::add(&Path::new("..").join(folder), &mut sum, &|_| false);
    }
    println!("cargo:rustc-env=WATTIF_SOURCES={sum:016x}");
}
