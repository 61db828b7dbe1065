//! A run: builds machine and kernel from a [`RunSpec`], turns the crank, tells observers.
//!
//! The loop is small: take the next event of the queue, move the clock, hand it to the handler in `sched/`. Every event
//! source owns one slot of the queue, see [`Slots`].

use crate::cpufreq::FreqGovernor;
use crate::cpuidle::IdleGovernor;
use crate::cpuidle::oracle::Foresight;
use crate::engine::digest::Digest;
use crate::engine::queue::EventQueue;
use crate::engine::rng::{Jitter, Rng};
use crate::machine::Machine;
use crate::machine::program::{Effects, Programs, Setup};
use crate::registry;
use crate::sched::Sched;
use crate::sched::balance::FairBalancer;
use crate::sched::class::SchedClass;
use crate::sched::core::{CpuContext, IDLE};
use crate::sched::interrupts::Stray;
use crate::sched::placement::WakeupPlacement;
use crate::sched::worker::Workers;
use std::borrow::Cow;
use wattif_model::kernel::Slot;
use wattif_model::platform::Platform;
use wattif_model::run::{RunError, RunSpec, RunSummary};
use wattif_model::trace::{Event, Interest, Observer, ThreadInfo};
use wattif_model::workload::dist::Dist;
use wattif_model::workload::{Amount, Op, TaskSpec, Workload, forever};
use wattif_model::{CpuId, CpuSet, DomainId, Ns, Pid};

/// Runs `spec` to its end, streaming events to `observers`.
///
/// The result depends on `spec` alone: not on who observes, not on the machine this runs on.
pub fn simulate(spec: &RunSpec, observers: &mut [&mut dyn Observer]) -> Result<RunSummary, RunError> {
    simulate_with(spec, Injected::default(), observers)
}

/// Policies of the user's own, in place of those that the kernel profile names.
#[derive(Default)]
pub struct Injected<'i> {
    /// The idle governor.
    pub cpuidle: Option<Box<dyn IdleGovernor>>,
    /// Makes the frequency governor of each domain.
    pub cpufreq: Option<&'i dyn Fn() -> Box<dyn FreqGovernor>>,
}

/// As [`simulate`], with policies that no registry has. Whoever injects them makes their source part of the run's name.
pub fn simulate_with(
    spec: &RunSpec,
    injected: Injected<'_>,
    observers: &mut [&mut dyn Observer],
) -> Result<RunSummary, RunError> {
    let spec = &*injected.stand_ins(spec);
    let foresight = registry::needs_foresight(&spec.kernel).then(|| look_ahead(spec, injected.cpufreq)).transpose()?;
    let mut kernel = Kernel::new(spec, injected, observers)?;
    (kernel.m.prescient, kernel.foresight) = (foresight.is_some(), foresight);
    kernel.boot(&spec.kernel)?;
    kernel.run(spec.duration.0)?;
    Ok(kernel.finish())
}

impl Injected<'_> {
    /// The run with names of the registry where policies are injected: what the profile names there is not in this kernel, and
    /// decides nothing in it, neither energy-aware placement, which asks for schedutil, nor the oracle's first pass.
    fn stand_ins<'s>(&self, spec: &'s RunSpec) -> Cow<'s, RunSpec> {
        let freq = self.cpufreq.map(|_| (Slot::Cpufreq, "performance"));
        let idle = self.cpuidle.as_ref().map(|_| (Slot::Cpuidle, "ladder"));
        let mut spec = Cow::Borrowed(spec);
        for (slot, name) in freq.into_iter().chain(idle) {
            spec.to_mut().kernel.policies.insert(slot, name.into());
        }
        spec
    }
}

/// The length of every sleep of a run whose sleeps cost no time. The run that knows them is the same run: it chooses states
/// by them, and no choice costs time there either.
fn look_ahead(spec: &RunSpec, cpufreq: Option<&dyn Fn() -> Box<dyn FreqGovernor>>) -> Result<Foresight, RunError> {
    let mut kernel = Kernel::new(spec, Injected { cpuidle: None, cpufreq }, &mut [])?;
    let foresight = Foresight::recording(spec.platform.nr_cpus(), spec.platform.domains.len());
    (kernel.m.prescient, kernel.foresight) = (true, Some(foresight));
    kernel.boot(&spec.kernel)?;
    kernel.run(spec.duration.0)?;
    Ok(kernel.foresight.take().expect("it was given one").known(&spec.platform))
}

