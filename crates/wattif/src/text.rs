//! What a run says, for people: aligned tables under one line that names everything that was used.

use crate::error::Findings;
use crate::run::Outcome;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use wattif_lab::metrics::{Deadlock, DomainReport, RunReport, Summary};
use wattif_lab::table::{Align, Table, cell, one_line, told_length};
use wattif_model::platform::{Platform, PowerUnit};
use wattif_model::run::{Blocked, RunSpec};

/// More threads than this are shown by task.
const THREADS_SHOWN: usize = 24;
/// A larger excess over the oracle is not told as a ratio, %.
const MOST_EXCESS_PCT: f64 = 1000.0;
/// More CPUs than this are not shown one by one.
const CPUS_SHOWN: usize = 64;

/// Everything about one run.
pub fn run(spec: &RunSpec, set: &BTreeMap<String, String>, outcome: &Outcome) -> String {
    let report = &outcome.report;
    let mut out = used(spec, set, &format!("seed {}", spec.seed));
    if outcome.summary.end < spec.duration {
        let end = cell(outcome.summary.end.as_s_f64());
        let _ = writeln!(out, "ended     at {end} s, when nothing was left to run: shares and rates are of this time");
    }
    let _ = writeln!(out, "digest    {}\nspec      {}", outcome.summary.digest, spec.hash());
    let planned = Some(spec.duration.as_s_f64());
    out + &sections(&spec.platform, report, planned, deadlock(&outcome.summary.deadlock))
}

/// The tables of a report alone: what a recorded trace has.
pub fn tables(platform: &Platform, report: &RunReport) -> String {
    sections(platform, report, None, String::new())
}

fn sections(platform: &Platform, report: &RunReport, planned_s: Option<f64>, deadlock: String) -> String {
    let mut out = String::new();
    let sections = [
        ("Work done", work(report, planned_s)),
        ("Frames (µs, by mark)", frames(report)),
        (
            "Stages of a frame (µs per frame: a task's threads on CPUs and from waking to running; a device serving and its queue)",
            stages(report),
        ),
        ("Latency (µs)", latency(report)),
        ("Threads", threads(report)),
        ("Groups", groups(report)),
        ("CPUs", cpus(report)),
        ("Idle states", idle(report)),
        ("Frequency", domains(&report.domains)),
        ("Energy", energy(platform, report)),
        ("Signals (periods of PELT: 1.048576 ms)", signals(report)),
        ("Blocked for ever at the end", deadlock),
        ("How far to trust it", trust(platform)),
    ];
    for (title, body) in sections.iter().filter(|(_, body)| !body.is_empty()) {
        let _ = write!(out, "\n{title}\n{}", indented(body));
    }
    out
}

/// The lines that name platform, kernel, workload, duration, seeds and overrides.
pub fn used(spec: &RunSpec, set: &BTreeMap<String, String>, seeds: &str) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "workload  {}: {}, {seeds}", spec.workload.name, length(spec));
    let _ = writeln!(out, "platform  {}: {}", spec.platform.name, spec.platform.title);
    let _ = writeln!(out, "kernel    {}: {}", spec.kernel.name, spec.kernel.title);
    for (path, value) in set {
        let _ = writeln!(out, "set       {path} = {value}");
    }
    out
}

/// How long it is run.
pub fn length(spec: &RunSpec) -> String {
    told_length(spec.workload.ends_by_itself(), spec.duration.as_s_f64())
}

/// How long it took; a note, for it differs every time.
pub fn speed(spec: &RunSpec, outcome: &Outcome) -> String {
    let sim = outcome.summary.end.as_s_f64();
    let (slices, wall) = (outcome.summary.slices, outcome.wall_s.max(1e-9));
    format!(
        "{}: {slices} slices in {} s, {} × real time",
        spec.workload.name,
        wattif_lab::table::number(wall, 3),
        wattif_lab::table::number(sim / wall, 3)
    )
}

