//! The reference pages, written from the registries and the definition of the command line (`cargo xtask gen`).

use crate::cli;
use std::fmt::Write as _;
use wattif_lab::metrics;
use wattif_lab::table::{Align, Table};
use wattif_model::kernel::Slot;
use wattif_model::trace::columns::COLUMNS;
use wattif_model::workload::models::MODELS;
use wattif_sim::registry::{POLICIES, Policy};
use wattif_sim::sched::features::Features;

const NOTICE: &str = "<!-- Written by `cargo xtask gen`; do not edit. -->\n";

/// File name and Markdown of every page.
pub fn pages() -> Vec<(String, String)> {
    vec![
        ("cli.md".into(), command_line()),
        ("policies.md".into(), policies()),
        ("features.md".into(), features()),
        ("models.md".into(), models()),
        ("metrics.md".into(), metric_names()),
        ("columns.md".into(), event_columns()),
    ]
}

fn page(title: &str) -> String {
    format!("{NOTICE}# {title}\n\n")
}

fn words<const N: usize>(columns: [&str; N]) -> Table {
    Table::new(columns.map(|c| (c, Align::Left)))
}

fn command_line() -> String {
    let mut out = page("Command line");
    let mut root = cli::command().term_width(100).color(clap::ColorChoice::Never);
    root.build();
    let verbs: Vec<String> = root.get_subcommands().map(|v| v.get_name().to_string()).filter(|n| n != "help").collect();
    let _ = writeln!(out, "```text\n{}```\n", trimmed(&root.render_long_help().to_string()));
    for name in verbs {
        let verb = root.find_subcommand_mut(&name).expect("a verb of the list");
        let _ = writeln!(out, "## wattif {name}\n\n```text\n{}```\n", trimmed(&verb.render_long_help().to_string()));
    }
    out
}

fn trimmed(help: &str) -> String {
    help.lines().map(|l| format!("{}\n", l.trim_end())).collect()
}

fn policies() -> String {
    let mut out = page("Policies");
    out +=
        "The manual page of each is `wattif explain NAME`. A policy that is no choice is a step every kernel has.\n\n";
    for slot in Slot::ALL {
        let _ = writeln!(out, "## {}\n", slot.name());
        let mut table = words(["policy", "choice", "what it is"]);
        for p in POLICIES.iter().filter(|p| p.slot == slot) {
            table.row([format!("`{}`", p.name), if p.selectable { "yes" } else { "" }.into(), p.summary()]);
        }
        out += &table.to_markdown();
        out.push('\n');
        POLICIES.iter().filter(|p| p.slot == slot && !p.tunables.is_empty()).for_each(|p| out += &tunables(p));
    }
    out
}

fn tunables(policy: &Policy) -> String {
    let mut table = words(["tunable", "default", "allowed", "meaning"]);
    for t in policy.tunables {
        table.row([format!("`{}.{}`", policy.name, t.name), t.default.into(), t.allowed.join(", "), t.doc.into()]);
    }
    table.to_markdown() + "\n"
}

fn event_columns() -> String {
    let mut out = page("Columns of event tables");
    out += "What `--trace run.parquet` and `--trace run.arrow` hold: one row an event, in order of time. Names and fields \
        are the kernel's where there is such a tracepoint. A column is null in rows of events that do not have it; \
        columns of decisions and signals are there with `--trace-detail decisions` and `full`. Each column of a file \
        carries its `unit` and `doc` as metadata of the field; the file's own metadata has `wattif.generator`, \
        `wattif.kernel`, `wattif.spec` (hash of the run), `wattif.end_ns` (its end), `wattif.cpus` and `wattif.threads` (JSON: pid, comm, task, policy \
        and whether it is part of the workload), and of a recording that lost events `wattif.lost` (JSON: events, gaps).\n\n";
    let mut table = words(["column", "type", "unit", "meaning", "events"]);
    for c in COLUMNS {
        let events = if c.events.is_empty() { "all".into() } else { c.events.join(", ") };
        table.row([format!("`{}`", c.name), c.ty.name().into(), c.unit.into(), c.meaning.into(), events]);
    }
    out + &table.to_markdown()
}

