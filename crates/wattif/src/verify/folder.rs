//! Walks a folder of vector files, finds the kind of each and tallies its rows.

use super::recordings::{CaseReport, Recordings};
use super::{KINDS, Kind, Tally, VectorFile};
use crate::error::Error;
use flate2::read::GzDecoder;
use rayon::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A decompressed file may not be larger.
pub const MAX_BYTES: u64 = 512 << 20;
/// Folders nested deeper are refused.
const MAX_DEPTH: usize = 16;

/// What `verify` prints as JSON: `wattif.verify/1`.
#[derive(Clone, Debug, Serialize)]
pub struct VerifyReport {
    /// `wattif.verify/1`.
    pub schema: &'static str,
    /// One entry a file, by path.
    pub files: Vec<FileReport>,
    /// Recordings of a real kernel, case by case.
    pub recordings: Vec<CaseReport>,
}

/// One vector file.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FileReport {
    /// Path below the folder.
    pub file: String,
    /// Name of its [`Kind`]; `companion` when another file of the folder is checked together with it.
    pub kind: String,
    /// Kernel the rows come from.
    pub kernel: String,
    /// Rows compared.
    pub rows: u64,
    /// Rows that differ.
    pub mismatches: u64,
    /// The first of them with its inputs.
    pub first_mismatch: Option<String>,
    /// Why the file could not be checked.
    pub error: Option<String>,
}

impl VerifyReport {
    /// Rows and mismatches of all files.
    pub fn totals(&self) -> (u64, u64) {
        self.files.iter().fold((0, 0), |(r, m), f| (r + f.rows, m + f.mismatches))
    }
    /// Files and cases that could not be checked.
    pub fn errors(&self) -> usize {
        let files = self.files.iter().filter(|f| f.error.is_some()).count();
        files + self.recordings.iter().filter(|r| r.error.is_some()).count()
    }
    /// Figures of recordings within their tolerance, and those that are not.
    pub fn figures(&self) -> (usize, usize) {
        self.recordings.iter().map(CaseReport::counts).fold((0, 0), |(i, o), (a, b)| (i + a, o + b))
    }
}

/// Replay every vector file and every recording below `dir`, or the one file it is; `done` is called after each file and case (from any thread).
/// `traces` takes the traces of simulated cases.
pub fn verify_dir(dir: &Path, traces: Option<&Path>, done: &(dyn Fn() + Sync)) -> Result<VerifyReport, Error> {
    let (asked, one_file) = (dir, dir.is_file().then(|| dir.to_path_buf()));
    let dir = one_file.as_ref().and_then(|file| file.parent()).unwrap_or(dir);
    let mut paths = Vec::new();
    match &one_file {
        Some(file) => beside(file, &mut paths)?,
        None => walk(dir, 0, &mut paths)?,
    }
    if paths.is_empty() {
        return Err(Error::file(
            asked,
            "neither vector files (csv, jsonl, gzipped or not) nor recordings (cases.json) here",
        ));
    }
    let (cases, paths): (Vec<PathBuf>, Vec<PathBuf>) = paths.into_iter().partition(|p| p.ends_with("cases.json"));
    let one = |path: &PathBuf| {
        let report = check_file(dir, path, &paths);
        done();
        report
    };
    let wanted = |path: &&PathBuf| one_file.as_ref().is_none_or(|file| file == *path);
    let files = paths.par_iter().filter(wanted).map(one).collect();
    let mut recordings = Vec::new();
    for path in &cases {
        let mut folder = Recordings::open(path)?;
        folder.traces = traces.map(Path::to_path_buf);
        folder.check_traces()?;
        recordings.extend(folder.verify(&|_| done()));
    }
    Ok(VerifyReport { schema: "wattif.verify/1", files, recordings })
}

/// A file, and the vector files beside it: one of them may be its companion.
fn beside(file: &Path, found: &mut Vec<PathBuf>) -> Result<(), Error> {
    if file.ends_with("cases.json") {
        found.push(file.to_path_buf());
    } else if stem(file).is_some() {
        let folder = file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let entries = fs::read_dir(folder)
            .map_err(|e| Error::file(folder, e))?
            .flatten()
            .map(|e| file.with_file_name(e.file_name()));
        found.extend(entries.filter(|p| stem(p).is_some() && p.is_file()));
        found.sort();
    }
    Ok(())
}

