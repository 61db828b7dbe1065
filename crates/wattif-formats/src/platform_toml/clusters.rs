//! Clusters and their idle states.

use super::domains::Domain;
use super::{CODES, CONTRADICTION, cpulist, machine};
use crate::toml_tree::{Report, Span, Table};
use crate::words::quoted;
use wattif_model::CpuSet;
use wattif_model::check::Diagnostic;
use wattif_model::platform::{Actual, Advertised, CPUIDLE_STATE_MAX, Cluster, IdleState, PowerUnit, Scope};

/// A cluster and where it stands.
pub(super) struct Placed {
    pub cluster: Cluster,
    pub span: Span,
}

pub(super) fn read(root: &mut Table, report: &mut Report) -> Vec<Placed> {
    let tables = root.tables("cluster", report);
    if tables.is_empty() {
        report.error(CODES.missing, 0..0, "there is no [[cluster]]");
    }
    tables.into_iter().flat_map(|t| clusters(t, report)).collect()
}

/// One entry: one cluster, or several with the same states.
fn clusters(mut table: Table, report: &mut Report) -> Vec<Placed> {
    let span = table.span.clone();
    let sets = table.need("cpus", report).map(|n| cpulist::parts(n, "cpus", None, report)).unwrap_or_default();
    let states = table.tables("idle", report);
    if states.is_empty() || states.len() > CPUIDLE_STATE_MAX {
        report.error(
            CODES.range,
            span.clone(),
            format!("a cluster has 1 to {CPUIDLE_STATE_MAX} idle states in `idle`"),
        );
        return vec![];
    }
    let said = report.list.len();
    let idle: Vec<IdleState> = states.into_iter().map(|s| state(s, report)).collect();
    table.finish(&["cpus", "idle"], report);
    // A time that could not be read is 0 here, and follows no order.
    if report.list.len() == said {
        check_states(&idle, &span, report);
    }
    sets.into_iter().map(|cpus| Placed { cluster: Cluster { cpus, idle: idle.clone() }, span: span.clone() }).collect()
}

/// What no governor expects of a table of idle states. The kernel does not check; its governors take what comes later for deeper.
fn check_states(idle: &[IdleState], span: &std::ops::Range<usize>, report: &mut Report) {
    let warning = |code, message: String| Diagnostic::warning(code, span.clone(), message);
    for w in idle.windows(2) {
        let (a, b) = (quoted(&w[0].name), quoted(&w[1].name));
        let of = |s: &IdleState| s.advertised;
        if of(&w[0]).exit_ns > of(&w[1]).exit_ns {
            let found = warning("platform::W01", format!("idle state {b} comes after {a} but is quicker to leave"));
            report.push(found.help("list states from shallow to deep"));
        }
        match of(&w[0]).residency_ns.cmp(&of(&w[1]).residency_ns) {
            std::cmp::Ordering::Greater => {
                let found = warning("platform::W02", format!("idle state {b} comes after {a} but pays off sooner"));
                report.push(found.help("list states by target residency: governors take a later one for deeper"));
            }
            // Real firmware does this: worth knowing, no mistake.
            std::cmp::Ordering::Equal => {
                let message = format!("idle states {a} and {b} pay off after the same time");
                let found = Diagnostic::note("platform::N01", span.clone(), message);
                report.push(found.help("menu and teo then skip the first of them, ladder and the oracle do not; leave it out or say how they differ"));
            }
            std::cmp::Ordering::Less => {}
        }
    }
    let twice = |i: usize| idle[..i].iter().any(|s| s.name == idle[i].name);
    if let Some(i) = (1..idle.len()).find(|&i| twice(i)) {
        let found = warning("platform::W08", format!("two idle states are called {}", quoted(&idle[i].name)));
        report.push(found.help("figures by name take them for one, and so do overrides: name each its own way"));
    }
    if let Some(state) = idle.iter().skip(1).find(|s| s.polling) {
        let found = warning("platform::W04", format!("idle state {} polls but is not the first", quoted(&state.name)));
        report.push(found.help("ladder and haltpoll know a polling state only as the first, menu and teo keep the tick in any; it polls at the power written for it under each"));
    }
    if idle.iter().all(|s| s.disabled) {
        let message = format!("all idle states are disabled: governors fall back on {}", fallbacks(idle));
        let found = warning("platform::W05", message);
        report.push(found.help("leave one enabled"));
    }
}

