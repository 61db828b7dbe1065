//! Results as Arrow tables: every column carries its `unit` and `doc` as metadata.

use crate::error::Error;
use crate::new_file::{NewFile, is_stdout};
use crate::sweep::Table as Swept;
use arrow_array::builder::{Int32Builder, Int64Builder, StringBuilder};
use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{Field, Schema};
use std::collections::{BTreeMap, HashMap};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use wattif_formats::trace::arrow::EventTables;
use wattif_lab::compare::{Comparison, Verdict};
use wattif_lab::metrics::{Better, RunReport};
use wattif_model::run::RunSpec;
use wattif_model::trace::{Event, Interest, Observer, PrevState, ThreadInfo};
use wattif_model::{CpuId, Ns, Pid};

/// Name, unit, meaning, values.
type Column<'a> = (&'a str, &'a str, &'a str, ArrayRef);

fn table(columns: Vec<Column<'_>>) -> RecordBatch {
    let field = |(name, unit, doc, values): &Column<'_>| {
        let about = [("unit", unit), ("doc", doc)].map(|(k, v)| (k.to_string(), v.to_string()));
        let nulls = values.null_count() > 0 || values.is_nullable();
        Field::new(*name, values.data_type().clone(), nulls).with_metadata(HashMap::from(about))
    };
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    let arrays = columns.into_iter().map(|(.., values)| values).collect();
    RecordBatch::try_new(Arc::new(schema), arrays).expect("columns of one length")
}

fn texts<S: AsRef<str>>(values: impl Iterator<Item = S>) -> ArrayRef {
    let mut column = StringBuilder::new();
    values.for_each(|v| column.append_value(v));
    Arc::new(column.finish())
}

fn numbers(values: impl Iterator<Item = Option<f64>>) -> ArrayRef {
    Arc::new(values.collect::<Float64Array>())
}

fn counts(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(values.map(|v| i64::try_from(v).ok()).collect::<Int64Array>())
}

/// A row per metric and kernel.
pub fn comparison(c: &Comparison) -> RecordBatch {
    let rows = || c.metrics.iter().flat_map(|m| (0..c.kernels.len()).map(move |k| (m, k)));
    let end = |i: usize, ci: Option<[f64; 2]>| ci.map(|ci| ci[i]);
    let per = |i| numbers(rows().map(move |(m, k)| end(i, m.per_kernel[k].ci95)));
    let ratio = |i| numbers(rows().map(move |(m, k)| end(i, m.ratio_to_first[k].ci95)));
    let neutral: BooleanArray = rows().map(|(m, _)| Some(m.neutral)).collect();
    let verdict: StringArray = rows().map(|(m, k)| m.ratio_to_first[k].verdict.map(Verdict::name)).collect();
    let better = |b: Better| if b == Better::Lower { "lower" } else { "higher" };
    table(vec![
        ("metric", "", "Name of the metric.", texts(rows().map(|(m, _)| &m.name))),
        ("unit", "", "Unit of mean, lo and hi; empty for counts.", texts(rows().map(|(m, _)| &m.unit))),
        ("better", "", "Which way is good: lower or higher.", texts(rows().map(|(m, _)| better(m.better)))),
        ("neutral", "", "Neither way is good in itself.", Arc::new(neutral)),
        ("kernel", "", "Kernel profile.", texts(rows().map(|(_, k)| &c.kernels[k]))),
        ("mean", "of the row", "Mean over seeds.", numbers(rows().map(|(m, k)| m.per_kernel[k].mean))),
        ("lo", "of the row", "Lower end of its 95 % BCa interval; null: too few seeds.", per(0)),
        ("hi", "of the row", "Upper end.", per(1)),
        ("ratio", "", "Mean by that of the first kernel.", numbers(rows().map(|(m, k)| m.ratio_to_first[k].value))),
        ("ratio_lo", "", "Lower end of its 95 % BCa interval, pairs drawn together.", ratio(0)),
        ("ratio_hi", "", "Upper end.", ratio(1)),
        ("p", "", "Paired sign-flip permutation, two-sided.", numbers(rows().map(|(m, k)| m.ratio_to_first[k].p))),
        ("p_holm", "", "The same, Holm-corrected.", numbers(rows().map(|(m, k)| m.ratio_to_first[k].p_holm))),
        ("effect", "", "Cohen's d of paired differences.", numbers(rows().map(|(m, k)| m.ratio_to_first[k].effect))),
        ("verdict", "", "Better, worse, more or less where p_holm is below 0.05; null: not sure.", Arc::new(verdict)),
    ])
}

