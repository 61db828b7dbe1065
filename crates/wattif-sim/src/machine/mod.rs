//! The hardware: physics only. It executes work at the present speed, changes clocks after their latency, enters and leaves
//! idle states with their actual latencies, keeps timers and counts energy. It decides nothing: without any policy
//! it still compiles.

pub mod cpu;
pub mod energy;
pub mod freq;
pub mod idle;
pub mod program;
pub mod resources;
pub mod timer;

use cpu::{Cpu, Segment};
use energy::Energy;
use freq::Clock;
use timer::Timers;
use wattif_model::platform::{Platform, Scope};
use wattif_model::{CpuId, Pid};

/// A machine at work.
#[derive(Debug)]
pub struct Machine {
    /// Its description.
    pub platform: Platform,
    /// Its CPUs.
    pub cpus: Vec<Cpu>,
    /// The clocks of its frequency domains.
    pub clocks: Vec<Clock>,
    /// Its meters.
    pub energy: Energy,
    /// High-resolution timers.
    pub timers: Timers,
    /// What is left of each thread's present step, by pid.
    pub segments: Vec<Segment>,
    /// Some idle state needs all hardware threads of a core.
    pub core_states: bool,
    /// Hardware threads of each CPU's core.
    threads: Vec<Vec<CpuId>>,
    /// Sleeps are entered and left in no time: whoever chose them knew their end (see `cpuidle/oracle.rs`).
    pub prescient: bool,
    /// Work each thread was given so far, by pid, units.
    given: Vec<u128>,
}

impl Machine {
    /// Every CPU awake without a thread, every clock at its lowest operating point.
    pub fn new(platform: &Platform) -> Machine {
        let mut machine = Machine {
            cpus: platform.cpus.iter().map(|_| Cpu::default()).collect(),
            clocks: platform.domains.iter().map(|_| Clock::default()).collect(),
            energy: Energy::new(platform),
            timers: Timers::new(platform.nr_cpus()),
            segments: vec![Segment::Done],
            core_states: platform.clusters.iter().any(|c| c.idle.iter().any(|s| s.scope == Scope::Core)),
            threads: platform.core_threads(),
            prescient: false,
            given: vec![0],
            platform: platform.clone(),
        };
        for cpu in 0..platform.nr_cpus() as u32 {
            machine.update_speed(CpuId(cpu));
        }
        machine
    }

    /// Hardware threads of a CPU's core, itself included.
    pub fn threads_of(&self, cpu: CpuId) -> &[CpuId] {
        &self.threads[cpu.at()]
    }

    /// Room for one more thread.
    pub fn add_thread(&mut self, pid: Pid) {
        assert_eq!(pid.at(), self.segments.len(), "pids are given in order");
        self.segments.push(Segment::Done);
        self.given.push(0);
        self.timers.add_thread();
    }
}
