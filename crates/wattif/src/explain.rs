//! Running what an explanation asks for: both sides with listeners, the stretch in which they part once more, and every mix of
//! the two profiles.

use crate::error::{Error, Findings};
use crate::run::{Done, Gate, Simulator};
use crate::{data, run, text};
use rayon::prelude::*;
use std::collections::BTreeMap;
use wattif_lab::explain::{
    Bisection, Decisions, EnergyBy, Explanation, Findings as Found, KernelView, Parting, Recorder, Shares, Switch,
    Waits, combinations, parting, switches,
};
use wattif_lab::metrics::RunReport;
use wattif_lab::table::cell;
use wattif_model::Ns;
use wattif_model::check::Diagnostic;
use wattif_model::kernel::{KernelSpec, Slot};
use wattif_model::run::{RunSpec, Runner};
use wattif_model::trace::Observer;
use wattif_sim::registry;
use wattif_sim::sched::features::Features;

/// What the shares of an explanation, or the walk of a bisection, are computed from.
#[derive(Clone, Debug)]
pub struct Reruns {
    /// So many seeds, from that of the runs on; 0: none.
    pub seeds: u64,
    /// At most this long each. `None`: until the work is done, where the workload ends by itself and that was before the end of both
    /// runs; a second elsewhere.
    pub duration: Option<Ns>,
    /// Which metrics.
    pub metrics: Vec<String>,
}

impl Reruns {
    /// None are made.
    pub fn none() -> Reruns {
        Reruns { seeds: 0, duration: None, metrics: Vec::new() }
    }

    /// How long they are, where the work of both runs was `done`: other seeds and mixes may take longer than these two did.
    fn length(&self, spec: &RunSpec, done: bool) -> Ns {
        const SHORT: Ns = Ns(1_000_000_000);
        self.duration.unwrap_or(if done { spec.duration } else { SHORT }).min(spec.duration)
    }
}

/// A walk from one profile to another.
#[derive(Clone, Debug)]
pub struct Bisected {
    /// Of each metric that all runs have.
    pub found: Vec<Bisection>,
    /// How long each run is at most.
    pub length: Ns,
    /// Metrics that runs lack, and runs that were cut off.
    pub notes: Vec<String>,
}

/// Runs of mixed profiles.
struct Mixed {
    /// Reports, `[profile][seed]`.
    reports: Vec<Vec<RunReport>>,
    /// What is to be known of them.
    notes: Vec<String>,
}

/// Explain two runs of the same workload on the same platform. `done` is called with the runs made and the runs in all.
pub fn explain(specs: [&RunSpec; 2], reruns: &Reruns, done: Done<'_>) -> Result<Explanation, Error> {
    same_inputs(specs[0], specs[1])?;
    run::seeds(specs[0].seed, reruns.seeds)?; // refused before anything is run
    let (a, b) = rayon::join(|| listen(specs[0]), || listen(specs[1]));
    let ((found_a, decided_a, report_a), (found_b, decided_b, report_b)) = (a?, b?);
    let mut explanation = Explanation::new(specs, [&found_a, &found_b]);
    if let Some(stretch) = decided_a.first_difference(&decided_b)
        && let Some((parting, names)) = part(specs, stretch)?
    {
        explanation.set_first(specs, &parting, &names);
    }
    if reruns.seeds > 0 && explanation.a.digest != explanation.b.digest {
        let reports = [&report_a, &report_b];
        let length = reruns.length(specs[0], reports.iter().all(|r| was_done(specs[0], r)));
        explanation.shares_of = Some((reruns.seeds, length.as_s_f64()));
        match shares(specs, reruns, length, done) {
            Ok((shares, notes)) => {
                explanation.notes = notes;
                explanation.notes.extend(shares.iter().filter_map(|s| other_way(s, reports)));
                explanation.shares = shares;
            }
            Err(Error::Run(why)) => explanation.shares_note = Some(why.to_string()),
            Err(other) => return Err(other),
        }
    }
    explanation.trust = text::trust_lines(&specs[0].platform);
    explanation.summarize();
    Ok(explanation)
}

