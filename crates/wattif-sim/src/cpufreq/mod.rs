//! Frequency governors: one file each, by their sysfs names.
//!
//! A governor serves one frequency domain and owns its state. The scheduler calls [`FreqGovernor::update_util`] wherever
//! the kernel calls `cpufreq_update_util`: enqueue, dequeue, tick, migration, decay of blocked utilisation. What it
//! returns is a request to the hardware; how long the transition takes is the machine's affair.

pub mod conservative;
pub mod cpufreq_governor;
pub mod freq_table;
pub mod interactive;
pub mod ondemand;
pub mod performance;
pub mod powersave;
pub mod schedutil;
pub mod userspace;

use crate::sched::load::walt_qti::WindowLoad;
pub use crate::sched::placement::cpu_util::CpuSignals;
use freq_table::{FreqEntry, FreqTable, Relation};
use wattif_model::ids::{CpuId, DomainId};
use wattif_model::platform::Platform;
use wattif_model::trace::FrequencyChoice;

/// Flags of a utilisation update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpdateFlags {
    /// A task that waited for I/O is being woken (`SCHED_CPUFREQ_IOWAIT`).
    pub iowait: bool,
    /// A deadline task ran (`SCHED_CPUFREQ_DL`); said by kernels up to 4.16.
    pub deadline: bool,
}

/// What a governor may read.
pub trait FreqView {
    /// Signals of a CPU now.
    fn signals(&self, cpu: CpuId) -> CpuSignals;

    /// By CPU, a number that is another one whenever [`FreqView::signals`] of the CPU may have changed, so that a governor need
    /// not look at CPUs on which nothing happened. Empty: not known, look.
    fn versions(&self) -> &[u64] {
        &[]
    }

    /// What schedtune adds on the CPU now, 0..=100 percent of what is missing to 1024.
    fn schedtune_boost_pct(&self, cpu: CpuId) -> i32 {
        let _ = cpu;
        0
    }

    /// What the vendor's additions to WALT say of the CPU; `None` without them.
    fn window_load(&self, cpu: CpuId) -> Option<WindowLoad> {
        let _ = cpu;
        None
    }

    /// Is `util_avg` a window's load (WALT) and no decaying average?
    fn tracks_windows(&self) -> bool {
        false
    }

    /// What real-time tasks and interrupts take of the CPU's capacity, over about a second; `None` where that is not kept.
    #[doc(alias = "rt_avg")]
    fn rt_avg_util(&self, cpu: CpuId) -> Option<u64> {
        let _ = cpu;
        None
    }

    /// `bw_dl` alone. Asked for at every update, also when no decision is due: override it where `signals` is dear.
    fn bw_dl(&self, cpu: CpuId) -> u64 {
        self.signals(cpu).bw_dl
    }

    /// How often the CPU's idle loop has stopped the tick, or found it stopped (`tick_nohz_get_idle_calls_cpu`).
    fn idle_calls(&self, cpu: CpuId) -> u64;

    /// Idle time of the CPU since the start of the run, µs, rounded down (`get_cpu_idle_time`; waiting for I/O counts as idle).
    fn idle_time_us(&self, cpu: CpuId) -> u64;
}

/// The domain as a governor sees it (`struct cpufreq_policy`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpufreqPolicy {
    /// Which domain.
    pub domain: DomainId,
    /// Its CPUs, ascending; at least one.
    pub cpus: Vec<CpuId>,
    /// Its frequencies.
    pub table: FreqTable,
    /// Lower limit, kHz.
    pub min: u32,
    /// Upper limit, kHz.
    pub max: u32,
    /// Lowest frequency of the hardware, kHz (`cpuinfo.min_freq`).
    pub cpuinfo_min: u32,
    /// Highest frequency of the hardware, kHz (`cpuinfo.max_freq`).
    pub cpuinfo_max: u32,
    /// Frequency last requested, kHz.
    pub cur: u32,
    /// Frequency at which capacity was measured, kHz; 0 when the architecture has none (`arch_scale_freq_ref`).
    pub freq_ref: u32,
    /// Utilisation is scaled by frequency (`arch_scale_freq_invariant`).
    pub freq_invariant: bool,
    /// The driver's transition latency, ns; 0 unknown.
    pub transition_latency_ns: u64,
    /// The driver's own rate limit, µs; 0 none.
    pub transition_delay_us: u64,
    /// Tick period, ns (`TICK_NSEC`).
    pub tick_ns: u64,
}

