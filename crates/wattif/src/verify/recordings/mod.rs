//! `wattif verify` of recordings: traces of a real kernel that ran known workloads on known machines (`cases.json`).
//!
//! Each case is simulated, its figures are computed from the events by the definitions of the recordings' `measure.py`
//! ([`figures`]), and compared with what was measured, within the tolerances of the case. The same code computes them from the
//! text of a recording; a test holds that it gives the recorded figures there.
//!
//! FIDELITY(guest-background): what the guest's own threads left on the CPUs before a case is not simulated.
//! FIDELITY(rtapp-startup): threads of rt-app do not wait for each other while they are created, and processes start alike.
//! FIDELITY(recordings-open): what is out of its tolerance and not explained.

mod background;
pub mod case;
mod cpus;
pub mod facts;
pub mod figures;
pub mod history;
mod jobs;
pub mod kernels;
pub mod pelt;

use super::folder::{MAX_BYTES, bounded};
use crate::error::Error;
use crate::files::Files;
use crate::load;
use crate::run::Simulator;
use crate::trace_file::TraceFile;
use case::{Case, WindowKind};
use figures::{Figures, View};
use history::History;
use kernels::Kernels;
use rayon::prelude::*;
use serde::Serialize;
use serde_json::Value;
use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use wattif_formats::trace::Detail;
use wattif_model::Ns;
use wattif_model::run::{RunSpec, Runner};
use wattif_model::workload::{TaskSpec, Workload};

/// A run that does not end by itself ends here.
const LONGEST_RUN_S: u64 = 60;
/// What starting a process took in the guests (fork, exec, reading its arguments), at 1 GIPS: one value for each build of the
/// kernel, from the first switch-in of the cases' processes to their first sleep. rt-app's threads start at once.
const STARTUP_X86: Ns = Ns(790_000);
const STARTUP_ARM64: Ns = Ns(340_000);

/// A case, compared.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CaseReport {
    /// Its name.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// The kernel.
    pub kernel: String,
    /// The machine.
    pub platform: String,
    /// Figures with a tolerance.
    pub figures: Vec<FigureReport>,
    /// Figures to look at: chance decides them, or the recording's own path lengths.
    pub info: Vec<InfoReport>,
    /// What the comparison left out.
    pub notes: Vec<String>,
    /// Why the case could not be run, with file and line.
    pub error: Option<String>,
}

/// A figure, compared.
#[derive(Clone, Debug, Serialize)]
pub struct FigureReport {
    /// Path, such as `groups.cfs.wakeup_latency.mean_us`; the last part ends with the unit.
    pub name: String,
    /// Of the real kernel.
    pub measured: f64,
    /// Of the simulation; absent where it has none.
    pub simulated: Option<f64>,
    /// Allowed difference.
    pub tolerance: f64,
    /// Within it?
    pub ok: bool,
}

/// A figure that is not compared.
#[derive(Clone, Debug, Serialize)]
pub struct InfoReport {
    /// Path.
    pub name: String,
    /// Of the real kernel.
    pub measured: f64,
    /// Of the simulation.
    pub simulated: Option<f64>,
}

impl CaseReport {
    /// Figures within their tolerance, and those that are not.
    pub fn counts(&self) -> (usize, usize) {
        let inside = self.figures.iter().filter(|f| f.ok).count();
        (inside, self.figures.len() - inside)
    }
}

/// A folder of recordings.
#[derive(Debug)]
pub struct Recordings {
    folder: PathBuf,
    text: String,
    /// In the order of the file.
    pub cases: Vec<Case>,
    kernels: Kernels,
    /// Where the trace of each simulated case goes, as `CASE.txt`.
    pub traces: Option<PathBuf>,
}

