//! The programs of the threads of a recording: what each did, in the language of workloads.

use super::affinity::Seen;
use super::channels::{Buffer, Channels};
use super::grids::keep_time;
use super::periods::{FAR, MIN_SLEEPS, missed};
use super::placement::Machine;
use super::requests;
use super::servers;
use super::steps::{self, Queue, Rest, Step};
use super::told::Found;
use super::workload::{AT_FIRST_NS, Inference, Inferred, Options, Progress, State, Thread, allowed};
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::platform::Platform;
use wattif_model::trace::{Asked, DlParams, Recording};
use wattif_model::units::CAPACITY_SCALE;
use wattif_model::workload::*;
use wattif_model::{CpuSet, Ns, Pid};

/// A CPU that is busy for so much of a trace has no room left, percent.
const BUSY_PCT: u64 = 80;
/// Between two looks at the clock.
const SPIN_CHUNK_NS: u64 = 1_000;
/// So many relative sleeps make one more that is of another length relative, too.
const SLEEPS_OF: usize = 20;
/// After the death of its last thread a recording of a program goes on for less than one of so many parts of its length.
const TAIL_OF: u64 = 20;
/// Work and sleeps without an end.
const FOREVER_NS: u64 = 1_000_000_000_000_000;

/// The calibration CPU's full speed, units per ns.
pub(super) fn full_speed(platform: &Platform) -> u64 {
    u64::from(platform.cpus[platform.calibration_cpu.at()].capacity.max(1))
}

