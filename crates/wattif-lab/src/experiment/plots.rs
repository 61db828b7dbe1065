//! The drawings an experiment asks for: a point per arm, with its intervals.

use super::{Experiment, Overrides, PlotSpec, Results};
use crate::metrics::{better, info};
use crate::plot::{Axis, Chart, Point, Series, scatter};
use crate::stats::{bca_mean, mean};
use crate::sweep::pareto;

/// A drawing, ready to be written to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plot {
    /// File name without ending: the plot's, and the platform's beyond the first.
    pub name: String,
    /// The SVG.
    pub svg: String,
}

impl Experiment {
    /// All drawings on all platforms. Arms without figures are left out of the drawing and named in its description.
    pub fn plots(&self, results: &Results) -> Vec<Plot> {
        let on = |(i, platform): (usize, &String)| {
            let suffix = if i == 0 { String::new() } else { format!("-{platform}") };
            let draw = move |spec: &PlotSpec| Plot {
                name: format!("{}{suffix}", spec.name),
                svg: self.draw(spec, platform, results),
            };
            self.plots.iter().filter(|p| p.platforms.contains(platform)).map(draw).collect::<Vec<_>>()
        };
        self.platforms.iter().enumerate().flat_map(on).collect()
    }

    /// One colour per kernel: variants of a kernel share it.
    fn draw(&self, spec: &PlotSpec, platform: &str, results: &Results) -> String {
        let mut series: Vec<Series> = Vec::new();
        let mut missing = Vec::new();
        for name in &spec.arms {
            let Ok(arm) = self.resolve(name, platform, &Overrides::new()) else { continue };
            let values =
                |(metric, threads): &(String, Option<String>)| results.values(&arm, metric, threads.as_deref());
            let Some((x, y)) = values(&spec.x).zip(values(&spec.y)) else {
                missing.push(name.as_str());
                continue;
            };
            let label = own_words(name, &arm.kernel, &spec.arms);
            let point = Point { x: mean(&x), y: mean(&y), x_ci: bca_mean(&x), y_ci: bca_mean(&y), label };
            match series.iter_mut().find(|s| s.name == arm.kernel) {
                Some(s) => s.points.push(point),
                None => series.push(Series { name: arm.kernel.clone(), points: vec![point], line: false, dots: true }),
            }
        }
        if spec.front {
            series.push(front(spec, &series));
        }
        scatter(&self.chart(spec, platform, &missing), &series)
    }

    fn chart(&self, spec: &PlotSpec, platform: &str, missing: &[&str]) -> Chart {
        let without =
            if missing.is_empty() { String::new() } else { format!(" No figures for {}.", missing.join(", ")) };
        Chart {
            title: format!("{} ({platform})", spec.title),
            desc: format!(
                "{} against {} by arm on {platform}: means over {} seeds with 95 % intervals.{without}",
                spec.y.0, spec.x.0, self.seeds
            ),
            x: Axis::new(&label(&spec.x)),
            y: if spec.log_y { Axis::log(&label(&spec.y)) } else { Axis::new(&label(&spec.y)) },
        }
    }
}

/// The points that no other beats in both metrics, as a line.
fn front(spec: &PlotSpec, series: &[Series]) -> Series {
    let (x, y) = (better(&spec.x.0), better(&spec.y.0));
    let all: Vec<&Point> = series.iter().flat_map(|s| &s.points).collect();
    let values: Vec<[f64; 2]> = all.iter().map(|p| [x.as_low(p.x), y.as_low(p.y)]).collect();
    let bare = |p: &Point| Point { x: p.x, y: p.y, ..Point::default() };
    let points = pareto(&values).into_iter().map(|i| bare(all[i])).collect();
    Series { name: "Pareto front".into(), points, line: true, dots: false }
}

/// Of an arm's name what the legend (its kernel) and the other arms do not say.
fn own_words(name: &str, kernel: &str, all: &[String]) -> String {
    let everywhere = |word: &str| all.len() > 1 && all.iter().all(|arm| arm.split('+').any(|w| w.trim() == word));
    let words = name.split('+').map(str::trim).filter(|w| *w != kernel && !everywhere(w));
    words.collect::<Vec<_>>().join("+")
}

fn label((metric, threads): &(String, Option<String>)) -> String {
    metric_label(metric, threads.as_deref())
}

/// A metric's name with its unit, for an axis; that of energy and power is the platform's, and not said here.
pub fn metric_label(metric: &str, threads: Option<&str>) -> String {
    let of = threads.map_or(String::new(), |t| format!(" of {t}"));
    match info(metric).map_or("", |m| m.unit) {
        "" | "J" | "W" => format!("{metric}{of}"),
        unit => format!("{metric}{of}, {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::*;
    use super::*;

    #[test]
    fn a_front_where_one_is_asked_for() {
        let mut e = experiment();
        let before = e.plots(&results(&e));
        e.plots[0].front = true;
        let after = e.plots(&results(&e));
        assert!(!before[0].svg.contains("Pareto front") && after[0].svg.contains("Pareto front"));
        assert_eq!(after[0].svg.matches("<circle").count(), 3, "the front is a line");
    }

    #[test]
    fn a_point_per_arm() {
        let e = experiment();
        let plots = e.plots(&results(&e));
        assert_eq!(plots.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["latency", "latency-a83t"]);
        let svg = &plots[0].svg;
        assert_eq!(svg.matches("<circle").count(), 3);
        assert!(svg.contains("wu_lat_us.max of cfs_thread, µs") && svg.contains("Mean against maximum (hikey620)"));
    }

    #[test]
    fn labels_say_what_differs() {
        let all = ["linux-5.3+phone+idle".to_owned(), "linux-5.6+phone+nice0".into(), "phone".into()];
        assert_eq!(own_words(&all[0], "linux-5.3", &all), "idle");
        assert_eq!(own_words(&all[0], "linux-5.3", &all[..1]), "phone+idle");
        assert_eq!(own_words("no_hogs", "linux-5.3", &all), "no_hogs");
    }

    #[test]
    fn missing_arms_are_named() {
        let plots = experiment().plots(&Results::default());
        assert!(plots[0].svg.contains("No figures for linux-5.3, linux-5.4, linux-5.6."));
    }
}
