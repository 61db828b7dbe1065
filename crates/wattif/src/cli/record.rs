//! `wattif record -- COMMAND`: trace-cmd with the events a replay needs, and the machine, in one archive.

use super::{Exit, output};
use crate::bug::quote;
use crate::error::{Error, Findings, Look};
use crate::files::Files;
use crate::new_file::{NewFile, named};
use crate::replay::cpus_of;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use wattif_formats::{archive, platform_toml, sysfs};
use wattif_model::CpuSet;
use wattif_model::check::Severity;
use wattif_model::trace::Recording;

/// What a replay needs, and what tells interrupts from threads. Some kernels lack some: `-i` takes what is there.
const EVENTS: [&str; 13] = [
    "sched:sched_switch",
    "sched:sched_waking",
    "sched:sched_wakeup",
    "sched:sched_wakeup_new",
    "sched:sched_migrate_task",
    "sched:sched_process_fork",
    "sched:sched_process_exec",
    "sched:sched_process_exit",
    "task:task_newtask",
    "task:task_rename",
    "power:cpu_idle",
    "power:cpu_frequency",
    "power:cpu_idle_miss",
];

/// Buffer per CPU unless another is asked for, kB.
const BUFFER_KB: u32 = 20_000;

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
    #[arg(short, long, value_name = "FILE", default_value = "recording.tar", value_parser = named())]
    output: PathBuf,
    /// Record nothing: take this trace of this machine.
    #[arg(long, value_name = "TRACE", conflicts_with = "command")]
    trace: Option<String>,
    /// Buffer per CPU, kB.
    #[arg(long, value_name = "KB", default_value_t = BUFFER_KB)]
    buffer_kb: u32,
    /// The command and its arguments.
    #[arg(required_unless_present = "trace", last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub fn run(args: &Args, look: Look) -> Result<Exit, Error> {
    let read = args.trace.iter().fold(Files::default(), |files, trace| files.read(trace));
    read.written("--output", &args.output).check()?;
    // First of all: where nothing can be written, nothing has to be recorded.
    let archive = NewFile::create(&args.output)?;
    let folder = tempfile::tempdir().map_err(|e| Error::file("a temporary folder", e))?;
    let trace = match &args.trace {
        Some(trace) => PathBuf::from(trace),
        None => record(args, folder.path())?,
    };
    let (mut platform, mut kernel) = capture(look);
    let name = trace.display().to_string();
    let taken = crate::recording::load(&name).map(|loaded| loaded.recording);
    if args.trace.is_some()
        && let Ok(recording) = &taken
        && !is_of_here(&name, recording, platform.as_deref())
    {
        (platform, kernel) = (None, None);
    }
    if let Err(e) = pack(archive, &args.output, &trace, platform.as_deref(), kernel.as_deref()) {
        if args.trace.is_some() {
            return Err(e);
        }
        return Err(Error::Usage(format!("{e}\nthe trace is kept in {}", folder.keep().display())));
    }
    if let Err(e) = taken {
        let archive = args.output.display();
        output::note(&format!("warning: {archive} is written, but a replay will not take its trace: {e}"));
        return Ok(Exit::Done);
    }
    let machine = if platform.is_some() { "" } else { " -p PLATFORM" };
    let next = quote(&args.output.display().to_string());
    output::note(&format!("recorded; next: wattif replay {next}{machine} -k linux-6.12"));
    Ok(Exit::Done)
}

/// Is a trace of this machine, as far as it says? What it is of instead is told, and that it does not say.
fn is_of_here(name: &str, recording: &Recording, platform: Option<&str>) -> bool {
    let platform = platform.and_then(|p| platform_toml::parse(p, &Default::default()).platform);
    let here = Here {
        release: super::import::below(Path::new("/"), "proc/sys/kernel/osrelease"),
        // Since Linux 6.1.
        machine: super::import::below(Path::new("/"), "proc/sys/kernel/arch"),
        cpus: platform.map(|p| if p.kernel_cpus.is_empty() { CpuSet::first(p.nr_cpus()) } else { p.kernel_cpus }),
    };
    let other = here.other(recording);
    if !other.is_empty() {
        let other = other.join("; ");
        output::note(&format!(
            "warning: {name} is of another machine: {other}; platform and kernel of this one were left out of the archive"
        ));
    } else if recording.release.is_none() && recording.machine.is_none() {
        output::note(&format!("note: {name} does not say what machine it is of: taken as one of this machine"));
    }
    other.is_empty()
}

