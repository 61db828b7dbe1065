//! A hand-built machine for tests of placement and balancing: always-runnable tasks on queues without a class.

use super::Sched;
use super::balance::Transaction;
use super::class::timeline::{Node, Timeline};
use super::rq::Rq;
use super::task::{NONE, OnRq, SchedEntity, State, Task};
use super::topology::{DomainParams, Topology};
use wattif_model::platform::Cpu;
use wattif_model::trace::{BalanceChoice, BalancePass};
use wattif_model::workload::Policy;
use wattif_model::{CpuId, CpuSet, Pid};

/// The machine, and what balancing asked of it.
pub(crate) struct Toy {
    /// Its state.
    pub s: Sched,
    /// CPUs whose stopper was kicked.
    pub kicks: Vec<CpuId>,
    /// What passes reported.
    pub choices: Vec<BalanceChoice>,
    /// CPUs whose blocked load was aged.
    pub aged: Vec<u32>,
    /// What the dice show.
    pub dice: u32,
    /// Queued tasks by CPU, in picking order, the running one not included.
    queues: Vec<Vec<Pid>>,
}

impl Toy {
    /// Idle CPUs, one second after start, with ticks of 4 ms.
    pub fn new(cpus: &[Cpu]) -> Toy {
        Toy::with_params(cpus, DomainParams::SINCE_5_10)
    }

    /// The same under the domains of a kernel.
    pub fn with_params(cpus: &[Cpu], params: DomainParams) -> Toy {
        let topology = Topology::of_cpus(cpus, params);
        let n = cpus.len();
        let rq = |c: usize| Rq {
            cpu: CpuId(c as u32),
            cpu_capacity_orig: cpus[c].capacity,
            cpu_capacity: cpus[c].capacity,
            uclamp_max: 1024,
            clock: 1_000_000_000,
            clock_task: 1_000_000_000,
            avg_idle: 1_000_000,
            sd: topology.sd_states(CpuId(c as u32)),
            ..Rq::default()
        };
        let mut s = Sched::bare(n, 4_000_000);
        s.now = 1_000_000_000;
        s.rqs = (0..n).map(rq).collect();
        s.topology = topology;
        Toy { s, kicks: Vec::new(), choices: Vec::new(), aged: Vec::new(), dice: 0, queues: vec![Vec::new(); n] }
    }

    /// An always-runnable nice-0 task on a CPU, cache cold.
    pub fn spawn(&mut self, cpu: u32) -> Pid {
        let pid = self.sleeper(cpu);
        self.attach(pid, CpuId(cpu));
        pid
    }

    /// One such task on each of these CPUs.
    pub fn spawn_on(&mut self, cpus: impl IntoIterator<Item = u32>) {
        for cpu in cpus {
            self.spawn(cpu);
        }
    }

    /// A task that sleeps; it last ran on this CPU.
    pub fn sleeper(&mut self, cpu: u32) -> Pid {
        let pid = Pid(self.s.tasks.len() as u32);
        let n = self.s.nr_cpus();
        self.s.tasks.push(Task {
            pid,
            state: State::Sleeping,
            cpu: CpuId(cpu),
            cpus: CpuSet::first(n),
            nr_cpus_allowed: n as u32,
            uclamp_max: 1024,
            ..Task::default()
        });
        let mut se = SchedEntity { cfs_rq: cpu as usize, ..SchedEntity::default() };
        (se.avg.load_avg, se.avg.util_avg, se.avg.runnable_avg) = (1024, 1024, 1024);
        self.s.se.push(se);
        pid
    }

    /// Restricts a task.
    pub fn pin(&mut self, pid: Pid, cpus: CpuSet) {
        let p = &mut self.s.tasks[pid.at()];
        (p.nr_cpus_allowed, p.cpus) = (cpus.len() as u32, cpus);
    }

    /// Makes it SCHED_IDLE.
    pub fn make_idle_policy(&mut self, pid: Pid) {
        self.s.tasks[pid.at()].policy = Policy::Idle;
        let se = self.s.se_of(pid);
        self.s.se[se].avg.load_avg = 3;
        self.refresh(self.s.tasks[pid.at()].cpu);
    }

    /// Tasks of each CPU.
    pub fn nr_running(&self) -> Vec<u32> {
        self.s.rqs.iter().map(|rq| rq.nr_running).collect()
    }

