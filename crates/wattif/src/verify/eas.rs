//! Vectors of energy-aware placement: energy models and whole decisions with every intermediate value.

use super::cpufreq::{era_of, plausible};
use super::{Kind, Tally, VectorError, VectorFile, json_line};
use serde::Deserialize;
use std::collections::BTreeMap;
use wattif_model::ids::{CpuId, CpuSet};
use wattif_sim::cpufreq::CpuSignals;
use wattif_sim::sched::placement::cpu_util::{TaskSignals, cpu_bw_dl};
use wattif_sim::sched::placement::eas::{Eas, EasTask, EasView, PerfDomain, Tunables, fit_with_task, task_clamps};
use wattif_sim::sched::placement::energy_model::{EmPerfDomain, Generation};
use wattif_sim::sched::uclamp::Fits;

/// `em_*`.
pub const EM: Kind = Kind { name: "em", stem: "em_", kernels: &Generation::NAMES, check: em };
/// `feec_*`.
pub const FEEC: Kind =
    Kind { name: "feec", stem: "feec_", kernels: &["5.6", "6.1", "6.12", "6.12_noboost"], check: feec };

#[derive(Deserialize)]
struct EmLine {
    cap: u64,
    pd: Pd,
    /// max_util, sum_util, allowed_cap, state index, energy.
    q: Vec<[u64; 5]>,
}

#[derive(Deserialize)]
struct Pd {
    /// In `em_*` a count, in `feec_*` a mask.
    cpus: u64,
    #[serde(default)]
    skip_ineff: u8,
    states: Vec<State>,
}

#[derive(Deserialize)]
struct State {
    f: u64,
    p: u64,
    perf: Option<u64>,
    cost: u64,
    ineff: Option<u8>,
}

/// What a file may say of a state: performance (since 6.8), cost, inefficient (since 5.16).
type StateFigures = (Option<u64>, u64, Option<bool>);

impl Pd {
    fn model(&self, line: usize, generation: Generation, cap: u64) -> Result<EmPerfDomain, VectorError> {
        let ok = |s: &State| (1..1 << 32).contains(&s.f) && s.p < 1 << 32;
        let in_range = (1..=1 << 16).contains(&cap) && !self.states.is_empty() && self.states.iter().all(ok);
        let fmax = self.states.last().map_or(0, |s| s.f);
        // Slower than 1/1024 has no performance; a cost beyond 40 bits leaves no room for an energy.
        let extreme = |s: &State| cap * s.f < fmax || fmax * s.p / s.f >= 1 << 40;
        if !in_range || self.states.iter().any(extreme) {
            return Err(format!("line {line}: the energy model makes no sense"));
        }
        let table: Vec<(u64, u64)> = self.states.iter().map(|s| (s.f, s.p)).collect();
        Ok(EmPerfDomain::new(generation, cap, &table, self.skip_ineff != 0))
    }

    fn expected(&self) -> Vec<StateFigures> {
        self.states.iter().map(|s| (s.perf, s.cost, s.ineff.map(|i| i != 0))).collect()
    }

    fn got(&self, em: &EmPerfDomain) -> Vec<StateFigures> {
        let figures = self.states.iter().zip(em.states());
        figures.map(|(s, e)| (s.perf.map(|_| e.performance), e.cost, s.ineff.map(|_| e.inefficient))).collect()
    }
}

fn em(file: &VectorFile, kernel: &str) -> Result<Tally, VectorError> {
    let generation = Generation::parse(kernel).expect("a generation of the kind");
    let mut tally = Tally::default();
    for_each_line(file, |line, text, case: EmLine| {
        let em = case.pd.model(line, generation, case.cap)?;
        if case.q.iter().any(|q| q[..3].iter().any(|&v| v > 1 << 20)) {
            return Err(format!("line {line}: a utilisation is out of range"));
        }
        let ask = |q: &[u64; 5]| {
            let &[max_util, sum_util, allowed, ..] = q;
            let state = em.state_for(max_util, allowed) as u64;
            [max_util, sum_util, allowed, state, em.em_cpu_energy(max_util, sum_util, allowed)]
        };
        let got: Vec<[u64; 5]> = case.q.iter().map(ask).collect();
        tally.compare(line, text, (case.pd.expected(), case.q), (case.pd.got(&em), got));
        Ok(())
    })?;
    Ok(tally)
}

