//! How long one decision takes: the policies' own code, as `wattif verify` replays it, on inputs that vary.
//!
//! The figure is the fastest of several rounds: what a decision costs when nothing else disturbs the machine.

use serde::Serialize;
use std::hint::black_box;
use std::time::Instant;
use wattif::load;
use wattif::settings::Settings;
use wattif_model::{CpuId, CpuSet, Pid};
use wattif_sim::cpufreq::CpuSignals;
use wattif_sim::cpuidle::{self, CpuidleState, IdleSleep, IdleView, NO_LATENCY_LIMIT, SleepLength, tick_nsec};
use wattif_sim::sched::Sched;
use wattif_sim::sched::class::eevdf::Eevdf;
use wattif_sim::sched::class::fair::{self, Fair};
use wattif_sim::sched::load::pelt::{At, Pelt, SchedAvg};
use wattif_sim::sched::placement::cpu_util::TaskSignals;
use wattif_sim::sched::placement::eas::{Eas, EasTask, EasView, Tunables};
use wattif_sim::sched::task::{SchedEntity, Task};

/// Rounds, of which the fastest counts, and decisions in each: short ones, so that some meet nothing else on the machine.
const ROUNDS: usize = 500;
const DECISIONS: u64 = 4096;

/// A kind of decision.
struct Decision {
    /// As printed.
    name: &'static str,
    /// What it should cost at most, ns.
    target_ns: f64,
    /// Makes that many decisions; preparing them does not count.
    prepare: fn() -> Box<dyn FnMut(u64)>,
}

/// All of them.
static DECISIONS_MADE: &[Decision] = &[
    Decision { name: "teo_select_reflect", target_ns: 100.0, prepare: || idle("teo", "6.12") },
    Decision { name: "menu_select_reflect", target_ns: 150.0, prepare: || idle("menu", "6.12") },
    Decision { name: "ladder_select_reflect", target_ns: 40.0, prepare: || idle("ladder", "") },
    Decision { name: "eevdf_pick_32", target_ns: 50.0, prepare: || eevdf(32) },
    Decision { name: "eas_8_cpus", target_ns: 2000.0, prepare: eas },
    Decision { name: "pelt_update", target_ns: 20.0, prepare: pelt_update },
    // 20 million activations, each a sleep and a run, in a second.
    Decision { name: "pelt_batch_activation", target_ns: 50.0, prepare: pelt_batch },
];

/// One line of output.
#[derive(Serialize)]
struct Line {
    decision: &'static str,
    ns: f64,
    target_ns: f64,
    ok: bool,
    per_s: f64,
}

/// Measure each and print its line.
pub fn all() -> Result<(), String> {
    DECISIONS_MADE.iter().for_each(measure);
    Ok(())
}

fn measure(decision: &Decision) {
    let mut decide = (decision.prepare)();
    let round = |decide: &mut dyn FnMut(u64)| {
        let begun = Instant::now();
        decide(DECISIONS);
        begun.elapsed().as_nanos() as f64 / DECISIONS as f64
    };
    let ns = (0..ROUNDS).map(|_| round(&mut decide)).fold(f64::INFINITY, f64::min);
    let Decision { name, target_ns, .. } = *decision;
    let line = Line { decision: name, ns, target_ns, ok: ns <= target_ns, per_s: 1e9 / ns };
    println!("{}", serde_json::to_string(&line).expect("numbers and names"));
}

/// A fixed sequence that looks random: Knuth's multiplier.
struct Sequence(u64);

impl Sequence {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
    /// 1024 numbers below `end`, prepared so that making them costs the decisions nothing.
    fn table(end: u64) -> Vec<u64> {
        let mut sequence = Sequence(1);
        (0..1024).map(|_| sequence.next() % end).collect()
    }
}

/// What a CPU about to sleep knows, prepared.
struct View {
    clock_ns: u64,
    sleep: SleepLength,
}

impl IdleView for View {
    fn local_clock(&self) -> u64 {
        self.clock_ns
    }
    fn disable_mask(&self) -> u32 {
        0
    }
    fn latency_req_ns(&self) -> i64 {
        NO_LATENCY_LIMIT
    }
    fn tick_stopped(&self) -> bool {
        false
    }
    fn nr_iowait(&self) -> u32 {
        0
    }
    fn sleep_length(&mut self) -> SleepLength {
        self.sleep
    }
    fn random_u32(&mut self) -> u32 {
        self.clock_ns as u32
    }
}

/// Sleeps of 1 µs to 8 ms on an x86 CPU with four states and a tick of 4 ms.
fn idle(name: &'static str, generation: &'static str) -> Box<dyn FnMut(u64)> {
    const CPU: CpuId = CpuId(0);
    let tick_ns = tick_nsec(250);
    let mut governor =
        cpuidle::build(name, generation, cpuidle::teo::INTERVALS, 1, tick_ns).expect("a built-in governor");
    let us = [(0, 0), (2, 2), (10, 20), (70, 100), (133, 600)];
    let states = us.map(|(exit, residency)| CpuidleState {
        exit_latency_ns: exit * 1000,
        target_residency_ns: residency * 1000,
        polling: exit == 0,
    });
    governor.enable(CPU, &states);
    let lengths: Vec<u64> =
        Sequence::table(13).iter().zip(Sequence::table(1000)).map(|(s, x)| (1000 + x) << s).collect();
    let mut clock_ns = 0;
    Box::new(move |n| {
        for i in 0..n as usize {
            let (timer, slept) = (lengths[i % 1024], lengths[(i * 7 + 3) % 1024]);
            let sleep_length_ns = timer as i64;
            let delta_tick_ns = sleep_length_ns.min(tick_ns as i64);
            let mut view = View { clock_ns, sleep: SleepLength { sleep_length_ns, delta_tick_ns } };
            let chosen = governor.select(CPU, &mut view);
            let residency_ns = slept.min(timer);
            clock_ns += residency_ns + 30_000;
            let entered = Some(chosen.state);
            let sleep = IdleSleep { entered, residency_ns, poll_time_limit: false, got_tick: false, clock_ns };
            governor.reflect(CPU, black_box(&sleep));
        }
    })
}

