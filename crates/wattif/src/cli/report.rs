//! `--report FILE`: what every verb that runs something puts into the page.

use super::inputs::{Inputs, Loaded};
use super::output;
use crate::error::{Error, Findings};
use crate::explain::{self, Reruns};
use crate::files::Files;
use crate::new_file::ending_in;
use crate::report::{self, Report, Side, page};
use crate::run::unfinished;
use crate::{bug, text};
use clap::builder::TypedValueParser;
use rayon::prelude::*;
use std::path::{Path, PathBuf};
use wattif_lab::compare::Comparison;
use wattif_model::platform::Platform;
use wattif_model::run::RunSpec;

/// Where the page goes.
#[derive(Debug, clap::Args)]
pub struct ReportArg {
    /// Write a page that shows all of it, opens from disk without a network, and runs it again.
    #[arg(long, value_name = "FILE.html", value_parser = html_file())]
    pub report: Option<PathBuf>,
}

fn html_file() -> impl TypedValueParser<Value = PathBuf> {
    ending_in(&["html", "htm"], "the report is a page in HTML: call the file NAME.html")
}

impl ReportArg {
    /// With the page.
    pub fn files(&self, files: Files) -> Files {
        files.each_written("--report", &self.report)
    }
}

/// What was typed, as a shell reads it.
pub fn command() -> String {
    let words = bug::words();
    let words = words.iter().skip(1).map(|w| bug::quote(w));
    std::iter::once("wattif".to_string()).chain(words).collect::<Vec<_>>().join(" ")
}

/// The file.
pub fn write(path: &Path, mut report: Report, sides: Vec<Side>) -> Result<(), Error> {
    report.command = Some(command());
    output::file(path, &page::html(report, sides))?;
    output::note(&format!("report in {}", path.display()));
    Ok(())
}

/// The form of the page begins with what was run.
pub fn inputs_of(loaded: &Loaded, seeds: u64) -> report::Inputs {
    let spec = &loaded.specs[0];
    report::Inputs {
        platform: spec.platform.name.clone(),
        kernels: loaded.specs.iter().map(|s| s.kernel.name.clone()).collect(),
        workload: spec.workload.name.clone(),
        workload_text: loaded.workload_text.clone(),
        seed: spec.seed.to_string(),
        seeds,
        duration_s: spec.duration.as_s_f64(),
        ..report::Inputs::default()
    }
}

/// The same, in the words of whoever asked.
pub fn inputs(asked: &Inputs, kernels: &[String], loaded: &Loaded, seeds: u64) -> report::Inputs {
    report::Inputs {
        platform: asked.machine().to_string(),
        kernels: kernels.to_vec(),
        dialect: asked.dialect.name(),
        set: asked.set.clone(),
        ..inputs_of(loaded, seeds)
    }
}

/// A page of one run.
pub fn of_run(side: &Side, loaded: &Loaded, inputs: report::Inputs) -> Report {
    let spec = &side.spec;
    let (workload, platform, kernel) = (&spec.workload.name, &spec.platform.name, &spec.kernel.name);
    let mut report = Report::new("run", format!("{workload} on {platform}: {kernel}"));
    let length = text::length(spec);
    let length = if spec.workload.ends_by_itself() { length } else { format!("for {length}") };
    report.question = format!("What does {workload} do on {platform} under {kernel}, {length}?");
    report.answer = report::sentences(side);
    report.notes.extend(unfinished(spec, &side.outcome.report).iter().flat_map(Findings::messages));
    report.inputs = inputs;
    report.trust = trust(&spec.platform);
    report.sides = vec![side.json(&loaded.settings.to_map(), &loaded.findings)];
    report
}

/// A page of a comparison; `sides` are runs of its kernels with the first seed. Why the first two differ is explained.
pub fn of_comparison(
    comparison: &Comparison,
    sides: &[Side],
    loaded: &Loaded,
    inputs: report::Inputs,
) -> Result<Report, Error> {
    let names: Vec<&str> = sides.iter().map(|s| s.spec.kernel.name.as_str()).collect();
    let spec = &sides[0].spec;
    let (workload, platform) = (&spec.workload.name, &spec.platform.name);
    let mut report = Report::new("compare", format!("{workload} on {platform}: {}", names.join(", ")));
    report.question = format!(
        "What changes for {workload} on {platform} between {}, {} and {} paired seeds?",
        names.join(" and "),
        if spec.workload.ends_by_itself() { text::length(spec) + "," } else { format!("over {}", text::length(spec)) },
        comparison.seeds
    );
    report.set_comparison(comparison);
    report.inputs = inputs;
    report.trust = trust(&spec.platform);
    add_sides(&mut report, sides, loaded)?;
    Ok(report)
}

/// Runs with their figures, on all cores.
pub fn sides(specs: &[RunSpec]) -> Result<Vec<Side>, Error> {
    specs.par_iter().map(|s| report::side(s, &mut [])).collect()
}

/// Puts runs into a page, and explains the first two of the same inputs.
pub fn add_sides(report: &mut Report, sides: &[Side], loaded: &Loaded) -> Result<(), Error> {
    let set = loaded.settings.to_map();
    report.sides = sides.iter().map(|s| s.json(&set, &loaded.findings)).collect();
    let simulated: Vec<&RunSpec> = sides.iter().filter(|s| !s.recorded).map(|s| &s.spec).collect();
    if let [a, b, ..] = simulated[..]
        && explain::same_inputs(a, b).is_ok()
    {
        report.set_explanation(&explain::explain([a, b], &Reruns::none(), &|| true)?);
    }
    Ok(())
}

/// The lines of `How far to trust it`.
pub fn trust(platform: &Platform) -> Vec<String> {
    text::trust_lines(platform)
}
