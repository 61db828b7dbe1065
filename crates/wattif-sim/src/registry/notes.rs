//! What a kernel makes of its settings on a platform, and of what a workload asks for, that a user may not expect.

use super::build::{
    build_eas, build_walt_windows, clamped, clamps_groups, display_of, hears_slices, hz_of, knows_of_groups, wants_eas,
    window_ms,
};
use super::{Tunables, chosen};
use crate::cpuidle;
use crate::sched::boot::is_elsewhere;
use crate::sched::load::walt_qti;
use crate::sched::uclamp::Clamped;
use std::collections::BTreeMap;
use wattif_model::CpuSet;
use wattif_model::kernel::Slot;
use wattif_model::platform::IdleState;
use wattif_model::run::RunSpec;
use wattif_model::workload::{Op, Policy as SchedPolicy, SchedAttr};

/// What a kernel that [`check`](super::check) finds nothing wrong with makes of its settings on a platform, and of what a workload asks
/// for, that a user may not expect.
pub fn notes(spec: &RunSpec) -> Vec<String> {
    let mut notes = window_notes(spec);
    notes.extend(speed_notes(spec));
    notes.extend(disabled_notes(spec));
    notes.extend(elsewhere_notes(spec));
    if spec.workload.is_recorded() && !spec.platform.noise.housekeeping.is_empty() {
        notes.push(
            "the platform's own background threads are left out: the workload has those of a recorded machine".into(),
        );
    }
    let what = match Tunables::of(&spec.kernel, "eas").text("generation").as_str() {
        "4.9" => Some("eas.generation = 4.9: no find_best_target here"),
        // Where capacities are equal nobody expects it.
        _ => spec.platform.is_asymmetric().then_some("no energy-aware placement here"),
    };
    notes.extend(what.zip(no_eas(spec)).map(|(what, why)| format!("{what}: {why}")));
    notes.extend(unheard_notes(spec));
    notes
}

/// What a workload asks for that this kernel does not know.
fn unheard_notes(spec: &RunSpec) -> Vec<String> {
    let slices = |attr: &SchedAttr| attr.policy.is_fair() && attr.runtime.0 != 0;
    let clamps = |attr: &SchedAttr| attr.util_min.is_some() || attr.util_max.is_some();
    let (clamped, groups) = (clamped(&spec.kernel), &spec.workload.groups);
    let told = |what: &str, since| format!("{what} have no effect: this kernel knows none, they came with {since}");
    let mut notes = Vec::new();
    if !hears_slices(&spec.kernel) && asks_for(spec, slices) {
        notes.push(told("slices that fair threads ask for (dl-runtime)", "6.12"));
    }
    if clamped < Clamped::Tasks && asks_for(spec, clamps) {
        notes.push(told("clamps that threads ask for (util_min, util_max)", "5.3"));
    }
    if clamped < Clamped::Groups && clamps_groups(spec) {
        notes.push(told("clamps of groups (cpu.uclamp.min, cpu.uclamp.max)", "5.4"));
    }
    if !knows_of_groups(&spec.kernel, "group_idle") && groups.iter().any(|g| g.idle) {
        notes.push(told("idle groups (cpu.idle)", "5.15"));
    }
    if !knows_of_groups(&spec.kernel, "group_burst") && groups.iter().any(|g| g.quota.is_some() && g.burst.0 > 0) {
        notes.push(told("bursts of groups (cpu.max.burst)", "5.14"));
    }
    let deadline = |attr: &SchedAttr| attr.policy == SchedPolicy::Deadline;
    if !Tunables::of(&spec.kernel, "deadline").on("known") && asks_for(spec, deadline) {
        notes.push("deadline threads are simulated, but this kernel has no such class: it came with 3.14".to_string());
    }
    notes
}

/// A speed that clocks do not have, and what they hold instead.
fn speed_notes(spec: &RunSpec) -> Vec<String> {
    let asked: u32 = Tunables::of(&spec.kernel, "userspace").int("setspeed_khz");
    if chosen(&spec.kernel, Slot::Cpufreq) != "userspace" || asked == 0 {
        return Vec::new();
    }
    let mut held: BTreeMap<u32, CpuSet> = BTreeMap::new();
    for d in &spec.platform.domains {
        let (lowest, highest) = (d.opps[0].khz, d.opps[d.opps.len() - 1].khz);
        let within = asked.clamp(lowest, highest);
        if within != asked {
            d.cpus.iter().for_each(|cpu| held.entry(within).or_default().insert(cpu));
        }
    }
    let told = |(khz, cpus): (&u32, &CpuSet)| {
        let edge = if asked > *khz { "highest" } else { "lowest" };
        format!("userspace.setspeed_khz = {asked}: CPUs {cpus} hold {khz}, their {edge}")
    };
    held.iter().map(told).collect()
}

