//! Scheduling domains: which CPUs share what, from the platform's topology, as the kernel's `build_sched_domains`.
//!
//! Levels, lowest first, those with a single CPU or the same span as the one below left out: `SMT` (one core), `CLS` (cores
//! that share a cache or its tag below the last level; since 5.16, on hybrid machines since 6.6), `MC` (one last-level cache), `PKG` (one NUMA node; `DIE`
//! before 6.7), `NUMA` (all nodes). A [`Domain`] is shared by all its CPUs; what the balancer remembers is per CPU and
//! level, in [`SdState`].
//!
//! FIDELITY(numa-levels): one NUMA level, whatever the distances between nodes are.

use crate::registry::meant;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use wattif_model::platform::{Cpu, Platform};
use wattif_model::{CpuId, CpuSet};

/// What the CPUs of a domain share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Threads of a core.
    Smt,
    /// Cores that share a cache, or its tag, below the last level (`SD_CLUSTER`).
    Cls,
    /// Last-level cache.
    Mc,
    /// NUMA node.
    Pkg,
    /// The machine, over its NUMA nodes.
    Numa,
}

/// What a kernel version decides about domains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DomainParams {
    /// Imbalance tolerated, percent, by [`Level`].
    pub imbalance_pct: [u32; 5],
    /// Factor of the balance interval on a busy CPU: 16 since 5.10, 32 before, 64 in 3.13.
    pub busy_factor: u32,
    /// Shortest and longest interval of balancing, ms; `None`: the weight of the domain and twice that.
    pub interval_ms: Option<(u64, u64)>,
    /// A domain asks its parent to spread from this level on.
    pub spreads_from: Level,
    /// What the kernel makes of different capacities.
    pub asym: Asym,
    /// Which of the tasks that do not fit their CPU are misfit tasks.
    pub misfit: Misfit,
    /// On which machines are there domains of clusters (`CONFIG_SCHED_CLUSTER`)?
    pub clusters: Clusters,
    /// Are NUMA nodes farther from each other than `node_reclaim_distance`? The machine decides that one.
    pub far_nodes: bool,
    /// Does the order of preference between CPUs count (`SD_ASYM_PACKING`; 4.10)?
    pub asym_packing: bool,
}

impl DomainParams {
    /// 3.13. `cpu_power` takes the place of capacities.
    pub const V3_13: DomainParams = DomainParams {
        imbalance_pct: [110, 125, 125, 117, 125],
        busy_factor: 64,
        interval_ms: Some((1, 4)),
        spreads_from: Level::Pkg,
        asym: Asym::Off,
        misfit: Misfit::Any,
        clusters: Clusters::Off,
        far_nodes: false,
        asym_packing: false,
    };
    /// Kernels before 5.10.
    pub const BEFORE_5_10: DomainParams = DomainParams {
        imbalance_pct: [110, 117, 117, 125, 125],
        busy_factor: 32,
        interval_ms: None,
        spreads_from: Level::Smt,
        asym: Asym::Misfit,
        misfit: Misfit::Any,
        clusters: Clusters::V6_6,
        far_nodes: false,
        asym_packing: true,
    };
    /// Kernels since 5.10.
    pub const SINCE_5_10: DomainParams = DomainParams {
        imbalance_pct: [110, 117, 117, 117, 117],
        busy_factor: 16,
        misfit: Misfit::Helpable,
        ..DomainParams::BEFORE_5_10
    };
}

/// `load_balance.cluster`: which machines have domains of clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clusters {
    /// None.
    Off,
    /// `5.16`: those whose CPUs are of one type, or not ranked. On hybrid ones the cluster of small cores, which has more capacity
    /// in all, would draw the work.
    V5_16,
    /// `6.6`: all.
    #[default]
    V6_6,
}

impl Clusters {
    /// The values of the tunable.
    pub const NAMES: [&'static str; 3] = ["off", "5.16", "6.6"];

    /// From the tunable's value.
    pub fn parse(name: &str) -> Option<Clusters> {
        meant(Clusters::NAMES, [Clusters::Off, Clusters::V5_16, Clusters::V6_6], name)
    }

    fn on(self, cpus: &[Cpu]) -> bool {
        match self {
            Clusters::Off => false,
            Clusters::V5_16 => !is_hybrid(cpus),
            Clusters::V6_6 => true,
        }
    }
}

/// Which tasks that do not fit their CPU a kernel calls misfit (`update_misfit_status`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Misfit {
    /// All.
    Any,
    /// Those that may run on more than one CPU (5.12).
    Movable,
    /// Those that may run on a CPU of more capacity (6.10).
    #[default]
    Helpable,
}