/// A row per point: axes as text, then mean and interval of each metric.
pub fn sweep(t: &Swept) -> RecordBatch {
    let metrics: Vec<&String> = t.points.first().map(|p| p.metrics.keys().collect()).unwrap_or_default();
    let ends: Vec<[String; 2]> = metrics.iter().map(|m| [format!("{m}.lo"), format!("{m}.hi")]).collect();
    let mut columns: Vec<Column<'_>> = Vec::new();
    for axis in &t.axes {
        columns.push((axis, "", "What was set.", texts(t.points.iter().map(|p| &p.axes[axis]))));
    }
    for (name, [lo, hi]) in metrics.iter().zip(&ends) {
        let figure =
            |of: fn(&crate::sweep::Figure) -> Option<f64>| numbers(t.points.iter().map(|p| of(&p.metrics[*name])));
        let unit = t.units[*name].as_str();
        columns.push((name, unit, "Mean over seeds.", figure(|f| f.mean)));
        columns.push((lo, unit, "Lower end of its 95 % BCa interval.", figure(|f| f.ci95.map(|ci| ci[0]))));
        columns.push((hi, unit, "Upper end.", figure(|f| f.ci95.map(|ci| ci[1]))));
    }
    let front: BooleanArray = t.points.iter().map(|p| Some(p.front)).collect();
    columns.push(("front", "", "No other point is better in both metrics of the front.", Arc::new(front)));
    columns.push(("hash", "", "Of the RunSpec with the first seed.", texts(t.points.iter().map(|p| &p.hash))));
    table(columns)
}

/// A row per thread.
fn tasks(report: &RunReport) -> RecordBatch {
    let rows = || report.tasks.iter();
    let latency = |of: fn(&wattif_lab::metrics::Summary) -> f64| {
        numbers(rows().map(move |t| t.wakeup_latency_us.as_ref().filter(|l| l.count > 0).map(of)))
    };
    table(vec![
        ("pid", "", "Thread.", counts(rows().map(|t| t.pid.into()))),
        ("comm", "", "Its name.", texts(rows().map(|t| &t.name))),
        ("task", "", "Task of the workload it belongs to.", texts(rows().map(|t| &t.task))),
        (
            "policy",
            "",
            "Such as SCHED_OTHER; several, in order, where its program changes it.",
            texts(rows().map(|t| &t.policy)),
        ),
        ("runtime_s", "s", "Time on a CPU.", numbers(rows().map(|t| Some(t.runtime_s)))),
        ("cpu_share", "", "The same by the length of the run.", numbers(rows().map(|t| Some(t.cpu_share)))),
        ("activations", "", "Wake-ups.", counts(rows().map(|t| t.activations))),
        ("migrations", "", "Moves to another CPU.", counts(rows().map(|t| t.migrations))),
        ("latency_mean_us", "us", "Mean wake-up latency; null for housekeeping.", latency(|l| l.mean)),
        ("latency_p99_us", "us", "Its 99th percentile.", latency(|l| l.p99)),
    ])
}

/// A row per CPU and idle state.
fn idle_residency(report: &RunReport) -> RecordBatch {
    let rows = || report.cpus.iter().flat_map(|c| c.idle.iter().map(move |i| (c.cpu, i)));
    table(vec![
        ("cpu", "", "Which CPU.", counts(rows().map(|(cpu, _)| cpu.into()))),
        ("state", "", "Index of the idle state.", counts(rows().map(|(_, i)| i.state.into()))),
        ("name", "", "Its name.", texts(rows().map(|(_, i)| &i.name))),
        ("time_s", "s", "Time in it.", numbers(rows().map(|(_, i)| Some(i.residency_s)))),
        ("usage", "", "Sleeps in it that ended.", counts(rows().map(|(_, i)| i.usage))),
        ("above", "", "Of these, too deep.", counts(rows().map(|(_, i)| i.above))),
        ("below", "", "Of these, too shallow.", counts(rows().map(|(_, i)| i.below))),
    ])
}

/// A row per frequency domain and operating point.
fn frequency_residency(report: &RunReport) -> RecordBatch {
    let domains = report.domains.iter().enumerate();
    let rows: Vec<_> = domains.flat_map(|(d, of)| of.freq_residency.iter().map(move |f| (d, of, f))).collect();
    table(vec![
        ("domain", "", "Frequency domain.", counts(rows.iter().map(|r| r.0 as u64))),
        ("cpus", "", "Its CPUs.", texts(rows.iter().map(|r| &r.1.cpus))),
        ("frequency_khz", "kHz", "Operating point.", counts(rows.iter().map(|r| r.2.khz.into()))),
        ("time_s", "s", "Time at it, idle included.", numbers(rows.iter().map(|r| Some(r.2.s)))),
    ])
}

