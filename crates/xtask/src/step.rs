//! One step: a command whose output is seen as it runs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// The root of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/xtask lies two folders down").to_path_buf()
}

/// The cargo that runs us.
pub fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".into())
}

/// Run a command in the root; its output goes to ours.
pub fn run(program: &str, args: &[&str]) -> Result<(), String> {
    run_with(program, args, &[])
}

/// The same, with more in its environment.
pub fn run_with(program: &str, args: &[&str], env: &[(&str, &str)]) -> Result<(), String> {
    let shown = format!("{} {}", if program == cargo() { "cargo" } else { program }, args.join(" "));
    eprintln!("xtask: {shown}");
    let begun = Instant::now();
    let mut command = Command::new(program);
    command.args(args).envs(env.iter().copied()).current_dir(root());
    let status = command.status().map_err(|e| format!("{shown}: {e}"))?;
    eprintln!("xtask: {shown}: {status} after {:.1} s", begun.elapsed().as_secs_f64());
    if status.success() { Ok(()) } else { Err(format!("`{shown}` failed: {status}")) }
}

/// Standard output of a quiet command, if it succeeds.
pub fn output(program: &str, args: &[&str]) -> Option<String> {
    let out = Command::new(program).args(args).current_dir(root()).stderr(Stdio::null()).output().ok()?;
    out.status.success().then(|| String::from_utf8_lossy(&out.stdout).into_owned())
}
