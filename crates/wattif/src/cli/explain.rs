//! `wattif explain NAME`: the manual page of a policy or of a workload model. `wattif explain A B WORKLOAD`: why two kernels differ.

use super::inputs::{Inputs, whole};
use super::{Exit, output};
use crate::error::{Error, Look};
use crate::explain::{Reruns, run_file};
use crate::markdown::without_links;
use crate::run::all_unfinished;
use crate::settings::duration_ns;
use crate::{explain, markdown, topics};
use serde_json::{Value, json};
use wattif_lab::table::{Align, Table};
use wattif_model::Ns;
use wattif_model::check::Severity;
use wattif_model::workload::models::{MODELS, Model, Param, model, shared, shared_names};
use wattif_sim::registry::{POLICIES, Policy, Tunable, policy};

/// Say why two runs differ, or print the manual of a policy or a workload model.
///
/// With two kernels and a workload, or two files that `run --json` wrote: the first decision that differs, with both sides'
/// inputs; the difference in energy by operating point, idle state and task, and in wake-up latency by cause, both to the last
/// femtojoule and nanosecond; and which part of the kernel carries it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  wattif explain linux-5.3 linux-5.6 app.json
  wattif explain linux-6.6 linux-6.12 server -p hikey620 --duration 60s --json
  wattif run app.json -k linux-5.3 --json > A.json; wattif run app.json -k linux-5.6 --json > B.json
  wattif explain A.json B.json
  wattif explain linux-5.6+teo linux-5.6+weighted gallery/weighted_idle_governor --duration 1s
  wattif explain teo                      the manual of a policy; `wattif list policies` prints all names
  wattif explain rel-gate                 what a scheme of cpu_util.boost fixes and costs
  wattif explain schedtune.boost_pct      a tunable, before the manual of its policy
  wattif explain jankbench                that of a workload model, with its parameters and calibrated inputs")]
pub struct Args {
    /// A policy or a workload model; two run files; two kernels and a workload; or two arms and their experiment, gallery/NAME.
    #[arg(value_name = "NAME", required = true, num_args = 1..=3)]
    names: Vec<String>,
    #[command(flatten)]
    inputs: Inputs,
    #[command(flatten)]
    reruns: RerunArgs,
    /// Print one JSON object (wattif.explain/1; a manual: wattif.manual/1).
    #[arg(long)]
    json: bool,
}

/// The runs behind shares and steps.
#[derive(Debug, clap::Args)]
pub struct RerunArgs {
    /// Seeds of the runs that tell which part carries a difference; 0: none are made.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = whole(0..=10_000))]
    pub seeds: u64,
    /// Length of these runs at most; by default 1 s, or until work that ends by itself is done.
    #[arg(long, value_name = "TIME", value_parser = duration_ns)]
    pub rerun: Option<u64>,
    /// Metric whose difference is shared out; repeatable.
    #[arg(long, value_name = "METRIC", default_values = ["energy.total", "wakeup_latency_us.mean"])]
    pub metric: Vec<String>,
}

impl RerunArgs {
    /// Refuses metrics that do not exist.
    pub fn checked(&self) -> Result<Reruns, Error> {
        Error::unless_metrics(&self.metric)?;
        Ok(Reruns { seeds: self.seeds, duration: self.rerun.map(Ns), metrics: self.metric.clone() })
    }
}

pub fn run(args: &Args, look: Look) -> Result<Exit, Error> {
    let reruns = args.reruns.checked()?;
    let (a, b) = match args.names.as_slice() {
        [name] => return manual(name, args.json, look),
        [a, b] => {
            let is_file = |name: &String| name == "-" || std::path::Path::new(name).is_file();
            if let Some(missing) = [a, b].into_iter().find(|name| !is_file(name)) {
                return Err(Error::Usage(format!(
                    "`{missing}` is no file; write two files of `wattif run --json`, or two kernels and a workload: \
                     wattif explain linux-5.3 linux-5.6 app.json"
                )));
            }
            let ((a, digest_a), (b, digest_b)) = (run_file(a)?, run_file(b)?);
            return print(args, [&a, &b], &reruns, [&digest_a, &digest_b], look);
        }
        [a, b, workload] => {
            let [a, b] = args.inputs.sides([a, b], workload, look)?;
            (a, b)
        }
        _ => unreachable!("clap takes three at most"),
    };
    print(args, [&a, &b], &reruns, ["", ""], look)
}

/// `recorded`: the digests that run files say, to be held against those of the runs made now.
fn print(
    args: &Args,
    specs: [&wattif_model::run::RunSpec; 2],
    reruns: &Reruns,
    recorded: [&str; 2],
    look: Look,
) -> Result<Exit, Error> {
    let bar = output::bar(explain::share_runs(&specs[0].kernel, &specs[1].kernel, reruns), "simulating");
    let explanation = explain::explain(specs, reruns, &output::step(&bar))?;
    bar.finish_and_clear();
    for (was, side) in recorded.iter().zip([&explanation.a, &explanation.b]) {
        if !was.is_empty() && *was != side.digest {
            output::note(&format!(
                "note: {} was recorded with digest {was} and now has {}: another version of wattif wrote it",
                side.kernel, side.digest
            ));
        }
    }
    match args.json {
        true => output::json(&explanation)?,
        false => output::page(&explanation.to_text())?,
    }
    let cut =
        [&explanation.a, &explanation.b].map(|s| (s.kernel.clone(), usize::from(s.unfinished), specs[0].duration));
    if let Some(cut) = all_unfinished(&specs[0].workload, cut, 1) {
        output::note(&cut.render(look, Severity::Note));
    }
    Ok(Exit::Done)
}