/// A workload of what was seen.
pub(super) fn programs(inference: Inference<'_>, recording: &Recording, name: &str, options: &Options) -> Inferred {
    let since_5 = inference.since_5();
    let Inference { platform, mut threads, busy_ns, worked, give_way, .. } = inference;
    let end = recording.end.0.max(1);
    // Mainline's placement compares energies; Android's before took CPUs that were busy before idle ones.
    let util: Vec<u64> = if since_5 { worked.iter().map(|w| w / end).collect() } else { Vec::new() };
    let machine = Machine::of(platform, |cpu| 100 * busy_ns[cpu.at()] / end >= BUSY_PCT, &util);
    let index: BTreeMap<Pid, u32> = threads.keys().zip(0..).map(|(pid, i)| (*pid, i)).collect();
    let task_of = super::play::tasks(recording);
    let kinds = servers::kinds(&threads, &task_of);
    let barriers = super::barriers::meet(&mut threads);
    let mutexes = super::mutexes::exclude(&mut threads, || super::channels::ran(recording, platform));
    let locks = servers::contended(&mut threads, &kinds);
    let channels = super::channels::messages(&mut threads, &kinds, recording, platform);
    let families = super::pools::families(recording, &threads);
    let steal = super::steals::steal(&mut threads, |pid| &families[&pid]);
    let reunited = super::forks::reunite(&mut threads);
    let stages = servers::apart(&threads, &kinds, &task_of);
    let joined = super::joins::join(&mut threads, &stages);
    let shared = super::shared::share(&mut threads, |pid| &families[&pid], &steal);
    let clients = shared.clients + servers::serve(&mut threads, &kinds, &steal, options.counted);
    let mut pools = super::pools::pools(&mut threads, |pid| &families[&pid], &steal);
    let asked = requests::ask(&mut threads, &mut pools, &steal);
    let sleep_alike = sleep_alike(&threads, &kinds);
    let uncertain_ns = super::exits::longest(platform) + platform.timer_slack_ns;
    let asleep = |pid: Pid, steps: &[Step]| sleeps(steps, sleep_alike.contains(&pid), uncertain_ns);
    let mut rounds = super::rounds::rounds(&mut threads, asleep, recording.end.0);
    pools.keys().chain(&shared.servers).for_each(|pid| _ = rounds.entry(*pid).or_insert(0));
    let background = super::background(recording);
    let late = late_jobs(&threads, &task_of);
    let ours: Vec<Pid> = threads.keys().filter(|pid| !background.contains(pid)).copied().collect();
    let is_never_late = |pid: &Pid| threads[pid].beat.period > 0 && late[&task_of(*pid)] == (0, 0);
    let never_late: Vec<Pid> = ours.iter().copied().filter(is_never_late).collect();
    let mut starting_again = starting_again(&late);
    let workload: BTreeSet<String> = ours.iter().map(|pid| task_of(*pid)).collect();
    let unless_told = !ours.iter().all(|pid| is_named_by_rt_app(recording.comm(*pid)));
    let others_catch_up = others_catch_up(&late, |task| workload.contains(task), unless_told);
    if !others_catch_up {
        starting_again.extend(never_late.iter().map(|pid| task_of(*pid)));
    }
    let ticks = super::ticks::delay(recording, platform);
    let delay = ticks.unwrap_or(0);
    let programs = Programs {
        calibration: full_speed(platform),
        starting_again,
        sleep_alike,
        uncertain_ns,
        rounds,
        end: recording.end.0,
        nr_cpus: platform.nr_cpus(),
        delay,
        grid: ticks.map_or(1, |_| super::ticks::length(platform)),
        options,
        queues: queues(&threads, |pid| index[pools.get(&pid).unwrap_or(&pid)]),
        conds: joined.forgetful.iter().filter(|pid| !pools.contains_key(pid)).copied().zip(0..).collect(),
        barriers: barriers.keys().copied().zip(0..).collect(),
        mutexes: mutexes.iter().copied().zip(0..).collect(),
        spaces: channels.buffers.keys().copied().zip(0..).collect(),
        shared: pools
            .iter()
            .filter_map(|(pid, first)| Some((*pid, asked.semaphores.iter().position(|of| of == first)?)))
            .map(|(pid, nth)| (pid, (channels.buffers.len() + nth) as u32))
            .collect(),
        semaphores: {
            let first = channels.buffers.len() + asked.semaphores.len();
            shared.semaphores.iter().copied().zip(first as u32..).collect()
        },
        index,
    };
    let in_rounds = |pid: &Pid| programs.rounds.contains_key(pid);
    let whole = ends_with(&threads, &ours, recording.end.0) && !ours.iter().any(in_rounds);
    let mut w = Workload {
        name: name.into(),
        duration: (!whole).then(|| Ns(recording.end.0.saturating_add(delay))),
        queues: names(&programs.queues, recording, &channels),
        groups: groups(recording),
        ..objects(recording, &programs, &barriers, &channels, &asked)
    };
    let last_group = w.groups.len() as u32 - 1;
    let seen = threads.iter().map(|(pid, t)| Seen {
        pid: *pid,
        evidence: &t.where_it_runs,
        comm: recording.comm(*pid),
        kind: &kinds[channels.sides.get(pid).unwrap_or(pid)],
        family: (&families[pid].0, families[pid].1),
    });
    let bound = super::affinity::bound(&seen.collect::<Vec<_>>(), &machine);
    let (mut timers, mut tokens, mut pinned) = (0u64, 0u64, 0);
    for (pid, t) in &threads {
        let by_thread = |s: &&Step| {
            matches!(s, Step::Token { .. } | Step::Get(_) | Step::Take(_) | Step::Barrier(_) | Step::Lock(_))
        };
        let waits = t.steps.iter().filter(|s| s.waits()).count() as u64;
        let taken = t.steps.iter().filter(by_thread).count() as u64;
        timers += waits - taken;
        tokens += taken;
        let comm = recording.comm(*pid).to_string();
        let task = task_of(*pid);
        // Who sets its affinity again and again is bound each time.
        let roams = !t.binds.is_empty();
        let mut cpus = bound.get(pid).cloned().filter(|_| !roams);
        let mut bind = cpus.as_ref().and_then(|cpus| Some((t.bound_after(cpus)?, cpus.clone())));
        let at_first = allowed(recording, *pid, programs.nr_cpus);
        match (&at_first, t.left) {
            // Since then it has others: those it is bound to, or all.
            (Some(_), Some(left)) => {
                let now = cpus.filter(|cpus| t.bound_after(cpus).is_none_or(|since| since <= left));
                let now = now.unwrap_or_else(|| CpuSet::first(programs.nr_cpus));
                bind = Some((left, now.clone()));
                cpus = Some(now);
            }
            (Some(told), None) => cpus = cpus.map(|cpus| cpus.and(told)).filter(|cpus| !cpus.is_empty()),
            (None, _) => {}
        }
        // Who goes round has those that it has in the end.
        if bind.is_some() && !programs.rounds.contains_key(pid) {
            cpus = None;
        }
        cpus = cpus.or(at_first);
        let told = recording.threads.get(&pid.0).and_then(|t| t.policy);
        let policy = told.or(seen_policy(*pid, t, &give_way));
        let told = Told { policy, asked: recording.threads.get(&pid.0).map(|t| t.asked).unwrap_or_default() };
        let asked = options.policies.iter().any(|(name, _)| is_named(&comm, name));
        let attr = attributes(t.first_prio, &comm, told, options);
        let attr = if asked { attr } else { of_deadline(recording, *pid, attr) };
        if attr.policy == Policy::Deadline {
            (cpus, bind) = (None, None); // the kernel admits it on all CPUs alone
        }
        pinned += usize::from(roams || cpus.is_some() || bind.is_some());
        let ops = programs.ops(t, *pid, told, &comm, &task, bind);
        // Of threads that are bound to a CPU each it is no timer of theirs: they were launched then.
        let launched = t.launched.filter(|_| cpus.as_ref().is_some_and(|cpus| cpus.len() == 1));
        let is_old = t.birth().is_none();
        // Who was in a wait is in it from the start.
        let waits = is_old && t.steps.first().is_some_and(Step::waits);
        let start = match launched {
            Some(at) => Ns(at.saturating_add(delay)),
            None if waits || t.parent.is_some() => Ns::ZERO,
            None => Ns(t.born.saturating_add(delay)),
        };
        w.tasks.push(TaskSpec {
            instances: u32::from(t.parent.is_none()),
            start,
            attr,
            cpus,
            // A new one is placed by the kernel it runs under.
            prev_cpu: t.ran.first().map(|first| first.1).filter(|_| is_old),
            prev_util: if is_old { utilisation(t, recording.end.0) } else { 0 },
            background: background.contains(pid),
            group: recording.threads.get(&pid.0).map_or(0, |t| t.group).min(last_group),
            ..TaskSpec::new(task, ops)
        });
    }
    let found = Found {
        recording,
        threads: &threads,
        background: &background,
        give_way: &give_way,
        never_late: never_late.len(),
        others_catch_up,
        pools: pools.len(),
        asked: &asked,
        barriers: &barriers,
        locks,
        channels: &channels,
        reunited,
        joined: &joined,
        conds: programs.conds.len(),
        clients,
        servers: shared.servers.len(),
        waits: [timers, tokens],
        pinned,
    };
    Inferred { notes: found.told(), workload: w }
}

