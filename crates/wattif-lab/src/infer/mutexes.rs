//! Threads that exclude each other: a mutex.
//!
//! Whoever takes a free lock leaves no event. What a trace shows is the thread that found it taken, and was woken when it was released.
//! Taken as it was recorded, a thread would wait for this other one for ever, also where another kernel lets it come first. So threads that
//! wake each other both ways or in a ring, directly or by way of others of them, take locks, if all of this holds but for strays:
//!
//! - between two waits of its own (also for a timer that has passed, which the work of a late thread tells of) each takes as many locks as
//!   its other turns of that kind, one after another; of several each shows its waits and its releases, so none is taken within another;
//! - places in the programs whose users wake each other have one lock, other places have others;
//! - who waits began to while another was busy: the first that releases the lock from then on had begun before (a client would wait for a
//!   server that sleeps);
//! - if each takes it in every turn, then two of them that would have it at once are seen: one of them waits.
//!
//! Then who waits is for the replay to say. Where one got the lock without waiting, it takes it after so much of its work as it does when
//! it waits, and holds it for as long. Waits of its own in which a thread holds the lock (`held.rs`) are in the midst of a turn. Threads of which
//! one only ever waits for the other (`one_way.rs`) are held to the same; who never waits has taken the lock where the other first found it
//! taken, and who never makes another wait has it until its turn is over.
//!
//! Threads of one kind that meet seldom, or always in the same order, show too little each. What they show is taken together, as of one
//! program, if they take the lock without a wait more often than with one, and all of the above holds.

use super::kin::{Kinds, Wakes, wakes};
use super::periods::{self, Beat};
use super::ran::Ran;
use super::steps::{ALIKE_PART, LITTLE, STRAY_OF, Step, TIMER, Waits, kind_of_wait, median, work};
use super::thread::Thread;
use std::cell::LazyCell;
use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use wattif_model::Pid;

/// Fewer waits of a thread, or fewer releases, tell nothing.
const MIN_SEEN: usize = 4;
/// Two that have it at once may be found for so many waits: they begin in one half of the time that it is held, and half as many may be.
const UNSEEN_OF: usize = 2;
/// A turn that takes locks more often is not believed.
const MAX_PLACES: usize = 4;

/// Where a turn of a thread ends that goes from one lock to the next (`laps.rs`).
const LAP_END: Step = Step::Passed { period: 0 };

/// What a thread does.
type Program = (Vec<Step>, Beat);

/// A place in the programs of a thread: between two waits of these kinds, the so-manyth time that it takes a lock.
type Place = (Pid, Waits, usize);

/// What a thread does between two waits of its own.
struct Turn {
    /// Kinds of the wait before and after; of the first and the last turn one is unknown.
    between: Option<Waits>,
    /// Its steps.
    steps: std::ops::Range<usize>,
    began: u64,
    sections: Vec<Section>,
    /// It takes locks more often than its kind, or in another order.
    stray: bool,
}

/// Work under a lock, as far as that is seen.
#[derive(Clone, Default)]
struct Section {
    /// Its waits for others of the group: the steps.
    waits: Vec<usize>,
    /// Work of the turn before it, where it waited, units.
    taken: Option<u64>,
    /// The step with which it wakes another of the group, when, and the work of the turn before that.
    wakes: Option<Release>,
    place: Option<Place>,
}

#[derive(Clone, Copy)]
struct Release {
    step: usize,
    at: u64,
    after: u64,
}

/// Work in the turns of one kind, units: before the lock where they waited for it; under it where that is seen, too; until its release
/// where they had not waited, and in all; and until another found that they had it.
#[derive(Default)]
struct Usual {
    before: Vec<u64>,
    under: Vec<u64>,
    until: Vec<u64>,
    given: Vec<u64>,
    taken_at: Vec<u64>,
}

impl Usual {
    fn add(&mut self, section: &Section) {
        let given = section.wakes.map(|w| w.after);
        self.before.extend(section.taken);
        self.given.extend(given);
        match section.taken {
            Some(taken) => self.under.extend(given.map(|given| given.saturating_sub(taken))),
            None => self.until.extend(given),
        }
    }
    /// Before the lock, and under it. Of a thread that never waits: it has had the lock for as long as others found it taken, the first of so
    /// many at any times. Of one that never makes others wait: until its turn is over.
    fn place(mut self, one_way: bool) -> Option<(u64, u64)> {
        let seen = |of: &mut Vec<u64>| if of.len() >= MIN_SEEN { median(of) } else { None };
        let until = seen(&mut self.until);
        // More work than a turn has up to the release: a late thread did another turn's before.
        self.before.retain(|before| until.is_none_or(|until| *before <= until));
        let Some(before) = seen(&mut self.before) else {
            let (until, n) = (until.filter(|_| one_way)?, self.taken_at.len() as u64);
            let first = self.taken_at.into_iter().min()?.min(until);
            let before = first.saturating_sub((until - first) / n);
            return Some((before, until - before));
        };
        // It releases after as much work of its turn, whether it had waited or not.
        let until = until.or_else(|| seen(&mut self.given));
        let under = seen(&mut self.under).or(until.map(|until| until.saturating_sub(before)));
        let under = under.or(one_way.then_some(u64::MAX))?;
        Some((before, under))
    }
}

/// Where each thread takes each lock, and for how long it has it: work, units.
type AllUsual = BTreeMap<Pid, BTreeMap<Place, (u64, u64)>>;

/// From when until when a thread has a lock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    from: u64,
    until: u64,
    pid: Pid,
}

/// Puts locks in. A thread of those that share each, by which it is known. `ran`: when the threads were on CPUs.
pub(super) fn exclude(
    threads: &mut BTreeMap<Pid, Thread>,
    kinds: &Kinds,
    ran: impl FnOnce() -> BTreeMap<Pid, Ran>,
) -> BTreeSet<Pid> {
    let mut all = BTreeSet::new();
    let (wakes, ran) = (wakes(threads), LazyCell::new(ran));
    let of_a_kind = |a: Pid, b: Pid| {
        let kind = kinds.get(&a);
        kind.is_some() && kind == kinds.get(&b) && (wakes.contains_key(&(a, b)) || wakes.contains_key(&(b, a)))
    };
    let alike = groups(threads.keys().copied().collect(), of_a_kind).into_iter();
    let alike: Vec<(BTreeSet<Pid>, Vec<Program>)> = alike
        .map(|members| {
            let before = members.iter().map(|pid| (threads[pid].steps.clone(), threads[pid].beat)).collect();
            (members, before)
        })
        .collect();
    let (pairs, rings) = (super::one_way::pairs(threads), rings(&wakes));
    let both_ways = |a: Pid, b: Pid| wakes.contains_key(&(a, b)) && wakes.contains_key(&(b, a));
    let in_ring = |a: Pid, b: Pid| rings.get(&a).is_some_and(|ring| rings.get(&b) == Some(ring));
    let one_way = |a: Pid, b: Pid| pairs.contains(&(a, b)) || pairs.contains(&(b, a));
    let wide = |a: Pid, b: Pid| in_ring(a, b) || one_way(a, b);
    // Those that have no locks in common with all the others may have with some.
    let links: [&dyn Fn(Pid, Pid) -> bool; 3] = [&wide, &in_ring, &both_ways];
    let mut left = groups(threads.keys().copied().collect(), wide).into_iter().map(|g| (g, 0)).collect::<Vec<_>>();
    while let Some((members, link)) = left.pop() {
        let one_way = pairs.iter().filter(|(has, waits)| link == 0 && members.contains(has) && members.contains(waits));
        let one_way: BTreeSet<Pid> = one_way.flat_map(|(has, waits)| [*has, *waits]).collect();
        if let Some(locks) = take(threads, &members, Some(&one_way), &ran) {
            all.extend(locks);
            continue;
        }
        let mut narrower = (link + 1..links.len()).map(|next| (groups(members.clone(), links[next]), next));
        if let Some((narrow, next)) = narrower.find(|(narrow, _)| !one_way.is_empty() || *narrow != [members.clone()]) {
            left.extend(narrow.into_iter().map(|group| (group, next)));
        }
    }
    for (members, before) in alike {
        let deals = |pid| threads[pid].steps.iter().any(|s| is_wait(s, &members) || is_release(s, &members));
        let is_left = members.iter().any(deals);
        let ours = locks_of(threads, |pid| members.contains(pid));
        if !ours.is_disjoint(&locks_of(threads, |pid| !members.contains(pid))) {
            continue;
        }
        let found = swap(threads, &members, before);
        // It shows where each takes it, also one that never waits. Several locks of theirs are not one.
        match take(threads, &members, None, &ran).filter(|locks| is_left || locks.len() == ours.len()) {
            Some(locks) => {
                all.retain(|lock| !ours.contains(lock));
                all.extend(locks);
            }
            None => drop(swap(threads, &members, found)),
        }
    }
    for step in threads.values_mut().flat_map(|t| &mut t.steps) {
        if let Step::Lent { prio, .. } = *step {
            *step = Step::Attr(prio);
        }
    }
    all
}

