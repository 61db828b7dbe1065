//! `wattif sweep WORKLOAD --axis name=values…`.

use super::inputs::whole;
use super::plots::{NO_SINGLE, PlotArg};
use super::report::{self, ReportArg};
use super::swept::Swept;
use super::{Exit, output};
use crate::error::{Error, Findings, Look, printable};
use crate::new_file::{alone_on_stdout, is_stdout};
use crate::report::Report;
use crate::run::all_unfinished;
use crate::sweep::{Figure, Row, Store, Sweep, Table as Found, run_local};
use crate::{tables, text};
use clap::ValueEnum;
use std::path::PathBuf;
use wattif_lab::metrics;
use wattif_lab::report::{Swept as Point, swept};
use wattif_lab::stats::FEWEST;
use wattif_lab::sweep::Sampling;
use wattif_lab::table::{Align, Table, cell, interval};
use wattif_model::check::Severity;

/// Try many settings: every combination, or a sample of them.
///
/// Each finished run is kept in a store, by the hash of its spec and the version of the model: a sweep that was killed goes on
/// where it was, one that is repeated costs nothing, and several processes may work on the same store.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  wattif sweep app.json --axis kernel=linux-5.3,linux-5.6 --axis cpuidle=menu,teo
  wattif sweep app.json --axis schedutil.rate_limit_us=500..4000/8 --pareto energy.total,wakeup_latency_us.p99
  wattif sweep server --axis platform.hz=100..1000 --axis cpuidle=menu,teo --sample lhs --samples 40
  wattif sweep server --axis workload.load_pct=30,50,70 --seeds 5 --json
  wattif sweep app.json --axis cpuidle=menu,teo --pareto energy.total,wakeup_latency_us.p99 --plot sweep.svg")]
pub struct Args {
    #[command(flatten)]
    swept: Swept,
    /// Seeds of every point.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole(1..=100_000))]
    seeds: u64,
    /// How points are chosen.
    #[arg(long, value_enum, value_name = "HOW", default_value = "grid")]
    sample: Sample,
    /// So many, of a sample.
    #[arg(long, value_name = "N", default_value_t = 100)]
    samples: usize,
    /// Metric to show; repeatable. Energy and latency by default.
    #[arg(long, value_name = "METRIC", default_values = ["energy.total", "wakeup_latency_us.mean", "wakeup_latency_us.p99"])]
    metric: Vec<String>,
    /// Mark the points that no other beats in both of two metrics.
    #[arg(long, value_name = "METRIC,METRIC")]
    pareto: Option<String>,
    /// Also write it as an Arrow table (IPC file), a row per point; - is standard output, with nothing else on it.
    #[arg(long, value_name = "FILE")]
    arrow: Option<PathBuf>,
    /// Print one JSON object (wattif.sweep/1).
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    plots: PlotArg,
    #[command(flatten)]
    page: ReportArg,
}

/// How points are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Sample {
    /// Every combination.
    Grid,
    /// Each value drawn by itself.
    Random,
    /// A Latin hypercube: each slice of each axis once.
    Lhs,
}

impl Args {
    fn sampling(&self) -> Sampling {
        match self.sample {
            Sample::Grid => Sampling::Grid,
            Sample::Random => Sampling::Random(self.samples),
            Sample::Lhs => Sampling::LatinHypercube(self.samples),
        }
    }
}

