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
    /// Capacity of its current operating point.
    speed: u64,
}

#[derive(Clone, Debug)]
struct Domain {
    cpus: Vec<usize>,
    speeds: Vec<u64>,
}

/// Listens to switches and frequencies. Counts what a CPU could execute at its operating point while the thread had it:
/// kernel paths, cache refills and what SMT siblings take from each other are not subtracted.
#[derive(Clone, Debug)]
pub struct Throughput {
    threads: PidTable<u128>,
    on_cpu: Vec<OnCpu>,
    domains: Vec<Domain>,
}

impl Throughput {
    /// For this machine.
    pub fn new(platform: &Platform) -> Throughput {
        let speed = |cpu| platform.domain_of(CpuId(cpu)).opps.first().map_or(0, |o| u64::from(o.capacity));
        let idle = |cpu| OnCpu { pid: Pid(0), since: Ns::ZERO, speed: speed(cpu) };
        let domain = |d: &wattif_model::platform::FreqDomain| Domain {
            cpus: d.cpus.iter().map(CpuId::at).filter(|&c| c < platform.nr_cpus()).collect(),
            speeds: d.opps.iter().map(|o| u64::from(o.capacity)).collect(),
        };
        Throughput {
            threads: PidTable::default(),
            on_cpu: (0..platform.nr_cpus() as u32).map(idle).collect(),
            domains: platform.domains.iter().map(domain).collect(),
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
    fn account(&mut self, at: Ns, cpu: usize, pid: Pid) {
        let slot = &mut self.on_cpu[cpu];
        let work = u128::from(at.since(slot.since)) * u128::from(slot.speed);
        slot.since = at;
        if let Some(sum) = self.threads.get_mut(pid) {
            *sum += work;
        }
    }

    fn change(&mut self, at: Ns, domain: usize, opp: usize) {
        let Some(speed) = self.domains.get(domain).and_then(|d| d.speeds.get(opp).copied()) else { return };
        for i in 0..self.domains[domain].cpus.len() {
            let cpu = self.domains[domain].cpus[i];
            self.account(at, cpu, self.on_cpu[cpu].pid);
            self.on_cpu[cpu].speed = speed;
        }
    }
}

impl Observer for Throughput {
    fn interest(&self) -> Interest {
        Interest::SCHED.and(Interest::FREQ)
    }
    fn thread(&mut self, thread: &ThreadInfo) {
        self.threads.entry(thread.pid, || 0);
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        match *event {
            Event::SchedSwitch { prev_pid, next_pid, .. } if cpu.at() < self.on_cpu.len() => {
                self.account(at, cpu.at(), prev_pid);
                self.on_cpu[cpu.at()].pid = next_pid;
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
}
