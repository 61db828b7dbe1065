//! Interactive frequency governor: at once to a middle speed when a CPU gets busy, higher only if it stays busy.
//!
//! # Idea
//! Android's governor before schedutil. A touch makes a CPU busy after idling; waiting for averages would cost a frame. A
//! CPU whose load crosses a mark gets `hispeed_freq` at the next look; more is given only after it held that for a while,
//! and a speed is kept for a minimum time before it falls.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | idle time | µs | each CPU's idle loop | continuously |
//! | tick, jiffies | ns | the kernel's timer wheel | – |
//! | `cur`, `min`, `max` | kHz | the domain | requests, limits |
//!
//! # Decision
//! Each CPU for itself, at a utilisation update or a wake-up from idleness at least `timer_rate_us` after its last look:
//! 1. Adjusted load := sum of (busy time × the frequency it ran at) / time × 100; load := that / `cur`, per cent. Another CPU
//!    of the domain may have changed the frequency in between.
//! 2. Wanted speed by load: the lowest frequency at which the load would not exceed the `target_loads` of that frequency.
//! 3. Load ≥ `go_hispeed_load`, or boosted: at least `hispeed_freq`, and exactly that from below it. Otherwise from below
//!    `hispeed_freq` at most that.
//! 4. At or above `hispeed_freq` nothing rises further before `above_hispeed_delay` of the present speed has passed since
//!    the CPU looked that brought the domain there.
//! 5. A CPU whose wish is the domain's speed does not fall below the speed it last wanted before that was wanted for
//!    `min_sample_time_us`, by itself or, as of the domain's last change, by another CPU. Others fall at once.
//! 6. The domain runs at the highest speed that one of its CPUs wants.
//! 7. An idle CPU that wants more than the lowest speed is woken, to look again, `timer_rate_us` and `timer_slack_us` after its last
//!    look.
//!
//! `boost` keeps every CPU at `hispeed_freq` or above; a pulse (every `boostpulse_every_us`) does so for
//! `boostpulse_duration_us`, at once.
//!
//! Worked example, 500, 800, 1000 MHz, `hispeed_freq` 800, at 500: a CPU is 100 % busy for 20 ms: 800. 20 ms later still
//! 100 %, more than `above_hispeed_delay` after it wanted 800: 100 % of 800 at 90 % needs 889, so 1000. Then idle: 1000
//! for 80 ms, then 500.
//!
//! # State and cost
//! Eight numbers per CPU, and the times of the pulses. An update that is not due costs one comparison.
//!
//! # Where it fails
//! It knows the CPU, not the task: a task that moves takes no history along, and the new CPU starts low. Each spike of
//! load costs `min_sample_time` at `hispeed_freq`.
//!
//! # Differences from the kernel
//! FIDELITY(interactive-thread): the frequency changes when the look asks for it; in the kernel a real-time thread changes it. Kernels
//! before 4.9 look from timers of their own, and each CPU counts its times by itself. No vectors exist.
//!
//! # Source
//! Android common kernel 4.9 `drivers/cpufreq/cpufreq_interactive.c` (behaviour): `eval_target_freq`,
//! `cpufreq_interactive_get_policy_info`, `slack_timer_resched`; `Documentation/cpu-freq/governors.txt` of earlier ones.

use super::freq_table::Relation;
use super::{CpufreqPolicy, FreqGovernor, FreqView, UpdateFlags, choice_without_inputs};
use crate::registry::Tunable;
use wattif_model::ids::CpuId;
use wattif_model::trace::FrequencyChoice;

