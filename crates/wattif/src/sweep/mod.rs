//! Sweeps: from axes to runs, through the store, to a table of points.
//!
//! A [`Sweep`] is the plan: every point with the run of each seed. [`Store`] keeps what is finished, so that a sweep that was
//! killed goes on where it was, and one that is repeated costs nothing. [`run_local`] uses the cores of this machine; whoever
//! has others asks for [`Sweep::missing`], runs [`execute`] there and gives the results to [`Store::insert`].

mod store;

pub use store::{Finished, Store};

use crate::error::{Error, Findings, nearest};
use crate::load::{self, Asked};
use crate::run::{Done, Gate, Outcome, run, run_until};
use crate::settings::Settings;
use crate::text;
use rayon::prelude::*;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use wattif_formats::rtapp::Dialect;
use wattif_lab::metrics::{self, Deadlock, RunReport, unit_on};
use wattif_lab::stats::{bca_mean, mean};
use wattif_lab::sweep::{Axis, Point, Sampling, pareto, points};
use wattif_lab::table::told_length;
use wattif_model::Ns;
use wattif_model::run::RunSpec;

/// Results of another version of the model are other results: the version of the crate, and a sum of the sources that decide
/// what a run says.
pub const MODEL: &str = concat!(env!("CARGO_PKG_VERSION"), "+", env!("WATTIF_SOURCES"));

/// What to sweep.
#[derive(Clone, Debug)]
pub struct Question {
    /// As of `wattif run`.
    pub workload: String,
    /// Where no axis says otherwise.
    pub platform: String,
    /// Where no axis says otherwise.
    pub kernel: String,
    /// Settings of all points.
    pub set: Vec<String>,
    /// What is varied.
    pub axes: Vec<Axis>,
    /// How.
    pub sampling: Sampling,
    /// Seeds of every point.
    pub seeds: Vec<u64>,
    /// Length of each run; the workload's own by default.
    pub duration: Option<Ns>,
    /// How rt-app files are read.
    pub dialect: Dialect,
}

/// A plan: points, and the runs of each.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// Names of the axes.
    pub axes: Vec<String>,
    /// Their values.
    pub points: Vec<Point>,
    /// A run per point, with the first seed.
    pub(crate) specs: Vec<RunSpec>,
    /// Settings of all points.
    set: BTreeMap<String, String>,
    /// Seeds of every point.
    pub seeds: Vec<u64>,
    /// What there is to say about the inputs: each once, and of how many points it is true if not of all.
    pub findings: Vec<Findings>,
}

/// A run of a plan.
#[derive(Clone, Debug)]
pub struct Job {
    /// What to run.
    pub spec: RunSpec,
    /// Its hash: the key in the store.
    pub hash: String,
}

impl Question {
    /// The plan, or why a point cannot be run: an axis that does not exist is refused before anything runs.
    pub fn plan(&self) -> Result<Sweep, Error> {
        for axis in &self.axes {
            check_name(&axis.name)?;
        }
        let names: Vec<String> = self.axes.iter().map(|a| a.name.clone()).collect();
        if let Some(twice) = (1..names.len()).find(|&i| names[..i].contains(&names[i])) {
            return Err(Error::Usage(format!("axis `{}` is there twice", names[twice])));
        }
        let settings = Settings::parse(&self.set)?;
        if let Some(name) = names.iter().find(|name| settings.to_map().contains_key(*name)) {
            return Err(Error::Usage(format!("`{name}` is an axis and set by --set as well; leave one of them out")));
        }
        let seed = self.seeds.first().copied().unwrap_or(1);
        let points = points(&self.axes, &self.sampling, seed).map_err(Error::Usage)?;
        let read = points.par_iter().map(|point| self.spec(&names, point)).collect::<Result<Vec<_>, Error>>()?;
        let (specs, said): (Vec<_>, Vec<_>) = read.into_iter().unzip();
        let mut findings = vec![load::repeated(&settings)];
        findings.extend(each_once(said));
        let mut set = load::with_parameters(&self.workload, settings).to_map();
        names.iter().for_each(|axis| drop(set.remove(axis)));
        Ok(Sweep { axes: names, points, specs, set, seeds: self.seeds.clone(), findings })
    }

