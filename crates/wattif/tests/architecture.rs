//! The invariants that are absences: what the sources of a crate must not contain or depend on.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/wattif lies two folders down").to_path_buf()
}

/// Files below `dir` with one of these extensions, sorted; no build output, no hidden folders.
fn files(dir: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut entries: Vec<PathBuf> = fs::read_dir(dir).into_iter().flatten().map(|e| e.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !name.starts_with('.') && !name.starts_with("target") {
            found.extend(files(&path, extensions));
        } else if path.extension().is_some_and(|e| extensions.iter().any(|x| e == *x)) {
            found.push(path);
        }
    }
    found
}

/// The code of a source file: without comments, and without the tests at its end.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    // What follows `mod NAME;` is code.
    let here = |(at, head): &(usize, &str)| text[at + head.len()..].lines().next().is_some_and(|l| l.ends_with('{'));
    let end = text.match_indices("\n#[cfg(test)]\nmod ").find(here).map_or(text.len(), |(at, _)| at);
    text[..end].lines().map(|l| l.split("//").next().unwrap()).collect::<Vec<_>>().join("\n")
}

#[test]
fn code_ends_where_tests_begin() {
    let dir = std::env::temp_dir().join(format!("wattif-code-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let of = |text: &str| {
        fs::write(dir.join("x.rs"), text).unwrap();
        code(&dir.join("x.rs"))
    };
    let elsewhere = of("mod a;\n#[cfg(test)]\nmod tests;\n\nuse f64; // of what\n");
    assert!(elsewhere.contains("use f64;") && !elsewhere.contains("what"), "{elsewhere}");
    assert_eq!(of("use u8;\n\n#[cfg(test)]\nmod tests {\n    use f64;\n}\n"), "use u8;");
    fs::remove_dir_all(&dir).unwrap();
}

fn holds_word(text: &str, word: &str) -> bool {
    let boundary = |c: Option<char>| !c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(word)
        .any(|(i, _)| boundary(text[..i].chars().next_back()) && boundary(text[i + word.len()..].chars().next()))
}

/// Occurrences of `words` in the sources of the crates below the facade, less the files of `allowed`.
fn offences(words: &[&str], allowed: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for krate in ["wattif-model", "wattif-sim"] {
        let dir = root().join("crates").join(krate).join("src");
        let sources = files(&dir, &["rs"]);
        assert!(sources.len() > 5, "{krate} has sources");
        for path in sources.iter().filter(|p| !allowed.iter().any(|a| p.ends_with(a))) {
            let code = code(path);
            let hits = words.iter().filter(|w| holds_word(&code, w));
            found.extend(hits.map(|w| format!("{}: {w}", path.strip_prefix(root()).unwrap().display())));
        }
    }
    found
}

#[test]
fn no_system_below_the_facade() {
    let system = ["std::fs", "std::thread", "std::time", "std::env", "std::net", "std::process", "std::io", "std::os"];
    let system = system.iter().chain(&["Instant", "SystemTime", "thread_local", "println", "eprintln", "rayon"]);
    assert_eq!(offences(&system.copied().collect::<Vec<_>>(), &[]), [""; 0]);
}

#[test]
fn no_iteration_in_hash_order() {
    assert_eq!(offences(&["HashMap", "HashSet", "RandomState", "DefaultHasher"], &[]), [""; 0]);
}

/// Floats are for display and for drawing from distributions, with libm, which gives the same bits everywhere.
#[test]
fn no_floats_in_machine_state() {
    let allowed = ["wattif-model/src/units.rs", "wattif-sim/src/engine/rng.rs"];
    assert_eq!(offences(&["f32", "f64"], &allowed), [""; 0]);
    for file in allowed {
        assert!(root().join("crates").join(file).is_file(), "{file} is gone: take it off the list");
    }
}

/// `[dependencies]` of a crate that are ours.
fn own_dependencies(krate: &str) -> Vec<String> {
    let manifest = fs::read_to_string(root().join("crates").join(krate).join("Cargo.toml")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    let mut names = Vec::new();
    for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
        let table = manifest.get(section).and_then(toml::Value::as_table);
        names.extend(table.into_iter().flat_map(|t| t.keys().cloned()).filter(|k| k.starts_with("wattif")));
    }
    names
}

#[test]
fn siblings_do_not_see_each_other() {
    assert_eq!(own_dependencies("wattif-model"), [""; 0]);
    for sibling in ["wattif-sim", "wattif-formats", "wattif-lab"] {
        assert_eq!(own_dependencies(sibling), ["wattif-model"], "{sibling}");
    }
}

/// The machine decides nothing: it names no policy.
#[test]
fn machine_and_engine_know_no_policy() {
    for (folder, forbidden) in [
        ("machine", &["crate::sched", "crate::cpufreq", "crate::cpuidle", "crate::registry"][..]),
        ("engine", &["crate::machine", "crate::sched", "CpuId"]),
    ] {
        for path in files(&root().join("crates/wattif-sim/src").join(folder), &["rs"]) {
            let code = code(&path);
            let hits: Vec<_> = forbidden.iter().filter(|w| code.contains(**w)).collect();
            let feeds_digest = path.ends_with("engine/digest.rs") && hits == [&"CpuId"];
            assert!(hits.is_empty() || feeds_digest, "{}: {hits:?}", path.display());
        }
    }
}

/// ARCHITECTURE.md names what is there, and every crate and folder of sources is named.
#[test]
fn the_code_map_is_that_of_the_code() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let map = text.split("## Code map").nth(1).unwrap().split("\n## ").next().unwrap();
    let linux = text.split("## Where is it in Linux?").nth(1).unwrap().split("\n## ").next().unwrap();
    let sources = files(&root().join("crates"), &["rs"]);
    let quoted = |text: &str| text.split('`').skip(1).step_by(2).map(String::from).collect::<Vec<_>>();
    let is_there = |name: &str| root().join(name).exists() || sources.iter().any(|p| p.ends_with(name));
    let last_cells = linux.lines().filter_map(|l| l.trim_end_matches('|').rsplit('|').next());
    let named = quoted(map).into_iter().chain(last_cells.flat_map(quoted)).filter(|n| n.ends_with(".rs"));
    let gone: Vec<String> = named.filter(|n| !is_there(n)).collect();
    assert_eq!(gone, [""; 0], "named and not there");
    let of_rows = map.lines().filter_map(|l| l.strip_prefix("| `")).filter_map(|l| l.split('|').next());
    let gone: Vec<String> = of_rows.flat_map(|cell| quoted(&format!("`{cell}"))).filter(|n| n.contains('/')).collect();
    assert!(gone.iter().all(|n| root().join(n).exists()), "{gone:?}");
    for krate in fs::read_dir(root().join("crates")).unwrap().map(|krate| krate.unwrap().path()) {
        let name = krate.file_name().unwrap().to_string_lossy().into_owned();
        assert!(map.contains(&format!("`crates/{name}")), "{name}");
        for folder in fs::read_dir(krate.join("src")).unwrap().map(|f| f.unwrap().path()).filter(|f| f.is_dir()) {
            let folder = folder.file_name().unwrap().to_string_lossy().into_owned();
            assert!(holds_word(map, &folder) || folder == "platform_toml", "{name}/src/{folder} is not in the map");
        }
    }
}

