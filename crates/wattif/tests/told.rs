//! What a run says of settings and workloads that a kernel or machine makes nothing of.

mod runs;

use runs::{MIXED, digest, sleepy, spec, under, walt};
use wattif::run::Simulator;
use wattif_model::CpuId;
use wattif_model::run::Runner;

#[test]
fn what_a_governor_does_not_hear_is_told() {
    let notes = |set: &[(&str, &str)]| wattif_sim::registry::notes(&sleepy("hikey960", "server", set, 1));
    let speed = |khz| notes(&[("cpufreq", "userspace"), ("userspace.setspeed_khz", khz)]);
    assert_eq!(speed("1421000"), [""; 0]);
    let told = |cpus, khz| format!("userspace.setspeed_khz = 99999999: CPUs {cpus} hold {khz}, their highest");
    assert_eq!(speed("99999999"), [told("0-3", 1_844_000), told("4-7", 2_362_000)]);
    let told = |governor: &str, state: &str| {
        let off = format!("platform.clusters.*.idle.{state}.disabled");
        notes(&[("cpuidle", governor), (off.as_str(), "true")])
    };
    let line =
        |governor| vec![format!("{governor} does not look whether WFI is disabled, and enters it, as in the kernel")];
    assert_eq!((told("haltpoll", "WFI"), told("ladder", "WFI")), (line("haltpoll"), line("ladder")));
    assert_eq!((told("menu", "WFI"), told("haltpoll", "2")), (vec![], vec![]));
    let weighted = told("teo_weighted", "WFI");
    assert!(weighted[0].ends_with("it may enter a disabled one") && weighted.len() == 1, "{weighted:?}");
    assert_eq!((told("teo_weighted", "*"), told("teo", "WFI")), (vec![], vec![]));
    // Before 6.2 ladder is not told that `snooze` polls, and begins with it.
    let told = |snooze, off: &str| {
        let off = format!("platform.clusters.*.idle.{off}.disabled");
        let set = [("cpuidle", "ladder"), ("powernv.snooze", snooze), (off.as_str(), "true")];
        wattif_sim::registry::notes(&sleepy("power9_2s16c", "server", &set, 1)).len()
    };
    assert_eq!([told("sleep", "snooze"), told("sleep", "stop0_lite")], [1, 0]);
    assert_eq!([told("polling", "snooze"), told("polling", "stop0_lite")], [0, 1]);
}

/// What a machine of eight CPUs did, on one of two.
#[test]
fn background_of_cpus_that_are_not_there_is_left_out() {
    let all = spec("guest_x86_2cpu", "linux-6.1", MIXED, 1);
    let with = |task: usize, background| {
        let mut spec = all.clone();
        let task = &mut spec.workload.tasks[task];
        (task.cpus, task.background) = (Some([CpuId(5), CpuId(6)].into_iter().collect()), background);
        spec
    };
    let mut without = all.clone();
    without.workload.tasks.remove(1);
    let left_out = with(1, true);
    assert_eq!(digest(&left_out), digest(&without));
    let told = "background of the recorded machine, bound to CPUs that the platform does not have, left out: hog";
    assert_eq!(wattif_sim::registry::notes(&left_out), [told]);
    let refused = Simulator.run(&with(0, false), &mut []).expect_err("it is work").to_string();
    assert!(refused.contains("may run on no CPU of this platform, which has 2\n  give it CPUs"), "{refused}");
}

#[test]
fn windows_that_are_not_whole_ticks_are_told() {
    let notes = |ms: &str| wattif_sim::registry::notes(&walt(MIXED, &[&format!("walt.window_ms={ms}")]));
    assert_eq!(notes("10"), [""; 0]);
    assert_eq!(notes("12"), ["walt.window_ms = 12: windows are whole ticks, 10000 µs here (3 ticks at 300 Hz)"]);
    assert_eq!(wattif_sim::registry::notes(&spec("sdm835", "linux-6.12", MIXED, 1)), [""; 0]);
    let told = "walt.window_ms = display: only a kernel of 250 Hz follows the display, 20 ms here";
    assert_eq!(notes("display"), [told]);
    let at_250_hz = |text: &str| {
        let mut spec = walt(text, &["walt.window_ms=display"]);
        spec.kernel.hz = Some(250);
        wattif_sim::registry::notes(&spec)
    };
    assert_eq!(at_250_hz(MIXED), ["walt.window_ms = display: the workload draws for none, 20 ms here"]);
}

