//! The names of metrics, as experiments, `--fail-if` and tables use them.

use super::Summary;
use serde::Serialize;

/// Which way is good?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
}

impl Better {
    /// `value` so that less is better.
    pub fn as_low(self, value: f64) -> f64 {
        if self == Better::Higher { -value } else { value }
    }
}

/// A metric, or a family of them: `<stat>` in the name stands for one of [`Summary::FIELDS`], any other `<…>` for any text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MetricInfo {
    /// Such as `wu_lat_us.mean`.
    pub name: &'static str,
    /// Such as `µs`; empty for plain counts.
    pub unit: &'static str,
    /// Which way is good; of a neutral metric, which way a search or a front looks that is told to use it.
    pub better: Better,
    /// Neither way is good in itself: a change is told, not judged.
    pub neutral: bool,
    /// Can be asked of one task alone (`threads` in an experiment).
    pub by_task: bool,
    /// One line for people.
    pub doc: &'static str,
}

const fn lower(name: &'static str, unit: &'static str, by_task: bool, doc: &'static str) -> MetricInfo {
    MetricInfo { name, unit, better: Better::Lower, neutral: false, by_task, doc }
}

const fn higher(name: &'static str, unit: &'static str, by_task: bool, doc: &'static str) -> MetricInfo {
    MetricInfo { better: Better::Higher, ..lower(name, unit, by_task, doc) }
}

/// A metric that says what happens, not how good that is.
const fn neutral(of: MetricInfo) -> MetricInfo {
    MetricInfo { neutral: true, ..of }
}