/// Background threads of CPUs that the platform does not have.
fn elsewhere_notes(spec: &RunSpec) -> Option<String> {
    const NAMED: usize = 6;
    let nr_cpus = spec.platform.nr_cpus();
    let left_out = spec.workload.tasks.iter().filter(|t| is_elsewhere(t, nr_cpus));
    let names: Vec<&str> = left_out.map(|t| t.name.as_str()).collect();
    let more = names.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let first = names.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    let why = "bound to CPUs that the platform does not have, left out";
    (!names.is_empty()).then(|| format!("background of the recorded machine, {why}: {first}{more}"))
}

/// Where a state is entered that is disabled.
fn disabled_notes(spec: &RunSpec) -> Vec<String> {
    let governor = chosen(&spec.kernel, Slot::Cpuidle);
    let mut notes: Vec<String> = Vec::new();
    for states in spec.platform.clusters.iter().map(|c| &c.idle[..]) {
        for note in disabled_notes_of(spec, governor, states) {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    notes
}

/// Some governors do not look; the posted weighted teo looks and may then take the wrong one. That governors fall back on
/// the first state where all are disabled is what the check of a platform says.
fn disabled_notes_of(spec: &RunSpec, governor: &str, states: &[IdleState]) -> Vec<String> {
    let kernel = &spec.kernel;
    let told = || cpuidle::powernv::polling_is_told(&Tunables::of(kernel, "powernv").text("snooze"), &spec.platform);
    let blind = match governor {
        "haltpoll" => &states[..states.len().min(2)],
        "ladder" => std::slice::from_ref(&states[usize::from(states[0].polling && states.len() > 1 && told())]),
        _ => &[],
    };
    let told = |s: &IdleState| {
        format!("{governor} does not look whether {} is disabled, and enters it, as in the kernel", s.name)
    };
    let mut notes: Vec<String> = blind.iter().filter(|s| s.disabled).map(told).collect();
    let posted = governor == "teo_weighted" && Tunables::of(kernel, governor).text("generation") != "ideal";
    if posted && states.iter().any(|s| s.disabled) && !states.iter().all(|s| s.disabled) {
        let slip = "takes a position among the enabled states for a state, as posted: it may enter a disabled one";
        notes.push(format!("the draw of teo_weighted {slip}"));
    }
    notes
}

fn window_notes(spec: &RunSpec) -> Vec<String> {
    if chosen(&spec.kernel, Slot::Load) != "walt" {
        return Vec::new();
    }
    let hz = hz_of(spec);
    let tick_ns = cpuidle::tick_nsec(hz);
    let asked = window_ms(spec);
    let window_ns = build_walt_windows(spec, tick_ns).window_ns;
    let (us, ticks) = ((window_ns + 500) / 1_000, window_ns / tick_ns);
    let cut = (window_ns.abs_diff(asked * 1_000_000) >= 1_000).then(|| {
        format!(
            "walt.window_ms = {asked}: windows are whole ticks, {us} µs here ({ticks} {} at {hz} Hz)",
            if ticks == 1 { "tick" } else { "ticks" }
        )
    });
    let by_display = Tunables::of(&spec.kernel, "walt").text("window_ms") == "display";
    let fixed = by_display.then(|| why_not_by_display(spec, hz)).flatten();
    fixed.map(|why| format!("walt.window_ms = display: {why}, {asked} ms here")).into_iter().chain(cut).collect()
}

/// Why windows do not follow the display, if so.
fn why_not_by_display(spec: &RunSpec, hz: u32) -> Option<String> {
    match display_of(spec) {
        _ if hz != walt_qti::DISPLAY_HZ => {
            Some(format!("only a kernel of {} Hz follows the display", walt_qti::DISPLAY_HZ))
        }
        None => Some("the workload draws for none".into()),
        Some(_) => None,
    }
}

/// Does a thread of the workload ask for this, at its start or later?
pub(super) fn asks_for(spec: &RunSpec, asks: impl Fn(&SchedAttr) -> bool) -> bool {
    let later = |op: &Op| matches!(op, Op::SetAttr(attr) if asks(attr));
    spec.workload.tasks.iter().any(|t| asks(&t.attr) || t.program.ops.iter().any(later))
}

/// Why there is no energy-aware placement on a platform although the kernel would do it, if so.
pub(super) fn no_eas(spec: &RunSpec) -> Option<&'static str> {
    let (kernel, platform) = (&spec.kernel, &spec.platform);
    if !wants_eas(kernel) || build_eas(kernel, platform).is_some() {
        return None;
    }
    let generation = Tunables::of(kernel, "eas").text("generation");
    Some(match () {
        () if platform.smt_share.len() > 1 => "cores have several threads",
        () if generation != "4.9" && !platform.is_asymmetric() => "all CPUs have the same capacity",
        () => "the platform does not state the power of every operating point",
    })
}
