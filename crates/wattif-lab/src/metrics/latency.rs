//! How long from being woken to running? Two latencies that are never mixed: what a trace shows, and what rt-app logs.
//! Only threads of the workload count; housekeeping is left out.

use super::distribution::{Distribution, Summary};
use super::pids::PidTable;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wattif_model::trace::{Event, Interest, Observer, ThreadInfo};
use wattif_model::{CpuId, Ns, Pid};

/// Bins of a [`Histogram`]: ten of 100 µs, and one for all that is longer.
pub const BINS: usize = 11;

/// Counts by 100 µs, as in the published tables: `0..100`, `100..200`, …, `900..1000`, and 1000 µs or more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram(pub [u64; BINS]);

impl Histogram {
    fn record(&mut self, ns: u64) {
        self.0[((ns / 100_000) as usize).min(BINS - 1)] += 1;
    }
    fn merge(&mut self, other: &Histogram) {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a += b);
    }
}

#[derive(Clone, Debug)]
struct Group {
    values: Distribution,
    bins: Histogram,
}

#[derive(Clone, Debug)]
struct Thread {
    /// Index of its task's group; `None`: housekeeping.
    group: Option<usize>,
    values: Distribution,
    woken: Option<Ns>,
    /// Woken while it ran, and it has not run on since: it was about to sleep, or that was for nothing.
    early: Option<Ns>,
    on_cpu: bool,
    /// Since when, if that was seen.
    came: Option<Ns>,
    left: Left,
}

/// How a thread was last seen going out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Unseen,
    /// It could run on: nothing can wake it.
    Runnable,
    Asleep,
}

/// Latencies by thread, by task and overall.
#[derive(Clone, Debug, Default)]
pub struct Latency {
    threads: PidTable<Thread>,
    groups: Vec<Group>,
    /// Task → its group; there may be as many tasks as threads.
    by_task: BTreeMap<String, usize>,
}

impl Latency {
    fn announce(&mut self, thread: &ThreadInfo) {
        let group = thread.workload.then(|| self.group(&thread.task));
        let new = || Thread {
            group,
            values: Distribution::coarse(),
            woken: None,
            early: None,
            on_cpu: false,
            came: None,
            left: Left::Unseen,
        };
        self.threads.entry(thread.pid, new);
    }
    fn group(&mut self, task: &str) -> usize {
        self.by_task.get(task).copied().unwrap_or_else(|| {
            self.groups.push(Group { values: Distribution::precise(), bins: Histogram::default() });
            self.by_task.insert(task.into(), self.groups.len() - 1);
            self.groups.len() - 1
        })
    }
    fn record(&mut self, pid: Pid, ns: u64) {
        let Some(thread) = self.threads.get_mut(pid) else { return };
        let Some(group) = thread.group else { return };
        thread.values.record(ns);
        self.groups[group].values.record(ns);
        self.groups[group].bins.record(ns);
    }

    /// Of all threads of the workload.
    pub fn overall(&self) -> (Distribution, Histogram) {
        let mut all = (Distribution::precise(), Histogram::default());
        for group in &self.groups {
            all.0.merge(&group.values);
            all.1.merge(&group.bins);
        }
        all
    }
    /// Of all threads of one task of the workload.
    pub fn of_task(&self, task: &str) -> Option<(&Distribution, &Histogram)> {
        self.by_task.get(task).map(|&at| (&self.groups[at].values, &self.groups[at].bins))
    }
    /// Of one thread; `None` for housekeeping.
    pub fn of_thread(&self, pid: Pid) -> Option<Summary> {
        self.threads.get(pid).filter(|t| t.group.is_some()).map(|t| t.values.summary_us())
    }
}

/// `wakeup_latency_us`: from `sched_waking` until the thread is switched in.
#[derive(Clone, Debug, Default)]
pub struct WakeupLatency(pub Latency);

impl Observer for WakeupLatency {
    fn interest(&self) -> Interest {
        Interest::SCHED
    }
    fn thread(&mut self, thread: &ThreadInfo) {
        self.0.announce(thread);
    }
    fn ran_before(&mut self, _cpu: CpuId, pid: Pid) {
        self.0.threads.get_mut(pid).into_iter().for_each(|t| t.on_cpu = true);
    }
    // In [`Metrics::event`], which has looked at the kind of event already.
    #[inline(always)]
    fn event(&mut self, at: Ns, _cpu: CpuId, event: &Event) {
        match *event {
            Event::SchedWaking { pid, .. } => self.waking(at, pid),
            Event::SchedSwitch { prev_pid, prev_state, next_pid, .. } => {
                if let Some(prev) = self.0.threads.get_mut(prev_pid) {
                    prev.on_cpu = false;
                    // A thread that the trace has shown at no CPU was taken for one that waits; of one that it has, when it came is lost.
                    let woken = prev.woken.take().filter(|_| prev.left == Left::Unseen);
                    let came = prev.came.take();
                    let leaves = |woken: &Ns| came.is_none_or(|came| at.since(*woken) <= woken.since(came));
                    prev.early = woken.or(prev.early).filter(|_| prev_state.sleeps()).filter(leaves);
                    prev.left = if prev_state.sleeps() { Left::Asleep } else { Left::Runnable };
                }
                self.switched_in(at, next_pid);
            }
            _ => {}
        }
    }
}

