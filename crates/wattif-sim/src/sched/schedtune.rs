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
//! | runnable fair tasks of a group on a CPU | tasks | `rq.schedtune_tasks` | enqueue, dequeue |
//! | last touch | ns | workload | touch events |
//!
//! # Decision
//! 1. A workload that names none of the groups `/top-app`, `/foreground`, `/background`, `/system-background` is what the
//!    user sees, all of it: `boost_pct` and `prefer_idle`.
//! 2. In one that names some, the group of a task is the first part of its group's path; any other is `root`. So are the machine's
//!    own threads in any workload. A group without a value of its own has `boost_pct` and `prefer_idle`.
//! 3. These groups are schedtune's: they have no shares, and their threads compete as those of the group above (the root) do. One with a
//!    file of the cpu controller (`cpu.weight`, `cpu.max` …) is a group there, too; one with `cpu.shares` 0 is none there under any kernel.
//! 4. Until `touch_ms` after a touch the boost of `/top-app` is `touch_boost_pct`, if that is more; so it is for everything in a
//!    workload that names no group.
//! 5. Positive boost: margin := boost · (1024 − signal) / 100; negative: boost · signal / 100.
//! 6. Boost of a CPU: the largest of the groups with runnable tasks there and of the root's; not below 0. The governor hears of a task
//!    before this does: the update of a wake-up is without its boost, and that of its going to sleep has it still.
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
//! group only, as in the trees of 2017; later ones count them for their own group, and hold its boost for 50 ms.
//!
//! # Source
//! Android common kernel 4.9, `kernel/sched/tune.c` (behaviour); boosts of 10 % and on touch of 50 % for 3 s: "WALT vs PELT:
//! Redux", 2017.

use super::Sched;
use super::task::Task;
use crate::registry::Tunable;
use wattif_model::{CpuId, Pid};

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
    paths.any(is_group)
}

/// Is this one of Android's groups, or below one?
pub fn is_group(path: &str) -> bool {
    GROUPS.contains(&first_part(path)) || first_part(path) == SYSTEM_BACKGROUND
}

/// Of a group's path the part that says which of [`GROUPS`] it is in.
pub fn first_part(path: &str) -> &str {
    path.trim_start_matches('/').split('/').next().unwrap_or("")
}

/// Groups of schedtune: the root, then [`GROUPS`].
pub const NR_GROUPS: usize = 1 + GROUPS.len();
/// The root, which has the machine's own threads.
pub const ROOT: usize = 0;
/// What the user sees.
const TOP_APP: usize = 1;

/// What is set for a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Boost, −100..=100 percent.
    pub boost_pct: i32,
    /// The first idle CPU that fits.
    pub prefer_idle: bool,
}

/// The policy.
#[derive(Clone, Debug, Default)]
pub struct Schedtune {
    /// The root, then [`GROUPS`].
    pub groups: [Group; NR_GROUPS],
    /// Index into `groups`, by group of the workload.
    pub of: Vec<usize>,
    /// Boost after a touch, percent.
    pub touch_boost_pct: i32,
    /// For how long, ns.
    pub touch_ns: u64,
    /// When the boost of the last touch ends, ns.
    pub boosted_until: u64,
}

impl Schedtune {
    /// Of these values for the root, for [`GROUPS`], and on the groups of a workload.
    pub fn new(groups: [Group; NR_GROUPS], paths: &[&str]) -> Schedtune {
        let named = names_groups(paths.iter().copied());
        let of = |path: &&str| match GROUPS.iter().position(|g| *g == first_part(path)) {
            _ if !named => TOP_APP,
            group => group.map_or(ROOT, |i| i + 1),
        };
        Schedtune { groups, of: paths.iter().map(of).collect(), ..Schedtune::default() }
    }

    /// The values of the groups that the workload's threads are in.
    pub fn used(&self) -> impl Iterator<Item = (usize, Group)> {
        (0..NR_GROUPS).filter(|g| self.of.contains(g)).map(|g| (g, self.groups[g]))
    }

    /// Does it change anything?
    pub fn is_used(&self) -> bool {
        self.touch_boost_pct > 0 || self.groups.iter().any(|g| g.boost_pct != 0 || g.prefer_idle)
    }

    /// Does a touch boost this group?
    pub fn is_touched(group: usize) -> bool {
        group == TOP_APP
    }

    /// The group of a task.
    pub fn group_of(&self, task: &Task) -> usize {
        if task.housekeeping { ROOT } else { self.of[task.group as usize] }
    }

    /// Boost of the tasks of a group now, percent.
    pub fn boost_pct(&self, group: usize, now: u64) -> i32 {
        let boost_pct = self.groups[group].boost_pct;
        if Schedtune::is_touched(group) && now < self.boosted_until {
            boost_pct.max(self.touch_boost_pct)
        } else {
            boost_pct
        }
    }