/// Did the workload end by itself?
fn was_done(spec: &RunSpec, report: &RunReport) -> bool {
    spec.workload.ends_by_itself() && report.metrics.duration_s < spec.duration.as_s_f64()
}

/// That shares are of a difference that goes the other way than that of the two runs.
fn other_way(shares: &Shares, reports: [&RunReport; 2]) -> Option<String> {
    let [a, b] = reports.map(|r| r.metric(&shares.metric, None));
    let told = b? - a?;
    (told * shares.difference < 0.0).then(|| {
        let way = |d: f64| format!("{}{}", if d > 0.0 { "+" } else { "−" }, cell(d.abs()));
        let (metric, told, shared) = (&shares.metric, way(told), way(shares.difference));
        format!(
            "{metric} differs by {shared} in these runs, and by {told} in the two above: it is shared out the other way"
        )
    })
}

/// One side, with everybody who listens.
fn listen(spec: &RunSpec) -> Result<(Found, Decisions, RunReport), Error> {
    let mut energy = EnergyBy::new(&spec.platform);
    let mut waits = Waits::new(&spec.platform, &spec.workload.groups);
    let mut decisions = Decisions::new(spec.duration);
    let run::Outcome { summary, report, .. } = run::run(spec, &mut [&mut energy, &mut waits, &mut decisions])?;
    let energy = energy.split();
    assert_eq!(energy.total(), summary.energy.total(), "the split sums to the machine's own integral");
    let found = Found {
        digest: summary.digest,
        slices: summary.slices,
        energy,
        waits: waits.split(),
        end_s: summary.end.as_s_f64(),
        unfinished: report.is_cut(spec),
    };
    Ok((found, decisions, report))
}

/// The decisions of a stretch, and who the threads are.
type Parted = Option<(Parting, BTreeMap<u32, String>)>;

/// Run up to the end of the stretch again, keeping its decisions.
fn part(specs: [&RunSpec; 2], (from, to): (Ns, Ns)) -> Result<Parted, Error> {
    let keep = |spec: &RunSpec, to: Ns| {
        let mut recorder = Recorder::from(from);
        let short = RunSpec { duration: to.min(spec.duration), ..spec.clone() };
        Simulator.run(&short, &mut [&mut recorder as &mut dyn Observer]).map(|_| recorder)
    };
    let find = |to: Ns| -> Result<Parted, Error> {
        let (a, b) = rayon::join(|| keep(specs[0], to), || keep(specs[1], to));
        let (a, b) = (a?, b?);
        Ok(parting(&a.kept, &b.kept).map(|p| (p, a.names)))
    };
    // A policy that knows the future sees less of it in a shorter run; then only the whole run shows the place.
    match find(to)? {
        None => find(specs[0].duration),
        found => Ok(found),
    }
}

/// What `lab` asks about profiles.
pub(crate) fn view() -> KernelView<'static> {
    fn slot_of(policy: &str) -> Option<Slot> {
        registry::policy(policy).map(|p| p.slot)
    }
    fn default_of(name: &str) -> Option<String> {
        let feature = Features::ALL.iter().find(|(n, _)| *n == name).map(|(_, on)| on.to_string());
        let tunable = || Some(registry::policy(name.split('.').next()?)?.tunable(name.split_once('.')?.1)?.default);
        feature.or_else(|| tunable().map(String::from))
    }
    KernelView { slot_of: &slot_of, default_of: &default_of }
}

/// Profiles that do something of their own, and which of these each profile is.
fn distinct(kernels: &[KernelSpec]) -> (Vec<&KernelSpec>, Vec<usize>) {
    let does = |k: &KernelSpec| (k.policies.clone(), k.tunables.clone(), k.features.clone());
    let mut unique: Vec<&KernelSpec> = Vec::new();
    let place = |k| {
        unique.iter().position(|u| does(u) == does(k)).unwrap_or_else(|| {
            unique.push(k);
            unique.len() - 1
        })
    };
    let index = kernels.iter().map(place).collect();
    (unique, index)
}

