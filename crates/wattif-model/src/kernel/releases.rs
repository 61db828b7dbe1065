//! Which profile a release is taken for.
//!
//! A profile is of one release and says what sets it apart from the profile before it, each line with the release that brought it.
//! From the release on that had half of that, a profile describes a kernel better than the one before it does: from there to its
//! own release it *holds*. Of these, a release is taken for the first that there is:
//!
//! 1. the profile of its own number;
//! 2. a profile that holds: 4.19.113 is taken for `linux-4.20`;
//! 3. the last one before it;
//! 4. the first one.
//!
//! Android's profiles are for its kernels, and preferred there. Where nothing tells whose kernel it is, one of them is taken only
//! if no other has the number.

use super::version;
use std::cmp::Reverse;

/// The first two numbers of a release.
pub type Release = (u32, u32);

/// Built-in profiles, and the first and the last release that each holds for. What is counted are lines of `kernels/*.toml`, one for
/// what stands in two of them; those for what a later stable release brought are left out.
pub const HOLDS: &[(&str, Release, Release)] = &[
    // Load is tracked since 3.8; since 3.11 that is what balancing and wake-ups compare.
    ("linux-3.13", (3, 11), (3, 13)),
    // 7 of 12: the deadline class (3.14), slices of cpu.max that a race keeps (3.16), groups without cpu_power, RT_PUSH_IPI, real-time tasks'
    // share by frequency (4.1), wake_affine by load_avg (4.3), speed in load tracking (4.4). Later: schedutil, a new task's first utilisation (4.7), the scan of single
    // CPUs (4.8), wake_cap (4.9), groups' spare capacity (4.10).
    ("linux-4.10", (4, 4), (4, 10)),
    // 9 of 18: PELT's divider, SIS_PROP, WA_IDLE (4.13), WA_WEIGHT and WA_BIAS, sampling of ondemand and conservative (4.14), which
    // CPUs fill room (4.15), recent_used_cpu, spare capacity beside other classes, deadline budgets at the CPU's speed (4.16).
    // Later: util_est, the tick of idle CPUs, poll_idle's limit, kicks for blocked load (4.17), slices of cpu.max that expire
    // (4.18), first utilisation by capacity, real-time tasks in PELT (4.19), misfit tasks, menu (4.20).
    ("linux-4.20", (4, 16), (4, 20)),
    // All: energy-aware placement.
    ("linux-5.0", (5, 0), (5, 0)),
    // 5 of 8: poll_idle's limit without other states, clock_pelt, no samples of util_est above capacity, who kicks idle CPUs, intervals
    // after active balance (5.1). Later: how boosts for I/O begin (5.2), clamps, what frequency eas expects (5.3).
    ("linux-5.3", (5, 1), (5, 3)),
    // All: menu, wake-ups that know SCHED_IDLE, clamps of groups, slices of cpu.max that do not expire, haltpoll's driver.
    ("linux-5.4", (5, 4), (5, 4)),
    // 5 of 9: groups by class in balancing and in find_idlest_group, wake_affine by load, UTIL_EST_FASTUP, poll_idle's state (5.5).
    // Later: SCHED_IDLE CPUs as good as idle ones, select_idle_sibling for per-CPU threads, capacity for real-time tasks and
    // for clamped ones (5.6).
    ("linux-5.6", (5, 5), (5, 6)),
    // All: select_idle_capacity in place of wake_cap, runnable time in the classes of groups.
    ("linux-5.7", (5, 7), (5, 7)),
    // 13 of 22: capacity for deadline tasks, find_idlest_group by utilisation (5.9), RT_RUNTIME_SHARE off (5.10), CPUPRI_HIGHER, pushes to
    // any allowed CPU, idle previous CPUs kept, poll_idle's state (5.11), limits of active balance and its intervals
    // (5.12), ALT_PERIOD and BASE_SLICE, a fixed nr_latency, util_est's flag, one pass for cores and CPUs (5.13). Later: cpu.max.burst, teo by
    // bins (5.14), cpu.idle (5.15), clusters (5.16), clamps in schedutil's busy filter (5.18), SIS_UTIL, wake lists of idle CPUs, ageing of
    // migrated tasks, what eas looks at (6.0).
    ("linux-6.1", (5, 13), (6, 1)),
    // 4 of 7 are of this release: EEVDF, menu, teo, idle cores that balance. Earlier: snooze (6.2), runnable boosting, reclaiming (6.5).
    ("linux-6.6", (6, 6), (6, 6)),
    // 9 of 17 are of this release: relative deadlines, short slices, delayed dequeue, slices of one's own, the fair server, real-time tasks
    // without a limit of their own, ondemand and conservative, menu, haltpoll. Earlier: clusters in wake-ups, tg_load_avg's limit (6.7), util_est's
    // word, schedutil's least performance (6.8), first utilisation, passes for misfit tasks, pressure in eas (6.10), teo (6.11).
    ("linux-6.12", (6, 12), (6, 12)),
    // schedtune and find_best_target are in android-4.4; clamps replace schedtune in android-5.4, after android-4.19.
    ("android-4.9", (4, 4), (4, 19)),
    // EEVDF, which android14-6.1 lacks.
    ("android-6.6", (6, 6), (6, 6)),
];