/// Every wait of a thread of the workload for a CPU: after a wake-up, and after it was preempted.
#[derive(Default)]
struct Latencies {
    /// By pid; ids are small numbers.
    threads: Vec<Option<Waiter>>,
    wakeups: LatencyRows,
    preemptions: LatencyRows,
}

struct Waiter {
    info: ThreadInfo,
    on_cpu: bool,
    woken: Option<Ns>,
    preempted: Option<Ns>,
}

#[derive(Default)]
struct LatencyRows {
    time: Int64Builder,
    cpu: Int32Builder,
    pid: Int32Builder,
    comm: StringBuilder,
    task: StringBuilder,
    latency: Int64Builder,
}

impl LatencyRows {
    fn push(&mut self, at: Ns, cpu: CpuId, of: &ThreadInfo, since: Ns) {
        self.time.append_value(at.0 as i64);
        self.cpu.append_value(cpu.0 as i32);
        self.pid.append_value(of.pid.0 as i32);
        self.comm.append_value(&of.comm);
        self.task.append_value(&of.task);
        self.latency.append_value(at.since(since) as i64);
    }
    fn table(&mut self, latency: &str) -> RecordBatch {
        table(vec![
            ("time_ns", "ns", "When it was switched in: since the start of the run.", Arc::new(self.time.finish())),
            ("cpu", "", "Where.", Arc::new(self.cpu.finish())),
            ("pid", "", "Thread that was switched in.", Arc::new(self.pid.finish())),
            ("comm", "", "Its name.", Arc::new(self.comm.finish())),
            ("task", "", "Task of the workload it belongs to.", Arc::new(self.task.finish())),
            ("latency_ns", "ns", latency, Arc::new(self.latency.finish())),
        ])
    }
}

impl Latencies {
    fn thread_of(&mut self, pid: Pid) -> Option<&mut Waiter> {
        self.threads.get_mut(pid.0 as usize)?.as_mut()
    }
    fn switched_in(&mut self, at: Ns, cpu: CpuId, next: Pid) {
        let Some(Some(thread)) = self.threads.get_mut(next.0 as usize) else { return };
        thread.on_cpu = true;
        let (woken, preempted) = (thread.woken.take(), thread.preempted.take());
        if !thread.info.workload {
            return;
        }
        if let Some(since) = woken {
            self.wakeups.push(at, cpu, &thread.info, since);
        }
        if let Some(since) = preempted {
            self.preemptions.push(at, cpu, &thread.info, since);
        }
    }
}

impl Observer for Latencies {
    fn interest(&self) -> Interest {
        Interest::SCHED
    }
    fn thread(&mut self, thread: &ThreadInfo) {
        let at = thread.pid.0 as usize;
        if self.threads.len() <= at {
            self.threads.resize_with(at + 1, || None);
        }
        self.threads[at] = Some(Waiter { info: thread.clone(), on_cpu: false, woken: None, preempted: None });
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        match *event {
            Event::SchedWaking { pid, .. } => {
                if let Some(thread) = self.thread_of(pid).filter(|t| !t.on_cpu) {
                    thread.woken.get_or_insert(at);
                }
            }
            Event::SchedSwitch { prev_pid, prev_state, next_pid, .. } => {
                if let Some(prev) = self.thread_of(prev_pid) {
                    prev.on_cpu = false;
                    prev.preempted = (prev_state == PrevState::Running).then_some(at);
                }
                self.switched_in(at, cpu, next_pid);
            }
            _ => {}
        }
    }
}

/// Keeps the tables of a run: of the events that are asked for, of wake-ups, and of what the report says.
pub struct RunTables {
    events: EventTables,
    latencies: Latencies,
}

impl RunTables {
    /// Tables of these events, by the names of `docs/reference/columns.md`. An event that does not exist is refused.
    pub fn new(events: &[String], spec: &RunSpec) -> Result<RunTables, Error> {
        let names: Vec<&str> = events.iter().map(String::as_str).collect();
        let exists = |name: &&str| !EventTables::new(&[name], Vec::new()).into_batches().is_empty();
        if let Some(unknown) = names.iter().find(|name| !exists(name)) {
            let known = wattif_model::trace::columns::COLUMNS.iter().flat_map(|c| c.events.iter().copied());
            return Err(Error::unknown("event", unknown, known, "docs/reference/columns.md"));
        }
        let events = EventTables::new(&names, spec.workload.marks.clone());
        Ok(RunTables { events, latencies: Latencies::default() })
    }