/// How many runs the shares of an explanation take.
pub fn share_runs(a: &KernelSpec, b: &KernelSpec, reruns: &Reruns) -> u64 {
    distinct(&combinations(&view(), a, b).1).0.len() as u64 * reruns.seeds
}

/// All profiles on all seeds, each run cut to `length`; profiles that do the same are run once.
fn mixed(spec: &RunSpec, kernels: &[KernelSpec], reruns: &Reruns, length: Ns, done: Done<'_>) -> Result<Mixed, Error> {
    let (unique, index) = distinct(kernels);
    let seeds = run::seeds(spec.seed, reruns.seeds)?;
    let jobs: Vec<(usize, u64)> = (0..unique.len()).flat_map(|k| seeds.iter().map(move |&s| (k, s))).collect();
    let gate = Gate::new(done);
    let short = RunSpec { duration: length, ..spec.clone() };
    let one = |&(k, seed): &(usize, u64)| {
        let mix = RunSpec { kernel: unique[k].clone(), seed, ..short.clone() };
        gate.pass(|| run::run(&mix, &mut []).map(|o| o.report))
    };
    let all: Vec<RunReport> = jobs.par_iter().map(one).collect::<Result<_, Error>>()?;
    let reports: Vec<Vec<RunReport>> =
        index.into_iter().map(|k| all[k * seeds.len()..(k + 1) * seeds.len()].to_vec()).collect();
    let cut = all.iter().filter(|r| r.is_cut(&short)).count();
    let told = || {
        let (all, option) = (all.len(), if length < spec.duration { "--rerun" } else { "--duration" });
        let length = cell(length.as_s_f64());
        format!(
            "{cut} of {all} runs were not finished after {length} s ({option}): their figures are of a part of the work"
        )
    };
    Ok(Mixed { reports, notes: (cut > 0).then(told).into_iter().collect() })
}

impl Mixed {
    /// A metric of every report, `[profile][seed]`; where one has no such figure, which of the two `kernels`, the first and the
    /// profile at `last`, are without.
    fn figures(&self, metric: &str, kernels: [&str; 2], last: usize) -> Result<Vec<Vec<f64>>, String> {
        let of = |k: usize| self.reports[k].iter().map(|r| r.metric(metric, None)).collect::<Option<Vec<f64>>>();
        let all: Vec<Option<Vec<f64>>> = (0..self.reports.len()).map(of).collect();
        if all.iter().all(Option::is_none) {
            return Err(format!("these runs have no `{metric}`"));
        }
        let lacking: Vec<&str> =
            [0, last].into_iter().zip(kernels).filter(|(k, _)| all[*k].is_none()).map(|(_, name)| name).collect();
        let told = || text::lack(if lacking.is_empty() { &["a mix of both"] } else { &lacking }, metric);
        all.into_iter().collect::<Option<_>>().ok_or_else(told)
    }

    /// What `of` makes of every metric that all runs have; the others become notes.
    fn each<T>(
        mut self,
        metrics: &[String],
        [a, b]: [&RunSpec; 2],
        last: usize,
        of: impl Fn(&str, Vec<Vec<f64>>) -> T,
    ) -> (Vec<T>, Vec<String>) {
        let mut made = Vec::new();
        for metric in metrics {
            match self.figures(metric, [&a.kernel.name, &b.kernel.name], last) {
                Ok(values) => made.push(of(metric, values)),
                Err(lacking) => self.notes.push(lacking),
            }
        }
        (made, self.notes)
    }
}

