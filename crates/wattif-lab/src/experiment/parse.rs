//! `experiment.toml` to [`Experiment`]. All mistakes of meaning show at once; one of form hides those behind it.

use super::{
    Class, CorrelationSpec, CounterSpec, Experiment, Expr, FullSpec, HistogramSpec, Overrides, PlotSpec, RowSpec,
    TableSpec, Variant, parse_duration,
};
use crate::metrics::{BINS, info};
use crate::stats::Over;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use toml::Spanned;
use wattif_model::Ns;
use wattif_model::check::Diagnostic;
use wattif_model::kernel::Value;

/// More runs per arm help nobody.
const MAX_SEEDS: u64 = 100_000;

type Table<T> = BTreeMap<String, T>;
/// By arm.
type Published<T> = BTreeMap<Spanned<String>, T>;
/// Names of arms.
type Arms = Vec<Spanned<String>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawExperiment {
    question: String,
    source: String,
    platform: String,
    #[serde(default)]
    also: Vec<String>,
    workload: String,
    dialect: Option<String>,
    duration: Option<Spanned<String>>,
    seeds: Spanned<u64>,
    kernels: Spanned<Vec<String>>,
    ratio: Option<[Spanned<String>; 2]>,
    /// Settings of every arm.
    #[serde(default)]
    set: Table<Spanned<toml::Value>>,
    #[serde(default)]
    variants: BTreeMap<Spanned<String>, Table<Spanned<toml::Value>>>,
    #[serde(default)]
    result: Vec<RawRow>,
    #[serde(default)]
    table: Vec<RawTable>,
    #[serde(default)]
    histogram: Vec<RawHistogram>,
    #[serde(default)]
    plot: Vec<RawPlot>,
    #[serde(default)]
    correlation: Vec<RawCorrelation>,
    #[serde(default)]
    full: RawFull,
}