/// The ring of each thread: from each thread of it there is a way to each other of it, by who wakes whom.
fn rings(wakes: &Wakes) -> BTreeMap<Pid, Pid> {
    let (mut to, mut from): (BTreeMap<Pid, Vec<Pid>>, BTreeMap<Pid, Vec<Pid>>) = Default::default();
    for (a, b) in wakes.keys() {
        to.entry(*a).or_default().push(*b);
        from.entry(*b).or_default().push(*a);
    }
    // Threads in the order in which all that they lead to is done; backwards from the last, whoever leads to one is of its ring.
    let (mut seen, mut done) = (BTreeSet::new(), Vec::new());
    for first in to.keys() {
        let mut left = vec![(*first, false)];
        while let Some((pid, is_done)) = left.pop() {
            if is_done {
                done.push(pid);
            } else if seen.insert(pid) {
                left.push((pid, true));
                left.extend(to.get(&pid).into_iter().flatten().map(|next| (*next, false)));
            }
        }
    }
    let mut rings = BTreeMap::new();
    for ring in done.into_iter().rev() {
        let mut left = vec![ring];
        while let Some(pid) = left.pop() {
            if let Entry::Vacant(new) = rings.entry(pid) {
                new.insert(ring);
                left.extend(from.get(&pid).into_iter().flatten());
            }
        }
    }
    rings
}

/// What these threads do is this; it was what is returned.
fn swap(threads: &mut BTreeMap<Pid, Thread>, members: &BTreeSet<Pid>, with: Vec<Program>) -> Vec<Program> {
    let swapped = members.iter().zip(with).map(|(pid, with)| {
        let t = threads.get_mut(pid).expect("a member");
        (std::mem::replace(&mut t.steps, with.0), std::mem::replace(&mut t.beat, with.1))
    });
    swapped.collect()
}

/// The locks of these threads.
fn locks_of(threads: &BTreeMap<Pid, Thread>, these: impl Fn(&Pid) -> bool) -> BTreeSet<Pid> {
    let lock = |s: &Step| if let Step::Lock(lock) = *s { Some(lock) } else { None };
    threads.iter().filter(|(pid, _)| these(pid)).flat_map(|(_, t)| t.steps.iter().filter_map(lock)).collect()
}

/// Puts locks in where these threads share some; they are returned. `one_way`: see [`Group`].
fn take(
    threads: &mut BTreeMap<Pid, Thread>,
    members: &BTreeSet<Pid>,
    one_way: Option<&BTreeSet<Pid>>,
    ran: &BTreeMap<Pid, Ran>,
) -> Option<BTreeSet<Pid>> {
    let group = Group::of(threads, members, one_way);
    let locks = group.locks()?;
    let mut usual = group.usual(&locks, ran);
    if !group.are_apart(&locks, &usual, ran) {
        return None;
    }
    for (pid, (steps, beat)) in group.steps {
        let thread = threads.get_mut(&pid).expect("a member");
        thread.steps = locking(steps, &group.turns[&pid], &usual.remove(&pid).unwrap_or_default(), &locks);
        thread.beat = beat;
        // Who waits for a lock lends its priority under any kernel.
        thread.steps.retain(|s| !matches!(s, Step::Lent { by, .. } if members.contains(by)));
    }
    Some(locks.into_values().collect())
}

/// Threads that are linked, directly or by way of others of them.
fn groups(mut left: BTreeSet<Pid>, are_linked: impl Fn(Pid, Pid) -> bool) -> Vec<BTreeSet<Pid>> {
    let mut all = Vec::new();
    while let Some(first) = left.pop_first() {
        let (mut members, mut new) = (BTreeSet::from([first]), vec![first]);
        while let Some(pid) = new.pop() {
            let found: Vec<Pid> = left.iter().copied().filter(|other| are_linked(pid, *other)).collect();
            left.retain(|other| !found.contains(other));
            members.extend(&found);
            new.extend(found);
        }
        if members.len() > 1 {
            all.push(members);
        }
    }
    all
}

/// Threads that wake each other, and what they do.
struct Group {
    steps: BTreeMap<Pid, Program>,
    turns: BTreeMap<Pid, Vec<Turn>>,
    /// Those that may only ever wait for others of them, or hold them up (`one_way.rs`). `None`: they run one program.
    one_way: Option<BTreeSet<Pid>>,
}

impl Group {
    fn of(threads: &BTreeMap<Pid, Thread>, members: &BTreeSet<Pid>, one_way: Option<&BTreeSet<Pid>>) -> Group {
        let held = super::held::waits(threads, members);
        // One that never waits for another does not show that it sleeps for a time, as the others do, and not until one.
        let sleep = one_way.is_none() && members.iter().any(|pid| sleeps(&threads[pid].steps));
        let program = |pid: &Pid| late_turns(&threads[pid], members, &held[pid], sleep);
        let steps: BTreeMap<Pid, Program> = members.iter().map(|pid| (*pid, program(pid))).collect();
        let turns = |(pid, (steps, _)): (&Pid, &Program)| (*pid, turns(steps, members, &held[pid]));
        let mut turns: BTreeMap<Pid, Vec<Turn>> = steps.iter().map(turns).collect();
        let mut each: Vec<Vec<(Pid, &mut Turn)>> =
            turns.iter_mut().map(|(pid, turns)| turns.iter_mut().map(|turn| (*pid, turn)).collect()).collect();
        if one_way.is_none() {
            each = vec![each.into_iter().flatten().collect()];
        }
        each.into_iter().for_each(find_places);
        Group { turns, steps, one_way: one_way.cloned() }
    }

    /// The place that stands for one: of a program, not of each thread that runs it.
    fn common(&self, place: Place) -> Place {
        let first = self.turns.keys().next().filter(|_| self.one_way.is_none());
        (first.copied().unwrap_or(place.0), place.1, place.2)
    }

    /// The places that one stands for.
    fn each(&self, place: Place) -> impl Iterator<Item = Place> {
        let all = self.turns.keys().filter(move |pid| self.one_way.is_none() || **pid == place.0);
        all.map(move |pid| (*pid, place.1, place.2))
    }

    fn is_one_way(&self, pid: Pid) -> bool {
        self.one_way.as_ref().is_some_and(|one_way| one_way.contains(&pid))
    }

    fn sections(&self) -> impl Iterator<Item = (&Turn, &Section)> {
        self.turns.values().flatten().flat_map(|t| t.sections.iter().map(move |s| (t, s)))
    }

    /// The waits of a section: by whom each was ended, since when it was, and until when.
    fn waits(&self, pid: Pid, section: &Section) -> Vec<(Pid, u64, u64)> {
        let steps = &self.steps[&pid].0;
        let wait = |i: &usize| if let Step::Token { by, since, at } = steps[*i] { Some((by, since, at)) } else { None };
        section.waits.iter().filter_map(wait).collect()
    }