/// Vector files and `cases.json` below `dir`, sorted. A folder with a `cases.json` yields only that.
fn walk(dir: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(Error::file(dir, format!("folders are nested deeper than {MAX_DEPTH}")));
    }
    let mut entries: Vec<PathBuf> = fs::read_dir(dir)
        .and_then(|entries| entries.map(|e| e.map(|e| e.path())).collect())
        .map_err(|e| Error::file(dir, e))?;
    entries.sort();
    if let Some(cases) = entries.iter().find(|p| p.ends_with("cases.json")) {
        found.push(cases.clone());
        return Ok(());
    }
    for path in entries {
        let is_link = path.is_symlink();
        if path.is_dir() && !is_link {
            walk(&path, depth + 1, found)?;
        } else if path.is_file() && stem(&path).is_some() {
            found.push(path);
        }
    }
    Ok(())
}

/// The file name without `.gz` and `.csv` or `.jsonl`; `None` for other files.
fn stem(path: &Path) -> Option<&str> {
    let name = path.file_name()?.to_str()?;
    let name = name.strip_suffix(".gz").unwrap_or(name);
    name.strip_suffix(".csv").or_else(|| name.strip_suffix(".jsonl"))
}

fn kind_of(stem: &str) -> Option<(&'static Kind, String)> {
    KINDS.iter().find_map(|k| k.kernel(stem).map(|kernel| (k, kernel)))
}

fn check_file(dir: &Path, path: &Path, all: &[PathBuf]) -> FileReport {
    let file = path.strip_prefix(dir).unwrap_or(path).display().to_string();
    let stem = stem(path).expect("only files with a stem are collected");
    let siblings = || all.iter().filter(|p| p.parent() == path.parent() && p.as_path() != path);
    let Some((kind, kernel)) = kind_of(stem) else {
        return match siblings().filter_map(|p| self::stem(p)).find(|s| extends(stem, s) && kind_of(s).is_some()) {
            Some(main) => FileReport { file, kind: "companion".into(), kernel: main.into(), ..FileReport::default() },
            None => FileReport { file, error: Some(no_kind(stem)), ..FileReport::default() },
        };
    };
    let report = FileReport { file, kind: kind.name.into(), kernel, ..FileReport::default() };
    match load(path, stem, siblings()).and_then(|vector| kind.replay(&vector)) {
        Ok(Tally { rows: 0, .. }) => FileReport { error: Some("no row was compared".into()), ..report },
        Ok(Tally { rows, mismatches, first_mismatch }) => FileReport { rows, mismatches, first_mismatch, ..report },
        Err(error) => FileReport { error: Some(error), ..report },
    }
}

/// Is `stem` the name of a companion of `main`, such as `fair_6.12_seqs` of `fair_6.12`?
fn extends(stem: &str, main: &str) -> bool {
    stem.strip_prefix(main).is_some_and(|rest| rest.starts_with('_'))
}

fn no_kind(stem: &str) -> String {
    let mut kinds: Vec<&str> = KINDS.iter().map(|k| k.name).collect();
    kinds.dedup();
    format!("no kind of vector file has this name (`{stem}`); known kinds: {}", kinds.join(", "))
}

fn load<'a>(path: &Path, stem: &str, siblings: impl Iterator<Item = &'a PathBuf>) -> Result<VectorFile, String> {
    let mut companions = BTreeMap::new();
    for other in siblings {
        if let Some(name) = self::stem(other).filter(|name| extends(name, stem)) {
            companions.insert(name.to_string(), read_text(other)?);
        }
    }
    Ok(VectorFile { stem: stem.to_string(), text: read_text(path)?, companions })
}

/// The text of a file, gunzipped when its name ends in `.gz`; at most [`MAX_BYTES`].
fn read_text(path: &Path) -> Result<String, String> {
    let file = fs::File::open(path).map_err(|e| e.to_string())?;
    let gz = path.extension().is_some_and(|e| e == "gz");
    if !gz && file.metadata().is_ok_and(|m| m.len() > MAX_BYTES) {
        return Err(format!("larger than {} MiB", MAX_BYTES >> 20));
    }
    let bytes = if gz { bounded(GzDecoder::new(file), true) } else { bounded(file, false) }?;
    String::from_utf8(bytes).map_err(|e| format!("not UTF-8 at byte {}", e.utf8_error().valid_up_to()))
}

