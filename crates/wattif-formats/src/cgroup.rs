//! Files of a cpu cgroup, by the kernel's names and in the kernel's syntax: `cpu.max` holds `50000 100000`.
//!
//! | file | holds | default |
//! |---|---|---|
//! | `cpu.weight` | 1..=10000 | 100 |
//! | `cpu.weight.nice` | the weight of a nice value, -20..=19 | 0 |
//! | `cpu.shares` | 2..=262144, the load weight itself (cgroup v1); 0: a group of schedtune's alone, none of the cpu controller's | 1024 |
//! | `cpu.idle` | 1: the whole group is SCHED_IDLE | 0 |
//! | `cpu.max` | quota and period, µs; `max`: no limit | `max 100000` |
//! | `cpu.max.burst` | unused quota that may be saved, µs | 0 |
//! | `cpu.cfs_quota_us`, `cpu.cfs_period_us`, `cpu.cfs_burst_us` | the same, one by one (cgroup v1); quota -1: no limit | |
//! | `cpu.uclamp.min`, `cpu.uclamp.max` | percent with up to two decimals; `max`: 100 | 0, `max` |

use crate::words::{nearest, quoted};
use wattif_model::Ns;
use wattif_model::workload::{GroupSpec, MAX_GROUPS, MAX_PATH, MAX_QUOTA, SCHED_PRIO_TO_WEIGHT, SHARES};

/// The files of a group that can be set.
pub const FILES: &[&str] = &[
    "cpu.weight",
    "cpu.weight.nice",
    "cpu.shares",
    "cpu.idle",
    "cpu.max",
    "cpu.max.burst",
    "cpu.cfs_quota_us",
    "cpu.cfs_period_us",
    "cpu.cfs_burst_us",
    "cpu.uclamp.min",
    "cpu.uclamp.max",
];

/// The index of the group at `path`; it and the groups above it are made where they do not exist.
pub fn add(groups: &mut Vec<GroupSpec>, path: &str) -> Result<u32, String> {
    if !path.starts_with('/') || path.len() > MAX_PATH {
        return Err(format!("the group {} must start with `/` and have at most {MAX_PATH} bytes", quoted(path)));
    }
    let (mut at, mut full) = (0, String::new());
    for name in path.split('/').filter(|n| !n.is_empty()) {
        if name == "." || name == ".." {
            return Err(format!("the group {} must not hold `{name}`", quoted(path)));
        }
        full.push('/');
        full.push_str(name);
        at = match groups.iter().position(|g| g.path == full) {
            Some(at) => at,
            None if groups.len() > MAX_GROUPS => {
                return Err(format!("more than {MAX_GROUPS} groups, those above others included"));
            }
            None => {
                groups.push(GroupSpec::named(&full));
                groups.len() - 1
            }
        };
    }
    Ok(at as u32)
}

/// Sets what a file of the group's directory holds. The error says what it may hold.
pub fn set(group: &mut GroupSpec, file: &str, text: &str) -> Result<(), String> {
    if group.path == "/" {
        return Err("the root group has no limits and no weight: put the tasks into a group below it".into());
    }
    let wrong = |may: &str| format!("{file} takes {may}, not {}", quoted(text));
    let number = |lo: i64, hi: i64| -> Result<i64, String> {
        let value = text.trim().parse::<i64>().ok().filter(|v| (lo..=hi).contains(v));
        value.ok_or_else(|| wrong(&format!("{lo}..={hi}")))
    };
    match file {
        "cpu.weight" => group.shares = GroupSpec::shares_of_weight(number(1, 10_000)? as u32),
        // The kernel stores the nearest cpu.weight, not the load weight of the nice value.
        "cpu.weight.nice" => group.shares = nice_shares(number(-20, 19)?),
        "cpu.shares" if text.trim() == "0" => group.shares = 0,
        "cpu.shares" => group.shares = number((*SHARES.start()).into(), (*SHARES.end()).into())? as u32,
        "cpu.idle" => group.idle = number(0, 1)? == 1,
        "cpu.max" => {
            let (quota, period) = cpu_max(text).ok_or_else(|| wrong("`QUOTA` or `QUOTA PERIOD` in µs; `max`: none"))?;
            group.quota = quota;
            group.period = period.unwrap_or(group.period);
        }
        "cpu.cfs_quota_us" => group.quota = u64::try_from(number(-1, MAX_QUOTA_US as i64)?).ok().map(Ns::from_us),
        "cpu.cfs_period_us" => group.period = Ns::from_us(number(0, MAX_QUOTA_US as i64)? as u64),
        "cpu.max.burst" | "cpu.cfs_burst_us" => group.burst = Ns::from_us(number(0, MAX_QUOTA_US as i64)? as u64),
        "cpu.uclamp.min" => group.uclamp_min = percent(text).ok_or_else(|| wrong("0..=100 in percent, or `max`"))?,
        "cpu.uclamp.max" => group.uclamp_max = percent(text).ok_or_else(|| wrong("0..=100 in percent, or `max`"))?,
        _ => {
            let near = nearest(file, FILES.iter().copied());
            let may = near.map_or_else(|| FILES.join(", "), |n| format!("did you mean `{n}`?"));
            return Err(format!("a group has no file {}; {may}", quoted(file)));
        }
    }
    Ok(())
}

/// What the kernel demands of a group's bandwidth as a whole (`tg_set_cfs_bandwidth`).
pub fn check(group: &GroupSpec) -> Result<(), String> {
    group.check().map_err(|why| format!("group {}: {why}", quoted(&group.path)))
}