    /// Refuses what no plan could be made of, by the first value of every axis.
    pub fn plan_one(&self) -> Result<(), Error> {
        let first = self.axes.iter().map(|axis| axis.at(0.0)).collect();
        Question { sampling: Sampling::These(vec![first]), ..self.clone() }.plan().map(drop)
    }

    fn spec(&self, names: &[String], point: &Point) -> Result<(RunSpec, Vec<Findings>), Error> {
        let mut asked = Asked {
            workload: self.workload.clone(),
            platform: self.platform.clone(),
            kernel: self.kernel.clone(),
            settings: Settings::parse(&self.set)?,
            seed: self.seeds.first().copied().unwrap_or(1),
            duration: self.duration,
            dialect: self.dialect,
        };
        for (name, value) in names.iter().zip(point) {
            match name.as_str() {
                "platform" => asked.platform = value.clone(),
                "kernel" => asked.kernel = value.clone(),
                path => asked.settings.add(path, value),
            }
        }
        asked.spec()
    }
}

/// What is said of the points, each once; by how many points, if not by all.
fn each_once(points: Vec<Vec<Findings>>) -> Vec<Findings> {
    let all = points.len();
    let mut said: BTreeMap<(String, usize, String), usize> = BTreeMap::new();
    let mut once: Vec<(Findings, usize)> = Vec::new();
    for Findings { name, text, diagnostics } in points.into_iter().flatten() {
        for d in diagnostics {
            let at = *said.entry((name.clone(), d.span.start, d.message.clone())).or_insert(once.len());
            if at == once.len() {
                let one = Findings { name: name.clone(), text: text.clone(), diagnostics: vec![d] };
                once.push((one, 0));
            }
            once[at].1 += 1;
        }
    }
    let told = |(mut one, times): (Findings, usize)| {
        if times < all {
            one.diagnostics[0].message.push_str(&format!(" (at {times} of {all} points)"));
        }
        one
    };
    once.into_iter().map(told).collect()
}

/// Names of axes are `kernel`, `platform`, slots, `policy.tunable`, `features.NAME`, `workload.…` and `platform.…`; the last two
/// are held against the files when they are read.
fn check_name(name: &str) -> Result<(), Error> {
    if ["workload.", "platform."].iter().any(|p| name.len() > p.len() && name.starts_with(p)) {
        return Ok(());
    }
    let known = axis_names();
    if known.iter().any(|k| k == name) {
        return Ok(());
    }
    let near = nearest(name, known.iter().map(String::as_str));
    Err(Error::Unknown {
        what: "axis",
        name: name.to_string(),
        near,
        list: "wattif list policies, wattif explain POLICY",
    })
}

/// Every axis of the kernel, and the two for whole files.
fn axis_names() -> Vec<String> {
    use wattif_sim::{registry::POLICIES, sched::features::Features};
    let mut names = vec!["kernel".to_string(), "platform".into()];
    names.extend(wattif_model::kernel::Slot::ALL.iter().map(|s| s.name().to_string()));
    names.extend(POLICIES.iter().flat_map(|p| p.tunables.iter().map(|t| format!("{}.{}", p.name, t.name))));
    names.extend(Features::ALL.iter().map(|(name, _)| format!("features.{name}")));
    names
}

impl Sweep {
    /// Every run, point by point.
    pub fn jobs(&self) -> Vec<Job> {
        let of = |spec: &RunSpec| {
            self.seeds
                .iter()
                .map(|&seed| {
                    let spec = RunSpec { seed, ..spec.clone() };
                    Job { hash: spec.hash(), spec }
                })
                .collect::<Vec<_>>()
        };
        self.specs.par_iter().flat_map(of).collect()
    }

    /// Those that the store does not have, each once: two points may ask for the same run.
    pub fn missing(&self, store: &Store) -> Result<Vec<Job>, Error> {
        let mut jobs: BTreeMap<String, Job> = self.jobs().into_iter().map(|j| (j.hash.clone(), j)).collect();
        let hashes: Vec<String> = jobs.keys().cloned().collect();
        for hash in store.known(&hashes)? {
            jobs.remove(&hash);
        }
        Ok(jobs.into_values().collect())
    }

