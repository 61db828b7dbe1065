//! `wattif import`: what real machines say, as our nouns.

use super::replay::{as_recorded, look_at};
use super::{Exit, output};
use crate::data::{self, Collection};
use crate::error::{Error, Findings, Look};
use crate::files::Files;
use crate::load;
use crate::replay::{check_policies, warnings};
use crate::settings::Settings;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use wattif_formats::{dtb, kernel_toml, rtapp, sysfs};
use wattif_lab::infer;
use wattif_model::check::{Diagnostic, Severity};
use wattif_model::kernel::{KernelSpec, Slot, profile_of};
use wattif_model::workload::Policy;
use wattif_sim::registry;
use wattif_sim::sched::features::Features;

/// Read what real machines say: the figures of a trace; or a workload, platform or kernel profile made from it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  wattif import trace.dat                              its figures, as `wattif run` shows them
  wattif import workload trace.dat -p hikey960 -o w.json
  wattif import workload trace.dat --rtapp -o app.json
  wattif import platform board.dtb -o board.toml
  wattif import platform --sysfs / -o here.toml
  wattif import kernel config-6.1.0 -o mine.toml")]
pub struct Args {
    /// trace, workload, platform or kernel; or a trace.
    #[arg(value_name = "WHAT")]
    what: String,
    /// The file to read, or - for stdin.
    #[arg(value_name = "FILE")]
    file: Option<String>,
    /// Root of a live machine or of a capture of its /sys, for platform and kernel.
    #[arg(long, value_name = "DIR")]
    sysfs: Option<PathBuf>,
    /// Machine that a trace was recorded on.
    #[arg(short, long, value_name = "PLATFORM")]
    platform: Option<String>,
    /// Operating points that a devicetree leaves to the firmware: TOML with [[domain]] entries.
    #[arg(long, value_name = "FILE")]
    overlay: Option<PathBuf>,
    /// Write here instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// A workload as rt-app JSON instead of ours.
    #[arg(long)]
    rtapp: bool,
    /// Policy of a thread that a trace cannot show, such as background=SCHED_IDLE; repeatable.
    #[arg(long, value_name = "NAME=POLICY", value_parser = crate::replay::policy_of_thread)]
    policy: Vec<(String, Policy)>,
    /// Print figures as one JSON object (wattif.recorded/1).
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args, look: Look) -> Result<Exit, Error> {
    let need = || args.file.as_deref().ok_or_else(|| Error::Usage(format!("import {}: name the file", args.what)));
    args.fits()?;
    let read = args.file.iter().fold(Files::default(), |files, file| files.read(file));
    let read = args.overlay.iter().fold(read, |files, file| files.read(file));
    let read = args.platform.iter().fold(read, |files, name| files.platform(name));
    read.each_written("--output", &args.output).check()?;
    match (args.what.as_str(), &args.file) {
        ("workload", _) => workload(args, need()?, look),
        ("trace", Some(file)) => figures(args, file, look),
        ("platform", _) => platform(args, look),
        ("kernel", _) => kernel(args, look),
        (trace, None) => figures(args, trace, look),
        (other, Some(_)) => Err(Error::unknown(
            "thing to import",
            other,
            ["trace", "workload", "platform", "kernel"],
            "wattif import --help",
        )),
    }
}

impl Args {
    /// An option that means nothing to what is imported is an error.
    fn fits(&self) -> Result<(), Error> {
        let fitting: &[&str] = match self.what.as_str() {
            "workload" => &["--platform", "--output", "--rtapp", "--policy"],
            "platform" => &["--sysfs", "--overlay", "--output"],
            "kernel" => &["--sysfs", "--output"],
            _ => &["--platform", "--json"],
        };
        let given = [
            ("--sysfs", self.sysfs.is_some()),
            ("--platform", self.platform.is_some()),
            ("--overlay", self.overlay.is_some()),
            ("--output", self.output.is_some()),
            ("--rtapp", self.rtapp),
            ("--policy", !self.policy.is_empty()),
            ("--json", self.json),
        ];
        match given.into_iter().find(|(option, given)| *given && !fitting.contains(option)) {
            Some((option, _)) => {
                let what = if fitting.contains(&"--json") { "the figures of a trace" } else { &self.what };
                Err(Error::Usage(format!("{option} means nothing to {what}: it takes {}", fitting.join(", "))))
            }
            None => Ok(()),
        }
    }
}

fn figures(args: &Args, trace: &str, look: Look) -> Result<Exit, Error> {
    as_recorded(&look_at(trace, args.platform.as_deref(), &Settings::default(), look)?, args.json)
}

