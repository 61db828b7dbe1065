//! What governors see of the kernel.

use super::Sched;
use super::core::{CpuContext, IDLE};
use crate::cpufreq::{CpuSignals, FreqView};
use crate::cpuidle::oracle::Foreseen;
use crate::cpuidle::{IdleView, SleepLength};
use crate::engine::rng::Rng;
use crate::sched::load::cpu_load::{stored_util_est, task_util};
use crate::sched::load::walt_qti::{QtiSystem, WindowLoad};
use crate::sched::placement::cpu_util::{TaskSignals, cpu_bw_dl, sched_cpu_util};
use crate::sched::placement::eas::{Eas, EasTask, EasView};
use crate::sched::placement::{EnergyAware, Request, SyncLoad};
use crate::sched::rq::Rq;
use wattif_model::CpuId;
use wattif_model::trace::{EnergyCandidate, PlacementReason};

/// Without any timer the clock source still has to be read before it wraps (`timekeeping_max_deferment`): a quarter
/// of an hour, as usual for a 56-bit counter of some MHz.
const MAX_DEFERMENT_NS: i64 = 900_000_000_000;

/// The signals a frequency governor reads.
pub(crate) struct Signals<'a> {
    pub s: &'a Sched,
    pub cpus: &'a [CpuContext],
}

impl FreqView for Signals<'_> {
    fn signals(&self, cpu: CpuId) -> CpuSignals {
        let mut signals = self.s.signals(cpu);
        if let Some(w) = &self.s.walt {
            let rq = &w.rqs[cpu.at()];
            let util = w.walt.cpu_util_freq(rq, self.s.now);
            let more = |q: &QtiSystem| {
                let boosted = self.schedtune_boost_pct(cpu) > 0;
                q.util(&w.walt, rq, cpu, util, boosted, self.s.now)
            };
            signals.util_avg = w.qti.as_deref().map_or(util, more).min(signals.capacity);
        }
        signals
    }
    fn versions(&self) -> &[u64] {
        // A window closes by the clock alone.
        if self.s.walt.is_some() { &[] } else { &self.s.signal_versions }
    }
    fn schedtune_boost_pct(&self, cpu: CpuId) -> i32 {
        self.s.schedtune.as_ref().map_or(0, |t| t.cpu_boost_pct(&self.s.rqs[cpu.at()].schedtune_tasks, self.s.now))
    }
    fn window_load(&self, cpu: CpuId) -> Option<WindowLoad> {
        let w = self.s.walt.as_ref()?;
        Some(w.qti.as_ref()?.window_load(&w.walt, &w.rqs[cpu.at()], cpu, self.s.now))
    }
    fn tracks_windows(&self) -> bool {
        self.s.walt.is_some()
    }
    fn rt_avg_util(&self, cpu: CpuId) -> Option<u64> {
        self.s.rqs[cpu.at()].rt_avg_util()
    }
    fn bw_dl(&self, cpu: CpuId) -> u64 {
        cpu_bw_dl(self.s.rqs[cpu.at()].dl.running_bw)
    }
    fn idle_calls(&self, cpu: CpuId) -> u64 {
        self.s.rqs[cpu.at()].idle_calls
    }
    fn idle_time_us(&self, cpu: CpuId) -> u64 {
        let c = &self.cpus[cpu.at()];
        let now_idle = self.s.rqs[cpu.at()].curr == IDLE;
        (c.idle_ns + if now_idle { self.s.now - c.idle_since } else { 0 }) / 1000
    }
}

impl Sched {
    /// What the load trackers publish about a CPU.
    #[inline]
    pub(crate) fn signals(&self, cpu: CpuId) -> CpuSignals {
        let (rq, cfs, walt) = (&self.rqs[cpu.at()], &self.cfs[cpu.at()], self.walt.is_some());
        CpuSignals {
            util_avg: cfs.avg.util_avg,
            util_est: if self.features.util_est && !walt { u64::from(cfs.avg.util_est) } else { 0 },
            runnable_avg: if walt { 0 } else { cfs.avg.runnable_avg },
            util_rt: rq.avg_rt.util_avg,
            util_dl: rq.avg_dl.util_avg,
            bw_dl: cpu_bw_dl(rq.dl.running_bw),
            util_irq: rq.avg_irq.util_avg,
            // Throttled ones are not there.
            rt_nr_running: if rq.rt.throttled { 0 } else { rq.rt.rt_nr_running },
            nr_running: rq.nr_running,
            uclamp_min: u64::from(rq.uclamp_min),
            uclamp_max: u64::from(rq.uclamp_max),
            uclamp_used: self.rd.uclamp_used,
            uclamp_idle: rq.uclamp_idle,
            capacity: u64::from(rq.cpu_capacity_orig),
        }
    }
}