fn manual(name: &str, as_json: bool, look: Look) -> Result<Exit, Error> {
    let page = page(name, look)?;
    match as_json {
        true => output::json(&json!({
            "schema": "wattif.manual/1", "kind": page.kind, "name": page.name, "manual": page.manual, "tunables": page.tunables,
        }))?,
        false => output::data(&page.text)?,
    }
    Ok(Exit::Done)
}

/// A manual page.
struct Page<'a> {
    /// The slot of a policy, or `workload`.
    kind: &'static str,
    name: &'a str,
    /// As Markdown.
    manual: String,
    /// What can be set.
    tunables: Vec<Value>,
    /// All of it, for the terminal.
    text: String,
}

/// The page of a workload model, of what several of them share, of a scheme of `cpu_util`, of a policy or a part of one.
fn page(name: &str, look: Look) -> Result<Page<'_>, Error> {
    if let Some(model) = model(name) {
        let parameter =
            |p: &Param| json!({ "name": p.name, "default": p.default, "allowed": p.allowed(), "about": p.doc });
        let tunables = model.params.iter().map(parameter).collect();
        let (manual, text) = (without_links(&model.manual()), model_manual(model, look));
        return Ok(Page { kind: "workload", name, manual, tunables, text });
    }
    if let Some(manual) = shared(name).map(|page| without_links(&page)) {
        let text = format!("{name} (of several workloads)\n\n{}", markdown::to_terminal(&manual, look));
        return Ok(Page { kind: "workload", name, manual, tunables: Vec::new(), text });
    }
    if let Some(manual) = topics::section(name).map(|page| page.trim_start().to_string()) {
        let text = format!("{name} (of cpu_util)\n\n{}", markdown::to_terminal(&manual.replace("**", ""), look));
        return Ok(Page { kind: "placement", name, manual, tunables: Vec::new(), text });
    }
    policy_page(name, look)
}

/// The page of a policy, with what is to be said of a part or a tunable of it at its head.
fn policy_page(name: &str, look: Look) -> Result<Page<'_>, Error> {
    let part = topics::part(name).map(|(policy, what)| (policy, "part", what.to_string()));
    let part = part.or_else(|| tunable(name).map(|(policy, t)| (policy, "tunable", of_tunable(t))));
    let models = MODELS.iter().map(|m| m.name).chain(shared_names());
    let names = POLICIES.iter().map(|p| p.name).chain(models).chain(topics::names()).map(String::from);
    let paths = POLICIES.iter().flat_map(|p| p.tunables.iter().map(|t| format!("{}.{}", p.name, t.name)));
    let names: Vec<String> = if name.contains('.') { paths.collect() } else { names.collect() };
    let see = "wattif list policies, wattif list workloads";
    let owner = part.as_ref().map_or(name, |&(policy, ..)| policy);
    let unknown = || Error::unknown("policy, tunable or workload model", name, names.iter().map(String::as_str), see);
    let found = policy(owner).ok_or_else(unknown)?;
    let tunable = |t: &Tunable| json!({ "name": t.name, "default": t.default, "allowed": t.allowed, "about": t.doc });
    let own = without_links(&found.manual());
    let mut text = part.as_ref().map_or(String::new(), |(policy, kind, what)| {
        format!("{name} ({kind} of {policy})\n\n{}\n", markdown::to_terminal(what, look))
    });
    text += &format!("{} ({})\n\n{}", found.name, found.slot.name(), markdown::to_terminal(&own, look));
    text += &tunables(found, look);
    Ok(Page {
        kind: found.slot.name(),
        name: owner,
        manual: part.map_or(String::new(), |(.., what)| format!("{what}\n\n")) + &own,
        tunables: found.tunables.iter().map(tunable).collect(),
        text,
    })
}

/// The policy and its tunable that `--set POLICY.TUNABLE=VALUE` names.
fn tunable(path: &str) -> Option<(&'static str, &'static Tunable)> {
    let (owner, name) = path.split_once('.')?;
    let found = policy(owner)?;
    Some((found.name, found.tunable(name)?))
}

/// What a tunable does, as Markdown.
fn of_tunable(t: &Tunable) -> String {
    format!("{}.\n\nDefault: {}. Takes: {}.", t.doc.trim_end_matches('.'), t.default, t.allowed.join(", "))
}

fn model_manual(model: &Model, look: Look) -> String {
    let mut table = Table::new(["parameter", "default", "allowed", "meaning"].map(|c| (c, Align::Left)));
    for p in model.params {
        table.row([p.name.to_string(), p.default.to_string(), p.allowed(), p.doc.to_string()]);
    }
    let body: String = table.to_text().lines().map(|l| format!("  {l}\n")).collect();
    let example = model.params.last().map_or(String::new(), |p| {
        format!("\n  Set them behind the name: wattif run {}:{}=VALUE\n", model.name, p.name)
    });
    format!(
        "{} (workload)\n\n{}\n{}\n{body}{example}",
        model.name,
        markdown::to_terminal(&without_links(&model.manual()), look),
        markdown::heading("Parameters", look)
    )
}

fn tunables(policy: &Policy, look: Look) -> String {
    if policy.tunables.is_empty() {
        return format!("\n{}\n  none\n", markdown::heading("Tunables", look));
    }
    let columns = ["tunable", "default", "allowed", "meaning"].map(|c| (c, Align::Left));
    let mut table = Table::new(columns);
    for t in policy.tunables {
        let name = format!("{}.{}", policy.name, t.name);
        table.row([name, t.default.to_string(), t.allowed.join(", "), t.doc.to_string()]);
    }
    let body: String = table.to_text().lines().map(|l| format!("  {l}\n")).collect();
    format!(
        "\n{}\n{body}\n  Set one with --set {}.{}=VALUE.\n",
        markdown::heading("Tunables", look),
        policy.name,
        policy.tunables[0].name
    )
}
