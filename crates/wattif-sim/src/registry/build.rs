//! Builds the kernel of a run: what fills each slot, with its tunables.

use super::{Refusal, Tunables, check, chosen};
use crate::cpufreq::conservative::{self, Conservative};
use crate::cpufreq::cpufreq_governor::{self, DbsTunables};
use crate::cpufreq::interactive::{self, Interactive};
use crate::cpufreq::ondemand::{self, Ondemand};
use crate::cpufreq::schedutil::{self, Schedutil};
use crate::cpufreq::{self, FreqGovernor};
use crate::cpuidle::default_idle::DefaultIdle;
use crate::cpuidle::{self, IdleGovernor};
use crate::engine::rng::Rng;
use crate::sched::Sched;
use crate::sched::balance::{self, FairBalancer, cpu_power};
use crate::sched::class::SchedClass;
use crate::sched::class::bandwidth::CfsBandwidth;
use crate::sched::class::cfs::Cfs;
use crate::sched::class::deadline::{self, Deadline};
use crate::sched::class::dl_bandwidth::Reclaim;
use crate::sched::class::eevdf::{self, Eevdf};
use crate::sched::class::fair::init_groups;
use crate::sched::class::rt::{CapacityAware, Rt, RtBandwidth};
use crate::sched::features::Features;
use crate::sched::load::pelt::{self, Pelt, PostInit};
use crate::sched::load::rt_avg;
use crate::sched::load::util_est;
use crate::sched::load::walt::{self, Walt, WaltSystem};
use crate::sched::load::walt_qti::{self, QtiSystem};
use crate::sched::placement::cpu_util::Boost;
use crate::sched::placement::energy_model::EmPerfDomain;
use crate::sched::placement::find_best_target::FindBestTarget;
use crate::sched::placement::select_idle_sibling::{Scan, SchedIdle};
use crate::sched::placement::{
    EnergyAware, SelectTaskRqFair, WakeupPlacement, eas, energy_model, find_idlest_cpu, select_idle_sibling,
    wake_affine,
};
use crate::sched::rq::{CfsRq, Distribute};
use crate::sched::schedtune::{self, Schedtune};
use crate::sched::task::{SchedEntity, TaskGroup};
use crate::sched::topology::{Asym, Clusters, DomainParams, Misfit, Topology};
use crate::sched::ttwu_queue;
use crate::sched::uclamp::{Clamped, Fits, group_clamps};
use wattif_model::kernel::{KernelSpec, Slot};
use wattif_model::platform::{HZ, Platform};
use wattif_model::run::{RunError, RunSpec};
use wattif_model::workload::GroupSpec;
use wattif_model::{CpuId, DomainId, Ns};

/// Everything that a kernel profile decides about a run.
pub(crate) struct Built {
    pub sched: Sched,
    pub fair: Box<dyn SchedClass>,
    pub rt: Box<dyn SchedClass>,
    pub dl: Box<dyn SchedClass>,
    pub placement: Box<dyn WakeupPlacement>,
    pub balancer: Box<FairBalancer>,
    pub cpufreq: Vec<Box<dyn FreqGovernor>>,
    pub cpuidle: Box<dyn IdleGovernor>,
}

/// Builds the kernel of a run, or says everything that is wrong with its profile.
pub(crate) fn build(spec: &RunSpec) -> Result<Built, RunError> {
    let wrong = check(&spec.kernel);
    if !wrong.is_empty() {
        return Err(RunError::Kernel(Refusal::join(&wrong, "\n")));
    }
    let (kernel, platform) = (&spec.kernel, &spec.platform);
    spec.check()?;
    let hz = hz_of(spec);
    if !HZ.contains(&hz) {
        return Err(RunError::Kernel(format!("a tick rate of {hz} Hz; {} to {} are possible", HZ.start(), HZ.end())));
    }
    let tick_ns = cpuidle::tick_nsec(hz);
    let placement = build_placement(kernel, platform);
    let balancer = build_balancer(kernel, platform, placement.eas.is_some())?;
    let cpufreq: Vec<_> = platform.domains.iter().map(|_| build_cpufreq(kernel)).collect();
    let mut sched = build_sched(spec, build_groups(spec), tick_ns, &balancer);
    sched.cpufreq_hears_own = cpufreq.iter().any(|g| g.hears_own_updates_only());
    Ok(Built {
        sched,
        fair: build_class(kernel, platform.nr_cpus()),
        rt: Box::new(Rt { rr_timeslice_ms: rr_timeslice_ms(kernel) }),
        dl: Box::new(build_deadline(kernel)),
        balancer: Box::new(balancer),
        placement: Box::new(placement),
        cpufreq,
        cpuidle: build_cpuidle(kernel, platform, tick_ns),
    })
}

