//! Settings that change nothing under a kernel: another policy stands in their slot, another generation of it, or nobody reads them.

use super::build::{boost_of, knows_schedtune, rt_bandwidth, wants_eas};
use super::{Tunables, chosen, policy};
use crate::sched::placement::cpu_util::Boost;
use wattif_model::kernel::{KernelSpec, Slot};

/// Why setting this changes nothing under a kernel that [`check`](super::check) finds nothing wrong with, if so: another policy stands in
/// its slot, another generation of it, or nobody reads it.
pub fn without_effect(kernel: &KernelSpec, path: &str) -> Option<String> {
    let (name, tunable) = path.rsplit_once('.')?;
    if name == "features" {
        return feature_without_effect(kernel, tunable).map(|why| format!("{path} changes nothing: {why}"));
    }
    let p = policy(name.rsplit('.').next()?)?;
    let doc = p.tunable(tunable)?.doc;
    let generation = |of: &str| Tunables::of(kernel, of).text("generation");
    let stands = chosen(kernel, p.slot);
    let slot_is = || format!("{} is {stands}", p.slot.name());
    let qti = || chosen(kernel, Slot::Cpufreq) == "schedutil" && generation("schedutil") == "4.9-qti";
    let why = match (p.name, tunable) {
        // Balancing reads PELT under any tracker.
        ("pelt", _) => None,
        (name, _) if p.selectable && stands != name => Some(slot_is()),
        ("walt_qti", _) if stands != "walt" => Some(slot_is()),
        ("walt_qti", "predicted_demand" | "new_task_load") => {
            (!qti()).then(|| "only schedutil of generation 4.9-qti reads it".to_string())
        }
        ("util_est", _) => feature_without_effect(kernel, "UTIL_EST").or_else(|| {
            let off = kernel.features.get("UTIL_EST") == Some(&false);
            off.then(|| "the feature UTIL_EST is off".to_string())
        }),
        ("schedtune", _) => {
            (!knows_schedtune(kernel)).then(|| "only kernels of generation 4.9 know schedtune".to_string())
        }
        ("schedutil", "generation") if qti() && chosen(kernel, Slot::Load) != "walt" => {
            return Some(format!("{path} is as 4.9: load is {}", chosen(kernel, Slot::Load)));
        }
        ("schedutil", "rate_limit_us") if generation("schedutil").starts_with("4.9") => {
            let t = Tunables::of(kernel, "schedutil");
            let both = ["up_rate_limit_us", "down_rate_limit_us"].iter().all(|l| t.maybe_int::<u64>(l).is_some());
            both.then(|| "up_rate_limit_us and down_rate_limit_us are set".to_string())
        }
        ("eas", "generation") if generation("eas") != "off" && !wants_eas(kernel) => {
            let stands = chosen(kernel, Slot::Cpufreq);
            return Some(format!("{path} is as off: energy-aware placement needs schedutil, cpufreq is {stands}"));
        }
        ("cpu_util", _) => cpu_util_without_effect(kernel, tunable),
        ("deadline", "known") => Some("deadline threads are simulated either way, it only decides about a note".into()),
        ("deadline", "reclaim") if generation("deadline") == "4.10" => {
            Some("deadline.generation is 4.10, whose tasks cannot reclaim (4.13)".into())
        }
        ("teo", "intervals") => {
            let has = generation("teo");
            (!matches!(has.as_str(), "5.1" | "5.4" | "5.6"))
                .then(|| format!("only generations 5.1, 5.4 and 5.6 have it, this is {has}"))
        }
        ("poll_state", _) => polling_without_effect(kernel),
        ("pm_qos", "cpu_latency_us") => latency_limit_without_effect(kernel),
        _ => None,
    };
    let other = || {
        let only = doc.strip_prefix("generation ").and_then(|doc| doc.split(':').next())?;
        let has = generation(p.name);
        (!has.starts_with(only)).then(|| format!("only generation {only} has it, this is {has}"))
    };
    why.or_else(other).map(|why| format!("{path} changes nothing: {why}"))
}