    /// The lock of each place, if all that these threads wake each other for looks like locks.
    fn locks(&self) -> Option<BTreeMap<Place, Pid>> {
        if !self.is_enough() {
            return None;
        }
        if self.may_be_nested() {
            return None;
        }
        let locks = named(self.linked())?;
        let stray = self.strays(&locks);
        let seen = self.turns.values().flatten().filter(|t| !t.sections.is_empty()).count();
        (stray * STRAY_OF <= seen).then_some(locks)
    }

    fn is_enough(&self) -> bool {
        let sections =
            |turns: &[Turn], is: fn(&Section) -> bool| turns.iter().flat_map(|t| &t.sections).filter(|s| is(s)).count();
        let waits = |turns: &[Turn]| sections(turns, |s| s.taken.is_some());
        let releases = |turns: &[Turn]| sections(turns, |s| s.wakes.is_some());
        let Some(one_way) = &self.one_way else {
            // Messages of one to the next would be waited for.
            let is_free = |turns: &Vec<Turn>| waits(turns) * 2 <= turns.len();
            return self.turns.values().all(is_free)
                && self.turns.values().map(|turns| waits(turns)).sum::<usize>() >= 2 * MIN_SEEN;
        };
        self.turns.iter().all(|(pid, turns)| {
            let (waits, releases) = (waits(turns) >= MIN_SEEN, releases(turns) >= MIN_SEEN);
            waits && releases || one_way.contains(pid) && (waits || releases)
        })
    }

    /// A turn that takes a lock within another waits twice and then releases twice. So where it has several places, each has to show
    /// both, and the one before a wait is released before it.
    fn may_be_nested(&self) -> bool {
        let mut seen: BTreeMap<Place, (Vec<u64>, Vec<u64>)> = BTreeMap::new();
        for (place, section) in self.sections().filter_map(|(_, s)| Some((s.place?, s))) {
            let (taken, given) = seen.entry(place).or_default();
            taken.extend(section.taken);
            given.extend(section.wakes.map(|w| w.after));
        }
        let usual = |of: &mut Vec<u64>| if of.len() >= MIN_SEEN { median(of) } else { None };
        let usual: BTreeMap<Place, (Option<u64>, Option<u64>)> = seen
            .into_iter()
            .map(|(place, (mut taken, mut given))| (place, (usual(&mut taken), usual(&mut given))))
            .collect();
        let apart = |((pid, kind, nth), before): (&Place, &(Option<u64>, Option<u64>))| {
            let Some(after) = usual.get(&(*pid, *kind, nth + 1)) else { return true };
            before.0.is_some()
                && after.1.is_some()
                && before.1.zip(after.0).is_some_and(|(given, taken)| given <= taken)
        };
        !usual.iter().all(apart)
    }

    /// Places whose users wake each other: each set has a lock of its own.
    fn linked(&self) -> Vec<BTreeSet<Place>> {
        let released: BTreeMap<(Pid, u64), Place> =
            self.sections().filter_map(|(_, s)| s.place.zip(s.wakes)).map(|(p, w)| ((p.0, w.at), p)).collect();
        let (mut links, mut of): (BTreeMap<(Place, Place), usize>, BTreeMap<Place, usize>) = Default::default();
        for (place, section) in self.sections().filter_map(|(_, s)| Some((s.place?, s))) {
            for (by, _, at) in self.waits(place.0, section) {
                let place = self.common(place);
                *of.entry(place).or_default() += 1;
                if let Some(other) = released.get(&(by, at)) {
                    *links.entry((place, self.common(*other))).or_default() += 1;
                }
            }
        }
        // A place that was mistaken for another must not make two locks one.
        let usual = |((place, _), n): &(&(Place, Place), &usize)| {
            **n >= MIN_SEEN && **n * STRAY_OF * self.turns.len() >= of[place]
        };
        let links: Vec<(Place, Place)> = links.iter().filter(usual).map(|(link, _)| *link).collect();
        let mut sets: Vec<BTreeSet<Place>> = Vec::new();
        for (a, b) in links {
            if sets.iter().any(|set| set.contains(&a) && set.contains(&b)) {
                continue;
            }
            let (mut with, others): (Vec<_>, Vec<_>) =
                sets.into_iter().partition(|set| set.contains(&a) || set.contains(&b));
            with.push([a, b].into());
            sets = others;
            sets.push(with.into_iter().flatten().collect());
        }
        sets.into_iter().map(|set| set.into_iter().flat_map(|place| self.each(place)).collect()).collect()
    }

    /// Turns that do not look like those of users of these locks.
    fn strays(&self, locks: &BTreeMap<Place, Pid>) -> usize {
        let lock = |section: &Section| section.place.and_then(|place| locks.get(&place)).copied();
        // By the lock and when: when the turn began that released it, and who it was.
        let mut released: BTreeMap<Pid, BTreeMap<u64, (Pid, u64)>> = BTreeMap::new();
        for (turn, section) in self.sections() {
            if let (Some(lock), Some(place), Some(wakes)) = (lock(section), section.place, section.wakes) {
                released.entry(lock).or_default().insert(wakes.at, (place.0, turn.began));
            }
        }
        // Who has the lock when another begins to wait is the first to release it then, and had begun before.
        let held = |section: &Section, (by, since, at): (Pid, u64, u64)| {
            let Some(all) = lock(section).and_then(|lock| released.get(&lock)) else { return false };
            let holder = all.range(since.min(at)..=at).next();
            all.get(&at).is_some_and(|(pid, _)| *pid == by) && holder.is_some_and(|(_, (_, began))| *began <= since)
        };
        let (mut n, is_fine) = (0, |pid: Pid, section: &Section| {
            lock(section).is_some() && self.waits(pid, section).into_iter().all(|wait| held(section, wait))
        });
        for (pid, turns) in &self.turns {
            n += turns.iter().filter(|t| t.stray || !t.sections.iter().all(|s| is_fine(*pid, s))).count();
        }
        n
    }

    /// Where each thread takes and releases a lock, as usual: work of the turn before it, and under it.
    fn usual(&self, locks: &BTreeMap<Place, Pid>, ran: &BTreeMap<Pid, Ran>) -> AllUsual {
        let mut usual: BTreeMap<Place, Usual> = BTreeMap::new();
        // By who releases it and when: where, after how much work, and when the turn began.
        let mut released: BTreeMap<(Pid, u64), (Place, u64, u64)> = BTreeMap::new();
        for (turn, section) in self.sections().filter(|(t, _)| t.between.is_some()) {
            // The others are of rare kinds.
            if let Some(place) = section.place.filter(|place| Some(place.1) == turn.between) {
                usual.entry(self.common(place)).or_default().add(section);
                released.extend(section.wakes.map(|w| ((place.0, w.at), (place, w.after, turn.began))));
            }
        }
        for (place, section) in self.sections().filter_map(|(_, s)| Some((s.place?, s))) {
            for (by, since, at) in self.waits(place.0, section) {
                let of = released.get(&(by, at)).filter(|(other, ..)| locks.get(other) == locks.get(&place));
                let Some(((place, after, began), ran)) = of.zip(ran.get(&by)) else { continue };
                let [from, held, until] = [*began, since.max(*began), at].map(|at| u128::from(ran.work(at)));
                let done = u128::from(*after) * (held - from) / (until - from).max(1);
                usual.entry(self.common(*place)).or_default().taken_at.push(done as u64);
            }
        }
        let mut all = AllUsual::new();
        // Who is hardly ever seen to release it has it for as long as another that takes it after as much work.
        let mut as_others: Vec<(Place, u64)> = Vec::new();
        for (place, mut usual) in usual {
            as_others.extend(median(&mut usual.before).map(|before| (place, before)));
            let found = usual.place(self.is_one_way(place.0));
            for place in self.each(place) {
                all.entry(place.0).or_default().extend(found.map(|found| (place, found)));
            }
        }
        as_others.retain(|(place, _)| !all[&place.0].contains_key(place));
        for (place, before) in as_others {
            let is_like = |(other, (of, _)): &(&Place, &(u64, u64))| {
                locks.get(other) == locks.get(&place) && of.abs_diff(before) <= before / ALIKE_PART
            };
            let like = all.values().flatten().filter(is_like).map(|(_, (_, under))| (before, *under)).next();
            all.entry(place.0).or_default().extend(like.map(|like| (place, like)));
        }
        all
    }