/// How well a profile describes a release; the greater, the better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// It is of a later release.
    Later(Reverse<Release>),
    /// It is of an earlier one.
    Earlier(Release),
    /// It is of another one, and holds.
    Holds,
    /// It is of this release.
    Same,
}

/// The release that a built-in profile is of. Variants, such as `android-4.9-walt`, are nobody's default.
fn own(profile: &str) -> Option<Release> {
    let numbers = profile.strip_prefix("linux-").or(profile.strip_prefix("android-"))?;
    version(numbers).filter(|_| !numbers.contains('-'))
}

/// The first and the last release that a profile holds for.
fn span(profile: &str) -> Option<(Release, Release)> {
    HOLDS.iter().find(|(name, ..)| *name == profile).map(|(_, first, last)| (*first, *last))
}

fn fit(wanted: Release, own: Release, span: Option<(Release, Release)>) -> Fit {
    match () {
        () if own == wanted => Fit::Same,
        () if span.is_some_and(|(first, last)| (first..=last).contains(&wanted)) => Fit::Holds,
        () if own < wanted => Fit::Earlier(own),
        () => Fit::Later(Reverse(own)),
    }
}

/// Which of the profiles called `names` a release is taken for. Is it Android's kernel, if that is known? Else its release may say so.
pub fn profile_of<'a>(release: &str, is_android: Option<bool>, names: &'a [String]) -> Option<&'a str> {
    if let Some(own) = names.iter().find(|n| *n == release) {
        return Some(own); // a trace of ours
    }
    let wanted = version(release)?;
    let named = is_android.unwrap_or(release.contains("android"));
    let rank = |name: &str| {
        let android = name.starts_with("android-");
        let span = span(name).filter(|_| named || !android);
        let fit = fit(wanted, own(name)?, span);
        (!android || is_android != Some(false)).then_some((fit, android == named))
    };
    let ranked = names.iter().filter_map(|n| Some((rank(n)?, n.as_str())));
    ranked.max().map(|(_, name)| name)
}

