//! The command line: one file a verb. Data goes to stdout, notes and progress to stderr.

mod bisect;
mod compare;
mod completions;
mod conditions;
mod explain;
mod export;
mod import;
mod inputs;
mod lab;
mod list;
mod output;
mod plots;
mod record;
mod replay;
mod report;
mod repro;
mod run;
mod sweep;
mod swept;
mod tune;
mod verify;

use crate::bug;
use crate::error::{Error, Look};
use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

/// What the process says with its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// The answer is no: a tolerance missed, a row differs.
    No = 1,
    /// Bad input or usage.
    BadInput = 2,
    /// A bug of ours.
    Bug = 3,
}

const EXAMPLES: &str = "\
Examples:
  wattif run app.json                             an rt-app file on hikey960 under linux-6.12
  wattif compare app.json -k linux-5.3 -k linux-5.6 --seeds 20
  wattif repro                                    the gallery: published beside simulated
  wattif explain linux-5.3 linux-5.6 app.json     why they differ
  wattif sweep app.json --axis cpuidle=menu,teo   many settings, kept in a store
  wattif explain teo                              a policy's manual
  wattif list platforms                           what there is to choose from

Exit codes: 0 done · 1 the answer is no · 2 bad input or usage · 3 a bug of wattif";

/// What-if analysis of Linux CPU scheduling and CPU power management: a workload, a platform and kernels go in; latency,
/// frames, energy and idle accuracy come out, deterministically.
#[derive(Debug, Parser)]
#[command(name = "wattif", version, after_help = EXAMPLES, max_term_width = 120)]
pub struct Cli {
    /// When to use colours; NO_COLOR is honoured.
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value = "auto")]
    color: When,
    #[command(subcommand)]
    verb: Verb,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum When {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Run(run::Args),
    Compare(compare::Args),
    Repro(repro::Args),
    Replay(replay::Args),
    Import(import::Args),
    Export(export::Args),
    Record(record::Args),
    Explain(explain::Args),
    Bisect(bisect::Args),
    Sweep(sweep::Args),
    Tune(tune::Args),
    Lab(lab::Args),
    List(list::Args),
    Verify(verify::Args),
    Completions(completions::Args),
    Man(completions::ManArgs),
}

/// The definition of the command line, for completions, the manual page and the reference.
pub fn command() -> clap::Command {
    // A negative value of an option is a wrong value, not a flag that nobody knows.
    let of = |arg: clap::Arg| {
        let takes = arg.get_long().is_some() && arg.get_action().takes_values();
        if takes { arg.allow_negative_numbers(true) } else { arg }
    };
    Cli::command().mut_subcommands(move |verb| verb.mut_args(of))
}

/// From now on this signal does not end the process.
#[cfg(unix)]
fn survive(signal: i32) {
    static SEEN: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
    let _ = signal_hook::flag::register(signal, &SEEN);
}

/// Run the command line of this process.
pub fn main() -> ExitCode {
    // Over a limit on the size of files (`ulimit -f`) a write shall fail, as it does on a full disk.
    #[cfg(unix)]
    survive(signal_hook::consts::SIGXFSZ);
    let cli = match command().try_get_matches().and_then(|found| Cli::from_arg_matches(&found)) {
        Ok(cli) => cli,
        Err(refused) => return ExitCode::from(said(&refused) as u8),
    };
    let look = cli.look();
    let exit = bug::guarded(|| cli.verb.run(look)).map_or_else(
        |bug| {
            output::note(&bug);
            Exit::Bug
        },
        |answer| {
            answer.unwrap_or_else(|error| {
                output::note(&error.render(look));
                Exit::BadInput
            })
        },
    );
    ExitCode::from(exit as u8)
}

/// What clap has to say: what is wrong, or the help or version that was asked for.
fn said(refused: &clap::Error) -> Exit {
    if refused.kind() == ErrorKind::InvalidUtf8 {
        // Clap does not say which.
        let unread = |word: &OsString| word.to_str().is_none();
        let words: Vec<String> = std::env::args_os().filter(unread).map(|word| format!("{word:?}")).collect();
        output::note(&format!("error: not UTF-8, as what is read by its name has to be: {}", words.join(", ")));
        return Exit::BadInput;
    }
    let printed = refused.print().and_then(|()| std::io::stdout().flush());
    match printed {
        _ if refused.use_stderr() => Exit::BadInput,
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            output::note(&Error::file("stdout", e).render(Look::PLAIN));
            Exit::BadInput
        }
        _ => Exit::Done,
    }
}

impl Cli {
    /// Colours and width of stderr's and stdout's text.
    fn look(&self) -> Look {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        let color = match self.color {
            When::Always => true,
            When::Never => false,
            When::Auto => !no_color && std::io::stderr().is_terminal() && std::io::stdout().is_terminal(),
        };
        let width = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok()).unwrap_or(100);
        Look { color, width: width.clamp(40, 200) }
    }
}

impl Verb {
    fn run(self, look: Look) -> Result<Exit, Error> {
        match self {
            Verb::Run(args) => run::run(&args, look),
            Verb::Compare(args) => compare::run(&args, look),
            Verb::Repro(args) => repro::run(&args, look),
            Verb::Replay(args) => replay::run(&args, look),
            Verb::Import(args) => import::run(&args, look),
            Verb::Export(args) => export::run(&args, look),
            Verb::Record(args) => record::run(&args, look),
            Verb::Explain(args) => explain::run(&args, look),
            Verb::Bisect(args) => bisect::run(&args, look),
            Verb::Sweep(args) => sweep::run(&args, look),
            Verb::Tune(args) => tune::run(&args, look),
            Verb::Lab(args) => lab::run(&args, look),
            Verb::List(args) => list::run(&args),
            Verb::Verify(args) => verify::run(&args),
            Verb::Completions(args) => completions::run(&args),
            Verb::Man(args) => completions::man(&args),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definition_is_consistent() {
        command().debug_assert();
    }
}
