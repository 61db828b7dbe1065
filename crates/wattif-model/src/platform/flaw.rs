//! What makes of a [`Platform`] no machine: a spec may come from elsewhere than a platform file. The limits are those of the files.

use super::*;
use crate::units::CAPACITY_SCALE;
use std::fmt::Debug;
use std::ops::RangeInclusive;

/// `Ok`, or why not.
type Checked = Result<(), String>;

impl Platform {
    /// What makes a machine that no platform file can describe, if anything: what is wrong, where, and what may stand there.
    pub fn flaw(&self) -> Option<String> {
        let why = self.check().err()?;
        Some(format!("platform `{}` is no machine: {why}", self.name))
    }

    fn check(&self) -> Checked {
        range("number of CPUs", self.cpus.len(), 1..=CpuSet::MAX_CPUS)?;
        each("CPU", &self.cpus, |c| self.cpu(c))?;
        self.members("cluster", self.clusters.iter().map(|c| &c.cpus).collect(), |c| c.cluster.at())?;
        self.members("domain", self.domains.iter().map(|d| &d.cpus).collect(), |c| c.domain.at())?;
        self.topology()?;
        each("domain", &self.domains, |d| self.domain(d))?;
        each("cluster", &self.clusters, cluster)?;
        if !self.kernel_cpus.is_empty() && self.kernel_cpus.len() != self.nr_cpus() {
            return Err(format!("kernel_cpus are {}, and there are {} CPUs", self.kernel_cpus, self.nr_cpus()));
        }
        range("calibration_cpu", self.calibration_cpu.at(), 0..=self.nr_cpus() - 1)?;
        range("hz", self.hz, HZ)?;
        range("number of smt_share", self.smt_share.len(), 1..=CpuSet::MAX_CPUS)?;
        each("smt_share", &self.smt_share, |share| range("value", *share, CAPACITY))?;
        if let Some(pair) = self.smt_share.windows(2).find(|pair| pair[0] < pair[1]) {
            return Err(format!("smt_share: a thread of more gets {}, one of fewer {}", pair[1], pair[0]));
        }
        self.costs.check().map_err(|why| format!("costs: {why}"))?;
        self.noise.check().map_err(|why| format!("noise: {why}"))?;
        range("timer_slack_ns", self.timer_slack_ns, 0..=MAX_NS)?;
        if !PAGE_KIB.contains(&self.page_kib) {
            return Err(format!("page_kib is {}, not one of {PAGE_KIB:?}", self.page_kib));
        }
        each("driver", &self.drivers, |d| {
            range("cpu_latency_ns", d.cpu_latency_ns.unwrap_or(0), 0..=MAX_NS)?;
            range("hold_ns", d.hold_ns, 0..=MAX_NS)
        })?;
        range("base_uw", self.power.base_uw, 0..=self.power.unit.most())
    }

    fn cpu(&self, cpu: &Cpu) -> Checked {
        range("capacity", cpu.capacity, CAPACITY)?;
        range("priority", cpu.priority, 0..=MAX_PRIORITY)
    }

    /// Every CPU is in the list of the part that it names, and in no other.
    fn members(&self, what: &str, lists: Vec<&CpuSet>, of: impl Fn(&Cpu) -> usize) -> Checked {
        for (i, list) in lists.iter().enumerate() {
            if list.is_empty() {
                return Err(format!("{what} {i} has no CPUs"));
            }
            for cpu in list.iter() {
                match self.cpus.get(cpu.at()).map(&of) {
                    None => return Err(format!("{what} {i} has CPU {cpu}, and there are {}", self.nr_cpus())),
                    Some(named) if named != i => {
                        return Err(format!("{what} {i} has CPU {cpu}, which names {what} {named} as its own"));
                    }
                    Some(_) => {}
                }
            }
        }
        for (cpu, named) in (0..).map(CpuId).zip(self.cpus.iter().map(of)) {
            let Some(list) = lists.get(named) else {
                return Err(format!("CPU {cpu} names {what} {named}, and there are {}", lists.len()));
            };
            if !list.contains(cpu) {
                return Err(format!("CPU {cpu} names {what} {named}, which has CPUs {list}"));
            }
        }
        Ok(())
    }

    /// Parts lie within parts.
    fn topology(&self) -> Checked {
        let core = |c: &Cpu| (c.package, c.core);
        self.nested("core", core, "last-level caches", |c| c.llc)?;
        self.nested("core", core, "nodes", |c| c.node)?;
        self.nested("core", core, "caches `l2`", |c| c.l2)?;
        let l2 = |c: &Cpu| c.l2.map_or((None, Some(core(c))), |l2| (Some(l2), None));
        self.nested("cache `l2`", l2, "last-level caches", |c| c.llc)?;
        self.nested("last-level cache", |c| c.llc, "packages", |c| c.package)
    }

    fn nested<I: Ord, O: PartialEq>(
        &self,
        what: &str,
        inner: impl Fn(&Cpu) -> I,
        outer_are: &str,
        outer: impl Fn(&Cpu) -> O,
    ) -> Checked {
        let mut seen = BTreeMap::new();
        for (cpu, c) in self.cpus.iter().enumerate() {
            let first = *seen.entry(inner(c)).or_insert(cpu);
            if outer(&self.cpus[first]) != outer(c) {
                return Err(format!("CPUs {first} and {cpu} are of one {what} and of two {outer_are}"));
            }
        }
        Ok(())
    }