#[test]
fn settings_about_what_is_not_there_are_told() {
    use wattif_sim::registry::without_effect_here;
    let vendor = "schedutil.generation=4.9-qti";
    let here = |set: &str| without_effect_here(&walt(MIXED, &[vendor, set]), set.split_once('=').unwrap().0);
    let has =
        |set: &str, why: &str| assert!(here(set).is_some_and(|told| told.contains(why)), "{set}: {:?}", here(set));
    has("schedtune.top_app_boost_pct=50", "no group /top-app");
    has("schedtune.touch_ms=9", "nobody touches");
    has("schedutil.hispeed_freq_khz=10000000", "is as the highest frequency");
    has("pm_qos.cpu_latency_us=0", "is below every idle state of cpu0, which enters WFI all the same");
    for set in ["schedtune.boost_pct=5", "walt.window_ms=20", "schedutil.hispeed_freq_khz=1000000"] {
        assert_eq!(here(set), None, "{set}");
    }
    let limit = "pm_qos.cpu_latency_us=950";
    for (governor, told) in [
        (["cpuidle=teo", "teo.generation=5.6"], Some("teo 5.6 enters cluster-sleep")),
        (["cpuidle=teo", "teo.generation=6.12"], None),
        (["cpuidle=teo_weighted", "teo_weighted.generation=v2"], Some("teo_weighted v2 enters cluster-sleep")),
        (["cpuidle=teo_weighted", "teo_weighted.generation=ideal"], None),
    ] {
        let spec = under("hikey620", "linux-5.6", MIXED, &[governor[0], governor[1], limit]);
        let note = without_effect_here(&spec, "pm_qos.cpu_latency_us");
        assert_eq!(told.is_some(), note.is_some(), "{governor:?}: {note:?}");
        assert!(note.unwrap_or_default().contains(told.unwrap_or_default()), "{governor:?}");
    }
    let deadline =
        r#"{ "tasks": { "d": { "policy": "SCHED_DEADLINE", "dl-runtime": 900, "dl-period": 10000, "run": 100 } } }"#;
    for (kernel, text, told) in
        [("linux-6.12", MIXED, true), ("linux-6.12", deadline, false), ("linux-6.6", MIXED, false)]
    {
        let spec = under("hikey960", kernel, text, &["rt.sched_rt_runtime_us=0"]);
        assert_eq!(without_effect_here(&spec, "rt.sched_rt_runtime_us").is_some(), told, "{kernel}");
    }
}

#[test]
fn idle_settings_that_nobody_heeds_are_told() {
    use wattif_sim::registry::{without_effect, without_effect_here};
    let limit = |governor: &str, us: &str| {
        let set = [format!("cpuidle={governor}"), format!("pm_qos.cpu_latency_us={us}")];
        let spec = under("power9_2s16c", "linux-6.12", MIXED, &[&set[0], &set[1]]);
        without_effect(&spec.kernel, "pm_qos.cpu_latency_us").is_some()
    };
    assert_eq!([limit("oracle", "0"), limit("oracle", "50"), limit("oracle", "none")], [true, true, false]);
    assert_eq!([limit("haltpoll", "0"), limit("haltpoll", "50"), limit("haltpoll", "none")], [false, true, false]);
    assert_eq!([limit("menu", "50"), limit("ladder", "50")], [false, false]);
    let tick = |states: usize| {
        let mut spec = under("power9_2s16c", "linux-6.12", MIXED, &["default_idle.tick=after-tick"]);
        spec.platform.clusters.iter_mut().for_each(|c| c.idle.truncate(states));
        without_effect_here(&spec, "default_idle.tick").is_some()
    };
    assert_eq!([tick(7), tick(2), tick(1)], [true, true, false]);
    let old = |platform: &str, tunable: &str| {
        let set = ["default_idle.tick=upfront", "poll_state.generation=3.13"];
        without_effect_here(&under(platform, "linux-6.12", MIXED, &set), tunable).is_some()
    };
    assert!(!old("sdm835", "default_idle.tick"), "it is stopped whatever the governor says");
    let polls = ["sdm835", "power9_2s16c", "core_i7_2600k"].map(|p| old(p, "poll_state.generation"));
    assert_eq!(polls, [true, true, false], "nothing polls, or the driver has its own limit");
}

