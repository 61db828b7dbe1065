//! The numbered lints of the rt-app reader, and the list a reading fills.

use super::json::Span;
use wattif_model::check::Diagnostic;

/// A numbered finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lint {
    /// Stable code.
    pub code: &'static str,
    /// What it is about.
    pub what: &'static str,
    /// What to do about it, where a finding says nothing more exact; empty: its message says it.
    pub next: &'static str,
}

const fn lint(code: &'static str, what: &'static str) -> Lint {
    Lint { code, what, next: "" }
}
const fn error(code: &'static str, what: &'static str, next: &'static str) -> Lint {
    Lint { code, what, next }
}

/// Every lint: errors refuse the file, warnings name what rt-app silently does, notes list what has no effect here.
pub const LINTS: &[Lint] = &[
    error("rtapp::E01", "not JSON", "the lenient reading accepts comments and trailing commas, the rest is JSON"),
    error(
        "rtapp::E02",
        "a limit of size, nesting or number is exceeded",
        "write what repeats as `loop` and threads that are alike as `instance`",
    ),
    error("rtapp::E03", "a mandatory key is missing", "add the key"),
    error("rtapp::E04", "wrong type for a known key", "rt-app refuses it too, and exits with 2"),
    error("rtapp::E05", "a number is negative, too large or out of range", "write a number in the range"),
    error(
        "rtapp::E06",
        "unknown scheduling policy",
        "one of SCHED_OTHER, SCHED_BATCH, SCHED_IDLE, SCHED_RR, SCHED_FIFO, SCHED_DEADLINE",
    ),
    error("rtapp::E07", "a phase has no events", "an event is a key that starts with run, sleep, timer, …"),
    error(
        "rtapp::E08",
        "fork of a task that does not exist",
        "add a task of that name; `instance: 0` makes it one that only forks start",
    ),
    error(
        "rtapp::E09",
        "a CPU that does not exist, or a malformed CPU list",
        "name CPUs the platform has, or choose another with -p",
    ),
    error("rtapp::E10", "too many threads", "lower `instance`, or split the workload into several runs"),
    error("rtapp::E11", "an endless loop that never consumes time", "give it a run, sleep or timer event"),
    error("rtapp::E12", "unknown word where one of a few is due", "write one of the words"),
    error(
        "rtapp::E13",
        "memrun parameters do not match those of the same `ref`",
        "type, size, stride and pattern must be the same in every memrun with this `ref`",
    ),
    error(
        "rtapp::E14",
        "scheduling attributes the kernel refuses",
        "rt-app leaves it to the kernel, which refuses it when the thread starts",
    ),
    error(
        "rtapp::E15",
        "an override names a path that does not exist",
        "the path of --set starts at the root of the file, such as workload.tasks.NAME.instance",
    ),
    error("rtapp::E16", "a key without a value", "write \"key\": value; only `suspend` may stand alone"),
    lint("rtapp::W01", "unknown key, close to a known one: rt-app ignores it silently"),
    lint("rtapp::W02", "repeated key collapses: first place, last value"),
    lint("rtapp::W03", "resume of a name that never suspends: wakes nobody"),
    lint("rtapp::W04", "event `runtime` in a task without phases is also read as the task's slice or budget"),
    lint("rtapp::W05", "thread name over 15 bytes: the kernel refuses it and the thread stays `rt-app`"),
    lint("rtapp::W06", "key without effect in this place"),
    lint("rtapp::W07", "loop 0"),
    lint("rtapp::W08", "key read as an event because it begins like one"),
    lint("rtapp::W09", "timer shared by several threads"),
    lint("rtapp::W10", "signal that nobody ever waits for"),
    lint("rtapp::W11", "wait that nobody ever ends"),
    lint("rtapp::W12", "mutex waited with or unlocked but never locked, or locked and never unlocked"),
    lint("rtapp::W13", "barrier that counts more parties than can arrive, or is named by a task that is forked"),
    lint("rtapp::W14", "long loop that never consumes time"),
    lint("rtapp::W15", "phase that is never reached"),
    lint(
        "rtapp::W16",
        "timer without period or made absolute elsewhere; unknown mode of a timer or `runtime`, or pattern of a `memrun`",
    ),
    lint("rtapp::W17", "duration 0 means no limit"),
    lint("rtapp::W18", "repeated task name: the later task is renamed"),
    lint("rtapp::W19", "task with instance 0 that nobody forks"),
    lint("rtapp::W20", "unknown ftrace category: rt-app refuses it"),
    lint("rtapp::W21", "positions of a `memrun` chase that are no power of two"),
    lint("rtapp::W22", "phase with another than a fair policy while the thread is in a taskgroup: rt-app refuses it"),
    lint("rtapp::W23", "time above 2147483647 µs: rt-app's integers end there"),
    lint("rtapp::W24", "text behind the end of the root object: rt-app never reads it"),
    lint("rtapp::N01", "accepted, without meaning in a simulation"),
    lint("rtapp::N02", "unknown key, ignored as rt-app does"),
    lint("rtapp::N03", "accepted here, refused by rt-app"),
    lint("rtapp::N04", "accepted here, ignored by rt-app"),
    lint("rtapp::N05", "more findings than are shown"),
];

