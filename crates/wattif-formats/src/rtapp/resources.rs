//! Named resources, created on demand, and who uses them: what a file says about a name in one place can make another
//! place lose its effect.

use super::Dialect;
use super::json::Span;
use super::lints::Report;
use crate::words::quoted;
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::workload::{BarrierSpec, Named, SemaphoreSpec, TimerSpec, Workload};

/// A table of names in order of first use.
#[derive(Debug, Default)]
pub(super) struct Names<T> {
    index: BTreeMap<String, u32>,
    entries: Vec<(String, T)>,
}

impl<T: Default> Names<T> {
    /// Index and entry of `name`.
    pub fn intern(&mut self, name: &str) -> (u32, &mut T) {
        let next = self.entries.len() as u32;
        let at = *self.index.entry(name.to_string()).or_insert(next);
        if at == next {
            self.entries.push((name.to_string(), T::default()));
        }
        (at, &mut self.entries[at as usize].1)
    }
    fn iter(&self) -> impl Iterator<Item = &(String, T)> {
        self.entries.iter()
    }
    pub fn names(&self) -> Vec<Named> {
        self.entries.iter().map(|(name, _)| Named { name: name.clone() }).collect()
    }
}

/// First places where a condition or semaphore is waited for and woken.
#[derive(Debug, Default)]
pub(super) struct Wakes {
    pub waits: Option<Span>,
    pub wakes: Option<Span>,
    /// The first waker is `resume` (or the first waiter `suspend`), which lints of their own cover.
    pub by_resume: bool,
}

/// Who names a barrier.
#[derive(Debug, Default)]
pub(super) struct Parties {
    /// Sum of `instance` over the textual uses: what rt-app waits for.
    pub counted: u64,
    /// Threads of the tasks that name it: all that can ever arrive.
    pub users: BTreeMap<u32, u64>,
    pub span: Span,
}

/// Who names a timer.
#[derive(Debug, Default)]
pub(super) struct TimerUse {
    pub shared: bool,
    pub users: BTreeMap<u32, u64>,
    pub span: Span,
    /// Tasks (or, for a shared timer, any) that made it absolute.
    pub absolute: BTreeSet<u32>,
}

/// All resources of a file.
#[derive(Debug, Default)]
pub(super) struct Resources {
    pub mutexes: Names<()>,
    pub conds: Names<Wakes>,
    pub semaphores: Names<Wakes>,
    pub barriers: Names<Parties>,
    pub timers: Names<TimerUse>,
}

impl Resources {
    pub fn wait(&mut self, cond: &str, span: &Span) -> u32 {
        let (at, uses) = self.conds.intern(cond);
        uses.waits.get_or_insert_with(|| span.clone());
        at
    }
    pub fn wake(&mut self, cond: &str, span: &Span, by_resume: bool) -> u32 {
        let (at, uses) = self.conds.intern(cond);
        if uses.wakes.is_none() {
            uses.by_resume = by_resume;
        }
        uses.wakes.get_or_insert_with(|| span.clone());
        at
    }

    /// Does a timer of this task (or the shared one) catch up missed expiries?
    pub fn is_absolute(&self, timer: u32, task: u32) -> bool {
        let (_, uses) = &self.timers.entries[timer as usize];
        if uses.shared { !uses.absolute.is_empty() } else { uses.absolute.contains(&task) }
    }

    /// Where the timer was named last.
    pub fn timer_span(&self, timer: u32) -> Span {
        self.timers.entries[timer as usize].1.span.clone()
    }

    /// The tables of the workload.
    pub fn fill(&self, workload: &mut Workload) {
        workload.mutexes = self.mutexes.names();
        workload.conds = self.conds.names();
        let semaphore = |(name, _): &(String, Wakes)| SemaphoreSpec::new(name.clone(), 0);
        workload.semaphores = self.semaphores.iter().map(semaphore).collect();
        let parties = |p: &Parties| p.counted.clamp(1, u32::MAX as u64) as u32;
        workload.barriers =
            self.barriers.iter().map(|(name, p)| BarrierSpec { name: name.clone(), parties: parties(p) }).collect();
        let timer = |(name, t): &(String, TimerUse)| TimerSpec { name: name.clone(), shared: t.shared };
        workload.timers = self.timers.iter().map(timer).collect();
    }

    /// What only the whole file shows.
    pub fn lint(&self, forked: &BTreeSet<u32>, dialect: Dialect, report: &mut Report) {
        for (name, uses) in self.conds.iter() {
            lint_cond(name, uses, dialect, report);
        }
        for (name, uses) in self.semaphores.iter() {
            if let (Some(span), None) = (&uses.waits, &uses.wakes) {
                let message = format!("nobody posts the semaphore {}: the thread waits for ever", quoted(name));
                report.warning("rtapp::W11", span.clone(), message);
            }
        }
        for (name, parties) in self.barriers.iter() {
            lint_barrier(name, parties, forked, report);
        }
        for (name, uses) in self.timers.iter() {
            let threads: u64 = uses.users.values().sum();
            if uses.shared && threads > 1 {
                let message =
                    format!("{threads} threads share the timer {}: each use moves its expiry on", quoted(name));
                report
                    .warning("rtapp::W09", uses.span.clone(), message)
                    .help("a `ref` that starts with \"unique\" gives each thread its own timer");
            }
        }
    }
}

fn lint_cond(name: &str, uses: &Wakes, dialect: Dialect, report: &mut Report) {
    match (&uses.waits, &uses.wakes) {
        (Some(span), None) => {
            let message = format!("nobody signals {}: the thread waits for ever", quoted(name));
            report.warning("rtapp::W11", span.clone(), message);
        }
        (None, Some(span)) if uses.by_resume => {
            let (who, help) = match dialect {
                Dialect::LegacySuspend => {
                    ("nobody suspends on that name", "`suspend` waits on its value: name the two alike")
                }
                _ => (
                    "no task of that name suspends",
                    "since 2025 `suspend` waits on the name of its own task; \
                     the legacy-suspend dialect takes the value as the name, as before",
                ),
            };
            let message = format!("resume of {} wakes nobody: {who}", quoted(name));
            report.warning("rtapp::W03", span.clone(), message).help(help);
        }
        (None, Some(span)) => {
            let message = format!("nobody waits for {}: the signal is always lost", quoted(name));
            report.warning("rtapp::W10", span.clone(), message);
        }
        _ => {}
    }
}

fn lint_barrier(name: &str, parties: &Parties, forked: &BTreeSet<u32>, report: &mut Report) {
    let (name, counted, arriving) = (quoted(name), parties.counted, parties.users.values().sum::<u64>());
    let (message, help) = if arriving == 0 {
        (
            format!("barrier {name} counts no thread, so it holds nobody up"),
            "it counts `instance` of the tasks that name it: threads made by fork are not counted",
        )
    } else if counted > arriving {
        (
            format!(
                "barrier {name} waits for {counted} threads (each place that names it counts), but {arriving} can arrive"
            ),
            "name a barrier once in a task; threads made by fork are not counted",
        )
    } else if parties.users.keys().any(|task| forked.contains(task)) {
        (
            format!(
                "barrier {name} waits for {counted} threads, and those made by fork, which it does not count, arrive as well"
            ),
            "a barrier is for threads of the start: let tasks that are forked wait for a semaphore (`sem_wait`)",
        )
    } else {
        return;
    };
    report.warning("rtapp::W13", parties.span.clone(), message).help(help);
}
