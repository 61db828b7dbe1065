//! Searching for tunables: a multi-objective search proposes settings, and seeds that it never saw say what they are worth.
//!
//! The search itself is Optuna's NSGA-II, in Python (`python/wattif/_nsga2.py`). It is spoken to in lines of JSON, through
//! whatever implements [`Search`]: a process of its own here, a generator in the Python package. Trials go through the store of
//! sweeps, so a search that was killed finds what it had tried.

use crate::error::Error;
use crate::run::Done;
use crate::sweep::{Figure, MODEL, Question, Store, run_local};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use wattif_lab::metrics::{self, Better, RunReport};
use wattif_lab::stats::{Ratio, paired_ratio};
use wattif_lab::sweep::{Axis, Point, Sampling, Values};

/// What to search for.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// Where, and over which axes; its sampling says nothing, its seeds are those of the trials.
    pub question: Question,
    /// Metrics, each to be as good as its direction says.
    pub objectives: Vec<String>,
    /// Settings tried.
    pub trials: u64,
    /// Of these, in a generation.
    pub population: u64,
    /// Of the search.
    pub search_seed: u64,
    /// Seeds of the proposals' second test, none of the trials'.
    pub held_out: Vec<u64>,
}

/// One side of the conversation: takes a line, says a line.
pub trait Search {
    /// First the space, then figures; the answers are points to try, and at last the best.
    fn say(&mut self, line: &str) -> Result<String, Error>;
}

#[derive(Serialize)]
struct Space<'a> {
    axes: Vec<SpaceAxis>,
    maximize: &'a [bool],
    trials: u64,
    population: u64,
    seed: u64,
}

#[derive(Serialize)]
#[serde(untagged)]
enum SpaceAxis {
    Choices { choices: usize },
    Whole { low: i64, high: i64 },
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Ask(Vec<Vec<i64>>),
    Best(Vec<Vec<i64>>),
}

/// `wattif.tune/1`.
#[derive(Clone, Debug, Serialize)]
pub struct Tuned {
    schema: &'static str,
    model: &'static str,
    /// Names of the metrics.
    pub objectives: Vec<String>,
    /// Settings tried, doubles once.
    pub tried: usize,
    /// Seeds of the trials.
    pub seeds: Vec<u64>,
    /// Seeds that the search never saw.
    pub held_out: Vec<u64>,
    /// No axis is set.
    pub baseline: Candidate,
    /// None of them beats another in every objective, on the seeds of the trials.
    pub proposals: Vec<Candidate>,
}

/// Settings, and how good they are.
#[derive(Clone, Debug, Serialize)]
pub struct Candidate {
    /// Axis → value.
    pub set: BTreeMap<String, String>,
    /// On the seeds of the trials.
    pub found: BTreeMap<String, Figure>,
    /// On the others.
    pub held_out: BTreeMap<String, Figure>,
    /// There, by the baseline with the same seeds.
    pub ratio: BTreeMap<String, RatioJson>,
}

/// As in `wattif.compare/1`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RatioJson {
    /// Mean by the baseline's; `None` where that is 0.
    pub value: Option<f64>,
    /// 95 % BCa interval; `None`: too few seeds.
    pub ci95: Option<[f64; 2]>,
    /// Two-sided, paired sign-flip permutation, not corrected.
    pub p: f64,
}

impl Tuning {
    /// So many seeds that the trials do not have: those after the last of theirs.
    pub fn held_out(seeds: &[u64], n: u64) -> Result<Vec<u64>, Error> {
        let last = seeds.iter().max().copied().unwrap_or(0);
        let beyond = || {
            let why = format!("{n} seeds after {last} go beyond the last one, {}: take lower ones", u64::MAX);
            Error::Usage(why)
        };
        (0..n).map(|i| last.checked_add(1 + i).ok_or_else(beyond)).collect()
    }

    /// How many runs the trials take at most.
    pub fn runs(&self) -> usize {
        (self.trials as usize).saturating_mul(self.question.seeds.len())
    }