/// Shares of every metric, and what is to be known of them.
fn shares(
    specs: [&RunSpec; 2],
    reruns: &Reruns,
    length: Ns,
    done: Done<'_>,
) -> Result<(Vec<Shares>, Vec<String>), Error> {
    let (parts, kernels) = combinations(&view(), &specs[0].kernel, &specs[1].kernel);
    let mixed = mixed(specs[0], &kernels, reruns, length, done)?;
    let of = |metric: &str, by_kernel: Vec<Vec<f64>>| {
        let by_seed: Vec<Vec<f64>> =
            (0..reruns.seeds as usize).map(|s| by_kernel.iter().map(|values| values[s]).collect()).collect();
        Shares::of(metric, &parts, &by_seed)
    };
    Ok(mixed.each(&reruns.metrics, specs, kernels.len() - 1, of))
}

/// Walk from one profile to the other, a switch at a time; the walk of each metric that the runs have.
pub fn bisect(specs: [&RunSpec; 2], reruns: &Reruns, done: Done<'_>) -> Result<Bisected, Error> {
    same_inputs(specs[0], specs[1])?;
    let whole = || -> Result<bool, Error> {
        let (a, b) = rayon::join(|| run::run(specs[0], &mut []), || run::run(specs[1], &mut []));
        Ok(was_done(specs[0], &a?.report) && was_done(specs[1], &b?.report))
    };
    let open = reruns.duration.is_none() && specs[0].workload.ends_by_itself();
    let length = reruns.length(specs[0], open && whole()?);
    let (a, b) = (&specs[0].kernel, &specs[1].kernel);
    let found: Vec<Switch> = switches(&view(), a, b);
    let mut kernels = vec![a.clone()];
    for switch in &found {
        let mut next = kernels.last().expect("begins with a").clone();
        switch.apply(&mut next);
        kernels.push(next);
    }
    for switch in &found {
        let mut alone = a.clone();
        switch.apply(&mut alone);
        kernels.push(alone);
    }
    let mixed = mixed(specs[0], &kernels, reruns, length, done)?;
    let of = |metric: &str, values: Vec<Vec<f64>>| {
        let (walk, alone) = values.split_at(found.len() + 1);
        Bisection::of(metric, &found, walk, alone)
    };
    let (found, notes) = mixed.each(&reruns.metrics, specs, found.len(), of);
    Ok(Bisected { found, length, notes })
}

/// How many runs [`bisect`] makes at most.
pub fn bisect_runs(a: &KernelSpec, b: &KernelSpec, reruns: &Reruns) -> u64 {
    (2 * switches(&view(), a, b).len() as u64 + 1) * reruns.seeds
}

/// Refuses runs that differ in more than the kernel, and says in what.
pub fn same_inputs(a: &RunSpec, b: &RunSpec) -> Result<(), Error> {
    let differences = wattif_lab::compare::unlike(a, b);
    if differences.is_empty() {
        return Ok(());
    }
    const SHOWN: usize = 8;
    let more = differences.len().saturating_sub(SHOWN);
    let mut text = "these runs differ in more than the kernel, so no difference could be put down to it:\n".to_string();
    differences.iter().take(SHOWN).for_each(|d| text += &format!("  {d}\n"));
    if more > 0 {
        text += &format!("  … and {more} more\n");
    }
    Err(Error::Usage(text.trim_end().to_string()))
}

