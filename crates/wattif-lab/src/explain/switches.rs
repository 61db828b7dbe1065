//! From one kernel profile to another, one switch at a time.

use super::parts::KernelView;
use crate::stats::{bca_mean, mean};
use serde::Serialize;
use std::collections::BTreeSet;
use wattif_model::kernel::{KernelSpec, Slot, Value};

/// Something in which two profiles differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Switch {
    /// Such as `cpuidle: menu → teo` or `schedutil.rate_limit_us: 1000 → 500`.
    pub name: String,
    what: What,
}

#[derive(Clone, Debug, PartialEq)]
enum What {
    /// A slot gets another policy, with the tunables that both profiles have for either.
    Policy(Slot, String, Vec<(String, Option<Value>)>),
    Tunable(String, Option<Value>),
    Feature(String, Option<bool>),
}

impl Switch {
    /// Set it as in B.
    pub fn apply(&self, kernel: &mut KernelSpec) {
        let set = |kernel: &mut KernelSpec, path: &String, value: &Option<Value>| match value {
            Some(value) => drop(kernel.tunables.insert(path.clone(), value.clone())),
            None => drop(kernel.tunables.remove(path)),
        };
        match &self.what {
            What::Policy(slot, policy, tunables) => {
                kernel.policies.insert(*slot, policy.clone());
                tunables.iter().for_each(|(path, value)| set(kernel, path, value));
            }
            What::Tunable(path, value) => set(kernel, path, value),
            What::Feature(name, Some(on)) => drop(kernel.features.insert(name.clone(), *on)),
            What::Feature(name, None) => drop(kernel.features.remove(name)),
        }
    }
}

/// All of them, in the order of the slots, then tunables and features by name. Applied one after the other to `a` they lead to
/// what `b` does.
pub fn switches(view: &KernelView<'_>, a: &KernelSpec, b: &KernelSpec) -> Vec<Switch> {
    let mut found = Vec::new();
    let mut covered: Vec<String> = Vec::new();
    for slot in Slot::ALL {
        let (from, to) = (a.policies.get(&slot), b.policies.get(&slot));
        if let Some((from, to)) = from.zip(to).filter(|(from, to)| from != to) {
            let of_either = |path: &&String| path.split('.').next().is_some_and(|p| p == from || p == to);
            let paths: BTreeSet<&String> = a.tunables.keys().chain(b.tunables.keys()).filter(of_either).collect();
            let tunables = paths.into_iter().map(|p| (p.clone(), b.tunables.get(p).cloned())).collect();
            covered.extend([from.clone(), to.clone()]);
            let name = format!("{}: {from} → {to}", slot.name());
            found.push(Switch { name, what: What::Policy(slot, to.clone(), tunables) });
        }
    }
    let default = |name: &str| (view.default_of)(name).unwrap_or_else(|| "default".into());
    let paths: BTreeSet<&String> = a.tunables.keys().chain(b.tunables.keys()).collect();
    for path in paths.into_iter().filter(|p| !covered.iter().any(|c| p.split('.').next() == Some(c))) {
        let shown = |k: &KernelSpec| k.tunables.get(path).map_or_else(|| default(path), Value::to_string);
        if shown(a) != shown(b) {
            let name = format!("{path}: {} → {}", shown(a), shown(b));
            found.push(Switch { name, what: What::Tunable(path.clone(), b.tunables.get(path).cloned()) });
        }
    }
    let features: BTreeSet<&String> = a.features.keys().chain(b.features.keys()).collect();
    for name in features {
        let shown = |k: &KernelSpec| k.features.get(name).map_or_else(|| default(name), bool::to_string);
        if shown(a) != shown(b) {
            let text = format!("{name}: {} → {}", shown(a), shown(b));
            found.push(Switch { name: text, what: What::Feature(name.clone(), b.features.get(name).copied()) });
        }
    }
    found
}

/// One switch of the walk.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// [`Switch::name`].
    pub switch: String,
    /// What it adds after all before it; the steps sum to the difference.
    pub value: f64,
    /// 95 % interval over seeds; `None` below two.
    pub ci95: Option<[f64; 2]>,
    /// What it does alone, in A.
    pub alone: f64,
    /// Its 95 % interval.
    pub alone_ci95: Option<[f64; 2]>,
    /// It carries the difference: at least a twentieth of it, and not by chance.
    pub carries: bool,
}

