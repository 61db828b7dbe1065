//! A recorded trace: what a reader makes of a file, whatever its format. Real traces and those of a simulation are the
//! same noun.

use super::{Asked, DlParams, Event, Interest, Observer, ThreadInfo};
use crate::ids::{CpuId, CpuSet, Pid};
use crate::platform::Platform;
use crate::units::Ns;
use crate::workload::GroupSpec;
use std::collections::BTreeMap;

/// A trace in memory: events by ascending time, stable where stamps are equal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// Such as `trace.dat v6`.
    pub format: String,
    /// CPUs: as the file says, or one more than the highest seen.
    pub nr_cpus: usize,
    /// The file says how many there are.
    pub cpus_told: bool,
    /// Clock of the stamps where the file names it, such as `local`, `boot`.
    pub clock: Option<String>,
    /// The stamp that is time 0 here: that of the first event.
    pub zero_ns: u64,
    /// Last stamp, since time 0.
    pub end: Ns,
    /// Threads by pid; 0 (idle) is not among them.
    pub threads: BTreeMap<u32, RecordedThread>,
    /// What happened.
    pub records: Vec<Record>,
    /// Events of other kinds, by name: skipped.
    pub unknown: BTreeMap<String, u64>,
    /// Events that the recorder lost, where the file says how many.
    pub lost_events: u64,
    /// Gaps in which events were lost, counted or not.
    pub lost_gaps: u64,
    /// Names of marks ([`Event::Mark`]), where the file has them.
    pub marks: Vec<String>,
    /// Groups of threads, the root first and each after the one above it, where the file has them (ours does).
    pub groups: Vec<GroupSpec>,
    /// Release of the recorded kernel (`uname -r`), where the file says it.
    pub release: Option<String>,
    /// Its architecture (`uname -m`), where the file says it: `aarch64`; of our own files `simulated`, or
    /// `recorded` where they are of one that is not known.
    pub machine: Option<String>,
    /// Do records say whether they come from an interrupt?
    pub has_irq_flags: bool,
}

/// A thread of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedThread {
    /// Its last name.
    pub comm: String,
    /// Process it belongs to; 0 where unknown.
    pub tgid: u32,
    /// Its policy, where the file says it (ours does); otherwise only its priority is known.
    pub policy: Option<&'static str>,
    /// Background of the recorded or simulated system (its kernel's own threads, say), where the file says it.
    pub housekeeping: Option<bool>,
    /// Group it begins in, by its place in [`Recording::groups`]; 0: the root, or not known.
    pub group: u32,
    /// Of SCHED_DEADLINE, where the file says it (ours does).
    pub dl: Option<DlParams>,
    /// Slice and clamps, where the file says them (ours does).
    pub asked: Asked,
    /// CPUs that it may use when it begins, where the file says them (ours does, where those are not all).
    pub cpus: Option<CpuSet>,
}

impl RecordedThread {
    /// Did the file itself tell the policy? SCHED_DEADLINE shows in anybody's priorities.
    pub fn policy_was_told(&self) -> bool {
        self.policy.is_some_and(|policy| policy != "SCHED_DEADLINE")
    }
}

/// One event of a recording.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record {
    /// Since time 0.
    pub at: Ns,
    /// Where.
    pub cpu: CpuId,
    /// Who was running there, where the record says it.
    pub current: Option<Pid>,
    /// What.
    pub event: Recorded,
}

/// What happened. Most tracepoints are the simulator's own; frequencies of a real trace are by CPU, and the domain and
/// its table are the platform's to say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Recorded {
    /// One of the simulator's events (never [`Event::CpuFrequency`]).
    Event(Event),
    /// `cpu_frequency`.
    CpuFrequency {
        /// Whose.
        cpu: CpuId,
        /// New frequency.
        khz: u32,
    },
    /// An interrupt handler begins (`irq_handler_entry`, `softirq_entry`, `hrtimer_expire_entry`, …) or ends.
    Irq {
        /// It begins.
        enter: bool,
    },
}

impl Record {
    /// The simulator's event, where it is one.
    pub fn event(&self) -> Option<&Event> {
        match &self.event {
            Recorded::Event(event) => Some(event),
            _ => None,
        }
    }
}

