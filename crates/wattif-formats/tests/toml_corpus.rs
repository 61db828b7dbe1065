//! Hostile platform and kernel files: every prefix and single-byte change of small ones does not panic.

use std::fs;
use std::path::Path;
use wattif_formats::{kernel_toml, platform_toml};

fn read(path: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

fn mutations(bytes: &[u8], step: usize, check: impl Fn(&str)) {
    for n in 0..=bytes.len() {
        check(&String::from_utf8_lossy(&bytes[..n]));
    }
    for at in (0..bytes.len()).step_by(step) {
        for new in *b"{}[]\"=,.-9 \\\n\xff" {
            let mut changed = bytes.to_vec();
            changed[at] = new;
            check(&String::from_utf8_lossy(&changed));
        }
    }
}

#[test]
fn platforms() {
    for path in ["platforms/hikey620.toml", "platforms/epyc_milan.toml"] {
        let text: String = String::from_utf8(read(path))
            .unwrap()
            .lines()
            .filter(|l| !l.starts_with('#'))
            .collect::<Vec<_>>()
            .join("\n");
        mutations(text.as_bytes(), 7, |text| {
            let parsed = platform_toml::parse(text, &Default::default());
            assert_eq!(parsed.platform.is_none(), parsed.diagnostics.iter().any(|d| d.is_error()), "{text}");
            assert!(parsed.diagnostics.iter().all(|d| d.span.end <= text.len()));
            if let Some(p) = parsed.platform {
                assert!(p.cpus.iter().all(|c| c.domain.at() < p.domains.len() && c.cluster.at() < p.clusters.len()));
            }
        });
    }
}

#[test]
fn kernels() {
    let parent = read("kernels/linux-5.3.toml");
    let parent = String::from_utf8(parent).unwrap();
    mutations(&read("kernels/linux-5.4.toml"), 1, |text| {
        kernel_toml::parse(text, &|name| (name == "linux-5.3").then(|| parent.clone()));
    });
}

/// Nesting of every kind is bounded: no stack overflow, no long wait.
#[test]
fn deep_and_large() {
    let n = 1_000_000;
    let deep = [
        "[".repeat(n),
        "{a=".repeat(n),
        format!("a = {}", "[".repeat(n)),
        format!("a = {}", "{a=".repeat(n)),
        format!("{}a = 1", "a.".repeat(n)),
        format!("{}a = 1", "a .\t".repeat(n)),
        format!("{}a = 1", "'a'.".repeat(n)),
        format!("{}a = 1", "'='.".repeat(n)),
        format!("[{}a]", "a.".repeat(n)),
        (0..300_000).map(|i| format!("k{i} = 1\n")).collect(),
    ];
    for text in &deep {
        assert!(platform_toml::parse(text, &Default::default()).platform.is_none());
        assert!(kernel_toml::parse(text, &|_| None).kernel.is_none());
    }
}
