//! The one renderer of text tables, and how numbers are written in them.

use unicode_width::UnicodeWidthStr;

/// How the cells of a column line up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

#[derive(Clone, Debug)]
enum Row {
    Cells(Vec<String>),
    Line(String),
}

/// A table under construction. Trailing cells may be left out.
#[derive(Clone, Debug)]
pub struct Table {
    head: Vec<(String, Align)>,
    rows: Vec<Row>,
}

impl Table {
    /// With these columns.
    pub fn new<S: Into<String>>(columns: impl IntoIterator<Item = (S, Align)>) -> Table {
        Table { head: columns.into_iter().map(|(name, align)| (name.into(), align)).collect(), rows: Vec::new() }
    }
    /// Add a row; a line break or the like in a name stands as an escape. Panics when it has more cells than the table has columns.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        let cells: Vec<String> = cells.into_iter().map(|cell| one_line(cell.into())).collect();
        assert!(cells.len() <= self.head.len(), "{} cells in a table of {} columns", cells.len(), self.head.len());
        self.rows.push(Row::Cells(cells));
    }
    /// Add a line of running text across the columns.
    pub fn line(&mut self, text: impl Into<String>) {
        self.rows.push(Row::Line(text.into()));
    }

    /// Plain text: two spaces between columns, a rule under the head, no space at the end of a line.
    pub fn to_text(&self) -> String {
        let widths = self.widths();
        let head: Vec<String> = self.head.iter().map(|(name, _)| name.clone()).collect();
        let rule: Vec<String> = widths.iter().map(|w| "-".repeat(*w)).collect();
        let mut out = self.text_row(&head, &widths) + &self.text_row(&rule, &widths);
        for row in &self.rows {
            match row {
                Row::Cells(cells) => out += &self.text_row(cells, &widths),
                Row::Line(text) => out += &format!("{}\n", text.trim_end()),
            }
        }
        out
    }

    /// A Markdown table; lines of running text become rows of one cell.
    pub fn to_markdown(&self) -> String {
        let cells = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut out = cells(self.head.iter().map(|(name, _)| escape_cell(name)).collect());
        out += &cells(self.head.iter().map(|(_, a)| if *a == Align::Right { "---:" } else { "---" }.into()).collect());
        for row in &self.rows {
            let given = match row {
                Row::Cells(c) => c.as_slice(),
                Row::Line(text) => std::slice::from_ref(text),
            };
            out += &cells((0..self.head.len()).map(|i| given.get(i).map_or("".into(), |c| escape_cell(c))).collect());
        }
        out
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.head.iter().map(|(name, _)| width(name)).collect();
        for row in &self.rows {
            if let Row::Cells(cells) = row {
                widths.iter_mut().zip(cells).for_each(|(w, c)| *w = (*w).max(width(c)));
            }
        }
        widths
    }

    fn text_row(&self, cells: &[String], widths: &[usize]) -> String {
        let padded: Vec<String> = cells
            .iter()
            .zip(widths)
            .zip(&self.head)
            .map(|((cell, w), (_, align))| {
                let pad = " ".repeat(w - width(cell));
                if *align == Align::Right { pad + cell } else { cell.clone() + &pad }
            })
            .collect();
        format!("{}\n", padded.join("  ").trim_end())
    }
}

/// Could it steer a display, turn its direction, or stand unseen in a name: a control or format character, or one that breaks
/// lines.
pub fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

/// How long a run is: what is asked for, and of a workload that ends by itself only the most.
pub fn told_length(ends_by_itself: bool, seconds: f64) -> String {
    let until = if ends_by_itself { "until it ends, at most " } else { "" };
    format!("{until}{} s", cell(seconds))
}

/// A name from outside as it fits into a line.
pub fn one_line(text: String) -> String {
    let escaped = |c: char| match c {
        c if c.is_control() => c.escape_debug().to_string(),
        c if steers(c) => c.escape_unicode().to_string(),
        c => c.into(),
    };
    if text.contains(steers) { text.chars().map(escaped).collect() } else { text }
}

/// Columns of a terminal a text takes: names from outside may have wide characters, and some that stand above another.
pub fn width(text: &str) -> usize {
    text.width()
}

