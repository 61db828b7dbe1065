//! `wattif compare WORKLOAD -k A -k B`.

use super::conditions::{FailIf, Until};
use super::inputs::{Inputs, Loaded, whole};
use super::plots::{self, PlotArg};
use super::report::{self, ReportArg, command};
use super::{Exit, output};
use crate::compare::{self, Runs};
use crate::error::{Error, Findings, Look, printable};
use crate::explain::{run_file, same_inputs};
use crate::files::Files;
use crate::new_file::{alone_on_stdout, is_stdout};
use crate::run::{all_unfinished, seeds};
use crate::{data, experiment, load, tables, text};
use std::path::PathBuf;
use wattif_lab::compare::Comparison;
use wattif_lab::report::{never, ratios};
use wattif_model::Ns;
use wattif_model::check::Severity;
use wattif_model::run::RunSpec;

/// Compare kernels on one workload: paired seeds, common random numbers, confidence intervals.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  wattif compare app.json -k linux-5.3 -k linux-5.6
  wattif compare app.json -k linux-6.1 -k linux-6.12 --seeds 50 --markdown
  wattif compare app.json -k linux-6.6 -k linux-6.12 --until ci=1%
  wattif compare app.json -k linux-6.6 -k linux-6.12 --arrow result.arrow
  wattif compare app.json -k base.toml -k mine.toml --fail-if 'energy.total > +2%'
  wattif compare A.json B.json                       files of `wattif run --json`: the same but for the kernel
  wattif compare gallery/sched_idle_placement")]
pub struct Args {
    /// An rt-app JSON file, - for stdin, a workload of the gallery, a model, gallery/NAME for a whole experiment; or two and more files of `run --json`.
    #[arg(value_name = "WORKLOAD", required = true)]
    workload: Vec<String>,
    #[command(flatten)]
    inputs: Inputs,
    /// Kernel profile; the first is what the others are compared with. Twice or more.
    #[arg(short, long, value_name = "KERNEL")]
    kernel: Vec<String>,
    /// Runs per kernel, with the seeds from --seed on; 20 by default, or what the experiment says. With --until, the most.
    #[arg(long, value_parser = whole(1..=100_000))]
    seeds: Option<u64>,
    /// Exit 1 if the condition on a metric's change against the first kernel holds, such as 'energy.total > +2%'; repeatable.
    ///
    /// It holds if for some kernel the whole 95 % interval of the ratio to the first lies beyond the limit: 'M > +2%' when its
    /// lower end is above 1.02, 'M < -2%' when its upper end is below 0.98. With too few seeds for an interval the ratio itself is compared.
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
    /// Also write it as an Arrow table (IPC file), a row per metric and kernel; - is standard output, with nothing else on it.
    #[arg(long, value_name = "FILE")]
    arrow: Option<PathBuf>,
    #[command(flatten)]
    plots: PlotArg,
    #[command(flatten)]
    page: ReportArg,
}

impl Args {
    fn files(&self) -> Files {
        let read = self.workload.iter().fold(Files::default(), |files, name| files.workload(name));
        let read = read.platform(self.inputs.machine()).kernels(&self.kernel);
        self.page.files(self.plots.files(read.each_written("--arrow", &self.arrow)))
    }
}

/// With `--until`, where `--seeds` says nothing.
const MOST_SEEDS: u64 = 200;

