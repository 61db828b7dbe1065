//! Interrupts by which CPUs put woken threads on their own queues.
//!
//! A waker leaves that to the thread's CPU if that has another cache (`ttwu_queue`). Whoever runs there pays for the interrupt, which is no
//! work of its own: a microsecond of each 20 between two reads of a disk. `sched_wakeup` is an event of that CPU then. Where a trace has
//! none, as Perfetto's, the CPU was most likely the one that switches the thread in.

use std::collections::HashMap;
use wattif_model::platform::Platform;
use wattif_model::trace::{Event, Recording};
use wattif_model::{CpuId, Pid};

/// When they come, to which CPUs, and for whom; in order.
pub(super) fn ipis(recording: &Recording, platform: &Platform) -> Vec<(u64, CpuId, Pid)> {
    let records = &recording.records;
    let shows = records.iter().any(|r| matches!(r.event(), Some(Event::SchedWakeup { .. })));
    let llc = |cpu: CpuId| platform.cpus.get(cpu.at()).map(|c| c.llc);
    // Who is on the way to a CPU: woken where, and when.
    let mut woken: HashMap<Pid, (CpuId, u64)> = HashMap::new();
    let mut ipis = Vec::new();
    for r in records {
        match r.event() {
            Some(Event::SchedWaking { pid, .. }) => drop(woken.insert(*pid, (r.cpu, r.at.0))),
            Some(Event::SchedWakeup { pid, target_cpu, .. }) => {
                let from = woken.remove(pid);
                ipis.extend(from.filter(|from| from.0 != r.cpu && *target_cpu == r.cpu).map(|_| (r.at.0, r.cpu, *pid)));
            }
            Some(Event::SchedSwitch { next_pid, .. }) if !shows => {
                let Some((_, at)) = woken.remove(next_pid).filter(|from| llc(from.0) != llc(r.cpu)) else { continue };
                // If it is why the CPU switches, it was before that.
                let before = r.at.0.saturating_sub(platform.noise.irq_jitter_ns);
                let comes = at.saturating_add(platform.costs.wakeup_ns + platform.costs.ipi_ns);
                ipis.push((comes.min(before).max(at), r.cpu, *next_pid));
            }
            _ => {}
        }
    }
    ipis.sort_unstable();
    // One serves what is woken while it is on its way.
    let mut first: HashMap<CpuId, u64> = HashMap::new();
    for (at, cpu, _) in ipis.iter_mut().filter(|_| !shows) {
        let first = first.entry(*cpu).or_insert(*at);
        if *at >= first.saturating_add(platform.costs.ipi_ns) {
            *first = *at;
        }
        *at = *first;
    }
    ipis.sort_unstable();
    ipis
}

#[cfg(test)]
mod tests {
    use super::super::super::metrics::testbed::{self, switch, waking};
    use super::*;
    use wattif_model::Ns;
    use wattif_model::trace::{PrevState, Record, Recorded};

    #[test]
    fn who_has_another_cache_is_interrupted() {
        let mut platform = testbed::platform();
        platform.cpus[1].llc = platform.cpus[0].llc + 1;
        (platform.costs.wakeup_ns, platform.costs.ipi_ns, platform.noise.irq_jitter_ns) = (10, 20, 5);
        let of = |events: &[(u64, u32, Event)]| {
            let record = |&(at, cpu, event): &(u64, u32, Event)| Record {
                at: Ns(at),
                cpu: CpuId(cpu),
                current: None,
                event: Recorded::Event(event),
            };
            let recording =
                Recording { nr_cpus: 2, records: events.iter().map(record).collect(), ..Recording::default() };
            ipis(&recording, &platform).into_iter().map(|(at, cpu, pid)| (at, cpu.0, pid.0)).collect::<Vec<_>>()
        };
        let on = |cpu| Event::SchedWakeup { pid: Pid(7), prio: 120, target_cpu: CpuId(cpu), in_irq: true };
        let comes = |at, cpu| (at, cpu, switch(3, 7, PrevState::Running));
        assert_eq!(of(&[(100, 0, waking(7)), (150, 1, on(1)), comes(500, 1)]), [(150, 1, 7)]);
        assert_eq!(of(&[(100, 0, waking(7)), (150, 0, on(1)), comes(500, 1)]), [], "its waker does it");
        assert_eq!(of(&[(100, 0, waking(7)), comes(500, 1)]), [(130, 1, 7)], "taken from where it runs");
        assert_eq!(of(&[(100, 0, waking(7)), comes(125, 1)]), [(120, 1, 7)], "that preempts");
        assert_eq!(of(&[(100, 0, waking(7)), comes(500, 0)]), [], "the same cache");
        assert_eq!(of(&[(150, 1, on(1)), comes(500, 1)]), [], "nobody knows by whom");
    }
}
