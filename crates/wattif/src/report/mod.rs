//! The report: what was asked, what came out, and everything a browser needs to show it and to run it again, in one file.
//!
//! [`side`] runs a spec with everybody who listens, [`Report`] collects sides and answers, [`page`] makes the HTML file.
//! [`lab`] answers what the page asks of the simulator inside it.

pub mod lab;
#[cfg(feature = "cli")]
pub mod page;

use crate::error::{Error, Findings};
#[cfg(feature = "cli")]
use crate::recording::marks;
use crate::run::{Outcome, RunJson, run};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use wattif_lab::compare::Comparison;
use wattif_lab::explain::Explanation;
use wattif_lab::report::{Collector, Figures, Timeline};
use wattif_lab::table::cell;
#[cfg(feature = "cli")]
use wattif_lab::{
    infer,
    metrics::{Leaving, RunReport},
};
use wattif_model::run::RunSpec;
#[cfg(feature = "cli")]
use wattif_model::run::RunSummary;
use wattif_model::trace::Observer;
#[cfg(feature = "cli")]
use wattif_model::{trace::Recording, workload::Workload};

/// `schema` of the data in the page.
pub const SCHEMA: &str = "wattif.report/1";

/// One run with all that is shown of it.
#[derive(Clone, Debug)]
pub struct Side {
    /// What was run.
    pub spec: RunSpec,
    /// What came out.
    pub outcome: Outcome,
    /// Its drawings.
    pub figures: Figures,
    /// Who ran where.
    pub timeline: Timeline,
    /// A real machine's: there is no run behind it that could be repeated.
    pub recorded: bool,
}

/// Run `spec` for a report; `others` listen too.
pub fn side(spec: &RunSpec, others: &mut [&mut dyn Observer]) -> Result<Side, Error> {
    let mut collector = Collector::new(spec);
    let mut timeline = Timeline::new(&spec.platform, spec.duration);
    let mut observers: Vec<&mut dyn Observer> = vec![&mut collector, &mut timeline];
    for other in others {
        observers.push(&mut **other);
    }
    let outcome = run(spec, &mut observers)?;
    let figures = collector.figures(&outcome.report);
    Ok(Side { spec: spec.clone(), outcome, figures, timeline, recorded: false })
}

/// A recording beside the runs of `spec`, which was made of it; `analysed` are its figures.
#[cfg(feature = "cli")]
pub fn recorded(spec: &RunSpec, recording: &Recording, analysed: &RunReport) -> Side {
    let mut spec = spec.clone();
    spec.platform = infer::clocked(recording, &spec.platform).into_owned();
    spec.kernel.name = "recorded".into();
    spec.kernel.title = recording.release.clone().unwrap_or_else(|| recording.format.clone());
    // What was made of a recording marks nothing; the recorded programs may have.
    let workload = Workload { marks: marks(recording), ..Workload::default() };
    let marked = RunSpec { workload, ..spec.clone() };
    let mut collector = Collector::new(&marked);
    let mut timeline = Timeline::new(&spec.platform, recording.end);
    infer::play(recording, &spec.platform, &mut Leaving::new(recording, &mut collector));
    infer::play(recording, &spec.platform, &mut Leaving::new(recording, &mut timeline));
    let mut figures = collector.figures(analysed);
    figures.energy = figures.energy.filter(|_| analysed.metrics.energy.is_some());
    let summary =
        RunSummary { slices: analysed.metrics.slices.unwrap_or(0), end: recording.end, ..RunSummary::default() };
    let outcome = Outcome { summary, report: analysed.clone(), wall_s: 0.0 };
    Side { spec, outcome, figures, timeline, recorded: true }
}

/// A side without its timeline and without the content of its spec.
#[derive(Clone, Debug, Serialize)]
pub struct SideJson {
    /// Name of the kernel.
    name: String,
    /// One line about it.
    title: String,
    /// `wattif.run/1`, its `spec.content` elsewhere.
    run: Value,
    figures: Figures,
}

impl Side {
    /// For the page.
    pub fn json(&self, set: &BTreeMap<String, String>, findings: &[Findings]) -> SideJson {
        let run = RunJson::new(&self.spec, set.clone(), findings, &self.outcome);
        let mut run = serde_json::to_value(run).expect("reports are string-keyed");
        run["spec"].as_object_mut().map(|spec| spec.remove("content"));
        if self.recorded {
            run["spec"]["hash"] = Value::Null;
            run["digest"] = Value::Null;
        }
        let kernel = &self.spec.kernel;
        SideJson { name: kernel.name.clone(), title: kernel.title.clone(), run, figures: self.figures.clone() }
    }
}

/// What the page's form for another run begins with.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Inputs {
    /// As it was asked for.
    pub platform: String,
    /// As they were asked for.
    pub kernels: Vec<String>,
    /// Name of the workload, and its text where it is an rt-app file.
    pub workload: String,
    /// Text of an rt-app file.
    pub workload_text: Option<String>,
    /// How it was read.
    pub dialect: &'static str,
    /// Overrides.
    pub set: Vec<String>,
    /// Seed of the runs shown, in digits: a browser's numbers are shorter.
    pub seed: String,
    /// Seeds of the comparison.
    pub seeds: u64,
    /// Length, s.
    pub duration_s: f64,
}

