//! Oracle idle governor: knows when each sleep will end. No kernel has it; it shows how much is left to gain.
//!
//! # Idea
//! A governor errs because it must guess how long the CPU will sleep. This one is told, and so it is of all other CPUs. It takes the
//! states that need the least energy, the power of clusters and cores included, among those that can be entered and left within each
//! sleep, and the CPU is back when it is needed: no wake-up is late.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | sleeps of all CPUs | ns, from and to | a first pass of the same run | known at every call |
//! | operating points | index, from when on | the first pass | known at every call |
//! | power busy, power of each state, of CPUs and of clusters | µW | the platform | at the operating points in the course of the sleep |
//! | entry, exit latency | ns, the hardware's, not the advertised ones | the platform | constant |
//!
//! # Decision
//! 1. First pass: run the workload on a machine whose sleeps are entered and left in no time, and note each sleep. The tick is always
//!    stopped.
//! 2. Plan, between the passes (`oracle/plan.rs`): for a sleep of length `L` alone, and each enabled state with entry + exit ≤ `L`:
//!    energy = (entry + exit) × busy power + the rest × the state's power. Take the least; of equals, and where the platform has no
//!    powers of idle states, the deepest (there: of those whose advertised residency is within `L` as well). Then, where all CPUs of a
//!    cluster or a core sleep at once: take deeper states, together, if what they share saves more than that costs them; then again each
//!    by itself, until no change pays.
//! 3. Second pass, the one that counts: each sleep in its planned state. The way out begins before the end, so this pass takes no time
//!    for sleeping either, and is the first one again, to the nanosecond, with states and energy filled in.
//!
//! Worked example, busy 100 mW, states 50 mW with 0 + 0 µs and 5 mW with 100 + 100 µs: a sleep of 150 µs → the first, 7.5
//! µJ. One of 1 ms → the second: 0.2 × 100 + 0.8 × 5 = 24 µJ instead of 50. Two CPUs of a cluster of 50 mW with states of 50 mW, 0 + 0
//! µs; 0 mW, 100 + 100 µs; and 0 mW, 300 + 300 µs, in which the cluster draws nothing once both are there: one sleeps 3 ms, the
//! other 2 ms within it. The second state is as good for each alone. The third costs one of them 0.4 ms more on its way, 40 µJ, and the
//! cluster draws nothing for 1.4 ms, 70 µJ: both take it.
//!
//! # State and cost
//! 24 bytes per sleep of the run and 4 per CPU and time that a cluster sleeps. The run is simulated twice.
//!
//! # Where it fails
//! The plan is best for any single change and any common one of a cluster or core at one time, not always the best there is; in
//! small random machines it is nearly always that. Its run is not the run of another governor with better states: without late
//! wake-ups work is done earlier, and where the workload makes more of that (a closed loop of requests), more is done. Where wake-ups
//! that come late meet others, CPUs are woken less often. For a bound that holds for each idle period of a given run see the metrics
//! `oracle.*`.
//!
//! # Differences from the kernel
//! No kernel has it. It is never late, so that no latency limit (`pm_qos`) binds it. Nothing else of the run is
//! prescient: placement, clocks and timers are as ever, but for placement every state is as quick to leave as any other.
//!
//! # Source
//! The idea of a clairvoyant optimum, as in offline analyses of power-down (S. Irani, S. Shukla, R. Gupta, 2003).

mod plan;

use super::{CpuidleState, IdleGovernor, IdleSelection, IdleSleep, IdleView, KTIME_MAX, Tunable};
use wattif_model::ids::CpuId;
use wattif_model::platform::Platform;
use wattif_model::{DomainId, Ns};

/// Tunables of `oracle`: none.
pub const TUNABLES: &[Tunable] = &[];

/// All sleeps of the run, by CPU.
#[derive(Clone, Debug)]
pub struct Foresight {
    naps: Vec<Vec<Nap>>,
    /// The sleep each CPU is at, counted from 1.
    at: Vec<usize>,
    /// By domain: when its clock came to which operating point.
    clocks: Vec<Vec<(u64, usize)>>,
    recording: bool,
}

/// A sleep, and the state that is planned for it.
#[derive(Clone, Copy, Debug)]
struct Nap {
    began: u64,
    end: u64,
    state: u8,
}

impl Nap {
    fn length_ns(&self) -> u64 {
        self.end - self.began
    }
}