/// The latency limit of the run, µs.
pub(super) fn latency_limit_us(kernel: &KernelSpec) -> Option<u64> {
    Tunables::of(kernel, "pm_qos").maybe_int("cpu_latency_us")
}

/// Why nobody asks how long to poll, if so.
fn polling_without_effect(kernel: &KernelSpec) -> Option<String> {
    let limit = latency_limit_us(kernel);
    match chosen(kernel, Slot::Cpuidle) {
        "oracle" => Some("cpuidle is oracle, which knows when to stop".into()),
        // Where waking up may take no time it polls before it has a limit.
        "haltpoll" if limit != Some(0) => Some("cpuidle is haltpoll, which has a limit of its own".into()),
        _ => None,
    }
}

/// Why no idle governor heeds the latency limit, if so.
fn latency_limit_without_effect(kernel: &KernelSpec) -> Option<String> {
    let limit = latency_limit_us(kernel)?;
    match chosen(kernel, Slot::Cpuidle) {
        "oracle" => Some("cpuidle is oracle, which never wakes up late: no limit binds it".into()),
        "haltpoll" if limit != 0 => Some("cpuidle is haltpoll, which only looks whether the limit is 0".into()),
        _ => None,
    }
}

/// Why nobody reads this tunable of `cpu_util`, if so.
fn cpu_util_without_effect(kernel: &KernelSpec, tunable: &str) -> Option<String> {
    let walt = chosen(kernel, Slot::Load) == "walt";
    let t = Tunables::of(kernel, "cpu_util");
    let readers = || ["schedutil", "eas", "balance"].into_iter().filter(|c| does_not_read(kernel, c).is_none());
    let in_use = |scheme: fn(&Boost) -> bool| readers().any(|c| scheme(&boost_of(kernel, c)));
    let no_waiting = |boost: Boost| {
        let by_waiting = walt && !matches!(boost, Boost::Off | Boost::ResponseTime { .. });
        by_waiting.then(|| "load is walt, whose signals do not say who waits".to_string())
    };
    match tunable {
        "uclamp" => None,
        "uclamp_fits" => (t.text("uclamp") == "off").then(|| "nobody's clamps are heard, uclamp is off".to_string()),
        "gate_pct" => (!in_use(|b| matches!(b, Boost::RelGate(_)))).then(|| "no scheme in use is rel-gate".to_string()),
        "delay_us" => (!in_use(|b| matches!(b, Boost::ResponseTime { .. })))
            .then(|| "no scheme in use is response-time".to_string()),
        "boost" => match readers().find(|c| t.text(c) == "same") {
            Some(consumer) => no_waiting(boost_of(kernel, consumer)),
            None => Some("nothing in this kernel reads it".to_string()),
        },
        consumer => does_not_read(kernel, consumer).or_else(|| no_waiting(boost_of(kernel, consumer))),
    }
}

/// Why a consumer of `cpu_util` asks for no boosted utilisation, if so.
fn does_not_read(kernel: &KernelSpec, consumer: &str) -> Option<String> {
    let generation = |of: &str| Tunables::of(kernel, of).text("generation");
    let (cpufreq, balance) = (chosen(kernel, Slot::Cpufreq), chosen(kernel, Slot::Balance));
    match consumer {
        "balance" if balance != "load_balance" => Some(format!("balance is {balance}")),
        "balance" => {
            let has = generation("load_balance");
            let reads = matches!(has.as_str(), "6.6" | "6.12");
            (!reads).then(|| format!("only load_balance of generation 6.6 and later reads it, this is {has}"))
        }
        _ if cpufreq != "schedutil" => Some(format!("cpufreq is {cpufreq}")),
        "eas" => {
            let has = generation("eas");
            matches!(has.as_str(), "off" | "4.9").then(|| format!("eas.generation is {has}"))
        }
        _ => None,
    }
}

