//! CPUs that a thread may use, where a trace gives reason to think that it may not use all.
//!
//! A trace does not hold `sched_setaffinity`. Our own files tell with which CPUs a thread begins: then only those count as idle here, until it
//! is seen on others. What any trace shows is a thread that waits for its CPU although another is idle. Once may
//! be the scheduler's choice; a balancer would mend it within some ticks. So a thread is taken as bound to the CPUs it ran on since
//! when it happened often, or long, beside CPUs that it never ran on. Idle CPUs among its own are the scheduler's choice and say nothing.
//!
//! Then threads have a say in where others are bound (`bound`). The kernel's threads of a CPU, which their names bind, have none.
//!
//! - `one_each`: Threads whose names differ by a number, as many as there are CPUs, each of which has one of these to itself and never leaves
//!   it although it finds others there, are bound one to each.
//! - `together`: Who waits beside idle CPUs outside a set that others are bound to, but beside none within it, has that set.
//! - `companions`: Of two threads of one CPU only the one that waits tells. The other one, which met it again and again, either of them woken
//!   while the other ran, and never left, is bound to the same CPU.
//! - `kin`: Threads of one kind have their CPUs together: what one of them is bound to (most, where that is one CPU), and what more of them
//!   than it has CPUs never left, if none of them waited beside idle ones of those.
//! - `outvoted`: Of threads of one kind, some of which stay and more of which roam, none is bound, and with them goes who shared a CPU with
//!   them.
//! - `squeezed_in`: A thread that preempts at most of its wake-ups, on CPUs that others are bound to, is bound to those as well.

use super::placement::Machine;
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::{CpuId, CpuSet, Pid};

/// Waiting as long while another CPU is idle means that it may not go there.
const SNUB_NS: u64 = 300_000;
/// So many such waits, of so long together, where it never ran elsewhere.
const SNUBS: u64 = 3;
const WAITED_NS: u64 = 30_000_000;
/// So many where it did before the first of them (a thread binds itself after it was started).
const SNUBS_AFTER_MOVE: u64 = 20;
/// There each stretch of as long is as much as a further wait: a balancer looked that often. Otherwise so many of them are.
const LOOK_NS: u64 = 20_000_000;
const LOOKS_THERE: u64 = 5;
/// Instead of `WAITED_NS`, so many moves between its own CPUs while others were idle.
const SIDESTEPS: u32 = 100;
/// Since it came to the last CPU of a set, so many moves for each of them.
const SETTLED: usize = 2;
/// On a CPU that is busy for so long without a pause, energy-aware placement has no say any more.
const FULL_NS: u64 = 100_000_000;
/// So many wake-ups on a CPU that is busy, beside an idle one of the same capacity, and one in so many of all.
const SQUEEZES: u32 = 50;
const SQUEEZED_OF: u32 = 4;
/// So many waits beside idle CPUs, and moves for each of its own, where those are half of the machine at most: what its others do says no more.
const MANY_SNUBS: u64 = 30;
const MANY_MOVES: usize = 10;
/// So often it met others on the CPU of a bound thread, beside an idle one; and where placement by energy packs.
const MEETINGS: u32 = 20;
const MEETINGS_PACKED: u32 = 50;
/// So many moves between the CPUs that all threads of a kind keep to, while others were idle, and where placement does not pack also long
/// waits; one in so many of the times that they were switched in.
const KIN_SIGNS: u64 = 50;
const KIN_SIGNS_OF: u64 = 100;
/// Instead, so often each was switched in on CPUs from which placement by energy takes free threads, or on CPUs of its own.
const KIN_TIMES: u32 = 200;
/// Where each of so many CPUs has a thread of its own, so many wake-ups of all of them while another ran there, beside an idle CPU with the same
/// cache. Nearly each would have moved a free thread.
const FEWEST_EACH: usize = 4;
const SQUEEZES_EACH: u32 = 4;
/// So many different sets of idle CPUs are kept of a thread.
const KINDS: usize = 64;
/// Who computes for so long on a small CPU while a larger one is idle would have been moved there; so long together means that it may not.
pub(super) const STRANDED_NS: u64 = 100_000_000;
pub(super) const STRANDED_FOR_NS: u64 = 3 * STRANDED_NS;
/// So often it was woken on a large CPU of a calm machine.
const LINGERS: u32 = 100;

/// What was seen of one thread.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    seen_on: CpuSet,
    /// How often it began to run after it had waited.
    times: u32,
    /// Beside any idle CPU, and beside one of the same capacity.
    any: PassedOver,
    equal: PassedOver,
    /// Beside any, on a CPU that had been full for long.
    full: PassedOver,
    /// Beside any, as a real-time thread: such a one is moved at once, by whatever placement.
    urgent: PassedOver,
    /// Since it came to the present CPU: how often it was woken there while another thread ran, or another while it ran, beside an
    /// idle CPU of the same capacity.
    meetings: u32,
    /// It computed beside an idle CPU of larger capacity.
    stranded: PassedOver,
    /// It was woken on a larger CPU of a machine that had next to nothing to do, beside small ones.
    lingered: PassedOver,
    /// Waits of `SNUB_NS` or more for a CPU that was not asleep, whatever the other CPUs did.
    long: u64,
    last: Option<CpuId>,
    /// CPUs that it had itself taken away from.
    not_on: CpuSet,
    /// Moves since it came to a CPU that it had not been on.
    settled: usize,
}

/// What there was while a thread waited for its CPU.
#[derive(Clone, Copy, Debug)]
pub struct Beside<'a> {
    /// CPUs that were idle all the while, and those of them with its own's capacity.
    pub idle: &'a CpuSet,
    pub equal: &'a CpuSet,
    /// Its own ran another thread when it woke.
    pub met: bool,
    /// It is a real-time thread.
    pub urgent: bool,
    /// For so long had its own been busy when the wait began, ns.
    pub busy_ns: u64,
}

impl Beside<'_> {
    /// Was another thread on its CPU, which a real-time thread preempts where it was?
    fn squeezed(&self) -> bool {
        self.met && !self.urgent
    }

    /// Was another thread on its CPU although one of the kind was idle?
    pub fn meets_on(&self, cpu: CpuId) -> bool {
        self.met && !self.equal.is_empty() && !self.equal.contains(cpu)
    }
}

