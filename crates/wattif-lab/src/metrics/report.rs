//! The answer of one run: the parts "metrics", "tasks", "cpus" and "domains" of the `wattif.run/1` contract.

use super::frames::Frames;
use super::{
    BalanceReport, CgroupReport, CpuReport, DeadlineReport, DomainReport, EnergyReport, Histogram, IdleAccuracy,
    IdleWakeups, Latency, Mark, MarkReport, Metrics, OracleReport, SignalsReport, StageReport, Summary, TaskTotals,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wattif_model::run::{Blocked, RunSpec};
use wattif_model::trace::EnergyTotals;

/// Everything measured in one run; serialises as the contract asks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunReport {
    /// Figures of the whole run.
    pub metrics: RunMetrics,
    /// A row per thread, housekeeping included.
    pub tasks: Vec<TaskReport>,
    /// A row per task: its threads together.
    pub by_task: Vec<GroupReport>,
    /// A row per CPU.
    pub cpus: Vec<CpuReport>,
    /// A row per frequency domain.
    pub domains: Vec<DomainReport>,
    /// A row per group (cgroup) but the root; empty where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<CgroupReport>,
    /// Threads blocked for ever at the end, as the simulator says; a recording says nothing of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deadlock: Vec<Blocked>,
    /// The exact energy, to be compared with the machine's own.
    #[serde(skip)]
    pub energy_fj: EnergyTotals,
}

/// What several runs, a seed each, say of threads blocked for ever.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Deadlock {
    /// So many of the runs end with such threads.
    pub runs: usize,
    /// Those of the first of these runs.
    pub blocked: Vec<Blocked>,
}

impl RunReport {
    /// Did the end of the run of `spec` come before that of a workload that ends by itself? Its figures are then those of a part.
    pub fn is_cut(&self, spec: &RunSpec) -> bool {
        let whole = self.metrics.duration_s < spec.duration.as_s_f64();
        spec.workload.ends_by_itself() && !whole && self.deadlock.is_empty()
    }
}

impl Deadlock {
    /// `None`: no run has any.
    pub fn of(reports: &[RunReport]) -> Option<Deadlock> {
        let mut with = reports.iter().map(|r| &r.deadlock).filter(|blocked| !blocked.is_empty());
        let blocked = with.next()?.clone();
        Some(Deadlock { runs: 1 + with.count(), blocked })
    }
}

/// Figures of the whole run. Latencies are of the workload's threads; housekeeping is left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunMetrics {
    /// Length of the run, s.
    pub duration_s: f64,
    /// Switches to a thread (not to idle); `None`, as all that may be, where a recording does not tell them.
    pub slices: Option<u64>,
    /// Moves of a thread to another CPU.
    pub migrations: Option<u64>,
    /// `sched_waking` until switched in.
    pub wakeup_latency_us: Summary,
    /// As rt-app logs it.
    pub wu_lat_us: Summary,
    /// `wu_lat_us` by 100 µs, the last for all of 1000 µs or more.
    pub wu_lat_hist: Histogram,
    /// `None` where the platform has no powers.
    pub energy: Option<EnergyReport>,
    /// `energy.total` by the length of the run.
    pub power_mean: Option<f64>,
    /// `None` when nobody slept.
    pub idle_accuracy: Option<IdleAccuracy>,
    /// What ended idle periods; `None` when none did.
    #[serde(default)]
    pub idle_wakeups: Option<IdleWakeups>,
    /// Distance to the best possible; `None` when no idle period ended.
    #[serde(default)]
    pub oracle: Option<OracleReport>,
    /// By mark.
    pub frames: BTreeMap<String, MarkReport>,
    /// `None` when there was no job of a deadline task.
    pub deadline: Option<DeadlineReport>,
    /// By mark.
    pub throughput: BTreeMap<String, MarkRate>,
    /// How the work was spread over the CPUs.
    #[serde(default)]
    pub balance: Option<BalanceReport>,
    /// How fast signals follow; `None` for a workload that does not ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signals: Option<SignalsReport>,
}

/// Units of work done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MarkRate {
    /// How many.
    pub count: u64,
    /// By second of the run.
    pub per_s: f64,
}

/// One thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskReport {
    /// Such as `cfs_thread-0`.
    pub name: String,
    /// Its id.
    pub pid: u32,
    /// Task it is an instance of.
    pub task: String,
    /// Part of the workload (false: housekeeping).
    pub workload: bool,
    /// Such as `SCHED_OTHER`; of a program that changes it `SCHED_OTHER, SCHED_FIFO`, in order.
    pub policy: String,
    /// Time on a CPU, s.
    pub runtime_s: f64,
    /// Of one CPU's time.
    pub cpu_share: f64,
    /// Wake-ups.
    pub activations: u64,
    /// Moves to another CPU.
    pub migrations: u64,
    /// CPU time weighted by speed, seconds of the fastest CPU at full speed.
    pub work_s: f64,
    /// `None` for housekeeping.
    pub wakeup_latency_us: Option<Summary>,
    /// `None` for housekeeping.
    pub wu_lat_us: Option<Summary>,
    /// `None` when it had no job as a deadline task.
    pub deadline: Option<DeadlineReport>,
}

