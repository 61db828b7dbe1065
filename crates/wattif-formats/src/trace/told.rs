//! What our own files say of threads and groups besides names, in words that all formats have room for.
//!
//! | words | say |
//! |---|---|
//! | `SCHED_OTHER` | a policy |
//! | `SCHED_OTHER@2` | also the group that the thread begins in, by its number |
//! | `SCHED_DEADLINE:4000000/10000000/10000000` | also budget, deadline and period, ns |
//! | `SCHED_OTHER:slice=300000,util_min=900,util_max=1024` | also a custom slice, ns, and clamps, each only where it was asked for |
//! | `SCHED_OTHER:cpus=0-3,6` | also the CPUs that the thread may use when it begins, where they are not all; after all but the group |
//! | `2 cpu.shares=512 cpu.max=20000,100000 /app` | a group: its number, what its files hold where it is not the default, its path |

use super::names::DEADLINE;
use crate::{cgroup, platform_toml};
use std::collections::BTreeMap;
use wattif_model::trace::{Asked, DlParams, Event, Record, Recorded, ThreadInfo};
use wattif_model::workload::{GroupSpec, Policy};
use wattif_model::{CpuSet, Ns};

/// Of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    pub policy: Option<&'static str>,
    pub dl: Option<DlParams>,
    pub asked: Asked,
    pub cpus: Option<CpuSet>,
    /// By its number in the file.
    pub group: u32,
}

/// Before the list of CPUs, which has commas of its own.
const CPUS: &str = "cpus=";

/// The word for a thread.
pub(super) fn word(t: &ThreadInfo) -> String {
    let mut word = t.policy.to_string();
    let Asked { slice, util_min, util_max } = t.asked;
    let budget = t.dl.filter(|_| t.policy == DEADLINE);
    let said = [
        budget.map(|DlParams { runtime, deadline, period }| format!("{}/{}/{}", runtime.0, deadline.0, period.0)),
        (slice != Ns::ZERO).then(|| format!("slice={}", slice.0)),
        util_min.map(|clamp| format!("util_min={clamp}")),
        util_max.map(|clamp| format!("util_max={clamp}")),
        t.cpus.as_ref().map(|cpus| format!("{CPUS}{cpus}")),
    ];
    for (said, mark) in said.into_iter().flatten().zip([":", ",", ",", ",", ","]) {
        word += mark;
        word += &said;
    }
    if t.group != 0 {
        word += &format!("@{}", t.group);
    }
    word
}

/// What a word says; nothing where it is none.
pub(super) fn thread(word: &[u8]) -> Told {
    let text = String::from_utf8_lossy(word);
    let (text, group) = text.split_once('@').unwrap_or((&text, "0"));
    let (policy, said) = text.split_once(':').unwrap_or((text, ""));
    let policy = Policy::by_name(policy).map(Policy::name);
    let Ok(group) = group.parse() else { return Told::default() };
    let (said, cpus) = said.split_once(CPUS).map_or((said, None), |(said, list)| (said, platform_toml::cpuset(list)));
    let dl = said.split(',').next().and_then(dl_params);
    Told { policy, dl: dl.filter(|_| policy == Some(DEADLINE)), asked: asked(said), cpus, group }
}

/// What `sched_setattr` would refuse counts as not said.
fn asked(said: &str) -> Asked {
    let number = |key: &str| {
        let mut all = said.split(',').filter_map(|s| s.strip_prefix(key)?.strip_prefix('='));
        all.next()?.parse::<u64>().ok()
    };
    let clamp = |key| number(key).filter(|clamp| *clamp <= 1024).map(|clamp| clamp as u16);
    let slice = Ns(number("slice").filter(|slice| *slice < 1 << 63).unwrap_or(0));
    let (util_min, util_max) = (clamp("util_min"), clamp("util_max"));
    let crossed = util_min.is_some_and(|min| util_max.is_some_and(|max| min > max));
    if crossed { Asked { slice, ..Asked::default() } } else { Asked { slice, util_min, util_max } }
}

/// As `sched_setattr` takes them: each within the next.
fn dl_params(text: &str) -> Option<DlParams> {
    let mut all = text.split('/').map(|n| n.parse().ok().map(Ns));
    let (runtime, deadline, period) = (all.next()??, all.next()??, all.next()??);
    let valid = runtime.0 >= 1 << 10 && runtime <= deadline && deadline <= period && period.0 < 1 << 63;
    (valid && all.next().is_none()).then_some(DlParams { runtime, deadline, period })
}