/// `sysctl_sched_migration_cost`.
const MIGRATION_COST_NS: u64 = 500_000;

fn build_sched(spec: &RunSpec, groups: Vec<TaskGroup>, tick_ns: u64, balancer: &FairBalancer) -> Sched {
    let (kernel, platform) = (&spec.kernel, &spec.platform);
    let mut features = Features::default();
    for (name, on) in &kernel.features {
        assert!(features.set(name, *on), "features are checked");
    }
    let pelt_tunables = Tunables::of(kernel, "pelt");
    let mut pelt = Pelt::with_half_life(pelt_tunables.int("half_life_ms")).expect("the registry allows 8, 16 and 32");
    pelt.generation = parsed(&pelt_tunables, "generation", pelt::Generation::parse);
    if pelt_tunables.text("divider") == "max" {
        pelt.generation = pelt.generation.by_max();
    }
    pelt.migrate_lag = pelt_tunables.on("migrate_lag");
    pelt.post_init = parsed(&pelt_tunables, "post_init", PostInit::parse);
    let util_est = Tunables::of(kernel, "util_est").text("generation");
    let rt_avg = parsed(&Tunables::of(kernel, "rt_avg"), "generation", rt_avg::Generation::parse);
    let mut s = Sched::bare(platform.nr_cpus(), tick_ns);
    s.topology = build_topology(kernel, platform, balancer);
    if !balance::has_many_llcs(&s) {
        s.touched.clear();
    }
    s.features = features;
    s.util_est = util_est::Generation::by_name(&util_est).expect("the registry allows only its generations");
    s.walt = (chosen(kernel, Slot::Load) == "walt").then(|| build_walt(spec, tick_ns));
    s.schedtune = build_schedtune(kernel, &groups.iter().map(|g| g.path.as_str()).collect::<Vec<_>>());
    let own_ns = cpuidle::pm_qos::latency_req_ns(Tunables::of(kernel, "pm_qos").maybe_int("cpu_latency_us"));
    s.cpu_latency = cpuidle::pm_qos::CpuLatency::new(own_ns, &platform.drivers, &spec.workload.devices);
    s.ttwu_queue = parsed(&Tunables::of(kernel, "ttwu_queue"), "generation", ttwu_queue::Generation::parse);
    s.default_idle = parsed(&Tunables::of(kernel, "default_idle"), "tick", DefaultIdle::parse);
    s.poll_time = match cpuidle::powernv::has_snooze(platform) {
        true => cpuidle::poll_state::Generation::V5_3,
        false => parsed(&Tunables::of(kernel, "poll_state"), "generation", cpuidle::poll_state::Generation::parse),
    };
    s.polling_is_told = cpuidle::powernv::polling_is_told(&Tunables::of(kernel, "powernv").text("snooze"), platform);
    s.distribute = parsed(&Tunables::of(kernel, "select_task_rq_fair"), "affinity", Distribute::parse);
    s.groups = groups;
    s.rd.energy_aware = balancer.eas;
    s.rd.energy_aware_4_9 = s.rd.energy_aware && Tunables::of(kernel, "eas").text("generation") == "4.9";
    (s.clamped, s.uclamp_fits) = (clamped(kernel), uclamp_fits(kernel));
    s.rd.uclamp_used = s.clamped >= Clamped::Groups && clamps_groups(spec);
    let balance = chosen(kernel, Slot::Balance);
    s.takes_from_tail = balance != "cpu_power" && Tunables::of(kernel, balance).text("takes_from") == "tail";
    let class = Tunables::of(kernel, chosen(kernel, Slot::Class));
    s.bandwidth_slice_ns = class.int::<u64>("bandwidth_slice_us") * 1000;
    s.bandwidth_slices_expire = chosen(kernel, Slot::Class) == "cfs" && class.on("slice_expires");
    s.custom_slice = hears_slices(kernel);
    s.tg_load_avg_limit_ns = class.int::<u64>("tg_load_avg_limit_us") * 1000;
    let queues = s.groups.len() * platform.nr_cpus();
    s.cfs = vec![CfsRq::default(); queues];
    s.se = vec![SchedEntity::default(); queues + 1];
    for rq in &mut s.rqs {
        rq.pelt = pelt;
        rq.rt_avg.generation = rt_avg;
        let power = balancer.power.original.get(rq.cpu.at());
        let capacity = platform.told_capacity(rq.cpu);
        (rq.cpu_capacity_orig, rq.cpu_capacity) = (capacity, power.copied().unwrap_or(capacity));
        // A fresh CPU expects to be idle for twice the cost of a migration.
        (rq.avg_idle, rq.max_idle_balance_cost) = (2 * MIGRATION_COST_NS, MIGRATION_COST_NS);
        rq.sd = s.topology.sd_states(rq.cpu);
    }
    init_groups(&mut s);
    init_bandwidth(&mut s, kernel);
    s
}

