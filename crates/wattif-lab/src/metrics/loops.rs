//! How much work does rt-app count? The column `perf` of its logs: its µs of work divided by the `calibration`, ns per loop, and
//! rounded down, which is a thousandth of the loops. Each `run` is rounded by itself, and so is each piece of 32 µs of a `runtime`,
//! of which there are as many as the CPU got done before the time was over: with more than 32 ns per loop a `runtime` counts nothing.
//!
//! How many pieces these were is told by CPU time and clock, as [`Throughput`] counts: kernel paths in between can make it a piece
//! too many. Phases of a task with the same `c_duration` and `c_period` are told apart by nothing else, and count like the last one.

use super::Throughput;
use std::collections::BTreeMap;
use wattif_model::platform::Platform;
use wattif_model::trace::{Event, Interest, Observer, ThreadInfo};
use wattif_model::workload::{Amount, Op, TaskSpec, Workload};
use wattif_model::{CpuId, Ns, Pid};

/// The work of a phase.
#[derive(Clone, Copy, Debug, Default)]
struct Phase {
    run_ns: u64,
    /// What all its `run` count.
    run_loops: u64,
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
    /// Has some phase a `runtime`?
    timed: bool,
    /// By task, and by `c_duration` and `c_period` of the phase.
    phases: BTreeMap<(String, u64, u64), Phase>,
}

impl RtappLoops {
    /// For a run of this workload on this machine.
    pub fn new(platform: &Platform, workload: &Workload, ns_per_loop: u64) -> RtappLoops {
        let ns_per_loop = ns_per_loop.max(1);
        let phases: BTreeMap<_, _> = workload.tasks.iter().flat_map(|task| phases(task, ns_per_loop)).collect();
        RtappLoops {
            work: Throughput::new(platform),
            threads: BTreeMap::new(),
            unit: platform.cpus[platform.calibration_cpu.at()].capacity.max(1).into(),
            ns_per_loop,
            timed: phases.values().any(|phase| phase.spins > 0),
            phases,
        }
    }

    /// A line of `pid`, which runs on `cpu`: what counts since the last one.
    pub fn line(&mut self, at: Ns, cpu: CpuId, pid: Pid, c_duration_us: u64, c_period_us: u64) -> u64 {
        let Some(thread) = self.threads.get_mut(&pid) else { return 0 };
        let Some(phase) = self.phases.get(&(thread.task.clone(), c_duration_us, c_period_us)) else { return 0 };
        if !self.timed {
            return phase.run_loops;
        }
        let work = self.work.so_far(at, cpu, pid);
        let done = (work - std::mem::replace(&mut thread.before, work)) / self.unit;
        if phase.spins == 0 {
            return phase.run_loops;
        }
        let spun = u64::try_from(done).unwrap_or(u64::MAX).saturating_sub(phase.run_ns);
        let pieces = (spun / phase.chunk_ns).max(phase.spins);
        phase.run_loops.saturating_add(pieces.saturating_mul(counted(phase.chunk_ns, self.ns_per_loop)))
    }
}

/// rt-app divides µs by ns.
fn counted(work_ns: u64, ns_per_loop: u64) -> u64 {
    work_ns / 1_000 / ns_per_loop
}

fn phases(task: &TaskSpec, ns_per_loop: u64) -> Vec<((String, u64, u64), Phase)> {
    let mut phases = Vec::new();
    let mut phase = Phase::default();
    for op in &task.program.ops {
        match op {
            Op::PhaseBegin => phase = Phase::default(),
            Op::Run(Amount::Fixed(ns)) => {
                phase.run_ns = phase.run_ns.saturating_add(*ns);
                phase.run_loops = phase.run_loops.saturating_add(counted(*ns, ns_per_loop));
            }
            Op::Spin { chunk, .. } => (phase.spins, phase.chunk_ns) = (phase.spins + 1, (*chunk).max(1)),
            Op::PhaseEnd { c_duration_us, c_period_us } => {
                phases.push(((task.name.clone(), *c_duration_us, *c_period_us), phase));
            }
            _ => {}
        }
    }
    phases
}

impl Observer for RtappLoops {
    fn interest(&self) -> Interest {
        if self.timed { self.work.interest() } else { Interest(0) }
    }
    fn thread(&mut self, thread: &ThreadInfo) {
        if thread.workload {
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

    fn us(us: u64) -> Amount {
        Amount::Fixed(us * 1_000)
    }

    fn task(phases: &[(&[Op], u64)]) -> Workload {
        let end = |c_duration_us| Op::PhaseEnd { c_duration_us, c_period_us: 0 };
        let ops = phases.iter().flat_map(|(events, c)| [&[Op::PhaseBegin], *events, &[end(*c)]].concat()).collect();
        Workload { tasks: vec![TaskSpec::new("a", ops)], ..Workload::default() }
    }

    #[test]
    fn pieces_of_runtime_by_the_clock() {
        let spin = |wall| Op::Spin { wall: us(wall), chunk: 32_000 };
        let phases = [(&[spin(1_000)][..], 1_000), (&[Op::Run(us(500)), spin(1)], 501), (&[Op::Run(us(700))], 700)];
        let mut loops = RtappLoops::new(&platform(), &task(&phases), 10);
        loops.thread(&thread(1, "a"));
        assert!(loops.interest().wants(Interest::FREQ));
        // The first CPU is at half its speed: a piece of 32 µs takes 64, and counts 3.
        play(&mut loops, &[(0, 0, switch(0, 1, Running))]);
        assert_eq!(loops.line(Ns(1_030_000), CpuId(0), Pid(1), 1_000, 0), 16 * 3);
        play(&mut loops, &[(1_030_000, 0, frequency(0, 1))]);
        assert_eq!(loops.line(Ns(1_570_000), CpuId(0), Pid(1), 501, 0), 50 + 3, "at least one, as `runtime` 1 is");
        assert_eq!(loops.line(Ns(9_000_000), CpuId(0), Pid(1), 700, 0), 70, "what is configured");
    }

    #[test]
    fn each_run_is_rounded_by_itself() {
        let runs = [Op::Run(us(1_000)), Op::Run(us(150)), Op::Run(us(150))];
        let mut loops = RtappLoops::new(&platform(), &task(&[(&runs, 1_300)]), 100);
        loops.thread(&thread(1, "a"));
        assert_eq!((loops.interest(), loops.line(Ns(1), CpuId(0), Pid(1), 1_300, 0)), (Interest(0), 10 + 1 + 1));
    }
}
