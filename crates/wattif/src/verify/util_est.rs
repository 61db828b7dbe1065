//! Vectors of estimated utilisation.

use super::pelt::at_most;
use super::{Csv, Kind, Row, Tally, VectorError, VectorFile};
use wattif_sim::sched::load::pelt::SchedAvg;
use wattif_sim::sched::load::util_est::{self, Generation};

/// `util_est_*`.
pub const UTIL_EST: Kind =
    Kind { name: "util_est", stem: "util_est_", kernels: util_est::TUNABLES[0].allowed, check: util_est };

/// Utilisations are at most this.
const MAX: u64 = 1 << 24;

fn util_est(file: &VectorFile, kernel: &str) -> Result<Tally, VectorError> {
    let generation = Generation::by_name(kernel).expect("a generation of the kind");
    let mut tally = Tally::default();
    Csv::new(&file.text)?.for_each(|row| {
        let (mut avg, cfs_in) = inputs(row, generation)?;
        let cfs = SchedAvg { util_est: cfs_in, ..SchedAvg::default() };
        let (mut enqueued, mut dequeued) = (cfs, cfs);
        generation.enqueue(&mut enqueued, &avg);
        generation.dequeue(&mut dequeued, &avg);
        let estimate = generation.task_util_est(&avg) as u32;
        generation.update(&mut avg, row.num::<u8>("task_sleep")? != 0, at_most(row, "cpu_cap", 1024)? as u32);
        let got = (avg.util_est, avg.util_est_ewma, enqueued.util_est, dequeued.util_est, estimate);
        tally.compare(row.line, row.inputs(), expected(row, generation)?, got);
        Ok(())
    })?;
    Ok(tally)
}

/// The task's averages, and the queue's estimate.
fn inputs(row: &Row<'_, '_>, generation: Generation) -> Result<(SchedAvg, u32), VectorError> {
    let mut avg = SchedAvg { util_avg: at_most(row, "util_avg", MAX)?, ..SchedAvg::default() };
    if generation == Generation::V6_12 {
        avg.runnable_avg = at_most(row, "runnable_avg", MAX)?;
        avg.util_est = row.num("task_util_est_in")?;
        return Ok((avg, at_most(row, "cfs_util_est_in", MAX)? as u32));
    }
    avg.util_est = row.num("enqueued_in")?;
    avg.util_est_ewma = at_most(row, "ewma_in", MAX)? as u32;
    Ok((avg, at_most(row, "cfs_enqueued_in", MAX)? as u32))
}

fn expected(row: &Row<'_, '_>, generation: Generation) -> Result<(u32, u32, u32, u32, u32), VectorError> {
    let (est, ewma) = if generation == Generation::V6_12 {
        (row.num("task_util_est_out")?, 0)
    } else {
        (row.num("enqueued_out")?, row.num("ewma_out")?)
    };
    Ok((est, ewma, row.num("cfs_after_enqueue")?, row.num("cfs_after_dequeue")?, row.num("task_util_est_fn")?))
}