    /// Search, then test what was found.
    pub fn run(&self, store: &Store, search: &mut dyn Search, done: Done<'_>) -> Result<Tuned, Error> {
        self.check()?;
        let axes = &self.question.axes;
        let grids: Vec<Option<Vec<String>>> = axes.iter().map(choices).collect::<Result<_, _>>()?;
        let value = |i: usize, n: i64| match &grids[i] {
            Some(values) => values.get(usize::try_from(n).unwrap_or(usize::MAX)).cloned(),
            None => Some(n.to_string()),
        };
        let points = |all: &[Vec<i64>]| -> Result<Vec<Point>, Error> {
            let point = |p: &Vec<i64>| p.iter().enumerate().map(|(i, &n)| value(i, n)).collect::<Option<Point>>();
            let whole = |p: &Point| p.len() == axes.len();
            let points: Option<Vec<Point>> = all.iter().map(|p| point(p).filter(whole)).collect();
            points.ok_or_else(|| Error::Usage("the search asks for a point that is none".into()))
        };
        let maximize: Vec<bool> = self.objectives.iter().map(|name| metrics::better(name) == Better::Higher).collect();
        let mut tried: BTreeMap<Point, Vec<RunReport>> = BTreeMap::new();
        let mut answer = self.listen(search, &self.space(&grids, &maximize))?;
        let best = loop {
            match answer {
                Answer::Best(best) => break points(&best)?,
                Answer::Ask(asked) => {
                    let asked = points(&asked)?;
                    let fresh = asked.iter().filter(|p| !tried.contains_key(*p)).cloned().collect();
                    tried.extend(self.made(fresh, &self.question.seeds, store, done)?);
                    let told: Vec<_> = asked.iter().map(|p| self.figures_of(&tried[p])).collect();
                    answer = self.listen(search, &serde_json::json!({ "tell": told }).to_string())?;
                }
            }
        };
        self.tested(best, &tried, store, done)
    }

    fn check(&self) -> Result<(), Error> {
        Error::unless_metrics(&self.objectives)?;
        if self.objectives.is_empty() || self.question.axes.is_empty() {
            return Err(Error::Usage("a search needs an axis and an objective".into()));
        }
        if let Some(seed) = self.held_out.iter().find(|s| self.question.seeds.contains(s)) {
            return Err(Error::Usage(format!("seed {seed} is both of the trials and held out")));
        }
        Ok(())
    }

    fn space(&self, grids: &[Option<Vec<String>>], maximize: &[bool]) -> String {
        let of = |(axis, grid): (&Axis, &Option<Vec<String>>)| match (&axis.values, grid) {
            (Values::Range { .. }, Some(grid)) => SpaceAxis::Whole { low: 0, high: grid.len() as i64 - 1 },
            (Values::Range { from, to, .. }, None) => SpaceAxis::Whole { low: *from, high: *to },
            (Values::List(list), _) => SpaceAxis::Choices { choices: list.len() },
        };
        let axes = self.question.axes.iter().zip(grids).map(of).collect();
        let (trials, population, seed) = (self.trials, self.population, self.search_seed);
        serde_json::to_string(&Space { axes, maximize, trials, population, seed }).expect("string-keyed")
    }

    fn listen(&self, search: &mut dyn Search, line: &str) -> Result<Answer, Error> {
        let answer = search.say(line)?;
        serde_json::from_str(&answer).map_err(|e| Error::Usage(format!("the search says `{}`: {e}", answer.trim_end())))
    }

    /// Reports of these settings on these seeds.
    fn made(
        &self,
        points: Vec<Point>,
        seeds: &[u64],
        store: &Store,
        done: Done<'_>,
    ) -> Result<Vec<(Point, Vec<RunReport>)>, Error> {
        let sampling = Sampling::These(points);
        let sweep = Question { sampling, seeds: seeds.to_vec(), ..self.question.clone() }.plan()?;
        run_local(&sweep.missing(store)?, store, done)?;
        Ok(sweep.points.iter().cloned().zip(sweep.reports(store)?).collect())
    }

