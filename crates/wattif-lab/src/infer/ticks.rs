//! When the CPUs of a recording tick.
//!
//! The CPUs of a simulation tick together, at multiples of a tick from its start; a trace begins at any time between two of them. For a thread
//! with a period of whole ticks it makes all the difference whether it wakes up before or after one, since a tick preempts. So a replay
//! begins later than its trace by what brings the recorded ticks to ours.
//!
//! Kernels have no tracepoint for ticks of busy CPUs. What shows are threads that are switched out although they could go on, and nobody was
//! woken there a moment before: most of that happens at one and the same phase, if the tick has the length that the machine says.

use super::steps::densest;
use std::collections::BTreeMap;
use wattif_model::trace::{Event, PrevState, Recording};
use wattif_model::{CpuId, Pid};

/// Fewer preemptions tell nothing; so many of 100 have to be within one part in so many of a tick.
const MIN_SEEN: usize = 16;
const OF_100: usize = 60;
const PART: u64 = 50;
/// Whoever is woken on a CPU preempts there within this time, ns.
const WOKEN_NS: u64 = 200_000;

/// By how much later a replay begins, ns: less than a tick, and 0 where no tick shows. `cost_ns`: from a tick to the switch after it.
pub(super) fn delay(recording: &Recording, tick_ns: u64, cost_ns: u64) -> u64 {
    let mut woken: BTreeMap<CpuId, u64> = BTreeMap::new();
    let mut phases: Vec<u64> = Vec::new();
    for r in &recording.records {
        match r.event() {
            Some(Event::SchedWaking { target_cpu, .. } | Event::SchedWakeup { target_cpu, .. }) => {
                woken.insert(*target_cpu, r.at.0);
            }
            Some(&Event::SchedSwitch { prev_pid, prev_state: PrevState::Running, next_pid, .. })
                if prev_pid != Pid(0)
                    && next_pid != Pid(0)
                    && woken.get(&r.cpu).is_none_or(|at| at.saturating_add(WOKEN_NS) < r.at.0) =>
            {
                phases.push(r.at.0 % tick_ns);
            }
            _ => {}
        }
    }
    let Some(tick) = usual(phases, tick_ns) else { return 0 };
    let phase = (tick + tick_ns - cost_ns % tick_ns) % tick_ns;
    // As good as none is none: traces of simulations begin with a tick.
    let near = tick_ns / PART;
    if phase <= near || phase + near >= tick_ns { 0 } else { tick_ns - phase }
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
        let of = |phase| delay(&preempted((0..40).map(at_ticks(phase)), PrevState::Running), 4 * MS, 4_000);
        let near = |got: u64, expect: u64| assert!(got.abs_diff(expect) < 5_000, "{got} is not about {expect}");
        near(of(MS + 4_000), 3 * MS);
        assert_eq!(of(3_990_000), 0, "as good as there");
        assert_eq!(of(4_000), 0, "from one of our ticks on");
        assert_eq!(delay(&preempted((0..40).map(at_ticks(MS)), PrevState::Sleeping), 4 * MS, 0), 0, "who sleeps");
        assert_eq!(delay(&preempted((0..9).map(at_ticks(MS)), PrevState::Running), 4 * MS, 0), 0, "too few");
        let unlike = preempted((0..40).map(|i| i * i * 7_919_333), PrevState::Running);
        assert_eq!(delay(&unlike, 4 * MS, 0), 0, "another length of the tick");
    }

    #[test]
    fn who_was_woken_preempts_without_a_tick() {
        let mut r = preempted((0..40).map(|i| 4 * MS * i + MS), PrevState::Running);
        let waking = |r: &Record| {
            let event = Event::SchedWaking { pid: Pid(2), prio: 120, target_cpu: CpuId(1), in_irq: true };
            Record { at: Ns(r.at.0 - 5_000), event: Recorded::Event(event), ..*r }
        };
        r.records = r.records.iter().flat_map(|r| [waking(r), *r]).collect();
        assert_eq!(delay(&r, 4 * MS, 0), 0);
    }
}