    /// The reports of every point, a seed each, from a store that has everything.
    pub fn reports(&self, store: &Store) -> Result<Vec<Vec<RunReport>>, Error> {
        let all: Vec<RunReport> =
            self.jobs().par_iter().map(|job| store.report(&job.hash)).collect::<Result<_, Error>>()?;
        Ok(all.chunks(self.seeds.len().max(1)).map(<[RunReport]>::to_vec).collect())
    }

    /// The unit of a metric; the units, where the platforms of the points have others.
    fn unit(&self, metric: &str) -> String {
        let units: BTreeSet<&str> = self.specs.iter().map(|s| unit_on(metric, &s.platform)).collect();
        units.into_iter().collect::<Vec<_>>().join(" or ")
    }

    /// Refuses a front of figures that cannot be compared: energies of platforms whose units are others.
    pub fn check_front(&self, front: &[String; 2]) -> Result<(), Error> {
        let mixed = front.iter().map(|name| (name, self.unit(name))).find(|(_, unit)| unit.contains(" or "));
        mixed.map_or(Ok(()), |(name, unit)| {
            Err(Error::Usage(format!(
                "no front of {name}: its unit is {unit}, by the platform; give a sweep to each of these platforms"
            )))
        })
    }

    /// The table, from a store that has everything.
    pub fn table(&self, store: &Store, names: &[String], front: Option<&[String; 2]>) -> Result<Table, Error> {
        let mut rows = Vec::with_capacity(self.points.len());
        for ((point, spec), reports) in self.points.iter().zip(&self.specs).zip(self.reports(store)?) {
            let axes = self.axes.iter().cloned().zip(point.iter().cloned()).collect();
            let metrics = names.iter().map(|name| (name.clone(), Figure::of(name, &reports))).collect();
            let unfinished = reports.iter().filter(|r| r.is_cut(spec)).count();
            let deadlock = Deadlock::of(&reports);
            rows.push(Row { axes, hash: spec.hash(), metrics, front: false, deadlock, unfinished });
        }
        if let Some(of) = front {
            self.check_front(of)?;
            let low = |row: &Row, name: &String| {
                row.metrics.get(name).and_then(|f| f.mean).map_or(f64::NAN, |m| metrics::better(name).as_low(m))
            };
            let values: Vec<[f64; 2]> = rows.iter().map(|r| [low(r, &of[0]), low(r, &of[1])]).collect();
            pareto(&values).into_iter().for_each(|i| rows[i].front = true);
        }
        Ok(Table {
            schema: "wattif.sweep/1",
            model: MODEL,
            axes: self.axes.clone(),
            units: names.iter().map(|name| (name.clone(), self.unit(name))).collect(),
            seeds: self.seeds.clone(),
            spec: self.used_json(),
            points: rows,
        })
    }

    fn used_json(&self) -> Used {
        let platforms = self.each(|s| &s.platform.name);
        let trust = |s: &&RunSpec| (s.platform.name.clone(), text::trust_lines(&s.platform));
        Used {
            platforms: platforms.iter().map(|s| s.platform.name.clone()).collect(),
            kernels: self.each(|s| &s.kernel.name).iter().map(|s| s.kernel.name.clone()).collect(),
            workload: self.specs[0].workload.name.clone(),
            duration_s: self.duration().map(Ns::as_s_f64),
            set: self.set.clone(),
            trust: platforms.iter().map(trust).collect(),
        }
    }

    /// The first point of each name.
    fn each(&self, name: impl Fn(&RunSpec) -> &String) -> Vec<&RunSpec> {
        let mut seen = BTreeSet::new();
        self.specs.iter().filter(|s| seen.insert(name(s))).collect()
    }

    /// Of each run, where all points have the same.
    fn duration(&self) -> Option<Ns> {
        let first = self.specs[0].duration;
        self.specs.iter().all(|s| s.duration == first).then_some(first)
    }

    /// The lines that name what was swept: workload, platforms, kernels, settings.
    pub fn used(&self) -> String {
        let first = &self.specs[0];
        let ends = self.specs.iter().all(|s| s.workload.ends_by_itself());
        let duration = self.duration().map_or("as long as each point says".into(), |d| told_length(ends, d.as_s_f64()));
        let mut out = format!("workload  {}: {duration}, {}\n", first.workload.name, text::seeds(&self.seeds));
        for s in self.each(|s| &s.platform.name) {
            out += &format!("platform  {}: {}\n", s.platform.name, s.platform.title);
        }
        for s in self.each(|s| &s.kernel.name) {
            out += &format!("kernel    {}: {}\n", s.kernel.name, s.kernel.title);
        }
        self.set.iter().for_each(|(path, value)| out += &format!("set       {path} = {value}\n"));
        out
    }