/// What is measured, estimated or calibrated.
pub fn trust(platform: &Platform) -> String {
    trust_lines(platform).iter().map(|l| format!("- {l}\n")).collect()
}

/// The same, line by line: each part once, where the platform speaks of it too.
pub fn trust_lines(platform: &Platform) -> Vec<String> {
    // The sources of both come below.
    let alone = |line: &String| match line.strip_prefix("costs and noise estimated") {
        Some(rest) => rest.strip_prefix(", ").map(|rest| format!("costs and noise: {rest}")),
        None => Some(line.clone()),
    };
    let mut lines: Vec<String> = platform.trust.iter().filter_map(alone).collect();
    lines.push(format!("costs: {}", platform.costs.source));
    lines.push(format!("noise: {}", platform.noise.source));
    let (power, so) = match (platform.power.unit, platform.power.sourced) {
        (PowerUnit::Unknown, _) => ("nothing is known", "no energy is reported"),
        (PowerUnit::EasCosts, _) => ("abstract units of an EAS table", "only ratios mean something"),
        (_, true) => ("sourced", "absolute figures"),
        (_, false) => ("estimated", "only ratios mean something"),
    };
    match lines.iter_mut().find(|l| l.starts_with("power:") || l.contains(so)) {
        Some(own) if own.contains(so) || own.contains("relative") => {}
        Some(own) => *own += &format!("; {so}"),
        None => lines.push(format!("power: {power}; {so}")),
    }
    lines
}

/// The last lines of a page: how far to trust `what`.
pub fn trust_section(what: &str, platform: &Platform) -> String {
    format!("\nHow far to trust {what}\n{}", indented(&trust(platform)))
}

