//! When the CPUs of a recording sleep, and what power they draw.
//!
//! A trace shows when a CPU asked for a state and when it executed again. In between it draws the power of a busy CPU on its way in
//! and on its way out. Both take as long as the platform says, and a state that several CPUs share is reached only while all of them
//! sleep as deep: so the way in and out is that of the state that could be reached then. Of CPUs that leave such a state together the
//! one that woke up first takes its whole way out; the others began theirs when another CPU woke a thread for them, or half-way if nobody
//! did. For which CPU a thread was woken `sched_wakeup` tells, where it is recorded; else it was there that the thread runs next, or that it
//! is moved away from before.
//!
//! Before its first event a CPU sleeps if that event ends a sleep or takes over from idle. One without any event is offline or asleep
//! all along. One that switches but has no `cpu_idle` events sleeps while idle runs. In what state is not known of any of these: the
//! one is taken that the length of the sleep, as far as the trace has it, would have made right. That is what a governor strives for,
//! and such sleeps are in no count of sleeps, right or wrong. A sleep whose end was lost ends when a thread comes. One whose begin was
//! lost shows by its end, or by a silence of more than a tick while idle runs: a CPU that executes has ticks, one that is offline none.

use super::exits::are_mates;
use super::ticks;
use std::collections::BTreeMap;
use wattif_model::platform::{IdleState, Platform, Scope};
use wattif_model::trace::{Event, PowerLevel, Record, Recorded};
use wattif_model::{ClusterId, CpuId, CpuSet, Ns, Pid};

/// A CPU begins to sleep in a state, or ends it ([`Event::IDLE_EXIT`]).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Idling {
    /// The record that tells it; `None`: it is so from the beginning.
    pub record: Option<usize>,
    pub at: Ns,
    pub cpu: CpuId,
    pub state: u32,
    /// By a `cpu_idle` event.
    pub told: bool,
    /// Of the end of a sleep: when another CPU first woke a thread for this one.
    pub asked: Option<Ns>,
}

/// How a CPU begins.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct First {
    /// Asleep until the first event that tells, or not; `None`: nothing tells.
    pub asleep: Option<bool>,
    pub until: Ns,
    /// It has `cpu_idle` events.
    pub told: bool,
}

/// How each CPU of `platform` begins.
pub(super) fn firsts(records: &[Record], platform: &Platform) -> Vec<First> {
    let mut firsts = vec![First::default(); platform.nr_cpus()];
    let mut silent = silent_until_asleep(records, platform);
    for r in records {
        let Some(first) = firsts.get_mut(r.cpu.at()) else { continue };
        let silent = std::mem::take(&mut silent[r.cpu.at()]);
        let asleep = match r.event() {
            Some(Event::CpuIdle { state }) => {
                first.told = true;
                *state == Event::IDLE_EXIT || silent
            }
            Some(Event::SchedSwitch { prev_pid, .. }) => prev_pid.0 == 0,
            // Whoever writes runs; idle may have been interrupted.
            _ if r.current.is_some_and(|pid| pid != Pid(0)) => false,
            _ => continue,
        };
        if first.asleep.is_none() {
            (first.asleep, first.until) = (Some(asleep), r.at);
        }
    }
    firsts
}

/// By CPU: its first event is the begin of a sleep, late, and no switch to idle is before it. Nobody ran there.
fn silent_until_asleep(records: &[Record], platform: &Platform) -> Vec<bool> {
    let tick_ns = ticks::length(platform);
    let mut silent: Vec<Option<bool>> = vec![None; platform.nr_cpus()];
    let mut switched = vec![false; platform.nr_cpus()];
    for r in records.iter().filter(|r| r.cpu.at() < platform.nr_cpus()) {
        let (cpu, event) = (r.cpu.at(), r.event());
        let late = r.at.0 > tick_ns && matches!(event, Some(Event::CpuIdle { state }) if *state != Event::IDLE_EXIT);
        let silent = silent[cpu].get_or_insert(late);
        if let Some(Event::SchedSwitch { prev_pid, .. }) = event
            && !std::mem::replace(&mut switched[cpu], true)
        {
            *silent &= prev_pid.0 == 0;
        }
    }
    let recorded = switched.contains(&true);
    silent.into_iter().map(|silent| recorded && silent == Some(true)).collect()
}

/// A time in which idle runs on a CPU, and sleeps, though no event tells when that began.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Unsaid {
    /// The last record of the CPU before it.
    record: usize,
    pub cpu: CpuId,
    from: Ns,
    until: Ns,
}

