//! How much work got done? For a program without marks, CPU time weighted by the speed it ran at.

use super::pids::PidTable;
use wattif_model::platform::Platform;
use wattif_model::trace::{Event, Interest, Observer, ThreadInfo};
use wattif_model::units::CAPACITY_SCALE;
use wattif_model::{CpuId, Ns, Pid};

#[derive(Clone, Copy, Debug)]
struct OnCpu {
    pid: Pid,
    since: Ns,
    /// Of its current operating point.
    capacity: u64,
    /// That, times its share of the core.
    speed: u64,
}

#[derive(Clone, Debug)]
struct Domain {
    cpus: Vec<usize>,
    capacities: Vec<u64>,
}

/// Listens to switches and frequencies. Counts what a CPU could execute at its operating point, beside the hardware threads
/// that were busy on its core, while the thread had it: kernel paths and cache refills are not subtracted.
#[derive(Clone, Debug)]
pub struct Throughput {
    threads: PidTable<u128>,
    on_cpu: Vec<OnCpu>,
    domains: Vec<Domain>,
    /// By CPU: the hardware threads of its core; empty where none shares its speed.
    cores: Vec<Vec<CpuId>>,
    /// What a thread gets of its core by how many others are busy there, 1024ths.
    shares: Vec<u64>,
}

impl Throughput {
    /// For this machine.
    pub fn new(platform: &Platform) -> Throughput {
        let capacity = |cpu| platform.domain_of(CpuId(cpu)).opps.first().map_or(0, |o| u64::from(o.capacity));
        let idle = |cpu| OnCpu { pid: Pid(0), since: Ns::ZERO, capacity: capacity(cpu), speed: capacity(cpu) };
        let domain = |d: &wattif_model::platform::FreqDomain| Domain {
            cpus: d.cpus.iter().map(CpuId::at).filter(|&c| c < platform.nr_cpus()).collect(),
            capacities: d.opps.iter().map(|o| u64::from(o.capacity)).collect(),
        };
        let shared = platform.smt_share.len() > 1;
        let cores = if shared { platform.core_threads() } else { vec![Vec::new(); platform.nr_cpus()] };
        Throughput {
            threads: PidTable::default(),
            on_cpu: (0..platform.nr_cpus() as u32).map(idle).collect(),
            domains: platform.domains.iter().map(domain).collect(),
            shares: (1..=cores.iter().map(Vec::len).max().unwrap_or(1).max(1))
                .map(|n| platform.share_of_core(n))
                .collect(),
            cores,
        }
    }

    /// Work of a thread in seconds of the fastest CPU at full speed.
    pub fn work_s(&self, pid: Pid) -> f64 {
        self.threads.get(pid).map_or(0.0, |w| *w as f64 / CAPACITY_SCALE as f64 / 1e9)
    }

    /// Capacity times ns of a thread up to `at`, when it runs on `cpu` or not at all.
    pub fn so_far(&mut self, at: Ns, cpu: CpuId, pid: Pid) -> u128 {
        if self.on_cpu.get(cpu.at()).is_some_and(|c| c.pid == pid) {
            self.account(at, cpu.at(), pid);
        }
        self.threads.get(pid).copied().unwrap_or(0)
    }

    /// Close what runs on a CPU at `at`, `pid` having run since the last change.
    #[inline(always)]
    fn account(&mut self, at: Ns, cpu: usize, pid: Pid) {
        let slot = &mut self.on_cpu[cpu];
        let work = u128::from(at.since(slot.since)) * u128::from(slot.speed);
        slot.since = at;
        if let Some(sum) = self.threads.get_mut(pid) {
            *sum += work;
        }
    }

    fn change(&mut self, at: Ns, domain: usize, opp: usize) {
        let Some(capacity) = self.domains.get(domain).and_then(|d| d.capacities.get(opp).copied()) else { return };
        for i in 0..self.domains[domain].cpus.len() {
            let cpu = self.domains[domain].cpus[i];
            self.on_cpu[cpu].capacity = capacity;
            self.update_speed(at, cpu);
        }
    }

    fn switch(&mut self, at: Ns, cpu: usize, prev: Pid, next: Pid) {
        self.account(at, cpu, prev);
        self.on_cpu[cpu].pid = next;
        if (prev == Pid(0)) != (next == Pid(0)) {
            for i in 0..self.cores[cpu].len() {
                self.update_speed(at, self.cores[cpu][i].at());
            }
        }
    }