/// Tunables of this policy.
pub const TUNABLES: &[Tunable] = &[
    Tunable {
        name: "hispeed_freq_khz",
        default: "auto",
        allowed: &["auto", "0..=4294967295"],
        doc: "speed for a CPU that gets busy, kHz; auto: the highest",
    },
    Tunable { name: "go_hispeed_load", default: "99", allowed: &["0..=1000"], doc: "load that leads there, per cent" },
    Tunable {
        name: "above_hispeed_delay_us",
        default: "20000",
        allowed: &[Tunable::PAIRS],
        doc: "time at a speed of hispeed_freq or more before a higher one, µs; `20000 1000000:80000`: 80 ms from 1 GHz on",
    },
    Tunable {
        name: "target_loads",
        default: "90",
        allowed: &[Tunable::PAIRS_FROM_1],
        doc: "load not to be exceeded, per cent; `85 1000000:90`: 90 % from 1 GHz on",
    },
    Tunable {
        name: "min_sample_time_us",
        default: "80000",
        allowed: &["0..=60000000"],
        doc: "how long a speed is kept at least, µs",
    },
    Tunable {
        name: "timer_rate_us",
        default: "20000",
        allowed: &["1..=60000000"],
        doc: "time between two looks at a CPU, µs",
    },
    Tunable {
        name: "timer_slack_us",
        default: "80000",
        allowed: &["0..=60000000"],
        doc: "so much later than timer_rate_us an idle CPU whose speed may fall is woken, µs; 0: never",
    },
    Tunable { name: "boost", default: "0", allowed: &["0", "1"], doc: "1: hispeed_freq or more all the time" },
    Tunable {
        name: "boostpulse_every_us",
        default: "0",
        allowed: &["0..=60000000"],
        doc: "a pulse of boost every so often, as user space gives at a touch, µs; 0: never",
    },
    Tunable {
        name: "boostpulse_duration_us",
        default: "80000",
        allowed: &["0..=60000000"],
        doc: "how long a pulse lasts, µs",
    },
];

/// A value that depends on the frequency: that of the last step not above it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps(Vec<(u32, u64)>);

impl Steps {
    /// `value [kHz:value …]`, frequencies ascending.
    pub fn parse(text: &str) -> Option<Steps> {
        let mut words = text.split_whitespace();
        let mut steps = vec![(0, words.next()?.parse().ok()?)];
        for word in words {
            let (khz, value) = word.split_once(':')?;
            steps.push((khz.parse().ok()?, value.parse().ok()?));
        }
        let ascends = steps.windows(2).all(|w| w[0].0 < w[1].0);
        ascends.then_some(Steps(steps))
    }
    /// The same with values from 1 on: what is divided by.
    pub fn parse_from_1(text: &str) -> Option<Steps> {
        Steps::parse(text).filter(|steps| steps.0.iter().all(|s| s.1 > 0))
    }
    fn at(&self, khz: u32) -> u64 {
        self.0.iter().rev().find(|s| s.0 <= khz).map_or(1, |s| s.1)
    }
}

/// Tunables; the default is the kernel's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tunables {
    /// `None`: the highest frequency.
    pub hispeed_freq_khz: Option<u32>,
    /// Per cent.
    pub go_hispeed_load: u64,
    /// µs.
    pub above_hispeed_delay_us: Steps,
    /// Per cent.
    pub target_loads: Steps,
    /// µs.
    pub min_sample_time_us: u64,
    /// µs.
    pub timer_rate_us: u64,
    /// µs; 0: never.
    pub timer_slack_us: u64,
    /// All the time.
    pub boost: bool,
    /// µs; 0: never.
    pub boostpulse_every_us: u64,
    /// µs.
    pub boostpulse_duration_us: u64,
}

impl Default for Tunables {
    fn default() -> Tunables {
        Tunables {
            hispeed_freq_khz: None,
            go_hispeed_load: 99,
            above_hispeed_delay_us: Steps(vec![(0, 20_000)]),
            target_loads: Steps(vec![(0, 90)]),
            min_sample_time_us: 80_000,
            timer_rate_us: 20_000,
            timer_slack_us: 80_000,
            boost: false,
            boostpulse_every_us: 0,
            boostpulse_duration_us: 80_000,
        }
    }
}