impl Recordings {
    /// Reads `cases.json` and the `kernels.json` beside it; errors name file, line and column.
    pub fn open(cases_json: &Path) -> Result<Recordings, Error> {
        let folder = cases_json.parent().unwrap_or(Path::new(".")).to_path_buf();
        let text = read(cases_json)?;
        let cases: Vec<Case> = json(cases_json, &text)?;
        let path = folder.join("kernels.json");
        let kernels: kernels::File = json(&path, &read(&path)?)?;
        let recordings = Recordings { folder, text, cases, kernels: kernels.kernels, traces: None };
        let mut names: Vec<&str> = recordings.cases.iter().map(|c| c.name.as_str()).collect();
        names.sort_unstable();
        match names.windows(2).find(|w| w[0] == w[1]) {
            Some(twice) => Err(Error::file(cases_json, format!("case `{}` is there twice", twice[0]))),
            None => Ok(recordings),
        }
    }

    /// Refuses traces that would be written over what is read.
    pub fn check_traces(&self) -> Result<(), Error> {
        let Some(traces) = &self.traces else { return Ok(()) };
        let read = |files: Files, case: &Case| {
            let named = [&case.trace, &case.workload].into_iter().chain(&case.pelt_csv);
            named.fold(files, |files, name| files.read(self.folder.join(name)))
        };
        let read = self.cases.iter().fold(Files::default(), read);
        let written = self.cases.iter().map(|case| trace_of(traces, case));
        read.each_written("--traces", written).check()
    }

    /// Simulates and compares every case, on all cores; `done` is called after each.
    pub fn verify(&self, done: &(dyn Fn(&CaseReport) + Sync)) -> Vec<CaseReport> {
        let one = |case: &Case| {
            let report = self.verify_case(case);
            done(&report);
            report
        };
        self.cases.par_iter().map(one).collect()
    }

    /// One case.
    pub fn verify_case(&self, case: &Case) -> CaseReport {
        let report = CaseReport {
            name: case.name.clone(),
            title: case.title.clone(),
            kernel: case.kernel.clone(),
            platform: case.platform.clone(),
            ..CaseReport::default()
        };
        match self.simulate(case) {
            Ok((figures, notes)) => CaseReport { notes, ..compare(report, case, &figures) },
            Err(why) => CaseReport { error: Some(why), ..report },
        }
    }

    /// The text of a case's recording.
    pub fn trace_text(&self, case: &Case) -> Result<String, Error> {
        read(&self.folder.join(&case.trace))
    }

    fn simulate(&self, case: &Case) -> Result<(Figures, Vec<String>), String> {
        let line =
            self.text.lines().position(|l| l.contains(&format!("\"name\": \"{}\"", case.name))).map_or(1, |l| l + 1);
        let here = |why: String| format!("cases.json:{line}: {why}");
        let (spec, notes) = self.spec(case).map_err(here)?;
        let lead = background::lead(case, spec.platform.hz);
        let mut history = History::default();
        history.zero = lead.0;
        self.run(case, &spec, &mut history).map_err(here)?;
        let view = View::new(case, &history).map_err(here)?;
        let mut figures = view.figures();
        figures.extend(view.log_figures());
        if let Some(csv) = &case.pelt_csv {
            let path = self.folder.join(csv);
            let text = read(&path).map_err(|e| here(e.to_string()))?;
            let samples = pelt::parse(&text).map_err(|e| format!("{}: {e}", path.display()))?;
            pelt_figures(case, &view, &samples, lead, &mut figures);
        }
        Ok((figures, notes))
    }

    fn run(&self, case: &Case, spec: &RunSpec, history: &mut History) -> Result<(), String> {
        let Some(folder) = &self.traces else {
            return Simulator.run(spec, &mut [history]).map(drop).map_err(|e| e.to_string());
        };
        let path = trace_of(folder, case);
        let mut trace = TraceFile::create(&path, None, Detail::Decisions, spec).map_err(|e| e.to_string())?;
        Simulator.run(spec, &mut [history, &mut trace]).map_err(|e| e.to_string())?;
        trace.finish().map_err(|e| e.to_string())
    }