/// Largest quota, period and burst that are read, µs.
const MAX_QUOTA_US: u64 = MAX_QUOTA.0 / 1000;

fn nice_shares(nice: i64) -> u32 {
    let weight = SCHED_PRIO_TO_WEIGHT[(nice + 20) as usize];
    let cgroup = ((weight * 100 + 512) / 1024).clamp(1, 10_000);
    GroupSpec::shares_of_weight(cgroup)
}

/// `max`, `50000`, `50000 100000`: quota (none: unlimited) and period.
fn cpu_max(text: &str) -> Option<(Option<Ns>, Option<Ns>)> {
    let us = |t: &str| t.parse::<u64>().ok().filter(|us| *us <= MAX_QUOTA_US).map(Ns::from_us);
    let mut words = text.split_whitespace();
    let quota = match words.next()? {
        "max" => None,
        number => Some(us(number)?),
    };
    let period = words.next().map(us);
    match (period, words.next()) {
        (Some(None), _) | (_, Some(_)) => None,
        (period, None) => Some((quota, period.flatten())),
    }
}

/// Percent with up to two decimals → 0..=1024, rounded as the kernel rounds (`capacity_from_percent`).
fn percent(text: &str) -> Option<u16> {
    if text.trim() == "max" {
        return Some(1024);
    }
    let (whole, fraction) = text.trim().split_once('.').unwrap_or((text.trim(), "0"));
    let digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit()).then(|| t.parse::<u32>().ok()).flatten();
    let hundredths = match fraction.len() {
        1 => digits(fraction)? * 10,
        2 => digits(fraction)?,
        _ => return None,
    };
    let percent = digits(whole)?.checked_mul(100)?.checked_add(hundredths).filter(|p| *p <= 10_000)?;
    Some(((percent * 1024 + 5_000) / 10_000) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_bring_their_parents() {
        let mut groups = vec![GroupSpec::root()];
        assert_eq!(add(&mut groups, "/a/b/c"), Ok(3));
        assert_eq!(add(&mut groups, "/a/"), Ok(1));
        assert_eq!(add(&mut groups, "/"), Ok(0));
        let paths: Vec<&str> = groups.iter().map(|g| g.path.as_str()).collect();
        assert_eq!(paths, ["/", "/a", "/a/b", "/a/b/c"]);
        assert!(add(&mut groups, "a").is_err() && add(&mut groups, "/a/../b").is_err());
        assert!((0..300).any(|i| add(&mut groups, &format!("/x{i}")).is_err()));
    }

    #[test]
    fn files_as_the_kernel_reads_them() {
        let set_all = |files: &[(&str, &str)]| {
            let mut g = GroupSpec::named("/a");
            files.iter().try_for_each(|(file, text)| set(&mut g, file, text)).map(|()| g)
        };
        let good = |files: &[(&str, &str)]| set_all(files).unwrap();
        assert_eq!(good(&[("cpu.weight", "100")]), GroupSpec::named("/a"));
        assert_eq!(good(&[("cpu.weight", "300")]).shares, 3072);
        assert_eq!(good(&[("cpu.weight", "1")]).shares, 10);
        assert_eq!(good(&[("cpu.weight.nice", "5")]).shares, GroupSpec::shares_of_weight(33));
        assert_eq!(good(&[("cpu.shares", "2")]).shares, 2);
        assert_eq!(good(&[("cpu.shares", "0")]).shares, 0);
        let max = |text| Some(good(&[("cpu.max", text)])).map(|g| (g.quota.map(|q| q.0), g.period.0)).unwrap();
        assert_eq!(max("max"), (None, 100_000_000));
        assert_eq!(max("50000"), (Some(50_000_000), 100_000_000));
        assert_eq!(max("20000 50000"), (Some(20_000_000), 50_000_000));
        assert_eq!(good(&[("cpu.cfs_quota_us", "-1")]).quota, None);
        let clamp = |text| good(&[("cpu.uclamp.min", text)]).uclamp_min;
        assert_eq!([clamp("50"), clamp("33.33"), clamp("0.5"), clamp("max")], [512, 341, 5, 1024]);
        for (file, text) in [
            ("cpu.weight", "0"),
            ("cpu.weight", "10001"),
            ("cpu.idle", "2"),
            ("cpu.max", ""),
            ("cpu.max", "x"),
            ("cpu.max", "1 2 3"),
            ("cpu.max", "99999999999999999999"),
            ("cpu.uclamp.max", "100.01"),
            ("cpu.uclamp.max", "-1"),
            ("cpu.uclamp.max", "1.234"),
            ("cpu.wieght", "1"),
        ] {
            assert!(set_all(&[(file, text)]).is_err(), "{file} {text}");
        }
        assert!(set_all(&[("cpu.wieght", "1")]).unwrap_err().contains("`cpu.weight`"));
        assert!(set(&mut GroupSpec::root(), "cpu.weight", "5").is_err());
    }

    #[test]
    fn bandwidth_as_a_whole() {
        let checked = |max: &str, burst: &str| {
            let mut g = GroupSpec::named("/a");
            set(&mut g, "cpu.max", max).and_then(|()| set(&mut g, "cpu.max.burst", burst)).unwrap();
            check(&g).is_ok()
        };
        assert!(checked("50000 100000", "50000") && checked("max 1000", "7"));
        assert!(!checked("50000", "50001") && !checked("500", "0") && !checked("5000 999", "0"));
    }
}
