//! Scheduling domains: which CPUs share what, from the platform's topology, as the kernel's `build_sched_domains`.
//!
//! Levels, lowest first, those with a single CPU or the same span as the one below left out: `SMT` (one core), `MC` (one
//! last-level cache), `PKG` (one package; `DIE` before 6.7), `NUMA`. A [`Domain`] is shared by all its CPUs; what the
//! balancer remembers is per CPU and level, in [`SdState`].

use wattif_model::platform::Platform;
use wattif_model::{CpuId, CpuSet};

/// What the CPUs of a domain share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Threads of a core.
    Smt,
    /// Last-level cache.
    Mc,
    /// Package.
    Pkg,
    /// The machine, over its NUMA nodes.
    Numa,
}

/// A scheduling domain (`struct sched_domain`, the part that does not change).
#[derive(Clone, Debug)]
pub struct Domain {
    /// What its CPUs share.
    pub level: Level,
    /// Its CPUs.
    pub span: CpuSet,
    /// Number of CPUs.
    pub weight: u32,
    /// Parts between which it balances: the domains one level below.
    pub groups: Vec<Group>,
    /// Imbalance that is tolerated, percent: 110 SMT, 117 others, 125 by default.
    pub imbalance_pct: u32,
    /// Failed passes before hot tasks are moved.
    pub cache_nice_tries: u32,
    /// Shortest interval of balancing, ticks of 1 ms: the weight.
    pub min_interval_ms: u64,
    /// Longest: twice the weight.
    pub max_interval_ms: u64,
    /// Interval is multiplied by this on a busy CPU (16; 32 before 5.10).
    pub busy_factor: u32,
    /// `SD_SHARE_LLC`.
    pub share_llc: bool,
    /// `SD_PREFER_SIBLING` of the child.
    pub prefer_sibling: bool,
    /// `SD_ASYM_CPUCAPACITY`: CPUs of different capacity.
    pub asym_cpucapacity: bool,
    /// `SD_NUMA`.
    pub numa: bool,
}

/// A scheduling group.
#[derive(Clone, Debug)]
pub struct Group {
    /// Its CPUs.
    pub cpus: CpuSet,
    /// Number of CPUs.
    pub weight: u32,
    /// Σ `capacity_of`, updated by balancing.
    pub capacity: u64,
    /// Least `capacity_of`.
    pub min_capacity: u64,
    /// Largest `capacity_of`.
    pub max_capacity: u64,
    /// CPU that may balance for the group (`group_balance_cpu`).
    pub balance_cpu: CpuId,
}

/// What balancing remembers per CPU and level (`struct sched_domain`, the part that changes).
#[derive(Clone, Debug, Default)]
pub struct SdState {
    /// Index into [`Topology::domains`].
    pub domain: usize,
    /// Index of this CPU's own group in it.
    pub local_group: usize,
    /// Time of the last pass, ns.
    pub last_balance: u64,
    /// Present interval, ms.
    pub balance_interval_ms: u64,
    /// Passes that failed in a row.
    pub nr_balance_failed: u32,
    /// Most expensive newly-idle pass, ns.
    pub max_newidle_lb_cost: u64,
    /// When that was last decayed, ns.
    pub last_decay: u64,
}

/// The domains of a machine, and look-ups that the hot paths need.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    /// All domains.
    pub domains: Vec<Domain>,
    /// Per CPU: its domains, lowest first.
    pub of_cpu: Vec<Vec<usize>>,
    /// Per CPU: index of the highest domain that shares the last-level cache (`sd_llc`), if it has more than one CPU.
    pub sd_llc: Vec<Option<usize>>,
    /// Per CPU: number of its last-level cache (`sd_llc_id`).
    pub llc_id: Vec<u32>,
    /// Per CPU: CPUs of that cache (`sd_llc_size`).
    pub llc_size: Vec<u32>,
    /// Per last-level cache: its CPUs.
    pub llc_span: Vec<CpuSet>,
    /// Per last-level cache: state shared by its CPUs (`struct sched_domain_shared`).
    pub llc_shared: Vec<LlcShared>,
    /// Per CPU: hardware threads of its core.
    pub smt: Vec<CpuSet>,
    /// More than one hardware thread per core somewhere?
    pub has_smt: bool,
    /// Per CPU: the lowest domain with CPUs of different capacity (`sd_asym_cpucapacity`).
    pub sd_asym: Vec<Option<usize>>,
}

/// `struct sched_domain_shared`.
#[derive(Clone, Copy, Debug, Default)]
pub struct LlcShared {
    /// SIS_UTIL: how many CPUs a wake-up may look at.
    pub nr_idle_scan: u32,
    /// A core may be idle.
    pub has_idle_cores: bool,
}

impl Topology {
    /// Builds the domains of a platform.
    pub fn new(platform: &Platform) -> Topology {
        let n = platform.nr_cpus();
        let mut t = Topology {
            of_cpu: vec![Vec::new(); n],
            sd_llc: vec![None; n],
            sd_asym: vec![None; n],
            ..Topology::default()
        };
        for c in 0..n as u32 {
            let cpu = &platform.cpus[c as usize];
            t.smt.push(platform.cpus_where(|o| (o.package, o.core) == (cpu.package, cpu.core)));
            let llc = platform.cpus_where(|o| o.llc == cpu.llc);
            t.llc_id.push(llc.min().expect("a CPU is in its own cache's set").0);
            t.llc_size.push(llc.len() as u32);
        }
        t.has_smt = t.smt.iter().any(|s| s.len() > 1);
        t.number_llcs(platform);
        t.build_levels(platform);
        t
    }