/// Whose clamps are heard.
pub(super) fn clamped(kernel: &KernelSpec) -> Clamped {
    parsed(&Tunables::of(kernel, "cpu_util"), "uclamp", Clamped::parse)
}

fn uclamp_fits(kernel: &KernelSpec) -> Fits {
    parsed(&Tunables::of(kernel, "cpu_util"), "uclamp_fits", Fits::parse)
}

/// May groups have this? What came with EEVDF, or after it, is not asked for here.
pub(super) fn knows_of_groups(kernel: &KernelSpec, what: &str) -> bool {
    chosen(kernel, Slot::Class) != "cfs" || Tunables::of(kernel, "cfs").on(what)
}

/// Does a group of the workload clamp its threads?
pub(super) fn clamps_groups(spec: &RunSpec) -> bool {
    spec.workload.groups.iter().any(|g| (g.uclamp_min, g.uclamp_max) != (0, 1024))
}

/// May fair tasks ask for a slice of their own?
pub(super) fn hears_slices(kernel: &KernelSpec) -> bool {
    chosen(kernel, Slot::Class) == "eevdf" && Tunables::of(kernel, "eevdf").on("custom_slice")
}

pub(super) fn build_schedtune(kernel: &KernelSpec, paths: &[&str]) -> Option<Schedtune> {
    let t = Tunables::of(kernel, "schedtune");
    let all = schedtune::Group {
        boost_pct: t.text("boost_pct").parse().expect("checked before"),
        prefer_idle: t.on("prefer_idle"),
    };
    let group = |name: &str| schedtune::Group {
        boost_pct: t.text(&format!("{name}_boost_pct")).parse().unwrap_or(all.boost_pct),
        prefer_idle: t.text(&format!("{name}_prefer_idle")).parse().unwrap_or(all.prefer_idle),
    };
    let top = if schedtune::names_groups(paths.iter().copied()) { group("top_app") } else { all };
    let set = [group("root"), top, group("foreground"), group("background")];
    let tune = Schedtune {
        touch_boost_pct: t.int("touch_boost_pct"),
        touch_ns: t.int::<u64>("touch_ms") * 1_000_000,
        ..Schedtune::new(set, paths)
    };
    tune.is_used().then_some(tune)
}

fn build_walt(spec: &RunSpec, tick_ns: u64) -> WaltSystem {
    let qti = build_walt_qti(&spec.kernel);
    let clusters = || spec.platform.cpus.iter().map(|c| c.cluster.0);
    let qti = (qti != walt_qti::Switches::default()).then(|| Box::new(QtiSystem::new(qti, clusters())));
    WaltSystem { qti, ..WaltSystem::new(build_walt_windows(spec, tick_ns), spec.platform.nr_cpus()) }
}

fn build_walt_qti(kernel: &KernelSpec) -> walt_qti::Switches {
    let t = Tunables::of(kernel, "walt_qti");
    walt_qti::Switches {
        per_cpu_windows: t.on("per_cpu_windows"),
        top_tasks: t.on("top_tasks"),
        early_detection: parsed(&t, "early_detection", walt_qti::Detection::parse),
        predicted_demand: t.on("predicted_demand"),
        new_task_load: t.on("new_task_load"),
        // The governor asks for windows and moves.
        governor: Tunables::of(kernel, "schedutil").text("generation") == "4.9-qti",
    }
}

