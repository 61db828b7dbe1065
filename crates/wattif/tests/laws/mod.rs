//! What the trace of any scheduler obeys, checked event by event: a thread runs where it was put, on one CPU at a time, and
//! only after it was woken; a CPU sleeps only when idle, and not while a thread waits for it.

use std::collections::BTreeMap;
use wattif_model::run::RunSpec;
use wattif_model::trace::{Event, Interest, Observer, PrevState, ThreadInfo};
use wattif_model::workload::{Op, TaskSpec, Workload};
use wattif_model::{CpuId, CpuSet, Ns, Pid};

/// An idle CPU that has work needs no longer: longer than leaving the deepest state of any platform.
const PATIENCE: Ns = Ns::from_ms(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    New,
    Queued,
    Runs,
    Asleep,
    Waking,
    Dead,
}

struct Thread {
    info: ThreadInfo,
    state: State,
    cpu: CpuId,
    since: Ns,
    allowed: Option<CpuSet>,
}

#[derive(Clone, Copy)]
struct Cpu {
    curr: Pid,
    since: Ns,
    asleep: bool,
}

/// Panics when a law is broken.
pub struct Laws {
    workload: Workload,
    threads: BTreeMap<Pid, Thread>,
    cpus: Vec<Cpu>,
    now: Ns,
}

impl Laws {
    /// For a run of `spec`.
    pub fn new(spec: &RunSpec) -> Laws {
        let cpu = Cpu { curr: Pid(0), since: Ns::ZERO, asleep: false };
        let cpus = vec![cpu; spec.platform.nr_cpus()];
        Laws { workload: spec.workload.clone(), threads: BTreeMap::new(), cpus, now: Ns::ZERO }
    }

    /// Where threads of a task may run, if that does not change.
    fn allowed(&self, task: &str) -> Option<CpuSet> {
        let spec = self.workload.tasks.iter().find(|t| t.name == task)?;
        let fixed = !spec.program.ops.iter().any(|op| matches!(op, Op::SetAffinity(_)));
        spec.cpus.clone().filter(|_| fixed)
    }

    /// Some group has a limit, and the task is in a group: it may be throttled.
    fn is_limited(&self, task: &str) -> bool {
        let limits = self.workload.groups.iter().any(|g| g.quota.is_some());
        let grouped = |t: &TaskSpec| t.group != 0 || t.program.ops.iter().any(|op| matches!(op, Op::SetGroup(_)));
        limits && self.workload.tasks.iter().any(|t| t.name == task && grouped(t))
    }

    fn to(&mut self, pid: Pid, from: State, to: State, cpu: CpuId) {
        let now = self.now;
        let t = self.threads.get_mut(&pid).expect("known before its first event");
        assert_eq!((t.state, t.cpu), (from, cpu), "{now}: {} on its way to {to:?}", t.info.comm);
        (t.state, t.since) = (to, now);
    }

    fn switch(&mut self, cpu: CpuId, prev: Pid, why: PrevState, next: Pid) {
        let c = self.cpus[cpu.at()];
        assert_eq!(c.curr, prev, "{}: who leaves CPU {cpu}", self.now);
        assert_ne!(prev, next, "{}: a switch is to somebody else", self.now);
        assert!(!c.asleep, "{}: CPU {cpu} switches in its sleep", self.now);
        if prev == Pid(0) {
            self.nobody_waits(cpu);
        } else {
            let left = match why {
                PrevState::Running => State::Queued,
                PrevState::Sleeping | PrevState::DiskSleep => State::Asleep,
                PrevState::Dead => State::Dead,
            };
            self.to(prev, State::Runs, left, cpu);
        }
        if let Some(t) = self.threads.get_mut(&next) {
            let here = t.allowed.as_ref().is_none_or(|a| a.contains(cpu));
            assert!(here, "{}: {} may not run on CPU {cpu}", self.now, t.info.comm);
            self.to(next, State::Queued, State::Runs, cpu);
        }
        self.cpus[cpu.at()] = Cpu { curr: next, since: self.now, asleep: false };
    }

    /// No thread has been waiting for this idle CPU for long.
    fn nobody_waits(&self, cpu: CpuId) {
        let throttled = |t: &Thread| t.info.policy == "SCHED_DEADLINE" || self.is_limited(&t.info.task);
        for t in self.threads.values().filter(|t| t.cpu == cpu && t.state == State::Queued && !throttled(t)) {
            let waited = self.now.since(t.since.max(self.cpus[cpu.at()].since));
            assert!(waited < PATIENCE.0, "{}: {} waited {waited} ns for idle CPU {cpu}", self.now, t.info.comm);
        }
    }

    fn cpu_idle(&mut self, cpu: CpuId, enters: bool) {
        let c = &mut self.cpus[cpu.at()];
        assert_eq!(c.curr, Pid(0), "{}: CPU {cpu} has a thread", self.now);
        assert_ne!(c.asleep, enters, "{}: CPU {cpu} enters and leaves in turn", self.now);
        c.asleep = enters;
    }
}

impl Observer for Laws {
    fn interest(&self) -> Interest {
        Interest::SCHED.and(Interest::IDLE)
    }
    fn thread(&mut self, info: &ThreadInfo) {
        // The machine's own threads sleep since long before the run, those of a CPU on that; others get theirs with the first wake-up.
        let number = |(_, of): (&str, &str)| of.split([':', '-']).next()?.parse().ok().map(CpuId);
        let own = info.comm.rsplit_once('/').filter(|_| !info.workload).and_then(number);
        let state = if info.workload { State::New } else { State::Asleep };
        let is_stopper = info.comm.starts_with("migration/");
        let allowed = own.filter(|_| !is_stopper).map_or(self.allowed(&info.task), |cpu| Some(CpuSet::one(cpu)));
        let cpu = own.unwrap_or(CpuId(0));
        let new = Thread { info: info.clone(), state, cpu, since: self.now, allowed };
        assert!(self.threads.insert(info.pid, new).is_none(), "pids are not used twice");
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        assert!(at >= self.now, "time does not go back");
        self.now = at;
        match *event {
            Event::SchedSwitch { prev_pid, prev_state, next_pid, .. } => {
                self.switch(cpu, prev_pid, prev_state, next_pid)
            }
            Event::SchedWaking { pid, target_cpu, .. } => self.to(pid, State::Asleep, State::Waking, target_cpu),
            Event::SchedWakeup { pid, target_cpu, .. } => self.to(pid, State::Waking, State::Queued, target_cpu),
            Event::SchedWakeupNew { pid, target_cpu, .. } => {
                self.threads.get_mut(&pid).expect("known").cpu = target_cpu;
                self.to(pid, State::New, State::Queued, target_cpu);
            }
            Event::SchedMigrateTask { pid, orig_cpu, dest_cpu, .. } => {
                let t = self.threads.get_mut(&pid).expect("known");
                assert_eq!(t.cpu, orig_cpu, "{at}: {} moves from where it is", t.info.comm);
                assert!(t.state != State::Runs && orig_cpu != dest_cpu, "{at}: {} moves", t.info.comm);
                (t.cpu, t.since) = (dest_cpu, at);
            }
            Event::CpuIdle { state } => self.cpu_idle(cpu, state != Event::IDLE_EXIT),
            _ => {}
        }
    }
    fn finish(&mut self, end: Ns) {
        self.now = end;
        for cpu in 0..self.cpus.len() as u32 {
            if self.cpus[cpu as usize].curr == Pid(0) {
                self.nobody_waits(CpuId(cpu));
            }
        }
    }
}
