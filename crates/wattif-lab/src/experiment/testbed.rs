//! An experiment and results for the tests of this folder.

use super::{Experiment, Results};
use crate::metrics::{GroupReport, Histogram, RunReport, Summary};
use wattif_model::kernel::Value;

pub const EXPERIMENT: &str = r#"
question = "8 periodic tasks and 5 SCHED_IDLE hogs on 8 CPUs: what happens to wake-up latency?"
source   = "Improving scheduling latency with SCHED_IDLE task, Linaro Connect San Diego 2019"
platform = "hikey620"
also     = ["a83t"]
workload = "sched_idle.json"
duration = "5s"
seeds    = 20
kernels  = ["linux-5.3", "linux-5.4", "linux-5.6"]

[variants]
no_hogs = { "workload.tasks.idle_thread.instance" = 0 }

[[result]]
id        = "3.1"
metric    = "wu_lat_us.mean"
threads   = "cfs_thread"
published = { "linux-5.3" = 1234.56, "linux-5.4" = 101.5 }
class     = "Q"
holds     = "ratio <= 1/5 and 50 <= simulated('linux-5.4') <= 200"
counter   = { what = "no hogs", set = { "workload.tasks.idle_thread.instance" = 0 }, holds = "0.95 <= ratio <= 1.05" }

[[result]]
id        = "3.5"
metric    = "wu_lat_us.count"
threads   = "cfs_thread"
published = { "no_hogs" = 103.25 }
class     = "S"
platforms = ["hikey620"]
holds     = "simulated('no_hogs') > 1"

[[table]]
title     = "Wake-up latency as rt-app logs it"
metrics   = ["wu_lat_us.min", "wu_lat_us.max"]
threads   = "cfs_thread"
published = { "linux-5.3" = [0, 4321], "linux-5.4" = [0, nan] }

[[histogram]]
title     = "Histogram in steps of 100 us"
threads   = "cfs_thread"
published = { "no_hogs" = [4000,900,80,13,nan,nan,nan,nan,nan,nan,7] }

[[plot]]
name      = "latency"
title     = "Mean against maximum"
x         = "wu_lat_us.mean"
y         = "wu_lat_us.max"
y_threads = "cfs_thread"
log_y     = true
"#;

pub fn experiment() -> Experiment {
    Experiment::parse("sched_idle_placement", EXPERIMENT).unwrap()
}

pub fn report(mean: f64) -> RunReport {
    let wu_lat_us = Summary { count: 5000, min: 0.0, mean, max: 3.0 * mean, ..Summary::default() };
    let wu_lat_hist = Histogram([5000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]);
    let group =
        GroupReport { task: "cfs_thread".into(), workload: true, wu_lat_us, wu_lat_hist, ..GroupReport::default() };
    let mut report = RunReport { by_task: vec![group.clone()], ..RunReport::default() };
    report.metrics.wu_lat_us = group.wu_lat_us;
    report
}

/// Hogs make 5.3 slow; without them all kernels agree.
pub fn results(of: &Experiment) -> Results {
    let mut results = Results::default();
    for arm in of.plan().arms {
        let hogs = arm.set.get("workload.tasks.idle_thread.instance") != Some(&Value::Int(0));
        let mean = if hogs && arm.kernel == "linux-5.3" { 1000.0 } else { 100.0 };
        results.insert(arm, (0..20).map(|seed| report(mean * (1.0 + f64::from(seed % 5) * 0.01))).collect());
    }
    results
}
