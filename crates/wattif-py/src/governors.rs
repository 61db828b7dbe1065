//! Governors written in Python: slow, and good for trying an idea before it is written in Rust.

use crate::interrupt::Stop;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use wattif_model::trace::FrequencyChoice;
use wattif_model::{CpuId, DomainId};
use wattif_sim::cpufreq::{CpufreqPolicy, FreqGovernor, FreqView, UpdateFlags};
use wattif_sim::cpuidle::{CpuidleState, IdleGovernor, IdleSelection, IdleSleep, IdleView};

/// The first exception of a callback, which stops the run.
#[derive(Clone)]
pub struct Failed {
    first: Arc<Mutex<Option<PyErr>>>,
    stop: Stop,
}

impl Failed {
    /// Nothing so far.
    pub fn new(stop: &Stop) -> Failed {
        Failed { first: Arc::default(), stop: stop.clone() }
    }
    /// The value, or the exception is kept if it is the first.
    fn keep<T>(&self, result: PyResult<T>) -> Option<T> {
        let raised = |e| {
            self.stop.store(true, Ordering::Relaxed);
            if let Ok(mut first) = self.first.lock() {
                first.get_or_insert(e);
            }
        };
        result.map_err(raised).ok()
    }
    /// What was raised.
    pub fn take(&self) -> Option<PyErr> {
        self.first.lock().ok()?.take()
    }
}

/// An object of a class.
pub fn made(class: &Py<PyAny>, failed: &Failed) -> Option<Py<PyAny>> {
    failed.keep(Python::attach(|py| class.call0(py)))
}

/// A method of an object, bound once; `None` where its class has only that of `base`, which does nothing.
fn method(py: Python<'_>, object: &Py<PyAny>, base: &str, name: &str) -> PyResult<Option<Py<PyAny>>> {
    let base = py.import("wattif._policies")?.getattr(base)?.getattr(name)?;
    let own = object.bind(py).get_type().getattr(name)?;
    if own.is(&base) { Ok(None) } else { object.getattr(py, name).map(Some) }
}

/// An idle state, as a governor written in Python sees it.
#[pyclass(frozen, get_all, module = "wattif", name = "IdleState")]
pub struct State {
    exit_latency_ns: i64,
    target_residency_ns: i64,
    polling: bool,
}

/// Signals of a CPU, as a governor written in Python sees them.
#[pyclass(frozen, get_all, module = "wattif", name = "CpuSignals")]
pub struct Signals {
    cpu: u32,
    util_avg: u64,
    util_est: u64,
    runnable_avg: u64,
    util_rt: u64,
    nr_running: u32,
    capacity: u64,
}

/// An idle governor: an object with `select`, and with `enable`, `reflect` and `poll_limit_ns` where it has them.
pub struct PyIdle {
    select: Py<PyAny>,
    enable: Option<Py<PyAny>>,
    reflect: Option<Py<PyAny>>,
    poll_limit_ns: Option<Py<PyAny>>,
    failed: Failed,
    cpus: Vec<IdleCpu>,
}

#[derive(Clone, Copy, Default)]
struct IdleCpu {
    /// Idle states: a choice is one of them.
    states: usize,
    /// Sleeps in a row that the time limit of polling ended.
    polled: u32,
}

impl PyIdle {
    /// Asks `object`.
    pub fn new(object: &Py<PyAny>, failed: Failed) -> Option<PyIdle> {
        let bound = Python::attach(|py| {
            let method = |name: &str| method(py, object, "IdleGovernor", name);
            let (enable, reflect, poll_limit_ns) = (method("enable")?, method("reflect")?, method("poll_limit_ns")?);
            let (select, cpus, failed) = (object.getattr(py, "select")?, Vec::new(), failed.clone());
            Ok(PyIdle { select, enable, reflect, poll_limit_ns, failed, cpus })
        });
        failed.keep(bound)
    }
}

impl IdleGovernor for PyIdle {
    fn enable(&mut self, cpu: CpuId, states: &[CpuidleState]) {
        self.cpus.resize(self.cpus.len().max(cpu.at() + 1), IdleCpu::default());
        self.cpus[cpu.at()] = IdleCpu { states: states.len(), polled: 0 };
        let Some(enable) = &self.enable else { return };
        let of = |s: &CpuidleState| State {
            exit_latency_ns: s.exit_latency_ns,
            target_residency_ns: s.target_residency_ns,
            polling: s.polling,
        };
        let states: Vec<State> = states.iter().map(of).collect();
        self.failed.keep(Python::attach(|py| enable.call1(py, (cpu.0, states)).map(drop)));
    }

