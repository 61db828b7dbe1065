//! Meters: the exact integral Σ µW · ns, in femtojoules, per CPU, per cluster and for the rest of the system.

use wattif_model::platform::{Platform, PowerTable};
use wattif_model::trace::{EnergyTotals, PowerLevel};
use wattif_model::{ClusterId, CpuId, DomainId, Uw};

/// One integrating meter.
#[derive(Clone, Copy, Debug)]
struct Meter {
    level: PowerLevel,
    power: Uw,
    since: u64,
    total: wattif_model::Fj,
}

impl Meter {
    fn new(power: u64) -> Meter {
        Meter { level: PowerLevel::Busy, power: Uw(power), since: 0, total: wattif_model::Fj(0) }
    }
    fn set(&mut self, level: PowerLevel, power: u64, now: u64) {
        self.total += self.power.over(now - self.since);
        *self = Meter { level, power: Uw(power), since: now, total: self.total };
    }
}

/// All meters of a machine.
#[derive(Clone, Debug)]
pub struct Energy {
    cpus: Vec<Meter>,
    clusters: Vec<Meter>,
    /// Per cluster: how many CPUs are at each level (0 busy, 1 + state).
    at_level: Vec<Vec<u32>>,
    base: Meter,
    /// Operating point of each domain.
    opps: Vec<usize>,
}

impl Energy {
    /// Every CPU busy at its lowest operating point.
    pub fn new(platform: &Platform) -> Energy {
        let cpus = (0..platform.nr_cpus() as u32).map(|c| Meter::new(platform.domain_of(CpuId(c)).power.busy(0)));
        let clusters = platform.clusters.iter().map(|cl| {
            let first = cl.cpus.min().expect("a cluster is not empty");
            Meter::new(platform.domain_of(first).power.cluster_busy(0))
        });
        let at_level = platform.clusters.iter().map(|cl| {
            let mut counts = vec![0; cl.idle.len() + 1];
            counts[0] = cl.cpus.len() as u32;
            counts
        });
        Energy {
            cpus: cpus.collect(),
            clusters: clusters.collect(),
            at_level: at_level.collect(),
            base: Meter::new(platform.power.base_uw),
            opps: vec![0; platform.domains.len()],
        }
    }

    /// A CPU changed its power level. Returns the new level of its cluster if that changed too.
    pub fn set_level(&mut self, platform: &Platform, cpu: CpuId, level: PowerLevel, now: u64) -> Option<PowerLevel> {
        let (domain, cluster) = (platform.cpus[cpu.at()].domain, platform.cpus[cpu.at()].cluster);
        let meter = &mut self.cpus[cpu.at()];
        let old = meter.level;
        meter.set(level, cpu_power(&platform.domains[domain.at()].power, level, self.opps[domain.at()]), now);
        let counts = &mut self.at_level[cluster.at()];
        counts[index(old)] -= 1;
        counts[index(level)] += 1;
        let shallowest = counts.iter().position(|&n| n > 0).expect("a cluster is not empty");
        let level = if shallowest == 0 { PowerLevel::Busy } else { PowerLevel::Idle(shallowest as u8 - 1) };
        (self.clusters[cluster.at()].level != level).then(|| {
            self.set_cluster(platform, cluster, level, now);
            level
        })
    }

    /// The operating point of a domain changed.
    pub fn set_opp(&mut self, platform: &Platform, domain: DomainId, opp: usize, now: u64) {
        self.opps[domain.at()] = opp;
        let table = &platform.domains[domain.at()].power;
        for cpu in platform.domains[domain.at()].cpus.iter() {
            let meter = &mut self.cpus[cpu.at()];
            meter.set(meter.level, cpu_power(table, meter.level, opp), now);
            let cluster = platform.cpus[cpu.at()].cluster;
            if platform.clusters[cluster.at()].cpus.min() == Some(cpu) {
                let level = self.clusters[cluster.at()].level;
                self.set_cluster(platform, cluster, level, now);
            }
        }
    }

    /// Totals up to `end`.
    pub fn totals(&self, end: u64) -> EnergyTotals {
        let read = |m: &Meter| m.total + m.power.over(end - m.since);
        EnergyTotals {
            cpus: self.cpus.iter().map(read).collect(),
            clusters: self.clusters.iter().map(read).collect(),
            base: read(&self.base),
        }
    }

    /// Present level of a CPU.
    pub fn level(&self, cpu: CpuId) -> PowerLevel {
        self.cpus[cpu.at()].level
    }

    fn set_cluster(&mut self, platform: &Platform, cluster: ClusterId, level: PowerLevel, now: u64) {
        let first = platform.clusters[cluster.at()].cpus.min().expect("a cluster is not empty");
        let opp = self.opps[platform.cpus[first.at()].domain.at()];
        let table = &platform.domain_of(first).power;
        let power = match level {
            PowerLevel::Busy => table.cluster_busy(opp),
            PowerLevel::Idle(s) => table.cluster_idle(s as usize, opp),
        };
        self.clusters[cluster.at()].set(level, power, now);
    }
}

fn index(level: PowerLevel) -> usize {
    match level {
        PowerLevel::Busy => 0,
        PowerLevel::Idle(state) => state as usize + 1,
    }
}

fn cpu_power(table: &PowerTable, level: PowerLevel, opp: usize) -> u64 {
    match level {
        PowerLevel::Busy => table.busy(opp),
        PowerLevel::Idle(state) => table.idle(state as usize, opp),
    }
}
