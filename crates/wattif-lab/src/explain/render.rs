//! An explanation and a bisection as text.

use super::explanation::{Bin, Explanation, First, Row, Side};
use super::shares::Shares;
use super::switches::Bisection;
use crate::stats::FEWEST;
use crate::table::{Align, Table, cell, interval, number, told_length};
use std::fmt::Write as _;

/// Rows shown of a long split; all are in the JSON.
const SHOWN: usize = 12;

impl Explanation {
    /// Writes the summary: the strongest findings, a number in every sentence, ten lines at most.
    pub fn summarize(&mut self) {
        let mut lines = Vec::new();
        if self.a.digest == self.b.digest {
            lines.push(format!("Both runs are the same event for event: digest {}.", short(&self.a.digest)));
        }
        lines.extend(self.time_sentence());
        lines.extend(self.energy_sentences());
        lines.extend(self.latency_sentences());
        lines.extend(self.first.as_ref().map(|f| first_sentence(f, [&self.a.kernel, &self.b.kernel])));
        let of = self.shares_of.map_or(String::new(), |(n, _)| self.reruns() + few(n));
        lines.extend(self.shares.iter().take(2).filter_map(|s| share_sentence(s, &of)));
        lines.truncate(10);
        self.summary = lines;
    }

    /// How long the work took, which is what a workload that ends by itself is about.
    fn time_sentence(&self) -> Option<String> {
        let told = |s: &Side| format!("{}{}", if s.unfinished { "more than " } else { "" }, cell(s.end_s));
        let change = match self.a.unfinished || self.b.unfinished {
            true => "not finished".to_string(),
            false => percent(self.a.end_s, self.b.end_s),
        };
        self.ends_by_itself.then(|| format!("Time: {} to {} s ({change}).", told(&self.a), told(&self.b)))
    }

    /// The runs behind the shares.
    fn reruns(&self) -> String {
        let (n, s) = self.shares_of.unwrap_or_default();
        match self.ends_by_itself && s == self.duration_s {
            true => format!("{n} seeds, each until it ends"),
            false => format!("{n} seeds of {} s", cell(s)),
        }
    }

    fn energy_sentences(&self) -> Vec<String> {
        let Some(e) = &self.energy else { return Vec::new() };
        let mut lines = vec![format!("Energy: {} to {} {} ({}).", cell(e.a), cell(e.b), e.unit, percent(e.a, e.b))];
        let whole = e.by_state.iter().map(|r| r.difference).sum::<f64>();
        let largest = |rows: &[Row], what: &str| {
            let row = rows.first().filter(|r| r.difference_fj != 0)?;
            Some(format!(
                "The largest {what}: {} {} {}, of {} in all.",
                row.name,
                signed(row.difference),
                e.unit,
                signed(whole)
            ))
        };
        lines.extend(largest(&e.by_state, "part by operating point and idle state"));
        lines.extend(largest(&e.by_task, "part by task"));
        lines
    }

    fn latency_sentences(&self) -> Vec<String> {
        let l = &self.latency;
        let [n_a, n_b] = l.count;
        let only = |mean: f64, n: u64, side: &str, none: &str| {
            format!("Wake-up latency: {} µs on average of {n} wake-ups in {side}; in {none} 0 came to run.", cell(mean))
        };
        let mut lines = vec![match l.mean_us {
            [Some(a), Some(b)] => {
                let (change, a, b) = (percent(a, b), cell(a), cell(b));
                format!("Wake-up latency: {a} to {b} µs on average ({change}), of {n_a} and {n_b} wake-ups.")
            }
            [Some(a), None] => only(a, n_a, "A", "B"),
            [None, Some(b)] => only(b, n_b, "B", "A"),
            [None, None] => "Wake-up latency: none, for 0 wake-ups came to run in A and in B.".to_string(),
        }];
        let of = |b: &Bin| Some((b.cause.clone(), b.per_wakeup_us.filter(|us| *us != 0.0)?));
        let mut bins: Vec<(String, f64)> = l.bins.iter().filter_map(of).collect();
        bins.sort_by(|x, y| y.1.abs().total_cmp(&x.1.abs()));
        let named: Vec<String> = bins.iter().take(3).map(|(cause, us)| format!("{cause} {} µs", signed(*us))).collect();
        if !named.is_empty() {
            lines.push(format!("Per wake-up that is {}.", named.join(", ")));
        }
        lines
    }

