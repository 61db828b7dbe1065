//! The two sides of a channel: who writes and who reads, before it is known what.
//!
//! Threads that wake each other across, and hardly ever on their own side, are two sides; which of them reads is told by who waited first.
//! Pairs with many wake-ups come first. A buffer that is hardly ever empty or full leaves little to see: then what is between two groups
//! tells together, what a thread deals with besides may find its side after it, and of who deals with nobody its neighbours tell.

use super::kin::{Kinds, wakes};
use super::steps::{STRAY_OF, Step, token_waits};
use super::thread::Thread;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::Pid;

/// Fewer wake-ups between two threads make no channel.
const MIN_WAKEUPS: usize = 4;

/// Threads that wake each other across, and hardly ever on their own side: most likely the writers, then the readers.
pub(super) type Sides = [BTreeSet<Pid>; 2];

/// Groups of threads that wake each other, where these fall into two sides. Readers mostly wait first: nothing is written yet.
pub(super) fn sides(threads: &BTreeMap<Pid, Thread>, kinds: &Kinds) -> Vec<Sides> {
    let mut links: BTreeMap<(Pid, Pid), usize> = BTreeMap::new();
    for ((by, to), n) in wakes(threads).into_iter().filter(|((_, to), _)| threads.contains_key(to)) {
        *links.entry((by.min(to), by.max(to))).or_default() += n;
    }
    // The strongest first, so that strays are found out.
    let mut links: Vec<(usize, Pid, Pid)> = links.into_iter().map(|((a, b), n)| (n, a, b)).collect();
    links.sort_unstable_by_key(|(n, a, b)| (Reverse(*n), *a, *b));
    let (strong, weak) = links.split_at(links.partition_point(|(n, ..)| *n >= MIN_WAKEUPS));
    let mut group_of: BTreeMap<Pid, usize> = BTreeMap::new();
    let mut groups: Vec<Group> = Vec::new();
    for (n, a, b) in strong {
        let [first, second] = [a, b].map(|pid| {
            *group_of.entry(*pid).or_insert_with(|| {
                groups.push(Group { of: [[*pid].into(), BTreeSet::new()], links: 0, strays: 0 });
                groups.len() - 1
            })
        });
        let same = groups[first].side(*a) == groups[second].side(*b);
        if first == second {
            groups[first].strays += if same { *n } else { 0 };
        } else {
            let group = std::mem::take(&mut groups[second]);
            group.join(same, first, &mut groups, &mut group_of);
        }
        groups[first].links += n;
    }
    join_groups(weak, &mut groups, &mut group_of);
    let side = groups.iter().flat_map(|g| (0..).zip(&g.of)).flat_map(|(i, set)| set.iter().map(move |p| (*p, i == 1)));
    let side: BTreeMap<Pid, bool> = side.collect();
    // A writer that leaves space may wake the next.
    let apart = groups.into_iter().filter(|g| g.links > 0 && g.strays * STRAY_OF <= g.links);
    let mut all: Vec<Sides> = apart.map(|g| g.of).collect();
    all.sort_unstable_by_key(|[a, b]| a.first().min(b.first()).copied());
    join_in(threads, kinds, &side, &mut all);
    let waits = |side: &BTreeSet<Pid>| first_wait(threads, side);
    let readers_last = |[a, b]: Sides| if waits(&a) < waits(&b) { [b, a] } else { [a, b] };
    all.into_iter().map(readers_last).collect()
}

/// Threads that wake each other, and how often; of that, how often on their own side.
#[derive(Default)]
struct Group {
    of: Sides,
    links: usize,
    strays: usize,
}

impl Group {
    fn side(&self, pid: Pid) -> usize {
        usize::from(self.of[1].contains(&pid))
    }

    /// Becomes part of another, the other way round or not.
    fn join(self, turned: bool, into: usize, groups: &mut [Group], group_of: &mut BTreeMap<Pid, usize>) {
        let group = &mut groups[into];
        (group.links, group.strays) = (group.links + self.links, group.strays + self.strays);
        for (i, set) in self.of.into_iter().enumerate() {
            group_of.extend(set.iter().map(|pid| (*pid, into)));
            group.of[i ^ usize::from(turned)].extend(set);
        }
    }
}

