//! The simulator inside the page: what it may be asked, and what it answers. The skin in `wattif-wasm` passes texts on.

use super::{sentences, side};
use crate::compare::Runs;
use crate::data::{self, Collection, Source};
use crate::error::{Error, Findings};
use crate::explain;
use crate::load;
use crate::run::Simulator;
use crate::settings::Settings;
use crate::text;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::io::{Cursor, Write};
use std::rc::Rc;
use wattif_formats::rtapp::Dialect;
use wattif_formats::trace::dat::write::DatTrace;
use wattif_formats::trace::perfetto::write::PerfettoTrace;
use wattif_formats::trace::{About, Detail, TraceWriter};
use wattif_lab::explain::{Decision, Recorder};
use wattif_model::kernel::Slot;
use wattif_model::run::{RunSpec, Runner};
use wattif_model::trace::{Event, Interest, Observer};
use wattif_model::workload::models::MODELS;
use wattif_model::{CpuId, Ns};
use wattif_sim::registry::{self, POLICIES};

/// A name that is built in, the text of a file, or the run it is taken from.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Given {
    Name(String),
    Text(String),
    Of(Spec),
}

/// A run as its canonical text: a browser's numbers are too short for some of what is in it.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Spec(String);

impl Spec {
    fn read(&self) -> Result<RunSpec, Error> {
        serde_json::from_str(&self.0).map_err(|e| Error::Usage(format!("no run: {e}")))
    }
}

/// What is to be run.
#[derive(Clone, Debug, Deserialize)]
struct Wanted {
    platform: Given,
    kernels: Vec<Given>,
    workload: Given,
    #[serde(default)]
    set: Vec<String>,
    /// In digits, for the same reason.
    seed: String,
    /// `None`: the workload's own.
    duration_s: Option<f64>,
    #[serde(default)]
    dialect: String,
}

/// What can be asked.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase")]
enum Request {
    /// Names to choose from.
    List,
    /// Names and texts to specs, or to diagnostics.
    Load(Wanted),
    /// One run with its figures and its timeline.
    Run { spec: Spec },
    /// Several kernels on several seeds.
    Compare { specs: Vec<Spec>, seeds: u64 },
    /// Why two runs differ.
    Explain { specs: Vec<Spec> },
    /// Which decisions led to what is seen at a time.
    Why { spec: Spec, at_ns: u64, cpu: u32, pid: Option<u32>, what: What },
    /// The run as a trace.
    Trace { spec: Spec, format: String },
}

/// What was clicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum What {
    Slice,
    Frequency,
    Idle,
}

/// An answer: JSON, and bytes where there are any.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// `{"ok": …}` or `{"error": "…", "findings": […]}`.
    pub json: String,
    /// A timeline's columns, or a trace.
    pub bytes: Vec<u8>,
}

/// Answer a request. `progress` is told the share that is done, 0 to 1.
pub fn answer(request: &str, progress: &dyn Fn(f64)) -> Answer {
    let done = serde_json::from_str(request)
        .map_err(|e| Error::Usage(format!("not a request: {e}")))
        .and_then(|request| respond(request, progress));
    match done {
        Ok((ok, bytes)) => Answer { json: json!({ "ok": ok }).to_string(), bytes },
        Err(error) => Answer { json: refusal(&error).to_string(), bytes: Vec::new() },
    }
}

fn refusal(error: &Error) -> Value {
    match error {
        Error::Input(findings) => json!({ "error": error.to_string(), "findings": diagnostics(findings) }),
        Error::Unknown { near, .. } if !near.is_empty() => {
            json!({ "error": format!("{error}; did you mean {}?", near.join(", ")), "findings": [] })
        }
        _ => json!({ "error": error.to_string(), "findings": [] }),
    }
}

/// With places an editor can jump to; offsets are of UTF-16 units, as a browser counts.
fn diagnostics(findings: &Findings) -> Vec<Value> {
    let units = |at: usize| findings.text[..findings.text.floor_char_boundary(at)].encode_utf16().count();
    let one = |d: &wattif_model::check::Diagnostic| {
        let (line, column) = d.line_column(&findings.text);
        json!({
            "file": findings.name, "line": line, "column": column, "from": units(d.span.start), "to": units(d.span.end),
            "severity": format!("{:?}", d.severity).to_lowercase(), "code": d.code, "message": d.message, "help": d.help,
        })
    };
    findings.diagnostics.iter().map(one).collect()
}