pub fn run(args: &Args, look: Look) -> Result<Exit, Error> {
    let written = args.swept.files().each_written("--arrow", &args.arrow);
    args.page.files(args.plots.files(written)).check()?;
    alone_on_stdout(args.arrow.as_deref(), &[("--json", args.json)])?;
    let front = args.pareto.as_deref().map(pair).transpose()?;
    let mut shown = args.metric.clone();
    for name in front.iter().flatten() {
        if !shown.contains(name) {
            shown.push(name.clone());
        }
    }
    Error::unless_metrics(&shown)?;
    let across = across(args, front.as_ref());
    args.plots.check(Some("sweep"), |figure| match figure {
        "sweep" => across.is_none().then_some(TWO_METRICS),
        _ => Some(NO_SINGLE),
    })?;
    let plan = args.swept.question(args.sampling(), args.seeds)?.plan()?;
    front.as_ref().map_or(Ok(()), |front| plan.check_front(front))?;
    for findings in plan.findings.iter().filter(|f| !f.diagnostics.is_empty()) {
        output::note(&findings.render(look, Severity::Note));
    }
    let store = Store::open(&args.swept.store)?;
    let missing = plan.missing(&store)?;
    let all = plan.points.len() * plan.seeds.len();
    let bar = output::bar(missing.len() as u64, "simulating");
    run_local(&missing, &store, &output::step(&bar))?;
    bar.finish_and_clear();
    let table = plan.table(&store, &shown, front.as_ref())?;
    output::note(&format!(
        "{} × {}: {} runs made, {} in {}",
        counted(plan.points.len(), "point"),
        counted(plan.seeds.len(), "seed"),
        missing.len().min(all),
        if missing.len() < all { "the others were" } else { "now" },
        args.swept.store.display()
    ));
    for name in shown.iter().filter(|name| table.points.iter().all(|p| p.metrics[*name].mean.is_none())) {
        output::note(&format!("note: no run has a figure `{name}`"));
    }
    let cut = unfinished(&plan, &table);
    if let Some(path) = &args.arrow {
        tables::write(path, &tables::sweep(&table))?;
    }
    match args.json {
        _ if args.arrow.as_deref().is_some_and(is_stdout) => {}
        true => output::json(&table)?,
        false => output::page(&page(&plan, &table, &shown, front.is_some(), cut.as_ref()))?,
    }
    output::note(&printable(&text::deadlock_warnings(&deadlocks(&table))));
    if let Some(cut) = &cut {
        output::note(&cut.render(look, Severity::Note));
    }
    args.plots.write(&[], Some(("sweep", &|_| drawing(args, &table, across.as_ref()))))?;
    if let Some(path) = &args.page.report {
        let mut page = picture(args, &table);
        page.sweep_across = across.map(Vec::from).unwrap_or_default();
        page.notes.extend(cut.iter().flat_map(Findings::messages));
        report::write(path, page, Vec::new())?;
    }
    Ok(Exit::Done)
}

/// The two metrics of the drawing: those of the front, or the first two that are shown.
fn across(args: &Args, front: Option<&[String; 2]>) -> Option<[String; 2]> {
    let first = || args.metric.first_chunk::<2>().cloned();
    front.cloned().or_else(first)
}

const TWO_METRICS: &str = "it stands between two metrics: --metric A --metric B";

/// Every point between two metrics.
fn drawing(args: &Args, found: &Found, across: Option<&[String; 2]>) -> Result<String, String> {
    let Some([x, y]) = across else { return Err(TWO_METRICS.into()) };
    let of = |row: &Row, name: &String| {
        row.metrics.get(name).map_or((f64::NAN, None), |f| (f.mean.unwrap_or(f64::NAN), f.ci95))
    };
    let value = |row: &Row, axis: &String| {
        let value = row.axes[axis].clone();
        if value.parse::<f64>().is_ok() {
            format!("{}={value}", axis.rsplit('.').next().unwrap_or(axis))
        } else {
            value
        }
    };
    let point = |row: &Row| Point {
        group: found.axes.first().map_or(String::new(), |a| value(row, a)),
        label: found.axes.iter().skip(1).map(|a| value(row, a)).collect::<Vec<_>>().join(" "),
        at: [of(row, x), of(row, y)],
        front: row.front,
    };
    let points: Vec<Point> = found.points.iter().map(point).collect();
    let short = |axis: &String| axis.rsplit('.').next().unwrap_or(axis).to_string();
    let axes: Vec<String> = found.axes.iter().map(short).collect();
    let unknown = points.iter().filter(|p| !p.known()).count();
    if unknown > 0 {
        output::note(&format!("note: {unknown} of {} are not drawn: no figure", counted(points.len(), "point")));
    }
    let metrics = [x, y].map(|name| (name.as_str(), found.units[name].as_str()));
    swept(&format!("{} by {}", args.swept.workload, axes.join(", ")), metrics, &points)
}

