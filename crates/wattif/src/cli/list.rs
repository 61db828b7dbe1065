//! `wattif list KIND`.

use super::{Exit, output};
use crate::data::{self, Collection};
use crate::error::Error;
use crate::experiment;
use clap::ValueEnum;
use serde::Serialize;
use wattif_formats::{kernel_toml, platform_toml};
use wattif_lab::metrics::{self, Better, MetricInfo};
use wattif_lab::table::{Align, Table};
use wattif_model::kernel::{KernelSpec, Value};
use wattif_model::platform::{Platform, PowerUnit};
use wattif_model::workload::models::MODELS;
use wattif_sim::registry::{POLICIES, Policy, policy};
use wattif_sim::sched::features::Features;

/// List what there is to choose from.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  wattif list platforms\n  wattif list kernels --json\n  wattif list experiments")]
pub struct Args {
    /// What to list.
    #[arg(value_enum)]
    kind: Kind,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// Machines, for -p.
    Platforms,
    /// Kernel profiles, for -k.
    Kernels,
    /// Policies a kernel can have, and the steps every kernel has.
    Policies,
    /// Workloads of the gallery, and models.
    Workloads,
    /// Experiments of the gallery, for repro, and gallery/NAME for compare.
    Experiments,
    /// Metrics, for --until, experiments and reports.
    Metrics,
    /// File formats that are read or written.
    Formats,
}

/// One thing with a line about it.
#[derive(Default, Serialize)]
struct Item {
    name: String,
    about: String,
    /// Of a policy: where it goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    slot: Option<&'static str>,
    /// Of a policy: it fills the slot by its name; otherwise it is a step that every kernel has.
    #[serde(skip_serializing_if = "Option::is_none")]
    selectable: Option<bool>,
    /// Of a metric; empty for plain counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<&'static str>,
    /// Of a metric: which way is good.
    #[serde(skip_serializing_if = "Option::is_none")]
    better: Option<Better>,
    /// Of a metric: neither way is good in itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    neutral: Option<bool>,
    /// Of an experiment: where it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    platforms: Option<Vec<String>>,
    /// Of a platform: what its file does not say, and what follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    lacks: Option<Vec<&'static str>>,
    /// Of a kernel: the profile it is derived from.
    #[serde(skip_serializing_if = "Option::is_none")]
    inherits: Option<String>,
    /// Of a kernel: what is not as there; everything that is not a default where it inherits from none.
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<Vec<Change>>,
}

/// One thing in which two kernels differ.
#[derive(Serialize)]
struct Change {
    what: String,
    from: String,
    to: String,
}

/// Formats and the option that reads or writes them.
const FORMATS: &[(&str, &str)] = &[
    (
        "rt-app JSON",
        "read: a workload, with comments and trailing commas; three dialects (--dialect); written: any workload (export)",
    ),
    ("platform TOML", "read: a machine (-p)"),
    ("kernel TOML", "read: a kernel profile (-k)"),
    ("vector csv, jsonl", "read: inputs and outputs of the kernel's own code, gzipped or not (verify)"),
    (
        "ftrace text",
        "read: trace-cmd report, the tracing files, systrace html, perf script (import, replay); written: run --trace",
    ),
    (
        "trace.dat",
        "read: versions 6 and 7, 32 and 64 bit, both byte orders, zlib and zstd; written: version 6 (run --trace x.dat)",
    ),
    ("workload JSON", "read and written: our own program language (import workload)"),
    ("devicetree blob", "read: a platform file is made of it (import platform)"),
    ("/sys", "read: a platform file or kernel profile is made of a live machine or a capture (import --sysfs)"),
    ("Perfetto", "read: ftrace events, compact or not, packed or not; written: run --trace x.pftrace"),
    ("Parquet", "written: a trace, a row an event (run --trace x.parquet, export)"),
    ("Arrow", "written: a trace, a row an event (run --trace x.arrow, export); tables of compare and sweep (--arrow)"),
    ("recording archive", "read and written: a tar of a trace and its machine (record, replay)"),
    ("HTML report", "written: one file that needs no network (--report x.html)"),
    ("SVG", "written: a drawing (--plot x.svg)"),
    (
        "JSON reports",
        "written (--json): wattif.run/1, wattif.compare/1, wattif.replay/1, wattif.repro/1, wattif.explain/1, wattif.sweep/1, \
         wattif.tune/1, wattif.bisect/1, wattif.verify/1, wattif.list/1, wattif.manual/1, wattif.recorded/1",
    ),
];