fn respond(request: Request, progress: &dyn Fn(f64)) -> Result<(Value, Vec<u8>), Error> {
    match request {
        Request::List => Ok((list(), Vec::new())),
        Request::Load(wanted) => Ok((wanted.load()?, Vec::new())),
        Request::Run { spec } => one(&spec.read()?, progress),
        Request::Compare { specs, seeds } => Ok((compare(&all(&specs)?, seeds, progress)?, Vec::new())),
        Request::Explain { specs } => Ok((explained(&all(&specs)?)?, Vec::new())),
        Request::Why { spec, at_ns, cpu, pid, what } => {
            Ok((why(&spec.read()?, at_ns, CpuId(cpu), pid, what)?, Vec::new()))
        }
        Request::Trace { spec, format } => trace(&spec.read()?, &format, progress),
    }
}

fn all(specs: &[Spec]) -> Result<Vec<RunSpec>, Error> {
    specs.iter().map(Spec::read).collect()
}

/// Everything there is to choose from.
pub fn list() -> Value {
    let headline = |c: Collection, name: &str| c.built_in(name).map(|s| data::headline(&s.text));
    let of = |c: Collection| {
        c.names().into_iter().map(|n| json!({ "name": n, "title": headline(c, n) })).collect::<Vec<Value>>()
    };
    let tunable = |t: &wattif_sim::registry::Tunable| json!({ "name": t.name, "default": t.default, "allowed": t.allowed, "doc": t.doc });
    let policy = |p: &wattif_sim::registry::Policy| {
        json!({
            "name": p.name, "slot": p.slot.name(), "selectable": p.selectable,
            "tunables": p.tunables.iter().map(tunable).collect::<Vec<_>>(),
        })
    };
    let models: Vec<Value> = MODELS.iter().map(|m| json!({ "name": m.name, "text": null })).collect();
    let text = |name: &String| data::workload(name).ok().map(|s| s.text.to_string());
    let files = data::workloads().into_iter().map(|name| json!({ "name": name, "text": text(&name) }));
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "platforms": of(Collection::Platforms),
        "kernels": of(Collection::Kernels),
        "workloads": models.into_iter().chain(files).collect::<Vec<_>>(),
        "policies": POLICIES.iter().map(policy).collect::<Vec<_>>(),
        "slots": Slot::ALL.map(Slot::name),
    })
}

impl Wanted {
    /// That of the report; one that nobody asked for is none.
    fn dialect(&self) -> Result<Dialect, Error> {
        if self.dialect.is_empty() { Ok(Dialect::default()) } else { load::dialect(&self.dialect) }
    }

    fn load(&self) -> Result<Value, Error> {
        let settings = Settings::parse(&self.set)?;
        let mut platform = match &self.platform {
            Given::Name(name) => load::platform(name, &settings)?.value,
            Given::Of(run) => run.read()?.platform,
            Given::Text(_) => return Err(Error::Usage("a platform is a name here".into())),
        };
        let mut findings = Vec::new();
        let cpus = platform.nr_cpus();
        let read = match &self.workload {
            Given::Name(name) => Some(load::workload(name, &platform, self.dialect()?, &settings)?),
            Given::Text(text) => {
                let source = Source { name: "workload.json".into(), text: text.as_str().into() };
                Some(load::parse_workload(source, cpus, self.dialect()?, &settings)?)
            }
            Given::Of(_) => None,
        };
        let workload = match (read, &self.workload) {
            (Some(read), _) => {
                platform.calibration_cpu = read.value.calibration_cpu.unwrap_or(platform.calibration_cpu);
                findings.extend(diagnostics(&read.findings));
                read.value.workload
            }
            (None, Given::Of(run)) => run.read()?.workload,
            _ => return Err(Error::Usage("no workload".into())),
        };
        let duration = match self.duration_s {
            Some(s) if s > 0.0 && s <= 3600.0 => Ns((s * 1e9).round() as u64),
            Some(s) => {
                return Err(Error::Usage(format!("{s} s: a run in the page lasts more than 0 and at most 3600 s")));
            }
            None => load::default_duration(&workload),
        };
        let seed = self.seed.trim().parse();
        let seed = seed.map_err(|_| Error::Usage(format!("seed `{}`: write a whole number from 0 on", self.seed)))?;
        let mut specs = Vec::new();
        for kernel in &self.kernels {
            let kernel = match kernel {
                Given::Name(name) => load::kernel_for(name, Some(&platform), &settings)?.value,
                Given::Of(run) => load::adjusted(run.read()?.kernel, &settings)?,
                Given::Text(_) => return Err(Error::Usage("a kernel is a name here".into())),
            };
            let (platform, workload) = (platform.clone(), workload.clone());
            specs.push(RunSpec { platform, workload, kernel, seed, duration });
        }
        let specs: Vec<Value> = specs.iter().map(about).collect();
        Ok(json!({ "specs": specs, "findings": findings }))
    }
}

