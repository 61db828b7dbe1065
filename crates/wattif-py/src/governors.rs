//! Governors written in Python: slow, and good for trying an idea before it is written in Rust.

use crate::interrupt::Stop;
use pyo3::prelude::*;
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

/// An idle governor: an object with `enable`, `select` and `reflect`.
pub struct PyIdle {
    object: Py<PyAny>,
    failed: Failed,
    /// Idle states by CPU: a choice is held within them.
    states: Vec<usize>,
}

impl PyIdle {
    /// Asks `object`.
    pub fn new(object: Py<PyAny>, failed: Failed) -> PyIdle {
        PyIdle { object, failed, states: Vec::new() }
    }
}

impl IdleGovernor for PyIdle {
    fn enable(&mut self, cpu: CpuId, states: &[CpuidleState]) {
        self.states.resize(self.states.len().max(cpu.at() + 1), 1);
        self.states[cpu.at()] = states.len();
        let of = |s: &CpuidleState| State {
            exit_latency_ns: s.exit_latency_ns,
            target_residency_ns: s.target_residency_ns,
            polling: s.polling,
        };
        let states: Vec<State> = states.iter().map(of).collect();
        self.failed.keep(Python::attach(|py| self.object.call_method1(py, "enable", (cpu.0, states)).map(drop)));
    }

    fn select(&mut self, cpu: CpuId, view: &mut dyn IdleView) -> IdleSelection {
        let sleep = view.sleep_length();
        let args = (cpu.0, sleep.sleep_length_ns, sleep.delta_tick_ns, view.latency_req_ns(), view.tick_stopped());
        let chosen = Python::attach(|py| {
            let answer = self.object.call_method1(py, "select", args)?;
            let answer = answer.bind(py);
            answer.extract::<(usize, bool)>().or_else(|_| answer.extract::<usize>().map(|state| (state, true)))
        });
        let (state, stop_tick) = self.failed.keep(chosen).unwrap_or((0, false));
        let deepest = self.states.get(cpu.at()).map_or(0, |n| n - 1);
        IdleSelection { state: state.min(deepest), stop_tick, predicted_ns: sleep.sleep_length_ns }
    }

    fn reflect(&mut self, cpu: CpuId, sleep: &IdleSleep) {
        let args = (cpu.0, sleep.entered, sleep.residency_ns);
        self.failed.keep(Python::attach(|py| self.object.call_method1(py, "reflect", args).map(drop)));
    }

    fn debug_state(&self, _cpu: CpuId) -> String {
        String::new()
    }
}

/// A frequency governor: an object with `start` and `update`.
pub struct PyFreq {
    /// `None`: it could not be made, and the run is about to end.
    object: Option<Py<PyAny>>,
    failed: Failed,
    policy: CpufreqPolicy,
    last: FrequencyChoice,
}

impl PyFreq {
    /// Asks `object`.
    pub fn new(object: Option<Py<PyAny>>, failed: Failed) -> PyFreq {
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
        PyFreq { object, failed, policy: CpufreqPolicy::default(), last }
    }
}

impl FreqGovernor for PyFreq {
    fn start(&mut self, policy: CpufreqPolicy, _now_ns: u64, _view: &dyn FreqView) -> Option<u32> {
        self.policy = policy;
        let cpus: Vec<u32> = self.policy.cpus.iter().map(|c| c.0).collect();
        let (lowest, highest) = (self.policy.cpuinfo_min, self.policy.cpuinfo_max);
        let object = self.object.as_ref()?;
        let started = Python::attach(|py| object.call_method1(py, "start", (cpus, lowest, highest)).map(drop));
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
        let object = self.object.as_ref()?;
        let answer = Python::attach(|py| {
            object.call_method1(py, "update", (now_ns, cpu.0, signals))?.extract::<Option<u32>>(py)
        });
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
