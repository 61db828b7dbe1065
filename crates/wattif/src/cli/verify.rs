//! `wattif verify DIR`.

use super::{Exit, output};
use crate::error::Error;
use crate::verify::folder::{FileReport, VerifyReport, verify_dir};
use std::path::PathBuf;
use wattif_lab::table::{Align, Table};

/// Replay vectors of the kernel's own code through the code that the simulator runs.
///
/// Every csv or jsonl file below DIR, gzipped or not, is a vector file; its kind follows from its name. A file of no known
/// kind is an error. Recordings (a folder with a cases.json) are not replayed yet.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  wattif verify crates/wattif/tests/vectors\n\nExit codes: 0 every row agrees · 1 a row differs · 2 a file could not be checked"
)]
pub struct Args {
    /// Folder with vector files.
    dir: PathBuf,
    /// Print one JSON object (wattif.verify/1).
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<Exit, Error> {
    let bar = output::bar(0, "verifying");
    let report = verify_dir(&args.dir, &|_| bar.inc(1))?;
    bar.finish_and_clear();
    match args.json {
        true => output::json(&report)?,
        false => output::data(&text(&report))?,
    }
    for file in report.files.iter().filter(|_| args.json) {
        if let Some(error) = &file.error {
            output::note(&format!("error: {}: {error}", file.file));
        }
    }
    Ok(match report.totals() {
        (_, m) if m > 0 => Exit::No,
        _ if report.errors() > 0 => Exit::BadInput,
        _ => Exit::Done,
    })
}

fn text(report: &VerifyReport) -> String {
    let mut table = Table::new([
        ("file", Align::Left),
        ("kind", Align::Left),
        ("kernel", Align::Left),
        ("rows", Align::Right),
        ("mismatches", Align::Right),
    ]);
    for f in &report.files {
        let kind = if f.kind.is_empty() { "?" } else { &f.kind };
        table.row([f.file.as_str(), kind, &f.kernel, &f.rows.to_string(), &f.mismatches.to_string()]);
        for line in remarks(f) {
            table.line(line);
        }
    }
    let (rows, mismatches) = report.totals();
    let errors = report.errors();
    let files = report.files.len();
    format!("{}\n{files} files, {rows} rows, {mismatches} mismatches, {errors} files not checked\n", table.to_text())
}

fn remarks(f: &FileReport) -> impl Iterator<Item = String> {
    let first = f.first_mismatch.as_ref().map(|m| format!("  first mismatch: {m}"));
    let error = f.error.as_ref().map(|e| format!("  error: {e}"));
    first.into_iter().chain(error)
}
