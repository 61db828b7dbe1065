//! `--plot NAME.svg`: the figures of the report as files, named by what they show.

use super::output;
use super::report::sides;
use crate::error::Error;
use crate::files::Files;
use crate::new_file::ending_in;
use crate::report::Side;
use clap::builder::TypedValueParser;
use std::path::{Path, PathBuf};
use wattif_lab::report::{FIGURES, Shown, draw};
use wattif_model::run::RunSpec;

/// Which figures, and where they go.
#[derive(Debug, clap::Args)]
pub struct PlotArg {
    /// Draw a figure of the report: latency.svg, frames.svg, energy.svg, frequency.svg, idle.svg, timeline.svg (around the
    /// longest wait), and what the verb itself is about: ratios.svg (compare, replay), published.svg (repro), sweep.svg (sweep).
    /// A prefix may stand before it, as in mine-energy.svg; any other name draws what the verb is about, and the latency of a
    /// run. Repeatable.
    #[arg(long, value_name = "NAME.svg", value_parser = svg_file())]
    plot: Vec<PathBuf>,
}

fn svg_file() -> impl TypedValueParser<Value = PathBuf> {
    ending_in(&["svg"], "figures are written as SVG: call the file NAME.svg")
}

/// What verbs draw besides the figures of runs.
const OWN: [&str; 3] = ["ratios", "published", "sweep"];

/// A figure that only this verb has: its name, and how it is drawn, given the name of the file without its ending.
pub type Own<'a> = (&'static str, &'a dyn Fn(&str) -> Result<String, String>);

impl PlotArg {
    /// With these.
    pub fn files(&self, files: Files) -> Files {
        files.each_written("--plot", &self.plot)
    }

    /// Is anything to be drawn?
    pub fn any(&self) -> bool {
        !self.plot.is_empty()
    }

    /// Is there something to draw that needs runs with all that listens to them? `own` is the verb's own figure.
    pub fn of_runs(&self, own: Option<&str>) -> bool {
        self.plot.iter().any(|path| figure(&stem(path)).or(own).is_none_or(|f| FIGURES.contains(&f)))
    }

    /// The names, without their ending, that draw the verb's own figure.
    pub fn of_verb(&self, own: &str) -> impl Iterator<Item = (&Path, String)> {
        let stems = self.plot.iter().map(|path| (path.as_path(), stem(path)));
        stems.filter(move |(_, stem)| figure(stem).is_none_or(|f| f == own))
    }

    /// Refuses before anything is run what cannot be drawn whatever comes out. `own` is the verb's own figure; `never` says of
    /// a figure why there is nothing to draw.
    pub fn check(&self, own: Option<&'static str>, never: impl Fn(&str) -> Option<&'static str>) -> Result<(), Error> {
        for path in &self.plot {
            let name = asked(&stem(path), own);
            let known = own == Some(name) || FIGURES.contains(&name);
            let why = if known { never(name).map(String::from) } else { Some(no_such(own)) };
            why.map_or(Ok(()), |why| Err(refused(path, &why)))?;
        }
        Ok(())
    }

    /// Write all files: figures of `runs`, and the verb's own.
    pub fn write(&self, runs: &[Side], own: Option<Own<'_>>) -> Result<(), Error> {
        for path in &self.plot {
            let stem = stem(path);
            let name = asked(&stem, own.map(|o| o.0));
            let svg = match own {
                _ if FIGURES.contains(&name) => drawing(name, runs),
                Some((figure, draw)) if figure == name => draw(&stem),
                _ => Err(no_such(own.map(|o| o.0))),
            };
            output::file(path, &svg.map_err(|why| refused(path, &why))?)?;
        }
        Ok(())
    }
}

fn refused(path: &Path, why: &str) -> Error {
    Error::Usage(format!("--plot {}: {why}", path.display()))
}

fn no_such(own: Option<&'static str>) -> String {
    let all: Vec<&str> = own.into_iter().chain(FIGURES).collect();
    format!("there is no such figure here; there are {}", all.join(", "))
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().to_lowercase()
}

/// As the name of the file says.
fn figure(stem: &str) -> Option<&'static str> {
    let asks = |f: &&&str| stem == **f || stem.ends_with(&format!("-{f}")) || stem.ends_with(&format!("_{f}"));
    FIGURES.iter().chain(&OWN).find(asks).copied()
}

/// The figure that a file of this name is for.
fn asked(stem: &str, own: Option<&'static str>) -> &'static str {
    figure(stem).or(own).unwrap_or("latency")
}

/// Why a verb that shows no single run has no figure of one.
pub const NO_SINGLE: &str = "no single run is shown here";

fn drawing(figure: &str, runs: &[Side]) -> Result<String, String> {
    let Some(first) = runs.first() else { return Err(NO_SINGLE.into()) };
    fn of(s: &Side) -> Shown<'_> {
        Shown { kernel: &s.spec.kernel.name, report: &s.outcome.report, figures: &s.figures, timeline: &s.timeline }
    }
    let shown: Vec<Shown<'_>> = runs.iter().map(of).collect();
    draw(figure, &title(&first.spec), &shown)
}

/// Of what a figure is.
pub fn title(spec: &RunSpec) -> String {
    format!("{} on {}", spec.workload.name, spec.platform.name)
}

/// Runs for a page or for drawings, where one of them is asked for.
pub fn sides_if(asked: bool, specs: &[RunSpec]) -> Result<Vec<Side>, Error> {
    if asked { sides(specs) } else { Ok(Vec::new()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_is_drawn() {
        for (name, expected) in [
            ("latency", Some("latency")),
            ("before-energy", Some("energy")),
            ("my_sweep", Some("sweep")),
            ("myidle", None),
            ("answer", None),
        ] {
            assert_eq!(figure(name), expected, "{name}");
        }
    }

    #[test]
    fn runs_are_made_only_for_what_shows_them() {
        let of = |names: &[&str]| PlotArg { plot: names.iter().map(PathBuf::from).collect() };
        assert!(!of(&["ratios.svg", "x.svg"]).of_runs(Some("ratios")));
        assert!(of(&["ratios.svg", "dir/idle.svg"]).of_runs(Some("ratios")));
        assert!(of(&["x.svg"]).of_runs(None), "the latency of a run");
        assert!(!of(&[]).of_runs(None));
    }
}
