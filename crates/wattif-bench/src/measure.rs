//! How it is measured.

use crate::cases::{CASES, Case};
use serde::Serialize;
use std::process::Command;
use std::time::Instant;
use wattif_model::Ns;
use wattif_model::run::RunSpec;
use wattif_sim::simulation::simulate;

/// One line of output.
#[derive(Serialize)]
struct Line {
    case: &'static str,
    /// See `cargo xtask pgo`.
    profile_guided: bool,
    runs: usize,
    nr_cpus: usize,
    sim_s: f64,
    /// Of the fastest of [`REPETITIONS`]; what else a machine does only adds.
    wall_s: f64,
    /// Of the slowest.
    wall_s_slowest: f64,
    sim_s_per_s: f64,
    slices: u64,
    slices_per_s: f64,
    /// With every metric of `wattif run` listening as well.
    slices_per_s_with_metrics: f64,
    events_per_s: f64,
    peak_rss_mb: Option<f64>,
    instructions_per_slice: Option<f64>,
}

/// How often a single run is measured; many runs are their own repetition.
const REPETITIONS: usize = 5;

/// Every case named (all when none is) in a process of its own.
pub fn all(names: &[&str]) -> Result<(), String> {
    let me = std::env::current_exe().map_err(|e| e.to_string())?;
    for case in CASES.iter().filter(|c| names.is_empty() || names.contains(&c.name)) {
        let status = Command::new(&me).args(["--here", case.name]).status().map_err(|e| e.to_string())?;
        if !status.success() {
            return Err(format!("{}: {status}", case.name));
        }
    }
    Ok(())
}

fn case(name: &str) -> Result<&'static Case, String> {
    CASES.iter().find(|c| c.name == name).ok_or_else(|| format!("there is no case `{name}`"))
}

/// One case, in this process.
pub fn here(name: &str) -> Result<(), String> {
    let case = case(name)?;
    let specs = (case.specs)()?;
    let (mut wall_s, mut wall_s_slowest) = (f64::INFINITY, 0f64);
    let (mut slices, mut events) = (0, 0);
    for _ in 0..if specs.len() == 1 { REPETITIONS } else { 1 } {
        let begun = Instant::now();
        (slices, events) = plain(&specs)?;
        let took = begun.elapsed().as_secs_f64();
        (wall_s, wall_s_slowest) = (wall_s.min(took), wall_s_slowest.max(took));
    }
    let peak_rss_mb = peak_rss_mb();
    let begun = Instant::now();
    wattif::run::run_all(&specs, &|| true).map_err(|e| e.to_string())?;
    let with_metrics = slices as f64 / begun.elapsed().as_secs_f64();
    let sim_s: f64 = specs.iter().map(|s| s.duration.as_s_f64()).sum();
    let line = Line {
        case: case.name,
        profile_guided: option_env!("WATTIF_PROFILE_GUIDED").is_some(),
        runs: specs.len(),
        nr_cpus: specs[0].platform.nr_cpus(),
        sim_s,
        wall_s,
        wall_s_slowest,
        sim_s_per_s: sim_s / wall_s,
        slices,
        slices_per_s: slices as f64 / wall_s,
        slices_per_s_with_metrics: with_metrics,
        events_per_s: events as f64 / wall_s,
        peak_rss_mb,
        instructions_per_slice: instructions_per_slice(case.name, &specs[0]),
    };
    println!("{}", serde_json::to_string(&line).expect("numbers and names"));
    Ok(())
}

/// A single run on one core without observers, so that the figure is the simulator's own; many runs as users have them, on
/// all cores and with all metrics.
fn plain(specs: &[RunSpec]) -> Result<(u64, u64), String> {
    if let [spec] = specs {
        let summary = simulate(spec, &mut []).map_err(|e| e.to_string())?;
        return Ok((summary.slices, summary.events));
    }
    let outcomes = wattif::run::run_all(specs, &|| true).map_err(|e| e.to_string())?;
    Ok(outcomes.iter().fold((0, 0), |(s, e), o| (s + o.summary.slices, e + o.summary.events)))
}

/// The kernel's own high-water mark, where there is one.
fn peak_rss_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches("kB").trim().parse::<f64>().ok().map(|kb| kb / 1024.0)
}

/// A shorter run of the case; prints its slices.
pub fn slices(name: &str, milliseconds: &str) -> Result<(), String> {
    let ms = milliseconds.parse().map_err(|_| format!("`{milliseconds}` is no number"))?;
    let spec = RunSpec { duration: Ns::from_ms(ms), ..(case(name)?.specs)()?.swap_remove(0) };
    println!("{}", simulate(&spec, &mut []).map_err(|e| e.to_string())?.slices);
    Ok(())
}

/// Instructions of the second half of a short run, by its slices.
fn instructions_per_slice(name: &str, spec: &RunSpec) -> Option<f64> {
    let full = 4_000 / spec.platform.nr_cpus().max(8) as u64 * 8;
    let ((short, few), (long, many)) = (callgrind(name, full / 4)?, callgrind(name, full)?);
    (many > few).then(|| (long.saturating_sub(short)) as f64 / (many - few) as f64)
}

/// Instructions and slices of a run of so many simulated milliseconds.
fn callgrind(name: &str, ms: u64) -> Option<(u64, u64)> {
    let me = std::env::current_exe().ok()?;
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(me);
    let out = command.args(["--slices", name, &ms.to_string()]).output().ok()?;
    let notes = String::from_utf8_lossy(&out.stderr).into_owned();
    let collected =
        notes.lines().find_map(|l| l.split_once("Collected :"))?.1.split_whitespace().next()?.parse().ok()?;
    Some((collected, String::from_utf8_lossy(&out.stdout).trim().parse().ok()?))
}
