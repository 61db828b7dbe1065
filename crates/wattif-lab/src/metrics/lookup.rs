//! A figure of a report by its name. The names are those of [`super::list`].

use super::{CpuReport, DeadlineReport, GroupReport, Histogram, IdleAccuracy, RunReport, Summary};

impl RunReport {
    /// The figure called `name`, of one task's threads alone where `task` is given. `None` when the run has no such
    /// figure: an unknown name, a task that did not run, a percentile of nothing, or a metric that is not by task.
    pub fn metric(&self, name: &str, task: Option<&str>) -> Option<f64> {
        match task {
            Some(task) => self.group(task)?.figure(name),
            None => self.whole(name),
        }
    }

    /// A task by name; that of the workload where housekeeping has the same.
    fn group(&self, task: &str) -> Option<&GroupReport> {
        let named = || self.by_task.iter().filter(|g| g.task == task);
        named().find(|g| g.workload).or_else(|| named().next())
    }

    fn whole(&self, name: &str) -> Option<f64> {
        let m = &self.metrics;
        match name {
            "slices" => return m.slices.map(|n| n as f64),
            "migrations" => return m.migrations.map(|n| n as f64),
            "power_mean" => return m.power_mean,
            "duration_s" => return Some(m.duration_s),
            "runtime_s" | "cpu_share" | "work_s" | "activations" => return self.sum_of_workload(name),
            _ => {}
        }
        let (family, rest) = name.split_once('.')?;
        match family {
            "wakeup_latency_us" => m.wakeup_latency_us.field(rest),
            "wu_lat_us" => m.wu_lat_us.field(rest),
            "hist" => bin(&m.wu_lat_hist, &m.wu_lat_us, rest),
            "hist_share" => share(&m.wu_lat_hist, &m.wu_lat_us, rest),
            "energy" => self.energy(rest),
            "idle_accuracy" => self.idle_accuracy(None, rest),
            "idle" => self.idle(rest),
            "idle_wakeups" => self.idle_wakeups(rest),
            "oracle" => self.oracle(rest),
            "frames" => self.frames(rest),
            "deadline" => m.deadline.as_ref()?.figure(rest),
            "throughput" => m.throughput.get(rest).map(|t| t.per_s),
            "groups" => self.of_cgroup(rest),
            "tasks" => self.of_named_task(rest),
            "cpus" => self.cpus(rest),
            "balance" => self.balance(rest),
            "clusters" => {
                let (cluster, _) = rest.split_once('.').filter(|(_, what)| *what == "runnable")?;
                m.balance.as_ref()?.runnable.get(cluster.parse::<usize>().ok()?).copied()
            }
            "domains" => self.domains(rest),
            "signals" => match rest.split_once('.')? {
                ("util_avg", figure) => m.signals?.util_avg.figure(figure),
                ("walt_demand", figure) => m.signals?.walt_demand.figure(figure),
                _ => None,
            },
            _ => None,
        }
    }

    fn sum_of_workload(&self, name: &str) -> Option<f64> {
        self.by_task.iter().filter(|g| g.workload).map(|g| g.figure(name)).sum()
    }

    fn energy(&self, rest: &str) -> Option<f64> {
        let e = self.metrics.energy.as_ref()?;
        let one = |list: &[f64], index: &str| list.get(index.parse::<usize>().ok()?).copied();
        match rest.split_once('.') {
            None => match rest {
                "total" => Some(e.total),
                "base" => Some(e.base),
                "cpus" => Some(e.cpus.iter().sum()),
                "clusters" => Some(e.clusters.iter().sum()),
                _ => None,
            },
            Some(("cpus", cpu)) => one(&e.cpus, cpu),
            Some(("clusters", cluster)) => one(&e.clusters, cluster),
            Some(_) => None,
        }
    }

    /// Of all CPUs, or of some: where sleeps were judged.
    fn idle_accuracy(&self, of: Option<&[CpuReport]>, figure: &str) -> Option<f64> {
        let all = self.metrics.idle_accuracy?;
        let a = of.map_or(Some(all), IdleAccuracy::of)?;
        match figure {
            "correct_pct" => Some(a.correct_pct),
            "above_pct" => Some(a.above_pct),
            "undershoot_pct" => Some(a.undershoot_pct),
            "neither_pct" => Some(100.0 - a.undershoot_pct - a.below_pct),
            "below_pct" | "overshoot_pct" => Some(a.below_pct),
            _ => None,
        }
    }

