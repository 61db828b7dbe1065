use super::*;
use wattif_model::platform::Driver;

const BOARD: &str = r#"
name = "board"
smt_share = [1024]
[power]
unit = "energy_model"
[topology]
llc = ["0-1", "2-3"]
[[domain]]
cpus = "0-1"
core = "little"
capacity = 400
transition_us = 300
opps = [ { khz = 500, uv = 700_000, uw = 10 }, { khz = 1000, uw = 30 } ]
[[domain]]
cpus = "2-3"
core = "big"
opps = [ { khz = 2000, uw = 90 } ]
[[cluster]]
cpus = ["0-1", "2-3"]
idle = [
  { name = "WFI", advertised = { exit_us = 1, residency_us = 1 }, actual = { entry_us = 0, exit_us = 1 } },
  { name = "off", scope = "cluster", advertised = { exit_us = 900, residency_us = 2000 }, actual = { entry_us = 400, exit_ns = 250_500 } },
]
[costs]
context_switch_us = 4
wakeup_us = 3
ipi_us = 3
timer_irq_us = 4
tick_us = 3
migration_us = 10
migration_llc_us = 30
[noise]
work_ppm = 2000
housekeeping = [ { name = "kworker", per_cpu = true, interval_ms = 50, work_us = 60 } ]
"#;

#[track_caller]
fn read(text: &str, set: &[(&str, &str)]) -> Platform {
    let set = set.iter().map(|(p, v)| (p.to_string(), v.to_string())).collect();
    let parsed = parse(text, &Options { set });
    parsed.platform.unwrap_or_else(|| panic!("{:#?}", parsed.diagnostics))
}

/// Codes after replacing `from` by `to` in the board.
#[track_caller]
fn check(from: &str, to: &str, codes: &str) {
    assert!(BOARD.contains(from), "{from} is not in the board");
    let parsed = parse(&BOARD.replacen(from, to, 1), &Options::default());
    let found: Vec<_> = parsed.diagnostics.iter().map(|d| d.code.trim_start_matches("platform::")).collect();
    assert_eq!(found.join(" "), codes, "{:#?}", parsed.diagnostics);
    assert_eq!(parsed.platform.is_none(), codes.contains('E'));
}

#[test]
fn a_board() {
    let p = read(BOARD, &[]);
    assert_eq!((p.nr_cpus(), p.domains.len(), p.clusters.len(), p.hz), (4, 2, 2, 250));
    assert_eq!(p.domains[0].opps[0].capacity, 200, "capacity · f / f_max");
    assert_eq!(p.domains[0].power.busy_uw, [10, 30]);
    assert_eq!(p.cpus[3].llc, 1);
    assert_eq!(p.clusters[1].idle[1].actual.exit_ns, 250_500);
    assert_eq!(p.noise.housekeeping[0].interval_ns, 50_000_000);
    assert_eq!((p.timer_slack_ns, p.smt_share), (50_000, vec![1024]));
}

#[test]
fn a_cluster_power_follows_one_clock() {
    let powers = BOARD
        .replace("unit = \"energy_model\"", "unit = \"eas_costs\"")
        .replace("uw = 10 }", "core = 10, cluster = 5 }");
    let powers =
        powers.replace("uw = 30 }", "core = 30, cluster = 9 }").replace("uw = 90 }", "core = 90, cluster = 20 }");
    assert_eq!(parse(&powers, &Options::default()).diagnostics, []);
    let one = |text: &str| text.replace("cpus = [\"0-1\", \"2-3\"]", "cpus = \"0-3\"");
    let found = parse(&one(&powers), &Options::default()).diagnostics;
    assert_eq!(found.iter().map(|d| d.code).collect::<Vec<_>>(), ["platform::E07"]);
    assert!(found[0].message.contains("of CPUs 0-3 follows a clock, and it has 2"), "{}", found[0].message);
    let steady = ["cluster = 5", "cluster = 9"].iter().fold(one(&powers), |text, c| text.replace(c, "cluster = 20"));
    assert_eq!(parse(&steady, &Options::default()).diagnostics, [], "the same at every clock");
    assert_eq!(parse(&one(BOARD), &Options::default()).diagnostics, [], "no power of its own");
}

