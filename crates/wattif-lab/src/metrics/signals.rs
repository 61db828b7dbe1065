//! How fast do the scheduler's signals follow a load that starts or stops? Only of workloads that ask for it.
//!
//! Rise: from when a thread that woke up with a low signal (`util_avg` at most 1 %; demand, which a new thread has some of, at most
//! 20 %) began to run until the signal reached 95 %, without a sleep in between; on a line between the two samples around it. Fall: the
//! shortest sleep that began at 99 % or more and ended at 10 % or less. A signal that keeps its value in sleep never falls.

use super::pids::PidTable;
use serde::{Deserialize, Serialize};
use wattif_model::trace::{Event, Interest, Observer, PrevState, ThreadInfo};
use wattif_model::{CpuId, Ns};

/// PELT's own period, ms.
const PERIOD_MS: f64 = 1.048_576;

/// How one signal follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FollowReport {
    /// From low to 95 %, mean, ms of wall time; `None`: no thread got there.
    pub rise_ms: Option<f64>,
    /// From full to 10 %, ms of wall time; `None`: no sleep was long enough.
    pub fall_ms: Option<f64>,
}

/// How the signals of threads follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SignalsReport {
    /// PELT's `util_avg`.
    pub util_avg: FollowReport,
    /// The demand of window-assisted load tracking, where the kernel has it.
    pub walt_demand: FollowReport,
}

impl FollowReport {
    /// A figure by name; periods are PELT's, of 1.048576 ms.
    pub(super) fn figure(&self, name: &str) -> Option<f64> {
        match name {
            "rise_ms" => self.rise_ms,
            "fall_ms" => self.fall_ms,
            "rise_periods" => Some(self.rise_ms? / PERIOD_MS),
            "fall_periods" => Some(self.fall_ms? / PERIOD_MS),
            _ => None,
        }
    }
}

/// Values of 1024 between which a signal is followed; truncated, as signals are.
const REACHED: u32 = 1024 * 95 / 100;
const FULL: u32 = 1014;
const FALLEN: u32 = 102;
const LOW_UTIL: u32 = 10;
const LOW_DEMAND: u32 = 204;

/// One signal of one thread.
#[derive(Clone, Copy, Debug, Default)]
struct Follow {
    /// Last sample.
    last: Option<(Ns, u32)>,
    /// It was low at the last wake-up and is rising since.
    rising: Option<Ns>,
    /// Rises, and their sum, ns.
    rises: (u64, f64),
    /// Shortest and longest sleep after which it had fallen, ns, and the longest after which it had not.
    fall: Option<(u64, u64)>,
    stays: u64,
}

/// Between two sleeps that lie so far apart, ns, or so much of the longer one, the moment of the fall is not known.
const APART_NS: u64 = 10_000_000;
const APART_PART: u64 = 10;

