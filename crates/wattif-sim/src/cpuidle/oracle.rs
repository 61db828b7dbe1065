//! Oracle idle governor: knows when each sleep will end. No kernel has it; it shows how much is left to gain.
//!
//! # Idea
//! A governor errs because it must guess how long the CPU will sleep. This one is told. It takes the state that needs
//! the least energy for exactly that time, among those that can be entered and left within it, and the CPU is back when
//! it is needed: no wake-up is late.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | `idle_length` | ns | a first pass of the same run | known at every call |
//! | power busy, power of each state | µW | the platform | at the present operating point |
//! | entry, exit latency | ns, the hardware's, not the advertised ones | the platform | constant |
//!
//! # Decision
//! 1. First pass: run the workload on a machine whose sleeps are entered and left in no time, and note each sleep's
//!    length. The tick is always stopped.
//! 2. Second pass, the one that counts: for a sleep of length `L`, and each enabled state with entry + exit ≤ `L`: energy =
//!    (entry + exit) × busy power + the rest × the state's power. Take the least; of equals, and where the platform has no
//!    powers of idle states, the deepest (there: of those whose advertised residency is within `L` as well).
//! 3. The way out begins before the end. So the second pass takes no time for sleeping either, and is the first one
//!    again, to the nanosecond, with states and energy filled in.
//!
//! Worked example, busy 100 mW, states 50 mW with 0 + 0 µs and 5 mW with 100 + 100 µs: a sleep of 150 µs → the first, 7.5
//! µJ. One of 1 ms → the second: 0.2 × 100 + 0.8 × 5 = 24 µJ instead of 50.
//!
//! # State and cost
//! Eight bytes per sleep of the run, and the run is simulated twice.
//!
//! # Where it fails
//! It decides for each CPU alone, by the CPU's own power: where the power of a cluster, a core or a clock domain
//! (`static_uw`) depends on several CPUs, a common decision may save more, and so may a governor that errs on the deep side.
//! Its run is not the run of another governor with better states: without late wake-ups work is done earlier, and where the
//! workload makes more of that (a closed loop of requests), more is done. For a bound that holds for each idle period of a
//! given run see the metrics `oracle.*`.
//!
//! # Differences from the kernel
//! No kernel has it. It is never late, so that no latency limit (`pm_qos`) binds it. Nothing else of the run is
//! prescient: placement, clocks and timers are as ever, but for placement every state is as quick to leave as any other.
//!
//! # Source
//! The idea of a clairvoyant optimum, as in offline analyses of power-down (S. Irani, S. Shukla, R. Gupta, 2003).

use super::{
    CpuidleState, IdleGovernor, IdleSelection, IdleSleep, IdleView, KTIME_MAX, StateTable, Tunable, is_disabled,
};
use wattif_model::ids::CpuId;
use wattif_model::platform::{Platform, PowerTable};

/// Tunables of `oracle`: none.
pub const TUNABLES: &[Tunable] = &[];

/// The lengths of all sleeps, by CPU.
#[derive(Clone, Debug)]
pub struct Foresight {
    lengths: Vec<Vec<u64>>,
    /// The sleep each CPU is at, counted from 1.
    at: Vec<usize>,
    recording: bool,
}

impl Foresight {
    /// Knows nothing, and takes notes.
    pub fn recording(nr_cpus: usize) -> Foresight {
        Foresight { lengths: vec![Vec::new(); nr_cpus], at: vec![0; nr_cpus], recording: true }
    }
    /// Knows what was noted.
    pub fn known(mut self) -> Foresight {
        self.recording = false;
        self.at.fill(0);
        self
    }
    /// A CPU begins its next sleep: its length, ns. The sleep in which the run ends is endless.
    pub fn next(&mut self, cpu: CpuId) -> Option<u64> {
        self.at[cpu.at()] += 1;
        self.now(cpu)
    }
    /// The length of the sleep the CPU is in.
    pub fn now(&self, cpu: CpuId) -> Option<u64> {
        let known = || self.lengths[cpu.at()].get(self.at[cpu.at()].wrapping_sub(1)).copied();
        (!self.recording).then(|| known().unwrap_or(u64::MAX / 4))
    }
    /// A sleep has ended.
    pub fn ended(&mut self, cpu: CpuId, length_ns: u64) {
        if self.recording {
            self.lengths[cpu.at()].push(length_ns);
        } else {
            debug_assert_eq!(self.now(cpu), Some(length_ns), "the second pass is the first again");
        }
    }
}

/// What sleeping costs a CPU.
#[derive(Clone, Debug, Default)]
pub struct Costs {
    power: PowerTable,
    /// There are powers of idle states.
    known: bool,
    /// Entry + exit by state, ns.
    transit_ns: Vec<u64>,
}

/// The costs of every CPU of a platform.
pub fn costs(platform: &Platform) -> Vec<Costs> {
    let of = |cpu: u32| Costs {
        power: platform.domain_of(CpuId(cpu)).power.clone(),
        known: platform.power.unit.has_idle(),
        transit_ns: platform.idle_states(CpuId(cpu)).iter().map(|s| s.actual.entry_ns + s.actual.exit_ns).collect(),
    };
    (0..platform.nr_cpus() as u32).map(of).collect()
}

