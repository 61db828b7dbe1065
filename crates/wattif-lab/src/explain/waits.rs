//! What did threads wait for? From `sched_waking` until a thread of the workload is switched in, every nanosecond is in
//! exactly one bin; the first of these that holds:
//!
//! 1. **throttling**: the thread's group has used its run time on the CPU where the thread waits;
//! 2. **idle exit**: that CPU is in an idle state, or on its way in or out;
//! 3. **frequency**: somebody else runs there, below the highest frequency: of a stretch at speed c of C, the first
//!    ⌊Δt·(C − c)/C⌋ ns, which the other would not have needed at full speed;
//! 4. **behind**: the rest of that stretch, by task of whoever runs;
//! 5. **migration**: nobody runs there, and the thread came from another CPU since it was woken: interrupt and switch there;
//! 6. **path**: nobody runs there, and the thread stayed: interrupt, wake-up and switch.
//!
//! A CPU that a timer has to wake leaves its idle state *before* `sched_waking`. That time is no part of the wake-up latency;
//! it is kept beside, as **before waking**.

use crate::metrics::pids::PidTable;
use std::collections::BTreeMap;
use wattif_model::platform::Platform;
use wattif_model::trace::{Event, Interest, Observer, ThreadInfo};
use wattif_model::workload::GroupSpec;
use wattif_model::{CpuId, Ns, Pid};

/// Waiting of a run, ns, by cause.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitSplit {
    /// Waits that ended.
    pub count: u64,
    /// Throttled groups.
    pub throttling: u64,
    /// Idle exit.
    pub idle_exit: u64,
    /// Others ran below the highest frequency.
    pub frequency: u64,
    /// Others ran, by their task.
    pub behind: BTreeMap<String, u64>,
    /// The way to another CPU.
    pub migration: u64,
    /// The way on the same CPU.
    pub path: u64,
    /// Not part of the others: idle exit before `sched_waking`.
    pub before_waking: u64,
}

impl WaitSplit {
    /// All bins but `before_waking`: the sum of `wakeup_latency_us`.
    pub fn total(&self) -> u64 {
        self.bins().iter().map(|(_, ns)| ns).sum()
    }
    /// Every bin with its name, in the stated order.
    pub fn bins(&self) -> Vec<(String, u64)> {
        let named = |name: &str, ns| (name.to_string(), ns);
        let mut bins = vec![
            named("throttling", self.throttling),
            named("idle exit", self.idle_exit),
            named("frequency too low", self.frequency),
        ];
        bins.extend(self.behind.iter().map(|(task, ns)| (format!("behind {task}"), *ns)));
        bins.extend([named("migration", self.migration), named("path", self.path)]);
        bins
    }
}

/// Bins while the run goes on.
#[derive(Clone, Copy, Debug, Default)]
struct Bins {
    throttling: u64,
    idle_exit: u64,
    frequency: u64,
    migration: u64,
    path: u64,
}

#[derive(Clone, Copy, Debug)]
struct Thread {
    /// Index into the names of tasks.
    task: usize,
    workload: bool,
    group: u32,
    on_cpu: bool,
    waiting: Option<Waiting>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// Charged up to here.
    since: Ns,
    cpu: usize,
    moved: bool,
}

#[derive(Clone, Debug)]
struct Cpu {
    running: Pid,
    asleep: bool,
    /// Speed now and at most.
    speed: (u64, u64),
    /// Groups throttled here.
    throttled: Vec<u32>,
    waiters: Vec<Pid>,
    /// How late the CPU came out of the idle state it left, until somebody is switched in.
    late_ns: u64,
}

/// Listens to wake-ups, switches, moves, idle states, frequencies and throttling.
#[derive(Clone, Debug)]
pub struct Waits<'p> {
    platform: &'p Platform,
    groups: &'p [GroupSpec],
    cpus: Vec<Cpu>,
    threads: PidTable<Thread>,
    names: Vec<String>,
    behind: Vec<u64>,
    bins: Bins,
    count: u64,
    before_waking: u64,
    /// What a wait has cost so far is only counted when it ends.
    open: PidTable<Open>,
}