impl WakeupLatency {
    /// A thread that is woken is not woken again before it has run and slept: of two wake-ups the last counts, what was between is lost.
    /// One that comes while it still runs counts if it then sleeps all the same and nothing else wakes it: it was on its way out. Nearer
    /// to its coming in it is what woke it, by the clock of another CPU, which is ahead.
    fn waking(&mut self, at: Ns, pid: Pid) {
        match self.0.threads.get_mut(pid) {
            Some(t) if t.on_cpu => t.early = Some(at),
            Some(t) if t.left != Left::Runnable => t.woken = Some(at),
            _ => {}
        }
    }
    fn switched_in(&mut self, at: Ns, pid: Pid) {
        let Some(next) = self.0.threads.get_mut(pid) else { return };
        (next.on_cpu, next.came) = (true, Some(at));
        let early = next.early.take();
        if let Some(woken) = next.woken.take().or(early) {
            self.0.record(pid, at.since(woken));
        }
    }
}

/// `wu_lat_us`: the column of rt-app's log, whole µs as it prints them.
///
/// rt-app writes a line per phase iteration and 0 when no timer was used in it. A task's own figures have every line; those
/// of the whole run only lines of iterations with a timer, so that a hog without one does not dilute them.
#[derive(Clone, Debug)]
pub struct WuLat {
    /// Every line, by thread and task.
    pub lines: Latency,
    timed: (Distribution, Histogram),
    /// Threads that used a timer since their last line.
    used: PidTable<bool>,
}

impl Default for WuLat {
    fn default() -> WuLat {
        let timed = (Distribution::precise(), Histogram::default());
        WuLat { lines: Latency::default(), timed, used: PidTable::default() }
    }
}

impl WuLat {
    /// Lines with a timer, of all threads of the workload.
    pub fn overall(&self) -> &(Distribution, Histogram) {
        &self.timed
    }
    /// A line ends; did it have a timer?
    fn line(&mut self, pid: Pid, ns: u64) {
        self.lines.record(pid, ns);
        if self.used.get_mut(pid).is_some_and(std::mem::take) {
            self.timed.0.record(ns);
            self.timed.1.record(ns);
        }
    }
}

