//! `wattif verify`: replays vectors of the kernel's own code through the code that the simulator runs.
//!
//! A vector file is csv (header line) or jsonl, gzipped or not. Its *kind* follows from its name; each kind is one
//! entry of [`KINDS`] with one check function, in the file of the policy family it covers.

mod columns;
pub mod cpufreq;
pub mod eas;
pub mod fair;
pub mod folder;
pub mod idle;
pub mod pelt;
pub mod recordings;
pub mod util_est;
pub mod wakeup;

use serde::Deserialize;
use std::fmt::Display;

/// A vector file, decompressed.
pub struct VectorFile {
    /// File name without `.gz` and extension, such as `idle_teo-6.12`.
    pub stem: String,
    /// Contents.
    pub text: String,
    /// Other files of the same folder that a kind may need (`fair_6.12_seqs.jsonl`), by stem.
    pub companions: std::collections::BTreeMap<String, String>,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Rows compared.
    pub rows: u64,
    /// Rows with at least one differing field.
    pub mismatches: u64,
    /// The first of them: line, inputs, expected, got.
    pub first_mismatch: Option<String>,
}

impl Tally {
    /// Count a row; `describe` is called for the first mismatch only.
    pub fn row(&mut self, ok: bool, describe: impl FnOnce() -> String) {
        self.rows += 1;
        if !ok {
            self.mismatches += 1;
            if self.first_mismatch.is_none() {
                self.first_mismatch = Some(describe());
            }
        }
    }
    /// Count a row by comparing what the kernel said with what we say.
    pub fn compare<T: PartialEq + std::fmt::Debug>(&mut self, line: usize, inputs: impl Display, expected: T, got: T) {
        self.row(expected == got, || format!("line {line}: {inputs}: expected {expected:?}, got {got:?}"));
    }
}

/// A malformed vector file: what is wrong, with its line.
pub type VectorError = String;

/// A kind of vector file.
pub struct Kind {
    /// Such as `pelt_decay`.
    pub name: &'static str,
    /// How names of its files begin; where kernels agree, the whole name.
    stem: &'static str,
    /// What may follow: the kernels whose rules there are; empty where kernels agree.
    kernels: &'static [&'static str],
    /// Replays the file by the rules of one of these kernels.
    check: fn(&VectorFile, kernel: &str) -> Result<Tally, VectorError>,
}

impl Kind {
    /// The kernel a file of this name is of (a part of the name, `any` where kernels agree), or `None` when it is of
    /// another kind.
    pub fn kernel(&self, stem: &str) -> Option<String> {
        match stem.strip_prefix(self.stem)? {
            "" => self.kernels.is_empty().then(|| "any".to_string()),
            // What lies beside a file is none of its own.
            tag => (!self.kernels.is_empty() && !tag.ends_with("_seqs")).then(|| tag.to_string()),
        }
    }

    /// Replays a file of this kind.
    pub fn replay(&self, file: &VectorFile) -> Result<Tally, VectorError> {
        let kernel = self.kernel(&file.stem).unwrap_or_default();
        if !self.kernels.is_empty() && !self.kernels.contains(&kernel.as_str()) {
            let known = self.kernels.join(", ");
            return Err(format!("there is nothing to compare kernel `{kernel}` with; known are {known}"));
        }
        columns::check(self.name, &file.text)?;
        (self.check)(file, &kernel)
    }
}

/// A csv text: header and rows.
pub struct Csv<'a> {
    header: Vec<&'a str>,
    text: std::str::Lines<'a>,
}

/// One row of a [`Csv`].
pub struct Row<'c, 'a> {
    /// 1-based line in the file.
    pub line: usize,
    header: &'c [&'a str],
    fields: Vec<&'a str>,
}