/// What a kernel makes of CPUs of different capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asym {
    /// `off`: nothing (before 4.10).
    Off,
    /// `wakeup`: `SD_ASYM_CPUCAPACITY`; wake-ups look at it (4.9), and full groups of more capacity are not pulled from (4.10).
    Wakeup,
    /// `misfit`: and balancing moves tasks that do not fit their CPU (4.20).
    #[default]
    Misfit,
}

impl Asym {
    /// From the tunable's value.
    pub fn parse(name: &str) -> Option<Asym> {
        Some(match name {
            "off" => Asym::Off,
            "wakeup" => Asym::Wakeup,
            "misfit" => Asym::Misfit,
            _ => return None,
        })
    }
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
    /// Parts between which it balances: the domains one level below, in order of their first CPU.
    pub groups: Vec<Group>,
    /// Index of the domain below of the span's first CPU; `None` when groups are single CPUs.
    pub child: Option<usize>,
    /// Imbalance that is tolerated, percent, see [`DomainParams`].
    pub imbalance_pct: u32,
    /// Failed passes before hot tasks are moved.
    pub cache_nice_tries: u32,
    /// Shortest interval of balancing, ms.
    pub min_interval_ms: u64,
    /// Longest.
    pub max_interval_ms: u64,
    /// Interval is multiplied by this on a busy CPU (see [`DomainParams`]).
    pub busy_factor: u32,
    /// `SD_SHARE_LLC`.
    pub share_llc: bool,
    /// `SD_SHARE_CPUCAPACITY`: its CPUs are threads of one core.
    pub share_cpucapacity: bool,
    /// `SD_PREFER_SIBLING` of the child: spread over the groups although each has room.
    pub prefer_sibling: bool,
    /// `SD_ASYM_CPUCAPACITY`: CPUs of different capacity.
    pub asym_cpucapacity: bool,
    /// `SD_ASYM_CPUCAPACITY_FULL`: CPUs of every capacity that the machine has.
    pub asym_cpucapacity_full: bool,
    /// `SD_ASYM_PACKING`: work goes to the CPUs of highest priority.
    pub asym_packing: bool,
    /// `SD_NUMA`.
    pub numa: bool,
    /// Its nodes are far from each other: no `SD_WAKE_AFFINE`, `SD_BALANCE_FORK`, `SD_BALANCE_EXEC`.
    pub far: bool,
    /// Tasks that a NUMA node may have more than another before they are spread.
    pub imb_numa_nr: u32,
}

/// A scheduling group.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Its CPUs.
    pub cpus: CpuSet,
    /// Number of CPUs.
    pub weight: u32,
    /// Number of cores.
    pub cores: u32,
    /// Σ `capacity_of`, updated by balancing.
    pub capacity: u64,
    /// Least `capacity_of`.
    pub min_capacity: u64,
    /// Largest `capacity_of`.
    pub max_capacity: u64,
    /// When the capacities are due for an update, ns.
    pub next_update: u64,
    /// A task that its affinity keeps from moving left an imbalance here (`sgc->imbalance`).
    pub imbalance: bool,
    /// CPU that may balance for the group (`group_balance_cpu`).
    pub balance_cpu: CpuId,
    /// Its CPU of highest priority, the first of equals.
    pub asym_prefer_cpu: CpuId,
    /// `SD_CLUSTER` of the child: its CPUs share a cache below the last level.
    pub cluster: bool,
    /// The last-level caches that it consists of; empty where it is not made of whole ones, numbered in a row.
    pub llcs: Range<u32>,
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
    /// Newly-idle passes of late, successes among them (each for as many as the dice suppressed), and their ratio × 1024.
    pub newidle: NewidleStats,
}

/// How well newly-idle passes of a CPU over a domain do (`newidle_call`, `newidle_success`, `newidle_ratio`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewidleStats {
    /// Passes, the suppressed ones included: 512..1024.
    pub call: u32,
    /// Passes that pulled something.
    pub success: u32,
    /// `success` when `call` last reached 1024.
    pub ratio: u32,
}

