//! `wattif list KIND`.

use super::{Exit, output};
use crate::data::{self, Collection};
use crate::error::Error;
use clap::ValueEnum;
use serde::Serialize;
use wattif_lab::metrics;
use wattif_lab::table::{Align, Table};
use wattif_model::workload::models::MODELS;
use wattif_sim::registry::{POLICIES, Policy};

/// List what there is to choose from.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  wattif list platforms\n  wattif list kernels --json")]
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
    /// Metrics, for --until, experiments and reports.
    Metrics,
    /// File formats that are read or written.
    Formats,
}

/// One thing with a line about it.
#[derive(Serialize)]
struct Item {
    name: String,
    about: String,
}

/// Formats and the option that reads or writes them.
const FORMATS: &[(&str, &str)] = &[
    ("rt-app JSON", "read: a workload, with comments and trailing commas; three dialects (--dialect)"),
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
    ("JSON reports", "written: wattif.run/1, wattif.compare/1, wattif.repro/1, wattif.verify/1 (--json)"),
];

pub fn run(args: &Args) -> Result<Exit, Error> {
    let (kind, items) = match args.kind {
        Kind::Platforms => ("platforms", built_in(Collection::Platforms)),
        Kind::Kernels => ("kernels", built_in(Collection::Kernels)),
        Kind::Policies => ("policies", policies()),
        Kind::Metrics => ("metrics", metrics::list().iter().map(|m| item(m.name, m.doc)).collect()),
        Kind::Workloads => ("workloads", workloads()),
        Kind::Formats => ("formats", FORMATS.iter().map(|(n, a)| item(*n, *a)).collect()),
    };
    match args.json {
        true => output::json(&serde_json::json!({ "schema": "wattif.list/1", "kind": kind, "items": items }))?,
        false => output::page(&text(&items))?,
    }
    Ok(Exit::Done)
}

fn item(name: impl Into<String>, about: impl Into<String>) -> Item {
    Item { name: name.into(), about: about.into() }
}

fn built_in(collection: Collection) -> Vec<Item> {
    let about = |name| data::headline(&collection.built_in(name).map(|s| s.text).unwrap_or_default());
    collection.names().into_iter().map(|name| item(name, about(name))).collect()
}

fn policies() -> Vec<Item> {
    let about = |p: &Policy| format!("{}{}: {}", p.slot.name(), if p.selectable { "" } else { " step" }, p.summary());
    POLICIES.iter().map(|p| item(p.name, about(p))).collect()
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

fn text(items: &[Item]) -> String {
    let mut table = Table::new([("name", Align::Left), ("about", Align::Left)]);
    items.iter().for_each(|i| table.row([&i.name, &i.about]));
    table.to_text()
}
