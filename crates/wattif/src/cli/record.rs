//! `wattif record -- COMMAND`: trace-cmd with the events a replay needs, and the machine, in one archive.

use super::{Exit, output};
use crate::bug::quote;
use crate::error::{Error, Findings, Look};
use crate::new_file::NewFile;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use wattif_formats::{archive, platform_toml, sysfs};
use wattif_model::check::Severity;

/// What a replay needs, and what tells interrupts from threads. Some kernels lack some: `-i` takes what is there.
const EVENTS: [&str; 12] = [
    "sched:sched_switch",
    "sched:sched_waking",
    "sched:sched_wakeup",
    "sched:sched_wakeup_new",
    "sched:sched_migrate_task",
    "sched:sched_process_fork",
    "sched:sched_process_exit",
    "task:task_newtask",
    "task:task_rename",
    "power:cpu_idle",
    "power:cpu_frequency",
    "power:cpu_idle_miss",
];

/// Record a command on this Linux machine with trace-cmd: one archive of the trace, the platform and the kernel profile, which
/// `wattif replay` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  wattif record -o run.tar -- ./benchmark --fast
  wattif replay run.tar -k linux-6.12
  wattif record -o run.tar --trace trace.dat          a trace recorded before, with this machine")]
pub struct Args {
    /// The archive to write.
    #[arg(short, long, value_name = "FILE", default_value = "recording.tar")]
    output: PathBuf,
    /// Record nothing: take this trace of this machine.
    #[arg(long, value_name = "TRACE", conflicts_with = "command")]
    trace: Option<PathBuf>,
    /// Buffer per CPU, kB.
    #[arg(long, value_name = "KB", default_value_t = 20_000)]
    buffer_kb: u32,
    /// The command and its arguments.
    #[arg(required_unless_present = "trace", last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub fn run(args: &Args, look: Look) -> Result<Exit, Error> {
    let folder = tempfile::tempdir().map_err(|e| Error::file("a temporary folder", e))?;
    let trace = match &args.trace {
        Some(trace) => trace.clone(),
        None => record(args, folder.path())?,
    };
    let (mut platform, kernel) = capture(look);
    if args.trace.is_some() {
        platform = platform.filter(|p| is_of(&trace, p));
    }
    pack(&args.output, &trace, platform.as_deref(), kernel.as_deref())?;
    let machine = if platform.is_some() { "" } else { " -p PLATFORM" };
    let next = quote(&args.output.display().to_string());
    output::note(&format!("recorded; next: wattif replay {next}{machine} -k linux-6.12"));
    Ok(Exit::Done)
}

/// Is a trace as wide as this machine? A replay refuses events of more CPUs.
fn is_of(trace: &Path, platform: &str) -> bool {
    let nr = platform_toml::parse(platform, &Default::default()).platform.map_or(0, |p| p.nr_cpus());
    let name = trace.display().to_string();
    match crate::recording::load(&name) {
        Ok(loaded) if loaded.recording.nr_cpus > nr => {
            let of = loaded.recording.nr_cpus;
            output::note(&format!(
                "warning: {name} has events of {of} CPUs, this machine has {nr}: its platform was left out of the archive"
            ));
            false
        }
        Ok(_) => true,
        Err(e) => {
            output::note(&format!("warning: a replay will not take {name}: {e}"));
            true
        }
    }
}

/// The trace of the command, which has this process's input and outputs.
fn record(args: &Args, folder: &Path) -> Result<PathBuf, Error> {
    let trace = folder.join("trace.dat");
    let words = |trace: &Path| {
        let mut words: Vec<String> = ["record", "-q", "-i", "-b"].map(String::from).into();
        words.push(args.buffer_kb.to_string());
        words.extend(["-o".into(), trace.display().to_string()]);
        words.extend(EVENTS.iter().flat_map(|e| ["-e".to_string(), e.to_string()]));
        words.extend(args.command.iter().cloned());
        words
    };
    let done = match Command::new("trace-cmd").args(words(&trace)).status() {
        Ok(done) => done,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Err(Error::Usage(format!(
                "trace-cmd is not installed; install it and try again:\n  apt-get install trace-cmd    (Debian, Ubuntu)\n  \
                 dnf install trace-cmd        (Fedora)\n{}",
                by_hand(args, &words(Path::new("trace.dat")))
            )));
        }
        Err(e) => return Err(Error::file("trace-cmd", e)),
    };
    if !done.success() || !trace.exists() {
        return Err(Error::Usage(format!(
            "trace-cmd could not record ({done}); above is what it says\n{}",
            by_hand(args, &words(Path::new("trace.dat")))
        )));
    }
    Ok(trace)
}

/// What to run where this process may not.
fn by_hand(args: &Args, words: &[String]) -> String {
    let quoted: Vec<String> = words.iter().map(|w| quote(w)).collect();
    let installed = Command::new("trace-cmd").arg("--version").output().is_ok();
    let why = match (Path::new("/sys/kernel/tracing").exists(), root()) {
        (false, _) => {
            "there is no /sys/kernel/tracing here: a kernel with CONFIG_FTRACE is needed, outside of containers"
        }
        (true, true) if installed => "root of a container may not trace: run this as root on the machine itself",
        _ => "or by hand, as tracing is for root:",
    };
    let archive = quote(&args.output.display().to_string());
    format!("{why}\n  sudo trace-cmd {}\n  wattif record -o {archive} --trace trace.dat", quoted.join(" "))
}

fn root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|l| l.strip_prefix("Uid:").is_some_and(|ids| ids.split_whitespace().nth(1) == Some("0")))
}

/// The machine and its kernel, as far as they tell.
fn capture(look: Look) -> (Option<String>, Option<String>) {
    let imported = super::import::machine(Path::new("/"));
    let kernel = super::import::kernel_of(&sysfs::KernelFacts::of(&|p| super::import::below(Path::new("/"), p)));
    for (name, diagnostics) in [("platform", &imported.diagnostics), ("kernel", &kernel.diagnostics)] {
        let findings = Findings { name: name.into(), text: "".into(), diagnostics: diagnostics.clone() };
        output::note(&findings.render(look, Severity::Note));
    }
    (imported.toml, kernel.toml)
}

/// Everything in one file.
fn pack(path: &Path, trace: &Path, platform: Option<&str>, kernel: Option<&str>) -> Result<(), Error> {
    let failed = |e| Error::file(path, e);
    let mut file = NewFile::create(path)?;
    for (name, text) in [("platform.toml", platform), ("kernel.toml", kernel)] {
        if let Some(text) = text {
            let size = text.len() as u64;
            let member = [&archive::header(name, size)[..], text.as_bytes(), &archive::padding(size, false)].concat();
            file.write_all(&member).map_err(failed)?;
        }
    }
    let mut from = File::open(trace).map_err(|e| Error::file(trace, e))?;
    let size = from.metadata().map_err(|e| Error::file(trace, e))?.len();
    file.write_all(&archive::header("trace.dat", size)).map_err(failed)?;
    std::io::copy(&mut from, &mut file).map_err(failed)?;
    file.write_all(&archive::padding(size, true)).map_err(failed)?;
    file.finish()
}
