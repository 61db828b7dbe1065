//! Names and files to nouns: a platform, a kernel, a workload, each with what its parser had to say.

use crate::data::{self, Collection, Source};
use crate::demand;
use crate::error::{Error, Findings, nearest};
use crate::settings::Settings;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use wattif_formats::rtapp::{self, Dialect, Logs};
use wattif_formats::{kernel_toml, platform_toml, workload_json};
use wattif_model::check::Diagnostic;
use wattif_model::kernel::{KernelSpec, Slot};
use wattif_model::platform::{Cpu, PAGE_KIB, Platform};
use wattif_model::run::RunSpec;
use wattif_model::units::CAPACITY_SCALE;
use wattif_model::workload::Workload;
use wattif_model::workload::models::{self, Model, Param};
use wattif_model::{CpuId, Ns};
use wattif_sim::registry::{self, Refusal};
use wattif_sim::sched::features::Features;
use wattif_sim::sched::placement::cpu_util;

/// A noun, with the warnings and notes its text gave rise to.
#[derive(Clone, Debug)]
pub struct Loaded<T> {
    /// What was read.
    pub value: T,
    /// What there is to say about it; no errors.
    pub findings: Findings,
}

/// A workload and what its file says of the platform.
#[derive(Clone, Debug)]
pub struct LoadedWorkload {
    /// What runs.
    pub workload: Workload,
    /// The CPU at whose full speed `run` counts, where the file names one.
    pub calibration_cpu: Option<CpuId>,
    /// What the file says of rt-app's logs.
    pub logs: Logs,
}

impl From<Workload> for LoadedWorkload {
    fn from(workload: Workload) -> LoadedWorkload {
        LoadedWorkload { workload, calibration_cpu: None, logs: Logs::default() }
    }
}

/// A platform: a built-in name, a path, or `-` for standard input.
pub fn platform(name: &str, settings: &Settings) -> Result<Loaded<Platform>, Error> {
    platform_of(Collection::Platforms.resolve(name)?, settings)
}

/// A platform of a text.
pub fn platform_of(source: Source, settings: &Settings) -> Result<Loaded<Platform>, Error> {
    let parsed = platform_toml::parse(&source.text, &platform_toml::Options { set: settings.platform.clone() });
    loaded(source, parsed.platform, parsed.diagnostics)
}

/// A kernel profile: a built-in name or a path. Parents (`inherits`) are looked up beside the file, then among the built-in ones.
/// As [`kernel_for`] a platform whose idle driver prefers no governor.
pub fn kernel(name: &str, settings: &Settings) -> Result<Loaded<KernelSpec>, Error> {
    kernel_for(name, None, settings)
}

/// A kernel profile for a platform: where neither profiles nor settings name an idle governor, it has the one that the platform's
/// driver prefers, if the kernel heeds that.
pub fn kernel_for(name: &str, platform: Option<&Platform>, settings: &Settings) -> Result<Loaded<KernelSpec>, Error> {
    kernel_of(Collection::Kernels.resolve(name)?, platform, settings)
}