    fn figures_of(&self, reports: &[RunReport]) -> Vec<Option<f64>> {
        self.objectives.iter().map(|name| Figure::of(name, reports).mean).collect()
    }

    fn tested(
        &self,
        best: Vec<Point>,
        tried: &BTreeMap<Point, Vec<RunReport>>,
        store: &Store,
        done: Done<'_>,
    ) -> Result<Tuned, Error> {
        let unset = Question { axes: Vec::new(), ..self.question.clone() };
        let bare = Tuning { question: unset, ..self.clone() };
        let one = |seeds: &[u64]| bare.made(vec![Vec::new()], seeds, store, done).map(|mut all| all.remove(0).1);
        let (known, unseen) = (one(&self.question.seeds)?, one(&self.held_out)?);
        let mut proposals = Vec::new();
        for (point, reports) in self.made(best, &self.held_out, store, done)? {
            proposals.push(self.candidate(&point, [&tried[&point], &reports], &unseen));
        }
        Ok(Tuned {
            schema: "wattif.tune/1",
            model: MODEL,
            objectives: self.objectives.clone(),
            tried: tried.len(),
            seeds: self.question.seeds.clone(),
            held_out: self.held_out.clone(),
            baseline: self.candidate(&Vec::new(), [&known, &unseen], &unseen),
            proposals,
        })
    }

    fn candidate(&self, point: &Point, [found, held_out]: [&[RunReport]; 2], baseline: &[RunReport]) -> Candidate {
        let names = self.question.axes.iter().map(|a| a.name.clone());
        let figures = |of: &[RunReport]| self.objectives.iter().map(|m| (m.clone(), Figure::of(m, of))).collect();
        let ratio = |name: &String| {
            let values = |of: &[RunReport]| of.iter().map(|r| r.metric(name, None)).collect::<Option<Vec<f64>>>();
            let Ratio { value, ci95, p } = paired_ratio(&values(held_out)?, &values(baseline)?);
            Some((name.clone(), RatioJson { value: Some(value).filter(|v| v.is_finite()), ci95, p }))
        };
        Candidate {
            set: names.zip(point.iter().cloned()).collect(),
            found: figures(found),
            held_out: figures(held_out),
            ratio: self.objectives.iter().filter_map(ratio).collect(),
        }
    }
}

/// The values that an axis names; `None`: all whole numbers of a range.
fn choices(axis: &Axis) -> Result<Option<Vec<String>>, Error> {
    match &axis.values {
        Values::Range { steps: None, .. } => Ok(None),
        _ => axis.grid().map(Some).map_err(Error::Usage),
    }
}

/// Optuna in a process of its own.
pub struct Optuna {
    python: String,
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

/// What it runs.
const PROGRAM: &str = include_str!("../../../python/wattif/_nsga2.py");

impl Optuna {
    /// Starts `python`.
    pub fn start(python: &str) -> Result<Optuna, Error> {
        let mut command = Command::new(python);
        command.args(["-c", PROGRAM]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|e| Error::Usage(format!("cannot run `{python}` ({e}); the search needs Python with Optuna")))?;
        let (to, from) = (child.stdin.take(), child.stdout.take());
        let (to, from) = (to.expect("is piped"), BufReader::new(from.expect("is piped")));
        Ok(Optuna { python: python.to_string(), child, to, from })
    }

    /// Why it ended.
    fn ended(&mut self) -> Error {
        let mut words = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            let _ = std::io::Read::read_to_string(&mut stderr, &mut words);
        }
        let last = words.lines().last().unwrap_or("it said nothing").to_string();
        let python = &self.python;
        Error::Usage(match last.contains("No module named 'optuna'") {
            true => {
                format!("`{python}` has no Optuna: {python} -m pip install 'optuna>=5', or name another with --python")
            }
            false => format!("the search has ended: {last}"),
        })
    }
}

