//! Parts of a kernel profile that an explanation exchanges.

use wattif_model::kernel::{KernelSpec, Slot};

/// What is exchanged at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Wake-up placement and load balancing.
    Placement,
    /// The frequency governor.
    Frequency,
    /// The idle governor.
    Idle,
    /// The class, load tracking and features: what the other three stand on. Only where profiles differ in it.
    Class,
}

impl Part {
    /// In a fixed order.
    pub const ALL: [Part; 4] = [Part::Placement, Part::Frequency, Part::Idle, Part::Class];

    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            Part::Placement => "placement and balance",
            Part::Frequency => "frequency",
            Part::Idle => "idle",
            Part::Class => "class and load",
        }
    }

    /// The part a slot belongs to.
    pub const fn of_slot(slot: Slot) -> Part {
        match slot {
            Slot::Placement | Slot::Balance => Part::Placement,
            Slot::Cpufreq => Part::Frequency,
            Slot::Cpuidle => Part::Idle,
            Slot::Class | Slot::Load => Part::Class,
        }
    }

    /// The part a scheduler feature belongs to.
    pub fn of_feature(name: &str) -> Part {
        let placing = ["SIS_", "WA_", "LB_", "NI_", "TTWU_QUEUE"];
        if placing.iter().any(|p| name.starts_with(p)) { Part::Placement } else { Part::Class }
    }
}

/// A profile with what it leaves to defaults, for comparing: `lab` does not know the registry.
pub struct KernelView<'a> {
    /// The slot of a policy.
    pub slot_of: &'a dyn Fn(&str) -> Option<Slot>,
    /// The default of `policy.tunable` or of a feature, as text.
    pub default_of: &'a dyn Fn(&str) -> Option<String>,
}

impl KernelView<'_> {
    /// The part of `policy.tunable`.
    pub fn part_of_tunable(&self, path: &str) -> Part {
        let policy = path.split('.').next().unwrap_or_default();
        (self.slot_of)(policy).map_or(Part::Class, Part::of_slot)
    }
}

/// The profile that takes these parts from `b` and all others from `a`. With none of them it is `a`, with all it is `b`,
/// names included.
pub fn mix(view: &KernelView<'_>, a: &KernelSpec, b: &KernelSpec, from_b: &[Part]) -> KernelSpec {
    let side = |part: Part| if from_b.contains(&part) { b } else { a };
    if Part::ALL.iter().all(|p| from_b.contains(p)) || from_b.is_empty() {
        return side(Part::Placement).clone();
    }
    let mut mixed = KernelSpec { name: format!("{}+{}", a.name, b.name), ..KernelSpec::default() };
    for part in Part::ALL {
        let from = side(part);
        let policies = from.policies.iter().filter(|(slot, _)| Part::of_slot(**slot) == part);
        mixed.policies.extend(policies.map(|(slot, name)| (*slot, name.clone())));
        let tunables = from.tunables.iter().filter(|(path, _)| view.part_of_tunable(path) == part);
        mixed.tunables.extend(tunables.map(|(path, value)| (path.clone(), value.clone())));
        let features = from.features.iter().filter(|(name, _)| Part::of_feature(name) == part);
        mixed.features.extend(features.map(|(name, on)| (name.clone(), *on)));
    }
    mixed
}

/// Parts to exchange: the three always, the fourth where the profiles differ in it; and the profile of every combination (bit
/// `i`: the `i`-th part is taken from `b`).
pub fn combinations(view: &KernelView<'_>, a: &KernelSpec, b: &KernelSpec) -> (Vec<Part>, Vec<KernelSpec>) {
    let three = [Part::Placement, Part::Frequency, Part::Idle];
    let without_names = |k: &KernelSpec| (k.policies.clone(), k.tunables.clone(), k.features.clone());
    let differs = without_names(&mix(view, a, b, &three)) != without_names(b);
    let parts: Vec<Part> = if differs { Part::ALL.into() } else { three.into() };
    let taken =
        |s: usize| parts.iter().enumerate().filter(|(i, _)| s >> i & 1 == 1).map(|(_, p)| *p).collect::<Vec<_>>();
    let last = (1usize << parts.len()) - 1;
    let of = |s: usize| if s == last { b.clone() } else { mix(view, a, b, &taken(s)) };
    let kernels = (0..=last).map(of).collect();
    (parts, kernels)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use wattif_model::kernel::Value;

    pub fn slot_of(policy: &str) -> Option<Slot> {
        match policy {
            "schedutil" | "performance" => Some(Slot::Cpufreq),
            "menu" | "teo" => Some(Slot::Cpuidle),
            "wake_affine" => Some(Slot::Placement),
            _ => None,
        }
    }

    pub fn default_of(name: &str) -> Option<String> {
        (name == "teo.generation").then(|| "6.12".to_string())
    }

    pub fn kernel(name: &str, cpufreq: &str, cpuidle: &str, tunables: &[(&str, i64)], features: &[&str]) -> KernelSpec {
        KernelSpec {
            hz: None,
            name: name.into(),
            title: name.into(),
            policies: [(Slot::Cpufreq, cpufreq.to_string()), (Slot::Cpuidle, cpuidle.to_string())].into(),
            tunables: tunables.iter().map(|(n, v)| (n.to_string(), Value::Int(*v))).collect(),
            features: features.iter().map(|n| (n.to_string(), true)).collect(),
        }
    }

    #[test]
    fn mixes_by_part() {
        let view = KernelView { slot_of: &slot_of, default_of: &default_of };
        let a = kernel("a", "schedutil", "menu", &[("schedutil.rate_limit_us", 1)], &["SIS_PROP"]);
        let b = kernel("b", "performance", "teo", &[("wake_affine.x", 2)], &["SIS_UTIL", "PLACE_LAG"]);
        assert_eq!(mix(&view, &a, &b, &[]), a);
        assert_eq!(mix(&view, &a, &b, &Part::ALL), b);
        let m = mix(&view, &a, &b, &[Part::Placement, Part::Idle]);
        assert_eq!((m.policies[&Slot::Cpufreq].as_str(), m.policies[&Slot::Cpuidle].as_str()), ("schedutil", "teo"));
        assert_eq!(m.tunables.keys().collect::<Vec<_>>(), ["schedutil.rate_limit_us", "wake_affine.x"]);
        assert_eq!(m.features.keys().collect::<Vec<_>>(), ["SIS_UTIL"]);
    }

    #[test]
    fn a_fourth_part_only_where_it_differs() {
        let view = KernelView { slot_of: &slot_of, default_of: &default_of };
        let a = kernel("a", "schedutil", "menu", &[], &[]);
        let b = kernel("b", "performance", "teo", &[], &[]);
        let (parts, kernels) = combinations(&view, &a, &b);
        assert_eq!((parts.len(), kernels.len()), (3, 8));
        assert_eq!((&kernels[0], &kernels[7]), (&a, &b));
        assert_eq!(kernels[1].policies, a.policies, "nothing to exchange there");
        let deeper = kernel("b", "performance", "teo", &[], &["PLACE_LAG"]);
        let (parts, kernels) = combinations(&view, &a, &deeper);
        assert_eq!((parts[3], kernels.len()), (Part::Class, 16));
        assert_eq!(kernels[15], deeper);
    }
}
