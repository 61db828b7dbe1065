//! How much work does rt-app count? The column `perf` of its logs: loops of so many ns, for `run` as many as are configured, for
//! `runtime` as many whole pieces of work as the CPU got done before the time was over.
//!
//! How many pieces these were is told by CPU time and clock, as [`Throughput`] counts: kernel paths in between can make it a piece
//! too many. Loops of all the `run` of a phase are rounded together.

use super::Throughput;
use std::collections::BTreeMap;
use wattif_model::platform::Platform;
use wattif_model::trace::{Event, Interest, Observer, ThreadInfo};
use wattif_model::workload::{Amount, Op, TaskSpec, Workload};
use wattif_model::{CpuId, Ns, Pid};

/// The events of a phase that has some `runtime`.
#[derive(Clone, Copy, Debug, Default)]
struct Timed {
    run_ns: u64,
    /// Events `runtime`, and the work between two looks at the clock.
    spins: u64,
    chunk_ns: u64,
}

#[derive(Clone, Debug)]
struct Thread {
    task: String,
    /// What it had executed by its last line.
    before: u128,
}

/// Listens to what [`Throughput`] does, where a phase has some `runtime`.
#[derive(Clone, Debug)]
pub struct RtappLoops {
    work: Throughput,
    threads: BTreeMap<Pid, Thread>,
    /// Capacity at which work counts.
    unit: u128,
    ns_per_loop: u64,
    /// By task, and by `c_duration` and `c_period` of the phase.
    phases: BTreeMap<(String, u64, u64), Timed>,
}

impl RtappLoops {
    /// For a run of this workload on this machine.
    pub fn new(platform: &Platform, workload: &Workload, ns_per_loop: u64) -> RtappLoops {
        RtappLoops {
            work: Throughput::new(platform),
            threads: BTreeMap::new(),
            unit: platform.cpus[platform.calibration_cpu.at()].capacity.max(1).into(),
            ns_per_loop: ns_per_loop.max(1),
            phases: workload.tasks.iter().flat_map(timed_phases).collect(),
        }
    }

    /// A line of `pid`, which runs on `cpu`: the loops since the last one.
    pub fn line(&mut self, at: Ns, cpu: CpuId, pid: Pid, c_duration_us: u64, c_period_us: u64) -> u64 {
        let loops = |ns: u64| ns / self.ns_per_loop;
        let Some(thread) = self.threads.get_mut(&pid) else { return loops(c_duration_us.saturating_mul(1_000)) };
        let work = self.work.so_far(at, cpu, pid);
        let done = (work - std::mem::replace(&mut thread.before, work)) / self.unit;
        match self.phases.get(&(thread.task.clone(), c_duration_us, c_period_us)) {
            None => loops(c_duration_us.saturating_mul(1_000)),
            Some(Timed { run_ns, spins, chunk_ns }) => {
                let spun = u64::try_from(done).unwrap_or(u64::MAX).saturating_sub(*run_ns);
                loops(*run_ns) + (spun / chunk_ns).max(*spins) * loops(*chunk_ns)
            }
        }
    }
}

fn timed_phases(task: &TaskSpec) -> Vec<((String, u64, u64), Timed)> {
    let mut phases = Vec::new();
    let mut phase = Timed::default();
    for op in &task.program.ops {
        match op {
            Op::PhaseBegin => phase = Timed::default(),
            Op::Run(Amount::Fixed(ns)) => phase.run_ns = phase.run_ns.saturating_add(*ns),
            Op::Spin { chunk, .. } => (phase.spins, phase.chunk_ns) = (phase.spins + 1, (*chunk).max(1)),
            Op::PhaseEnd { c_duration_us, c_period_us } if phase.spins > 0 => {
                phases.push(((task.name.clone(), *c_duration_us, *c_period_us), phase));
            }
            _ => {}
        }
    }
    phases
}

impl Observer for RtappLoops {
    fn interest(&self) -> Interest {
        if self.phases.is_empty() { Interest(0) } else { self.work.interest() }
    }
    fn thread(&mut self, thread: &ThreadInfo) {
        if thread.workload && !self.phases.is_empty() {
            self.work.thread(thread);
            self.threads.entry(thread.pid).or_insert_with(|| Thread { task: thread.task.clone(), before: 0 });
        }
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        self.work.event(at, cpu, event);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::*;
    use super::*;
    use wattif_model::trace::PrevState::*;

    #[test]
    fn pieces_of_runtime_by_the_clock() {
        let us = |us: u64| Amount::Fixed(us * 1_000);
        let spin = |wall| Op::Spin { wall: us(wall), chunk: 32_000 };
        let end = |c_duration_us| Op::PhaseEnd { c_duration_us, c_period_us: 0 };
        let phases = [&[spin(1_000)][..], &[Op::Run(us(500)), spin(1)], &[Op::Run(us(700))]];
        let ops = phases.iter().zip([1_000, 501, 700]);
        let ops = ops.flat_map(|(events, c)| [&[Op::PhaseBegin], *events, &[end(c)]].concat()).collect();
        let workload = Workload { tasks: vec![TaskSpec::new("a", ops)], ..Workload::default() };
        let mut loops = RtappLoops::new(&platform(), &workload, 1_000);
        loops.thread(&thread(1, "a"));
        assert!(loops.interest().wants(Interest::FREQ));
        // The first CPU is at half its speed: a piece of 32 µs takes 64.
        play(&mut loops, &[(0, 0, switch(0, 1, Running))]);
        assert_eq!(loops.line(Ns(1_030_000), CpuId(0), Pid(1), 1_000, 0), 16 * 32);
        play(&mut loops, &[(1_030_000, 0, frequency(0, 1))]);
        assert_eq!(loops.line(Ns(1_570_000), CpuId(0), Pid(1), 501, 0), 500 + 32, "at least one, as `runtime` 1 is");
        assert_eq!(loops.line(Ns(9_000_000), CpuId(0), Pid(1), 700, 0), 700, "what is configured");
        let mut plain = RtappLoops::new(&platform(), &Workload::default(), 100);
        assert_eq!((plain.interest(), plain.line(Ns(1), CpuId(0), Pid(1), 2_000, 0)), (Interest(0), 20_000));
    }
}