/// How long a sleep will be, ns, and the state for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreseen {
    /// From its beginning to its end.
    pub length_ns: u64,
    /// The planned state.
    pub state: usize,
}

/// The length of the sleep in which the run ends.
const ENDLESS: u64 = u64::MAX / 4;

impl Foresight {
    /// Knows nothing, and takes notes.
    pub fn recording(nr_cpus: usize, nr_domains: usize) -> Foresight {
        let naps = vec![Vec::new(); nr_cpus];
        Foresight { naps, at: vec![0; nr_cpus], clocks: vec![Vec::new(); nr_domains], recording: true }
    }
    /// Knows what was noted, and has a plan.
    pub fn known(mut self, platform: &Platform) -> Foresight {
        self.recording = false;
        self.at.fill(0);
        plan::plan(platform, &self.clocks, &mut self.naps);
        self
    }
    /// A CPU begins its next sleep.
    pub fn begins(&mut self, cpu: CpuId, Ns(now): Ns) -> Option<Foreseen> {
        self.at[cpu.at()] += 1;
        if self.recording {
            self.naps[cpu.at()].push(Nap { began: now, end: now + ENDLESS, state: 0 });
            return None;
        }
        self.now(cpu)
    }
    /// The sleep a CPU is in.
    pub fn now(&self, cpu: CpuId) -> Option<Foreseen> {
        let known = || self.naps[cpu.at()].get(self.at[cpu.at()].wrapping_sub(1));
        let nap = (!self.recording).then(known).flatten()?;
        Some(Foreseen { length_ns: nap.length_ns(), state: nap.state.into() })
    }
    /// A sleep has ended.
    pub fn ended(&mut self, cpu: CpuId, length_ns: u64) {
        if self.recording {
            let nap = self.naps[cpu.at()].last_mut().expect("it had begun");
            nap.end = nap.began + length_ns;
        } else {
            let known = self.now(cpu).map(|nap| nap.length_ns);
            debug_assert_eq!(known, Some(length_ns), "the second pass is the first again");
        }
    }
    /// The clock of a domain comes to an operating point.
    pub fn clock(&mut self, domain: DomainId, opp: usize, Ns(now): Ns) {
        if self.recording {
            self.clocks[domain.at()].push((now, opp));
        }
    }
}

/// The governor; see the module's manual.
#[derive(Clone, Debug)]
pub struct Oracle;

/// `oracle`, which has one generation: `""`.
pub fn build(generation: &str) -> Option<Box<dyn IdleGovernor>> {
    generation.is_empty().then(|| Box::new(Oracle) as Box<dyn IdleGovernor>)
}

impl IdleGovernor for Oracle {
    fn enable(&mut self, _cpu: CpuId, _states: &[CpuidleState]) {}

    fn select(&mut self, _cpu: CpuId, view: &mut dyn IdleView) -> IdleSelection {
        let Some(Foreseen { length_ns, state }) = view.foreseen() else {
            return IdleSelection { state: 0, stop_tick: true, predicted_ns: KTIME_MAX };
        };
        IdleSelection { state, stop_tick: true, predicted_ns: i64::try_from(length_ns).unwrap_or(KTIME_MAX) }
    }

    fn reflect(&mut self, _cpu: CpuId, _sleep: &IdleSleep) {}

    fn debug_state(&self, _cpu: CpuId) -> String {
        String::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattif_model::platform::Scope;

    #[test]
    fn foresight_tells_what_was_noted() {
        let platform = plan::tests::platform(1, &[(Scope::Cpu, 1_000, 0, 0)], &[0, 0]);
        let mut f = Foresight::recording(1, 1);
        f.clock(DomainId(0), 0, Ns(0));
        assert_eq!(f.begins(CpuId(0), Ns(3)), None);
        f.ended(CpuId(0), 7);
        assert_eq!(f.begins(CpuId(0), Ns(20)), None);
        let mut f = f.known(&platform);
        let first = Some(Foreseen { length_ns: 7, state: 0 });
        assert_eq!((f.begins(CpuId(0), Ns(3)), f.now(CpuId(0))), (first, first));
        f.ended(CpuId(0), 7);
        let last = f.begins(CpuId(0), Ns(20));
        assert!(last.is_some_and(|nap| nap.length_ns > 1 << 60), "the last sleep has no end");
    }
}
