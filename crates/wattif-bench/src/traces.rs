//! What traces cost: the case of 60 s written in every format, and read back.

use crate::cases::CASES;
use serde::Serialize;
use std::path::Path;
use std::time::Instant;
use wattif::trace_file::TraceFile;
use wattif_formats::trace::{self, Detail};
use wattif_model::run::RunSpec;
use wattif_model::trace::Observer;
use wattif_sim::simulation::simulate;

/// One format at one level of detail.
#[derive(Serialize)]
struct Line {
    case: String,
    slices: u64,
    /// Simulating, without any observer.
    run_s: f64,
    /// Simulating and writing.
    run_and_write_s: f64,
    mb: f64,
    /// Reading the file back.
    read_s: f64,
    events: u64,
    events_read_per_s: f64,
}

/// Formats and levels.
const FILES: [(&str, Detail); 5] = [
    ("traces/perfetto", Detail::Tracepoints),
    ("traces/perfetto_full", Detail::Full),
    ("traces/dat", Detail::Tracepoints),
    ("traces/text", Detail::Tracepoints),
    ("traces/perfetto_gz", Detail::Tracepoints),
];

/// All of them, one JSON line each.
pub fn all() -> Result<(), String> {
    let case = CASES.iter().find(|c| c.name == "eight_cpus").ok_or("the case is gone")?;
    let spec = (case.specs)()?.swap_remove(0);
    let folder = std::env::temp_dir().join(format!("wattif-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
    let begun = Clock::now();
    let slices = simulate(&spec, &mut []).map_err(|e| e.to_string())?.slices;
    let run_s = begun.seconds();
    let done = FILES.iter().try_for_each(|(name, detail)| one(&spec, name, *detail, &folder, slices, run_s));
    let _ = std::fs::remove_dir_all(&folder);
    done
}

fn one(spec: &RunSpec, name: &str, detail: Detail, folder: &Path, slices: u64, run_s: f64) -> Result<(), String> {
    let ends = match name {
        "traces/dat" => "a.dat",
        "traces/text" => "a.txt",
        "traces/perfetto_gz" => "a.pftrace.gz",
        _ => "a.pftrace",
    };
    let path = folder.join(ends);
    let begun = Clock::now();
    let mut file = TraceFile::create(&path, None, detail, spec).map_err(|e| e.to_string())?;
    let mut observers: [&mut dyn Observer; 1] = [&mut file];
    simulate(spec, &mut observers).map_err(|e| e.to_string())?;
    file.finish().map_err(|e| e.to_string())?;
    let run_and_write_s = begun.seconds();
    let bytes = std::fs::read(&path).map_err(|e| e.to_string())?;
    let begun = Clock::now();
    let read = trace::read(&bytes);
    let read_s = begun.seconds();
    let recording = read.recording.ok_or_else(|| format!("{:?}", read.diagnostics))?;
    let events = recording.records.len() as u64 + recording.unknown.values().sum::<u64>();
    let line = Line {
        case: name.into(),
        slices,
        run_s,
        run_and_write_s,
        mb: bytes.len() as f64 / 1e6,
        read_s,
        events,
        events_read_per_s: events as f64 / read_s,
    };
    println!("{}", serde_json::to_string(&line).expect("numbers and names"));
    Ok(())
}

/// Time of this thread on a CPU where the system says it, so that what else runs does not count; real time otherwise.
struct Clock(Instant, Option<f64>);

impl Clock {
    fn now() -> Clock {
        Clock(Instant::now(), on_cpu())
    }
    fn seconds(&self) -> f64 {
        match (self.1, on_cpu()) {
            (Some(then), Some(now)) => now - then,
            _ => self.0.elapsed().as_secs_f64(),
        }
    }
}

fn on_cpu() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse::<f64>().ok().map(|ns| ns / 1e9)
}