pub(super) fn build_walt_windows(spec: &RunSpec, tick_ns: u64) -> Walt {
    let t = Tunables::of(&spec.kernel, "walt");
    Walt {
        policy: parsed(&t, "policy", walt::Policy::parse),
        account_wait_time: t.on("account_wait_time"),
        freq_account_wait_time: t.on("freq_account_wait_time"),
        io_is_busy: t.on("io_is_busy"),
        init_task_load_pct: t.int("init_task_load_pct"),
        ..Walt::new(window_ms(spec), tick_ns)
    }
}

/// Rate of the tick: the kernel's, where it says one.
pub(super) fn hz_of(spec: &RunSpec) -> u32 {
    spec.kernel.hz.unwrap_or(spec.platform.hz)
}

/// The period of the display that the workload draws for.
pub(super) fn display_of(spec: &RunSpec) -> Option<Ns> {
    spec.workload.mark_periods.iter().flatten().min().copied()
}

/// What a window is to last: a number, or by the display.
pub(super) fn window_ms(spec: &RunSpec) -> u64 {
    let t = Tunables::of(&spec.kernel, "walt");
    t.maybe_int("window_ms").unwrap_or_else(|| walt_qti::window_of_display_ms(display_of(spec), hz_of(spec)))
}

/// The domains; to a kernel of the age of `cpu_power` that is what CPUs have, and capacity does not exist.
fn build_topology(kernel: &KernelSpec, platform: &Platform, balancer: &FairBalancer) -> Topology {
    if balancer.generation == balance::Generation::V3_13 {
        let mut cpus = platform.cpus.clone();
        cpus.iter_mut().zip(&balancer.power.original).for_each(|(cpu, power)| cpu.capacity = *power);
        return Topology::of_cpus(&cpus, DomainParams { far_nodes: platform.far_nodes, ..DomainParams::V3_13 });
    }
    let t = Tunables::of(kernel, "load_balance");
    let before_5_10 = balancer.generation < balance::Generation::V6_1;
    let params = if before_5_10 { DomainParams::BEFORE_5_10 } else { DomainParams::SINCE_5_10 };
    let asym = parsed(&t, "asym_capacity", Asym::parse);
    let misfit = match balancer.generation {
        balance::Generation::V6_12 => Misfit::Helpable,
        balance::Generation::V6_6 | balance::Generation::V6_1 => Misfit::Movable,
        _ => Misfit::Any,
    };
    let (clusters, asym_packing) = (parsed(&t, "cluster", Clusters::parse), t.on("asym_packing"));
    let mut cpus = platform.cpus.clone();
    (0..).zip(&mut cpus).for_each(|(i, cpu)| cpu.capacity = platform.told_capacity(CpuId(i)));
    let far_nodes = platform.far_nodes;
    Topology::of_cpus(&cpus, DomainParams { asym, misfit, clusters, far_nodes, asym_packing, ..params })
}

/// `sched_rr_timeslice_ms`; 0 stands for the default.
fn rr_timeslice_ms(kernel: &KernelSpec) -> u64 {
    match Tunables::of(kernel, "rt").int("sched_rr_timeslice_ms") {
        0 => 100,
        ms => ms,
    }
}

/// `sched_rt_runtime_us` of `sched_rt_period_us`; `None`: no limit.
fn global_rt_bandwidth(kernel: &KernelSpec) -> Option<RtBandwidth> {
    let t = Tunables::of(kernel, "rt");
    let period_ns = t.int::<u64>("sched_rt_period_us") * 1000;
    t.maybe_int("sched_rt_runtime_us").map(|us: u64| RtBandwidth { runtime_ns: us * 1000, period_ns })
}

/// The limit of the real-time class, where this kernel has one.
pub(super) fn rt_bandwidth(kernel: &KernelSpec) -> Option<RtBandwidth> {
    global_rt_bandwidth(kernel).filter(|_| Tunables::of(kernel, "rt").text("generation") == "6.1")
}

fn build_deadline(kernel: &KernelSpec) -> Deadline {
    let t = Tunables::of(kernel, "deadline");
    let generation = parsed(&t, "generation", deadline::Generation::parse);
    let reclaim = Reclaim::new(generation >= deadline::Generation::V6_6, global_rt_bandwidth(kernel));
    // The flag came with 4.13.
    let heard = t.on("reclaim") && generation > deadline::Generation::V4_10;
    Deadline { reclaim: heard.then_some(reclaim) }
}