impl Recording {
    /// Does the file itself tell policies of threads, as ours do?
    pub fn tells_policies(&self) -> bool {
        self.threads.values().any(RecordedThread::policy_was_told)
    }
    /// How many events of each name there are.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        for r in &self.records {
            *counts.entry(r.event.name()).or_insert(0) += 1;
        }
        counts
    }
    /// CPUs with events; files also count those that were offline.
    pub fn cpus(&self) -> CpuSet {
        let mut cpus = CpuSet::default();
        for r in &self.records {
            cpus.insert(r.cpu);
            if let Recorded::CpuFrequency { cpu, .. } = r.event {
                cpus.insert(cpu);
            }
        }
        cpus
    }
    /// Gives each CPU its place among `numbers` for its number. Nothing changes where events are of, or name, a CPU that is not
    /// among them: whether it is so.
    pub fn renumber(&mut self, numbers: &CpuSet) -> bool {
        let Some(last) = numbers.iter().last() else { return false };
        let mut places = vec![None; last.at() + 1];
        numbers.iter().zip(0..).for_each(|(number, place)| places[number.at()] = Some(CpuId(place)));
        let place = |cpu: CpuId| places.get(cpu.at()).copied().flatten();
        if !self
            .records
            .iter()
            .all(|r| Record::cpus_mut(&mut r.clone()).into_iter().flatten().all(|c| place(*c).is_some()))
        {
            return false;
        }
        for cpu in self.records.iter_mut().flat_map(Record::cpus_mut).flatten() {
            *cpu = place(*cpu).unwrap_or(*cpu);
        }
        for cpus in self.threads.values_mut().filter_map(|t| t.cpus.as_mut()) {
            *cpus = cpus.iter().filter_map(place).collect();
        }
        self.nr_cpus = numbers.len();
        true
    }
    /// Name of a thread.
    pub fn comm(&self, pid: Pid) -> &str {
        match pid.0 {
            0 => "<idle>",
            _ => self.threads.get(&pid.0).map_or("<...>", |t| t.comm.as_str()),
        }
    }
}

impl Record {
    /// That it is of, and those that it names.
    fn cpus_mut(&mut self) -> [Option<&mut CpuId>; 5] {
        let [a, b, c, d] = match &mut self.event {
            Recorded::Event(event) => event.cpus_mut(),
            Recorded::CpuFrequency { cpu, .. } => [Some(cpu), None, None, None],
            Recorded::Irq { .. } => [None, None, None, None],
        };
        [Some(&mut self.cpu), a, b, c, d]
    }
}

impl Recorded {
    /// The tracepoint's name.
    pub const fn name(&self) -> &'static str {
        match self {
            Recorded::Event(event) => event.name(),
            Recorded::CpuFrequency { .. } => "cpu_frequency",
            Recorded::Irq { .. } => "irq",
        }
    }
}

impl Event {
    /// Does its record bear the flag of interrupts?
    pub const fn in_irq(&self) -> bool {
        matches!(self, Event::SchedWaking { in_irq: true, .. } | Event::SchedWakeup { in_irq: true, .. })
    }
    /// Name of the tracepoint, or of our own event.
    pub const fn name(&self) -> &'static str {
        match self {
            Event::SchedSwitch { .. } => "sched_switch",
            Event::SchedWaking { .. } => "sched_waking",
            Event::SchedWakeup { .. } => "sched_wakeup",
            Event::SchedWakeupNew { .. } => "sched_wakeup_new",
            Event::SchedMigrateTask { .. } => "sched_migrate_task",
            Event::SchedProcessFork { .. } => "sched_process_fork",
            Event::SchedProcessExec { .. } => "sched_process_exec",
            Event::SchedProcessExit { .. } => "sched_process_exit",
            Event::CpuIdle { .. } => "cpu_idle",
            Event::CpuIdleMiss { .. } => "cpu_idle_miss",
            Event::CpuFrequency { .. } => "cpu_frequency",
            Event::PeltCfs { .. } => "pelt_cfs",
            Event::PeltSe { .. } => "pelt_se",
            Event::WaltDemand { .. } => "wattif_walt_demand",
            Event::CpuPower { .. } => "wattif_cpu_power",
            Event::ClusterPower { .. } => "wattif_cluster_power",
            Event::TimerWake { .. } => "wattif_timer_wake",
            Event::RtappStats { .. } => "wattif_rtapp_stats",
            Event::RtappConfigured { .. } => "wattif_rtapp_configured",
            Event::ProgramStep { .. } => "wattif_program_step",
            Event::Mark { .. } => "wattif_mark",
            Event::Touch { .. } => "wattif_touch",
            Event::DeviceDone { .. } => "wattif_device_done",
            Event::DeadlineJob { .. } => "wattif_deadline_job",
            Event::EnergyCandidate { .. } => "wattif_energy_candidate",
            Event::Placement(_) => "wattif_placement",
            Event::Frequency(_) => "wattif_frequency",
            Event::Idle(_) => "wattif_idle",
            Event::Balance(_) => "wattif_balance",
            Event::TickStop => "tick_stop",
            Event::IdlePeriod(_) => "wattif_idle_period",
            Event::IdleWeights(_) => "wattif_idle_weights",
            Event::CgroupAttachTask { .. } => "cgroup_attach_task",
            Event::CfsThrottle { .. } => "wattif_cfs_throttle",
            Event::CfsUnthrottle { .. } => "wattif_cfs_unthrottle",
            Event::CfsPeriod { .. } => "wattif_cfs_period",
            Event::BalancePass(_) => "wattif_balance_pass",
            Event::BalanceMoved { .. } => "wattif_balance_moved",
        }
    }
}

