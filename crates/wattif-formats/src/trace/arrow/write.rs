//! One table of all events, as a file. A batch of rows (Parquet: a row group, packed) is in memory at a time.

use super::super::names::clean;
use super::super::writer::{About, Detail, GENERATOR, TraceWriter};
use super::key;
use super::rows::{Context, Rows, columns};
use arrow_array::RecordBatch;
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;
use serde_json::json;
use std::io::{Error, Result, Write};
use wattif_model::platform::Platform;
use wattif_model::trace::{Asked, Event, Interest, Observer, Recording, ThreadInfo};
use wattif_model::{CpuId, Ns, Pid};

/// Rows of a batch.
const BATCH: usize = 1 << 16;
/// Rows of a Parquet row group.
const GROUP: usize = 1 << 18;

/// Formats of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFormat {
    /// Arrow IPC file.
    Arrow,
    /// Parquet.
    Parquet,
}

enum File<W: Write + Send> {
    Arrow(FileWriter<W>),
    Parquet(ArrowWriter<W>),
}

/// Writes a table of events.
pub struct TableTrace<W: Write + Send> {
    detail: Detail,
    about: About,
    context: Context,
    rows: Rows,
    file: Option<File<W>>,
    threads: Vec<ThreadInfo>,
    /// Events that the recording lost, and in how many places.
    lost: (u64, u64),
    /// When the run ended.
    end: Option<Ns>,
    failed: Option<Error>,
}

impl<W: Write + Send> TableTrace<W> {
    /// Begin a table.
    pub fn new(out: W, format: TableFormat, detail: Detail, about: About) -> Result<TableTrace<W>> {
        let rows = Rows::new(&columns(detail.interest()));
        let file = match format {
            TableFormat::Arrow => {
                let packed = IpcWriteOptions::default().try_with_compression(Some(CompressionType::LZ4_FRAME));
                let options = packed.map_err(Error::other)?;
                File::Arrow(FileWriter::try_new_with_options(out, &rows.schema(), options).map_err(Error::other)?)
            }
            TableFormat::Parquet => {
                // Stamps ascend: their differences are small, and no value comes again.
                let time = ColumnPath::from("time_ns");
                let properties = WriterProperties::builder()
                    .set_compression(Compression::SNAPPY)
                    .set_created_by(GENERATOR.to_string())
                    .set_max_row_group_row_count(Some(GROUP))
                    .set_column_dictionary_enabled(time.clone(), false)
                    .set_column_encoding(time, Encoding::DELTA_BINARY_PACKED)
                    .build();
                File::Parquet(ArrowWriter::try_new(out, rows.schema(), Some(properties)).map_err(Error::other)?)
            }
        };
        let context = Context::new(about.marks.clone());
        Ok(TableTrace {
            detail,
            about,
            context,
            rows,
            file: Some(file),
            threads: Vec::new(),
            lost: (0, 0),
            end: None,
            failed: None,
        })
    }

    fn batch(&mut self, batch: &RecordBatch) -> Result<()> {
        match &mut self.file {
            Some(File::Arrow(file)) => file.write(batch).map_err(Error::other),
            Some(File::Parquet(file)) => file.write(batch).map_err(Error::other),
            None => Ok(()),
        }
    }

    /// What the file says beside its rows.
    fn metadata(&self) -> Vec<(&'static str, String)> {
        let thread = |t: &ThreadInfo| {
            // Its name as the rows have it.
            let comm = clean(&t.comm);
            let mut all =
                json!({"pid": t.pid.0, "comm": comm, "task": t.task, "policy": t.policy, "workload": t.workload});
            if let Some((_, group)) = self.about.groups().find(|(number, _)| *number == t.group as usize) {
                all["group"] = group.path.as_str().into();
            }
            if let Some(dl) = t.dl {
                for (key, ns) in [("runtime_ns", dl.runtime), ("deadline_ns", dl.deadline), ("period_ns", dl.period)] {
                    all[key] = ns.0.into();
                }
            }
            let Asked { slice, util_min, util_max } = t.asked;
            let slice = (slice != Ns::ZERO).then_some(slice.0);
            for (key, asked) in
                [("slice_ns", slice), ("util_min", util_min.map(u64::from)), ("util_max", util_max.map(u64::from))]
            {
                if let Some(asked) = asked {
                    all[key] = asked.into();
                }
            }
            if let Some(cpus) = &t.cpus {
                all["cpus"] = cpus.to_string().into();
            }
            all
        };
        let mut all = vec![
            (key::GENERATOR, GENERATOR.to_string()),
            (key::KERNEL, self.about.kernel.clone()),
            (key::SPEC, self.about.spec.clone()),
            (key::CPUS, self.context.current.len().to_string()),
            (key::THREADS, serde_json::Value::from(self.threads.iter().map(thread).collect::<Vec<_>>()).to_string()),
        ];
        all.extend(self.end.map(|end| (key::END, end.0.to_string())));
        let (events, gaps) = self.lost;
        all.extend((gaps > 0).then(|| (key::LOST, json!({"events": events, "gaps": gaps}).to_string())));
        all
    }
}

impl<W: Write + Send> Observer for TableTrace<W> {
    fn interest(&self) -> Interest {
        self.detail.interest()
    }
    fn start(&mut self, platform: &Platform) {
        self.context.start(platform);
    }
    fn thread(&mut self, thread: &ThreadInfo) {
        self.context.known.names.insert(thread);
        self.threads.push(thread.clone());
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        if self.failed.is_some() {
            return;
        }
        let rows = &mut self.rows;
        self.context.rows(cpu, event, |(cpu, current), numbers, known| {
            rows.push((at, cpu, current), numbers, event, known);
        });
        if self.rows.len() >= BATCH {
            let batch = self.rows.take();
            self.failed = self.batch(&batch).err();
        }
    }
    fn finish(&mut self, end: Ns) {
        self.end = Some(end);
    }
}

impl<W: Write + Send> TraceWriter for TableTrace<W> {
    fn runs(&mut self, cpu: CpuId, pid: Option<Pid>) {
        self.context.current[cpu.at()] = pid;
    }
    fn recorded(&mut self, recording: &Recording) {
        self.lost = (recording.lost_events, recording.lost_gaps);
    }
    fn close(&mut self) -> Result<()> {
        if let Some(e) = self.failed.take() {
            return Err(e);
        }
        let batch = self.rows.take();
        if batch.num_rows() > 0 {
            self.batch(&batch)?;
        }
        let metadata = self.metadata();
        match self.file.take() {
            Some(File::Arrow(mut file)) => {
                metadata.into_iter().for_each(|(key, value)| file.write_metadata(key, value));
                file.finish().map_err(Error::other)?;
                file.get_mut().flush()
            }
            Some(File::Parquet(mut file)) => {
                let pair = |(key, value): (&str, String)| KeyValue::new(key.to_string(), value);
                metadata.into_iter().for_each(|m| file.append_key_value_metadata(pair(m)));
                let mut out = file.into_inner().map_err(Error::other)?;
                out.flush()
            }
            None => Ok(()),
        }
    }
}
