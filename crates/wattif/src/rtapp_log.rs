//! `--logs DIR`: the log files that rt-app itself would have written, a file per thread, column for column, so that the scripts that
//! read rt-app's logs read a simulation's.
//!
//! `<log_basename>-<task>-<thread>.log`, a line per iteration of a phase; times in µs, absolute ones since the beginning of the run:
//!
//! | column | meaning |
//! |---|---|
//! | `idx` | number of the thread |
//! | `perf` | µs of work divided by the `calibration` of the file, 1000 ns per loop where it has none, and rounded down: of each configured `run`, and of each piece of 32 µs that a `runtime` got done in its time |
//! | `run`, `period` | measured time in run events, and of the whole iteration |
//! | `start`, `end`, `rel_st` | of the iteration; `rel_st` from the start of the program |
//! | `slack` | from the end of the work to the last timer's expiry, with `cumulative_slack` the sum over the timers; negative: too late |
//! | `c_duration`, `c_period` | configured work, and periods of the timers |
//! | `wu_lat` | latency of wake-ups by timers, from the nominal expiry until the thread reads the clock |

use crate::error::Error;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use wattif_formats::rtapp::Logs;
use wattif_lab::metrics::RtappLoops;
use wattif_model::run::RunSpec;
use wattif_model::trace::{Event, Interest, Observer, ThreadInfo};
use wattif_model::workload::Policy;
use wattif_model::{CpuId, Ns, Pid};

/// So much of a file is kept until it is written.
const KEPT: usize = 64 << 10;

/// Writes below a temporary folder in the folder asked for; [`RtappLogs::finish`] gives the files their names.
pub struct RtappLogs {
    folder: PathBuf,
    scratch: TempDir,
    threads: BTreeMap<Pid, Log>,
    /// Priority or nice value by task.
    priorities: BTreeMap<String, i32>,
    basename: String,
    loops: RtappLoops,
    failed: Option<std::io::Error>,
}

struct Log {
    name: String,
    index: usize,
    text: String,
    /// The first half of a line, until what was configured is told.
    stats: Option<Stats>,
}

#[derive(Clone, Copy)]
struct Stats {
    at: Ns,
    wu_lat_ns: u64,
    run_ns: u64,
    period_ns: u64,
    slack_ns: i64,
}

impl RtappLogs {
    /// Begin logs of a run of `spec` in `folder`, which is made if it is not there; `logs`: what the workload's file says of them.
    pub fn create(folder: &Path, spec: &RunSpec, logs: &Logs) -> Result<RtappLogs, Error> {
        let failed = |e| Error::file(folder, e);
        if folder.exists() && !folder.is_dir() {
            return Err(failed(std::io::ErrorKind::NotADirectory.into()));
        }
        fs::create_dir_all(folder).map_err(failed)?;
        let priority = |attr: &wattif_model::workload::SchedAttr| match attr.policy {
            Policy::Fifo | Policy::Rr => i32::from(attr.rt_priority),
            _ => i32::from(attr.nice),
        };
        Ok(RtappLogs {
            folder: folder.into(),
            scratch: TempDir::new_in(folder).map_err(failed)?,
            threads: BTreeMap::new(),
            priorities: spec.workload.tasks.iter().map(|t| (t.name.clone(), priority(&t.attr))).collect(),
            basename: plain(logs.basename.as_deref().unwrap_or("rt-app")),
            loops: RtappLoops::new(&spec.platform, &spec.workload, logs.ns_per_loop.unwrap_or(1_000).into()),
            failed: None,
        })
    }

    /// Write what is left and give the files their names.
    pub fn finish(mut self) -> Result<(), Error> {
        let failed = |e| Error::file(&self.folder, e);
        for log in self.threads.values_mut() {
            log.flush(self.scratch.path()).map_err(failed)?;
        }
        if let Some(e) = self.failed {
            return Err(Error::file(&self.folder, e));
        }
        for log in self.threads.values() {
            let (written, target) = (self.scratch.path().join(&log.name), self.folder.join(&log.name));
            if let Ok(replaced) = target.metadata() {
                fs::set_permissions(&written, replaced.permissions()).map_err(failed)?;
            }
            fs::rename(written, target).map_err(failed)?;
        }
        Ok(())
    }
}

/// As a part of a file's name.
fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_control() || c == '/' { '_' } else { c }).collect()
}

impl Log {
    fn line(&mut self, s: Stats, loops: u64, c_duration_us: u64, c_period_us: u64) {
        let us = |ns: u64| ns / 1_000;
        let start = s.at.0.saturating_sub(s.period_ns);
        self.text += &format!(
            "{:4} {:8} {:8} {:8} {:15} {:15} {:15} {:10} {:10} {:10} {:10}\n",
            self.index,
            loops,
            us(s.run_ns),
            us(s.period_ns),
            us(start),
            us(s.at.0),
            us(start),
            s.slack_ns / 1_000,
            c_duration_us,
            c_period_us,
            us(s.wu_lat_ns)
        );
    }

    fn flush(&mut self, folder: &Path) -> std::io::Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(folder.join(&self.name))?;
        file.write_all(std::mem::take(&mut self.text).as_bytes())
    }
}

impl Observer for RtappLogs {
    fn interest(&self) -> Interest {
        Interest::PROGRAM.and(self.loops.interest())
    }
    fn thread(&mut self, thread: &ThreadInfo) {
        if !thread.workload {
            return;
        }
        self.loops.thread(thread);
        let (index, priority) = (self.threads.len(), self.priorities.get(&thread.task).copied().unwrap_or(0));
        let text = format!(
            "# Policy : {} priority : {priority}\n{:4} {:>8} {:>8} {:>8} {:>15} {:>15} {:>15} {:>10} {:>10} {:>10} {:>10}\n",
            thread.policy,
            "#idx",
            "perf",
            "run",
            "period",
            "start",
            "end",
            "rel_st",
            "slack",
            "c_duration",
            "c_period",
            "wu_lat"
        );
        let name = format!("{}-{}.log", self.basename, plain(&thread.comm));
        self.threads.insert(thread.pid, Log { name, index, text, stats: None });
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        match *event {
            Event::RtappStats { pid, wu_lat_ns, run_ns, period_ns, slack_ns } => {
                if let Some(log) = self.threads.get_mut(&pid) {
                    log.stats = Some(Stats { at, wu_lat_ns, run_ns, period_ns, slack_ns });
                }
            }
            Event::RtappConfigured { pid, c_duration_us, c_period_us } => {
                let Some(log) = self.threads.get_mut(&pid) else { return };
                if let Some(stats) = log.stats.take() {
                    let loops = self.loops.line(at, cpu, pid, c_duration_us, c_period_us);
                    log.line(stats, loops, c_duration_us, c_period_us);
                }
                if log.text.len() > KEPT && self.failed.is_none() {
                    self.failed = log.flush(self.scratch.path()).err();
                }
            }
            _ => self.loops.event(at, cpu, event),
        }
    }
}