    /// What is run for a case, and what that leaves out.
    fn spec(&self, case: &Case) -> Result<(RunSpec, Vec<String>), String> {
        let path = self.folder.join("platforms").join(format!("{}.json", case.platform));
        let text = read(&path).map_err(|e| e.to_string())?;
        let platform = facts::parse(&text).map_err(|e| format!("{}: {e}", path.display()))?;
        let (kernel, left) = kernels::profile(case, &self.kernels, platform.nr_cpus(), platform.hz)?;
        let path = self.folder.join(&case.workload);
        let source = crate::data::read(&path.display().to_string()).map_err(|e| e.to_string())?;
        let dialect = crate::Dialect::default();
        let loaded = load::parse_workload(source, platform.nr_cpus(), dialect, &crate::Settings::default());
        let mut workload = loaded.map_err(|e| e.render(crate::Look::PLAIN))?.value.workload;
        set_groups(&mut workload, case)?;
        let zero_ns = start_like_the_recording(&mut workload, case, platform.hz)?;
        let last_start = workload.tasks.iter().map(|t| t.start.0).max().unwrap_or(0);
        let duration = workload.duration.map_or(Ns::from_s(LONGEST_RUN_S), |d| Ns(d.0 + last_start));
        let mut notes = Vec::new();
        match (zero_ns, self.trace_text(case)) {
            _ if !background::repeats_kernel_threads(case) => {}
            (Some(zero_ns), Ok(text)) => {
                background::add_kernel_threads(&mut workload, case, &history_of(&text)?, zero_ns)
            }
            _ => notes.push("without the recording's text, the guest's kernel threads are left out".into()),
        }
        if !left.is_empty() {
            notes.push(format!("features of the recorded kernel without a switch here: {}", left.join(", ")));
        }
        Ok((RunSpec { platform, workload, kernel, seed: 1, duration }, notes))
    }
}

/// Where the trace of a case goes.
fn trace_of(folder: &Path, case: &Case) -> PathBuf {
    folder.join(format!("{}.txt", case.name))
}

fn read(path: &Path) -> Result<String, Error> {
    let file = fs::File::open(path).map_err(|e| Error::file(path, e))?;
    let bytes = match path.extension().and_then(|e| e.to_str()) {
        Some("xz") => {
            let mut bytes = Vec::new();
            lzma_rs::xz_decompress(&mut BufReader::new(file), &mut Bounded(&mut bytes))
                .map_err(|e| Error::file(path, format!("{e:?}")))?;
            bytes
        }
        Some("gz") => bounded(flate2::read::GzDecoder::new(file), true).map_err(|e| Error::file(path, e))?,
        _ => bounded(file, false).map_err(|e| Error::file(path, e))?,
    };
    String::from_utf8(bytes)
        .map_err(|e| Error::file(path, format!("not UTF-8 at byte {}", e.utf8_error().valid_up_to())))
}

/// Takes what a decompressor gives, up to [`MAX_BYTES`].
struct Bounded<'a>(&'a mut Vec<u8>);