pub fn run(args: &Args) -> Result<Exit, Error> {
    let (kind, items) = match args.kind {
        Kind::Platforms => ("platforms", built_in(Collection::Platforms).into_iter().map(complete).collect()),
        Kind::Kernels => ("kernels", built_in(Collection::Kernels).into_iter().map(derived).collect()),
        Kind::Policies => ("policies", policies()),
        Kind::Metrics => ("metrics", metrics::list().iter().map(measured).collect()),
        Kind::Workloads => ("workloads", workloads()),
        Kind::Experiments => ("experiments", experiments()?),
        Kind::Formats => ("formats", FORMATS.iter().map(|(n, a)| item(*n, *a)).collect()),
    };
    match args.json {
        true => output::json(&serde_json::json!({ "schema": "wattif.list/1", "kind": kind, "items": items }))?,
        false => output::page(&text(&items))?,
    }
    Ok(Exit::Done)
}

fn item(name: impl Into<String>, about: impl Into<String>) -> Item {
    Item { name: name.into(), about: about.into(), ..Item::default() }
}

fn built_in(collection: Collection) -> Vec<Item> {
    let about = |name| data::headline(&collection.built_in(name).map(|s| s.text).unwrap_or_default());
    collection.names().into_iter().map(|name| item(name, about(name))).collect()
}

/// A platform, with what it lacks.
fn complete(item: Item) -> Item {
    let text = Collection::Platforms.built_in(&item.name).map(|s| s.text).unwrap_or_default();
    let platform = platform_toml::parse(&text, &platform_toml::Options::default()).platform;
    Item { lacks: Some(platform.map(|p| lacks(&p)).unwrap_or_default()), ..item }
}

fn lacks(platform: &Platform) -> Vec<&'static str> {
    match (platform.power.unit, platform.power.sourced) {
        (PowerUnit::Unknown, _) => vec!["no OPP power: no energy is reported"],
        (PowerUnit::EasCosts, _) => vec!["no absolute watts: abstract units of an EAS table"],
        (PowerUnit::EnergyModel, true) => vec!["no idle power: it counts as none"],
        (PowerUnit::EnergyModel, false) => {
            vec!["no absolute watts: powers are estimated", "no idle power: it counts as none"]
        }
        (PowerUnit::Measured, true) => vec![],
        (PowerUnit::Measured, false) => vec!["no absolute watts: powers are estimated"],
    }
}

/// A kernel, with how it differs from the one it inherits from.
fn derived(item: Item) -> Item {
    let text = |name: &str| Collection::Kernels.built_in(name).map(|s| s.text.to_string());
    let read = |name: &str| kernel_toml::parse(&text(name).unwrap_or_default(), &text);
    let own = read(&item.name);
    let parent = own.inherits.as_deref().and_then(|name| read(name).kernel).unwrap_or_default();
    let changes = own.kernel.map(|kernel| changes(&parent, &kernel)).unwrap_or_default();
    let changes = Some(changes);
    Item { inherits: own.inherits, changes, ..item }
}

fn changes(parent: &KernelSpec, kernel: &KernelSpec) -> Vec<Change> {
    let hz = |k: &KernelSpec| k.hz.map_or("the platform's".to_string(), |hz| hz.to_string());
    let switch = |on: bool| if on { "on" } else { "off" }.to_string();
    let mut all = vec![("hz".to_string(), hz(parent), hz(kernel))];
    for (slot, policy) in &kernel.policies {
        all.push((slot.name().into(), parent.policies.get(slot).cloned().unwrap_or_default(), policy.clone()));
    }
    for (path, value) in &kernel.tunables {
        let from = parent.tunables.get(path).map_or_else(|| default_of(path), Value::to_string);
        all.push((path.clone(), from, value.to_string()));
    }
    for (name, on) in &kernel.features {
        let known = Features::ALL.iter().find(|(n, _)| n == name).is_some_and(|(_, on)| *on);
        all.push((name.clone(), switch(parent.features.get(name).copied().unwrap_or(known)), switch(*on)));
    }
    let differ = all.into_iter().filter(|(_, from, to)| from != to);
    differ.map(|(what, from, to)| Change { what, from, to }).collect()
}