#[test]
fn clusters_and_preferences() {
    let board = BOARD.replace("llc = [\"0-1\", \"2-3\"]", "llc = [\"0-3\"]\nl2 = { every = 2 }");
    let p = read(&board.replace("core = \"big\"", "core = \"big\"\npriority = 7"), &[]);
    assert_eq!(
        p.cpus.iter().map(|c| (c.l2, c.priority)).collect::<Vec<_>>(),
        [(Some(0), 0), (Some(0), 0), (Some(1), 7), (Some(1), 7)]
    );
    let p = read(BOARD, &[]);
    assert!(p.cpus.iter().all(|c| (c.l2, c.priority) == (None, 0)) && !p.capacity_untold);
    assert_eq!((p.told_capacity(CpuId(0)), p.told_capacity(CpuId(3))), (400, 1024));
    let p = read(&BOARD.replace("smt_share", "capacity_untold = true\nsmt_share"), &[]);
    assert_eq!((p.told_capacity(CpuId(0)), p.cpus[0].capacity), (1024, 400));
    assert!(!p.far_nodes && read(&BOARD.replace("smt_share", "far_nodes = true\nsmt_share"), &[]).far_nodes);
    check("llc = [\"0-1\", \"2-3\"]", "llc = [\"0-1\", \"2-3\"]\nl2 = [\"0-2\", \"3\"]", "E07");
    check("llc = [\"0-1\", \"2-3\"]", "llc = [\"0-3\"]\nl2 = [\"0-1\"]", "E07");
    let node = |cut: &str, codes: &str| {
        let topology = format!("llc = [\"0-3\"]\ncore = {{ every = 2 }}\nnode = {cut}");
        let text = BOARD.replace("llc = [\"0-1\", \"2-3\"]", &topology).replace("[1024]", "[1024, 600]");
        let set = |node: &str| vec![("topology.node".to_string(), node.to_string())];
        let whole = text.replace(&format!("\nnode = {cut}"), "");
        for (text, set) in [(&text, Vec::new()), (&whole, set(cut))] {
            let parsed = parse(text, &Options { set });
            let found: Vec<_> = parsed.diagnostics.iter().filter(|d| d.is_error()).collect();
            assert_eq!(found.iter().map(|d| d.code.trim_start_matches("platform::")).collect::<String>(), codes);
            assert!(found.iter().all(|d| d.message.ends_with("a core lies in two of the nodes")), "{found:?}");
        }
    };
    node("[\"0-1\", \"2-3\"]", ""); // of one cache: sub-NUMA clustering
    node("[\"0-2\", \"3\"]", "E07");
    check("core = \"big\"", "priority = -1", "E05");
}

/// Of a machine with CPUs that are offline.
#[test]
fn numbers_of_the_kernel() {
    let with = |list: &str| BOARD.replace("smt_share", &format!("kernel_cpus = {list}\nsmt_share"));
    let numbers = |list: &str| read(&with(list), &[]).kernel_cpus.to_string();
    assert_eq!(numbers("\"0,2-3,9\""), "0,2-3,9");
    assert_eq!(read(&with("\"0-3\""), &[]), read(BOARD, &[]), "the same numbers are no news");
    check("smt_share", "kernel_cpus = \"0,2\"\nsmt_share", "E07");
    check("smt_share", "kernel_cpus = \"0,0,2-3\"\nsmt_share", "E07");
    check("smt_share", "kernel_cpus = \"none\"\nsmt_share", "E05");
}

/// Found behind the setting, not at the line of the file that it replaces.
#[test]
fn overrides_are_named_by_what_they_bring_about() {
    let set = |path: &str, value: &str| (path.to_string(), value.to_string());
    let set = vec![set("smt_share", "[1024]"), set("domains.0.transition_us", "-1"), set("costs.ipi_ns", "1")];
    let found = parse(&BOARD.replace("capacity = 400", "capacity = 0"), &Options { set }).diagnostics;
    let told: Vec<_> = found.iter().map(|d| (d.code, d.span.start > 0)).collect();
    assert_eq!(told, [("platform::E05", true), ("platform::E05", false)], "{found:#?}");
    assert!(found[1].message.starts_with("--set platform.domains.0.transition_us=-1: "), "{}", found[1].message);
}

