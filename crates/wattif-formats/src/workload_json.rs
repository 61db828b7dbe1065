//! Our own workload file: the program language as it is, in JSON. What a trace becomes when rt-app's grammar is too narrow.
//!
//! `{"schema": "wattif.workload/1", "workload": {…}}`, and what an rt-app file says besides, where it says it:
//! `"calibration_cpu": 4`, the CPU at whose full speed work counts (absent: the platform's), and `"logs": {…}`, those of
//! rt-app. Codes: `workload::E01` not JSON or not of this form · `E02` limit · `E03` a CPU that does not exist.

use crate::rtapp::Logs;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use wattif_model::check::Diagnostic;
use wattif_model::workload::{MAX_THREADS, Workload};

/// `schema` of a file.
pub const SCHEMA: &str = "wattif.workload/1";
/// Most bytes of a file.
pub const MAX_BYTES: usize = 512 << 20;

#[derive(Serialize, Deserialize)]
struct File<'a> {
    schema: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    calibration_cpu: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    logs: Option<Cow<'a, Logs>>,
    workload: Cow<'a, Workload>,
}

/// What a file holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// What runs.
    pub workload: Workload,
    /// The CPU at whose full speed work counts, where the file names one.
    pub calibration_cpu: Option<u32>,
    /// What it says of rt-app's logs.
    pub logs: Logs,
}

/// Is the text of this form?
pub fn is(text: &str) -> bool {
    text.get(..text.len().min(200)).unwrap_or_default().contains(SCHEMA)
}

/// A file of the workload; `calibration_cpu` and `logs` as in [`Read`].
pub fn write(workload: &Workload, calibration_cpu: Option<u32>, logs: &Logs) -> String {
    let logs = (*logs != Logs::default()).then_some(Cow::Borrowed(logs));
    let file = File { schema: SCHEMA.into(), calibration_cpu, logs, workload: Cow::Borrowed(workload) };
    let mut text = serde_json::to_string(&file).expect("workloads hold integers and strings");
    text.push('\n');
    text
}

/// Read a file for a machine of `nr_cpus`. What its programs name is checked when they are run.
pub fn parse(text: &str, nr_cpus: usize) -> Result<Read, Diagnostic> {
    if text.len() > MAX_BYTES {
        return Err(Diagnostic::error(
            "workload::E02",
            0..0,
            format!("{} bytes; {MAX_BYTES} is the limit", text.len()),
        ));
    }
    let file: File<'_> = serde_json::from_str(text).map_err(|e| {
        let line_start = text.split_inclusive('\n').take(e.line().saturating_sub(1)).map(str::len).sum::<usize>();
        let at = text.floor_char_boundary((line_start + e.column().saturating_sub(1)).min(text.len()));
        Diagnostic::error("workload::E01", at..at, format!("not a workload file: {e}"))
            .help("`wattif import workload TRACE` writes one")
    })?;
    if file.schema != SCHEMA {
        let message = format!("schema {}; {SCHEMA} is read", crate::words::quoted(&file.schema));
        return Err(Diagnostic::error("workload::E01", 0..0, message));
    }
    let threads: u64 = file.workload.tasks.iter().map(|t| u64::from(t.instances)).sum();
    if threads > MAX_THREADS {
        return Err(Diagnostic::error("workload::E02", 0..0, format!("{threads} threads; {MAX_THREADS} is the limit")));
    }
    if let Some(cpu) = file.calibration_cpu.filter(|cpu| *cpu as usize >= nr_cpus) {
        let message = format!("`calibration_cpu`: CPU {cpu} does not exist: the platform has {nr_cpus}");
        return Err(Diagnostic::error("workload::E03", 0..0, message));
    }
    let logs = file.logs.unwrap_or_default().into_owned();
    Ok(Read { workload: file.workload.into_owned(), calibration_cpu: file.calibration_cpu, logs })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let workload = Workload { name: "x".into(), ..Workload::default() };
        let plain = Read { workload: workload.clone(), calibration_cpu: None, logs: Logs::default() };
        let logs = Logs { basename: Some("b".into()), disabled: true, ns_per_loop: Some(100), ..Logs::default() };
        let full = Read { calibration_cpu: Some(4), logs, ..plain.clone() };
        for read in [&plain, &full] {
            let text = write(&workload, read.calibration_cpu, &read.logs);
            assert!(is(&text));
            assert_eq!(parse(&text, 8).unwrap(), *read);
            for n in 0..text.len() - 1 {
                assert!(parse(&text[..n], 8).is_err());
            }
        }
        let text = write(&workload, None, &Logs::default());
        assert!(!text.contains("calibration_cpu") && !text.contains("logs"), "as files were before: {text}");
        assert_eq!(parse(&write(&workload, Some(4), &Logs::default()), 4).unwrap_err().code, "workload::E03");
    }
}