/// What a tunable is where no profile says anything.
fn default_of(path: &str) -> String {
    let (name, tunable) = path.split_once('.').unwrap_or((path, ""));
    let known = policy(name).and_then(|p| p.tunable(tunable));
    known.map(|t| t.default.to_string()).unwrap_or_default()
}

fn policies() -> Vec<Item> {
    let about = |p: &Policy| format!("{}{}: {}", p.slot.name(), if p.selectable { "" } else { " step" }, p.summary());
    let of = |p: &Policy| Item { slot: Some(p.slot.name()), selectable: Some(p.selectable), ..item(p.name, about(p)) };
    POLICIES.iter().map(of).collect()
}

fn measured(m: &MetricInfo) -> Item {
    Item { unit: Some(m.unit), better: Some(m.better), neutral: Some(m.neutral), ..item(m.name, m.doc) }
}

/// Which way is good, in a table.
fn better(i: &Item) -> &'static str {
    match (i.neutral, i.better) {
        (Some(false), Some(Better::Lower)) => "lower",
        (Some(false), Some(Better::Higher)) => "higher",
        _ => "",
    }
}

fn workloads() -> Vec<Item> {
    let models = MODELS.iter().map(|m| item(m.name, m.title));
    let files = data::workloads().into_iter().map(|path| {
        let experiment = path.split('/').next().unwrap_or_default().to_string();
        let question = data::experiment_file(&experiment, "experiment.toml");
        item(format!("gallery/{path}"), question.map(|s| data::headline(&s.text)).unwrap_or_default())
    });
    models.chain(files).collect()
}

fn experiments() -> Result<Vec<Item>, Error> {
    let of = |name| {
        let e = experiment::load(name)?.experiment;
        Ok(Item { platforms: Some(e.platforms), ..item(e.name, e.question) })
    };
    data::experiments().into_iter().map(of).collect()
}

fn text(items: &[Item]) -> String {
    let placed = items.iter().any(|i| i.platforms.is_some());
    let lacking = items.iter().any(|i| i.lacks.is_some());
    let metrics = items.iter().any(|i| i.unit.is_some());
    let columns = [
        ("name", true),
        ("unit", metrics),
        ("better", metrics),
        ("platforms", placed),
        ("about", true),
        ("lacks", lacking),
    ];
    let mut table = Table::new(columns.iter().filter(|(_, shown)| *shown).map(|(c, _)| (*c, Align::Left)));
    for i in items {
        let (unit, better) = (i.unit.unwrap_or_default().to_string(), better(i).to_string());
        let platforms = i.platforms.as_deref().unwrap_or_default().join(", ");
        let lacks = i.lacks.as_deref().unwrap_or_default().join("; ");
        let cells = [i.name.clone(), unit, better, platforms, i.about.clone(), lacks];
        table.row(cells.into_iter().zip(columns).filter(|(_, (_, shown))| *shown).map(|(cell, _)| cell));
    }
    let mut out = table.to_text();
    for (i, changes) in items.iter().filter_map(|i| Some((i, i.changes.as_ref().filter(|c| !c.is_empty())?))) {
        let from = i.inherits.as_deref().unwrap_or("the defaults");
        out += &format!("\n{}, where it is not as {from}\n", i.name);
        let mut table = Table::new([("", Align::Left), (from, Align::Left), (i.name.as_str(), Align::Left)]);
        changes.iter().for_each(|c| table.row([&c.what, &c.from, &c.to]));
        out += &crate::text::indented(&table.to_text());
    }
    out
}