impl<'a> Csv<'a> {
    /// Reads the header.
    pub fn new(text: &'a str) -> Result<Csv<'a>, VectorError> {
        let mut lines = text.lines();
        let header = lines.next().ok_or("the file is empty")?.split(',').collect();
        Ok(Csv { header, text: lines })
    }
    /// Calls `f` for every row; stops at the first malformed one.
    pub fn for_each(self, mut f: impl FnMut(&Row<'_, 'a>) -> Result<(), VectorError>) -> Result<(), VectorError> {
        for (i, text) in self.text.enumerate().filter(|(_, t)| !t.is_empty()) {
            let fields: Vec<&str> = text.split(',').collect();
            if fields.len() != self.header.len() {
                return Err(format!("line {}: {} fields, the header has {}", i + 2, fields.len(), self.header.len()));
            }
            f(&Row { line: i + 2, header: &self.header, fields })?;
        }
        Ok(())
    }
}

impl<'a> Row<'_, 'a> {
    /// The text of a column.
    pub fn text(&self, column: &str) -> Result<&'a str, VectorError> {
        let i = self.header.iter().position(|h| *h == column);
        i.map(|i| self.fields[i])
            .ok_or_else(|| format!("line 1: there is no column `{column}`; the header has {}", self.header.join(", ")))
    }
    /// A column as a number of any integer type.
    pub fn num<T: std::str::FromStr>(&self, column: &str) -> Result<T, VectorError> {
        let text = self.text(column)?;
        text.parse().map_err(|_| format!("line {}: `{text}` in column `{column}` is not a number in range", self.line))
    }
    /// The whole row, for a mismatch report.
    pub fn inputs(&self) -> String {
        self.header.iter().zip(&self.fields).map(|(h, f)| format!("{h}={f}")).collect::<Vec<_>>().join(" ")
    }
}

/// A line of jsonl, the `line`th of its file.
pub fn json_line<'a, T: Deserialize<'a>>(line: usize, text: &'a str) -> Result<T, VectorError> {
    serde_json::from_str(text).map_err(|e| match beyond_u64(text) {
        Some((column, number)) => format!("line {line}, column {column}: `{number}` is beyond 64 bits"),
        None => {
            let said = e.to_string();
            let at = format!(" at line {} column {}", e.line(), e.column());
            format!("line {line}, column {}: {}", e.column(), said.strip_suffix(&at).unwrap_or(&said))
        }
    })
}

/// The first whole number that neither u64 nor i64 holds, with its column.
fn beyond_u64(text: &str) -> Option<(usize, &str)> {
    let ends = |c: char| !(c.is_ascii_digit() || c == '-');
    let words =
        text.split(ends).filter(|w| w.len() > 18 && w.trim_start_matches('-').bytes().all(|b| b.is_ascii_digit()));
    let large = words.filter(|w| w.parse::<u64>().is_err() && w.parse::<i64>().is_err());
    large.map(|w| (w.as_ptr() as usize - text.as_ptr() as usize + 1, w)).next()
}

/// Every kind of vector file.
pub static KINDS: &[Kind] = &[
    cpufreq::DBS_GOVERNORS,
    cpufreq::EFFECTIVE_UTIL,
    cpufreq::FREQ_TABLE,
    cpufreq::SCHEDUTIL,
    eas::EM,
    eas::FEEC,
    fair::CALC_DELTA,
    fair::CFS_UNIT,
    fair::EEVDF_UNIT,
    fair::FAIR,
    fair::PRIO_WEIGHTS,
    idle::HALTPOLL,
    idle::LADDER,
    idle::MENU,
    idle::TEO,
    idle::WTEO,
    pelt::ATTACH_DETACH,
    pelt::CLOCK,
    pelt::DECAY,
    pelt::IRQ,
    pelt::POST_INIT,
    pelt::SEGMENTS,
    pelt::SUM,
    pelt::TABLES,
    util_est::UTIL_EST,
    wakeup::KIND,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_lines_name_their_place() {
        let error = |text: &str| json_line::<std::collections::BTreeMap<String, u64>>(7, text).unwrap_err();
        assert_eq!(error(r#"{"a": "x"}"#), "line 7, column 9: invalid type: string \"x\", expected u64");
        assert!(error(r#"{"a": "#).starts_with("line 7, column 6: EOF"), "{}", error(r#"{"a": "#));
        assert_eq!(
            error(r#"{"a": 18446744073709551615, "b": 18446744073709551616}"#),
            "line 7, column 34: `18446744073709551616` is beyond 64 bits"
        );
        let csv = |text: &str| {
            let column = |row: &Row<'_, '_>| row.num::<u64>("b").map(drop);
            Csv::new(text).and_then(|csv| csv.for_each(column)).unwrap_err()
        };
        assert_eq!(csv("a,c\n1,2\n"), "line 1: there is no column `b`; the header has a, c");
        assert_eq!(csv("a,b\n1,2\n1,18446744073709551616\n").split(':').next(), Some("line 3"));
        assert_eq!(csv("a,b\n1\n"), "line 2: 1 fields, the header has 2");
    }
}
