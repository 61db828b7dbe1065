//! Vectors of the fair classes: weights, static sets of entities, and scripted runs of the whole class.

use super::pelt::at_most;
use super::{Csv, Kind, Row, Tally, VectorError, VectorFile, json_line};
use serde::Deserialize;
use std::collections::BTreeMap;
use wattif_model::workload::Policy;
use wattif_model::{CpuId, Pid};
use wattif_sim::sched::Sched;
use wattif_sim::sched::class::cfs::Cfs;
use wattif_sim::sched::class::eevdf::{self, Eevdf};
use wattif_sim::sched::class::fair::{self, Fair};
use wattif_sim::sched::class::timeline::Node;
use wattif_sim::sched::class::weight::{
    SCHED_PRIO_TO_WEIGHT, SCHED_PRIO_TO_WMULT, WEIGHT_IDLEPRIO, WMULT_IDLEPRIO, calc_delta, calc_delta_fair,
    load_weight,
};
use wattif_sim::sched::class::{Dequeue, Enqueue, SchedClass};
use wattif_sim::sched::load::pelt::{self, PostInit};
use wattif_sim::sched::load::util_est::Generation;
use wattif_sim::sched::task::{NONE, OnRq, SchedEntity, State, Task};

/// `prio_weights`.
pub const PRIO_WEIGHTS: Kind = Kind { name: "prio_weights", stem: "prio_weights", kernels: &[], check: prio_weights };
/// `calc_delta`.
pub const CALC_DELTA: Kind = Kind { name: "calc_delta", stem: "calc_delta", kernels: &[], check: calc_deltas };
/// `cfs_unit_*`.
pub const CFS_UNIT: Kind = Kind { name: "cfs_unit", stem: "cfs_unit_", kernels: &["6.1"], check: cfs_unit };
/// `eevdf_unit_*`.
pub const EEVDF_UNIT: Kind = Kind { name: "eevdf_unit", stem: "eevdf_unit_", kernels: &["6.12"], check: eevdf_unit };
/// `fair_*`, with `fair_*_seqs` beside it.
pub const FAIR: Kind = Kind { name: "fair", stem: "fair_", kernels: &["6.1", "6.12"], check: fair_scripts };

/// Times in vector files are less than this, ns.
const MAX_TIME: u64 = 1 << 60;
/// Weights are at most this.
const MAX_WEIGHT: u64 = 1 << 20;

fn prio_weights(file: &VectorFile, _: &str) -> Result<Tally, VectorError> {
    let mut tally = Tally::default();
    Csv::new(&file.text)?.for_each(|row| {
        let got = match row.text("nice")? {
            "idle" => (WEIGHT_IDLEPRIO, WMULT_IDLEPRIO),
            _ => {
                let at = row.num::<i8>("nice")?.wrapping_add(20) as usize;
                let weight = SCHED_PRIO_TO_WEIGHT.get(at).ok_or_else(|| format!("line {}: nice", row.line))?;
                (*weight, SCHED_PRIO_TO_WMULT[at])
            }
        };
        tally.compare(row.line, row.inputs(), (row.num::<u32>("weight")?, row.num::<u32>("wmult")?), got);
        Ok(())
    })?;
    Ok(tally)
}

fn calc_deltas(file: &VectorFile, _: &str) -> Result<Tally, VectorError> {
    let mut tally = Tally::default();
    Csv::new(&file.text)?.for_each(|row| {
        let se =
            SchedEntity { weight: row.num("weight")?, inv_weight: row.num("inv_weight_in")?, ..SchedEntity::default() };
        let delta = at_most(row, "delta_ns", MAX_TIME)?;
        let generic = calc_delta(delta, at_most(row, "other_weight", 1 << 40)?, row.num("lw_weight")?, 0);
        let want = (row.num::<u64>("calc_delta_fair")?, row.num::<u64>("calc_delta")?);
        tally.compare(row.line, row.inputs(), want, (calc_delta_fair(delta, &se), generic));
        Ok(())
    })?;
    Ok(tally)
}