impl Default for NewidleStats {
    /// Half of them, until something is known.
    fn default() -> NewidleStats {
        NewidleStats { call: 512, success: 256, ratio: 512 }
    }
}

impl NewidleStats {
    /// `update_newidle_stats`: every 1024 passes the ratio is taken, and the past counts half.
    pub fn update(&mut self, success: u32) {
        self.call += 1;
        self.success += success;
        if self.call >= 1024 {
            self.ratio = self.success;
            self.call /= 2;
            self.success /= 2;
        }
    }
}

/// The domains of a machine, and look-ups that the hot paths need.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    /// All domains.
    pub domains: Vec<Domain>,
    /// Per CPU: its domains, lowest first.
    pub of_cpu: Vec<Vec<usize>>,
    /// Per CPU: index of its own group in each of these domains.
    pub local_group: Vec<Vec<usize>>,
    /// Per CPU: index of the highest domain that shares the last-level cache (`sd_llc`), if it has more than one CPU.
    pub sd_llc: Vec<Option<usize>>,
    /// Per CPU: number of its last-level cache (`sd_llc_id`).
    pub llc_id: Vec<u32>,
    /// Per CPU: CPUs of that cache (`sd_llc_size`).
    pub llc_size: Vec<u32>,
    /// Per last-level cache: its CPUs.
    pub llc_span: Vec<CpuSet>,
    /// Per last-level cache: its CPUs, where those of every cache are numbered in a row; otherwise empty.
    pub llc_range: Vec<Range<usize>>,
    /// Per last-level cache: state shared by its CPUs (`struct sched_domain_shared`).
    pub llc_shared: Vec<LlcShared>,
    /// Per CPU: number of its cluster, of its last-level cache where there is none (`sd_share_id`).
    pub share_id: Vec<u32>,
    /// Are there clusters (`sched_cluster_active`)?
    pub has_clusters: bool,
    /// Per CPU: order of preference (`arch_asym_cpu_priority`).
    pub priority: Vec<u32>,
    /// Per CPU: the highest domain that packs by priority (`sd_asym_packing`).
    pub sd_asym_packing: Vec<Option<usize>>,
    /// Per CPU: hardware threads of its core.
    pub smt: Vec<CpuSet>,
    /// More than one hardware thread per core somewhere?
    pub has_smt: bool,
    /// Per CPU: the lowest domain with CPUs of every capacity (`sd_asym_cpucapacity`).
    pub sd_asym: Vec<Option<usize>>,
    /// Is there any such domain (`sched_asym_cpucap_active`)?
    pub has_asym: bool,
    /// And tasks that do not fit their CPU are moved to a bigger one?
    pub has_misfit: bool,
    /// And which are that?
    pub misfit: Misfit,
    /// The largest `capacity_orig` (`rd->max_cpu_capacity`).
    pub max_cpu_capacity: u32,
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
    /// The domains of a platform under a kernel since 5.10.
    pub fn new(platform: &Platform) -> Topology {
        Topology::of_cpus(&platform.cpus, DomainParams::SINCE_5_10)
    }

    /// The domains that CPUs get from a kernel.
    ///
    /// `PKG` spans a NUMA node whatever the packages are (the kernel's `cpu_cpu_mask`), and a cache that crosses nodes
    /// is cut at their border.
    pub fn of_cpus(cpus: &[Cpu], params: DomainParams) -> Topology {
        let n = cpus.len();
        let mut t = Topology {
            of_cpu: vec![Vec::new(); n],
            local_group: vec![Vec::new(); n],
            sd_llc: vec![None; n],
            sd_asym: vec![None; n],
            sd_asym_packing: vec![None; n],
            priority: cpus.iter().map(|c| c.priority).collect(),
            smt: partition(cpus, |c| (c.package, c.core)),
            llc_id: vec![0; n],
            misfit: params.misfit,
            max_cpu_capacity: cpus.iter().map(|c| c.capacity).max().unwrap_or(0),
            ..Topology::default()
        };
        t.has_smt = t.smt.iter().any(|s| s.len() > 1);
        let llc = partition(cpus, |c| (c.node, c.llc));
        t.number_llcs(&llc);
        t.share_id = llc.iter().map(first_cpu).collect();
        let levels = [
            (Level::Smt, t.smt.clone()),
            (Level::Cls, if params.clusters.on(cpus) { clusters(cpus, &llc) } else { t.smt.clone() }),
            (Level::Mc, llc),
            (Level::Pkg, partition(cpus, |c| (c.node, 0))),
            (Level::Numa, vec![CpuSet::first(n); n]),
        ];
        let mut below: Vec<CpuSet> = (0..n as u32).map(|c| CpuSet::one(CpuId(c))).collect();
        for (level, spans) in levels {
            t.add_level(cpus, params, level, &spans, &mut below);
        }
        t.has_clusters = t.domains.iter().any(|d| d.level == Level::Cls);
        t.has_asym = t.sd_asym.iter().any(Option::is_some);
        t.has_misfit = t.has_asym && params.asym == Asym::Misfit;
        t
    }

    /// What balancing on a CPU starts from; `core` puts it into `rq.sd`.
    pub fn sd_states(&self, cpu: CpuId) -> Vec<SdState> {
        let groups = self.local_group[cpu.at()].iter();
        let state = |(&domain, &local_group): (&usize, &usize)| SdState {
            domain,
            local_group,
            balance_interval_ms: self.domains[domain].min_interval_ms,
            ..SdState::default()
        };
        self.of_cpu[cpu.at()].iter().zip(groups).map(state).collect()
    }

    /// Do two CPUs share their last-level cache (`cpus_share_cache`)?
    #[inline]
    pub fn cpus_share_cache(&self, a: CpuId, b: CpuId) -> bool {
        self.llc_id[a.at()] == self.llc_id[b.at()]
    }

    /// Are two CPUs of one cluster; where there are no clusters, of one last-level cache (`cpus_share_resources`)?
    #[inline]
    pub fn cpus_share_resources(&self, a: CpuId, b: CpuId) -> bool {
        self.share_id[a.at()] == self.share_id[b.at()]
    }

    /// The CPUs of the target's cluster, where its last-level cache is divided into clusters.
    pub fn cluster(&self, target: CpuId) -> Option<&CpuSet> {
        let level = self.of_cpu[target.at()].iter().position(|&d| Some(d) == self.sd_llc[target.at()])?;
        let domain = self.of_cpu[target.at()][level];
        let group = &self.domains[domain].groups[self.local_group[target.at()][level]];
        group.cluster.then_some(&group.cpus)
    }

    /// State shared by the last-level cache of a CPU; `None` when the CPU has the cache for itself.
    #[inline]
    pub fn llc_shared(&self, cpu: CpuId) -> Option<&LlcShared> {
        self.sd_llc[cpu.at()].map(|_| &self.llc_shared[self.llc_id[cpu.at()] as usize])
    }

    /// The same, to change.
    #[inline]
    pub fn llc_shared_mut(&mut self, cpu: CpuId) -> Option<&mut LlcShared> {
        self.sd_llc[cpu.at()].map(|_| &mut self.llc_shared[self.llc_id[cpu.at()] as usize])
    }

    /// Numbers caches 0, 1, … in order of their first CPU.
    fn number_llcs(&mut self, llc: &[CpuSet]) {
        for (cpu, span) in llc.iter().enumerate() {
            let first = span.min().expect("a CPU is in its own cache's set").at();
            if first == cpu {
                self.llc_span.push(span.clone());
                self.llc_id[cpu] = self.llc_span.len() as u32 - 1;
            } else {
                self.llc_id[cpu] = self.llc_id[first];
            }
            self.llc_size.push(span.len() as u32);
        }
        self.llc_shared = vec![LlcShared::default(); self.llc_span.len()];
        let range = |span: &CpuSet| span.min().map_or(0..0, |first| first.at()..first.at() + span.len());
        let ranges: Vec<Range<usize>> = self.llc_span.iter().map(range).collect();
        if ranges.iter().zip(&self.llc_span).all(|(r, span)| span.iter().all(|c| r.contains(&c.at()))) {
            self.llc_range = ranges;
        }
    }

    /// Adds the domains of a level, except where they would have one CPU or the span of the level below (`sd_degenerate`).
    fn add_level(&mut self, cpus: &[Cpu], params: DomainParams, level: Level, spans: &[CpuSet], below: &mut [CpuSet]) {
        let mut domain_of_first = vec![usize::MAX; spans.len()];
        for cpu in 0..spans.len() {
            if spans[cpu].len() <= below[cpu].len() {
                continue;
            }
            let first = spans[cpu].min().expect("a span holds its CPU").at();
            if first == cpu {
                domain_of_first[cpu] = self.domains.len();
                let domain = self.domain(cpus, params, level, &spans[cpu], below);
                self.domains.push(domain);
            }
            self.attach(cpu, domain_of_first[first]);
        }
        for (below, span) in below.iter_mut().zip(spans).filter(|(b, s)| s.len() > b.len()) {
            below.clone_from(span);
        }
    }

    /// Puts a domain on top of a CPU's list.
    fn attach(&mut self, cpu: usize, domain: usize) {
        let d = &self.domains[domain];
        let id = CpuId(cpu as u32);
        // Groups are in order of their first CPU: the last that begins at or before this CPU may still not hold it.
        let local = d.groups.iter().position(|g| g.cpus.contains(id)).expect("the groups cover the domain");
        if d.share_llc {
            self.sd_llc[cpu] = Some(domain);
        }
        if d.asym_cpucapacity_full && self.sd_asym[cpu].is_none() {
            self.sd_asym[cpu] = Some(domain);
        }
        if d.level == Level::Cls {
            self.share_id[cpu] = first_cpu(&d.span);
        }
        if d.asym_packing {
            self.sd_asym_packing[cpu] = Some(domain);
        }
        self.of_cpu[cpu].push(domain);
        self.local_group[cpu].push(local);
    }

    fn domain(&self, cpus: &[Cpu], params: DomainParams, level: Level, span: &CpuSet, below: &[CpuSet]) -> Domain {
        let first = span.min().expect("a domain is not empty").at();
        let child = self.of_cpu[first].last().copied();
        let weight = span.len() as u32;
        let capacities = distinct_capacities(span.iter().map(|c| &cpus[c.at()]));
        let asym = capacities > 1 && params.asym > Asym::Off;
        let has_priorities = cpus.iter().any(|c| c.priority != cpus[0].priority);
        let (min_interval_ms, max_interval_ms) = params.interval_ms.unwrap_or((weight.into(), 2 * u64::from(weight)));
        Domain {
            level,
            span: span.clone(),
            weight,
            groups: self.groups(cpus, span, below),
            child,
            imbalance_pct: params.imbalance_pct[level as usize],
            cache_nice_tries: match level {
                Level::Smt => 0,
                Level::Cls | Level::Mc | Level::Pkg => 1,
                Level::Numa => 2,
            },
            min_interval_ms,
            max_interval_ms,
            busy_factor: params.busy_factor,
            share_llc: level <= Level::Mc,
            share_cpucapacity: level == Level::Smt,
            // A domain asks its parent to spread, unless that would be over CPUs of different capacity.
            prefer_sibling: child.is_some_and(|c| (params.spreads_from..Level::Numa).contains(&self.domains[c].level))
                && !asym,
            asym_cpucapacity: asym,
            asym_cpucapacity_full: asym && capacities == distinct_capacities(cpus.iter()),
            asym_packing: params.asym_packing && has_priorities && (Level::Cls..=Level::Pkg).contains(&level),
            numa: level == Level::Numa,
            far: params.far_nodes && level == Level::Numa,
            imb_numa_nr: self.imb_numa_nr(level, weight, child),
        }
    }

    fn groups(&self, cpus: &[Cpu], span: &CpuSet, below: &[CpuSet]) -> Vec<Group> {
        let firsts = span.iter().filter(|c| below[c.at()].min() == Some(*c));
        firsts.map(|c| self.group(cpus, &below[c.at()])).collect()
    }

    fn group(&self, cpus: &[Cpu], members: &CpuSet) -> Group {
        let capacities = || members.iter().map(|c| u64::from(cpus[c.at()].capacity));
        Group {
            weight: members.len() as u32,
            cores: members.iter().filter(|c| self.smt[c.at()].min() == Some(*c)).count() as u32,
            capacity: capacities().sum(),
            min_capacity: capacities().min().unwrap_or(0),
            max_capacity: capacities().max().unwrap_or(0),
            next_update: 0,
            imbalance: false,
            balance_cpu: members.min().expect("a group is not empty"),
            asym_prefer_cpu: members.iter().max_by_key(|c| (cpus[c.at()].priority, Reverse(*c))).unwrap_or_default(),
            llcs: self.whole_llcs(members),
            cluster: members.min().is_some_and(|c| self.tops_out_at(c, Level::Cls)),
            cpus: members.clone(),
        }
    }

    /// The last-level caches that make up the set, where they are whole and numbered in a row; otherwise none.
    fn whole_llcs(&self, members: &CpuSet) -> Range<u32> {
        let ids = || members.iter().map(|c| self.llc_id[c.at()]);
        let (Some(first), Some(last)) = (ids().min(), ids().max()) else { return 0..0 };
        let caches = self.llc_range.get(first as usize..=last as usize).unwrap_or_default();
        let cpus: usize = caches.iter().map(Range::len).sum();
        if cpus == members.len() { first..last + 1 } else { 0..0 }
    }

    /// Is the highest domain of the CPU so far of this level?
    fn tops_out_at(&self, cpu: CpuId, level: Level) -> bool {
        self.of_cpu[cpu.at()].last().is_some_and(|&d| self.domains[d].level == level)
    }

    /// A node may have one task more per last-level cache, or for an eighth of its CPUs when it has one cache.
    fn imb_numa_nr(&self, level: Level, weight: u32, child: Option<usize>) -> u32 {
        let Some(child) = child.map(|c| &self.domains[c]) else { return u32::from(level == Level::Numa) };
        if level < Level::Pkg {
            return 0;
        }
        if !child.share_llc {
            return child.imb_numa_nr;
        }
        if level == Level::Numa {
            // The node's own domain, on which the kernel counts caches, is gone: it spans one.
            return (child.weight >> 3).max(1);
        }
        let nr_llcs = weight / child.weight;
        if nr_llcs == 1 { (weight >> 3).max(1) } else { nr_llcs.max(1) }
    }
}

