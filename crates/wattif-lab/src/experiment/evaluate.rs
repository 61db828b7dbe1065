//! Published beside simulated: the entries of `wattif.repro/1`.

use super::{Class, CounterSpec, Experiment, Expr, Figures, Missing, Overrides, Results, RowSpec, Shown};
use crate::metrics::energy::in_energy;
use crate::metrics::info;
use crate::stats::{FEWEST, Over, Ratio, bca_mean, mean, paired_ratio};
use serde::Serialize;

/// `schema` of a reproduction.
pub const SCHEMA: &str = "wattif.repro/1";

/// Everything that was reproduced, or not.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Repro {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Rows of all experiments.
    pub results: Vec<ResultRow>,
    /// What they show without a condition.
    #[serde(flatten)]
    pub shown: Shown,
}

impl Repro {
    /// From the rows of experiments, of which nothing else is shown.
    pub fn new(results: Vec<ResultRow>) -> Repro {
        Repro { schema: SCHEMA, results, shown: Shown::default() }
    }
    /// Does every row hold that was judged, and every counter-test?
    pub fn ok(&self) -> bool {
        self.results.iter().all(|r| r.ok && r.counter_tests.iter().all(|c| c.ok))
    }
    /// The same with an entry under each plain id: that of a row with sub-rows (`0.4/web`, `0.4/photo`) is ok when these are,
    /// and stands before them where the row has nothing of its own. For scripts; whoever counts rows counts those of
    /// [`Repro::results`].
    pub fn folded(&self) -> Repro {
        let mut results: Vec<ResultRow> = Vec::new();
        for row in &self.results {
            let known = |plain: &&str| self.results.iter().chain(&results).any(|r| r.is(row, plain));
            let missing = row.plain_id().filter(|plain| !known(plain)).map(|plain| row.only_id(plain));
            results.extend(missing);
            results.push(row.clone());
        }
        for row in &self.results {
            let Some(plain) = row.plain_id() else { continue };
            results.iter_mut().filter(|r| r.is(row, plain)).for_each(|r| r.fold(row));
        }
        Repro { schema: self.schema, results, shown: self.shown.clone() }
    }
}

/// One published result. On a further platform its id ends with `/platform=NAME`; the id without is the main platform's,
/// and ok only when it holds on all of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResultRow {
    /// Such as `3.1`.
    pub id: String,
    /// Folder of the gallery.
    pub experiment: String,
    /// Platform it was simulated on.
    pub platform: String,
    /// Name of the metric.
    pub metric: String,
    /// Task whose threads count.
    pub threads: Option<String>,
    /// What `simulated` and `ci95` are of the values of all seeds.
    pub over: Over,
    /// Unit of published and simulated values; empty for counts.
    pub unit: String,
    /// Quantitative, direction or statement.
    pub class: Class,
    /// Figures by arm.
    pub arms: Vec<ArmFigure>,
    /// Of two arms.
    pub ratio: Option<RatioFigure>,
    /// The condition.
    pub tolerance: String,
    /// Does it hold? Counter-tests have verdicts of their own. What was not judged has not missed.
    pub ok: bool,
    /// Was it judged? A statement demands nothing, and a condition on an interval is not where there are too few seeds for one.
    pub judged: bool,
    /// The counter-test; where there are several, the first that failed, or the first.
    pub counter_test: Option<CounterFigure>,
    /// All counter-tests.
    pub counter_tests: Vec<CounterFigure>,
    /// What is missing or was said about it.
    pub notes: Vec<String>,
}

/// The tolerance of a row of which nothing is demanded.
const STATEMENT: &str = "none: a statement";

