//! The report's figures as SVG files, for the command line, the gallery and other pages.

use super::{Figures, FrameFigure};
use crate::metrics::RunReport;
use crate::plot::{self, Axis, Chart, Palette, Point, Series};

/// Names of the figures.
pub const FIGURES: [&str; 5] = ["latency", "frames", "energy", "frequency", "idle"];

/// A run that is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// Name of its kernel.
    pub kernel: &'a str,
    /// Its metrics.
    pub report: &'a RunReport,
    /// Its figures.
    pub figures: &'a Figures,
}

/// A figure of these runs; `title` says of what. `Err`: why there is nothing to draw.
pub fn draw(figure: &str, title: &str, runs: &[Shown<'_>]) -> Result<String, String> {
    match figure {
        "latency" => Ok(latency(title, runs)),
        "frames" => frames(title, runs),
        "energy" => energy(title, runs),
        "frequency" => Ok(frequency(title, runs)),
        "idle" => idle(title, runs),
        other => Err(format!("there is no figure `{other}`; there are {}", FIGURES.join(", "))),
    }
}

fn chart(title: &str, what: &str, desc: &str, x: &str, y: &str) -> Chart {
    let axis = |label: &str| Axis { label: label.into(), log: false };
    Chart { title: format!("{title}: {what}"), desc: desc.into(), x: axis(x), y: axis(y) }
}

/// One run: a curve per task. Several: a curve per kernel.
fn latency(title: &str, runs: &[Shown<'_>]) -> String {
    let mut chart = chart(
        title,
        "wake-up latency",
        "Share of wake-ups not above a latency.",
        "waking to running, µs",
        "share of wake-ups",
    );
    chart.x.log = true;
    let curves: Vec<(String, Vec<(f64, f64)>)> = match runs {
        [one] => one.figures.latency.iter().map(|c| (c.task.clone(), c.points.clone())).collect(),
        _ => runs.iter().map(|r| (r.kernel.to_string(), r.figures.latency_all.clone())).collect(),
    };
    plot::cdf(&chart, &curves)
}

fn frames(title: &str, runs: &[Shown<'_>]) -> Result<String, String> {
    let all: Vec<(&str, &FrameFigure)> =
        runs.iter().flat_map(|r| r.figures.frames.iter().map(|f| (r.kernel, f))).collect();
    if all.is_empty() {
        return Err("the workload marks no frames, requests or stages".into());
    }
    let chart = chart(title, "frames", "How long each took; lines are deadlines.", "end, s", "ms");
    let point = |&(x, y): &(f64, f64)| Point { x, y, ..Point::default() };
    let mut series: Vec<Series> = all
        .iter()
        .map(|(kernel, f)| Series {
            name: format!("{} {kernel}", f.mark),
            points: f.points.iter().map(point).collect(),
            line: false,
            dots: true,
        })
        .collect();
    let end = all.iter().flat_map(|(_, f)| &f.points).fold(0.0, |end: f64, p| end.max(p.0));
    let mut deadlines: Vec<f64> = all.iter().filter_map(|(_, f)| f.deadline_ms).collect();
    deadlines.dedup();
    for ms in deadlines {
        let points = [(0.0, ms), (end, ms)].iter().map(point).collect();
        series.push(Series { name: format!("deadline {ms:.1} ms"), points, line: true, dots: false });
    }
    Ok(plot::scatter(&chart, &series))
}

/// Layers: busy and each idle state of each place, all operating points together.
fn energy(title: &str, runs: &[Shown<'_>]) -> Result<String, String> {
    let unit = runs.iter().find_map(|r| r.figures.energy.as_ref()).map(|e| e.unit.clone());
    let unit = unit.ok_or("the platform's powers are not known, so there is no energy")?;
    let chart = chart(title, "energy", "By place and level.", &unit, "");
    let rows = || runs.iter().flat_map(|r| r.figures.energy.iter().flat_map(|e| &e.rows));
    let mut keys: Vec<(String, String)> = Vec::new();
    for row in rows() {
        let key = (row.place.clone(), row.level.clone());
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys.sort_by_key(|(place, _)| rows().position(|r| r.place == *place));
    let sum = |run: &Shown<'_>, key: &(String, String)| {
        let of = run.figures.energy.iter().flat_map(|e| &e.rows);
        of.filter(|r| r.place == key.0 && r.level == key.1).map(|r| r.energy).sum()
    };
    let layer = |key: &(String, String)| {
        (format!("{} {}", key.0, key.1), runs.iter().map(|r| sum(r, key)).collect::<Vec<f64>>())
    };
    let mut layers: Vec<_> = keys.iter().map(layer).collect();
    layers.retain(|(_, values)| values.iter().any(|v| *v > 0.0));
    let kernels: Vec<String> = runs.iter().map(|r| r.kernel.to_string()).collect();
    Ok(plot::stacked(&chart, &kernels, &layers, Palette::Distinct))
}

/// A bar per domain and kernel; layers are frequencies, pale to strong.
fn frequency(title: &str, runs: &[Shown<'_>]) -> String {
    let chart = chart(title, "frequency residency", "Share of time at each frequency.", "% of time awake", "");
    let mut all: Vec<u32> = domains(runs).flat_map(|(_, d)| d.freq_residency.iter().map(|f| f.khz)).collect();
    all.sort_unstable();
    all.dedup();
    let names: Vec<String> = domains(runs).map(|(kernel, d)| format!("cpu{} {kernel}", d.cpus)).collect();
    let share = |d: &crate::metrics::DomainReport, khz: u32| {
        let total: f64 = d.freq_residency.iter().map(|f| f.s).sum();
        let s: f64 = d.freq_residency.iter().filter(|f| f.khz == khz).map(|f| f.s).sum();
        if total > 0.0 { 100.0 * s / total } else { 0.0 }
    };
    let layers: Vec<(String, Vec<f64>)> = all
        .iter()
        .map(|&khz| (format!("{:.3} GHz", f64::from(khz) / 1e6), domains(runs).map(|(_, d)| share(d, khz)).collect()))
        .collect();
    plot::stacked(&chart, &names, &layers, Palette::Shades)
}

fn domains<'a>(runs: &'a [Shown<'a>]) -> impl Iterator<Item = (&'a str, &'a crate::metrics::DomainReport)> {
    runs.iter().flat_map(|r| r.report.domains.iter().map(|d| (r.kernel, d)))
}

fn idle(title: &str, runs: &[Shown<'_>]) -> Result<String, String> {
    let rows: Vec<_> = runs.iter().flat_map(|r| r.figures.idle.iter().map(move |s| (r.kernel, s))).collect();
    if rows.is_empty() {
        return Err("no CPU slept".into());
    }
    let chart = chart(title, "idle states", "Sleeps by how well their state was chosen.", "sleeps", "");
    let names: Vec<String> = rows.iter().map(|(kernel, s)| format!("{} {kernel}", s.name)).collect();
    let layer = |name: &str, of: fn(&super::IdleStateFigure) -> u64| {
        (name.to_string(), rows.iter().map(|(_, s)| of(s) as f64).collect::<Vec<f64>>())
    };
    let layers = [layer("right", |s| s.correct), layer("too deep", |s| s.above), layer("too shallow", |s| s.below)];
    Ok(plot::stacked(&chart, &names, &layers, Palette::Distinct))
}