/// What is known of a CPU (`struct cpufreq_interactive_cpuinfo`); times in µs.
#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    id: CpuId,
    looked_at: u64,
    /// Busy time since then × the frequency it ran at, as of the last sum.
    #[doc(alias = "cputime_speedadj")]
    busy_khz_us: u64,
    summed_at: u64,
    idle_us: u64,
    target_freq: u32,
    floor_freq: u32,
    /// When it wanted its floor, and when one of the domain did as of the last change there.
    loc_floor_val_time: u64,
    pol_floor_val_time: u64,
    /// When it last wanted no more than it may, and when who brought the domain to its speed did.
    loc_hispeed_val_time: u64,
    pol_hispeed_val_time: u64,
}

impl Cpu {
    /// Sums the busy time since the last sum, which ran at `khz`.
    fn update_load(&mut self, now: u64, idle_us: u64, khz: u32) {
        let busy = (now - self.summed_at).saturating_sub(idle_us - self.idle_us);
        self.busy_khz_us += busy * u64::from(khz);
        (self.summed_at, self.idle_us) = (now, idle_us);
    }
}

/// The governor of one domain.
#[derive(Clone, Debug, Default)]
pub struct Interactive {
    tunables: Tunables,
    policy: CpufreqPolicy,
    cpus: Vec<Cpu>,
    boost_until: u64,
    next_pulse: u64,
    prev_khz: u32,
    load: u64,
}

impl Interactive {
    /// A governor without a domain yet.
    pub fn new(tunables: Tunables) -> Interactive {
        Interactive { tunables, ..Interactive::default() }
    }

    fn hispeed_freq(&self) -> u32 {
        self.tunables.hispeed_freq_khz.unwrap_or(self.policy.max)
    }

    fn resolve(&self, khz: u64, relation: Relation) -> u32 {
        let khz = khz.min(u64::from(u32::MAX)) as u32;
        self.policy.table.resolve(khz, self.policy.min, self.policy.max, relation)
    }

    /// The lowest frequency at which a load stays within the target of that frequency. Targets differ by frequency, so the
    /// search may have to turn back.
    fn choose_freq(&self, loadadjfreq: u64) -> u32 {
        let (mut freq, mut freqmin, mut freqmax) = (self.policy.cur, 0, u32::MAX);
        loop {
            let prev = freq;
            freq = self.resolve(loadadjfreq / self.tunables.target_loads.at(freq), Relation::L);
            if freq > prev {
                freqmin = prev; // too low
                if freq >= freqmax {
                    freq = self.resolve(u64::from(freqmax) - 1, Relation::H);
                    if freq == freqmin {
                        return freqmax;
                    }
                }
            } else if freq < prev {
                freqmax = prev; // high enough
                if freq <= freqmin {
                    freq = self.resolve(u64::from(freqmin) + 1, Relation::L);
                    if freq == freqmax {
                        return freq;
                    }
                }
            }
            if freq == prev {
                return freq;
            }
        }
    }