/// The inverse of a weight as tasks carry it: from the table where it is there, computed otherwise.
fn inv_weight(w: u64) -> u32 {
    if w == u64::from(WEIGHT_IDLEPRIO) {
        return WMULT_IDLEPRIO;
    }
    SCHED_PRIO_TO_WEIGHT.iter().position(|&t| u64::from(t) == w).map_or(0, |at| SCHED_PRIO_TO_WMULT[at])
}

/// Adds a task with its entity, of nice 0.
fn add_task(s: &mut Sched) -> Pid {
    let pid = Pid(s.tasks.len() as u32);
    s.tasks.push(Task { pid, prio: 120, normal_prio: 120, ..Task::default() });
    s.se.push(SchedEntity::default());
    fair::init_task(s, pid);
    pid
}

/// Adds a queued entity with a weight to the root queue; not to its tree.
fn add_entity(s: &mut Sched, w: u64, vruntime: u64, idle: bool) -> usize {
    let pid = add_task(s);
    let i = s.se_of(pid);
    s.se[i] =
        SchedEntity { weight: w << 10, inv_weight: inv_weight(w), vruntime, idle, on_rq: true, ..s.se[i].clone() };
    let cfs = &mut s.cfs[0];
    cfs.load_weight += w << 10;
    cfs.nr_queued += 1;
    cfs.h_nr_running += 1;
    cfs.idle_nr_running += u32::from(idle);
    i
}

#[derive(Deserialize)]
struct CfsCase {
    case: u64,
    factor: u64,
    min_vruntime: u64,
    ents: Vec<CfsEnt>,
    slice: Vec<u64>,
    vslice: Vec<u64>,
    next: i64,
    last: i64,
    skip: i64,
    pick: i64,
    wpe_vs_curr: Vec<i32>,
    delta_exec: u64,
    tick_resched: u8,
    place: CfsPlace,
}

#[derive(Deserialize)]
struct CfsEnt {
    w: u64,
    vr: u64,
    idle: u8,
}

#[derive(Deserialize)]
struct CfsPlace {
    w: u64,
    idle: u8,
    vruntime_in: u64,
    exec_start: u64,
    rq_clock_task: u64,
    initial: u8,
    vruntime_out: u64,
}

fn cfs_unit(file: &VectorFile, _: &str) -> Result<Tally, VectorError> {
    let mut tally = Tally::default();
    for (at, text) in file.text.lines().enumerate() {
        let case: CfsCase = json_line(at + 1, text)?;
        let weights = case.ents.iter().map(|e| e.w).chain([case.place.w]);
        if weights.into_iter().any(|w| w == 0 || w > MAX_WEIGHT) || case.ents.is_empty() || case.factor > 1000 {
            return Err(format!("line {}: case {} is no kernel's", at + 1, case.case));
        }
        let want = (
            (case.slice.clone(), case.vslice.clone(), case.pick),
            (case.wpe_vs_curr.clone(), case.tick_resched, case.place.vruntime_out),
        );
        tally.compare(at + 1, format!("case {}", case.case), want, run_cfs_case(&case));
    }
    Ok(tally)
}

type CfsResults = ((Vec<u64>, Vec<u64>, i64), (Vec<i32>, u8, u64));

