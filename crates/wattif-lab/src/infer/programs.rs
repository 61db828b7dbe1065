//! The programs of the threads of a recording: what each did, in the language of workloads.

use super::affinity::Seen;
use super::channels::{Buffer, Channels};
use super::devices::Devices;
use super::kin::{Families, Kinds};
use super::late_jobs::LateJobs;
use super::passes::{Passes, passes};
use super::placement::Machine;
use super::reader::{AT_FIRST_NS, Reader, allowed};
use super::relative_sleeps::{sleep_alike, sleeps};
use super::steps::{self, Queue, Rest, Step};
use super::teams::Teams;
use super::thread::{Progress, State, Thread};
use super::told::Found;
use super::workload::{Inferred, Options};
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
/// After the death of its last thread a recording of a program goes on for less than one of so many parts of its length.
const TAIL_OF: u64 = 20;
/// Devices that serve all at once, which come first.
const UNLIMITED: u32 = 2;
/// Work and sleeps without an end.
const FOREVER_NS: u64 = 1_000_000_000_000_000;

/// The calibration CPU's full speed, units per ns.
pub(super) fn full_speed(platform: &Platform) -> u64 {
    u64::from(platform.cpus[platform.calibration_cpu.at()].capacity.max(1))
}

/// A workload of what was seen.
pub(super) fn programs(
    reader: Reader<'_>,
    recording: &Recording,
    (kinds, families): (&Kinds, &Families),
    (teams, devices): (Teams, Devices),
    name: &str,
    options: &Options,
) -> Inferred {
    let since_5 = reader.since_5();
    let Reader { platform, mut threads, busy_ns, worked, give_way, .. } = reader;
    let end = recording.end.0.max(1);
    // Mainline's placement compares energies; Android's before took CPUs that were busy before idle ones.
    let util: Vec<u64> = if since_5 { worked.iter().map(|w| w / end).collect() } else { Vec::new() };
    let machine = Machine::of(platform, |cpu| 100 * busy_ns[cpu.at()] / end >= BUSY_PCT, &util);
    let index: BTreeMap<Pid, u32> = threads.keys().zip(0..).map(|(pid, i)| (*pid, i)).collect();
    let task_of = super::play::tasks(recording);
    let passes = passes(&mut threads, teams, recording, platform, (kinds, families), options.counted);
    let Passes { barriers, teams, mutexes, channels, joined, shared, pools, .. } = &passes;
    let sleep_alike = sleep_alike(&threads, kinds);
    let uncertain_ns = super::exits::longest(platform) + platform.timer_slack_ns;
    let asleep = |pid: Pid, steps: &[Step]| sleeps(steps, sleep_alike.contains(&pid), uncertain_ns);
    let mut rounds = super::rounds::rounds(&mut threads, asleep, &joined.forgetful, recording.end.0);
    pools.keys().chain(&shared.servers).for_each(|pid| _ = rounds.entry(*pid).or_insert(0));
    let background = super::background(recording);
    let ours: Vec<Pid> = threads.keys().filter(|pid| !background.contains(pid)).copied().collect();
    let ticks = super::ticks::delay(recording, platform);
    let (of_pools, of_servers) = semaphores(&passes);
    let programs = Programs {
        recording,
        calibration: full_speed(platform),
        late: LateJobs::of(&threads, &ours, recording),
        sleep_alike,
        uncertain_ns,
        rounds,
        end: recording.end.0,
        nr_cpus: platform.nr_cpus(),
        delay: ticks.unwrap_or(0),
        grid: ticks.map_or(1, |_| super::ticks::length(platform)),
        options,
        queues: queues(&threads, teams, |pid| index[pools.get(&pid).unwrap_or(&pid)]),
        teams,
        conds: joined.forgetful.iter().filter(|pid| !pools.contains_key(pid)).copied().zip(0..).collect(),
        barriers: barriers.keys().copied().zip(0..).collect(),
        mutexes: mutexes.iter().copied().zip(0..).collect(),
        spaces: channels.buffers.keys().copied().zip(0..).collect(),
        shared: of_pools,
        semaphores: of_servers,
        index,
    };
    let in_rounds = |pid: &Pid| programs.rounds.contains_key(pid);
    let whole = ends_with(&threads, &ours, recording.end.0) && !ours.iter().any(in_rounds);
    let mut w = Workload {
        name: name.into(),
        duration: (!whole).then(|| Ns(recording.end.0.saturating_add(programs.delay))),
        queues: names(&programs.queues, recording, (&threads, channels)),
        groups: groups(recording),
        ..objects(recording, &programs, &passes, &devices)
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
    let mut pinned = 0;
    for (pid, t) in &threads {
        let policy = seen_policy(*pid, t, &give_way);
        let (task, is_bound) = programs.task(*pid, t, task_of(*pid), policy, bound.get(pid));
        pinned += usize::from(is_bound);
        let told = recording.threads.get(&pid.0);
        let (background, group) = (background.contains(pid), told.map_or(0, |t| t.group).min(last_group));
        w.tasks.push(TaskSpec { background, group, ..task });
    }
    let found = Found {
        recording,
        threads: &threads,
        background: &background,
        give_way: &give_way,
        late: &programs.late,
        passes: &passes,
        conds: programs.conds.len(),
        devices: &devices,
        pinned,
    };
    Inferred { notes: found.told(), workload: w }
}

/// Numbers of semaphores, behind those of channels: by thread, where its pool has one, and by queue of servers.
fn semaphores(passes: &Passes) -> (BTreeMap<Pid, u32>, BTreeMap<Queue, u32>) {
    let Passes { channels, shared, pools, asked, .. } = passes;
    let first = channels.buffers.len() as u32;
    let numbers: BTreeMap<Pid, u32> = asked.semaphores.iter().copied().zip(first..).collect();
    let of_pools = pools.iter().filter_map(|(pid, pool)| Some((*pid, *numbers.get(pool)?))).collect();
    let first = first + asked.semaphores.len() as u32;
    (of_pools, shared.semaphores.iter().copied().zip(first..).collect())
}

/// What the threads wait for and with, beside their queues.
fn objects(recording: &Recording, programs: &Programs<'_>, passes: &Passes, devices: &Devices) -> Workload {
    let Passes { barriers, channels, asked, .. } = passes;
    let of = |what: &str, pid: &Pid| format!("{what}{}-{pid}", recording.comm(*pid));
    let unlimited = [("device", true), ("interrupt", false)];
    let unlimited = unlimited.map(|(name, iowait)| DeviceSpec { name: name.into(), servers: u32::MAX, iowait });
    let limited = devices.iter().map(|(kind, servers)| DeviceSpec {
        name: format!("device of {kind}"),
        servers: *servers,
        iowait: true,
    });
    let space = |(pid, buffer): (&Pid, &Buffer)| SemaphoreSpec {
        sync: buffer.is_sync(),
        release: buffer.release,
        ..SemaphoreSpec::new(of("space of ", pid), buffer.holds)
    };
    let spaces = channels.buffers.iter().map(space);
    let asks = asked.semaphores.iter().map(|pid| SemaphoreSpec::new(of("asks ", pid), 0));
    let of_queue = |queue: &Queue| match queue {
        Queue::Replies(pid, _) => SemaphoreSpec::new(of("answers of ", pid), 0),
        Queue::Wakes(pid) | Queue::Requests(pid, _) | Queue::Batch(pid, _) | Queue::Arrived(pid) | Queue::Go(pid) => {
            SemaphoreSpec::new(of("asks ", pid), 0)
        }
    };
    Workload {
        timers: vec![TimerSpec { name: "recorded".into(), shared: false }],
        devices: unlimited.into_iter().chain(limited).collect(),
        conds: programs.conds.keys().map(|pid| Named { name: of("", pid) }).collect(),
        barriers: barriers
            .iter()
            .map(|(pid, parties)| BarrierSpec { name: of("barrier ", pid), parties: *parties })
            .collect(),
        counters: programs
            .teams
            .iter()
            .map(|(pid, team)| CounterSpec { name: of("loop of ", pid), total: team.iterations.unwrap_or(0) })
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

/// What all threads of a recording need to become programs.
struct Programs<'a> {
    recording: &'a Recording,
    /// Of its task.
    index: BTreeMap<Pid, u32>,
    /// Threads of a pool have one queue of wake-ups.
    queues: BTreeMap<Queue, u32>,
    barriers: BTreeMap<Pid, u32>,
    mutexes: BTreeMap<Pid, u32>,
    /// Each has a counter of its own, in this order.
    teams: &'a Teams,
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
    late: LateJobs,
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

/// How far a thread comes before it binds itself to other CPUs, and which.
type Bind = (Progress, CpuSet);

impl Programs<'_> {
    /// The CPUs that a thread has from the start, and when it binds itself to others; it was seen `bound` to some.
    fn cpus_of(&self, pid: Pid, t: &Thread, bound: Option<&CpuSet>) -> (Option<CpuSet>, Option<Bind>) {
        let mut cpus = bound.cloned();
        let mut bind = cpus.as_ref().and_then(|cpus| Some((t.bound_after(cpus)?, cpus.clone())));
        let at_first = allowed(self.recording, pid, self.nr_cpus);
        match (&at_first, t.left) {
            // Since then it has others: those it is bound to, or all.
            (Some(_), Some(left)) => {
                let now = cpus.filter(|cpus| t.bound_after(cpus).is_none_or(|since| since <= left));
                let now = now.unwrap_or_else(|| CpuSet::first(self.nr_cpus));
                bind = Some((left, now.clone()));
                cpus = Some(now);
            }
            (Some(told), None) => cpus = cpus.map(|cpus| cpus.and(told)).filter(|cpus| !cpus.is_empty()),
            (None, _) => {}
        }
        // Who goes round has those that it has in the end.
        if bind.is_some() && !self.rounds.contains_key(&pid) {
            cpus = None;
        }
        (cpus.or(at_first), bind)
    }

    /// The program of a thread of this task, whose turns tell of a `policy` and which was seen `bound`; and is it bound to CPUs?
    fn task(
        &self,
        pid: Pid,
        t: &Thread,
        task: String,
        policy: Option<&'static str>,
        bound: Option<&CpuSet>,
    ) -> (TaskSpec, bool) {
        let (recording, comm) = (self.recording, self.recording.comm(pid));
        // Who sets its affinity again and again is bound each time.
        let roams = !t.binds.is_empty();
        let (mut cpus, mut bind) = self.cpus_of(pid, t, bound.filter(|_| !roams));
        let told = recording.threads.get(&pid.0);
        let told =
            Told { policy: told.and_then(|t| t.policy).or(policy), asked: told.map(|t| t.asked).unwrap_or_default() };
        let asked = self.options.policies.iter().any(|(name, _)| is_named(comm, name));
        let attr = attributes(t.first_prio, comm, told, self.options);
        let attr = if asked { attr } else { of_deadline(recording, pid, attr) };
        if attr.policy == Policy::Deadline {
            (cpus, bind) = (None, None); // the kernel admits it on all CPUs alone
        }
        let is_bound = roams || cpus.is_some() || bind.is_some();
        let ops = self.ops(pid, t, told, &task, bind);
        // Of threads that are bound to a CPU each it is no timer of theirs: they were launched then.
        let launched = t.launched.filter(|_| cpus.as_ref().is_some_and(|cpus| cpus.len() == 1));
        let is_old = t.birth().is_none();
        // Who was in a wait is in it from the start.
        let waits = is_old && t.steps.first().is_some_and(Step::waits);
        let start = match launched {
            Some(at) => Ns(at.saturating_add(self.delay)),
            None if waits || t.parent.is_some() => Ns::ZERO,
            None => Ns(t.born.saturating_add(self.delay)),
        };
        let spec = TaskSpec {
            instances: u32::from(t.parent.is_none()),
            start,
            attr,
            cpus,
            // A new one is placed by the kernel it runs under.
            prev_cpu: t.ran.first().map(|first| first.1).filter(|_| is_old),
            prev_util: if is_old { utilisation(t, self.end) } else { 0 },
            ..TaskSpec::new(task, ops)
        };
        (spec, is_bound)
    }

    /// `bind`: when it has come so far it binds itself to these CPUs.
    fn ops(&self, pid: Pid, t: &Thread, told: Told, task: &str, bind: Option<Bind>) -> Vec<Op> {
        let round = self.rounds.get(&pid).copied();
        let mut bind = bind.filter(|_| round.is_none());
        let mut done = 0;
        let asleep = sleeps(&t.steps, self.sleep_alike.contains(&pid), self.uncertain_ns);
        let absolute = !self.late.starting_again.contains(task);
        let mut writer = Writer::new(self, (pid, t), told, absolute, &asleep);
        let mut first = writer.ops.len();
        for (i, (step, asleep)) in t.steps.iter().zip(&asleep).enumerate() {
            if round == Some(i) {
                first = writer.ops.len();
            }
            let mut before = 0;
            if let Some((after, cpus)) = bind.take_if(|(after, _)| after.steps <= done) {
                before = after.units.min(step.units());
                writer.work(before);
                writer.ops.push(Op::SetAffinity(Some(cpus)));
            }
            done += u32::from(!matches!(step, Step::Work(_) | Step::Spin(_) | Step::Passed { .. } | Step::Yield));
            writer.step(step, *asleep, before);
        }
        if round.is_some() {
            let mut ops = writer.ops;
            ops.extend(self.last_wait(t));
            ops.insert(first, Op::Loop { count: None, end: ops.len() as u32 + 1 });
            ops.push(Op::LoopEnd { begin: first as u32 });
            return ops;
        }
        let of_team = |s: &Step| if let Step::Arrive(team) | Step::Gather(team) = *s { Some(team) } else { None };
        let team = t.steps.iter().find_map(of_team);
        match team.filter(|team| self.teams[team].goes_on) {
            Some(team) => writer.next_loops(team),
            None if matches!(t.state, State::Dead { .. }) => {}
            None => writer.beyond(),
        }
        writer.ops
    }

    /// The wait that the end of the trace cuts off, of a thread that only waits for times of given length: as long as those in the middle of all
    /// that took no less.
    fn last_wait(&self, t: &Thread) -> Option<Op> {
        let State::Sleeping { since, .. } = t.state else { return None };
        let timed = |s: &&Step| s.woken_by().is_none() && s.woken_at().is_some();
        let waits: Vec<&Step> = t.steps.iter().filter(|s| s.waits()).collect();
        let length = |s: &&Step| match **s {
            Step::Served { ns, .. } => Some(ns),
            _ => s.woken_at().zip(s.blocked_since()).map(|(until, since)| until.saturating_sub(since)),
        };
        if !waits.iter().all(timed) {
            return None;
        }
        let so_far = self.end.saturating_sub(since);
        let mut longer: Vec<u64> = waits.iter().filter_map(length).filter(|ns| *ns >= so_far).collect();
        let ns = Amount::Fixed(steps::median(&mut longer).unwrap_or(so_far));
        Some(match waits.last()? {
            Step::Device { .. } => Op::Device { device: 0, service: ns },
            Step::Interrupt { .. } => Op::Device { device: 1, service: ns },
            Step::Served { device, .. } => Op::Device { device: UNLIMITED + device, service: ns },
            _ => Op::Sleep(ns),
        })
    }
}

/// Writes the program of a thread, step by step.
struct Writer<'p> {
    programs: &'p Programs<'p>,
    pid: Pid,
    t: &'p Thread,
    told: Told,
    /// Its timers stay on their grid when it is late.
    absolute: bool,
    ops: Vec<Op>,
    /// When its timer expired last; and it had passed then.
    expiry: u64,
    late: bool,
    /// The period of the display that it waits for.
    vsync: Option<u64>,
    /// When the last of a phase's sleeps ended, and the place behind it: a timer that comes next counts from there.
    slept: Option<(u64, usize)>,
}

impl<'p> Writer<'p> {
    /// `asleep`: which of its timers are relative sleeps.
    fn new(
        programs: &'p Programs<'p>,
        (pid, t): (Pid, &'p Thread),
        told: Told,
        absolute: bool,
        asleep: &[bool],
    ) -> Writer<'p> {
        let ops = Vec::with_capacity(t.steps.len() + 4);
        let vsync = super::vsyncs::period(&t.steps);
        let mut writer = Writer { programs, pid, t, told, absolute, ops, expiry: 0, late: false, vsync, slept: None };
        // A forked thread's timers count from its birth, the others' from the common start. Its birth moves with what its parent does;
        // where that is against the tick does not.
        let counts = |(s, asleep): (&Step, &bool)| match s {
            Step::Timer { .. } => !asleep,
            s => matches!(s, Step::Passed { .. }),
        };
        if t.parent.is_some() && t.steps.iter().zip(asleep).any(counts) {
            let born = t.born.saturating_add(programs.delay);
            writer.ops.push(Op::Anchor { timer: 0, period: programs.grid, offset: born % programs.grid });
            writer.expiry = born;
        }
        writer
    }

    /// What a piece of work is.
    fn run(&self, units: u64) -> impl Iterator<Item = Op> + use<> {
        super::memory::ops(units / self.programs.calibration, self.t.memory)
    }

    /// So much work, if it is any.
    fn work(&mut self, units: u64) {
        if units > 0 {
            self.ops.extend(self.run(units));
        }
    }

    /// Iterations of a loop of so many units in all, until none is left.
    fn part(&mut self, team: Pid, units: u64) {
        let Programs { teams, calibration, .. } = self.programs;
        let (counter, t) = (self.counter(team), &teams[&team]);
        let chunk = if t.shrinks { Chunk::Guided { parties: t.others + 1, min: 1 } } else { Chunk::Fixed(1) };
        let per_iteration = Amount::Fixed(units / calibration / t.iterations.unwrap_or(1));
        let at = self.ops.len() as u32;
        let take = Op::TakeWork { counter, chunk, per_iteration, done: at + 2 };
        self.ops.extend([take, Op::Jump(at)]);
    }

    fn counter(&self, team: Pid) -> u32 {
        self.programs.teams.range(..team).count() as u32
    }

    /// Looks for a token for as long as its team does, and sleeps.
    fn looks(&self, team: Pid, queue: Queue) -> Op {
        let look = Amount::Fixed(self.programs.teams[&team].look_ns);
        Op::SpinThenBlock { spin: look, queue: self.programs.queues[&queue] }
    }

    /// How a team goes on beyond the end of the trace.
    fn next_loops(&mut self, team: Pid) {
        let begin = self.ops.len();
        let is_work = |s: &&Step| matches!(s, Step::Part { .. } | Step::Work(_));
        let part = self.t.steps.iter().rfind(is_work).cloned().unwrap_or(Step::Work(0));
        self.ops.push(Op::Loop { count: None, end: 0 });
        let steps = match team == self.pid {
            true => [Step::Release(team), part, Step::Gather(team)],
            false => [Step::Await(team), part, Step::Arrive(team)],
        };
        steps.iter().for_each(|step| self.step(step, false, 0));
        self.ops[begin] = Op::Loop { count: None, end: self.ops.len() as u32 };
        self.ops.push(Op::LoopEnd { begin: begin as u32 });
    }

    /// A step, of whose work so much is `done`.
    fn step(&mut self, step: &Step, asleep: bool, done: u64) {
        let Programs { conds, shared, semaphores, queues, teams, .. } = self.programs;
        let op = match *step {
            Step::Work(units) => return self.work(units - done),
            Step::Spin(ns) => Op::Spin { wall: Amount::Fixed(ns), chunk: SPIN_CHUNK_NS },
            Step::Timer { until, since } if asleep => {
                self.slept = Some((until, self.ops.len() + 1));
                Op::Sleep(Amount::Fixed(until - since))
            }
            Step::Timer { until, .. } => self.timer(until.saturating_add(self.programs.delay)),
            Step::Passed { period } => self.passed(period),
            Step::Device { ns, .. } => Op::Device { device: 0, service: Amount::Fixed(ns) },
            Step::Interrupt { ns, .. } => Op::Device { device: 1, service: Amount::Fixed(ns) },
            Step::Served { device, ns, .. } => Op::Device { device: UNLIMITED + device, service: Amount::Fixed(ns) },
            Step::Sleep { ns, .. } => Op::Sleep(Amount::Fixed(ns)),
            Step::Token { .. } => match (conds.get(&self.pid), shared.get(&self.pid)) {
                (Some(&cond), _) => Op::Wait { cond, mutex: None },
                (_, Some(&semaphore)) => Op::SemWait(semaphore),
                _ => Op::Get(queues[&Queue::Wakes(self.pid)]),
            },
            Step::Post { to, .. } => match (conds.get(&to), shared.get(&to)) {
                (Some(&cond), _) => Op::Broadcast(cond),
                (_, Some(&semaphore)) => Op::SemPost(semaphore),
                _ => Op::Put { queue: queues[&Queue::Wakes(to)], forward: false },
            },
            Step::Get(queue) if semaphores.contains_key(&queue) => Op::SemWait(semaphores[&queue]),
            Step::Put(queue) if semaphores.contains_key(&queue) => Op::SemPost(semaphores[&queue]),
            Step::Get(queue) => Op::Get(queues[&queue]),
            Step::Put(queue) => Op::Put { queue: queues[&queue], forward: false },
            Step::Drain { from, to } => Op::Drain { from: queues[&from], to: queues[&to], forward: false },
            Step::Barrier(of) => Op::Barrier(self.programs.barriers[&of]),
            Step::Take(of) => Op::SemWait(self.programs.spaces[&of]),
            Step::Free(of) => Op::SemPost(self.programs.spaces[&of]),
            Step::Lock(of) => Op::Lock(self.programs.mutexes[&of]),
            Step::Unlock(of) => Op::Unlock(self.programs.mutexes[&of]),
            Step::Part { team, units } => return self.part(team, units),
            Step::Gather(team) => {
                let others = teams[&team].others as usize;
                return self.ops.extend(vec![self.looks(team, Queue::Arrived(team)); others]);
            }
            Step::Release(team) => {
                self.ops.push(Op::ResetWork(self.counter(team)));
                let go = Op::Put { queue: queues[&Queue::Go(team)], forward: false };
                return self.ops.extend(vec![go; teams[&team].others as usize]);
            }
            Step::Arrive(team) => Op::Put { queue: queues[&Queue::Arrived(team)], forward: false },
            Step::Await(team) => self.looks(team, Queue::Go(team)),
            Step::Fork(child) => Op::Fork(self.programs.index[&child]),
            Step::Yield => Op::Yield,
            Step::Touch => Op::Touch,
            Step::Bind(nth) => Op::SetAffinity(Some(self.t.binds.cpus(nth, self.programs.nr_cpus))),
            Step::Attr(prio) | Step::Lent { prio, .. } => {
                let comm = self.programs.recording.comm(self.pid);
                Op::SetAttr(attributes(prio, comm, self.told, self.programs.options))
            }
            Step::Exit => Op::Exit,
        };
        self.ops.push(op);
    }

    /// Its timer, which expires then.
    fn timer(&mut self, until: u64) -> Op {
        if let Some(period) = self.vsync {
            self.expiry = self.expiry.max(until);
            return Op::Vsync { period, offset: until % period };
        }
        if let Some((woken, next)) = self.slept.take() {
            self.ops.insert(next, Op::Timer { timer: 0, period: Amount::Fixed(1), absolute: false });
            self.expiry = self.expiry.max(woken.saturating_add(self.programs.delay));
        }
        let since_last = until.saturating_sub(self.expiry);
        let late = std::mem::take(&mut self.late);
        let period = if late && !self.absolute { self.t.beat.period } else { since_last };
        self.expiry = self.expiry.max(until);
        Op::Timer { timer: 0, period: Amount::Fixed(period), absolute: self.absolute }
    }

    /// Its timer, which had passed.
    fn passed(&mut self, period: u64) -> Op {
        self.expiry += period;
        self.late = true;
        Op::Timer { timer: 0, period: Amount::Fixed(period), absolute: self.absolute }
    }

    /// How a thread that lives on goes on after its last step.
    fn beyond(&mut self) {
        let (t, absolute, end) = (self.t, self.absolute, self.programs.end);
        let awake = matches!(t.state, State::Running | State::Runnable { .. });
        if awake {
            match steps::rest(&t.steps, end - t.awake.min(end), end) {
                Rest::Units(units) => self.ops.extend(self.run(units)),
                Rest::Endless => self.ops.push(Op::Run(Amount::Fixed(FOREVER_NS))),
            }
        }
        // It lives on beyond the end of the trace: who is late then gets farther under a kernel that makes it less late, and so does anyone
        // whose late jobs move all later ones.
        if (!absolute || awake) && t.beats_on(end) {
            let begin = self.ops.len();
            let timer = Op::Timer { timer: 0, period: Amount::Fixed(t.beat.period), absolute };
            self.ops.extend([Op::Loop { count: None, end: 0 }, timer]);
            self.ops.extend(self.run(t.beat.work));
            self.ops[begin] = Op::Loop { count: None, end: self.ops.len() as u32 };
            self.ops.push(Op::LoopEnd { begin: begin as u32 });
        } else if let Some(usual) = steps::usual_interval(&t.steps) {
            // Governors look at the timer that comes next, also while the last one of the trace is over.
            self.ops.push(match absolute && self.slept.is_none() {
                true => {
                    let next = end.saturating_add(self.programs.delay + usual / 2);
                    Op::Timer { timer: 0, period: Amount::Fixed(next.saturating_sub(self.expiry)), absolute }
                }
                false => Op::Sleep(Amount::Fixed(usual)),
            });
        }
        self.ops.push(Op::Sleep(Amount::Fixed(FOREVER_NS)));
    }
}

/// Numbers of queues: first one a thread, for its wake-ups, then those of servers and teams.
fn queues(threads: &BTreeMap<Pid, Thread>, teams: &Teams, wakes: impl Fn(Pid) -> u32) -> BTreeMap<Queue, u32> {
    let mut all: BTreeMap<Queue, u32> = threads.keys().map(|pid| (Queue::Wakes(*pid), wakes(*pid))).collect();
    let servers: BTreeSet<(Pid, Pid)> = threads.values().flat_map(|t| &t.steps).filter_map(asked).collect();
    let kinds = [Queue::Requests, Queue::Batch, Queue::Replies];
    let of_servers =
        kinds.into_iter().flat_map(|kind| servers.iter().map(move |(server, first)| kind(*server, *first)));
    let of_teams = [Queue::Arrived, Queue::Go].into_iter().flat_map(|kind| teams.keys().map(move |team| kind(*team)));
    all.extend(of_servers.chain(of_teams).zip(threads.len() as u32..));
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

fn names(
    queues: &BTreeMap<Queue, u32>,
    recording: &Recording,
    (threads, channels): (&BTreeMap<Pid, Thread>, &Channels),
) -> Vec<QueueSpec> {
    // FIDELITY(wakeup-sync): a trace does not say which wake-ups are sync, but for buffers that wake by lots, and where threads go (`sync.rs`).
    let of = |what: &str, pid: &Pid| QueueSpec::new(format!("{what} {}-{pid}", recording.comm(*pid)));
    let is_sync = |pid: &Pid| threads.get(pid).is_some_and(|t| t.sync);
    // In the order of their numbers.
    let name = |queue: &Queue| match queue {
        Queue::Wakes(pid) => {
            let sync = is_sync(pid) || channels.buffers.get(pid).is_some_and(|buffer| buffer.is_sync());
            QueueSpec { sync, ..of("wakes", pid) }
        }
        Queue::Requests(pid, _) => QueueSpec { sync: is_sync(pid), ..of("asks", pid) },
        Queue::Batch(pid, _) => of("batch of", pid),
        Queue::Replies(pid, client) => QueueSpec { sync: is_sync(client), ..of("answers of", pid) },
        Queue::Arrived(pid) => of("done with a loop of", pid),
        Queue::Go(pid) => of("next loop of", pid),
    };
    queues.keys().map(name).collect()
}

impl Thread {
    /// Does its beat go on when the trace ends? A thread with a beat is never blocked for more than two periods, of which it may leave one
    /// out. If it is, it has stopped; if it mostly was, its beat is that of bursts.
    fn beats_on(&self, end: u64) -> bool {
        let too_long = |ns: &u64| *ns > 2 * self.beat.period;
        let mut timers = steps::timers(&self.steps).map(|(_, until, since)| (until, until.saturating_sub(since)));
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

#[cfg(test)]
mod tests {
    use super::super::super::metrics::testbed;
    use super::super::relative_sleeps::tests::asleep;
    use super::*;
    use wattif_model::trace::PrevState;

    const MS: u64 = 1_000_000;

    /// A thread waits for a device for these times, works for 1 ms after each, and has waited for so long when the trace ends: how long it does.
    #[test]
    fn a_wait_that_the_end_cuts_off() {
        let last = |waits: &[u64], so_far: u64| {
            let (mut at, mut events) = (0, Vec::new());
            for ms in waits {
                let until = at + ms * MS;
                events.extend([(until, testbed::waking(7)), (until, testbed::switch(0, 7, PrevState::Running))]);
                at = until + MS;
                events.push((at, testbed::switch(7, 0, PrevState::DiskSleep)));
            }
            events.push((at + so_far * MS, testbed::waking(8)));
            let ops = super::super::workload::tests::tasks(0, events).swap_remove(0).program.ops;
            let [.., Op::Device { service: Amount::Fixed(ns), .. }, Op::LoopEnd { .. }] = ops[..] else {
                panic!("it goes round: {ops:?}")
            };
            (ns + MS / 2) / MS
        };
        let waits = [2, 2, 2, 2, 2, 30, 30, 30];
        assert_eq!(last(&waits, 1), 2, "in the middle of all");
        assert_eq!(last(&waits, 4), 30, "it is one of the long ones");
        assert_eq!(last(&waits, 40), 40, "longer than any");
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
