//! The report's figures as SVG files, for the command line, the gallery and other pages.

use super::{Figures, FrameFigure, IdleStateFigure, Timeline, lanes};
use crate::compare::Comparison;
use crate::experiment::ResultRow;
use crate::metrics::{DomainReport, RunReport};
use crate::plot::{self, Axis, BarSeries, Chart, Layer, Paint, Point, Series, Spread, Stack};
use wattif_model::platform::{Platform, PowerUnit};

/// Names of the figures that any run has, or says why not.
pub const FIGURES: [&str; 6] = ["latency", "frames", "energy", "frequency", "idle", "timeline"];
/// Curves and marks of one drawing, at most: there are so many colours.
const MOST: usize = 7;

/// A run that is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// Name of its kernel.
    pub kernel: &'a str,
    /// Its metrics.
    pub report: &'a RunReport,
    /// Its figures.
    pub figures: &'a Figures,
    /// Who ran where.
    pub timeline: &'a Timeline,
}

/// A figure of these runs; `title` says of what. `Err`: why there is nothing to draw.
pub fn draw(figure: &str, title: &str, runs: &[Shown<'_>]) -> Result<String, String> {
    match figure {
        "latency" => latency(title, runs),
        "frames" => frames(title, runs),
        "energy" => energy(title, runs),
        "frequency" => frequency(title, runs),
        "idle" => idle(title, runs),
        "timeline" => lanes::draw(title, runs),
        other => Err(format!("there is no figure `{other}`; there are {}", FIGURES.join(", "))),
    }
}

/// Why a figure has nothing to draw whatever comes out of the runs: of `kernels` on this platform, with or without marks.
pub fn never(figure: &str, platform: &Platform, marks: bool, kernels: usize) -> Option<&'static str> {
    match figure {
        "energy" if platform.power.unit == PowerUnit::Unknown => Some(NO_POWERS),
        "frames" if !marks => Some(NO_MARKS),
        "ratios" if kernels < 2 => Some(ONE_KERNEL),
        _ => None,
    }
}

const NO_POWERS: &str = "the platform's powers are not known, so there is no energy";
const NO_MARKS: &str = "the workload marks no frames, requests or stages";
const ONE_KERNEL: &str = "there is one kernel, and nothing to compare it with";

fn chart(title: &str, what: &str, desc: &str, x: &str, y: &str) -> Chart {
    Chart { title: format!("{title}: {what}"), desc: desc.into(), x: Axis::new(x), y: Axis::new(y) }
}

