//! Vectors of the frequency side: effective utilisation, frequency tables, schedutil, ondemand and conservative.

use super::{Csv, Kind, Row, Tally, VectorError, VectorFile, json_line};
use serde::Deserialize;
use wattif_model::ids::CpuId;
use wattif_sim::cpufreq::conservative::{self, Conservative};
use wattif_sim::cpufreq::cpufreq_governor::{self, Dbs, DbsTunables};
use wattif_sim::cpufreq::freq_table::{ENTRY_INVALID, FreqEntry, FreqTable, Relation};
use wattif_sim::cpufreq::ondemand::{self, Ondemand};
use wattif_sim::cpufreq::schedutil::{Generation, Schedutil, Tunables};
use wattif_sim::cpufreq::{CpuSignals, CpufreqPolicy, FreqGovernor, FreqView, UpdateFlags};
use wattif_sim::sched::placement::cpu_util::{
    Boost, Effective, TaskSignals, UtilType, cpu_bw_dl, effective_cpu_util, effective_cpu_util_6_1,
    sugov_effective_cpu_perf,
};

/// `effective_util_*`.
pub const EFFECTIVE_UTIL: Kind =
    Kind { name: "effective_util", stem: "effective_util_", kernels: &["6.1", "6.12"], check: effective_util };
/// `freq_table`.
pub const FREQ_TABLE: Kind = Kind { name: "freq_table", stem: "freq_table", kernels: &[], check: freq_table };
/// `schedutil_*`.
pub const SCHEDUTIL: Kind =
    Kind { name: "schedutil", stem: "schedutil_", kernels: &["4.9", "6.1", "6.12", "6.12_noboost"], check: schedutil };
/// `dbs_governors_*`.
pub const DBS_GOVERNORS: Kind =
    Kind { name: "dbs_governors", stem: "dbs_governors_", kernels: &["6.12"], check: dbs_governors };

/// The era and the boost of the utilisation that the kernel of a file's name stands for: `6.12_noboost` is 6.12 with
/// another tunable.
pub(super) fn era_of(kernel: &str) -> (&str, Boost) {
    (kernel.strip_suffix("_noboost").unwrap_or(kernel), if kernel == "6.12" { Boost::H2 } else { Boost::Off })
}

/// Capacities, utilisations and clamps are at most this in a vector file; beyond it the arithmetic might overflow.
pub(super) const SIGNAL_MAX: u64 = 1 << 20;

/// Rejects signals no kernel could have.
pub(super) fn plausible(line: usize, s: CpuSignals) -> Result<CpuSignals, VectorError> {
    let all = [s.util_avg, s.util_est, s.runnable_avg, s.util_rt, s.util_dl, s.util_irq, s.uclamp_min, s.uclamp_max];
    let ok = all.iter().all(|&v| v <= SIGNAL_MAX) && s.bw_dl <= SIGNAL_MAX && (1..=1 << 16).contains(&s.capacity);
    if ok { Ok(s) } else { Err(format!("line {line}: a signal is out of range")) }
}

fn effective_util(file: &VectorFile, kernel: &str) -> Result<Tally, VectorError> {
    let mut tally = Tally::default();
    let old = kernel == "6.1";
    Csv::new(&file.text)?.for_each(|row| {
        let cpu = plausible(row.line, signals_of(row)?)?;
        let cfs: u64 = row.num("util_cfs_arg")?;
        if cfs > SIGNAL_MAX {
            return Err(format!("line {}: a signal is out of range", row.line));
        }
        if old {
            effective_util_6_1(row, &cpu, cfs, &mut tally)
        } else {
            effective_util_6_12(row, &cpu, cfs, &mut tally)
        }
    })?;
    Ok(tally)
}

