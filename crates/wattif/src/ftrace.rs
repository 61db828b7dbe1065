//! `--trace FILE`: the events of a run as text, in the columns of `trace-cmd report`, written while the run goes on.
//!
//! Tracepoints have the kernel's names and fields. Decision events, where asked for, have ours: `wattif_placement`,
//! `wattif_frequency`, `wattif_idle`, `wattif_balance`, each with the inputs the policy saw.

use crate::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;
use wattif_model::platform::Platform;
use wattif_model::trace::{Event, Interest, Observer, PlacementReason, PrevState, ThreadInfo};
use wattif_model::{CpuId, DomainId, Ns, Pid};

/// Writes to a temporary file beside `path`; [`TextTrace::finish`] gives it its name.
pub struct TextTrace {
    path: PathBuf,
    out: BufWriter<NamedTempFile>,
    names: Vec<String>,
    domains: Vec<Vec<u32>>,
    current: Vec<Pid>,
    interest: Interest,
    failed: Option<std::io::Error>,
}

impl TextTrace {
    /// Begin a trace; `decisions` adds the decision events.
    pub fn create(path: &Path, decisions: bool) -> Result<TextTrace, Error> {
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let file = NamedTempFile::new_in(folder).map_err(|e| Error::file(path, e))?;
        let tracepoints =
            Interest::SCHED.and(Interest::IDLE).and(Interest::FREQ).and(Interest::PROGRAM).and(Interest::GROUPS);
        Ok(TextTrace {
            path: path.to_path_buf(),
            out: BufWriter::with_capacity(1 << 20, file),
            names: vec!["<idle>".into()],
            domains: Vec::new(),
            current: Vec::new(),
            interest: if decisions { tracepoints.and(Interest::DECISIONS) } else { tracepoints },
            failed: None,
        })
    }
    /// Write what is buffered and give the file its name.
    pub fn finish(mut self) -> Result<(), Error> {
        let failed = self.failed.take();
        let path = self.path;
        let named = match failed {
            Some(e) => Err(e),
            None => self.out.into_inner().map_err(|e| e.into_error()),
        };
        let file =
            named.and_then(|file| file.persist(&path).map_err(|e| e.error)).map_err(|e| Error::file(&path, e))?;
        readable(&file);
        Ok(())
    }

    /// `comm:pid`, with the idle task under its name in `sched_switch`.
    fn task(&self, pid: Pid, cpu: CpuId) -> String {
        match pid {
            Pid(0) => format!("swapper/{cpu}:0"),
            _ => format!("{}:{pid}", self.comm(pid)),
        }
    }
    fn comm(&self, pid: Pid) -> &str {
        self.names.get(pid.at()).map_or("<...>", String::as_str)
    }

    fn line(&mut self, at: Ns, cpu: CpuId, event: &str, fields: &str) -> std::io::Result<()> {
        let pid = self.current.get(cpu.at()).copied().unwrap_or_default();
        let name = self.names.get(pid.at()).map_or("<...>", String::as_str);
        let (s, ns) = (at.0 / 1_000_000_000, at.0 % 1_000_000_000);
        let event = format!("{event}:");
        writeln!(self.out, "{name:>16}-{pid:<5} [{:03}] {s:>5}.{ns:09}: {event:<21} {fields}", cpu.0)
    }

    fn write(&mut self, at: Ns, cpu: CpuId, event: &Event) -> std::io::Result<()> {
        if let Event::CpuFrequency { domain, khz, .. } = event {
            return self.frequency(at, *domain, *khz);
        }
        if let Some((name, fields)) = self.tracepoint(cpu, event).or_else(|| decision(event)) {
            self.line(at, cpu, name, &fields)?;
        }
        if let Event::SchedSwitch { next_pid, .. } = event {
            self.current[cpu.at()] = *next_pid;
        }
        Ok(())
    }

    /// One line per CPU of the domain, as the kernel does.
    fn frequency(&mut self, at: Ns, domain: DomainId, khz: u32) -> std::io::Result<()> {
        for cpu in self.domains[domain.at()].clone() {
            self.line(at, CpuId(cpu), "cpu_frequency", &format!("state={khz} cpu_id={cpu}"))?;
        }
        Ok(())
    }

