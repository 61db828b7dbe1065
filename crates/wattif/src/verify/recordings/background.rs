//! The machine around a case: the shell that starts its processes, and what the guest's kernel threads did meanwhile.
//!
//! Neither is an outcome of the case. The shell's forks are at the times that the case states. When a kernel thread woke up, where
//! and for how long it ran is taken from the recording's text, and happens again at those times: its wake-ups end idle periods,
//! run ticks and lower clocks of CPUs that the case does not use. Nothing else is taken from there. Where the governor samples in
//! workers of its own, or an idle governor would see the timers that wake the threads here, they are left out.

use super::case::Case;
use super::history::History;
use wattif_model::workload::{Amount, Op, TaskSpec, TimerSpec, Workload};
use wattif_model::{CpuId, CpuSet, Ns};

/// What the shell that starts a process runs for it, at 1 GIPS: from its own wake-up to the fork, and from there until it
/// sleeps again; one pair for each build of the kernel, from the recordings' switches and forks of `sh`.
const SHELL_X86: [u64; 2] = [145_000, 55_000];
const SHELL_ARM64: [u64; 2] = [58_000, 16_000];
/// It does not sleep for less, ns: a sleep takes the slack of its timer at least.
const SHELL_PAUSE: u64 = 100_000;
/// Time zero of a case whose processes a shell starts is this tick of the run: what came before it has decayed by then.
const LEAD_TICKS: u64 = 100;
/// A thread's timer may expire this late, ns (timer slack); wake-ups are asked for so much earlier.
const EARLY: u64 = 45_000;
/// What a switch takes of a recorded stint, ns.
const SWITCH: u64 = 2_500;
/// Kernel threads whose runs are repeated.
const KERNEL_THREADS: [&str; 5] = ["kworker/", "rcu_preempt", "ksoftirqd/", "kcompactd", "khugepaged"];

/// Time of the run at which the case's time zero is.
pub fn lead(case: &Case, hz: u32) -> Ns {
    // An idle governor remembers what it saw.
    let ticks = if case.idle_governor.is_some() { 1 } else { LEAD_TICKS };
    case.time_zero_s.map_or(Ns::ZERO, |_| Ns(ticks * 1_000_000_000 / u64::from(hz)))
}

/// The shell is awake on its CPU, the first, while it creates a process there: placement of a new task looks elsewhere.
/// Its wake-ups are absolute, before each fork by what it runs until then.
pub fn add_shell(workload: &mut Workload, case: &Case) {
    let [before, after] = if case.platform.contains("arm64") { SHELL_ARM64 } else { SHELL_X86 };
    let mut starts: Vec<u64> = workload.tasks.iter().map(|t| t.start.0).collect();
    starts.sort_unstable();
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for start in starts {
        let wakes = start.saturating_sub(before);
        match runs.last_mut() {
            // It goes on with the next at once.
            Some((at, work)) if wakes < *at + *work + SHELL_PAUSE => *work = (wakes + before + after).max(*at) - *at,
            _ => runs.push((wakes, before + after)),
        }
    }
    let runs = runs.into_iter().map(|(at, work)| (at, Op::Run(Amount::Fixed(work))));
    add(workload, "sh".into(), CpuId(0), runs);
}

/// Are the recording's kernel threads repeated? Not where its workers are the governor's, nor where an idle governor would see the
/// timers that wake them here.
pub fn repeats_kernel_threads(case: &Case) -> bool {
    let samples = matches!(case.governor.as_deref(), Some("ondemand" | "conservative"));
    !samples && case.idle_governor.is_none()
}

/// The kernel threads of `recording` from the beginning of the run, at `zero_ns` there, to the end of the case's window.
pub fn add_kernel_threads(workload: &mut Workload, case: &Case, recording: &History, zero_ns: i128) {
    let ours = |comm: &str| KERNEL_THREADS.iter().any(|k| comm.starts_with(k));
    let end = case.measured.get("window").and_then(|w| w.get("end_s")).and_then(serde_json::Value::as_f64);
    let end_ns = end.map_or(recording.last, |s| (s * 1e9) as u64);
    let mut stints: Vec<(u32, u64, u64)> = Vec::new();
    for thread in recording.threads.values().filter(|t| ours(&t.comm)) {
        for stint in thread.stints.iter().filter(|s| s.end < end_ns) {
            let waking = thread.wakes.iter().find(|w| w.ran == stint.start).and_then(|w| w.waking);
            let at = i128::from(waking.unwrap_or(stint.start)) - zero_ns - i128::from(EARLY);
            if let Ok(at) = u64::try_from(at) {
                stints.push((stint.cpu, at, (stint.end - stint.start).saturating_sub(SWITCH).max(1)));
            }
        }
    }
    stints.sort_unstable();
    for of_cpu in stints.chunk_by(|a, b| a.0 == b.0) {
        let cpu = CpuId(of_cpu[0].0);
        let runs = of_cpu.iter().map(|&(_, at, ns)| (at, Op::RunInsensitive(Amount::Fixed(ns))));
        add(workload, format!("guest/{}", cpu.0), cpu, runs);
    }
}

/// A thread on one CPU that wakes up at given times, ns, and does something each time.
fn add(workload: &mut Workload, name: String, cpu: CpuId, runs: impl Iterator<Item = (u64, Op)>) {
    let timer = workload.timers.len() as u32;
    workload.timers.push(TimerSpec { name: name.clone(), shared: false });
    let (mut ops, mut last) = (Vec::new(), 0);
    for (at, op) in runs {
        ops.extend([Op::Timer { timer, period: Amount::Fixed(at - last), absolute: true }, op]);
        last = at;
    }
    workload.tasks.push(TaskSpec { cpus: Some(CpuSet::one(cpu)), background: true, ..TaskSpec::new(name, ops) });
}
