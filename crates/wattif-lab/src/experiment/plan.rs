//! Which runs an experiment needs.

use super::{Experiment, Overrides, RowSpec};
use serde::Serialize;
use std::collections::BTreeSet;
use wattif_model::Ns;

/// One column of figures: everything of a run but its seed.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Arm {
    /// Platform.
    pub platform: String,
    /// Workload.
    pub workload: String,
    /// Kernel profile.
    pub kernel: String,
    /// How long, where it is not what the experiment says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Ns>,
    /// Settings on top.
    pub set: Overrides,
}

/// Arms × seeds, each arm once however many rows need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What to run.
    pub arms: Vec<Arm>,
    /// With each of these seeds.
    pub seeds: Vec<u64>,
}

impl Experiment {
    /// All runs its rows, counter-tests, tables, histograms and plots need.
    pub fn plan(&self) -> Plan {
        let mut arms = BTreeSet::new();
        for platform in &self.platforms {
            for arm in self.kernels.iter().chain(self.shown_arms(platform)) {
                arms.extend(self.resolve(arm, platform, &Overrides::new()));
            }
            for row in self.rows.iter().filter(|r| r.platforms.contains(platform)) {
                self.arms_of_row(row, platform, &mut arms);
            }
        }
        Plan { arms: arms.into_iter().collect(), seeds: (1..=self.seeds).collect() }
    }

    fn shown_arms(&self, platform: &String) -> impl Iterator<Item = &String> {
        let of_tables = self.tables.iter().filter(|t| t.platforms.contains(platform)).flat_map(|t| &t.arms);
        let of_correlations =
            self.correlations.iter().filter(|c| c.platforms.contains(platform)).flat_map(|c| c.loads.iter().flatten());
        let of_plots = self.plots.iter().filter(|p| p.platforms.contains(platform)).flat_map(|p| &p.arms);
        of_tables.chain(self.histograms.iter().flat_map(|h| &h.arms)).chain(of_plots).chain(of_correlations)
    }

    fn arms_of_row(&self, row: &RowSpec, platform: &str, arms: &mut BTreeSet<Arm>) {
        let named = row.arms.iter().chain(row.ratio.iter().flatten()).map(String::as_str);
        let named = named.chain(row.holds.iter().flat_map(|h| h.arms()));
        arms.extend(named.filter_map(|arm| self.resolve(arm, platform, &Overrides::new()).ok()));
        for counter in &row.counters {
            let ratio = counter.ratio.as_ref().or(row.ratio.as_ref()).filter(|_| counter.holds.uses_ratio());
            let named = ratio.into_iter().flatten().map(String::as_str).chain(counter.holds.arms());
            arms.extend(named.filter_map(|arm| self.resolve(arm, platform, &counter.set).ok()));
        }
    }

    /// Every figure it asks its runs for: a metric, and the task whose threads count.
    pub fn figures(&self) -> BTreeSet<(&str, Option<&str>)> {
        let rows = self.rows.iter().flat_map(|row| {
            let counters = row.counters.iter().flat_map(|c| c.metric.as_deref().into_iter().chain(c.holds.metrics()));
            let conditions = row.holds.iter().flat_map(|h| h.metrics()).chain(counters);
            conditions.chain([row.metric.as_str()]).map(|metric| (metric, row.threads.as_deref()))
        });
        let tables = self.tables.iter().flat_map(|t| t.metrics.iter().map(|m| (m.as_str(), t.threads.as_deref())));
        let plots = self.plots.iter().flat_map(|p| [&p.x, &p.y]).map(|(m, of)| (m.as_str(), of.as_deref()));
        let correlations = self.correlations.iter().flat_map(|c| [(c.x.as_str(), None), (c.y.as_str(), None)]);
        let histograms = self.histograms.iter().map(|h| ("wu_lat_us.count", h.threads.as_deref()));
        rows.chain(tables).chain(plots).chain(correlations).chain(histograms).collect()
    }

