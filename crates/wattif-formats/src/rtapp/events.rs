//! Events: one key of a phase becomes one or more ops.

use super::json::{Json, Member, Span};
use super::keys::{self, Event};
use super::lints::Report;
use super::tasks::{Context, Task};
use super::values::{self, MAX_US};
use super::{Dialect, memory};
use crate::words::{nearest, quoted};
use wattif_model::run::MAX_OPS_WITHOUT_TIME;
use wattif_model::workload::{Amount, Op};

/// Work rt-app does between two looks at the clock in `runtime`, ns.
const SPIN_CHUNK_NS: u64 = 32_000;
/// Most bytes or accesses of one memory event.
const MAX_AMOUNT: i64 = 1 << 50;

/// Does a list of events let time pass?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Passes {
    /// Never.
    #[default]
    Never,
    /// Perhaps: it may block.
    Maybe,
    /// Certainly.
    Time,
}

/// The events of one phase.
#[derive(Debug, Default)]
pub(super) struct Events {
    pub ops: Vec<Op>,
    /// By op: rt-app's number of the event it stands for; 0 where another op of the event has it.
    pub kinds: Vec<u8>,
    pub passes: Passes,
    pub count: usize,
}

impl Event {
    /// rt-app's number of it, as it counts in 2026.
    fn number(self, m: &Member) -> u8 {
        let text = |key: &str| match &m.value.value {
            Json::Object(inner) => match &values::find(inner, key)?.value.value {
                Json::Text(text) => Some(text.as_str()),
                _ => None,
            },
            _ => None,
        };
        match self {
            Event::Wait => 2,
            Event::Signal => 3,
            Event::Broad => 4,
            Event::Sleep => 5,
            Event::Run => 6,
            Event::Sync => 7,
            Event::Lock => 8,
            Event::Unlock => 9,
            Event::Timer if text("ref").is_some_and(|name| name.starts_with("unique")) => 11,
            Event::Timer => 10,
            Event::Suspend => 12,
            Event::Resume => 13,
            Event::Mem => 14,
            Event::Memrun => match text("type") {
                Some("write") => 15,
                Some("read") => 16,
                _ => 17,
            },
            Event::Iorun => 18,
            Event::Runtime => 19,
            Event::Yield => 20,
            Event::Barrier => 21,
            Event::Fork => 22,
            Event::SemWait => 23,
            Event::SemPost => 24,
        }
    }
}

