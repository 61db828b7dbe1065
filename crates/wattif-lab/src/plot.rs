//! Small SVG drawings: scatter and lines with error bars, cumulative distributions, bars. They read on light and dark
//! pages alike and carry a title and a description for those who cannot see them.

use crate::table::{number, steers, width};
use std::fmt::Write;

/// Colours that people with any colour vision tell apart (Okabe and Ito), of middle lightness for light and dark pages.
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f"];
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 62.0;
const BOTTOM: f64 = 58.0;

/// How values are spread over an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spread {
    /// Equal steps for equal differences.
    #[default]
    Even,
    /// Equal steps for equal ratios; values of 0 or less are left out.
    Log,
    /// Shares from 0 to 1 with marks at p50, p90, p99, p99.9: each decade of the tail as high as the one before, 1 at the end.
    Tail,
}

impl Spread {
    fn warp(self, value: f64) -> f64 {
        match self {
            Spread::Even => value,
            Spread::Log => value.log10(),
            Spread::Tail => -(1.0 - value).max(0.0).log10(),
        }
    }
}

/// An axis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Axis {
    /// What, and its unit.
    pub label: String,
    /// Where values stand on it.
    pub spread: Spread,
}

impl Axis {
    /// Even, with this label.
    pub fn new(label: &str) -> Axis {
        Axis { label: label.into(), spread: Spread::Even }
    }
    /// Logarithmic, with this label.
    pub fn log(label: &str) -> Axis {
        Axis { label: label.into(), spread: Spread::Log }
    }
}

/// What every drawing has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chart {
    /// Shown above, and the accessible name.
    pub title: String,
    /// What is to be seen, for those who cannot see it.
    pub desc: String,
    /// Horizontal.
    pub x: Axis,
    /// Vertical.
    pub y: Axis,
}

/// A point with the ends of its error bars.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    /// Horizontal value.
    pub x: f64,
    /// Vertical value.
    pub y: f64,
    /// Ends of the horizontal error bar.
    pub x_ci: Option<[f64; 2]>,
    /// Ends of the vertical error bar.
    pub y_ci: Option<[f64; 2]>,
    /// Written beside it; may be empty.
    pub label: String,
}

/// Points of one colour.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// In the legend; a single series without a name has no legend.
    pub name: String,
    /// In order.
    pub points: Vec<Point>,
    /// Connect them.
    pub line: bool,
    /// Draw them.
    pub dots: bool,
}

/// Bars of one colour: a name and, per category, a value with the ends of its error bar.
pub type BarSeries = (String, Vec<(f64, Option<[f64; 2]>)>);

/// Points, with error bars and labels, and lines.
pub fn scatter(chart: &Chart, series: &[Series]) -> String {
    let corners = || series.iter().flat_map(|s| &s.points).flat_map(corners_of);
    let x = Scale::new(corners().map(|c| c.0), chart.x.spread, LEFT, WIDTH - RIGHT, false);
    let y = Scale::new(corners().map(|c| c.1), chart.y.spread, HEIGHT - BOTTOM, TOP, false);
    let mut svg = open(chart, HEIGHT, &numbered(series.iter().map(|s| s.name.as_str())));
    draw_axes(&mut svg, chart, Some(&x), &y);
    for (k, (s, colour)) in series.iter().zip(COLOURS.iter().cycle()).enumerate() {
        // Smaller from series to series: a point hides none of another colour below it.
        let radius = if s.points.len() > 100 { 2.0 } else { (6.0 - k as f64).max(3.0) };
        draw_series(&mut svg, s, colour, radius, &x, &y);
    }
    draw_labels(&mut svg, series, &x, &y);
    svg + "</svg>\n"
}

/// Cumulative distributions: (value, share of values not above), ascending, as steps; with [`Spread::Tail`] their tails are seen.
pub fn cdf(chart: &Chart, curves: &[(String, Vec<(f64, f64)>)]) -> String {
    let series: Vec<Series> = curves.iter().map(|(name, curve)| steps(name, curve)).collect();
    scatter(chart, &series)
}

fn steps(name: &str, curve: &[(f64, f64)]) -> Series {
    let point = |x: f64, y: f64| Point { x, y, ..Point::default() };
    let before = std::iter::once(0.0).chain(curve.iter().map(|c| c.1));
    let points = curve.iter().zip(before).flat_map(|(&(x, share), below)| [point(x, below), point(x, share)]);
    Series { name: name.to_owned(), points: points.collect(), line: true, dots: false }
}