/// What an idle governor may ask.
pub(crate) struct IdleQuery<'a> {
    pub now: u64,
    /// The time that sleeps are counted from: earlier than now after a poll that gave up.
    pub idle_entry: u64,
    /// `None`: no tick comes before the next timer.
    pub next_tick: Option<u64>,
    pub tick_stopped: bool,
    pub next_timer: Option<u64>,
    pub nr_iowait: u32,
    pub disable_mask: u32,
    pub latency_req_ns: i64,
    pub rq: &'a Rq,
    pub util_avg: u64,
    pub foreseen: Option<Foreseen>,
    pub rng: &'a mut Rng,
    /// The sleep length, if it was asked for.
    pub asked: Option<i64>,
}

impl IdleView for IdleQuery<'_> {
    fn local_clock(&self) -> u64 {
        self.now
    }
    fn disable_mask(&self) -> u32 {
        self.disable_mask
    }
    fn latency_req_ns(&self) -> i64 {
        self.latency_req_ns
    }
    fn tick_stopped(&self) -> bool {
        self.tick_stopped
    }
    fn nr_iowait(&self) -> u32 {
        self.nr_iowait
    }
    fn cpu_util(&self) -> (u64, u64) {
        let (rq, cap) = (self.rq, u64::from(self.rq.cpu_capacity_orig));
        let util = self.util_avg + rq.avg_rt.util_avg + rq.avg_dl.util_avg;
        (sched_cpu_util(util, rq.avg_irq.util_avg, cap), cap)
    }
    fn foreseen(&self) -> Option<Foreseen> {
        self.foreseen
    }
    fn sleep_length(&mut self) -> SleepLength {
        let until = |at: u64| at as i64 - self.idle_entry as i64;
        let sleep_length_ns = self.next_timer.map_or(MAX_DEFERMENT_NS, until);
        let next_tick = self.next_tick.filter(|_| !self.tick_stopped);
        let delta_tick_ns = next_tick.map_or(sleep_length_ns, |at| sleep_length_ns.min(until(at)));
        self.asked = Some(sleep_length_ns);
        SleepLength { sleep_length_ns, delta_tick_ns }
    }
    fn random_u32(&mut self) -> u32 {
        (self.rng.next_u64() >> 32) as u32
    }
}

impl EasView for Sched {
    fn signals(&self, cpu: CpuId) -> CpuSignals {
        let mut signals = Sched::signals(self, cpu);
        if let Some(w) = &self.walt {
            signals.util_avg = w.walt.cpu_util(&w.rqs[cpu.at()]);
        }
        signals
    }
    fn version(&self, cpu: CpuId) -> Option<u64> {
        // A window closes by the clock alone.
        self.walt.is_none().then(|| self.signal_versions[cpu.at()])
    }
    fn capacity_of(&self, cpu: CpuId) -> u64 {
        u64::from(self.rqs[cpu.at()].cpu_capacity)
    }
    fn pressure(&self, cpu: CpuId) -> u64 {
        u64::from(self.rqs[cpu.at()].hw_pressure)
    }
    fn overutilized(&self) -> bool {
        self.rd.overutilized
    }
}

impl EnergyAware for Eas {
    fn find_energy_efficient_cpu(
        &mut self,
        s: &mut Sched,
        req: &Request,
        sync: SyncLoad<'_>,
    ) -> Option<(CpuId, PlacementReason)> {
        if s.rd.overutilized {
            return None;
        }
        sync(s, req.pid);
        let (task, avg) = (&s.tasks[req.pid.at()], &s.se[s.se_of(req.pid)].avg);
        let signals = TaskSignals {
            util_avg: task_util(s, req.pid),
            runnable_avg: avg.runnable_avg,
            util_est: if s.features.util_est { stored_util_est(s, req.pid) } else { 0 },
            queued: false,
            uclamp_min: u64::from(task.uclamp_min),
            uclamp_max: u64::from(task.uclamp_max),
        };
        let counted = s.walt.is_none();
        let task = EasTask { signals, prev_cpu: req.prev_cpu, counted, allowed: &task.cpus };
        let cpu = Eas::find_energy_efficient_cpu(self, &task, s)?;
        let weighed = !Eas::weighed(self).is_empty();
        Some((cpu, if weighed { PlacementReason::Energy } else { PlacementReason::Unweighed }))
    }

    fn weighed(&self) -> &[EnergyCandidate] {
        Eas::weighed(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_that_handles_interrupts_is_utilised() {
        let mut rq = Rq { cpu_capacity_orig: 1000, ..Rq::default() };
        (rq.avg_rt.util_avg, rq.avg_irq.util_avg) = (20, 100);
        let mut rng = Rng::stream(1, "view");
        let mut util = |rq: &Rq, util_avg: u64| {
            let view = IdleQuery {
                now: 0,
                idle_entry: 0,
                next_tick: None,
                tick_stopped: false,
                next_timer: None,
                nr_iowait: 0,
                disable_mask: 0,
                latency_req_ns: 0,
                rq,
                util_avg,
                foreseen: None,
                rng: &mut rng,
                asked: None,
            };
            view.cpu_util()
        };
        assert_eq!(util(&rq, 180), (100 + 200 * 900 / 1000, 1000), "of what interrupts leave, and they");
        rq.avg_irq.util_avg = 1000;
        assert_eq!(util(&rq, 0), (1000, 1000));
    }
}
