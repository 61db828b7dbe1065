//! The explanations on the gallery's pages: which part carries each of the published effects, and that the splits are exact.

use std::collections::BTreeMap;
use wattif::explain::{Reruns, bisect, explain};
use wattif::{Ns, RunSpec, experiment};
use wattif_lab::explain::Explanation;

fn sides(name: &str, arms: [&str; 2], ms: u64) -> [RunSpec; 2] {
    let entry = experiment::load(name).expect("a gallery entry is valid");
    entry.arms(&arms, None, Some(Ns::from_ms(ms)), 1).expect("arms of the entry").try_into().expect("two")
}

fn reruns(ms: u64) -> Reruns {
    let metrics = ["energy.total", "wakeup_latency_us.mean"].map(String::from).into();
    Reruns { seeds: 4, duration: Some(Ns::from_ms(ms)), metrics }
}

fn explained(name: &str, arms: [&str; 2], ms: [u64; 2]) -> Explanation {
    let [a, b] = sides(name, arms, ms[0]);
    let e = explain([&a, &b], &reruns(ms[1]), &|| true).unwrap();
    if let Some(energy) = &e.energy {
        for rows in [&energy.by_state, &energy.by_task] {
            assert_eq!(rows.iter().map(|r| r.difference_fj).sum::<i128>(), energy.difference_fj);
        }
    }
    assert_eq!(e.latency.bins.iter().map(|b| b.difference_ns).sum::<i128>(), e.latency.difference_ns);
    assert!((1..=10).contains(&e.summary.len()));
    assert!(e.summary.iter().all(|s| s.contains(|c: char| c.is_ascii_digit())), "{:#?}", e.summary);
    assert!(e.first.is_some());
    e
}

/// `part` makes most of a metric's difference, and chance does not.
#[track_caller]
fn carried_by(e: &Explanation, metric: &str, part: &str) {
    let shares = e.shares.iter().find(|s| s.metric == metric).expect("a metric of the runs");
    let share = shares.shares.iter().find(|s| s.part == part).unwrap_or_else(|| panic!("{shares:#?}"));
    let [lo, hi] = share.ci95.expect("four seeds have an interval");
    assert!(share.share.unwrap() > 0.8 && (lo > 0.0 || hi < 0.0), "{shares:#?}");
}

#[test]
fn sched_idle_placement_is_placement() {
    let e = explained("sched_idle_placement", ["linux-5.3", "linux-5.4"], [1000, 500]);
    carried_by(&e, "wakeup_latency_us.mean", "placement and balance");
    let most = e.latency.bins.iter().min_by_key(|b| b.difference_ns).unwrap();
    assert_eq!(most.cause, "behind cfs_thread");
}

#[test]
fn the_longer_history_is_idle() {
    let e = explained("weighted_idle_governor", ["linux-5.6+teo+w4", "linux-5.6+h128+w4"], [2000, 2000]);
    carried_by(&e, "energy.total", "idle");
    carried_by(&e, "wakeup_latency_us.mean", "idle");
}

#[test]
fn walt_is_load_tracking() {
    carried_by(&explained("walt_vs_pelt", ["android-4.9", "walt"], [3000, 1000]), "energy.total", "class and load");
}

/// One tunable, in whatever part it is counted; what its absence costs is frequency.
#[test]
fn the_boost_is_one_switch() {
    // Threads that wait for one another may part by what one wake-up more or less begins: of one seed the sum says little.
    let mut causes = BTreeMap::<String, i128>::new();
    for seed in 1..=8 {
        let arms = experiment::load("revert_boost").expect("valid").arms(
            &["android-6.6", "off"],
            None,
            Some(Ns::from_ms(2000)),
            seed,
        );
        let [a, b]: [RunSpec; 2] = arms.expect("arms of the entry").try_into().expect("two");
        let e = explain([&a, &b], &Reruns::none(), &|| true).unwrap();
        e.latency.bins.iter().for_each(|b| *causes.entry(b.cause.clone()).or_default() += b.difference_ns);
    }
    let most = causes.iter().max_by_key(|(_, ns)| **ns).unwrap();
    assert_eq!(most.0, "frequency too low", "{causes:?}");
    let [a, b] = sides("revert_boost", ["android-6.6", "off"], 1000);
    let walked = bisect([&a, &b], &Reruns { seeds: 8, ..reruns(1000) }, &|| true).unwrap().found;
    let carriers: Vec<&str> = walked[0].steps.iter().filter(|s| s.carries).map(|s| s.switch.as_str()).collect();
    assert_eq!(carriers, ["cpu_util.boost: h1 → off"]);
}

/// The compute capacity of the slow CPUs is a matter of balancing.
#[test]
fn cpu_power_is_balancing() {
    let e = explained("issue_6_cpu_power", ["linux-3.13+five", "eff+five"], [5000, 2000]);
    assert!(e.shares.iter().flat_map(|s| &s.shares).all(|s| s.part == "placement and balance" || s.value == 0.0));
}

/// Where nothing differs, energies are in their unit still.
#[test]
fn equal_runs_have_a_unit() {
    let [a, _] = sides("walt_vs_pelt", ["android-4.9", "walt"], 500);
    let e = explain([&a, &a], &reruns(100), &|| true).unwrap();
    let (text, energy) = (e.to_text(), e.energy.as_ref().expect("the platform has powers"));
    let all: Vec<&str> = text.lines().filter(|l| l.trim_start().starts_with("all ")).collect();
    let of_energy = all.iter().filter(|l| l.contains(&wattif_lab::table::cell(energy.a)));
    assert_eq!((energy.difference_fj, of_energy.count()), (0, 2), "{all:#?}");
}
