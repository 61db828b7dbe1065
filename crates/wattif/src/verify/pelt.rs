//! Vectors of load tracking: decay, sums, clocks, attaching, first utilisation.

use super::{Csv, Kind, Row, Tally, VectorError, VectorFile, json_line};
use serde::Deserialize;
use wattif_model::Pid;
use wattif_sim::sched::load::pelt::{self, At, Pelt, PostInit, SchedAvg};
use wattif_sim::sched::rq::{CfsRq, Removed, Rq};

/// `pelt_tables`.
pub const TABLES: Kind = Kind { name: "pelt_tables", stem: "pelt_tables", kernels: &[], check: tables };
/// `pelt_decay`.
pub const DECAY: Kind = Kind { name: "pelt_decay", stem: "pelt_decay", kernels: &[], check: decay };
/// `pelt_segments`.
pub const SEGMENTS: Kind = Kind { name: "pelt_segments", stem: "pelt_segments", kernels: &[], check: segments };
/// `pelt_sum`.
pub const SUM: Kind = Kind { name: "pelt_sum", stem: "pelt_sum", kernels: &[], check: sum };
/// `pelt_clock`.
pub const CLOCK: Kind = Kind { name: "pelt_clock", stem: "pelt_clock", kernels: &[], check: clock };
/// `pelt_irq`.
pub const IRQ: Kind = Kind { name: "pelt_irq", stem: "pelt_irq", kernels: &[], check: irq };
/// `pelt_attach_detach`.
pub const ATTACH_DETACH: Kind =
    Kind { name: "pelt_attach_detach", stem: "pelt_attach_detach", kernels: &[], check: attach_detach };
/// `post_init_*`.
pub const POST_INIT: Kind = Kind { name: "post_init", stem: "post_init_", kernels: &["6.1", "6.12"], check: post_init };

/// Numbers beyond these are no kernel's; they would overflow where the kernel does not.
const MAX_SUM: u64 = 1 << 52;
const MAX_AVG: u64 = 1 << 28;
const MAX_TIME: u64 = 1 << 60;

/// A column that must not be larger than `max`.
pub(super) fn at_most(row: &Row<'_, '_>, column: &str, max: u64) -> Result<u64, VectorError> {
    let n: u64 = row.num(column)?;
    if n > max {
        return Err(format!("line {}: `{column}` is {n}, more than {max}", row.line));
    }
    Ok(n)
}

fn half_life(row: &Row<'_, '_>) -> Result<Pelt, VectorError> {
    let hl = row.num("hl")?;
    Pelt::with_half_life(hl).ok_or_else(|| format!("line {}: half-life {hl} is none of 8, 16, 32", row.line))
}

#[derive(Deserialize)]
struct TableLine {
    halflife_ms: u32,
    #[serde(rename = "LOAD_AVG_PERIOD")]
    period: u32,
    #[serde(rename = "LOAD_AVG_MAX")]
    max: u32,
    #[serde(rename = "runnable_avg_yN_inv")]
    inv: Vec<u32>,
}

fn tables(file: &VectorFile, _: &str) -> Result<Tally, VectorError> {
    let mut tally = Tally::default();
    for (i, text) in file.text.lines().enumerate() {
        let want: TableLine = json_line(i + 1, text)?;
        let pelt = Pelt::with_half_life(want.halflife_ms);
        let pelt = pelt.ok_or_else(|| format!("line {}: half-life {}", i + 1, want.halflife_ms))?;
        let inv: Vec<u32> = (0..pelt.half_life()).map(|i| pelt.yn_inv(i)).collect();
        let got = (pelt.half_life(), pelt.load_avg_max, inv);
        tally.compare(i + 1, want.halflife_ms, (want.period, want.max, want.inv), got);
    }
    Ok(tally)
}

fn decay(file: &VectorFile, _: &str) -> Result<Tally, VectorError> {
    let mut tally = Tally::default();
    Csv::new(&file.text)?.for_each(|row| {
        let got = half_life(row)?.decay_load(row.num("val")?, row.num("n")?);
        tally.compare(row.line, row.inputs(), row.num::<u64>("out")?, got);
        Ok(())
    })?;
    Ok(tally)
}

fn segments(file: &VectorFile, _: &str) -> Result<Tally, VectorError> {
    let mut tally = Tally::default();
    Csv::new(&file.text)?.for_each(|row| {
        let (d1, d3) = (at_most(row, "d1", 1024)? as u32, at_most(row, "d3", 1024)? as u32);
        let got = half_life(row)?.accumulate_segments(row.num::<u64>("periods")?.max(1), d1, d3);
        tally.compare(row.line, row.inputs(), row.num::<u32>("contrib")?, got);
        Ok(())
    })?;
    Ok(tally)
}

