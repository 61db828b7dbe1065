//! Wake-up placement: `wakeup_5.6`, `wakeup_5.6_no_sched_idle`, `wakeup_6.12`. Each row is a machine, a waker and a task;
//! the decisions of `wake_affine`, `find_idlest_cpu` and `select_idle_sibling` on it are compared with the kernel's.

use super::{Kind, Tally, VectorError, VectorFile, json_line};
use serde::Deserialize;
use wattif_model::platform::Cpu;
use wattif_model::{ClusterId, CpuId, CpuSet, DomainId, Pid};
use wattif_sim::sched::Sched;
use wattif_sim::sched::load::pelt::SchedAvg;
use wattif_sim::sched::placement::find_idlest_cpu::FindIdlestCpu;
use wattif_sim::sched::placement::select_idle_sibling::{self, Scan, SchedIdle, SelectIdleSibling};
use wattif_sim::sched::placement::wake_affine::{self, TaskLoads, WakeAffine, Waker};
use wattif_sim::sched::placement::{self, Request};
use wattif_sim::sched::rq::{CfsRq, RootDomain, Rq};
use wattif_sim::sched::task::{SchedEntity, Task};
use wattif_sim::sched::topology::{DomainParams, Group, Topology};

/// `wakeup_KERNEL`.
pub const KIND: Kind = Kind { name: "wakeup", stem: "wakeup_", kernels: &["5.6", "5.6_no_sched_idle", "6.12"], check };

/// The waker, unless its CPU is idle.
const CURRENT: Pid = Pid(1);
/// The woken task.
const TASK: Pid = Pid(2);
/// Who runs on other busy CPUs.
const OTHER: Pid = Pid(3);
/// Later than every time of a row.
const NOW_JIFFIES: u64 = 1 << 32;

fn check(file: &VectorFile, kernel: &str) -> Result<Tally, VectorError> {
    let mut tally = Tally::default();
    for (i, text) in file.text.lines().enumerate().filter(|(_, t)| !t.is_empty()) {
        let row: Row = json_line(i + 1, text)?;
        row.validate().map_err(|e| format!("line {}: {e}", i + 1))?;
        let got = Policies::of(kernel).decide(&row);
        tally.compare(i + 1, format_args!("case {}", row.case), &row.out, &got);
    }
    Ok(tally)
}

#[derive(Deserialize)]
struct Row {
    case: u64,
    ncpu: u32,
    asym: u8,
    uclamp_used: u8,
    this_cpu: CpuId,
    prev: CpuId,
    target: CpuId,
    allowed: u64,
    recent_used: CpuId,
    per_cpu_kthread_current: u8,
    task: TaskRow,
    current: CurrentRow,
    llc: Vec<LlcRow>,
    this_avg_idle: u64,
    llc_size: u32,
    hz: u64,
    cpus: Vec<CpuRow>,
    out: Out,
}

#[derive(Deserialize)]
struct TaskRow {
    util: u64,
    util_est: u32,
    uc_min: u32,
    uc_max: u32,
    h_load: u64,
    wakee_flips: u32,
}

#[derive(Deserialize)]
struct CurrentRow {
    h_load: u64,
    wakee_flips: u32,
    jiffies_since_decay: u64,
    last_wakee_is_p: u8,
}

#[derive(Deserialize)]
struct LlcRow {
    span: u64,
    nr_idle_scan: u32,
    avg_scan_cost: u64,
    imbalance_pct: u32,
}

#[derive(Deserialize)]
struct CpuRow {
    idle: u8,
    nr: u32,
    idle_nr: u32,
    h_nr_runnable: u32,
    load: u64,
    cap: u32,
    capacity_of: u32,
    pressure: u32,
    exit_lat: i64,
    stamp: u64,
}

#[derive(Debug, Deserialize, PartialEq)]
struct Out {
    select_idle_sibling: CpuId,
    recent_used_after: CpuId,
    wake_affine: CpuId,
    wake_affine_sync: CpuId,
    wake_affine_idle: i64,
    group_span: u64,
    find_idlest_in_group: CpuId,
    wake_wide_before: u8,
    current_flips_after_record: u32,
    wake_wide_after: u8,
    avg_scan_cost_after: Option<u64>,
}

impl Row {
    /// Everything that would otherwise be an index out of range.
    fn validate(&self) -> Result<(), String> {
        let n = self.ncpu;
        if n == 0 || n > 64 || self.cpus.len() != n as usize {
            return Err(format!("{} CPUs are listed, `ncpu` is {n}", self.cpus.len()));
        }
        let all = if n == 64 { u64::MAX } else { (1 << n) - 1 };
        let spans =
            self.llc.iter().fold((0, true), |(all, ok), l| (all | l.span, ok && l.span != 0 && all & l.span == 0));
        if spans != (all, true) {
            return Err("the spans in `llc` do not divide the CPUs".to_string());
        }
        let named = [self.this_cpu, self.prev, self.target, self.recent_used];
        if named.iter().any(|c| c.0 >= n) || self.out.group_span & all == 0 || self.allowed & all == 0 {
            return Err("a CPU is out of range".to_string());
        }
        if !(1..=10_000).contains(&self.hz) || self.llc.iter().any(|l| !(100..=1000).contains(&l.imbalance_pct)) {
            return Err("`hz` or `imbalance_pct` is out of range".to_string());
        }
        Ok(())
    }