/// Pairs that wake each other less often than makes a channel of them are one together if they are between the same two groups, and as often as
/// pairs within these. Who is of no group yet is not asked.
fn join_groups(weak: &[(usize, Pid, Pid)], groups: &mut [Group], group_of: &mut BTreeMap<Pid, usize>) {
    loop {
        let mut between: BTreeMap<(usize, usize), [usize; 2]> = BTreeMap::new();
        for (n, a, b) in weak {
            let (Some(first), Some(second)) = (group_of.get(a), group_of.get(b)) else { continue };
            if first != second {
                let same = groups[*first].side(*a) == groups[*second].side(*b);
                between.entry((*first.min(second), *first.max(second))).or_default()[usize::from(same)] += n;
            }
        }
        let mut between: Vec<(usize, usize, bool, usize, usize)> = between
            .into_iter()
            .map(|((a, b), [across, same])| (across + same, across.min(same), same > across, a, b))
            .filter(|(n, strays, _, a, b)| {
                let least = groups[*a].links.min(groups[*b].links);
                *n >= MIN_WAKEUPS && strays * STRAY_OF <= *n && n * STRAY_OF >= least
            })
            .collect();
        between.sort_unstable_by_key(|(n, .., a, b)| (Reverse(*n), *a, *b));
        let mut joined: BTreeSet<usize> = BTreeSet::new();
        for (n, strays, turned, a, b) in between {
            if joined.contains(&a) || joined.contains(&b) {
                continue;
            }
            joined.extend([a, b]);
            let group = std::mem::take(&mut groups[b]);
            group.join(turned, a, groups, group_of);
            (groups[a].links, groups[a].strays) = (groups[a].links + n, groups[a].strays + strays);
        }
        if joined.is_empty() {
            return;
        }
    }
}

/// Threads of one kind with those of a side that wake each of the others only now and then.
fn join_in(threads: &BTreeMap<Pid, Thread>, kinds: &Kinds, placed: &BTreeMap<Pid, bool>, all: &mut [Sides]) {
    // Whom each deals with how often.
    let mut left: Vec<(Pid, BTreeMap<Pid, usize>)> = Vec::new();
    for (pid, t) in threads.iter().filter(|(pid, _)| !placed.contains_key(pid)) {
        let mut others = BTreeMap::new();
        t.steps.iter().filter_map(Step::with).for_each(|other| *others.entry(other).or_default() += 1);
        left.extend((!others.is_empty()).then_some((*pid, others)));
    }
    loop {
        let before = left.len();
        let open: BTreeSet<Pid> = left.iter().map(|(pid, _)| *pid).collect();
        left.retain(|(pid, others)| {
            let count = |side: &BTreeSet<Pid>| others.iter().filter(|(o, _)| side.contains(o)).map(|(_, n)| n).sum();
            let dealt: usize = others.values().sum();
            for of in all.iter_mut() {
                let seen: [usize; 2] = of.each_ref().map(count);
                let kind = of.each_ref().map(|side| side.first().and_then(|first| kinds.get(first)));
                // Others of these kinds that it deals with may belong here as well.
                let open = others.iter().filter(|(o, _)| open.contains(*o) && kind.contains(&kinds.get(*o)));
                let open: usize = open.map(|(_, n)| n).sum();
                // It is told by whom it deals with more, else by what it is.
                let across = |own: usize| seen[1 - own] > seen[own] || kind[0] != kind[1];
                let own = (0..2).find(|own| across(*own) && kind[*own] == kinds.get(pid));
                if let Some(own) = own.filter(|own| seen[1 - own] > 0 && seen[0] + seen[1] + open == dealt) {
                    of[own].insert(*pid);
                    return false;
                }
            }
            true
        });
        if left.len() == before {
            return;
        }
    }
}

/// When the first thread of a side began to wait for another.
fn first_wait(threads: &BTreeMap<Pid, Thread>, side: &BTreeSet<Pid>) -> u64 {
    side.iter().filter_map(|pid| Some(token_waits(&threads[pid].steps).first()?.0)).min().unwrap_or(u64::MAX)
}