    /// Do two CPUs share their last-level cache (`cpus_share_cache`)?
    #[inline]
    pub fn cpus_share_cache(&self, a: CpuId, b: CpuId) -> bool {
        self.llc_id[a.at()] == self.llc_id[b.at()]
    }

    /// Renumbers caches 0, 1, … in order of their first CPU.
    fn number_llcs(&mut self, platform: &Platform) {
        let mut firsts: Vec<u32> = self.llc_id.clone();
        firsts.sort_unstable();
        firsts.dedup();
        for id in &mut self.llc_id {
            *id = firsts.binary_search(id).expect("it is in the list it was taken from") as u32;
        }
        self.llc_span =
            firsts.iter().map(|&f| platform.cpus_where(|o| o.llc == platform.cpus[f as usize].llc)).collect();
        self.llc_shared = vec![LlcShared::default(); firsts.len()];
    }

    fn build_levels(&mut self, platform: &Platform) {
        let n = platform.nr_cpus();
        let mut below: Vec<CpuSet> = (0..n as u32).map(|c| CpuSet::one(CpuId(c))).collect();
        let mut child: Vec<Option<usize>> = vec![None; n];
        for level in [Level::Smt, Level::Mc, Level::Pkg, Level::Numa] {
            let mut here: Vec<CpuSet> = Vec::with_capacity(n);
            for c in 0..n {
                let first = below[c].min().expect("a span holds its CPU");
                // CPUs of one span are handled once; the others copy.
                if first.at() < c {
                    let done = here[first.at()].clone();
                    here.push(done);
                    continue;
                }
                let me = &platform.cpus[c];
                here.push(match level {
                    Level::Smt => self.smt[c].clone(),
                    Level::Mc => self.llc_span[self.llc_id[c] as usize].clone(),
                    Level::Pkg => platform.cpus_where(|o| o.package == me.package),
                    Level::Numa => CpuSet::first(n),
                });
            }
            self.add_level(platform, level, &here, &mut below, &mut child);
        }
    }

    fn add_level(
        &mut self,
        platform: &Platform,
        level: Level,
        here: &[CpuSet],
        below: &mut [CpuSet],
        child: &mut [Option<usize>],
    ) {
        for c in 0..here.len() {
            let first = here[c].min().expect("a span holds its CPU").at();
            if here[c].len() <= below[c].len() && first != c || here[c] == below[c] {
                continue;
            }
            if first == c {
                self.add_domain(platform, level, &here[c], below, child[c]);
            }
        }
        for c in 0..here.len() {
            if here[c].len() > below[c].len() {
                let domain = self.domains.iter().rposition(|d| d.level == level && d.span.contains(CpuId(c as u32)));
                let domain = domain.expect("the domain was just added");
                self.of_cpu[c].push(domain);
                child[c] = Some(domain);
                if self.domains[domain].share_llc {
                    self.sd_llc[c] = Some(domain);
                }
                if self.domains[domain].asym_cpucapacity && self.sd_asym[c].is_none() {
                    self.sd_asym[c] = Some(domain);
                }
            }
        }
        below.clone_from_slice(here);
    }

    fn add_domain(&mut self, platform: &Platform, level: Level, span: &CpuSet, below: &[CpuSet], child: Option<usize>) {
        let mut groups: Vec<Group> = Vec::new();
        for cpu in span.iter() {
            let cpus = &below[cpu.at()];
            if cpus.min() == Some(cpu) {
                groups.push(Group::new(platform, cpus.clone()));
            }
        }
        let weight = span.len() as u32;
        let capacities = || span.iter().map(|c| platform.cpus[c.at()].capacity);
        self.domains.push(Domain {
            level,
            span: span.clone(),
            weight,
            groups,
            imbalance_pct: if level == Level::Smt { 110 } else { 117 },
            cache_nice_tries: match level {
                Level::Smt => 0,
                Level::Mc | Level::Pkg => 1,
                Level::Numa => 2,
            },
            min_interval_ms: u64::from(weight),
            max_interval_ms: 2 * u64::from(weight),
            busy_factor: 16,
            share_llc: level <= Level::Mc,
            prefer_sibling: child.is_none_or(|c| self.domains[c].level != Level::Numa) && level != Level::Numa,
            asym_cpucapacity: capacities().min() != capacities().max(),
            numa: level == Level::Numa,
        });
    }
}

impl Group {
    fn new(platform: &Platform, cpus: CpuSet) -> Group {
        let capacities: Vec<u64> = cpus.iter().map(|c| u64::from(platform.cpus[c.at()].capacity)).collect();
        Group {
            weight: cpus.len() as u32,
            capacity: capacities.iter().sum(),
            min_capacity: capacities.iter().copied().min().unwrap_or(0),
            max_capacity: capacities.iter().copied().max().unwrap_or(0),
            balance_cpu: cpus.min().expect("a group is not empty"),
            cpus,
        }
    }
}