#[test]
fn overrides() {
    let p = read(BOARD, &[("clusters.*.idle.*.actual.exit_us", "0")]);
    assert!(p.clusters.iter().flat_map(|c| &c.idle).all(|s| s.actual.exit_ns == 0));
    let p = read(BOARD, &[("clusters.0.idle.off.disabled", "true"), ("costs.ipi_ns", "1"), ("hz", "1000")]);
    assert!(p.clusters[0].idle[1].disabled && !p.clusters[1].idle[1].disabled, "one entry, two clusters");
    assert_eq!((p.costs.ipi_ns, p.hz), (1, 1000));
    let p = read(BOARD, &[("clusters.1.idle.*.disabled", "true"), ("power.base_uw", "5")]);
    assert!(!p.clusters[0].idle[0].disabled && p.clusters[1].idle[0].disabled);
    assert_eq!(p.power.base_uw, 5, "the file does not have it");
    let p = read(BOARD, &[("noise.interrupts.interval_ms", "1"), ("noise.interrupts.work_us", "1")]);
    assert_eq!(p.noise.interrupts.map(|i| i.interval_ns), Some(1_000_000), "nor the table");
}

/// Each mistake once, with what there is.
#[test]
fn overrides_that_lead_nowhere() {
    let said = |path: &str, help: &str| {
        let found = parse(BOARD, &Options { set: vec![(path.into(), "1".into())] }).diagnostics;
        let told = |d: &Diagnostic| d.code == "platform::E08" && d.help.as_deref().unwrap_or_default().contains(help);
        assert!(found.len() == 1 && told(&found[0]), "{path}: {found:?}");
    };
    said("clusters.*.idel.0.name", "`idle`");
    said("clusters.9.idle", "elements 0 to 1");
    said("clusters.*.idle.*.disabld", "`disabled`");
    said("clusters.*.idle.of.disabled", "`off`");
    said("clusters.1.idle.off.q", "`polling`, `disabled`");
    said("power.base", "`base_uw`");
    said("costs.migraton_us", "`migration_us`");
    said("x", "`name`, `title`");
    said("", "`hz`");
    said("name.y", "a string");
}

#[test]
fn powers_that_are_missing_are_told_once() {
    let bare = [", uw = 10", ", uw = 30", ", uw = 90"].iter().fold(BOARD.to_string(), |text, uw| text.replace(uw, ""));
    let found = parse(&bare, &Options::default()).diagnostics;
    let told =
        |d: &Diagnostic| d.code == "platform::E03" && d.help.as_deref().unwrap_or_default().contains("\"unknown\"");
    assert!(found.len() == 1 && told(&found[0]), "{found:?}");
}

#[test]
fn what_the_idle_driver_prefers() {
    let with = |governor: &str| BOARD.replace("[costs]", &format!("[cpuidle]\n{governor}\n[costs]"));
    assert_eq!(read(BOARD, &[]).cpuidle_governor, None);
    assert_eq!(read(&with("governor = \"haltpoll\""), &[]).cpuidle_governor.as_deref(), Some("haltpoll"));
    assert_eq!(read(BOARD, &[("cpuidle.governor", "teo")]).cpuidle_governor.as_deref(), Some("teo"));
    check("[costs]", "[cpuidle]\ngovernor = \"oracle\"\n[costs]", "E05");
    check("[costs]", "[cpuidle]\ngovener = \"menu\"\n[costs]", "E06");
}

#[test]
fn what_drivers_ask_of_cpus() {
    let with = |driver: &str| BOARD.replace("[costs]", &format!("[driver.gpu]\n{driver}\n[costs]"));
    let gpu = |cpu_latency_ns, hold_ns| vec![Driver { device: "gpu".into(), cpu_latency_ns, hold_ns }];
    let asks = with("cpu_latency_us = 501\nhold_ms = 80");
    assert_eq!(read(BOARD, &[]).drivers, []);
    assert_eq!(read(&asks, &[]).drivers, gpu(Some(501_000), 80_000_000));
    assert_eq!(read(&asks, &[("driver.gpu.cpu_latency_us", "none")]).drivers, gpu(None, 80_000_000));
    assert_eq!(read(&asks, &[("driver.gpu.hold_ms", "0")]).drivers, gpu(Some(501_000), 0));
    check("[costs]", "[driver.gpu]\ncpu_latency_us = 1\n[costs]", "E03");
    check("[costs]", "[driver.gpu]\nhold_ms = 1\n[costs]", "E03");
    check("[costs]", "[driver.gpu]\ncpu_latency_us = \"never\"\nhold_ms = 1\n[costs]", "E04");
    check("[costs]", "[driver.gpu]\ncpu_latency_us = 1\nhold_ms = 1\nhald_ms = 1\n[costs]", "E06");
    check("[costs]", "[driver]\ngpu = 1\n[costs]", "E04");
}