    /// For a terminal.
    pub fn to_text(&self) -> String {
        let mut out = format!(
            "{} on {}, seed {}, {}: {} (A) and {} (B)\n\n",
            self.workload,
            self.platform,
            self.seed,
            told_length(self.ends_by_itself, self.duration_s),
            self.a.kernel,
            self.b.kernel
        );
        self.summary.iter().for_each(|line| out += &format!("{line}\n"));
        out += "\nFirst decision that differs\n";
        out += &self.first.as_ref().map_or("  none\n".into(), |f| first_block(f, [&self.a.kernel, &self.b.kernel]));
        if let Some(e) = &self.energy {
            let _ = writeln!(
                out,
                "\nEnergy by domain, operating point and idle state, {} (B − A, sums to the total)",
                e.unit
            );
            // A unit's worth of both runs together, in case they are equal.
            let fj: i128 = e.by_state.iter().map(|r| r.a_fj + r.b_fj).sum();
            let scale = if fj == 0 { 1.0 } else { (e.a + e.b) / fj as f64 };
            out += &rows(&e.by_state, scale, true);
            let _ = writeln!(out, "\nEnergy by task, {} (sums to the same)", e.unit);
            out += &rows(&e.by_task, scale, false);
        }
        out += "\nWake-up latency by cause (each waiting nanosecond in the first bin that holds)\n";
        out += &self.waits();
        for shares in &self.shares {
            let _ = writeln!(
                out,
                "\nWhich part carries it: {}, {}, difference {} {}",
                shares.metric,
                self.reruns(),
                signed(shares.difference),
                interval(shares.ci95)
            );
            out += &share_table(shares);
        }
        if let Some(note) = &self.shares_note {
            let _ = writeln!(out, "\nNo shares: {note}");
        }
        if !self.notes.is_empty() {
            out += "\nOf these shares\n";
            self.notes.iter().for_each(|line| out += &format!("  {line}\n"));
        }
        if !self.trust.is_empty() {
            out += "\nHow far to trust it\n";
            self.trust.iter().for_each(|line| out += &format!("  - {line}\n"));
        }
        out
    }

    fn waits(&self) -> String {
        use Align::{Left, Right};
        let columns =
            [("cause", Left), ("A ms", Right), ("B ms", Right), ("B − A ms", Right), ("per wake-up µs", Right)];
        let mut table = Table::new(columns);
        let ms = |ns: f64| cell(ns / 1e6);
        let per = |us: Option<f64>| us.map_or("–".into(), signed);
        for b in &self.latency.bins {
            let difference = signed(b.difference_ns as f64 / 1e6);
            table.row([b.cause.clone(), ms(b.a_ns as f64), ms(b.b_ns as f64), difference, per(b.per_wakeup_us)]);
        }
        let l = &self.latency;
        let sum = |f: fn(&Bin) -> u64| ms(l.bins.iter().map(f).sum::<u64>() as f64);
        let whole = signed(l.difference_ns as f64 / 1e6);
        let mean = l.mean_us[1].zip(l.mean_us[0]).map(|(b, a)| b - a);
        table.row(["all".to_string(), sum(|b| b.a_ns), sum(|b| b.b_ns), whole, per(mean)]);
        let [a, b] = l.before_waking_ns;
        let beside = signed((b as f64 - a as f64) / 1e6);
        table.row(["beside: idle exit before waking".to_string(), ms(a as f64), ms(b as f64), beside]);
        indented(&table.to_text())
    }
}

/// `scale`: units in a femtojoule.
fn rows(rows: &[Row], scale: f64, timed: bool) -> String {
    use Align::{Left, Right};
    let columns = [("", Left), ("A", Right), ("B", Right), ("B − A", Right), ("A s", Right), ("B s", Right)];
    let mut table = Table::new(columns.into_iter().take(if timed { 6 } else { 4 }));
    for r in rows.iter().take(SHOWN) {
        let value = |fj: i128| cell(fj as f64 * scale);
        let mut cells = vec![r.name.clone(), value(r.a_fj), value(r.b_fj), signed(r.difference)];
        if timed {
            cells.extend([r.a_s, r.b_s].map(|s| cell(s.unwrap_or(f64::NAN))));
        }
        table.row(cells);
    }
    if rows.len() > SHOWN {
        let rest: f64 = rows[SHOWN..].iter().map(|r| r.difference).sum();
        let (a, b) = rows[SHOWN..].iter().fold((0, 0), |s, r| (s.0 + r.a_fj, s.1 + r.b_fj));
        let value = |fj: i128| cell(fj as f64 * scale);
        table.row([format!("{} others", rows.len() - SHOWN), value(a), value(b), signed(rest)]);
    }
    let whole: f64 = rows.iter().map(|r| r.difference).sum();
    let sum = |f: fn(&Row) -> i128| cell(rows.iter().map(f).sum::<i128>() as f64 * scale);
    table.row(["all".to_string(), sum(|r| r.a_fj), sum(|r| r.b_fj), signed(whole)]);
    indented(&table.to_text())
}