/// This machine, as traces speak of theirs.
struct Here {
    release: Option<String>,
    machine: Option<String>,
    /// As the kernel numbers them.
    cpus: Option<CpuSet>,
}

impl Here {
    /// What a trace says of its machine that is not so here.
    fn other(&self, of: &Recording) -> Vec<String> {
        let mut all = Vec::new();
        let exported = |machine: &&str| *machine != "recorded";
        let said = [
            ("Linux ", of.release.as_deref(), &self.release),
            ("", of.machine.as_deref().filter(exported), &self.machine),
        ];
        for (what, of, here) in said {
            if let (Some(of), Some(here)) = (of, here.as_deref().map(str::trim))
                && of != here
            {
                all.push(format!("it is of {what}{of}, this is {what}{here}"));
            }
        }
        // A trace.dat counts all CPUs, other traces those with events.
        let counted = of.format.starts_with("trace.dat").then_some(of.nr_cpus);
        let Some(here) = &self.cpus else { return all };
        let seen = of.cpus();
        if seen.iter().any(|cpu| !here.contains(cpu)) {
            all.push(match *here == CpuSet::first(here.len()) {
                true => format!("it has events of {} CPUs, this machine has {}", cpus_of(of), here.len()),
                false => format!("it has events of CPUs {seen}, this machine has CPUs {here}"),
            });
        } else if counted.is_some_and(|of| of < here.len()) {
            all.push(format!("its machine has {} CPUs, this one has {}", of.nr_cpus, here.len()));
        }
        all
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
    // Ctrl-C ends the command and the recording; what was recorded is still to be packed.
    #[cfg(unix)]
    super::survive(signal_hook::consts::SIGINT);
    let done = match Command::new("trace-cmd").args(words(&trace)).status() {
        Ok(done) => done,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Err(Error::Usage(format!(
                "trace-cmd is not installed; install it and try again:\n  apt-get install trace-cmd    (Debian, Ubuntu)\n  \
                 dnf install trace-cmd        (Fedora)\n{}",
                Tracing::here().instead(args, &words(Path::new("trace.dat")))
            )));
        }
        Err(e) => return Err(Error::file("trace-cmd", e)),
    };
    match trace.metadata().is_ok_and(|m| m.len() > 0) {
        true if done.success() => {}
        // Of the command, or of the last of what was to be recorded: what is there is there.
        true => output::note(&format!("warning: trace-cmd ended with {done}; its trace is taken")),
        false => {
            let said = if done.success() { "wrote no trace" } else { "could not record" };
            let instead = Tracing::here().instead(args, &words(Path::new("trace.dat")));
            return Err(Error::Usage(format!("trace-cmd {said} ({done})\n{instead}")));
        }
    }
    Ok(trace)
}

/// Whether this process may trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tracing {
    /// There is nothing to trace with.
    Absent,
    /// Root may not, as in a container.
    Refused,
    /// It is for root alone.
    ForRoot,
    /// As far as it shows.
    Allowed,
}

impl Tracing {
    fn here() -> Tracing {
        let refused = |e: std::io::Error| e.kind() == std::io::ErrorKind::PermissionDenied;
        let may_not = || File::options().write(true).open("/sys/kernel/tracing/tracing_on").is_err_and(refused);
        match Path::new("/sys/kernel/tracing").exists() {
            false => Tracing::Absent,
            true if !root() => Tracing::ForRoot,
            true if may_not() => Tracing::Refused,
            true => Tracing::Allowed,
        }
    }

