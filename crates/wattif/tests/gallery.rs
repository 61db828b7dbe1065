//! The gallery with few seeds: every row holds with its counter-tests, but for those that are known to miss.

use wattif::run::{run, unfinished};
use wattif::{data, experiment};

/// Rows that miss their tolerance, each explained in the README of its experiment. One that begins to hold leaves this list.
const KNOWN_TO_MISS: &[&str] = &[
    "order/menu",
    "4.4",
    "2.1/issue3",
    // A counter-test of it, of five seeds: without calls 0.964; of twenty 0.977.
    "2.5",
    "2.5/power",
    "3.1",
    "3.1/platform=a83t",
    "3.3",
    "3.3/platform=a83t",
    "0.1/little",
    "0.4/web",
    "0.8/random_read",
    // Of five seeds: 1.012; of twenty 1.007.
    "0.6/sequential",
    "0.9/list_view/p75",
    "0.9/list_view/p99",
    "0.9/image_list_view/p99",
    "0.9/shadow_grid/p50",
    "0.9/shadow_grid/p90",
    "0.9/shadow_grid/p99",
    "0.9/high_hitrate_text/p99",
    "0.9/low_hitrate_text/p99",
    "0.9/bitmap_upload/p25",
    "0.9/bitmap_upload/p50",
    "0.10/bitmap_upload",
    "0.11/twitter",
    "0.11/twitter/frames",
    "0.11/facebook",
    "0.11/facebook/frames",
    "0.12",
    "0.13/fps",
    "0.14/subway_touch",
    "0.14/light_touch",
    "0.16/turn",
    "0.17/janks",
    "1.2/intervals=16/workers=16",
    "1.2/intervals=32/workers=2",
    "1.2/intervals=64/workers=2",
    "1.4/clients=4/power",
    "1.5/workers=8/accuracy",
    "1.5/workers=16/accuracy",
    "1.7/teo/workers=16/points",
    "1.7/weighted/workers=16/points",
    "1.7/teo/clients=8",
    "1.7/teo/clients=8/points",
    "1.7/teo/clients=16",
    "1.7/teo/clients=16/points",
    "1.7/weighted/clients=8",
    "1.7/weighted/clients=8/points",
    "1.7/weighted/clients=16",
    "1.7/weighted/clients=16/points",
];

#[test]
fn rows_hold_and_counter_tests_too() {
    let mut missed = Vec::new();
    for name in data::experiments() {
        let mut entry = experiment::load(name).expect("a gallery entry is valid");
        // What is only shown is not run here.
        entry.experiment.tables.clear();
        entry.experiment.plots.clear();
        entry.experiment.correlations.clear();
        let mut plan = entry.experiment.plan();
        plan.seeds = (1..=5).collect();
        let results = entry.run(&plan, &|| true).expect("a gallery entry runs");
        for row in entry.experiment.evaluate(&results) {
            let counter = row.counter_tests.iter().all(|c| c.ok);
            if !row.ok || !counter {
                missed.push(row.id.clone());
            }
        }
    }
    assert_eq!(missed, KNOWN_TO_MISS);
}

/// The figures of work that ends by itself are those of all of it, not of who was done first.
#[test]
fn no_arm_ends_before_its_work() {
    for name in data::experiments() {
        let entry = experiment::load(name).expect("a gallery entry is valid");
        for arm in entry.experiment.plan().arms {
            let spec = entry.spec(&arm).expect("an arm is valid");
            if spec.workload.ends_by_itself() {
                let report = run(&spec, &mut []).expect("an arm runs").report;
                assert!(unfinished(&spec, &report).is_none(), "{name}: {arm:?}");
            }
        }
    }
}
