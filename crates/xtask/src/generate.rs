//! `cargo xtask gen`: the reference, written from the registries and the definition of the command line.

use crate::step::root;
use std::fs;
use std::path::PathBuf;

/// Every generated page: path below the root, contents.
fn pages() -> Vec<(PathBuf, String)> {
    wattif::reference::pages()
        .into_iter()
        .map(|(name, text)| (root().join("docs/reference").join(name), text))
        .collect()
}

/// Write the pages that changed.
pub fn write() -> Result<(), String> {
    for (path, text) in stale()? {
        let folder = path.parent().expect("pages lie in a folder");
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&path, text))
            .map_err(|e| format!("{}: {e}", path.display()))?;
        eprintln!("xtask: wrote {}", path.display());
    }
    Ok(())
}

/// Say whether the pages are those that would be written.
pub fn check() -> Result<(), String> {
    let stale = stale()?;
    let names: Vec<String> = stale.iter().map(|(path, _)| path.display().to_string()).collect();
    if names.is_empty() { Ok(()) } else { Err(format!("not fresh, run `cargo xtask gen`: {}", names.join(", "))) }
}

fn stale() -> Result<Vec<(PathBuf, String)>, String> {
    Ok(pages().into_iter().filter(|(path, text)| fs::read_to_string(path).ok().as_ref() != Some(text)).collect())
}