    /// All tables by name: the events', `wakeup_latency`, `preemption_latency`, `tasks`, `idle_residency`, `frequency_residency`.
    pub fn into_batches(mut self, report: &RunReport) -> BTreeMap<&'static str, RecordBatch> {
        let mut tables = self.events.into_batches();
        tables.insert("wakeup_latency", self.latencies.wakeups.table("sched_waking until switched in."));
        let preempted = "Switched out while it could run, until switched in again.";
        tables.insert("preemption_latency", self.latencies.preemptions.table(preempted));
        tables.insert("tasks", tasks(report));
        tables.insert("idle_residency", idle_residency(report));
        tables.insert("frequency_residency", frequency_residency(report));
        tables
    }
}

impl Observer for RunTables {
    fn interest(&self) -> Interest {
        self.events.interest().and(self.latencies.interest())
    }
    fn start(&mut self, platform: &wattif_model::platform::Platform) {
        self.events.start(platform);
    }
    fn thread(&mut self, thread: &ThreadInfo) {
        self.events.thread(thread);
        self.latencies.thread(thread);
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        self.events.event(at, cpu, event);
        self.latencies.event(at, cpu, event);
    }
}

/// Writes a table as an Arrow IPC file; `-` is standard output.
pub fn write(path: &Path, batch: &RecordBatch) -> Result<(), Error> {
    let refused = |e: &dyn std::fmt::Display| Error::file(path, e.to_string());
    let arrow = |out: &mut dyn Write| -> Result<(), Error> {
        let mut file = FileWriter::try_new(BufWriter::new(out), &batch.schema()).map_err(|e| refused(&e))?;
        file.write(batch).and_then(|()| file.finish()).map_err(|e| refused(&e))?;
        file.get_mut().flush().map_err(|e| refused(&e))
    };
    if is_stdout(path) {
        return arrow(&mut std::io::stdout().lock());
    }
    let mut file = NewFile::create(path)?;
    arrow(&mut file)?;
    file.finish()
}

/// The text columns of a table as views, which some readers take without a copy.
pub fn with_views(batch: &RecordBatch) -> RecordBatch {
    let view = |column: &ArrayRef| -> ArrayRef {
        match column.as_any().downcast_ref::<StringArray>() {
            Some(texts) => Arc::new(arrow_array::StringViewArray::from(texts)),
            None => column.clone(),
        }
    };
    let arrays: Vec<ArrayRef> = batch.columns().iter().map(view).collect();
    let schema = batch.schema();
    let retyped =
        schema.fields().iter().zip(&arrays).map(|(f, a)| f.as_ref().clone().with_data_type(a.data_type().clone()));
    let schema = Schema::new_with_metadata(retyped.collect::<Vec<_>>(), schema.metadata().clone());
    RecordBatch::try_new(Arc::new(schema), arrays).expect("the same columns")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Asked;
    use crate::run::run;
    use crate::{Dialect, Settings};
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;

    fn spec() -> RunSpec {
        let asked = Asked {
            workload: "server".into(),
            platform: "hikey620".into(),
            kernel: "linux-5.6".into(),
            settings: Settings::default(),
            seed: 1,
            duration: Some(Ns::from_ms(100)),
            dialect: Dialect::Workgen,
        };
        asked.spec().unwrap().0
    }

    #[test]
    fn tables_agree_with_the_report() {
        let spec = spec();
        let mut tables = RunTables::new(&["sched_switch".into(), "cpu_idle".into()], &spec).unwrap();
        let outcome = run(&spec, &mut [&mut tables]).unwrap();
        let tables = tables.into_batches(&outcome.report);
        let latency = &tables["wakeup_latency"];
        let metric = &outcome.report.metrics.wakeup_latency_us;
        assert_eq!(latency.num_rows() as u64, metric.count);
        let sum: i64 = latency.column(5).as_primitive::<Int64Type>().values().iter().sum();
        assert!((sum as f64 / 1e3 - metric.sum).abs() < 1e-6 * metric.sum);
        assert_eq!(tables["tasks"].num_rows(), outcome.report.tasks.len());
        assert!(tables["cpu_idle"].num_rows() > 0 && tables["frequency_residency"].num_rows() > 0);
        assert_eq!(with_views(latency).num_rows(), latency.num_rows());
        for table in tables.values() {
            assert!(table.schema().fields().iter().all(|f| !f.metadata()["doc"].is_empty()));
        }
    }

    #[test]
    fn an_event_that_does_not_exist() {
        let why = RunTables::new(&["sched_swich".into()], &spec()).map(|_| ()).unwrap_err();
        assert!(why.render(crate::Look::PLAIN).contains("sched_switch"));
    }
}