#[test]
fn the_size_of_a_page() {
    assert_eq!((read(BOARD, &[]).page_kib, read(BOARD, &[("page_kib", "64")]).page_kib), (4, 64));
    check("[costs]", "[costs]\npage_kib = 4", "E06");
    check("name = \"board\"", "name = \"board\"\npage_kib = 8", "E05");
    check("name = \"board\"", "name = \"board\"\npage_kib = 128", "E05");
}

#[test]
fn all_idle_states_disabled() {
    let set = vec![("clusters.*.idle.*.disabled".to_string(), "true".to_string())];
    let parsed = parse(BOARD, &Options { set });
    assert!(parsed.platform.is_some());
    assert_eq!(parsed.diagnostics.iter().map(|d| d.code).collect::<Vec<_>>(), ["platform::W05"]);
}

/// Whoever polls first: ladder does not count that state.
#[test]
fn what_is_entered_where_all_are_disabled() {
    let told = |from: &str, to: &str| {
        let set = vec![("clusters.*.idle.*.disabled".to_string(), "true".to_string())];
        let text = if from.is_empty() { BOARD.to_string() } else { BOARD.replace(from, to) };
        let message = &parse(&text, &Options { set }).diagnostics[0].message;
        message.split_once("true: ").expect("by a setting").1.to_string()
    };
    let entered = |what: &str| format!("all idle states are disabled: governors fall back on {what}");
    let first = "name = \"WFI\",";
    assert_eq!(told("", ""), entered("`WFI`, haltpoll also on `off`"));
    let polls = |name: &str| told(first, &format!("name = \"{name}\", polling = true,"));
    assert_eq!(polls("POLL"), entered("`POLL`, ladder on `off`, haltpoll on both"));
    assert_eq!(polls("snooze"), entered("`snooze`, ladder since 6.2 on `off`, haltpoll on both"));
}

