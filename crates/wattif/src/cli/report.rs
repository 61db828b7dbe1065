//! `--report FILE`: what every verb that runs something puts into the page.

use super::inputs::{Inputs, Loaded};
use super::output;
use crate::error::Error;
use crate::explain::{self, Reruns};
use crate::report::{self, Report, Side, page};
use crate::{bug, text};
use rayon::prelude::*;
use std::path::{Path, PathBuf};
use wattif_lab::compare::Comparison;
use wattif_lab::table::cell;
use wattif_model::Ns;
use wattif_model::run::RunSpec;

/// Where the page goes.
#[derive(Debug, clap::Args)]
pub struct ReportArg {
    /// Write a page that shows all of it, opens from disk without a network, and runs it again.
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
}

/// What was typed, as a shell reads it.
pub fn command() -> String {
    let words = std::env::args().skip(1).map(|w| bug::quote(&w));
    std::iter::once("wattif".to_string()).chain(words).collect::<Vec<_>>().join(" ")
}

/// The file.
pub fn write(path: &Path, mut report: Report, sides: Vec<Side>) -> Result<(), Error> {
    report.command = Some(command());
    output::file(path, &page::html(report, sides))?;
    output::note(&format!("report in {}", path.display()));
    Ok(())
}

/// The form of the page begins with what was asked for here.
pub fn inputs(asked: &Inputs, kernels: &[String], loaded: &Loaded, seeds: u64) -> report::Inputs {
    let spec = &loaded.specs[0];
    report::Inputs {
        platform: asked.platform.clone(),
        kernels: kernels.to_vec(),
        workload: spec.workload.name.clone(),
        workload_text: loaded.workload_text.clone(),
        dialect: asked.dialect.name(),
        set: asked.set.clone(),
        seed: spec.seed,
        seeds,
        duration_s: spec.duration.as_s_f64(),
    }
}

/// Of one run.
pub fn of_run(path: &Path, side: Side, loaded: &Loaded, inputs: report::Inputs) -> Result<(), Error> {
    let spec = &side.spec;
    let mut report =
        Report::new("run", format!("{} on {}: {}", spec.workload.name, spec.platform.name, spec.kernel.name));
    report.question = format!(
        "What does {} do on {} under {}, for {} s?",
        spec.workload.name,
        spec.platform.name,
        spec.kernel.name,
        cell(spec.duration.as_s_f64())
    );
    report.answer = report::sentences(&side);
    report.inputs = inputs;
    report.trust = trust(spec);
    report.sides = vec![side.json(&loaded.settings.to_map(), &loaded.findings)];
    write(path, report, vec![side])
}

/// Of a comparison: a run of each kernel with the first seed, and why the first two differ.
pub fn of_comparison(
    path: &Path,
    comparison: &Comparison,
    specs: &[RunSpec],
    loaded: &Loaded,
    inputs: report::Inputs,
) -> Result<(), Error> {
    let names: Vec<&str> = specs.iter().map(|s| s.kernel.name.as_str()).collect();
    let spec = &specs[0];
    let mut report =
        Report::new("compare", format!("{} on {}: {}", spec.workload.name, spec.platform.name, names.join(", ")));
    report.question = format!(
        "What changes for {} on {} between {}, over {} s and {} paired seeds?",
        spec.workload.name,
        spec.platform.name,
        names.join(" and "),
        cell(spec.duration.as_s_f64()),
        comparison.seeds
    );
    report.set_comparison(comparison);
    report.inputs = inputs;
    report.trust = trust(spec);
    let sides = with_sides(&mut report, specs, loaded)?;
    write(path, report, sides)
}

/// Runs the specs with their figures, and explains the first two.
pub fn with_sides(report: &mut Report, specs: &[RunSpec], loaded: &Loaded) -> Result<Vec<Side>, Error> {
    let sides: Vec<Side> = specs.par_iter().map(|s| report::side(s, &mut [])).collect::<Result<_, _>>()?;
    let set = loaded.settings.to_map();
    report.sides = sides.iter().map(|s| s.json(&set, &loaded.findings)).collect();
    if let [a, b, ..] = specs
        && explain::same_inputs(a, b).is_ok()
    {
        let none = Reruns { seeds: 0, duration: Ns::ZERO, metrics: Vec::new() };
        report.set_explanation(&explain::explain([a, b], &none, &|| true)?);
    }
    Ok(sides)
}

/// The lines of `How far to trust it`.
pub fn trust(spec: &RunSpec) -> Vec<String> {
    text::trust(&spec.platform).lines().map(|l| l.trim_start_matches("- ").to_string()).collect()
}