/// Waits beside idle CPUs of some kind.
#[derive(Clone, Debug, Default)]
struct PassedOver {
    /// Where it ran since the first of them.
    seen_since: CpuSet,
    /// By the CPUs that were idle and that it has not run on since the first of them.
    waits: BTreeMap<Vec<CpuId>, Waits>,
    begun: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Waits {
    snubs: u64,
    /// Stretches of `LOOK_NS` in them.
    looks: u64,
    waited_ns: u64,
    squeezes: u32,
    /// Moves to another CPU than one of those that were idle.
    sidesteps: u32,
}

impl Evidence {
    /// It is switched in on `cpu` after it waited for `waited_ns`.
    pub fn runs(&mut self, cpu: CpuId, waited_ns: u64, beside: &Beside<'_>) {
        self.times += 1;
        self.long += u64::from(waited_ns >= SNUB_NS && !beside.idle.contains(cpu));
        if !self.seen_on.contains(cpu) {
            self.seen_on.insert(cpu);
            self.settled = 0;
        }
        self.not_on.remove(cpu);
        if self.last.replace(cpu).is_some_and(|last| last != cpu) {
            self.settled += 1;
            self.meetings = 0;
            self.any.moves(cpu, beside.idle);
            self.equal.moves(cpu, beside.equal);
        }
        self.any.runs(cpu, waited_ns, beside.idle, beside.squeezed());
        self.equal.runs(cpu, waited_ns, beside.equal, beside.squeezed());
        match beside.busy_ns >= FULL_NS {
            true => self.full.runs(cpu, waited_ns, beside.idle, beside.squeezed()),
            false => self.full.seen(cpu),
        }
        match beside.urgent {
            true => self.urgent.runs(cpu, waited_ns, beside.idle, false),
            false => self.urgent.seen(cpu),
        }
        if beside.meets_on(cpu) {
            self.meets(cpu);
        }
        self.stranded.seen(cpu);
        self.lingered.seen(cpu);
    }

    /// On this CPU one of two threads, of which it is one, was woken while the other ran.
    pub fn meets(&mut self, cpu: CpuId) {
        self.meetings += u32::from(self.last == Some(cpu));
    }

    /// It called the stopper of this CPU and went on elsewhere: it has set its affinity.
    pub fn sent_from(&mut self, cpu: CpuId) {
        self.not_on.insert(cpu);
    }

    /// It has computed on `cpu` for `busy_ns` without a sleep, while these larger CPUs were idle.
    pub fn strands(&mut self, cpu: CpuId, busy_ns: u64, larger: &CpuSet) {
        self.stranded.runs(cpu, busy_ns, larger, false);
    }

    /// It is woken on `cpu` of a calm machine that places by energy, while these smaller ones are idle.
    pub fn lingers(&mut self, cpu: CpuId, smaller: &CpuSet) {
        self.lingered.runs(cpu, 0, smaller, true);
    }

    /// It waits for `cpu` when the trace ends.
    pub fn still_waits(&mut self, cpu: CpuId, waited_ns: u64, beside: &Beside<'_>) {
        if self.seen_on.contains(cpu) {
            self.runs(cpu, waited_ns, beside);
        }
    }

    /// The CPU in the name of a kernel thread.
    fn named(&self, comm: &str) -> Option<CpuId> {
        let per_cpu = ["ksoftirqd/", "cpuhp/", "kworker/", "watchdog/"].iter().find_map(|p| comm.strip_prefix(p));
        let named = per_cpu.and_then(|rest| rest.split([':', '-']).next()?.parse::<u32>().ok());
        named.filter(|_| !self.seen_on.is_empty()).map(CpuId)
    }

    /// CPUs it is bound to, by what it tells itself.
    fn cpus(&self, comm: &str, machine: &Machine) -> Option<CpuSet> {
        if let Some(cpu) = self.named(comm) {
            return Some(CpuSet::one(cpu)).filter(|c| self.seen_on.is_subset(c));
        }
        let binds = |p: &PassedOver| p.binds(&self.seen_on, machine) && self.keeps_to(p, machine);
        if let Some(told) = [&self.full, &self.urgent].into_iter().find(|p| binds(p)) {
            return Some(told.seen_since.clone());
        }
        let waits = self.equal.waits(machine);
        let squeezed = waits.squeezes >= SQUEEZES.max(self.times / SQUEEZED_OF) && self.keeps_to(&self.equal, machine);
        let at = &self.equal.seen_since;
        let full = at.is_subset(&machine.beside_equal);
        let leaves = full || at.is_subset(&machine.dear);
        if squeezed && leaves || binds(&self.equal) && (leaves || machine.relieves(at)) {
            return Some(self.equal.seen_since.clone());
        }
        if binds(&self.any) && self.any.seen_since.is_subset(&machine.beside_any) {
            return Some(self.any.seen_since.clone());
        }
        let (allowed, waits) = self.stranded.of_other_kinds(machine);
        if waits.waited_ns >= STRANDED_FOR_NS {
            return Some(allowed);
        }
        // Groups have all or the small CPUs; who is kept on a large one is most often bound to it alone.
        let (allowed, waits) = self.lingered.of_other_kinds(machine);
        if machine.by_energy && waits.squeezes >= LINGERS {
            return Some(if self.seen_on.len() == 1 { self.seen_on.clone() } else { allowed });
        }
        let others = machine.kinds.iter().flat_map(CpuSet::iter).filter(|c| !self.not_on.contains(*c));
        (!self.not_on.is_empty()).then(|| others.collect())
    }

    /// By chance a free thread leaves out some of many CPUs: of a set that it is bound to it comes to know all, and others are idle in
    /// most of its long waits.
    fn keeps_to(&self, passed_over: &PassedOver, machine: &Machine) -> bool {
        let (n, snubs) = (passed_over.seen_since.len(), passed_over.waits(machine).snubs);
        let few = || 2 * n <= machine.kinds.iter().map(CpuSet::len).sum();
        n == 1
            || (2 * snubs >= self.long && self.settled >= SETTLED * n)
            || (snubs >= MANY_SNUBS && self.settled >= MANY_MOVES * n && few())
    }

    /// It ran on none but these CPUs, and waited often and long beside idle ones that are none of them, but not beside idle ones of them.
    fn is_kept_on(&self, cpus: &CpuSet, machine: &Machine) -> bool {
        let within = |idle: &[CpuId]| idle.iter().any(|c| cpus.contains(*c));
        let (inside, outside) = (self.any.sum(within), self.any.sum(|idle| !within(idle)));
        self.seen_on.is_subset(cpus)
            && self.seen_on.is_subset(&machine.beside_any)
            && inside.snubs < SNUBS
            && outside.snubs >= SNUBS
            && outside.waited_ns >= WAITED_NS
    }

    /// It waited beside idle ones of these CPUs, to which others of its kind are bound, while it is bound to its own.
    fn is_kept_within(&self, own: &CpuSet, cpus: &CpuSet, machine: &Machine) -> bool {
        let inside =
            |idle: &[CpuId]| idle.iter().any(|c| cpus.contains(*c) && !own.contains(*c) && machine.finds(own, *c));
        own.is_subset(&machine.beside_equal) && self.equal.sum(inside).snubs >= SNUBS
    }

