//! The project's own commands: `cargo xtask test`, `cargo xtask bench`, `cargo xtask gen`, `cargo xtask web`, `cargo xtask new`,
//! `cargo xtask boards`, `cargo xtask pgo`.

mod boards;
mod generate;
mod new;
mod pgo;
mod python;
mod step;
mod test;
mod web;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test              everything: format, lints, documentation, the wasm32 build, the Python package, the page in a browser, all
                    tests; among these are generated docs and the gallery
  bench [CASE…]     fixed runs of a profile-guided build, one JSON line per case; alone, `decisions`: the time of single decisions,
                    `traces`: writing and reading a trace in every format, `page`: opening and drawing a report of a million
                    slices; `--plain` before a case: of the release build
  pgo               build `wattif` profile-guided, into target/pgo: an eighth faster than the release build
  gen [--check]     write docs/reference from the registries, and the drawings in README, docs and gallery by the commands beside
                    them; --check only says whether they are fresh
  web               the report's page and the simulator in it, into web/dist
  boards            fetch the thousand devicetrees of Debian's kernel for arm64, import each and run threads on it
  new KIND NAME     a new cpuidle or cpufreq governor, registered, with manual and test; or a new kernel
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["test"] => test::everything(),
        ["web"] => web::build(),
        ["boards"] => boards::test(),
        ["pgo"] => pgo::build("wattif").map(|path| println!("{}", path.display())),
        ["-h" | "--help" | "help"] | [_, "-h" | "--help"] => {
            print!("{USAGE}\ncases of bench: {}\n", test::cases().join(" "));
            return ExitCode::SUCCESS;
        }
        ["bench", cases @ ..] => test::bench(cases),
        ["gen"] => generate::write(),
        ["gen", "--check"] => generate::check(),
        ["new", kind, name] => new::make(&step::root(), kind, name).map(|files| {
            files.iter().for_each(|f| println!("wrote {f}"));
            println!("next: write it, then `cargo fmt --all`, `cargo xtask gen`, `cargo xtask test`");
        }),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
    }
}
