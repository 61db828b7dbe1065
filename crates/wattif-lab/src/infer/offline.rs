//! CPUs that go offline while a trace is recorded.
//!
//! `cpuhp/N` takes CPU N down: it runs there for the last time, the stopper moves away what is left, and the CPU shows nothing more, until
//! `cpuhp/N` runs there again and has brought it up. Such a CPU is not idle. Whoever waits for another one meanwhile is not bound to that.

use std::collections::HashMap;
use wattif_model::trace::{Event, Recording};
use wattif_model::{CpuId, Ns, Pid};

/// A CPU that shows nothing for so long, beside its own hotplug thread, was offline. An idle one may show as little.
const SILENT_NS: u64 = 50_000_000;
/// So near to the silence the hotplug thread runs: it waits for RCU in between.
const BESIDE_NS: u64 = 200_000_000;

/// A CPU that was offline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offline {
    pub cpu: CpuId,
    pub from: Ns,
    /// The end of the trace, if it stays so.
    pub until: Ns,
}

/// Did a CPU take no thread then?
pub(super) fn is_offline(all: &[Offline], cpu: CpuId, at: u64) -> bool {
    all.iter().any(|o| o.cpu == cpu && (o.from.0..o.until.0).contains(&at))
}

/// All of them, by CPU.
pub(super) fn offline(recording: &Recording) -> Vec<Offline> {
    let of_hotplug = |pid: &Pid| Some(CpuId(recording.comm(*pid).strip_prefix("cpuhp/")?.parse().ok()?));
    let pids = recording.threads.keys().map(|pid| Pid(*pid));
    let hotplug: HashMap<Pid, CpuId> = pids.filter_map(|pid| Some((pid, of_hotplug(&pid)?))).collect();
    if hotplug.is_empty() {
        return Vec::new();
    }
    let mut last: HashMap<CpuId, Ns> = HashMap::new();
    let mut ran: HashMap<CpuId, Vec<Ns>> = HashMap::new();
    let mut silent = Vec::new();
    for r in &recording.records {
        let from = last.insert(r.cpu, r.at).unwrap_or_default();
        if r.at.since(from) > SILENT_NS {
            silent.push(Offline { cpu: r.cpu, from, until: r.at });
        }
        if let Some(Event::SchedSwitch { prev_pid, next_pid, .. }) = r.event()
            && [prev_pid, next_pid].into_iter().any(|pid| hotplug.get(pid) == Some(&r.cpu))
        {
            ran.entry(r.cpu).or_default().push(r.at);
        }
    }
    let to_the_end = last.into_iter().map(|(cpu, from)| Offline { cpu, from, until: recording.end });
    silent.extend(to_the_end.filter(|o| o.until.since(o.from) > SILENT_NS));
    let beside = |o: &Offline| {
        let near = |at: &Ns| o.from.0.abs_diff(at.0).min(o.until.0.abs_diff(at.0)) <= BESIDE_NS;
        ran.get(&o.cpu).is_some_and(|times| times.iter().any(near))
    };
    silent.retain(beside);
    silent.sort_by_key(|o| (o.cpu, o.from));
    silent
}

/// What there is to say of them: the simulated machine has all its CPUs all the time.
pub(super) fn notes(offline: &[Offline], end: Ns) -> Vec<String> {
    let seconds = |at: Ns| at.0 as f64 / 1e9;
    let note = |o: &Offline| {
        let until = if o.until < end { format!("{:.2} s", seconds(o.until)) } else { "the end".to_string() };
        format!(
            "cpu{} was offline from {:.2} s to {until}: the simulated machine has it throughout",
            o.cpu.0,
            seconds(o.from)
        )
    };
    offline.iter().map(note).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::metrics::testbed::switch;
    use super::*;
    use wattif_model::trace::{PrevState, Record, Recorded, RecordedThread};

    const MS: u64 = 1_000_000;

    /// CPU 3, whose threads 33 and 7 run at the given milliseconds.
    fn of(runs: &[(u64, u32)]) -> Vec<Offline> {
        let record = |at, event| Record { at: Ns(at), cpu: CpuId(3), current: None, event: Recorded::Event(event) };
        let run = |&(ms, pid): &(u64, u32)| {
            [
                record(ms * MS, switch(0, pid, PrevState::Running)),
                record((ms + 1) * MS, switch(pid, 0, PrevState::Sleeping)),
            ]
        };
        let thread = |comm: &str| RecordedThread { comm: comm.into(), ..RecordedThread::default() };
        let threads = [(33, thread("cpuhp/3")), (7, thread("a"))].into();
        let records = runs.iter().flat_map(run).collect();
        offline(&Recording { nr_cpus: 4, end: Ns(1000 * MS), records, threads, ..Recording::default() })
    }

    #[test]
    fn silence_beside_the_hotplug_thread() {
        let cpu3 = |from, until| Offline { cpu: CpuId(3), from: Ns(from * MS), until: Ns(until * MS) };
        let steady: Vec<(u64, u32)> = (0..99).map(|i| (10 * i, 7)).collect();
        assert_eq!(of(&steady), [], "nobody took it down");
        let until = |ms: u64| steady.iter().copied().filter(move |run| run.0 < ms);
        let down: Vec<_> = until(300).chain([(300, 33), (302, 7)]).collect();
        assert_eq!(of(&down), [cpu3(303, 1000)]);
        let back: Vec<_> =
            down.iter().copied().chain([(600, 33)]).chain(steady.iter().copied().filter(|r| r.0 > 600)).collect();
        assert_eq!(of(&back), [cpu3(303, 600)]);
        let up: Vec<_> = [(600, 33)].into_iter().chain(steady.iter().copied().filter(|r| r.0 > 600)).collect();
        assert_eq!(of(&up), [cpu3(0, 600)]);
        let elsewhere: Vec<_> = until(300).chain([(302, 7)]).collect();
        assert_eq!(of(&elsewhere), [], "an idle CPU shows nothing either");
        let then = |cpu, ms| is_offline(&of(&back), CpuId(cpu), ms * MS);
        assert_eq!(
            [then(3, 302), then(3, 303), then(3, 599), then(3, 600), then(2, 303)],
            [false, true, true, false, false]
        );
        let told = notes(&of(&down), Ns(1000 * MS));
        assert_eq!(told, ["cpu3 was offline from 0.30 s to the end: the simulated machine has it throughout"]);
    }
}
