//! When threads were on CPUs.
//!
//! Between two events a thread may have been preempted: how much of its work it had done at a time in between, and when it was done with a part of
//! it, is told by when it ran.

use std::collections::BTreeMap;
use wattif_model::Pid;
use wattif_model::platform::Platform;
use wattif_model::trace::{Event, Recording};

/// When a thread was on a CPU: from when until when, and what it could do there, and before.
#[derive(Default)]
pub(super) struct Ran(Vec<Span>);

pub(super) static NEVER: Ran = Ran(Vec::new());

#[derive(Clone, Copy)]
struct Span {
    from: u64,
    until: u64,
    work: u64,
    before: u64,
}

impl Span {
    fn after(&self) -> u64 {
        self.before.saturating_add(self.work)
    }
}

impl Ran {
    pub(super) fn add(&mut self, from: u64, until: u64, work: u64) {
        let before = self.0.last().map_or(0, |s| s.after());
        self.0.push(Span { from, until: until.max(from), work, before });
    }
    /// What it could do until a time.
    pub(super) fn work(&self, at: u64) -> u64 {
        let Some(last) = self.0.partition_point(|s| s.from <= at).checked_sub(1).map(|i| self.0[i]) else { return 0 };
        let part = at.min(last.until).saturating_sub(last.from);
        let all = (last.until - last.from).max(1);
        last.before.saturating_add((u128::from(last.work) * u128::from(part) / u128::from(all)) as u64)
    }
    /// When it could have done so much.
    fn when(&self, work: u64) -> Option<u64> {
        let s = self.0.get(self.0.partition_point(|s| s.after() < work))?;
        let part = u128::from(work.saturating_sub(s.before)) * u128::from(s.until - s.from);
        Some(s.from + (part / u128::from(s.work.max(1))) as u64)
    }
    /// Between two times, when a part of its work was done: so many of `n` equal ones.
    pub(super) fn when_done(&self, (from, until): (u64, u64), n: u64) -> impl Fn(u64) -> u64 {
        let first = self.work(from);
        let all = u128::from(self.work(until).saturating_sub(first));
        let done = move |i: u64| first + (all * u128::from(i.min(n)) / u128::from(n.max(1))) as u64;
        move |i| self.when(done(i)).map_or(until, |at| at.clamp(from, until))
    }
    /// When its work began, and when each of `n` equal parts of it was done.
    pub(super) fn parts(&self, span: (u64, u64), n: u64) -> impl Iterator<Item = u64> {
        (0..=n).map(self.when_done(span, n))
    }
}

/// When each thread ran, and what it could do then at full speed.
pub(super) fn ran(recording: &Recording, platform: &Platform) -> BTreeMap<Pid, Ran> {
    let mut all: BTreeMap<Pid, Ran> = BTreeMap::new();
    let mut since = vec![0; platform.nr_cpus()];
    for r in &recording.records {
        if let (Some(&Event::SchedSwitch { prev_pid, .. }), Some(since)) = (r.event(), since.get_mut(r.cpu.at())) {
            let ns = r.at.0.saturating_sub(*since).saturating_sub(platform.costs.context_switch_ns);
            let work = ns.saturating_mul(platform.cpus[r.cpu.at()].capacity.into());
            all.entry(prev_pid).or_default().add(*since, r.at.0, work);
            *since = r.at.0;
        }
    }
    all
}