fn signals_of(row: &Row<'_, '_>) -> Result<CpuSignals, VectorError> {
    Ok(CpuSignals {
        util_rt: row.num("rt")?,
        util_dl: row.num("dl")?,
        bw_dl: cpu_bw_dl(row.num("dl_running_bw")?),
        util_irq: row.num("irq")?,
        rt_nr_running: row.num("rt_nr")?,
        uclamp_min: row.num("uc_min")?,
        uclamp_max: row.num("uc_max")?,
        uclamp_used: row.num::<u8>("uclamp_used")? != 0,
        capacity: row.num("cap")?,
        ..CpuSignals::default()
    })
}

fn effective_util_6_12(row: &Row<'_, '_>, cpu: &CpuSignals, cfs: u64, tally: &mut Tally) -> Result<(), VectorError> {
    let got = effective_cpu_util(cpu, cfs);
    let perf = sugov_effective_cpu_perf(row.num("perf_actual_in")?, got.min, got.max);
    let expected = Effective { util: row.num("out_util")?, min: row.num("out_min")?, max: row.num("out_max")? };
    tally.compare(row.line, row.inputs(), (expected, row.num("perf_out")?), (got, perf));
    Ok(())
}

fn effective_util_6_1(row: &Row<'_, '_>, cpu: &CpuSignals, cfs: u64, tally: &mut Tally) -> Result<(), VectorError> {
    let cpu = CpuSignals { uclamp_idle: row.num::<u32>("uc_idle")? & 1 != 0, ..*cpu };
    let task =
        TaskSignals { uclamp_min: row.num("p_uc_min")?, uclamp_max: row.num("p_uc_max")?, ..TaskSignals::default() };
    let task = (row.num::<u8>("p_present")? != 0).then_some(&task);
    let got = [UtilType::Frequency, UtilType::Energy].map(|ty| effective_cpu_util_6_1(&cpu, cfs, ty, task));
    tally.compare(row.line, row.inputs(), [row.num("out_frequency_util")?, row.num("out_energy_util")?], got);
    Ok(())
}

fn freq_table(file: &VectorFile, _: &str) -> Result<Tally, VectorError> {
    let mut tally = Tally::default();
    Csv::new(&file.text)?.for_each(|row| {
        let bad = || format!("line {}: the table is malformed or has no valid entry", row.line);
        let entries: Option<Vec<FreqEntry>> = row.text("table_khz:flag")?.split(';').map(entry).collect();
        let entries = entries.filter(|e| e.iter().any(|e| e.khz != ENTRY_INVALID)).ok_or_else(bad)?;
        let table = FreqTable::new(&entries, row.num::<u8>("efficiencies_available")? != 0);
        let (target, min, max) = (row.num("target")?, row.num("min")?, row.num("max")?);
        let at = |relation| table.index(target, min, max, relation);
        let got = [Relation::L, Relation::H, Relation::C, Relation::LE].map(at);
        let expected = [row.num("idx_L")?, row.num("idx_H")?, row.num("idx_C")?, row.num("idx_LE")?];
        let policy = CpufreqPolicy { min, max, table: table.clone(), ..CpufreqPolicy::default() };
        let resolved = policy.resolve_freq(target);
        tally.compare(row.line, row.inputs(), (expected, row.num("resolved_LE_khz")?), (got, resolved));
        Ok(())
    })?;
    Ok(tally)
}

fn entry(text: &str) -> Option<FreqEntry> {
    let (khz, flags) = text.split_once(':')?;
    Some(FreqEntry { khz: khz.parse().ok()?, inefficient: flags.parse::<u32>().ok()? & 2 != 0 })
}

/// The line that begins a sequence of calls.
#[derive(Deserialize)]
struct SugovStart {
    seq: u64,
    config: SugovConfig,
}

#[derive(Deserialize)]
struct SugovConfig {
    ncpu: u32,
    cap: u64,
    hz: u64,
    uclamp_used: u8,
    freq_invariant: u8,
    freq_ref: u32,
    rate_limit_us: u64,
    cur: u32,
    min: u32,
    max: u32,
    cpuinfo_max: u32,
    efficiencies: u8,
    table: Vec<(u32, u32)>,
}