/// A kernel profile of a text, for a platform.
pub fn kernel_of(
    source: Source,
    platform: Option<&Platform>,
    settings: &Settings,
) -> Result<Loaded<KernelSpec>, Error> {
    let folder = Path::new(&source.name).parent().map(Path::to_path_buf).unwrap_or_default();
    let parent = |name: &str| {
        let beside = data::read(&folder.join(format!("{name}.toml")).display().to_string()).ok();
        Collection::Kernels.built_in(name).or(beside).map(|s| s.text.to_string())
    };
    let mut parsed = kernel_toml::parse(&source.text, &parent);
    if let Some(kernel) = &mut parsed.kernel {
        let mut known = registry::check(kernel);
        let mut by_settings = Vec::new();
        for (path, value) in &settings.kernel {
            parsed.diagnostics.extend(kernel_toml::set(kernel, path, value).err());
            let fresh: Vec<_> = registry::check(kernel).into_iter().filter(|m| !known.contains(m)).collect();
            by_settings.extend(fresh.iter().map(|m| (m.clone(), format!("--set {path}={value}: "))));
            known.extend(fresh);
        }
        parsed.diagnostics.extend(name_governor(kernel, platform, settings));
        // A setting may also have put right what the file says.
        let wrong = registry::check(kernel);
        let valid = wrong.is_empty();
        for refusal in wrong {
            let setting = by_settings.iter().find(|(r, _)| *r == refusal).map(|(_, setting)| setting.as_str());
            parsed.diagnostics.push(unregistered(&source.text, refusal.message, setting));
        }
        // What a setting changes can be said of a valid kernel only.
        let set = settings.kernel.iter().filter(|_| valid);
        let idle = set.filter_map(|(path, _)| registry::without_effect(kernel, path));
        parsed.diagnostics.extend(idle.map(|why| Diagnostic::note("kernel::N01", 0..0, format!("--set {why}"))));
        if valid {
            let why = |path: &str| registry::without_effect(kernel, path);
            parsed.diagnostics.extend(own_without_effect(&source.text, parsed.places, settings, why));
        }
    }
    if parsed.kernel.is_none() {
        // What the registry has to say of the rest, so that all mistakes show at once.
        let wrong = registry::check(&parsed.own);
        parsed.diagnostics.extend(wrong.into_iter().map(|refusal| unregistered(&source.text, refusal.message, None)));
        for d in parsed.diagnostics.iter_mut().filter(|d| d.code == "kernel::E09") {
            let there = |name: &str| parent(name).is_some();
            d.help = Some(no_such_parent(parsed.inherits.as_deref().unwrap_or_default(), &source.name, there));
        }
    }
    loaded(source, parsed.kernel, parsed.diagnostics)
}

/// Names the idle governor where nobody has, and tells if that is not what the kernel has elsewhere.
fn name_governor(kernel: &mut KernelSpec, platform: Option<&Platform>, settings: &Settings) -> Option<Diagnostic> {
    let note = |why| Some(Diagnostic::note("kernel::N01", 0..0, why));
    if kernel.policies.contains_key(&Slot::Cpuidle) {
        let set = |(path, _): &&(String, String)| path.ends_with("cpuidle_driver.governor");
        let (path, _) = settings.kernel.iter().find(set)?;
        return note(format!("--set {path} changes nothing: cpuidle is named, and then no driver is asked"));
    }
    let default = registry::default_policy(Slot::Cpuidle);
    let preferred = platform.and_then(|p| Some((registry::preferred_governor(kernel, p)?, &p.name)));
    let governor = preferred.map_or(default, |(governor, _)| governor);
    kernel.policies.insert(Slot::Cpuidle, governor.into());
    let (_, platform) = preferred.filter(|_| governor != default)?;
    note(format!(
        "cpuidle is {governor}, which the idle driver of {platform} prefers; --set cpuidle={default} names another"
    ))
}

/// What to do about a parent that is neither beside the file nor built in.
fn no_such_parent(parent: &str, file: &str, there: impl Fn(&str) -> bool) -> String {
    let name = parent.trim_end_matches(".toml");
    if Path::new(file).with_extension("").ends_with(name) {
        return "that is this file itself; name another one beside it, or a built-in one: `wattif list kernels`".into();
    }
    let last = name.rsplit('/').next().unwrap_or_default();
    if let Some(works) = [name, last].into_iter().find(|other| *other != parent && there(other)) {
        let without = if works == name { "`.toml`" } else { "its folder and `.toml`" };
        return format!("a parent is named without {without}: inherits = \"{works}\"");
    }
    match nearest(parent, Collection::Kernels.names()).as_slice() {
        [] => "name a file beside this one, without `.toml`, or a built-in one: `wattif list kernels`".into(),
        near => format!("beside the file or built in; like it: {}", near.join(", ")),
    }
}

/// What a user's profile sets itself and `why` says to change nothing, each at its place. A setting of the same has its own note;
/// built-in profiles, which also speak for those that inherit from them, have none.
fn own_without_effect(
    text: &str,
    places: BTreeMap<String, Range<usize>>,
    settings: &Settings,
    why: impl Fn(&str) -> Option<String>,
) -> Vec<Diagnostic> {
    if Collection::Kernels.holds(text) {
        return Vec::new();
    }
    let set_anew = |path: &str| settings.kernel.iter().any(|(set, _)| set.ends_with(path));
    let note =
        |(path, at): (String, _)| Some(Diagnostic::note("kernel::N01", at, why(&path).filter(|_| !set_anew(&path))?));
    let mut notes: Vec<Diagnostic> = places.into_iter().filter_map(note).collect();
    notes.sort_by_key(|note| note.span.start);
    notes
}