impl ResultRow {
    /// Is nothing demanded of it? Then it neither holds nor misses.
    pub fn is_statement(&self) -> bool {
        self.tolerance == STATEMENT
    }
    /// Of a sub-row: the id of the row it belongs to.
    fn plain_id(&self) -> Option<&str> {
        self.id.split_once('/').map(|(plain, _)| plain)
    }
    /// Is it the entry `id` of the experiment of `other`?
    fn is(&self, other: &ResultRow, id: &str) -> bool {
        self.id == id && self.experiment == other.experiment
    }
    /// An entry for a row that is nothing but its sub-rows, of which this is the first.
    fn only_id(&self, id: &str) -> ResultRow {
        ResultRow {
            id: id.to_owned(),
            metric: String::new(),
            threads: None,
            over: Over::Mean,
            unit: String::new(),
            arms: Vec::new(),
            ratio: None,
            tolerance: STATEMENT.to_owned(),
            ok: true,
            judged: false,
            counter_test: None,
            counter_tests: Vec::new(),
            notes: Vec::new(),
            ..self.clone()
        }
    }
    fn fold(&mut self, below: &ResultRow) {
        self.ok &= below.ok;
        match (self.is_statement(), below.is_statement()) {
            (_, true) => {}
            (true, false) => {
                self.judged = below.judged;
                self.tolerance = format!("every row of {}/ holds", self.id);
            }
            (false, false) => self.judged &= below.judged,
        }
        // Its own further platforms are in its notes already.
        let own = below.id.strip_prefix(&self.id).is_some_and(|rest| rest.starts_with("/platform="));
        if !below.ok && !own {
            self.notes.push(format!("does not hold: {}", below.id));
        }
    }
}

/// Figures of an arm.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ArmFigure {
    /// The arm's name: a kernel, or a kernel with a variant.
    pub kernel: String,
    /// As published.
    pub published: Option<f64>,
    /// Mean over seeds.
    pub simulated: Option<f64>,
    /// Its 95 % BCa interval.
    pub ci95: Option<[f64; 2]>,
}

/// A ratio of two arms.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RatioFigure {
    /// [variant, baseline].
    pub of: [String; 2],
    /// As published, or the quotient of published values.
    pub published: Option<f64>,
    /// Of means over seeds.
    pub simulated: Option<f64>,
    /// Its 95 % BCa interval, pairs drawn together.
    pub ci95: Option<[f64; 2]>,
}

/// A counter-test.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CounterFigure {
    /// What was taken away.
    pub what: String,
    /// By these settings.
    pub set: Overrides,
    /// The ratio without it.
    pub simulated_ratio: Option<f64>,
    /// Its 95 % BCa interval.
    pub ci95: Option<[f64; 2]>,
    /// The condition.
    pub tolerance: String,
    /// Did the effect vanish as it must?
    pub ok: bool,
    /// Was it judged?
    pub judged: bool,
    /// The figure that is missing, if one is.
    pub missing: Option<String>,
}

impl Experiment {
    /// Judge every row on every platform it is for. Rows come in the order of the file, each plain id followed by its
    /// further platforms.
    pub fn evaluate(&self, results: &Results) -> Vec<ResultRow> {
        self.rows.iter().flat_map(|row| self.evaluate_row(row, results)).collect()
    }

    fn evaluate_row(&self, row: &RowSpec, results: &Results) -> Vec<ResultRow> {
        let mut rows: Vec<ResultRow> = row.platforms.iter().map(|p| self.on_platform(row, p, results)).collect();
        let Some((plain, further)) = rows.split_first_mut() else { return rows };
        for row in further.iter_mut() {
            row.id = format!("{}/platform={}", row.id, row.platform);
        }
        plain.ok &= further.iter().all(|r| r.ok);
        plain.judged &= further.iter().all(|r| r.judged);
        plain.notes.extend(further.iter().filter(|r| !r.ok).map(|r| format!("does not hold on {}", r.platform)));
        rows
    }

    fn on_platform(&self, row: &RowSpec, platform: &str, results: &Results) -> ResultRow {
        let nothing = Overrides::new();
        let scene = Scene {
            experiment: self,
            row,
            platform,
            set: &nothing,
            metric: &row.metric,
            results,
            ratio: row.ratio.as_ref(),
        };
        let Verdict { ok, judged, missing } = judge(row.holds.as_ref(), &scene);
        let counter_tests: Vec<CounterFigure> = row.counters.iter().map(|c| scene.counter(c)).collect();
        ResultRow {
            id: row.id.clone(),
            experiment: self.name.clone(),
            platform: platform.to_owned(),
            metric: row.metric.clone(),
            threads: row.threads.clone(),
            over: row.over,
            unit: scene.unit(),
            class: row.class,
            arms: row.arms.iter().map(|arm| scene.arm_figure(arm)).collect(),
            ratio: row.ratio.as_ref().filter(|_| shows_ratio(row)).map(|of| scene.ratio_figure(of)),
            tolerance: row.holds.as_ref().map_or(STATEMENT, Expr::text).to_owned(),
            ok,
            judged,
            counter_test: counter_tests.iter().find(|c| !c.ok).or(counter_tests.first()).cloned(),
            counter_tests,
            notes: missing.into_iter().chain(row.note.clone()).collect(),
        }
    }
}