/// The page: every point, and which are the best.
fn picture(args: &Args, found: &Found) -> Report {
    let mut page = Report::new("sweep", format!("{} by {}", args.swept.workload, found.axes.join(", ")));
    page.question = format!("What do {} do to {}?", found.axes.join(" and "), args.swept.workload);
    for name in &args.metric {
        let better = metrics::better(name);
        let value = |r: &&Row| r.metrics.get(name).and_then(|f| f.mean).map_or(f64::INFINITY, |m| better.as_low(m));
        let Some(best) = found.points.iter().min_by(|a, b| value(a).total_cmp(&value(b))) else { continue };
        let Some(mean) = best.metrics.get(name).and_then(|f| f.mean) else { continue };
        let at: Vec<String> = found.axes.iter().map(|a| format!("{a}={}", best.axes[a])).collect();
        page.answer.push(format!("{name} is best at {}: {}.", at.join(", "), cell(mean)));
    }
    page.sweep = Some(serde_json::to_value(found).expect("points are string-keyed"));
    page.inputs = crate::report::Inputs {
        platform: args.swept.platform.clone(),
        kernels: vec![args.swept.kernel.clone()],
        workload: args.swept.workload.clone(),
        dialect: args.swept.dialect.name(),
        set: args.swept.set.clone(),
        seed: args.swept.seed.to_string(),
        seeds: args.seeds,
        duration_s: args.swept.duration.map_or(1.0, |ns| ns as f64 / 1e9),
        workload_text: None,
    };
    page
}

fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn pair(text: &str) -> Result<[String; 2], Error> {
    let (a, b) = text.split_once(',').ok_or_else(|| {
        Error::Usage(format!("--pareto {text}: write two metrics, such as energy.total,wakeup_latency_us.p99"))
    })?;
    Ok([a.trim().to_string(), b.trim().to_string()])
}

/// A point by its values.
fn name(found: &Found, row: &Row) -> String {
    found.axes.iter().map(|a| format!("{a}={}", row.axes[a])).collect::<Vec<_>>().join(" ")
}

/// Points at which threads wait for ever.
fn deadlocks(found: &Found) -> String {
    text::deadlocks(found.points.iter().map(|row| (name(found, row), row.deadlock.as_ref())), found.seeds.len())
}

/// Points whose runs were cut off.
fn unfinished(plan: &Sweep, found: &Found) -> Option<Findings> {
    let of = found.points.iter().zip(&plan.specs).map(|(row, spec)| (name(found, row), row.unfinished, spec.duration));
    all_unfinished(&plan.specs[0].workload, of, found.seeds.len())
}

fn page(plan: &Sweep, found: &Found, metrics: &[String], front: bool, cut: Option<&Findings>) -> String {
    let left = found.axes.iter().map(|name| (name.clone(), Align::Left));
    let named = |m: &String| match found.units[m].as_str() {
        "" => m.clone(),
        unit => format!("{m} [{unit}]"),
    };
    let right = metrics.iter().flat_map(|m| [(named(m), Align::Right), ("95 % interval".to_string(), Align::Right)]);
    let mut table = Table::new(left.chain(right).chain([(String::new(), Align::Left)]));
    for row in &found.points {
        table.row(cells(found, row, metrics));
    }
    let mut out = format!("{}\n{}", plan.used(), table.to_text());
    if front {
        out += "\nfront: no other point is better in both metrics\n";
    }
    if (2..FEWEST).contains(&found.seeds.len()) {
        out += &format!("\n{} seeds are too few for an interval: use --seeds {FEWEST} or more\n", found.seeds.len());
    }
    let cut = cut.map_or(String::new(), text::unfinished_section);
    out + &text::deadlock_section(&deadlocks(found)) + &cut + &plan.trust()
}

fn cells(found: &Found, row: &Row, metrics: &[String]) -> Vec<String> {
    let mut cells: Vec<String> = found.axes.iter().map(|name| row.axes[name].clone()).collect();
    for name in metrics {
        let Figure { mean, ci95 } = row.metrics[name];
        cells.extend([cell(mean.unwrap_or(f64::NAN)), interval(ci95)]);
    }
    cells.push(if row.front { "front".into() } else { String::new() });
    cells
}
