//! The one schema of events as tables: which column holds what, in which unit, of which events. Arrow and Parquet files
//! have all columns of the events they may hold; a table of one event has the columns of that event.

/// How a column is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// Signed, 32 bits: ids, priorities, frequencies, signals.
    Int32,
    /// Signed, 64 bits: times, so that differences do not wrap.
    Int64,
    /// True or false.
    Bool,
    /// UTF-8.
    Text,
}

impl ColumnType {
    /// As Arrow calls it.
    pub const fn name(self) -> &'static str {
        match self {
            ColumnType::Int32 => "int32",
            ColumnType::Int64 => "int64",
            ColumnType::Bool => "bool",
            ColumnType::Text => "utf8",
        }
    }
}

/// A column of a table of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name: the tracepoint's field, where there is one.
    pub name: &'static str,
    /// How it is stored.
    pub ty: ColumnType,
    /// Such as `ns`, `kHz`, `of 1024`; empty for ids, names and counts.
    pub unit: &'static str,
    /// What it says.
    pub meaning: &'static str,
    /// Events that have it; empty: every event. In rows of other events it is null.
    pub events: &'static [&'static str],
}

impl Column {
    /// Rows of `event` may have it.
    pub fn is_of(&self, event: &str) -> bool {
        self.events.is_empty() || self.events.contains(&event)
    }
}

/// The columns of the table of one event; its name is in no column, as it is the same in every row.
pub fn columns_of(event: &str) -> impl Iterator<Item = &'static Column> + '_ {
    COLUMNS.iter().filter(move |c| c.is_of(event) && c.name != "event")
}

const fn column(
    name: &'static str,
    ty: ColumnType,
    unit: &'static str,
    events: &'static [&'static str],
    meaning: &'static str,
) -> Column {
    Column { name, ty, unit, meaning, events }
}

use ColumnType::{Bool, Int32, Int64, Text};

const SWITCH: &[&str] = &["sched_switch"];
const WAKEUPS: &[&str] = &["sched_waking", "sched_wakeup", "sched_wakeup_new"];
const MIGRATE: &[&str] = &["sched_migrate_task"];
const FORK: &[&str] = &["sched_process_fork"];
const PLACEMENT: &[&str] = &["wattif_placement"];
const CANDIDATE: &[&str] = &["wattif_energy_candidate"];
const FREQUENCY: &[&str] = &["wattif_frequency"];
const IDLE: &[&str] = &["wattif_idle"];
const BALANCE: &[&str] = &["wattif_balance"];
const STATS: &[&str] = &["wattif_rtapp_stats"];
const CONFIGURED: &[&str] = &["wattif_rtapp_configured"];
const DEVICE: &[&str] = &["wattif_device_done"];
const WALT: &[&str] = &["wattif_walt_demand"];
const SIGNALS: &[&str] = &["pelt_cfs", "pelt_se"];
const ABOUT_A_THREAD: &[&str] = &[
    "sched_waking",
    "sched_wakeup",
    "sched_wakeup_new",
    "sched_migrate_task",
    "sched_process_fork",
    "sched_process_exec",
    "sched_process_exit",
    "cgroup_attach_task",
    "pelt_se",
    "wattif_walt_demand",
    "wattif_timer_wake",
    "wattif_rtapp_stats",
    "wattif_rtapp_configured",
    "wattif_mark",
    "wattif_touch",
    "wattif_device_done",
    "wattif_deadline_job",
    "wattif_placement",
];
const WITH_PRIORITY: &[&str] =
    &["sched_waking", "sched_wakeup", "sched_wakeup_new", "sched_migrate_task", "sched_process_exit"];
const GROUPS: &[&str] = &["cgroup_attach_task", "wattif_cfs_throttle", "wattif_cfs_unthrottle", "wattif_cfs_period"];