/// What the threads wait for and with, beside their queues.
fn objects(
    recording: &Recording,
    programs: &Programs<'_>,
    barriers: &BTreeMap<Pid, u32>,
    channels: &Channels,
    asked: &requests::Asked,
) -> Workload {
    let of = |what: &str, pid: &Pid| format!("{what}{}-{pid}", recording.comm(*pid));
    let devices = [("device", true), ("interrupt", false)];
    let space = |(pid, buffer): (&Pid, &Buffer)| SemaphoreSpec {
        sync: buffer.is_sync(),
        release: buffer.release,
        ..SemaphoreSpec::new(of("space of ", pid), buffer.holds)
    };
    let spaces = channels.buffers.iter().map(space);
    let asks = asked.semaphores.iter().map(|pid| SemaphoreSpec::new(of("asks ", pid), 0));
    let of_queue = |queue: &Queue| match queue {
        Queue::Replies(pid, _) => SemaphoreSpec::new(of("answers of ", pid), 0),
        Queue::Wakes(pid) | Queue::Requests(pid, _) | Queue::Batch(pid, _) => SemaphoreSpec::new(of("asks ", pid), 0),
    };
    Workload {
        timers: vec![TimerSpec { name: "recorded".into(), shared: false }],
        devices: devices.map(|(name, iowait)| DeviceSpec { name: name.into(), servers: u32::MAX, iowait }).into(),
        conds: programs.conds.keys().map(|pid| Named { name: of("", pid) }).collect(),
        barriers: barriers
            .iter()
            .map(|(pid, parties)| BarrierSpec { name: of("barrier ", pid), parties: *parties })
            .collect(),
        mutexes: programs.mutexes.keys().map(|pid| Named { name: of("lock ", pid) }).collect(),
        semaphores: spaces.chain(asks).chain(programs.semaphores.keys().map(of_queue)).collect(),
        ..Workload::default()
    }
}

/// Does the recording end because its threads do: none of them lives on, and the last one died shortly before? Then it is one of a
/// whole program, which takes longer where it is slower.
fn ends_with(threads: &BTreeMap<Pid, Thread>, ours: &[Pid], end: u64) -> bool {
    let died = |pid: &Pid| match threads[pid].state {
        State::Dead { since } => Some(since),
        _ => None,
    };
    let last = ours.iter().map(died).try_fold(0, |last, at| Some(last.max(at?)));
    last.is_some_and(|last| (end - last.min(end)) * TAIL_OF < end)
}

/// Is `name` this thread's, or that of its task, whose threads are numbered?
pub fn is_named(comm: &str, name: &str) -> bool {
    comm.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// May a thread of this priority have the policy?
pub fn has_policy(prio: u8, policy: Policy) -> bool {
    policy.is_rt() == (prio < 100)
}

/// The policy that a thread's turns tell of.
fn seen_policy(pid: Pid, t: &Thread, give_way: &BTreeSet<Pid>) -> Option<&'static str> {
    let policy = if t.takes_turns { Some(Policy::Rr) } else { give_way.contains(&pid).then_some(Policy::Idle) };
    policy.map(Policy::name)
}

/// What is known of a thread's attributes beside its priority.
#[derive(Clone, Copy)]
struct Told {
    policy: Option<&'static str>,
    /// At its start.
    asked: Asked,
}

/// nice and policy from the kernel's priority; slice and clamps as the file tells them.
fn attributes(prio: u8, comm: &str, told: Told, options: &Options) -> SchedAttr {
    let Asked { slice, util_min, util_max } = told.asked;
    let mut attr = SchedAttr { util_min, util_max, ..SchedAttr::default() };
    if prio < 100 {
        (attr.policy, attr.rt_priority) = (Policy::Fifo, (99 - prio).max(1));
    } else {
        attr.nice = (i16::from(prio) - 120).clamp(-20, 19) as i8;
    }
    let told = told.policy.and_then(Policy::by_name).filter(|p| *p != Policy::Deadline);
    let asked = options.policies.iter().find(|(name, _)| is_named(comm, name)).map(|p| p.1);
    if let Some(policy) = asked.or(told).filter(|p| has_policy(prio, *p)) {
        attr.policy = policy;
    }
    if attr.policy.is_fair() {
        attr.runtime = slice;
    }
    attr
}

/// Budget, deadline and period of a thread of SCHED_DEADLINE, where the file tells them and nobody asked for another policy.
fn of_deadline(recording: &Recording, pid: Pid, attr: SchedAttr) -> SchedAttr {
    let told = recording.threads.get(&pid.0).and_then(|t| t.dl);
    match told.filter(|_| attr.policy == Policy::Fifo && attr.rt_priority == 99) {
        Some(dl) => {
            let DlParams { runtime, deadline, period } = dl;
            SchedAttr { policy: Policy::Deadline, rt_priority: 0, runtime, deadline, period, ..attr }
        }
        None => attr,
    }
}

/// As the file tells them, or the root alone.
fn groups(recording: &Recording) -> Vec<GroupSpec> {
    match recording.groups.as_slice() {
        [] => vec![GroupSpec::root()],
        told => told.to_vec(),
    }
}

