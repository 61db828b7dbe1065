//! What is finished, in one SQLite file.
//!
//! SQLite and not Parquet, because a sweep is many small writers over a long time: a row is durable when it is inserted (write-ahead
//! log: a process may be killed at any time), several processes share the file by its own locks, and one query says what is
//! missing. Parquet files are written once and whole; each process would need files of its own, and a killed one would leave
//! half of one behind. A sweep's results are read row by row here and become Arrow tables for whoever analyses them.

use super::MODEL;
use crate::error::Error;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, params};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};
use wattif_lab::metrics::RunReport;

/// Version of the tables (`user_version`).
const VERSION: i64 = 1;
/// `application_id`: "wtif".
const APPLICATION: i64 = 0x7774_6966;
/// How long to wait for another process that writes.
const PATIENCE: Duration = Duration::from_secs(60);
/// A report may not be larger, unpacked.
const MAX_REPORT_BYTES: u64 = 256 << 20;

/// A finished run, ready to be stored; small enough to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Hash of its spec.
    pub hash: String,
    /// Digest of its events.
    pub digest: String,
    /// Its report: JSON, packed (zlib).
    pub report: Vec<u8>,
}

impl Finished {
    /// Packs a report.
    pub fn new(hash: String, digest: String, report: &RunReport) -> Result<Finished, Error> {
        let json = serde_json::to_vec(report).expect("reports are string-keyed");
        let mut packed = ZlibEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(&json).map_err(|e| Error::file("memory", e))?;
        let report = packed.finish().map_err(|e| Error::file("memory", e))?;
        Ok(Finished { hash, digest, report })
    }
}

/// The store; may be used by several threads, and its file by several processes.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    connection: Mutex<Connection>,
}

impl Store {
    /// Opens a store, or makes it.
    pub fn open(path: &Path) -> Result<Store, Error> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(|e| told(path, &e))?;
        let store = Store { path: path.to_path_buf(), connection: Mutex::new(connection) };
        store.prepare()?;
        Ok(store)
    }

    fn prepare(&self) -> Result<(), Error> {
        let c = self.connection();
        let asked = |e: rusqlite::Error| told(&self.path, &e);
        c.busy_timeout(PATIENCE).map_err(asked)?;
        let at_one_time = c.unchecked_transaction().map_err(asked)?; // another process may just make the tables
        let number = |name: &str| c.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).map_err(asked);
        let (application, version) = (number("application_id")?, number("user_version")?);
        let tables: i64 = c.query_row("SELECT count(*) FROM sqlite_master", [], |r| r.get(0)).map_err(asked)?;
        at_one_time.finish().map_err(asked)?;
        if tables > 0 && application != APPLICATION {
            return Err(Error::file(&self.path, "an SQLite file of another program; give --store another name"));
        }
        if version > VERSION {
            return Err(Error::file(
                &self.path,
                format!(
                    "written by a newer wattif (its tables have version {version}, this wattif knows {VERSION}); update \
                     wattif, or give --store another name"
                ),
            ));
        }
        write_ahead(&c).map_err(asked)?;
        c.pragma_update(None, "synchronous", "NORMAL").map_err(asked)?;
        c.execute_batch(&format!(
            "BEGIN IMMEDIATE;
             PRAGMA application_id = {APPLICATION};
             PRAGMA user_version = {VERSION};
             CREATE TABLE IF NOT EXISTS run (
                 hash TEXT NOT NULL, model TEXT NOT NULL, digest TEXT NOT NULL, report BLOB NOT NULL,
                 PRIMARY KEY (hash, model)
             ) WITHOUT ROWID;
             COMMIT;"
        ))
        .map_err(asked)
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Which of these are there, of this version of the model.
    pub fn known(&self, hashes: &[String]) -> Result<BTreeSet<String>, Error> {
        let c = self.connection();
        let asked = |e: rusqlite::Error| told(&self.path, &e);
        let mut query = c.prepare_cached("SELECT 1 FROM run WHERE hash = ?1 AND model = ?2").map_err(asked)?;
        let mut known = BTreeSet::new();
        for hash in hashes {
            if query.exists(params![hash, MODEL]).map_err(asked)? {
                known.insert(hash.clone());
            }
        }
        Ok(known)
    }

    /// Keeps a result; a second one of the same run changes nothing.
    pub fn insert(&self, finished: &Finished) -> Result<(), Error> {
        let Finished { hash, digest, report } = finished;
        let insert = "INSERT OR IGNORE INTO run (hash, model, digest, report) VALUES (?1, ?2, ?3, ?4)";
        let c = self.connection();
        c.execute(insert, params![hash, MODEL, digest, report]).map(drop).map_err(|e| told(&self.path, &e))
    }

    /// The report of a run that is there.
    pub fn report(&self, hash: &str) -> Result<RunReport, Error> {
        let query = "SELECT report FROM run WHERE hash = ?1 AND model = ?2";
        let found: Option<Vec<u8>> = self
            .connection()
            .query_row(query, params![hash, MODEL], |row| row.get(0))
            .optional()
            .map_err(|e| told(&self.path, &e))?;
        let damaged = |why: String| Error::file(&self.path, format!("the result of run {hash} is damaged: {why}"));
        let packed = found.ok_or_else(|| Error::file(&self.path, format!("there is no result of run {hash}")))?;
        let mut json = Vec::new();
        let unpacked = ZlibDecoder::new(packed.as_slice()).take(MAX_REPORT_BYTES).read_to_end(&mut json);
        unpacked.map_err(|e| damaged(e.to_string()))?;
        serde_json::from_slice(&json).map_err(|e| damaged(e.to_string()))
    }

    /// Results of this version of the model.
    pub fn len(&self) -> Result<u64, Error> {
        let query = "SELECT count(*) FROM run WHERE model = ?1";
        let count: Result<i64, _> = self.connection().query_row(query, params![MODEL], |row| row.get(0));
        count.map(|n| n as u64).map_err(|e| told(&self.path, &e))
    }

    /// None at all?
    pub fn is_empty(&self) -> Result<bool, Error> {
        self.len().map(|n| n == 0)
    }
}