    fn llc_of(&self, cpu: CpuId) -> usize {
        self.llc.iter().position(|l| l.span >> cpu.0 & 1 == 1).expect("the spans divide the CPUs")
    }

    /// The machine as the simulator has it.
    fn sched(&self) -> Sched {
        let n = self.cpus.len();
        let mut tasks: Vec<Task> = (0..4).map(|p| Task { pid: Pid(p), ..Task::default() }).collect();
        let mut se = vec![SchedEntity::default(); n + tasks.len()];
        let p = &mut tasks[TASK.at()];
        p.cpu = self.prev;
        p.cpus = CpuSet::from_mask(self.allowed);
        p.nr_cpus_allowed = self.allowed.count_ones();
        p.recent_used_cpu = self.recent_used;
        p.wakee_flips = self.task.wakee_flips;
        (p.uclamp_min, p.uclamp_max) = (self.task.uc_min, self.task.uc_max);
        let avg = &mut se[n + TASK.at()].avg;
        (avg.util_avg, avg.util_est) = (self.task.util, self.task.util_est);
        tasks[CURRENT.at()].per_cpu_kthread = self.per_cpu_kthread_current == 1;
        tasks[0].per_cpu_kthread = self.per_cpu_kthread_current == 1;
        let tick_ns = 1_000_000_000 / self.hz;
        Sched {
            now: NOW_JIFFIES * tick_ns,
            tasks,
            se,
            rqs: (0..n as u32).map(|c| self.rq(CpuId(c))).collect(),
            cfs: (0..n as u32).map(|c| self.cfs(CpuId(c))).collect(),
            topology: self.topology(),
            rd: RootDomain { uclamp_used: self.uclamp_used == 1, ..RootDomain::default() },
            ..Sched::bare(n, tick_ns)
        }
    }

    fn rq(&self, cpu: CpuId) -> Rq {
        let row = &self.cpus[cpu.at()];
        Rq {
            cpu,
            curr: match row.idle {
                1 => Pid(0),
                _ if cpu == self.this_cpu => CURRENT,
                _ => OTHER,
            },
            nr_running: row.nr,
            cpu_capacity_orig: row.cap,
            cpu_capacity: row.capacity_of,
            hw_pressure: row.pressure,
            idle_state: (row.exit_lat >= 0).then_some(0),
            idle_exit_latency_ns: 1000 * row.exit_lat.max(0) as u64,
            idle_stamp: row.stamp,
            avg_idle: if cpu == self.this_cpu { self.this_avg_idle } else { 0 },
            avg_scan_cost: self.llc[self.llc_of(cpu)].avg_scan_cost,
            ..Rq::default()
        }
    }

    fn cfs(&self, cpu: CpuId) -> CfsRq {
        let row = &self.cpus[cpu.at()];
        CfsRq {
            cpu,
            h_nr_running: row.nr,
            h_nr_delayed: row.nr.saturating_sub(row.h_nr_runnable),
            idle_h_nr_running: row.idle_nr,
            avg: SchedAvg { load_avg: row.load, ..SchedAvg::default() },
            ..CfsRq::default()
        }
    }

    fn topology(&self) -> Topology {
        let cpu = |c: u32| Cpu {
            core_type: String::new(),
            core: c,
            cluster: ClusterId(0),
            domain: DomainId(0),
            llc: self.llc_of(CpuId(c)) as u32,
            package: 0,
            node: 0,
            capacity: self.cpus[c as usize].cap,
            l2: None,
            priority: 0,
        };
        let cpus: Vec<Cpu> = (0..self.ncpu).map(cpu).collect();
        let mut t = Topology::of_cpus(&cpus, DomainParams::SINCE_5_10);
        for llc in &self.llc {
            let id = t.llc_id[llc.span.trailing_zeros() as usize] as usize;
            t.llc_shared[id].nr_idle_scan = llc.nr_idle_scan;
        }
        // The row says whether the domain of different capacities is there, and it spans all CPUs.
        let top = t.of_cpu.iter().map(|d| d.last().copied());
        t.sd_asym = if self.asym == 1 { top.collect() } else { vec![None; cpus.len()] };
        t.has_asym = self.asym == 1;
        t.llc_size[self.this_cpu.at()] = self.llc_size;
        t
    }
}

struct Policies {
    wake_affine: WakeAffine,
    find_idlest_cpu: FindIdlestCpu,
    select_idle_sibling: SelectIdleSibling,
    reports_scan_cost: bool,
}

