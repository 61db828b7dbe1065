//! Entries of the gallery: reading one, and running what it plans.

use crate::data;
use crate::error::{Error, Findings, nearest};
use crate::load;
use crate::run::{Done, run_all};
use crate::settings::Settings;
use std::collections::BTreeSet;
use std::path::Path;
use wattif_formats::rtapp::Dialect;
use wattif_lab::experiment::{Arm, Experiment, Overrides, Plan, Results, Variant};
use wattif_lab::metrics::offered;
use wattif_model::Ns;
use wattif_model::run::RunSpec;

/// An experiment and where its files lie.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its content.
    pub experiment: Experiment,
    /// As it was asked for: a name, `gallery/NAME`, or a folder.
    pub folder: String,
}

/// Read an experiment: its name in the gallery, `gallery/NAME`, or a folder with an `experiment.toml`.
pub fn load(folder: &str) -> Result<Entry, Error> {
    let source = data::experiment_file(folder, "experiment.toml")?;
    let name = Path::new(folder.trim_end_matches('/')).file_name().and_then(|n| n.to_str()).unwrap_or(folder);
    let parsed = Experiment::parse(name, &source.text);
    let refused =
        |diagnostics| Error::Input(Findings { name: source.name.clone(), text: source.text.clone(), diagnostics });
    Ok(Entry { experiment: parsed.map_err(refused)?, folder: folder.to_string() })
}

/// The entry that a workload's name stands for: `gallery/NAME`.
pub fn named(workload: &str) -> Option<Result<Entry, Error>> {
    let name = workload.strip_prefix("gallery/")?.trim_end_matches('/');
    data::experiments().contains(&name).then(|| load(workload))
}

impl Entry {
    /// What to run for an arm, with the first seed.
    pub fn spec(&self, arm: &Arm) -> Result<RunSpec, Error> {
        let mut settings = Settings::default();
        arm.set.iter().for_each(|(path, value)| settings.add(path, &value.to_string()));
        let mut platform = load::platform(&arm.platform, &settings)?.value;
        let kernel = load::kernel_for(&arm.kernel, Some(&platform), &settings)?.value;
        let read = match load::named_model(&arm.workload) {
            Some(_) => load::workload(&arm.workload, &platform, self.dialect()?, &settings)?,
            None => {
                let source = data::experiment_file(&self.folder, &arm.workload)?;
                load::parse_workload(source, platform.nr_cpus(), self.dialect()?, &settings)?
            }
        };
        platform.calibration_cpu = read.value.calibration_cpu.unwrap_or(platform.calibration_cpu);
        let workload = read.value.workload;
        let duration = arm.duration.or(self.experiment.duration).unwrap_or_else(|| load::default_duration(&workload));
        Ok(RunSpec { platform, workload, kernel, seed: 1, duration })
    }

    /// Arms, such as `linux-5.6+teo` and `linux-5.6+weighted`, under those names, for whoever compares them or asks why they
    /// differ; on the experiment's first platform unless another is named.
    pub fn arms(
        &self,
        names: &[impl AsRef<str>],
        platform: Option<&str>,
        duration: Option<Ns>,
        seed: u64,
    ) -> Result<Vec<RunSpec>, Error> {
        let platform = platform.unwrap_or(&self.experiment.platforms[0]);
        let arm = |name: &str| -> Result<RunSpec, Error> {
            let mut spec =
                self.spec(&self.experiment.resolve(name, platform, &Overrides::new()).map_err(Error::Usage)?)?;
            spec.kernel.name = name.to_string();
            Ok(RunSpec { seed, duration: duration.unwrap_or(spec.duration), ..spec })
        };
        names.iter().map(|name| arm(name.as_ref())).collect()
    }

