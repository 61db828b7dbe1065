//! schedtune: boosts and a preference for idle CPUs, by group of tasks (Android 3.18 to 4.19).
//!
//! # Idea
//! What the user sees deserves more than its history says. A group's boost adds to the utilisation that its tasks show to the
//! frequency governor and to placement a part of what is missing to the maximum; `prefer_idle` asks for an idle CPU rather than
//! for the cheapest. A touch on the screen raises the boost of the top application for some seconds, because what comes next is
//! an animation.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | utilisation of task or CPU | 1024ths | load tracker | its updates |
//! | runnable fair tasks of a group on a CPU | tasks | fair queues | enqueue, dequeue |
//! | last touch | ns | workload | touch events |
//!
//! # Decision
//! 1. A workload that names none of the groups `/top-app`, `/foreground`, `/background`, `/system-background` is what the
//!    user sees, all of it, with what runs beside it: `boost_pct` and `prefer_idle`.
//! 2. In one that names some, the group of a task is the first part of its group's path; any other, and the root, which has the
//!    kernel's own threads, is `root`. A group without a value of its own has `boost_pct` and `prefer_idle`.
//! 3. Until `touch_ms` after a touch the boost of `/top-app` is `touch_boost_pct`, if that is more; so it is for everything in a
//!    workload that names no group.
//! 4. Positive boost: margin := boost · (1024 − signal) / 100; negative: boost · signal / 100.
//! 5. Boost of a CPU: the largest of the groups with runnable tasks there; not below 0. Where a workload names groups, the
//!    root's counts on every CPU.
//!
//! Worked example: a task of 100 shows 192 with a boost of 10 %, 562 with 50 %, and 50 with −50 %.
//!
//! # State and cost
//! The time of the last touch. O(groups) per question about a CPU.
//!
//! # Where it fails
//! A boost is paid whether or not anything was late. On a machine that is boosted anyway, trackers hardly differ.
//!
//! # Differences from the kernel
//! The power HAL that writes the boost on a touch is part of this policy. FIDELITY(schedtune): real-time tasks count for the root
//! group only; a group's boost ends with its last runnable task, not some ticks later.
//!
//! # Source
//! Android common kernel 4.9, `kernel/sched/tune.c` (behaviour); boosts of 10 % and on touch of 50 % for 3 s: "WALT vs PELT:
//! Redux", 2017.

use super::Sched;
use crate::registry::Tunable;
use wattif_model::CpuId;

/// Boosts allowed, percent.
const PCT: &[&str] = &["-100..=100", "same"];
const YES_NO: &[&str] = &["true", "false", "same"];

/// Tunables of this policy.
pub const TUNABLES: &[Tunable] = &[
    Tunable {
        name: "boost_pct",
        default: "0",
        allowed: &["-100..=100"],
        doc: "boost of what the user sees, percent: of everything in a workload that names no group, and of groups that are the same",
    },
    Tunable {
        name: "prefer_idle",
        default: "false",
        allowed: &["true", "false"],
        doc: "of the same: the first idle CPU that fits",
    },
    Tunable {
        name: "root_boost_pct",
        default: "same",
        allowed: PCT,
        doc: "boost of what is in none of the groups of a workload that names some, percent; same: boost_pct",
    },
    Tunable { name: "root_prefer_idle", default: "same", allowed: YES_NO, doc: "prefer_idle of the same" },
    Tunable {
        name: "top_app_boost_pct",
        default: "same",
        allowed: PCT,
        doc: "boost of /top-app, percent; same: boost_pct",
    },
    Tunable { name: "top_app_prefer_idle", default: "same", allowed: YES_NO, doc: "prefer_idle of /top-app" },
    Tunable { name: "foreground_boost_pct", default: "same", allowed: PCT, doc: "boost of /foreground, percent" },
    Tunable { name: "foreground_prefer_idle", default: "same", allowed: YES_NO, doc: "prefer_idle of /foreground" },
    Tunable { name: "background_boost_pct", default: "same", allowed: PCT, doc: "boost of /background, percent" },
    Tunable { name: "background_prefer_idle", default: "same", allowed: YES_NO, doc: "prefer_idle of /background" },
    Tunable {
        name: "touch_boost_pct",
        default: "0",
        allowed: &["0..=100"],
        doc: "boost of the top application after a touch, percent; 0: none",
    },
    Tunable { name: "touch_ms", default: "3000", allowed: &["0..=60000"], doc: "how long a touch boosts, ms" },
];

/// Groups with tunables of their own.
pub const GROUPS: [&str; 3] = ["top-app", "foreground", "background"];

/// A group that has the values of the root, but tells that a workload sorts its tasks.
const SYSTEM_BACKGROUND: &str = "system-background";

/// Does a workload with these groups say what is the top application and what is not?
pub fn names_groups<'a>(mut paths: impl Iterator<Item = &'a str>) -> bool {
    paths.any(|p| GROUPS.contains(&first_part(p)) || first_part(p) == SYSTEM_BACKGROUND)
}

/// Of a group's path the part that says which of [`GROUPS`] it is in.
pub fn first_part(path: &str) -> &str {
    path.trim_start_matches('/').split('/').next().unwrap_or("")
}

/// What is set for a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Boost, −100..=100 percent.
    pub boost_pct: i32,
    /// The first idle CPU that fits.
    pub prefer_idle: bool,
    /// A touch boosts it.
    pub touched: bool,
}

/// The policy.
#[derive(Clone, Debug, Default)]
pub struct Schedtune {
    /// By group of the workload; the root first.
    pub groups: Vec<Group>,
    /// Boost after a touch, percent.
    pub touch_boost_pct: i32,
    /// For how long, ns.
    pub touch_ns: u64,
    /// When the boost of the last touch ends, ns.
    pub boosted_until: u64,
}

