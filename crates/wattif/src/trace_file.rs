//! `--trace FILE`: the events of a run in one of the formats of traces, written while the run goes on. The file has its name
//! only when it is complete.

use crate::error::Error;
use crate::new_file::NewFile;
use clap::ValueEnum;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use wattif_formats::trace::arrow::{TableFormat, TableTrace};
use wattif_formats::trace::dat::write::DatTrace;
use wattif_formats::trace::perfetto::write::PerfettoTrace;
use wattif_formats::trace::text_write::TextTrace;
use wattif_formats::trace::{About, Detail, TraceWriter};
use wattif_lab::infer;
use wattif_model::platform::{FreqDomain, Platform};
use wattif_model::run::RunSpec;
use wattif_model::trace::{Event, Interest, Observer, Record, Recorded, Recording, ThreadInfo};
use wattif_model::{CpuId, CpuSet, DomainId, Ns, Pid};

/// Formats that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TraceFormat {
    /// ftrace text.
    Text,
    /// Perfetto protocol buffers, for ui.perfetto.dev.
    Perfetto,
    /// trace.dat version 6, for trace-cmd and KernelShark.
    Dat,
    /// An Arrow IPC table (Feather), for data frames.
    Arrow,
    /// A Parquet table, for data frames.
    Parquet,
}

impl TraceFormat {
    /// By the name of the file, `.gz` aside; text where it has no ending. One that is no trace's is an error, with the `option`
    /// that says the format.
    pub fn named(path: &Path, option: &str) -> Result<TraceFormat, Error> {
        let ending = ending(path);
        TraceFormat::by_ending(&ending).ok_or_else(|| {
            Error::Usage(format!(
                "{}: no trace is written as .{ending}: .txt (ftrace), .dat, .pftrace, .arrow or .parquet, or say {option}",
                path.display()
            ))
        })
    }

    /// The same; text where the name says nothing.
    pub fn of(path: &Path) -> TraceFormat {
        TraceFormat::by_ending(&ending(path)).unwrap_or(TraceFormat::Text)
    }

    fn by_ending(ending: &str) -> Option<TraceFormat> {
        Some(match ending {
            "" | "txt" | "trace" | "log" | "ftrace" => TraceFormat::Text,
            "pftrace" | "perfetto-trace" | "perfetto" | "pb" => TraceFormat::Perfetto,
            "dat" => TraceFormat::Dat,
            "arrow" | "feather" | "ipc" => TraceFormat::Arrow,
            "parquet" => TraceFormat::Parquet,
            _ => return None,
        })
    }
}

/// What comes after the last dot of a file's name, `.gz` aside, in small letters. A first dot hides the file.
fn ending(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()).map_or(String::new(), |(_, ending)| ending.into())
}

/// The stream below a writer; packed where the name ends in `.gz`.
enum Sink {
    Plain(BufWriter<File>),
    Gzip(Box<flate2::write::GzEncoder<BufWriter<File>>>),
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Sink::Plain(out) => out.write(bytes),
            Sink::Gzip(out) => out.write(bytes),
        }
    }
    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Sink::Plain(out) => out.flush(),
            // Flushed by writers at their end only.
            Sink::Gzip(out) => out.try_finish().and_then(|()| out.get_mut().flush()),
        }
    }
}

/// Writes to a temporary file beside `path`; [`TraceFile::finish`] gives it its name.
pub struct TraceFile {
    path: PathBuf,
    file: NewFile,
    writer: Box<dyn TraceWriter>,
}

impl TraceFile {
    /// Begin a trace of a run of `spec`, in `format` or the one that the name asks for.
    pub fn create(
        path: &Path,
        format: Option<TraceFormat>,
        detail: Detail,
        spec: &RunSpec,
    ) -> Result<TraceFile, Error> {
        let format = format.map_or_else(|| TraceFormat::named(path, "--trace-format"), Ok)?;
        TraceFile::with(path, format, detail, About::simulated(spec))
    }

    /// Begin a trace of whatever `about` says.
    pub fn with(path: &Path, format: TraceFormat, detail: Detail, about: About) -> Result<TraceFile, Error> {
        let failed = |e| Error::file(path, e);
        let file = NewFile::create(path)?;
        let plain = BufWriter::with_capacity(1 << 20, file.file().try_clone().map_err(failed)?);
        let packed = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("gz"));
        let sink = match packed {
            true => Sink::Gzip(Box::new(flate2::write::GzEncoder::new(plain, flate2::Compression::fast()))),
            false => Sink::Plain(plain),
        };
        let table = |sink, of| TableTrace::new(sink, of, detail, about.clone()).map_err(failed);
        let writer: Box<dyn TraceWriter> = match format {
            TraceFormat::Text => Box::new(TextTrace::new(sink, detail, about)),
            TraceFormat::Perfetto => Box::new(PerfettoTrace::new(sink, detail, about)),
            TraceFormat::Arrow => Box::new(table(sink, TableFormat::Arrow)?),
            TraceFormat::Parquet => Box::new(table(sink, TableFormat::Parquet)?),
            TraceFormat::Dat => {
                let scratch = tempfile::tempfile_in(file.folder()).map_err(failed)?;
                Box::new(DatTrace::new(sink, scratch, detail, about))
            }
        };
        Ok(TraceFile { path: path.to_path_buf(), file, writer })
    }

    /// Write what is left and give the file its name.
    pub fn finish(mut self) -> Result<(), Error> {
        self.writer.close().map_err(|e| Error::file(&self.path, e))?;
        self.file.finish()
    }
}