/// The spec of a run that `wattif run --json` wrote, and its digest.
pub fn run_file(path: &str) -> Result<(RunSpec, String), Error> {
    let source = data::read(path)?;
    let refused = |span: std::ops::Range<usize>, why: String, help: &str| {
        let diagnostics = vec![Diagnostic::error("run::E01", span, why).help(help.to_string())];
        Error::Input(Findings { name: source.name.clone(), text: source.text.clone(), diagnostics })
    };
    const HELP: &str = "a run file is what `wattif run … --json > A.json` prints";
    let json: serde_json::Value = serde_json::from_str(&source.text).map_err(|e| {
        let line: usize = source.text.split_inclusive('\n').take(e.line().saturating_sub(1)).map(str::len).sum();
        let at = (line + e.column().saturating_sub(1)).min(source.text.len());
        refused(at..at, format!("not JSON: {e}"), HELP)
    })?;
    if json["schema"] != "wattif.run/1" {
        return Err(refused(0..0, format!("its schema is {}, not \"wattif.run/1\"", json["schema"]), HELP));
    }
    let spec: RunSpec = serde_json::from_value(json["spec"]["content"].clone())
        .map_err(|e| refused(0..0, format!("its spec.content is no run: {e}"), HELP))?;
    if json["spec"]["hash"] != spec.hash().as_str() {
        let why = "its spec.content does not have its spec.hash: it was edited, or written by another version";
        return Err(refused(0..0, why.into(), "run it again with `wattif run … --json`"));
    }
    spec.check().map_err(|e| refused(0..0, format!("its spec.content is no run: {e}"), HELP))?;
    Ok((spec, json["digest"].as_str().unwrap_or_default().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load;
    use crate::settings::Settings;
    use wattif_formats::rtapp::Dialect;

    fn spec(kernel: &str, set: &[&str]) -> RunSpec {
        let settings = Settings::parse(set).unwrap();
        let platform = load::platform("hikey620", &settings).unwrap().value;
        let kernel = load::kernel(kernel, &settings).unwrap().value;
        let workload = load::workload("server", &platform, Dialect::Workgen, &settings).unwrap().value.workload;
        RunSpec { platform, workload, kernel, seed: 3, duration: Ns::from_ms(300) }
    }

    fn reruns(seeds: u64) -> Reruns {
        let metrics = ["energy.total", "wakeup_latency_us.mean", "frames.nobody.mean"].map(String::from).into();
        Reruns { seeds, duration: Some(Ns::from_ms(60)), metrics }
    }

    #[test]
    fn splits_sum_to_what_the_metrics_say() {
        let (a, b) = (spec("linux-5.3", &[]), spec("linux-5.6", &[]));
        let e = explain([&a, &b], &reruns(0), &|| true).unwrap();
        let reports = [&a, &b].map(|s| run::run(s, &mut []).unwrap());
        let energy = e.energy.as_ref().unwrap();
        let exact = |i: usize| reports[i].summary.energy.total().0 as i128;
        assert_eq!(energy.difference_fj, exact(1) - exact(0));
        for rows in [&energy.by_state, &energy.by_task] {
            assert_eq!(rows.iter().map(|r| r.difference_fj).sum::<i128>(), energy.difference_fj);
            assert_eq!(rows.iter().map(|r| r.a_fj).sum::<i128>(), exact(0));
        }
        let l = &e.latency;
        assert_eq!(l.bins.iter().map(|b| b.difference_ns).sum::<i128>(), l.difference_ns);
        for (i, report) in reports.iter().enumerate() {
            let latency = &report.report.metrics.wakeup_latency_us;
            assert_eq!(latency.count, l.count[i]);
            let sum_us: u64 = l.bins.iter().map(|b| [b.a_ns, b.b_ns][i]).sum();
            assert!((latency.sum - sum_us as f64 / 1e3).abs() < 1e-6 * latency.sum, "{} {sum_us}", latency.sum);
        }
        assert!(e.summary.len() <= 10 && e.summary.iter().all(|s| s.contains(|c: char| c.is_ascii_digit())));
        let first = e.first.as_ref().unwrap();
        assert!(first.a.is_some() || first.b.is_some());
    }

    #[test]
    fn shares_and_steps_sum_to_the_difference() {
        let (a, b) = (spec("linux-5.3", &[]), spec("linux-5.3", &["cpufreq=performance", "cpuidle=teo"]));
        let e = explain([&a, &b], &reruns(3), &|| true).unwrap();
        assert_eq!(e.shares.len(), 2, "the third metric exists in no run");
        assert_eq!(e.notes[0], "these runs have no `frames.nobody.mean`");
        for s in &e.shares {
            assert_eq!(s.shares.len(), 3);
            let sum: f64 = s.shares.iter().map(|s| s.value).sum();
            assert!((sum - s.difference).abs() < 1e-9 * s.difference.abs().max(1.0), "{s:?}");
            assert_eq!(s.shares[0].value, 0.0, "placement is the same in both");
        }
        let steps = bisect([&a, &b], &reruns(3), &|| true).unwrap().found;
        let names: Vec<&str> = steps[0].steps.iter().map(|s| s.switch.as_str()).collect();
        assert_eq!(names, ["cpufreq: schedutil → performance", "cpuidle: menu → teo"]);
        assert!((steps[0].difference - e.shares[0].difference).abs() < 1e-9);
        assert!(steps[0].steps[0].carries);
    }

    /// Reruns take as long as the work does, unless it is said how long they are; what was cut, and what goes the other way, is told.
    #[test]
    fn reruns_of_work_that_ends() {
        let long = RunSpec { duration: Ns::from_ms(5000), ..spec("linux-5.3", &[]) };
        let length = |duration, done| Reruns { duration, ..reruns(2) }.length(&long, done);
        assert_eq!([length(None, true), length(None, false)], [Ns::from_ms(5000), Ns::from_ms(1000)]);
        assert_eq!(
            [length(Some(Ns::from_ms(60)), true), length(Some(Ns(u64::MAX)), false)],
            [60, 5000].map(Ns::from_ms)
        );
        let settings = Settings::default();
        let read = load::workload("hackbench:groups=1,loops=20", &long.platform, Dialect::Workgen, &settings);
        let a = RunSpec { workload: read.unwrap().value.workload, ..long };
        let b = RunSpec { kernel: spec("linux-5.3", &["cpufreq=performance"]).kernel, ..a.clone() };
        let of = |duration| explain([&a, &b], &Reruns { duration, ..reruns(2) }, &|| true).unwrap();
        let whole = of(None);
        assert_eq!(whole.shares_of, Some((2, 5.0)));
        assert!(!whole.notes.iter().any(|n| n.contains("not finished")), "{:?}", whole.notes);
        assert!(whole.summary[0].starts_with("Time: "), "{:?}", whole.summary);
        let cut = of(Some(Ns::from_ms(1)));
        assert!(cut.notes[0].contains("4 of 4 runs were not finished after 0.001000 s"), "{:?}", cut.notes);
        let walk = bisect([&a, &b], &Reruns { duration: None, ..reruns(1) }, &|| true).unwrap();
        assert_eq!(walk.length, a.duration);
    }

    #[test]
    fn shares_of_the_other_way_are_told() {
        let report = |migrations| {
            let mut r = RunReport::default();
            r.metrics.migrations = Some(migrations);
            r
        };
        let shares = Shares::of("migrations", &[], &[vec![5.0]]);
        let told = |difference| other_way(&Shares { difference, ..shares.clone() }, [&report(10), &report(30)]);
        assert_eq!(told(2.0), None);
        assert!(told(-4.0).unwrap().starts_with("migrations differs by −4 in these runs, and by +20 in the two above"));
    }

    #[test]
    fn a_run_and_itself() {
        let a = spec("linux-5.6", &[]);
        let e = explain([&a, &a], &reruns(2), &|| true).unwrap();
        assert!(e.first.is_none() && e.shares.is_empty() && e.latency.difference_ns == 0);
        assert!(e.summary[0].starts_with("Both runs are the same"));
    }

    #[test]
    fn other_inputs_are_refused_with_the_difference() {
        let (a, b) = (spec("linux-5.3", &[]), spec("linux-5.6", &["platform.hz=1000"]));
        let why = explain([&a, &b], &reruns(0), &|| true).unwrap_err().to_string();
        assert!(why.contains("platform.hz: 250 and 1000"), "{why}");
        let seed = RunSpec { seed: 9, ..a.clone() };
        assert!(explain([&a, &seed], &reruns(0), &|| true).unwrap_err().to_string().contains("seed: 3 and 9"));
    }
}
