//! Who ran where, and for whom it waited; which idle state, which frequency; signals and requests. Kept in columns
//! and packed for the page: a slice costs a few bytes.
//!
//! Memory is bounded: beyond [`Timeline::MOST`] slices and sleeps the shortest are dropped, and the page says which.

use super::varint;
use serde::Serialize;
use std::collections::BTreeMap;
use wattif_model::platform::Platform;
use wattif_model::trace::{Event, Interest, Observer, PrevState, ThreadInfo};
use wattif_model::{CpuId, Ns, Pid};

/// A thread on a CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Slice {
    pub(super) start: u64,
    pub(super) end: u64,
    /// From `sched_waking` until it was switched in; 0 where it was not woken.
    pub(super) wait: u64,
    /// Index of its thread.
    pub(super) thread: u32,
    /// Why it left.
    pub(super) left: PrevState,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sleep {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) state: u32,
}

/// Signals of a CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Signals {
    at: u64,
    util_avg: u32,
    runnable_avg: u32,
    /// Estimated; under WALT its demand.
    util_est: u32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Lane {
    pub(super) slices: Vec<Slice>,
    open: Option<Slice>,
    pub(super) sleeps: Vec<Sleep>,
    asleep: Option<Sleep>,
    signals: Vec<Signals>,
    /// What WALT counts for the CPU, where it does.
    demand: Option<u32>,
    /// What a frequency governor asked for on this CPU: when, kHz.
    asked: Vec<(u64, u32)>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Thread {
    pid: u32,
    pub(super) name: String,
    pub(super) task: String,
    pub(super) workload: bool,
}

/// Listens to a run.
#[derive(Clone, Debug)]
pub struct Timeline {
    pub(super) lanes: Vec<Lane>,
    pub(super) clocks: Vec<Vec<(u64, u32)>>,
    pub(super) first_khz: Vec<u32>,
    pub(super) domain_of: Vec<usize>,
    pub(super) state_names: Vec<Vec<String>>,
    pub(super) threads: Vec<Thread>,
    index: BTreeMap<Pid, u32>,
    /// When each thread was woken, until it runs.
    woken: Vec<Option<u64>>,
    on_cpu: Vec<bool>,
    kept: usize,
    /// Slices and sleeps shorter than this are not kept, ns.
    floor: u64,
    pub(super) slices: u64,
    pub(super) sleeps: u64,
    /// Least distance of kept samples of a CPU, ns.
    sample_ns: u64,
    pub(super) end: u64,
}

/// A timeline as bytes: columns one after the other, and what they are.
#[derive(Clone, Debug, Serialize)]
pub struct Packed {
    /// Unit of all times in `bytes`, ns.
    pub unit_ns: u64,
    /// End of the run, ns.
    pub end_ns: u64,
    /// Slices and sleeps shorter than this are left out, ns; 0: all are there.
    pub floor_ns: u64,
    /// Slices of the run.
    pub slices: u64,
    /// Those in here.
    pub shown: u64,
    threads: Vec<Thread>,
    /// Names of the idle states of each CPU.
    states: Vec<Vec<String>>,
    /// Frequency domain of each CPU.
    domain_of: Vec<usize>,
    /// Where each column lies: name, CPU or domain, number of values, bytes.
    columns: Vec<(&'static str, usize, usize, usize)>,
    /// The columns.
    #[serde(skip)]
    pub bytes: Vec<u8>,
}

impl Timeline {
    /// So many slices and sleeps are kept.
    pub const MOST: usize = 4_000_000;
    /// So many samples of a CPU, at most.
    const SAMPLES: u64 = 4000;

    /// For a run of this length on this machine.
    pub fn new(platform: &Platform, duration: Ns) -> Timeline {
        let cpus = 0..platform.nr_cpus() as u32;
        let names = |c: u32| platform.idle_states(CpuId(c)).iter().map(|s| s.name.clone()).collect();
        Timeline {
            lanes: vec![Lane::default(); platform.nr_cpus()],
            clocks: vec![Vec::new(); platform.domains.len()],
            first_khz: platform.domains.iter().map(|d| d.opps.first().map_or(0, |o| o.khz)).collect(),
            domain_of: platform.cpus.iter().map(|c| c.domain.at()).collect(),
            state_names: cpus.map(names).collect(),
            threads: Vec::new(),
            index: BTreeMap::new(),
            woken: Vec::new(),
            on_cpu: Vec::new(),
            kept: 0,
            floor: 0,
            slices: 0,
            sleeps: 0,
            sample_ns: duration.0 / Timeline::SAMPLES,
            end: 0,
        }
    }

    /// The thread's index; a thread nobody announced (of a recorded trace) has a name of its own.
    fn thread_of(&mut self, pid: Pid) -> u32 {
        if let Some(&i) = self.index.get(&pid) {
            return i;
        }
        let name = format!("thread {}", pid.0);
        self.add(Thread { pid: pid.0, task: name.clone(), name, workload: true })
    }

    fn add(&mut self, thread: Thread) -> u32 {
        let i = self.threads.len() as u32;
        self.index.insert(Pid(thread.pid), i);
        self.threads.push(thread);
        self.woken.push(None);
        self.on_cpu.push(false);
        i
    }

    fn switch(&mut self, at: u64, cpu: usize, left: PrevState, next: Pid) {
        self.close(at, cpu, left);
        if next.0 == 0 {
            return;
        }
        let thread = self.thread_of(next);
        self.on_cpu[thread as usize] = true;
        let wait = self.woken[thread as usize].take().map_or(0, |since| at.saturating_sub(since));
        self.lanes[cpu].open = Some(Slice { start: at, end: at, wait, thread, left });
    }

    fn close(&mut self, at: u64, cpu: usize, left: PrevState) {
        let Some(slice) = self.lanes[cpu].open.take() else { return };
        self.on_cpu[slice.thread as usize] = false;
        self.slices += 1;
        // A slice that was long waited for is kept, however short it is.
        if (at - slice.start).max(slice.wait) >= self.floor {
            self.lanes[cpu].slices.push(Slice { end: at, left, ..slice });
            self.kept += 1;
            self.bound();
        }
    }

    fn idle(&mut self, at: u64, cpu: usize, state: u32) {
        let floor = self.floor;
        let lane = &mut self.lanes[cpu];
        if let Some(sleep) = lane.asleep.take() {
            self.sleeps += 1;
            if at - sleep.start >= floor {
                lane.sleeps.push(Sleep { end: at, ..sleep });
                self.kept += 1;
            }
        }
        if state != Event::IDLE_EXIT {
            lane.asleep = Some(Sleep { start: at, end: at, state });
        }
        self.bound();
    }

    fn bound(&mut self) {
        while self.kept > Timeline::MOST {
            self.raise();
        }
    }

    /// Twice the shortest length that is kept.
    fn raise(&mut self) {
        self.floor = (self.floor * 2).max(1_000);
        let floor = self.floor;
        for lane in &mut self.lanes {
            lane.slices.retain(|s| (s.end - s.start).max(s.wait) >= floor);
            lane.sleeps.retain(|s| s.end - s.start >= floor);
        }
        self.kept = self.lanes.iter().map(|l| l.slices.len() + l.sleeps.len()).sum();
    }

    /// Drop the shortest until at most half of the slices are left.
    pub fn halve(&mut self) {
        let target = self.kept / 2;
        while self.kept > target && self.floor < self.end.max(1_000) {
            self.raise();
        }
        for clock in &mut self.clocks {
            thin(clock, 50_000);
        }
    }

    /// The columns, in the coarsest unit that a screen does not show.
    pub fn pack(&self) -> Packed {
        let unit = match self.kept {
            0..=20_000 => 1,
            20_001..=200_000 => 100,
            _ => 1_000,
        };
        let mut packed = Packed {
            unit_ns: unit,
            end_ns: self.end,
            floor_ns: self.floor,
            slices: self.slices,
            shown: self.lanes.iter().map(|l| l.slices.len() as u64).sum(),
            threads: self.threads.clone(),
            states: self.state_names.clone(),
            domain_of: self.domain_of.clone(),
            columns: Vec::new(),
            bytes: Vec::new(),
        };
        for (cpu, lane) in self.lanes.iter().enumerate() {
            lane.pack(cpu, unit, &mut packed);
        }
        for (domain, clock) in self.clocks.iter().enumerate() {
            let steps = || std::iter::once((0, self.first_khz[domain])).chain(clock.iter().copied());
            packed.add("freq.at", domain, gaps(steps().map(|(at, _)| at / unit)));
            packed.add("freq.khz", domain, steps().map(|(_, khz)| khz.into()));
        }
        packed
    }
}

/// Leaves every n-th so that at most `most` are left.
fn thin<T: Copy>(list: &mut Vec<T>, most: usize) {
    let every = list.len().div_ceil(most.max(1));
    if every > 1 {
        *list = list.iter().copied().step_by(every).collect();
    }
}

/// From each to the next.
fn gaps(values: impl Iterator<Item = u64>) -> impl Iterator<Item = u64> {
    values.scan(0u64, |before, v| Some(v.saturating_sub(std::mem::replace(before, v))))
}

/// From the end of each to the start of the next, rounded so that no error adds up.
fn rests(spans: impl Iterator<Item = (u64, u64)>, unit: u64) -> impl Iterator<Item = u64> {
    spans.scan(0u64, move |before, (start, end)| {
        Some((start / unit).saturating_sub(std::mem::replace(before, end / unit)))
    })
}

impl Lane {
    fn pack(&self, cpu: usize, unit: u64, out: &mut Packed) {
        let length = |start: u64, end: u64| end / unit - start / unit;
        out.add("slice.gap", cpu, rests(self.slices.iter().map(|s| (s.start, s.end)), unit));
        out.add("slice.dur", cpu, self.slices.iter().map(|s| length(s.start, s.end)));
        out.add("slice.wait", cpu, self.slices.iter().map(|s| s.wait.div_ceil(unit)));
        out.add("slice.thread", cpu, self.slices.iter().map(|s| s.thread.into()));
        out.add("slice.left", cpu, self.slices.iter().map(|s| s.left as u64));
        out.add("idle.gap", cpu, rests(self.sleeps.iter().map(|s| (s.start, s.end)), unit));
        out.add("idle.dur", cpu, self.sleeps.iter().map(|s| length(s.start, s.end)));
        out.add("idle.state", cpu, self.sleeps.iter().map(|s| s.state.into()));
        out.add("sig.at", cpu, gaps(self.signals.iter().map(|a| a.at / unit)));
        out.add("sig.util_avg", cpu, self.signals.iter().map(|a| a.util_avg.into()));
        out.add("sig.runnable_avg", cpu, self.signals.iter().map(|a| a.runnable_avg.into()));
        out.add("sig.util_est", cpu, self.signals.iter().map(|a| a.util_est.into()));
        out.add("asked.at", cpu, gaps(self.asked.iter().map(|a| a.0 / unit)));
        out.add("asked.khz", cpu, self.asked.iter().map(|a| a.1.into()));
    }
}

impl Packed {
    fn add(&mut self, name: &'static str, of: usize, values: impl Iterator<Item = u64>) {
        let mut count = 0;
        let bytes = varint::column(values.inspect(|_| count += 1));
        self.columns.push((name, of, count, bytes.len()));
        self.bytes.extend(bytes);
    }
}

impl Observer for Timeline {
    fn interest(&self) -> Interest {
        Interest::SCHED.and(Interest::IDLE).and(Interest::FREQ).and(Interest::DECISIONS).and(Interest::SIGNALS)
    }
    fn thread(&mut self, t: &ThreadInfo) {
        if !self.index.contains_key(&t.pid) {
            self.add(Thread { pid: t.pid.0, name: t.comm.clone(), task: t.task.clone(), workload: t.workload });
        }
    }
    fn ran_before(&mut self, cpu: CpuId, pid: Pid) {
        if cpu.at() < self.lanes.len() {
            self.switch(0, cpu.at(), PrevState::Running, pid);
        }
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        if cpu.at() >= self.lanes.len() {
            return;
        }
        match *event {
            Event::SchedSwitch { prev_state, next_pid, .. } => self.switch(at.0, cpu.at(), prev_state, next_pid),
            Event::SchedWaking { pid, .. } => {
                let thread = self.thread_of(pid) as usize;
                if !self.on_cpu[thread] {
                    self.woken[thread].get_or_insert(at.0);
                }
            }
            Event::CpuIdle { state } => self.idle(at.0, cpu.at(), state),
            Event::CpuFrequency { domain, khz, .. } => {
                if let Some(clock) = self.clocks.get_mut(domain.at()) {
                    clock.push((at.0, khz));
                    // A clock that changes without end is thinned, not kept without end.
                    thin(clock, Timeline::MOST);
                }
            }
            Event::Frequency(f) => {
                let list = &mut self.lanes[cpu.at()].asked;
                if list.last().is_none_or(|last| at.0 >= last.0 + self.sample_ns) {
                    list.push((at.0, f.next_khz));
                }
            }
            Event::WaltDemand { cpu_demand, .. } => self.lanes[cpu.at()].demand = Some(cpu_demand),
            Event::PeltCfs { util_avg, runnable_avg, util_est, .. } => {
                let demand = self.lanes[cpu.at()].demand;
                let list = &mut self.lanes[cpu.at()].signals;
                if list.last().is_none_or(|last| at.0 >= last.at + self.sample_ns) {
                    list.push(Signals { at: at.0, util_avg, runnable_avg, util_est: demand.unwrap_or(util_est) });
                }
            }
            _ => {}
        }
    }
    fn finish(&mut self, end: Ns) {
        self.end = end.0;
        for cpu in 0..self.lanes.len() {
            self.close(end.0, cpu, PrevState::Running);
            self.idle(end.0, cpu, Event::IDLE_EXIT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::varint::read;
    use super::*;
    use crate::metrics::testbed::*;

    fn column(p: &Packed, name: &str, of: usize) -> Vec<u64> {
        let mut at = 0;
        for &(n, o, count, len) in &p.columns {
            if (n, o) == (name, of) {
                let values = read(&p.bytes[at..at + len]);
                assert_eq!(values.len(), count);
                return values;
            }
            at += len;
        }
        panic!("no column {name} of {of}");
    }

    fn played() -> Timeline {
        let mut t = Timeline::new(&platform(), Ns(10_000));
        t.thread(&thread(7, "a"));
        play(
            &mut t,
            &[
                (0, 0, idle(1)),
                (1_000, 0, waking(7)),
                (1_100, 0, idle(Event::IDLE_EXIT)),
                (1_500, 0, switch(0, 7, PrevState::Running)),
                (2_000, 0, frequency(0, 1)),
                (4_000, 0, switch(7, 0, PrevState::Sleeping)),
                (5_000, 1, switch(0, 9, PrevState::Running)),
            ],
        );
        t.finish(Ns(6_000));
        t
    }

    #[test]
    fn slices_with_their_waits() {
        let p = played().pack();
        assert_eq!((p.unit_ns, p.end_ns, p.slices, p.shown), (1, 6_000, 2, 2));
        assert_eq!(column(&p, "slice.gap", 0), [1_500]);
        assert_eq!(column(&p, "slice.dur", 0), [2_500]);
        assert_eq!(column(&p, "slice.wait", 0), [500]);
        assert_eq!(column(&p, "slice.left", 0), [PrevState::Sleeping as u64]);
        assert_eq!((column(&p, "idle.dur", 0), column(&p, "idle.state", 0)), (vec![1_100], vec![1]));
        assert_eq!(column(&p, "slice.dur", 1), [1_000], "what still runs ends with the run");
        assert_eq!(column(&p, "freq.at", 0), [0, 2_000]);
        assert_eq!((p.threads[1].name.as_str(), p.threads.len()), ("thread 9", 2));
    }

    #[test]
    fn what_is_dropped_is_said() {
        let mut t = played();
        t.raise();
        let p = t.pack();
        assert_eq!((p.floor_ns, p.shown, p.slices), (1_000, 2, 2));
        t.raise();
        let p = t.pack();
        assert_eq!((p.floor_ns, p.shown, p.slices), (2_000, 1, 2));
        let mut t = played();
        t.halve();
        assert!(t.pack().shown <= 1);
    }

    #[test]
    fn rounding_does_not_add_up() {
        let spans = (0..1000u64).map(|i| (i * 1_999, i * 1_999 + 1_501));
        let mut at = 0;
        for ((start, end), gap) in spans.clone().zip(rests(spans, 1_000)) {
            at += gap;
            assert_eq!(at, start / 1_000);
            at += end / 1_000 - start / 1_000;
        }
    }
}