    /// From `at` on, by its clock and by who is busy on its core: as the machine does.
    fn update_speed(&mut self, at: Ns, cpu: usize) {
        self.account(at, cpu, self.on_cpu[cpu].pid);
        let others = self.cores[cpu].iter().filter(|c| c.at() != cpu && self.on_cpu[c.at()].pid != Pid(0)).count();
        self.on_cpu[cpu].speed = self.on_cpu[cpu].capacity * self.shares[others] / CAPACITY_SCALE;
    }
}

impl Observer for Throughput {
    fn interest(&self) -> Interest {
        Interest::SCHED.and(Interest::FREQ)
    }
    fn thread(&mut self, thread: &ThreadInfo) {
        self.threads.entry(thread.pid, || 0);
    }
    fn ran_before(&mut self, cpu: CpuId, pid: Pid) {
        if cpu.at() < self.on_cpu.len() {
            self.switch(Ns::ZERO, cpu.at(), Pid(0), pid);
        }
    }
    // In [`Metrics::event`], which has looked at the kind of event already.
    #[inline(always)]
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        match *event {
            Event::SchedSwitch { prev_pid, next_pid, .. } if cpu.at() < self.on_cpu.len() => {
                self.switch(at, cpu.at(), prev_pid, next_pid);
            }
            Event::CpuFrequency { domain, opp, .. } => self.change(at, domain.at(), opp as usize),
            _ => {}
        }
    }
    fn finish(&mut self, end: Ns) {
        for cpu in 0..self.on_cpu.len() {
            self.account(end, cpu, self.on_cpu[cpu].pid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::*;
    use super::*;
    use wattif_model::trace::PrevState::*;

    #[test]
    fn speed_weighs() {
        let mut t = Throughput::new(&platform());
        t.thread(&thread(1, "a"));
        let s = 1_000_000_000;
        play(
            &mut t,
            &[
                (0, 0, switch(0, 1, Running)),
                (s, 0, frequency(0, 1)),
                (2 * s, 0, switch(1, 0, Sleeping)),
                (2 * s, 3, switch(0, 1, Running)),
            ],
        );
        t.finish(Ns(3 * s));
        // A quarter, a half, and on the big CPU at its lowest point again a half.
        assert_eq!(t.work_s(Pid(1)), 1.25);
    }
    /// As if it had been switched in at time 0, at each change of a clock and with each neighbour.
    #[test]
    fn who_ran_before() {
        let mut p = platform();
        (p.cpus[1].package, p.cpus[1].core) = (p.cpus[0].package, p.cpus[0].core);
        p.smt_share = vec![1024, 768];
        let s = 1_000_000_000;
        let work = |before: bool| {
            let mut t = Throughput::new(&p);
            ["a", "b"].iter().zip(1..).for_each(|(name, pid)| t.thread(&thread(pid, name)));
            for pid in 1..=2 {
                match before {
                    true => t.ran_before(CpuId(pid - 1), Pid(pid)),
                    false => t.event(Ns(0), CpuId(pid - 1), &switch(0, pid, Running)),
                }
            }
            t.ran_before(CpuId(9), Pid(1));
            play(&mut t, &[(s, 0, frequency(0, 1)), (2 * s, 1, switch(2, 0, Sleeping)), (4 * s, 0, frequency(0, 0))]);
            t.finish(Ns(5 * s));
            (t.work_s(Pid(1)), t.work_s(Pid(2)))
        };
        assert_eq!(work(true), work(false));
        assert_eq!(work(true), (0.1875 + 0.375 + 1.0 + 0.25, 0.1875 + 0.375));
    }
    /// CPUs 0 and 1 are threads of a core, which give three quarters each when both are busy.
    #[test]
    fn threads_of_a_core_share_its_speed() {
        let mut p = platform();
        (p.cpus[1].package, p.cpus[1].core) = (p.cpus[0].package, p.cpus[0].core);
        p.smt_share = vec![1024, 768];
        let mut t = Throughput::new(&p);
        ["a", "b"].iter().zip(1..).for_each(|(name, pid)| t.thread(&thread(pid, name)));
        let s = 1_000_000_000;
        play(
            &mut t,
            &[
                (0, 0, switch(0, 1, Running)),
                (s, 1, switch(0, 2, Running)),
                (2 * s, 0, frequency(0, 1)),
                (3 * s, 1, switch(2, 0, Sleeping)),
            ],
        );
        t.finish(Ns(4 * s));
        // A quarter alone, three quarters of it together, the same of a half, a half alone.
        assert_eq!((t.work_s(Pid(1)), t.work_s(Pid(2))), (0.25 + 0.1875 + 0.375 + 0.5, 0.1875 + 0.375));
    }
}