impl Unsaid {
    pub(super) fn ns(&self) -> u64 {
        self.until.since(self.from)
    }
}

/// What is known of a CPU at its last record.
#[derive(Clone, Copy, Debug, Default)]
struct Now {
    record: usize,
    at: Ns,
    asleep: bool,
    /// Idle runs and is awake; `Some(true)`: it has come just now.
    idle: Option<bool>,
}

/// All of them, of CPUs that tell of their sleeps otherwise, in the order of their records.
pub(super) fn unsaid(records: &[Record], firsts: &[First], tick_ns: u64, end: Ns) -> Vec<Unsaid> {
    let mut all = Vec::new();
    let mut cpus: Vec<Now> = vec![Now::default(); firsts.len()];
    for (i, r) in records.iter().enumerate() {
        let Some(now) = cpus.get_mut(r.cpu.at()).filter(|_| firsts[r.cpu.at()].told) else { continue };
        let before = *now;
        (now.record, now.at) = (i, r.at);
        // The end of a sleep says that there was one; two of them in a row are also one that is told twice.
        let mut certain = false;
        match r.event() {
            Some(Event::CpuIdle { state: Event::IDLE_EXIT }) => {
                certain = before.idle == Some(true);
                (now.asleep, now.idle) = (false, (before.asleep || before.idle.is_some()).then_some(false));
            }
            Some(Event::CpuIdle { .. }) => (now.asleep, now.idle) = (true, None),
            Some(Event::SchedSwitch { prev_pid: Pid(0), .. }) => (now.asleep, now.idle) = (false, None),
            // Some formats do not keep the order of events of one stamp.
            Some(Event::SchedSwitch { next_pid: Pid(0), .. }) => now.idle = (!before.asleep).then_some(true),
            _ => {}
        }
        if before.idle.is_some() && (certain || r.at.since(before.at) > tick_ns) {
            all.push(Unsaid { record: before.record, cpu: r.cpu, from: before.at, until: r.at });
        }
    }
    for (now, cpu) in cpus.iter().zip((0..).map(CpuId)) {
        if now.idle.is_some() && end.since(now.at) > tick_ns {
            all.push(Unsaid { record: now.record, cpu, from: now.at, until: end });
        }
    }
    all.sort_by_key(|u| u.record);
    all
}

/// The deepest state that pays off in so many ns, of those that are enabled.
fn right(states: &[IdleState], ns: u64) -> u32 {
    let pays = |state: &&(u32, &IdleState)| !state.1.disabled && state.1.advertised.residency_ns <= ns;
    (0..).zip(states).collect::<Vec<_>>().iter().rfind(pays).map_or(0, |(i, _)| *i)
}

/// All sleeps of all CPUs in the order of the records; none where no CPU tells of any.
/// `moves`: those of threads are recorded.
pub(super) fn idling(records: &[Record], moves: bool, platform: &Platform, end: Ns) -> Vec<Idling> {
    let mut firsts = firsts(records, platform);
    if !firsts.iter().any(|f| f.told) {
        return Vec::new();
    }
    let deepest = |cpu| (platform.idle_states(cpu).len() as u32).saturating_sub(1);
    let mut all = Vec::new();
    for (cpu, first) in (0..).map(CpuId).zip(&firsts) {
        if first.asleep != Some(false) {
            all.push(Idling { record: None, at: Ns::ZERO, cpu, state: 0, told: false, asked: None });
        }
    }
    let mut unsaid = unsaid(records, &firsts, ticks::length(platform), end).into_iter().peekable();
    let asked_by_others = asked_by_others(records, moves, platform.nr_cpus());
    let mut since = vec![Ns::ZERO; platform.nr_cpus()];
    // Asleep, by its own events; and when a thread was last seen to end a sleep.
    let mut asleep = vec![false; platform.nr_cpus()];
    let mut ended: Vec<Option<Ns>> = vec![None; platform.nr_cpus()];
    for (i, r) in records.iter().enumerate() {
        let Some(first) = firsts.get_mut(r.cpu.at()) else { continue };
        let change = match r.event {
            // Some formats do not keep the order of events of one stamp.
            Recorded::Event(Event::CpuIdle { state: Event::IDLE_EXIT }) if ended[r.cpu.at()] == Some(r.at) => None,
            // A state the platform does not have is taken as its deepest.
            Recorded::Event(Event::CpuIdle { state: Event::IDLE_EXIT }) => Some((Event::IDLE_EXIT, true)),
            Recorded::Event(Event::CpuIdle { state }) => Some((state.min(deepest(r.cpu)), true)),
            Recorded::Event(Event::SchedSwitch { prev_pid: Pid(0), .. })
                if !first.told || first.asleep == Some(true) || asleep[r.cpu.at()] =>
            {
                ended[r.cpu.at()] = Some(r.at);
                Some((Event::IDLE_EXIT, false))
            }
            Recorded::Event(Event::SchedSwitch { next_pid: Pid(0), .. }) if !first.told => Some((0, false)),
            _ => None,
        };
        let begins = unsaid.next_if(|u| u.record == i).map(|_| (0, false));
        for (state, told) in change.into_iter().chain(begins) {
            first.asleep = None;
            asleep[r.cpu.at()] = (told || begins.is_some()) && state != Event::IDLE_EXIT;
            let since = std::mem::replace(&mut since[r.cpu.at()], r.at);
            let all_asked = &asked_by_others[r.cpu.at()];
            let first = all_asked.get(all_asked.partition_point(|at| *at <= since));
            let asked = first.copied().filter(|at| state == Event::IDLE_EXIT && *at <= r.at);
            all.push(Idling { record: Some(i), at: r.at, cpu: r.cpu, state, told, asked });
        }
    }
    let mut until = vec![end; platform.nr_cpus()];
    for i in all.iter_mut().rev() {
        let until = std::mem::replace(&mut until[i.cpu.at()], i.at);
        if !i.told && i.state != Event::IDLE_EXIT {
            i.state = right(platform.idle_states(i.cpu), until.since(i.at));
        }
    }
    all
}