/// A run, and what the page says about it.
pub fn about(spec: &RunSpec) -> Value {
    json!({
        "text": spec.canonical(), "hash": spec.hash(), "platform": spec.platform.name, "kernel": spec.kernel.name,
        "workload": spec.workload.name, "duration_s": spec.duration.as_s_f64(),
        "trust": text::trust_lines(&spec.platform),
    })
}

/// Tells how far a run is.
struct Ticker<'a> {
    progress: &'a dyn Fn(f64),
    duration: f64,
    next: u64,
    step: u64,
}

impl<'a> Ticker<'a> {
    fn new(spec: &RunSpec, progress: &'a dyn Fn(f64)) -> Ticker<'a> {
        Ticker { progress, duration: spec.duration.0 as f64, next: 0, step: spec.duration.0 / 100 + 1 }
    }
}

impl Observer for Ticker<'_> {
    fn interest(&self) -> Interest {
        Interest::SCHED
    }
    fn event(&mut self, at: Ns, _: CpuId, _: &Event) {
        if at.0 >= self.next {
            self.next = at.0 + self.step;
            (self.progress)(at.0 as f64 / self.duration);
        }
    }
}

fn one(spec: &RunSpec, progress: &dyn Fn(f64)) -> Result<(Value, Vec<u8>), Error> {
    let mut ticker = Ticker::new(spec, progress);
    let side = side(spec, &mut [&mut ticker])?;
    let packed = side.timeline.pack();
    let json = json!({
        "side": side.json(&Default::default(), &[]),
        "sentences": sentences(&side),
        "timeline": packed,
    });
    Ok((json, packed.bytes))
}

fn compare(specs: &[RunSpec], seeds: u64, progress: &dyn Fn(f64)) -> Result<Value, Error> {
    let Some(first) = specs.first() else { return Err(Error::Usage("no kernel to run".into())) };
    let seeds = crate::run::seeds(first.seed, seeds.clamp(1, 1000))?;
    let mut runs = Runs::default();
    for (i, &seed) in seeds.iter().enumerate() {
        runs.add(Runs::simulate(specs, &[seed], &|| true)?);
        progress((i + 1) as f64 / seeds.len() as f64);
    }
    let comparison = runs.compared(specs, Default::default(), &seeds, &[]);
    let mut report = super::Report::new("compare", String::new());
    report.set_comparison(&comparison);
    Ok(json!({ "comparison": report.comparison, "answer": report.answer }))
}

fn explained(specs: &[RunSpec]) -> Result<Value, Error> {
    let [a, b] = specs else { return Err(Error::Usage("an explanation is of two runs".into())) };
    let explanation = explain::explain([a, b], &explain::Reruns::none(), &|| true)?;
    Ok(json!({ "summary": explanation.summary, "first": explanation.first }))
}

/// One decision, for the page.
#[derive(Clone, Debug, Serialize)]
struct Because {
    at_ns: u64,
    cpu: u32,
    policy: String,
    what: String,
    because: String,
}