    /// `eval_target_freq`: what CPU number `i` wants now; is the domain to look at the wishes of all?
    #[doc(alias = "eval_target_freq")]
    #[doc(alias = "cpufreq_interactive_timer")]
    fn look(&mut self, i: usize, now: u64, idle_us: u64) -> bool {
        let (cur, hispeed) = (self.policy.cur, self.hispeed_freq());
        let c = &mut self.cpus[i];
        c.update_load(now, idle_us, cur);
        let loadadjfreq = c.busy_khz_us / (now - c.looked_at).max(1) * 100;
        (c.looked_at, c.busy_khz_us) = (now, 0);
        self.load = loadadjfreq / u64::from(cur.max(1));
        let boosted = self.tunables.boost || now < self.boost_until;
        let by_load = self.choose_freq(loadadjfreq);
        let wanted = match self.load >= self.tunables.go_hispeed_load || boosted {
            true if cur < hispeed => hispeed,
            true => by_load.max(hispeed),
            false if cur < hispeed => by_load.min(hispeed),
            false => by_load,
        };
        let above_hispeed_delay = self.tunables.above_hispeed_delay_us.at(cur);
        if cur >= hispeed && wanted > cur && now - self.cpus[i].pol_hispeed_val_time < above_hispeed_delay {
            return false;
        }
        let wanted = self.resolve(wanted.into(), Relation::L);
        let c = &mut self.cpus[i];
        c.loc_hispeed_val_time = now;
        let validated = c.pol_floor_val_time.max(c.loc_floor_val_time);
        if wanted < c.floor_freq && c.target_freq >= cur && now - validated < self.tunables.min_sample_time_us {
            return false;
        }
        // A boost alone does not make a speed worth keeping.
        if !boosted || wanted > hispeed {
            c.floor_freq = wanted;
            if c.target_freq >= cur || wanted >= cur {
                c.loc_floor_val_time = now;
            }
        }
        let settled = c.target_freq == wanted && wanted <= cur;
        c.target_freq = wanted;
        !settled
    }

    /// `cpufreq_interactive_boost`: at least `hispeed_freq`, at once.
    #[doc(alias = "cpufreq_interactive_boost")]
    fn pulse(&mut self, now: u64) {
        self.next_pulse = now + self.tunables.boostpulse_every_us;
        self.boost_until = now + self.tunables.boostpulse_duration_us;
        let hispeed = self.hispeed_freq();
        for c in self.cpus.iter_mut().filter(|c| c.target_freq < hispeed) {
            (c.target_freq, c.pol_hispeed_val_time) = (hispeed, now);
        }
    }

    /// `cpufreq_interactive_adjust_cpu`: the highest wish of a CPU becomes the domain's frequency.
    #[doc(alias = "cpufreq_interactive_adjust_cpu")]
    fn speed_change(&mut self, now: u64, view: &dyn FreqView) -> Option<u32> {
        self.prev_khz = self.policy.cur;
        let wish = self.cpus.iter().map(|c| c.target_freq).max()?;
        let floor = self.cpus.iter().map(|c| c.loc_floor_val_time).max()?;
        let hispeed = self.cpus.iter().filter(|c| c.target_freq == wish).map(|c| c.loc_hispeed_val_time).min()?;
        self.cpus.iter_mut().for_each(|c| c.pol_floor_val_time = floor);
        let khz = self.policy.driver_target(wish, Relation::H)?;
        for c in &mut self.cpus {
            // What was busy until now ran at the old frequency.
            c.update_load(now, view.idle_time_us(c.id), self.prev_khz);
            c.pol_hispeed_val_time = hispeed;
        }
        Some(khz)
    }
}

impl FreqGovernor for Interactive {
    fn start(&mut self, policy: CpufreqPolicy, now_ns: u64, view: &dyn FreqView) -> Option<u32> {
        let now = now_ns / 1000;
        let fresh = |&id: &CpuId| Cpu {
            id,
            looked_at: now,
            busy_khz_us: 0,
            summed_at: now,
            idle_us: view.idle_time_us(id),
            target_freq: policy.cur,
            floor_freq: policy.cur,
            loc_floor_val_time: now,
            pol_floor_val_time: now,
            loc_hispeed_val_time: now,
            pol_hispeed_val_time: now,
        };
        self.cpus = policy.cpus.iter().map(fresh).collect();
        self.policy = policy;
        (self.boost_until, self.next_pulse) = (0, now + self.tunables.boostpulse_every_us);
        None
    }

    fn update_util(&mut self, now_ns: u64, cpu: CpuId, _flags: UpdateFlags, view: &dyn FreqView) -> Option<u32> {
        let now = now_ns / 1000;
        let pulse = self.tunables.boostpulse_every_us > 0 && now >= self.next_pulse;
        if pulse {
            self.pulse(now);
        }
        let i = self.cpus.iter().position(|c| c.id == cpu)?;
        let due = now - self.cpus[i].looked_at >= self.tunables.timer_rate_us;
        let asks = due && self.look(i, now, view.idle_time_us(cpu));
        if asks || pulse { self.speed_change(now, view) } else { None }
    }