    fn tracepoint(&self, cpu: CpuId, event: &Event) -> Option<(&'static str, String)> {
        Some(match *event {
            Event::SchedSwitch { prev_pid, prev_prio, prev_state, next_pid, next_prio } => {
                let (prev, next) = (self.task(prev_pid, cpu), self.task(next_pid, cpu));
                let state = letter(prev_state);
                ("sched_switch", format!("{prev} [{prev_prio}] {state} ==> {next} [{next_prio}]"))
            }
            Event::SchedWaking { pid, prio, target_cpu } => {
                let comm = self.comm(pid);
                ("sched_waking", format!("comm={comm} pid={pid} prio={prio} target_cpu={:03}", target_cpu.0))
            }
            Event::SchedWakeup { pid, prio, target_cpu } => {
                ("sched_wakeup", format!("{} [{prio}] CPU:{:03}", self.task(pid, cpu), target_cpu.0))
            }
            Event::SchedWakeupNew { pid, prio, target_cpu } => {
                ("sched_wakeup_new", format!("{} [{prio}] CPU:{:03}", self.task(pid, cpu), target_cpu.0))
            }
            Event::SchedMigrateTask { pid, prio, orig_cpu, dest_cpu } => {
                let comm = self.comm(pid);
                (
                    "sched_migrate_task",
                    format!("comm={comm} pid={pid} prio={prio} orig_cpu={orig_cpu} dest_cpu={dest_cpu}"),
                )
            }
            Event::SchedProcessFork { pid, child_pid } => {
                let (comm, child) = (self.comm(pid), self.comm(child_pid));
                ("sched_process_fork", format!("comm={comm} pid={pid} child_comm={child} child_pid={child_pid}"))
            }
            Event::SchedProcessExit { pid, prio } => {
                ("sched_process_exit", format!("comm={} pid={pid} prio={prio}", self.comm(pid)))
            }
            Event::CpuIdle { state } => ("cpu_idle", format!("state={state} cpu_id={cpu}")),
            Event::CpuIdleMiss { state, below } => {
                ("cpu_idle_miss", format!("cpu_id={cpu} state={state} type={}", if below { "below" } else { "above" }))
            }
            Event::TickStop => ("tick_stop", "success=1 dependency=NONE".to_string()),
            Event::TimerWake { pid, wu_lat_ns, missed } => (
                "wattif_timer_wake",
                format!("comm={} pid={pid} wu_lat_ns={wu_lat_ns} missed={missed}", self.comm(pid)),
            ),
            Event::CgroupAttachTask { pid, group } => {
                ("cgroup_attach_task", format!("dst_id={group} comm={} pid={pid}", self.comm(pid)))
            }
            Event::CfsThrottle { group } => ("wattif_cfs_throttle", format!("group={group} cpu_id={cpu}")),
            Event::CfsUnthrottle { group, waited_ns } => {
                ("wattif_cfs_unthrottle", format!("group={group} cpu_id={cpu} waited_ns={waited_ns}"))
            }
            Event::CfsPeriod { group, periods, throttled, burst_ns } => (
                "wattif_cfs_period",
                format!("group={group} periods={periods} throttled={throttled} burst_ns={burst_ns}"),
            ),
            Event::Mark { pid, mark, began_ns } => {
                ("wattif_mark", format!("comm={} pid={pid} mark={mark} began_ns={began_ns}", self.comm(pid)))
            }
            _ => return None,
        })
    }
}

impl Observer for TextTrace {
    fn interest(&self) -> Interest {
        self.interest
    }
    fn start(&mut self, platform: &Platform) {
        self.current = vec![Pid(0); platform.nr_cpus()];
        self.domains = platform.domains.iter().map(|d| d.cpus.iter().map(|c| c.0).collect()).collect();
        let _ = writeln!(self.out, "cpus={}", platform.nr_cpus());
    }
    fn thread(&mut self, thread: &ThreadInfo) {
        if self.names.len() <= thread.pid.at() {
            self.names.resize(thread.pid.at() + 1, "<...>".into());
        }
        // A name with control characters would break the lines apart.
        self.names[thread.pid.at()] = thread.comm.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        if self.failed.is_none() {
            self.failed = self.write(at, cpu, event).err();
        }
    }
}

/// A decision with what the policy saw.
fn decision(event: &Event) -> Option<(&'static str, String)> {
    Some(match event {
        Event::Placement(p) => (
            "wattif_placement",
            format!(
                "pid={} prev_cpu={} this_cpu={} target={} cpu={} reason={} scanned={} nr_running={}",
                p.pid,
                p.prev_cpu,
                p.this_cpu,
                p.target,
                p.cpu,
                snake(p.reason),
                p.scanned,
                p.nr_running
            ),
        ),
        Event::Frequency(f) => (
            "wattif_frequency",
            format!(
                "domain={} next_khz={} prev_khz={} util={} util_avg={} util_est={} runnable_avg={} iowait_boost={}",
                f.domain, f.next_khz, f.prev_khz, f.util, f.util_avg, f.util_est, f.runnable_avg, f.iowait_boost
            ),
        ),
        Event::Idle(i) => {
            let (predicted, sleep) = (known(i.predicted_ns), known(i.sleep_length_ns));
            let (state, stop) = (i.state, i.stop_tick);
            ("wattif_idle", format!("state={state} stop_tick={stop} predicted_ns={predicted} sleep_length_ns={sleep}"))
        }
        Event::IdleWeights(w) => {
            let weights = w.weights[..usize::from(w.states)].iter().map(u16::to_string).collect::<Vec<_>>().join(",");
            ("wattif_idle_weights", format!("entered={} weights={weights}", w.entered))
        }
        Event::Balance(b) => {
            let kind = format!("{:?}", b.kind).to_lowercase();
            let (dst, src, moved, imbalance) = (b.dst_cpu, b.src_cpu, b.moved, b.imbalance);
            ("wattif_balance", format!("kind={kind} dst_cpu={dst} src_cpu={src} moved={moved} imbalance={imbalance}"))
        }
        _ => return None,
    })
}

fn known(ns: u64) -> String {
    if ns == u64::MAX { "unknown".into() } else { ns.to_string() }
}

fn letter(state: PrevState) -> char {
    match state {
        PrevState::Running => 'R',
        PrevState::Sleeping => 'S',
        PrevState::DiskSleep => 'D',
        PrevState::Dead => 'X',
    }
}

/// `IdleScan` → `idle_scan`.
fn snake(reason: PlacementReason) -> String {
    let mut out = String::new();
    for c in format!("{reason:?}").chars() {
        if c.is_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// A temporary file is private; a result is as readable as any file the user makes.
pub(crate) fn readable(file: &File) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let _ = file.set_permissions(std::fs::Permissions::from_mode(0o644));
    }
    #[cfg(not(unix))]
    let _ = file;
}
