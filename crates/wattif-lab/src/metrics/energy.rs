//! Where did the energy go? Recomputed from events and the platform's powers, exactly: power is piecewise constant, and
//! µW × ns = fJ in integers. The machine's own integral must agree to the femtojoule.

use serde::{Deserialize, Serialize};
use wattif_model::platform::{Platform, PowerTable, PowerUnit};
use wattif_model::trace::{EnergyTotals, Event, Interest, Observer, PowerLevel};
use wattif_model::{CpuId, Fj, Ns, Uw};

/// Energy of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EnergyReport {
    /// `J` where the platform's powers are sourced, `relative` where they are estimated (only ratios mean something),
    /// `cost*s` for the abstract units of EAS tables.
    pub unit: String,
    /// Everything.
    pub total: f64,
    /// By CPU.
    pub cpus: Vec<f64>,
    /// By cluster.
    pub clusters: Vec<f64>,
    /// Rest of the system.
    pub base: f64,
}

/// The name of a platform's unit of energy, and how many fJ one is; `None` where nothing is known of its powers.
pub(crate) fn unit(unit: PowerUnit, sourced: bool) -> Option<(&'static str, f64)> {
    match (unit, sourced) {
        (PowerUnit::Unknown, _) => None,
        // One abstract unit is kept as 1000, so 1e12 of ours are one unit for a second.
        (PowerUnit::EasCosts, _) => Some(("cost*s", 1e12)),
        (_, true) => Some(("J", 1e15)),
        (_, false) => Some(("relative", 1e15)),
    }
}

/// The unit of a metric on a platform: energies have that of its powers.
pub fn unit_on(metric: &str, platform: &Platform) -> &'static str {
    let energy = unit(platform.power.unit, platform.power.sourced).map_or("J", |(unit, _)| unit);
    in_energy(super::info(metric).map_or("", |m| m.unit), energy)
}

/// The unit of a metric that is listed with `unit`, where that of energy is `energy`: whatever is listed in joules or watts is
/// so only where the platform has them.
pub(crate) fn in_energy<'a>(unit: &'a str, energy: &'a str) -> &'a str {
    match (unit, energy) {
        ("J", energy) => energy,
        ("W", "relative") => "relative",
        ("W", "cost*s") => "cost",
        (unit, _) => unit,
    }
}

/// Integrates one power.
#[derive(Clone, Debug)]
struct Meter {
    power: Uw,
    since: Ns,
    total: Fj,
}

impl Meter {
    fn new(power: u64) -> Meter {
        Meter { power: Uw(power), since: Ns::ZERO, total: Fj(0) }
    }
    fn set(&mut self, at: Ns, power: u64) {
        self.total += self.power.over(at.since(self.since));
        self.since = at;
        self.power = Uw(power);
    }
}

/// A CPU or a cluster: its level, and the domain whose operating point counts.
#[derive(Clone, Debug)]
struct Place {
    meter: Meter,
    level: PowerLevel,
    domain: usize,
    power: fn(&PowerTable, PowerLevel, usize) -> u64,
}

pub(crate) fn cpu_power(table: &PowerTable, level: PowerLevel, opp: usize) -> u64 {
    match level {
        PowerLevel::Busy => table.busy(opp),
        PowerLevel::Idle(state) => table.idle(state.into(), opp),
    }
}

pub(crate) fn cluster_power(table: &PowerTable, level: PowerLevel, opp: usize) -> u64 {
    match level {
        PowerLevel::Busy => table.cluster_busy(opp),
        PowerLevel::Idle(state) => table.cluster_idle(state.into(), opp),
    }
}

/// A frequency domain, with what changes power when it changes frequency.
#[derive(Clone, Debug)]
struct Domain {
    table: PowerTable,
    opp: usize,
    cpus: Vec<usize>,
    clusters: Vec<usize>,
}

/// Listens to power levels and frequencies. Everything starts busy at the lowest operating point; events at time 0 say
/// otherwise.
#[derive(Clone, Debug)]
pub struct Energy {
    domains: Vec<Domain>,
    cpus: Vec<Place>,
    clusters: Vec<Place>,
    base: Meter,
    unit: PowerUnit,
    sourced: bool,
}