/// What the real-time and deadline classes may use.
fn init_bandwidth(s: &mut Sched, kernel: &KernelSpec) {
    let (rt, dl) = (Tunables::of(kernel, "rt"), Tunables::of(kernel, "deadline"));
    s.rt_overload = if rt.text("generation") == "6.1" { 2 } else { 1 };
    s.rt_capacity_aware = parsed(&rt, "capacity_aware", CapacityAware::parse);
    s.cpupri_higher = rt.on("cpupri_higher");
    s.dl_generation = parsed(&dl, "generation", deadline::Generation::parse);
    s.dl_capacity_aware = dl.on("capacity_aware");
    s.rd.dl_bw = global_rt_bandwidth(kernel);
    s.rd.rt_bandwidth = rt_bandwidth(kernel);
    let us = |name| dl.int::<u64>(name) * 1000;
    s.rd.dl_period_ns = (us("sched_deadline_period_min_us"), us("sched_deadline_period_max_us"));
    let has_server = s.dl_generation == deadline::Generation::V6_12;
    for rq in &mut s.rqs {
        rq.rt.rt_runtime = s.rd.rt_bandwidth.map_or(0, |b| b.runtime_ns);
        if has_server {
            let server = &mut rq.dl.server.dl;
            (server.dl_runtime, server.dl_period) = (us("fair_server_runtime_us"), us("fair_server_period_us"));
            server.dl_deadline = server.dl_period;
        }
    }
}

/// The groups of a workload, the root first, each after its parent.
fn build_groups(run: &RunSpec) -> Vec<TaskGroup> {
    let interleave = chosen(&run.kernel, Slot::Class) == "eevdf";
    let (idles, saves) = (knows_of_groups(&run.kernel, "group_idle"), knows_of_groups(&run.kernel, "group_burst"));
    let mut groups = vec![TaskGroup::root()];
    for spec in run.workload.groups.iter().skip(1) {
        let parent = groups.iter().position(|g| Some(g.path.as_str()) == spec.parent());
        let parent = parent.expect("groups are checked") as u32;
        let (path, shares) = (spec.path.clone(), u64::from(spec.shares));
        let bandwidth = spec.quota.map(|quota| {
            let offset = if interleave { period_offset(run.seed, spec) } else { 0 };
            CfsBandwidth::new(quota.0, spec.period.0, if saves { spec.burst.0 } else { 0 }, offset)
        });
        let above = groups[parent as usize].uclamp;
        let uclamp = if clamped(&run.kernel) >= Clamped::Groups { group_clamps(spec, above) } else { (0, 1024) };
        let idle = spec.idle && idles;
        let queues_of = schedtune_only(&run.kernel, spec).then(|| groups[parent as usize].queues_of.unwrap_or(parent));
        groups.push(TaskGroup { path, parent, shares, idle, bandwidth, uclamp, queues_of, ..TaskGroup::root() });
    }
    groups
}

/// Is it a group of schedtune's alone, because it says so, or where the kernel has that? Android gave its groups to the cpu controller,
/// where they have shares, when clamps took the place of schedtune. One that has anything of the cpu controller's is in both.
fn schedtune_only(kernel: &KernelSpec, group: &GroupSpec) -> bool {
    group.shares == 0
        || (knows_schedtune(kernel) && schedtune::is_group(&group.path) && *group == GroupSpec::named(&group.path))
}

/// Does anybody ask schedtune under this kernel?
pub(super) fn knows_schedtune(kernel: &KernelSpec) -> bool {
    let generation = |of: &str| Tunables::of(kernel, of).text("generation");
    generation("eas") == "4.9" || generation("schedutil").starts_with("4.9")
}

/// Since 6.4 the periods of groups begin at different times.
fn period_offset(seed: u64, group: &GroupSpec) -> u64 {
    Rng::stream(seed, &format!("cfs_period{}", group.path)).uniform(0, group.period.0 - 1)
}