#[derive(Deserialize)]
struct SugovCall {
    seq: u64,
    time: u64,
    cpu: u32,
    iowait: u8,
    limits_changed: u8,
    min: u32,
    max: u32,
    idle_calls: u64,
    rqs: Vec<[u64; 11]>,
    #[serde(flatten)]
    expected: SugovState,
}

/// What the governor decided, and its state after that.
#[derive(Debug, PartialEq, Deserialize)]
struct SugovState {
    switched_khz: u32,
    next_freq: u32,
    cached_raw: u32,
    last_freq_update: u64,
    need_freq_update: u8,
    sg: Vec<[u64; 5]>,
}

impl SugovState {
    fn of(g: &Schedutil, switched: Option<u32>) -> SugovState {
        let cpu = |c: &wattif_sim::cpufreq::schedutil::SugovCpu| {
            [c.util, c.bw_min, c.iowait_boost, c.iowait_boost_pending.into(), c.last_update]
        };
        SugovState {
            switched_khz: switched.unwrap_or(0),
            next_freq: g.next_freq(),
            cached_raw: g.cached_raw_freq(),
            last_freq_update: g.last_freq_update_time(),
            need_freq_update: g.need_freq_update().into(),
            sg: g.cpus().iter().map(cpu).collect(),
        }
    }
}

/// The CPUs of the domain as a line shows them.
struct Seen {
    signals: Vec<CpuSignals>,
    idle_calls: u64,
    idle_time_us: Vec<u64>,
}

impl FreqView for Seen {
    fn signals(&self, cpu: CpuId) -> CpuSignals {
        self.signals[cpu.at()]
    }
    fn idle_calls(&self, _: CpuId) -> u64 {
        self.idle_calls
    }
    fn idle_time_us(&self, cpu: CpuId) -> u64 {
        self.idle_time_us[cpu.at()]
    }
}

struct Sequence {
    seq: u64,
    config: SugovConfig,
    governor: Schedutil,
}

fn schedutil(file: &VectorFile, kernel: &str) -> Result<Tally, VectorError> {
    let (era, boost) = era_of(kernel);
    let generation = Generation::parse(era).expect("a generation of the kind");
    let mut tally = Tally::default();
    let mut current: Option<Sequence> = None;
    for (i, text) in file.text.lines().enumerate().filter(|(_, t)| !t.is_empty()) {
        let line = i + 1;
        if text.contains("\"config\":") {
            let SugovStart { seq, config } = json_line(line, text)?;
            let rate_limit_us = Some(config.rate_limit_us);
            let tunables = Tunables { generation, rate_limit_us, boost, ..Tunables::default() };
            current = Some(Sequence { seq, governor: start_sugov(line, &config, tunables)?, config });
            continue;
        }
        let call: SugovCall = json_line(line, text)?;
        let sequence = current.as_mut().filter(|s| s.seq == call.seq);
        let sequence = sequence.ok_or_else(|| format!("line {line}: its sequence has not begun"))?;
        let got = sequence.call(line, &call)?;
        tally.compare(line, text, call.expected, got);
    }
    Ok(tally)
}

fn start_sugov(line: usize, c: &SugovConfig, tunables: Tunables) -> Result<Schedutil, VectorError> {
    let usable = (1..=64).contains(&c.ncpu) && c.hz > 0 && c.rate_limit_us < 1 << 40 && c.cur < 1 << 31;
    let valid = || c.table.iter().map(|e| e.0).filter(|&khz| khz != ENTRY_INVALID);
    if !usable || valid().count() == 0 || valid().any(|khz| khz >= 1 << 31) {
        return Err(format!("line {line}: the configuration makes no sense"));
    }
    let entries: Vec<_> = c.table.iter().map(|&(khz, flag)| FreqEntry { khz, inefficient: flag != 0 }).collect();
    let policy = CpufreqPolicy {
        cpus: (0..c.ncpu).map(CpuId).collect(),
        table: FreqTable::new(&entries, c.efficiencies != 0),
        min: c.min,
        max: c.max,
        cpuinfo_max: c.cpuinfo_max,
        cur: c.cur,
        freq_ref: c.freq_ref,
        freq_invariant: c.freq_invariant != 0,
        tick_ns: 1_000_000_000 / c.hz,
        ..CpufreqPolicy::default()
    };
    let mut governor = Schedutil::new(tunables);
    let nobody = Seen { signals: Vec::new(), idle_calls: 0, idle_time_us: Vec::new() };
    governor.start(policy, 0, &nobody);
    Ok(governor)
}