fn escape_cell(text: &str) -> String {
    text.trim().replace('\\', "\\\\").replace('|', "\\|").replace(['\n', '\r'], " ")
}

/// A number with `digits` significant digits: `1235`, `103.3`, `0.01875`, `1.2e-7`; `–` for what is not a number.
pub fn number(value: f64, digits: usize) -> String {
    if value.is_nan() {
        return "–".into();
    }
    if value == 0.0 || value.is_infinite() {
        return if value == 0.0 { "0".into() } else { format!("{value}") };
    }
    let magnitude = value.abs().log10().floor() as i32;
    if !(-4..15).contains(&magnitude) {
        return format!("{value:.*e}", digits.saturating_sub(1));
    }
    let decimals = (digits as i32 - 1 - magnitude).max(0) as usize;
    format!("{value:.decimals$}")
}

/// A number for a table: four significant digits, and all digits of whole numbers.
pub fn cell(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 { format!("{value}") } else { number(value, 4) }
}

/// A number as it was published: nothing rounded.
pub fn verbatim(value: f64) -> String {
    if value.is_nan() { "–".into() } else { format!("{value}") }
}

/// `[lo, hi]`, or `–`.
pub fn interval(ci95: Option<[f64; 2]>) -> String {
    ci95.map_or("–".into(), |[lo, hi]| format!("[{}, {}]", cell(lo), cell(hi)))
}

/// A p value: `0.012`, `<0.001`.
pub fn p_value(p: f64) -> String {
    if p < 0.001 {
        "<0.001".into()
    } else if p.is_nan() {
        "–".into()
    } else {
        format!("{p:.3}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligned() {
        let mut t = Table::new([("what", Align::Left), ("µs", Align::Right), ("note", Align::Left)]);
        t.row(["mean", "1117", ""]);
        t.row(["p99", "9"]);
        t.line("a line that is wider than every column");
        let text =
            "what    µs  note\n----  ----  ----\nmean  1117\np99      9\na line that is wider than every column\n";
        assert_eq!(t.to_text(), text);
    }

    /// As a terminal shows them: two columns for a letter of Japanese, none for an accent that stands above another letter.
    #[test]
    fn wide_names_are_aligned() {
        let mut t = Table::new([("name", Align::Left), ("n", Align::Right)]);
        t.row(["日本", "1"]);
        t.row(["e\u{301}a", "2"]);
        t.row(["abcde", "3"]);
        assert_eq!(t.to_text(), "name   n\n-----  -\n日本   1\ne\u{301}a     2\nabcde  3\n");
    }

    #[test]
    fn names_stay_in_their_line() {
        let mut t = Table::new([("name", Align::Left), ("n", Align::Right)]);
        t.row(["a\nb\u{7}é", "1"]);
        assert_eq!(t.to_text(), "name        n\n----------  -\na\\nb\\u{7}é  1\n");
        for c in ['\u{ad}', '\u{202e}', '\u{2066}', '\u{2028}', '\u{fffb}', '\u{e0041}'] {
            assert_eq!(one_line(format!("a{c}b")), format!("a\\u{{{:x}}}b", c as u32));
        }
        assert_eq!(one_line("ä 日本 😀".into()), "ä 日本 😀");
    }

    #[test]
    fn markdown_escapes() {
        let mut t = Table::new([("a|b", Align::Left), ("n", Align::Right)]);
        t.row(["x|y", "1"]);
        t.line("free");
        assert_eq!(t.to_markdown(), "| a\\|b | n |\n| --- | ---: |\n| x\\|y | 1 |\n| free |  |\n");
    }

    #[test]
    fn digits() {
        let got: Vec<String> = [1234.56, 103.27, 0.01875, 5000.0, 1.23e-7, 0.0, f64::NAN].map(cell).into();
        assert_eq!(got, ["1235", "103.3", "0.01875", "5000", "1.230e-7", "0", "–"]);
        assert_eq!([p_value(0.0001), p_value(0.0123)], ["<0.001", "0.012"]);
        assert_eq!(interval(Some([1.0, 2.5])), "[1, 2.500]");
    }
}