/// Bars from 0, grouped by category.
pub fn bars(chart: &Chart, categories: &[String], series: &[BarSeries]) -> String {
    let tops =
        series.iter().flat_map(|(_, v)| v).flat_map(|(v, ci)| [*v, ci.map_or(*v, |c| c[0]), ci.map_or(*v, |c| c[1])]);
    let y = Scale::new(tops.chain([0.0]), Spread::Even, HEIGHT - BOTTOM, TOP, true);
    let mut svg = open(chart, HEIGHT, &numbered(series.iter().map(|s| s.0.as_str())));
    draw_axes(&mut svg, chart, None, &y);
    let group = (WIDTH - LEFT - RIGHT) / categories.len().max(1) as f64;
    let width = group * 0.8 / series.len().max(1) as f64;
    for (k, (name, values)) in series.iter().enumerate() {
        for (i, (value, ci)) in values.iter().enumerate().take(categories.len()) {
            let left = LEFT + group * (i as f64 + 0.1) + width * k as f64;
            draw_bar(
                &mut svg,
                &y,
                left,
                width,
                *value,
                *ci,
                COLOURS[k % COLOURS.len()],
                &format!("{} {name}", categories[i]),
            );
        }
    }
    for (i, category) in categories.iter().enumerate() {
        text(&mut svg, LEFT + group * (i as f64 + 0.5), HEIGHT - BOTTOM + 18.0, "middle", category);
    }
    svg + "</svg>\n"
}

/// How a layer, or an entry of a legend, is painted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Paint {
    /// Which of the colours.
    pub colour: usize,
    /// 0 to 1, pale to strong.
    pub strength: f64,
    /// Striped.
    pub hatched: bool,
}

/// One layer of all bars of [`stacked`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layer {
    /// What it is.
    pub name: String,
    /// Its value in each category, 0 or more.
    pub values: Vec<f64>,
    /// How it looks.
    pub paint: Paint,
}

/// Bars of layers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stack {
    /// A bar each.
    pub categories: Vec<String>,
    /// From the axis outwards.
    pub layers: Vec<Layer>,
    /// A diamond on each bar, where there is something to compare with; empty: none.
    pub marks: Vec<Option<f64>>,
    /// What the diamonds are.
    pub mark: String,
    /// What colours mean.
    pub legend: Vec<(String, Paint)>,
}

/// Bars of layers beside each other on one axis from 0, one bar per category.
pub fn stacked(chart: &Chart, stack: &Stack) -> String {
    let Stack { categories, layers, marks, mark, legend } = stack;
    let left = room_for(categories, 0.5);
    let step = 34.0;
    let bottom = TOP + step * categories.len().max(1) as f64;
    let value = |i: usize, layer: &Layer| layer.values.get(i).copied().filter(|v| v.is_finite()).unwrap_or(0.0);
    let sum = |i: usize| layers.iter().map(|l| value(i, l)).sum::<f64>();
    let ends = (0..categories.len()).map(sum).chain(marks.iter().flatten().copied());
    let x = Scale::new(ends.chain([0.0]), Spread::Even, left, WIDTH - RIGHT, true);
    let mut svg = open(chart, bottom + BOTTOM, legend);
    draw_rows(&mut svg, chart, &x, bottom, 0.0);
    for (i, category) in categories.iter().enumerate() {
        let top = TOP + step * i as f64 + 5.0;
        text(&mut svg, left - 8.0, top + 16.0, "end", &fitting(category, left));
        let mut from = 0.0;
        for layer in layers {
            let to = from + value(i, layer);
            let name = format!("{category} {}: {}", layer.name, number(to - from, 4));
            if let Some((a, b)) = x.at(from).zip(x.at(to)).filter(|(a, b)| b - a > 0.05) {
                draw_layer(&mut svg, [a, top, b - a, 24.0], layer.paint, &name);
            }
            from = to;
        }
        if let Some(at) = marks.get(i).copied().flatten().and_then(|m| x.at(m)) {
            let name = escape(&format!("{category} {mark}: {}", number(marks[i].unwrap_or(0.0), 4)));
            let _ = writeln!(
                svg,
                r#"<path class="mark" d="M{at:.1} {:.1}l6 6-6 6-6-6z"><title>{name}</title></path>"#,
                top + 6.0
            );
        }
    }
    svg + "</svg>\n"
}

fn draw_layer(svg: &mut String, [x, y, width, height]: [f64; 4], paint: Paint, name: &str) {
    let colour = COLOURS[paint.colour % COLOURS.len()];
    let title = if name.is_empty() { String::new() } else { format!("<title>{}</title>", escape(name)) };
    let _ = writeln!(
        svg,
        r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height}" fill="{colour}" fill-opacity="{:.2}">{title}</rect>"#,
        paint.strength
    );
    if paint.hatched {
        let _ = writeln!(
            svg,
            r##"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height}" fill="url(#h)" pointer-events="none"/>"##
        );
    }
}

/// Width of a letter of a category, generous for most, and what is free beside it.
const LETTER: f64 = 7.2;
const MARGIN: f64 = 24.0;

/// Left of the drawing there is room for its categories, up to a share of the width.
fn room_for(categories: &[String], most: f64) -> f64 {
    let longest = categories.iter().map(|c| width(c)).max().unwrap_or(0);
    (MARGIN + LETTER * longest as f64).clamp(LEFT, WIDTH * most)
}

