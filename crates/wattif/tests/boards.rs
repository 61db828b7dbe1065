//! Real devicetrees, where they are at hand (`WATTIF_DTBS`: a folder of .dtb files; `cargo xtask boards` fetches a thousand):
//! each gives a platform on which threads run, or tells the overlay with which it does.

use std::fs;
use std::path::{Path, PathBuf};
use wattif::load;
use wattif::run::run;
use wattif::settings::Settings;
use wattif_formats::rtapp::Dialect;
use wattif_formats::{dtb, platform_toml};
use wattif_model::Ns;
use wattif_model::check::Diagnostic;
use wattif_model::platform::Platform;
use wattif_model::run::RunSpec;

#[test]
fn real_boards() {
    let Some(folder) = std::env::var_os("WATTIF_DTBS").map(PathBuf::from) else {
        eprintln!(
            "SKIPPED: no folder of devicetree blobs (WATTIF_DTBS); `cargo xtask boards` fetches a thousand of them"
        );
        return;
    };
    let (mut good, mut told, mut empty) = (0, 0, 0);
    for path in walk(&folder) {
        let (blob, shown) = (fs::read(&path).unwrap(), path.display());
        let mut imported = dtb::import(&blob, "board", None);
        if imported.toml.is_none() {
            let errors: Vec<_> = imported.diagnostics.iter().filter(|d| d.is_error()).collect();
            if errors.iter().any(|e| e.code == "dtb::E02") {
                empty += 1;
                continue;
            }
            // What is missing stands in the help as TOML, after a line that says so.
            let help = |error: &&Diagnostic| error.help.clone().unwrap_or_else(|| panic!("{shown}: {error}"));
            let overlay = |help: String| help.split_once('\n').map_or(String::new(), |(_, toml)| format!("{toml}\n"));
            let overlay: String = errors.iter().map(help).map(overlay).collect();
            imported = dtb::import(&blob, "board", Some(&overlay));
            told += 1;
        } else {
            good += 1;
        }
        let toml = imported.toml.unwrap_or_else(|| panic!("{shown}: {:?}", imported.diagnostics));
        let parsed = platform_toml::parse(&toml, &Default::default());
        let platform = parsed.platform.unwrap_or_else(|| panic!("{shown}: {:?}\n{toml}", parsed.diagnostics));
        runs(platform).unwrap_or_else(|why| panic!("{shown}: {why}"));
    }
    eprintln!("{good} platforms, {told} with the overlay that was told, {empty} without CPUs");
    assert!(good > 0);
}

/// A phone's threads for some ticks.
fn runs(platform: Platform) -> Result<(), String> {
    let none = Settings::default();
    let workload = load::workload("phone", platform.nr_cpus(), Dialect::Workgen, &none).map_err(|e| e.to_string())?;
    let kernel = load::kernel("linux-6.12", &none).map_err(|e| e.to_string())?.value;
    let workload = workload.value.workload;
    let spec = RunSpec { platform, workload, kernel, seed: 1, duration: Ns::from_ms(20) };
    run(&spec, &mut []).map(drop).map_err(|e| e.to_string())
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(walk(&path));
        } else if path.extension().is_some_and(|e| e == "dtb") {
            found.push(path);
        }
    }
    found.sort();
    found
}