fn for_each_line<'a, T: Deserialize<'a>>(
    file: &'a VectorFile,
    mut f: impl FnMut(usize, &'a str, T) -> Result<(), VectorError>,
) -> Result<(), VectorError> {
    for (i, text) in file.text.lines().enumerate().filter(|(_, t)| !t.is_empty()) {
        f(i + 1, text, json_line(i + 1, text)?)?;
    }
    Ok(())
}

#[derive(Deserialize)]
struct FeecLine {
    #[serde(alias = "uclamp_built")]
    uclamp_used: u8,
    #[serde(default)]
    overutilized: u8,
    #[serde(default = "everyone")]
    online: u64,
    prev_cpu: u32,
    task: TaskLine,
    pds: Vec<Pd>,
    rqs: Vec<Rq>,
    #[serde(default)]
    fits: Vec<Option<(u64, i32)>>,
    energy: Vec<Energy>,
    target: i64,
}

fn everyone() -> u64 {
    u64::MAX
}

#[derive(Deserialize)]
struct TaskLine {
    util: u64,
    #[serde(default)]
    runnable: u64,
    #[serde(default)]
    util_est: u64,
    #[serde(default)]
    util_est_enqueued: u64,
    #[serde(default)]
    util_est_ewma: u64,
    uc_min: u64,
    uc_max: u64,
    allowed: u64,
}

#[derive(Deserialize)]
struct Rq {
    cap: u64,
    capacity_of: u64,
    cfs_util: u64,
    cfs_util_est: u64,
    #[serde(default)]
    cfs_runnable: u64,
    rt: u64,
    dl: u64,
    dl_running_bw: u64,
    irq: u64,
    rt_nr: u32,
    uc_min: u64,
    uc_max: u64,
    #[serde(default)]
    uc_idle: u8,
    #[serde(default)]
    hw_load_avg: u64,
    #[serde(default)]
    pressure: u64,
}

/// What the kernel computed for a domain; 5.6 shows energies only.
#[derive(Debug, PartialEq, Deserialize)]
struct Energy {
    first_cpu: u32,
    cpu_cap: Option<u64>,
    task_busy: Option<u64>,
    pd_busy: Option<u64>,
    base: u64,
    with: BTreeMap<u32, u64>,
}

impl TaskLine {
    /// 5.6 keeps a flag in the lowest bit of the estimate, so that it is always odd.
    fn signals(&self, generation: Generation) -> TaskSignals {
        let util_est = match generation {
            Generation::V6_12 => self.util_est,
            Generation::V6_1 => self.util_est_enqueued.max(self.util_est_ewma),
            Generation::V5_0 | Generation::V5_6 => self.util_est_enqueued.max(self.util_est_ewma) | 1,
        };
        TaskSignals {
            util_avg: self.util,
            runnable_avg: self.runnable,
            util_est,
            queued: false,
            uclamp_min: self.uc_min,
            uclamp_max: self.uc_max,
        }
    }
}

/// The machine of a line.
struct Machine {
    signals: Vec<CpuSignals>,
    capacity_of: Vec<u64>,
    pressure: Vec<u64>,
    overutilized: bool,
}

impl EasView for Machine {
    fn signals(&self, cpu: CpuId) -> CpuSignals {
        self.signals[cpu.at()]
    }
    fn capacity_of(&self, cpu: CpuId) -> u64 {
        self.capacity_of[cpu.at()]
    }
    fn pressure(&self, cpu: CpuId) -> u64 {
        self.pressure[cpu.at()]
    }
    fn overutilized(&self) -> bool {
        self.overutilized
    }
}

impl Machine {
    fn of(line: usize, generation: Generation, case: &FeecLine) -> Result<Machine, VectorError> {
        let signals = |rq: &Rq| CpuSignals {
            util_avg: rq.cfs_util,
            util_est: rq.cfs_util_est,
            runnable_avg: rq.cfs_runnable,
            util_rt: rq.rt,
            util_dl: rq.dl,
            bw_dl: cpu_bw_dl(rq.dl_running_bw),
            util_irq: rq.irq,
            rt_nr_running: rq.rt_nr,
            uclamp_min: rq.uc_min,
            uclamp_max: rq.uc_max,
            uclamp_used: case.uclamp_used != 0,
            uclamp_idle: rq.uc_idle != 0,
            capacity: rq.cap,
            ..CpuSignals::default()
        };
        let pressure = |rq: &Rq| match generation {
            Generation::V6_12 => rq.pressure.max(rq.hw_load_avg),
            _ => rq.pressure,
        };
        let signals: Result<Vec<_>, _> = case.rqs.iter().map(|rq| plausible(line, signals(rq))).collect();
        Ok(Machine {
            signals: signals?,
            capacity_of: case.rqs.iter().map(|rq| rq.capacity_of).collect(),
            pressure: case.rqs.iter().map(pressure).collect(),
            overutilized: case.overutilized != 0,
        })
    }
}

impl FeecLine {
    /// Every CPU it names exists, and every figure is one the arithmetic has room for.
    fn plausible(&self, line: usize) -> Result<(), VectorError> {
        let n = self.rqs.len();
        let exists = if n >= 64 { u64::MAX } else { (1 << n) - 1 };
        let t = &self.task;
        let figures = [t.util, t.runnable, t.util_est, t.util_est_enqueued, t.util_est_ewma, t.uc_min, t.uc_max];
        let small = figures.iter().chain(self.rqs.iter().map(|rq| &rq.capacity_of)).all(|&v| v <= 1 << 20);
        let known = n <= 64 && self.pds.iter().all(|pd| pd.cpus != 0 && pd.cpus & !exists == 0);
        if small && known && (self.prev_cpu as usize) < n { Ok(()) } else { Err(format!("line {line}: not a machine")) }
    }

    fn domains(&self, line: usize, generation: Generation) -> Result<Vec<PerfDomain>, VectorError> {
        let domain = |pd: &Pd| {
            let first = pd.cpus.trailing_zeros() as usize;
            let em = pd.model(line, generation, self.rqs[first].cap)?;
            Ok(PerfDomain { cpus: CpuSet::from_mask(pd.cpus & self.online), em })
        };
        self.pds.iter().map(domain).collect()
    }
}

fn feec(file: &VectorFile, kernel: &str) -> Result<Tally, VectorError> {
    let (era, boost) = era_of(kernel);
    let generation = Generation::parse(era).expect("a generation of the kind");
    // 6.1.192 has the rule of 6.2.
    let uclamp_fits = if generation <= Generation::V5_6 { Fits::V5_6 } else { Fits::V6_2 };
    let tunables = Tunables { generation, boost, uclamp_fits };
    let mut tally = Tally::default();
    for_each_line(file, |line, text, case: FeecLine| {
        case.plausible(line)?;
        let machine = Machine::of(line, generation, &case)?;
        let mut eas = Eas::new(tunables, case.domains(line, generation)?);
        let allowed = CpuSet::from_mask(case.task.allowed);
        let signals = case.task.signals(generation);
        let task = EasTask { signals, prev_cpu: CpuId(case.prev_cpu), counted: true, allowed: &allowed };
        let target = eas.find_energy_efficient_cpu(&task, &machine).map_or(-1, |c| i64::from(c.0));
        let fits = if case.fits.is_empty() { Vec::new() } else { fits(&eas, &task, &machine) };
        let energy = energies(&mut eas, &task, &machine, generation);
        let models: Vec<_> = case.pds.iter().zip(eas.pds()).map(|(pd, d)| pd.got(&d.em)).collect();
        let expected_models: Vec<_> = case.pds.iter().map(Pd::expected).collect();
        let expected = (case.target, case.fits, case.energy, expected_models);
        tally.compare(line, text, expected, (target, fits, energy, models));
        Ok(())
    })?;
    Ok(tally)
}

fn fits(eas: &Eas, task: &EasTask<'_>, machine: &Machine) -> Vec<Option<(u64, i32)>> {
    let mut fits = vec![None; machine.signals.len()];
    for pd in eas.pds() {
        let mut clamps = task_clamps(task, &machine.signals(task.prev_cpu));
        for cpu in pd.cpus.iter_and(task.allowed) {
            let (util, fit) = fit_with_task(cpu, &machine.signals(cpu), task, &mut clamps, machine);
            fits[cpu.at()] = Some((util, fit as i32));
        }
    }
    fits
}

fn energies(eas: &mut Eas, task: &EasTask<'_>, machine: &Machine, generation: Generation) -> Vec<Energy> {
    let mut energies = Vec::new();
    for pd in 0..eas.pds().len() {
        let cpus: Vec<CpuId> = eas.pds()[pd].cpus.iter().collect();
        let Some(first) = cpus.first() else { continue };
        eas.enter(pd, task, machine);
        let e = eas.eenv();
        let shown = |v| (generation > Generation::V5_6).then_some(v);
        energies.push(Energy {
            first_cpu: first.0,
            cpu_cap: shown(e.cpu_cap),
            task_busy: shown(e.task_busy_time),
            pd_busy: shown(e.pd_busy_time),
            base: eas.compute_energy(pd, task, None),
            with: cpus.iter().map(|&c| (c.0, eas.compute_energy(pd, task, Some(c)))).collect(),
        });
    }
    energies
}