fn features() -> String {
    let mut table = words(["feature", "default, where the class has it"]);
    Features::ALL.iter().for_each(|(name, on)| table.row([format!("`{name}`"), on.to_string()]));
    page("Scheduler features") + "Set one with `--set features.NAME=true`.\n\n" + &table.to_markdown()
}

fn models() -> String {
    let mut out =
        page("Workload models") + "Run one by its name; set a parameter with `--set workload.NAME=VALUE`.\n\n";
    out += "Work in µs or ms is that of the platform's calibration CPU at its highest frequency, as in rt-app: CPU 0 unless the\n";
    out += "platform's file says otherwise, so a little one on most phones and a big one where those come first (`juno_r0`).\n";
    out += "`--set platform.calibration_cpu=N` takes another.\n";
    for m in MODELS {
        let _ = writeln!(out, "\n## {}\n\n{}\n", m.name, m.title);
        let mut table = words(["parameter", "default", "allowed", "meaning"]);
        for p in m.params {
            table.row([format!("`{}`", p.name), p.default.into(), p.allowed(), p.doc.into()]);
        }
        out += &table.to_markdown();
    }
    out
}

/// Where figures stand in the JSON of a run.
const PLACES: &str = "
## In the JSON

A name is what `--metric`, `--until`, `--fail-if` and experiments ask for; it is no path. `compare` and `sweep` have figures by their
names. In `wattif.run/1`, and of a trace in `wattif.recorded/1`, most stand under `.metrics` as they are called
(`.metrics.energy.total`), and these elsewhere:

| metric | path for jq |
| --- | --- |
| `frames.<mark>.<stat>` | `.metrics.frames[\"<mark>\"].duration_us.<stat>`; `p25`, `p75`, `energy`, `near_…_share` and `stages` beside `duration_us` |
| `frames.<mark>.jank_pct`, `missed`, `fps`, `fps_stddev` | `.metrics.frames[\"<mark>\"].pace.jank_pct` and so on |
| `throughput.<mark>` | `.metrics.throughput[\"<mark>\"].per_s` |
| `hist.<bin>` | `.metrics.wu_lat_hist[<bin>]` |
| `energy.cpus`, `energy.cpus.<cpu>` | `.metrics.energy.cpus \\| add`, `.metrics.energy.cpus[<cpu>]`; `clusters` alike |
| `tasks.<task>.<metric>` | `.by_task[] \\| select(.task == \"<task>\")`, in it as above: `.runtime_s`, `.wakeup_latency_us.<stat>` |
| `groups.<group>.<metric>` | `.groups[] \\| select(.path == \"<group>\")` |
| `idle.<state>.…_pct`, `cpus.<cpu>.idle_…_pct` | of the counters `usage`, `above`, `below` in `.cpus[].idle[]` |
| `idle.<state>.usage` | `[.cpus[].idle[] \\| select(.name == \"<state>\").usage] \\| add`; `residency_s` alike |
| `cpus.busy_s`, `cpus.<cpu>.busy_s` | `[.cpus[].busy_s] \\| add`, `.cpus[<cpu>].busy_s` |
| `clusters.<cluster>.runnable` | `.metrics.balance.runnable[<cluster>]` |
| `domains.<domain>.transitions` | `.domains[<domain>].transitions`; `ramp_…_ms` alike; `khz_mean` is the mean of `freq_residency` |
| `runtime_s`, `cpu_share`, `work_s`, `activations` | `[.by_task[] \\| select(.workload).runtime_s] \\| add` and so on |
";

fn metric_names() -> String {
    let mut table = words(["metric", "unit", "better", "of one task", "meaning"]);
    for m in metrics::list() {
        let way = format!("{:?}", m.better).to_lowercase();
        let better = if m.neutral { format!("neither ({way})") } else { way };
        table.row([
            format!("`{}`", m.name),
            m.unit.into(),
            better,
            if m.by_task { "yes" } else { "" }.into(),
            m.doc.into(),
        ]);
    }
    let mut out = page("Metrics");
    out += "Where neither way is better, a comparison says `more` or `less` of a change and judges nothing; in brackets is the way that\n";
    out += "`--pareto` and `--objective` look.\n\n";
    out + &table.to_markdown() + PLACES
}