#[test]
fn mistakes() {
    check("name = \"board\"", "", "E03");
    check("capacity = 400", "capacity = 4000", "E05");
    check("capacity = 400", "capactiy = 400", "E06");
    check("{ khz = 500,", "{ khz = 1500,", "E07");
    check("cpus = \"2-3\"", "cpus = \"3-4\"", "E07 E07");
    check("cpus = \"2-3\"", "cpus = \"1-3\"", "E07");
    check("cpus = \"2-3\"", "cpus = \"2-99999\"", "E05");
    check("cpus = [\"0-1\", \"2-3\"]", "cpus = [\"0-1\"]", "E07");
    check("llc = [\"0-1\", \"2-3\"]", "llc = [\"0-1\"]", "E07");
    check("llc = [\"0-1\", \"2-3\"]", "llc = { every = 2 }", "");
    check("uw = 90", "core = 90", "E03 E06");
    check("smt_share = [1024]", "smt_share = [1024, 600]", "E07");
    check("wakeup_us = 3", "wakeup_us = \"3\"", "E04");
    check("core = \"big\"", "core = \"big\"\ncapacity = 900", "W01");
    check("[costs]", "[costs", "E01");
    check("exit_us = 900", "exit_us = 0", "W01");
    check("residency_us = 2000", "residency_us = 0", "W02");
    check("residency_us = 2000", "residency_us = 1", "N01");
    check("name = \"off\",", "name = \"off\", polling = true,", "W04");
    check("name = \"WFI\",", "name = \"WFI\", polling = true, disabled = true,", "");
    let late = parse(&BOARD.replace("name = \"off\",", "name = \"off\", polling = true,"), &Options::default());
    let help = late.diagnostics[0].help.as_deref().unwrap_or_default();
    assert!(help.starts_with("ladder and haltpoll know a polling state only as the first, menu and teo"), "{help}");
    check("interval_ms = 50", "interval_us = 1", "E05");
    let interrupts = |of: &str, codes: &str| check("[noise]", &format!("[noise]\ninterrupts = {{ {of} }}"), codes);
    interrupts("interval_ms = 40, work_us = 8", "");
    interrupts("interval_ms = 40, work_us = 8, burst = 2, burst_gap_us = 20", "");
    interrupts("interval_ms = 40, work_us = 8, burst = 2", "E05");
    interrupts("interval_us = 1, work_us = 8", "E05");
    interrupts("interval_ms = 40", "E03");
    check("cpus = [\"0-1\", \"2-3\"]", "cpus = []", "E05");
    check("cpus = [\"0-1\", \"2-3\"]", "cpus = \"\"", "E05");
    check("cpus = [\"0-1\", \"2-3\"]", "cpus = [\"0-1\", \"2-9\"]", "E07");
    check("[power]\nunit = \"energy_model\"", "", "E03");
    check("unit = \"energy_model\"", "unit = \"em\"", "E05");
    check("{ khz = 500,", "{ khz = 4_000_000_000,", "E05");
    let costs = BOARD.find("[costs]").unwrap();
    let end = BOARD[costs..].find("\n[").unwrap() + costs;
    check(&BOARD[costs..end], "", "E03");
    check("uw = 10 }", "uw = 0 }", "W06");
    check("uw = 10 }", "uw = 40 }", "W07");
    check(
        "{ khz = 500, uv = 700_000, uw = 10 }, { khz = 1000, uw = 30 }",
        "{ khz = 1000, uw = 30 }, { khz = 500, uw = 10 }",
        "E07",
    );
    check("cpus = \"0-1\"", "cpus = []", "E05");
    check("name = \"off\"", "name = \"WFI\"", "W08");
    check("residency_us = 2000", "residency_us = -1", "E05");
    check("core = \"big\"", "efficiency = 3891", "E07");
    check("core = \"big\"", "dt_clock_khz = 1_000_000", "E07");
    check("core = \"big\"", "efficiency = 0\ndt_clock_khz = 1_000_000", "E05");
    check("core = \"big\"", "efficiency = 3891\ndt_clock_khz = 1_000_000", "");
}

#[test]
fn a_wrong_unit_is_one_mistake() {
    let text = BOARD
        .replace("unit = \"energy_model\"", "unit = \"joules\"\nbase = 3")
        .replace("uw = 10 }", "core = 69, cluster = 16 }")
        .replace("core = \"big\"", "core = \"big\"\nidle_core = [15, 0]\nidle_cluster = [47, 0]");
    let found = parse(&text, &Options::default()).diagnostics;
    assert!(matches!(&found[..], [one] if one.message == "unknown power unit `joules`"), "{found:?}");
    // Known, but not in this unit: no key is proposed in place of itself.
    let found = parse(&BOARD.replace("core = \"big\"", "core = \"big\"\nidle_core = [15, 0]"), &Options::default());
    let said: Vec<_> = found.diagnostics.iter().map(|d| (d.message.as_str(), &d.help)).collect();
    assert_eq!(said, [("unknown key `idle_core`", &None)]);
}

/// Where the first mistake after replacing `from` by `to` is: line, column and text there.
#[track_caller]
fn place(from: &str, to: &str) -> (usize, usize, String) {
    let text = BOARD.replacen(from, to, 1);
    let found = parse(&text, &Options::default()).diagnostics.swap_remove(0);
    assert!(found.help.is_some(), "{found:?}");
    let (line, column) = found.line_column(&text);
    (line, column, text[found.span].to_string())
}

#[test]
fn mistakes_have_a_place() {
    let at = |line, column, text: &str| (line, column, text.to_string());
    assert_eq!(place("core = \"big\"", "efficiency = 3891"), at(16, 14, "3891"));
    assert_eq!(place("core = \"big\"", "dt_clock_khz = 1_000_000"), at(16, 16, "1_000_000"));
    assert_eq!(place("cpus = [\"0-1\", \"2-3\"]", "cpus = []"), at(19, 8, "[]"));
    assert_eq!(place("cpus = [\"0-1\", \"2-3\"]", "cpus = [\"0-1\", \"2-9\"]").0, 18);
    assert_eq!(place("cpus = [\"0-1\", \"2-3\"]", "cpus = \"0-1\"").0, 18);
}