/// The steps that are relative sleeps: all timers of a thread, as others of its kind tell or it does itself, or those of a phase of it. Not
/// where most keep time to `uncertain_ns`.
fn sleeps(steps: &[Step], alike: bool, uncertain_ns: u64) -> Vec<bool> {
    let timer = |s: &Step| matches!(s, Step::Timer { since: 1.., .. });
    let (_, on_grid) = keep_time(steps, uncertain_ns, |_| false);
    let keep_time = |of: &[usize]| 2 * of.iter().filter(|i| on_grid[**i]).count() > of.len();
    let timers: Vec<usize> = (0..steps.len()).filter(|i| timer(&steps[*i])).collect();
    if alike || !keep_time(&timers) && sleeps_relatively(steps) {
        return steps.iter().map(timer).collect();
    }
    let mut asleep = vec![false; steps.len()];
    let waits: Vec<usize> = (0..steps.len()).filter(|i| steps[*i].waits()).collect();
    let length = |s: &Step| s.woken_at().zip(s.blocked_since()).map_or(0, |(until, since)| until.saturating_sub(since));
    let alike = |a: &usize, b: &usize| {
        let lengths = [a, b].map(|i| length(&steps[*i]) as f64);
        [a, b].iter().all(|i| timer(&steps[**i])) && (lengths[0] - lengths[1]).abs() <= FAR * lengths[0]
    };
    for phase in waits.chunk_by(alike).filter(|phase| phase.len() >= MIN_SLEEPS) {
        let woken: Vec<u64> = phase.iter().filter_map(|i| steps[*i].woken_at()).collect();
        let intervals: Vec<f64> = woken.windows(2).map(|w| w[1].saturating_sub(w[0]) as f64).collect();
        if !keep_time(phase) && spread(&intervals) > FAR && sleeps_relatively(&steps[phase[0]..=phase[phase.len() - 1]])
        {
            phase.iter().for_each(|i| asleep[*i] = true);
        }
    }
    // Of a program that sleeps relatively, a few that are longer than the others are no timers.
    let few = asleep.iter().filter(|asleep| **asleep).count() / SLEEPS_OF;
    if few > 0 && steps.iter().zip(&asleep).filter(|(s, asleep)| timer(s) && !**asleep).count() <= few {
        asleep = steps.iter().map(timer).collect();
    }
    asleep
}

/// Sleeps of equal length, or of a few lengths, between wake-ups at unequal distances: relative sleeps.
fn sleeps_relatively(steps: &[Step]) -> bool {
    let (lengths, intervals) = timers(steps, None);
    are_relative(&lengths, &intervals)
}

/// Threads of one kind that sleep too seldom to tell anything alone: together they sleep relatively. The timer of one that sleeps once
/// would count from its birth.
fn sleep_alike(threads: &BTreeMap<Pid, Thread>, kinds: &BTreeMap<Pid, String>) -> BTreeSet<Pid> {
    let mut all: BTreeMap<&String, Vec<Pid>> = BTreeMap::new();
    let seldom = |t: &Thread| timers(&t.steps, None).0.len() < MIN_SLEEPS;
    threads.iter().filter(|(_, t)| seldom(t)).for_each(|(pid, _)| all.entry(&kinds[pid]).or_default().push(*pid));
    let together = |pids: &Vec<Pid>| {
        let of = |pid: &Pid| timers(&threads[pid].steps, threads[pid].birth());
        let (lengths, intervals): (Vec<_>, Vec<_>) = pids.iter().map(of).unzip();
        are_relative(&lengths.concat(), &intervals.concat())
    };
    all.into_values().filter(together).flatten().collect()
}

/// How long it slept for each of its timers, and from each expiry to the next, or from its birth to the only one, ns.
fn timers(steps: &[Step], born: Option<u64>) -> (Vec<f64>, Vec<f64>) {
    let sleeps = steps.iter().filter_map(|s| match s {
        Step::Timer { until, since } if *since > 0 => Some(((until - since) as f64, *until as f64)),
        _ => None,
    });
    let (lengths, mut expiries): (Vec<f64>, Vec<f64>) = sleeps.unzip();
    if let ([_], Some(born)) = (&expiries[..], born) {
        expiries.insert(0, born as f64);
    }
    (lengths, expiries.windows(2).map(|w| w[1] - w[0]).collect())
}

fn are_relative(lengths: &[f64], intervals: &[f64]) -> bool {
    if lengths.len() < MIN_SLEEPS {
        return false;
    }
    if spread(lengths) < 0.02 && spread(lengths) * 2.0 < spread(intervals) {
        return true;
    }
    // Some may have ended while their CPU took long to wake up. That moves both distances to the wake-up, but one length only: intervals that
    // are so little farther apart may be those of a timer.
    let off = missed(lengths.to_vec());
    off < FAR && off * 4.0 < missed(intervals.to_vec())
}

/// Standard deviation as part of the mean.
fn spread(v: &[f64]) -> f64 {
    let mean = v.iter().sum::<f64>() / v.len() as f64;
    (v.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / v.len() as f64).sqrt() / mean.max(1.0)
}

/// What all threads of a recording need to become programs.
struct Programs<'a> {
    /// Of its task.
    index: BTreeMap<Pid, u32>,
    /// Threads of a pool have one queue of wake-ups.
    queues: BTreeMap<Queue, u32>,
    barriers: BTreeMap<Pid, u32>,
    mutexes: BTreeMap<Pid, u32>,
    /// Conditions, by who waits for them: nobody keeps their wake-ups.
    conds: BTreeMap<Pid, u32>,
    /// Semaphores, by whose buffer's space they count.
    spaces: BTreeMap<Pid, u32>,
    /// Semaphores that threads of a pool take their requests from.
    shared: BTreeMap<Pid, u32>,
    /// Queues of servers that are semaphores.
    semaphores: BTreeMap<Queue, u32>,
    sleep_alike: BTreeSet<Pid>,
    /// By how much the expiry of a timer may seem late.
    uncertain_ns: u64,
    calibration: u64,
    /// Names of tasks whose late threads start again from now.
    starting_again: BTreeSet<String>,
    /// From which of its steps on each thread goes round that may get farther than it did (`rounds.rs`). Threads of a pool always do: they may
    /// get more requests than they got.
    rounds: BTreeMap<Pid, usize>,
    /// Of the trace.
    end: u64,
    /// Of the machine.
    nr_cpus: usize,
    /// Everything happens later by so much (`ticks.rs`).
    delay: u64,
    /// At what distance times are alike, ns: a tick, where ticks were seen.
    grid: u64,
    options: &'a Options,
}

