//! `wattif verify`: replays vectors of the kernel's own code through the code that the simulator runs.
//!
//! A vector file is csv (header line) or jsonl, gzipped or not. Its *kind* follows from its name; each kind is one
//! entry of [`KINDS`] with one check function, in the file of the policy family it covers.

pub mod cpufreq;
pub mod eas;
pub mod fair;
pub mod folder;
pub mod idle;
pub mod pelt;
pub mod recordings;
pub mod util_est;
pub mod wakeup;

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
    /// The kernel the file is of (a part of its name, `any` where kernels agree), or `None` when the stem is of another kind.
    pub kernel: fn(stem: &str) -> Option<String>,
    /// Replays the file.
    pub check: fn(&VectorFile) -> Result<Tally, VectorError>,
}

/// Matches a stem that is exactly `name`.
pub fn exactly(stem: &str, name: &str) -> Option<String> {
    (stem == name).then(|| "any".to_string())
}

/// Matches `prefix` followed by a kernel tag: `fair_6.12` → `6.12`.
pub fn tagged(stem: &str, prefix: &str) -> Option<String> {
    stem.strip_prefix(prefix).filter(|t| !t.is_empty()).map(str::to_string)
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
        i.map(|i| self.fields[i]).ok_or_else(|| format!("line {}: there is no column `{column}`", self.line))
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
    idle::KIND,
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
