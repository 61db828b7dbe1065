//! The idle loop's own rule: the tick of a CPU without work, where the idle governor has no say in it.
//!
//! # Idea
//! Stopping the tick and starting it again costs something, so it should be stopped only for sleeps that last. Since 4.17 the
//! governor says whether this one will; before, the tick was stopped before anybody was asked. Where there is one idle state nobody
//! has to be asked which to enter. A CPU that its own tick woke up, and that has still nothing to do, slept through to a tick
//! once and will probably do so again.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | number of idle states | 1 to 10 | the platform | constant |
//! | the last sleep ended with the tick (`got_idle_tick`) | yes, no | the idle loop | every turn of it |
//! | the tick is stopped | yes, no | the idle loop | – |
//!
//! # Decision
//! The tick (`tick`):
//! 1. `governor`: it is stopped as the idle governor says, which for a CPU with one idle state means always.
//! 2. `after-tick`: as `governor` where there are several states. With one, it stays stopped if it is; otherwise it is stopped if it
//!    was what ended the sleep before, and kept if the CPU has only just become idle or something else woke it.
//! 3. `upfront`: it is stopped whenever the CPU becomes idle, and then the governor is asked. It knows of no tick: none is due before
//!    the next timer, and its rules for a tick that is stopped, which are younger, do not apply.
//!
//! Worked example, 250 Hz: a thread runs from 0.2 to 3.2 ms of every 10 ms. At 3.2 ms its CPU goes idle with the tick on; at 4 ms
//! the tick comes, balances load and ages utilisation, and is stopped; at 10.2 ms the thread wakes up and the tick goes on.
//!
//! # State and cost
//! One bit per CPU.
//!
//! # Where it fails
//! `upfront`: a CPU that sleeps for 100 µs pays for its tick as one that sleeps for a second, and one that entered too shallow a state
//! stays in it until its next timer.
//! A thread with short sleeps of a fixed length never sees its CPU's tick stop, or sees one superfluous tick for every sleep.
//!
//! # Differences from the kernel
//! FIDELITY(idle-drivers): a driver with one state and no driver at all are one case here. Before `after-tick` the kernel stopped the tick at once without a
//! driver, and with one it did what the governor said.
//!
//! FIDELITY(tick-upfront): in the kernel the tick stays if a timer of the timer wheel is due within one (timers of high resolution do not count),
//! or if RCU needs it; no thread here has such a timer.
//!
//! # Source
//! Linux, `kernel/sched/idle.c` as of 2026 and its stable releases 6.1.192 and 6.12.117 (behaviour, as their traces show it:
//! every sleep of a thread's CPU is followed by exactly one tick): `idle_call_stop_or_retain_tick`. `upfront`: before commits
//! ed98c3491998 and 554c8aa8ecad (2018, Linux 4.17).

use crate::registry::Tunable;

/// Tunables of this policy.
pub const TUNABLES: &[Tunable] = &[Tunable {
    name: "tick",
    default: "governor",
    allowed: &["governor", "after-tick", "upfront"],
    doc: "when an idle CPU stops its tick: as the governor says; if it has one idle state, when a tick has woken it; or before the governor is asked (up to 4.16)",
}];

/// The rule of [the module](self).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DefaultIdle {
    /// The governor decides.
    #[default]
    Governor,
    /// Only when a tick has ended the sleep before.
    AfterTick,
    /// Always, and before the governor is asked.
    Upfront,
}

impl DefaultIdle {
    /// By the words of the tunable.
    pub fn parse(name: &str) -> Option<DefaultIdle> {
        match name {
            "governor" => Some(DefaultIdle::Governor),
            "after-tick" => Some(DefaultIdle::AfterTick),
            "upfront" => Some(DefaultIdle::Upfront),
            _ => None,
        }
    }

    /// Is the tick to be stopped for the sleep that begins? `wish` is the governor's.
    #[doc(alias = "idle_call_stop_or_retain_tick")]
    #[inline]
    pub fn stop_tick(self, wish: bool, nr_states: usize, got_idle_tick: bool, tick_stopped: bool) -> bool {
        match self {
            DefaultIdle::Upfront => true,
            DefaultIdle::AfterTick if nr_states == 1 => got_idle_tick || tick_stopped,
            _ => wish,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upfront_heeds_no_wish() {
        let rule = DefaultIdle::parse("upfront").unwrap();
        assert!([1, 3].into_iter().all(|nr_states| rule.stop_tick(false, nr_states, false, false)));
    }

    #[test]
    fn one_tick_is_kept() {
        let rule = DefaultIdle::parse("after-tick").unwrap();
        assert!(!rule.stop_tick(true, 1, false, false), "just idle");
        assert!(rule.stop_tick(true, 1, true, false), "the tick woke it");
        assert!(rule.stop_tick(false, 1, false, true), "an interrupt, with the tick stopped");
        for wish in [false, true] {
            assert_eq!(rule.stop_tick(wish, 2, false, false), wish, "a choice is the governor's");
            assert_eq!(DefaultIdle::default().stop_tick(wish, 1, true, false), wish);
        }
    }
}
