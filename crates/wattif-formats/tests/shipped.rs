//! Every platform and kernel profile the project ships can be read, without warnings.

use std::fs;
use std::path::{Path, PathBuf};
use wattif_formats::{kernel_toml, platform_toml};
use wattif_model::check::Severity;

fn files(folder: &str) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    let mut found: Vec<_> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    found.retain(|p| p.extension().is_some_and(|e| e == "toml"));
    found.sort();
    found
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

#[test]
fn platforms() {
    let mut bad = Vec::new();
    for path in files("platforms") {
        let parsed = platform_toml::parse(&fs::read_to_string(&path).unwrap(), &Default::default());
        bad.extend(
            parsed
                .diagnostics
                .iter()
                .filter(|d| d.severity > Severity::Note)
                .map(|d| format!("{}: {d}", path.display())),
        );
        if let Some(p) = parsed.platform {
            assert_eq!(p.name, stem(&path));
            assert!(!p.trust.is_empty(), "{} does not say how far to trust it", p.name);
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn kernels() {
    let all: Vec<(String, String)> =
        files("kernels").iter().map(|p| (stem(p), fs::read_to_string(p).unwrap())).collect();
    let parent = |name: &str| all.iter().find(|(n, _)| n == name).map(|(_, text)| text.clone());
    for (name, text) in &all {
        let parsed = kernel_toml::parse(text, &parent);
        assert!(parsed.diagnostics.is_empty(), "{name}: {:#?}", parsed.diagnostics);
        assert_eq!(parsed.kernel.unwrap().name, *name);
    }
    assert!(all.len() >= 6);
}
