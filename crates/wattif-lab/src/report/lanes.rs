//! A stretch of the timeline as a drawing: CPU lanes of the first run above those of the others, on one axis of time, around the
//! longest wait of the first.

use super::Shown;
use super::timeline::{Slice, Timeline};
use crate::plot::{self, Axis, Chart, Lane, Paint, Span};
use wattif_model::Ns;

/// Lanes of one run; machines with more CPUs are cut.
const LANES: usize = 16;
/// Length of what is drawn, at least and at most, ns.
const LENGTH: [u64; 2] = [8_000_000, 60_000_000];
/// Places of a lane: waiting above, the thread, the idle state, the frequency.
const WAIT: [f64; 2] = [0.0, 2.5];
const RUN: [f64; 2] = [3.0, 13.0];
const IDLE: [f64; 2] = [16.5, 3.0];
const FREQ: [f64; 2] = [20.0, 5.0];
/// Colours of tasks; the last is that of all others.
const TASKS: usize = 5;
const OTHER: usize = 6;

/// The drawing.
pub fn draw(title: &str, runs: &[Shown<'_>]) -> Result<String, String> {
    let first = runs.first().ok_or("there is no run")?.timeline;
    let (from, to) = stretch(first);
    let tasks = tasks(runs);
    let paint = |task: Option<&str>| {
        let colour = task.and_then(|t| tasks.iter().position(|known| known == t)).unwrap_or(OTHER);
        Paint { colour: if colour < TASKS { colour } else { OTHER }, strength: 1.0, hatched: false }
    };
    let from_cpu = longest(first).map_or(0, |(cpu, _)| cpu / LANES * LANES);
    let groups: Vec<(String, Vec<Lane>)> = runs
        .iter()
        .map(|run| {
            let all = run.timeline.lanes.len();
            let cpus = from_cpu.min(all)..(from_cpu + LANES).min(all);
            let cut = if cpus.len() < all { format!(" ({} of {all} CPUs)", cpus.len()) } else { String::new() };
            let lanes = cpus.map(|cpu| lane(run.timeline, cpu, from, to, &paint)).collect();
            (format!("{}{cut}", run.kernel), lanes)
        })
        .collect();
    let shown = tasks.iter().take(TASKS).map(|t| (t.clone(), paint(Some(t))));
    let legend: Vec<(String, Paint)> =
        shown.chain([("other".to_string(), paint(None)), ("waits".into(), WAITS)]).collect();
    let chart = Chart {
        title: format!("{title}: around the longest wait"),
        desc: "CPU lanes: above each what waits to run there, below it idle state (deeper is stronger) and frequency."
            .into(),
        x: Axis::new("ms"),
        ..Chart::default()
    };
    Ok(plot::lanes(&chart, [ms(from), ms(to)], &groups, &legend))
}

/// Of a colour that no task has.
const WAITS: Paint = Paint { colour: TASKS, strength: 1.0, hatched: false };

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// The longest wait of a thread of the workload: CPU and slice.
fn longest(timeline: &Timeline) -> Option<(usize, Slice)> {
    let slices = timeline.lanes.iter().enumerate().flat_map(|(cpu, lane)| lane.slices.iter().map(move |s| (cpu, *s)));
    let waited = slices.filter(|(_, s)| s.wait > 0 && timeline.threads[s.thread as usize].workload);
    // The first of equals.
    waited.reduce(|best, s| if s.1.wait > best.1.wait { s } else { best })
}

/// Around the longest wait, or the beginning.
fn stretch(timeline: &Timeline) -> (u64, u64) {
    let (middle, wait) = longest(timeline).map_or((0, 0), |(_, s)| (s.start - s.wait.min(s.start) / 2, s.wait));
    let length = (2 * wait).clamp(LENGTH[0], LENGTH[1]);
    let from = middle.saturating_sub(length / 2);
    (from, from + length)
}

/// Tasks of the workload in the order of their threads.
fn tasks(runs: &[Shown<'_>]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for thread in runs.iter().flat_map(|r| &r.timeline.threads).filter(|t| t.workload) {
        if !all.contains(&thread.task) {
            all.push(thread.task.clone());
        }
    }
    all
}

fn lane(t: &Timeline, cpu: usize, from: u64, to: u64, paint: &dyn Fn(Option<&str>) -> Paint) -> Lane {
    let lane = &t.lanes[cpu];
    let span = |a: u64, b: u64, place: [f64; 2], paint: Paint, name: String| {
        (a < to && b > from).then(|| Span { from: ms(a.max(from)), to: ms(b.min(to)), place, paint, name })
    };
    let mut spans: Vec<Span> = Vec::new();
    for s in &lane.slices {
        let thread = &t.threads[s.thread as usize];
        let look = paint(Some(thread.task.as_str()).filter(|_| thread.workload));
        if thread.workload && s.wait > 0 {
            let name = format!("{} waits {}", thread.name, told(s.wait));
            spans.extend(span(s.start - s.wait.min(s.start), s.start, WAIT, WAITS, name));
        }
        spans.extend(span(s.start, s.end, RUN, look, format!("{} {}", thread.name, told(s.end - s.start))));
    }
    let deepest = t.state_names[cpu].len().saturating_sub(1).max(1) as f64;
    for s in &lane.sleeps {
        let strength = 0.2 + 0.8 * f64::from(s.state) / deepest;
        let name = t.state_names[cpu].get(s.state as usize).cloned().unwrap_or_default();
        spans.extend(span(s.start, s.end, IDLE, Paint { colour: 0, strength, hatched: false }, name));
    }
    let domain = t.domain_of[cpu];
    let steps = &t.clocks[domain];
    let top = steps.iter().map(|c| c.1).chain([t.first_khz[domain], 1]).max().unwrap_or(1);
    let begin = steps.first().filter(|s| s.0 == 0).is_none().then_some((0, t.first_khz[domain]));
    let steps: Vec<(u64, u32)> = begin.into_iter().chain(steps.iter().copied()).collect();
    for (i, &(at, khz)) in steps.iter().enumerate() {
        let tall = FREQ[1] * f64::from(khz) / f64::from(top);
        let place = [FREQ[0] + FREQ[1] - tall, tall];
        let end = steps.get(i + 1).map_or(to, |next| next.0);
        let look = Paint { colour: 4, strength: 1.0, hatched: false };
        spans.extend(span(at, end, place, look, format!("{:.3} GHz", f64::from(khz) / 1e6)));
    }
    Lane { name: format!("cpu{cpu}"), spans }
}

fn told(ns: u64) -> String {
    Ns(ns).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_looks_like_no_task() {
        assert!((0..TASKS).chain([OTHER]).all(|colour| colour != WAITS.colour));
    }
}