fn run_cfs_case(case: &CfsCase) -> CfsResults {
    let class = Cfs::scaled(case.factor);
    let mut s = Sched::bare(1, 4_000_000);
    let ents: Vec<usize> = case.ents.iter().map(|e| add_entity(&mut s, e.w, e.vr, e.idle != 0)).collect();
    for &i in &ents[1..] {
        let key = s.se[i].vruntime;
        s.cfs[0].tree.insert(Node { key, vruntime: key, se: i });
    }
    let buddy = |b: i64| usize::try_from(b).ok().and_then(|b| ents.get(b)).copied().unwrap_or(NONE);
    let cfs = &mut s.cfs[0];
    (cfs.curr, cfs.min_vruntime) = (ents[0], case.min_vruntime);
    (cfs.next, cfs.last, cfs.skip) = (buddy(case.next), buddy(case.last), buddy(case.skip));
    let slices = ents.iter().map(|&i| class.sched_slice(&s, 0, i)).collect();
    let vslices = ents.iter().map(|&i| class.sched_vslice(&s, 0, i)).collect();
    let picked = class.pick_next_entity(&s, 0, ents[0]);
    let pick = ents.iter().position(|&i| i == picked).map_or(-1, |i| i as i64);
    let wpe = ents.iter().map(|&i| class.wakeup_preempt_entity(&s.se[ents[0]], &s.se[i])).collect();
    s.se[ents[0]].sum_exec_runtime = case.delta_exec;
    class.entity_ticked(&mut s, 0, ents[0]);
    let resched = u8::from(s.rqs[0].need_resched);

    let p = &case.place;
    let pid = add_task(&mut s);
    let i = s.se_of(pid);
    s.se[i] = SchedEntity {
        weight: p.w << 10,
        // It came without an inverse, as a group's entity does.
        inv_weight: 0,
        idle: p.idle != 0,
        vruntime: p.vruntime_in,
        exec_start: p.exec_start,
        ..s.se[i].clone()
    };
    s.rqs[0].clock_task = p.rq_clock_task;
    class.place_entity(&mut s, 0, i, p.initial != 0);
    ((slices, vslices, pick), (wpe, resched, s.se[i].vruntime))
}

#[derive(Deserialize)]
struct EevdfCase {
    case: u64,
    base_slice: u64,
    zero_vruntime: u64,
    ents: Vec<EevdfEnt>,
    eligible: Vec<u8>,
    pick: i64,
    #[serde(rename = "V")]
    v: u64,
    sum_wkey_after: i64,
    sum_w: u64,
    lag: Vec<i64>,
    place: EevdfPlace,
    reweight: EevdfReweight,
}

#[derive(Deserialize)]
struct EevdfEnt {
    w: u64,
    vr: u64,
    dl: u64,
    slice: u64,
    curr: u8,
    protect: u8,
}

#[derive(Deserialize)]
struct EevdfPlace {
    w: u64,
    vlag: i64,
    custom_slice: u64,
    rel_deadline: u8,
    rel_value: i64,
    initial: u8,
    vruntime: u64,
    deadline: u64,
    slice: u64,
}

#[derive(Deserialize)]
struct EevdfReweight {
    ent: usize,
    new_w: u64,
    vruntime: u64,
    deadline: u64,
}

fn eevdf_unit(file: &VectorFile, _: &str) -> Result<Tally, VectorError> {
    let mut tally = Tally::default();
    for (at, text) in file.text.lines().enumerate() {
        let case: EevdfCase = json_line(at + 1, text)?;
        let weights = case.ents.iter().map(|e| e.w).chain([case.place.w, case.reweight.new_w]);
        let times = case.ents.iter().map(|e| e.slice).chain([case.base_slice, case.place.custom_slice]);
        let bad_weight = weights.into_iter().any(|w| w == 0 || w > MAX_WEIGHT);
        let bad_time = times.into_iter().any(|t| t == 0 && case.base_slice == 0 || t > MAX_TIME);
        if bad_weight || bad_time || case.ents.is_empty() || case.reweight.ent >= case.ents.len() {
            return Err(format!("line {}: case {} is no kernel's", at + 1, case.case));
        }
        let (place, reweight) = (&case.place, &case.reweight);
        let want = (
            (case.eligible.clone(), case.pick, case.v, case.sum_wkey_after, case.sum_w, case.lag.clone()),
            (place.vruntime, place.deadline, place.slice),
            (reweight.vruntime, reweight.deadline),
        );
        tally.compare(at + 1, format!("case {}", case.case), want, run_eevdf_case(&case));
    }
    Ok(tally)
}