/// What the profile of a run sets without effect on this platform or in this workload; see [`kernel`] for the rest.
pub fn without_effect_here(spec: &RunSpec, profile: &Findings, settings: &Settings) -> Vec<Diagnostic> {
    let places = kernel_toml::parse(&profile.text, &|_| None).places;
    own_without_effect(&profile.text, places, settings, |path| registry::without_effect_here(spec, path))
}

/// What there is to say of a run as a whole: what the kernel does not know of its machine and workload, and settings without effect.
pub fn notes(spec: &RunSpec, settings: &Settings) -> Findings {
    let set = settings.kernel.iter().filter_map(|(path, _)| registry::without_effect_here(spec, path));
    let notes = registry::notes(spec).into_iter().chain(no_such_kernel(&spec.kernel));
    let notes = notes.chain(set.map(|why| format!("--set {why}")));
    let diagnostics = notes.map(|n| Diagnostic::note("kernel::N01", 0..0, n)).collect();
    Findings { name: spec.kernel.name.clone(), text: "".into(), diagnostics }
}

/// A combination that no kernel was ever built with.
fn no_such_kernel(kernel: &KernelSpec) -> Option<String> {
    let walt = kernel.policies.get(&Slot::Load).is_some_and(|load| load == "walt");
    let generation = kernel.tunables.get("eas.generation").map(ToString::to_string).unwrap_or_default();
    (walt && generation != "4.9").then(|| {
        "no kernel is like this one: its load tracking is walt, which only Android's has (android-4.9-walt), the rest is mainline's"
            .into()
    })
}

/// What is set twice, of which the first has no effect.
pub fn repeated(settings: &Settings) -> Findings {
    let notes = settings.repeated().into_iter().map(|why| Diagnostic::note("kernel::N01", 0..0, why));
    Findings { name: "settings".into(), text: "".into(), diagnostics: notes.collect() }
}

/// A kernel that is there already, with the settings of a user.
pub fn adjusted(mut kernel: KernelSpec, settings: &Settings) -> Result<KernelSpec, Error> {
    for (path, value) in &settings.kernel {
        kernel_toml::set(&mut kernel, path, value).map_err(|d| Error::Usage(d.message))?;
    }
    match registry::check(&kernel).as_slice() {
        [] => Ok(kernel),
        wrong => Err(Error::Usage(Refusal::join(wrong, "; "))),
    }
}

/// A model, and the parameters behind its name: `openmp`, or `openmp:schedule=static,workers=4`.
pub fn named_model(name: &str) -> Option<(&'static Model, Vec<(String, String)>)> {
    let (name, rest) = name.split_once(':').unwrap_or((name, ""));
    let params = rest.split(',').filter(|p| !p.trim().is_empty()).map(|p| {
        let (name, value) = p.split_once('=').unwrap_or((p, ""));
        (name.trim().to_string(), value.trim().to_string())
    });
    Some((models::model(name)?, params.collect()))
}

/// The settings, with the parameters behind a model's name as what they are: settings of the workload that others may override.
pub fn with_parameters(workload: &str, mut settings: Settings) -> Settings {
    let parameters = named_model(workload).map(|(_, parameters)| parameters).unwrap_or_default();
    settings.workload.splice(0..0, parameters);
    settings
}

/// What a model asks of the machine it is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// `usize::MAX`: unknown.
    cpus: usize,
    /// Mean of their capacities when all are busy; 1024: of the calibration CPU.
    capacity: u64,
    /// That of the fastest CPU.
    fastest: u64,
    /// Size of a page of memory.
    page_kib: u64,
}

impl Machine {
    /// What the fastest CPU and all of them do at full speed, s of work a second.
    pub fn speed(self) -> (f64, f64) {
        let [fastest, mean] = [self.fastest, self.capacity].map(|c| c as f64 / CAPACITY_SCALE as f64);
        (fastest, mean * self.cpus as f64)
    }
}

/// So many CPUs, all like the calibration CPU.
impl From<usize> for Machine {
    fn from(cpus: usize) -> Machine {
        Machine { cpus, capacity: CAPACITY_SCALE, fastest: CAPACITY_SCALE, page_kib: PAGE_KIB[0].into() }
    }
}

