//! Reads a trace, event by event: what each thread did.
//!
//! **Work** of a thread is its time on CPUs × the capacity of the CPU at the frequency it had × what busy siblings leave of the core,
//! less what the platform's costs say the kernel took of it. **Waits** are told apart by what ended them: a thread, an interrupt after `S`, or one
//! after `D`. Beside the steps it is noted on which CPUs each thread ran, and that it did not where others were idle (`affinity.rs`).

use super::affinity::{Beside, STRANDED_FOR_NS, STRANDED_NS};
use super::binds::Execs;
use super::exits::Sleeps;
use super::ipis::ipis;
use super::offline::{Offline, is_offline, offline};
use super::play::{seen, who_runs_at_first};
use super::steps::Step;
use super::thread::{State, Thread};
use super::throttled;
use super::ticks;
use super::unlike::{first_opps, nearest};
use super::wakers::Wakers;
use super::yields::Gave;
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::kernel;
use wattif_model::platform::Platform;
use wattif_model::trace::{Event, PrevState, Recorded, Recording};
use wattif_model::units::CAPACITY_SCALE;
use wattif_model::{CpuId, CpuSet, Pid};

/// A simulation launches the threads of its machine within so long, ns.
const LAUNCHED_NS: u64 = 1_000_000;
/// Who yields has run for less, as a rule; the least slice of SCHED_RR is a tick.
const TURN_NS: u64 = 1_000_000;
/// What a thread does until then says how busy it was before: four half-lives of PELT.
pub(super) const AT_FIRST_NS: u64 = 128_000_000;
/// A CPU counts as idle while it is busy for no more than one part in so many.
const BUSY_PART: u64 = 20;
/// Kernels 4.x that Android's are made of: these place by energy before mainline does.
const ANDROIDS_4: [u32; 4] = [4, 9, 14, 19];
/// A thread of less utilisation (of 1024) may look like one without.
const LEAST_UTIL: u64 = 2;
/// Who sleeps for one part in so many of `STRANDED_FOR_NS` is looked at as if it did not: its utilisation has come to 0.9 of its CPU's capacity,
/// which no longer fits. In less time it may still be growing, the slower the slower the clock is.
const DOZES_OF: u64 = 10;
/// Hardly an interrupt takes longer than usual by so many times what is usual, with what varies by chance: 1 of 3000.
const IRQ_TAIL: u64 = 8;
/// A CPU that is idle for less may be about to run something.
const IDLE_NS: u64 = 100_000;

pub(super) struct Reader<'a> {
    pub platform: &'a Platform,
    pub threads: BTreeMap<Pid, Thread>,
    /// Of the kernel it was recorded under, where that is told.
    version: Option<(u32, u32)>,
    /// Who runs since when, by CPU.
    running: Vec<(Pid, u64)>,
    /// Since when each CPU is idle, and since when it was busy last.
    idle_since: Vec<Option<u64>>,
    pub offline: Vec<Offline>,
    busy_since: Vec<u64>,
    /// When a thread was woken on each last.
    woken: Vec<Option<u64>>,
    /// Since when each has been busy for no more than a small part of the time, and its busy time until then.
    quiet: Vec<(u64, u64)>,
    /// Hardware threads that share a core with each CPU.
    siblings: Vec<Vec<CpuId>>,
    /// How long each was busy, ns, and what it has worked, units of capacity × ns.
    pub busy_ns: Vec<u64>,
    pub worked: Vec<u64>,
    opp: Vec<usize>,
    /// From a tick to the next, and what it costs whoever runs, ns.
    tick_ns: u64,
    tick_cost_ns: u64,
    sleeps: Sleeps<'a>,
    wakers: Wakers,
    /// `SCHED_IDLE` threads.
    pub give_way: BTreeSet<Pid>,
    /// Workers of a governor that samples.
    pub samplers: BTreeSet<Pid>,
    /// The threads that move others away.
    stoppers: BTreeSet<Pid>,
    /// Who was throttled until when.
    throttled: BTreeSet<(Pid, u64)>,
    execs: Execs,
}

/// CPUs of a machine of `n` that the file says a thread may use when it begins.
pub(super) fn allowed(recording: &Recording, pid: Pid, n: usize) -> Option<CpuSet> {
    let told = recording.threads.get(&pid.0)?.cpus.as_ref()?;
    let all = CpuSet::first(n);
    Some(told.and(&all)).filter(|cpus| !cpus.is_empty() && !all.is_subset(cpus))
}

/// The first two numbers of the kernel's release, where that is told.
fn version(recording: &Recording) -> Option<(u32, u32)> {
    // Our own traces have the name of the profile there.
    kernel::version(recording.release.as_deref()?.trim_start_matches(|c: char| !c.is_ascii_digit()))
}

/// The kernel's per-CPU stoppers: every simulation has its own.
fn is_stopper(comm: &str) -> bool {
    comm.starts_with("migration/")
}

/// What it costs a thread to come to a CPU from its last one.
fn refill_ns(platform: &Platform, last: Option<CpuId>, cpu: CpuId) -> u64 {
    let llc = |cpu: CpuId| platform.cpus[cpu.at()].llc;
    match last.filter(|last| *last != cpu) {
        Some(last) if llc(last) != llc(cpu) => platform.costs.migration_llc_ns,
        Some(_) => platform.costs.migration_ns,
        None => 0,
    }
}

/// The other hardware threads of each CPU's core, where these share its speed.
fn siblings(platform: &Platform) -> Vec<Vec<CpuId>> {
    if platform.smt_share.len() < 2 {
        return vec![Vec::new(); platform.nr_cpus()];
    }
    let others = |(threads, cpu): (Vec<CpuId>, u32)| threads.into_iter().filter(|other| other.0 != cpu).collect();
    platform.core_threads().into_iter().zip(0..).map(others).collect()
}