/// Why a scheduler feature changes nothing under a kernel, if so.
fn feature_without_effect(kernel: &KernelSpec, name: &str) -> Option<String> {
    let (class, load) = (chosen(kernel, Slot::Class), chosen(kernel, Slot::Load));
    let idle = match name {
        "UTIL_EST" if load == "walt" => "load is walt",
        "GENTLE_FAIR_SLEEPERS" | "START_DEBIT" | "ALT_PERIOD" | "BASE_SLICE" | "LAST_BUDDY" if class == "eevdf" => {
            "class is eevdf"
        }
        "PLACE_LAG"
        | "PLACE_DEADLINE_INITIAL"
        | "PLACE_REL_DEADLINE"
        | "RUN_TO_PARITY"
        | "PREEMPT_SHORT"
        | "DELAY_DEQUEUE"
        | "DELAY_ZERO"
        | "PICK_BUDDY"
            if class == "cfs" =>
        {
            "class is cfs"
        }
        "WA_IDLE" | "WA_WEIGHT" | "WA_BIAS" if Tunables::of(kernel, "wake_affine").text("generation") == "3.13" => {
            "wake_affine.generation is 3.13"
        }
        "SIS_PROP" => "select_idle_sibling.scan says how far to scan",
        "SIS_UTIL" if Tunables::of(kernel, "select_idle_sibling").text("scan") != "util" => {
            "select_idle_sibling.scan says how far to scan, and not by utilisation"
        }
        "RT_RUNTIME_SHARE" if rt_bandwidth(kernel).is_none() => "the real-time class has no limit here to share",
        _ => return None,
    };
    Some(idle.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;
    use wattif_model::kernel::Value;

    #[test]
    fn settings_without_effect() {
        let mut kernel = KernelSpec::default();
        kernel.policies.insert(Slot::Cpuidle, "teo".into());
        let why = |kernel: &KernelSpec, path: &str| without_effect(kernel, path);
        let idle = ["walt.window_ms", "walt_qti.early_detection", "teo.intervals", "schedtune.boost_pct"];
        for path in idle.into_iter().chain(["schedutil.up_rate_limit_us"]) {
            assert!(why(&kernel, path).is_some(), "{path}");
        }
        for path in ["teo.generation", "pelt.half_life_ms", "schedutil.rate_limit_us", "load_balance.generation", "hz"]
        {
            assert_eq!(why(&kernel, path), None);
        }
        kernel.policies.insert(Slot::Load, "walt".into());
        kernel.tunables.insert("teo.generation".into(), Value::Text("5.6".into()));
        for path in ["walt.window_ms", "teo.intervals", "pelt.half_life_ms"] {
            assert_eq!(why(&kernel, path), None);
        }
        assert!(why(&kernel, "util_est.generation").unwrap().contains("load is walt"));
    }

    /// A kernel with these policies, tunables and nothing else.
    fn kernel(policies: &[(Slot, &str)], tunables: &[(&str, &str)]) -> KernelSpec {
        let mut kernel = KernelSpec::default();
        kernel.policies.extend(policies.iter().map(|&(slot, name)| (slot, name.to_string())));
        kernel.tunables.extend(tunables.iter().map(|&(path, value)| (path.into(), Value::Text(value.into()))));
        assert_eq!(check(&kernel), []);
        kernel
    }

    #[test]
    fn settings_that_nobody_reads() {
        let rates = [("schedutil.up_rate_limit_us", "500"), ("schedutil.down_rate_limit_us", "20000")];
        let android: Vec<_> =
            [("schedutil.generation", "4.9"), ("eas.generation", "4.9"), ("load_balance.generation", "5.4")]
                .into_iter()
                .chain(rates)
                .collect();
        let with = |more: (&'static str, &'static str)| {
            android.iter().copied().filter(|t| t.0 != more.0).chain([more]).collect::<Vec<_>>()
        };
        let walt = [(Slot::Load, "walt")];
        let slow = [(Slot::Cpufreq, "performance")];
        let idle: [(&[_], Vec<_>, &str); 24] = [
            (&[], vec![("deadline.generation", "4.10")], "deadline.reclaim"),
            (&[], vec![("deadline.known", "false")], "deadline.known"),
            (&[], vec![("cpu_util.uclamp", "off")], "cpu_util.uclamp_fits"),
            (&[], vec![("select_idle_sibling.scan", "prop")], "features.SIS_UTIL"),
            (&[], vec![], "features.RT_RUNTIME_SHARE"),
            (&[], vec![("deadline.generation", "6.1")], "deadline.fair_server_runtime_us"),
            (&[], vec![("deadline.generation", "6.6")], "deadline.fair_server_period_us"),
            (&walt, android.clone(), "walt_qti.predicted_demand"),
            (&walt, android.clone(), "walt_qti.new_task_load"),
            (&walt, android.clone(), "features.UTIL_EST"),
            (&walt, with(("cpu_util.boost", "h1")), "cpu_util.boost"),
            (&walt, with(("cpu_util.schedutil", "h1")), "cpu_util.schedutil"),
            (&walt, android.clone(), "schedutil.rate_limit_us"),
            (&walt, android.clone(), "cpu_power.cores"),
            (&[], with(("schedutil.generation", "4.9-qti")), "schedutil.generation"),
            (&[], android.clone(), "schedutil.rate_limit_us"),
            (&[], android.clone(), "cpu_util.eas"),
            (&[], android.clone(), "cpu_util.balance"),
            (&[], vec![("cpu_util.boost", "h1")], "cpu_util.gate_pct"),
            (&[], vec![("cpu_util.boost", "h1")], "cpu_util.delay_us"),
            (&slow, vec![], "eas.generation"),
            (&slow, vec![], "cpu_util.eas"),
            (&[(Slot::Class, "cfs")], vec![], "features.PLACE_LAG"),
            (&[(Slot::Balance, "cpu_power"), slow[0]], vec![], "cpu_util.boost"),
        ];
        for (policies, tunables, path) in idle {
            assert!(
                without_effect(&kernel(policies, &tunables), path).is_some(),
                "{path} of {policies:?} {tunables:?}"
            );
        }
        let at_work: [(&[_], Vec<_>, &str); 15] = [
            (&[], vec![("deadline.generation", "6.1")], "deadline.reclaim"),
            (&[], vec![("cpu_util.uclamp", "5.3")], "cpu_util.uclamp_fits"),
            (&[], vec![], "features.SIS_UTIL"),
            (&[], vec![("rt.generation", "6.1")], "features.RT_RUNTIME_SHARE"),
            (&[], vec![], "deadline.fair_server_runtime_us"),
            (&walt, with(("schedutil.generation", "4.9-qti")), "walt_qti.predicted_demand"),
            (&walt, with(("cpu_util.boost", "response-time")), "cpu_util.boost"),
            (&walt, with(("cpu_util.boost", "response-time")), "cpu_util.delay_us"),
            (&walt, vec![("schedutil.generation", "4.9")], "schedutil.rate_limit_us"),
            (&[], with(("cpu_util.boost", "h1")), "cpu_util.boost"),
            (&[], vec![("cpu_util.eas", "rel-gate")], "cpu_util.gate_pct"),
            (&slow, vec![("eas.generation", "off")], "eas.generation"),
            (&slow, vec![], "cpu_util.boost"),
            (&[], vec![], "features.UTIL_EST"),
            (&[], vec![], "features.PLACE_LAG"),
        ];
        for (policies, tunables, path) in at_work {
            assert_eq!(without_effect(&kernel(policies, &tunables), path), None, "{policies:?} {tunables:?}");
        }
    }
}
