//! Writes ftrace text: a line an event, in the columns of `trace-cmd report -t`.
//!
//! Tracepoints have the kernel's names and fields. Events of our own begin with `wattif_`; decisions come with the inputs
//! the policy saw. Of the flags, `h` (in an interrupt) is told of `sched_waking`, the others never; a recording that has no
//! flags is written without them. Policies, groups, which threads are background, the names of marks, and behind the events the
//! end of the run stand in comments.

use super::names::Names;
use super::text::{ARCH, END, GROUP, MARK, RELEASE, THREAD};
use super::told;
use super::writer::{About, Detail, TraceWriter};
use std::io::{Result, Write};
use wattif_model::platform::Platform;
use wattif_model::trace::{Event, Interest, Observer, Recording, ThreadInfo};
use wattif_model::{CpuId, DomainId, Ns, Pid};

/// Writes lines to `out`.
pub struct TextTrace<W> {
    out: W,
    names: Names,
    domains: Vec<Vec<u32>>,
    current: Vec<Pid>,
    detail: Detail,
    about: About,
    /// Interrupt context is known.
    flags: bool,
    failed: Option<std::io::Error>,
}

impl<W: Write> TextTrace<W> {
    /// Begin a trace.
    pub fn new(out: W, detail: Detail, about: About) -> TextTrace<W> {
        let (domains, current) = (Vec::new(), Vec::new());
        TextTrace { out, names: Names::default(), domains, current, detail, about, flags: true, failed: None }
    }

    /// `comm:pid`, with the idle task under its name in `sched_switch`.
    fn task(&self, pid: Pid, cpu: CpuId) -> String {
        match pid {
            Pid(0) => format!("swapper/{cpu}:0"),
            _ => format!("{}:{pid}", self.comm(pid)),
        }
    }
    fn comm(&self, pid: Pid) -> &str {
        match pid.0 {
            0 => "<idle>",
            _ => self.names.get(pid).unwrap_or("<...>"),
        }
    }

    /// A comment to all readers but ours.
    fn thread_line(&mut self, t: &ThreadInfo) -> Result<()> {
        let comm = self.comm(t.pid).to_string();
        writeln!(self.out, "{THREAD}{} {} {} {comm}", t.pid, told::word(t), u8::from(!t.workload))
    }

    fn line(&mut self, at: Ns, cpu: CpuId, in_irq: bool, event: &str, fields: &str) -> Result<()> {
        let pid = self.current.get(cpu.at()).copied().unwrap_or_default();
        let (s, ns) = (at.0 / 1_000_000_000, at.0 % 1_000_000_000);
        let event = format!("{event}:");
        let name = match pid.0 {
            0 => "<idle>",
            _ => self.names.get(pid).unwrap_or("<...>"),
        };
        let flags = match (self.flags, in_irq) {
            (false, _) => "",
            (true, false) => "..... ",
            (true, true) => "..h.. ",
        };
        // The kernel's names have 15 bytes, and a blank before them. One that begins as a comment does needs it.
        let blank = if name.starts_with('#') && name.chars().count() >= 16 { " " } else { "" };
        writeln!(self.out, "{blank}{name:>16}-{pid:<5} [{:03}] {flags}{s:>5}.{ns:09}: {event:<21} {fields}", cpu.0)
    }

    /// What threads write into `trace_marker`.
    fn mark(&mut self, at: Ns, cpu: CpuId, lines: &[String]) -> Result<()> {
        lines.iter().try_for_each(|line| self.line(at, cpu, false, "tracing_mark_write", line))
    }

    fn write(&mut self, at: Ns, cpu: CpuId, event: &Event) -> Result<()> {
        if let Event::CpuFrequency { domain, khz, .. } = event {
            return self.frequency(at, *domain, *khz);
        }
        if let Some(fields) = self.tracepoint(cpu, event).or_else(|| decision(event)) {
            self.line(at, cpu, event.in_irq(), event.name(), &fields)?;
        }
        if let Event::SchedSwitch { next_pid, .. } = event {
            self.current[cpu.at()] = *next_pid;
        }
        Ok(())
    }