    fn hears_own_updates_only(&self) -> bool {
        true
    }

    fn wakes_idle_cpus(&self) -> bool {
        self.tunables.timer_slack_us > 0
    }

    #[doc(alias = "slack_timer_resched")]
    fn wake_idle_at(&self, cpu: CpuId) -> Option<u64> {
        let c = self.cpus.iter().find(|c| c.id == cpu && c.target_freq > self.policy.min)?;
        let jiffies = |us: u64| (us * 1000).div_ceil(self.policy.tick_ns);
        let delay = jiffies(self.tunables.timer_rate_us + self.tunables.timer_slack_us);
        Some((c.looked_at * 1000 / self.policy.tick_ns + delay) * self.policy.tick_ns)
    }

    fn limits(&mut self, min_khz: u32, max_khz: u32) -> Option<u32> {
        self.prev_khz = self.policy.cur;
        let next = self.policy.apply_limits(min_khz, max_khz);
        let cur = self.policy.cur;
        self.cpus.iter_mut().for_each(|c| c.target_freq = c.target_freq.clamp(min_khz, max_khz).max(cur.min(max_khz)));
        next
    }

    fn policy(&self) -> &CpufreqPolicy {
        &self.policy
    }

    /// `util` is the load of the CPU looked at, in 1024ths.
    fn choice(&self) -> FrequencyChoice {
        let choice = choice_without_inputs(self.policy.domain, self.prev_khz, self.policy.cur);
        FrequencyChoice { util: (self.load * 1024 / 100) as u32, ..choice }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Fixed, policy};
    use super::*;

    /// A governor of one CPU at 500 MHz; each step is a time, µs, and how much of the time since the last step was idle, µs.
    /// What the frequency is after it, MHz.
    #[track_caller]
    fn check(tunables: Tunables, steps: &[(u64, u64, u32)]) {
        let mut g = Interactive::new(tunables);
        let mut view = Fixed::default();
        g.start(policy(1), 0, &view);
        for &(us, idle, mhz) in steps {
            view.idle_time_us += idle;
            g.update_util(us * 1000, CpuId(0), UpdateFlags::default(), &view);
            assert_eq!(g.policy().cur, mhz * 1000, "at {us} µs");
        }
    }

    fn at_800() -> Tunables {
        Tunables { hispeed_freq_khz: Some(800_000), ..Tunables::default() }
    }

    #[test]
    fn worked_example() {
        let busy_then_idle =
            [(10_000, 0, 500), (20_000, 0, 800), (40_000, 0, 1000), (80_000, 40_000, 1000), (120_000, 40_000, 500)];
        check(at_800(), &busy_then_idle);
    }

    #[test]
    fn above_hispeed_only_after_the_delay() {
        let slow = Tunables { above_hispeed_delay_us: Steps::parse("60000").unwrap(), ..at_800() };
        check(slow, &[(20_000, 0, 800), (40_000, 0, 800), (60_000, 0, 800), (80_000, 0, 1000)]);
        check(Tunables::default(), &[(20_000, 0, 1000)]); // hispeed_freq is the highest
    }

    #[test]
    fn moderate_load_follows_the_target() {
        // 60 % of 500 MHz: within 90 %; with a target of 50 % it takes 600, so 800 MHz.
        check(at_800(), &[(20_000, 8_000, 500)]);
        check(Tunables { target_loads: Steps::parse("50").unwrap(), ..at_800() }, &[(20_000, 8_000, 800)]);
        // From below at most hispeed_freq, whatever the load asks for.
        check(Tunables { target_loads: Steps::parse("40").unwrap(), ..at_800() }, &[(20_000, 2_000, 800)]);
    }

