//! A comparison as text and as Markdown: the same table.

use super::fold::{Comparison, MetricRow, Verdict};
use crate::stats::FEWEST;
use crate::table::{Align, Table, cell, interval, number, one_line, p_value};

impl Comparison {
    /// For a terminal.
    pub fn to_text(&self) -> String {
        self.table().to_text() + "\n" + &self.legend()
    }
    /// For a web page or a mail.
    pub fn to_markdown(&self) -> String {
        self.table().to_markdown() + "\n" + &self.legend()
    }

    fn table(&self) -> Table {
        use Align::{Left, Right};
        let first = self.kernels.first().map_or("", String::as_str);
        let mut table = Table::new([
            ("metric".to_owned(), Left),
            ("unit".into(), Left),
            ("kernel".into(), Left),
            ("mean".into(), Right),
            ("95 % interval".into(), Right),
            (format!("ratio to {first}"), Right),
            ("95 % interval".into(), Right),
            ("p (Holm)".into(), Right),
            ("effect d".into(), Right),
            (String::new(), Left),
        ]);
        for metric in &self.metrics {
            (0..self.kernels.len()).for_each(|k| table.row(self.cells(metric, k)));
        }
        table
    }

    /// Name and unit only beside the first kernel; nothing about the ratio of the first to itself.
    fn cells(&self, metric: &MetricRow, k: usize) -> Vec<String> {
        let (name, unit) = if k == 0 { (metric.name.as_str(), metric.unit.as_str()) } else { ("", "") };
        let (of, ratio) = (&metric.per_kernel[k], &metric.ratio_to_first[k]);
        let mut cells = vec![name.to_owned(), unit.to_owned(), self.kernels[k].clone()];
        cells.extend([cell(of.mean.unwrap_or(f64::NAN)), interval(of.ci95)]);
        if k > 0 {
            let short = |ci: [f64; 2]| format!("[{}, {}]", number(ci[0], 4), number(ci[1], 4));
            cells.push(number(ratio.value.unwrap_or(f64::NAN), 4));
            cells.push(ratio.ci95.map_or("–".into(), short));
            cells.push(p_value(ratio.p_holm.unwrap_or(f64::NAN)));
            cells.push(ratio.effect.map_or("–".into(), |d| number(d, 3)));
            cells.push(ratio.verdict.map_or("", Verdict::name).to_owned());
        }
        cells
    }

    fn legend(&self) -> String {
        let n = self.seeds;
        let what = "mean over paired seeds; 95 % BCa bootstrap intervals; p of a paired sign-flip permutation, \
                    Holm-corrected over the table; effect: Cohen's d of the paired differences";
        format!("{n} {}: {what}{}.\n{}", if n == 1 { "seed" } else { "seeds" }, self.too_few(), self.cut())
    }

    /// Whose runs are a part of their work.
    fn cut(&self) -> String {
        let n = self.seeds;
        let of = self.kernels.iter().zip(&self.unfinished).filter(|(_, cut)| **cut > 0);
        let told: Vec<String> =
            of.map(|(name, cut)| format!("{} ({cut} of {n} runs)", one_line(name.clone()))).collect();
        match told.is_empty() {
            true => String::new(),
            false => format!("Not finished, so that its figures are of a part of the work: {}.\n", told.join(", ")),
        }
    }

    /// The smallest p of n paired signs is 2^(1−n), which the correction multiplies by the number of ratios.
    fn too_few(&self) -> String {
        let ratios = self.metrics.iter().flat_map(|m| &m.ratio_to_first[1..]).filter(|r| r.p.is_some()).count();
        let smallest = |n: usize| 0.5f64.powi(n as i32 - 1) * ratios as f64;
        match self.seeds {
            0 | 1 => ". One seed says nothing about chance: use --seeds".into(),
            n if n < FEWEST => format!(". {n} seeds are too few for an interval: use --seeds {FEWEST} or more"),
            n if smallest(n) < 0.05 => String::new(),
            n => {
                let enough = (n..64).find(|&n| smallest(n) < 0.05).unwrap_or(64);
                format!(". So few seeds cannot show a corrected p below 0.05: use --seeds {enough}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fold::tests::comparison;

    #[test]
    fn text_is_aligned() {
        let text = comparison().to_text();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("metric") && lines[0].contains("ratio to linux-5.3"), "{text}");
        let mean = lines.iter().position(|l| l.starts_with("wu_lat_us.mean")).unwrap();
        assert!(lines[mean].contains("µs") && lines[mean].contains("1030"), "{text}");
        let column = |l: &str| l.chars().position(|c| c == '[').unwrap();
        assert!(lines[mean + 1].contains("linux-5.4") && column(lines[mean]) > 0, "{text}");
        assert!(text.contains("6 seeds:") && text.lines().all(|l| l == l.trim_end()));
        assert!(comparison().to_markdown().contains("| wu_lat_us.mean | µs | linux-5.3 | 1030 |"));
    }

    #[test]
    fn runs_that_were_cut_are_told() {
        let mut c = comparison();
        assert!(!c.to_text().contains("Not finished"));
        c.unfinished = vec![0, 4];
        for shown in [c.to_text(), c.to_markdown()] {
            assert!(shown.ends_with("of a part of the work: linux-5.4 (4 of 6 runs).\n"), "{shown}");
        }
    }
}