#[test]
fn three_vocabularies() {
    let eas = BOARD
        .replace("energy_model", "eas_costs")
        .replace("uw = 10 }", "core = 69, cluster = 16 }")
        .replace("uw = 30 }", "core = 124, cluster = 29 }")
        .replace("uw = 90 }", "core = 670, cluster = 112 }")
        .replace("core = \"big\"", "core = \"big\"\nidle_core = [15, 0]\nidle_cluster = [47, 0]");
    let p = read(&eas, &[]).domains[1].power.clone();
    assert_eq!((p.busy(0), p.cluster_busy(0), p.idle(0, 0), p.cluster_idle(0, 0)), (670_000, 112_000, 15_000, 47_000));
    let measured = BOARD
        .replace("energy_model", "measured")
        .replace("uw = 10 }", "active_uw = 10, static_uw = 5, idle_uw = [3, 0] }")
        .replace("uw = 30 }", "active_uw = 30, static_uw = 7, idle_uw = [4, 0] }")
        .replace("uw = 90 }", "active_uw = 90, static_uw = 9, idle_uw = [6, 1] }");
    let p = read(&measured, &[]).domains[0].power.clone();
    assert_eq!((p.busy(1), p.idle(0, 1), p.idle(0, 0)), (30, 4, 3));
    assert_eq!((p.cluster_busy(1), p.cluster_idle(0, 1), p.cluster_idle(1, 1)), (7, 7, 0));
}

/// A domain's static power is one, and so is the cluster it is counted with.
#[test]
fn static_power_is_of_one_cluster() {
    let measured = BOARD
        .replace("energy_model", "measured")
        .replace("uw = 10 }", "active_uw = 10, static_uw = 5, idle_uw = [3, 0] }")
        .replace("uw = 30 }", "active_uw = 30, static_uw = 7, idle_uw = [4, 0] }")
        .replace("uw = 90 }", "active_uw = 90, static_uw = 9, idle_uw = [6, 1] }");
    let apart = measured.replace("cpus = [\"0-1\", \"2-3\"]", "cpus = [\"0\", \"1\", \"2-3\"]");
    assert_ne!(apart, measured);
    let found = parse(&apart, &Options::default()).diagnostics;
    assert!(
        found.iter().any(|d| d.code == "platform::E07" && d.message.contains("CPUs 0-1 of the domain are in 2")),
        "{found:?}"
    );
    let powerless = apart.replace("static_uw = 5", "static_uw = 0").replace("static_uw = 7", "static_uw = 0");
    assert!(parse(&powerless, &Options::default()).platform.is_some());
}

#[test]
fn powers_by_idle_state_fit_the_states() {
    let measured = BOARD
        .replace("energy_model", "measured")
        .replace("uw = 10 }", "active_uw = 10, static_uw = 5, idle_uw = [3, 0] }")
        .replace("uw = 30 }", "active_uw = 30, static_uw = 7, idle_uw = [4, 0] }")
        .replace("uw = 90 }", "active_uw = 90, static_uw = 9, idle_uw = [6, 1] }");
    let codes = |from: &str, to: &str| {
        let found = parse(&measured.replace(from, to), &Options::default()).diagnostics;
        found.iter().map(|d| d.code).collect::<Vec<_>>()
    };
    assert!(codes("", "").is_empty());
    assert_eq!(codes("[6, 1]", "[6, 1, 0]"), ["platform::E07"]);
    assert_eq!(codes("[6, 1]", "[6]"), ["platform::W09"]);
    assert!(codes("[6, 1]", "[0]").is_empty(), "nothing in the first, nothing in the rest");
    assert_eq!(codes("core = \"big\"", "core = \"big\"\nstatic_states = 3"), ["platform::E07"]);
    assert!(codes("[6, 1]", "[6, 6]").is_empty(), "no less is no more");
    assert_eq!(codes("[3, 0]", "[3, 4]"), ["platform::W10"], "a deeper state draws more, at one clock");
}

