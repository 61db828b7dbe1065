//! Settings that change nothing on a platform or for a workload, whatever the kernel makes of them: what they are about is not
//! there. Where a tunable is about something that a workload may lack, [`not_in_workload`] has a line for it.

use super::build::{build_schedtune, clamped, clamps_groups};
use super::effect::latency_limit_us;
use super::notes::{asks_for, no_eas};
use super::{Policy, Tunables, chosen, policy, without_effect};
use crate::cpuidle;
use crate::sched::schedtune::{self, Group, Schedtune};
use crate::sched::uclamp::Clamped;
use wattif_model::CpuId;
use wattif_model::kernel::Slot;
use wattif_model::platform::IdleState;
use wattif_model::run::RunSpec;
use wattif_model::units::CAPACITY_SCALE;
use wattif_model::workload::{Op, Policy as SchedPolicy, Workload};

/// Why a setting changes nothing here, if so; `None` also where [`without_effect`] says it of the kernel alone.
pub fn without_effect_here(spec: &RunSpec, path: &str) -> Option<String> {
    let (name, tunable) = path.rsplit_once('.')?;
    let p = policy(name.rsplit('.').next()?)?;
    if without_effect(&spec.kernel, path).is_some() {
        return None;
    }
    let why = not_on_platform(spec, p, tunable)
        .or_else(|| not_in_workload(&spec.workload, p, tunable))
        .or_else(|| for_deadline_alone(spec, p, tunable))
        .or_else(|| without_clamps(spec, p, tunable))
        .or_else(|| without_boost(spec, p, tunable));
    let idle = why.map(|why| format!("{path} changes nothing here: {why}"));
    idle.or_else(|| beyond_the_highest(spec, p, tunable))
        .or_else(|| below_every_state(spec, p))
        .or_else(|| beyond_the_limit(spec, p))
        .or_else(|| as_h2(spec, p, tunable))
}

fn not_on_platform(spec: &RunSpec, p: &Policy, tunable: &str) -> Option<String> {
    if p.name == "powernv" && !cpuidle::powernv::has_snooze(&spec.platform) {
        return Some("the platform has no idle state `snooze`".into());
    }
    if p.name == "cpuidle_driver" && spec.platform.cpuidle_governor.is_none() {
        return Some("the platform's idle driver prefers no governor".into());
    }
    if p.name == "poll_state" {
        if cpuidle::powernv::has_snooze(&spec.platform) {
            return Some("`snooze` polls as its own driver says".into());
        }
        let polls = spec.platform.clusters.iter().flat_map(|c| &c.idle).any(|s| s.polling);
        return (!polls).then(|| "the platform has no idle state that polls".into());
    }
    let mut cpus = (0..spec.platform.nr_cpus() as u32).map(CpuId);
    let after_tick = || Tunables::of(&spec.kernel, "default_idle").text("tick") == "after-tick";
    let several = |cpu| spec.platform.idle_states(cpu).len() > 1;
    if (p.name, tunable) == ("default_idle", "tick") && after_tick() && cpus.all(several) {
        return Some("every CPU has several idle states, and then the governor decides".into());
    }
    if (p.name, tunable) == ("cpu_util", "uclamp_fits") && !spec.platform.is_asymmetric() {
        return Some("all CPUs have the same capacity".into());
    }
    let about_eas = matches!((p.name, tunable), ("eas", "generation") | ("cpu_util", "eas"));
    // What a profile of 4.9 asks for is in the notes of every run.
    let told = Tunables::of(&spec.kernel, "eas").text("generation") == "4.9";
    let why = (about_eas && !told).then(|| no_eas(spec)).flatten()?;
    Some(format!("no energy-aware placement, {why}"))
}

fn not_in_workload(workload: &Workload, p: &Policy, tunable: &str) -> Option<String> {
    let group = || schedtune::GROUPS.iter().find(|g| tunable.starts_with(&g.replace('-', "_")));
    let in_group = |g: &str| workload.groups.iter().any(|of| schedtune::first_part(&of.path) == g);
    let (there, why) = match (p.name, tunable) {
        ("schedtune", "touch_boost_pct" | "touch_ms") => {
            let touches = workload.tasks.iter().any(|t| t.program.ops.contains(&Op::Touch));
            (touches, "nobody touches the screen in this workload".into())
        }
        // The machine's own threads are in it, too, see `without_boost`.
        ("schedtune", "root_boost_pct" | "root_prefer_idle") => return None,
        ("schedtune", _) => group().map(|g| (in_group(g), format!("the workload has no group /{g}")))?,
        ("walt", "io_is_busy") => (workload.devices.iter().any(|d| d.iowait), "the workload waits for no I/O".into()),
        (_, "bandwidth_slice_us" | "slice_expires") => {
            (workload.groups.iter().any(|g| g.quota.is_some()), "the workload limits no group".into())
        }
        _ => return None,
    };
    (!there).then_some(why)
}

