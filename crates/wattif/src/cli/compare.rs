//! `wattif compare WORKLOAD -k A -k B`.

use super::conditions::{FailIf, Until};
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
  wattif compare app.json -k linux-6.6 -k linux-6.12 --until ci=1%
  wattif compare app.json -k base.toml -k mine.toml --fail-if 'energy.total > +2%'
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
    /// Runs per kernel, with the seeds from --seed on; 20 by default, or what the experiment says. With --until, the most.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    seeds: Option<u64>,
    /// Exit 1 if the condition on a metric's change against the first kernel holds, such as 'energy.total > +2%'; repeatable.
    ///
    /// It holds if for some kernel the whole 95 % interval of the ratio to the first lies beyond the limit: 'M > +2%' when its
    /// lower end is above 1.02, 'M < -2%' when its upper end is below 0.98. With a single seed the ratio itself is compared.
    #[arg(long, value_name = "CONDITION", allow_hyphen_values = true)]
    fail_if: Vec<String>,
    /// Add seeds, ten at a time, until the result is sure: ci=1%, or METRIC=1% for one metric.
    ///
    /// Sure means: half the 95 % interval of every kernel's mean is at most this share of the mean; with ci, of energy.total, all
    /// means of latencies and frames, and throughput. It ends at --seeds runs per kernel, or 200, and says so.
    #[arg(long, value_name = "WHAT=P%")]
    until: Option<String>,
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

/// With `--until`, where `--seeds` says nothing.
const MOST_SEEDS: u64 = 200;

pub fn run(args: &Args, look: Look) -> Result<Exit, Error> {
    let fail_if: Vec<FailIf> = args.fail_if.iter().map(|text| FailIf::parse(text)).collect::<Result<_, _>>()?;
    let until = args.until.as_deref().map(Until::parse).transpose()?;
    let (loaded, seeds) = load(args, look)?;
    let specs = &loaded.specs;
    let named: Vec<String> =
        fail_if.iter().map(|c| c.metric.clone()).chain(until.iter().flat_map(|u| u.metric.clone())).collect();
    let (comparison, seeds) = match &until {
        None => (compared(&loaded, &seeds, &named)?, seeds),
        Some(until) => sure(&loaded, &seeds, &named, until)?,
    };
    if let Some(path) = &args.plot {
        output::file(path, &drawing(&comparison, &specs[0]))?;
    }
    match (args.json, args.markdown) {
        (true, _) => output::json(&comparison)?,
        (_, markdown) => output::page(&page(&loaded, &seeds, &comparison, markdown))?,
    }
    let mut exit = Exit::Done;
    for condition in &fail_if {
        for found in condition.holds(&comparison)? {
            output::note(&format!("--fail-if '{}' holds for {found}", condition.text));
            exit = Exit::No;
        }
    }
    Ok(exit)
}

/// Runs of these seeds under every kernel: a list per kernel.
fn simulate(specs: &[RunSpec], seeds: &[u64]) -> Result<Vec<Vec<RunReport>>, Error> {
    let all: Vec<RunSpec> =
        specs.iter().flat_map(|s| seeds.iter().map(|&seed| RunSpec { seed, ..s.clone() })).collect();
    let bar = output::bar(all.len() as u64, "simulating");
    let outcomes = run_all(&all, &|| bar.inc(1))?;
    bar.finish_and_clear();
    let mut reports = outcomes.into_iter().map(|o| o.report);
    Ok(specs.iter().map(|_| reports.by_ref().take(seeds.len()).collect()).collect())
}

fn compared(loaded: &Loaded, seeds: &[u64], named: &[String]) -> Result<Comparison, Error> {
    Ok(folded(loaded, seeds, named, &simulate(&loaded.specs, seeds)?))
}

/// The headline metrics, and those that a condition names.
fn folded(loaded: &Loaded, seeds: &[u64], named: &[String], runs: &[Vec<RunReport>]) -> Comparison {
    let kernels: Vec<String> = loaded.specs.iter().map(|s| s.kernel.name.clone()).collect();
    let mut names = headline_metrics(runs);
    for name in named {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    fold(spec_json(loaded, seeds), &kernels, &names, runs)
}

/// Ten seeds at a time until it is sure, or there are no more of them.
fn sure(loaded: &Loaded, seeds: &[u64], named: &[String], until: &Until) -> Result<(Comparison, Vec<u64>), Error> {
    const BATCH: usize = 10;
    let mut runs: Vec<Vec<RunReport>> = vec![Vec::new(); loaded.specs.len()];
    for batch in seeds.chunks(BATCH) {
        let more = simulate(&loaded.specs, batch)?;
        runs.iter_mut().zip(more).for_each(|(all, more)| all.extend(more));
        let done = runs[0].len();
        let comparison = folded(loaded, &seeds[..done], named, &runs);
        match until.widest(&comparison) {
            None => {
                output::note(&format!("--until: reached with {done} seeds"));
                return Ok((comparison, seeds[..done].to_vec()));
            }
            Some((metric, width)) if done == seeds.len() => {
                let now = if width.is_finite() { format!("± {:.2} %", width * 100.0) } else { "not known".into() };
                output::note(&format!("--until: not reached with {done} seeds, the most: {metric} is {now}"));
                return Ok((comparison, seeds.to_vec()));
            }
            Some(_) => {}
        }
    }
    Err(Error::Usage("--until needs at least one seed".into()))
}

/// The kernels' specs and the seeds.
fn load(args: &Args, look: Look) -> Result<(Loaded, Vec<u64>), Error> {
    let first = args.inputs.seed;
    let seeds = |default: u64| {
        (first..first.saturating_add(args.seeds.unwrap_or(if args.until.is_some() { MOST_SEEDS } else { default })))
            .collect()
    };
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