/// What `--full` changes.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFull {
    seeds: Option<Spanned<u64>>,
    duration: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCorrelation {
    title: Spanned<String>,
    x: Spanned<String>,
    y: Spanned<String>,
    /// Arms of one load, or lists of them, one for each load.
    arms: Spanned<RawLoads>,
    platforms: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawLoads {
    One(Vec<String>),
    Several(Vec<Vec<String>>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRow {
    id: Spanned<String>,
    metric: Spanned<String>,
    threads: Option<String>,
    #[serde(default)]
    published: Published<f64>,
    published_ratio: Option<f64>,
    #[serde(default)]
    over: Over,
    class: Class,
    ratio: Option<[Spanned<String>; 2]>,
    holds: Option<Spanned<String>>,
    counter: Option<RawCounter>,
    #[serde(default)]
    counters: Vec<RawCounter>,
    arms: Option<Arms>,
    platforms: Option<Vec<String>>,
    note: Option<String>,
    #[serde(default)]
    full: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCounter {
    what: Option<String>,
    set: Table<Spanned<toml::Value>>,
    holds: Spanned<String>,
    metric: Option<Spanned<String>>,
    ratio: Option<[Spanned<String>; 2]>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTable {
    title: Spanned<String>,
    metrics: Spanned<Vec<String>>,
    threads: Option<String>,
    #[serde(default)]
    published: Published<Vec<f64>>,
    arms: Option<Arms>,
    platforms: Option<Vec<String>>,
    #[serde(default)]
    full: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawHistogram {
    title: Spanned<String>,
    threads: Option<String>,
    #[serde(default)]
    published: Published<Vec<f64>>,
    arms: Option<Arms>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPlot {
    name: Spanned<String>,
    title: String,
    x: Spanned<String>,
    x_threads: Option<String>,
    y: Spanned<String>,
    y_threads: Option<String>,
    #[serde(default)]
    log_y: bool,
    #[serde(default)]
    front: bool,
    arms: Option<Arms>,
    platforms: Option<Vec<String>>,
}

impl Experiment {
    /// Read the text of an `experiment.toml`. `name` is that of its folder.
    pub fn parse(name: &str, text: &str) -> Result<Experiment, Vec<Diagnostic>> {
        let raw: RawExperiment = toml::from_str(text).map_err(|e| vec![of_toml(&e)])?;
        let mut reader = Reader { wrong: Vec::new(), frame: frame(name, &raw) };
        reader.read(raw);
        if reader.wrong.is_empty() { Ok(reader.frame) } else { Err(reader.wrong) }
    }
}

fn of_toml(e: &toml::de::Error) -> Diagnostic {
    Diagnostic::error("experiment::E01", e.span().unwrap_or(0..0), e.message())
}

/// What needs no checking.
fn frame(name: &str, raw: &RawExperiment) -> Experiment {
    Experiment {
        name: name.to_owned(),
        question: raw.question.clone(),
        source: raw.source.clone(),
        platforms: std::iter::once(&raw.platform).chain(&raw.also).cloned().collect(),
        workload: raw.workload.clone(),
        dialect: raw.dialect.clone(),
        duration: None,
        seeds: *raw.seeds.get_ref(),
        kernels: raw.kernels.get_ref().clone(),
        set: Overrides::new(),
        variants: BTreeMap::new(),
        rows: Vec::new(),
        tables: Vec::new(),
        histograms: Vec::new(),
        plots: Vec::new(),
        correlations: Vec::new(),
        full: FullSpec::default(),
    }
}

struct Reader {
    wrong: Vec<Diagnostic>,
    frame: Experiment,
}

impl Reader {
    fn error(&mut self, code: &'static str, span: Range<usize>, message: impl Into<String>) {
        self.wrong.push(Diagnostic::error(code, span, message));
    }

    fn read(&mut self, raw: RawExperiment) {
        self.top(&raw);
        self.frame.set = self.overrides(raw.set);
        for (name, keys) in raw.variants {
            let variant = self.variant(keys);
            self.named(&name);
            self.frame.variants.insert(name.into_inner(), variant);
        }
        let ratio = raw.ratio.map(|pair| self.pair(pair));
        for row in raw.result {
            let full = row.full;
            let row = self.row(row, ratio.as_ref());
            let rows = if full { &mut self.frame.full.rows } else { &mut self.frame.rows };
            rows.push(row);
        }
        for table in raw.table {
            let full = table.full;
            let table = self.table(table);
            let tables = if full { &mut self.frame.full.tables } else { &mut self.frame.tables };
            tables.push(table);
        }
        self.frame.full.seeds = raw.full.seeds.map(|seeds| self.seeds(&seeds));
        self.frame.full.duration = raw.full.duration.and_then(|d| self.duration(d.span(), d.get_ref()));
        self.frame.correlations = raw.correlation.into_iter().map(|c| self.correlation(c)).collect();
        self.frame.histograms = raw.histogram.into_iter().map(|h| self.histogram(h)).collect();
        self.frame.plots = raw.plot.into_iter().map(|p| self.plot(p)).collect();
    }

    fn top(&mut self, raw: &RawExperiment) {
        if let Some(duration) = &raw.duration {
            self.frame.duration = self.duration(duration.span(), duration.get_ref());
        }
        self.seeds(&raw.seeds);
        let kernels = raw.kernels.get_ref();
        if kernels.is_empty() || kernels.iter().collect::<BTreeSet<_>>().len() != kernels.len() {
            self.error("experiment::E03", raw.kernels.span(), "kernels must be named, each once");
        }
    }

    fn seeds(&mut self, seeds: &Spanned<u64>) -> u64 {
        if !(1..=MAX_SEEDS).contains(seeds.get_ref()) {
            self.error("experiment::E04", seeds.span(), format!("seeds must be 1 to {MAX_SEEDS}"));
        }
        *seeds.get_ref()
    }

    fn correlation(&mut self, raw: RawCorrelation) -> CorrelationSpec {
        let at = raw.title.span();
        self.metric(&raw.x);
        self.metric(&raw.y);
        let arms_at = raw.arms.span();
        let loads = match raw.arms.into_inner() {
            RawLoads::One(arms) => vec![arms],
            RawLoads::Several(loads) => loads,
        };
        loads.iter().flatten().for_each(|arm| self.arm(arm, &arms_at));
        CorrelationSpec {
            loads,
            platforms: self.platforms(raw.platforms, &at),
            title: raw.title.into_inner(),
            x: raw.x.into_inner(),
            y: raw.y.into_inner(),
        }
    }

    /// As an arm, a name is a kernel's first, and `+` joins several.
    fn named(&mut self, variant: &Spanned<String>) {
        let name = variant.get_ref();
        if self.frame.kernels.contains(name) || name.contains('+') || name.trim() != name || name.is_empty() {
            let message = format!("no arm can mean a variant called `{name}`");
            let help = "give it a name that is no kernel's and has no `+` and no space around it";
            self.wrong.push(Diagnostic::error("experiment::E06", variant.span(), message).help(help));
        }
    }

    /// `kernel`, `workload` and `duration` choose another; everything else is a setting.
    fn variant(&mut self, mut keys: Table<Spanned<toml::Value>>) -> Variant {
        let mut word = |reader: &mut Reader, key: &str| match keys.remove(key).map(|v| (v.span(), v.into_inner())) {
            Some((span, toml::Value::String(text))) => Some((span, text)),
            Some((span, _)) => {
                reader.error("experiment::E05", span, format!("`{key}` is a name in quotes"));
                None
            }
            None => None,
        };
        let (kernel, workload) = (word(self, "kernel"), word(self, "workload").map(|w| w.1));
        let duration = word(self, "duration").and_then(|(span, text)| self.duration(span, &text));
        if let Some((span, kernel)) = kernel.as_ref().filter(|(_, k)| !self.frame.kernels.contains(k)) {
            let message = format!("kernel `{kernel}` is not in `kernels`: {}", self.frame.kernels.join(", "));
            self.error("experiment::E03", span.clone(), message);
        }
        Variant { kernel: kernel.map(|k| k.1), workload, duration, set: self.overrides(keys) }
    }

    fn duration(&mut self, at: Range<usize>, text: &str) -> Option<Ns> {
        match parse_duration(text) {
            Ok(Ns(0)) => self.error("experiment::E04", at, "a run of no length shows nothing"),
            Ok(ns) => return Some(ns),
            Err(why) => self.error("experiment::E04", at, why),
        }
        None
    }

    fn overrides(&mut self, keys: Table<Spanned<toml::Value>>) -> Overrides {
        let mut set = Overrides::new();
        for (key, value) in keys {
            let span = value.span();
            match value.into_inner() {
                toml::Value::Integer(i) => drop(set.insert(key, Value::Int(i))),
                toml::Value::Boolean(b) => drop(set.insert(key, Value::Bool(b))),
                toml::Value::String(s) => drop(set.insert(key, Value::Text(s))),
                other => {
                    let message =
                        format!("`{key}` is a {}; settings are whole numbers, true, false or words", other.type_str());
                    self.wrong.push(
                        Diagnostic::error("experiment::E05", span, message).help("quote dotted keys: \"a.b\" = 1"),
                    );
                }
            }
        }
        set
    }

    fn row(&mut self, raw: RawRow, shared: Option<&[String; 2]>) -> RowSpec {
        let at = raw.id.span();
        if self.frame.rows.iter().chain(&self.frame.full.rows).any(|r| r.id == *raw.id.get_ref()) {
            self.error("experiment::E06", at.clone(), format!("result `{}` appears twice", raw.id.get_ref()));
        }
        self.metric(&raw.metric);
        if raw.holds.is_none() && raw.class != Class::S {
            let message = format!("result `{}` of class {:?} needs `holds`", raw.id.get_ref(), raw.class);
            self.error("experiment::E02", at.clone(), message);
        }
        let published = self.published(raw.published);
        let holds = raw.holds.and_then(|h| self.holds(h));
        let counters: Vec<CounterSpec> =
            raw.counter.into_iter().chain(raw.counters).filter_map(|c| self.counter(c)).collect();
        let ratio = raw.ratio.map(|pair| self.pair(pair));
        let ratio = ratio.or(shared.cloned()).or_else(|| self.usual_ratio(&published));
        let mut named: Vec<String> = published.keys().cloned().collect();
        named.extend(holds.iter().flat_map(|h| h.arms()).map(str::to_owned));
        let uses_ratio = holds.as_ref().is_some_and(Expr::uses_ratio) || raw.published_ratio.is_some();
        named.extend(ratio.iter().filter(|_| uses_ratio).flatten().cloned());
        RowSpec {
            arms: self.shown(raw.arms, named),
            platforms: self.platforms(raw.platforms, &at),
            id: raw.id.into_inner(),
            metric: raw.metric.into_inner(),
            threads: raw.threads,
            over: raw.over,
            published,
            published_ratio: raw.published_ratio,
            class: raw.class,
            ratio,
            holds,
            counters,
            note: raw.note,
        }
    }

    /// Without a word on it, a ratio is of the last published kernel to the first, in the order of `kernels`.
    fn usual_ratio(&self, published: &Table<f64>) -> Option<[String; 2]> {
        let of_published: Vec<&String> = self.frame.kernels.iter().filter(|k| published.contains_key(*k)).collect();
        let kernels: Vec<&String> = self.frame.kernels.iter().collect();
        let of = if of_published.len() >= 2 { of_published } else { kernels };
        let (first, last) = (of.first()?, of.last()?);
        (first != last).then(|| [(*last).clone(), (*first).clone()])
    }

    fn counter(&mut self, raw: RawCounter) -> Option<CounterSpec> {
        raw.metric.iter().for_each(|m| self.metric(m));
        let set = self.overrides(raw.set);
        if set.is_empty() {
            self.error(
                "experiment::E05",
                raw.holds.span(),
                "a counter-test needs `set`: what takes the mechanism away",
            );
        }
        let written = || set.iter().map(|(k, v)| format!("{k} = {v}")).collect::<Vec<_>>().join(", ");
        Some(CounterSpec {
            what: raw.what.unwrap_or_else(written),
            holds: self.holds(raw.holds)?,
            metric: raw.metric.map(Spanned::into_inner),
            ratio: raw.ratio.map(|pair| self.pair(pair)),
            set,
        })
    }

    fn table(&mut self, raw: RawTable) -> TableSpec {
        let at = raw.title.span();
        let metrics_at = raw.metrics.span();
        raw.metrics.get_ref().iter().for_each(|m| self.metric_named(m, metrics_at.clone()));
        let published = self.published(raw.published);
        self.lengths(&published, raw.metrics.get_ref().len(), &at);
        TableSpec {
            arms: self.shown(raw.arms, published.keys().cloned().collect()),
            title: raw.title.into_inner(),
            metrics: raw.metrics.into_inner(),
            platforms: self.platforms(raw.platforms, &at),
            threads: raw.threads,
            published,
        }
    }

    fn histogram(&mut self, raw: RawHistogram) -> HistogramSpec {
        let at = raw.title.span();
        let published = self.published(raw.published);
        self.lengths(&published, BINS, &at);
        HistogramSpec {
            arms: self.shown(raw.arms, published.keys().cloned().collect()),
            title: raw.title.into_inner(),
            threads: raw.threads,
            published,
        }
    }

    fn lengths(&mut self, published: &Table<Vec<f64>>, want: usize, at: &Range<usize>) {
        for (arm, values) in published.iter().filter(|(_, v)| v.len() != want) {
            let message =
                format!("`{arm}` has {} published values, not {want}; write nan for one that is missing", values.len());
            self.error("experiment::E07", at.clone(), message);
        }
    }

    fn plot(&mut self, raw: RawPlot) -> PlotSpec {
        let at = raw.name.span();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if !raw.name.get_ref().chars().all(plain) || raw.name.get_ref().starts_with('.') {
            self.error(
                "experiment::E06",
                at.clone(),
                "the name of a plot becomes a file: letters, digits, `-`, `_` and `.`",
            );
        }
        self.metric(&raw.x);
        self.metric(&raw.y);
        PlotSpec {
            arms: self.shown(raw.arms, Vec::new()),
            platforms: self.platforms(raw.platforms, &at),
            front: raw.front,
            name: raw.name.into_inner(),
            title: raw.title,
            x: (raw.x.into_inner(), raw.x_threads),
            y: (raw.y.into_inner(), raw.y_threads),
            log_y: raw.log_y,
        }
    }

    /// Arms to show: those listed; else all kernels, when one of them or nothing is named, then the others named.
    fn shown(&mut self, listed: Option<Arms>, named: Vec<String>) -> Vec<String> {
        if let Some(listed) = listed {
            return listed.into_iter().map(|arm| self.arm_at(arm)).collect();
        }
        let kernels = &self.frame.kernels;
        let any_kernel = named.is_empty() || named.iter().any(|n| kernels.contains(n));
        let mut arms: Vec<String> = if any_kernel { kernels.clone() } else { Vec::new() };
        for name in named {
            if !arms.contains(&name) {
                arms.push(name);
            }
        }
        arms
    }

    fn platforms(&mut self, listed: Option<Vec<String>>, at: &Range<usize>) -> Vec<String> {
        let all = self.frame.platforms.clone();
        let listed = listed.unwrap_or_else(|| all.clone());
        for unknown in listed.iter().filter(|p| !all.contains(p)) {
            self.error(
                "experiment::E03",
                at.clone(),
                format!("platform `{unknown}` is neither `platform` nor in `also`"),
            );
        }
        listed
    }

    fn published<T>(&mut self, of: Published<T>) -> Table<T> {
        of.into_iter().map(|(arm, value)| (self.arm_at(arm), value)).collect()
    }

    fn pair(&mut self, of: [Spanned<String>; 2]) -> [String; 2] {
        of.map(|arm| self.arm_at(arm))
    }

    fn arm_at(&mut self, arm: Spanned<String>) -> String {
        self.arm(arm.get_ref(), &arm.span());
        arm.into_inner()
    }

    fn arm(&mut self, arm: &str, at: &Range<usize>) {
        if let Err(why) = self.frame.resolve(arm, "", &Overrides::new())
            && !self.wrong.iter().any(|d| d.span == *at && d.message == why)
        {
            self.error("experiment::E03", at.clone(), why);
        }
    }

    fn metric(&mut self, name: &Spanned<String>) {
        self.metric_named(name.get_ref(), name.span());
    }
    fn metric_named(&mut self, name: &str, at: Range<usize>) {
        if info(name).is_none() {
            let diagnostic = Diagnostic::error("experiment::E08", at, format!("no metric is called `{name}`"));
            self.wrong.push(diagnostic.help("`wattif list metrics` shows all"));
        }
    }

    fn holds(&mut self, text: Spanned<String>) -> Option<Expr> {
        let span = text.span();
        match Expr::parse(text.get_ref()) {
            Ok(expr) => {
                expr.metrics().into_iter().for_each(|m| self.metric_named(m, span.clone()));
                for arm in expr.arms() {
                    // The span of the value begins with its quote.
                    let at = text.get_ref().find(arm).map_or(span.start, |at| span.start + 1 + at).min(span.end);
                    self.arm(arm, &(at..(at + arm.len()).min(span.end)));
                }
                Some(expr)
            }
            Err(e) => {
                // The span of the value begins with its quote.
                let at = (span.start + 1 + e.at).min(span.end);
                self.error("experiment::E02", at..(at + 1).min(span.end), e.message);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::EXPERIMENT;
    use super::*;

    #[test]
    fn what_only_full_runs_have() {
        let more = r#"
[full]
seeds = 40
duration = "7s"
[[result]]
id = "9"
metric = "energy.total"
class = "S"
full = true
[[correlation]]
title = "all"
x = "wu_lat_us.mean"
y = "energy.total"
arms = ["linux-5.3", "no_hogs"]
"#;
        let e = Experiment::parse("x", &format!("{EXPERIMENT}{more}")).unwrap();
        let (rows, seeds) = (e.rows.len(), e.seeds);
        assert_eq!((e.correlations.len(), e.full.rows.len(), e.full.seeds), (1, 1, Some(40)));
        let full = e.into_full();
        assert_eq!((full.rows.len(), seeds, full.seeds, full.duration), (rows + 1, 20, 40, Some(Ns::from_s(7))));
        let wrong =
            more.replace("40", "0").replace("energy.total\"\nclass", "no.such\"\nclass").replace("no_hogs", "hogs");
        let found = Experiment::parse("x", &format!("{EXPERIMENT}{wrong}")).unwrap_err();
        let codes: Vec<&str> = found.iter().map(|d| d.code).collect();
        assert_eq!(codes, ["experiment::E08", "experiment::E04", "experiment::E03"]);
    }

    #[test]
    fn sample() {
        let e = Experiment::parse("sched_idle_placement", EXPERIMENT).unwrap();
        assert_eq!(e.platforms, ["hikey620", "a83t"]);
        assert_eq!((e.duration, e.seeds), (Some(Ns::from_s(5)), 20));
        assert_eq!(e.variants["no_hogs"].set["workload.tasks.idle_thread.instance"], Value::Int(0));
        let row = &e.rows[0];
        assert_eq!((row.id.as_str(), row.class, row.counters.len()), ("3.1", Class::Q, 1));
        assert_eq!(row.ratio, Some(["linux-5.4".into(), "linux-5.3".into()]));
        assert_eq!(row.arms, ["linux-5.3", "linux-5.4", "linux-5.6"]);
        assert_eq!(e.rows[1].arms, ["no_hogs"], "a row about a variant does not show the kernels");
        assert_eq!(row.counters[0].what, "no hogs");
    }

    /// `text` with `from` replaced has exactly one mistake, at the line of `needle`.
    fn check(from: &str, to: &str, code: &str, needle: &str, part: &str) {
        let text = EXPERIMENT.replacen(from, to, 1);
        assert_ne!(text, EXPERIMENT, "{from} is not in the sample");
        let wrong = Experiment::parse("x", &text).expect_err(to);
        assert_eq!((wrong[0].code, wrong.len()), (code, 1), "{wrong:?}");
        assert!(wrong[0].message.contains(part), "{wrong:?}");
        let line = text.lines().nth(wrong[0].line_column(&text).0 - 1).unwrap();
        assert!(line.contains(needle), "{needle:?} is not in {line:?}: {wrong:?}");
    }

    #[test]
    fn mistakes() {
        check("seeds    = 20", "seeds = 0", "experiment::E04", "seeds", "1 to 100000");
        check("seeds    = 20", "seeds = -1", "experiment::E01", "seeds", "");
        check("\"5s\"", "\"5 parsecs\"", "experiment::E04", "parsecs", "not a duration");
        check("\"5s\"", "\"0s\"", "experiment::E04", "0s", "no length");
        check("ratio <= 1/5", "ratio <= one", "experiment::E02", "ratio <= one", "`one` is unknown");
        check("wu_lat_us.mean", "wu_lat.mean", "experiment::E08", "wu_lat.mean", "no metric");
        check("question", "qestion", "experiment::E01", "qestion", "unknown field `qestion`");
        check("id        = \"3.5\"", "id = \"3.1\"", "experiment::E06", "3.1", "twice");
        check("\"no_hogs\" = 103.25", "\"no_hog\" = 103.25", "experiment::E03", "= 103.25", "`no_hog`");
        check("simulated('no_hogs')", "simulated('no_hog')", "experiment::E03", "simulated", "`no_hog`");
        let of_a_kernel = "\"linux-5.4\" = { duration = \"1s\" }\nno_hogs = {";
        check("no_hogs = {", of_a_kernel, "experiment::E06", "duration = \"1s\"", "called `linux-5.4`");
        check("instance\" = 0 }", "instance\" = 0.5 }", "experiment::E05", "0.5", "float");
        let shorter = "instance\" = 0, duration = \"2 parsecs\" }";
        check("instance\" = 0 }", shorter, "experiment::E04", "parsecs", "not a duration");
        check(
            "threads   = \"cfs_thread\"\npublished = { \"linux-5.3\" = [0",
            "platforms = [\"pc\"]\npublished = { \"linux-5.3\" = [0",
            "experiment::E03",
            "as rt-app logs it",
            "`pc`",
        );
        check("4000,", "", "experiment::E07", "in steps", "10 published values, not 11");
        check("class     = \"Q\"\nholds", "class     = \"Q\"\n#holds", "experiment::E02", "3.1", "needs `holds`");
    }

    #[test]
    fn column_of_a_wrong_condition() {
        let text = EXPERIMENT.replacen("ratio <= 1/5", "ratio <= 1/oops", 1);
        let wrong = Experiment::parse("x", &text).unwrap_err();
        assert_eq!(&text[wrong[0].span.start..][..4], "oops");
    }

    #[test]
    fn several_mistakes_at_once() {
        let text =
            EXPERIMENT.replace("ratio <= 1/5", "ratio <=").replace("\"5s\"", "\"s\"").replace("wu_lat_us.count", "x");
        assert_eq!(Experiment::parse("x", &text).unwrap_err().len(), 3);
    }

    #[test]
    fn every_prefix_is_an_answer() {
        for end in (0..EXPERIMENT.len()).filter(|&i| EXPERIMENT.is_char_boundary(i)) {
            let _ = Experiment::parse("x", &EXPERIMENT[..end]);
        }
    }
}