impl<'a> Reader<'a> {
    /// All of a trace.
    pub(super) fn read(recording: &Recording, platform: &'a Platform) -> Reader<'a> {
        let n = platform.nr_cpus();
        let samplers = super::samplers::workers(recording, platform);
        let ours = |pid: Pid| !is_stopper(recording.comm(pid)) && !samplers.contains(&pid);
        let threads = seen(recording).into_iter().filter(|(pid, _)| ours(*pid));
        let mut reader = Reader {
            platform,
            threads: threads.map(|(pid, prio)| (pid, Thread::new(prio))).collect(),
            version: version(recording),
            running: vec![(Pid(0), 0); n],
            idle_since: vec![Some(0); n],
            offline: offline(recording),
            busy_since: vec![0; n],
            woken: vec![None; n],
            quiet: vec![(0, 0); n],
            siblings: siblings(platform),
            busy_ns: vec![0; n],
            worked: vec![0; n],
            opp: first_opps(recording, platform),
            tick_ns: ticks::length(platform).max(1),
            tick_cost_ns: platform.costs.timer_irq_ns + platform.costs.tick_ns + platform.noise.irq_jitter_ns,
            sleeps: Sleeps::new(platform),
            wakers: Wakers::of(recording),
            give_way: match recording.tells_policies() {
                true => BTreeSet::new(),
                false => super::sched_idle::threads(recording, n),
            },
            execs: Execs::of(recording),
            samplers,
            throttled: throttled::waits(recording).iter().map(|wait| (wait.pid, wait.until.0)).collect(),
            stoppers: recording
                .threads
                .keys()
                .map(|pid| Pid(*pid))
                .filter(|p| is_stopper(recording.comm(*p)))
                .collect(),
        };
        for (pid, t) in &mut reader.threads {
            t.allowed = allowed(recording, *pid, n);
        }
        if reader.is_androids_4() {
            for pid in super::sync::threads(recording, platform) {
                reader.threads.entry(pid).and_modify(|t| t.sync = true);
            }
        }
        reader.who_runs_at_first(recording);
        let mut lost = super::lost::ends(recording).into_iter().peekable();
        let mut ipis = ipis(recording, platform).into_iter().filter(|ipi| ipi.1.at() < n).peekable();
        for (i, r) in recording.records.iter().enumerate() {
            let is_last = lost.next_if_eq(&i).is_some();
            while let Some((at, cpu, woken)) = ipis.next_if(|ipi| ipi.0 <= r.at.0) {
                reader.interrupted(at, cpu, woken, 0);
            }
            if r.cpu.at() >= n {
                continue;
            }
            reader.record(r.at.0, r.cpu, r.current, &r.event);
            if is_last {
                reader.vanishes(r.at.0, r.cpu);
            }
        }
        reader.ends(recording.end.0);
        reader
    }

    /// Where the trace ends.
    fn ends(&mut self, end: u64) {
        for cpu in 0..self.running.len() as u32 {
            self.account(CpuId(cpu), end);
            self.strands(end, CpuId(cpu), self.running[cpu as usize].0);
        }
        self.waits_to_the_end(end);
        debug_assert!(self.threads.values().all(|t| t.first_wait == t.steps.iter().position(Step::waits)));
        for t in self.threads.values_mut() {
            if t.work > 0 {
                t.steps.push(Step::Work(std::mem::take(&mut t.work)));
            }
        }
    }

    /// Who is on a CPU when the trace begins.
    fn who_runs_at_first(&mut self, recording: &Recording) {
        let n = self.running.len();
        for (cpu, pid) in who_runs_at_first(recording).into_iter().filter(|(cpu, _)| cpu.at() < n) {
            self.running[cpu.at()].0 = pid;
            self.idle_since[cpu.at()] = None;
            if let Some(t) = self.threads.get_mut(&pid) {
                (t.state, t.cpu, t.stays_since) = (State::Running, Some(cpu), Some(0));
            }
        }
    }

    /// Units per ns of a CPU now.
    fn speed(&self, cpu: CpuId) -> u64 {
        let domain = self.platform.cpus[cpu.at()].domain.at();
        let opps = &self.platform.domains[domain].opps;
        let opp = &opps[self.opp[domain].min(opps.len() - 1)];
        let busy = self.siblings[cpu.at()].iter().filter(|c| self.running[c.at()].0 != Pid(0)).count();
        let shares = &self.platform.smt_share;
        let share = shares.get(busy).or(shares.last()).copied().unwrap_or(CAPACITY_SCALE as u32);
        (u64::from(opp.capacity) * u64::from(share) / CAPACITY_SCALE).max(1)
    }

    /// The running thread has worked until now.
    fn account(&mut self, cpu: CpuId, now: u64) {
        let speed = self.speed(cpu);
        let (pid, since) = self.running[cpu.at()];
        self.running[cpu.at()].1 = now;
        if pid.0 != 0 {
            let wall = now.saturating_sub(since);
            self.busy_ns[cpu.at()] += wall;
            self.worked[cpu.at()] = self.worked[cpu.at()].saturating_add(wall.saturating_mul(speed));
        }
        if let Some(t) = self.threads.get_mut(&pid) {
            let wall = now.saturating_sub(since);
            let kernel = t.overhead.min(wall);
            t.overhead -= kernel;
            // No event tells of the tick that interrupts it.
            let in_ticks = (wall - kernel).saturating_mul(self.tick_cost_ns) / self.tick_ns;
            let kernel = kernel + in_ticks.min(wall - kernel);
            if t.work == 0 {
                (t.began, t.on_cpu, t.first_speed) = (since + kernel, 0, speed);
            }
            t.last = now.max(t.began);
            t.on_cpu += wall - kernel;
            let at_first = now.min(AT_FIRST_NS).saturating_sub(since);
            t.at_first = t.at_first.saturating_add(at_first.saturating_mul(speed));
            t.work = t.work.saturating_add((wall - kernel).saturating_mul(speed));
        }
    }

    fn record(&mut self, at: u64, cpu: CpuId, current: Option<Pid>, event: &Recorded) {
        if let Recorded::Event(
            Event::SchedWaking { target_cpu, .. }
            | Event::SchedWakeup { target_cpu, .. }
            | Event::SchedWakeupNew { target_cpu, .. },
        ) = *event
            && let Some(woken) = self.woken.get_mut(target_cpu.at())
        {
            *woken = Some(at);
        }
        match *event {
            Recorded::CpuFrequency { cpu, khz } => self.frequency(at, cpu, khz),
            Recorded::Event(Event::SchedSwitch { prev_pid, prev_prio, prev_state, next_pid, next_prio }) => {
                self.leave(at, cpu, (prev_pid, prev_prio), prev_state, (next_pid, next_prio));
                self.enter(at, cpu, prev_pid, (next_pid, next_prio));
            }
            Recorded::Event(Event::SchedWaking { pid, in_irq, .. }) => {
                let waker = current.unwrap_or(self.running[cpu.at()].0);
                let by_thread = !in_irq && self.wakers.wakes(waker, pid);
                if !in_irq
                    && self.stoppers.contains(&pid)
                    && let Some(t) = self.threads.get_mut(&waker).filter(|t| t.cpu == Some(cpu))
                {
                    t.binds.calls_stopper(cpu);
                }
                self.waking(at, cpu, pid, by_thread.then_some(waker));
            }
            Recorded::Event(Event::Touch { pid }) => {
                self.account(cpu, at);
                if let Some(t) = self.threads.get_mut(&pid) {
                    t.push(Step::Touch);
                }
            }
            Recorded::Event(Event::SchedProcessFork { pid, child_pid }) => self.fork(at, cpu, pid, child_pid),
            Recorded::Event(Event::SchedWakeupNew { pid, .. }) => {
                if let Some(t) = self.threads.get_mut(&pid).filter(|t| t.state == State::Unknown) {
                    // What nobody forked an interrupt began, as in traces of runs.
                    let is_idle = current.unwrap_or(self.running[cpu.at()].0) == Pid(0);
                    let exit_ns = if is_idle { self.sleeps.latency(cpu, (pid, at), 0) } else { 0 };
                    (t.state, t.born, t.awake, t.is_new) = (State::Runnable { since: at }, at - exit_ns, at, true);
                }
            }
            Recorded::Event(Event::CpuIdle { state }) => match state {
                Event::IDLE_EXIT => self.sleeps.leave(cpu, at),
                _ => self.sleeps.enter(cpu, state, at),
            },
            _ => {}
        }
    }

    fn frequency(&mut self, at: u64, cpu: CpuId, khz: u32) {
        let Some(c) = self.platform.cpus.get(cpu.at()) else { return };
        let domain = c.domain.at();
        for cpu in self.platform.domains[domain].cpus.iter() {
            self.account(cpu, at);
        }
        let opps = &self.platform.domains[domain].opps;
        self.opp[domain] = nearest(opps, khz);
    }

    /// Who may have lent `pid` this priority: one that has it and was blocked since `pid` was seen with a lower one. Fair threads lend none.
    fn lender(&self, pid: Pid, prio: u8) -> Option<Pid> {
        let t = self.threads.get(&pid).filter(|t| prio < t.prio && prio < 100)?;
        let blocked = |t: &Thread, after| matches!(t.state, State::Sleeping { since, .. } if since >= after);
        let lends = |(_, other): &(&Pid, &Thread)| other.prio == prio && blocked(other, t.prio_seen);
        self.threads.iter().find(lends).map(|(pid, _)| *pid)
    }

    /// `prev` is switched out.
    fn leave(&mut self, at: u64, cpu: CpuId, (prev, prio): (Pid, u8), state: PrevState, (next, next_prio): (Pid, u8)) {
        if state == PrevState::Running {
            self.preempted(at, cpu, (prev, next));
        }
        self.account(cpu, at);
        self.strands(at, cpu, prev);
        let to_stopper = self.stoppers.contains(&next);
        let lender = self.lender(prev, prio);
        let woken = self.woken[cpu.at()].is_some_and(|woken| at <= woken.saturating_add(ticks::WOKEN_NS));
        let waited = self.threads.get(&next).filter(|t| matches!(t.state, State::Runnable { .. }));
        let (is_waited_for, in_turn) = (waited.is_some(), waited.is_some_and(|t| !t.woken));
        if let Some(t) = self.threads.get_mut(&prev) {
            t.binds.leaves(to_stopper && state == PrevState::Running);
            let had = t.prio;
            t.switched_out_with(prio, lender);
            t.prio_seen = at;
            // Its equal comes.
            let of_equal = next_prio == prio || prio.min(next_prio) >= 100;
            let equal = prio == had && of_equal;
            if state == PrevState::Running && equal && next.0 != 0 && !woken && !to_stopper {
                t.gave.push(Gave { step: t.steps.len(), units: t.work, at, in_turn });
            }
            if state.sleeps() && is_waited_for && of_equal && !woken {
                t.beside.push(t.steps.len());
            }
            let turn = at.saturating_sub(t.entered.0) >= TURN_NS;
            t.takes_turns |= turn && state == PrevState::Running && t.prio < 100 && next_prio == t.prio;
            t.early &= state.sleeps() && t.state == State::Running;
            t.state = match state {
                PrevState::Running => State::Runnable { since: at },
                PrevState::Sleeping => State::Sleeping { since: at, disk: false },
                PrevState::DiskSleep => State::Sleeping { since: at, disk: true },
                PrevState::Dead => State::Dead { since: at },
            };
            if state == PrevState::Dead {
                t.push(Step::Exit);
            }
        }
        self.runnable(at, prev);
        // A balancer counts fair threads: one that a real-time thread preempts is alone and stays.
        if next_prio < 100
            && let Some(t) = self.threads.get_mut(&prev).filter(|t| t.prio >= 100)
        {
            t.idle_then.clear();
        }
    }

    /// `next` is switched in.
    fn enter(&mut self, at: u64, cpu: CpuId, prev: Pid, (next, next_prio): (Pid, u8)) {
        // What it woke up last is paid for by who comes, unless it was stopped in the midst of that.
        let carried = self.threads.get_mut(&prev).map_or(0, |t| {
            let left = std::mem::take(&mut t.overhead);
            if matches!(t.state, State::Runnable { .. }) && t.woke_at < at { 0 } else { left }
        });
        self.wakes_at_last(at, cpu, next);
        if (prev.0 == 0) != (next.0 == 0) {
            self.siblings_until(cpu, at);
        }
        self.running[cpu.at()] = (next, at);
        self.lingers(at, cpu, next);
        let throttled = self.throttled.contains(&(next, at));
        let (idle, equal) = if throttled { Default::default() } else { self.idle_beside(next, cpu, at) };
        self.goes_idle_or_busy(at, cpu, (prev, next));
        let busy_since = self.busy_since[cpu.at()];
        let mut companion = None;
        let lender = self.lender(next, next_prio);
        let Some(t) = self.threads.get_mut(&next) else { return };
        match t.state {
            State::Unknown => t.born = at, // neither woken nor forked: it was waiting for a CPU
            State::Runnable { since } => {
                let waited_ns = if throttled { 0 } else { at.saturating_sub(since) };
                companion = t.ran_beside(cpu, waited_ns, since.saturating_sub(busy_since), (&idle, &equal));
            }
            _ => {}
        }
        if let Some((from, bind)) = t.binds.enters((next, at), cpu, &self.execs) {
            if let Some(nth) = bind {
                t.push(Step::Bind(nth));
                t.allowed = None;
            }
            // Nobody is executed where others run.
            if t.busy_then.contains(cpu) {
                t.where_it_runs.sent_from(from);
            }
        }
        let kind = |cpu: CpuId| self.platform.told_capacity(cpu);
        if t.cpu.is_some_and(|last| kind(last) != kind(cpu)) {
            t.stays_since = None;
        }
        t.stays(at);
        (t.woken, t.early) = (false, false);
        t.came_so_far(cpu);
        t.overhead = carried + self.platform.costs.context_switch_ns + refill_ns(self.platform, t.cpu, cpu);
        t.switched_in_with(next_prio, lender);
        t.prio_seen = at;
        t.entered = (at, t.steps.len(), t.work);
        (t.state, t.cpu) = (State::Running, Some(cpu));
        if let Some(companion) = companion.and_then(|pid| self.threads.get_mut(&pid)) {
            companion.where_it_runs.meets(cpu);
        }
    }

    /// A thread that seems asleep is switched in: it was woken before it had gone to sleep, or the trace does not show by whom.
    fn wakes_at_last(&mut self, at: u64, cpu: CpuId, next: Pid) {
        match self.threads.get_mut(&next) {
            Some(t @ Thread { state: State::Sleeping { .. }, early: true, .. }) => {
                t.state = State::Runnable { since: at };
            }
            // What woke it is not in the trace.
            Some(Thread { state: State::Sleeping { .. } | State::Dead { .. }, .. }) => self.waking(at, cpu, next, None),
            _ => {}
        }
    }

    /// Since when a CPU is busy or idle, and since when it has been quiet.
    fn goes_idle_or_busy(&mut self, at: u64, cpu: CpuId, (prev, next): (Pid, Pid)) {
        if prev.0 == 0 {
            self.busy_since[cpu.at()] = at;
        } else if next.0 == 0 {
            let ((since, before), busy) = (self.quiet[cpu.at()], self.busy_ns[cpu.at()]);
            if (busy - before).saturating_mul(BUSY_PART) > at.saturating_sub(since) {
                self.quiet[cpu.at()] = (at, busy);
            }
        }
        self.idle_since[cpu.at()] = (next.0 == 0).then_some(at);
    }

    /// Whoever runs on a CPU leaves it, and the switch is lost.
    fn vanishes(&mut self, at: u64, cpu: CpuId) {
        self.account(cpu, at);
        self.siblings_until(cpu, at);
        let (pid, _) = std::mem::replace(&mut self.running[cpu.at()], (Pid(0), at));
        let here = |t: &&mut Thread| t.state == State::Running && t.cpu == Some(cpu);
        if let Some(t) = self.threads.get_mut(&pid).filter(here) {
            (t.state, t.early, t.stays_since) = (State::Sleeping { since: at, disk: false }, true, None);
        }
    }

    /// CPUs of at least the capacity of `cpu` that were idle nearly all the while that a thread has waited for it, and those of the same.
    fn idle_beside(&self, pid: Pid, cpu: CpuId, at: u64) -> (CpuSet, CpuSet) {
        let Some(Thread { state: State::Runnable { since }, idle_then, .. }) = self.threads.get(&pid) else {
            return Default::default();
        };
        let cpus = &self.platform.cpus;
        let large = |c: &CpuId| cpus[c.at()].capacity >= cpus[cpu.at()].capacity;
        let busy = |(c, then): &&(CpuId, u64)| self.busy_until(c.at(), at).saturating_sub(*then);
        let still = |then: &&(CpuId, u64)| busy(then) <= at.saturating_sub(*since) / BUSY_PART;
        let idle: CpuSet = idle_then.iter().filter(|then| large(&then.0) && still(then)).map(|then| then.0).collect();
        let equal = idle.iter().filter(|c| cpus[c.at()].capacity == cpus[cpu.at()].capacity).collect();
        (idle, equal)
    }

    /// A fair thread has computed on `cpu` for long while larger ones were idle.
    fn strands(&mut self, at: u64, cpu: CpuId, pid: Pid) {
        let (long, since_5) = (|since: u64| since + STRANDED_NS <= at, self.since_5());
        let Some(t) = self.threads.get_mut(&pid).filter(|t| t.prio >= 100) else { return };
        let least = if t.slept > 0 { STRANDED_FOR_NS } else { STRANDED_NS };
        let Some(since) = t.stays_since.filter(|since| since + least <= at) else { return };
        let told = |c: &CpuId| self.platform.told_capacity(*c);
        // Before 5.0, a thread may be left on a small CPU as long as a larger one is not all idle.
        let idle = |c: &CpuId| {
            let idle_since = self.idle_since[c.at()].filter(|_| !is_offline(&self.offline, *c, at));
            if since_5 { idle_since.is_some() && long(self.quiet[c.at()].0) } else { idle_since.is_some_and(long) }
        };
        let all = (0..self.idle_since.len() as u32).map(CpuId);
        let larger = all.filter(|c| t.may_use(*c)).filter(|c| told(c) > told(&cpu) && idle(c)).collect();
        t.where_it_runs.strands(cpu, at - since, &larger);
        t.stays_since = None;
        t.stays(at);
    }

    /// A fair thread is woken on `cpu` although all CPUs, this one too, have had next to nothing to do for long, and smaller ones are idle.
    fn lingers(&mut self, at: u64, cpu: CpuId, pid: Pid) {
        let by_energy = self.since_5() || self.is_androids_4();
        let Some(t) = self.threads.get_mut(&pid).filter(|t| by_energy && t.prio >= 100 && t.woken) else { return };
        let told = |c: &CpuId| self.platform.told_capacity(*c);
        let smaller: CpuSet = t.idle_then.iter().map(|then| then.0).filter(|c| told(c) < told(&cpu)).collect();
        let calm = |(quiet, idle): (&(u64, u64), &Option<u64>)| quiet.0 + STRANDED_NS <= at && idle.is_some();
        if smaller.is_empty() || !self.quiet.iter().zip(&self.idle_since).all(calm) {
            return;
        }
        let worked = t.steps.iter().rev().find_map(|s| if let Step::Work(units) = s { Some(*units) } else { None });
        // Whose utilisation is 0 costs nothing anywhere.
        if worked.unwrap_or(0) >= LEAST_UTIL * at.saturating_sub(t.entered.0) {
            t.where_it_runs.lingers(cpu, &smaller);
        }
    }

    /// It was recorded under a kernel that is Android's, by its number.
    fn is_androids_4(&self) -> bool {
        self.version.is_some_and(|(n, minor)| n == 4 && ANDROIDS_4.contains(&minor))
    }

    /// It was recorded under 5.0 or later: energy-aware placement is mainline's, and small CPUs whose thread needs a larger one are looked for.
    pub(super) fn since_5(&self) -> bool {
        self.version.is_some_and(|v| v >= (5, 0))
    }

    /// The siblings of a CPU have had the speed they had until now.
    fn siblings_until(&mut self, cpu: CpuId, at: u64) {
        for i in 0..self.siblings[cpu.at()].len() {
            self.account(self.siblings[cpu.at()][i], at);
        }
    }

    /// How long a CPU was busy until now, ns.
    fn busy_until(&self, cpu: usize, at: u64) -> u64 {
        let (pid, since) = self.running[cpu];
        self.busy_ns[cpu] + if pid.0 == 0 { 0 } else { at.saturating_sub(since) }
    }

    /// Which CPUs are idle when a thread begins to wait for one.
    fn runnable(&mut self, at: u64, pid: Pid) {
        let Some(t) = self.threads.get_mut(&pid).filter(|t| matches!(t.state, State::Runnable { .. })) else { return };
        let (mut idle, mut busy) = (std::mem::take(&mut t.idle_then), CpuSet::default());
        idle.clear();
        for (c, idle_since) in (0..).map(CpuId).zip(&self.idle_since) {
            match *idle_since {
                Some(_) if is_offline(&self.offline, c, at) => {}
                Some(since) if since + IDLE_NS <= at => idle.push((c, self.busy_until(c.at(), at))),
                Some(_) => {}
                // A wake-up may take a CPU that runs SCHED_IDLE threads for an idle one.
                None if self.give_way.contains(&self.running[c.at()].0) => {}
                None => busy.insert(c),
            }
        }
        let t = self.threads.get_mut(&pid).expect("found above");
        idle.retain(|then| t.may_use(then.0));
        (t.idle_then, t.busy_then) = (idle, busy);
        t.ran_then = t.cpu.map(|last| self.running[last.at()].0);
    }

    /// An interrupt wakes a thread on a CPU, and takes `ns` and what varies; it may wake several at once.
    fn interrupted(&mut self, at: u64, cpu: CpuId, woken: Pid, ns: u64) {
        self.account(cpu, at);
        if let Some(t) = self.threads.get_mut(&self.running[cpu.at()].0) {
            if t.irq.is_none_or(|irq| irq.0 != at) {
                t.overhead += ns + self.platform.noise.irq_jitter_ns;
            }
            (t.woke_at, t.irq) = (at, Some((at, woken)));
        }
    }

    /// Whom an interrupt wakes comes at once: all that time was the interrupt's.
    fn preempted(&mut self, at: u64, cpu: CpuId, (prev, next): (Pid, Pid)) {
        let Some(t) = self.threads.get_mut(&prev) else { return };
        let tail = IRQ_TAIL * self.platform.noise.irq_jitter_ns;
        if t.irq.is_some_and(|(irq, woken)| woken == next && at <= irq.saturating_add(t.overhead + tail)) {
            t.overhead = at.saturating_sub(self.running[cpu.at()].1);
        }
    }

    /// `waker` where a thread did it.
    fn waking(&mut self, at: u64, cpu: CpuId, pid: Pid, waker: Option<Pid>) {
        let costs = &self.platform.costs;
        let wakeup_ns = costs.wakeup_ns;
        // What the waking itself cost whoever runs here.
        match waker {
            None => self.interrupted(at, cpu, pid, costs.timer_irq_ns),
            Some(_) => self.account(cpu, at),
        }
        let current = self.running[cpu.at()].0;
        if let Some(t) = self.threads.get_mut(&current) {
            t.overhead += wakeup_ns;
            t.woke_at = at;
        }
        let waker = waker.filter(|w| self.threads.contains_key(w) && *w != pid);
        let slack = self.platform.timer_slack_ns;
        // From 5.0 on, a thread that does not fit its CPU is moved when it wakes and at every tick.
        let may_doze = if self.since_5() { STRANDED_FOR_NS / DOZES_OF } else { 0 };
        let Some(t) = self.threads.get_mut(&pid) else { return };
        let (since, disk) = match t.state {
            State::Sleeping { since, disk } => (since, disk),
            State::Unknown => (0, false),
            State::Dead { since } => {
                t.steps.pop_if(|s| *s == Step::Exit);
                (since, false)
            }
            State::Running if waker.is_some() => return self.woken_before_it_slept(at, pid, waker),
            // Already woken.
            _ => return,
        };
        let first = t.state == State::Unknown && waker.is_none() && at < LAUNCHED_NS;
        t.launched = t.launched.or((first && cpu == CpuId(0)).then_some(at));
        t.early = false;
        t.slept += at.saturating_sub(since);
        t.stays_since = t.stays_since.filter(|_| t.slept <= may_doze);
        let slack = if t.prio >= 100 { slack } else { 0 };
        let exit_ns = self.sleeps.latency(cpu, (pid, at), since);
        let due = at.saturating_sub(slack + exit_ns).max(since + 1);
        if waker.is_none() && t.cpu.is_some() {
            t.irqs.insert(due, (cpu, t.cpu != Some(cpu)));
        }
        t.push(match (waker, disk) {
            (Some(by), _) => Step::Token { by, since, at },
            (None, true) => Step::Device { ns: at.saturating_sub(since + exit_ns).max(1), since },
            (None, false) => Step::Timer { until: due, since },
        });
        (t.state, t.woken, t.awake) = (State::Runnable { since: at }, true, at);
        if let Some(waker) = waker {
            let waker = self.threads.get_mut(&waker).expect("checked above");
            waker.push(Step::Post { to: pid, at });
            waker.lent.iter_mut().filter(|loan| loan.by == pid).for_each(|loan| loan.ends = true);
        }
        self.runnable(at, pid);
    }

    /// It was about to sleep: what it would have waited for has come. Under another kernel it may be later. If it sleeps all the same and
    /// nothing else wakes it, that was it: it was on its way out.
    fn woken_before_it_slept(&mut self, at: u64, pid: Pid, waker: Option<Pid>) {
        if let Some(cpu) = self.threads.get(&pid).and_then(|t| t.cpu) {
            self.account(cpu, at);
        }
        let Some(by) = waker else { return };
        for (of, step) in [(pid, Step::Token { by, since: at, at }), (by, Step::Post { to: pid, at })] {
            if let Some(t) = self.threads.get_mut(&of) {
                t.push(step);
                if of == pid {
                    (t.early, t.awake) = (true, at);
                }
            }
        }
    }

    fn fork(&mut self, at: u64, cpu: CpuId, parent: Pid, child: Pid) {
        self.account(cpu, at);
        if !self.threads.contains_key(&parent) {
            return;
        }
        let Some(t) = self.threads.get_mut(&child) else { return };
        if t.state == State::Unknown && t.steps.is_empty() {
            (t.parent, t.born, t.awake, t.state) = (Some(parent), at, at, State::Runnable { since: at });
            self.threads.get_mut(&parent).expect("checked above").push(Step::Fork(child));
        }
    }

    /// Threads that were preempted and still wait.
    fn waits_to_the_end(&mut self, end: u64) {
        let waits = |(pid, t): (&Pid, &Thread)| match (t.state, t.cpu) {
            (State::Runnable { since }, Some(cpu)) if !t.woken && !self.throttled.contains(&(*pid, end)) => {
                Some((*pid, cpu, since))
            }
            _ => None,
        };
        for (pid, cpu, since) in self.threads.iter().filter_map(waits).collect::<Vec<_>>() {
            let (idle, equal) = self.idle_beside(pid, cpu, end);
            let busy_ns = since.saturating_sub(self.busy_since[cpu.at()]);
            let Some(t) = self.threads.get_mut(&pid) else { continue };
            let urgent = t.prio < 100;
            let beside = Beside { idle: &idle, equal: &equal, met: false, urgent, busy_ns };
            t.where_it_runs.still_waits(cpu, end.saturating_sub(since), &beside);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::metrics::testbed::{self, switch, waking};
    use super::super::workload::tests::tasks;
    use super::super::workload::{Options, workload};
    use super::*;
    use wattif_model::Ns;
    use wattif_model::trace::Record;
    use wattif_model::workload::{Amount, Op, Policy};

    /// The programs' operations, of a thread that runs from 1 to 2 ms and from 3 to 4 ms.
    fn ops(state: PrevState, woken: Event) -> Vec<Op> {
        const MS: u64 = 1_000_000;
        let events = [
            (MS, waking(7)),
            (MS, switch(0, 7, PrevState::Running)),
            (2 * MS, switch(7, 0, state)),
            (3 * MS, woken),
            (3 * MS, switch(0, 7, PrevState::Running)),
            (4 * MS, switch(7, 0, PrevState::Sleeping)),
        ];
        let record = |(at, event)| Record { at: Ns(at), cpu: CpuId(0), current: None, event: Recorded::Event(event) };
        let records = events.map(record).into();
        let recording = Recording { nr_cpus: 4, end: Ns(5 * MS), records, ..Recording::default() };
        let inferred = workload(&recording, &testbed::platform(), "a", &Options::default());
        inferred.workload.tasks[0].program.ops.clone()
    }

    #[test]
    fn who_is_woken_on_the_way_out() {
        const MS: u64 = 1_000_000;
        let waking = |pid| Event::SchedWaking { pid: Pid(pid), prio: 120, target_cpu: CpuId(0), in_irq: false };
        let cycle = |i: u64| {
            let at = |us: u64| i * 4 * MS + us * 1_000;
            [
                (at(0), 1, testbed::waking(8)),
                (at(0), 1, switch(0, 8, PrevState::Running)),
                (at(100), 1, waking(7)),
                (at(102), 0, switch(7, 0, PrevState::Sleeping)),
                (at(110), 0, switch(0, 7, PrevState::Running)),
                (at(500), 1, switch(8, 0, PrevState::Sleeping)),
            ]
        };
        let record =
            |(at, cpu, event)| Record { at: Ns(at), cpu: CpuId(cpu), current: None, event: Recorded::Event(event) };
        let records = (0..20).flat_map(cycle).map(record).collect();
        let recording =
            Recording { nr_cpus: 4, end: Ns(80 * MS), records, has_irq_flags: true, ..Recording::default() };
        let inferred = workload(&recording, &testbed::platform(), "a", &Options::default());
        let ops = &inferred.workload.tasks[0].program.ops;
        assert_eq!(ops.iter().filter(|op| matches!(op, Op::Get(_))).count(), 20, "{ops:?}");
        assert!(!ops.iter().any(|op| matches!(op, Op::Timer { .. })), "{ops:?}");
    }

    /// Thread 7 comes, and its CPU is idle 39 ms later: what it does, as far as it is not for ever.
    fn after_a_loss(follows: &[(u64, Event)]) -> Vec<&'static str> {
        const MS: u64 = 1_000_000;
        let come = |pid| switch(0, pid, PrevState::Running);
        let begins =
            [(MS, testbed::waking(7)), (MS, come(7)), (40 * MS, come(8)), (41 * MS, switch(8, 0, PrevState::Sleeping))];
        let ends = [(90 * MS, testbed::waking(8))];
        let ops = tasks(0, [&begins[..], follows, &ends].concat()).swap_remove(0).program.ops;
        let word = |op: &Op| match *op {
            Op::Timer { .. } => "waits",
            Op::Run(Amount::Fixed(ns)) if ns == 2 * MS => "works for 2 ms",
            Op::Run(_) => "works",
            Op::Sleep(_) => "sleeps",
            _ => "something else",
        };
        ops.iter().map(word).collect()
    }

    #[test]
    fn who_leaves_by_a_switch_that_is_lost() {
        const MS: u64 = 1_000_000;
        let woken = [(60 * MS, testbed::waking(7))];
        let job = [(60 * MS, switch(0, 7, PrevState::Running)), (62 * MS, switch(7, 0, PrevState::Sleeping))];
        assert_eq!(after_a_loss(&[]), ["waits", "sleeps"], "it does not compute on and on");
        let twice = ["waits", "waits", "works for 2 ms", "waits", "sleeps"];
        assert_eq!(after_a_loss(&[&woken[..], &job].concat()), twice);
        assert_eq!(after_a_loss(&job), ["waits", "works for 2 ms", "sleeps"], "it may not have slept");
        let unseen = [(50 * MS, switch(7, 0, PrevState::Sleeping))];
        assert_eq!(after_a_loss(&[&unseen[..], &job].concat()), twice, "it slept");
    }

    /// Thread 7 wakes 8 on its CPU and makes room for it after so long; 8 works for 100 µs. Its work, in ns of a CPU of half the capacity.
    fn work_of_who_preempts(after_ns: u64) -> u64 {
        const US: u64 = 1_000;
        let mut platform = testbed::platform();
        (platform.costs.context_switch_ns, platform.costs.wakeup_ns) = (4 * US, 3 * US);
        let events = [
            (10 * US, testbed::waking(7)),
            (10 * US, switch(0, 7, PrevState::Running)),
            (500 * US, Event::SchedWaking { pid: Pid(8), prio: 120, target_cpu: CpuId(0), in_irq: false }),
            (500 * US + after_ns, switch(7, 8, PrevState::Running)),
            (600 * US + after_ns, switch(8, 0, PrevState::Sleeping)),
        ];
        let record = |(at, event)| Record { at: Ns(at), cpu: CpuId(2), current: None, event: Recorded::Event(event) };
        let records = events.map(record).into();
        let recording = Recording { nr_cpus: 4, end: Ns(700 * US), records, has_irq_flags: true, ..Default::default() };
        let inferred = workload(&recording, &platform, "a", &Options::default());
        let run = |op: &Op| if let Op::Run(Amount::Fixed(ns)) = *op { ns } else { 0 };
        inferred.workload.tasks[1].program.ops.iter().map(run).sum()
    }

    #[test]
    fn who_pays_for_a_wake_up() {
        // At once: the switch comes first. Later, the waker has paid or will never have to.
        assert_eq!(work_of_who_preempts(0), 2 * 93_000);
        assert_eq!([1_000, 5_000].map(work_of_who_preempts), [2 * 96_000; 2]);
    }

    /// What 7 works on CPU 2 for 8 ms, in µs of it. After 4 ms, CPU 0 wakes 8 there, which takes 7's place `after` so many µs, if at all.
    fn work_of_who_is_interrupted(after: Option<u64>) -> u64 {
        const US: u64 = 1_000;
        let mut platform = testbed::platform();
        (platform.costs.tick_ns, platform.noise.irq_jitter_ns) = (3 * US, US);
        let on = |cpu| {
            move |(at, event)| Record { at: Ns(at * US), cpu: CpuId(cpu), current: None, event: Recorded::Event(event) }
        };
        let wakeup = Event::SchedWakeup { pid: Pid(8), prio: 120, target_cpu: CpuId(2), in_irq: true };
        let mut records = Vec::from([(10, testbed::waking(7)), (10, switch(0, 7, PrevState::Running))].map(on(2)));
        records.push(on(0)((4_000, testbed::waking(8))));
        records.push(on(2)((4_010, wakeup)));
        let back = |after| [(4_010 + after, switch(7, 8, PrevState::Running)), (5_010, switch(8, 7, PrevState::Dead))];
        records.extend(after.map(back).into_iter().flatten().map(on(2)));
        records.push(on(2)((8_010, switch(7, 0, PrevState::Dead))));
        let recording =
            Recording { nr_cpus: 4, end: Ns(9_000 * US), records, has_irq_flags: true, ..Default::default() };
        Reader::read(&recording, &platform).threads[&Pid(7)]
            .steps
            .iter()
            .map(|s| if let Step::Work(w) = s { w / 1024 / US } else { 0 })
            .sum()
    }

    #[test]
    fn what_interrupts_take_is_no_work() {
        // A tick of 4 µs in 4 ms; one from the other CPU.
        assert_eq!(work_of_who_is_interrupted(None), 8_000 - 8 - 1);
        // It went as soon as the interrupt was over, or worked on.
        assert_eq!(work_of_who_is_interrupted(Some(5)), 7_000 - 7);
        assert_eq!(work_of_who_is_interrupted(Some(20)), 7_020 - 8 - 1);
    }

    #[test]
    fn who_is_woken_again_was_not_dead() {
        let parked = ops(PrevState::Dead, waking(7));
        assert!(!parked.contains(&Op::Exit), "{parked:?}");
        assert_eq!(parked, ops(PrevState::Sleeping, waking(7)));
    }

    #[test]
    fn who_stays_on_a_small_cpu() {
        const MS: u64 = 1_000_000;
        let computes = |cpu| {
            let events = [
                (MS, testbed::waking(7)),
                (MS, switch(0, 7, PrevState::Running)),
                (401 * MS, switch(7, 0, PrevState::Sleeping)),
            ];
            tasks(cpu, events.into())[0].cpus.clone()
        };
        assert_eq!(computes(0), Some(CpuSet::first(2)));
        assert_eq!(computes(2), None, "none is larger");
    }

    #[test]
    fn who_hardly_sleeps_on_small_cpus() {
        const MS: u64 = 1_000_000;
        let naps = |release: &str, us: u64| {
            let cycle = |i: u64| {
                let (at, cpu) = (20 * i * MS, (i % 2) as u32);
                [
                    (at, cpu, testbed::waking(7)),
                    (at, cpu, switch(0, 7, PrevState::Running)),
                    (at + 20 * MS - us * 1_000, cpu, switch(7, 0, PrevState::Sleeping)),
                ]
            };
            let record =
                |(at, cpu, event)| Record { at: Ns(at), cpu: CpuId(cpu), current: None, event: Recorded::Event(event) };
            let records: Vec<Record> = (1..=25).flat_map(cycle).map(record).collect();
            let release = Some(release.into());
            let recording = Recording { nr_cpus: 4, end: Ns(530 * MS), records, release, ..Recording::default() };
            workload(&recording, &testbed::platform(), "a", &Options::default()).workload.tasks[0].cpus.clone()
        };
        assert_eq!(naps("6.12", 1_500), Some(CpuSet::first(2)));
        assert_eq!(naps("6.12", 2_600), None, "it might fit");
        assert_eq!(naps("4.20", 1_500), None, "nobody looked");
    }

    /// A real-time thread waits for a lock of a new fair one, which has its priority until it releases it.
    #[test]
    fn a_priority_that_is_lent_is_not_the_first() {
        const MS: u64 = 1_000_000;
        let to = |prev: (u32, u8), next: (u32, u8), prev_state| {
            let (prev_pid, next_pid) = (Pid(prev.0), Pid(next.0));
            Event::SchedSwitch { prev_pid, prev_prio: prev.1, prev_state, next_pid, next_prio: next.1 }
        };
        let woken = |pid, prio, in_irq| Event::SchedWaking { pid: Pid(pid), prio, target_cpu: CpuId(0), in_irq };
        let (idle, fair, lent, urgent) = ((0, 120), (7, 120), (7, 69), (8, 69));
        let cycle = |i: u64| {
            let at = |us: u64| 10 * i * MS + us * 1_000;
            [
                (at(0), woken(7, 120, true)),
                (at(0), to(idle, fair, PrevState::Running)),
                (at(500), woken(8, 69, true)),
                (at(500), to(fair, urgent, PrevState::Running)),
                (at(600), to(urgent, lent, PrevState::Sleeping)),
                (at(900), woken(8, 69, false)),
                (at(900), to(fair, urgent, PrevState::Running)),
                (at(1_100), to(urgent, fair, PrevState::Sleeping)),
                (at(1_500), to(fair, idle, PrevState::Sleeping)),
            ]
        };
        let new = Event::SchedWakeupNew { pid: Pid(7), prio: 120, target_cpu: CpuId(0) };
        let task = tasks(0, [(5 * MS, new)].into_iter().chain((1..20).flat_map(cycle)).collect()).swap_remove(0);
        let sets = task.program.ops.iter().filter(|op| matches!(op, Op::SetAttr { .. })).count();
        assert_eq!((task.attr.policy, sets), (Policy::Normal, 38), "no lock is found: as recorded");
        let nice = 110;
        let begins = [
            (MS, Event::SchedWakeupNew { pid: Pid(7), prio: 120, target_cpu: CpuId(0) }),
            (2 * MS, to(idle, fair, PrevState::Running)),
            (3 * MS, to(fair, (8, nice), PrevState::Running)),
            (4 * MS, to((8, nice), (7, nice), PrevState::Sleeping)),
            (5 * MS, to((7, nice), idle, PrevState::Sleeping)),
        ];
        let task = tasks(0, begins.into()).swap_remove(0);
        assert_eq!(task.attr.nice, -10, "a fair thread lends none: it began with that");
    }

    #[test]
    fn who_hardly_works_on_a_large_cpu() {
        const MS: u64 = 1_000_000;
        let wakes = |cpu: u32, release: &str, work_us: u64| {
            let cycle = |i: u64| {
                let (at, work) = (i * MS, work_us * 1_000);
                [
                    (at, testbed::waking(7)),
                    (at + 2_000, switch(0, 7, PrevState::Running)),
                    (at + 2_000 + work, switch(7, 0, PrevState::Sleeping)),
                ]
            };
            let record =
                |(at, event)| Record { at: Ns(at), cpu: CpuId(cpu), current: None, event: Recorded::Event(event) };
            let records: Vec<Record> = (1..=250).flat_map(cycle).map(record).collect();
            let release = Some(release.into());
            let recording = Recording { nr_cpus: 4, end: Ns(252 * MS), records, release, ..Recording::default() };
            let mut platform = testbed::platform();
            for d in &mut platform.domains {
                d.power.busy_uw = vec![1; d.opps.len()];
            }
            workload(&recording, &platform, "a", &Options::default()).workload.tasks[0].cpus.clone()
        };
        assert_eq!(wakes(2, "6.12", 10), Some(CpuSet::one(CpuId(2))));
        assert_eq!(wakes(2, "4.14.117-perf+", 10), Some(CpuSet::one(CpuId(2))), "Android's do so before mainline");
        assert_eq!(wakes(2, "4.20.0", 10), None, "before mainline did, it may stay where it was");
        assert_eq!(wakes(2, "6.12", 1), None, "whoever has no utilisation may, too");
        assert_eq!(wakes(0, "6.12", 10), None, "none is smaller");
    }

    /// However much it does before its first wait, what a thread sets then is found at once: quadratic, this takes minutes.
    #[test]
    fn who_never_waits_and_always_sets_its_priority() {
        const N: u64 = 100_000;
        let to = |prev, prio, next| Event::SchedSwitch {
            prev_pid: Pid(prev),
            prev_prio: prio,
            prev_state: PrevState::Running,
            next_pid: Pid(next),
            next_prio: 120,
        };
        let new = Event::SchedWakeupNew { pid: Pid(7), prio: 120, target_cpu: CpuId(0) };
        let mut events = vec![(1, new), (2, to(0, 120, 7))];
        events.extend((0..N).map(|i| (10 + i, Event::Touch { pid: Pid(7) })));
        for i in 0..N {
            let at = 10 + N + 20 * i;
            events.extend([(at, to(7, 119 + 2 * (i % 2) as u8, 8)), (at + 10, to(8, 120, 7))]);
        }
        let tasks = tasks(0, events);
        let ops = &tasks.iter().find(|t| t.program.ops.contains(&Op::Touch)).unwrap().program.ops;
        assert!(
            !ops.iter().any(|op| matches!(op, Op::SetAttr { .. })),
            "all of it is what it began with: {:?}",
            &ops[..4]
        );
    }

    #[test]
    fn touches_come_back() {
        const MS: u64 = 1_000_000;
        let events = [
            (MS, testbed::waking(7)),
            (MS, switch(0, 7, PrevState::Running)),
            (2 * MS, Event::Touch { pid: Pid(7) }),
            (3 * MS, switch(7, 0, PrevState::Sleeping)),
        ];
        let ops = &tasks(0, events.into())[0].program.ops;
        assert!(matches!(ops[..], [Op::Timer { .. }, Op::Run(_), Op::Touch, Op::Run(_), ..]), "{ops:?}");
    }

    #[test]
    fn whom_a_real_time_thread_preempts() {
        const MS: u64 = 1_000_000;
        let to = |prev, next, prev_state, next_prio| {
            let (prev_pid, next_pid) = (Pid(prev), Pid(next));
            Event::SchedSwitch { prev_pid, prev_prio: 120, prev_state, next_pid, next_prio }
        };
        let mut events = vec![(MS, testbed::waking(7)), (MS, switch(0, 7, PrevState::Running))];
        for at in (1..40).map(|i| 10 * i * MS) {
            let waking = Event::SchedWaking { pid: Pid(8), prio: 89, target_cpu: CpuId(2), in_irq: true };
            events.extend([(at, waking), (at, to(7, 8, PrevState::Running, 89))]);
            events.push((at + 4 * MS, to(8, 7, PrevState::Sleeping, 120)));
        }
        assert_eq!(tasks(2, events)[0].cpus, None, "alone of the fair threads, it is let stay");
    }

    /// It comes back every 10 ms for 4, beside idle CPUs, and another one has the CPU in between, or nobody.
    #[test]
    fn whom_a_limit_keeps_from_running() {
        const MS: u64 = 1_000_000;
        let cpus = |other: u32| {
            let mut events = vec![(MS, testbed::waking(7)), (MS, switch(0, 7, PrevState::Running))];
            for at in (1..40).map(|i| 10 * i * MS) {
                events.push((at - 6 * MS, switch(7, other, PrevState::Running)));
                events.push((at, switch(other, 7, PrevState::Sleeping)));
            }
            tasks(2, events)[0].cpus.clone()
        };
        assert_eq!(cpus(8), Some(CpuSet::from_iter([CpuId(2)])));
        assert_eq!(cpus(0), None, "it is throttled");
    }
}