/// The words for a group.
pub(super) fn group_line(number: usize, g: &GroupSpec) -> String {
    let usual = GroupSpec::named(&g.path);
    let us = |t: Ns| t.0 / 1_000;
    let mut line = number.to_string();
    let mut set = |differs: bool, file: &str, value: String| {
        if differs {
            line += &format!(" {file}={value}");
        }
    };
    let quota = g.quota.map_or("max".into(), |q| us(q).to_string());
    set(g.shares != usual.shares, "cpu.shares", g.shares.to_string());
    set(g.idle, "cpu.idle", "1".into());
    set((g.quota, g.period) != (usual.quota, usual.period), "cpu.max", format!("{quota},{}", us(g.period)));
    set(g.burst != usual.burst, "cpu.max.burst", us(g.burst).to_string());
    set(g.uclamp_min != usual.uclamp_min, "cpu.uclamp.min", percent(g.uclamp_min));
    set(g.uclamp_max != usual.uclamp_max, "cpu.uclamp.max", percent(g.uclamp_max));
    let path: String = g.path.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    format!("{line} {path}")
}

fn percent(clamp: u16) -> String {
    format!("{:.2}", f64::from(clamp) * 100.0 / 1024.0)
}

/// The groups of a file, and what their numbers in it mean.
#[derive(Default)]
pub(super) struct Groups {
    groups: Vec<GroupSpec>,
    places: BTreeMap<u32, u32>,
}

impl Groups {
    /// One more; a group that the kernel would refuse is left out.
    pub fn add(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let Some((head, path)) = text.split_once(" /") else { return };
        let mut words = head.split(' ');
        let Some(number) = words.next().and_then(|n| n.parse::<u32>().ok()) else { return };
        if path.is_empty() {
            return; // the root
        }
        if self.groups.is_empty() {
            self.groups.push(GroupSpec::root());
        }
        let mut group = GroupSpec::named(&format!("/{path}"));
        let set =
            |word: &str| word.split_once('=').map(|(file, v)| cgroup::set(&mut group, file, &v.replace(',', " ")));
        let good = words.map(set).all(|done| done.is_some_and(|d| d.is_ok())) && cgroup::check(&group).is_ok();
        if !good {
            return;
        }
        let Ok(at) = cgroup::add(&mut self.groups, &group.path) else { return };
        let slot = &mut self.groups[at as usize];
        *slot = GroupSpec { path: std::mem::take(&mut slot.path), ..group };
        self.places.insert(number, at);
    }
    /// The place of the group with a number of the file; the root where there is none.
    pub fn place(&self, number: u32) -> u32 {
        self.places.get(&number).copied().unwrap_or(0)
    }
    /// Their places in events as well, where the file tells of any.
    pub fn places_of(&self, records: &mut [Record]) {
        for r in records.iter_mut().take_while(|_| !self.groups.is_empty()) {
            if let Recorded::Event(
                Event::CgroupAttachTask { group, .. }
                | Event::CfsThrottle { group }
                | Event::CfsUnthrottle { group, .. }
                | Event::CfsPeriod { group, .. },
            ) = &mut r.event
            {
                *group = self.place(*group);
            }
        }
    }
    /// All of them; none where the file tells of none.
    pub fn into_specs(self) -> Vec<GroupSpec> {
        self.groups
    }
}

