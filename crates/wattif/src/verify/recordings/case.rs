//! `cases.json`: one recorded case a line, with its threads, window, figures and tolerances.

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;

/// A case.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Such as `nice_0_5_10`.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// Entry of `kernels.json`, and our profile of the same name.
    pub kernel: String,
    /// File in `platforms/`.
    pub platform: String,
    /// Text of the recording, below the folder.
    pub trace: String,
    /// rt-app file, below the folder.
    pub workload: String,
    /// `pelt_se` events, below the folder.
    #[serde(default)]
    pub pelt_csv: Option<String>,
    /// cpufreq governor.
    #[serde(default)]
    pub governor: Option<String>,
    /// Was energy-aware scheduling on?
    #[serde(default)]
    pub eas: Option<bool>,
    /// cpuidle governor.
    #[serde(default)]
    pub idle_governor: Option<String>,
    /// CPUs, in cases with an idle table.
    #[serde(default)]
    pub nr_cpus: Option<usize>,
    /// Idle states.
    #[serde(default)]
    pub idle_table: Vec<IdleRow>,
    /// Threads of the workload.
    pub threads: Vec<CaseThread>,
    /// What is compared of the time.
    pub window: Window,
    /// All threads run there.
    #[serde(default)]
    pub pinned_cpu: Option<u32>,
    /// CPUs by cluster.
    #[serde(default)]
    pub clusters: BTreeMap<String, Vec<u32>>,
    /// CPUs by frequency domain.
    #[serde(default)]
    pub policies: BTreeMap<String, Vec<u32>>,
    /// Highest frequency by domain.
    #[serde(default)]
    pub top_khz: BTreeMap<String, u32>,
    /// cgroup files by group: rt-app cannot set them.
    #[serde(default)]
    pub groups: BTreeMap<String, BTreeMap<String, serde_json::Value>>,
    /// Ticks of the recording come at this time modulo the tick, ms.
    pub tick_phase_ms: f64,
    /// Time zero of the workload in the recording; a tick.
    #[serde(default)]
    pub time_zero_s: Option<f64>,
    /// How often a thread's timer had passed already, %.
    #[serde(default)]
    pub late_timers_pct: BTreeMap<String, f64>,
    /// Figures of another boot.
    #[serde(default)]
    pub repeat: serde_json::Value,
    /// Remarks.
    #[serde(default)]
    pub notes: String,
    /// The figures of the recording.
    pub measured: serde_json::Map<String, serde_json::Value>,
    /// What may differ, by pattern of a figure's path; the first that matches holds.
    pub tolerance: Tolerances,
}

/// A row of the idle table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdleRow {
    /// Such as `WFI`.
    pub name: String,
    /// As the governor sees it, µs.
    pub exit_latency_us: u64,
    /// As the governor sees it, µs.
    pub target_residency_us: u64,
    /// What leaving costs, µs.
    pub actual_exit_us: u64,
}

/// A thread of the case.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseThread {
    /// Its name in `measured`.
    pub key: String,
    /// Its name in the recording.
    pub comm: String,
    /// Which of that name, by start.
    #[serde(default)]
    pub nth: usize,
    /// Threads of that name to pass over.
    #[serde(default)]
    pub skip_first: usize,
    /// Task of the workload file.
    pub task: String,
    /// Which of its instances.
    pub instance: usize,
    /// Its `delay` in the workload file, µs.
    #[serde(default)]
    pub delay_us: u64,
    /// Group of figures.
    pub group: String,
}

/// How the window is cut.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// On which lifetimes.
    #[serde(default)]
    pub kind: WindowKind,
    /// Group whose threads count, for `span`.
    #[serde(default)]
    pub group: Option<String>,
    /// Left out at the beginning, ms.
    #[serde(default)]
    pub skip_head_ms: f64,
    /// Left out at the end, ms.
    #[serde(default)]
    pub skip_tail_ms: f64,
    /// Beginning in a run of the workload file, after its time zero, ms.
    #[serde(default)]
    pub start_after_zero_ms: Option<f64>,
}

/// On which lifetimes a window lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WindowKind {
    /// From the last start to the first end.
    #[default]
    Overlap,
    /// From the first start to the last end.
    Union,
    /// The same of one group.
    Span,
}

/// What a figure may differ by.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Tolerance {
    /// Allowed: the larger of the two.
    Within(Allowed),
    /// `info`: to look at, not compared.
    Info(Info),
}

/// An allowed difference.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allowed {
    /// In the figure's unit.
    #[serde(default)]
    pub abs: f64,
    /// As a part of the measured value.
    #[serde(default)]
    pub rel: f64,
}

/// The word `info`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Info {
    /// Not compared.
    #[serde(rename = "info")]
    Info,
}

/// Patterns in the order of the file.
#[derive(Clone, Debug, Default)]
pub struct Tolerances(Vec<(String, Tolerance)>);

impl Tolerances {
    /// How far the figure at `path` may be from `measured`; `None`: it is not compared.
    pub fn allowed(&self, path: &str, measured: f64) -> Option<f64> {
        let (_, tolerance) = self.0.iter().find(|(pattern, _)| matches(pattern.as_bytes(), path.as_bytes()))?;
        match tolerance {
            Tolerance::Within(a) => Some(a.abs.max(a.rel * measured.abs())),
            Tolerance::Info(_) => None,
        }
    }
}

impl<'de> Deserialize<'de> for Tolerances {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Tolerances, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Tolerances;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("patterns with {abs, rel} or \"info\"")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tolerances, A::Error> {
                let mut all = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    all.push(entry);
                }
                Ok(Tolerances(all))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

/// A shell pattern with `*` and `?`; a `*` matches dots too.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t, mut star) = (0, 0, None);
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&c) if c == b'?' || c == text[t] => (p, t) = (p + 1, t + 1),
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    (p, t) = (at + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_pattern_holds() {
        let text = r#"{"groups.a.*": {"rel": 0.1, "abs": 5}, "groups.*.switches": "info", "*": "info"}"#;
        let t: Tolerances = serde_json::from_str(text).unwrap();
        assert_eq!(t.allowed("groups.a.switches", 100.0), Some(10.0));
        assert_eq!(t.allowed("groups.a.switches", 10.0), Some(5.0));
        assert_eq!(t.allowed("groups.b.switches", 100.0), None);
        for bad in [r#"{"*": "inof"}"#, r#"{"*": {"abbs": 1}}"#, r#"{"*": 3}"#] {
            assert!(serde_json::from_str::<Tolerances>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn shell_patterns() {
        for (pattern, text, want) in [
            ("a.*.c", "a.b.b.c", true),
            ("a.*.c", "a.b.d", false),
            ("*", "", true),
            ("idle*.share", "idle_3.share", true),
            ("a?c", "abc", true),
            ("abc", "abcd", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), want, "{pattern} {text}");
        }
    }
}
