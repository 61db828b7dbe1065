//! Every console block of the README, the docs and the gallery is executed and its output compared.
//! The reference is what the registries say, and drawings are what the commands beside them draw. `cargo xtask gen` writes both.
//! `TRYCMD=overwrite cargo test -p wattif --test docs` writes what the commands print today.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two folders down")
}

#[test]
fn reference_is_fresh() {
    let folder = root().join("docs/reference");
    let pages = wattif::reference::pages();
    if std::env::var_os("WATTIF_GEN").is_some() {
        fs::create_dir_all(&folder).unwrap();
        pages.iter().for_each(|(name, text)| fs::write(folder.join(name), text).unwrap());
    }
    let fresh = |name: &str, text: &str| fs::read_to_string(folder.join(name)).is_ok_and(|t| t == text);
    let stale: Vec<&str> = pages.iter().filter(|(n, t)| !fresh(n, t)).map(|(n, _)| n.as_str()).collect();
    assert!(stale.is_empty(), "not fresh, run `cargo xtask gen`: {stale:?}");
}

/// What is counted in a document is there.
#[test]
fn documents_say_how_many_platforms() {
    let platforms = wattif::data::Collection::Platforms.names().len();
    let text = fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
    assert!(text.contains(&format!(" {platforms} platforms,")), "{platforms} platforms");
}

/// Pages whose drawings are held fresh.
fn pages() -> Vec<PathBuf> {
    let folders = |of: &str| fs::read_dir(root().join(of)).unwrap().map(|e| e.unwrap().path()).collect::<Vec<_>>();
    let is_page = |path: &PathBuf| path.extension().is_some_and(|e| e == "md") && path.is_file();
    let gallery = folders("gallery").into_iter().map(|folder| folder.join("README.md"));
    let mut all: Vec<PathBuf> =
        gallery.chain(folders("docs")).chain([root().join("README.md")]).filter(is_page).collect();
    all.sort();
    all
}

/// The path of a drawing (`](name.svg)`) and the command of the page that draws it (`--plot name.svg`).
fn drawings(page: &str) -> Vec<(&str, Option<&str>)> {
    let shown = page.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(path, _)| path);
    let draws = |path: &str| {
        let option = format!("--plot {path}");
        page.lines().find(|l| l.starts_with("wattif ") && l.split('#').next().is_some_and(|l| l.contains(&option)))
    };
    shown.filter(|path| path.ends_with(".svg")).map(|path| (path, draws(path))).collect()
}

/// Every drawing in a page is drawn by a command of that page, and is what the command draws today.
#[test]
fn drawings_are_fresh() {
    let mut stale = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let folder = page.parent().unwrap();
        for (path, command) in drawings(&text) {
            let shown = folder.join(path);
            let what = shown.strip_prefix(root()).unwrap().display().to_string();
            let Some(command) = command else {
                stale.push(format!("{what}: no `wattif … --plot {path}` in its page"));
                continue;
            };
            let dir = tempfile::tempdir().unwrap();
            fs::create_dir_all(dir.path().join(path).parent().unwrap()).unwrap();
            let words = command.split('#').next().unwrap().split_whitespace().skip(1);
            let done = Command::new(env!("CARGO_BIN_EXE_wattif")).args(words).current_dir(dir.path()).output().unwrap();
            let drawn = fs::read(dir.path().join(path));
            let drawn = drawn.unwrap_or_else(|_| panic!("{command}: {}", String::from_utf8_lossy(&done.stderr)));
            assert!(drawn.len() <= 60_000, "{what}: {} bytes", drawn.len());
            if std::env::var_os("WATTIF_GEN").is_some() {
                fs::create_dir_all(shown.parent().unwrap()).unwrap();
                fs::write(&shown, &drawn).unwrap();
            } else if fs::read(&shown).ok().as_ref() != Some(&drawn) {
                stale.push(what);
            }
        }
    }
    assert!(stale.is_empty(), "not fresh, run `cargo xtask gen`: {stale:#?}");
}

#[test]
fn console_blocks() {
    let root = root();
    let cases = trycmd::TestCases::new();
    cases.env("NO_COLOR", "1").env("COLUMNS", "100");
    for pages in ["README.md", "docs/*.md", "docs/*/*.md", "gallery/*.md", "gallery/*/README.md"] {
        cases.case(root.join(pages));
    }
}