    /// The arms that may be compared with each other: the kernels; where there is but one, it and those variants that change
    /// nothing but the kernel.
    pub fn comparable(&self) -> Vec<String> {
        let e = &self.experiment;
        let mut names = e.kernels.clone();
        if names.len() == 1 {
            let of_kernel = |path: &str| !path.starts_with("workload.") && !path.starts_with("platform.");
            let plain = |v: &Variant| v.workload.is_none() && v.duration.is_none();
            let fits = e.variants.iter().filter(|(_, v)| plain(v) && v.set.keys().all(|path| of_kernel(path)));
            names.extend(fits.map(|(name, _)| name.clone()));
        }
        names
    }

    fn dialect(&self) -> Result<Dialect, Error> {
        self.experiment.dialect.as_deref().map_or(Ok(Dialect::default()), load::dialect)
    }

    /// The specs of a plan, arm by arm, seed by seed.
    pub fn specs(&self, plan: &Plan) -> Result<Vec<RunSpec>, Error> {
        let mut specs = Vec::with_capacity(plan.arms.len() * plan.seeds.len());
        for arm in &plan.arms {
            let spec = self.spec(arm)?;
            specs.extend(plan.seeds.iter().map(|&seed| RunSpec { seed, ..spec.clone() }));
        }
        Ok(specs)
    }

    /// Run all of a plan on all cores; `done` is called after each run.
    pub fn run(&self, plan: &Plan, done: Done<'_>) -> Result<Results, Error> {
        let mut outcomes = run_all(&self.specs(plan)?, done)?.into_iter();
        let mut results = Results::default();
        for arm in &plan.arms {
            let reports = outcomes.by_ref().take(plan.seeds.len()).map(|o| o.report).collect();
            results.insert(arm.clone(), reports);
        }
        self.unless_figures(&results)?;
        Ok(results)
    }

    /// Refuses what no run has: a task that there is not, a metric of something that there is not.
    fn unless_figures(&self, results: &Results) -> Result<(), Error> {
        let lacks = |(metric, task): &(&str, Option<&str>)| results.all().all(|r| r.metric(metric, *task).is_none());
        let figures = self.experiment.figures();
        let Some(&(metric, task)) = figures.iter().find(|figure| lacks(figure)) else { return Ok(()) };
        let tasks: BTreeSet<&str> = results.all().flat_map(|r| &r.by_task).map(|t| t.task.as_str()).collect();
        let (what, near) = match task {
            Some(task) if !tasks.contains(task) => (format!("task `{task}`"), nearest(task, tasks)),
            Some(task) => (format!("metric `{metric}` of one task, here `{task}`"), Vec::new()),
            None => (format!("metric `{metric}`"), near_figures(metric, results, tasks)),
        };
        let near = near.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let help = if near.is_empty() { String::new() } else { format!("; did you mean {near}?") };
        Err(Error::Usage(format!("{}: no run has the {what}{help}", self.experiment.name)))
    }
}

/// Figures of these runs that a metric's name may stand for.
fn near_figures(metric: &str, results: &Results, tasks: BTreeSet<&str>) -> Vec<String> {
    const MOST: usize = 64; // of each kind
    let marks: BTreeSet<&str> = results
        .all()
        .flat_map(|r| r.metrics.throughput.keys().chain(r.metrics.frames.keys()))
        .map(String::as_str)
        .collect();
    let groups: BTreeSet<&str> = results.all().flat_map(|r| &r.groups).map(|g| g.path.as_str()).collect();
    let of = |name: String, what: &str, there: &BTreeSet<&str>| match name.contains(what) {
        true => there.iter().take(MOST).map(|one| name.replace(what, one)).collect(),
        false => vec![name],
    };
    let names = offered().into_iter().flat_map(|name| of(name, "<mark>", &marks));
    let names = names.flat_map(|name| of(name, "<task>", &tasks)).flat_map(|name| of(name, "<group>", &groups));
    let names: Vec<String> = names.filter(|n| results.all().any(|r| r.metric(n, None).is_some())).collect();
    nearest(metric, names.iter().map(String::as_str))
}