impl Sequence {
    fn call(&mut self, line: usize, call: &SugovCall) -> Result<SugovState, VectorError> {
        let ncpu = self.config.ncpu as usize;
        if call.rqs.len() != ncpu || call.cpu as usize >= ncpu {
            return Err(format!("line {line}: the sequence has {ncpu} CPUs"));
        }
        if call.limits_changed != 0 {
            self.governor.limits(call.min, call.max);
        }
        let signals: Result<Vec<_>, _> = call.rqs.iter().map(|rq| plausible(line, self.signals(rq))).collect();
        let view = Seen { signals: signals?, idle_calls: call.idle_calls, idle_time_us: Vec::new() };
        let flags = UpdateFlags { iowait: call.iowait != 0, deadline: false };
        let switched = self.governor.update_util(call.time, CpuId(call.cpu), flags, &view);
        Ok(SugovState::of(&self.governor, switched))
    }

    fn signals(&self, rq: &[u64; 11]) -> CpuSignals {
        let &[util_avg, util_est, runnable_avg, util_rt, util_dl, running_bw, util_irq, rt_nr, min, max, flags] = rq;
        CpuSignals {
            util_avg,
            util_est,
            runnable_avg,
            util_rt,
            util_dl,
            bw_dl: cpu_bw_dl(running_bw),
            util_irq,
            rt_nr_running: rt_nr as u32,
            uclamp_min: min,
            uclamp_max: max,
            uclamp_used: self.config.uclamp_used != 0,
            uclamp_idle: flags & 1 != 0,
            capacity: self.config.cap,
            ..CpuSignals::default()
        }
    }
}

/// The frequency tables that `dbs_governors_*` refers to by number, MHz.
const DBS_TABLES: [&[u32]; 3] = [
    &[500, 800, 1000, 1200, 1400, 1600, 1900],
    &[600, 900, 1200, 1300, 1500, 1800, 2100, 2450],
    &[800, 1200, 1600, 2000, 2400, 2840],
];

enum Sampler {
    Ondemand(Ondemand),
    Conservative(Conservative),
}

impl Sampler {
    fn new(row: &Row<'_, '_>) -> Result<Sampler, VectorError> {
        let dbs = DbsTunables {
            generation: cpufreq_governor::Generation::V6_12,
            sampling_rate_us: Some(row.num("sampling_rate_us")?),
            up_threshold: row.num("up_threshold")?,
            sampling_down_factor: row.num("sampling_down_factor")?,
        };
        match row.text("gov")? {
            "ondemand" => Ok(Sampler::Ondemand(Ondemand::new(ondemand::Tunables { dbs }))),
            "conservative" => Ok(Sampler::Conservative(Conservative::new(conservative::Tunables {
                dbs,
                down_threshold: row.num("down_threshold")?,
                freq_step_pct: row.num("freq_step_pct")?,
            }))),
            other => Err(format!("line {}: the governor `{other}` does not sample", row.line)),
        }
    }
    fn governor(&mut self) -> &mut dyn FreqGovernor {
        match self {
            Sampler::Ondemand(g) => g,
            Sampler::Conservative(g) => g,
        }
    }
    fn dbs(&self) -> &Dbs {
        match self {
            Sampler::Ondemand(g) => g.dbs(),
            Sampler::Conservative(g) => g.dbs(),
        }
    }
    /// `rate_mult_or_down_skip` and, where there is one, `requested_freq`.
    fn state(&self) -> (u32, Option<u32>) {
        match self {
            Sampler::Ondemand(g) => (g.dbs().rate_mult, None),
            Sampler::Conservative(g) => (g.down_skip(), Some(g.requested_freq())),
        }
    }
}

