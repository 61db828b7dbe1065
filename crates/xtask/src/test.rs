//! `cargo xtask test`: every check of the project, one after the other; the first that fails ends it.

use crate::step::{cargo, output, run};

const WASM: &str = "wasm32-unknown-unknown";

/// Everything. The tests come last, so that their own closing lines are the end of the output; they hold the
/// generated pages to the code, run the gallery and execute the documents.
pub fn everything() -> Result<(), String> {
    let cargo = cargo();
    run(&cargo, &["fmt", "--all", "--", "--check"])?;
    run(&cargo, &["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])?;
    run(&cargo, &["doc", "--workspace", "--no-deps", "--lib", "--locked"])?;
    wasm()?;
    trace_cmd()?;
    crate::python::test()?;
    crate::web::test()?;
    run(&cargo, &["test", "--workspace", "--locked"])
}

/// Simulator and model have no system below them: they build for wasm32.
fn wasm() -> Result<(), String> {
    if !has_wasm() && run("rustup", &["target", "add", WASM]).is_err() {
        return skip("wasm32: the target is not installed and cannot be");
    }
    run(&cargo(), &["build", "--locked", "--target", WASM, "-p", "wattif-model", "-p", "wattif-sim"])
}

/// The reader that our trace.dat is for; its test says when it is skipped.
fn trace_cmd() -> Result<(), String> {
    if output("trace-cmd", &["--version"]).is_some() {
        return Ok(());
    }
    let installed = run("apt-get", &["install", "-y", "-q", "trace-cmd"]).or_else(|_| {
        run("apt-get", &["update", "-q"]).and_then(|()| run("apt-get", &["install", "-y", "-q", "trace-cmd"]))
    });
    match installed {
        Ok(()) => Ok(()),
        Err(_) => skip("trace-cmd is not installed and cannot be; our trace.dat is not shown to it"),
    }
}

pub(crate) fn has_wasm() -> bool {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let libdir = output(&rustc, &["--print", "target-libdir", "--target", WASM]);
    libdir.is_some_and(|dir| std::path::Path::new(dir.trim()).is_dir())
}

/// A check that this machine cannot do is said aloud.
fn skip(why: &str) -> Result<(), String> {
    eprintln!("xtask: SKIPPED {why}");
    Ok(())
}

/// Cases of `cargo xtask bench`, by the source of `wattif-bench`, which takes minutes to build.
pub fn cases() -> Vec<&'static str> {
    const SOURCE: &str = include_str!("../../wattif-bench/src/cases.rs");
    let named = SOURCE.split("Case { name: \"").skip(1);
    named.filter_map(|rest| Some(rest.split_once('"')?.0)).collect()
}

/// Refuses what `wattif-bench` does not know, before it is built.
fn known(asked: &[&str]) -> Result<(), String> {
    let (cases, alone) = (cases(), ["decisions", "traces"]);
    let refused = asked.iter().find(|name| !(cases.contains(name) || asked.len() == 1 && alone.contains(name)));
    match refused {
        Some(name) => Err(format!("no case `{name}`: there are {}; alone, decisions, traces, page", cases.join(", "))),
        None => Ok(()),
    }
}

/// `cargo xtask bench`: one JSON line per case, of a profile-guided build; of the release build where that is asked for, or all
/// that can be had.
pub fn bench(cases: &[&str]) -> Result<(), String> {
    if cases == ["page"] {
        return crate::web::bench();
    }
    let (plain, cases) = match cases {
        ["--plain", cases @ ..] => (true, cases),
        cases => (false, cases),
    };
    known(cases)?;
    if !plain {
        match crate::pgo::build("wattif-bench") {
            Ok(bench) => return run(&bench.to_string_lossy(), cases),
            Err(why) => skip(&format!("the profile-guided build: {why}; what follows is of the release build"))?,
        }
    }
    let args = ["run", "--release", "--locked", "--quiet", "-p", "wattif-bench", "--"];
    run(&cargo(), &args.iter().chain(cases).copied().collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_known_without_a_build() {
        assert!([&["eight_cpus", "cpus_64"][..], &["decisions"], &[]].into_iter().all(|asked| known(asked).is_ok()));
        assert!(known(&["decisions", "eight_cpus"]).is_err());
        let why = bench(&["--plain", "eight_cpu"]).unwrap_err();
        assert!(why.starts_with("no case `eight_cpu`: there are eight_cpus, cpus_64, "), "{why}");
    }
}
