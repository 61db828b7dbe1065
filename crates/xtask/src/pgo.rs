//! Profile-guided builds: an instrumented build runs what users run, and a second build lays out the hot paths by what was counted.
//!
//! Needs `llvm-profdata` of the compiler's own LLVM (rustup's component `llvm-tools`). The runs that are counted are not those
//! that `cargo xtask bench` measures.

use crate::step::{cargo, output, root, run, run_with};
use std::path::PathBuf;

/// Said of a build that was guided.
const GUIDED: (&str, &str) = ("WATTIF_PROFILE_GUIDED", "yes");

/// Builds the binary of a package; the path to it.
pub fn build(package: &str) -> Result<PathBuf, String> {
    let profdata = profdata()?;
    let dir = root().join("target/pgo");
    let (raw, merged) = (text(dir.join("raw")), text(dir.join("merged.profdata")));
    let _ = std::fs::remove_dir_all(&raw);
    let counting = compile("wattif-bench", "generate", &format!("-Cprofile-generate={raw}"))?;
    run(&text(counting), &["--train"])?;
    run(&profdata, &["merge", "-o", &merged, &raw])?;
    compile(package, "use", &format!("-Cprofile-use={merged}"))
}

fn compile(package: &str, stage: &str, flags: &str) -> Result<PathBuf, String> {
    let target = root().join("target/pgo").join(stage);
    let args = ["build", "--release", "--locked", "--quiet", "-p", package, "--target-dir"];
    let args: Vec<&str> =
        args.into_iter().chain([target.to_str().ok_or("the path of the project is not UTF-8")?]).collect();
    let flags = [std::env::var("RUSTFLAGS").unwrap_or_default(), flags.to_string()].join(" ");
    run_with(&cargo(), &args, &[("RUSTFLAGS", flags.trim()), GUIDED])?;
    Ok(target.join("release").join(package))
}

/// `llvm-profdata` of this compiler, fetched if it is missing.
fn profdata() -> Result<String, String> {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let libdir = output(&rustc, &["--print", "target-libdir"]).ok_or("rustc does not say where its libraries are")?;
    let tool = PathBuf::from(libdir.trim()).with_file_name("bin").join("llvm-profdata");
    if !tool.is_file() {
        run("rustup", &["component", "add", "llvm-tools"])?;
    }
    if tool.is_file() { Ok(text(tool)) } else { Err(format!("{} is missing", tool.display())) }
}

fn text(path: PathBuf) -> String {
    path.to_string_lossy().into_owned()
}