/// A wait that has not ended.
#[derive(Clone, Debug, Default)]
struct Open {
    bins: Bins,
    behind: Vec<(usize, u64)>,
}

impl<'p> Waits<'p> {
    /// For this machine and the groups of the workload.
    pub fn new(platform: &'p Platform, groups: &'p [GroupSpec]) -> Waits<'p> {
        let speed = |cpu: usize, opp: usize| speed(platform, cpu, opp);
        let cpu = |c| Cpu {
            running: Pid::default(),
            asleep: false,
            speed: speed(c, 0),
            throttled: Vec::new(),
            waiters: Vec::new(),
            late_ns: 0,
        };
        Waits {
            platform,
            groups,
            cpus: (0..platform.nr_cpus()).map(cpu).collect(),
            threads: PidTable::default(),
            names: Vec::new(),
            behind: Vec::new(),
            bins: Bins::default(),
            count: 0,
            before_waking: 0,
            open: PidTable::default(),
        }
    }

    /// Of all waits that ended.
    pub fn split(&self) -> WaitSplit {
        let behind = self.names.iter().cloned().zip(self.behind.iter().copied());
        WaitSplit {
            count: self.count,
            throttling: self.bins.throttling,
            idle_exit: self.bins.idle_exit,
            frequency: self.bins.frequency,
            behind: behind.filter(|(_, ns)| *ns > 0).collect(),
            migration: self.bins.migration,
            path: self.bins.path,
            before_waking: self.before_waking,
        }
    }

    /// Charges everybody who waits on a CPU whose state is about to change.
    fn charge(&mut self, at: Ns, cpu: usize) {
        for i in 0..self.cpus[cpu].waiters.len() {
            let pid = self.cpus[cpu].waiters[i];
            self.charge_one(at, cpu, pid);
        }
    }

    fn charge_one(&mut self, at: Ns, cpu: usize, pid: Pid) {
        let c = &self.cpus[cpu];
        let behind = self.threads.get(c.running).filter(|_| c.running != pid).map(|t| t.task);
        let Some(thread) = self.threads.get_mut(pid) else { return };
        let Some(waiting) = &mut thread.waiting else { return };
        let ns = at.since(waiting.since);
        waiting.since = at;
        let Some(open) = self.open.get_mut(pid).filter(|_| ns > 0) else { return };
        if c.throttled.iter().any(|&g| is_inside(self.groups, thread.group, g)) {
            open.bins.throttling += ns;
        } else if c.asleep {
            open.bins.idle_exit += ns;
        } else if let Some(task) = behind {
            let (now, most) = c.speed;
            let slow = (u128::from(ns) * u128::from(most - now) / u128::from(most)) as u64;
            open.bins.frequency += slow;
            match open.behind.iter_mut().find(|(t, _)| *t == task) {
                Some((_, sum)) => *sum += ns - slow,
                None => open.behind.push((task, ns - slow)),
            }
        } else if waiting.moved {
            open.bins.migration += ns;
        } else {
            open.bins.path += ns;
        }
    }

    /// As the metric counts: the first of several wake-ups, none while the thread still runs.
    fn waking(&mut self, at: Ns, here: CpuId, pid: Pid, target: CpuId, in_irq: bool) {
        let Some(t) = self.threads.get_mut(pid) else { return };
        if t.on_cpu || !t.workload || t.waiting.is_some() || target.at() >= self.cpus.len() {
            return;
        }
        t.waiting = Some(Waiting { since: at, cpu: target.at(), moved: false });
        *self.open.entry(pid, Open::default) = Open::default();
        self.cpus[target.at()].waiters.push(pid);
        if in_irq {
            self.before_waking += self.cpus.get(here.at()).map_or(0, |c| c.late_ns);
        }
    }

    fn moved(&mut self, at: Ns, pid: Pid, to: CpuId) {
        let Some(from) = self.threads.get(pid).and_then(|t| t.waiting).map(|w| w.cpu) else { return };
        if from == to.at() || to.at() >= self.cpus.len() {
            return;
        }
        self.charge_one(at, from, pid);
        self.cpus[from].waiters.retain(|w| *w != pid);
        self.cpus[to.at()].waiters.push(pid);
        if let Some(w) = self.threads.get_mut(pid).and_then(|t| t.waiting.as_mut()) {
            (w.cpu, w.moved) = (to.at(), true);
        }
    }

    fn switched(&mut self, at: Ns, cpu: usize, prev: Pid, next: Pid) {
        self.moved(at, next, CpuId(cpu as u32)); // a trace may have lost the move
        self.charge(at, cpu);
        if let Some(prev) = self.threads.get_mut(prev) {
            prev.on_cpu = false;
        }
        (self.cpus[cpu].running, self.cpus[cpu].late_ns) = (next, 0);
        let Some(thread) = self.threads.get_mut(next) else { return };
        thread.on_cpu = true;
        if thread.waiting.take().is_some() {
            self.cpus[cpu].waiters.retain(|w| *w != next);
            self.ended(next);
        }
    }

    fn ended(&mut self, pid: Pid) {
        let Some(open) = self.open.get_mut(pid).map(std::mem::take) else { return };
        self.count += 1;
        self.bins.throttling += open.bins.throttling;
        self.bins.idle_exit += open.bins.idle_exit;
        self.bins.frequency += open.bins.frequency;
        self.bins.migration += open.bins.migration;
        self.bins.path += open.bins.path;
        open.behind.into_iter().for_each(|(task, ns)| self.behind[task] += ns);
    }

    fn throttle(&mut self, at: Ns, cpu: usize, group: u32, on: bool) {
        self.charge(at, cpu);
        let list = &mut self.cpus[cpu].throttled;
        list.retain(|g| *g != group);
        if on {
            list.push(group);
        }
    }
}

