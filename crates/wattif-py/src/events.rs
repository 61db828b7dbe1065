//! What happened in a run, as columns.

use crate::table::{Column, Table};
use arrow_array::builder::{Int32Builder, StringBuilder, UInt32Builder, UInt64Builder};
use arrow_array::{ArrayRef, Float64Array};
use pyo3::prelude::*;
use std::collections::HashMap;
use std::sync::Arc;
use wattif_model::trace::{Event, Interest, Observer, PrevState, ThreadInfo};
use wattif_model::{CpuId, Ns};

/// One thing on one CPU: time, CPU, and up to three numbers.
type Record = (u64, u32, [u32; 3]);

/// Listens to all that a table is made of.
#[derive(Default)]
pub struct Events {
    threads: HashMap<u32, ThreadInfo>,
    woken: HashMap<u32, u64>,
    on_cpu: HashMap<u32, bool>,
    /// pid and latency, ns.
    wakeups: Vec<(u64, u32, u32, u64)>,
    switches: Vec<Record>,
    idle: Vec<Record>,
    frequency: Vec<Record>,
}

impl Observer for Events {
    fn interest(&self) -> Interest {
        Interest::SCHED.and(Interest::IDLE).and(Interest::FREQ)
    }
    fn thread(&mut self, thread: &ThreadInfo) {
        self.threads.insert(thread.pid.0, thread.clone());
    }
    fn event(&mut self, Ns(at): Ns, cpu: CpuId, event: &Event) {
        match *event {
            Event::SchedWaking { pid, .. } if !self.on_cpu.get(&pid.0).copied().unwrap_or(false) => {
                self.woken.entry(pid.0).or_insert(at);
            }
            Event::SchedSwitch { prev_pid, prev_state, next_pid, .. } => {
                self.on_cpu.insert(prev_pid.0, false);
                self.on_cpu.insert(next_pid.0, true);
                if let Some(woken) = self.woken.remove(&next_pid.0) {
                    self.wakeups.push((at, cpu.0, next_pid.0, at - woken));
                }
                self.switches.push((at, cpu.0, [prev_pid.0, state(prev_state), next_pid.0]));
            }
            Event::CpuIdle { state } => self.idle.push((at, cpu.0, [state, 0, 0])),
            Event::CpuFrequency { domain, khz, .. } => self.frequency.push((at, cpu.0, [domain.0, khz, 0])),
            _ => {}
        }
    }
}

fn state(state: PrevState) -> u32 {
    u32::from(match state {
        PrevState::Running => b'R',
        PrevState::Sleeping => b'S',
        PrevState::DiskSleep => b'D',
        PrevState::Dead => b'X',
    })
}

fn seconds(times: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(times.map(|ns| ns as f64 / 1e9).collect::<Float64Array>())
}

fn numbers(values: impl Iterator<Item = u32>) -> ArrayRef {
    let mut column = UInt32Builder::new();
    values.for_each(|v| column.append_value(v));
    Arc::new(column.finish())
}

fn texts<S: AsRef<str>>(values: impl Iterator<Item = S>) -> ArrayRef {
    let mut column = StringBuilder::new();
    values.for_each(|v| column.append_value(v));
    Arc::new(column.finish())
}

const TIME: (&str, &str, &str) = ("time", "s", "since the start of the run");
const CPU: (&str, &str, &str) = ("cpu", "", "on which CPU");

fn column((name, unit, doc): (&'static str, &'static str, &'static str), values: ArrayRef) -> Column {
    (name, unit, doc, values)
}

impl Events {
    fn name(&self, pid: u32, of: fn(&ThreadInfo) -> &str) -> &str {
        self.threads.get(&pid).map_or(if pid == 0 { "swapper" } else { "?" }, of)
    }

    /// By the name of its function in Python, without `df_`.
    pub fn table(&self, name: &str) -> PyResult<Table> {
        match name {
            "wakeup_latency" => self.wakeup_latency(),
            "sched_switch" => self.sched_switch(),
            "cpu_idle" => self.cpu_idle(),
            "cpu_frequency" => self.cpu_frequency(),
            other => Err(crate::refused(format!("there is no table `{other}`"))),
        }
    }

    /// Every wake-up of a thread of the workload that ran: how long it waited.
    fn wakeup_latency(&self) -> PyResult<Table> {
        let ours = |pid: &u32| self.threads.get(pid).is_some_and(|t| t.workload);
        let rows: Vec<_> = self.wakeups.iter().filter(|r| ours(&r.2)).collect();
        let mut latency = UInt64Builder::new();
        rows.iter().for_each(|r| latency.append_value(r.3));
        Table::new(vec![
            column(TIME, seconds(rows.iter().map(|r| r.0))),
            column(CPU, numbers(rows.iter().map(|r| r.1))),
            column(("pid", "", "thread that was switched in"), numbers(rows.iter().map(|r| r.2))),
            column(("comm", "", "its name"), texts(rows.iter().map(|r| self.name(r.2, |t| &t.comm)))),
            column(
                ("task", "", "task of the workload it belongs to"),
                texts(rows.iter().map(|r| self.name(r.2, |t| &t.task))),
            ),
            column(("latency", "ns", "sched_waking until switched in"), Arc::new(latency.finish())),
        ])
    }

    /// `sched_switch`.
    fn sched_switch(&self) -> PyResult<Table> {
        let rows = &self.switches;
        let letter = |r: &Record| char::from(r.2[1] as u8).to_string();
        Table::new(vec![
            column(TIME, seconds(rows.iter().map(|r| r.0))),
            column(CPU, numbers(rows.iter().map(|r| r.1))),
            column(("prev_pid", "", "who leaves; 0 is idle"), numbers(rows.iter().map(|r| r.2[0]))),
            column(("prev_comm", "", "its name"), texts(rows.iter().map(|r| self.name(r.2[0], |t| &t.comm)))),
            column(
                ("prev_state", "", "R preempted, S sleeps, D waits for a device, X ended"),
                texts(rows.iter().map(letter)),
            ),
            column(("next_pid", "", "who comes"), numbers(rows.iter().map(|r| r.2[2]))),
            column(("next_comm", "", "its name"), texts(rows.iter().map(|r| self.name(r.2[2], |t| &t.comm)))),
        ])
    }

    /// `cpu_idle`.
    fn cpu_idle(&self) -> PyResult<Table> {
        let mut state = Int32Builder::new();
        self.idle.iter().for_each(|r| state.append_value(r.2[0] as i32)); // an exit is -1, as LISA shows it
        Table::new(vec![
            column(TIME, seconds(self.idle.iter().map(|r| r.0))),
            column(CPU, numbers(self.idle.iter().map(|r| r.1))),
            column(("state", "", "state entered; -1: left"), Arc::new(state.finish())),
        ])
    }

    /// `cpu_frequency`.
    fn cpu_frequency(&self) -> PyResult<Table> {
        Table::new(vec![
            column(TIME, seconds(self.frequency.iter().map(|r| r.0))),
            column(("domain", "", "frequency domain"), numbers(self.frequency.iter().map(|r| r.2[0]))),
            column(("frequency", "kHz", "new frequency"), numbers(self.frequency.iter().map(|r| r.2[1]))),
        ])
    }
}
