//! When the CPUs of a recording tick.
//!
//! The CPUs of a simulation tick together, at multiples of a tick from its start; a trace begins at any time between two of them. For a thread
//! with a period of whole ticks it makes all the difference whether it wakes up before or after one, since a tick preempts. So a replay
//! begins later than its trace by what brings the recorded ticks to ours.
//!
//! Kernels have no tracepoint for ticks of busy CPUs. What shows are threads that are switched out although they could go on, and nobody was
//! woken there a moment before; and idle CPUs that woke up for no thread. Most of that happens at one and the same phase, if the tick
//! has the length that the machine says.

use super::steps::densest;
use std::collections::BTreeMap;
use wattif_model::platform::Platform;
use wattif_model::trace::{Event, PrevState, Recording};
use wattif_model::{CpuId, Pid};

/// Fewer preemptions tell nothing; so many of 100 have to be within one part in so many of a tick.
const MIN_SEEN: usize = 16;
const OF_100: usize = 60;
const PART: u64 = 50;
/// Whoever is woken on a CPU preempts there within this time, ns.
pub(super) const WOKEN_NS: u64 = 200_000;

/// From a tick to the next, ns.
pub(super) fn length(platform: &Platform) -> u64 {
    1_000_000_000 / u64::from(platform.hz.max(1))
}

/// By how much later a replay begins, ns: less than a tick; `None` where no tick shows.
pub(super) fn delay(recording: &Recording, platform: &Platform) -> Option<u64> {
    let tick_ns = length(platform);
    // From a tick to the switch after it.
    let cost_ns = platform.costs.timer_irq_ns + platform.costs.tick_ns;
    let mut woken: BTreeMap<CpuId, u64> = BTreeMap::new();
    // State of each sleeping CPU; and of those that left it since, when it was called, and what for is not seen yet.
    let mut asleep: BTreeMap<CpuId, u32> = BTreeMap::new();
    let mut called: BTreeMap<CpuId, u64> = BTreeMap::new();
    let mut phases: Vec<u64> = Vec::new();
    for r in &recording.records {
        match r.event() {
            Some(Event::SchedWaking { target_cpu, .. } | Event::SchedWakeup { target_cpu, .. }) => {
                woken.insert(*target_cpu, r.at.0);
            }
            Some(&Event::CpuIdle { state: Event::IDLE_EXIT }) => {
                if let Some(state) = asleep.remove(&r.cpu) {
                    let states = platform.idle_states(r.cpu);
                    let exit_ns = states.get(state as usize).map_or(0, |s| s.actual.exit_ns);
                    called.insert(r.cpu, r.at.0.saturating_sub(exit_ns));
                }
            }
            Some(&Event::CpuIdle { state }) => {
                asleep.insert(r.cpu, state);
                phases.extend(called.remove(&r.cpu).map(|at| at % tick_ns));
            }
            Some(&Event::SchedSwitch { prev_pid: Pid(0), .. }) => {
                called.remove(&r.cpu);
            }
            Some(&Event::SchedSwitch { prev_state: PrevState::Running, next_pid, .. })
                if next_pid != Pid(0) && woken.get(&r.cpu).is_none_or(|at| at.saturating_add(WOKEN_NS) < r.at.0) =>
            {
                phases.push((r.at.0 % tick_ns + tick_ns - cost_ns % tick_ns) % tick_ns);
            }
            _ => {}
        }
    }
    let phase = usual(phases, tick_ns)?;
    // As good as none is none: traces of simulations begin with a tick.
    let near = tick_ns / PART;
    Some(if phase <= near || phase + near >= tick_ns { 0 } else { tick_ns - phase })
}