impl Follow {
    /// The thread runs at last.
    fn begin(&mut self, at: Ns) {
        self.rising = self.rising.map(|_| at);
    }
    /// A sample; `woke`: how long the thread slept right before it.
    fn sample(&mut self, at: Ns, value: u32, low: u32, woke: Option<u64>) {
        if let Some(slept) = woke {
            self.rising = (value <= low).then_some(at);
            let was_full = self.last.is_some_and(|(_, before)| before >= FULL);
            match was_full {
                true if value <= FALLEN => {
                    let (shortest, longest) = self.fall.unwrap_or((slept, slept));
                    self.fall = Some((shortest.min(slept), longest.max(slept)));
                }
                true => self.stays = self.stays.max(slept),
                false => {}
            }
        } else if let Some(since) = self.rising.filter(|_| value >= REACHED) {
            let (t0, v0) = self.last.unwrap_or((since, 0));
            let share = (f64::from(REACHED) - f64::from(v0)) / f64::from(value.saturating_sub(v0).max(1));
            let ns = t0.since(since) as f64 + at.since(t0) as f64 * share.clamp(0.0, 1.0);
            self.rises = (self.rises.0 + 1, self.rises.1 + ns);
            self.rising = None;
        }
        self.last = Some((at, value));
    }
    /// How long it takes to fall, ns, or the shortest sleep that was tried, if that was long enough. `None` where a run ended before it had
    /// tried what is in between: it has slept for much too short and for long, or for long only.
    fn fell_after(&self) -> Option<u64> {
        let (shortest, longest) = self.fall?;
        let apart = |a: u64, b: u64| b.saturating_sub(a) > APART_NS.max(b / APART_PART);
        let tried = if self.stays > 0 { !apart(self.stays, shortest) } else { apart(shortest, longest) };
        tried.then_some(shortest)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    util: Follow,
    demand: Follow,
    /// When it went to sleep.
    asleep: Option<Ns>,
    /// How long it slept until it was woken for the samples that follow.
    slept: Option<u64>,
}

/// Listens to signals.
#[derive(Clone, Debug, Default)]
pub struct Signals {
    on: bool,
    threads: PidTable<Thread>,
}

impl Signals {
    /// Of a workload that asks for it.
    pub fn new(on: bool) -> Signals {
        Signals { on, threads: PidTable::default() }
    }
    /// Somebody is to tell signals.
    pub fn any(&self) -> bool {
        self.on
    }
    /// The answer; `None` where nobody asked.
    pub fn report(&self) -> Option<SignalsReport> {
        let of = |signal: fn(&Thread) -> &Follow| {
            let all = || self.threads.iter().map(|(_, t)| signal(t));
            let (count, ns) = all().fold((0, 0.0), |(n, sum), f| (n + f.rises.0, sum + f.rises.1));
            FollowReport {
                rise_ms: (count > 0).then(|| ns / count as f64 / 1e6),
                fall_ms: all().filter_map(Follow::fell_after).min().map(|ns| ns as f64 / 1e6),
            }
        };
        self.on.then(|| SignalsReport { util_avg: of(|t| &t.util), walt_demand: of(|t| &t.demand) })
    }
}

impl Observer for Signals {
    fn interest(&self) -> Interest {
        Interest::SCHED.and(Interest::SIGNALS)
    }
    fn thread(&mut self, thread: &ThreadInfo) {
        if thread.workload {
            self.threads.entry(thread.pid, Thread::default);
        }
    }
    fn event(&mut self, at: Ns, _cpu: CpuId, event: &Event) {
        match *event {
            Event::SchedSwitch { prev_pid, prev_state, next_pid, .. } => {
                if let Some(t) = self.threads.get_mut(prev_pid) {
                    t.asleep = matches!(prev_state, PrevState::Sleeping | PrevState::DiskSleep).then_some(at);
                }
                if let Some(t) = self.threads.get_mut(next_pid)
                    && t.slept.take().is_some()
                {
                    t.util.begin(at);
                    t.demand.begin(at);
                }
            }
            Event::SchedWaking { pid, .. } => {
                if let Some(t) = self.threads.get_mut(pid) {
                    t.slept = t.asleep.take().map(|since| at.since(since));
                }
            }
            Event::PeltSe { pid, util_avg, .. } => {
                if let Some(t) = self.threads.get_mut(pid) {
                    t.util.sample(at, util_avg, LOW_UTIL, t.slept);
                }
            }
            Event::WaltDemand { pid, demand, .. } => {
                if let Some(t) = self.threads.get_mut(pid) {
                    t.demand.sample(at, demand, LOW_DEMAND, t.slept);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::*;
    use super::*;
    use wattif_model::Pid;

    const MS: u64 = 1_000_000;

    fn util(pid: u32, util_avg: u32) -> Event {
        Event::PeltSe { pid: Pid(pid), util_avg, runnable_avg: 0, load_avg: 0 }
    }
    fn off(pid: u32) -> Event {
        switch(pid, 0, PrevState::Sleeping)
    }

    /// Up from 0 at 10 ms, 900 at 20 ms, 1000 at 30 ms: 95 % are 972, at 27.2 ms. Then asleep for 50, 80 and 60 ms.
    #[test]
    fn rises_on_a_line_and_falls_by_the_shortest_sleep() {
        let mut s = Signals::new(true);
        s.thread(&thread(1, "a"));
        let tell = |s: &mut Signals, at_ms: u64, event: Event| s.event(Ns(at_ms * MS), CpuId(0), &event);
        tell(&mut s, 1, off(1));
        for (at, event) in
            [(10, waking(1)), (10, util(1, 0)), (10, switch(0, 1, PrevState::Running)), (20, util(1, 900))]
        {
            tell(&mut s, at, event);
        }
        tell(&mut s, 30, util(1, 1000));
        let mut now = 40;
        for (sleep, value) in [(50, 300), (80, 90), (60, 102)] {
            tell(&mut s, now, util(1, 1020));
            tell(&mut s, now, off(1));
            now += sleep;
            tell(&mut s, now, waking(1));
            tell(&mut s, now, util(1, value));
            tell(&mut s, now, switch(0, 1, PrevState::Running));
            now += 400;
        }
        let r = s.report().unwrap();
        assert!((r.util_avg.rise_ms.unwrap() - 17.2).abs() < 1e-9, "{r:?}");
        assert_eq!((r.util_avg.fall_ms, r.util_avg.figure("fall_periods")), (Some(60.0), Some(60.0 / PERIOD_MS)));
        assert_eq!(r.walt_demand, FollowReport::default());
        assert_eq!(Signals::new(false).report(), None);
    }

    /// 50 ms are too short, 400 ms are enough: it fell somewhere in between.
    #[test]
    fn a_sweep_that_the_end_of_the_run_cuts_off_says_nothing() {
        let fell = |sleeps: &[(u64, u32)]| {
            let mut f = Follow::default();
            for (ms, value) in sleeps {
                f.last = Some((Ns(0), 1020));
                f.sample(Ns(0), *value, LOW_UTIL, Some(ms * MS));
            }
            f.fell_after().map(|ns| ns / MS)
        };
        let [short, long] = [|ms| (ms, 500), |ms| (ms, 90)];
        assert_eq!([fell(&[long(400), short(50)]), fell(&[long(400)])], [None, None]);
        assert_eq!(fell(&[long(400), short(50), long(55), long(60)]), Some(55));
        assert_eq!([fell(&[short(5), long(8)]), fell(&[short(380), long(410)])], [Some(8), Some(410)]);
        assert_eq!(fell(&[long(400), long(100), long(105)]), Some(100), "the shortest that was tried");
    }

    /// A thread that had not forgotten, or had not been full, says nothing; nor does a rise that a sleep interrupts.
    #[test]
    fn half_ways_do_not_count() {
        let mut s = Signals::new(true);
        s.thread(&thread(1, "a"));
        for (at, event) in [
            (0, off(1)),
            (10, waking(1)),
            (10, util(1, 11)),
            (11, switch(0, 1, PrevState::Running)),
            (90, util(1, 1000)),
            (91, off(1)),
            (200, waking(1)),
            (200, util(1, 5)),
            (200, switch(0, 1, PrevState::Running)),
            (220, util(1, 600)),
            (221, off(1)),
            (231, waking(1)),
            (231, util(1, 500)),
            (231, switch(0, 1, PrevState::Running)),
            (300, util(1, 1000)),
        ] {
            s.event(Ns(at * MS), CpuId(0), &event);
        }
        assert_eq!(s.report().unwrap().util_avg, FollowReport::default());
    }
}
