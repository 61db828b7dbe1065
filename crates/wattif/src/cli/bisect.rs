//! `wattif bisect A B WORKLOAD`.

use super::explain::RerunArgs;
use super::inputs::Inputs;
use super::{Exit, output};
use crate::error::{Error, Look};
use crate::explain::Bisected;
use crate::{explain, text};
use wattif_lab::explain::Bisection;
use wattif_lab::stats::FEWEST;
use wattif_lab::table::cell;
use wattif_model::Ns;
use wattif_model::run::RunSpec;

/// Say which switch of two kernel profiles carries a difference: from A to B one switch at a time.
///
/// Every policy, tunable and feature in which the profiles differ is a switch. The walk sets them one after the other, so that
/// the steps sum to the difference; each is also tried alone. A switch carries the difference when the 95 % interval of its step
/// leaves out 0 and it makes at least a twentieth of it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  wattif bisect linux-5.3 linux-5.6 app.json
  wattif bisect linux-6.6 linux-6.12 server --metric energy.total --seeds 20 --rerun 5s")]
pub struct Args {
    /// The profile to begin with.
    #[arg(value_name = "A")]
    a: String,
    /// The profile to end with.
    #[arg(value_name = "B")]
    b: String,
    /// An rt-app JSON file, - for stdin, a workload of the gallery, a model; or gallery/NAME, A and B being arms of it.
    #[arg(value_name = "WORKLOAD")]
    workload: String,
    #[command(flatten)]
    inputs: Inputs,
    #[command(flatten)]
    reruns: RerunArgs,
    /// Print one JSON object (wattif.bisect/1).
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args, look: Look) -> Result<Exit, Error> {
    let reruns = args.reruns.checked()?;
    if reruns.seeds == 0 {
        return Err(Error::Usage("a bisection needs at least one seed: --seeds 8".into()));
    }
    let specs = args.inputs.sides([&args.a, &args.b], &args.workload, look)?;
    let bar = output::bar(explain::bisect_runs(&specs[0].kernel, &specs[1].kernel, &reruns), "simulating");
    let Bisected { found, length, notes } = explain::bisect([&specs[0], &specs[1]], &reruns, &output::step(&bar))?;
    bar.finish_and_clear();
    notes.iter().for_each(|note| output::note(&format!("note: {note}")));
    match args.json {
        true => output::json(&serde_json::json!({
            "schema": "wattif.bisect/1",
            "platform": specs[0].platform.name,
            "workload": specs[0].workload.name,
            "kernels": [specs[0].kernel.name, specs[1].kernel.name],
            "hashes": [specs[0].hash(), specs[1].hash()],
            "seeds": reruns.seeds,
            "duration_s": length.as_s_f64(),
            "trust": text::trust_lines(&specs[0].platform),
            "metrics": found,
            "notes": notes,
        }))?,
        false => output::page(&page(&specs[0], args, length, &found))?,
    }
    Ok(Exit::Done)
}

fn page(spec: &RunSpec, args: &Args, length: Ns, found: &[Bisection]) -> String {
    let whole = spec.workload.ends_by_itself() && length == spec.duration;
    let mut out = format!(
        "{} on {}: from {} (A) to {} (B) one switch at a time; {} seeds{}{}\n",
        spec.workload.name,
        spec.platform.name,
        args.a,
        args.b,
        args.reruns.seeds,
        if whole { ", each until it ends".into() } else { format!(" of {} s", cell(length.as_s_f64())) },
        if args.reruns.seeds < FEWEST as u64 { ", too few for intervals" } else { "" }
    );
    match found.first() {
        Some(first) if first.steps.is_empty() => out += "\nThe profiles differ in nothing: 0 switches.\n",
        _ => found.iter().for_each(|f| out += &format!("\n{}", f.to_text())),
    }
    out + &text::trust_section("it", &spec.platform)
}
