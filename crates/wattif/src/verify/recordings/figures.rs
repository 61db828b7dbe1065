//! The figures of a case, by the definitions of `measure.py` of the recordings.
//!
//! | word | meaning |
//! |---|---|
//! | window | the lifetimes' overlap, union, or the span of one group, less what is skipped |
//! | stint | from switch-in to switch-out of a thread, wholly in the window |
//! | turn | stints joined while no other thread of the case ran on that CPU in between |
//! | wake-up latency | `sched_waking` → switch-in, the switch-in in the window |
//! | share | CPU time in the window, % of one CPU |
//! | job | from `sched_waking` to the next switch-out into sleep: response is its length, work its CPU time |
//! | cycle | from one switch-out into sleep to the next |

use super::case::{Case, CaseThread, WindowKind};
use super::history::{History, Stint, Thread, Wake};
use super::jobs::{Job, jobs};
use std::collections::BTreeMap;

/// Figures by path, such as `groups.cfs.wakeup_latency.mean_us`; those without a value are left out.
pub type Figures = BTreeMap<String, f64>;

/// Jobs are listed one by one up to this many.
const LISTED_JOBS: usize = 24;
/// A delay ends this late at most, ns: the slack of timers, and an idle CPU's way out.
const DELAY_LATE_NS: u64 = 600_000;
/// Turns of the pinned CPU that are listed.
const LISTED_TURNS: usize = 60;

/// Rounds to decimal digits, ties to even, as the recordings' figures are.
pub(super) fn round(value: f64, digits: usize) -> f64 {
    format!("{value:.digits$}").parse().expect("a formatted number is one")
}

/// The percentile `q` of sorted values.
fn percentile(sorted: &[f64], q: f64) -> f64 {
    sorted[((q * sorted.len() as f64) as usize).min(sorted.len() - 1)]
}

/// Count, mean, deviation and percentiles of `values` (µs) below `path`.
fn distribution(out: &mut Figures, path: &str, mut values: Vec<f64>, digits: usize, over_us: Option<f64>) {
    if values.is_empty() {
        return;
    }
    values.sort_by(f64::total_cmp);
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n;
    let mut put = |name: &str, value: f64, digits| out.insert(format!("{path}.{name}"), round(value, digits));
    put("n", n, 0);
    put("mean_us", mean, digits);
    put("sd_us", variance.sqrt(), digits);
    for (name, q) in [("p50_us", 0.5), ("p90_us", 0.9), ("p99_us", 0.99)] {
        put(name, percentile(&values, q), digits);
    }
    if let Some(over) = over_us {
        let above = values.iter().filter(|v| **v > over).count() as f64;
        put(&format!("share_over_{over}us_pct"), 100.0 * above / n, 2);
    }
}

/// ns to µs.
fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}
/// ns to ms.
fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// The threads of a case in a trace, and the window on them.
pub struct View<'h> {
    pub(super) case: &'h Case,
    pub(super) history: &'h History,
    threads: Vec<(&'h CaseThread, Found<'h>)>,
    /// Begin and end, ns.
    pub window: (u64, u64),
}

/// A thread with the lifetime that counts.
#[derive(Clone, Copy)]
struct Found<'h> {
    thread: &'h Thread,
    /// Its wake-ups.
    wakes: &'h [Wake],
    start: u64,
    end: u64,
}