impl Programs<'_> {
    /// `bind`: when it has come so far it binds itself to these CPUs.
    fn ops(
        &self,
        t: &Thread,
        pid: Pid,
        told: Told,
        comm: &str,
        task: &str,
        bind: Option<(Progress, CpuSet)>,
    ) -> Vec<Op> {
        let round = self.rounds.get(&pid).copied();
        let mut bind = bind.filter(|_| round.is_none());
        let mut done = 0;
        let asleep = sleeps(&t.steps, self.sleep_alike.contains(&pid), self.uncertain_ns);
        let absolute = !self.starting_again.contains(task);
        // A forked thread's timers count from its birth, the others' from the common start. Its birth moves with what its parent does;
        // where that is against the tick does not.
        let born = t.born.saturating_add(self.delay);
        let counts = |(s, asleep): (&Step, &bool)| match s {
            Step::Timer { .. } => !asleep,
            s => matches!(s, Step::Passed { .. }),
        };
        let anchor = t.parent.is_some() && t.steps.iter().zip(&asleep).any(counts);
        let anchor = anchor.then_some(Op::Anchor { timer: 0, period: self.grid, offset: born % self.grid });
        let mut expiry = if anchor.is_some() { born } else { 0 };
        let mut late = false;
        let work = |units: u64| super::memory::ops(units / self.calibration, t.memory);
        let part = |units: u64| (units > 0).then(|| work(units)).into_iter().flatten();
        let mut ops = Vec::with_capacity(t.steps.len() + 4);
        ops.extend(anchor);
        let mut first = ops.len();
        // When the last of a phase's sleeps ended: a timer that comes next counts from there.
        let mut slept = None;
        for (i, (step, asleep)) in t.steps.iter().zip(&asleep).enumerate() {
            if round == Some(i) {
                first = ops.len();
            }
            let mut before = 0;
            if let Some((after, cpus)) = bind.take_if(|(after, _)| after.steps <= done) {
                if let Step::Work(units) = *step {
                    before = after.units.min(units);
                    ops.extend(part(before));
                }
                ops.push(Op::SetAffinity(Some(cpus)));
            }
            done += u32::from(!matches!(step, Step::Work(_) | Step::Spin(_) | Step::Passed { .. } | Step::Yield));
            let op = match *step {
                Step::Work(units) => {
                    ops.extend(part(units - before));
                    continue;
                }
                Step::Spin(ns) => Op::Spin { wall: Amount::Fixed(ns), chunk: SPIN_CHUNK_NS },
                Step::Timer { until, since } if *asleep => {
                    slept = Some((until, ops.len() + 1));
                    Op::Sleep(Amount::Fixed(until - since))
                }
                Step::Timer { until, .. } => {
                    let until = until.saturating_add(self.delay);
                    if let Some((woken, next)) = slept.take() {
                        ops.insert(next, Op::Timer { timer: 0, period: Amount::Fixed(1), absolute: false });
                        expiry = expiry.max(woken.saturating_add(self.delay));
                    }
                    let since_last = until.saturating_sub(expiry);
                    let period = if std::mem::take(&mut late) && !absolute { t.beat.period } else { since_last };
                    expiry = expiry.max(until);
                    Op::Timer { timer: 0, period: Amount::Fixed(period), absolute }
                }
                Step::Passed { period } => {
                    expiry += period;
                    late = true;
                    Op::Timer { timer: 0, period: Amount::Fixed(period), absolute }
                }
                Step::Device { ns, .. } => Op::Device { device: 0, service: Amount::Fixed(ns) },
                Step::Interrupt { ns, .. } => Op::Device { device: 1, service: Amount::Fixed(ns) },
                Step::Sleep { ns, .. } => Op::Sleep(Amount::Fixed(ns)),
                Step::Token { .. } => match (self.conds.get(&pid), self.shared.get(&pid)) {
                    (Some(&cond), _) => Op::Wait { cond, mutex: None },
                    (_, Some(&semaphore)) => Op::SemWait(semaphore),
                    _ => Op::Get(self.queues[&Queue::Wakes(pid)]),
                },
                Step::Post { to, .. } => match (self.conds.get(&to), self.shared.get(&to)) {
                    (Some(&cond), _) => Op::Broadcast(cond),
                    (_, Some(&semaphore)) => Op::SemPost(semaphore),
                    _ => Op::Put { queue: self.queues[&Queue::Wakes(to)], forward: false },
                },
                Step::Get(queue) if self.semaphores.contains_key(&queue) => Op::SemWait(self.semaphores[&queue]),
                Step::Put(queue) if self.semaphores.contains_key(&queue) => Op::SemPost(self.semaphores[&queue]),
                Step::Get(queue) => Op::Get(self.queues[&queue]),
                Step::Put(queue) => Op::Put { queue: self.queues[&queue], forward: false },
                Step::Drain { from, to } => {
                    Op::Drain { from: self.queues[&from], to: self.queues[&to], forward: false }
                }
                Step::Barrier(of) => Op::Barrier(self.barriers[&of]),
                Step::Take(of) => Op::SemWait(self.spaces[&of]),
                Step::Free(of) => Op::SemPost(self.spaces[&of]),
                Step::Lock(of) => Op::Lock(self.mutexes[&of]),
                Step::Unlock(of) => Op::Unlock(self.mutexes[&of]),
                Step::Fork(child) => Op::Fork(self.index[&child]),
                Step::Yield => Op::Yield,
                Step::Touch => Op::Touch,
                Step::Bind(nth) => Op::SetAffinity(Some(t.binds.cpus(nth, self.nr_cpus))),
                Step::Attr(prio) | Step::Lent { prio, .. } => Op::SetAttr(attributes(prio, comm, told, self.options)),
                Step::Exit => Op::Exit,
            };
            ops.push(op);
        }
        if round.is_some() {
            ops.extend(self.last_wait(t));
            ops.insert(first, Op::Loop { count: None, end: ops.len() as u32 + 1 });
            ops.push(Op::LoopEnd { begin: first as u32 });
            return ops;
        }
        if !matches!(t.state, State::Dead { .. }) {
            self.beyond(t, absolute, expiry, slept.is_some(), &mut ops);
        }
        ops
    }

    /// How a thread that lives on goes on after its last step; its last timer counts from `expiry`.
    fn beyond(&self, t: &Thread, absolute: bool, expiry: u64, slept: bool, ops: &mut Vec<Op>) {
        let work = |units: u64| super::memory::ops(units / self.calibration, t.memory);
        let awake = matches!(t.state, State::Running | State::Runnable { .. });
        if awake {
            match steps::rest(&t.steps, self.end - t.awake.min(self.end), self.end) {
                Rest::Units(units) => ops.extend(work(units)),
                Rest::Endless => ops.push(Op::Run(Amount::Fixed(FOREVER_NS))),
            }
        }
        // It lives on beyond the end of the trace: who is late then gets farther under a kernel that makes it less late, and so does anyone
        // whose late jobs move all later ones.
        if (!absolute || awake) && t.beats_on(self.end) {
            let begin = ops.len();
            let timer = Op::Timer { timer: 0, period: Amount::Fixed(t.beat.period), absolute };
            ops.extend([Op::Loop { count: None, end: 0 }, timer]);
            ops.extend(work(t.beat.work));
            ops[begin] = Op::Loop { count: None, end: ops.len() as u32 };
            ops.push(Op::LoopEnd { begin: begin as u32 });
        } else if let Some(usual) = steps::usual_interval(&t.steps) {
            // Governors look at the timer that comes next, also while the last one of the trace is over.
            ops.push(match absolute && !slept {
                true => {
                    let period =
                        Amount::Fixed((self.end.saturating_add(self.delay + usual / 2)).saturating_sub(expiry));
                    Op::Timer { timer: 0, period, absolute }
                }
                false => Op::Sleep(Amount::Fixed(usual)),
            });
        }
        ops.push(Op::Sleep(Amount::Fixed(FOREVER_NS)));
    }

    /// The wait that the end of the trace cuts off, of a thread that only waits for times of given length: as long as they are in the middle.
    fn last_wait(&self, t: &Thread) -> Option<Op> {
        let State::Sleeping { since, .. } = t.state else { return None };
        let timed = |s: &&Step| !matches!(s, Step::Token { .. }) && s.woken_at().is_some();
        let waits: Vec<&Step> = t.steps.iter().filter(|s| s.waits()).collect();
        let length = |s: &&Step| s.woken_at().zip(s.blocked_since()).map(|(until, since)| until.saturating_sub(since));
        let mut lengths: Vec<u64> = waits.iter().filter_map(length).collect();
        let usual = steps::median(&mut lengths).filter(|_| waits.iter().all(timed))?;
        let ns = Amount::Fixed(usual.max(self.end.saturating_sub(since)));
        Some(match waits.last()? {
            Step::Device { .. } => Op::Device { device: 0, service: ns },
            Step::Interrupt { .. } => Op::Device { device: 1, service: ns },
            _ => Op::Sleep(ns),
        })
    }
}