/// All metrics. The first entry that matches a name describes it.
#[rustfmt::skip]
const METRICS: &[MetricInfo] = &[
    higher("wu_lat_us.count", "", true, "Log lines of rt-app: phase iterations that ended. Overruns skip iterations. Of the whole run only those that used a timer, of a task all."),
    lower("wu_lat_us.<stat>", "µs", true, "Wake-up latency as rt-app logs it: nominal expiry until the thread reads the clock; 0 when late. Of the whole run only log lines of phase iterations that used a timer count; of a task all, and one without a timer has 0. <stat> is min, max, sum, mean, stddev (n − 1), p50, p90, p95, p99 or p999."),
    neutral(higher("wakeup_latency_us.count", "", true, "Wake-ups that led to a switch.")),
    lower("wakeup_latency_us.<stat>", "µs", true, "From sched_waking until the thread is switched in: what a trace shows."),
    neutral(lower("hist.<bin>", "", true, "wu_lat_us by 100 µs: bins 0 to 9, and 10 for 1000 µs or more; of the same log lines.")),
    neutral(higher("hist_share.<bin>", "", true, "The same as a share of all, 0 to 1.")),
    lower("energy.total", "J", false, "Energy of CPUs, clusters and the rest of the system. The unit is the platform's."),
    lower("energy.base", "J", false, "Energy of the rest of the system."),
    lower("energy.cpus", "J", false, "Energy of all CPUs."),
    lower("energy.clusters", "J", false, "Energy of all clusters."),
    lower("energy.cpus.<cpu>", "J", false, "Energy of one CPU."),
    lower("energy.clusters.<cluster>", "J", false, "Energy of one cluster."),
    lower("power_mean", "W", false, "energy.total by the length of the run."),
    higher("idle_accuracy.correct_pct", "%", false, "Sleeps in the right idle state."),
    lower("idle_accuracy.above_pct", "%", false, "Sleeps in too deep a state."),
    lower("idle_accuracy.below_pct", "%", false, "Sleeps in too shallow a state."),
    lower("idle_accuracy.undershoot_pct", "%", false, "Sleeps shorter than their state needs. above_pct, as the kernel counts, is of those only for which a shallower state was enabled."),
    lower("idle_accuracy.overshoot_pct", "%", false, "The same as below_pct: the sleep was long enough for a deeper state."),
    higher("idle_accuracy.neither_pct", "%", false, "Sleeps that were neither: 100 less undershoot_pct and overshoot_pct."),
    higher("idle.<state>.correct_pct", "%", false, "Sleeps in the state of this name that were right, of all sleeps of all CPUs."),
    lower("idle.<state>.above_pct", "%", false, "Sleeps in the state of this name that were too short for it, of all sleeps of all CPUs."),
    lower("idle.<state>.undershoot_pct", "%", false, "Sleeps in the state of this name that were shorter than it needs, whatever states are disabled, of all sleeps of all CPUs."),
    lower("idle.<state>.below_pct", "%", false, "Sleeps in the state of this name that were long enough for a deeper one, of all sleeps of all CPUs."),
    neutral(higher("idle_wakeups.timer_pct", "%", false, "Idle periods ended by a timer of the CPU.")),
    neutral(lower("idle_wakeups.tick_pct", "%", false, "Idle periods ended by the tick.")),
    neutral(lower("idle_wakeups.device_pct", "%", false, "Idle periods ended by a device.")),
    neutral(lower("idle_wakeups.ipi_pct", "%", false, "Idle periods ended by another CPU.")),
    neutral(lower("idle_wakeups.poll_limit_pct", "%", false, "Idle periods ended by the time limit of a polling state.")),
    lower("oracle.energy_excess_pct", "%", false, "Energy of the CPUs in idle periods beyond the least possible for periods of these lengths."),
    neutral(lower("oracle.energy", "J", false, "The least energy possible for the idle periods as they were: a lower bound for every governor. The unit is the platform's.")),
    lower("oracle.idle_energy", "J", false, "Energy of the CPUs in idle periods, entering and leaving included. The unit is the platform's."),
    lower("oracle.late_us.<stat>", "µs", false, "From the request to wake up until the CPU executed; an oracle's is 0. <stat> as in wu_lat_us."),
    higher("oracle.same_pct", "%", false, "Idle periods in the state that needed the least energy."),
    lower("oracle.deeper_pct", "%", false, "Idle periods in a deeper state than that."),
    lower("oracle.shallower_pct", "%", false, "Idle periods in a shallower state than that."),
    neutral(higher("idle.<state>.residency_s", "s", false, "Time of all CPUs in the idle state of this name.")),
    neutral(higher("idle.<state>.usage", "", false, "Sleeps of all CPUs in the idle state of this name.")),
    higher("frames.<mark>.count", "", false, "Units of work with this mark."),
    higher("frames.<mark>.near_min_share", "", false, "Units of work with this mark that took at most 5 % more than the shortest, as a share of all, 0 to 1."),
    lower("frames.<mark>.near_max_share", "", false, "Units of work with this mark that took at most 5 % less than the longest, as a share of all, 0 to 1."),
    lower("frames.<mark>.p25", "µs", false, "A quarter of the units of work with this mark took at most this."),
    lower("frames.<mark>.p75", "µs", false, "Three quarters of them took at most this."),
    lower("frames.<mark>.jank_pct", "%", false, "Janks as JankBench counts them: longer than a vsync period, at 60 Hz than the benchmark's 16 ms; after such a one only longer than two, until one is in time. Of the first mark with a period: later ones are the same frames further down the pipeline."),
    lower("frames.<mark>.missed", "", false, "Vsyncs at which a unit of work with this mark was due and none came, each once: a period after it began or after the one before it was shown, whichever is later. They are counted up to the last unit that ended: what is missed after it is not. Of marks with a period."),
    higher("frames.<mark>.fps", "1/s", false, "Units of work with this mark per second, mean over the whole seconds of the run; none for a run without one. Of marks with a period."),
    lower("frames.<mark>.fps_stddev", "1/s", false, "Its standard deviation over these seconds (n − 1); none for fewer than two. Of marks with a period."),
    lower("frames.<mark>.energy", "J", false, "energy.total by the number of units of work with this mark."),
    lower("frames.<mark>.stages.<task>.run_us", "µs", false, "Time on CPUs of all threads of a task, or time a device served, by the number of units of work with this mark: the stage's part in a frame. Of marks with a period."),
    lower("frames.<mark>.stages.<task>.wait_us", "µs", false, "Their time from waking to running, or that requests waited for others, by the number of units. Of marks with a period."),
    lower("frames.<mark>.<stat>", "µs", false, "Duration of units of work with this mark; <stat> as in wu_lat_us."),
    higher("throughput.<mark>", "1/s", false, "Units of work with this mark per second."),
    neutral(higher("deadline.jobs", "", true, "Jobs of deadline tasks: from the release (timer or wake-up) to the next sleep or yield.")),
    lower("deadline.misses", "", true, "Of these, those that ended later than dl-deadline after their release."),
    lower("deadline.miss_pct", "%", true, "The same as a share of all jobs."),
    lower("deadline.lateness_us.<stat>", "µs", true, "How much later; 0 for jobs in time. <stat> as in wu_lat_us."),
    neutral(higher("runtime_s", "s", true, "CPU time of the workload, or of one task.")),
    neutral(higher("cpu_share", "", true, "CPU time by the length of the run: CPUs' worth.")),
    higher("work_s", "s", true, "CPU time weighted by speed: seconds of the fastest CPU at full speed."),
    neutral(higher("activations", "", true, "Wake-ups.")),
    neutral(lower("migrations", "", true, "Moves to another CPU; of all threads, housekeeping included, unless asked of one task.")),
    neutral(higher("tasks.<task>.runtime_s", "s", false, "CPU time of all threads of a task.")),
    neutral(higher("tasks.<task>.cpu_share", "", false, "The same by the length of the run.")),
    higher("tasks.<task>.work_s", "s", false, "The same weighted by speed."),
    neutral(higher("tasks.<task>.activations", "", false, "Wake-ups of a task.")),
    neutral(lower("tasks.<task>.migrations", "", false, "Moves of a task to another CPU.")),
    higher("tasks.<task>.wu_lat_us.count", "", false, "Log lines of a task."),
    lower("tasks.<task>.wu_lat_us.<stat>", "µs", false, "wu_lat_us of a task."),
    lower("tasks.<task>.deadline.misses", "", false, "Jobs of a deadline task that missed their deadline."),
    lower("tasks.<task>.deadline.lateness_us.<stat>", "µs", false, "How late its jobs were."),
    neutral(higher("tasks.<task>.wakeup_latency_us.count", "", false, "Wake-ups of a task that led to a switch.")),
    lower("tasks.<task>.wakeup_latency_us.<stat>", "µs", false, "wakeup_latency_us of a task."),
    neutral(lower("tasks.<task>.hist.<bin>", "", false, "wu_lat_us of a task by 100 µs.")),
    neutral(higher("groups.<group>.runtime_s", "s", false, "CPU time of a group such as /app, those below it included.")),
    neutral(higher("groups.<group>.cpu_share", "", false, "The same by the length of the run: CPUs' worth.")),
    neutral(lower("groups.<group>.nr_periods", "", false, "Bandwidth periods of a limited group that ended.")),
    lower("groups.<group>.nr_throttled", "", false, "Those that ended with a throttled queue."),
    lower("groups.<group>.throttled_s", "s", false, "Time that threads waited on throttled queues of a group, summed over CPUs."),
    neutral(lower("groups.<group>.burst_s", "s", false, "CPU time of a group beyond its quota, thanks to its burst.")),
    neutral(lower("cpus.busy_s", "s", false, "Time of all CPUs not in an idle state.")),
    neutral(lower("cpus.<cpu>.busy_s", "s", false, "Time of one CPU not in an idle state.")),
    higher("cpus.<cpu>.idle_correct_pct", "%", false, "Sleeps of one CPU in the right idle state."),
    lower("cpus.<cpu>.idle_above_pct", "%", false, "Sleeps of one CPU in too deep a state."),
    lower("cpus.<cpu>.idle_below_pct", "%", false, "Sleeps of one CPU in too shallow a state."),
    neutral(lower("domains.transitions", "", false, "Changes of frequency, all domains.")),
    neutral(lower("domains.<domain>.transitions", "", false, "Changes of frequency of one domain.")),
    lower("domains.<domain>.ramp_up_ms", "ms", false, "From when a CPU became busy at the lowest frequency of its domain until the highest was reached first, without the CPU having been idle; mean."),
    lower("domains.<domain>.ramp_down_ms", "ms", false, "From the end of the load at the highest frequency (its last busy time of 10 ms or more; without one, from leaving it) until the lowest was reached without a return; mean."),
    neutral(higher("domains.<domain>.khz_mean", "kHz", false, "Time-weighted mean frequency of one domain.")),
    lower("balance.spread", "", false, "Runnable threads of the fullest CPU minus those of the emptiest, mean over time."),
    lower("balance.wasted_s", "s", false, "CPU seconds that idle CPUs could have given to threads that waited elsewhere."),
    neutral(lower("balance.passes", "", false, "Passes of the load balancer over a domain.")),
    neutral(lower("balance.moved", "", false, "Tasks that the load balancer pulled or had pushed.")),
    lower("balance.cost_s", "s", false, "Time of the CPUs that its passes took; estimated from the platform's costs."),
    lower("balance.pass_us", "µs", false, "The same per pass."),
    neutral(higher("clusters.<cluster>.runnable", "", false, "Runnable threads of the workload on the CPUs of a cluster, mean over time.")),
    neutral(lower("signals.<signal>.rise_ms", "ms", false, "From when a thread with a low signal (util_avg or walt_demand) began to run until 95 %, wall time, mean. Only of workloads made for it, such as step_response.")),
    neutral(lower("signals.<signal>.rise_periods", "", false, "The same in PELT's periods of 1.048576 ms.")),
    neutral(lower("signals.<signal>.fall_ms", "ms", false, "The shortest sleep that took a full signal to 10 % or less, wall time.")),
    neutral(lower("signals.<signal>.fall_periods", "", false, "The same in PELT's periods.")),
    lower("duration_s", "s", false, "Length of the run; of a workload that ends by itself, the time it took."),
    neutral(lower("slices", "", false, "Context switches to a thread.")),
];