/// The limit of real-time tasks where it says only what deadline tasks are admitted to, and there are none.
fn for_deadline_alone(spec: &RunSpec, p: &Policy, tunable: &str) -> Option<String> {
    let about = (p.name, tunable) == ("rt", "sched_rt_runtime_us") || (p.name, tunable) == ("rt", "sched_rt_period_us");
    let limits = Tunables::of(&spec.kernel, "rt").text("generation") == "6.1";
    let why = "rt.generation is 6.12, where only deadline tasks are limited, and the workload has none";
    (about && !limits && !asks_for(spec, |attr| attr.policy == SchedPolicy::Deadline)).then(|| why.to_string())
}

/// What clamps do, where nobody has any that count.
fn without_clamps(spec: &RunSpec, p: &Policy, tunable: &str) -> Option<String> {
    let about = (p.name, tunable) == ("cpu_util", "uclamp_fits");
    let groups = clamped(&spec.kernel) >= Clamped::Groups && clamps_groups(spec);
    let none = !groups && !asks_for(spec, |attr| attr.util_min.is_some() || attr.util_max.is_some());
    (about && none).then(|| "no thread has util_min or util_max, and no group clamps that count".into())
}

/// What waits for a boost of schedtune's that never comes, and the boost of a touch that is below the one in force.
fn without_boost(spec: &RunSpec, p: &Policy, tunable: &str) -> Option<String> {
    let paths: Vec<&str> = ["/"].into_iter().chain(spec.workload.groups.iter().map(|g| g.path.as_str())).collect();
    let tune = build_schedtune(&spec.kernel, &paths).unwrap_or_default();
    let touches = spec.workload.tasks.iter().any(|t| t.program.ops.contains(&Op::Touch));
    let by_touch =
        |i, g: &Group| touches && Schedtune::is_touched(i) && tune.touch_ns > 0 && tune.touch_boost_pct > g.boost_pct;
    match (p.name, tunable) {
        ("walt_qti", "early_detection") => {
            let boosted = Tunables::of(&spec.kernel, "walt_qti").text(tunable) == "boosted";
            let none = !tune.used().any(|(i, g)| g.boost_pct > 0 || by_touch(i, &g) && tune.touch_boost_pct > 0);
            (boosted && none).then(|| "schedtune boosts nobody".into())
        }
        ("schedtune", "root_boost_pct" | "root_prefer_idle") => {
            let named = schedtune::names_groups(paths.iter().copied());
            // Recorded threads of the machine are its own, too.
            let nobody = !named && spec.platform.noise.housekeeping.is_empty() && !spec.workload.is_recorded();
            let why = "the workload has no group of schedtune's: all of it is what the user sees; the platform has no threads of its own";
            nobody.then(|| why.into())
        }
        ("schedtune", "touch_boost_pct") if tune.touch_boost_pct > 0 => {
            let least = tune.used().find(|(i, _)| Schedtune::is_touched(*i))?.1.boost_pct;
            (least >= tune.touch_boost_pct).then(|| format!("what a touch boosts has a boost of {least} already"))
        }
        _ => None,
    }
}

/// A scheme that heeds who is held down, where nobody is.
fn as_h2(spec: &RunSpec, p: &Policy, tunable: &str) -> Option<String> {
    let t = (p.name == "cpu_util").then(|| Tunables::of(&spec.kernel, p.name))?;
    if t.text(tunable) != "uclamp-aware" {
        return None;
    }
    let threads = asks_for(spec, |attr| attr.util_max.is_some_and(|max| u64::from(max) < CAPACITY_SCALE));
    let groups = spec.workload.groups.iter().any(|g| u64::from(g.uclamp_max) < CAPACITY_SCALE);
    let held = match t.text("uclamp").as_str() {
        "off" => false,
        "5.3" => threads,
        _ => threads || groups,
    };
    let why = || {
        format!(
            "cpu_util.{tunable} = uclamp-aware is as h2 here: no thread has util_max and no group cpu.uclamp.max that counts"
        )
    };
    (!held).then(why)
}