/// One run: a curve per task. Several: a curve per kernel.
fn latency(title: &str, runs: &[Shown<'_>]) -> Result<String, String> {
    let mut curves: Vec<(String, Vec<(f64, f64)>)> = match runs {
        [one] => one.figures.latency.iter().map(|c| (c.task.clone(), c.points.clone())).collect(),
        _ => runs.iter().map(|r| (r.kernel.to_string(), r.figures.latency_all.clone())).collect(),
    };
    if curves.iter().all(|c| c.1.is_empty()) {
        return Err("no thread of the workload was ever woken".into());
    }
    let what = match curves.len() {
        all if all > MOST => format!("wake-up latency ({MOST} of {all})"),
        _ => "wake-up latency".into(),
    };
    curves.truncate(MOST);
    let desc = "Share of wake-ups not above a latency; each decade of the tail is as high as the one before.";
    let mut chart = chart(title, &what, desc, "waking to running, µs", "share of wake-ups");
    (chart.x.spread, chart.y.spread) = (Spread::Log, Spread::Tail);
    Ok(plot::cdf(&chart, &curves))
}

fn frames(title: &str, runs: &[Shown<'_>]) -> Result<String, String> {
    let all: Vec<(&str, &FrameFigure)> =
        runs.iter().flat_map(|r| r.figures.frames.iter().map(|f| (r.kernel, f))).collect();
    if all.is_empty() {
        let marks: Vec<&String> = runs.iter().take(1).flat_map(|r| r.report.metrics.frames.keys()).collect();
        return Err(untimed(&marks));
    }
    let desc = "How long each took, the longest where there are too many to draw; lines are deadlines.";
    let chart = chart(title, "frames", desc, "end, s", "ms");
    let most = (DOTS / all.len()).max(1);
    let point = |&(x, y): &(f64, f64)| Point { x, y, ..Point::default() };
    let mut series: Vec<Series> = all
        .iter()
        .map(|(kernel, f)| Series {
            name: format!("{} {kernel}", f.mark),
            points: f.points.chunks(f.points.len().div_ceil(most).max(1)).filter_map(longest).map(point).collect(),
            line: false,
            dots: true,
        })
        .collect();
    let end = all.iter().flat_map(|(_, f)| &f.points).fold(0.0, |end: f64, p| end.max(p.0));
    let mut deadlines: Vec<f64> = all.iter().filter_map(|(_, f)| f.deadline_ms).collect();
    deadlines.sort_by(f64::total_cmp);
    deadlines.dedup();
    for ms in deadlines {
        let points = [(0.0, ms), (end, ms)].iter().map(point).collect();
        series.push(Series { name: format!("deadline {ms:.1} ms"), points, line: true, dots: false });
    }
    Ok(plot::scatter(&chart, &series))
}

/// Why there is nothing to time, of a workload with these marks.
fn untimed(marks: &[&String]) -> String {
    match marks {
        [] => NO_MARKS.into(),
        [mark] => format!("no `{mark}` was finished in so short a run"),
        [mark, ..] => format!("no `{mark}` was finished in so short a run, nor any other of {} marks", marks.len()),
    }
}

/// Frames that are drawn, of all runs together.
const DOTS: usize = 800;

fn longest(some: &[(f64, f64)]) -> Option<&(f64, f64)> {
    some.iter().max_by(|a, b| a.1.total_cmp(&b.1))
}

/// A bar per run, a colour per place, stronger at higher frequency; what sleeping costs is hatched.
fn energy(title: &str, runs: &[Shown<'_>]) -> Result<String, String> {
    let unit = runs.iter().find_map(|r| r.figures.energy.as_ref()).map(|e| e.unit.clone());
    let unit = unit.ok_or(NO_POWERS)?;
    let unit = if unit == "relative" { "relative units".into() } else { unit };
    let chart = chart(title, "energy", "By place, operating point and idle state.", &unit, "");
    let rows = || runs.iter().flat_map(|r| r.figures.energy.iter().flat_map(|e| &e.rows));
    let mut places: Vec<&str> = Vec::new();
    let mut keys: Vec<(usize, u32, u32, &str)> = Vec::new();
    for row in rows() {
        let place = places.iter().position(|p| *p == row.place).unwrap_or_else(|| {
            places.push(&row.place);
            places.len() - 1
        });
        let key = (place, row.depth, row.khz, row.level.as_str());
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys.sort_unstable();
    let layers = keys.iter().map(|&(place, depth, khz, level)| {
        let same = |r: &&super::EnergyRow| r.place == places[place] && r.khz == khz && r.level == level;
        let of = |run: &Shown<'_>| run.figures.energy.iter().flat_map(|e| &e.rows).filter(same).map(|r| r.energy).sum();
        let top = rows().filter(|r| r.place == places[place]).map(|r| r.khz).max().unwrap_or(1).max(1);
        let strength = if depth > 0 { 0.5 } else { 0.35 + 0.65 * f64::from(khz) / f64::from(top) };
        let at = if khz > 0 { format!(" at {}", ghz(khz)) } else { String::new() };
        Layer {
            name: format!("{}{at} {level}", places[place]),
            values: runs.iter().map(of).collect(),
            paint: Paint { colour: place, strength, hatched: depth > 0 },
        }
    });
    let mut legend: Vec<(String, Paint)> = plot::numbered(places.iter().copied());
    legend.push(("hatched: idle".into(), Paint { colour: GREY, strength: 0.5, hatched: true }));
    let categories = runs.iter().map(|r| r.kernel.to_string()).collect();
    Ok(plot::stacked(&chart, &Stack { categories, layers: layers.collect(), legend, ..Stack::default() }))
}

/// The last of the colours.
const GREY: usize = 6;

fn ghz(khz: u32) -> String {
    format!("{:.3} GHz", f64::from(khz) / 1e6)
}

/// A bar per domain and kernel, domains together; layers are frequencies, pale to strong.
fn frequency(title: &str, runs: &[Shown<'_>]) -> Result<String, String> {
    let domains = runs.iter().map(|r| r.report.domains.len()).max().unwrap_or(0);
    let of = |i: usize| runs.iter().filter_map(move |r| Some((r.kernel, i, r.report.domains.get(i)?)));
    let bars: Vec<(&str, usize, &DomainReport)> = (0..domains).flat_map(of).collect();
    let mut keys: Vec<(usize, u32)> =
        bars.iter().flat_map(|(_, i, d)| d.freq_residency.iter().map(|f| (*i, f.khz))).collect();
    keys.sort_unstable();
    keys.dedup();
    if keys.is_empty() {
        return Err("nothing is known of the frequencies".into());
    }
    let share = |d: &DomainReport, khz: u32| {
        let total: f64 = d.freq_residency.iter().map(|f| f.s).sum();
        let s: f64 = d.freq_residency.iter().filter(|f| f.khz == khz).map(|f| f.s).sum();
        if total > 0.0 { 100.0 * s / total } else { 0.0 }
    };
    let layer = |&(domain, khz): &(usize, u32)| {
        let top = keys.iter().filter(|k| k.0 == domain).map(|k| k.1).max().unwrap_or(1).max(1);
        Layer {
            name: ghz(khz),
            values: bars.iter().map(|(_, i, d)| if *i == domain { share(d, khz) } else { 0.0 }).collect(),
            paint: Paint {
                colour: domain,
                strength: 0.12 + 0.88 * (f64::from(khz) / f64::from(top)).powi(2),
                hatched: false,
            },
        }
    };
    let desc = "Share of time at each frequency, pale to strong from lowest to highest.";
    let chart = chart(title, "frequency", desc, "% of time; pale to strong: lowest to highest frequency", "");
    let categories = bars.iter().map(|(kernel, _, d)| format!("cpu{} {kernel}", d.cpus)).collect();
    Ok(plot::stacked(&chart, &Stack { categories, layers: keys.iter().map(layer).collect(), ..Stack::default() }))
}

/// How sleeps were chosen: name, look, how many of a state.
type Kind = (&'static str, Paint, fn(&IdleStateFigure) -> u64);

/// A bar per state and kernel, states together, with what an oracle would have chosen.
fn idle(title: &str, runs: &[Shown<'_>]) -> Result<String, String> {
    let mut rows: Vec<(&str, &IdleStateFigure)> =
        runs.iter().flat_map(|r| r.figures.idle.iter().map(move |s| (r.kernel, s))).collect();
    rows.retain(|(_, s)| s.usage > 0 || s.oracle.is_some_and(|o| o > 0));
    if rows.is_empty() {
        return Err("no CPU slept".into());
    }
    rows.sort_by_key(|(_, s)| s.state);
    let desc = "Sleeps by how well their state was chosen; diamonds: as an oracle would have chosen.";
    let label = match rows.iter().any(|(_, s)| s.oracle.is_some()) {
        true => "sleeps; diamond: those that an oracle would put in this state",
        false => "sleeps",
    };
    let chart = chart(title, "idle states", desc, label, "");
    let kinds: [Kind; 3] = [
        ("right", Paint { colour: 2, strength: 1.0, hatched: false }, |s| s.correct),
        ("too deep", Paint { colour: 1, strength: 1.0, hatched: true }, |s| s.above),
        ("too shallow", Paint { colour: 4, strength: 1.0, hatched: false }, |s| s.below),
    ];
    let layer = |&(name, paint, of): &Kind| Layer {
        name: name.into(),
        values: rows.iter().map(|(_, s)| of(s) as f64).collect(),
        paint,
    };
    Ok(plot::stacked(
        &chart,
        &Stack {
            categories: rows.iter().map(|(kernel, s)| format!("{} {kernel}", s.name)).collect(),
            layers: kinds.iter().map(layer).collect(),
            marks: rows.iter().map(|(_, s)| s.oracle.map(|o| o as f64)).collect(),
            mark: "oracle".into(),
            legend: kinds.iter().map(|k| (k.0.to_string(), k.1)).collect(),
        },
    ))
}

/// The ratios of a comparison to its first kernel.
pub fn ratios(title: &str, comparison: &Comparison) -> Result<String, String> {
    let known = |m: &&crate::compare::MetricRow| m.ratio_to_first.iter().skip(1).any(|r| r.value.is_some());
    let rows: Vec<_> = comparison.metrics.iter().filter(known).collect();
    let (Some(first), 2..) = (comparison.kernels.first(), comparison.kernels.len()) else {
        return Err(ONE_KERNEL.into());
    };
    let chart = Chart {
        title: format!("{title}: ratio to {first}"),
        desc: format!("Mean over {} paired seeds with 95 % intervals, per metric and kernel.", comparison.seeds),
        x: Axis::log(&format!("ratio to {first}")),
        ..Chart::default()
    };
    let of = |k: usize| -> BarSeries {
        let ratio =
            |m: &&crate::compare::MetricRow| (m.ratio_to_first[k].value.unwrap_or(f64::NAN), m.ratio_to_first[k].ci95);
        (comparison.kernels[k].clone(), rows.iter().map(ratio).collect())
    };
    let categories: Vec<String> = rows.iter().map(|m| m.name.clone()).collect();
    Ok(plot::forest(&chart, &categories, &(1..comparison.kernels.len()).map(of).collect::<Vec<_>>()))
}

/// Simulated by published, for every arm that was published.
pub fn published(title: &str, results: &[ResultRow]) -> Result<String, String> {
    let mut categories = Vec::new();
    let mut points = Vec::new();
    for (row, arm) in results.iter().flat_map(|r| r.arms.iter().map(move |a| (r, a))) {
        if let (Some(published), Some(simulated)) = (arm.published.filter(|p| *p > 0.0), arm.simulated) {
            categories.push(format!("{} {}", row.id, arm.kernel));
            points.push((simulated / published, arm.ci95.map(|ci| ci.map(|end| end / published))));
        }
    }
    if categories.is_empty() {
        return Err("nothing was published of these rows".into());
    }
    let chart = Chart {
        title: format!("{title}: simulated by published"),
        desc: "A point per row and arm, with the 95 % interval over seeds; 1 is as published.".into(),
        x: Axis::log("simulated ÷ published"),
        ..Chart::default()
    };
    Ok(plot::forest(&chart, &categories, &[(String::new(), points)]))
}

/// A point of a sweep.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Swept {
    /// Value of the first axis: points of the same have one colour.
    pub group: String,
    /// Values of the others.
    pub label: String,
    /// Of the two metrics, with their intervals.
    pub at: [(f64, Option<[f64; 2]>); 2],
    /// No other point is better in both.
    pub front: bool,
}

impl Swept {
    /// It has a value of both metrics; others are not drawn.
    pub fn known(&self) -> bool {
        self.at.iter().all(|(value, _)| value.is_finite())
    }
}

/// Two metrics of every point of a sweep, with their units (empty: none), and its front where one was asked for.
pub fn swept(title: &str, metrics: [(&str, &str); 2], points: &[Swept]) -> Result<String, String> {
    let axis = |i: usize| {
        let values = points.iter().map(|p| p.at[i].0).filter(|v| v.is_finite());
        let (least, most) = values.fold((f64::MAX, f64::MIN), |(lo, hi), v| (lo.min(v), hi.max(v)));
        let label = match metrics[i] {
            (name, "") => name.to_string(),
            (name, unit) => format!("{name}, {unit}"),
        };
        if least > 0.0 && most > 20.0 * least { Axis::log(&label) } else { Axis::new(&label) }
    };
    let unknown = points.iter().filter(|p| !p.known()).count();
    let without = if unknown > 0 { format!(" {unknown} of {} have no value.", points.len()) } else { String::new() };
    let desc = format!(
        "A point per setting, means with 95 % intervals over seeds; the line joins those that no other beats in both.{without}"
    );
    let (x, y) = (axis(0), axis(1));
    let chart = Chart { title: title.into(), desc, x, y };
    let mut groups: Vec<&str> = points.iter().map(|p| p.group.as_str()).collect();
    groups.sort_unstable();
    groups.dedup();
    // With more values than colours, all are of one, and say in full what they are.
    let by_group = groups.len() <= MOST && points.iter().any(|p| !p.label.is_empty());
    let of = |name: &str, label: &dyn Fn(&Swept) -> String| -> Series {
        let point = |p: &Swept| Point { x: p.at[0].0, y: p.at[1].0, x_ci: p.at[0].1, y_ci: p.at[1].1, label: label(p) };
        let mine = points.iter().filter(|p| !by_group || p.group == name);
        Series { name: name.into(), points: mine.map(point).collect(), line: false, dots: true }
    };
    let mut series: Vec<Series> = match by_group {
        true => groups.iter().map(|g| of(g, &|p| p.label.clone())).collect(),
        false => vec![of("", &|p| format!("{} {}", p.group, p.label).trim().to_string())],
    };
    let mut front: Vec<Point> =
        points.iter().filter(|p| p.front).map(|p| Point { x: p.at[0].0, y: p.at[1].0, ..Point::default() }).collect();
    front.sort_by(|a, b| a.x.total_cmp(&b.x));
    if !front.is_empty() {
        series.push(Series { name: "Pareto front".into(), points: front, line: true, dots: false });
    }
    Ok(plot::scatter(&chart, &series))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_names_its_units_and_says_what_is_missing() {
        let point = |x| Swept { at: [(x, None), (1.0, None)], ..Swept::default() };
        let svg =
            swept("t", [("energy.total", "relative"), ("migrations", "")], &[point(1.0), point(f64::NAN)]).unwrap();
        assert!(svg.contains(">energy.total, relative<") && svg.contains(">migrations<"), "{svg}");
        assert!(svg.contains("1 of 2 have no value"), "{svg}");
    }

    #[test]
    fn a_mark_that_was_not_reached_is_not_one_that_is_not_there() {
        let why = |marks: &[&str]| {
            let marks: Vec<String> = marks.iter().map(|m| m.to_string()).collect();
            untimed(&marks.iter().collect::<Vec<_>>())
        };
        assert_eq!(why(&[]), NO_MARKS);
        assert_eq!(why(&["part"]), "no `part` was finished in so short a run");
        assert!(why(&["part", "ux"]).ends_with("nor any other of 2 marks"));
    }
}