/// A wake-up that has begun: when, on which CPU, which of its records that is.
#[derive(Clone, Copy)]
struct Begun {
    at: Ns,
    waker: CpuId,
    number: usize,
}

/// By CPU: when others began to wake threads for it, in order. Where a wake-up goes is told when it is done; else by what the thread does
/// next, a run or a move away. A move that the waker makes at once is part of the wake-up.
fn asked_by_others(records: &[Record], moves: bool, nr_cpus: usize) -> Vec<Vec<Ns>> {
    let mut all = vec![Vec::new(); nr_cpus];
    let mut begun: BTreeMap<Pid, Begun> = BTreeMap::new();
    let mut numbers: Vec<usize> = Vec::new();
    for r in records {
        numbers.resize(numbers.len().max(r.cpu.at() + 1), 0);
        numbers[r.cpu.at()] += 1;
        let number = numbers[r.cpu.at()];
        let (pid, went_to) = match r.event() {
            Some(Event::SchedWaking { pid, .. }) => {
                begun.insert(*pid, Begun { at: r.at, waker: r.cpu, number });
                continue;
            }
            Some(Event::SchedWakeup { pid, target_cpu, .. } | Event::SchedWakeupNew { pid, target_cpu, .. }) => {
                (pid, *target_cpu)
            }
            Some(Event::SchedSwitch { next_pid, .. }) => (next_pid, r.cpu),
            Some(Event::SchedMigrateTask { pid, orig_cpu, .. }) if moves => {
                let of_wakeup = |b: &Begun| b.waker == r.cpu && (b.at == r.at || b.number + 1 == number);
                if begun.get(pid).is_none_or(of_wakeup) {
                    continue;
                }
                (pid, *orig_cpu)
            }
            _ => continue,
        };
        let by_other = begun.remove(pid).filter(|b| b.waker != went_to);
        if let Some((b, all)) = by_other.zip(all.get_mut(went_to.at())) {
            all.push(b.at);
        }
    }
    all.iter_mut().for_each(|all| all.sort_unstable());
    all
}

/// A sleep, with the end of the way in and the beginning of the way out.
#[derive(Clone, Copy, Debug)]
struct Sleep {
    asked: usize,
    told: bool,
    entered: u64,
    left: u64,
    /// When somebody woke a thread for it.
    woken: Option<u64>,
    inside: u64,
    out: u64,
}

struct Sleeps<'a> {
    platform: &'a Platform,
    cpus: Vec<Vec<Sleep>>,
    /// Of each CPU, those that share its core, and its cluster.
    mates: Vec<[Vec<CpuId>; 2]>,
}

/// The way of a CPU depends on whether others sleep, and theirs on it.
const ROUNDS: usize = 3;

