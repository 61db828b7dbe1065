//! What a machine leaves to its scheduler: from which CPUs a free thread would have been moved, and to which.
//!
//! Who waits for its CPU beside an idle one tells of an affinity only where a scheduler would not have left it there:
//!
//! - Without an energy model an idle CPU of the same capacity takes a thread that waits. One of another capacity does if the CPU that the
//!   thread waits for is full.
//! - With one, threads are packed on CPUs that have room left, so that a wait there says nothing. It does on a CPU that is full, on one that
//!   makes its domain's clock fast (`relieved`), and on one whose work is cheaper in another domain that has room (`dear`).
//! - Where one CPU is overutilized, placement by energy has no say on any, and a large CPU that is idle takes threads from small ones.

use std::collections::BTreeMap;
use wattif_model::platform::{Cpu, Platform};
use wattif_model::units::CAPACITY_SCALE;
use wattif_model::{CpuId, CpuSet};

/// Placement by energy moves a thread if that saves one part in so many.
const SAVES_OF: u64 = 16;

/// What the machine leaves to its scheduler.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// CPUs on which no scheduler leaves a thread waiting while another one is idle: one of the same capacity, and any.
    pub beside_equal: CpuSet,
    pub beside_any: CpuSet,
    /// CPUs from which energy-aware placement takes threads, so that their domain's clock can be slower; and what work costs at the clock that
    /// each needs.
    pub relieved: CpuSet,
    pub costs: Vec<u64>,
    /// CPUs whose domain's clock makes work dearer than that of another domain, which has a CPU with room at its own.
    pub dear: CpuSet,
    /// Its CPUs differ, and it has an energy model.
    pub by_energy: bool,
    /// CPUs of one capacity, and CPUs that share a cache.
    pub kinds: Vec<CpuSet>,
    pub caches: Vec<CpuSet>,
}

impl Machine {
    /// `full`: has this CPU been busy for most of the trace? `util`: mean utilisation by CPU, where the placement compares energies; empty
    /// where that is not known.
    pub fn of(platform: &Platform, full: impl Fn(CpuId) -> bool, util: &[u64]) -> Machine {
        let packs = platform.is_asymmetric() && platform.has_energy_model();
        let overutilized = platform.cpus.iter().zip(util).any(|(cpu, util)| wanted(*util) > u64::from(cpu.capacity));
        let cpus = || (0..platform.nr_cpus() as u32).map(CpuId);
        let unless = |room: bool| cpus().filter(|c| !room || full(*c)).collect();
        let sets = |of: &dyn Fn(&Cpu) -> u32| {
            let mut sets: BTreeMap<u32, CpuSet> = BTreeMap::new();
            platform.cpus.iter().zip(0..).for_each(|(c, i)| sets.entry(of(c)).or_default().insert(CpuId(i)));
            sets.into_values().collect()
        };
        Machine {
            beside_equal: unless(packs && !overutilized),
            beside_any: unless(platform.is_asymmetric() && !(packs && overutilized)),
            by_energy: packs,
            relieved: cpus().filter(|c| packs && !util.is_empty() && is_loud(platform, util, *c)).collect(),
            dear: cpus().filter(|c| packs && !util.is_empty() && is_dear(platform, util, *c)).collect(),
            costs: cpus().zip(util).map(|(cpu, util)| cost(platform, cpu, wanted(*util))).collect(),
            kinds: sets(&|c| c.capacity),
            caches: sets(&|c| c.llc),
        }
    }

    /// Are these half of the CPUs of one kind, or less?
    pub(super) fn is_part(&self, cpus: &CpuSet) -> bool {
        self.kinds.iter().any(|kind| cpus.is_subset(kind) && 2 * cpus.len() <= kind.len())
    }

    /// Would placement by energy take threads from these CPUs? Another one whose clock is about as dear leaves nothing to be saved.
    pub(super) fn relieves(&self, cpus: &CpuSet) -> bool {
        let cost = |c: CpuId| self.costs.get(c.at()).copied().unwrap_or(0);
        let own = cpus.iter().map(cost).max().unwrap_or(0);
        let kinds = self.kinds.iter().filter(|kind| kind.intersects(cpus));
        let mut others = kinds.flat_map(CpuSet::iter).filter(|c| self.relieved.contains(*c) && !cpus.contains(*c));
        let loud = |c: CpuId| self.beside_equal.contains(c) || self.relieved.contains(c);
        cpus.iter().all(loud) && others.all(|c| saves(own, cost(c)))
    }

    /// Would a wake-up of a thread with these CPUs have found `cpu`? Among CPUs of one kind it looks at those with the same cache.
    pub(super) fn finds(&self, own: &CpuSet, cpu: CpuId) -> bool {
        let alike = || self.kinds.iter().any(|k| k.contains(cpu) && k.intersects(own));
        let cache = self.caches.iter().find(|c| own.len() > 1 && own.is_subset(c));
        cache.is_none_or(|cache| cache.contains(cpu) || !alike())
    }
}