/// The kernel under test on its machine, and everything a run needs.
pub struct Kernel<'o, 'p> {
    /// Scheduler state.
    pub s: Sched,
    /// The hardware.
    pub m: Machine,
    pub(crate) programs: Programs,
    pub(crate) effects: Effects,
    pub(crate) fair: Box<dyn SchedClass>,
    pub(crate) rt: Box<dyn SchedClass>,
    pub(crate) dl: Box<dyn SchedClass>,
    pub(crate) placement: Box<dyn WakeupPlacement>,
    /// Lent to the pass that is under way.
    pub(crate) balancer: Option<Box<FairBalancer>>,
    pub(crate) cpufreq: Vec<Box<dyn FreqGovernor>>,
    /// See [`FreqGovernor::hears_every_update`].
    pub(crate) cpufreq_hears_all: bool,
    /// Frequency governors look at idle CPUs too.
    pub(crate) cpufreq_wakes_idle: bool,
    pub(crate) cpuidle: Box<dyn IdleGovernor>,
    /// For the oracle only.
    pub(crate) foresight: Option<Foresight>,
    /// For governors that sample only.
    pub(crate) workers: Workers,
    pub(crate) queue: EventQueue,
    pub(crate) slots: Slots,
    /// Slot of the event that is handled.
    slot: u32,
    /// What each CPU is doing in the kernel.
    pub(crate) cpus: Vec<CpuContext>,
    /// Interrupts that no thread of a workload waits for, of each CPU; none on machines without them.
    pub(crate) strays: Vec<Stray>,
    pub(crate) out: Out<'o, 'p>,
    pub(crate) error: Option<RunError>,
    pub(crate) slices: u64,
    pub(crate) events: u64,
    /// The run ends with the last thread of the workload.
    ends_with_threads: bool,
    pub(crate) seed: u64,
}

/// Numbers of the event queue's slots.
#[derive(Clone, Copy, Debug)]
pub struct Slots {
    nr_cpus: u32,
    nr_domains: u32,
}

/// What a slot means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The running thread's step ends.
    Step(CpuId),
    /// The tick.
    Tick(CpuId),
    /// The interrupt of the CPU's high-resolution timers.
    Timer(CpuId),
    /// Awake: `schedule()` is due. Asleep: the way in or out is done.
    Kick(CpuId),
    /// An interrupt comes from another CPU: it is asleep, or is to queue a thread.
    Ipi(CpuId),
    /// What the tick raised (`SCHED_SOFTIRQ`): load balancing.
    Softirq(CpuId),
    /// A clock reaches its new frequency.
    Clock(DomainId),
    /// Devices have served requests.
    Devices,
    /// A driver's latency request ends.
    Latency,
    /// An interrupt that wakes no thread, on machines that have such.
    Stray(CpuId),
}

impl Slots {
    const PER_CPU: u32 = 6;

    /// The slot of a source.
    #[inline]
    pub fn of(self, source: Source) -> u32 {
        match source {
            Source::Step(c) => c.0 * Slots::PER_CPU,
            Source::Tick(c) => c.0 * Slots::PER_CPU + 1,
            Source::Timer(c) => c.0 * Slots::PER_CPU + 2,
            Source::Kick(c) => c.0 * Slots::PER_CPU + 3,
            Source::Ipi(c) => c.0 * Slots::PER_CPU + 4,
            Source::Softirq(c) => c.0 * Slots::PER_CPU + 5,
            Source::Clock(d) => self.nr_cpus * Slots::PER_CPU + d.0,
            Source::Devices => self.nr_cpus * Slots::PER_CPU + self.nr_domains,
            Source::Latency => self.nr_cpus * Slots::PER_CPU + self.nr_domains + 1,
            Source::Stray(c) => self.nr_cpus * Slots::PER_CPU + self.nr_domains + 2 + c.0,
        }
    }

    #[inline]
    fn source(self, slot: u32) -> Source {
        let cpu = CpuId(slot / Slots::PER_CPU);
        if cpu.0 >= self.nr_cpus {
            let domain = slot - self.nr_cpus * Slots::PER_CPU;
            return match domain.checked_sub(self.nr_domains) {
                None => Source::Clock(DomainId(domain)),
                Some(0) => Source::Devices,
                Some(1) => Source::Latency,
                Some(after) => Source::Stray(CpuId(after - 2)),
            };
        }
        match slot % Slots::PER_CPU {
            0 => Source::Step(cpu),
            1 => Source::Tick(cpu),
            2 => Source::Timer(cpu),
            3 => Source::Kick(cpu),
            4 => Source::Ipi(cpu),
            _ => Source::Softirq(cpu),
        }
    }
}

/// Where events go: the digest, and the observers that want them.
pub struct Out<'o, 'p> {
    pub(crate) digest: Digest,
    observers: &'o mut [&'p mut dyn Observer],
    wants: Vec<Interest>,
    any: Interest,
}

