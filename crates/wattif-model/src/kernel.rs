//! The kernel under test: one policy of each kind, their tunables, the scheduler features.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

mod releases;

pub use releases::{HOLDS, Release, profile_of, why};

/// The first two numbers of a release, `6.12.30-android15`, or of what follows `linux-` in a profile's name.
pub fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// Kinds of policy; each kernel has exactly one policy of each of these slots, except placement, whose steps all run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Slot {
    /// The fair class: `cfs`, `eevdf`.
    Class,
    /// The load tracker: `pelt`.
    Load,
    /// Wake-up placement: `select_task_rq_fair`, or `eas`.
    Placement,
    /// The load balancer.
    Balance,
    /// The cpufreq governor.
    Cpufreq,
    /// The cpuidle governor.
    Cpuidle,
}

impl Slot {
    /// All slots in a fixed order.
    pub const ALL: [Slot; 6] = [Slot::Class, Slot::Load, Slot::Placement, Slot::Balance, Slot::Cpufreq, Slot::Cpuidle];

    /// Its name in a kernel profile and in `--set`.
    pub const fn name(self) -> &'static str {
        match self {
            Slot::Class => "class",
            Slot::Load => "load",
            Slot::Placement => "placement",
            Slot::Balance => "balance",
            Slot::Cpufreq => "cpufreq",
            Slot::Cpuidle => "cpuidle",
        }
    }
}

/// The value of a tunable.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// On or off.
    Bool(bool),
    /// A number, in the unit the tunable's name ends with.
    Int(i64),
    /// A word, such as a `generation`.
    Text(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bool(b) => b.fmt(f),
            Value::Int(i) => i.fmt(f),
            Value::Text(t) => f.write_str(t),
        }
    }
}

/// A resolved kernel profile: inheritance followed, every policy named, every tunable that differs from its default listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelSpec {
    /// Such as `linux-5.6`.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// Ticks a second (`CONFIG_HZ`), 24..=10000; `None`: those of the platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hz: Option<u32>,
    /// The policy in each slot.
    pub policies: BTreeMap<Slot, String>,
    /// `policy.tunable` → value, such as `select_idle_sibling.sched_idle` → `"5.6"`. Unlisted ones have the registry's default.
    pub tunables: BTreeMap<String, Value>,
    /// Scheduler features by the kernel's name, such as `SIS_PROP` → true. Unlisted ones have the registry's default.
    pub features: BTreeMap<String, bool>,
}