/// All threads of one task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupReport {
    /// Its name.
    pub task: String,
    /// Part of the workload (false: housekeeping).
    pub workload: bool,
    /// Its threads.
    pub threads: u64,
    /// Time on CPUs, s.
    pub runtime_s: f64,
    /// Of one CPU's time: above 1 when several threads run at once.
    pub cpu_share: f64,
    /// Wake-ups.
    pub activations: u64,
    /// Moves to another CPU.
    pub migrations: u64,
    /// CPU time weighted by speed, seconds of the fastest CPU at full speed.
    pub work_s: f64,
    /// `sched_waking` until switched in.
    pub wakeup_latency_us: Summary,
    /// As rt-app logs it.
    pub wu_lat_us: Summary,
    /// `wu_lat_us` by 100 µs.
    pub wu_lat_hist: Histogram,
    /// `None` when it had no job as a deadline task.
    pub deadline: Option<DeadlineReport>,
    /// Cumulative distribution of `wakeup_latency_us`, for plots.
    #[serde(skip)]
    pub wakeup_latency_cdf: Vec<(f64, f64)>,
    /// Cumulative distribution of `wu_lat_us`, for plots.
    #[serde(skip)]
    pub wu_lat_cdf: Vec<(f64, f64)>,
}

impl Metrics {
    /// The report; after the run has finished.
    pub fn into_report(self) -> RunReport {
        let tasks: Vec<TaskReport> = self.tasks.threads().map(|t| self.task(t)).collect();
        let by_task = self.by_task(&tasks);
        let cpus = self.cpu_rows();
        let mut metrics = self.run_metrics(&cpus);
        for mark in metrics.frames.values_mut() {
            mark.share(metrics.energy.as_ref(), &by_task, &self.frames);
        }
        let (domains, groups) = (self.frequency.rows(), self.groups.rows(self.end));
        let energy_fj = self.energy.totals();
        RunReport { metrics, tasks, by_task, cpus, domains, groups, deadlock: Vec::new(), energy_fj }
    }

    fn run_metrics(&self, cpus: &[CpuReport]) -> RunMetrics {
        let duration_s = self.end.as_s_f64();
        let energy = self.energy.report();
        let power_mean = energy.as_ref().filter(|_| duration_s > 0.0).map(|e: &EnergyReport| e.total / duration_s);
        let (wu_lat, wu_lat_hist) = self.wu_lat.overall();
        RunMetrics {
            duration_s,
            slices: Some(self.tasks.slices()),
            migrations: Some(self.tasks.migrations()),
            wakeup_latency_us: self.wakeup.0.overall().0.summary_us(),
            wu_lat_us: wu_lat.summary_us(),
            wu_lat_hist: *wu_lat_hist,
            energy,
            power_mean,
            idle_accuracy: IdleAccuracy::of(cpus),
            frames: self.by_mark(MarkReport::of),
            balance: Some(self.balance.report(self.end)),
            signals: self.signals.report(),
            idle_wakeups: self.oracle.wakeups(),
            oracle: self.oracle.report(),
            deadline: self.deadlines.overall(),
            throughput: self.by_mark(|m| {
                let count = m.durations.count();
                MarkRate { count, per_s: self.share(count as f64) }
            }),
        }
    }

    fn by_mark<T>(&self, figure: impl Fn(&Mark) -> T) -> BTreeMap<String, T> {
        self.frames.marks().map(|(name, mark)| (name.to_owned(), figure(mark))).collect()
    }

    /// By second of the run; 0 for a run of no length.
    fn share(&self, amount: f64) -> f64 {
        if self.end.0 == 0 { 0.0 } else { amount / self.end.as_s_f64() }
    }

    fn cpu_rows(&self) -> Vec<CpuReport> {
        let energy = self.energy.report();
        let with_energy =
            |(i, row): (usize, CpuReport)| CpuReport { energy: energy.as_ref().map(|e| e.cpus[i]), ..row };
        self.cpus.rows().into_iter().enumerate().map(with_energy).collect()
    }

