//! Which threads of a recording are the machine's background rather than its workload: those of the kernel, and recorders.
//!
//! Our own files say it. Of others, a kernel thread shows by its parent, `kthreadd`, in a list of processes or in its fork; whoever
//! has another parent, or belongs to a process of several threads, is none. Where nothing of this is known, names are asked: whole
//! ones that the kernel gives, since `rcuperf_user` and `irq_balancer` are programs.

use super::play::seen;
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::Pid;
use wattif_model::trace::{Event, RecordedThread, Recording};

/// The parent of all threads of the kernel.
const KTHREADD: Pid = Pid(2);
/// Programs that write traces.
const RECORDERS: [&str; 6] = ["trace-cmd", "traced", "traced_probes", "traced_perf", "perfetto", "atrace"];
/// Whole names of the kernel's; its own 15 characters of the longer ones.
const NAMES: [&str; 25] = [
    "dhd_rpm_state_t",
    "kauditd",
    "khugepaged",
    "khungtaskd",
    "ksmd",
    "kthreadd",
    "kworker",
    "msm_watchdog",
    "oom_reaper",
    "qrtr_ns",
    "qrtr_rx",
    "rcu_bh",
    "rcu_exp_gp_kthr",
    "rcu_exp_par_gp_",
    "rcu_gp",
    "rcu_par_gp",
    "rcu_preempt",
    "rcu_sched",
    "rcu_tasks",
    "rcu_tasks_kthre",
    "rcu_tasks_rude_",
    "rcu_tasks_trace",
    "swapper",
    "watchdogd",
    "writeback",
];
/// A number follows.
const NUMBERED: [&str; 16] = [
    "cpuhp/",
    "idle_inject/",
    "irq/",
    "kcompactd",
    "ksoftirqd/",
    "kswapd",
    "migration/",
    "mmcqd/",
    "rcub/",
    "rcuc/",
    "rcuob/",
    "rcuog/",
    "rcuop/",
    "rcuos/",
    "sugov:",
    "swapper/",
];
/// Anything follows: `kworker/u16:3-events`, `jbd2/sda1-8`, `watchdog/0`.
const FAMILIES: [&str; 3] = ["jbd2/", "kworker/", "watchdog/"];
/// Names that are told.
const TOLD: usize = 6;

/// All of them.
pub fn background(recording: &Recording) -> BTreeSet<Pid> {
    let forked = forked_by_kernel(recording);
    let is =
        |pid: &Pid| recording.threads.get(&pid.0).is_some_and(|t| is_background(t, *pid, forked.get(pid).copied()));
    seen(recording).into_keys().filter(is).collect()
}

/// How many, and who.
pub fn background_told(recording: &Recording) -> Option<String> {
    told(recording, &background(recording), "background")
}

/// The same of those that are known, and what they are taken as.
pub(super) fn told(recording: &Recording, all: &BTreeSet<Pid>, what: &str) -> Option<String> {
    let names: BTreeSet<&str> = all.iter().map(|pid| recording.comm(*pid)).collect();
    let more = names.len().saturating_sub(TOLD);
    let shown = names.into_iter().take(TOLD).collect::<Vec<_>>().join(", ");
    let more = if more > 0 { format!(" and {more} more names") } else { String::new() };
    let threads = if all.len() == 1 { "thread" } else { "threads" };
    (!all.is_empty()).then(|| format!("{} {threads} taken as {what}: {shown}{more}", all.len()))
}

/// Threads whose fork the trace holds: was `kthreadd` the parent?
fn forked_by_kernel(recording: &Recording) -> BTreeMap<Pid, bool> {
    let fork = |event: &Event| match *event {
        Event::SchedProcessFork { pid, child_pid } => Some((child_pid, pid == KTHREADD)),
        _ => None,
    };
    recording.records.iter().filter_map(|r| fork(r.event()?)).collect()
}

fn is_background(t: &RecordedThread, pid: Pid, forked_by_kernel: Option<bool>) -> bool {
    // Only our own files tell policies.
    if t.policy_was_told() {
        return t.housekeeping == Some(true);
    }
    let one_of_many = (t.tgid != 0 && t.tgid != pid.0).then_some(false);
    match t.housekeeping.or(forked_by_kernel).or(one_of_many) {
        Some(true) => true,
        known => RECORDERS.contains(&t.comm.as_str()) || known.is_none() && is_of_kernel(&t.comm),
    }
}

fn is_of_kernel(comm: &str) -> bool {
    let digit = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
    NAMES.contains(&comm)
        || NUMBERED.iter().any(|p| comm.strip_prefix(p).is_some_and(digit))
        || FAMILIES.iter().any(|p| comm.starts_with(p))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_kernel_are_whole() {
        for name in ["kworker/u16:3-ev", "ksoftirqd/0", "irq/24-eth0", "rcu_preempt", "rcuop/3", "sugov:4", "kswapd0"] {
            assert!(is_of_kernel(name), "{name}");
        }
        for name in ["perf", "perfd", "rcuperf_user", "irq/network", "irq_balancer", "tracedump", "kswapd_helper"] {
            assert!(!is_of_kernel(name), "{name}");
        }
    }

    #[test]
    fn what_the_file_knows_counts_more_than_a_name() {
        let of = |comm: &str, tgid, policy, housekeeping| {
            is_background(
                &RecordedThread { comm: comm.into(), tgid, policy, housekeeping, ..Default::default() },
                Pid(7),
                None,
            )
        };
        assert!(of("rcu_gp", 0, None, None) && of("rcu_gp", 7, None, None) && of("vendor_thing", 7, None, Some(true)));
        assert!(!of("rcu_gp", 3, None, None) && !of("rcu_gp", 7, None, Some(false)));
        assert!(of("traced", 3, None, Some(false)), "a recorder");
        assert!(of("sugov:0", 0, Some("SCHED_DEADLINE"), None) && !of("job", 0, Some("SCHED_DEADLINE"), Some(false)));
        let ours = Some("SCHED_OTHER");
        assert!(of("daemon", 7, ours, Some(true)) && !of("rcu_gp", 7, ours, Some(false)));
        let forked = |by| is_background(&RecordedThread { comm: "rcu_gp".into(), ..Default::default() }, Pid(7), by);
        assert!(forked(Some(true)) && !forked(Some(false)));
    }
}