impl<'o, 'p> Out<'o, 'p> {
    fn new(observers: &'o mut [&'p mut dyn Observer], platform: &Platform) -> Out<'o, 'p> {
        observers.iter_mut().for_each(|o| o.start(platform));
        let wants: Vec<Interest> = observers.iter().map(|o| o.interest()).collect();
        let any = wants.iter().fold(Interest::default(), |a, &b| a.and(b));
        Out { digest: Digest::new(), observers, wants, any }
    }

    /// Does anybody want this family? Decision records are built only then.
    #[inline]
    pub(crate) fn wants(&self, family: Interest) -> bool {
        self.any.wants(family)
    }

    /// A tracepoint: goes into the digest and to those who want the family.
    #[inline(always)]
    pub(crate) fn tracepoint(&mut self, now: u64, cpu: CpuId, family: Interest, event: Event) {
        self.digest.feed(Ns(now), cpu, &event);
        self.tell(now, cpu, family, event);
    }

    /// Any other event: to those who want the family.
    #[inline]
    pub(crate) fn tell(&mut self, now: u64, cpu: CpuId, family: Interest, event: Event) {
        if self.any.wants(family) {
            self.deliver(now, cpu, family, event);
        }
    }

    #[inline(never)]
    fn deliver(&mut self, now: u64, cpu: CpuId, family: Interest, event: Event) {
        for (observer, wants) in self.observers.iter_mut().zip(&self.wants) {
            if wants.wants(family) {
                observer.event(Ns(now), cpu, &event);
            }
        }
    }

    pub(crate) fn thread(&mut self, thread: &ThreadInfo) {
        self.observers.iter_mut().for_each(|o| o.thread(thread));
    }
}