    fn task(&self, t: &TaskTotals) -> TaskReport {
        let runtime_s = t.runtime_ns as f64 / 1e9;
        TaskReport {
            name: t.info.comm.clone(),
            pid: t.info.pid.0,
            task: t.info.task.clone(),
            workload: t.info.workload,
            policy: self.policy(t),
            runtime_s,
            cpu_share: self.share(runtime_s),
            activations: t.activations,
            migrations: t.migrations,
            work_s: self.throughput.work_s(t.info.pid),
            wakeup_latency_us: self.wakeup.0.of_thread(t.info.pid),
            wu_lat_us: self.wu_lat.lines.of_thread(t.info.pid),
            deadline: self.deadlines.of_thread(t.info.pid),
        }
    }

    /// Those that its program went through, else the one it began with.
    fn policy(&self, t: &TaskTotals) -> String {
        self.policies.of(t.info.pid).unwrap_or_else(|| t.info.policy.to_owned())
    }

    /// Tasks in the order of their first thread.
    fn by_task(&self, threads: &[TaskReport]) -> Vec<GroupReport> {
        let mut place: BTreeMap<(&str, bool), usize> = BTreeMap::new();
        let mut groups: Vec<GroupReport> = Vec::new();
        let deadlines = self.deadlines.by_task();
        for t in threads {
            let i = *place.entry((&t.task, t.workload)).or_insert_with(|| {
                groups.push(GroupReport { deadline: deadlines.get(t.task.as_str()).cloned(), ..self.empty_group(t) });
                groups.len() - 1
            });
            groups[i].add(t);
        }
        groups
    }

    fn empty_group(&self, of: &TaskReport) -> GroupReport {
        let mut group = GroupReport { task: of.task.clone(), workload: of.workload, ..GroupReport::default() };
        let values = |l: &Latency| l.of_task(&of.task).map(|(d, h)| (d.summary_us(), *h, d.cdf_us()));
        if of.workload {
            let (wakeup, _, wakeup_cdf) = values(&self.wakeup.0).unwrap_or_default();
            let (wu_lat, hist, wu_lat_cdf) = values(&self.wu_lat.lines).unwrap_or_default();
            (group.wakeup_latency_us, group.wakeup_latency_cdf) = (wakeup, wakeup_cdf);
            (group.wu_lat_us, group.wu_lat_hist, group.wu_lat_cdf) = (wu_lat, hist, wu_lat_cdf);
        }
        group
    }
}

impl MarkReport {
    /// Each unit's share of the energy and of what the tasks and devices of the workload did.
    fn share(&mut self, energy: Option<&EnergyReport>, by_task: &[GroupReport], frames: &Frames) {
        let units = self.duration_us.count as f64;
        if self.duration_us.count == 0 {
            return;
        }
        self.energy = energy.map(|e| e.total / units);
        let stage = |g: &GroupReport| {
            let waited = &g.wakeup_latency_us;
            let wait_us = if waited.count > 0 { waited.sum / units } else { 0.0 };
            (g.task.clone(), StageReport { run_us: g.runtime_s * 1e6 / units, wait_us })
        };
        if self.pace.is_none() {
            return;
        }
        self.stages = by_task.iter().filter(|g| g.workload).map(stage).collect();
        for (device, stage) in frames.devices(units) {
            // A task of the same name keeps it.
            let name = if self.stages.contains_key(device) { format!("{device} (device)") } else { device.to_owned() };
            self.stages.insert(name, stage);
        }
    }
}