/// A category that is too long for the room left of the drawing, without its middle: what it begins and ends with tells it apart.
fn fitting(category: &str, left: f64) -> String {
    let most = ((left - MARGIN + 0.5) / LETTER) as usize;
    if width(category) <= most {
        return category.to_string();
    }
    let end = first(category.chars().rev(), most - most / 2 - 1);
    first(category.chars(), most / 2).chars().chain(['…']).chain(end.chars().rev()).collect()
}

/// As many letters as are not wider than `most`.
fn first(letters: impl Iterator<Item = char>, most: usize) -> String {
    let mut taken = String::new();
    for letter in letters {
        taken.push(letter);
        if width(&taken) > most {
            taken.pop();
            break;
        }
    }
    taken
}

/// The axis of values of a drawing whose rows are categories; the line at `origin` stands out.
fn draw_rows(svg: &mut String, chart: &Chart, x: &Scale, bottom: f64, origin: f64) {
    for value in x.ticks() {
        let Some(at) = x.at(value) else { continue };
        line(svg, if value == origin { "axis" } else { "grid" }, [at, TOP, at, bottom]);
        text(svg, at, bottom + 18.0, "middle", &x.label(value));
    }
    line(svg, "axis", [x.from, bottom, x.to, bottom]);
    text(svg, (x.from + x.to) / 2.0, bottom + 44.0, "middle", &chart.x.label);
}

/// Ratios, a line per category and a point per series with its interval, on a logarithmic axis around 1; ratios of 0 or
/// less are left out.
pub fn forest(chart: &Chart, categories: &[String], series: &[BarSeries]) -> String {
    let left = room_for(categories, 0.55);
    let step = 13.0 * series.len().max(1) as f64 + 11.0;
    let bottom = TOP + step * categories.len().max(1) as f64;
    let ends =
        series.iter().flat_map(|(_, v)| v).flat_map(|(v, ci)| [*v, ci.map_or(*v, |c| c[0]), ci.map_or(*v, |c| c[1])]);
    let x = Scale::new(ends.chain([0.9, 1.0, 1.1]), Spread::Log, left, WIDTH - RIGHT, false);
    let mut svg = open(chart, bottom + BOTTOM, &numbered(series.iter().map(|s| s.0.as_str())));
    draw_rows(&mut svg, chart, &x, bottom, 1.0);
    for (i, category) in categories.iter().enumerate() {
        let top = TOP + step * i as f64;
        line(&mut svg, "grid", [left, top, WIDTH - RIGHT, top]);
        text(&mut svg, left - 8.0, top + step / 2.0 + 4.0, "end", &fitting(category, left));
    }
    for (k, ((name, values), colour)) in series.iter().zip(COLOURS.iter().cycle()).enumerate() {
        let _ = writeln!(svg, r#"<g stroke="{colour}" fill="{colour}">"#);
        for (i, (value, ci)) in values.iter().enumerate().take(categories.len()) {
            let at = TOP + step * i as f64 + 12.0 + 13.0 * k as f64;
            draw_ratio(&mut svg, &x, at, *value, *ci, &format!("{} {name}", categories[i]));
        }
        svg.push_str("</g>\n");
    }
    svg + "</svg>\n"
}

/// A stretch of a lane.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Span {
    /// Where it begins on the axis.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
    /// Top within the lane, and height.
    pub place: [f64; 2],
    /// How it looks.
    pub paint: Paint,
    /// What it is.
    pub name: String,
}

/// What lies one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lane {
    /// Beside it.
    pub name: String,
    /// In order; those narrower than a hair beside each other become one.
    pub spans: Vec<Span>,
}

/// Groups of lanes with their titles on one axis.
pub fn lanes(chart: &Chart, range: [f64; 2], groups: &[(String, Vec<Lane>)], legend: &[(String, Paint)]) -> String {
    const STEP: f64 = 28.0;
    const HEAD: f64 = 22.0;
    let rows: usize = groups.iter().map(|g| g.1.len()).sum();
    let bottom = TOP + STEP * rows as f64 + HEAD * groups.len() as f64;
    let x = Scale { lo: range[0], hi: range[1], spread: Spread::Even, from: LEFT, to: WIDTH - RIGHT };
    let mut svg = open(chart, bottom + BOTTOM, legend);
    draw_rows(&mut svg, chart, &x, bottom, f64::NAN);
    let mut top = TOP;
    for (title, lanes) in groups {
        text(&mut svg, 20.0, top + 14.0, "start", title);
        top += HEAD;
        for lane in lanes {
            text(&mut svg, LEFT - 8.0, top + 14.0, "end", &lane.name);
            draw_spans(&mut svg, &x, top, &lane.spans);
            top += STEP;
        }
    }
    svg + "</svg>\n"
}