/// Does this CPU make its domain's clock dearer than another one of the domain needs it, and about as fast as any needs it?
fn is_loud(platform: &Platform, util: &[u64], cpu: CpuId) -> bool {
    let domain = &platform.domains[platform.cpus[cpu.at()].domain.at()];
    let wanted = |c: CpuId| wanted(util[c.at()]);
    let cost = |c: CpuId| cost(platform, c, wanted(c));
    let loudest = domain.cpus.iter().map(wanted).max().unwrap_or(0);
    2 * wanted(cpu) >= loudest && domain.cpus.iter().any(|c| saves(cost(cpu), cost(c)))
}

/// Does work cost more at the clock of this CPU's domain than in another domain, one of whose CPUs is half idle at the clock it has?
fn is_dear(platform: &Platform, util: &[u64], cpu: CpuId) -> bool {
    let domain = |c: CpuId| platform.cpus[c.at()].domain;
    let loudest =
        |c: CpuId| platform.domains[domain(c).at()].cpus.iter().map(|c| wanted(util[c.at()])).max().unwrap_or(0);
    let own = cost(platform, cpu, loudest(cpu));
    let has_room = |c: &CpuId| 2 * wanted(util[c.at()]) <= u64::from(opp(platform, *c, loudest(*c)).1);
    let others = (0..util.len() as u32).map(CpuId).filter(|c| domain(*c) != domain(cpu));
    others.filter(has_room).any(|c| saves(own, cost(platform, c, loudest(c))))
}

/// Would placement by energy go from this cost to that?
fn saves(from: u64, to: u64) -> bool {
    SAVES_OF * to <= (SAVES_OF - 1) * from
}

/// The slowest clock of this CPU that has so much capacity, or its fastest, and what it has.
fn opp(platform: &Platform, cpu: CpuId, wanted: u64) -> (usize, u32) {
    let opps = &platform.domains[platform.cpus[cpu.at()].domain.at()].opps;
    let fits = opps.iter().position(|opp| u64::from(opp.capacity) >= wanted);
    let opp = fits.unwrap_or(opps.len().saturating_sub(1));
    (opp, opps.get(opp).map_or(1, |opp| opp.capacity.max(1)))
}

/// What a unit of work costs at that clock.
fn cost(platform: &Platform, cpu: CpuId, wanted: u64) -> u64 {
    let (opp, capacity) = opp(platform, cpu, wanted);
    let power = &platform.domains[platform.cpus[cpu.at()].domain.at()].power;
    power.busy(opp).saturating_mul(CAPACITY_SCALE) / u64::from(capacity)
}

/// Utilisation with schedutil's headroom.
fn wanted(util: u64) -> u64 {
    util + util / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(list: &[u32]) -> CpuSet {
        list.iter().map(|c| CpuId(*c)).collect()
    }

    #[test]
    fn what_a_slower_clock_relieves() {
        let mut platform = crate::metrics::testbed::platform();
        for d in &mut platform.domains {
            let opp = |capacity| wattif_model::platform::Opp { capacity, ..d.opps[0].clone() };
            d.opps = vec![opp(100), opp(200), opp(400)];
            // For a unit of work as much at 100 and at 200.
            d.power.busy_uw = vec![100, 200, 800];
        }
        platform.cpus[0].capacity = 512;
        platform.cpus[1].capacity = 512;
        let relieved = |util: &[u64]| Machine::of(&platform, |_| false, util).relieved;
        assert_eq!(relieved(&[300, 10, 0, 0]), cpus(&[0]));
        assert_eq!(relieved(&[150, 10, 0, 0]), cpus(&[]), "200 of 200 is no dearer");
        assert_eq!(relieved(&[300, 200, 0, 0]), cpus(&[]), "no room beside it");
        let dear = |util: &[u64]| Machine::of(&platform, |_| false, util).dear;
        assert_eq!(dear(&[300, 10, 40, 40]), cpus(&[0, 1]), "the other domain is half idle at 100");
        assert_eq!(dear(&[300, 10, 50, 50]), cpus(&[]), "it is not");
        assert_eq!(relieved(&[]), cpus(&[]), "Android's placement may pack");
    }

    #[test]
    fn who_may_pack() {
        use wattif_model::platform::PowerTable;
        let mut platform = crate::metrics::testbed::platform();
        platform.cpus.iter_mut().for_each(|c| c.capacity = 1024);
        let none_of = |platform: &Platform, util: &[u64]| {
            let m = Machine::of(platform, |_| false, util);
            (m.beside_equal.is_empty(), m.beside_any.is_empty())
        };
        let none = |platform: &Platform| none_of(platform, &[]);
        assert_eq!(none(&platform), (false, false), "equal CPUs");
        platform.cpus[0].capacity /= 2;
        platform.domains.iter_mut().for_each(|d| d.power = PowerTable::default());
        assert_eq!(none(&platform), (false, true), "without an energy model");
        for d in &mut platform.domains {
            d.power.busy_uw = vec![1; d.opps.len()];
        }
        assert_eq!(none(&platform), (true, true));
        assert_eq!(none_of(&platform, &[409, 0, 0, 0]), (true, true), "as much as fits on a CPU of 512");
        assert_eq!(none_of(&platform, &[411, 0, 0, 0]), (false, false), "one is overutilized, and the machine with it");
    }
}