    /// One line per CPU of the domain, as the kernel does.
    fn frequency(&mut self, at: Ns, domain: DomainId, khz: u32) -> Result<()> {
        for cpu in self.domains[domain.at()].clone() {
            self.line(at, CpuId(cpu), false, "cpu_frequency", &format!("state={khz} cpu_id={cpu}"))?;
        }
        Ok(())
    }

    fn tracepoint(&self, cpu: CpuId, event: &Event) -> Option<String> {
        Some(match *event {
            Event::SchedSwitch { prev_pid, prev_prio, prev_state, next_pid, next_prio } => {
                let (prev, next) = (self.task(prev_pid, cpu), self.task(next_pid, cpu));
                let (prev_prio, next_prio) =
                    (self.names.prio(prev_pid, prev_prio), self.names.prio(next_pid, next_prio));
                format!("{prev} [{prev_prio}] {} ==> {next} [{next_prio}]", prev_state.letter())
            }
            Event::SchedWaking { pid, prio, target_cpu, .. } => {
                let prio = self.names.prio(pid, prio);
                format!("comm={} pid={pid} prio={prio} target_cpu={:03}", self.comm(pid), target_cpu.0)
            }
            Event::SchedWakeup { pid, prio, target_cpu, .. } | Event::SchedWakeupNew { pid, prio, target_cpu } => {
                format!("{} [{}] CPU:{:03}", self.task(pid, cpu), self.names.prio(pid, prio), target_cpu.0)
            }
            Event::SchedMigrateTask { pid, prio, orig_cpu, dest_cpu } => {
                let prio = self.names.prio(pid, prio);
                format!("comm={} pid={pid} prio={prio} orig_cpu={orig_cpu} dest_cpu={dest_cpu}", self.comm(pid))
            }
            Event::SchedProcessFork { pid, child_pid } => {
                let (comm, child) = (self.comm(pid), self.comm(child_pid));
                format!("comm={comm} pid={pid} child_comm={child} child_pid={child_pid}")
            }
            // What it executes is not kept.
            Event::SchedProcessExec { pid } => format!("pid={pid} old_pid={pid}"),
            Event::SchedProcessExit { pid, prio } => {
                format!("comm={} pid={pid} prio={}", self.comm(pid), self.names.prio(pid, prio))
            }
            Event::CpuIdle { state } => format!("state={state} cpu_id={cpu}"),
            Event::CpuIdleMiss { state, below } => {
                format!("cpu_id={cpu} state={state} type={}", if below { "below" } else { "above" })
            }
            Event::TickStop => "success=1 dependency=NONE".to_string(),
            Event::TimerWake { pid, wu_lat_ns, missed } => {
                format!("comm={} pid={pid} wu_lat_ns={wu_lat_ns} missed={missed}", self.comm(pid))
            }
            Event::RtappStats { pid, wu_lat_ns, run_ns, period_ns, slack_ns } => {
                let comm = self.comm(pid);
                format!(
                    "comm={comm} pid={pid} wu_lat_ns={wu_lat_ns} run_ns={run_ns} period_ns={period_ns} slack_ns={slack_ns}"
                )
            }
            Event::RtappConfigured { pid, c_duration_us, c_period_us } => {
                format!("comm={} pid={pid} c_duration_us={c_duration_us} c_period_us={c_period_us}", self.comm(pid))
            }
            Event::Mark { pid, mark, began_ns } => {
                format!("comm={} pid={pid} mark={mark} began_ns={began_ns}", self.comm(pid))
            }
            Event::Touch { pid } => format!("comm={} pid={pid}", self.comm(pid)),
            Event::DeviceDone { pid, device, queued_ns, service_ns } => {
                let comm = self.comm(pid);
                format!("comm={comm} pid={pid} device={device} queued_ns={queued_ns} service_ns={service_ns}")
            }
            Event::DeadlineJob { pid, lateness_ns } => {
                format!("comm={} pid={pid} lateness_ns={lateness_ns}", self.comm(pid))
            }
            // The pid first, as the kernel has it.
            Event::CgroupAttachTask { pid, group } => format!("dst_id={group} pid={pid} comm={}", self.comm(pid)),
            Event::CfsThrottle { group } => format!("group={group} cpu_id={cpu}"),
            Event::CfsUnthrottle { group, waited_ns } => format!("group={group} cpu_id={cpu} waited_ns={waited_ns}"),
            Event::CfsPeriod { group, periods, throttled, burst_ns } => {
                format!("group={group} periods={periods} throttled={throttled} burst_ns={burst_ns}")
            }
            Event::PeltCfs { util_avg, runnable_avg, load_avg, util_est } => {
                format!("util_avg={util_avg} runnable_avg={runnable_avg} load_avg={load_avg} util_est={util_est}")
            }
            Event::PeltSe { pid, util_avg, runnable_avg, load_avg } => {
                format!("pid={pid} util_avg={util_avg} runnable_avg={runnable_avg} load_avg={load_avg}")
            }
            Event::WaltDemand { pid, demand, cpu_demand } => {
                format!("pid={pid} demand={demand} cpu_demand={cpu_demand}")
            }
            _ => return None,
        })
    }
}