impl GroupReport {
    fn add(&mut self, t: &TaskReport) {
        self.threads += 1;
        self.runtime_s += t.runtime_s;
        self.cpu_share += t.cpu_share;
        self.activations += t.activations;
        self.migrations += t.migrations;
        self.work_s += t.work_s;
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::testbed::*;
    use super::super::{Groups, PaceReport};
    use super::*;
    use wattif_model::trace::{Event, IdleCause, IdlePeriod, Observer, PowerLevel, PrevState::*};
    use wattif_model::workload::GroupSpec;
    use wattif_model::{CpuId, Ns, Pid};

    pub fn sample() -> RunReport {
        let mut m = Metrics::for_trace(&platform(), &["request".into()]);
        m.groups = Groups::new(4, &["/", "/g"].map(GroupSpec::named));
        for t in [thread(1, "a"), thread(2, "a"), housekeeping(3, "kworker")] {
            m.thread(&t);
        }
        let ms = 1_000_000;
        let slept = IdlePeriod { state: 1, cause: IdleCause::Timer, length_ns: ms, late_ns: 0 };
        play(
            &mut m,
            &[
                (0, 0, cpu_power(PowerLevel::Idle(1))),
                (0, 0, idle(1)),
                (ms, 0, waking(1)),
                (ms, 0, wakeup(1)),
                (ms, 0, cpu_power(PowerLevel::Busy)),
                (ms, 0, idle(Event::IDLE_EXIT)),
                (ms, 0, Event::CpuIdleMiss { state: 1, below: false }),
                (ms, 0, Event::IdlePeriod(slept)),
                (ms + 2_000, 0, switch(0, 1, Running)),
                (3 * ms, 0, timer_wake(1, 2_500)),
                (3 * ms, 0, rtapp(1, 2_500)),
                (3 * ms, 0, Event::DeadlineJob { pid: Pid(1), lateness_ns: 7_000 }),
                (4 * ms, 0, Event::Mark { pid: Pid(1), mark: 0, began_ns: ms }),
                (5 * ms, 0, switch(1, 3, Sleeping)),
                (6 * ms, 0, switch(3, 0, Sleeping)),
                (7 * ms, 0, frequency(0, 1)),
            ],
        );
        m.finish(Ns(10 * ms));
        m.into_report()
    }

    #[test]
    fn report_of_a_small_run() {
        let r = sample();
        assert_eq!((r.metrics.duration_s, r.metrics.slices), (0.01, Some(2)));
        assert_eq!((r.metrics.wakeup_latency_us.max, r.metrics.wu_lat_us.max), (2.0, 2.0));
        assert_eq!(r.metrics.idle_accuracy.unwrap().above_pct, 100.0);
        assert_eq!(
            (r.metrics.throughput["request"].per_s, r.metrics.frames["request"].duration_us.p50),
            (100.0, 3000.0)
        );
        assert_eq!(r.tasks.len(), 3);
        assert_eq!(r.tasks[2].wakeup_latency_us, None);
        assert_eq!((r.by_task[0].threads, r.by_task[0].activations), (2, 1));
        assert_eq!(r.energy_fj.cpus[0].0, 1_000_000 * 2 + 6_000_000 * 100 + 3_000_000 * 300);
        assert!((r.metrics.power_mean.unwrap() - r.metrics.energy.as_ref().unwrap().total / 0.01).abs() < 1e-12);
    }

    #[test]
    fn contract() {
        let json = serde_json::to_value(sample()).unwrap();
        for path in [
            "/metrics/wakeup_latency_us/p999",
            "/metrics/wu_lat_us/stddev",
            "/metrics/energy/unit",
            "/metrics/energy/base",
            "/metrics/idle_accuracy/correct_pct",
            "/metrics/idle_wakeups/ipi_pct",
            "/metrics/oracle/energy_excess_pct",
            "/metrics/oracle/late_us/p99",
            "/metrics/frames",
            "/metrics/throughput",
            "/metrics/power_mean",
            "/tasks/0/cpu_share",
            "/tasks/0/wakeup_latency_us/mean",
            "/cpus/0/idle/1/residency_s",
            "/cpus/0/idle/1/above",
            "/cpus/0/energy",
            "/domains/0/freq_residency/1/khz",
            "/domains/0/transitions",
        ] {
            assert!(json.pointer(path).is_some(), "{path} is missing");
        }
        let back: RunReport = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(back).unwrap(), json, "reads back what it wrote");
    }

    #[test]
    fn what_a_unit_costs_and_who_works_on_it() {
        let mut r = sample();
        let mark = r.metrics.frames.get_mut("request").unwrap();
        assert!(mark.energy.is_some() && mark.stages.is_empty(), "it has no period");
        mark.pace = Some(PaceReport { jank_pct: Some(0.0), missed: 0, fps: None, fps_stddev: None });
        mark.duration_us.count = 2;
        let mut frames = Frames::new(&[], &[], &["gpu".into(), "a".into()]);
        for (queued_ns, service_ns) in [(0, 4_000), (3_000, 6_000)] {
            let done = Event::DeviceDone { pid: Pid(1), device: 0, queued_ns, service_ns };
            frames.event(Ns(20_000), CpuId(0), &done);
        }
        mark.share(r.metrics.energy.as_ref(), &r.by_task, &frames);
        let total = r.metrics.energy.as_ref().unwrap().total;
        assert_eq!(mark.energy, Some(total / 2.0));
        assert_eq!(mark.stages.keys().collect::<Vec<_>>(), ["a", "a (device)", "gpu"], "housekeeping is no stage");
        assert_eq!((mark.stages["a"].run_us, mark.stages["a"].wait_us), (1999.0, 1.0));
        assert_eq!((mark.stages["gpu"].run_us, mark.stages["gpu"].wait_us), (5.0, 1.5), "two requests, by two units");
    }

    #[test]
    fn run_without_events() {
        let r = Metrics::for_trace(&platform(), &[]).into_report();
        assert_eq!((r.metrics.power_mean, r.metrics.wu_lat_us.count, r.metrics.idle_accuracy), (None, 0, None));
        let mut late = Metrics::for_trace(&platform(), &[]);
        late.event(Ns(5), CpuId(9), &idle(0));
        late.finish(Ns(1));
        assert_eq!(late.into_report().cpus.len(), 4);
    }
}