/// A frequency that no domain has.
fn beyond_the_highest(spec: &RunSpec, p: &Policy, tunable: &str) -> Option<String> {
    // What `userspace` holds instead is in the notes of every run.
    let asked = (tunable.ends_with("_khz") && p.name != "userspace")
        .then(|| Tunables::of(&spec.kernel, p.name).maybe_int::<u64>(tunable))
        .flatten()?;
    let highest = spec.platform.domains.iter().flat_map(|d| &d.opps).map(|opp| u64::from(opp.khz)).max()?;
    let told =
        || format!("{}.{tunable} = {asked} is as the highest frequency: none here is beyond {highest} kHz", p.name);
    (asked > highest).then(told)
}

/// A latency limit that every idle state of some CPU breaks.
fn below_every_state(spec: &RunSpec, p: &Policy) -> Option<String> {
    let limit_us = latency_limit_us(&spec.kernel).filter(|_| p.name == "pm_qos")?;
    let allowed = |s: &IdleState| s.polling || s.advertised.exit_ns <= limit_us.saturating_mul(1_000);
    let mut cpus = (0..spec.platform.nr_cpus() as u32).map(CpuId);
    let none = cpus.find(|&cpu| !spec.platform.idle_states(cpu).iter().any(allowed))?;
    let first = &spec.platform.idle_states(none).first()?.name;
    Some(format!(
        "pm_qos.cpu_latency_us = {limit_us} is below every idle state of cpu{}, which enters {first} all the same",
        none.0
    ))
}

/// TEO of 5.4 and 5.6, and the posted governors made of it, take the first state beyond the latency limit for one within it.
fn beyond_the_limit(spec: &RunSpec, p: &Policy) -> Option<String> {
    let limit_us = latency_limit_us(&spec.kernel).filter(|_| p.name == "pm_qos")?;
    let governor = chosen(&spec.kernel, Slot::Cpuidle);
    let passes_over: &[&str] = match governor {
        "teo" => &["5.4", "5.6"],
        "teo_weighted" => &["v1", "v2"],
        _ => return None,
    };
    let generation = Tunables::of(&spec.kernel, governor).text("generation");
    if !passes_over.contains(&generation.as_str()) {
        return None;
    }
    let slow = |s: &&IdleState| !s.disabled && s.advertised.exit_ns > limit_us.saturating_mul(1_000);
    let mut first: Vec<&str> = Vec::new();
    for state in spec.platform.clusters.iter().filter_map(|c| c.idle.iter().find(slow)) {
        if !first.contains(&state.name.as_str()) {
            first.push(&state.name);
        }
    }
    (!first.is_empty()).then(|| {
        format!(
            "pm_qos.cpu_latency_us = {limit_us} may be exceeded: {governor} {generation} enters {}, the first idle state beyond it, \
             as in the kernel",
            first.join(" and ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattif_model::workload::models::model;

    #[test]
    fn what_a_workload_lacks() {
        let why = |load: &str, set: &[(&str, &str)], path: &str| {
            let set: Vec<_> = set.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
            let workload = model(load).unwrap().workload(&set).unwrap();
            let (name, tunable) = path.split_once('.').unwrap();
            not_in_workload(&workload, policy(name).unwrap(), tunable)
        };
        assert_eq!(why("pcmark", &[], "schedtune.top_app_boost_pct").unwrap(), "the workload has no group /top-app");
        assert_eq!(why("video", &[], "schedtune.top_app_boost_pct"), None);
        for path in
            ["schedtune.background_prefer_idle", "schedtune.touch_ms", "walt.io_is_busy", "cfs.bandwidth_slice_us"]
        {
            assert!(why("video", &[], path).is_some(), "{path}");
        }
        for path in ["schedtune.boost_pct", "schedtune.prefer_idle", "walt.window_ms"] {
            assert_eq!(why("video", &[], path), None, "{path}");
        }
        assert_eq!(why("jankbench", &[], "schedtune.touch_boost_pct"), None);
        assert!(why("jankbench", &[("touch", "no")], "schedtune.touch_boost_pct").is_some());
        assert_eq!(why("androbench", &[], "walt.io_is_busy"), None);
    }
}