impl Schedtune {
    /// Of these values for the root, then for [`GROUPS`], on the groups of a workload.
    pub fn new(set: [Group; 4], paths: &[&str]) -> Schedtune {
        let of = |path: &&str| GROUPS.iter().position(|g| *g == first_part(path)).map_or(0, |i| i + 1);
        let touched = usize::from(names_groups(paths.iter().copied()));
        let group = |path| {
            let i = of(path);
            Group { touched: i == touched, ..set[i] }
        };
        Schedtune { groups: paths.iter().map(group).collect(), ..Schedtune::default() }
    }

    /// Does it change anything?
    pub fn is_used(&self) -> bool {
        self.touch_boost_pct > 0 || self.groups.iter().any(|g| g.boost_pct != 0 || g.prefer_idle)
    }

    /// Boost of the tasks of a group now, percent.
    pub fn boost_pct(&self, group: u32, now: u64) -> i32 {
        let g = &self.groups[group as usize];
        if g.touched && now < self.boosted_until { g.boost_pct.max(self.touch_boost_pct) } else { g.boost_pct }
    }

    /// Boost of a CPU now, 0..=100 percent: the largest of the groups with runnable tasks, and the root's in any case, unless
    /// the root is all that the user sees.
    pub fn cpu_boost_pct(&self, s: &Sched, cpu: CpuId) -> i32 {
        let runnable = |g: u32| s.cfs[s.cfs_of(g, cpu)].h_nr_running;
        // A queue counts the tasks of the groups below it too; the root's own are what these leave.
        let below: u32 = (1..s.groups.len() as u32).filter(|&g| s.groups[g as usize].parent == 0).map(runnable).sum();
        let own = !self.groups[0].touched || runnable(0) > below || s.rqs[cpu.at()].rt.rt_nr_running > 0;
        let groups = (0..self.groups.len() as u32).filter(|&g| if g == 0 { own } else { runnable(g) > 0 });
        groups.map(|g| self.boost_pct(g, s.now)).max().unwrap_or(0).max(0)
    }
}

/// `schedtune_margin`: what a boost of −100..=100 percent adds to a signal of 0..=1024.
pub const fn schedtune_margin(signal: u64, boost_pct: i32) -> i64 {
    if boost_pct >= 0 {
        return 1024u64.saturating_sub(signal) as i64 * boost_pct as i64 / 100;
    }
    signal as i64 * boost_pct as i64 / 100
}

/// A signal with its margin; not below 0.
pub const fn boosted(signal: u64, boost_pct: i32) -> u64 {
    let sum = signal as i64 + schedtune_margin(signal, boost_pct);
    if sum < 0 { 0 } else { sum as u64 }
}

impl Sched {
    /// The user touched the screen.
    pub(crate) fn touch(&mut self) {
        if let Some(tune) = &mut self.schedtune {
            tune.boosted_until = self.now + tune.touch_ns;
            self.all_signals_change();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boosts_as_documented() {
        assert_eq!([boosted(100, 10), boosted(100, 50), boosted(100, -50)], [192, 562, 50]);
        assert_eq!((schedtune_margin(1024, 100), schedtune_margin(2000, 50)), (0, 0));
    }

    fn tune(paths: &[&str]) -> Schedtune {
        let root = Group { boost_pct: 5, ..Group::default() };
        let top = Group { boost_pct: 10, prefer_idle: true, ..Group::default() };
        let background = Group { boost_pct: -50, ..Group::default() };
        let new = Schedtune::new([root, top, root, background], paths);
        Schedtune { touch_boost_pct: 50, touch_ns: 3_000_000_000, ..new }
    }

    #[test]
    fn a_touch_boosts_the_top_application_for_a_while() {
        let mut t = tune(&["/", "/top-app/game", "/background", "/system"]);
        let all = |t: &Schedtune, now| [0, 1, 2, 3].map(|g| t.boost_pct(g, now));
        assert_eq!(all(&t, 0), [5, 10, -50, 5]);
        t.boosted_until = 3_000_000_000;
        assert_eq!(all(&t, 2_999_999_999), [5, 50, -50, 5]);
        assert_eq!(all(&t, 3_000_000_000), [5, 10, -50, 5]);
    }

    #[test]
    fn without_groups_the_user_sees_everything() {
        let mut t = tune(&["/"]);
        t.boosted_until = 1;
        assert_eq!((t.boost_pct(0, 0), t.boost_pct(0, 1)), (50, 5));
    }

    #[test]
    fn a_touch_is_not_for_what_is_in_no_group_of_a_workload_that_names_some() {
        for group in ["/background", "/system-background", "/foreground/x"] {
            let mut t = tune(&["/", group]);
            t.boosted_until = 1;
            assert_eq!(t.boost_pct(0, 0), 5, "{group}");
        }
    }

    #[test]
    fn a_cpu_has_the_largest_boost_of_its_runnable_tasks() {
        let mut s = Sched::bare(2, 4_000_000);
        let t = tune(&["/"]);
        assert_eq!(t.cpu_boost_pct(&s, CpuId(0)), 0);
        s.cfs[0].h_nr_running = 1;
        assert_eq!((t.cpu_boost_pct(&s, CpuId(0)), t.cpu_boost_pct(&s, CpuId(1))), (5, 0));
    }

    #[test]
    fn where_groups_are_named_the_root_boosts_every_cpu() {
        let s = Sched::bare(2, 4_000_000);
        let t = Schedtune { groups: tune(&["/", "/background"]).groups[..1].to_vec(), ..Schedtune::default() };
        assert_eq!(t.cpu_boost_pct(&s, CpuId(0)), 5);
    }
}