impl Energy {
    /// For this machine.
    pub fn new(platform: &Platform) -> Energy {
        let domain_of = |cpu: CpuId| platform.cpus[cpu.at()].domain.at();
        let cpus: Vec<usize> = platform.cpus.iter().map(|c| c.domain.at()).collect();
        let clusters: Vec<usize> =
            platform.clusters.iter().map(|c| domain_of(c.cpus.min().unwrap_or_default())).collect();
        let domain = |(id, d): (usize, &wattif_model::platform::FreqDomain)| Domain {
            table: d.power.clone(),
            opp: 0,
            cpus: positions(&cpus, id),
            clusters: positions(&clusters, id),
        };
        let place = |power: fn(&PowerTable, PowerLevel, usize) -> u64| {
            move |&domain: &usize| {
                let watts = power(&platform.domains[domain].power, PowerLevel::Busy, 0);
                Place { meter: Meter::new(watts), level: PowerLevel::Busy, domain, power }
            }
        };
        Energy {
            domains: platform.domains.iter().enumerate().map(domain).collect(),
            cpus: cpus.iter().map(place(cpu_power)).collect(),
            clusters: clusters.iter().map(place(cluster_power)).collect(),
            base: Meter::new(platform.power.base_uw),
            unit: platform.power.unit,
            sourced: platform.power.sourced,
        }
    }

    /// The exact integral up to `finish`.
    pub fn totals(&self) -> EnergyTotals {
        let of = |places: &[Place]| places.iter().map(|p| p.meter.total).collect();
        EnergyTotals { cpus: of(&self.cpus), clusters: of(&self.clusters), base: self.base.total }
    }

    /// For people; `None` where the platform has no powers.
    pub fn report(&self) -> Option<EnergyReport> {
        let (unit, one) = unit(self.unit, self.sourced)?;
        let totals = self.totals();
        let value = |fj: &Fj| fj.0 as f64 / one;
        Some(EnergyReport {
            unit: unit.into(),
            total: value(&totals.total()),
            cpus: totals.cpus.iter().map(value).collect(),
            clusters: totals.clusters.iter().map(value).collect(),
            base: value(&totals.base),
        })
    }

    fn set_opp(&mut self, at: Ns, domain: usize, opp: usize) {
        let Some(d) = self.domains.get_mut(domain) else { return };
        d.opp = opp;
        d.cpus.iter().for_each(|&c| self.cpus[c].update(at, &d.table, opp));
        d.clusters.iter().for_each(|&c| self.clusters[c].update(at, &d.table, opp));
    }
}

fn positions(domains: &[usize], id: usize) -> Vec<usize> {
    (0..domains.len()).filter(|&i| domains[i] == id).collect()
}

impl Place {
    fn update(&mut self, at: Ns, table: &PowerTable, opp: usize) {
        self.meter.set(at, (self.power)(table, self.level, opp));
    }
}

fn set_level(places: &mut [Place], which: usize, domains: &[Domain], at: Ns, level: PowerLevel) {
    if let Some(place) = places.get_mut(which) {
        place.level = level;
        let domain = &domains[place.domain];
        place.update(at, &domain.table, domain.opp);
    }
}