/// For every CPU the set of those with the same key.
fn partition<K: Ord>(cpus: &[Cpu], key: impl Fn(&Cpu) -> K) -> Vec<CpuSet> {
    let mut sets: BTreeMap<K, CpuSet> = BTreeMap::new();
    for (i, cpu) in cpus.iter().enumerate() {
        sets.entry(key(cpu)).or_default().insert(CpuId(i as u32));
    }
    cpus.iter().map(|cpu| sets[&key(cpu)].clone()).collect()
}

/// Spans of clusters; one that is no smaller than the last-level cache is none (`cpu_clustergroup_mask`).
fn clusters(cpus: &[Cpu], llc: &[CpuSet]) -> Vec<CpuSet> {
    let spans = partition(cpus, |c| (c.node, c.llc, c.l2.map_or((Some(c.core), None), |l2| (None, Some(l2)))));
    let alone = partition(cpus, |c| (c.package, c.core));
    let real = |cpu: usize| if spans[cpu].len() < llc[cpu].len() { spans[cpu].clone() } else { alone[cpu].clone() };
    (0..cpus.len()).map(real).collect()
}

/// CPUs of several types, with an order of preference between these (`X86_FEATURE_HYBRID_CPU`).
fn is_hybrid(cpus: &[Cpu]) -> bool {
    cpus.iter().any(|c| c.core_type != cpus[0].core_type && c.priority != cpus[0].priority)
}

