//! The Python package: built into an environment of its own, its types checked, and its tests. What this machine cannot do is
//! said aloud.

use crate::step::{output, root, run, run_with};
use std::fs;

const VENV: &str = "target/python/venv";
const REQUIREMENTS: &str = "python/requirements.txt";

/// Build and test it. Without Python, or without a way to its packages, it is skipped.
pub fn test() -> Result<(), String> {
    let python = format!("{VENV}/bin/python");
    if let Err(why) = prepare(&python) {
        eprintln!("xtask: SKIPPED the Python package: {why}");
        return Ok(());
    }
    let venv = root().join(VENV).display().to_string();
    run_with(&python, &["-m", "maturin", "develop", "--locked", "--profile", "dev"], &[("VIRTUAL_ENV", &venv)])?;
    run(&python, &["-m", "mypy", "python/wattif"])?;
    run(&python, &["-m", "pytest", "-q"])
}

/// An environment with the pinned packages; made again when they change.
fn prepare(python: &str) -> Result<(), String> {
    let (wanted, stamp) = (root().join(REQUIREMENTS), root().join(VENV).join("requirements.txt"));
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    if read(&stamp) == read(&wanted) {
        return Ok(());
    }
    output("python3", &["-m", "venv", "--clear", VENV]).ok_or("no python3 with venv")?;
    run(python, &["-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", REQUIREMENTS])?;
    fs::copy(&wanted, &stamp).map(drop).map_err(|e| e.to_string())
}
