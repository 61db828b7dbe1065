//! How long before a wake-up its interrupt came: a CPU that sleeps takes its exit latency first.
//!
//! A trace shows the state that was asked for. A state of a cluster is reached only when all CPUs of the cluster have asked for it or a
//! deeper one; until then the CPU is in the deepest that they allow and leaves at that state's price. An interrupt on the way in waits for the end of the
//! way: when it came is not in the trace, and half of the time there is taken. So it is with others that came while the first one's CPU
//! was on its way out, unless their last wake-ups were one, too: threads that are always woken together have the same time. A CPU that woke while
//! another one brought the power of their cluster or core back left at the same time as that one.

use std::collections::BTreeMap;
use wattif_model::platform::{Platform, Scope};
use wattif_model::{CpuId, Pid};

/// A wake-up so long after the end of a sleep is not what it ended for, ns.
const SOON_NS: u64 = 5_000;
/// Stamps are read somewhat later, ns.
const STAMP_NS: u64 = 1_000;

/// The last sleep of a CPU.
#[derive(Clone, Copy, Debug, Default)]
struct Sleep {
    asked: usize,
    entered: u64,
    /// 0 before the first.
    left: u64,
    /// The state it was in in the end, and how long that takes to leave; of one who followed another out of a state of many, in the mean.
    reached: usize,
    exit_ns: u64,
    /// What it ended for is known: how long before the wake-up that was, and when the thread had been woken before.
    told: Option<(u64, u64)>,
}

/// The last sleep of each CPU.
pub(super) struct Sleeps<'a> {
    platform: &'a Platform,
    cpus: Vec<Sleep>,
    /// When each thread was last woken.
    woken: BTreeMap<Pid, u64>,
}

/// How long an interrupt waits at most for its CPU, which is on its way into a state.
pub(super) fn longest(platform: &Platform) -> u64 {
    let states = platform.clusters.iter().flat_map(|c| &c.idle);
    states.map(|s| s.actual.entry_ns + s.actual.exit_ns).max().unwrap_or(0)
}

/// Do two CPUs share the states of this scope?
pub(super) fn are_mates(platform: &Platform, cpu: CpuId, other: CpuId, scope: Scope) -> bool {
    let (own, of) = (&platform.cpus[cpu.at()], &platform.cpus[other.at()]);
    let share = match scope {
        Scope::Cpu => false,
        Scope::Core => (of.package, of.core) == (own.package, own.core),
        Scope::Cluster => of.cluster == own.cluster,
    };
    share && cpu != other
}