impl From<&Platform> for Machine {
    fn from(platform: &Platform) -> Machine {
        let of = |(c, threads): (&Cpu, Vec<_>)| u64::from(c.capacity) * platform.share_of_core(threads.len());
        let calibration = u64::from(platform.cpus[platform.calibration_cpu.at()].capacity);
        let unit = calibration * platform.nr_cpus() as u64;
        let fastest = platform.cpus.iter().map(|c| u64::from(c.capacity)).max().unwrap_or(calibration);
        Machine {
            cpus: platform.nr_cpus(),
            page_kib: platform.page_kib.into(),
            fastest: fastest * CAPACITY_SCALE / calibration,
            capacity: platform.cpus.iter().zip(platform.core_threads()).map(of).sum::<u64>() / unit,
        }
    }
}

/// The dialect of rt-app files that a name stands for.
pub fn dialect(name: &str) -> Result<Dialect, Error> {
    let known = Dialect::ALL.map(Dialect::name);
    Dialect::parse(name).ok_or_else(|| Error::unknown("dialect", name, known, "wattif run --help"))
}

/// A workload for a machine, a platform or a number of CPUs: a model with or without parameters, or an rt-app file: a path, `-`,
/// or a name of the gallery.
pub fn workload(
    name: &str,
    machine: impl Into<Machine>,
    dialect: Dialect,
    settings: &Settings,
) -> Result<Loaded<LoadedWorkload>, Error> {
    let machine = machine.into();
    match named_model(name) {
        Some((model, params)) => from_model(model, params, machine, settings),
        None => parse_workload(data::workload(name)?, machine.cpus, dialect, settings),
    }
}

/// A model is made for as many CPUs as there are, as fast, and with their pages, unless a setting says otherwise; settings override
/// its own parameters.
fn from_model(
    model: &Model,
    params: Vec<(String, String)>,
    machine: Machine,
    settings: &Settings,
) -> Result<Loaded<LoadedWorkload>, Error> {
    let source = Source { name: format!("model {}", model.name), text: "".into() };
    let twice = |(i, (name, _)): &(usize, &(String, String))| params[..*i].iter().any(|(before, _)| before == name);
    let twice = params.iter().enumerate().filter(twice).map(|(_, (name, _))| format!("`{name}` is given twice"));
    let twice: Vec<String> = twice.collect();
    let mut set = params;
    set.extend(settings.workload.iter().cloned());
    let asked: Vec<String> = set.iter().map(|(name, _)| name.clone()).collect();
    // Without a platform (its own error is shown) there is no number; with too many CPUs the model's limit holds.
    let cpus = if machine.cpus == usize::MAX { 8 } else { machine.cpus.min(1024) };
    for (fact, value) in [("cpus", cpus as u64), ("capacity", machine.capacity), ("page_kib", machine.page_kib)] {
        if model.params.iter().any(|p| p.name == fact) && !set.iter().any(|(name, _)| name == fact) {
            set.push((fact.into(), value.to_string()));
        }
    }
    let built = model.workload_and_unread(&set);
    let wrong = built.as_ref().err().cloned().unwrap_or_default();
    let mut diagnostics: Vec<Diagnostic> = twice.into_iter().chain(wrong).map(|why| of_model(model, why)).collect();
    let value = built.ok().map(|(workload, unread)| {
        let unread = unread.iter().filter(|name| asked.contains(name));
        diagnostics.extend(unread.map(|name| without_meaning(model, name, &set)));
        if !asked.is_empty() && machine.cpus != usize::MAX {
            diagnostics.extend(demand::beyond(&workload, machine).into_iter().map(|why| too_much(why, &asked)));
        }
        LoadedWorkload::from(workload)
    });
    loaded(source, value, diagnostics)
}

/// More than the machine can do, by parameters that somebody set.
fn too_much(why: String, asked: &[String]) -> Diagnostic {
    let help = format!("what is left waits, longer and longer, or is never begun: look at {}", asked.join(", "));
    Diagnostic::warning("model::W02", 0..0, why).help(help)
}

/// A parameter that others make meaningless.
fn without_meaning(model: &Model, name: &str, set: &[(String, String)]) -> Diagnostic {
    let value =
        |p: &Param| set.iter().rfind(|(name, _)| name == p.name).map_or(p.default, |(_, value)| value).to_owned();
    let counts_with = |p: &Param, other: &str| {
        let with = [set, &[(p.name.to_string(), other.to_string())]].concat();
        model.workload_and_unread(&with).is_ok_and(|(_, unread)| !unread.iter().any(|n| n == name))
    };
    let decides = |p: &&Param| p.words.iter().chain([&p.default]).any(|other| counts_with(p, other));
    let others = model.params.iter().filter(|p| p.name != name).filter(decides);
    let others: Vec<String> = others.map(|p| format!("{}={}", p.name, value(p))).collect();
    let as_is =
        if others.is_empty() { "as its other parameters are".into() } else { format!("with {}", others.join(", ")) };
    let why = format!("`{name}` does nothing in model `{}` {as_is}", model.name);
    Diagnostic::warning("model::W01", 0..0, why).help(format!("`wattif explain {}` says when it counts", model.name))
}

