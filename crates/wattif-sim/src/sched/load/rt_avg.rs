//! `rt_avg`: what real-time tasks and interrupts take of a CPU, over about a second (until 4.18).
//!
//! # Idea
//! What real-time tasks and interrupts take of a CPU is lost to fair tasks, and they come in bursts: how much it is shows over a
//! second. Time that they take is added up, the sum is halved every half second, and what is left of it, over the time that it
//! stands for, is their share. Since 4.19 the load tracker has an average of each class instead, which forgets in 32 ms.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | time run | ns | real-time class; deadline class, but for `4.9` | when the class accounts it |
//! | time in interrupts | ns | the CPU's clock | clock update |
//! | `freq_cap` | 0..=1024 | the machine | when the frequency changes |
//! | `this_bw` | 2^20 = 1 CPU | deadline class, `4.9` | a task joins the CPU or leaves it |
//!
//! # Decision
//! P is half of `sched_time_avg_ms`, 500 ms.
//! 1. Time that was taken is added, times `freq_cap`: what is slow takes less. `3.13`: as it is.
//! 2. While the clock is more than P past `age_stamp`: that moves on by P, and the sum is halved.
//! 3. The share is sum / (P + clock − `age_stamp`), of 1024.
//! 4. Balancing takes it off a CPU's capacity, at least 1 is left. In `4.9`, Android's, deadline tasks take what they are admitted
//!    to, over the CPU's capacity, whether they run or not; else they are in the sum. Schedutil of Android's 4.9 asks for the share,
//!    of the capacity, besides what fair tasks need.
//!
//! Worked example: a FIFO task takes the first 5 of every 10 ms at full speed. After 500 ms the sum is 250 ms over 1000: a quarter, not
//! half. It is halved 5 ms later, when the task has run again; after a second it is 127.5 + 245 over 1000, or 381 of 1024, after five
//! seconds 506, about half. When the task ends then, just before a halving, it is 421 after 100 ms, 253 after half a second, 126 after a
//! second. The load tracker has forgotten nearly all after 160 ms: 19 of 1024 are left.
//!
//! # State and cost
//! Two words per CPU. O(1), nothing to do while neither real-time task nor interrupt comes.
//!
//! # Where it fails
//! It is late both ways: for half a second a CPU's fair tasks seem to have twice what a real-time task that began has left them, and for a
//! second the frequency stays up for one that has ended.
//!
//! # Differences from the kernel
//! FIDELITY(rt-avg-halving): the kernel halves when time is added, when schedutil asks, and at ticks; here it is made up for whenever
//! somebody asks, so that nobody sees a halving that is late. Time that a hypervisor steals does not exist here.
//!
//! # Source
//! Linux 3.13 and 4.10, Android common kernel 4.9 `kernel/sched/core.c` and `sched.h` (`sched_avg_update`, `sched_rt_avg_update`), `fair.c`
//! (`scale_rt_power`, `scale_rt_capacity`), `cpufreq_schedutil.c` (behaviour). Frequency: commit b5b4860d1d61 (4.1); the end: the series
//! "sched/pelt: Track utilization of RT, DL and IRQ" (4.19).

use crate::registry::{Tunable, meant};
use crate::sched::rq::Rq;

/// Tunables of this policy.
pub const TUNABLES: &[Tunable] = &[Tunable {
    name: "generation",
    default: "4.19",
    allowed: &Generation::NAMES,
    doc: "what balancing and schedutil of 4.9 take the share of real-time tasks from: 3.13: time over about a second; 4.1: scaled by frequency; 4.9: Android's, where deadline tasks take what they are admitted to; 4.19: the load tracker",
}];

/// Half of `sched_time_avg_ms`, ns (`sched_avg_period`).
const PERIOD_NS: u64 = 500_000_000;

/// Eras.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Generation {
    /// Time, however fast the CPU is.
    V3_13,
    /// 4.1 to 4.18: times frequency.
    V4_1,
    /// Android's: deadline tasks take what they are admitted to.
    V4_9,
    /// 4.19 and later: nothing is added up here, the load tracker knows.
    #[default]
    V4_19,
}

impl Generation {
    /// The values of the tunable.
    pub const NAMES: [&'static str; 4] = ["3.13", "4.1", "4.9", "4.19"];

    /// From the tunable's value.
    pub fn parse(name: &str) -> Option<Generation> {
        use Generation::{V3_13, V4_1, V4_9, V4_19};
        meant(Generation::NAMES, [V3_13, V4_1, V4_9, V4_19], name)
    }
}

/// Of one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RtAvg {
    /// The same on every CPU.
    pub generation: Generation,
    /// ns, since 4.1 times 1024.
    sum: u64,
    /// ns.
    age_stamp: u64,
}

impl RtAvg {
    /// As it is at this time of the CPU's clock.
    #[doc(alias = "sched_avg_update")]
    fn aged(self, clock: u64) -> RtAvg {
        let past = clock.saturating_sub(self.age_stamp);
        let halvings = past.saturating_sub(1) / PERIOD_NS;
        let sum = self.sum.checked_shr(halvings.min(64) as u32).unwrap_or(0);
        RtAvg { sum, age_stamp: self.age_stamp + halvings * PERIOD_NS, ..self }
    }

    /// The sum, and the time that it stands for.
    fn sum_over(self, clock: u64) -> (u64, u64) {
        let now = self.aged(clock);
        (now.sum, PERIOD_NS + clock.saturating_sub(now.age_stamp))
    }
}