/// The decisions behind something seen at `at`: for a slice, its placement and the pick; for a frequency, the last request of its
/// domain; for a sleep, the last choice on its CPU.
fn why(spec: &RunSpec, at_ns: u64, cpu: CpuId, pid: Option<u32>, what: What) -> Result<Value, Error> {
    const BACK: u64 = 2_000_000_000;
    let mut recorder = Recorder::from(Ns(at_ns.saturating_sub(BACK)));
    // An oracle sees less of the future in a shorter run.
    let foresees = registry::needs_foresight(&spec.kernel);
    let until = if foresees { spec.duration } else { Ns(at_ns + 1).min(spec.duration) };
    let short = RunSpec { duration: until, ..spec.clone() };
    Simulator.run(&short, &mut [&mut recorder as &mut dyn Observer])?;
    let domain = spec.platform.cpus.get(cpu.at()).map(|c| c.domain);
    let concerns = |d: &&Decision| match (&d.event, what) {
        (Event::Placement(p), What::Slice) => Some(p.pid.0) == pid,
        (Event::SchedSwitch { next_pid, .. }, What::Slice) => {
            d.cpu == cpu && (Some(next_pid.0) == pid || d.at.0 == at_ns)
        }
        (Event::Balance(b), What::Slice) => b.dst_cpu == cpu,
        (Event::Frequency(f), What::Frequency) => Some(f.domain) == domain,
        (Event::Idle(_), What::Idle) => d.cpu == cpu,
        _ => false,
    };
    let name = |pid: u32| recorder.names.get(&pid).cloned().unwrap_or_else(|| format!("thread {pid}"));
    let because = |d: &Decision| Because {
        at_ns: d.at.0,
        cpu: d.cpu.0,
        policy: spec.kernel.policies.get(&d.slot()).cloned().unwrap_or_else(|| d.slot().name().into()),
        what: d.what(&name),
        because: d.because().unwrap_or_default(),
    };
    let last = recorder.kept.iter().rev().filter(|d| d.at.0 <= at_ns).filter(concerns).take(8);
    let mut found: Vec<Because> = last.map(because).collect();
    found.reverse();
    Ok(json!({ "decisions": found }))
}

