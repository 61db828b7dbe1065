//! `wattif tune WORKLOAD --axis name=values…`.

use super::inputs::whole;
use super::swept::Swept;
use super::{Exit, output};
use crate::error::{Error, Look};
use crate::sweep::Store;
use crate::tune::{Candidate, Optuna, Tuned, Tuning};
use wattif_lab::sweep::Sampling;
use wattif_lab::table::{Align, Table, cell, interval, number};

/// Search for tunables that are good in several metrics at once, and test them on seeds that the search never saw.
///
/// The search is Optuna's NSGA-II and needs a Python with Optuna (pip install 'optuna>=5'). Every run is kept in a store, as a
/// sweep's is.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  wattif tune app.json --axis schedutil.rate_limit_us=500..8000 --axis cpuidle=menu,teo
  wattif tune server -p hikey620 --axis cpuidle=menu,teo --objective energy.total --objective throughput.request \\
      --trials 200 --seeds 3 --held-out 20")]
pub struct Args {
    #[command(flatten)]
    swept: Swept,
    /// Metric that is to be good; repeatable.
    #[arg(long, value_name = "METRIC", default_values = ["energy.total", "wakeup_latency_us.p99"])]
    objective: Vec<String>,
    /// Settings to try.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = whole(1..=100_000))]
    trials: u64,
    /// Of these, in a generation.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = whole(2..=10_000))]
    population: u64,
    /// Seeds of every trial, from --seed on.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = whole(1..=10_000))]
    seeds: u64,
    /// Seeds after those, on which proposals and the unchanged kernel are compared.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = whole(1..=10_000))]
    held_out: u64,
    /// The Python that has Optuna.
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    python: String,
    /// Print one JSON object (wattif.tune/1).
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args, _look: Look) -> Result<Exit, Error> {
    args.swept.files().check()?;
    let tuning = tuning(args)?;
    tuning.question.plan_one()?;
    let store = Store::open(&args.swept.store)?;
    let mut search = Optuna::start(&args.python)?;
    let bar = output::bar(tuning.runs() as u64, "simulating");
    let tuned = tuning.run(&store, &mut search, &output::step(&bar))?;
    bar.finish_and_clear();
    match args.json {
        true => output::json(&tuned)?,
        false => output::data(&page(&tuned))?,
    }
    Ok(Exit::Done)
}

fn tuning(args: &Args) -> Result<Tuning, Error> {
    let question = args.swept.question(Sampling::Grid, args.seeds)?;
    let held_out = Tuning::held_out(&question.seeds, args.held_out)?;
    Ok(Tuning {
        question,
        objectives: args.objective.clone(),
        trials: args.trials,
        population: args.population,
        search_seed: args.swept.seed,
        held_out,
    })
}

fn page(tuned: &Tuned) -> String {
    let (tried, seeds, unseen) = (tuned.tried, tuned.seeds.len(), tuned.held_out.len());
    let mut out =
        format!("{tried} settings tried on {seeds} seeds; the best beside the unchanged kernel on {unseen} others\n\n");
    let right = |name: &str| (name.to_string(), Align::Right);
    let axes: Vec<&String> = tuned.proposals.iter().flat_map(|p| p.set.keys()).take(axes_of(tuned)).collect();
    let left = axes.iter().map(|name| (name.to_string(), Align::Left));
    let columns = tuned
        .objectives
        .iter()
        .flat_map(|m| [right(m), right("held out"), right("95 % interval"), right("ratio"), right("95 % interval")]);
    let mut table = Table::new(left.chain(columns));
    for candidate in std::iter::once(&tuned.baseline).chain(&tuned.proposals) {
        let shown = |name: &&String| candidate.set.get(*name).cloned().unwrap_or_else(|| "unchanged".into());
        let mut cells: Vec<String> = axes.iter().map(shown).collect();
        tuned.objectives.iter().for_each(|m| cells.extend(figures(candidate, m)));
        table.row(cells);
    }
    out += &table.to_text();
    out + "\nthe first figure is on the seeds of the search, which proposals were chosen by; trust the others\n"
}

fn axes_of(tuned: &Tuned) -> usize {
    tuned.proposals.first().map_or(0, |p| p.set.len())
}

fn figures(c: &Candidate, metric: &str) -> [String; 5] {
    let mean = |f: Option<f64>| cell(f.unwrap_or(f64::NAN));
    let (found, unseen, ratio) = (&c.found[metric], &c.held_out[metric], c.ratio.get(metric));
    let short = |ci: [f64; 2]| format!("[{}, {}]", number(ci[0], 4), number(ci[1], 4));
    [
        mean(found.mean),
        mean(unseen.mean),
        interval(unseen.ci95),
        number(ratio.and_then(|r| r.value).unwrap_or(f64::NAN), 4),
        ratio.and_then(|r| r.ci95).map_or("–".into(), short),
    ]
}
