//! Idle governors: one file each, by their sysfs names.
//!
//! The idle loop asks the governor of the run which state to enter ([`IdleGovernor::select`]), lets the machine sleep,
//! and reports what came of it ([`IdleGovernor::reflect`]). A governor keeps its per-CPU state in itself; what it may
//! know of the kernel it reads through [`IdleView`], where the time to the next timer is a query of its own because it
//! is the expensive one, and whether a governor asks is part of its behaviour.
//!
//! FIDELITY(lpm-levels): Snapdragons of the time had a driver that chose by itself, the cluster's state apart from the CPU's.

pub mod cpuidle_driver;
pub mod default_idle;
pub mod haltpoll;
pub mod ladder;
pub mod menu;
pub mod oracle;
pub mod pm_qos;
pub mod poll_state;
pub mod powernv;
pub mod teo;
pub mod teo_weighted;

use crate::registry::Tunable;
use std::ops::Deref;
use wattif_model::ids::CpuId;
pub use wattif_model::platform::CPUIDLE_STATE_MAX;
use wattif_model::platform::IdleState;
use wattif_model::trace::IdleWeights;

/// `latency_req_ns` where nothing limits the exit latency (`PM_QOS_RESUME_LATENCY_NO_CONSTRAINT`).
pub const NO_LATENCY_LIMIT: i64 = i64::MAX;
/// The latest time there is (`KTIME_MAX`), ns.
pub const KTIME_MAX: i64 = i64::MAX;
/// Idle durations up to this, ns, are too short for the next timer to be worth asking for (`RESIDENCY_THRESHOLD_NS`).
pub const RESIDENCY_THRESHOLD_NS: i64 = 15_000;

/// A governor by name; `generation` is one of the values its `TUNABLES` list, or empty for the default; `intervals`, which must
/// not be 0, is for those with a tunable of that name. `tick_ns` is the length of a tick (`TICK_NSEC`). `None` when the name or
/// the generation is unknown.
pub fn build(
    name: &str,
    generation: &str,
    intervals: usize,
    nr_cpus: usize,
    tick_ns: u64,
) -> Option<Box<dyn IdleGovernor>> {
    match name {
        "haltpoll" => haltpoll::build(generation, haltpoll::Tuning::default(), nr_cpus),
        "ladder" => ladder::build(generation, nr_cpus, tick_ns),
        "menu" => menu::build(generation, nr_cpus, tick_ns),
        "oracle" => oracle::build(generation),
        "teo" => teo::build(generation, intervals, nr_cpus, tick_ns),
        "teo_weighted" => {
            let tuning = teo_weighted::Tuning { intervals, ..teo_weighted::Tuning::default() };
            teo_weighted::build(generation, tuning, nr_cpus, tick_ns)
        }
        _ => None,
    }
}

/// Length of a tick, ns, at `hz` ticks a second, rounded as the kernel does.
#[doc(alias = "TICK_NSEC")]
pub const fn tick_nsec(hz: u32) -> u64 {
    (1_000_000_000 + hz as u64 / 2) / hz as u64
}

/// An idle state as the driver advertises it (a part of `struct cpuidle_state`). Times are signed as in the kernel,
/// because a sleep length may be negative; these two never are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuidleState {
    /// Worst-case time from the wake-up to the first instruction, ns.
    pub exit_latency_ns: i64,
    /// A sleep shorter than this costs more than it saves, ns.
    pub target_residency_ns: i64,
    /// The CPU spins and looks for work (`CPUIDLE_FLAG_POLLING`).
    pub polling: bool,
}

impl From<&IdleState> for CpuidleState {
    fn from(s: &IdleState) -> CpuidleState {
        let ns = |v: u64| i64::try_from(v).unwrap_or(i64::MAX);
        CpuidleState {
            exit_latency_ns: ns(s.advertised.exit_ns),
            target_residency_ns: ns(s.advertised.residency_ns),
            polling: s.polling,
        }
    }
}

/// The states of a CPU, shallowest first: a governor's own copy, fixed while the governor is enabled.
#[derive(Clone, Copy, Debug, Default)]
pub struct StateTable {
    states: [CpuidleState; CPUIDLE_STATE_MAX],
    count: usize,
}

