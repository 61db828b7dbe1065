//! How long did units of work take: frames, requests, transactions? From the marks of programs.

use super::distribution::{Distribution, Summary};
use serde::{Deserialize, Serialize};
use wattif_model::trace::{Event, Interest, Observer};
use wattif_model::{CpuId, Ns};

/// Units of work with one mark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MarkReport {
    /// From where each began until its mark, µs.
    pub duration_us: Summary,
    /// Share of the units within 5 % of the shortest.
    #[serde(default)]
    pub near_min_share: f64,
    /// Share of the units within 5 % of the longest.
    #[serde(default)]
    pub near_max_share: f64,
}

impl MarkReport {
    /// Of the durations of a mark.
    pub fn of(durations: &Distribution) -> MarkReport {
        let (near_min_share, near_max_share) = durations.near_extremes(0.05);
        MarkReport { duration_us: durations.summary_us(), near_min_share, near_max_share }
    }
}

/// Listens to marks.
#[derive(Clone, Debug)]
pub struct Frames(Vec<(String, Distribution)>);

impl Frames {
    /// Of a workload with these marks.
    pub fn new(marks: &[String]) -> Frames {
        Frames(marks.iter().map(|name| (name.clone(), Distribution::precise())).collect())
    }
    /// By mark, in the workload's order.
    pub fn marks(&self) -> impl Iterator<Item = (&str, &Distribution)> {
        self.0.iter().map(|(name, d)| (name.as_str(), d))
    }
}

impl Observer for Frames {
    fn interest(&self) -> Interest {
        Interest::PROGRAM
    }
    fn event(&mut self, at: Ns, _cpu: CpuId, event: &Event) {
        if let Event::Mark { mark, began_ns, .. } = *event
            && let Some((_, durations)) = self.0.get_mut(mark as usize)
        {
            durations.record(at.since(Ns(began_ns)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattif_model::Pid;

    #[test]
    fn durations_by_mark() {
        let mut f = Frames::new(&["frame".into(), "request".into()]);
        for (at, mark) in [(16_000, 0), (40_000, 0), (9_000, 1), (1, 7)] {
            f.event(Ns(at), CpuId(0), &Event::Mark { pid: Pid(1), mark, began_ns: 8_000 });
        }
        let got: Vec<_> = f.marks().map(|(n, d)| (n, d.count(), d.quantile(1.0))).collect();
        assert_eq!(got, [("frame", 2, 32_000), ("request", 1, 1_000)]);
    }
}