type EevdfResults = ((Vec<u8>, i64, u64, i64, u64, Vec<i64>), (u64, u64, u64), (u64, u64));

fn run_eevdf_case(case: &EevdfCase) -> EevdfResults {
    let class = Eevdf { base_slice_ns: case.base_slice, ..Eevdf::new(0, 1) };
    let mut s = Sched::bare(1, 4_000_000);
    s.cfs[0].zero_vruntime = case.zero_vruntime;
    let mut ents = Vec::new();
    for e in &case.ents {
        let i = add_entity(&mut s, e.w, e.vr, false);
        // These entities came without an inverse.
        (s.se[i].deadline, s.se[i].slice, s.se[i].inv_weight) = (e.dl, e.slice, 0);
        if e.curr != 0 {
            s.cfs[0].curr = i;
            s.se[i].vlag = e.dl.wrapping_add(u64::from(e.protect == 0)) as i64;
        } else {
            class.tree_insert(&mut s, 0, i);
        }
        ents.push(i);
    }
    let eligible = ents.iter().map(|&i| u8::from(eevdf::entity_eligible(&s, 0, i))).collect();
    let picked = class.pick_eevdf(&s, 0);
    let pick = ents.iter().position(|&i| i == picked).map_or(-1, |i| i as i64);
    let v = eevdf::avg_vruntime(&mut s, 0);
    let (wkey, w) = (s.cfs[0].sum_wkey, s.cfs[0].sum_w);
    let lag = ents.iter().map(|&i| class.entity_lag(&s, v, i)).collect();

    let p = &case.place;
    let pid = add_task(&mut s);
    let i = s.se_of(pid);
    let se = &mut s.se[i];
    // The joining entity came without an inverse, as a group's does.
    (se.weight, se.inv_weight, se.vlag) = (p.w << 10, 0, p.vlag);
    (se.slice, se.custom_slice) = (p.custom_slice, p.custom_slice != 0);
    (se.rel_deadline, se.deadline) = (p.rel_deadline != 0, p.rel_value as u64);
    class.place_entity(&mut s, 0, i, p.initial != 0);
    let placed = (s.se[i].vruntime, s.se[i].deadline, s.se[i].slice);

    let i = ents[case.reweight.ent];
    class.reweight_eevdf(&mut s, i, v, case.reweight.new_w << 10);
    ((eligible, pick, v, wkey, w, lag), placed, (s.se[i].vruntime, s.se[i].deadline))
}

// ---- scripts -------------------------------------------------------------------------------------------------------

#[derive(Deserialize)]
struct Seq {
    seq: u64,
    ncpu: usize,
    granularity_factor: u64,
    start_ns: u64,
    cpu_cap: Vec<u32>,
    tasks: Vec<SeqTask>,
}

#[derive(Deserialize)]
struct SeqTask {
    nice: i8,
    policy: u8,
    custom_slice_ns: u64,
}

/// A machine in the middle of a script, and the class that schedules it.
struct Script {
    s: Sched,
    class: Box<dyn SchedClass>,
    /// The kernel is one with EEVDF: other columns are meaningful.
    eevdf: bool,
}

fn fair_scripts(file: &VectorFile, kernel: &str) -> Result<Tally, VectorError> {
    let seqs = file.companions.get(&format!("{}_seqs", file.stem));
    let seqs = read_seqs(seqs.ok_or_else(|| format!("`{}_seqs.jsonl` is not beside the file", file.stem))?)?;
    let (mut tally, mut script, mut running) = (Tally::default(), None, None);
    Csv::new(&file.text)?.for_each(|row| {
        let seq: u64 = row.num("seq")?;
        if running != Some(seq) {
            let start = seqs.get(&seq).ok_or_else(|| format!("line {}: no sequence {seq}", row.line))?;
            script = Some(Script::new(start, kernel)?);
            running = Some(seq);
        }
        let script = script.as_mut().expect("it was just made");
        let note = script.step(row)?;
        let differs = script.differences(row, note)?;
        tally.row(differs.is_empty(), || format!("line {}: {}: {}", row.line, row.inputs(), differs.join(", ")));
        Ok(())
    })?;
    Ok(tally)
}