/// The phase that most have.
fn usual(mut phases: Vec<u64>, tick_ns: u64) -> Option<u64> {
    phases.sort_unstable();
    let n = phases.len();
    // Around the turn of the tick once more.
    phases.extend_from_within(..);
    phases[n..].iter_mut().for_each(|p| *p += tick_ns);
    let most = &phases[densest(&phases, |_| tick_ns / PART)];
    (n >= MIN_SEEN && most.len() * 100 >= n * OF_100).then(|| most[most.len() / 2] % tick_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattif_model::Ns;
    use wattif_model::trace::{Record, Recorded};

    const MS: u64 = 1_000_000;

    /// `cost_ns` from a tick to the switch after it.
    fn machine(cost_ns: u64) -> Platform {
        let mut platform = crate::metrics::testbed::platform();
        platform.hz = 250;
        (platform.costs.timer_irq_ns, platform.costs.tick_ns) = (cost_ns, 0);
        platform
    }

    fn preempted(at: impl Iterator<Item = u64>, state: PrevState) -> Recording {
        let event = |by: u32| Event::SchedSwitch {
            prev_pid: Pid(1 + by),
            prev_prio: 120,
            prev_state: state,
            next_pid: Pid(2 - by),
            next_prio: 120,
        };
        let record = |(at, by): (u64, u32)| Record {
            at: Ns(at),
            cpu: CpuId(1),
            current: None,
            event: Recorded::Event(event(by)),
        };
        Recording { records: at.zip([0, 1].into_iter().cycle()).map(record).collect(), ..Recording::default() }
    }

    #[test]
    fn ticks_show_by_preemption() {
        let at_ticks = |phase: u64| move |i: u64| 4 * MS * (i * i % 97 + i) + phase + i % 7 * 500;
        let of = |phase| delay(&preempted((0..40).map(at_ticks(phase)), PrevState::Running), &machine(4_000));
        let near = |got: Option<u64>, expect: u64| {
            assert!(got.is_some_and(|got| got.abs_diff(expect) < 5_000), "{got:?} is not about {expect}");
        };
        near(of(MS + 4_000), 3 * MS);
        assert_eq!(of(3_990_000), Some(0), "as good as there");
        assert_eq!(of(4_000), Some(0), "from one of our ticks on");
        let none = |recording: Recording, why: &str| assert_eq!(delay(&recording, &machine(0)), None, "{why}");
        none(preempted((0..40).map(at_ticks(MS)), PrevState::Sleeping), "who sleeps");
        none(preempted((0..9).map(at_ticks(MS)), PrevState::Running), "too few");
        none(preempted((0..40).map(|i| i * i * 7_919_333), PrevState::Running), "another length of the tick");
    }

    #[test]
    fn ticks_show_by_idle_cpus_that_are_called_for_nothing() {
        let mut platform = machine(4_000);
        platform.clusters.iter_mut().for_each(|c| c.idle[1].actual.exit_ns = 300_000);
        let idle = |at: u64, state: u32| Record {
            at: Ns(at),
            cpu: CpuId(1),
            current: None,
            event: Recorded::Event(Event::CpuIdle { state }),
        };
        let sleeps = |i: u64| {
            let tick = 4 * MS * (i * i % 97 + i) + MS;
            [idle(tick + 300_000, Event::IDLE_EXIT), idle(tick + 310_000, 1)]
        };
        let mut r = Recording { records: (0..41).flat_map(sleeps).collect(), ..Recording::default() };
        assert_eq!(delay(&r, &platform), Some(3 * MS));
        let switch = preempted([0].into_iter(), PrevState::Running).records[0];
        let to_thread = Event::SchedSwitch {
            prev_pid: Pid(0),
            prev_prio: 120,
            prev_state: PrevState::Running,
            next_pid: Pid(1),
            next_prio: 120,
        };
        let ran = |exit: &Record| Record { at: exit.at, event: Recorded::Event(to_thread), ..switch };
        r.records = r.records.chunks(2).flat_map(|two| [two[0], ran(&two[0]), two[1]]).collect();
        assert_eq!(delay(&r, &platform), None, "for a thread");
    }

    #[test]
    fn who_was_woken_preempts_without_a_tick() {
        let mut r = preempted((0..40).map(|i| 4 * MS * i + MS), PrevState::Running);
        let waking = |r: &Record| {
            let event = Event::SchedWaking { pid: Pid(2), prio: 120, target_cpu: CpuId(1), in_irq: true };
            Record { at: Ns(r.at.0 - 5_000), event: Recorded::Event(event), ..*r }
        };
        r.records = r.records.iter().flat_map(|r| [waking(r), *r]).collect();
        assert_eq!(delay(&r, &machine(0)), None);
    }
}
