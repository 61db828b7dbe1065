//! `wattif record -- COMMAND`: trace-cmd with the events a replay needs, and the machine beside the trace.

use super::{Exit, output};
use crate::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use wattif_formats::sysfs;

/// What a replay needs, and what tells interrupts from threads.
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

/// Record a command on this Linux machine with trace-cmd: DIR/trace.dat, DIR/platform.toml and DIR/kernel.toml, which
/// `wattif replay` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  wattif record -o run -- ./benchmark --fast
  wattif replay run/trace.dat -p run/platform.toml -k run/kernel.toml -k linux-6.12")]
pub struct Args {
    /// Folder for the recording; made if it is not there.
    #[arg(short, long, value_name = "DIR", default_value = "recording")]
    output: PathBuf,
    /// Buffer per CPU, kB.
    #[arg(long, value_name = "KB", default_value_t = 20_000)]
    buffer_kb: u32,
    /// The command and its arguments.
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub fn run(args: &Args) -> Result<Exit, Error> {
    let trace = args.output.join("trace.dat");
    let mut words: Vec<String> = ["record", "-q", "-b"].map(String::from).into();
    words.push(args.buffer_kb.to_string());
    words.extend(["-o".into(), trace.display().to_string()]);
    words.extend(EVENTS.iter().filter(|e| has(e)).flat_map(|e| ["-e".to_string(), e.to_string()]));
    words.extend(args.command.iter().cloned());
    let by_hand = || {
        let quoted: Vec<String> =
            words.iter().map(|w| if w.contains(' ') { format!("'{w}'") } else { w.clone() }).collect();
        format!("run this as root on the machine:\n  trace-cmd {}", quoted.join(" "))
    };
    if Command::new("trace-cmd").arg("--version").output().is_err() {
        return Err(Error::Usage(format!("trace-cmd is not installed (apt-get install trace-cmd); {}", by_hand())));
    }
    if !allowed() {
        return Err(Error::Usage(format!("no permission to trace on this machine; {}", by_hand())));
    }
    std::fs::create_dir_all(&args.output).map_err(|e| Error::file(&args.output, e))?;
    let done = Command::new("trace-cmd").args(&words).status().map_err(|e| Error::file("trace-cmd", e))?;
    if !done.success() {
        return Err(Error::Usage(format!("trace-cmd failed ({done}); {}", by_hand())));
    }
    capture(&args.output)?;
    output::note(&format!(
        "recorded; next: wattif replay {} -p {} -k linux-6.12",
        trace.display(),
        args.output.join("platform.toml").display()
    ));
    Ok(Exit::Done)
}

/// Some kernels lack some events.
fn has(event: &str) -> bool {
    let path = event.replace(':', "/");
    let known = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].map(|d| Path::new(d).join("events"));
    let there = known.iter().any(|d| d.is_dir());
    !there || known.iter().any(|d| d.join(&path).is_dir())
}

/// Can this process switch tracing on?
fn allowed() -> bool {
    ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"]
        .iter()
        .any(|d| std::fs::OpenOptions::new().append(true).open(Path::new(d).join("set_event")).is_ok())
}

/// The machine and its kernel, as far as they tell.
fn capture(folder: &Path) -> Result<(), Error> {
    let imported = super::import::machine(Path::new("/"));
    let kernel = super::import::kernel_of(&sysfs::KernelFacts::of(&|p| super::import::below(Path::new("/"), p)));
    for (name, toml) in [("platform.toml", imported.toml), ("kernel.toml", kernel.toml)] {
        if let Some(toml) = toml {
            output::file(&folder.join(name), &toml)?;
        }
    }
    Ok(())
}