fn read_seqs(text: &str) -> Result<BTreeMap<u64, Seq>, VectorError> {
    let mut seqs = BTreeMap::new();
    for (at, line) in text.lines().enumerate() {
        let seq: Seq = json_line(at + 1, line).map_err(|e| format!("sequences, {e}"))?;
        let tasks_ok = seq.tasks.iter().all(|t| (-20..20).contains(&t.nice) && t.custom_slice_ns < MAX_TIME);
        let ok = (1..=64).contains(&seq.ncpu) && seq.cpu_cap.len() == seq.ncpu && seq.tasks.len() <= 1024;
        if !ok || !tasks_ok || seq.granularity_factor > 1000 || seq.start_ns > MAX_TIME {
            return Err(format!("sequences, line {}: out of range", at + 1));
        }
        seqs.insert(seq.seq, seq);
    }
    Ok(seqs)
}

impl Script {
    fn new(seq: &Seq, kernel: &str) -> Result<Script, VectorError> {
        // The vectors were made with a compile-time tick of 4 ms, whatever ticks the script emits.
        let mut s = Sched::bare(seq.ncpu, 4_000_000);
        let eevdf = kernel != "6.1";
        let class: Box<dyn SchedClass> = match eevdf {
            false => Box::new(Cfs::scaled(seq.granularity_factor)),
            true => Box::new(Eevdf { base_slice_ns: 700_000 * seq.granularity_factor, ..Eevdf::new(0, 1) }),
        };
        s.util_est = Generation::by_name(kernel).expect("of every kernel with a fair class");
        for (rq, &cap) in s.rqs.iter_mut().zip(&seq.cpu_cap) {
            rq.cpu_capacity_orig = cap.clamp(1, 1024);
            (rq.clock, rq.clock_task, rq.clock_pelt) = (seq.start_ns, seq.start_ns, seq.start_ns);
            (rq.clock_idle, rq.clock_pelt_idle) = (seq.start_ns, seq.start_ns);
            rq.pelt.post_init = if eevdf { PostInit::V6_12 } else { PostInit::V6_1 };
        }
        for t in &seq.tasks {
            let pid = add_task(&mut s);
            let task = &mut s.tasks[pid.at()];
            task.nice = t.nice;
            task.policy = [Policy::Normal, Policy::Batch, Policy::Idle][match t.policy {
                3 => 1,
                5 => 2,
                _ => 0,
            }];
            task.prio = (120 + i32::from(t.nice)) as u8;
            let i = s.se_of(pid);
            if t.custom_slice_ns != 0 {
                (s.se[i].slice, s.se[i].custom_slice) = (t.custom_slice_ns, true);
            }
            fair::init_task(&mut s, pid);
            debug_assert_eq!(s.se[i].weight, load_weight(t.nice, t.policy == 5).0);
        }
        Ok(Script { s, class, eevdf })
    }

    /// The row's task, if it has one.
    fn subject(&self, row: &Row<'_, '_>) -> Result<Option<Pid>, VectorError> {
        match row.num::<i64>("task")? {
            -1 => Ok(None),
            t if t >= 0 && (t as usize) + 1 < self.s.tasks.len() => Ok(Some(Pid(t as u32 + 1))),
            t => Err(format!("line {}: task {t}", row.line)),
        }
    }

    fn cpu(&self, row: &Row<'_, '_>, column: &str) -> Result<CpuId, VectorError> {
        let cpu: u32 = row.num(column)?;
        if cpu as usize >= self.s.rqs.len() {
            return Err(format!("line {}: {column} {cpu} is no CPU", row.line));
        }
        Ok(CpuId(cpu))
    }