impl StateTable {
    /// From 1..=[`CPUIDLE_STATE_MAX`] states; any other number is a bug of the caller, who has checked the platform.
    pub fn new(states: &[CpuidleState]) -> StateTable {
        assert!((1..=CPUIDLE_STATE_MAX).contains(&states.len()), "{} idle states", states.len());
        let mut table = StateTable { count: states.len(), ..StateTable::default() };
        table.states[..states.len()].copy_from_slice(states);
        table
    }

    /// The nearest enabled state shallower than `idx` whose target residency is within `duration_ns`; else the
    /// shallowest enabled one; `idx` itself where none is enabled.
    #[doc(alias = "teo_find_shallower_state")]
    pub fn find_shallower_state(&self, disable_mask: u32, idx: usize, duration_ns: i64) -> usize {
        let mut found = idx;
        for i in (0..idx).rev().filter(|i| !is_disabled(disable_mask, *i)) {
            found = i;
            if self[i].target_residency_ns <= duration_ns {
                break;
            }
        }
        found
    }
}

impl Deref for StateTable {
    type Target = [CpuidleState];
    #[inline]
    fn deref(&self) -> &[CpuidleState] {
        &self.states[..self.count]
    }
}

/// Is state `i` switched off (`dev->states_usage[i].disable`)?
#[inline]
pub fn is_disabled(disable_mask: u32, i: usize) -> bool {
    disable_mask >> i & 1 == 1
}

/// The end of `menu` and `teo`: keep the tick where the sleep will be short, and then choose no state that does not pay
/// before it. `fit_ns` is the time to the next event with the tick as the search for that state reads it.
pub(crate) fn settle_tick(
    states: &StateTable,
    view: &dyn IdleView,
    tick_ns: i64,
    (idx, idx0): (usize, usize),
    duration_ns: i64,
    (delta_tick_ns, fit_ns): (i64, i64),
) -> IdleSelection {
    if view.tick_stopped() || !(states[idx].polling || duration_ns < tick_ns) {
        return IdleSelection { state: idx, stop_tick: true, predicted_ns: duration_ns };
    }
    let state = if idx > idx0 && states[idx].target_residency_ns > delta_tick_ns {
        states.find_shallower_state(view.disable_mask(), idx, fit_ns)
    } else {
        idx
    };
    IdleSelection { state, stop_tick: false, predicted_ns: duration_ns }
}

/// Time to the next timer (`tick_nohz_get_sleep_length`), from when the CPU came to the idle loop: after a poll that gave up, which
/// no interrupt ends, that is longer ago than now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SleepLength {
    /// To the next timer if the tick were stopped, ns; negative when it is overdue, [`KTIME_MAX`] when there is none.
    pub sleep_length_ns: i64,
    /// To the next timer or tick, ns.
    pub delta_tick_ns: i64,
}

/// What a governor may ask about the CPU that is about to sleep.
pub trait IdleView {
    /// The CPU's clock, ns.
    fn local_clock(&self) -> u64;
    /// Bit `i`: state `i` is switched off.
    fn disable_mask(&self) -> u32;
    /// The longest tolerable exit latency, ns, or [`NO_LATENCY_LIMIT`] (`cpuidle_governor_latency_req`).
    fn latency_req_ns(&self) -> i64;
    /// Has the tick been stopped by an earlier turn of this idle period (`tick_nohz_tick_stopped`)?
    fn tick_stopped(&self) -> bool;
    /// Tasks of this CPU that wait for I/O (`nr_iowait_cpu`).
    fn nr_iowait(&self) -> u32;
    /// Utilisation of the CPU and its capacity, 0..=1024 both (`sched_cpu_util`, `arch_scale_cpu_capacity`).
    fn cpu_util(&self) -> (u64, u64) {
        (0, 1024)
    }
    /// This sleep's length, and the state planned for it: known to nobody but the oracle in its second pass.
    fn foreseen(&self) -> Option<oracle::Foreseen> {
        None
    }
    /// Time to the next timer: expensive, to be asked at most once and only when needed.
    fn sleep_length(&mut self) -> SleepLength;
    /// The next number of the governor's own random stream.
    fn random_u32(&mut self) -> u32;
}