/// Power levels of CPUs and clusters by time.
pub(super) fn powers(idling: &[Idling], platform: &Platform) -> Vec<(Ns, CpuId, Event)> {
    let mut sleeps = Sleeps::new(idling, platform);
    for _ in 0..ROUNDS {
        for cpu in 0..sleeps.cpus.len() {
            for i in 0..sleeps.cpus[cpu].len() {
                let (inside, out) = sleeps.way(CpuId(cpu as u32), &sleeps.cpus[cpu][i]);
                let sleep = &mut sleeps.cpus[cpu][i];
                (sleep.inside, sleep.out) = (inside, out);
            }
        }
    }
    let mut changes: Vec<(u64, CpuId, Option<usize>)> = Vec::new();
    for (cpu, all) in (0..).map(CpuId).zip(&sleeps.cpus) {
        for s in all.iter().filter(|s| s.inside < s.out) {
            changes.extend([(s.inside, cpu, Some(s.asked)), (s.out, cpu, None)]);
        }
    }
    changes.sort_by_key(|c| c.0);
    let mut levels = Levels::new(&sleeps);
    changes.into_iter().for_each(|(at, cpu, asleep)| levels.change(Ns(at), cpu, asleep));
    levels.out
}

impl Sleeps<'_> {
    fn new<'a>(idling: &[Idling], platform: &'a Platform) -> Sleeps<'a> {
        let mut cpus = vec![Vec::<Sleep>::new(); platform.nr_cpus()];
        for i in idling {
            let sleeps = &mut cpus[i.cpu.at()];
            if let Some(last) = sleeps.last_mut().filter(|s| s.left == u64::MAX) {
                (last.left, last.out, last.woken) = (i.at.0, i.at.0, i.asked.map(|at| at.0));
            }
            if i.state != Event::IDLE_EXIT {
                let (asked, at) = (i.state as usize, i.at.0);
                let (left, out) = (u64::MAX, u64::MAX);
                sleeps.push(Sleep { asked, told: i.told, entered: at, left, woken: None, inside: at, out });
            }
        }
        let all = || (0..platform.nr_cpus() as u32).map(CpuId);
        let mates = |cpu| {
            let of = |scope| all().filter(|other| are_mates(platform, cpu, *other, scope)).collect();
            [Scope::Core, Scope::Cluster].map(of)
        };
        Sleeps { platform, cpus, mates: all().map(mates).collect() }
    }

    fn scope(&self, cpu: CpuId, state: usize) -> Scope {
        self.platform.idle_states(cpu).get(state).map_or(Scope::Cpu, |s| s.scope)
    }

    /// End of the way in and beginning of the way out; a sleep that ends on its way in has the latter first.
    fn way(&self, cpu: CpuId, s: &Sleep) -> (u64, u64) {
        let states = self.platform.idle_states(cpu);
        let entry = (0..=s.asked).rev().find(|&i| self.together(cpu, i, s.entered, 0)).unwrap_or(0);
        let entry_ns = states.get(entry).filter(|_| s.told).map_or(0, |s| s.actual.entry_ns);
        let inside = s.entered.saturating_add(entry_ns);
        if s.left == u64::MAX {
            return (inside, u64::MAX);
        }
        let out = |i: usize| s.left.saturating_sub(states.get(i).filter(|_| s.told).map_or(0, |s| s.actual.exit_ns));
        let reached = |&i: &usize| {
            let scope = self.scope(cpu, i);
            scope == Scope::Cpu || out(i) >= inside && self.together(cpu, i, out(i), s.left)
        };
        let state = (0..=s.asked).rev().find(reached).unwrap_or(0);
        let scope = self.scope(cpu, state);
        // The interrupt is sent when the wake-up is done, and on its way then.
        let costs = &self.platform.costs;
        let comes = |at: u64| at.saturating_add(costs.wakeup_ns + costs.ipi_ns);
        // Of those that leave a state of many at one time one woke up first: who was woken before all others and early enough for the
        // whole way out; else who was woken by nobody, but by a timer of its own; else who was woken least late.
        let rank = |cpu: CpuId, woken: Option<u64>| {
            (woken.map_or(1, |at| if comes(at) <= out(state) { 0 } else { 2 }), woken, cpu)
        };
        let before =
            |m: &CpuId| self.leaves(*m, scope, s.left).is_some_and(|mate| rank(*m, mate.woken) < rank(cpu, s.woken));
        let follows = scope != Scope::Cpu && self.mates_in(cpu, scope).iter().any(before);
        let own = (0..=state).rev().find(|&i| self.scope(cpu, i) == Scope::Cpu).filter(|_| follows);
        let asked = s.woken.map(|at| comes(at).max(out(state))).filter(|at| *at <= s.left);
        let half = |own: usize| out(state) + (out(own) - out(state).min(out(own))) / 2;
        (inside, own.map_or(out(state), |own| asked.unwrap_or(half(own))))
    }

    fn mates_in(&self, cpu: CpuId, scope: Scope) -> &[CpuId] {
        &self.mates[cpu.at()][usize::from(scope == Scope::Cluster)]
    }

    /// The sleep of that scope that ends at this time.
    fn leaves(&self, cpu: CpuId, scope: Scope, left: u64) -> Option<&Sleep> {
        let sleeps = &self.cpus[cpu.at()];
        let at = sleeps.partition_point(|s| s.left < left);
        sleeps.get(at).filter(|s| s.left == left && self.scope(cpu, s.asked) as u8 >= scope as u8)
    }

    /// Do all that share this state with a CPU sleep as deep at `at`, or leave it with that CPU?
    fn together(&self, cpu: CpuId, state: usize, at: u64, left: u64) -> bool {
        let scope = self.scope(cpu, state);
        scope == Scope::Cpu
            || self.mates_in(cpu, scope).iter().all(|&mate| {
                let sleeps = &self.cpus[mate.at()];
                let last = sleeps.partition_point(|s| s.entered <= at).checked_sub(1);
                last.map(|i| &sleeps[i])
                    .is_some_and(|s| s.inside <= at && (at < s.out || s.left == left) && s.asked >= state)
            })
    }
}