/// The walk from A to B for one metric.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bisection {
    /// Which metric.
    pub metric: String,
    /// Mean of A.
    pub baseline: f64,
    /// Mean of B less mean of A.
    pub difference: f64,
    /// Its 95 % interval.
    pub ci95: Option<[f64; 2]>,
    /// In order.
    pub steps: Vec<Step>,
}

/// Is a step part of the answer? Its interval leaves out 0 (with too few seeds for one: it is not 0), and it is not tiny.
pub fn carries(value: f64, ci95: Option<[f64; 2]>, difference: f64) -> bool {
    let sure = ci95.map_or(value != 0.0, |[lo, hi]| lo > 0.0 || hi < 0.0);
    sure && value.abs() >= difference.abs() / 20.0
}

impl Bisection {
    /// From the metric along the walk, `walk[i]` after `i` switches, and of each switch alone; each by seed.
    pub fn of(metric: &str, switches: &[Switch], walk: &[Vec<f64>], alone: &[Vec<f64>]) -> Bisection {
        assert_eq!((walk.len(), alone.len()), (switches.len() + 1, switches.len()), "a run after every switch");
        let less = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x - y).collect::<Vec<f64>>();
        let whole = less(&walk[switches.len()], &walk[0]);
        let difference = mean(&whole);
        let step = |(i, switch): (usize, &Switch)| {
            let (here, alone) = (less(&walk[i + 1], &walk[i]), less(&alone[i], &walk[0]));
            let (value, ci95) = (mean(&here), bca_mean(&here));
            Step {
                switch: switch.name.clone(),
                value,
                ci95,
                alone: mean(&alone),
                alone_ci95: bca_mean(&alone),
                carries: carries(value, ci95, difference),
            }
        };
        Bisection {
            metric: metric.to_string(),
            baseline: mean(&walk[0]),
            difference,
            ci95: bca_mean(&whole),
            steps: switches.iter().enumerate().map(step).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::parts::tests::{default_of, kernel, slot_of};
    use super::*;

    fn view() -> KernelView<'static> {
        KernelView { slot_of: &slot_of, default_of: &default_of }
    }

    #[test]
    fn the_walk_ends_at_b() {
        let a =
            kernel("a", "schedutil", "menu", &[("schedutil.rate_limit_us", 1), ("wake_affine.x", 3)], &["SIS_PROP"]);
        let b = kernel("b", "schedutil", "teo", &[("schedutil.rate_limit_us", 2), ("teo.y", 7)], &["SIS_UTIL"]);
        let found = switches(&view(), &a, &b);
        let names: Vec<&str> = found.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "cpuidle: menu → teo",
                "schedutil.rate_limit_us: 1 → 2",
                "wake_affine.x: 3 → default",
                "SIS_PROP: true → default",
                "SIS_UTIL: default → true"
            ]
        );
        let mut walked = a.clone();
        found.iter().for_each(|s| s.apply(&mut walked));
        assert_eq!((&walked.policies, &walked.tunables, &walked.features), (&b.policies, &b.tunables, &b.features));
        assert!(switches(&view(), &b, &b).is_empty());
    }

    #[test]
    fn a_default_written_out_is_no_switch() {
        let a = kernel("a", "schedutil", "teo", &[], &[]);
        let mut b = a.clone();
        b.tunables.insert("teo.generation".into(), Value::Text("6.12".into()));
        assert!(switches(&view(), &a, &b).is_empty());
    }

    #[test]
    fn steps_sum_and_carriers_are_named() {
        let a = kernel("a", "schedutil", "menu", &[("schedutil.rate_limit_us", 1)], &[]);
        let b = kernel("b", "schedutil", "teo", &[("schedutil.rate_limit_us", 2)], &[]);
        let s = switches(&view(), &a, &b);
        let noisy = |mean: f64| (0..8).map(|i| mean + f64::from(i % 3)).collect::<Vec<f64>>();
        let jitter = vec![0.3, -0.2, 0.1, -0.1, 0.2, -0.3, 0.05, -0.05];
        let walk = [noisy(100.0), noisy(90.0), noisy(90.0).iter().zip(&jitter).map(|(a, b)| a + b).collect()];
        let alone = [noisy(90.0), noisy(100.0)];
        let found = Bisection::of("energy.total", &s, &walk, &alone);
        let sum: f64 = found.steps.iter().map(|s| s.value).sum();
        assert!((sum - found.difference).abs() < 1e-9);
        assert_eq!(found.steps.iter().map(|s| s.carries).collect::<Vec<_>>(), [true, false]);
        assert_eq!((found.steps[0].alone, found.steps[1].alone), (-10.0, 0.0));
    }
}