    fn select(&mut self, cpu: CpuId, view: &mut dyn IdleView) -> IdleSelection {
        let sleep = view.sleep_length();
        let args = (cpu.0, sleep.sleep_length_ns, sleep.delta_tick_ns, view.latency_req_ns(), view.tick_stopped());
        let states = self.cpus.get(cpu.at()).map_or(1, |c| c.states);
        let chosen = Python::attach(|py| {
            let answer = self.select.call1(py, args)?;
            let answer = answer.bind(py);
            let (state, stop_tick) = match answer.cast::<PyTuple>() {
                Ok(both) => both.extract::<(usize, bool)>()?,
                Err(_) => (answer.extract::<usize>()?, true),
            };
            match state < states {
                true => Ok((state, stop_tick)),
                false => Err(PyValueError::new_err(format!(
                    "select chose state {state} of CPU {}, which has 0 to {}",
                    cpu.0,
                    states - 1
                ))),
            }
        });
        let (state, stop_tick) = self.failed.keep(chosen).unwrap_or((0, false));
        IdleSelection { state, stop_tick, predicted_ns: sleep.sleep_length_ns }
    }

    fn reflect(&mut self, cpu: CpuId, sleep: &IdleSleep) {
        if let Some(c) = self.cpus.get_mut(cpu.at()) {
            c.polled = if sleep.poll_time_limit { c.polled + 1 } else { 0 };
        }
        let Some(reflect) = &self.reflect else { return };
        let args = (cpu.0, sleep.entered, sleep.residency_ns);
        self.failed.keep(Python::attach(|py| reflect.call1(py, args).map(drop)));
    }

    /// The kernel's limit, doubled while a CPU does nothing but poll: each end of it is a call into Python, and one who polls
    /// all the time would be called for every 10 µs of every idle CPU.
    fn poll_limit_ns(&mut self, cpu: CpuId, poll_time_ns: u64) -> u64 {
        let doubled = |c: &IdleCpu| poll_time_ns << c.polled.min(10);
        let Some(limit) = &self.poll_limit_ns else {
            return self.cpus.get(cpu.at()).map_or(poll_time_ns, doubled);
        };
        let answer = Python::attach(|py| limit.call1(py, (cpu.0, poll_time_ns))?.extract::<u64>(py));
        self.failed.keep(answer).unwrap_or(poll_time_ns)
    }

    fn debug_state(&self, _cpu: CpuId) -> String {
        String::new()
    }
}

/// A frequency governor: an object with `start` and `update`.
pub struct PyFreq {
    /// `None`: it could not be made, and the run is about to end.
    update: Option<Py<PyAny>>,
    start: Option<Py<PyAny>>,
    failed: Failed,
    policy: CpufreqPolicy,
    last: FrequencyChoice,
}

impl PyFreq {
    /// Asks `object`.
    pub fn new(object: Option<Py<PyAny>>, failed: Failed) -> PyFreq {
        let bound = object.and_then(|object| {
            let methods = Python::attach(|py| {
                Ok((object.getattr(py, "update")?, method(py, &object, "CpufreqGovernor", "start")?))
            });
            failed.keep(methods)
        });
        let (update, start) = bound.map_or((None, None), |(update, start)| (Some(update), start));
        let last = FrequencyChoice {
            domain: DomainId(0),
            next_khz: 0,
            prev_khz: 0,
            util: 0,
            util_avg: 0,
            util_est: 0,
            runnable_avg: 0,
            iowait_boost: 0,
        };
        PyFreq { update, start, failed, policy: CpufreqPolicy::default(), last }
    }
}

impl FreqGovernor for PyFreq {
    fn start(&mut self, policy: CpufreqPolicy, _now_ns: u64, _view: &dyn FreqView) -> Option<u32> {
        self.policy = policy;
        let cpus: Vec<u32> = self.policy.cpus.iter().map(|c| c.0).collect();
        let (lowest, highest) = (self.policy.cpuinfo_min, self.policy.cpuinfo_max);
        let start = self.start.as_ref()?;
        let started = Python::attach(|py| start.call1(py, (cpus, lowest, highest)).map(drop));
        self.failed.keep(started);
        None
    }

    fn update_util(&mut self, now_ns: u64, cpu: CpuId, _: UpdateFlags, view: &dyn FreqView) -> Option<u32> {
        let of = |c: &CpuId| {
            let s = view.signals(*c);
            let (util_avg, util_est, runnable_avg) = (s.util_avg, s.util_est, s.runnable_avg);
            let (util_rt, nr_running, capacity) = (s.util_rt, s.nr_running, s.capacity);
            Signals { cpu: c.0, util_avg, util_est, runnable_avg, util_rt, nr_running, capacity }
        };
        let signals: Vec<Signals> = self.policy.cpus.iter().map(of).collect();
        let update = self.update.as_ref()?;
        let answer = Python::attach(|py| update.call1(py, (now_ns, cpu.0, signals))?.extract::<Option<u32>>(py));
        let wish = self.failed.keep(answer)??;
        let (prev_khz, next_khz) = (self.policy.cur, self.policy.resolve_freq(wish));
        if next_khz == prev_khz {
            return None;
        }
        self.policy.cur = next_khz;
        self.last = FrequencyChoice { domain: self.policy.domain, next_khz, prev_khz, ..self.last };
        Some(next_khz)
    }

    fn limits(&mut self, min_khz: u32, max_khz: u32) -> Option<u32> {
        self.policy.apply_limits(min_khz, max_khz)
    }

    fn policy(&self) -> &CpufreqPolicy {
        &self.policy
    }

    fn choice(&self) -> FrequencyChoice {
        self.last
    }
}
