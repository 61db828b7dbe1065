//! An evaluated experiment as text: published beside simulated.

use super::{CellFigure, CounterFigure, Experiment, HistogramSpec, Overrides, ResultRow, Results, TableSpec};
use crate::metrics::BINS;
use crate::stats::{FEWEST, Over, mean};
use crate::table::{Align, Table, cell, interval, number, verbatim};

impl Experiment {
    /// What was asked, every row with its verdict, and the tables and histograms, by platform.
    pub fn to_text(&self, rows: &[ResultRow], results: &Results) -> String {
        let mut out = self.head();
        for platform in &self.platforms {
            let here: Vec<&ResultRow> = rows.iter().filter(|r| r.platform == *platform).collect();
            out += &format!("\non {platform}\n\n{}", rows_table(&here).to_text());
            for table in self.tables.iter().filter(|t| t.platforms.contains(platform)) {
                out += &format!("\n{} ({platform})\n\n{}", table.title, self.table(table, platform, results).to_text());
            }
            if let Some(table) = self.correlations_table(platform, results) {
                out += &format!("\nWhat goes together ({platform})\n\n{}", table.to_text());
            }
            for histogram in &self.histograms {
                let drawn = self.histogram(histogram, platform, results).to_text();
                out += &format!("\n{} ({platform}; counts, mean over seeds)\n\n{drawn}", histogram.title);
            }
        }
        out + "\n" + &verdict(rows)
    }

    fn head(&self) -> String {
        let duration = self.duration.map_or("its own length".into(), |d| format!("{} s", d.as_s_f64()));
        format!(
            "{}: {}\nsource: {}\n{}, {duration}, {} {} per arm; {}\n",
            self.name,
            self.question,
            self.source,
            self.workload,
            self.seeds,
            if self.seeds == 1 { "seed" } else { "seeds" },
            match self.seeds < FEWEST as u64 {
                true => format!("too few for intervals, which need {FEWEST}"),
                false => "intervals are 95 % BCa bootstrap over seeds".into(),
            }
        )
    }

    /// A metric of an arm, seed by seed; of the threads of a name only, where one is given.
    pub(super) fn values(
        &self,
        arm: &str,
        platform: &str,
        results: &Results,
        metric: &str,
        threads: Option<&str>,
    ) -> Option<Vec<f64>> {
        let arm = self.resolve(arm, platform, &Overrides::new()).ok()?;
        results.values(&arm, metric, threads)
    }

    fn table(&self, spec: &TableSpec, platform: &str, results: &Results) -> Table {
        match spec.published.is_empty() {
            true => self.simulated_table(spec, platform, results),
            false => self.published_table(spec, platform, results),
        }
    }

    /// A row per arm: nothing was published to stand beside it.
    fn simulated_table(&self, spec: &TableSpec, platform: &str, results: &Results) -> Table {
        let figures = self.table_figures(spec, platform, results);
        let per_metric = || figures.cells.chunks(spec.arms.len().max(1));
        let head = |c: &CellFigure| match c.unit.is_empty() {
            true => c.metric.clone(),
            false => format!("{}, {}", c.metric, c.unit),
        };
        let heads = per_metric().flat_map(|c| [(head(&c[0]), Align::Right), ("95 % interval".into(), Align::Right)]);
        let mut table = Table::new(std::iter::once(("arm".to_owned(), Align::Left)).chain(heads));
        for (k, arm) in spec.arms.iter().enumerate() {
            let cells = per_metric().flat_map(|c| [cell(c[k].simulated.unwrap_or(f64::NAN)), interval(c[k].ci95)]);
            table.row(std::iter::once(arm.clone()).chain(cells));
        }
        table
    }

    fn published_table(&self, spec: &TableSpec, platform: &str, results: &Results) -> Table {
        let mut table = columns(["metric", "arm", "published", "simulated", "95 % interval"], 2);
        for (i, c) in self.table_figures(spec, platform, results).cells.iter().enumerate() {
            table.row([
                if i % spec.arms.len() == 0 { c.metric.clone() } else { String::new() },
                c.kernel.clone(),
                verbatim(c.published.unwrap_or(f64::NAN)),
                cell(c.simulated.unwrap_or(f64::NAN)),
                interval(c.ci95),
            ]);
        }
        table
    }