/// Makes a [`Recording`] of a run: the noun a reader makes of the run's trace.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    recording: Recording,
    interest: Interest,
    domains: Vec<CpuSet>,
    current: Vec<Pid>,
}

impl Recorder {
    /// Keeps the families of `interest`.
    pub fn new(interest: Interest) -> Recorder {
        Recorder { interest, ..Recorder::default() }
    }
    /// What was recorded; after the run.
    pub fn into_recording(self) -> Recording {
        self.recording
    }
}

impl Observer for Recorder {
    fn interest(&self) -> Interest {
        self.interest
    }
    fn start(&mut self, platform: &Platform) {
        self.recording.format = "simulation".into();
        self.recording.nr_cpus = platform.nr_cpus();
        self.recording.cpus_told = true;
        self.recording.has_irq_flags = true;
        self.domains = platform.domains.iter().map(|d| d.cpus.clone()).collect();
        self.current = vec![Pid(0); platform.nr_cpus()];
    }
    fn thread(&mut self, t: &ThreadInfo) {
        let thread = RecordedThread {
            comm: t.comm.clone(),
            tgid: 0,
            policy: Some(t.policy),
            housekeeping: Some(!t.workload),
            group: t.group,
            dl: t.dl,
            asked: t.asked,
            cpus: t.cpus.clone(),
        };
        self.recording.threads.insert(t.pid.0, thread);
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        let current = Some(self.current[cpu.at()]);
        if let Event::CpuFrequency { domain, khz, .. } = *event {
            for cpu in self.domains[domain.at()].iter() {
                let event = Recorded::CpuFrequency { cpu, khz };
                self.recording.records.push(Record { at, cpu, current: Some(self.current[cpu.at()]), event });
            }
            return;
        }
        self.recording.records.push(Record { at, cpu, current, event: Recorded::Event(*event) });
        if let Event::SchedSwitch { next_pid, .. } = *event {
            self.current[cpu.at()] = next_pid;
        }
    }
    fn finish(&mut self, end: Ns) {
        self.recording.end = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_numbers_of_cpus() {
        let record = |cpu, event| Record { at: Ns(1), cpu: CpuId(cpu), current: None, event };
        let moved = |orig, dest| {
            let (orig_cpu, dest_cpu) = (CpuId(orig), CpuId(dest));
            Recorded::Event(Event::SchedMigrateTask { pid: Pid(7), prio: 120, orig_cpu, dest_cpu })
        };
        let clock = |cpu| Recorded::CpuFrequency { cpu: CpuId(cpu), khz: 1 };
        let of = |records| Recording { nr_cpus: 10, records, ..Recording::default() };
        let numbers: CpuSet = [0, 2, 9].map(CpuId).into_iter().collect();
        let mut r = of(vec![record(2, moved(9, 0)), record(0, clock(9))]);
        assert_eq!(r.cpus(), numbers);
        assert!(r.renumber(&numbers));
        let expect = of(vec![record(1, moved(2, 0)), record(0, clock(2))]);
        assert_eq!(r, Recording { nr_cpus: 3, ..expect });
        let bound =
            RecordedThread { cpus: Some([2, 5, 9].map(CpuId).into_iter().collect()), ..RecordedThread::default() };
        let mut r = Recording { threads: [(7, bound)].into(), ..of(vec![]) };
        assert!(r.renumber(&numbers));
        assert_eq!(r.threads[&7].cpus.as_ref().map(CpuSet::to_string).as_deref(), Some("1-2"), "5 is offline");
        for other in [record(1, moved(0, 2)), record(0, moved(0, 1)), record(0, clock(64)), record(300, clock(0))] {
            let mut r = of(vec![record(2, clock(2)), other]);
            let before = r.clone();
            assert!(!r.renumber(&numbers) && r == before, "{other:?}");
        }
        assert!(!of(vec![]).renumber(&CpuSet::default()));
    }
}
