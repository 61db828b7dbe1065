//! The `wattif.explain/1` object: two runs, side by side.

use super::decisions::{Decision, Parting};
use super::energy::{EnergyCell, EnergySplit, Level, Place};
use super::shares::Shares;
use super::waits::WaitSplit;
use crate::metrics::energy::unit;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::platform::Platform;
use wattif_model::run::RunSpec;

/// `schema` of an explanation.
pub const SCHEMA: &str = "wattif.explain/1";

/// What listeners found in one run.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Digest of the run.
    pub digest: String,
    /// Context switches to a thread.
    pub slices: u64,
    /// Of [`super::EnergyBy`].
    pub energy: EnergySplit,
    /// Of [`super::Waits`].
    pub waits: WaitSplit,
    /// When it ended, s.
    pub end_s: f64,
    /// It was cut off before its work was done, [`crate::metrics::RunReport::is_cut`].
    pub unfinished: bool,
}

/// One of the two runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// Name of the kernel profile.
    pub kernel: String,
    /// Hash of the RunSpec.
    pub hash: String,
    /// Digest of its events.
    pub digest: String,
    /// When it ended, s.
    pub end_s: f64,
    /// It was cut off before the work of a workload that ends by itself was done.
    pub unfinished: bool,
}

/// The first decision that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct First {
    /// When, ms.
    pub t_ms: f64,
    /// What A decided: policy, decision, inputs; `None`: nothing at that time.
    pub a: Option<[String; 3]>,
    /// What B decided.
    pub b: Option<[String; 3]>,
}

/// One row of a split.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Place, operating point and level; or the task.
    pub name: String,
    /// Energy of A, fJ (abstract units × 10¹²).
    pub a_fj: i128,
    /// Of B.
    pub b_fj: i128,
    /// B − A.
    pub difference_fj: i128,
    /// The same in `unit`.
    pub difference: f64,
    /// Time spent there in A, s; `None` in a split by task.
    pub a_s: Option<f64>,
    /// In B.
    pub b_s: Option<f64>,
}

/// The difference in energy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EnergyDelta {
    /// As in `wattif.run/1`.
    pub unit: &'static str,
    /// Total of A.
    pub a: f64,
    /// Total of B.
    pub b: f64,
    /// B − A, exactly; both splits sum to it.
    pub difference_fj: i128,
    /// By domain × operating point × idle state, the largest difference first.
    pub by_state: Vec<Row>,
    /// By task; idle, cluster and base are tasks of their own.
    pub by_task: Vec<Row>,
}

/// One cause of waiting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bin {
    /// As in [`WaitSplit::bins`].
    pub cause: String,
    /// Sum in A, ns.
    pub a_ns: u64,
    /// Sum in B, ns.
    pub b_ns: u64,
    /// B − A.
    pub difference_ns: i128,
    /// Difference of the means per wake-up, µs; `None` where a side has no wake-up that came to run.
    pub per_wakeup_us: Option<f64>,
}

/// The difference in wake-up latency.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WaitDelta {
    /// Wake-ups of A and of B that came to run.
    pub count: [u64; 2],
    /// Mean latency, µs; `None`: of no wake-up.
    pub mean_us: [Option<f64>; 2],
    /// Sum of B less sum of A, exactly; the bins sum to it.
    pub difference_ns: i128,
    /// Every cause, in the stated order.
    pub bins: Vec<Bin>,
    /// Idle exit before `sched_waking`, which is no part of the latency: sums, ns.
    pub before_waking_ns: [u64; 2],
}

/// Two runs explained.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Name of the workload.
    pub workload: String,
    /// Name of the platform.
    pub platform: String,
    /// Seed of both.
    pub seed: u64,
    /// Length of both, s; of a workload that ends by itself the most.
    pub duration_s: f64,
    /// The workload ends when its work is done.
    pub ends_by_itself: bool,
    /// The baseline.
    pub a: Side,
    /// The variant.
    pub b: Side,
    /// `None`: every decision is the same.
    pub first: Option<First>,
    /// `None` where the platform has no powers.
    pub energy: Option<EnergyDelta>,
    /// Wake-up latency.
    pub latency: WaitDelta,
    /// Which part carries it, a metric each; empty when not asked for.
    pub shares: Vec<Shares>,
    /// Seeds and seconds of the runs behind `shares`.
    pub shares_of: Option<(u64, f64)>,
    /// Why there are no shares, where a mixed profile cannot run.
    pub shares_note: Option<String>,
    /// What is to be known of the shares: figures that are missing, runs that were cut off, another difference than that of the two.
    pub notes: Vec<String>,
    /// Ten sentences at most, each with its number.
    pub summary: Vec<String>,
    /// What of the platform is measured, estimated or calibrated; the caller's.
    pub trust: Vec<String>,
}