fn draw_spans(svg: &mut String, x: &Scale, top: f64, spans: &[Span]) {
    /// Narrower ones have no name of their own, or are drawn as one with what is beside them.
    const NAMED: f64 = 4.0;
    const HAIR: f64 = 0.5;
    let mut drawn: Vec<(f64, f64, &Span)> = Vec::new();
    for span in spans {
        let Some((a, b)) = x.at(span.from).zip(x.at(span.to)) else { continue };
        let before = drawn.iter_mut().rev().take(3).find(|d| d.2.place == span.place && d.2.paint == span.paint);
        match before {
            Some(last) if b - a < HAIR && a - last.1 < HAIR => last.1 = last.1.max(b),
            _ => drawn.push((a, b.max(a + HAIR), span)),
        }
    }
    for (a, b, span) in drawn {
        let [y, height] = [top + span.place[0], span.place[1]];
        let colour = COLOURS[span.paint.colour % COLOURS.len()];
        let title = match b - a {
            wide if wide >= NAMED => format!("<title>{}</title>", escape(&span.name)),
            _ => String::new(),
        };
        let pale = if span.paint.strength < 1.0 {
            format!(" fill-opacity=\"{:.2}\"", span.paint.strength)
        } else {
            String::new()
        };
        let width = b - a;
        let _ = writeln!(
            svg,
            r#"<rect x="{a:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" fill="{colour}"{pale}>{title}</rect>"#
        );
    }
}

fn draw_ratio(svg: &mut String, x: &Scale, cy: f64, value: f64, ci: Option<[f64; 2]>, name: &str) {
    let Some(cx) = x.at(value) else { return };
    if let Some((a, b)) = ci.and_then(|c| x.at(c[0]).zip(x.at(c[1]))) {
        line(svg, "bar", [a, cy, b, cy]);
    }
    let name = escape(&format!("{name}: {}", number(value, 4)));
    let _ = writeln!(svg, r#"<circle cx="{cx:.1}" cy="{cy:.1}" r="4"><title>{name}</title></circle>"#);
}

/// Values to positions.
struct Scale {
    lo: f64,
    hi: f64,
    spread: Spread,
    from: f64,
    to: f64,
}

/// An axis of shares reaches beyond p99.9, and not beyond what doubles tell from 1.
const TAIL: [f64; 2] = [3.3, 6.0];

impl Scale {
    /// Covers all values that can be shown, with a little room unless an end is 0 and `tight`.
    fn new(values: impl Iterator<Item = f64>, spread: Spread, from: f64, to: f64, tight: bool) -> Scale {
        let warped = values.map(|v| spread.warp(v)).filter(|v| v.is_finite());
        let (lo, hi) = warped.fold((f64::MAX, f64::MIN), |(lo, hi), v| (lo.min(v), hi.max(v)));
        if spread == Spread::Tail {
            return Scale { lo: 0.0, hi: (hi + 0.3).clamp(TAIL[0], TAIL[1]), spread, from, to };
        }
        let log = spread == Spread::Log;
        let (lo, hi) = if lo > hi { (0.0, 1.0) } else { (lo, hi) };
        let room = if hi > lo {
            (hi - lo) * 0.06
        } else if log {
            0.5
        } else if hi == 0.0 {
            1.0
        } else {
            hi.abs() * 0.1
        };
        let lower = if (tight && lo == 0.0) || (!log && lo >= 0.0 && lo < room) { lo.min(0.0) } else { lo - room };
        Scale { lo: lower, hi: hi + room, spread, from, to }
    }
    fn at(&self, value: f64) -> Option<f64> {
        let v = match self.spread {
            Spread::Tail => self.spread.warp(value).min(self.hi),
            _ => self.spread.warp(value),
        };
        v.is_finite().then(|| self.from + (v - self.lo) / (self.hi - self.lo) * (self.to - self.from))
    }
    fn label(&self, value: f64) -> String {
        match self.spread {
            Spread::Tail => format!("p{}", tick(100.0 * value)),
            _ => tick(value),
        }
    }
    /// Round values within the scale, four to nine.
    fn ticks(&self) -> Vec<f64> {
        let log = self.spread == Spread::Log;
        if self.spread == Spread::Tail {
            return [0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999]
                .into_iter()
                .filter(|v| self.spread.warp(*v) < self.hi)
                .collect();
        }
        if log && self.hi - self.lo > 1.0 {
            return self.decades();
        }
        let (lo, hi) = if log { (10f64.powf(self.lo), 10f64.powf(self.hi)) } else { (self.lo, self.hi) };
        let step = round_step((hi - lo) / 7.0);
        let first = (lo / step).ceil() as i64;
        (0..20).map(|i| (first + i) as f64 * step).take_while(|v| *v <= hi).collect()
    }
    /// Powers of ten; with 2 and 5 between where there are few.
    fn decades(&self) -> Vec<f64> {
        let span = self.hi - self.lo;
        let every = ((span / 8.0) as usize).max(1);
        let between: &[f64] = if span < 3.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        (self.lo.floor() as i32..=self.hi.floor() as i32)
            .step_by(every)
            .flat_map(|e| between.iter().map(move |m| m * 10f64.powi(e)))
            .filter(|v| (self.lo..=self.hi).contains(&v.log10()))
            .collect()
    }
}

/// 1, 2 or 5 times a power of ten.
fn round_step(rough: f64) -> f64 {
    let power = 10f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= rough).unwrap_or(power * 10.0)
}