/// Nothing unusual is said of what is built in but what is so on the real machine.
#[test]
fn built_in_platforms_are_not_unusual() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../platforms");
    let mut read = 0;
    for file in std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()) {
        if file.extension().is_none_or(|e| e != "toml") {
            continue;
        }
        let found = parse(&std::fs::read_to_string(&file).unwrap(), &Options::default()).diagnostics;
        let new = found.iter().filter(|d| ["W06", "W07", "W08", "W09", "W10"].iter().any(|c| d.code.ends_with(c)));
        assert_eq!(new.map(|d| &d.message).collect::<Vec<_>>(), Vec::<&String>::new(), "{}", file.display());
        read += 1;
    }
    assert!(read > 30, "{read}");
}

#[test]
fn a_server_in_few_lines() {
    let server = BOARD
        .split("[[domain]]")
        .next()
        .unwrap()
        .replace("llc = [\"0-1\", \"2-3\"]", "core = { stride = 32 }\nllc = { every = 32 }");
    let server = server.replace("smt_share = [1024]", "smt_share = [1024, 620]").replace("energy_model", "unknown");
    let costs = &BOARD[BOARD.find("[costs]").unwrap()..];
    let idle =
        r#"{ name = "C1", advertised = { exit_us = 1, residency_us = 1 }, actual = { entry_us = 0, exit_us = 1 } }"#;
    let text = format!(
        "{server}[[domain]]\ncpus = {{ of = 64, stride = 32 }}\nopps = [ {{ khz = 1000 }} ]\n\
         [[cluster]]\ncpus = {{ of = 64, every = 64 }}\nidle = [ {idle} ]\n{costs}"
    );
    let parsed = parse(&text, &Options::default());
    assert!(parsed.diagnostics.iter().all(|d| d.message.contains("two of the")), "{:?}", parsed.diagnostics);
    let p = read(&text.replace("llc = { every = 32 }", "llc = [\"0-63\"]"), &[]);
    assert_eq!((p.nr_cpus(), p.domains.len(), p.clusters.len()), (64, 32, 1));
    assert_eq!((p.cpus[33].core, p.cpus[33].domain.0, p.smt_share), (1, 1, vec![1024, 620]));
}

/// What a text is told, and where: the code, the piece of the text, the message.
fn told(text: &str) -> Vec<(String, String, String)> {
    let found = parse(text, &Options::default()).diagnostics;
    found.iter().map(|d| (d.code.into(), text[d.span.clone()].into(), d.message.clone())).collect()
}

#[test]
fn contradictions_have_a_place() {
    let llc = "llc = [\"0-1\", \"2-3\"]";
    let with = |more: &str| told(&BOARD.replace(llc, &format!("{llc}\n{more}")));
    for (more, place, part) in [
        ("package = [\"0\", \"1-3\"]", "[\"0-1\", \"2-3\"]", "a last-level cache lies in two of the packages"),
        ("core = [\"0\", \"1-2\", \"3\"]", "[\"0\", \"1-2\", \"3\"]", "a core lies in two of the last-level caches"),
    ] {
        let found = with(more);
        assert_eq!((found[0].1.as_str(), found[0].2.as_str()), (place, part), "{found:?}");
    }
    let share = told(&BOARD.replace("[1024]", "[1024, 600]"));
    assert_eq!((share[0].0.as_str(), share[0].1.as_str()), ("platform::E07", "[1024, 600]"), "{share:?}");
}

#[test]
fn what_could_not_be_read_has_no_further_mistakes() {
    check("interval_ms = 50", "interval_ms = 99999999999", "E05");
    check("interval_ms = 50", "interval_ms = 0", "E05");
    check("llc = [\"0-1\", \"2-3\"]", "llc = { every = 0 }", "E05");
    check("llc = [\"0-1\", \"2-3\"]", "llc = {}", "E03");
    let long = format!("#{}\n", "#".repeat(crate::toml_tree::MAX_BYTES));
    let found = parse(&long, &Options::default()).diagnostics;
    assert_eq!(found.iter().map(|d| d.code).collect::<Vec<_>>(), ["platform::E02"]);
}
