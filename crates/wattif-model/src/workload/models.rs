//! Workload models: programs written here instead of read from a file. One model a file, one line in [`MODELS`].

use super::{Policy, SchedAttr, Workload};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// A parameter of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// Such as `request_us`; units last.
    pub name: &'static str,
    /// Value where none is given.
    pub default: &'static str,
    /// Least and largest number; `None`: a word. With words: a number, or one of them.
    pub range: Option<(u64, u64)>,
    /// Words allowed, where it is a word.
    pub words: &'static [&'static str],
    /// One line.
    pub doc: &'static str,
}

/// A workload model.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// Such as `server`.
    pub name: &'static str,
    /// One line.
    pub title: &'static str,
    /// Its parameters.
    pub params: &'static [Param],
    /// Text of its file.
    pub source: &'static str,
    /// Builds the workload.
    pub build: fn(&Params) -> Workload,
}

impl Model {
    /// The manual page: the header of the model's file, as Markdown.
    pub fn manual(&self) -> String {
        manual(self.source)
    }
}

/// Every model.
pub static MODELS: &[Model] = &[
    super::server::MODEL,
    super::phone::MODEL,
    super::schbench::MODEL,
    super::pgbench::MODEL,
    super::ebizzy::MODEL,
    super::hackbench::MODEL,
    super::openmp::MODEL,
    super::hogs::MODEL,
    super::usecase::MODEL,
    super::jankbench::MODEL,
    super::scroll::MODEL,
    super::video::MODEL,
    super::game::MODEL,
    super::pcmark::MODEL,
    super::androbench::MODEL,
    super::antutu::MODEL,
    super::sleepers::MODEL,
    super::step_response::MODEL,
];

/// What several models share and their pages refer to: name, text of the file.
static SHARED: &[(&str, &str)] = &[("frames", include_str!("frames.rs"))];

/// Names of what several models share.
pub fn shared_names() -> impl Iterator<Item = &'static str> {
    SHARED.iter().map(|(name, _)| *name)
}

/// The manual page of what several models share: the header of its file, as Markdown.
pub fn shared(name: &str) -> Option<String> {
    SHARED.iter().find(|(shared, _)| *shared == name).map(|(_, source)| manual(source))
}

/// A model by name.
pub fn model(name: &str) -> Option<&'static Model> {
    MODELS.iter().find(|m| m.name == name)
}

/// Values of a model's parameters, all checked.
#[derive(Clone, Debug)]
pub struct Params {
    values: BTreeMap<&'static str, String>,
    /// Which were asked for while the model was built.
    read: RefCell<BTreeSet<String>>,
}

impl Model {
    /// The workload with some parameters set; all mistakes at once.
    pub fn workload(&self, set: &[(String, String)]) -> Result<Workload, Vec<String>> {
        self.workload_and_unread(set).map(|(workload, _)| workload)
    }
    /// The same, with the names of those set that the model did not ask for: others make them meaningless.
    pub fn workload_and_unread(&self, set: &[(String, String)]) -> Result<(Workload, Vec<String>), Vec<String>> {
        let mut values: BTreeMap<&'static str, String> =
            self.params.iter().map(|p| (p.name, p.default.to_string())).collect();
        let mut wrong = Vec::new();
        for (name, value) in set {
            match self.params.iter().find(|p| p.name == name) {
                None => {
                    let all: Vec<&str> = self.params.iter().map(|p| p.name).collect();
                    wrong.push(format!("model `{}` has no parameter `{name}`; it has: {}", self.name, all.join(", ")));
                }
                Some(p) => match p.check(value) {
                    Ok(()) => drop(values.insert(p.name, value.clone())),
                    Err(why) => wrong.push(why),
                },
            }
        }
        let params = Params { values, read: RefCell::default() };
        wrong.extend(self.params.iter().filter_map(|p| params.backwards(p.name)));
        wrong.extend(params.too_many().or_else(|| params.too_fine()));
        if !wrong.is_empty() {
            return Err(wrong);
        }
        let workload = (self.build)(&params);
        let unread = set.iter().map(|(name, _)| name.clone()).filter(|name| !params.read.borrow().contains(name));
        let unread = unread.collect();
        Ok((workload, unread))
    }
}

/// The header of a Rust file, as Markdown: what its `//!` lines say.
pub fn manual(source: &str) -> String {
    let header = source.lines().map_while(|l| l.strip_prefix("//!"));
    header.map(|l| l.strip_prefix(' ').unwrap_or(l)).collect::<Vec<_>>().join("\n")
}

impl Param {
    /// What it takes, for tables: its words and its range.
    pub fn allowed(&self) -> String {
        let range = self.range.map(|(lo, hi)| format!("{lo}..={hi}"));
        let words = self.words.iter().map(|w| (*w).to_string());
        words.chain(range).collect::<Vec<_>>().join(", ")
    }
    fn check(&self, value: &str) -> Result<(), String> {
        if self.words.contains(&value) {
            return Ok(());
        }
        let words = self.words.join(", ");
        match self.range {
            Some((lo, hi)) => match value.parse::<u64>() {
                Ok(v) if (lo..=hi).contains(&v) => Ok(()),
                _ if words.is_empty() => Err(format!("`{}` takes a number in {lo}..={hi}, not `{value}`", self.name)),
                _ => Err(format!("`{}` takes a number in {lo}..={hi} or {words}, not `{value}`", self.name)),
            },
            None => Err(format!("`{}` takes one of {words}, not `{value}`", self.name)),
        }
    }
}