    /// How often it was woken while another thread ran, beside an idle CPU with the same cache, where a wake-up looks.
    fn squeezes_within_cache(&self, machine: &Machine) -> u32 {
        let caches = || machine.caches.iter().filter(|cache| cache.intersects(&self.seen_on));
        self.equal.sum(|idle| idle.iter().any(|c| caches().any(|cache| cache.contains(*c)))).squeezes
    }

    /// The CPU on which it has met others so often that it would have gone elsewhere, if a thread is bound there.
    fn met_on(&self, machine: &Machine) -> Option<CpuId> {
        let cpu = self.last?;
        let often = if machine.beside_equal.contains(cpu) { MEETINGS } else { MEETINGS_PACKED };
        (self.meetings >= often).then_some(cpu)
    }

    /// It ran on none but these CPUs, and was woken there while another thread ran most of the times, beside idle ones that are none of them.
    fn is_squeezed_in(&self, cpus: &CpuSet, machine: &Machine) -> bool {
        let squeezes = self.equal.outside(cpus, machine).squeezes;
        squeezes >= SQUEEZES.max(self.times / 2)
            && self.seen_on.is_subset(cpus)
            && cpus.is_subset(&machine.beside_equal)
    }
}

/// A thread whose CPUs are asked for.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    pub pid: Pid,
    pub evidence: &'a Evidence,
    pub comm: &'a str,
    /// Threads of one kind run one program.
    pub kind: &'a str,
    /// Threads of a family may be numbered.
    pub family: (&'a str, u32),
}

/// CPUs of the threads that are bound: by what each tells itself, by its kind, or by those whose CPUs it shares.
pub fn bound(threads: &[Seen<'_>], machine: &Machine) -> BTreeMap<Pid, CpuSet> {
    let own = |t: &Seen<'_>| Some((t.pid, t.evidence.cpus(t.comm, machine)?));
    let mut firm: BTreeMap<Pid, CpuSet> = threads.iter().filter_map(own).collect();
    firm.extend(one_each(threads, machine));
    together(&mut firm, threads, machine);
    let mut all = firm.clone();
    companions(&mut all, threads, machine);
    kin(&mut all, threads, machine);
    kin(&mut firm, threads, machine);
    loop {
        outvoted(&mut all, threads);
        firm.retain(|pid, _| all.contains_key(pid));
        let alone = alone(&firm, threads);
        let left = |t: &&Seen<'_>| {
            all.contains_key(&t.pid)
                && !firm.contains_key(&t.pid)
                && t.evidence.met_on(machine).is_some_and(|cpu| !alone.contains(cpu))
        };
        let left: Vec<Pid> = threads.iter().filter(left).map(|t| t.pid).collect();
        if left.is_empty() {
            break;
        }
        left.iter().for_each(|pid| drop(all.remove(pid)));
    }
    if squeezed_in(&mut all, threads, machine) {
        outvoted(&mut all, threads);
    }
    all
}

/// All but the kernel's threads, which each CPU has.
fn unnamed<'a, 't>(threads: &'t [Seen<'a>]) -> impl Iterator<Item = &'t Seen<'a>> {
    threads.iter().filter(|t| t.evidence.named(t.comm).is_none())
}

/// Threads of families that have one thread on each CPU of the machine, or on each of one kind.
fn one_each(threads: &[Seen<'_>], machine: &Machine) -> BTreeMap<Pid, CpuSet> {
    let mut families: BTreeMap<(&str, u32), Vec<&Seen<'_>>> = BTreeMap::new();
    unnamed(threads).for_each(|t| families.entry(t.family).or_default().push(t));
    let all: CpuSet = machine.kinds.iter().flat_map(CpuSet::iter).collect();
    let one_each = |family: &Vec<&Seen<'_>>| {
        let (n, on): (usize, CpuSet) = (family.len(), family.iter().flat_map(|t| t.evidence.seen_on.iter()).collect());
        let squeezes: u32 = family.iter().map(|t| t.evidence.squeezes_within_cache(machine)).sum();
        n >= FEWEST_EACH
            && n == on.len()
            && family.iter().all(|t| t.evidence.seen_on.len() == 1)
            && (on == all || machine.kinds.contains(&on))
            && squeezes >= SQUEEZES_EACH
    };
    let own = |t: &Seen<'_>| (t.pid, t.evidence.seen_on.clone());
    families.into_values().filter(one_each).flatten().map(own).collect()
}