    fn domain(&self, d: &FreqDomain) -> Checked {
        range("transition_latency_ns", d.transition_latency_ns, 0..=MAX_NS)?;
        range("transition_delay_ns", d.transition_delay_ns.unwrap_or(0), 0..=MAX_NS)?;
        if let Some(clock) = d.dt_clock {
            range("dt_clock.hz", clock.hz, *DT_CLOCK_KHZ.start() * 1000..=*DT_CLOCK_KHZ.end() * 1000)?;
            range("dt_clock.efficiency", clock.efficiency, 1..=MAX_EFFICIENCY)?;
        }
        each("operating point", &d.opps, |o| {
            range("khz", o.khz, 1..=MAX_KHZ)?;
            range("capacity", o.capacity, CAPACITY)?;
            range("uv", o.uv.unwrap_or(1), 1..=MAX_UV)
        })?;
        let falls = |w: &[Opp]| w[0].khz >= w[1].khz || w[0].capacity > w[1].capacity;
        if let Some(i) = d.opps.windows(2).position(falls) {
            return Err(format!("operating point {} is not above the one before it in khz and capacity", i + 1));
        }
        let Some(top) = d.opps.last() else {
            return Err("it has no operating point".into());
        };
        if let Some(cpu) = d.cpus.iter().find(|c| self.cpus[c.at()].capacity != top.capacity) {
            let own = self.cpus[cpu.at()].capacity;
            return Err(format!("its highest operating point has capacity {}, its CPU {cpu} {own}", top.capacity));
        }
        let table = &d.power;
        let rows = [&table.busy_uw, &table.cluster_busy_uw].into_iter();
        let most = self.power.unit.most();
        let all = rows.chain(&table.idle_uw).chain(&table.cluster_idle_uw).flatten();
        all.copied().try_for_each(|uw| range("power", uw, 0..=most))
    }
}

const CAPACITY: RangeInclusive<u32> = 1..=CAPACITY_SCALE as u32;

impl PowerUnit {
    /// The largest power of a platform.
    fn most(self) -> u64 {
        if self == PowerUnit::EasCosts { MAX_UW * 1000 } else { MAX_UW }
    }
}

fn cluster(c: &Cluster) -> Checked {
    range("number of idle states", c.idle.len(), 1..=CPUIDLE_STATE_MAX)?;
    each("idle state", &c.idle, |s| {
        range("advertised.exit_ns", s.advertised.exit_ns, 0..=MAX_NS)?;
        range("advertised.residency_ns", s.advertised.residency_ns, 0..=MAX_NS)?;
        range("actual.entry_ns", s.actual.entry_ns, 0..=MAX_NS)?;
        range("actual.exit_ns", s.actual.exit_ns, 0..=MAX_NS)
    })
}

impl Costs {
    fn check(&self) -> Checked {
        range("context_switch_ns", self.context_switch_ns, 0..=MAX_NS)?;
        range("wakeup_ns", self.wakeup_ns, 0..=MAX_NS)?;
        range("ipi_ns", self.ipi_ns, 0..=MAX_NS)?;
        range("timer_irq_ns", self.timer_irq_ns, 0..=MAX_NS)?;
        range("tick_ns", self.tick_ns, 0..=MAX_NS)?;
        range("migration_ns", self.migration_ns, 0..=MAX_NS)?;
        range("migration_llc_ns", self.migration_llc_ns, 0..=MAX_NS)
    }
}

impl Noise {
    fn check(&self) -> Checked {
        range("irq_jitter_ns", self.irq_jitter_ns, 0..=MAX_NS)?;
        range("start_spread_ns", self.start_spread_ns, 0..=MAX_NS)?;
        range("work_ppm", self.work_ppm, 0..=MAX_WORK_PPM)?;
        each("background thread", &self.housekeeping, |h| {
            range("interval_ns", h.interval_ns, MIN_INTERVAL_NS..=MAX_NS)?;
            range("work_ns", h.work_ns, 0..=MAX_NS)
        })?;
        let Some(i) = &self.interrupts else { return Ok(()) };
        let of = |why| format!("interrupts: {why}");
        range("interval_ns", i.interval_ns, MIN_INTERVAL_NS..=MAX_NS).map_err(of)?;
        range("work_ns", i.work_ns, 0..=MAX_NS).map_err(of)?;
        range("burst", i.burst, 0..=MAX_BURST).map_err(of)?;
        range("burst_gap_ns", i.burst_gap_ns, u64::from(i.burst > 0)..=MAX_NS).map_err(of)?;
        range("wakes_ppm", i.wakes_ppm, 0..=1_000_000).map_err(of)
    }
}

/// A number in its place.
fn range<N: PartialOrd + Debug>(what: &str, value: N, may: RangeInclusive<N>) -> Checked {
    match may.contains(&value) {
        true => Ok(()),
        false => Err(format!("{what} {value:?} is not in {may:?}")),
    }
}

/// Each of a list; what is wrong with one is said behind its place.
fn each<T>(what: &str, all: &[T], check: impl Fn(&T) -> Checked) -> Checked {
    let one = |(i, item)| check(item).map_err(|why| format!("{what} {i}: {why}"));
    all.iter().enumerate().try_for_each(one)
}