/// A governor's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleSelection {
    /// The state to enter.
    pub state: usize,
    /// May the tick be stopped?
    pub stop_tick: bool,
    /// The idle duration the choice rests on, ns; [`KTIME_MAX`] where the governor made no guess. For the trace only.
    pub predicted_ns: i64,
}

/// What came of a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleSleep {
    /// The state entered, which the driver may have demoted; `None` when it refused to enter any.
    pub entered: Option<usize>,
    /// Time in it as the idle loop measures it, ns; 0 when refused (`dev->last_residency_ns`).
    pub residency_ns: u64,
    /// A polling state gave up at its time limit.
    pub poll_time_limit: bool,
    /// The tick ended the sleep (`tick_nohz_idle_got_tick`).
    pub got_tick: bool,
    /// The CPU's clock at this report, ns.
    pub clock_ns: u64,
}

/// A cpuidle governor (`struct cpuidle_governor`). Neither `select` nor `reflect` allocates.
pub trait IdleGovernor: Send {
    /// Start afresh on a CPU with these states, as at boot; to be called before anything else.
    fn enable(&mut self, cpu: CpuId, states: &[CpuidleState]);
    /// Choose a state for a CPU that has nothing to run.
    fn select(&mut self, cpu: CpuId, view: &mut dyn IdleView) -> IdleSelection;
    /// Learn what came of the last `select`; called after every one, with `entered: None` when the driver refused.
    fn reflect(&mut self, cpu: CpuId, sleep: &IdleSleep);
    /// For how long the polling state shall poll, ns, where the idle loop would poll for `poll_time_ns`
    /// ([`poll_state::Generation::cpuidle_poll_time`]).
    fn poll_limit_ns(&mut self, _cpu: CpuId, poll_time_ns: u64) -> u64 {
        poll_time_ns
    }
    /// What the last `select` has learned, for governors that keep weights; for the trace only.
    fn learned(&self, _cpu: CpuId) -> Option<IdleWeights> {
        None
    }
    /// The per-CPU state as text in the format of the golden vectors; for `verify` and debugging.
    fn debug_state(&self, cpu: CpuId) -> String;
}