    /// Threads that take a lock now and then would have it at once where each took it in every turn.
    fn are_apart(&self, locks: &BTreeMap<Place, Pid>, usual: &AllUsual, ran: &BTreeMap<Pid, Ran>) -> bool {
        let (mut waits, mut at_once): (BTreeMap<Pid, usize>, BTreeMap<Pid, usize>) = Default::default();
        let waiting = self.sections().filter(|(_, s)| s.taken.is_some());
        for lock in waiting.filter_map(|(_, s)| locks.get(&s.place?)) {
            *waits.entry(*lock).or_default() += 1;
        }
        for (lock, mut held) in self.held(locks, usual, ran) {
            held.sort_unstable();
            // The later one begins while the other has it for less than half of its time.
            let both = |two: &&[Held]| two[0].pid != two[1].pid && two[1].from < two[0].from.midpoint(two[0].until);
            at_once.insert(lock, held.windows(2).filter(both).count());
        }
        at_once.iter().all(|(lock, n)| n * UNSEEN_OF <= waits.get(lock).copied().unwrap_or(0))
    }

    /// When threads have each lock, if each takes it in every turn.
    fn held(
        &self,
        locks: &BTreeMap<Place, Pid>,
        usual: &AllUsual,
        ran: &BTreeMap<Pid, Ran>,
    ) -> BTreeMap<Pid, Vec<Held>> {
        let none = BTreeMap::new();
        let mut all: BTreeMap<Pid, Vec<Held>> = BTreeMap::new();
        for (&pid, turns) in &self.turns {
            let (steps, usual) = (&self.steps[&pid].0, usual.get(&pid).unwrap_or(&none));
            let Some(ran) = ran.get(&pid) else { continue };
            let ends = |t: &Turn| steps.get(t.steps.end).and_then(Step::blocked_since);
            // When the turn of a thread that is late began is not known, but when the first one did after it had waited.
            for late in turns.split_inclusive(|t| ends(t).is_some()) {
                let Some((from, until)) = late.first().map(|t| t.began).zip(late.last().and_then(ends)) else {
                    continue;
                };
                let works: Vec<u64> = late.iter().map(|t| work(&steps[t.steps.clone()])).collect();
                let when = ran.when_done((from, until.max(from)), works.iter().sum());
                let mut done = 0;
                for (turn, work) in late.iter().zip(works) {
                    for (taken, given, lock) in spans(steps, turn, usual, locks) {
                        let waited = turn.sections.iter().filter(|s| s.taken == Some(taken)).flat_map(|s| &s.waits);
                        let from = waited.filter_map(|i| steps[*i].woken_at()).max();
                        let from = from.unwrap_or_else(|| when(done + taken));
                        all.entry(lock).or_default().push(Held { from, until: when(done + given).max(from), pid });
                    }
                    done += work;
                }
            }
        }
        all
    }
}

/// Each lock is known by the first of its users that no other is known by.
fn named(mut sets: Vec<BTreeSet<Place>>) -> Option<BTreeMap<Place, Pid>> {
    let users = |set: &BTreeSet<Place>| set.iter().map(|p| p.0).collect::<BTreeSet<Pid>>();
    sets.retain(|set| users(set).len() > 1);
    sets.sort_by_key(|set| users(set).len());
    let (mut names, mut locks) = (BTreeSet::new(), BTreeMap::new());
    for set in sets {
        let name = users(&set).into_iter().find(|pid| names.insert(*pid))?;
        locks.extend(set.into_iter().map(|place| (place, name)));
    }
    (!locks.is_empty()).then_some(locks)
}

/// Does it wait for times to pass, and none to come?
fn sleeps(steps: &[Step]) -> bool {
    let first = steps.iter().position(|s| matches!(s, Step::Sleep { .. }));
    first.is_some_and(|first| !steps[first..].iter().any(|s| matches!(s, Step::Timer { .. })))
}

/// A thread's steps with the timers that had passed while it waited for others of the group, too. Are they sleeps where there is none?
fn late_turns(thread: &Thread, members: &BTreeSet<Pid>, held: &BTreeSet<u64>, sleep: bool) -> Program {
    let mut steps = without(&thread.steps, held);
    // What follows a wait for another is a sleep, and what it does again and again was one before the first of those.
    if sleeps(&steps) || sleep && !steps.iter().any(|s| matches!(s, Step::Sleep { .. })) {
        sleep_instead(&mut steps, |_| true);
    }
    let for_itself = |s: &Step| s.waits() && !is_wait(s, members) && !is_held(s, held);
    let beat = thread.beat.and(periods::reveal(&mut steps, thread.birth(), for_itself));
    super::laps::cut(&mut steps, &LAP_END, MAX_PLACES, |s| is_wait(s, members), |s| is_release(s, members));
    for i in 0..steps.len() {
        if matches!(steps[i], Step::Passed { .. }) && steps[i] != LAP_END {
            settle(&mut steps, i, members);
        }
    }
    (steps, beat)
}

/// Waits under a lock as sleeps, without which the others may keep time.
fn without(steps: &[Step], held: &BTreeSet<u64>) -> Vec<Step> {
    let mut steps = steps.to_vec();
    if held.is_empty() {
        return steps;
    }
    sleep_instead(&mut steps, |since| held.contains(&since));
    let mut timers = steps.clone();
    for step in &mut timers {
        if let Step::Sleep { ns, since } = *step
            && !held.contains(&since)
        {
            *step = Step::Timer { until: since + ns, since };
        }
    }
    if periods::has_grid(&timers) { timers } else { steps }
}

/// Timers are sleeps, where they are since such a time.
fn sleep_instead(steps: &mut [Step], sleeps: impl Fn(u64) -> bool) {
    for step in steps {
        if let Step::Timer { until, since } = *step
            && sleeps(since)
        {
            *step = Step::Sleep { ns: until.saturating_sub(since), since };
        }
    }
}

/// Does it hold a lock while it waits there?
fn is_held(step: &Step, held: &BTreeSet<u64>) -> bool {
    step.woken_by().is_none() && step.blocked_since().is_some_and(|since| held.contains(&since))
}

/// By its work a timer is not found exactly: it comes after a release that is near, and before a wait that is.
fn settle(steps: &mut [Step], passed: usize, members: &BTreeSet<Pid>) {
    let near = |all: &mut dyn Iterator<Item = usize>, steps: &[Step]| {
        let mut work = 0;
        all.take_while(|i| match steps[*i] {
            Step::Work(units) => {
                work += units;
                work <= LITTLE
            }
            ref other => !other.waits() && !matches!(other, Step::Passed { .. }) || is_wait(other, members),
        })
        .collect::<Vec<_>>()
    };
    let after = near(&mut (passed + 1..steps.len()), steps);
    let first = after.iter().copied().find(|i| is_wait(&steps[*i], members) || is_release(&steps[*i], members));
    if let Some(release) = first.filter(|i| is_release(&steps[*i], members)) {
        steps[passed..=release].rotate_left(1);
        return;
    }
    let before = near(&mut (0..passed).rev(), steps);
    let waits = before.into_iter().take_while(|i| !is_release(&steps[*i], members));
    if let Some(wait) = waits.filter(|i| is_wait(&steps[*i], members)).last() {
        steps[wait..=passed].rotate_right(1);
    }
}

fn is_wait(step: &Step, members: &BTreeSet<Pid>) -> bool {
    step.woken_by().is_some_and(|by| members.contains(&by))
}

fn is_release(step: &Step, members: &BTreeSet<Pid>) -> bool {
    step.wakes().is_some_and(|to| members.contains(&to))
}