/// All metrics with their units, for `wattif list metrics`.
pub fn list() -> &'static [MetricInfo] {
    METRICS
}

/// What a name means; `None` when no metric has it.
pub fn info(name: &str) -> Option<&'static MetricInfo> {
    METRICS.iter().find(|m| matches(m.name, name))
}

/// Which way is good for `name`; less, where nothing is known of it.
pub fn better(name: &str) -> Better {
    info(name).map_or(Better::Lower, |m| m.better)
}

/// Is a change of `name` neither better nor worse? Not where nothing is known of it.
pub fn is_neutral(name: &str) -> bool {
    info(name).is_some_and(|m| m.neutral)
}

/// All names to offer in place of one that nothing has: families with `<stat>` by each of these.
pub fn offered() -> Vec<String> {
    let each = |m: &MetricInfo| match m.name.contains("<stat>") {
        true => Summary::FIELDS.iter().map(|stat| m.name.replace("<stat>", stat)).collect(),
        false => vec![m.name.to_string()],
    };
    METRICS.iter().flat_map(each).collect()
}

/// Does `name` fit `pattern`? `<stat>` takes one of [`Summary::FIELDS`], any other `<…>` any text that is not empty, dots included.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((literal, rest)) = pattern.split_once('<') else { return pattern == name };
    let Some(name) = name.strip_prefix(literal) else { return false };
    let (what, after) = rest.split_once('>').unwrap_or((rest, ""));
    let takes = |text: &str| what != "stat" || Summary::FIELDS.contains(&text);
    let ends = name.char_indices().skip(1).map(|(i, _)| i).chain([name.len()]);
    !name.is_empty() && ends.into_iter().any(|i| takes(&name[..i]) && matches(after, &name[i..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (name, pattern) in [
            ("wu_lat_us.count", "wu_lat_us.count"),
            ("wu_lat_us.p99", "wu_lat_us.<stat>"),
            ("tasks.a.b.runtime_s", "tasks.<task>.runtime_s"),
            ("tasks.x.wu_lat_us.count", "tasks.<task>.wu_lat_us.count"),
            ("throughput.µ", "throughput.<mark>"),
            ("energy.cpus.3", "energy.cpus.<cpu>"),
            ("frames.a.b.p999", "frames.<mark>.<stat>"),
        ] {
            assert_eq!(info(name).map(|m| m.name), Some(pattern), "{name}");
        }
        assert_eq!(["runtime_s", "tasks.a.b.cpu_share", "domains.0.khz_mean", "slices"].map(is_neutral), [true; 4]);
        assert_eq!(["tasks.a.work_s", "energy.total", "wu_lat_us.p99", "no_such"].map(is_neutral), [false; 4]);
        for name in ["wu_lat_us", "wu_lat_us.", "wu_lat_us.meen", "frames.a.p99.x", "tasks..runtime_s", "latency", ""] {
            assert_eq!(info(name), None, "{name}");
        }
        assert!(offered().contains(&"wu_lat_us.mean".to_string()));
    }
}