impl<W: Write> Observer for TextTrace<W> {
    fn interest(&self) -> Interest {
        self.about.interest(self.detail)
    }
    fn start(&mut self, platform: &Platform) {
        self.current = vec![Pid(0); platform.nr_cpus()];
        self.domains = platform.domains.iter().map(|d| d.cpus.iter().map(|c| c.0).collect()).collect();
        let line = |key: &str, text: &str| format!("{key}{}\n", text.replace(char::is_control, "?"));
        let marks: String = self.about.marks.iter().map(|mark| line(MARK, mark)).collect();
        let groups = self.about.groups().map(|(i, g)| format!("{GROUP}{}\n", told::group_line(i, g)));
        let marks = marks + &groups.collect::<String>();
        let release = self.about.release();
        let kind = if self.about.recorded { "recorded" } else { "simulated" };
        let kernel = if release.is_empty() { String::new() } else { line(RELEASE, release) + &line(ARCH, kind) };
        self.failed = write!(self.out, "cpus={}\n{kernel}{marks}", platform.nr_cpus()).err();
    }
    fn thread(&mut self, thread: &ThreadInfo) {
        self.names.insert(thread);
        if let Some(markers) = &mut self.about.markers {
            markers.thread(thread);
        }
        if self.failed.is_none() && self.about.told && !thread.policy.is_empty() {
            self.failed = self.thread_line(thread).err();
        }
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        if self.failed.is_none() {
            let marked = self.about.lines(at, event);
            let behind = self.about.line_behind(event);
            let written = self.mark(at, cpu, &marked).and_then(|()| self.write(at, cpu, event));
            self.failed = written.and_then(|()| self.mark(at, cpu, behind.as_slice())).err();
        }
    }
    fn finish(&mut self, end: Ns) {
        let marked = self.about.last_lines();
        if self.failed.is_none() {
            let written = self.mark(end, CpuId(0), &marked);
            self.failed = written.and_then(|()| writeln!(self.out, "{END}{}", end.0)).err();
        }
    }
}

impl<W: Write> TraceWriter for TextTrace<W> {
    fn runs(&mut self, cpu: CpuId, pid: Option<Pid>) {
        let current = &mut self.current[cpu.at()];
        *current = pid.unwrap_or(*current); // there is no word for nobody knows
    }
    fn recorded(&mut self, recording: &Recording) {
        self.flags = recording.has_irq_flags;
        for gap in 0..recording.lost_gaps {
            let done = match recording.lost_events {
                lost @ 1.. if gap == 0 => writeln!(self.out, "CPU:0 [LOST {lost} EVENTS]"),
                _ => writeln!(self.out, "CPU:0 [EVENTS DROPPED]"),
            };
            self.failed = self.failed.take().or(done.err());
        }
    }
    fn close(&mut self) -> Result<()> {
        match self.failed.take() {
            Some(e) => Err(e),
            None => self.out.flush(),
        }
    }
}

