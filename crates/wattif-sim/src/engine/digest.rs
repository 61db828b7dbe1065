//! The digest of a run: 128 bits over its tracepoint events, to compare runs.
//!
//! Equal runs have equal digests on every machine; different runs differ with overwhelming probability. It is *not*
//! cryptographic: who wants to can construct a collision. It takes 1-2 ns a word, so it is always on.
//!
//! Only tracepoints that every run produces are covered. Decision, power and program events and the `pelt_*` records depend on
//! who listens, and are left out.

use wattif_model::ids::{CpuId, Pid};
use wattif_model::trace::{Event, PrevState};
use wattif_model::units::Ns;

/// Odd, with bits in no pattern: fractional bits of the golden ratio, √2 and √3.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
const INITIAL: [u64; 2] = [0x6a09_e667_f3bc_c909, 0xbb67_ae85_84ca_a73b];

/// A running digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    a: u64,
    b: u64,
    words: u64,
}

impl Default for Digest {
    fn default() -> Self {
        Digest::new()
    }
}

impl Digest {
    /// Of nothing yet.
    pub fn new() -> Digest {
        Digest { a: INITIAL[0], b: INITIAL[1], words: 0 }
    }

    /// Take a word. For a given word the step is a bijection of the state, and two words never lead from one state to the same.
    #[inline]
    pub fn word(&mut self, word: u64) {
        let product = u128::from(self.a ^ word) * u128::from(MULTIPLIER);
        self.a = self.b.rotate_left(29) ^ (product >> 64) as u64;
        self.b = (product as u64).wrapping_add(INITIAL[1]);
        self.words += 1;
    }

    /// Take an event; those outside the digest are ignored. `at` and `cpu` as an observer gets them.
    ///
    /// Always inlined: where the kind of event is known, little is left of the match.
    #[inline(always)]
    pub fn feed(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        match *event {
            Event::SchedSwitch { prev_pid, prev_prio, prev_state, next_pid, next_prio } => {
                self.head(at, cpu, 1, [prev_prio, next_prio, prev_state_code(prev_state)]);
                self.pair(prev_pid, next_pid.0);
            }
            Event::SchedWaking { pid, prio, target_cpu, in_irq: _ } => self.task(at, cpu, 2, pid, prio, target_cpu.0),
            Event::SchedWakeup { pid, prio, target_cpu, in_irq: _ } => self.task(at, cpu, 3, pid, prio, target_cpu.0),
            Event::SchedWakeupNew { pid, prio, target_cpu } => self.task(at, cpu, 4, pid, prio, target_cpu.0),
            Event::SchedMigrateTask { pid, prio, orig_cpu, dest_cpu } => {
                self.task(at, cpu, 5, pid, prio, dest_cpu.0);
                self.word(orig_cpu.0.into());
            }
            Event::SchedProcessFork { pid, child_pid } => self.task(at, cpu, 6, pid, 0, child_pid.0),
            Event::SchedProcessExit { pid, prio } => self.task(at, cpu, 7, pid, prio, 0),
            Event::CpuIdle { state } => self.task(at, cpu, 8, Pid(0), 0, state),
            Event::CpuIdleMiss { state, below } => self.task(at, cpu, 9, Pid(0), below.into(), state),
            Event::CpuFrequency { domain, khz, opp } => {
                self.task(at, cpu, 10, Pid(domain.0), 0, khz);
                self.word(opp.into());
            }
            // Told to those who listen, as the decisions are: the digest holds what the kernel did, not when it stopped ticking.
            Event::TickStop
            | Event::SchedProcessExec { .. }
            | Event::PeltCfs { .. }
            | Event::PeltSe { .. }
            | Event::WaltDemand { .. }
            | Event::CpuPower { .. }
            | Event::ClusterPower { .. }
            | Event::TimerWake { .. }
            | Event::RtappStats { .. }
            | Event::RtappConfigured { .. }
            | Event::ProgramStep { .. }
            | Event::Mark { .. }
            | Event::Touch { .. }
            | Event::DeviceDone { .. }
            | Event::CgroupAttachTask { .. }
            | Event::CfsThrottle { .. }
            | Event::CfsUnthrottle { .. }
            | Event::CfsPeriod { .. }
            | Event::DeadlineJob { .. }
            | Event::EnergyCandidate { .. }
            | Event::Placement(_)
            | Event::Frequency(_)
            | Event::Idle(_)
            | Event::IdlePeriod(_)
            | Event::IdleWeights(_)
            | Event::Balance(_)
            | Event::BalancePass(_)
            | Event::BalanceMoved { .. } => {}
        }
    }

