//! `wattif explain NAME`: the manual page of a policy.

use super::{Exit, output};
use crate::error::{Error, Look};
use crate::markdown;
use wattif_lab::table::{Align, Table};
use wattif_sim::registry::{POLICIES, Policy, policy};

/// Print a policy's manual: idea, signals, decision, where it fails, how it differs from the kernel, and its tunables.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  wattif explain teo\n  wattif explain select_idle_sibling | less\n\n`wattif list policies` prints all names."
)]
pub struct Args {
    /// A policy, such as schedutil.
    name: String,
}

pub fn run(args: &Args, look: Look) -> Result<Exit, Error> {
    let names = POLICIES.iter().map(|p| p.name);
    let found =
        policy(&args.name).ok_or_else(|| Error::unknown("policy", &args.name, names, "wattif list policies"))?;
    let mut text = format!("{} ({})\n\n", found.name, found.slot.name());
    text += &markdown::to_terminal(&found.manual(), look);
    text += &tunables(found, look);
    output::data(&text)?;
    Ok(Exit::Done)
}

fn tunables(policy: &Policy, look: Look) -> String {
    if policy.tunables.is_empty() {
        return format!("\n{}\n  none\n", markdown::heading("Tunables", look));
    }
    let columns = ["tunable", "default", "allowed", "meaning"].map(|c| (c, Align::Left));
    let mut table = Table::new(columns);
    for t in policy.tunables {
        let allowed = if t.allowed.is_empty() { "a number".to_string() } else { t.allowed.join(", ") };
        table.row([format!("{}.{}", policy.name, t.name), t.default.to_string(), allowed, t.doc.to_string()]);
    }
    let body: String = table.to_text().lines().map(|l| format!("  {l}\n")).collect();
    format!(
        "\n{}\n{body}\n  Set one with --set {}.{}=VALUE.\n",
        markdown::heading("Tunables", look),
        policy.name,
        policy.tunables[0].name
    )
}