impl Sleeps<'_> {
    pub(super) fn new(platform: &Platform) -> Sleeps<'_> {
        Sleeps { platform, cpus: vec![Sleep::default(); platform.nr_cpus()], woken: BTreeMap::new() }
    }

    pub(super) fn enter(&mut self, cpu: CpuId, state: u32, at: u64) {
        let asked = (state as usize).min(self.platform.idle_states(cpu).len().saturating_sub(1));
        self.cpus[cpu.at()] = Sleep { asked, entered: at, left: u64::MAX, ..Sleep::default() };
    }

    pub(super) fn leave(&mut self, cpu: CpuId, at: u64) {
        let states = self.platform.idle_states(cpu);
        let asked = self.cpus[cpu.at()].asked;
        let out = |i: usize| at.saturating_sub(states[i].actual.exit_ns);
        let reached = |i: &usize| *i == 0 || self.mates_sleep(cpu, *i, out(*i));
        let Some(reached) = (0..states.len().min(asked + 1)).rev().find(reached) else { return };
        let own = states[reached].actual.exit_ns;
        let first = (0..).map(CpuId).zip(&self.cpus).filter(|(c, mate)| {
            let scope = self.platform.idle_states(*c).get(mate.reached).map_or(Scope::Cpu, |s| s.scope);
            mate.left == at && are_mates(self.platform, cpu, *c, scope)
        });
        let exit_ns = first.map(|(_, mate)| mate.exit_ns).max().map_or(own, |first| (own + first.max(own)) / 2);
        let c = &mut self.cpus[cpu.at()];
        (c.left, c.reached, c.exit_ns) = (at, reached, exit_ns);
    }

    /// From the interrupt until the wake-up of a thread that has been blocked since `since`.
    pub(super) fn latency(&mut self, cpu: CpuId, (pid, at): (Pid, u64), since: u64) -> u64 {
        let before = self.woken.insert(pid, at).unwrap_or(0);
        let s = self.cpus[cpu.at()];
        if s.left == 0 || at < s.left || at - s.left >= SOON_NS {
            return 0;
        }
        let actual = self.platform.idle_states(cpu)[s.reached].actual;
        let out = s.left.saturating_sub(s.exit_ns);
        let latency = match s.told {
            Some((first, woken)) if before.abs_diff(woken) < SOON_NS => first,
            Some(_) => s.exit_ns / 2,
            None if out > s.entered.saturating_add(actual.entry_ns + STAMP_NS) => s.exit_ns,
            None => s.exit_ns + (out - out.min(s.entered.max(since))) / 2,
        };
        // Who slept for less was not what the CPU woke up for.
        if since.saturating_add(latency) >= at {
            return 0;
        }
        self.cpus[cpu.at()].told.get_or_insert((latency, before));
        latency
    }

    /// Were the others of this state's scope in it or in a deeper one then? One on its way out is not.
    fn mates_sleep(&self, cpu: CpuId, deep: usize, at: u64) -> bool {
        let scope = self.platform.idle_states(cpu)[deep].scope;
        let mut mates = (0..).map(CpuId).zip(&self.cpus).filter(|(c, _)| are_mates(self.platform, cpu, *c, scope));
        mates.all(|(c, mate)| {
            let states = self.platform.idle_states(c);
            let Some(state) = states.get(mate.asked) else { return false };
            mate.entered.saturating_add(state.actual.entry_ns) <= at
                && at < mate.left.saturating_sub(states[mate.reached].actual.exit_ns)
                && mate.asked >= deep
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattif_model::Ns;

    /// Two CPUs of one cluster: WFI, and a state of the cluster that takes 700 µs to leave and 300 to enter.
    fn platform() -> Platform {
        let recording = wattif_model::trace::Recording { nr_cpus: 2, end: Ns(1), ..Default::default() };
        let mut platform = super::super::platform(&recording);
        for cluster in &mut platform.clusters {
            let mut wfi = cluster.idle[0].clone();
            (wfi.scope, wfi.polling) = (Scope::Cpu, false);
            (wfi.actual.entry_ns, wfi.actual.exit_ns) = (1_000, 1_000);
            let mut deep = wfi.clone();
            deep.scope = Scope::Cluster;
            (deep.actual.entry_ns, deep.actual.exit_ns) = (300_000, 700_000);
            cluster.idle = vec![wfi, deep];
        }
        platform
    }

    #[test]
    fn what_a_cpu_woke_up_from() {
        let platform = platform();
        let mut sleeps = Sleeps::new(&platform);
        let (a, b) = (CpuId(0), CpuId(1));
        sleeps.enter(a, 1, 0);
        sleeps.leave(a, 5_000_000);
        assert_eq!(sleeps.latency(a, (Pid(9), 5_000_000), 1), 1_000, "the other is awake: it was in WFI");
        sleeps.enter(b, 1, 0);
        sleeps.enter(a, 1, 0);
        sleeps.leave(a, 5_000_000);
        assert_eq!(sleeps.latency(a, (Pid(9), 5_000_000), 1), 700_000);
        assert_eq!(sleeps.latency(a, (Pid(8), 5_001_000), 1), 350_000, "another, on the way out");
        assert_eq!(
            sleeps.latency(a, (Pid(9), 5_000_000), 4_800_000),
            0,
            "who slept for less woke up for something else"
        );
        assert_eq!(sleeps.latency(a, (Pid(9), 5_010_000), 1), 0, "later");
        sleeps.leave(b, 5_100_000);
        assert_eq!(sleeps.latency(b, (Pid(9), 5_100_000), 1), 1_000, "the first one was on its way out by then");
        sleeps.enter(a, 1, 5_110_000);
        sleeps.enter(b, 1, 5_110_000);
        sleeps.leave(a, 6_500_000);
        sleeps.leave(b, 6_500_000);
        assert_eq!(
            sleeps.latency(b, (Pid(9), 6_500_000), 1),
            350_500,
            "it waited for the power that the first one gave the cluster"
        );
        sleeps.enter(b, 1, 6_600_000);
        sleeps.enter(a, 1, 7_000_000);
        sleeps.leave(a, 8_000_000);
        assert_eq!(sleeps.latency(a, (Pid(9), 8_000_000), 1), 700_000 + 150_000, "on the way in");
        sleeps.enter(b, 1, 8_100_000);
        sleeps.enter(a, 1, 8_100_000);
        sleeps.leave(a, 9_900_000);
        assert_eq!([9, 8, 7].map(|pid| sleeps.latency(a, (Pid(pid), 9_900_000), 1)), [700_000, 350_000, 350_000]);
        sleeps.enter(a, 1, 10_000_000);
        sleeps.leave(a, 11_900_000);
        let together = [9, 8, 7, 6].map(|pid| sleeps.latency(a, (Pid(pid), 11_900_000), 1));
        assert_eq!(together, [700_000, 700_000, 700_000, 350_000], "they were woken together before");
    }
}