/// A ratio is shown where it is judged or published, or compares arms that are shown.
fn shows_ratio(row: &RowSpec) -> bool {
    let judged = row.holds.as_ref().is_some_and(Expr::uses_ratio) || row.published_ratio.is_some();
    judged || row.ratio.iter().flatten().all(|arm| row.arms.contains(arm))
}

struct Verdict {
    ok: bool,
    judged: bool,
    /// Why it cannot be told.
    missing: Option<String>,
}

/// Does it hold? What lacks a figure does not; what lacks no more than seeds for an interval is not judged.
fn judge(holds: Option<&Expr>, scene: &Scene<'_>) -> Verdict {
    let (ok, judged, missing) = match holds.map(|h| h.eval(scene)) {
        None => (true, false, None),
        Some(Ok(ok)) => (ok, true, None),
        Some(Err(Missing::Interval(_))) if scene.seeds() < FEWEST => {
            (true, false, Some(format!("not judged, no interval: it takes {FEWEST} seeds")))
        }
        Some(Err(Missing::Interval(why) | Missing::Figure(why))) => (false, true, Some(why)),
    };
    Verdict { ok, judged, missing }
}

/// Where a condition looks its figures up.
struct Scene<'a> {
    experiment: &'a Experiment,
    row: &'a RowSpec,
    platform: &'a str,
    set: &'a Overrides,
    metric: &'a str,
    results: &'a Results,
    ratio: Option<&'a [String; 2]>,
}

impl Scene<'_> {
    fn values(&self, arm: &str, metric: Option<&str>) -> Option<Vec<f64>> {
        let arm = self.experiment.resolve(arm, self.platform, self.set).ok()?;
        self.results.values(&arm, metric.unwrap_or(self.metric), self.row.threads.as_deref())
    }

    /// The fewest runs of an arm of the row.
    fn seeds(&self) -> usize {
        let arms = self.row.arms.iter().chain(self.ratio.into_iter().flatten());
        arms.filter_map(|arm| self.values(arm, None)).map(|v| v.len()).min().unwrap_or(0)
    }

    fn paired(&self) -> Option<Ratio> {
        let [variant, baseline] = self.ratio?;
        let (variant, baseline) = (self.values(variant, None)?, self.values(baseline, None)?);
        (variant.len() == baseline.len()).then(|| paired_ratio(&variant, &baseline))
    }

    fn arm_figure(&self, arm: &str) -> ArmFigure {
        let values = self.values(arm, None);
        ArmFigure {
            kernel: arm.to_owned(),
            published: self.published(arm),
            simulated: values.as_deref().map(|v| self.row.over.of(v)),
            ci95: values.as_deref().and_then(|v| self.row.over.ci95(v)),
        }
    }

    fn ratio_figure(&self, of: &[String; 2]) -> RatioFigure {
        let quotient = || Some(self.published(&of[0])? / self.published(&of[1])?);
        let simulated = self.paired();
        RatioFigure {
            of: of.clone(),
            published: self.row.published_ratio.or_else(quotient),
            simulated: simulated.map(|r| r.value),
            ci95: simulated.and_then(|r| r.ci95),
        }
    }

    fn counter(&self, counter: &CounterSpec) -> CounterFigure {
        let without = Scene {
            set: &counter.set,
            metric: counter.metric.as_deref().unwrap_or(self.metric),
            ratio: counter.ratio.as_ref().or(self.ratio),
            ..*self
        };
        let Verdict { ok, judged, missing } = judge(Some(&counter.holds), &without);
        let ratio = without.paired().filter(|_| counter.holds.uses_ratio());
        CounterFigure {
            what: counter.what.clone(),
            set: counter.set.clone(),
            simulated_ratio: ratio.map(|r| r.value),
            ci95: ratio.and_then(|r| r.ci95),
            tolerance: counter.holds.text().to_owned(),
            ok,
            judged,
            missing,
        }
    }

    /// The platform's unit for energies, the list's for all else.
    fn unit(&self) -> String {
        let listed = info(self.metric).map_or("", |m| m.unit);
        let arm = self.row.arms.first().and_then(|a| self.experiment.resolve(a, self.platform, self.set).ok());
        let report = arm.as_ref().and_then(|a| self.results.reports(a).first());
        match report.and_then(|r| r.metrics.energy.as_ref()) {
            Some(energy) => in_energy(listed, &energy.unit).to_owned(),
            None => listed.to_owned(),
        }
    }
}