    /// Does what a row says. Returns what the kernel answered differently, for operations with an answer.
    fn step(&mut self, row: &Row<'_, '_>) -> Result<Option<String>, VectorError> {
        let (op, cpu, subject) = (row.text("op")?, self.cpu(row, "cpu")?, self.subject(row)?);
        let needs_task = !matches!(op, "irq" | "freq" | "pick" | "update_blocked");
        let pid = match subject {
            None if needs_task => return Err(format!("line {}: `{op}` without a task", row.line)),
            other => other.unwrap_or_default(),
        };
        let Script { s, class, .. } = self;
        let class: &dyn SchedClass = &**class;
        s.now = at_most(row, "now_ns", MAX_TIME)?;
        if !matches!(op, "irq" | "freq" | "migrate_off") {
            pelt::update_rq_clock(&mut s.rqs[cpu.at()], s.now);
        }
        check_state(s, row, op, cpu, pid)?;
        match op {
            "irq" => s.rqs[cpu.at()].irq_pending_ns = at_most(row, "a1", MAX_TIME)?,
            "freq" => s.rqs[cpu.at()].freq_cap = at_most(row, "a1", 1024)? as u32,
            "new" => new_task(s, class, cpu, pid),
            "migrate_off" => {
                let dst = row.num::<u32>("a1")?;
                if dst as usize >= s.rqs.len() {
                    return Err(format!("line {}: no CPU {dst}", row.line));
                }
                fair::set_task_cpu(class, s, pid, CpuId(dst));
            }
            "wake" => {
                let migrated = row.num::<u32>("a1")? != cpu.0;
                enqueue(s, class, cpu, pid, Enqueue { wakeup: true, migrated, ..Enqueue::default() });
            }
            "wake_delayed" => {
                if s.se[s.se_of(pid)].sched_delayed {
                    class.enqueue_task(s, cpu, pid, Enqueue { delayed: true, ..Enqueue::default() });
                }
                s.tasks[pid.at()].state = State::Running;
                class.wakeup_preempt(s, cpu, pid, false);
            }
            "block" => return block(s, class, cpu, pid, row),
            "pick" => return pick(s, class, cpu, subject),
            "tick" => class.task_tick(s, cpu, pid),
            "renice" => fair::set_user_nice(class, s, pid, row.num::<i8>("a1")?.clamp(-20, 19)),
            "yield" => class.yield_task(s, cpu),
            "lb_detach" => {
                let dst = row.num::<u32>("a1")?;
                if dst as usize >= s.rqs.len() {
                    return Err(format!("line {}: no CPU {dst}", row.line));
                }
                fair::detach_task(class, s, pid, CpuId(dst));
            }
            "lb_attach" => {
                fair::attach_task(class, s, pid);
                class.wakeup_preempt(s, cpu, pid, false);
            }
            "update_blocked" => {
                fair::update_cfs_rq_load_avg(s, cpu.at());
            }
            other => return Err(format!("line {}: operation `{other}`", row.line)),
        }
        Ok(None)
    }

    /// The columns of a row in which we differ.
    fn differences(&self, row: &Row<'_, '_>, note: Option<String>) -> Result<Vec<String>, VectorError> {
        let mut differs: Vec<String> = note.into_iter().collect();
        let mut column = |name: &str, got: String| -> Result<(), VectorError> {
            let want = row.text(name)?;
            if want != got {
                differs.push(format!("{name}: expected {want}, got {got}"));
            }
            Ok(())
        };
        self.queue_columns(self.cpu(row, "cpu")?, &mut column)?;
        if let Some(pid) = self.subject(row)? {
            self.task_columns(pid, &mut column)?;
        }
        Ok(differs)
    }