/// `items` separated by `;`, the list format of [`IdleGovernor::debug_state`].
pub(crate) fn list(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(";")
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// A view with fixed answers that counts the timer queries.
    pub struct FakeView {
        pub clock_ns: u64,
        pub disable_mask: u32,
        pub latency_req_ns: i64,
        pub tick_stopped: bool,
        pub sleep: SleepLength,
        pub random: u32,
        pub cpu_util: u64,
        pub nr_iowait: u32,
        pub queries: u32,
    }

    impl FakeView {
        pub fn timer_in(sleep_length_ns: i64) -> FakeView {
            let sleep = SleepLength { sleep_length_ns, delta_tick_ns: sleep_length_ns.min(4_000_000) };
            let (latency_req_ns, tick_stopped) = (NO_LATENCY_LIMIT, false);
            FakeView {
                clock_ns: 0,
                disable_mask: 0,
                latency_req_ns,
                tick_stopped,
                sleep,
                random: 0,
                cpu_util: 0,
                nr_iowait: 0,
                queries: 0,
            }
        }
    }

    impl IdleView for FakeView {
        fn local_clock(&self) -> u64 {
            self.clock_ns
        }
        fn disable_mask(&self) -> u32 {
            self.disable_mask
        }
        fn latency_req_ns(&self) -> i64 {
            self.latency_req_ns
        }
        fn tick_stopped(&self) -> bool {
            self.tick_stopped
        }
        fn nr_iowait(&self) -> u32 {
            self.nr_iowait
        }
        fn cpu_util(&self) -> (u64, u64) {
            (self.cpu_util, 1024)
        }
        fn sleep_length(&mut self) -> SleepLength {
            self.queries += 1;
            self.sleep
        }
        fn random_u32(&mut self) -> u32 {
            self.random
        }
    }

    /// States from (exit latency, target residency) in µs; the first one polls if its latency is 0.
    pub fn states(us: &[(i64, i64)]) -> Vec<CpuidleState> {
        let state = |&(exit, residency): &(i64, i64)| CpuidleState {
            exit_latency_ns: exit * 1000,
            target_residency_ns: residency * 1000,
            polling: exit == 0,
        };
        us.iter().map(state).collect()
    }

    /// A sleep of `residency_ns` in `state`, ended by an interrupt.
    pub fn slept(state: usize, residency_ns: u64, clock_ns: u64) -> IdleSleep {
        IdleSleep { entered: Some(state), residency_ns, poll_time_limit: false, got_tick: false, clock_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{FakeView, states};
    use super::*;
    use crate::registry::POLICIES;
    use wattif_model::kernel::Slot;

    #[test]
    fn shallower_state_skips_disabled_ones() {
        let table = StateTable::new(&states(&[(0, 0), (2, 2), (10, 20), (133, 600)]));
        let check = |mask, idx, us: i64, expect| {
            assert_eq!(table.find_shallower_state(mask, idx, us * 1000), expect);
        };
        check(0, 3, 100, 2);
        check(0b0100, 3, 100, 1);
        check(0, 3, -1, 0);
        check(0b0111, 3, 100, 3);
    }

    #[test]
    fn tick_lengths_are_the_kernels() {
        assert_eq!([100, 250, 300, 1000].map(tick_nsec), [10_000_000, 4_000_000, 3_333_333, 1_000_000]);
    }

    /// Every governor with every generation it lists, on every kind of sleep: it answers with a state that exists and,
    /// unless all are disabled, is enabled where its vectors promise so (`ladder` and `haltpoll` do not look).
    #[test]
    fn every_generation_survives_hostile_inputs() {
        let tables = [
            states(&[(1, 1)]),
            states(&[(0, 0), (30, 80)]),
            states(&[(0, 0), (1, 1), (2, 20), (5, 50), (10, 100), (100, 1000), (200, 2000)]),
            states(&[(0, 0), (0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, 7), (8, 8)]),
        ];
        let governors = POLICIES.iter().filter(|p| p.slot == Slot::Cpuidle && p.selectable);
        let all = governors.flat_map(|governor| {
            let generations = governor.tunable("generation").map_or(&[""][..], |t| t.allowed);
            generations.iter().map(move |v| (governor.name, *v))
        });
        let mut built = 0;
        for (name, generation) in all {
            for table in &tables {
                let mut governor = build(name, generation, teo::INTERVALS, 2, 4_000_000)
                    .unwrap_or_else(|| panic!("{name} {generation}"));
                survive(governor.as_mut(), name, table);
                built += 1;
            }
        }
        assert!(built >= 8 * tables.len(), "every generation was built, not {built}");
        assert!(build("teo", "7.9", 8, 1, 1).is_none() && build("theo", "", 8, 1, 1).is_none());
    }

    fn survive(governor: &mut dyn IdleGovernor, name: &str, table: &[CpuidleState]) {
        let cpu = CpuId(1);
        governor.enable(cpu, table);
        let mut x = 1u64;
        let mut next = || {
            // Knuth's multiplier: any full-period generator will do.
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            x >> 33
        };
        let mut clock_ns = 0;
        for step in 0..3000 {
            let lengths = [KTIME_MAX, i64::MIN, -1, 0, 1, 9_000, 70_000, 3_000_000, 500_000_000];
            let mut view = FakeView::timer_in(lengths[next() as usize % lengths.len()]);
            view.clock_ns = clock_ns;
            view.random = (next() * 3) as u32;
            view.tick_stopped = next() % 4 == 0;
            view.cpu_util = next() % 40;
            view.latency_req_ns = [NO_LATENCY_LIMIT, NO_LATENCY_LIMIT, 0, 2500][next() as usize % 4];
            view.disable_mask = if step / 500 % 2 == 1 { next() as u32 & 0x3ff } else { 0 };
            let chosen = governor.select(cpu, &mut view);
            assert!(chosen.state < table.len().max(2), "{name}: state {} of {}", chosen.state, table.len());
            assert!(view.queries <= 1, "{name} asks once at most");
            let residency_ns = [0, 1, 12_000, 80_000, 5_000_000, u64::MAX / 4][next() as usize % 6];
            clock_ns = clock_ns.wrapping_add(residency_ns);
            let entered = (next() % 8 != 0).then_some(chosen.state.min(table.len() - 1));
            let (poll_time_limit, got_tick) = (next() % 5 == 0, next() % 5 == 0);
            governor.reflect(cpu, &IdleSleep { entered, residency_ns, poll_time_limit, got_tick, clock_ns });
        }
    }
}