impl CpufreqPolicy {
    /// Of a platform's domain: limits are the hardware's, utilisation is frequency-invariant, `cur` is the highest frequency.
    pub fn of_domain(platform: &Platform, domain: DomainId, tick_ns: u64) -> CpufreqPolicy {
        let d = &platform.domains[domain.at()];
        let entries: Vec<FreqEntry> = d.opps.iter().map(|o| FreqEntry { khz: o.khz, inefficient: false }).collect();
        let table = FreqTable::new(&entries, false);
        let (lowest, highest) = (table.lowest(), table.highest());
        CpufreqPolicy {
            domain,
            cpus: d.cpus.iter().collect(),
            table,
            min: lowest,
            max: highest,
            cpuinfo_min: lowest,
            cpuinfo_max: highest,
            cur: highest,
            freq_ref: highest,
            freq_invariant: true,
            transition_latency_ns: d.transition_latency_ns,
            transition_delay_us: d.transition_delay_ns.unwrap_or(0) / 1000,
            tick_ns,
        }
    }

    /// `cpufreq_driver_resolve_freq`: the frequency that a wish of `target_khz` leads to.
    #[doc(alias = "cpufreq_driver_resolve_freq")]
    pub fn resolve_freq(&self, target_khz: u32) -> u32 {
        self.table.resolve(target_khz, self.min, self.max, Relation::LE)
    }

    /// `__cpufreq_driver_target`: request a frequency; `None` when it is the current one.
    #[doc(alias = "__cpufreq_driver_target")]
    pub fn driver_target(&mut self, target_khz: u32, relation: Relation) -> Option<u32> {
        let khz = self.table.resolve(target_khz, self.min, self.max, relation);
        (khz != self.cur).then(|| {
            self.cur = khz;
            khz
        })
    }

    /// `cpufreq_policy_apply_limits`: set the limits and bring the current frequency within them.
    #[doc(alias = "cpufreq_policy_apply_limits")]
    pub fn apply_limits(&mut self, min_khz: u32, max_khz: u32) -> Option<u32> {
        (self.min, self.max) = (min_khz, max_khz);
        if self.max < self.cur {
            self.driver_target(self.max, Relation::HE)
        } else if self.min > self.cur {
            self.driver_target(self.min, Relation::LE)
        } else {
            None
        }
    }

    /// Rate limit of the driver in µs by the rule of 6.12 and later (`cpufreq_policy_transition_delay_us`).
    #[doc(alias = "cpufreq_policy_transition_delay_us")]
    pub fn transition_delay_us(&self) -> u64 {
        match (self.transition_delay_us, self.transition_latency_ns / 1000) {
            (0, 0) => 1000,
            (0, latency) => latency + (latency >> 1), // half as long again to breathe
            (delay, _) => delay,
        }
    }

    /// The same from 4.14 to 6.8: a thousand times the latency, at most 10 ms. (6.9 to 6.11, which no profile stands for, had 2 ms
    /// or the latency, whichever is more, in the place of 10 ms.)
    #[doc(alias = "cpufreq_policy_transition_delay_us")]
    pub fn transition_delay_us_6_1(&self) -> u64 {
        match (self.transition_delay_us, self.transition_latency_ns / 1000) {
            (0, 0) => 1000,
            (0, latency) => (latency * 1000).min(10_000),
            (delay, _) => delay,
        }
    }

    /// The same before 4.14: a thousand times the latency, however long that is; drivers had no word in it.
    pub fn transition_delay_us_4_9(&self) -> u64 {
        match self.transition_latency_ns / 1000 {
            0 => 1000,
            latency => latency * 1000,
        }
    }
}

/// A frequency governor of one domain. Every method that may decide returns the frequency to request, kHz.
pub trait FreqGovernor {
    /// Takes charge of the domain; state begins anew. Called once before everything else, and the limits are as in `policy`.
    fn start(&mut self, policy: CpufreqPolicy, now_ns: u64, view: &dyn FreqView) -> Option<u32>;

    /// Utilisation of `cpu`, one of the domain, may have changed. Called very often; returns at once when nothing is due.
    /// Unless told otherwise, a governor that samples does so if it is time, and another does nothing.
    fn update_util(&mut self, now_ns: u64, cpu: CpuId, flags: UpdateFlags, view: &dyn FreqView) -> Option<u32> {
        let _ = (cpu, flags);
        if self.sample_due(now_ns) { self.sample(now_ns, view) } else { None }
    }

    /// Does it hear only of what a CPU does to its own queue? Until 4.14 `cfs_rq_util_change` was silent about the queues of other CPUs;
    /// the next update that such a CPU makes itself tells, if a PELT period has passed by then. And until 4.16 real-time and deadline
    /// tasks were told of where they had run (`update_curr_rt`, `update_curr_dl`), not where they came and went.
    fn hears_own_updates_only(&self) -> bool {
        false
    }

