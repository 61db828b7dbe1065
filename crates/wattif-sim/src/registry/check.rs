//! What is wrong with a kernel profile.

use super::{POLICIES, Tunable, Tunables, policy};
use crate::cpufreq::interactive;
use crate::sched::class::dl_bandwidth::to_ratio;
use crate::sched::features::Features;
use wattif_model::kernel::{KernelSpec, Slot, Value};

/// Something that is wrong with a kernel profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Tunables of which another value would do, as paths: the refused one, and what limits it.
    pub tunables: Vec<String>,
    /// What is wrong.
    pub message: String,
}

impl Refusal {
    fn new(tunables: &[&str], message: String) -> Refusal {
        Refusal { tunables: tunables.iter().map(|path| (*path).to_string()).collect(), message }
    }
    /// All of them in one text.
    pub fn join(all: &[Refusal], between: &str) -> String {
        all.iter().map(|r| r.message.as_str()).collect::<Vec<_>>().join(between)
    }
}

/// What is wrong with a kernel profile: unknown policies, tunables, features, values.
pub fn check(kernel: &KernelSpec) -> Vec<Refusal> {
    let mut wrong = Vec::new();
    let unknown = |message| Refusal::new(&[], message);
    for (slot, name) in &kernel.policies {
        match policy(name) {
            Some(p) if p.slot == *slot && p.selectable => {}
            _ => wrong.push(unknown(format!(
                "`{name}` is no policy of kind {}; there are: {}",
                slot.name(),
                names(*slot)
            ))),
        }
    }
    let of_tunable = |(path, value): (&String, &Value)| Some(Refusal::new(&[path], check_tunable(path, value)?));
    wrong.extend(kernel.tunables.iter().filter_map(of_tunable));
    wrong.extend(crossed_thresholds(kernel));
    wrong.extend(rt_budget_beyond(kernel));
    wrong.extend(fair_server_beyond(kernel));
    for name in kernel.features.keys().filter(|n| !Features::ALL.iter().any(|(f, _)| f == n)) {
        wrong.push(unknown(format!("there is no scheduler feature `{name}`")));
    }
    wrong
}

fn names(slot: Slot) -> String {
    let of_slot = POLICIES.iter().filter(|p| p.slot == slot && p.selectable);
    of_slot.map(|p| p.name).collect::<Vec<_>>().join(", ")
}

fn check_tunable(path: &str, value: &Value) -> Option<String> {
    let Some((name, tunable)) = path.split_once('.') else {
        return Some(format!("`{path}` is no `policy.tunable`"));
    };
    let Some(policy) = policy(name) else {
        return Some(format!("there is no policy `{name}`"));
    };
    let Some(known) = policy.tunable(tunable) else {
        let all: Vec<&str> = policy.tunables.iter().map(|t| t.name).collect();
        return Some(format!("`{name}` has no tunable `{tunable}`; it has: {}", all.join(", ")));
    };
    let text = value.to_string();
    // A number has one spelling: another one would be another run, or none that can be read.
    let number = text.parse().ok().filter(|n: &i64| n.to_string() == text);
    let in_range = |a: &&str| range(a).zip(number).is_some_and(|(r, n)| r.contains(&n));
    // Written out, a range is no word of its own.
    let is_word = |a: &&str| *a == text && range(a).is_none() && pairs(known).is_none_or(|(kind, _)| *a != kind);
    if text == known.default || known.allowed.iter().any(|a| is_word(a) || in_range(a)) {
        return None;
    }
    if let Some((kind, parse)) = pairs(known) {
        let refusal = || format!("`{path}` takes {kind}, such as `85 1000000:90`, not `{text}`");
        return parse(&text).is_none().then(refusal);
    }
    Some(format!("`{path}` takes one of {}, not `{text}`", known.allowed.join(", ").replace("..=", " to ")))
}

type ParseSteps = fn(&str) -> Option<interactive::Steps>;

/// Of a tunable that depends on the frequency, what it takes and its reader.
pub(super) fn pairs(tunable: &Tunable) -> Option<(&'static str, ParseSteps)> {
    let kind = |kind| tunable.allowed.contains(&kind).then_some(kind);
    let any = kind(Tunable::PAIRS).map(|kind| (kind, interactive::Steps::parse as ParseSteps));
    any.or_else(|| Some((kind(Tunable::PAIRS_FROM_1)?, interactive::Steps::parse_from_1)))
}

/// Conservative thresholds that the kernel refuses: the lower one must be below the upper one.
fn crossed_thresholds(kernel: &KernelSpec) -> Option<Refusal> {
    let t = Tunables::of(kernel, "conservative");
    let (down, up) = (t.maybe_int::<u64>("down_threshold")?, t.maybe_int::<u64>("up_threshold")?);
    let refused =
        || format!("`conservative.down_threshold` takes less than `up_threshold`, which is {up}, not `{down}`");
    (down >= up).then(|| Refusal::new(&["conservative.down_threshold", "conservative.up_threshold"], refused()))
}

/// A real-time budget that the kernel refuses: more than its period.
fn rt_budget_beyond(kernel: &KernelSpec) -> Option<Refusal> {
    let t = Tunables::of(kernel, "rt");
    let (runtime, period) = (t.maybe_int::<u64>("sched_rt_runtime_us")?, t.maybe_int::<u64>("sched_rt_period_us")?);
    let refused = || {
        format!(
            "`rt.sched_rt_runtime_us` takes at most `sched_rt_period_us`, which is {period}, or -1, not `{runtime}`"
        )
    };
    (runtime > period).then(|| Refusal::new(&["rt.sched_rt_runtime_us", "rt.sched_rt_period_us"], refused()))
}