/// The group and those above it: their numbers.
pub(super) fn line_of_descent(groups: &[GroupSpec], number: u32) -> Vec<usize> {
    let Some(own) = groups.get(number as usize) else { return Vec::new() };
    let is_above =
        |g: &GroupSpec| own.path.strip_prefix(&g.path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    (1..=number as usize).filter(|n| is_above(&groups[*n])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_threads() {
        let dl = |runtime, deadline, period| {
            Some(DlParams { runtime: Ns(runtime), deadline: Ns(deadline), period: Ns(period) })
        };
        let asked = |slice, util_min, util_max| Asked { slice: Ns(slice), util_min, util_max };
        let nothing = Asked::default();
        for (policy, dl, asked, cpus, group, expect) in [
            ("SCHED_OTHER", None, nothing, "", 0, "SCHED_OTHER"),
            ("SCHED_IDLE", None, nothing, "", 12, "SCHED_IDLE@12"),
            ("SCHED_OTHER", None, nothing, "2", 0, "SCHED_OTHER:cpus=2"),
            ("SCHED_BATCH", None, asked(300_000, None, None), "0-3,6", 7, "SCHED_BATCH:slice=300000,cpus=0-3,6@7"),
            (DEADLINE, dl(1_024, 2_000, 3_000), nothing, "0,64-66", 0, "SCHED_DEADLINE:1024/2000/3000,cpus=0,64-66"),
            (
                DEADLINE,
                dl(4_000_000, 8_000_000, 10_000_000),
                nothing,
                "",
                1,
                "SCHED_DEADLINE:4000000/8000000/10000000@1",
            ),
            ("SCHED_BATCH", None, asked(300_000, None, None), "", 0, "SCHED_BATCH:slice=300000"),
            (
                "SCHED_OTHER",
                None,
                asked(300_000, Some(900), Some(1024)),
                "",
                3,
                "SCHED_OTHER:slice=300000,util_min=900,util_max=1024@3",
            ),
            ("SCHED_FIFO", None, asked(0, Some(0), None), "", 0, "SCHED_FIFO:util_min=0"),
            (
                DEADLINE,
                dl(1_024, 2_000, 3_000),
                asked(0, None, Some(7)),
                "",
                0,
                "SCHED_DEADLINE:1024/2000/3000,util_max=7",
            ),
        ] {
            let (comm, task) = ("a".into(), "a".into());
            let (pid, cpus) = (wattif_model::Pid(1), platform_toml::cpuset(cpus));
            let t = ThreadInfo { pid, comm, task, policy, workload: true, group, dl, asked, cpus: cpus.clone() };
            assert_eq!(word(&t), expect);
            assert_eq!(thread(expect.as_bytes()), Told { policy: Some(policy), dl, asked, cpus, group });
        }
        // A budget of more than the deadline, of nothing, of a fair thread; no CPUs; a group that is no number.
        for (text, policy) in [
            ("SCHED_DEADLINE:9000000/8000000/10000000", Some(DEADLINE)),
            ("SCHED_DEADLINE:0/0/0", Some(DEADLINE)),
            ("SCHED_DEADLINE:5000/6000/7000/8000", Some(DEADLINE)),
            ("SCHED_OTHER:4000000/8000000/10000000", Some("SCHED_OTHER")),
            ("SCHED_OTHER:slice=-1,util_min=1025,util_max=", Some("SCHED_OTHER")),
            ("SCHED_OTHER:util_min=900,util_max=800", Some("SCHED_OTHER")),
            ("SCHED_OTHER:slice=9223372036854775808", Some("SCHED_OTHER")),
            ("SCHED_OTHER:cpus=", Some("SCHED_OTHER")),
            ("SCHED_OTHER:cpus=3-1", Some("SCHED_OTHER")),
            ("SCHED_OTHER:cpus=0,4096", Some("SCHED_OTHER")),
            ("SCHED_OTHER@x", None),
            ("nothing", None),
        ] {
            assert_eq!(thread(text.as_bytes()), Told { policy, ..Told::default() }, "{text}");
        }
    }

    #[test]
    fn words_of_groups() {
        let mut wrote = vec![GroupSpec::root()];
        for (path, files) in [
            ("/a b", &[("cpu.weight", "300"), ("cpu.uclamp.min", "33.33")][..]),
            ("/a b/c", &[("cpu.max", "20000 50000"), ("cpu.max.burst", "5000"), ("cpu.idle", "1")]),
            ("/d", &[("cpu.uclamp.max", "7")]),
        ] {
            let at = cgroup::add(&mut wrote, path).unwrap() as usize;
            files.iter().for_each(|(file, value)| cgroup::set(&mut wrote[at], file, value).unwrap());
        }
        let lines: Vec<String> = wrote.iter().enumerate().map(|(i, g)| group_line(i, g)).collect();
        assert_eq!(lines[2], "2 cpu.idle=1 cpu.max=20000,50000 cpu.max.burst=5000 /a b/c");
        assert_eq!((line_of_descent(&wrote, 2), line_of_descent(&wrote, 3)), (vec![1, 2], vec![3]));
        let mut read = Groups::default();
        lines.iter().for_each(|l| read.add(l.as_bytes()));
        assert_eq!((0..5).map(|n| read.place(n)).collect::<Vec<_>>(), [0, 1, 2, 3, 0]);
        assert_eq!(read.into_specs(), wrote);
        // Those that a thread's process does not name are not there; those that cannot be are left out.
        let mut read = Groups::default();
        for line in [&lines[3], "4 cpu.max=5 /e", "5 cpu.idle=7 /f", "6 cpu.x=1 /g", "7 /../h", "x /i", "8", "9 /"] {
            read.add(line.as_bytes());
        }
        assert_eq!((3..10).map(|n| read.place(n)).collect::<Vec<_>>(), [1, 0, 0, 0, 0, 0, 0]);
        // Events have the numbers of the file.
        let throttled = |group| Record {
            at: Ns(1),
            cpu: wattif_model::CpuId(0),
            current: None,
            event: Recorded::Event(Event::CfsThrottle { group }),
        };
        let mut records = [throttled(3), throttled(4)];
        read.places_of(&mut records);
        assert_eq!(records, [throttled(1), throttled(0)]);
        assert_eq!(read.into_specs(), [wrote[0].clone(), wrote[3].clone()]);
        for clamp in 0..=1024 {
            let mut g = GroupSpec::named("/a");
            cgroup::set(&mut g, "cpu.uclamp.min", &percent(clamp)).unwrap();
            assert_eq!(g.uclamp_min, clamp);
        }
    }
}