fn turns(steps: &[Step], members: &BTreeSet<Pid>, held: &BTreeSet<u64>) -> Vec<Turn> {
    let mut all = Vec::new();
    let new =
        |first: usize, began| Turn { between: None, steps: first..first, began, sections: Vec::new(), stray: false };
    let (mut turn, mut before, mut done) = (new(0, 0), None, 0u64);
    // When it was last seen to do something.
    let mut seen = 0;
    for (i, step) in steps.iter().enumerate() {
        seen = if let Step::Post { at, .. } = *step { at } else { step.woken_at().unwrap_or(seen) };
        match *step {
            Step::Token { by, .. } if members.contains(&by) => turn.wait(i, done),
            Step::Post { to, at } if members.contains(&to) => turn.release(Release { step: i, at, after: done }),
            Step::Work(units) => done = done.saturating_add(units),
            // A timer that has passed begins a new turn, too; when, is not known.
            _ if is_held(step, held) => {}
            _ if step.waits() || matches!(step, Step::Passed { .. }) => {
                let kind = kind_of_wait(step).unwrap_or(TIMER);
                turn.steps.end = i;
                turn.between = before.map(|before| [before, kind]);
                let began = step.woken_at().unwrap_or(if *step == LAP_END { seen } else { turn.began });
                all.push(std::mem::replace(&mut turn, new(i + 1, began)));
                (before, done) = (Some(kind), 0);
            }
            _ => {}
        }
    }
    turn.steps.end = steps.len();
    all.push(turn);
    all
}

impl Turn {
    fn wait(&mut self, step: usize, done: u64) {
        let again = |s: &Section| s.wakes.is_none() && s.taken.is_some_and(|taken| done - taken <= LITTLE);
        if !self.sections.last().is_some_and(again) {
            self.sections.push(Section::default());
        }
        let section = self.sections.last_mut().expect("one");
        section.waits.push(step);
        section.taken = Some(done);
    }
    fn release(&mut self, release: Release) {
        if self.sections.last().is_none_or(|s| s.wakes.is_some()) {
            self.sections.push(Section::default());
        }
        self.sections.last_mut().expect("one").wakes = Some(release);
    }
}

/// Work before and until the end of each section, as turns of one kind that show all of them have it.
type Marks = Vec<(Option<u64>, Option<u64>)>;

/// Which place each section is. Those of rare kinds, and of the first and the last turn, are taken as of the thread's usual kind.
fn find_places(turns: Vec<(Pid, &mut Turn)>) {
    let mut kinds: BTreeMap<Waits, Vec<&Turn>> = BTreeMap::new();
    for (_, turn) in turns.iter().filter(|(_, t)| !t.sections.is_empty()) {
        if let Some(between) = turn.between {
            kinds.entry(between).or_default().push(turn);
        }
    }
    kinds.retain(|_, turns| turns.len() >= MIN_SEEN);
    let Some(usual) = kinds.iter().max_by_key(|(_, turns)| turns.len()).map(|(kind, _)| *kind) else { return };
    let marks: BTreeMap<Waits, Marks> = kinds.into_iter().map(|(kind, turns)| (kind, marks(&turns))).collect();
    for (pid, turn) in turns {
        let kind = turn.between.filter(|b| marks.contains_key(b)).unwrap_or(usual);
        let marks = &marks[&kind];
        let split = std::mem::take(&mut turn.sections).into_iter().flat_map(|section| places(section, marks));
        turn.sections = split.map(|(section, nth)| Section { place: Some((pid, kind, nth)), ..section }).collect();
        turn.stray = !turn.sections.is_sorted_by(|a, b| a.place < b.place);
    }
}

/// As many as the turns with most of them have, unless these are few.
fn marks(turns: &[&Turn]) -> Marks {
    let as_many = |n: usize| turns.iter().filter(|t| t.sections.len() >= n).count();
    let n = (1..=MAX_PLACES).rev().find(|n| as_many(*n) >= MIN_SEEN && as_many(*n) * STRAY_OF > turns.len());
    let n = n.unwrap_or(1);
    let middle = |nth: usize, of: &dyn Fn(&Section) -> Option<u64>| {
        median(
            &mut turns
                .iter()
                .filter(|t| t.sections.len() == n)
                .filter_map(|t| of(&t.sections[nth]))
                .collect::<Vec<_>>(),
        )
    };
    (0..n).map(|nth| (middle(nth, &|s| s.taken), middle(nth, &|s| s.wakes.map(|w| w.after)))).collect()
}

/// A section that begins at one place and ends at another is two: neither the release of the first was seen, nor a wait for the second.
fn places(section: Section, marks: &Marks) -> Vec<(Section, usize)> {
    let nearest = |to: u64, mark: &dyn Fn(usize) -> Option<u64>| {
        let near = (0..marks.len()).filter_map(|nth| Some((mark(nth)?.abs_diff(to), nth))).min();
        near.map_or(0, |(_, nth)| nth)
    };
    let taken = section.taken.map(|taken| nearest(taken, &|nth| marks[nth].0));
    let given = section.wakes.map(|w| nearest(w.after, &|nth| marks[nth].1));
    match (taken, given) {
        (Some(taken), Some(given)) if taken < given => {
            let first = Section { wakes: None, ..section.clone() };
            vec![(first, taken), (Section { wakes: section.wakes, ..Section::default() }, given)]
        }
        (taken, given) => vec![(section, taken.or(given).unwrap_or(0))],
    }
}

/// The same steps with the locks in all turns of the kinds that take them.
fn locking(
    steps: Vec<Step>,
    turns: &[Turn],
    usual: &BTreeMap<Place, (u64, u64)>,
    locks: &BTreeMap<Place, Pid>,
) -> Vec<Step> {
    let mut out = Vec::with_capacity(steps.len() + 2 * turns.len());
    for turn in turns {
        put(&steps, turn, &spans(&steps, turn, usual, locks), &mut out);
        out.extend(steps.get(turn.steps.end).filter(|s| **s != LAP_END).cloned());
    }
    out
}

/// From where to where a turn has which lock: work, units.
fn spans(
    steps: &[Step],
    turn: &Turn,
    usual: &BTreeMap<Place, (u64, u64)>,
    locks: &BTreeMap<Place, Pid>,
) -> Vec<(u64, u64, Pid)> {
    let all = work(&steps[turn.steps.clone()]);
    // For the first and the last turn, and those of rare kinds.
    let any = usual.values().next().map_or(0, |(_, under)| *under);
    let mut spans: Vec<(u64, u64, Pid)> = Vec::new();
    for section in &turn.sections {
        let Some((place, lock)) = section.place.and_then(|p| Some((p, *locks.get(&p)?))) else { continue };
        let held = usual.get(&place).map_or(any, |(_, under)| *under);
        let given = section.wakes.map(|w| w.after);
        let taken = section.taken.or(given.map(|given| given.saturating_sub(held))).unwrap_or(0);
        spans.push((taken, given.unwrap_or(taken.saturating_add(held)), lock));
    }
    let unseen = usual.iter().filter(|((_, kind, _), _)| Some(*kind) == turn.between);
    for (place, (before, under)) in unseen.filter(|(_, (before, _))| *before < all) {
        let seen = turn.sections.iter().any(|s| s.place == Some(*place));
        let free = spans.iter().all(|(taken, given, _)| before.saturating_add(*under) <= *taken || *given <= *before);
        if let Some(lock) = locks.get(place).filter(|_| !seen && free) {
            spans.push((*before, before.saturating_add(*under), *lock));
        }
    }
    cover(&mut spans, &steps[turn.steps.clone()]);
    spans.sort_unstable();
    // One after another, and within the turn.
    let mut end = 0;
    for i in 0..spans.len() {
        let next = spans.get(i + 1).map_or(all, |next| next.0.min(all));
        let (taken, given, _) = &mut spans[i];
        *taken = (*taken).clamp(end, all.max(end));
        *given = (*given).clamp(*taken, next.max(*taken));
        end = *given;
    }
    spans
}

