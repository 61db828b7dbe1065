//! Figures of CPUs: frequencies of a domain, idle states.

use super::case::IdleRow;
use super::figures::{Figures, View, round};
use super::history::Cpu;
use std::collections::BTreeMap;

/// Residency and transitions of each frequency domain.
pub(super) fn frequency(view: &View<'_>, out: &mut Figures) {
    let (a, b) = view.window;
    for (name, cpus) in &view.case.policies {
        let events = cpus.first().and_then(|c| view.history.cpus.get(*c as usize)).map_or(&[][..], |c| &c.frequency);
        // Where the recording does not know the frequency before its first event, what a run set before is not known either.
        let unknown = view.history.simulated && measured_unknown(view, name);
        let from = if unknown { view.history.zero.max(1) } else { 0 };
        let events = &events[events.partition_point(|e| e.0 < from)..];
        let (mut state, mut at, mut transitions) = (None, a, 0);
        let mut residency: BTreeMap<Option<u32>, u64> = BTreeMap::new();
        for &(t, khz) in events.iter().take_while(|(t, _)| *t < b) {
            if t >= a && Some(khz) != state {
                *residency.entry(state).or_default() += t - at;
                at = t;
                transitions += u32::from(state.is_some());
            }
            state = Some(khz);
        }
        *residency.entry(state).or_default() += b.saturating_sub(at);
        if view.case.governor.as_deref() == Some("performance")
            && let Some(ns) = residency.remove(&None)
        {
            *residency.entry(view.case.top_khz.get(name).copied()).or_default() += ns;
        }
        let mut put = |figure: &str, value: f64| out.insert(format!("frequency.{name}.{figure}"), value);
        put("transitions", f64::from(transitions));
        let length = b.saturating_sub(a) as f64;
        let (mut weighted, mut known) = (0.0, 0u64);
        for (khz, &ns) in &residency {
            let label = khz.map_or("unknown".to_string(), |khz| khz.to_string());
            put(&format!("residency_pct.{label}"), round(100.0 * ns as f64 / length, 2));
            weighted += f64::from(khz.unwrap_or(0)) * ns as f64;
            known += if khz.is_some() { ns } else { 0 };
        }
        if residency.keys().any(Option::is_some) {
            put("mean_mhz", round(weighted / known.max(1) as f64 / 1e3, 1));
        }
    }
}

fn measured_unknown(view: &View<'_>, domain: &str) -> bool {
    let path = ["frequency", domain, "residency_pct", "unknown"];
    let mut value = view.case.measured.get(path[0]);
    path[1..].iter().for_each(|key| value = value.and_then(|v| v.get(key)));
    value.is_some()
}

/// Sums over idle states, of one CPU or of all.
#[derive(Clone, Default)]
struct Tally {
    used: Vec<u64>,
    resident: Vec<u64>,
    /// Σ whole residencies.
    whole: Vec<u64>,
    above: Vec<u64>,
    below: Vec<u64>,
    spells: u64,
    stopped: u64,
}

impl Tally {
    fn of(states: usize) -> Tally {
        let zeros = vec![0; states];
        let [used, resident, whole, above, below] = [(); 5].map(|()| zeros.clone());
        Tally { used, resident, whole, above, below, spells: 0, stopped: 0 }
    }
    fn add(&mut self, other: &Tally) {
        let sum = |a: &mut Vec<u64>, b: &[u64]| a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
        sum(&mut self.used, &other.used);
        sum(&mut self.resident, &other.resident);
        sum(&mut self.whole, &other.whole);
        sum(&mut self.above, &other.above);
        sum(&mut self.below, &other.below);
        self.spells += other.spells;
        self.stopped += other.stopped;
    }
}

