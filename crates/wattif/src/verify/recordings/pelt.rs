//! The load-tracking signals of a recording, sample by sample (`pelt_csv`).
//!
//! Every `pelt_se` event of a thread holds the sums after an update. Between two events of one thread the kernel's integer
//! formula must lead from the first sums to the second, for some part of the period already accounted (which the event
//! does not say) and one of four states: running, runnable, load only, off the queue. The code that does the step here is the
//! simulator's.

use crate::verify::Csv;
use std::collections::BTreeMap;
use wattif_sim::sched::load::pelt::{At, Pelt, SchedAvg};

/// A sample.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// When, ns of the trace.
    pub at: u64,
    cpu: u32,
    avg: SchedAvg,
}

impl Sample {
    /// `util_avg` and `runnable_avg`.
    pub fn signals(&self) -> (u64, u64) {
        (self.avg.util_avg, self.avg.runnable_avg)
    }
}

/// Samples by the thread's name, in order of time.
pub type Samples = BTreeMap<String, Vec<Sample>>;

/// Reads a `pelt_csv`; an error names the line.
pub fn parse(text: &str) -> Result<Samples, String> {
    let mut samples = Samples::new();
    Csv::new(text)?.for_each(|row| {
        let seconds: f64 = row.num("t")?;
        let sample = Sample {
            at: (seconds * 1e9) as u64,
            cpu: row.num("cpu")?,
            avg: SchedAvg {
                last_update_time: row.num("upd")?,
                load_sum: row.num("load_sum")?,
                runnable_sum: row.num("runnable_sum")?,
                util_sum: row.num("util_sum")?,
                load_avg: row.num("load")?,
                runnable_avg: row.num("runnable")?,
                util_avg: row.num("util")?,
                ..SchedAvg::default()
            },
        };
        samples.entry(row.text("comm")?.to_string()).or_default().push(sample);
        Ok(())
    })?;
    Ok(samples)
}

/// Steps between the samples of a thread on one CPU that the formula takes exactly, and those it does not.
pub fn exact_steps(samples: &[Sample]) -> (u64, u64) {
    let same_cpu = samples.windows(2).filter(|w| w[0].cpu == w[1].cpu);
    same_cpu.fold((0, 0), |(yes, no), w| if is_exact(&w[0].avg, &w[1].avg) { (yes + 1, no) } else { (yes, no + 1) })
}

fn is_exact(from: &SchedAvg, to: &SchedAvg) -> bool {
    let pelt = Pelt::default();
    // load, runnable, running
    const STATES: [(u64, u64, bool); 4] = [(1, 1, true), (1, 1, false), (1, 0, false), (0, 0, false)];
    STATES.iter().any(|&(load, runnable, running)| {
        (0..1024).any(|period_contrib| {
            let mut avg = SchedAvg { period_contrib, ..*from };
            pelt.update_load_sum(At::full_speed(to.last_update_time), &mut avg, load, runnable, running);
            (avg.load_sum, avg.runnable_sum, avg.util_sum) == (to.load_sum, to.runnable_sum, to.util_sum)
        })
    })
}
