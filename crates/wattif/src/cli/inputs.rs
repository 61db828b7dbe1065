//! The options that say what is run, shared by the verbs that run something.

use super::output;
use crate::error::{Error, Findings, Look};
use crate::files::Files;
use crate::settings::{Settings, duration_ns};
use crate::{experiment, load};
use clap::builder::{PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser};
use std::ops::RangeInclusive;
use wattif_formats::rtapp::{self, Dialect};
use wattif_formats::workload_json;
use wattif_model::Ns;
use wattif_model::check::Severity;
use wattif_model::run::RunSpec;

/// Values of `--dialect`.
pub fn dialects() -> impl TypedValueParser<Value = Dialect> {
    let value = |d: Dialect| match Dialect::ALIAS {
        (alias, of) if of == d => PossibleValue::new(d.name()).help(d.about()).alias(alias),
        _ => PossibleValue::new(d.name()).help(d.about()),
    };
    PossibleValuesParser::new(Dialect::ALL.map(value)).map(|name| Dialect::parse(&name).expect("one of these"))
}

/// A whole number of a range, which is told to whoever writes anything else.
pub fn whole(range: RangeInclusive<u64>) -> impl TypedValueParser<Value = u64> {
    let of = move |text: String| match text.parse() {
        Ok(n) if range.contains(&n) => Ok(n),
        _ => Err(format!("write a whole number from {} to {}", range.start(), range.end())),
    };
    StringValueParser::new().try_map(of)
}

/// Platform, overrides, duration, seed.
#[derive(Debug, clap::Args)]
pub struct Inputs {
    /// Machine: a name (`wattif list platforms`), a TOML file, or - for stdin; hikey960, or that of the experiment.
    #[arg(short, long, value_name = "PLATFORM")]
    pub platform: Option<String>,
    /// Override: policy.tunable=V, slot=policy, features.NAME=true, workload.PATH=V, platform.PATH=V; repeatable.
    #[arg(long, value_name = "PATH=VALUE")]
    pub set: Vec<String>,
    /// Simulated time, such as 5s or 250ms; the workload's own or 10 s by default.
    #[arg(long, value_name = "TIME", value_parser = duration_ns, allow_hyphen_values = true)]
    pub duration: Option<u64>,
    /// Seed of all noise; of the first run where there are several.
    #[arg(long, default_value_t = 1, value_parser = whole(0..=u64::MAX))]
    pub seed: u64,
    /// How rt-app files are read.
    #[arg(long, value_parser = dialects(), default_value = "workgen")]
    pub dialect: Dialect,
}

/// What is to be run: a spec per kernel, all with the first seed.
#[derive(Default)]
pub struct Loaded {
    /// In the order of the kernels.
    pub specs: Vec<RunSpec>,
    /// Overrides.
    pub settings: Settings,
    /// Warnings and notes about all inputs.
    pub findings: Vec<Findings>,
    /// The rt-app file, where the workload is one.
    pub workload_text: Option<String>,
    /// What it says of rt-app's logs.
    pub logs: rtapp::Logs,
}

impl Inputs {
    /// The platform, where no experiment says another.
    pub fn machine(&self) -> &str {
        self.platform.as_deref().unwrap_or("hikey960")
    }

    /// The files of these, and of a workload.
    pub fn files(&self, workload: &str) -> Files {
        Files::default().workload(workload).platform(self.machine())
    }

    /// Two sides of one question: two kernels on a workload, or two arms of an experiment of the gallery.
    pub fn sides(&self, [a, b]: [&str; 2], workload: &str, look: Look) -> Result<[RunSpec; 2], Error> {
        if let Some(entry) = experiment::named(workload) {
            if !self.set.is_empty() {
                return Err(Error::Usage(format!(
                    "{workload} says what is set: its variants are arms, KERNEL+VARIANT"
                )));
            }
            let specs = entry?.arms(&[a, b], self.platform.as_deref(), self.duration.map(Ns), self.seed)?;
            return Ok(specs.try_into().expect("two arms"));
        }
        let specs = self.load(workload, &[a.to_string(), b.to_string()], look)?.specs;
        Ok(specs.try_into().expect("two kernels"))
    }

    /// Read everything; mistakes of all inputs are shown before the first is returned.
    pub fn load(&self, name: &str, kernels: &[String], look: Look) -> Result<Loaded, Error> {
        let platform = self.machine();
        if name == "-" && platform == "-" {
            return Err(Error::Usage("only one of WORKLOAD and -p can be standard input".into()));
        }
        let settings = Settings::parse(&self.set)?;
        let mut findings = Vec::new();
        let platform = load::platform(platform, &settings);
        let machine = platform.as_ref().map_or(usize::MAX.into(), |p| load::Machine::from(&p.value));
        let workload = load::workload(name, machine, self.dialect, &settings);
        let there = platform.as_ref().ok().map(|p| &p.value);
        let kernels: Vec<_> = kernels.iter().map(|k| load::kernel_for(k, there, &settings)).collect();
        let failures = platform.is_err() as usize + workload.is_err() as usize;
        if failures + kernels.iter().filter(|k| k.is_err()).count() > 1 {
            return Err(all_errors(
                platform.err().into_iter().chain(workload.err()).chain(kernels.into_iter().filter_map(Result::err)),
                look,
            ));
        }
        let (mut platform, workload) = (platform?, workload?);
        platform.value.calibration_cpu = workload.value.calibration_cpu.unwrap_or(platform.value.calibration_cpu);
        let duration = self.duration.map_or_else(|| load::default_duration(&workload.value.workload), Ns);
        let text = &workload.findings.text;
        let workload_text = (!text.is_empty() && !workload_json::is(text)).then(|| text.to_string());
        findings.extend([platform.findings, workload.findings]);
        let mut specs = Vec::new();
        for kernel in kernels {
            let mut kernel = kernel?;
            let spec = RunSpec {
                platform: platform.value.clone(),
                workload: workload.value.workload.clone(),
                kernel: kernel.value,
                seed: self.seed,
                duration,
            };
            let here = load::without_effect_here(&spec, &kernel.findings, &settings);
            kernel.findings.diagnostics.extend(here);
            findings.push(kernel.findings);
            specs.push(spec);
        }
        findings.push(load::repeated(&settings));
        for spec in &specs {
            findings.push(load::notes(spec, &settings));
        }
        findings.retain(|f| !f.diagnostics.is_empty());
        for f in &findings {
            output::note(&f.render(look, Severity::Note));
        }
        let settings = load::with_parameters(name, settings);
        Ok(Loaded { specs, settings, findings, workload_text, logs: workload.value.logs })
    }
}

/// Shows all but the last of several errors, and returns that.
fn all_errors(errors: impl Iterator<Item = Error>, look: Look) -> Error {
    let mut errors: Vec<Error> = errors.collect();
    let last = errors.pop().expect("several errors");
    errors.iter().for_each(|e| output::note(&e.render(look)));
    last
}