impl Params {
    /// A number; the word `cpus` is that of the machine's CPUs.
    pub fn int(&self, name: &str) -> u64 {
        match self.word(name) {
            "cpus" => self.int("cpus"),
            number => number.parse().expect("checked when it was set"),
        }
    }
    /// The same of a model that has it.
    fn given(&self, name: &str) -> Option<u64> {
        self.values.contains_key(name).then(|| self.int(name))
    }
    /// What is wrong with a range from `from_X` to `to_X`, or from `short_X` to `long_X`, that ends before it begins.
    fn backwards(&self, from: &str) -> Option<String> {
        let range = |begin: &str, end: &str| Some(format!("{end}{}", from.strip_prefix(begin)?));
        let to = range("from_", "to_").or_else(|| range("short_", "long_"))?;
        let number = |name: &str| self.values.get(name)?.parse::<u64>().ok();
        let (first, last) = (number(from)?, number(&to)?);
        (first > last).then(|| format!("`{from}` = {first} is beyond `{to}` = {last}"))
    }
    /// What is wrong with `runs` of `tasks` threads each: a task is forked no more often than rt-app allows.
    fn too_many(&self) -> Option<String> {
        const MOST: u64 = 1024;
        let threads = self.given("tasks")? * self.given("runs")?;
        (threads > MOST).then(|| format!("`tasks` times `runs` = {threads} threads; {MOST} is the limit"))
    }
    /// What is wrong with pauses of `from_ms` to `to_ms` in steps of `step_us`: each is a part of the run.
    fn too_fine(&self) -> Option<String> {
        const MOST: u64 = 10_000;
        let range_us = self.given("to_ms")?.saturating_sub(self.given("from_ms")?) * 1000;
        let pauses = range_us / self.given("step_us")? + 1;
        (pauses > MOST).then(|| format!("`from_ms` to `to_ms` by `step_us` are {pauses} pauses; {MOST} is the limit"))
    }
    /// A number, where a word may stand instead.
    pub fn maybe_int(&self, name: &str) -> Option<u64> {
        self.word(name).parse().ok()
    }
    /// A word.
    pub fn word(&self, name: &str) -> &str {
        self.read.borrow_mut().insert(name.to_string());
        &self.values[name]
    }
    /// Attributes of a side job, by the word of [`SIDE_POLICY`].
    pub(super) fn side_attr(&self) -> SchedAttr {
        let (policy, nice) = match self.word("side_policy") {
            "nice19" => (Policy::Normal, 19),
            "SCHED_BATCH" => (Policy::Batch, 0),
            "SCHED_IDLE" => (Policy::Idle, 0),
            _ => (Policy::Normal, 0),
        };
        SchedAttr { policy, nice, ..SchedAttr::default() }
    }
}

/// A numeric parameter.
pub(super) const fn number(name: &'static str, default: &'static str, range: (u64, u64), doc: &'static str) -> Param {
    Param { name, default, range: Some(range), words: &[], doc }
}

/// A parameter that is one of some words, the first of them by default.
pub(super) const fn word(name: &'static str, words: &'static [&'static str], doc: &'static str) -> Param {
    Param { name, default: words[0], range: None, words, doc }
}

/// Size of the machine a model is made for. Whoever knows the platform sets it to the number of its CPUs.
pub(super) const CPUS: Param = Param {
    name: "cpus",
    default: "8",
    range: Some((1, 1024)),
    words: &[],
    doc: "CPUs to make work for; those of the platform unless set",
};

/// How fast that machine is. Whoever knows the platform sets it.
pub(super) const CAPACITY: Param = Param {
    name: "capacity",
    default: "1024",
    range: Some((1, 1 << 20)),
    words: &[],
    doc: "mean capacity of the CPUs when all are busy, 1024 for the one that work is measured on; that of the platform unless set",
};

/// How a side job is scheduled.
pub(super) const SIDE_POLICY: Param = Param {
    name: "side_policy",
    default: "SCHED_IDLE",
    range: None,
    words: &["nice0", "nice19", "SCHED_BATCH", "SCHED_IDLE"],
    doc: "how the side job is scheduled",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_the_other_era_are_told() {
        let unread = |era: &str| {
            let set = [("era", era), ("rps", "100"), ("cpu_us", "5"), ("messengers", "2")];
            let set = set.map(|(name, value)| (name.to_string(), value.to_string()));
            super::super::schbench::MODEL.workload_and_unread(&set).unwrap().1
        };
        assert_eq!((unread("2020"), unread("2023")), (vec!["rps".to_string()], vec!["cpu_us".to_string()]));
    }

    #[test]
    fn every_model_builds_and_checks_its_parameters() {
        for model in MODELS {
            let workload = model.workload(&[]).expect("defaults are valid");
            assert!(!workload.tasks.is_empty());
            for p in model.params {
                p.check(p.default).expect("a default is valid");
            }
        }
        let wrong = model("server").unwrap().workload(&[("service_us".into(), "0".into()), ("x".into(), "1".into())]);
        assert_eq!(wrong.unwrap_err().len(), 2);
        let range = |from: &str, to: &str| {
            let set = [("from_ms", from), ("to_ms", to)].map(|(k, v)| (k.to_string(), v.to_string()));
            model("step_response").unwrap().workload(&set)
        };
        assert_eq!(range("200", "100").unwrap_err(), ["`from_ms` = 200 is beyond `to_ms` = 100"]);
        assert!(range("100", "100").is_ok());
        let lengths = [("short_us", "20"), ("long_us", "10")].map(|(k, v)| (k.to_string(), v.to_string()));
        let wrong = model("sleepers").unwrap().workload(&lengths).unwrap_err();
        assert_eq!(wrong, ["`short_us` = 20 is beyond `long_us` = 10"]);
    }
}