impl<'h> View<'h> {
    /// Finds the threads of `case`: by their recorded names, or, in a run of the workload file, as instances of its tasks.
    pub fn new(case: &'h Case, history: &'h History) -> Result<View<'h>, String> {
        let mut threads = Vec::new();
        for t in &case.threads {
            let thread = if history.simulated { instance(history, t) } else { recorded(history, t) };
            let thread = thread.ok_or_else(|| format!("thread `{}` is not in the trace", t.key))?;
            // A run's threads sleep their delay, which a recording's do not: what ends it is no wake-up of theirs.
            let delay = history.zero + 1000 * t.delay_us;
            let ends_delay = |w: &Wake| w.waking.is_some_and(|at| (delay..delay + DELAY_LATE_NS).contains(&at));
            let delayed = history.simulated && delay > thread.started() && thread.wakes.first().is_some_and(ends_delay);
            let wakes = if delayed { &thread.wakes[1..] } else { &thread.wakes };
            threads.push((t, Found { thread, wakes, start: thread.started(), end: thread.ended(history.last) }));
        }
        let mut view = View { case, history, threads, window: (0, 0) };
        view.window = view.cut();
        Ok(view)
    }

    fn cut(&self) -> (u64, u64) {
        let w = &self.case.window;
        let counts = |t: &CaseThread| w.kind != WindowKind::Span || w.group.as_deref() == Some(&t.group);
        let counted = || self.threads.iter().filter(|(t, _)| counts(t)).map(|(_, f)| f);
        let (starts, ends) = (counted().map(|f| f.start), counted().map(|f| f.end));
        let (a, b) = match w.kind {
            WindowKind::Overlap => (starts.max(), ends.min()),
            WindowKind::Union | WindowKind::Span => (starts.min(), ends.max()),
        };
        let ns = |ms: f64| (ms * 1e6) as u64;
        let a = match w.start_after_zero_ms {
            Some(after) if self.history.simulated => self.history.zero + ns(after),
            _ => a.unwrap_or(0) + ns(w.skip_head_ms),
        };
        (a, b.unwrap_or(0).saturating_sub(ns(w.skip_tail_ms)))
    }

    pub(super) fn within(&self, at: u64) -> bool {
        (self.window.0..self.window.1).contains(&at)
    }

    /// Stints cut to the window; true where they lie wholly in it.
    fn clip(&self, thread: &'h Thread) -> impl Iterator<Item = (Stint, bool)> + 'h {
        let (a, b) = self.window;
        let inside = thread.stints.iter().filter(move |s| s.end > a && s.start < b);
        inside.map(move |s| {
            let whole = s.start >= a && s.end <= b;
            (Stint { start: s.start.max(a), end: s.end.min(b), ..*s }, whole)
        })
    }

    /// All figures.
    pub fn figures(&self) -> Figures {
        let mut out = Figures::new();
        let (a, b) = self.window;
        out.insert("window.start_s".into(), round(a as f64 / 1e9, 6));
        out.insert("window.end_s".into(), round(b as f64 / 1e9, 6));
        out.insert("window.length_ms".into(), round(self.length_ms(), 3));
        let turns = self.turns();
        for (t, found) in &self.threads {
            self.thread(&mut out, t, found);
        }
        let mut groups: Vec<&str> = Vec::new();
        for (t, _) in &self.threads {
            if !groups.contains(&t.group.as_str()) {
                groups.push(&t.group);
            }
        }
        groups.iter().for_each(|group| self.group(&mut out, group, &turns));
        let switches = self.history.switches.iter().filter(|at| self.within(**at)).count();
        out.insert("system.context_switches".into(), switches as f64);
        self.pattern(&mut out, &turns);
        super::cpus::frequency(self, &mut out);
        super::cpus::idle(self, &mut out);
        out
    }

    fn length_ms(&self) -> f64 {
        ms(self.window.1.saturating_sub(self.window.0))
    }

    fn thread(&self, out: &mut Figures, t: &CaseThread, found: &Found<'h>) {
        let (a, b) = self.window;
        let stints: Vec<Stint> = self.clip(found.thread).map(|(s, _)| s).collect();
        let mut by_cpu: BTreeMap<u32, u64> = BTreeMap::new();
        stints.iter().for_each(|s| *by_cpu.entry(s.cpu).or_default() += s.end - s.start);
        let total: u64 = by_cpu.values().sum();
        let first = self.threads.iter().map(|(_, f)| f.start).min().unwrap_or(0);
        let lifetime_cpu: u64 = found.thread.stints.iter().map(|s| s.end - s.start).sum();
        let mut put = |name: &str, value: f64| out.insert(format!("threads.{}.{name}", t.key), value);
        put("cpu_ms", round(ms(total), 3));
        put("share_pct", round(total as f64 / 1e4 / self.length_ms(), 2));
        put("switches", stints.iter().filter(|s| s.start >= a).count() as f64);
        put("preempted", stints.iter().filter(|s| s.preempted() && s.end < b).count() as f64);
        put("migrations", found.thread.migrations.iter().filter(|m| self.within(**m)).count() as f64);
        put("cpu_changes", stints.windows(2).filter(|w| w[0].cpu != w[1].cpu).count() as f64);
        put("lifetime_ms", round((found.end as f64 - found.start as f64) / 1e6, 3));
        put("lifetime_cpu_ms", round(ms(lifetime_cpu), 3));
        put("start_ms", round((found.start as f64 - first as f64) / 1e6, 3));
        if self.case.clusters.is_empty() {
            for (cpu, ns) in &by_cpu {
                put(&format!("cpus_ms.{cpu}"), round(ms(*ns), 1));
            }
        }
        for (cluster, cpus) in self.case.clusters.iter().filter(|_| total > 0) {
            let there: u64 = by_cpu.iter().filter(|(c, _)| cpus.contains(c)).map(|(_, ns)| ns).sum();
            put(&format!("{cluster}_pct"), round(100.0 * there as f64 / total as f64, 2));
        }
    }

    fn group(&self, out: &mut Figures, group: &str, turns: &[Turn<'_>]) {
        let members: Vec<(&CaseThread, &Found<'h>)> =
            self.threads.iter().filter(|(t, _)| t.group == group).map(|(t, f)| (*t, f)).collect();
        let path = |name: &str| format!("groups.{group}.{name}");
        let of = |out: &Figures, key: &str, name: &str| out.get(&format!("threads.{key}.{name}")).copied();
        out.insert(path("threads"), members.len() as f64);
        for name in ["cpu_ms", "share_pct", "switches", "preempted", "migrations", "cpu_changes"] {
            let sum: f64 = members.iter().filter_map(|(t, _)| of(out, &t.key, name)).sum();
            out.insert(path(name), round(sum, 3));
        }
        let wakes = || members.iter().flat_map(|(_, f)| f.wakes).filter(|w| self.within(w.ran));
        let since = |from: Option<u64>, ran: u64| from.map(|from| (ran as f64 - from as f64) / 1e3);
        let latency = wakes().filter_map(|w| since(w.waking, w.ran)).collect();
        distribution(out, &path("wakeup_latency"), latency, 2, Some(100.0));
        let latency = wakes().filter_map(|w| since(w.wakeup, w.ran)).collect();
        distribution(out, &path("wakeup_latency_from_wakeup"), latency, 2, Some(100.0));
        let stints = members.iter().flat_map(|(_, f)| self.clip(f.thread)).filter(|(_, whole)| *whole);
        distribution(out, &path("stint"), stints.map(|(s, _)| us(s.end - s.start)).collect(), 1, None);
        let ours = turns.iter().filter(|t| members.iter().any(|(m, _)| m.key == t.key));
        distribution(out, &path("turn"), ours.map(|t| us(t.ns)).collect(), 1, None);
        self.spread(out, group, &members);
        self.cycles(out, group, &members);
        self.job_figures(out, group, &members);
        self.placement(out, group, &members);
    }

    /// How evenly the threads of a group fare.
    fn spread(&self, out: &mut Figures, group: &str, members: &[(&CaseThread, &Found<'h>)]) {
        if members.len() < 2 {
            return;
        }
        let of = |out: &Figures, name: &str| -> Vec<f64> {
            members.iter().filter_map(|(t, _)| out.get(&format!("threads.{}.{name}", t.key)).copied()).collect()
        };
        if members.len() <= 16 {
            let mut lifetimes = of(out, "lifetime_ms");
            lifetimes.sort_by(f64::total_cmp);
            for (i, value) in lifetimes.into_iter().enumerate() {
                out.insert(format!("groups.{group}.lifetime_sorted_ms.{i}"), value);
            }
        }
        let values = of(out, "cpu_ms");
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n;
        let mut put = |name: &str, v: f64| out.insert(format!("groups.{group}.cpu_ms_per_thread.{name}"), v);
        put("mean_ms", round(mean, 3));
        put("sd_ms", round(variance.sqrt(), 3));
        put("min_ms", values.iter().copied().fold(f64::INFINITY, f64::min));
        put("max_ms", values.iter().copied().fold(0.0, f64::max));
    }

    fn cycles(&self, out: &mut Figures, group: &str, members: &[(&CaseThread, &Found<'h>)]) {
        if self.case.idle_table.is_empty() {
            return;
        }
        let mut cycles = Vec::new();
        for (_, f) in members {
            let sleeps = f.thread.stints.iter().filter(|s| !s.preempted() && self.within(s.end));
            let ends: Vec<u64> = sleeps.map(|s| s.end).collect();
            cycles.extend(ends.windows(2).map(|w| us(w[1] - w[0])));
        }
        distribution(out, &format!("groups.{group}.cycle"), cycles, 1, None);
    }

    fn job_figures(&self, out: &mut Figures, group: &str, members: &[(&CaseThread, &Found<'h>)]) {
        let mut all: Vec<(&Found<'h>, Job)> = Vec::new();
        for (_, f) in members {
            let within = |j: &Job| self.within(j.at) && j.end <= self.window.1;
            all.extend(jobs(f.thread, f.wakes, &self.case.clusters).into_iter().filter(within).map(|j| (*f, j)));
        }
        let path = |name: &str| format!("groups.{group}.{name}");
        distribution(out, &path("jobs.response"), all.iter().map(|(_, j)| us(j.end - j.at)).collect(), 1, None);
        distribution(out, &path("jobs.work"), all.iter().map(|(_, j)| us(j.cpu_ns)).collect(), 1, None);
        if all.len() > LISTED_JOBS {
            return;
        }
        for (i, (found, job)) in all.iter().enumerate() {
            let mut put = |name: &str, ms: f64| out.insert(path(&format!("job_list.{i}.{name}")), round(ms, 3));
            put("at_ms", (job.at as f64 - found.start as f64) / 1e6);
            put("response_ms", ms(job.end - job.at));
            put("cpu_ms", ms(job.cpu_ns));
            for (cluster, ns) in &job.by_cluster {
                put(&format!("{cluster}_ms"), ms(*ns));
            }
            if let Some(ns) = job.to_big_ns {
                put("to_big_ms", ms(ns));
            }
        }
    }

    fn placement(&self, out: &mut Figures, group: &str, members: &[(&CaseThread, &Found<'h>)]) {
        let of = |out: &Figures, key: &str, name: &str| out.get(&format!("threads.{key}.{name}")).copied();
        let total: f64 = members.iter().filter_map(|(t, _)| of(out, &t.key, "cpu_ms")).sum();
        for cluster in self.case.clusters.keys().filter(|_| total > 0.0) {
            let name = format!("{cluster}_pct");
            let part = |t: &CaseThread| Some(of(out, &t.key, "cpu_ms")? * of(out, &t.key, &name).unwrap_or(0.0));
            let sum: f64 = members.iter().filter_map(|(t, _)| part(t)).sum();
            out.insert(format!("groups.{group}.{name}"), round(sum / total, 2));
        }
        let Some(big) = self.case.clusters.get("big").filter(|_| members.len() <= 12) else { return };
        for (i, (_, f)) in members.iter().enumerate() {
            if let Some(s) = f.thread.stints.iter().find(|s| big.contains(&s.cpu)) {
                let after = (s.start as f64 - f.start as f64) / 1e6;
                out.insert(format!("groups.{group}.first_big_after_start_ms.{i}"), round(after, 3));
            }
        }
    }

    /// Stints of the case's threads on each CPU, joined while nobody else of the case came in between.
    fn turns(&self) -> Vec<Turn<'h>> {
        let mut by_cpu: BTreeMap<u32, Vec<(u64, u64, &'h str, char)>> = BTreeMap::new();
        for (t, f) in &self.threads {
            for (s, _) in self.clip(f.thread) {
                // A stint cut at the window's end has not ended there.
                let out = if s.end == self.window.1 { 'R' } else { s.out };
                by_cpu.entry(s.cpu).or_default().push((s.start, s.end, &t.key, out));
            }
        }
        let mut turns: Vec<Turn<'h>> = Vec::new();
        for (cpu, mut stints) in by_cpu {
            stints.sort_unstable();
            let mut open: Option<(Turn<'h>, char)> = None;
            for (start, end, key, out) in stints {
                match &mut open {
                    Some((turn, state)) if turn.key == key && *state == 'R' => {
                        turn.ns += end - start;
                        *state = out;
                    }
                    _ => {
                        turns.extend(open.take().map(|(turn, _)| turn));
                        open = Some((Turn { key, cpu, start, ns: end - start }, out));
                    }
                }
            }
            turns.extend(open.map(|(turn, _)| turn));
        }
        turns
    }

    /// The first turns on the pinned CPU, to look at.
    fn pattern(&self, out: &mut Figures, turns: &[Turn<'_>]) {
        let Some(cpu) = self.case.pinned_cpu else { return };
        let mut there: Vec<&Turn<'_>> = turns.iter().filter(|t| t.cpu == cpu).collect();
        there.sort_by_key(|t| (t.start, t.ns));
        for (i, turn) in there.iter().take(LISTED_TURNS).enumerate() {
            out.insert(format!("pattern_us.{i}.1"), round(us(turn.ns), 1));
        }
    }

    /// What the workload's own log would say, for a run that has one.
    pub fn log_figures(&self) -> Figures {
        let mut out = Figures::new();
        for (t, f) in &self.threads {
            let mut put = |name: &str, v: f64| out.insert(format!("log.{}.{name}", t.key), round(v, 2));
            let items = &f.thread.items;
            if !items.is_empty() {
                let n = items.len() as f64;
                put("n", n);
                put("wu_mean_us", items.iter().map(|i| us(i.woke - i.nominal)).sum::<f64>() / n);
                put("resp_mean_us", items.iter().map(|i| us(i.done - i.nominal)).sum::<f64>() / n);
                continue;
            }
            let sleeps = f.thread.stints.iter().filter(|s| s.out == 'S' && s.start >= f.start).count();
            if sleeps > 0 && f.end > f.start {
                put("per_cycle_us", us(f.end - f.start) / sleeps as f64);
            }
        }
        out
    }

    /// The thread of a key.
    pub fn thread_of(&self, key: &str) -> Option<&'h Thread> {
        self.threads.iter().find(|(t, _)| t.key == key).map(|(_, f)| f.thread)
    }
}

/// Stints joined.
struct Turn<'h> {
    key: &'h str,
    cpu: u32,
    start: u64,
    ns: u64,
}

/// The thread that a recording calls so.
fn recorded<'h>(history: &'h History, t: &CaseThread) -> Option<&'h Thread> {
    let named = history.threads.iter().filter(|(_, thread)| thread.comm == t.comm);
    let mut named: Vec<(u64, u32, &Thread)> = named.map(|(pid, thread)| (thread.started(), *pid, thread)).collect();
    named.sort_unstable_by_key(|(start, pid, _)| (*start, *pid));
    named.get(t.skip_first + t.nth).map(|(_, _, thread)| *thread)
}

/// An instance of a task of the workload.
fn instance<'h>(history: &'h History, t: &CaseThread) -> Option<&'h Thread> {
    history.threads.values().filter(|thread| thread.task == t.task).nth(t.instance)
}