    /// `STATE.residency_s`, `STATE.usage`: over all CPUs.
    fn idle(&self, rest: &str) -> Option<f64> {
        let (state, figure) = rest.rsplit_once('.')?;
        let rows: Vec<_> = self.cpus.iter().flat_map(|c| &c.idle).filter(|s| s.name == state).collect();
        match figure {
            _ if rows.is_empty() => None,
            "residency_s" => Some(rows.iter().map(|s| s.residency_s).sum()),
            "usage" => Some(rows.iter().map(|s| s.usage as f64).sum()),
            "correct_pct" => self.share_of_sleeps(rows.iter().map(|s| s.usage.saturating_sub(s.above + s.below)).sum()),
            "above_pct" => self.share_of_sleeps(rows.iter().map(|s| s.above).sum()),
            "undershoot_pct" => self.share_of_sleeps(rows.iter().map(|s| s.short).sum()),
            "below_pct" => self.share_of_sleeps(rows.iter().map(|s| s.below).sum()),
            _ => None,
        }
    }

    fn share_of_sleeps(&self, n: u64) -> Option<f64> {
        self.metrics.idle_accuracy?;
        let all: u64 = self.cpus.iter().flat_map(|c| &c.idle).map(|s| s.usage).sum();
        (all > 0).then(|| 100.0 * n as f64 / all as f64)
    }

    fn idle_wakeups(&self, rest: &str) -> Option<f64> {
        let w = self.metrics.idle_wakeups?;
        match rest {
            "timer_pct" => Some(w.timer_pct),
            "tick_pct" => Some(w.tick_pct),
            "device_pct" => Some(w.device_pct),
            "ipi_pct" => Some(w.ipi_pct),
            "poll_limit_pct" => Some(w.poll_limit_pct),
            _ => None,
        }
    }

    fn oracle(&self, rest: &str) -> Option<f64> {
        let o = self.metrics.oracle.as_ref()?;
        match rest.split_once('.') {
            Some(("late_us", stat)) => o.late_us.field(stat),
            Some(_) => None,
            None => match rest {
                "energy" => o.energy,
                "idle_energy" => o.idle_energy,
                "energy_excess_pct" => o.energy_excess_pct,
                "same_pct" => o.same_pct,
                "deeper_pct" => o.deeper_pct,
                "shallower_pct" => o.shallower_pct,
                _ => None,
            },
        }
    }

    fn frames(&self, rest: &str) -> Option<f64> {
        let (mark, stat) = rest.rsplit_once('.')?;
        if let Some((mark, task)) = mark.split_once(".stages.") {
            let stage = self.metrics.frames.get(mark)?.stages.get(task)?;
            return match stat {
                "run_us" => Some(stage.run_us),
                "wait_us" => Some(stage.wait_us),
                _ => None,
            };
        }
        let of_mark = self.metrics.frames.get(mark)?;
        match stat {
            "jank_pct" => of_mark.pace.and_then(|p| p.jank_pct),
            "missed" => of_mark.pace.map(|p| p.missed as f64),
            "fps" => of_mark.pace.and_then(|p| p.fps),
            "fps_stddev" => of_mark.pace.and_then(|p| p.fps_stddev),
            "p25" => of_mark.p25,
            "p75" => of_mark.p75,
            "energy" => of_mark.energy,
            "near_min_share" => of_mark.near_min_share,
            "near_max_share" => of_mark.near_max_share,
            _ => of_mark.duration_us.field(stat),
        }
    }

    /// `TASK.FIGURE`; both may contain dots.
    fn of_named_task(&self, rest: &str) -> Option<f64> {
        let figure = |g: &GroupReport| g.figure(rest.strip_prefix(g.task.as_str())?.strip_prefix('.')?);
        let with = |workload| self.by_task.iter().filter(move |g| g.workload == workload).find_map(figure);
        with(true).or_else(|| with(false))
    }