/// Turns the write-ahead log on. Of several processes that do so to a new file at once all but one are told that it is locked,
/// and at once: SQLite does not wait where a reader is to become a writer.
fn write_ahead(c: &Connection) -> rusqlite::Result<()> {
    let begun = Instant::now();
    loop {
        match c.pragma_update(None, "journal_mode", "WAL") {
            Err(e) if e.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && begun.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(5));
            }
            done => return done,
        }
    }
}

/// SQLite's words, and what to do.
fn told(path: &Path, error: &rusqlite::Error) -> Error {
    let what = match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => "no store of wattif (not an SQLite file); give --store another name",
        Some(ErrorCode::DatabaseCorrupt) => {
            "the store is damaged; move it away and sweep again, or rescue rows with `sqlite3 FILE .recover`"
        }
        Some(ErrorCode::DiskFull) => {
            "the disk is full; every run finished before is kept: make room and give the same command again"
        }
        Some(ErrorCode::SystemIoFailure) => {
            "the disk does not take it; every run finished before is kept: mend that and give the same command again"
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "another process has held the store for a minute; give the same command again later"
        }
        Some(ErrorCode::ReadOnly) => "the store cannot be written",
        Some(ErrorCode::CannotOpen) => "the store cannot be opened or made",
        _ => "the store cannot be used",
    };
    Error::file(path, format!("{what} ({error})"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattif_lab::metrics::RunMetrics;

    fn finished(hash: &str, slices: u64) -> Finished {
        let report =
            RunReport { metrics: RunMetrics { slices: Some(slices), ..RunMetrics::default() }, ..RunReport::default() };
        Finished::new(hash.into(), "d".into(), &report).unwrap()
    }

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[track_caller]
    fn refused(result: Result<Store, Error>, part: &str) {
        let why = result.map(|_| ()).expect_err("is refused").to_string();
        assert!(why.contains(part), "{why}");
    }

    #[test]
    fn keeps_once_and_gives_back() {
        let folder = folder();
        let path = folder.path().join("a.sqlite");
        let store = Store::open(&path).unwrap();
        store.insert(&finished("x", 5)).unwrap();
        store.insert(&finished("x", 6)).unwrap();
        let other = Store::open(&path).unwrap();
        other.insert(&finished("y", 7)).unwrap();
        assert_eq!((store.len().unwrap(), store.report("x").unwrap().metrics.slices), (2, Some(5)));
        let known = store.known(&["x".into(), "y".into(), "z".into()]).unwrap();
        assert_eq!(known.into_iter().collect::<Vec<_>>(), ["x", "y"]);
        assert!(store.report("z").unwrap_err().to_string().contains("no result of run z"));
    }

    #[test]
    fn many_may_make_it_at_once() {
        let folder = folder();
        for i in 0..20 {
            let path = folder.path().join(format!("{i}.sqlite"));
            let at_once = std::sync::Barrier::new(8);
            let open = |i: u64| {
                at_once.wait();
                Store::open(&path).and_then(|store| store.insert(&finished(&i.to_string(), i)))
            };
            std::thread::scope(|s| {
                let all: Vec<_> = (0..8).map(|i| s.spawn(move || open(i))).collect();
                all.into_iter().for_each(|one| one.join().unwrap().unwrap());
            });
            assert_eq!(Store::open(&path).unwrap().len().unwrap(), 8);
        }
    }

    #[test]
    fn another_model_has_other_results() {
        let folder = folder();
        let store = Store::open(&folder.path().join("a.sqlite")).unwrap();
        store.insert(&finished("x", 5)).unwrap();
        store.connection().execute("UPDATE run SET model = 'older'", []).unwrap();
        assert!(store.known(&["x".into()]).unwrap().is_empty() && store.is_empty().unwrap());
    }

    #[test]
    fn newer_foreign_and_damaged_files_are_named() {
        let folder = folder();
        let path = folder.path().join("a.sqlite");
        let store = Store::open(&path).unwrap();
        (0..300).for_each(|i| store.insert(&finished(&format!("{i:064}"), i)).unwrap());
        store.connection().pragma_update(None, "user_version", 9).unwrap();
        drop(store);
        refused(Store::open(&path), "written by a newer wattif (its tables have version 9");
        let text = folder.path().join("b.sqlite");
        std::fs::write(&text, "hello, this is no database at all".repeat(200)).unwrap();
        refused(Store::open(&text), "not an SQLite file");
        let foreign = folder.path().join("c.sqlite");
        Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
        refused(Store::open(&foreign), "of another program");
        refused(Store::open(&folder.path().join("no/such/folder.sqlite")), "cannot be opened or made");
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[60..64].copy_from_slice(&1u32.to_be_bytes()); // user_version as this wattif knows it
        bytes[4096..middle].fill(0xa5);
        std::fs::write(&path, bytes).unwrap();
        let damaged =
            Store::open(&path).and_then(|s| s.known(&(0..300).map(|i| format!("{i:064}")).collect::<Vec<_>>()));
        let why = damaged.expect_err("pages are overwritten").to_string();
        assert!(why.contains("the store is damaged"), "{why}");
    }

    #[test]
    fn a_full_disk_loses_nothing_that_was_kept() {
        let folder = folder();
        let store = Store::open(&folder.path().join("a.sqlite")).unwrap();
        store.insert(&finished("x", 5)).unwrap();
        store.connection().pragma_update(None, "max_page_count", 12).unwrap();
        let big = |i: u64| Finished { hash: format!("big{i}"), digest: "d".into(), report: vec![7; 9000] };
        let why = (0..20).find_map(|i| store.insert(&big(i)).err()).expect("it gets full").to_string();
        assert!(why.contains("the disk is full") && why.contains("same command again"), "{why}");
        assert_eq!(store.report("x").unwrap().metrics.slices, Some(5));
    }
}