pub fn run(args: &Args, look: Look) -> Result<Exit, Error> {
    args.files().check()?;
    alone_on_stdout(args.arrow.as_deref(), &[("--json", args.json), ("--markdown", args.markdown)])?;
    let fail_if: Vec<FailIf> = args.fail_if.iter().map(|text| FailIf::parse(text)).collect::<Result<_, _>>()?;
    let until = args.until.as_deref().map(Until::parse).transpose()?;
    let (loaded, seeds) = load(args, look)?;
    let (first, kernels) = (&loaded.specs[0], loaded.specs.len());
    let never = |figure: &str| never(figure, &first.platform, !first.workload.marks.is_empty(), kernels);
    args.plots.check(Some("ratios"), never)?;
    let named: Vec<String> =
        fail_if.iter().map(|c| c.metric.clone()).chain(until.iter().flat_map(|u| u.metric.clone())).collect();
    let (comparison, seeds) = match &until {
        None => (compared(&loaded, &seeds, &named)?, seeds),
        Some(until) => sure(&loaded, &seeds, &named, until)?,
    };
    if let Some(path) = &args.arrow {
        tables::write(path, &tables::comparison(&comparison))?;
    }
    match (args.json, args.markdown) {
        _ if args.arrow.as_deref().is_some_and(is_stdout) => {}
        (true, _) => output::json(&comparison)?,
        (_, markdown) => output::page(&page(&loaded, &seeds, &comparison, markdown))?,
    }
    output::note(&printable(&text::deadlock_warnings(&deadlocks(&comparison))));
    if let Some(cut) = unfinished(&loaded.specs, &comparison) {
        output::note(&cut.render(look, Severity::Note));
    }
    pictures(args, &loaded, &seeds, &comparison)?;
    let mut exit = Exit::Done;
    for condition in &fail_if {
        for found in condition.holds(&comparison)? {
            output::note(&format!("--fail-if '{}' holds for {found}", condition.text));
            exit = Exit::No;
        }
    }
    Ok(exit)
}

/// Drawings and the page, from a run of each kernel with the first seed.
fn pictures(args: &Args, loaded: &Loaded, seeds: &[u64], comparison: &Comparison) -> Result<(), Error> {
    let specs: Vec<RunSpec> = loaded.specs.iter().map(|s| RunSpec { seed: seeds[0], ..s.clone() }).collect();
    let sides = plots::sides_if(args.page.report.is_some() || args.plots.of_runs(Some("ratios")), &specs)?;
    args.plots.write(&sides, Some(("ratios", &|_| ratios(&plots::title(&specs[0]), comparison))))?;
    if let Some(path) = &args.page.report {
        let inputs = report::inputs(&args.inputs, &args.kernel, loaded, seeds.len() as u64);
        let mut page = report::of_comparison(comparison, &sides, loaded, inputs)?;
        page.notes.extend(published_elsewhere(&args.workload));
        page.notes.extend(unfinished(&loaded.specs, comparison).iter().flat_map(Findings::messages));
        report::write(path, page, sides)?;
    }
    Ok(())
}

/// Of an experiment with published figures: what shows them.
fn published_elsewhere(workload: &[String]) -> Option<String> {
    let entry = experiment::named(workload.first()?)?.ok()?;
    let has = entry.experiment.rows.iter().any(|r| !r.published.is_empty() || r.published_ratio.is_some());
    let name = &entry.experiment.name;
    has.then(|| format!("published figures stand beside simulated ones in `wattif repro {name} --report FILE.html`"))
}

/// Runs of these seeds under every kernel: a list per kernel.
fn simulate(specs: &[RunSpec], seeds: &[u64]) -> Result<Runs, Error> {
    let bar = output::bar((specs.len() * seeds.len()) as u64, "simulating");
    let runs = Runs::simulate(specs, seeds, &output::step(&bar))?;
    bar.finish_and_clear();
    Ok(runs)
}

fn compared(loaded: &Loaded, seeds: &[u64], named: &[String]) -> Result<Comparison, Error> {
    Ok(simulate(&loaded.specs, seeds)?.compared(&loaded.specs, loaded.settings.to_map(), seeds, named))
}