    fn queue_columns(
        &self,
        cpu: CpuId,
        column: &mut dyn FnMut(&str, String) -> Result<(), VectorError>,
    ) -> Result<(), VectorError> {
        let (rq, cfs) = (&self.s.rqs[cpu.at()], &self.s.cfs[cpu.at()]);
        column("curr", (i64::from(rq.curr.0) - 1).to_string())?;
        column("need_resched", u8::from(rq.need_resched).to_string())?;
        column("rq_nr_running", rq.nr_running.to_string())?;
        column("cfs_load_weight", cfs.load_weight.to_string())?;
        column("cfs_nr", cfs.nr_queued.to_string())?;
        if self.eevdf {
            column("cfs_h_nr_delayed", cfs.h_nr_delayed.to_string())?;
            column("zero_vruntime", cfs.zero_vruntime.to_string())?;
            column("sum_wkey", cfs.sum_wkey.to_string())?;
            column("sum_w", cfs.sum_w.to_string())?;
        } else {
            let id = |i: usize| self.s.se.get(i).and(self.s.task_of(i)).map_or(-1, |p| i64::from(p.0) - 1);
            column("buddies_next_last_skip", format!("{}:{}:{}", id(cfs.next), id(cfs.last), id(cfs.skip)))?;
            column("min_vruntime", cfs.min_vruntime.to_string())?;
        }
        column("rq_clock", rq.clock.to_string())?;
        column("rq_clock_task", rq.clock_task.to_string())?;
        column("rq_clock_pelt", rq.rq_clock_pelt().to_string())?;
        column("lost_idle", rq.lost_idle_time.to_string())?;
        let r = &cfs.removed;
        column("c_removed", format!("{}:{}:{}:{}", r.nr, r.load_avg, r.util_avg, r.runnable_avg))?;
        self.average_columns("c", &cfs.avg, column)
    }

    fn task_columns(
        &self,
        pid: Pid,
        column: &mut dyn FnMut(&str, String) -> Result<(), VectorError>,
    ) -> Result<(), VectorError> {
        let (task, se) = (&self.s.tasks[pid.at()], &self.s.se[self.s.se_of(pid)]);
        column("t_cpu", task.cpu.to_string())?;
        let on_rq = match task.on_rq {
            OnRq::No => 0,
            OnRq::Queued => 1,
            OnRq::Migrating => 2,
        };
        column("t_on_rq", on_rq.to_string())?;
        column("se_on_rq", u8::from(se.on_rq).to_string())?;
        column("se_delayed", u8::from(se.sched_delayed).to_string())?;
        column("se_rel_deadline", u8::from(se.rel_deadline).to_string())?;
        column("se_weight", se.weight.to_string())?;
        column("vruntime", se.vruntime.to_string())?;
        column("deadline", se.deadline.to_string())?;
        column("vlag", se.vlag.to_string())?;
        column("slice", se.slice.to_string())?;
        column("exec_start", se.exec_start.to_string())?;
        column("sum_exec", se.sum_exec_runtime.to_string())?;
        self.average_columns("t", &se.avg, column)
    }

    fn average_columns(
        &self,
        prefix: &str,
        avg: &pelt::SchedAvg,
        column: &mut dyn FnMut(&str, String) -> Result<(), VectorError>,
    ) -> Result<(), VectorError> {
        column(&format!("{prefix}_lut"), avg.last_update_time.to_string())?;
        column(&format!("{prefix}_load_sum"), avg.load_sum.to_string())?;
        column(&format!("{prefix}_runnable_sum"), avg.runnable_sum.to_string())?;
        column(&format!("{prefix}_util_sum"), avg.util_sum.to_string())?;
        column(&format!("{prefix}_pc"), avg.period_contrib.to_string())?;
        column(&format!("{prefix}_load_avg"), avg.load_avg.to_string())?;
        column(&format!("{prefix}_runnable_avg"), avg.runnable_avg.to_string())?;
        column(&format!("{prefix}_util_avg"), avg.util_avg.to_string())?;
        let est = if self.eevdf { avg.util_est.to_string() } else { format!("{}:{}", avg.util_est, avg.util_est_ewma) };
        column(&format!("{prefix}_util_est"), est)
    }
}