    /// What an arm's name stands for: `KERNEL`, `VARIANT`, `KERNEL+VARIANT` or more variants, later settings winning over
    /// those of the experiment; `set` on top of all.
    pub fn resolve(&self, name: &str, platform: &str, set: &Overrides) -> Result<Arm, String> {
        let mut parts = name.split('+').map(str::trim).peekable();
        let kernel = parts.next_if(|p| self.kernels.iter().any(|k| k == p));
        let mut arm = Arm {
            platform: platform.to_owned(),
            workload: self.workload.clone(),
            kernel: kernel.or(self.kernels.first().map(String::as_str)).unwrap_or_default().to_owned(),
            duration: None,
            set: self.set.clone(),
        };
        for part in parts {
            let variant = self.variants.get(part).ok_or_else(|| self.unknown(part))?;
            if let Some(own) = variant.kernel.as_ref().filter(|_| kernel.is_none()) {
                arm.kernel.clone_from(own);
            }
            variant.workload.iter().for_each(|w| arm.workload.clone_from(w));
            arm.duration = variant.duration.or(arm.duration);
            arm.set.extend(variant.set.clone());
        }
        arm.set.extend(set.clone());
        Ok(arm)
    }

    fn unknown(&self, part: &str) -> String {
        let known: Vec<&str> = self.kernels.iter().chain(self.variants.keys()).map(String::as_str).collect();
        format!("`{part}` is neither a kernel nor a variant of this experiment; known are {}", known.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::*;
    use wattif_model::Ns;
    use wattif_model::kernel::Value;

    /// Two platforms × three kernels, and on each the first two without hogs; `no_hogs` is the first of these again.
    #[test]
    fn arms_are_shared() {
        let plan = experiment().plan();
        assert_eq!((plan.arms.len(), plan.seeds.len(), plan.seeds[0]), (10, 20, 1));
        let without = plan.arms.iter().filter(|a| !a.set.is_empty());
        let kernels: Vec<&str> = without.map(|a| a.kernel.as_str()).collect();
        assert_eq!(kernels, ["linux-5.3", "linux-5.4", "linux-5.3", "linux-5.4"]);
    }

    #[test]
    fn every_figure_is_asked_for_once() {
        let of = |threads| ["count", "max", "mean", "min"].map(|stat| (format!("wu_lat_us.{stat}"), threads));
        let expect: Vec<_> = of(Some("cfs_thread")).into_iter().chain([("wu_lat_us.mean".into(), None)]).collect();
        let e = experiment();
        let mut found: Vec<_> = e.figures().into_iter().map(|(m, of)| (m.to_string(), of)).collect();
        found.sort_by_key(|(metric, of)| (of.is_none(), metric.clone()));
        assert_eq!(found, expect);
    }

    #[test]
    fn names_of_arms() {
        let mut e = experiment();
        let other = super::super::Variant {
            kernel: Some("linux-5.6".into()),
            workload: Some("phone.json".into()),
            duration: Some(Ns::from_s(7)),
            set: [("x".to_owned(), Value::Bool(true))].into(),
        };
        e.variants.insert("phone".into(), other);
        let of = |name: &str| e.resolve(name, "p", &Default::default()).map(|a| (a.kernel, a.workload, a.set.len()));
        let plain = "sched_idle.json".to_owned();
        assert_eq!(of("no_hogs"), Ok(("linux-5.3".into(), plain.clone(), 1)));
        assert_eq!(of("linux-5.4 + no_hogs"), Ok(("linux-5.4".into(), plain, 1)));
        let length = |name: &str| e.resolve(name, "p", &Default::default()).unwrap().duration;
        assert_eq!((length("phone"), length("linux-5.4+no_hogs")), (Some(Ns::from_s(7)), None));
        assert_eq!(of("phone"), Ok(("linux-5.6".into(), "phone.json".into(), 1)));
        assert_eq!(of("linux-5.4+no_hogs+phone"), Ok(("linux-5.4".into(), "phone.json".into(), 2)));
        assert!(of("linux-9").unwrap_err().contains("known are linux-5.3"));
        assert!(of("").is_err());
        // Settings of every arm, and a variant that says otherwise.
        e.set = [("x".to_owned(), Value::Bool(false)), ("y".to_owned(), Value::Int(1))].into();
        let set = |name: &str| e.resolve(name, "p", &Default::default()).unwrap().set;
        assert_eq!((set("linux-5.4").len(), set("no_hogs").len(), set("phone").len()), (2, 3, 2));
        assert_eq!(["linux-5.4", "phone"].map(|name| set(name)["x"].clone()), [Value::Bool(false), Value::Bool(true)]);
    }
}