    /// The digest so far, 32 hexadecimal digits.
    pub fn finish(&self) -> String {
        let mut end = self.clone();
        // The last words have not spread through the state yet.
        for _ in 0..4 {
            end.word(self.words);
        }
        format!("{:016x}{:016x}", end.a, end.b)
    }

    #[inline]
    fn task(&mut self, at: Ns, cpu: CpuId, tag: u8, who: Pid, prio: u8, other: u32) {
        self.head(at, cpu, tag, [prio, 0, 0]);
        self.pair(who, other);
    }

    #[inline]
    fn head(&mut self, at: Ns, cpu: CpuId, tag: u8, small: [u8; 3]) {
        let [x, y, z] = small;
        self.word(at.0);
        self.word(u64::from(cpu.0) << 32 | u64::from(u32::from_le_bytes([tag, x, y, z])));
    }

    #[inline]
    fn pair(&mut self, who: Pid, other: u32) {
        self.word(u64::from(who.0) << 32 | u64::from(other));
    }
}

/// Fixed numbers, so that a reordered enum does not change digests.
const fn prev_state_code(state: PrevState) -> u8 {
    match state {
        PrevState::Running => 0,
        PrevState::Sleeping => 1,
        PrevState::DiskSleep => 2,
        PrevState::Dead => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattif_model::trace::PowerLevel;

    fn of(events: &[(u64, u32, Event)]) -> String {
        let mut d = Digest::new();
        events.iter().for_each(|(at, cpu, e)| d.feed(Ns(*at), CpuId(*cpu), e));
        d.finish()
    }

    fn waking(pid: u32) -> Event {
        Event::SchedWaking { pid: Pid(pid), prio: 120, target_cpu: CpuId(3), in_irq: false }
    }

    #[test]
    fn fixed_values() {
        assert_eq!(of(&[]), EMPTY);
        assert_eq!(of(&[(5, 1, waking(2)), (6, 1, Event::CpuIdle { state: Event::IDLE_EXIT })]), TWO);
    }
    const EMPTY: &str = "aa722a691b6ad10819bab4f7320e4658";
    const TWO: &str = "06dcb485064494f1074ef958c0b8fb3f";

    #[test]
    fn every_field_and_the_order_count() {
        let base = of(&[(5, 1, waking(2)), (6, 1, waking(3))]);
        let others = [
            of(&[(6, 1, waking(3)), (5, 1, waking(2))]),
            of(&[(5, 1, waking(2)), (7, 1, waking(3))]),
            of(&[(5, 1, waking(2)), (6, 2, waking(3))]),
            of(&[(5, 1, waking(2)), (6, 1, waking(4))]),
            of(&[(5, 1, waking(2))]),
            of(&[
                (5, 1, waking(2)),
                (6, 1, Event::SchedWakeup { pid: Pid(3), prio: 120, target_cpu: CpuId(3), in_irq: true }),
            ]),
        ];
        assert!(others.iter().all(|o| *o != base));
    }

    #[test]
    fn what_only_observers_cause_is_ignored() {
        let extra = [
            Event::CpuPower { level: PowerLevel::Busy },
            Event::Mark { pid: Pid(1), mark: 0, began_ns: 3 },
            Event::PeltSe { pid: Pid(1), util_avg: 1, runnable_avg: 1, load_avg: 1 },
        ];
        let mut with: Vec<_> = extra.iter().map(|e| (4, 0, *e)).collect();
        with.push((5, 1, waking(2)));
        assert_eq!(of(&with), of(&[(5, 1, waking(2))]));
    }

    #[test]
    fn zero_words_do_not_stall() {
        let mut d = Digest::new();
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..10_000 {
            d.word(0);
            assert!(seen.insert(d.finish()));
        }
    }
}