/// Bytes that a writer leaves behind.
#[derive(Clone, Default)]
struct Shared(Rc<RefCell<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn trace(spec: &RunSpec, format: &str, progress: &dyn Fn(f64)) -> Result<(Value, Vec<u8>), Error> {
    let about = About::simulated(spec);
    let sink = Shared::default();
    let mut writer: Box<dyn TraceWriter> = match format {
        "pftrace" => Box::new(PerfettoTrace::new(sink.clone(), Detail::Full, about)),
        "dat" => Box::new(DatTrace::new(sink.clone(), Cursor::new(Vec::new()), Detail::Tracepoints, about)),
        other => return Err(Error::Usage(format!("`{other}` is none of pftrace, dat"))),
    };
    let mut ticker = Ticker::new(spec, progress);
    let summary = Simulator.run(spec, &mut [&mut *writer as &mut dyn Observer, &mut ticker])?;
    writer.close().map_err(|e| Error::file("trace", e))?;
    drop(writer);
    let bytes = sink.0.take();
    Ok((json!({ "digest": summary.digest }), bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(request: Value) -> (Value, Vec<u8>) {
        let Answer { json, bytes } = answer(&request.to_string(), &|_| ());
        (serde_json::from_str(&json).unwrap(), bytes)
    }

    fn loaded() -> Value {
        let kernels = [json!({ "name": "linux-5.3" }), json!({ "name": "linux-5.6" })];
        let (json, _) = ask(json!({
            "do": "load", "platform": { "name": "hikey620" }, "kernels": kernels, "workload": { "name": "server" },
            "set": ["schedutil.rate_limit_us=500"], "seed": "3", "duration_s": 0.2,
        }));
        json["ok"].clone()
    }

    fn text(ok: &Value, i: usize) -> Value {
        ok["specs"][i]["text"].clone()
    }

    #[test]
    fn names_to_specs_to_runs() {
        let ok = loaded();
        let spec = Spec(ok["specs"][0]["text"].as_str().unwrap().into()).read().unwrap();
        assert_eq!((spec.hash().as_str(), spec.seed), (ok["specs"][0]["hash"].as_str().unwrap(), 3));
        let (ran, columns) = ask(json!({ "do": "run", "spec": text(&ok, 0) }));
        let digest = Simulator.run(&spec, &mut []).unwrap().digest;
        assert_eq!(ran["ok"]["side"]["run"]["digest"], digest.as_str());
        let told: usize =
            ran["ok"]["timeline"]["columns"].as_array().unwrap().iter().map(|c| c[3].as_u64().unwrap() as usize).sum();
        assert_eq!(told, columns.len());
        let (compared, _) = ask(json!({ "do": "compare", "specs": [text(&ok, 0), text(&ok, 1)], "seeds": 2 }));
        assert_eq!(compared["ok"]["comparison"]["kernels"], json!(["linux-5.3", "linux-5.6"]));
        let (explained, _) = ask(json!({ "do": "explain", "specs": [text(&ok, 0), text(&ok, 1)] }));
        assert!(!explained["ok"]["summary"].as_array().unwrap().is_empty());
    }

    #[test]
    fn edited_runs_keep_what_was_not_edited() {
        let ok = loaded();
        let run = text(&ok, 0);
        let again = |set: Value| {
            ask(json!({
                "do": "load", "platform": { "of": run }, "kernels": [{ "of": run }],
                "workload": { "of": run }, "set": set, "seed": "3", "duration_s": 0.2,
            }))
            .0
        };
        assert_eq!(again(json!([]))["ok"]["specs"][0]["hash"], ok["specs"][0]["hash"]);
        assert_ne!(again(json!(["cpuidle=ladder"]))["ok"]["specs"][0]["hash"], ok["specs"][0]["hash"]);
        assert!(again(json!(["cpuidle=lader"]))["error"].as_str().unwrap().contains("lader"));
    }

    #[test]
    fn mistakes_have_places() {
        let (json, _) = ask(json!({
            "do": "load", "platform": { "name": "hikey620" }, "kernels": [{ "name": "linux-5.6" }],
            "workload": { "text": "{ \"tasks\": { \"ä\": { \"rnu\": 5 } } }" }, "seed": "1", "duration_s": 1.0,
        }));
        let f = &json["findings"][0];
        assert_eq!((f["line"].as_u64(), f["severity"].as_str()), (Some(1), Some("error")), "{json}");
        assert!(f["to"].as_u64() > f["from"].as_u64());
        for (request, word) in [
            (json!({ "do": "nothing" }), "not a request"),
            (
                json!({ "do": "load", "platform": { "name": "hikey62" }, "kernels": [], "workload": { "name": "server" }, "seed": "1" }),
                "hikey620",
            ),
            (
                json!({ "do": "load", "platform": { "name": "hikey620" }, "kernels": [], "workload": { "name": "server" },
                        "seed": "1", "dialect": "rtap" }),
                "did you mean rtapp?",
            ),
            (json!({ "do": "compare", "specs": [], "seeds": 1 }), "no kernel"),
            (json!({ "do": "explain", "specs": [] }), "two runs"),
        ] {
            let (json, _) = ask(request);
            assert!(json["error"].as_str().unwrap().contains(word), "{json}");
        }
    }

    #[test]
    fn why_is_the_last_decision_before() {
        let ok = loaded();
        let idle = ask(
            json!({ "do": "why", "spec": text(&ok, 0), "at_ns": 150_000_000, "cpu": 3, "pid": null, "what": "idle" }),
        )
        .0;
        let found = idle["ok"]["decisions"].as_array().unwrap();
        let last = found.last().unwrap();
        assert!(
            last["at_ns"].as_u64().unwrap() <= 150_000_000 && last["cpu"] == 3 && last["policy"] == "menu",
            "{last}"
        );
        assert!(last["what"].as_str().unwrap().starts_with("chose idle state"));
    }

    #[test]
    fn traces_are_what_their_readers_read() {
        let ok = loaded();
        for format in ["pftrace", "dat"] {
            let (json, bytes) = ask(json!({ "do": "trace", "spec": text(&ok, 0), "format": format }));
            assert!(json["ok"]["digest"].is_string(), "{json}");
            let read = wattif_formats::trace::read(&bytes);
            assert!(read.recording.unwrap().counts()["sched_switch"] > 100, "{format}");
        }
    }

    #[test]
    fn list_names_everything() {
        let all = list();
        for what in ["platforms", "kernels", "workloads", "policies"] {
            assert!(all[what].as_array().unwrap().len() > 3, "{what}");
        }
    }
}