fn dbs_governors(file: &VectorFile, _: &str) -> Result<Tally, VectorError> {
    let mut tally = Tally::default();
    let mut sampler: Option<Sampler> = None;
    Csv::new(&file.text)?.for_each(|row| {
        let idle: Result<Vec<u64>, _> = row.text("idle_us")?.split(';').map(str::parse).collect();
        let idle_time_us = idle.map_err(|e| format!("line {}: idle_us: {e}", row.line))?;
        let view = Seen { signals: Vec::new(), idle_calls: 0, idle_time_us };
        let wall_us: u64 = row.num("wall_us")?;
        let ns = wall_us.checked_mul(1000).ok_or_else(|| format!("line {}: too late", row.line))?;
        if row.num::<i64>("step")? == -1 {
            let mut new = Sampler::new(row)?;
            new.governor().start(dbs_policy(row, view.idle_time_us.len())?, ns, &view);
            sampler = Some(new);
            return Ok(());
        }
        let s = sampler.as_mut().ok_or_else(|| format!("line {}: its sequence has not begun", row.line))?;
        if s.dbs().prev_loads().count() != view.idle_time_us.len() {
            return Err(format!("line {}: other CPUs than at the start", row.line));
        }
        sample(row, s, ns, &view, &mut tally)
    })?;
    Ok(tally)
}

fn dbs_policy(row: &Row<'_, '_>, seen: usize) -> Result<CpufreqPolicy, VectorError> {
    let table = DBS_TABLES.get(row.num::<usize>("table")?).ok_or_else(|| format!("line {}: which table?", row.line))?;
    let ncpu: u32 = row.num("ncpu")?;
    if ncpu as usize != seen || ncpu == 0 {
        return Err(format!("line {}: idle times of {seen} CPUs, not of {ncpu}", row.line));
    }
    let entries: Vec<_> = table.iter().map(|mhz| FreqEntry { khz: mhz * 1000, inefficient: false }).collect();
    let table = FreqTable::new(&entries, false);
    Ok(CpufreqPolicy {
        cpus: (0..ncpu).map(CpuId).collect(),
        min: row.num("min")?,
        max: row.num("max")?,
        cpuinfo_min: table.lowest(),
        cpuinfo_max: table.highest(),
        cur: row.num("cur_after")?,
        table,
        tick_ns: 4_000_000,
        ..CpufreqPolicy::default()
    })
}

fn sample(row: &Row<'_, '_>, s: &mut Sampler, ns: u64, view: &Seen, tally: &mut Tally) -> Result<(), VectorError> {
    let (min, max) = (row.num("min")?, row.num("max")?);
    let policy = s.governor().policy();
    if (policy.min, policy.max) != (min, max) {
        s.governor().limits(min, max);
    }
    let before = s.governor().policy().cur;
    s.governor().sample(ns, view);
    let loads = s.dbs().prev_loads().map(|l| l.to_string()).collect::<Vec<_>>().join(";");
    let (count, requested) = s.state();
    let wish: u32 = row.num("requested_freq")?;
    let dbs = s.dbs();
    let state = (dbs.idle_periods, dbs.max_sample_load, count, requested.unwrap_or(wish));
    let got = (before, dbs.policy.cur, loads, state);
    let expected = (
        row.num("cur_before")?,
        row.num("cur_after")?,
        row.text("load_prev_load_per_cpu")?.to_string(),
        (row.num("idle_periods")?, row.num("max_sample_load")?, row.num("rate_mult_or_down_skip")?, wish),
    );
    tally.compare(row.line, row.inputs(), expected, got);
    Ok(())
}