    fn balance(&self, rest: &str) -> Option<f64> {
        let b = self.metrics.balance.as_ref()?;
        match rest {
            "spread" => Some(b.spread),
            "wasted_s" => Some(b.wasted_s),
            "passes" => b.passes.map(|n| n as f64),
            "moved" => b.moved.map(|n| n as f64),
            "cost_s" => b.cost_s,
            "pass_us" => Some(if b.passes? == 0 { 0.0 } else { b.cost_s? * 1e6 / b.passes? as f64 }),
            _ => None,
        }
    }

    /// `PATH.FIGURE`.
    fn of_cgroup(&self, rest: &str) -> Option<f64> {
        let (path, figure) = rest.rsplit_once('.')?;
        let group = self.groups.iter().find(|g| g.path == path)?;
        match figure {
            "runtime_s" => Some(group.runtime_s),
            "cpu_share" => Some(group.cpu_share),
            "nr_periods" => Some(group.nr_periods as f64),
            "nr_throttled" => Some(group.nr_throttled as f64),
            "throttled_s" => Some(group.throttled_s),
            "burst_s" => Some(group.burst_s),
            _ => None,
        }
    }

    fn cpus(&self, rest: &str) -> Option<f64> {
        match rest.split_once('.') {
            None if rest == "busy_s" => Some(self.cpus.iter().map(|c| c.busy_s).sum()),
            None => None,
            Some((cpu, figure)) => {
                let cpu = self.cpus.get(cpu.parse::<usize>().ok()?)?;
                match figure.strip_prefix("idle_") {
                    Some(share) => self.idle_accuracy(Some(std::slice::from_ref(cpu)), share),
                    None => (figure == "busy_s").then_some(cpu.busy_s),
                }
            }
        }
    }

    fn domains(&self, rest: &str) -> Option<f64> {
        let Some((domain, figure)) = rest.split_once('.') else {
            return (rest == "transitions").then(|| self.domains.iter().map(|d| d.transitions as f64).sum());
        };
        let d = self.domains.get(domain.parse::<usize>().ok()?)?;
        match figure {
            "transitions" => Some(d.transitions as f64),
            "ramp_up_ms" => d.ramp_up_ms,
            "ramp_down_ms" => d.ramp_down_ms,
            "khz_mean" => {
                let whole: f64 = d.freq_residency.iter().map(|f| f.s).sum();
                let weighted: f64 = d.freq_residency.iter().map(|f| f.s * f64::from(f.khz)).sum();
                (whole > 0.0).then(|| weighted / whole)
            }
            _ => None,
        }
    }
}

impl GroupReport {
    /// A figure of this task's threads.
    fn figure(&self, name: &str) -> Option<f64> {
        match name.split_once('.') {
            None => match name {
                "runtime_s" => Some(self.runtime_s),
                "cpu_share" => Some(self.cpu_share),
                "work_s" => Some(self.work_s),
                "activations" => Some(self.activations as f64),
                "migrations" => Some(self.migrations as f64),
                _ => None,
            },
            Some(("wakeup_latency_us", stat)) => self.wakeup_latency_us.field(stat),
            Some(("wu_lat_us", stat)) => self.wu_lat_us.field(stat),
            Some(("deadline", figure)) => self.deadline.as_ref()?.figure(figure),
            Some(("hist", index)) => bin(&self.wu_lat_hist, &self.wu_lat_us, index),
            Some(("hist_share", index)) => share(&self.wu_lat_hist, &self.wu_lat_us, index),
            Some(_) => None,
        }
    }
}

impl DeadlineReport {
    fn figure(&self, name: &str) -> Option<f64> {
        match name {
            "jobs" => Some(self.jobs as f64),
            "misses" => Some(self.misses as f64),
            "miss_pct" => Some(self.miss_pct),
            _ => self.lateness_us.field(name.strip_prefix("lateness_us.")?),
        }
    }
}

/// A bin of a histogram that has values.
fn bin(histogram: &Histogram, of: &Summary, index: &str) -> Option<f64> {
    let index: usize = index.parse().ok()?;
    histogram.0.get(index).filter(|_| of.count > 0).map(|&n| n as f64)
}