impl<'o, 'p> Kernel<'o, 'p> {
    fn new(
        spec: &RunSpec,
        injected: Injected<'_>,
        observers: &'o mut [&'p mut dyn Observer],
    ) -> Result<Kernel<'o, 'p>, RunError> {
        let mut built = registry::build(spec)?;
        if let Some(make) = injected.cpufreq {
            built.cpufreq.iter_mut().for_each(|governor| *governor = make());
        }
        let platform = &match spec.workload.is_recorded() {
            true => Cow::Owned(spec.platform.without_background()),
            false => Cow::Borrowed(&spec.platform),
        };
        let stream = |what: &str, cpu: usize| Rng::stream(spec.seed, &format!("{what}/{cpu}"));
        let jitter = |cpu| Jitter::new(stream("irq", cpu), platform.noise.irq_jitter_ns);
        let out = Out::new(observers, platform);
        let calibration = platform.cpus[platform.calibration_cpu.at()].capacity;
        let setup = Setup {
            seed: spec.seed,
            work_ppm: platform.noise.work_ppm,
            own_tasks: spec.workload.tasks.len() as u32,
            unit_capacity: u64::from(calibration),
            want_program_events: out.wants(Interest::PROGRAM),
            want_steps: out.wants(Interest::STEPS),
        };
        let slots = Slots { nr_cpus: platform.nr_cpus() as u32, nr_domains: platform.domains.len() as u32 };
        let strays = if platform.noise.interrupts.is_some() { platform.nr_cpus() } else { 0 };
        let nr_slots = platform.nr_cpus() * Slots::PER_CPU as usize + platform.domains.len() + 2 + strays;
        let mut machine = Machine::new(platform);
        machine.timers.add_groups(built.sched.groups.len());
        Ok(Kernel {
            m: machine,
            programs: Programs::new(&with_housekeeping(&spec.workload, platform), setup)?,
            ends_with_threads: spec.workload.duration.is_none(),
            effects: Effects::default(),
            s: built.sched,
            fair: built.fair,
            rt: built.rt,
            dl: built.dl,
            placement: built.placement,
            balancer: Some(built.balancer),
            cpufreq_hears_all: built.cpufreq.iter().any(|g| g.hears_every_update()),
            cpufreq_wakes_idle: built.cpufreq.iter().any(|g| g.wakes_idle_cpus()),
            cpufreq: built.cpufreq,
            cpuidle: injected.cpuidle.unwrap_or(built.cpuidle),
            foresight: None,
            workers: Workers::default(),
            slot: 0,
            queue: EventQueue::with_slots(nr_slots),
            slots,
            cpus: (0..platform.nr_cpus())
                .map(|c| CpuContext::new(jitter(c), stream("cpuidle", c), stream("balance", c)))
                .collect(),
            strays: (0..strays).map(|c| Stray::new(stream("interrupts", c))).collect(),
            out,
            error: None,
            slices: 0,
            events: 0,
            seed: spec.seed,
        })
    }

    fn run(&mut self, end: u64) -> Result<(), RunError> {
        while let Some((Ns(at), slot)) = self.queue.pop_before(Ns(end)) {
            (self.s.now, self.slot) = (at, slot);
            self.events += 1;
            match self.slots.source(slot) {
                Source::Step(cpu) => self.step(cpu),
                Source::Tick(cpu) => self.tick(cpu),
                Source::Timer(cpu) => self.timer_interrupt(cpu),
                Source::Kick(cpu) => self.kick(cpu),
                Source::Ipi(cpu) => self.ipi(cpu),
                Source::Softirq(cpu) => self.softirq(cpu),
                Source::Clock(domain) => self.clock_changed(domain),
                Source::Devices => self.device_interrupt(),
                Source::Latency => self.update_cpu_latency(),
                Source::Stray(cpu) => self.stray_interrupt(cpu),
            }
            if !self.s.bandwidth_notes.is_empty() {
                self.bandwidth_notes();
            }
            if self.workers.raised() {
                self.irq_work_interrupt();
            }
            self.program_hrtimers();
            if self.error.is_some() {
                return Err(self.error.take().expect("looked at"));
            }
            if self.ends_with_threads && self.programs.alive() == 0 {
                return Ok(());
            }
        }
        self.s.now = end;
        Ok(())
    }

    fn finish(mut self) -> RunSummary {
        let end = self.s.now;
        self.late_jobs();
        let work = self.work_done();
        let Kernel { out, m, programs, events, slices, .. } = self;
        for observer in out.observers.iter_mut() {
            observer.finish(Ns(end));
        }
        RunSummary {
            digest: out.digest.finish(),
            events,
            slices,
            end: Ns(end),
            work,
            energy: m.energy.totals(end),
            deadlock: programs.deadlocked(),
        }
    }

    /// The CPU that handles the event; the first where the event is of none.
    pub(crate) fn executing(&self) -> CpuId {
        match self.slots.source(self.slot) {
            Source::Step(cpu)
            | Source::Tick(cpu)
            | Source::Timer(cpu)
            | Source::Kick(cpu)
            | Source::Ipi(cpu)
            | Source::Softirq(cpu)
            | Source::Stray(cpu) => cpu,
            Source::Clock(_) | Source::Devices | Source::Latency => CpuId(0),
        }
    }

    /// Work that the workload's threads have executed by now.
    fn work_done(&mut self) -> u128 {
        let end = self.s.now;
        (0..self.s.nr_cpus() as u32).for_each(|cpu| self.m.account(CpuId(cpu), end));
        let ours = self.s.tasks.iter().filter(|t| t.pid != IDLE && !t.per_cpu_kthread);
        let ours = ours.filter(|t| self.programs.is_own(self.programs.task(t.pid)));
        ours.map(|t| self.m.executed(t.pid)).sum()
    }

    /// Sets the time at which a source speaks next, replacing what it had.
    #[inline]
    pub(crate) fn arm(&mut self, source: Source, at: u64) {
        self.queue.schedule(self.slots.of(source), Ns(at));
    }

    #[inline]
    pub(crate) fn disarm(&mut self, source: Source) {
        self.queue.cancel(self.slots.of(source));
    }

    /// A scheduler tracepoint on `cpu`, now.
    #[inline(always)]
    pub(crate) fn trace_sched(&mut self, cpu: CpuId, event: Event) {
        self.out.tracepoint(self.s.now, cpu, Interest::SCHED, event);
    }

    /// The priority a tracepoint shows.
    #[inline]
    pub(crate) fn prio(&self, pid: Pid) -> u8 {
        self.s.tasks[pid.at()].prio
    }
}

/// The workload, and after it the background threads of the platform.
fn with_housekeeping(workload: &Workload, platform: &Platform) -> Workload {
    let mut workload = workload.clone();
    for noise in &platform.noise.housekeeping {
        let pinned = |cpu| Some(CpuSet::one(CpuId(cpu)));
        let homes: Vec<Option<CpuSet>> =
            if noise.per_cpu { (0..platform.nr_cpus() as u32).map(pinned).collect() } else { vec![None] };
        for cpus in homes {
            let name =
                cpus.as_ref().and_then(CpuSet::min).map_or(noise.name.clone(), |c| format!("{}/{c}", noise.name));
            let work = Op::Run(Amount::Random(Dist::Exponential { mean: noise.work_ns }));
            let wait = Op::Sleep(Amount::Random(Dist::Exponential { mean: noise.interval_ns }));
            workload.tasks.push(TaskSpec { cpus, ..TaskSpec::new(name, forever(vec![wait, work])) });
        }
    }
    workload
}