fn build_cfs(kernel: &KernelSpec, nr_cpus: usize) -> Cfs {
    let t = Tunables::of(kernel, "cfs");
    let mut cfs = Cfs::new(nr_cpus);
    cfs.sched_latency_ns = t.maybe_int("sched_latency_ns").unwrap_or(cfs.sched_latency_ns);
    cfs.min_granularity_ns = t.maybe_int("min_granularity_ns").unwrap_or(cfs.min_granularity_ns);
    let ratio = cfs.sched_latency_ns.div_ceil(cfs.min_granularity_ns);
    cfs.nr_latency = t.maybe_int("nr_latency").unwrap_or(ratio);
    cfs.idle_min_granularity_ns = t.maybe_int("idle_min_granularity_ns").unwrap_or(cfs.idle_min_granularity_ns);
    cfs.wakeup_granularity_ns = t.maybe_int("wakeup_granularity_ns").unwrap_or(cfs.wakeup_granularity_ns);
    cfs.idle_entities = t.on("group_idle");
    cfs
}

fn build_class(kernel: &KernelSpec, nr_cpus: usize) -> Box<dyn SchedClass> {
    let name = chosen(kernel, Slot::Class);
    if name == "cfs" {
        Box::new(build_cfs(kernel, nr_cpus))
    } else {
        let t = Tunables::of(kernel, name);
        let mut eevdf = Eevdf::new(t.int("normalized_base_slice_ns"), nr_cpus);
        eevdf.base_slice_ns = t.maybe_int("base_slice_ns").unwrap_or(eevdf.base_slice_ns);
        eevdf.generation = parsed(&t, "generation", eevdf::Generation::parse);
        eevdf.forfeit_on_yield = t.on("forfeit_on_yield");
        Box::new(eevdf)
    }
}

/// The value of a tunable whose words a policy's own parser knows; the registry has checked it.
fn parsed<T>(tunables: &Tunables<'_>, name: &str, parse: impl Fn(&str) -> Option<T>) -> T {
    parse(&tunables.text(name)).expect("the registry allows only what the policy parses")
}

/// How waiting raises the utilisation that `consumer` sees.
pub(super) fn boost_of(kernel: &KernelSpec, consumer: &str) -> Boost {
    let t = Tunables::of(kernel, "cpu_util");
    let own = t.text(consumer);
    let name = if own == "same" { t.text("boost") } else { own };
    let half_life = Tunables::of(kernel, "pelt").int("half_life_ms");
    let boost = Boost::parse(&name, t.int("gate_pct"), t.int("delay_us"), half_life);
    boost.expect("the registry allows only what the policy parses")
}

fn build_placement(kernel: &KernelSpec, platform: &Platform) -> SelectTaskRqFair {
    let (sis, idlest) = (Tunables::of(kernel, "select_idle_sibling"), Tunables::of(kernel, "find_idlest_cpu"));
    let (affine, own) = (Tunables::of(kernel, "wake_affine"), Tunables::of(kernel, "select_task_rq_fair"));
    let mut p = SelectTaskRqFair::default();
    p.select_idle_sibling.generation = parsed(&sis, "generation", select_idle_sibling::Generation::parse);
    p.select_idle_sibling.sched_idle = parsed(&sis, "sched_idle", SchedIdle::parse);
    p.select_idle_sibling.scan = parsed(&sis, "scan", Scan::parse);
    p.select_idle_sibling.recent = sis.on("recent");
    p.select_idle_sibling.cluster = sis.on("cluster");
    p.find_idlest_cpu.generation = parsed(&idlest, "generation", find_idlest_cpu::Generation::parse);
    p.find_idlest_cpu.sched_idle = parsed(&idlest, "sched_idle", SchedIdle::parse);
    p.find_idlest_cpu.counts_all = idlest.text("counts") == "all";
    p.wake_affine.generation = parsed(&affine, "generation", wake_affine::Generation::parse);
    p.before_5_7 = own.on("before_5_7");
    p.eas = build_eas(kernel, platform);
    p
}

/// Is there energy-aware placement, where the platform allows it? Since 5.0 only under schedutil, see `sched_is_eas_possible`.
pub(super) fn wants_eas(kernel: &KernelSpec) -> bool {
    match Tunables::of(kernel, "eas").text("generation").as_str() {
        "off" => false,
        "4.9" => true,
        _ => chosen(kernel, Slot::Cpufreq) == "schedutil",
    }
}