    /// How far to trust each platform.
    pub fn trust(&self) -> String {
        match self.each(|s| &s.platform.name).as_slice() {
            [one] => text::trust_section("it", &one.platform),
            several => several.iter().map(|s| text::trust_section(&s.platform.name, &s.platform)).collect(),
        }
    }
}

/// `wattif.sweep/1`.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    schema: &'static str,
    model: &'static str,
    /// Names of the axes.
    pub axes: Vec<String>,
    /// Metric → unit; empty for counts.
    pub units: BTreeMap<String, String>,
    /// Seeds of every point.
    pub seeds: Vec<u64>,
    /// What is the same at all points, and of what they are made.
    pub spec: Used,
    /// In the order of the plan.
    pub points: Vec<Row>,
}

/// What was swept, and how far to trust it.
#[derive(Clone, Debug, Serialize)]
pub struct Used {
    /// Names, in the order of the points.
    pub platforms: Vec<String>,
    /// Names, in the order of the points.
    pub kernels: Vec<String>,
    /// Name of the workload.
    pub workload: String,
    /// Length of each run, s; `None`: it differs from point to point.
    pub duration_s: Option<f64>,
    /// Settings of all points.
    pub set: BTreeMap<String, String>,
    /// Platform → what is measured, estimated or calibrated.
    pub trust: BTreeMap<String, Vec<String>>,
}

/// One point.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Axis → value.
    pub axes: BTreeMap<String, String>,
    /// Hash of the run with the first seed.
    pub hash: String,
    /// Metric → figure.
    pub metrics: BTreeMap<String, Figure>,
    /// No other point is better in both metrics of the front.
    pub front: bool,
    /// Threads blocked for ever; `None`: in no run.
    pub deadlock: Option<Deadlock>,
    /// So many of its runs were cut off before their work was done.
    pub unfinished: usize,
}

/// A metric over the seeds of a point.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figure {
    /// `None`: a run has no such figure.
    pub mean: Option<f64>,
    /// 95 % BCa interval; `None`: too few seeds.
    pub ci95: Option<[f64; 2]>,
}

impl Figure {
    /// Of a metric, over these runs.
    pub fn of(name: &str, reports: &[RunReport]) -> Figure {
        let values: Option<Vec<f64>> = reports.iter().map(|r| r.metric(name, None)).collect();
        Figure { mean: values.as_deref().map(mean), ci95: values.as_deref().and_then(bca_mean) }
    }
}

/// Run a spec given as canonical text, anywhere, until the end or until `stop` is set: what the store wants to know of it.
pub fn execute(canonical: &str, stop: &AtomicBool) -> Result<Finished, Error> {
    let spec: RunSpec = serde_json::from_str(canonical).map_err(|e| Error::Usage(format!("no RunSpec: {e}")))?;
    finish(&spec, run_until(&spec, stop)?)
}

fn finish(spec: &RunSpec, outcome: Outcome) -> Result<Finished, Error> {
    Finished::new(spec.hash(), outcome.summary.digest, &outcome.report)
}

/// Run these on all cores. Each is stored as soon as it is finished; the first error ends it, and what was stored stays.
pub fn run_local(jobs: &[Job], store: &Store, done: Done<'_>) -> Result<(), Error> {
    let gate = Gate::new(done);
    // Two processes on the same store begin at different places, so that they rarely do the same.
    let begin = if jobs.is_empty() { 0 } else { std::process::id() as usize * 7919 % jobs.len() };
    let order: Vec<&Job> = jobs[begin..].iter().chain(&jobs[..begin]).collect();
    order.par_iter().with_max_len(1).try_for_each(|job| {
        gate.pass(|| match store.known(std::slice::from_ref(&job.hash))?.is_empty() {
            true => store.insert(&finish(&job.spec, run(&job.spec, &mut [])?)?),
            false => Ok(()), // another process was faster
        })
    })
}