    /// Ticks later.
    pub fn advance(&mut self, ticks: u64) {
        self.s.now += ticks * self.s.tick_ns;
        for rq in &mut self.s.rqs {
            (rq.clock, rq.clock_task) = (self.s.now, self.s.now);
        }
    }

    /// Counts and averages from the queue.
    fn refresh(&mut self, cpu: CpuId) {
        let c = cpu.at();
        self.s.mark_touched(cpu);
        let curr = self.s.rqs[c].curr;
        let all: Vec<Pid> = self.queues[c].iter().copied().chain((curr != Pid(0)).then_some(curr)).collect();
        let idle = all.iter().filter(|p| self.s.task_has_idle_policy(**p)).count() as u32;
        let sum = |of: &dyn Fn(&SchedEntity) -> u64| all.iter().map(|p| of(&self.s.se[self.s.se_of(*p)])).sum::<u64>();
        let load = sum(&|se| se.avg.load_avg);
        let util = sum(&|se| se.avg.util_avg).min(u64::from(self.s.rqs[c].cpu_capacity_orig));
        let se_of_curr = if curr == Pid(0) { NONE } else { self.s.se_of(curr) };
        let mut tree = Timeline::default();
        for (key, pid) in self.queues[c].iter().enumerate() {
            tree.insert(Node { key: key as u64, vruntime: 0, se: self.s.se_of(*pid) });
        }
        let cfs = &mut self.s.cfs[c];
        (cfs.avg.load_avg, cfs.avg.util_avg, cfs.avg.runnable_avg) = (load, util, 1024 * all.len() as u64);
        (cfs.h_nr_running, cfs.idle_h_nr_running) = (all.len() as u32, idle);
        (cfs.curr, cfs.tree) = (se_of_curr, tree);
        self.s.rqs[c].nr_running = all.len() as u32;
        self.s.rd.overloaded |= all.len() > 1;
    }
}

impl Transaction for Toy {
    fn view(&self) -> &Sched {
        &self.s
    }
    fn state(&mut self) -> &mut Sched {
        &mut self.s
    }
    fn update_rq_clock(&mut self, cpu: CpuId) {
        self.s.rqs[cpu.at()].clock = self.s.now;
        self.s.rqs[cpu.at()].clock_task = self.s.now;
    }
    fn update_blocked_averages(&mut self, cpu: CpuId) -> bool {
        self.aged.push(cpu.0);
        false
    }
    fn detach(&mut self, pid: Pid, dst: CpuId) {
        let src = self.s.tasks[pid.at()].cpu;
        assert!(self.s.tasks[pid.at()].cpus.contains(dst), "a task stays where it may be");
        if self.s.rqs[src.at()].curr == pid {
            self.s.rqs[src.at()].curr = self.queues[src.at()].first().copied().unwrap_or(Pid(0));
            self.queues[src.at()].retain(|p| *p != self.s.rqs[src.at()].curr);
        } else {
            let before = self.queues[src.at()].len();
            self.queues[src.at()].retain(|p| *p != pid);
            assert_eq!(self.queues[src.at()].len() + 1, before, "only queued tasks are detached");
        }
        (self.s.tasks[pid.at()].cpu, self.s.tasks[pid.at()].on_rq) = (dst, OnRq::Migrating);
        let se = self.s.se_of(pid);
        (self.s.se[se].on_rq, self.s.se[se].cfs_rq) = (false, dst.at());
        self.refresh(src);
    }
    fn attach(&mut self, pid: Pid, dst: CpuId) {
        let p = &mut self.s.tasks[pid.at()];
        (p.cpu, p.on_rq, p.state) = (dst, OnRq::Queued, State::Running);
        let se = self.s.se_of(pid);
        (self.s.se[se].on_rq, self.s.se[se].attached) = (true, true);
        if self.s.rqs[dst.at()].curr == Pid(0) {
            self.s.rqs[dst.at()].curr = pid;
        } else {
            self.queues[dst.at()].push(pid);
        }
        self.refresh(dst);
    }
    fn kick_active_balance(&mut self, src: CpuId) {
        self.kicks.push(src);
    }
    fn dice(&mut self, _: CpuId) -> u32 {
        self.dice
    }
    fn spend(&mut self, _: BalancePass) {}
    fn record(&mut self, choice: BalanceChoice) {
        self.choices.push(choice);
    }
}
