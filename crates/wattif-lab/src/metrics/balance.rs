//! Is the work spread over the CPUs, and what does it cost to keep it so? From wake-ups, switches and migrations, and the
//! balancer's passes.

use super::pids::PidTable;
use serde::{Deserialize, Serialize};
use wattif_model::platform::Platform;
use wattif_model::trace::{Event, Interest, Observer, PrevState, ThreadInfo};
use wattif_model::{CpuId, Ns, Pid};

/// How runnable threads were spread, and what balancing did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BalanceReport {
    /// Runnable threads of the fullest CPU minus those of the emptiest, mean over time.
    pub spread: f64,
    /// CPU seconds that idle CPUs could have given to threads that waited elsewhere.
    pub wasted_s: f64,
    /// Passes of the balancer over a domain; `None`, as the two below, where a trace does not tell them.
    pub passes: Option<u64>,
    /// Tasks they pulled or had pushed.
    pub moved: Option<u64>,
    /// Time of the CPUs that the passes took, s (estimated, see the platform's costs).
    pub cost_s: Option<f64>,
    /// Runnable threads of the workload on each cluster, mean over time.
    pub runnable: Vec<f64>,
}

#[derive(Clone, Copy, Debug)]
struct Thread {
    workload: bool,
    /// The CPU it is runnable on.
    on: Option<usize>,
}

/// Listens to scheduler events and balance passes.
#[derive(Clone, Debug)]
pub struct Balance {
    threads: PidTable<Thread>,
    cluster_of: Vec<usize>,
    /// Runnable threads by CPU, and how many CPUs have 0, 1, … of them.
    nr_running: Vec<usize>,
    cpus_with: Vec<usize>,
    /// Threads that wait behind another.
    waiting: usize,
    /// Runnable threads of the workload by cluster.
    by_cluster: Vec<u64>,
    since: Ns,
    spread_ns: u128,
    wasted_ns: u128,
    by_cluster_ns: Vec<u128>,
    /// None in a trace that has no event of them.
    passes: Option<Passes>,
}

/// What the balancer did.
#[derive(Clone, Copy, Debug, Default)]
struct Passes {
    count: u64,
    moved: u64,
    cost_ns: u128,
}

impl Balance {
    /// For a run, which tells every pass.
    pub fn of_run(platform: &Platform) -> Balance {
        Balance { passes: Some(Passes::default()), ..Balance::new(platform) }
    }

    /// For events of this machine.
    pub fn new(platform: &Platform) -> Balance {
        Balance {
            threads: PidTable::default(),
            cluster_of: platform.cpus.iter().map(|c| c.cluster.at()).collect(),
            nr_running: vec![0; platform.nr_cpus()],
            cpus_with: vec![platform.nr_cpus()],
            waiting: 0,
            by_cluster: vec![0; platform.clusters.len()],
            since: Ns::ZERO,
            spread_ns: 0,
            wasted_ns: 0,
            by_cluster_ns: vec![0; platform.clusters.len()],
            passes: None,
        }
    }

    /// The report of a run that ended at `end`.
    pub fn report(&self, end: Ns) -> BalanceReport {
        let mean = |sum: u128| if end.0 == 0 { 0.0 } else { sum as f64 / end.0 as f64 };
        BalanceReport {
            spread: mean(self.spread_ns),
            wasted_s: self.wasted_ns as f64 / 1e9,
            passes: self.passes.map(|p| p.count),
            moved: self.passes.map(|p| p.moved),
            cost_s: self.passes.map(|p| p.cost_ns as f64 / 1e9),
            runnable: self.by_cluster_ns.iter().map(|&sum| mean(sum)).collect(),
        }
    }

    /// What held since the last change is added up.
    #[inline(always)]
    fn account(&mut self, at: Ns) {
        // A switch changes two things at a time.
        if at == self.since {
            return;
        }
        let passed = u128::from(at.since(self.since));
        self.since = at;
        let least = self.cpus_with.iter().position(|&n| n > 0).unwrap_or(0);
        let idle = self.cpus_with[0];
        self.spread_ns += passed * (self.cpus_with.len() - 1 - least) as u128;
        self.wasted_ns += passed * idle.min(self.waiting) as u128;
        for (sum, &n) in self.by_cluster_ns.iter_mut().zip(&self.by_cluster) {
            *sum += passed * u128::from(n);
        }
    }

    /// A thread is runnable on another CPU now, or nowhere.
    fn place(&mut self, at: Ns, pid: Pid, on: Option<usize>) {
        let on = on.filter(|&cpu| cpu < self.nr_running.len());
        let Some(thread) = self.threads.get_mut(pid).filter(|t| t.on != on) else { return };
        let (before, workload) = (std::mem::replace(&mut thread.on, on), thread.workload);
        self.account(at);
        if let Some(from) = before {
            self.count(from, -1, workload);
        }
        if let Some(to) = on {
            self.count(to, 1, workload);
        }
    }