/// `pick_eevdf` on queues of so many, at eight places of their virtual time, so that the tree is searched along different paths.
fn eevdf(runnable: usize) -> Box<dyn FnMut(u64)> {
    let class = Eevdf::new(700_000, 1);
    let queues: Vec<Sched> = (0..8).map(|k| queue(&class, runnable, k * 300_000)).collect();
    Box::new(move |n| {
        for i in 0..n as usize {
            black_box(class.pick_eevdf(black_box(&queues[i % 8]), 0));
        }
    })
}

fn queue(class: &Eevdf, runnable: usize, zero_vruntime: u64) -> Sched {
    let mut s = Sched::bare(1, 4_000_000);
    s.cfs[0].zero_vruntime = zero_vruntime;
    for vruntime in Sequence::table(3_000_000).into_iter().take(runnable) {
        let pid = Pid(s.tasks.len() as u32);
        s.tasks.push(Task { pid, prio: 120, normal_prio: 120, ..Task::default() });
        s.se.push(SchedEntity::default());
        fair::init_task(&mut s, pid);
        let i = s.se_of(pid);
        // Slices of their own, so that the earliest deadline is often not yet eligible.
        let (weight, slice) = (1024 << 10, 100_000 + vruntime * 7919 % 6_000_000);
        let deadline = vruntime + slice;
        s.se[i] = SchedEntity { weight, vruntime, deadline, slice, on_rq: true, ..s.se[i].clone() };
        s.cfs[0].load_weight += weight;
        s.cfs[0].nr_queued += 1;
        s.cfs[0].h_nr_running += 1;
        class.tree_insert(&mut s, 0, i);
    }
    s
}

/// Eight CPUs with some load each.
struct Machine {
    signals: Vec<CpuSignals>,
    capacities: Vec<u64>,
}

impl EasView for Machine {
    fn signals(&self, cpu: CpuId) -> CpuSignals {
        self.signals[cpu.at()]
    }
    fn capacity_of(&self, cpu: CpuId) -> u64 {
        self.capacities[cpu.at()]
    }
    fn pressure(&self, _cpu: CpuId) -> u64 {
        0
    }
    fn overutilized(&self) -> bool {
        false
    }
}

/// `find_energy_efficient_cpu` on a HiKey 960.
fn eas() -> Box<dyn FnMut(u64)> {
    let platform = load::platform("hikey960", &Settings::default()).expect("a built-in platform").value;
    let mut eas = Eas::of_platform(Tunables::default(), &platform).expect("it has an energy model");
    let capacities: Vec<u64> = platform.cpus.iter().map(|c| u64::from(c.capacity)).collect();
    let loads = Sequence::table(200);
    let machines: Vec<Machine> = (0..16)
        .map(|k| {
            let signals = |cpu: usize| {
                let util_avg = loads[k * 8 + cpu];
                CpuSignals {
                    util_avg,
                    runnable_avg: util_avg,
                    uclamp_max: 1024,
                    capacity: capacities[cpu],
                    ..CpuSignals::default()
                }
            };
            Machine { signals: (0..8).map(signals).collect(), capacities: capacities.clone() }
        })
        .collect();
    let allowed = CpuSet::from_mask(0xff);
    Box::new(move |n| {
        for i in 0..n as usize {
            let util_avg = loads[i % 1024];
            let signals = TaskSignals {
                util_avg,
                runnable_avg: util_avg,
                util_est: util_avg,
                queued: false,
                uclamp_min: 0,
                uclamp_max: 1024,
            };
            let task = EasTask { signals, prev_cpu: CpuId(i as u32 % 8), counted: true, allowed: &allowed };
            black_box(eas.find_energy_efficient_cpu(&task, &machines[i % 16]));
        }
    })
}

/// One update of an entity's averages after 50 µs to 8 ms, half of them runs.
fn pelt_update() -> Box<dyn FnMut(u64)> {
    let (pelt, mut sa, mut now) = (Pelt::default(), SchedAvg::default(), 0);
    let steps: Vec<u64> = Sequence::table(8_000_000).iter().map(|s| 50_000 + s).collect();
    Box::new(move |n| {
        for i in 0..n as usize {
            now += steps[i % 1024];
            let running = i % 2 == 0;
            black_box(pelt.update(At::full_speed(now), &mut sa, u64::from(running), u64::from(running), running));
        }
    })
}

/// Many activations of one task: a sleep, then a run, 0.5 to 4 ms each.
fn pelt_batch() -> Box<dyn FnMut(u64)> {
    let (pelt, mut sa, mut now) = (Pelt::default(), SchedAvg::default(), 0);
    let steps: Vec<u64> = Sequence::table(3_500_000).iter().map(|s| 500_000 + s).collect();
    Box::new(move |n| {
        for i in 0..n as usize {
            now += steps[i % 1024];
            pelt.update(At::full_speed(now), &mut sa, 0, 0, false);
            now += steps[(i * 7 + 3) % 1024];
            pelt.update(At::full_speed(now), &mut sa, 1, 1, true);
        }
        black_box(&sa);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_decision_can_be_made() {
        for decision in DECISIONS_MADE {
            (decision.prepare)()(2000);
        }
    }
}
