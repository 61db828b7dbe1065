//! The report's page: building it, and opening reports in a real browser.

use crate::step::{cargo, output, root, run};
use std::fs;
use std::path::Path;

#[path = "../../wattif-lab/src/fnv.rs"]
mod fnv;
#[path = "../../wattif/sources.rs"]
mod sources;

const PAGE: &str = "web/dist/report.html";
const WASM_GZ: &str = "web/dist/wattif.wasm.gz";
/// Beside the simulator: a sum of the sources it was built from.
const BUILT_FROM: &str = "web/dist/wattif.wasm.sources";
const TARGET: &str = "wasm32-unknown-unknown";
/// What the simulator in the page is made of.
const SOURCES: [&str; 11] = [
    "crates/wattif-model/src",
    "crates/wattif-sim/src",
    "crates/wattif-formats/src",
    "crates/wattif-lab/src",
    "crates/wattif-wasm/src",
    "crates/wattif/src",
    "platforms",
    "kernels",
    "gallery",
    "docs/examples",
    "Cargo.lock",
];
/// Of these, what it does not have: the command line.
const WITHOUT: [&str; 2] = ["crates/wattif/src/cli", "crates/wattif/src/verify"];
/// And what it does not read: the prose and the drawings of the gallery.
const UNREAD: [&str; 2] = ["md", "svg"];

/// `cargo xtask web`: the page and the simulator in it, into `web/dist`.
pub fn build() -> Result<(), String> {
    packages()?;
    run("npm", &["--prefix", "web", "run", "build"])?;
    simulator()
}

/// The page is what its sources build; reports open in a browser and say what the program says. The simulator is built anew where
/// its sources have changed.
pub fn test() -> Result<(), String> {
    if output("npm", &["--version"]).is_none() {
        eprintln!("xtask: SKIPPED the page: there is no npm");
        return Ok(());
    }
    if let Err(why) = packages() {
        eprintln!("xtask: SKIPPED the page: its packages cannot be had ({why})");
        return Ok(());
    }
    let checked_in = read(PAGE);
    run("npm", &["--prefix", "web", "run", "build"])?;
    if read(PAGE) != checked_in {
        return Err(format!("{PAGE} is not what its sources build: commit what is there now"));
    }
    if read(BUILT_FROM) != Some(format!("{:016x}\n", sum())) {
        if !crate::test::has_wasm() {
            eprintln!("xtask: SKIPPED the page: {WASM_GZ} is of other sources, and there is no target {TARGET}");
            return Ok(());
        }
        eprintln!(
            "xtask: the simulator in {WASM_GZ} is of other sources; building it (commit it with `cargo xtask web`)"
        );
        simulator()?;
    }
    if let Err(why) = browser() {
        eprintln!("xtask: SKIPPED reports in a browser: there is no `chromium` and it cannot be installed ({why})");
        return Ok(());
    }
    run(&cargo(), &["build", "--locked", "-p", "wattif"])?;
    run("npm", &["--prefix", "web", "test"])
}

/// `cargo xtask bench page`: how long a report of a million slices takes to open and to draw, one JSON line.
pub fn bench() -> Result<(), String> {
    packages()?;
    browser()?;
    run(&cargo(), &["build", "--locked", "-p", "wattif"])?;
    run("npm", &["--prefix", "web", "run", "--silent", "bench"])
}

fn packages() -> Result<(), String> {
    run("npm", &["--prefix", "web", "ci", "--no-audit", "--no-fund"])
}

fn simulator() -> Result<(), String> {
    run(&cargo(), &["build", "--locked", "--profile", "wasm", "--target", TARGET, "-p", "wattif-wasm"])?;
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".into());
    let built = Path::new(&target).join(TARGET).join("wasm/wattif_wasm.wasm");
    run("node", &["web/pack.js", &built.display().to_string(), WASM_GZ])?;
    fs::write(root().join(BUILT_FROM), format!("{:016x}\n", sum())).map_err(|e| format!("{BUILT_FROM}: {e}"))
}

/// Debian's, which tests find by its path; installed where that can be done.
fn browser() -> Result<(), String> {
    if output("chromium", &["--version"]).is_some() {
        return Ok(());
    }
    let install = ["install", "-y", "-q", "--no-install-recommends", "chromium"];
    run("apt-get", &install).or_else(|_| run("apt-get", &["update", "-q"]).and_then(|()| run("apt-get", &install)))
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(root().join(path)).ok()
}

/// Of names and contents.
fn sum() -> u64 {
    let mut sum = fnv::EMPTY;
    let unread = |path: &Path| path.extension().is_some_and(|e| UNREAD.iter().any(|u| e == *u));
    let leaves_out = |path: &Path| WITHOUT.iter().any(|w| path.ends_with(w)) || unread(path);
    SOURCES.iter().for_each(|path| sources::add(&root().join(path), &mut sum, &leaves_out));
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is built in is part of the simulator, and a file that is new or gone there makes it again.
    #[test]
    fn sources_hold_what_is_built_in() {
        let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
        let (data, build) = (read("crates/wattif/src/data.rs"), read("crates/wattif/build.rs"));
        let built_in: Vec<&str> = data.split("include_dir!(\"$CARGO_MANIFEST_DIR/../../").skip(1).collect();
        assert!(built_in.len() >= 4, "{built_in:?}");
        for folder in built_in.iter().map(|rest| rest.split('"').next().unwrap()) {
            assert!(SOURCES.contains(&folder) && build.contains(&format!("\"{folder}\"")), "{folder}");
        }
        assert!(SOURCES.iter().all(|path| root().join(path).exists()));
    }
}