    #[inline(always)]
    fn count(&mut self, cpu: usize, change: isize, workload: bool) {
        let before = self.nr_running[cpu];
        let after = before.checked_add_signed(change).expect("who leaves was there");
        self.nr_running[cpu] = after;
        if self.cpus_with.len() <= after {
            self.cpus_with.resize(after + 1, 0);
        }
        self.cpus_with[before] -= 1;
        self.cpus_with[after] += 1;
        // The last entry is that of the fullest CPU.
        while self.cpus_with.len() > 1 && self.cpus_with.last() == Some(&0) {
            self.cpus_with.pop();
        }
        self.waiting = self.waiting + after.saturating_sub(1) - before.saturating_sub(1);
        if workload {
            let n = &mut self.by_cluster[self.cluster_of[cpu]];
            *n = n.checked_add_signed(change as i64).expect("who leaves was there");
        }
    }
}

impl Observer for Balance {
    fn interest(&self) -> Interest {
        Interest::SCHED.and(Interest::BALANCE)
    }
    fn thread(&mut self, thread: &ThreadInfo) {
        self.threads.entry(thread.pid, || Thread { workload: thread.workload, on: None });
    }
    fn ran_before(&mut self, cpu: CpuId, pid: Pid) {
        self.place(Ns::ZERO, pid, Some(cpu.at()));
    }
    // In [`Metrics::event`], which has looked at the kind of event already.
    #[inline(always)]
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        match *event {
            Event::SchedWakeup { pid, target_cpu, .. } | Event::SchedWakeupNew { pid, target_cpu, .. } => {
                self.place(at, pid, Some(target_cpu.at()));
            }
            Event::SchedMigrateTask { pid, dest_cpu, .. } if self.threads.get(pid).is_some_and(|t| t.on.is_some()) => {
                self.place(at, pid, Some(dest_cpu.at()));
            }
            Event::SchedSwitch { prev_pid, prev_state, next_pid, .. } => {
                if prev_state != PrevState::Running {
                    self.place(at, prev_pid, None);
                }
                self.place(at, next_pid, Some(cpu.at()));
            }
            Event::BalancePass(pass) => {
                let passes = self.passes.get_or_insert_default();
                passes.count += 1;
                passes.cost_ns += u128::from(pass.cost_ns);
            }
            Event::BalanceMoved { tasks } => self.passes.get_or_insert_default().moved += u64::from(tasks),
            _ => {}
        }
    }
    fn finish(&mut self, end: Ns) {
        self.account(end);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::*;
    use super::*;
    use PrevState::*;

    fn on(pid: u32, cpu: u32) -> Event {
        Event::SchedWakeupNew { pid: Pid(pid), prio: 120, target_cpu: CpuId(cpu) }
    }

    /// Three threads on CPU 0 for a second, then one of them is moved to CPU 2 and one ends.
    #[test]
    fn spread_and_waste() {
        let mut b = Balance::new(&platform());
        for pid in 1..=3 {
            b.thread(&thread(pid, "a"));
        }
        let s = 1_000_000_000;
        let moved = Event::SchedMigrateTask { pid: Pid(2), prio: 120, orig_cpu: CpuId(0), dest_cpu: CpuId(2) };
        play(
            &mut b,
            &[
                (0, 0, on(1, 0)),
                (0, 0, on(2, 0)),
                (0, 0, on(3, 0)),
                (0, 0, switch(0, 1, Running)),
                (s, 2, moved),
                (s, 0, switch(1, 3, Dead)),
            ],
        );
        b.finish(Ns(2 * s));
        let r = b.report(Ns(2 * s));
        // A second of 3 − 0 with two waiting, one of 1 − 0.
        assert_eq!((r.spread, r.wasted_s), (2.0, 2.0));
        assert_eq!(r.runnable, [2.0, 0.5]);
    }

    #[test]
    fn who_ran_before_is_runnable_from_the_beginning() {
        let mut b = Balance::new(&platform());
        b.thread(&thread(1, "a"));
        b.ran_before(CpuId(0), Pid(1));
        play(&mut b, &[(5, 0, switch(1, 0, Sleeping))]);
        b.finish(Ns(10));
        let r = b.report(Ns(10));
        assert_eq!((r.spread, r.runnable), (0.5, vec![0.5, 0.0]));
    }

    #[test]
    fn who_sleeps_and_who_is_unknown_does_not_count() {
        let mut b = Balance::new(&platform());
        b.thread(&thread(1, "a"));
        let moved = Event::SchedMigrateTask { pid: Pid(1), prio: 120, orig_cpu: CpuId(0), dest_cpu: CpuId(1) };
        play(&mut b, &[(0, 0, moved), (0, 0, on(9, 0)), (5, 7, switch(0, 1, Running))]);
        b.finish(Ns(10));
        assert_eq!(b.report(Ns(10)), BalanceReport { runnable: vec![0.0, 0.0], ..BalanceReport::default() });
    }
}