/// A fair server that the kernel refuses when it is set: more than its period, or than deadline tasks may have.
fn fair_server_beyond(kernel: &KernelSpec) -> Option<Refusal> {
    const RUNTIME: &str = "deadline.fair_server_runtime_us";
    const PERIOD: &str = "deadline.fair_server_period_us";
    let t = Tunables::of(kernel, "deadline");
    let set = [RUNTIME, PERIOD].iter().any(|path| kernel.tunables.contains_key(*path));
    if !set || t.text("generation") != "6.12" {
        return None;
    }
    let (runtime, period) =
        (t.maybe_int::<u64>("fair_server_runtime_us")?, t.maybe_int::<u64>("fair_server_period_us")?);
    let refused = |limit: &str, most: String| {
        Some(Refusal::new(&[RUNTIME, limit], format!("`{RUNTIME}` takes at most {most}, not `{runtime}`")))
    };
    if runtime > period {
        return refused(PERIOD, format!("`fair_server_period_us`, which is {period}"));
    }
    let rt = Tunables::of(kernel, "rt");
    let (limit, of) = (rt.maybe_int::<u64>("sched_rt_runtime_us")?, rt.maybe_int::<u64>("sched_rt_period_us")?);
    if to_ratio(period, runtime) <= to_ratio(of, limit) {
        return None;
    }
    let most = u128::from(period) * u128::from(limit) / u128::from(of.max(1));
    refused(
        "rt.sched_rt_runtime_us",
        format!("{most}, the share of its period that `rt.sched_rt_runtime_us` leaves to deadline tasks"),
    )
}

/// Such as `1..=49` among the values of a tunable.
pub(super) fn range(allowed: &str) -> Option<std::ops::RangeInclusive<i64>> {
    let (lo, hi) = allowed.split_once("..=")?;
    Some(lo.parse().ok()?..=hi.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_one_spelling() {
        let mut kernel = KernelSpec::default();
        for (text, takes) in [("0", true), ("5", true), ("-0", false), ("+5", false), ("05", false), ("-1", false)] {
            kernel.tunables.insert("userspace.setspeed_khz".into(), Value::Text(text.into()));
            assert_eq!(check(&kernel).is_empty(), takes, "{text}");
        }
    }

    #[test]
    fn budgets_are_those_that_the_kernel_takes() {
        let wrong = |set: &[(&str, &str)]| {
            let mut kernel = KernelSpec::default();
            kernel.tunables.extend(set.iter().map(|&(path, value)| (path.into(), Value::Text(value.into()))));
            Refusal::join(&check(&kernel), "; ")
        };
        let (rt, rt_period) = ("rt.sched_rt_runtime_us", "rt.sched_rt_period_us");
        let (server, period) = ("deadline.fair_server_runtime_us", "deadline.fair_server_period_us");
        for set in [
            &[(rt, "1000000")][..],
            &[(rt, "-1"), (rt_period, "500000")],
            &[(rt, "500000"), (rt_period, "500000")],
            &[(rt, "0")],
            &[(server, "950000")],
            &[(server, "1000000"), (rt, "-1")],
            &[(server, "1000000"), (rt, "1000000")],
            &[(server, "0"), (rt, "0")],
            &[(server, "100000"), (period, "100"), ("deadline.generation", "6.6")],
        ] {
            assert_eq!(wrong(set), "", "{set:?}");
        }
        assert_eq!(
            wrong(&[(rt, "1000001")]),
            "`rt.sched_rt_runtime_us` takes at most `sched_rt_period_us`, which is 1000000, or -1, not `1000001`"
        );
        assert!(wrong(&[(rt_period, "500000")]).contains("which is 500000, or -1, not `950000`"));
        assert_eq!(
            wrong(&[(server, "1000"), (period, "999"), (rt, "-1")]),
            "`deadline.fair_server_runtime_us` takes at most `fair_server_period_us`, which is 999, not `1000`"
        );
        assert_eq!(
            wrong(&[(server, "1000000")]),
            "`deadline.fair_server_runtime_us` takes at most 950000, the share of its period that `rt.sched_rt_runtime_us` \
             leaves to deadline tasks, not `1000000`"
        );
        assert!(wrong(&[(period, "50000")]).contains("at most 47500,"), "{}", wrong(&[(period, "50000")]));
    }

    #[test]
    fn thresholds_are_those_that_the_kernel_takes() {
        let wrong = |path: &str, value: i64| {
            let mut kernel = KernelSpec::default();
            kernel.tunables.insert(path.into(), Value::Int(value));
            check(&kernel)
        };
        for (path, takes, refuses) in [
            ("ondemand.up_threshold", [1, 100], [0, 101]),
            ("ondemand.sampling_down_factor", [1, 100_000], [0, 100_001]),
            ("conservative.up_threshold", [21, 100], [20, 101]),
            ("conservative.down_threshold", [1, 79], [0, 80]),
            ("conservative.sampling_down_factor", [1, 10], [0, 11]),
        ] {
            assert!(takes.iter().all(|&v| wrong(path, v).is_empty()), "{path}");
            assert!(refuses.iter().all(|&v| wrong(path, v).len() == 1), "{path}");
        }
    }
}