impl Policies {
    fn of(kernel: &str) -> Policies {
        let is_6_12 = kernel == "6.12";
        let sched_idle = if kernel == "5.6_no_sched_idle" { SchedIdle::Off } else { SchedIdle::V5_6 };
        let (affine, sibling, scan) = if is_6_12 {
            (wake_affine::Generation::V6_12, select_idle_sibling::Generation::V6_12, Scan::Util)
        } else {
            (wake_affine::Generation::V5_6, select_idle_sibling::Generation::V5_6, Scan::Prop)
        };
        let mut select_idle_sibling = SelectIdleSibling::new(sibling, sched_idle, scan);
        select_idle_sibling.scan_ns_per_cpu = 0;
        Policies {
            wake_affine: WakeAffine::new(affine),
            find_idlest_cpu: FindIdlestCpu { sched_idle, ..FindIdlestCpu::default() },
            select_idle_sibling,
            reports_scan_cost: !is_6_12,
        }
    }

    /// In the order in which the kernel's functions were called for the row.
    fn decide(&mut self, row: &Row) -> Out {
        let mut s = row.sched();
        let (this, prev) = (row.this_cpu, row.prev);
        let waker = Waker {
            flips: row.current.wakee_flips,
            decay_ts: (NOW_JIFFIES - row.current.jiffies_since_decay.min(NOW_JIFFIES)) * s.tick_ns,
            last_wakee: if row.current.last_wakee_is_p == 1 { TASK } else { OTHER },
        };
        self.wake_affine.set_waker(&mut s, this, waker);
        let loads = || TaskLoads { task: row.task.h_load, current: row.current.h_load };
        let pct = row.llc[row.llc_of(this)].imbalance_pct;
        let affine = |sync| self.wake_affine.wake_affine(&s, pct, loads, this, prev, sync);
        let (wake_affine, wake_affine_sync) = (affine(false), affine(true));
        let wake_affine_idle = self.wake_affine.wake_affine_idle(&s, this, prev, false).map_or(-1, |c| i64::from(c.0));
        let group = Group {
            cpus: CpuSet::from_mask(row.out.group_span),
            weight: row.out.group_span.count_ones(),
            ..Group::default()
        };
        let find_idlest_in_group = self.find_idlest_cpu.find_idlest_group_cpu(&s, &group, TASK, this).0;
        let kind = placement::Kind::Wakeup { sync: false };
        let request = Request { pid: TASK, prev_cpu: prev, this_cpu: this, kind, in_irq: false };
        let chosen = self.select_idle_sibling.select(&mut s, &request, row.target, &|_, _| ());
        let wake_wide_before = u8::from(self.wake_affine.wake_wide(&s, this, TASK));
        self.wake_affine.record_wakee(&mut s, this, TASK);
        Out {
            select_idle_sibling: chosen.cpu,
            recent_used_after: s.tasks[TASK.at()].recent_used_cpu,
            wake_affine,
            wake_affine_sync,
            wake_affine_idle,
            group_span: row.out.group_span,
            find_idlest_in_group,
            wake_wide_before,
            current_flips_after_record: self.wake_affine.waker(&s, this).flips,
            wake_wide_after: u8::from(self.wake_affine.wake_wide(&s, this, TASK)),
            avg_scan_cost_after: self.reports_scan_cost.then(|| s.rqs[this.at()].avg_scan_cost),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::io::Read;

    fn replay(stem: &str, gz: &[u8]) -> Tally {
        let mut text = String::new();
        flate2::read::GzDecoder::new(gz).read_to_string(&mut text).expect("the copy in the project is whole");
        KIND.replay(&VectorFile { stem: stem.to_string(), text, companions: BTreeMap::new() })
            .expect("its rows are well-formed")
    }

    #[test]
    fn agrees_with_the_kernel() {
        for (stem, rows, gz) in [
            ("wakeup_5.6", 400, &include_bytes!("../../tests/vectors/wakeup_5.6.jsonl.gz")[..]),
            ("wakeup_5.6_no_sched_idle", 400, include_bytes!("../../tests/vectors/wakeup_5.6_no_sched_idle.jsonl.gz")),
            ("wakeup_6.12", 500, include_bytes!("../../tests/vectors/wakeup_6.12.jsonl.gz")),
        ] {
            let tally = replay(stem, gz);
            assert_eq!((tally.rows, tally.first_mismatch), (rows, None), "{stem}: {} mismatches", tally.mismatches);
        }
    }

    #[test]
    fn eras_are_told_apart() {
        let with_sched_idle = include_bytes!("../../tests/vectors/wakeup_5.6.jsonl.gz");
        assert!(replay("wakeup_5.6_no_sched_idle", with_sched_idle).mismatches > 50);
        assert!(replay("wakeup_6.12", with_sched_idle).mismatches > 50);
    }

    #[test]
    fn a_malformed_row_is_an_error() {
        for text in ["{", "{\"case\":0}", "null"] {
            let file =
                VectorFile { stem: "wakeup_6.12".to_string(), text: text.to_string(), companions: BTreeMap::new() };
            assert!(KIND.replay(&file).is_err_and(|e| e.starts_with("line 1, column ")), "{text}");
        }
    }
}
