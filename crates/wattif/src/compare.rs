//! Running a comparison: every kernel on every seed, and what makes it reproducible.

use crate::error::Error;
use crate::run::{Done, run_all};
use crate::{explain, text};
use std::collections::BTreeMap;
use wattif_lab::compare::{Comparison, fold, headline_metrics};
use wattif_lab::explain::switches;
use wattif_lab::metrics::RunReport;
use wattif_model::run::RunSpec;

/// Reports and digests, a list per kernel, a seed each.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    reports: Vec<Vec<RunReport>>,
    digests: Vec<Vec<String>>,
}

impl Runs {
    /// Runs of these seeds under every kernel, on all cores; `done` is called after each.
    pub fn simulate(specs: &[RunSpec], seeds: &[u64], done: Done<'_>) -> Result<Runs, Error> {
        let all: Vec<RunSpec> =
            specs.iter().flat_map(|s| seeds.iter().map(|&seed| RunSpec { seed, ..s.clone() })).collect();
        let mut outcomes = run_all(&all, done)?.into_iter();
        let mut runs = Runs::default();
        for _ in specs {
            let of = outcomes.by_ref().take(seeds.len()).map(|o| (o.report, o.summary.digest));
            let (reports, digests) = of.unzip();
            runs.reports.push(reports);
            runs.digests.push(digests);
        }
        Ok(runs)
    }

    /// More seeds of the same kernels.
    pub fn add(&mut self, more: Runs) {
        if self.reports.is_empty() {
            *self = more;
            return;
        }
        self.reports.iter_mut().zip(more.reports).for_each(|(all, more)| all.extend(more));
        self.digests.iter_mut().zip(more.digests).for_each(|(all, more)| all.extend(more));
    }

    /// Runs of each kernel.
    pub fn seeds(&self) -> usize {
        self.reports.first().map_or(0, Vec::len)
    }

