//! When the balancer runs, and the steps it may take: `core`'s side of load balancing. The balancer looks at the state and
//! says what to move; detaching and attaching is done here.

use super::balance::{FairBalancer, Kick, LoadBalancer, Transaction, cpu_overutilized};
use super::class::fair;
use super::core::IDLE;
use super::stop::Work;
use super::{Sched, View};
use crate::simulation::{Kernel, Source};
use wattif_model::trace::{BalanceChoice, BalancePass, Event, IdleCause, Interest};
use wattif_model::{CpuId, Pid};

/// A kernel while it balances, on the CPU that executes the pass.
struct Pass<'a, 'o, 'p> {
    kernel: &'a mut Kernel<'o, 'p>,
    cpu: CpuId,
}

impl Kernel<'_, '_> {
    /// The CPU has nothing left: pull something, if that is worth its cost. True when there is something to run now.
    pub(crate) fn newidle_balance(&mut self, cpu: CpuId) -> bool {
        self.balance(cpu, |balancer, pass| balancer.newidle(pass, cpu));
        self.s.rqs[cpu.at()].nr_running > 0
    }

    /// At the tick: see whether it is time to balance, and whether an idle CPU should balance for others.
    pub(crate) fn trigger_load_balance(&mut self, cpu: CpuId) {
        let rq = &self.s.rqs[cpu.at()];
        let idle = rq.curr == IDLE;
        self.cpus[cpu.at()].softirq_pending |= self.s.now >= rq.next_balance;
        if self.s.rd.energy_aware && !self.s.rd.overutilized {
            self.s.rd.overutilized = cpu_overutilized(&self.s, cpu);
        }
        let balancer = self.balancer.as_mut().expect("no pass is under way");
        if !idle && let Some(kick) = balancer.nohz_balancer_kick(&self.s, cpu) {
            self.kick_nohz(kick, cpu);
        }
    }

    /// `SCHED_SOFTIRQ`, which the tick raised. All CPUs tick together: those that had to switch have switched.
    pub(crate) fn softirq(&mut self, cpu: CpuId) {
        self.disarm(Source::Softirq(cpu));
        self.m.account(cpu, self.s.now);
        (self.cpus[cpu.at()].softirq_pending, self.cpus[cpu.at()].in_irq) = (false, true);
        let idle = self.s.rqs[cpu.at()].curr == IDLE;
        self.balance(cpu, |balancer, pass| balancer.periodic(pass, cpu, idle));
        self.note_polled(cpu, IdleCause::Tick);
        self.irq_exit(cpu);
    }

    /// Interrupts an idle CPU so that it balances for all that sleep without tick.
    fn kick_nohz(&mut self, kick: Kick, from: CpuId) {
        let target = kick.target;
        let pending = self.cpus[target.at()].nohz_balance;
        self.cpus[target.at()].nohz_balance = Some(pending.map_or(kick, |p| p.and(kick)));
        if pending.is_some() {
            return;
        }
        let at = self.s.now + self.cpus[from.at()].cost_ns + self.m.platform.costs.ipi_ns;
        if self.m.cpus[target.at()].sleep.is_some() {
            self.interrupt_at(target, at);
        } else {
            // Idle, and still with the interrupt that woke it: this one comes after it.
            self.arm_first(Source::Ipi(target), at);
        }
    }

    /// The kicked CPU is awake.
    pub(crate) fn nohz_idle_balance(&mut self, cpu: CpuId) {
        if let Some(kick) = self.cpus[cpu.at()].nohz_balance.take() {
            self.balance(cpu, |balancer, pass| balancer.nohz_idle_balance(pass, kick));
        }
    }

    /// The stopper pushes a task away from its CPU.
    pub(crate) fn active_balance(&mut self, cpu: CpuId) {
        self.balance(cpu, |balancer, pass| balancer.active_balance(pass, cpu));
    }

    /// A CPU stopped its tick.
    pub(crate) fn nohz_balance_enter_idle(&mut self, cpu: CpuId) {
        self.balancer.as_mut().expect("no pass is under way").nohz_balance_enter_idle(&mut self.s, cpu);
    }

    fn balance<R>(&mut self, cpu: CpuId, pass: impl FnOnce(&mut FairBalancer, &mut Pass<'_, '_, '_>) -> R) -> R {
        let mut balancer = self.balancer.take().expect("passes do not nest");
        let result = pass(&mut balancer, &mut Pass { kernel: self, cpu });
        self.balancer = Some(balancer);
        result
    }
}

impl Transaction for Pass<'_, '_, '_> {
    fn view(&self) -> &View {
        &self.kernel.s
    }
    fn state(&mut self) -> &mut Sched {
        &mut self.kernel.s
    }
    fn update_rq_clock(&mut self, cpu: CpuId) {
        self.kernel.update_rq_clock(cpu);
    }
    fn update_blocked_averages(&mut self, cpu: CpuId) -> bool {
        self.kernel.update_rq_clock(cpu);
        fair::update_blocked_averages(&mut self.kernel.s, cpu);
        // Until 4.14 cfs_rq_util_change was silent about other CPUs.
        if cpu == self.cpu || !self.kernel.s.cpufreq_hears_own {
            self.kernel.cpufreq_update(cpu);
        } else {
            self.kernel.s.rqs[cpu.at()].util_changed = false;
        }
        self.kernel.s.rqs[cpu.at()].has_blocked_load
    }
    fn detach(&mut self, pid: Pid, dst: CpuId) {
        self.kernel.detach_task(pid, dst, self.cpu);
    }
    fn attach(&mut self, pid: Pid, dst: CpuId) {
        self.kernel.attach_task(pid, dst, self.cpu);
    }
    fn kick_active_balance(&mut self, src: CpuId) {
        self.kernel.stop_one_cpu(src, Work::ActiveBalance, self.cpu);
    }
    fn dice(&mut self, cpu: CpuId) -> u32 {
        self.kernel.cpus[cpu.at()].balance_rng.uniform(0, 1023) as u32
    }
    fn spend(&mut self, pass: BalancePass) {
        self.kernel.cpus[self.cpu.at()].cost_ns += u64::from(pass.cost_ns);
        let now = self.kernel.s.now;
        self.kernel.out.tell(now, self.cpu, Interest::BALANCE, Event::BalancePass(pass));
    }
    fn record(&mut self, choice: BalanceChoice) {
        let now = self.kernel.s.now;
        self.kernel.out.tell(now, self.cpu, Interest::DECISIONS, Event::Balance(choice));
        if choice.moved > 0 {
            let tasks = choice.moved;
            self.kernel.out.tell(now, self.cpu, Interest::BALANCE, Event::BalanceMoved { tasks });
        }
    }
}