/// Is a group that one, or below it?
fn is_inside(groups: &[GroupSpec], group: u32, of: u32) -> bool {
    let path = |g: u32| groups.get(g as usize).map(|g| g.path.as_str());
    let below = |inner: &str, outer: &str| inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'));
    group == of || path(group).zip(path(of)).is_some_and(|(inner, outer)| below(inner, outer))
}

/// Speed of a CPU at an operating point, and at the highest.
fn speed(platform: &Platform, cpu: usize, opp: usize) -> (u64, u64) {
    let opps = &platform.domain_of(CpuId(cpu as u32)).opps;
    let at = |opp: usize| opps.get(opp).or(opps.last()).map_or(1, |o| u64::from(o.capacity));
    let most = at(opps.len() - 1).max(1);
    (at(opp).min(most), most)
}

impl Observer for Waits<'_> {
    fn interest(&self) -> Interest {
        Interest::SCHED.and(Interest::IDLE).and(Interest::FREQ).and(Interest::GROUPS)
    }
    fn thread(&mut self, thread: &ThreadInfo) {
        let found = self.names.iter().position(|n| *n == thread.task);
        let task = found.unwrap_or(self.names.len());
        if found.is_none() {
            self.names.push(thread.task.clone());
            self.behind.push(0);
        }
        let new = || Thread { task, workload: thread.workload, group: u32::MAX, on_cpu: false, waiting: None };
        self.threads.entry(thread.pid, new).task = task;
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        let c = cpu.at();
        if c >= self.cpus.len() {
            return;
        }
        match *event {
            Event::SchedWaking { pid, target_cpu, in_irq, .. } => self.waking(at, cpu, pid, target_cpu, in_irq),
            Event::SchedMigrateTask { pid, dest_cpu, .. } => self.moved(at, pid, dest_cpu),
            Event::SchedSwitch { prev_pid, next_pid, .. } => self.switched(at, c, prev_pid, next_pid),
            Event::CpuIdle { state } => {
                self.charge(at, c);
                self.cpus[c].asleep = state != Event::IDLE_EXIT;
            }
            Event::IdlePeriod(period) => self.cpus[c].late_ns = period.late_ns,
            Event::CpuFrequency { domain, opp, .. } if domain.at() < self.platform.domains.len() => {
                for cpu in self.platform.domains[domain.at()].cpus.iter() {
                    self.charge(at, cpu.at());
                    self.cpus[cpu.at()].speed = speed(self.platform, cpu.at(), opp as usize);
                }
            }
            Event::CgroupAttachTask { pid, group } => {
                self.threads.get_mut(pid).into_iter().for_each(|t| t.group = group);
            }
            Event::CfsThrottle { group } => self.throttle(at, c, group, true),
            Event::CfsUnthrottle { group, .. } => self.throttle(at, c, group, false),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::testbed::*;
    use wattif_model::trace::PrevState::*;

    fn waking_on(pid: u32, cpu: u32) -> Event {
        Event::SchedWaking { pid: Pid(pid), prio: 120, target_cpu: CpuId(cpu), in_irq: false }
    }

    fn split(events: &[(u64, u32, Event)]) -> WaitSplit {
        let p = platform();
        let mut w = Waits::new(&p, &[]);
        w.thread(&thread(1, "ui"));
        w.thread(&thread(2, "hog"));
        w.thread(&thread(3, "ui"));
        w.event(Ns(0), CpuId(0), &Event::CgroupAttachTask { pid: Pid(1), group: 1 });
        w.event(Ns(0), CpuId(0), &frequency(0, 1));
        play(&mut w, events);
        w.split()
    }

    #[test]
    fn behind_somebody_and_the_share_of_the_frequency() {
        // 100 ns behind the hog at full speed, 100 at half: 50 of these are the frequency's.
        let s = split(&[
            (0, 0, switch(0, 2, Running)),
            (100, 1, waking_on(1, 0)),
            (200, 0, frequency(0, 0)),
            (300, 0, switch(2, 1, Running)),
        ]);
        assert_eq!((s.frequency, s.behind["hog"], s.total(), s.count), (50, 150, 200, 1));
    }

    #[test]
    fn idle_exit_then_path_or_migration() {
        let stay = split(&[
            (0, 0, idle(1)),
            (100, 1, waking_on(1, 0)),
            (160, 0, idle(Event::IDLE_EXIT)),
            (170, 0, switch(0, 1, Running)),
        ]);
        assert_eq!((stay.idle_exit, stay.path, stay.migration), (60, 10, 0));
        let moved = Event::SchedMigrateTask { pid: Pid(1), prio: 120, orig_cpu: CpuId(0), dest_cpu: CpuId(1) };
        let away = split(&[(100, 1, waking_on(1, 0)), (100, 1, moved), (130, 1, switch(0, 1, Running))]);
        assert_eq!((away.path, away.migration, away.total()), (0, 30, 30));
    }

    #[test]
    fn throttling_comes_first_and_open_waits_do_not_count() {
        let s = split(&[
            (0, 0, switch(0, 2, Running)),
            (10, 0, Event::CfsThrottle { group: 1 }),
            (20, 1, waking_on(1, 0)),
            (50, 0, Event::CfsUnthrottle { group: 1, waited_ns: 40 }),
            (60, 0, switch(2, 1, Running)),
            (70, 0, waking_on(3, 0)),
        ]);
        assert_eq!((s.throttling, s.behind["hog"], s.total(), s.count), (30, 10, 40, 1));
    }

    #[test]
    fn what_a_timer_waited_for_before_waking_is_beside() {
        let period = wattif_model::trace::IdlePeriod {
            state: 1,
            cause: wattif_model::trace::IdleCause::Timer,
            length_ns: 100,
            late_ns: 40,
        };
        let s = split(&[
            (0, 0, idle(1)),
            (140, 0, idle(Event::IDLE_EXIT)),
            (140, 0, Event::IdlePeriod(period)),
            (142, 0, waking(1)),
            (150, 0, switch(0, 1, Running)),
            (160, 0, waking(3)),
            (170, 0, switch(1, 3, Running)),
        ]);
        assert_eq!((s.before_waking, s.path, s.behind["ui"]), (40, 8, 10));
    }
}