/// What a user does not have: a folder of the machine this was written on.
#[test]
fn no_path_of_one_machine() {
    let texts = files(&root(), &["rs", "toml", "md", "json", "cff", "html"]);
    let needles =
        [["/wo", "rk/"].concat(), ["/ro", "ot/"].concat(), ["/ho", "me/"].concat(), ["../sha", "red"].concat()];
    let mut found = Vec::new();
    for path in texts {
        let text = fs::read_to_string(&path).unwrap_or_default();
        found.extend(needles.iter().filter(|n| text.contains(*n)).map(|n| format!("{}: {n}", path.display())));
    }
    assert_eq!(found, [""; 0]);
}

/// But for one thing: the page finds the simulator by exported names, and `#[unsafe(no_mangle)]` counts as unsafe code. There is
/// no block of it, and no pointer is read.
#[test]
fn unsafe_code_is_forbidden_everywhere() {
    let workspace = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    assert!(workspace.contains("unsafe_code = \"forbid\""));
    for krate in fs::read_dir(root().join("crates")).unwrap().map(|krate| krate.unwrap().path()) {
        let manifest = fs::read_to_string(krate.join("Cargo.toml")).unwrap();
        match krate.ends_with("wattif-wasm") {
            false => assert!(manifest.contains("[lints]\nworkspace = true"), "{manifest}"),
            true => assert!(manifest.contains("unsafe_code = \"deny\""), "{manifest}"),
        }
    }
    let skin = code(&root().join("crates/wattif-wasm/src/lib.rs"));
    let words = skin.matches("unsafe").count() - skin.matches("unsafe_code").count();
    let declared = skin.matches("#[unsafe(no_mangle)]").count() + skin.matches("unsafe extern").count();
    assert_eq!(words, declared, "only names are declared");
}