/// Everything the page says, but for timelines and the contents of specs.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    schema: &'static str,
    version: &'static str,
    /// `run`, `compare`, `repro`, `replay`, `sweep`, `lab`.
    pub kind: &'static str,
    /// Of the page.
    pub title: String,
    /// What was asked, one sentence.
    pub question: String,
    /// Sentences, each with its number.
    pub answer: Vec<String>,
    /// What was typed.
    pub command: Option<String>,
    /// For another run.
    pub inputs: Inputs,
    /// A run of each kernel, with the first seed.
    pub sides: Vec<SideJson>,
    /// `wattif.compare/1`, its `spec.content` elsewhere.
    pub comparison: Option<Value>,
    /// Where two runs part: time in ms, and what each side decided.
    pub first: Option<Value>,
    /// `wattif.repro/1`.
    pub repro: Option<Value>,
    /// `wattif.replay/1` or `wattif.recorded/1`.
    pub replay: Option<Value>,
    /// `wattif.sweep/1`.
    pub sweep: Option<Value>,
    /// The two metrics that its drawing stands between; empty: none.
    pub sweep_across: Vec<String>,
    /// What is left out and why.
    pub notes: Vec<String>,
    /// How far to trust it.
    pub trust: Vec<String>,
}

impl Report {
    /// An empty one.
    pub fn new(kind: &'static str, title: String) -> Report {
        Report { schema: SCHEMA, version: env!("CARGO_PKG_VERSION"), kind, title, ..Report::default() }
    }

    /// With a comparison: its rows, and the sentences that say what changes.
    pub fn set_comparison(&mut self, comparison: &Comparison) {
        self.answer.extend(verdict(comparison));
        let mut json = serde_json::to_value(comparison).expect("comparisons are string-keyed");
        json["spec"].as_object_mut().map(|spec| spec.remove("content"));
        self.comparison = Some(json);
    }

    /// With an explanation: its sentences, and where the runs part.
    pub fn set_explanation(&mut self, explanation: &Explanation) {
        self.answer.extend(explanation.summary.iter().cloned());
        self.first = explanation.first.as_ref().map(|f| serde_json::to_value(f).expect("a few texts"));
    }
}

/// The figures of one run in sentences.
pub fn sentences(side: &Side) -> Vec<String> {
    let m = &side.outcome.report.metrics;
    let mut all = Vec::new();
    let l = &m.wakeup_latency_us;
    if l.count > 0 {
        all.push(format!(
            "From waking to running it took {} µs in the median, {} µs at p99 and {} µs at most, over {} wake-ups.",
            cell(l.p50),
            cell(l.p99),
            cell(l.max),
            l.count
        ));
    }
    for (mark, f) in &m.frames {
        let d = &f.duration_us;
        let late = f.pace.map_or(String::new(), |p| format!("; {} deadlines were missed", p.missed));
        let (p50, p99) = (cell(d.p50 / 1e3), cell(d.p99 / 1e3));
        all.push(format!("Each {mark} took {p50} ms in the median and {p99} ms at p99, over {}{late}.", d.count));
    }
    if let Some(e) = &m.energy {
        let unit = if e.unit == "relative" { "(relative units)" } else { e.unit.as_str() };
        all.push(format!("It used {} {unit} in {} s.", cell(e.total), cell(m.duration_s)));
    }
    if let Some(a) = &m.idle_accuracy {
        all.push(format!(
            "Idle states were right for {} % of the sleeps, too deep for {} % and too shallow for {} %.",
            cell(a.correct_pct),
            cell(a.above_pct),
            cell(a.below_pct)
        ));
    }
    all
}

/// What changes for sure, and what does not, for the figures people ask for first.
fn verdict(c: &Comparison) -> Vec<String> {
    let asked = |name: &str| {
        name == "energy.total"
            || name == "wakeup_latency_us.p99"
            || (name.starts_with("frames.") && name.ends_with(".p99"))
    };
    let mut all = Vec::new();
    for row in c.metrics.iter().filter(|m| asked(&m.name)) {
        for (kernel, ratio) in c.kernels.iter().zip(&row.ratio_to_first).skip(1) {
            let (Some(value), Some([lo, hi])) = (ratio.value, ratio.ci95) else { continue };
            let range = format!("95 % interval {} to {}, {} seeds", cell(lo), cell(hi), c.seeds);
            let (name, first) = (&row.name, &c.kernels[0]);
            all.push(match ratio.verdict {
                Some(said) => {
                    let (times, said) = (cell(value), said.name());
                    format!("{name}: {kernel} has {times} × that of {first}, which is {said} ({range}).")
                }
                None => {
                    format!("{name}: no sure difference between {kernel} and {first}: {} × ({range}).", cell(value))
                }
            });
        }
    }
    all
}