/// A mistake in a model's parameters, with names like the one that there is not.
fn of_model(model: &Model, why: String) -> Diagnostic {
    let unknown = why.split_once(" has no parameter `").and_then(|(_, rest)| rest.split('`').next());
    let near = unknown.map(|name| nearest(name, model.params.iter().map(|p| p.name))).unwrap_or_default();
    let help = match near.is_empty() {
        true => format!("`wattif explain {}` says what each parameter means", model.name),
        false => format!("did you mean {}?", near.join(", ")),
    };
    Diagnostic::error("model::E01", 0..0, why).help(help)
}

/// A workload from a text already read.
pub fn parse_workload(
    source: Source,
    nr_cpus: usize,
    dialect: Dialect,
    settings: &Settings,
) -> Result<Loaded<LoadedWorkload>, Error> {
    if workload_json::is(&source.text) {
        let (value, diagnostics) = match workload_json::parse(&source.text, nr_cpus) {
            Ok(workload_json::Read { workload, calibration_cpu, logs }) => {
                let calibration_cpu = calibration_cpu.map(CpuId);
                (Some(LoadedWorkload { workload, calibration_cpu, logs }), Vec::new())
            }
            Err(refused) => (None, vec![refused]),
        };
        return loaded(source, value, diagnostics);
    }
    let stem = Path::new(&source.name).file_stem().and_then(|s| s.to_str()).unwrap_or("workload").to_string();
    let options = rtapp::Options { dialect, nr_cpus: Some(nr_cpus), set: settings.workload.clone() };
    let parsed = rtapp::parse(&source.text, &stem, &options);
    let calibration_cpu = parsed.calibration_cpu.map(CpuId);
    let value = parsed.workload.map(|workload| LoadedWorkload { workload, calibration_cpu, logs: parsed.logs });
    loaded(source, value, parsed.diagnostics)
}

/// A run in names, as somebody asks for it.
#[derive(Clone, Debug)]
pub struct Asked {
    /// As of [`workload`].
    pub workload: String,
    /// As of [`platform`].
    pub platform: String,
    /// As of [`kernel`].
    pub kernel: String,
    /// Overrides of all three.
    pub settings: Settings,
    /// Of all noise.
    pub seed: u64,
    /// The workload's own, or 10 s, where nothing is said.
    pub duration: Option<Ns>,
    /// How rt-app files are read.
    pub dialect: Dialect,
}

impl Asked {
    /// What is to be run, and what there is to say about its inputs.
    pub fn spec(&self) -> Result<(RunSpec, Vec<Findings>), Error> {
        let platform = platform(&self.platform, &self.settings)?;
        let mut kernel = kernel_for(&self.kernel, Some(&platform.value), &self.settings)?;
        let read = workload(&self.workload, &platform.value, self.dialect, &self.settings)?;
        let duration = self.duration.unwrap_or_else(|| default_duration(&read.value.workload));
        let mut spec = RunSpec {
            platform: platform.value,
            workload: read.value.workload,
            kernel: kernel.value,
            seed: self.seed,
            duration,
        };
        spec.platform.calibration_cpu = read.value.calibration_cpu.unwrap_or(spec.platform.calibration_cpu);
        kernel.findings.diagnostics.extend(without_effect_here(&spec, &kernel.findings, &self.settings));
        let notes = notes(&spec, &self.settings);
        Ok((spec, vec![platform.findings, read.findings, kernel.findings, notes]))
    }
}

/// How long to run where nobody says: the workload's own duration, or 10 s.
pub fn default_duration(workload: &Workload) -> Ns {
    workload.duration.filter(|d| d.0 > 0).unwrap_or(Ns::from_s(10))
}