fn workload(args: &Args, trace: &str, look: Look) -> Result<Exit, Error> {
    let looked = look_at(trace, args.platform.as_deref(), &Settings::default(), look)?;
    check_policies(&args.policy, &looked.loaded.recording)?;
    warnings(&looked).iter().for_each(|w| output::note(&format!("warning: {w}")));
    let platform = looked.platform.without_background();
    let options = infer::Options { policies: args.policy.clone(), counted: args.rtapp };
    let inferred = infer::workload(&looked.loaded.recording, &platform, trace, &options);
    inferred.notes.iter().for_each(|n| output::note(&format!("note: {n}")));
    // Its unit of work.
    let cpu = Some(platform.calibration_cpu.0);
    let text = match args.rtapp {
        true => {
            let (text, notes) = rtapp::write(&inferred.workload, cpu, &rtapp::Logs::default());
            notes.iter().for_each(|n| output::note(&format!("note: {n}")));
            text
        }
        false => wattif_formats::workload_json::write(&inferred.workload, cpu, &rtapp::Logs::default()),
    };
    emit(args, &text)
}

/// A platform file of a devicetree blob, or of a machine's /sys.
fn platform(args: &Args, look: Look) -> Result<Exit, Error> {
    let (name, toml, diagnostics) = match (&args.file, &args.sysfs) {
        (Some(file), None) => {
            let bytes = data::bytes(file)?;
            let overlay = args.overlay.as_ref().map(|p| std::fs::read_to_string(p).map_err(|e| Error::file(p, e)));
            let stem = Path::new(file).file_stem().map_or("board".into(), |s| s.to_string_lossy().into_owned());
            let overlay = overlay.transpose()?;
            let imported = dtb::import(&bytes, &stem, overlay.as_deref());
            if let (Some(path), Some(text), false) = (&args.overlay, overlay, imported.overlay.is_empty()) {
                let (name, diagnostics) = (path.display().to_string(), imported.overlay);
                return Err(Error::Input(Findings { name, text: text.into(), diagnostics }));
            }
            (file.clone(), imported.toml, imported.diagnostics)
        }
        (None, Some(_)) if args.overlay.is_some() => {
            let message = "--overlay means nothing to --sysfs, where the kernel tells its operating points: \
                change them in the platform file that is written";
            return Err(Error::Usage(message.into()));
        }
        (None, Some(root)) => {
            let imported = machine(root);
            (root.display().to_string(), imported.toml, imported.diagnostics)
        }
        _ => return Err(Error::Usage("import platform: name either board.dtb or --sysfs DIR".into())),
    };
    finish(args, look, name, toml, diagnostics)
}

/// A kernel profile of what a kernel says of itself.
fn kernel(args: &Args, look: Look) -> Result<Exit, Error> {
    let (name, facts) = match (&args.file, &args.sysfs) {
        (Some(file), None) => {
            let bytes = std::fs::read(file).map_err(|e| Error::file(file, e))?;
            let text = sysfs::text_of(&bytes).map_err(|e| Error::file(file, e))?;
            (file.clone(), sysfs::KernelFacts::from_text(&text))
        }
        (None, Some(root)) => {
            let tree = Tree::of(root);
            let mut facts = sysfs::KernelFacts::of(&|path| tree.text(path));
            facts.findings.extend(tree.warnings());
            (root.display().to_string(), facts)
        }
        _ => {
            return Err(Error::Usage("import kernel: name a configuration, a list of features, or --sysfs DIR".into()));
        }
    };
    let imported = kernel_of(facts);
    finish(args, look, name, imported.toml, imported.diagnostics)
}

/// The platform below a root.
pub(super) fn machine(root: &Path) -> sysfs::Imported {
    let tree = Tree::of(root);
    let mut imported = sysfs::platform(&|path| tree.text(path), "machine");
    imported.diagnostics.extend(tree.warnings());
    imported
}

/// The profile of a captured kernel: the one that it is taken for, and what is known to differ.
pub(super) fn kernel_of(mut facts: sysfs::KernelFacts) -> sysfs::Imported {
    let names: Vec<String> = Collection::Kernels.names().into_iter().map(String::from).collect();
    let version = facts.version().unwrap_or_default();
    let parent = profile_of(&version, facts.android(), &names).unwrap_or("linux-6.12").to_string();
    let features: Vec<&str> = Features::ALL.iter().map(|(name, _)| *name).collect();
    keep_class(&mut facts, &parent);
    // Some values are limits of others: all are judged together.
    let path = |slot: &str, name: &str| format!("{}.{name}", slot.rsplit('.').next().unwrap_or(slot));
    let mut all = KernelSpec::default();
    let set = |(slot, name, value): &(&str, &str, String)| {
        let refused = kernel_toml::set(&mut all, &path(slot, name), value);
        refused.err().map(|d| d.message)
    };
    let unreadable: Vec<Option<String>> = facts.tunables.iter().map(set).collect();
    let (wrong, mut unreadable) = (registry::check(&all), unreadable.into_iter());
    let findings = &mut facts.findings;
    facts.tunables.retain(|(slot, name, _)| {
        let path = path(slot, name);
        let of_it = wrong.iter().find(|refusal| refusal.tunables.contains(&path));
        let refused = unreadable.next().flatten().or_else(|| Some(of_it?.message.clone()));
        findings.extend(refused.iter().map(|why| Diagnostic::warning("sysfs::W01", 0..0, format!("{why}: left out"))));
        refused.is_none()
    });
    sysfs::kernel(&facts, "captured", &parent, &features)
}