impl std::io::Write for Bounded<'_> {
    fn write(&mut self, part: &[u8]) -> std::io::Result<usize> {
        if (self.0.len() + part.len()) as u64 > MAX_BYTES {
            return Err(std::io::Error::other("too large when decompressed"));
        }
        self.0.extend_from_slice(part);
        Ok(part.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn json<T: serde::de::DeserializeOwned>(path: &Path, text: &str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|e| Error::file(format!("{}:{}:{}", path.display(), e.line(), e.column()), e))
}

/// The cgroup files of a case, on the groups of the workload: rt-app cannot set them.
fn set_groups(workload: &mut Workload, case: &Case) -> Result<(), String> {
    for (path, files) in &case.groups {
        let group = workload.groups.iter_mut().find(|g| g.path == *path);
        let group = group.ok_or_else(|| format!("no task of the workload is in group `{path}`"))?;
        for (file, value) in files {
            match (file.as_str(), value.as_u64()) {
                // sched_weight_from_cgroup: 100 is the weight of nice 0, rounded to the closest.
                ("cpu.weight", Some(weight @ 1..=10_000)) => group.shares = ((weight * 1024 + 50) / 100) as u32,
                ("cpu.idle", Some(idle @ 0..=1)) => group.idle = idle == 1,
                _ => return Err(format!("group `{path}`: `{file}` = {value} is not known here")),
            }
        }
    }
    Ok(())
}

/// Threads of a recording are created one after the other, each with the utilisation that a new thread gets and placed as one,
/// and at a known phase to the tick; so they are here. Returns the time in the recording, ns, at which the run begins.
fn start_like_the_recording(workload: &mut Workload, case: &Case, hz: u32) -> Result<Option<i128>, String> {
    let measured = Value::Object(case.measured.clone());
    let number = |path: &[&str]| path.iter().try_fold(&measured, |v, k| v.get(k)).and_then(Value::as_f64);
    let starts: Option<Vec<f64>> = case.threads.iter().map(|t| number(&["threads", &t.key, "start_ms"])).collect();
    let starts = starts.ok_or("the starts of the threads are not given (`measured.threads.*.start_ms`)")?;
    let w = &case.window;
    let counts = |t: &case::CaseThread| w.kind != WindowKind::Span || w.group.as_deref() == Some(&t.group);
    let counted = || case.threads.iter().zip(&starts).filter(|(t, _)| counts(t)).map(|(_, s)| *s);
    let begin = match w.kind {
        WindowKind::Overlap => counted().fold(0.0, f64::max),
        WindowKind::Union | WindowKind::Span => counted().fold(f64::INFINITY, f64::min),
    };
    // Time zero is a tick.
    let first = match (w.start_after_zero_ms, number(&["window", "start_s"])) {
        (Some(after), _) => after - w.skip_head_ms - begin,
        (None, Some(s)) => (s * 1e3 - w.skip_head_ms - begin - case.tick_phase_ms).rem_euclid(1000.0 / f64::from(hz)),
        (None, None) => return Err("neither start_after_zero_ms nor the window's start is given".into()),
    };
    let startup = match case.time_zero_s {
        Some(_) if case.platform.contains("arm64") => STARTUP_ARM64,
        Some(_) => STARTUP_X86,
        None => Ns::ZERO,
    };
    let lead = background::lead(case, hz).0 as f64 / 1e6;
    let mut tasks = Vec::new();
    for task in std::mem::take(&mut workload.tasks) {
        for instance in 0..task.instances as usize {
            let found = case.threads.iter().zip(&starts).find(|(t, _)| t.task == task.name && t.instance == instance);
            let start = found.map_or(task.start.0, |(_, start)| ((lead + first + start).max(0.0) * 1e6) as u64);
            let delay = Ns(task.delay.0 + (lead * 1e6) as u64);
            tasks.push(TaskSpec { instances: 1, start: Ns(start), startup, delay, ..task.clone() });
        }
    }
    workload.tasks = tasks;
    if case.time_zero_s.is_some() {
        background::add_shell(workload, case);
    }
    let zero_ms = number(&["window", "start_s"]).map(|s| s * 1e3 - w.skip_head_ms - begin - first - lead);
    Ok(zero_ms.map(|ms| (ms * 1e6) as i128))
}

/// The signals: our own largest values, the recorded samples stepped by our formula, and how far the simulated signal is from the
/// recorded one on average over the samples.
fn pelt_figures(case: &Case, view: &View<'_>, samples: &pelt::Samples, lead: Ns, out: &mut Figures) {
    let zero_ns = case.time_zero_s.map_or(0, |s| ((s * 1e9) as u64).saturating_sub(lead.0));
    for t in &case.threads {
        let (Some(thread), Some(samples)) = (view.thread_of(&t.key), samples.get(&t.comm)) else { continue };
        let mut put = |name: &str, v: f64| out.insert(format!("pelt.{}.{name}", t.key), v);
        put("events", samples.len() as f64);
        let (exact, not_exact) = pelt::exact_steps(samples);
        put("steps_exact", exact as f64);
        put("steps_not_exact", not_exact as f64);
        put("steps_skipped_migration", (samples.len() as u64 - 1 - exact - not_exact) as f64);
        let largest =
            |signal: fn(&(u64, u32, u32)) -> u32| thread.signals.iter().map(signal).max().map_or(0.0, f64::from);
        put("util_max", largest(|s| s.1));
        put("runnable_max", largest(|s| s.2));
        let mut differences = Vec::new();
        for sample in samples.iter().filter(|s| s.at >= zero_ns) {
            let at = sample.at - zero_ns;
            let next = thread.signals.partition_point(|s| s.0 <= at);
            let near = [next.checked_sub(1), Some(next)].into_iter().flatten().filter_map(|i| thread.signals.get(i));
            if let Some(ours) = near.min_by_key(|s| s.0.abs_diff(at)).filter(|s| s.0.abs_diff(at) < 4_000_000) {
                differences.push((f64::from(ours.1) - sample.signals().0 as f64).abs());
            }
        }
        if !differences.is_empty() {
            let n = differences.len() as f64;
            put("util_mean_difference", figures::round(differences.iter().sum::<f64>() / n, 1));
        }
    }
}

/// Puts measured and simulated side by side.
fn compare(mut report: CaseReport, case: &Case, simulated: &Figures) -> CaseReport {
    for (name, measured) in flatten(&case.measured) {
        let ours = simulated.get(&name).copied();
        // A state or frequency that was never used has no entry.
        let ours = ours.or(name.contains(".residency_pct.").then_some(0.0));
        match case.tolerance.allowed(&name, measured) {
            Some(tolerance) => {
                let ok = ours.is_some_and(|x| (x - measured).abs() <= tolerance);
                report.figures.push(FigureReport { name, measured, simulated: ours, tolerance, ok });
            }
            None => report.info.push(InfoReport { name, measured, simulated: ours }),
        }
    }
    // What the recording cannot say of itself.
    let own = simulated.iter().filter(|(name, _)| name.ends_with(".util_mean_difference"));
    report.info.extend(own.map(|(name, v)| InfoReport { name: name.clone(), measured: 0.0, simulated: Some(*v) }));
    report
}

/// Every number of a tree by its path.
pub fn flatten(tree: &serde_json::Map<String, Value>) -> Vec<(String, f64)> {
    fn walk(path: String, value: &Value, out: &mut Vec<(String, f64)>) {
        let below =
            |key: &dyn std::fmt::Display| if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
        match value {
            Value::Object(map) => map.iter().for_each(|(k, v)| walk(below(k), v, out)),
            Value::Array(list) => list.iter().enumerate().for_each(|(i, v)| walk(below(&i), v, out)),
            Value::Number(n) => out.extend(n.as_f64().map(|n| (path, n))),
            _ => {}
        }
    }
    let mut out = Vec::new();
    walk(String::new(), &Value::Object(tree.clone()), &mut out);
    out
}

/// Figures of a recorded trace, by the code that computes those of a simulation.
pub fn figures_of_recording(case: &Case, trace: &str) -> Result<Figures, String> {
    Ok(View::new(case, &history_of(trace)?)?.figures())
}

fn history_of(trace: &str) -> Result<History, String> {
    let read = wattif_formats::trace::read(trace.as_bytes());
    let recording = read.recording.ok_or_else(|| format!("{:?}", read.diagnostics))?;
    Ok(History::of(&recording))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_are_not_written_over_recordings() {
        let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings/cases.json");
        let mut recordings = Recordings::open(&cases).unwrap();
        recordings.cases.truncate(1);
        let folder = tempfile::tempdir().unwrap();
        let case = &mut recordings.cases[0];
        case.trace = format!("{}.txt", case.name);
        fs::write(folder.path().join(&case.trace), "").unwrap();
        (recordings.folder, recordings.traces) = (folder.path().into(), Some(folder.path().join(".")));
        let why = recordings.check_traces().unwrap_err().to_string();
        assert!(why.starts_with("--traces ") && why.contains("which this command reads"), "{why}");
        recordings.traces = Some(folder.path().join("traces"));
        recordings.check_traces().unwrap();
    }
}