fn loaded<T>(source: Source, value: Option<T>, diagnostics: Vec<Diagnostic>) -> Result<Loaded<T>, Error> {
    let findings = Findings { name: source.name, text: source.text, diagnostics };
    match value {
        Some(value) if !findings.has_errors() => Ok(Loaded { value, findings }),
        _ => Err(Error::Input(findings)),
    }
}

/// What the registry does not know, with names like it: at its place in the profile where it is written there, or behind the
/// setting that says it.
fn unregistered(text: &str, message: String, setting: Option<&str>) -> Diagnostic {
    let name = message.split('`').nth(1).unwrap_or_default();
    let span = if setting.is_some() { 0..0 } else { written(text, name.rsplit('.').next().unwrap_or_default()) };
    let diagnostic = Diagnostic::error("kernel::E20", span, format!("{}{message}", setting.unwrap_or_default()));
    if let Some((_, allowed)) = message.split_once(" takes ") {
        // The name is right, its value is not: the message says what it may be.
        return match intended(name, allowed) {
            Some(value) => diagnostic.help(format!("did you mean {value}?")),
            None => diagnostic,
        };
    }
    let features = Features::ALL.iter().map(|(name, _)| *name);
    let of_features = message.starts_with("there is no scheduler feature ");
    let owner = registry::POLICIES.iter().find(|p| p.name == name);
    let near = match owner {
        // `policy` has no tunable `name`
        Some(policy) => {
            let unknown = message.split('`').nth(3).unwrap_or_default();
            let tunables = nearest(unknown, policy.tunables.iter().map(|t| t.name));
            tunables.into_iter().map(|t| format!("{}.{t}", policy.name)).collect()
        }
        None => match message.split_once("; there are: ") {
            Some((_, of_kind)) => nearest(name, of_kind.split(", ")),
            None if of_features => nearest(name, features.clone()),
            None => {
                let others = ["features", "workload", "platform"].iter().filter(|_| setting.is_some());
                let slots = Slot::ALL.iter().map(|s| s.name()).chain(others.copied());
                nearest(name, registry::POLICIES.iter().map(|p| p.name).chain(features.clone()).chain(slots))
            }
        },
    };
    match near.is_empty() {
        _ if setting.is_some() && owner.is_none() && Slot::ALL.iter().any(|slot| slot.name() == name) => diagnostic
            .help(format!("a slot takes a policy, {name}=POLICY; a tunable is the policy's, POLICY.TUNABLE=V")),
        true if ["tasks", "global"].contains(&name) => {
            diagnostic.help("for the workload write workload.tasks.NAME.KEY=V")
        }
        true if of_features => diagnostic.help(format!("there are {}", features.collect::<Vec<_>>().join(", "))),
        true => diagnostic.help("`wattif list policies` prints all, `wattif explain POLICY` its tunables"),
        false => diagnostic.help(format!("did you mean {}?", near.join(", "))),
    }
}

/// What a wrong value of a tunable probably stands for, from "one of A, B, not `VALUE`".
fn intended(tunable: &str, allowed: &str) -> Option<String> {
    let (allowed, value) = allowed.strip_prefix("one of ")?.rsplit_once(", not `")?;
    let value = value.trim_end_matches('`').to_lowercase();
    let spellings = if tunable.starts_with("cpu_util.") { cpu_util::SPELLINGS } else { &[] };
    let known = spellings.iter().find(|(theirs, _)| *theirs == value);
    // A range is no word that one could have meant.
    let words = allowed.split(", ").filter(|word| !word.contains(" to "));
    let near = || nearest(&value, words).into_iter().next();
    known.map(|(_, ours)| ours.to_string()).or_else(near)
}