impl Explanation {
    /// Without shares and summary.
    pub fn new(specs: [&RunSpec; 2], found: [&Findings; 2]) -> Explanation {
        let side = |i: usize| Side {
            kernel: specs[i].kernel.name.clone(),
            hash: specs[i].hash(),
            digest: found[i].digest.clone(),
            end_s: found[i].end_s,
            unfinished: found[i].unfinished,
        };
        let spec = specs[0];
        Explanation {
            schema: SCHEMA,
            workload: spec.workload.name.clone(),
            platform: spec.platform.name.clone(),
            seed: spec.seed,
            duration_s: spec.duration.as_s_f64(),
            ends_by_itself: spec.workload.ends_by_itself(),
            a: side(0),
            b: side(1),
            first: None,
            energy: energy(&spec.platform, &found[0].energy, &found[1].energy),
            latency: latency(&found[0].waits, &found[1].waits),
            shares: Vec::new(),
            shares_of: None,
            shares_note: None,
            notes: Vec::new(),
            summary: Vec::new(),
            trust: Vec::new(),
        }
    }

    /// The place where they part; `names` are those of the threads.
    pub fn set_first(&mut self, specs: [&RunSpec; 2], parting: &Parting, names: &BTreeMap<u32, String>) {
        let name = |pid: u32| names.get(&pid).cloned().unwrap_or_else(|| format!("thread {pid}"));
        let side = |i: usize| {
            parting.sides[i].as_ref().map(|d: &Decision| {
                let policy = specs[i].kernel.policies.get(&d.slot()).cloned().unwrap_or_else(|| d.slot().name().into());
                [policy, d.what(&name), d.because().unwrap_or_default()]
            })
        };
        self.first = Some(First { t_ms: parting.at.0 as f64 / 1e6, a: side(0), b: side(1) });
    }
}

fn energy(platform: &Platform, a: &EnergySplit, b: &EnergySplit) -> Option<EnergyDelta> {
    let (unit, one) = unit(platform.power.unit, platform.power.sourced)?;
    let signed = |fj: u128| i128::try_from(fj).expect("far below 2^127 fJ");
    let row = |name: String, a: u128, b: u128, s: Option<(u64, u64)>| {
        let difference_fj = signed(b) - signed(a);
        let difference = difference_fj as f64 / one;
        let (a_s, b_s) = (s.map(|s| s.0 as f64 / 1e9), s.map(|s| s.1 as f64 / 1e9));
        Row { name, a_fj: signed(a), b_fj: signed(b), difference_fj, difference, a_s, b_s }
    };
    let cells: BTreeSet<&EnergyCell> = a.cells.keys().chain(b.cells.keys()).collect();
    let of = |split: &EnergySplit, cell: &EnergyCell| split.cells.get(cell).map_or((0, 0), |(fj, ns)| (fj.0, *ns));
    let by_state = cells.into_iter().map(|cell| {
        let (a, b) = (of(a, cell), of(b, cell));
        row(cell_name(platform, cell), a.0, b.0, Some((a.1, b.1)))
    });
    let tasks: BTreeSet<&String> = a.tasks.keys().chain(b.tasks.keys()).collect();
    let task = |split: &EnergySplit, name: &String| split.tasks.get(name).map_or(0, |fj| fj.0);
    let by_task = tasks.into_iter().map(|name| row(name.clone(), task(a, name), task(b, name), None));
    let (a_fj, b_fj) = (a.total().0, b.total().0);
    Some(EnergyDelta {
        unit,
        a: a_fj as f64 / one,
        b: b_fj as f64 / one,
        difference_fj: signed(b_fj) - signed(a_fj),
        by_state: largest_first(by_state.collect()),
        by_task: largest_first(by_task.collect()),
    })
}

fn largest_first(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_by_key(|r| std::cmp::Reverse(r.difference_fj.abs()));
    rows
}

/// Such as `cpu4-7 1.421 GHz busy`, `clusters of cpu0-3 0.533 GHz CLUSTER_SLEEP`, `base`.
fn cell_name(platform: &Platform, cell: &EnergyCell) -> String {
    let (domain, what) = match cell.place {
        Place::Base => return "base".into(),
        Place::Cpus(d) => (d, ""),
        Place::Clusters(d) => (d, "cluster of "),
    };
    let d = &platform.domains[domain as usize];
    let ghz = f64::from(d.opps[cell.opp as usize].khz) / 1e6;
    let level = match cell.level {
        Level::Busy => "busy".to_string(),
        Level::Idle(state) => {
            let states = platform.idle_states(d.cpus.min().unwrap_or_default());
            states.get(usize::from(state)).map_or_else(|| format!("idle {state}"), |s| s.name.clone())
        }
    };
    format!("{what}cpu{} {ghz:.3} GHz {level}", d.cpus)
}