/// Numbers of queues: first one a thread, for its wake-ups, then those of servers.
fn queues(threads: &BTreeMap<Pid, Thread>, wakes: impl Fn(Pid) -> u32) -> BTreeMap<Queue, u32> {
    let mut all: BTreeMap<Queue, u32> = threads.keys().map(|pid| (Queue::Wakes(*pid), wakes(*pid))).collect();
    let servers: BTreeSet<(Pid, Pid)> = threads.values().flat_map(|t| &t.steps).filter_map(asked).collect();
    let kinds = [Queue::Requests, Queue::Batch, Queue::Replies];
    let of_servers =
        kinds.into_iter().flat_map(|kind| servers.iter().map(move |(server, first)| kind(*server, *first)));
    all.extend(of_servers.zip(threads.len() as u32..));
    all
}

fn asked(step: &Step) -> Option<(Pid, Pid)> {
    if let Step::Put(Queue::Requests(server, first)) = step { Some((*server, *first)) } else { None }
}

/// What a thread that was there before had been using, 0..=1024: as much as at first, but no more than on the whole. Who begins small
/// and grows was small; a rare long job that happens to be the first says nothing of before.
fn utilisation(t: &Thread, ns: u64) -> u16 {
    let work = |s: &Step| match s {
        Step::Work(units) => *units,
        Step::Spin(ns) => ns.saturating_mul(CAPACITY_SCALE),
        _ => 0,
    };
    let all = t.steps.iter().map(work).fold(0, u64::saturating_add) / ns.max(1);
    let at_first = t.at_first / ns.clamp(1, AT_FIRST_NS);
    all.min(at_first).min(CAPACITY_SCALE) as u16
}