impl Context<'_> {
    /// Read the events among `members`, in file order.
    pub(super) fn events(&mut self, task: &Task<'_>, members: &[Member]) -> Events {
        let mut events = Events::default();
        for m in members {
            let Some((name, event)) = keys::event(&m.name) else { continue };
            self.unlucky(m, name);
            events.count += 1;
            let found = self.event(task, event, m, &mut events.ops);
            // A refused event is not also blamed for a loop without time.
            events.passes = events.passes.max(found.as_ref().map_or(Passes::Time, |(_, passes)| *passes));
            let number = found.is_some().then(|| event.number(m));
            events.ops.extend(found.map(|(op, _)| op));
            events.kinds.extend(number);
            events.kinds.resize(events.ops.len(), 0);
        }
        if events.count == 0 {
            events.passes = Passes::Time;
        }
        events
    }

    /// `runner` and `runs` are `run` to rt-app; a suffix that is meant has a digit, a `_` or a capital letter.
    fn unlucky(&mut self, m: &Member, name: &str) {
        let suffix = &m.name[name.len()..];
        if suffix.starts_with(|c: char| c.is_alphabetic() && !c.is_uppercase()) {
            let message =
                format!("{} is read as an event `{name}`: rt-app compares the beginning only", quoted(&m.name));
            let near = nearest(&m.name, keys::EVENTS.iter().map(|(name, _)| *name)).filter(|near| *near != name);
            let help = match near {
                Some(near) => format!("did you mean `{near}`? if it is a `{name}`, write `{name}_{suffix}`"),
                None => format!("if it is a `{name}`, write `{name}_{suffix}`; if not, call it something else"),
            };
            self.report.warning("rtapp::W08", m.name_span.clone(), message).help(help);
        }
    }

    fn event(&mut self, task: &Task<'_>, event: Event, m: &Member, ops: &mut Vec<Op>) -> Option<(Op, Passes)> {
        let spent = |ns: u64| if ns > 0 { Passes::Time } else { Passes::Never };
        Some(match event {
            Event::Run => {
                let us = values::us(m, &mut self.report)?;
                (Op::Run(Amount::Fixed(us * 1000)), spent(us))
            }
            Event::Runtime => {
                let us = self.runtime(m)?;
                // At least one piece of work is done before the clock is read.
                (Op::Spin { wall: Amount::Fixed(us * 1000), chunk: SPIN_CHUNK_NS }, Passes::Time)
            }
            Event::Sleep => {
                let us = values::us(m, &mut self.report)?;
                (Op::Sleep(Amount::Fixed(us * 1000)), spent(us).max(Passes::Maybe))
            }
            Event::Timer => {
                let (op, period) = self.timer(task, m)?;
                (op, spent(period))
            }
            Event::Mem | Event::Iorun | Event::Memrun => {
                let ns = self.memory(event, m)?;
                (Op::RunInsensitive(Amount::Fixed(ns)), spent(ns))
            }
            Event::Wait | Event::Sync => {
                let (signal, wait) = self.wait(event == Event::Sync, m)?;
                ops.extend(signal);
                (wait, Passes::Maybe)
            }
            Event::Yield => (Op::Yield, Passes::Never),
            Event::Suspend => (self.suspend(task, m), Passes::Maybe),
            _ => {
                let name = values::text(m, &mut self.report)?;
                let blocks = matches!(event, Event::SemWait | Event::Barrier);
                let op = self.named(task, event, name, &m.value.span)?;
                (op, if blocks { Passes::Maybe } else { Passes::Never })
            }
        })
    }

    /// Events whose value is the name of something.
    fn named(&mut self, task: &Task<'_>, event: Event, name: &str, span: &Span) -> Option<Op> {
        let resources = &mut self.resources;
        Some(match event {
            Event::Lock => {
                self.locks.locked.entry(name.into()).or_insert_with(|| span.clone());
                Op::Lock(resources.mutexes.intern(name).0)
            }
            Event::Unlock => {
                self.locks.unlocked.entry(name.into()).or_insert_with(|| span.clone());
                Op::Unlock(resources.mutexes.intern(name).0)
            }
            Event::Signal => Op::Signal(resources.wake(name, span, false)),
            Event::Broad => Op::Broadcast(resources.wake(name, span, false)),
            Event::Resume => Op::Broadcast(resources.wake(name, span, true)),
            Event::SemPost => {
                let (at, uses) = resources.semaphores.intern(name);
                uses.wakes.get_or_insert_with(|| span.clone());
                Op::SemPost(at)
            }
            Event::SemWait => {
                let (at, uses) = resources.semaphores.intern(name);
                uses.waits.get_or_insert_with(|| span.clone());
                Op::SemWait(at)
            }
            Event::Barrier => {
                let (at, parties) = resources.barriers.intern(name);
                parties.counted += task.instances as u64;
                parties.users.insert(task.index, task.instances as u64);
                parties.span = span.clone();
                Op::Barrier(at)
            }
            Event::Fork => return self.fork(name, span),
            _ => unreachable!("{event:?} has no name as its value"),
        })
    }

    fn fork(&mut self, name: &str, span: &Span) -> Option<Op> {
        if let Some(&target) = self.task_index.get(name) {
            self.forked.insert(target);
            return Some(Op::Fork(target));
        }
        const SEARCHED: usize = 1000;
        let names = self.task_index.keys().map(String::as_str).take(SEARCHED);
        let near = if self.report.is_full() { None } else { nearest(name, names) };
        let help = near.map(|n| format!("did you mean {}?", quoted(n)));
        let added = self.report.error("rtapp::E08", span.clone(), format!("fork of {}: no such task", quoted(name)));
        if let Some(help) = help {
            added.help(help);
        }
        None
    }

    /// `runtime` is a number; a sibling implementation writes `{"duration": N, "mode": …}`.
    fn runtime(&mut self, m: &Member) -> Option<u64> {
        let Json::Object(inner) = &m.value.value else { return values::us(m, &mut self.report) };
        if self.options.dialect == Dialect::RtApp {
            let message = format!("{} must be an integer, not an object", quoted(&m.name));
            self.report.error("rtapp::E04", m.value.span.clone(), message);
            return None;
        }
        self.report.note(
            "rtapp::N03",
            m.value.span.clone(),
            "a `runtime` with duration and mode: rt-app takes an integer",
        );
        for key in inner.iter().filter(|k| !["duration", "mode"].contains(&k.name.as_str())) {
            keys::unknown(key, &[&["duration", "mode"]], false, &mut self.report);
        }
        self.busy_mode(inner);
        let duration = self.mandatory(inner, "duration", m)?;
        values::us(duration, &mut self.report)
    }

    /// Both modes keep the CPU busy for the time; it is simulated in pieces of work, as rt-app's own `runtime` is.
    fn busy_mode(&mut self, inner: &[Member]) {
        let Some(mode) = values::find(inner, "mode") else { return };
        let at = mode.value.span.clone();
        match values::text(mode, &mut self.report) {
            None | Some("loadwait") => {}
            Some("clockonly") => {
                let message = "`clockonly` has no meaning in a simulation: taken as `loadwait`";
                self.report.note("rtapp::N01", at, message);
            }
            Some(other) => {
                let message = format!("unknown runtime mode {}: taken as `loadwait`", quoted(other));
                self.report.warning("rtapp::W16", at, message).help("`loadwait` or `clockonly`");
            }
        }
    }

    fn mandatory<'m>(&mut self, inner: &'m [Member], name: &str, owner: &Member) -> Option<&'m Member> {
        let found = values::find(inner, name);
        if found.is_none() {
            let message = format!("{} needs the key `{name}`", quoted(&owner.name));
            self.report.error("rtapp::E03", owner.value.span.clone(), message);
        }
        found
    }

    /// A string member of an event's object, with rt-app's default `unknown`.
    fn reference(&mut self, inner: &[Member], name: &str) -> String {
        let value = values::find(inner, name).and_then(|m| values::text(m, &mut self.report));
        value.unwrap_or("unknown").to_string()
    }

    fn timer(&mut self, task: &Task<'_>, m: &Member) -> Option<(Op, u64)> {
        let inner = self.inner(m, &["ref", "period", "mode"])?;
        let name = self.reference(inner, "ref");
        // Before the period, of which a mistake ends it.
        let absolute = self.absolute(inner);
        let period = match values::find(inner, "period") {
            Some(p) => values::us(p, &mut self.report)?,
            None => 0,
        };
        if period == 0 {
            self.report.warning("rtapp::W16", m.name_span.clone(), "a timer without period never sleeps");
        }
        let (timer, uses) = self.resources.timers.intern(&name);
        uses.shared = !name.starts_with("unique");
        uses.users.insert(task.index, task.instances as u64);
        uses.span = m.name_span.clone();
        if absolute {
            uses.absolute.insert(task.index);
        }
        // Whether it is absolute is known when the whole file was read.
        Some((Op::Timer { timer, period: Amount::Fixed(period * 1000), absolute }, period))
    }

    fn absolute(&mut self, inner: &[Member]) -> bool {
        let Some(mode) = values::find(inner, "mode") else { return false };
        let name = values::text(mode, &mut self.report).unwrap_or("relative");
        if !["relative", "absolute"].contains(&name) {
            let message = format!("unknown timer mode {}: taken as `relative`", quoted(name));
            self.report.warning("rtapp::W16", mode.value.span.clone(), message).help("`relative` or `absolute`");
        }
        name == "absolute"
    }

    fn wait(&mut self, sync: bool, m: &Member) -> Option<(Option<Op>, Op)> {
        let inner = self.inner(m, &["ref", "mutex"])?;
        let (name, mutex) = (self.reference(inner, "ref"), self.reference(inner, "mutex"));
        self.locks.waited.entry(mutex.clone()).or_insert_with(|| m.name_span.clone());
        let mutex = self.resources.mutexes.intern(&mutex).0;
        let cond = self.resources.wait(&name, &m.name_span);
        let signal = sync.then(|| Op::Signal(self.resources.wake(&name, &m.name_span, false)));
        Some((signal, Op::Wait { cond, mutex: Some(mutex) }))
    }

    /// Waits on the name of the task; before 2025 on the name given as the value.
    fn suspend(&mut self, task: &Task<'_>, m: &Member) -> Op {
        let name = match &m.value.value {
            Json::Text(name) if self.options.dialect == Dialect::LegacySuspend && !name.is_empty() => name,
            _ => task.name,
        };
        Op::Wait { cond: self.resources.wait(name, &m.name_span), mutex: None }
    }

    /// The object of an event, its keys checked.
    fn inner<'m>(&mut self, m: &'m Member, known: &[&str]) -> Option<&'m [Member]> {
        let Json::Object(inner) = &m.value.value else {
            values::object(&m.name, &m.value, &mut self.report);
            return None;
        };
        for key in inner.iter().filter(|k| !known.contains(&k.name.as_str())) {
            keys::unknown(key, &[known], false, &mut self.report);
        }
        Some(inner)
    }

    /// Frequency-insensitive work of `mem`, `iorun` and `memrun`, ns.
    fn memory(&mut self, event: Event, m: &Member) -> Option<u64> {
        if event == Event::Memrun {
            return self.memrun(m);
        }
        let bytes = values::int(m, 0..=MAX_AMOUNT, &mut self.report)? as u64;
        Some(match event {
            Event::Mem => memory::memset_ns(bytes),
            _ => memory::write_ns(bytes, self.global.mem_buffer_size, self.global.null_device),
        })
    }

    fn memrun(&mut self, m: &Member) -> Option<u64> {
        let inner = self.inner(m, &["type", "size", "count", "stride", "pattern", "ref"])?;
        let kind = self.mandatory(inner, "type", m).and_then(|k| values::text(k, &mut self.report));
        let size = self.mandatory(inner, "size", m).and_then(|k| values::int(k, 1..=MAX_AMOUNT, &mut self.report));
        let count = self.mandatory(inner, "count", m).and_then(|k| values::int(k, 0..=MAX_US, &mut self.report));
        let stride = match values::find(inner, "stride") {
            Some(k) => values::int(k, 1..=MAX_AMOUNT, &mut self.report)? as u64,
            None => 64,
        };
        let sequential = self.sequential(inner);
        let (kind, size, count) = (kind?, size? as u64, count? as u64);
        self.shared_buffer(inner, format!("{kind} {size} {stride} {sequential}"));
        match kind {
            "read" | "write" => {
                self.lint_walk(inner, kind, size);
                Some(memory::walk_ns(count))
            }
            "chase" => {
                self.lint_chase(m, size, stride);
                Some(memory::chase_ns(size, stride, count, sequential))
            }
            other => {
                let message = format!("unknown memrun type {}", quoted(other));
                self.report.error("rtapp::E12", m.value.span.clone(), message).help("`read`, `write` or `chase`");
                None
            }
        }
    }

    /// Any other word is `random` to rt-app.
    fn sequential(&mut self, inner: &[Member]) -> bool {
        let Some(pattern) = values::find(inner, "pattern") else { return false };
        let word = values::text(pattern, &mut self.report).unwrap_or("random");
        if !["random", "sequential"].contains(&word) {
            let message = format!("unknown memrun pattern {}: taken as `random`", quoted(word));
            self.report.warning("rtapp::W16", pattern.value.span.clone(), message).help("`random` or `sequential`");
        }
        word == "sequential"
    }

    /// A walk goes byte by byte, whatever is said of steps.
    fn lint_walk(&mut self, inner: &[Member], kind: &str, size: u64) {
        for key in ["stride", "pattern"].into_iter().filter_map(|name| values::find(inner, name)) {
            let message = format!("`{}` has no effect on a memrun of type {kind}: it goes byte by byte", key.name);
            self.report.warning("rtapp::W06", key.name_span.clone(), message);
        }
        if let Some(key) = values::find(inner, "size").filter(|_| size > memory::CHASE_NS_BY_FOOTPRINT[0].0) {
            let message =
                format!("the size of a memrun of type {kind}: prefetched, it takes as long in caches as in memory");
            self.report.note("rtapp::N01", key.name_span.clone(), message);
        }
    }

    fn lint_chase(&mut self, m: &Member, size: u64, stride: u64) {
        let (fit, used) = (size / stride, memory::chase_positions(size, stride));
        if fit != used {
            let message =
                format!("{fit} positions of {stride} bytes fit into {size}, and rt-app chases through {used}");
            let help = "their number is a power of two, and 2 at least; a size of that many strides says so";
            self.report.warning("rtapp::W21", m.value.span.clone(), message).help(help);
        }
    }

    /// A buffer shared by `ref` must be described the same everywhere.
    fn shared_buffer(&mut self, inner: &[Member], parameters: String) {
        let Some(m) = values::find(inner, "ref") else { return };
        let Some(name) = values::text(m, &mut self.report) else { return };
        let first = self.buffers.entry(name.into()).or_insert_with(|| parameters.clone());
        if *first != parameters {
            let message = format!("the memory {} was described differently before", quoted(name));
            self.report.error("rtapp::E13", m.value.span.clone(), message);
        }
    }
}

/// Iterations without time that are worth a warning.
pub(super) const LONG: u64 = 10_000;

/// Warn of an event list that spins for a long time without anything happening.
pub(super) fn lint_loop(events: Passes, count: Option<u64>, span: &Span, report: &mut Report) {
    match count {
        _ if events != Passes::Never => {}
        None => {
            report.error("rtapp::E11", span.clone(), "this loop never ends and none of its events lets time pass");
        }
        Some(n) if n > LONG => {
            let message = format!("{n} iterations in which no event lets time pass");
            let help = format!(
                "a thread may go through {MAX_OPS_WITHOUT_TIME} events in a row that take no time, and a run with more ends \
                 there: give the loop a run, sleep or timer event"
            );
            report.warning("rtapp::W14", span.clone(), message).help(help);
        }
        _ => {}
    }
}
