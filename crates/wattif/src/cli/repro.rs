//! `wattif repro [NAME…]`.

use super::inputs::{Loaded, whole};
use super::plots::{NO_SINGLE, PlotArg};
use super::report::{self, ReportArg};
use super::{Exit, output};
use crate::error::{Error, Look};
use crate::experiment::{self, Entry};
use crate::files::Files;
use crate::new_file::named;
use crate::report::Report;
use crate::{data, load, text};
use std::collections::BTreeSet;
use std::path::PathBuf;
use wattif_lab::experiment::{Overrides, Plan, Plot, Repro, ResultRow, Results, Shown};
use wattif_lab::report::{FIGURES, published};

/// Run the experiments of the gallery: published numbers beside simulated ones, and the counter-tests.
///
/// A row holds when its tolerance does. Its counter-test stands beside it, with a verdict of its own: the effect must vanish with
/// its mechanism.
///
/// In JSON a row with sub-rows (0.4/web, 0.4/photo) also has an entry under its plain id (0.4), ok when they are; tables and
/// correlations stand beside the rows.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  wattif repro                                 everything
  wattif repro sched_idle_placement
  wattif repro sched_idle_placement --seeds 5 --json
  wattif repro sched_idle_placement --plot published.svg

Exit codes: 0 every row that is judged holds, and its counter-test · 1 a row misses its tolerance or its counter-test")]
pub struct Args {
    /// Experiments by name, or folders with an experiment.toml; all of the gallery by default.
    names: Vec<String>,
    /// Seeds per arm, instead of what the experiment says.
    #[arg(long, value_parser = whole(1..=100_000))]
    seeds: Option<u64>,
    /// More seeds, longer runs and further rows, where an experiment has them: it takes what it takes.
    #[arg(long)]
    full: bool,
    /// Print one JSON object (wattif.repro/1).
    #[arg(long)]
    json: bool,
    /// Write all drawings that the experiments define into this folder, as SVG; --plot NAME.svg writes one.
    #[arg(long, value_name = "DIR", value_parser = named())]
    plots: Option<PathBuf>,
    #[command(flatten)]
    figures: PlotArg,
    #[command(flatten)]
    page: ReportArg,
}

pub fn run(args: &Args, _look: Look) -> Result<Exit, Error> {
    args.page.files(args.figures.files(Files::default().each_written("--plots", &args.plots))).check()?;
    let all = || data::experiments().into_iter().map(String::from).collect();
    let mut names: Vec<String> = if args.names.is_empty() { all() } else { args.names.clone() };
    let mut seen = BTreeSet::new();
    names.retain(|n| seen.insert(n.trim_end_matches('/').trim_start_matches("gallery/").to_string()));
    let mut entries: Vec<Entry> = names.iter().map(|n| experiment::load(n)).collect::<Result<_, _>>()?;
    if args.full {
        entries.iter_mut().for_each(|e| e.experiment = e.experiment.clone().into_full());
    }
    if let Some(seeds) = args.seeds {
        entries.iter_mut().for_each(|e| e.experiment.seeds = seeds);
    }
    if let Some(dir) = &args.plots {
        match entries.iter().any(|e| !e.experiment.plots.is_empty()) {
            true => std::fs::create_dir_all(dir).map_err(|e| Error::file(dir, e))?,
            false => output::note(&format!(
                "note: no drawings for {}: {} no [[plot]]",
                dir.display(),
                match entries.as_slice() {
                    [one] => format!("{} defines", one.experiment.name),
                    _ => "these experiments define".into(),
                }
            )),
        }
    }
    check_drawings(&args.figures, &entries)?;
    let mut rows: Vec<ResultRow> = Vec::new();
    let mut shown = Shown::default();
    let mut drawn: Vec<Plot> = Vec::new();
    for entry in &entries {
        let (plan, results) = simulate(entry)?;
        let found = entry.experiment.evaluate(&results);
        match args.json {
            true => shown.add(&entry.experiment, &results),
            false => output::data(&page(entry, &plan, &found, &results)?)?,
        }
        if args.plots.is_some() || args.figures.any() {
            drawn.extend(entry.experiment.plots(&results));
        }
        rows.extend(found);
    }
    for (dir, plot) in args.plots.iter().flat_map(|dir| drawn.iter().map(move |p| (dir, p))) {
        output::file(&dir.join(format!("{}.svg", plot.name)), &plot.svg)?;
    }
    let repro = Repro { shown, ..Repro::new(rows) };
    match args.json {
        true => output::json(&repro.folded())?,
        false => output::data(&verdict(&repro))?,
    }
    pictures(args, &entries, &repro, &drawn)?;
    Ok(if repro.ok() { Exit::Done } else { Exit::No })
}

