//! `cargo xtask new KIND NAME`: the file of a new policy, with the header that is its manual, a decision that works and a test,
//! and its lines where policies are registered; or the file of a new kernel. What is left is what only its author knows.

use std::fs;
use std::path::Path;

/// A line that a kind adds to an existing file.
struct Insertion {
    file: &'static str,
    /// The line goes before the first line after the one that begins with `after` which equals `before`.
    after: &'static str,
    before: &'static str,
    line: &'static str,
}

/// What can be made.
struct Kind {
    name: &'static str,
    template: &'static str,
    file: &'static str,
    lines: &'static [Insertion],
}

const REGISTRY: &str = "crates/wattif-sim/src/registry.rs";
const BUILD: &str = "crates/wattif-sim/src/registry/build.rs";
const CPUIDLE: &str = "crates/wattif-sim/src/cpuidle/mod.rs";
const CPUFREQ: &str = "crates/wattif-sim/src/cpufreq/mod.rs";

static KINDS: &[Kind] = &[
    Kind {
        name: "cpuidle",
        template: include_str!("../templates/cpuidle.rs.txt"),
        file: "crates/wattif-sim/src/cpuidle/@name@.rs",
        lines: &[
            Insertion { file: CPUIDLE, after: "pub mod", before: "", line: "pub mod @name@;" },
            Insertion {
                file: CPUIDLE,
                after: "pub fn build(",
                before: "        _ => None,",
                line: "        \"@name@\" => @name@::build(generation, nr_cpus, tick_ns),",
            },
            Insertion {
                file: REGISTRY,
                after: "pub static POLICIES",
                before: "];",
                line: "    policy!(\"@name@\", Cpuidle, true, \"cpuidle/@name@.rs\", cpuidle::@name@::TUNABLES),",
            },
        ],
    },
    Kind {
        name: "cpufreq",
        template: include_str!("../templates/cpufreq.rs.txt"),
        file: "crates/wattif-sim/src/cpufreq/@name@.rs",
        lines: &[
            Insertion { file: CPUFREQ, after: "pub mod", before: "", line: "pub mod @name@;" },
            Insertion {
                file: REGISTRY,
                after: "pub static POLICIES",
                before: "];",
                line: "    policy!(\"@name@\", Cpufreq, true, \"cpufreq/@name@.rs\", &[]),",
            },
            Insertion {
                file: BUILD,
                after: "fn build_cpufreq(",
                before: "    match name {",
                line: "        \"@name@\" => Box::new(cpufreq::@name@::@Type@::new()),",
            },
        ],
    },
    Kind {
        name: "kernel",
        template: include_str!("../templates/kernel.toml.txt"),
        file: "kernels/@name@.toml",
        lines: &[],
    },
];

/// Makes it below `root`, and says what was written.
pub fn make(root: &Path, kind: &str, name: &str) -> Result<Vec<String>, String> {
    let known = KINDS.iter().map(|k| k.name).collect::<Vec<_>>().join(", ");
    let kind = KINDS.iter().find(|k| k.name == kind);
    let kind = kind.ok_or_else(|| format!("kinds are: {known}; for others see \"Adding\" in CONTRIBUTING.md"))?;
    check_name(kind, name)?;
    let fill = |text: &str| text.replace("@name@", name).replace("@Type@", &camel_case(name));
    let path = fill(kind.file);
    if root.join(&path).exists() {
        return Err(format!("{path} exists"));
    }
    // Everything is looked up before anything is written.
    let mut texts: Vec<(&str, String)> = Vec::new();
    for insertion in kind.lines {
        if !texts.iter().any(|(file, _)| *file == insertion.file) {
            texts.push((insertion.file, read(root, insertion.file)?));
        }
        let (_, text) = texts.iter_mut().find(|(file, _)| *file == insertion.file).expect("just read");
        *text = inserted(text, insertion, &fill(insertion.line))?;
    }
    write(root, &path, &fill(kind.template))?;
    for (file, text) in &texts {
        write(root, file, text)?;
    }
    Ok(std::iter::once(path).chain(texts.iter().map(|(file, _)| file.to_string())).collect())
}

/// A policy is a Rust module; a kernel's name is a file's.
fn check_name(kind: &Kind, name: &str) -> Result<(), String> {
    let more = if kind.name == "kernel" { "-." } else { "_" };
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || more.contains(c);
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase());
    if begins && name.chars().all(good) {
        return Ok(());
    }
    Err(format!("`{name}`: a name is lower-case letters, digits and any of `{more}`, and begins with a letter"))
}

/// `my_governor` → `MyGovernor`.
fn camel_case(name: &str) -> String {
    let capital =
        |word: &str| word.chars().take(1).map(|c| c.to_ascii_uppercase()).chain(word.chars().skip(1)).collect();
    name.split('_').map(|word| -> String { capital(word) }).collect()
}

fn inserted(text: &str, insertion: &Insertion, line: &str) -> Result<String, String> {
    let Insertion { file, after, before, .. } = insertion;
    let lines: Vec<&str> = text.lines().collect();
    let missing = |what: &str| format!("{file} has no line `{what}`: add `{}` by hand", line.trim());
    let from = lines.iter().position(|l| l.starts_with(after)).ok_or_else(|| missing(after))?;
    let at = from + lines[from..].iter().position(|l| l == before).ok_or_else(|| missing(before))?;
    // A `match` is opened by its line; lists are closed by theirs.
    let at = at + usize::from(before.ends_with('{'));
    let all = lines[..at].iter().chain([&line]).chain(&lines[at..]);
    Ok(all.map(|l| format!("{l}\n")).collect())
}

fn read(root: &Path, file: &str) -> Result<String, String> {
    fs::read_to_string(root.join(file)).map_err(|e| format!("{file}: {e}"))
}

fn write(root: &Path, file: &str, text: &str) -> Result<(), String> {
    fs::write(root.join(file), text).map_err(|e| format!("{file}: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::root;

    /// A copy of the files that kinds add lines to.
    fn copy() -> std::path::PathBuf {
        let to = std::env::temp_dir().join(format!("wattif-xtask-new-{}", std::process::id()));
        for file in [REGISTRY, BUILD, CPUIDLE, CPUFREQ, "kernels/linux-6.12.toml"] {
            fs::create_dir_all(to.join(file).parent().unwrap()).unwrap();
            fs::copy(root().join(file), to.join(file)).unwrap();
        }
        to
    }

    #[test]
    fn every_kind_finds_its_places() {
        let to = copy();
        for kind in KINDS {
            let written = make(&to, kind.name, "brandnew").unwrap();
            let all: String = written.iter().map(|f| fs::read_to_string(to.join(f)).unwrap()).collect();
            assert!(!all.contains('@'), "{}: a placeholder is left", kind.name);
            let lines = kind
                .lines
                .iter()
                .filter(|i| all.contains(&i.line.replace("@name@", "brandnew").replace("@Type@", "Brandnew")));
            assert_eq!(lines.count(), kind.lines.len(), "{}", kind.name);
            assert!(make(&to, kind.name, "brandnew").unwrap_err().contains("exists"));
        }
        fs::remove_dir_all(to).unwrap();
    }

    #[test]
    fn bad_names_and_kinds() {
        for (kind, name) in [("cpuidle", "My"), ("cpuidle", "a-b"), ("kernel", "../x"), ("kernel", ""), ("class", "x")]
        {
            assert!(make(Path::new("/nonexistent"), kind, name).is_err(), "{kind} {name}");
        }
        assert_eq!(camel_case("my_new_governor"), "MyNewGovernor");
    }
}
