//! `wattif verify DIR`.

use super::{Exit, output};
use crate::error::Error;
use crate::new_file::named;
use crate::verify::folder::{FileReport, VerifyReport, verify_dir};
use crate::verify::recordings::CaseReport;
use std::path::PathBuf;
use wattif_lab::table::{Align, Table, verbatim};

/// Replay vectors of the kernel's own code, and recordings of a real kernel.
///
/// Every csv or jsonl file below DIR, gzipped or not, is a vector file, replayed through the code that the simulator runs; its
/// kind follows from its name. A file of no known kind is an error. A folder with a cases.json holds recordings: each case is
/// simulated, and its figures are compared with the measured ones within the tolerances of the case.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  wattif verify crates/wattif/tests/vectors\n\nExit codes: 0 every row and figure agrees · 1 one differs · 2 a file or case could not be checked"
)]
pub struct Args {
    /// Folder with vector files or recordings, or one such file.
    dir: PathBuf,
    /// Write the trace of each simulated case, with its decisions, to FOLDER/CASE.txt.
    #[arg(long, value_name = "FOLDER", value_parser = named())]
    traces: Option<PathBuf>,
    /// Print one JSON object (wattif.verify/1).
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<Exit, Error> {
    let bar = output::bar(0, "verifying");
    let report = verify_dir(&args.dir, args.traces.as_deref(), &|| bar.inc(1))?;
    bar.finish_and_clear();
    match args.json {
        true => output::json(&report)?,
        false => output::page(&text(&report))?,
    }
    if args.json {
        let files = report.files.iter().filter_map(|f| Some((&f.file, f.error.as_ref()?)));
        let cases = report.recordings.iter().filter_map(|r| Some((&r.name, r.error.as_ref()?)));
        files.chain(cases).for_each(|(name, error)| output::note(&format!("error: {name}: {error}")));
    }
    Ok(match (report.totals(), report.figures()) {
        ((_, mismatches), (_, out)) if mismatches > 0 || out > 0 => Exit::No,
        _ if report.errors() > 0 => Exit::BadInput,
        _ => Exit::Done,
    })
}

fn text(report: &VerifyReport) -> String {
    let mut out = String::new();
    if !report.files.is_empty() {
        out += &files(report);
    }
    report.recordings.iter().for_each(|r| out += &case(r));
    if !report.recordings.is_empty() {
        out += &summary(report);
    }
    out
}

fn files(report: &VerifyReport) -> String {
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
    let errors = report.files.iter().filter(|f| f.error.is_some()).count();
    let files = report.files.len();
    format!("{}\n{files} files, {rows} rows, {mismatches} mismatches, {errors} files not checked\n", table.to_text())
}

/// Measured beside simulated, the figures with a tolerance first.
fn case(r: &CaseReport) -> String {
    let mut out = format!("\n{}: {} ({}, {})\n", r.name, r.title, r.kernel, r.platform);
    if let Some(error) = &r.error {
        return out + &format!("  error: {error}\n");
    }
    let mut table = Table::new([
        ("figure", Align::Left),
        ("measured", Align::Right),
        ("simulated", Align::Right),
        ("allowed", Align::Right),
        ("", Align::Left),
    ]);
    for f in &r.figures {
        let verdict = if f.ok { "ok" } else { "OUT" };
        let allowed = format!("± {}", verbatim(round(f.tolerance)));
        table.row([f.name.clone(), verbatim(f.measured), simulated(f.simulated), allowed, verdict.into()]);
    }
    // Of the figures that are not compared, those of single threads and turns say the least.
    let telling = |name: &str| !["threads.", "pattern_us.", "window.", "log_"].iter().any(|p| name.starts_with(p));
    for i in r.info.iter().filter(|i| telling(&i.name)) {
        table.row([i.name.clone(), verbatim(i.measured), simulated(i.simulated), String::new(), String::new()]);
    }
    out += &table.to_text();
    r.notes.iter().for_each(|note| out += &format!("  note: {note}\n"));
    out
}

fn simulated(value: Option<f64>) -> String {
    value.map_or("-".into(), |v| verbatim(round(v)))
}

/// To three digits after the point, as many as any recorded figure has.
fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

fn summary(report: &VerifyReport) -> String {
    let mut table = Table::new([("case", Align::Left), ("in", Align::Right), ("out", Align::Right)]);
    for r in &report.recordings {
        let (inside, out) = r.counts();
        match &r.error {
            Some(_) => table.row([r.name.as_str(), "-", "not run"]),
            None => table.row([r.name.as_str(), &inside.to_string(), &out.to_string()]),
        }
    }
    let (inside, out) = report.figures();
    let clean = report.recordings.iter().filter(|r| r.error.is_none() && r.counts().1 == 0).count();
    let errors = report.recordings.iter().filter(|r| r.error.is_some()).count();
    let cases = report.recordings.len();
    format!(
        "\n{}\n{cases} cases, {clean} with every figure in, {errors} not run; {inside} figures in, {out} out\n",
        table.to_text()
    )
}

fn remarks(f: &FileReport) -> impl Iterator<Item = String> {
    let first = f.first_mismatch.as_ref().map(|m| format!("  first mismatch: {m}"));
    let error = f.error.as_ref().map(|e| format!("  error: {e}"));
    first.into_iter().chain(error)
}