impl Observer for WuLat {
    fn interest(&self) -> Interest {
        Interest::PROGRAM
    }
    fn thread(&mut self, thread: &ThreadInfo) {
        self.lines.announce(thread);
        if thread.workload {
            self.used.entry(thread.pid, || false);
        }
    }
    fn event(&mut self, _at: Ns, _cpu: CpuId, event: &Event) {
        match *event {
            Event::TimerWake { pid, .. } => {
                if let Some(used) = self.used.get_mut(pid) {
                    *used = true;
                }
            }
            Event::RtappStats { pid, wu_lat_ns, .. } => self.line(pid, wu_lat_ns / 1_000 * 1_000),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::*;
    use super::*;
    use wattif_model::trace::PrevState;

    #[test]
    fn waking_to_switch_in() {
        let mut w = WakeupLatency::default();
        w.thread(&thread(1, "a"));
        w.thread(&housekeeping(2, "kworker"));
        play(
            &mut w,
            &[
                (100, 0, waking(1)),
                (150, 0, waking(1)),
                (700, 0, switch(0, 1, PrevState::Running)),
                (800, 0, waking(1)),
                (900, 0, waking(2)),
                (950, 0, switch(1, 2, PrevState::Running)),
                (990, 0, switch(2, 1, PrevState::Sleeping)),
            ],
        );
        let (all, _) = w.0.overall();
        assert_eq!(
            (all.count(), all.quantile(1.0)),
            (1, 550),
            "what was between two wake-ups is lost; woken while running and housekeeping do not count"
        );
        assert_eq!(w.0.of_thread(Pid(1)).unwrap().count, 1);
        assert_eq!(w.0.of_thread(Pid(2)), None);
    }

    #[test]
    fn woken_on_the_way_out() {
        let latencies = |events: &[(u64, u32, Event)]| {
            let mut w = WakeupLatency::default();
            w.thread(&thread(1, "a"));
            play(&mut w, &[(0, 0, switch(0, 1, PrevState::Running))]);
            play(&mut w, events);
            let all = w.0.overall().0;
            (all.count(), all.quantile(1.0))
        };
        let (early, back) = ((100, 0, waking(1)), (900, 0, switch(0, 1, PrevState::Running)));
        let out = |state| (200, 0, switch(1, 0, state));
        assert_eq!(latencies(&[early, out(PrevState::Sleeping), back]), (1, 800));
        assert_eq!(latencies(&[early, out(PrevState::Running), back]), (0, 0), "it did not sleep");
        let later = (700, 0, waking(1));
        assert_eq!(latencies(&[early, out(PrevState::Sleeping), later, back]), (1, 200), "the first was for nothing");
    }

    fn latencies(events: &[(u64, u32, Event)]) -> (u64, u64) {
        let mut w = WakeupLatency::default();
        w.thread(&thread(1, "a"));
        play(&mut w, events);
        let all = w.0.overall().0;
        (all.count(), all.quantile(1.0))
    }

    #[test]
    fn clocks_of_cpus_that_differ() {
        // Woken on a CPU whose clock is ahead of that of its own: each time it seems to come before it is woken.
        let period = |at| {
            let (came, went) = (switch(0, 1, PrevState::Running), switch(1, 0, PrevState::Sleeping));
            [(at, 1, came), (at + 10, 0, waking(1)), (at + 300, 1, went)]
        };
        let seen = [0, 5_000, 10_000].map(period).concat();
        assert_eq!(latencies(&seen), (0, 0), "how long it waited is not known");
        let late = (20_000, 1, switch(0, 1, PrevState::Running));
        assert_eq!(
            latencies(&[&seen[..], &[(19_900, 0, waking(1)), late]].concat()),
            (1, 100),
            "the next is a wake-up as any"
        );
    }

    #[test]
    fn who_can_run_on_is_not_woken() {
        let out = |state| (100, 0, switch(1, 0, state));
        let then = [(500, 0, waking(1)), (900, 0, switch(0, 1, PrevState::Running))];
        assert_eq!(
            latencies(&[&[out(PrevState::Running)], &then[..]].concat()),
            (0, 0),
            "preempted: on the queue all along"
        );
        assert_eq!(latencies(&[&[out(PrevState::Sleeping)], &then[..]].concat()), (1, 400));
    }

    #[test]
    fn whose_switch_in_is_lost() {
        let out = |at, cpu| (at, cpu, switch(1, 0, PrevState::Sleeping));
        let back = (900, 1, switch(0, 1, PrevState::Running));
        let lost = [(100, 0, waking(1)), out(200, 1), back];
        assert_eq!(latencies(&lost), (1, 800), "it may have been there since before the trace");
        assert_eq!(latencies(&[&[out(50, 0)], &lost[..]].concat()), (0, 0), "it was not");
        let again = [lost[0], lost[1], (850, 0, waking(1)), back];
        assert_eq!(latencies(&[&[out(50, 0)], &again[..]].concat()), (1, 50), "the next is a wake-up as any");
    }

    #[test]
    fn wu_lat_bins() {
        let mut w = WuLat::default();
        w.thread(&thread(1, "a"));
        w.thread(&thread(2, "b"));
        for (pid, ns) in [(1, 0), (1, 99_999), (1, 100_000), (2, 999_999), (2, 1_000_000), (2, 67_664_000), (9, 5)] {
            w.event(Ns(0), CpuId(0), &timer_wake(pid, ns));
            w.event(Ns(0), CpuId(0), &rtapp(pid, ns));
        }
        assert_eq!(w.overall().1.0, [2, 1, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(w.lines.of_task("a").unwrap().0.summary_us().max, 100.0);
        assert_eq!(w.lines.of_task("a").unwrap().0.quantile(0.5), 99_000, "rt-app logs whole µs");
    }

    #[test]
    fn lines_without_a_timer_count_for_their_task_alone() {
        let mut w = WuLat::default();
        w.thread(&thread(1, "periodic"));
        w.thread(&thread(2, "hog"));
        // The periodic thread's second phase has no timer; the hog never uses one.
        let stream = [timer_wake(1, 7_000), rtapp(2, 0), rtapp(1, 7_000), rtapp(1, 0), rtapp(2, 0), rtapp(2, 0)];
        stream.iter().for_each(|e| w.event(Ns(0), CpuId(0), e));
        let whole = w.overall().0.summary_us();
        assert_eq!((whole.count, whole.mean), (1, 7.0));
        let count = |task| w.lines.of_task(task).unwrap().0.count();
        assert_eq!((count("periodic"), count("hog")), (2, 3));
    }
}