/// Refuses an operation that makes no sense in the present state, which a kernel's script never contains.
fn check_state(s: &Sched, row: &Row<'_, '_>, op: &str, cpu: CpuId, pid: Pid) -> Result<(), VectorError> {
    let task = &s.tasks[pid.at()];
    let ok = match op {
        "new" | "wake" => task.on_rq == OnRq::No,
        "migrate_off" => task.on_rq == OnRq::No && task.state != State::New,
        "block" | "tick" | "yield" => s.rqs[cpu.at()].curr == pid && task.on_rq == OnRq::Queued,
        "renice" => task.on_rq != OnRq::Migrating && task.state != State::New && task.cpu == cpu,
        "wake_delayed" => task.on_rq == OnRq::Queued && task.cpu == cpu,
        "lb_detach" => task.on_rq == OnRq::Queued && task.cpu == cpu && s.rqs[cpu.at()].curr != pid,
        "lb_attach" => task.on_rq == OnRq::Migrating && task.cpu == cpu,
        _ => true,
    };
    if ok { Ok(()) } else { Err(format!("line {}: `{op}` in this state of the task", row.line)) }
}

fn new_task(s: &mut Sched, class: &dyn SchedClass, cpu: CpuId, pid: Pid) {
    s.tasks[pid.at()].cpu = cpu;
    fair::set_task_rq(s, pid, cpu);
    class.task_fork(s, pid);
    s.tasks[pid.at()].state = State::Running;
    class.enqueue_task(s, cpu, pid, Enqueue { initial: true, ..Enqueue::default() });
    s.tasks[pid.at()].on_rq = OnRq::Queued;
    class.wakeup_preempt(s, cpu, pid, true);
}

fn enqueue(s: &mut Sched, class: &dyn SchedClass, cpu: CpuId, pid: Pid, flags: Enqueue) {
    s.tasks[pid.at()].state = State::Running;
    class.enqueue_task(s, cpu, pid, flags);
    s.tasks[pid.at()].on_rq = OnRq::Queued;
    class.wakeup_preempt(s, cpu, pid, false);
}

fn block(
    s: &mut Sched,
    class: &dyn SchedClass,
    cpu: CpuId,
    pid: Pid,
    row: &Row<'_, '_>,
) -> Result<Option<String>, VectorError> {
    s.tasks[pid.at()].state = State::Sleeping;
    let done = class.dequeue_task(s, cpu, pid, Dequeue { sleep: true, ..Dequeue::default() });
    if done {
        s.tasks[pid.at()].on_rq = OnRq::No;
    }
    let want = row.num::<u8>("a1")?;
    Ok((want != u8::from(done)).then(|| format!("a1: expected {want}, got {}", u8::from(done))))
}

fn pick(s: &mut Sched, class: &dyn SchedClass, cpu: CpuId, want: Option<Pid>) -> Result<Option<String>, VectorError> {
    let prev = s.rqs[cpu.at()].curr;
    let next = class.pick_task(s, cpu);
    match next {
        Some(next) if prev == Pid(0) => class.set_next_task(s, cpu, next, true),
        Some(next) => class.put_prev_set_next_task(s, cpu, prev, next),
        None => {
            if prev != Pid(0) {
                class.put_prev_task(s, cpu, prev);
            }
            pelt::update_idle_rq_clock_pelt(&mut s.rqs[cpu.at()], &s.cfs[cpu.at()]);
        }
    }
    let rq = &mut s.rqs[cpu.at()];
    rq.curr = next.unwrap_or_default();
    rq.need_resched = false;
    Ok((next != want).then(|| format!("pick: expected {want:?}, got {next:?}")))
}
