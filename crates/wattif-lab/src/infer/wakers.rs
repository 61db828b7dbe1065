//! Who wakes whom, where records do not say whether they come from an interrupt.
//!
//! The thread that runs while another is woken need not have to do with it: an interrupt came. Then
//! - nobody is running (the CPU was idle): an interrupt;
//! - the woken thread is mostly woken from idle CPUs: interrupts, also when it is not;
//! - its wake-ups come at equal distances, and now this thread, now that one seems to wake it: a timer;
//! - the same, and whoever seems to wake it mostly has not slept since the wake-up before: it keeps no time that way, so a timer;
//! - the running thread never sleeps: it computes, and was interrupted.

use super::periods;
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::Pid;
use wattif_model::trace::{Event, PrevState, Recording};

/// Part of a thread's wake-ups at equal distances, and by one and the same thread, of 100.
const REGULAR: usize = 50;
const ONE_WAKER: usize = 60;

/// What is known of wakers.
pub(super) struct Wakers {
    flags: bool,
    /// Woken by interrupts, whoever runs.
    interrupted: BTreeSet<Pid>,
    /// Never blocked.
    hogs: BTreeSet<Pid>,
}

#[derive(Default)]
struct Woken {
    at: Vec<u64>,
    from_idle: usize,
    by: BTreeMap<Pid, usize>,
    /// By threads that had not slept since the wake-up before.
    by_awake: usize,
}

impl Woken {
    fn by_interrupts(&self) -> bool {
        let by_threads: usize = self.by.values().sum();
        let most = self.by.values().max().copied().unwrap_or(0);
        let distances = || self.at.windows(2).map(|w| w[1].saturating_sub(w[0])).collect();
        let unlikely = most * 100 < by_threads * ONE_WAKER || 2 * self.by_awake > by_threads;
        self.from_idle >= by_threads || unlikely && periods::most_frequent(distances(), REGULAR).is_some()
    }
}

impl Wakers {
    /// Looks through a recording.
    pub(super) fn of(recording: &Recording) -> Wakers {
        let flags = recording.has_irq_flags;
        if flags {
            return Wakers { flags, interrupted: BTreeSet::new(), hogs: BTreeSet::new() };
        }
        let (mut woken, mut ran) = (BTreeMap::<Pid, Woken>::new(), BTreeSet::new());
        // Since when, the last time.
        let mut blocked = BTreeMap::<Pid, u64>::new();
        for r in &recording.records {
            match r.event() {
                Some(&Event::SchedWaking { pid, in_irq, .. }) => {
                    let w = woken.entry(pid).or_default();
                    match r.current.filter(|c| c.0 != 0 && !in_irq) {
                        Some(waker) => {
                            *w.by.entry(waker).or_default() += 1;
                            let awake = |before: &u64| blocked.get(&waker).is_none_or(|at| at < before);
                            w.by_awake += usize::from(w.at.last().is_some_and(awake));
                        }
                        None => w.from_idle += 1,
                    }
                    w.at.push(r.at.0);
                }
                Some(&Event::SchedSwitch { prev_pid, prev_state, .. }) => {
                    ran.insert(prev_pid);
                    if prev_state != PrevState::Running {
                        blocked.insert(prev_pid, r.at.0);
                    }
                }
                _ => {}
            }
        }
        let interrupted = woken.into_iter().filter(|(_, w)| w.by_interrupts()).map(|(pid, _)| pid).collect();
        Wakers { flags, interrupted, hogs: ran.into_iter().filter(|pid| !blocked.contains_key(pid)).collect() }
    }

    /// Is it `waker`, who runs, that wakes `pid`?
    pub(super) fn wakes(&self, waker: Pid, pid: Pid) -> bool {
        waker.0 != 0 && (self.flags || !self.interrupted.contains(&pid) && !self.hogs.contains(&waker))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattif_model::trace::{Record, Recorded};
    use wattif_model::{CpuId, Ns};

    const MS: u64 = 1_000_000;

    fn record(at: u64, current: u32, event: Event) -> Record {
        Record { at: Ns(at), cpu: CpuId(0), current: Some(Pid(current)), event: Recorded::Event(event) }
    }
    fn waking(at: u64, current: u32, pid: u32) -> Record {
        let event = Event::SchedWaking { pid: Pid(pid), prio: 120, target_cpu: CpuId(0), in_irq: false };
        record(at, current, event)
    }
    fn blocks(at: u64, pid: u32) -> Record {
        let (next_pid, prev_state) = (Pid(0), PrevState::Sleeping);
        record(at, pid, Event::SchedSwitch { prev_pid: Pid(pid), prev_prio: 120, prev_state, next_pid, next_prio: 120 })
    }
    fn wakers(records: Vec<Record>) -> Wakers {
        Wakers::of(&Recording { records, ..Recording::default() })
    }

    #[test]
    fn a_pipeline_is_regular_and_has_one_waker() {
        let records = (0..10).flat_map(|i| [waking(i * 10 * MS, 7, 8), blocks(i * 10 * MS + 5, 7)]);
        assert!(wakers(records.collect()).wakes(Pid(7), Pid(8)));
    }

    #[test]
    fn a_timer_interrupts_whoever_runs() {
        let records =
            (0..12).flat_map(|i| [waking(i * 10 * MS, 1 + i as u32 % 3, 8), blocks(i * MS, 1 + i as u32 % 3)]);
        assert!(!wakers(records.collect()).wakes(Pid(1), Pid(8)));
    }

    #[test]
    fn a_timer_interrupts_one_who_computes() {
        let regular = (0..12).map(|i| waking(i * 10 * MS, 7, 8));
        let hog = |regular| [vec![blocks(0, 7)], regular, vec![blocks(120 * MS, 7)]].concat();
        assert!(!wakers(hog(regular.collect())).wakes(Pid(7), Pid(8)));
        let now_and_then = (0..12).map(|i| waking(i * i * 10 * MS, 7, 8));
        assert!(wakers(hog(now_and_then.collect())).wakes(Pid(7), Pid(8)), "at no period");
    }

    #[test]
    fn who_never_sleeps_wakes_nobody() {
        let event = Event::SchedSwitch {
            prev_pid: Pid(9),
            prev_prio: 120,
            prev_state: PrevState::Running,
            next_pid: Pid(8),
            next_prio: 120,
        };
        let w = wakers(vec![waking(3, 9, 8), record(4, 9, event), waking(50, 7, 8), blocks(60, 7)]);
        assert!(!w.wakes(Pid(9), Pid(8)) && w.wakes(Pid(7), Pid(8)) && !w.wakes(Pid(0), Pid(8)));
    }
}
