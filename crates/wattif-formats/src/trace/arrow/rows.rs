//! Events become rows.

use super::super::kinds::{self, INTS, Kind, ROWS, Row};
use super::super::names::Names;
use arrow_array::builder::{BooleanBuilder, Int32Builder, Int64Builder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use wattif_model::platform::Platform;
use wattif_model::trace::columns::{COLUMNS, Column, ColumnType, columns_of};
use wattif_model::trace::{BalanceKind, Event, Interest, Observer, PlacementReason, ThreadInfo};
use wattif_model::{CpuId, Ns, Pid};

/// The schema of a table with these columns.
pub fn schema(columns: &[&Column]) -> SchemaRef {
    let field = |c: &&Column| {
        let data = match c.ty {
            ColumnType::Int32 => DataType::Int32,
            ColumnType::Int64 => DataType::Int64,
            ColumnType::Bool => DataType::Boolean,
            ColumnType::Text => DataType::Utf8,
        };
        let about = [("unit", c.unit), ("doc", c.meaning)].map(|(k, v)| (k.to_string(), v.to_string()));
        // Times and places are in every row.
        let nullable = !matches!(c.name, "time_ns" | "cpu" | "event");
        Field::new(c.name, data, nullable).with_metadata(HashMap::from(about))
    };
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

/// The values of a column so far; nulls at the end are added when a value or the end of the batch comes.
struct Cells {
    values: Values,
    len: usize,
}

enum Values {
    Int32(Int32Builder),
    Int64(Int64Builder),
    Bool(BooleanBuilder),
    Text(StringBuilder),
}

impl Cells {
    fn new(ty: ColumnType) -> Cells {
        let values = match ty {
            ColumnType::Int32 => Values::Int32(Int32Builder::new()),
            ColumnType::Int64 => Values::Int64(Int64Builder::new()),
            ColumnType::Bool => Values::Bool(BooleanBuilder::new()),
            ColumnType::Text => Values::Text(StringBuilder::new()),
        };
        Cells { values, len: 0 }
    }
    fn pad(&mut self, rows: usize) {
        let n = rows - self.len;
        match &mut self.values {
            _ if n == 0 => {}
            Values::Int32(b) => b.append_nulls(n),
            Values::Int64(b) => b.append_nulls(n),
            Values::Bool(b) => b.append_nulls(n),
            Values::Text(b) => b.append_nulls(n),
        }
        self.len = rows;
    }
    fn number(&mut self, row: usize, value: i64) {
        self.pad(row);
        match &mut self.values {
            Values::Int32(b) => b.append_value(value as i32), // wraps: leaving idle, 4294967295, is -1
            Values::Int64(b) => b.append_value(value),
            Values::Bool(b) => b.append_value(value != 0),
            Values::Text(b) => b.append_null(),
        }
        self.len += 1;
    }
    fn text(&mut self, row: usize, value: &str) {
        self.pad(row);
        if let Values::Text(b) = &mut self.values {
            b.append_value(value);
            self.len += 1;
        }
    }
    fn finish(&mut self, rows: usize) -> ArrayRef {
        self.pad(rows);
        self.len = 0;
        match &mut self.values {
            Values::Int32(b) => Arc::new(b.finish()),
            Values::Int64(b) => Arc::new(b.finish()),
            Values::Bool(b) => Arc::new(b.finish()),
            Values::Text(b) => Arc::new(b.finish()),
        }
    }
}

/// What becomes of a number of an event.
#[derive(Clone, Copy)]
enum How {
    Number,
    /// `u64::MAX` stands for no value.
    Known,
    State,
    Reason,
    Pass,
    Mark,
    /// This one and those behind it.
    Weights,
}

/// Where the parts of an event of some kind go.
#[derive(Clone, Default)]
struct Plan {
    numbers: Vec<(usize, usize, How)>,
    /// Column, and which number is the pid.
    names: Vec<(usize, usize)>,
}

/// Rows in the making, for a fixed list of columns.
pub(super) struct Rows {
    schema: SchemaRef,
    cells: Vec<Cells>,
    rows: usize,
    time: usize,
    cpu: usize,
    event: Option<usize>,
    current: usize,
    in_irq: Option<usize>,
    plans: Vec<Plan>,
}

impl Rows {
    pub fn new(columns: &[&'static Column]) -> Rows {
        let at = |name: &str| columns.iter().position(|c| c.name == name);
        let mut plans = vec![Plan::default(); ROWS.iter().map(|r| r.kind as usize + 1).max().unwrap_or(0)];
        for row in ROWS {
            plans[row.kind as usize] = plan(row, columns);
        }
        let everywhere = |name| at(name).expect("a column of every table");
        Rows {
            schema: schema(columns),
            cells: columns.iter().map(|c| Cells::new(c.ty)).collect(),
            rows: 0,
            time: everywhere("time_ns"),
            cpu: everywhere("cpu"),
            event: at("event"),
            current: everywhere("current_pid"),
            in_irq: at("in_irq"),
            plans,
        }
    }
    pub fn len(&self) -> usize {
        self.rows
    }
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Add an event of `kind`.
    pub fn push(
        &mut self,
        (at, cpu, current): (Ns, u32, Option<Pid>),
        (kind, n): (Kind, [i64; INTS]),
        event: &Event,
        known: &Known,
    ) {
        let row = self.rows;
        let cells = &mut self.cells;
        cells[self.time].number(row, at.0 as i64);
        cells[self.cpu].number(row, cpu.into());
        if let Some(c) = self.event {
            cells[c].text(row, kinds::row_of(kind).name);
        }
        if let Some(pid) = current {
            cells[self.current].number(row, pid.0.into());
        }
        if let (Some(c), Event::SchedWaking { .. } | Event::SchedWakeup { .. }) = (self.in_irq, event) {
            cells[c].number(row, event.in_irq().into());
        }
        let plan = &self.plans[kind as usize];
        for &(c, i, how) in &plan.numbers {
            let cell = &mut cells[c];
            match how {
                How::Number => cell.number(row, n[i]),
                How::Known if n[i] == -1 => {}
                How::Known => cell.number(row, n[i]),
                How::State => cell.text(row, kinds::state(n[i]).letter().encode_utf8(&mut [0; 4])),
                How::Reason => cell.text(row, PlacementReason::ALL[n[i] as usize].name()),
                How::Pass => cell.text(row, BalanceKind::ALL[n[i] as usize].name()),
                How::Weights => {
                    let told: Vec<String> = n[i..].iter().take_while(|w| **w >= 0).map(i64::to_string).collect();
                    cell.text(row, &told.join(","));
                }
                How::Mark => match known.marks.get(n[i] as usize) {
                    Some(mark) => cell.text(row, mark),
                    None => cell.text(row, &format!("mark {}", n[i])),
                },
            }
        }
        for &(c, i) in &plan.names {
            match n[i] {
                0 => cells[c].text(row, known.idle(cpu)),
                pid => cells[c].text(row, known.names.get(Pid(pid as u32)).unwrap_or("<...>")),
            }
        }
        self.rows += 1;
    }

    /// All rows so far; begin anew.
    pub fn take(&mut self) -> RecordBatch {
        let rows = std::mem::take(&mut self.rows);
        let arrays = self.cells.iter_mut().map(|c| c.finish(rows)).collect();
        RecordBatch::try_new(self.schema.clone(), arrays).expect("columns as the schema has them, of one length")
    }
}

fn plan(row: &Row, columns: &[&Column]) -> Plan {
    let at = |name: &str| columns.iter().position(|c| c.name == name && c.is_of(row.name));
    let first = |names: &'static str| names.split('|').next().unwrap_or(names);
    let mut plan = Plan::default();
    for (i, names) in row.ints.iter().enumerate() {
        let name = match (row.kind, first(names)) {
            (Kind::CpuFrequency, "state") => "frequency_khz",
            (Kind::Fork, "parent_pid") => "pid",
            (Kind::CgroupAttachTask, "dst_id") => "group",
            (Kind::IdleWeights, "entered") => "state",
            (Kind::IdleWeights, "w0") => "weights",
            (_, name) => name,
        };
        let how = match name {
            "prev_state" => How::State,
            "reason" => How::Reason,
            "kind" => How::Pass,
            "mark" => How::Mark,
            "weights" => How::Weights,
            "predicted_ns" | "sleep_length_ns" => How::Known,
            _ => How::Number,
        };
        plan.numbers.extend(at(name).map(|c| (c, i, how)));
        // Names: of the pid beside them.
        let comm = match name {
            "pid" => "comm",
            "prev_pid" => "prev_comm",
            "next_pid" => "next_comm",
            "child_pid" => "child_comm",
            _ => continue,
        };
        plan.names.extend(at(comm).map(|c| (c, i)));
    }
    plan
}

/// Names that numbers stand for.
#[derive(Default)]
pub(super) struct Known {
    pub names: Names,
    pub marks: Vec<String>,
    idle: Vec<String>,
}

impl Known {
    /// There are so many CPUs.
    pub fn cpus(&mut self, n: usize) {
        self.idle = (0..n).map(|cpu| format!("swapper/{cpu}")).collect();
    }
    fn idle(&self, cpu: u32) -> &str {
        self.idle.get(cpu as usize).map_or("swapper", String::as_str)
    }
}

/// What rows need to know of the run so far.
#[derive(Default)]
pub(super) struct Context {
    pub known: Known,
    pub current: Vec<Option<Pid>>,
    domains: Vec<Vec<u32>>,
}

impl Context {
    pub fn new(marks: Vec<String>) -> Context {
        Context { known: Known { marks, ..Known::default() }, ..Context::default() }
    }
    pub fn start(&mut self, platform: &Platform) {
        self.known.cpus(platform.nr_cpus());
        self.current = vec![Some(Pid(0)); platform.nr_cpus()];
        self.domains = platform.domains.iter().map(|d| d.cpus.iter().map(|c| c.0).collect()).collect();
    }

    /// Calls `add` for each row that the event is: a change of frequency is one a CPU.
    pub fn rows(
        &mut self,
        cpu: CpuId,
        event: &Event,
        mut add: impl FnMut((u32, Option<Pid>), (Kind, [i64; INTS]), &Known),
    ) {
        if let Event::CpuFrequency { domain, khz, .. } = *event {
            for &cpu in self.domains.get(domain.at()).into_iter().flatten() {
                let n = kinds::of([khz.into(), cpu.into()]);
                let current = self.current.get(cpu as usize).copied().flatten();
                add((cpu, current), (Kind::CpuFrequency, n), &self.known);
            }
            return;
        }
        let Some((kind, mut n)) = kinds::numbers(event) else { return };
        for &(pid, prio) in kinds::prios(kind) {
            n[prio] = self.known.names.prio(Pid(n[pid] as u32), n[prio] as u8);
        }
        let current = self.current.get(cpu.at()).copied().flatten();
        add((cpu.0, current), (kind, n), &self.known);
        if let (Event::SchedSwitch { next_pid, .. }, Some(slot)) = (event, self.current.get_mut(cpu.at())) {
            *slot = Some(*next_pid);
        }
    }
}

/// An observer that keeps events in memory, a table for each name.
pub struct EventTables {
    interest: Interest,
    context: Context,
    tables: BTreeMap<&'static str, Rows>,
}

impl EventTables {
    /// Tables of these events, such as `sched_switch`, `cpu_idle`, `wattif_placement`; `marks`: the workload's names of
    /// marks. Names of no event give no table.
    pub fn new(events: &[&str], marks: Vec<String>) -> EventTables {
        let rows = ROWS.iter().filter(|r| events.contains(&r.name));
        let table = |r: &Row| (r.name, Rows::new(&columns_of(r.name).collect::<Vec<_>>()));
        let tables: BTreeMap<_, _> = rows.map(table).collect();
        let interest = tables.keys().fold(Interest::default(), |i, name| i.and(Interest::of(name)));
        EventTables { interest, context: Context::new(marks), tables }
    }
    /// Event and table; after the run.
    pub fn into_batches(self) -> BTreeMap<&'static str, RecordBatch> {
        self.tables.into_iter().map(|(name, mut rows)| (name, rows.take())).collect()
    }
}

/// Columns of a table of all events of some families.
pub(super) fn columns(interest: Interest) -> Vec<&'static Column> {
    let wanted = |c: &&Column| c.events.is_empty() || c.events.iter().any(|e| interest.wants(Interest::of(e)));
    COLUMNS.iter().filter(wanted).collect()
}

impl Observer for EventTables {
    fn interest(&self) -> Interest {
        // Who runs is known from switches.
        self.interest.and(Interest::SCHED)
    }
    fn start(&mut self, platform: &Platform) {
        self.context.start(platform);
    }
    fn thread(&mut self, thread: &ThreadInfo) {
        self.context.known.names.insert(thread);
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        let tables = &mut self.tables;
        self.context.rows(cpu, event, |(cpu, current), numbers, known| {
            if let Some(rows) = tables.get_mut(kinds::row_of(numbers.0).name) {
                rows.push((at, cpu, current), numbers, event, known);
            }
        });
    }
}
