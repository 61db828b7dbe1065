//! Rebuild when a built-in file is added or removed: `include_dir!` itself only notices changes of known files. And a sum of
//! the sources that decide what a run says, so that a store of results knows which model made them.

use std::fs;
use std::path::Path;

#[path = "../wattif-lab/src/fnv.rs"]
mod fnv;

/// Relative to the folder of crates.
const DECIDE: [&str; 3] = ["wattif-model/src", "wattif-sim/src", "wattif-lab/src/metrics"];

fn main() {
    for folder in ["platforms", "kernels", "gallery"] {
        println!("cargo:rerun-if-changed=../../{folder}");
    }
    let mut sum = fnv::EMPTY;
    for folder in DECIDE {
        println!("cargo:rerun-if-changed=../{folder}");
        add(&Path::new("..").join(folder), &mut sum);
    }
    println!("cargo:rustc-env=WATTIF_SOURCES={sum:016x}");
}

fn add(folder: &Path, sum: &mut u64) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|e| e.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            add(&path, sum);
        } else if let Ok(bytes) = fs::read(&path) {
            let name = path.file_name().map_or(Vec::new(), |n| n.as_encoded_bytes().to_vec());
            *sum = fnv::add(*sum, name.into_iter().chain(bytes));
        }
    }
}
