//! Scheduler features, by the kernel's names (`kernel/sched/features.h`): switches of a kernel profile.

macro_rules! features {
    ($($(#[$doc:meta])* $field:ident = $name:literal: $default:literal;)*) => {
        /// Which features are on. Defaults are those of 6.12.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Features { $($(#[$doc])* pub $field: bool,)* }

        impl Default for Features {
            fn default() -> Features {
                Features { $($field: $default,)* }
            }
        }

        impl Features {
            /// Every feature's name and default.
            pub const ALL: &'static [(&'static str, bool)] = &[$(($name, $default),)*];

            /// Sets a feature by name; false when there is none of that name.
            pub fn set(&mut self, name: &str, on: bool) -> bool {
                match name {
                    $($name => self.$field = on,)*
                    _ => return false,
                }
                true
            }
        }
    };
}

features! {
    /// CFS gives a sleeper at most half a latency of credit.
    gentle_fair_sleepers = "GENTLE_FAIR_SLEEPERS": true;
    /// CFS starts a new task at the end of the current period.
    start_debit = "START_DEBIT": true;
    /// CFS: the period grows with the tasks of the CPU, not with the entities of the queue.
    alt_period = "ALT_PERIOD": true;
    /// CFS: no slice is shorter than `min_granularity_ns`.
    base_slice = "BASE_SLICE": true;
    /// Prefer the woken task at the next pick.
    next_buddy = "NEXT_BUDDY": false;
    /// EEVDF: what is preferred is picked while it is eligible: the group that a task was just in, too (6.15).
    pick_buddy = "PICK_BUDDY": true;
    /// CFS: prefer the preempted task when it runs on.
    last_buddy = "LAST_BUDDY": true;
    /// A wake-up may preempt.
    wakeup_preemption = "WAKEUP_PREEMPTION": true;
    /// `select_idle_cpu` limits its scan by average idle time.
    sis_prop = "SIS_PROP": false;
    /// `select_idle_cpu` limits its scan by utilisation.
    sis_util = "SIS_UTIL": true;
    /// `wake_affine` looks at idleness.
    wa_idle = "WA_IDLE": true;
    /// `wake_affine` compares loads.
    wa_weight = "WA_WEIGHT": true;
    /// `wake_affine` bias towards the previous CPU.
    wa_bias = "WA_BIAS": true;
    /// Estimated utilisation.
    util_est = "UTIL_EST": true;
    /// EEVDF: keep the lag over a sleep.
    place_lag = "PLACE_LAG": true;
    /// EEVDF: half a slice for a new task.
    place_deadline_initial = "PLACE_DEADLINE_INITIAL": true;
    /// EEVDF: keep a relative deadline over a migration.
    place_rel_deadline = "PLACE_REL_DEADLINE": true;
    /// EEVDF: a picked task runs until its lag is zero or its slice is used.
    run_to_parity = "RUN_TO_PARITY": true;
    /// EEVDF: a shorter slice may preempt in spite of that.
    preempt_short = "PREEMPT_SHORT": true;
    /// EEVDF: a task that sleeps with negative lag stays queued until it is picked.
    delay_dequeue = "DELAY_DEQUEUE": true;
    /// EEVDF: a delayed task loses its lag when it leaves.
    delay_zero = "DELAY_ZERO": true;
    /// Load balance ignores loads below 16 while it fails.
    lb_min = "LB_MIN": false;
    /// A newly idle CPU throws dice whether to look for tasks, the odds being its success so far.
    ni_random = "NI_RANDOM": true;
    /// Real-time limit: a CPU borrows what others have left of the period.
    rt_runtime_share = "RT_RUNTIME_SHARE": false;
    /// A CPU whose real-time task leaves does not pull; overloaded CPUs are interrupted one after the other, and push.
    rt_push_ipi = "RT_PUSH_IPI": true;
    /// Deadline tasks are throttled when their budget ends, not at the tick after that.
    hrtick_dl = "HRTICK_DL": false;
    /// A CPU of another cache, and since 6.0 an idle one, queues a woken thread itself, see [`super::ttwu_queue`].
    ttwu_queue = "TTWU_QUEUE": true;
}