fn names(queues: &BTreeMap<Queue, u32>, recording: &Recording, channels: &Channels) -> Vec<QueueSpec> {
    // FIDELITY(wakeup-sync): a trace does not say which wake-ups are sync, but for buffers that wake by lots.
    let of = |what: &str, pid: &Pid| QueueSpec::new(format!("{what} {}-{pid}", recording.comm(*pid)));
    // In the order of their numbers.
    let name = |queue: &Queue| match queue {
        Queue::Wakes(pid) => {
            let sync = channels.buffers.get(pid).is_some_and(|buffer| buffer.is_sync());
            QueueSpec { sync, ..of("wakes", pid) }
        }
        Queue::Requests(pid, _) => of("asks", pid),
        Queue::Batch(pid, _) => of("batch of", pid),
        Queue::Replies(pid, _) => of("answers of", pid),
    };
    queues.keys().map(name).collect()
}

impl Thread {
    /// Does its beat go on when the trace ends? A thread with a beat is never blocked for more than two periods, of which it may leave one
    /// out. If it is, it has stopped; if it mostly was, its beat is that of bursts.
    fn beats_on(&self, end: u64) -> bool {
        let too_long = |ns: &u64| *ns > 2 * self.beat.period;
        let timer = |s: &Step| {
            if let Step::Timer { until, since } = *s { Some((until, until.saturating_sub(since))) } else { None }
        };
        let mut timers = self.steps.iter().filter_map(timer);
        // Without any, it was late all along.
        let first = timers.next().map_or(end, |first| first.0);
        let pauses: u64 = timers.map(|t| t.1).filter(too_long).sum();
        let stopped = matches!(self.state, State::Sleeping { since, .. } if too_long(&end.saturating_sub(since)));
        self.beat.work > 0 && !stopped && 2 * pauses <= end.saturating_sub(first)
    }
    /// When it was on one of these CPUs for good, if it was on others before.
    fn bound_after(&self, cpus: &CpuSet) -> Option<Progress> {
        let outside = self.ran.iter().rposition(|(_, cpu)| !cpus.contains(*cpu))?;
        self.ran.get(outside + 1).map(|(after, _)| *after)
    }
}

/// Tasks whose late threads start again from now: more often than they catch up.
fn starting_again(late: &BTreeMap<String, (u32, u32)>) -> BTreeSet<String> {
    late.iter().filter(|(_, (caught_up, again))| again > caught_up).map(|(task, _)| task.clone()).collect()
}

/// rt-app calls its threads `task-index`.
fn is_named_by_rt_app(comm: &str) -> bool {
    comm.rsplit_once('-').is_some_and(|(_, index)| index.parse::<u32>().is_ok())
}

/// Do more of the workload's tasks that were late catch up than start again? So do those that never were. Where nobody tells: rt-app's threads
/// start again unless they are told otherwise; others wait for absolute times, as who keeps a beat does.
fn others_catch_up(late: &BTreeMap<String, (u32, u32)>, is_workload: impl Fn(&str) -> bool, unless_told: bool) -> bool {
    let of = late.iter().filter(|(task, _)| is_workload(task)).map(|(_, seen)| seen);
    let (mut catch_up, mut again) = (0, 0);
    for (caught_up, started_again) in of {
        catch_up += u32::from(caught_up > started_again);
        again += u32::from(started_again > caught_up);
    }
    if catch_up == again { unless_told } else { catch_up > again }
}