/// A decision with what the policy saw.
fn decision(event: &Event) -> Option<String> {
    Some(match event {
        Event::EnergyCandidate { pid, candidate: c } => format!(
            "pid={pid} cpu={} util={} capacity={} fits={} energy={} delta={}",
            c.cpu, c.util, c.capacity, c.fits, c.energy, c.delta
        ),
        Event::Placement(p) => format!(
            "pid={} prev_cpu={} this_cpu={} target={} cpu={} reason={} scanned={} nr_running={}",
            p.pid,
            p.prev_cpu,
            p.this_cpu,
            p.target,
            p.cpu,
            p.reason.name(),
            p.scanned,
            p.nr_running
        ),
        Event::Frequency(f) => format!(
            "domain={} next_khz={} prev_khz={} util={} util_avg={} util_est={} runnable_avg={} iowait_boost={}",
            f.domain, f.next_khz, f.prev_khz, f.util, f.util_avg, f.util_est, f.runnable_avg, f.iowait_boost
        ),
        Event::Idle(i) => {
            let (predicted, sleep) = (known(i.predicted_ns), known(i.sleep_length_ns));
            format!("state={} stop_tick={} predicted_ns={predicted} sleep_length_ns={sleep}", i.state, i.stop_tick)
        }
        Event::IdleWeights(w) => {
            let weights = w.weights.iter().take(w.states.into()).enumerate();
            let weights: Vec<String> = weights.map(|(state, w)| format!(" w{state}={w}")).collect();
            format!("entered={}{}", w.entered, weights.concat())
        }
        Event::Balance(b) => {
            let kind = b.kind.name();
            let (dst, src, moved, imbalance) = (b.dst_cpu, b.src_cpu, b.moved, b.imbalance);
            format!("kind={kind} dst_cpu={dst} src_cpu={src} moved={moved} imbalance={imbalance}")
        }
        _ => return None,
    })
}

fn known(ns: u64) -> String {
    if ns == u64::MAX { "unknown".into() } else { ns.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattif_model::trace::Recorded;
    use wattif_model::workload::GroupSpec;

    fn thread(pid: u32, comm: &str) -> ThreadInfo {
        ThreadInfo {
            pid: Pid(pid),
            comm: comm.to_string(),
            task: "a".to_string(),
            policy: "SCHED_OTHER",
            workload: true,
            ..ThreadInfo::default()
        }
    }

    /// Of 15 characters and of more, it is not taken for a comment.
    #[test]
    fn a_name_that_begins_as_a_comment_does_comes_back() {
        for comm in ["# 15 characters", "# 16 characters.", "## two of them, and blanks", "#", "# µµµµµµµµµµµµµ"]
        {
            let mut text = Vec::new();
            let mut trace = TextTrace::new(&mut text, Detail::Tracepoints, About::default());
            trace.current = vec![Pid(7)];
            trace.thread(&thread(7, comm));
            trace.event(Ns(5_000), CpuId(0), &Event::CpuIdle { state: 1 });
            trace.close().unwrap();
            drop(trace);
            let read = crate::trace::read(&text).recording.unwrap();
            assert_eq!(read.records.len(), 1, "{}", String::from_utf8_lossy(&text));
            assert_eq!((read.records[0].current, read.comm(Pid(7))), (Some(Pid(7)), comm));
        }
    }

    /// Written with the pid before the name, which may hold blanks, it comes back.
    #[test]
    fn a_change_of_group_comes_back() {
        let about = About { groups: vec![GroupSpec::root(), GroupSpec::root()], told: true, ..About::default() };
        let mut text = Vec::new();
        let mut trace = TextTrace::new(&mut text, Detail::Tracepoints, about);
        trace.current = vec![Pid(0)];
        trace.thread(&thread(7, "a b"));
        let event = Event::CgroupAttachTask { pid: Pid(7), group: 1 };
        trace.event(Ns(5_000), CpuId(0), &event);
        trace.close().unwrap();
        drop(trace);
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("cgroup_attach_task:   dst_id=1 pid=7 comm=a b\n"), "{text}");
        let read = crate::trace::read(text.as_bytes()).recording.unwrap();
        assert_eq!(read.records.iter().map(|r| r.event).collect::<Vec<_>>(), [Recorded::Event(event)]);
        assert_eq!(read.comm(Pid(7)), "a b");
    }
}