/// CPUs that threads are bound to alone.
fn alone(bound: &BTreeMap<Pid, CpuSet>, threads: &[Seen<'_>]) -> CpuSet {
    let own = unnamed(threads).filter_map(|t| bound.get(&t.pid));
    own.filter(|cpus| cpus.len() == 1).flat_map(CpuSet::iter).collect()
}

/// Who shares the CPU of a thread that is bound to it.
fn companions(bound: &mut BTreeMap<Pid, CpuSet>, threads: &[Seen<'_>], machine: &Machine) {
    let alone = alone(bound, threads);
    for t in threads {
        if let Some(cpu) = t.evidence.met_on(machine).filter(|cpu| alone.contains(*cpu)) {
            bound.entry(t.pid).or_insert_with(|| CpuSet::one(cpu));
        }
    }
}

/// Sets of several CPUs that threads are bound to, and how many are; first those of most.
fn sets(bound: &BTreeMap<Pid, CpuSet>) -> Vec<(usize, CpuSet)> {
    let mut sets: BTreeMap<Vec<CpuId>, usize> = BTreeMap::new();
    bound.values().filter(|set| set.len() > 1).for_each(|set| *sets.entry(set.iter().collect()).or_default() += 1);
    let mut sets: Vec<(usize, CpuSet)> = sets.into_iter().map(|(set, n)| (n, set.into_iter().collect())).collect();
    sets.sort_by_key(|set| std::cmp::Reverse(set.0));
    sets
}

/// Where several threads are bound to a set of CPUs, so is who is kept on them. That it stayed on a part of them says nothing while all are busy.
fn together(bound: &mut BTreeMap<Pid, CpuSet>, threads: &[Seen<'_>], machine: &Machine) {
    let mut sets = sets(bound);
    sets.retain(|(n, _)| *n > 1);
    for t in unnamed(threads) {
        let own = bound.get(&t.pid);
        let mut wider = sets.iter().filter(|(_, set)| own.is_none_or(|own| own.is_subset(set)));
        if let Some((_, set)) = wider.find(|(_, set)| t.evidence.is_kept_on(set, machine)) {
            bound.insert(t.pid, set.clone());
        }
    }
}

/// Who mostly preempts others on a set of CPUs that threads are bound to, and never left it, has that set, too. Is there any?
fn squeezed_in(bound: &mut BTreeMap<Pid, CpuSet>, threads: &[Seen<'_>], machine: &Machine) -> bool {
    let sets = sets(bound);
    let before = bound.len();
    for t in threads {
        if let Some((_, set)) = sets.iter().find(|(_, set)| t.evidence.is_squeezed_in(set, machine)) {
            bound.entry(t.pid).or_insert_with(|| set.clone());
        }
    }
    bound.len() > before
}

/// Threads of one kind run one program, which mostly binds them together: to the CPUs that one is bound to, if most of the kind keep to them,
/// or to those that all of them keep to, though they are more than these CPUs.
fn kin(bound: &mut BTreeMap<Pid, CpuSet>, threads: &[Seen<'_>], machine: &Machine) {
    let mut kinds: BTreeMap<&str, Vec<&Seen<'_>>> = BTreeMap::new();
    let threads = unnamed(threads).filter(|t| !t.evidence.seen_on.is_empty());
    threads.for_each(|t| kinds.entry(t.kind).or_default().push(t));
    for all in kinds.values().filter(|all| all.len() > 1) {
        // Where one was before it was bound says nothing.
        let own = |t: &&Seen<'_>| bound.get(&t.pid).unwrap_or(&t.evidence.seen_on).clone();
        let union: CpuSet = all.iter().flat_map(|t| own(t).iter().collect::<Vec<_>>()).collect();
        // Who waited beside an idle CPU of the others has its own, and so have they if each tells so itself and never came to another's.
        let kept = |t: &&Seen<'_>| bound.get(&t.pid).is_some_and(|own| t.evidence.is_kept_within(own, &union, machine));
        let alone = |t: &&Seen<'_>| {
            let own = bound.get(&t.pid);
            t.evidence.times >= KIN_TIMES
                && own.is_some_and(|own| own.len() < union.len() && t.evidence.seen_on.is_subset(own))
        };
        let apart = all.iter().any(kept) || all.iter().all(alone);
        if !apart && all.len() > union.len() && machine.is_part(&union) && keep_to(all, &union, machine) {
            bound.extend(all.iter().map(|t| (t.pid, union.clone())));
            continue;
        }
        let sets: BTreeSet<Vec<CpuId>> = all.iter().filter_map(|t| Some(bound.get(&t.pid)?.iter().collect())).collect();
        for set in sets {
            let set: CpuSet = set.into_iter().collect();
            let keep = || all.iter().filter(|t| t.evidence.seen_on.is_subset(&set));
            // One CPU of many may be where another of the kind has its own.
            let votes = if set.len() > 1 {
                keep().count()
            } else {
                all.iter().filter(|t| bound.get(&t.pid) == Some(&set)).count()
            };
            if 2 * votes > all.len() {
                keep().for_each(|t| _ = bound.entry(t.pid).or_insert_with(|| set.clone()));
            }
        }
    }
}

/// Did others than these CPUs, on which all threads of a kind run, lie idle when these moved and waited?
fn keep_to(all: &[&Seen<'_>], cpus: &CpuSet, machine: &Machine) -> bool {
    let waits = all.iter().map(|t| t.evidence.equal.outside(cpus, machine));
    let packs = !cpus.is_subset(&machine.beside_equal);
    let signs: u64 = waits.map(|w| u64::from(w.sidesteps) + if packs { 0 } else { w.snubs }).sum();
    let times: u64 = all.iter().map(|t| u64::from(t.evidence.times)).sum();
    // Placement by energy would have taken them to others, and slowed the clock of all.
    let relieved = cpus.is_subset(&machine.relieved) && all.iter().all(|t| t.evidence.times >= KIN_TIMES);
    relieved || signs >= KIN_SIGNS.max(times / KIN_SIGNS_OF)
}

/// Takes those back of whose kind more roam than stay.
fn outvoted(bound: &mut BTreeMap<Pid, CpuSet>, threads: &[Seen<'_>]) {
    let mut votes: BTreeMap<&str, (Vec<Pid>, usize)> = BTreeMap::new();
    for t in unnamed(threads) {
        let (stay, roam) = votes.entry(t.kind).or_default();
        match bound.contains_key(&t.pid) {
            true => stay.push(t.pid),
            false => *roam += usize::from(t.evidence.seen_on.len() > 1),
        }
    }
    let outvoted = votes.into_values().filter(|(stay, roam)| *roam > stay.len());
    outvoted.flat_map(|(stay, _)| stay).for_each(|pid| drop(bound.remove(&pid)));
}

impl PassedOver {
    fn runs(&mut self, cpu: CpuId, waited_ns: u64, idle: &CpuSet, squeezed: bool) {
        // Where its own CPU was idle all the while, it waited for that one to leave a deep state.
        if !idle.is_empty() && !idle.contains(cpu) && (squeezed || waited_ns >= SNUB_NS) {
            self.begun = true;
            self.add(idle, cpu, &Waits::of(waited_ns, squeezed));
        }
        self.seen(cpu);
    }

    /// It comes to `cpu` from another, beside these idle ones.
    fn moves(&mut self, cpu: CpuId, idle: &CpuSet) {
        if self.begun {
            self.add(idle, cpu, &Waits { sidesteps: 1, ..Waits::default() });
        }
    }

    fn add(&mut self, idle: &CpuSet, cpu: CpuId, waits: &Waits) {
        let outside: Vec<CpuId> = idle.iter().filter(|c| *c != cpu && !self.seen_since.contains(*c)).collect();
        if !outside.is_empty() && (self.waits.len() < KINDS || self.waits.contains_key(&outside)) {
            self.waits.entry(outside).or_default().add(waits);
        }
    }

    /// It may run on `cpu`: that this one was idle says no more.
    fn seen(&mut self, cpu: CpuId) {
        if !self.begun || self.seen_since.contains(cpu) {
            return;
        }
        self.seen_since.insert(cpu);
        for (mut idle, waits) in std::mem::take(&mut self.waits) {
            idle.retain(|c| *c != cpu);
            if !idle.is_empty() {
                self.waits.entry(idle).or_default().add(&waits);
            }
        }
    }

    /// Its waits beside idle CPUs that are such.
    fn sum(&self, such: impl Fn(&[CpuId]) -> bool) -> Waits {
        let mut sum = Waits::default();
        self.waits.iter().filter(|(idle, _)| such(idle)).for_each(|(_, waits)| sum.add(waits));
        sum
    }

    /// Those beside idle CPUs that it has not run on since, and would have found.
    fn waits(&self, machine: &Machine) -> Waits {
        self.outside(&self.seen_since, machine)
    }

    /// Those beside idle CPUs that are none of these.
    fn outside(&self, own: &CpuSet, machine: &Machine) -> Waits {
        self.sum(|idle| idle.iter().any(|c| !own.contains(*c) && machine.finds(own, *c)))
    }

    /// All CPUs of the kinds that it ran on, between which nothing need move it, and its waits beside others.
    fn of_other_kinds(&self, machine: &Machine) -> (CpuSet, Waits) {
        let kinds = machine.kinds.iter().filter(|k| k.intersects(&self.seen_since));
        let own: CpuSet = kinds.flat_map(CpuSet::iter).collect();
        let elsewhere = self.sum(|idle| !idle.iter().any(|c| own.contains(*c)));
        (own, elsewhere)
    }

    /// It waited often and long for CPUs it stays on, beside idle ones it never ran on.
    fn binds(&self, seen_on: &CpuSet, machine: &Machine) -> bool {
        let waits = self.waits(machine);
        let always_there = seen_on.is_subset(&self.seen_since);
        let often = match always_there {
            true => waits.snubs.saturating_add(waits.looks / LOOKS_THERE) >= SNUBS,
            false => waits.snubs.saturating_add(waits.looks) >= SNUBS_AFTER_MOVE,
        };
        let enough = waits.waited_ns >= WAITED_NS || waits.sidesteps >= SIDESTEPS;
        often && enough
    }
}

impl Waits {
    fn of(waited_ns: u64, squeezed: bool) -> Waits {
        let squeezes = u32::from(squeezed);
        match waited_ns >= SNUB_NS {
            true => Waits { snubs: 1, looks: waited_ns / LOOK_NS, waited_ns, squeezes, sidesteps: 0 },
            false => Waits { squeezes, ..Waits::default() },
        }
    }

    fn add(&mut self, other: &Waits) {
        self.snubs += other.snubs;
        self.looks = self.looks.saturating_add(other.looks);
        self.waited_ns = self.waited_ns.saturating_add(other.waited_ns);
        self.squeezes += other.squeezes;
        self.sidesteps += other.sidesteps;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(list: &[u32]) -> CpuSet {
        list.iter().map(|c| CpuId(*c)).collect()
    }
    const MS: u64 = 1_000_000;

    /// Of two kinds of CPUs, on which threads are left while others are idle, or are not.
    fn machine(full: bool) -> Machine {
        let everywhere = if full { CpuSet::first(8) } else { CpuSet::default() };
        let kinds = vec![cpus(&[0, 1, 2, 3]), cpus(&[4, 5, 6, 7])];
        Machine { beside_equal: everywhere.clone(), beside_any: everywhere, kinds, ..Machine::default() }
    }

    /// A thread that is like no other.
    fn seen(pid: u32, evidence: &Evidence) -> Seen<'_> {
        let kind = &"abcdefghijklmn"[pid as usize..][..1];
        Seen { pid: Pid(pid), evidence, comm: "t", kind, family: ("", pid) }
    }

    /// On CPUs of one kind.
    fn runs(e: &mut Evidence, cpu: CpuId, waited_ns: u64, idle: CpuSet, squeezed: bool) {
        let beside = Beside { idle: &idle, equal: &idle, met: squeezed, urgent: false, busy_ns: 0 };
        e.runs(cpu, waited_ns, &beside);
    }

    #[test]
    fn a_thread_that_waits_beside_an_idle_cpu() {
        let mut e = Evidence::default();
        runs(&mut e, CpuId(0), 0, cpus(&[]), false); // started somewhere, then bound
        for _ in 0..20 {
            assert_eq!(e.cpus("hog", &machine(true)), None);
            runs(&mut e, CpuId(1), 2 * MS, cpus(&[0]), false);
        }
        assert_eq!(e.cpus("hog", &machine(true)), Some(cpus(&[1])));
        runs(&mut e, CpuId(0), 0, cpus(&[]), false);
        assert_eq!(e.cpus("hog", &machine(true)), None, "it may, after all");
    }

    #[test]
    fn seldom_but_long() {
        let mut e = Evidence::default();
        runs(&mut e, CpuId(0), 0, cpus(&[]), false);
        for _ in 0..3 {
            assert_eq!(e.cpus("hog", &machine(true)), None);
            runs(&mut e, CpuId(1), 150 * MS, cpus(&[0]), false);
        }
        assert_eq!(e.cpus("hog", &machine(true)), Some(cpus(&[1])));
        let idle = cpus(&[0]);
        let (mut e, beside) =
            (Evidence::default(), Beside { idle: &idle, equal: &idle, met: false, urgent: false, busy_ns: 0 });
        e.still_waits(CpuId(1), 500 * MS, &beside);
        assert_eq!(e.cpus("hog", &machine(true)), None, "it never ran there");
        runs(&mut e, CpuId(1), 45 * MS, cpus(&[0]), false);
        assert_eq!(e.cpus("hog", &machine(true)), None, "once may be chance");
        e.still_waits(CpuId(1), 500 * MS, &beside);
        assert_eq!(e.cpus("hog", &machine(true)), Some(cpus(&[1])));
    }

    #[test]
    fn a_cpu_that_wakes_up_slowly() {
        let mut e = Evidence::default();
        runs(&mut e, CpuId(1), 2 * MS, cpus(&[0, 1]), false);
        (0..20).for_each(|_| runs(&mut e, CpuId(1), 2 * MS, cpus(&[0]), false));
        assert_eq!(e.cpus("hog", &machine(true)), Some(cpus(&[1])));
    }

    #[test]
    fn a_thread_that_always_preempts_another() {
        let mut e = Evidence::default();
        for _ in 0..SQUEEZES {
            runs(&mut e, CpuId(1), 5_000, cpus(&[0, 2]), true);
        }
        assert_eq!(e.cpus("periodic", &machine(true)), Some(cpus(&[1])));
        assert_eq!(
            e.cpus("periodic", &machine(false)),
            None,
            "energy-aware placement packs threads on a CPU with room"
        );
    }

    /// A thread that always preempts the one that waits for it; another that did once; and one that moved away.
    #[test]
    fn who_shares_the_cpu_of_a_bound_thread() {
        let of = |meetings: u32, waited_ns: u64| {
            let mut e = Evidence::default();
            (0..meetings).for_each(|_| runs(&mut e, CpuId(1), waited_ns, cpus(&[0, 2]), true));
            e
        };
        let mut gone = of(30, 5_000);
        runs(&mut gone, CpuId(2), 0, cpus(&[]), false);
        let (waits, preempts, once, packed) = (of(40, 4 * MS), of(30, 5_000), of(3, 5_000), of(60, 5_000));
        let threads = [seen(1, &waits), seen(2, &preempts), seen(3, &once), seen(4, &gone)];
        let bound_of = |threads: &[Seen<'_>], full| -> Vec<u32> {
            bound(threads, &machine(full)).keys().map(|pid| pid.0).collect()
        };
        assert_eq!(bound_of(&threads, true), [1, 2]);
        assert_eq!(bound_of(&threads[1..], true), [0; 0], "nobody is bound there");
        let voted = |roaming: u32| {
            let all = threads.iter().copied().chain((10..10 + roaming).map(|pid| seen(pid, &gone)));
            bound(&all.map(|t| Seen { kind: "t", ..t }).collect::<Vec<_>>(), &machine(true)).len()
        };
        assert_eq!((voted(1), voted(2)), (2, 0), "one of its kind has gone elsewhere already");
        // The thread that waits is of the kind of those that roam, the one that preempts it is not.
        let freed = |roaming: u32| {
            let all = [threads[0]].into_iter().chain((10..10 + roaming).map(|pid| seen(pid, &gone)));
            let all = all.map(|t| Seen { kind: "t", ..t }).chain([threads[1]]);
            bound(&all.collect::<Vec<_>>(), &machine(true)).len()
        };
        assert_eq!((freed(1), freed(2)), (2, 0), "nobody is bound there any more");
        let kthread = Seen { comm: "kworker/1:0", ..seen(9, &once) };
        assert_eq!(bound_of(&[threads[1], kthread], true), [9], "each CPU has its kernel threads");
        // A real-time thread that waits is bound, although placement by energy packs the fair ones.
        let idle = cpus(&[0, 2]);
        let mut e = Evidence::default();
        let beside = Beside { idle: &idle, equal: &idle, met: true, urgent: true, busy_ns: 0 };
        (0..10).for_each(|_| e.runs(CpuId(1), 4 * MS, &beside));
        assert_eq!(bound_of(&[seen(1, &e), seen(2, &preempts), seen(3, &packed)], false), [1, 3]);
    }

    /// Half of its long waits are beside its own CPUs, or beside none.
    #[test]
    fn a_set_of_cpus_beside_busy_ones() {
        let mut e = Evidence::default();
        for i in 0..110 {
            assert_eq!(e.cpus("l", &machine(true)), None, "{i}");
            (0..3).for_each(|_| runs(&mut e, CpuId(i % 2), 4 * MS, cpus(&[]), false));
            runs(&mut e, CpuId(i % 2), 4 * MS, cpus(&[3]), false);
            if i >= 29 {
                break;
            }
        }
        assert_eq!(e.cpus("l", &machine(true)), Some(cpus(&[0, 1])));
        let small = Machine { kinds: vec![cpus(&[0, 1, 3])], ..machine(true) };
        assert_eq!(e.cpus("l", &small), None, "most of all");
    }

    #[test]
    fn a_thread_that_waits_beside_a_cpu_of_another_kind() {
        let mut e = Evidence::default();
        let (none, little, big) = (cpus(&[]), cpus(&[1]), cpus(&[4]));
        let beside = Beside { idle: &big, equal: &none, met: true, urgent: false, busy_ns: 0 };
        (0..30).for_each(|_| e.runs(CpuId(1), 2 * MS, &beside));
        assert_eq!(e.cpus("packed", &machine(false)), None, "for all its room, a small CPU takes less energy");
        assert_eq!(e.cpus("background", &machine(true)), Some(cpus(&[1])));
        let mut e = Evidence::default();
        (0..100).for_each(|_| e.runs(CpuId(4), 5_000, &Beside { idle: &little, ..beside }));
        assert_eq!(e.cpus("app", &machine(true)), None, "it needs a large CPU");
    }

    #[test]
    fn a_cpu_that_is_full_for_a_while() {
        let idle = cpus(&[0]);
        let waits = |busy_ms| {
            let mut e = Evidence::default();
            let beside = Beside { idle: &idle, equal: &idle, met: false, urgent: false, busy_ns: busy_ms * MS };
            (0..8).for_each(|_| e.runs(CpuId(1), 6 * MS, &beside));
            e
        };
        assert_eq!(waits(50).cpus("burst", &machine(false)), None, "its CPU has room on the whole");
        assert_eq!(waits(150).cpus("burst", &machine(false)), Some(cpus(&[1])));
        let mut e = waits(150);
        (0..5).for_each(|i| runs(&mut e, CpuId(2 - i % 2), 0, cpus(&[]), false));
        assert_eq!(e.cpus("burst", &machine(false)), Some(cpus(&[1, 2])), "seen on another one that never was idle");
        runs(&mut e, CpuId(3), 0, cpus(&[]), false);
        assert_eq!(e.cpus("burst", &machine(false)), None, "there may be more");
    }

    #[test]
    fn a_thread_that_has_several_cpus() {
        let mut e = Evidence::default();
        // Now and then it waits beside one of its own.
        for i in 0..20 {
            runs(&mut e, CpuId(i % 2), 4 * MS, cpus(&[3, 1 - i % 2]), false);
            runs(&mut e, CpuId(i % 2), 4 * MS, cpus(&[1 - i % 2]), false);
        }
        assert_eq!(e.cpus("hog", &machine(true)), Some(cpus(&[0, 1])));
        (0..30).for_each(|_| runs(&mut e, CpuId(0), 4 * MS, cpus(&[]), false));
        assert_eq!(e.cpus("hog", &machine(true)), None, "by chance it never ran on one of many CPUs");
    }

    #[test]
    fn a_cpu_behind_another_cache() {
        let mut e = Evidence::default();
        (0..40).for_each(|i| runs(&mut e, CpuId(i % 2), 4 * MS, cpus(&[3]), false));
        let machine = |caches| Machine { caches, ..machine(true) };
        assert_eq!(e.cpus("hog", &machine(vec![CpuSet::first(4)])), Some(cpus(&[0, 1])));
        assert_eq!(e.cpus("hog", &machine(vec![cpus(&[0, 1]), cpus(&[2, 3])])), None, "no wake-up looks there");
    }

    #[test]
    fn who_may_use_all_that_was_idle() {
        let mut e = Evidence::default();
        (0..40).for_each(|i| runs(&mut e, CpuId(i % 2), 4 * MS, cpus(&[3]), false));
        assert_eq!(e.cpus("hog", &machine(true)), Some(cpus(&[0, 1])));
        runs(&mut e, CpuId(3), 0, cpus(&[]), false);
        assert_eq!(e.cpus("hog", &machine(true)), None);
    }

    #[test]
    fn a_cpu_that_makes_the_clock_fast() {
        let mut e = Evidence::default();
        (0..40).for_each(|_| runs(&mut e, CpuId(1), 4 * MS, cpus(&[3]), false));
        let of = |relieved: &[u32], other: u64| {
            let costs = vec![10, 400, other, 10, 10, 400];
            e.cpus("t", &Machine { relieved: cpus(relieved), costs, ..machine(false) })
        };
        assert_eq!(of(&[], 10), None);
        assert_eq!(of(&[1, 5], 10), Some(cpus(&[1])), "it would have been taken away");
        assert_eq!(of(&[1, 2], 375), Some(cpus(&[1])));
        assert_eq!(of(&[1, 2], 376), None, "that saves nothing while another keeps the clock about as dear");
    }

    #[test]
    fn who_moves_often_between_some_cpus() {
        let mut e = Evidence::default();
        (0..4).for_each(|i| runs(&mut e, CpuId(i % 2), MS, cpus(&[3]), false));
        assert_eq!(e.cpus("light", &machine(true)), None, "it did not wait for long");
        (0..100).for_each(|i| runs(&mut e, CpuId(i % 2), 5_000, cpus(&[i % 2, 3]), false));
        assert_eq!(e.cpus("light", &machine(true)), Some(cpus(&[0, 1])));
    }

    #[test]
    fn threads_of_one_kind_keep_to_their_cpus() {
        // Each moves so often between two CPUs; the first has waited for long once.
        let moves = |times: u32| {
            let mut e = Evidence::default();
            runs(&mut e, CpuId(0), MS, cpus(&[3]), false);
            (1..=times).for_each(|i| runs(&mut e, CpuId(i % 2), 5_000, cpus(&[i % 2, 3]), false));
            e
        };
        fn workers<'a>(all: &[&'a Evidence]) -> Vec<Seen<'a>> {
            all.iter().zip(1..).map(|(e, pid)| Seen { kind: "worker", ..seen(pid, e) }).collect()
        }
        let bound =
            |all: &[&Evidence], full| -> Vec<CpuSet> { bound(&workers(all), &machine(full)).into_values().collect() };
        let (some, few, none) = (moves(20), moves(14), moves(0));
        assert_eq!(bound(&[&some, &some, &none], true), [], "40 moves");
        assert_eq!(bound(&[&some, &some, &few], true), vec![cpus(&[0, 1]); 3]);
        assert_eq!(
            bound(&[&some, &some, &few], false),
            vec![cpus(&[0, 1]); 3],
            "placement by energy does not move them"
        );
        let often = moves(30);
        assert_eq!(bound(&[&often, &often], true), [], "two of them may be there by chance");
        let mut elsewhere = moves(0);
        runs(&mut elsewhere, CpuId(2), 0, cpus(&[]), false);
        assert_eq!(bound(&[&often, &often, &elsewhere], true), [], "most of all CPUs");
        // Long waits tell where placement does not pack.
        let waits = |cpu: u32, times: u32| {
            let mut e = Evidence::default();
            (0..times).for_each(|_| runs(&mut e, CpuId(cpu), MS, cpus(&[3]), false));
            e
        };
        let (left, right) = (waits(0, 25), waits(1, 25));
        assert_eq!(bound(&[&left, &right, &few], true), vec![cpus(&[0, 1]); 3]);
        assert_eq!(bound(&[&left, &right, &few], false), []);
        // They need not wait or move where placement by energy would have taken them elsewhere.
        let relieved = |times: u32| {
            let all = [waits(0, times), waits(1, times), waits(1, times)];
            let (mut bound, relieved) = (BTreeMap::new(), Machine { relieved: cpus(&[0, 1]), ..machine(false) });
            kin(&mut bound, &workers(&all.each_ref()), &relieved);
            bound.len()
        };
        assert_eq!([relieved(200), relieved(199)], [3, 0]);
        // One was elsewhere before it was bound.
        let mut bound_later = Evidence::default();
        runs(&mut bound_later, CpuId(3), 0, cpus(&[]), false);
        (0..25).for_each(|_| runs(&mut bound_later, CpuId(0), 4 * MS, cpus(&[2]), false));
        assert_eq!(bound(&[&left, &left, &bound_later], true), vec![cpus(&[0]); 3]);
        // One waited beside an idle CPU of the others: each has its own.
        let apart = |cpu: u32, other: u32| {
            let mut e = Evidence::default();
            (0..40).for_each(|i| runs(&mut e, CpuId(cpu), MS, cpus(&[if i < 3 { other } else { 3 }]), false));
            e
        };
        let (own, others) = (apart(0, 1), waits(1, 40));
        let each = || vec![cpus(&[0]), cpus(&[1]), cpus(&[1])];
        assert_eq!(bound(&[&own, &others, &others], true), each());
        assert_eq!(bound(&[&waits(0, 40), &others, &others], true), vec![cpus(&[0, 1]); 3], "nothing says so");
        let (own, others) = (waits(0, 200), waits(1, 200));
        assert_eq!(bound(&[&own, &others, &others], true), each(), "by now they would have moved");
        assert_eq!(bound(&[&own, &others, &few], true), vec![cpus(&[0, 1]); 3], "one has");
        // One CPU, that most of them are bound to, where placement by energy packs.
        let full = {
            let (mut e, idle) = (Evidence::default(), cpus(&[3]));
            let beside = Beside { idle: &idle, equal: &idle, met: false, urgent: false, busy_ns: 150 * MS };
            (0..8).for_each(|_| e.runs(CpuId(1), 6 * MS, &beside));
            e
        };
        let never = waits(1, 1);
        assert_eq!(bound(&[&full, &full, &never], false), vec![cpus(&[1]); 3]);
        assert_eq!(bound(&[&full, &never], false), vec![cpus(&[1])], "one of two is not most");
        assert_eq!(bound(&[&full, &full, &elsewhere], false), vec![cpus(&[1]); 2], "it left");
        // What one of them is bound to.
        let mut own = Evidence::default();
        (0..40).for_each(|i| runs(&mut own, CpuId(i % 2), 4 * MS, cpus(&[3]), false));
        assert_eq!(bound(&[&own, &none], true), vec![cpus(&[0, 1]); 2]);
        assert_eq!(bound(&[&own, &none, &elsewhere, &elsewhere], true), [], "half of them roam");
    }

    /// Two threads that are bound to two CPUs, and one that stays on one of these: idle is a third CPU, or the other one of the two.
    #[test]
    fn who_waits_where_several_are_bound() {
        let of = |on: &[u32], idle: u32| {
            let mut e = Evidence::default();
            (0..40).for_each(|i| runs(&mut e, CpuId(on[i % on.len()]), 4 * MS, cpus(&[idle]), false));
            e
        };
        let (wide, outside, inside, never) = (of(&[0, 1], 3), of(&[0], 3), of(&[0], 1), Evidence::default());
        let bound_of = |all: &[&Evidence], full| {
            let threads: Vec<_> = all.iter().zip(0..).map(|(e, pid)| seen(pid, e)).collect();
            bound(&threads, &machine(full)).into_values().collect::<Vec<_>>()
        };
        let both = cpus(&[0, 1]);
        assert_eq!(bound_of(&[&wide, &wide, &outside], true), vec![both.clone(); 3]);
        assert_eq!(bound_of(&[&wide, &wide, &never], true), vec![both.clone(); 2], "it does not wait");
        assert_eq!(bound_of(&[&wide, &wide, &inside], true), [both.clone(), both.clone(), cpus(&[0])]);
        assert_eq!(bound_of(&[&wide, &outside], true), [both, cpus(&[0])], "one is not several");
    }

    /// Workers that were woken on a CPU of their own each, where others ran.
    #[test]
    fn one_for_each_cpu() {
        let of = |cpu: u32, squeezes: u32| {
            let mut e = Evidence::default();
            (0..100).for_each(|i| runs(&mut e, CpuId(cpu), 5_000, cpus(&[(cpu + 1) % 4]), i < squeezes));
            e
        };
        let mut machine = machine(true);
        machine.caches = vec![cpus(&[0, 1, 2, 3]), cpus(&[4, 5, 6, 7])];
        let check = |all: &[Evidence], machine: &Machine, family: &dyn Fn(u32) -> u32, n: usize, why: &str| {
            let of = |(e, pid)| Seen { family: ("w", family(pid)), ..seen(pid, e) };
            let found = bound(&all.iter().zip(0..).map(of).collect::<Vec<_>>(), machine);
            assert_eq!(found.len(), n, "{why}");
            assert!(found.iter().all(|(pid, set)| *set == cpus(&[pid.0])));
        };
        let mut all: Vec<Evidence> = (0..4).map(|cpu| of(cpu, 1)).collect();
        check(&all, &machine, &|_| 0, 4, "they found another there four times");
        check(&all, &machine, &|pid| pid / 2, 0, "of other programs");
        check(&all[..3], &machine, &|_| 0, 0, "one CPU has none");
        all.push(of(3, 9));
        check(&all, &machine, &|_| 0, 0, "one CPU has two");
        all[4] = of(4, 9);
        check(&all, &machine, &|_| 0, 0, "nor are these all CPUs of a kind");
        all.truncate(4);
        let apart = Machine { caches: (0..8).map(|c| cpus(&[c])).collect(), ..machine.clone() };
        check(&all, &apart, &|_| 0, 0, "a wake-up does not look farther than the cache");
        all[3] = of(3, 0);
        check(&all, &machine, &|_| 0, 0, "three times they might have stayed");
        all[3] = of(3, 9);
        runs(&mut all[3], CpuId(2), 0, cpus(&[]), false);
        check(&all, &machine, &|_| 0, 0, "one was elsewhere");
    }

    /// One that preempts others on two CPUs beside an idle third, and seldom moves.
    #[test]
    fn who_preempts_on_the_cpus_of_others() {
        let of = |times: u32| {
            let mut e = Evidence::default();
            (0..times).for_each(|i| runs(&mut e, CpuId(i / 60), 5_000, cpus(&[1 - i / 60, 3]), true));
            e
        };
        let mut waits = Evidence::default();
        (0..40).for_each(|i| runs(&mut waits, CpuId(i % 2), 4 * MS, cpus(&[3]), false));
        let (urgent, seldom) = (of(120), of(49));
        let mut mostly_alone = of(120);
        (0..200).for_each(|_| runs(&mut mostly_alone, CpuId(0), 0, cpus(&[]), false));
        let mut elsewhere = of(120);
        runs(&mut elsewhere, CpuId(2), 0, cpus(&[]), false);
        let threads = |all: &[usize], full| {
            let evidence = [&waits, &urgent, &seldom, &mostly_alone, &elsewhere];
            let all = all.iter().map(|i| seen(*i as u32, evidence[*i])).collect::<Vec<_>>();
            bound(&all, &machine(full))
        };
        assert_eq!(threads(&[0, 1, 2, 3, 4], true), [0, 1].map(|pid| (Pid(pid), cpus(&[0, 1]))).into());
        assert_eq!(threads(&[1], true), BTreeMap::new(), "nobody is bound there");
        assert_eq!(threads(&[0, 1], false), BTreeMap::new(), "placement by energy packs");
    }

    #[test]
    fn a_thread_that_computes_on_a_small_cpu() {
        let mut e = Evidence::default();
        for i in 0..3 {
            assert_eq!(e.cpus("step", &machine(false)), None, "{i}");
            e.strands(CpuId(1), 100 * MS, &cpus(&[5, 6]));
        }
        assert_eq!(e.cpus("step", &machine(false)), Some(cpus(&[0, 1, 2, 3])), "no need to leave one for its like");
        runs(&mut e, CpuId(5), 0, cpus(&[]), false);
        assert_eq!(e.cpus("step", &machine(false)), None);
    }

    #[test]
    fn a_thread_that_hardly_works_on_a_large_cpu() {
        let mut e = Evidence::default();
        let bound = |e: &Evidence, by_energy| e.cpus("light", &Machine { by_energy, ..machine(false) });
        for i in 0..100 {
            assert_eq!(bound(&e, true), None, "{i}");
            e.lingers(CpuId(4), &cpus(&[1, 2]));
            runs(&mut e, CpuId(4), 0, cpus(&[]), false);
        }
        assert_eq!((bound(&e, true), bound(&e, false)), (Some(cpus(&[4])), None));
        runs(&mut e, CpuId(5), 0, cpus(&[]), false);
        assert_eq!(bound(&e, true), Some(cpus(&[4, 5, 6, 7])));
        runs(&mut e, CpuId(2), 0, cpus(&[]), false);
        assert_eq!(bound(&e, true), None, "it may");
    }

    #[test]
    fn by_name() {
        let mut e = Evidence::default();
        runs(&mut e, CpuId(3), 0, cpus(&[]), false);
        assert_eq!(e.cpus("kworker/3:1-events", &machine(false)), Some(cpus(&[3])));
        assert_eq!(e.cpus("kworker/u8:1", &machine(false)), None);
    }
}