/// Why a release is taken for a profile of another one; `None`: it is of this one.
pub fn why(release: &str, profile: &str) -> Option<String> {
    let (wanted, own, span) = (version(release)?, own(profile)?, span(profile));
    Some(match fit(wanted, own, span) {
        Fit::Same => return None,
        Fit::Holds => {
            let (first, last) = span?;
            let (word, (major, minor)) = if wanted < own { ("from", first) } else { ("up to", last) };
            format!("it holds {word} {major}.{minor}")
        }
        Fit::Earlier(_) => "it is the last one before it".into(),
        Fit::Later(_) => "there is none before it".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        HOLDS.iter().map(|(name, ..)| name.to_string()).chain(["android-4.9-walt".into()]).collect()
    }

    /// Each release has one profile of mainline's at most, and a profile holds for its own.
    #[test]
    fn spans_do_not_overlap() {
        for (name, first, last) in HOLDS {
            let own = own(name).unwrap();
            assert!(*first <= own && own <= *last, "{name}");
            assert!(name.starts_with("android-") || own == *last, "{name}");
        }
        let mainline: Vec<_> = HOLDS.iter().filter(|(name, ..)| name.starts_with("linux-")).collect();
        assert!(mainline.windows(2).all(|w| w[0].2 < w[1].1), "{mainline:?}");
    }

    #[test]
    fn profiles_of_releases() {
        let names = names();
        // A release; its profile if nobody knows whose it is, if it is mainline's, if it is Android's; why mainline's.
        let last = "it is the last one before it";
        for (release, unknown, mainline, android, reason) in [
            ("2.6.32", "linux-3.13", "linux-3.13", "linux-3.13", "there is none before it"),
            ("3.10.0-1160.el7", "linux-3.13", "linux-3.13", "linux-3.13", "there is none before it"),
            ("3.11.10", "linux-3.13", "linux-3.13", "linux-3.13", "it holds from 3.11"),
            ("3.13.0", "linux-3.13", "linux-3.13", "linux-3.13", ""),
            ("4.3.6", "linux-3.13", "linux-3.13", "linux-3.13", last),
            ("4.4.210", "linux-4.10", "linux-4.10", "android-4.9", "it holds from 4.4"),
            ("4.9.270-perf", "android-4.9", "linux-4.10", "android-4.9", "it holds from 4.4"),
            ("4.10.1", "linux-4.10", "linux-4.10", "linux-4.10", ""),
            ("4.14.190", "linux-4.10", "linux-4.10", "android-4.9", last),
            ("4.15.18", "linux-4.10", "linux-4.10", "android-4.9", last),
            ("4.19.113-22067904", "linux-4.20", "linux-4.20", "android-4.9", "it holds from 4.16"),
            ("5.0.1", "linux-5.0", "linux-5.0", "linux-5.0", ""),
            ("5.2.21", "linux-5.3", "linux-5.3", "linux-5.3", "it holds from 5.1"),
            ("5.5.0", "linux-5.6", "linux-5.6", "linux-5.6", "it holds from 5.5"),
            ("5.10.200", "linux-5.7", "linux-5.7", "linux-5.7", last),
            ("5.15.0-91-generic", "linux-6.1", "linux-6.1", "linux-6.1", "it holds from 5.13"),
            ("6.5.0", "linux-6.1", "linux-6.1", "linux-6.1", last),
            ("6.6.30", "linux-6.6", "linux-6.6", "android-6.6", ""),
            ("6.8.0-45-generic", "linux-6.6", "linux-6.6", "android-6.6", last),
            ("6.12.117", "linux-6.12", "linux-6.12", "linux-6.12", ""),
            ("6.18.44", "linux-6.12", "linux-6.12", "linux-6.12", last),
        ] {
            let all = [None, Some(false), Some(true)].map(|known| profile_of(release, known, &names).unwrap());
            assert_eq!(all, [unknown, mainline, android], "{release}");
            assert_eq!(why(release, mainline).unwrap_or_default(), reason, "{release}");
        }
        let check = |release: &str, expect| assert_eq!(profile_of(release, None, &names), expect, "{release}");
        check("4.14.190-android11", Some("android-4.9"));
        check("5.15.137-android14-11", Some("linux-6.1"));
        check("6.6.30-android15-8-g1234567", Some("android-6.6"));
        check("android-4.9-walt", Some("android-4.9-walt"));
        check("simulated", None);
        assert_eq!(why("4.14.190-android11", "android-4.9").unwrap(), "it holds up to 4.19");
    }

    /// A profile that the table does not have is that of its own release.
    #[test]
    fn profiles_of_ones_own() {
        let names: Vec<String> = ["linux-3.13", "linux-5.15", "mine"].map(String::from).into();
        assert_eq!(profile_of("5.14.0", None, &names), Some("linux-3.13"));
        assert_eq!(profile_of("5.19.0", None, &names), Some("linux-5.15"));
    }
}