/// A bin as a share of all values.
fn share(histogram: &Histogram, of: &Summary, index: &str) -> Option<f64> {
    bin(histogram, of, index).map(|n| n / of.count as f64)
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::sample;
    use super::super::{FollowReport, PaceReport, SignalsReport, StageReport};
    use super::super::{Summary, list};

    #[test]
    fn by_name() {
        let r = sample();
        for (name, task, want) in [
            ("wu_lat_us.count", None, Some(1.0)),
            ("wu_lat_us.mean", Some("a"), Some(2.0)),
            ("wakeup_latency_us.p99", None, Some(2.0)),
            ("wakeup_latency_us.stddev", None, None),
            ("hist.0", Some("a"), Some(1.0)),
            ("hist.11", None, None),
            ("hist_share.0", Some("a"), Some(1.0)),
            ("throughput.request", None, Some(100.0)),
            ("frames.request.p50", None, Some(3000.0)),
            ("tasks.a.runtime_s", None, Some(0.003998)),
            ("tasks.a.wu_lat_us.max", None, Some(2.0)),
            ("tasks.kworker.runtime_s", None, Some(0.001)),
            ("runtime_s", None, Some(0.003998)),
            ("activations", Some("a"), Some(1.0)),
            ("idle.off.usage", None, Some(1.0)),
            ("idle.off.correct_pct", None, Some(0.0)),
            ("cpus.0.idle_above_pct", None, Some(100.0)),
            ("cpus.0.idle_correct_pct", None, Some(0.0)),
            ("cpus.7.idle_correct_pct", None, None),
            ("cpus.0.idle_nonsense", None, None),
            ("idle.deep.usage", None, None),
            ("cpus.0.busy_s", None, Some(0.009)),
            ("domains.transitions", None, Some(1.0)),
            ("domains.0.khz_mean", None, Some(650_000.0)),
            ("energy.total", Some("a"), None),
            ("wu_lat_us.mean", Some("nobody"), None),
            ("nonsense", None, None),
        ] {
            let got = r.metric(name, task);
            let same = got.zip(want).map_or(got.is_none() && want.is_none(), |(g, w)| (g - w).abs() <= 1e-9 * w.abs());
            assert!(same, "{name} of {task:?}: {got:?}, not {want:?}");
        }
    }

    /// Every name of the list leads somewhere: the list and the lookup cannot drift apart.
    #[test]
    fn every_listed_name_has_a_figure() {
        let mut r = sample();
        let pace = PaceReport { jank_pct: Some(0.0), missed: 0, fps: Some(60.0), fps_stddev: Some(0.0) };
        let mark = r.metrics.frames.get_mut("request").expect("it is in the sample");
        (mark.pace, mark.stages) = (Some(pace), [("a".into(), StageReport { run_us: 1.0, wait_us: 2.0 })].into());
        (r.domains[1].ramp_up_ms, r.domains[1].ramp_down_ms) = (Some(1.0), Some(1.0));
        let balance = r.metrics.balance.as_mut().expect("a run has it");
        (balance.passes, balance.moved, balance.cost_s) = (Some(16), Some(3), Some(0.1));
        let follow = FollowReport { rise_ms: Some(145.0), fall_ms: Some(111.5) };
        r.metrics.signals = Some(SignalsReport { util_avg: follow, ..SignalsReport::default() });
        for m in list() {
            for stat in Summary::FIELDS.iter().filter(|s| **s != "stddev") {
                let name = m
                    .name
                    .replace("<stat>", stat)
                    .replace("<mark>", "request")
                    .replace("<task>", "a")
                    .replace("<group>", "/g")
                    .replace("cpus.<cpu>.idle", "cpus.0.idle"); // the others never woke up
                let name = name.replace("<bin>", "10").replace("<state>", "WFI").replace("<signal>", "util_avg");
                let name = ["<cpu>", "<cluster>", "<domain>"].iter().fold(name, |n, hole| n.replace(hole, "1"));
                assert!(r.metric(&name, None).is_some(), "{name}");
                assert_eq!(r.metric(&name, Some("a")).is_some(), m.by_task, "{name} of a task");
            }
        }
    }
}