/// The levels of the moment.
struct Levels<'a> {
    sleeps: &'a Sleeps<'a>,
    asleep: Vec<Option<usize>>,
    cpus: Vec<PowerLevel>,
    clusters: Vec<PowerLevel>,
    out: Vec<(Ns, CpuId, Event)>,
}

impl<'a> Levels<'a> {
    fn new(sleeps: &'a Sleeps<'a>) -> Levels<'a> {
        let (cpus, clusters) = (sleeps.cpus.len(), sleeps.platform.clusters.len());
        Levels {
            sleeps,
            asleep: vec![None; cpus],
            cpus: vec![PowerLevel::Busy; cpus],
            clusters: vec![PowerLevel::Busy; clusters],
            out: Vec::new(),
        }
    }

    /// A core draws the shallowest of its hardware threads' states.
    fn change(&mut self, at: Ns, cpu: CpuId, asleep: Option<usize>) {
        self.asleep[cpu.at()] = asleep;
        self.set(at, cpu);
        for i in 0..self.sleeps.mates[cpu.at()][0].len() {
            self.set(at, self.sleeps.mates[cpu.at()][0][i]);
        }
    }

    fn set(&mut self, at: Ns, cpu: CpuId) {
        let level =
            self.asleep[cpu.at()].map_or(PowerLevel::Busy, |state| PowerLevel::Idle(self.drawn(cpu, state) as u8));
        if std::mem::replace(&mut self.cpus[cpu.at()], level) != level {
            self.out.push((at, cpu, Event::CpuPower { level }));
            self.cluster(at, cpu);
        }
    }

    fn drawn(&self, cpu: CpuId, state: usize) -> usize {
        let mates = self.sleeps.mates[cpu.at()][0].iter();
        let shallowest = mates.map(|mate| self.asleep[mate.at()].unwrap_or(0)).min().unwrap_or(usize::MAX);
        let drawn = |s: &usize| self.sleeps.scope(cpu, *s) != Scope::Core || *s <= shallowest;
        (0..=state).rev().find(drawn).unwrap_or(0)
    }

    /// A cluster is as awake as the most awake of its CPUs.
    fn cluster(&mut self, at: Ns, cpu: CpuId) {
        let cluster = self.sleeps.platform.cpus[cpu.at()].cluster;
        let cpus: &CpuSet = &self.sleeps.platform.clusters[cluster.at()].cpus;
        let depth = |level| match level {
            PowerLevel::Busy => 0,
            PowerLevel::Idle(state) => usize::from(state) + 1,
        };
        let level = cpus.iter().map(|c| self.cpus[c.at()]).min_by_key(|l| depth(*l)).unwrap_or(PowerLevel::Busy);
        if std::mem::replace(&mut self.clusters[cluster.at()], level) != level {
            self.out.push((at, cpu, Event::ClusterPower { cluster: ClusterId(cluster.0), level }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::metrics::testbed;
    use super::*;

    fn record(at: u64, cpu: u32, current: u32, event: Event) -> Record {
        Record { at: Ns(at), cpu: CpuId(cpu), current: Some(Pid(current)), event: Recorded::Event(event) }
    }
    fn told(at: u64, cpu: u32, state: u32) -> Idling {
        Idling { record: Some(0), at: Ns(at), cpu: CpuId(cpu), state, told: true, asked: None }
    }
    /// A state of the cluster that takes 300 ns to enter and 700 to leave; the other one takes 10 and 20.
    fn shared() -> Platform {
        let mut platform = testbed::platform();
        (platform.costs.wakeup_ns, platform.costs.ipi_ns) = (100, 50);
        for cluster in &mut platform.clusters {
            cluster.idle[1].scope = Scope::Cluster;
            (cluster.idle[0].actual.entry_ns, cluster.idle[0].actual.exit_ns) = (10, 20);
            (cluster.idle[1].actual.entry_ns, cluster.idle[1].actual.exit_ns) = (300, 700);
        }
        platform
    }
    fn levels(idling: &[Idling], cpu: u32) -> Vec<(u64, PowerLevel)> {
        let of = |(at, c, event): (Ns, CpuId, Event)| match event {
            Event::CpuPower { level } if c.0 == cpu => Some((at.0, level)),
            _ => None,
        };
        powers(idling, &shared()).into_iter().filter_map(of).collect()
    }

    #[test]
    fn ways_in_and_out_are_busy() {
        use PowerLevel::{Busy, Idle};
        let alone = [told(0, 0, 1), told(5_000, 0, Event::IDLE_EXIT)];
        assert_eq!(levels(&alone, 0), [(10, Idle(1)), (4_980, Busy)], "the other CPU is awake");
        let both = [told(0, 0, 1), told(100, 1, 1), told(5_000, 1, Event::IDLE_EXIT), told(5_100, 0, Event::IDLE_EXIT)];
        assert_eq!(
            levels(&both, 1),
            [(400, Idle(1)), (4_300, Busy)],
            "the last in and the first out pay for the cluster"
        );
        assert_eq!(levels(&both, 0), [(10, Idle(1)), (5_080, Busy)]);
        let at_once =
            [told(0, 0, 1), told(100, 1, 1), told(5_000, 0, Event::IDLE_EXIT), told(5_000, 1, Event::IDLE_EXIT)];
        assert_eq!(levels(&at_once, 0), [(10, Idle(1)), (4_300, Busy)]);
        assert_eq!(levels(&at_once, 1), [(400, Idle(1)), (4_640, Busy)], "it followed, and waited for the power");
        let mut asked = at_once;
        asked[3].asked = Some(Ns(4_500));
        let comes = shared().costs.wakeup_ns + shared().costs.ipi_ns;
        assert_eq!(levels(&asked, 1), [(400, Idle(1)), (4_500 + comes, Busy)], "somebody woke a thread for it");
        assert_eq!(levels(&asked, 0), levels(&at_once, 0), "too late to be the first");
        asked[3].asked = Some(Ns(4_000));
        assert_eq!(levels(&asked, 1), [(400, Idle(1)), (4_300, Busy)], "it was the first");
        assert_eq!(levels(&asked, 0), [(10, Idle(1)), (4_640, Busy)]);
        asked[2].asked = Some(Ns(4_100));
        assert_eq!(levels(&asked, 0), [(10, Idle(1)), (4_300, Busy)], "not before the first");
        let short = [told(0, 0, 0), told(25, 0, Event::IDLE_EXIT)];
        assert_eq!(levels(&short, 0), [], "it turned back on its way in");
        let cluster = powers(&both, &shared()).into_iter().filter(|p| matches!(p.2, Event::ClusterPower { .. }));
        assert_eq!(cluster.map(|p| p.0.0).collect::<Vec<_>>(), [400, 4_300]);
    }

    #[test]
    fn a_lost_end_of_a_sleep() {
        let switch = |prev, next| testbed::switch(prev, next, wattif_model::trace::PrevState::Sleeping);
        let mut records = vec![
            record(10, 0, 0, testbed::idle(1)),
            record(20, 0, 0, switch(0, 7)),
            record(90, 0, 7, switch(7, 0)),
            record(91, 0, 0, testbed::idle(0)),
        ];
        let of = |records: &[Record]| {
            let all = idling(records, true, &testbed::platform(), Ns(100)).into_iter();
            all.filter(|i| i.cpu == CpuId(0)).map(|i| (i.at.0, i.state)).collect::<Vec<_>>()
        };
        let sleeps = [(10, 1), (20, Event::IDLE_EXIT), (91, 0)];
        assert_eq!(of(&records), sleeps);
        records.insert(2, record(20, 0, 0, testbed::idle(Event::IDLE_EXIT)));
        assert_eq!(of(&records), sleeps, "it was not lost, but comes after the switch");
    }

    /// CPU 0 sleeps as told but for a second in which it is silent; CPU 1 goes offline; CPU 2 comes late.
    #[test]
    fn a_lost_begin_of_a_sleep() {
        let switch = |prev, next| testbed::switch(prev, next, wattif_model::trace::PrevState::Sleeping);
        let exit = testbed::idle(Event::IDLE_EXIT);
        const S: u64 = 1_000_000_000;
        let all = |events: &[(u64, u32, Event)]| {
            let records: Vec<_> = events.iter().map(|e| record(e.0, e.1, 0, e.2)).collect();
            let all = idling(&records, true, &testbed::platform(), Ns(4 * S)).into_iter().filter(|i| i.cpu != CpuId(3));
            let all: Vec<_> = all.map(|i| (i.at.0, i.cpu.0, i.state, i.told)).collect();
            let unsaid = unsaid(&records, &firsts(&records, &testbed::platform()), 4_000_000, Ns(4 * S));
            (all, unsaid.iter().map(|u| (u.cpu.0, u.ns())).collect::<Vec<_>>())
        };
        let deep = testbed::platform().clusters[0].idle.len() as u32 - 1;
        let events = [
            (0, 0, switch(7, 0)),
            (1, 1, switch(8, 0)),
            (2, 1, testbed::idle(0)),
            (S, 0, exit),
            (S + 1, 1, exit),
            (S + 2, 1, switch(0, 8)),
            (S + 3, 1, switch(8, 0)),
            (2 * S, 2, testbed::idle(1)),
            (2 * S + 1, 2, exit),
            (2 * S + 2, 2, switch(0, 9)),
        ];
        let expect = vec![
            (0, 2, deep, false),
            (0, 0, deep, false),
            (2, 1, 0, true),
            (S, 0, Event::IDLE_EXIT, true),
            (S, 0, deep, false),
            (S + 1, 1, Event::IDLE_EXIT, true),
            (S + 3, 1, deep, false),
            (2 * S, 2, 1, true),
            (2 * S + 1, 2, Event::IDLE_EXIT, true),
        ];
        assert_eq!(all(&events), (expect, vec![(0, S), (0, 3 * S), (1, 3 * S - 3)]));
        // Back online, with a thread or asleep; or with an interrupt that a silence was before.
        for back in [switch(0, 8), testbed::idle(1), testbed::waking(8)] {
            let events = [&events[..7], &[(2 * S, 1, back), (2 * S + 1, 1, switch(0, 8))]].concat();
            assert!(all(&events).1.contains(&(1, S - 3)), "{back:?}");
            let end = all(&events).0.into_iter().rfind(|i| i.1 == 1);
            assert_eq!(
                end.map(|i| (i.0, i.2)),
                Some(match back {
                    Event::SchedSwitch { .. } => (2 * S, Event::IDLE_EXIT),
                    _ => (2 * S + 1, Event::IDLE_EXIT),
                })
            );
        }
        // Awake for less than a tick, and an end that is told twice.
        let short = [(0, 0, switch(7, 0)), (9, 0, switch(0, 7)), (10, 0, switch(7, 0)), (11, 0, testbed::idle(0))];
        let twice = [&short[..], &[(20, 0, exit), (21, 0, exit), (22, 0, switch(0, 7))]].concat();
        assert_eq!(all(&twice).1, []);
        let early = [&short[..1], &[(9, 0, exit), (10, 0, switch(0, 7))]].concat();
        assert_eq!(all(&early).1, [(0, 9)], "an end is enough");
    }

    #[test]
    fn how_cpus_begin() {
        let switch = |prev, next| testbed::switch(prev, next, wattif_model::trace::PrevState::Sleeping);
        let records = [
            record(10, 0, 0, testbed::waking(7)),
            record(20, 0, 0, testbed::idle(Event::IDLE_EXIT)),
            record(30, 0, 0, switch(0, 7)),
            record(40, 1, 8, switch(8, 0)),
            record(50, 1, 0, testbed::idle(1)),
            record(60, 2, 0, switch(0, 9)),
            record(90, 2, 9, switch(9, 0)),
        ];
        let mut platform = testbed::platform();
        platform.clusters.iter_mut().for_each(|c| c.idle[1].advertised.residency_ns = 50);
        let asleep: Vec<_> = firsts(&records, &platform).iter().map(|f| f.asleep).collect();
        assert_eq!(asleep, [Some(true), Some(false), Some(true), None]);
        let all = idling(&records, true, &platform, Ns(100));
        let of = |cpu| all.iter().filter(|i| i.cpu == CpuId(cpu)).map(|i| (i.at.0, i.state)).collect::<Vec<_>>();
        assert_eq!(of(0), [(0, 0), (20, Event::IDLE_EXIT)]);
        assert_eq!(of(1), [(50, 1)]);
        assert_eq!(of(2), [(0, 1), (60, Event::IDLE_EXIT), (90, 0)], "by its switches; the state that fits each time");
        assert_eq!(of(3), [(0, 1)], "no events at all");
        assert_eq!(all.iter().filter_map(|i| i.asked).count(), 0, "nobody woke them");
        let mut asked = records.to_vec();
        asked.insert(0, record(12, 1, 8, testbed::wakeup(7)));
        asked.insert(0, record(11, 1, 8, testbed::waking(7)));
        let first =
            |cpu| idling(&asked, true, &platform, Ns(100)).iter().rfind(|i| i.cpu == CpuId(cpu)).and_then(|i| i.asked);
        assert_eq!([first(0), first(2)], [Some(Ns(11)), None], "another CPU woke its thread");
        let without: Vec<Record> =
            records.into_iter().filter(|r| !matches!(r.event(), Some(Event::CpuIdle { .. }))).collect();
        assert_eq!(idling(&without, true, &platform, Ns(100)), [], "the recorder left them out");
    }

    /// Thread 7 is woken by CPU 0 for CPU 1. Without `sched_wakeup` that shows by its run, or by its move away; a move of the waker, at once,
    /// brings it there.
    #[test]
    fn where_a_thread_was_woken() {
        let switch = |prev, next| testbed::switch(prev, next, wattif_model::trace::PrevState::Sleeping);
        let waking = testbed::waking(7);
        let wakeup = Event::SchedWakeup { pid: Pid(7), prio: 120, target_cpu: CpuId(1), in_irq: false };
        let moved =
            |from, to| Event::SchedMigrateTask { pid: Pid(7), prio: 120, orig_cpu: CpuId(from), dest_cpu: CpuId(to) };
        let of = |moves, events: &[(u64, u32, Event)]| {
            let records: Vec<_> = events.iter().map(|e| record(e.0, e.1, 9, e.2)).collect();
            asked_by_others(&records, moves, 4)
                .into_iter()
                .map(|c| c.iter().map(|at| at.0).collect())
                .collect::<Vec<Vec<u64>>>()
        };
        let to_cpu_1 = vec![vec![], vec![10], vec![], vec![]];
        assert_eq!(of(true, &[(10, 0, waking), (15, 1, wakeup), (20, 2, switch(0, 7))]), to_cpu_1, "it is told");
        assert_eq!(of(true, &[(10, 0, waking), (20, 1, switch(0, 7))]), to_cpu_1);
        assert_eq!(of(true, &[(10, 0, waking), (12, 0, moved(3, 1)), (20, 1, switch(0, 7))]), to_cpu_1);
        assert_eq!(
            of(true, &[(10, 0, waking), (10, 0, switch(9, 0)), (10, 0, moved(3, 1)), (20, 1, switch(0, 7))]),
            to_cpu_1
        );
        for puller in [0, 2] {
            let pulled =
                [(10, 0, waking), (11, 0, switch(9, 0)), (12, puller, moved(1, puller)), (12, puller, switch(0, 7))];
            assert_eq!(of(true, &pulled), to_cpu_1, "it waited there, and CPU {puller} took it");
        }
        let derived = [(10, 0, waking), (20, 1, moved(3, 1)), (20, 1, switch(0, 7))];
        assert_eq!(of(false, &derived), to_cpu_1, "such a move is made up where it runs");
        assert_eq!(of(true, &[(10, 0, waking), (20, 0, switch(0, 7))]), vec![Vec::<u64>::new(); 4], "by its own CPU");
        let twice = [(10, 0, waking), (20, 1, switch(0, 7)), (30, 1, switch(7, 0)), (40, 2, switch(0, 7))];
        assert_eq!(of(true, &twice), to_cpu_1, "nobody woke it again");
    }
}