/// Idle states, in cases with an idle table.
pub(super) fn idle(view: &View<'_>, out: &mut Figures) {
    let table = &view.case.idle_table;
    if table.is_empty() {
        return;
    }
    let cpus = &view.history.cpus;
    let judged = cpus.iter().any(|c| !c.misses.is_empty());
    let ticks_told = view.history.simulated || cpus.iter().any(|c| !c.tick_stops.is_empty());
    let nr_cpus = view.case.nr_cpus.unwrap_or(cpus.len());
    let mut total = Tally::of(table.len());
    let nobody = Cpu::default();
    for cpu in 0..nr_cpus {
        let tally = tally(view, cpus.get(cpu).unwrap_or(&nobody), table, judged);
        total.add(&tally);
        put(view, out, &format!("idle.cpu{cpu}"), &tally, 1, ticks_told);
    }
    put(view, out, "idle.total", &total, nr_cpus, ticks_told);
}

fn tally(view: &View<'_>, cpu: &Cpu, table: &[IdleRow], judged: bool) -> Tally {
    let (a, b) = view.window;
    let mut t = Tally::of(table.len());
    let mut entered = None;
    for &(at, state) in cpu.idle.iter().chain(&[(b, None)]) {
        if let Some(state) = state {
            entered = Some((at, state.min(table.len() - 1)));
            continue;
        }
        let Some((since, state)) = entered.take() else { continue };
        t.resident[state] += at.min(b).saturating_sub(since.max(a));
        if view.within(since) {
            t.used[state] += 1;
            t.whole[state] += at.saturating_sub(since);
            if !judged {
                judge(&mut t, table, state, at.saturating_sub(since));
            }
        }
    }
    for &(_, state, below) in cpu.misses.iter().filter(|(at, s, _)| view.within(*at) && *s < table.len()) {
        let list = if below { &mut t.below } else { &mut t.above };
        list[state] += 1;
    }
    let mut stops = cpu.tick_stops.iter().peekable();
    for &(from, to) in cpu.spells.iter().filter(|(from, _)| view.within(*from)) {
        while stops.next_if(|at| **at < from).is_some() {}
        t.spells += 1;
        t.stopped += u64::from(stops.peek().is_some_and(|at| **at < to));
    }
    t
}

/// The kernel's rule, for a trace without its verdicts.
fn judge(t: &mut Tally, table: &[IdleRow], state: usize, ns: u64) {
    if ns < 1000 * table[state].target_residency_us {
        t.above[state] += u64::from(state > 0);
    } else if let Some(deeper) = table.get(state + 1) {
        let fits = ns.saturating_sub(1000 * table[state].exit_latency_us) >= (1000 * deeper.target_residency_us).max(1);
        t.below[state] += u64::from(fits);
    }
}

fn put(view: &View<'_>, out: &mut Figures, path: &str, t: &Tally, cpus: usize, ticks_told: bool) {
    let (a, b) = view.window;
    let entries: u64 = t.used.iter().sum();
    let length = cpus as f64 * b.saturating_sub(a) as f64;
    let pct = |part: u64, whole: f64| (whole > 0.0).then(|| round(100.0 * part as f64 / whole, 2));
    let mut put = |name: &str, value: Option<f64>| {
        if let Some(value) = value {
            out.insert(format!("{path}.{name}"), value);
        }
    };
    put("entries", Some(entries as f64));
    for (i, row) in view.case.idle_table.iter().enumerate() {
        let (name, used) = (&row.name, t.used[i] as f64);
        put(&format!("usage_pct.{name}"), pct(t.used[i], entries as f64));
        put(&format!("residency_pct.{name}"), pct(t.resident[i], length));
        put(&format!("mean_us.{name}"), (used > 0.0).then(|| round(t.whole[i] as f64 / used / 1e3, 1)));
        put(&format!("above_of_state_pct.{name}"), pct(t.above[i], used));
        put(&format!("below_of_state_pct.{name}"), pct(t.below[i], used));
    }
    put("above_pct", pct(t.above.iter().sum(), entries as f64));
    put("below_pct", pct(t.below.iter().sum(), entries as f64));
    put("idle_spells", Some(t.spells as f64));
    put("tick_stopped_pct", if ticks_told { pct(t.stopped, t.spells as f64) } else { None });
}