impl Search for Optuna {
    fn say(&mut self, line: &str) -> Result<String, Error> {
        let mut answer = String::new();
        let sent = self.to.write_all(format!("{line}\n").as_bytes()).and_then(|()| self.to.flush());
        match sent.and_then(|()| self.from.read_line(&mut answer)) {
            Ok(read) if read > 0 => Ok(answer),
            _ => Err(self.ended()),
        }
    }
}

impl Drop for Optuna {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dialect;
    use wattif_model::Ns;

    /// Asks for two generations of two, and likes the last.
    struct Scripted(Vec<String>);

    impl Search for Scripted {
        fn say(&mut self, line: &str) -> Result<String, Error> {
            self.0.push(line.to_string());
            let answers = [r#"{"ask":[[0,500],[1,900]]}"#, r#"{"ask":[[1,900],[1,1000]]}"#, r#"{"best":[[1,900]]}"#];
            Ok(answers[self.0.len() - 1].to_string())
        }
    }

    fn tuning() -> Tuning {
        let axes = ["cpuidle=menu,teo", "schedutil.rate_limit_us=500..1000"].map(|t| Axis::parse(t).unwrap());
        let question = Question {
            workload: "server".into(),
            platform: "hikey620".into(),
            kernel: "linux-6.12".into(),
            set: Vec::new(),
            axes: axes.into(),
            sampling: Sampling::Grid,
            seeds: vec![1, 2],
            duration: Some(Ns::from_ms(30)),
            dialect: Dialect::Workgen,
        };
        let objectives = ["energy.total", "wakeup_latency_us.mean"].map(String::from).into();
        Tuning { question, objectives, trials: 4, population: 2, search_seed: 1, held_out: (3..8).collect() }
    }

    #[test]
    fn what_is_asked_is_run_and_what_is_liked_is_tested() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("a.sqlite")).unwrap();
        let mut search = Scripted(Vec::new());
        let tuned = tuning().run(&store, &mut search, &|| true).unwrap();
        assert!(search.0[0].contains(r#""axes":[{"choices":2},{"low":500,"high":1000}],"maximize":[false,false]"#));
        assert!(search.0[1].starts_with(r#"{"tell":[["#));
        assert_eq!((tuned.tried, tuned.proposals.len()), (3, 1));
        let best = &tuned.proposals[0];
        assert_eq!(best.set["cpuidle"], "teo");
        assert!(best.held_out["energy.total"].ci95.is_some() && best.found["energy.total"].mean.is_some());
        assert!(best.ratio["energy.total"].value.is_some());
        assert_eq!(tuned.baseline.ratio["energy.total"].value, Some(1.0));
        // 3 points on 2 seeds, baseline and proposal on 2 and 5, and on 5; settings that change nothing are no new runs.
        assert!(store.len().unwrap() <= 3 * 2 + 2 + 5 + 5);
    }

    #[test]
    fn seeds_after_those_of_the_trials() {
        assert_eq!(Tuning::held_out(&[7, 2], 3).unwrap(), [8, 9, 10]);
        assert_eq!(Tuning::held_out(&[u64::MAX - 1], 1).unwrap(), [u64::MAX]);
        let why = Tuning::held_out(&[u64::MAX - 1], 2).unwrap_err().to_string();
        assert!(why.contains("2 seeds after 18446744073709551614 go beyond the last one"), "{why}");
    }

    #[test]
    fn what_cannot_be_searched() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("a.sqlite")).unwrap();
        let why = |t: Tuning| t.run(&store, &mut Scripted(Vec::new()), &|| true).unwrap_err().to_string();
        assert!(why(Tuning { held_out: vec![2], ..tuning() }).contains("seed 2 is both"));
        assert!(why(Tuning { objectives: vec!["energy.totl".into()], ..tuning() }).contains("energy.totl"));
        assert!(Optuna::start("/no/such/python").map(|_| ()).unwrap_err().to_string().contains("needs Python"));
    }
}