/// Ten seeds at a time until it is sure, or there are no more of them.
fn sure(loaded: &Loaded, seeds: &[u64], named: &[String], until: &Until) -> Result<(Comparison, Vec<u64>), Error> {
    const BATCH: usize = 10;
    let mut runs = Runs::default();
    for batch in seeds.chunks(BATCH) {
        runs.add(simulate(&loaded.specs, batch)?);
        let done = runs.seeds();
        let comparison = runs.compared(&loaded.specs, loaded.settings.to_map(), &seeds[..done], named);
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
    let seeds = |default| seeds(first, args.seeds.unwrap_or(if args.until.is_some() { MOST_SEEDS } else { default }));
    if args.workload.len() > 1 {
        return Ok((run_files(args)?, seeds(20)?));
    }
    let workload = &args.workload[0];
    let name = workload.strip_prefix("gallery/").unwrap_or_default().trim_end_matches('/');
    if data::experiments().contains(&name) {
        if !args.inputs.set.is_empty() {
            return Err(Error::Usage(format!(
                "gallery/{name} says what is set: its variants are arms, KERNEL+VARIANT"
            )));
        }
        let entry = experiment::load(workload)?;
        let arms = if args.kernel.is_empty() { entry.comparable() } else { args.kernel.clone() };
        if arms.len() < 2 {
            let why = format!("one arm compares with nothing: name others of gallery/{name} with -k KERNEL+VARIANT");
            return Err(Error::Usage(why));
        }
        let specs =
            entry.arms(&arms, args.inputs.platform.as_deref(), args.inputs.duration.map(Ns), args.inputs.seed)?;
        specs[1..].iter().try_for_each(|other| same_inputs(&specs[0], other))?;
        return Ok((Loaded { specs, ..Loaded::default() }, seeds(entry.experiment.seeds)?));
    }
    if args.kernel.len() < 2 {
        // That there is no such thing comes first.
        if load::named_model(workload).is_none() && workload != "-" {
            data::workload(workload)?;
        }
        return Err(Error::Usage("name at least two kernels: -k linux-5.3 -k linux-5.6".into()));
    }
    Ok((args.inputs.load(workload, &args.kernel, look)?, seeds(20)?))
}

/// The kernels of several run files, whose other inputs are the same.
fn run_files(args: &Args) -> Result<Loaded, Error> {
    let asked = &args.inputs;
    let said = !args.kernel.is_empty() || !asked.set.is_empty() || asked.duration.is_some() || asked.platform.is_some();
    if said {
        let why = "run files say what is compared; -k, -p, --set and --duration go with a workload";
        return Err(Error::Usage(why.into()));
    }
    let specs: Vec<RunSpec> =
        args.workload.iter().map(|path| run_file(path).map(|(spec, _)| spec)).collect::<Result<_, _>>()?;
    specs[1..].iter().try_for_each(|other| same_inputs(&specs[0], other))?;
    Ok(Loaded { specs, ..Loaded::default() })
}

fn page(loaded: &Loaded, seeds: &[u64], comparison: &Comparison, markdown: bool) -> String {
    if markdown {
        return compare::cover_letter(comparison, &loaded.specs, seeds, &command());
    }
    let used = compare::used(comparison, &loaded.specs, &loaded.settings.to_map(), seeds);
    let blocked = text::deadlock_section(&deadlocks(comparison));
    format!("{used}\n{}", comparison.to_text()) + &blocked + &text::trust_section("it", &loaded.specs[0].platform)
}

/// Kernels whose runs were cut off.
fn unfinished(specs: &[RunSpec], comparison: &Comparison) -> Option<Findings> {
    let of = comparison.kernels.iter().zip(&comparison.unfinished).zip(specs);
    let of = of.map(|((name, cut), spec)| (name.clone(), *cut, spec.duration));
    all_unfinished(&specs[0].workload, of, comparison.seeds)
}

/// Kernels under which threads wait for ever.
fn deadlocks(comparison: &Comparison) -> String {
    let of = comparison.kernels.iter().cloned().zip(comparison.deadlock.iter().map(Option::as_ref));
    text::deadlocks(of, comparison.seeds)
}