impl Figures for Scene<'_> {
    fn simulated(&self, arm: &str, metric: Option<&str>) -> Option<f64> {
        self.values(arm, metric).as_deref().map(mean)
    }
    fn over(&self, arm: &str, metric: Option<&str>, over: Over) -> Option<f64> {
        self.values(arm, metric).map(|values| over.of(&values)).filter(|v| !v.is_nan())
    }
    fn interval(&self, arm: &str, metric: Option<&str>) -> Option<[f64; 2]> {
        self.values(arm, metric).as_deref().and_then(bca_mean)
    }
    fn published(&self, arm: &str) -> Option<f64> {
        self.row.published.get(arm).copied().filter(|v| !v.is_nan())
    }
    fn ratio(&self) -> Option<f64> {
        self.paired().map(|r| r.value)
    }
    fn ratio_interval(&self) -> Option<[f64; 2]> {
        self.paired().and_then(|r| r.ci95)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::*;
    use super::*;

    #[test]
    fn holds_and_counter_vanishes() {
        let e = experiment();
        let rows = e.evaluate(&results(&e));
        let ids: Vec<&str> = rows.iter().map(|r| r.id.as_str()).collect();
        assert_eq!(ids, ["3.1", "3.1/platform=a83t", "3.5"]);
        let row = &rows[0];
        assert!(row.ok && (row.ratio.as_ref().unwrap().simulated.unwrap() - 0.1).abs() < 1e-9);
        assert!((row.ratio.as_ref().unwrap().published.unwrap() - 0.08222).abs() < 1e-4);
        assert_eq!((row.arms[2].kernel.as_str(), row.arms[2].published), ("linux-5.6", None));
        let counter = row.counter_test.as_ref().unwrap();
        assert_eq!((counter.what.as_str(), counter.simulated_ratio, counter.ok), ("no hogs", Some(1.0), true));
        assert!(Repro::new(rows).ok());
    }

    #[test]
    fn a_miss_on_one_platform_fails_the_plain_id() {
        let e = experiment();
        let mut r = results(&e);
        let slow = e.resolve("linux-5.4", "a83t", &Overrides::new()).unwrap();
        r.insert(slow, (0..20).map(|_| report(900.0)).collect());
        let rows = e.evaluate(&r);
        assert_eq!(rows.iter().map(|r| r.ok).collect::<Vec<_>>(), [false, false, true]);
        assert_eq!(rows[0].notes, ["does not hold on a83t"]);
        assert!(!Repro::new(rows).ok());
    }

    #[test]
    fn a_row_with_sub_rows_is_ok_when_they_are() {
        let e = experiment();
        let one = e.evaluate(&results(&e)).remove(0);
        let row = |(id, ok): (&str, bool)| ResultRow { id: id.into(), ok, notes: Vec::new(), ..one.clone() };
        let given = [
            ("0.4/web", true),
            ("0.4/photo", true),
            ("2.1", true),
            ("0.6/seq", true),
            ("2.1/issue3", false),
            ("3.1", true),
        ];
        let repro = Repro::new(given.map(row).into());
        let folded = repro.folded().results;
        let got: Vec<(&str, bool)> = folded.iter().map(|r| (r.id.as_str(), r.ok)).collect();
        let [web, photo, _, seq, issue3, other] = given;
        assert_eq!(got, [("0.4", true), web, photo, ("2.1", false), ("0.6", true), seq, issue3, other]);
        assert_eq!(
            (folded[3].notes.as_slice(), folded[3].arms.len()),
            (["does not hold: 2.1/issue3".to_owned()].as_slice(), 3)
        );
        assert_eq!((folded[0].tolerance.as_str(), folded[0].arms.len()), ("every row of 0.4/ holds", 0));
        assert_eq!(repro.results.len(), given.len(), "what is counted has no such entries");
        let elsewhere = ResultRow { experiment: "other".into(), ..row(("2.1/power", false)) };
        let two = Repro::new(vec![row(("2.1", true)), elsewhere]).folded().results;
        assert_eq!(two.iter().map(|r| r.ok).collect::<Vec<_>>(), [true, false, false], "each experiment for itself");
    }

    /// Hogs that do not matter for the difference: the counter-test must say so.
    #[test]
    fn a_counter_test_can_fail() {
        let e = experiment();
        let mut r = results(&e);
        let without = e.resolve("linux-5.3+no_hogs", "hikey620", &Overrides::new()).unwrap();
        r.insert(without, (0..20).map(|_| report(900.0)).collect());
        let rows = e.evaluate(&r);
        assert!(rows[0].ok && !rows[0].counter_test.as_ref().unwrap().ok);
        assert!(!Repro::new(rows).ok());
    }

    #[test]
    fn missing_runs_are_said() {
        let rows = experiment().evaluate(&Results::default());
        assert!(rows.iter().all(|r| !r.ok));
        assert_eq!(rows[1].notes, ["the ratio has no value"]);
        assert!(rows[0].counter_tests[0].missing.is_some());
    }

    #[test]
    fn too_few_seeds_for_an_interval() {
        let mut e = experiment();
        e.rows.truncate(1);
        e.rows[0].platforms.truncate(1);
        let of = |seeds: usize, holds: &str, counter: &str| {
            let mut e = e.clone();
            e.rows[0].holds = Some(Expr::parse(holds).unwrap());
            e.rows[0].counters[0].holds = Expr::parse(counter).unwrap();
            let (mut few, all) = (Results::default(), results(&e));
            for arm in e.plan().arms {
                let reports = all.reports(&arm).iter().take(seeds).cloned().collect();
                few.insert(arm, reports);
            }
            e.evaluate(&few).remove(0)
        };
        let few = of(2, "ratio_hi < 0", "ratio_lo > 1");
        let counter = &few.counter_tests[0];
        assert_eq!((few.ok, few.judged, counter.ok, counter.judged), (true, false, true, false));
        assert!(few.notes.contains(&"not judged, no interval: it takes 4 seeds".to_owned()), "{:?}", few.notes);
        assert!(Repro::new(vec![few]).ok(), "neither held nor missed");
        let row = of(2, "ratio < 0", "ratio > 0");
        assert_eq!((row.ok, row.judged), (false, true), "this can be told from two");
        let row = of(4, "ratio_hi < 0", "ratio_hi > 0");
        assert_eq!((row.ok, row.judged), (false, true), "and this from four");
    }

    #[test]
    fn a_statement_neither_holds_nor_misses() {
        let mut e = experiment();
        e.rows[0].holds = None;
        let rows = e.evaluate(&results(&e));
        let verdicts: Vec<_> = rows.iter().map(|r| (r.is_statement(), r.ok, r.judged)).collect();
        assert_eq!(verdicts, [(true, true, false), (true, true, false), (false, true, true)]);
        let under = |id: &str, row: &ResultRow| ResultRow { id: id.into(), ..row.clone() };
        let given = vec![under("1/a", &rows[0]), under("2/a", &rows[0]), under("2/b", &rows[2])];
        let folded = Repro::new(given).folded().results;
        let plain = folded.iter().filter(|r| !r.id.contains('/'));
        assert_eq!(plain.map(|r| (r.is_statement(), r.judged)).collect::<Vec<_>>(), [(true, false), (false, true)]);
    }

    #[test]
    fn contract() {
        let e = experiment();
        let json = serde_json::to_value(Repro::new(e.evaluate(&results(&e)))).unwrap();
        assert_eq!(json["schema"], "wattif.repro/1");
        let row = &json["results"][0];
        assert_eq!((&row["class"], &row["unit"], &row["ok"]), (&"Q".into(), &"µs".into(), &true.into()));
        assert_eq!(row["arms"][0]["published"], 1234.56);
        assert_eq!(row["ratio"]["of"], serde_json::json!(["linux-5.4", "linux-5.3"]));
        assert_eq!(row["counter_test"]["simulated_ratio"], 1.0);
        assert!(row["tolerance"].as_str().unwrap().starts_with("ratio <= 1/5"));
    }
}
