//! Rebuild when a built-in file is added or removed: `include_dir!` itself only notices changes of known files.

fn main() {
    for folder in ["platforms", "kernels", "gallery"] {
        println!("cargo:rerun-if-changed=../../{folder}");
    }
}