pub(super) fn build_eas(kernel: &KernelSpec, platform: &Platform) -> Option<Box<dyn EnergyAware>> {
    let t = Tunables::of(kernel, "eas");
    if !wants_eas(kernel) {
        return None;
    }
    if t.text("generation") == "4.9" {
        return Some(Box::new(FindBestTarget::of_platform(platform)?));
    }
    let generation = parsed(&t, "generation", energy_model::Generation::parse);
    let tunables = eas::Tunables { generation, boost: boost_of(kernel, "eas"), uclamp_fits: uclamp_fits(kernel) };
    Some(Box::new(eas::Eas::of_platform(tunables, platform)?))
}

/// The energy model of a domain, where cpufreq skips the states that it marks as inefficient (since 5.16): on machines whose
/// tasks can be placed by energy.
pub(crate) fn energy_model(kernel: &KernelSpec, platform: &Platform, domain: DomainId) -> Option<EmPerfDomain> {
    let generation = energy_model::Generation::parse(&Tunables::of(kernel, "eas").text("generation"))?;
    let models = eas::Eas::of_platform(eas::Tunables { generation, ..eas::Tunables::default() }, platform)?;
    let of_domain = |pd: &&eas::PerfDomain| pd.cpus == platform.domains[domain.at()].cpus;
    models.pds().iter().find(of_domain).map(|pd| pd.em.clone())
}

fn build_balancer(kernel: &KernelSpec, platform: &Platform, eas: bool) -> Result<FairBalancer, RunError> {
    let name = chosen(kernel, Slot::Balance);
    let t = Tunables::of(kernel, name);
    let mut balancer = match name {
        "cpu_power" => FairBalancer::new(balance::Generation::V3_13),
        _ => FairBalancer::new(parsed(&t, "generation", balance::Generation::parse)),
    };
    if name == "cpu_power" {
        let cores = t.on("cores");
        balancer.power = cpu_power::CpuPower { original: build_powers(&t, platform)?, cores };
    }
    if name != "cpu_power" {
        balancer.blocked_kicks = t.text("blocked") == "kicks";
        balancer.asym_kicks = t.text("asym_kick") == "5.2";
        balancer.idle_fill_room = t.text("fills_room") == "idle";
        balancer.stronger_first = t.text("stronger") == "first";
        balancer.spreads_pairs = t.text("spread") == "4.10";
        balancer.back_off = parsed(&t, "back_off", balance::BackOff::parse);
    }
    balancer.migration_cost_ns = t.int("migration_cost_ns");
    balancer.nr_migrate = t.int("nr_migrate");
    balancer.eas = eas;
    balancer.boost = boost_of(kernel, "balance");
    (balancer.pass_cost_ns, balancer.pass_cost_per_cpu_ns) = (platform.costs.wakeup_ns, platform.costs.wakeup_ns / 8);
    Ok(balancer)
}

/// `cpu_power` of every CPU.
fn build_powers(t: &Tunables<'_>, platform: &Platform) -> Result<Vec<u32>, RunError> {
    if t.text("source") == "default" {
        return Ok(cpu_power::default_powers(&platform.cpus));
    }
    cpu_power::efficiency_powers(platform).ok_or_else(|| {
        RunError::Kernel(format!(
            "`cpu_power.source` = `efficiency` needs `efficiency` and `dt_clock_khz` of every domain; platform `{}` \
             does not state them: set `cpu_power.source` to `default`, or add them to the platform",
            platform.name
        ))
    })
}

