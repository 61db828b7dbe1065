//! What did each group get, and how long was it throttled? (`cpu.stat`)

use super::pids::PidTable;
use serde::{Deserialize, Serialize};
use wattif_model::trace::{Event, Interest, Observer, ThreadInfo};
use wattif_model::workload::GroupSpec;
use wattif_model::{CpuId, Ns, Pid};

/// One group; those below it are included in its CPU time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CgroupReport {
    /// Such as `/app`.
    pub path: String,
    /// Time of its threads on CPUs, s.
    pub runtime_s: f64,
    /// Of one CPU's time: above 1 when several threads run at once.
    pub cpu_share: f64,
    /// Bandwidth periods that ended.
    pub nr_periods: u64,
    /// Those that ended with a throttled queue.
    pub nr_throttled: u64,
    /// Time that threads waited on throttled queues, summed over CPUs, s.
    pub throttled_s: f64,
    /// Run time beyond the quota, thanks to the burst, s.
    pub burst_s: f64,
}

#[derive(Clone, Debug, Default)]
struct Group {
    path: String,
    parent: usize,
    runtime_ns: u64,
    periods: u64,
    throttled: u64,
    throttled_ns: u64,
    burst_ns: u64,
}

/// Listens to switches and to groups.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    groups: Vec<Group>,
    of_thread: PidTable<usize>,
    on_cpu: Vec<(Pid, Ns)>,
}

impl Groups {
    /// For a machine of so many CPUs and these groups; the root is first, each after the one above it.
    pub fn new(nr_cpus: usize, specs: &[GroupSpec]) -> Groups {
        let mut groups: Vec<Group> = Vec::new();
        for spec in specs {
            let up = spec.path.rsplit_once('/').map_or("", |(up, _)| up);
            let parent = groups.iter().position(|g| g.path == up).unwrap_or(0);
            groups.push(Group { path: spec.path.clone(), parent, ..Group::default() });
        }
        Groups { groups, of_thread: PidTable::default(), on_cpu: vec![(Pid(0), Ns::ZERO); nr_cpus] }
    }

    /// Are there groups besides the root?
    pub fn any(&self) -> bool {
        self.groups.len() > 1
    }

    /// A row per group, where there are any besides the root.
    pub fn rows(&self, end: Ns) -> Vec<CgroupReport> {
        let share = |s: f64| if end.0 == 0 { 0.0 } else { s / end.as_s_f64() };
        let row = |g: &Group| {
            let runtime_s = g.runtime_ns as f64 / 1e9;
            CgroupReport {
                path: g.path.clone(),
                runtime_s,
                cpu_share: share(runtime_s),
                nr_periods: g.periods,
                nr_throttled: g.throttled,
                throttled_s: g.throttled_ns as f64 / 1e9,
                burst_s: g.burst_ns as f64 / 1e9,
            }
        };
        self.groups.iter().skip(1).map(row).collect()
    }

    /// The time since a CPU was last looked at goes to the group that ran there, and to those above it.
    fn ran(&mut self, cpu: CpuId, at: Ns) {
        let Some((pid, since)) = self.on_cpu.get_mut(cpu.at()) else { return };
        let ns = at.since(std::mem::replace(since, at));
        let mut group = self.of_thread.get_mut(*pid).map_or(0, |g| *g);
        while group != 0 {
            self.groups[group].runtime_ns += ns;
            group = self.groups[group].parent;
        }
    }
}

impl Observer for Groups {
    fn interest(&self) -> Interest {
        Interest::SCHED.and(Interest::GROUPS)
    }
    fn thread(&mut self, thread: &ThreadInfo) {
        if (1..self.groups.len()).contains(&(thread.group as usize)) {
            *self.of_thread.entry(thread.pid, || 0) = thread.group as usize;
        }
    }
    fn ran_before(&mut self, cpu: CpuId, pid: Pid) {
        self.on_cpu.get_mut(cpu.at()).into_iter().for_each(|c| c.0 = pid);
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        let known = self.groups.len() as u32;
        match *event {
            Event::SchedSwitch { next_pid, .. } => {
                self.ran(cpu, at);
                self.on_cpu.get_mut(cpu.at()).into_iter().for_each(|c| c.0 = next_pid);
            }
            Event::CgroupAttachTask { pid, group } if group < known => {
                self.ran(cpu, at);
                *self.of_thread.entry(pid, || 0) = group as usize;
            }
            Event::CfsUnthrottle { group, waited_ns } if group < known => {
                self.groups[group as usize].throttled_ns += waited_ns;
            }
            Event::CfsPeriod { group, periods, throttled, burst_ns } if group < known => {
                let g = &mut self.groups[group as usize];
                g.periods += u64::from(periods);
                g.throttled += if throttled { u64::from(periods) } else { 0 };
                g.burst_ns += burst_ns;
            }
            _ => {}
        }
    }
    fn finish(&mut self, end: Ns) {
        (0..self.on_cpu.len()).for_each(|cpu| self.ran(CpuId(cpu as u32), end));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::*;
    use super::*;
    use wattif_model::trace::PrevState::*;

    /// A recording may begin with a thread on a CPU, and tells by its head which group it is in.
    #[test]
    fn who_is_in_a_group_from_the_beginning() {
        let mut g = Groups::new(1, &["/", "/a"].map(GroupSpec::named));
        for (pid, group) in [(1, 1), (2, 9)] {
            g.thread(&ThreadInfo { group, ..thread(pid, "a") });
        }
        g.ran_before(CpuId(0), Pid(1));
        play(&mut g, &[(40, 0, switch(1, 2, Running))]);
        g.finish(Ns(100));
        assert_eq!((g.rows(Ns(100))[0].runtime_s * 1e9).round(), 40.0);
    }

    #[test]
    fn time_goes_to_the_groups_above_too() {
        let specs = ["/", "/a", "/a/b"].map(GroupSpec::named);
        let mut g = Groups::new(2, &specs);
        let attach = |pid, group| Event::CgroupAttachTask { pid: Pid(pid), group };
        play(
            &mut g,
            &[
                (0, 0, attach(1, 2)),
                (10, 0, switch(0, 1, Running)),
                (30, 0, switch(1, 2, Running)),
                (40, 1, switch(0, 1, Running)),
                (50, 1, attach(1, 1)),
                (90, 1, Event::CfsUnthrottle { group: 1, waited_ns: 7 }),
                (95, 0, Event::CfsPeriod { group: 1, periods: 2, throttled: true, burst_ns: 3 }),
                (96, 0, Event::CfsPeriod { group: 9, periods: 2, throttled: true, burst_ns: 3 }),
            ],
        );
        g.finish(Ns(100));
        let rows = g.rows(Ns(100));
        let ns = |s: f64| (s * 1e9).round() as u64;
        assert_eq!((rows.len(), ns(rows[0].runtime_s), ns(rows[1].runtime_s)), (2, 80, 30));
        assert_eq!((rows[0].nr_periods, rows[0].nr_throttled, ns(rows[0].throttled_s)), (2, 2, 7));
        assert!((rows[0].cpu_share - 0.8).abs() < 1e-9);
        assert_eq!(Groups::new(1, &[]).rows(Ns(0)), []);
    }
}