    /// Does it hear of every update of a busy CPU, not only of those at which averages changed?
    fn hears_every_update(&self) -> bool {
        false
    }

    /// Does it look at CPUs that leave idleness, and wake those that stay there, see [`FreqGovernor::wake_idle_at`]?
    fn wakes_idle_cpus(&self) -> bool {
        false
    }

    /// When `cpu`, one of the domain, is to be woken if it is idle until then, ns.
    fn wake_idle_at(&self, cpu: CpuId) -> Option<u64> {
        let _ = cpu;
        None
    }

    /// The limits became `min_khz..=max_khz`.
    fn limits(&mut self, min_khz: u32, max_khz: u32) -> Option<u32>;

    /// For governors that sample: time from a sample until the next is due, ns. The scheduler asks them
    /// [`FreqGovernor::sample_due`] at each update of utilisation instead of [`FreqGovernor::update_util`], which samples at
    /// once.
    fn sampling_interval_ns(&self) -> Option<u64> {
        None
    }

    /// Is a sample due? If so it counts as asked for, and [`FreqGovernor::sample`] follows when a worker gets to it.
    fn sample_due(&mut self, now_ns: u64) -> bool {
        let _ = now_ns;
        false
    }

    /// Takes a sample and decides, whether due or not.
    fn sample(&mut self, now_ns: u64, view: &dyn FreqView) -> Option<u32> {
        let _ = (now_ns, view);
        None
    }

    /// The domain as this governor left it.
    fn policy(&self) -> &CpufreqPolicy;

    /// The last request with its inputs.
    fn choice(&self) -> FrequencyChoice;
}

/// A request of a governor that has no inputs.
pub(crate) fn choice_without_inputs(domain: DomainId, prev_khz: u32, next_khz: u32) -> FrequencyChoice {
    FrequencyChoice { domain, next_khz, prev_khz, util: 0, util_avg: 0, util_est: 0, runnable_avg: 0, iowait_boost: 0 }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A domain of CPUs `0..nr`, 500, 800, 1000 MHz, at 500.
    pub(crate) fn policy(nr: u32) -> CpufreqPolicy {
        let entries = [500_000, 800_000, 1_000_000].map(|khz| FreqEntry { khz, inefficient: false });
        CpufreqPolicy {
            cpus: (0..nr).map(CpuId).collect(),
            table: FreqTable::new(&entries, false),
            min: 500_000,
            max: 1_000_000,
            cpuinfo_min: 500_000,
            cpuinfo_max: 1_000_000,
            cur: 500_000,
            freq_ref: 1_000_000,
            freq_invariant: true,
            tick_ns: 4_000_000,
            ..CpufreqPolicy::default()
        }
    }

    /// Every CPU looks the same.
    #[derive(Default)]
    pub(crate) struct Fixed {
        pub signals: CpuSignals,
        pub idle_calls: u64,
        pub idle_time_us: u64,
        pub windows: bool,
        pub boost_pct: i32,
        pub load: Option<WindowLoad>,
        pub rt_avg_util: Option<u64>,
    }

    impl FreqView for Fixed {
        fn schedtune_boost_pct(&self, _: CpuId) -> i32 {
            self.boost_pct
        }
        fn window_load(&self, _: CpuId) -> Option<WindowLoad> {
            self.load
        }
        fn tracks_windows(&self) -> bool {
            self.windows
        }
        fn rt_avg_util(&self, _: CpuId) -> Option<u64> {
            self.rt_avg_util
        }
        fn signals(&self, _: CpuId) -> CpuSignals {
            self.signals
        }
        fn idle_calls(&self, _: CpuId) -> u64 {
            self.idle_calls
        }
        fn idle_time_us(&self, _: CpuId) -> u64 {
            self.idle_time_us
        }
    }

    #[test]
    fn rate_limit_of_the_driver() {
        let with =
            |delay, latency| CpufreqPolicy { transition_delay_us: delay, transition_latency_ns: latency, ..policy(1) };
        let both = |p: CpufreqPolicy| (p.transition_delay_us(), p.transition_delay_us_6_1());
        assert_eq!(both(with(700, 50_000)), (700, 700));
        assert_eq!(both(with(0, 50_000)), (75, 10_000));
        assert_eq!(both(with(0, 0)), (1000, 1000));
        assert_eq!([50_000, 0].map(|latency| with(700, latency).transition_delay_us_4_9()), [50_000, 1000]);
    }

    #[test]
    fn limits_move_the_current_frequency() {
        let mut p = policy(1);
        assert_eq!(p.apply_limits(600_000, 1_000_000), Some(800_000));
        assert_eq!(p.apply_limits(500_000, 700_000), Some(500_000));
        assert_eq!(p.apply_limits(500_000, 900_000), None);
    }
}