impl Observer for Energy {
    fn interest(&self) -> Interest {
        Interest::POWER.and(Interest::FREQ)
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        match *event {
            Event::CpuPower { level } => set_level(&mut self.cpus, cpu.at(), &self.domains, at, level),
            Event::ClusterPower { cluster, level } => {
                set_level(&mut self.clusters, cluster.at(), &self.domains, at, level);
            }
            Event::CpuFrequency { domain, opp, .. } => self.set_opp(at, domain.at(), opp as usize),
            _ => {}
        }
    }
    fn finish(&mut self, end: Ns) {
        for place in self.cpus.iter_mut().chain(&mut self.clusters) {
            place.meter.set(end, place.meter.power.0);
        }
        self.base.set(end, self.base.power.0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed;
    use super::*;
    use proptest::prelude::*;
    use testbed::{platform, play};

    #[test]
    fn by_hand() {
        let mut e = Energy::new(&platform());
        play(
            &mut e,
            &[
                (0, 0, testbed::cpu_power(PowerLevel::Idle(0))),
                (10, 0, testbed::frequency(0, 1)),
                (30, 1, testbed::cpu_power(PowerLevel::Idle(1))),
                (30, 0, testbed::cluster_power(0, PowerLevel::Idle(0))),
            ],
        );
        e.finish(Ns(100));
        let t = e.totals();
        // CPU 0: idle 0 at 11 then 13; CPU 1: busy at 100 then 300, then off at 2; CPUs 2 and 3: busy at the lowest.
        assert_eq!(t.cpus, [Fj(10 * 11 + 90 * 13), Fj(10 * 100 + 20 * 300 + 70 * 2), Fj(10_000), Fj(10_000)]);
        assert_eq!(t.clusters, [Fj(10 * 40 + 20 * 60 + 70 * 17), Fj(4_000)]);
        assert_eq!(t.base, Fj(700));
        let r = e.report().unwrap();
        assert_eq!((r.unit.as_str(), r.base), ("J", 7e-13));
        assert!((r.total - t.total().as_joules()).abs() < 1e-25);
    }

    #[test]
    fn units() {
        let with = |unit, sourced| {
            let mut p = platform();
            (p.power.unit, p.power.sourced) = (unit, sourced);
            let mut e = Energy::new(&p);
            e.finish(Ns::from_s(1));
            e.report().map(|r| (r.unit, r.base))
        };
        assert_eq!(with(PowerUnit::EasCosts, false), Some(("cost*s".into(), 0.007)));
        assert_eq!(with(PowerUnit::Measured, false), Some(("relative".into(), 7e-6)));
        assert_eq!(with(PowerUnit::Unknown, false), None);
    }

    #[test]
    fn no_metric_is_in_joules_where_nobody_knows_them() {
        let on = |name: &str, unit| {
            let mut p = platform();
            (p.power.unit, p.power.sourced) = (unit, false);
            unit_on(name, &p)
        };
        for name in ["energy.total", "frames.frame.energy", "oracle.energy", "oracle.idle_energy"] {
            assert_eq!(
                (on(name, PowerUnit::Measured), on(name, PowerUnit::EasCosts)),
                ("relative", "cost*s"),
                "{name}"
            );
        }
        assert_eq!(
            (on("power_mean", PowerUnit::EasCosts), on("frames.frame.mean", PowerUnit::EasCosts)),
            ("cost", "µs")
        );
        assert!(super::super::list().iter().all(|m| !["J", "W"].contains(&on(m.name, PowerUnit::Measured))));
        assert_eq!(unit_on("frames.frame.energy", &platform()), "J");
    }

    /// (kind 0..3, place, level or operating point)
    fn to_event(kind: u8, place: u32, value: u8) -> (u32, Event) {
        let level = if value == 0 { PowerLevel::Busy } else { PowerLevel::Idle(value - 1) };
        match kind {
            0 => (place, testbed::cpu_power(level)),
            1 => (0, testbed::cluster_power(place % 2, level)),
            _ => (0, testbed::frequency(place % 2, u32::from(value % 2))),
        }
    }

    proptest! {
        /// The integral equals a brute-force sum over every nanosecond.
        #[test]
        fn equals_sum_over_ns(steps in prop::collection::vec((0u64..9, 0u8..3, 0u32..4, 0u8..3), 0..40)) {
            let p = platform();
            let mut e = Energy::new(&p);
            let (mut opp, mut cpus, mut clusters) = ([0; 2], [PowerLevel::Busy; 4], [PowerLevel::Busy; 2]);
            let (mut now, mut sum) = (0, 0u128);
            for (dt, kind, place, value) in steps {
                for _ in 0..dt {
                    for c in 0..4 {
                        sum += u128::from(cpu_power(&p.domains[c / 2].power, cpus[c], opp[c / 2]));
                    }
                    for c in 0..2 {
                        sum += u128::from(cluster_power(&p.domains[c].power, clusters[c], opp[c]));
                    }
                    sum += 7;
                }
                now += dt;
                let (cpu, event) = to_event(kind, place, value);
                match event {
                    Event::CpuPower { level } => cpus[cpu as usize] = level,
                    Event::ClusterPower { cluster, level } => clusters[cluster.at()] = level,
                    Event::CpuFrequency { domain, opp: o, .. } => opp[domain.at()] = o as usize,
                    _ => unreachable!(),
                }
                e.event(Ns(now), CpuId(cpu), &event);
            }
            e.finish(Ns(now));
            prop_assert_eq!(e.totals().total(), Fj(sum));
        }
    }
}