    /// What to run instead.
    fn instead(self, args: &Args, words: &[String]) -> String {
        let quoted = |words: &[String]| words.iter().map(|w| quote(w)).collect::<Vec<_>>().join(" ");
        let archive = quote(&args.output.display().to_string());
        let why = match self {
            Tracing::Absent => {
                "there is no /sys/kernel/tracing here: a kernel with CONFIG_FTRACE is needed, outside of containers"
                    .into()
            }
            Tracing::Refused => "root of a container may not trace: run this as root on the machine itself".into(),
            Tracing::ForRoot => {
                let buffer = match args.buffer_kb {
                    BUFFER_KB => String::new(),
                    kb => format!(" --buffer-kb {kb}"),
                };
                let command = quoted(&args.command);
                format!("tracing is for root:\n  sudo wattif record -o {archive}{buffer} -- {command}\nor by hand:")
            }
            Tracing::Allowed => "to record by hand:".into(),
        };
        format!("{why}\n  sudo trace-cmd {}\n  wattif record -o {archive} --trace trace.dat", quoted(words))
    }
}

fn root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|l| l.strip_prefix("Uid:").is_some_and(|ids| ids.split_whitespace().nth(1) == Some("0")))
}

/// The machine and its kernel, as far as they tell.
fn capture(look: Look) -> (Option<String>, Option<String>) {
    let imported = super::import::machine(Path::new("/"));
    let mut kernel = super::import::kernel_of(sysfs::KernelFacts::of(&|p| super::import::below(Path::new("/"), p)));
    // Some of it is said of the machine and of its kernel: here, once.
    kernel.diagnostics.retain(|d| imported.diagnostics.iter().all(|said| said.message != d.message));
    for (name, diagnostics) in [("platform", &imported.diagnostics), ("kernel", &kernel.diagnostics)] {
        let findings = Findings { name: name.into(), text: "".into(), diagnostics: diagnostics.clone() };
        output::note(&findings.render(look, Severity::Note));
    }
    (imported.toml, kernel.toml)
}

/// Everything in one file.
fn pack(
    mut file: NewFile,
    path: &Path,
    trace: &Path,
    platform: Option<&str>,
    kernel: Option<&str>,
) -> Result<(), Error> {
    let failed = |e| Error::file(path, e);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// CPUs that are offline have no events, and a platform is without them.
    #[test]
    fn cpus_of_another_machine() {
        use wattif_model::trace::{Record, Recorded};
        use wattif_model::{CpuId, Ns};
        let set = |cpus: &[u32]| cpus.iter().map(|cpu| CpuId(*cpu)).collect::<CpuSet>();
        let other = |here: &[u32], seen: &[u32]| {
            let of =
                |cpu: &u32| Record { at: Ns(1), cpu: CpuId(*cpu), current: None, event: Recorded::Irq { enter: true } };
            let recording = Recording { records: seen.iter().map(of).collect(), ..Recording::default() };
            Here { release: None, machine: None, cpus: Some(set(here)) }.other(&recording).join("; ")
        };
        assert_eq!(other(&[0, 2, 3], &[0, 3]), "");
        assert_eq!(other(&[0, 2, 3], &[0, 1]), "it has events of CPUs 0-1, this machine has CPUs 0,2-3");
        assert_eq!(other(&[0, 1, 2], &[0, 3]), "it has events of 4 CPUs, this machine has 3");
    }

    #[test]
    fn what_to_run_instead() {
        let args = |buffer_kb| Args {
            output: "a run.tar".into(),
            trace: None,
            buffer_kb,
            command: ["sleep", "1 s"].map(String::from).into(),
        };
        let words = ["record", "-o", "trace.dat", "sleep", "1 s"].map(String::from);
        let told = |tracing: Tracing| tracing.instead(&args(BUFFER_KB), &words);
        let by_hand =
            "\n  sudo trace-cmd record -o trace.dat sleep '1 s'\n  wattif record -o 'a run.tar' --trace trace.dat";
        let all = [Tracing::Absent, Tracing::Refused, Tracing::ForRoot, Tracing::Allowed].map(told);
        for told in &all {
            assert!(told.ends_with(by_hand) && !told.starts_with("or"), "{told}");
        }
        assert_eq!(all[3].strip_suffix(by_hand), Some("to record by hand:"));
        let sudo = "tracing is for root:\n  sudo wattif record -o 'a run.tar' -- sleep '1 s'\nor by hand:";
        assert_eq!(all[2].strip_suffix(by_hand), Some(sudo));
        let larger = Tracing::ForRoot.instead(&args(40_000), &words);
        assert!(larger.contains("-o 'a run.tar' --buffer-kb 40000 -- sleep"), "{larger}");
    }
}
