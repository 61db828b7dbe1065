//! Our own workload file: the program language as it is, in JSON. What a trace becomes when rt-app's grammar is too narrow.
//!
//! `{"schema": "wattif.workload/1", "workload": {…}}`. Codes: `workload::E01` not JSON or not of this form · `E02` limit.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use wattif_model::check::Diagnostic;
use wattif_model::workload::Workload;

/// `schema` of a file.
pub const SCHEMA: &str = "wattif.workload/1";
/// Most bytes of a file.
pub const MAX_BYTES: usize = 512 << 20;
/// Most threads of a workload at its start.
pub const MAX_THREADS: u64 = 65_536;

#[derive(Serialize, Deserialize)]
struct File<'a> {
    schema: Cow<'a, str>,
    workload: Cow<'a, Workload>,
}

/// Is the text of this form?
pub fn is(text: &str) -> bool {
    text.get(..text.len().min(200)).unwrap_or_default().contains(SCHEMA)
}

/// A file of the workload.
pub fn write(workload: &Workload) -> String {
    let file = File { schema: SCHEMA.into(), workload: Cow::Borrowed(workload) };
    let mut text = serde_json::to_string(&file).expect("workloads hold integers and strings");
    text.push('\n');
    text
}

/// Read a file. What its programs name is checked when they are run.
pub fn parse(text: &str) -> Result<Workload, Diagnostic> {
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
    Ok(file.workload.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let workload = Workload { name: "x".into(), ..Workload::default() };
        let text = write(&workload);
        assert!(is(&text));
        assert_eq!(parse(&text).unwrap(), workload);
        for n in 0..text.len() - 1 {
            assert!(parse(&text[..n]).is_err());
        }
    }
}