    fn histogram(&self, spec: &HistogramSpec, platform: &str, results: &Results) -> Table {
        let heads = spec.arms.iter().flat_map(|arm| {
            let published = spec.published.contains_key(arm).then(|| format!("{arm} published"));
            published.into_iter().chain([format!("{arm} simulated")])
        });
        let mut table =
            Table::new(std::iter::once(("µs".to_owned(), Align::Left)).chain(heads.map(|h| (h, Align::Right))));
        for bin in 0..BINS {
            let label = if bin == BINS - 1 {
                format!(">= {}", bin * 100)
            } else {
                format!("{}..{}", bin * 100, bin * 100 + 100)
            };
            let cells = spec.arms.iter().flat_map(|arm| {
                let values = self.values(arm, platform, results, &format!("hist.{bin}"), spec.threads.as_deref());
                let simulated = values.as_deref().map_or(f64::NAN, mean);
                spec.published.get(arm).map(|p| verbatim(p[bin])).into_iter().chain([count(simulated)])
            });
            table.row(std::iter::once(label).chain(cells));
        }
        table
    }
}

/// Mean counts: whole, or with one decimal when small.
fn count(value: f64) -> String {
    verbatim(if value >= 100.0 { value.round() } else { (value * 10.0).round() / 10.0 })
}

fn columns<const N: usize>(names: [&str; N], words: usize) -> Table {
    Table::new(names.into_iter().enumerate().map(|(i, n)| (n, if i < words { Align::Left } else { Align::Right })))
}

fn rows_table(rows: &[&ResultRow]) -> Table {
    let mut table = Table::new([
        ("id", Align::Left),
        ("what", Align::Left),
        ("published", Align::Right),
        ("simulated", Align::Right),
        ("95 % interval", Align::Right),
        ("", Align::Left),
    ]);
    rows.iter().for_each(|row| add_row(&mut table, row));
    table
}

fn add_row(table: &mut Table, row: &ResultRow) {
    let of = row.threads.as_ref().map_or(String::new(), |t| format!(" of {t}"));
    let unit = if row.unit.is_empty() { String::new() } else { format!(", {}", row.unit) };
    let over = match row.over {
        Over::Mean => "",
        Over::Stddev => ", standard deviation over seeds",
        Over::Min => ", least of all seeds",
        Over::Max => ", most of all seeds",
    };
    let id = row.id.split("/platform=").next().unwrap_or(&row.id);
    table.row([id.to_owned(), format!("{}{of}{unit}{over} [{:?}]", row.metric, row.class)]);
    for arm in &row.arms {
        let (published, simulated) = (arm.published.unwrap_or(f64::NAN), arm.simulated.unwrap_or(f64::NAN));
        table.row([
            String::new(),
            format!("  {}", arm.kernel),
            verbatim(published),
            cell(simulated),
            interval(arm.ci95),
        ]);
    }
    if let Some(ratio) = &row.ratio {
        let three = |v: Option<f64>| number(v.unwrap_or(f64::NAN), 3);
        let what = format!("  {} / {}", ratio.of[0], ratio.of[1]);
        table.row([String::new(), what, three(ratio.published), three(ratio.simulated), short(ratio.ci95)]);
    }
    table.line(format!("  {:4} {}", mark(row.ok, row.judged), row.tolerance));
    row.counter_tests.iter().for_each(|c| table.line(counter_line(c)));
    row.notes.iter().for_each(|note| table.line(format!("       note: {note}")));
}

