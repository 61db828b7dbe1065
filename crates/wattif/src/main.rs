//! The wattif command line; see `wattif::cli`.

use std::process::ExitCode;

fn main() -> ExitCode {
    wattif::cli::main()
}