impl Rq {
    /// A real-time task or an interrupt has taken so many ns of the CPU.
    #[doc(alias = "sched_rt_avg_update")]
    #[inline]
    pub fn add_rt_avg(&mut self, ns: u64) {
        let scale = match self.rt_avg.generation {
            Generation::V3_13 => 1,
            Generation::V4_1 | Generation::V4_9 => u64::from(self.freq_cap),
            Generation::V4_19 => return,
        };
        self.rt_avg.sum += ns * scale;
        self.rt_avg = self.rt_avg.aged(self.clock);
    }

    /// A deadline task has taken so many ns of the CPU.
    pub fn add_dl_avg(&mut self, ns: u64) {
        if self.rt_avg.generation != Generation::V4_9 {
            self.add_rt_avg(ns);
        }
    }

    /// The share, of the CPU's capacity; `None`: the load tracker knows.
    pub fn rt_avg_util(&self) -> Option<u64> {
        let (sum, over) = self.rt_avg.sum_over(self.clock);
        let share = match self.rt_avg.generation {
            Generation::V3_13 => sum * 1024 / over,
            Generation::V4_1 | Generation::V4_9 => sum / over,
            Generation::V4_19 => return None,
        };
        Some((share * u64::from(self.cpu_capacity_orig)) >> 10)
    }

    /// What is left of 1024 for fair tasks; `None`: the load tracker knows.
    #[doc(alias = "scale_rt_power")]
    #[doc(alias = "scale_rt_capacity")]
    pub fn rt_avg_leaves(&self) -> Option<u64> {
        let (sum, over) = self.rt_avg.sum_over(self.clock);
        let deadline = match self.rt_avg.generation {
            Generation::V3_13 => return Some(over.saturating_sub(sum) / (over >> 10)),
            Generation::V4_1 => 0,
            Generation::V4_9 => self.dl.this_bw / u64::from(self.cpu_capacity_orig),
            Generation::V4_19 => return None,
        };
        Some(1024u64.saturating_sub(sum / over + deadline).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn rq(generation: Generation) -> Rq {
        let rt_avg = RtAvg { generation, ..RtAvg::default() };
        Rq { rt_avg, cpu_capacity_orig: 1024, freq_cap: 1024, ..Rq::default() }
    }

    /// A task that takes 5 of every 10 ms, until then.
    fn run(rq: &mut Rq, until_ms: u64) {
        while rq.clock < until_ms * MS {
            rq.clock += 5 * MS;
            rq.add_rt_avg(5 * MS);
            rq.clock += 5 * MS;
        }
    }

    fn util(rq: &Rq) -> u64 {
        rq.rt_avg_util().unwrap()
    }

    #[test]
    fn worked_example() {
        for generation in [Generation::V3_13, Generation::V4_1, Generation::V4_9] {
            let mut rq = rq(generation);
            let at = [500, 1000, 5000].map(|ms| {
                run(&mut rq, ms);
                util(&rq)
            });
            assert_eq!(at, [256, 381, 506], "{generation:?}");
            // 3.13 rounds what is left, later kernels what is taken.
            let left = if generation == Generation::V3_13 { 517 } else { 1024 - 506 };
            assert_eq!(rq.rt_avg_leaves(), Some(left), "{generation:?}");
            let mut after = |ms: u64| {
                rq.clock = (5000 + ms) * MS + 1;
                util(&rq)
            };
            assert_eq!([0, 100, 500, 1000].map(&mut after), [506, 421, 253, 126], "{generation:?}");
        }
        assert_eq!((rq(Generation::V4_19).rt_avg_util(), rq(Generation::V4_19).rt_avg_leaves()), (None, None));
    }

    #[test]
    fn a_slow_cpu_loses_less_since_4_1() {
        let half_speed = |generation| {
            let mut rq = Rq { freq_cap: 512, cpu_capacity_orig: 400, ..rq(generation) };
            run(&mut rq, 1000);
            (util(&rq), rq.rt_avg_leaves().unwrap())
        };
        assert_eq!(half_speed(Generation::V3_13), (381 * 400 / 1024, 642));
        assert_eq!(half_speed(Generation::V4_1), (190 * 400 / 1024, 1024 - 190));
    }

    #[test]
    fn deadline_tasks_take_what_they_run_or_what_they_are_admitted_to() {
        let left = |generation| {
            let mut rq = Rq { cpu_capacity_orig: 512, ..rq(generation) };
            rq.dl.this_bw = 1 << 18; // a quarter of a CPU of 1024
            rq.clock = 100 * MS;
            rq.add_dl_avg(100 * MS);
            rq.rt_avg_leaves().unwrap()
        };
        assert_eq!(left(Generation::V4_1), 1024 - 1024 * 100 / 600);
        assert_eq!(left(Generation::V4_9), 1024 - (1 << 18) / 512);
    }

    #[test]
    fn a_sleep_of_any_length_is_made_up_for() {
        let mut rq = rq(Generation::V4_1);
        run(&mut rq, 400);
        for s in 1..80u64 {
            rq.clock = s * 1000 * MS;
            // As the kernel does it, one after the other.
            let (mut sum, mut stamp) = (rq.rt_avg.sum, rq.rt_avg.age_stamp);
            while rq.clock - stamp > PERIOD_NS {
                (sum, stamp) = (sum / 2, stamp + PERIOD_NS);
            }
            let aged = rq.rt_avg.aged(rq.clock);
            assert_eq!((aged.sum, aged.age_stamp), (sum, stamp));
        }
        rq.clock = 0;
        assert_eq!(util(&rq), 200 * 1024 / 500, "a clock behind its stamp");
    }

    #[test]
    fn interrupts_count_when_the_clock_takes_them_off() {
        let mut rq = rq(Generation::V4_1);
        rq.irq_pending_ns = 50 * MS;
        crate::sched::load::pelt::update_rq_clock(&mut rq, 100 * MS);
        assert_eq!(util(&rq), 50 * 1024 / 600);
    }
}
