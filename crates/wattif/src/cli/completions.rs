//! `wattif completions SHELL` and `wattif man`: made from the same definition as `--help`.

use super::{Exit, command, output};
use crate::error::Error;
use crate::new_file::named;
use clap_complete::Shell;
use std::path::{Path, PathBuf};

/// Print the completion script of a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  wattif completions bash > ~/.local/share/bash-completion/completions/wattif")]
pub struct Args {
    /// Whose syntax to print.
    shell: Shell,
}

/// Print the manual page, or write one page per verb into a folder.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  wattif man | man -l -\n  wattif man --dir ~/.local/share/man/man1")]
pub struct ManArgs {
    /// Write wattif.1 and one page per verb here instead.
    #[arg(long, value_parser = named())]
    dir: Option<PathBuf>,
}

pub fn run(args: &Args) -> Result<Exit, Error> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command(), "wattif", &mut script);
    output::data(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}

pub fn man(args: &ManArgs) -> Result<Exit, Error> {
    match &args.dir {
        None => output::data(&page(command())?)?,
        Some(dir) => pages(dir)?,
    }
    Ok(Exit::Done)
}

fn pages(dir: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(dir).map_err(|e| Error::file(dir, e))?;
    let mut root = command();
    root.build();
    for verb in root.get_subcommands().filter(|v| v.get_name() != "help") {
        let name = format!("wattif-{}", verb.get_name());
        let text = page(verb.clone().version(env!("CARGO_PKG_VERSION")))?;
        output::file(&dir.join(format!("{name}.1")), &text)?;
    }
    output::file(&dir.join("wattif.1"), &page(command())?)
}

fn page(command: clap::Command) -> Result<String, Error> {
    let mut roff = Vec::new();
    clap_mangen::Man::new(command).render(&mut roff).map_err(|e| Error::file("manual page", e))?;
    Ok(String::from_utf8_lossy(&roff).into_owned())
}