fn build_cpufreq(kernel: &KernelSpec) -> Box<dyn FreqGovernor> {
    let name = chosen(kernel, Slot::Cpufreq);
    let t = Tunables::of(kernel, name);
    match name {
        "performance" => Box::new(cpufreq::performance::Performance::new()),
        "powersave" => Box::new(cpufreq::powersave::Powersave::new()),
        "userspace" => Box::new(cpufreq::userspace::Userspace::new(t.int("setspeed_khz"))),
        "ondemand" => Box::new(Ondemand::new(ondemand::Tunables { dbs: dbs_tunables(&t) })),
        "interactive" => Box::new(Interactive::new(interactive::Tunables {
            hispeed_freq_khz: t.maybe_int("hispeed_freq_khz"),
            go_hispeed_load: t.int("go_hispeed_load"),
            above_hispeed_delay_us: parsed(&t, "above_hispeed_delay_us", interactive::Steps::parse),
            target_loads: parsed(&t, "target_loads", interactive::Steps::parse_from_1),
            min_sample_time_us: t.int("min_sample_time_us"),
            timer_rate_us: t.int("timer_rate_us"),
            timer_slack_us: t.int("timer_slack_us"),
            boost: t.text("boost") == "1",
            boostpulse_every_us: t.int("boostpulse_every_us"),
            boostpulse_duration_us: t.int("boostpulse_duration_us"),
        })),
        "conservative" => Box::new(Conservative::new(conservative::Tunables {
            dbs: dbs_tunables(&t),
            down_threshold: t.int("down_threshold"),
            freq_step_pct: t.int("freq_step_pct"),
        })),
        _ => Box::new(Schedutil::new(schedutil::Tunables {
            generation: parsed(&t, "generation", schedutil::Generation::parse),
            rate_limit_us: t.maybe_int("rate_limit_us"),
            up_down_rate_limit_us: (t.maybe_int("up_rate_limit_us"), t.maybe_int("down_rate_limit_us")),
            hispeed_freq_khz: t.maybe_int("hispeed_freq_khz"),
            iowait_boost_enable: t.maybe_int("iowait_boost_enable").map(|on: u64| on == 1),
            boost: boost_of(kernel, "schedutil"),
        })),
    }
}

/// What the sampling governors share.
fn dbs_tunables(t: &Tunables<'_>) -> DbsTunables {
    DbsTunables {
        generation: parsed(t, "generation", cpufreq_governor::Generation::parse),
        sampling_rate_us: t.maybe_int("sampling_rate_us"),
        up_threshold: t.int("up_threshold"),
        sampling_down_factor: t.int("sampling_down_factor"),
    }
}

fn build_cpuidle(kernel: &KernelSpec, platform: &Platform, tick_ns: u64) -> Box<dyn IdleGovernor> {
    let nr_cpus = platform.nr_cpus();
    let name = chosen(kernel, Slot::Cpuidle);
    let t = Tunables::of(kernel, name);
    let generation = t.policy.tunable("generation").map_or(String::new(), |g| t.text(g.name));
    if name == "teo_weighted" {
        let built = cpuidle::teo_weighted::build(&generation, weighted_tuning(&t), nr_cpus, tick_ns);
        return built.expect("the registry allows only known generations");
    }
    if name == "haltpoll" {
        let built = cpuidle::haltpoll::build(&generation, haltpoll_tuning(&t), nr_cpus);
        return built.expect("the registry allows only known generations");
    }
    let intervals = t.policy.tunable("intervals").map_or(cpuidle::teo::INTERVALS, |own| t.int(own.name));
    let built = cpuidle::build(name, &generation, intervals, nr_cpus, tick_ns);
    built.expect("the registry allows only known generations")
}

fn haltpoll_tuning(t: &Tunables<'_>) -> cpuidle::haltpoll::Tuning {
    cpuidle::haltpoll::Tuning {
        longest_ns: t.int("guest_halt_poll_ns"),
        grow: t.int("guest_halt_poll_grow"),
        grow_start_ns: t.int("guest_halt_poll_grow_start"),
        shrink: t.int("guest_halt_poll_shrink"),
        allow_shrink: t.text("guest_halt_poll_allow_shrink") == "1",
    }
}

fn weighted_tuning(t: &Tunables<'_>) -> cpuidle::teo_weighted::Tuning {
    cpuidle::teo_weighted::Tuning {
        intervals: t.int("intervals"),
        learning_rate: t.maybe_int("learning_rate"),
        dynamic: t.text("rate") == "dynamic",
        aging_ns: t.int::<u64>("aging_ms") * 1_000_000,
        argmax: t.text("pick") == "argmax",
        from_table: t.text("start") == "table",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sysctls_set_nr_latency_where_the_kernel_says_so() {
        let at = |nr: &str| {
            let mut kernel = KernelSpec::default();
            kernel.policies.insert(Slot::Class, "cfs".into());
            let mut set = |name: &str, value: &str| {
                kernel.tunables.insert(format!("cfs.{name}"), wattif_model::kernel::Value::Text(value.into()))
            };
            set("min_granularity_ns", "1000000");
            set("nr_latency", nr);
            build_cfs(&kernel, 8).nr_latency
        };
        // 24 ms by 1 ms.
        assert_eq!((at("ratio"), at("8")), (24, 8));
    }
}