/// Most diagnostics kept; a hostile file could cause one a key.
const MAX_DIAGNOSTICS: usize = 1000;

/// Collects diagnostics.
#[derive(Debug, Default)]
pub(super) struct Report {
    list: Vec<Diagnostic>,
    dropped: usize,
    errors: usize,
    lesser_kept: usize,
}

/// The diagnostic just added; lets the caller attach a help line.
pub(super) struct Added<'a>(Option<&'a mut Diagnostic>);

impl Added<'_> {
    pub fn help(self, text: impl Into<String>) {
        if let Some(d) = self.0 {
            d.help = Some(text.into());
        }
    }
}

impl Report {
    pub fn error(&mut self, code: &'static str, span: Span, message: impl Into<String>) -> Added<'_> {
        self.errors += 1;
        self.add(Diagnostic::error(code, span, message))
    }
    pub fn warning(&mut self, code: &'static str, span: Span, message: impl Into<String>) -> Added<'_> {
        self.add(Diagnostic::warning(code, span, message))
    }
    pub fn note(&mut self, code: &'static str, span: Span, message: impl Into<String>) -> Added<'_> {
        self.add(Diagnostic::note(code, span, message))
    }
    pub fn has_errors(&self) -> bool {
        self.errors > 0
    }
    /// Nothing more is shown, so help lines need no work: keeps a hostile file of a million slips cheap.
    pub fn is_full(&self) -> bool {
        self.list.len() >= MAX_DIAGNOSTICS
    }
    /// Count a finding that is neither an error nor shown.
    pub fn drop_one(&mut self) {
        self.dropped += 1;
    }
    /// Number of errors so far.
    pub fn errors(&self) -> usize {
        self.errors
    }

    /// Errors are never dropped in favour of notes: when full, the first lesser finding makes room.
    fn add(&mut self, diagnostic: Diagnostic) -> Added<'_> {
        debug_assert!(LINTS.iter().any(|l| l.code == diagnostic.code), "{} is not listed", diagnostic.code);
        if self.list.len() >= MAX_DIAGNOSTICS {
            self.dropped += 1;
            if !diagnostic.is_error() || self.lesser_kept == 0 {
                return Added(None);
            }
            let room = self.list.iter().position(|d| !d.is_error()).expect("lesser_kept counts them");
            self.list.swap_remove(room);
            self.lesser_kept -= 1;
        }
        self.lesser_kept += usize::from(!diagnostic.is_error());
        self.list.push(diagnostic);
        Added(self.list.last_mut())
    }

    /// All findings in the order of the text.
    pub fn into_diagnostics(mut self) -> Vec<Diagnostic> {
        for d in self.list.iter_mut().filter(|d| d.help.is_none()) {
            let next = LINTS.iter().find(|l| l.code == d.code).map_or("", |l| l.next);
            d.help = Some(next.to_string()).filter(|next| !next.is_empty());
        }
        self.list.sort_by_key(|d| (d.span.start, std::cmp::Reverse(d.severity)));
        // A value that is read as two things is wrong once.
        self.list.dedup();
        if self.dropped > 0 {
            let message = format!("{} more findings are not shown", self.dropped);
            self.list.push(match self.errors {
                0 => Diagnostic::note("rtapp::N05", 0..0, message),
                _ => Diagnostic::error("rtapp::E02", 0..0, message),
            });
        }
        self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_survive_a_flood_of_notes() {
        let mut report = Report::default();
        for i in 0..5000 {
            report.note("rtapp::N02", i..i, "x");
        }
        report.error("rtapp::E01", 9..9, "y");
        let list = report.into_diagnostics();
        assert_eq!(list.len(), MAX_DIAGNOSTICS + 1);
        assert!(list.iter().any(|d| d.message == "y"));
    }

    #[test]
    fn the_table_of_the_manual_is_complete() {
        let manual = include_str!("mod.rs");
        for lint in LINTS {
            let row = format!("//! | `{}` | {} |\n", lint.code.trim_start_matches("rtapp::"), lint.what);
            assert!(manual.contains(&row), "{row}");
        }
    }

    #[test]
    fn every_error_has_a_next_step() {
        for lint in LINTS {
            assert_eq!(lint.next.is_empty(), !lint.code.starts_with("rtapp::E"), "{}", lint.code);
        }
        let mut report = Report::default();
        report.error("rtapp::E11", 0..1, "x");
        report.error("rtapp::E11", 1..2, "x").help("exactly this");
        report.note("rtapp::N02", 2..3, "x");
        let list = report.into_diagnostics();
        let helps: Vec<_> = list.iter().map(|d| d.help.as_deref()).collect();
        assert_eq!(helps, [Some("give it a run, sleep or timer event"), Some("exactly this"), None]);
    }

    #[test]
    fn codes_are_unique() {
        let mut codes: Vec<_> = LINTS.iter().map(|l| l.code).collect();
        codes.dedup();
        assert_eq!(codes.len(), LINTS.len());
    }
}