/// All columns, in the order of the files.
pub const COLUMNS: &[Column] = &[
    column("time_ns", Int64, "ns", &[], "When: since the start of the run; of a recording, by its clock."),
    column("cpu", Int32, "", &[], "Where."),
    column("event", Text, "", &[], "What: name of the tracepoint, or of an event of our own (`wattif_…`, `pelt_…`)."),
    column("current_pid", Int32, "", &[], "Thread that ran on the CPU; 0 is the idle task; null: not known."),
    column(
        "pid",
        Int32,
        "",
        ABOUT_A_THREAD,
        "Thread that the event is about: who wakes up, moves, ends, forks, is placed.",
    ),
    column("comm", Text, "", ABOUT_A_THREAD, "Its name."),
    column(
        "prio",
        Int32,
        "",
        WITH_PRIORITY,
        "Its priority as the kernel has it, 0 to 139: 120 is nice 0, below 100 is real-time.",
    ),
    column("prev_pid", Int32, "", SWITCH, "Thread that leaves; 0 is the idle task."),
    column("prev_comm", Text, "", SWITCH, "Its name."),
    column("prev_prio", Int32, "", SWITCH, "Its priority."),
    column(
        "prev_state",
        Text,
        "",
        SWITCH,
        "Why it leaves: R preempted or yielded, S sleeps, D waits for a device, X ended.",
    ),
    column("next_pid", Int32, "", SWITCH, "Thread that comes; 0 is the idle task."),
    column("next_comm", Text, "", SWITCH, "Its name."),
    column("next_prio", Int32, "", SWITCH, "Its priority."),
    column("target_cpu", Int32, "", WAKEUPS, "CPU it wakes up on; of `sched_waking`, the one it last ran on."),
    column(
        "in_irq",
        Bool,
        "",
        &["sched_waking", "sched_wakeup"],
        "An interrupt wakes it up, not the thread that runs.",
    ),
    column("orig_cpu", Int32, "", MIGRATE, "CPU it leaves."),
    column("dest_cpu", Int32, "", MIGRATE, "CPU it goes to."),
    column("child_pid", Int32, "", FORK, "The new thread."),
    column("child_comm", Text, "", FORK, "Its name."),
    column(
        "state",
        Int32,
        "",
        &["cpu_idle", "cpu_idle_miss", "wattif_idle", "wattif_idle_weights"],
        "Index of the idle state; of `cpu_idle`, -1: the CPU left it; of `wattif_idle_weights`, the row.",
    ),
    column(
        "below",
        Bool,
        "",
        &["cpu_idle_miss"],
        "True: a deeper state would have been right; false: a shallower one.",
    ),
    column("frequency_khz", Int32, "kHz", &["cpu_frequency"], "The CPU's frequency from now on."),
    column(
        "wu_lat_ns",
        Int64,
        "ns",
        &["wattif_timer_wake", "wattif_rtapp_stats"],
        "rt-app's wu_lat: nominal expiry of the timer until the thread reads its clock.",
    ),
    column("missed", Bool, "", &["wattif_timer_wake"], "It came too late to sleep."),
    column("run_ns", Int64, "ns", STATS, "Time spent in run events of the iteration."),
    column("period_ns", Int64, "ns", STATS, "Time of the iteration."),
    column("slack_ns", Int64, "ns", STATS, "Time left before the last timer; below 0: it was late."),
    column("c_duration_us", Int64, "us", CONFIGURED, "Run time that was configured."),
    column("c_period_us", Int64, "us", CONFIGURED, "Timer period that was configured."),
    column("mark", Text, "", &["wattif_mark"], "What ended: a frame, request, transaction."),
    column("began_ns", Int64, "ns", &["wattif_mark"], "When it began, on the clock of time_ns."),
    column("device", Int32, "", DEVICE, "Index of the device among those of the workload."),
    column("queued_ns", Int64, "ns", DEVICE, "How long the request waited for others."),
    column("service_ns", Int64, "ns", DEVICE, "How long the device then took."),
    column(
        "lateness_ns",
        Int64,
        "ns",
        &["wattif_deadline_job"],
        "End of the job less its deadline; above 0: it was missed.",
    ),
    column("group", Int32, "", GROUPS, "Index of the group among those of the workload."),
    column("waited_ns", Int64, "ns", &["wattif_cfs_unthrottle"], "How long tasks waited on the throttled queue."),
    column("periods", Int32, "", &["wattif_cfs_period"], "Bandwidth periods that ended."),
    column("throttled", Bool, "", &["wattif_cfs_period"], "A queue of the group was throttled at the end."),
    column("burst_ns", Int64, "ns", &["wattif_cfs_period"], "Run time beyond the quota, thanks to the burst."),
    column("prev_cpu", Int32, "", PLACEMENT, "CPU it ran on before."),
    column("this_cpu", Int32, "", PLACEMENT, "CPU of the waker."),
    column("target", Int32, "", PLACEMENT, "CPU that `wake_affine` chose to search from."),
    column("chosen_cpu", Int32, "", PLACEMENT, "CPU that was chosen."),
    column("reason", Text, "", PLACEMENT, "By which rule."),
    column("scanned", Int32, "", PLACEMENT, "CPUs that the scan looked at."),
    column("nr_running", Int32, "", PLACEMENT, "Runnable tasks on the chosen CPU before."),
    column(
        "candidate_cpu",
        Int32,
        "",
        CANDIDATE,
        "CPU that energy-aware placement weighed; `wattif_placement` follows.",
    ),
    column("candidate_util", Int64, "of 1024", CANDIDATE, "Its utilisation with the task on it."),
    column("capacity", Int64, "of 1024", CANDIDATE, "What it has for fair tasks."),
    column("fits", Bool, "", CANDIDATE, "The task fits; false: but for its minimum clamp."),
    column(
        "energy",
        Int64,
        "of the model",
        CANDIDATE,
        "Energy of its domain without the task (Android's 4.9: power if the task stays, uW).",
    ),
    column(
        "delta",
        Int64,
        "of the model",
        CANDIDATE,
        "What the task adds to it (Android's 4.9: what moving it there changes).",
    ),
    column("domain", Int32, "", FREQUENCY, "Frequency domain."),
    column("next_khz", Int32, "kHz", FREQUENCY, "Frequency that is asked for."),
    column("prev_khz", Int32, "kHz", FREQUENCY, "Frequency before."),
    column(
        "util",
        Int64,
        "of 1024",
        FREQUENCY,
        "Utilisation (WALT: demand) that the request is for; in schedutil's generation 6.12 with its headroom, in those before without.",
    ),
    column(
        "util_avg",
        Int64,
        "of 1024",
        &["wattif_frequency", "pelt_cfs", "pelt_se"],
        "Utilisation of the CPU or thread.",
    ),
    column(
        "runnable_avg",
        Int64,
        "of 1024",
        &["wattif_frequency", "pelt_cfs", "pelt_se"],
        "Share of time with something runnable, of the CPU or thread.",
    ),
    column("load_avg", Int64, "", SIGNALS, "Load: runnable share times weight, of the CPU or thread."),
    column(
        "util_est",
        Int64,
        "of 1024",
        &["wattif_frequency", "pelt_cfs"],
        "Sum of the estimated utilisations of queued tasks.",
    ),
    column("demand", Int32, "of 1024", WALT, "WALT: what the thread asks of a window."),
    column("cpu_demand", Int32, "of 1024", WALT, "WALT: what all queued tasks of the CPU ask of it; may be more."),
    column("iowait_boost", Int64, "of 1024", FREQUENCY, "Boost for waits for devices."),
    column("stop_tick", Bool, "", IDLE, "The tick is stopped."),
    column(
        "predicted_ns",
        Int64,
        "ns",
        IDLE,
        "How long the governor expects to sleep, 900 s where that is for ever; null: it expects nothing.",
    ),
    column(
        "sleep_length_ns",
        Int64,
        "ns",
        IDLE,
        "Time until the next timer, 900 s where there is none: the clock must be read by then; null: it did not ask.",
    ),
    column(
        "weights",
        Text,
        "1/100 %",
        &["wattif_idle_weights"],
        "How likely which state would have been right after `state` was entered: a number a state, by commas.",
    ),
    column("kind", Text, "", BALANCE, "Which pass: periodic, newidle, nohz, active."),
    column("dst_cpu", Int32, "", BALANCE, "CPU that pulls."),
    column("src_cpu", Int32, "", BALANCE, "CPU that is pulled from."),
    column("moved", Int32, "", BALANCE, "Tasks that were moved."),
    column("imbalance", Int64, "", BALANCE, "What was to be moved, in the unit of the pass."),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_column_once_and_documented() {
        let names: BTreeSet<&str> = COLUMNS.iter().map(|c| c.name).collect();
        assert_eq!(names.len(), COLUMNS.len());
        for c in COLUMNS {
            let by_name = [("_ns", "ns"), ("_us", "us"), ("_khz", "kHz")].into_iter().find(|u| c.name.ends_with(u.0));
            assert!(by_name.is_none_or(|u| c.unit == u.1), "{}: unit {}", c.name, c.unit);
            assert!(c.meaning.ends_with('.'), "{}", c.name);
        }
    }

    #[test]
    fn tables_of_one_event() {
        let names = |event| columns_of(event).map(|c| c.name).collect::<Vec<_>>();
        assert_eq!(names("cpu_frequency"), ["time_ns", "cpu", "current_pid", "frequency_khz"]);
        assert_eq!(
            names("sched_waking"),
            ["time_ns", "cpu", "current_pid", "pid", "comm", "prio", "target_cpu", "in_irq"]
        );
    }
}