impl Observer for TraceFile {
    fn interest(&self) -> Interest {
        self.writer.interest()
    }
    fn start(&mut self, platform: &Platform) {
        self.writer.start(platform);
    }
    fn thread(&mut self, thread: &ThreadInfo) {
        self.writer.thread(thread);
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        self.writer.event(at, cpu, event);
    }
    fn finish(&mut self, end: Ns) {
        self.writer.finish(end);
    }
}

/// Write a recording: its events by its own clock.
pub fn play(recording: &Recording, to: &mut TraceFile) {
    // Frequencies of a recording are by CPU; nothing else of a machine goes into a trace of tracepoints.
    let mut platform = infer::platform(recording);
    let one = |cpu: u32| FreqDomain { cpus: CpuSet::one(CpuId(cpu)), opps: Vec::new(), ..platform.domains[0].clone() };
    let domains = (0..recording.nr_cpus.max(1) as u32).map(one).collect();
    platform.domains = domains;
    to.start(&platform);
    to.writer.recorded(recording);
    for thread in threads(recording) {
        to.thread(&thread);
    }
    // These are of the CPU that they name, whoever writes them.
    let by_another = |r: &Record| {
        matches!(r.event(), Some(Event::CpuIdle { .. } | Event::CpuIdleMiss { .. })) && r.current != Some(Pid(0))
    };
    let mut first = vec![None; recording.nr_cpus];
    for r in recording.records.iter().filter(|r| !by_another(r)) {
        first[r.cpu.at()].get_or_insert(r.current);
    }
    for (cpu, current) in (0..).map(CpuId).zip(first) {
        to.writer.runs(cpu, current.flatten());
    }
    for r in &recording.records {
        if !by_another(r) {
            to.writer.runs(r.cpu, r.current);
        }
        let event = match r.event {
            Recorded::Event(Event::Mark { pid, mark, began_ns }) => {
                Event::Mark { pid, mark, began_ns: began_ns + recording.zero_ns }
            }
            Recorded::Event(event) => event,
            Recorded::CpuFrequency { cpu, khz } => Event::CpuFrequency { domain: DomainId(cpu.0), khz, opp: 0 },
            Recorded::Irq { .. } => continue,
        };
        to.event(r.at + recording.zero_ns, r.cpu, &event);
    }
    to.finish(recording.end + recording.zero_ns);
}

/// First threads of processes before the others; a process is a task.
fn threads(recording: &Recording) -> Vec<ThreadInfo> {
    let process = |pid: u32, tgid: u32| if tgid == 0 { pid } else { tgid };
    let mut leaders: BTreeMap<&str, u32> = BTreeMap::new();
    for (_, t) in recording.threads.iter().filter(|(pid, t)| process(**pid, t.tgid) == **pid) {
        *leaders.entry(&t.comm).or_default() += 1;
    }
    // Processes of the same name stay apart.
    let task = |pid: u32| match recording.comm(Pid(pid)) {
        comm if leaders.get(comm).is_some_and(|&n| n > 1) => format!("{comm} {pid}"),
        comm => comm.to_string(),
    };
    let mut all: Vec<(bool, ThreadInfo)> = Vec::new();
    for (&pid, t) in &recording.threads {
        let of = process(pid, t.tgid);
        let policy = t.policy.unwrap_or_default();
        let info = ThreadInfo {
            pid: Pid(pid),
            comm: t.comm.clone(),
            task: task(of),
            policy,
            workload: t.housekeeping != Some(true),
            group: t.group,
            dl: t.dl,
            asked: t.asked,
            cpus: t.cpus.clone(),
        };
        all.push((of != pid, info));
    }
    all.sort_by_key(|(later, _)| *later);
    all.into_iter().map(|(_, info)| info).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ending_that_is_no_traces() {
        let named = |name: &str| TraceFormat::named(Path::new(name), "--format").map_err(|e| e.to_string());
        for name in ["t", "t.txt", "t.TRACE.gz", "t.log", "t.ftrace", "t.gz", "dir.x/t", ".hidden"] {
            assert_eq!(named(name), Ok(TraceFormat::Text), "{name}");
        }
        assert_eq!(named("t.pftrace.gz"), Ok(TraceFormat::Perfetto));
        for (name, ending) in
            [("t.pftrac", ".pftrac:"), ("x.perfeto.gz", ".perfeto:"), ("t.json", ".json:"), ("6.12", ".12:")]
        {
            let why = named(name).unwrap_err();
            assert!(why.starts_with(name) && why.contains(ending) && why.ends_with("or say --format"), "{why}");
            assert_eq!(TraceFormat::of(Path::new(name)), TraceFormat::Text);
        }
    }
}