fn share_table(shares: &Shares) -> String {
    use Align::{Left, Right};
    let mut table = Table::new([("part", Left), ("B − A", Right), ("95 % interval", Right), ("share", Right)]);
    for s in &shares.shares {
        let share = s.share.map_or("–".into(), |x| format!("{:.0} %", (x * 100.0).round() + 0.0)); // no −0
        table.row([s.part.to_string(), signed(s.value), interval(s.ci95), share]);
    }
    indented(&table.to_text())
}

impl Bisection {
    /// For a terminal.
    pub fn to_text(&self) -> String {
        use Align::{Left, Right};
        let mut out = format!(
            "{}: {} in A, difference {} {}\n",
            self.metric,
            cell(self.baseline),
            signed(self.difference),
            interval(self.ci95)
        );
        let mut table = Table::new([
            ("switch", Left),
            ("adds", Right),
            ("95 % interval", Right),
            ("alone", Right),
            ("95 % interval", Right),
            ("", Left),
        ]);
        for s in &self.steps {
            let carries = if s.carries { "carries it" } else { "" };
            let cells = [
                s.switch.clone(),
                signed(s.value),
                interval(s.ci95),
                signed(s.alone),
                interval(s.alone_ci95),
                carries.into(),
            ];
            table.row(cells);
        }
        out += &indented(&table.to_text());
        let carriers: Vec<&str> = self.steps.iter().filter(|s| s.carries).map(|s| s.switch.as_str()).collect();
        out += &match carriers.as_slice() {
            [] => "  No switch carries a difference that is more than chance.\n".to_string(),
            some => format!("  Carried by {}.\n", some.join("; ")),
        };
        out
    }
}

fn first_sentence(f: &First, kernels: [&str; 2]) -> String {
    let said = |side: &Option<[String; 3]>, kernel: &str| match side {
        Some([policy, what, _]) => format!("{kernel}'s {policy} {what}"),
        None => format!("{kernel} decided nothing of the kind"),
    };
    format!("They part at t = {:.3} ms: {}, {}.", f.t_ms, said(&f.a, kernels[0]), said(&f.b, kernels[1]))
}

fn first_block(f: &First, kernels: [&str; 2]) -> String {
    let mut out = format!("  t = {:.6} ms\n", f.t_ms);
    for (side, (kernel, letter)) in [&f.a, &f.b].into_iter().zip([(kernels[0], 'A'), (kernels[1], 'B')]) {
        let _ = match side {
            Some([policy, what, why]) if why.is_empty() => writeln!(out, "  {letter} {kernel}: {policy} {what}"),
            Some([policy, what, why]) => writeln!(out, "  {letter} {kernel}: {policy} {what}, because {why}"),
            None => writeln!(out, "  {letter} {kernel}: no such decision at that time"),
        };
    }
    out
}

/// The part with the largest share.
fn share_sentence(shares: &Shares, of: &str) -> Option<String> {
    let most = shares.shares.iter().max_by(|x, y| x.value.abs().total_cmp(&y.value.abs()))?;
    let sure = most.ci95.is_none_or(|[lo, hi]| lo > 0.0 || hi < 0.0);
    let doubt = if sure { "" } else { ", which chance explains as well" };
    Some(format!(
        "Of the difference in {} ({}), {} carries {} {}{doubt} ({of}).",
        shares.metric,
        signed(shares.difference),
        most.part,
        signed(most.value),
        interval(most.ci95)
    ))
}

/// Said where an interval is missing.
fn few(seeds: u64) -> &'static str {
    if seeds < FEWEST as u64 { ", too few for an interval" } else { "" }
}

fn signed(value: f64) -> String {
    let text = number(value.abs(), 4);
    if value == 0.0 { "0".into() } else { format!("{}{text}", if value > 0.0 { "+" } else { "−" }) }
}

fn percent(a: f64, b: f64) -> String {
    if a == 0.0 { "from nothing".into() } else { format!("{} %", signed((b / a - 1.0) * 100.0)) }
}

fn short(digest: &str) -> &str {
    &digest[..digest.len().min(12)]
}

fn indented(text: &str) -> String {
    text.lines().map(|l| format!("  {l}\n")).collect()
}