/// What governors enter where no state is enabled: the first; ladder begins above one that it is told to poll, and haltpoll does
/// not look.
fn fallbacks(idle: &[IdleState]) -> String {
    let first = quoted(&idle[0].name);
    let Some(second) = idle.get(1).map(|s| quoted(&s.name)) else { return first };
    match (idle[0].polling, idle[0].name.as_str()) {
        (false, _) => format!("{first}, haltpoll also on {second}"),
        // Its driver does not say before that it polls.
        (true, "snooze") => format!("{first}, ladder since 6.2 on {second}, haltpoll on both"),
        (true, _) => format!("{first}, ladder on {second}, haltpoll on both"),
    }
}

fn state(mut table: Table, report: &mut Report) -> IdleState {
    let name = table.need("name", report).and_then(|n| n.text("name", report).map(String::from)).unwrap_or_default();
    let scope = scope(&mut table, report);
    let mut advertised = table.table("advertised", report);
    let mut actual = table.table("actual", report);
    let state = IdleState {
        name,
        scope,
        polling: table.boolean("polling", report).unwrap_or(false),
        disabled: table.boolean("disabled", report).unwrap_or(false),
        advertised: Advertised {
            exit_ns: machine::need_time(&mut advertised, "exit", report),
            residency_ns: machine::need_time(&mut advertised, "residency", report),
        },
        actual: Actual {
            entry_ns: machine::need_time(&mut actual, "entry", report),
            exit_ns: machine::need_time(&mut actual, "exit", report),
        },
    };
    advertised.finish(&["exit_us", "residency_us"], report);
    actual.finish(&["entry_us", "exit_us"], report);
    table.finish(&["name", "scope", "polling", "disabled", "advertised", "actual"], report);
    state
}

fn scope(table: &mut Table, report: &mut Report) -> Scope {
    match table.text("scope", report).as_deref() {
        None | Some("cpu") => Scope::Cpu,
        Some("core") => Scope::Core,
        Some("cluster") => Scope::Cluster,
        Some(other) => {
            let message = format!("unknown scope {}: cpu, core or cluster", quoted(other));
            report.error(CODES.range, table.span.clone(), message);
            Scope::Cpu
        }
    }
}

/// What a cluster draws beside its CPUs, busy and then in each state; `None`: that depends on the clock.
fn cluster_powers(d: &Domain) -> Vec<Option<u64>> {
    let power = &d.domain.power;
    let rows = std::iter::once(&power.cluster_busy_uw).chain(&power.cluster_idle_uw);
    let same = |row: &Vec<u64>| row.iter().all(|uw| *uw == row[0]).then(|| row.first().copied().unwrap_or(0));
    rows.map(same).collect()
}