fn corners_of(p: &Point) -> [(f64, f64); 3] {
    let end = |i: usize| (p.x_ci.map_or(p.x, |c| c[i]), p.y_ci.map_or(p.y, |c| c[i]));
    [(p.x, p.y), end(0), end(1)]
}

/// Entries of a legend, in the order of the colours.
pub(crate) fn numbered<'a>(names: impl Iterator<Item = &'a str>) -> Vec<(String, Paint)> {
    let paint = |colour| Paint { colour, strength: 1.0, hatched: false };
    names.enumerate().filter(|(_, name)| !name.is_empty()).map(|(i, name)| (name.to_string(), paint(i))).collect()
}

/// The head of a drawing of this height, with its title and its legend: between title and drawing where one line is enough,
/// otherwise below.
fn open(chart: &Chart, height: f64, legend: &[(String, Paint)]) -> String {
    let lines = legend_lines(legend);
    let below = if lines.len() > 1 { 20.0 * lines.len() as f64 + 6.0 } else { 0.0 };
    let (title, desc) = (escape(&chart.title), escape(&chart.desc));
    let full = height + below;
    let mut svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {full}" role="img" aria-labelledby="t d" font-family="system-ui, sans-serif" font-size="13">
<title id="t">{title}</title>
<desc id="d">{desc}</desc>
<style>text,.mark{{fill:#24292f}}.page,.gap{{fill:#fff}}.grid{{stroke:#8884}}.axis{{stroke:#888}}.mark{{stroke:#fff}}@media(prefers-color-scheme:dark){{text,.mark{{fill:#e6edf3}}.page,.gap{{fill:#161b22}}.mark{{stroke:#161b22}}}}</style>
<defs><pattern id="h" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="gap" width="2.5" height="6" fill-opacity=".6"/></pattern></defs>
<rect class="page" width="{WIDTH}" height="{full}" rx="8"/>
<text x="20" y="24" font-size="15" font-weight="600">{}</text>
"##,
        escape(&short(&chart.title, 80))
    );
    let top = if lines.len() > 1 { height + 2.0 } else { 39.0 };
    for (i, line) in lines.iter().enumerate() {
        for (x, (name, paint)) in line {
            let y = top + 20.0 * i as f64;
            draw_layer(&mut svg, [*x, y, 10.0, 10.0], *paint, "");
            text(&mut svg, x + 16.0, y + 9.0, "start", name);
        }
    }
    svg
}

/// Entries with their places, as many in a line as fit. Widths of letters are the reader's; this is generous for most.
fn legend_lines(legend: &[(String, Paint)]) -> Vec<Vec<(f64, &(String, Paint))>> {
    let mut lines: Vec<Vec<(f64, &(String, Paint))>> = Vec::new();
    let mut x = f64::MAX;
    for entry in legend {
        let width = 40.0 + 7.0 * width(&entry.0) as f64;
        if x + width > WIDTH {
            lines.push(Vec::new());
            x = LEFT;
        }
        lines.last_mut().expect("a line was begun").push((x, entry));
        x += width;
    }
    lines
}

fn short(text: &str, most: usize) -> String {
    if width(text) <= most { text.to_string() } else { first(text.chars(), most - 1) + "…" }
}

fn draw_axes(svg: &mut String, chart: &Chart, x: Option<&Scale>, y: &Scale) {
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    for value in y.ticks() {
        let Some(at) = y.at(value) else { continue };
        line(svg, "grid", [LEFT, at, right, at]);
        text(svg, LEFT - 8.0, at + 4.0, "end", &y.label(value));
    }
    for (value, x) in x.iter().flat_map(|x| x.ticks().into_iter().map(move |value| (value, x))) {
        let Some(at) = x.at(value) else { continue };
        line(svg, "grid", [at, TOP, at, bottom]);
        text(svg, at, bottom + 18.0, "middle", &x.label(value));
    }
    line(svg, "axis", [LEFT, bottom, right, bottom]);
    line(svg, "axis", [LEFT, TOP, LEFT, bottom]);
    text(svg, (LEFT + right) / 2.0, HEIGHT - 14.0, "middle", &chart.x.label);
    let middle = (TOP + bottom) / 2.0;
    let label = escape(&chart.y.label);
    let _ =
        writeln!(svg, r#"<text transform="translate(18 {middle}) rotate(-90)" text-anchor="middle">{label}</text>"#);
}

/// Without zeros at the end, and without the noise of adding steps.
fn tick(value: f64) -> String {
    let text = number(value, 5);
    if text.contains('.') && !text.contains('e') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

fn draw_series(svg: &mut String, series: &Series, colour: &str, radius: f64, x: &Scale, y: &Scale) {
    let _ = writeln!(svg, r#"<g stroke="{colour}" fill="{colour}">"#);
    if series.line {
        let at = |p: &Point| x.at(p.x).zip(y.at(p.y)).map(|(x, y)| format!("{x:.1},{y:.1}"));
        let mut points: Vec<String> = series.points.iter().filter_map(at).collect();
        points.dedup();
        let _ = writeln!(svg, r#"<polyline fill="none" stroke-width="2" points="{}"/>"#, points.join(" "));
    }
    if series.dots {
        series.points.iter().for_each(|p| draw_point(svg, p, radius, x, y));
    }
    svg.push_str("</g>\n");
}

fn draw_point(svg: &mut String, p: &Point, radius: f64, x: &Scale, y: &Scale) {
    let Some((cx, cy)) = x.at(p.x).zip(y.at(p.y)) else { return };
    if let Some((a, b)) = p.x_ci.and_then(|c| x.at(c[0]).zip(x.at(c[1]))) {
        line(svg, "bar", [a, cy, b, cy]);
    }
    if let Some((a, b)) = p.y_ci.and_then(|c| y.at(c[0]).zip(y.at(c[1]))) {
        line(svg, "bar", [cx, a, cx, b]);
    }
    let _ = if p.label.is_empty() {
        writeln!(svg, r#"<circle cx="{cx:.1}" cy="{cy:.1}" r="{radius}"/>"#)
    } else {
        let name = escape(&format!("{}: {}, {}", p.label, number(p.x, 4), number(p.y, 4)));
        writeln!(svg, r#"<circle cx="{cx:.1}" cy="{cy:.1}" r="{radius}"><title>{name}</title></circle>"#)
    };
}

/// Where a label may stand beside its point, best first: its shift and whether it ends there.
const PLACES: [(f64, f64, bool); 10] = [
    (9.0, -6.0, false),
    (-9.0, -6.0, true),
    (9.0, 15.0, false),
    (-9.0, 15.0, true),
    (12.0, 4.0, false),
    (-12.0, 4.0, true),
    (9.0, -20.0, false),
    (-9.0, -20.0, true),
    (9.0, 29.0, false),
    (-9.0, 29.0, true),
];

/// A label beside each point, where it covers no other label and no point. One that finds no place is left out, as is one that
/// would repeat that of a point at the same place; hovering still shows it.
fn draw_labels(svg: &mut String, series: &[Series], x: &Scale, y: &Scale) {
    let place = |p: &Point| x.at(p.x).zip(y.at(p.y));
    let shown = || series.iter().filter(|s| s.dots).flat_map(|s| &s.points);
    let mut taken: Vec<[f64; 4]> =
        shown().filter_map(place).map(|(cx, cy)| [cx - 5.0, cy - 5.0, cx + 5.0, cy + 5.0]).collect();
    let mut labelled: Vec<(f64, f64, &str)> = Vec::new();
    for p in shown().filter(|p| !p.label.is_empty()) {
        let Some((cx, cy)) = place(p) else { continue };
        let near =
            |&(ox, oy, label): &(f64, f64, &str)| label == p.label && (ox - cx).abs() < 4.0 && (oy - cy).abs() < 4.0;
        if labelled.iter().any(near) {
            continue;
        }
        labelled.push((cx, cy, &p.label));
        let free = |place: &&(f64, f64, bool)| {
            let b = label_box(cx, cy, place, &p.label);
            let inside = b[0] >= LEFT && b[2] <= WIDTH && b[1] >= TOP - 10.0 && b[3] <= HEIGHT - BOTTOM;
            inside && !taken.iter().any(|t| b[0] < t[2] && t[0] < b[2] && b[1] < t[3] && t[1] < b[3])
        };
        if let Some(place) = PLACES.iter().find(free) {
            taken.push(label_box(cx, cy, place, &p.label));
            text(svg, cx + place.0, cy + place.1, if place.2 { "end" } else { "start" }, &p.label);
        }
    }
}

/// Left, top, right, bottom. Widths of letters are the reader's; this is generous for most.
fn label_box(cx: f64, cy: f64, &(dx, dy, ends): &(f64, f64, bool), label: &str) -> [f64; 4] {
    let width = 7.5 * width(label) as f64;
    let left = if ends { cx + dx - width } else { cx + dx };
    [left, cy + dy - 11.0, left + width, cy + dy + 3.0]
}

fn draw_bar(
    svg: &mut String,
    y: &Scale,
    left: f64,
    width: f64,
    value: f64,
    ci: Option<[f64; 2]>,
    colour: &str,
    name: &str,
) {
    let Some((top, zero)) = y.at(value).zip(y.at(0.0)) else { return };
    let (from, height) = (top.min(zero), (top - zero).abs());
    let name = escape(&format!("{name}: {}", number(value, 4)));
    let _ = writeln!(
        svg,
        r#"<rect x="{left:.1}" y="{from:.1}" width="{width:.1}" height="{height:.1}" fill="{colour}"><title>{name}</title></rect>"#
    );
    if let Some((a, b)) = ci.and_then(|c| y.at(c[0]).zip(y.at(c[1]))) {
        let middle = left + width / 2.0;
        line(svg, "axis", [middle, a, middle, b]);
    }
}

fn line(svg: &mut String, class: &str, [x1, y1, x2, y2]: [f64; 4]) {
    let _ = writeln!(svg, r#"<line class="{class}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#);
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, content: &str) {
    let _ = writeln!(svg, r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{}</text>"#, escape(content));
}

/// Names come from files and traces: nothing of them may become markup. Control characters are not allowed in XML; what would
/// turn the direction of a display, or be invisible, stands as its code.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push(' '),
            c if steers(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> Chart {
        Chart {
            title: "p99 <against> throughput".into(), desc: "d".into(), x: Axis::new("work/s"), y: Axis::log("µs")
        }
    }

    fn point(x: f64, y: f64, label: &str) -> Point {
        Point { x, y, y_ci: Some([y * 0.9, y * 1.1]), label: label.into(), ..Point::default() }
    }

    /// Tags balance, coordinates are numbers within the drawing.
    fn check(svg: &str) {
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{svg}");
        for tag in ["g", "text", "title", "desc"] {
            let opened = svg.matches(&format!("<{tag} ")).count() + svg.matches(&format!("<{tag}>")).count();
            assert_eq!(opened, svg.matches(&format!("</{tag}>")).count(), "{tag}: {svg}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf\""), "{svg}");
        assert!(svg.contains("<title id=\"t\">") && svg.contains("<desc id=\"d\">"));
    }

    #[test]
    fn scatter_with_bars_and_labels() {
        let s = Series {
            name: "side & job".into(),
            points: vec![
                point(1.0, 100.0, "nice 0"),
                point(2.0, 1e4, "SCHED_IDLE"),
                point(3.0, 0.0, "not on a log axis"),
            ],
            line: true,
            dots: true,
        };
        let svg = scatter(&chart(), &[s]);
        check(&svg);
        assert_eq!(svg.matches("<circle").count(), 2);
        assert!(svg.contains("side &amp; job") && svg.contains("&lt;against&gt;") && svg.contains(">1000<"));
    }

    #[test]
    fn nothing_one_point_and_nonsense() {
        check(&scatter(&chart(), &[]));
        let turned = Series { points: vec![point(5.0, 5.0, "a\u{202e}b")], dots: true, ..Series::default() };
        let svg = scatter(&chart(), &[turned]);
        assert!(!svg.contains('\u{202e}') && svg.contains("a\\u{202e}b"), "{svg}");
        for p in [point(5.0, 5.0, "\u{1}<script>"), point(f64::NAN, f64::INFINITY, "x"), point(0.0, 0.0, "")] {
            check(&scatter(&chart(), &[Series { points: vec![p], dots: true, line: true, ..Series::default() }]));
        }
        check(&bars(&chart(), &[], &[]));
    }

    #[test]
    fn cdf_steps_and_bars() {
        let mut c = chart();
        (c.x.spread, c.y.spread) = (Spread::Log, Spread::Tail);
        let svg = cdf(&c, &[("linux-5.3".into(), vec![(10.0, 0.5), (1000.0, 1.0)])]);
        check(&svg);
        let points = svg.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!(points.split(' ').count(), 4);
        for mark in ["p50", "p90", "p99", "p99.9"] {
            assert!(svg.contains(&format!(">{mark}<")), "{mark}: {svg}");
        }
        c.y.spread = Spread::Even;
        let svg = bars(&c, &["a".into(), "b".into()], &[("k".into(), vec![(1.0, Some([0.5, 1.5])), (-2.0, None)])]);
        check(&svg);
        assert_eq!(svg.matches("<title>").count(), 2);
    }

    #[test]
    fn labels_cover_nothing() {
        let many = |n: usize| (0..n).map(|i| point(1.0, 100.0, &format!("label {i}"))).collect();
        let s = Series { points: many(20), dots: true, ..Series::default() };
        let svg = scatter(&chart(), &[s]);
        check(&svg);
        assert_eq!(svg.matches("<circle").count(), 20);
        // Ten places around a point, of which those that lie in the drawing are taken, each once.
        let labels = svg.matches(">label ").count() - 20; // less the titles
        assert!((4..=10).contains(&labels), "{labels}");
        let twice =
            |name: &str| Series { name: name.into(), points: vec![point(1.0, 5.0, "same")], dots: true, line: false };
        assert_eq!(scatter(&chart(), &[twice("a"), twice("b")]).matches(">same<").count(), 1);
    }

    #[test]
    fn forest_of_ratios() {
        let categories = ["wakeup_latency_us.mean".into(), "migrations".into()];
        let series = ("linux-5.6".into(), vec![(0.34, Some([0.28, 0.37])), (6.7, None)]);
        let svg = forest(&chart(), &categories, &[series, ("none".into(), vec![(0.0, None), (f64::NAN, None)])]);
        check(&svg);
        assert_eq!(svg.matches("<circle").count(), 2);
        assert!(svg.contains(">migrations<") && svg.contains(">1<"));
        check(&forest(&chart(), &[], &[]));
    }

    #[test]
    fn stacked_layers() {
        let layer = |name: &str, values: Vec<f64>, hatched| Layer {
            name: name.into(),
            values,
            paint: Paint { colour: 1, strength: 0.5, hatched },
        };
        let stack = Stack {
            categories: vec!["a".into(), "b".into()],
            layers: vec![layer("busy", vec![2.0, 1.0], false), layer("<idle>", vec![0.0, f64::NAN], true)],
            marks: vec![Some(3.0), None],
            mark: "oracle".into(),
            legend: vec![("busy".into(), Paint::default())],
        };
        let svg = stacked(&chart(), &stack);
        check(&svg);
        assert_eq!(svg.matches("<rect x=").count() - 1, 2, "nothing is drawn of nothing; one is the legend's");
        assert_eq!(svg.matches("class=\"mark\"").count(), 1);
        assert!(!svg.contains("<idle>"));
        check(&stacked(&chart(), &Stack::default()));
    }

    #[test]
    fn long_categories_are_cut_in_the_middle() {
        let long = "little-power-collapse / big-power-collapse linux-6.12";
        for (categories, shown) in
            [([long, "WFI linux-6.12"], "little-power-collapse /…er-collapse linux-6.12"), (["WFI", "a state"], "WFI")]
        {
            let categories: Vec<String> = categories.map(String::from).into();
            let svg = stacked(&chart(), &Stack { categories, ..Stack::default() });
            check(&svg);
            assert!(svg.contains(&format!(">{shown}<")), "{svg}");
        }
        for (name, left) in [(long, 360.0), ("µ".repeat(80).as_str(), 324.0), ("日本".repeat(40).as_str(), 324.0)] {
            let widest = LETTER * width(&fitting(name, left)) as f64;
            assert!(widest <= left - 16.0, "{widest}");
        }
    }

    #[test]
    fn zeros_only_are_on_an_axis_to_one() {
        for tight in [false, true] {
            let s = Scale::new([0.0, 0.0].into_iter(), Spread::Even, 0.0, 100.0, tight);
            assert_eq!(s.ticks().first().zip(s.ticks().last()), Some((&0.0, &1.0)));
        }
    }

    #[test]
    fn legends_that_are_too_long_for_a_line_go_below() {
        let names: Vec<String> = (0..30).map(|i| format!("a task number {i}")).collect();
        let series: Vec<Series> = names.iter().map(|n| Series { name: n.clone(), ..Series::default() }).collect();
        let svg = scatter(&chart(), &series);
        check(&svg);
        let height: f64 = svg.split("viewBox=\"0 0 720 ").nth(1).unwrap().split('"').next().unwrap().parse().unwrap();
        assert!(height > HEIGHT + 100.0, "{height}");
        assert!(names.iter().all(|n| svg.contains(&format!(">{n}<"))));
    }

    #[test]
    fn lanes_of_spans() {
        let span = |from: f64, to: f64| Span { from, to, place: [0.0, 9.0], name: "a<b".into(), ..Span::default() };
        let thin = (0..1000).map(|i| span(50.0 + f64::from(i) * 0.001, 50.0005 + f64::from(i) * 0.001));
        let spans = [span(0.0, 40.0)].into_iter().chain(thin).collect();
        let groups =
            [("A".to_string(), vec![Lane { name: "cpu0".into(), spans }]), ("B".into(), vec![Lane::default()])];
        let svg = lanes(&chart(), [0.0, 100.0], &groups, &[]);
        check(&svg);
        assert!(svg.contains("a&lt;b") && svg.contains(">cpu0<"));
        assert!(svg.matches("<rect x=").count() < 20, "{svg}");
    }

    #[test]
    fn ticks_are_round() {
        let s = Scale::new([0.0, 9.7].into_iter(), Spread::Even, 0.0, 100.0, true);
        assert_eq!(s.ticks(), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        let s = Scale::new([10.0, 1e5].into_iter(), Spread::Log, 0.0, 100.0, false);
        assert_eq!(s.ticks(), [10.0, 100.0, 1000.0, 10_000.0, 100_000.0]);
        let s = Scale::new([20.0, 1e3].into_iter(), Spread::Log, 0.0, 100.0, false);
        assert_eq!(s.ticks(), [20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]);
    }
}
