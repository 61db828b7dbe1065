//! Fixed runs, one JSON line per case: `cargo xtask bench [CASE…]`.
//!
//! `traces` writes the 60 s of the first case in every format and reads them back.
//!
//! Every case runs in a process of its own, so that its peak memory is its own. Instructions per slice come from callgrind, as
//! the difference of two short runs, so that reading the inputs does not count; they are `null` where valgrind is missing.
//! The case `decisions` is one line per policy instead: the time of a single decision.

mod cases;
mod decisions;
mod measure;
mod traces;
mod train;

use cases::CASES;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["--here", case] => measure::here(case),
        ["traces"] => traces::all(),
        ["decisions"] => decisions::all(),
        ["--slices", case, milliseconds] => measure::slices(case, milliseconds),
        ["--train"] => train::all(),
        [] => measure::all(&[]).and_then(|()| traces::all()).and_then(|()| decisions::all()),
        names if names.iter().all(|n| CASES.iter().any(|c| c.name == *n)) => measure::all(names),
        _ => Err(format!(
            "cases are: decisions, traces, {}",
            CASES.iter().map(|c| c.name).collect::<Vec<_>>().join(", ")
        )),
    };
    done.map_or_else(
        |why| {
            eprintln!("wattif-bench: {why}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}