/// By task, after how many late jobs its threads caught up, and started again.
fn late_jobs(threads: &BTreeMap<Pid, Thread>, task_of: impl Fn(Pid) -> String) -> BTreeMap<String, (u32, u32)> {
    let mut seen: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    for (pid, t) in threads {
        let counts = seen.entry(task_of(*pid)).or_default();
        counts.0 += t.beat.caught_up;
        counts.1 += t.beat.started_again;
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Work and sleeps by turns, in µs.
    fn asleep(pieces: impl Iterator<Item = (u64, u64)>) -> Vec<Step> {
        let mut at = MS;
        let mut turn = |(work, sleep): (u64, u64)| {
            let since = at + work * 1_000;
            at = since + sleep * 1_000;
            [Step::Work(work), Step::Timer { until: at, since }]
        };
        pieces.flat_map(&mut turn).collect()
    }

    #[test]
    fn who_was_never_late_does_as_the_others() {
        let catch_up = |seen: &[(&str, (u32, u32))]| {
            let late = seen.iter().map(|(task, seen)| (task.to_string(), *seen)).collect();
            [false, true].map(|unless_told| others_catch_up(&late, |task| task != "daemon", unless_told))
        };
        assert_eq!(catch_up(&[("a", (0, 0))]), [false, true], "nobody tells");
        assert_eq!(catch_up(&[("a", (0, 0)), ("b", (3, 1))]), [true; 2]);
        assert_eq!(catch_up(&[("a", (0, 0)), ("b", (1, 3))]), [false; 2]);
        assert_eq!(catch_up(&[("a", (0, 0)), ("b", (9, 1)), ("c", (0, 1))]), [false, true], "one each");
        assert_eq!(catch_up(&[("a", (0, 0)), ("daemon", (3, 1))]), [false, true], "a daemon is another program");
    }

    #[test]
    fn names_of_rt_app() {
        let names = ["ui-0", "a-b-12", "ui-0-0003", "per1_5", "kworker/0:1", "-x", "7"];
        assert_eq!(names.map(is_named_by_rt_app), [true, true, true, false, false, false, false]);
    }

    #[test]
    fn sleeps_of_a_few_lengths() {
        let unlike = |i: u64| 1_000 + i * 7_919 % 1_500;
        let drifts = |i| (unlike(i), if i % 30 == 7 { 10_900 } else { 8_000 });
        assert!(sleeps_relatively(&asleep((0..60).map(drifts))), "some long exits");
        let phases = |i| if i / 10 % 2 == 0 { (unlike(i), 5_000) } else { (unlike(i) / 10, 2_000) };
        assert!(sleeps_relatively(&asleep((0..60).map(phases))), "two lengths");
        assert!(!sleeps_relatively(&asleep((0..60).map(|i| (1_000, unlike(i * i))))), "any length");
    }

    /// Children that sleep three times, or once, between work of any length; and some that wait for a beat since their births.
    #[test]
    fn sleeps_of_children_together() {
        let threads = |times: u64, sleep: &dyn Fn(u64) -> u64| -> BTreeMap<Pid, Thread> {
            let child = |pid: u64| {
                let turn = |i: u64| {
                    let work = 500 + (pid * 7 + i) * 7_919 % 1_500;
                    (work, sleep(work))
                };
                let mut t = Thread::new(120);
                (t.steps, t.parent, t.born) = (asleep((0..times).map(turn)), Some(Pid(1)), MS);
                (Pid(pid as u32), t)
            };
            (2..12).map(child).collect()
        };
        let kinds: BTreeMap<Pid, String> = (2..12).map(|pid| (Pid(pid), "child".into())).collect();
        for times in [1, 3] {
            assert_eq!(sleep_alike(&threads(times, &|_| 2_500), &kinds).len(), 10, "{times}");
            assert!(sleep_alike(&threads(times, &|work| 4_000 - work), &kinds).is_empty(), "{times}");
        }
        let old = |times| {
            let mut all = threads(times, &|_| 2_500);
            all.values_mut().for_each(|t| t.parent = None);
            sleep_alike(&all, &kinds).len()
        };
        assert_eq!([1, 3].map(old), [0, 10], "of those whose birth was not seen, one sleep tells nothing");
        let mut two = threads(3, &|_| 2_500);
        two.retain(|pid, _| pid.0 < 4);
        assert!(sleep_alike(&two, &kinds).is_empty(), "six tell nothing");
    }

    #[test]
    fn phases_of_sleeps() {
        let unlike = |i: u64| 1_000 + i * 7_919 % 1_500;
        let turn = |i: u64| {
            if (i / 20).is_multiple_of(2) { (5 * unlike(i), 20_000 - 5 * unlike(i)) } else { (unlike(i), 500) }
        };
        let steps = asleep((0..80).map(turn));
        assert!(!sleeps_relatively(&steps));
        let timers = steps.iter().zip(sleeps(&steps, false, 100_000)).filter(|(s, _)| matches!(s, Step::Timer { .. }));
        let which: Vec<bool> = timers.map(|(_, asleep)| asleep).collect();
        assert_eq!(which, (0..80).map(|i| i / 20 % 2 == 1).collect::<Vec<_>>());
    }

    #[test]
    fn a_period_is_no_sleep() {
        let check = |work: &dyn Fn(u64) -> u64, why: &str| {
            let exit = |i: u64| if i % 20 == 9 { 950 } else { 0 };
            let turn = |i: u64| (work(i), 10_000 + exit(i + 1) - exit(i) - work(i));
            assert!(!sleeps_relatively(&asleep((0..80).map(turn))), "{why}");
        };
        check(&|i| if (i / 20).is_multiple_of(2) { 500 } else { 7_000 }, "two kinds of work");
        check(&|i| 500 + i % 3 + if (i / 20).is_multiple_of(2) { 0 } else { 6_500 }, "not to the microsecond");
        check(&|i| 500 + i * 7_919 % 5_000, "any work");
        check(&|_| 500, "always the same");
    }

    /// Slack that comes by turns leaves two lengths of sleeps to the microsecond, and three distances.
    #[test]
    fn a_blurred_period_is_no_sleep() {
        let late = |i: u64| i % 2 * 50;
        let turn = |i: u64| (1_500 + i % 3, 4_500 + late(i + 1) - late(i) - i % 3);
        let steps = asleep((0..200).map(turn));
        assert!(sleeps_relatively(&steps));
        assert!(!sleeps(&steps, false, 100_000).contains(&true));
    }

    #[test]
    fn who_stops_does_not_go_on() {
        let beats = |sleeps: &[u64], since: u64, end: u64| {
            let mut steps = asleep(sleeps.iter().map(|ms| (0, ms * 1_000)));
            for step in &mut steps {
                if let Step::Work(units) = step {
                    *units = MS;
                }
            }
            let beat = super::super::periods::reveal(&mut steps, None, Step::waits);
            assert_eq!(beat.work, MS);
            let state = State::Sleeping { since: since * MS, disk: false };
            let mut t = Thread::new(120);
            (t.steps, t.beat, t.state) = (steps, beat, state);
            t.beats_on(end * MS)
        };
        let regular = [9; 20];
        assert!(beats(&regular, 182, 190) && beats(&regular, 182, 199), "it may leave one out");
        assert!(!beats(&regular, 182, 900), "it has stopped");
        let bursts = [9, 9, 9, 9, 400].repeat(6);
        assert!(!beats(&bursts, 2_617, 2_620), "mostly it sleeps");
    }
}