/// `seed 1`, `seeds 1 to 20`, or each of them.
pub fn seeds(seeds: &[u64]) -> String {
    let consecutive = seeds.windows(2).all(|w| w[0] + 1 == w[1]);
    match seeds {
        [one] => format!("seed {one}"),
        [first, .., last] if consecutive => format!("seeds {first} to {last}"),
        some => format!("seeds {}", some.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// Two columns in.
pub fn indented(body: &str) -> String {
    body.lines().map(|l| if l.is_empty() { "\n".to_string() } else { format!("  {l}\n") }).collect()
}

fn columns(names: &[&'static str]) -> Table {
    Table::new(names.iter().enumerate().map(|(i, n)| (*n, if i == 0 { Align::Left } else { Align::Right })))
}

fn summary(s: &Summary) -> Vec<String> {
    if s.count == 0 {
        return vec!["0".into()];
    }
    let figures = [s.min, s.mean, s.stddev, s.p50, s.p90, s.p99, s.p999, s.max];
    std::iter::once(s.count.to_string()).chain(figures.map(cell)).collect()
}

/// In the workload's own terms: how much of it, how fast, and when it was done.
fn work(report: &RunReport, planned_s: Option<f64>) -> String {
    let m = &report.metrics;
    let mut table = columns(&["", "count", "per second"]);
    m.throughput.iter().for_each(|(mark, rate)| table.row([mark, &rate.count.to_string(), &cell(rate.per_s)]));
    let mut out = if m.throughput.is_empty() { String::new() } else { table.to_text() };
    if planned_s.is_some_and(|planned| m.duration_s < planned) {
        let _ = writeln!(out, "done after {} s", cell(m.duration_s));
    }
    out
}

/// Of marks that are due at a vsync.
fn frames(report: &RunReport) -> String {
    let head =
        ["", "fps", "stddev", "jank %", "missed", "mean", "p25", "p50", "p75", "p90", "p95", "p99", "energy each"];
    let mut table = columns(&head);
    let unit = report.metrics.energy.as_ref().map_or("", |e| e.unit.as_str());
    let figure = |f: Option<f64>| f.map_or("–".into(), cell);
    let paced = report.metrics.frames.iter().filter_map(|(mark, f)| Some((mark, f, f.pace?)));
    let mut any = false;
    for (mark, f, pace) in paced {
        let d = &f.duration_us;
        let pace = [figure(pace.fps), figure(pace.fps_stddev), figure(pace.jank_pct), pace.missed.to_string()];
        let lengths = [Some(d.mean), f.p25, Some(d.p50), f.p75, Some(d.p90), Some(d.p95), Some(d.p99)].map(figure);
        let energy = f.energy.map_or("–".into(), |e| format!("{} {unit}", cell(e)));
        table.row(std::iter::once(mark.clone()).chain(pace).chain(lengths).chain([energy]));
        any = true;
    }
    if any { table.to_text() } else { String::new() }
}

/// Who, and what device, works on a frame for how long. By the first mark; others have the same share of another number.
fn stages(report: &RunReport) -> String {
    let Some(first) = report.metrics.frames.values().find(|f| !f.stages.is_empty()) else { return String::new() };
    let mut table = columns(&["", "working", "waiting"]);
    first.stages.iter().for_each(|(task, s)| table.row([task, &cell(s.run_us), &cell(s.wait_us)]));
    table.to_text()
}

fn latency(report: &RunReport) -> String {
    let mut table = columns(&["", "count", "min", "mean", "stddev", "p50", "p90", "p99", "p99.9", "max"]);
    let mut row = |name: &str, s: &Summary| table.row(std::iter::once(name.to_string()).chain(summary(s)));
    row("waking to running (wakeup_latency)", &report.metrics.wakeup_latency_us);
    row("as rt-app logs it (wu_lat)", &report.metrics.wu_lat_us);
    if let Some(deadline) = &report.metrics.deadline {
        row("deadline tasks, lateness of jobs", &deadline.lateness_us);
    }
    for (mark, frames) in &report.metrics.frames {
        row(mark, &frames.duration_us);
    }
    let mut out = table.to_text();
    if let Some(d) = &report.metrics.deadline {
        let _ = writeln!(out, "deadlines missed: {} of {} jobs ({:.2} %)", d.misses, d.jobs, d.miss_pct);
        for (t, d) in report.by_task.iter().filter_map(|t| Some((t, t.deadline.as_ref()?))) {
            let _ =
                writeln!(out, "  {}: {} of {}, up to {} µs late", t.task, d.misses, d.jobs, cell(d.lateness_us.max));
        }
    }
    out
}

/// Policies of all threads of each task.
fn policies(report: &RunReport) -> BTreeMap<(&str, bool), String> {
    let mut all: BTreeMap<(&str, bool), BTreeSet<&str>> = BTreeMap::new();
    for t in &report.tasks {
        all.entry((&t.task, t.workload)).or_default().extend(t.policy.split(", "));
    }
    all.into_iter().map(|(task, of)| (task, Vec::from_iter(of).join(", "))).collect()
}

fn threads(report: &RunReport) -> String {
    let mut table =
        columns(&["", "threads", "policy", "runtime s", "CPU %", "wake-ups", "migrations", "wakeup mean µs", "p99 µs"]);
    if report.tasks.len() <= THREADS_SHOWN {
        for t in &report.tasks {
            let (mean, p99) = t.wakeup_latency_us.as_ref().map_or(Default::default(), mean_p99);
            table.row([
                &t.name,
                "1",
                &t.policy,
                &cell(t.runtime_s),
                &percent(t.cpu_share),
                &t.activations.to_string(),
                &t.migrations.to_string(),
                &mean,
                &p99,
            ]);
        }
        return table.to_text();
    }
    let policies = policies(report);
    for g in &report.by_task {
        let (mean, p99) = mean_p99(&g.wakeup_latency_us);
        let policy = policies.get(&(g.task.as_str(), g.workload)).map_or("", String::as_str);
        table.row([
            &g.task,
            g.threads.to_string().as_str(),
            policy,
            &cell(g.runtime_s),
            &percent(g.cpu_share),
            &g.activations.to_string(),
            &g.migrations.to_string(),
            &mean,
            &p99,
        ]);
    }
    table.to_text()
}

fn groups(report: &RunReport) -> String {
    if report.groups.is_empty() {
        return String::new();
    }
    let mut table = columns(&["", "runtime s", "CPU %", "periods", "throttled", "throttled s", "burst s"]);
    for g in &report.groups {
        table.row([
            &g.path,
            &cell(g.runtime_s),
            &percent(g.cpu_share),
            &g.nr_periods.to_string(),
            &g.nr_throttled.to_string(),
            &cell(g.throttled_s),
            &cell(g.burst_s),
        ]);
    }
    table.to_text()
}

fn mean_p99(s: &Summary) -> (String, String) {
    if s.count == 0 { Default::default() } else { (cell(s.mean), cell(s.p99)) }
}

fn percent(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

/// Right, too deep, too shallow; what ended the sleeps; and how far from the best possible they were.
fn idle(report: &RunReport) -> String {
    let mut out = String::new();
    if let Some(a) = report.metrics.idle_accuracy {
        let (right, above, below) = (cell(a.correct_pct), cell(a.above_pct), cell(a.below_pct));
        let _ = writeln!(out, "right {right} %, too deep {above} % (undershoot), too shallow {below} % (overshoot)");
    }
    if let Some(w) = report.metrics.idle_wakeups {
        let all = [
            ("timers", w.timer_pct),
            ("the tick", w.tick_pct),
            ("other CPUs", w.ipi_pct),
            ("devices", w.device_pct),
            ("poll limits", w.poll_limit_pct),
        ];
        let some = all.iter().filter(|(_, pct)| *pct > 0.0).map(|(what, pct)| format!("{what} {} %", cell(*pct)));
        let _ = writeln!(out, "ended by {}", some.collect::<Vec<_>>().join(", "));
    }
    if let Some(o) = &report.metrics.oracle {
        let excess = match (o.energy_excess_pct, o.idle_energy, o.energy) {
            // Where idle states draw next to nothing a ratio says nothing.
            (Some(pct), Some(idle), Some(least)) if pct > MOST_EXCESS_PCT => {
                format!("idle energy {} instead of {}, ", cell(idle), cell(least))
            }
            (Some(pct), ..) => format!("{} % more idle energy, ", cell(pct)),
            _ => String::new(),
        };
        let (mean, p99) = (cell(o.late_us.mean), cell(o.late_us.p99));
        let _ = writeln!(out, "beyond an oracle: {excess}late by {mean} µs in the mean, {p99} µs at p99");
    }
    out
}

fn cpus(report: &RunReport) -> String {
    if report.cpus.is_empty() {
        return String::new();
    }
    if report.cpus.len() > CPUS_SHOWN {
        return format!("{} CPUs; --json lists each\n", report.cpus.len());
    }
    let states: Vec<&str> = {
        let mut names: Vec<&str> = Vec::new();
        report.cpus.iter().flat_map(|c| &c.idle).for_each(|i| {
            if !names.contains(&i.name.as_str()) {
                names.push(&i.name)
            }
        });
        names
    };
    let head = ["CPU".to_string(), "busy %".into()].into_iter().chain(states.iter().map(|s| format!("{s} %")));
    let head = head.chain(["sleeps", "too deep", "too shallow"].map(String::from));
    let mut table = Table::new(head.map(|h| (h, Align::Right)));
    let length = report.metrics.duration_s.max(f64::MIN_POSITIVE);
    for c in &report.cpus {
        let idle = |name: &str| c.idle.iter().filter(|i| i.name == name).map(|i| i.residency_s).reduce(|a, b| a + b);
        let sum = |of: fn(&wattif_lab::metrics::IdleReport) -> u64| c.idle.iter().map(of).sum::<u64>().to_string();
        // A CPU that lacks a state others have.
        let shares = states.iter().map(|s| idle(s).map_or("–".into(), |residency| percent(residency / length)));
        let row = [c.cpu.to_string(), percent(c.busy_s / length)].into_iter().chain(shares);
        table.row(row.chain([sum(|i| i.usage), sum(|i| i.above), sum(|i| i.below)]));
    }
    table.to_text()
}

fn domains(domains: &[DomainReport]) -> String {
    if domains.is_empty() {
        return String::new();
    }
    let mut table =
        Table::new([("CPUs", Align::Left), ("transitions", Align::Right), ("share of time by MHz", Align::Left)]);
    // Of a recording, a clock may be untold.
    for d in domains.iter().filter(|d| !d.freq_residency.is_empty()) {
        let total: f64 = d.freq_residency.iter().map(|f| f.s).sum();
        let used = d.freq_residency.iter().filter(|f| f.s > 0.0);
        let shares: Vec<String> =
            used.map(|f| format!("{} {}%", f.khz / 1000, percent(f.s / total.max(f64::MIN_POSITIVE)))).collect();
        table.row([d.cpus.clone(), d.transitions.to_string(), shares.join("  ")]);
    }
    table.to_text()
}

/// How fast signals follow, of a workload made for that.
fn signals(report: &RunReport) -> String {
    if report.metrics.signals.is_none() {
        return String::new();
    }
    let mut table = columns(&["", "0 to 95 %: ms", "periods", "100 to 10 %: ms", "periods"]);
    for name in ["util_avg", "walt_demand"] {
        let figure = |f: &str| report.metric(&format!("signals.{name}.{f}"), None);
        let figures = ["rise_ms", "rise_periods", "fall_ms", "fall_periods"].map(figure);
        if figures.iter().any(Option::is_some) {
            table.row(std::iter::once(name.to_owned()).chain(figures.map(|f| f.map_or("–".to_owned(), cell))));
        }
    }
    table.to_text()
}

/// Absolute only where the platform's powers are sourced.
fn energy(platform: &Platform, report: &RunReport) -> String {
    let Some(e) = &report.metrics.energy else { return String::new() };
    let mut table = columns(&["", "energy", "share %"]);
    let mut row = |name: &str, value: f64| {
        let share = if e.total > 0.0 { percent(value / e.total) } else { "–".into() };
        table.row([name.to_string(), format!("{} {}", cell(value), e.unit), share]);
    };
    row("CPUs", e.cpus.iter().sum());
    row("clusters", e.clusters.iter().sum());
    row("rest of the system", e.base);
    row("total", e.total);
    let mut out = table.to_text();
    let absolute = platform.power.sourced && platform.power.unit != PowerUnit::EasCosts;
    match report.metrics.power_mean.filter(|_| absolute) {
        Some(watts) => drop(writeln!(out, "mean power {} W", cell(watts))),
        None if platform.power.unit == PowerUnit::EasCosts => {
            out += "relative: the platform's powers are in the abstract units of an EAS table, so only ratios between runs mean something\n"
        }
        None => out += "relative: the platform's powers are not sourced, so only ratios between runs mean something\n",
    }
    out
}

/// That these kernels have no such figure, which others have.
pub fn lack(kernels: &[&str], metric: &str) -> String {
    let has = if kernels.len() == 1 { "has" } else { "have" };
    format!("{} {has} no `{metric}`", kernels.join(" and "))
}

/// Of each kernel of a comparison or point of a sweep, with so many seeds: which threads wait for ever, and for whom. Empty where
/// none do.
pub fn deadlocks<'a>(of: impl IntoIterator<Item = (String, Option<&'a Deadlock>)>, seeds: usize) -> String {
    const SHOWN: usize = 8;
    let some: Vec<(String, &Deadlock)> = of.into_iter().filter_map(|(name, d)| Some((one_line(name), d?))).collect();
    let told = |(name, d): &(String, &Deadlock)| {
        let runs = if seeds > 1 { format!(" ({} of {seeds} seeds)", d.runs) } else { String::new() };
        format!("{name}{runs}: {}", blocked(&d.blocked))
    };
    let mut out: String = some.iter().take(SHOWN).map(told).collect();
    if some.len() > SHOWN {
        let _ = writeln!(out, "… and so at {} more", some.len() - SHOWN);
    }
    out
}

/// The part of a page that holds them, if there are any.
pub fn deadlock_section(told: &str) -> String {
    if told.is_empty() { String::new() } else { format!("\nBlocked for ever at the end\n{}", indented(told)) }
}

/// The part of a page that says whose runs are a part of their work.
pub fn unfinished_section(cut: &Findings) -> String {
    let lines: String = cut.messages().map(|message| one_line(message) + "\n").collect();
    format!("\nFigures of a part of the work\n{}", indented(&lines))
}

/// [`deadlocks`] for stderr.
pub fn deadlock_warnings(told: &str) -> String {
    let line = |l: &str| format!("{}{l}\n", if l.starts_with(' ') { "" } else { "warning: " });
    told.lines().map(line).collect()
}

/// What stderr says of threads that wait for ever: who waits for whom, a few of them.
pub fn deadlock_warning(of: &[Blocked]) -> String {
    format!("warning: {}", blocked(of))
}

fn blocked(of: &[Blocked]) -> String {
    const SHOWN: usize = 8;
    let n = of.len();
    let all = if n == 1 { "1 thread is".into() } else { format!("{n} threads are") };
    let mut out = format!("{all} blocked for ever at the end\n");
    out += &indented(&deadlock(&of[..n.min(SHOWN)]));
    if n > SHOWN {
        out += &format!("  … and {} more\n", n - SHOWN);
    }
    out
}

/// Who waits for whom.
fn deadlock(blocked: &[Blocked]) -> String {
    let how = |what: &str| match what.split(' ').next() {
        Some("semaphore") => "which would be posted by",
        Some("condition") => "which would be signalled by",
        Some("queue") => "into which a token would be put by",
        _ => "which would be reached by",
    };
    let line = |b: &Blocked| match (b.held_by.as_slice(), b.given_by.as_slice()) {
        ([], []) => format!("{} waits for {}; nobody will ever give it", b.thread, b.waits_for),
        ([], givers) => format!("{} waits for {}, {} {}", b.thread, b.waits_for, how(&b.waits_for), givers.join(", ")),
        (holders, _) => format!("{} waits for {}, held by {}", b.thread, b.waits_for, holders.join(", ")),
    };
    blocked.iter().map(|b| one_line(line(b)) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattif_lab::metrics::TaskReport;

    #[test]
    fn trust_is_told_once() {
        for name in crate::data::Collection::Platforms.names() {
            let platform = crate::load::platform(name, &crate::Settings::default()).unwrap().value;
            let lines = trust_lines(&platform);
            let about = |what: &str| lines.iter().filter(|l| l.starts_with(what)).count();
            assert_eq!(
                (about("costs: "), about("noise: "), about("costs and noise estimated")),
                (1, 1, 0),
                "{lines:?}"
            );
            let power = |l: &&String| l.starts_with("power:") || l.contains("no energy");
            assert_eq!(lines.iter().filter(power).count(), 1, "{lines:?}");
        }
    }

    #[test]
    fn policies_by_task() {
        let thread =
            |task: &str, policy: &str| TaskReport { task: task.into(), policy: policy.into(), ..TaskReport::default() };
        let tasks = vec![thread("a", "SCHED_FIFO"), thread("b", "SCHED_OTHER"), thread("a", "SCHED_FIFO")];
        let report = RunReport { tasks, ..RunReport::default() };
        let all = policies(&report);
        assert_eq!((all[&("a", false)].as_str(), all[&("b", false)].as_str()), ("SCHED_FIFO", "SCHED_OTHER"));
    }
}