    /// Boost of a CPU with so many runnable tasks of each group now, 0..=100 percent: the largest of theirs and the root's.
    pub fn cpu_boost_pct(&self, tasks: &[u32; NR_GROUPS], now: u64) -> i32 {
        let counts = |&g: &usize| g == ROOT || tasks[g] > 0;
        (0..NR_GROUPS).filter(counts).map(|g| self.boost_pct(g, now)).max().unwrap_or(0).max(0)
    }
}

/// `schedtune_margin`: what a boost of −100..=100 percent adds to a signal of 0..=1024.
const fn schedtune_margin(signal: u64, boost_pct: i32) -> i64 {
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
    /// `schedtune_enqueue_task`, `schedtune_dequeue_task`: a fair task counts for its group where it is queued.
    pub(crate) fn schedtune_queued(&mut self, cpu: CpuId, pid: Pid, queued: bool) {
        let Some(tune) = &self.schedtune else { return };
        let task = &mut self.tasks[pid.at()];
        let group = if queued { task.policy.is_fair().then(|| tune.group_of(task)) } else { None };
        let before = std::mem::replace(&mut task.schedtune_group, group);
        let counts = &mut self.rqs[cpu.at()].schedtune_tasks;
        before.into_iter().for_each(|g| counts[g] -= 1);
        group.into_iter().for_each(|g| counts[g] += 1);
    }

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
    use wattif_model::workload::Policy;

    #[test]
    fn boosts_as_documented() {
        assert_eq!([boosted(100, 10), boosted(100, 50), boosted(100, -50)], [192, 562, 50]);
        assert_eq!((schedtune_margin(1024, 100), schedtune_margin(2000, 50)), (0, 0));
    }

    fn tune(paths: &[&str]) -> Schedtune {
        let root = Group { boost_pct: 5, ..Group::default() };
        let top = Group { boost_pct: 10, prefer_idle: true };
        let background = Group { boost_pct: -50, ..Group::default() };
        let new = Schedtune::new([root, top, root, background], paths);
        Schedtune { touch_boost_pct: 50, touch_ns: 3_000_000_000, ..new }
    }

    #[test]
    fn a_touch_boosts_the_top_application_for_a_while() {
        let mut t = tune(&["/", "/top-app/game", "/background", "/system"]);
        let all = |t: &Schedtune, now| [0, 1, 2, 3].map(|g| t.boost_pct(t.of[g], now));
        assert_eq!(all(&t, 0), [5, 10, -50, 5]);
        t.boosted_until = 3_000_000_000;
        assert_eq!(all(&t, 2_999_999_999), [5, 50, -50, 5]);
        assert_eq!(all(&t, 3_000_000_000), [5, 10, -50, 5]);
    }

    #[test]
    fn without_groups_the_user_sees_everything_but_the_machines_own_threads() {
        let mut t = tune(&["/", "/a"]);
        t.boosted_until = 1;
        let own = Task { housekeeping: true, ..Task::default() };
        for (task, expect) in
            [(Task::default(), [50, 10]), (Task { group: 1, ..Task::default() }, [50, 10]), (own, [5, 5])]
        {
            assert_eq!([0, 1].map(|now| t.boost_pct(t.group_of(&task), now)), expect);
        }
    }

    #[test]
    fn a_touch_is_not_for_what_is_in_no_group_of_a_workload_that_names_some() {
        for group in ["/background", "/system-background", "/foreground/x"] {
            let mut t = tune(&["/", group]);
            t.boosted_until = 1;
            assert_eq!(t.boost_pct(t.of[0], 0), 5, "{group}");
        }
    }

    #[test]
    fn a_cpu_has_the_largest_boost_of_its_runnable_tasks_and_the_roots() {
        let t = tune(&["/"]);
        assert_eq!([[0; 4], [3, 0, 0, 2], [0, 1, 0, 1]].map(|tasks| t.cpu_boost_pct(&tasks, 0)), [5, 5, 10]);
    }

    #[test]
    fn a_queued_task_counts_for_its_group_until_it_leaves() {
        let mut s = Sched::bare(2, 4_000_000);
        s.schedtune = Some(tune(&["/", "/background"]));
        let fifo = Task { policy: Policy::Fifo, ..Task::default() };
        s.tasks.extend([Task { group: 1, ..Task::default() }, fifo]);
        [1, 2].into_iter().for_each(|pid| s.schedtune_queued(CpuId(1), Pid(pid), true));
        assert_eq!([0, 1].map(|cpu| s.rqs[cpu].schedtune_tasks), [[0; 4], [0, 0, 0, 1]]);
        // What moves it to another group meanwhile has to take it off the queue first; it leaves what it counted for.
        s.tasks[1].group = 0;
        [1, 2].into_iter().for_each(|pid| s.schedtune_queued(CpuId(1), Pid(pid), false));
        assert_eq!(s.rqs[1].schedtune_tasks, [0; 4]);
    }
}