/// Powers by idle state: none of states that do not exist, and none left out after one that draws something. A cluster's own
/// power follows one clock.
pub(super) fn check_powers(domains: &[Domain], clusters: &[Placed], unit: PowerUnit, report: &mut Report) {
    for c in clusters {
        let shares = |d: &&Domain| d.domain.cpus.iter_and(&c.cluster.cpus).next().is_some();
        let clocks: Vec<&Domain> = domains.iter().filter(shares).collect();
        let steady = clocks.first().map(|d| cluster_powers(d));
        let follows = |d: &&Domain| {
            let powers = cluster_powers(d);
            powers.iter().any(Option::is_none) || Some(powers) != steady
        };
        if clocks.len() > 1 && clocks.iter().any(follows) {
            let message = format!(
                "the power of the cluster of CPUs {} follows a clock, and it has {} of them",
                c.cluster.cpus,
                clocks.len()
            );
            let found = Diagnostic::error(CONTRADICTION, c.span.clone(), message);
            report.push(
                found.help("give the CPUs of each [[domain]] a [[cluster]], or clusters one power at all clocks"),
            );
            return;
        }
    }
    let apart =
        |d: &&Domain| clusters.iter().filter(|c| c.cluster.cpus.iter_and(&d.domain.cpus).next().is_some()).count();
    let draws = |d: &&Domain| cluster_powers(d).iter().any(|uw| *uw != Some(0));
    if unit == PowerUnit::Measured
        && let Some(d) = domains.iter().find(|d| apart(d) > 1 && draws(d))
    {
        let message = format!(
            "`static_uw` is drawn once, and CPUs {} of the domain are in {} clusters",
            d.domain.cpus,
            apart(&d)
        );
        let found = Diagnostic::error(CONTRADICTION, d.span.clone(), message);
        report
            .push(found.help("give the CPUs of each [[cluster]] a [[domain]], or those of the domain one [[cluster]]"));
        return;
    }
    let keys = match unit {
        PowerUnit::EasCosts => ["idle_core", "idle_cluster"],
        _ => ["idle_uw", "static_states"],
    };
    for (i, d) in domains.iter().enumerate() {
        let cluster = clusters.iter().find(|c| c.cluster.cpus.iter_and(&d.domain.cpus).next().is_some());
        let Some(states) = cluster.map(|c| c.cluster.idle.len()).filter(|_| i == 0 || domains[i - 1].span != d.span)
        else {
            continue; // an entry for several domains is looked at once
        };
        // Those deeper than `static_states` are one row more.
        let rows = [&d.domain.power.idle_uw[..], &d.domain.power.cluster_idle_uw[..]];
        for (key, rows) in keys.iter().zip(rows) {
            let named = if *key == "static_states" { rows.len().saturating_sub(1) } else { rows.len() };
            let message = format!("`{key}` speaks of {named} idle states, the cluster has {states}");
            if named > states {
                let found = Diagnostic::error(CONTRADICTION, d.span.clone(), message);
                report.push(found.help("one for each state of `idle` in [[cluster]], from shallow to deep"));
            } else if named < states && rows.last().is_some_and(|last| last.iter().any(|uw| *uw > 0)) {
                let found = Diagnostic::warning("platform::W09", d.span.clone(), message);
                report.push(found.help("the deeper ones draw nothing; write 0 for the first of them if that is meant"));
            }
        }
        if let Some(c) = cluster {
            rows.iter().for_each(|rows| check_depth(rows, &c.cluster.idle, d, report));
        }
    }
}

/// What no machine has: a deeper idle state that draws more than the one before it, at some clock. One complaint a table.
fn check_depth(rows: &[Vec<u64>], idle: &[IdleState], d: &Domain, report: &mut Report) {
    let deeper = rows.windows(2).zip(idle.windows(2));
    let more = |w: &[Vec<u64>]| w[0].iter().zip(&w[1]).position(|(shallow, deep)| deep > shallow);
    let Some((at, states)) = deeper.filter_map(|(w, states)| Some((more(w)?, states))).next() else { return };
    let (a, b) = (quoted(&states[0].name), quoted(&states[1].name));
    // Powers that do not follow the clock are one column.
    let clock = match rows[0].len() {
        1 => String::new(),
        _ => d.domain.opps.get(at).map(|opp| format!(" at {} kHz", opp.khz)).unwrap_or_default(),
    };
    let found = Diagnostic::warning(
        "platform::W10",
        d.span.clone(),
        format!("idle state {b} draws more than the shallower {a}{clock}"),
    );
    report.push(
        found.help("energy then speaks against sleeping deeply, and governors are compared wrongly: check the powers"),
    );
}

/// Every CPU in exactly one cluster.
pub(super) fn check(clusters: &[Placed], nr: usize, report: &mut Report) {
    let mut all = CpuSet::default();
    for c in clusters {
        if let Some(cpu) = all.iter_and(&c.cluster.cpus).next() {
            report.error(CONTRADICTION, c.span.clone(), format!("CPU {cpu} is in two clusters"));
        }
        c.cluster.cpus.iter().for_each(|cpu| all.insert(cpu));
    }
    // What could not be read has been said already, and explains the rest.
    if report.has_errors() {
        return;
    }
    for c in clusters {
        let strangers: CpuSet = c.cluster.cpus.iter().filter(|cpu| cpu.at() >= nr).collect();
        if !strangers.is_empty() {
            let message = format!("the cluster holds CPUs {strangers}, which are in no [[domain]]");
            report
                .push(Diagnostic::error(CONTRADICTION, c.span.clone(), message).help("one of the two lists is wrong"));
        }
    }
    let homeless: CpuSet = CpuSet::first(nr).iter().filter(|cpu| !all.contains(*cpu)).collect();
    if let Some(last) = clusters.last().filter(|_| !homeless.is_empty()) {
        let message = format!("CPUs {homeless} are in no [[cluster]]");
        let help = "add them to the `cpus` of a [[cluster]]: every CPU has idle states";
        report.push(Diagnostic::error(CONTRADICTION, last.span.clone(), message).help(help));
    }
}
