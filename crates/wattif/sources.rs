//! A sum of source files, for build scripts: it says whether something was made of what is there now.

use super::fnv;
use std::fs;
use std::path::Path;

/// `sum` and the names and contents of the files below `path`, in order of their names, less what `leaves_out` says.
pub fn add(path: &Path, sum: &mut u64, leaves_out: &dyn Fn(&Path) -> bool) {
    if leaves_out(path) {
        return;
    }
    if path.is_dir() {
        let mut inside: Vec<_> = fs::read_dir(path).into_iter().flatten().flatten().map(|e| e.path()).collect();
        inside.sort();
        inside.iter().for_each(|p| add(p, sum, leaves_out));
    } else if let (Some(name), Ok(bytes)) = (path.file_name(), fs::read(path)) {
        *sum = fnv::add(*sum, name.as_encoded_bytes().iter().copied().chain(bytes));
    }
}