fn counter_line(c: &CounterFigure) -> String {
    let ratio = c.simulated_ratio.map_or(String::new(), |r| format!("ratio {} {}, ", number(r, 3), short(c.ci95)));
    let missing = c.missing.as_ref().map_or(String::new(), |m| format!(" ({m})"));
    format!("  {:4} counter-test, {}: {ratio}must hold: {}{missing}", mark(c.ok, c.judged), c.what, c.tolerance)
}

fn short(ci95: Option<[f64; 2]>) -> String {
    ci95.map_or("–".into(), |[lo, hi]| format!("[{}, {}]", number(lo, 3), number(hi, 3)))
}

fn mark(ok: bool, judged: bool) -> &'static str {
    match (ok, judged) {
        (false, _) => "FAIL",
        (true, true) => "ok",
        (true, false) => "–",
    }
}

fn verdict(rows: &[ResultRow]) -> String {
    let share = |verdicts: Vec<(bool, bool)>| {
        let held = verdicts.iter().filter(|(ok, judged)| *ok && *judged).count();
        let unjudged = verdicts.iter().filter(|(ok, judged)| *ok && !*judged).count();
        let not = if unjudged > 0 { format!(" ({unjudged} not judged)") } else { String::new() };
        (format!("{held} of {}", verdicts.len()), not)
    };
    let demand = rows.iter().filter(|r| !r.is_statement());
    let (held, not) = share(demand.map(|r| (r.ok, r.judged)).collect());
    let counters = rows.iter().flat_map(|r| &r.counter_tests);
    let (counters_held, counters_not) = share(counters.map(|c| (c.ok, c.judged)).collect());
    format!("{held} rows hold{not}, {counters_held} counter-tests{counters_not}\n")
}

#[cfg(test)]
mod tests {
    use super::super::testbed::*;
    use super::*;

    #[test]
    fn text() {
        let e = experiment();
        let r = results(&e);
        let text = e.to_text(&e.evaluate(&r), &r);
        for part in [
            "sched_idle_placement: 8 periodic tasks",
            "on hikey620\n",
            "on a83t\n",
            "3.1  wu_lat_us.mean of cfs_thread, µs [Q]",
            "1234.56",
            "linux-5.4 / linux-5.3",
            "  ok   ratio <= 1/5 and 50 <= simulated('linux-5.4') <= 200\n",
            "  ok   counter-test, no hogs: ratio 1.00 [1.00, 1.00], must hold: 0.95 <= ratio <= 1.05\n",
            "no_hogs published  no_hogs simulated\n",
            "0..100                  4000               5000\n",
            ">= 1000                    7                  7\n",
            "3 of 3 rows hold, 2 of 2 counter-tests\n",
        ] {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
        assert!(text.lines().all(|l| l == l.trim_end()));
    }

    #[test]
    fn nothing_published() {
        let mut e = experiment();
        e.tables[0].published.clear();
        let r = results(&e);
        let text = e.to_text(&e.evaluate(&r), &r);
        let head = text.lines().find(|l| l.starts_with("arm ")).unwrap();
        assert!(head.contains("wu_lat_us.max, µs") && !head.contains("published"), "{text}");
        assert!(text.lines().any(|l| l.starts_with("linux-5.4  ") && l.contains("306")), "{text}");
    }

    #[test]
    fn a_statement_is_not_counted() {
        let mut e = experiment();
        e.rows[1].holds = None;
        let r = results(&e);
        let text = e.to_text(&e.evaluate(&r), &r);
        assert!(text.contains("\n  –    none: a statement\n") && text.contains("2 of 2 rows hold, 2 of 2"), "{text}");
    }

    #[test]
    fn failures_are_loud() {
        let e = experiment();
        let r = Results::default();
        let text = e.to_text(&e.evaluate(&r), &r);
        assert!(text.contains("  FAIL ratio <= 1/5") && text.contains("note: the ratio has no value"), "{text}");
        assert!(text.contains("0 of 3 rows hold"), "{text}");
    }

    #[test]
    fn counts() {
        assert_eq!([3101.4, 148.26, 7.0, 0.04, f64::NAN].map(count), ["3101", "148", "7", "0", "–"]);
    }
}