fn sched_avg(row: &Row<'_, '_>) -> Result<SchedAvg, VectorError> {
    Ok(SchedAvg {
        last_update_time: at_most(row, "last_update_time", MAX_TIME)?,
        load_sum: row.num("load_sum")?,
        runnable_sum: row.num("runnable_sum")?,
        util_sum: row.num("util_sum")?,
        period_contrib: at_most(row, "period_contrib", 1023)? as u32,
        load_avg: row.num("load_avg")?,
        runnable_avg: row.num("runnable_avg")?,
        util_avg: row.num("util_avg")?,
        ..SchedAvg::default()
    })
}

fn sum(file: &VectorFile, _: &str) -> Result<Tally, VectorError> {
    let (mut tally, mut sa) = (Tally::default(), SchedAvg::default());
    Csv::new(&file.text)?.for_each(|row| {
        let want = sched_avg(row)?;
        let mut ret = false;
        if row.num::<i64>("step")? < 0 {
            sa = want;
        } else {
            let pelt = half_life(row)?;
            let at = At::full_speed(at_most(row, "now_ns", MAX_TIME)?);
            let running = row.num::<u64>("running")? != 0;
            ret = pelt.update_load_sum(at, &mut sa, row.num("load")?, row.num("runnable")?, running);
            if ret {
                pelt.update_load_avg(&mut sa, row.num("avg_load_arg")?);
            }
        }
        tally.compare(row.line, row.inputs(), (row.num::<u8>("ret")?, want), (u8::from(ret), sa));
        Ok(())
    })?;
    Ok(tally)
}

fn clock(file: &VectorFile, _: &str) -> Result<Tally, VectorError> {
    let (mut tally, mut rq) = (Tally::default(), Rq::default());
    Csv::new(&file.text)?.for_each(|row| {
        if row.num::<i64>("step")? < 0 {
            let start = at_most(row, "clock", MAX_TIME)?;
            rq = Rq { clock: start, clock_task: start, clock_pelt: start, ..Rq::default() };
            (rq.clock_idle, rq.clock_pelt_idle) = (start, start);
        } else {
            rq.cpu_capacity_orig = at_most(row, "cpu_cap", 1024)? as u32;
            rq.freq_cap = at_most(row, "freq_cap", 1024)? as u32;
            rq.irq_pending_ns = at_most(row, "irq_ns", MAX_TIME)?;
            let now = rq.clock + at_most(row, "delta_ns", 1 << 50)?;
            pelt::update_rq_clock(&mut rq, now);
            switch(row, &mut rq)?;
        }
        let columns =
            ["clock", "clock_task", "clock_pelt", "lost_idle_time", "rq_clock_pelt", "clock_idle", "clock_pelt_idle"];
        let mut want = [0u64; 7];
        for (want, column) in want.iter_mut().zip(columns) {
            *want = row.num(column)?;
        }
        let got = [
            rq.clock,
            rq.clock_task,
            rq.clock_pelt,
            rq.lost_idle_time,
            rq.rq_clock_pelt(),
            rq.clock_idle,
            rq.clock_pelt_idle,
        ];
        tally.compare(row.line, row.inputs(), want, got);
        Ok(())
    })?;
    Ok(tally)
}

/// The end of a clock row: a task starts, or the CPU becomes idle.
fn switch(row: &Row<'_, '_>, rq: &mut Rq) -> Result<(), VectorError> {
    match row.num::<u8>("switch")? {
        0 => {}
        1 => rq.curr = Pid(1),
        2 => {
            let mut cfs = CfsRq::default();
            cfs.avg.util_sum = row.num("cfs_util_sum")?;
            rq.avg_rt.util_sum = row.num("rt_util_sum")?;
            rq.avg_dl.util_sum = row.num("dl_util_sum")?;
            rq.curr = Pid(0);
            pelt::update_idle_rq_clock_pelt(rq, &cfs);
        }
        other => return Err(format!("line {}: switch {other}", row.line)),
    }
    Ok(())
}