/// Is there something to draw under every name? Said before the runs, which take long.
fn check_drawings(figures: &PlotArg, entries: &[Entry]) -> Result<(), Error> {
    let of_run = |figure: &str| FIGURES.contains(&figure) && entries.len() > 1;
    figures.check(Some("published"), |figure| of_run(figure).then_some(NO_SINGLE))?;
    let all = || entries.iter().map(|e| &e.experiment);
    if all().flat_map(|e| &e.rows).any(|row| row.published.values().any(|v| *v > 0.0)) {
        return Ok(());
    }
    let own: Vec<&str> = all().flat_map(|e| &e.plots).map(|p| p.name.as_str()).collect();
    let Some((path, _)) = figures.of_verb("published").find(|(_, stem)| !own.contains(&stem.as_str())) else {
        return Ok(());
    };
    let drawn: Vec<String> = own.iter().map(|name| format!("{name}.svg")).collect();
    let instead = if drawn.is_empty() { String::new() } else { format!("; drawn are {}", drawn.join(", ")) };
    Err(Error::Usage(format!("--plot {}: nothing was published of these rows{instead}", path.display())))
}

/// Drawings and the page: published beside simulated, and of a single experiment a run of its first two kernels.
fn pictures(args: &Args, entries: &[Entry], repro: &Repro, drawn: &[Plot]) -> Result<(), Error> {
    let names: Vec<&str> = entries.iter().map(|e| e.experiment.name.as_str()).collect();
    let mut loaded = Loaded::default();
    let asked = args.page.report.is_some() || args.figures.of_runs(Some("published"));
    if let ([one], true) = (entries, asked) {
        let e = &one.experiment;
        let arm = |k: &String| e.resolve(k, &e.platforms[0], &Overrides::new()).map_err(Error::Usage);
        loaded.specs = e.kernels.iter().take(2).map(|k| one.spec(&arm(k)?)).collect::<Result<_, _>>()?;
    }
    let sides = report::sides(&loaded.specs)?;
    // One that the experiment defines has its own name.
    let draw = |stem: &str| match drawn.iter().find(|p| p.name == stem) {
        Some(plot) => Ok(plot.svg.clone()),
        None => published(&names.join(", "), &repro.results),
    };
    args.figures.write(&sides, Some(("published", &draw)))?;
    let Some(path) = &args.page.report else { return Ok(()) };
    let mut page = Report::new("repro", format!("Published beside simulated: {}", names.join(", ")));
    page.question = match entries {
        [one] => one.experiment.question.clone(),
        _ => "What do published experiments become in the simulator?".into(),
    };
    page.answer = vec![verdict(repro).trim_end().to_string()];
    page.answer.extend(entries.iter().map(|e| format!("{}: source: {}", e.experiment.name, e.experiment.source)));
    page.repro = Some(serde_json::to_value(repro).expect("results are string-keyed"));
    if let [one] = entries {
        report::add_sides(&mut page, &sides, &loaded)?;
        page.inputs = report::inputs_of(&loaded, one.experiment.seeds);
        page.trust = report::trust(&loaded.specs[0].platform);
    }
    report::write(path, page, sides)
}

fn simulate(entry: &Entry) -> Result<(Plan, Results), Error> {
    let plan = entry.experiment.plan();
    let bar = output::bar((plan.arms.len() * plan.seeds.len()) as u64, "simulating");
    let results = entry.run(&plan, &output::step(&bar))?;
    bar.finish_and_clear();
    Ok((plan, results))
}

/// One experiment: what was run, published beside simulated, how far to trust it.
fn page(entry: &Entry, plan: &Plan, rows: &[ResultRow], results: &Results) -> Result<String, Error> {
    let spec = entry.spec(&plan.arms[0])?;
    let e = &entry.experiment;
    let mut out = format!(
        "{}: platforms {}; kernels {}; {} s; seeds 1 to {}; {} runs\n\n",
        e.name,
        e.platforms.join(", "),
        e.kernels.join(", "),
        wattif_lab::table::cell(spec.duration.as_s_f64()),
        plan.seeds.len(),
        plan.arms.len() * plan.seeds.len(),
    );
    out += &e.to_text(rows, results);
    for name in &e.platforms {
        let platform = load::platform(name, &Default::default())?.value;
        out += &text::trust_section(name, &platform);
    }
    out.push('\n');
    Ok(out)
}

fn verdict(repro: &Repro) -> String {
    let demand = || repro.results.iter().filter(|r| !r.is_statement());
    let missed: Vec<&str> = demand().filter(|r| !r.ok).map(|r| r.id.as_str()).collect();
    let unjudged = demand().filter(|r| r.ok && !r.judged).count();
    let of = demand().count();
    let hold = of - missed.len() - unjudged;
    let not =
        if unjudged > 0 { format!("; {unjudged} not judged: too few seeds for intervals") } else { String::new() };
    match (repro.ok(), missed.is_empty()) {
        (true, _) => format!("{hold} of {of} rows hold{not}\n"),
        (false, false) => format!("{hold} of {of} rows hold; missed: {}{not}\n", missed.join(", ")),
        (false, true) => format!("{of} rows within tolerance; a counter-test fails{not}\n"),
    }
}