/// Waits of its own in the midst of a turn are under the lock, also where that is taken just before, or released just after.
fn cover(spans: &mut [(u64, u64, Pid)], turn: &[Step]) {
    let mut done = 0u64;
    for step in turn {
        match *step {
            Step::Work(units) => done += units,
            Step::Token { .. } => {}
            ref own if own.waits() => {
                let near = |(taken, given, _): &&mut (u64, u64, Pid)| {
                    *taken <= done + LITTLE && done <= given.saturating_add(LITTLE)
                };
                if let Some((taken, given, _)) = spans.iter_mut().find(near) {
                    (*taken, *given) = ((*taken).min(done), (*given).max(done));
                }
            }
            _ => {}
        }
    }
}

/// A turn's steps with locks where they are.
fn put(steps: &[Step], turn: &Turn, spans: &[(u64, u64, Pid)], out: &mut Vec<Step>) {
    let seen: BTreeSet<usize> =
        turn.sections.iter().flat_map(|s| s.waits.iter().copied().chain(s.wakes.map(|w| w.step))).collect();
    let mut marks = spans
        .iter()
        .flat_map(|(taken, given, lock)| [(*taken, Step::Lock(*lock)), (*given, Step::Unlock(*lock))])
        .peekable();
    let mut done = 0;
    for (i, step) in turn.steps.clone().zip(&steps[turn.steps.clone()]) {
        if seen.contains(&i) {
            continue;
        }
        let Step::Work(units) = *step else {
            if step.waits() {
                // Under the lock.
                while let Some((_, mark)) = marks.next_if(|(at, mark)| *at <= done && matches!(mark, Step::Lock(_))) {
                    out.push(mark);
                }
            }
            out.push(step.clone());
            continue;
        };
        let mut left = units;
        while let Some((at, place)) = marks.next_if(|(at, _)| *at < done + left) {
            let first = at - done;
            out.extend((first > 0).then_some(Step::Work(first)));
            (done, left) = (at, left - first);
            out.push(place);
        }
        out.extend((left > 0).then_some(Step::Work(left)));
        done += left;
    }
    out.extend(marks.map(|(_, step)| step));
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000_000;

    /// What a thread of a test does, in µs; of locks the numbers.
    #[derive(Clone, Copy)]
    enum Op {
        Work(u64),
        /// The same, but others have the CPU for a part of the time.
        Disturbed(u64),
        Lock(usize),
        Unlock(usize),
        /// And somewhat more, or one would come late for ever.
        Sleep(u64),
        /// So long.
        Nap(u64),
        /// Late, it starts again from now.
        Timer(u64),
    }
    use Op::*;

    /// Threads that go round in these programs, each on a CPU of its own of one unit a ns, for so many steps in all.
    fn simulate(programs: &[&[Op]], n: u64) -> BTreeMap<Pid, Thread> {
        let mut steps = vec![Vec::new(); programs.len()];
        let (mut pc, mut now, mut expiry) = (vec![0; steps.len()], vec![1000; steps.len()], vec![1000; steps.len()]);
        // Who has each, and who waits for it since when.
        let mut locks: BTreeMap<usize, Vec<(usize, u64)>> = BTreeMap::new();
        let pid = |i: usize| Pid(i as u32 + 1);
        for step in 0..n {
            let i = (0..now.len()).min_by_key(|i| now[*i]).expect("one at least");
            let at = now[i];
            match programs[i][pc[i]] {
                Work(us) => {
                    steps[i].push(Step::Work(us * US));
                    now[i] += us * 1000;
                }
                Disturbed(us) => {
                    steps[i].push(Step::Work(us * US));
                    now[i] += (us + step * step * 7919 % 1201) * 1000;
                }
                Lock(lock) => {
                    let users = locks.entry(lock).or_default();
                    users.push((i, at));
                    now[i] = if users.len() > 1 { u64::MAX } else { at };
                }
                Unlock(lock) => {
                    let users = locks.get_mut(&lock).expect("it has it");
                    users.remove(0);
                    if let Some((next, since)) = users.first().copied() {
                        steps[i].push(Step::Post { to: pid(next), at });
                        steps[next].push(Step::Token { by: pid(i), since, at });
                        now[next] = at;
                    }
                }
                Sleep(us) => {
                    let ns = (us + step * step * 7919 % 1501) * 1000;
                    steps[i].push(Step::Sleep { ns, since: at });
                    now[i] += ns;
                }
                Nap(us) => {
                    steps[i].push(Step::Sleep { ns: us * 1000, since: at });
                    now[i] += us * 1000;
                }
                Timer(us) => {
                    expiry[i] += us * 1000;
                    if expiry[i] > at {
                        steps[i].push(Step::Timer { until: expiry[i], since: at });
                    }
                    expiry[i] = expiry[i].max(at);
                    now[i] = expiry[i];
                }
            }
            pc[i] = (pc[i] + 1) % programs[i].len();
        }
        let thread = |steps| {
            let mut thread = Thread::new(120);
            thread.steps = steps;
            thread
        };
        (1..).map(Pid).zip(steps.into_iter().map(thread)).collect()
    }

    /// Two threads that sleep and take a lock.
    fn exclusive(n: u64) -> BTreeMap<Pid, Thread> {
        let [a, b] = [(300, 500, 700), (450, 400, 530)]
            .map(|(before, under, sleep)| [Sleep(sleep), Work(before), Lock(0), Work(under), Unlock(0)]);
        simulate(&[&a, &b], n)
    }

    /// What is found, if each thread ran whenever it did not wait.
    fn found(threads: &mut BTreeMap<Pid, Thread>) -> BTreeSet<Pid> {
        found_of(threads, &Kinds::new())
    }

    /// The same of threads of these kinds.
    fn found_of(threads: &mut BTreeMap<Pid, Thread>, kinds: &Kinds) -> BTreeSet<Pid> {
        let awake = |t: &Thread| {
            let (mut ran, mut from) = (Ran::default(), 0);
            for step in &t.steps {
                if let Some((since, until)) = step.blocked_since().zip(step.woken_at()) {
                    ran.add(from, since, since.saturating_sub(from));
                    from = until;
                }
            }
            ran
        };
        let ran: BTreeMap<Pid, Ran> = threads.iter().map(|(pid, t)| (*pid, awake(t))).collect();
        exclude(threads, kinds, || ran)
    }

    fn count(steps: &[Step], is: impl Fn(&Step) -> bool) -> usize {
        steps.iter().filter(|s| is(s)).count()
    }

    fn none_waits_for_another(threads: &BTreeMap<Pid, Thread>) -> bool {
        let of_another = |s: &Step| s.with().is_some();
        !threads.values().flat_map(|t| &t.steps).any(of_another)
    }

    fn work(threads: &BTreeMap<Pid, Thread>) -> u64 {
        threads.values().map(|t| super::work(&t.steps)).sum()
    }

    #[test]
    fn each_turn_takes_the_lock() {
        let mut threads = exclusive(2000);
        let (before, turns) = (work(&threads), threads.values().flat_map(|t| &t.steps).filter(|s| s.waits()));
        let turns = turns.filter(|s| matches!(s, Step::Sleep { .. })).count();
        assert!(threads.values().flat_map(|t| &t.steps).filter(|s| matches!(s, Step::Token { .. })).count() > 40);
        assert_eq!(found(&mut threads), BTreeSet::from([Pid(1)]));
        assert_eq!(work(&threads), before, "work is kept");
        let steps = || threads.values().flat_map(|t| &t.steps);
        assert!(none_waits_for_another(&threads));
        for kind in [Step::Lock(Pid(1)), Step::Unlock(Pid(1))] {
            let n = steps().filter(|s| **s == kind).count();
            // Of the last turn of each nobody knows how it ends.
            assert!((turns - 2..=turns).contains(&n), "{n} of {turns}");
        }
        // Where nothing was seen, the lock is where it is else.
        let uncontended = [Step::Work(300 * US), Step::Lock(Pid(1)), Step::Work(500 * US), Step::Unlock(Pid(1))];
        let all = threads[&Pid(1)].steps.windows(4).filter(|w| *w == uncontended).count();
        assert!(all * 10 > turns * 4, "{all} of {turns}");
    }

    #[test]
    fn threads_of_one_program_show_it_together() {
        let user: &[Op] = &[Work(300), Lock(0), Work(250), Unlock(0), Sleep(5000)];
        let seldom = || simulate(&[user; 4], 1500);
        let waits = |t: &Thread| count(&t.steps, |s| matches!(s, Step::Token { .. }));
        assert!(
            seldom().values().any(|t| waits(t) < MIN_SEEN),
            "{:?}",
            seldom().values().map(waits).collect::<Vec<_>>()
        );
        assert!(found(&mut seldom()).is_empty(), "too little of each");
        let kinds = |threads: &BTreeMap<Pid, Thread>| threads.keys().map(|pid| (*pid, "user".into())).collect();
        let (mut threads, before) = (seldom(), work(&seldom()));
        let kinds = kinds(&threads);
        assert_eq!(found_of(&mut threads, &kinds), BTreeSet::from([Pid(1)]));
        assert_eq!(work(&threads), before, "work is kept");
        assert!(none_waits_for_another(&threads));
        let whole = [Step::Work(300 * US), Step::Lock(Pid(1)), Step::Work(250 * US), Step::Unlock(Pid(1))];
        for t in threads.values() {
            let turns = count(&t.steps, |s| matches!(s, Step::Sleep { .. }));
            let locked = t.steps.windows(4).filter(|w| *w == whole).count();
            assert!(turns - 2 <= locked && locked <= turns + 1, "{locked} of {turns}");
        }
    }

    #[test]
    fn messages_of_one_program() {
        // The one sends in each turn; the other waits for that where it comes first, in half of its turns.
        let (mut sends, mut waits) = (Thread::new(120), Thread::new(120));
        for i in 0..400u64 {
            let [sent, asked] = [7919, 6151].map(|by| 1_000_000 * (10 * i + i * by % 5));
            if asked < sent {
                waits.steps.push(Step::Token { by: Pid(1), since: asked, at: sent });
            }
            let until = sent.max(asked);
            waits.steps.extend([Step::Work(900 * US), Step::Sleep { ns: 5_000_000, since: until + 900_000 }]);
            sends.steps.push(Step::Work(900 * US));
            if asked < sent {
                sends.steps.push(Step::Post { to: Pid(2), at: sent });
            }
            sends.steps.push(Step::Sleep { ns: 5_000_000, since: sent });
        }
        let mut threads = BTreeMap::from([(Pid(1), sends), (Pid(2), waits)]);
        let kinds = [1, 2].map(|pid| (Pid(pid), "stage".into())).into();
        assert!(found_of(&mut threads, &kinds).is_empty());
    }

    #[test]
    fn three_users_that_are_late() {
        let user = |period| [Work(600), Lock(0), Work(1000), Unlock(0), Timer(period)];
        let [a, b, c] = [3000, 3333, 3666].map(user);
        let mut threads = simulate(&[&a, &b, &c], 6000);
        let before = work(&threads);
        assert_eq!(found(&mut threads), BTreeSet::from([Pid(1)]));
        assert_eq!(work(&threads), before, "work is kept");
        assert!(none_waits_for_another(&threads));
        let late: usize = threads.values().map(|t| count(&t.steps, |s| matches!(s, Step::Passed { .. }))).sum();
        assert!(late > 10, "{late}");
        let beats = |of: fn(&Beat) -> u32| threads.values().map(|t| of(&t.beat)).sum::<u32>();
        assert!(beats(|b| b.started_again) > 2 * beats(|b| b.caught_up));
        // Each has one lock, at its place.
        let whole = [Step::Work(600 * US), Step::Lock(Pid(1)), Step::Work(1000 * US), Step::Unlock(Pid(1))];
        for t in threads.values() {
            let jobs = 1 + count(&t.steps, |s| matches!(s, Step::Timer { .. } | Step::Passed { .. }));
            let locked = t.steps.windows(4).filter(|w| *w == whole).count();
            assert!(jobs - 2 <= locked && locked <= jobs, "{locked} of {jobs}");
        }
    }

    #[test]
    fn who_waits_for_nothing_else() {
        let [a, b, c] = [900, 1150, 1320].map(|before| [Disturbed(before), Lock(0), Work(400), Unlock(0)]);
        let mut threads = simulate(&[&a, &b, &c], 6000);
        let waits =
            |threads: &BTreeMap<Pid, Thread>| threads.values().map(|t| count(&t.steps, Step::waits)).sum::<usize>();
        let (before, seen) = (work(&threads), waits(&threads));
        assert_eq!(found(&mut threads), BTreeSet::from([Pid(1)]));
        assert_eq!(work(&threads), before, "work is kept");
        assert!(none_waits_for_another(&threads) && waits(&threads) > 2 * seen);
        for (t, before) in threads.values().zip([900, 1150, 1320]) {
            let whole = [Step::Work(before * US), Step::Lock(Pid(1)), Step::Work(400 * US), Step::Unlock(Pid(1))];
            let laps = t.steps.windows(4).filter(|w| *w == whole).count();
            let all = count(&t.steps, |s| *s == Step::Lock(Pid(1)));
            assert!(laps + 2 >= all && all > 400, "{laps} of {all}");
        }
        // Each time it does something else before.
        let mut threads = simulate(&[&a, &b, &c], 6000);
        for t in threads.values_mut() {
            let work = t.steps.iter_mut().filter_map(|s| if let Step::Work(units) = s { Some(units) } else { None });
            work.enumerate().for_each(|(i, units)| *units += i as u64 * 7919 % 1501 * US);
        }
        assert!(found(&mut threads).is_empty());
    }

    #[test]
    fn two_locks() {
        let p = [Work(50), Lock(0), Work(600), Unlock(0), Work(500), Lock(1), Work(400), Unlock(1), Sleep(700)];
        let q = [Work(20), Lock(1), Work(500), Unlock(1), Sleep(900)];
        let mut threads = simulate(&[&p, &p, &q, &q], 12000);
        assert_eq!(found(&mut threads), BTreeSet::from([Pid(1), Pid(2)]));
        assert!(none_waits_for_another(&threads));
        let [a, b] = [1, 2].map(|lock| [Step::Lock(Pid(lock)), Step::Unlock(Pid(lock))]);
        for (pid, t) in &threads {
            let turns = count(&t.steps, |s| matches!(s, Step::Sleep { .. }));
            let has = |[lock, unlock]: &[Step; 2], us| {
                let whole = [lock.clone(), Step::Work(us * US), unlock.clone()];
                let (n, all) = (t.steps.windows(3).filter(|w| *w == whole).count(), count(&t.steps, |s| s == lock));
                assert_eq!(n, all, "others are held longer or shorter");
                (turns - 2..=turns + 1).contains(&n)
            };
            match pid.0 {
                1 | 2 => assert!(has(&a, 600) && has(&b, 400), "{pid}"),
                _ => assert!(!t.steps.contains(&a[0]) && has(&b, 500), "{pid}"),
            }
        }
    }

    #[test]
    fn a_lock_that_is_held_across_a_sleep() {
        let a = [Work(300), Lock(0), Work(200), Nap(500), Work(200), Unlock(0), Work(100), Sleep(1500)];
        let b = [Work(450), Lock(0), Work(400), Unlock(0), Sleep(1300)];
        // Nothing is done under the lock but to sleep.
        let c = [Work(100), Lock(0), Nap(400), Unlock(0), Work(300), Sleep(2000)];
        let mut threads = simulate(&[&a, &b, &c], 9000);
        let before = work(&threads);
        assert_eq!(found(&mut threads), BTreeSet::from([Pid(1)]));
        assert_eq!(work(&threads), before, "work is kept");
        assert!(none_waits_for_another(&threads));
        for (pid, naps, under) in [(Pid(1), 500, 200), (Pid(3), 400, 0)] {
            let steps = &threads[&pid].steps;
            let nap = |s: &Step| matches!(s, Step::Sleep { ns, .. } if *ns == naps * 1000);
            let around = |i: usize| match (under, &steps[i.saturating_sub(2)..], &steps[i + 1..]) {
                (0, [_, Step::Lock(_), ..], [Step::Unlock(_), ..]) => true,
                (_, [Step::Lock(_), Step::Work(before), ..], [Step::Work(after), Step::Unlock(_), ..]) => {
                    [before, after].iter().all(|units| **units == under * US)
                }
                _ => false,
            };
            let naps: Vec<usize> = (2..steps.len()).filter(|i| nap(&steps[*i])).collect();
            let held = naps.iter().filter(|i| around(**i)).count();
            assert!(held + 2 >= naps.len() && held > 100, "{pid}: {held} of {}", naps.len());
        }
    }

    #[test]
    fn who_never_waits_and_who_never_makes_wait() {
        let h = [Nap(1100), Work(50), Lock(0), Work(2), Unlock(0), Work(3)];
        let l = [Sleep(1000), Work(300), Lock(0), Work(900), Unlock(0), Work(200)];
        let mut threads = simulate(&[&h, &l], 9000);
        let waits = |pid: u32| count(&threads[&Pid(pid)].steps, |s| matches!(s, Step::Token { .. }));
        assert!(waits(1) > 200 && waits(2) < MIN_SEEN, "{} {}", waits(1), waits(2));
        let before = work(&threads);
        assert_eq!(found(&mut threads), BTreeSet::from([Pid(1)]));
        assert_eq!(work(&threads), before, "work is kept");
        assert!(none_waits_for_another(&threads));
        let [h, l] = [1, 2].map(|pid| &threads[&Pid(pid)].steps);
        let locked = |steps: &[Step]| count(steps, |s| matches!(s, Step::Lock(_)));
        let turns = |steps: &[Step]| count(steps, |s| matches!(s, Step::Sleep { .. }));
        for steps in [h, l] {
            assert!(locked(steps) + 2 >= turns(steps), "{} of {}", locked(steps), turns(steps));
        }
        // Work of each turn before the lock, under it and behind it.
        let is_whole = |turn: &&[Step]| {
            let parts = turn.split(|s| matches!(s, Step::Lock(_) | Step::Unlock(_)));
            let parts: Vec<u64> = parts.map(super::work).collect();
            matches!(parts[..], [before, under, after]
                if before.abs_diff(300 * US) <= 15 * US && before + under == 1_200 * US && after == 200 * US)
        };
        let found = l.split(|s| matches!(s, Step::Sleep { .. })).filter(is_whole).count();
        assert!(found + 4 >= locked(l), "{found} of {}", locked(l));
    }

    #[test]
    fn one_lock_within_another_is_left_as_recorded() {
        let p = [Work(50), Lock(0), Work(300), Lock(1), Work(400), Unlock(1), Work(200), Unlock(0), Sleep(700)];
        let q = [Work(20), Lock(1), Work(500), Unlock(1), Sleep(900)];
        let mut threads = simulate(&[&p, &p, &q, &q], 12000);
        assert!(found(&mut threads).is_empty());
    }

    #[test]
    fn a_lock_lends_priorities() {
        let lent = |threads: &mut BTreeMap<Pid, Thread>, by: u32| {
            let steps = &mut threads.get_mut(&Pid(1)).unwrap().steps;
            steps.push(Step::Lent { prio: 69, by: Pid(by) });
            found(threads);
            let steps = &threads[&Pid(1)].steps;
            [count(steps, |s| *s == Step::Attr(69)), count(steps, |s| matches!(s, Step::Lent { .. }))]
        };
        assert_eq!(lent(&mut exclusive(2000), 2), [0, 0]);
        assert_eq!(lent(&mut exclusive(2000), 9), [1, 0], "it does not share the lock");
        let mut threads = (1..3).map(|p| (Pid(p), Thread::new(120))).collect();
        assert_eq!(lent(&mut threads, 2), [1, 0], "there is none");
    }

    #[test]
    fn a_server_is_no_lock() {
        // The client asks, works on, and waits for the answer; the server sleeps until it is asked.
        let mut threads: BTreeMap<Pid, Thread> = (1..3).map(|p| (Pid(p), Thread::new(120))).collect();
        for at in (1..40).map(|i| i * US) {
            let ask = [Step::Sleep { ns: 9, since: at - 9 }, Step::Work(7), Step::Post { to: Pid(2), at }];
            threads.get_mut(&Pid(1)).unwrap().steps.extend(ask);
            threads.get_mut(&Pid(1)).unwrap().steps.push(Step::Token { by: Pid(2), since: at + 1, at: at + 500 });
            let answer = [Step::Token { by: Pid(1), since: at - 90, at }, Step::Work(5)];
            threads.get_mut(&Pid(2)).unwrap().steps.extend(answer);
            threads.get_mut(&Pid(2)).unwrap().steps.push(Step::Post { to: Pid(1), at: at + 500 });
        }
        assert!(found(&mut threads).is_empty());
    }

    #[test]
    fn a_signal_to_who_waits_already_is_no_lock() {
        // Both sleep for themselves, and each waits now and then for the other, who has not yet begun.
        let mut threads: BTreeMap<Pid, Thread> = (1..3).map(|p| (Pid(p), Thread::new(120))).collect();
        for i in 1..40 {
            let (at, by) = (i * 10 * US, Pid(1 + (i % 2) as u32));
            let to = Pid(3 - by.0);
            let wakes = [Step::Sleep { ns: 9, since: at - 9 }, Step::Work(7), Step::Post { to, at: at + 5 }];
            threads.get_mut(&by).unwrap().steps.extend(wakes);
            let woken = [Step::Sleep { ns: 9, since: at - 900 }, Step::Token { by, since: at - 800, at: at + 5 }];
            threads.get_mut(&to).unwrap().steps.extend(woken);
        }
        assert!(found(&mut threads).is_empty());
    }

    #[test]
    fn who_rarely_takes_it_is_left_as_recorded() {
        let turns = |[before, under, sleep]: [u64; 3], free| {
            let turn = [Sleep(sleep), Work(before), Lock(0), Work(under), Unlock(0)];
            let others = [Sleep(sleep), Work(before + under)].repeat(free);
            [turn.to_vec(), others].concat()
        };
        for free in [0, 2] {
            let [a, b] = [[300, 500, 700], [450, 400, 530]].map(|turn| turns(turn, free));
            assert_eq!(found(&mut simulate(&[&a, &b], 20000)).is_empty(), free > 0, "{free}");
        }
    }

    #[test]
    fn three_that_take_turns() {
        // Each always finds the same one before it: they wake each other in a ring.
        let user = [Work(100), Lock(0), Work(95), Unlock(0), Nap(85)];
        let mut threads = simulate(&[&user, &user, &user], 6000);
        let of = |pid: u32| threads[&Pid(pid)].steps.iter().filter_map(Step::wakes).collect::<BTreeSet<Pid>>();
        assert!((1..4).all(|pid| of(pid).len() == 1), "{:?}", [of(1), of(2), of(3)]);
        assert_eq!(found(&mut threads), BTreeSet::from([Pid(1)]));
        assert!(none_waits_for_another(&threads));
        // A token that goes round is none: each begins to wait before the other has begun.
        let mut threads: BTreeMap<Pid, Thread> = (1..4).map(|p| (Pid(p), Thread::new(120))).collect();
        for i in 1..100 {
            let (at, [by, to]) = (i * 10 * US, [i, i + 1].map(|i| Pid(1 + (i % 3) as u32)));
            let wakes = [Step::Sleep { ns: 9, since: at - 9 }, Step::Work(7), Step::Post { to, at: at + 5 }];
            threads.get_mut(&by).unwrap().steps.extend(wakes);
            threads.get_mut(&to).unwrap().steps.push(Step::Token { by, since: at - 800, at: at + 5 });
        }
        assert!(found(&mut threads).is_empty());
    }
}