fn irq(file: &VectorFile, _: &str) -> Result<Tally, VectorError> {
    let (mut tally, mut rq) = (Tally::default(), Rq::default());
    Csv::new(&file.text)?.for_each(|row| {
        let want = sched_avg(row)?;
        let mut ret = 0;
        if row.num::<i64>("step")? < 0 {
            rq.avg_irq = want;
        } else {
            rq.clock = at_most(row, "clock_ns", MAX_TIME)?;
            rq.cpu_capacity_orig = at_most(row, "cpu_cap", 1024)? as u32;
            rq.freq_cap = at_most(row, "freq_cap", 1024)? as u32;
            ret = pelt::update_irq_load_avg(&mut rq, at_most(row, "irq_running_ns", 1 << 50)?);
        }
        tally.compare(row.line, row.inputs(), (row.num::<u32>("ret")?, want), (ret, rq.avg_irq));
        Ok(())
    })?;
    Ok(tally)
}

fn attach_detach(file: &VectorFile, _: &str) -> Result<Tally, VectorError> {
    let mut tally = Tally::default();
    let pelt = Pelt::default();
    Csv::new(&file.text)?.for_each(|row| {
        let mut cfs = averages(row, "c_")?;
        cfs.period_contrib = at_most(row, "pc", 1023)? as u32;
        let mut se = averages(row, "s_")?;
        let weight = (at_most(row, "se_weight_raw", 1 << 30)? >> 10).max(2);
        match row.text("op")? {
            "attach" => pelt.attach_entity_load_avg(&mut cfs, &mut se, weight),
            "detach" => pelt.detach_entity_load_avg(&mut cfs, &se, weight),
            "fold_removed" => {
                let (load_avg, util_avg, runnable_avg) = (se.load_avg, se.util_avg, se.runnable_avg);
                pelt.fold_removed(&mut cfs, &mut Removed { nr: 1, load_avg, util_avg, runnable_avg });
            }
            other => return Err(format!("line {}: op `{other}`", row.line)),
        }
        let columns = [
            "o_c_util_avg",
            "o_c_util_sum",
            "o_c_load_avg",
            "o_c_load_sum",
            "o_c_runnable_avg",
            "o_c_runnable_sum",
            "o_s_util_sum",
            "o_s_load_sum",
            "o_s_runnable_sum",
        ];
        let mut want = [0u64; 9];
        for (want, column) in want.iter_mut().zip(columns) {
            *want = row.num(column)?;
        }
        let got = [
            cfs.util_avg,
            u64::from(cfs.util_sum),
            cfs.load_avg,
            cfs.load_sum,
            cfs.runnable_avg,
            cfs.runnable_sum,
            u64::from(se.util_sum),
            se.load_sum,
            se.runnable_sum,
        ];
        tally.compare(row.line, row.inputs(), want, got);
        Ok(())
    })?;
    Ok(tally)
}

fn averages(row: &Row<'_, '_>, prefix: &str) -> Result<SchedAvg, VectorError> {
    let column = |name: &str, max| at_most(row, &format!("{prefix}{name}"), max);
    Ok(SchedAvg {
        util_avg: column("util_avg", MAX_AVG)?,
        util_sum: column("util_sum", u64::from(u32::MAX))? as u32,
        load_avg: column("load_avg", MAX_AVG)?,
        load_sum: column("load_sum", if prefix == "s_" { 1 << 30 } else { MAX_SUM })?,
        runnable_avg: column("runnable_avg", MAX_AVG)?,
        runnable_sum: column("runnable_sum", MAX_SUM)?,
        ..SchedAvg::default()
    })
}

fn post_init(file: &VectorFile, kernel: &str) -> Result<Tally, VectorError> {
    let mut pelt = Pelt::default();
    pelt.post_init = if kernel == "6.1" { PostInit::V6_1 } else { PostInit::V6_12 };
    let mut tally = Tally::default();
    Csv::new(&file.text)?.for_each(|row| {
        let weight = (at_most(row, "weight_scaled", 1 << 30)? >> 10).max(2);
        let cfs = SchedAvg {
            util_avg: at_most(row, "cfs_util_avg", MAX_AVG)?,
            load_avg: at_most(row, "cfs_load_avg", MAX_AVG)?,
            ..SchedAvg::default()
        };
        let mut se = pelt.init_entity_runnable_average(weight);
        pelt.post_init_util(&mut se, weight, &cfs, at_most(row, "cpu_cap", 1024)? as u32);
        let want = (row.num::<u64>("util_avg")?, row.num::<u64>("runnable_avg")?, row.num::<u64>("load_avg")?);
        tally.compare(row.line, row.inputs(), want, (se.util_avg, se.runnable_avg, se.load_avg));
        Ok(())
    })?;
    Ok(tally)
}
