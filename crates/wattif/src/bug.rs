//! A panic is a bug of ours: it says what is needed to reproduce it.

use std::panic::{self, AssertUnwindSafe};
use std::sync::{Mutex, PoisonError};

/// What a panicking run was.
static LAST: Mutex<Bug> = Mutex::new(Bug { message: String::new(), run: None, stdin: false });

struct Bug {
    message: String,
    run: Option<String>,
    /// Standard input was read.
    stdin: bool,
}

fn last() -> std::sync::MutexGuard<'static, Bug> {
    LAST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Remember which run panicked: its seed, hash, kernel, time and digest.
pub fn remember(run: String) {
    last().run.get_or_insert(run);
}

/// Remember that standard input is part of what was run: the command alone does not repeat it.
pub fn reads_stdin() {
    last().stdin = true;
}

/// Run `work`; a panic in it becomes a text with everything needed to reproduce it.
pub fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    panic::set_hook(Box::new(|info| {
        let mut bug = last();
        if bug.message.is_empty() {
            bug.message = info.to_string();
        }
    }));
    panic::catch_unwind(AssertUnwindSafe(work)).map_err(|_| report(&last()))
}

fn report(bug: &Bug) -> String {
    let command = words().iter().map(|w| quote(w)).collect::<Vec<_>>().join(" ");
    let run = bug.run.as_deref().unwrap_or("  no run was in progress");
    let stdin = if bug.stdin { " < FILE, which holds the same standard input" } else { "" };
    format!(
        "bug in wattif {}: {}\n{run}\n  command: {command}{stdin}\nPlease report this with the lines above; the run is deterministic.\n",
        env!("CARGO_PKG_VERSION"),
        bug.message,
    )
}

/// The words of the command line; of a name in no encoding that we know, what can be read.
pub fn words() -> Vec<String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// A word as a shell reads it.
pub fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_repeats_a_run() {
        let told = |stdin| report(&Bug { message: "gone".into(), run: Some("  seed 7".into()), stdin });
        let command = |text: &str| text.lines().find(|l| l.starts_with("  command: ")).unwrap().to_string();
        assert!(told(false).contains("gone\n  seed 7\n"));
        assert_eq!(command(&told(true)), command(&told(false)) + " < FILE, which holds the same standard input");
    }

    #[test]
    fn quoting() {
        assert_eq!(["a.b=1", "it's", ""].map(quote), ["a.b=1", "'it'\\''s'", "''"]);
    }
}
