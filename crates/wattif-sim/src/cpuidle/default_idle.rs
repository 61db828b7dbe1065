//! Idle without a choice: what a CPU does that has one idle state, or no driver that knows of more.
//!
//! # Idea
//! Nobody has to be asked which state to enter. What remains is the tick: stopping it and starting it again costs something,
//! so it should be stopped only for sleeps that last. A CPU that its own tick woke up, and that has still nothing to do,
//! slept through to a tick once and will probably do so again.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | number of idle states | 1 to 10 | the platform | constant |
//! | the last sleep ended with the tick (`got_idle_tick`) | yes, no | the idle loop | every turn of it |
//! | the tick is stopped | yes, no | the idle loop | – |
//!
//! # Decision
//! For a CPU with one idle state:
//! 1. `governor`: the tick is stopped as the idle governor says, which means always.
//! 2. `after-tick`: the tick stays stopped if it is; otherwise it is stopped if it was what ended the sleep before, and kept if
//!    the CPU has only just become idle or something else woke it.
//!
//! Worked example, 250 Hz: a thread runs from 0.2 to 3.2 ms of every 10 ms. At 3.2 ms its CPU goes idle with the tick on; at 4 ms
//! the tick comes, balances load and ages utilisation, and is stopped; at 10.2 ms the thread wakes up and the tick goes on.
//!
//! # State and cost
//! One bit per CPU.
//!
//! # Where it fails
//! A thread with short sleeps of a fixed length never sees its CPU's tick stop, or sees one superfluous tick for every sleep.
//!
//! # Differences from the kernel
//! A driver with one state and no driver at all are one case here. Before this rule the kernel stopped the tick at once without a
//! driver, and with one it did what the governor said.
//!
//! # Source
//! Linux, `kernel/sched/idle.c` as of 2026 and its stable releases 6.1.192 and 6.12.117 (behaviour, as their traces show it:
//! every sleep of a thread's CPU is followed by exactly one tick): `idle_call_stop_or_retain_tick`.

use crate::registry::Tunable;

/// Tunables of this policy.
pub const TUNABLES: &[Tunable] = &[Tunable {
    name: "tick",
    default: "governor",
    allowed: &["governor", "after-tick"],
    doc: "when a CPU with one idle state stops its tick: as the governor says, or when a tick has woken it",
}];

/// The rule of [the module](self).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DefaultIdle {
    /// The governor decides.
    #[default]
    Governor,
    /// Only when a tick has ended the sleep before.
    AfterTick,
}

impl DefaultIdle {
    /// By the words of the tunable.
    pub fn parse(name: &str) -> Option<DefaultIdle> {
        match name {
            "governor" => Some(DefaultIdle::Governor),
            "after-tick" => Some(DefaultIdle::AfterTick),
            _ => None,
        }
    }

    /// Is the tick to be stopped for the sleep that begins? `wish` is the governor's.
    #[doc(alias = "idle_call_stop_or_retain_tick")]
    #[inline]
    pub fn stop_tick(self, wish: bool, nr_states: usize, got_idle_tick: bool, tick_stopped: bool) -> bool {
        match self {
            DefaultIdle::AfterTick if nr_states == 1 => got_idle_tick || tick_stopped,
            _ => wish,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