    /// The headline metrics, and those that are `named`.
    pub fn compared(
        &self,
        specs: &[RunSpec],
        set: BTreeMap<String, String>,
        seeds: &[u64],
        named: &[String],
    ) -> Comparison {
        let kernels = names(specs);
        let mut names = headline_metrics(&self.reports, specs[0].workload.ends_by_itself());
        for name in named {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        let cut = |(spec, of): (&RunSpec, &Vec<RunReport>)| of.iter().filter(|r| r.is_cut(spec)).count();
        let unfinished = specs.iter().zip(&self.reports).map(cut).collect();
        Comparison { unfinished, ..fold(self.spec_json(specs, set, seeds), &kernels, &names, &self.reports) }
    }

    fn spec_json(&self, specs: &[RunSpec], set: BTreeMap<String, String>, seeds: &[u64]) -> serde_json::Value {
        let spec = &specs[0];
        let hashes: Vec<String> = specs.iter().map(RunSpec::hash).collect();
        // One digest per kernel: of the digests of its runs, in the order of the seeds.
        let one = |of: &Vec<String>| blake3::hash(of.join("\n").as_bytes()).to_hex()[..16].to_string();
        serde_json::json!({
            "version": env!("CARGO_PKG_VERSION"),
            "platform": spec.platform.name,
            "workload": spec.workload.name,
            "duration_s": spec.duration.as_s_f64(),
            "seeds": seeds,
            "set": set,
            "hashes_of_first_seed": hashes,
            "digests": self.digests.iter().map(one).collect::<Vec<_>>(),
            "content": specs,
            "trust": text::trust_lines(&spec.platform),
        })
    }
}

/// The kernels' names. One that is there twice says what is changed in it: `linux-6.12+cpuidle=teo`.
pub fn names(specs: &[RunSpec]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (i, spec) in specs.iter().enumerate() {
        let plain = &spec.kernel.name;
        let changed = specs[..i].iter().find(|s| s.kernel.name == *plain).map(|first| changes(first, spec));
        let mut name = changed.map_or(plain.clone(), |changes| format!("{plain}{changes}"));
        if names.contains(&name) {
            name += &format!(" ({})", i + 1);
        }
        names.push(name);
    }
    names
}

/// Two changes at most by name.
fn changes(from: &RunSpec, to: &RunSpec) -> String {
    let found = switches(&explain::view(), &from.kernel, &to.kernel);
    let change = |text: &str| {
        let (what, values) = text.split_once(": ").unwrap_or((text, ""));
        format!("+{what}={}", values.rsplit(" → ").next().unwrap_or_default())
    };
    match found.len() {
        0..=2 => found.iter().map(|s| change(&s.name)).collect(),
        n => format!("+{n} changes"),
    }
}

/// A comparison for a patch's cover letter: what was run, with the hash of each kernel's spec and the digest of its runs, the
/// `command` that makes them again, the table, and how far to trust it.
pub fn cover_letter(comparison: &Comparison, specs: &[RunSpec], seeds: &[u64], command: &str) -> String {
    let set = serde_json::from_value(comparison.spec["set"].clone()).unwrap_or_default();
    let mut out = format!("```text\n{}", used(comparison, specs, &set, seeds));
    let said = |what: &str, k: usize| comparison.spec[what][k].as_str().unwrap_or_default().to_string();
    for (k, name) in comparison.kernels.iter().enumerate() {
        let (spec, digest) = (said("hashes_of_first_seed", k), said("digests", k));
        out += &format!("spec      {spec} ({name}, seed {})\ndigest    {digest} ({name}, all seeds)\n", seeds[0]);
    }
    let version = env!("CARGO_PKG_VERSION");
    out += &format!("wattif    {version}\nagain     {command}\n```\n\n{}", comparison.to_markdown());
    out + &format!("\nHow far to trust it:\n\n{}", text::trust(&specs[0].platform))
}

/// What was run: the lines above a table.
pub fn used(comparison: &Comparison, specs: &[RunSpec], set: &BTreeMap<String, String>, seeds: &[u64]) -> String {
    let mut out = text::used(&specs[0], set, &text::seeds(seeds));
    for (name, spec) in comparison.kernels.iter().zip(specs).skip(1) {
        out += &format!("kernel    {name}: {}\n", spec.kernel.title);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Asked;
    use crate::{Dialect, Settings};
    use wattif_model::Ns;

    fn spec(kernel: &str, set: &[&str]) -> RunSpec {
        let asked = Asked {
            workload: "server".into(),
            platform: "hikey620".into(),
            kernel: kernel.into(),
            settings: Settings::parse(set).unwrap(),
            seed: 7,
            duration: Some(Ns::from_ms(20)),
            dialect: Dialect::Workgen,
        };
        asked.spec().unwrap().0
    }

    #[test]
    fn a_name_that_is_there_twice_says_what_is_changed() {
        let sets: [&[&str]; 4] = [&[], &["cpuidle=teo"], &["cpufreq=performance", "features.WA_BIAS=false"], &[]];
        let specs = sets.map(|set| spec("linux-6.12", set));
        let expect = ["linux-6.12", "linux-6.12+cpuidle=teo", "linux-6.12+cpufreq=performance+WA_BIAS=false"];
        assert_eq!(names(&specs)[..3], expect);
        assert_eq!(names(&specs)[3], "linux-6.12 (4)");
        let many = spec("linux-6.12", &["cpuidle=teo", "cpufreq=performance", "features.WA_BIAS=false"]);
        assert_eq!(names(&[specs[0].clone(), many])[1], "linux-6.12+3 changes");
    }

    #[test]
    fn a_cover_letter_says_what_reproduces_it() {
        let specs = [spec("linux-5.3", &[]), spec("linux-5.6", &[])];
        let runs = Runs::simulate(&specs, &[7, 8], &|| true).unwrap();
        let comparison = runs.compared(&specs, BTreeMap::from([("a".into(), "b".into())]), &[7, 8], &[]);
        let letter = cover_letter(&comparison, &specs, &[7, 8], "wattif compare …");
        let digest = comparison.spec["digests"][1].as_str().unwrap();
        let hash = specs[1].hash();
        for part in ["seeds 7 to 8", "again     wattif compare …", "set       a = b", digest, &hash, "| metric |"] {
            assert!(letter.contains(part), "{part} is missing in\n{letter}");
        }
    }
}