fn first_cpu(span: &CpuSet) -> u32 {
    span.min().expect("a span holds its CPU").0
}

fn distinct_capacities<'a>(cpus: impl Iterator<Item = &'a Cpu>) -> usize {
    cpus.map(|c| c.capacity).collect::<BTreeSet<u32>>().len()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use wattif_model::{ClusterId, DomainId};

    /// CPUs of one machine by (core, cache, node, capacity).
    pub(crate) fn cpus(n: u32, of: impl Fn(u32) -> (u32, u32, u32, u32)) -> Vec<Cpu> {
        (0..n)
            .map(|c| {
                let (core, llc, node, capacity) = of(c);
                let core_type = "test".to_string();
                Cpu {
                    core_type,
                    core,
                    cluster: ClusterId(0),
                    domain: DomainId(0),
                    llc,
                    package: node,
                    node,
                    capacity,
                    l2: None,
                    priority: 0,
                }
            })
            .collect()
    }

    /// One line per domain of CPU 0 and of the last CPU.
    fn levels(cpus: &[Cpu]) -> Vec<String> {
        let t = Topology::of_cpus(cpus, DomainParams::SINCE_5_10);
        let line = |&d: &usize| {
            let d = &t.domains[d];
            let flags = [(d.prefer_sibling, "spread"), (d.asym_cpucapacity, "asym"), (d.asym_cpucapacity_full, "full")];
            let flags: Vec<&str> = flags.iter().filter(|f| f.0).map(|f| f.1).collect();
            format!("{:?} {} of {} {} {}", d.level, d.span, d.groups.len(), d.imbalance_pct, flags.join(" "))
                .trim()
                .to_string()
        };
        let last = t.of_cpu.last().expect("there are CPUs");
        t.of_cpu[0].iter().chain(last.iter().filter(|d| !t.of_cpu[0].contains(d))).map(line).collect()
    }

    #[test]
    fn levels_of_known_machines() {
        let two_clusters = cpus(8, |c| (c, c / 4, 0, 1024));
        assert_eq!(levels(&two_clusters), ["Mc 0-3 of 4 117", "Pkg 0-7 of 2 117 spread", "Mc 4-7 of 4 117"]);
        let big_little = cpus(8, |c| (c, c / 4, 0, if c < 4 { 462 } else { 1024 }));
        assert_eq!(levels(&big_little), ["Mc 0-3 of 4 117", "Pkg 0-7 of 2 117 asym full", "Mc 4-7 of 4 117"]);
        let one_cache = cpus(8, |c| (c, 0, 0, 1024));
        assert_eq!(levels(&one_cache), ["Mc 0-7 of 8 117"]);
        let dynamiq = cpus(8, |c| (c, 0, 0, [160, 160, 160, 160, 500, 500, 500, 1024][c as usize]));
        assert_eq!(levels(&dynamiq), ["Mc 0-7 of 8 117 asym full"]);
        let server = cpus(32, |c| (c / 2, c / 8, c / 16, 1024));
        assert_eq!(
            levels(&server),
            [
                "Smt 0-1 of 2 110",
                "Mc 0-7 of 4 117 spread",
                "Pkg 0-15 of 2 117 spread",
                "Numa 0-31 of 2 117 spread",
                "Smt 30-31 of 2 110",
                "Mc 24-31 of 4 117 spread",
                "Pkg 16-31 of 2 117 spread"
            ]
        );
        assert_eq!(levels(&cpus(1, |_| (0, 0, 0, 1024))), Vec::<String>::new());
    }

    #[test]
    fn clusters_below_the_last_level() {
        // 16 cores of one cache, four of them to a tag, as on a Kunpeng 920.
        let mut tagged = cpus(16, |c| (c, 0, 0, 1024));
        (0..).zip(&mut tagged).for_each(|(i, cpu)| cpu.l2 = Some(i / 4));
        assert_eq!(levels(&tagged)[..2], ["Cls 0-3 of 4 117", "Mc 0-15 of 4 117 spread"]);
        let t = Topology::of_cpus(&tagged, DomainParams::SINCE_5_10);
        assert!(t.has_clusters && t.cpus_share_resources(CpuId(4), CpuId(7)));
        assert!(!t.cpus_share_resources(CpuId(3), CpuId(4)) && t.cpus_share_cache(CpuId(3), CpuId(4)));
        assert_eq!(t.cluster(CpuId(6)).map(CpuSet::to_string).as_deref(), Some("4-7"));
        let before = Topology::of_cpus(&tagged, DomainParams { clusters: Clusters::Off, ..DomainParams::SINCE_5_10 });
        assert_eq!((before.has_clusters, before.of_cpu[0].len()), (false, 1));
        assert!(before.cpus_share_resources(CpuId(3), CpuId(4)), "one cache is one cluster then");
        // Favoured cores alone do not make it hybrid, a second type does.
        let until_6_5 = DomainParams { clusters: Clusters::V5_16, ..DomainParams::SINCE_5_10 };
        tagged[15].priority = 9;
        assert!(Topology::of_cpus(&tagged, until_6_5).has_clusters);
        tagged[15].core_type = "other".to_string();
        let hybrid = Topology::of_cpus(&tagged, until_6_5);
        assert_eq!((hybrid.has_clusters, hybrid.of_cpu[0].len()), (false, 1));
        assert!(Topology::of_cpus(&tagged, DomainParams::SINCE_5_10).has_clusters);
        // A cluster as large as its cache is none.
        let mut whole = cpus(8, |c| (c, c / 4, 0, 1024));
        (0..).zip(&mut whole).for_each(|(i, cpu)| cpu.l2 = Some(i / 4));
        assert!(!Topology::of_cpus(&whole, DomainParams::SINCE_5_10).has_clusters);
    }

    #[test]
    fn priorities_pack_within_a_node() {
        let mut hybrid = cpus(8, |c| (c, 0, 0, 1024));
        hybrid.iter_mut().take(4).for_each(|cpu| cpu.priority = 9);
        let t = Topology::of_cpus(&hybrid, DomainParams::SINCE_5_10);
        assert!(t.domains[0].asym_packing && t.sd_asym_packing[7] == Some(0));
        assert_eq!(t.domains[0].groups[5].asym_prefer_cpu, CpuId(5));
        assert!(!Topology::of_cpus(&cpus(8, |c| (c, 0, 0, 1024)), DomainParams::SINCE_5_10).domains[0].asym_packing);
    }

    #[test]
    fn a_lone_cluster_beside_wider_ones_has_fewer_levels() {
        // 1 + 3 + 4 with a cache each: the prime core has no MC level.
        let t = Topology::of_cpus(
            &cpus(8, |c| (c, [0, 1, 1, 1, 2, 2, 2, 2][c as usize], 0, 1024)),
            DomainParams::SINCE_5_10,
        );
        assert_eq!((t.of_cpu[0].len(), t.of_cpu[1].len()), (1, 2));
        assert_eq!((t.sd_llc[0], t.llc_size[0], t.llc_size[4]), (None, 1, 4));
        assert!(t.cpus_share_cache(CpuId(1), CpuId(3)) && !t.cpus_share_cache(CpuId(0), CpuId(1)));
        assert_eq!(t.local_group[7], [3, 2]);
    }

    #[test]
    fn eras_differ_above_the_cache() {
        let two_sockets = cpus(32, |c| (c, c / 16, c / 16, 1024));
        let old = Topology::of_cpus(&two_sockets, DomainParams::BEFORE_5_10);
        let pct: Vec<u32> = old.of_cpu[0].iter().map(|&d| old.domains[d].imbalance_pct).collect();
        assert_eq!(pct, [117, 125]);
        assert_eq!(old.domains[0].busy_factor, 32);
        let numa = old.of_cpu[0][1];
        assert_eq!((old.domains[numa].numa, old.domains[numa].imb_numa_nr), (true, 2));
    }

    #[test]
    fn a_node_may_have_more_tasks_by_its_caches() {
        // CPUs of a node, those of a cache, and what a node may have more than another.
        for (node, llc, expect) in [(64, 64, 8), (16, 16, 2), (4, 4, 1), (1, 1, 1), (64, 16, 4), (32, 4, 8)] {
            let t = Topology::of_cpus(&cpus(2 * node, |c| (c, c / llc, c / node, 1024)), DomainParams::SINCE_5_10);
            let numa = &t.domains[*t.of_cpu[0].last().expect("there are nodes")];
            assert_eq!((numa.numa, numa.imb_numa_nr), (true, expect), "{node} CPUs, {llc} of a cache");
        }
    }

    #[test]
    fn a_thousand_cpus() {
        let t = Topology::of_cpus(&cpus(1024, |c| (c / 2, c / 16, c / 256, 1024)), DomainParams::SINCE_5_10);
        assert_eq!(t.of_cpu[1023].len(), 4);
        assert_eq!((t.llc_span.len(), t.domains.len()), (64, 512 + 64 + 4 + 1));
        assert_eq!(t.sd_states(CpuId(1023)).last().map(|sd| (sd.local_group, sd.balance_interval_ms)), Some((3, 1024)));
    }
}