/// Without tunables of a fair class that the parent does not have: a kernel has one of them, and some of its files are of both.
fn keep_class(facts: &mut sysfs::KernelFacts, parent: &str) {
    const FAIR: [&str; 2] = ["class.cfs", "class.eevdf"];
    let Ok(profile) = load::kernel(parent, &Settings::default()) else { return };
    let class = profile.value.policies.get(&Slot::Class).map_or(registry::default_policy(Slot::Class), String::as_str);
    let is_other = |slot: &str| FAIR.contains(&slot) && slot.strip_prefix("class.") != Some(class);
    let (kept, others): (Vec<_>, Vec<_>) =
        std::mem::take(&mut facts.tunables).into_iter().partition(|(slot, ..)| !is_other(slot));
    for (slot, name, _) in others.iter().filter(|(_, name, _)| !kept.iter().any(|(_, own, _)| own == name)) {
        let message = format!("{name} is of {slot}, which {parent} does not have: left out");
        facts.findings.push(Diagnostic::warning("sysfs::W01", 0..0, message));
    }
    facts.tunables = kept;
}

/// The files below the root of a machine or capture.
struct Tree<'a> {
    root: &'a Path,
    /// What has a name that is read, and is no file: it might never end.
    special: RefCell<BTreeSet<String>>,
}

impl Tree<'_> {
    fn of(root: &Path) -> Tree<'_> {
        Tree { root, special: RefCell::default() }
    }

    /// A file, unpacked; never more than a little of it.
    fn text(&self, path: &str) -> Option<String> {
        let at = self.root.join(path);
        let found = std::fs::metadata(&at).ok()?;
        if !found.is_file() {
            self.special.borrow_mut().extend((!found.is_dir()).then(|| path.to_string()));
            return None;
        }
        let mut bytes = Vec::new();
        std::fs::File::open(at).ok()?.take(16 << 20).read_to_end(&mut bytes).ok()?;
        sysfs::text_of(&bytes).ok()
    }

    fn warnings(self) -> impl Iterator<Item = Diagnostic> {
        let warning = |path| Diagnostic::warning("sysfs::W01", 0..0, format!("{path} is no regular file: not read"));
        self.special.into_inner().into_iter().map(warning)
    }
}

/// A file below the root of a machine or capture.
pub(super) fn below(root: &Path, path: &str) -> Option<String> {
    Tree::of(root).text(path)
}

fn finish(
    args: &Args,
    look: Look,
    name: String,
    toml: Option<String>,
    diagnostics: Vec<Diagnostic>,
) -> Result<Exit, Error> {
    let findings = Findings { name, text: "".into(), diagnostics };
    match toml {
        Some(toml) => {
            output::note(&findings.render(look, Severity::Note));
            emit(args, &toml)
        }
        None => Err(Error::Input(findings)),
    }
}

fn emit(args: &Args, text: &str) -> Result<Exit, Error> {
    match &args.output {
        Some(path) => output::file(path, text)?,
        None => output::data(text)?,
    }
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a kernel took is taken, although it would not fit the defaults of the rest.
    #[test]
    fn limits_of_each_other_are_judged_together() {
        let of = |values: &[(&'static str, &'static str, &str)]| {
            let tunables = values.iter().map(|&(slot, name, value)| (slot, name, value.to_string())).collect();
            let made = kernel_of(sysfs::KernelFacts { tunables, ..Default::default() });
            let told: Vec<String> = made.diagnostics.into_iter().map(|d| d.message).collect();
            (made.toml.unwrap_or_default(), told.join("; "))
        };
        let (rt, dl, gov) = ("class.rt", "class.deadline", "cpufreq.conservative");
        let fits = [
            (rt, "sched_rt_period_us", "200000"),
            (rt, "sched_rt_runtime_us", "180000"),
            (dl, "fair_server_period_us", "20000"),
            (dl, "fair_server_runtime_us", "1000"),
            (gov, "down_threshold", "85"),
            (gov, "up_threshold", "95"),
        ];
        let (text, told) = of(&fits);
        for (_, name, value) in fits {
            assert!(text.contains(&format!("{name} = {value}\n")), "{name}: {text}{told}");
        }
        let (text, told) =
            of(&[fits[0], (rt, "sched_rt_runtime_us", "200001"), ("cpufreq.ondemand", "up_threshold", "95")]);
        assert!(!text.contains("sched_rt") && text.contains("up_threshold = 95\n"), "{text}");
        assert!(told.contains("takes at most `sched_rt_period_us`, which is 200000"), "{told}");
    }
}
