//! Core's side of task groups: timers of limited groups, and who is told.

use super::class::bandwidth::Note;
use crate::machine::timer::TimerKind;
use crate::simulation::Kernel;
use wattif_model::trace::{Event, Interest};
use wattif_model::{CpuId, Pid};

impl Kernel<'_, '_> {
    /// Does what the bandwidth of groups asked for during the event that just ended.
    pub(crate) fn bandwidth_notes(&mut self) {
        let mut notes = std::mem::take(&mut self.s.bandwidth_notes);
        for note in notes.drain(..) {
            self.bandwidth_note(note);
        }
        self.s.bandwidth_notes = notes;
    }

    fn bandwidth_note(&mut self, note: Note) {
        match note {
            Note::PeriodTimer(group, cpu, at) => self.arm_group(group, TimerKind::CfsPeriod, cpu, at),
            Note::SlackTimer(group, cpu, at) => self.arm_group(group, TimerKind::CfsSlack, cpu, at),
            Note::Resched(cpu) => self.resched_later(cpu),
            Note::Throttled(q) => {
                let (cpu, group) = (self.s.cfs[q].cpu, self.s.cfs[q].group);
                self.tell_group(cpu, Event::CfsThrottle { group });
                self.cpufreq_update(cpu);
            }
            Note::Unthrottled(q, waited_ns) => {
                let (cpu, group) = (self.s.cfs[q].cpu, self.s.cfs[q].group);
                self.tell_group(cpu, Event::CfsUnthrottle { group, waited_ns });
                self.cpufreq_update(cpu);
            }
            Note::Period(group, periods, throttled, burst_ns) => {
                self.tell_group(CpuId(0), Event::CfsPeriod { group, periods, throttled, burst_ns });
            }
        }
    }

    fn arm_group(&mut self, group: u32, kind: TimerKind, cpu: CpuId, at: u64) {
        self.m.timers.arm(cpu, Pid(group), kind, at, at);
        self.program_timer(cpu);
    }

    /// `resched_curr` from wherever the run time ran out or came back: the flag is set; a CPU that sees it by itself (its
    /// own handler has just ended) needs no interrupt.
    fn resched_later(&mut self, cpu: CpuId) {
        if !self.s.rqs[cpu.at()].need_resched {
            return;
        }
        self.interrupt_at(cpu, self.s.now + self.m.platform.costs.ipi_ns);
    }

    fn tell_group(&mut self, cpu: CpuId, event: Event) {
        self.out.tell(self.s.now, cpu, Interest::GROUPS, event);
    }

    /// Tells who listens that a thread is in a group now.
    pub(crate) fn tell_attached(&mut self, pid: Pid, cpu: CpuId) {
        let group = self.s.tasks[pid.at()].group;
        self.tell_group(cpu, Event::CgroupAttachTask { pid, group });
    }
}