#[test]
fn what_clamps_do_needs_clamps_and_capacities_that_differ() {
    use wattif_sim::registry::without_effect_here;
    let told = |platform, task: &str, group: &str, uclamp: &str| {
        let text = format!(
            r#"{{ "tasks": {{ "a": {{ "taskgroup": "/g", {task} "run": 2000, "sleep": 9000 }} }},
                "groups": {{ "/g": {{ {group} }} }} }}"#
        );
        let spec = under(platform, "linux-6.12", &text, &["cpu_util.uclamp_fits=5.3", uclamp]);
        without_effect_here(&spec, "cpu_util.uclamp_fits").is_some()
    };
    let (thread, group) = (r#""util_min": 900,"#, r#""cpu.uclamp.min": 90"#);
    let all = "cpu_util.uclamp=5.4";
    assert!(told("hikey960", "", "", all) && told("hikey620", thread, "", all));
    assert!(!told("hikey960", thread, "", all) && !told("hikey960", "", group, all));
    let threads = "cpu_util.uclamp=5.3";
    assert!(!told("hikey960", thread, group, threads) && told("hikey960", "", group, threads));
}

#[test]
fn the_placement_of_4_9_needs_powers_and_mainlines_needs_capacities_that_differ() {
    use wattif_sim::registry::{notes, without_effect_here};
    // Little enough that no CPU is overutilized.
    let light = r#"{ "tasks": { "a": { "instance": 6, "run": 500, "timer": { "ref": "unique", "period": 7000 } } } }"#;
    let run =
        |platform, kernel, generation: &str| under(platform, kernel, light, &[&format!("eas.generation={generation}")]);
    let here = |platform, kernel, generation| without_effect_here(&run(platform, kernel, generation), "eas.generation");
    assert_ne!(digest(&run("hikey620", "android-4.9", "4.9")), digest(&run("hikey620", "android-4.9", "off")));
    assert_eq!(notes(&run("hikey620", "android-4.9", "4.9")), [""; 0]);
    let mut powerless = run("hikey620", "android-4.9", "4.9");
    powerless.platform.domains[0].power.busy_uw.clear();
    assert!(notes(&powerless)[0].contains("power"), "{:?}", notes(&powerless));
    for kernel in ["linux-6.12", "android-6.6"] {
        let mut powerless = under("hikey960", kernel, light, &[]);
        assert_eq!(notes(&powerless), [""; 0]);
        powerless.platform.domains[1].power.busy_uw.clear();
        let why = "no energy-aware placement here: the platform does not state the power of every operating point";
        assert_eq!(notes(&powerless), [why], "{kernel}");
    }
    // Mainline's is silently absent where capacities are equal and it is not asked for by name.
    assert_eq!(digest(&run("hikey620", "linux-6.12", "6.12")), digest(&run("hikey620", "linux-6.12", "off")));
    assert_eq!(notes(&run("hikey620", "linux-6.12", "6.12")), [""; 0]);
    assert!(here("hikey620", "linux-6.12", "6.12").unwrap().contains("same capacity"));
    assert_eq!((here("hikey620", "linux-6.12", "off"), here("hikey960", "linux-6.12", "6.12")), (None, None));
}

#[test]
fn what_came_later_than_the_kernel_is_told() {
    // 5 ms each 100 ms, and 35 ms in every fourth period: a burst saves up for it.
    let text = |group: &str| {
        format!(
            r#"{{ "tasks": {{
                "a": {{ "taskgroup": "/g", "phases": {{
                    "quiet": {{ "loop": 3, "run": 5000, "timer": {{ "ref": "t", "period": 100000 }} }},
                    "busy": {{ "run": 35000, "timer": {{ "ref": "t", "period": 100000 }} }} }} }},
                "b": {{ "instance": 9, "run": 9000 }}
            }}, "groups": {{ "/g": {{ {group} }} }}, "global": {{ "duration": 1 }} }}"#
        )
    };
    let idle = r#""cpu.idle": 1"#;
    let limit = r#""cpu.max": "20000 100000""#;
    let burst = r#""cpu.max": "20000 100000", "cpu.max.burst": 20000"#;
    for (kernel, heard) in [("linux-5.6", false), ("linux-6.1", true)] {
        for (without, with, what) in [("", idle, "cpu.idle"), (limit, burst, "cpu.max.burst")] {
            let run = |group| spec("hikey960", kernel, &text(group), 1);
            assert_eq!(digest(&run(with)) != digest(&run(without)), heard, "{kernel} {what}");
            let told = wattif_sim::registry::notes(&run(with)).iter().any(|n| n.contains(what));
            assert_eq!(told, !heard, "{kernel} {what}");
        }
    }
    let deadline = r#"{ "tasks": { "d": { "policy": "SCHED_DEADLINE", "dl-runtime": 900, "dl-period": 10000, "run": 100, "loop": 1 } } }"#;
    for (kernel, known) in [("linux-3.13", false), ("linux-4.10", true), ("android-4.9", true)] {
        let told = wattif_sim::registry::notes(&spec("hikey960", kernel, deadline, 1));
        assert_eq!(told.iter().any(|n| n.contains("no such class")), !known, "{kernel}: {told:?}");
    }
}