    #[test]
    fn boosts() {
        check(Tunables { boost: true, ..at_800() }, &[(20_000, 20_000, 800), (300_000, 280_000, 800)]);
        let pulses = Tunables { boostpulse_every_us: 500_000, boostpulse_duration_us: 100_000, ..at_800() };
        let idle = [(490_000, 490_000, 500), (500_000, 10_000, 800), (560_000, 60_000, 800), (700_000, 140_000, 500)];
        check(pulses, &idle);
    }

    /// CPU 0 raises the frequency from 500 to 800 MHz at 20 ms; CPU 1 looks at 25: four fifths of its time ran at 500.
    #[test]
    fn busy_time_counts_at_the_frequency_it_ran_at() {
        let (mut g, view) = (Interactive::new(at_800()), Fixed::default());
        g.start(policy(2), 0, &view);
        let mut load_at = |us: u64, cpu| {
            g.update_util(us * 1000, CpuId(cpu), UpdateFlags::default(), &view);
            (g.policy().cur, g.load)
        };
        assert_eq!(load_at(20_000, 0), (800_000, 100));
        assert_eq!(load_at(25_000, 1), (800_000, (4 * 500 + 800) / 5 * 100 / 800));
    }

    /// CPU 0 wants 1000 MHz at 20 ms and is idle then; CPU 1 wants it at 40. So CPU 0 keeps its wish until 120.
    #[test]
    fn a_floor_is_of_the_domain() {
        let (mut g, mut view) = (Interactive::new(Tunables::default()), Fixed::default());
        g.start(policy(2), 0, &view);
        let mut wish_at = |ms: u64, cpu, idle_time_us| {
            view.idle_time_us = idle_time_us;
            g.update_util(ms * 1_000_000, CpuId(cpu), UpdateFlags::default(), &view);
            g.cpus[0].target_freq / 1000
        };
        let wishes = [wish_at(20, 0, 0), wish_at(40, 1, 0), wish_at(105, 0, 85_000), wish_at(125, 0, 105_000)];
        assert_eq!(wishes, [1000, 1000, 1000, 500]);
    }

    /// At 800 MHz since 20 ms, content until 100: then more is wanted, and the speed is old enough.
    #[test]
    fn the_delay_counts_from_the_change() {
        let slow = Tunables { above_hispeed_delay_us: Steps::parse("60000").unwrap(), ..at_800() };
        check(slow, &[(20_000, 0, 800), (40_000, 8_000, 800), (60_000, 8_000, 800), (100_000, 0, 1000)]);
    }

    #[test]
    fn an_idle_cpu_that_wants_speed_is_woken() {
        let wakes_at = |timer_slack_us| {
            let (mut g, view) = (Interactive::new(Tunables { timer_slack_us, ..at_800() }), Fixed::default());
            g.start(policy(1), 0, &view);
            let before = g.wake_idle_at(CpuId(0));
            g.update_util(21_000_000, CpuId(0), UpdateFlags::default(), &view);
            (g.wakes_idle_cpus(), before, g.wake_idle_at(CpuId(0)))
        };
        // Jiffies of 4 ms: the fifth has begun, and 25 more.
        assert_eq!(wakes_at(80_000), (true, None, Some(120_000_000)));
        assert!(!wakes_at(0).0);
    }

    #[test]
    fn steps_by_frequency() {
        let steps = Steps::parse("85 800000:90 1000000:99").unwrap();
        assert_eq!([500_000, 800_000, 999_999, 1_000_000].map(|khz| steps.at(khz)), [85, 90, 90, 99]);
        for wrong in ["", "x", "85 90", "85 800000:", "85 800000:90 700000:95"] {
            assert_eq!(Steps::parse(wrong), None, "{wrong}");
        }
        // No delay is one, no target load is none.
        for zero in ["0", "90 500000:0"] {
            assert!(Steps::parse(zero).is_some() && Steps::parse_from_1(zero).is_none(), "{zero}");
        }
    }
}
