//! `wattif compare WORKLOAD -k A -k B`.

use super::inputs::{Inputs, Loaded};
use super::{Exit, output};
use crate::error::{Error, Look};
use crate::run::run_all;
use crate::settings::Settings;
use crate::{data, experiment, text};
use std::path::PathBuf;
use wattif_lab::compare::{Comparison, fold, headline_metrics};
use wattif_lab::experiment::Overrides;
use wattif_lab::metrics::RunReport;
use wattif_lab::plot::{self, Axis, Chart};
use wattif_model::run::RunSpec;

/// Compare kernels on one workload: paired seeds, common random numbers, confidence intervals.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  wattif compare app.json -k linux-5.3 -k linux-5.6
  wattif compare app.json -k linux-6.1 -k linux-6.12 --seeds 50 --markdown
  wattif compare gallery/sched_idle_placement")]
pub struct Args {
    /// An rt-app JSON file, - for stdin, a workload of the gallery, a model, or gallery/NAME for a whole experiment.
    #[arg(value_name = "WORKLOAD")]
    workload: String,
    #[command(flatten)]
    inputs: Inputs,
    /// Kernel profile; the first is what the others are compared with. Twice or more.
    #[arg(short, long, value_name = "KERNEL")]
    kernel: Vec<String>,
    /// Runs per kernel, with the seeds from --seed on; 20 by default, or what the experiment says.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    seeds: Option<u64>,
    /// Print one JSON object (wattif.compare/1).
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print a Markdown table.
    #[arg(long)]
    markdown: bool,
    /// Draw the ratios to the first kernel.
    #[arg(long, value_name = "NAME.svg")]
    plot: Option<PathBuf>,
}

pub fn run(args: &Args, look: Look) -> Result<Exit, Error> {
    let (loaded, seeds) = load(args, look)?;
    let specs = &loaded.specs;
    let all: Vec<RunSpec> =
        specs.iter().flat_map(|s| seeds.iter().map(|&seed| RunSpec { seed, ..s.clone() })).collect();
    let bar = output::bar(all.len() as u64, "simulating");
    let outcomes = run_all(&all, &|| bar.inc(1))?;
    bar.finish_and_clear();
    let mut reports = outcomes.into_iter().map(|o| o.report);
    let runs: Vec<Vec<RunReport>> = specs.iter().map(|_| reports.by_ref().take(seeds.len()).collect()).collect();
    let kernels: Vec<String> = specs.iter().map(|s| s.kernel.name.clone()).collect();
    let comparison = fold(spec_json(&loaded, &seeds), &kernels, &headline_metrics(&runs), &runs);
    if let Some(path) = &args.plot {
        output::file(path, &drawing(&comparison, &specs[0]))?;
    }
    match (args.json, args.markdown) {
        (true, _) => output::json(&comparison)?,
        (_, markdown) => output::data(&page(&loaded, &seeds, &comparison, markdown))?,
    }
    Ok(Exit::Done)
}

/// The kernels' specs and the seeds.
fn load(args: &Args, look: Look) -> Result<(Loaded, Vec<u64>), Error> {
    let first = args.inputs.seed;
    let seeds = |default: u64| (first..first.saturating_add(args.seeds.unwrap_or(default))).collect();
    let name = args.workload.strip_prefix("gallery/").unwrap_or_default().trim_end_matches('/');
    if data::experiments().contains(&name) {
        if !args.kernel.is_empty() || !args.inputs.set.is_empty() || args.inputs.duration.is_some() {
            return Err(Error::Usage(format!(
                "gallery/{name} says what is compared; for other kernels or settings name its workload: `wattif list workloads`"
            )));
        }
        let entry = experiment::load(&args.workload)?;
        let e = &entry.experiment;
        let arm = |k: &String| e.resolve(k, &e.platforms[0], &Overrides::new()).map_err(Error::Usage);
        let specs = e.kernels.iter().map(|k| entry.spec(&arm(k)?)).collect::<Result<_, _>>()?;
        return Ok((Loaded { specs, settings: Settings::default(), findings: Vec::new() }, seeds(e.seeds)));
    }
    if args.kernel.len() < 2 {
        return Err(Error::Usage("name at least two kernels: -k linux-5.3 -k linux-5.6".into()));
    }
    Ok((args.inputs.load(&args.workload, &args.kernel, look)?, seeds(20)))
}

fn spec_json(loaded: &Loaded, seeds: &[u64]) -> serde_json::Value {
    let spec = &loaded.specs[0];
    let hashes: Vec<String> = loaded.specs.iter().map(RunSpec::hash).collect();
    serde_json::json!({
        "version": env!("CARGO_PKG_VERSION"),
        "platform": spec.platform.name,
        "workload": spec.workload.name,
        "duration_s": spec.duration.as_s_f64(),
        "seeds": seeds,
        "set": loaded.settings.to_map(),
        "hashes_of_first_seed": hashes,
        "content": loaded.specs,
        "trust": spec.platform.trust,
    })
}

fn page(loaded: &Loaded, seeds: &[u64], comparison: &Comparison, markdown: bool) -> String {
    let spec = &loaded.specs[0];
    let shown = format!("seeds {} to {}", seeds[0], seeds[seeds.len() - 1]);
    let mut used = text::used(spec, &loaded.settings.to_map(), &shown);
    for other in &loaded.specs[1..] {
        used += &format!("kernel    {}: {}\n", other.kernel.name, other.kernel.title);
    }
    let trust = text::trust(&spec.platform);
    match markdown {
        true => format!("```text\n{used}```\n\n{}\nHow far to trust it:\n\n{trust}", comparison.to_markdown()),
        false => format!("{used}\n{}\nHow far to trust it\n{}", comparison.to_text(), text::indented(&trust)),
    }
}

/// The ratios to the first kernel.
fn drawing(comparison: &Comparison, spec: &RunSpec) -> String {
    let rows: Vec<_> =
        comparison.metrics.iter().filter(|m| m.ratio_to_first.iter().all(|r| r.value.is_some())).collect();
    let first = comparison.kernels.first().map_or("", String::as_str);
    let chart = Chart {
        title: format!("{} on {}: ratio to {first}", spec.workload.name, spec.platform.name),
        desc: format!("Mean over {} paired seeds with 95 % intervals, per metric and kernel.", comparison.seeds),
        x: Axis { label: format!("ratio to {first}"), log: true },
        ..Chart::default()
    };
    let categories: Vec<String> = rows.iter().map(|m| m.name.clone()).collect();
    let of = |k: usize| {
        rows.iter().map(|m| (m.ratio_to_first[k].value.unwrap_or(f64::NAN), m.ratio_to_first[k].ci95)).collect()
    };
    let series: Vec<_> = (1..comparison.kernels.len()).map(|k| (comparison.kernels[k].clone(), of(k))).collect();
    plot::forest(&chart, &categories, &series)
}