fn latency(a: &WaitSplit, b: &WaitSplit) -> WaitDelta {
    let (in_a, in_b): (BTreeMap<_, _>, BTreeMap<_, _>) =
        (a.bins().into_iter().collect(), b.bins().into_iter().collect());
    let mut causes: Vec<String> = a.bins().into_iter().map(|(cause, _)| cause).collect();
    for (cause, _) in b.bins() {
        if !causes.contains(&cause) {
            causes.insert(causes.len() - 2, cause); // among those it waited behind
        }
    }
    let per = |ns: u64, count: u64| (count > 0).then(|| ns as f64 / count as f64 / 1e3);
    let bin = |cause: String| {
        let (a_ns, b_ns) = (in_a.get(&cause).copied().unwrap_or(0), in_b.get(&cause).copied().unwrap_or(0));
        let per_wakeup_us = per(b_ns, b.count).zip(per(a_ns, a.count)).map(|(b, a)| b - a);
        Bin { cause, a_ns, b_ns, difference_ns: i128::from(b_ns) - i128::from(a_ns), per_wakeup_us }
    };
    WaitDelta {
        count: [a.count, b.count],
        mean_us: [per(a.total(), a.count), per(b.total(), b.count)],
        difference_ns: i128::from(b.total()) - i128::from(a.total()),
        bins: causes.into_iter().map(bin).collect(),
        before_waking_ns: [a.before_waking, b.before_waking],
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::metrics::testbed::platform;
    use wattif_model::Fj;

    pub fn split(cpu: u128, cluster: u128, tasks: &[(&str, u128)]) -> EnergySplit {
        let cell = |place, level| EnergyCell { place, opp: 1, level };
        EnergySplit {
            cells: [
                (cell(Place::Cpus(1), Level::Idle(1)), (Fj(cpu), 5)),
                (cell(Place::Clusters(0), Level::Busy), (Fj(cluster), 7)),
            ]
            .into(),
            tasks: tasks.iter().map(|(n, fj)| (n.to_string(), Fj(*fj))).collect(),
        }
    }

    #[test]
    fn rows_sum_to_the_difference_and_the_largest_comes_first() {
        let (a, b) = (split(100, 50, &[("x", 150)]), split(10, 70, &[("y", 80)]));
        let e = energy(&platform(), &a, &b).unwrap();
        assert_eq!((e.difference_fj, e.unit), (-70, "J"));
        for rows in [&e.by_state, &e.by_task] {
            assert_eq!(rows.iter().map(|r| r.difference_fj).sum::<i128>(), -70);
        }
        assert_eq!(e.by_state[0].name, "cpu2-3 1.000 GHz off");
        assert_eq!(e.by_state[1].name, "cluster of cpu0-1 1.000 GHz busy");
        assert_eq!(e.by_task[0].name, "x");
    }

    #[test]
    fn bins_of_both_sides_in_order() {
        let a = WaitSplit { count: 10, idle_exit: 100, path: 10, ..WaitSplit::default() };
        let b = WaitSplit { count: 5, behind: [("hog".to_string(), 30)].into(), path: 10, ..WaitSplit::default() };
        let d = latency(&a, &b);
        let causes: Vec<&str> = d.bins.iter().map(|b| b.cause.as_str()).collect();
        assert_eq!(causes, ["throttling", "idle exit", "frequency too low", "behind hog", "migration", "path"]);
        assert_eq!(d.bins.iter().map(|b| b.difference_ns).sum::<i128>(), d.difference_ns);
        assert_eq!((d.difference_ns, d.mean_us), (-70, [Some(0.011), Some(0.008)]));
        assert!((d.bins.iter().filter_map(|b| b.per_wakeup_us).sum::<f64>() - (0.008 - 0.011)).abs() < 1e-12);
    }

    /// Nobody who was woken came to run: that is no latency of 0.
    #[test]
    fn no_wake_up_has_no_mean() {
        let a = WaitSplit { count: 10, path: 10, ..WaitSplit::default() };
        let d = latency(&a, &WaitSplit::default());
        assert_eq!((d.count, d.mean_us), ([10, 0], [Some(0.001), None]));
        assert!(d.bins.iter().all(|b| b.per_wakeup_us.is_none()));
    }
}