/// The governor; see the module's manual.
#[derive(Clone, Debug)]
pub struct Oracle {
    costs: Vec<Costs>,
    states: Vec<StateTable>,
}

/// `oracle`, which has one generation: `""`. CPUs without costs go by the advertised latencies and residencies.
pub fn build(generation: &str, mut costs: Vec<Costs>, nr_cpus: usize) -> Option<Box<dyn IdleGovernor>> {
    costs.resize(nr_cpus, Costs::default());
    let governor = || Box::new(Oracle { costs, states: vec![StateTable::default(); nr_cpus] }) as Box<dyn IdleGovernor>;
    generation.is_empty().then(governor)
}

impl IdleGovernor for Oracle {
    fn enable(&mut self, cpu: CpuId, states: &[CpuidleState]) {
        self.states[cpu.at()] = StateTable::new(states);
    }

    fn select(&mut self, cpu: CpuId, view: &mut dyn IdleView) -> IdleSelection {
        let (states, costs) = (&self.states[cpu.at()], &self.costs[cpu.at()]);
        let Some(length_ns) = view.idle_length_ns() else {
            return IdleSelection { state: 0, stop_tick: true, predicted_ns: KTIME_MAX };
        };
        let transit_ns = |i: usize| costs.transit_ns.get(i).copied().unwrap_or(states[i].exit_latency_ns as u64);
        let fits = |i: &usize| !is_disabled(view.disable_mask(), *i) && transit_ns(*i) <= length_ns;
        let pays = |i: &usize| states[*i].target_residency_ns as u64 <= length_ns;
        let chosen = if costs.known {
            let energy = |i: &usize| costs.energy(*i, length_ns, view.opp());
            (0..states.len()).rev().filter(fits).min_by_key(energy)
        } else {
            (0..states.len()).rev().filter(fits).find(pays)
        };
        let state = chosen.or_else(|| (0..states.len()).find(|i| !is_disabled(view.disable_mask(), *i))).unwrap_or(0);
        IdleSelection { state, stop_tick: true, predicted_ns: i64::try_from(length_ns).unwrap_or(KTIME_MAX) }
    }

    fn reflect(&mut self, _cpu: CpuId, _sleep: &IdleSleep) {}

    fn debug_state(&self, _cpu: CpuId) -> String {
        String::new()
    }
}

impl Costs {
    /// Energy of a sleep that is left before its end, fJ.
    fn energy(&self, state: usize, length_ns: u64, opp: usize) -> u128 {
        let transit_ns = self.transit_ns[state];
        let inside = u128::from(length_ns - transit_ns) * u128::from(self.power.idle(state, opp));
        u128::from(transit_ns) * u128::from(self.power.busy(opp)) + inside
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::states;
    use super::*;

    struct Known(Option<u64>, u32);

    impl IdleView for Known {
        fn local_clock(&self) -> u64 {
            0
        }
        fn disable_mask(&self) -> u32 {
            self.1
        }
        fn latency_req_ns(&self) -> i64 {
            i64::MAX
        }
        fn tick_stopped(&self) -> bool {
            false
        }
        fn nr_iowait(&self) -> u32 {
            0
        }
        fn idle_length_ns(&self) -> Option<u64> {
            self.0
        }
        fn sleep_length(&mut self) -> super::super::SleepLength {
            unreachable!("it knows more than the timer")
        }
        fn random_u32(&mut self) -> u32 {
            unreachable!("nothing is left to chance")
        }
    }

    #[test]
    fn the_manuals_worked_example() {
        let power =
            PowerTable { busy_uw: vec![100_000], idle_uw: vec![vec![50_000], vec![5_000]], ..PowerTable::default() };
        let costs = Costs { power, known: true, transit_ns: vec![0, 200_000] };
        assert_eq!([costs.energy(0, 150_000, 0), costs.energy(1, 1_000_000, 0)], [7_500_000_000, 24_000_000_000]);
        let mut oracle = build("", vec![costs], 1).expect("one generation");
        oracle.enable(CpuId(0), &states(&[(1, 1), (100, 10_000)]));
        let mut state = |us: u64, mask| oracle.select(CpuId(0), &mut Known(Some(us * 1000), mask)).state;
        assert_eq!([state(150, 0), state(1_000, 0), state(1_000, 0b10), state(150, 0b01)], [0, 1, 0, 1]);
    }

    #[test]
    fn without_powers_the_residency_decides() {
        let mut oracle = build("", Vec::new(), 1).expect("one generation");
        oracle.enable(CpuId(0), &states(&[(1, 1), (100, 10_000)]));
        let mut state = |us: u64| oracle.select(CpuId(0), &mut Known(Some(us * 1000), 0)).state;
        assert_eq!([state(9_999), state(10_000)], [0, 1]);
    }

    #[test]
    fn foresight_tells_what_was_noted() {
        let mut f = Foresight::recording(1);
        assert_eq!(f.next(CpuId(0)), None);
        f.ended(CpuId(0), 7);
        let mut f = f.known();
        assert_eq!((f.next(CpuId(0)), f.now(CpuId(0))), (Some(7), Some(7)));
        f.ended(CpuId(0), 7);
        assert!(f.next(CpuId(0)).is_some_and(|ns| ns > 1 << 60), "the last sleep has no end");
    }
}