/// Where a word stands in a profile as a key, a value or the end of a table's name; empty when it does not.
fn written(text: &str, word: &str) -> std::ops::Range<usize> {
    let stands = |at: &usize| {
        let (before, after) = (text[..*at].chars().next_back(), text[at + word.len()..].chars().next());
        before.is_none_or(|c| "\n.[\"".contains(c)) && after.is_none_or(|c| "\"] =\t".contains(c))
    };
    let mut places = text.match_indices(word).map(|(at, _)| at).filter(stands);
    places.next().filter(|_| !word.is_empty()).map_or(0..0, |at| at..at + word.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_no_hint() {
        assert_eq!(intended("teo_weighted.aging_ms", "one of 0 to 1000000, not `1000001`"), None);
        assert_eq!(intended("schedutil.rate_limit_us", "one of auto, 0 to 99, not `auro`"), Some("auto".into()));
    }

    /// Symmetric; a core of two threads gives 1.25; half the CPUs have 2.58 times the capacity of the others, where work counts.
    #[test]
    fn what_a_machine_can_do() {
        for (name, cpus, capacity, fastest) in
            [("hikey620", 8, 1024, 1024), ("xeon_icx", 64, 640, 1024), ("rk3588", 8, 1832, 2641)]
        {
            let platform = platform(name, &Settings::default()).unwrap().value;
            assert_eq!(Machine::from(&platform), Machine { cpus, capacity, fastest, page_kib: 4 }, "{name}");
        }
    }

    #[test]
    fn a_kernel_that_nobody_has_is_told() {
        let told = |name: &str, set: &[&str]| {
            let settings = Settings::parse(&set.iter().map(|s| s.to_string()).collect::<Vec<_>>()).unwrap();
            no_such_kernel(&kernel(name, &settings).unwrap().value).is_some()
        };
        assert!(told("linux-6.12", &["load=walt"]) && !told("linux-6.12", &[]));
        assert!(!told("android-4.9-walt", &[]) && !told("android-4.9", &["load=walt"]));
    }

    #[test]
    fn a_parent_that_there_is_not() {
        let help = |inherits: &str| {
            let source = Source { name: "/tmp/k.toml".into(), text: format!("inherits = '{inherits}'").into() };
            let Err(Error::Input(found)) = kernel_of(source, None, &Settings::default()) else { panic!("is refused") };
            found.diagnostics.iter().find(|d| d.code == "kernel::E09").and_then(|d| d.help.clone()).unwrap()
        };
        assert!(help("k.toml").starts_with("that is this file itself"));
        assert_eq!(help("linux-6.12.toml"), "a parent is named without `.toml`: inherits = \"linux-6.12\"");
        assert_eq!(
            help("kernels/linux-6.12.toml"),
            "a parent is named without its folder and `.toml`: inherits = \"linux-6.12\""
        );
        assert!(help("linux-6.13").ends_with("like it: linux-3.13, linux-6.1, linux-6.12"));
        assert!(help("zzzzzzzzzzzzzz").ends_with("`wattif list kernels`"));
    }

    /// Those that are named after a release.
    #[test]
    fn of_every_built_in_profile_is_said_what_it_holds_for() {
        let names = Collection::Kernels.names();
        let of_release = |name: &&&str| name.ends_with(|c: char| c.is_ascii_digit());
        let mut own: Vec<&str> = names.iter().filter(of_release).copied().collect();
        let mut told: Vec<&str> = wattif_model::kernel::HOLDS.iter().map(|(name, ..)| *name).collect();
        own.sort_unstable();
        told.sort_unstable();
        assert_eq!(own, told);
    }

    #[test]
    fn what_a_users_profile_sets_without_effect_is_told_at_its_place() {
        let text = "name = 'k'\ninherits = 'linux-6.12'\n[load.walt]\nwindow_ms = 12\n[placement.eas]\ngeneration = '6.1'\n\
            [cpufreq.ondemand]\nup_threshold = 70\n[features]\nSIS_PROP = true\n";
        let notes = |text: &str, set: &[&str]| {
            let set: Vec<String> = set.iter().map(|s| s.to_string()).collect();
            let source = Source { name: "k.toml".into(), text: text.into() };
            let found = kernel_of(source, None, &Settings::parse(&set).unwrap()).unwrap().findings;
            let of = |d: &Diagnostic| (d.message.clone(), text[d.span.clone()].to_string());
            found.diagnostics.iter().map(of).collect::<Vec<_>>()
        };
        let told = |why: &str, key: &str| (why.to_string(), key.to_string());
        assert_eq!(
            notes(text, &[])[..2],
            [
                told("walt.window_ms changes nothing: load is pelt", "window_ms"),
                told("ondemand.up_threshold changes nothing: cpufreq is schedutil", "up_threshold"),
            ]
        );
        let set = notes(text, &["walt.window_ms=10"]);
        assert!(set[0].0.starts_with("--set walt.window_ms") && set[1].1 == "up_threshold", "{set:?}");
        for name in Collection::Kernels.names() {
            let source = Collection::Kernels.built_in(name).unwrap();
            assert!(notes(&source.text, &[]).is_empty(), "{name}");
        }
    }

    #[test]
    fn the_idle_driver_of_a_guest_prefers_haltpoll() {
        let platform = |name: &str, set: &Settings| platform(name, set).unwrap().value;
        let governor = |on: &str, kernel: &str, set: &[&str]| {
            let set: Vec<String> = set.iter().map(|s| s.to_string()).collect();
            let settings = Settings::parse(&set).unwrap();
            let loaded = kernel_for(kernel, Some(&platform(on, &settings)), &settings).unwrap();
            let told = loaded.findings.diagnostics.iter().map(|d| d.message.clone()).collect::<String>();
            (loaded.value.policies[&Slot::Cpuidle].clone(), told)
        };
        let quiet = |name: &str| (name.to_string(), String::new());
        for kernel in ["linux-5.4", "linux-5.6", "linux-6.12", "android-6.6"] {
            let (name, told) = governor("vm_8vcpu", kernel, &[]);
            assert_eq!(name, "haltpoll", "{kernel}");
            assert!(told.starts_with("cpuidle is haltpoll, which the idle driver of vm_8vcpu prefers"), "{told}");
            assert_eq!(governor("vm_8vcpu", kernel, &["cpuidle=menu"]), quiet("menu"));
            assert_eq!(governor("vm_8vcpu", kernel, &["cpuidle_driver.governor=ignored"]), quiet("menu"));
            assert_eq!(governor("hikey960", kernel, &[]), quiet("menu"));
        }
        for kernel in ["linux-5.3", "linux-3.13", "android-4.9"] {
            assert_eq!(governor("vm_8vcpu", kernel, &[]), quiet("menu"));
        }
        assert_eq!(governor("hikey960", "linux-6.6", &["platform.cpuidle.governor=teo"]).0, "teo");
        let (name, told) = governor("vm_8vcpu", "linux-6.6", &["cpuidle=teo", "cpuidle_driver.governor=ignored"]);
        assert!(name == "teo" && told.contains("changes nothing: cpuidle is named"), "{told}");
        // A profile that names one is a command line that does.
        let named = |cpuidle: &str| {
            let text = format!("name = 'mine'\ninherits = 'linux-6.12'\n{cpuidle}");
            let source = Source { name: "mine.toml".into(), text: text.into() };
            let guest = platform("vm_8vcpu", &Settings::default());
            kernel_of(source, Some(&guest), &Settings::default()).unwrap().value.policies[&Slot::Cpuidle].clone()
        };
        assert_eq!([named(""), named("policies.cpuidle = 'menu'")], ["haltpoll", "menu"]);
    }

    #[test]
    fn a_pipe_has_pages_of_the_platform() {
        let holds = |platform_name: &str, name: &str| {
            let platform = platform(platform_name, &Settings::default()).unwrap().value;
            let read = workload(name, &platform, Dialect::Workgen, &Settings::default()).unwrap();
            assert!(read.findings.diagnostics.is_empty());
            read.value.workload.semaphores[0].initial
        };
        assert_eq!(holds("guest_x86_2cpu", "hackbench:via=pipes"), 16 * 40);
        assert_eq!(holds("power9_2s16c", "hackbench:via=pipes"), 16 * 655);
        assert_eq!(holds("power9_2s16c", "hackbench:via=pipes,page_kib=4"), 16 * 40);
        assert_eq!(holds("power9_2s16c", "hackbench"), 278);
    }

    #[test]
    fn who_makes_a_parameter_meaningless() {
        for (name, idle, with) in [
            ("schbench:rps=100", "rps", "era=2020"),
            ("schbench:era=2023,cpu_us=5", "cpu_us", "era=2023"),
            ("server:side_threads_per_cpu=0,side_policy=nice19", "side_policy", "side_threads_per_cpu=0"),
            ("server:side_threads_per_cpu=0,slice_us=100", "slice_us", "side_threads_per_cpu=0"),
            ("usecase:case=web,cpus=64", "cpus", "case=web"),
            ("hogs:cpus=64,tasks=2", "cpus", "tasks=2"),
            ("antutu:test=3d,cpus=3", "cpus", "test=3d"),
            ("hackbench:page_kib=64", "page_kib", "via=sockets"),
        ] {
            let found = workload(name, 8, Dialect::Workgen, &Settings::default()).unwrap().findings.diagnostics;
            let model = name.split(':').next().unwrap();
            assert_eq!(found[0].message, format!("`{idle}` does nothing in model `{model}` with {with}"));
        }
    }
}