/// All that a reader gives, up to [`MAX_BYTES`].
pub(super) fn bounded(reader: impl Read, gz: bool) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    if let Err(e) = reader.take(MAX_BYTES + 1).read_to_end(&mut bytes) {
        let line = bytes.iter().filter(|b| **b == b'\n').count() + 1;
        let what = if gz { "the gzip cannot be read further, is the file complete? " } else { "" };
        return Err(format!("line {line}: {what}({e})"));
    }
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("larger than {} MiB when decompressed", MAX_BYTES >> 20));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::columns;
    use super::*;
    use std::io::Write as _;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::create_dir_all(dir.path().join(name).parent().unwrap()).unwrap();
            fs::write(dir.path().join(name), text).unwrap();
        }
        dir
    }
    fn verify(files: &[(&str, &str)]) -> VerifyReport {
        verify_dir(folder(files).path(), None, &|| {}).unwrap()
    }

    #[test]
    fn what_is_not_known_is_an_error_row() {
        let report = verify(&[("nonsense.csv", "a\n1\n"), ("README.md", "")]);
        assert_eq!(report.files.len(), 1);
        assert!(report.files[0].error.as_deref().unwrap().contains("`nonsense`"));
    }

    #[test]
    fn recordings_that_cannot_be_read_name_the_place() {
        let error = |cases: &str| {
            let dir = folder(&[("rec/cases.json", cases), ("rec/kernels.json", "{}")]);
            verify_dir(dir.path(), None, &|| {}).unwrap_err().to_string()
        };
        assert!(error("[\n{\"name\": 3}]").contains("cases.json:2:"), "{}", error("[\n{\"name\": 3}]"));
        assert!(error("[").contains("cases.json:1:1"));
    }

    #[test]
    fn a_column_that_no_check_knows_is_an_error() {
        let error = |header: &str| {
            let text = format!("{header}\n0,1024,4194304,7\n");
            verify(&[("prio_weights.csv", &text)]).files[0].error.clone().unwrap_or_default()
        };
        assert!(error("nice,weight,wmult,extra").contains("the column `extra`"));
        let vectors = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors");
        for path in fs::read_dir(vectors).unwrap().map(|e| e.unwrap().path()) {
            let known = kind_of(stem(&path).unwrap()).map(|(k, _)| columns::check(k.name, &read_text(&path).unwrap()));
            assert_eq!(known.unwrap_or(Ok(())), Ok(()), "{}", path.display());
        }
    }

    #[test]
    fn companions_extend_a_name() {
        assert!(extends("fair_6.12_seqs", "fair_6.12") && !extends("fair_6.12", "fair_6.1"));
    }

    #[test]
    fn empty_and_truncated() {
        assert!(verify_dir(folder(&[]).path(), None, &|| {}).is_err());
        let dir = folder(&[("other.json", "{}")]);
        let other = dir.path().join("other.json");
        let why = verify_dir(&other, None, &|| {}).unwrap_err().to_string();
        assert!(why.starts_with(&format!("{}: ", other.display())), "{why}");
        let dir = folder(&[("x.csv.gz", "\u{1f}")]);
        assert!(read_text(&dir.path().join("x.csv.gz")).is_err());
        let whole: String = (0..20_000).map(|i| format!("{},{}\n", i, i * 7919 % 10_007)).collect();
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packed.write_all(whole.as_bytes()).unwrap();
        let packed = packed.finish().unwrap();
        fs::write(dir.path().join("x.csv.gz"), &packed[..packed.len() / 2]).unwrap();
        let error = read_text(&dir.path().join("x.csv.gz")).unwrap_err();
        let line: usize = error.strip_prefix("line ").and_then(|e| e.split_once(':')).unwrap().0.parse().unwrap();
        assert!((2..20_000).contains(&line) && error.contains("is the file complete?"), "{error}");
    }

    #[test]
    fn one_file_with_its_companions_beside_it() {
        let dir = folder(&[("prio_weights.csv", "nice,weight,wmult\n0,1024,4194304\n"), ("nonsense.csv", "a\n1\n")]);
        let report = verify_dir(&dir.path().join("prio_weights.csv"), None, &|| {}).unwrap();
        assert_eq!((report.files.len(), report.totals(), report.errors()), (1, (1, 0), 0));
        assert!(verify_dir(&dir.path().join("none.csv"), None, &|| {}).is_err());
    }
}