/// Threads of a side's kind, in between them or next to them, that wake nobody and that nobody wakes: all that they may have written or read was
/// hidden.
pub(super) fn unseen(threads: &BTreeMap<Pid, Thread>, side: &BTreeSet<Pid>, kinds: &Kinds) -> Vec<Pid> {
    let (Some(first), Some(last)) = (side.first(), side.last()) else { return Vec::new() };
    let is_silent = |t: &Thread| !t.steps.iter().any(|s| s.waits() || s.wakes().is_some());
    let is_unseen = |pid: &Pid| kinds.get(pid) == Some(&kinds[first]) && threads.get(pid).is_some_and(is_silent);
    let before = (0..first.0).rev().map(Pid).take_while(is_unseen);
    let between = threads.range(first..=last).map(|(pid, _)| *pid).filter(|pid| !side.contains(pid));
    let after = (last.0.saturating_add(1)..=u32::MAX).map(Pid).take_while(is_unseen);
    before.chain(between.filter(is_unseen)).chain(after).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(steps: Vec<Step>) -> Thread {
        Thread { steps, ..Thread::new(120) }
    }

    #[test]
    fn who_deals_with_nobody_may_be_next_to_its_side() {
        let silent = || thread(vec![Step::Work(9), Step::Exit]);
        let seen = || thread(vec![Step::Work(9), Step::Post { to: Pid(20), at: 1 }]);
        let silent_ones = [1, 2, 4, 6, 8, 9].map(|pid| (Pid(pid), silent()));
        let threads: BTreeMap<Pid, Thread> =
            silent_ones.into_iter().chain([3, 5].map(|pid| (Pid(pid), seen()))).collect();
        let kind = |pid: &Pid| (*pid, String::from(if pid.0 == 1 { "main" } else { "sender" }));
        let kinds = threads.keys().map(kind).collect();
        assert_eq!(unseen(&threads, &[Pid(3), Pid(5)].into(), &kinds), [2, 4, 6].map(Pid));
    }

    #[test]
    fn groups_that_deal_with_each_other_now_and_then() {
        let joined = |sides: [u32; 4], weak: &[(usize, u32, u32)]| {
            let [a, b, c, d] = sides.map(Pid);
            let group = |a: Pid, b: Pid| Group { of: [[a].into(), [b].into()], links: 5, strays: 0 };
            let (mut groups, mut group_of) = (vec![group(a, b), group(c, d)], [(a, 0), (b, 0), (c, 1), (d, 1)].into());
            let weak: Vec<(usize, Pid, Pid)> = weak.iter().map(|(n, a, b)| (*n, Pid(*a), Pid(*b))).collect();
            join_groups(&weak, &mut groups, &mut group_of);
            groups.remove(0).of
        };
        let both = [[1, 2].map(Pid).into(), [11, 12].map(Pid).into()];
        assert_eq!(joined([1, 11, 2, 12], &[(3, 1, 12), (2, 2, 11), (3, 5, 11)]), both);
        assert_eq!(joined([1, 11, 12, 2], &[(3, 1, 12), (2, 2, 11)]), both);
        let apart = [[Pid(1)].into(), [Pid(11)].into()];
        assert_eq!(joined([1, 11, 2, 12], &[(1, 1, 12), (2, 2, 11)]), apart);
        assert_eq!(joined([1, 11, 2, 12], &[(3, 1, 12), (3, 1, 2)]), apart);
    }

    #[test]
    fn who_deals_with_others_that_have_no_side_yet() {
        let post = |to| Step::Post { to: Pid(to), at: 1 };
        let steps = [(1, vec![post(11)]), (2, vec![post(3), post(11)]), (3, vec![post(2), post(12)]), (11, vec![])];
        let steps = steps.into_iter().chain([(12, vec![post(2), post(1)]), (13, vec![post(40), post(1)])]);
        let threads: BTreeMap<Pid, Thread> = steps.map(|(pid, steps)| (Pid(pid), thread(steps))).collect();
        let kind = |pid: &Pid| (*pid, String::from(if pid.0 < 10 { "sender" } else { "receiver" }));
        let kinds = threads.keys().map(kind).collect();
        let mut all = [[[Pid(1)].into(), [Pid(11)].into()]];
        join_in(&threads, &kinds, &[(Pid(1), false), (Pid(11), true)].into(), &mut all);
        assert_eq!(all, [[[1, 2, 3].map(Pid).into(), [11, 12].map(Pid).into()]]);
    }
}
